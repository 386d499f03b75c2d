"""The gallery's index: a card for each setup that leads to its live file, curves of one scale."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from tests.show.report_fixtures import Page
from tools.gallery.__main__ import HIGHEST, LOWEST, SETUPS, write_gallery


def test_each_card_leads_to_its_file_and_says_where_the_sweet_spot_is(tmp_path: Path) -> None:
    setups = [("command-a-plus", "4xH200"), ("qwen3-32b", "1xH200")]
    assert set(setups) <= set(SETUPS)
    write_gallery(tmp_path, setups, dt.date(2026, 11, 30))
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    links = [address.removeprefix("href=") for address in page.addresses]
    assert sorted(links) == sorted(
        path.name for path in tmp_path.iterdir() if path.name != "index.html"
    )
    assert not {"script", "img", "link"} & {tag.split()[0] for tag in page.tags}
    moe, dense = re.findall(r'aria-label="([^"]+)"', text)
    assert "Sweet spot: " in moe
    assert "No sweet spot: " in dense
    spots = re.findall(r'class="spot" cx="([\d.]+)" cy="([\d.]+)"', text)
    assert len(spots) == 1
    share = (float(spots[0][1]) - 6) / 90
    drawn = HIGHEST - share * (HIGHEST - LOWEST)
    said = re.search(r"Sweet spot: ([\d.]+)×", moe)
    assert said is not None
    assert abs(drawn - float(said[1])) < 0.01
    assert "2026-11-30" in "".join(page.body)


def test_there_are_twenty_setups_each_once() -> None:
    assert len(set(SETUPS)) == len(SETUPS) == 20
