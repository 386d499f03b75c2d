"""A user's own runs: whether they are of a scenario, and which K they decide where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.answers.advice import Advice, serving
from advisor.answers.best_k import IntArray, k_running_at
from advisor.answers.by_batch import given_ranges
from advisor.predict.curve import Curve
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import Array

if TYPE_CHECKING:  # an answer without runs of the user's own needs no pandas
    import pandas as pd

SAME_LENGTH = 0.01
"""Accepted lengths nearer to each other are one: they are shown with two decimals. [-]"""


@dataclass(frozen=True)
class Mismatch:
    """Reason that rows are not of a scenario: another setup, or other drafters."""

    kind: Literal["setup", "drafter"]
    drafters: tuple[str, ...] = ()


def mismatch_of(scenario: Scenario, frame: pd.DataFrame) -> Mismatch | None:
    """Reason that no row of a points frame is of a scenario. None where some are."""
    from advisor.measured.own_points import rows_of

    rows = rows_of(frame, scenario)
    if not len(rows):
        return Mismatch("setup")
    drafters = rows["drafter"]
    plain = rows["draft_tokens_k"].eq(0).fillna(False)
    if (drafters.isna() | drafters.eq(scenario.drafter_id) | plain).any():
        return None
    return Mismatch("drafter", tuple(sorted(map(str, drafters.dropna().unique()))))


@dataclass(frozen=True)
class Span:
    """Measured batches at which a K gains most, or at which no K gains."""

    k: int
    """0: none gains."""
    batches: tuple[float, ...]
    reach: Literal["up_to", "range", "each"]
    """Of the measured batches: all up to the last, all between the ends, or some."""
    first: float
    last: float
    """Measured speedups at the first and last batch where they fall with it, else the least and the
    most. [-]"""
    closest: tuple[int, ...] = ()
    """Where none of several K gains, those that came closest."""


@dataclass(frozen=True)
class Decision:
    """The K to keep and where to draft nothing, by measured speedups alone."""

    spans: tuple[Span, ...] = ()
    all_gain: bool = False
    """Several K were measured, and at each batch one gains."""


NOTHING_DECIDED = Decision()


def decision(frame: pd.DataFrame) -> Decision:
    """The K to draft and where, by the measured speedups of a points frame."""
    at = _by_k(frame)
    if at.empty:
        return NOTHING_DECIDED
    best = at.max(axis=1)
    k = at.idxmax(axis=1).where(best >= 1.0, 0)
    several = len(at.columns) > 1
    closest = tuple(sorted({int(n_draft) for n_draft in at.idxmax(axis=1)[k == 0]}))
    drafts = dict.fromkeys(sorted(k.tolist(), key=lambda n_draft: n_draft == 0))
    spans = [
        _span(draft, best[k == draft], best, () if draft or not several else closest)
        for draft in drafts
    ]
    return Decision(tuple(spans), several and bool((k > 0).all()))


def _span(n_draft: int, some: pd.Series, at: pd.Series, closest: tuple[int, ...]) -> Span:
    """Batches among those measured, with their speedups."""
    first, last = some.index[[0, -1]]
    reach: Literal["up_to", "range", "each"] = "each"
    if len(some) > 1 and len(some) == len(at.loc[first:last]):
        from_first = first == at.index[0] and some.iloc[0] >= 1.0
        reach = "up_to" if from_first else "range"
    ends = some.min(), some.max()
    if some.is_monotonic_decreasing:  # as the batches
        ends = some.iloc[0], some.iloc[-1]
    return Span(n_draft, tuple(some.index), reach, float(ends[0]), float(ends[1]), closest)


def at_batch(curve: Curve, values: Array, batch: ArrayLike) -> Array:
    """Values of a curve at batches between its own, along straight lines of the logarithms."""
    return np.asarray(np.exp(np.interp(np.log(batch), np.log(curve.batches), np.log(values))))


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
    return serving(advice, given_ranges(advice.values, drafts))


def own_schedule(points: pd.DataFrame | None) -> tuple[tuple[int, int, int], ...]:
    """(first batch, last, K) of measured speedups that decide, K = 0 where every K loses.

    Between measured batches each K is read along straight lines of the logarithms. A doubling
    beyond the last, where a speedup falls on as between its last two, and down to half the first,
    where that gains; a last K = 0 to the end: a model that did not foresee the loss is not followed
    beyond it.
    """
    if points is None:
        return ()
    at = _by_k(points[points["decides"]])
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


@dataclass(frozen=True)
class Border:
    """Last batch of a range of an `own_schedule` that was not measured."""

    batch: int
    kind: Literal["between", "models", "falls"]
    """Read between two measured batches, where the model's ranges end, or where a speedup that
    falls on beyond the last measured batch reaches 1."""
    below: float | None = None
    above: float | None = None
    """Measured batches next to it. [-]"""


def borders(points: pd.DataFrame) -> list[Border]:
    """Each last batch of `own_schedule` that is not measured, and of the model's before it."""
    at = points["batch_size"]
    schedule = own_schedule(points)
    ends = [last for _, last, _ in schedule[:-1]]
    inside = [last for last in ends if at.min() < last < at.max() and not at.eq(last).any()]
    out = [Border(last, "between", at[at < last].max(), at[at > last].min()) for last in inside]
    if (start := schedule[0][0]) > 1:
        out.append(Border(start - 1, "models"))
    out += [Border(last, "falls", at.max()) for last in ends if last > at.max()]
    return sorted(out, key=lambda border: border.batch)


def _by_k(frame: pd.DataFrame) -> pd.DataFrame:
    """Median measured speedups, batch by K."""
    rows = frame.rename(columns={"n_draft": "draft_tokens_k"}).dropna(
        subset=["batch_size", "speedup"]
    )
    rows = rows[rows["draft_tokens_k"].gt(0).fillna(False)]
    rows = rows.astype({"batch_size": float, "draft_tokens_k": int, "speedup": float})
    return rows.groupby(["batch_size", "draft_tokens_k"])["speedup"].median().unstack()
