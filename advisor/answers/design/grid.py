"""What is asked of a design space, and the designs to search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from advisor.physics import laws
from advisor.physics.architecture import (
    BYTES_PER_WEIGHT,
    Architecture,
    Mixer,
    Moe,
    effective_n_active,
    parameter_counts,
)
from advisor.physics.memory import weight_bytes_per_gpu
from advisor.physics.quality import DEFAULT_EPS, GRANULARITY_RANGE
from advisor.physics.step import MoeShape, Placement
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array, Frozen

MAX_BATCHES = 32
"""Batches of one question: each costs as much time and memory as the whole search at one."""
Objective = Literal["tpot", "tokens_per_s_per_gpu", "cost_per_million_tokens", "sd_speedup"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""The first is the default."""
CONSTRAINTS = (
    *("quality", "activation", "granularity", "attention_share", "shared_share", "n_active"),
    *("total_params", "memory", "tpot", "training_cost", "total_target", "active_target"),
)
"""Bit i of `DesignSpace.failed` is constraint i."""
TARGET_SHARE = 0.05
"""Choice of this project: how far a design's size may lie from a target size. [-]"""


@dataclass(frozen=True)
class Question:
    """A question to the design space, checked and with defaults filled in."""

    objective: Objective
    batches: Array
    batch_weights: Array
    """Share of the tokens generated at each batch; they add up to 1."""
    quality_eps: float
    training_tokens: float | None
    max_tpot_s: float | None
    """Time per output token that no batch may exceed. [s]"""
    price_usd_per_hour: float | None
    """Price of a GPU, where costs are ranked. [USD/h]"""
    max_total_params: float | None = None
    max_memory_bytes: float | None = None
    """Memory an engine may use per GPU. [B]"""
    max_training_cost: float | None = None
    """Training compute at equal tokens over the baseline's. [-]"""
    target_total_params: float | None = None
    """Total size to be kept within TARGET_SHARE."""
    target_active_params: float | None = None
    """Active size, without embeddings, to be kept within TARGET_SHARE."""

    def score(self, gpus: int, speedup: Array, tpot_s: Array) -> Array:
        """The objective over the batches (first axis), higher is better. [...designs]

        Times are averaged over tokens.

        sd_speedup: mean plain time per token over the mean speculative one. tpot: 1 / mean time per
        token. tokens_per_s_per_gpu: 1 / mean GPU-seconds per token. cost: 1 / (USD per million
        tokens).
        """
        weight = self.batch_weights.reshape(-1, *(1,) * (tpot_s.ndim - 1))
        if self.objective == "sd_speedup":
            return np.asarray((weight * speedup * tpot_s).sum(0) / (weight * tpot_s).sum(0))
        if self.objective == "tpot":
            return np.asarray(1.0 / (weight * tpot_s).sum(0))
        batches = self.batches.reshape(weight.shape)
        gpu_seconds = (weight * tpot_s * gpus / batches).sum(0)
        if self.objective == "tokens_per_s_per_gpu":
            return np.asarray(1.0 / gpu_seconds)
        price = self.price_usd_per_hour or math.nan  # a question about cost has one
        return np.asarray(1.0 / laws.usd_per_million_tokens(price, 1.0 / gpu_seconds))

    def mean_speedup(self, speedup: ArrayLike, tpot_s: ArrayLike) -> float:
        """Speedup of one design over the batches: mean plain time per token over mean speculative
        time. [-]"""
        times = self.batch_weights * np.asarray(tpot_s, float)
        return float((times * np.asarray(speedup, float)).sum() / times.sum())

    def mean_tpot_s(self, tpot_s: ArrayLike) -> float:
        """Time per output token of one design over the batches. [s]"""
        return float((self.batch_weights * np.asarray(tpot_s, float)).sum())

    def value(self, score: float) -> float:
        """The objective in its own unit: as `score`, or its inverse for tpot [s] and cost [USD]."""
        return 1.0 / score if self.objective in ("tpot", "cost_per_million_tokens") else score


