"""Finished sweeps read back: what was written, or one sentence on file, column and row.

Three questions to a sweep whose answers can be read off, and what varies in it.

The map of a sweep: its cells are the recommended rows, and what is chosen is in the grid.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.answers.explore.grid import made_by, read_plan
from advisor.answers.explore.questions import (
    MAX_SIDE,
    axes,
    choices,
    default_axes,
    fastest_within,
    loss_of_recommended,
    one_k_for_all,
    sweep_map,
    values_of,
    varied,
    view_of,
    where,
    where_drafting_pays,
)
from advisor.answers.explore.sweep_files import (
    parquet_bytes,
    read_sweep,
    read_sweep_files,
    run_sweep,
)
from advisor.prediction import AdvisorError
from advisor.show.words.sweep import (
    fastest_table,
    fastest_text,
    map_table,
    map_text,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    settings_texts,
    swept_text,
)
from tests.answers.made_up_sweep import MAKER, frame_of, grid, impossible, parquet, row, sweep

PLAN = (
    "batch_size: [1, 8]\nacceptance: 2.4@3\nk_max: 2\nhardware_id: [h100-sxm, "
    "h200-sxm]\ntensor_parallel: [1, 7]"
)


def test_a_folder_and_its_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    run_sweep(read_plan(PLAN), tmp_path / "out")
    part = tmp_path / "out" / "part-000000.parquet"
    found = read_sweep_files([tmp_path / "out"])
    pd.testing.assert_frame_equal(found.frame, pd.read_parquet(part), check_like=True)
    assert found.maker == made_by()
    assert (found.frame["n_draft"] < 0).sum() == 4, "what cannot be is kept with its reason"
    pd.testing.assert_frame_equal(read_sweep_files([part]).frame, found.frame)


def test_what_is_read_and_written_is_read_again() -> None:
    once = read_sweep([("a", parquet(grid(), MAKER))])
    again = read_sweep([("b", parquet_bytes(once.frame, once.maker))])
    pd.testing.assert_frame_equal(once.frame, again.frame)
    assert again.maker == MAKER


def test_a_sweep_of_before_is_read_under_its_old_name_of_k_which_is_said() -> None:
    today = read_sweep([("a", parquet(grid(), MAKER))])
    old = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(grid().rename(columns={"n_draft": "k_draft"})), old)
    found = read_sweep([("old", old.getvalue())])
    pd.testing.assert_frame_equal(found.frame, today.frame)
    assert ("k_draft", "n_draft") in found.renamed
    assert today.renamed == ()


def test_rows_that_stand_in_two_files_count_once() -> None:
    found = read_sweep([("a", parquet(grid())), ("b", parquet(grid().tail(5)))])
    assert len(found.frame) == len(grid())
    assert found.n_twice == 5


def test_settings_younger_than_a_file_stand_at_their_defaults_and_its_times_have_no_band() -> None:
    old = grid().drop(columns=["task", "kv_dtype", "tpot_low_ms", "tpot_high_ms"])
    old = old.drop(columns=["tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high"])
    found = read_sweep([("old", parquet(old))])
    assert set(found.frame["kv_dtype"]) == {"auto"}
    assert found.frame["task"].isna().all()
    assert found.frame["tpot_low_ms"].isna().all()
    assert (found.maker, found.without_bands) == ({}, True)


def changed(column: str, value: object, at: int = 3) -> pd.DataFrame:
    frame = grid().astype({column: object})
    frame.loc[at, column] = value
    return (
        frame.astype({column: "string"})
        if isinstance(value, str)
        else frame.astype({column: "float64"})
    )


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            grid().drop(columns=["p_gain", "tier"]),
            "no sweep of this advisor: of .* columns it lacks p_gain, tier; give",
        ),
        (
            grid().drop(columns="acceptance"),
            "it lacks acceptance; give files that the command sweep",
        ),
        (pd.DataFrame({"x": [1]}), "it lacks hardware_id, model_id, .* and others"),
        (grid().astype({"speedup": "string"}), "column speedup: expected numbers, got"),
        (grid().assign(fits=1), "column fits: expected true or false, got int64"),
        (grid().assign(model_id=3), "column model_id: expected text, got int64"),
        (changed("speedup", -1.0), "row 4, speedup: expected a number above 0, got -1.0"),
        (changed("speedup", np.nan), "row 4, speedup: expected a number above 0, got nan"),
        (changed("speedup_high", 0.5), "row 4, speedup: expected a band around the value"),
        (changed("p_gain", 1.5), "row 4, p_gain: expected a share, 0 to 1, got 1.5"),
        (changed("batch_size", 0), "row 4, batch_size: expected 1 to 65,536, got 0"),
        (changed("batch_size", 99_999_999_999), "column batch_size: .*99999999999"),
        (changed("context_tokens", 2.5), r"column context_tokens: .*2\.5"),
        (changed("n_draft", -1), "row 4, n_draft: expected 0 to 32, -1 beside a reason, got -1"),
        (changed("tier", "guessed"), "row 4, tier: expected one of measured, .*, got guessed"),
        (grid().iloc[:0], "the files hold no row"),
    ],
)
def test_a_foreign_table_is_refused_with_its_place(frame: pd.DataFrame, words: str) -> None:
    with pytest.raises(AdvisorError, match=words) as told:
        read_sweep([("mine.parquet", parquet(frame))])
    assert "mine.parquet" in str(told.value) or "the files hold no row" in words


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1xxxxPAR1", b"model_id,speedup\na,1\n", b"\x89PNG" * 100]
)
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(AdvisorError, match=r"^x\.parquet is no readable Parquet file"):
        read_sweep([("x.parquet", content)])


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(place=st.floats(0, 1), value=st.integers(0, 255), cut=st.floats(0, 1), shorten=st.booleans())
def test_a_damaged_file_is_refused_or_read_and_never_breaks(
    place: float, value: int, cut: float, shorten: bool
) -> None:
    content = bytearray(parquet_bytes(grid(), MAKER))
    content[int(place * (len(content) - 1))] = value
    told = "x.parquet"
    try:
        read_sweep(
            [("x.parquet", bytes(content[: int(cut * len(content))] if shorten else content))]
        )
    except AdvisorError as error:
        told = str(error)
    assert "x.parquet" in told or "hold no row" in told


def test_a_changed_byte_of_the_figures_is_found() -> None:
    content = bytearray(parquet_bytes(grid(), MAKER))
    head = pq.ParquetFile(io.BytesIO(bytes(content))).metadata.row_group(0)
    at = next(i for i in range(head.num_columns) if head.column(i).path_in_schema == "speedup")
    column = head.column(at)
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    with pytest.raises(AdvisorError, match=r"is damaged|no readable"):
        read_sweep([("x.parquet", bytes(content))])


def test_files_by_other_constants_do_not_mix() -> None:
    other = parquet(grid(), MAKER | {"constants": "ffffffffffff"})
    with pytest.raises(
        AdvisorError,
        match=r"b was made by release 1\.2\.3, constants ffffffffffff, a by .* do not compare",
    ):
        read_sweep([("a", parquet(grid(), MAKER)), ("b", other)])


def test_more_rows_than_are_read_here_are_told_before_any_is_read() -> None:
    with pytest.raises(
        AdvisorError, match="b: with it there are 48 rows; at most 30 are read here: query"
    ):
        read_sweep([("a", parquet(grid())), ("b", parquet(grid()))], max_rows=30)


def test_a_text_that_would_fill_the_memory_is_cut_before_it_is_spread_over_the_rows() -> None:
    long = grid().assign(routing="x" * 100_000, engine="<b onclick=1>")
    found = read_sweep([("x", parquet(long))]).frame
    assert found["routing"].str.len().max() == 300
    assert set(found["engine"]) == {"?b onclick?1?"}, "pictures read markup"
    table = pa.Table.from_pandas(grid().assign(reason="y" * 1_000_000))
    out = io.BytesIO()
    pq.write_table(table, out, use_dictionary=False, compression="zstd")
    with pytest.raises(AdvisorError, match=r"unpack to .* bytes, more than a sweep's"):
        read_sweep([("bomb", out.getvalue())])


def test_a_reason_is_one_line() -> None:
    frame = frame_of(row("m", "h", 1, 1), impossible("m", "g", 1, "two\nlines\x1b[31m"))
    assert read_sweep([("x", parquet(frame))]).frame["reason"].iloc[1] == "two lines[31m"


def test_a_folder_without_parts_is_said(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match=r"holds no \*\.parquet file"):
        read_sweep_files([tmp_path])
    with pytest.raises(AdvisorError, match="no file was given"):
        read_sweep([])


def test_drafting_pays_up_to_the_largest_batch_that_fits_and_is_sure() -> None:
    frame = grid()
    at_eight = (
        (frame["model_id"] == "small")
        & (frame["hardware_id"] == "b200-sxm")
        & (frame["batch_size"] == 8)
    )
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
        "Drafting has a chance of a gain of at least 80% for 3 of 4 pairs of model and "
        "accelerator, up to batch 1 to 8."
    )
    assert "nowhere in this sweep" in pays_text(where_drafting_pays(frame.assign(p_gain=0.79)))


def test_of_several_engines_at_one_batch_the_one_of_the_largest_speedup_is_told() -> None:
    found = where_drafting_pays(
        frame_of(
            *(row("m", "h", 4, 1, engine=e, speedup=s) for e, s in (("vllm", 1.2), ("sglang", 1.3)))
        )
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
        "Most tokens/s per GPU within 5 ms per token: small on b200-sxm at batch 1 with K = 2, "
        "600. 1 model cannot keep that."
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


def test_a_k_that_one_point_of_five_has_is_not_named_for_all() -> None:
    short = [
        row("m", "h", batch, k, expected_loss=0.014 + 0.001 * k)
        for batch in (1, 2, 4, 8)
        for k in (0, 1)
    ]
    long = [row("m", "h", 16, k, expected_loss=0.016 - 0.002 * k) for k in range(5)]
    frame = frame_of(*short, *long)
    assert one_k_text(frame) == (
        "K = 0 for all loses 1.4% on average against the best K of each simulated case, 1.6% at "
        "worst; each point's own K loses 1.5%. Not every point has K = 2, 3, 4."
    )
    assert list(one_k_for_all(frame)["points"]) == [5, 5, 1, 1, 1]
    alike = frame_of(
        *(row("m", "h", batch, 0, expected_loss=0.012, recommended=True) for batch in (1, 2))
    )
    assert (
        "loses 1.2% on average against the best K of each simulated case, 1.2% at worst"
        in one_k_text(alike)
    )
    assert one_k_table(alike).cells[0][1:3] == ("1.2%", "1.2%")


def test_axes_leave_out_what_follows_from_another() -> None:
    placed = {
        "small": {"tensor_parallel": 1, "drafter_id": "eagle3"},
        "big": {"tensor_parallel": 8, "drafter_id": "mtp"},
    }
    frame = frame_of(
        *(
            row(model, hw, b, 1, **settings)
            for model, settings in placed.items()
            for hw in "xy"
            for b in (1, 2)
        )
    )
    assert set(varied(frame)) == {
        "model_id",
        "hardware_id",
        "tensor_parallel",
        "drafter_id",
        "batch_size",
    }
    assert axes(frame) == ("hardware_id", "model_id", "batch_size")
    both = pd.concat([frame, frame_of(row("small", "x", 1, 1, tensor_parallel=8))])
    assert "tensor_parallel" in axes(both), "a model at two placements"


def test_values_stand_in_order_and_not_set_comes_first() -> None:
    frame = frame_of(
        *(
            row("m", "h", batch, 1, max_tpot_ms=limit)
            for batch, limit in ((64, 20.0), (8, None), (16, 5.0))
        )
    )
    assert values_of(frame, "batch_size") == [8, 16, 64]
    assert values_of(frame, "max_tpot_ms") == [None, 5.0, 20.0]
    assert list(where(frame, {"max_tpot_ms": None})["batch_size"]) == [8]
    assert list(where(frame, {"max_tpot_ms": 5.0, "batch_size": 16})["batch_size"]) == [16]


def test_words_say_what_is_full_what_cannot_be_and_who_computed_it() -> None:
    frame = pd.concat(
        [grid(), frame_of(impossible("odd", "h100-sxm", 1, "no such model"))], ignore_index=True
    )
    assert swept_text(sweep(frame)) == (
        "9 scenarios, 2 of them do not fit in memory, 1 cannot be; computed by release 1.2.3, "
        "constants 0123456789ab."
    )
    texts = settings_texts(frame)
    assert "Model: small, big" in texts
    assert "Batch: 1, 8" in texts
    assert texts[-1] == "The same everywhere: Drafter eagle3; Accepted length 2.4@3"


def test_tables_give_each_figure_its_band_and_tier() -> None:
    frame = grid()
    pays = pays_table(where_drafting_pays(frame))
    assert dict(zip(pays.header, pays.cells[0], strict=True))["Speedup"] == "1.10x (1.00-1.20)"
    assert next(one for one in pays.cells if one[:2] == ("big", "h100-sxm"))[2] == "does not fit"
    fastest = fastest_table(fastest_within(frame, None))
    assert (
        dict(zip(fastest.header, fastest.cells[0], strict=True))["ms per token"] == "1.7 (1.3-2.0)"
    )
    assert {one[fastest.header.index("Tier")] for one in fastest.cells} == {"fitted"}
    assert one_k_table(frame).cells[0] == ("1", "2.0%", "2.0%", "6", "fitted")


def test_cells_are_the_recommended_rows_of_the_two_settings() -> None:
    frame = grid()
    found = sweep_map(frame, "batch_size", "hardware_id", {"model_id": "big"})
    assert (found.x_values, found.y_values) == ((1, 8), ("h100-sxm", "b200-sxm"))
    for at, hardware in enumerate(found.y_values):
        for across, batch in enumerate(found.x_values):
            one = frame.loc[found.row[at, across]]
            assert (one["model_id"], one["hardware_id"], one["batch_size"]) == (
                "big",
                hardware,
                batch,
            )
            assert one["recommended"]
    assert found.fits.tolist() == [[False, False], [True, True]]
    assert map_table(found).cells == [
        ("h100-sxm", "-", "-"),
        ("b200-sxm", "1.10x, K 1", "1.10x, K 1"),
    ]
    assert map_text(found) == "Speedup at the recommended K by Batch and Accelerator, at Model big."


def test_what_the_grid_has_not_is_an_empty_cell_and_what_cannot_be_no_axis() -> None:
    frame = pd.concat(
        [grid(), frame_of(row("small", "b200-sxm", 64, 1), impossible("odd", "h", 512, "no"))]
    )
    found = sweep_map(
        frame.reset_index(drop=True), "batch_size", "hardware_id", {"model_id": "small"}
    )
    assert found.x_values == (1, 8, 64)
    assert found.has.tolist() == [[True, True, False], [True, True, True]]
    assert np.isnan(found.values("speedup")[0, 2])


def test_a_wish_that_the_grid_has_not_falls_back_to_what_goes_with_the_choices_before() -> None:
    frame = frame_of(
        *(row("small", "x", b, 1) for b in (1, 8)),
        *(row("big", "y", b, 1, engine="sglang") for b in (1, 8)),
    )
    frame = pd.concat([frame, frame_of(row("big", "x", 1, 1, engine="sglang"))], ignore_index=True)
    found = choices(frame, "batch_size", "hardware_id", {"model_id": "nobody"})
    assert found["model_id"] == (["small", "big"], "small")
    found = choices(frame, "batch_size", "model_id", {"hardware_id": "y"})
    assert found["hardware_id"] == (["x", "y"], "y")


def test_a_sweep_of_one_axis_has_no_map_and_long_axes_are_cut() -> None:
    one = frame_of(*(row("m", "h", batch, 1) for batch in (1, 2)))
    assert default_axes(one) is None
    assert view_of(sweep(one), None, {}).map is None
    long = frame_of(
        *(row("m", f"h{at}", batch, 1) for at in range(MAX_SIDE + 3) for batch in (1, 2))
    )
    found = view_of(sweep(long), None, {}).map
    assert (found.row.shape, found.left_out) == ((MAX_SIDE, 2), 3)


def test_the_first_map_has_the_batch_across_and_the_wish_fixed() -> None:
    found = view_of(sweep(), None, {"hardware_id": "b200-sxm", "model_id": "big"}).map
    assert (found.x, found.y, found.fixed) == ("batch_size", "hardware_id", {"model_id": "big"})
