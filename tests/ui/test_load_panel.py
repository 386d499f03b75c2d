"""The panel of the load under AppTest: cost and energy, and the map over context."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def panel() -> None:
    from advisor.answers.advice import advise
    from advisor.predict.scenario import build_scenario
    from advisor.ui.serve.why import draw_load_panel

    draw_load_panel(
        advise(build_scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3", max_tpot_ms=20.0))
    )


@pytest.fixture
def opened() -> AppTest:
    test = AppTest.from_function(panel, default_timeout=60).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def said(test: AppTest) -> str:
    return " ".join(item.value for item in (*test.markdown, *test.caption))


def test_cost_energy_and_context_are_told_at_once(opened: AppTest) -> None:
    text = said(opened)
    assert "USD per million output tokens" in text
    assert "J per output token" in text
    assert "tokens of context and batch 16" in text
    assert len(opened.get("plotly_chart")) == 1


def test_a_price_of_one_s_own_is_used(opened: AppTest) -> None:
    opened.number_input(key="load_price").set_value(2.0).run()
    assert "at 2 USD per GPU-hour (as given)" in said(opened)
