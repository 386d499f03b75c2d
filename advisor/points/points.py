"""A user's measured rows as observations that are linear in time multipliers: what the refit works on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from advisor import laws
from advisor.acceptance import parse_acceptance
from advisor.calibration import class_costs
from advisor.components import COMPONENTS, FACTORS
from advisor.curve import Curve, curve_for, prefill_per_token_s
from advisor.points.question import RowQuestion, question_of
from advisor.prediction import AdvisorError
from advisor.scenario import MAX_BATCH, MAX_CONTEXT, Scenario
from advisor.setup import Setup, load_setup

Array = NDArray[np.float64]

TIME_NAMES = tuple(FACTORS)
NAMES = (*TIME_NAMES, "accepted_length")
"""All multipliers; the last one scales accepted lengths that were borrowed from another run."""

MAX_POINTS = 400
"""Rows taken from one file; of more, an even sample. [1]"""
_FIXED = len(NAMES)  # column of what no multiplier scales
# A plain row asks for a drafter without device time; K = 0 is what its curve is evaluated at.
_NO_DRAFT = {
    "drafter": "ngram",
    "draft_tokens_k": 1,
    "accepted_length": 1.5,
    "draft_structure": None,
    "notes": None,
    "dataset": None,
}


@dataclass(frozen=True)
class Refused:
    """A row that takes no part, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Observation:
    """One measured quantity: log value = log(upper . m) - log(lower . m) + shift + length_share log m_AL.

    `upper` and `lower` have one entry per multiplier of NAMES and a last one that nothing scales. Times in seconds.
    """

    line: int
    quantity: str
    measured: float
    upper: Array
    lower: Array
    shift: float
    length_share: float


@dataclass(frozen=True)
class RefitPoint:
    """One usable row: where it stands, what it measures, and the setup that predicts it."""

    line: int
    batch_size: float
    n_draft: int
    model_id: str
    drafter_id: str
    scenario: Scenario
    setup: Setup
    """With the overheads shipped for `engine_class`."""
    engine_class: str
    accepted_length: float
    borrowed: bool
    length_log_sd: float
    """Log standard deviation of a borrowed accepted length; 0 for the row's own. [1]"""
    observations: tuple[Observation, ...]


@dataclass(frozen=True)
class _Asked:
    line: int
    row: Mapping[str, Any]
    question: RowQuestion
    batch_size: float
    n_draft: int


def refit_points(
    frame: pd.DataFrame, acceptance: str | None = None, configs: Mapping[str, str] | None = None
) -> tuple[list[RefitPoint], list[Refused]]:
    """Rows of a canonical points frame (index: line) that can be predicted, and the others with the reason.

    Parameters
    ----------
    frame : canonical columns of `advisor.ingest`.
    acceptance : as in a scenario; stands in, as borrowed, for rows without an accepted length.
    configs : config.json texts of models that have no profile, by the name the rows use.
    """
    asked: list[_Asked] = []
    refused: list[Refused] = []
    for line, row in _records(frame):
        try:
            asked.append(_ask(line, row, acceptance, configs or {}))
        except AdvisorError as error:
            refused.append(Refused(line, _for_users(str(error))))
    points: list[RefitPoint] = []
    for group in _by_curve(_even_sample(asked, refused)):
        try:
            points += _predict_group(group)
        except AdvisorError as error:
            refused += [Refused(item.line, _for_users(str(error))) for item in group]
    return sorted(points, key=lambda point: point.line), sorted(refused, key=lambda item: item.line)


def _records(frame: pd.DataFrame) -> Iterable[tuple[int, dict[str, Any]]]:
    for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
        yield int(line), {str(name): None if pd.isna(cell) else cell for name, cell in row.items()}


def _for_users(reason: str) -> str:
    return reason.replace("fill it with --assume", "give").replace("--assume ", "")


def _even_sample(asked: list[_Asked], refused: list[Refused]) -> list[_Asked]:
    if len(asked) <= MAX_POINTS:
        return asked
    kept = {round(i) for i in np.linspace(0, len(asked) - 1, MAX_POINTS)}
    reason = f"not needed: an even sample of {MAX_POINTS} rows is fitted"
    refused += [Refused(item.line, reason) for i, item in enumerate(asked) if i not in kept]
    return [item for i, item in enumerate(asked) if i in kept]


