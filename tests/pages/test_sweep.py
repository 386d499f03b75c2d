"""The tab Sweep of Serve: the plan of the bar, a finished sweep opened, what it answers, a row
opened in the bar."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
import yaml
from streamlit.testing.v1 import AppTest

from advisor.answers.explore.cells import sweep_rows
from advisor.answers.explore.grid import made_by, read_plan
from advisor.answers.explore.questions import fastest_within, where_drafting_pays
from advisor.answers.explore.sweep_files import parquet_bytes, sweep_from
from advisor.predict.scenario import write_loads
from advisor.ui.serve import sweep as sweep_page
from tests.answers.made_up_sweep import MAKER, grid, parquet
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import go_to, opened, press, texts

BAR = {"hardware_id": "h200-sxm", "model_id": "qwen3-30b-a3b", "acceptance": "2.4@3", "k_max": "3"}


def panel(**query: str) -> AppTest:
    return opened("serve", "Sweep", **(BAR | query))


def with_files(test: AppTest, *files: tuple[str, bytes]) -> AppTest:
    test.file_uploader(key="sweep_files").set_value(
        [(name, data, "") for name, data in files]
    ).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def table(test: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in test.dataframe if column in one.value)


def plan_on_screen(test: AppTest) -> str:
    return next(str(item.value) for item in test.code if "batch_size:" in item.value)


def made(**plan: Any) -> bytes:
    """A small sweep, computed as the command does."""
    text = yaml.safe_dump({"model_id": "qwen3-30b-a3b", "acceptance": "2.4@3", "k_max": 3} | plan)
    every = read_plan(text)
    curves = [one for index in range(every.n_parts) for one in every.part(index)]
    found = sweep_from(sweep_rows(curves, every.batches), made_by())
    return parquet_bytes(found.frame, found.maker)


SMALL: dict[str, Any] = {"hardware_id": ["h100-sxm", "b200-sxm"], "batch_size": [1, 4, 16]}


def swept(**plan: Any) -> AppTest:
    return with_files(panel(), ("mine.parquet", made(**(SMALL | plan))))


def test_the_bar_s_scenario_is_a_plan_to_add_values_to_with_its_command() -> None:
    loads = write_loads(np.random.default_rng(0).integers(1, 50, (2, 128)).astype(float))
    test = panel(context_tokens="8192", engine="sglang", batch_size="32", expert_loads=loads)
    plan = read_plan(plan_on_screen(test))
    assert (plan.n_curves, plan.batches) == (1, (1, 4, 16, 32, 64, 256))
    assert (plan.axes["engine"], plan.axes["k_max"], plan.axes["context_tokens"]) == (
        ("sglang",),
        (3,),
        (8192,),
    )
    assert "expert_loads" not in plan.axes
    commands = [item.value for item in test.code if item.value.startswith("python -m")]
    assert commands == ["python -m advisor explore --plan sweep.yaml --output sweep --workers 2"]
    assert "sweep.yaml" in {item.proto.label for item in test.get("download_button")}


def test_a_model_of_one_s_own_stands_in_the_plan_by_its_file() -> None:
    test = panel()
    test.file_uploader(key="config_file").upload(
        "tiny.json", CONFIG_JSON.encode(), "application/json"
    ).run()
    assert "model_id: own-tiny.json" in plan_on_screen(test)


def test_the_answers_are_those_of_the_rows_that_are_kept() -> None:
    test = swept()
    frame = test.session_state["_sweep"].sweep.frame
    assert "From mine.parquet: 6 scenarios" in texts(test)
    pays = where_drafting_pays(frame)
    assert list(table(test, "Pays up to batch")["Pays up to batch"]) == [
        int(one) for one in pays["pays_up_to"]
    ]
    assert (table(test, "Pays up to batch")["Tier"] == pays["tier"]).all()
    assert "for all loses" in texts(test)
    assert [chart.key for chart in test.get("plotly_chart")] == ["sweep_map"]
    quickest = fastest_within(frame, 6.0)
    test.number_input(key=f"sweep_limit_{test.session_state['_sweep'].digest}").set_value(6.0).run()
    shown = next(
        one.value
        for one in test.dataframe
        if {"Batch", "ms per token"} <= set(one.value) and len(one.value) == 1
    )
    assert list(shown["Batch"]) == list(quickest["batch_size"])
    assert "within 6 ms per token" in texts(test)


def test_a_finished_sweep_is_opened_from_several_files_and_asked() -> None:
    test = with_files(
        panel(),
        ("a.parquet", parquet(grid().head(12), MAKER)),
        ("b.parquet", parquet(grid().tail(12), MAKER)),
    )
    assert (
        "From 2 files: 8 scenarios, 2 of them do not fit in memory; computed by release 1.2.3"
        in texts(test)
    )
    assert "Drafting has a chance of a gain of at least 80% for 3 of 4 pairs" in texts(test)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\xff\x00", "mine.parquet is no readable Parquet file"),
        (parquet(grid().drop(columns="p_gain")), "mine.parquet is no sweep of this advisor"),
        (
            parquet(grid().assign(p_gain=7.0)),
            "mine.parquet, row 1, p_gain: expected a share, 0 to 1, got 7.0",
        ),
    ],
)
def test_a_file_that_is_no_sweep_is_refused_in_words_and_nothing_is_lost(
    data: bytes, words: str
) -> None:
    test = swept()
    before = test.session_state["_sweep"]
    with_files(test, ("mine.parquet", data))
    assert words in test.error[0].value.replace("\\", "")
    assert "The sweep below is the one from before." in texts(test)
    assert test.session_state["_sweep"] is before


def test_a_sweep_too_large_for_the_page_is_sent_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_page, "MAX_ROWS", 20)
    test = with_files(panel(), ("large.parquet", parquet(grid(), MAKER)))
    assert "there are 24 rows; at most 20 are read here: query larger sweeps with DuckDB" in texts(
        test
    )


def test_a_row_is_opened_as_the_scenario_in_the_bar() -> None:
    test = swept(tensor_parallel=[1, 2], n_gpus=2)
    kept = test.session_state["_sweep"]
    row = fastest_within(kept.sweep.frame, None).iloc[0]
    test.session_state[f"sweep_fastest_{kept.digest}"] = {
        "selection": {"rows": [0], "columns": [], "cells": []}
    }
    test.run()
    press(test, f"sweep_fastest_{kept.digest}_open")
    scenario = test.session_state["_scenario"]
    found = (scenario.hardware_id, scenario.batch_size, scenario.tensor_parallel, scenario.n_gpus)
    whole = kept.sweep.frame.loc[row["row"]]
    assert found == (
        row["hardware_id"],
        row["batch_size"],
        whole["tensor_parallel"],
        whole["n_gpus"],
    )
    assert (scenario.model_id, scenario.acceptance, scenario.k_max) == ("qwen3-30b-a3b", "2.4@3", 3)
    assert test.session_state["_sweep"] is kept


def test_the_map_takes_other_axes_and_fixes_the_rest() -> None:
    test = swept(context_tokens=[1024, 8192])
    digest = test.session_state["_sweep"].digest
    assert "by Batch and Accelerator, at Context 1,024." in texts(test)
    test.selectbox(key=f"sweep_y_{digest}").set_value("context_tokens").run()
    assert "by Batch and Context, at Accelerator h100-sxm." in texts(test)
    test.selectbox(key=f"sweep_at_hardware_id_{digest}").set_value("b200-sxm").run()
    assert "by Batch and Context, at Accelerator b200-sxm." in texts(test)
    test.selectbox(key=f"sweep_x_{digest}").set_value("context_tokens").run()
    assert not test.exception
    assert "by Context and" in texts(test)


@pytest.mark.parametrize("own", ["sweep", "model"])
def test_reports_on_what_is_one_s_own_are_written_in_a_thread_without_the_session(
    monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """Streamlit makes a file in a thread of its own when its button is pressed."""
    test = with_files(panel(), ("a.parquet", parquet(grid(), MAKER)))
    if own == "model":
        test.file_uploader(key="config_file").upload(
            "tiny.json", CONFIG_JSON.encode(), "application/json"
        ).run()
    given: dict[str, Callable[[], bytes]] = {}
    original = st.download_button

    def record(label: str, data: Any, *rest: Any, **asked: Any) -> Any:
        given[asked["key"]] = data
        return original(label, data, *rest, **asked)

    monkeypatch.setattr(st, "download_button", record)
    test.session_state["report_sweep"] = own == "sweep"
    go_to(test, "share").run()
    assert not test.exception
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(given["report_md"]).result().decode()
    assert ("## A sweep of scenarios" in found) == (own == "sweep")
    assert ("own-tiny" in found) == (own == "model")


def test_the_report_holds_the_sweep_as_it_is_shown_when_asked() -> None:
    test = with_files(panel(), ("a.parquet", parquet(grid(), MAKER)))
    digest = test.session_state["_sweep"].digest
    test.number_input(key=f"sweep_limit_{digest}").set_value(1.8).run()
    go_to(test, "share").run()
    assert "A sweep of scenarios" not in texts(test)
    test.toggle(key="report_sweep").set_value(True).run()
    assert not test.exception
    part = texts(test).split("## A sweep of scenarios")[1].split("\n## ")[0]
    assert "computed by release 1.2.3" in part
    assert "within 1.8 ms per token" in part
    assert not [
        item
        for item in opened("share", **BAR, report_sweep="True").toggle
        if item.key == "report_sweep"
    ]
