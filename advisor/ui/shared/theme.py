"""Charts in the colours of the page's theme, light or dark; after a change of theme, from the next run on.

The browser replaces these placeholder colours by the theme's own wherever they stand in a figure drawn with
`theme="streamlit"` (its config's `chartCategoricalColors`, its greys). Streamlit 1.67 does not document them; a test
holds them.
"""

from __future__ import annotations

import json

import plotly.graph_objects as go

from advisor.charts import NEUTRAL, SERIES

_CATEGORICAL = {color: f"#{number:06d}" for number, color in enumerate(SERIES, start=1)}
_GREY = "#000036"
PLACEHOLDERS = {**_CATEGORICAL, NEUTRAL: _GREY}
"""Colour of a chart: what stands for it on a page."""


def themed(figure: go.Figure) -> go.Figure:
    """A figure whose colours follow the theme."""
    text = figure.to_json()
    for color, placeholder in PLACEHOLDERS.items():
        text = text.replace(color, placeholder)
    return go.Figure(json.loads(text), _validate=False)
