"""advise(): a scenario in, an answer out. The one place that strings the steps together.

Also what one band is made of: the band that each kind of uncertainty would give alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import (
    DraftRow,
    KRange,
    break_even_batch,
    draft_rows,
    graph_mode_notes,
    graph_notes,
    interpolate_batches,
    k_running_at,
    kernel_cliffs,
    last_batch,
    sweet_spot,
)
from advisor.answers.by_batch import RuntimeSchedule, schedule_for
from advisor.answers.engines.export import void_notes
from advisor.answers.schedule import KValues, ScheduleFacts, schedule_facts
from advisor.measured.published import PublishedRun, runs_beside
from advisor.physics import laws
from advisor.physics.bands import BAND_LEVEL, Draws, band, make_draws
from advisor.physics.components import BY_KEY, KERNELS, OVERHEADS
from advisor.physics.notes import Note, ranked
from advisor.predict.curve import Curve, curve_for, digits, held_sweep
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import RELEASE_FIELDS
from advisor.predict.setup import Setup
from advisor.prediction import BAND_SIGMAS, AdvisorError, Tier

Uncertain = Literal["kernels", "overheads", "routing", "accepted_length", "unexplained", "unseen"]
"""A kind of uncertainty; `unseen`: what machines nobody has seen differ by, all in all."""


@dataclass(frozen=True)
class BandPart:
    """The band of a speedup when only one kind of constant is uncertain. [-]"""

    what: Uncertain
    low: float
    high: float
    share: float
    """Of the variance of the logarithm, over all parts. [-]"""


def band_parts(setup: Setup, batch_size: float, n_draft: int) -> tuple[BandPart, ...]:
    """One part for each kind of uncertainty, in the order of computation. The same draws as those
    that decide K.

    Without rows of the user's own the last part is the whole range, with the rest of its variance:
    it holds what machines nobody has seen differ by.
    """
    rows: list[tuple[Uncertain, float, float, float]] = []
    for label, draws in _alone(make_draws(setup.costs)):
        curve = curve_for(setup, [batch_size], [n_draft], draws=draws)
        speedups = curve.draws[:, 0, 0]
        ends = band(speedups)
        centre = float(curve.speedup[0, 0])
        variance = float(np.log(speedups).var())
        rows.append((label, min(float(ends[0]), centre), max(float(ends[1]), centre), variance))
    if setup.costs.scatter_log_sd is None:
        low = float(curve.low[0, 0])
        high = float(curve.high[0, 0])
        whole = float(np.log(high / low) / (2.0 * BAND_SIGMAS)) ** 2
        explained = sum(variance for *_, variance in rows[:-1])
        rows[-1] = ("unseen", low, high, max(whole - explained, 0.0))
    total = sum(variance for *_, variance in rows) or 1.0
    return tuple(
        BandPart(label, low, high, variance / total) for label, low, high, variance in rows
    )


def _alone(draws: Draws) -> Iterator[tuple[Uncertain, Draws]]:
    """Draws in which one kind varies and all others stay at their centre."""
    central = {name: np.ones_like(factor) for name, factor in draws.factor.items()}
    no_error = np.zeros_like(draws.routing_z)
    still = Draws(central, no_error, no_error, no_error, np.zeros_like(draws.per_k_z))
    kernels = {component.key: draws.factor[component.key] for component in KERNELS}
    overheads = {component.key: draws.factor[component.key] for component in OVERHEADS}
    yield "kernels", replace(still, factor=central | kernels)
    yield "overheads", replace(still, factor=central | overheads)
    yield "routing", replace(still, routing_z=draws.routing_z)
    yield "accepted_length", replace(still, acceptance_z=draws.acceptance_z)
    yield (
        "unexplained",
        replace(still, residual_z=draws.residual_z, per_k_z=draws.per_k_z),
    )


HARDLY = 1.1
"""Choice of this project: a gain below this is called hardly worth it. [-]"""


@dataclass(frozen=True)
class ServedSpeedup:
    """Speedup of the K that is served, with its 80 % range. [-]"""

    value: float
    low: float
    high: float
    tier: Tier
    extrapolated: bool


@dataclass(frozen=True)
class Bound:
    """Resource that most of a baseline step waits for."""

    kind: Literal["bandwidth", "compute", "launch", "communication"]
    component: str
    """Key of the largest component."""
    share: float
    """Of the step's time; of launches with the host's. [0 to 1]"""


@dataclass(frozen=True)
class Recommendation:
    """The answer at the target batch, of the K that the exported configuration runs there."""

    n_draft: int
    speedup: ServedSpeedup
    bound: Bound
    tpot_s: float
    ttft_s: float | None
    """Time to first token of a prompt that does not queue, beside plain decode; None without prompt
    length."""
    tokens_per_s_per_gpu: float
    p_best: float
    p_gain: float
    """Chance that it is faster than plain decoding; of the best K > 0 where K = 0 is served.
    [-]"""
    regret: float
    """Expected loss against each draw's fastest K, the least of all K within the noise. [-]"""
    equal_drafts: tuple[int, ...]
    """K > 0 as good within the noise, the recommended one included; empty where K = 0 is
    recommended."""
    meets_limit: bool
    """False when no K keeps the scenario's limit on time per output token."""
    best_alone: int
    """K that would be best at this batch alone: `n_draft`, or another where one server for all
    batches runs one K. [-]"""


