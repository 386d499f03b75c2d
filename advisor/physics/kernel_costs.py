"""Kernel constants of an accelerator, engine and weight formats: what `step_time` needs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.physics import laws
from advisor.physics.notes import Note
from advisor.prediction import Tier


@dataclass(frozen=True)
class GemmCost:
    """Constants of `laws.gemm`."""

    t0_s: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    tier: Tier
    sharpness: float
    log_sd: float

    @property
    def symbols(self) -> dict[str, float]:
        """The constants by the law's symbols. SI units."""
        return {
            "t0": self.t0_s,
            "BW": self.bandwidth_bytes_per_s,
            "F_peak": self.flops_per_s,
            "p": self.sharpness,
        }


Knots = tuple[tuple[float, float], ...]
"""(x, factor) in rising x."""


def factor_at(knots: Knots, size: ArrayLike) -> NDArray[np.float64]:
    """Factor at `size`, interpolated between knots in logarithms, constant beyond the ends. 1
    without knots. [-]"""
    # Sizes start at 0 (no tokens on a rank), which has no logarithm.
    at = np.maximum(np.asarray(size, float), 1e-9)
    if not knots:
        return np.ones_like(at)
    measured_at, factors = np.log(np.array(knots)).T
    return np.exp(np.interp(np.log(at), measured_at, factors))


ExpertShape = tuple[float, float, float, float, float, float]
"""What decides a routed kernel: input width h, width of one shard I/tp, k, N, matrices per expert,
expert-parallel ranks. All [-]."""
VERIFY_PER_DOUBLING = 0.03
"""Share of a baseline step that verification takes beyond its kernels for each doubling of its
tokens (`laws.verify_tokens`). Chosen for step times from outside against the rows that are fitted,
which prefer none (docs/decisions/0045-verified-tokens.md). [-]"""
_SAME_TOKENS = 0.005
"""Relative difference up to which a step has the tokens of a measured one. [-]"""


@dataclass(frozen=True)
class MeasuredLayer:
    """Measured time of one expert shape over the additive form's."""

    shape: ExpertShape
    knots: Knots
    """By tokens of the whole step."""
    log_sd: float
    """Of measured over predicted time on rows that were not used. [-]"""
    stands_in: bool = False
    """The rows are of another engine's or format's kernel: they serve, but at the tier of a fit."""
    at_tokens: tuple[float, ...] = ()
    """Token counts that were measured, where `knots` has others between them; empty: all knots."""

    @property
    def tokens(self) -> tuple[float, ...]:
        """Token counts of the step that were measured, rising. [-]"""
        return self.at_tokens or tuple(at for at, _ in self.knots)

    def factor(self, n_tokens: ArrayLike) -> NDArray[np.float64]:
        """Measured over additive time, broadcast over `n_tokens`. [-]"""
        return factor_at(self.knots, n_tokens)

    def tier_rank(self, n_tokens: ArrayLike) -> NDArray[np.int64]:
        """Rank of the tier (`Tier.rank`) at token counts.

        Measured at the measured ones, interpolated between, fitted outside.
        """
        tokens = np.asarray(n_tokens, float)
        measured = np.array(self.tokens)
        # Rows of another engine's kernel were measured, but not of what will run.
        if self.stands_in:
            return np.full(tokens.shape, Tier.FITTED.rank)
        same = np.abs(tokens[..., None] / measured - 1.0).min(axis=-1) < _SAME_TOKENS
        inside = (tokens >= measured[0]) & (tokens <= measured[-1])
        between = np.where(inside, Tier.INTERPOLATED.rank, Tier.FITTED.rank)
        return np.where(same, Tier.MEASURED.rank, between)