def make_question(
    setup: Setup,
    batches: Sequence[int] | Mapping[int, float] | None = None,
    *,
    objective: Objective = "tpot",
    quality_eps: float = DEFAULT_EPS,
    training_tokens: float | None = None,
    price_usd_per_hour: float | None = None,
    max_tpot_ms: float | None = None,
    **limits: float | None,
) -> Question:
    """A checked question. Raises AdvisorError for a wrong limit, batch or objective, or a cost
    without a price.

    batches : one or several batch sizes, equally weighted, or {batch: share of the tokens generated
        at it}. Default: the scenario's batch.
    objective : what to rank by. The speculative speedup favours slow designs, whose plain step
        leaves the most to gain.
    quality_eps : share of dense-equivalent size a candidate may lose. [-]
    training_tokens : D, equal for all designs; None: the law at the upper end of its compute range.
        [tokens]
    price_usd_per_hour : of one GPU; default the accelerator profile's, for the cost objective.
        [USD/h]
    max_tpot_ms : default the scenario's. limits : the other limits of `Question`, each None for
        none.
    """
    if objective not in OBJECTIVES:
        raise AdvisorError(
            f"objective={objective!r} is unknown; choose one of {', '.join(OBJECTIVES)}"
        )
    if objective == "sd_speedup" and setup.drafter.kind == "none":
        raise AdvisorError(
            "without a drafter every design's speedup is 1; give a drafter, or the objective tpot"
        )
    if not 0.0 <= quality_eps < 1.0:
        raise AdvisorError(f"quality_eps={quality_eps} must lie in [0, 1), e.g. 0.02 for 2%")
    other_limits = {
        "training_tokens": training_tokens,
        "price_usd_per_hour": price_usd_per_hour,
        "max_tpot_ms": max_tpot_ms,
    }
    for name, limit in (other_limits | limits).items():
        if limit is not None and not (limit > 0 and np.isfinite(limit)):
            raise AdvisorError(f"{name}={limit} must be a positive number")
    if objective == "cost_per_million_tokens" and price_usd_per_hour is None:
        price_usd_per_hour = _known_price(setup)
    size, share = _batch_shares(setup, batches)
    limit_ms = setup.scenario.max_tpot_ms if max_tpot_ms is None else max_tpot_ms
    return Question(
        objective=objective,
        batches=size,
        batch_weights=share,
        quality_eps=quality_eps,
        training_tokens=training_tokens,
        max_tpot_s=None if limit_ms is None else limit_ms / 1e3,
        price_usd_per_hour=price_usd_per_hour,
        **limits,
    )


def _known_price(setup: Setup) -> float:
    """Price of the accelerator's profile. Raises AdvisorError without one. [USD/h]"""
    known = setup.hardware.price_usd_per_hour
    if known is None:
        raise AdvisorError(
            f"no price is known for {setup.hardware.name}; give price_usd_per_hour, or the "
            "objective tokens_per_s_per_gpu, which gives the same order of designs"
        )
    return known.value


def _batch_shares(
    setup: Setup, batches: Sequence[int] | Mapping[int, float] | None
) -> tuple[Array, Array]:
    """Batches, rising, and the share of the tokens that each gives."""
    weights = (
        batches
        if isinstance(batches, Mapping)
        else dict.fromkeys(batches or [setup.scenario.batch_size], 1.0)
    )
    size = np.array(list(weights), float)
    share = np.array(list(weights.values()), float)
    if not len(size) or np.any(size < 1) or np.any(size != np.floor(size)):
        raise AdvisorError("batches must be whole numbers >= 1, e.g. 1,16,64")
    if not np.all(np.isfinite(share)) or np.any(share < 0) or share.sum() <= 0:
        raise AdvisorError("batch weights must be >= 0 with a positive sum, e.g. {1: 0.2, 64: 0.8}")
    groups = setup.placement.attention_groups
    if np.any(size < groups):
        raise AdvisorError(
            f"batch {size.min():g} is below the {groups} attention groups of this placement; "
            "raise it"
        )
    order = np.argsort(size)
    return size[order], (share / share.sum())[order]


MAX_DESIGNS = 4_000_000
"""Designs of one search, about a gigabyte of memory; a search of more is refused. [-]"""
RANK_WIDTH_MULTIPLE = 16
"""An expert's width on one rank is a multiple of this, the row tile of tensor cores. [-]"""


class DesignGrid(Frozen):
    """Values to combine. The baseline's own values are always added; impossible combinations are
    left out."""

    n_experts: tuple[int, ...] = (8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)
    n_active: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)
    n_shared: tuple[int, ...] = (0, 1, 2, 3, 4)
    expert_width: tuple[int, ...] | None = None
    """None: multiples of width_step over the granularities the law knows, widened to the
    baseline's."""
    width_step: int = Field(default=32, ge=1)
    depth_factors: tuple[float, ...] = (1.0,)
    """Multiples of the baseline's number of layers."""
    head_factors: tuple[float, ...] = (1.0,)
    """Multiples of the baseline's attention heads, query and KV alike."""