@dataclass(frozen=True)
class Advice:
    """Everything the app, the CLI and a report show about one scenario."""

    scenario: Scenario
    setup: Setup
    recommendation: Recommendation
    drafts: tuple[DraftRow, ...]
    """Every K at the target batch: speedup, band, time per token, odds. One is recommended."""
    k_by_batch: tuple[KRange, ...]
    """The schedule, which no target batch moves."""
    values: KValues
    """Values of each K by batch that the schedule was decided on."""
    to_serve: tuple[KRange, ...]
    """What an engine is given: the recommended K throughout where one K is enough, else the
    schedule."""
    decided: RuntimeSchedule
    """The server that is priced, whose graphs are those of the launch command."""
    schedule: ScheduleFacts
    """What K by batch gains over one K."""
    curve: Curve
    """Over SCHEDULE_BATCHES and the target batch, K = 0 to k_max."""
    batch_index: int
    """Where the target batch stands in the curve."""
    sweet_spot_batch: float
    """Batch at which the recommended K (or the best K > 0, if that is 0) gains most."""
    break_even_batch: float | None
    """Batch above the sweet spot where that K stops paying; None if it pays up to the largest batch
    that fits."""
    curve_k: int
    """The K those two belong to."""
    notes: tuple[Note, ...]
    """What to know before trusting it, the most serious first."""

    @cached_property
    def on_schedule(self) -> NDArray[np.bool_]:
        """Batches of the curve that decide every schedule, [nB]."""
        return np.isin(self.curve.batches, self.values.batches)

    @cached_property
    def at_lengths(self) -> dict[float, Any]:
        """Answers at other accepted lengths that were looked at (`by_length.at_length`)."""
        return {}

    @property
    def band_level(self) -> float:
        """Share of outcomes the bands are meant to hold. [-]"""
        return BAND_LEVEL

    @property
    def curve_column(self) -> int:
        """Place of `curve_k` along the curve's draft lengths."""
        return self.curve.column(self.curve_k)


@dataclass(frozen=True)
class ComponentTime:
    """Milliseconds of one component at the target batch: a plain step, and one round at `curve_k`.
    Six digits."""

    name: str
    label: str
    plain_ms: float
    round_ms: float


def component_times(advice: Advice) -> tuple[ComponentTime, ...]:
    """Components that take time, those that take most of a round first. Tables, charts and JSON
    show these."""
    plain, whole = advice.curve.components_at(advice.batch_index, advice.curve_column)
    return tuple(
        ComponentTime(
            name, BY_KEY[name].label, digits(plain.get(name, 0.0) * 1e3), digits(whole[name] * 1e3)
        )
        for name in sorted(whole, key=lambda name: -whole[name])
        if whole[name] or plain.get(name)
    )


def answer_values(advice: Advice) -> dict[str, Any]:
    """The recommendation as JSON and reports carry it: plain values, their units in the names."""
    answer = advice.recommendation
    speedup = answer.speedup
    names = (
        "tokens_per_s_per_gpu",
        "p_best",
        "p_gain",
        "regret",
        "equal_drafts",
        "meets_limit",
    )
    return {
        "n_draft": answer.n_draft,
        "speedup": speedup.value,
        "speedup_low": speedup.low,
        "speedup_high": speedup.high,
        "tier": speedup.tier,
        "extrapolated": speedup.extrapolated,
        "bound": answer.bound.kind,
        "tpot_ms": answer.tpot_s * 1e3,
        "ttft_ms": None if answer.ttft_s is None else answer.ttft_s * 1e3,
        **{name: getattr(answer, name) for name in names},
    }


