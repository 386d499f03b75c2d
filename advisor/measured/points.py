"""Measured rows as points: row, question, setup, observations. Published rows and a user's take the
same way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor.measured.measurements import read_dataset
from advisor.measured.observations import (
    QUANTITIES,
    Observations,
    joined,
    laboratories_of,
    number,
    observe,
    part_of,
    time_columns,
)
from advisor.measured.published import FIRST_COLLECTION, FITTED_COLLECTIONS
from advisor.measured.row_questions import RowQuestion
from advisor.measured.run import AskedRun, PredictedRun, run_question
from advisor.physics.acceptance import parse_acceptance
from advisor.physics.memory import GIB
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.prefill import prefill_per_token_s
from advisor.predict.scenario import Scenario
from advisor.predict.setup import CountedPass, Setup
from advisor.prediction import AdvisorError, Array
from advisor.profiles import MEASUREMENTS

MAX_POINTS = 400
"""Rows of one accelerator and engine that are predicted; of more, an even sample. [-]"""
MAX_ASKED = 4000
"""Rows of one file that become questions; of more, an even sample of those that measure something.
[-]"""
_MEASURES_NOTHING = (
    "neither a speedup nor a time per step or token; add one, or a baseline row with K = 0"
)
_METRIC_OPEN = "metric does not say what baseline_value and sd_value count; fill it in"


@dataclass(frozen=True)
class Prompts:
    """Reading of a file's rows: with the prefill of prompts in every time, or in none."""

    held: bool
    log_odds: float
    """Of this reading against the other. [-]"""


@dataclass(frozen=True, kw_only=True)
class Point(PredictedRun):
    """Measured row that the model can express, and its measured values."""

    accepted_length: float
    length_log_sd: float
    """Log standard deviation of the accepted length; 0 where a user counted it in the same run.
    [-]"""
    tier: str
    """Of the kernels as the row was read: how much it weighs in a fit. It is judged as by the
    prediction that judges it."""
    observations: Observations
    """With the overheads of `setup`, at multipliers of 1."""
    prompts: Prompts | None = None
    """How its file's rows were read, None where both readings are one."""

    @property
    def recorded(self) -> bool:
        """Whether an engine's program wrote the row, and not a person: it counted the tokens of its
        steps."""
        return self.number("tokens_in_step") is not None

    @property
    def measured(self) -> float:
        """The first quantity that it measures: the speedup, where there is one."""
        return float(self.observations.measured[0])


@dataclass(frozen=True)
class Refused:
    """A row that takes no part, and why. It is the first of the rows with this reason."""

    line: int
    reason: str
    rows: int = 1
    """How many rows this speaks of. [-]"""


def points_at(
    cases: Sequence[AskedRun],
    setup: Setup,
    lengths: Sequence[tuple[float, float]],
    central_only: bool = False,
) -> list[Point]:
    """Points of rows that differ in batch and accepted length alone, with each length and its log
    spread."""
    question = cases[0].question
    batches = np.array([item.batch_size for item in cases])
    curve = curve_for(
        setup, batches, [question.n_draft], question.verify_tokens, central_only=central_only
    )
    plain, spec = time_columns(setup, curve)
    prefill = prefill_per_token_s(setup, batches)
    out = []
    for i, (item, (length, spread)) in enumerate(zip(cases, lengths, strict=True)):
        borrowed = item.n_draft > 0 and item.question.borrowed
        observed = observe(
            item.line, item.facts, plain[i], spec[i], float(prefill[i]), length, borrowed
        )
        out.append(
            Point(
                item.facts,
                line=item.line,
                question=item.question,
                setup=setup,
                accepted_length=length,
                length_log_sd=spread,
                tier=str(curve.tier[i, 0]),
                observations=observed,
            )
        )
    return out


@dataclass(frozen=True)
class Reread:
    """Rows read otherwise: batches, K, accepted lengths [n] that differ. `scenario`: what changes
    in every row's."""

    batches: Array | None = None
    drafts: Array | None = None
    lengths: Array | None = None
    scenario: tuple[tuple[str, Any], ...] = ()


