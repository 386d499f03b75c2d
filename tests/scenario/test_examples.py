"""The named examples: each has an answer on measured kernels, fits its GPUs, and says where its numbers come from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.catalog.models import model_ids
from advisor.physics.acceptance import acceptance_curves
from advisor.predict.curve import DEFAULT_BATCHES, speedup_curve
from advisor.predict.scenario import example_ids, load_example
from advisor.prediction import AdvisorError, Tier

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", example_ids())
def test_an_example_runs_fits_and_names_its_accepted_length(name: str) -> None:
    example = load_example(name)
    advice = advise(example.scenario)
    assert advice.recommendation.speedup.tier.rank <= Tier.FITTED.rank
    assert advice.recommendation.n_draft > 0
    assert advice.setup.memory.largest_batch >= example.scenario.batch_size
    assert not advice.setup.acceptance.borrowed
    curves = {curve.id: curve for curve in acceptance_curves()}
    is_curve = example.scenario.acceptance in curves
    assert example.acceptance_origin == ("measured curve" if is_curve else "published value")
    if is_curve:
        curve = curves[example.scenario.acceptance]
        assert (curve.model_id, curve.drafter_id) == (example.scenario.model_id, example.scenario.drafter_id)


def test_there_is_one_for_each_kind_of_model() -> None:
    families = {load_example(name).scenario.model_id.split("-")[0].rstrip("0123456789.") for name in example_ids()}
    assert families == {"mixtral", "deepseek", "qwen", "command"}
    assert all(load_example(name).scenario.model_id in model_ids() for name in example_ids())


def test_the_mixtral_value_is_the_share_that_the_paper_gives() -> None:
    import csv

    with (ROOT / "measurements/moesd_cells/data.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model_id"] == "mixtral-8x7b"]
    sigma = next(
        float(row["sigma"])
        for row in rows
        if (row["dataset"], row["temperature"], row["draft_tokens_gamma"]) == ("HumanEval", "0.0", "3")
    )
    scenario = load_example("mixtral").scenario
    assert scenario.acceptance == f"{4 * sigma:.2f}@3"
    assert {(row["hardware_id"], int(row["gpu_count"])) for row in rows} == {(scenario.hardware_id, scenario.n_gpus)}


def test_command_a_plus_has_the_published_lengths() -> None:
    lengths = advise(load_example("command-a-plus").scenario).setup.acceptance.accepted_length
    assert lengths == pytest.approx([1, 1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25], abs=2e-3)


def compared(name: str) -> str:
    """How today's prediction compares with what an example's sources measured on it, in the words of its first line."""
    example = load_example(name)
    ratios = []
    for one in example.measured:
        batches = [one.batch_size] if one.batch_size else [b for b in DEFAULT_BATCHES if b <= 100]
        curve = speedup_curve(example.scenario, batches, [one.n_draft])
        ratios.append(np.log(curve.speedup[:, 0].max() / one.speedup))
    off = float(np.exp(np.mean(ratios)) - 1.0)
    return "predicted the same" if abs(off) <= 0.1 else "predicted higher" if off > 0 else "predicted lower"


@pytest.mark.parametrize("name", example_ids())
def test_an_example_that_cites_measured_speedups_says_in_its_first_line_how_it_compares(name: str) -> None:
    example = load_example(name)
    said = re.search(r"predicted [a-z ]+(?=\.$)", example.description)
    assert (said is None) == (not example.measured)
    if said is not None:
        assert said[0] == compared(name), "the first line of the example is no longer true"
        assert f"{max(one.speedup for one in example.measured):.3g}x" in example.description


def test_the_speedups_that_mixtral_cites_are_the_papers() -> None:
    import csv

    with (ROOT / "measurements/moesd_cells/data.csv").open(encoding="utf-8") as file:
        cells = [row for row in csv.DictReader(file) if row["model_id"] == "mixtral-8x7b"]
    published = {
        int(row["draft_tokens_gamma"]): float(row["speedup_peak"])
        for row in cells
        if (row["dataset"], row["temperature"]) == ("HumanEval", "0.0")
    }
    assert {one.n_draft: one.speedup for one in load_example("mixtral").measured}.items() <= published.items()


def test_an_unknown_example_is_refused_with_the_closest() -> None:
    with pytest.raises(AdvisorError, match="did you mean mixtral"):
        load_example("mixtrall")


def test_every_example_is_documented() -> None:
    text = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| (?:published|measured)", text, flags=re.M)) == set(example_ids())
