"""Words that go with a number.

CSV cells that no spreadsheet runs, and the one helper that every export uses.

Figures of merit: their names and how their values read. How texts are set on screen and in reports.
"""

from __future__ import annotations

import ast
import csv
import io
import re
from pathlib import Path

import pandas as pd
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.design.grid import OBJECTIVES
from advisor.answers.explore.changes import GOALS, best_effects
from advisor.show.report.blocks import TableBlock
from advisor.show.report.formats import render
from advisor.show.report.layout import sections
from advisor.show.words.compare import change_text
from advisor.text import (
    MERITS,
    counted,
    csv_text,
    frame_csv,
    number_of,
    safe_cell,
    screen_style,
    tier_text,
    token_count,
    typeset,
    unbroken_ranges,
)
from tests.show.report_fixtures import report_on


def test_one_is_singular_and_thousands_are_parted() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,200 rows",
    ]
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    "text",
    ["", "k", "1.5", "1.0001k", "-3", "1e5", "13,10", "2G", "nan", "1\N{FULLWIDTH DIGIT SIX}"],
)
def test_what_is_no_number_of_tokens_is_refused_with_the_forms_it_may_have(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no number of tokens; type it as 4096, 128k \(128,000\)"
    ):
        token_count(text)


@pytest.mark.parametrize(
    "text", ["9" * 400, "9" * 400 + "K", "1" + "0" * 15, "1000000000000k", "9" * 310 + ".5"]
)
def test_more_tokens_than_any_context_has_are_refused_in_words(text: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"^'[0-9k]{1,20}(\.\.\.)?' is more tokens than any context has; type it as 4096",
    ):
        token_count(text)


def test_the_most_tokens_that_are_read_are_read_to_the_last_one() -> None:
    assert token_count("999,999,999,999,999") == 10**15 - 1


PACKAGE = Path(__file__).resolve().parents[1] / "advisor"


@given(st.text(alphabet="=+-@|%;,\t\r\n\x00 '\"0aA＝＋－＠\ufeff", max_size=12))
def test_no_cell_starts_a_formula_under_any_separator(text: str) -> None:
    safe = safe_cell(text)
    for piece in re.split(r"[;,\t\r\n]", safe):
        if piece.lstrip(" \ufeff")[:1] in set("=+-@|%＝＋－＠") - {""} and piece == piece.lstrip(
            " \ufeff"
        ):
            assert re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", safe), (text, safe)


@given(st.text(max_size=12))
def test_only_apostrophes_are_added_and_only_nul_is_dropped(text: str) -> None:
    assert safe_cell(text).replace("'", "") == text.replace("'", "").replace("\x00", "")


@pytest.mark.parametrize("text", ["-0.5", "+3", "1e-3", "-.5", "plain", "a-b", "x = 1", "2.4@3"])
def test_numbers_and_harmless_text_stay_as_they_are(text: str) -> None:
    assert safe_cell(text) == text


@pytest.mark.parametrize("cell", [-0.5, 3, True, None, float("-inf")])
def test_what_is_no_text_stays_as_it_is(cell: object) -> None:
    assert safe_cell(cell) is cell


def test_rows_come_back_from_a_csv_reader() -> None:
    rows = list(
        csv.reader(io.StringIO(csv_text(("name", "=x"), [{"name": 'say "hi", =1', "=x": -2.5}])))
    )
    assert rows == [["name", "'=x"], ['say "hi", =1', "-2.5"]]


def test_a_frame_keeps_numbers_and_gaps_and_loses_formulas() -> None:
    frame = pd.DataFrame({"=name": ["@a", None], "value": [-1.5, float("nan")]})
    assert frame_csv(frame, "abc").splitlines() == [
        "scenario_hash,'=name,value",
        "abc,'@a,-1.5",
        "abc,,",
    ]


