"""The answer in one line and the lines below it: which K, how sure, what would change it, whether
it fits in memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, zip_longest
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.answers.advice import HARDLY, Advice, gain_text, published_here, side_of_range
from advisor.answers.best_k import DraftRow, interpolate_batches, k_at, recommended_draft
from advisor.catalog.adjustment import Adjustment, change_text
from advisor.catalog.hardware import drafter_name, hardware_name, model_name, shape_label
from advisor.catalog.task_transfer import curve_on_task
from advisor.measured.published import runs_beside
from advisor.physics.acceptance import AcceptanceCurve, acceptance_curve, parse_acceptance
from advisor.physics.bands import SIMULATED
from advisor.physics.components import FACTORS
from advisor.physics.hardware import of_data_centre
from advisor.physics.memory import GIB
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array, Tier
from advisor.profiles import PROFILES, read_made
from advisor.text import counted, listed

if TYPE_CHECKING:  # an answer needs neither pandas nor the design search
    from advisor.answers.design.space import DesignSpace
    from advisor.measured.refit_result import Errors


def headline(advice: Advice, n_draft: int) -> str:
    """The verdict on one K, the recommended one or another that was picked."""
    rows = advice.drafts
    if len(rows) == 1:
        return f"Plain decoding: {rows[0].tpot_s * 1e3:.3g} ms per token"
    limit_ms = advice.scenario.max_tpot_ms
    if not advice.recommendation.meets_limit and limit_ms is not None:
        fastest = min(row.tpot_s for row in rows) * 1e3
        return f"No draft keeps {limit_ms:g} ms: the fastest takes {fastest:.3g} ms"
    best = max(rows[1:], key=lambda row: row.speedup)
    if n_draft == 0:
        if best.speedup < 1.0:
            return f"Don’t speculate: {best.speedup:.2f}× at best"
        if not best.meets_limit:
            return f"Don’t speculate: {best.speedup:.2f}× misses the limit"
        if best.speedup_low >= 1.0:
            return "No drafting: 1×"
        chance = f"a gain in {advice.recommendation.p_gain:.0%} of {SIMULATED}"
        return f"Don’t speculate: {best.speedup:.2f}× at best, {chance}"
    row = rows[n_draft]
    lender = borrowed_from(advice)
    borrowed = f", acceptance borrowed from {lender}" if lender else ""
    tokens = f"Draft {counted(n_draft, 'token')}"
    if row.speedup < 1.0:
        return f"{tokens}: {row.speedup:.2f}×, slower than plain{borrowed}"
    if row.speedup < HARDLY:
        loses = ", and it may lose" if row.speedup_low < 1.0 else ""
        return f"Hardly worth it: {row.speedup:.2f}×{loses}{borrowed}"
    return f"{tokens}: {row.speedup:.2f}× {contradicted(advice, n_draft) or 'faster'}{borrowed}"


def contradicted(advice: Advice, n_draft: int) -> str:
    """Words on published runs of the batch that all lie beyond one end of the likely range. Else
    empty."""
    row = advice.drafts[n_draft]
    batch = advice.scenario.batch_size
    speedups = (
        sorted(run.speedup for run in published_here(advice))
        if 0 < n_draft == advice.curve_k
        else []
    )
    if not speedups or (speedups[-1] >= row.speedup_low and speedups[0] <= row.speedup_high):
        return ""
    values = (
        listed([f"{speedup:.2f}×" for speedup in speedups])
        if len(speedups) < 3
        else f"{speedups[0]:.2f}–{speedups[-1]:.2f}×"
    )
    at_batch = [
        run
        for run in runs_beside(advice.scenario, advice.setup.placement.gpus)
        if run.batch_size == batch
    ]
    of_draft = f" at K = {n_draft}" if len(at_batch) > len(speedups) else ""
    return f"modelled, {values} published{of_draft}"


def place_text(answer: Advice | DesignSpace) -> tuple[str, str]:
    """Line on what is served and how it drafts, where and at which batch."""
    setup = answer.setup
    scenario = setup.scenario
    hardware = setup.hardware
    model = model_name(scenario.model_id)
    if scenario.served_checkpoint is not None:
        model = (
            f"{scenario.served_checkpoint.rpartition('/')[2]} (as {model}: the same architecture)"
        )
    if (
        scenario.model_config_json is not None
    ):  # the shape shows a misreading of the user's configuration
        model = f"{scenario.model_id} ({shape_label(setup.architecture)})"
    batches = (
        [scenario.batch_size] if isinstance(answer, Advice) else answer.question.batches.tolist()
    )
    loads = ", ".join(f"{batch:,.0f}" for batch in batches)
    is_forced = setup.adjustment is not None and setup.adjustment.forced
    refit = ", refit forced" if is_forced else ""
    return (
        model if setup.drafter.kind == "none" else f"{model} + {drafter_name(setup.drafter)}",
        f"on {setup.placement.gpus} × {hardware_name(hardware)}, batch {loads}, context "
        f"{scenario.context_tokens:,}{refit}",
    )


def published_text(advice: Advice) -> str:
    """Sentence on what published runs of this setup and drafter measured. Empty where there are
    none."""
    runs = runs_beside(advice.scenario, advice.setup.placement.gpus)
    if not runs:
        return ""
    speedups = sorted(run.speedup for run in runs)
    batches = sorted(run.batch_size for run in runs)
    values = dict.fromkeys(f"{value:.2f}x" for value in (speedups[0], speedups[-1]))
    loads = dict.fromkeys(f"{batch:,.0f}" for batch in (batches[0], batches[-1]))
    beside = [side_of_range(advice, run) for run in runs]
    below = sum(side < 0 for side in beside)
    outside = sum(side != 0 for side in beside)
    where = "all lie within the likely range"
    silent = sum(bool(np.isnan(run.accepted_length)) for run in runs)
    if outside:
        below_text = f", {below} below it" if below else ""
        where = f"{outside} lie outside the likely range{below_text}"
    if outside and silent:
        drawn = sum(run.random_tokens for run in runs)
        many = "all" if drawn == len(runs) else str(drawn)
        random_prompts = (
            f", and {many} had prompts of random tokens, which accept less" if drawn else ""
        )
        runs_clause = "the runs do" if silent == len(runs) else f"{silent} of the runs do"
        where += (
            f". It is for this answer's accepted length; {runs_clause} not state "
            f"theirs{random_prompts}"
        )
    near = [f"{run.speedup:.2f}x" for run in published_here(advice)]
    here = (
        f", {listed(near)} at batch {advice.scenario.batch_size:,}"
        if near and len(near) < len(runs)
        else ""
    )
    return (
        f"{counted(len(runs), 'published run')} of this model, GPUs and drafter: "
        f"{' to '.join(values)} at batch "
        f"{' to '.join(loads)}{here}; {where}."
    )


def likely_text(advice: Advice, n_draft: int) -> str:
    """Likely range of one K, its chance of a gain, and the cost beside it or the next best K."""
    rows = advice.drafts
    if len(rows) == 1:
        return "Nothing is drafted."
    row = rows[n_draft]
    recommended = rows[advice.recommendation.n_draft]
    likely = ""
    if n_draft:
        gain = gain_text(row.speedup_low, row.p_gain, advice.gain_factor, advice.counting)
        likely = (
            f"Likely {row.speedup_low:.1f}–{row.speedup_high:.1f}× (8 in 10). "
            f"{gain}{_limit_text(advice, row)}"
        )
    if row.n_draft != recommended.n_draft:
        return (
            f"{likely} You picked K = {n_draft}: expected loss {row.expected_loss:.1%}, of K = "
            f"{recommended.n_draft} "
            f"{recommended.expected_loss:.1%}."
        ).strip()
    has_others = any(row.n_draft not in (n_draft, 0) for row in rows)
    return f"{likely} {advice.recommendation.equals}".strip() if has_others else likely


def _limit_text(advice: Advice, row: DraftRow) -> str:
    """That the limit is missed at the slow end of the band though the central value keeps it; else
    empty."""
    limit_ms = advice.scenario.max_tpot_ms
    slow_ms = row.tpot_s * row.speedup / row.speedup_low * 1e3
    if limit_ms is None or not row.meets_limit or slow_ms <= limit_ms:
        return ""
    return f" At the slow end a token takes {slow_ms:.3g} ms, over the limit of {limit_ms:g}."


def one_k_text(advice: Advice, n_texts: int | None = None) -> str:
    """Gain of the schedule over one K in so many sentences, and its ranges of batch, in words."""
    ranges = advice.k_by_batch
    gain = " ".join(advice.schedule_texts[:n_texts])
    if len(ranges) == 1 or (
        len(advice.to_serve) == 1 and all(item.n_draft and item.meets_limit for item in ranges)
    ):
        return gain
    # Neighbouring ranges of one K differ in their limit or their mean speedup alone.
    ends = [
        item
        for item, after in zip_longest(ranges, ranges[1:])
        if after is None or after.n_draft != item.n_draft
    ]
    steps = ", ".join(
        f"{item.n_draft} at {start:,}" + (f"-{item.batch_end:,}" if item.batch_end > start else "")
        for start, item in zip([1, *(item.batch_end + 1 for item in ends)], ends, strict=False)
    )
    missed = next((item.batch_start for item in ranges if not item.meets_limit), None)
    limit = ""
    if missed is not None:
        groups = (
            advice.setup.placement.attention_groups
        )  # SGLang counts the requests of all of them
        flags = {
            "vllm": f"--max-num-seqs {missed - 1}",
            "sglang": f"--max-running-requests {(missed - 1) * groups}",
        }
        flag = f" ({flags[advice.scenario.engine]})" if advice.scenario.engine in flags else ""
        cap = f": let at most {missed - 1:,} requests run at once{flag}" if missed > 1 else ""
        limit = f"From batch {missed:,} no K keeps {advice.scenario.max_tpot_ms:g} ms{cap}. "
    return f"K by batch: {steps}. {limit}{gain}".strip()


def gain_end_text(advice: Advice, alone: int | None = None) -> str:
    """Up to which batch speculation gains, at the K of the schedule. Empty where it gains at none.

    alone : one K, which is then asked about in place of the schedule.
    """
    full = advice.setup.memory.largest_batch
    curve_end = int(advice.curve.batches[-1])
    if advice.break_even_batch is not None and (alone is not None or len(advice.k_by_batch) == 1):
        return f"Speculation stops paying at batch {advice.break_even_batch:,.0f}."
    curve = advice.curve
    # each batch, as the page has it (rules.js)
    batches = np.arange(1, min(full or curve_end, curve_end) + 1)
    drafted = k_at(advice.k_by_batch, batches) if alone is None else np.full(len(batches), alone)
    served = np.arange(len(batches)), np.searchsorted(curve.drafts, drafted)
    speedup = interpolate_batches(curve.batches, curve.speedup, batches)[served]
    low = interpolate_batches(curve.batches, curve.low, batches)[served]
    if full < 1 or speedup.max() <= 1.0:
        return ""
    if alone is None and not advice.k_by_batch[-1].n_draft:
        end = max(
            (k_range.batch_end for k_range in advice.k_by_batch if k_range.n_draft), default=0
        )
        return f"Speculation stops paying at batch {end + 1:,}."
    there = f"{speedup[-1]:.1f}x there"
    extent = "that fits" if full <= curve_end else "looked at"
    loses = low[drafted > 0] < 1.0
    if loses.size and loses[-1]:
        first = batches[drafted > 0][loses.size - int(loses[::-1].cumprod().sum())]
        there = f"a loss is possible from about {first:,}"
    return f"Speculation pays at every batch {extent} (up to {batches[-1]:,}; {there})."


def unlaunched_text(advice: Advice) -> str:
    """Sentence where the batch does not fit: what a server would run is the K of another. Empty
    where it fits."""
    largest = advice.setup.memory.largest_batch
    batch = advice.scenario.batch_size
    if largest >= batch:
        return ""
    instead = f" For at most {largest:,} at once: --batch {largest}." if largest else ""
    return f"batch {batch:,} does not fit.{instead}"


def stated_k(advice: Advice) -> int:
    """K at which accepted lengths are stated: that of the user's own `X@K`, else the shown one.
    [-]"""
    _, _, k_text = advice.scenario.acceptance.partition("@")
    given_k = int(k_text) if k_text.strip().isdigit() else 0
    return (
        given_k if advice.curve_k and given_k and given_k in advice.curve.drafts else advice.curve_k
    )


_STEP = 0.06
"""Accepted lengths that are looked at are this far apart. [tokens]"""
_FINE = 0.0005
"""Between two of them a flip is located to this. [tokens]"""
_LEAST = 1.01
"""No accepted length is looked at below this one. [tokens]"""


@dataclass(frozen=True)
class Flip:
    """Accepted length from which on, away from today's, another K is recommended."""

    accepted_length: float
    """At `stated_k` of today's answer. [tokens]"""
    k_before: int
    k_after: int
    is_below: bool
    """Whether it takes fewer accepted tokens than today."""


