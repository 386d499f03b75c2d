"""docs/scores.csv: what a line says, that the log only grows, and that what it says is in use."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.measured.measurements import read_dataset
from advisor.measured.published import COLLECTIONS
from advisor.measured.validation import read_prospective
from advisor.physics import bands
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from studies.fits.held_out import held_out
from studies.rereading import HIDDEN, drawn, page
from studies.score import (
    DRAWN,
    LOG,
    append,
    figures,
    four_constants,
    half_width,
    judged,
    pooled,
    read_log,
    scored,
)
from studies.validation.report import REPORT, first_table
from tests.published import judged as judged_points

FROZEN = sorted(LOG.with_suffix("").glob("*.csv"))
FOURTH = Path(__file__).parents[3] / "shared/facts/published_points_4_dev.csv"
"""The collection as it was scored; 40 of its rows have no address and are not published."""
BLIND = LOG.parent / "blind"


def rows(**changes: object) -> pd.DataFrame:
    """INVENTED rows of a large laboratory and a small one."""
    columns = {
        "laboratory": ["a"] * 4 + ["b"],
        "known": [1, 1, 1, 1, 0],
        "measured": [1.0, 2.0, 0.8, 0.9, 2.0],
        "predicted": [1.0, 1.0, 0.9, 1.1, 1.0],
        "low": 0.85,
        "high": [1.5, 1.5, 1.0, 1.5, 1.5],
        "chance": [0.5, 0.5, 0.2, 0.8, 0.99],
        "four_constants": 1.0,
    }
    return pd.DataFrame(columns | changes)


def test_laboratories_count_alike_and_chances_by_row() -> None:
    found = figures(rows())
    assert (found["laboratories"], found["rows"]) == (2, 5)
    of_a = np.mean([0.0, 0.5, 0.1 / 0.8, 0.2 / 0.9])
    assert found["error"] == pytest.approx((of_a + 0.5) / 2)
    assert found["range_held"] == pytest.approx((2 / 4 + 0 / 1) / 2)
    assert (found["slowdowns"], found["foreseen"]) == (2, 1)
    assert (found["gains"], found["false"]) == (3, 0)
    assert (found["rows_50"], found["gained_50"]) == (2, 0.5)
    assert (found["rows_95"], found["stated_95"], found["gained_95"]) == (1, 0.99, 1.0)


def test_the_needed_half_width_holds_four_fifths_of_the_rows_laboratories_alike() -> None:
    off = np.linspace(0.1, 1.0, 10)
    alike = rows(laboratory=["a"] * 5)
    alike = pd.concat([alike, alike]).assign(predicted=1.0, measured=np.exp(off))
    assert figures(alike)["needed_log_half_width"] == pytest.approx(0.8)
    small = alike.assign(laboratory=["a"] * 9 + ["b"])  # half of the weight on the largest miss
    assert figures(small)["needed_log_half_width"] == pytest.approx(1.0)


def test_the_four_constants_never_saw_the_laboratory_that_they_judge() -> None:
    rng = np.random.default_rng(0)
    known = pd.DataFrame(
        {
            "source": np.repeat(["a", "b", "c"], 20),
            "accepted_length": rng.uniform(1.5, 4.0, 60),
            "batch_size": rng.integers(1, 64, 60),
            "n_draft": rng.integers(1, 8, 60),
        }
    )
    law = 0.8 * known["accepted_length"] / (known["n_draft"] + 1) ** 0.2
    exact = known.assign(measured=law)
    assert four_constants(exact, exact) == pytest.approx(law.to_numpy())
    doubled = exact.assign(measured=law * np.where(exact["source"] == "a", 2.0, 1.0))
    of_a = (doubled["source"] == "a").to_numpy()
    assert four_constants(doubled, doubled)[of_a] == pytest.approx(law[of_a].to_numpy())
    assert np.all(four_constants(doubled, doubled)[~of_a] > 1.05 * law[~of_a])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two lines on INVENTED rows."""
    path = tmp_path / "scores.csv"
    (tmp_path / "scores").mkdir()
    for name, factor in (("first", 1.0), ("second", 1.2)):
        published = rows().assign(point_id=list("vwxyz"))
        frozen = published.drop(columns="measured").assign(
            predicted=published["predicted"] * factor
        )
        frozen.to_csv(tmp_path / "scores" / f"{name}.csv", index=False)
        published["speedup"] = published["measured"]
        published.to_csv(tmp_path / f"{name}.csv", index=False)
        append(name, tmp_path / f"{name}.csv", "0.0 abc", DRAWN[0], path)
    return path


def test_a_line_that_was_changed_is_noticed_and_so_is_one_taken_out(log: Path) -> None:
    assert list(read_log(log)["collection"]) == ["first", "second"]
    head, first, second = log.read_text().splitlines()
    for lines in ([head, first.replace(",5,", ",6,", 1), second], [head, second]):
        log.write_text("\n".join(lines) + "\n")
        with pytest.raises(AdvisorError, match="was changed"):
            read_log(log)