def test_csv_leaves_the_advisor_through_this_helper_only() -> None:
    """Of the other writers, profiling runs without the rest of the package; its cells are its own
    numbers and names.

    `predict` hands a user's own rows back to the same user, unchanged; the template is a line of
    column names; a remapped upload is read again and never leaves.
    """
    known = {
        "text.py",
        "profiling/engine/runner.py",
        "profiling/results.py",
        "cli/measure.py",
        "measured/ingest/columns.py",
        "measured/ingest/remap.py",
        "measured/ingest/several_k.py",
    }
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "csv" not in source and "DictWriter" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and node.attr in ("to_csv", "DictWriter"):
                found.add(path.relative_to(PACKAGE).as_posix())
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "writer"
                and ast.unparse(node.value) == "csv"
            ):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found <= known, f"use advisor.text.csv_text in {sorted(found - known)}"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("speedup", 1.764, "1.76x"),
        ("tpot", 7.674e-3, "7.67 ms"),
        ("tokens_per_s_per_gpu", 2084.6, "2,085"),
        ("cost_per_million_tokens", 0.4061, "0.406"),
    ],
)
def test_values_in_si_units_read_with_their_unit(name: str, value: float, text: str) -> None:
    assert MERITS[name].text(value) == text


def test_every_goal_and_objective_has_its_row_and_names_of_their_own() -> None:
    assert {*GOALS, *OBJECTIVES, "ttft"} == set(
        MERITS
    )  # the first token is shown, and nothing aims at it
    assert len({MERITS[name].name for name in OBJECTIVES}) == len(OBJECTIVES)


def test_a_tier_says_when_the_value_lies_outside_the_data() -> None:
    assert tier_text("fitted", False) == "fitted"
    assert tier_text("fitted", True) == "fitted, outside the data"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("12.5", 12.5), (" -3 ", -3.0), (".5e1", 5.0), (7, 7.0), (2.5, 2.5)]
    + [
        (text, None)
        for text in (
            "1\N{FULLWIDTH DIGIT SIX}",
            "\N{ARABIC-INDIC DIGIT FOUR}",
            "1_0",
            "nan",
            "inf",
            "1e400",
        )
    ]
    + [
        (value, None)
        for value in ("", "0x10", "1,5", "12 ms", True, None, float("inf"), 10**400, [1])
    ],
)
def test_a_number_is_ascii_digits_with_a_point_and_finite(
    given: object, meant: float | None
) -> None:
    assert number_of(given) == meant


@pytest.mark.parametrize(
    ("style", "written", "read"),
    [
        (typeset, "KV cache bf16 -> fp8", "KV cache bf16 \N{RIGHTWARDS ARROW} fp8"),
        (typeset, "within 25 % (at least 0.02)", "within 25% (at least 0.02)"),
        (typeset, "80% band, a - b", "80% band, a - b"),
        (unbroken_ranges, "1.92x (1.78-2.05)", "1.92x (1.78\N{NON-BREAKING HYPHEN}2.05)"),
        (unbroken_ranges, "Qwen2.5-1.5B on 2026-11-22", "Qwen2.5-1.5B on 2026-11-22"),
        (
            screen_style,
            "1.92x (1.78-2.05), 12x at 98% (85%-113%)",
            "1.92× (1.78–2.05), 12× at 98% (85%–113%)",
        ),
        (screen_style, *2 * ("mi300x, 8x7b on 2026-11-22, arXiv:2507.17702-3, 0x1f",)),
    ],
)
def test_arrows_factors_and_ranges_have_one_style_and_names_and_dates_stay(
    style, written: str, read: str
) -> None:
    assert style(written) == read


def test_readable_reports_draw_arrows_and_the_json_keeps_what_it_had() -> None:
    report = report_on()
    assert report.steps is not None
    effect = best_effects(report.steps, "tokens_per_s_per_gpu")[0]
    what = change_text(effect, "speedup")
    arrow = "\N{RIGHTWARDS ARROW}"
    assert "->" in what
    prose = "\n".join(
        cell
        for s in sections(report)
        for b in s.blocks
        if isinstance(b, TableBlock)
        for row in b.rows
        for cell in row
    )
    assert what.replace("->", arrow) in prose
    assert "->" not in prose
    assert what.encode() in render(report, "json")
    assert what.replace("->", arrow) in render(report, "md").decode()
    shown = "".join(
        page.extract_text() for page in pypdf.PdfReader(io.BytesIO(render(report, "pdf"))).pages
    )
    assert arrow in shown
    assert "U+2192" not in shown, "a shipped font has the arrow"
