"""The diagnosis of whole files: verdicts, what is compared, what is refused, what is not judged.

A loss that the model predicts is called one, with the K to draft instead; the queue of a burst does
not lead.

A faulty run for each rule beside its honest twin: the doctor names that fault, and only that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose
from advisor.answers.diagnosis.facts import UserRun
from advisor.answers.diagnosis.physics import all_rules, remedy_values
from advisor.answers.diagnosis.quantities import quantity
from advisor.answers.diagnosis.runs import UserFile, UserInput, read_runs
from advisor.answers.diagnosis.verdict import cheapest_missing, runs_by_k
from advisor.answers.engines.config import changed_line
from advisor.measured.ingest.side_by_side import two_values
from advisor.measured.points import published_rows
from advisor.prediction import AdvisorError
from advisor.show.words.diagnosis import diagnosis_document, view_of
from tests.answers.console_runs import DRAFTED, PLAIN, block, launch, of_files
from tests.answers.fake_runs import (
    BATCH,
    LENGTH,
    OUTPUT,
    SGLANG,
    SGLANG_SPECULATIVE,
    SPECULATIVE,
    VLLM,
    Pair,
    predicted,
)
from tests.answers.fake_runs import predicted as at
from tests.own_model import CONFIG_JSON

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"
PLACE = {"hardware_id": "h200-sxm", "tensor_parallel": "1"}
LOSES = "k_loses_as_predicted"


def of_file(name: str, **values: str) -> Diagnosis:
    return diagnose([UserFile(name, (FIXTURES / name).read_bytes())], values)


def rules(found: Diagnosis) -> list[str]:
    return [one.rule.id for one in found.findings]


def slower(**factors: float) -> Pair:
    """An honest pair whose times per token are longer by a factor."""
    pair = Pair()
    times = predicted()
    for name, factor in factors.items():
        token_s = times["plain" if name == "plain" else "drafting"] * factor
        arm = {"mean_tpot_ms": token_s * 1e3, "mean_itl_ms": None, "mean_e2el_ms": None}
        arm |= {
            "output_throughput": None,
            "total_token_throughput": None,
            "request_throughput": 1.0,
        }
        setattr(pair, name, arm)
    return pair


def test_an_honest_slow_run_is_told_that_it_is_physics() -> None:
    found = of_file("honest.csv")
    verdict = found.verdict
    assert (verdict.case, verdict.is_foreseen, verdict.better_k) == ("foreseen", True, 0)
    assert rules(found) == [LOSES]
    assert found.findings[0].change == {"--speculative*": None}
    (_, compared) = found.comparisons[-1]
    speedup = compared.row("speedup")
    assert speedup.measured == pytest.approx(159.78 / 222.47)
    assert compared.recommended.n_draft == 0


def test_an_honest_run_is_as_predicted_and_each_rule_is_judged_or_says_what_it_needs() -> None:
    found = diagnose(Pair().files())
    assert (found.verdict.case, found.verdict.n_runs) == ("agrees", 2)
    named = [*(one.rule.id for one in found.findings), *(rule.id for rule in found.clean)]
    open_rules = [one.rule.id for one in found.not_judged]
    assert len(named + open_rules) == len({*named, *open_rules})
    assert len(named) >= 20
    assert all(one.lacks for one in found.not_judged)


def test_a_gap_that_no_rule_explains_is_said_and_blamed_on_nothing() -> None:
    found = diagnose(slower(drafting=1.55).files())
    verdict = found.verdict
    assert (verdict.case, verdict.k, verdict.batch) == ("slower", 3, 16)
    assert not found.findings
    assert verdict.measured == pytest.approx(1.03, abs=0.01)
    assert verdict.cause == "round"
    assert (verdict.steps, verdict.steps_predicted) == pytest.approx((2.33, 1.50), abs=0.01)


def test_a_round_beyond_what_any_kernel_explains_is_a_finding_of_its_own() -> None:
    found = diagnose(slower(drafting=2.3).files())
    assert rules(found) == ["round_slow"]
    assert found.verdict.case == "physics"


def test_rows_that_contradict_themselves_are_the_verdict_where_nothing_else_is() -> None:
    text = b"hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,accepted_length,tpot_ms\n"  # noqa: E501
    found = diagnose(
        [UserFile("x.csv", text + b"h200-sxm,1,vllm,qwen3-30b-a3b,eagle3,3,16,4.7,8\n")]
    )
    assert found.verdict.case == "mismeasured"
    assert "K + 1" in found.result.refused[0][2]


def test_settings_without_a_run_are_judged_as_far_as_they_go() -> None:
    line = """vllm serve m --enforce-eager --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'"""  # noqa: E501
    found = diagnose([UserFile("launch.sh", line.encode())])
    assert rules(found) == ["graphs_off"]
    assert not found.comparisons
    assert {run.unpredicted for run in found.result.runs} == {"refused"}


