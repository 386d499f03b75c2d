"""The tab of Serve that ranks models: the bar's load, orders and filters, scores of one's own, a model opened.

The panel of the load under AppTest: cost and energy, and the map over context.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.by_batch import BatchHistogram
from advisor.answers.explore.entrants import Wanted, question_of
from advisor.answers.explore.leaderboard import Leaderboard, Standing, leaderboard
from advisor.predict.scenario import Scenario
from advisor.ui import answers
from advisor.ui.answers import BoardAsked, board_for, ids_called
from advisor.ui.serve.while_serving import users_text
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import opened

LOAD = {
    "hardware_id": "h200-sxm",
    "n_gpus": "8",
    "tensor_parallel": "8",
    "batch_size": "64",
    "max_tpot_ms": "20",
    "acceptance": "2.4@3",
}


FEW = {"rank_names": "gpt-oss, qwen3.5-35b, qwen2-0.5b, deepseek-v3"}


SCORES = b"model,elo,licence\ngpt-oss-120b,1350,apache\ngpt-oss-20b,1290,apache\nqwen2-0.5b,900,mit\nnobody,1,mit\n"


def panel(**query: str) -> AppTest:
    return opened("serve", "Which model", **(LOAD | FEW | query))


def said(test: AppTest) -> str:
    kinds = (test.title, test.markdown, test.caption, test.error)
    return "\n".join(item.value for kind in kinds for item in kind).replace("\\", "")


def table(test: AppTest) -> pd.DataFrame:
    return next(one.value for one in test.dataframe if "Placement" in one.value)


def ranked(test: AppTest) -> list[str]:
    """Names in the table's order."""
    return list(table(test)["Model"])


def board_on_screen(test: AppTest) -> Leaderboard:
    return board_for(test.session_state["_scenario"], BoardAsked(by="cost", names=FEW["rank_names"]))


def with_scores(test: AppTest, data: bytes, name: str = "scores.csv") -> AppTest:
    test.file_uploader(key="board_scores_file").upload(name, data, "text/csv").run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def test_the_bar_s_load_is_answered_with_the_doubt_in_each_rank() -> None:
    test = panel()
    text = said(test)
    assert "For 64 users at once on 8 x NVIDIA H200 SXM 141GB, 2,048 tokens of context, each token within 20 ms" in text
    assert "**Cheapest under 20 ms per token at 64 users" in text
    board = board_on_screen(test)
    rows = table(test)
    assert list(rows["USD/M tokens"]) == [one.usd_per_million.value for one in board.standings]
    doubtful = next(one for one in board.standings if one.rank_low < one.rank_high)
    assert f"{doubtful.rank} ({doubtful.rank_low}–{doubtful.rank_high})" in list(rows["Rank"])
    assert not test.error


def test_nothing_is_ranked_before_the_tab_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the first screen ranked models")

    monkeypatch.setattr(answers, "leaderboard", refused)
    assert "Draft" in opened("serve", **LOAD, rank_names="never asked before").title[0].value


def test_the_order_follows_what_is_asked_for_and_stands_in_the_link() -> None:
    test = panel()
    assert list(table(test).columns)[2] == "USD/M tokens"
    cheapest = table(test).set_index("Model")["ms/token"]
    test.get("button_group")[-1].set_value("speed").run()
    assert "**Fastest under 20 ms" in said(test)
    assert list(table(test).columns)[2] == "ms/token", "what is ranked by stands beside the name"
    assert table(test)["ms/token"].is_monotonic_increasing
    assert (table(test).set_index("Model")["ms/token"] < cheapest).any(), "at placements of its own"
    assert test.query_params["rank_by"] in ("speed", ["speed"])
    again = panel(rank_by="speed")
    assert ranked(again) == ranked(test)


def test_without_a_size_it_says_that_small_models_lead_and_with_one_who_takes_part() -> None:
    free = opened("serve", "Which model", **LOAD)
    assert "Smaller models are cheaper: nothing here says how good they are" in said(free)
    assert "10 to 100 B parameters: gpt-oss-20b" in said(free)
    test = panel(rank_names="gpt-oss", rank_min_total="100")
    assert ranked(test) == ["gpt-oss-120b"]
    assert "Smaller models" not in said(test)
    assert "Only models with at least 100 B parameters and chosen by name take part." in said(test)
    assert any("gpt-oss-20b" in str(one.value) for one in test.dataframe), "what is left out is listed with its reason"


def test_a_name_that_no_model_has_is_one_message() -> None:
    test = panel(rank_names="no-such-model")
    assert [item.value.replace("\\", "") for item in test.error] == [
        "No shipped model has 'no-such-model' in its name; try qwen3 or gpt-oss."
    ]


def test_where_nothing_fits_the_reasons_stand_alone() -> None:
    test = panel(max_tpot_ms="0.5")
    assert "No model serves 64 users under 0.5 ms per token" in said(test)
    assert "The nearest is" in said(test)
    assert not [one for one in test.dataframe if "Placement" in one.value]
    assert not test.exception


