"""A user's own runs against the model: the gap, its parts, what follows from it, and the sentences
that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from advisor.answers.advice import Advice, serving
from advisor.answers.best_k import IntArray, k_running_at
from advisor.answers.by_batch import given_ranges, schedule_values
from advisor.catalog.adjustment import change_text
from advisor.measured.own_points import rows_of
from advisor.measured.points import measured_times
from advisor.predict.curve import Curve
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import Array
from advisor.text import counted, listed

VerdictKind = Literal["agree", "mixed", "accepted_length", "plain_step", "faster", "slower"]
Quantity = Literal["speedup", "plain_s", "round_s"]
AGREES = 0.06
"""Choice of this project: mean gaps up to this are none. [-]"""
HALVED = 0.5
"""Choice of this project: an accepted length explains a gap whose logarithm it at least halves, to
PLAIN_OFF. [-]"""
PLAIN_OFF = 0.15
"""Choice of this project: plain steps farther off than this are looked at before the rounds. [-]"""
APART = 0.15
"""Choice of this project: rows that are off by more than this in the mean, up or down, do not
agree. [-]"""
PLAIN_FAR = 1.5
"""Choice of this project: a plain step further off than this is another server than the predicted
one. [-]"""
SAME_LENGTH = 0.01
"""Accepted lengths nearer to each other are one: they are shown with two decimals. [-]"""
_SAME_CONTEXT = 0.1
"""Contexts nearer to each other are one: means over requests are seldom round. [-]"""


@dataclass(frozen=True, eq=False)
class OwnVerdict:
    """The user's runs of one K (0: without drafts) against the model's at the same batches."""

    kind: VerdictKind
    n_draft: int
    points: pd.DataFrame
    """batch_size, measured, predicted, in the unit of `quantity`."""
    quantity: Quantity
    """Speedups, or where the rows have none, times of plain steps (K = 0) or of rounds. [s]"""
    gap: float
    """Measured over predicted, geometric mean over the points. [-]"""
    plain_step: float
    """Measured plain steps over the model's. 1 where none was timed. [-]"""
    model_length: float
    """The scenario's accepted length at this K. [tokens]"""
    own_length: float | None
    """Geometric mean of what the rows state; None where they do not. [tokens]"""
    own_context: int | None
    """Median context of the rows where it is another than the scenario's. [tokens]"""

    @property
    def unforeseen(self) -> pd.DataFrame:
        """Points with a loss where the model predicts a gain, as both are shown."""
        speedups = self.quantity == "speedup"
        return self.points[
            speedups
            & (self.points["measured"].round(2) < 1.0)
            & (self.points["predicted"].round(2) > 1.0)
        ]

    @property
    def gap_with_own_length(self) -> float:
        """The gap once the model has the rows' accepted length. [-]"""
        return self.gap * self.model_length / (self.own_length or self.model_length)


