"""advise(): a scenario in, an answer out. The one place that strings the steps together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor import laws
from advisor.bands import BAND_LEVEL
from advisor.components import BY_KEY, component_name
from advisor.curve import DEFAULT_BATCHES, Curve, curve_for, digits
from advisor.prediction import Prediction, Tier
from advisor.runtime import (
    MIN_GAIN,
    BestDraft,
    KRange,
    break_even_batch,
    equals_text,
    ranges_of,
    recommended_draft,
    sweet_spot,
)
from advisor.scenario import Scenario
from advisor.setup import Setup, load_setup
from advisor.text import MERITS


@dataclass(frozen=True)
class Recommendation:
    """The answer at the target batch."""

    k_draft: int
    speedup: Prediction
    bound: str
    """bandwidth, compute, launch or communication: what most of a plain step waits for."""
    bound_because: str
    tpot_s: float
    ttft_s: float | None
    """Time to first token of a prompt that does not queue, beside plain decode; None without prompt length."""
    tokens_per_s_per_gpu: float
    p_best: float
    regret: float
    within_noise: bool
    equal_drafts: tuple[int, ...]
    """K > 0 within DEFAULT_MARGIN of the best, the recommended one included; empty where K = 0 is recommended."""
    meets_limit: bool
    """False when no K keeps the scenario's limit on time per output token."""
    verdict: str

    @property
    def per_user(self) -> str:
        """What stands beside the time per output token."""
        wait = "" if self.ttft_s is None else f", the first after {MERITS['ttft'].text(self.ttft_s)} without queueing"
        return f"per user{wait}"

    @property
    def equals(self) -> str:
        """Which K are as good, in one sentence; empty where the recommended K stands alone."""
        return equals_text(self.equal_drafts, self.k_draft)


@dataclass(frozen=True)
class Advice:
    """Everything the app, the CLI and a report show about one scenario."""

    scenario: Scenario
    setup: Setup
    recommendation: Recommendation
    k_by_batch: tuple[KRange, ...]
    curve: Curve
    """Over DEFAULT_BATCHES and the target batch, K = 0 to k_max."""
    batch_index: int
    """Where the target batch stands in the curve."""
    sweet_spot_batch: float
    """Batch at which the recommended K (or the best K > 0, if that is 0) gains most."""
    break_even_batch: float | None
    """Batch above the sweet spot where that K stops paying; None if it pays throughout the curve."""
    curve_k: int
    """The K those two belong to."""
    warnings: tuple[str, ...]

    @property
    def band_level(self) -> float:
        """Share of outcomes the bands are meant to hold. [1]"""
        return BAND_LEVEL

    @property
    def curve_column(self) -> int:
        """Where `curve_k` stands in the curve."""
        return self.curve.column(self.curve_k)


@dataclass(frozen=True)
class ComponentTime:
    """Milliseconds of one component at the target batch, six digits: in a plain step, in a round at the curve's K."""

    name: str
    label: str
    plain_ms: float
    round_ms: float


def component_times(advice: Advice) -> tuple[ComponentTime, ...]:
    """The components that take time, those that take most of a round first: what tables, charts and JSON show."""
    plain, whole = advice.curve.components_at(advice.batch_index, advice.curve_column)
    return tuple(
        ComponentTime(name, component_name(name), digits(plain.get(name, 0.0) * 1e3), digits(whole[name] * 1e3))
        for name in sorted(whole, key=lambda name: -whole[name])
        if whole[name] or plain.get(name)
    )


def answer_values(advice: Advice) -> dict[str, Any]:
    """The recommendation as JSON and reports carry it: plain values, their units in the names."""
    answer = advice.recommendation
    return {
        "k_draft": answer.k_draft,
        "speedup": answer.speedup.value,
        "speedup_low": answer.speedup.low,
        "speedup_high": answer.speedup.high,
        "tier": answer.speedup.tier,
        "because": answer.speedup.because,
        "extrapolated": answer.speedup.extrapolated,
        "bound": answer.bound,
        "bound_because": answer.bound_because,
        "tpot_ms": answer.tpot_s * 1e3,
        "ttft_ms": None if answer.ttft_s is None else answer.ttft_s * 1e3,
        "tokens_per_s_per_gpu": answer.tokens_per_s_per_gpu,
        "p_best": answer.p_best,
        "regret": answer.regret,
        "equal_drafts": answer.equal_drafts,
        "meets_limit": answer.meets_limit,
    }


def advise(scenario: Scenario, batches: tuple[int, ...] = DEFAULT_BATCHES) -> Advice:
    """Answer a scenario. Raises AdvisorError when it names something unknown or impossible."""
    setup = load_setup(scenario)
    grid = np.unique([*batches, scenario.batch_size]).astype(float)
    curve = curve_for(setup, grid)
    row = int(np.searchsorted(grid, scenario.batch_size))
    ranges = ranges_of(setup, curve)
    best = recommended_draft(setup, curve, row, ranges)
    shown = int(best.index) if best.index or curve.drafts.size == 1 else 1 + int(np.argmax(curve.speedup[row, 1:]))
    return Advice(
        scenario=scenario,
        setup=setup,
        recommendation=_recommendation(setup, curve, row, best),
        k_by_batch=ranges,
        curve=curve,
        batch_index=row,
        sweet_spot_batch=sweet_spot(curve.batches, curve.speedup[:, shown]),
        break_even_batch=break_even_batch(curve.batches, curve.speedup[:, shown]),
        curve_k=int(curve.drafts[shown]),
        warnings=_warnings(setup, curve, row, best),
    )


