"""The books of measured runs and of the doctor's rules: each phrase is said, in which words, and no
closed word is taken for a fact."""

from __future__ import annotations

import re

import pytest

from advisor.answers.diagnosis.physics import all_rules, remedy_values
from advisor.answers.diagnosis.quantities import QUANTITIES
from advisor.answers.diagnosis.verdict import FLAGS
from advisor.show.phrases import rules, runs
from tests.golden.phrases_runs import FILE, reached, sentences
from tests.show.test_phrases import AVOIDED

ALLOWED = re.compile(
    r"\b[Oo]ne (?:build|K|chunk|or two|pass|round|draft|verification|drafting|batch)\b|time of one"
)
"""Where `one` counts."""


def test_every_phrase_is_said_of_some_record_and_every_flag_is_asked() -> None:
    assert [
        (phrase.slot, phrase.when)
        for phrase in runs.PHRASES
        if (phrase.slot, phrase.when) not in reached() and phrase.say
    ] == []
    assert {flag for phrase in runs.PHRASES for flag, _ in phrase.flags} == FLAGS.keys()


def test_a_closed_word_is_the_name_of_no_fact() -> None:
    for book in (runs.BOOK, rules.BOOK):
        words = {bound for _, comparison, bound in book.flags.values() if comparison == "=="}
        meant = {"baseline_predicted_s", "baseline_token_s", "low", "last", "number"}
        meant |= {"published_high", "draft_tokens_k"}
        assert {word for word in words if isinstance(word, str)} & book.facts <= meant


@pytest.mark.parametrize("book", [runs.BOOK, rules.BOOK], ids=["runs", "rules"])
def test_no_phrase_has_a_word_to_avoid(book: object) -> None:
    for phrase in book.phrases:
        words = ALLOWED.sub("", re.sub(r"\{.*?\}", "", phrase.say))
        assert [word for word in AVOIDED if re.search(rf"\b{word}\b", words)] == [], phrase.say


def test_the_sentences_are_those_that_were_reviewed() -> None:
    written = FILE.read_text(encoding="utf-8")
    assert sentences() == written, "run: python -m tests.golden.phrases_runs"
    assert len(written.splitlines()) <= 200


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_rule_has_a_title_a_reason_and_a_remedy_on_each_of_its_engines(engine: str) -> None:
    for _, rule in all_rules():
        values = remedy_values(engine, recommended_k=2, batch=48, n_draft=5)
        slots = [rule.id, f"{rule.id}_why"]
        if not rule.engines or engine in rule.engines:
            slots.append(f"{rule.id}_do")
        assert all(rules.BOOK.say(slot, values) for slot in slots), rule.id


def test_every_quantity_of_a_rule_has_words() -> None:
    assert set(QUANTITIES) <= rules.WORDS.keys()
