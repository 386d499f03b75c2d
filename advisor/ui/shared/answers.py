"""The core's answers, cached: one call per question. `remembered` keeps those on a user's own data in the session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from advisor.advice import Advice, advise
from advisor.context_map import ContextMap, context_map
from advisor.next_steps import NextSteps, next_steps
from advisor.points import Errors
from advisor.prediction import AdvisorError, Tier
from advisor.prefill import prefill_per_token_s
from advisor.routing import expected_experts
from advisor.scenario import Scenario
from advisor.setup import Setup, touched_in_pass
from advisor.summary import Flip, accepted_length_flips, refit_text
from advisor.ui.shared.remembered import remembered

if TYPE_CHECKING:
    from advisor.store import Store, StoreStatus

_SHARED_ANSWERS, _OWN_ANSWERS = 64, 8  # about a megabyte each
_PAUSES, _PAUSE_S = 10, 0.025


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def advice_for(scenario: Scenario) -> Advice:
    """Advice on a scenario, remembered. Raises AdvisorError as `advise` does."""
    return advise(scenario)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def next_steps_for(scenario: Scenario) -> NextSteps:
    """Next steps of a scenario's answer, remembered.

    A newer change of the bar ends their evaluation.
    """
    let_the_browser_draw()
    return next_steps(advice_for(scenario), let_a_newer_run_start)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def context_map_for(scenario: Scenario) -> ContextMap:
    """The scenario over batch and context, remembered."""
    return context_map(scenario)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def flips_for(scenario: Scenario) -> tuple[Flip, ...]:
    """The accepted lengths at which another K is recommended, remembered."""
    return accepted_length_flips(advice_for(scenario))


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def refit_text_for(scenario: Scenario) -> str:
    """Sentence on what the scenario's refit did to its answer, empty without one.

    The answer is held against the shipped constants.
    """
    if scenario.refit is None:
        return ""
    return refit_text(advice_for(scenario), advice_for(scenario.model_copy(update={"refit": None})))


def errors_for(scenario: Scenario) -> dict[str, Errors]:
    """Errors on published points near a scenario, nearest first.

    Empty where the shipped rows cannot be read.
    """
    from advisor.report import published_ids

    return _errors(*published_ids(scenario), advice_for(scenario).recommendation.speedup.tier)


@st.cache_resource(show_spinner=False, max_entries=128)
def _errors(hardware_id: str | None, model_id: str | None, tier: Tier) -> dict[str, Errors]:
    from advisor.report import applicable_errors

    try:
        return applicable_errors(hardware_id, model_id, tier)
    except AdvisorError:
        return {}  # the page Trust says what is wrong with them


def let_the_browser_draw() -> None:
    """Leave the processor to what is on its way to the screen, and to a newer change.

    Why no fragment does this: docs/decisions/fragments.md.
    """
    for _ in range(_PAUSES):
        time.sleep(_PAUSE_S)
        let_a_newer_run_start()


def let_a_newer_run_start() -> None:
    """Looking into the session is a point at which Streamlit stops a run that a newer one replaces."""
    "_pause" in st.session_state  # noqa: B015


@dataclass(frozen=True)
class ExpertSeries:
    """Distinct experts of one layer over the batches of a curve, in arrays [nB]. [-]

    A sequence has K + 1 tokens.
    """

    tokens: NDArray[np.float64]
    routed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    uniform: NDArray[np.float64]
    n_experts: int
    n_active: int


def expert_series(advice: Advice, n_draft: int) -> ExpertSeries | None:
    """Experts touched by verification steps of the advice's curve, or None for a dense model."""
    moe = advice.setup.architecture.moe
    if moe is None:
        return None
    batches, per_sequence = advice.curve.batches, float(n_draft + 1)
    tokens = batches * per_sequence
    routed, low, high = (touched_in_pass(advice.setup, batches, per_sequence, end) for end in ("value", "low", "high"))
    uniform = np.asarray(expected_experts(tokens, float(moe.n_experts), float(moe.n_active)))
    return ExpertSeries(tokens, routed, low, high, uniform, moe.n_experts, moe.n_active)


@dataclass(frozen=True)
class RoundFigures:
    """The numbers behind one speedup, at the target batch. Times in seconds."""

    n_draft: int
    batch_size: int
    accepted_length: float
    plain_step_s: float
    verify_step_s: float
    round_s: float
    prefill_per_token_s: float
    speedup: float
    verify_ratio: float
    plain_components: dict[str, float]
    round_components: dict[str, float]


