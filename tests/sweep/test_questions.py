"""Three questions to a sweep whose answers can be read off, and what varies in it."""

from __future__ import annotations

import pandas as pd
import pytest

from advisor.answers.explore.files import (
    axes,
    fastest_within,
    loss_of_recommended,
    one_k_for_all,
    values_of,
    varied,
    where,
    where_drafting_pays,
)
from advisor.show.words.sweep import (
    fastest_table,
    fastest_text,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    settings_texts,
    swept_text,
)
from tests.sweep.made_up import frame_of, grid, impossible, row, sweep


def test_drafting_pays_up_to_the_largest_batch_that_fits_and_is_sure() -> None:
    frame = grid()
    at_eight = (frame["model_id"] == "small") & (frame["hardware_id"] == "b200-sxm") & (frame["batch_size"] == 8)
    frame.loc[at_eight, "p_gain"] = 0.79
    found = where_drafting_pays(frame).set_index(["model_id", "hardware_id"])
    assert found["pays_up_to"].dropna().to_dict() == {
        ("big", "b200-sxm"): 8,
        ("small", "b200-sxm"): 1,
        ("small", "h100-sxm"): 8,
    }
    assert not found["fits"]["big", "h100-sxm"]
    assert frame.loc[found["row"]["small", "b200-sxm"], "batch_size"] == 1
    assert pays_text(found) == (
        "Drafting gains in at least 80% of the simulated cases for 3 of 4 pairs of model and accelerator, up to batch "
        "1 to 8."
    )
    assert "nowhere in this sweep" in pays_text(where_drafting_pays(frame, sure=0.95))


def test_of_several_engines_at_one_batch_the_one_of_the_largest_speedup_is_told() -> None:
    found = where_drafting_pays(
        frame_of(*(row("m", "h", 4, 1, engine=e, speedup=s) for e, s in (("vllm", 1.2), ("sglang", 1.3))))
    )
    assert list(found["engine"]) == ["sglang"]
    assert list(found["speedup"]) == pytest.approx([1.3])


def test_the_fastest_keeps_the_limit_and_a_model_that_cannot_says_its_best() -> None:
    frame = grid()
    frame.loc[frame["model_id"] == "big", "tpot_ms"] *= 10
    free = fastest_within(frame, None).set_index("model_id")
    assert (free["batch_size"]["small"], free["n_draft"]["small"]) == (1, 2)
    found = fastest_within(frame, 5.0).set_index("model_id")
    assert found["hardware_id"].isna()["big"]
    assert found["least_tpot_ms"]["big"] == pytest.approx(20 / 1.2)
    assert found["tokens_per_s_per_gpu"]["small"] == pytest.approx(600)
    assert fastest_text(found.reset_index(), 5.0) == (
        "Most tokens/s per GPU within 5 ms per token: small on b200-sxm at batch 1 with K = 2, 600. 1 model cannot "
        "keep that."
    )
    assert fastest_text(fastest_within(frame, 0.1), 0.1) == (
        "Nothing in this sweep fits in memory and stays within 0.1 ms per token."
    )


def test_one_k_for_all_is_judged_where_it_fits_and_counts_who_has_it() -> None:
    frame = frame_of(
        row("m", "h", 1, 0, expected_loss=0.2),
        row("m", "h", 1, 1, expected_loss=0.0),
        row("m", "h", 8, 0, expected_loss=0.0, recommended=True, tier="roofline"),
        row("m", "h", 8, 1, expected_loss=0.1, recommended=False),
        row("m", "h", 8, 2, expected_loss=0.01, recommended=False),
        row("m", "h", 64, 1, expected_loss=0.9, fits=False),
    )
    found = one_k_for_all(frame)
    assert list(found["n_draft"]) == [1, 0, 2]
    assert list(found["loss"]) == pytest.approx([0.05, 0.1, 0.01])
    assert list(found["worst"]) == pytest.approx([0.1, 0.2, 0.01])
    assert list(found["points"]) == [2, 2, 1]
    assert list(found["tier"]) == ["fitted", "roofline", "fitted"]
    assert loss_of_recommended(frame) == 0.0
    assert one_k_text(frame).endswith("Not every point has K = 2.")
    assert one_k_text(frame).startswith("K = 1 for all loses 5.0% on average")
    assert one_k_text(frame[~frame["fits"]]) == "Nothing in this sweep fits in memory."


