"""A design question from nothing: typed shapes and target sizes."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.answers.design.grid import Mixes, moe_shape, shared_experts, weights
from advisor.answers.design.start import (
    SHAPE_EXAMPLE,
    parse_shape,
    shape_config,
    start_from_shape,
    start_from_size,
)
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model
from advisor.cli import main
from advisor.physics.architecture import Architecture, parameter_counts
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

PLAIN = Scenario(hardware_id="h200-sxm", acceptance="2.4@3", batch_size=32)


def architecture_of(scenario: Scenario) -> Architecture:
    return load_setup(scenario).architecture


def test_a_typed_shape_is_the_architecture_it_says() -> None:
    start = start_from_shape(PLAIN, SHAPE_EXAMPLE)
    found = architecture_of(start.scenario)
    moe = found.moe
    assert (moe.count, found.hidden_size, moe.n_experts, moe.n_active) == (61, 7168, 256, 8)
    assert (moe.n_shared, moe.shared_width, moe.expert_width) == (1, 2048, 2048)
    assert found.dense == ()
    assert start.scenario.model_id == "61L-h7168-N256-k8-s1-w2048"
    assert start.facts["shape"] == SHAPE_EXAMPLE
    assert start.facts["heads_assumed"]
    assert start.facts["vocabulary_assumed"]


def test_order_case_commas_and_further_parts_do_not_matter() -> None:
    plain = parse_shape(SHAPE_EXAMPLE)
    assert parse_shape("w2048, K8, n256, S1, H7168, 61l") == plain
    assert parse_shape("61L h7168 N256 k8 w2048").n_shared == 0
    full = parse_shape(f"{SHAPE_EXAMPLE} a64 g4 d192 v129280 m1")
    assert (full.query_heads, full.kv_heads, full.head_dim, full.vocabulary, full.mtp_modules) == (
        64,
        4,
        192,
        129280,
        1,
    )
    assert architecture_from_config(shape_config(full), "x").mtp_modules == 1
    typed = start_from_shape(PLAIN, f"{SHAPE_EXAMPLE} a64 g4 d128 v129280").facts
    assert not typed["heads_assumed"]
    assert not typed["vocabulary_assumed"]


def test_a_shipped_model_typed_by_its_numbers_has_its_size() -> None:
    """Qwen3-30B-A3B: 48 layers, 32 heads of 128 and 4 with keys and values."""
    typed = architecture_of(
        start_from_shape(PLAIN, "48L h2048 N128 k8 s0 w768 a32 g4 d128").scenario
    )
    own = parameter_counts(load_model("qwen3-30b-a3b"))
    found = parameter_counts(typed)
    assert found.total == pytest.approx(own.total, rel=1e-3)
    assert found.active_nonembedding == pytest.approx(own.active_nonembedding, rel=1e-3)


TOTAL = {"total_params": 4e10}
ACTIVE = {"active_params": 3e9}


@pytest.mark.parametrize("target", [TOTAL, ACTIVE, {"total_params": 2e11}, TOTAL | ACTIVE])
def test_a_target_size_is_met_by_a_start_that_says_what_it_is(target: dict[str, float]) -> None:
    start = start_from_size(PLAIN, **target)
    found = architecture_of(start.scenario)
    counts = parameter_counts(found)
    layers = sum(mixer.count for mixer in found.mixers)
    for name, size in target.items():
        assert (
            counts.total if name == "total_params" else counts.active_nonembedding
        ) == pytest.approx(size, rel=0.05)
    told = start.facts
    assert told["chosen"] in ("newest", "nearest")
    assert (told["total"], told["active"]) == (counts.total, counts.active_nonembedding)
    assert (told["depth"], told["hidden_size"]) == (layers, found.hidden_size)
    assert sum(count for _, count in told["layers"]) == layers


@pytest.mark.parametrize("total", [2e10, 4e10, 2e11])
def test_a_start_is_the_nearest_to_its_size_that_widths_in_steps_of_16_give(total: float) -> None:
    start = start_from_size(PLAIN, total)
    found = architecture_of(start.scenario)
    moe = found.routed
    assert moe.expert_width % 16 == 0
    size = {}
    for width in (moe.expert_width - 16, moe.expert_width, moe.expert_width + 16):
        mix = Mixes.of(moe.n_experts, moe.n_active, shared_experts(moe))
        size[width] = float(weights(found, moe_shape(found, mix, width)).total[0])
    assert min(size, key=lambda width: abs(np.log(size[width] / total))) == moe.expert_width
    assert start.facts["multiple"] == 16


@pytest.mark.parametrize("target", [{}, {"total_params": -1.0}, {"active_params": float("nan")}])
def test_no_size_or_a_wrong_one_is_refused_with_what_to_give(target: dict[str, float]) -> None:
    with pytest.raises(AdvisorError, match="give a target size as a positive number"):
        start_from_size(PLAIN, **target)


def test_a_size_that_no_shipped_model_comes_near_is_refused() -> None:
    with pytest.raises(
        AdvisorError, match=r"no shipped model can be widened or thinned to 0\.001 B total"
    ):
        start_from_size(PLAIN, total_params=1e6)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "design",
                "--hardware",
                "h200-sxm",
                "--accepted-length",
                "2.4@3",
                "--batch",
                "32",
                *arguments,
            ]
        )
    written = capsys.readouterr()
    return int(stop.value.code or 0), written.out, written.err


SMALL = ("--experts", "64,128", "--active", "4,8", "--shared", "0,1", "--drafter", "eagle3")


def test_the_command_needs_no_model_where_a_shape_or_a_size_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, *SMALL, "--shape", "48L h2048 N128 k8 w768")
    assert code == 0, err
    assert out.startswith("Start: 48L h2048 N128 k8 s0 w768. Assumed: 16 attention heads of 128")
    code, out, err = run(capsys, *SMALL, "--target-total", "4e10")
    assert code == 0, err
    assert out.startswith("Start: layers of ")
    code, _, err = run(capsys, *SMALL)
    assert code != 0
    assert "missing the model" in err


def test_a_shape_beside_a_model_is_refused_and_a_target_beside_one_keeps_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = ("--model", "qwen3-30b-a3b")
    code, _, err = run(capsys, *SMALL, *model, "--shape", SHAPE_EXAMPLE)
    assert code != 0
    assert "give a model or --shape, not both" in err
    code, out, err = run(capsys, *SMALL, *model, "--target-total", "3e10")
    assert code == 0, err
    assert not out.startswith("Start")
