"""Single changes to a scenario (listed in docs/model.md), another expert design among them, and
what each brings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.best_k import meets_limit, recommended_draft
from advisor.answers.by_batch import served_drafts
from advisor.answers.design.answer import best_by_objective
from advisor.answers.design.candidates import Band, Candidate
from advisor.answers.design.dials import baseline_experts, experts_of
from advisor.answers.design.search import design_space
from advisor.answers.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.answers.design.start import design_config, design_name
from advisor.answers.flags import Flags
from advisor.answers.schedule import MIN_GAIN
from advisor.catalog.engines import engine_ids
from advisor.physics import laws
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.architecture import BYTES_PER_WEIGHT
from advisor.physics.bands import make_draws
from advisor.physics.draft import load_drafter
from advisor.physics.hardware import ComputeDtype, compute_dtype, gpus_of_node, measured_hardware
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import load_setup
from advisor.predict.ratios import RatioRecord, measured_range, records_between, unproven
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.scenario_fields import MAX_BATCH, MAX_DRAFT, RELEASE_FIELDS
from advisor.predict.setup import Setup
from advisor.predict.spend import drawn_times
from advisor.prediction import AdvisorError, Array, Tier, lowest

Kind = Literal[
    "batch",
    "draft length",
    "weights",
    "expert weights",
    "KV cache",
    "placement",
    "accelerator",
    "drafter",
    "engine",
    "design",
]
_NODE_GPUS = 8
_BATCH_FACTORS = (0.5, 2.0, 4.0)
"""Another load altogether is no change of the same deployment."""
_NARROWER = 0.9
"""A format counts as narrower from this share of today's bytes on. [-]"""
_WEIGHT_FORMATS: tuple[ComputeDtype, ...] = ("fp8", "nvfp4")
_EXPERT_FORMATS: tuple[ComputeDtype, ...] = ("fp8", "nvfp4", "mxfp4")
_WEIGHT_ONLY: tuple[ComputeDtype, ...] = ("mxfp4",)
"""Formats tried wherever they are narrower, since engines widen them before they multiply."""
ChangeNote = Literal[
    "format_quality",
    "assumed_ranks",
    "no_prices",
    "other_length",
    "no_refit",
    "no_release",
    "other_model",
    "moved_routing",
]
"""What a comparison does not cover."""
Refusal = Literal["unproven", "memory", "limit", "error"]
"""Why a change has no effect to show: measured pairs, memory, the limit, or a refusal."""


@dataclass(frozen=True)
class Change:
    """One change to a scenario."""

    kind: Kind
    before: Any
    """Today's value: a number, an id, a name, or the ranks (tensor, expert)."""
    after: Any
    """The changed value; of a design its experts."""
    scenario: Scenario
    """The scenario with the change made."""
    notes: tuple[ChangeNote, ...] = ()
    curve: str | None = None
    """Id of the other accepted length, of `other_length`."""
    dataset: str | None = None
    kernels_apart: bool = False
    """Kernels were measured apart from today's, so their errors are drawn apart."""
    other_acceptance: bool = False
    """The accepted length comes from another source than today's: the two are compared all the
    same, and it is said."""


def changes(advice: Advice) -> tuple[Change, ...]:
    """All single changes of the documented list that make another valid scenario. Designs are apart
    (`designs`)."""
    makers = (
        _batches,
        _draft_lengths,
        _formats,
        _cache,
        _placements,
        _accelerators,
        _drafters,
        _engines,
    )
    by_scenario = {change.scenario: change for make in makers for change in make(advice)}
    by_scenario.pop(advice.scenario, None)
    return tuple(by_scenario.values())


def _made(
    kind: Kind, step: tuple[Any, Any], scenario: Scenario, values: dict[str, Any], **extra: Any
) -> Iterator[Change]:
    """The change from one value to another, or nothing where the scenario refuses it."""
    try:
        changed = build_scenario(**(dict(scenario) | scenario.moved(values)))
        yield Change(kind, *step, changed, **extra)
    except AdvisorError:
        return


