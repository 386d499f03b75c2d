"""The main answer as one record of facts, and the flags that are read off it.

A fact is a number with a unit, an id, a case or a flag; none holds a sentence. Every medium
(terminal, page, PDF, report, JSON) shows this record and decides nothing itself: which sentence is
said follows from FLAGS, in show/phrases/answer.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from advisor.answers.advice import HARDLY, Advice, published_here, side_of_range
from advisor.answers.best_k import (
    MAY_LOSE,
    BetweenBatches,
    DraftRow,
    interpolate_batches,
    k_running_at,
)
from advisor.answers.by_length import (
    SHORTEST,
    at_length,
    by_batch,
    length_now,
    lengths_of,
    served_columns,
)
from advisor.answers.engines.adaptive import AdaptiveGain, adaptive_gain
from advisor.answers.engines.config import merged_rows
from advisor.answers.experts_loaded import Loading
from advisor.answers.flags import Flags
from advisor.answers.schedule import MIN_GAIN, gain_over_doublings
from advisor.answers.summary import (
    OWN_ROWS,
    borrowed_from,
    on_more_gpus,
    own_half_widths,
    stated_k,
    stored_curve,
)
from advisor.answers.texts import length_of_runs
from advisor.answers.zones import zone_at, zones
from advisor.catalog.engines import engine_of
from advisor.catalog.hardware import drafter_name
from advisor.measured.published import (
    PublishedRun,
    other_drafters,
    published_ids,
    published_lengths,
    runs_beside,
)
from advisor.physics.memory import GIB
from advisor.predict.scenario import Distance, distance_of
from advisor.predict.scenario_fields import POOL_FIELDS

KFrom = Literal["model", "own"]


@dataclass(frozen=True)
class Outcome(AdaptiveGain):
    """Facts of the main answer. None is unknown or does not apply, never zero."""

    batch: int
    """Batch asked about. [sequences]"""
    k: int
    """Draft length that the exported configuration runs at this batch. [tokens]"""
    k_from: KFrom
    """Whether the model or the user's own runs chose it."""
    best_alone: int
    """Draft length that would be best at this batch alone. [tokens]"""
    alone_gain: float | None
    """Its speedup over that of `k`, minus 1. None where they are the same. [-]"""
    served: tuple[tuple[int, int, int], ...]
    """What the configuration runs: first batch, last batch, K."""
    n_k: int
    """Draft lengths looked at, 0 among them; 1 without a drafter. [-]"""
    tried: int
    """Draft length that the figures are of: `k`, or the best above 0 where `k` is 0. [tokens]"""
    speedup: float
    low: float
    """Low end of the 80 % range. [-]"""
    high: float
    """High end of the 80 % range. [-]"""
    chance: float
    """Chance of a gain (`curve.chance_of_gain`). [0 to 1]"""
    best_share: float
    """Share of simulated cases in which `tried` is the fastest. [0 to 1]"""
    loss: float
    """Speedup that `tried` gives away on average against the best of each case. [0 to 1]"""
    tier: str
    tpot_ms: float
    """Time per output token at `k`. [ms]"""
    plain_ms: float
    """Time per output token of the baseline. [ms]"""
    slow_ms: float
    """Time per output token at the low end of the range. [ms]"""
    fastest_ms: float
    """Least time per output token of all K. [ms]"""
    limit_ms: float | None
    """Limit on the time per output token. [ms]"""
    in_limit: bool
    """Whether `k` keeps the limit."""
    tried_in_limit: bool
    """Whether `tried` keeps the limit."""
    any_in_limit: bool
    """Whether some K keeps the limit at this batch."""
    kept_to: int | None
    """Last batch up to which some K keeps the limit; None where that is every batch. [sequences]"""
    admit: int | None
    """Requests that the engine may run at once to keep the limit. [requests]"""
    accepted_length: float | None
    """Tokens per round at `accepted_k`, the target's own included. None without a drafter."""
    accepted_k: int
    borrowed: str | None
    """Name of the model or drafter whose accepted length stands in."""
    borrowed_from: Distance | None
    """How far that lies from the model and drafter."""
    length_n: int
    """Published accepted lengths of this model and drafter at `accepted_k`; of the scenario's kind
    of text where it names one that was measured."""
    length_low: float | None
    length_high: float | None
    length_task: str | None
    """Kind of text that these are of, where only such count."""
    length_place: int | None
    """-1 where the user's own length lies below all of them, 1 where it lies above, else 0. None
    without a length of the user's own."""
    length_ceiling: int
    """Tokens that a round at `accepted_k` emits at most. [tokens]"""
    below_length: float | None
    """Accepted length below which the configuration runs `below_k` at this batch. [tokens]"""
    below_k: int | None
    off_length: float | None
    """Accepted length below which it does not speculate, where `below_k` is not 0. [tokens]"""
    above_length: float | None
    above_k: int | None
    largest: int
    """Largest batch that fits in memory, with the drafter loaded. [sequences]"""
    plain_largest: int
    """The same without a drafter. [sequences]"""
    roomy_to: int
    """Batch of which the memory holds SPARE times as many. [sequences]"""
    pool_tokens: int
    """Tokens of this context that the KV cache holds with the drafter, in all of an instance."""
    plain_pool_tokens: int
    """The same without a drafter. [tokens]"""
    drafter_gib: float
    """Weights of the drafter per GPU. [GiB]"""
    pool_stated: bool
    """Whether the engine's own lines say what the KV cache holds."""
    prefix_tokens: int | None
    """First tokens of the context that all requests share. None: nothing is shared."""
    prefix_hit: float | None
    """Share of a prompt that the cache holds already; 0 where the prefix does not fit beside one
    request. [0 to 1]"""
    full_speedup: float | None
    """Output of the server full of `largest` requests over that of the one without a drafter, full
    of `plain_largest`. None where drafts are never tried or more fit than were looked at. [-]"""
    cancels_from: int | None
    """Batch above `largest` from which on the server without a drafter, which holds more, gives at
    least as much. None where none that it holds does. [sequences]"""
    needed_gib: float
    """Memory per GPU at this batch. [GiB]"""
    usable_gib: float
    """Usable memory per GPU. [GiB]"""
    weights_fill: bool
    """Whether the weights alone are too large."""
    wider_gpus: int | None
    """GPUs on which the batch fits. None where it fits, or on none that was tried."""
    end_batch: int
    """Last batch looked at: of the memory, or of the curve. [sequences]"""
    end_is_memory: bool
    pays_to: int | None
    """Last batch at which the configuration gains, where it is not `end_batch`; 0: at none."""
    loses_from: int | None
    """Batch from which on it may lose (MAY_LOSE), as far as it drafts."""
    drafts_from: int | None
    """First batch at which the configuration drafts. None where it never does."""
    drafts_to: int | None
    peak: float
    """Largest speedup of the configuration, of `tried` where it never drafts. [-]"""
    peak_batch: int
    """Batch of that speedup. [sequences]"""
    zone: str | None
    """Kind of the zone that decides the gain at this batch (`zones.Zone`). None without drafts to
    try, and where the user's own runs chose K."""
    experts_loaded: float | None
    """Share of the experts that a baseline step loads. None for a dense model. [0 to 1]"""
    experts_more: float | None
    """Distinct experts that verifying `tried` loads over those of a baseline step, minus 1. [-]"""
    experts_time: float | None
    """Share of a baseline step that loads experts. [0 to 1]"""
    switches: bool
    """Whether the configuration runs several K."""
    varies: bool
    """Whether K by batch, were it served, would run several K."""
    single_k_cost: float | None
    """Speedup given away by one K for all batches against K by batch, mean over batch doublings.
    None where K by batch runs one K. [0 to 1]"""
    published_n: int
    """Published runs of this model, GPUs and drafter."""
    published_half: float
    """Half of them. [-]"""
    published_slower: int
    published_below: int
    """Those below the 80 % range of their batch and K."""
    published_above: int
    published_random: int
    """Those whose prompts were random tokens."""
    published_silent: int
    """Those that do not state their accepted length."""
    runs_length: float | None
    """Accepted length that these runs tell (`texts.length_of_runs`). None where that is unknown.
    [tokens]"""
    published_low: float | None
    published_high: float | None
    published_batch_low: float | None
    published_batch_high: float | None
    here_n: int
    """Published runs at this batch and K (or of none that is stated)."""
    here_low: float | None
    here_high: float | None
    here_outside: int
    """-1 where all of them lie below the range, 1 where all lie above it, else 0."""
    other_drafter: str | None
    """Name of another drafter whose published runs of this setup gained clearly more (CLEARLY)."""
    other_n: int
    """Those runs."""
    other_low: float | None
    other_high: float | None
    own_n: int
    """Speedups that the user measured with this setup."""
    own_here: float | None
    """Median of those at this batch and K. [-]"""
    half_width: float | None
    """Half the width of the range over the speedup, and after some runs of the user's own. [-]"""
    half_width_after: float | None
    own_rows: int
    """Benchmark runs of the user's own that the latter takes."""
    engine: str
    engine_name: str | None
    """None for an engine without a profile."""
    kernels_of: str | None
    """Another accelerator with the same chip, whose measured kernels are used."""
    experts_kernels: str | None
    """Origin of the routed experts' kernel times, as their table names it. None for a dense
    model."""
    bound: str
    """Resource that most of a baseline step waits for: bandwidth, compute, launch or
    communication."""
    bound_component: str
    """Key of its largest component."""
    bound_share: float
    """Share of that component, or of launches and host, in the step. [0 to 1]"""
    refit_points: int | None
    """Points of the user's own that the constants were refitted to."""

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)