def advise(scenario: Scenario) -> Advice:
    """Answer a scenario. Raises AdvisorError when it names something unknown or impossible."""
    schedule = schedule_for(scenario)
    return _advice(schedule, schedule.to_serve)


def serving(advice: Advice, to_serve: tuple[KRange, ...]) -> Advice:
    """The answer of a configuration that runs other K by batch, such as those of own runs."""
    return _advice(advice.decided, to_serve)


def _advice(decided: RuntimeSchedule, to_serve: tuple[KRange, ...]) -> Advice:
    setup = decided.setup
    curve = decided.curve
    values = decided.values
    ranges = decided.ranges
    scenario = setup.scenario
    row = int(np.searchsorted(curve.batches, scenario.batch_size))
    alone = draft_rows(setup, curve, row)
    best_alone = next(item.n_draft for item in alone if item.recommended)
    fits = setup.memory.largest_batch >= scenario.batch_size
    k = int(k_running_at(to_serve, scenario.batch_size)) if fits else best_alone
    rows = tuple(replace(item, recommended=item.n_draft == k) for item in alone)
    chosen = next(index for index, item in enumerate(rows) if item.recommended)
    drafting = chosen or _best_drafting(rows)
    end = break_even_batch(curve.batches, curve.speedup[:, drafting])
    break_even = end if end is not None and end <= last_batch(setup, curve) else None
    return Advice(
        scenario=scenario,
        setup=setup,
        recommendation=_recommendation(setup, curve, row, rows, best_alone),
        drafts=rows,
        k_by_batch=ranges,
        values=values,
        to_serve=to_serve,
        decided=decided,
        schedule=schedule_facts(
            ranges, values, scenario.batch_size, best_alone, scenario.max_tpot_ms
        ),
        curve=curve,
        batch_index=row,
        sweet_spot_batch=sweet_spot(curve.batches, curve.speedup[:, drafting]),
        break_even_batch=break_even,
        curve_k=int(curve.drafts[drafting]),
        notes=ranked(
            (
                *(void_notes(setup, to_serve) if fits else ()),
                *_notes(setup, curve, row, rows, table=len(to_serve) > 1),
                *decided.notes,
            )
        ),
    )


def published_beside(setup: Setup, curve: Curve) -> list[PublishedRun]:
    """Published runs of this setup on batches and K of the curve. None with a refit: own runs stand
    nearer."""
    if setup.adjustment is not None:
        return []
    return [
        run
        for run in runs_beside(setup.scenario, setup.placement.gpus)
        if curve.batches[0] <= run.batch_size <= curve.batches[-1]
        and (np.isnan(run.n_draft) or run.n_draft in curve.drafts[1:])
    ]


def published_here(advice: Advice) -> list[PublishedRun]:
    """Published runs of this setup and drafter at its very batch, of its K or of none that is
    stated."""
    return [
        run
        for run in runs_beside(advice.scenario, advice.setup.placement.gpus)
        if run.batch_size == advice.scenario.batch_size
        and (np.isnan(run.n_draft) or run.n_draft == advice.curve_k)
    ]


class BesideRun(NamedTuple):
    """Predicted speedup where a published run stands, and its 80% range. [-]"""

    low: float
    speedup: float
    high: float


def beside_run(curve: Curve, run: PublishedRun) -> BesideRun | None:
    """Prediction at the batch and K of a run, of the fastest K where it states none. None for a K
    that is not predicted."""
    at = np.clip([run.batch_size], curve.batches[0], curve.batches[-1])
    rows = [
        interpolate_batches(curve.batches, values, at)[0]
        for values in (curve.low, curve.speedup, curve.high)
    ]
    k = curve.drafts[rows[1].argmax()] if np.isnan(run.n_draft) else run.n_draft
    columns = np.flatnonzero(curve.drafts == k)
    return BesideRun(*(float(row[columns[0]]) for row in rows)) if columns.size else None


def side_of_range(curve: Curve, run: PublishedRun) -> int:
    """Side of its 80% range on which a published run lies, -1 for below.

    0 within, and for a K that is not predicted.
    """
    beside = beside_run(curve, run)
    if beside is None:
        return 0
    return int(run.speedup > beside.high) - int(run.speedup < beside.low)


