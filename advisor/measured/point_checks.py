"""Whether measured values stand in the unit and under the header that they claim, by what the model
predicts for them.

A wrong unit moves all rows of a column by one factor, far beyond what any prediction is wrong by.
What a factor near a number of the row itself (GPUs, K + 1, batch, accepted length) may mean cannot
be decided here: it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.measured.observations import NAMES, Observations, joined, log_predicted
from advisor.measured.points import Point
from advisor.physics.architecture import weight_bytes_by_component
from advisor.predict.setup import Setup, touched_in_pass
from advisor.prediction import AdvisorError, Array
from advisor.text import counted

MAX_FACTOR = 5.0
"""On measured kernels no engine is this far off: predictions of plain decode err by 15 % in the
median, those of the published speedups by 9 to 20 % in the mean (docs/validation.md). [-]"""
MAX_ROOFLINE_FACTOR = 6.0
"""On rooflines: of 72 published plain steps the furthest is off by 5.2, nine of ten by less than
2.2. [-]"""
WRONG_SHARE = 0.25
"""Share of rows beyond the factor that counts as the column's fault: no more are set aside as
outliers. [-]"""
LEAST_NUMBER = 3.0
"""Factors below are within what predictions err by. [-]"""
NEAR_LOG = 0.25
"""A factor is near a number when the logarithms differ by no more (28 %). [-]"""
_PREFIXES = {3: "milli", 6: "micro", 9: "nano"}


@dataclass(frozen=True)
class _Reading:
    """A number of the row that its value may wrongly hold as a factor, and what that would mean."""

    words: str
    number: Callable[[Point], float]
    question: str


_PER_ROUND = "is it per token or per round?"
_TIMES = (
    _Reading(
        "the number of GPUs", lambda p: p.scenario.n_gpus, "is it per GPU, or summed over GPUs?"
    ),
    _Reading("K + 1", lambda p: p.n_draft + 1.0, _PER_ROUND),
    _Reading("the accepted length", lambda p: p.accepted_length, _PER_ROUND),
    _Reading("the batch", lambda p: p.batch_size, "is it per sequence, or over the whole batch?"),
)
_RATIOS = (
    _Reading("the number of GPUs", lambda p: p.scenario.n_gpus, "is it per GPU?"),
    _Reading("K + 1", lambda p: p.n_draft + 1.0, "is it per round?"),
)
HeaderOf = Callable[[str, int], tuple[str, float] | None]
"""A column and a line -> what the user's file calls that column, and the factor from its unit to
ours; None without."""
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
"""Units of time, by how many powers of ten they are below a second."""


@dataclass(frozen=True)
class _Column:
    """A column as the user's file has it: its name, and its unit where it is a time."""

    name: str
    scale: float = 1.0
    unit: str = ""

    def value(self, value: float) -> str:
        """A value in the user's own unit."""
        return f"{value / self.scale:.3g} {self.unit}".rstrip()


def _column(quantity: str, line: int, header_of: HeaderOf | None) -> _Column:
    header = header_of(quantity, line) if header_of is not None else None
    if header is None:
        return _Column(quantity)
    timed = quantity.endswith("_s")
    return _Column(
        header[0], header[1], _UNITS.get(round(-np.log10(header[1])), "") if timed else ""
    )


def check_units(points: Sequence[Point], header_of: HeaderOf | None = None) -> tuple[str, ...]:
    """Questions about the columns of rows that a refit may use, one sentence each.

    Columns are called as the user's file calls them.

    Raises AdvisorError for a column that is off by a factor which no engine explains.
    """
    observed = joined(point.observations for point in points)
    by_line = {point.line: point for point in points}
    timed = ("tpot_s", "step_time_s")
    off = observed.log_measured - log_predicted(observed, np.zeros(len(NAMES)))
    plain = _plain_off(observed, off, by_line)
    questions: list[str] = []
    for quantity in dict.fromkeys(observed.quantity.tolist()):
        of_quantity = observed.quantity == quantity
        rows = [by_line[int(line)] for line in observed.line[of_quantity]]
        alike = (
            quantity in timed
            and plain * np.median(off[of_quantity]) > 0.5 * np.median(off[of_quantity]) ** 2
        )
        meant = _meant(quantity, rows, off[of_quantity], per_round=not alike)
        column = _column(quantity, rows[0].line, header_of)
        _refuse_wrong(
            quantity, column, rows, observed.measured[of_quantity], off[of_quantity], meant
        )
        if meant is not None:
            questions.append(
                f"{_said(column, off[of_quantity])}, near {meant.words}: {meant.question}"
            )
    speedups = observed.quantity == "speedup"
    if speedups.any() and _inverted(observed.measured[speedups], off[speedups]):
        questions.append(
            "speedup agrees with predictions better when inverted: is it time with drafts over "
            "time without?"
        )
    return tuple(questions)


def _said(column: _Column, off: Array) -> str:
    factor = float(np.exp(np.median(off)))
    size = f"{_figure(factor)} times" if factor >= 1.0 else f"1/{_figure(1.0 / factor)} of"
    return f"{column.name} is {size} what is predicted in the median of {counted(len(off), 'row')}"


