"""The page Design as sheets: the answer, the same picture over shared experts, and what is lost
with one count held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.answers.design.along import NEAR_MOST, Along
from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.dials import (
    Costed,
    Dial,
    Experts,
    baseline_experts,
    cloud,
    costed,
    experts_of,
)
from advisor.prediction import Array
from advisor.show.phrases.book import FORMS, ratio_text
from advisor.show.phrases.design import (
    ALONG,
    ALONG_AXES,
    DESIGN,
    DESIGN_COLUMNS,
    HELD,
    PARETO,
    ZONES,
)
from advisor.show.sheet import (
    Axis,
    Cell,
    Dot,
    Head,
    Line,
    Mark,
    Plate,
    PlateZone,
    Row,
    Scale,
    Sheet,
    SheetTable,
    Stretch,
    linear_axis,
)
from advisor.show.table import capital
from advisor.show.words.design import (
    experts_text,
    headline,
    held_value,
    infeasible_text,
    standing_facts,
)

AS_GOOD = 0
WORSE = 2
_ZONE_COLORS = {WORSE: "new", 1: "few", AS_GOOD: "sweet"}
_PINS = ("pin-3", "pin-1", "pin-4", "pin-2")
"""Colors of the batches but the target's, rising, and of the user's designs."""
_QUALITY = Scale(0.5, 1.7, 1.0)
"""Scale of the ticks of quality over the start's. Own choice. [-]"""
_OF_QUALITY = len(DESIGN_COLUMNS) - 2
"""Column of these ticks."""
_CLOUD = 250
_PARETO_QUALITY = (0.62, 1.42)


def design_sheet(
    answer: DesignAnswer, own_designs: Sequence[Costed], start_name: str, lender: str
) -> Sheet:
    """The answer: headline, reason, gain and time along k/N, and the table.

    own_designs : the user's. start_name : `start` where nobody came with a design. lender : whose
        accepted length stands in; empty where none does.
    """
    facts = standing_facts(answer, start_name)
    none = answer.infeasible
    if none is not None:
        reason = infeasible_text(answer.space, none)
    else:
        drafting = ALONG.say("drafting", answer.by_ratio.facts)
        reason = " ".join(filter(None, [drafting, DESIGN.say("alternative", facts)]))
    return Sheet(
        headline(answer, start_name),
        DESIGN.say("emphasis", facts),
        reason,
        ALONG.say("borrowed", {"lent": bool(lender), "lender": lender}),
        rows=(
            along_plates(answer.by_ratio, "ratio", start_name),
            (_table(answer, own_designs, start_name),),
        ),
    )


def shared_sheet(answer: DesignAnswer, start_name: str) -> Sheet:
    """Gain and time over shared experts, as over k/N."""
    return Sheet(rows=(along_plates(answer.by_shared, "shared", start_name),))


def _place(design: Experts, axis: str) -> str:
    return FORMS["active"](design) if axis == "ratio" else f"{design.n_shared:.3g}"


def along_plates(along: Along, axis: str, start_name: str) -> tuple[Plate, Plate]:
    """Gain from drafting, and time per token, along one count."""
    is_ratio = axis == "ratio"
    counts = [design.n_active if is_ratio else design.n_shared for design in along.designs]
    places = [_place(design, axis) for design in along.designs]
    x = np.array(counts, float)
    edges = [x[0], *(np.sqrt(x[1:] * x[:-1]) if is_ratio else (x[1:] + x[:-1]) / 2.0), x[-1]]
    # As good are the designs that were looked at: nothing between them and a worse one.
    for (_, last, before), (first, _, after) in pairwise(along.zones):
        if {before, after} == {AS_GOOD, WORSE}:
            edges[first] = x[last if before == AS_GOOD else first]
    ticks = list(zip(x.tolist(), places, strict=True))
    start_tick = ticks.pop(along.start)
    across = Axis(
        ALONG_AXES[axis],
        float(x[0]),
        float(x[-1]),
        (start_tick, *ticks[:1], *ticks[::-1]),
        log=is_ratio,
    )
    zones = tuple(
        PlateZone(float(edges[first]), float(edges[last + 1]), _ZONE_COLORS[kind], ZONES[kind])
        for first, last, kind in along.zones
    )
    colors = iter(_PINS)
    colors_of = [
        "schedule" if row == along.target else next(colors) for row in range(len(along.batches))
    ]
    stretches = tuple(
        Stretch(float(x[first]), float(x[last]), color)
        for (first, last), color in zip(along.near, colors_of, strict=True)
    )
    facts = {
        "start_name": start_name,
        "some_over": not along.fits.all(),
        "near": NEAR_MOST,
    }
    start = Mark(float(x[along.start]), start_name)

    def plate(what: str, values: Array) -> Plate:
        title = ALONG.say(what, facts)
        lines = _lines(along, x, values, colors_of)
        label = _label(along, title, values, places, axis)
        heights = linear_axis("", np.append(values, 1.0), "{:.3g}×".format)
        return Plate(title, label, across, heights, lines, zones=zones, marks=(start,), level=1.0)

    gain = plate("gain_title", along.gain)
    ringed = tuple(
        replace(line, rings=(line.points[most],))
        for line, most in zip(gain.lines, along.most, strict=True)
    )
    near = ALONG.say("near", facts)
    gain = replace(gain, lines=ringed, stretches=stretches, stretches_name=near)
    return gain, plate("time_title", along.time)