def accepted_length_flips(advice: Advice) -> tuple[Flip, ...]:
    """The nearest flip on each side of today's accepted length, and the one to no drafting at all.

    A draw's speedup is proportional to the accepted length at its K where prompts are not charged,
    so the curve is scaled instead of computed anew, K by K as one number carried to other K would
    move (`parse_acceptance`).
    """
    k = stated_k(advice)
    today = float(advice.curve.accepted_length[advice.curve.column(k)])
    if k == 0 or today <= _LEAST:
        return ()
    flips = []
    for bound in (_LEAST, k + 1.0):
        lengths = np.linspace(today, bound, max(2, round(abs(bound - today) / _STEP)))
        before = _recommended(advice, today, float(lengths[0]))
        for last, length in pairwise(lengths.tolist()):
            after = _recommended(advice, today, length)
            if after != before:
                near = last
                far = length
                while abs(far - near) > _FINE:  # today's own length may lie within a step of it
                    middle = (near + far) / 2.0
                    k_there = _recommended(advice, today, middle)
                    near, far, after = (
                        (middle, far, after) if k_there == before else (near, middle, k_there)
                    )
                flips.append(Flip((near + far) / 2.0, before, after, length < today))
                break
    if (
        flips
        and flips[0].is_below
        and flips[0].k_after
        and _recommended(advice, today, _LEAST) == 0
    ):
        low = _LEAST
        high = flips[0].accepted_length
        k_before = 0
        while high - low > _STEP / 2.0:
            central = (low + high) / 2.0
            k = _recommended(advice, today, central)
            low, high, k_before = (central, high, k_before) if k == 0 else (low, central, k)
        flips.insert(1, Flip((low + high) / 2.0, k_before, 0, True))
    return tuple(flips)


