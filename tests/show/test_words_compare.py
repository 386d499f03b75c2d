"""Scenarios side by side: rows, names and chart say what differs and what comes of it."""

from __future__ import annotations

import json

import pytest

from advisor.answers.advice import advise
from advisor.predict import ratios
from advisor.predict.load import load_setup
from advisor.predict.ratios import RatioRecord
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.words.compare import (
    comparison_table,
    differing,
    finding,
    setting_lines,
    short_names,
)
from tests.catalog.test_hardware import POD

BASE = Scenario(acceptance="2.4@3")
LARGE = BASE.model_copy(update={"batch_size": 256})
WIDE = BASE.model_copy(update={"n_gpus": 4, "tensor_parallel": 4, "hardware_id": "h100-sxm"})
ADVICES = [advise(scenario) for scenario in (BASE, LARGE, WIDE)]


def test_only_what_differs_is_listed_before_the_answers() -> None:
    table = comparison_table(ADVICES, "abc")
    assert table.header == ("", "a", "b", "c")
    assert table.cells[:4] == [
        ("Accelerator", "h200-sxm", "h200-sxm", "h100-sxm"),
        ("GPUs", "1", "1", "4"),
        ("Tensor parallel", "1", "1", "4"),
        ("Batch", "16", "256", "16"),
    ]
    answers = {label: values for label, *values in table.cells[4:]}
    for column, advice in enumerate(ADVICES):
        answer = advice.recommendation
        assert answers["Draft length K"][column] == str(answer.n_draft)
        assert answers["Speedup"][column] == f"{answer.speedup.value:.2f}x"
        assert (
            answers["80% range"][column] == f"{answer.speedup.low:.2f} to {answer.speedup.high:.2f}"
        )
        assert answers["Time per output token"][column] == f"{answer.tpot_s * 1e3:.2f} ms"
        assert answers["Tokens/s per GPU"][column] == f"{answer.tokens_per_s_per_gpu:,.0f}"


def test_names_come_from_what_differs_and_are_never_alike_nor_are_accelerators_of_one_name() -> (
    None
):
    assert short_names([BASE, LARGE]) == ("batch 16", "batch 256")
    assert short_names([BASE, WIDE]) == ("h200-sxm, GPUs 1", "h100-sxm, GPUs 4")
    alike = [
        LARGE,
        BASE.model_copy(update={"model_id": "mixtral-8x7b", "hardware_id": "l40s"}),
        BASE,
    ]
    names = short_names([*alike, alike[1].model_copy(update={"batch_size": 3})])
    assert len(set(names)) == 4
    assert len(set(short_names([BASE, BASE]))) == 1
    mine = [
        Scenario(
            acceptance="2@3",
            hardware_id="own-pod",
            hardware_json=json.dumps(POD | {"memory_bytes": size}),
        )
        for size in (1e11, 2e11)
    ]
    assert differing(mine) == ["hardware_id"]
    first, second = short_names(mine)
    assert first != second
    assert first.startswith("own-pod (own, ")


def test_a_limit_reads_as_in_reports_and_one_that_is_not_set_has_no_unit() -> None:
    limited = BASE.model_copy(update={"max_tpot_ms": 9.0})
    assert short_names([BASE, limited]) == ("limit not set", "limit 9 ms")
    assert setting_lines(load_setup(limited))["Limit"] == "9 ms per output token"


def test_the_finding_names_who_wins_each_of_the_three() -> None:
    names = short_names([advice.scenario for advice in ADVICES])
    answers = [advice.recommendation for advice in ADVICES]
    highest = max(range(3), key=lambda i: answers[i].speedup.value)
    fastest = min(range(3), key=lambda i: answers[i].tpot_s)
    busiest = max(range(3), key=lambda i: answers[i].tokens_per_s_per_gpu)
    said = finding(ADVICES, names)
    assert highest != fastest
    pieces = {piece.split(" has ")[0]: piece for piece in said.removesuffix(".").split("; ")}
    assert f"the highest speedup ({answers[highest].speedup.value:.2f}x)" in pieces[names[highest]]
    assert (
        f"the shortest time per output token ({answers[fastest].tpot_s * 1e3:.2f} ms)"
        in pieces[names[fastest]]
    )
    rate = f"{answers[busiest].tokens_per_s_per_gpu:,.0f}"
    assert f"the most tokens/s per GPU ({rate})" in pieces[names[busiest]]
    assert finding([ADVICES[1]], ["only"]).count("only") == 1


def test_the_finding_says_which_order_measured_pairs_do_not_bear_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = Scenario(acceptance="2.4@3")
    pair = [advise(base), advise(base.model_copy(update={"engine": "sglang"}))]
    first, second = sorted(pair, key=lambda advice: advice.recommendation.tpot_s)
    names = [advice.scenario.engine for advice in (first, second)]
    off = second.recommendation.tpot_s / first.recommendation.tpot_s - 1.0
    assert off > 0.0

    def said(right: float, far: float) -> str:
        known = (RatioRecord("engine", "sglang", "", 99, 5, 90, right, 1 / far, far),)
        monkeypatch.setattr(ratios, "read_ratios", lambda: known)
        return finding([first, second], names)

    assert f"Whether {names[0]} is faster than {names[1]} is open" in said(0.5, 1.5)
    assert "in the right direction in 50% of 90 measured pairs" in said(0.5, 1.5)
    assert f"differ in time per output token by {off:.0%}, within the" in said(
        0.9, 1.1 * (1.0 + off)
    )
    assert "measured" not in said(0.9, 1.0 + off / 2)


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_or_too_many_are_refused(count: int) -> None:
    with pytest.raises(AdvisorError, match="two to 4"):
        comparison_table([ADVICES[0]] * count, "a" * count)
