"""Experts on ranks on the page Report: offered under expert parallelism, counted on Data or drawn from the preset."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from advisor.ui.answers import remembered
from advisor.ui.report import files as report_files
from tests.app_page import go_to, opened
from tests.routing.test_trace import npy, synthetic
from tests.ui.test_remembered import SHIPPED, FakeCache
from tests.ui.test_uploads import TRACE, texts, upload

WIDE = {"acceptance": "2.4@3", "expert_parallel": "8", "n_gpus": "8", "k_max": "3"}
BEGIN = "## Experts on ranks"


def section(test: AppTest) -> str:
    """The section in the preview."""
    assert not test.exception
    return texts(test).split(BEGIN)[1].split("\n## ")[0]


def counted_on_data(copies: int) -> AppTest:
    """The page Data after its ranks were counted on a trace."""
    test = opened("data", TRACE, **WIDE)
    test = upload(test, "a.npy", npy(synthetic(12, 32, 2, n=128, k=8).astype("uint8")), key="trace_file")
    test.number_input(key="rank_copies_8").set_value(copies).run()
    test.button(key="count_ranks").click().run()
    assert not test.error
    return test


def test_it_is_offered_under_expert_parallelism_alone() -> None:
    asked = opened("report", **(WIDE | {"expert_parallel": "1", "report_ranks": "True"}))
    assert not [item for item in asked.toggle if item.key == "report_ranks"]
    assert BEGIN not in texts(asked)
    assert "Experts on ranks are" not in texts(asked)
    assert BEGIN not in texts(opened("report", **WIDE))


def test_without_counts_of_the_session_it_is_drawn_from_the_preset_and_says_so() -> None:
    test = opened("report", **WIDE)
    test.toggle(key="report_ranks").set_value(True).run()
    assert "Experts on ranks are drawn from the routing preset's spread" in texts(test)
    assert "Origin of the counts: preset." in section(test)
    assert test.query_params["report_ranks"] in ("True", ["True"])


def test_what_was_counted_on_data_is_taken_with_its_trace_and_copies() -> None:
    test = go_to(counted_on_data(16), "report").run()
    test.toggle(key="report_ranks").set_value(True).run()
    said = "as you counted them on Data: counted on 12 sequences, 2 layers of your trace; 0 and 16 copies"
    assert said in texts(test)
    part = section(test)
    assert "Origin of the counts: trace." in part
    assert "balanced, 16 copies" in part
    assert "takes the trace's routing" in part


def test_counts_of_another_scenario_are_not_taken() -> None:
    test = go_to(counted_on_data(8), "report").run()
    test.session_state["batch_size"] = 24
    test.toggle(key="report_ranks").set_value(True).run()
    assert test.session_state["_scenario"].batch_size == 24
    assert "Experts on ranks are drawn from the routing preset's spread" in texts(test)
    assert "Origin of the counts: preset." in section(test)


def test_counts_of_a_trace_that_was_forgotten_are_not_taken() -> None:
    test = counted_on_data(8)
    test.button(key="forget_trace").click().run()
    test = go_to(test, "report").run()
    test.toggle(key="report_ranks").set_value(True).run()
    assert "Origin of the counts: preset." in section(test)


@pytest.mark.parametrize(("ranks", "scope"), [(None, None), ("", None), ("hash/digest/8", "session")])
def test_a_file_with_what_a_session_counted_stays_in_it(ranks: str | None, scope: str | None) -> None:
    cache = FakeCache()

    @remembered(cache, shared=64, own=8, keys=(report_files.Extras,))
    def answer(scenario: object, extras: report_files.Extras) -> str:
        return f"{scenario} {extras.ranks}"

    answer(SHIPPED, report_files.Extras(ranks=ranks))
    assert [options.get("scope") for options in cache.calls] == [scope]


def a_download_on_a_thread_of_its_own() -> None:
    """A script: the file of a scenario on a model of one's own, made as Streamlit does after a click."""
    import datetime as dt
    from threading import Thread

    import streamlit as st

    from advisor.ui.report import files as report_files
    from tests.report_fixtures import own_model

    chosen = report_files.Chosen(report_files.Extras(), None, "", ())
    make = report_files.download(own_model("mine"), dt.date(2026, 11, 22), "csv", chosen)
    files: list[bytes] = []
    thread = Thread(target=lambda: files.append(make()))
    thread.start()
    thread.join()
    st.text(files[0].decode()[:13])


def test_a_download_on_a_user_s_own_model_is_made_outside_the_script_s_thread() -> None:
    test = AppTest.from_function(a_download_on_a_thread_of_its_own, default_timeout=60).run()
    assert not test.exception, [item.value for item in test.exception]
    assert test.text[0].value == "scenario_hash"


def test_ranks_that_cannot_be_are_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise report_files.AdvisorError("these ranks cannot be counted")

    monkeypatch.setattr(report_files, "ranks_answer", refuse)
    test = opened("report", **(WIDE | {"batch_size": "20", "report_ranks": "True"}))
    assert "these ranks cannot be counted" in test.error[0].value
    assert BEGIN not in texts(test)
    assert "## Answer" in texts(test)
