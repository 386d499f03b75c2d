"""Single designs out of a space: gain over the baseline with a band, training cost, quality by each
law, words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.dials import Costed
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
from advisor.text import MERITS

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

    @property
    def quality_range(self) -> tuple[float, float]:
        """Size over the baseline's by the lowest and by the highest law. [-]"""
        ratios = [law.ratio for law in self.quality]
        return min(ratios), max(ratios)


Counts = tuple[float, float, float, int]
"""(N, k, s, expert width) of a design."""


def setup_of(space: DesignSpace, index: int) -> Setup:
    """A design as a Setup: what `curve_for` and every other part of the advisor take."""
    return _setup(space, int(space.body[index]), _counts(space, index))


def _setup(space: DesignSpace, body: int, counts: Counts) -> Setup:
    setup = space.bodies[body].setup
    (n, k, s, width) = counts
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
        space.bodies[0].setup, space.question.batches, space.baseline.served.n_draft[:, 0]
    )


def tpot_gain(space: DesignSpace, design: Costed) -> Band:
    """The tpot_gain that a candidate would have, of a design that need not be in the space."""
    n, k, s, width = design.experts
    counts: Counts = (float(n), float(k), s, width)
    weight = space.question.batch_weights
    base = _drawn_baseline(space)
    drawn = drawn_at(_setup(space, 0, counts), space.question.batches, np.array(design.n_draft))
    design_s = (drawn.tpot_s * weight).sum(1)
    baseline_s = (base.tpot_s * weight).sum(1)
    mean_s = space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0])
    return Band.of(
        mean_s / design.tpot_s,
        baseline_s / design_s * _shape_errors(space, 0, counts, len(design_s)),
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


def _counts(space: DesignSpace, index: int) -> Counts:
    mix = space.mix([index])
    n = float(mix.n_experts[0])
    k = float(mix.n_active[0])
    s = float(mix.n_shared[0])
    return n, k, s, int(space.expert_width[index])


def shape_errors(space: DesignSpace, index: int, n_draws: int) -> Array:
    """Factor on a design's gain for the kernels of its expert shape, [draws]. [-] 1 at the
    baseline's own."""
    return _shape_errors(space, int(space.body[index]), _counts(space, index), n_draws)


def _shape_errors(space: DesignSpace, body: int, counts: Counts, n_draws: int) -> Array:
    n, k, s, width = counts
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
_MOST_TOLD = 2.0
"""Ratios above this are not printed: the laws are then far outside the designs they were fitted on.
[-]"""
LAW_NAMES = {
    "leverage": "efficiency leverage (arXiv:2507.17702)",
    "anchor": "N_act ~ A^0.30 (arXiv:2507.20534)",
    "loss": "expert-mix loss (arXiv:2509.23678)",
}
"""The laws for equal quality, all of which a design must keep."""
ONE_LAW = next(iter(LAW_NAMES.values())).split(" (")[0]
"""Name, without its source, of the law that promises most of few active experts."""


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

    @property
    def short(self) -> str:
        """The ratio as `96%`, or `>200%` beyond what a law can be trusted to tell."""
        return f">{_MOST_TOLD:.0%}" if self.ratio > _MOST_TOLD else f"{self.ratio:.0%}"

    @property
    def text(self) -> str:
        """The ratio, range and law, as in `96% (84-110%)
        by efficiency leverage (arXiv:2507.17702)`."""
        band = (
            "no band published"
            if self.low is None or self.high is None
            else f"{self.low:.0%}-{self.high:.0%}"
        )
        return f"{self.short} ({band}) by {LAW_NAMES[self.law]}"


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


def corners(space: DesignSpace, index: int) -> tuple[str, ...]:
    """Ends of the grid or of a law's data that a design, but not the baseline, lies at, in
    words."""
    baseline = space.baseline
    corner_texts = []
    n, k, s, _ = _counts(space, index)
    for name, value, own_value, tried in (
        ("experts", n, baseline.n_experts, space.n_experts),
        ("active experts", k, baseline.n_active, space.n_active),
        ("shared experts", s, baseline.n_shared, space.n_shared),
    ):
        least = float(tried.min())
        most = float(tried.max())
        if (
            value == np.float32(own_value)
            or least == most
            or (value == 0.0 and name == "shared experts")
        ):
            continue
        if value in (least, most):
            extreme = "most" if value == most else "fewest"
            corner_texts.append(f"{value:g} {name}, the {extreme} tried")
    rails = space.rails
    if (
        k == rails.min_active
        and k != baseline.n_active
        and not any("active" in text for text in corner_texts)
    ):
        corner_texts.append(f"{k:g} active experts, the fewest that the laws know")
    activation = float(activation_ratio(n, k, s))
    if activation <= rails.min_activation * (1.0 + _EDGE) and activation < baseline.activation:
        corner_texts.append(f"activation ratio {activation:.1%}, the least behind the law")
    share = s / (k + s)
    if share >= rails.max_shared_share * (1.0 - _EDGE) and s != baseline.n_shared:
        corner_texts.append(f"shared share {share:.0%}, the most allowed")
    body = space.bodies[space.body[index]].architecture
    grain = 2.0 * body.hidden_size / float(space.expert_width[index])
    for bound, words in zip(rails.granularity, ("coarsest", "finest"), strict=True):
        if (
            abs(grain / bound - 1.0) <= _EDGE
            and int(space.expert_width[index]) != baseline.expert_width
        ):
            corner_texts.append(
                f"width {int(space.expert_width[index])}, the {words} experts that the law knows"
            )
    return tuple(corner_texts)


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


def design_words(space: DesignSpace, item: Candidate, width: str = ", width {}") -> str:
    """A design in the words of an answer: `top-8 of 120, no shared, width 896, K = 4`."""
    body = f", {space.bodies[item.body].architecture.name}" if item.body else ""
    experts = _experts_words(item.n_active, item.n_experts, item.n_shared)
    return f"{experts}{width.format(item.expert_width)}{body}{k_words(space, item.n_draft)}"


def headline(space: DesignSpace, chosen: Candidate | None) -> str:
    """The answer in one line: build the design that is clearly better at equal quality, or keep
    today's."""
    if chosen is None:
        return "No design keeps every limit"
    baseline = space.baseline
    gain = chosen.objective_gain
    merit = MERITS[space.question.objective]
    baseline_words = _experts_words(baseline.n_active, baseline.n_experts, baseline.n_shared)
    if space.baseline_problem:
        return f"Build {design_words(space, chosen, width='')}: today's design cannot serve this"
    if abs(gap := space.measured_gap) > MAX_MEASURED_GAP:
        return (
            f"Measure first: the cost model is off by {abs(gap):.0%} for {baseline_words}, too "
            "much to compare designs"
        )
    better, than = (
        ("faster", " than")
        if space.question.objective == "tpot"
        else (f"better by {merit.words}", ", not")
    )
    if not keeps_baseline(space, chosen):
        gain_phrase = gain_words(space, chosen).replace("as fast", "faster")
        return (
            f"Build {design_words(space, chosen, width='')}: {gain_phrase}{than} "
            f"{baseline_words}, at equal quality"
        )
    baseline_words += k_words(space, baseline.served.n_draft[:, 0].tolist())
    if own_design(space, chosen):
        return f"Keep {baseline_words}: no design of equal quality is {better}"
    if chosen.tpot_gain.value < 1.0 < gain.low:
        return (
            f"Keep {baseline_words}: the best of equal quality by {merit.words} is slower per token"
        )
    return f"Keep {baseline_words}: no design of equal quality is clearly {better}"


def gain_words(space: DesignSpace, item: Candidate) -> str:
    """Gain over the baseline with its range: `1.05× as fast (80% range 0.97–1.20×)`, or
    `no faster (...)`."""
    gain = item.objective_gain
    objective = space.question.objective
    merit = "as fast" if objective == "tpot" else MERITS[objective].gain_of
    gain_phrase = f"{gain.value:.2f}× {merit}"
    if gain_phrase == "1.00× as fast":
        gain_phrase = "no faster"
    return f"{gain_phrase} (80% range {gain.low:.2f}–{gain.high:.2f}×)"


def k_words(space: DesignSpace, drafts: Sequence[int]) -> str:
    """End of a design's words, `, K = 3` or `, K = 2/3` by batch. Empty without a drafter."""
    return (
        ""
        if space.setup.drafter.kind == "none"
        else f", K = {'/'.join(map(str, dict.fromkeys(drafts)))}"
    )


def _experts_words(n_active: int, n_experts: int, n_shared: float) -> str:
    shared = f"{n_shared:.3g} shared" if n_shared else "no shared"
    return f"top-{n_active} of {n_experts}, {shared}"


def title(space: DesignSpace, chosen: Candidate) -> str:
    """The headline, then the design and what it gives, what it costs to train, and its quality by
    each law."""
    baseline = space.baseline
    batches = ", ".join(f"{batch:g}" for batch in space.question.batches)
    start = f"{headline(space, chosen)}. At batch {batches} on {space.setup.place}"
    words = design_words(space, chosen)
    if own_design(space, chosen):
        return f"{start} it is {words}."
    problem = f" {space.baseline_problem}" if space.baseline_problem else ""
    lead = (
        ""
        if is_clear(space, chosen) or problem
        else f"the best alternative, {gain_words(space, chosen)}, is "
    )
    return (
        f"{start}, {lead}{words} instead of top-{baseline.n_active} of {baseline.n_experts}: "
        f"{_merits(space, chosen)}.{problem} {price_words(space, chosen)}"
    )


def _merits(space: DesignSpace, chosen: Candidate) -> str:
    """The objective against the baseline's; of a speedup, the speed per token in the same line."""
    question = space.question
    merit = MERITS[space.question.objective]
    time = chosen.tpot_gain.value
    unit = "per output token" if question.objective == "tpot" else merit.words
    comparison = (
        f"{merit.text(chosen.objective)} {unit} against "
        f"{merit.text(question.value(space.baseline.score))}"
    )
    if question.objective != "sd_speedup":
        return comparison
    direction = "faster" if time >= 1.0 else "slower"
    beside = f"{max(time, 1.0 / time):.2f} times {direction} than the baseline"
    return f"{comparison}; a ratio to its own plain decoding, not a speed: per token it is {beside}"


def price_words(space: DesignSpace, chosen: Candidate) -> str:
    """Sizes, training cost at equal tokens, and quality by each law."""
    baseline = space.baseline
    flop = "" if chosen.training_flop is None else f" ({chosen.training_flop:.2g} FLOP)"
    growth = chosen.total_params / baseline.total_params
    laws = ", ".join(item.text for item in chosen.quality)
    return (
        f"{chosen.total_params / 1e9:.1f} B weights ({growth:.2f} times the baseline's), "
        f"{chosen.active_params / 1e9:.2f} B active without embeddings; training takes "
        f"{chosen.training_cost:.2f} times the compute at equal tokens{flop}. Quality as "
        f"dense-equivalent size: {laws}."
    )