def _figure(factor: float) -> str:
    """A factor in three digits, never as a power of ten."""
    return f"{float(f'{factor:.3g}'):,.0f}" if factor >= 100.0 else f"{factor:.3g}"


def _refuse_wrong(
    quantity: str,
    column: _Column,
    rows: Sequence[Point],
    measured: Array,
    off: Array,
    meant: _Reading | None,
) -> None:
    """Raise AdvisorError when more than WRONG_SHARE of a column's rows are further off than any
    engine."""
    limit = np.log([MAX_ROOFLINE_FACTOR if row.tier == "roofline" else MAX_FACTOR for row in rows])
    wrong = np.abs(off) > limit
    if wrong.mean() <= WRONG_SHARE:
        return
    worst = int(np.argmax(np.where(wrong, np.abs(off), 0.0)))
    example = (
        f"line {rows[worst].line}: {column.value(measured[worst])} where "
        f"{column.value(measured[worst] / np.exp(off[worst]))} is predicted"
    )
    near = (
        meant.question
        if meant is not None
        else _prefix_question(quantity, column, float(np.median(off[wrong])))
    )
    raise AdvisorError(
        f"{_said(column, off[wrong])} ({example}); is the unit in the header right? {near} "
        "Correct the column, or leave these rows out"
    )


def _prefix_question(quantity: str, column: _Column, off: float) -> str:
    if quantity == "speedup":
        return "Is it a percentage, or another ratio?"
    power = 3 * round(abs(off) / np.log(1e3))
    if power == 0 or abs(abs(off) / np.log(10.0) - power) > 1.0:
        return "Are batch, placement and model those of the run?"
    meant = _UNITS.get(round(-np.log10(column.scale)) + (power if off > 0 else -power))
    if column.unit and meant:
        return (
            f"The factor is near 10^{power}: the numbers look like {meant}, the header says "
            f"{column.unit}."
        )
    return (
        f"The factor is near 10^{power}: seconds, {_PREFIXES.get(power, 'other')}seconds and the "
        "like were confused."
    )


def _plain_off(observed: Observations, off: Array, by_line: Mapping[int, Point]) -> float:
    """Log of plain times over predicted ones in the median: of rows without drafts and of those
    that speedups imply."""
    log_ratios = {
        (int(line), str(name)): log_ratio
        for line, name, log_ratio in zip(observed.line, observed.quantity, off, strict=True)
    }
    plain = [
        log_ratio
        for (line, name), log_ratio in log_ratios.items()
        if name == "tpot_s" and by_line[line].n_draft == 0
    ]
    plain += [
        log_ratio + log_ratios[line, "speedup"]
        for (line, name), log_ratio in log_ratios.items()
        if name == "tpot_s" and (line, "speedup") in log_ratios
    ]
    return float(np.median(plain)) if plain else 0.0


def _meant(
    quantity: str, rows: Sequence[Point], off: Array, per_round: bool = True
) -> _Reading | None:
    """The reading that the rows agree with, the one that leaves the least scatter. None where there
    is no such one.

    per_round : whether times of rounds are suspected, which plain rows that are off alike rule out.
    """
    best = None
    least = np.inf
    for reading in _RATIOS if quantity == "speedup" else _TIMES:
        if not per_round and reading.question == _PER_ROUND:
            continue
        numbers = np.array([reading.number(row) for row in rows], float)
        usable = numbers >= LEAST_NUMBER
        if usable.mean() < 0.5:
            continue
        for sign in (1.0, -1.0):
            left = off[usable] - sign * np.log(numbers[usable])
            scatter = float(np.median(np.abs(left)))
            near = abs(float(np.median(left))) <= NEAR_LOG and scatter <= NEAR_LOG
            if near and scatter < least:
                best = reading
                least = scatter
    return best


def _inverted(measured: Array, off: Array) -> bool:
    """Whether 1 / speedup agrees with the predictions much better, for rows away from 1."""
    predicted = np.log(measured) - off
    away = np.abs(np.log(measured)) > NEAR_LOG
    if away.sum() < 3:
        return False
    as_it_is = np.abs(off[away])
    inverse = np.abs(np.log(measured) + predicted)[away]
    return bool(np.median(inverse) < 0.5 * np.median(as_it_is) and np.median(inverse) <= NEAR_LOG)


_NOT_READ = {"embedding", "mtp"}  # a lookup, and the drafter's own


def least_pass_s(setup: Setup, batch_size: float, tokens_per_sequence: float) -> float:
    """Shortest conceivable pass: its weights at the nominal bandwidth of all accelerators together.
    [s]

    Of the routed experts those that B sequences x q tokens touch, at the end of the routing preset
    that touches fewer; everything else that a pass multiplies once. No cache, no arithmetic, no
    launch.
    """
    moe = setup.architecture.moe
    share = 1.0
    if moe is not None:
        share = (
            float(touched_in_pass(setup, batch_size, tokens_per_sequence, "low")) / moe.n_experts
        )
    parts = weight_bytes_by_component(setup.architecture)
    size = sum(
        part * (share if name == "routed" else 1.0)
        for name, part in parts.items()
        if name not in _NOT_READ
    )
    return float(size / (setup.placement.gpus * setup.hardware.bandwidth_bytes_per_s.value))
