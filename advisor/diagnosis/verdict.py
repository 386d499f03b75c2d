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
    "physics": "The measurement and the settings look right",
}
_SLOWER = {
    True: ", and the run is slower than the model explains",
    False: ", and no time is longer than the model explains",
}


def verdict_text(
    verdict: str,
    findings: Sequence[tuple[Rule, Kind]],
    compared: Sequence[Comparison],
    refused: Sequence[str],
    n_not_judged: int,
    losing: Sequence[Comparison] = (),
) -> str:
    """The verdict as a reader sees it first. `losing`: runs whose loss is what the model predicts."""
    faults = [(rule, kind) for rule, kind in findings if not rule.expected]
    if faults:
        return _fault_text(faults, compared, losing)
    if refused and verdict == "mismeasured":
        return f"Measure again before anything is tuned: no row of it can be used ({refused[0]})."
    open_rules = f" {counted(n_not_judged, 'rule')} could not be judged." if n_not_judged else ""
    if not compared or verdict == "unknown":
        return f"Nothing found in what could be judged, and nothing to compare with a prediction.{open_rules}"
    if losing and verdict == "as_predicted":
        return f"{loss_text(losing[0])}{open_rules}"
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
    besides = f" {besides_text(losing[0])}" if losing else ""
    return f"No fault found, and the gap is not explained: {told}, outside the band.{besides}{open_rules}"


def _fault_text(
    faults: Sequence[tuple[Rule, Kind]], compared: Sequence[Comparison], losing: Sequence[Comparison]
) -> str:
    """Faults of the first kind that was found. What the model predicts anyway stands before mere physics."""
    kind = faults[0][1]
    named = "; ".join(rule.title for rule, of in faults if of == kind)
    slower = slower_than_explained(compared)
    if kind == "physics" and losing and not slower:
        return f"{loss_text(losing[0])} Besides: {named}."
    opening = _OPENING[kind] + (_SLOWER.get(slower, "") if kind == "physics" and slower is not None else "")
    return f"{opening}: {named}." + (f" {besides_text(losing[0])}" if losing else "")


def slower_than_explained(compared: Sequence[Comparison]) -> bool | None:
    """Whether some run takes longer than its band. None where nothing was measured beside a prediction."""
    told = [one.slower for one in compared if one.slower is not None]
    return any(told) if told else None


def loss_text(one: Comparison) -> str:
    """Sentence that a run loses as the model predicts, and what to draft instead."""
    row, at = one.row("speedup"), f"K = {one.n_draft} at batch {one.batch_size:,.4g}"
    if row is None:
        return ""
    band = f"({amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
    if row.measured is None:
        said = f"The model predicts a loss for {at}: {amount(row.predicted, row.unit)} {band}."
    else:
        measured = f"measured {amount(row.measured, row.unit)}, predicted {amount(row.predicted, row.unit)} {band}"
        said = f"This loss is what the model predicts for {at}: {measured}."
    pays = "" if one.recommended.n_draft else "Speculation does not pay at this batch on this hardware: "
    instead = _instead(one)
    said += f" {pays}{instead if pays else instead[0].upper() + instead[1:]}."
    reach = f" The band reaches to {amount(row.high, row.unit)}, so that a gain is not ruled out."
    return said + (reach if row.high > 1.0 else "")


def besides_text(one: Comparison) -> str:
    """Sentence that the model predicts a loss whatever else is found, and what to draft instead."""
    row = one.row("speedup")
    if row is None:
        return ""
    predicted = f"{amount(row.predicted, row.unit)} ({amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
    return (
        f"Besides, the model predicts a loss for K = {one.n_draft} at batch {one.batch_size:,.4g} without "
        f"that fault: {predicted}; {_instead(one)}."
    )


def _instead(one: Comparison) -> str:
    """`draft K = 2, predicted 1.05x (0.90x to 1.20x)`."""
    choice = one.recommended
    if not choice.n_draft:
        return "draft nothing (1.00x)"
    carried = f", its accepted length carried from that of K = {one.n_draft}" if choice.carried else ""
    return (
        f"draft K = {choice.n_draft}, predicted {amount(choice.speedup, 'x')} ({amount(choice.low, 'x')} to "
        f"{amount(choice.high, 'x')}){carried}"
    )


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
    """Row in words, `speedup measured 1.08x, predicted 1.62x (1.40-1.80)`."""
    measured = "not measured" if row.measured is None else f"measured {amount(row.measured, row.unit)}"
    band = f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}"
    return f"{row.label[0].lower()}{row.label[1:]} {measured}, predicted {amount(row.predicted, row.unit)} ({band})"


def amount(value: float, unit: str) -> str:
    """A compared value with its unit."""
    if unit == "x":
        return f"{value:.2f}x"
    return with_prefix(value, "s") if unit == "s" else f"{value:.2f}"


def gap_text(found: Comparison) -> str:
    """Sentence on what separates a measured run from its prediction.

    Empty where neither round nor plain step was measured.
    """
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
