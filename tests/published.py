"""The published rows as points, read once a worker for all files that look at them."""

from __future__ import annotations

import functools

from advisor.measured.points import Point
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
