"""The published rows as points, and the fits without each laboratory: once for all files that look at them."""

from __future__ import annotations

import functools

from advisor.measured.overheads import OverheadModel
from advisor.measured.points import Point
from advisor.measured.validation import held_out_fits
from studies.validation.own_runs import mature_points
from studies.validation.report import judged_points


@functools.cache
def judged() -> tuple[Point, ...]:
    """Points of all laboratories but those set apart."""
    return tuple(judged_points()[0])


@functools.cache
def fitted() -> tuple[Point, ...]:
    """The points that the shipped overheads are fitted on."""
    return tuple(mature_points(judged()))


@functools.cache
def left_out_fits() -> dict[str, OverheadModel]:
    """The fit without each laboratory, by its name."""
    return held_out_fits(fitted())