def flip_texts(advice: Advice) -> tuple[str, ...]:
    """One piece for each flip, `below 1.94: K = 2`."""
    texts = []
    for flip in accepted_length_flips(advice):
        side = "below" if flip.is_below else "above"
        decision = f"K = {flip.k_after}" if flip.k_after else "do not speculate"
        texts.append(f"{side} {flip.accepted_length:.2f}: {decision}")
    return tuple(texts)


def flips_text(advice: Advice) -> str:
    """Accepted lengths that would change K, in one clause. Empty where none would."""
    flips = "; ".join(flip_texts(advice))
    k = stated_k(advice)
    now = float(advice.curve.accepted_length[advice.curve.column(k)])
    return f"an accepted length (now {now:.2f} at K = {k}) {flips}" if flips else ""


def _recommended(advice: Advice, today: float, length: float) -> int:
    """K that the library recommends where `length` tokens are accepted in place of `today`'s."""
    curve = advice.curve
    longest = int(curve.drafts[-1])
    k = stated_k(advice)
    factor = (_carried(length, k, longest) / _carried(today, k, longest))[curve.drafts]
    scaled = replace(
        curve,
        speedup=curve.speedup * factor,
        draws=curve.draws * factor,
        tpot_s=curve.tpot_s / factor,
    )
    return int(scaled.drafts[recommended_draft(advice.setup, scaled, advice.batch_index)])


