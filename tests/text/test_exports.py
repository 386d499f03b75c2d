"""CSV cells that no spreadsheet runs, and the one helper that every export uses."""

from __future__ import annotations

import ast
import csv
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.text import csv_text, frame_csv, safe_cell

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"


@given(st.text(alphabet="=+-@|%;,\t\r\n\x00 '\"0aA＝＋－＠\ufeff", max_size=12))
def test_no_cell_starts_a_formula_under_any_separator(text: str) -> None:
    safe = safe_cell(text)
    for piece in re.split(r"[;,\t\r\n]", safe):
        if piece.lstrip(" \ufeff")[:1] in set("=+-@|%＝＋－＠") - {""} and piece == piece.lstrip(" \ufeff"):
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


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ('=HYPERLINK("http://e","x")', '\'=HYPERLINK("http://e","x")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
        ("  =1", "'  =1"),
        ("\t1", "'\t1"),
        ("a;=1", "a;'=1"),
        ("\x00=1", "'=1"),
        ("＝1", "'＝1"),
    ],
)
def test_formulas_get_an_apostrophe(text: str, safe: str) -> None:
    assert safe_cell(text) == safe


def test_rows_come_back_from_a_csv_reader() -> None:
    rows = list(csv.reader(io.StringIO(csv_text(("name", "=x"), [{"name": 'say "hi", =1', "=x": -2.5}]))))
    assert rows == [["name", "'=x"], ['say "hi", =1', "-2.5"]]


def test_a_frame_keeps_numbers_and_gaps_and_loses_formulas() -> None:
    frame = pd.DataFrame({"=name": ["@a", None], "value": [-1.5, float("nan")]})
    assert frame_csv(frame, "abc").splitlines() == ["scenario_hash,'=name,value", "abc,'@a,-1.5", "abc,,"]


def test_csv_leaves_the_advisor_through_this_helper_only() -> None:
    """Of the other writers, profiling runs without the rest of the package; its cells are its own numbers and names.

    `predict` hands a user's own rows back to the same user, unchanged; the template is a line of column names; a
    remapped upload is read again and never leaves.
    """
    known = {
        "text.py",
        "profiling/results.py",
        "cli/measure.py",
        "measured/ingest/columns.py",
        "measured/ingest/remap.py",
    }
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("to_csv", "DictWriter"):
                found.add(path.relative_to(PACKAGE).as_posix())
            if isinstance(node, ast.Attribute) and node.attr == "writer" and ast.unparse(node.value) == "csv":
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found <= known, f"use advisor.text.csv_text in {sorted(found - known)}"
