"""The tab Several targets of the page Design: one design for typed targets, the map, and what it costs the page."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.design.regions import one_design, parse_targets, region_map
from advisor.show.words.design import one_design_verdict, region_verdict
from advisor.ui.design import pick
from advisor.ui.design.tables import baseline_footing
from tests.app_page import opened
from tests.ui.test_app import link, texts
from tests.ui.test_design import ANSWER, SCENARIO

BOTH = "h100-sxm:8, b200-sxm:128"


def page(tab: str = "Several targets", **query: str) -> AppTest:
    return opened("design", tab, **(link(SCENARIO) | query))


def shown(test: AppTest) -> str:
    """All text of the page, without the marks that escape it."""
    return texts(test).replace("\\", "").replace("–", "-")


def test_targets_in_a_link_are_answered_with_the_words_of_the_command() -> None:
    test = page(design_targets=BOTH)
    expected = one_design(SCENARIO, parse_targets(BOTH.split(",")), objective="tpot")
    assert expected.best is not None
    assert one_design_verdict(expected).split(".")[0] in shown(test)
    frame = next(item.value for item in test.dataframe if "Gives up" in item.value.columns)
    assert frame["Target"].tolist() == ["h100-sxm:8", "b200-sxm:128"]
    assert [item.key for item in test.get("download_button") if item.key == "design_one_csv"]


def test_the_map_is_drawn_with_its_verdict_and_its_table() -> None:
    test = page()
    assert region_verdict(region_map(SCENARIO, objective="tpot")) in shown(test)
    frame = next(item.value for item in test.dataframe if "Region" in item.value.columns)
    assert frame["Region"].iloc[0] == "A"
    assert any(item.key == "design_regions" for item in test.get("plotly_chart"))
    test.multiselect(key="design_places").set_value([]).run()
    assert "Choose at least one accelerator" in shown(test)


def test_a_limit_that_no_design_keeps_is_told_for_the_targets_and_the_map() -> None:
    test = page(design_targets=BOTH, design_tpot="0.1")
    assert not test.exception
    assert "No design serves batch 8 on NVIDIA H100" in shown(test)
    assert "No design keeps every limit in any cell of the map." in shown(test)
    assert not any(item.key == "design_regions" for item in test.get("plotly_chart"))


def test_a_wrong_target_is_one_message_and_the_map_stays() -> None:
    test = page(design_targets="h100:8")
    assert [item.value for item in test.error if "is unknown" in item.value]
    assert any(item.key == "design_regions" for item in test.get("plotly_chart"))


def test_the_first_screen_computes_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("drawn before it is asked for")

    monkeypatch.setattr(pick, "region_map", refuse)
    monkeypatch.setattr(pick, "one_design", refuse)
    assert not page("").exception


def test_the_baseline_s_figure_says_that_it_is_by_the_fit_where_serve_has_measured_kernels() -> None:
    space = ANSWER.space
    assert space.measured_tpot_s is not None
    said = baseline_footing(ANSWER)
    assert f"{space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0]) * 1e3:.2f} ms is by the fitted" in said
    assert f"as on Serve, it is {space.measured_tpot_s * 1e3:.2f} ms" in said
    assert said in shown(page(""))
