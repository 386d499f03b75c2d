"""Speedups by laboratory, each left out of the fit, beside simpler models judged on the same rows.

One laboratory brought most of the rows, so means are over laboratories. Rivals: (i) independent
uniform experts; (ii) AL / (1 + c K) without batch; (iii) AL / (a + c K + b log2 B); (iv) every
operation, the KV cache included, charged as a batch of B (K + 1) sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import WORKSTATION
from advisor.measured.refit_result import errors_of, relative_error
from advisor.measured.validation import chances_kept
from advisor.physics.components import FACTORS
from advisor.physics.hardware import load_hardware, of_data_centre
from advisor.predict.curve import curve_for
from advisor.prediction import Array
from studies.fits.held_out import COMMON_SHARE, held_out_predictions
from studies.fits.overheads import (
    fit_overheads,
    speedups,
)
from studies.published import MAX_PLAIN_FACTOR, PublishedPoint, seen_by
from studies.validation.outside import impossible_models
from studies.validation.tables import markdown_table, percent, shape_error

LEAST_BATCHES = 3
"""Batch sizes from which on a slope is printed. [-]"""
STRAIGHT = 0.05
"""Log error a doubling of batch within which a laboratory's curve counts as straight. [-]"""
ERROR_BARS = (0.14, 0.18)
SLOPE_BAR = 0.03
WIDTH_BARS = (0.42, 0.60)
"""What was asked of laboratories left out: mean error and median width on data-centre parts and
over all, and slopes over batch. [-]"""
MATURE = "without stacks called immature"


def in_data_centre(rows: pd.DataFrame) -> pd.Series:
    """Whether each row ran on a data-centre part."""
    own = {name: of_data_centre(load_hardware(name)) for name in rows["hardware_id"].unique()}
    return rows["hardware_id"].map(own).astype(bool) & ~rows["engine_class"].str.endswith(
        WORKSTATION
    )