def round_figures(advice: Advice, n_draft: int) -> RoundFigures:
    """One column of the curve at the target batch."""
    curve, row = advice.curve, advice.batch_index
    column = curve.column(n_draft)
    plain, whole = curve.components_at(row, column)
    return RoundFigures(
        n_draft=n_draft,
        batch_size=advice.scenario.batch_size,
        accepted_length=float(curve.accepted_length[column]),
        plain_step_s=float(curve.plain_step_s[row]),
        verify_step_s=float(curve.verify_step_s[row, column]),
        round_s=float(curve.round_s[row, column]),
        prefill_per_token_s=float(prefill_per_token_s(advice.setup, curve.batches)[row]),
        speedup=float(curve.speedup[row, column]),
        verify_ratio=float(curve.verify_ratio[row, column]),
        plain_components=plain,
        round_components=whole,
    )


@st.cache_resource(show_spinner=False, max_entries=2)
def _store(path: str, modified_ns: int) -> Store:  # noqa: ARG001  (a rebuilt file is opened anew)
    from advisor.store import open_store

    return open_store(path)


@st.cache_data(show_spinner=False, max_entries=64)
def _published(path: str, modified_ns: int, hardware_id: str, model_id: str, gpus: int) -> pd.DataFrame:
    from advisor.explain import published_speedups

    return published_speedups(_store(path, modified_ns), hardware_id, model_id, gpus)


@remembered(st.cache_data, shared=128, own=16, spinner="Looking for measured points ...")
def _near_kernels(scenario: Scenario, path: str, modified_ns: int, batch: float, n_draft: int) -> pd.DataFrame:
    from advisor.explain import near_kernels

    return near_kernels(_store(path, modified_ns), advice_for(scenario).setup, batch, n_draft)


Nearby = tuple[pd.DataFrame | None, pd.DataFrame | None]
"""Kernel measurements and published speedups near a point; None without a usable store."""


def nearby_design(setup: Setup, batch: float, n_draft: int) -> Nearby:
    """Kernel measurements near a point of a design, of which nobody has published a speedup.

    Not remembered.
    """
    from advisor.explain import near_kernels
    from advisor.store import default_store_path

    file = default_store_path()
    try:
        return near_kernels(_store(str(file), file.stat().st_mtime_ns), setup, batch, n_draft), None
    except (AdvisorError, FileNotFoundError):
        return None, None  # the page Data says what is wrong with the store


def nearby_for(advice: Advice, batch: float, n_draft: int) -> Nearby:
    """Measured points nearest to a point of a scenario."""
    from advisor.explain import nearest_speedups
    from advisor.store import default_store_path

    file, scenario = default_store_path(), advice.scenario
    if not file.is_file():
        return None, None
    try:
        kernels = _near_kernels(scenario, str(file), file.stat().st_mtime_ns, batch, n_draft)
    except AdvisorError:
        return None, None  # the page Data says what is wrong with the store
    points = published_for(scenario)
    return kernels, None if points is None else nearest_speedups(points, batch, n_draft)


def published_for(scenario: Scenario) -> pd.DataFrame | None:
    """Published speedups of the scenario's accelerator, model and number of GPUs, without draft trees.

    None where there is no store, or the model or the accelerator is the user's own.
    """
    from advisor.report import published_ids
    from advisor.store import default_store_path

    file = default_store_path()
    hardware_id, model_id = published_ids(scenario)
    if hardware_id is None or model_id is None or not file.is_file():
        return None
    try:
        return _published(
            str(file),
            file.stat().st_mtime_ns,
            hardware_id,
            model_id,
            max(scenario.tensor_parallel, scenario.expert_parallel),
        )
    except AdvisorError:
        return None  # the page Data says what is wrong with the store


def store_status() -> StoreStatus:
    """Contents of the store, looked at again when its file changes."""
    from advisor.store import default_store_path

    file = default_store_path()
    return _status(str(file), file.stat().st_mtime_ns if file.is_file() else 0)


@st.cache_resource(show_spinner="Looking at the measured tables ...", max_entries=2, ttl=60)
def _status(path: str, modified_ns: int) -> StoreStatus:  # noqa: ARG001  (a rebuilt file is looked at anew)
    from advisor.store import status

    return status(path)
