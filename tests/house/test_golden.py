"""Reviewed sentences (tests/golden/sentences.py): each is of a test that still asks for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.golden.sentences import NAME, TESTS, Golden, lines_with, reviewed


def asked_by(tree: ast.Module) -> dict[str, set[str | None]]:
    """Names of the sentences that each test function asks for; None where it makes them up."""
    return {
        function.name: {
            keyword.arg
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "golden"
            for keyword in call.keywords
        }
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
    }


@pytest.mark.parametrize("file", sorted(TESTS.rglob(NAME)), ids=lambda file: file.parent.name)
def test_every_reviewed_sentence_is_asked_for(file: Path) -> None:
    for test, texts in reviewed(file.parent).items():
        name, _, function = test.partition("::")
        source = (file.parent / name).read_text(encoding="utf-8")
        called = asked_by(ast.parse(source)).get(function.partition("[")[0])
        assert called is not None, test
        assert None in called or set(texts) <= called, test


def test_a_sentence_that_is_worded_anew_or_gone_is_noticed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("test_a.py::test_b:\n  refused: Give a number in FOLDER/x\n")
    golden = Golden(tmp_path, "test_a.py::test_b")
    golden(refused="Give a number in /tmp/pytest-of-me/pytest-3/test_b0/x")
    for text in ("Give numbers in FOLDER/x", ""):
        with pytest.raises(AssertionError):
            golden(refused=text)
    with pytest.raises(AssertionError):
        golden(other="Give a number in FOLDER/x")


def test_a_line_is_held_by_its_sentence() -> None:
    text = "note: a. K = 3 gains 1.5x at 8.\nK = 4 loses."
    assert lines_with(text, "K =") == ["K = 3 gains 1.5x at 8.", "K = 4 loses."]
    assert lines_with(["a. b.", "c"], "b") == ["a. b."]
