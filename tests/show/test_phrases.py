"""The book of the main answer: what its phrases name, that each is said, and in which words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from advisor.answers.advice import advise
from advisor.answers.flags import holds
from advisor.answers.outcome import FACTS, FLAGS
from advisor.cli.advise import advice_document
from advisor.predict.scenario import Scenario
from advisor.show.phrases import notes, report, rules, runs, schedule, simulation
from advisor.show.phrases.answer import BOOK, PHRASES, SLOTS
from advisor.show.phrases.book import FORMS, Book, Phrase
from tests.golden.families import FAMILIES
from tests.golden.phrases import BASE, FILE, FORM_TEXTS, outcomes, sentences

AVOIDED = (
    *("said", "told", "own", "one", "of yours", "alike", "mended", "made-up", "likely"),
    *("modelled", "plain", "set-up", "a GPU", "so many", "beside", "asks for", "says nothing of"),
)
"""Words that no sentence of the product has (docs/english.md)."""
ALLOWED = {
    *("of your own", "your own measurement", "The one published run", "the tool's own tokenizer"),
    *("as one row for", "one probability", "you choose one", "one of them", "each one that"),
}
"""Where a word to avoid is no noun of its own."""


@pytest.mark.parametrize(
    "phrase",
    [
        Phrase("headline", "", "{no_fact}"),
        Phrase("headline", "", "{speedup:no_form}"),
        Phrase("headline", "no_flag", "Draft"),
    ],
    ids=lambda phrase: f"{phrase.when}{phrase.say}",
)
def test_a_brace_is_a_fact_a_form_or_a_slot_and_a_condition_is_a_flag(phrase: Phrase) -> None:
    with pytest.raises(ValueError, match="no_"):
        Book((*PHRASES, phrase), FACTS, FLAGS)


def test_every_flag_is_asked_by_a_phrase_and_every_form_is_used() -> None:
    assert FLAGS.keys() == {flag for phrase in PHRASES for flag, _ in phrase.flags}
    small = (schedule.CONTEXT, schedule.COMMAND, simulation.LOAD, report.BOOK)
    books = (PHRASES, notes.PHRASES, schedule.PHRASES, runs.PHRASES, rules.PHRASES)
    books += tuple(book.phrases for book in small)
    books += tuple(book.phrases for book, _, _ in FAMILIES.values())
    used = {form for book in books for phrase in book for _, form in phrase.braces}
    assert FORMS.keys() == used | {""}


def test_every_phrase_is_said_of_some_record() -> None:
    reached = {
        BOOK.phrase(slot, record.facts) for record in outcomes().values() for slot in BOOK.slots
    }
    assert [phrase for phrase in PHRASES if phrase not in reached] == []


def test_every_fact_is_in_the_json_document() -> None:
    document = advice_document(advise(Scenario(acceptance="2.4@3")))
    assert set(document["outcome"]) == FACTS
    assert set(document["says"]) <= set(SLOTS) <= set(BOOK.slots)


def test_no_phrase_has_a_word_to_avoid() -> None:
    for phrase in PHRASES:
        words = re.sub(r"\{.*?\}", "", phrase.say)
        for text in ALLOWED:
            words = words.replace(text, "")
        assert [word for word in AVOIDED if re.search(rf"\b{word}\b", words)] == [], phrase.say


def test_no_sentence_has_more_than_twenty_five_words_where_a_reader_has_one_glance() -> None:
    for slot in ("headline", "range", "time", "alternative", "published", "pays"):
        for record in outcomes().values():
            assert len(BOOK.say(slot, record.facts).split()) <= 25


def test_the_sentences_are_those_that_were_reviewed() -> None:
    written = FILE.read_text(encoding="utf-8")
    assert sentences() == written, "run: python -m tests.golden.phrases"
    assert len(written.splitlines()) <= 200


@pytest.mark.parametrize(("form", "fact", "text"), FORM_TEXTS)
def test_a_form_prints_a_fact(form: str, fact: Any, text: str) -> None:
    assert FORMS[form](fact) == text


def test_the_first_phrase_whose_flags_hold_is_said_and_a_fact_that_is_absent_holds_none() -> None:
    facts = BASE.facts
    assert facts["limit_ms"] is None
    assert not holds(FLAGS, "limited", facts)
    assert not holds(FLAGS, "over_limit_slow", facts), "a comparison with None"
    assert holds(FLAGS, "over_limit_slow", replace(BASE, limit_ms=12.5).facts)