def _lines(along: Along, x: Array, values: Array, colors: Sequence[str]) -> tuple[Line, ...]:
    """A line for each batch, dashed where the start does not fit."""
    lines = []
    for row, batch in enumerate(along.batches):
        points = tuple(zip(x.tolist(), values[row].tolist(), strict=True))
        line = Line(
            points,
            colors[row],
            f"batch {batch:,.0f}",
            dash="" if along.fits[row] else "7 4",
            bold=row == along.target,
        )
        lines.append(line)
    return tuple(lines)


def _label(along: Along, what: str, values: Array, places: Sequence[str], axis: str) -> str:
    """What a plate shows, in sentences: the most of each batch, or its ends, and the zones."""
    at_batches = []
    for row, batch in enumerate(along.batches):
        facts = {
            "of_gain": values is along.gain,
            "batch": batch,
            "value": values[row].max(),
            "place": places[along.most[row]],
            "first": values[row, 0],
            "last": values[row, -1],
            "first_place": places[0],
            "last_place": places[-1],
        }
        at_batches.append(ALONG.say("at_batch", facts))
    quality = [
        ALONG.say(
            "standing",
            {"zone": ZONES[kind][0], "first_place": places[first], "last_place": places[last]},
        )
        for first, last, kind in along.zones
    ]
    facts = {"what": what, "axis": HELD[axis], "at_batches": at_batches, "quality": quality}
    return ALONG.say("label", facts)


def _named(
    answer: DesignAnswer, own_designs: Sequence[Costed], start_name: str
) -> list[tuple[str, Costed, str]]:
    """The start, the best where it is another, and the user's designs, with name and color."""
    space = answer.space
    rows = [(capital(start_name), costed(space, baseline_experts(space)), "dense")]
    if space.best is not None and space.best != space.baseline_index():
        best = costed(space, experts_of(space, space.best))
        rows.append((DESIGN.say("best_name", standing_facts(answer, start_name)), best, "schedule"))
    names = own_names([design.experts for design in own_designs])
    rows += zip(names, own_designs, _PINS, strict=False)
    return rows


def own_names(designs: Sequence[Experts]) -> list[str]:
    """Names of the user's designs: their counts, with the width where counts repeat."""
    counts = [FORMS["of"](design) for design in designs]
    return [
        FORMS["experts"](design) if counts.count(name) > 1 else name
        for design, name in zip(designs, counts, strict=True)
    ]


def _table(answer: DesignAnswer, own_designs: Sequence[Costed], start_name: str) -> SheetTable:
    """The start, the best and the user's designs side by side."""
    designs = _named(answer, own_designs, start_name)
    heads = tuple(
        Head(label, words=place == 0, scale=_QUALITY if place == _OF_QUALITY else None)
        for place, label in enumerate(DESIGN_COLUMNS)
    )
    today = designs[0][1]
    rows = tuple(Row(_cells(name, design, today, color)) for name, design, color in designs)
    batches = answer.space.question.batches.tolist()
    facts = {"one_target": len(batches) == 1, "targets": batches}
    return SheetTable(ALONG.say("table", facts), heads, rows)


