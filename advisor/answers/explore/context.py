"""Speedup and recommended K over batch and context, and what moves with context: attention, caches, memory's edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.physics.memory import cache_bytes_per_gpu
from advisor.predict.curve import Curve, curve_for, draft_odds, recommended
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH, MAX_CONTEXT
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array

DEFAULT_CONTEXTS = (1024, 4096, 16384, 32768, 65536, 131072)
DEFAULT_MAP_BATCHES = (1, 4, 16, 64, 256)
MAX_CELLS = 4096
"""Batches times contexts of one map. [-]"""


@dataclass(frozen=True)
class ContextMap:
    """A scenario over contexts [nC] and batches [nB], with arrays [nC, nB] where nothing else is said.

    Prefill is not charged: the map is of decoding.
    """

    setups: tuple[Setup, ...]
    """One for each context."""
    contexts: NDArray[np.int64]
    batches: NDArray[np.int64]
    n_draft: NDArray[np.int64]
    """The recommended K, 0 included, under the scenario's limit on time per output token."""
    speedup: Array
    """Speedup at the recommended K. [-]"""
    low: Array
    high: Array
    p_gain: Array
    """Chance that `drafting_k` gains. [-]"""
    drafting_k: NDArray[np.int64]
    """The recommended K where that is above 0, else the one that would be without K = 0 among them, under the same
    limit; 0 where the scenario drafts nothing."""
    drafting_speedup: Array
    """Speedup at `drafting_k`, which says whether speculation itself gains."""
    tpot_s: Array
    attention_share: Array
    """Share of a plain step: cache and products with it. [-]"""
    verify_ratio: Array
    """Verification over plain step at `drafting_k`. [-]"""
    draft_share: Array
    """Share of a round at `drafting_k` that drafting takes, host included. [-]"""
    fits: NDArray[np.bool_]
    largest_batch: NDArray[np.int64]
    """Largest batch that fits in memory, [nC]."""
    cache_bytes: Array
    """Cache of one sequence per GPU, target and drafter, [nC]. [B]"""
    drafter_cache_bytes: Array
    """The drafter's part of it, [nC]. [B]"""
    tier: NDArray[np.object_]

    def at(self, context: int, batch: int) -> tuple[int, int]:
        """Indices of one context and batch. Raises KeyError for one that is not on the map."""
        row, column = np.flatnonzero(self.contexts == context), np.flatnonzero(self.batches == batch)
        if not (row.size and column.size):
            raise KeyError((context, batch))
        return int(row[0]), int(column[0])


def context_map(
    scenario: Scenario,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    batches: Sequence[int] = DEFAULT_MAP_BATCHES,
) -> ContextMap:
    """The map of a scenario over contexts and batches, its own context and batch among them.

    Raises AdvisorError for a context or batch out of range, too many of them, or an impossible scenario.
    """
    at = np.unique([*contexts, scenario.context_tokens]).astype(np.int64)
    sizes = np.unique([*batches, scenario.batch_size]).astype(np.int64)
    _check(at, sizes)
    plain = scenario.model_copy(update={"input_tokens": None, "output_tokens": None})
    setups = tuple(load_setup(plain.model_copy(update={"context_tokens": int(each)})) for each in at)
    curves = [curve_for(setup, sizes) for setup in setups]
    rows = [_row(setup, curve) for setup, curve in zip(setups, curves, strict=True)]
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    largest = np.array([setup.memory.largest_batch for setup in setups])
    return ContextMap(
        setups=setups,
        contexts=at,
        batches=sizes,
        fits=sizes[None, :] <= largest[:, None],
        largest_batch=largest,
        cache_bytes=np.array([setup.memory.kv_bytes_per_sequence for setup in setups]),
        drafter_cache_bytes=np.array([_drafter_cache(setup) for setup in setups]),
        **stacked,
    )


def _check(contexts: NDArray[np.int64], batches: NDArray[np.int64]) -> None:
    if contexts[0] < 1 or contexts[-1] > MAX_CONTEXT:
        raise AdvisorError(f"contexts must lie in 1..{MAX_CONTEXT:,} tokens, e.g. 1024,16384,131072")
    if batches[0] < 1 or batches[-1] > MAX_BATCH:
        raise AdvisorError(f"batches must lie in 1..{MAX_BATCH:,}, e.g. 1,16,64")
    if contexts.size * batches.size > MAX_CELLS:
        raise AdvisorError(
            f"{contexts.size} contexts x {batches.size} batches are too many; at most {MAX_CELLS:,} cells"
        )


def _row(setup: Setup, curve: Curve) -> dict[str, NDArray[np.generic]]:
    """The figures of one context by batch, [nB] each."""
    limit_ms, rows = setup.scenario.max_tpot_ms, np.arange(curve.batches.size)
    allowed = np.ones(curve.tpot_s.shape, bool) if limit_ms is None else curve.tpot_s * 1e3 <= limit_ms
    odds = draft_odds(curve.draws, allowed)
    best = recommended(odds.loss, odds.noise, allowed)
    # By the same rule without K = 0 among them: what speculation does where none is recommended; else the same K.
    drafting = np.zeros_like(best)
    if curve.drafts.size > 1:
        drafting = recommended(odds.loss[:, 1:], odds.noise[:, 1:], allowed[:, 1:]) + 1
    round_s = curve.round_s[rows, drafting]
    drafting_s = sum(curve.round_components[name][rows, drafting] for name in ("draft", "draft_host"))
    plain = curve.plain_components
    return {
        "n_draft": curve.drafts[best],
        "speedup": curve.speedup[rows, best],
        "low": curve.low[rows, best],
        "high": curve.high[rows, best],
        "p_gain": odds.p_gain[rows, drafting],
        "drafting_k": curve.drafts[drafting],
        "drafting_speedup": curve.speedup[rows, drafting],
        "tpot_s": curve.tpot_s[rows, best],
        "attention_share": plain["attention"] / curve.plain_step_s,
        "verify_ratio": curve.verify_ratio[rows, drafting],
        "draft_share": np.asarray(drafting_s / round_s),
        "tier": curve.tier[rows, best],
    }


def _drafter_cache(setup: Setup) -> float:
    """Cache of one sequence that the drafter keeps on one GPU. [B]"""
    if setup.draft_architecture is None:
        return 0.0
    tokens, size = setup.scenario.context_tokens, setup.kv_bytes_per_element
    return cache_bytes_per_gpu(setup.draft_architecture, setup.placement.tensor_parallel, tokens, size)
