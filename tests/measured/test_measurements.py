"""Every shipped dataset and sweep agrees with its meta.yaml, and the check itself can fail; a sweep
is fitted."""

from __future__ import annotations

import csv
import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from advisor.measured.measurements import (
    ProfilerSweep,
    dataset_folders,
    read_dataset,
    read_sweep,
    sweep_folders,
    sweeps,
)
from advisor.measured.sweep_fit import fit_sweep
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from studies.published import read_numbers
from tests.golden.sentences import Golden, lines_with
from tests.measured.sweep_fixture import (
    ACTIVATION_BANDWIDTH,
    BANDWIDTH,
    DEVICE,
    T0_S,
    layer_row,
    sweep_rows,
    write_sweep,
)

FOLDERS = dataset_folders()
ROWS = {
    "published_speedups": 755,
    "published_speedups_2": 785,
    "published_speedups_3": 255,
    "published_speedups_4": 29,
    "moesd_cells": 60,
    "verify_cost_curve": 129,
    "decode_no_sd": 254,
    "decode_no_sd_2": 8,
}


def test_the_expected_datasets_are_shipped():
    assert {folder.name for folder in FOLDERS} >= set(ROWS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_dataset_agrees_with_its_meta_lists_each_source_and_is_plain_utf8_with_unix_line_ends(
    folder: Path,
):
    meta, frame = read_dataset(folder)
    assert len(frame) == meta.row_count == ROWS.get(folder.name, meta.row_count)
    assert list(frame.columns) == list(meta.columns)
    first = next(iter(meta.columns))
    assert frame[first].is_unique, "the first column names the row"
    if meta.status == "published":
        listed = {source.url for source in meta.sources}
        if "source_url" in frame:
            assert set(frame["source_url"]) == listed
            unaddressed = frame.loc[frame["source_url"] == "", "source_title"]
            assert set(unaddressed) == {source.title for source in meta.sources if not source.url}
        else:
            assert (frame["source"] != "").all()
    raw = (folder / "data.csv").read_bytes()
    raw.decode("utf-8")
    assert b"\r" not in raw
    assert not raw.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("published_speedups", 600),
        ("published_speedups_2", 600),
        ("published_speedups_3", 200),
        ("published_speedups_4", 25),
    ],
)
def test_printed_speedups_follow_from_their_two_values(name: str, least: int):
    _, frame = read_dataset(MEASUREMENTS / name)
    both = frame[(frame["baseline_value"] != "") & (frame["sd_value"] != "")]
    baseline = both["baseline_value"].astype(float)
    sd = both["sd_value"].astype(float)
    lower_is_better = both["metric"].isin(["tpot_ms", "request_latency_s"])
    expected = (sd / baseline).where(~lower_is_better, baseline / sd)
    stated = both["speedup"].astype(float)
    assert len(both) > least
    assert ((expected / stated - 1).abs() < 0.02).all()


def test_moesd_derived_columns_follow_from_the_printed_ones():
    _, frame = read_dataset(MEASUREMENTS / "moesd_cells")
    cells = frame[
        [
            "sigma",
            "draft_tokens_gamma",
            "tokens_per_round",
            "speedup_peak",
            "round_cost_in_ar_steps",
        ]
    ]
    cells = cells.astype(float)
    tokens = cells["sigma"] * (cells["draft_tokens_gamma"] + 1)
    assert (tokens - cells["tokens_per_round"]).abs().max() < 0.01
    assert (tokens / cells["speedup_peak"] - cells["round_cost_in_ar_steps"]).abs().max() < 0.01


def test_empty_cells_are_missing_and_columns_of_numbers_are_numbers() -> None:
    points = read_numbers(MEASUREMENTS / "published_speedups")
    assert points["speedup"].dtype == np.float64
    assert points["gpu_count"].isna().sum() == 591
    assert not (points["engine"] == "").any()
    assert points["draft_tokens_k"].max() > 1


def test_publications_reserved_for_validation_are_absent(golden):
    reserved = ("2026-07-13", "AngelSlim/issues/163", "pull/1333", "MiniMax-M3.md", "glm5.1")
    for folder in FOLDERS:
        _, frame = read_dataset(folder)
        for url in frame.get("source_url", []):
            assert not any(part in url for part in reserved), url
            assert "2026-08-14-dspark" not in url or folder.name == "verify_cost_curve"
    meta, _ = read_dataset(MEASUREMENTS / "verify_cost_curve")
    golden(kept_out=lines_with(meta.caveats, "kept out"))