def test_a_collection_is_scored_once_and_never_without_predictions(log: Path) -> None:
    for name, how in (("first", DRAWN[0]), ("third", DRAWN[0]), ("third", "some other way")):
        with pytest.raises(AdvisorError, match="has a line already"):
            append(name, log.parent / "first.csv", "0.0 abc", how, log)
    (log.parent / "second.csv").write_text("point_id,speedup\nv,1.0\n")
    with pytest.raises(AdvisorError, match="predicts w, which is no row"):
        scored(log.parent / "second.csv", log.parent / "scores" / "second.csv")


def test_pooled_figures_are_means_over_the_last_laboratories(log: Path) -> None:
    lines = read_log(log)
    assert pooled(lines)["error"] == pytest.approx(lines["error"].mean())
    assert pooled(lines)["rows"] == 10
    assert pooled(lines, "known_")["laboratories"] == 2
    many = lines.assign(laboratories=[30, 30])
    assert pooled(many)["error"] == pytest.approx(lines["error"].iloc[1])


def test_the_log_is_the_one_that_was_appended_and_its_predictions_those_that_were_frozen() -> None:
    lines = read_log()
    hashes = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in FROZEN}
    assert dict(zip(lines["collection"], lines["predictions_sha256"], strict=True)) == hashes


def test_a_collection_without_a_line_is_not_used() -> None:
    first, *later = COLLECTIONS  # what the project began from
    assert set(later) <= set(read_log()["collection"])
    for name in later[2:]:  # earlier ones have been read again since
        rows_of_it = read_dataset(MEASUREMENTS / name)[1].set_index("point_id")
        frozen = pd.read_csv(LOG.with_suffix("") / f"{name}.csv")
        assert set(rows_of_it.index) <= set(frozen["point_id"]), first


@pytest.mark.skipif(not FOURTH.exists(), reason="the collection as it was handed over is not here")
def test_the_fourth_collection_scores_what_its_line_says() -> None:
    line = read_log().set_index("collection").loc["published_speedups_4"]
    assert hashlib.sha256(FOURTH.read_bytes()).hexdigest() == line["collection_sha256"]
    again = scored(FOURTH, LOG.with_suffix("") / "published_speedups_4.csv")
    for name, value in again.items():
        assert line[name] == pytest.approx(value, rel=1e-3, nan_ok=True), name


def test_the_half_width_in_use_is_what_the_log_says() -> None:
    """Rows chosen for a cause tell no width; of the others the worst collection does."""
    lines = read_log()
    of_the_field = lines[lines["drawn"] != "causes"]["needed_log_half_width"]
    assert half_width(lines) == pytest.approx(of_the_field.max(), abs=0.005)
    assert half_width(lines) == bands.UNSEEN_LOG_HALF_WIDTH


def test_the_document_opens_with_the_table_that_its_rows_give_today() -> None:
    """The opening of docs/validation.md, generated again."""
    assert first_table(held_out(judged_points())) in REPORT.read_text(encoding="utf-8")


def test_known_rows_have_kernels_and_an_engine_that_another_laboratory_measured() -> None:
    frame = pd.DataFrame(
        {
            "source": ["a", "a", "b", "c"],
            "engine_class": ["vllm", "sglang", "vllm", "vllm"],
            "tier": ["fitted", "fitted", "fitted", "roofline"],
            "draws": [np.array([0.9, 1.1])] * 4,
            "accepted_length": [2.0, 2.2, 3.0, 2.5],
            "batch_size": [1, 2, 4, 8],
            "n_draft": [1, 2, 3, 5],
            **dict.fromkeys(("measured", "predicted", "low", "high"), 1.0),
        }
    )
    found = judged(frame, frame)
    assert list(found["known"]) == [1, 0, 1, 0]
    assert list(found["chance"]) == [0.5] * 4


def test_rows_to_read_again_hide_what_was_measured_and_are_drawn_by_the_release() -> None:
    rows_drawn = drawn(5, "0.0")
    assert not set(HIDDEN) & set(rows_drawn)
    assert list(rows_drawn.index) == list(drawn(5, "0.0").index)
    assert list(rows_drawn.index) != list(drawn(5, "0.1").index)
    text = page({str(name): cell for name, cell in rows_drawn.iloc[0].items()})
    assert rows_drawn["source_url"].iloc[0] in text
    assert "predicted as\n  " in text


def test_every_frozen_grid_is_what_was_frozen_and_listed() -> None:
    listed = re.findall(
        r"^\| (\d{4}-\d\d-\d\d) \| [^|]+ \| ([0-9a-f]{64}) \|$",
        (BLIND / "README.md").read_text(),
        re.MULTILINE,
    )
    grids = {path.parent.name: path for path in BLIND.glob("*/grid.csv")}
    assert grids.keys() == dict(listed).keys()
    for folder, digest in listed:
        assert hashlib.sha256(grids[folder].read_bytes()).hexdigest() == digest


def test_the_shipped_prospective_figures_are_the_logs() -> None:
    pooled_log = pooled(read_log())
    for name, value in read_prospective()._asdict().items():
        assert value == pytest.approx(pooled_log[name], rel=1e-5), name