def _best_drafting(rows: tuple[DraftRow, ...]) -> int:
    """Index of the K > 0 with the least expected loss. 0 where nothing is drafted."""
    return min(range(1, len(rows)), key=lambda index: rows[index].expected_loss, default=0)


def advice_on(advice: Advice, engine: str) -> Advice:
    """Answer to the question with the kernels of another engine, for what that engine is to load.

    `advice` itself where the scenario cannot be asked of it: an accelerator that it does not run
    on, or a refit that belongs to its own engine.
    """
    if engine == advice.scenario.engine:
        return advice
    try:
        return advise(
            advice.scenario.model_copy(update={"engine": engine, **dict.fromkeys(RELEASE_FIELDS)})
        )
    except AdvisorError:
        return advice


def _recommendation(
    setup: Setup, curve: Curve, row: int, rows: tuple[DraftRow, ...], best_alone: int
) -> Recommendation:
    column = next(index for index, item in enumerate(rows) if item.recommended)
    chosen = rows[column]
    speedup = ServedSpeedup(
        value=chosen.speedup,
        low=chosen.speedup_low,
        high=chosen.speedup_high,
        tier=Tier(curve.tier[row, column]),
        extrapolated=bool(curve.extrapolated[row, column]),
    )
    p_gain = rows[column or _best_drafting(rows)].p_gain
    equal = tuple(
        item.n_draft for item in rows if item.n_draft and (item.as_good or item.recommended)
    )
    ttft_s = None if curve.ttft_s is None else float(curve.ttft_s[row])
    return Recommendation(
        n_draft=chosen.n_draft,
        speedup=speedup,
        bound=bound_of(setup, curve, row),
        tpot_s=chosen.tpot_s,
        ttft_s=ttft_s,
        tokens_per_s_per_gpu=chosen.tokens_per_s_per_gpu,
        p_best=chosen.p_best,
        p_gain=p_gain,
        regret=chosen.expected_loss,
        equal_drafts=equal if column else (),
        meets_limit=chosen.meets_limit,
        best_alone=best_alone,
    )


def bound_of(setup: Setup, curve: Curve, row: int) -> Bound:
    """Resource that a baseline step waits for at one batch."""
    parts, _ = curve.components_at(row, 0)
    total = sum(parts.values())
    largest = max(parts, key=lambda name: parts[name])
    overhead = parts["host"] + parts["launch"] + parts.get("eager", 0.0)
    if overhead >= 0.5 * total:
        return Bound("launch", largest, overhead / total)
    share = parts[largest] / total
    if largest == "communication":
        return Bound("communication", largest, share)
    tokens_per_weight = curve.batches[row]
    moe = setup.architecture.moe
    if largest == "routed" and moe is not None:
        tokens_per_weight = (
            curve.batches[row] * moe.n_active / max(float(curve.touched_plain[row]), 1.0)
        )
    ridge = laws.ridge(setup.costs.dense.flops_per_s, setup.costs.dense.bandwidth_bytes_per_s)
    is_compute = tokens_per_weight > ridge and largest != "attention"
    return Bound("compute" if is_compute else "bandwidth", largest, share)


def _notes(
    setup: Setup, curve: Curve, row: int, rows: tuple[DraftRow, ...], table: bool
) -> tuple[Note, ...]:
    notes = list(setup.notes)
    chosen = next(index for index, item in enumerate(rows) if item.recommended)
    k = curve.drafts[chosen]
    k_max = setup.scenario.k_max
    if not rows[chosen].meets_limit:
        fastest = min(item.tpot_s for item in rows) * 1e3
        limit = setup.scenario.max_tpot_ms
        notes.append(Note.of("over_limit", limit_ms=limit, fastest_ms=fastest))
    if curve.extrapolated[row, chosen]:
        notes.append(Note.of("outside_data"))
    if chosen and k == k_max:
        notes.append(Note.of("longest_k", k=k_max))
    if setup.acceptance.extrapolated[k]:
        unknown = bool(setup.acceptance.extrapolated[1:].all())
        notes.append(Note.of("length_extrapolated", above=k_max if unknown else None))
    notes += graph_notes(setup, curve, row, chosen)
    notes += graph_mode_notes(setup, curve, row, chosen, table)
    if (held := held_sweep(setup)) is not None:
        notes.append(held.note_at(float(curve.batches[row])))
    notes += [cliff.note for cliff in kernel_cliffs(curve, chosen or _best_drafting(rows))]
    return ranked(notes)
