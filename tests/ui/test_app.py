"""Each page through Streamlit's AppTest: what it says, links that restore it, nonsense that must not break it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from advisor.advice import advise
from advisor.prediction import AdvisorError
from advisor.scenario.scenario import Scenario
from advisor.text.numbers import with_prefix
from advisor.ui import address, answers, fields, state, widgets
from advisor.ui.formula import speedup_formula
from tests.app_page import opened as app
from tests.own_model import CONFIG, CONFIG_JSON

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("advise", "design", "why", "measurements", "sources")


def link(scenario: Scenario) -> dict[str, str]:
    return dict(parse_qsl(scenario.to_query()))


def texts(test: AppTest) -> str:
    kinds = (test.title, test.markdown, test.caption, test.warning, test.error, test.info, test.text)
    return "\n".join(item.value for kind in kinds for item in kind)


def charts(test: AppTest) -> list[object]:
    return list(test.get("plotly_chart"))


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_one_title_and_no_error(page: str) -> None:
    test = app(page)
    assert len(test.title) == 1
    assert not test.error


def test_the_first_screen_answers_and_names_the_accepted_length_it_assumes() -> None:
    test = app()
    answer = advise(Scenario(acceptance=fields.START_ACCEPTANCE)).recommendation
    assert f"draft K = {answer.k_draft}" in test.title[0].value
    assert f"{answer.speedup.value:.2f}x" in test.title[0].value
    assert "Accepted length: gpt-oss-20b with eagle3 on MT-Bench" in texts(test)
    assert test.metric[0].value == f"{answer.speedup.value:.2f}x"
    assert test.metric[1].value == f"{answer.tpot_s * 1e3:.2f} ms"
    assert len(charts(test)) == 1


def test_the_sidebar_starts_at_the_scenario_s_own_defaults() -> None:
    test = app()
    assert test.session_state["_scenario"] == Scenario(acceptance=fields.START_ACCEPTANCE)


def test_every_scenario_field_has_a_widget() -> None:
    test = app()
    shown = {item.key for kind in (test.selectbox, test.number_input) for item in kind}
    assert shown >= set(fields.NAMES) - fields.WITHOUT_WIDGET


def test_a_link_restores_every_field() -> None:
    scenario = Scenario(
        hardware_id="b200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        expert_parallel=8,
        model_id="deepseek-v3",
        batch_size=64,
        context_tokens=4096,
        drafter_id="mtp",
        acceptance="2.4@3",
        engine="sglang",
        k_max=5,
        weight_dtype="fp8",
        expert_dtype="mxfp4",
        kv_dtype="fp8",
        routing="uniform",
        input_tokens=1000,
        output_tokens=500,
        max_tpot_ms=55.5,
    )
    test = app(**link(scenario))
    assert test.session_state["_scenario"] == scenario
    assert not [item.value for item in test.warning if "link" in item.value]


def test_a_link_restores_the_user_s_own_model() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, batch_size=4)
    test = app(**link(scenario))
    assert test.session_state["_scenario"] == scenario


def test_an_own_model_link_without_a_name_gets_one() -> None:
    test = app(**link(Scenario(acceptance="2.4@3", model_config_json=CONFIG_JSON)))
    restored = test.session_state["_scenario"]
    assert restored.model_id == "own-mixtral"
    assert restored.model_config_json == CONFIG_JSON


def test_changing_the_batch_changes_the_verdict() -> None:
    test = app()
    before = test.title[0].value
    test.number_input(key="batch_size").set_value(512).run()
    assert "at batch 512" in test.title[0].value.lower()
    assert test.title[0].value != before


def test_a_smaller_k_max_limits_the_answer() -> None:
    test = app(acceptance="0.9,0.9,0.9,0.9,0.9")
    assert "K = 1:" not in test.title[0].value
    test.number_input(key="k_max").set_value(1).run()
    assert "K = 1:" in test.title[0].value


def test_choosing_another_model_takes_its_own_measured_acceptance() -> None:
    test = app()
    test.selectbox(key="drafter_id").set_value("mtp").run()
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert test.session_state["_scenario"].acceptance == "deepseek-r1-mtp-internal"


def test_the_user_s_own_acceptance_survives_another_model() -> None:
    test = app(acceptance="2.4@3")
    test.selectbox(key="model_id").set_value("deepseek-v3").run()
    assert test.session_state["_scenario"].acceptance == "2.4@3"


def test_more_gpus_widen_the_tensor_parallelism_and_a_placement_buys_its_gpus() -> None:
    test = app()
    test.number_input(key="n_gpus").set_value(8).run()
    assert test.session_state["_scenario"].tensor_parallel == 8
    test.number_input(key="tensor_parallel").set_value(2).run()
    test.number_input(key="expert_parallel").set_value(16).run()
    assert test.session_state["_scenario"].n_gpus == 16


def test_a_scenario_that_does_not_fit_says_so_above_the_chart() -> None:
    test = app(model_id="deepseek-v3", acceptance="2.4@3")
    assert "does not fit" in test.error[0].value
    assert any("weights" in item.value for item in test.warning)


def test_compared_k_are_drawn_on_demand() -> None:
    test = app()
    before = charts(test)[0].proto.spec
    assert '"name":"K = 1"' not in before
    test.get("button_group")[0].set_value([1]).run()
    assert '"name":"K = 1"' in charts(test)[0].proto.spec


def test_a_dense_model_has_an_answer_and_says_that_it_has_no_experts() -> None:
    test = app("why", model_id="command-a", acceptance="2.4@3")
    assert "no routed experts" in texts(test)
    assert len(charts(test)) == 3


def test_why_shows_the_formula_with_this_scenario_s_numbers() -> None:
    test = app("why", acceptance="2.4@3", k_max="3")
    advice = advise(test.session_state["_scenario"])
    column = advice.curve_k
    plain_ms = advice.curve.plain_step_s[advice.batch_index] * 1e3
    round_ms = advice.curve.round_s[advice.batch_index, column] * 1e3
    length, plain, round_ = (float(number) for number in re.findall(r"\d+\.\d+", test.latex[0].value)[:3])
    assert length == pytest.approx(advice.curve.accepted_length[column], rel=5e-3)
    assert plain == pytest.approx(plain_ms, rel=5e-3)
    assert round_ == pytest.approx(round_ms, rel=5e-3)
    assert len(charts(test)) == 4


@pytest.mark.parametrize("prefill_s", [0.0, 1.7e-4])
def test_the_formula_s_numbers_compute_to_the_speedup_it_shows(prefill_s: float) -> None:
    for plain_s in np.linspace(4.1e-3, 13.1e-3, 60):
        length, round_s = 3.127, 20.27e-3
        speedup = length * (plain_s + prefill_s) / (round_s + length * prefill_s)
        figures = answers.RoundFigures(4, 16, length, plain_s, 0.0, round_s, prefill_s, speedup, 1.0, {}, {})
        numbers = [float(number) for number in re.findall(r"\d+\.\d+", speedup_formula(figures))]
        if prefill_s:
            shown_length, plain, prefill, round_, again, once_more = numbers[:6]
            assert (shown_length, prefill) == (again, once_more)
        else:
            (shown_length, plain, round_), prefill = numbers[:3], 0.0
        computed = shown_length * (plain + prefill) / (round_ + shown_length * prefill)
        assert f"{computed:.2f}" == f"{numbers[-1]:.2f}" == f"{speedup:.2f}"


def test_every_chart_has_an_alt_text_with_its_finding() -> None:
    for page in ("advise", "why"):
        for chart in charts(app(page)):
            assert any(letter.isdigit() for letter in chart.proto.alt)


def test_measurements_without_a_store_name_the_command_that_builds_it() -> None:
    test = app("measurements")
    assert "no usable store" in test.warning[0].value
    assert test.main.code[0].value == "python -m advisor store build"


def test_a_file_that_is_no_store_is_reported_not_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"not a database")
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(broken))
    assert "no usable store" in app("measurements").warning[0].value
    assert len(charts(app())) == 1


def test_sources_list_what_the_scenario_used() -> None:
    test = app("sources")
    advice = advise(test.session_state["_scenario"])
    shown = texts(test)
    assert all(widgets.plain(source) in shown for source in advice.setup.sources)
    assert "1. Yaniv Leviathan" in shown
    assert "[arxiv.org](https://arxiv.org/abs/2503.01840) *For: drafter.*" in shown
    constants = next(table.value for table in test.dataframe if "Confidence" in table.value).set_index("Constant")
    assert constants.loc["Memory bandwidth", "Value"] == "4.8 TB/s"
    assert set(constants["Kind"]) <= {"vendor", "measured", "paper", "fitted", "assumed"}


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (4.8e12, "B/s", "4.8 TB/s"),
        (4.45e-6, "s", "4.45 µs"),
        (1e3, "B", "1 kB"),
        (0.5, "1", "0.5"),
        (1e21, "B", "1e+06 PB"),
        (1.979e15, "FLOP/s", "1,979 TFLOP/s"),
        (1.979e15, "OP/s", "1,979 TOP/s"),
    ],
)
def test_constants_are_shown_with_a_prefix(value: float, unit: str, shown: str) -> None:
    assert with_prefix(value, unit) == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", "abc"),
        ("batch_size", "-5"),
        ("batch_size", "1e99"),
        ("batch_size", "nan"),
        ("k_max", "1000000"),
        ("hardware_id", "h999"),
        ("model_id", "<script>alert(1)</script>"),
        ("engine", ""),
        ("max_tpot_ms", "inf"),
        ("routing", "../../etc/passwd"),
        ("not_a_setting", "1"),
    ],
)
def test_a_link_with_nonsense_still_answers_and_says_what_it_ignored(name: str, value: str) -> None:
    test = app(acceptance="2.4@3", **{name: value})
    assert len(charts(test)) == 1
    assert any(name in item.value for item in test.warning), [item.value for item in test.warning]
    assert "<script>" not in texts(test)


@pytest.mark.parametrize("acceptance", ["9@3", "abc", "1.5,2", "@", "2.4@0", "nan@3", "2.4@3; drop"])
@pytest.mark.parametrize("page", ["advise", "why", "sources"])
def test_an_impossible_accepted_length_is_one_clear_message(page: str, acceptance: str) -> None:
    test = app(page, acceptance=acceptance)
    assert len(test.error) == 1
    assert "accept" in test.error[0].value
    assert not charts(test)


def test_a_placement_that_cannot_be_is_one_clear_message() -> None:
    test = app(n_gpus="8", tensor_parallel="3", acceptance="2.4@3")
    assert len(test.error) == 1
    assert "divisor" in test.error[0].value.replace("\\", "")


def test_a_damaged_configuration_in_a_link_is_reported() -> None:
    test = app(acceptance="2.4@3", model_config_json="!!!")
    assert any("damaged" in item.value for item in test.warning)
    assert len(charts(test)) == 1


def test_an_uploaded_config_json_becomes_the_model() -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    scenario = test.session_state["_scenario"]
    assert scenario.model_id == "own-tiny"
    assert json.loads(scenario.model_config_json) == CONFIG
    assert len(charts(test)) == 1
    test.selectbox(key="model_id").set_value("qwen3-30b-a3b").run()
    assert test.session_state["_scenario"].model_config_json is None


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe\x00", b'{"model_type": "mixtral"}', b""])
def test_a_broken_config_json_is_one_message_and_the_answer_stays(content: bytes) -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("broken.json", content, "application/json").run()
    assert not test.exception
    assert len(test.error) == 1
    assert test.session_state["_scenario"].model_id == "qwen3-30b-a3b"
    assert len(charts(test)) == 1


def test_a_pasted_config_json_becomes_the_model() -> None:
    test = app(acceptance="2.4@3")
    test.text_area(key="config_text").set_value(CONFIG_JSON).run()
    assert test.session_state["_scenario"].model_id == "own-mixtral"


def give_text(test: AppTest, text: str) -> AppTest:
    test.text_area(key="config_text").set_value(text).run()
    assert not test.exception
    return test


def test_a_bad_paste_after_a_good_one_goes_back_to_the_shipped_model_and_says_so() -> None:
    test = app(acceptance="2.4@3", model_id="gpt-oss-20b")
    give_text(test, CONFIG_JSON)
    give_text(test, "{")
    assert test.session_state["_scenario"].model_id == "gpt-oss-20b"
    assert test.session_state["_scenario"].model_config_json is None
    assert len(test.sidebar.error) == 1
    assert "answers for gpt-oss-20b" in test.main.warning[0].value
    assert len(charts(test)) == 1


def test_an_emptied_box_clears_its_error_and_its_model() -> None:
    test = app(acceptance="2.4@3")
    give_text(test, "{")
    give_text(test, "")
    assert not test.error
    assert not any("not usable" in item.value for item in test.warning)
    give_text(test, CONFIG_JSON)
    give_text(test, " ")
    assert test.session_state["_scenario"].model_id == "qwen3-30b-a3b"


def test_an_emptied_box_keeps_the_model_of_the_file() -> None:
    test = app(acceptance="2.4@3")
    give_text(test, "{")
    test.file_uploader(key="config_file").upload("tiny.json", CONFIG_JSON.encode(), "application/json").run()
    give_text(test, "")
    assert test.session_state["_scenario"].model_id == "own-tiny"
    assert not test.error


def test_a_binary_file_is_refused_in_words() -> None:
    test = app(acceptance="2.4@3")
    test.file_uploader(key="config_file").upload("model.bin", b"\x89PNG\xff\x00", "application/octet-stream").run()
    assert "not text" in test.sidebar.error[0].value


def test_a_second_pasted_configuration_gets_a_name_of_its_own() -> None:
    test = app(acceptance="2.4@3")
    other = json.dumps(CONFIG | {"num_hidden_layers": 8})
    assert give_text(test, CONFIG_JSON).session_state["_scenario"].model_id == "own-mixtral"
    assert give_text(test, other).session_state["_scenario"].model_id == "own-mixtral-2"
    assert test.session_state["_scenario"].model_config_json == other
    again = give_text(test, CONFIG_JSON).session_state["_scenario"]
    assert (again.model_id, again.model_config_json) == ("own-mixtral", CONFIG_JSON)


def test_every_number_field_says_its_range() -> None:
    test = app()
    for field in test.sidebar.number_input:
        assert f"From {field.min:g} to {field.max:,.0f}." in field.help, field.key


def test_one_length_of_a_request_keeps_the_page_and_says_which_is_lacking() -> None:
    test = app(acceptance="2.4@3")
    before = test.session_state["_scenario"]
    test.number_input(key="input_tokens").set_value(1000).run()
    assert test.session_state["_scenario"] == before
    assert len(charts(test)) == 1
    assert any("Output tokens is not set" in item.value for item in test.sidebar.caption)
    test.number_input(key="output_tokens").set_value(500).run()
    assert test.session_state["_scenario"].input_tokens == 1000
    assert not any("is not set" in item.value for item in test.sidebar.caption)


def test_problems_use_the_labels_of_the_screen() -> None:
    words = app(n_gpus="8", tensor_parallel="3", acceptance="2.4@3").error[0].value
    assert "TP" in words
    assert "tensor" not in words


def test_the_limit_is_met_in_words_and_the_caption_names_it() -> None:
    plain = app(acceptance="2.4@3")
    assert not [table for table in plain.dataframe if "Meets the limit" in table.value]
    test = app(acceptance="2.4@3", max_tpot_ms="8")
    table = next(table.value for table in test.dataframe if "Meets the limit" in table.value)
    assert set(table["Meets the limit"]) == {"yes", "no"}
    assert any(
        item.value.startswith("The K of least expected loss") and "8 ms per output token" in item.value
        for item in test.main.caption
    )


def test_no_page_has_an_icon_that_the_browser_would_fetch() -> None:
    pages = re.findall(r"st\.Page\((.*?)\)", (ROOT / "app.py").read_text(encoding="utf-8"), re.DOTALL)
    assert len(pages) >= 7
    assert not [page for page in pages if "icon" in page]


def test_sources_number_their_texts_and_give_parameters_in_billions() -> None:
    test = app("sources")
    constants = next(table.value for table in test.dataframe if "Confidence" in table.value)
    assert constants["Source"].min() == 1
    assert any(item.value.startswith("1. ") and "\n2. " in item.value for item in test.main.caption)
    model = next(frame.value for frame in test.dataframe if "Quantity" in frame.value).set_index("Quantity")
    assert model.loc["Parameters", "Value"] == "30.53 billion"


def test_a_link_round_trips_through_the_address_shown() -> None:
    scenario = Scenario(acceptance="2.4@3", model_id="own-tiny", model_config_json=CONFIG_JSON, k_max=4)
    shown = address.link_to(scenario, "http://127.0.0.1:8501/why?batch_size=3#x")
    assert shown.startswith("http://127.0.0.1:8501/why?")
    assert Scenario.from_query(shown.split("?", 1)[1]) == scenario


def test_a_configuration_too_large_for_an_address_stays_out_of_it() -> None:
    import secrets

    padded = json.dumps(CONFIG | {"note": secrets.token_hex(address.MAX_LINK_CHARACTERS)})
    assert address.link_to(Scenario(acceptance="2.4@3", model_config_json=padded), None) is None


def test_csv_names_the_scenario_and_defuses_formulas() -> None:
    import pandas as pd

    data = pd.DataFrame({"name": ["=1+1", "plain"], "value": [-1.5, 2.0]})
    lines = widgets.csv_bytes(data, "abc123").decode().splitlines()
    assert lines == ["scenario_hash,name,value", "abc123,'=1+1,-1.5", "abc123,plain,2.0"]


def test_text_from_users_loses_its_markup() -> None:
    assert widgets.plain("a*b [x](y) :red[z]") == r"a\*b \[x\](y) \:red\[z\]"


def test_pages_are_short_and_hold_no_error_handling() -> None:
    for path in (ROOT / "advisor/ui/pages").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 120, path.name
        assert "try:" not in text, path.name


def test_an_own_model_is_refused_before_it_is_kept() -> None:
    with pytest.raises(AdvisorError):
        state.add_own_model("{}", "empty.json")


@pytest.fixture
def measured_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A store of the shipped data sets, without the kernel tables."""
    from advisor.store import build

    path = tmp_path / "store.duckdb"
    build(path, kernels=None)
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(path))
    return path


@pytest.mark.usefixtures("measured_store")
def test_published_points_of_the_same_hardware_and_model_are_on_the_chart() -> None:
    here = app(hardware_id="b200-sxm", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3")
    assert '"name":"published, eagle3"' in charts(here)[0].proto.spec
    elsewhere = app(hardware_id="l40s", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3")
    assert "published, " not in charts(elsewhere)[0].proto.spec


@pytest.mark.usefixtures("measured_store")
def test_measurements_show_what_the_store_holds() -> None:
    test = app("measurements", hardware_id="b200-sxm", model_id="gpt-oss-20b", acceptance="2.4@3")
    assert not any("no usable store" in item.value for item in test.warning)
    assert "published_speedups" in set(test.dataframe[0].value["Data set"])
    assert "kernel tables are not installed" in texts(test)
    assert any(item.label == "aiconfigurator-core" for item in test.metric)
    assert len(test.dataframe[1].value) >= 1