def as_read(points: Sequence[Point], rereads: Sequence[Reread]) -> list[Observations | None]:
    """Observations of the rows in several readings, alike kernels predicted once. None where they
    cannot have run."""
    stated_values = [
        np.array([getattr(p, name) for p in points])
        for name in ("batch_size", "n_draft", "accepted_length")
    ]
    cells = [
        [
            stated if override is None else override
            for stated, override in zip(
                stated_values, (reread.batches, reread.drafts, reread.lengths), strict=True
            )
        ]
        for reread in rereads
    ]
    groups: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for reading, reread in enumerate(rereads):
        for i, point in enumerate(points):
            k = int(cells[reading][1][i])
            verified = point.question.verify_tokens if k == point.n_draft else None
            groups.setdefault((id(point.setup), k, verified, reread.scenario), []).append(
                (reading, i)
            )
    out: list[dict[int, Observations]] = [{} for _ in rereads]
    for (_, k, verified, changes), places in groups.items():
        rows = [
            (points[i], float(cells[reading][0][i]), float(cells[reading][2][i]))
            for reading, i in places
        ]
        cases_read = [
            replace(
                p, question=replace(p.question, n_draft=k, verify_tokens=verified, batch_size=batch)
            )
            for p, batch, _ in rows
        ]
        try:
            setup = _setup_read(rows[0][0], k, dict(changes))
            lengths = [(length, p.length_log_sd) for p, _, length in rows]
            read = points_at(cases_read, setup, lengths, central_only=True)
        except AdvisorError:  # the ranks of an accelerator without links, too
            continue
        for (reading, i), reread_point in zip(places, read, strict=True):
            out[reading][i] = reread_point.observations
    every = range(len(points))
    return [joined(each[i] for i in every) if len(each) == len(every) else None for each in out]


def repriced(points: Sequence[Point], change: Callable[[Setup], Setup]) -> list[Point]:
    """Rows as predicted by changed setups. As given where those cannot predict all of them."""
    setups = {id(p.setup): change(p.setup) for p in points}
    moved = [replace(point, setup=setups[id(point.setup)]) for point in points]
    read = as_read(moved, [Reread()])[0]
    out = []
    at = 0
    if read is None:
        return list(points)
    for point in moved:
        end = at + len(point.observations.line)
        parts = {name: getattr(read, name)[at:end] for name in ("upper", "lower")}
        out.append(replace(point, observations=replace(point.observations, **parts)))
        at = end
    return out


def _setup_read(point: Point, n_draft: int, changes: Mapping[str, Any]) -> Setup:
    """Setup of a point under other fields, or one that can predict a draft length beyond its
    own."""
    setup = point.setup
    if not changes and n_draft <= setup.scenario.k_max:
        return setup
    k = max(n_draft, setup.scenario.k_max)
    other = load_setup(
        setup.scenario.model_copy(update={"k_max": k, "acceptance": f"{1 + k / 2}@{k}", **changes})
    )
    if not changes:
        return replace(
            other, costs=setup.costs, draft_costs=setup.draft_costs, counted=setup.counted
        )
    other = point.question.built(other)
    _check_weights_fit(other)
    return replace(other, counted=setup.counted)


def refit_points(
    frame: pd.DataFrame, acceptance: str | None = None
) -> tuple[list[Point], list[Refused]]:
    """Rows of a canonical points frame (index: line) that can be predicted, and the others with the
    reason.

    Parameters
    ----------
    frame : canonical columns of `advisor.measured.ingest`.
    acceptance : as in a scenario; stands in, as borrowed, for rows without an accepted length.

    Notes
    -----
    Each point's setup has the overheads shipped for its engine class: an old version is judged
    against its own. A question is built and validated for MAX_ASKED rows at most, however long the
    file.
    """
    cases: list[AskedRun] = []
    few, refused = _askable(frame)
    for line, row in _records(few):
        try:
            cases.append(_ask(line, row, acceptance))
        except AdvisorError as error:
            refused.append(Refused(line, for_users(str(error))))
    points: list[Point] = []
    for scenario, group in _by_curve(_even_sample(cases, refused)):
        try:
            first = group[0].question
            setup = first.built(load_setup(scenario))
            _check_weights_fit(setup)
            group_points = points_at(
                group, setup, [_length(item.question, setup) for item in group]
            )
        except AdvisorError as error:
            refused += [Refused(item.line, for_users(str(error))) for item in group]
            continue
        for point in group_points:
            if len(point.observations.line):
                points.append(point)
            else:
                refused.append(Refused(point.line, _MEASURES_NOTHING))
    return sorted(points, key=lambda point: point.line), sorted(refused, key=lambda item: item.line)


