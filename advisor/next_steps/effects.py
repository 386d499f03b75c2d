"""What single changes bring: speeds before and after under shared draws, and the ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from advisor import bands, laws
from advisor.advice import Advice
from advisor.arrays import Array
from advisor.curve import Curve, batches_with, curve_for
from advisor.design import Band, DesignSpace
from advisor.next_steps.changes import Change, changes
from advisor.next_steps.designs import DesignStanding, design_changes, design_standing
from advisor.prediction import AdvisorError, Tier, lowest
from advisor.prefill import prefill_shares_s
from advisor.ratios import measured_range, records_between, unproven
from advisor.runtime import MIN_GAIN, meets_limit, recommended_draft
from advisor.setup import Setup, load_setup

Goal = Literal["tokens_per_s_per_gpu", "tpot", "speedup"]
GOALS: tuple[Goal, ...] = get_args(Goal)
"""What changes are ranked by; the first is the default: it is absolute, and more GPUs do not win it by themselves."""
_APART_SEED = 20250602
"""Seed of kernel errors that have nothing in common with today's."""
NOT_OFFERED = "not offered"
"""How a refusal begins that measured pairs are the reason of."""
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

        A higher ratio does not help by itself: time per token or tokens/s per GPU must not fall with it.
        """
        if self.before is None:
            return True
        absolute = max(self.gain["tpot"].value, self.gain["tokens_per_s_per_gpu"].value)
        return self.gain[goal].low > 1.0 and self.gain[goal].value >= 1.0 + MIN_GAIN and absolute >= 1.0


@dataclass(frozen=True)
class NextSteps:
    """Changes that were tried, in the order of the list, those refused, and how the design stands."""

    effects: tuple[Effect, ...]
    refused: tuple[tuple[str, str], ...]
    """(change, why not)."""
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
    """Evaluate every change of the documented list. `pause` is called between any two, so that a caller can stop it."""
    standing = design_standing(advice.setup)
    pause()
    base = _base(advice)
    effects, refused = [], []
    for change in changes(advice):
        found = (unoffered(advice.setup, change) if base.fits else None) or evaluate(advice, change, base)
        if isinstance(found, Effect):
            effects.append(found)
        else:
            refused.append((change.what, found))
        pause()
    effects += _designs(advice, standing) if base.fits and standing is not None else []
    return NextSteps(tuple(effects), tuple(refused), standing)


def unoffered(today: Setup, change: Change) -> str | None:
    """Reason why a change is not offered although it could be evaluated.

    Measured pairs do not bear its direction out.

    None where they do, where none is known, and where the changed scenario cannot be loaded (`evaluate` says why).
    """
    try:
        record = unproven(records_between(today, load_setup(change.scenario)))
    except AdvisorError:
        return None
    return (
        None
        if record is None
        else f"{NOT_OFFERED}: {record.name}, such changes were {record.evidence} ({record.needed})"
    )


def best_effects(steps: NextSteps, goal: Goal, count: int = 3) -> tuple[Effect, ...]:
    """The changes that help most beyond noise, best first, at most one of each kind."""
    chosen: dict[str, Effect] = {}
    helping = [effect for effect in steps.effects if effect.helps(goal)]
    for effect in sorted(helping, key=lambda item: -_merit(item, goal)):
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


@dataclass(frozen=True)
class Base:
    """Today's scenario, drawn once."""

    drawn: _Drawn
    fits: bool


def _base(advice: Advice) -> Base:
    fits = advice.setup.memory.largest_batch >= advice.scenario.batch_size
    curve, column = advice.curve, advice.curve.column(advice.recommendation.n_draft)
    return Base(_at(advice.setup, curve, advice.batch_index, column), fits)


