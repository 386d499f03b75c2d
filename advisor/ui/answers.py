"""The core's answers, cached: a user's own data stay in that user's session, all else serves
everybody."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice, advise
from advisor.answers.explore.cells import ContextMap, context_map
from advisor.answers.explore.changes import NextSteps, next_steps
from advisor.answers.explore.entrants import (
    By,
    ModelFilter,
    RankQuestion,
    one_load,
    question_of,
    users_of,
)
from advisor.answers.explore.leaderboard import Leaderboard, leaderboard
from advisor.catalog.hardware import model_name
from advisor.catalog.models import model_ids
from advisor.measured.published import published_ids
from advisor.measured.refit_result import Errors
from advisor.measured.store import Store
from advisor.measured.store_build import StoreStatus
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError, Frozen, Tier
from advisor.show.report.build import applicable_errors
from advisor.show.words.basis import refit_text
from advisor.ui.session import attempt, values

P = ParamSpec("P")
T = TypeVar("T")
Asked = Callable[Concatenate[Scenario, P], T]


def keys_of(*types: type[Frozen]) -> dict[str | type[Any], Callable[[Any], Any]]:
    """Functions by which a Streamlit cache names values of these types, unknown to it: by all their
    fields."""
    return {record_type: record_type.model_dump_json for record_type in types}


def remembered(
    cache: Callable[..., Any],
    *,
    shared: int,
    own: int,
    spinner: str | bool = False,
    keys: tuple[type[Frozen], ...] = (),
) -> Callable[[Asked[P, T]], Asked[P, T]]:
    """Decorate a function whose first argument is the scenario, so that equal questions are
    answered once.

    Parameters
    ----------
    cache : `st.cache_resource`, or `st.cache_data` where each caller needs a copy.
    shared : most entries that all sessions share; the oldest goes first.
    own : most entries of one session, for scenarios that are private, or a further argument that
        says so of itself.
    spinner : what the page says while the answer is computed.
    keys : types of further arguments beside texts and numbers.
    """

    def decorate(function: Asked[P, T]) -> Asked[P, T]:
        options = {"show_spinner": spinner, "hash_funcs": keys_of(Scenario, *keys)}
        for_all = cache(max_entries=shared, **options)(function)
        for_one = cache(max_entries=own, scope="session", **options)(function)

        @functools.wraps(function)
        def look_up(scenario: Scenario, /, *rest: P.args, **named: P.kwargs) -> T:
            is_private = any(
                getattr(argument, "is_private", False)
                for argument in (scenario, *rest, *named.values())
            )
            return (for_one if is_private else for_all)(scenario, *rest, **named)

        return look_up

    return decorate


_SHARED_ANSWERS = 64  # about a megabyte each
_OWN_ANSWERS = 8
_PAUSES = 10
_PAUSE_S = 0.025


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def advice_for(scenario: Scenario) -> Advice:
    """Advice on a scenario, remembered. Raises AdvisorError as `advise` does."""
    return advise(scenario)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def next_steps_for(scenario: Scenario) -> NextSteps:
    """Next steps of a scenario's answer, remembered. A newer change of the bar ends their
    evaluation."""
    let_the_browser_draw()
    return next_steps(advice_for(scenario), let_a_newer_run_start)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def context_map_for(scenario: Scenario) -> ContextMap:
    """The scenario over batch and context, remembered."""
    return context_map(scenario)


@remembered(st.cache_resource, shared=_SHARED_ANSWERS, own=_OWN_ANSWERS)
def refit_text_for(scenario: Scenario, n_draft: int) -> str:
    """Sentence on what the scenario's refit changes in the answer of shipped constants. Empty
    without one."""
    if scenario.refit is None:
        return ""
    return refit_text(
        advice_for(scenario), advice_for(scenario.model_copy(update={"refit": None})), n_draft
    )


def errors_for(scenario: Scenario) -> dict[str, Errors]:
    """Errors on published points near a scenario, nearest first. Empty where the shipped rows
    cannot be read."""
    return _errors(*published_ids(scenario), advice_for(scenario).recommendation.speedup.tier)


@st.cache_resource(show_spinner=False, max_entries=128)
def _errors(hardware_id: str | None, model_id: str | None, tier: Tier) -> dict[str, Errors]:
    return (
        attempt(applicable_errors, hardware_id, model_id, tier)[0] or {}
    )  # Trust says what is wrong with them


def let_the_browser_draw() -> None:
    """Leave the processor to what is being drawn or newly asked. Fragments do not:
    docs/decisions/history.md."""
    for _ in range(_PAUSES):
        time.sleep(_PAUSE_S)
        let_a_newer_run_start()


def let_a_newer_run_start() -> None:
    """Looking into the session is a point at which Streamlit stops a run that a newer one
    replaces."""
    "_pause" in st.session_state  # noqa: B015


@st.cache_resource(show_spinner=False, max_entries=2)
def _store(path: str, modified_ns: int) -> Store:  # noqa: ARG001  (a rebuilt file is opened anew)
    from advisor.measured.store import open_store

    return open_store(path)


@st.cache_data(show_spinner=False, max_entries=64)
def _published(hardware_id: str, model_id: str, gpus: int) -> pd.DataFrame:
    from advisor.show.explain.nearby import published_speedups

    return published_speedups(hardware_id, model_id, gpus)


@remembered(st.cache_data, shared=128, own=16, spinner="Looking for measured points ...")
def _near_kernels(
    scenario: Scenario, path: str, modified_ns: int, batch: float, n_draft: int
) -> pd.DataFrame:
    from advisor.show.explain.nearby import near_kernels

    return near_kernels(_store(path, modified_ns), advice_for(scenario).setup, batch, n_draft)


Nearby = tuple[pd.DataFrame | None, pd.DataFrame | None]
"""Kernel measurements and published speedups near a point; None without a usable store."""


def nearby_for(advice: Advice, batch: float, n_draft: int) -> Nearby:
    """Measured points nearest to a point of a scenario."""
    from advisor.measured.store import default_store_path
    from advisor.show.explain.nearby import nearest_speedups

    file = default_store_path()
    scenario = advice.scenario
    if not file.is_file():
        return None, None
    kernels, _ = attempt(
        _near_kernels, scenario, str(file), file.stat().st_mtime_ns, batch, n_draft
    )
    if kernels is None:
        return None, None  # Trust says what is wrong with the store
    points = published_for(scenario)
    return kernels, None if points is None else nearest_speedups(points, batch, n_draft)


def published_for(scenario: Scenario) -> pd.DataFrame | None:
    """Published speedups of the scenario's accelerator, model and GPUs, without trees. None for the
    user's own."""
    hardware_id, model_id = published_ids(scenario)
    if hardware_id is None or model_id is None:
        return None
    return _published(
        hardware_id, model_id, max(scenario.tensor_parallel, scenario.expert_parallel)
    )


