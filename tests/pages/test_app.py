"""Each page through Streamlit's AppTest: what it says, links that restore it, nonsense that must
not break it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from advisor.answers.track_record import track_record
from advisor.measured.seeds import read_claims, read_findings
from advisor.measured.store import default_store_path, only_writer
from advisor.physics import laws
from advisor.predict.scenario import START_ACCEPTANCE, Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.show.phrases.pages import BOOK
from advisor.ui import OLD_PATHS
from advisor.ui.bar import IN_THE_BAR
from advisor.ui.own_data import NAMES
from advisor.ui.own_data import START as fields_START
from advisor.ui.serve import panels as live_page
from advisor.ui.state import TYPED, link_to, understood
from advisor.ui.state import plain as widgets_plain
from tests.golden.sentences import Golden, lines_with
from tests.own_model import CONFIG, CONFIG_JSON
from tests.pages.app_page import go_to, live, press, sheets, telling, texts, titles
from tests.pages.app_page import opened as app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("serve", "design", "measure", "trust", "share")


def link(scenario: Scenario) -> dict[str, str]:
    return dict(parse_qsl(scenario.to_query()))


def chart(test: AppTest, key: str) -> Any:
    """The chart of that key, or None where it is not drawn."""
    return next((item for item in test.get("plotly_chart") if item.key == key), None)


def trusted(section: str, **query: str) -> AppTest:
    """The page Trust with one of its sections open."""
    test = app("trust", **query)
    test.session_state[section] = True
    test.run()
    assert not test.exception
    return test


def charts(test: AppTest) -> list[Any]:
    return list(test.get("plotly_chart"))


START = Scenario(**fields_START)


def answered(test: AppTest) -> bool:
    """Whether the page Serve shows its answer."""
    return live(test) is not None


def row(data: Any) -> int:
    """Where the batch that is asked about stands in a live answer."""
    return int(data["batches"].index(data["batch"]))


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_one_title_and_no_error(page: str) -> None:
    test = app(page)
    assert len(titles(test)) == (0 if page == "serve" else 1), (
        "that of Serve is part of its live answer"
    )
    assert not test.error


def test_the_browser_is_given_the_library_s_own_answer() -> None:
    test = app()
    advice = advise(START)
    data = live(test)
    assert test.session_state["_scenario"] == START
    assert (data["batch"], data["k"], data["key"]) == (START.batch_size, advice.curve_k, START.hash)
    for name, values in (("speedup", advice.curve.speedup), ("tpot_ms", advice.curve.tpot_s * 1e3)):
        assert data[name][row(data)] == pytest.approx(values[advice.batch_index], rel=1e-4)
    assert data["command"]["text"].split()[:3] == [
        "vllm",
        "serve",
        "CohereLabs/command-a-plus-05-2026",
    ]
    assert f'"num_speculative_tokens":{advice.recommendation.n_draft}' in data["command"]["text"]


def test_a_slider_that_is_let_go_becomes_the_scenario() -> None:
    test = app()
    test.session_state["batch_size"] = 512
    data = live(test.run())
    assert test.session_state["_scenario"].batch_size == data["batch"] == 512
    assert "512" in str(test.query_params["batch_size"])


def test_what_the_browser_sends_is_taken_by_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    now: dict[str, Any] = {"live_answer": {"moved": {"batch": 37, "accepted": "2.35@3"}}}
    monkeypatch.setattr(live_page.st, "session_state", now)
    live_page._take()
    assert (now["batch_size"], now["acceptance"]) == (37, "2.35@3")
    now["live_answer"] = {
        "moved": {"text": {"acceptance": "gpt-oss-20b-eagle3-mt-bench", "task": "math"}}
    }
    live_page._take()
    assert (now["acceptance"], now["task"]) == ("gpt-oss-20b-eagle3-mt-bench", "math")


@pytest.mark.parametrize(
    ("engine", "starts"), [("vllm", "vllm serve"), ("sglang", "echo "), ("trtllm", "")]
)
def test_numbers_command_and_engine_always_go_together(
    engine: str, starts: str, golden: Golden
) -> None:
    asked = {"model_id": "deepseek-v3", "n_gpus": "8", "tensor_parallel": "8", "drafter_id": "mtp"}
    test = app(hardware_id="h200-sxm", acceptance="3.4@3", batch_size="32", engine=engine, **asked)
    data = live(test)
    own = advise(test.session_state["_scenario"])
    assert own.scenario.engine == engine
    assert data["speedup"][row(data)] == pytest.approx(own.curve.speedup[own.batch_index], rel=1e-4)
    assert data["command"]["text"].startswith(starts)
    assert bool(data["command"]["text"]) == bool(starts)
    if engine == "trtllm":
        golden(no_command=data["command"]["note"])
    if engine == "sglang":
        golden(python_sglang=lines_with(data["command"]["text"], "python"))


def test_the_command_of_an_own_model_names_it_and_a_draft_checkpoint_is_asked_for(
    golden: Golden,
) -> None:
    mine = live(
        app(
            **link(Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON))
        )
    )
    golden(vllm_serve=lines_with(mine["command"]["text"], "vllm serve"))
    golden(draft_model=live(app())["command"]["note"])


def test_a_scenario_that_does_not_fit_says_what_it_needs_and_what_would_hold_it(
    golden: Golden,
) -> None:
    data = live(app(model_id="deepseek-v3", acceptance="2.4@3"))
    assert data["largest"] == 0
    golden(does_not=data["command"]["title"])
    assert data["wider"] == "Use 8 × H200 SXM"
    assert data["outcome"]["needed_gib"] > data["outcome"]["usable_gib"] > 100
    assert data["command"]["text"] == ""


def test_a_dense_model_and_one_without_a_drafter_have_an_answer() -> None:
    dense = app("serve", "Why", model_id="command-a", acceptance="2.4@3")
    assert live(dense)["twin"] is None
    assert live(dense, "live_why")["experts"] is None
    alone = live(app(drafter_id="none", acceptance="0"))
    assert (alone["drafts"], alone["accepted"]) == ([0], None)


def test_why_splits_the_verification_as_the_laws_do() -> None:
    test = app(
        "serve",
        "Why",
        model_id="deepseek-v3",
        n_gpus="8",
        tensor_parallel="8",
        drafter_id="mtp",
        acceptance="2.8@3",
    )
    data = live(test, "live_why")
    advice = advise(test.session_state["_scenario"])
    place = advice.batch_index
    column = advice.curve.column(3)
    curve = advice.curve
    share = curve.plain_components["routed"][place] / curve.plain_step_s[place]
    growth = curve.touched_verify[place, column] / curve.touched_plain[place]
    assert data["amdahl"][place][column] == pytest.approx(1 + share * (growth - 1), rel=1e-3)
    hidden = laws.hidden_share(
        curve.verify_step_s[place, column] / curve.plain_step_s[place], share, growth
    )
    assert data["hidden"][place][column] == pytest.approx(hidden, rel=1e-3)
    whole = sum(group[place][column] for group in data["ms"])
    assert whole == pytest.approx(curve.round_s[place, column] * 1e3, rel=1e-3)


def test_a_limit_on_time_per_token_reaches_the_browser() -> None:
    assert live(app(acceptance="2.4@3", max_tpot_ms="8"))["limit_ms"] == 8.0


def test_explore_answers_over_any_two_settings_as_a_map_and_as_a_table(golden: Golden) -> None:
    test = app("serve", "Explore")
    assert [one.key for one in charts(test)] == ["explore"]
    test.selectbox(key="explore_down").set_value("K").run()
    golden(alt=charts(test)[0].proto.alt)
    test.session_state["explore_as"] = "Table"
    test.run()
    table = test.dataframe[0].value
    assert list(table["K"]) == [str(k) for k in range(1, 9)]
    column = advise(START).curve
    at = [float(column.speedup[list(column.batches).index(16), k]) for k in range(1, 9)]
    assert list(table["16"]) == pytest.approx(at, abs=0.0051)


def test_a_launch_line_is_checked_flag_by_flag() -> None:
    test = app("serve", "Command check")
    own = live(test)["command"]["text"].replace(
        "--tensor-parallel-size 4", "--tensor-parallel-size 2 --seed 1"
    )
    test.text_area(key="own_line").set_value(own).run()
    table = test.dataframe[0].value.set_index("Flag")
    assert list(table.loc["--tensor-parallel-size"]) == ["change", "2", "4"]
    assert table.loc["--seed", "Action"] == "keep"
    assert table.loc["--speculative-config", "Action"] == "same"
    test.text_area(key="own_line").set_value("vllm serve 'half").run()
    assert "quotes" in test.error[0].value


@pytest.mark.parametrize(
    ("path", "page", "settings"),
    [(path, page, settings) for path, (page, settings) in OLD_PATHS.items()],
)
def test_an_old_path_leads_to_the_page_that_shows_the_same(
    path: str, page: str, settings: dict[str, Any]
) -> None:
    tab = settings.get(f"{page}_tab", "")
    test = app(path, acceptance="2.4@3")
    assert test.session_state["_scenario"].acceptance == "2.4@3"
    assert titles(test) == titles(app(page, tab, acceptance="2.4@3"))
    assert {name: test.session_state[name] for name in settings} == settings


def test_an_accepted_length_is_typed_under_more_as_a_number_a_list_or_a_curve() -> None:
    assert understood(" 2.1 ") == "2.1@3"
    assert understood("0.7,0.5") == "0.7,0.5"


def test_the_engine_s_chips_take_what_was_said_of_another_release_away() -> None:
    test = app(acceptance="2.4@3", engine_version="0.33.0")
    test.get("button_group")[0].set_value("sglang").run()
    scenario = test.session_state["_scenario"]
    assert (scenario.engine, scenario.engine_version) == ("sglang", None)


def test_every_field_has_a_widget_numbers_say_their_range_and_models(golden: Golden) -> None:
    test = app()
    fields = [one for one in test.number_input if one.key not in IN_THE_BAR and one.key in NAMES]
    assert fields
    for field in fields:
        assert f"From {field.min:g} to {field.max:,.0f}." in field.help, field.key
    shown = {"engine", *(item.key for kind in (test.selectbox, test.number_input) for item in kind)}
    texts_typed = {item.key for item in test.text_input}
    typed = texts_typed | {name for name, key in TYPED.items() if key in texts_typed}
    assert shown | typed >= {name for name in NAMES if FIELDS[name].widget is not None}
    models = test.selectbox(key="model_id").options
    places = test.selectbox(key="hardware_id").options
    golden(qwen=[name for name in models if name.startswith("Qwen3-30B-A3B ")])
    assert "H200 SXM · 141 GiB" in places
    assert models == sorted(set(models), key=str.lower)
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("typed", "tokens"), [("128k", 128_000), ("32K", 32_768), ("1M", 1_048_576), ("4096", 4096)]
)
def test_a_context_is_typed_as_people_say_it_and_the_link_carries_the_number(
    typed: str, tokens: int
) -> None:
    test = app()
    test.text_input(key=TYPED["context_tokens"]).set_value(typed).run()
    assert test.session_state["_scenario"].context_tokens == tokens
    assert test.text_input(key=TYPED["context_tokens"]).value == str(tokens)
    assert str(tokens) in test.query_params["context_tokens"]
    assert "stays" not in context_remarks(test)


@pytest.mark.parametrize("typed", ["long", "", "-5", "0", "1e3", "99M", "1.5", "9" * 400])
def test_a_context_that_is_no_number_of_tokens_is_refused_in_words_and_the_last_one_stays(
    typed: str,
) -> None:
    test = app(context_tokens="4096")
    test.text_input(key=TYPED["context_tokens"]).set_value(typed).run()
    assert not test.exception
    assert test.session_state["_scenario"].context_tokens == 4096
    assert test.text_input(key=TYPED["context_tokens"]).value == "4096"
    assert "4,096 stays" in context_remarks(test)
    test.text_input(key=TYPED["context_tokens"]).set_value("8k").run()
    assert not context_remarks(test)


@pytest.mark.parametrize("typed", ["abc", "", "2.5", "8k", "9999"])
def test_gpus_that_are_no_number_are_refused_in_words_and_the_placement_stays(typed: str) -> None:
    test = app(n_gpus="4", tensor_parallel="2", expert_parallel="4")
    test.text_input(key=TYPED["n_gpus"]).set_value(typed).run()
    now = test.session_state["_scenario"]
    assert (now.n_gpus, now.tensor_parallel, now.expert_parallel) == (4, 2, 4)
    assert any("GPUs" in item.value and "4 stays" in item.value for item in test.markdown)


def test_lengths_of_a_request_are_typed_as_the_context_is_and_can_be_taken_away(
    golden: Golden,
) -> None:
    test = app(
        acceptance="2.4@3", input_tokens="1000", output_tokens="500", context_tokens="200000"
    )
    typed = {name: test.text_input(key=key) for name, key in TYPED.items()}
    assert (typed["input_tokens"].value, typed["output_tokens"].value) == ("1000", "500")
    typed["input_tokens"].set_value("128k").run()
    assert test.session_state["_scenario"].input_tokens == 128_000
    assert "128000" in test.query_params["input_tokens"]
    test.text_input(key=TYPED["output_tokens"]).set_value("9" * 400).run()
    assert test.session_state["_scenario"].output_tokens == 500
    assert [
        "500 stays" in item.value for item in test.markdown if "Output tokens:" in item.value
    ] == [True]
    for name in ("input_tokens", "output_tokens"):
        test.text_input(key=TYPED[name]).set_value("").run()
    before = test.session_state["_scenario"]
    assert before.input_tokens is None
    test.text_input(key=TYPED["input_tokens"]).set_value("lots").run()
    assert any("; none stays." in item.value for item in test.markdown)
    test.text_input(key=TYPED["input_tokens"]).set_value("1k").run()
    assert test.session_state["_scenario"] == before, "one length alone"
    assert answered(test)
    golden(one_length=telling(test, "is not"))
    test.text_input(key=TYPED["output_tokens"]).set_value("500").run()
    assert test.session_state["_scenario"].input_tokens == 1000
    assert telling(test, "is not") == []


def context_remarks(test: AppTest) -> str:
    return "".join(
        item.value for item in test.markdown if "Context:" in item.value.replace("\\", "")
    )


def test_a_link_restores_every_field() -> None:
    sizes = {
        "n_gpus": 8,
        "tensor_parallel": 8,
        "expert_parallel": 8,
        "batch_size": 64,
        "context_tokens": 4096,
        "k_max": 5,
    }
    formats = {
        "weight_dtype": "fp8",
        "expert_dtype": "mxfp4",
        "kv_dtype": "fp8",
        "routing": "uniform",
    }
    load = {"input_tokens": 1000, "output_tokens": 500, "max_tpot_ms": 55.5, "acceptance": "2.4@3"}
    names = {
        "hardware_id": "b200-sxm",
        "model_id": "deepseek-v3",
        "drafter_id": "mtp",
        "engine": "sglang",
    }
    scenario = Scenario(**sizes, **formats, **load, **names)
    test = app(**link(scenario))
    assert test.session_state["_scenario"] == scenario
    assert not [item.value for item in test.warning if "link" in item.value]


def test_an_own_model_link_without_a_name_gets_one() -> None:
    test = app(**link(Scenario(acceptance="2.4@3", model_config_json=CONFIG_JSON)))
    restored = test.session_state["_scenario"]
    assert restored.model_id == "own-mixtral"
    assert restored.model_config_json == CONFIG_JSON


def test_a_checkpoint_s_name_is_typed_for_the_model_and_says_its_weights(golden: Golden) -> None:
    test = app()

    def typed(name: str) -> Scenario:
        box = test.selectbox(key="model_id")
        box.options.append(name)  # as the browser offers it
        box.set_value(name).run()
        return test.session_state["_scenario"]

    assert typed("openai/gpt-oss-120b").model_id == "gpt-oss-120b"
    now = typed("Qwen/Qwen3-30B-A3B-FP8")
    assert (now.model_id, now.weight_dtype) == ("qwen3-30b-a3b", "fp8_block")
    assert typed("foo/bar-7b") == now
    golden(foo_bar=telling(test, "foo"))
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert telling(test, "no known") == []


def test_the_drafter_follows_the_model_and_a_typed_length_ends_with_its_own() -> None:
    test = app()
    own = app(acceptance="2.4@3")
    for one in (test, own):
        one.selectbox(key="model_id").set_value("deepseek-v3").run()
    scenario = test.session_state["_scenario"]
    assert (scenario.drafter_id, scenario.acceptance) == ("mtp", "deepseek-r1-mtp-internal")
    assert own.session_state["_scenario"].acceptance == scenario.acceptance, (
        "one length, whatever was typed before"
    )
    said = (
        "The accepted length 2.4@3 was given for Qwen3-30B-A3B with EAGLE-3; **here it is not "
        "used.**"
    )
    assert any(said in item.value for item in own.markdown)
    own.selectbox(key="drafter_id").set_value("eagle").run()
    assert not any(said in item.value for item in own.markdown), "said until one changes again"
    own.selectbox(key="model_id").set_value("qwen3-30b-a3b").run()
    own.selectbox(key="drafter_id").set_value("eagle3").run()
    assert own.session_state["_scenario"].acceptance == "2.4@3"
    own.selectbox(key="model_id").set_value("deepseek-v3").run()
    press(own, "keep_own_length")
    assert own.session_state["_scenario"].acceptance == "2.4@3"
    assert "keep_own_length" not in {button.key for button in own.button}
    test.selectbox(key="model_id").set_value("gpt-oss-20b").run()
    again = test.session_state["_scenario"]
    assert (again.model_id, again.drafter_id, again.acceptance) == (
        "gpt-oss-20b",
        "eagle3",
        START_ACCEPTANCE,
    )


@pytest.mark.parametrize(
    ("asked", "gpus", "ranks"),
    [
        ({}, [8], [(8, 1)]),
        ({"hardware_id": "gb200"}, [16], [(16, 1)]),
        (
            {"expert_parallel": "32", "n_gpus": "32", "tensor_parallel": "1"},
            [16, 4],
            [(8, 16), (4, 4)],
        ),
    ],
    ids=["a node", "a rack that is one node", "beyond a node"],
)
def test_gpus_widen_matrices_within_a_node_and_experts_stay_on_as_many_ranks_as_divide_them(
    asked: dict[str, str], gpus: list[int], ranks: list[tuple[int, int]]
) -> None:
    test = app(**({"hardware_id": "h200-sxm", "acceptance": "2.4@3"} | asked))
    for n, (tensor, expert) in zip(gpus, ranks, strict=True):
        test.text_input(key="n_gpus_typed").set_value(str(n)).run()
        now = test.session_state["_scenario"]
        assert (now.n_gpus, now.tensor_parallel, now.expert_parallel) == (n, tensor, expert)


def test_a_placement_buys_its_gpus() -> None:
    test = app(n_gpus="8", tensor_parallel="8")
    next(item for item in test.number_input if item.label == "TP").set_value(2).run()
    test.number_input(key="expert_parallel").set_value(16).run()
    assert test.session_state["_scenario"].n_gpus == 16


def test_a_page_s_settings_survive_another_page_and_stand_in_the_address() -> None:
    test = app("serve", "Evidence", acceptance="2.4@3")
    go_to(test, "measure").run()
    assert not test.exception
    go_to(test, "serve").run()
    assert test.session_state["serve_tab"] == "Evidence"
    assert test.query_params["serve_tab"] in ("Evidence", ["Evidence"])


def test_every_chart_has_an_alt_text_with_its_finding() -> None:
    for page, tab in (("serve", "Explore"), ("serve", "Evidence"), ("trust", "")):
        test = app(page, tab)
        blocks = [block for one in sheets(test) for row in one["rows"] for block in row]
        labels = [block["label"] for block in blocks if block["kind"] == "plate"]
        labels += [drawn.proto.alt for drawn in charts(test)]
        assert labels, page
        assert all(any(letter.isdigit() for letter in label) for label in labels)


def test_a_file_that_is_no_store_is_reported_not_raised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, golden: Golden
) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"not a database")
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(broken))
    test = trusted("trust_data")
    golden(no_measured=test.warning[0].value, build=[block.value for block in test.main.code])
    with only_writer(default_store_path()):
        test.run()
    golden(being_built=[shown.value for shown in test.info])
    assert not test.warning
    assert answered(app())


def test_sources_list_what_the_scenario_used(golden: Golden) -> None:
    test = trusted("trust_sources", acceptance="2.4@3")
    advice = advise(test.session_state["_scenario"])
    shown = texts(test)
    assert all(source in shown for source in advice.setup.sources)
    assert "1. Yaniv Leviathan" in shown
    golden(arxiv_org=lines_with(shown, "2503.01840"))
    constants = next(
        table.value for table in test.dataframe if "Confidence" in table.value
    ).set_index("Constant")
    assert constants.loc["Memory bandwidth", "Value"] == "4.8 TB/s"
    assert constants["Source no."].min() == 1
    assert "30.53 billion parameters" in shown
    assert set(constants["Kind"]) <= {"vendor", "measured", "paper", "fitted", "assumed"}


NONSENSE = {"k_max": "1000000", "hardware_id": "h999", "model_id": "<script>alert(1)</script>"}
NONSENSE |= {"max_tpot_ms": "inf", "routing": "../../etc/passwd", "engine": ""}


@pytest.mark.parametrize("batch", ["abc", "-5", "1e99", "nan"])
def test_a_link_with_nonsense_still_answers_and_says_what_it_ignored(
    batch: str, golden: Golden
) -> None:
    test = app(
        acceptance="2.4@3", batch_size=batch, not_a_setting="1", model_config_json="!!!", **NONSENSE
    )
    assert answered(test)
    ignored = "\n".join(item.value for item in test.warning).replace("\\", "")
    assert [name for name in ("batch_size", *NONSENSE) if f"for {name} = " not in ignored] == []
    golden(not_setting=lines_with(ignored, "'not_a_setting', which"))
    golden(model_config=lines_with(ignored, "model_config_json in"))
    assert "<script>" not in texts(test)


@pytest.mark.parametrize(
    "acceptance", ["9@3", "abc", "1.5,2", "@", "2.4@0", "nan@3", "2.4@3; drop"]
)
@pytest.mark.parametrize("page", ["serve", "design", "share"])
def test_an_impossible_accepted_length_is_one_clear_message(page: str, acceptance: str) -> None:
    test = app(page, acceptance=acceptance)
    assert len(test.error) == 1
    assert "accept" in test.error[0].value
    assert not charts(test)


def test_a_placement_that_cannot_be_is_one_clear_message() -> None:
    test = app(n_gpus="8", tensor_parallel="3", acceptance="2.4@3")
    assert len(test.error) == 1
    assert "divisor" in test.error[0].value.replace("\\", "")
    assert "TP" in test.error[0].value, "the label on screen"
    assert "tensor" not in test.error[0].value


def test_an_uploaded_config_json_becomes_the_model() -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload(
        "tiny.json", CONFIG_JSON.encode(), "application/json"
    ).run()
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == "own-tiny"
    assert json.loads(scenario.model_config_json) == CONFIG
    assert answered(test)
    test.selectbox(key="model_id").set_value("qwen3-30b-a3b").run()
    assert test.session_state["_scenario"].model_config_json is None


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\x89PNG\xff\x00", b'{"model_type": "mixtral"}', b""]
)
def test_a_broken_config_json_is_one_message_and_the_answer_stays(content: bytes) -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("broken.json", content, "application/json").run()
    assert not test.exception
    assert len(test.error) == 1
    assert test.session_state["_scenario"].model_id == "qwen3-30b-a3b"
    assert answered(test)


def give_text(test: AppTest, text: str) -> AppTest:
    test.text_area(key="config_text").set_value(text).run()
    assert not test.exception
    return test


def test_a_bad_paste_goes_back_to_the_shipped_model_and_an_emptied_box_clears_its_error(
    golden: Golden,
) -> None:
    test = app(acceptance="2.4@3", model_id="gpt-oss-20b")
    give_text(test, CONFIG_JSON)
    give_text(test, "{")
    assert test.session_state["_scenario"].model_id == "gpt-oss-20b"
    assert test.session_state["_scenario"].model_config_json is None
    assert len(test.error) == 1
    golden(answers_gpt=test.warning[0].value)
    assert answered(test)
    give_text(test, "")
    assert not test.error
    assert not any("not usable" in item.value for item in test.warning)
    give_text(test, CONFIG_JSON)
    give_text(test, " ")
    assert test.session_state["_scenario"].model_id == "gpt-oss-20b"


def test_an_emptied_box_keeps_the_model_of_the_file() -> None:
    test = app(acceptance="2.4@3")
    give_text(test, "{")
    test.file_uploader(key="config_file").upload(
        "tiny.json", CONFIG_JSON.encode(), "application/json"
    ).run()
    give_text(test, "")
    assert test.session_state["_scenario"].model_id == "own-tiny"
    assert not test.error


def test_a_second_pasted_configuration_gets_a_name_of_its_own() -> None:
    test = app(acceptance="2.4@3")
    other = json.dumps(CONFIG | {"num_hidden_layers": 8})
    assert give_text(test, CONFIG_JSON).session_state["_scenario"].model_id == "own-mixtral"
    assert give_text(test, other).session_state["_scenario"].model_id == "own-mixtral-2"
    assert test.session_state["_scenario"].model_config_json == other
    again = give_text(test, CONFIG_JSON).session_state["_scenario"]
    assert (again.model_id, again.model_config_json) == ("own-mixtral", CONFIG_JSON)


def test_no_page_has_an_icon_that_the_browser_would_fetch() -> None:
    pages = re.findall(
        r"st\.Page\((.*?)\)", (ROOT / "app.py").read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(pages) == 2, "the five pages and the old paths"
    assert not [page for page in pages if "icon" in page]


def test_a_link_round_trips_through_the_address_shown() -> None:
    scenario = Scenario(
        acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, k_max=4
    )
    shown = link_to(scenario, "http://127.0.0.1:8501/why?batch_size=3#x")
    assert shown.startswith("http://127.0.0.1:8501/why?")
    assert Scenario.from_query(shown.split("?", 1)[1]) == scenario


def test_text_from_users_loses_its_markup() -> None:
    assert widgets_plain("a*b [x](y) :red[z]") == r"a\*b \[x\](y) \:red\[z\]"


@pytest.fixture
def measured_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A store of the shipped data sets, without the kernel tables."""
    from advisor.measured.store_build import build

    path = tmp_path / "store.duckdb"
    build(path, kernels=None)
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))
    return path


