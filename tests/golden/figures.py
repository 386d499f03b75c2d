"""What charts draw, as data: `python -m tests.golden.figures` writes the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from advisor.show.charts.figure import Chart
from advisor.show.charts.maps import design_regions_chart, explored_chart, sweep_chart
from advisor.show.report.paper import draw_components, draw_speedup
from tests.answers.test_design_regions import drawn_map
from tests.pages.ui_fixtures import hand_curve
from tests.show.test_charts_maps import EXPLORED, wide_map, with_an_edge
from tests.show.test_report_paper import TIMES

FILE = Path(__file__).parents[1] / "show" / "figures.json"
_COMPARED = ("z", "text", "customdata")
"""Of the map of designs: what its own tests compare with the answer."""
_MARKS = (Line2D, Patch, Collection, Text)
_LOOKS = ("text", "color", "facecolor", "edgecolor", "hatch", "linestyle", "linewidth", "marker", "markersize")


def figures() -> dict[str, Any]:
    """Charts by name: on screen as plotly has them, on paper a line for each visible mark and word, with its place."""
    return {
        "sweep": _on_screen(sweep_chart(wide_map())),
        "regions": _on_screen(design_regions_chart(with_an_edge(drawn_map())[0]), *_COMPARED),
        "explored": _on_screen(explored_chart(EXPLORED, "Speedup")),
        "speedup on paper": _on_paper(draw_speedup(hand_curve(), 2, 64, 300)),
        "components on paper": _on_paper(draw_components(TIMES, 3)),
    }


def _on_screen(chart: Chart, *left_out: str) -> dict[str, Any]:
    drawn = chart.figure.to_plotly_json()
    del drawn["layout"]["template"]
    traces = [{name: item for name, item in trace.items() if name not in left_out} for trace in drawn["data"]]
    return json.loads(json.dumps({"data": traces, "layout": drawn["layout"]}, default=list))


def _on_paper(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [_mark(one) for one in figure.findobj(lambda one: one.get_visible() and isinstance(one, _MARKS))]


def _mark(one: Artist) -> str:
    box = " ".join(f"{edge:.0f}" for edge in one.get_window_extent().extents)
    looks = {name: value for name, value in one.properties().items() if name in _LOOKS}
    colors = {
        name: to_hex(np.ravel(looks.pop(name)), keep_alpha=True) for name in ("facecolor", "edgecolor") if name in looks
    }
    return f"{box}  {type(one).__name__} " + ", ".join(f"{name} {value}" for name, value in (looks | colors).items())


if __name__ == "__main__":
    FILE.write_text(json.dumps(figures(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