def held_out_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md. `rows` as `held_out` gives them."""
    centre = in_data_centre(rows)
    mature = ~rows["immature"]
    header = (
        "laboratory",
        "n",
        "mean error",
        "bias",
        "a doubling of batch",
        "in the 80 % band",
        "width of the band",
        "plain step",
    )
    lines = {str(name): _figures(group) for name, group in rows.groupby("source")}
    body = [_cells(name, *found) for name, found in lines.items()]
    means = [
        ("mean over laboratories", rows),
        (f"... {MATURE}", rows[mature]),
        ("... of these, data-centre parts", rows[mature & centre]),
        ("... and workstation parts", rows[mature & ~centre]),
    ]
    body += [_cells(name, *mean_figures(chosen)) for name, chosen in means]
    return (
        "## Speedups by laboratory, each left out\n\nConstants and bands from a fit without the "
        "laboratory; width is "
        "the median of its rows, plain step the mean error of the plain times that they print. "
        "The form of a round was "
        "chosen on these same rows (docs/decisions/"
        "0045-verified-tokens.md), so they are development scores: laboratories added later are "
        "the test.\n\n"
        f"{markdown_table(header, body)}\n\n{_asked_table(rows, centre)}\n\nEvery stack. "
        f"{_losses(rows)}\n\n{MATURE.capitalize()}. {_losses(rows[mature])}"
    )


def steps_to_repair(rows: pd.DataFrame) -> str:
    """The section on rows whose plain step is not the one predicted. `rows` as `held_out` gives
    them."""
    stated = rows[rows["plain_over_measured"].notna()]
    off = stated["plain_over_measured"].map(np.log).abs()
    wrong = stated[off > np.log(MAX_PLAIN_FACTOR)].assign(ratio=stated["plain_over_measured"])
    keys = ["source", "model_id", "hardware_id", "engine_class"]
    table = wrong.groupby(keys)["ratio"].agg(["size", "median", "min", "max"]).reset_index()
    body = [
        (
            *(line[key] for key in keys),
            line["size"],
            *(f"{line[name]:.2f}" for name in ("median", "min", "max")),
        )
        for line in table.to_dict("records")
    ]
    header = (
        "laboratory",
        "model",
        "accelerator",
        "engine",
        "rows",
        "predicted / measured",
        "least",
        "most",
    )
    return (
        f"## Plain steps to repair\n\n{len(stated)} rows print their plain rate. Ours (with the "
        "prefill that the "
        f"metric holds) is off by more than {MAX_PLAIN_FACTOR:g} times in {len(wrong)} of them, 2 "
        "times in "
        f"{int((off > np.log(2.0)).sum())}, 5 times in {int((off > np.log(5.0)).sum())}. The "
        "ratio of such a row is "
        "one of two wrong steps: it is judged, and informs no constant of rounds.\n\n"
        + markdown_table(header, body)
    )


def _asked_table(rows: pd.DataFrame, centre: pd.Series) -> str:
    """The bars on every row, and beside them the figures without stacks called immature."""
    mature = ~rows["immature"]
    beside = _asked(rows[mature], centre[mature])
    body = [(*line, other[1]) for line, other in zip(_asked(rows, centre), beside, strict=True)]
    return markdown_table(("asked", "every stack", "bar", "status", MATURE), body)


def _asked(rows: pd.DataFrame, centre: pd.Series) -> list[tuple[str, str, str, str]]:
    """The bars, line by line, met or missed."""
    _, error, _, slope, _, width, _ = mean_figures(rows)
    _, error_dc, _, slope_dc, _, width_dc, _ = mean_figures(rows[centre])
    (bar_dc, bar) = ERROR_BARS
    (wide_dc, wide) = WIDTH_BARS
    bend = SLOPE_BAR
    classes = {name: float(_inside(group).mean()) for name, group in rows.groupby("engine_class")}
    worst = min(classes, key=lambda name: classes[name])
    asked = [
        ("mean error, data centre", error_dc, bar_dc, error_dc <= bar_dc),
        ("mean error, all", error, bar, error <= bar),
        ("slope over batch, data centre", slope_dc, bend, abs(slope_dc) <= bend),
        ("slope over batch, all", slope, bend, abs(slope) <= bend),
        ("median width, data centre", width_dc, wide_dc, width_dc <= wide_dc),
        ("median width, all", width, wide, width <= wide),
    ]
    body = [
        (what, percent(figure), f"<= {percent(limit, 0)}", _met(good))
        for what, figure, limit, good in asked
    ]
    what = (
        f"laboratories within {percent(STRAIGHT, 0)} a doubling, of those with {LEAST_BATCHES} "
        "batches and more"
    )
    straight, n = straight_laboratories(rows)
    body.append((what, f"{straight} of {n}", ">= 9 of 10", _met(straight >= 0.9 * n)))
    off = np.log(rows["plain_over_measured"]).abs() > np.log(MAX_PLAIN_FACTOR)
    straight, n = straight_laboratories(rows[~off])
    what = f"... without rows whose plain step is off by {MAX_PLAIN_FACTOR:g} times and more"
    body.append((what, f"{straight} of {n}", "", "for comparison"))
    body.append(
        (
            "coverage, worst class",
            f"{percent(classes[worst])} ({worst})",
            ">= 60 %",
            _met(classes[worst] >= 0.6),
        )
    )
    return body


def straight_laboratories(rows: pd.DataFrame) -> tuple[int, int]:
    """Laboratories within STRAIGHT a doubling of batch, and those that have a slope. [-]"""
    slopes = [
        slope for _, group in rows.groupby("source") if not np.isnan(slope := _figures(group)[3])
    ]
    return sum(abs(slope) <= STRAIGHT for slope in slopes), len(slopes)


def _losses(rows: pd.DataFrame) -> str:
    """Whether slowdowns were foreseen, and at what price."""
    below = rows[rows["measured"] < 1.0]
    gains = rows[rows["measured"] >= 1.2]
    certain = rows[(rows["low"] > 1.0) | (rows["high"] < 1.0)]
    right = float(((certain["low"] > 1.0) == (certain["measured"] > 1.0)).mean())
    foreseen = float((below["predicted"] < 1.0).mean())
    warned = float((below["low"] < 1.0).mean())
    false = float((gains["low"] < 1.0).mean())
    return (
        f"Where the band excludes 1 ({len(certain)} rows), the sign is right in {percent(right)} "
        f"(bar 95 %: {_met(right >= 0.95)}). Of {len(below)} measured slowdowns "
        f"{percent(foreseen, 0)} are predicted below 1, and {percent(warned, 0)} carry a band "
        f"that reaches below 1 (bar 80 %: {_met(warned >= 0.8)}); of {len(gains)} gains of 1.2x "
        f"or more {percent(false, 0)} carry such a band (bar 15 %: {_met(false <= 0.15)})."
    )


def chances_section(rows: pd.DataFrame) -> str:
    """The section on stated chances of a gain. `rows` as `held_out` gives them."""
    judged = rows.assign(source_title=rows["title"])
    body = [
        (
            f"{line['least']:.0%} to {line['most']:.0%}",
            line["n"],
            line["laboratories"],
            *map(percent, kept),
        )
        for line in chances_kept(judged).to_dict("records")
        for kept in [(line["stated"], line["happened"])]
    ]
    return (
        "## The chance of a gain\n\nStated for a row by a fit without its laboratory, and the "
        "share of such rows that "
        "were gains, rows counting alike.\n\n"
        + markdown_table(("stated", "rows", "laboratories", "mean stated", "gained"), body)
    )


def _met(good: bool) -> str:
    return "met" if good else "missed"


def _inside(group: pd.DataFrame) -> pd.Series:
    return group["measured"].between(group["low"], group["high"])


_Figures = tuple[int, float, float, float, float, float, float]


def _figures(group: pd.DataFrame) -> _Figures:
    """n, mean error, median bias, log error per doubling of batch (NaN on few batches), share in
    band, median width, and mean error of the plain times that rows print (NaN without)."""
    log_ratio = np.log(group["predicted"] / group["measured"])
    doublings = np.log2(group["batch_size"].to_numpy(float))
    slope = (
        np.polyfit(doublings, log_ratio, 1)[0]
        if group["batch_size"].nunique() >= LEAST_BATCHES
        else np.nan
    )
    return (
        len(group),
        float(relative_error(group).mean()),
        float(np.exp(log_ratio.median()) - 1.0),
        float(slope),
        float(_inside(group).mean()),
        float(((group["high"] - group["low"]) / group["predicted"]).median()),
        float((group["plain_over_measured"] - 1.0).abs().mean()),
    )


def mean_figures(rows: pd.DataFrame) -> _Figures:
    """Rows, then the means over laboratories of what `_figures` says of each; of widths the
    median."""
    table = np.array([_figures(group) for _, group in rows.groupby("source")], float)
    error = float(np.nanmean(table[:, 1]))
    bias = float(np.nanmean(table[:, 2]))
    slope = float(np.nanmean(table[:, 3]))
    inside = float(np.nanmean(table[:, 4]))
    plain = float(np.nanmean(table[:, 6]))
    return int(table[:, 0].sum()), error, bias, slope, inside, float(np.median(table[:, 5])), plain


def _cells(name: str, n: int, *figures: float) -> tuple[str | int, ...]:
    return (name, n, *("" if np.isnan(value) else percent(value) for value in figures))


def with_uniform_experts(point: PublishedPoint) -> PublishedPoint:
    """The point with experts drawn independently and uniformly."""
    return seen_by(
        point, replace(point.setup, routing=None, routing_because="independent uniform routing")
    )


def with_batch_times_tokens(point: PublishedPoint) -> PublishedPoint:
    """The point with verification costed as a plain step over B q sequences, the cache read q
    times.

    What is fitted of many tokens for a sequence (second readings, verified tokens) is in that step
    already.
    """
    question = point.question
    setup = point.setup
    observed = point.observations
    tokens = question.verify_tokens or question.n_draft + 1
    wide = curve_for(setup, [question.scenario.batch_size * tokens], [question.n_draft])
    lower = observed.lower.copy()
    curve = point.curve()
    beyond_s = curve.verify_step_s + curve.round_components["verify_tokens"]
    lower[:, -1] += float(wide.plain_step_s[0] - beyond_s[0, 0]) + lower[:, _REREAD]
    lower[:, [_REREAD, _VERIFIED]] = 0.0
    return replace(point, observations=replace(observed, lower=lower))


_REREAD, _VERIFIED = map(
    tuple(FACTORS).index, ("reread", "verified")
)  # the second is no part of that step


RIVALS = {"uniform experts": with_uniform_experts, "batch x (K+1)": with_batch_times_tokens}
"""Simpler models, each as a change of rows whose constants are then fitted alike."""


def rival_predictions(points: Sequence[PublishedPoint], rival: str) -> Array:
    """Speedup of each point by one of RIVALS, fitted without the point's laboratory. [-]"""
    return held_out_predictions([RIVALS[rival](point) for point in points])


