"""Notes: each kind has a rank and words, readers go by rank, words come from facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.answers.advice import Advice, advise
from advisor.physics.notes import RANKS, Note, Rank, ranked
from advisor.predict.scenario import Scenario
from advisor.show.phrases.notes import BOOK, FLAGS, PHRASES, note_text, note_texts
from advisor.show.words.answer import short_answer
from tests.golden.sentences import Golden, lines_with

EXAMPLE: dict[str, Any] = {
    **dict.fromkeys([name for name, _, _ in FLAGS.values()], None),
    "jumps": ((16, 64, 2.0),),
    "formats": ("fp8", "int4"),
    "parts": ("attention", "shared"),
    "text": "As read.",
    "engine": "vLLM",
    "version": "0.24.0",
    "source": "its documents",
    "part": "experts",
    "reason": "this shape was not measured",
    "effect": "harmful",
    "cases": ((8192, 64, 3, 2, 0.04),),
}
"""Facts of all kinds: of those that no flag reads and no line here names, a number."""


def facts_of(slot: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Facts that the phrases of a slot read, those of the slots within them too."""
    names: set[str] = set()
    for phrase in PHRASES:
        if phrase.slot != slot:
            continue
        names |= {FLAGS[flag][0] for flag, _ in phrase.flags}
        names |= {
            bound
            for flag, _ in phrase.flags
            if isinstance(bound := FLAGS[flag][2], str) and FLAGS[flag][1] in "<>="
        }
        for name, _ in phrase.braces:
            inner = name in BOOK.slots and name not in seen and name != slot
            names |= facts_of(name, seen | {slot}) if inner else {name}
    return names


def example(slot: str, **changes: Any) -> dict[str, Any]:
    """Facts with which a slot can be said, a number where nothing else is needed."""
    numbers = dict.fromkeys(facts_of(slot), 3)
    known = {name: value for name, value in EXAMPLE.items() if value is not None}
    return numbers | known | changes


@pytest.mark.parametrize("kind", sorted(RANKS))
def test_every_kind_is_said_from_its_facts_without_a_brace_left(kind: str) -> None:
    text = note_text(Note.of(kind, **example(kind)))  # type: ignore[arg-type]
    assert len(text.split()) >= (2 if kind in ("read", "length_carried", "k_by_context") else 5)
    assert "{" not in text
    assert "None" not in text


def test_every_slot_is_a_kind_a_form_of_one_or_within_another() -> None:
    within = {name for phrase in PHRASES for name, _ in phrase.braces}
    forms = ("short", "bare", "labelled", "sentence")
    for slot in BOOK.slots:
        kind, _, form = slot.rpartition("_")
        assert slot in RANKS or slot in within or (kind in RANKS and form in forms), slot


@pytest.mark.parametrize("slot", BOOK.slots)
def test_every_phrase_is_reached(slot: str) -> None:
    """By the facts that its own flags ask for."""
    values = {"known": 3, "==": None, "!=": ((1, 2, 2.0),)}
    for phrase in (phrase for phrase in PHRASES if phrase.slot == slot):
        facts = example(slot)
        for other in (other for other in PHRASES if other.slot == slot):
            facts |= {FLAGS[flag][0]: None for flag, _ in other.flags}
        facts |= {"largest": 4} if "largest" in facts else {}
        for flag, _ in phrase.flags:
            name, comparison, bound = FLAGS[flag]
            facts[name] = bound if comparison == "==" else values.get(comparison, 9)
        assert BOOK.phrase(slot, facts) is phrase, phrase


def test_notes_stand_once_each_and_the_heaviest_first() -> None:
    notes = [
        Note.of("outside_data"),
        Note.of("rules_checked", engine="vLLM"),
        Note.of("sweep_used"),
        Note.of("graph_missing", k=3),
        Note.of("graph_missing", k=2),
        Note.of("batch_too_large", batch=9),
        Note.of("outside_data"),
    ]
    assert [note.rank for note in ranked(notes)] == [
        *(Rank.BLOCKS, Rank.CHANGES, Rank.CHANGES, Rank.OWN, Rank.REMARK, Rank.NOTICE)
    ]
    assert [note.facts["k"] for note in ranked(notes) if note.facts.get("k")] == [3, 2]


def test_notes_of_other_facts_are_other_notes() -> None:
    assert Note.of("longest_k", k=3) != Note.of("longest_k", k=4)
    assert len({Note.of("longest_k", k=3), Note.of("longest_k", k=4)}) == 2


@pytest.fixture(scope="module")
def refused() -> Advice:
    """An answer with a refusal, remarks on kernels, and more than fit beside it."""
    placed = {"n_gpus": 8, "tensor_parallel": 8, "weight_dtype": "fp8", "hardware_id": "h200-sxm"}
    return advise(Scenario(acceptance="2.4@3", model_id="qwen3-235b-a22b", **placed))  # type: ignore[arg-type]


def test_the_short_answer_never_leaves_out_what_blocks_or_changes_it(refused: Advice) -> None:
    assert refused.notes[0].kind == "split_blocks"
    lines = " ".join(short_answer(refused, most=1).tail)
    assert f"warning: {note_text(refused.notes[0])}" in " ".join(lines.split())
    remarks = tuple(note for note in refused.notes if note.rank is Rank.REMARK)
    assert remarks
    assert "warning:" not in " ".join(short_answer(replace(refused, notes=remarks), most=1).tail)


def test_a_refusal_has_the_same_words_in_its_short_and_bare_forms(refused: Advice) -> None:
    note = refused.notes[0]
    whole = note_text(note)
    assert whole == f"{note_text(note, 'bare')}."
    assert note_text(note, "short") == f"{whole.split(':')[0]}: see the remarks."
    assert note_texts([note], "labelled") == [whole], "no form of its own: the usual one"


def test_what_a_graph_does_not_hold_is_said_by_its_facts(golden: Golden) -> None:
    facts = {
        "k": 5,
        "batch": 128,
        "of_rank": False,
        "tokens": 768,
        "release": "vLLM 0.24.0",
        "largest": 498,
        "speedup": 0.75,
        "every_larger_k": True,
        "baseline_too": True,
    }
    golden(batch_tokens=note_text(Note.of("graph_missing", **facts)))
    none = note_text(Note.of("graph_missing", **facts | {"largest": 0, "every_larger_k": False}))
    golden(tokens_vllm=lines_with(none, "768 tokens"))
    between = note_text(Note.of("graph_missing", **facts | {"largest": 1024, "of_rank": True}))
    golden(batch_rank=between)
