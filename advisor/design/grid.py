"""The designs to search: which numbers of experts, widths, depths and heads, and what each one weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from advisor.architecture import BYTES_PER_WEIGHT, Architecture, Mixer, Moe, effective_n_active, parameter_counts
from advisor.arrays import Array
from advisor.memory import weight_bytes_per_gpu
from advisor.prediction import AdvisorError, Frozen
from advisor.quality import GRANULARITY_RANGE
from advisor.step_cost import MoeShape, Placement

MAX_DESIGNS = 4_000_000
"""Designs of one search, about a gigabyte of memory; a search of more is refused. [-]"""
RANK_WIDTH_MULTIPLE = 16
"""An expert's width on one rank is a multiple of this, the row tile of tensor cores. [-]"""


class DesignGrid(Frozen):
    """Values to combine. The baseline's own values are always added; impossible combinations are left out."""

    n_experts: tuple[int, ...] = (8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)
    n_active: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)
    n_shared: tuple[int, ...] = (0, 1, 2, 3, 4)
    expert_width: tuple[int, ...] | None = None
    """None: multiples of width_step over the granularities the law knows, widened to the baseline's."""
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

    def __len__(self) -> int:
        return len(self.n_experts)

    def take(self, index: ArrayLike) -> Mixes:
        """The designs at `index`."""
        at = np.asarray(index)
        return Mixes(self.n_experts[at], self.n_active[at], self.n_shared[at])

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
    n, k, s = (axis.ravel() for axis in np.meshgrid(experts, active, shared, indexing="ij"))
    keep = (k <= n) & (n % placement.expert_parallel == 0)
    return Mixes(n[keep], k[keep], s[keep])


def widths(grid: DesignGrid, body: Architecture, placement: Placement) -> Array:
    """Expert widths to try for one body, rising. [n] elements

    Multiples of `width_step` between the largest and smallest granularity of the law, the latter widened to the
    baseline's; each rank's share is a multiple of 16. The baseline's own width is always among them.
    Raises AdvisorError where none of the given widths can be split over the ranks.
    """
    moe = body.moe
    assert moe is not None
    if grid.expert_width is not None:
        found = _values("expert_width", grid.expert_width, moe.expert_width, 1)
    else:
        twice = 2.0 * body.hidden_size
        low = min(twice / GRANULARITY_RANGE[1], moe.expert_width)
        high = max(twice / GRANULARITY_RANGE[0], moe.expert_width)
        steps = np.arange(max(np.ceil(low / grid.width_step), 1), np.floor(high / grid.width_step) + 1)
        found = np.unique([*(steps * grid.width_step), float(moe.expert_width)])
    multiple = RANK_WIDTH_MULTIPLE * placement.expert_tensor_parallel
    # The baseline is served at its width as it is, so it competes at it whatever divides it.
    fits = (found % multiple == 0) | (found == moe.expert_width)
    if not fits.any():
        raise AdvisorError(
            f"no expert width of the grid is a multiple of {multiple}; give widths that tp and ep divide"
        )
    return found[fits]


def bodies(grid: DesignGrid, baseline: Architecture) -> list[Architecture]:
    """The baseline itself, then the baseline at each other depth and number of heads."""
    pairs = [(depth, heads) for depth in grid.depth_factors for heads in grid.head_factors]
    ordered = dict.fromkeys([(1.0, 1.0), *((float(d), float(h)) for d, h in pairs)])
    return [_body(baseline, depth, heads) for depth, heads in ordered]


def design_architecture(body: Architecture, n_experts: int, n_active: int, n_shared: float, width: int) -> Architecture:
    """One design as an architecture: the body with its routed layers replaced."""
    moe = body.moe
    assert moe is not None
    zero = round(moe.zero_experts * n_experts / moe.n_experts)
    shape = moe.model_copy(
        update={
            "n_experts": n_experts,
            "n_active": n_active,
            "expert_width": width,
            "n_shared": int(np.ceil(n_shared)),
            "shared_width": round(n_shared * width),
            "zero_experts": zero,
            "expert_bias_params": _bias_params(body, width),
        }
    )
    label = f"{n_experts} experts top-{n_active}, {n_shared:g} shared, width {width}"
    return body.model_copy(update={"moe": shape, "id": f"{body.id}-design", "name": f"{body.name} with {label}"})