def rival_round_costs(
    fitted: Sequence[PublishedPoint], judged: Sequence[PublishedPoint], rival: str
) -> Array:
    """Round cost in plain steps of points from sources that took no part in the fit, by one of
    RIVALS. [-]"""
    model = fit_overheads([RIVALS[rival](point) for point in fitted], COMMON_SHARE)
    changed = [RIVALS[rival](point) for point in judged]
    return np.array([p.accepted_length for p in judged]) / speedups(changed, model)


OURS = "ours"


def rivals_section(
    points: list[PublishedPoint],
    rows: pd.DataFrame,
    outside: list[PublishedPoint],
    external: pd.DataFrame,
) -> str:
    """Section of docs/validation.md on simpler models, each fitted on the rows that ours is fitted
    on."""
    frame = rows.copy()
    body = []
    ext = external.copy()
    columns = [OURS, *RIVALS]
    frame["ours"], ext["ours"] = frame["predicted"], ext["predicted"]
    for rival in RIVALS:
        frame[rival] = rival_predictions(points, rival)
        ext[rival] = rival_round_costs(points, outside, rival)
    small = frame["batch_size"] <= 8
    mature = ~frame["immature"]
    chains = ext[~ext["tree"]]
    possible = ext[~ext["model_id"].isin(impossible_models(ext))]
    judged = {
        f"speedup (n {len(frame)})": lambda name: errors_of(frame, name).mape,
        f"... {MATURE} (n {int(mature.sum())})": lambda name: errors_of(frame[mature], name).mape,
        f"B <= 8 (n {int(small.sum())})": lambda name: errors_of(frame[small], name).mape,
        f"shape (n {shape_error(frame)[1]})": lambda name: shape_error(frame, name)[0],
        f"round cost, external (n {len(ext)})": lambda name: errors_of(ext, name).mape,
        f"... chains (n {len(chains)})": lambda name: errors_of(chains, name).mape,
        f"... possible rounds (n {len(possible)})": lambda name: errors_of(possible, name).mape,
    }
    figures = pd.DataFrame(
        {what: {name: figure(name) for name in columns} for what, figure in judged.items()}
    )
    body = [(name, *map(percent, figures.loc[name])) for name in columns]
    header = ("model", *judged)
    return (
        "## The same rows judged by simpler models\n\nEach fitted per engine class under the same "
        "protocol: the "
        "laboratory of the row left out; the external rows by a fit on all published rows.\n\n"
        + markdown_table(header, body)
        + f"\n\n{simpler_wins(figures)}\n\n{_uniform_gate(frame)}"
    )


def simpler_wins(figures: pd.DataFrame) -> str:
    """A sentence for each figure (column) in which a rival (row) errs less than we do."""
    lines = []
    for what in figures:
        ours = figures.loc[OURS, what]
        rivals = figures.drop(OURS)[what]
        better = rivals[rivals < ours].sort_values()
        if len(better):
            named = ", ".join(
                f"{name} ({percent(error)} against {percent(ours)})"
                for name, error in better.items()
            )
            lines.append(f"- {what}: a simpler model errs less: {named}.")
    return "\n".join(lines) or "No simpler model errs less on any of these."


def _uniform_gate(frame: pd.DataFrame) -> str:
    small = frame[frame["batch_size"] <= 8]
    uniform = float(relative_error(small, "uniform experts").mean())
    ours = float(relative_error(small, "ours").mean())
    met = "met" if ours < uniform else "missed"
    return (
        f"- uniform experts, rows with B <= 8 (n {len(small)}): {percent(uniform)} against our "
        f"{percent(ours)} ({met})."
    )
