"""Finished sweeps read back: what was written, or one sentence on file, column and row."""

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

from advisor.answers.explore.cells import made_by, parquet_bytes, read_plan, run_sweep
from advisor.answers.explore.files import read_sweep, read_sweep_files
from advisor.prediction import AdvisorError
from tests.sweep.made_up import MAKER, frame_of, grid, impossible, parquet, row

PLAN = "batch_size: [1, 8]\nacceptance: 2.4@3\nk_max: 2\nhardware_id: [h100-sxm, h200-sxm]\ntensor_parallel: [1, 7]"


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
    assert again.made_by == "release 1.2.3, constants 0123456789ab"


def test_rows_that_stand_in_two_files_count_once() -> None:
    found = read_sweep([("a", parquet(grid())), ("b", parquet(grid().tail(5)))])
    assert len(found.frame) == len(grid())
    assert found.notes[0] == "5 rows stood there twice and counted once."


def test_settings_younger_than_a_file_stand_at_their_defaults_and_its_times_have_no_band() -> None:
    old = grid().drop(columns=["task", "kv_dtype", "tpot_low_ms", "tpot_high_ms"])
    old = old.drop(columns=["tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high"])
    found = read_sweep([("old", parquet(old))])
    assert set(found.frame["kv_dtype"]) == {"auto"}
    assert found.frame["task"].isna().all()
    assert found.frame["tpot_low_ms"].isna().all()
    assert found.made_by == "a release that is not named"


def changed(column: str, value: object, at: int = 3) -> pd.DataFrame:
    frame = grid().astype({column: object})
    frame.loc[at, column] = value
    return frame.astype({column: "string"}) if isinstance(value, str) else frame.astype({column: "float64"})


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            grid().drop(columns=["p_gain", "tier"]),
            "no sweep of this advisor: of .* columns it lacks p_gain, tier; give",
        ),
        (grid().drop(columns="acceptance"), "it lacks acceptance; give files that the command sweep"),
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


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1xxxxPAR1", b"model_id,speedup\na,1\n", b"\x89PNG" * 100])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(AdvisorError, match=r"^x\.parquet is no readable Parquet file"):
        read_sweep([("x.parquet", content)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), value=st.integers(0, 255), cut=st.floats(0, 1), shorten=st.booleans())
def test_a_damaged_file_is_refused_or_read_and_never_breaks(
    place: float, value: int, cut: float, shorten: bool
) -> None:
    content = bytearray(parquet_bytes(grid(), MAKER))
    content[int(place * (len(content) - 1))] = value
    told = "x.parquet"
    try:
        read_sweep([("x.parquet", bytes(content[: int(cut * len(content))] if shorten else content))])
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
        AdvisorError, match=r"b was made by release 1\.2\.3, constants ffffffffffff, a by .* do not compare"
    ):
        read_sweep([("a", parquet(grid(), MAKER)), ("b", other)])


def test_more_rows_than_are_read_here_are_told_before_any_is_read() -> None:
    with pytest.raises(AdvisorError, match="b: with it there are 48 rows; at most 30 are read here: ask larger"):
        read_sweep([("a", parquet(grid())), ("b", parquet(grid()))], max_rows=30)


def test_a_text_that_would_fill_the_memory_is_cut_before_it_is_spread_over_the_rows() -> None:
    long = grid().assign(routing="x" * 100_000, engine="<b onclick=1>")
    found = read_sweep([("x", parquet(long))]).frame
    assert found["routing"].str.len().max() == 300
    assert set(found["engine"]) == {"?b onclick?1?"}, "pictures read markup"
    table = pa.Table.from_pandas(pd.concat([grid()] * 100).assign(reason="y" * 1_000_000))
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
