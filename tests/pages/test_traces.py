"""Routing traces and accepted lengths dropped on Measure: fitted, shown, used in the scenario, or
one message."""

from __future__ import annotations

import json

from tests.measured.test_ingest_acceptance import scrape
from tests.measured.test_ingest_traces import npy, synthetic
from tests.pages.app_page import press, texts
from tests.pages.test_uploads import alts, page, pasted, scenario, upload, zone


def test_a_routing_trace_is_fitted_shown_and_used_in_the_scenario() -> None:
    ids = synthetic(12, 32, 2, n=128, k=8).astype("uint8")
    test = upload(page(), "trace.npy", npy(ids))
    assert "12 sequences, 384 tokens, 2 layers, 8 of 128 experts; read as" in texts(test)
    assert "sequences, tokens, layers, k" in texts(test)
    assert any("differ from those counted by at most" in alt for alt in alts(test))
    press(test, "use_trace")
    routing = scenario(test).routing
    found = test.session_state["_trace"].fit.fit
    assert routing.startswith(f"{found.load_cv:.3g}/")
    press(test, "forget_trace")
    assert scenario(test).routing == "auto"


def test_a_dense_model_has_no_trace_to_upload() -> None:
    test = upload(page(model_id="command-a"), "trace.npy", npy(synthetic(2, 8, 2)))
    assert "no experts to trace" in texts(test)


def test_acceptance_from_metrics_is_shown_and_used_in_the_scenario() -> None:
    test = page()
    later = scrape(15000, [8100, 4050]).encode()
    before = scrape(5000, [100, 50]).encode()
    zone(test).set_value([("before.txt", before, ""), ("metrics.txt", later, "")]).run()
    assert "10,000 rounds, 2 draft positions" in texts(test)
    assert any("Accepted length 2.20 at K = 2, the longest measured" in alt for alt in alts(test))
    press(test, "use_acceptance")
    assert scenario(test).acceptance == "0.8,0.5"


def test_acceptance_from_a_list_asks_what_the_rates_are() -> None:
    test = page()
    pasted(test, "0.5, 0.4")
    assert test.title[0].value == "You accept 1.90 tokens at K = 2"
    test.selectbox(key="rates_kind").select_index(1).run()
    assert not test.error
    assert test.title[0].value == "You accept 1.70 tokens at K = 2"


def test_a_trace_or_metrics_without_what_is_counted_are_one_message_and_nothing_to_use() -> None:
    trace = json.dumps({"routed_experts": [["a"]]}).encode()
    for name, data, words in (
        ("trace.jsonl", trace, "expert ids"),
        ("metrics.txt", b"vllm:spec_decode_other 1", "no counter"),
    ):
        test = upload(page(), name, data)
        assert words in test.error[0].value.replace("\\", "")
        assert not {"use_acceptance", "use_trace"} & {button.key for button in test.button}
