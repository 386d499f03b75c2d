"""Times of many designs at once, through the same step-cost, routing and speedup functions as a single scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.architecture import Architecture
from advisor.arrays import Array
from advisor.curve import curve_for, verified_time
from advisor.design.grid import Mixes, Weights, computing_share, moe_shape, weight_bytes_each_gpu, weights
from advisor.design.question import Question
from advisor.design.routing_shift import RoutingShift
from advisor.draft_cost import draft_architecture, draft_time
from advisor.memory import USABLE_SHARE, cache_bytes_per_gpu, weight_bytes_per_gpu
from advisor.prefill import has_lengths, prompt_cost, step_rows
from advisor.quality import activation_ratio, dense_equivalent, granularity, training_flops
from advisor.routing import touched_experts
from advisor.setup import Setup
from advisor.speedup import speedup
from advisor.step_cost import MoeShape, StepTime, step_time, weights_time

_CHUNK_CELLS = 50_000
"""Designs x batches evaluated together: arrays of this size stay in a core's cache."""


@dataclass(frozen=True)
class Body:
    """One attention stack and depth: a setup whose architecture gives everything but the routed layers."""

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
    # A draft model is a model of its own; a head or an MTP pass is cut after the model it drafts for.
    per_pass = (
        setup.draft_architecture
        if drafter.kind == "draft_model" or architecture is setup.architecture
        else draft_architecture(drafter, architecture)
    )
    moved = dataclasses.replace(setup, architecture=architecture, draft_architecture=per_pass)
    context, kv = setup.scenario.context_tokens, setup.kv_bytes_per_element
    tp = setup.placement.tensor_parallel
    cache = cache_bytes_per_gpu(architecture, tp, context, kv)
    head = 0.0
    if per_pass is not None:
        cache += cache_bytes_per_gpu(per_pass, tp, context, kv)
        if not _drafts_with_experts(moved):
            head = weight_bytes_per_gpu(per_pass, setup.placement)
    return Body(moved, head, cache)


def _drafts_with_experts(setup: Setup) -> bool:
    """MTP passes run one of the design's own routed layers."""
    per_pass = setup.draft_architecture
    return setup.drafter.kind == "mtp" and per_pass is not None and per_pass.moe is not None


@dataclass(frozen=True)
class Touched:
    """Distinct experts U that designs touch in a layer."""

    steps: Array
    """Experts touched by one token per sequence, then by K + 1 at each K: [1 + nK, nB, n]."""
    chunk: Array | None
    """Experts touched by a step with a chunk of a prompt, [nB, n]; None where no lengths are given."""


def touched_by(setup: Setup, mix: Mixes, routing: RoutingShift, batches: Array, drafts: NDArray[np.int64]) -> Touched:
    """Experts that designs touch at each batch [nB] and K [nK]."""
    active = np.maximum(mix.n_active * computing_share(setup.architecture), 1.0)

    def experts(sequences: Array, tokens: Array) -> Array:
        experts, moved = mix.n_experts, (routing.load_cv, routing.affinity, routing.stickiness)
        return touched_experts(sequences, tokens, experts, active, *moved)

    tokens = np.array([1.0, *(drafts + 1.0)])
    unique, where = np.unique(tokens, return_inverse=True)
    steps = experts(batches[None, :, None], unique[:, None, None])[where]
    if not has_lengths(setup):
        return Touched(steps, None)
    # The tokens of a chunk are counted as unrelated, one of as many sequences.
    rows = step_rows(setup, batches)[0][:, None] * setup.placement.attention_groups
    return Touched(steps, experts(rows, np.asarray(1.0)))


@dataclass(frozen=True)
class Arms:
    """Both arms of a comparison: plain decode step [nB, n] and speculative round [nK, nB, n]. [s]

    With them the prefill that each output token pays, [nB, n] [s].
    """

    plain_s: Array
    round_s: Array
    prefill_s: Array