def _copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MEASUREMENTS / "moesd_cells", tmp_path / "moesd_cells"))


def _rehash(folder: Path) -> None:
    meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
    meta["sha256"] = hashlib.sha256((folder / "data.csv").read_bytes()).hexdigest()
    (folder / "meta.yaml").write_text(yaml.safe_dump(meta, sort_keys=False), encoding="utf-8")


@pytest.mark.parametrize(
    ("cell", "changed", "expected", "hashed"),
    [
        ("18.89", "18.90", "sha256", False),
        ("HumanEval", "Humaneval", r"column dataset: 'Humaneval'", True),
    ],
)
def test_a_changed_cell_is_noticed(
    tmp_path: Path, cell: str, changed: str, expected: str, hashed: bool
):
    folder = _copy(tmp_path)
    data = folder / "data.csv"
    data.write_text(data.read_text(encoding="utf-8").replace(cell, changed, 1), encoding="utf-8")
    if hashed:
        _rehash(folder)
    with pytest.raises(AdvisorError, match=expected):
        read_dataset(folder)


def test_a_missing_row_and_an_undocumented_column_are_noticed(tmp_path: Path):
    folder = _copy(tmp_path)
    data = folder / "data.csv"
    rows = list(csv.reader(data.open(encoding="utf-8", newline="")))
    with data.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows(rows[:-1])
    _rehash(folder)
    with pytest.raises(AdvisorError, match="59 rows"):
        read_dataset(folder)
    with data.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows([[*row, "x"] for row in rows])
    _rehash(folder)
    with pytest.raises(AdvisorError, match=r"columns of meta\.yaml differ: x"):
        read_dataset(folder)


def test_a_meta_without_a_source_is_refused(tmp_path: Path):
    folder = _copy(tmp_path)
    meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
    meta["sources"] = []
    (folder / "meta.yaml").write_text(yaml.safe_dump(meta, sort_keys=False), encoding="utf-8")
    with pytest.raises(AdvisorError, match="sources"):
        read_dataset(folder)


GOAL = 0.08
SHIPPED = sweep_folders()


def fitted(tmp_path: Path, rows: list[dict[str, Any]]) -> Any:
    return fit_sweep(read_sweep(write_sweep(tmp_path / "made-up", rows)))[0]


def test_sweeps_are_listed_as_they_describe_themselves(tmp_path: Path) -> None:
    write_sweep(tmp_path / "cpu-made-up-quick")
    running = write_sweep(tmp_path / "cpu-running")
    (running / "meta.yaml").unlink()
    (running / "progress.json").write_text("{}")
    assert sweeps(tmp_path)[["name", "device", "status", "preset"]].to_numpy().tolist() == [
        ["cpu-made-up-quick", DEVICE, "complete", "quick"]
    ]


def test_a_compressed_sweep_reads_like_a_plain_one(tmp_path: Path) -> None:
    plain = read_sweep(write_sweep(tmp_path / "a"))
    packed = read_sweep(write_sweep(tmp_path / "b", packed=True))
    pd.testing.assert_frame_equal(plain.rows, packed.rows)


def damaged(folder: Path, old: str, new: str) -> str:
    file = folder / "data.csv"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(AdvisorError) as caught:
        read_sweep(folder)
    return str(caught.value)


def test_damage_to_a_sweep_is_named_with_file_line_and_column(
    tmp_path: Path, golden: Golden
) -> None:
    golden(line_column=lines_with(damaged(write_sweep(tmp_path / "a"), "0.01", "fast"), "line 2"))
    golden(line_column_2=lines_with(damaged(write_sweep(tmp_path / "b"), "0.01", "inf"), "line 2"))
    assert "unknown kernels" in damaged(write_sweep(tmp_path / "c"), "kernel,", "kernels,")
    text = damaged(write_sweep(tmp_path / "d"), ",ok,", ",error,")
    golden(meta_yaml=lines_with(text, "meta"))
    broken = write_sweep(tmp_path / "e", status="splendid")
    with pytest.raises(AdvisorError, match="status"):
        read_sweep(broken)
    (broken / "meta.yaml").unlink()
    with pytest.raises(AdvisorError, match=r"meta\.yaml is missing"):
        read_sweep(broken)


