"""Books of the leaderboard and of designs: reviewed sentences, each phrase said, no word to
avoid."""

from __future__ import annotations

import ast
import re

import pytest

from tests.golden.families import FAMILIES, FILES, path_of, reached, sentences
from tests.house.counters import trees
from tests.show.test_phrases import ALLOWED, AVOIDED

NOTED = {"noted", "warned", "raw.note"}
"""Calls that note what was read, their first argument its kind."""


@pytest.mark.parametrize("file", FILES)
def test_the_sentences_are_those_that_were_reviewed(file: str) -> None:
    written = path_of(file).read_text(encoding="utf-8")
    assert sentences(file) == written, "run: python -m tests.golden.families"
    assert len(written.splitlines()) <= 200


@pytest.mark.parametrize("family", FAMILIES)
def test_every_phrase_is_said_of_some_record(family: str) -> None:
    phrases = FAMILIES[family][0].phrases
    assert [phrase for phrase in phrases if phrase not in reached(family)] == []


def test_every_note_on_what_was_read_has_a_sentence() -> None:
    calls = (
        node
        for _, tree in trees("advisor/measured")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in NOTED
    )
    kinds = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert len(kinds) > 50
    assert kinds - {*FAMILIES["reading"][0].slots} == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_flag_is_asked_and_no_phrase_has_a_word_to_avoid(family: str) -> None:
    book = FAMILIES[family][0]
    assert book.flags.keys() == {flag for phrase in book.phrases for flag, _ in phrase.flags}
    for phrase in book.phrases:
        words = re.sub(r"\{.*?\}", "", phrase.say)
        for text in ALLOWED:
            words = words.replace(text, "")
        assert [word for word in AVOIDED if re.search(rf"\b{word}\b", words)] == [], phrase.say
