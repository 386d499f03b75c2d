"""What charts draw, as data: `python -m tests.golden.figures` writes the file."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from advisor.show.charts.figure import Chart
from advisor.show.charts.maps import explored_chart, sweep_chart
from advisor.show.report.paper import draw_components, draw_speedup
from tests.pages.ui_fixtures import hand_curve
from tests.show.test_charts_maps import EXPLORED, wide_map
from tests.show.test_report_paper import RUNS, TIMES

FILE = Path(__file__).parents[1] / "show" / "figures.json"


def figures() -> dict[str, Any]:
    """Charts by name: on screen as plotly has them; on paper as SVG."""
    curve = hand_curve()
    columns = np.full(curve.batches.size, 2)
    return {
        "sweep": _on_screen(sweep_chart(wide_map())),
        "explored": _on_screen(explored_chart(EXPLORED, "Speedup")),
        "speedup on paper": _on_paper(draw_speedup(curve, columns, 64, 300, RUNS)),
        "components on paper": _on_paper(draw_components(TIMES, 3)),
    }


def _on_screen(chart: Chart) -> dict[str, Any]:
    drawn = chart.figure.to_plotly_json()
    del drawn["layout"]["template"]
    return json.loads(json.dumps(drawn, default=list))


def _on_paper(figure: Figure) -> list[str]:
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    marks = re.sub(r"\s*\n(?=[MLQCz\"])|font-family: [^;]*;", " ", out.getvalue()).splitlines()
    return [mark.strip() for mark in marks if re.search(r"style=|<use|viewBox", mark)]


if __name__ == "__main__":
    lines = (
        f' "{name}": {json.dumps(chart, ensure_ascii=False)}' for name, chart in figures().items()
    )
    FILE.write_text(
        "{\n" + ",\n".join(lines).replace('", "', '",\n  "') + "\n}\n", encoding="utf-8"
    )