def test_a_fit_finds_the_constants_the_rows_were_made_with(tmp_path: Path, golden: Golden) -> None:
    fit = fitted(tmp_path, sweep_rows())
    record = fit.record
    assert record.value("t0_s") == pytest.approx(T0_S, rel=0.05)
    assert record.value("weight_s_per_byte") == pytest.approx(1 / BANDWIDTH, rel=0.05)
    assert record.value("activation_s_per_byte") == pytest.approx(
        1 / ACTIVATION_BANDWIDTH, rel=0.05
    )
    assert (record.dtype, record.kernel_source, record.hardware_id) == (
        "bf16",
        "expert_loop",
        "local-made-up",
    )
    assert [(item.reason, item.n_rows) for item in record.dropped] == [
        ("layers with a shared expert", 1)
    ]
    assert fit.mean_ratio_error < 0.005
    golden(not_told=lines_with(record.message, "not told"))


def test_the_error_on_held_out_k_is_that_of_the_noise(tmp_path: Path) -> None:
    """Noise of 4 % on each of two times moves a ratio by 0.8 x 4 % x sqrt 2 = 4.5 % in the mean."""
    fit = fitted(tmp_path, sweep_rows(noise=0.04, ks=(1, 2, 3, 4, 6, 8)))
    assert 0.03 < fit.mean_ratio_error < 0.06
    assert set(fit.by_k()["n_active"]) == {1, 2, 3, 4, 6, 8}


def test_a_k_that_behaves_otherwise_shows_up_only_because_it_is_held_out(tmp_path: Path) -> None:
    rows = sweep_rows()
    for row in rows:
        if row.get("n_active") == 8 and row["status"] == "ok":
            row["time_p20_s"] *= float(row["n_tokens"]) ** 0.3
    worst = fitted(tmp_path, rows).by_k().set_index("n_active")["mean_error"]
    assert worst[8] > 0.2
    assert worst[8] == worst.max()


def test_verification_ratios_pair_rows_of_one_shape_and_count_every_q(tmp_path: Path) -> None:
    ratios = fitted(tmp_path, sweep_rows()).ratios
    assert set(ratios["tokens_per_sequence"]) == {2, 4, 8}
    correlated = ratios[ratios["routing"] == "correlated"]
    assert correlated[["batch_size", "tokens_per_sequence"]].to_numpy().tolist() == [[4, 2], [4, 4]]
    one = ratios[
        (ratios["n_experts"] == 64) & (ratios["n_active"] == 2) & (ratios["batch_size"] == 4)
    ]
    top = layer_row(64, 2, 32, 1)["time_p20_s"]
    bottom = layer_row(64, 2, 4, 1)["time_p20_s"]
    measured = one.loc[one["tokens_per_sequence"] == 8, "measured_ratio"].item()
    assert measured == pytest.approx(top / bottom, rel=1e-6)


def test_an_accelerator_is_fitted_on_medians_and_a_cpu_on_its_low_quantile(tmp_path: Path) -> None:
    cpu = read_sweep(write_sweep(tmp_path / "a"))
    device = cpu.meta.device.model_copy(update={"backend": "cuda"})
    gpu = ProfilerSweep(
        cpu.name, cpu.meta.model_copy(update={"device": device}), cpu.rows, cpu.sha256
    )
    ratio = fit_sweep(gpu)[0].record.value("weight_s_per_byte") / fit_sweep(cpu)[0].record.value(
        "weight_s_per_byte"
    )
    assert ratio == pytest.approx(1.1, rel=0.01)


def test_a_sweep_without_enough_layers_says_what_to_measure(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="measure the preset quick"):
        fitted(tmp_path, [layer_row(32, 2, 1, 1)])


@pytest.mark.parametrize(
    "folder", SHIPPED or [None], ids=lambda folder: folder.name if folder else "none"
)
def test_a_shipped_sweep_predicts_the_verification_ratio_of_held_out_k(folder: Path | None) -> None:
    if folder is None:
        pytest.skip("no sweep is shipped under measurements/, so there is nothing to hold out")
    fits = [fit for fit in fit_sweep(read_sweep(folder)) if fit.record.dtype == "bf16"]
    assert fits, "a shipped sweep measures bf16 layers"
    assert fits[0].mean_ratio_error <= GOAL, fits[0].by_k().to_string()
