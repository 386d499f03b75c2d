"""What a search found: every design of a grid with its costs, the baseline beside it, and how to look designs up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.architecture import Architecture
from advisor.arrays import Array
from advisor.design.evaluate import Body, Served
from advisor.design.grid import DesignGrid, Mixes, design_architecture
from advisor.design.question import CONSTRAINTS, Question
from advisor.quality import GuardRails, Shape, expert_mix_loss
from advisor.setup import Setup

MAX_MEASURED_GAP = 0.10
"""A baseline further than this from the fitted form is not held against unmeasured designs: gains of designs worth
naming are of that size. [-]"""


@dataclass(frozen=True)
class Baseline:
    """The design to beat: numbers in the same terms as every candidate's."""

    n_experts: int
    n_active: int
    n_shared: float
    expert_width: int
    total_params: float
    active_params: float
    activation: float
    dense_equivalent: float
    shape: Shape
    served: Served
    """Baseline at each batch, [nB, 1]."""
    score: float

    @property
    def counts(self) -> tuple[float, float, float]:
        """(N, k, s)."""
        return float(self.n_experts), float(self.n_active), self.n_shared

    @property
    def words(self) -> str:
        """Experts of the baseline in words, as `DesignSpace.describe` has a design's."""
        extra = f" + {self.n_shared:.3g} shared" if self.n_shared else ""
        return f"{self.n_experts} experts top-{self.n_active}{extra}, width {self.expert_width}"


