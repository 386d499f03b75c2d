"""The recommended K by batch and context, beside the schedule at the scenario's own context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import IntArray, KRange, k_at, last_batch, within_limit
from advisor.answers.flags import Flags
from advisor.answers.schedule import MIN_GAIN, SWITCH_COST
from advisor.predict.curve import Curve, curve_for, draft_odds, excess_loss, recommended
from advisor.predict.load import load_setup
from advisor.predict.scenario_fields import MAX_CONTEXT
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array
from advisor.text import token_count

MAX_CONTEXT_BUCKETS = 16


def contexts_from_text(text: str) -> tuple[int, ...]:
    """Context lengths from `1024,8k,32k`, sorted. Raises AdvisorError for anything but numbers of
    tokens."""
    try:
        contexts = sorted({token_count(piece) for piece in text.split(",")})
    except ValueError as error:
        raise AdvisorError(f"contexts {text!r}: {error}") from error
    if contexts[0] < 1 or contexts[-1] > MAX_CONTEXT:
        raise AdvisorError(
            f"contexts must lie in 1..{MAX_CONTEXT} tokens; got {contexts[0]} to {contexts[-1]}"
        )
    if len(contexts) > MAX_CONTEXT_BUCKETS:
        raise AdvisorError(
            f"{len(contexts)} contexts are too many; give at most {MAX_CONTEXT_BUCKETS}"
        )
    return tuple(contexts)


CONTEXTS = (512, 2048, 8192, 32768, 131072)
"""Choice of this project: contexts that are looked at, a factor of four apart. [tokens]"""
SHOWN_BATCHES = (1, 4, 16, 64, 256, 1024)
"""Choice of this project: batches that a table of K by batch and context shows, a factor of four
apart. [-]"""


CONTEXT_FLAGS: Flags = {
    "others": ("n_contexts", ">", 1),
    "matters": ("cases", "!=", ()),
    "gain_moves": ("gain_change", ">", MIN_GAIN),
}


@dataclass(frozen=True)
class KByContext:
    """The recommended K of each context and batch, beside the schedule at the scenario's own
    context."""

    own_context: int
    contexts: tuple[int, ...]
    """Increasing, the scenario's own among them. [tokens]"""
    batches: IntArray
    """[nB], increasing from 1."""
    k: IntArray
    """Recommended K, [nC, nB]; -1 where the batch does not fit in memory at that context."""
    own_k: IntArray
    """K of the schedule at the scenario's own context, [nB]."""
    loss: Array
    """What that schedule loses against the recommended K at each context, beyond the noise and
    beyond what it loses at its own, [nC, nB]; 0 where the batch fits at one of the two only. [-]"""
    misses: NDArray[np.bool_]
    """Where that schedule misses a limit on time per output token that another K keeps, and keeps
    it at its own context, [nC, nB]."""
    own_batch: int
    """Batch of the scenario, one of `batches`. [sequences]"""
    speedup: Array
    """Of that schedule over no speculation at each context, [nC, nB]. [-]"""

    @property
    def matters(self) -> bool:
        """Whether the schedule loses more at some context than a switch of K has to save, or misses
        the limit."""
        return bool((self._cost > SWITCH_COST).any())

    @property
    def _cost(self) -> Array:
        """`loss`, infinite where the limit is missed."""
        return np.where(self.misses, np.inf, self.loss)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of where context changes K, or how little it does.

        And of the speedup at the scenario's batch, from the shortest context at which it fits to
        the longest.
        """
        of_k = {
            "n_contexts": len(self.contexts),
            "first": self.contexts[0],
            "last": self.contexts[-1],
            "most": float(self.loss.max()),
            "cases": tuple(self._case(row, column) for row, column in self._worst),
        }
        return of_k | self._of_speedup

    @property
    def _of_speedup(self) -> dict[str, Any]:
        own_column = int(np.searchsorted(self.batches, self.own_batch))
        fitting = np.flatnonzero(self.k[:, own_column] >= 0).tolist() or [0]
        gains = self.speedup[:, own_column].tolist()
        shortest = gains[fitting[0]]
        longest = gains[fitting[-1]]
        return {
            "batch": self.own_batch,
            "shortest": self.contexts[fitting[0]],
            "shortest_gain": shortest,
            "longest": self.contexts[fitting[-1]],
            "longest_gain": longest,
            "gain_change": abs(longest / shortest - 1.0),
        }

    @property
    def _worst(self) -> list[tuple[int, int]]:
        """(context, batch) where the schedule loses most, of the two contexts at which it loses too
        much and most."""
        worst = self._cost.max(axis=1)
        rows = sorted(np.flatnonzero(worst > SWITCH_COST).tolist(), key=lambda row: -worst[row])[:2]
        return [(row, int(self._cost[row].argmax())) for row in sorted(rows)]

    def _case(self, row: int, column: int) -> tuple[int, int, int, int, float | None]:
        """(context, batch, recommended K, K of the schedule, what that loses; None: the limit)."""
        loss = None if self.misses[row, column] else float(self.loss[row, column])
        ks = int(self.k[row, column]), int(self.own_k[column])
        return (self.contexts[row], int(self.batches[column]), *ks, loss)

    @property
    def shown(self) -> NDArray[np.int64]:
        """Places of the batches that a table has: SHOWN_BATCHES and those of the worst cases."""
        worst_batches = [self.batches[column] for _, column in self._worst]
        return np.flatnonzero(np.isin(self.batches, [*SHOWN_BATCHES, *worst_batches]))


def curves_at(
    setup: Setup, curve: Curve, contexts: Sequence[int] | None = None
) -> Mapping[int, tuple[Setup, Curve]]:
    """A scenario and its curve at each context, its own as given. Over the same batches.

    contexts : default CONTEXTS as far as the model goes, at least the scenario's prompt; its own
        joins them. [tokens]

    One curve for each context, over all batches, K and draws at once: as the scenario at that
    context has it.
    """
    scenario_context = setup.scenario.context_tokens
    max_tokens = setup.architecture.max_context_tokens or MAX_CONTEXT
    prompt_tokens = setup.scenario.input_tokens or 0
    reached = [context for context in CONTEXTS if prompt_tokens <= context <= max_tokens]
    all_contexts = sorted({*(reached if contexts is None else contexts), scenario_context})
    return {
        context: (setup, curve)
        if context == scenario_context
        else at_context(setup, context, curve.batches)
        for context in all_contexts
    }


def at_context(setup: Setup, context: int, batches: Array) -> tuple[Setup, Curve]:
    """A scenario at another context on the same server, and its curve over `batches` [nB]."""
    scenario = setup.scenario.model_copy(update={"context_tokens": context})
    other = replace(load_setup(scenario), graphs=setup.graphs)
    return other, curve_for(other, batches)


def k_by_context(
    own_context: int, ranges: Sequence[KRange], at: Mapping[int, tuple[Setup, Curve]]
) -> KByContext:
    """The recommended K over batches and contexts, `ranges` at the scenario's own. `at`: of
    `curves_at`."""
    own_setup, own_curve = at[own_context]
    batches = own_curve.batches
    own_k = np.asarray(k_at(ranges, batches))
    evaluated = [_judged(setup, curve, own_k) for setup, curve in at.values()]
    ks = np.array([k for k, *_ in evaluated])
    losses = np.array([loss for _, loss, *_ in evaluated])
    missed = np.array([misses for _, _, misses, _ in evaluated])
    speedups = np.array([speedup for *_, speedup in evaluated])
    scenario_row = list(at).index(own_context)
    both_fit = (ks >= 0) & (ks[scenario_row] >= 0)
    beyond = np.where(both_fit, np.maximum(losses - losses[scenario_row], 0.0), 0.0)
    misses = both_fit & missed & ~missed[scenario_row]
    return KByContext(
        own_context,
        tuple(at),
        batches.astype(np.int64),
        ks,
        own_k,
        beyond,
        misses,
        own_setup.scenario.batch_size,
        speedups,
    )


def _judged(
    setup: Setup, curve: Curve, own_k: IntArray
) -> tuple[IntArray, Array, NDArray[np.bool_], Array]:
    """(recommended K, -1 where a batch does not fit; loss of `own_k` beyond the noise; where it
    misses a limit that another K keeps; its speedup), each [nB]."""
    within = within_limit(setup, curve)
    odds = draft_odds(curve.draws, within)
    best = recommended(odds.loss, odds.noise, within)
    rows = np.arange(curve.batches.size)
    column = np.searchsorted(curve.drafts, own_k)
    missed = within.any(axis=1) & ~within[rows, column]
    # there the loss is against all K, and its noise too: against those within it would be infinite
    if missed.any():
        within |= missed[:, None]
        odds = draft_odds(curve.draws, within)
    loss = excess_loss(odds.loss, odds.noise, within)[rows, column]
    fits = curve.batches <= last_batch(setup, curve)
    return np.where(fits, curve.drafts[best], -1), loss, missed, curve.speedup[rows, column]
