"""The verdict and the gap between measured and predicted, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.diagnosis.physics import Compared, Comparison
from advisor.diagnosis.rules import Kind, Rule
from advisor.text import counted, with_prefix

_OPENING: dict[Kind, str] = {
    "measurement": "Measure again before anything is tuned",
    "configuration": "The engine is not configured to win",
    "physics": "The measurement and the settings look right, and the run is slower than the model explains",
}


def verdict_text(
    verdict: str,
    findings: Sequence[tuple[Rule, Kind]],
    compared: Sequence[Comparison],
    refused: Sequence[str],
    n_not_judged: int,
) -> str:
    """The verdict as a reader sees it first."""
    if findings:
        kind = findings[0][1]
        named = [rule.title for rule, of in findings if of == kind]
        return f"{_OPENING[kind]}: {'; '.join(named)}."
    if refused and verdict == "mismeasured":
        return f"Measure again before anything is tuned: no row of it can be used ({refused[0]})."
    open_rules = f" {counted(n_not_judged, 'rule')} could not be judged." if n_not_judged else ""
    if not compared or verdict == "unknown":
        return f"Nothing found in what could be judged, and nothing to compare with a prediction.{open_rules}"
    row = shown_row(compared)
    if row is None:
        return f"Nothing found in what could be judged.{open_rules}"
    told = row_text(row)
    if verdict == "as_predicted":
        loses = row.name == "speedup" and max(row.measured or 1.0, row.predicted) < 1.0
        end = " Speculation does not pay at this batch on this hardware: no setting found is at fault." if loses else ""
        if loses and row.high > 1.0:
            end += f" The band reaches to {amount(row.high, row.unit)}, so that a gain is not ruled out."
        return f"Nothing found: {told}, within the band.{end}{open_rules}"
    return f"No fault found, and the gap is not explained: {told}, outside the band.{open_rules}"


def contradicted_text(places: Sequence[str]) -> str:
    """The verdict where a row cannot have run on the server that its launch line tells of."""
    more = f" {counted(len(places) - 1, 'other run')} likewise." if places[1:] else ""
    return f"The files contradict each other, so that nothing is said of the run: {places[0]}.{more}"


def shown_row(compared: Sequence[Comparison]) -> Compared | None:
    """The compared quantity that a verdict names: of the run furthest outside its band."""
    rows = [
        row
        for one in compared
        for name in ("speedup", "round", "plain")
        if (row := one.row(name)) is not None and row.measured is not None
    ]
    named = [row for row in rows if row.name == "speedup"] or rows
    return max(named, key=lambda row: (not row.inside, abs(math.log(row.ratio or 1.0))), default=None)


def row_text(row: Compared) -> str:
    """`speedup measured 1.08x, predicted 1.62x (1.40-1.80)`."""
    measured = "not measured" if row.measured is None else f"measured {amount(row.measured, row.unit)}"
    band = f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}"
    return f"{row.label[0].lower()}{row.label[1:]} {measured}, predicted {amount(row.predicted, row.unit)} ({band})"


def amount(value: float, unit: str) -> str:
    """A compared value with its unit."""
    if unit == "x":
        return f"{value:.2f}x"
    return with_prefix(value, "s") if unit == "s" else f"{value:.2f}"


def gap_text(found: Comparison) -> str:
    """What separates a measured run from its prediction; empty where neither round nor plain step was measured."""
    pieces = []
    for name, what in (("plain", "a plain token"), ("round", "the round")):
        row = found.row(name)
        if row is not None and row.measured is not None:
            pieces.append(_excess(what, row))
    length = found.row("length")
    if length is not None and length.measured is not None and not length.inside:
        share = abs(length.measured / length.predicted - 1.0)
        pieces.append(
            f"an accepted length of {length.measured:.2f} where {length.low:.2f} to {length.high:.2f} is published for "
            f"this model and drafter makes a token {'dearer' if length.measured < length.predicted else 'cheaper'} by "
            f"{share:.0%}"
        )
    row = found.row("round")
    if found.n_draft and row is not None and row.measured is not None and row.measured > row.high:
        extra = with_prefix((row.measured - row.predicted) / found.n_draft, "s")
        host = with_prefix(sum(part.round_s for part in found.parts if part.host), "s")
        pieces.append(
            f"were it all the host's, that would be {extra} for each of the {found.n_draft} drafts ({host} of host "
            "time are predicted for the whole round)"
        )
    return "; ".join(pieces)


def _excess(what: str, row: Compared) -> str:
    measured = row.measured or 0.0
    apart = measured - row.predicted
    side = "more" if apart >= 0 else "less"
    inside = "within" if row.inside else "outside"
    return (
        f"{what} takes {amount(measured, row.unit)}, {amount(abs(apart), row.unit)} {side} than predicted "
        f"({inside} {amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
    )
