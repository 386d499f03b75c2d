"""The Measurements page with a user's own files: read, refit, undo, keep, forget; files that must
not break it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.diagnosis.verdict import Verdict
from advisor.measured.ingest import rows
from advisor.measured.ingest.rows import evaluate
from advisor.measured.refit_result import RefitResult
from advisor.predict.scenario import START_ACCEPTANCE, Scenario, nearest_acceptance
from advisor.ui import state
from tests.golden.sentences import Golden
from tests.measured.refit_synthetic import benchmark_csv
from tests.measured.test_own_points import rows as sweep_rows
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import go_to, keys, live, opened, press, telling, texts, titles

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/ingest"
COLUMNS = "Read with these columns"
UNTOUCHED = "Compare your server with the model"


@pytest.fixture(scope="module")
def points() -> bytes:
    return benchmark_csv()


def page(**query: str) -> AppTest:
    return opened("measure", **({"acceptance": "2.4@3"} | query))


def zone(test: AppTest) -> Any:
    """The drop zone, whose key is another after everything was forgotten."""
    return next(item for item in test.file_uploader if str(item.key).startswith("drop_"))


def judged(test: AppTest) -> Verdict:
    """The verdict that the page shows."""
    return test.session_state["_diagnosis"].verdict


def upload(test: AppTest, name: str, data: bytes) -> AppTest:
    """Drop one file, in place of those that are in the zone."""
    zone(test).clear()
    zone(test).upload(name, data, "application/octet-stream").run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def pasted(test: AppTest, text: str) -> AppTest:
    """Put text in the box and have it read."""
    test.text_area(key="drop_text").set_value(text)  # in a form: read together with its button
    return press(test, "read_drop_text")


def frame(test: AppTest) -> pd.DataFrame:
    """The rows that were read."""
    return test.session_state["_upload"].result.frame


def read_as(test: AppTest) -> pd.DataFrame:
    """What was read as what."""
    found = next(item.value for item in test.dataframe if "Read from" in item.value)
    return found.replace(r"\\", "", regex=True)


def refit_of(test: AppTest) -> RefitResult | None:
    """What the rows moved. None where they were not refitted, or that is undone."""
    if "_upload_refit" not in test.session_state:
        return None
    stored = test.session_state["_upload_refit"]
    return stored and stored[1]


def scenario(test: AppTest) -> Scenario:
    """The scenario of the session."""
    return test.session_state["_scenario"]


def alts(test: AppTest) -> list[str]:
    return [chart.proto.alt for chart in test.get("plotly_chart")]


def test_an_upload_is_read_refitted_known_when_it_comes_again_and_the_refit_undone(
    points: bytes, golden: Golden
) -> None:
    test = upload(page(), "mine.csv", points)
    assert len(frame(test)) == 14
    press(test, "refit_upload")
    assert not test.error
    assert refit_of(test).n_points == 13
    (outlier,) = refit_of(test).outliers
    assert outlier.line == 8
    golden(moved=telling(test, "moved"))
    assert any("before and" in alt for alt in alts(test))
    upload(test, "copy of mine.csv", points)
    golden(again=telling(test, "already"))
    assert refit_of(test)
    assert titles(page()) == [UNTOUCHED], "another session"
    press(test, "undo_refit")
    assert not any("before and" in alt for alt in alts(test))
    assert refit_of(test) is None
    assert "undo_refit" not in keys(test)


def test_a_file_of_another_model_is_not_filled_in_from_the_bar_and_does_not_go_on_one_gpu(
    golden: Golden,
) -> None:
    lines = ["model_id,engine,batch_size,draft_tokens_k,accepted_length,tpot_s"]
    lines += [
        f"deepseek-v3,vllm,{b},1,1.8,{s}"
        for b, s in ((1, 0.012), (4, 0.014), (16, 0.02), (64, 0.03))
    ]
    test = upload(
        page(hardware_id="b200-sxm", model_id="gpt-oss-20b"),
        "theirs.csv",
        "\n".join(lines).encode(),
    )
    assert set(frame(test)["hardware_id"]) == {"b200-sxm"}
    assert test.selectbox(key="missing_drafter").value == "mtp", "the model's own, to be confirmed"
    assert "missing_gpu_count" not in {item.key for item in test.text_input}, (
        "one of the two is asked"
    )
    golden(of_another=telling(test, "DeepSeek-V3"))
    press(test, "Confirm and compare")
    golden(open=test.error[0].value)
    test.text_input(key="missing_tensor_parallel").set_value("8")
    press(test, "Confirm and compare")
    assert (scenario(test).model_id, scenario(test).n_gpus, scenario(test).drafter_id) == (
        "deepseek-v3",
        8,
        "mtp",
    )
    golden(filled_in=telling(test, "Filled"), bar=telling(test, "bar is"))


BORROWED = "gpt-oss-20b-eagle3-mt-bench"
H100 = {
    "hardware_id": "h100-sxm",
    "model_id": "qwen3-30b-a3b",
    "drafter_id": "eagle3",
    "acceptance": BORROWED,
}
TPUT = """model,gpu_name,conc,tput_nospec,tput_k3
qwen3 30b,H100 SXM,1,180,310\nqwen3 30b,H100 SXM,8,1150,1720\nqwen3 30b,H100 SXM,64,5200,5600\n"""


def test_a_wide_table_under_its_own_headers_goes_to_its_verdict_with_no_question() -> None:
    test = upload(page(**H100), "mine.csv", TPUT.encode())
    assert "fill_in" not in keys(test)
    read = read_as(test)
    meant = dict(zip(read["Read from"], read["Meaning"], strict=True))
    assert [meant[name] for name in ("model", "gpu_name", "conc")] == [
        "Model",
        "Accelerator",
        "Batch",
    ]
    assert frame(test)["speedup"].round(3).tolist() == [1.722, 1.496, 1.077]
    assert frame(test)[["tpot_s", "output_tok_per_s", "step_time_s"]].isna().all(axis=None)


def test_no_column_is_shown_as_chosen_that_is_not_used() -> None:
    for name in ("accept_len", "tau"):
        lengths = zip(
            TPUT.splitlines(), (f"{name},p99_ttft_ms", "2.4,31", "2.4,32", "2.3,33"), strict=True
        )
        test = upload(
            page(**H100), "mine.csv", "\n".join(",".join(pair) for pair in lengths).encode()
        )
        assert test.selectbox(key="map_p99_ttft_ms").value == "ignore", "nothing is read from it"
        assert test.selectbox(key=f"map_{name}").value == "accepted_length"
        assert ("confirm" in test.title[0].value) == (name == "tau")
        if name == "tau":
            assert frame(test)["accepted_length"].isna().all()
            press(test, COLUMNS)
            read = read_as(test)
            assert ["Accepted length", "tau"] in read.to_numpy().tolist(), (
                "under the file's own name"
            )
        assert frame(test)["accepted_length"].tolist() == [2.4, 2.4, 2.3]
        assert frame(test)["ttft_s"].isna().all()


def test_why_rows_are_refused_stands_open() -> None:
    for data, refused in (
        (TPUT, False),
        (TPUT.replace("180", "fast").replace("1150", "1150 tok/s"), True),
    ):
        test = upload(page(**H100), "mine.csv", data.encode())
        (details,) = (item for item in test.expander if item.label.startswith("mine.csv: "))
        assert details.proto.expanded == refused
        assert any("1 row refused" in one.value for one in test.caption) == refused
        assert len(frame(test)) == (2 if refused else 3)


def test_an_accelerator_is_found_by_any_spelling_that_a_file_may_have(golden: Golden) -> None:
    test = upload(page(), "mine.csv", TPUT.replace("H100 SXM", "box 7").encode())
    asked = test.selectbox(key="known_hardware_id")
    golden(asked=asked.label)
    assert {"H100 SXM5 · 80 GiB", "A100 SXM4 · 80 GiB"} <= set(asked.options)
    counted = upload(page(), "mine.csv", TPUT.replace("H100 SXM", "8x H100-SXM5 80 GB").encode())
    assert set(zip(frame(counted)["hardware_id"], frame(counted)["gpu_count"], strict=True)) == {
        ("h100-sxm", 8)
    }


def test_refused_rows_are_listed_the_good_ones_stay_and_an_unknown_accelerator_is_asked_for(
    points: bytes,
) -> None:
    lines = points.replace(b"h200-sxm", b"our box").decode().splitlines()
    column = lines[0].split(",").index("batch_size")
    cells = lines[3].split(",")
    cells[column] = "-4"
    test = upload(page(), "mine.csv", "\n".join([*lines[:3], ",".join(cells), *lines[4:]]).encode())
    assert len(frame(test)) == 13
    rejected = next(item.value for item in test.dataframe if "reason" in item.value)
    assert rejected[["line", "column"]].to_numpy().tolist() == [[4, "batch_size"]]
    test.selectbox(key="known_hardware_id").set_value("h200-sxm")
    press(test, "Confirm and compare")
    assert frame(test)["hardware_id"].unique().tolist() == ["h200-sxm"]


@pytest.mark.parametrize(
    "file",
    sorted(set(FIXTURES.glob("*.*")) - set(FIXTURES.glob("*.md"))),
    ids=lambda file: file.name,
)
def test_every_sample_file_is_read_or_refused_in_one_message(file: Path) -> None:
    test = upload(page(), file.name, file.read_bytes())
    assert not ("_upload" in test.session_state and test.error)
    assert test.error or "_upload" in test.session_state or "_diagnosis_files" in test.session_state
    assert len(test.title) == 1
    assert len(test.error) <= 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x01\x02",
        b"{",
        b"a,b\n1,2\n",
        b"\x80\x04\x95",
        b"speedup,batch_size,k\n1e400,x,y\n",
        b"[" * 10_000,
    ],
)
def test_a_hostile_file_is_one_message_and_the_page_stays(data: bytes) -> None:
    test = upload(page(), "x*y:red[z].csv", data)
    assert len(test.error) == 1 or any("refused" in item.label for item in test.expander)
    assert len(test.title) == 1


OWN = b"users;drafted tokens;gain;gap (ms);box\n1;3;1,9;5;H200\n8;3;1,7;9;H200\n32;3;1,4;14;H200\n"


def test_headers_of_ones_own_are_mapped_in_a_form_that_guesses_and_takes_each_meaning_once(
    golden: Golden,
) -> None:
    test = upload(page(), "own.csv", OWN)
    assert "not recognized" in test.error[0].value
    guesses = {
        str(item.key)[4:]: item.value for item in test.selectbox if str(item.key).startswith("map_")
    }
    meant = {
        "users": "batch_size",
        "drafted tokens": "draft_tokens_k",
        "gain": "speedup",
        "gap (ms)": "itl_ms",
    }
    assert guesses == meant | {"box": "hardware_id"}, "by its cells"
    test.selectbox(key="map_gap (ms)").set_value("speedup")
    press(test, COLUMNS)
    golden(twice=test.error[0].value)
    test.selectbox(key="map_gap (ms)").set_value("itl_ms")
    press(test, COLUMNS)
    assert not test.error
    found = frame(test)
    assert found["batch_size"].tolist() == [1, 8, 32]
    assert found["itl_s"].tolist() == pytest.approx([0.005, 0.009, 0.014])
    assert set(found["hardware_id"]) == {"h200-sxm"}


def test_swapped_columns_are_offered_the_other_way_round() -> None:
    lines = [
        "hardware_id,model_id,engine,batch_size,draft_tokens_k,accepted_length,drafter,speedup"
    ]
    lines += [f"{b},qwen3-30b-a3b,vllm,h200-sxm,3,2.4,eagle3,1.6" for b in (1, 4, 16)]
    test = upload(page(), "mine.csv", "\n".join(lines).encode())
    assert "look swapped" in texts(test)
    assert test.selectbox(key="map_hardware_id").value == "batch_size"
    press(test, COLUMNS)
    assert "look swapped" not in texts(test)
    assert frame(test)["batch_size"].tolist() == [1, 4, 16]


def test_the_baseline_may_lie_in_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(
        rows, "evaluate", lambda table: checked.append(table.file_name) or evaluate(table)
    )
    head = "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms,tensor_parallel,drafter,accepted_length"  # noqa: E501
    runs = ("1,0,5,1,,", "1,3,3,1,eagle3,2.4", "16,0,10,1,,", "16,3,8,1,eagle3,2.4")
    files = [
        (f"{n}.csv", f"{head}\nh200-sxm,qwen3-30b-a3b,vllm,{run}\n".encode(), "")
        for n, run in enumerate(runs)
    ]
    test = page()
    zone(test).set_value(files).run()
    assert not test.error
    assert frame(test)["speedup"].dropna().round(3).tolist() == [round(5 / 3, 3), 1.25]
    assert [source.before for source in test.session_state["_upload"].sources] == [0, 2, 4, 6]
    together = [one for one in checked if not one.endswith("csv")]
    assert together == ["4 files"] * 2, "all files together, as they are and with what the bar says"


def test_a_refit_in_use_is_predicted_with_on_every_page_marked_and_undone_in_one_click(
    points: bytes, golden: Golden
) -> None:
    test = press(upload(page(), "mine.csv", points), "refit_upload", "use_refit")
    assert test.button(key="use_refit").disabled
    refit = scenario(test).refit
    assert test.query_params["refit"] == refit
    for name in ("serve", "design", "share", "trust"):
        go_to(test, name).run(timeout=120)
        assert not test.exception
        assert "undo_refit_in_use" in keys(test)
        golden(**{name: telling(test, "Refitted on 13")})
    go_to(test, "serve").run()
    used = live(test)["speedup"]
    other = page(refit=refit)
    go_to(other, "serve").run()
    assert live(other)["speedup"] == used
    test.session_state["engine"] = "sglang"
    test.run()
    golden(unused=telling(test, "constants"))
    assert scenario(test).refit is None
    test.session_state["engine"] = "vllm"
    test.run()
    assert live(test)["speedup"] == used
    press(test, "undo_refit_in_use")
    assert "uploaded points" not in texts(test)
    assert live(test)["speedup"] != used
    assert "refit" not in test.query_params


def test_a_plain_sweep_is_drawn_beside_the_model_used_on_every_page_and_undone(
    golden: Golden,
) -> None:
    test = upload(page(acceptance="3.2@5"), "plain.csv", sweep_rows(slower=1.25).encode())
    golden(
        sweep=telling(test, "plain sweep"),
        title=test.title[0].value,
    )
    assert judged(test).case == "faster", "the speedup; 25% more per token lies in its range"
    press(test, "use_plain_sweep")
    assert test.button(key="use_plain_sweep").disabled
    assert test.query_params["plain_sweep"] == scenario(test).plain_sweep
    go_to(test, "serve").run()
    golden(used=telling(test, "plain sweep"))
    test.session_state["engine"] = "sglang"
    test.run()
    assert scenario(test).plain_sweep is None
    golden(unused=telling(test, "plain sweep"))
    press(test, "undo_plain_sweep")
    assert "plain sweep" not in texts(test)


def test_a_link_with_a_damaged_refit_says_so_and_answers_with_the_shipped_constants(
    golden: Golden,
) -> None:
    test = page(refit="on=<b>/x;n=1")
    golden(damaged=telling(test, "refit"))
    assert scenario(test).refit is None


def test_acceptance_by_position_of_an_uploaded_run_is_used_in_the_scenario() -> None:
    test = upload(page(), "serve.jsonl", (FIXTURES / "vllm_serve_constructed.jsonl").read_bytes())
    assert "0.7, 0.45, 0.25" in test.selectbox(key="own_acceptance").value
    press(test, "use_own_acceptance")
    assert scenario(test).acceptance == "0.7,0.6429,0.5556"


def test_a_pasted_console_block_is_read_and_a_near_miss_says_what_it_lacks(golden: Golden) -> None:
    block = "\n".join((FIXTURES / "serving_console_constructed.txt").read_text().splitlines()[1:44])
    test = pasted(page(), block)
    labels = [
        item.label
        for item in test.expander
        if "the console block of a serving benchmark" in item.label
    ]
    assert any("1 row read" in label for label in labels)
    assert frame(test)["tpot_s"].tolist() == pytest.approx([0.004])
    pasted(test, '{"output_throughput": 5, "n": 1}')
    golden(nearly=test.error[0].value)


def test_a_name_that_the_file_states_can_be_changed_on_the_page(golden: Golden) -> None:
    lines = "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms\nh200-sxm,qwen3-30b-a3b,vllm,8,0,7.5"  # noqa: E501
    test = upload(page(), "mine.csv", lines.encode())
    test.selectbox(key="stated_model_id").select("qwen3-235b-a22b")
    press(test, "fill_in_more")
    assert frame(test)["model_id"].tolist() == ["qwen3-235b-a22b"]
    golden(replaced=telling(test, "the file states"))


RUNS = (
    b"batch size,speculation,K,TPOT (ms),accepted length\n"
    b"1,no,0,4.9,\n1,eagle3,3,3.4,2.4\n8,no,0,8.6,\n8,eagle3,3,5.9,2.38\n32,eagle3,3,9.9,2.36\n"
)
"""Five runs as a newcomer writes them down."""
BENCH = b"""{"date": "20261120-141500", "backend": "vllm", "model_id": "Qwen/Qwen3-30B-A3B", "num_prompts": 320,
"max_concurrency": 32, "duration": 172.4, "completed": 320, "total_input_tokens": 1310720,
"total_output_tokens": 163840, "request_throughput": 1.856, "output_throughput": 950.3,
"total_token_throughput": 8553.0, "mean_ttft_ms": 812.4, "mean_tpot_ms": 14.61, "mean_itl_ms": 14.6}"""  # noqa: E501
"""CONSTRUCTED as `vllm bench serve --save-result` writes it: the run without drafts at batch 32."""
BAR = {"hardware_id": "h100-sxm", "n_gpus": "2", "tensor_parallel": "2", "batch_size": "32"}


def test_what_cannot_be_read_leaves_what_was_read_filled_in_and_refitted_before(
    golden: Golden,
) -> None:
    good = ("runs.csv", RUNS, "")
    stays = "What was read before stays: runs.csv."
    table = (
        b"num_tokens,hidden_size,inter_size,topk,num_experts,latency\n"
        + b"16,2048,768,8,128,0.1\n" * 3
    )
    cut = ("cut.json", BENCH[:200], "")
    test = press(upload(page(**BAR), "runs.csv", RUNS), "refit_upload")
    for files, words in (
        ([good, cut], f"cut.json.*{stays}$"),
        ([cut], f"cut.json.*{stays}$"),
        ([good, ("moe.csv", table, "")], "cannot be read as one"),
        ([good], ""),
    ):
        zone(test).set_value(files).run()
        assert not test.exception
        assert len(test.error) == bool(words)
        assert all(re.search(words, item.value.replace("\\", "")) for item in test.error)
        assert (len(frame(test)), set(frame(test)["gpu_count"])) == (5, {2})
        assert refit_of(test)
    pasted(test, "{")
    assert stays in test.error[0].value
    assert len(frame(test)) == 5
    at_once = page(**BAR)
    zone(at_once).set_value([good, cut, ("copy.csv", RUNS, "")]).run()
    assert ["cut.json" in item.value for item in at_once.error] == [True]
    golden(same=telling(at_once, "copy.csv"))
    assert len(frame(at_once)) == 5


def test_columns_are_listed_in_words_and_correcting_one_keeps_what_was_filled_in() -> None:
    test = upload(page(**BAR), "runs.csv", RUNS)
    named = {"Time per output token of one request (tpot_ms)", "Draft length K (draft_tokens_k)"}
    assert named <= set(test.selectbox(key="map_TPOT (ms)").options)
    test.selectbox(key="map_speculation").set_value("notes")
    press(test, COLUMNS)
    assert not test.error
    assert frame(test)["notes"].tolist() == ["no", "eagle3", "no", "eagle3", "eagle3"]
    assert set(zip(frame(test)["hardware_id"], frame(test)["gpu_count"], strict=True)) == {
        ("h100-sxm", 2)
    }


def test_undoing_a_refit_or_forgetting_its_upload_ends_its_use_and_one_that_came_by_a_link_stays(
    points: bytes, golden: Golden
) -> None:
    test = upload(page(), "mine.csv", points)
    assert "refit" in test.button(key="forget").help
    press(test, "refit_upload", "use_refit")
    carried = scenario(test).refit
    before = zone(test).key
    press(test, "undo_refit")
    assert carried
    assert scenario(test).refit is None
    press(test, "refit_upload", "use_refit", "forget")
    assert scenario(test).refit is None
    golden(forgotten=telling(test, "constants again"))
    assert zone(test).key != before
    assert not zone(test).value
    assert titles(test) == [UNTOUCHED]
    other = press(upload(page(refit=carried), "runs.csv", RUNS), "forget")
    assert telling(other, "constants again") == []
    assert scenario(other).refit == carried


def test_of_two_files_one_is_mapped_by_itself(golden: Golden) -> None:
    test = page(**BAR)
    zone(test).set_value([("runs.csv", RUNS, ""), ("vllm_bench.json", BENCH, "")]).run()
    test.selectbox(key="map_0_speculation").set_value("notes")
    press(test, COLUMNS)
    assert frame(test)["notes"].dropna().tolist() == ["no", "eagle3", "no", "eagle3", "eagle3"]
    assert len(frame(test)) == 6
    assert test.text_input(key="missing_input_tokens").value == "4096", "as the other file states"
    assert not test.error
    assert frame(test)["speedup"].dropna().round(3).tolist() == [
        1.441,
        1.458,
        round(14.61 / 9.9, 3),
    ]
    golden(lacks=telling(test, "prompt length"), baselines=telling(test, "baseline"))


def test_seconds_under_a_header_in_milliseconds_are_said_on_reading(golden: Golden) -> None:
    lines = ["batch size,K,TPOT (ms),accepted length"]
    lines += [
        f"{b},{k},{ms / 1e3},{2.4 if k else ''}"
        for b, k, ms in ((1, 0, 4.9), (1, 3, 3.4), (8, 0, 8.6))
    ]
    test = upload(page(**BAR), "runs_sec.csv", "\n".join(lines).encode())
    golden(on_reading=test.error[0].value)
    assert len(frame(test)) == 3, "the file stays"
    assert "refit_upload" not in keys(test), "no refit before that is answered"


WIDE = """batch,plain_tpot_ms,eagle3_tpot_ms,K,accepted_length
1,6.1,3.4,3,2.4\n2,6.6,3.9,3,2.4\n4,7.5,4.8,3,2.4\n8,8.9,6.0,3,2.4\n16,11.2,7.9,3,2.4\n32,14,10.8,3,2.4\n"""
ASKED = H100 | {"hardware_id": "h200-sxm"}


def test_a_wide_table_of_six_rows_reaches_yours_against_the_model_without_a_dead_end(
    golden: Golden,
) -> None:
    test = upload(page(**ASKED), "wide.csv", WIDE.encode())
    assert test.selectbox(key="map_plain_tpot_ms").value == "baseline_tpot_ms"
    assert not test.button(key="refit_upload").disabled, "the bar says the rest"
    press(test, "refit_upload")
    assert refit_of(test).n_points == 6
    assert "use_own_length" in keys(test)
    press(test, "use_refit")
    assert scenario(test).acceptance == "2.4@3", (
        "the length that the runs counted, not the borrowed one"
    )
    go_to(test, "serve").run(timeout=120)
    assert not test.exception
    assert len(live(test)["own"]) == 6
    golden(decision=telling(test, "Yours"))
    assert [link.proto.page for link in test.get("page_link")].count("measure") == 1
    press(test, "undo_refit_in_use")
    assert scenario(test).acceptance == BORROWED


def test_the_accepted_length_of_a_run_ends_with_its_model_or_drafter_and_with_its_file() -> None:
    for key, other in (("model_id", "gpt-oss-20b"), ("drafter_id", "eagle"), ("forget", "")):
        test = press(upload(page(**ASKED), "wide.csv", WIDE.encode()), "use_own_length")
        assert scenario(test).acceptance == "2.4@3"
        _ = test.selectbox(key=key).set_value(other).run() if other else press(test, key)
        assert not test.exception
        now = scenario(test)
        assert now.acceptance == nearest_acceptance(now.model_id, now.drafter_id, BORROWED)
        assert test.query_params["acceptance"] != ["2.4@3"], "the link shares what is shown"
        assert ("keep_own_length" in keys(test)) == bool(other)
        if other:
            press(test, "keep_own_length")
            assert scenario(test).acceptance == "2.4@3"
            assert "keep_own_length" not in keys(test)


def test_what_a_wide_table_counts_is_asked_on_the_page_where_its_headers_leave_it_open(
    golden: Golden,
) -> None:
    """A latency may be a whole round's, so that it is confirmed."""
    data = (
        WIDE.replace("plain_tpot_ms", "plain (ms)")
        .replace("eagle3_tpot_ms", "eagle3 (ms)")
        .encode()
    )
    test = upload(page(**ASKED), "wide.csv", data)
    golden(open=test.title[0].value)
    test.selectbox(key="missing_metric").set_value("tpot_ms")
    press(test, "fill_in", "refit_upload")
    assert refit_of(test).n_points == 6
    test = upload(page(**ON_B200), "wide.csv", LATENCIES + b"1,3,2.3,3.9,2.2\n16,3,3.5,6.1,2.2\n")
    golden(confirm=test.title[0].value)
    assert test.selectbox(key="missing_metric").value == "tpot_ms"