@lru_cache(maxsize=4096)
def _carried(length: float, n_draft: int, longest: int) -> Array:
    """Accepted length at K = 0 to `longest`, from one at `n_draft`. The batch plays no part.
    [tokens]"""
    return parse_acceptance(f"{min(length, n_draft + 1.0):.6f}@{n_draft}", longest).accepted_length


_MOST_GPUS = 64


@dataclass(frozen=True)
class Fit:
    """Lack of memory of a scenario, and a change that fits. Bytes are of one GPU."""

    needed_bytes: float
    usable_bytes: float
    largest_batch: int
    """The largest batch that fits as it is; 0 when not even one sequence does. [-]"""
    weights_bytes: float
    """Of the model and its drafter."""
    context_tokens: int
    scenario: Scenario | None
    """The same on as many GPUs as it takes; None where 64 do not hold it."""

    @property
    def title(self) -> str:
        """Memory needed and there, in one line."""
        return (
            f"Needs {self.needed_bytes / GIB:,.0f} GiB a GPU, {self.usable_bytes / GIB:,.0f} "
            "are usable"
        )

    @property
    def because(self) -> str:
        """Reason in one sentence."""
        if self.largest_batch:
            return (
                f"Batch {self.largest_batch:,} is the largest that fits. The numbers are "
                "hypothetical."
            )
        load = (
            "The weights alone are"
            if self.weights_fill
            else f"One sequence at context {self.context_tokens:,} is"
        )
        return f"{load} too large. The numbers are hypothetical."

    @property
    def weights_fill(self) -> bool:
        """Whether the weights alone are too large, so that no batch and no context helps."""
        return self.weights_bytes > self.usable_bytes

    @property
    def remedy(self) -> str:
        """Sentence on what makes it fit, by what does not."""
        if self.weights_fill:
            return "Choose more GPUs or a smaller weight format."
        shorter = (
            "a smaller batch, a shorter context" if self.largest_batch else "a shorter context"
        )
        return f"Choose {shorter}, more GPUs or a smaller format."


