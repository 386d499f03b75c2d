"""The leaderboard at the scenario's load: what is asked of it besides the scenario, and the cached answer."""

from __future__ import annotations

import dataclasses

import streamlit as st

from advisor.catalog import model_ids, model_name
from advisor.prediction import AdvisorError, Frozen
from advisor.ranking import By, Leaderboard, RankQuestion, Wanted, leaderboard, load_from_text, question_of, users_of
from advisor.scenario import FIELDS, Scenario
from advisor.ui.shared import answers, settings
from advisor.ui.shared.remembered import remembered
from advisor.ui.shared.session import Slot

_BILLION = 1e9
_KEPT, _OWN = 32, 8
OFFERED: Slot[str] = Slot("_board_offered", str)
"""Users over time that were typed elsewhere on the page, as `BoardAsked.users` has them."""


class BoardAsked(Frozen):
    """Question to a leaderboard besides the scenario.

    None and empty: no such limit, or as the scenario says.
    """

    by: By = "cost"
    usd_per_hour: float | None = None
    users: str = ""
    """`64`, or users with their share of the time, `1:10,64:90`."""
    n_gpus: int | None = None
    whole_machine: bool = False
    expert_parallel: bool = False
    names: str = ""
    """Pieces of models' names, comma-separated."""
    min_total_params: float | None = None
    max_total_params: float | None = None
    min_active_params: float | None = None
    max_active_params: float | None = None
    listed: tuple[str, ...] | None = None
    """Only these models."""

    def question(self, scenario: Scenario) -> RankQuestion:
        """The question in the words of the core.

        Raises AdvisorError where no model is called so, for an empty range, and for users that are none.
        """
        asked = question_of(scenario, self.usd_per_hour)
        sizes = {name: getattr(self, name) for name in type(self).model_fields if name.endswith("_params")}
        listed = None if self.listed is None else frozenset(self.listed)
        return dataclasses.replace(
            asked,
            users=load_from_text(self.users) if self.users else asked.users,
            # Where no price is known, the order by cost is that by throughput: money is in inverse proportion to it.
            by=asked.by if self.by == "cost" else self.by,
            whole_machine=self.whole_machine,
            expert_parallel=self.expert_parallel,
            wanted=Wanted(ids_called(self.names), **sizes, listed=listed),
        )


def ids_called(text: str) -> tuple[str, ...]:
    """Shipped models whose id or name holds one of the comma-separated pieces.

    Empty for an empty text. Raises AdvisorError where no model is called so.
    """
    pieces = [piece.strip().lower() for piece in text.split(",") if piece.strip()]
    if not pieces:
        return ()
    found = tuple(name for name in model_ids() if any(p in name or p in model_name(name).lower() for p in pieces))
    if not found:
        raise AdvisorError(f"No shipped model has {text.strip()[:60]!r} in its name; try qwen3 or gpt-oss.")
    return found


def asked() -> BoardAsked:
    """Question of the page's settings, scores apart."""
    now = settings.values()
    sizes = {
        f"{end}_{what}_params": None if (size := now[f"rank_{end}_{what}"]) is None else size * _BILLION
        for end in ("min", "max")
        for what in ("total", "active")
    }
    return BoardAsked(
        by=now["rank_by"],
        usd_per_hour=now["load_price"],
        users=now["rank_users"].replace(" ", ""),
        n_gpus=now["rank_gpus"],
        whole_machine=now["rank_whole"],
        expert_parallel=now["rank_ep"],
        names=now["rank_names"],
        **sizes,
    )


def board_for(scenario: Scenario, wanted: BoardAsked) -> Leaderboard:
    """The leaderboard at a scenario's load, remembered. Raises AdvisorError as the ranking does.

    What is the scenario's own model's is left out of what is remembered, so that opening a model of the board asks
    nothing new; a config of the user's own takes part.
    """
    own = {} if scenario.model_config_json is not None else {"model_id": FIELDS["model_id"].default}
    n_gpus = wanted.n_gpus or scenario.n_gpus
    of_all = {"n_gpus": n_gpus, "tensor_parallel": 1, "expert_parallel": 1, "batch_size": 1, "routing": "auto"}
    shared = scenario.on_assumed_ranks().model_copy(update={**of_all, "drafter_id": "none", "acceptance": "0", **own})
    users = wanted.users or str(users_of(scenario))
    return _ranked(shared, wanted.model_copy(update={"users": users, "n_gpus": n_gpus}))


@remembered(
    st.cache_resource, shared=_KEPT, own=_OWN, spinner="Ranking all models at this load ...", keys=(BoardAsked,)
)
def _ranked(scenario: Scenario, wanted: BoardAsked) -> Leaderboard:
    answers.let_the_browser_draw()
    return leaderboard(wanted.question(scenario), lambda *_: answers.let_a_newer_run_start())