def _batches(advice: Advice) -> Iterator[Change]:
    scenario = advice.scenario
    largest = advice.setup.memory.largest_batch
    wanted = {round(scenario.batch_size * factor) for factor in _BATCH_FACTORS}
    if min(_BATCH_FACTORS) <= advice.sweet_spot_batch / scenario.batch_size <= max(_BATCH_FACTORS):
        wanted.add(int(advice.sweet_spot_batch))
    if scenario.batch_size > largest > 0:
        wanted = {largest}
    for batch in sorted(wanted):
        if advice.setup.placement.attention_groups <= batch <= min(largest, MAX_BATCH):
            step = scenario.batch_size, batch
            yield from _made("batch", step, scenario, {"batch_size": batch})


def _draft_lengths(advice: Advice) -> Iterator[Change]:
    scenario = advice.scenario
    if advice.recommendation.n_draft == scenario.k_max < MAX_DRAFT:
        longer = min(2 * scenario.k_max, MAX_DRAFT)
        step = scenario.k_max, longer
        yield from _made("draft length", step, scenario, {"k_max": longer})


def _formats(advice: Advice) -> Iterator[Change]:
    scenario = advice.scenario
    setup = advice.setup
    dtypes = setup.architecture.dtypes
    moe = setup.architecture.moe
    stored = {dtypes.attention, dtypes.dense} | (
        {dtypes.routed, dtypes.shared} if moe is not None else set()
    )
    for dtype in _WEIGHT_FORMATS:
        narrower = [
            BYTES_PER_WEIGHT[dtype] <= _NARROWER * BYTES_PER_WEIGHT[today] for today in stored
        ]
        no_wider = all(BYTES_PER_WEIGHT[dtype] <= BYTES_PER_WEIGHT[today] for today in stored)
        if any(narrower) and no_wider and compute_dtype(setup.hardware, dtype) == dtype:
            step = "/".join(sorted(stored)), dtype
            values = {"weight_dtype": dtype, "expert_dtype": None}
            yield from _made(
                "weights", step, scenario, values, notes=("format_quality",), kernels_apart=True
            )
    for dtype in _EXPERT_FORMATS if moe is not None else ():
        served = dtype in _WEIGHT_ONLY or compute_dtype(setup.hardware, dtype) == dtype
        if served and BYTES_PER_WEIGHT[dtype] <= _NARROWER * BYTES_PER_WEIGHT[dtypes.routed]:
            yield from _made(
                "expert weights",
                (dtypes.routed, dtype),
                scenario,
                {"expert_dtype": dtype},
                notes=("format_quality",),
                kernels_apart=True,
            )


def _cache(advice: Advice) -> Iterator[Change]:
    if advice.setup.cache.dtype == "bf16":
        yield from _made(
            "KV cache",
            ("bf16", "fp8"),
            advice.scenario,
            {"kv_dtype": "fp8"},
            notes=("format_quality",),
        )