def fit_of(setup: Setup) -> Fit | None:
    """None where the scenario of a setup fits."""
    memory = setup.memory
    scenario = setup.scenario
    if memory.largest_batch >= scenario.batch_size:
        return None
    needed = memory.total_bytes(scenario.batch_size, setup.placement.attention_groups)
    return Fit(
        needed_bytes=needed,
        usable_bytes=memory.usable_bytes,
        largest_batch=memory.largest_batch,
        weights_bytes=memory.weights_bytes + memory.drafter_bytes,
        context_tokens=scenario.context_tokens,
        scenario=on_more_gpus(scenario),
    )


def on_more_gpus(scenario: Scenario) -> Scenario | None:
    """The scenario over twice its ranks, or more, on which its batch fits. None where none does."""
    gpus = scenario.n_gpus
    while (gpus := gpus * 2) <= _MOST_GPUS:
        wider = scenario.model_copy(update={"n_gpus": gpus, "tensor_parallel": gpus})
        try:
            if load_setup(wider).memory.largest_batch >= scenario.batch_size:
                return wider
        except AdvisorError:  # a placement that the model does not allow
            continue
    return None


ENOUGH_ROWS = 10
"""Choice of this project: errors of fewer published points say too little of an accelerator and
model."""
_WORDS: Mapping[Tier, str] = {
    Tier.MEASURED: "measured at this very point",
    Tier.INTERPOLATED: "read between measured kernels of {}",
    Tier.FITTED: "modelled from the measured kernels of {}",
    Tier.ROOFLINE: "from the data sheet only, no kernel of it was measured",
}


def tier_words(setup: Setup, tier: Tier) -> str:
    """Basis of the times of a tier, in words."""
    chip = setup.costs.kernels_of
    return _WORDS[tier].format(f"{chip}, the same chip" if chip else "this GPU")


def errors_text(by_group: Mapping[str, Errors]) -> str:
    """Errors of the nearest group of published points with enough rows, and of the nearer ones.
    Empty without any."""
    if not by_group:
        return ""
    near = [(name, errors) for name, errors in by_group.items() if errors.n >= ENOUGH_ROWS]
    group, errors = near[0] if near else list(by_group.items())[-1]
    if errors.median_ape is None or errors.coverage is None:
        return ""
    of = f" of {group}" if group == "this accelerator and model" else f" ({group})"
    origin = (
        f" from {counted(errors.n_sources, 'laboratory', 'laboratories')}"
        if errors.n_sources
        else ""
    )
    alike = ", each counting alike," if (errors.n_sources or 0) > 1 else ""
    return (
        f"{_few_text(by_group, group)}On {errors.n} published speedups{of}{origin}{alike} the "
        "median error is "
        f"{errors.median_ape:.0%}, {errors.coverage:.0%} lie in the likely "
        f"range{_right_side(errors, ' and ')}."
    )


