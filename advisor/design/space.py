"""design_space(): every design of a grid, costed, held to the baseline's quality, and ranked by one objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.architecture import Architecture, parameter_counts
from advisor.arrays import Array
from advisor.design.evaluate import (
    Body,
    Served,
    Sizes,
    Touched,
    arms,
    make_body,
    measured_gap,
    over_widths,
    quality_of,
    served,
    sizes,
    touched_by,
)
from advisor.design.grid import (
    MAX_DESIGNS,
    DesignGrid,
    Mixes,
    bodies,
    design_architecture,
    mixes,
    shared_experts,
    widths,
)
from advisor.design.question import CONSTRAINTS, TARGET_SHARE, Limits, Objective, Question, make_question
from advisor.design.routing_shift import shifted_routing
from advisor.prediction import AdvisorError
from advisor.quality import (
    DEFAULT_EPS,
    GuardRails,
    Shape,
    activation_ratio,
    expert_mix_loss,
    granularity,
)
from advisor.scenario import Scenario
from advisor.setup import Setup, by_form, load_setup

_MAX_CELLS = 400_000_000
"""Designs times batches times draft lengths of one search: 20 s on one Xeon core in November 2026 (40 to 50 ns each,
1.7 to 3.1 million designs and batches at eight lengths), so that it ends within a minute beside another. [1]"""
MAX_MEASURED_GAP = 0.10
"""A baseline further than this from the fitted form is not held against unmeasured designs: gains of designs worth
naming are of that size. [1]"""


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
    """[nB, 1]"""
    score: float

    @property
    def counts(self) -> tuple[float, float, float]:
        """(N, k, s)."""
        return float(self.n_experts), float(self.n_active), self.n_shared

    @property
    def words(self) -> str:
        """Its experts as `DesignSpace.describe` words a design's."""
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
    """Sum over constraints of how far a design lies beyond them, natural logs. [1]"""
    speedup: NDArray[np.float32]
    """[nB, designs], at the best K."""
    tpot_s: NDArray[np.float32]
    k_draft: NDArray[np.int16]
    score: Array
    """The objective, higher is better."""
    measured_gap: float = 0.0
    """Plain step of the baseline by its own measured rows over the one by the fitted form that designs are compared by,
    less 1, at the target batch where they differ most; 0 where its shape was not measured. [1]"""
    measured_note: str = ""
    """What the baseline does by its own measured rows and by the form; empty where its shape was not measured."""

    def __len__(self) -> int:
        return len(self.body)

    @property
    def candidates(self) -> NDArray[np.intp]:
        """Designs at equal quality within every limit, of all widths, best first."""
        index = np.flatnonzero(self.failed == 0)
        return index[np.argsort(-self.score[index], kind="stable")]

    @property
    def contenders(self) -> NDArray[np.intp]:
        """The candidates that can be the best by the objective at some batch, rising: of each (body, N, k, s) the
        narrowest, and for the speculative speedup the widest too.

        At a fixed K times are affine in the width and grow with it, and a speedup is the ratio of two such times.
        """
        index = np.flatnonzero(self.failed == 0)
        mixes = self.mixes_of(index)
        moved = np.any(mixes[:, 1:] != mixes[:, :-1], axis=0)
        edge = np.concatenate([[True], moved])[: len(index)]
        if self.question.objective == "sd_speedup":
            edge = edge | np.concatenate([moved, [True]])[: len(index)]
        return index[edge]

    @property
    def best(self) -> int | None:
        """The best design by the objective; None when nothing is feasible."""
        return self.best_of(self.failed == 0)

    def best_of(self, allowed: NDArray[np.bool_]) -> int | None:
        """The best of some designs by the objective; None where there is none."""
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
        """Why the baseline itself cannot serve the question, in one sentence; empty where it can."""
        fits, asked = self.setup.memory.largest_batch, int(self.question.batches.max())
        if fits < asked:
            limit = f"at most batch {fits:,} does" if fits else "its weights alone do not"
            return f"The baseline does not fit in memory at batch {asked:,}: {limit}."
        limit_s = self.question.max_tpot_s
        if limit_s is not None and self.baseline.served.tpot_s[:, 0].max() > limit_s:
            return f"The baseline misses the limit of {limit_s * 1e3:g} ms per output token."
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

    def failed_names(self, index: int) -> list[str]:
        """Constraints that one design breaks."""
        return [name for bit, name in enumerate(CONSTRAINTS) if self.failed[index] >> bit & 1]