def test_what_a_comma_marks_is_asked_and_the_answer_holds_when_columns_are_chosen_again(
    golden: Golden,
) -> None:
    rows = b"h200-sxm;qwen3-30b-a3b;vllm;eagle3;1;3;2.5;8,310;1\nh200-sxm;qwen3-30b-a3b;vllm;eagle3;8;3;2.5;12,450;1\n"  # noqa: E501
    head = b"hardware_id;model_id;engine;drafter;batch_size;draft_tokens_k;accepted_length;tpot_ms;box\n"  # noqa: E501
    test = upload(page(), "own.csv", head + rows)
    golden(asked=telling(test, "comma"))
    test.selectbox(key="map_comma").set_value("decimal")
    press(test, COLUMNS)
    assert frame(test)["tpot_s"].tolist() == pytest.approx([0.00831, 0.01245])
    assert "map_comma" not in {item.key for item in test.selectbox}
    test.selectbox(key="map_box").set_value("gpu_count")
    press(test, COLUMNS)
    assert frame(test)["gpu_count"].tolist() == [1, 1]
    assert frame(test)["tpot_s"].tolist() == pytest.approx([0.00831, 0.01245])


LATENCIES = b"concurrency,num_speculative_tokens,tpot_plain_ms,itl_with_eagle,acceptance_length\n"
ON_B200 = {"hardware_id": "b200-sxm", "model_id": "gpt-oss-20b", "acceptance": "2.7@3"}


