"""The blind prediction: what is in it, that it cannot change unseen, and the command that scores
it.

Both times of a published row against their predictions.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from advisor.measured.observations import laboratory_of, set_apart
from advisor.measured.points import measured_times
from advisor.prediction import AdvisorError
from advisor.text import RENAMED
from studies import blind
from studies.blind import (
    BATCHES,
    BLIND,
    COLUMNS,
    DRAFTS,
    KEYS,
    NAMED,
    freeze,
    frozen,
    predicted,
    predicted_times,
    ratios,
    sha256_of,
)
from studies.published import point_of
from tests.measured.test_points import ROW

FOLDERS = sorted(path.parent for path in BLIND.glob("*/grid.csv"))


@pytest.fixture(scope="module")
def grid() -> pd.DataFrame:
    return predicted(NAMED)


@pytest.fixture
def folder(tmp_path: Path, grid: pd.DataFrame) -> Path:
    (tmp_path / "README.md").write_text(
        "| folder | version | sha256 of grid.csv |\n|---|---|---|\n"
    )
    freeze(tmp_path / "2026-11-22", grid)
    return tmp_path / "2026-11-22"


def test_every_frozen_prediction_is_what_was_frozen_and_listed() -> None:
    listed = dict(
        re.findall(
            r"^\| (\d{4}-\d\d-\d\d) \| [^|]+ \| ([0-9a-f]{64}) \|$",
            (BLIND / "README.md").read_text(),
            re.M,
        )
    )
    assert sorted(listed) == [folder.name for folder in FOLDERS]
    for folder in FOLDERS:
        assert sha256_of(folder / "grid.csv") == listed[folder.name]
        assert list(frozen(folder).columns) == [*KEYS, *COLUMNS]


def test_the_grid_is_the_announced_one_and_physical(grid: pd.DataFrame) -> None:
    for _, rows in grid.groupby("model_id"):
        assert set(zip(rows["batch_size"], rows["n_draft"], strict=True)) == {
            (b, k) for b in BATCHES for k in DRAFTS
        }
    assert set(grid["named"]) == {"yes"}
    steps = np.diff(
        grid.pivot(index=["model_id", "batch_size"], columns="n_draft", values="verify_step_ms"),
        axis=1,
    )
    touched = np.diff(
        grid.pivot(index=["model_id", "batch_size"], columns="n_draft", values="touched_experts"),
        axis=1,
    )
    assert (steps > 0).all()
    assert (touched >= 0).all()
    assert (touched > 0).mean() > 0.8, "only Mixtral's eight are all touched before the end"
    assert (grid["touched_experts_low"] <= grid["touched_experts"] * (1 + 1e-9)).all()
    assert (grid["touched_experts"] <= grid["touched_experts_high"] * (1 + 1e-9)).all()
    plain = grid["n_draft"] == 0
    assert (grid.loc[plain, ["verify_ratio", "round_ratio"]].to_numpy() == 1.0).all()
    assert (grid.loc[~plain, "round_ratio"] >= grid.loc[~plain, "verify_ratio"]).all()
    assert (
        grid["round_ratio"]
        .between(grid["round_ratio_low"] * (1 - 1e-9), grid["round_ratio_high"] * (1 + 1e-9))
        .all()
    )


def test_no_accepted_length_is_assumed_in_what_is_frozen(
    grid: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blind, "ANY_LENGTH", "3.5@4")
    for name in ("verify_ratio", "round_ratio", "round_ratio_low", "round_ratio_high"):
        assert predicted(NAMED[:1])[name].to_numpy() == pytest.approx(
            grid[name].to_numpy()[:20], rel=1e-9
        ), name


def test_a_changed_grid_is_refused_and_a_frozen_one_is_not_written_again(
    folder: Path, grid: pd.DataFrame
) -> None:
    assert (
        yaml.safe_load((folder / "meta.yaml").read_text())["sha256"]
        in (folder.parent / "README.md").read_text()
    )
    assert len(frozen(folder)) == len(grid)
    with pytest.raises(AdvisorError, match="is frozen"):
        freeze(folder, grid)
    path = folder / "grid.csv"
    path.write_text(path.read_text().replace("fitted", "measured", 1))
    with pytest.raises(AdvisorError, match="not what was frozen"):
        frozen(folder)


def invented(grid: pd.DataFrame, times: float = 1.0) -> pd.DataFrame:
    """INVENTED measurements: the grid's own numbers, times off by a factor at K > 0."""
    rows = grid[grid["model_id"] == NAMED[0]]
    factor = np.where(rows["n_draft"] > 0, times, 1.0)
    length = 1.0 + 0.5 * np.sqrt(rows["n_draft"])
    return rows[[*KEYS, "touched_experts"]].assign(
        verify_step_ms=rows["verify_step_ms"] * factor,
        accepted_length=length,
        speedup=length / (rows["round_ratio"] * factor),
    )


