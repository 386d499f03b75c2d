"""A run that disappoints: rules tried on it, and all that a verdict on it rests on: is it measured
right, configured to win, or physics?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from advisor.answers.best_k import DraftRow
from advisor.answers.diagnosis.facts import UserRun
from advisor.answers.diagnosis.physics import (
    HOLDS,
    Change,
    Comparison,
    Condition,
    Kind,
    Rule,
    all_rules,
    as_number,
    remedy_values,
)
from advisor.answers.diagnosis.quantities import Value, quantity
from advisor.answers.diagnosis.runs import (
    LoadedRuns,
    UserFile,
    UserInput,
    differences,
    read_runs,
)
from advisor.answers.diagnosis.verdict import (
    Verdict,
    baseline_off,
    cheapest_missing,
    decided_k,
    judge,
)
from advisor.predict.scenario import Scenario

State = Literal["found", "clean", "not_judged", "not_concerned"]


@dataclass(frozen=True)
class Evidence:
    """One test of a rule, and what was measured."""

    test: Condition
    value: Value
    limit: Value
    """The test's, worked out where it is a multiple of a quantity."""

    @property
    def unit(self) -> str:
        """Unit of both."""
        return quantity(self.test.quantity).unit


@dataclass(frozen=True)
class RuleOutcome:
    """Result of one rule on one run."""

    rule: Rule
    kind: Kind
    run: UserRun
    state: State
    evidence: tuple[Evidence, ...] = ()
    lacks: tuple[str, ...] = ()
    """Facts that it would need, `a|b` where either does; of a run in which a quantity of known
    facts has no value, `told:` and its name."""


def judged(run: UserRun) -> list[RuleOutcome]:
    """Every rule tried on a run. Of the found ones those that another says better are clean."""
    outcomes = [try_rule(rule, kind, run) for kind, rule in all_rules()]
    in_run = [outcome for outcome in outcomes if outcome.state == "found"]
    ids = {outcome.rule.id for outcome in in_run}
    # A kind of rules says more only where one of it stays: arms that differ in what a rule of
    # settings names do not.
    matched = ids | {outcome.kind for outcome in in_run if not ids & set(outcome.rule.yields_to)}
    return [
        RuleOutcome(outcome.rule, outcome.kind, run, "clean", outcome.evidence)
        if outcome.state == "found" and matched & set(outcome.rule.yields_to)
        else outcome
        for outcome in outcomes
    ]


def try_rule(rule: Rule, kind: Kind, run: UserRun) -> RuleOutcome:
    """One rule on one run. A test that fails clears it, whatever is unknown of the others."""
    lacking = _not_concerned(rule, run)
    if lacking is None:
        return RuleOutcome(rule, kind, run, "not_concerned")
    evidence = []
    missing = list(lacking)
    cleared = False
    for test in rule.tests:
        value, limit, needs = _measured(test, run)
        if isinstance(value, str) and not isinstance(limit, str):  # a number that is none
            value = None
        if value is None or limit is None:
            unknown = [need for need in needs if not run.has(need)]
            missing += unknown or [f"told:{test.quantity}"]
            continue
        evidence.append(Evidence(test, value, limit))
        cleared |= not HOLDS[test.test](value, limit)
    if cleared and not lacking:
        return RuleOutcome(rule, kind, run, "clean", tuple(evidence))
    if missing:
        lacks = tuple(dict.fromkeys(missing))
        return RuleOutcome(rule, kind, run, "not_judged", tuple(evidence), lacks)
    return RuleOutcome(rule, kind, run, "found", tuple(evidence))


def _not_concerned(rule: Rule, run: UserRun) -> list[str] | None:
    """None where a rule speaks of other engines or of the other run. Else what is unknown of
    that."""
    lacking = []
    if rule.engines and run.text("engine") not in rule.engines:
        if run.text("engine"):
            return None
        lacking.append("engine")
    if rule.arm != "any":
        if run.value("draft_tokens_k") is None and run.value("speculation_on") is None:
            lacking.append("draft_tokens_k")
        elif run.drafts != (rule.arm == "speculative"):
            return None
    return lacking