_LEAST_SHARE = 0.01
"""Of a round: a smaller correction is not told. [-]"""


def correction_text(advice: Advice) -> str:
    """Share of the recommended K's round that is a correction, in one sentence. Empty where it
    hardly counts."""
    curve = advice.curve
    n_draft = advice.recommendation.n_draft
    parts = curve.components_at(advice.batch_index, curve.column(n_draft))[1]
    share = parts.get("verified", 0.0) / sum(parts.values())
    if share < _LEAST_SHARE:
        return ""
    return (
        f"{share:.0%} of the round is a correction for verified tokens, fitted on published "
        "speedups."
    )


def _right_side(errors: Errors, before: str) -> str:
    return (
        ""
        if errors.sign_accuracy is None
        else f"{before}{errors.sign_accuracy:.0%} on the right side of 1×"
    )


def _few_text(by_group: Mapping[str, Errors], group: str) -> str:
    """The groups nearer than `group`, which have too few rows, in one sentence with a space
    behind."""
    texts = [
        f"{errors.n} of {name} (median error {errors.median_ape:.0%}, {errors.coverage:.0%} in "
        "the likely range"
        f"{_right_side(errors, ', ')})"
        for name, errors in list(by_group.items())[: list(by_group).index(group)]
        if errors.median_ape is not None and errors.coverage is not None
    ]
    return f"Few published speedups are near: {'; '.join(texts)}. " if texts else ""


def borrowed_from(answer: Advice | DesignSpace) -> str:
    """The checkpoint, or of the same model the drafter, whose accepted length stands in. Empty
    where none does."""
    setup = answer.setup
    curve = _stored_curve(setup.scenario)
    if curve is None or not setup.acceptance.borrowed or setup.drafter.kind == "none":
        return ""
    if curve.model_id == setup.architecture.id:
        return drafter_name(curve.drafter_id)
    return curve.checkpoint or model_name(curve.model_id)


def _stored_curve(scenario: Scenario) -> AcceptanceCurve | None:
    """The measured curve that a scenario names, on its task. None for a user's own numbers."""
    return acceptance_curve(curve_on_task(scenario.acceptance, scenario.task))


def accepted_text(advice: Advice) -> str:
    """Accepted length that the answer rests on, and its origin."""
    scenario = advice.scenario
    curve = _stored_curve(advice.scenario)
    k = advice.curve_k
    length = float(advice.curve.accepted_length[advice.curve.column(k)])
    accepted = f"Accepted length {length:.2f} at K = {k}"
    carried = bool(advice.setup.acceptance.extrapolated[k])
    if curve is None:
        yours = curve_on_task(scenario.acceptance, scenario.task)
        return (
            f"{accepted}: carried there from yours ({yours})." if carried else f"{accepted}: yours."
        )
    source = borrowed_from(advice)
    ran = re.sub("[^a-z0-9]", "", curve.checkpoint.lower())
    model = re.sub("[^a-z0-9]", "", model_name(curve.model_id).lower())
    other = (
        f", by {curve.checkpoint}" if ran not in ("", model) else ""
    )  # another than whose dimensions it has
    other = f", borrowed from {source}: fill in yours at Accepted length" if source else other
    first = curve.n_draft[0]
    last = curve.n_draft[-1]
    drafts = f"{first}" if first == last else f"{first} to {last}"
    how = f"carried there, measured at K = {drafts}" if carried else "measured"
    if advice.setup.acceptance.carried_from:
        task = str(scenario.task).replace("_", " ")
        how = f"carried from {advice.setup.acceptance.carried_from} to {task}, measured on"
        return f"{accepted}: {how} {curve.dataset}{other}."
    return f"{accepted}: {how}, {curve.dataset}{other}."


_NAMED = 2
"""Constants that a sentence names, those that moved most."""
_SAME = 0.005
"""A band whose half width moves by less is called the same. [-]"""


