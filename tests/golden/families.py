"""What a leaderboard and a design say in records put together by hand: `python -m
tests.golden.families` writes what a test compares.

A state prints the sentences that no state before it has said, so that every phrase stands once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from advisor.answers.design.dials import Experts
from advisor.prediction import Prediction, Tier
from advisor.show.phrases.board import BASIS, BOARD, REASONS
from advisor.show.phrases.book import Book, Phrase
from advisor.show.phrases.design import TARGETS

FOLDER = Path(__file__).parents[1] / "show"
Facts = dict[str, Any]
_FIGURE = Prediction(value=0.522, low=0.42, high=0.728, tier=Tier.FITTED, because="a table")
_BOARD: Facts = dict.fromkeys(BOARD.facts) | {
    "model": "qwen3-30b-a3b",
    "rank_low": 1,
    "rank_high": 3,
    "p_first": 0.62,
    "p_limit": 1.0,
    "tensor": 4,
    "expert": 1,
    "instance_gpus": 4,
    "copies": 2,
    "gpus": 8,
    "by": "cost",
    "figure": _FIGURE,
    "drafter": "eagle3",
    "accepted": "measured",
    "users_low": 64,
    "users_high": 64,
    "place": "NVIDIA H200 SXM 141GB",
    "n_gpus": 8,
    "n_ranked": 12,
    "favors_small": True,
    "names_chosen": False,
    "scores_chosen": False,
    "n_undrafted": 0,
    "drafting": (("measured", 8), ("borrowed", 4)),
    "drafter_given": False,
    "task": "chat",
    "usd_per_hour": 3.5,
    "price_origin": "as given",
    "whole_machine": False,
    "experts_searched": False,
}
_ALONE = {"tensor": 1, "instance_gpus": 1, "copies": 1, "gpus": 1, "n_gpus": 1}
_SIZES = {"min_total": 1e10, "max_total": 5e11, "min_active": 1e9, "max_active": 4e9}
_REASON: Facts = {"name": "deepseek-v3", "limit": None, "error": ""}
_BASIS: Facts = {
    "accepted": "measured",
    "dataset": "MT-Bench",
    "source": "model card",
    "heads": (),
    "tasks": (),
    "remarks": (),
    "n_heads": 0,
}
_TARGETS: Facts = {
    "design": Experts(256, 8, 1.0, 2048),
    "mean_loss": 0.041,
    "worst_loss": 0.072,
    "worst_at": "h100-sxm:8",
    "n_targets": 2,
    "n_blocked": 0,
    "tie": 0.05,
}
FAMILIES: dict[str, tuple[Book, Facts, dict[str, Facts]]] = {
    "board": (
        BOARD,
        _BOARD,
        {
            "the usual board": {},
            "by throughput": {"by": "throughput"},
            "by speed": {"by": "speed"},
            "by energy": {"by": "energy"},
            "one GPU, one user": _ALONE | {"users_low": 1, "users_high": 1},
            "one of eight GPUs": _ALONE | {"n_gpus": 8},
            "several single GPUs": {"tensor": 1, "instance_gpus": 1, "copies": 4, "gpus": 4},
            "one copy, experts split": {"copies": 1, "gpus": 4, "expert": 4},
            "a histogram": {"users_low": 1, "users_high": 128},
            "a limit, not sure to be kept": {"limit_ms": 20.0, "p_limit": 0.87},
            "a rank that is sure": {"rank_low": 2, "rank_high": 2},
            "nobody": {"n_ranked": 0, "limit_ms": 0.5},
            "nobody, one is near": {
                "n_ranked": 0,
                "limit_ms": 0.5,
                "nearest": "gpt-oss-20b",
                "nearest_ms": 2.31,
            },
            "without a drafter": {"accepted": "none"},
            "some without a drafter": {"n_undrafted": 3},
            "one without a drafter": {"n_undrafted": 1, "drafting": ()},
            "text not named": {"task": None},
            "sizes": _SIZES,
            "least sizes": {"min_total": 1e10, "min_active": 1e9},
            "largest sizes": {"max_total": 5e11, "max_active": 4e9},
            "chosen": {"names_chosen": True, "scores_chosen": True, "favors_small": False},
            "the whole machine, experts too": {"whole_machine": True, "experts_searched": True},
        },
    ),
    "reasons": (
        REASONS,
        _REASON,
        {
            "scores": {"reason": "scores"},
            "total": {"reason": "total"},
            "active": {"reason": "active"},
            "refused": {"reason": "refused", "error": "no kernels"},
            "context": {"reason": "context", "limit": 131072},
            "memory": {"reason": "memory", "limit": 12},
            "memory for none": {"reason": "memory", "limit": 0},
            "slow": {"reason": "slow", "limit": 23.456},
        },
    ),
    "basis": (
        BASIS,
        _BASIS,
        {
            "measured": {},
            "measured, with remarks": {"remarks": ("carried to chat", "one K was measured.")},
            "given": {"accepted": "given", "source": None},
            "lent": {"n_heads": 2, "heads": ("glm-5.2", "deepseek-r1"), "tasks": ("coding",)},
            "none": {"accepted": "none", "source": None},
        },
    ),
    "targets": (
        TARGETS,
        _TARGETS,
        {
            "one design": {},
            "a tie at each": {"worst_loss": 0.03},
            "none for all": {"design": None, "worst_loss": None},
            "none for one": {"design": None, "n_blocked": 1},
        },
    ),
}
"""Book, facts of the usual state, and changes to them by name of the state."""
FILES = {"board": ("board", "reasons", "basis"), "design": ("targets",)}
"""Families of each golden file."""


def states(family: str) -> dict[str, Facts]:
    """Facts of every state of a family."""
    _, base, changes = FAMILIES[family]
    return {name: base | change for name, change in changes.items()}


def reached(family: str) -> set[Phrase | None]:
    """Phrases that some state says."""
    book = FAMILIES[family][0]
    return {book.phrase(slot, facts) for facts in states(family).values() for slot in book.slots}


def _lines(book: Book, facts_of: Mapping[str, Facts]) -> Iterator[str]:
    before = set()
    for name, facts in facts_of.items():
        yield f"# {name}"
        for slot in book.slots:
            phrase = book.phrase(slot, facts)
            if phrase is not None and phrase.say and phrase not in before:
                before.add(phrase)
                yield f"{slot}: {book.say(slot, facts)}"


def sentences(file: str) -> str:
    """The sentences of a file's families, each phrase at the first state that says it."""
    lines = []
    for family in FILES[file]:
        lines.append(f"## {family}")
        lines += _lines(FAMILIES[family][0], states(family))
    return "\n".join(lines) + "\n"


def path_of(file: str) -> Path:
    """Where the golden file stands."""
    return FOLDER / f"phrases_{file}.txt"


if __name__ == "__main__":
    for each in FILES:
        path_of(each).write_text(sentences(each), encoding="utf-8")