FACTS = frozenset(field.name for field in fields(Outcome))
CLEARLY = 1.1
"""Choice of this project: published runs of another drafter gain clearly more where their median is
this many times the drafter's own at the same batches. [-]"""
NEAR = 0.005
"""Difference of two speedups that two decimals hide. [-]"""
SPARE = 4
"""Batches that a memory has to hold for its size to be no concern. Own choice. [-]"""
FLAGS: Flags = {
    "fits": ("batch", "<=", "largest"),
    "nothing_fits": ("largest", "==", 0),
    "plain_fits": ("plain_largest", ">", 0),
    "fewer": ("largest", "<", "plain_largest"),
    "less": ("pool_tokens", "<", "plain_pool_tokens"),
    "roomy": ("batch", "<=", "roomy_to"),
    "pool_stated": ("pool_stated", "==", True),
    "has_weights": ("drafter_gib", ">", 0.0),
    "prefix": ("prefix_tokens", "known", None),
    "filled": ("full_speedup", "known", None),
    "adaptive": ("adaptive_high", ">=", MIN_GAIN),
    "cancels": ("cancels_from", "known", None),
    "drafts_full": ("drafts_to", "==", "largest"),
    "weights_fill": ("weights_fill", "==", True),
    "wider": ("wider_gpus", "known", None),
    "undrafted": ("n_k", "==", 1),
    "limited": ("limit_ms", "known", None),
    "all_over_limit": ("any_in_limit", "==", False),
    "over_limit_slow": ("slow_ms", ">", "limit_ms"),
    "tried_over_limit": ("tried_in_limit", "==", False),
    "off": ("k", "==", 0),
    "own": ("k_from", "==", "own"),
    "loss": ("speedup", "<", 1.0),
    "hardly": ("speedup", "<", HARDLY),
    "may_lose": ("chance", "<", MAY_LOSE),
    "own_here": ("own_here", "known", None),
    "kept": ("k", "!=", "best_alone"),
    "kept_slower": ("alone_gain", ">=", 0.0005),
    "borrowed": ("borrowed", "known", None),
    "of_family": ("borrowed_from", "==", "family"),
    "of_drafter": ("borrowed_from", "==", "drafter"),
    "of_kind": ("borrowed_from", "==", "kind"),
    "lengths": ("length_n", ">", 0),
    "lengths_one": ("length_n", "==", 1),
    "lengths_of_task": ("length_task", "known", None),
    "length_below": ("length_place", "==", -1),
    "placed": ("length_place", "known", None),
    "length_above": ("length_place", "==", 1),
    "other_drafter": ("other_drafter", "known", None),
    "memory_end": ("end_is_memory", "==", True),
    "pays_nowhere": ("pays_to", "==", 0),
    "stops_paying": ("pays_to", "known", None),
    "loses": ("loses_from", "known", None),
    "loses_always": ("loses_from", "==", 1),
    "never_drafts": ("drafts_from", "unknown", None),
    "switches": ("switches", "==", True),
    "varies": ("varies", "==", True),
    "single_k_costs": ("single_k_cost", ">=", 0.0005),
    "admits": ("admit", "known", None),
    "unnamed_engine": ("engine_name", "unknown", None),
    "vllm": ("engine", "==", "vllm"),
    "sglang": ("engine", "==", "sglang"),
    "below": ("below_length", "known", None),
    "off_later": ("off_length", "known", None),
    "above": ("above_length", "known", None),
    "published": ("published_n", ">", 0),
    "published_one": ("published_n", "==", 1),
    "some_below": ("published_below", ">", 0),
    "all_below": ("published_below", "==", "published_n"),
    "some_above": ("published_above", ">", 0),
    "random": ("published_random", "==", "published_n"),
    "tell_length": ("runs_length", "known", None),
    "mostly_below": ("published_below", ">", "published_half"),
    "few": ("zone", "==", "few"),
    "new": ("zone", "==", "new"),
    "sweet": ("zone", "==", "sweet"),
    "arithmetic": ("zone", "==", "arithmetic"),
    "free": ("zone", "==", "free"),
    "before_peak": ("batch", "<", "peak_batch"),
    "mixture": ("experts_loaded", "known", None),
    "here": ("here_n", ">", 0),
    "here_one": ("here_n", "==", 1),
    "narrows": ("half_width_after", "<", "half_width"),
    "refitted": ("refit_points", "known", None),
    "measured": ("tier", "==", "measured"),
    "interpolated": ("tier", "==", "interpolated"),
    "fitted": ("tier", "==", "fitted"),
    "same_chip": ("kernels_of", "known", None),
    "roofline": ("tier", "==", "roofline"),
    "moe": ("experts_kernels", "known", None),
    "launch_bound": ("bound", "==", "launch"),
    "communication_bound": ("bound", "==", "communication"),
    "compute_bound": ("bound", "==", "compute"),
}
"""The only place with a threshold of the main answer."""


