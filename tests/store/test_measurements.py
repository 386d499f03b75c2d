"""Every shipped dataset agrees with its meta.yaml, and the check itself can fail."""

from __future__ import annotations

import csv
import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from advisor.measured.measurements import dataset_folders, read_dataset
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS

FOLDERS = dataset_folders()
ROWS = {
    "published_speedups": 755,
    "published_speedups_2": 798,
    "moesd_cells": 60,
    "verify_cost_curve": 129,
    "decode_no_sd": 250,
}


def test_the_expected_datasets_are_shipped():
    assert {folder.name for folder in FOLDERS} >= set(ROWS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_dataset_agrees_with_its_meta(folder: Path):
    meta, frame = read_dataset(folder)
    assert len(frame) == meta.row_count == ROWS.get(folder.name, meta.row_count)
    assert list(frame.columns) == list(meta.columns)
    first = next(iter(meta.columns))
    assert frame[first].is_unique, "the first column names the row"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_row_names_a_source_that_the_meta_lists(folder: Path):
    meta, frame = read_dataset(folder)
    if meta.status == "published":
        listed = {source.url for source in meta.sources}
        if "source_url" in frame:
            assert set(frame["source_url"]) == listed
            unaddressed = frame.loc[frame["source_url"] == "", "source_title"]
            assert set(unaddressed) == {source.title for source in meta.sources if not source.url}
        else:
            assert (frame["source"] != "").all()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_dataset_is_plain_utf8_with_unix_line_ends(folder: Path):
    raw = (folder / "data.csv").read_bytes()
    raw.decode("utf-8")
    assert b"\r" not in raw
    assert not raw.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("name", ["published_speedups", "published_speedups_2"])
def test_printed_speedups_follow_from_their_two_values(name: str):
    _, frame = read_dataset(MEASUREMENTS / name)
    both = frame[(frame["baseline_value"] != "") & (frame["sd_value"] != "")]
    baseline, sd = both["baseline_value"].astype(float), both["sd_value"].astype(float)
    lower_is_better = both["metric"].isin(["tpot_ms", "request_latency_s"])
    expected = (sd / baseline).where(~lower_is_better, baseline / sd)
    stated = both["speedup"].astype(float)
    assert len(both) > 600
    assert ((expected / stated - 1).abs() < 0.02).all()


def test_moesd_derived_columns_follow_from_the_printed_ones():
    _, frame = read_dataset(MEASUREMENTS / "moesd_cells")
    cells = frame[["sigma", "draft_tokens_gamma", "tokens_per_round", "speedup_peak", "round_cost_in_ar_steps"]]
    cells = cells.astype(float)
    tokens = cells["sigma"] * (cells["draft_tokens_gamma"] + 1)
    assert (tokens - cells["tokens_per_round"]).abs().max() < 0.01
    assert (tokens / cells["speedup_peak"] - cells["round_cost_in_ar_steps"]).abs().max() < 0.01


def test_publications_reserved_for_validation_are_absent():
    reserved = ("2026-07-13", "AngelSlim/issues/163", "pull/1333", "MiniMax-M3.md", "glm5.1")
    for folder in FOLDERS:
        _, frame = read_dataset(folder)
        for url in frame.get("source_url", []):
            assert not any(part in url for part in reserved), url
            assert "2026-08-14-dspark" not in url or folder.name == "verify_cost_curve"
    meta, _ = read_dataset(MEASUREMENTS / "verify_cost_curve")
    assert any("kept out of this project for validation" in caveat for caveat in meta.caveats)


def _copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MEASUREMENTS / "moesd_cells", tmp_path / "moesd_cells"))


def _rehash(folder: Path) -> None:
    meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
    meta["sha256"] = hashlib.sha256((folder / "data.csv").read_bytes()).hexdigest()
    (folder / "meta.yaml").write_text(yaml.safe_dump(meta, sort_keys=False), encoding="utf-8")


def test_a_changed_cell_is_noticed(tmp_path: Path):
    folder = _copy(tmp_path)
    data = folder / "data.csv"
    data.write_text(data.read_text(encoding="utf-8").replace("18.89", "18.90", 1), encoding="utf-8")
    with pytest.raises(AdvisorError, match="sha256"):
        read_dataset(folder)


def test_a_value_outside_the_enumeration_is_noticed(tmp_path: Path):
    folder = _copy(tmp_path)
    data = folder / "data.csv"
    data.write_text(data.read_text(encoding="utf-8").replace("HumanEval", "Humaneval", 1), encoding="utf-8")
    _rehash(folder)
    with pytest.raises(AdvisorError, match=r"column dataset: 'Humaneval'"):
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