def _check_weights_fit(setup: Setup) -> None:
    """Raise AdvisorError where the weights alone exceed the accelerator's whole memory: no such run
    was measured."""
    needed = setup.memory.weights_bytes + setup.memory.drafter_bytes
    has = setup.hardware.memory_bytes.value
    if needed > has:
        raise AdvisorError(
            f"the weights of {setup.scenario.model_id} on {setup.place} need {needed / GIB:,.0f} "
            f"GiB a GPU, it has {has / GIB:,.0f}; state gpu_count, tensor_parallel and "
            "weight_dtype as they ran"
        )


def _records(frame: pd.DataFrame) -> Iterable[tuple[int, dict[str, Any]]]:
    for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
        yield int(line), {str(name): None if pd.isna(cell) else cell for name, cell in row.items()}


_OPTION = r"--(?:map|set) (?:'[^']*'|\S+)"


def for_users(reason: str) -> str:
    """A reason without the options of the terminal: on a page and for a file's owner fields are
    filled in."""
    filled = re.sub(
        rf"(?:give|fill) (it|one) with {_OPTION}", lambda found: f"fill {found[1]} in", reason
    )
    return re.sub(
        (
            rf",? ?(?:or )?(?:name its fields with|say|Say what yours mean with) {_OPTION}(?:,? "
            rf"(?:e\.g\. )?{_OPTION})*"
        ),
        "",
        filled,
    )


def _askable(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Refused]]:
    """Of a long frame an even sample of rows that may be predicted, and what the rest lacks. A
    short one as it is."""
    if len(frame) <= MAX_ASKED:
        return frame, []
    stated = {name: frame[name].notna().to_numpy() for name in ("draft_tokens_k", "batch_size")}
    measured = frame[list(QUANTITIES)].notna().any(axis=1).to_numpy()
    left = np.ones(len(frame), dtype=bool)
    refused = []
    for has, reason in (
        (measured, _MEASURES_NOTHING),
        *((mask, f"{name} is not stated; fill it in") for name, mask in stated.items()),
    ):
        refused += _refused_as_one(frame.index[left & ~has], reason)
        left &= has
    rows = np.flatnonzero(left)
    sample = _evenly(len(rows), MAX_ASKED)
    left_out = frame.index[np.delete(rows, sample)]
    refused += _refused_as_one(left_out, f"not needed: an even sample of {MAX_ASKED:,} is read")
    return frame.iloc[rows[sample]], refused


def _evenly(n: int, wanted: int) -> NDArray[np.int_]:
    """Places of at most `wanted` of n rows, the first and the last among them."""
    return (
        np.unique(np.linspace(0, n - 1, wanted).round().astype(int)) if n > wanted else np.arange(n)
    )


def _refused_as_one(lines: pd.Index, reason: str) -> list[Refused]:
    return [Refused(int(lines[0]), reason, len(lines))] if len(lines) else []


def _even_sample(cases: list[AskedRun], refused: list[Refused]) -> list[AskedRun]:
    """MAX_POINTS rows of the accelerator and engine with most rows, and as many of all others
    together."""
    groups = [(case.scenario.hardware_id, case.engine_class) for case in cases]
    largest = Counter(groups).most_common(1)[0][0] if cases else None
    sample: list[AskedRun] = []
    for inside in (True, False):
        selected_cases = [
            case for case, group in zip(cases, groups, strict=True) if (group == largest) == inside
        ]
        places = _evenly(len(selected_cases), MAX_POINTS)
        sample += [selected_cases[i] for i in places]
        lines = pd.Index([case.line for case in selected_cases]).delete(places)
        refused += _refused_as_one(
            lines, f"not needed: an even sample of {MAX_POINTS} rows is fitted"
        )
    return sorted(sample, key=lambda case: case.line)


def _ask(line: int, row: dict[str, Any], acceptance: str | None) -> AskedRun:
    """The row as a question. Raises AdvisorError with the reason when it cannot be predicted or
    measures nothing."""
    if not any(number(row, name) for name in QUANTITIES):
        open_pair = (
            number(row, "baseline_value") and number(row, "sd_value") and not row.get("metric")
        )
        raise AdvisorError(_METRIC_OPEN if open_pair else _MEASURES_NOTHING)
    n_draft = number(row, "draft_tokens_k")
    cells = row
    if n_draft == 0:
        row = {**row, "speedup": None, "draft_time_s": None}
    elif n_draft and number(row, "accepted_length") is None and acceptance:
        length = parse_acceptance(acceptance, max(int(n_draft), 1)).accepted_length[int(n_draft)]
        cells = {**row, "accepted_length": float(length), "accepted_length_same_run": 0}
    return AskedRun(row, line=line, question=run_question(cells, other_models=True))


