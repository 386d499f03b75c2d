"""The books of single changes: each change, what its comparison leaves out, why it is refused; and
the scenario's design beside the best."""

from __future__ import annotations

from typing import get_args

from advisor.answers.explore.changes import STANDING_FACTS, STANDING_FLAGS, ChangeNote, Refusal
from advisor.answers.flags import Flags
from advisor.show.phrases.book import Book, Phrase

_NOTE_FLAGS: Flags = {case: ("note", "==", case) for case in get_args(ChangeNote)}
_KINDS = (
    "batch",
    "draft length",
    "expert weights",
    "placement",
    "accelerator",
    "drafter",
    "design",
)
_KIND_FLAGS: Flags = {kind.replace(" ", "_"): ("kind", "==", kind) for kind in _KINDS}
CHANGE = Book(
    (
        Phrase("what", "placement", "{before:ranks} -> {after:ranks}"),
        Phrase("what", "accelerator", "{before} -> {after}"),
        Phrase("what", "drafter", "{before} -> {after}"),
        Phrase("what", "draft_length", "K up to {before} -> {after}"),
        Phrase("what", "batch", "batch {before:int} -> {after:int}"),
        Phrase("what", "expert_weights", "routed experts {before} -> {after}"),
        Phrase("what", "design", "train {after:experts}"),
        Phrase("what", "", "{kind} {before} -> {after}"),
    ),
    frozenset(("kind", "before", "after")),
    _KIND_FLAGS,
)
NOTES = Book(
    (
        Phrase(
            "text", "format_quality", "What the format costs in answer quality is not predicted."
        ),
        Phrase("text", "assumed_ranks", "Expert-parallel imbalance follows an assumed formula."),
        Phrase("text", "no_prices", "Prices are not compared."),
        Phrase(
            "text",
            "other_length",
            "Its accepted length is from another source than today's: {curve} ({dataset}).",
        ),
        Phrase("text", "no_refit", "Predicted without your refit, which does not hold there."),
        Phrase(
            "text",
            "no_release",
            "Its captured CUDA graphs are not stated: neither padding nor steps without a graph "
            "are charged.",
        ),
        Phrase(
            "text",
            "other_model",
            "Another model to train: quality is held equal by published scaling laws.",
        ),
        Phrase(
            "text",
            "moved_routing",
            "Routing is assumed to move with the design; as a scenario by itself it takes its "
            "class's default.",
        ),
    ),
    frozenset(("note", "curve", "dataset")),
    _NOTE_FLAGS,
)
REFUSED = Book(
    (
        Phrase("why", "unproven", "not offered: {doubt}"),
        Phrase("why", "memory", "it does not fit in memory"),
        Phrase("why", "limit", "no K keeps {limit_ms:g} ms per output token"),
        Phrase("why", "", "{error}"),
        Phrase("doubt", "", "{name}, such changes were {evidence} ({needed})"),
    ),
    frozenset(("reason", "limit_ms", "error", "name", "evidence", "needed")),
    {case: ("reason", "==", case) for case in get_args(Refusal) if case != "error"},
)
_LOSSES = (
    Phrase(
        "to_best",
        "",
        "to {best:mix}{best_size} by {best_loss:pct} ({best_loss_low:pct}-"
        "{best_loss_high:pct}) in speedup",
    ),
    Phrase(
        "to_fastest",
        "",
        "to {fastest:mix}{fastest_size} by {fastest_loss:pct} ({fastest_loss_low:pct}-"
        "{fastest_loss_high:pct}) in time per token",
    ),
    Phrase("best_size", "best_grows", " ({best_weights:x2} times the weights)"),
    Phrase("fastest_size", "fastest_grows", " ({fastest_weights:x2} times the weights)"),
    Phrase("why", "", ""),
)
STANDING = Book(
    (
        Phrase(
            "standing",
            "gap_large",
            "Its experts were measured, and a baseline step differs by {gap:signed_pct} from the "
            "fit by which other designs are costed: they are not ranked against it here.",
        ),
        Phrase(
            "standing",
            "problem same",
            "{why} Of designs that do, at equal quality, {best:mix} has {best_gain:x} its "
            "speedup and is {fastest_gain:x} as fast per token.",
        ),
        Phrase(
            "standing",
            "problem",
            "{why} Of designs that do, at equal quality, {best:mix} has {best_gain:x} its "
            "speedup and {fastest:mix} is {fastest_gain:x} as fast per token.",
        ),
        Phrase(
            "standing",
            "best_wins fastest_wins",
            "Another architecture would be faster: this design loses {to_best}, and "
            "{to_fastest}, at equal quality.",
        ),
        Phrase(
            "standing",
            "best_wins",
            "Another architecture would be faster: this design loses {to_best}, at equal quality; "
            "its time per token is within noise of the best.",
        ),
        Phrase(
            "standing",
            "fastest_wins",
            "Another architecture would be faster: this design loses {to_fastest}, at equal "
            "quality; its speedup is within noise of the best.",
        ),
        Phrase(
            "standing",
            "",
            "Your design is within noise of the best at equal quality: speedup at most "
            "{best_loss:pct} below {best:mix}, time per token at most {fastest_loss:pct} below "
            "{fastest:mix}.",
        ),
        *_LOSSES,
    ),
    STANDING_FACTS,
    STANDING_FLAGS,
)
