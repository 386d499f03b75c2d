"""Axes of a plate, and a sheet as the browser gets it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from advisor.answers.design.dials import Experts
from advisor.show.design_sheet import own_names
from advisor.show.sheet import Cell, GreyLine, Row, Sheet, linear_axis
from advisor.text import json_values


@pytest.mark.parametrize("values", [(0.87, 2.13), (3.0, 3.0), (-0.02, 0.4), (0.0, 812.0)])
def test_a_linear_axis_holds_its_values_and_has_a_few_ticks_inside(values):
    axis = linear_axis("speedup", np.array(values), "{:g}".format)
    assert axis.low < min(values) <= max(values) < axis.high
    places = [place for place, _ in axis.ticks]
    assert 2 <= len(places) <= 7
    assert axis.low <= places[0] <= places[-1] <= axis.high
    assert np.allclose(np.diff(places), places[1] - places[0])


def test_a_sheet_is_plain_values_with_the_kind_of_each_block():
    sheet = Sheet("K = 4", rows=((GreyLine("one"),),))
    plain = json.loads(json.dumps(json_values(sheet)))
    assert plain["rows"] == [[{"text": "one", "kind": "note"}]]
    assert json_values(Row((Cell("1", range=(0.5, 1.0, 2.0)),)))["cells"][0]["range"] == [0.5, 1, 2]


def test_designs_of_the_same_counts_are_told_apart_by_their_width():
    designs = [Experts(128, 8, 0.0, width) for width in (800, 900)]
    assert own_names([*designs, Experts(64, 4, 1.0, 800)]) == [
        "8 of 128, width 800",
        "8 of 128, width 900",
        "4 of 64 + 1",
    ]