def computing_share(architecture: Architecture) -> float:
    """Share of the chosen experts that compute: below 1 with zero experts, whose proportion designs keep. [-]"""
    moe = architecture.moe
    assert moe is not None
    return effective_n_active(moe) / moe.n_active


def moe_shape(body: Architecture, mix: Mixes, width: ArrayLike, count: int | None = None) -> MoeShape:
    """Routed layers of many designs at once, for the step-cost model."""
    moe = body.moe
    assert moe is not None
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
    """Parameters as `architecture.parameter_counts` counts them, for arrays of routed layers. [parameters]"""
    routed, active, shared, router = _moe_params(body, shape)
    fixed = parameter_counts(body.model_copy(update={"moe": None}))
    always = fixed.active_nonembedding + shared + router
    return Weights(
        total=np.asarray(always + routed + fixed.embedding),
        active=np.asarray(always + active),
        attention=float(fixed.attention),
    )


def weight_bytes_each_gpu(body: Architecture, shape: MoeShape, placement: Placement) -> Array:
    """Bytes on one GPU as `memory.weight_bytes_per_gpu` counts them, for arrays of routed layers. [B]"""
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
    moe = body.moe
    assert moe is not None
    count, n, k, width, h, mats, shared = (
        np.asarray(x, float)
        for x in (
            shape.count,
            shape.n_experts,
            shape.n_active,
            shape.expert_width,
            shape.expert_input_width,
            shape.matrices,
            shape.shared_width,
        )
    )
    expert = mats * h * width + (2.0 * width + body.hidden_size if moe.expert_bias_params else 0.0)
    # A router scores the zero experts too.
    candidates = n * (1.0 + moe.zero_experts / moe.n_experts)
    return (
        count * n * expert,
        count * k * expert,
        count * mats * body.hidden_size * shared,
        count * body.hidden_size * candidates,
    )


def _bias_params(body: Architecture, width: int) -> int:
    return 2 * width + body.hidden_size if body.moe and body.moe.expert_bias_params else 0


def _values(name: str, given: tuple[int, ...], own: float, minimum: int) -> Array:
    values = np.unique([*map(float, given), float(own)])
    if not np.all(np.isfinite(values)) or values[0] < minimum:
        raise AdvisorError(f"{name} of the grid must be whole numbers >= {minimum}; got {values[0]:g}")
    return values


def _body(baseline: Architecture, depth: float, heads: float) -> Architecture:
    if (depth, heads) == (1.0, 1.0):
        return baseline
    assert baseline.moe is not None
    mixers = tuple(_resized(mixer, depth, heads) for mixer in baseline.mixers)
    moe = baseline.moe.model_copy(update={"count": _layers(baseline.moe.count, depth)})
    dense = tuple(block.model_copy(update={"count": _layers(block.count, depth)}) for block in baseline.dense)
    label = f"{baseline.name} at {depth:g}x depth, {heads:g}x heads"
    extra = round(baseline.extra_params * depth)
    return baseline.model_copy(
        update={"mixers": mixers, "moe": moe, "dense": dense, "extra_params": extra, "name": label}
    )


def _layers(count: int, factor: float) -> int:
    if not factor > 0:
        raise AdvisorError(f"depth_factors must be positive; got {factor}")
    return max(1, round(count * factor))


def _resized(mixer: Mixer, depth: float, heads: float) -> Mixer:
    update = {"count": _layers(mixer.count, depth)}
    if heads != 1.0:
        shards = mixer.kv_shards * heads
        if mixer.kind not in ("full", "sliding"):
            raise AdvisorError(f"head_factors apply to plain attention; this model's is {mixer.kind}: use (1.0,)")
        if shards < 1 or shards != int(shards):
            raise AdvisorError(
                f"head_factors={heads:g} leaves {shards:g} of {mixer.kv_shards} KV heads; choose another"
            )
        for name in ("projection_params", "replicated_params", "kv_elements_per_token", "query_heads"):
            update[name] = round(getattr(mixer, name) * heads)
        update["kv_shards"] = int(shards)
    return mixer.model_copy(update=update)
