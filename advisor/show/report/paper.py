"""A report as a tagged PDF (PDF/UA-1), typeset without a browser, with its charts as SVG; the same bytes each time."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import typst
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.patches import Rectangle

from advisor.answers.advice import component_times
from advisor.answers.design.regions import RegionMap
from advisor.answers.expert_ranks import RanksAnswer
from advisor.answers.explore.questions import SweepMap, setting_text
from advisor.prediction import AdvisorError
from advisor.show.charts.figure import BLUE, GAIN_SCALE, ORANGE, VERMILLION, gain_reach
from advisor.show.charts.maps import REGION_TINTS
from advisor.show.charts.measured import rank_lines
from advisor.show.charts.why import drawn_components
from advisor.show.report.blocks import Block, Code, FigureBlock, FigureKey, Section
from advisor.show.report.build import Report
from advisor.show.report.layout import key_figures
from advisor.show.words.regions import cell_lines
from advisor.show.words.sweep import label
from advisor.text import unbroken_ranges

_BREAK = "\ue000"
"""Private-use mark, drawn as nothing; text from users has no private-use characters left."""
_AS_IT_IS = ("kind", "key", "align", "svg", "code", "title", "alt", "date", "hash")
"""Keys, drawings, and texts that become properties of the document."""
NEUTRAL = "#6B6B6B"
"""Reference lines; darker than on screen, since paper is white."""
_WIDTH_INCHES = 6.9
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
"""matplotlib's styles of line by plotly's names."""
_MANY_COLUMNS = 12
# The names of clip paths and glyphs in an SVG are hashes with this salt, random unless set: matplotlib offers no
# argument for it.
mpl.rcParams["svg.hashsalt"] = "advisor"


def typeset_pdf(report: Report, parts: Sequence[Section]) -> bytes:
    """Some sections of a report on A4, under its title and key figures.

    The template is a constant; everything that varies reaches it as JSON data, so no text is ever read as typst code.
    Raises AdvisorError where typst cannot set it.
    """
    try:
        return bytes(
            typst.compile(
                _template(),
                format="pdf",
                pdf_standards="ua-1",
                sys_inputs={"report": json.dumps(_data(report, parts))},
                font_paths=_fonts(),
            )
        )
    except typst.TypstError as error:
        raise AdvisorError(f"the PDF could not be typeset ({error}); use --format html or md") from error


def showable(text: str) -> str:
    """A text with each character that no shipped font has written as U+XXXX. PDF/UA forbids missing glyphs."""
    drawable = _characters()
    return "".join(
        character if ord(character) in drawable or character == "\n" else f"U+{ord(character):04X}"
        for character in text
    )


def _breakable(text: str, after: str = "/&=,@_") -> str:
    """`text` with marks where a long word may break: after the characters `after`, and every 60 characters."""
    marked = re.sub(rf"([{after}])(?=\S)", rf"\1{_BREAK}", text)
    return re.sub(rf"([^\s{_BREAK}]{{60}})(?=\S)", rf"\1{_BREAK}", marked)


def _data(report: Report, parts: Sequence[Section]) -> Any:
    document = {
        "title": unbroken_ranges(showable(report.verdict)),
        "date": report.date.isoformat(),
        "year": report.date.year,
        "month": report.date.month,
        "day": report.date.day,
        "hash": report.scenario.hash,
        "figures": key_figures(report),
        "sections": [
            {
                "title": section.title,
                "reference": section.reference,
                "blocks": [_block(block) for block in section.blocks],
            }
            for section in parts
        ],
    }
    return _each_text(document)


def _block(block: Block) -> dict[str, Any]:
    values = {"kind": type(block).__name__} | vars(block)
    if isinstance(block, FigureBlock):
        values |= {"svg": report_svg(block), "alt": showable(block.alt), "data": None}
    if isinstance(block, Code):
        values["code"] = _breakable(showable(block.text), ",&")  # a copied line then breaks between JSON entries only
    return values


def _each_text(value: Any) -> Any:
    """`value` with every text in it showable, and breakable where it is content rather than a key of the template."""
    if isinstance(value, str):
        return _breakable(showable(value))
    if isinstance(value, dict):
        return {name: item if name in _AS_IT_IS else _each_text(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item) for item in value]
    return value


def _font_folder() -> Path:
    """DejaVu, which comes with matplotlib, covers what the fonts inside typst lack."""
    return Path(mpl.get_data_path()) / "fonts" / "ttf"


@lru_cache(maxsize=1)
def _fonts() -> typst.Fonts:
    """typst's own fonts and DejaVu, never the machine's: the same bytes everywhere."""
    return typst.Fonts(include_system_fonts=False, font_paths=[_font_folder()])


@lru_cache(maxsize=1)
def _characters() -> frozenset[int]:
    return frozenset(FT2Font(str(_font_folder() / "DejaVuSans.ttf")).get_charmap()) - {ord(_BREAK)}


@lru_cache(maxsize=1)
def _template() -> bytes:
    return files("advisor.show.report").joinpath("templates/memo.typ").read_bytes()


def report_svg(block: FigureBlock) -> str:
    """The chart of one figure block, as SVG. Letters are outlines, so that no font is needed to show them."""
    figure = _DRAWN[block.key](block.data)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _speedup(report: Report) -> Figure:
    figure, axes = _new(2.6)
    advice, curve, column = report.advice, report.drawn_curve, report.advice.curve_column
    x = curve.batches.astype(int)
    low, high = curve.low[:, column], curve.high[:, column]
    axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0, label="likely range")
    axes.plot(
        x, curve.speedup[:, column], color=BLUE, linewidth=1.8, marker="o", markersize=3, label=f"K = {advice.curve_k}"
    )
    floor = min(*low, 0.95)
    axes.set_ylim(floor - 0.04 * (max(high) - floor), max(*high, 1.05) * 1.04)
    axes.set_xscale("log", base=2)
    axes.set_xlim(x[0], x[-1])
    axes.axhline(1.0, color=VERMILLION, linewidth=1)
    axes.axhspan(axes.get_ylim()[0], 1.0, color=VERMILLION, alpha=0.07, linewidth=0, label="slowdown")
    batch = report.scenario.batch_size
    axes.axvline(batch, color=NEUTRAL, linestyle=":", linewidth=1.2, label=f"batch {batch:,}")
    outside = x[curve.extrapolated[:, column]]
    if outside.size:
        hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": NEUTRAL, "hatch": "///"}
        axes.axvspan(outside[0], x[-1], alpha=0.35, linewidth=0, label="outside the data", **hatched)
    ticks = [2**power for power in range(17) if x[0] <= 2**power <= x[-1]]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    _finish(axes, "Batch size (sequences)", "Speedup over plain decoding (x)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, frameon=False, fontsize=7.5)
    return figure


def _components(report: Report) -> Figure:
    parts = drawn_components(component_times(report.advice))[::-1]
    figure, axes = _new(0.6 + 0.16 * len(parts))
    places = range(len(parts))
    plain: dict[str, Any] = {
        "color": ORANGE,
        "hatch": "////",
        "edgecolor": "white",
        "linewidth": 0,
        "label": "plain step",
    }
    of_round: dict[str, Any] = {"color": BLUE, "label": f"round, K = {report.advice.curve_k}"}
    axes.barh([place + 0.2 for place in places], [part.round_ms for part in parts], 0.38, **of_round)
    axes.barh([place - 0.2 for place in places], [part.plain_ms for part in parts], 0.38, **plain)
    axes.set_yticks(list(places), [part.label for part in parts])
    _finish(axes, "Milliseconds", "")
    axes.legend(loc="lower right", frameon=False, fontsize=7.5)
    return figure


def _regions(region_map: RegionMap) -> Figure:
    """The map of regions: a tint and a letter for each design, edges in a dashed frame."""
    cells = region_map.grid.T
    rows, columns = cells.shape
    figure, axes = _new(0.7 + 0.42 * rows)
    for row in range(rows):
        for column in range(columns):
            cell = int(cells[row, column])
            if not (lines := cell_lines(region_map, cell)):
                continue
            tint = REGION_TINTS[int(region_map.holder[cell]) % len(REGION_TINTS)]
            edge, dashed = ("black", "--") if "?" in lines[0] else ("white", "-")
            frame = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, edgecolor=edge, linestyle=dashed, facecolor=tint)
            axes.add_patch(frame)
            axes.text(column, row, "\n".join(lines), ha="center", va="center", fontsize=6)
    batches = [f"{batch:,.0f}" for batch in region_map.batches]
    _cell_axes(axes, list(map(str, region_map.cells.places)), batches, "Accelerator", "Batch size (sequences)")
    return figure


def _ranks(answer: RanksAnswer) -> Figure:
    """Rows of the fullest rank over the mean rank's by K, a line for each layout."""
    figure, axes = _new(2.3)
    drafts = answer.in_order.curve.drafts.astype(int)
    for line in rank_lines(answer):
        look: dict[str, Any] = {"color": line.color, "linestyle": _DASHES[line.dash], "label": line.name}
        axes.plot(drafts, line.ratio, linewidth=1.6, marker="o", markersize=3, **look)
    axes.set_xticks(drafts)
    _finish(axes, "Draft tokens K", "Rows, fullest rank over mean")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=7.5)
    return figure


