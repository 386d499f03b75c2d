"""Under Explore, Compare models: the bar's load, orders and filters, a model opened."""

from __future__ import annotations

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.by_batch import schedule_for
from advisor.predict.scenario import Scenario
from advisor.show.phrases.book import figure_band as figure
from advisor.show.phrases.schedule import CONTEXT
from advisor.ui import answers
from advisor.ui.answers import BoardAsked, board_for, ids_called
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import live, opened, press, texts
from tests.pages.test_app import link

LOAD = {
    "hardware_id": "h200-sxm",
    "n_gpus": "8",
    "tensor_parallel": "8",
    "batch_size": "64",
    "max_tpot_ms": "20",
    "acceptance": "2.4@3",
}


FEW = {"rank_names": "gpt-oss, qwen3.5-35b, qwen2-0.5b, deepseek-v3"}


def panel(**query: str) -> AppTest:
    return opened("serve", "Explore", explore_as="Compare models", **(LOAD | FEW | query))


def table(test: AppTest) -> pd.DataFrame:
    return next(one.value for one in test.dataframe if "Placement" in one.value)


def ranked(test: AppTest) -> list[str]:
    """Names in the table's order."""
    return list(table(test)["Model"])


def test_the_bar_s_load_is_answered_with_the_doubt_in_each_rank() -> None:
    test = panel()
    text = texts(test)
    assert "**Cheapest under 20 ms per token at 64 users" in text
    board = board_for(
        test.session_state["_scenario"], BoardAsked(by="cost", names=FEW["rank_names"])
    )
    rows = table(test)
    wanted = [
        figure(one.usd_per_million).split()[0] for one in board.standings if one.usd_per_million
    ]
    assert list(rows["USD/M tokens"]) == [float(text) for text in wanted]
    doubtful = next(one for one in board.standings if one.rank_low < one.rank_high)
    assert f"{doubtful.rank_low}–{doubtful.rank_high}" in list(rows["Likely rank"])
    assert not test.error


def test_nothing_is_ranked_before_the_tab_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the first screen ranked models")

    monkeypatch.setattr(answers, "leaderboard", refused)
    assert live(opened("serve", "Explore", **LOAD, rank_names="never asked before")) is not None


def test_the_order_follows_what_is_asked_for_and_stands_in_the_link() -> None:
    test = panel()
    assert list(table(test).columns)[3] == "USD/M tokens"
    cheapest = table(test).set_index("Model")["ms/token"]
    test.get("button_group")[-1].set_value("speed").run()
    assert "**Fastest under 20 ms" in texts(test)
    assert list(table(test).columns)[3] == "ms/token", "what is ranked by stands beside the name"
    assert table(test)["ms/token"].is_monotonic_increasing
    assert (table(test).set_index("Model")["ms/token"] < cheapest).any(), "at placements of its own"
    assert test.query_params["rank_by"] in ("speed", ["speed"])
    again = panel(rank_by="speed")
    assert ranked(again) == ranked(test)


def test_sizes_and_names_say_who_takes_part_and_what_is_left_out_is_listed() -> None:
    test = panel(rank_names="gpt-oss", rank_min_total="100")
    assert ranked(test) == ["gpt-oss-120b"]
    assert any("gpt-oss-20b" in str(one.value) for one in test.dataframe), (
        "what is left out is listed with its reason"
    )


def test_where_nothing_fits_the_reasons_stand_alone() -> None:
    test = panel(max_tpot_ms="0.5")
    assert "No model serves 64 users under 0.5 ms per token" in texts(test)
    assert "The nearest is" in texts(test)
    assert not [one for one in test.dataframe if "Placement" in one.value]
    assert not test.exception


def test_an_accelerator_without_a_price_is_ranked_by_throughput() -> None:
    test = panel(hardware_id="gaudi3", engine="other", max_tpot_ms="")
    assert "Most tokens/s per GPU" in texts(test)
    priced = panel(hardware_id="gaudi3", engine="other", max_tpot_ms="", load_price="2")
    assert "Cheapest at 64 users" in texts(priced)


