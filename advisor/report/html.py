"""A report as one HTML file: interactive charts, plotly.js inside, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from importlib.resources import files

import jinja2
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from advisor.advice import component_times
from advisor.charts import components_chart, design_regions_chart, rank_chart, speedup_chart, sweep_chart
from advisor.report.blocks import FigureBlock, FigureKey
from advisor.report.build import Report
from advisor.report.layout import key_figures, sections
from advisor.text import unbroken_ranges

_DRAW = """
for (const data of document.querySelectorAll('script[type="application/json"]')) {
  const figure = JSON.parse(data.textContent);
  Plotly.newPlot(data.dataset.target, figure.data, figure.layout, {displaylogo: false, responsive: true});
}
"""
"""The page's own script: draws each figure from the JSON beside it."""


def to_html(report: Report) -> str:
    """The whole report. Text is escaped by the template; only the two scripts named in its policy can run."""
    found = sections(report)
    figures = {
        block.key: script_json(report_figure(report, block.key).to_json())
        for section in found
        for block in section.blocks
        if isinstance(block, FigureBlock)
    }
    return _template().render(
        report=report,
        key_figures=key_figures(report),
        sections=found,
        figures=figures,
        plotly=_plotly(),
        draw=_DRAW,
        policy=_policy(),
    )


def report_figure(report: Report, key: FigureKey) -> go.Figure:
    """The chart of one figure block, the page's own on white. No text of a user's is drawn: plotly reads markup."""
    return _figure(report, key).update_layout(template="plotly_white")


def _figure(report: Report, key: FigureKey) -> go.Figure:
    if key == "regions":
        assert report.regions is not None, "only a report with a map has this block"
        return design_regions_chart(report.regions).figure
    if key == "ranks":
        assert report.ranks is not None, "only a report with counted ranks has this block"
        return rank_chart(report.ranks).figure
    if key == "sweep":
        assert report.swept is not None
        assert report.swept.map is not None, "only a report with a map has this block"
        return sweep_chart(report.swept.map).figure
    return _speedup(report) if key == "speedup" else _components(report)


def _speedup(report: Report) -> go.Figure:
    advice, curve = report.advice, report.drawn_curve
    others = [int(k) for k in curve.drafts if k not in (0, advice.curve_k)]
    figure = speedup_chart(
        curve,
        advice.curve_k,
        report.scenario.batch_size,
        band_level=advice.band_level,
        sweet_spot_batch=int(advice.sweet_spot_batch),
        compare=others,
        largest_batch=advice.setup.memory.largest_batch,
    ).figure
    names = {f"K = {k}" for k in others}
    return figure.for_each_trace(lambda trace: trace.update(visible="legendonly") if trace.name in names else trace)


def _components(report: Report) -> go.Figure:
    times = component_times(report.advice)
    plain, whole = ({part.name: getattr(part, name) / 1e3 for part in times} for name in ("plain_ms", "round_ms"))
    return components_chart(plain, whole, n_draft=report.advice.curve_k, batch_size=report.scenario.batch_size).figure


def script_json(text: str | None) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(json.loads(text or "{}"), sort_keys=True).replace("<", "\\u003c")


@lru_cache(maxsize=1)
def _plotly() -> str:
    """plotly.js, with no way to end its own script element."""
    return get_plotlyjs().replace("</script", "<\\/script")


@lru_cache(maxsize=1)
def _policy() -> str:
    """Content security policy: nothing is loaded, and of all scripts exactly these two run."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in (_plotly(), _DRAW))
    rules = (
        "default-src 'none'",
        f"script-src {hashes}",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["unbroken"] = unbroken_ranges
    text = files("advisor.report").joinpath("templates/report.html").read_text(encoding="utf-8")
    return environment.from_string(text)
