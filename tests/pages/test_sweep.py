"""The tab Sweep of Data: a grid from the bar, a finished sweep opened, what it answers, a row opened in the bar."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from advisor.answers.explore.grid import read_plan
from advisor.answers.explore.questions import fastest_within, where_drafting_pays
from advisor.answers.explore.sweep_files import parquet_bytes, read_sweep
from advisor.predict.scenario import write_loads
from advisor.text import frame_csv
from advisor.ui.lab import sweep as sweep_page
from advisor.ui.lab.sweep import MAX_COMBINATIONS, MAX_EXPECTED_S
from tests.answers.made_up_sweep import MAKER, grid, parquet
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import go_to, opened

BAR = {"hardware_id": "h200-sxm", "model_id": "qwen3-30b-a3b", "acceptance": "2.4@3", "k_max": "3"}


def panel(**query: str) -> AppTest:
    return opened("lab", "Sweep", **(BAR | query))


def said(test: AppTest) -> str:
    kinds = (test.title, test.subheader, test.markdown, test.caption, test.error, test.warning)
    return "\n".join(item.value for kind in kinds for item in kind).replace("\\", "")


def computed(test: AppTest) -> AppTest:
    test.button(key="sweep_compute").click().run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def with_files(test: AppTest, *files: tuple[str, bytes]) -> AppTest:
    if test.session_state["sweep_source"] != "Open a finished sweep":
        test.get("button_group")[-1].set_value("Open a finished sweep").run()
    test.file_uploader(key="sweep_files").set_value([(name, data, "") for name, data in files]).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def table(test: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in test.dataframe if column in one.value)


def plan_on_screen(test: AppTest) -> str:
    return next(str(item.value) for item in test.code if item.language == "yaml")


def test_the_grid_starts_from_the_bar_and_says_how_much_it_is_before_it_runs() -> None:
    test = panel(context_tokens="8192", engine="sglang")
    assert test.multiselect(key="sweep_of_hardware_id").value == ["h200-sxm"]
    assert test.text_input(key="sweep_of_context_tokens").value == "8192"
    assert "1 combination at 5 batches" in said(test)
    test.multiselect(key="sweep_of_hardware_id").set_value(["h100-sxm", "b200-sxm"]).run()
    test.text_input(key="sweep_of_context_tokens").set_value("1024, 8192").run()
    assert "4 combinations at 5 batches" in said(test)
    assert "Where drafting pays" not in said(test), "nothing is computed unasked"
    plan = read_plan(plan_on_screen(test))
    assert plan.axes["hardware_id"] == ("h100-sxm", "b200-sxm")
    assert (plan.axes["engine"], plan.axes["k_max"]) == (("sglang",), (3,))
    assert (plan.n_curves, plan.batches) == (4, (1, 4, 16, 64, 256))


def test_what_nobody_changed_follows_the_bar_and_what_somebody_changed_stays() -> None:
    test = panel()
    test.multiselect(key="sweep_of_hardware_id").set_value(["h100-sxm", "b200-sxm"]).run()
    test.selectbox(key="model_id").set_value("gpt-oss-20b").run()
    test.selectbox(key="hardware_id").set_value("b300-sxm").run()
    assert test.multiselect(key="sweep_of_model_id").value == ["gpt-oss-20b"]
    assert test.multiselect(key="sweep_of_hardware_id").value == ["h100-sxm", "b200-sxm"]


def test_the_answers_are_those_of_the_rows_that_are_kept() -> None:
    test = panel()
    test.multiselect(key="sweep_of_hardware_id").set_value(["h100-sxm", "b200-sxm"]).run()
    computed(test)
    frame = test.session_state["_sweep"].sweep.frame
    assert len(frame) == 2 * 5 * 4
    assert "Computed here: 10 scenarios" in said(test)
    pays = where_drafting_pays(frame)
    assert list(table(test, "Pays up to batch")["Pays up to batch"]) == list(pays["pays_up_to"])
    assert (table(test, "Pays up to batch")["Tier"] == pays["tier"]).all()
    assert all("–" in cell for cell in table(test, "Best ms/token")["ms/token, likely"])
    assert "for all loses" in said(test)
    assert [chart.key for chart in test.get("plotly_chart")] == ["sweep_map"]
    quickest = fastest_within(frame, 2.0)
    test.number_input(key=f"sweep_limit_{test.session_state['_sweep'].digest}").set_value(2.0).run()
    shown = table(test, "Best ms/token")
    assert [None if pd.isna(one) else int(one) for one in shown["Batch"]] == [
        None if pd.isna(one) else int(one) for one in quickest["batch_size"]
    ]
    assert "within 2 ms per token" in said(test)


def test_any_sweepable_setting_can_take_several_values() -> None:
    test = panel()
    names = test.multiselect(key="sweep_vary").options
    for label in ("Engine", "TP", "Longest draft (K max)", "Kind of text", "Drafter", "Weights"):
        assert any(label in name or name in label for name in names), label
    assert not any("Refit" in name or "config.json" in name for name in names)
    test.multiselect(key="sweep_vary").set_value(["hardware_id", "batch_size", "weight_dtype", "max_tpot_ms"]).run()
    options: Any = test.multiselect(key="sweep_of_weight_dtype")
    assert options.options[0] == "as stored"
    options.set_value([None, "fp8"]).run()
    test.text_input(key="sweep_of_max_tpot_ms").set_value("none, 20.5").run()
    test.text_input(key="sweep_of_batch_size").set_value("1,8").run()
    assert "4 combinations at 2 batches" in said(test)
    frame = computed(test).session_state["_sweep"].sweep.frame
    assert set(frame["max_tpot_ms"].dropna()) == {20.5}
    assert set(frame["weight_dtype"].dropna()) == {"fp8"}


def test_loads_and_copies_of_the_bar_are_left_out_together_and_it_says_so() -> None:
    loads = write_loads(np.random.default_rng(0).integers(1, 50, (2, 128)).astype(float))
    ranks = {"expert_parallel": "8", "n_gpus": "8", "expert_loads": loads, "redundant_experts": "8"}
    test = panel(**ranks)
    scenario = test.session_state["_scenario"]
    assert (scenario.expert_loads, scenario.redundant_experts) == (loads, 8)
    assert "redundant_experts" not in read_plan(plan_on_screen(test)).axes
    assert (
        "Your loads of experts and copies of experts take no part: experts stand in order, and the slowest rank is "
        "assumed."
    ) in said(test)
    test.multiselect(key="sweep_vary").set_value(["hardware_id", "batch_size", "redundant_experts"]).run()
    test.text_input(key="sweep_of_redundant_experts").set_value("none, 16").run()
    assert not test.exception
    assert read_plan(plan_on_screen(test)).axes["redundant_experts"] == (None, 16)
    assert (
        "Copies of experts are placed and counted on the routing preset's spread of loads. Your loads of experts take "
        "no part."
    ) in said(test)
    assert "take no part" not in said(panel())


def test_tokens_are_typed_as_in_the_bar_and_controls_stand_as_they_were_chosen() -> None:
    test = panel()
    assert [item.label for item in test.main.multiselect if item.key.startswith("sweep_of")] == ["Model", "Accelerator"]
    test.multiselect(key="sweep_vary").set_value(["batch_size", "hardware_id", "input_tokens", "output_tokens"]).run()
    test.text_input(key="sweep_of_input_tokens").set_value("none, 8k, 128K").run()
    test.text_input(key="sweep_of_output_tokens").set_value("none, 1k").run()
    axes = read_plan(plan_on_screen(test)).axes
    assert (axes["input_tokens"], axes["output_tokens"]) == ((None, 8000, 131072), (None, 1000))
    test.multiselect(key="sweep_vary").set_value(["batch_size", "context_tokens"]).run()
    test.text_input(key="sweep_of_context_tokens").set_value("4096, 128k, 128K, 1M").run()
    assert read_plan(plan_on_screen(test)).axes["context_tokens"] == (4096, 128_000, 131_072, 2**20)


@pytest.mark.parametrize(
    ("key", "typed", "words"),
    [
        ("sweep_of_context_tokens", "2048, lots", "Context: 'lots' is no whole number from 1 to 10,000,000"),
        ("sweep_of_context_tokens", "2048.5", "Context: '2048.5' is no whole number"),
        ("sweep_of_context_tokens", "9" * 400, "10,000,000; give e.g. 4096, 32k, 128K (without separators"),
        ("sweep_of_batch_size", "", "Batch: '' is no whole number from 1 to 65,536; give e.g. 1, 16, 64"),
        ("sweep_of_batch_size", "0", "Batch: '0' is no whole number"),
        ("sweep_of_batch_size", ",".join(map(str, range(1, 80))), "79 values; at most 64"),
    ],
)
def test_what_is_no_value_is_one_message_and_the_last_sweep_stays(key: str, typed: str, words: str) -> None:
    test = computed(panel())
    before = test.session_state["_sweep"]
    test.text_input(key=key).set_value(typed).run()
    assert not test.exception
    assert words in test.error[0].value.replace("\\", "")
    assert test.session_state["_sweep"] is before
    assert "Where drafting pays" in said(test)


def test_a_setting_without_a_value_and_a_model_of_one_s_own_are_told() -> None:
    test = panel()
    test.multiselect(key="sweep_of_model_id").set_value([]).run()
    assert "Model: no value is chosen" in said(test)
    own = panel()
    own.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    assert "Model: no value is chosen" in said(own)
    own.multiselect(key="sweep_vary").set_value(["hardware_id", "batch_size"]).run()
    assert "Model: own-tiny is your own, and a sweep takes shipped ones" in said(own)


def test_beyond_the_limit_it_shows_the_plan_and_the_command_and_computes_nothing() -> None:
    test = panel()
    test.text_input(key="sweep_of_context_tokens").set_value(", ".join(str(1000 + i) for i in range(60))).run()
    test.multiselect(key="sweep_of_hardware_id").set_value(
        ["h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "a100-80gb-sxm", "mi300x", "l40s"]
    ).run()
    assert f"420 combinations at 5 batches: this page computes up to {MAX_COMBINATIONS}" in said(test)
    assert not [item for item in test.button if item.key == "sweep_compute"]
    assert read_plan(plan_on_screen(test)).n_curves == 420
    commands = [item.value for item in test.code if item.language == "bash"]
    assert commands == ["python -m advisor explore --plan sweep.yaml --output sweep --workers 2"]


def test_copies_of_experts_take_their_time_and_are_left_to_the_command_where_they_take_too_long() -> None:
    test = panel(expert_parallel="8", n_gpus="8")
    test.multiselect(key="sweep_vary").set_value(["hardware_id", "batch_size", "redundant_experts"]).run()
    test.text_input(key="sweep_of_redundant_experts").set_value("0, 8, 16").run()
    assert "3 combinations at 5 batches**, about 3 s" in said(test)
    copies = range(0, 8 * (int(MAX_EXPECTED_S) + 1), 8)
    test.text_input(key="sweep_of_redundant_experts").set_value(", ".join(map(str, copies))).run()
    assert f"{len(copies)} combinations at 5 batches: this page computes up to 400 combinations" in said(test)
    assert "for up to 60 s." in said(test)
    assert "(about 62 s on one core)" in said(test)
    assert not [item for item in test.button if item.key == "sweep_compute"]


def test_a_finished_sweep_is_opened_from_several_files_and_asked() -> None:
    test = with_files(
        panel(), ("a.parquet", parquet(grid().head(12), MAKER)), ("b.parquet", parquet(grid().tail(12), MAKER))
    )
    assert "From 2 files: 8 scenarios, 2 of them do not fit in memory; computed by release 1.2.3" in said(test)
    assert "Drafting gains in at least 80% of the simulated cases for 3 of 4 pairs" in said(test)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\xff\x00", "mine.parquet is no readable Parquet file"),
        (parquet(grid().drop(columns="p_gain")), "mine.parquet is no sweep of this advisor"),
        (parquet(grid().assign(p_gain=7.0)), "mine.parquet, row 1, p_gain: expected a share, 0 to 1, got 7.0"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused_in_words_and_nothing_is_lost(data: bytes, words: str) -> None:
    test = computed(panel())
    before = test.session_state["_sweep"]
    with_files(test, ("mine.parquet", data))
    assert words in test.error[0].value.replace("\\", "")
    assert "The sweep below is the one from before." in said(test)
    assert test.session_state["_sweep"] is before


def test_a_sweep_too_large_for_the_page_is_sent_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_page, "MAX_ROWS", 20)
    test = with_files(panel(), ("large.parquet", parquet(grid(), MAKER)))
    assert "there are 24 rows; at most 20 are read here: ask larger sweeps with DuckDB" in said(test)


def test_a_row_is_opened_as_the_scenario_in_the_bar() -> None:
    test = panel()
    test.multiselect(key="sweep_vary").set_value(["hardware_id", "batch_size", "tensor_parallel"]).run()
    test.multiselect(key="sweep_of_hardware_id").set_value(["h100-sxm", "b200-sxm"]).run()
    test.text_input(key="sweep_of_tensor_parallel").set_value("1, 2").run()
    computed(test)
    kept = test.session_state["_sweep"]
    row = fastest_within(kept.sweep.frame, None).iloc[0]
    test.session_state[f"sweep_fastest_{kept.digest}"] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    test.run()
    test.button(key=f"sweep_fastest_{kept.digest}_open").click().run()
    assert not test.exception
    scenario = test.session_state["_scenario"]
    found = (scenario.hardware_id, scenario.batch_size, scenario.tensor_parallel, scenario.n_gpus)
    whole = kept.sweep.frame.loc[row["row"]]
    assert found == (row["hardware_id"], row["batch_size"], whole["tensor_parallel"], whole["n_gpus"])
    assert (scenario.model_id, scenario.acceptance, scenario.k_max) == ("qwen3-30b-a3b", "2.4@3", 3)
    assert test.session_state["_sweep"] is kept


def test_the_map_takes_other_axes_and_fixes_the_rest() -> None:
    test = panel()
    test.multiselect(key="sweep_of_hardware_id").set_value(["h100-sxm", "b200-sxm"]).run()
    test.text_input(key="sweep_of_context_tokens").set_value("1024, 8192").run()
    computed(test)
    digest = test.session_state["_sweep"].digest
    assert "by Batch and Accelerator, at Context 1,024." in said(test)
    test.selectbox(key=f"sweep_y_{digest}").set_value("context_tokens").run()
    assert "by Batch and Context, at Accelerator h100-sxm." in said(test)
    test.selectbox(key=f"sweep_at_hardware_id_{digest}").set_value("b200-sxm").run()
    assert "by Batch and Context, at Accelerator b200-sxm." in said(test)
    test.selectbox(key=f"sweep_x_{digest}").set_value("context_tokens").run()
    assert not test.exception
    assert "by Context and" in said(test)


def test_downloads_hold_all_rows_and_are_read_again() -> None:
    test = computed(panel())
    kept = test.session_state["_sweep"]
    names = {item.proto.label for item in test.get("download_button")}
    assert {"Parquet", "CSV"} <= names
    again = read_sweep([("x", parquet_bytes(kept.sweep.frame, kept.sweep.maker))])
    pd.testing.assert_frame_equal(again.frame, kept.sweep.frame)
    assert len(pd.read_csv(io.StringIO(frame_csv(kept.sweep.frame)))) == len(kept.sweep.frame)


@pytest.mark.parametrize("own", ["sweep", "model"])
def test_reports_on_what_is_one_s_own_are_written_in_a_thread_without_the_session(
    monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """Streamlit makes a file in a thread of its own when its button is pressed."""
    test = with_files(panel(), ("a.parquet", parquet(grid(), MAKER)))
    if own == "model":
        test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
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
    assert "A sweep of scenarios" not in said(test)
    test.toggle(key="report_sweep").set_value(True).run()
    assert not test.exception
    part = said(test).split("## A sweep of scenarios")[1].split("\n## ")[0]
    assert "computed by release 1.2.3" in part
    assert "within 1.8 ms per token" in part
    assert not [item for item in opened("share", **BAR, report_sweep="True").toggle if item.key == "report_sweep"]
