"""The doctor on the shipped measurements: it blames next to none of the clean ones."""

from __future__ import annotations

import re
from functools import lru_cache

from advisor.studies.diagnosis import FILE, Tried, alarm_rate, clean, page, tried

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


def test_rows_with_a_known_defect_are_printed_by_source() -> None:
    text = page(sample())
    suspects = {row.source for row in sample() if row.defect or "SUSPECT" in row.notes}
    assert suspects
    assert all(source in text for source in suspects)