@dataclass(frozen=True)
class MoeCost:
    """Constants of `laws.routed_layers`, with the curve or the measured rows that its factor c
    comes from."""

    t0_s: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    tier: Tier
    per_expert_s: float = 0.0
    activation_bandwidth_bytes_per_s: float = np.inf
    per_resident_expert_s: float = 0.0
    log_sd: float = field(kw_only=True)
    because: str = ""
    curve: Knots = ()
    """c(m) by rows per touched expert m."""
    fit_id: str = ""
    """The FitRecord behind these constants; empty for a roofline."""
    stands_in: bool = False
    """The record is of another engine or format than the one asked for."""
    reason: str = ""
    """Why this record of several, in words; empty where nothing has to be said."""
    measured: MeasuredLayer | None = None
    """Where the model's own shape was measured: its rows, in place of `curve`."""

    @property
    def symbols(self) -> dict[str, float]:
        """The constants by the law's symbols. SI units."""
        return {
            "t0": self.t0_s,
            "BW": self.bandwidth_bytes_per_s,
            "tau": self.per_expert_s,
            "F_peak": self.flops_per_s,
            "BW_act": self.activation_bandwidth_bytes_per_s,
            "tau_N": self.per_resident_expert_s,
        }

    def correction(self, rows_per_expert: ArrayLike) -> NDArray[np.float64]:
        """c(m), broadcast over `rows_per_expert`. [-]"""
        return factor_at(self.curve, rows_per_expert)

    @property
    def band_log_sd(self) -> float:
        """Log standard deviation of a layer's time: of the measured rows where they are used, else
        of the form. [-]"""
        return self.log_sd if self.measured is None else self.measured.log_sd

    def tier_rank(self, n_tokens: ArrayLike) -> NDArray[np.int64]:
        """Rank of the tier (`Tier.rank`) of a layer over M tokens of the whole step, broadcast."""
        if self.measured is None:
            return np.full(np.shape(n_tokens), self.tier.rank)
        return self.measured.tier_rank(n_tokens)


@dataclass(frozen=True)
class AttentionCost:
    """Constants of `laws.attention_core`, and rows that a kernel pads its queries to."""

    t0_s: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    tier: Tier
    log_sd: float
    sharpness: float
    block_rows: float

    @property
    def symbols(self) -> dict[str, float]:
        """The constants of the time by the law's symbols. SI units."""
        return {
            "t0": self.t0_s,
            "BW": self.bandwidth_bytes_per_s,
            "F_attn": self.flops_per_s,
            "p": self.sharpness,
        }

    def time_s(self, n_bytes: ArrayLike, flops: ArrayLike) -> NDArray[np.float64]:
        """Time of one layer that reads `n_bytes` and computes `flops`, broadcast. [s]"""
        moved = np.asarray(n_bytes, float)
        work = np.asarray(flops, float)
        return np.asarray(laws.attention_core(R=moved, F=work, **self.symbols))


@dataclass(frozen=True)
class AttentionModule:
    """A whole attention layer as it was measured, by sequences with one token each and by
    context."""

    batches: tuple[float, ...]
    contexts: tuple[float, ...]
    seconds: tuple[tuple[float, ...], ...]
    """[batches, contexts], rising in both. [s]"""
    measured_to: tuple[float, ...]
    """Largest batch that was measured at each context; the times beyond are carried on. [-]"""
    shares_cache: bool
    """Whether the tokens of one sequence read its cache together; else each chooses entries of its
    own."""
    log_sd: float
    """Of measured over interpolated time, between the table's own rows. [-]"""
    because: str
    stands_in: bool = False
    """The table is another engine's or format's."""

    @functools.cached_property
    def _grid(self) -> tuple[NDArray[np.float64], ...]:
        """Logarithms of batches, contexts and seconds, each axis carried on by its last slope, of 1
        at most."""
        batches = np.log(np.array(self.batches))
        contexts = np.log(np.array(self.contexts))
        times = np.log(np.array(self.seconds))
        times = np.vstack([times, _carried_on(times[-2], times[-1], batches[-1] - batches[-2])])
        times = np.column_stack(
            [times, _carried_on(times[:, -2], times[:, -1], contexts[-1] - contexts[-2])]
        )
        return (
            np.append(batches, batches[-1] + _FAR),
            np.append(contexts, contexts[-1] + _FAR),
            times,
        )

    def time_s(self, sequences: ArrayLike, context: ArrayLike) -> NDArray[np.float64]:
        """Time of one layer, straight in the logarithms between measured points, broadcast. [s]"""
        batches, contexts, times = self._grid
        row, down = _between(batches, sequences)
        column, right = _between(contexts, context)
        upper = times[row, column] * (1.0 - right) + times[row, column + 1] * right
        lower = times[row + 1, column] * (1.0 - right) + times[row + 1, column + 1] * right
        return np.asarray(np.exp(upper * (1.0 - down) + lower * down))

    def slower(self, factor: float) -> AttentionModule:
        """Layer with all times multiplied by `factor`."""
        return replace(
            self, seconds=tuple(tuple(factor * seconds for seconds in row) for row in self.seconds)
        )

    @property
    def shortest(self) -> float:
        """The shortest context of the table, where the cache hardly counts. [-]"""
        return self.contexts[0]

    def tier_rank(self, n_rows: ArrayLike, context: ArrayLike) -> NDArray[np.int64]:
        """Rank of the tier (`Tier.rank`) of layers over B q rows. Interpolated inside what was
        measured, else fitted.

        Several tokens over one cache were not measured: a law carries them, so such layers count as
        fitted.
        """
        reach = np.interp(
            np.log(np.asarray(context, float)), np.log(self.contexts), self.measured_to, right=0.0
        )
        inside = np.less_equal(n_rows, reach) & (not self.stands_in and not self.shares_cache)
        return np.where(inside, Tier.INTERPOLATED.rank, Tier.FITTED.rank)