def _by_curve(cases: Iterable[AskedRun]) -> list[tuple[Scenario, list[AskedRun]]]:
    """Rows that differ in batch and accepted length alone, with the scenario that predicts them
    together."""
    groups: dict[tuple[Scenario, int, int | None, str, CountedPass | None], list[AskedRun]] = {}
    for item in cases:
        # An accepted length of no consequence: only times are read off the curve.
        question = item.question
        k = max(item.n_draft, 1)
        alike = question.scenario.model_copy(
            update={"batch_size": 1, "acceptance": f"{1 + k / 2}@{k}"}
        )
        key = (
            alike,
            question.n_draft,
            question.verify_tokens,
            question.engine_class,
            question.counted,
        )
        groups.setdefault(key, []).append(item)
    return [(key[0], group) for key, group in groups.items()]


def _length(question: RowQuestion, setup: Setup) -> tuple[float, float]:
    """Accepted length of a user's row, and its log standard deviation where it is borrowed, else
    0."""
    if question.n_draft == 0:
        return 1.0, 0.0
    of = setup.architecture.id, setup.drafter.id
    return _parsed_length(question.scenario.acceptance, question.n_draft, question.borrowed, *of)


@lru_cache(maxsize=1024)  # a sweep repeats few of them
def _parsed_length(
    text: str, n_draft: int, borrowed: bool, model_id: str, drafter_id: str
) -> tuple[float, float]:
    got = parse_acceptance(
        text, n_draft, borrowed=borrowed, model_id=model_id, drafter_id=drafter_id
    )
    return float(got.accepted_length[n_draft]), got.log_sd(n_draft) if borrowed else 0.0


_PER_SEQUENCE = {"output_tok_per_s_per_user", "decode_tok_per_s_per_user"}
_OF_ALL = {"output_tok_per_s", "decode_tok_per_s", "total_tok_per_s"}
_PER_GPU = {"output_tok_per_s_per_gpu", "total_tok_per_s_per_gpu"}


def published_rows(*collections: str) -> pd.DataFrame:
    """The rows of `collections`, every cell as text. The first collection where none is named.
    COLLECTIONS are all.

    Raises AdvisorError where a file is not what its meta.yaml says.
    """
    names = collections or (FIRST_COLLECTION,)
    frames = (read_dataset(MEASUREMENTS / name)[1] for name in names)
    # A later collection may have a column more.
    return pd.concat(frames, ignore_index=True).fillna("")


def judged_rows() -> pd.DataFrame:
    """The rows that forms are chosen by: of FITTED_COLLECTIONS, but for laboratories that judge."""
    rows = published_rows(*FITTED_COLLECTIONS)
    rows = rows[[part_of(name) != "judge" for name in laboratories_of(rows)]]
    return rows.reset_index(drop=True)


_TOKEN_TIMES = {"tpot_ms": 1e-3, "tpot_s": 1.0}
"""Metrics that are times per token, and the seconds of their unit. [s]"""


def measured_times(row: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds for one output token of one sequence without and with speculation, as a row prints
    them.

    A plain time is that of a plain step, a speculative one times the accepted length that of a
    round; both with the prefill that the row's metric holds (`PREFILL_METRICS` of
    `advisor.measured.row_questions`). NaN where the row prints a ratio alone, or where its batch or
    lengths do not tell.
    """
    return _time_s(row, number(row, "baseline_value")), _time_s(row, number(row, "sd_value"))


def _time_s(row: Mapping[str, Any], value: float | None) -> float:
    metric = str(row.get("metric", ""))
    sequences = number(row, "batch_size") or np.nan
    if not value:
        return float("nan")
    if metric in _TOKEN_TIMES:
        return value * _TOKEN_TIMES[metric]
    if metric == "request_latency_s":
        return value / (number(row, "output_tokens") or np.nan)
    if metric in _PER_SEQUENCE:
        return 1.0 / value
    if metric in _PER_GPU:
        sequences /= number(row, "gpu_count") or np.nan
    elif metric == "output_tok_per_s_per_rank":
        sequences = sequences if row.get("batch_kind") == "requests_per_rank" else np.nan
    elif metric not in _OF_ALL:
        return float("nan")
    if metric.startswith("total"):  # of which the generated tokens count
        prompt = number(row, "input_tokens")
        output = number(row, "output_tokens")
        value *= output / (prompt + output) if output and prompt is not None else np.nan
    return sequences / value
