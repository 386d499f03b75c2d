"""A folder of live files of well-known setups, with an index of their curves: `make gallery`.

Every curve has one scale: the speedup of the K that is served, 0.8 to 2.6, by batch 1 to 1,024.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import html
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np

from advisor import __version__
from advisor.answers.advice import Advice, advise
from advisor.answers.by_length import served_columns
from advisor.answers.experts_loaded import Loading
from advisor.answers.zones import zones
from advisor.prediction import Array
from advisor.show.live_file import live_file, setup_facts
from advisor.show.phrases.report import GALLERY
from advisor.show.python import scenario

SETUPS = (
    ("deepseek-v3", "8xH200"),
    ("deepseek-v3.2", "8xB200"),
    ("deepseek-v4-flash", "4xB200"),
    ("kimi-k2", "8xB200"),
    ("kimi-k3", "8xB300"),
    ("glm-4.5", "8xH200"),
    ("glm-4.5-air", "4xH100"),
    ("minimax-m2", "4xH200"),
    ("qwen3-30b-a3b", "1xH200"),
    ("qwen3-235b-a22b", "8xH200"),
    ("qwen3-next-80b-a3b", "4xH100"),
    ("qwen3.5-397b-a17b", "8xH200"),
    ("gpt-oss-20b", "1xB200"),
    ("gpt-oss-120b", "1xH200"),
    ("llama4-maverick", "8xH200"),
    ("command-a-plus", "4xH200"),
    ("mixtral-8x7b", "2xH100"),
    ("mixtral-8x22b", "4xH200"),
    ("llama-3.1-70b", "4xH100"),
    ("qwen3-32b", "1xH200"),
)
"""Model and GPUs; the rest is what page and command line take."""
LOWEST = 0.8
HIGHEST = 2.6
"""Ends of the scale of speedups. [-]"""
LARGEST_BATCH = 1024
_WIDTH = 264
_LEFT = 34
_TOP = 6
_HEIGHT = 90
"""Of a curve. [pixels]"""
_HERE = Path(__file__).parent


def write_gallery(folder: Path, setups: Sequence[tuple[str, str]], date: dt.date) -> None:
    """Write a live file of each setup, and index.html. `date` is printed on all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for model, gpus in setups:
        advice = advise(scenario(model, gpus))
        name = f"{model}-{gpus.lower()}.html"
        (folder / name).write_text(live_file(advice, date), encoding="utf-8")
        cards.append(card(advice, name))
    facts = {"n": len(setups), "largest": LARGEST_BATCH, "version": __version__}
    style = (_HERE / "index.css").read_text(encoding="utf-8")
    page = Template((_HERE / "index.html").read_text(encoding="utf-8")).substitute(
        hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        style=style,
        title=GALLERY.say("title", facts),
        intro=GALLERY.say("intro", facts | {"date": date.isoformat()}),
        cards="\n".join(cards),
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


def card(advice: Advice, file_name: str) -> str:
    """The entry of a setup: names, curve, sweet spot, link."""
    curve = advice.curve
    columns = served_columns(curve, advice.to_serve, advice.curve_k)
    rows = np.arange(columns.size)
    largest = min(advice.setup.memory.largest_batch, LARGEST_BATCH)
    last = int(np.searchsorted(curve.batches, largest, side="right"))
    speedup = curve.speedup[rows, columns][:last]
    batches = curve.batches[:last]
    spot = sweet_spot(advice, columns, speedup)
    facts = setup_facts(advice) | {
        "first": speedup[0],
        "end": speedup[-1],
        "end_batch": batches[-1],
        "spot": None if spot is None else speedup[spot],
        "spot_batch": None if spot is None else batches[spot],
    }
    ends = curve.low[rows, columns][:last], curve.high[rows, columns][:last]
    drawing = drawn(batches, speedup, ends, spot, GALLERY.say("label", facts))
    where, spot_text = (html.escape(GALLERY.say(slot, facts)) for slot in ("where", "spot_text"))
    return (
        f'<li><a href="{file_name}"><h2>{html.escape(facts["what"])}</h2>'
        f"<small>{where}</small>\n{drawing}\n<small>{spot_text}</small></a></li>"
    )


def sweet_spot(advice: Advice, columns: np.ndarray, speedup: Array) -> int | None:
    """Row of the highest speedup within the zone where experts are loaded anyway. None without
    one."""
    first = 1
    for zone in zones(advice.setup, advice.curve, Loading.of(advice.setup, advice.curve), columns):
        batches = advice.curve.batches[: speedup.size]
        inside = np.flatnonzero((batches >= first) & (batches <= zone.last))
        if zone.kind == "sweet" and inside.size:
            return int(inside[np.argmax(speedup[inside])])
        first = zone.last + 1
    return None


def drawn(
    batches: Array, speedup: Array, ends: tuple[Array, Array], spot: int | None, label: str
) -> str:
    """A curve with its 80% range as SVG, [n] each."""
    low, high = ends
    there = _points(batches, high)
    back = _points(batches[::-1], low[::-1])
    bottom = _TOP + _HEIGHT
    marks = [
        f'<path class="{"one" if value == 1 else "grid"}" d="M{_LEFT},{_y(value):.1f}H{_WIDTH}"/>'
        f'<text x="{_LEFT - 6}" y="{_y(value) + 4:.1f}" text-anchor="end">{value:g}×</text>'
        for value in (1.0, 1.5, 2.0, 2.5)
    ]
    marks += [
        f'<text x="{_x(batch):.1f}" y="{bottom + 16}" text-anchor="middle">{batch}</text>'
        for batch in (1, 4, 16, 64, 256)
    ]
    clip = f'<svg x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT}" height="{_HEIGHT}" '
    clip += f'viewBox="{_LEFT} {_TOP} {_WIDTH - _LEFT} {_HEIGHT}">'
    inside = [
        f'<polygon class="range" points="{there} {back}"/>',
        f'<polyline class="curve" points="{_points(batches, speedup)}"/>',
    ]
    if spot is not None:
        place = f'cx="{_x(batches[spot]):.1f}" cy="{_y(speedup[spot]):.1f}"'
        inside.append(f'<circle class="spot" {place} r="5"/>')
    opening = f'<svg viewBox="0 0 {_WIDTH} {bottom + 22}" role="img" '
    opening += f'aria-label="{html.escape(label)}">'
    return f"{opening}{''.join(marks)}{clip}{''.join(inside)}</svg></svg>"


def _points(batches: Array, values: Array) -> str:
    pairs = zip(batches.tolist(), values.tolist(), strict=True)
    return " ".join(f"{_x(batch):.1f},{_y(value):.1f}" for batch, value in pairs)


def _x(batch: float) -> float:
    return _LEFT + math.log(batch) / math.log(LARGEST_BATCH) * (_WIDTH - _LEFT)


def _y(value: float) -> float:
    return _TOP + (HIGHEST - value) / (HIGHEST - LOWEST) * _HEIGHT


if __name__ == "__main__":
    write_gallery(Path(sys.argv[1]), SETUPS, dt.date.today())