@dataclass(frozen=True)
class LengthFlip:
    """Accepted length from which on, away from today's, another K is served at this batch."""

    accepted_length: float
    """At `stated_k` of the answer. [tokens]"""
    k_after: int


_LENGTH_ERROR = 0.005
"""A flip between two accepted lengths is located to this: two decimals are shown. [tokens]"""


def length_flips(advice: Advice) -> tuple[LengthFlip | None, LengthFlip | None, LengthFlip | None]:
    """The nearest flips below and above today's length, with the one to no drafts between them.

    None where there is none; the middle one also where the nearest below is that already.
    """
    k = stated_k(advice)
    today = length_now(advice)
    if k == 0 or today <= SHORTEST:
        return None, None, None
    now = _k(advice, today)
    lengths = lengths_of(advice)
    place = lengths.index(today)
    # Every second of the page's lengths: none is looked at twice.
    below = _first_flip(advice, [*lengths[place::-2], SHORTEST], now)
    above = _first_flip(advice, [*lengths[place::2], k + 1.0], now)
    off = None
    if below is not None and below.k_after and _k(advice, SHORTEST) == 0:
        near, far = _bisected(advice, SHORTEST, below.accepted_length, 0)
        off = LengthFlip((near + far) / 2.0, 0)
    return below, off, above