_FAR = float(np.log(64.0))
"""How far a table is carried on beyond its last row, in logarithms. [-]"""


def _carried_on(
    before: NDArray[np.float64], last: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    return last + np.clip((last - before) / step, 0.0, 1.0) * _FAR


def _between(
    knots: NDArray[np.float64], size: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index of the knot below each size, and how far it lies to the next, in logarithms. Ends
    hold."""
    at = np.clip(np.log(np.maximum(np.asarray(size, float), 1e-9)), knots[0], knots[-1])
    below = np.clip(np.searchsorted(knots, at, "right") - 1, 0, len(knots) - 2)
    return below, (at - knots[below]) / (knots[below + 1] - knots[below])


@dataclass(frozen=True)
class StreamCost:
    """Constants of `laws.stream`, times a factor where it was measured: an all-reduce, an
    all-to-all."""

    t0_s: float
    bandwidth_bytes_per_s: float
    tier: Tier
    log_sd: float
    curve: Knots = ()
    """Measured over computed time by bytes."""

    @property
    def symbols(self) -> dict[str, float]:
        """The constants by the law's symbols. SI units."""
        return {"t0": self.t0_s, "BW": self.bandwidth_bytes_per_s}

    def factor(self, n_bytes: ArrayLike) -> NDArray[np.float64]:
        """Measured over computed time at `n_bytes`, broadcast. [-]"""
        return factor_at(self.curve, n_bytes)

    def time_s(self, n_bytes: ArrayLike) -> NDArray[np.float64]:
        """Time to move `n_bytes`, broadcast. [s]"""
        moved = np.asarray(n_bytes, float)
        return np.asarray(laws.stream(R=moved, r=self.factor(moved), **self.symbols))


@dataclass(frozen=True)
class Network:
    """Constants of `laws.network_wait`: what joins the nodes of an instance whose ranks lie on
    several."""

    ranks_per_node: int
    t0_s: float
    bandwidth_bytes_per_s: float
    """What exchanges reach of a GPU's share of the network."""
    tier: Tier
    log_sd: float

    @property
    def symbols(self) -> dict[str, float]:
        """The constants by the law's symbols. SI units."""
        return {"t_net": self.t0_s, "BW_net": self.bandwidth_bytes_per_s}


@dataclass(frozen=True)
class KernelCosts:
    """All constants `step_time` needs for one accelerator, engine and set of weight types."""

    routed: MoeCost
    attention_projection: GemmCost
    shared: GemmCost
    dense: GemmCost
    lm_head: GemmCost
    attention: AttentionCost
    all_reduce: Mapping[int, StreamCost] = field(default_factory=dict)
    """By number of ranks; missing sizes use the nearest larger one, else the largest."""
    router: GemmCost | None = None
    """The router's product, in 16 bits whatever the LM head is in; None: as `lm_head`."""
    all_to_all: Mapping[int, StreamCost] = field(default_factory=dict)
    network: Network | None = None
    """Where expert-parallel ranks lie on several nodes and what joins those is published; else
    None."""
    mla: AttentionCost | None = None
    """Attention over a latent cache; None: as `attention`."""
    state: AttentionCost | None = None
    """Recurrent layers, whose state has a format of its own whatever the cache's is; None: as
    `attention`."""
    modules: Mapping[Any, AttentionModule] = field(default_factory=dict)
    """By mixer of the model: attention layers that were measured as a whole, with projections and
    launches."""
    attention_log_sd: float | None = None
    """Spread of the attention that a model has, whichever record or module prices it; None: that of
    `attention`. [-]"""
    launch_per_layer_s: float = field(kw_only=True)
    shared_launches: float = 0.0
    """Launches of a shared expert beside those of a whole layer. [-]"""
    eager_per_layer_s: float = 0.0
    """Launching a layer's kernels one by one, in a step that no captured graph holds; 0: not
    charged."""
    between_graphs_s: float = 0.0
    """Launching a layer's attention between pieces of a graph, where a verification runs in no full
    one; else 0."""
    query_key_norm_s: float = 0.0
    """What a layer that normalises queries and keys adds."""
    stream_mixing: StreamCost | None = None
    """One mix of the residual streams by hyper-connections; None where nobody has timed it: not
    charged."""
    host_per_step_s: float = field(kw_only=True)
    host_per_draft_pass_s: float = field(kw_only=True)
    host_per_round_s: float = field(kw_only=True)
    """Of an instance on several GPUs."""
    host_one_gpu_share: float = 1.0
    """Share of `host_per_round_s` on one GPU: less where the host's work on a round is waited for,
    since ranks that schedule together wait for each other as well. [-]"""
    heads_apart: bool = False
    """Whether attention kernels read the cache for each query head of a group where a sequence has
    several tokens."""
    latent_rows_apart: bool = False
    """Whether latent kernels take each token of a sequence as a sequence of its own, and read its
    cache for each."""
    reread_share: float = 0.0
    """Share of its attention that each further token of a sequence adds to a pass; 0: the cache is
    read once. [-]"""
    verified_per_token: float = 0.0
    """How fast verification tends, with the tokens of an attention group, to a plain step for each
    of them: phi of `laws.verified`. [-]"""
    verify_per_doubling: float = VERIFY_PER_DOUBLING
    """c of `laws.verify_tokens`. [-]"""
    overhead_log_sd: float = field(kw_only=True)
    """Of each of these times. [-]"""
    overhead_log_covariance: tuple[tuple[float, ...], ...] = ()
    """Covariance of the logarithms of all that is fitted on speedups (`components.JOINT`), where it
    was fitted; empty: each has overhead_log_sd of its own."""
    scatter_log_sd: float | None = None
    """What the user's own rows leave unexplained of a speedup, log standard deviation; None: there
    are too few, and its range is that of a machine nobody has seen (`bands.unseen`). [-]"""
    kernels_of: str = ""
    """Name of the accelerator with the same chip whose kernels these are; empty: the accelerator's
    own, or none."""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)
    """By part: accelerator, experts, projections, attention, latent attention, recurrent state,
    all-reduce, expert exchange."""

    def round_host_s(self, gpus: int) -> float:
        """Host's part of a round of an instance on so many GPUs. [s]"""
        return self.host_per_round_s * (self.host_one_gpu_share if gpus == 1 else 1.0)

    def with_expert_time(self, seconds: float) -> KernelCosts:
        """Costs with a further time for each touched expert of a layer. [s]"""
        return replace(
            self, routed=replace(self.routed, per_expert_s=self.routed.per_expert_s + seconds)
        )


def stream_cost(table: Mapping[int, StreamCost], ranks: int) -> StreamCost | None:
    """The entry for `ranks`, else the next larger, else the largest. None for an empty table or one
    rank."""
    if ranks <= 1 or not table:
        return None
    # The nearest larger one: more ranks are taken to wait longer for each other.
    larger = [size for size in table if size >= ranks]
    return table[min(larger) if larger else max(table)]