def refitted_times_text(adjustment: Adjustment) -> str:
    """Basis of the times of a refitted answer, with the determined constants that the points moved
    most."""
    from advisor.measured.refit_result import LEAST_MOVE

    rests_on = f"refitted on {adjustment.n_points} points of yours"
    if adjustment.learnt is None:
        return rests_on
    learnt = {name: adjustment.factors[name] for name in adjustment.learnt}
    moves = sorted(learnt.items(), key=lambda item: -abs(log(item[1])))
    changes = [
        f"{FACTORS[name]} {change_text(factor)}"
        for name, factor in moves
        if abs(factor - 1.0) >= LEAST_MOVE
    ]
    moved = ", ".join(changes[:_NAMED]) or "no constant that they determine moved by 1% or more"
    return f"{rests_on} ({moved})"


def refit_text(refitted: Advice, shipped: Advice, n_draft: int) -> str:
    """Effect of a refit on the speedup of a K and its band, with the uncertainty behind it.

    refitted, shipped : answers to one scenario with the refit and without it. Empty where there is
        no refit, or nothing
    is drafted.
    """
    k = min(n_draft, len(refitted.drafts) - 1)
    if refitted.setup.adjustment is None or k == 0:
        return ""
    row_before = shipped.drafts[k]
    row_after = refitted.drafts[k]
    before = (row_before.speedup_high - row_before.speedup_low) / (2.0 * row_before.speedup)
    after = (row_after.speedup_high - row_after.speedup_low) / (2.0 * row_after.speedup)
    trend = "narrows" if after < before else "widens"
    moved = f"{trend} from ±{before:.0%} to ±{after:.0%}"
    band = f"stays ±{after:.0%}" if abs(after - before) < _SAME else moved
    at = (
        f"predicted for K = {k} at batch {refitted.scenario.batch_size:,} from "
        f"{row_before.speedup:.2f}× to {row_after.speedup:.2f}×"
    )
    return f"Your rows move the speedup {at}; the likely range {band}."


OWN_RUNS = PROFILES / "validation" / "own_runs.json"
OWN_ROWS = 4
"""Runs of one's own that a refit is judged after: from here on it takes the scatter of the user's
own rows. [-]"""


@dataclass(frozen=True)
class OwnRuns:
    """Figures before and after a refit on OWN_ROWS rows of a configuration, on its other rows.
    Shares. [-]

    Means over laboratories; widths are medians of (high - low) / predicted; slopes are log error on
    log2 batch.
    """

    kind: str
    """Which rows: data centre, workstation, all, or one laboratory."""
    n_rows: int
    n_laboratories: int
    error_before: float
    error_after: float
    coverage_before: float
    coverage_after: float
    width_before: float
    width_after: float
    slope_before: float
    slope_after: float


@lru_cache(maxsize=1)
def read_own_runs(path: Path = OWN_RUNS) -> tuple[str, dict[str, OwnRuns]]:
    """(hash of data and fits, figures by kind). Raises AdvisorError when the file is missing or
    damaged."""

    def runs(kind: str, figures: dict[str, Any]) -> OwnRuns:
        # A slope without three batches is no number.
        numbers: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in figures.items()
        }
        return OwnRuns(kind=kind, **numbers)

    return read_made(
        path,
        lambda found: (
            str(found["data_and_fits"]),
            {kind: runs(kind, row) for kind, row in found["kinds"].items()},
        ),
    )


def half_width_after(low: float, value: float, high: float, study: OwnRuns) -> tuple[float, float]:
    """Half the band's width over its value, now and after OWN_ROWS runs of one's own. [-] Narrower
    as in the study."""
    now = (high - low) / (2.0 * value)
    return now, now * min(study.width_after / study.width_before, 1.0)


def own_runs_text(advice: Advice) -> str:
    """Clause on what first own runs would do to the band. Empty with a refit, without drafts or
    shipped figures."""
    if advice.scenario.refit or not advice.curve_k:
        return ""
    try:
        _, kinds = read_own_runs()
    except AdvisorError:
        return ""
    kind = "data centre" if of_data_centre(advice.setup.hardware) else "workstation"
    study = kinds.get(kind) or kinds["all"]
    at = advice.batch_index, advice.curve_column
    curve = advice.curve
    now, after = half_width_after(
        float(curve.low[at]), float(curve.speedup[at]), float(curve.high[at]), study
    )
    return (
        f"Likely range ±{now:.0%} at K = {advice.curve_k}; about ±{after:.0%} once refitted to "
        f"{OWN_ROWS} benchmark "
        "runs of your own"
    )