def _k(advice: Advice, length: float) -> int:
    return at_length(advice, length).k(advice.scenario.batch_size)


def _first_flip(advice: Advice, lengths: Sequence[float], now: int) -> LengthFlip | None:
    """The first flip along some lengths from today's on."""
    for near, far in pairwise(lengths):
        if _k(advice, far) != now:
            last, first = _bisected(advice, near, far, now)
            return LengthFlip((last + first) / 2.0, _k(advice, first))
    return None


def _bisected(advice: Advice, near: float, far: float, k_near: int) -> tuple[float, float]:
    """Two lengths _LENGTH_ERROR apart, the first with `k_near` as at `near`, the second without as
    at `far`."""
    # First among the page's lengths, which are looked at once for both.
    between = [length for length in lengths_of(advice) if min(near, far) < length < max(near, far)]
    while abs(far - near) > _LENGTH_ERROR:
        middle = between[len(between) // 2] if between else (near + far) / 2.0
        if _k(advice, middle) == k_near:
            near = middle
        else:
            far = middle
        between = [length for length in between if min(near, far) < length < max(near, far)]
    return near, far


def outcome_of(
    advice: Advice, own: Sequence[tuple[float, int, float]] = (), follows_own: bool = False
) -> Outcome:
    """The record of an answer.

    own : the user's measured speedups as (batch, K, speedup) [-]. follows_own : whether K by batch
        are those of these runs.
    """
    answer = advice.recommendation
    scenario = advice.scenario
    batch = scenario.batch_size
    k = answer.n_draft
    rows = {row.n_draft: row for row in advice.drafts}
    tried = rows[k or advice.curve_k]
    alone = rows[answer.best_alone]
    adjustment = advice.setup.adjustment
    moe = advice.setup.architecture.moe
    widths = own_half_widths(advice)
    own_here = [speedup for at, drafted, speedup in own if (at, drafted) == (batch, k)]
    draft: dict[str, Any] = {
        "batch": batch,
        "k": k,
        "k_from": "own" if follows_own else "model",
        "best_alone": answer.best_alone,
        "alone_gain": None if alone.n_draft == k else alone.speedup / rows[k].speedup - 1.0,
        "served": merged_rows(advice.to_serve),
        "n_k": len(advice.drafts),
    }
    profile = engine_of(scenario.engine)
    engine: dict[str, Any] = {
        "engine": scenario.engine,
        "engine_name": None if profile is None else profile.name,
        "kernels_of": advice.setup.costs.kernels_of or None,
        "experts_kernels": None if moe is None else advice.setup.costs.routed.because,
        "bound": answer.bound.kind,
        "bound_component": answer.bound.component,
        "bound_share": answer.bound.share,
        "refit_points": None if adjustment is None else adjustment.n_points,
    }
    own_runs: dict[str, Any] = {
        "own_n": len(own),
        "own_here": float(np.median(own_here)) if own_here else None,
        "half_width": None if widths is None else widths[0],
        "half_width_after": None if widths is None else widths[1],
        "own_rows": OWN_ROWS,
    }
    fits = batch <= advice.setup.memory.largest_batch
    lengths = _flip_facts(advice) if fits and not follows_own else {}
    drafts = k and fits
    adaptive = adaptive_gain(advice.setup, advice.curve) if drafts else AdaptiveGain()
    return Outcome(
        **draft,
        **_gain_facts(advice, tried),
        **_time_facts(advice, rows, tried),
        **_limit_facts(advice),
        **_length_facts(advice),
        **(_NO_FLIPS | lengths),
        **_memory_facts(advice),
        **_pool_facts(advice),
        **_batch_facts(advice),
        **_zone_facts(advice, tried, follows_own),
        **_published_facts(advice),
        **vars(adaptive),
        **own_runs,
        **engine,
    )


def _gain_facts(advice: Advice, tried: DraftRow) -> dict[str, Any]:
    return {
        "tried": tried.n_draft,
        "speedup": tried.speedup,
        "low": tried.speedup_low,
        "high": tried.speedup_high,
        "chance": tried.p_gain,
        "best_share": tried.p_best,
        "loss": tried.expected_loss,
        "tier": str(advice.recommendation.speedup.tier),
    }


def _time_facts(advice: Advice, rows: Mapping[int, DraftRow], tried: DraftRow) -> dict[str, Any]:
    row = rows[advice.recommendation.n_draft]
    return {
        "tpot_ms": row.tpot_s * 1e3,
        "plain_ms": rows[0].tpot_s * 1e3,
        "slow_ms": tried.tpot_s * tried.speedup / tried.speedup_low * 1e3,
        "fastest_ms": min(each.tpot_s for each in rows.values()) * 1e3,
        "limit_ms": advice.scenario.max_tpot_ms,
        "in_limit": row.meets_limit,
        "tried_in_limit": tried.meets_limit,
        "any_in_limit": any(each.meets_limit for each in rows.values()),
    }


def _length_facts(advice: Advice) -> dict[str, Any]:
    setup = advice.setup
    k = stated_k(advice)
    length = length_now(advice) if len(advice.drafts) > 1 else None
    curve = stored_curve(advice.scenario)
    borrowed = borrowed_from(advice) or None
    _, model_id = published_ids(advice.scenario)
    known = [each for each in published_lengths(model_id, setup.drafter.id) if each.n_draft == k]
    of_task = [each for each in known if each.task == advice.scenario.task]
    lengths = [each.accepted_length for each in of_task or known]
    place = None
    if length is not None and curve is None and lengths:
        place = int(length > max(lengths)) - int(length < min(lengths))
    return {
        "accepted_length": length,
        "accepted_k": k,
        "borrowed": borrowed,
        "borrowed_from": None
        if curve is None or borrowed is None
        else distance_of(curve, setup.architecture.id, setup.drafter.id),
        "length_n": len(lengths),
        "length_low": min(lengths, default=None),
        "length_high": max(lengths, default=None),
        "length_task": advice.scenario.task if of_task else None,
        "length_place": place,
        "length_ceiling": k + 1,
    }


_NO_FLIPS: dict[str, Any] = dict.fromkeys(
    ("below_length", "below_k", "off_length", "above_length", "above_k"), None
)


def _flip_facts(advice: Advice) -> dict[str, Any]:
    below, off, above = length_flips(advice)
    facts: dict[str, Any] = {}
    if below is not None:
        facts |= {"below_length": below.accepted_length, "below_k": below.k_after}
    if off is not None:
        facts["off_length"] = off.accepted_length
    if above is not None:
        facts |= {"above_length": above.accepted_length, "above_k": above.k_after}
    return facts


def _limit_facts(advice: Advice) -> dict[str, Any]:
    missed = [part.batch_start for part in advice.k_by_batch if not part.meets_limit]
    if not missed:
        return {"kept_to": None, "admit": None}
    kept_to = missed[0] - 1
    # SGLang counts the requests of all attention groups of an instance.
    groups = advice.setup.placement.attention_groups
    per_engine = {"vllm": kept_to, "sglang": kept_to * groups}
    admit = per_engine.get(advice.scenario.engine) if kept_to else None
    return {"kept_to": kept_to, "admit": admit}


def _memory_facts(advice: Advice) -> dict[str, Any]:
    memory = advice.setup.memory
    batch = advice.scenario.batch_size
    needed = memory.total_bytes(batch)
    fits = memory.largest_batch >= batch
    wider = None if fits else on_more_gpus(advice.scenario)
    return {
        "largest": memory.largest_batch,
        "needed_gib": needed / GIB,
        "usable_gib": memory.usable_bytes / GIB,
        "weights_fill": memory.weights_bytes + memory.drafter_bytes > memory.usable_bytes,
        "wider_gpus": None if wider is None else wider.n_gpus,
    }


def _pool_facts(advice: Advice) -> dict[str, Any]:
    """What the drafter leaves of the KV cache, and what the requests it displaces would give."""
    memory = advice.setup.memory
    plain = memory.plain or memory
    scenario = advice.scenario
    shared = scenario.shared_prefix_tokens
    prompt = scenario.input_tokens or scenario.context_tokens
    hit = None if shared is None else shared / prompt if memory.largest_batch else 0.0
    return {
        "plain_largest": plain.largest_batch,
        "roomy_to": memory.largest_batch // SPARE,
        "pool_tokens": memory.pool_tokens,
        "plain_pool_tokens": plain.pool_tokens,
        "drafter_gib": memory.drafter_bytes / GIB,
        "pool_stated": any(getattr(scenario, name) is not None for name in POOL_FIELDS),
        "prefix_tokens": shared,
        "prefix_hit": hit,
        **_full_facts(advice, memory.largest_batch, plain.largest_batch),
    }


def _full_facts(advice: Advice, largest: int, plain_largest: int) -> dict[str, Any]:
    """Output with drafts of a server full of `largest` requests, where further ones wait, against
    one without a drafter that runs up to `plain_largest` of them."""
    curve = advice.curve
    if not 0 < largest <= plain_largest <= curve.batches[-1]:
        return {"full_speedup": None, "cancels_from": None}
    between = BetweenBatches.of(curve.batches, np.arange(largest, plain_largest + 1))
    rate = between.positive(curve.tokens_per_s_per_gpu)
    full = rate[0, curve.column(int(k_running_at(advice.to_serve, largest)))]
    as_much = np.flatnonzero(rate[1:, 0] >= full)
    return {
        "full_speedup": float(full / rate[-1, 0]),
        "cancels_from": largest + 1 + int(as_much[0]) if as_much.size else None,
    }


def _batch_facts(advice: Advice) -> dict[str, Any]:
    """Where the configuration drafts, gains and may lose, and what one K costs."""
    curve = advice.curve
    places = by_batch(advice, curve, advice.to_serve)
    gain = gain_over_doublings(advice.k_by_batch, advice.values)
    varies = len({part.k_running for part in advice.k_by_batch}) > 1
    k = advice.recommendation.n_draft
    cost = 1.0 - gain.static_speedup[curve.column(k)] / gain.schedule_speedup
    return asdict(places) | {
        "end_is_memory": 0 < advice.setup.memory.largest_batch <= int(curve.batches[-1]),
        "switches": len({part.k_running for part in advice.to_serve}) > 1,
        "varies": varies,
        "single_k_cost": max(cost, 0.0) if varies else None,
    }


def _zone_facts(advice: Advice, tried: DraftRow, follows_own: bool) -> dict[str, Any]:
    """What decides the gain at this batch, and the experts that its steps load."""
    setup = advice.setup
    curve = advice.curve
    row = advice.batch_index
    loading = Loading.of(setup, curve)
    served = served_columns(curve, advice.to_serve, advice.curve_k)
    zone = None
    if len(advice.drafts) > 1 and not follows_own:
        zone = zone_at(zones(setup, curve, loading, served), advice.scenario.batch_size)
    facts: dict[str, Any] = {"zone": zone}
    is_mixture = setup.architecture.moe is not None
    return facts | {
        "experts_loaded": float(loading.share[row]) if is_mixture else None,
        "experts_more": float(loading.growth[row, curve.column(tried.n_draft)]) - 1.0,
        "experts_time": float(loading.time_share[row]) if is_mixture else None,
    }


def _published_facts(advice: Advice) -> dict[str, Any]:
    runs = runs_beside(advice.scenario, advice.setup.placement.gpus)
    here = published_here(advice)
    sides = [side_of_range(advice.curve, run) for run in runs]
    here_sides = {side_of_range(advice.curve, run) for run in here}
    return {
        "published_n": len(runs),
        "published_half": len(runs) / 2,
        "published_slower": sum(run.speedup <= 1.0 for run in runs),
        "published_below": sides.count(-1),
        "published_above": sides.count(1),
        "published_random": sum(run.random_tokens for run in runs),
        "runs_length": length_of_runs(advice, runs) if len(advice.drafts) > 1 else None,
        "published_silent": sum(bool(np.isnan(run.accepted_length)) for run in runs),
        **_ends("published", runs),
        "published_batch_low": min((run.batch_size for run in runs), default=None),
        "published_batch_high": max((run.batch_size for run in runs), default=None),
        "here_n": len(here),
        **_ends("here", here),
        "here_outside": here_sides.pop() if len(here_sides) == 1 else 0,
        **_other_facts(advice, runs),
    }


def _other_facts(advice: Advice, runs: Sequence[PublishedRun]) -> dict[str, Any]:
    """The drafter whose published runs gained most, where that is clearly more than this one's."""
    gains = {
        drafter_id: (_gain_over(advice, runs, other), other)
        for drafter_id, other in other_drafters(advice.scenario, advice.setup.placement.gpus)
        if len(advice.drafts) > 1
    }
    drafter_id = max(gains, key=lambda each: gains[each][0], default="")
    gain, other = gains.get(drafter_id, (0.0, ()))
    clear = other if gain >= CLEARLY else ()
    name = drafter_name(drafter_id) if clear else None
    return {"other_drafter": name, "other_n": len(clear), **_ends("other", clear)}


def _gain_over(
    advice: Advice, runs: Sequence[PublishedRun], other: Sequence[PublishedRun]
) -> float:
    """Median of other runs' speedups over those of `runs` at the same batch, over what is predicted
    where there are none. [-]"""
    curve = advice.curve
    at = np.clip([run.batch_size for run in other], curve.batches[0], curve.batches[-1])
    predicted = interpolate_batches(curve.batches, curve.speedup, at).max(axis=1)
    ratios = []
    for run, speedup in zip(other, predicted, strict=True):
        same_batch = [each.speedup for each in runs if each.batch_size == run.batch_size]
        ratios.append(run.speedup / np.median(same_batch or [speedup]))
    return float(np.median(ratios))


def _ends(name: str, runs: Sequence[PublishedRun]) -> dict[str, Any]:
    speedups = [run.speedup for run in runs]
    return {f"{name}_low": min(speedups, default=None), f"{name}_high": max(speedups, default=None)}
