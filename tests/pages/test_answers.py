"""The one cache of answers on a scenario: whose an entry is, how many are kept, what counts as the
same question."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from advisor.predict.scenario import Scenario
from advisor.ui.answers import keys_of, remembered
from advisor.ui.design.question import DesignQuestion
from tests.catalog.test_hardware import POD
from tests.own_model import CONFIG_JSON

UI = Path(__file__).resolve().parents[2] / "advisor" / "ui"
SHIPPED = Scenario(acceptance="2.4@3")
OWN = {
    "model": SHIPPED.model_copy(update={"model_config_json": CONFIG_JSON}),
    "accelerator": SHIPPED.model_copy(
        update={"hardware_id": "own-pod-of-2027", "hardware_json": json.dumps(POD)}
    ),
    "refit": SHIPPED.model_copy(
        update={"refit": "on=h200-sxm/vllm/vllm;n=5;data=0123456789ab;routed=1.1/0.05"}
    ),
}


class FakeCache:
    """Stands for `st.cache_resource`: notes with which options each call was made."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, **options: Any) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            def noted(*arguments: Any, **named: Any) -> Any:
                self.calls.append(options)
                return function(*arguments, **named)

            return noted

        return decorate


@pytest.mark.parametrize("scenario", [SHIPPED, *OWN.values()], ids=["shipped", *OWN])
def test_an_answer_on_a_users_own_stays_in_the_session_and_every_other_is_shared(
    scenario: Scenario,
) -> None:
    cache = FakeCache()

    @remembered(cache, shared=64, own=8, spinner="Wait")
    def answer(scenario: Scenario, batch: int, *, n_draft: int) -> str:
        return f"{scenario.model_id} {batch} {n_draft}"

    assert answer(scenario, 16, n_draft=3) == f"{scenario.model_id} 16 3"
    (options,) = cache.calls
    assert (options.get("scope"), options["max_entries"]) == (
        ("session", 8) if scenario.is_private else (None, 64)
    )
    assert options["show_spinner"] == "Wait"


def test_equal_questions_are_answered_once_and_others_anew() -> None:
    asked = []

    @remembered(st.cache_resource, shared=4, own=2, keys=(DesignQuestion,))
    def answer(scenario: Scenario, question: DesignQuestion) -> int:
        asked.append((scenario, question))
        return len(asked)

    question = DesignQuestion(batches="16")
    assert answer(SHIPPED, question) == answer(SHIPPED.model_copy(), question.model_copy()) == 1
    assert answer(SHIPPED.model_copy(update={"batch_size": 17}), question) == 2
    assert answer(SHIPPED, DesignQuestion(batches="17")) == 3


def test_a_key_tells_every_field_apart() -> None:
    (name,) = keys_of(Scenario).values()
    seen = {name(scenario) for scenario in (SHIPPED, *OWN.values())}
    assert len(seen) == 1 + len(OWN)


def on_scenarios(source: str) -> list[tuple[str, bool]]:
    """(function, whether its entries are the session's) of each Streamlit cache on what a user
    asked, in a source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and "Scenario" in ast.unparse(node.args):
            for used in node.decorator_list:
                text = ast.unparse(used)
                if text.startswith("st.cache_"):
                    found.append((node.name, "scope='session'" in text))
    return found


def test_a_cache_on_a_scenario_that_everybody_shares_is_seen_and_no_page_has_one() -> None:
    planted = "@st.cache_data(max_entries=4)\ndef answer(scenario: Scenario) -> bytes: ..."
    assert on_scenarios(planted) == [("answer", False)]
    # The one that chooses is used, or the session's alone.
    used = 0
    for path in UI.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        used += source.count("@remembered(")
        assert not [name for name, of_session in on_scenarios(source) if not of_session], path.name
    assert used >= 4
