"""How was this made, as a user meets it on the pages."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.predict.scenario import Scenario
from advisor.show.explain.round import derive
from advisor.show.explain.steps import value_text
from advisor.ui.serve import panels as live_page
from advisor.ui.widgets import SECTIONS
from tests.pages.app_page import texts
from tests.pages.test_app import app

SCENARIO = Scenario(acceptance="2.4@3")


def asked(batch: float, k: int, section: str = SECTIONS[0]) -> AppTest:
    """The first page with the dialog open on a question: AppTest cannot rerun a dialog alone, as
    its widgets do."""
    test = app(acceptance="2.4@3")
    test.session_state["_how_made"] = (batch, k, section)
    test.run()
    assert not test.exception
    return test


def formulas(test: AppTest) -> str:
    return "\n".join(item.value for item in test.latex)


def test_the_dialog_shows_the_formula_with_this_scenario_s_numbers() -> None:
    advice = advise(SCENARIO)
    test = asked(16, advice.recommendation.n_draft)
    made = derive(advice.setup, 16, advice.recommendation.n_draft)
    plain_ms = value_text(made.step("plain.total").result).removesuffix(" ms")
    assert plain_ms in formulas(test)
    assert r"T_{\text{round}}" in formulas(test)


SHOWN = dict(
    zip(
        SECTIONS,
        (
            "Time per output token",
            "Distinct experts touched",
            "Verification of 4 tokens per sequence",
            "Kernels of one drafting pass",
            "each kind of uncertainty would give alone",
            "No measured tables here",
            "2.4 tokens a round at K = 3",
        ),
        strict=False,
    )
)


@pytest.mark.parametrize("section", SHOWN)
def test_a_section_of_the_dialog_says_what_its_name_promises(section: str) -> None:
    assert SHOWN[section] in texts(asked(16, 3, section))


def test_the_constants_have_value_tier_and_source() -> None:
    test = asked(16, 3, "Constants")
    table = next(table.value for table in test.dataframe if "Standard error" in table.value)
    assert (table["Source"] != "").all()
    assert set(table["Tier"]) >= {"fitted", "assumed"}


def test_another_batch_and_k_are_another_derivation() -> None:
    made = derive(advise(SCENARIO).setup, 64, 2)
    assert f"Predicted speedup {made.step('speedup').result.value:.2f}×" in texts(asked(64, 2))


def test_the_browser_s_question_opens_the_point_it_names_and_not_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now: dict[str, object] = {"live_answer": {"how": {"batch": 64, "k": 2}}, "how_batch_size": 1}
    monkeypatch.setattr(live_page.st, "session_state", now)
    live_page._asked()
    assert now["_how_made"] == (64.0, 2, SECTIONS[0])
