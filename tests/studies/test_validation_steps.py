"""Published step times and decode rates: what is judged, in which shares, and which rows are no steady state."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.validation.plain import COOKBOOK, RATES, decode_rates, decode_rates_section, not_steady
from studies.validation.step_times import (
    CURVES,
    QUERIES,
    ratio_error,
    step_time_sections,
    verify_cost_section,
    verify_costs,
)


@pytest.fixture(scope="module")
def costs() -> pd.DataFrame:
    return verify_costs(pd.read_csv(CURVES))


def test_steps_are_judged_inside_captured_graphs_for_each_sharing_of_their_tokens(costs: pd.DataFrame) -> None:
    assert costs["tokens"].max() == 1024
    for queries, rows in costs.groupby("queries"):
        assert queries in QUERIES
        assert (rows["tokens"] % queries == 0).all()
    alone = costs[(costs["tokens"] == 1) & (costs["queries"] == 1)].iloc[0]
    assert alone["measured_s"] == pytest.approx(5.109e-3)
    assert (alone["measured"], alone["predicted"]) == (1.0, 1.0)


def test_tokens_of_fewer_sequences_cost_no_more_since_they_share_experts_and_cache(costs: pd.DataFrame) -> None:
    steps = costs.pivot(index="tokens", columns="queries", values="predicted_s").dropna()
    assert (steps[8] <= steps[1] * 1.001).all()


def test_the_error_of_a_ratio_leaves_out_the_step_it_is_taken_against() -> None:
    made = pd.DataFrame({"tokens": [1, 2, 4], "queries": 1, "measured": [1.0, 1.0, 2.0], "predicted": [1.0, 1.1, 2.6]})
    assert ratio_error(made, 1) == pytest.approx(0.2)


STEADY = {
    "concurrency": 16,
    "output_tokens": 1000.0,
    "output_tok_per_s": 800.0,
    "mean_tpot_ms": 18.0,
    "median_tpot_ms": np.nan,
}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"output_tokens": 128.0}, "under 256"),
        ({"output_tokens": np.nan}, "lengths"),
        ({"output_tokens": 128.0, "concurrency": 1, "output_tok_per_s": 55.0}, ""),  # nobody else's prompt to wait for
        ({"mean_tpot_ms": 15.0}, "waits"),  # 20 ms a token end to end
        ({"mean_tpot_ms": np.nan, "output_tok_per_s": np.nan}, "no time"),
    ],
)
def test_a_row_is_no_steady_state_by_what_it_states(changes: dict[str, float], why: str) -> None:
    found = not_steady(STEADY | changes)
    assert (found == "") if not why else (why in found)


def test_published_rates_are_judged_with_the_cookbook_apart() -> None:
    frame = pd.read_csv(RATES)
    some = frame[frame["row_id"].isin(["dec-001", "dec-170", "dec-171"])]
    rows = decode_rates(some)
    assert rows.set_index("row_id")["cookbook"].to_dict() == {"dec-001": False, "dec-170": True, "dec-171": True}
    assert rows["not_steady"].tolist() == ["answers under 256 tokens", "", ""]
    assert (rows["predicted_s"] > 0).all()
    text = decode_rates_section(rows)
    assert "| ... of the SGLang cookbook | 2 |" in text
    assert "| not steady: answers under 256 tokens | 1 |" in text
    assert COOKBOOK in text


def test_the_section_of_step_times_has_a_line_for_each_sharing(costs: pd.DataFrame) -> None:
    text = verify_cost_section(costs)
    assert sum(line.startswith(tuple(f"| {queries} |" for queries in QUERIES)) for line in text.splitlines()) == 4


def test_without_a_store_what_it_holds_is_said_not_to_be_judged() -> None:
    sections = step_time_sections(None)
    assert "No store here" in sections[0]
    assert [section.splitlines()[0] for section in sections[1:]] == [
        "## Step time against verified tokens",
        "## Published decode rates without speculation",
    ]