def test_a_log_goes_to_the_run_with_speculation_and_the_other_line_to_the_plain_one() -> None:
    slow = Pair(launch="vllm serve m --enforce-eager").files()[
        2
    ]  # no speculation: the plain server's
    found = diagnose([*Pair().files()[:1], slow])
    assert not [one for one in found.findings if one.rule.id == "graphs_off"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("note.txt", b"it was slow\n", "not recognized"),
        ("empty.json", b"", "empty"),
        ("array.npy", b"\x93NUMPY\x01\x00", "NumPy"),
    ],
)
def test_a_file_that_holds_nothing_is_refused_with_its_reason(
    name: str, data: bytes, message: str
) -> None:
    with pytest.raises(AdvisorError, match=message):
        diagnose([UserFile(name, data)])


def test_a_file_beside_a_good_one_is_named_as_not_read() -> None:
    found = diagnose([*Pair().files(), UserFile("note.txt", b"it was slow\n")])
    assert [*found.result.not_read] == ["note.txt"]


def test_a_model_without_a_profile_is_taken_from_its_config() -> None:
    first, *rest = Pair().files()
    renamed = [
        replace(first, data=first.data.replace(b"Qwen/Qwen3-30B-A3B", b"our-own-moe")),
        *rest,
    ]
    unknown = diagnose(renamed)
    assert not unknown.comparisons
    assert all("our-own-moe" in run.refusal for run in unknown.result.runs)
    known = diagnose(renamed, configs={"our-own-moe": CONFIG_JSON})
    assert known.comparisons


def test_a_mean_concurrency_that_is_no_whole_number_is_predicted() -> None:
    text = b"hardware_id,tensor_parallel,engine,model_id,draft_tokens_k,batch_size,batch_kind,tpot_ms\n"  # noqa: E501
    found = diagnose(
        [UserFile("x.csv", text + b"h200-sxm,1,vllm,qwen3-30b-a3b,0,15.6,concurrency,14\n")]
    )
    assert len(found.comparisons) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [({"batch_size": "many"}, "is no number"), ({"batches": "4"}, "is no column")],
)
def test_a_value_that_is_none_of_its_column_is_refused(
    values: dict[str, str], message: str
) -> None:
    with pytest.raises(AdvisorError, match=message):
        diagnose([UserFile("launch.sh", b"vllm serve m --max-num-seqs 4")], values)


def test_names_in_files_are_printed_without_what_they_could_do_to_a_terminal() -> None:
    first, *rest = Pair(plain={"dataset": "a\x1b[31m\u202eb"}).files()
    shown = view_of(diagnose([replace(first, name="run\x1b.jsonl"), *rest]))
    text = " ".join(
        [shown.sentence, *shown.notes, *(t for one in shown.findings for t in one.differs)]
    )
    assert "dataset" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_plain_run_on_other_prompts_is_no_baseline_of_a_sweep_and_nothing_is_blamed_for_it() -> (
    None
):
    head = b"hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,dataset,al,tpot_ms\n"  # noqa: E501
    place = b"h200-sxm,1,vllm,qwen3-30b-a3b,"
    rows = [b",0,16,gsm8k,,14", b"eagle3,3,16,gsm8k,2.4,8", b"eagle3,3,16,mt-bench,2.4,8"]
    found = diagnose([UserFile("x.csv", head + b"\n".join(place + row for row in rows))])
    assert "arms_differ" not in rules(found)
    speedups = [one.row("speedup") for _, one in found.comparisons[1:]]
    assert [row is not None and row.measured is not None for row in speedups] == [True, False]


def test_each_file_s_run_stands_beside_its_own_file_s_plain_run_in_any_order() -> None:
    head = "model_id,hardware_id,engine,batch_size,draft_tokens_k,tpot_ms\n"
    texts = {"a.csv": ("30", "20"), "b.csv": ("40", "50")}
    setup = "gpt-oss-20b,h200-sxm,vLLM,8"
    files = [
        UserFile(name, f"{head}{setup},0,{plain}\n{setup},3,{drafted}\n".encode())
        for name, (plain, drafted) in texts.items()
    ]
    for order in (files, files[::-1]):
        found = read_runs(order, UserInput(), {})
        times = {
            run.file: run.plain["tpot_s"] / run.facts["tpot_s"] for run in found.runs if run.plain
        }
        assert times == pytest.approx({"a.csv": 1.5, "b.csv": 0.8})


def test_a_row_that_cannot_be_read_beside_good_ones_is_listed_and_is_no_verdict() -> None:
    head = b"hardware_id,tensor_parallel,engine,model_id,draft_tokens_k,batch_size,tpot_ms\n"
    row = b"h200-sxm,1,vllm,qwen3-30b-a3b,0,16,"
    found = diagnose([UserFile("x.csv", head + row + b"14.2\n" + row + b"fast\n")])
    assert found.verdict.case == "agrees"
    assert len(found.result.refused) == 1


def test_a_log_alone_is_a_run_at_the_rate_and_requests_that_it_prints() -> None:
    log = """vLLM API server version 0.33.0
    vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 1 \\
      --speculative-config '{"method": "eagle3", "num_speculative_tokens": 3}'
    Engine 000: Avg generation throughput: 239.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs
    SpecDecoding metrics: Mean acceptance length: 2.29, Per-position acceptance rate: 0.624, 0.398, 0.268, Avg Draft
    """  # noqa: E501
    found = diagnose([UserFile("pasted.txt", log.encode())], PLACE)
    ((_, compared),) = found.comparisons
    whole = compared.row("round")
    assert whole.measured == pytest.approx(2.29 / 239.2)
    assert compared.same_run_length
    assert not found.findings