@dataclass(frozen=True)
class Mixes:
    """Numbers of experts of many designs: N, k and s (in units of one routed expert), each [n]."""

    n_experts: Array
    n_active: Array
    n_shared: Array

    @classmethod
    def of(cls, n_experts: float, n_active: float, n_shared: float) -> Mixes:
        """Counts of one design."""
        return cls(*(np.array([float(count)]) for count in (n_experts, n_active, n_shared)))

    def __len__(self) -> int:
        return len(self.n_experts)

    @property
    def counts(self) -> tuple[Array, Array, Array]:
        """(N, k, s), each [n]."""
        return self.n_experts, self.n_active, self.n_shared

    @property
    def shared_share(self) -> Array:
        """S = s / (k + s). [n]"""
        return np.asarray(self.n_shared / (self.n_active + self.n_shared))


def shared_experts(moe: Moe) -> float:
    """Shared width in units of one routed expert, s. [-]"""
    return moe.shared_width / moe.expert_width


def mixes(grid: DesignGrid, baseline: Moe, placement: Placement) -> Mixes:
    """All (N, k, s) of the grid with k <= N and N divisible by the expert-parallel ranks."""
    experts = _values("n_experts", grid.n_experts, baseline.n_experts, 1)
    active = _values("n_active", grid.n_active, baseline.n_active, 1)
    shared = _values("n_shared", grid.n_shared, shared_experts(baseline), 0)
    axes = np.meshgrid(experts, active, shared, indexing="ij")
    n, k, s = map(np.ravel, axes)
    keep = (k <= n) & (n % placement.expert_parallel == 0)
    return Mixes(n[keep], k[keep], s[keep])


def widths(grid: DesignGrid, body: Architecture, placement: Placement) -> Array:
    """Expert widths to try for one body, rising. [n] elements

    Multiples of `width_step` between the largest and smallest granularity of the law, the latter
    widened to the baseline's; each rank's share is a multiple of 16. The baseline's own width is
    always among them. Raises AdvisorError where none of the given widths can be split over the
    ranks.
    """
    moe = body.routed
    if grid.expert_width is not None:
        candidate_widths = _values("expert_width", grid.expert_width, moe.expert_width, 1)
    else:
        twice = 2.0 * body.hidden_size
        low = min(twice / GRANULARITY_RANGE[1], moe.expert_width)
        high = max(twice / GRANULARITY_RANGE[0], moe.expert_width)
        steps = np.arange(
            max(np.ceil(low / grid.width_step), 1), np.floor(high / grid.width_step) + 1
        )
        candidate_widths = np.unique([*(steps * grid.width_step), float(moe.expert_width)])
    multiple = RANK_WIDTH_MULTIPLE * placement.expert_tensor_parallel
    # The baseline is served at its width as it is, so it competes at it whatever divides it.
    fits = (candidate_widths % multiple == 0) | (candidate_widths == moe.expert_width)
    if not fits.any():
        raise AdvisorError(
            f"no expert width of the grid is a multiple of {multiple}; give widths that tp and ep "
            "divide"
        )
    return candidate_widths[fits]


def bodies(grid: DesignGrid, baseline: Architecture) -> list[Architecture]:
    """The baseline itself, then the baseline at each other depth and number of heads."""
    pairs = [(depth, heads) for depth in grid.depth_factors for heads in grid.head_factors]
    ordered = dict.fromkeys([(1.0, 1.0), *((float(d), float(h)) for d, h in pairs)])
    return [_body(baseline, depth, heads) for depth, heads in ordered]


def design_architecture(
    body: Architecture, n_experts: int, n_active: int, n_shared: float, width: int
) -> Architecture:
    """One design as an architecture: the body with its routed layers replaced."""
    moe = body.routed
    zero = round(moe.zero_experts * n_experts / moe.n_experts)
    shape = moe.model_copy(
        update={
            "n_experts": n_experts,
            "n_active": n_active,
            "expert_width": width,
            "n_shared": int(np.ceil(n_shared)),
            "shared_width": round(n_shared * width),
            "zero_experts": zero,
            "expert_bias_params": 2 * width + body.hidden_size if moe.expert_bias_params else 0,
        }
    )
    label = f"{n_experts} experts top-{n_active}, {n_shared:g} shared, width {width}"
    return body.model_copy(
        update={"moe": shape, "id": f"{body.id}-design", "name": f"{body.name} with {label}"}
    )


def computing_share(architecture: Architecture) -> float:
    """Share of the chosen experts that compute: below 1 with zero experts, whose proportion designs
    keep. [-]"""
    moe = architecture.routed
    return effective_n_active(moe) / moe.n_active


def moe_shape(
    body: Architecture, mix: Mixes, width: ArrayLike, count: int | None = None
) -> MoeShape:
    """Routed layers of many designs at once, for the step-cost model."""
    moe = body.routed
    return MoeShape(
        count=moe.count if count is None else count,
        n_experts=mix.n_experts,
        n_active=mix.n_active * computing_share(body),
        expert_width=width,
        expert_input_width=moe.expert_input_width,
        matrices=moe.matrices,
        shared_width=mix.n_shared * np.asarray(width, float),
    )


