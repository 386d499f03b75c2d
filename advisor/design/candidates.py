"""Single designs out of a space: what one gains over the baseline, with a band, and how safe its quality is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor import bands, laws
from advisor.arrays import Array
from advisor.curve import curve_for
from advisor.design.judged import LawQuality, corners, qualities
from advisor.design.routing_shift import shifted_preset
from advisor.design.space import DesignSpace
from advisor.memory import memory_fit
from advisor.prediction import Tier, lowest
from advisor.prefill import prefill_per_token_s
from advisor.quality import activation_ratio, anchored_ratio, granularity, loss_as_active_params, training_flops
from advisor.setup import Setup

SHAPE_LOG_SD = 0.05
"""Error of one expert shape's kernels that the baseline's does not share (assumed; fitted kernels miss a shape left out
of the fit by 1.4-6 % in the median). All other errors are drawn once for both designs."""


@dataclass(frozen=True)
class Band:
    """A ratio to the baseline with its 80 % band and the chance that it exceeds 1."""

    value: float
    low: float
    high: float
    chance: float

    @classmethod
    def of(cls, value: float, draws: Array) -> Band:
        """The band of `draws` around a central value, which it always holds."""
        low, high = (float(edge) for edge in bands.band(draws))
        return cls(float(value), min(low, float(value)), max(high, float(value)), float(np.mean(draws > 1.0)))


@dataclass(frozen=True)
class Candidate:
    """One design in full. Tuples run over the question's batches; times in seconds, sizes in parameters."""

    index: int
    body: int
    n_experts: int
    n_active: int
    n_shared: float
    expert_width: int
    layers: int
    total_params: float
    active_params: float
    activation: float
    granularity: float
    shared_share: float
    quality_ratio: float
    """Dense-equivalent size over the baseline's, by the default law."""
    quality_ratio_pessimistic: float
    """The lower of that and the ratio if quality goes as N_act A^-0.30: what the design keeps by either law."""
    loss_difference: float
    """Second law, nats per token against the baseline: a risk note for k and the shared share, not a constraint."""
    loss_as_active_params: float
    """The difference of loss as a share of active parameters needed to make up for it."""
    quality: tuple[LawQuality, ...]
    """Size by each law, the deciding one first."""
    training_cost: float
    """Training compute at equal tokens over the baseline's: active parameters over its. [-]"""
    training_flop: float | None
    """6 N_act D; None where the training tokens are not given. [FLOP]"""
    corners: tuple[str, ...]
    """Ends of the space or of a law's data that it lies at, in words."""
    tokens_per_parameter: float | None
    speedup: tuple[float, ...]
    tpot_s: tuple[float, ...]
    tokens_per_s_per_gpu: tuple[float, ...]
    n_draft: tuple[int, ...]
    largest_batch: int
    objective: float
    """Objective in its own unit: x, s, tokens/s per GPU, or USD per million tokens."""
    objective_gain: Band
    """Objective over the baseline's; above 1 is better, also for times and costs."""
    speedup_gain: Band
    tpot_gain: Band
    """Baseline's mean time per token over the design's: above 1 is faster."""
    tier: Tier
    extrapolated: bool


def setup_of(space: DesignSpace, index: int) -> Setup:
    """A design as a Setup: what `curve_for` and every other part of the advisor take."""
    body = space.bodies[space.body[index]]
    architecture, setup = space.architecture(index), body.setup
    n, k, s, _ = _counts(space, index)
    per_pass = setup.draft_architecture
    if setup.drafter.kind == "mtp" and per_pass is not None and per_pass.moe is not None:
        assert architecture.moe is not None
        layer = architecture.moe.model_copy(update={"count": per_pass.moe.count})
        per_pass = per_pass.model_copy(update={"moe": layer})
    scenario = setup.scenario
    return dataclasses.replace(
        setup,
        architecture=architecture,
        draft_architecture=per_pass,
        routing=shifted_preset(setup.routing, space.baseline.counts, int(n), int(k), s),
        routing_because="moved with the design from the baseline's preset",
        memory=memory_fit(
            architecture,
            setup.placement,
            setup.hardware.memory_bytes.value,
            scenario.context_tokens,
            setup.kv_bytes_per_element,
            per_pass,
        ),
    )


@dataclass(frozen=True)
class DrawnDesigns:
    """A design's speedup and time per output token under each draw, [draws, nB]."""

    speedup: Array
    tpot_s: Array
    tiers: tuple[Tier, ...]
    """Tier at each batch."""
    beyond: NDArray[np.bool_]
    """Whether its steps are longer than the measured ones, [nB]."""

    @property
    def tier(self) -> Tier:
        """The lowest over the batches."""
        return lowest(list(self.tiers))

    @property
    def extrapolated(self) -> bool:
        """Whether it lies outside the data at any batch."""
        return bool(self.beyond.any())


def drawn_at(setup: Setup, batches: Array, n_draft: NDArray[np.int16]) -> DrawnDesigns:
    """A design at batches [nB] and one K each, under the same draws for every design.

    Seed and constants are shared, so what two designs have in common cancels in a comparison.
    """
    columns = np.unique([0, *n_draft])
    curve = curve_for(setup, batches, columns)
    at = np.searchsorted(columns, n_draft)
    rows = np.arange(len(batches))
    gain = curve.draws[:, rows, at]
    return DrawnDesigns(
        gain,
        (curve.plain_draws_s + prefill_per_token_s(setup, batches)) / gain,
        tuple(Tier(curve.tier[row, column]) for row, column in zip(rows, at, strict=True)),
        curve.extrapolated[rows, at],
    )