def test_what_a_result_counts_stands_against_what_a_log_counts() -> None:
    pair = Pair(
        log=(
            "SpecDecoding metrics: Mean acceptance length: 1.1, Per-position acceptance rate: "
            "0.1, 0.0, 0.0, Avg"
        )
    )
    found = diagnose(pair.files())
    assert not found.findings
    assert found.verdict.case == "agrees"


def test_a_finding_names_no_source_twice() -> None:
    tree = Pair("sglang", launch=SGLANG + SGLANG_SPECULATIVE.replace("topk 1", "topk 4"))
    (found,) = view_of(diagnose(tree.files())).findings
    assert found.source.startswith("sgl-project/sglang pull request 2150")
    assert not any(found.source in text for text in found.evidence)
    assert any("by definition" in text for text in found.evidence), "a source of its own stays"


@pytest.mark.parametrize(
    ("hardware_id", "kind"),
    [("h200-sxm", "synchronous"), ("rtx-5090", "workstation"), ("mi300x", "rocm")],
)
def test_the_kind_of_a_build_is_that_of_its_version_on_its_chip(
    hardware_id: str, kind: str
) -> None:
    facts = {"engine": "vllm", "engine_version": "0.9.2", "hardware_id": hardware_id}
    assert quantity("kind_of_build").of(UserRun(facts)) == kind


def arms(
    k: int, drafted_ms: float, length: float, plain_ms: float = 32.1, first_ms: float = 2800.0
) -> Diagnosis:
    return of_files(
        (DRAFTED, launch(k) + block(drafted_ms, length, first_ms=first_ms)),
        (PLAIN, launch() + block(plain_ms, first_ms=first_ms)),
    )


def test_a_k_that_is_too_large_for_its_batch_is_the_verdict_with_the_k_to_paste() -> None:
    found = arms(7, 55.0, 1.7)
    compared = next(one for _, one in found.comparisons if one.n_draft)
    row = compared.row("speedup")
    better = compared.recommended
    verdict = found.verdict
    assert (verdict.case, verdict.k, verdict.batch) == ("foreseen", 7, 256)
    assert verdict.measured == pytest.approx(0.58, abs=0.01)
    assert rules(found) == [LOSES]
    assert 0 < better.n_draft < 7
    assert better.speedup > 1.0 > row.predicted
    assert (verdict.predicted, verdict.low, verdict.high) == (row.predicted, row.low, row.high)
    gains = (better.n_draft, better.speedup, better.speedup_low, better.speedup_high)
    assert (verdict.better_k, verdict.better, verdict.better_low, verdict.better_high) == gains
    assert verdict.carried
    change = {"num_speculative_tokens": better.n_draft}
    assert found.findings[0].change == {"--speculative-config": change}
    written = diagnosis_document(found)["comparisons"][0]["recommended"]
    assert written == dict(zip(("n_draft", "speedup", "low", "high"), gains, strict=True)) | {
        "carried": True
    }


def test_a_loss_smaller_than_predicted_is_no_gain() -> None:
    verdict = arms(7, 45.0, 1.7).verdict
    assert (verdict.case, verdict.measured > verdict.high) == ("faster", True)
    assert verdict.loss == pytest.approx(0.29, abs=0.01)


def test_without_a_plain_run_the_loss_is_called_predicted_and_not_measured() -> None:
    found = of_files((DRAFTED, launch(7) + block(45.0, 1.7)))
    assert rules(found) == [LOSES]
    verdict = found.verdict
    assert (verdict.is_foreseen, verdict.k, verdict.batch) == (True, 7, 256)
    assert verdict.loss is None


@pytest.mark.parametrize("plain_ms", [36.0, 39.0])
def test_a_run_that_gains_is_told_of_no_loss(plain_ms: float) -> None:
    found = arms(3, 33.9, 1.7, plain_ms)
    row = next(one for _, one in found.comparisons if one.n_draft).row("speedup")
    assert row.predicted < 1.0 < (row.measured or 0.0)
    assert row.inside, "the gain alone clears the rule"
    assert LOSES not in rules(found)


def test_a_loss_beyond_the_band_is_not_what_the_model_predicts() -> None:
    found = arms(3, 75.0, 1.7)
    assert LOSES not in rules(found)
    assert (found.verdict.case, found.verdict.k, found.verdict.batch) == ("physics", 3, 256)
    assert found.verdict.loss == pytest.approx(0.57, abs=0.01)


def test_beside_a_fault_of_the_settings_the_predicted_loss_comes_second() -> None:
    found = of_files(
        (DRAFTED, launch(7, "--enforce-eager") + block(50.9, 1.7)), (PLAIN, launch() + block(32.1))
    )
    verdict = found.verdict
    assert (verdict.case, verdict.faults) == ("misconfigured", ("graphs_off",))
    assert verdict.is_foreseen
    assert rules(found) == ["graphs_off", LOSES]