def test_a_model_is_opened_as_it_was_ranked() -> None:
    test = panel(rank_names="qwen3.5-35b")
    board = board_for(test.session_state["_scenario"], BoardAsked(names="qwen3.5-35b"))
    press(test, "rank_open")
    scenario = test.session_state["_scenario"]
    one = board.standings[0]
    assert one.accepted == "borrowed"
    assert (scenario.model_id, scenario.n_gpus, scenario.drafter_id) == (
        "qwen3.5-35b-a3b",
        one.gpus,
        "mtp",
    )
    answer = advise(scenario).recommendation
    assert (answer.n_draft,) == one.drafts
    assert answer.tpot_s == pytest.approx(one.tpot_s.value)


def test_a_config_of_one_s_own_in_the_bar_takes_part_and_is_opened() -> None:
    test = panel(rank_names="gpt-oss-120b")
    test.file_uploader(key="config_file").upload(
        "tiny.json", CONFIG_JSON.encode(), "application/json"
    ).run()
    assert not test.exception
    assert "own-tiny" in ranked(test)
    assert "In the bar: own-tiny stands" in texts(test)
    press(test, "rank_open")
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == ("own-tiny" if ranked(test)[0] == "own-tiny" else "gpt-oss-120b")


def test_the_report_holds_the_board_when_asked_with_the_tab_s_filters() -> None:
    asked = {"rank_names": "gpt-oss", "rank_min_total": "100"}
    test = opened("share", **LOAD, **asked)
    assert "Other models at this load" not in texts(test)
    test.toggle(key="report_models").set_value(True).run()
    assert not test.exception
    part = texts(test).split("## Other models at this load")[1].split("\n## ")[0]
    assert "gpt-oss-120b" in part
    assert "at least 100 B parameters" in part
    assert test.query_params["report_models"] in ("True", ["True"])


def test_the_report_holds_the_map_over_context_and_the_given_price_when_asked() -> None:
    plain = texts(opened("share", **LOAD))
    assert "## Over context" not in plain
    assert "3.5 USD per GPU-hour" in plain
    asked = texts(opened("share", **LOAD, report_context="True", load_price="2"))
    assert "## Over context" in asked
    assert "at 2 USD per GPU-hour (as given)" in asked


def test_a_board_that_cannot_be_is_left_out_of_the_report_with_the_reason() -> None:
    test = opened("share", **LOAD, rank_names="no-such-model", report_models="True")
    assert "No shipped model has" in test.error[0].value
    assert "Other models at this load" not in texts(test)
    assert "## Answer" in texts(test)


def test_pieces_of_names_find_ids_and_names() -> None:
    assert ids_called("") == ()
    assert set(ids_called("GPT-oss, mixtral-8x7b")) == {
        "gpt-oss-20b",
        "gpt-oss-120b",
        "mixtral-8x7b",
    }


def test_drafters_stand_side_by_side_each_with_its_own_length() -> None:
    data = live(opened("serve", "Drafters", model_id="gpt-oss-20b"), "drafters")
    assert {row["name"] for row in data["rows"][:2]} == {"EAGLE-3", "P-EAGLE"}
    assert all(row["cells"][0][1].startswith("measured") for row in data["rows"][:2])
    assert [row["in_use"] for row in data["rows"]].count(True) == 1


def test_k_by_context_stands_beside_the_map() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="gpt-oss-20b")
    test = opened("serve", "Explore", explore_as="K by context", **link(scenario))
    assert not test.exception
    table = next(one.value for one in test.dataframe if "Batch" in one.value)
    at_contexts = schedule_for(scenario).at_contexts
    assert list(table.columns)[1:] == [f"{context:,}" for context in at_contexts.contexts]
    says = CONTEXT.say("context", at_contexts.facts)
    assert any(says in caption.value for caption in test.caption)
