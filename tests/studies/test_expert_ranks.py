"""The study behind docs/expert-parallel.md: its rows come back, and spreads by layer are those that were planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.routing_presets import load_routing_preset
from advisor.physics.touched_experts import touched_experts
from studies.expert_ranks import Unions, layer_spreads, measured_presets, preset_rows

PAGE = Path(__file__).resolve().parents[2] / "docs/expert-parallel.md"


@pytest.mark.parametrize("preset", ["grin-moe", "openmoe"])
def test_the_page_has_the_study_s_rows(preset: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [f"| {' | '.join(row)} |" for row in preset_rows([load_routing_preset(preset)])]
    assert rows
    assert all(row in page for row in rows), "run: python -m studies.expert_ranks"


def test_the_page_has_every_measured_preset_that_eight_ranks_can_share() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(
        f"| {preset.model_id}, {preset.n_active} of {preset.n_experts}," in page for preset in measured_presets()
    )


def test_planted_spreads_by_layer_come_back() -> None:
    planted = np.array([0.3, 0.9, 1.6])
    tokens = np.array([4.0, 16.0])
    counted = touched_experts(tokens, 1.0, 256, 8, planted[:, None])
    unions = Unions("planted", 256.0, 8.0, tokens, counted.mean(axis=0)[None], np.stack([counted, counted]))
    assert layer_spreads(unions) == pytest.approx(planted, abs=1e-6)