def design_space(
    scenario: Scenario | Setup,
    *,
    objective: Objective = "tpot",
    quality_eps: float = DEFAULT_EPS,
    training_tokens: float | None = None,
    batches: Sequence[int] | Mapping[int, float] | None = None,
    grid: DesignGrid | None = None,
    price_usd_per_hour: float | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
    **limits: float | None,
) -> DesignSpace:
    """Cost every design of a grid around the scenario's model and rank those that keep its quality.

    Parameters
    ----------
    scenario : baseline model, accelerator, placement, drafter, acceptance; or a Setup.
    objective : what to rank by. The speculative speedup favours slow designs, whose plain step leaves the most to gain.
    quality_eps : share of dense-equivalent size a candidate may lose. [1]
    training_tokens : D, equal for all designs; None: the law at the upper end of its compute range. [tokens]
    batches : one or several batch sizes, equally weighted, or {batch: share of the tokens generated at it}.
        Default: the scenario's batch.
    grid : numbers of experts, widths, depths to combine.
    price_usd_per_hour : of one GPU; default the accelerator profile's, for the cost objective. [USD/h]
    limits : the fields of `Limits`: sizes, memory, time per token, training cost, target sizes.
    on_progress : gets the share of bodies (depths and heads) done, before each; it may raise to end the search. [1]

    Raises
    ------
    AdvisorError for a dense baseline, a search too large, a limit that is not positive, or a cost without a price.
    """
    given = scenario if isinstance(scenario, Setup) else load_setup(scenario)
    setup = by_form(given)
    moe = setup.architecture.moe
    if moe is None:
        raise AdvisorError(f"{setup.architecture.name} is dense; give a mixture-of-experts model as the baseline")
    question = make_question(
        setup, objective, quality_eps, training_tokens, batches, Limits(**limits), price_usd_per_hour
    )
    grid = grid or DesignGrid()
    stacks = tuple(make_body(setup, body) for body in bodies(grid, setup.architecture))
    drafts = np.arange(1, (setup.scenario.k_max if setup.drafter.kind != "none" else 0) + 1)
    baseline = _baseline(stacks[0], question, drafts)
    rails, notes = GuardRails().relaxed_to(baseline.shape)
    mix = mixes(grid, moe, setup.placement)
    steps = [widths(grid, stack.architecture, setup.placement) for stack in stacks]
    n_designs = len(mix) * sum(map(len, steps))
    n_cells = n_designs * len(question.batches) * len(drafts)
    if n_designs > MAX_DESIGNS or n_cells > _MAX_CELLS:
        raise AdvisorError(
            f"{n_designs:,} designs at {len(question.batches)} batches and {len(drafts)} draft lengths are too many "
            f"for one search (at most {MAX_DESIGNS:,} designs, {_MAX_CELLS:,} combinations); thin grid or batches"
        )
    routing = shifted_routing(setup.routing, baseline.counts, mix.n_experts, mix.n_active, mix.n_shared)
    touched = touched_by(setup, mix, routing, question.batches, drafts)
    parts = []
    for index, (stack, width) in enumerate(zip(stacks, steps, strict=True)):
        on_progress(index / len(stacks))
        parts.append(_evaluate(index, stack, mix, width, touched, question, baseline, rails, drafts))
    joined = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    if training_tokens is None:
        notes = (*notes, "Training tokens not given: the quality law is evaluated at its largest compute, 1e22 FLOP.")
    gap, note = measured_gap(given, setup, question, baseline.served)
    return DesignSpace(
        setup, question, grid, stacks, baseline, rails, (*notes, note) if note else notes, drafts, **joined,
        measured_gap=gap, measured_note=note,
    )  # fmt: skip


def _evaluate(
    index: int,
    body: Body,
    mix: Mixes,
    width: Array,
    touched: Touched,
    question: Question,
    baseline: Baseline,
    rails: GuardRails,
    drafts: NDArray[np.int64],
) -> dict[str, NDArray]:
    """All designs of one body: [n mixes x n widths], flattened."""
    column = Mixes(mix.n_experts[:, None], mix.n_active[:, None], mix.n_shared[:, None])
    size = sizes(body, column, width, question.memory_limit_bytes)
    active, total = size.weights.active, size.weights.total
    quality = quality_of(body, column, width, active, question)
    broken, violation = _broken(body, column, width, size, quality, question, baseline, rails)
    n_batches, gpus = len(question.batches), body.setup.placement.gpus
    speedup, tpot = (np.empty((n_batches, *active.shape), np.float32) for _ in range(2))
    k_draft, score = np.empty((n_batches, *active.shape), np.int16), np.empty(active.shape)
    for block, found in over_widths(body, mix, width, touched, question.batches, drafts):
        speedup[:, block], tpot[:, block], k_draft[:, block] = found.speedup, found.tpot_s, found.k_draft
        score[block] = question.score(gpus, found.speedup, found.tpot_s)
    if question.max_tpot_s is not None:
        over = tpot.max(axis=0) / question.max_tpot_s
        broken |= (over > 1.0).astype(np.uint16) << CONSTRAINTS.index("tpot")
        violation += np.log(np.maximum(over, 1.0))
    shape = active.shape
    spread = {
        "body": np.full(shape, index, np.int8),
        "n_experts": np.broadcast_to(column.n_experts.astype(np.int32), shape),
        "n_active": np.broadcast_to(column.n_active.astype(np.int32), shape),
        "n_shared": np.broadcast_to(column.n_shared.astype(np.float32), shape),
        "expert_width": np.broadcast_to(width.astype(np.int32), shape),
        "total_params": total,
        "active_params": active,
        "dense_equivalent": quality,
        "largest_batch": np.broadcast_to(size.largest_batch.astype(np.float32), shape),
        "failed": broken,
        "violation": violation,
        "score": score,
    }
    flat = {name: np.ascontiguousarray(values).reshape(-1) for name, values in spread.items()}
    by_batch = {"speedup": speedup, "tpot_s": tpot, "k_draft": k_draft}
    return flat | {name: values.reshape(n_batches, -1) for name, values in by_batch.items()}