def test_an_accelerator_without_a_price_is_ranked_by_throughput() -> None:
    test = panel(hardware_id="gaudi3", engine="other", max_tpot_ms="")
    assert "Most tokens/s per GPU" in said(test)
    priced = panel(hardware_id="gaudi3", engine="other", max_tpot_ms="", load_price="2")
    assert "Cheapest at 64 users" in said(priced)


def test_scores_of_one_s_own_are_an_axis_and_a_filter() -> None:
    test = with_scores(panel(), SCORES)
    assert not test.error
    assert "No shipped model is called nobody" in said(test)
    charts = [chart.proto.alt for chart in test.get("plotly_chart")]
    assert any(alt.startswith("elo against USD per million output tokens of 3 models") for alt in charts)
    test.number_input(key="board_least_score").set_value(1000.0).run()
    assert ranked(test) == ["gpt-oss-20b", "gpt-oss-120b"]
    test.text_input(key="board_where").set_value("licence=mit").run()
    assert "no model takes part" in said(test)
    test.button(key="board_forget").click().run()
    assert len(ranked(test)) > 3
    assert not any("elo" in chart.proto.alt for chart in test.get("plotly_chart"))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x89PNG\xff\x00", "is no CSV"),
        (b"model,elo\nqwen3-4b\n", "line 2 has 1 cells"),
        (b"elo\n3\n", "must name a column model"),
        (b"model,elo\nqwen3-4b,good\n", "not a number"),
        (b"model,elo\nqwen3-4b,1\nqwen3-4b,2\n", "stands there twice"),
    ],
)
def test_a_broken_table_of_scores_is_refused_in_words_and_the_board_stays(data: bytes, problem: str) -> None:
    test = with_scores(panel(), data, "mine.csv")
    assert problem in " ".join(item.value for item in test.error).replace("\\", "")
    assert "mine.csv" in said(test)
    assert len(ranked(test)) > 3


def shown_as_ranked(scenario: Scenario, one: Standing) -> None:
    answer = advise(scenario).recommendation
    assert (answer.n_draft,) == one.drafts
    assert answer.tpot_s == pytest.approx(one.tpot_s.value)


def test_a_model_is_opened_as_it_was_ranked_and_the_board_stays() -> None:
    test = panel(rank_names="qwen3.5-35b")
    before = ranked(test)
    board = board_for(test.session_state["_scenario"], BoardAsked(names="qwen3.5-35b"))
    test.button(key="rank_open").click().run()
    assert not test.exception
    scenario, one = test.session_state["_scenario"], board.standings[0]
    assert one.accepted == "borrowed"
    assert (scenario.model_id, scenario.n_gpus, scenario.drafter_id) == ("qwen3.5-35b-a3b", one.gpus, "mtp")
    shown_as_ranked(scenario, one)
    assert ranked(test) == before
    assert "64 users at once on 8 x" in said(test)
    test.button(key="rank_follow").click().run()
    assert f"at once on {'' if one.gpus == 1 else f'{one.gpus} x '}NVIDIA H200" in said(test)


def test_a_borrowed_length_that_leads_to_another_k_in_the_bar_is_said() -> None:
    """At 575 users two K are nearly alike, and the wider band of what is borrowed decides."""
    test = panel(batch_size="575", max_tpot_ms="", rank_names="glm-4.7-flash")
    board = board_for(test.session_state["_scenario"], BoardAsked(names="glm-4.7-flash"))
    test.button(key="rank_open").click().run()
    n_draft = advise(test.session_state["_scenario"]).recommendation.n_draft
    ranked_with = board.standings[0].drafts[0]
    told = f"It was ranked with K = {ranked_with}, in the wider doubt of a borrowed length"
    assert (told in said(test)) == (n_draft != ranked_with)
    assert n_draft != ranked_with, "the load was chosen for that"


def test_a_config_of_one_s_own_in_the_bar_takes_part_and_is_opened() -> None:
    test = panel(rank_names="gpt-oss-120b")
    test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    assert not test.exception
    assert "own-tiny" in ranked(test)
    assert "In the bar: own-tiny stands" in said(test)
    test.button(key="rank_open").click().run()
    assert not test.exception
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == ("own-tiny" if ranked(test)[0] == "own-tiny" else "gpt-oss-120b")


def test_opening_a_model_asks_the_board_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    test = panel(rank_names="gpt-oss-20b")
    monkeypatch.setattr(answers, "leaderboard", lambda *_: pytest.fail("ranked again"))
    test.button(key="rank_open").click().run()
    assert not test.exception


def test_the_report_holds_the_board_when_asked_with_the_tab_s_filters() -> None:
    asked = {"rank_names": "gpt-oss", "rank_min_total": "100"}
    test = opened("report", **LOAD, **asked)
    assert "Other models at this load" not in said(test)
    test.toggle(key="report_models").set_value(True).run()
    assert not test.exception
    part = said(test).split("## Other models at this load")[1].split("\n## ")[0]
    assert "gpt-oss-120b" in part
    assert "at least 100 B parameters" in part
    assert test.query_params["report_models"] in ("True", ["True"])


