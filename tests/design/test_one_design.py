"""One design for several targets: the least expected loss against each target's own best, and honest words about it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.candidates import Band
from advisor.answers.design.cells import Place, scenario_at
from advisor.answers.design.regions import OneDesign, one_design, parse_targets
from advisor.answers.design.search import design_space
from advisor.prediction import AdvisorError
from advisor.show.words.design import (
    against_baseline,
    choices_table,
    loss_words,
    one_design_document,
    one_design_rows,
    one_design_table,
    one_design_verdict,
    percent,
)
from tests.command_line import run
from tests.design.test_regions import GRID, scenario

BOTH = ("h100-sxm:8", "b200-sxm:128")


@lru_cache(maxsize=8)
def one(*targets: str, **question: Any) -> OneDesign:
    return one_design(scenario(), parse_targets(targets), grid=GRID, **question)


def test_one_target_gives_that_target_s_own_answer_and_loses_nothing() -> None:
    found = one("b200-sxm:128")
    alone = design_space(scenario_at(scenario(), Place("b200-sxm")), batches=[128], grid=GRID)
    assert found.best is not None
    assert found.best.index == alone.best
    at = found.best.at[0]
    assert (at.loss, at.low, at.high, at.expected) == (0.0, 0.0, 0.0, 0.0)
    assert (found.best.expected, found.best.worst) == (0.0, 0.0)
    assert at == found.own[0]
    assert "the best design of that target alone" in one_design_verdict(found)


def test_the_one_design_has_the_least_mean_of_expected_losses_and_none_is_negative() -> None:
    found = one(*BOTH)
    means = [choice.expected for choice in found.choices]
    assert means == sorted(means)
    assert found.choices[0].expected == pytest.approx(np.mean([max(at.expected, 0.0) for at in found.choices[0].at]))
    assert found.least_worst is not None
    assert all(found.least_worst.worst <= choice.worst for choice in found.choices)
    assert all(at.loss >= 0.0 for choice in found.choices for at in choice.at)
    assert found.baseline is not None
    assert found.baseline.expected >= found.choices[0].expected


def test_the_design_serves_every_target_and_loss_is_what_its_times_say() -> None:
    found = one(*BOTH)
    assert found.best is not None
    for at, own in zip(found.best.at, found.own, strict=True):
        assert own is not None
        assert at.loss == pytest.approx(1.0 - own.tpot_s / at.tpot_s, abs=1e-6)
        space = found.cells.space(at.cell)
        assert space.largest_batch[at.index] >= found.cells.batches[at.cell]


def test_the_order_of_targets_changes_nothing_and_one_named_twice_counts_once() -> None:
    there, back = one(*BOTH), one(*reversed(BOTH))
    assert there.best is not None
    assert back.best is not None
    assert there.best.index == back.best.index
    assert [at.loss for at in back.best.at] == [at.loss for at in reversed(there.best.at)]
    assert [str(target) for target in parse_targets((*BOTH, BOTH[0]))] == list(BOTH)


def test_the_same_accelerator_at_two_batches_is_one_search() -> None:
    found = one("h200-sxm:64", "h200-sxm:4")
    assert len(found.cells.spaces) == 1
    assert [found.cells.batches[cell] for cell in found.cell_of] == [64, 4]


def test_by_the_speculative_speedup_losses_are_of_the_speedup() -> None:
    found = one(*BOTH, objective="sd_speedup")
    assert found.best is not None
    for at, own in zip(found.best.at, found.own, strict=True):
        assert own is not None
        assert at.loss == pytest.approx(1.0 - at.speedup / own.speedup, abs=1e-6)


def test_bands_that_include_no_loss_are_not_told_as_a_better_design() -> None:
    found = one(*BOTH)
    assert found.best is not None
    within = [replace(at, loss=0.03, low=-0.05, high=0.1) for at in found.best.at]
    beyond = [within[0], replace(within[1], loss=0.2, low=0.1, high=0.3)]
    for at, said in ((within, "would not clearly be better"), (beyond, "clearly better at batch 128 on NVIDIA B200")):
        told = replace(found, choices=(replace(found.best, at=tuple(at)),))
        assert said in one_design_verdict(told)


def test_a_gain_whose_band_includes_one_is_no_clear_gain() -> None:
    found = one(*BOTH)
    assert found.best is not None
    first, second = found.best.at
    assert first.gain is not None
    assert second.gain is not None

    def told(*lows: float) -> OneDesign:
        at = [
            replace(each, gain=replace(first.gain, low=low))  # type: ignore[type-var]
            for each, low in zip(found.best.at, lows, strict=True)  # type: ignore[union-attr]
        ]
        return replace(found, choices=(replace(found.best, at=tuple(at)),))  # type: ignore[type-var]

    assert told(1.01, 1.01).is_clear
    assert "clearly better at every target" in against_baseline(told(1.01, 1.01))
    assert not told(1.01, 0.99).is_clear
    assert "it is not clearly better: the band includes 1" in against_baseline(told(1.01, 0.99))
    assert "It is not clearly better than the baseline anywhere: every band includes 1." in against_baseline(
        told(0.9, 0.99)
    )
    slow = replace(found.best.at[1], gain=Band(0.88, 0.83, 0.95, 0.0))
    mixed = replace(found, choices=(replace(found.best, at=(first, slow)),))
    assert "At batch 128 on NVIDIA B200 SXM (HGX/DGX) it is clearly worse" in against_baseline(mixed)
    assert one_design_document(mixed)["clear"] is False


def test_targets_that_no_design_serves_say_which_and_what_to_do() -> None:
    found = one("h100-sxm:8", "h100-sxm:256")
    assert found.best is None
    assert not found.is_clear
    said = one_design_verdict(found)
    assert "batch 256 on NVIDIA H100 SXM5 80GB: does not fit in memory" in said
    assert "2xACCELERATOR:BATCH" in said
    assert against_baseline(found) == ""
    assert one_design_table(found)[1][1][1] == "does not fit in memory"
    assert choices_table(found)[1] == []
    assert one_design_document(found)["best"] is None


@pytest.mark.parametrize(
    ("target", "limits", "why", "advised", "not_advised"),
    [
        ("h100-sxm:256", {}, "does not fit in memory", "a smaller format", "limit on time"),
        ("b200-sxm:8", {"max_tpot_ms": 0.1}, "over the limit on time per token", "a longer limit", "a smaller format"),
        ("b200-sxm:8", {"max_total_params": 1e8}, "no design keeps every limit", "loosen those on", "more GPUs"),
    ],
)
def test_targets_of_which_no_design_serves_any_say_why_and_advise_by_it(
    target: str, limits: dict[str, float], why: str, advised: str, not_advised: str
) -> None:
    found = one(target, **limits)
    assert (found.best, found.own, found.choices) == (None, (None,), ())
    assert found.cells.why_not(0) == why
    said = one_design_verdict(found)
    assert why in said
    assert advised in said
    assert not_advised not in said
    assert one_design_rows(found) == []
    assert one_design_document(found)["own"][0]["why_not"] == why


def test_the_command_answers_a_target_that_no_design_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["design", "--model", "qwen3-30b-a3b", "--drafter", "eagle3", "--accepted-length", "2.4@3"]
    asked += ["--experts", "64,128", "--active", "4,8", "--shared", "0", "--target", "h100-sxm:256"]
    status, out, _ = run(capsys, *asked, "--csv", tmp_path / "one.csv")
    assert status == 0
    assert out.startswith("No design serves batch 256 on NVIDIA H100")
    assert "does not fit in memory" in out


def test_more_gpus_at_one_target_serve_what_one_cannot() -> None:
    found = one("h100-sxm:8", "2xh100-sxm:256")
    assert found.best is not None
    assert found.cells.spaces[1].setup.placement.gpus == 2


@pytest.mark.parametrize("text", ["h100-sxm", "h100-sxm:0", "h100-sxm:x", ":8", "h100-sxm:8:9", "h100-sxm:999999"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(AdvisorError, match=r"ACCELERATOR:BATCH|unknown"):
        parse_targets([text])


def test_words_of_a_loss_never_say_minus_nothing() -> None:
    found = one(*BOTH)
    assert found.own[0] is not None
    assert loss_words(found.own[0]) == "nothing: it is the best there"
    assert (percent(-1e-9), percent(0.0304), percent(-0.05)) == ("0.0%", "3.0%", "-5.0%")


def test_the_command_answers_writes_csv_and_the_design_s_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, config = tmp_path / "one.csv", tmp_path / "config.json"
    asked = ["design", "--model", "qwen3-30b-a3b", "--drafter", "eagle3", "--accepted-length", "2.4@3"]
    asked += ["--experts", "64,128,256", "--active", "4,8,20", "--shared", "0,1", "--width-step", "64"]
    asked += [word for target in BOTH for word in ("--target", target)]
    status, out, _ = run(capsys, *asked, "--csv", table, "--config", config, "--json")
    assert status == 0
    document = json.loads(out)
    best = document["best"]
    assert [each["target"] for each in best["targets"]] == list(BOTH)
    assert json.loads(config.read_text("utf-8"))["num_experts"] == best["n_experts"]
    with table.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    first = [row for row in rows if row["rank"] == "1"]
    assert [float(row["loss"]) for row in first] == pytest.approx([each["loss"] for each in best["targets"]], rel=1e-5)
    assert {row["rank"] for row in rows} >= {"1", "own best"}
    _, out, _ = run(capsys, *asked)
    assert document["verdict"] in out
    assert document["quality"] in out
    assert "(baseline)" in out


def test_rows_hold_every_choice_at_every_target_with_its_tier() -> None:
    found = one(*BOTH)
    rows = one_design_rows(found)
    assert len(rows) == 2 * len(found.choices) + 2
    assert all(row["tier"] == "fitted" for row in rows)


def test_a_target_may_be_named_as_a_page_shows_it() -> None:
    named = parse_targets(("H100 SXM:8", "2xB200 SXM:128"), "")
    assert named == parse_targets(("h100-sxm:8", "2xb200-sxm:128"), "")
    with pytest.raises(AdvisorError, match="'H9000 SXM' is unknown"):
        parse_targets(("H9000 SXM:8",), "")