@dataclass(frozen=True)
class Weights:
    """Parameters of many designs, each broadcast over (mix, width)."""

    total: Array
    active: Array
    """Active without embeddings, N_act."""
    attention: float


def weights(body: Architecture, shape: MoeShape) -> Weights:
    """Parameters as `architecture.parameter_counts` counts them, for arrays of routed layers.
    [parameters]"""
    routed, active, shared, router = _moe_params(body, shape)
    fixed = parameter_counts(body.model_copy(update={"moe": None}))
    always = fixed.active_nonembedding + shared + router
    return Weights(
        total=np.asarray(always + routed + fixed.embedding),
        active=np.asarray(always + active),
        attention=float(fixed.attention),
    )


def weight_bytes_each_gpu(body: Architecture, shape: MoeShape, placement: Placement) -> Array:
    """Bytes on one GPU as `memory.weight_bytes_per_gpu` counts them, for arrays of routed layers.
    [B]"""
    routed, _, shared, router = _moe_params(body, shape)
    formats = body.dtypes
    ranks = placement.expert_parallel * placement.expert_tensor_parallel
    return np.asarray(
        weight_bytes_per_gpu(body.model_copy(update={"moe": None}), placement)
        + routed * BYTES_PER_WEIGHT[formats.routed] / ranks
        + shared * BYTES_PER_WEIGHT[formats.shared] / placement.tensor_parallel
        + router * BYTES_PER_WEIGHT["bf16"]
    )


def _moe_params(body: Architecture, shape: MoeShape) -> tuple[Array, Array, Array, Array]:
    """(routed, routed active, shared, router) parameters of the whole model."""
    moe = body.routed
    count = np.asarray(shape.count, float)
    n = np.asarray(shape.n_experts, float)
    k = np.asarray(shape.n_active, float)
    width = np.asarray(shape.expert_width, float)
    h = np.asarray(shape.expert_input_width, float)
    mats = np.asarray(shape.matrices, float)
    shared = np.asarray(shape.shared_width, float)
    expert = mats * h * width + (2.0 * width + body.hidden_size if moe.expert_bias_params else 0.0)
    # A router scores the zero experts too.
    candidates = n * (1.0 + moe.zero_experts / moe.n_experts)
    return (
        count * n * expert,
        count * k * expert,
        count * mats * body.hidden_size * shared,
        count * body.hidden_size * candidates,
    )


def _values(name: str, given: tuple[int, ...], own: float, minimum: int) -> Array:
    values = np.unique([*map(float, given), float(own)])
    if not np.all(np.isfinite(values)) or values[0] < minimum:
        called = name.removeprefix("n_")
        raise AdvisorError(
            f"{called}: expected whole numbers of at least {minimum}, got {values[0]:g}"
        )
    return values


def _body(baseline: Architecture, depth: float, heads: float) -> Architecture:
    if (depth, heads) == (1.0, 1.0):
        return baseline
    moe = baseline.routed
    mixers = tuple(_resized(mixer, depth, heads) for mixer in baseline.mixers)
    moe = moe.model_copy(update={"count": _layers(moe.count, depth)})
    dense = tuple(
        block.model_copy(update={"count": _layers(block.count, depth)}) for block in baseline.dense
    )
    label = f"{baseline.name} at {depth:g}x depth, {heads:g}x heads"
    extra = round(baseline.extra_params * depth)
    return baseline.model_copy(
        update={"mixers": mixers, "moe": moe, "dense": dense, "extra_params": extra, "name": label}
    )


def _layers(count: int, factor: float) -> int:
    if not factor > 0:
        raise AdvisorError(f"depths: expected numbers above 0, got {factor:g}")
    return max(1, round(count * factor))


def _resized(mixer: Mixer, depth: float, heads: float) -> Mixer:
    update = {"count": _layers(mixer.count, depth)}
    if heads != 1.0:
        shards = mixer.kv_shards * heads
        if mixer.kind not in ("full", "sliding"):
            raise AdvisorError(
                f"head_factors apply to plain attention; this model's is {mixer.kind}: use (1.0,)"
            )
        if shards < 1 or shards != int(shards):
            raise AdvisorError(
                f"head_factors={heads:g} leaves {shards:g} of {mixer.kv_shards} KV heads; choose "
                "another"
            )
        for name in (
            "projection_params",
            "replicated_params",
            "kv_elements_per_token",
            "query_heads",
        ):
            update[name] = round(getattr(mixer, name) * heads)
        update["kv_shards"] = int(shards)
    return mixer.model_copy(update=update)