def test_a_wide_table_that_calls_one_latency_tpot_and_the_other_itl_gets_its_verdict(
    golden: Golden,
) -> None:
    rows = (
        "1,3,2.32,2.0,2.2",
        "4,3,2.72,2.35,2.2",
        "16,3,3.55,2.9,2.2",
        "64,3,5.0,4.55,2.2",
        "128,3,6.4,6.6,2.2",
    )
    test = upload(page(**ON_B200), "wide.csv", LATENCIES + "\n".join(rows).encode())
    verdict = judged(test)
    assert [(span.k, span.batches[-1]) for span in verdict.decision.spans] == [(3, 64), (0, 128)]
    assert (verdict.length, verdict.stated_length) == pytest.approx((2.2, 2.7), abs=0.01)
    golden(decision=test.title[0].value, taken=telling(test, "From the bar"))
    assert "use_own_length" in keys(test)
    assert "fill_in" not in keys(test), "nothing is asked"
    press(test, "use_own_length")
    assert scenario(test).acceptance == "2.2@3"
    assert judged(test).case == "agrees"


OTHER = "Your runs are of another scenario"


def theirs(drafter: str) -> AppTest:
    """Three runs of another model on another accelerator than the bar's."""
    lines = [
        "hardware_id,model_id,engine,batch_size,draft_tokens_k,accepted_length,drafter,speedup,tensor_parallel"
    ]
    lines += [f"h200-sxm,qwen3-30b-a3b,vllm,{b},3,2.4,{drafter},1.3,1" for b in (1, 4, 16)]
    test = upload(page(**ON_B200), "theirs.csv", "\n".join(lines).encode())
    assert test.title[0].value == OTHER
    return test


