"""Rules as data: each names what it tests, cites a case, is found on that case's figures, and
stands on the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from advisor.answers.diagnosis.diagnose import judged, try_rule
from advisor.answers.diagnosis.facts import FACTS, UserRun
from advisor.answers.diagnosis.physics import (
    Comparison,
    Kind,
    Limit,
    Rule,
    all_rules,
    compare,
    rule_sets,
)
from advisor.answers.diagnosis.quantities import QUANTITIES, quantity
from advisor.answers.diagnosis.runs import with_prediction
from advisor.answers.diagnosis.verdict import _cause
from advisor.measured.ingest.columns import COLUMNS
from tests.answers.fake_runs import RUN
from tests.golden.diagnose_page import FILE, with_rules

RULES = {rule.id: (kind, rule) for kind, rule in all_rules()}


def unknown_names(names: Iterable[str]) -> list[str]:
    """Names that are neither a fact, a column nor a prediction."""
    known = {*FACTS, *COLUMNS["points"], "prediction"}
    return [name for name in names if name.rpartition(":")[2] not in known]


def run_of(rule: Rule) -> UserRun:
    return with_prediction(UserRun(dict(rule.published.given), plain=dict(rule.published.plain)))


def test_there_are_at_least_twenty_five_rules_and_their_ids_differ() -> None:
    assert len(RULES) >= 25
    assert len(RULES) == len(all_rules())
    assert [one.id for one in rule_sets()] == ["measurement", "configuration", "physics"]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_found_on_its_published_case_and_without_its_facts_says_what_it_lacks(
    name: str,
) -> None:
    kind, rule = RULES[name]
    outcome = try_rule(rule, kind, run_of(rule))
    assert outcome.state == "found", (outcome.evidence, outcome.lacks)
    assert len(outcome.evidence) == len(rule.tests)
    context = {"engine", "draft_tokens_k", "speculation_on", "batch_size"}
    bare = UserRun({key: value for key, value in rule.published.given.items() if key in context})
    outcome = try_rule(rule, kind, bare)
    if outcome.state == "clean":  # arrivals: a batch is what clears it, and the context has one
        assert name in {"arrivals_set_the_batch"} or outcome.evidence
    else:
        assert outcome.state == "not_judged"
        assert outcome.lacks


@pytest.mark.parametrize("name", RULES)
def test_a_rule_speaks_of_quantities_facts_and_rules_that_exist(name: str) -> None:
    _, rule = RULES[name]
    for test in rule.tests:
        tested = [
            quantity(test.quantity),
            *([quantity(test.limit.of)] if test.limit.of is not None else []),
        ]
        assert not unknown_names(
            need for one in tested for needs in one.needs for need in needs.split("|")
        )
    assert set(rule.yields_to) <= {*RULES, *(one.id for one in rule_sets())}
    given = [*rule.published.given, *rule.published.plain]
    assert set(rule.published.assumed) <= set(given)
    assert not [name for name in unknown_names(given) if name != "date"]


@pytest.mark.parametrize("name", RULES)
def test_a_threshold_that_is_a_number_has_a_source(name: str) -> None:
    for test in RULES[name][1].tests:
        assert test.limit.of is not None or len(test.limit.source) > 10


def test_every_quantity_is_used_by_some_rule() -> None:
    used = {
        name
        for _, rule in RULES.values()
        for test in rule.tests
        for name in (test.quantity, test.limit.of)
    }
    assert set(QUANTITIES) <= used


def test_a_limit_is_a_value_or_another_quantity() -> None:
    with pytest.raises(ValueError, match="give a value"):
        Limit()
    with pytest.raises(ValueError, match="give a value"):
        Limit(value=1.0, of="batch_size")


def test_a_rule_that_another_says_better_is_not_named() -> None:
    kind, rule = RULES["requests_wait"]
    alone = run_of(rule)
    both = dict(rule.published.given) | {"batch_size": 100, "max_running_requests": 32}
    assert [one.rule.id for one in judged(alone) if one.state == "found"] == ["requests_wait"]
    assert [one.rule.id for one in judged(UserRun(both)) if one.state == "found"] == [
        "admits_too_few"
    ]
    assert kind == "configuration"


def test_a_rule_of_another_engine_or_of_the_other_arm_is_not_concerned() -> None:
    kind, rule = RULES["sglang_admits_48"]
    given = dict(rule.published.given)
    states: dict[str, Kind | str] = {
        "vllm": try_rule(rule, kind, UserRun(given | {"engine": "vllm"})).state,
        "plain": try_rule(
            rule, kind, UserRun(given | {"draft_tokens_k": 0, "speculation_on": False})
        ).state,
    }
    assert states == {"vllm": "not_concerned", "plain": "not_concerned"}
    unknown = try_rule(
        rule, kind, UserRun({key: value for key, value in given.items() if key != "engine"})
    )
    assert unknown.state == "not_judged"
    assert unknown.lacks == ("engine",)


@pytest.fixture(scope="module")
def predicted() -> Comparison:
    """An honest run of which nothing but its accepted length was measured."""
    return compare(UserRun(RUN))


def measured(predicted: Comparison, name: str, value: float) -> Comparison:
    """The comparison with one quantity measured."""
    rows = (replace(row, measured=value if row.name == name else None) for row in predicted.rows)
    return replace(predicted, rows=tuple(rows))


def test_a_run_is_slower_where_a_time_is_above_its_range_or_a_gain_below(
    predicted: Comparison,
) -> None:
    assert predicted.slower is None, "nothing was measured"
    for name in ("plain", "round"):
        row = predicted.row(name)
        assert row.low < row.predicted < row.high
        values = (0.9 * row.low, row.predicted, 0.99 * row.high, 1.01 * row.high)
        slower = [measured(predicted, name, value).slower for value in values]
        assert slower == [False, False, False, True]
    row = predicted.row("speedup")
    values = (0.99 * row.low, 1.01 * row.low, row.predicted, 1.1 * row.high)
    slower = [measured(predicted, "speedup", value).slower for value in values]
    assert slower == [True, False, False, False]


def test_a_round_is_too_long_by_what_lies_over_the_one_that_explains_the_gain(
    predicted: Comparison,
) -> None:
    """A K that once gained 1.875 accepts as many tokens; of the 2.5 that were predicted with 1.5
    times that leaves 1.125, and .75 is a round of 1.5 times: half too long."""
    rows = tuple(
        replace(row, predicted=1.5) if row.name == "speedup" else row for row in predicted.rows
    )
    published = replace(predicted, rows=rows, accepted_length=2.5, length_from="published")
    lost = measured(published, "speedup", 0.75)
    best = measured(published, "speedup", 1.875)
    cause = _cause(lost, [lost, best], None)
    assert cause["cause"] == "too_long"
    assert cause["slow"] == pytest.approx(0.5)


def test_the_page_s_rules_are_written_from_the_profiles() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert with_rules(text) == text, "run: python -m tests.golden.diagnose_page"
    assert with_rules(text.replace("`graphs_off`", "`graphs_on`")) == text
