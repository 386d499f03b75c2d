"""The map of regions in a report: in every format when it was asked for, and null otherwise."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import jsonschema
import pytest

from advisor.answers.advice import advise
from advisor.answers.design.cells import parse_place
from advisor.answers.design.regions import RegionMap, region_map
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, render
from advisor.show.words.design import held_where, map_cells_table, region_verdict
from tests.command_line import QWEN as OPTIONS
from tests.command_line import run
from tests.design.test_regions import GRID
from tests.report_fixtures import DATE, QWEN, report_on

ROOT = Path(__file__).parents[2]


@lru_cache(maxsize=1)
def found() -> RegionMap:
    return region_map(QWEN, [parse_place("h100-sxm"), parse_place("b200-sxm")], (8, 128, 256), grid=GRID)


@lru_cache(maxsize=1)
def report() -> Report:
    return build_report(advise(QWEN), DATE, regions=found())


def test_the_map_stands_in_every_format() -> None:
    text = render(report(), "md").decode()
    part = text.split("## One design for several accelerators")[1].split("\n## ")[0]
    assert "| batch | h100-sxm | b200-sxm |" in part
    assert region_verdict(found()).split("(")[0].strip() in part
    assert f"{found().regions[0].letter} holds {held_where(found(), found().regions[0])}" in part
    html = render(report(), "html").decode()
    assert "Design to train, by batch and accelerator" in html
    assert render(report(), "pdf").startswith(b"%PDF")


def test_json_carries_every_cell_and_region_and_keeps_its_schema() -> None:
    value = json.loads(render(report(), "json"))
    jsonschema.validate(value, json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8")))
    section = document_of(report()).design_regions
    assert section is not None
    assert len(section.cells) == 6
    assert sum(region.core_cells + region.edge_cells for region in section.regions) == 5
    empty = next(cell for cell in section.cells if cell.kind == "none")
    told = (empty.accelerator, empty.batch_size, empty.why_not, empty.loss)
    assert told == ("h100-sxm", 256, "does not fit in memory", None)
    assert all(cell.loss_low <= cell.loss <= cell.loss_high for cell in section.cells if cell.loss is not None)  # type: ignore[operator]


def test_a_report_that_was_not_asked_for_it_has_none() -> None:
    assert document_of(report_on()).design_regions is None
    assert "One design for several" not in render(report_on(), "md").decode()


def test_the_same_map_gives_the_same_bytes() -> None:
    again = build_report(advise(QWEN), DATE, regions=found())
    for form in ("md", "html", "json"):
        assert render(again, form) == render(report(), form)


def test_the_table_of_cells_has_a_dash_where_nothing_fits() -> None:
    assert map_cells_table(found())[1][-1][1] == "-"


def test_the_command_adds_the_map_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    status, _, _ = run(capsys, "report", *OPTIONS, "--output", file, "--brief", "--no-checks", "--regions")
    assert status == 0
    assert len(json.loads(file.read_text("utf-8"))["design_regions"]["cells"]) == 54