def arms(body: Body, mix: Mixes, width: Array, touched: Touched, batches: Array, drafts: NDArray[np.int64]) -> Arms:
    """Times of designs (mix, width), both [n], by the formulas of `curve`."""
    setup = body.setup
    shape = moe_shape(body.architecture, mix, width)
    context = float(setup.scenario.context_tokens)
    column, k = batches[:, None], drafts[:, None, None].astype(float)
    kv = setup.kv_bytes_per_element

    def one_pass(tokens: Array, touched: Array) -> StepTime:
        return step_time(
            body.architecture,
            setup.costs,
            setup.placement,
            batch_size=column,
            tokens_per_sequence=tokens,
            context_tokens=context,
            touched=touched,
            kv_bytes_per_element=kv,
            moe=shape,
        )

    own_experts = _drafts_with_experts(setup)
    draft = draft_time(
        setup.drafter,
        setup.draft_architecture,
        setup.draft_costs,
        setup.placement,
        batch_size=column,
        n_draft=k,
        context_tokens=context,
        touched_one=touched.steps[0] if own_experts else 0.0,
        kv_bytes_per_element=kv,
        moe=moe_shape(body.architecture, mix, width, count=1) if own_experts else None,
    )
    costs = setup.costs
    host = draft.host_s(costs.host_per_draft_pass_s) + costs.host_per_round_s * (k > 0)
    plain = one_pass(np.asarray(1.0), touched.steps[0])
    verify = one_pass(k + 1.0, touched.steps[1:])
    beyond = verified_time(setup, (plain, verify), column, k + 1.0) * (k > 0)
    rounds = verify.total + beyond + draft.time_s(costs.launch_per_layer_s) + host
    size = (len(batches), len(mix))
    prefill = _prefill_s(body, shape, touched, batches)
    return Arms(
        *(
            np.broadcast_to(time, full)
            for time, full in ((plain.total, size), (rounds, (len(drafts), *size)), (prefill, size))
        )
    )


def _prefill_s(body: Body, shape: MoeShape, touched: Touched, batches: Array) -> Array:
    """Prefill charged to each output token, [nB, n]; 0 without lengths. [s]"""
    if touched.chunk is None:
        return np.zeros((len(batches), 1))
    setup, column = body.setup, batches[:, None]
    placement = setup.placement

    def layers_s(rows: Array, touched: Array) -> Array:
        tokens = rows * placement.attention_groups
        parts = weights_time(body.architecture, setup.costs, placement, rows, tokens, touched, shape, for_prompt=True)
        return np.asarray(sum(parts.values()))

    with_chunk, without = step_rows(setup, column)
    decoding_s = layers_s(without, touched.steps[0]) if without.any() else np.zeros_like(column)
    prompt = prompt_cost(setup, column, (layers_s(with_chunk, touched.chunk), decoding_s))
    assert prompt is not None
    return prompt.per_token_s()


@dataclass(frozen=True)
class Served:
    """Best draft length of each design at each batch, and what it gives. All [nB, ...designs]."""

    speedup: Array
    tpot_s: Array
    """Time per output token of the batch: with lengths, every prompt's prefill is charged, a user's own too."""
    n_draft: NDArray[np.int16]


def served(setup: Setup, both: Arms, drafts: NDArray[np.int64]) -> Served:
    """Speculation at the K with the highest speedup, or plain decode (K = 0) where none exceeds 1."""
    prefill, lengths = both.prefill_s, setup.acceptance.accepted_length
    best, chosen = np.ones_like(both.plain_s), np.zeros(both.plain_s.shape, np.int16)
    for index, k in enumerate(drafts):
        gain = speedup(lengths[k], both.plain_s, both.round_s[index], prefill)
        better = gain > best
        np.copyto(best, gain, where=better)
        np.copyto(chosen, np.int16(k), where=better)
    return Served(best, (both.plain_s + prefill) / best, chosen)