def test_a_bar_that_is_set_after_the_drop_is_what_the_file_is_read_by() -> None:
    data = (
        b"users,spec,tpot_ms\n1,off,9.8\n1,2,6.4\n16,off,14.9\n16,2,12.1\n64,off,25.3\n64,2,29.7\n"
    )
    test = upload(page(model_id="gpt-oss-20b", hardware_id="b200-sxm"), "runs.csv", data)
    test.selectbox(key="model_id").set_value("qwen3-235b-a22b").run()
    test.selectbox(key="hardware_id").set_value("h200-sxm").run()
    test.text_input(key="n_gpus_typed").set_value("8").run()
    read = test.session_state["_upload"].result.frame
    for column, value in (
        ("gpu_count", 8),
        ("tensor_parallel", 8),
        ("model_id", "qwen3-235b-a22b"),
    ):
        assert set(read[column]) == {value}
    assert telling(test, "another scenario") == []
    assert telling(test, "the file states") == []
    assert judged(test).decision.spans[0].first == pytest.approx(1.53, abs=0.005)


def test_a_file_of_another_scenario_sets_the_bar_in_one_click() -> None:
    test = press(theirs("eagle3"), "bar_to_file")
    assert (scenario(test).hardware_id, scenario(test).model_id) == ("h200-sxm", "qwen3-30b-a3b")
    assert test.title[0].value != OTHER
    assert not test.session_state["_upload"].result.frame.empty
    assert "bar_to_file" not in keys(test)


