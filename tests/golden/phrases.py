"""What the main answer says in records put together by hand: `python -m tests.golden.phrases`
writes what a test compares.

A state prints the sentences that no state before it has said, so that every phrase stands once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.answers.outcome import Outcome
from advisor.show.phrases.answer import BOOK

FILE = Path(__file__).parents[1] / "show" / "phrases_answer.txt"
BASE = Outcome(
    batch=32,
    k=2,
    k_from="model",
    best_alone=2,
    alone_gain=None,
    served=((1, 1024, 2),),
    n_k=9,
    tried=2,
    speedup=1.94,
    low=1.52,
    high=2.41,
    chance=0.95,
    best_share=0.62,
    loss=0.004,
    tier="fitted",
    tpot_ms=12.34,
    plain_ms=23.94,
    slow_ms=15.75,
    fastest_ms=12.34,
    limit_ms=None,
    in_limit=True,
    tried_in_limit=True,
    any_in_limit=True,
    kept_to=None,
    admit=None,
    accepted_length=2.4,
    accepted_k=3,
    borrowed=None,
    borrowed_from=None,
    length_n=0,
    length_low=None,
    length_high=None,
    length_task=None,
    length_place=None,
    length_ceiling=4,
    below_length=None,
    below_k=None,
    off_length=None,
    above_length=None,
    above_k=None,
    largest=2048,
    plain_largest=2090,
    roomy_to=512,
    pool_tokens=4_194_304,
    plain_pool_tokens=4_280_320,
    drafter_gib=0.37,
    pool_stated=False,
    prefix_tokens=None,
    prefix_hit=None,
    full_speedup=1.81,
    cancels_from=None,
    needed_gib=101.2,
    usable_gib=124.4,
    weights_fill=False,
    wider_gpus=None,
    end_batch=1024,
    end_is_memory=False,
    pays_to=None,
    loses_from=None,
    drafts_from=1,
    drafts_to=1024,
    peak=2.13,
    peak_batch=64,
    zone="sweet",
    experts_loaded=0.72,
    experts_more=0.18,
    experts_time=0.55,
    switches=False,
    varies=False,
    single_k_cost=None,
    published_n=0,
    published_half=0.0,
    published_slower=0,
    published_below=0,
    published_above=0,
    published_random=0,
    published_silent=0,
    runs_length=None,
    published_low=None,
    published_high=None,
    published_batch_low=None,
    published_batch_high=None,
    here_n=0,
    here_low=None,
    here_high=None,
    here_outside=0,
    other_drafter=None,
    other_n=0,
    other_low=None,
    other_high=None,
    own_n=0,
    own_here=None,
    half_width=None,
    half_width_after=None,
    own_rows=4,
    engine="vllm",
    engine_name="vLLM",
    kernels_of=None,
    experts_kernels="vllm 0.24.0, bf16, measured this shape",
    bound="bandwidth",
    bound_component="routed",
    bound_share=0.64,
    refit_points=None,
)
_OFF: dict[str, Any] = {
    "k": 0,
    "best_alone": 0,
    "served": ((1, 1024, 0),),
    "drafts_from": None,
    "drafts_to": None,
}
_LARGE: dict[str, Any] = {"batch": 4096, "needed_gib": 512.6}
_LIMIT: dict[str, Any] = {"limit_ms": 12.5, "kept_to": 58}
_RUNS: dict[str, Any] = {
    "published_n": 14,
    "published_half": 7.0,
    "published_low": 1.06,
    "published_high": 1.87,
    "published_batch_low": 1.0,
    "published_batch_high": 64.0,
}
_RUN = _RUNS | {"published_n": 1, "published_half": 0.5}
_DENSE: dict[str, Any] = {"experts_loaded": None, "experts_time": None, "experts_more": 0.0}
_LENGTHS: dict[str, Any] = {"length_n": 3, "length_low": 2.24, "length_high": 2.7}
_VARIES: dict[str, Any] = {"varies": True, "single_k_cost": 0.012}
_TIGHT: dict[str, Any] = {
    "largest": 40,
    "plain_largest": 52,
    "roomy_to": 10,
    "pool_tokens": 81_920,
    "plain_pool_tokens": 106_496,
}
_PREFIX: dict[str, Any] = {"prefix_tokens": 1536, "prefix_hit": 0.75}
STATES: dict[str, dict[str, Any]] = {
    "the usual answer": {},
    "few experts": {"zone": "few", "experts_loaded": 0.06, "experts_time": 0.41},
    "drafts load new experts": {"zone": "new", "experts_loaded": 0.21, "experts_more": 0.85},
    "new experts after the peak": {"zone": "new", "peak_batch": 16},
    "arithmetic": {"zone": "arithmetic", "experts_loaded": 0.99},
    "a dense model": _DENSE | {"zone": "free"},
    "a dense model, arithmetic": _DENSE | {"zone": "arithmetic"},
    "K = 1": {"k": 1, "tried": 1, "best_alone": 1},
    "may lose": {"chance": 0.71, "low": 0.88},
    "hardly": {"speedup": 1.06, "low": 0.97},
    "a slowdown, of the K that is served": {"speedup": 0.97, "low": 0.8, "chance": 0.4},
    "off": _OFF | {"speedup": 0.91, "low": 0.8, "high": 1.0, "chance": 0.12, "pays_to": 0},
    "off, a gain too uncertain": _OFF | {"speedup": 1.02, "low": 0.9, "chance": 0.55},
    "off, the gain misses the limit": _OFF | {"limit_ms": 12.0, "tried_in_limit": False},
    "off here alone": _OFF | _VARIES,
    "no drafter": {
        "n_k": 1,
        "k": 0,
        "tried": 0,
        "best_alone": 0,
        "accepted_length": None,
        "drafts_from": None,
    },
    "own runs decide": {"k_from": "own", "own_n": 2, "own_here": 1.53},
    "own runs of other batches decide": {"k_from": "own", "own_n": 2},
    "own runs lose": _OFF | {"k_from": "own", "own_n": 2},
    "nothing fits": _LARGE | {"largest": 0},
    "the weights are too large": _LARGE | {"largest": 0, "weights_fill": True},
    "the batch is too large": _LARGE,
    "it fits on more GPUs": _LARGE | {"wider_gpus": 8},
    "over the limit": _LIMIT
    | {"batch": 64, "any_in_limit": False, "admit": 58, "fastest_ms": 13.1},
    "over the limit at the slow end": _LIMIT | {"admit": 58},
    "a limit on SGLang": _LIMIT | {"engine": "sglang", "engine_name": "SGLang", "admit": 464},
    "another K is faster here": {"best_alone": 3, "alone_gain": 0.0142},
    "another K is as fast here": {"best_alone": 3, "alone_gain": 0.0001},
    "a dense model, bound by arithmetic": {
        "experts_kernels": None,
        "bound": "compute",
        "bound_component": "dense",
    },
    "bound by launches, read off the same chip": {
        "bound": "launch",
        "tier": "interpolated",
        "kernels_of": "H100",
    },
    "bound by communication, from a data sheet, refitted": {
        "bound": "communication",
        "tier": "roofline",
        "refit_points": 7,
    },
    "borrowed": {"borrowed": "gpt-oss-20b"},
    "borrowed in the family": {"borrowed": "gpt-oss-20b", "borrowed_from": "family"},
    "borrowed from another family": {"borrowed": "gpt-oss-20b", "borrowed_from": "drafter"},
    "borrowed from another drafter": {"borrowed": "P-EAGLE", "borrowed_from": "kind"},
    "published lengths, another drafter that gained more, adaptive verification": _LENGTHS
    | {
        "other_drafter": "P-EAGLE",
        "other_n": 21,
        "other_low": 1.52,
        "other_high": 2.44,
        "adaptive_k": 7,
        "adaptive_low": -0.024,
        "adaptive_high": 0.187,
        "adaptive_key": "enable_adaptive_verification",
        "adaptive_release": "vLLM 0.33.0",
    },
    "one published length, of a task": _LENGTHS | {"length_n": 1, "length_task": "long_document"},
    "a length below all published": _LENGTHS | {"length_place": -1},
    "a length within those published": _LENGTHS | {"length_place": 0},
    "a length above the only published": _LENGTHS | {"length_place": 1, "length_n": 1},
    "published": _RUNS,
    "published, all below, random tokens": _RUNS
    | {"published_below": 14, "published_random": 14, "runs_length": 1.6},
    "published, some below, random tokens": _RUNS | {"published_below": 10, "published_random": 14},
    "published, some below": _RUNS | {"published_below": 3},
    "published, some above": _RUNS | {"published_above": 2},
    "published, on both sides": _RUNS | {"published_below": 3, "published_above": 2},
    "one published run": _RUN,
    "one published run, below": _RUN | {"published_below": 1},
    "one published run, above": _RUN | {"published_above": 1},
    "published here": _RUNS | {"here_n": 2, "here_low": 1.06, "here_high": 1.15},
    "published here, once": _RUNS | {"here_n": 1, "here_low": 1.06, "here_high": 1.06},
    "K by batch": _VARIES | {"switches": True, "served": ((1, 1, 4), (2, 64, 3), (65, 1024, 2))},
    "one K nearly as good": _VARIES,
    "one K as good": {"varies": True, "single_k_cost": 0.0},
    "may lose from a batch on": {"loses_from": 156},
    "may lose at every batch": {"loses_from": 1},
    "may lose, then stops paying": {"loses_from": 156, "pays_to": 300},
    "stops paying": {"pays_to": 300, "drafts_to": 300},
    "drafts and gains nowhere": {"speedup": 0.97, "pays_to": 0},
    "to full memory": {"end_is_memory": True},
    "lengths that change K": {
        "below_length": 1.9,
        "below_k": 1,
        "off_length": 1.25,
        "above_length": 2.88,
        "above_k": 4,
    },
    "a length below which nothing is drafted": {"below_length": 1.25, "below_k": 0},
    "a length above": {"above_length": 2.88, "above_k": 4},
    "refitted": {"refit_points": 9},
    "measured": {"tier": "measured"},
    "kernels of the same chip": {"kernels_of": "H200 SXM"},
    "interpolated": {"tier": "interpolated"},
    "from the data sheet": {"tier": "roofline"},
    "own runs would narrow it": {"half_width": 0.23, "half_width_after": 0.19},
    "an engine without a profile": {"engine": "other", "engine_name": None},
    "an engine without a profile, off": _OFF | {"engine": "other", "engine_name": None},
    "the drafter takes requests": _TIGHT,
    "nothing fits beside the drafter": _TIGHT | {"largest": 0},
    "and cancels the gain, as the engine logs it": _TIGHT
    | {"full_speedup": 0.97, "cancels_from": 50, "drafts_to": 40, "pool_stated": True},
    "as many requests either way": {"plain_largest": 2048, "full_speedup": 1.94},
    "a shared prefix": _TIGHT | _PREFIX,
    "a shared prefix that no longer fits": _TIGHT
    | _PREFIX
    | {"largest": 0, "roomy_to": 0, "prefix_hit": 0.0, "full_speedup": None},
    "a shared prefix, turned off": _OFF | _PREFIX,
    "a shared prefix, no drafter": _PREFIX | {"n_k": 1},
    "a shared prefix, n-gram drafts": _PREFIX
    | {"plain_largest": 2048, "plain_pool_tokens": 4_194_304, "drafter_gib": 0.0},
}
"""Changes to BASE by name."""
FORM_TEXTS: tuple[tuple[str, Any, str], ...] = (
    ("", 58, "58"),
    ("", "gpt-oss-20b", "gpt-oss-20b"),
    ("x", 1.944, "1.94×"),
    ("x", 1.125, "1.12×"),
    ("x", 1.145, "1.15×"),
    ("x2", 2.0, "2.00"),
    ("x2", 2.375, "2.38"),
    ("1", 1.25, "1.2"),
    ("1", 1.349, "1.3"),
    ("3", 0.01234, "0.0123"),
    ("3", 9.996, "10.0"),
    ("3", 2.125, "2.12"),
    ("3", 12.34, "12.3"),
    ("3", 999.4, "999"),
    ("3", 1234.5, "1,234"),
    ("int", 0.5, "0"),
    ("int", 1.5, "2"),
    ("int", 65536, "65,536"),
    ("pct", 0.125, "12%"),
    ("pct", 0.535, "54%"),
    ("pct", -0.004, "0%"),
    ("pct1", -0.0004, "0.0%"),
    ("pct1", 0.0142, "1.4%"),
    ("pct1", 0.0, "0.0%"),
    ("chance", 0.714, "71%"),
    ("chance", 1.0, "99%"),
    ("tokens", 1, "1 token"),
    ("tokens", 3, "3 tokens"),
    ("drafts", 3, "3 drafts"),
    ("runs", 1, "1 published run"),
    ("runs", 1400, "1,400 published runs"),
    ("gpus", 1, "1 GPU"),
    ("gpus", 8, "8 GPUs"),
)
"""(form, fact, text) of the forms that Python and the browser share."""


def outcomes() -> dict[str, Outcome]:
    """Every state's record."""
    return {name: replace(BASE, **changes) for name, changes in STATES.items()}


def sentences() -> str:
    """The sentences of all states, each phrase at the first state that says it."""
    lines = []
    before = set()
    for name, outcome in outcomes().items():
        facts = outcome.facts
        phrases = {slot: BOOK.phrase(slot, facts) for slot in BOOK.slots}
        new = {
            slot: phrase
            for slot, phrase in phrases.items()
            if phrase is not None and phrase.say and phrase not in before
        }
        before |= set(new.values())
        said = [f"{slot}: {BOOK.say(slot, facts)}" for slot in new]
        lines += [f"[{name}] {said[0]}", *said[1:]] if said else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(sentences(), encoding="utf-8")
