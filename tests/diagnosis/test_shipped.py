"""The doctor on the shipped measurements: it blames next to none of the clean ones."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import pytest

from advisor.answers.diagnosis.rules import time_spread
from studies.diagnosis import FILE, Tried, alarm_rate, clean, page, tried, width_of

SAMPLE = 6
MOST = 0.05


@lru_cache(maxsize=1)
def sample() -> list[Tried]:
    return tried(SAMPLE)


def test_clean_measurements_are_blamed_in_at_most_one_of_twenty() -> None:
    fine = clean(sample())
    predicted = [row for row in fine if row.predicted]
    print(f"false alarms: {alarm_rate(fine):.1%} of {len(fine)} rows, {alarm_rate(predicted):.1%} of {len(predicted)}")
    assert len(fine) > 200
    assert len(predicted) > 60
    assert alarm_rate(fine) <= MOST
    assert alarm_rate(predicted) <= MOST


def test_the_page_s_rates_are_within_the_bar_and_of_all_rows() -> None:
    text = FILE.read_text(encoding="utf-8")
    cells = re.search(r"^\| all \|(.+)$", text, flags=re.M)
    assert cells is not None
    rows, _, rate, _, _, of_predicted, *_ = (cell.strip() for cell in cells[1].split("|"))
    assert float(rate.rstrip("%")) <= 100 * MOST
    assert float(of_predicted.rstrip("%")) <= 100 * MOST
    assert int(rows.replace(",", "")) > 5 * len(clean(sample()))


def test_the_band_of_a_time_is_as_wide_as_the_page_says_that_measurements_are_off() -> None:
    found = re.search(
        r"^\| plain \| [\d,]+ \| \d+ \| ([\d.]+) \| (\d+)% \|", FILE.read_text(encoding="utf-8"), flags=re.M
    )
    assert found is not None
    assert abs(float(found[1]) - time_spread()) <= 0.05, "set spread in profiles/diagnosis/physics.yaml to it"
    assert int(found[2]) >= 75


def test_a_width_weights_every_source_alike() -> None:
    assert width_of([("a", 2.0), ("b", 1.1), *[("c", 1.0)] * 98]) == pytest.approx(math.log(2.0))
    assert width_of([("a", 0.5), *[("b", 1.5)] * 9, *[(name, 1.1) for name in "cdefgh"]]) == pytest.approx(
        math.log(1.5)
    )


def test_rows_with_a_known_defect_are_printed_by_source() -> None:
    text = page(sample())
    suspects = {row.source for row in sample() if row.defect or "SUSPECT" in row.notes}
    assert suspects
    assert all(source in text for source in suspects)
