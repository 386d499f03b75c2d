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
from tests.fake_server import SGLANG, Answer, engine, recorded, serving

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


def test_placement_and_cache_are_those_of_sglang_s_arguments(run: Run) -> None:
    answers = engine("sglang_after.txt", more=SGLANG)
    stated = json.loads(recorded("sglang_server_info.json"))
    info = json.dumps(stated | {"ep_size": 8, "kv_cache_dtype": "fp8_e5m2"}).encode()
    with serving(answers | {"/server_info": Answer((info,))}) as fake:
        scenarios = [
            json.loads(run("doctor", fake.url, *GPUS, "--json", *typed)[1])["answer"]["scenario"]
            for typed in ((), ("--ep", "1", "--kv-dtype", "bf16"))
        ]
    names = ("tensor_parallel", "expert_parallel", "kv_dtype")
    assert [[each[name] for name in names] for each in scenarios] == [[8, 8, "fp8"], [8, 1, "bf16"]]


def vllm(old: str, new: str) -> dict[str, Answer]:
    """Answers of vLLM whose metrics page has other words."""
    page = recorded("vllm_after.txt").decode()
    assert old in page
    return engine("vllm_after.txt") | {"/metrics": Answer((page.replace(old, new).encode(),))}


NO_GAUGE = vllm("num_requests_running", "renamed")


@pytest.mark.parametrize(
    ("answers", "options", "words", "left_out"),
    [
        (
            vllm("} 32.0", "} 5000.0"),
            (),
            "Does not fit in memory: 341 sequences at most. The server runs 5,000, so its "
            "placement, context or formats are not those assumed; give --tp, --ep, --context, "
            "--weight-dtype or --kv-dtype.",
            ("faster", "launch line", "mean speedup", "predicted", "Next:"),
        ),
        (
            engine("vllm_after.txt"),
            ("--batch", "5000"),
            "Does not fit in memory: 341 sequences at most. warning:",
            ("The server runs",),
        ),
        (
            engine("vllm_after.txt"),
            ("--tp", "1"),
            "Does not fit in memory. The server runs 32, so",
            ("Keep K",),
        ),
        (
            engine("vllm_after.txt"),
            ("--max-tpot-ms", "1"),
            "No draft length keeps 1 ms per token: 14.5 ms at best.",
            ("Keep K", "launch line"),
        ),
        (
            engine("vllm_after.txt"),
            ("--batch", "64", "--max-tpot-ms", "18.8"),  # which K = 3 misses by little
            "Draft 2 tokens instead of 3 at batch 64: 2% faster",
            ("Keep K",),
        ),
        (
            engine("vllm_after.txt"),
            ("--batch", "64"),
            "Keep K = 3 at batch 64: K = 2 would gain only 1.8%.",
            ("launch line",),
        ),
        (
            engine("vllm_after.txt"),
            (),
            "To switch K by batch, change on the launch line:",
            ("To run that",),
        ),
        (engine("vllm_after.txt"), ("--k-max", "2"), "Keep K = 3 at batch 32", ()),
        (NO_GAUGE, ("--batch", "8"), " runs K = 3. Accepted", (" requests",)),
        (
            vllm("} 32.0", "} 0.0"),
            ("--batch", "8"),
            " runs 0 requests at K = 3. Accepted",
            ("per token",),
        ),
    ],
)
def test_what_it_says_of_a_load(
    run: Run,
    answers: dict[str, Answer],
    options: tuple[str, ...],
    words: str,
    left_out: tuple[str, ...],
) -> None:
    with serving(answers) as fake:
        status, text, _ = run("doctor", fake.url, *GPUS, *options)
    assert status == 0
    assert words in flat(text)
    assert [word for word in left_out if word in flat(text)] == []


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
        ("lacks vllm:num_requests_running, so the load is not known; give --batch", GPUS, NO_GAUGE),
        (
            "--engine other, but",
            (*GPUS, "--engine", "other"),
            engine("vllm_after.txt"),
        ),
        (
            "is a server of vLLM; leave --engine out",
            (*GPUS, "--engine", "trtllm"),
            engine("vllm_after.txt"),
        ),
        (
            "drafts K = 3, but no drafter is given; name the server's with --drafter",
            (*GPUS, "--drafter", "none"),
            engine("vllm_after.txt"),
        ),
        ("'--k': 40 is not in the range 1<=x<=32", (*GPUS, "--k", "40"), {}),
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
    assert not record.small
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
    advice = advise(scenario)
    reading = reading_of("vllm_after.txt")
    changes = flag_changes(advice, reading, running_facts(advice, reading))
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
    small=False,
    largest=341,
    limit_ms=None,
    fastest_ms=14.0,
    any_in_limit=True,
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
        (
            "headline",
            {"small": True, "gain": 0.01},
            "Keep K = 3 at batch 32: K = 2 would gain only 1.0%.",
        ),
        (
            "headline",
            {"small": True, "gain": -0.01},
            "Keep K = 3 at batch 32: K = 2 would gain nothing.",
        ),
        (
            "headline",
            {"low": -0.004},
            "Draft 2 tokens instead of 3 at batch 32: 8% faster (80% range 0% to 9%).",
        ),
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