def over_widths(
    body: Body, mix: Mixes, width: Array, touched: Touched, batches: Array, drafts: NDArray[np.int64]
) -> Iterator[tuple[slice, Served]]:
    """Serve every mix at every width, in blocks of mixes.

    Yields (block, `served` of it [nB, block, nW]).

    A step's time is affine in the expert width: routed weights, operations and activations are proportional to it,
    and so are both sides of a shared expert's roofline. Two calls of the step-cost model therefore give all widths
    exactly.
    """
    # A lone width still needs a second point for its line.
    ends = np.array([width.min(), max(width.max(), width.min() + 1.0)])
    low, high = (
        arms(body, mix, np.full(len(mix), end), touched, batches, drafts) for end in (float(ends[0]), float(ends[1]))
    )
    share = (width - ends[0]) / (ends[1] - ends[0])
    times = tuple((getattr(low, name), getattr(high, name)) for name in ("plain_s", "round_s", "prefill_s"))
    size = max(1, _CHUNK_CELLS // (len(width) * len(batches)))
    for start in range(0, len(mix), size):
        block = slice(start, min(start + size, len(mix)))
        between = (at_low[..., block, None] + (at_high - at_low)[..., block, None] * share for at_low, at_high in times)
        yield block, served(body.setup, Arms(*between), drafts)


@dataclass(frozen=True)
class Sizes:
    """Parameters and memory of designs, broadcast over (mix, width)."""

    weights: Weights
    bytes_each_gpu: Array
    """Weights and drafter on one GPU. [B]"""
    largest_batch: Array
    """Sequences whose cache fits beside them, over the whole instance; 0 where the weights alone do not fit. [-]"""
    usable_bytes: float


def sizes(body: Body, mix: Mixes, width: Array, memory_limit_bytes: float | None = None) -> Sizes:
    """Parameters and memory. `mix` entries and `width` broadcast: give mixes as columns for a table of widths."""
    setup = body.setup
    shape = moe_shape(body.architecture, mix, width)
    resident = weight_bytes_each_gpu(body.architecture, shape, setup.placement) + body.drafter_bytes
    if _drafts_with_experts(setup):
        per_pass = setup.draft_architecture
        assert per_pass is not None
        layer = moe_shape(body.architecture, mix, width, count=1)
        resident = resident + weight_bytes_each_gpu(per_pass, layer, setup.placement)
    usable = USABLE_SHARE * setup.hardware.memory_bytes.value
    if memory_limit_bytes is not None:
        usable = min(usable, memory_limit_bytes)
    groups = setup.placement.attention_groups
    fit = np.floor(np.maximum(usable - resident, 0.0) / body.cache_bytes_per_sequence) * groups
    return Sizes(weights(body.architecture, shape), resident, fit, usable)


def quality_of(body: Body, mix: Mixes, width: Array, active: Array, question: Question) -> Array:
    """Dense-equivalent size of designs by the default law, broadcast over mix and width. [parameters]"""
    hidden = body.architecture.hidden_size
    return dense_equivalent(
        active,
        activation_ratio(mix.n_experts, mix.n_active, mix.n_shared),
        granularity(hidden, width),
        training_flops(active, question.training_tokens),
    )


def measured_gap(given: Setup, by_fit: Setup, question: Question, served: Served) -> tuple[float, float | None, str]:
    """Plain step by measured rows over the fit's, less 1, where they differ most. [-]

    With it the time per output token by those rows [s], and both speeds in one sentence.

    `served` is the baseline by the fit, [nB, 1]. (0, None, "") where the baseline's shape was not measured.
    """
    if given.costs.routed.measured is None:
        return 0.0, None, ""
    drafts = np.unique([0, *served.n_draft[:, 0]])
    own = curve_for(given, question.batches, drafts)
    gaps = own.plain_step_s / curve_for(by_fit, question.batches, [0]).plain_step_s - 1.0
    rows, columns = np.arange(len(question.batches)), np.searchsorted(drafts, served.n_draft[:, 0])
    measured = own.speedup[rows, columns], own.tpot_s[rows, columns]
    fitted = served.speedup[:, 0], served.tpot_s[:, 0]
    (speedup, tpot_ms), (fit_speedup, fit_tpot_ms) = (
        (question.mean_speedup(*each), question.mean_tpot_s(each[1]) * 1e3) for each in (measured, fitted)
    )
    lengths = [str(k) for k in dict.fromkeys(served.n_draft[:, 0].tolist())]
    k = f"K = {lengths[0]}" if len(lengths) == 1 else f"K = {', '.join(lengths)} by batch"
    note = (
        f"Designs are compared by the fitted kernels; so costed, the baseline has {fit_speedup:.2f}x and "
        f"{fit_tpot_ms:.2f} ms at {k}, the fastest by the fit. Its own measured rows, used elsewhere, give "
        f"{speedup:.2f}x and {tpot_ms:.2f} ms there."
    )
    return float(gaps[np.argmax(np.abs(gaps))]), tpot_ms / 1e3, note