def test_the_report_holds_the_map_over_context_and_the_given_price_when_asked() -> None:
    plain = said(opened("report", **LOAD))
    assert "## Over context" not in plain
    assert "3.5 USD per GPU-hour" in plain
    asked = said(opened("report", **LOAD, report_context="True", load_price="2"))
    assert "## Over context" in asked
    assert "at 2 USD per GPU-hour (as given)" in asked


def test_a_board_that_cannot_be_is_left_out_of_the_report_with_the_reason() -> None:
    test = opened("report", **LOAD, rank_names="no-such-model", report_models="True")
    assert "No shipped model has" in test.error[0].value
    assert "Other models at this load" not in said(test)
    assert "## Answer" in said(test)


OVER_TIME = "1:10,64:90"


def test_users_over_time_are_ranked_as_the_command_ranks_them() -> None:
    test = panel(rank_users=OVER_TIME)
    assert "For 1 to 64 users at once (1 in 10%, 64 in 90% of the time) on 8 x" in said(test)
    asked = replace(
        question_of(test.session_state["_scenario"]),
        users=BatchHistogram.from_text(OVER_TIME),
        wanted=Wanted(ids_called(FEW["rank_names"])),
    )
    own = leaderboard(asked)
    assert list(table(test)["ms/token"]) == [one.tpot_s.value * 1e3 for one in own.standings]
    assert list(table(test)["ms/token"]) != list(table(panel())["ms/token"]), "another load"
    assert any("/" in cell for cell in table(test)["K"]), "a K for each number of users"


def test_users_are_typed_and_stand_in_the_link_and_the_report() -> None:
    test = panel()
    test.text_input(key="rank_users").set_value("1:10, 64:90").run()
    assert "1 to 64 users at once" in said(test)
    assert test.query_params["rank_users"] in ("1:10, 64:90", ["1:10, 64:90"])
    test.button(key="rank_follow").click().run()
    assert "For 64 users at once on" in said(test)
    report = said(opened("report", **LOAD, **FEW, rank_users=OVER_TIME, report_models="True"))
    assert "at 1 to 64 users" in report.split("## Other models at this load")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("many", "'many' is no number of users; give e.g. 64"),
        ("0", "0 users cannot be served; give 1 to 65,536"),
        ("1:10,x", "'x' is not batch:weight"),
        ("1:-3", "the weight -3.0 of batch 1 must be 0 or more"),
        ("1:0", "at least one weight must be above 0"),
    ],
)
def test_users_that_are_none_are_one_message_and_a_link_with_them_is_noted(typed: str, words: str) -> None:
    test = panel()
    test.text_input(key="rank_users").set_value(typed).run()
    assert not test.exception
    assert words in test.error[0].value.replace("\\", "")
    assert "1:10,64:90" in test.error[0].value.replace("\\", ""), "what to give instead"
    link = panel(rank_users=typed)
    assert any("rank_users" in item.value for item in link.warning)
    assert "For 64 users at once" in said(link)


def test_batch_sizes_of_k_while_serving_are_offered_and_taken() -> None:
    test = panel()
    assert not [item for item in test.button if item.key == "rank_offered"]
    test.session_state["_board_offered"] = OVER_TIME
    test.run().button(key="rank_offered").click().run()
    assert "1 to 64 users at once" in said(test)
    assert not [item for item in test.button if item.key == "rank_offered"]


def test_batches_of_one_copy_are_users_of_all_copies() -> None:
    advice = advise(Scenario(hardware_id="h200-sxm", n_gpus=8, tensor_parallel=2, acceptance="2.4@3"))
    assert users_text(BatchHistogram((1, 16), (10.0, 2.5)), advice) == "4:10,64:2.5"


def test_pieces_of_names_find_ids_and_names() -> None:
    assert ids_called("") == ()
    assert set(ids_called("GPT-oss, mixtral-8x7b")) == {"gpt-oss-20b", "gpt-oss-120b", "mixtral-8x7b"}


def panel_load_panel() -> None:
    from advisor.answers.advice import advise
    from advisor.predict.scenario import build_scenario
    from advisor.ui.serve.why import draw_load_panel

    draw_load_panel(
        advise(build_scenario(hardware_id="h200-sxm", model_id="qwen3-30b-a3b", acceptance="2.4@3", max_tpot_ms=20.0))
    )


@pytest.fixture
def opened_load_panel() -> AppTest:
    test = AppTest.from_function(panel_load_panel, default_timeout=60).run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def said_load_panel(test: AppTest) -> str:
    return " ".join(item.value for item in (*test.markdown, *test.caption))


def test_cost_energy_and_context_are_told_at_once(opened_load_panel: AppTest) -> None:
    text = said_load_panel(opened_load_panel)
    assert "USD per million output tokens" in text
    assert "J per output token" in text
    assert "tokens of context and batch 16" in text
    assert len(opened_load_panel.get("plotly_chart")) == 1


def test_a_price_of_one_s_own_is_used(opened_load_panel: AppTest) -> None:
    opened_load_panel.number_input(key="load_price").set_value(2.0).run()
    assert "at 2 USD per GPU-hour (as given)" in said_load_panel(opened_load_panel)