def test_a_k_that_one_point_of_five_has_is_not_named_for_all_and_the_worst_is_not_below_the_mean() -> None:
    short = [row("m", "h", batch, k, expected_loss=0.014 + 0.001 * k) for batch in (1, 2, 4, 8) for k in (0, 1)]
    long = [row("m", "h", 16, k, expected_loss=0.016 - 0.002 * k) for k in range(5)]
    frame = frame_of(*short, *long)
    assert one_k_text(frame) == (
        "K = 0 for all loses 1.4% on average against the best K of each simulated case, 1.6% at worst; each point's "
        "own K loses 1.5%. Not every point has K = 2, 3, 4."
    )
    assert list(one_k_for_all(frame)["points"]) == [5, 5, 1, 1, 1]
    alike = frame_of(*(row("m", "h", batch, 0, expected_loss=0.012, recommended=True) for batch in (1, 2)))
    assert "loses 1.2% on average against the best K of each simulated case, 1.2% at worst" in one_k_text(alike)
    assert one_k_table(alike)[1][0][1:3] == ("1.2%", "1.2%")


def test_axes_leave_out_what_follows_from_another() -> None:
    placed = {
        "small": {"tensor_parallel": 1, "drafter_id": "eagle3"},
        "big": {"tensor_parallel": 8, "drafter_id": "mtp"},
    }
    frame = frame_of(
        *(row(model, hw, b, 1, **settings) for model, settings in placed.items() for hw in "xy" for b in (1, 2))
    )
    assert set(varied(frame)) == {"model_id", "hardware_id", "tensor_parallel", "drafter_id", "batch_size"}
    assert axes(frame) == ("hardware_id", "model_id", "batch_size")
    both = pd.concat([frame, frame_of(row("small", "x", 1, 1, tensor_parallel=8))])
    assert "tensor_parallel" in axes(both), "a model at two placements"


def test_values_stand_in_order_and_not_set_comes_first() -> None:
    frame = frame_of(
        *(row("m", "h", batch, 1, max_tpot_ms=limit) for batch, limit in ((64, 20.0), (8, None), (16, 5.0)))
    )
    assert values_of(frame, "batch_size") == [8, 16, 64]
    assert values_of(frame, "max_tpot_ms") == [None, 5.0, 20.0]
    assert list(where(frame, {"max_tpot_ms": None})["batch_size"]) == [8]
    assert list(where(frame, {"max_tpot_ms": 5.0, "batch_size": 16})["batch_size"]) == [16]


def test_words_say_what_is_full_what_cannot_be_and_who_computed_it() -> None:
    frame = pd.concat([grid(), frame_of(impossible("odd", "h100-sxm", 1, "no such model"))], ignore_index=True)
    assert swept_text(sweep(frame)) == (
        "9 scenarios, 2 of them do not fit in memory, 1 cannot be; computed by release 1.2.3, constants 0123456789ab."
    )
    texts = settings_texts(frame)
    assert "Model: small, big" in texts
    assert "Batch: 1, 8" in texts
    assert texts[-1] == "The same everywhere: Drafter eagle3; Accepted length 2.4@3"


def test_tables_give_each_figure_its_band_and_tier() -> None:
    frame = grid()
    columns, rows = pays_table(where_drafting_pays(frame))
    assert dict(zip(columns, rows[0], strict=True))["Speedup"] == "1.10x (1.00-1.20)"
    assert next(one for one in rows if one[:2] == ("big", "h100-sxm"))[2] == "does not fit"
    columns, rows = fastest_table(fastest_within(frame, None))
    assert dict(zip(columns, rows[0], strict=True))["ms per token"] == "1.7 (1.3-2.0)"
    assert {one[columns.index("Tier")] for one in rows} == {"fitted"}
    assert one_k_table(frame)[1][0] == ("1", "2.0%", "2.0%", "6", "fitted")
