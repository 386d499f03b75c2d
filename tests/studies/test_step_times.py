"""Published step times and decode rates: what is judged, in which shares, and which rows are no
steady state.

The bars of step times, and AIConfigurator's answers beside ours.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from studies.published import read_numbers
from studies.validation.plain import (
    COOKBOOK,
    RATES,
    PeerRun,
    decode_rates,
    decode_rates_section,
    groups_closer,
    not_steady,
    peer_section,
    read_peer,
    side_by_side,
    write_peer,
)
from studies.validation.step_times import (
    CURVES,
    QUERIES,
    Bar,
    _after_before,
    at_least,
    at_most,
    latent_attention_bar,
    quarantine_bars,
    ratio_error,
    step_time_sections,
    verify_costs,
)


@pytest.fixture(scope="module")
def costs() -> pd.DataFrame:
    return verify_costs(read_numbers(CURVES))


def test_steps_are_judged_inside_captured_graphs_for_each_sharing_of_their_tokens(
    costs: pd.DataFrame,
) -> None:
    assert costs["tokens"].max() == 1024
    for queries, rows in costs.groupby("queries"):
        assert queries in QUERIES
        assert (rows["tokens"] % queries == 0).all()
    alone = costs[(costs["tokens"] == 1) & (costs["queries"] == 1)].iloc[0]
    assert alone["measured_s"] == pytest.approx(5.109e-3)
    assert (alone["measured"], alone["predicted"]) == (1.0, 1.0)


def test_tokens_of_fewer_sequences_cost_no_more_since_they_share_experts_and_cache(
    costs: pd.DataFrame,
) -> None:
    steps = costs.pivot(index="tokens", columns="queries", values="predicted_s").dropna()
    assert (steps[8] <= steps[1] * 1.001).all()


def test_the_error_of_a_ratio_leaves_out_the_step_it_is_taken_against() -> None:
    made = pd.DataFrame(
        {
            "tokens": [1, 2, 4],
            "queries": 1,
            "measured": [1.0, 1.0, 2.0],
            "predicted": [1.0, 1.1, 2.6],
        }
    )
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
        (
            {"output_tokens": 128.0, "concurrency": 1, "output_tok_per_s": 55.0},
            "",
        ),  # nobody else's prompt to wait for
        ({"mean_tpot_ms": 15.0}, "waits"),  # 20 ms a token end to end
        ({"mean_tpot_ms": np.nan, "output_tok_per_s": np.nan}, "no time"),
    ],
)
def test_a_row_is_no_steady_state_by_what_it_states(changes: dict[str, float], why: str) -> None:
    found = not_steady(STEADY | changes)
    assert (found == "") if not why else (why in found)


def test_published_rates_are_judged_with_the_cookbook_apart() -> None:
    frame = read_numbers(RATES)
    some = frame[frame["row_id"].isin(["dec-001", "dec-170", "dec-171"])]
    rows = decode_rates(some)
    assert rows.set_index("row_id")["cookbook"].to_dict() == {
        "dec-001": False,
        "dec-170": True,
        "dec-171": True,
    }
    assert rows["not_steady"].tolist() == ["answers under 256 tokens", "", ""]
    assert (rows["predicted_s"] > 0).all()
    text = decode_rates_section(rows)
    assert "| ... of the SGLang cookbook | 2 |" in text
    assert "| not steady: answers under 256 tokens | 1 |" in text
    assert COOKBOOK in text


def test_without_a_store_what_it_holds_is_said_not_to_be_judged() -> None:
    sections = step_time_sections(None)
    assert "No store here" in sections[0]
    assert [section.splitlines()[0] for section in sections[1:]] == [
        "## Step time against verified tokens",
        "## Published decode rates without speculation",
    ]


POINT = {
    "point_id": "a",
    "version": "1",
    "model_id": "deepseek-v3",
    "engine": "vllm",
    "hardware_id": "h200-sxm",
    "weight_dtype": "fp8",
    "output_tokens": 101,
    "measured_s": 0.010,
    "predicted_s": 0.011,
    "step_s": 0.011,
    "end_to_end_s": 0.011,
    "predicted_end_to_end_s": 0.011,
}


def points(*changes: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame(
        [POINT | {"point_id": chr(97 + i)} | each for i, each in enumerate(changes)]
    )


def test_a_bar_is_met_on_its_limit_and_missed_beyond() -> None:
    assert at_most("x", 0.1, 0.1).status == at_least("x", 0.8, 0.8).status == "met"
    assert at_most("x", 0.1001, 0.1).status == at_least("x", 0.799, 0.8).status == "missed"
    assert at_most("x", np.nan, 0.1).status == at_least("x", np.nan, 0.1).status == "missed"
    assert Bar("x", "y", "not run", None).status == "not judged here"


def test_the_share_set_apart_and_the_points_judged_are_both_printed() -> None:
    rows = points(*({"rule": "queued" if i < 2 else ""} for i in range(20)))
    apart, kept = quarantine_bars(rows)
    assert (apart.figure, apart.status) == ("10.0 %", "missed")
    assert (kept.figure, kept.status) == ("18 of 20", "missed")


def test_a_fall_is_measured_against_the_dearest_step_with_fewer_tokens() -> None:
    after, before = _after_before(np.array([[1.0], [3.0], [2.0], [2.5]]), 0)
    assert np.max(1.0 - after / before) == pytest.approx(1 / 3)
    assert (1.0 - after / before)[2, 0] == pytest.approx(1 - 2.5 / 3)


def test_verification_with_latent_attention_at_long_context_follows_the_measured_rate() -> None:
    """By hand, for a layer of a rank with 8 of the 64 sequences at 32,768 tokens, all 128 heads:
    the cache is read in 0.07 ms, whoever asks; one query computes for 0.13 ms at the 0.58 of peak
    that latent tables show, four for 0.51.
    """
    read_s = 8 * 32768 * 576 * 2 / 4.1e12
    query_s = 8 * 32768 * 128 * 2 * (576 + 512) / (0.58 * 989e12)
    assert (read_s, query_s) == pytest.approx((0.074e-3, 0.127e-3), rel=0.01)
    assert (
        4 * query_s > 4 * read_s
    )  # so verification pays for arithmetic, where reading alone would be nearly free
    (bar,) = latent_attention_bar()
    assert bar.met, bar.figure


def answered(*lines: tuple[str, float, float]) -> pd.DataFrame:
    """Answers by checkpoint; by format the tool is a tenth slower."""
    return pd.DataFrame(
        [
            {
                "point_id": point,
                "first": way,
                "tpot_s": tpot * slower,
                "ttft_s": ttft,
                "asked": "x",
                "seconds": 0.02,
            }
            for point, tpot, ttft in lines
            for way, slower in (("checkpoint", 1.0), ("format", 1.1))
        ]
    )


RUN = PeerRun("0.12.0", "2026-11-22", 3, 0.02, 0.002, "as it is asked")


def test_answers_of_the_peer_are_kept_with_version_and_date_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "peer.csv"
    write_peer(answered(("a", 0.012, 0.1), ("b", 0.02, 0.2), ("c", np.nan, np.nan)), RUN, path)
    again, found = read_peer(path)
    assert again == RUN
    assert found["point_id"].tolist() == ["a", "b"]  # the third was not answered
    assert found["tpot_s_checkpoint"].tolist() == [0.012, 0.02]
    assert found["tpot_s_format"].tolist() == [0.0132, 0.022]


def test_both_tools_are_judged_on_the_rows_that_both_answer(tmp_path: Path) -> None:
    rows = points({}, {"engine": "sglang"}, {})
    path = tmp_path / "peer.csv"
    write_peer(answered(("a", 0.0105, 0.1), ("b", 0.02, 0.1)), RUN, path)
    both = side_by_side(rows, read_peer(path)[1], "checkpoint")
    assert both["point_id"].tolist() == ["a", "b"]
    assert both["peer_end_to_end_s"].iloc[0] == pytest.approx((0.1 + 100 * 0.0105) / 101)
    assert groups_closer(both) == (1, 2)  # nearer on SGLang, where the other is twice too slow
    assert groups_closer(side_by_side(rows, read_peer(path)[1], "format")) == (2, 2)
    text = peer_section(rows, path)
    assert "it answered 2 of 3" in text
    assert "1 of 2 (by checkpoint) and 2 of 2 (by format)" in text
    assert "make bench-peer" in peer_section(rows, tmp_path / "absent.csv")