@pytest.mark.parametrize(("first_ms", "waits"), [(200.0, False), (2800.0, False), (60_000.0, True)])
def test_the_queue_of_a_burst_is_no_fault_and_a_longer_one_does_not_lead(
    first_ms: float, waits: bool
) -> None:
    found = arms(7, 55.0, 1.7, first_ms=first_ms)
    assert ("first_token_waits" in rules(found)) == waits
    assert found.verdict.case == "foreseen"
    assert ("first_token_waits" in found.verdict.faults) == waits


def test_a_wait_alone_does_not_make_the_run_slower_than_explained() -> None:
    found = of_files((PLAIN, launch() + block(32.1, first_ms=60_000.0)))
    assert rules(found) == ["first_token_waits"]
    assert found.verdict.case == "agrees"


TABLE = """ --speculative-config '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3, %s}'"""  # noqa: E501
K_TABLE = '"num_speculative_tokens_per_batch_size": [[1, 32, 3], [33, 256, 1]]'
ZERO_TABLE = '"num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 256, 0]]'
DECODE = (
    "Decode batch. #running-req: 16, #token: 20000, accept len: 2.40, cuda graph: %s, "
    "#queue-req: 0,\n"
)


def sent(**changes: object) -> dict[str, object]:
    return {"drafting": changes, "plain": changes}


def whole_rate(token_s: float) -> float:
    """Output rate of all GPUs at a time per token. [tokens/s]"""
    return BATCH * OUTPUT / (1.2 * at()["first"] + (OUTPUT - 1) * token_s)


def per_gpu(token_s: float, gpus: int = 4) -> dict[str, object]:
    """What an arm says that states its rates per GPU."""
    rate = whole_rate(token_s) / gpus
    return {
        "output_throughput": rate,
        "total_token_throughput": 3 * rate,
        "num_gpus": gpus,
        "tp": str(gpus),
    }


def with_prefill(token_s: float, first_s: float = 5.0) -> dict[str, object]:
    """What an arm says whose time per token is its latency over its tokens, after a long wait for
    the first."""
    latency = first_s + (OUTPUT - 1) * token_s
    rate = BATCH * OUTPUT / latency
    return {
        "mean_ttft_ms": first_s * 1e3,
        "mean_e2el_ms": latency * 1e3,
        "mean_tpot_ms": latency / OUTPUT * 1e3,
        "mean_itl_ms": None,
        "output_throughput": rate,
        "total_token_throughput": 3 * rate,
    }


def accepting(length: float, shares: list[float]) -> dict[str, object]:
    """What the speculative arm says that accepts otherwise, in rounds as long as those of the
    honest one."""
    token_s = at()["drafting"] * LENGTH / length
    return {
        "spec_decode_acceptance_length": length,
        "spec_decode_accepted_tokens": round(10_000 * (length - 1)),
        "spec_decode_per_position_acceptance_rates": shares,
        "mean_tpot_ms": token_s * 1e3,
        "mean_itl_ms": at()["drafting"] * LENGTH * 1e3,
        "mean_e2el_ms": None,
        "output_throughput": whole_rate(token_s),
        "total_token_throughput": 3 * whole_rate(token_s),
    }


