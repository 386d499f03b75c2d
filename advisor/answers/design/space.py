"""Times of many designs at once by the step-cost model of a single scenario, and the space that a
search found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.answers.design.grid import (
    CONSTRAINTS,
    DesignGrid,
    Mixes,
    Question,
    Weights,
    computing_share,
    moe_shape,
    weight_bytes_each_gpu,
    weights,
)
from advisor.catalog.engines import Ran
from advisor.catalog.routing_shift import RoutingShift
from advisor.physics.acceptance import speedup
from advisor.physics.architecture import Architecture
from advisor.physics.draft import draft_architecture, draft_time
from advisor.physics.memory import USABLE_SHARE, cache_bytes_per_gpu, weight_bytes_per_gpu
from advisor.physics.quality import (
    GuardRails,
    Shape,
    activation_ratio,
    anchored_ratio,
    dense_equivalent,
    expert_mix_loss,
    granularity,
    loss_as_active_params,
    training_flops,
)
from advisor.physics.step import MoeShape, StepTime, n_layers, weights_time
from advisor.physics.touched_experts import touched_experts
from advisor.predict.curve import curve_for, step_as_run, verified_time
from advisor.predict.prefill import has_lengths, prompt_beside, step_rows, step_tokens
from advisor.predict.setup import Setup, graphs_of_steps
from advisor.prediction import Array, Floats

_LEAST_LACKING = 0.01
"""The law of losses is read to a hundredfold size and no further: an exponential of it leaves no
digits beyond. [-]"""
_CHUNK_CELLS = 50_000
"""Designs x batches evaluated together: arrays of this size stay in a core's cache."""


@dataclass(frozen=True)
class Body:
    """One attention stack and depth: a setup whose architecture gives everything but the routed
    layers."""

    setup: Setup
    drafter_bytes: float
    """Drafter weights that do not depend on the design, per GPU. [B]"""
    cache_bytes_per_sequence: float
    """Cache of one sequence on its fullest GPU, drafter included. [B]"""

    @property
    def architecture(self) -> Architecture:
        """The body's architecture, with the baseline's routed layers."""
        return self.setup.architecture


def make_body(setup: Setup, architecture: Architecture) -> Body:
    """A design of given depth and heads in a setup, with the drafter's pass that belongs to it."""
    drafter = setup.drafter
    # A draft model is a model of its own; a head or an MTP pass is cut after the model it drafts
    # for.
    per_pass = (
        setup.draft_architecture
        if drafter.kind == "draft_model" or architecture is setup.architecture
        else draft_architecture(drafter, architecture)
    )
    moved = dataclasses.replace(setup, architecture=architecture, draft_architecture=per_pass)
    context = setup.scenario.context_tokens
    kv = setup.kv_bytes_per_element
    tp = setup.placement.tensor_parallel
    cache = cache_bytes_per_gpu(architecture, tp, context, kv)
    head = 0.0
    if per_pass is not None:
        cache += cache_bytes_per_gpu(per_pass, tp, context, kv)
        if _own_layer_drafter(moved) is None:
            head = weight_bytes_per_gpu(per_pass, setup.placement)
    return Body(moved, head, cache)


def _own_layer_drafter(setup: Setup) -> Architecture | None:
    """The pass of an MTP drafter that runs one of the design's own routed layers, else None."""
    per_pass = setup.draft_architecture
    return (
        per_pass
        if setup.drafter.kind == "mtp" and per_pass is not None and per_pass.moe is not None
        else None
    )


@dataclass(frozen=True)
class Touched:
    """Distinct experts U that designs touch in a layer."""

    steps: Array
    """Experts touched by one token per sequence, then by K + 1 at each K: [1 + nK, nB, n]."""
    chunk: Array | None
    """Experts touched by a step with a chunk of a prompt, [nB, n]; None where no lengths are
    given."""