def _cells(name: str, design: Costed, today: Costed, color: str) -> tuple[Cell, ...]:
    experts = design.experts
    is_own = color in _PINS
    grey = DESIGN.say("width", {"best": experts}) if is_own else FORMS["experts"](experts)
    sizes = f"{design.total_params / 1e9:,.1f} / {design.active_params / 1e9:.2f} B"
    time = f"{1e3 * design.tpot_s:.2f}" if design.fits else DESIGN.say("no_room", {})
    speed = FORMS["x"](today.tpot_s / design.tpot_s) if design.fits else ""
    laws = " · ".join(ratio_text(law, ".2f") for law in design.quality)
    share = f"{experts.n_active / experts.n_experts:.1%}"
    drafting = (FORMS["by_batch"](design.n_draft), FORMS["x"](design.speedup))
    return (
        Cell(name, grey, bold=True, color=color),
        *map(Cell, (share, sizes, *drafting, time)),
        Cell(speed, bold=True),
        Cell(ticks=design.quality, color=color),
        Cell(laws),
    )


def held_sheet(answer: DesignAnswer, own_designs: Sequence[Costed], start_name: str) -> Sheet:
    """Time lost with one count held and the rest solved again, and quality against speed."""
    dials = tuple(_dial_plate(dial, start_name) for dial in answer.dials if dial.best is not None)
    return Sheet(rows=(dials, (_pareto_plate(answer, own_designs, start_name),)))


def _dial_plate(dial: Dial, start_name: str) -> Plate:
    known = np.flatnonzero(~np.isnan(dial.loss))
    x = dial.position[known]
    lost = dial.loss[known]
    texts = [held_value(dial, at) for at in known]
    axis = Axis(
        ALONG_AXES[dial.name] if dial.name == "shared" else HELD[dial.name],
        float(min(x[0], dial.position[dial.own])),
        float(max(x[-1], dial.position[dial.own])),
        tuple(zip(x.tolist(), texts, strict=True)),
        log=dial.name == "ratio",
    )
    dots = tuple(
        Dot(float(at), float(loss), "schedule", f"{dial.held[row]}: {loss:+.1%}")
        for at, loss, row in zip(x, lost, known, strict=True)
    )
    facts = {
        "what": HELD[dial.name],
        "least": held_value(dial, dial.best or 0),
        "first_place": texts[0],
        "last_place": texts[-1],
        "first": lost[0],
        "last": lost[-1],
    }
    return Plate(
        PARETO.say("held_title", facts),
        PARETO.say("held_label", facts),
        axis,
        linear_axis("", np.append(lost, 0.0), FORMS["pct"]),
        (Line(tuple(zip(x.tolist(), lost.tolist(), strict=True)), "schedule"),),
        dots,
        marks=(Mark(float(dial.position[dial.own]), start_name),),
        height=170,
    )


def _pareto_plate(answer: DesignAnswer, own_designs: Sequence[Costed], start_name: str) -> Plate:
    """Quality by the lowest law against speed: all designs, the best trade-offs and the marked."""
    space = answer.space
    designs = _named(answer, own_designs, start_name)
    today = designs[0][1]
    marked = [row for row in designs if row[1].fits or row[1] is today]
    others = cloud(space, _CLOUD)
    weight = space.question.batch_weights[:, None]

    def speed(index: NDArray[np.intp]) -> Array:
        return np.asarray(today.tpot_s / (weight * space.tpot_s[:, index]).sum(axis=0))

    quality = space.quality.min(axis=0)
    low, high = _PARETO_QUALITY
    front = answer.pareto[(quality[answer.pareto] >= low) & (quality[answer.pareto] <= high)]
    dots = [
        Dot(float(at), float(quality[index]), "line", experts_text(space, int(index)))
        for at, index in zip(speed(others), others, strict=True)
        if low <= quality[index] <= high
    ]
    dots += [
        Dot(
            today.tpot_s / design.tpot_s,
            min(design.quality),
            color,
            FORMS["experts"](design.experts),
            name=name,
        )
        for name, design, color in marked
    ]
    points = tuple(zip(speed(front).tolist(), quality[front].tolist(), strict=True))
    speeds = np.array([dot.x for dot in dots])
    heights = np.array([dot.y for dot in dots])
    texts = [
        f"{name} {today.tpot_s / design.tpot_s:.2f}× at {min(design.quality):.0%}"
        for name, design, _ in marked
    ]
    facts = {"designs": texts, "start_name": start_name}
    return Plate(
        PARETO.say("title", facts),
        PARETO.say("label", facts),
        linear_axis(PARETO.say("speed", facts), speeds, "{:.3g}×".format, most=10),
        linear_axis("", heights, FORMS["pct"]),
        (Line(points, "schedule", width=1.6),),
        tuple(dots),
        level=1.0 - space.question.quality_eps,
        height=380,
    )
