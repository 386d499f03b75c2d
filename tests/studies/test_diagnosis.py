"""Which published rows can be predicted, and that the rest is refused for a reason.

The doctor on the shipped measurements: it blames next to none of the clean ones.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import pytest

from advisor.answers.diagnosis.physics import time_spread
from advisor.measured.points import published_rows
from advisor.measured.published import COLLECTIONS
from studies.diagnosis import (
    FILE,
    Tried,
    alarm_rate,
    answered,
    by_laboratory,
    clean,
    summary,
    tried,
    width_of,
)
from tests.golden.sentences import Golden, lines_with


def test_most_rows_of_the_second_collection_that_state_enough_are_predicted() -> None:
    rows = answered(published_rows(COLLECTIONS[1]))
    asked = rows[rows["asked"]]
    assert asked["predicted"].mean() >= 0.85
    assert (rows.loc[~rows["predicted"], "reason"] != "").all()
    large = asked.groupby("laboratory").filter(lambda group: len(group) > 4)
    assert large.groupby("laboratory")["predicted"].mean().min() >= 0.7
    assert rows["plain_s"].notna().mean() > 0.9


def test_a_row_that_states_no_accelerator_is_not_counted_and_one_without_model_is_refused(
    golden: Golden,
) -> None:
    frame = published_rows(COLLECTIONS[1])
    one = frame[frame["hardware_id"] == "b200-sxm"].head(1)
    assert not answered(one.assign(hardware_id="not-stated"))["asked"].item()
    unnamed = answered(one.assign(model_id="not-stated"))
    assert unnamed["asked"].item()
    golden(model_id=lines_with(by_laboratory(unnamed), "model_id is"))
    golden(these_are=lines_with(summary(unnamed), "of these"))


SAMPLE = 6
MOST = 0.05


@lru_cache(maxsize=1)
def sample() -> list[Tried]:
    return tried(SAMPLE)


def test_clean_measurements_are_blamed_in_at_most_one_of_twenty() -> None:
    fine = clean(sample())
    predicted = [row for row in fine if row.predicted]
    print(
        f"false alarms: {alarm_rate(fine):.1%} of {len(fine)} rows, {alarm_rate(predicted):.1%} "
        f"of {len(predicted)}"
    )
    assert len(fine) > 200
    assert len(predicted) > 60
    assert alarm_rate(fine) <= MOST
    assert alarm_rate(predicted) <= MOST


def test_a_predicted_loss_is_told_of_measured_losses_alone() -> None:
    """The rate of alarms leaves these findings out."""
    fine = clean(sample())
    assert sum(bool(row.found) for row in fine) <= MOST * len(fine)
    told = {(row.collection, row.row_id) for row in sample() if "k_loses_as_predicted" in row.found}
    rows = ((name, row) for name in COLLECTIONS for row in published_rows(name).to_dict("records"))
    measured = {(name, row["point_id"]): float(row["speedup"] or "nan") for name, row in rows}
    assert told
    assert {key: measured[key] for key in told if not measured[key] < 1.0} == {}


def test_the_page_s_rates_are_within_the_bar_and_of_all_rows() -> None:
    text = FILE.read_text(encoding="utf-8")
    cells = re.search(r"^\| all \|(.+)$", text, flags=re.M)
    rows, _, rate, _, _, of_predicted, *_ = (cell.strip() for cell in cells[1].split("|"))
    assert float(rate.rstrip("%")) <= 100 * MOST
    assert float(of_predicted.rstrip("%")) <= 100 * MOST
    assert int(rows.replace(",", "")) > 5 * len(clean(sample()))


def test_the_band_of_a_time_is_as_wide_as_the_page_says_that_measurements_are_off() -> None:
    found = re.search(
        r"^\| plain \| [\d,]+ \| \d+ \| ([\d.]+) \| (\d+)% \|",
        FILE.read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert abs(float(found[1]) - time_spread()) <= 0.05, (
        "set spread in profiles/diagnosis/physics.yaml to it"
    )
    assert int(found[2]) >= 75


def test_a_width_weights_every_source_alike() -> None:
    assert width_of([("a", 2.0), ("b", 1.1), *[("c", 1.0)] * 98]) == pytest.approx(math.log(2.0))
    assert width_of(
        [("a", 0.5), *[("b", 1.5)] * 9, *[(name, 1.1) for name in "cdefgh"]]
    ) == pytest.approx(math.log(1.5))
