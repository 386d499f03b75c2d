"""The recommended K over batch and context, and whether context changes the answer that a schedule by batch gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.arrays import Array
from advisor.curve import Curve, curve_for, draft_odds, excess_loss, recommended
from advisor.runtime.costs import IntArray
from advisor.runtime.judge import last_batch, within_limit
from advisor.runtime.ranges import KRange, k_at
from advisor.runtime.schedule import SWITCH_COST
from advisor.scenario import Scenario
from advisor.setup import Setup, load_setup

CONTEXTS = (512, 2048, 8192, 32768, 131072)
"""Choice of this project: contexts that are looked at, a factor of four apart. [tokens]"""
SHOWN_BATCHES = (1, 4, 16, 64, 256, 1024)
"""Choice of this project: batches that a table of K by batch and context shows, a factor of four apart. [-]"""


@dataclass(frozen=True)
class KByContext:
    """The recommended K of each context and batch, beside the schedule at the scenario's own context."""

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
    """What that schedule loses against the recommended K at each context, beyond the noise and beyond what it loses at
    its own, [nC, nB]; 0 where the batch fits at one of the two only. [-]"""
    misses: NDArray[np.bool_]
    """Where that schedule misses a limit on time per output token that another K keeps, and keeps it at its own
    context, [nC, nB]."""

    @property
    def matters(self) -> bool:
        """Whether the schedule loses more at some context than a switch of K has to save, or misses the limit."""
        return bool((self._cost > SWITCH_COST).any())

    @property
    def _cost(self) -> Array:
        """`loss`, infinite where the limit is missed."""
        return np.where(self.misses, np.inf, self.loss)

    @property
    def text(self) -> str:
        """Sentence on where context changes the answer, or that it does not."""
        others = [context for context in self.contexts if context != self.own_context]
        if not others:
            return ""
        if not self.matters:
            return (
                f"Context hardly changes the answer: from {self.contexts[0]:,} to {self.contexts[-1]:,} tokens this "
                f"schedule costs at most {self.loss.max():.1%} more than at its own, at any batch that fits."
            )
        said = "; ".join(self._said(row, column) for row, column in self._worst)
        return f"Context changes the answer: {said}."

    @property
    def _worst(self) -> list[tuple[int, int]]:
        """(context, batch) where the schedule loses most, of the two contexts at which it loses too much and most."""
        worst = self._cost.max(axis=1)
        rows = sorted(np.flatnonzero(worst > SWITCH_COST).tolist(), key=lambda row: -worst[row])[:2]
        return [(row, int(self._cost[row].argmax())) for row in sorted(rows)]

    def _said(self, row: int, column: int) -> str:
        cost = f"cost {self.loss[row, column]:.1%}"
        return (
            f"with {self.contexts[row]:,} tokens at batch {self.batches[column]:,} K = {self.k[row, column]}, where "
            f"this schedule's {self.own_k[column]} would {'miss the limit' if self.misses[row, column] else cost}"
        )

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Heading and rows of the recommended K as text, for SHOWN_BATCHES and those that `text` names. A dash where it
        does not fit."""
        heading = ("Batch", *(f"{context:,}" for context in self.contexts))
        named = [self.batches[column] for _, column in self._worst]
        columns = np.flatnonzero(np.isin(self.batches, [*SHOWN_BATCHES, *named]))
        return heading, tuple(
            (f"{self.batches[at]:,}", *("-" if k < 0 else str(k) for k in self.k[:, at])) for at in columns
        )


def context_values(found: KByContext) -> dict[str, object]:
    """Recommended K by context as JSON and reports carry it.

    A list of K along the batches for each context; None where a batch does not fit.
    """
    return {
        "says": found.text,
        "matters": found.matters,
        "batches": found.batches.tolist(),
        "contexts": [
            {
                "context_tokens": context,
                "n_draft": [None if k < 0 else int(k) for k in found.k[row]],
                "schedule_loss": found.loss[row].tolist(),
            }
            for row, context in enumerate(found.contexts)
        ],
    }


def curves_at(setup: Setup, curve: Curve, contexts: Sequence[int] | None = None) -> Mapping[int, tuple[Setup, Curve]]:
    """A scenario and its curve at each context, its own as given. Over the same batches.

    contexts : default CONTEXTS as far as the model goes, at least the scenario's prompt; its own joins them. [tokens]

    One curve for each context, over all batches, K and draws at once: as the scenario at that context has it.
    """
    own = setup.scenario.context_tokens
    wanted = sorted({*(_reached(setup) if contexts is None else contexts), own})
    return {one: (setup, curve) if one == own else at_context(setup.scenario, one, curve.batches) for one in wanted}


def at_context(scenario: Scenario, context: int, batches: Array) -> tuple[Setup, Curve]:
    """A scenario at another context, and its curve over `batches` [nB]."""
    setup = load_setup(scenario.model_copy(update={"context_tokens": context}))
    return setup, curve_for(setup, batches)


def k_by_context(own_context: int, ranges: Sequence[KRange], at: Mapping[int, tuple[Setup, Curve]]) -> KByContext:
    """The recommended K over batches and contexts.

    own_context, ranges : the scenario's, and its schedule there. at : what `curves_at` gives.
    """
    batches = at[own_context][1].batches
    own_k = np.asarray(k_at(ranges, batches))
    found = [_judged(setup, curve, own_k) for setup, curve in at.values()]
    ks, losses, missed = (np.array(values) for values in zip(*found, strict=True))
    own = list(at).index(own_context)
    both_fit = (ks >= 0) & (ks[own] >= 0)
    beyond = np.where(both_fit, np.maximum(losses - losses[own], 0.0), 0.0)
    misses = both_fit & missed & ~missed[own]
    return KByContext(own_context, tuple(at), batches.astype(np.int64), ks, own_k, beyond, misses)


def _reached(setup: Setup) -> tuple[int, ...]:
    """CONTEXTS that the model reaches and the scenario's prompt leaves."""
    most, least = setup.architecture.max_context_tokens, setup.scenario.input_tokens
    return tuple(one for one in CONTEXTS if (most is None or one <= most) and (least is None or one >= least))


def _judged(setup: Setup, curve: Curve, own_k: IntArray) -> tuple[IntArray, Array, NDArray[np.bool_]]:
    """(recommended K, -1 where a batch does not fit; loss of `own_k` beyond the noise; where it misses a limit that
    another K keeps), each [nB]."""
    within = within_limit(setup, curve)
    odds = draft_odds(curve.draws, within)
    best = recommended(odds.loss, odds.noise, within)
    rows, column = np.arange(curve.batches.size), np.searchsorted(curve.drafts, own_k)
    missed = within.any(axis=1) & ~within[rows, column]
    if missed.any():  # there the loss is against all K, and its noise too: against those within it would be infinite
        within |= missed[:, None]
        odds = draft_odds(curve.draws, within)
    loss = excess_loss(odds.loss, odds.noise, within)[rows, column]
    fits = curve.batches <= last_batch(setup, curve)
    return np.where(fits, curve.drafts[best], -1), loss, missed
