"""What draft lengths of each sequence's own could gain at most: every sequence stops at its first rejection.

Engines are beginning to draft or verify each sequence only as far as the drafter is confident (vLLM's adaptive
verification, confidence-gated drafting). How well a drafter's confidence foretells rejection is published for hardly
any model, so what is computed is the bound: a gate that is never wrong. No engine reaches it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.arrays import Array
from advisor.runtime.costs import IntArray, RoundCosts
from advisor.runtime.policies import Controller, Situation, StaticK


@dataclass(frozen=True)
class SplitCosts:
    """Round costs at whole batches 0..max_batch, drafting apart. Arrays [max_batch + 1, nK], row 0 zero. [s]"""

    draft_s: Array
    """Of K drafts each of `batch` sequences."""
    rest_s: Array
    """Verification and the round's host time; column 0 a plain step."""

    @classmethod
    def of(cls, costs: RoundCosts, max_batch: int) -> SplitCosts:
        """Costs split into drafting and verifying, from costs whose drafting is known."""
        time, _ = costs.dense(max_batch)
        draft = costs.dense_draft(max_batch)
        return cls(draft, time - draft)

    def drafting_s(self, depth: IntArray) -> Array:
        """Time of drafting in which each sequence stops after a number of drafts of its own, [G]. [s]

        `depth` [G, S], 0 for an empty slot: pass j runs those that draft j tokens or more.
        """
        each = np.diff(self.draft_s, axis=1)
        going = (depth[..., None] > np.arange(each.shape[1])).sum(axis=1)
        return np.asarray(each[going, np.arange(each.shape[1])].sum(axis=1))

    def verifying_s(self, batch: IntArray, drafts: IntArray) -> Array:
        """Time of a round without its drafting, linear between whole draft lengths, [G]. [s]

        It verifies `drafts` [G] drafts of `batch` [G] sequences together.
        """
        mean = np.divide(drafts, batch, out=np.zeros(batch.shape), where=batch > 0)
        low = np.minimum(mean.astype(np.int64), self.rest_s.shape[1] - 2)
        share = mean - low
        return np.asarray((1.0 - share) * self.rest_s[batch, low] + share * self.rest_s[batch, low + 1])


@dataclass(frozen=True)
class StopsAtRejection:
    """Static K whose sequences know their first rejection: the same tokens as static K, for less.

    gates_drafting : it also drafts no further (confidence-gated drafting); else all K are drafted and those that will
        be accepted are verified (per-sequence verification).
    """

    k: int
    gates_drafting: bool
    keeps_drafter: bool = False

    @property
    def name(self) -> str:
        """Name of the policy, `bound: K<=3, drafts gated`."""
        return f"bound: K<={self.k}, {'drafts' if self.gates_drafting else 'verification'} gated"

    def controller(self, n_groups: int, time_s: Array) -> Controller:
        """Controller of static K."""
        return StaticK(self.k).controller(n_groups, time_s)

    def depth(self, situation: Situation) -> IntArray:
        """Drafts of each sequence that will be accepted, [G, S]. 0 in empty slots. [-]"""
        return np.where(situation.active, np.minimum(situation.run_length, self.k), 0).astype(np.int64)

    def round_s(self, split: SplitCosts, situation: Situation) -> Array:
        """Time of the coming round of each group, [G]. 0 where none is active. [s]"""
        depth, batch = self.depth(situation), situation.batch
        drafting = split.drafting_s(depth) if self.gates_drafting else split.draft_s[batch, self.k]
        return np.asarray(drafting + split.verifying_s(batch, depth.sum(axis=1)))


def bounds_for(k_max: int) -> tuple[tuple[StopsAtRejection, int], ...]:
    """Both bounds of every K from 1, each with its K."""
    return tuple((StopsAtRejection(k, gated), k) for k in range(1, k_max + 1) for gated in (False, True))
