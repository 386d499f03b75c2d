"""Single designs out of a space: gain over the baseline with a band, training cost, quality by each
law."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.grid import design_architecture
from advisor.answers.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.catalog.routing_shift import shifted_preset
from advisor.physics import laws
from advisor.physics.bands import band
from advisor.physics.memory import memory_fit
from advisor.physics.quality import (
    SPARSITY_EXPONENT_RANGE,
    activation_ratio,
    anchored_ratio,
    granularity,
    law_range,
    training_flops,
)
from advisor.predict.curve import curve_for
from advisor.predict.prefill import prefill_per_token_s
from advisor.predict.setup import Setup
from advisor.prediction import Array, Tier, lowest

SHAPE_LOG_SD = 0.05
"""Error of one expert shape's kernels that the baseline's does not share (assumed; fitted kernels
miss a shape left out of the fit by 1.4-6 % in the median). All other errors are drawn once for both
designs."""


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
        low, high = map(float, band(draws))
        return cls(
            float(value),
            min(low, float(value)),
            max(high, float(value)),
            float(np.mean(draws > 1.0)),
        )


@dataclass(frozen=True)
class Candidate:
    """One design in full. Tuples run over the question's batches; times in seconds, sizes in
    parameters."""

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
    quality: tuple[LawQuality, ...]
    """Size by each law, all of which it keeps where it is a candidate."""
    training_cost: float
    """Training compute at equal tokens over the baseline's: active parameters over its. [-]"""
    training_flop: float | None
    """6 N_act D; None where the training tokens are not given. [FLOP]"""
    corners: tuple[tuple[str, float], ...]
    """Ends of the space or of a law's data that it lies at, each with its value."""
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

    @property
    def quality_range(self) -> tuple[float, float]:
        """Size over the baseline's by the lowest and by the highest law. [-]"""
        ratios = [law.ratio for law in self.quality]
        return min(ratios), max(ratios)


def setup_of(space: DesignSpace, index: int) -> Setup:
    """A design as a Setup: what `curve_for` and every other part of the advisor take."""
    body = int(space.body[index])
    setup = space.bodies[body].setup
    n, k, s, width = _counts(space, index)
    architecture = design_architecture(space.bodies[body].architecture, int(n), int(k), s, width)
    per_pass = setup.draft_architecture
    if setup.drafter.kind == "mtp" and per_pass is not None and per_pass.moe is not None:
        layer = architecture.routed.model_copy(update={"count": per_pass.moe.count})
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
    """A design at batches [nB] and one K each. Draws are shared: what two have in common cancels in
    a comparison."""
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
    """Full descriptions of a few designs, in the order given. Bands share their draws with the
    baseline's."""
    base = _drawn_baseline(space)
    return [_candidate(space, index, base) for index in indices]


def _drawn_baseline(space: DesignSpace) -> DrawnDesigns:
    return drawn_at(
        space.bodies[0].setup, space.question.batches, space.baseline.by_fit.n_draft[:, 0]
    )


def _candidate(space: DesignSpace, index: int, base: DrawnDesigns) -> Candidate:
    baseline = space.baseline
    question = space.question
    n, k, s, width = _counts(space, index)
    total = float(space.total_params[index])
    active = float(space.active_params[index])
    body = space.bodies[space.body[index]].architecture
    activation = float(activation_ratio(n, k, s))
    tokens = question.training_tokens
    drawn = drawn_at(setup_of(space, index), space.question.batches, space.n_draft[:, index])
    objective_gain, speedup_gain, tpot_gain = _gains(space, index, drawn, base)
    speedup = np.asarray(space.speedup[:, index], float)
    tpot = np.asarray(space.tpot_s[:, index], float)
    throughput = np.asarray(
        laws.tokens_per_s_per_gpu(question.batches, tpot, space.setup.placement.gpus)
    )
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
        quality=qualities(space, index),
        training_cost=active / baseline.active_params,
        training_flop=None if tokens is None else float(training_flops(active, tokens)),
        corners=corners(space, index),
        tokens_per_parameter=None if tokens is None else tokens / total,
        speedup=tuple(speedup.tolist()),
        tpot_s=tuple(tpot.tolist()),
        tokens_per_s_per_gpu=tuple(throughput.tolist()),
        n_draft=tuple(map(int, space.n_draft[:, index])),
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
    n = float(mix.n_experts[0])
    k = float(mix.n_active[0])
    s = float(mix.n_shared[0])
    return n, k, s, int(space.expert_width[index])


def shape_errors(space: DesignSpace, index: int, n_draws: int) -> Array:
    """Factor on a design's gain for the kernels of its expert shape, [draws]. [-] 1 at the
    baseline's own."""
    body = int(space.body[index])
    n, k, s, width = _counts(space, index)
    same = (n, k, s, width, body) == (*space.baseline.counts, space.baseline.expert_width, 0)
    # Seeded by the design, so that its error is the same in every comparison; s by its sixteenths,
    # a whole number.
    noise = np.random.default_rng([int(n), int(k), int(16 * s), width, body])
    return np.asarray(np.exp((0.0 if same else SHAPE_LOG_SD) * noise.standard_normal(n_draws)))