def rows_to_compare(advice: Advice, frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Rows of a points frame that the scenario's curve can be held against, and why there are none.

    Of its accelerator, model, GPUs and drafter, at a K and batch of the curve, with a speedup or a
    plain step.
    """
    scenario = advice.scenario
    curve = advice.curve
    rows = rows_of(frame, scenario)
    if not len(rows):
        return (
            rows,
            f"No row is of {scenario.model_id} on {scenario.n_gpus} x {scenario.hardware_id}.",
        )
    k = rows["draft_tokens_k"].to_numpy(dtype=float, na_value=np.nan)
    drafter = rows["drafter"].isna() | (rows["drafter"] == scenario.drafter_id) | (k == 0)
    if not drafter.any():
        drafter_names = ", ".join(sorted(map(str, rows["drafter"].dropna().unique())))
        return rows[
            drafter
        ], f"The file's drafter is {drafter_names}, the scenario's {scenario.drafter_id}."
    near = (
        rows["batch_size"].astype(float).between(float(curve.batches[0]), float(curve.batches[-1]))
    )
    known = np.isin(k, curve.drafts)
    if not (drafter & near & known).any():
        ends = (
            f"K = 0 to {curve.drafts[-1]} and batch {curve.batches[0]:.0f} to "
            f"{curve.batches[-1]:,.0f}"
        )
        return rows[drafter & near & known], f"No row lies within the curve, {ends}."
    rows = rows[drafter & near & known]
    timed = rows["speedup"].notna() | ((rows["draft_tokens_k"] == 0) & _plain_s(rows).notna())
    timed |= rows["step_time_s"].notna()
    return rows[
        timed
    ], "" if timed.any() else "No row has a speedup, nor the time of a step or round."


def drafts_of(rows: pd.DataFrame) -> list[int]:
    """The K of rows with a speedup, most rows first. Without any: 0 for plain steps, else the K of
    rounds."""
    k = rows["draft_tokens_k"].astype(int)
    drafting = k[rows["speedup"].notna() & (k > 0)]
    if not len(drafting):
        drafting = k[k == 0] if (k == 0).any() else k
    return [int(draft) for draft in drafting.value_counts(sort=True).index]


def own_verdict(advice: Advice, rows: pd.DataFrame, n_draft: int | None = None) -> OwnVerdict:
    """The verdict on rows of `rows_to_compare`, at least one, at a K of `drafts_of`. Default: its
    first."""
    k = drafts_of(rows)[0] if n_draft is None else n_draft
    curve = advice.curve
    column = advice.curve.column(k)
    of_k = rows[rows["draft_tokens_k"] == k]
    faster = of_k[of_k["speedup"].notna()] if k else of_k.head(0)
    quantity: Quantity = "round_s" if k else "plain_s"
    if len(faster):
        quantity = "speedup"
    some = faster if len(faster) else of_k
    batch = some["batch_size"].to_numpy(float)
    plain_s = at_batch(curve, curve.tpot_s[:, curve.column(0)], batch)
    if quantity == "speedup":
        measured = some["speedup"].to_numpy(float)
        predicted = at_batch(curve, curve.speedup[:, column], batch)
    elif quantity == "round_s":
        measured = some["step_time_s"].to_numpy(float)
        predicted = at_batch(curve, curve.round_s[:, column], batch)
    else:
        measured = _plain_s(some).to_numpy(float)
        predicted = plain_s
    gap = _mean(measured / predicted)
    model_length = float(curve.accepted_length[column])
    length = (
        _mean(some["accepted_length"].to_numpy(float, na_value=np.nan))
        if quantity == "speedup"
        else np.nan
    )
    if quantity == "speedup":
        own_plain = _mean(some["tpot_s"].to_numpy(float, na_value=np.nan) * measured / plain_s)
        if np.isnan(
            own_plain
        ):  # of a rate, which prompts and queues lower too, a plain step is told from far off
            by_rate = _mean(
                np.array([measured_times(row)[0] for row in some.to_dict("records")]) / plain_s
            )
            own_plain = by_rate if is_far(by_rate) else np.nan
    else:
        own_plain = np.nan if k else gap
    stated = None if np.isnan(length) else length
    plain_step = 1.0 if np.isnan(own_plain) else own_plain
    contexts = some["context_tokens"].dropna().to_numpy(float)
    context_tokens = float(advice.scenario.context_tokens)
    context = float(np.median(contexts)) if len(contexts) else context_tokens
    verdict = OwnVerdict(
        kind=_kind(gap, plain_step, stated, model_length, quantity),
        n_draft=k,
        quantity=quantity,
        points=pd.DataFrame({"batch_size": batch, "measured": measured, "predicted": predicted}),
        gap=gap,
        plain_step=plain_step,
        model_length=model_length,
        own_length=stated,
        own_context=None
        if abs(context / context_tokens - 1.0) <= _SAME_CONTEXT
        else max(round(context), 1),
    )
    apart = float(np.mean(np.abs(np.log(measured / predicted)))) > np.log1p(APART)
    return (
        replace(verdict, kind="mixed")
        if verdict.kind == "agree" and (apart or len(verdict.unforeseen))
        else verdict
    )


def _kind(
    gap: float, plain_step: float, stated: float | None, model_length: float, quantity: Quantity
) -> VerdictKind:
    if quantity == "speedup" and is_far(plain_step):
        return "plain_step"
    if abs(gap - 1.0) <= AGREES:
        return "agree"
    if quantity == "plain_s":
        return "plain_step"
    if quantity == "round_s":
        return "slower" if gap > 1.0 else "faster"
    if stated is not None and abs(stated / model_length - 1.0) > SAME_LENGTH:
        left = np.log(gap * model_length / stated)
        if abs(left) <= min(HALVED * abs(np.log(gap)), np.log1p(PLAIN_OFF)):
            return "accepted_length"
    if abs(plain_step - 1.0) > PLAIN_OFF:
        return "plain_step"
    return "faster" if gap > 1.0 else "slower"


def _plain_s(rows: pd.DataFrame) -> pd.Series:
    return rows["tpot_s"].fillna(rows["step_time_s"]).astype(float)


def at_batch(curve: Curve, values: Array, batch: ArrayLike) -> Array:
    """Values of a curve at batches between its own, along straight lines of the logarithms."""
    return np.asarray(np.exp(np.interp(np.log(batch), np.log(curve.batches), np.log(values))))


def _mean(values: Array) -> float:
    """Geometric mean; NaN unless every value is known, so that parts of the same rows multiply to
    their whole."""
    return (
        float(np.exp(np.mean(np.log(values))))
        if len(values) and not np.isnan(values).any()
        else float("nan")
    )


_HIGHER = ("higher", "lower", "as predicted")
_LONGER = ("longer", "less", "as long as predicted")


def _beside(ratio: float, words: tuple[str, str, str] = _HIGHER) -> str:
    """A factor on the predicted value in words, `18% lower than predicted`."""
    percent = round((ratio - 1.0) * 100.0)
    return f"{abs(percent)}% {words[percent < 0]} than predicted" if percent else words[2]


def is_far(plain_step: float) -> bool:
    """Whether a measured plain step over the predicted one tells of another server than the
    predicted."""
    return bool(abs(np.log(plain_step)) >= np.log(PLAIN_FAR))


def plain_title(off: float) -> str:
    """Clause on a plain step that is `off` times the predicted one."""
    ratio = f"{off:.1f} times as long as" if off > 1.0 else f"{off:.0%} of the time"
    return f"Your plain step takes {ratio} predicted"


def _named(points: pd.DataFrame) -> str:
    """Batches of some points, `8 and 32`."""
    return listed([f"{batch:,.4g}" for batch in sorted(points["batch_size"].unique())])


KEEP = "Keep"
CHECK_SERVER = "Check model, GPUs, weight format and batch."
SWITCH_OFF = "Switch speculation off"


def verdict_title(found: OwnVerdict) -> str:
    """The verdict in a few words."""
    if found.kind == "plain_step":
        plain = found.plain_step
        if is_far(plain):
            return plain_title(plain)
        return f"Your step without drafts takes {_beside(plain, _LONGER)}"
    if found.kind == "mixed" and len(lost := found.unforeseen):
        return f"Your runs lose at batch {_named(lost)} where a gain is predicted"
    return {
        "agree": "Your runs agree with the model",
        "mixed": "The model errs one way at some batches, the other way at others",
        "accepted_length": "Your accepted length explains it",
        "slower": "Your runs gain less than predicted",
        "faster": "Your runs gain more than predicted",
    }[found.kind]


def verdict_text(found: OwnVerdict) -> str:
    """The sentence or two below the title."""
    rows = counted(len(found.points), "row")
    of = f"{rows} at K = {found.n_draft}" if found.n_draft else f"{rows} without drafts"
    if found.quantity == "round_s":
        return (
            f"Your rounds take {_beside(found.gap, _LONGER)} ({of}); a run without drafts tells "
            "the speedup."
        )
    if found.kind == "accepted_length":
        sentence = (
            f"{found.own_length:.2f} tokens, not {found.model_length:.2f}: the gap shrinks from "
            f"{change_text(found.gap)} to {change_text(found.gap_with_own_length)}."
        )
    elif found.kind in ("agree", "mixed"):
        each = (
            (found.points["measured"] / found.points["predicted"])
            .groupby(found.points["batch_size"])
            .median()
        )
        ends = [
            f"{change_text(each[at])} at batch {at:,.4g}"
            for at in dict.fromkeys((each.idxmin(), each.idxmax()))
        ]
        mean = f": {change_text(found.gap)} on average" if found.kind == "agree" else ""
        sentence = f"{of}{mean}, {' to '.join(ends)} against the prediction."
    else:
        far = f"{CHECK_SERVER} " if is_far(found.plain_step) else ""
        apart = found.own_length and abs(found.own_length / found.model_length - 1.0) > SAME_LENGTH
        at = (
            f" at {found.model_length:.2f} accepted tokens, not your {found.own_length:.2f}"
            if apart
            else ""
        )
        sentence = (
            far + f"Your speedup is {_beside(found.gap)}{at} ({of})."
            if found.n_draft
            else f"{of[:1].upper()}{of[1:]}."
        )
    if found.own_context is not None:
        sentence += f" Measured at {found.own_context:,} tokens of context, not the scenario's."
    return sentence


def decision_text(frame: pd.DataFrame) -> str:
    """Sentence on which K to draft where, by the measured speedups of a points frame alone. Empty
    without any."""
    at = _by_k(frame)
    if at.empty:
        return ""
    best = at.max(axis=1)
    k = at.idxmax(axis=1).where(best >= 1.0, 0)
    keep = [
        f"K = {draft} {_batches(best[k == draft], best)}"
        for draft in dict.fromkeys(k.tolist())
        if draft
    ]
    several = len(at.columns) > 1
    none_loses = ": so switched, no batch of yours loses" if several and (k > 0).all() else ""
    keep_text = f"{KEEP} {listed(keep)}{none_loses}. " if keep else ""
    if not (k == 0).any():
        return keep_text.strip()
    least = sorted(set(at.idxmax(axis=1)[k == 0]))
    of = f" at best, K = {' or '.join(map(str, least))}" if several else ""
    return f"{keep_text}{SWITCH_OFF} {_batches(best[k == 0], best, of)}."


def own_drafts(advice: Advice, own: Sequence[tuple[int, int, int]]) -> IntArray:
    """K of an `own_schedule` at each batch that fits, [n].

    Beyond its end the model's K, no higher than its last, and before its start than any that pays.
    """
    end = advice.k_by_batch[-1].batch_end
    drafts = k_running_at(advice.k_by_batch, np.arange(1, end + 1))
    for first, last, k in own:
        drafts[first - 1 : last] = k
    drafts[own[-1][1] :] = np.minimum(drafts[own[-1][1] :], own[-1][2])
    if longest := max(k for *_, k in own):  # where all lose, smaller batches are the model's
        drafts[: own[0][0] - 1] = np.minimum(drafts[: own[0][0] - 1], longest)
    return drafts


def as_measured(advice: Advice, own: Sequence[tuple[int, int, int]]) -> Advice:
    """The answer with the K of an `own_schedule` in its engine's schedule: `own_drafts`.

    No drafter where nothing is drafted at the answer's batch.
    """
    if not own:
        return advice
    drafts = own_drafts(advice, own)
    if not drafts[min(advice.scenario.batch_size, drafts.size) - 1]:
        drafts = np.zeros_like(drafts)
    return serving(advice, given_ranges(schedule_values(advice.setup, advice.curve), drafts))


def own_schedule(points: pd.DataFrame | None) -> tuple[tuple[int, int, int], ...]:
    """(first batch, last, K) of measured speedups that decide, K = 0 where every K loses.

    Between measured batches each K is read along straight lines of the logarithms. A doubling
    beyond the last, where a speedup falls on as between its last two, and down to half the first,
    where that gains; a last K = 0 to the end: a model that did not foresee the loss is not followed
    beyond it.
    """
    at = pd.DataFrame() if points is None else _by_k(points[points["decides"]])
    batches = (
        np.arange(np.ceil(0.5 * at.index[0]), np.floor(2.0 * at.index[-1]) + 1)
        if len(at)
        else np.empty(0)
    )
    gains = [np.zeros(batches.size)]
    log_batches = np.log(np.clip(batches, at.index.min(), at.index.max()))
    beyond = np.log(np.maximum(batches / at.index.max(), 1.0))
    for speedups in (at[k].dropna() for k in at):
        known = np.log(speedups.index)
        gain = np.log(speedups.to_numpy())
        fall = min(np.diff(gain)[-1] / np.diff(known)[-1], 0.0) if len(speedups) > 1 else 0.0
        gains.append(
            np.interp(log_batches, known, gain, left=-np.inf, right=-np.inf) + fall * beyond
        )
    best = np.array([0, *at.columns])[np.argmax(gains, axis=0)]
    if best.size and not best[0]:  # a loss says nothing of smaller batches
        within = batches >= at.index[0]
        batches = batches[within]
        best = best[within]
    first = np.flatnonzero(np.diff(best, prepend=-1))
    last = np.append(first, best.size)[1:] - 1
    batches = np.append(batches[:-1], MAX_BATCH) if best.size and not best[-1] else batches
    first_batches = batches[first].astype(int).tolist()
    last_batches = batches[last].astype(int).tolist()
    drafts = best[first].astype(int).tolist()
    return tuple(zip(first_batches, last_batches, drafts, strict=True))


def border_texts(points: pd.DataFrame) -> dict[int, str]:
    """Reason for each last batch of `own_schedule` that is not measured, and of the model's before
    it."""
    at = points["batch_size"]
    ends = [last for _, last, _ in own_schedule(points)[:-1]]
    inside = [last for last in ends if at.min() < last < at.max() and not at.eq(last).any()]
    prefix = "interpolated between your"
    texts = {
        last: f"{prefix} {at[at < last].max():,.4g} and {at[at > last].min():,.4g}"
        for last in inside
    }
    if (start := own_schedule(points)[0][0]) > 1:
        texts[start - 1] = "up to here the model's"
    texts |= {
        last: f"where your speedup, falling on beyond {at.max():,.4g}, reaches 1x"
        for last in ends
        if last > at.max()
    }
    return dict(sorted(texts.items()))


def _by_k(frame: pd.DataFrame) -> pd.DataFrame:
    """Median measured speedups, batch by K."""
    rows = frame.rename(columns={"n_draft": "draft_tokens_k"}).dropna(
        subset=["batch_size", "speedup"]
    )
    rows = rows[rows["draft_tokens_k"].gt(0).fillna(False)]
    rows = rows.astype({"batch_size": float, "draft_tokens_k": int, "speedup": float})
    return rows.groupby(["batch_size", "draft_tokens_k"])["speedup"].median().unstack()


def _batches(some: pd.Series, at: pd.Series, of: str = "") -> str:
    """Batches among those measured, with their speedups:
    `up to batch 64 (measured 1.09x to 1.46x)`, and whose."""
    first = some.index[0]
    last = some.index[-1]
    batches_text = f"at batch {', '.join(f'{batch:,.4g}' for batch in some.index)}"
    if len(some) > 1 and len(some) == len(at.loc[first:last]):
        from_first = first == at.index[0] and some.iloc[0] >= 1.0
        batches_text = (
            f"up to batch {last:,.4g}" if from_first else f"at batch {first:,.4g} to {last:,.4g}"
        )
    ends = (
        (some.iloc[0], some.iloc[-1]) if some.is_monotonic_decreasing else (some.min(), some.max())
    )  # as the batches
    speedups = dict.fromkeys(f"{speedup:.2f}x" for speedup in ends)
    return f"{batches_text} (measured {' to '.join(speedups)}{of})"
