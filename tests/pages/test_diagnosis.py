"""Diagnosis on Measure: what is pasted is diagnosed, with the remedy in numbers; what is no run is
refused in words."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from advisor.answers.advice import advise
from tests.answers.console_runs import block, launch
from tests.pages.app_page import opened, pasted_text, press, telling, texts
from tests.pages.test_uploads import judged, upload, zone

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures/diagnosis"
SLOW = (FIXTURES / "misconfigured.txt").read_text()
SERVED = {
    "hardware_id": "h200-sxm",
    "model_id": "qwen3-30b-a3b",
    "engine": "sglang",
    "acceptance": "2.4@3",
}


def page(**query: str) -> AppTest:
    return opened("measure", **(SERVED | query))


def diagnosed(test: AppTest, text: str = "") -> AppTest:
    test.text_area(key="drop_text").set_value(text)
    press(test, "read_drop_text")
    return test


def typed(test: AppTest, metric: str, *values: float | None, k: int = 3) -> AppTest:
    """Type a value without and one with speculation, the batch and K, and have them read."""
    names = ("without", "with", "batch_size")
    for name, value in zip(names, values, strict=True):
        test.number_input(key=f"value_{name}").set_value(value)
    test.number_input(key="value_draft_tokens_k").set_value(k)
    test.selectbox(key="value_metric").set_value(metric)
    return press(test, "read_values")


def compared(test: AppTest) -> pd.DataFrame:
    """The last run beside its prediction."""
    return [item.value for item in test.dataframe if "Predicted" in item.value][-1].set_index(
        "Quantity"
    )


def test_a_pasted_run_gets_its_sentence_a_card_with_the_fix_and_its_prediction() -> None:
    test = diagnosed(page(), SLOW)
    verdict = judged(test)
    assert (verdict.case, verdict.faults) == ("misconfigured", ("sglang_admits_48",))
    (command,) = pasted_text(test)
    assert command.startswith(
        "python -m sglang.launch_server \\\n  --model-path Qwen/Qwen3-30B-A3B"
    )
    assert command.endswith("  --max-running-requests 128"), (
        "the line of the run that drafts, corrected"
    )
    assert "Source: sgl-project/sglang pull request 34290" in texts(test)
    table = compared(test)
    assert [*table.columns] == ["Measured", "Predicted", "80% range", "Measured / predicted"]
    assert table.loc["Round of speculation", "Measured"] == "28.34 ms"
    assert not test.error


def test_files_are_diagnosed_without_a_text() -> None:
    test = page()
    upload(test, "honest.csv", (FIXTURES / "honest.csv").read_bytes())
    assert (judged(test).case, judged(test).better_k) == ("foreseen", 0)
    (command,) = pasted_text(test)
    assert "--tp-size 2" in command
    assert "--speculative" not in command, "nothing is drafted where nothing pays"


def test_two_uploads_keep_their_launch_lines_and_the_verdict_names_the_bar_s_accelerator() -> None:
    files = [
        ("plain.txt", launch() + block(32.1), "text/plain"),
        ("drafted.txt", launch(7, "--enforce-eager") + block(70.1, 2.14), "text/plain"),
    ]
    for order in (files, files[::-1]):
        test = page(engine="vllm")
        zone(test).set_value([(name, text.encode(), kind) for name, text, kind in order]).run()
        assert "CUDA graphs are switched off" in texts(test)
        assert "In drafted.txt, line 3" in texts(test)
        assert (
            "Read as Qwen3-30B-A3B on 1 x NVIDIA H200 SXM 141GB, the accelerator from the bar."
            in texts(test)
        )


def test_errors_stand_beside_the_button_and_an_older_diagnosis_goes() -> None:
    test = diagnosed(page(), SLOW)
    diagnosed(test, "hello <b>there</b>")
    assert "Two numbers" in test.error[0].value
    assert not pasted_text(test)
    assert "open_mended" not in {button.key for button in test.button}


def test_the_remedy_is_told_in_numbers_and_opens_as_the_scenario() -> None:
    test = diagnosed(page(**BAR), LAUNCHED.replace("path m", "path deepseek-ai/DeepSeek-V3"))
    assert {"K = 0", "K = 1", "K = 3"} <= set(remedy(test))
    press(test, "open_mended")
    assert test.session_state["_scenario"].engine == "sglang"


def test_of_measured_runs_the_button_opens_the_largest_batch_that_pays_and_none() -> None:
    table = "concurrency,TPOT ms without,TPOT ms with\n1,9,6.2\n64,20,16\n128,26,33\n"
    test = with_k(diagnosed(page(**BAR), table))
    spans = judged(test).decision.spans
    assert [(span.k, span.batches) for span in spans] == [(3, (1.0, 64.0)), (0, (128.0,))]
    assert test.title[0].value.startswith("Keep K = 3 up to batch 64")
    assert test.button(key="open_mended").label == "Open K = 3 at batch 64 on Serve"
    before = test.session_state["_scenario"].k_max
    press(test, "open_mended")
    opened_as = test.session_state["_scenario"]
    assert (opened_as.batch_size, opened_as.k_max) == (64, max(before, 3)), (
        "the longest draft stays the bar's"
    )
    loses = with_k(
        diagnosed(page(**BAR), "concurrency,TPOT ms without,TPOT ms with\n64,20,26\n128,26,33\n")
    )
    assert [span.k for span in judged(loses).decision.spans] == [0]
    assert "open_mended" not in {button.key for button in loses.button}


def test_a_drafter_that_the_model_has_not_leaves_the_measured_decision() -> None:
    test = page(drafter_id="eagle3", acceptance="2.4@3")
    upload(test, "runs.csv", b"batch,plain_tok_s_user,mtp3_tok_s_user\n1,150,240\n64,60,48\n")
    assert test.selectbox(key="missing_drafter").value == "eagle3"
    test = page(drafter_id="mtp", acceptance="2.4@3")
    upload(test, "runs.csv", b"batch,k,drafter,speedup\n1,3,mtp,1.6\n64,3,mtp,0.8\n")
    assert [span.k for span in judged(test).decision.spans] == [3, 0]
    assert "no multi-token-prediction module" in texts(test)
    test.selectbox(key="stated_drafter").set_value("eagle3")
    press(test, "fill_in_more")
    assert "no multi-token-prediction module" not in texts(test)


def test_a_file_of_another_model_turns_a_bar_with_an_own_config_to_that_model() -> None:
    test = page(hardware_id="b200-sxm")
    upload(test, "config.json", json.dumps(OWN_CONFIG).encode())
    assert test.session_state["model_id"].startswith("own")
    upload(
        test,
        "runs.csv",
        b"model,gpu,tp,batch,k,drafter,speedup\nQwen/Qwen3-30B-A3B,H100 SXM,1,16,3,eagle3,1.4\n",
    )
    press(test, "bar_to_file")
    assert (test.session_state["model_id"], test.session_state["hardware_id"]) == (
        "qwen3-30b-a3b",
        "h100-sxm",
    )
    assert "Keep K = 3 at batch 16" in texts(test)


def with_k(test: AppTest) -> AppTest:
    test.text_input(key="missing_draft_tokens_k").set_value("3")
    press(test, "fill_in")
    return test


BAR = {
    "hardware_id": "h200-sxm",
    "model_id": "deepseek-v3",
    "engine": "sglang",
    "drafter_id": "mtp",
    "n_gpus": "8",
}
BAR |= {
    "tensor_parallel": "8",
    "acceptance": "2.17@3",
    "batch_size": "64",
    "context_tokens": "3000",
}
LAUNCHED = "python -m sglang.launch_server --model-path m --tp 8 --speculative-algorithm NEXTN"
LAUNCHED += " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
OWN_CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_size": 2560,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
}
OWN_CONFIG |= {
    "num_key_value_heads": 4,
    "head_dim": 128,
    "moe_intermediate_size": 768,
    "num_experts": 64,
}
OWN_CONFIG |= {
    "num_experts_per_tok": 8,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "norm_topk_prob": True,
}
USERS = "users,tps_base,tps_mtp3,gpu,notes\n64,35.1,30.2,H200,slow\n"
MEANS = {"users": "batch_size", "tps_base": "baseline_output_tok_per_s_per_user"}
MEANS |= {"tps_mtp3": "sd_output_tok_per_s_per_user", "gpu": "ignore", "notes": "ignore"}


def test_a_file_that_was_mapped_is_diagnosed_as_mapped_with_the_numbers_of_serve() -> None:
    test = upload(page(**BAR), "mine.csv", USERS.encode())
    for theirs, ours in MEANS.items():
        test.selectbox(key=f"map_{theirs}").set_value(ours)
    next(one for one in test.button if one.label == "Read with these columns").click().run()
    if any(one.key == "missing_draft_tokens_k" for one in test.text_input):
        with_k(test)
    assert not test.exception
    assert not test.error, [item.value for item in test.error]
    said = texts(test)
    verdict = judged(test)
    assert (verdict.k, verdict.batch, verdict.case) == (3, 64, "agrees")
    assert verdict.measured == pytest.approx(0.86, abs=0.005)
    assert (verdict.length_from, round(verdict.length, 2)) == ("bar", 2.17)
    assert "accepted length 2.17 at K = 3" in said
    scenario = test.session_state["_scenario"]
    curve = advise(scenario).curve
    at = curve.speedup[list(curve.batches).index(64)]
    shown = [remedy(test)[f"K = {k}"].item() for k in (1, 3)]
    assert shown == pytest.approx([at[curve.column(k)] for k in (1, 3)], abs=0.006)


def test_a_launch_line_alone_is_judged_at_the_batch_of_the_bar() -> None:
    launched = diagnosed(page(**BAR), LAUNCHED)
    assert judged(launched).faults == ("sglang_admits_48",)
    assert "--max-num-seqs" not in texts(launched)
    assert not judged(diagnosed(page(**BAR | {"batch_size": "32"}), LAUNCHED)).faults


def remedy(test: AppTest) -> pd.DataFrame:
    return next(item.value for item in test.dataframe if item.value.columns[0] == "Batch")


SERVER_LINE = """vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8 --max-num-seqs 256 \
--speculative-config '{"method":"deepseek_mtp","num_speculative_tokens":3}'"""
NUMBERS = ("tpot_ms", 38.1, 44.7)


def test_numbers_with_a_launch_line_are_judged_as_their_server_which_becomes_the_bar_s() -> None:
    test = diagnosed(page(engine="vllm"), SERVER_LINE)
    (notice,) = telling(test, "The bar is set to your server")
    assert "Accelerator not said" in notice
    now = test.session_state["_scenario"]
    assert (now.model_id, now.n_gpus, now.drafter_id) == ("deepseek-v3", 8, "mtp")
    typed(test, *NUMBERS, 128)
    assert {"K = 0, measured", "K = 1", "K = 2", "K = 3"} <= set(remedy(test))
    assert texts(test).count("Turn speculation off") == 1


@pytest.mark.parametrize(
    ("checkpoint", "weights"), [("Qwen3-235B-A22B-FP8", "fp8_block"), ("Qwen3-235B-A22B", None)]
)
def test_a_launch_line_sets_the_weights_that_its_checkpoint_is_in(
    checkpoint: str, weights: str | None
) -> None:
    test = page(engine="vllm", weight_dtype="nvfp4")
    diagnosed(test, f"vllm serve Qwen/{checkpoint} --tensor-parallel-size 8")
    now = test.session_state["_scenario"]
    assert (now.model_id, now.weight_dtype) == ("qwen3-235b-a22b", weights)
    assert ("weights fp8" in telling(test, "The bar is set")[0]) == bool(weights)


def test_what_was_measured_is_said_beside_a_fault() -> None:
    test = diagnosed(page(engine="vllm"), f"{SERVER_LINE} --enforce-eager")
    assert judged(test).faults == ("graphs_off",)
    typed(test, *NUMBERS, 128)
    assert (judged(test).k, judged(test).batch) == (3, 128)
    assert judged(test).measured == pytest.approx(0.85, abs=0.005)


def test_what_was_forgotten_is_not_said_over_what_comes_next() -> None:
    test = typed(diagnosed(page(engine="vllm"), SERVER_LINE), *NUMBERS, 128)
    press(test, "forget")
    assert telling(test, "Forgotten") == ["Forgotten."]
    typed(test, *NUMBERS, 128)
    assert not telling(test, "Forgotten")


def test_one_number_and_a_sentence_are_refused_and_what_to_do_is_named() -> None:
    test = typed(page(**BAR), "tpot_ms", 18, None, 64)
    assert [item.value for item in test.error] == [
        "Give both numbers, each above 0: without and with speculation."
    ]
    diagnosed(test, "TPOT went from 18 ms to 24 ms with MTP at concurrency 64")
    assert "Two numbers" in test.error[0].value


@pytest.mark.parametrize("first", [0, 1])
def test_a_launch_line_pasted_beside_numbers_joins_them_in_either_order(first: int) -> None:
    line = (
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp-size 8 "
        "--speculative-algorithm EAGLE --speculative-num-steps 1 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 2"
    )

    def numbers(test: AppTest) -> AppTest:
        return typed(test, "any_tok_per_s", 1900, 1450, 64, k=1)

    steps = [numbers, partial(diagnosed, text=line)]
    served = {
        "model_id": "deepseek-v3",
        "n_gpus": 8,
        "tensor_parallel": 8,
        "engine": "sglang",
        "drafter_id": "mtp",
    }
    test = steps[first](page(**served, acceptance="deepseek-r1-mtp-internal"))
    assert judged(test).case != "misconfigured"
    steps[1 - first](test)
    assert "sglang_admits_48" in judged(test).faults
    assert [one.splitlines()[-1] for one in pasted_text(test)] == ["  --max-running-requests 64"]
    assert judged(test).measured == pytest.approx(0.76, abs=0.005), "the numbers stand"
    press(test, "forget")
    diagnosed(test, line)
    assert judged(test).measured is None


def test_a_loss_that_a_length_may_explain_asks_for_it_and_is_judged_with_it() -> None:
    test = typed(page(engine="vllm", drafter_id="eagle3"), "tpot_ms", 20, 24, 64)
    assert judged(test).cause == "few_tokens"
    test.number_input(key="unsaid_accepted_length").set_value(1.4)
    press(test, "predict_unsaid")
    assert test.session_state["_scenario"].acceptance == "1.4@3"
    assert judged(test).cause != "few_tokens"
    assert "unsaid_accepted_length" not in {item.key for item in test.number_input}


def test_rates_in_a_table_reach_the_verdict_and_what_is_forgotten_leaves_the_box() -> None:
    test = diagnosed(page(**BAR), "concurrency,K,output_tok_per_s\n48,0,1900\n48,3,1450")
    (span,) = judged(test).decision.spans
    assert (span.k, span.batches) == (0, (48.0,))
    assert span.first == pytest.approx(0.76, abs=0.005)
    assert not test.text_area(key="drop_text").value
    test = diagnosed(page(**BAR), "concurrency,K,output_tok_per_s\n48,3,1450")
    assert (
        test.title[0].value == "1 row read: add the run without drafts (K = 0), or a time per token"
    )
    diagnosed(test, "no run at all")
    press(test, "forget")
    assert not test.text_area(key="drop_text").value