def _placements(advice: Advice) -> Iterator[Change]:
    """Half and double the tensor parallelism, and experts split over the same ranks. Within a node.

    Where today's placement does not fit, every wider one within the node. All-reduces between nodes
    are not priced, so tensor parallelism stays within the accelerator's own.
    """
    scenario = advice.scenario
    node = gpus_of_node(advice.setup.hardware)
    tp = scenario.tensor_parallel
    ep = scenario.expert_parallel
    whole = scenario.n_gpus
    ranks = [tp, tp // 2, tp * 2]
    if advice.setup.memory.largest_batch < scenario.batch_size:
        ranks = [tp * 2**power for power in range(1, 4)]
    pairs = [
        (tensor, expert)
        for tensor in ranks
        for expert in sorted({1, ep, tensor})
        if 1 <= tensor <= node
    ]
    for tensor, expert in pairs:
        gpus = max(tensor, expert)
        if gpus > max(_NODE_GPUS, whole) or (tensor, expert) == (tp, ep):
            continue
        n_gpus = whole if whole > advice.setup.placement.gpus and whole % gpus == 0 else gpus
        is_assumed = expert > 1 and scenario == scenario.on_assumed_ranks()
        notes = ("assumed_ranks",) if is_assumed else ()
        values = {"n_gpus": n_gpus, "tensor_parallel": tensor, "expert_parallel": expert}
        step = (tp, ep), (tensor, expert)
        yield from _made("placement", step, scenario, values, notes=notes)


def _accelerators(advice: Advice) -> Iterator[Change]:
    """Accelerators with kernel measurements: a ranking on data sheets alone would say little.

    All-reduces between nodes are not priced, so none on whose node today's tensor parallelism has
    no room.
    """
    for hardware in measured_hardware():
        if advice.scenario.tensor_parallel > gpus_of_node(hardware):
            continue
        yield from _made(
            "accelerator",
            (advice.setup.hardware.name, hardware.name),
            advice.scenario,
            {"hardware_id": hardware.id, "hardware_json": None, "refit": None},
            notes=("no_prices", *_without_refit(advice.scenario)),
            kernels_apart=hardware.kernel_table_device != advice.setup.hardware.kernel_table_device,
        )


def _drafters(advice: Advice) -> Iterator[Change]:
    """Drafters whose accepted length was measured with this very model."""
    scenario = advice.scenario
    seen = {scenario.drafter_id}
    for curve in acceptance_curves(model_id=advice.setup.architecture.id):
        if curve.drafter_id in seen:
            continue
        seen.add(curve.drafter_id)
        yield from _made(
            "drafter",
            (advice.setup.drafter.name, load_drafter(curve.drafter_id).name),
            scenario,
            {"drafter_id": curve.drafter_id, "acceptance": curve.id},
            notes=("other_length",),
            curve=curve.id,
            dataset=curve.dataset,
            other_acceptance=True,
        )


def _engines(advice: Advice) -> Iterator[Change]:
    for engine in engine_ids():
        if engine != advice.scenario.engine:
            step = advice.scenario.engine, engine
            values = {"engine": engine, "refit": None, **dict.fromkeys(RELEASE_FIELDS)}
            notes = (*_without_refit(advice.scenario), *_without_release(advice.scenario))
            yield from _made(
                "engine", step, advice.scenario, values, notes=notes, kernels_apart=True
            )


def _without_refit(scenario: Scenario) -> tuple[ChangeNote, ...]:
    """The note on a change that a refit, made on one accelerator and engine, does not follow."""
    return ("no_refit",) if scenario.refit else ()


def _without_release(scenario: Scenario) -> tuple[ChangeNote, ...]:
    """The note on another engine, of which the release that is stated says nothing."""
    stated = any(getattr(scenario, name) is not None for name in RELEASE_FIELDS)
    return ("no_release",) if stated else ()


@dataclass(frozen=True)
class DesignStanding:
    """The scenario's design against the best for speedup and the best for time per token, at equal
    quality."""

    space: DesignSpace
    best: Candidate
    fastest: Candidate

    @property
    def facts(self) -> dict[str, Any]:
        """Facts on what the design loses in speedup and in time per token, at equal quality."""
        space = self.space
        return {
            "gap": space.measured_gap,
            "gap_large": abs(space.measured_gap) > MAX_MEASURED_GAP,
            "problem": space.baseline_problem,
            "same": self.best.index == self.fastest.index,
            **_loss_facts(space, "best", self.best, self.best.speedup_gain),
            **_loss_facts(space, "fastest", self.fastest, self.fastest.tpot_gain),
        }


_LOSSES = ("", "_gain", "_loss", "_loss_low", "_loss_high", "_wins", "_weights", "_grows")
STANDING_FACTS = frozenset(
    (
        *("gap", "gap_large", "problem", "same"),
        *(f"{who}{name}" for who in ("best", "fastest") for name in _LOSSES),
    )
)
STANDING_FLAGS: Flags = {
    "gap_large": ("gap_large", "==", True),
    "problem": ("problem", "known", None),
    "same": ("same", "==", True),
    **{
        f"{who}_{name}": (f"{who}_{name}", "==", True)
        for who in ("best", "fastest")
        for name in ("wins", "grows")
    },
}


def _loss_facts(space: DesignSpace, who: str, item: Candidate, gain: Band) -> dict[str, Any]:
    """Facts on one leading design, and what today's loses to it. Shares [0 to 1]."""
    weights = item.total_params / space.baseline.total_params
    values = (
        experts_of(space, item.index),
        gain.value,
        max(0.0, 1.0 - 1.0 / gain.value),
        1.0 - 1.0 / gain.low,
        1.0 - 1.0 / gain.high,
        gain.low > 1.0 and gain.value >= 1.0 + MIN_GAIN,
        weights,
        abs(weights - 1.0) > _SAME_SIZE,
    )
    return {f"{who}{name}": value for name, value in zip(_LOSSES, values, strict=True)}


def design_is_searched(setup: Setup) -> bool:
    """Whether other expert designs can be held against this scenario's: it needs experts and a
    drafter."""
    return setup.architecture.moe is not None and setup.drafter.kind != "none"


def design_standing(setup: Setup) -> DesignStanding | None:
    """None where designs are not searched, or where none keeps every limit."""
    if not design_is_searched(setup):
        return None
    try:
        space = design_space(setup)
    except AdvisorError:
        return None
    best_designs = best_by_objective(space)
    if not best_designs:
        return None
    return DesignStanding(space, best_designs["sd_speedup"], best_designs["tpot"])


_SAME_SIZE = 0.05
"""Relative difference of total parameters that is not told (choice of this project). [-]"""


def design_changes(scenario: Scenario, standing: DesignStanding) -> list[tuple[Change, Candidate]]:
    """The best design for speedup and the best for time per token, as changes that can be applied.

    None where the baseline's own measured rows are far from the form: the comparison would be of
    kernels, not designs.
    """
    space = standing.space
    if abs(space.measured_gap) > MAX_MEASURED_GAP:
        return []
    chosen = {candidate.index: candidate for candidate in (standing.fastest, standing.best)}
    pairs = []
    for index, candidate in chosen.items():
        try:
            config = json.dumps(design_config(space, index))
            values = {"model_id": design_name(space, candidate), "model_config_json": config}
            adopted = build_scenario(**(dict(scenario) | scenario.moved(values)))
            notes: tuple[ChangeNote, ...] = ("other_model", "moved_routing")
            experts = experts_of(space, index)
            change = Change("design", baseline_experts(space), experts, adopted, notes)
        except AdvisorError:
            # its config.json cannot be written, so it cannot be made the scenario; the Design page
            # says why
            continue
        pairs.append((change, candidate))
    return pairs


Goal = Literal["tokens_per_s_per_gpu", "tpot", "speedup"]
GOALS: tuple[Goal, ...] = get_args(Goal)
"""What changes are ranked by; the first is the default: it is absolute, and more GPUs do not win it
by themselves."""
_APART_SEED = 20250602
"""Seed of kernel errors that have nothing in common with today's."""
_Z_80 = 1.2816
"""Standard deviations from the middle to an end of an 80 % band. [-]"""


@dataclass(frozen=True)
class Speed:
    """Speed of a scenario at its batch and best K."""

    n_draft: int
    speedup: float
    tpot_s: float
    tokens_per_s_per_gpu: float


@dataclass(frozen=True)
class Effect:
    """A change with what it does. `gain` is by goal, above 1 better, with its 80 % band."""

    change: Change
    before: Speed | None
    """None where today's scenario does not fit in memory."""
    after: Speed
    gain: Mapping[Goal, Band]
    tier: Tier
    """The lower of both scenarios' tiers."""
    extrapolated: bool = False

    def helps(self, goal: Goal) -> bool:
        """Whether the gain is beyond noise: its band lies above 1 and it reaches MIN_GAIN.

        A higher ratio does not help by itself: time per token or tokens/s per GPU must not fall
        with it.
        """
        if self.before is None:
            return True
        absolute = max(self.gain["tpot"].value, self.gain["tokens_per_s_per_gpu"].value)
        return (
            self.gain[goal].low > 1.0
            and self.gain[goal].value >= 1.0 + MIN_GAIN
            and absolute >= 1.0
        )


@dataclass(frozen=True)
class RefusedChange:
    """A change without an effect, and why."""

    reason: Refusal
    limit_ms: float | None = None
    error: str = ""
    """The refusal of a scenario that cannot be."""
    doubt: RatioRecord | None = None
    """Measured pairs that do not bear out its direction."""


@dataclass(frozen=True)
class NextSteps:
    """Changes that were tried, in the order of the list, those refused, and how the design
    stands."""

    effects: tuple[Effect, ...]
    refused: tuple[tuple[Change, RefusedChange], ...]
    standing: DesignStanding | None
    """None for a dense model, or one whose design cannot be searched."""


@dataclass(frozen=True)
class _Drawn:
    """A scenario at its batch: speeds at the best K, and the same under each draw, [draws]."""

    speed: Speed
    speedup: Array
    tpot_s: Array
    token_s: Array
    """As tpot_s with the prefill of the sequence's own prompt: what throughput goes by."""
    gpus: int
    batch: float
    tier: Tier
    extrapolated: bool


def next_steps(advice: Advice, pause: Callable[[], object] = lambda: None) -> NextSteps:
    """Evaluate every change of the documented list. `pause` is called between any two, so that a
    caller can stop it."""
    standing = design_standing(advice.setup)
    pause()
    fits, before = _today(advice)
    effects = []
    refused = []
    for change in changes(advice):
        result = _evaluated(advice, change, (fits, before), only_proven=fits)
        if isinstance(result, Effect):
            effects.append(result)
        else:
            refused.append((change, result))
        pause()
    effects += _designs(advice, standing) if fits and standing is not None else []
    return NextSteps(tuple(effects), tuple(refused), standing)


def best_effects(steps: NextSteps, goal: Goal, count: int = 3) -> tuple[Effect, ...]:
    """The changes that help most beyond noise, best first, at most one of each kind."""
    chosen: dict[str, Effect] = {}
    helping = [effect for effect in steps.effects if effect.helps(goal)]
    for effect in sorted(helping, key=lambda helpful: -_merit(helpful, goal)):
        chosen.setdefault(effect.change.kind, effect)
    return tuple(chosen.values())[:count]


def _merit(effect: Effect, goal: Goal) -> float:
    if effect.before is not None:
        return effect.gain[goal].value
    return {
        "speedup": effect.after.speedup,
        "tpot": 1.0 / effect.after.tpot_s,
        "tokens_per_s_per_gpu": effect.after.tokens_per_s_per_gpu,
    }[goal]


def _today(advice: Advice) -> tuple[bool, _Drawn]:
    column = advice.curve.column(advice.recommendation.n_draft)
    fits = advice.setup.memory.largest_batch >= advice.scenario.batch_size
    return fits, _at(advice.setup, advice.curve, advice.batch_index, column)


def evaluate(advice: Advice, change: Change) -> Effect | RefusedChange:
    """Effect of one change at the K that it serves, or the reason why it has none.

    Under the draws of today's answer.
    """
    return _evaluated(advice, change, _today(advice))


def _evaluated(
    advice: Advice, change: Change, today: tuple[bool, _Drawn], only_proven: bool = False
) -> Effect | RefusedChange:
    """`only_proven` refuses a change whose direction measured pairs do not bear out."""
    scenario = change.scenario
    try:
        setup = load_setup(scenario)
        records = records_between(advice.setup, setup)
        doubt = unproven(records) if only_proven else None
        if doubt is not None:
            return RefusedChange("unproven", doubt=doubt)
        if setup.memory.largest_batch < scenario.batch_size:
            return RefusedChange("memory")
        draws = make_draws(setup.costs, kernel_seed=_APART_SEED if change.kernels_apart else None)
        curve = curve_for(setup, [scenario.batch_size], draws=draws)
    except AdvisorError as error:
        return RefusedChange("error", error=str(error))
    if not meets_limit(setup, curve, 0):
        return RefusedChange("limit", scenario.max_tpot_ms)
    best_alone = curve.drafts[[recommended_draft(setup, curve, 0)]]
    served = served_drafts(setup, np.array([scenario.batch_size]), best_alone)
    after = _at(setup, curve, 0, curve.column(int(served[0])))
    return _effect(change, today, after, measured_range(records))


def _at(setup: Setup, curve: Curve, row: int, best: int) -> _Drawn:
    drawn = drawn_times(setup, curve, np.full(curve.batches.size, best))
    speed = Speed(
        int(curve.drafts[best]),
        float(curve.speedup[row, best]),
        float(curve.tpot_s[row, best]),
        float(curve.tokens_per_s_per_gpu[row, best]),
    )
    return _Drawn(
        speed,
        curve.draws[:, row, best],
        drawn.tpot_s[:, row],
        drawn.token_s[:, row],
        setup.placement.gpus,
        float(curve.batches[row]),
        Tier(curve.tier[row, best]),
        bool(curve.extrapolated[row, best]),
    )


def _effect(
    change: Change, today: tuple[bool, _Drawn], after: _Drawn, time_ratio: tuple[float, float]
) -> Effect:
    """`time_ratio`: 80 % range of the measured over the predicted ratio of plain steps, for changes
    of this kind."""
    fits, before = today
    busier = (after.batch / after.gpus) / (before.batch / before.gpus)
    rate = Band.of(
        after.speed.tokens_per_s_per_gpu / before.speed.tokens_per_s_per_gpu,
        before.token_s / after.token_s * busier,
    )
    tpot = Band.of(before.speed.tpot_s / after.speed.tpot_s, before.tpot_s / after.tpot_s)
    speedup = Band.of(after.speed.speedup / before.speed.speedup, after.speedup / before.speedup)
    gain: dict[Goal, Band] = {
        "tokens_per_s_per_gpu": _at_least(rate, time_ratio),
        "tpot": _at_least(tpot, time_ratio),
        "speedup": speedup,
    }
    return Effect(
        change,
        before.speed if fits else None,
        after.speed,
        gain,
        lowest([before.tier, after.tier]),
        before.extrapolated or after.extrapolated,
    )


def _at_least(band: Band, time_ratio: tuple[float, float]) -> Band:
    """`band` of a gain, no narrower than such ratios were found to be: a time above the predicted
    one is a gain below.

    The chance of a gain is that of a lognormal with the wider band.
    """
    low = min(band.low, band.value / time_ratio[1])
    high = max(band.high, band.value / time_ratio[0])
    if (low, high) == (band.low, band.high):
        return band
    log_sd = math.log(high / low) / (2 * _Z_80)
    return Band(
        band.value,
        low,
        high,
        0.5 * (1.0 + math.erf(math.log(band.value) / (log_sd * math.sqrt(2.0)))),
    )


def _designs(advice: Advice, standing: DesignStanding) -> list[Effect]:
    """The best designs at equal quality, with the bands of the design search, which share its own
    draws."""
    effects = []
    space = standing.space
    served = space.baseline.served
    tpot_s = float(served.tpot_s[0, 0])
    rate = laws.tokens_per_s_per_gpu(
        float(space.question.batches[0]), tpot_s, space.setup.placement.gpus
    )
    before = Speed(int(served.n_draft[0, 0]), float(served.speedup[0, 0]), tpot_s, float(rate))
    for change, candidate in design_changes(advice.scenario, standing):
        after = Speed(
            candidate.n_draft[0],
            candidate.speedup[0],
            candidate.tpot_s[0],
            candidate.tokens_per_s_per_gpu[0],
        )
        gain: dict[Goal, Band] = {
            "tokens_per_s_per_gpu": candidate.tpot_gain,
            "tpot": candidate.tpot_gain,
            "speedup": candidate.speedup_gain,
        }
        effects.append(Effect(change, before, after, gain, candidate.tier, candidate.extrapolated))
    return effects