def touched_by(
    setup: Setup, mix: Mixes, routing: RoutingShift, batches: Array, drafts: NDArray[np.int64]
) -> Touched:
    """Experts that designs touch at each batch [nB] and K [nK]."""
    active = np.maximum(mix.n_active * computing_share(setup.architecture), 1.0)

    def experts(sequences: Array, tokens: Array) -> Array:
        experts = mix.n_experts
        moved = (routing.load_cv, routing.affinity, routing.stickiness)
        return touched_experts(sequences, tokens, experts, active, *moved)

    tokens = np.array([1.0, *(drafts + 1.0)])
    unique, where = np.unique(tokens, return_inverse=True)
    sequences = batches[None, :, None]
    each = unique[:, None, None]
    ran = graphs_of_steps(setup, sequences, each)
    steps = experts(sequences if ran is None else sequences * ran.padding, each)[where]
    if not has_lengths(setup):
        return Touched(steps, None)
    # The tokens of a chunk are counted as unrelated, one of as many sequences.
    return Touched(steps, experts(step_tokens(setup, batches)[0][:, None], np.asarray(1.0)))


@dataclass(frozen=True)
class Arms:
    """Plain decode step [nB, n], speculative round [nK, nB, n] and prefill of an output token [nB,
    n]. [s]"""

    plain_s: Array
    round_s: Array
    prefill_s: Array
    plain_wait_s: Array | None = None
    """Launches of a step without a captured graph beyond its device's time, below 0 where that is
    longer; 0 with a graph. Apart from the step, since only so both are affine in the width. As
    `plain_s`; None: not known. [s]"""
    round_wait_s: Array | None = None
    """The same of a round, as `round_s`. [s]"""


def arms(
    body: Body,
    mix: Mixes,
    width: Array,
    touched: Touched,
    batches: Array,
    drafts: NDArray[np.int64],
) -> Arms:
    """Times of designs (mix, width), both [n], by the formulas of `curve`."""
    setup = body.setup
    costs = body.setup.costs
    shape = moe_shape(body.architecture, mix, width)
    column = batches[:, None]
    k = drafts[:, None, None].astype(float)
    context = float(setup.scenario.context_tokens)
    one_token = np.asarray(1.0)
    q = k + 1.0
    plain_graphs = graphs_of_steps(setup, column, one_token)
    graphs = graphs_of_steps(setup, column, q)
    plain = step_as_run(setup, column, one_token, context, touched.steps[0], plain_graphs, shape)
    verify = step_as_run(setup, column, q, context, touched.steps[1:], graphs, shape)
    own_experts = _own_layer_drafter(setup) is not None
    draft = draft_time(
        setup.drafting,
        batch_size=column,
        n_draft=k,
        context_tokens=context,
        touched_one=touched.steps[0] if own_experts else 0.0,
        moe=moe_shape(body.architecture, mix, width, count=1) if own_experts else None,
    )
    host = draft.host_s(costs.host_per_draft_pass_s) + costs.round_host_s(setup.placement.gpus) * (
        k > 0
    )
    beyond = verified_time(setup, (plain, verify), column, q) * (k > 0)
    rounds = verify.total + beyond + draft.time_s(costs.launch_per_layer_s) + host
    size = (len(batches), len(mix))
    prefill = _prefill_s(body, shape, touched, batches)
    launches_s = costs.eager_per_layer_s * n_layers(body.architecture)

    def wait_s(step: StepTime, more: Floats, graphs: Ran | None) -> Floats | None:
        return (
            None
            if graphs is None
            else graphs.eager * (launches_s - step.total - more + step.components["host"])
        )

    arm_times = (
        plain.total,
        rounds,
        prefill,
        wait_s(plain, 0.0, plain_graphs),
        wait_s(verify, beyond, graphs),
    )
    shapes = (size, (len(drafts), *size), size, size, (len(drafts), *size))
    times: Any = (
        None if time is None else np.broadcast_to(time, full)
        for time, full in zip(arm_times, shapes, strict=True)
    )
    return Arms(*times)


