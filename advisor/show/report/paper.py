"""A report as a tagged PDF (PDF/UA-1), typeset without a browser, with its charts as SVG; the same bytes each time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib as mpl
import typst
from matplotlib.ft2font import FT2Font

from advisor.prediction import AdvisorError
from advisor.show.report.blocks import Block, Code, FigureBlock, Section
from advisor.show.report.build import Report
from advisor.show.report.drawings import drawing
from advisor.show.report.layout import key_figures
from advisor.text import unbroken_ranges

_BREAK = "\ue000"
"""Private-use mark, drawn as nothing; text from users has no private-use characters left."""
_AS_IT_IS = ("kind", "key", "align", "svg", "code", "title", "alt", "date", "hash")
"""Keys, drawings, and texts that become properties of the document."""


def typeset_pdf(report: Report, parts: Sequence[Section], title: str) -> bytes:
    """Some sections of a report on A4, under a title and its key figures.

    The template is a constant; everything that varies reaches it as JSON data, so no text is ever read as typst code.
    Raises AdvisorError where typst cannot set it.
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
        raise AdvisorError(f"the PDF could not be typeset ({error}); use --format html or md") from error


def showable(text: str) -> str:
    """A text with each character that no shipped font has written as U+XXXX. PDF/UA forbids missing glyphs."""
    drawable = _characters()
    return "".join(
        character if ord(character) in drawable or character == "\n" else f"U+{ord(character):04X}"
        for character in text
    )


def _breakable(text: str, after: str = r"[/&=@_]|,(?!\d{3}\b)") -> str:
    """`text` with marks where a long word may break: after what `after` matches, and every 60 characters."""
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
        values["code"] = _breakable(showable(block.text), "[,&]")  # a copied line then breaks between JSON entries only
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