def _measured(test: Condition, run: UserRun) -> tuple[Value, Value, tuple[str, ...]]:
    """(value, limit, what both need)."""
    tested = quantity(test.quantity)
    if test.limit.of is None:
        return tested.of(run), test.limit.value, tested.needs
    against = quantity(test.limit.of)
    limit = against.of(run)
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        limit = limit * test.limit.times
    return tested.of(run), limit, (*tested.needs, *against.needs)


@dataclass(frozen=True)
class Finding:
    """A rule that was found: where, with the values of the first run that it was found in."""

    rule: Rule
    kind: Kind
    places: tuple[str, ...]
    """`file, line` of every run it was found in."""
    evidence: tuple[Evidence, ...]
    values: Mapping[str, Any]
    """`remedy_values` of the first run."""
    counts: bool = True
    """It touches a number that the comparison uses."""
    differences: tuple[tuple[str, Any, Any], ...] = ()
    """Settings in which that run and its baseline differ: name, baseline's, run's."""

    @property
    def change(self) -> Change:
        """Options of the launch line to change. Empty where the remedy is another."""
        return self.rule.change_for(self.values)


@dataclass(frozen=True)
class Diagnosis:
    """Everything that a page or a terminal shows of diagnosed runs."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    clean: tuple[Rule, ...]
    """Rules that were judged and found nothing."""
    not_judged: tuple[RuleOutcome, ...]
    result: LoadedRuns
    launch_line: str
    """Of the run that the first finding is of, else of the first one that drafts. Empty where it is
    not known."""
    changes: tuple[Change, ...]
    """Changes of that line that the findings of its run ask for."""

    @property
    def comparisons(self) -> tuple[tuple[str, Comparison], ...]:
        """Each predicted run beside its measurement, by `file, line`."""
        runs = self.result.runs
        return tuple((run.place, run.comparison) for run in runs if run.comparison is not None)


def diagnose(
    files: Sequence[UserFile],
    values: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    otherwise: Mapping[str, str] | None = None,
    source: str = "scenario",
    scenario: Scenario | None = None,
) -> Diagnosis:
    """Diagnose a run: faults found, verdict and comparison with its prediction, as far as its files
    tell.

    files : benchmark results of any known tool, launch lines, printed server arguments and logs, in
        any mixture.
    values : columns that the files lack, by name, as `ingest --set` takes them.
    columns : headers that mean a column of ours, as `ingest --map` takes them.
    configs : config.json texts of models without a profile, by the name that the runs use.
    otherwise : columns that hold only where neither the files nor `values` say them.
    source : where `otherwise` is from, `bar` or `scenario`.
    scenario : tells of runs of its model and drafter what no column does: accepted length, context,
        formats.
    Raises AdvisorError when nothing in the files can be read, or a value is none of its column.
    """
    words = UserInput(values or {}, columns or {}, otherwise or {}, source, scenario)
    result = read_runs(files, words, configs or {})
    outcomes = [outcome for run in result.runs for outcome in judged(run)]
    compared = [run.comparison for run in result.runs if run.comparison is not None]
    if baseline_off(compared) is not None:  # physics finds such a server slow since it is another
        outcomes = [
            outcome
            for outcome in outcomes
            if outcome.rule.expected or (outcome.state, outcome.kind) != ("found", "physics")
        ]
    stated_batch = as_number((values or {}).get("batch_size"))
    by_rule = [
        [outcome for outcome in outcomes if outcome.state == "found" and outcome.rule.id == rule.id]
        for _, rule in all_rules()
    ]
    groups = [_of_batch(of_rule, stated_batch) for of_rule in by_rule if of_rule]
    beside = [group for group in groups if all(_is_beside(each, result.runs) for each in group)]
    counted = [group[0] for group in groups if group not in beside]
    fixed = None if result.contradicted else _fixed(counted)
    findings = tuple(_finding(group, fixed) for group in groups)
    clean, not_judged = _by_rule(outcomes)
    of_beside = [group[0].rule.id for group in beside]
    faults = [
        finding
        for finding in findings
        if not finding.rule.expected and finding.counts and finding.rule.id not in of_beside
    ]
    losing = [group[0].run.comparison for group in groups if group[0].rule.expected]
    verdict = judge(
        result,
        [(finding.kind, finding.rule.id) for finding in faults],
        losing=next(iter(losing), None),
        fixed=fixed,
        asked=stated_batch,
        missing=cheapest_missing(outcome.lacks for outcome in not_judged),
        beside=of_beside,
    )
    places = [
        *(finding.places[0] for finding in findings),
        *(run.place for run in result.runs if run.drafts),
        "",
    ]
    lines = (run.value("launch_line") for run in result.runs if run.place == places[0])
    return Diagnosis(
        verdict=verdict,
        findings=findings,
        clean=clean,
        not_judged=not_judged,
        result=result,
        launch_line=next((line for line in lines if isinstance(line, str)), ""),
        changes=tuple(finding.change for finding in findings if places[0] in finding.places),
    )


def _is_beside(outcome: RuleOutcome, runs: Sequence[UserRun]) -> bool:
    """Whether a fault of the settings is of a K that neither measured speedups nor the model would
    draft at that batch: its remedy changes nothing that is served."""
    comparison = outcome.run.comparison
    if outcome.kind != "configuration" or outcome.rule.expected or comparison is None:
        return False
    k = comparison.n_draft
    best = decided_k(runs, comparison).get(comparison.batch_size, 0)
    return best not in (0, k) and comparison.recommended.n_draft != k


def _of_batch(outcomes: Sequence[RuleOutcome], asked: float | None) -> list[RuleOutcome]:
    """Outcomes of a rule, those at the batch that the user names first."""
    return sorted(outcomes, key=lambda outcome: outcome.run.number("batch_size") != asked)


def _finding(outcomes: Sequence[RuleOutcome], fixed: DraftRow | None) -> Finding:
    first = outcomes[0]
    run = first.run
    k = run.number("draft_tokens_k") or 0 if fixed is None else fixed.n_draft
    comparison = run.comparison
    admitted = max(run.number("max_num_seqs") or 0, run.number("max_running_requests") or 0)
    values = remedy_values(
        run.text("engine"),
        None if comparison is None else comparison.recommended.n_draft,
        run.number("batch_size") or 0,
        k,
        admitted,
    )
    tested = {test.quantity for test in first.rule.tests}
    is_of_arms = "differences_of_arms" in tested
    return Finding(
        first.rule,
        first.kind,
        tuple(dict.fromkeys(outcome.run.place for outcome in outcomes)),
        first.evidence,
        values,
        any(_touches(outcome) for outcome in outcomes),
        tuple(differences(run.facts, run.plain)) if is_of_arms else (),
    )


_TIMES = ("tpot_s", "step_time_s", "output_tok_per_s")
_COMPARED = ("batch_size", "draft_tokens_k", "accepted_length")


def _touches(outcome: RuleOutcome) -> bool:
    """Whether a finding makes a number wrong that a comparison uses: batch, K, accepted length and
    the time, or the rate where no time was measured."""
    run = outcome.run
    time = next((name for name in _TIMES if run.has(name)), None)
    return outcome.kind != "measurement" or not {*_COMPARED, time}.isdisjoint(outcome.rule.touches)


def _fixed(outcomes: Sequence[RuleOutcome]) -> DraftRow | None:
    """The K that is faster once a misconfigured run is fixed. None without such a fault, or where
    its own is."""
    faults = [outcome for outcome in outcomes if not outcome.rule.expected and _touches(outcome)]
    if not faults or faults[0].kind != "configuration" or faults[0].run.comparison is None:
        return None
    comparison = faults[0].run.comparison
    return comparison.recommended if comparison.faster_k else None


def _by_rule(
    outcomes: Sequence[RuleOutcome],
) -> tuple[tuple[Rule, ...], tuple[RuleOutcome, ...]]:
    """Rules that found nothing anywhere: those judged in some run, and those judged in none."""
    clean: dict[str, Rule] = {}
    waiting: dict[str, RuleOutcome] = {}
    matched_ids = {outcome.rule.id for outcome in outcomes if outcome.state == "found"}
    for outcome in outcomes:
        if outcome.rule.id in matched_ids:
            continue
        if outcome.state == "clean":
            clean.setdefault(outcome.rule.id, outcome.rule)
        elif outcome.state == "not_judged":
            waiting.setdefault(outcome.rule.id, outcome)
    open_outcomes = [outcome for name, outcome in waiting.items() if name not in clean]
    return tuple(clean.values()), tuple(open_outcomes)
