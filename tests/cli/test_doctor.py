"""`doctor` on a fake server of either engine: what it says, hands over as JSON, and asks for."""

from __future__ import annotations

import json
import shlex

import pytest

from advisor.answers.advice import advise
from advisor.answers.outcome import outcome_of
from advisor.answers.running import FLAGS, Running, flag_changes, running_facts
from advisor.measured.server import ServerReading, read_server, server_at
from advisor.predict.scenario import Scenario
from advisor.show.phrases.doctor import BOOK, PHRASES, SLOTS
from tests.command_line import Run, flat
from tests.fake_server import SGLANG, Answer, engine, serving

GPUS = ("--gpus", "8xH200", "--since-start")


def reading_of(*metrics: str, **more: int) -> ServerReading:
    with serving(engine(*metrics)) as fake:
        return read_server(server_at(fake.url), None, **more)  # type: ignore[arg-type]


def test_the_answer_is_that_of_advise_at_the_server_s_load(run: Run) -> None:
    with serving(engine("vllm_after.txt")) as fake:
        status, text, _ = run("doctor", fake.url, *GPUS, "--json")
    document = json.loads(text)
    assert status == 0
    assert document["server"]["batch"] == 32
    assert document["server"]["k_now"] == 3
    scenario = Scenario.model_validate(document["answer"]["scenario"])
    assert (scenario.model_id, scenario.engine, scenario.engine_version) == (
        "deepseek-v3",
        "vllm",
        "0.33.0",
    )
    assert scenario.acceptance == document["acceptance"]
    assert (
        document["answer"]["outcome"]["k"]
        == outcome_of(advise(scenario)).k
        == document["server"]["k"]
    )


def test_what_it_prints_has_positions_k_by_batch_and_flags(run: Run) -> None:
    with serving(engine("vllm_before.txt")) as fake:
        status, text, _ = run("doctor", fake.url, *GPUS, "--batch", "300")
    assert status == 0
    assert ["position", "accepted", "accepted", "length"] in [
        line.split() for line in text.splitlines()
    ]
    assert "100,000 rounds" in flat(text)
    assert "mean speedup" in text
    # Below K = 3 from some batch on, by the table above: the flag holds another K, or a table.
    flag = next(line for line in text.splitlines() if "--speculative-config" in line)
    config = json.loads(shlex.split(flag)[1])
    assert config["method"] == "mtp"
    assert config["num_speculative_tokens"] <= 3


def test_sglang_s_own_arguments_place_it(run: Run) -> None:
    with serving(engine("sglang_after.txt", more=SGLANG)) as fake:
        status, text, err = run("doctor", fake.url, *GPUS)
    assert status == 0
    assert "SGLang 0.5.23" in text
    assert "TP 8" not in err  # stated by the server, not assumed
    assert "--accepted-length 2." in text


def test_it_waits_between_two_scrapes(run: Run) -> None:
    with serving(engine("vllm_before.txt", "vllm_after.txt")) as fake:
        status, text, _ = run("doctor", fake.url, "--gpus", "8xH200", "--seconds", "1", "--json")
    assert status == 0
    assert json.loads(text)["server"]["rounds"] == 4000
    assert [path for _, path, _ in fake.requests].count("/metrics") == 2


def test_the_key_is_sent_and_never_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_ADVISOR_HEADER", "Authorization: Bearer secret")
    with serving(engine("vllm_after.txt")) as fake:
        status, text, err = run("doctor", fake.url, *GPUS)
        _, json_text, _ = run("doctor", fake.url, *GPUS, "--json")
    assert status == 0
    assert fake.requests[0][2] == "Bearer secret"
    assert "secret" not in text + err + json_text


@pytest.mark.parametrize(
    ("words", "options", "answers"),
    [
        ("missing the GPUs", (), engine("vllm_after.txt")),
        (
            "is none that is known; name it with --model",
            GPUS,
            engine("vllm_after.txt")
            | {"/v1/models": Answer((b'{"data": [{"id": "chat", "root": "/models/x"}]}',))},
        ),
        (
            "give --batch",
            GPUS,
            {
                "/metrics": Answer(
                    (engine("vllm_after.txt")["/metrics"].pages[0].replace(b" 32.0\n", b" 0.0\n"),)
                )
            },
        ),
        ("counts no speculation", GPUS, engine("vllm_plain.txt")),
    ],
)
def test_what_is_missing_is_asked_for(
    run: Run, words: str, options: tuple[str, ...], answers: dict[str, Answer]
) -> None:
    with serving(answers) as fake:
        status, _, err = run("doctor", fake.url, *options)
    assert status == 2
    assert words in flat(err)