def _ask(line: int, row: dict[str, Any], acceptance: str | None, configs: Mapping[str, str]) -> _Asked:
    """The row as a question. Raises AdvisorError with the reason when it cannot be predicted or measures nothing."""
    if not any(_number(row, name) for name in ("speedup", "step_time_s", "tpot_s", "verify_time_s", "draft_time_s")):
        raise AdvisorError("neither a speedup nor a time per step or token; add one, or a baseline row with K = 0")
    if "adaptive" in str(row.get("draft_structure") or ""):
        raise AdvisorError("the draft length was adaptive; no single K stands for the row")
    n_draft, batch = _number(row, "draft_tokens_k"), _number(row, "batch_size")
    if n_draft is None or batch is None:
        missing = "draft_tokens_k" if n_draft is None else "batch_size"
        raise AdvisorError(f"{missing} is not stated; fill it in")
    given = {**row, "batch_size": min(max(round(batch), 1), MAX_BATCH)}
    if n_draft == 0:
        given |= _NO_DRAFT
    elif _number(row, "accepted_length") is None and acceptance:
        length = parse_acceptance(acceptance, max(int(n_draft), 1)).accepted_length[int(n_draft)]
        given |= {"accepted_length": float(length), "accepted_length_same_run": 0}
    question = question_of(given)
    scenario = question.scenario
    context = _number(row, "context_tokens")
    if context:
        scenario = scenario.model_copy(update={"context_tokens": min(max(round(context), 1), MAX_CONTEXT)})
    if scenario.model_id in configs:
        scenario = scenario.model_copy(update={"model_config_json": configs[scenario.model_id]})
    return _Asked(line, row, replace(question, scenario=scenario), max(batch, 1.0), int(n_draft))


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _by_curve(asked: Iterable[_Asked]) -> list[list[_Asked]]:
    """Rows that differ in batch and accepted length alone are predicted together."""
    groups: dict[tuple[Scenario, int, int | None, str], list[_Asked]] = {}
    for item in asked:
        # An accepted length of no consequence: only times are read off the curve.
        k = max(item.question.n_draft, 1)
        alike = item.question.scenario.model_copy(update={"batch_size": 1, "acceptance": f"{1 + k / 2}@{k}"})
        key = (alike, item.n_draft, item.question.verify_tokens, item.question.engine_class)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _predict_group(group: list[_Asked]) -> list[RefitPoint]:
    first = group[0]
    k = max(first.question.n_draft, 1)
    alike = first.question.scenario.model_copy(update={"batch_size": 1, "acceptance": f"{1 + k / 2}@{k}"})
    setup = _of_class(load_setup(alike), first.question.engine_class)
    batches = np.array([item.batch_size for item in group])
    curve = curve_for(setup, batches, [first.n_draft], first.question.verify_tokens)
    prefill = prefill_per_token_s(setup, batches)
    plain, whole = time_columns(setup, curve)
    out = []
    for i, item in enumerate(group):
        scenario = item.question.scenario
        borrowed = item.n_draft > 0 and item.question.acceptance_source != "same_run"
        length, spread = _accepted(scenario.acceptance, item.n_draft, borrowed, setup.architecture.id, setup.drafter.id)
        out.append(
            RefitPoint(
                line=item.line,
                batch_size=item.batch_size,
                n_draft=item.n_draft,
                model_id=scenario.model_id,
                drafter_id=scenario.drafter_id,
                scenario=scenario,
                setup=setup,
                engine_class=item.question.engine_class,
                accepted_length=length,
                borrowed=borrowed,
                length_log_sd=spread,
                observations=tuple(_observations(item, plain[i], whole[i], length, borrowed, float(prefill[i]))),
            )
        )
    return out


def _of_class(setup: Setup, engine_class: str) -> Setup:
    """`setup` with the overheads of an engine's vintage: rows of an old version are judged against its own."""
    return replace(setup, costs=replace(setup.costs, **class_costs(engine_class)))


