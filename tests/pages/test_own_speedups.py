"""Own speedups of several K on the page: batches in headers, K by batch, what Serve drafts by
them."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.app_page import go_to, live, press, texts
from tests.pages.test_uploads import COLUMNS, H100, judged, page, read_as, scenario, upload

BY_BATCH = (
    b"setup,bs=1,bs=8,bs=64\nbaseline (no spec),92,612,2210\neagle k=1,121,798,2290\neagle "
    b"k=3,158,890,1980\n"
)


def test_a_table_with_its_batches_in_its_headers_gets_its_verdict_and_says_how_it_was_read() -> (
    None
):
    test = upload(page(), "wide.csv", BY_BATCH)
    assert not test.error
    table = read_as(test).set_index("Meaning")["Read from"]
    assert table["Batch"] == "bs=1, bs=8, bs=64"
    assert table["Draft length K"] == "baseline (no spec), eagle k=1 and eagle k=3"
    assert table["Plain: tokens/s, all requests together"] == "baseline (no spec)"
    assert not [item for item in test.button if item.key == "fill_in"]


def test_columns_that_tell_nothing_leave_the_template_and_words_of_the_page() -> None:
    test = upload(page(), "odd.csv", b"who,wanted,what\nhe,fast,92\nshe,slow,121\n")
    assert "Template (CSV)" in [item.label for item in test.get("download_button")]
    assert not [
        label for label in test.selectbox(key="map_wanted").options if "(batch_size)" in label
    ]
    press(test, COLUMNS)
    (said,) = {item.value for item in test.error}
    assert "say above which hold the batch, K, and a rate, a time or a speedup" in said
    assert "--map" not in said


LONG = """batch_size,draft_tokens_k,output_tok_per_s,accepted_length
1,0,92,\n8,0,612,\n32,0,1490,\n64,0,2210,\n1,1,121,1.8\n8,1,798,1.8\n32,1,1702,1.8\n64,1,2290,1.8
1,3,158,2.6\n8,3,890,2.6\n32,3,1655,2.6\n64,3,1980,2.6\n"""
"""A reader's benchmark: Qwen3-30B-A3B with EAGLE-3 on one H100 SXM, vLLM. The longer K loses at
batch 64."""


def two_k(**query: str) -> AppTest:
    return upload(page(**H100 | query), "long.csv", LONG.encode())


def test_of_two_measured_k_serve_gets_both_lengths_and_the_command_the_one_that_gains() -> None:
    test = press(two_k(), "Open K = 1 at batch 64 on Serve")
    assert (scenario(test).acceptance, scenario(test).batch_size) == ("1.8@1,2.6@3", 64)
    go_to(test, "serve").run()
    found = live(test)
    assert found["own_served"] == [[24, 3], [77, 1]]
    assert re.search(r"\[\[1,24,3\],\[25,\d+,1\]", found["command"]["text"]), (
        "by batch, as it was measured"
    )
    row = found["speedup"][found["batches"].index(64)]
    assert max(row) == max(row[:4]), "no K beyond the measured ones is carried to a larger speedup"
    assert "Yours: Keep K = 3 up to batch 8 and K = 1 at batch 32 to 64" in texts(test)


def test_a_file_that_names_no_model_says_what_it_is_read_as_and_follows_the_bar() -> None:
    test = upload(
        page(
            hardware_id="b200-sxm", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3"
        ),
        "long.csv",
        LONG.encode(),
    )
    test.session_state["model_id"] = "qwen3-30b-a3b"
    test.session_state["hardware_id"] = "h100-sxm"
    test.run()
    assert not test.exception
    assert "No row is of" not in texts(test)
    assert re.search(r"From the bar: [^$]*Qwen3-30B-A3B", texts(test))
    go_to(test, "serve").run()
    test.session_state["hardware_id"] = "h200-sxm"
    test.run()
    go_to(test, "measure").run()
    assert "No row is of" in texts(test), (
        "a bar that was changed on another page is of another question"
    )
    test = press(test, "Read as Qwen3-30B-A3B on H200 SXM")
    assert "No row is of" not in texts(test)
    agreeing = (
        LONG.replace("890,2.6", "1059,2.6")
        .replace("1655", "3040")
        .replace("1980", "4600")
        .replace("1702", "2205")
    )
    said = texts(upload(page(**H100), "agreeing.csv", agreeing.encode()))
    assert re.search(r"Read as Qwen3-30B-A3B on H[^,]*, from the bar", said)


def test_own_speedups_say_nothing_of_a_length_that_was_typed_a_limit_or_another_engine() -> None:
    for query, decides in (
        ({}, True),
        ({"acceptance": "2.6@3"}, True),
        ({"acceptance": "3.2@3"}, False),
        ({"max_tpot_ms": "30"}, False),
    ):
        found = live(go_to(two_k(**query), "serve").run())
        assert bool(found["own_served"]) == decides, query
        assert len(found["own"]) == 8
    for name, other in (("engine", "sglang"), ("drafter_id", "none")):
        test = two_k()
        test.session_state[name] = other
        assert not live(go_to(test, "serve").run())["own_served"], other
        assert not test.exception


def test_the_verdict_of_two_k_names_each_by_batch_and_one_prediction_a_batch() -> None:
    test = two_k()
    verdict = judged(test)
    assert [(span.k, span.batches) for span in verdict.decision.spans] == [
        (3, (1.0, 8.0)),
        (1, (32.0, 64.0)),
    ]
    assert (verdict.k, verdict.batch) == (3, 64)
    assert verdict.loss == pytest.approx(0.10, abs=0.005)
    table = next(item.value for item in test.dataframe if "K = 0, measured" in item.value.columns)
    assert table["Batch"].tolist() == [1, 8, 32, 64]
    assert table["Measured"].tolist()[-1] == "1.04× at K = 1, 0.90× at K = 3"


def test_a_refit_counts_speedups_and_rows_and_names_a_row_of_the_file() -> None:
    test = two_k()
    assert (
        next(one.label for one in test.button if one.key == "refit_upload")
        == "Refit to these 8 speedups of 12 rows"
    )
    said = texts(press(test, "refit_upload"))
    assert "12 points of h100-sxm with vllm, none set aside" in said
    assert re.search(
        r"Your rows move the speedup predicted for K = 3 at batch 8 from \d\.\d\d× to", said
    )
    assert re.search(
        r"over the limit of 8%: most batch 1 at K = 0 \(\d+%\), batch 64 at K = 3", said
    )
    assert re.search(
        r"The fit asks for 0\.\d\d of the accepted length: state that of these very runs", said
    )
    assert not re.search(r"\bagain\b", said), "not before the length is settled"


def test_own_speedups_decide_k_on_share_and_in_its_files_as_on_serve() -> None:
    test = go_to(two_k(), "share").run()
    assert re.search(
        r"Your own runs decide: Keep K = 3 up to batch 8[^$]* Files say so; the link", texts(test)
    )
    shown = " ".join(item.value for item in test.markdown)
    assert re.search(r"# Keep K = 3 up to batch 8", shown)
    assert "The figures are the model's. It says: " in shown
    assert "Your own runs decide" not in texts(go_to(two_k(max_tpot_ms="30"), "share").run())