def _gains(
    space: DesignSpace, index: int, drawn: DrawnDesigns, base: DrawnDesigns
) -> tuple[Band, Band, Band]:
    """Objective, speedup and time per output token over the baseline's, with bands from shared
    draws."""
    baseline = space.baseline
    question = space.question
    wobble = shape_errors(space, index, len(base.speedup))
    weight = question.batch_weights

    def times(design: DrawnDesigns) -> tuple[Array, Array]:
        return (design.tpot_s * weight).sum(1), (design.tpot_s * design.speedup * weight).sum(1)

    spec, plain = times(drawn)
    base_spec, base_plain = times(base)
    gpus = space.setup.placement.gpus
    score = question.score(gpus, drawn.speedup.T, drawn.tpot_s.T)
    base_score = question.score(gpus, base.speedup.T, base.tpot_s.T)
    speedup = np.asarray(space.speedup[:, index], float)
    tpot = np.asarray(space.tpot_s[:, index], float)
    base_tpot = question.mean_tpot_s(baseline.served.tpot_s[:, 0])
    base_speedup = question.mean_speedup(
        baseline.served.speedup[:, 0], baseline.served.tpot_s[:, 0]
    )
    return (
        Band.of(float(space.score[index]) / baseline.score, score / base_score * wobble),
        Band.of(
            question.mean_speedup(speedup, tpot) / base_speedup,
            plain / spec / (base_plain / base_spec) * wobble,
        ),
        Band.of(base_tpot / question.mean_tpot_s(tpot), base_spec / spec * wobble),
    )


_EDGE = 0.02
"""A value within this share of a bound lies at it. [-]"""
LAW_NAMES = {
    "leverage": "efficiency leverage (arXiv:2507.17702)",
    "anchor": "N_act ~ A^0.30 (arXiv:2507.20534)",
    "loss": "expert-mix loss (arXiv:2509.23678)",
}
"""The laws for equal quality, all of which a design must keep."""


@dataclass(frozen=True)
class LawQuality:
    """Size of a design by one law: dense-equivalent, over the baseline's, with its known range.
    [-]"""

    law: str
    """A key of LAW_NAMES."""
    ratio: float
    low: float | None
    """None where the law was published without an uncertainty."""
    high: float | None


def qualities(space: DesignSpace, index: int) -> tuple[LawQuality, ...]:
    """Quality of one design by each law, in the order of LAW_NAMES.

    leverage: known to what laws differ by per octave of activation ratio. anchor: between the
    exponents of its three points. loss: the loss difference as active parameters, those needed for
    the design's loss over those it lacks.
    """
    baseline = space.baseline
    mix = space.mix([index])
    activation = float(activation_ratio(mix.n_experts[0], mix.n_active[0], mix.n_shared[0]))
    active = float(space.active_params[index])
    ratio, middle, by_loss = map(float, space.quality[:, index])
    low, high = map(float, law_range(ratio, activation, baseline.activation))
    anchored = [
        float(anchored_ratio(active, activation, baseline.active_params, baseline.activation, p))
        for p in SPARSITY_EXPONENT_RANGE
    ]
    return (
        LawQuality("leverage", ratio, low, high),
        LawQuality("anchor", middle, min(anchored), max(anchored)),
        LawQuality("loss", by_loss, None, None),
    )


Corner = tuple[str, float]
"""Which end of the search or of a law's data a design lies at, and its value there."""


def corners(space: DesignSpace, index: int) -> tuple[Corner, ...]:
    """Ends of the grid or of a law's data that a design, but not the baseline, lies at."""
    baseline = space.baseline
    rails = space.rails
    n, k, s, width = _counts(space, index)
    ends: list[Corner] = []
    for name, value, own_value in (
        ("n_experts", n, baseline.n_experts),
        ("n_active", k, baseline.n_active),
        ("n_shared", s, baseline.n_shared),
    ):
        tried = getattr(space, name)
        least = float(tried.min())
        most = float(tried.max())
        is_free = value != np.float32(own_value) and least != most
        if is_free and value in (least, most) and (value or name != "n_shared"):
            ends.append((f"{'most' if value == most else 'fewest'}_{name}", value))
    is_named = any(case.endswith("n_active") for case, _ in ends)
    if k == rails.min_active and k != baseline.n_active and not is_named:
        ends.append(("law_active", k))
    activation = float(activation_ratio(n, k, s))
    if activation <= rails.min_activation * (1.0 + _EDGE) and activation < baseline.activation:
        ends.append(("law_activation", activation))
    share = s / (k + s)
    if share >= rails.max_shared_share * (1.0 - _EDGE) and s != baseline.n_shared:
        ends.append(("law_shared", share))
    grain = 2.0 * space.bodies[space.body[index]].architecture.hidden_size / width
    for bound, case in zip(rails.granularity, ("law_coarsest", "law_finest"), strict=True):
        if abs(grain / bound - 1.0) <= _EDGE and width != baseline.expert_width:
            ends.append((case, float(width)))
    return tuple(ends)


def is_clear(space: DesignSpace, item: Candidate) -> bool:
    """Whether a design has the title: gain above 1 in the whole band, no slower, the baseline near
    its fit."""
    if abs(space.measured_gap) > MAX_MEASURED_GAP:
        return False
    return item.objective_gain.low > 1.0 and item.tpot_gain.value >= 1.0


def keeps_baseline(space: DesignSpace, item: Candidate) -> bool:
    """Whether the answer is to keep the baseline: it can serve, can be compared, and is not clearly
    beaten."""
    return not (
        space.baseline_problem
        or abs(space.measured_gap) > MAX_MEASURED_GAP
        or is_clear(space, item)
    )


def own_design(space: DesignSpace, item: Candidate) -> bool:
    """Whether a design is the baseline itself."""
    baseline = space.baseline
    counts = (float(item.n_experts), float(item.n_active), float(item.n_shared))
    return bool(np.allclose(counts, baseline.counts)) and (item.expert_width, item.body) == (
        baseline.expert_width,
        0,
    )