def evaluate(advice: Advice, change: Change, base: Base | None = None) -> Effect | str:
    """Effect of one change at its own best K, or why it has none.

    It cannot be, does not fit, or misses the limit.

    Both scenarios are drawn with the same errors, but for kernels that were measured apart.
    """
    base = base or _base(advice)
    scenario = change.scenario
    try:
        setup = load_setup(scenario)
        if setup.memory.largest_batch < scenario.batch_size:
            return "it does not fit in memory"
        draws = bands.make_draws(setup.costs, kernel_seed=_APART_SEED if change.kernels_apart else None)
        curve = curve_for(setup, batches_with(scenario.batch_size), draws=draws)
    except AdvisorError as error:
        return str(error)
    row = int(np.searchsorted(curve.batches, scenario.batch_size))
    if not meets_limit(setup, curve, row):
        return f"no K keeps {scenario.max_tpot_ms:g} ms per output token"
    return _effect(
        change,
        base,
        _at(setup, curve, row, recommended_draft(setup, curve, row)),
        measured_range(records_between(advice.setup, setup)),
    )


def _at(setup: Setup, curve: Curve, row: int, best: int) -> _Drawn:
    speedup = curve.draws[:, row, best]
    prefill, own_prompt = (share[row] for share in prefill_shares_s(setup, curve.batches))
    token_s = (curve.plain_draws_s[:, row] + prefill) / speedup
    return _Drawn(
        Speed(
            int(curve.drafts[best]),
            float(curve.speedup[row, best]),
            float(curve.tpot_s[row, best]),
            float(curve.tokens_per_s_per_gpu[row, best]),
        ),
        speedup,
        token_s - own_prompt,
        token_s,
        setup.placement.gpus,
        float(curve.batches[row]),
        Tier(curve.tier[row, best]),
        bool(curve.extrapolated[row, best]),
    )


def _effect(change: Change, base: Base, after: _Drawn, time_ratio: tuple[float, float]) -> Effect:
    """`time_ratio`: 80 % range of the measured over the predicted ratio of plain steps, for changes of this kind."""
    before = base.drawn
    busier = (after.batch / after.gpus) / (before.batch / before.gpus)
    gain: dict[Goal, Band] = {
        "tokens_per_s_per_gpu": _at_least(
            Band.of(
                after.speed.tokens_per_s_per_gpu / before.speed.tokens_per_s_per_gpu,
                before.token_s / after.token_s * busier,
            ),
            time_ratio,
        ),
        "tpot": _at_least(Band.of(before.speed.tpot_s / after.speed.tpot_s, before.tpot_s / after.tpot_s), time_ratio),
        "speedup": Band.of(after.speed.speedup / before.speed.speedup, after.speedup / before.speedup),
    }
    return Effect(
        change,
        before.speed if base.fits else None,
        after.speed,
        gain,
        lowest([before.tier, after.tier]),
        before.extrapolated or after.extrapolated,
    )


def _at_least(band: Band, time_ratio: tuple[float, float]) -> Band:
    """`band` of a gain, no narrower than such ratios were found to be: a time above the predicted one is a gain below.

    The chance of a gain is that of a lognormal with the wider band.
    """
    low, high = min(band.low, band.value / time_ratio[1]), max(band.high, band.value / time_ratio[0])
    if (low, high) == (band.low, band.high):
        return band
    log_sd = math.log(high / low) / (2 * _Z_80)
    return Band(band.value, low, high, 0.5 * (1.0 + math.erf(math.log(band.value) / (log_sd * math.sqrt(2.0)))))


def _designs(advice: Advice, standing: DesignStanding) -> list[Effect]:
    """The best designs at equal quality, with the bands of the design search, which share its own draws."""
    found = []
    space = standing.space
    own = space.baseline.served
    before = Speed(
        int(own.n_draft[0, 0]), float(own.speedup[0, 0]), float(own.tpot_s[0, 0]), _rate(space, own.tpot_s[0, 0])
    )
    for change, item in design_changes(advice.scenario, standing):
        after = Speed(item.n_draft[0], item.speedup[0], item.tpot_s[0], item.tokens_per_s_per_gpu[0])
        gain: dict[Goal, Band] = {
            "tokens_per_s_per_gpu": item.tpot_gain,
            "tpot": item.tpot_gain,
            "speedup": item.speedup_gain,
        }
        found.append(Effect(change, before, after, gain, item.tier, item.extrapolated))
    return found


def _rate(space: DesignSpace, tpot_s: float) -> float:
    return float(laws.tokens_per_s_per_gpu(float(space.question.batches[0]), tpot_s, space.setup.placement.gpus))