def _prefill_s(body: Body, shape: MoeShape, touched: Touched, batches: Array) -> Array:
    """Prefill charged to each output token, [nB, n]; 0 without lengths. [s]"""
    if touched.chunk is None:
        return np.zeros((len(batches), 1))
    setup = body.setup
    column = batches[:, None]
    placement = setup.placement

    def layers_s(rows: Array, tokens: Array, touched: Array) -> Array:
        parts = weights_time(
            body.architecture, setup.costs, placement, rows, tokens, touched, shape, for_prompt=True
        )
        return np.asarray(sum(parts.values()))

    with_chunk, without = step_rows(setup, column)
    all_with, all_without = step_tokens(setup, column)
    decoding_s = (
        layers_s(without, all_without, touched.steps[0]) if without.any() else np.zeros_like(column)
    )
    return prompt_beside(
        setup, column, layers_s(with_chunk, all_with, touched.chunk), decoding_s
    ).per_token_s()


@dataclass(frozen=True)
class Served:
    """Best draft length of each design at each batch, and what it gives. All [nB, ...designs]."""

    speedup: Array
    tpot_s: Array
    """Time per output token of the batch: with lengths, every prompt's prefill is charged, a user's
    own too."""
    n_draft: NDArray[np.int16]


def carried(start: Served, by_fit: Served, designs: Served) -> Served:
    """Designs by the fit, [nB, ...], carried to the start's own figures.

    start, by_fit : the start as Serve has it and by the fit, [nB, 1]. What one is over the other
        scales every design, so that only ratios to the start are the fit's. Nothing drafts to be
        slower; where the start drafts as served and not by the fit, others draft as it does.
    """
    rows = (-1, *(1,) * (designs.tpot_s.ndim - 1))
    gains = (start.speedup / by_fit.speedup).reshape(rows)
    times = (start.tpot_s / by_fit.tpot_s).reshape(rows)
    of_start = np.where(by_fit.n_draft == 0, start.n_draft, 0).reshape(rows)
    n_draft = np.where(designs.n_draft > 0, designs.n_draft, of_start)
    gain = designs.speedup * gains
    speedups = np.where(n_draft > 0, np.maximum(gain, 1.0), 1.0)
    tpot_s = designs.tpot_s * times * (gain / speedups)
    return Served(speedups, tpot_s, np.where(speedups > 1.0, n_draft, 0).astype(np.int16))


def served(setup: Setup, both: Arms, drafts: NDArray[np.int64]) -> Served:
    """Speculation at the K with the highest speedup, or plain decode (K = 0) where none exceeds
    1."""
    prefill = both.prefill_s
    lengths = setup.acceptance.accepted_length
    plain_s = (
        both.plain_s
        if both.plain_wait_s is None
        else both.plain_s + np.maximum(both.plain_wait_s, 0.0)
    )
    best = np.ones_like(plain_s)
    chosen = np.zeros(plain_s.shape, np.int16)
    for index, k in enumerate(drafts):
        round_s = both.round_s[index]
        if both.round_wait_s is not None:
            round_s = round_s + np.maximum(both.round_wait_s[index], 0.0)
        gain = speedup(lengths[k], plain_s, round_s, prefill)
        better = gain > best
        np.copyto(best, gain, where=better)
        np.copyto(chosen, np.int16(k), where=better)
    return Served(best, (plain_s + prefill) / best, chosen)


