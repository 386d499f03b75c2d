"""The study behind docs/evidence.md: its rows come back, and spreads by layer are those that
were planted.

The routing law and the shipped presets against measured unions of experts.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog.routing_presets import load_routing_preset
from advisor.physics.touched_experts import touched_experts
from studies.evidence import FILE as EVIDENCE
from studies.expert_ranks import (
    MIXED,
    SHORT,
    Unions,
    fitted,
    held_out_domains,
    layer_spreads,
    measured_presets,
    measured_unions,
    preset_rows,
)


@pytest.mark.parametrize("preset", ["grin-moe", "openmoe"])
def test_the_page_has_the_study_s_rows(preset: str) -> None:
    page = EVIDENCE.read_text(encoding="utf-8")
    rows = [f"| {' | '.join(row)} |" for row in preset_rows([load_routing_preset(preset)])]
    assert rows
    assert all(row in page for row in rows), "run: python -m studies.evidence"


def test_the_page_has_every_measured_preset_that_eight_ranks_can_share() -> None:
    page = EVIDENCE.read_text(encoding="utf-8")
    assert all(
        f"| {preset.model_id}, {preset.n_active} of {preset.n_experts}," in page
        for preset in measured_presets()
    )


def test_planted_spreads_by_layer_come_back() -> None:
    planted = np.array([0.3, 0.9, 1.6])
    tokens = np.array([4.0, 16.0])
    counted = touched_experts(tokens, 1.0, 256, 8, planted[:, None])
    unions = Unions(
        "planted", 256.0, 8.0, tokens, counted.mean(axis=0)[None], np.stack([counted, counted])
    )
    assert layer_spreads(unions) == pytest.approx(planted, abs=1e-6)


@pytest.fixture(scope="module")
def unions() -> dict[str, Unions]:
    return measured_unions()


def test_thirteen_prompt_sets_of_forty_layers_are_read(unions: dict[str, Unions]) -> None:
    assert len(unions) == 13
    for one in unions.values():
        assert one.mean.shape == (2, 7)
        assert one.by_layer.shape == (2, 40, 7)
        assert one.by_layer.mean(axis=1) == pytest.approx(one.mean, rel=2e-3)
        assert np.all(np.diff(one.mean, axis=1) > 0)


def test_the_law_follows_measured_unions_at_every_length_and_batch(
    unions: dict[str, Unions],
) -> None:
    worst = {name: np.abs(one.errors(fitted([one]))).max() for name, one in unions.items()}
    assert worst[MIXED] < 0.01
    assert max(error for name, error in worst.items() if name != "roleplay") < 0.02
    assert worst["roleplay"] < 0.025, "the most uneven domain: a load no lognormal has"


def test_single_layers_are_near_the_law_at_the_median(unions: dict[str, Unions]) -> None:
    assert all(np.median(one.layer_errors(fitted([one]))) < 0.06 for one in unions.values())


def test_lengths_the_fit_has_not_seen_are_within_four_percent(unions: dict[str, Unions]) -> None:
    for one in unions.values():
        beyond = one.errors(fitted([one], SHORT))[:, one.tokens > SHORT]
        assert np.abs(beyond).max() < 0.04


@pytest.mark.parametrize("preset", ["class-fine-one-shared", "qwen3.6-35b-a3b"])
def test_the_presets_for_mixed_traffic_hold_within_two_percent(
    unions: dict[str, Unions], preset: str
) -> None:
    values = [each.value for each in load_routing_preset(preset).parameters]
    assert np.abs(unions[MIXED].errors(values)).max() < 0.02
    measured = fitted([unions[MIXED]])
    assert values == pytest.approx(measured, rel=0.02), "the preset is the fit to these unions"


def test_one_domain_touches_fewer_experts_over_a_batch_than_mixed_traffic(
    unions: dict[str, Unions],
) -> None:
    domains = [one for name, one in unions.items() if name != MIXED]
    assert all(one.mean[1, -1] < unions[MIXED].mean[1, -1] for one in domains)
    fits = np.array([fitted([one]) for one in domains])
    preset = load_routing_preset("class-fine-one-shared-one-domain")
    for constant, (low, middle, high) in zip(
        preset.parameters, np.quantile(fits, [0.1, 0.5, 0.9], axis=0).T, strict=True
    ):
        assert (constant.low, constant.value, constant.high) == pytest.approx(
            (low, middle, high), rel=0.02
        )


def test_a_domain_is_predicted_from_the_other_domains(unions: dict[str, Unions]) -> None:
    worst = sorted(float(np.abs(errors).max()) for errors in held_out_domains(unions).values())
    assert np.median(worst) < 0.06
    assert worst[-2] < 0.08
    assert worst[-1] > 0.1, (
        "role play is unlike the others; the band of the preset does not hold it"
    )