OLD = {"engine_version": "0.5.6"}
OPEN = {"request_rate": 4.0, "max_concurrency": None}
SLOWER = {
    "output_throughput": 0.6 * whole_rate(at()["drafting"]),
    "total_token_throughput": 1.8 * whole_rate(at()["drafting"]),
    "mean_e2el_ms": None,
}
FAULTS: dict[str, Pair] = {
    "token_time_is_chunk_time": Pair(
        drafting={"mean_tpot_ms": at()["drafting"] * 2.4e3, "mean_e2el_ms": None}
    ),
    "rate_is_per_gpu": Pair(plain=per_gpu(at()["plain"]), drafting=per_gpu(at()["drafting"])),
    "prefill_in_token_time": Pair(
        plain=with_prefill(at()["plain"]), drafting=with_prefill(at()["drafting"])
    ),
    "arrivals_set_the_batch": Pair(**sent(**OPEN)),
    "arms_run_other_batches": Pair(drafting=SLOWER),
    "first_token_waits": Pair(
        drafting={"mean_ttft_ms": 9e3 * BATCH * at()["first"], "mean_e2el_ms": None}
    ),
    "k_too_long": Pair(drafting=accepting(1.62, [0.6, 0.015, 0.005])),
    "release_does_not_overlap": Pair("sglang", plain=OLD, drafting=OLD, batch=1),
    "tokens_lost_in_retokenizing": Pair(
        drafting={"total_output_tokens_retokenized": 400 * 160, "total_output_tokens": 512 * 160}
    ),
    "peak_counts_chunks": Pair(drafting={"max_output_tokens_per_s": 300.0}),
    "concurrency_not_reached": Pair(drafting={"concurrency": 5.0}),
    "too_few_requests": Pair(
        **sent(
            num_prompts=BATCH,
            completed=BATCH,
            total_input_tokens=1024 * BATCH,
            total_output_tokens=512 * BATCH,
        )
    ),
    "requests_missing": Pair(drafting={"num_prompts": 200}),
    "first_run_cold": Pair(repeats=(1.3, 1.0, 1.01)),
    "random_prompts": Pair(**sent(dataset="random")),
    "nearly_all_accepted": Pair(
        drafting={
            "spec_decode_acceptance_length": 3.95,
            "spec_decode_accepted_tokens": 29_500,
            "spec_decode_per_position_acceptance_rates": [0.99, 0.985, 0.975],
            "mean_tpot_ms": 1e3 * LENGTH / 3.95 * at()["drafting"],
            "mean_e2el_ms": None,
            "output_throughput": None,
            "total_token_throughput": None,
            "request_throughput": 3.0,
        }
    ),
    "prompts_in_the_prefix_cache": Pair(
        log=(
            "Engine 000: Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.1%, Prefix "
            "cache hit rate: 61.0%"
        )
    ),
    "arms_differ": Pair(plain={"dataset": "mt-bench"}),
    "graphs_off": Pair(launch=VLLM + SPECULATIVE + " --enforce-eager"),
    "round_not_captured": Pair(
        launch=VLLM
        + SPECULATIVE
        + """ --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}'"""
    ),
    "graphs_lowered": Pair(
        log=(
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode; setting "
            "cudagraph_mode=PIECEWISE"
        )
    ),
    "drafter_without_graphs": Pair(launch=VLLM + TABLE % '"enforce_eager": true'),
    "round_above_token_budget": Pair(launch=VLLM.replace("8192", "48") + SPECULATIVE),
    "admits_too_few": Pair(launch=VLLM.replace("256", "8") + SPECULATIVE),
    "requests_wait": Pair(
        log=(
            "Engine 000: Running: 12 reqs, Waiting: 4 reqs, GPU KV cache usage: 40.1%, Prefix "
            "cache hit rate: 0.0%"
        )
    ),
    "cache_too_small": Pair(log="GPU KV cache size: 15,000 tokens"),
    "table_ignored_by_version": Pair(
        launch=VLLM + TABLE % K_TABLE, **sent(engine_version="0.25.0")
    ),
    "table_not_known_to_version": Pair(
        launch=VLLM + TABLE % K_TABLE, **sent(engine_version="0.22.1")
    ),
    "table_dropped_in_parallel": Pair(launch=VLLM + " --data-parallel-size 8" + TABLE % K_TABLE),
    "zero_still_drafts": Pair(launch=VLLM + TABLE % ZERO_TABLE),
    "rounds_not_overlapped": Pair(launch=VLLM + SPECULATIVE + " --no-async-scheduling"),
    "decodes_without_graph": Pair("sglang", log=DECODE % "False"),
    "sglang_admits_48": Pair(
        "sglang",
        launch=SGLANG + SGLANG_SPECULATIVE.replace(" --max-running-requests 128", ""),
        **sent(batch=64, requests=640),
    ),
    "tree_at_batch": Pair("sglang", launch=SGLANG + SGLANG_SPECULATIVE.replace("topk 1", "topk 4")),
    "drafter_hardly_accepted": Pair(
        drafting={
            "spec_decode_acceptance_length": 1.1,
            "spec_decode_accepted_tokens": 1_000,
            "spec_decode_per_position_acceptance_rates": None,
            "mean_tpot_ms": 1e3 * at()["drafting"] * LENGTH / 1.1,
            "mean_itl_ms": 1e3 * at()["drafting"] * LENGTH,
            "mean_e2el_ms": None,
            "output_throughput": None,
            "total_token_throughput": None,
            "request_throughput": 1.0,
        }
    ),
}
"""One fault in an otherwise honest pair of runs, by the rule that is to name it."""
TWINS = {
    "release_does_not_overlap": Pair("sglang", batch=1),
    "decodes_without_graph": Pair("sglang", log=DECODE % "True"),
    "round_not_captured": Pair(
        launch=VLLM
        + SPECULATIVE
        + """ --compilation-config '{"cudagraph_capture_sizes": [4, 16, 64]}'"""
    ),
    "table_ignored_by_version": Pair(launch=VLLM + TABLE % K_TABLE),
    "table_not_known_to_version": Pair(launch=VLLM + TABLE % K_TABLE),
    "table_dropped_in_parallel": Pair(launch=VLLM + TABLE % K_TABLE),
    "zero_still_drafts": Pair(launch=VLLM + TABLE % ZERO_TABLE.replace("0]]", "1]]")),
    "requests_wait": Pair(
        log="Engine 000: Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.1%"
    ),
    "cache_too_small": Pair(log="GPU KV cache size: 150,000 tokens"),
    "first_run_cold": Pair(repeats=(1.01, 1.0, 0.99)),
    "graphs_lowered": Pair(log="INFO cudagraph_mode=FULL_AND_PIECEWISE"),
    "sglang_admits_48": Pair("sglang", **sent(batch=64, requests=640)),
    "tree_at_batch": Pair("sglang"),
}
"""The honest twin, where it is more than the pair as it stands."""


@pytest.mark.parametrize("rule", FAULTS)
def test_the_doctor_names_the_fault_alone_and_finds_nothing_on_the_honest_twin(rule: str) -> None:
    assert rules(diagnose(FAULTS[rule].files())) == [rule]
    assert rules(diagnose(TWINS.get(rule, Pair()).files())) == []