def over_widths(
    body: Body,
    mix: Mixes,
    width: Array,
    touched: Touched,
    batches: Array,
    drafts: NDArray[np.int64],
) -> Iterator[tuple[slice, Served]]:
    """Serve every mix at every width, in blocks of mixes.

    Yields (block, `served` of it [nB, block, nW]).

    A step's time is affine in the expert width: routed weights, operations and activations are
    proportional to it, and so are both sides of a shared expert's roofline. Two calls of the
    step-cost model therefore give all widths exactly.
    """
    # A lone width still needs a second point for its line.
    ends = np.array([width.min(), max(width.max(), width.min() + 1.0)])
    low = arms(body, mix, np.full(len(mix), float(ends[0])), touched, batches, drafts)
    high = arms(body, mix, np.full(len(mix), float(ends[1])), touched, batches, drafts)
    share = (width - ends[0]) / (ends[1] - ends[0])
    names = [item.name for item in dataclasses.fields(Arms)]
    times = tuple((getattr(low, name), getattr(high, name)) for name in names)
    size = max(1, _CHUNK_CELLS // (len(width) * len(batches)))
    for start in range(0, len(mix), size):
        block = slice(start, min(start + size, len(mix)))
        between: Any = (
            None
            if at_low is None
            else at_low[..., block, None] + (at_high - at_low)[..., block, None] * share
            for at_low, at_high in times
        )
        yield block, served(body.setup, Arms(*between), drafts)


@dataclass(frozen=True)
class Sizes:
    """Parameters and memory of designs, broadcast over (mix, width)."""

    weights: Weights
    bytes_each_gpu: Array
    """Weights and drafter on one GPU. [B]"""
    largest_batch: Array
    """Sequences whose cache fits beside them, over the whole instance; 0 where the weights alone do
    not fit. [-]"""
    usable_bytes: float


def sizes(body: Body, mix: Mixes, width: Array, memory_limit_bytes: float | None = None) -> Sizes:
    """Parameters and memory. `mix` entries and `width` broadcast: give mixes as columns for a table
    of widths."""
    setup = body.setup
    shape = moe_shape(body.architecture, mix, width)
    resident = weight_bytes_each_gpu(body.architecture, shape, setup.placement) + body.drafter_bytes
    if (per_pass := _own_layer_drafter(setup)) is not None:
        layer = moe_shape(body.architecture, mix, width, count=1)
        resident = resident + weight_bytes_each_gpu(per_pass, layer, setup.placement)
    usable = USABLE_SHARE * setup.hardware.memory_bytes.value
    if memory_limit_bytes is not None:
        usable = min(usable, memory_limit_bytes)
    groups = setup.placement.attention_groups
    fit = np.floor(np.maximum(usable - resident, 0.0) / body.cache_bytes_per_sequence) * groups
    return Sizes(weights(body.architecture, shape), resident, fit, usable)


def quality_of(body: Body, mix: Mixes, width: Array, active: Array, question: Question) -> Array:
    """Dense-equivalent size of designs by the default law, broadcast over mix and width.
    [parameters]"""
    hidden = body.architecture.hidden_size
    return dense_equivalent(
        active,
        activation_ratio(*mix.counts),
        granularity(hidden, width),
        training_flops(active, question.training_tokens),
    )


def law_ratios(
    body: Body, own: Baseline, mix: Mixes, width: Array, size: Weights, question: Question
) -> Array:
    """Size of designs over the baseline's by each law of `candidates.LAW_NAMES`, [laws, ...mix and
    width]. [-]

    The law of losses counts without embeddings; its difference is read as the active parameters
    that make up for it.
    """
    architecture = body.architecture
    tables = (
        (1 if architecture.tie_embeddings else 2)
        * architecture.vocab_size
        * architecture.hidden_size
    )

    def loss(total: ArrayLike, active: ArrayLike, k: ArrayLike, s: ArrayLike) -> Array:
        count = np.asarray(k) + np.asarray(s)
        return expert_mix_loss(np.asarray(total) - tables, active, count, np.asarray(s) / count)

    activation = activation_ratio(*mix.counts)
    behind = loss(size.total, size.active, mix.n_active, mix.n_shared) - loss(
        own.total_params, own.active_params, own.n_active, own.n_shared
    )
    return np.stack(
        np.broadcast_arrays(
            quality_of(body, mix, width, size.active, question) / own.dense_equivalent,
            anchored_ratio(size.active, activation, own.active_params, own.activation),
            1.0
            / np.maximum(
                1.0 + loss_as_active_params(behind, own.total_params, own.active_params),
                _LEAST_LACKING,
            ),
        )
    )


def measured_gap(measured: Setup, by_fit: Setup, batches: Array) -> float | None:
    """The start's plain step by measured rows over the fit's, less 1, at the batch where they
    differ most. None where its shape was not measured. [-]"""
    if measured.costs.routed.measured is None:
        return None
    steps_s = [curve_for(setup, batches, [0]).plain_step_s for setup in (measured, by_fit)]
    gaps = steps_s[0] / steps_s[1] - 1.0
    return float(gaps[np.argmax(np.abs(gaps))])


MAX_MEASURED_GAP = 0.10
"""A baseline further than this from the fitted form is not held against unmeasured designs: gains
of designs worth naming are of that size. [-]"""


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
    """Baseline at each batch as Serve has it, by measured rows where there are any, [nB, 1]."""
    by_fit: Served
    """Baseline by the fit that costs all designs, at the K that is best there, [nB, 1]."""
    score: float

    @property
    def counts(self) -> tuple[float, float, float]:
        """(N, k, s)."""
        return float(self.n_experts), float(self.n_active), self.n_shared


@dataclass(frozen=True)
class DesignSpace:
    """All designs, flat: entry i of every array is one design. Sizes in parameters, times in
    seconds."""

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
    quality: NDArray[np.float32]
    """Size by each law over the baseline's, in the order of `candidates.LAW_NAMES`, [laws,
    designs]. [-]"""
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
    measured_setup: Setup
    """The scenario by its measured rows, as Serve has it."""
    gap: float | None = None
    """`measured_gap` of the baseline."""

    @property
    def measured_gap(self) -> float:
        """Baseline step by measured rows over the fit's, less 1. [-]

        0 where it was not measured.
        """
        return self.gap or 0.0

    def __len__(self) -> int:
        return len(self.body)

    @property
    def candidates(self) -> NDArray[np.intp]:
        """Designs at equal quality within every limit, of all widths, best first."""
        index = np.flatnonzero(self.failed == 0)
        return index[np.argsort(-self.score[index], kind="stable")]

    def width_ends(self, allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Designs among some that can be the best by the objective at some batch, rising.

        Of each (body, N, k, s) the narrowest, and for the speculative speedup the widest too. At a
        fixed K times are affine in the width and grow with it, and a speedup is the ratio of two
        such times.
        """
        index = np.flatnonzero(allowed)
        mixes = self.mixes_of(index)
        moved = np.any(mixes[:, 1:] != mixes[:, :-1], axis=0)
        edge = np.concatenate([[True], moved])[: len(index)]
        if self.question.objective == "sd_speedup":
            edge = edge | np.concatenate([moved, [True]])[: len(index)]
        return index[edge]

    def keeps_apart_from(self, *names: str) -> NDArray[np.bool_]:
        """Designs that keep every constraint but these, whether they keep these or not.
        [designs]"""
        others = np.uint16(sum(1 << CONSTRAINTS.index(name) for name in names))
        return np.asarray(self.failed & ~others == 0)

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
        return Mixes(
            *(axis[at].astype(float) for axis in (self.n_experts, self.n_active, self.n_shared))
        )

    def baseline_index(self) -> int | None:
        """The baseline among the designs, or None where it is none of them."""
        baseline = self.baseline
        same = (
            (self.body == 0)
            & (self.n_experts == baseline.n_experts)
            & (self.n_active == baseline.n_active)
        )
        same &= (self.n_shared == np.float32(baseline.n_shared)) & (
            self.expert_width == baseline.expert_width
        )
        indices = np.flatnonzero(same)
        return int(indices[0]) if len(indices) else None

    @property
    def baseline_problem(self) -> Literal["memory", "tpot"] | None:
        """The limit that the baseline misses. None where it can serve the question."""
        if self.setup.memory.largest_batch < self.question.batches.max():
            return "memory"
        limit_s = self.question.max_tpot_s
        if limit_s is not None and self.baseline.served.tpot_s.max() > limit_s:
            return "tpot"
        return None

    def body_name(self, index: int) -> str | None:
        """Name of a design's depth and heads. None for the baseline's."""
        body = self.body[index]
        return self.bodies[body].architecture.name if body else None

    def failed_names(self, index: int) -> list[str]:
        """Constraints that one design breaks."""
        return [name for bit, name in enumerate(CONSTRAINTS) if self.failed[index] >> bit & 1]
