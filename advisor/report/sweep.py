"""The section on a sweep: what was swept, three questions to it, and its map, where a sweep was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from advisor.charts import sweep_chart
from advisor.report.blocks import Block, FigureBlock, Listing, Paragraph, Table
from advisor.report.document_sweep import SweepCell, SweepFastest, SweepOneK, SweepPays
from advisor.sweep import (
    SETTINGS,
    SweepMap,
    SweepView,
    fastest_table,
    fastest_text,
    fastest_within,
    map_table,
    map_text,
    one_k_for_all,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    setting_text,
    settings_texts,
    swept_text,
    values_by_setting,
    where_drafting_pays,
)
from advisor.text import counted, printable

_SHOWN = 40
"""Rows of a table on paper; JSON has all. [-]"""
_MAP_COLUMNS = 10
"""Columns of a table that fit a page. [-]"""
_NUMBERS = ("Pays up to batch", "Batch", "K", "K for all", "Speedup", "Gains in", "Points", "Mean loss", "Worst loss")


def sweep_blocks(view: SweepView) -> tuple[Block, ...]:
    """Blocks of the section: what was swept, each question with its table, the map as figure and table."""
    frame = view.sweep.frame
    pays, fastest = where_drafting_pays(frame), fastest_within(frame, view.max_tpot_ms)
    return (
        _paragraph(" ".join((swept_text(view.sweep), *view.sweep.notes))),
        Listing(tuple(printable(text, 2000) for text in settings_texts(frame))),
        _paragraph(pays_text(pays)),
        *_table(pays_table(pays), "The largest batch at which the recommended K pays, and its figures there."),
        _paragraph(fastest_text(fastest, view.max_tpot_ms)),
        *_table(fastest_table(fastest), "The most tokens/s per GPU of each model, with 80% bands."),
        _paragraph(one_k_text(frame)),
        *_table(
            one_k_table(frame), "One K at every point that fits and has it, against the best K of each simulated case."
        ),
        *_map(view.map),
    )


def _map(found: SweepMap | None) -> tuple[Block, ...]:
    if found is None:
        return ()
    figure = FigureBlock("sweep", printable(sweep_chart(found).alt, 2000))
    columns, rows = map_table(found)
    if len(columns) > _MAP_COLUMNS:
        return _paragraph(map_text(found)), figure
    return _paragraph(map_text(found)), figure, *_table((columns, rows), "A dash: not in the grid, or does not fit.")


def _paragraph(text: str) -> Paragraph:
    return Paragraph(printable(text, 2000))


def _table(table: tuple[tuple[str, ...], list[tuple[str, ...]]], caption: str) -> tuple[Block, ...]:
    """A table of at most _SHOWN rows; nothing where it has none."""
    columns, rows = table
    if not rows:
        return ()
    more = "" if len(rows) <= _SHOWN else f" {counted(len(rows) - _SHOWN, 'more row')} in the JSON report."
    align = "".join("r" if name in _NUMBERS or "per" in name.split() else "l" for name in columns)
    cells = tuple(tuple(map(printable, row)) for row in rows[:_SHOWN])
    return (Table(tuple(map(printable, columns)), cells, align, caption + more),)


def sweep_values(view: SweepView | None) -> dict[str, Any]:
    """The section as the JSON report carries it, null where no sweep was given."""
    if view is None:
        return {"sweep": None}
    frame = view.sweep.frame
    pays, fastest = where_drafting_pays(frame), fastest_within(frame, view.max_tpot_ms)
    said = (swept_text(view.sweep), pays_text(pays), fastest_text(fastest, view.max_tpot_ms), one_k_text(frame))
    return {
        "sweep": {
            "says": [printable(text, 2000) for text in (*said, *view.sweep.notes)],
            "release": view.sweep.maker.get("release"),
            "constants": view.sweep.maker.get("constants"),
            "max_tpot_ms": view.max_tpot_ms,
            "varied": [{"setting": name, "values": texts} for name, texts in values_by_setting(frame).items()],
            "pays": [_row(one, SweepPays.model_fields) for one in pays.to_dict("records")],
            "fastest": [_row(one, SweepFastest.model_fields) for one in fastest.to_dict("records")],
            "one_k": [_row(one, SweepOneK.model_fields) for one in one_k_for_all(frame).to_dict("records")],
            "map": _cells(view.map),
        }
    }


def _row(one: Mapping[Any, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Named figures of a row, None where it has none, and its further settings as texts."""
    found = {name: None if pd.isna(one[name]) else one[name] for name in names if name != "settings"}
    if "settings" not in names:
        return found
    further = [name for name in one if name in SETTINGS and name not in names]
    return found | {"settings": {name: setting_text(name, one[name]) for name in further if not pd.isna(one["row"])}}


def _cells(found: SweepMap | None) -> dict[str, Any] | None:
    if found is None:
        return None
    names = [name for name in SweepCell.model_fields if name not in ("x", "y")]
    cells = [
        {name: found.cells[name].loc[found.row[row, column]] for name in names}
        | {"x": setting_text(found.x, across), "y": setting_text(found.y, down)}
        for row, down in enumerate(found.y_values)
        for column, across in enumerate(found.x_values)
        if found.has[row, column]
    ]
    return {"says": printable(map_text(found), 2000), "x": found.x, "y": found.y, "cells": cells}
