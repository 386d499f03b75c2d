"""A sweep in a report: in every format when one was given, and null otherwise."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import jsonschema
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.files import fastest_within, view_of, where_drafting_pays
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, render
from tests.command_line import QWEN as OPTIONS
from tests.command_line import run
from tests.report_fixtures import DATE, QWEN, report_on
from tests.sweep.made_up import MAKER, frame_of, grid, parquet, row, sweep

ROOT = Path(__file__).parents[2]


@lru_cache(maxsize=1)
def report() -> Report:
    return build_report(advise(QWEN), DATE, swept=view_of(sweep(), 5.0, {"model_id": "big"}))


def test_the_questions_stand_in_every_format() -> None:
    part = render(report(), "md").decode().split("## A sweep of scenarios")[1].split("\n## ")[0]
    for told in (
        "computed by release 1.2.3, constants 0123456789ab",
        "- Model: small, big",
        "| small | b200-sxm | 8 | 1 | 1.10x (1.00-1.20) | 90% | fitted |",
        "| big | h100-sxm | does not fit |",
        "Most tokens/s per GPU within 5 ms per token",
        "K = 1 for all loses 2.0% on average",
        "Speedup at the recommended K by Batch and Accelerator, at Model big.",
        "| b200-sxm | 1.10x, K 1 | 1.10x, K 1 |",
    ):
        assert told in part, told
    html = render(report(), "html").decode()
    assert "1.10x\\u003cbr>K 1" in html, "the cells of the drawing"
    assert render(report(), "pdf").startswith(b"%PDF")


def test_json_carries_the_figures_with_bands_and_keeps_its_schema() -> None:
    value = json.loads(render(report(), "json"))
    jsonschema.validate(value, json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8")))
    section = document_of(report()).sweep
    assert section is not None
    pays, fastest = where_drafting_pays(grid()), fastest_within(grid(), 5.0)
    assert [(one.model_id, one.hardware_id, one.pays_up_to) for one in section.pays] == [
        (model, hardware, None if model == "big" and hardware == "h100-sxm" else 8)
        for model, hardware in zip(pays["model_id"], pays["hardware_id"], strict=True)
    ]
    assert [one.n_draft for one in section.fastest] == list(fastest["n_draft"])
    for one in section.fastest:
        low, value, high = (getattr(one, name) for name in ("tpot_low_ms", "tpot_ms", "tpot_high_ms"))
        assert low < value < high
    assert section.map is not None
    assert [(cell.y, cell.x, cell.fits) for cell in section.map.cells] == [
        ("h100-sxm", "1", False),
        ("h100-sxm", "8", False),
        ("b200-sxm", "1", True),
        ("b200-sxm", "8", True),
    ]


def test_a_report_without_a_sweep_has_no_section() -> None:
    assert document_of(report_on()).sweep is None
    assert "A sweep of scenarios" not in render(report_on(), "md").decode()


def test_a_sweep_of_one_axis_or_with_nothing_that_fits_has_no_map_to_draw() -> None:
    one = frame_of(*(row("m", "h100-sxm", batch, k, fits=False) for batch in (1, 8) for k in (0, 1)))
    made = build_report(advise(QWEN), DATE, swept=view_of(sweep(one), None, {}))
    section = document_of(made).sweep
    assert section is not None
    assert (section.map, section.fastest[0].hardware_id, section.one_k) == (None, None, ())
    for form in ("md", "html", "pdf", "json"):
        assert render(made, form)


def test_a_map_with_nothing_that_fits_is_drawn_all_the_same() -> None:
    view = view_of(sweep(grid().assign(fits=False)), None, {})
    made = build_report(advise(QWEN), DATE, swept=view)
    assert view.map is not None
    assert render(made, "pdf").startswith(b"%PDF")
    assert "Nothing in this sweep fits in memory." in render(made, "md").decode()


def test_the_same_sweep_gives_the_same_bytes() -> None:
    again = build_report(advise(QWEN), DATE, swept=view_of(sweep(), 5.0, {"model_id": "big"}))
    for form in ("md", "html", "pdf", "json"):
        assert render(again, form) == render(report(), form)


def test_the_command_reads_a_folder_or_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = tmp_path / "out", tmp_path / "r.json"
    folder.mkdir()
    (folder / "part-000000.parquet").write_bytes(parquet(grid(), MAKER))
    for given in (folder, folder / "part-000000.parquet"):
        arguments = ("report", *OPTIONS, "--output", file, "--brief", "--no-checks", "--sweep", given)
        assert run(capsys, *arguments)[0] == 0
        assert json.loads(file.read_text("utf-8"))["sweep"]["constants"] == MAKER["constants"]
    (folder / "part-000000.parquet").write_bytes(b"no parquet")
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert "part-000000.parquet is no readable Parquet file" in err
