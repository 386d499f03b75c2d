"""A running server is read over HTTP: both engines, names of today and of old, and every page that
is not what it should be."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from advisor.measured import server as module
from advisor.measured.server import ServerReading, read_server, server_at
from advisor.prediction import AdvisorError
from tests.fake_server import SGLANG, VLLM, Answer, engine, recorded, serving


def read(
    answers: Mapping[str, Answer], seconds: float | None = None, **more: object
) -> ServerReading:
    with serving(answers) as fake:
        return read_server(server_at(fake.url), seconds, wait=lambda _: None, **more)  # type: ignore[arg-type]


def refusal(answers: Mapping[str, Answer], seconds: float | None = None, **more: object) -> str:
    with pytest.raises(AdvisorError) as refused:
        read(answers, seconds, **more)
    return str(refused.value)


def edited(name: str, old: str, new: str) -> Answer:
    """A recorded page with words in place of others that it has."""
    text = recorded(name).decode()
    assert old in text
    return Answer((text.replace(old, new).encode(),))


def sglang(**arguments: object) -> Answer:
    """What an SGLang server says of itself, with other arguments."""
    stated = json.loads(recorded("sglang_server_info.json"))
    return Answer((json.dumps(stated | arguments).encode(),))


def test_vllm_counts_what_came_between_two_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    with serving(engine("vllm_before.txt", "vllm_after.txt")) as fake:

        def wait(seconds: float) -> None:
            clock[0] += seconds

        reading = read_server(server_at(fake.url), 5, wait=wait)
    assert reading.rates.n_drafts == 4000
    # 2,800, 1,900 and 1,100 of the 4,000 rounds accepted positions 1, 2 and 3.
    assert reading.rates.conditional == pytest.approx((0.7, 1900 / 2800, 1100 / 1900))
    assert (reading.k, reading.engine, reading.version) == (3, "vllm", "0.33.0")
    assert reading.model == "deepseek-ai/DeepSeek-V3"
    assert (reading.load.running, reading.load.engines) == (32, 1)
    assert reading.load.tok_per_s == pytest.approx(9800 / 5)


def test_one_scrape_counts_from_the_start_and_knows_no_rate() -> None:
    reading = read(engine("vllm_before.txt"))
    assert reading.rates.n_drafts == 100_000
    assert reading.load.tok_per_s is None
    assert reading.seconds is None


def test_engines_of_one_page_are_summed() -> None:
    pages = engine("vllm_two_engines_before.txt", "vllm_two_engines_after.txt")
    reading = read(pages, 5)
    assert reading.rates.n_drafts == 8000
    assert (reading.load.running, reading.load.engines) == (62, 2)


def test_of_several_models_one_is_asked_for() -> None:
    text = refusal(engine("vllm_two_models.txt"))
    assert "2 models" in text
    assert "--served-model" in text
    reading = read(engine("vllm_two_models.txt", more={}), served="Qwen/Qwen3-30B-A3B")
    assert reading.rates.n_drafts == 500
    assert (reading.k, reading.load.running, reading.model) == (2, 2, "Qwen/Qwen3-30B-A3B")
    assert "2 models" in refusal(engine("vllm_two_models.txt"), served="chat")


def test_vllm_before_0_9_needs_k() -> None:
    assert "--k" in refusal(engine("vllm_0.8_names.txt"))
    reading = read(engine("vllm_0.8_names.txt"), k=3)
    # 60,000 drafted tokens are 20,000 rounds of 3, of which 30,000 tokens were accepted.
    assert reading.rates.length == (2.5, 3)
    assert reading.rates.n_drafts == 20_000


def test_sglang_gives_one_length_its_arguments_and_a_rate() -> None:
    reading = read(engine("sglang_before.txt", "sglang_after.txt", more=SGLANG), 5)
    # 12,520 tokens of 40 requests, whose first tokens are of no round, over 4,800 calls.
    assert reading.rates.length == (pytest.approx(2.6), 3)
    assert (reading.engine, reading.version, reading.k) == ("sglang", "0.5.23", 3)
    assert reading.settings["tp_size"] == 8
    assert reading.load.tok_per_s == 1200.0


def test_ranks_on_the_same_requests_count_once() -> None:
    reading = read(engine("sglang_two_ranks.txt", more=SGLANG))
    assert (reading.load.running, reading.load.engines, reading.load.tok_per_s) == (32, 2, 1500.0)


def test_sglang_s_old_names_take_k_from_its_arguments_or_ask() -> None:
    assert "--k" in refusal(engine("sglang_0.4_names.txt", more={}))
    old_page = {"/get_server_info": "sglang_server_info.json"}
    for answers, k in (
        (engine("sglang_0.4_names.txt", more=old_page), None),
        (engine("sglang_0.4_names.txt", more={}), 3),
    ):
        reading = read(answers, k=k)
        assert reading.rates.length == (2.61, 3)
        assert reading.load.running == 24


def test_k_beyond_the_counted_positions_is_refused() -> None:
    assert "draft positions" in refusal(engine("vllm_after.txt"), k=5)
    assert read(engine("vllm_after.txt"), k=2).k == 2


@pytest.mark.parametrize(
    ("info", "steps", "words"),
    [
        (sglang(speculative_num_steps=64), "3.0", "drafts K = 64; expected at most 32"),
        (sglang(speculative_num_steps=10**18), "3.0", f"drafts K = {10**18}; expected"),
        (Answer(status=404), "40", "drafts K = 40; expected at most 32"),
        (Answer(status=404), "1e300", "K = 1e+300; expected 1 to 64"),
        (Answer(status=404), "0.5", "no single sglang:spec_num_steps"),
    ],
)
def test_k_beyond_those_that_are_predicted_is_refused(info: Answer, steps: str, words: str) -> None:
    page = edited("sglang_after.txt", 'tp_rank="0"} 3.0', f'tp_rank="0"}} {steps}')
    assert words in refusal({"/metrics": page, "/server_info": info})


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        ("sglang_after.txt", "262920.0", "105240.0"),  # a token for each of 104,800 calls
        ("sglang_0.4_names.txt", " 2.61", " 1.0"),
        ("vllm_0.8_names.txt", " 30000.0", " 0.0"),
    ],
)
def test_a_drafter_of_which_nothing_is_accepted_is_read(page: str, old: str, new: str) -> None:
    reading = read({"/metrics": edited(page, old, new)}, k=3)
    assert (reading.rates.text, reading.rates.warnings) == ("0,0,0", ())


def test_a_page_without_the_gauge_of_requests_leaves_them_unknown() -> None:
    page = edited("vllm_after.txt", "num_requests_running", "renamed")
    assert read({"/metrics": page}).load.running is None


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (engine("vllm_plain.txt"), "counts no speculation"),
        (
            engine("sglang_after.txt", more={})
            | {"/server_info": Answer((b'{"speculative_algorithm": null}',))},
            "counts no speculation",
        ),
        ({"/metrics": Answer((b"<html>hello</html>\n",))}, "no metrics page of vLLM or SGLang"),
        ({"/metrics": Answer((b"",))}, "is empty"),
        ({"/metrics": Answer((recorded("vllm_after.txt")[:-9],))}, "in the middle of a line"),
        ({"/metrics": Answer((recorded("vllm_after.txt"),), stated_bytes=99_999)}, "bytes"),
        ({}, "--enable-metrics"),
        ({"/metrics": Answer(status=401)}, "--header"),
        ({"/metrics": Answer(status=500)}, "HTTP 500"),
        ({"/metrics": Answer(status=302, location="http://[bad/")}, "cannot be read"),
    ],
)
def test_a_page_that_is_none_is_refused_with_what_to_do(
    answers: Mapping[str, Answer], words: str
) -> None:
    assert words in refusal(answers)


@pytest.mark.parametrize(
    ("first", "old", "new", "words"),
    [
        ("vllm_after.txt", "254800", "254800", "no round"),
        ("vllm_before.txt", "254800", "100000", "generation_tokens fell from 245000"),
        ("vllm_after.txt", " 104000", " 90000", "num_drafts fell from 104000"),
    ],
)
def test_a_restart_between_the_scrapes_and_an_idle_server_are_said(
    first: str, old: str, new: str, words: str
) -> None:
    last = edited("vllm_after.txt", old, new)
    assert words in refusal({"/metrics": Answer((recorded(first), *last.pages))}, 5)


def test_a_page_larger_than_any_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_METRICS_BYTES", 500)
    assert "larger than" in refusal(engine("vllm_after.txt"))


def test_a_page_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    assert "took longer" in refusal({"/metrics": Answer((b"\n",), drips=True)})


def test_nothing_listens() -> None:
    with serving({}) as fake:
        gone = fake.url
    with pytest.raises(AdvisorError, match="is the server up"):
        read_server(server_at(gone), None)


def test_a_redirect_to_another_host_is_not_followed_and_the_key_stays_home() -> None:
    with serving(engine("vllm_after.txt")) as other:
        there = {"/metrics": Answer(status=307, location=f"{other.url}/metrics")}
        with serving(there) as fake, pytest.raises(AdvisorError, match="another host") as refused:
            read_server(server_at(fake.url, "Authorization: Bearer secret"), None)
    assert other.requests == []
    assert "secret" not in str(refused.value)


def test_a_redirect_on_the_same_host_is_followed() -> None:
    answers = engine("vllm_after.txt")
    answers["/v2/metrics"] = answers["/metrics"]
    answers["/metrics"] = Answer(status=307, location="/v2/metrics")
    assert read(answers).k == 3


def test_only_get_is_sent_with_the_header() -> None:
    with serving(engine("vllm_after.txt")) as fake:
        server = server_at(f"{fake.url}/metrics", "Authorization: Bearer secret")
        read_server(server, None)
    assert {(method, key) for method, _, key in fake.requests} == {("GET", "Bearer secret")}
    assert {path for _, path, _ in fake.requests} == {"/metrics", *VLLM}
    assert "secret" not in repr(server)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "localhost:8000",
            "file:///etc/passwd",
            "ftp://host/metrics",
            "http://",
            "http://h:99999",
        ),
        *("http://user:key@host:8000", "http://host:8000?a=b", "http://host:8000/\n", ""),
        *("http://host:8000#", "http://a..b:1", f"http://{'a' * 300}:1"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        server_at(url)
    assert "key@" not in str(refused.value)


@pytest.mark.parametrize(
    "header", ["Bearer secret", "A: secret\r\nHost: c", "Secret:", "secret : x"]
)
def test_a_header_of_another_form_is_refused_and_not_repeated(header: str) -> None:
    with pytest.raises(AdvisorError, match="Name: value") as refused:
        server_at("http://localhost:8000", header)
    assert "ecret" not in str(refused.value)