@dataclass(frozen=True)
class DesignSpace:
    """All designs, flat: entry i of every array is one design. Sizes in parameters, times in seconds."""

    setup: Setup
    question: Question
    grid: DesignGrid
    bodies: tuple[Body, ...]
    baseline: Baseline
    rails: GuardRails
    notes: tuple[str, ...]
    drafts: NDArray[np.int64]
    body: NDArray[np.int8]
    n_experts: NDArray[np.int32]
    n_active: NDArray[np.int32]
    n_shared: NDArray[np.float32]
    expert_width: NDArray[np.int32]
    total_params: Array
    active_params: Array
    dense_equivalent: Array
    largest_batch: NDArray[np.float32]
    failed: NDArray[np.uint16]
    """One bit per constraint of CONSTRAINTS that the design breaks; 0: feasible."""
    violation: NDArray[np.float32]
    """Sum over constraints of how far a design lies beyond them, natural logs. [-]"""
    speedup: NDArray[np.float32]
    """Speedup of each design at its best K, [nB, designs]."""
    tpot_s: NDArray[np.float32]
    n_draft: NDArray[np.int16]
    score: Array
    """The objective, higher is better."""
    measured_gap: float = 0.0
    """Plain step of the baseline by its own measured rows over the one by the fitted form that designs are compared by,
    less 1, at the target batch where they differ most; 0 where its shape was not measured. [-]"""
    measured_tpot_s: float | None = None
    """The baseline's time per output token by its own measured rows, over the question's batches at the K of the fit;
    None where its shape was not measured. [s]"""
    measured_note: str = ""
    """Sentence on the baseline by its own measured rows and by the form; empty where its shape was not measured."""

    def __len__(self) -> int:
        return len(self.body)

    @property
    def candidates(self) -> NDArray[np.intp]:
        """Designs at equal quality within every limit, of all widths, best first."""
        index = np.flatnonzero(self.failed == 0)
        return index[np.argsort(-self.score[index], kind="stable")]

    @property
    def contenders(self) -> NDArray[np.intp]:
        """The candidates that can be the best by the objective at some batch, rising.

        Of each (body, N, k, s) the narrowest, and for the speculative speedup the widest too.

        At a fixed K times are affine in the width and grow with it, and a speedup is the ratio of two such times.
        """
        return self.width_ends(self.failed == 0)

    def width_ends(self, allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The narrowest of each (body, N, k, s) among some designs, and for the speedup the widest too."""
        index = np.flatnonzero(allowed)
        mixes = self.mixes_of(index)
        moved = np.any(mixes[:, 1:] != mixes[:, :-1], axis=0)
        edge = np.concatenate([[True], moved])[: len(index)]
        if self.question.objective == "sd_speedup":
            edge = edge | np.concatenate([moved, [True]])[: len(index)]
        return index[edge]

    def allowed_at(self, row: int) -> NDArray[np.bool_]:
        """Designs that would be candidates were this batch of the question the only one. [designs]"""
        allowed = self.keeps_apart_from_load() & (self.largest_batch >= self.question.batches[row])
        limit_s = self.question.max_tpot_s
        return allowed if limit_s is None else allowed & (self.tpot_s[row] <= limit_s)

    def keeps_apart_from_load(self) -> NDArray[np.bool_]:
        """Designs that keep every constraint that does not depend on the batch. [designs]"""
        by_batch = np.uint16(sum(1 << CONSTRAINTS.index(name) for name in ("memory", "tpot")))
        return np.asarray(self.failed & ~by_batch == 0)

    @property
    def best(self) -> int | None:
        """The best design by the objective, or None when nothing is feasible."""
        return self.best_of(self.failed == 0)

    def best_of(self, allowed: NDArray[np.bool_]) -> int | None:
        """The best of some designs by the objective, or None where there is none."""
        index = np.flatnonzero(allowed)
        return int(index[self.score[index].argmax()]) if len(index) else None

    def mixes_of(self, index: NDArray[np.intp]) -> Array:
        """(body, N, k, s) of designs, [4, n]: equal columns are one mix at different widths."""
        rows = (self.body, self.n_experts, self.n_active, self.n_shared)
        return np.stack([np.asarray(row[index], float) for row in rows])

    def mix(self, index: NDArray[np.intp] | Sequence[int]) -> Mixes:
        """(N, k, s) of the designs at `index`."""
        at = np.asarray(index)
        return Mixes(*(axis[at].astype(float) for axis in (self.n_experts, self.n_active, self.n_shared)))

    def baseline_index(self) -> int | None:
        """The baseline among the designs, or None where it is none of them."""
        own = self.baseline
        same = (self.body == 0) & (self.n_experts == own.n_experts) & (self.n_active == own.n_active)
        same &= (self.n_shared == np.float32(own.n_shared)) & (self.expert_width == own.expert_width)
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) else None

    def architecture(self, index: int) -> Architecture:
        """One design as an architecture that every other part of the advisor takes."""
        return design_architecture(
            self.bodies[self.body[index]].architecture,
            int(self.n_experts[index]),
            int(self.n_active[index]),
            float(self.n_shared[index]),
            int(self.expert_width[index]),
        )

    @property
    def baseline_problem(self) -> str:
        """Reason that the baseline cannot serve the question, in one sentence, empty where it can."""
        fits, asked = self.setup.memory.largest_batch, int(self.question.batches.max())
        if fits < asked:
            limit = f"at most batch {fits:,} does" if fits else "its weights alone do not"
            return f"The baseline does not fit in memory at batch {asked:,}: {limit}."
        limit_s = self.question.max_tpot_s
        slowest_s = float(self.baseline.served.tpot_s[:, 0].max())
        if limit_s is not None and slowest_s > limit_s:
            costed = (
                "Costed as designs are, by the fit instead of its own measured experts, the"
                if self.measured_gap
                else "The"
            )
            return (
                f"{costed} baseline takes {slowest_s * 1e3:.1f} ms per output token, over the limit of "
                f"{limit_s * 1e3:g} ms."
            )
        return ""

    def loss_difference(
        self, body: int, total_params: ArrayLike, active_params: ArrayLike, n_active: ArrayLike, n_shared: ArrayLike
    ) -> Array:
        """Training loss of designs of one body by the expert-mix law, minus the baseline's, broadcast. [nat]

        The body's embeddings are left out of both sizes.
        """
        architecture = self.bodies[body].architecture
        tables = (1 if architecture.tie_embeddings else 2) * architecture.vocab_size * architecture.hidden_size

        def loss(total: ArrayLike, active: ArrayLike, k: ArrayLike, s: ArrayLike) -> Array:
            count = np.asarray(k) + np.asarray(s)
            return expert_mix_loss(np.asarray(total) - tables, active, count, np.asarray(s) / count)

        own = self.baseline
        return loss(total_params, active_params, n_active, n_shared) - loss(
            own.total_params, own.active_params, own.n_active, own.n_shared
        )

    def describe(self, index: int) -> str:
        """One design in words."""
        shared = float(self.n_shared[index])
        extra = f" + {shared:g} shared" if shared else ""
        body = f", {self.bodies[self.body[index]].architecture.name}" if self.body[index] else ""
        count, active = self.n_experts[index], self.n_active[index]
        return f"{count} experts top-{active}{extra}, width {self.expert_width[index]}{body}"

    def shape_of(self, index: int) -> dict[str, float]:
        """Experts, active and shared ones, width, and sizes in parameters of one design, by name."""
        return {
            "n_experts": int(self.n_experts[index]),
            "n_active": int(self.n_active[index]),
            "n_shared": float(self.n_shared[index]),
            "expert_width": int(self.expert_width[index]),
            "total_params": float(self.total_params[index]),
            "active_params": float(self.active_params[index]),
        }

    def failed_names(self, index: int) -> list[str]:
        """Constraints that one design breaks."""
        return [name for bit, name in enumerate(CONSTRAINTS) if self.failed[index] >> bit & 1]