def test_the_gain_is_of_the_k_that_is_served_over_the_one_that_runs() -> None:
    scenario = Scenario(
        model_id="deepseek-v3",
        drafter_id="mtp",
        acceptance="0.8,0.6,0.1",
        batch_size=16,
        n_gpus=8,
        tensor_parallel=8,
    )
    advice = advise(scenario)
    reading = reading_of("vllm_after.txt")
    record = running_facts(advice, reading)
    rows = {row.n_draft: row for row in advice.drafts}
    assert 0 < record.k != record.k_now
    assert record.gain == pytest.approx(rows[record.k].speedup / rows[record.k_now].speedup - 1)
    assert record.low <= record.gain <= record.high
    same = running_facts(advice, reading_of("vllm_after.txt", k=record.k))
    assert (same.gain, same.low, same.high) == (0.0, 0.0, 0.0)


def test_flags_that_change_are_those_of_the_export() -> None:
    scenario = Scenario(
        model_id="deepseek-v3",
        drafter_id="mtp",
        acceptance="0.05,0.05,0.05",
        batch_size=64,
        n_gpus=8,
        tensor_parallel=8,
    )
    changes = flag_changes(advise(scenario), reading_of("vllm_after.txt"))
    assert ("--speculative-config", "") in {(check.flag, check.wanted) for check in changes}


EXAMPLE = Running(
    engine="vLLM 0.33.0",
    url="http://h",
    k_now=3,
    k=2,
    batch=32,
    running=31.5,
    engines=1,
    tok_per_s=1960.0,
    tpot_ms=16.1,
    predicted_ms=14.2,
    at_load=True,
    length=2.45,
    length_k=3,
    rounds=4000.0,
    seconds=5.0,
    gain=0.08,
    low=0.02,
    high=0.09,
).facts


@pytest.mark.parametrize(
    ("slot", "changes", "text"),
    [
        (
            "headline",
            {},
            "Draft 2 tokens instead of 3 at batch 32: 8% faster (80% range 2% to 9%).",
        ),
        ("headline", {"k": 3}, "Keep K = 3 at batch 32: it is the K recommended at this load."),
        ("headline", {"gain": 0.01}, "Keep K = 3 at batch 32: K = 2 would gain only 1.0%."),
        ("headline", {"k": 0}, "Turn speculation off at batch 32: 8% faster (80% range 2% to 9%)."),
        (
            "server",
            {},
            "vLLM 0.33.0 at http://h runs 31.5 requests at K = 3: 1,960 tokens/s, 16.1 ms per "
            "token; predicted 14.2 ms.",
        ),
        (
            "server",
            {"engine": "vLLM", "engines": 2, "tpot_ms": None},
            "vLLM at http://h runs 31.5 requests at K = 3 (2 engines, summed; place them with "
            "--tp and --ep).",
        ),
        (
            "server",
            {"at_load": False},
            "vLLM 0.33.0 at http://h runs 31.5 requests at K = 3: 1,960 tokens/s, 16.1 ms per "
            "token.",
        ),
        ("length", {}, "Accepted length 2.45 at K = 3: 4,000 rounds in 5 s."),
        (
            "length",
            {"seconds": None},
            "Accepted length 2.45 at K = 3: 4,000 rounds since the server started.",
        ),
        ("length", {"rounds": None}, "Accepted length 2.45 at K = 3."),
    ],
)
def test_the_book_says_a_record(slot: str, changes: dict[str, object], text: str) -> None:
    assert slot in SLOTS
    assert BOOK.say(slot, EXAMPLE | changes) == text


def test_every_flag_is_asked_by_a_phrase() -> None:
    assert {flag for phrase in PHRASES for flag, _ in phrase.flags} == FLAGS.keys()