def candidates(space: DesignSpace, indices: list[int]) -> list[Candidate]:
    """Full descriptions of a few designs, in the order given. Bands share their draws with the baseline's."""
    base_setup = space.bodies[0].setup
    base = drawn_at(base_setup, space.question.batches, space.baseline.served.n_draft[:, 0])
    return [_candidate(space, index, base) for index in indices]


def _candidate(space: DesignSpace, index: int, base: DrawnDesigns) -> Candidate:
    own, question = space.baseline, space.question
    n, k, s, width = _counts(space, index)
    total, active = float(space.total_params[index]), float(space.active_params[index])
    body = space.bodies[space.body[index]].architecture
    activation = float(activation_ratio(n, k, s))
    ratio = float(space.dense_equivalent[index] / own.dense_equivalent)
    loss = float(space.loss_difference(int(space.body[index]), total, active, k, s))
    tokens = question.training_tokens
    drawn = drawn_at(setup_of(space, index), space.question.batches, space.n_draft[:, index])
    objective_gain, speedup_gain, tpot_gain = _gains(space, index, drawn, base)
    speedup, tpot = (np.asarray(x[:, index], float) for x in (space.speedup, space.tpot_s))
    return Candidate(
        index=index,
        body=int(space.body[index]),
        n_experts=int(n),
        n_active=int(k),
        n_shared=s,
        expert_width=width,
        layers=sum(mixer.count for mixer in body.mixers),
        total_params=total,
        active_params=active,
        activation=activation,
        granularity=float(granularity(body.hidden_size, width)),
        shared_share=s / (k + s),
        quality_ratio=ratio,
        quality_ratio_pessimistic=min(
            ratio, float(anchored_ratio(active, activation, own.active_params, own.activation))
        ),
        loss_difference=loss,
        loss_as_active_params=float(loss_as_active_params(loss, own.total_params, own.active_params)),
        quality=qualities(space, index),
        training_cost=active / own.active_params,
        training_flop=None if tokens is None else float(training_flops(active, tokens)),
        corners=corners(space, index),
        tokens_per_parameter=None if tokens is None else tokens / total,
        speedup=tuple(speedup.tolist()),
        tpot_s=tuple(tpot.tolist()),
        tokens_per_s_per_gpu=tuple(
            np.asarray(laws.tokens_per_s_per_gpu(question.batches, tpot, space.setup.placement.gpus)).tolist()
        ),
        n_draft=tuple(int(x) for x in space.n_draft[:, index]),
        largest_batch=int(space.largest_batch[index]),
        objective=question.value(float(space.score[index])),
        objective_gain=objective_gain,
        speedup_gain=speedup_gain,
        tpot_gain=tpot_gain,
        tier=lowest([drawn.tier, base.tier]),
        extrapolated=drawn.extrapolated,
    )


def _counts(space: DesignSpace, index: int) -> tuple[float, float, float, int]:
    """(N, k, s, expert width) of a design."""
    mix = space.mix([index])
    n, k, s = (float(axis[0]) for axis in (mix.n_experts, mix.n_active, mix.n_shared))
    return n, k, s, int(space.expert_width[index])


def shape_errors(space: DesignSpace, index: int, n_draws: int) -> Array:
    """Factor on a design's gain for the kernels of its own expert shape, [draws]. [-]

    It is 1 where the shape is the baseline's own.
    """
    n, k, s, width = _counts(space, index)
    body = int(space.body[index])
    same = (n, k, s, width, body) == (*space.baseline.counts, space.baseline.expert_width, 0)
    # Seeded by the design, so that its error is the same in every comparison; s by its sixteenths, a whole number.
    noise = np.random.default_rng([int(n), int(k), int(16 * s), width, body])
    return np.asarray(np.exp((0.0 if same else SHAPE_LOG_SD) * noise.standard_normal(n_draws)))


def _gains(space: DesignSpace, index: int, drawn: DrawnDesigns, base: DrawnDesigns) -> tuple[Band, Band, Band]:
    """Objective, speedup and time per output token over the baseline's, with bands from shared draws."""
    own, question = space.baseline, space.question
    wobble = shape_errors(space, index, len(base.speedup))
    weight = question.batch_weights

    def times(found: DrawnDesigns) -> tuple[Array, Array]:
        return (found.tpot_s * weight).sum(1), (found.tpot_s * found.speedup * weight).sum(1)

    (spec, plain), (base_spec, base_plain) = times(drawn), times(base)
    gpus = space.setup.placement.gpus
    score, base_score = (question.score(gpus, x.speedup.T, x.tpot_s.T) for x in (drawn, base))
    speedup, tpot = (np.asarray(x[:, index], float) for x in (space.speedup, space.tpot_s))
    base_tpot = question.mean_tpot_s(own.served.tpot_s[:, 0])
    base_speedup = question.mean_speedup(own.served.speedup[:, 0], own.served.tpot_s[:, 0])
    return (
        Band.of(float(space.score[index]) / own.score, score / base_score * wobble),
        Band.of(question.mean_speedup(speedup, tpot) / base_speedup, plain / spec / (base_plain / base_spec) * wobble),
        Band.of(base_tpot / question.mean_tpot_s(tpot), base_spec / spec * wobble),
    )