@pytest.mark.parametrize(
    ("times", "error", "bias"), [(1.0, "0.0%", "+0.0%"), (1.25, "20.0%", "-20.0%")]
)
def test_a_measurement_is_scored_by_quantity(
    grid: pd.DataFrame, times: float, error: str, bias: str
) -> None:
    lines = list(blind.score_lines(blind.with_measured(grid, invented(grid, times))))
    by_name = {line.split()[1]: line.split() for line in lines[1:] if "regret" not in line}
    assert set(by_name) == {
        "touched_experts",
        "plain_step_ms",
        "verify_step_ms",
        "verify_ratio",
        "round_ratio",
    }
    assert by_name["touched_experts"][2:] == ["16", "0.0%", "+0.0%", "100%"]
    assert by_name["plain_step_ms"][2:4] == ["4", "0.0%"]
    for name in ("verify_step_ms", "verify_ratio", "round_ratio"):
        assert [cell.replace("-0.0%", "+0.0%") for cell in by_name[name][2:5]] == [
            "16",
            error,
            bias,
        ], name
    assert lines[-1].endswith("worst")
    assert float(lines[-1].rsplit(" regret ")[1].split("%")[0]) < 1.0, (
        "a common factor changes no order of K > 0"
    )


def test_regret_is_what_the_predicted_k_loses(grid: pd.DataFrame) -> None:
    measured = invented(grid)
    best = measured.groupby("batch_size")["speedup"].idxmax()
    measured.loc[measured.index.difference(best), "speedup"] *= 2.0
    (line,) = [
        one for one in blind.score_lines(blind.with_measured(grid, measured)) if "regret" in one
    ]
    assert float(line.split("regret ")[1].split("%")[0]) > 20.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.drop(columns="batch_size"), "no column batch_size"),
        (lambda rows: pd.concat([rows, rows]), "stands twice"),
        (lambda rows: rows.assign(model_id="other"), "no row has a prediction"),
    ],
)
def test_a_measurement_that_cannot_be_scored_says_why(
    grid: pd.DataFrame, change: object, words: str
) -> None:
    with pytest.raises(AdvisorError, match=words):
        blind.with_measured(grid, change(invented(grid)))  # type: ignore[operator]


def documented(names: str) -> list[str]:
    """Columns that the README names for the scoring command, `names` being the words before
    them."""
    said = " ".join(line.lstrip(" #") for line in (BLIND / "README.md").read_text().splitlines())
    found = re.search(
        rf"--score measured.csv\s+# {names} ([\w, ]+?), and any of ([\w, ]+?)\s+Each folder", said
    )
    return [name.strip() for part in found.groups() for name in part.split(",")]


@pytest.mark.parametrize("renamed", [False, True])
def test_the_documented_command_scores_its_documented_columns(
    tmp_path: Path, renamed: bool
) -> None:
    columns = documented("columns")
    assert set(KEYS) < set(columns)
    rows = frozen(FOLDERS[-1]).query("model_id == 'qwen3-30b-a3b'")
    values = rows.assign(accepted_length=1.5, speedup=1.5 / rows["round_ratio"])[columns]
    if renamed:
        values = values.rename(columns={new: old for old, new in RENAMED.items()})
    values.to_csv(tmp_path / "measured.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-m", "studies.blind", "--score", tmp_path / "measured.csv"],
        capture_output=True,
        text=True,
        cwd=BLIND.parents[1],
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "regret" in done.stdout
    assert ("k_draft as n_draft, distinct_experts as touched_experts" in done.stdout) == renamed


@pytest.mark.parametrize("content", ["", 'a,b\n1,"2\n'])
def test_a_file_that_is_no_measurement_gets_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.csv").write_text(content)
    with pytest.raises(AdvisorError, match="no CSV with a header line"):
        blind.main(["--score", str(tmp_path / "m.csv")])


SOURCED = ROW | {"source_title": "SpecForge issue 339"}


def test_predicted_times_are_those_behind_the_predicted_speedup() -> None:
    point = point_of(SOURCED)
    plain, speculative = predicted_times(point)
    (one,) = ratios([point]).to_dict("records")
    assert one["plain"] == pytest.approx(math.log(plain / measured_times(SOURCED)[0]))
    assert one["speedup"] == pytest.approx(math.log(plain / speculative / 1.5))


def test_rows_without_times_and_laboratories_set_apart_are_left_out() -> None:
    bare = SOURCED | {"baseline_value": "", "sd_value": "", "metric": "ratio_only"}
    apart = SOURCED | {"source_title": "S2-MoE README (arXiv 2608.15018)"}
    assert set_apart(laboratory_of(apart["source_title"]))
    assert ratios([point_of(bare), point_of(apart)]).empty