@pytest.mark.parametrize(
    ("version", "hardware_id", "requests"),
    [
        ("0.24.0", "h200-sxm", 498 // 6),
        ("0.28.0", "b200-sxm", 1008 // 6),
        ("0.10.2", "h200-sxm", None),
        ("0.24.0", "", None),
    ],
)
def test_a_release_says_which_rounds_it_captured_where_nothing_else_does(
    version: str, hardware_id: str, requests: int | None
) -> None:
    facts = {"engine": "vllm", "hardware_id": hardware_id, "draft_tokens_k": 5}
    captured = quantity("requests_in_graphs").of
    assert captured(UserRun(facts | {"engine_version": version})) == requests
    stated = {"engine_version": version, "largest_graph": 600}
    assert captured(UserRun(facts | stated)) == 100, "what is stated counts first"


def test_a_launch_line_without_a_release_is_judged_by_the_newest() -> None:
    line = "vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 384" + SPECULATIVE
    values = PLACE | {"batch_size": "192"}
    found = diagnose([UserFile("launch.sh", line.encode())], values)
    verdict = found.verdict
    assert rules(found) == ["round_not_captured"]
    (evidence,) = found.findings[0].evidence
    assert evidence.value == 192 > evidence.limit == 512 // 4
    assert verdict.batch == 192
    sizes = found.findings[0].change["--compilation-config"]["cudagraph_capture_sizes"]
    assert verdict.fixed_k is None, "nothing was measured that another K would mend"
    assert sizes[-1] == 384 * 4
    assert '"num_speculative_tokens": 3' in view_of(found).command["text"]


def of_rounds(rounds_ms: dict[int, float], plain_ms: float = 9.0, batch: int = 4) -> Diagnosis:
    """CONSTRUCTED rounds by K at one batch, whose lengths were counted."""
    head = (
        "hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,tpot_ms,"
        "accepted_length\n"
    )
    server = "h200-sxm,1,vllm,qwen3-30b-a3b,eagle3"
    rows = [f"{server},0,{batch},{plain_ms},"]
    rows += [
        f"{server},{k},{batch},{ms / (1 + 0.4 * k)},{1 + 0.4 * k}" for k, ms in rounds_ms.items()
    ]
    return diagnose([UserFile("rounds.csv", (head + "\n".join(rows)).encode())])


def test_the_slope_over_k_names_the_drafter_and_the_intercept_the_host() -> None:
    drafter = of_rounds({1: 24.0, 2: 37.0, 4: 63.0}).verdict
    assert drafter.cause == "drafter"
    assert (drafter.draft_s, drafter.fixed_s) == pytest.approx((0.013, 0.011))
    assert drafter.draft_s > drafter.baseline_token_s > 5 * drafter.draft_predicted_s
    fixed = of_rounds({1: 40.0, 2: 41.0, 4: 43.0}).verdict
    assert fixed.cause == "host"
    assert fixed.fixed_s == pytest.approx(0.039)
    assert of_rounds({2: 40.0}).verdict.cause == "round", "one K tells no part"


def test_a_finding_that_touches_no_compared_number_heads_no_verdict() -> None:
    found = diagnose(FAULTS["peak_counts_chunks"].files())
    assert rules(found) == ["peak_counts_chunks"]
    assert not found.findings[0].counts
    assert (found.verdict.case, found.verdict.faults) == ("agrees", ())


def test_the_cheapest_inputs_are_those_with_least_effort_for_each_rule() -> None:
    lacks = [("verify_time_s",), ("graphs_off", "engine_version"), ("max_num_seqs|x",), ("tpot_s",)]
    assert cheapest_missing(lacks) == [("engine_version", 1), ("launch", 2), ("result", 1)]


def test_a_baseline_outside_its_range_is_named_and_a_speedup_inside_is_not_called_outside() -> None:
    pair = slower(plain=0.66, drafting=0.66)
    verdict = diagnose(pair.files()).verdict
    assert verdict.case == "baseline"
    assert verdict.baseline_s < verdict.baseline_low_s
    assert verdict.low < verdict.measured < verdict.high


def test_runs_stand_by_k_the_most_first() -> None:
    found = of_rounds({1: 24.0, 2: 37.0})
    groups = runs_by_k(compared for _, compared in found.comparisons)
    assert [(group.quantity, group.n_draft) for group in groups] == [("speedup", 1), ("speedup", 2)]
    assert groups[0].points["batch_size"].tolist() == [4]


def test_what_to_do_comes_before_a_plain_step_far_from_the_modelled_one_and_the_cause_last() -> (
    None
):
    head = "hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,tpot_ms\n"
    rows = "".join(
        f"h200-sxm,8,sglang,deepseek-v3,mtp,{k},64,{ms}\n" for k, ms in ((0, 12), (3, 18))
    )
    found = diagnose([UserFile("runs.csv", (head + rows).encode())])
    verdict = found.verdict
    assert (verdict.case, verdict.k, verdict.batch) == ("baseline", 3, 64)
    assert verdict.baseline_s / verdict.baseline_predicted_s == pytest.approx(0.43, abs=0.01)
    assert verdict.baseline_s < verdict.baseline_low_s
    assert verdict.loss == pytest.approx(0.33, abs=0.01)
    published = (verdict.published_low, verdict.published_high)
    assert published == pytest.approx((0.97, 1.15), abs=0.01)
    assert verdict.cause == "few_tokens", "two users found no answer to why"
    assert verdict.least_length == pytest.approx(1.14, abs=0.01)
    (span,) = verdict.decision.spans
    assert (span.k, span.batches) == (0, (64.0,))
    remedy = view_of(found).remedy
    (_, compared) = found.comparisons[-1]
    assert remedy.acceptance == f"{compared.accepted_length:.3g}@3"


@pytest.mark.parametrize("gained", [1.2, 2.2])
def test_a_k_accepts_as_many_tokens_as_it_ever_gained(gained: float) -> None:
    """A round takes a plain step at least."""
    head = "hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,tpot_ms\n"
    cells = ((0, 1, 17.2), (3, 1, 17.2 / gained), (0, 64, 26.0), (3, 64, 33.0))
    rows = "".join(f"h200-sxm,8,vllm,deepseek-v3,mtp,{k},{batch},{ms}\n" for k, batch, ms in cells)
    verdict = diagnose([UserFile("runs.csv", (head + rows).encode())]).verdict
    assert verdict.cause == ("few_tokens" if gained < 1.3 else "too_long")
    if gained > 2:
        assert (verdict.gained_batch, verdict.gained) == (1, pytest.approx(2.2))


@pytest.mark.parametrize(
    ("ms", "kept"),
    [((17, 20.5, 29.5), 1), ((20.5, 29, 29.5), 0)],
)
def test_a_k_to_draft_instead_gains_by_the_median_of_this_servers_runs(
    ms: tuple[float, ...], kept: int
) -> None:
    head = "hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,tpot_ms\n"
    here = [("h200-sxm", 0, 21.0), ("h200-sxm", 3, 30.0), *(("h200-sxm", 1, one) for one in ms)]
    rows = [
        *here,
        ("b200-sxm", 0, 20.0),
        ("b200-sxm", 2, 12.0),
    ]  # what another server gains is no advice here
    text = "".join(f"{gpu},8,sglang,deepseek-v3,mtp,{k},64,{one}\n" for gpu, k, one in rows)
    verdict = diagnose([UserFile("runs.csv", (head + text).encode())]).verdict
    assert [span.k for span in verdict.decision.spans] == [kept]


def test_few_accepted_drafts_are_no_misconfigured_engine() -> None:
    found = diagnose(FAULTS["drafter_hardly_accepted"].files())
    assert (found.verdict.case, found.verdict.faults) == (
        "few_accepted",
        ("drafter_hardly_accepted",),
    )


def test_two_numbers_rule_nothing_out_that_they_do_not_tell() -> None:
    """Neither how requests arrived, nor their prompts, nor the engine's release stands in one
    sentence."""
    settings = {"batch_size": 32, "draft_tokens_k": 3, "gpu_count": 1}
    told = UserFile("typed", two_values(2210, 1980, "any_tok_per_s", settings))
    known = {
        "hardware_id": "h200-sxm",
        "model_id": "qwen3-30b-a3b",
        "drafter": "eagle3",
        "engine": "vllm",
    }
    unjudged = {"arrivals_set_the_batch", "time_is_mostly_prefill", "release_does_not_overlap"}
    assert not unjudged & {rule.id for rule in diagnose([told], known).clean}
    more = {
        "batch_kind": "max_concurrency",
        "input_tokens": "512",
        "output_tokens": "512",
        "engine_version": "0.24.0",
    }
    assert unjudged <= {rule.id for rule in diagnose([told], known | more).clean}


@pytest.mark.parametrize(
    ("engine", "batch", "line", "suspected"),
    [
        ("sglang", 64, b"", True),
        ("sglang", 48, b"", False),
        ("vllm", 64, b"", False),
        (
            "sglang",
            64,
            (
                b"python -m sglang.launch_server --speculative-algorithm EAGLE "
                b"--max-running-requests "
                b"64\n"
            ),
            False,
        ),
    ],
)
def test_a_limit_that_no_line_raises_is_suspected_first(
    engine: str, batch: int, line: bytes, suspected: bool
) -> None:
    settings = {"batch_size": batch, "draft_tokens_k": 1}
    told = two_values(1900, 1450, "any_tok_per_s", settings)
    lines = [UserFile("pasted", line)] if line else []
    known = {
        "drafter": "mtp",
        "hardware_id": "h200-sxm",
        "gpu_count": "8",
        "model_id": "deepseek-v3",
        "engine": engine,
    }
    verdict = diagnose([*lines, UserFile("typed", told)], known).verdict
    assert (verdict.cause == "admission") == suspected
    assert verdict.admitted == (48 if suspected else None)


HEAD = """--speculative-config '{"method": "eagle3", "num_speculative_tokens": 5, "enforce_eager": true}'"""  # noqa: E501
EAGER = """ --speculative-config '{"method": "eagle3", "num_speculative_tokens": 5}'"""
SHORTER = {"--speculative-config": {"num_speculative_tokens": 2}}
CHANGED = [
    (
        "A=1 vllm serve m --enforce-eager --port 1",
        {"--enforce-eager": None},
        "A=1 vllm serve m | --port 1",
    ),
    ("vllm serve --enforce-eager m", {"--enforce-eager": None}, "vllm serve | m"),
    ("vllm serve m --max-num-seqs=8", {"--max-num-seqs": 64}, "vllm serve m | --max-num-seqs 64"),
    ("vllm serve m", {"--max-num-seqs": 64}, "vllm serve m | --max-num-seqs 64"),
    (f"vllm serve m {HEAD}", {"--speculative*": None}, "vllm serve m"),
    (
        f"vllm serve m {HEAD}",
        {"--speculative-config": {"enforce_eager": None}},
        f"vllm serve m |{EAGER}",
    ),
    (f"vllm serve m {HEAD}", SHORTER, f"vllm serve m | {HEAD.replace('5', '2')}"),
    ("vllm serve m", {"--speculative-config": {"enforce_eager": None}}, ""),
    ("vllm serve m 'open", {"--max-num-seqs": 64}, ""),
    ("vllm serve m --speculative-config {", SHORTER, ""),
    ("", {"--max-num-seqs": 64}, ""),
]


@pytest.mark.parametrize(("line", "change", "changed"), CHANGED)
def test_a_launch_line_takes_the_changes_of_its_findings(
    line: str, change: dict[str, object], changed: str
) -> None:
    assert changed_line(line, [change, {}]) == changed.replace(" | ", " \\\n  ")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_change_of_a_rule_changes_a_line(engine: str) -> None:
    line = (
        f"vllm serve m {HEAD} --enforce-eager --disable-cuda-graph --no-async-scheduling "
        "--disable-overlap-schedule"
    )
    line += " --speculative-num-steps 5 --compilation-config {}"
    for k in (0, 2):
        values = remedy_values(engine, recommended_k=k, batch=48, n_draft=5)
        for _, rule in all_rules():
            change = rule.change_for(values)
            assert bool(changed_line(line, [change])) == bool(change), rule.id


def test_arguments_that_a_log_prints_are_the_line_to_mend() -> None:
    log = """non-default args: {'model': 'm', 'enforce_eager': True, 'speculative_config': {'method': 'ngram'}}
    Engine 000: Avg generation throughput: 239.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs"""  # noqa: E501
    found = diagnose([UserFile("server.log", log.encode())])
    assert (
        found.launch_line
        == """vllm serve m --enforce-eager --speculative-config '{"method": "ngram"}'"""
    )


def test_mended_graphs_hold_what_the_server_admits_and_a_faster_k() -> None:
    line = (
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 "
        "--speculative-algorithm EAGLE "
    )
    line += "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
    line += "--cuda-graph-max-bs 32 --max-running-requests 128"
    runs = UserFile("l.csv", b"concurrency,draft_tokens_k,tpot_ms\n96,0,60\n96,3,74\n")
    found = diagnose([UserFile("launch.txt", line.encode()), runs], {"hardware_id": "h200-sxm"})
    shown = view_of(found)
    assert "--cuda-graph-max-bs 128" in shown.command["text"]
    verdict = found.verdict
    by_k = {row.n_draft: row.speedup for row in found.comparisons[-1][1].by_k}
    assert by_k[verdict.fixed_k] == verdict.fixed > by_k[3]
    (title, table) = shown.comparisons[-1]
    assert "74 ms × 2.82 tokens" in title
    assert [row[0] for row in table.cells][1] == "Round, computed"


@pytest.mark.parametrize(("tpot", "speedup"), [("", 3080 / 2900), ("20.0", 21.4 / 20.0)])
def test_a_speedup_is_of_one_quantity_of_both_runs(tpot: str, speedup: float) -> None:
    header = "hardware_id,gpu_count,engine,model_id,drafter,draft_tokens_k,batch_size,output_tok_per_s,tpot_ms"  # noqa: E501
    of = "h100-sxm,1,vllm,qwen3-30b-a3b,eagle3"
    rows = f"{header}\n{of},0,64,2900,21.4\n{of},2,64,3080,{tpot}\n"
    compared = [one for _, one in diagnose([UserFile("x.csv", rows.encode())]).comparisons]
    (measured,) = (row.measured for one in compared if (row := one.row("speedup")) is not None)
    assert measured == pytest.approx(speedup)


def test_a_fault_of_runs_that_nobody_would_serve_stands_beside_the_verdict() -> None:
    """Published runs on GB200: K = 5 at batch 128 ran beyond the captured graphs, where K = 3 gains
    more and the model drafts 3 too."""
    rows = published_rows("published_speedups_3")
    grid = rows[(rows["hardware_id"] == "gb200") & (rows["model_id"] == "qwen3-30b-a3b")]

    def of_rows(some: pd.DataFrame) -> Diagnosis:
        return diagnose([UserFile("grid.csv", some.to_csv(index=False).encode())])

    whole = of_rows(grid)
    assert whole.verdict.case == "foreseen"
    assert whole.verdict.faults == ("round_not_captured",)
    (kept,) = (span.k for span in whole.verdict.decision.spans if 128.0 in span.batches)
    assert kept == 3
    alone = grid[(grid["draft_tokens_k"] == "5") & (grid["batch_size"] == "128")]
    assert of_rows(alone).verdict.case == "misconfigured", "no other run is kept there"
    others = grid[grid["batch_size"] == "128"].copy()
    others.loc[others["draft_tokens_k"] != "5", "hardware_id"] = "b200-sxm"
    assert of_rows(others).verdict.case == "misconfigured", "another server's K serves nobody here"
