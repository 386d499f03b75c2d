"""Speedup over batch and context as a map of cells, with the recommended K in each."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from advisor.charts.figure import VERMILLION, Chart, add_gain_map, new_figure
from advisor.context_map import ContextMap, turn_texts


def context_chart(found: ContextMap, context_tokens: int, batch_size: int) -> Chart:
    """The map with the scenario's own cell framed. Cells that do not fit in memory are empty.

    context_tokens, batch_size : the scenario's own, on the map. [-]
    """
    values = np.where(found.fits, found.speedup, np.nan)
    rows, columns = values.shape
    figure = new_figure(
        "Speedup at the recommended K<br>by batch and context",
        "Batch size (sequences)",
        "Context (tokens)",
        150 + 38 * rows,
    )
    words = [
        [f"{found.speedup[r, c]:.2f}x<br>K {found.n_draft[r, c]}" if found.fits[r, c] else "" for c in range(columns)]
        for r in range(rows)
    ]
    add_gain_map(figure, values, words, hoverinfo="skip")
    figure.update_xaxes(tickvals=np.arange(columns), ticktext=[f"{b:,}" for b in found.batches], showgrid=False)
    figure.update_yaxes(tickvals=np.arange(rows), ticktext=[f"{c:,}" for c in found.contexts], showgrid=False)
    row, column = found.at(context_tokens, batch_size)
    figure.add_shape(
        type="rect",
        x0=column - 0.5,
        x1=column + 0.5,
        y0=row - 0.5,
        y1=row + 0.5,
        line={"color": VERMILLION, "width": 3},
    )
    left_out = "" if found.fits.all() else "Empty cells do not fit in memory."
    return Chart(figure, f"{' '.join(turn_texts(found))} {left_out}".rstrip(), _table(found), left_out)


def _table(found: ContextMap) -> pd.DataFrame:
    """A row for each context and batch."""
    contexts, batches = (axis.ravel() for axis in np.meshgrid(found.contexts, found.batches, indexing="ij"))
    values: dict[str, ArrayLike] = {
        "context_tokens": contexts,
        "batch_size": batches,
        "fits": found.fits.ravel(),
        "n_draft": found.n_draft.ravel(),
        "speedup": found.speedup.ravel(),
        "speedup_low": found.low.ravel(),
        "speedup_high": found.high.ravel(),
        "attention_share": found.attention_share.ravel(),
    }
    return pd.DataFrame(values)