def _recommendation(setup: Setup, curve: Curve, row: int, best: BestDraft) -> Recommendation:
    k = int(curve.drafts[best.index])
    value = float(curve.speedup[row, best.index])
    tier: Tier = curve.tier[row, best.index]
    prediction = Prediction(
        value=value,
        low=float(curve.low[row, best.index]),
        high=float(curve.high[row, best.index]),
        tier=tier,
        because=_tier_because(setup, tier),
        extrapolated=bool(curve.extrapolated[row, best.index]),
    )
    bound, because = bound_of(setup, curve, row)
    return Recommendation(
        k_draft=k,
        speedup=prediction,
        bound=bound,
        bound_because=because,
        tpot_s=float(curve.tpot_s[row, best.index]),
        ttft_s=None if curve.ttft_s is None else float(curve.ttft_s[row]),
        tokens_per_s_per_gpu=float(curve.tokens_per_s_per_gpu[row, best.index]),
        p_best=best.p_best,
        regret=best.regret,
        within_noise=best.within_noise,
        equal_drafts=tuple(int(curve.drafts[i]) for i in best.equal),
        meets_limit=best.meets_limit,
        verdict=_verdict(setup, curve, row, best, prediction),
    )


def _verdict(setup: Setup, curve: Curve, row: int, best: BestDraft, prediction: Prediction) -> str:
    scenario = setup.scenario
    place = f"At batch {scenario.batch_size} on {setup.place}"
    largest = setup.memory.largest_batch
    if largest < scenario.batch_size:
        limit = f"batch {largest} is the largest that does" if largest else "not even batch 1 does"
        place = f"It does not fit in memory ({limit}). If it did: a{place[1:]}"
    if best.index > 0:
        return (
            f"{place}, draft K = {curve.drafts[best.index]}: {prediction.value:.2f}x "
            f"({prediction.low:.2f}-{prediction.high:.2f}), {prediction.tier}{_refit_note(setup)}."
        )
    if curve.drafts.size == 1:
        return f"{place}, plain decoding: {curve.tpot_s[row, 0] * 1e3:.2f} ms per output token."
    tried = 1 + int(np.argmax(curve.speedup[row, 1:]))
    alternative = (
        f"K = {curve.drafts[tried]}, the best draft length, gives {curve.speedup[row, tried]:.2f}x "
        f"({curve.low[row, tried]:.2f}-{curve.high[row, tried]:.2f})"
    )
    if best.within_noise:
        return f"{place}, do not speculate (K = 0): {alternative}, less than {MIN_GAIN:.0%} and within the noise."
    if curve.speedup[row, tried] < 1.0:
        return f"{place}, do not speculate (K = 0): it does not help. {alternative}, a slowdown."
    return f"{place}, do not speculate (K = 0): {alternative}, but misses the limit on time per output token."


def _tier_because(setup: Setup, tier: Tier) -> str:
    if tier is Tier.ROOFLINE:
        assumed = "datasheet peaks and assumed fractions for a component that takes a tenth of the time or more"
        return f"{assumed}{_refit_note(setup)}"
    experts = f"; experts: {setup.costs.routed.because}" if setup.architecture.moe is not None else ""
    how = "fitted on" if tier is Tier.FITTED else "read off"
    other = setup.costs.kernels_of
    whose = f"{other}, the same chip" if other else "this accelerator"
    return f"kernel times {how} measurements of {whose}{experts}{_refit_note(setup)}"


def _refit_note(setup: Setup) -> str:
    return f", {setup.adjustment.label}" if setup.adjustment is not None else ""


def bound_of(setup: Setup, curve: Curve, row: int) -> tuple[str, str]:
    """(bandwidth | compute | launch | communication, one sentence) for a plain decode step at one batch."""
    parts, _ = curve.components_at(row, 0)
    total = sum(parts.values())
    largest = max(parts, key=lambda name: parts[name])
    overhead = parts["host"] + parts["launch"]
    share = parts[largest] / total
    what = BY_KEY[largest].loads
    if overhead >= 0.5 * total:
        return "launch", f"Host and kernel launches take {overhead / total:.0%} of a plain step."
    if largest == "communication":
        return "communication", f"Communication between GPUs takes {share:.0%} of a plain step."
    tokens_per_weight = curve.batches[row]
    moe = setup.architecture.moe
    if largest == "routed" and moe is not None:
        tokens_per_weight = curve.batches[row] * moe.n_active / max(float(curve.distinct_plain[row]), 1.0)
    ridge = laws.ridge(setup.costs.dense.flops_per_s, setup.costs.dense.bandwidth_bytes_per_s)
    if tokens_per_weight > ridge and largest != "attention":
        return "compute", f"Arithmetic on {what} takes {share:.0%} of a plain step."
    return "bandwidth", f"Loading {what} takes {share:.0%} of a plain step."


def _warnings(setup: Setup, curve: Curve, row: int, best: BestDraft) -> tuple[str, ...]:
    warnings, chosen = list(setup.warnings), best.index
    if not best.meets_limit:
        fastest = float(curve.tpot_s[row].min()) * 1e3
        warnings.append(
            f"No K keeps {setup.scenario.max_tpot_ms:g} ms per output token; the fastest takes {fastest:.2f} ms. "
            "Lower the batch or add GPUs."
        )
    if curve.extrapolated[row, chosen]:
        warnings.append("Outside the data: kernels are calibrated to 2048 tokens a step; the band is widened.")
    if chosen and curve.drafts[chosen] == setup.scenario.k_max:
        warnings.append(f"The best K is the longest considered ({setup.scenario.k_max}); raise it to look further.")
    if setup.acceptance.extrapolated[curve.drafts[chosen]]:
        warnings.append("The accepted length at this K is extrapolated from the K you gave.")
    return tuple(dict.fromkeys(warnings))
