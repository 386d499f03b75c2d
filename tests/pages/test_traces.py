"""Routing traces and accepted lengths dropped on Measure: fitted, shown, used in the scenario, or
one message."""

from __future__ import annotations

import json

from tests.golden.sentences import Golden, lines_with
from tests.measured.test_ingest_acceptance import scrape
from tests.measured.test_ingest_traces import npy, synthetic
from tests.pages.app_page import press, telling
from tests.pages.test_uploads import alts, page, pasted, scenario, upload, zone


def test_a_routing_trace_is_fitted_shown_and_used_in_the_scenario(golden: Golden) -> None:
    ids = synthetic(12, 32, 2, n=128, k=8).astype("uint8")
    test = upload(page(), "trace.npy", npy(ids))
    golden(read=telling(test, "12 sequences"))
    golden(fitted=lines_with("\n".join(alts(test)), "differ"))
    press(test, "use_trace")
    routing = scenario(test).routing
    found = test.session_state["_trace"].fit.fit
    assert routing.startswith(f"{found.load_cv:.3g}/")
    press(test, "forget_trace")
    assert scenario(test).routing == "auto"


def test_a_dense_model_has_no_trace_to_upload(golden: Golden) -> None:
    test = upload(page(model_id="command-a"), "trace.npy", npy(synthetic(2, 8, 2)))
    golden(no_experts=telling(test, "no experts"))


def test_acceptance_from_metrics_is_shown_and_used_in_the_scenario(golden: Golden) -> None:
    test = page()
    later = scrape(15000, [8100, 4050]).encode()
    before = scrape(5000, [100, 50]).encode()
    zone(test).set_value([("before.txt", before, ""), ("metrics.txt", later, "")]).run()
    golden(rounds_draft=telling(test, "10,000"))
    golden(length=lines_with("\n".join(alts(test)), "longest measured"))
    press(test, "use_acceptance")
    assert scenario(test).acceptance == "0.8,0.5"


def test_acceptance_from_a_list_asks_what_the_rates_are(golden: Golden) -> None:
    test = page()
    pasted(test, "0.5, 0.4")
    golden(you_accept=test.title[0].value)
    test.selectbox(key="rates_kind").select_index(1).run()
    assert not test.error
    golden(you_accept_2=test.title[0].value)


def test_a_trace_or_metrics_without_what_is_counted_are_one_message_and_nothing_to_use() -> None:
    trace = json.dumps({"routed_experts": [["a"]]}).encode()
    for name, data, words in (
        ("trace.jsonl", trace, "expert ids"),
        ("metrics.txt", b"vllm:spec_decode_other 1", "no counter"),
    ):
        test = upload(page(), name, data)
        assert words in test.error[0].value.replace("\\", "")
        assert not {"use_acceptance", "use_trace"} & {button.key for button in test.button}
