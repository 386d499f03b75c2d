"""What a leaderboard and a design say in records put together by hand: `python -m
tests.golden.families` writes what a test compares.

A state prints the sentences that no state before it has said, so that every phrase stands once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from advisor.answers.design.candidates import LawQuality
from advisor.answers.design.dials import Experts
from advisor.prediction import Prediction, Tier
from advisor.show.phrases import pages, reading
from advisor.show.phrases.board import BASIS, BOARD, REASONS
from advisor.show.phrases.book import Book, Phrase
from advisor.show.phrases.changes import CHANGE, NOTES, REFUSED, STANDING
from advisor.show.phrases.design import (
    ALONG,
    CHANGES,
    CORNERS,
    DESIGN,
    LIMITS,
    PARETO,
    REMARKS,
    STARTED,
    WISHES,
)

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
_SIZED: Facts = {
    "shape": None,
    "near": "Jamba-Mini",
    "layers": (("linear", 28), ("full", 4), ("mla", 2), ("none", 1)),
    "depth": 35,
    "hidden_size": 4096,
    "design": Experts(256, 8, 1.0, 2048),
    "total": 4.02e10,
    "active": 3.1e9,
    "targets": (("total", 4e10),),
    "chosen": "newest",
    "multiple": 16,
    "heads_assumed": True,
    "vocabulary_assumed": True,
    "query_heads": 56,
    "head_dim": 128,
    "kv_heads": 8,
    "vocabulary": 151936,
}
_START = Experts(128, 8, 0.0, 768)
_BEST = Experts(96, 10, 4.0, 2048)
_LAWS = (
    LawQuality("leverage", 1.0, 0.85, 1.18),
    LawQuality("anchor", 1.21, 1.17, 1.22),
    LawQuality("loss", 2.4, None, None),
)
_DESIGN: Facts = {
    "objective": "tpot",
    "batches": (1.0, 64.0),
    "place": "NVIDIA H200 SXM 141GB",
    "drafter": "eagle3",
    "n_candidates": 3590,
    "start": _START,
    "start_k": (3, 3),
    "start_ms": 9.281,
    "start_value": 1.82,
    "start_total": 3.05e10,
    "problem": None,
    "target_batch": 64,
    "start_largest": 40,
    "start_slowest_ms": 9.3,
    "limit_ms": 8.5,
    "gap": 0.02,
    "gap_large": False,
    "keeps": False,
    "clear": True,
    "same": False,
    "best": _BEST,
    "best_body": None,
    "best_k": (3, 2),
    "best_ms": 7.73,
    "best_value": 1.97,
    "best_total": 2.51e10,
    "best_active": 4.22e9,
    "growth": 0.82,
    "gain": 1.2,
    "gain_low": 1.1,
    "gain_high": 1.31,
    "tpot_gain": 1.2,
    "tpot_factor": 1.2,
    "quality": _LAWS,
    "training_cost": 1.54,
    "training_flop": None,
    "from_nothing": False,
    "start_name": "today",
}
_UNCLEAR: Facts = {"clear": False, "keeps": True, "gain": 1.05, "gain_low": 0.97}
_LIMITS: Facts = {
    "binding": "shared_share",
    "design": _BEST,
    "gain": 0.063,
    "most": "memory",
    "most_n": 57000,
    "n_designs": 58000,
    "breaks": ("memory", "quality"),
    "beyond": 0.34,
    "remedy": "memory",
    "broken": None,
    "largest": 48,
    "mostly_memory": False,
}
_REMARKS: Facts = {
    "one_law": None,
    "one_law_gain": 1.3,
    "one_law_quality": 0.76,
    "tokens_per_parameter": None,
    "corners": (),
    "corner_texts": "256 experts, the most tried",
    "compared": True,
    "gain_low": 1.1,
    "tpot_gain": 1.1,
    "slower": 0.91,
    "price_usd": None,
    "extrapolated": False,
    "training_tokens": 1e12,
    "measured": False,
    "start_ms": 9.26,
    "fit_ms": 9.28,
}
_STANDING: Facts = {
    "gap": -0.02,
    "gap_large": False,
    "problem": None,
    "same": False,
    "why": "The baseline does not fit in memory at batch 200: at most batch 180 does.",
    "best": _BEST,
    "best_gain": 1.09,
    "best_loss": 0.08,
    "best_loss_low": 0.03,
    "best_loss_high": 0.12,
    "best_wins": False,
    "best_weights": 0.82,
    "best_grows": False,
    "fastest": Experts(128, 6, 0.0, 1024),
    "fastest_gain": 1.06,
    "fastest_loss": 0.06,
    "fastest_loss_low": 0.02,
    "fastest_loss_high": 0.1,
    "fastest_wins": False,
    "fastest_weights": 1.31,
    "fastest_grows": False,
}
_CHANGE_STEPS: dict[str, tuple[Any, Any]] = {
    "batch": (16, 1024),
    "draft length": (4, 8),
    "weights": ("bf16", "fp8"),
    "expert weights": ("bf16", "mxfp4"),
    "KV cache": ("bf16", "fp8"),
    "placement": ((4, 1), (8, 8)),
    "accelerator": ("H100 SXM", "H200 SXM"),
    "drafter": ("EAGLE-3", "MTP"),
    "engine": ("vllm", "sglang"),
    "design": (_START, _BEST),
}
_READING: Facts = dict.fromkeys(reading.BOOK.facts, "name") | {
    **dict.fromkeys(("n", "n_more", "line", "plain_line", "copies"), 3),
    **dict.fromkeys(("mean", "waiting"), 2.5),
    **dict.fromkeys(("share", "error"), 0.25),
    **dict.fromkeys(("total", "client", "server"), 1200),
    "lines": (2, 5, 9),
    "drafts": (1, 3),
    "renamed": (("k_draft", "n_draft"),),
    "k_of_word": (("off", 0), ("on", None)),
    "per_gpu": True,
    "left": (3, "step"),
    "columns": ("tpot_s", "itl_s"),
    "others": ("output_tok_per_s",),
    "names": ("prompt length", "generated length"),
    "starts": (("a.csv", 1), ("b.csv", 9)),
    "differences": (("batch", "8", "32"), ("engine", None, "vllm")),
    "in_ms": True,
}
_PAGES: Facts = dict.fromkeys(pages.BOOK.facts) | {
    **dict.fromkeys(("rows", "n", "left_n", "slow_n", "rest_n", "near_n", "slowdowns"), 120),
    **dict.fromkeys(("laboratories", "near_laboratories", "rest_laboratories", "foreseen"), 7),
    **dict.fromkeys(("error", "left_error", "rest_error", "near_error", "mature", "below"), 0.12),
    **dict.fromkeys(("range_held", "left_held", "near_held", "slow_foreseen", "of_rows"), 0.81),
    **dict.fromkeys(("field", "share", "within", "happened", "most"), 0.79),
    **dict.fromkeys(("near", "least", "limit", "gap"), 0.25),
    **dict.fromkeys(("batch", "n_draft", "k", "n_runs", "wrong"), 3),
    **dict.fromkeys(("findings", "clean", "not_judged"), 2),
    "stated": 0.7,
    "near_group": "this accelerator, other models",
    "at_most": True,
    "predicted": 1.5,
    "measured": 1.4,
    "model_id": "qwen3-30b-a3b",
    "accelerator": "H200 SXM",
    "set": "SpecBundle",
    "laboratory": "local-inference-lab",
    "quantity": "speedup",
    "decides": True,
    "kept_low": 1.5,
    "kept_high": 2.08,
    "without": 1900,
    "with_drafts": 1450,
}
_ALONG: Facts = {
    "drafted": True,
    "one_batch": False,
    "sparser": True,
    "small": Experts(128, 16, 4.0, 4096),
    "small_batch": 8.0,
    "large": Experts(128, 3, 4.0, 4096),
    "large_batch": 512.0,
    "what": "Gain from drafting",
    "axis": "k/N",
    "of_gain": True,
    "batch": 8.0,
    "value": 1.82,
    "place": "16/128",
    "first": 0.46,
    "first_place": "1/128",
    "last": 1.2,
    "last_place": "16/128",
    "at_batches": [
        "at most 1.82× at batch 8, with 16/128",
        "at most 1.20× at batch 512, with 3/128",
    ],
    "quality": ["as good by all three laws from 8/128 to 16/128"],
    "zone": "as good by all three laws",
    "start_name": "today",
    "some_over": False,
    "near": 0.03,
    "one_target": True,
    "targets": [32.0],
    "lent": False,
    "lender": "gpt-oss-20b",
}
_PARETO: Facts = {
    "start_name": "today",
    "designs": ["Today 1.00× at 100%", "Best 1.12× at 100%"],
    "what": "k/N",
    "least": "1/16",
    "first_place": "1/32",
    "last_place": "1/8",
    "first": 0.07,
    "last": 0.021,
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
    "started": (
        STARTED,
        _SIZED,
        {
            "near a size": {},
            "nearest to two sizes": {
                "chosen": "nearest",
                "targets": (("total", 4e10), ("active", 3e9)),
            },
            "like a model": {"chosen": "typed"},
            "typed": {"shape": "61L h7168 N256 k8 s1 w2048"},
            "typed with heads": {"shape": "61L", "heads_assumed": False},
            "typed with a vocabulary": {"shape": "61L", "vocabulary_assumed": False},
            "typed whole": {
                "shape": "61L",
                "heads_assumed": False,
                "vocabulary_assumed": False,
            },
        },
    ),
    "design": (
        DESIGN,
        _DESIGN,
        {
            "a clear gain": {},
            "no drafter": {"drafter": None},
            "another depth": {"best_body": "Qwen3-30B-A3B, 60 layers"},
            "training tokens": {"training_flop": 2.5e22},
            "by tokens/s": {"objective": "tokens_per_s_per_gpu", "best_value": 1913.0},
            "by speedup": {"objective": "sd_speedup"},
            "by cost": {"objective": "cost_per_million_tokens", "best_value": 0.3213},
            "not clear": _UNCLEAR,
            "not clear, by tokens/s": _UNCLEAR | {"objective": "tokens_per_s_per_gpu"},
            "even": _UNCLEAR | {"gain": 1.002},
            "slower per token": _UNCLEAR
            | {"objective": "sd_speedup", "gain_low": 1.02, "tpot_gain": 0.9},
            "the start is best": _UNCLEAR | {"same": True},
            "nobody came with a design": _UNCLEAR | {"from_nothing": True, "start_name": "start"},
            "the start does not fit": _UNCLEAR | {"problem": "memory"},
            "nothing of the start fits": _UNCLEAR | {"problem": "memory", "start_largest": 0},
            "the start is too slow": {"problem": "tpot", "from_nothing": True},
            "measured far from the fit": _UNCLEAR | {"gap": 2.85, "gap_large": True},
            "nothing is feasible": _UNCLEAR | {"best": None},
        },
    ),
    "limits": (
        LIMITS,
        _LIMITS,
        {
            "memory, a batch fits": {},
            "memory": {"largest": 0},
            "time": {"remedy": "tpot"},
            "a limit": {"remedy": "limit", "broken": "training_cost"},
            "quality, memory rules out most": {"remedy": "quality", "mostly_memory": True},
            "quality": {"remedy": "quality"},
            "another": {"remedy": None},
            "nothing binds": {"binding": None},
        },
    ),
    "remarks": (
        REMARKS,
        _REMARKS,
        {
            "none": {},
            "no tokens": {"training_tokens": None},
            "measured": {"measured": True},
            "one law": {"one_law": Experts(128, 2, 0.0, 768)},
            "few tokens": {"tokens_per_parameter": 12.0},
            "a corner": {"corners": (("most_n_experts", 256.0),)},
            "even": {"gain_low": 0.97},
            "slower": {"tpot_gain": 0.9, "slower": 1.11},
            "cost": {"price_usd": 3.5},
            "outside": {"extrapolated": True},
        },
    ),
    "wishes": (
        WISHES,
        {"axis": "n_experts", "value": 512, "constraint": "memory", "n_designs": 1200},
        {
            "ruled out": {},
            "not placed": {"constraint": None},
            "k": {"axis": "n_active"},
            "s": {"axis": "n_shared"},
        },
    ),
    "corners": (
        CORNERS,
        {"value": 0.25},
        {case: {"corner": case} for case in (bound for _, _, bound in CORNERS.flags.values())},
    ),
    "assumptions": (
        CHANGES,
        {"assumption": "acceptance", "end": "low", "flips": 0, "n": 11, "flip_regret": 0.01},
        {
            "acceptance": {},
            "flips": {"flips": 2},
            "correlation": {"assumption": "correlation"},
            "skew": {"assumption": "skew"},
            "even": {"assumption": "skew", "end": "high"},
            "bandwidth": {"assumption": "bandwidth", "end": "0.75"},
            "overheads": {"assumption": "overheads", "end": "3"},
            "law": {"assumption": "law"},
        },
    ),
    "standing": (
        STANDING,
        _STANDING,
        {
            "within noise": {},
            "both win": {"best_wins": True, "fastest_wins": True},
            "speedup alone": {"best_wins": True, "best_grows": True},
            "time alone": {"fastest_wins": True, "fastest_grows": True},
            "measured far from the fit": {"gap_large": True, "gap": 0.31},
            "the start fails": {"problem": "memory"},
            "the start fails, one is best": {"problem": "memory", "same": True},
        },
    ),
    "changes": (
        CHANGE,
        {},
        {
            kind: {"kind": kind, "before": before, "after": after}
            for kind, (before, after) in _CHANGE_STEPS.items()
        },
    ),
    "change notes": (
        NOTES,
        {"curve": "gpt-oss-20b-eagle3-mt-bench", "dataset": "MT-Bench"},
        {case: {"note": case} for case in NOTES.flags},
    ),
    "refusals": (
        REFUSED,
        {
            "limit_ms": 9.0,
            "error": "tensor parallelism 3 does not divide 32 heads",
            "name": "engine vllm -> trtllm",
            "evidence": "in no measured pair",
            "needed": "80% of 20 or more needed",
        },
        {case: {"reason": case} for case in ("unproven", "memory", "limit", "error")},
    ),
    "pages": (
        pages.BOOK,
        _PAGES,
        {
            "all": {},
            "nothing is near, a share wanted": {"near_n": None, "at_most": False},
            "rounds of one K": {"quantity": "round", "decides": False},
            "runs that decide no K": {"decides": False},
            "baselines": {"quantity": "plain"},
        },
    ),
    "along": (
        ALONG,
        _ALONG,
        {
            "gain by k/N": {},
            "time": {"of_gain": False},
            "no order by batch": {"sparser": False},
            "one batch": {"one_batch": True},
            "without a drafter": {"drafted": False},
            "a batch beyond memory": {"some_over": True},
            "a mix of batches": {"one_target": False, "targets": [1.0, 64.0]},
            "a borrowed length": {"lent": True},
        },
    ),
    "pareto": (PARETO, _PARETO, {"as it is": {}}),
    "reading": (
        reading.BOOK,
        _READING,
        {
            "everything": {},
            "left open": dict.fromkeys(("counts", "stated", "remark"))
            | {"in_ms": False, "per_gpu": False},
            "nothing to guess": {"counts": None, "guess": None, "n": 0},
        },
    ),
}
"""Book, facts of the usual state, and changes to them by name of the state."""
FILES = {
    "board": ("board", "reasons", "basis", "changes", "change notes", "refusals"),
    "design": (
        *("design", "limits", "remarks", "wishes", "corners", "assumptions"),
        "standing",
    ),
    "start": ("started", "along", "pareto"),
    "reading": ("reading",),
    "pages": ("pages",),
}
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