def _sweep(sweep_map: SweepMap) -> Figure:
    """The map of a sweep: speedup and K in each cell that fits."""
    speedup = np.where(sweep_map.fits, sweep_map.values("speedup"), np.nan)
    drafts = sweep_map.values("n_draft")
    rows, columns = speedup.shape
    far = gain_reach(speedup)
    colors = LinearSegmentedColormap.from_list("gain", list(GAIN_SCALE))
    figure, axes = _new(0.7 + 0.32 * rows)
    for row, column in zip(*np.nonzero(np.isfinite(speedup)), strict=True):
        tint = colors((speedup[row, column] - 1.0 + far) / (2.0 * far))
        axes.add_patch(Rectangle((column - 0.48, row - 0.48), 0.96, 0.96, facecolor=tint))
        text = f"{speedup[row, column]:.2f}\nK {drafts[row, column]:.0f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=5 if columns > _MANY_COLUMNS else 6)
    across, down = (
        [setting_text(name, value) for value in values]
        for name, values in ((sweep_map.x, sweep_map.x_values), (sweep_map.y, sweep_map.y_values))
    )
    if columns > _MANY_COLUMNS // 2 and sweep_map.x != "batch_size":  # names, which would run into each other
        axes.tick_params(axis="x", labelrotation=30)
    _cell_axes(axes, across, down, label(sweep_map.x), label(sweep_map.y))
    return figure


_DRAWN: dict[FigureKey, Callable[[Any], Figure]] = {
    "speedup": _speedup,
    "components": _components,
    "regions": _regions,
    "ranks": _ranks,
    "sweep": _sweep,
}
"""How the data of a figure block become a drawing."""


def _cell_axes(axes: mpl.axes.Axes, across: list[str], down: list[str], x_title: str, y_title: str) -> None:
    """Name the columns and rows of a map of cells, the first row on top."""
    axes.set_xlim(-0.5, len(across) - 0.5)
    axes.set_ylim(len(down) - 0.5, -0.5)
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    _finish(axes, x_title, y_title)
    axes.grid(visible=False)


def _new(height_inches: float) -> tuple[Figure, mpl.axes.Axes]:
    figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def _finish(axes: mpl.axes.Axes, x_title: str, y_title: str) -> None:
    axes.set_xlabel(x_title, fontsize=8)
    axes.set_ylabel(y_title, fontsize=8)
    axes.tick_params(labelsize=7.5)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
