"""A report as a tagged PDF (PDF/UA-1), typeset without a browser, with its charts as SVG; the same
bytes each time.

Charts are SVG that needs no font.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import typst
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray

from advisor.answers.advice import ComponentTime, component_times, published_beside
from advisor.answers.by_length import served_columns
from advisor.measured.published import PublishedRun
from advisor.predict.curve import Curve
from advisor.prediction import AdvisorError
from advisor.show.charts.figure import BLUE, ORANGE, VERMILLION
from advisor.show.report.blocks import Block, Code, FigureBlock, FigureKey, Section
from advisor.show.report.build import Report
from advisor.show.report.layout import key_figures
from advisor.text import FACTOR, unbroken_ranges

_NEUTRAL = "#6B6B6B"
"""Reference lines; darker than on screen, since paper is white."""
_WIDTH_INCHES = 6.9
_SMALL = 0.005
"""Components below this share of both steps are drawn as one, `Rest`. [-]"""
# The names of clip paths and glyphs in an SVG are hashes with this salt, random unless set:
# matplotlib offers no argument for it.
mpl.rcParams["svg.hashsalt"] = "advisor"


def drawing(report: Report, key: FigureKey) -> str:
    """One chart of a report, as SVG."""
    advice = report.advice
    if key == "components":
        figure = draw_components(component_times(advice), advice.curve_k)
    else:
        largest = advice.setup.memory.largest_batch
        runs = published_beside(advice.setup, advice.curve)
        columns = served_columns(advice.curve, advice.to_serve, advice.curve_k)
        figure = draw_speedup(
            report.drawn_curve, columns, report.scenario.batch_size, largest, runs
        )
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def draw_speedup(
    curve: Curve,
    columns: NDArray[np.int64],
    batch: int,
    largest_batch: int,
    runs: Sequence[PublishedRun] = (),
) -> Figure:
    """Speedup by batch of the K in `columns` [nB], with its range and published runs. [x], [-]

    The batch asked for and where data or memory end are marked.
    """
    figure, axes = _new(2.6)
    place = np.arange(columns.size), columns
    drafts = np.unique(curve.drafts[columns])
    x = curve.batches.astype(int)
    fits = x <= (largest_batch or x[-1])  # as if it fitted, where nothing does
    low = curve.low[place][fits]
    high = curve.high[place][fits]
    speedup = curve.speedup[place][fits]
    axes.fill_between(x[fits], low, high, color=BLUE, alpha=0.18, linewidth=0, label="80% range")
    look: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "marker": "o", "markersize": 3}
    label = f"K = {drafts[0]}" if drafts.size == 1 else "K by batch"
    axes.plot(x[fits], speedup, label=label, **look)
    published = [run.speedup for run in runs]
    if runs:
        marks: dict[str, Any] = {
            "color": ORANGE,
            "marker": "D",
            "markersize": 3.5,
            "linestyle": "none",
            "zorder": 3,
        }
        axes.plot([run.batch_size for run in runs], published, label="published", **marks)
    floor = min(*low, *published, 0.95)
    top = max(*high, *published, 1.05)
    axes.set_ylim(floor - 0.04 * (top - floor), top * 1.04)
    axes.set_xscale("log", base=2)
    axes.set_xlim(x[0], x[-1])
    axes.axhline(1.0, color=VERMILLION, linewidth=1)
    axes.axhspan(
        axes.get_ylim()[0], 1.0, color=VERMILLION, alpha=0.07, linewidth=0, label="slowdown"
    )
    axes.axvline(batch, color=_NEUTRAL, linestyle=":", linewidth=1.2, label=f"batch {batch:,}")
    outside = x[curve.extrapolated[place]]
    if outside.size:
        hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": _NEUTRAL, "hatch": "///"}
        axes.axvspan(
            outside[0], x[-1], alpha=0.35, linewidth=0, label="outside the data", **hatched
        )
    if largest_batch < x[-1]:
        axes.axvspan(
            max(largest_batch, x[0]),
            x[-1],
            color=_NEUTRAL,
            alpha=0.2,
            linewidth=0,
            label="does not fit",
        )
    ticks = [2**power for power in range(17) if x[0] <= 2**power <= x[-1]]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    _finish(axes, "Batch size (sequences)", "Speedup over plain decoding (×)")
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=7,
        columnspacing=1.2,
        handlelength=1.6,
        frameon=False,
        fontsize=7,
    )
    return figure


def drawn_components(times: Sequence[ComponentTime]) -> list[ComponentTime]:
    """Components as the chart shows them: tiny ones summed."""
    plain_ms = sum(part.plain_ms for part in times)
    round_ms = sum(part.round_ms for part in times)
    large = [
        part for part in times if max(part.plain_ms / plain_ms, part.round_ms / round_ms) >= _SMALL
    ]
    rest = [part for part in times if part not in large]
    if not rest:
        return large
    sums = {
        "plain_ms": sum(part.plain_ms for part in rest),
        "round_ms": sum(part.round_ms for part in rest),
    }
    return [*large, replace(rest[0], name="rest", label="Rest", **sums)]


def draw_components(times: Sequence[ComponentTime], n_draft: int) -> Figure:
    """Milliseconds by component of a plain step and of one round."""
    parts = drawn_components(times)[::-1]
    figure, axes = _new(0.6 + 0.16 * len(parts))
    places = range(len(parts))
    hatched: dict[str, Any] = {
        "color": ORANGE,
        "hatch": "////",
        "edgecolor": "white",
        "linewidth": 0,
    }
    of_round: dict[str, Any] = {"color": BLUE, "label": f"round, K = {n_draft}"}
    axes.barh(
        [place + 0.2 for place in places], [part.round_ms for part in parts], 0.38, **of_round
    )
    plain_ms = [part.plain_ms for part in parts]
    axes.barh([place - 0.2 for place in places], plain_ms, 0.38, label="baseline step", **hatched)
    axes.set_yticks(list(places), [part.label for part in parts])
    _finish(axes, "Milliseconds", "")
    axes.legend(loc="lower right", frameon=False, fontsize=7.5)
    return figure


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


_BREAK = "\ue000"
"""Private-use mark, drawn as nothing; text from users has no private-use characters left."""
_AS_IT_IS = ("kind", "key", "align", "svg", "code", "title", "alt", "date", "hash")
"""Keys, drawings, and texts that become properties of the document."""


def typeset_pdf(report: Report, parts: Sequence[Section], title: str) -> bytes:
    """Some sections of a report on A4, under a title and its key figures.

    The template is a constant; everything that varies reaches it as JSON data, so no text is ever
    read as typst code. Raises AdvisorError where typst cannot set it.
    """
    try:
        return bytes(
            typst.compile(
                _template(),
                format="pdf",
                pdf_standards="ua-1",
                sys_inputs={"report": json.dumps(_data(report, parts, title))},
                font_paths=_fonts(),
            )
        )
    except typst.TypstError as error:
        raise AdvisorError(f"the PDF could not be typeset ({error}); use --format md") from error


def showable(text: str) -> str:
    """A text with each character that no shipped font has written as U+XXXX. PDF/UA forbids missing
    glyphs."""
    drawable = _characters()
    return "".join(
        character if ord(character) in drawable or character == "\n" else f"U+{ord(character):04X}"
        for character in text
    )


def _breakable(text: str, after: str = r"[/&=@_]|,(?!\d{3}\b)") -> str:
    """`text` with marks where a long word may break: after what `after` matches, and every 60
    characters."""
    marked = re.sub(rf"({after})(?=\S)", rf"\1{_BREAK}", text)
    return re.sub(rf"([^\s{_BREAK}]{{60}})(?=\S)", rf"\1{_BREAK}", marked)


def _data(report: Report, parts: Sequence[Section], title: str) -> Any:
    document = {
        "title": unbroken_ranges(showable(title)),
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
                "blocks": [_block(report, block) for block in section.blocks],
            }
            for section in parts
        ],
    }
    return _each_text(document)


def _block(report: Report, block: Block) -> dict[str, Any]:
    values = {"kind": type(block).__name__} | vars(block)
    if isinstance(block, FigureBlock):
        values |= {"svg": drawing(report, block.key), "alt": showable(block.alt)}
    if isinstance(block, Code):
        values["code"] = _breakable(
            showable(block.text), "[,&]"
        )  # a copied line then breaks between JSON entries only
    return values


def _each_text(value: Any) -> Any:
    """`value` with every text in it showable, and breakable where it is content rather than a key
    of the template."""
    if isinstance(value, str):
        return _breakable(showable(FACTOR.sub("\\1×", value)))
    if isinstance(value, dict):
        return {
            name: item if name in _AS_IT_IS else _each_text(item) for name, item in value.items()
        }
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
