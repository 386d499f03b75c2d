"""Diagnosis on Measure: what is pasted is diagnosed, with the remedy in numbers; what is no run is refused in words."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from tests.answers.console_runs import block, launch
from tests.pages.app_page import opened
from tests.pages.test_uploads import upload, zone

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/diagnosis"
SLOW = (FIXTURES / "misconfigured.txt").read_text()
SERVED = {"hardware_id": "h200-sxm", "model_id": "qwen3-30b-a3b", "engine": "sglang", "acceptance": "2.4@3"}


def page(**query: str) -> AppTest:
    return opened("measure", **(SERVED | query))


def diagnosed(test: AppTest, text: str = "") -> AppTest:
    test.text_area(key="drop_text").set_value(text)
    test.button(key="read_drop_text").click().run()
    assert not test.exception, [item.value for item in test.exception]
    return test


def fixes(test: AppTest) -> list[str]:
    """Code blocks of the page; not the query of the bar's link and the command that measures."""
    return [item.value for item in test.code if not item.value.startswith(("?", "advisor profile"))]


def words(test: AppTest) -> str:
    kinds = (test.title, test.markdown, test.caption, test.error)
    return "\n".join(item.value for kind in kinds for item in kind).replace("\\", "")


def test_a_pasted_run_gets_its_sentence_a_card_with_the_fix_and_its_prediction() -> None:
    test = diagnosed(page(), SLOW)
    assert test.title[0].value == "The engine is misconfigured"
    assert "The engine is misconfigured: SGLang admits 48 requests" in words(test)
    assert fixes(test) == ["--max-running-requests N, the concurrency of the client"]
    assert "batch_size 128 sequences, above 48 sequences" in words(test)
    assert "Source: sgl-project/sglang pull request 34290" in words(test)
    table = test.table[-1].value
    assert [table.index.name, *table.columns] == [
        "Quantity",
        "Measured",
        "Predicted",
        "Likely range",
        "Measured / predicted",
    ]
    assert table.loc["Round of speculation", "Measured"] == "28.34 ms"
    assert not test.error


def test_the_bar_fills_what_the_text_does_not_say() -> None:
    one, other = (diagnosed(page(hardware_id=name), SLOW).table[-1].value for name in ("h200-sxm", "b200-sxm"))
    assert (one["Predicted"] != other["Predicted"]).any()
    assert (one["Measured"] == other["Measured"]).all()


def test_files_are_diagnosed_without_a_text() -> None:
    test = page()
    upload(test, "honest.csv", (FIXTURES / "honest.csv").read_bytes())
    test.button(key="diagnose").click().run()
    assert "Speculation does not pay at this batch on this hardware" in words(test)
    assert fixes(test) == ["python -m sglang.launch_server ... without --speculative-algorithm"]


def test_two_uploads_keep_their_launch_lines_and_the_verdict_names_the_bar_s_accelerator() -> None:
    files = [
        ("plain.txt", launch() + block(32.1), "text/plain"),
        ("drafted.txt", launch(7, "--enforce-eager") + block(70.1, 2.14), "text/plain"),
    ]
    for order in (files, files[::-1]):
        test = page(engine="vllm")
        zone(test).set_value([(name, text.encode(), kind) for name, text, kind in order]).run()
        assert "CUDA graphs are switched off" in words(test)
        assert "In drafted.txt, line 3" in words(test)
        assert "Judged as 1 x NVIDIA H200 SXM 141GB, the accelerator from the bar." in words(test)


def test_what_lacks_evidence_says_what_to_collect() -> None:
    test = diagnosed(page(), SLOW)
    wanted = next(item.value for item in test.dataframe if "What to collect" in item.value.columns)
    assert wanted["What to collect"].str.contains("prefix cache").any()


def test_errors_stand_beside_the_button_and_an_older_diagnosis_goes() -> None:
    test = diagnosed(page(), SLOW)
    diagnosed(test, "hello <b>there</b>")
    assert "Paste the launch line" in test.error[0].value
    assert not fixes(test)
    assert "open_mended" not in {button.key for button in test.button}


def test_the_remedy_is_told_in_numbers_and_opens_as_the_scenario() -> None:
    test = diagnosed(page(), SLOW)
    shown = remedy(test)
    assert {0, 1, 3} <= set(shown["K"])
    assert shown.loc[shown["K"] == 0, "Speedup"].item() == 1.0
    test.button(key="open_mended").click().run()
    assert not test.exception
    assert test.session_state["_scenario"].batch_size == 128


def test_the_rows_of_a_comparison_add_up() -> None:
    said = words(diagnosed(page(), SLOW))
    found = re.search(r"Speedup ([0-9.]+) of predicted: plain step ([0-9.]+) / round ([0-9]+\.[0-9]+)", said)
    assert found is not None
    speedup, plain, whole = map(float, found.groups())
    assert speedup == pytest.approx(plain / whole, abs=0.02)


BAR = {"hardware_id": "h200-sxm", "model_id": "deepseek-v3", "engine": "sglang", "drafter_id": "mtp", "n_gpus": "8"}
BAR |= {"tensor_parallel": "8", "acceptance": "2.17@3", "batch_size": "64", "context_tokens": "3000"}
USERS = "users,tps_base,tps_mtp3,gpu,notes\n64,35.1,30.2,H200,slow\n"
MEANS = {"users": "batch_size", "tps_base": "baseline_output_tok_per_s_per_user"}
MEANS |= {"tps_mtp3": "sd_output_tok_per_s_per_user", "gpu": "ignore", "notes": "ignore"}


def test_a_file_that_was_mapped_is_diagnosed_as_mapped_with_the_numbers_of_serve() -> None:
    test = upload(page(**BAR), "mine.csv", USERS.encode())
    for theirs, ours in MEANS.items():
        test.selectbox(key=f"map_{theirs}").set_value(ours)
    next(one for one in test.button if one.label == "Read with these columns").click().run()
    if any(one.key == "missing_draft_tokens_k" for one in test.text_input):
        test.text_input(key="missing_draft_tokens_k").set_value("3")
        test.button(key="fill_in").click().run()
    test.button(key="diagnose").click().run()
    assert not test.exception
    assert not test.error, [item.value for item in test.error]
    said = words(test)
    assert said.count("Switch speculation off at batch 64 (measured 0.86×) until the cause is found.") == 2
    assert "Switch speculation off at batch 64 (measured 0.86×) until the cause is found." in said
    assert "with accepted length 2.17 of the bar, since the run states none" in said
    scenario = test.session_state["_scenario"]
    curve = advise(scenario).curve
    at = curve.speedup[list(curve.batches).index(64)]
    shown = remedy(test).set_index("K")["Speedup"]
    assert [shown[k] for k in (1, 3)] == pytest.approx([at[curve.column(k)] for k in (1, 3)], abs=0.006)
    before = shown[3]
    test.button(key="use_implied_length").click().run()
    assert remedy(test).set_index("K")["Speedup"][3] < before, "the diagnosis follows the bar"


def test_a_launch_line_alone_is_judged_at_the_batch_of_the_bar() -> None:
    line = "python -m sglang.launch_server --model-path m --tp 8 --speculative-algorithm NEXTN"
    line += " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    said = words(diagnosed(page(**BAR), line))
    assert "SGLang admits 48 requests" in said
    assert "batch_size 64 sequences, above 48 sequences" in said
    assert "--max-num-seqs" not in said
    assert "above 48 sequences" not in words(diagnosed(page(**BAR | {"batch_size": "32"}), line))


def remedy(test: AppTest) -> pd.DataFrame:
    return next(item.value for item in test.dataframe if "Best of these" in item.value.columns)