def store_status() -> StoreStatus:
    """Contents of the store, looked at again when its file changes."""
    from advisor.measured.store import default_store_path

    file = default_store_path()
    return _status(str(file), file.stat().st_mtime_ns if file.is_file() else 0)


@st.cache_resource(show_spinner="Looking at the measured tables ...", max_entries=2, ttl=60)
def _status(path: str, modified_ns: int) -> StoreStatus:  # noqa: ARG001  (a rebuilt file is looked at anew)
    from advisor.measured.store_build import status

    return status(path)


_BILLION = 1e9
_KEPT = 32
_OWN = 8


class BoardAsked(Frozen):
    """Question to a leaderboard besides the scenario. None and empty: no such limit, or as the
    scenario says."""

    by: By = "cost"
    usd_per_hour: float | None = None
    users: int = 0
    """On the whole machine; 0: the scenario's."""
    names: str = ""
    """Pieces of models' names, comma-separated."""
    min_total_params: float | None = None
    max_total_params: float | None = None

    def question(self, scenario: Scenario) -> RankQuestion:
        """The question in the core's words. Raises AdvisorError for no model called so, an empty
        range, no users."""
        question = question_of(scenario, self.usd_per_hour)
        wanted = ModelFilter(
            ids_called(self.names),
            min_total_params=self.min_total_params,
            max_total_params=self.max_total_params,
        )
        # Where no price is known, the order by cost is that by throughput: money is in inverse
        # proportion to it.
        by = question.by if self.by == "cost" else self.by
        return dataclasses.replace(
            question,
            by=by,
            wanted=wanted,
            users=one_load(self.users) if self.users else question.users,
        )


def ids_called(text: str) -> tuple[str, ...]:
    """Shipped models with one of the comma-separated pieces in id or name. Raises AdvisorError
    where none has."""
    pieces = [piece.strip().lower() for piece in text.split(",") if piece.strip()]
    if not pieces:
        return ()
    ids = tuple(
        name
        for name in model_ids()
        if any(p in name or p in model_name(name).lower() for p in pieces)
    )
    if not ids:
        raise AdvisorError(
            f"No shipped model has {text.strip()[:60]!r} in its name; try qwen3 or gpt-oss."
        )
    return ids


def asked() -> BoardAsked:
    """Question of the page's settings."""
    now = values()
    sizes: dict[str, Any] = {}
    for end in ("min", "max"):
        size = now[f"rank_{end}_total"]
        sizes[f"{end}_total_params"] = None if size is None else size * _BILLION
    return BoardAsked(
        by=now["rank_by"], usd_per_hour=now["load_price"], names=now["rank_names"], **sizes
    )


def board_for(scenario: Scenario, wanted: BoardAsked) -> Leaderboard:
    """The leaderboard at a scenario's load, remembered. Raises AdvisorError as the ranking does.

    What is the scenario's own model's is left out of what is remembered, so that opening a model of
    the board asks nothing new; a config of the user's own takes part.
    """
    model_update = (
        {} if scenario.model_config_json is not None else {"model_id": FIELDS["model_id"].default}
    )
    of_all = {"tensor_parallel": 1, "expert_parallel": 1, "batch_size": 1, "routing": "auto"}
    shared = scenario.on_assumed_ranks().model_copy(
        update={**of_all, "drafter_id": "none", "acceptance": "0", **model_update}
    )
    return _ranked(shared, wanted.model_copy(update={"users": users_of(scenario)}))


@remembered(
    st.cache_resource,
    shared=_KEPT,
    own=_OWN,
    spinner="Ranking all models at this load ...",
    keys=(BoardAsked,),
)
def _ranked(scenario: Scenario, wanted: BoardAsked) -> Leaderboard:
    let_the_browser_draw()
    return leaderboard(wanted.question(scenario), lambda *_: let_a_newer_run_start())