@pytest.mark.usefixtures("measured_store")
def test_published_points_of_the_same_hardware_and_model_are_in_the_chart_and_the_evidence() -> (
    None
):
    asked = {"model_id": "gpt-oss-20b", "drafter_id": "eagle3", "acceptance": "2.4@3"}
    here = app("serve", "Evidence", hardware_id="b200-sxm", **asked)
    points = live(here)["published"]
    assert any(point[3] for point in points)
    near = here.dataframe[0].value
    assert {"Measured", "Model"} <= set(near.columns)
    assert (near["Model"] != "").all()
    assert live(app(hardware_id="l40s", **asked))["published"] == []


@pytest.mark.usefixtures("measured_store")
def test_measurements_show_what_the_store_holds(golden: Golden) -> None:
    test = trusted("trust_data", hardware_id="b200-sxm", model_id="gpt-oss-20b", acceptance="2.4@3")
    assert telling(test, "no measured") == []
    assert "published_speedups" in set(
        next(item.value for item in test.dataframe if "Data set" in item.value)["Data set"]
    )
    golden(kernel_tables=telling(test, "predictions use"))
    assert telling(test, "aiconfigurator-core")


def test_trust_s_groups_are_of_the_commonest_servers() -> None:
    test = trusted("trust_groups")
    groups = " ".join(test.dataframe[0].value["Group"])
    assert all(name in groups for name in ("All", "H100 SXM", "H200 SXM", "B200 SXM", "vLLM"))
    assert not charts(test), "no chart library"


def test_trust_is_one_page_that_folds_the_claims_of_the_sources_with_their_state() -> None:
    test = trusted("trust_claims", acceptance="2.4@3")
    claims = read_claims()
    shown = next(item.value for item in test.dataframe if "Claim" in item.value)
    assert len(shown) == len(claims)
    assert any(f"{len(claims)} claims" in part.label for part in test.expander)
    assert sorted(shown["State"]) == sorted(found.state for found in read_findings().values())
    assert not test.tabs
    folded = app("trust", acceptance="2.4@3")
    assert not folded.dataframe, "nothing is read before it is opened"
    drawn = live(folded, "sheet")
    assert drawn["headline"] == BOOK.say("headline", track_record().facts({}))
    assert "Nearest to this setup" in drawn["reason"]


@pytest.mark.parametrize(
    ("page", "name", "text"),
    [
        ("share", "load_price", "10001"),
        ("serve", "load_price", "10001"),
        ("trust", "acceptance", "serve"),
    ],
)
def test_a_link_that_asks_for_the_impossible_opens_and_says_so(page, name, text):
    test = app(page, **{name: text})
    assert text in " ".join(item.value for item in (*test.warning, *test.caption, *test.error))
