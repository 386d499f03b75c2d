"""The curve before and after a refit, for one model, drafter and K of the user's points, with those points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from advisor.acceptance import parse_acceptance
from advisor.arrays import Array
from advisor.curve import DEFAULT_BATCHES, Curve, curve_for
from advisor.points.points import Point
from advisor.points.refit import drafter_of, refitted
from advisor.points.result import QUANTITY_WORDS, RefitResult
from advisor.setup import Setup


@dataclass(frozen=True)
class BeforeAfter:
    """Curves over batches [nB] of one quantity: speedup [-], or seconds of tpot_s or step_time_s."""

    quantity: str
    model_id: str
    drafter: str
    n_draft: int
    batches: Array
    before: Array
    after: Array
    after_low: Array
    """Band of the refit's speedup; equal to `after` for times, which carry no band."""
    after_high: Array
    points: pd.DataFrame
    """The rows drawn: columns of `RefitResult.rows`."""


def curve_groups(result: RefitResult) -> list[tuple[str, str, int, str]]:
    """(model, drafter, K, quantity) of the rows, most rows first. Forward-pass and draft times have no curve here."""
    drawn = result.rows[result.rows["quantity"].isin(["speedup", "tpot_s", "step_time_s"])]
    sizes = drawn.groupby(["model_id", "drafter", "n_draft", "quantity"]).size().sort_values(ascending=False)
    return [(str(m), str(d), int(k), str(q)) for m, d, k, q in sizes.index]


def curve_name(model_id: str, drafter: str, n_draft: int, quantity: str = "") -> str:
    """Name of a curve, as `qwen3-30b-a3b, eagle3, K = 3, speedup`."""
    how = f"{drafter}, K = {n_draft}" if n_draft else "without drafts"
    return ", ".join(filter(None, (model_id, how, QUANTITY_WORDS.get(quantity, quantity))))


def before_after(points: Sequence[Point], result: RefitResult, group: tuple[str, str, int, str]) -> BeforeAfter:
    """Curves before and after a refit for one of `curve_groups`.

    They take the first such point's placement and context, and the median accepted length.
    """
    model_id, drafter, n_draft, quantity = group
    alike = [p for p in points if (p.scenario.model_id, drafter_of(p), p.n_draft) == (model_id, drafter, n_draft)]
    length = float(np.median([point.accepted_length for point in alike]))
    setup = _with_length(alike[0].setup, length, n_draft)
    lines = {point.line for point in alike}
    drawn = result.rows[result.rows["line"].isin(lines) & (result.rows["quantity"] == quantity)]
    batches = np.unique([*DEFAULT_BATCHES, *drawn["batch_size"]])
    batches = batches[batches <= max(4 * float(drawn["batch_size"].max()), 64)]
    before, after = (curve_for(item, batches, [n_draft]) for item in (setup, refitted(setup, result)))
    value = _values(after, quantity)
    banded = quantity == "speedup"
    return BeforeAfter(
        quantity=quantity,
        model_id=model_id,
        drafter=drafter,
        n_draft=n_draft,
        batches=batches,
        before=_values(before, quantity),
        after=value,
        after_low=after.low[:, 0] if banded else value,
        after_high=after.high[:, 0] if banded else value,
        points=drawn.reset_index(drop=True),
    )


def _with_length(setup: Setup, length: float, n_draft: int) -> Setup:
    if n_draft == 0:
        return setup
    return replace(setup, acceptance=parse_acceptance(f"{length:.6g}@{n_draft}", setup.scenario.k_max))


def _values(curve: Curve, quantity: str) -> Array:
    return {"speedup": curve.speedup, "tpot_s": curve.tpot_s, "step_time_s": curve.round_s}[quantity][:, 0]