def _broken(
    body: Body,
    mix: Mixes,
    width: Array,
    size: Sizes,
    quality: Array,
    question: Question,
    baseline: Baseline,
    rails: GuardRails,
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Bits of the constraints each design breaks, and the sum of how far. [n, nW] each."""
    shape = Shape(
        activation_ratio(mix.n_experts, mix.n_active, mix.n_shared),
        granularity(body.architecture.hidden_size, width),
        size.weights.attention / size.weights.active,
        mix.shared_share,
        mix.n_active,
    )
    beyond = rails.violations(shape)
    floor = (1.0 - question.quality_eps) * baseline.dense_equivalent
    beyond["quality"] = np.log(np.maximum(floor / quality, 1.0))
    if question.max_total_params is not None:
        beyond["total_params"] = np.log(np.maximum(size.weights.total / question.max_total_params, 1.0))
    if question.max_training_cost is not None:
        cost = size.weights.active / baseline.active_params
        beyond["training_cost"] = np.log(np.maximum(cost / question.max_training_cost, 1.0))
    for name, value, target in (
        ("total_target", size.weights.total, question.target_total_params),
        ("active_target", size.weights.active, question.target_active_params),
    ):
        if target is not None:
            off = np.abs(np.log(value / target)) - np.log1p(TARGET_SHARE)
            beyond[name] = np.maximum(off, 0.0)
    groups = body.setup.placement.attention_groups
    need = size.bytes_each_gpu + body.cache_bytes_per_sequence * question.batches.max() / groups
    beyond["memory"] = np.log(np.maximum(need / size.usable_bytes, 1.0))
    bits = np.zeros(quality.shape, np.uint16)
    total = np.zeros(quality.shape, np.float32)
    for name, excess in beyond.items():
        bits |= (excess > 0).astype(np.uint16) << CONSTRAINTS.index(name)
        total += excess.astype(np.float32)
    return bits, total


def _baseline(body: Body, question: Question, drafts: NDArray[np.int64]) -> Baseline:
    setup, moe = body.setup, body.architecture.moe
    assert moe is not None
    shared = shared_experts(moe)
    mix = Mixes(*(np.array([float(x)]) for x in (moe.n_experts, moe.n_active, shared)))
    width = np.array([float(moe.expert_width)])
    counts = parameter_counts(body.architecture)
    active = np.array([counts.active_nonembedding])
    routing = shifted_routing(
        setup.routing, (moe.n_experts, moe.n_active, shared), mix.n_experts, mix.n_active, mix.n_shared
    )
    touched = touched_by(setup, mix, routing, question.batches, drafts)
    found = served(setup, arms(body, mix, width, touched, question.batches, drafts), drafts)
    activation = activation_ratio(mix.n_experts, mix.n_active, mix.n_shared)
    shape = Shape(
        activation,
        granularity(body.architecture.hidden_size, width),
        np.array([counts.attention / counts.active_nonembedding]),
        mix.shared_share,
        mix.n_active,
    )
    return Baseline(
        n_experts=moe.n_experts,
        n_active=moe.n_active,
        n_shared=shared,
        expert_width=moe.expert_width,
        total_params=float(counts.total),
        active_params=float(counts.active_nonembedding),
        activation=float(activation[0]),
        dense_equivalent=float(quality_of(body, mix, width, active, question)[0]),
        shape=Shape(*(np.asarray(x).reshape(()) for x in vars(shape).values())),
        served=found,
        score=float(question.score(setup.placement.gpus, found.speedup, found.tpot_s)[0]),
    )