def test_a_file_of_a_scenario_that_cannot_be_leaves_the_bar_and_the_page_whole(
    golden: Golden,
) -> None:
    test = theirs("mtp")
    assert "bar_to_file" not in keys(test), "this model has no MTP module"
    test.session_state["model_id"] = "qwen3-30b-a3b"
    test.session_state["drafter_id"] = "mtp"
    test.run()
    assert not test.exception, "Share opens where there is no answer"
    golden(refused=test.error[0].value)


def test_a_power_log_is_read(golden: Golden) -> None:
    log = (FIXTURES.parent / "power/nvidia_smi_constructed.csv").read_bytes()
    golden(title=upload(page(), "power.csv", log).title[0].value)


def test_a_config_json_becomes_the_same_model_dropped_as_under_more(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """Its dimensions are those of a shipped model, whose measured curve holds for it."""
    monkeypatch.setattr(state, "known_as", lambda _: "kimi-k2")
    dropped = upload(page(acceptance=START_ACCEPTANCE), "config.json", CONFIG_JSON.encode())
    golden(model=telling(dropped, "parameters"))
    given = page(acceptance=START_ACCEPTANCE)
    given.file_uploader(key="config_file").upload(
        "tiny.json", CONFIG_JSON.encode(), "application/json"
    ).run()
    found = [scenario(one) for one in (dropped, given)]
    assert all(one.model_id.startswith("own-") for one in found)
    assert {one.acceptance for one in found} == {nearest_acceptance("kimi-k2", found[0].drafter_id)}
    assert START_ACCEPTANCE not in {one.acceptance for one in found}


def test_k_from_a_name_is_confirmed_and_the_refit_says_what_changed(golden: Golden) -> None:
    runs = ("1,165,221", "4,138,197", "8,118,171", "16,91,133", "32,66,88", "64,45,49")
    text = "users,tps_base,tps_mtp3,gpu,notes\n" + "".join(f"{run},H200,x\n" for run in runs)
    test = upload(page(hardware_id="h200-sxm"), "mine.csv", text.encode())
    golden(confirm=test.title[0].value)
    assert test.text_input(key="missing_draft_tokens_k").value == "3"
    assert test.session_state["_upload"].frame["draft_tokens_k"].isna().all()
    assert test.selectbox(key="missing_metric").value is None, "of one request or of all: asked"
    assert not any(
        "tpot_ms" in option or "/s" not in option
        for option in test.selectbox(key="missing_metric").options
    )
    test.selectbox(key="missing_metric").set_value("output_tok_per_s_per_user")
    test.selectbox(key="missing_drafter").set_value("eagle3")
    press(test, "Confirm and compare")
    golden(decision=test.title[0].value)
    assert not any(
        "not understood" in item.label or "not used" in item.label for item in test.expander
    )
    press(test, "refit_upload")
    golden(order=[item.value for item in test.subheader])