@lru_cache(maxsize=1024)
def _accepted(acceptance: str, n_draft: int, borrowed: bool, model_id: str, drafter_id: str) -> tuple[float, float]:
    """Accepted length, and its log standard deviation where it is borrowed. A sweep repeats few of them."""
    if n_draft == 0:
        return 1.0, 0.0
    got = parse_acceptance(acceptance, n_draft, borrowed=borrowed, model_id=model_id, drafter_id=drafter_id)
    spread = math.log(got.high[n_draft] / got.low[n_draft]) / 2.563 if borrowed else 0.0
    return float(got.accepted_length[n_draft]), spread


def time_columns(setup: Setup, curve: Curve) -> tuple[Array, Array]:
    """Seconds of a plain step and of a round by multiplier, [nB, len(NAMES) + 1] each, for a curve with one K."""
    k = int(curve.drafts[0])
    parts = {name: time[:, 0] for name, time in curve.round_components.items()}
    launch_s = laws.launches(setup.costs.launch_per_layer_s, draft_layers(setup, k))
    parts |= {"launch": parts["launch"] + launch_s, "draft": np.maximum(parts["draft"] - launch_s, 0.0)}
    return _grouped(curve.plain_components, len(curve.batches)), _grouped(parts, len(curve.batches))


def draft_layers(setup: Setup, n_draft: int) -> int:
    """Layers launched over all drafting passes of one round. [1]"""
    if setup.draft_architecture is None or n_draft == 0:
        return 0
    passes = 1 if setup.drafter.kind == "parallel" else n_draft
    return passes * sum(mixer.count for mixer in setup.draft_architecture.mixers)


def _grouped(parts: Mapping[str, Array], n: int) -> Array:
    out = np.zeros((n, len(NAMES) + 1))
    for one in COMPONENTS:
        if one.key in parts:
            out[:, TIME_NAMES.index(one.factor)] += parts[one.key]
    return out


def _observations(
    item: _Asked, plain: Array, whole: Array, length: float, borrowed: bool, prefill_s: float
) -> Iterable[Observation]:
    """What the row measures. A speedup that was computed from a baseline row already holds the row's own time."""
    row, share, one = item.row, float(borrowed), np.zeros(len(NAMES) + 1)
    one[_FIXED] = 1.0
    charged = plain.copy()
    charged[_FIXED] += prefill_s
    round_charged = whole.copy()
    round_charged[len(TIME_NAMES) if borrowed else _FIXED] += length * prefill_s
    speedup = _number(row, "speedup")
    if speedup and item.n_draft > 0:
        yield Observation(item.line, "speedup", speedup, charged, round_charged, math.log(length), share)
        if "speedup" in str(row.get("derived") or ""):
            return
    step, token = _number(row, "step_time_s"), _number(row, "tpot_s")
    if step and "step_time_s" not in str(row.get("derived") or ""):
        yield Observation(item.line, "step_time_s", step, whole if item.n_draft else plain, one, 0.0, 0.0)
    elif token:
        yield Observation(item.line, "tpot_s", token, round_charged, one, -math.log(length), -share)
    elif step:
        yield Observation(item.line, "step_time_s", step, whole if item.n_draft else plain, one, 0.0, 0.0)
    verify = _number(row, "verify_time_s")
    if verify:
        # A timed forward pass holds neither drafting nor the host's scheduling.
        yield Observation(item.line, "verify_time_s", verify, _only(whole, plain, "verify"), one, 0.0, 0.0)
    draft = _number(row, "draft_time_s")
    if draft and item.n_draft > 0 and whole[TIME_NAMES.index("drafter")] > 0:
        yield Observation(item.line, "draft_time_s", draft, _only(whole, plain, "draft"), one, 0.0, 0.0)


def _only(whole: Array, plain: Array, part: str) -> Array:
    """Columns of the verification pass, or of all draft passes, of a round."""
    out = whole.copy()
    launch = TIME_NAMES.index("launch")
    drafting = [TIME_NAMES.index("drafter"), TIME_NAMES.index("draft_host")]
    if part == "verify":
        out[[*drafting, TIME_NAMES.index("round_host"), TIME_NAMES.index("host")]] = 0.0
        out[launch] = plain[launch]
        return out
    kept = np.zeros_like(out)
    kept[drafting] = whole[drafting]
    kept[launch] = whole[launch] - plain[launch]
    return kept
