"""The diagnosis of whole files: verdicts, what is compared, what is refused, what is not judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose, verdict_text
from advisor.answers.diagnosis.facts import Run
from advisor.answers.diagnosis.quantities import quantity
from advisor.answers.diagnosis.runs import Given
from advisor.prediction import AdvisorError
from advisor.show.words.diagnosis import diagnosis_document, view_of
from advisor.text import json_text
from tests.diagnosis.fake_runs import SGLANG, SGLANG_SPECULATIVE, Pair, predicted
from tests.own_model import CONFIG_JSON

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"
PLACE = {"hardware_id": "h200-sxm", "tensor_parallel": "1"}


def of_file(name: str, **values: str) -> Diagnosis:
    return diagnose([Given(name, (FIXTURES / name).read_bytes())], values)


def slower(**factors: float) -> Pair:
    """An honest pair whose times per token are longer by a factor."""
    pair, times = Pair(), predicted()
    for name, factor in factors.items():
        token_s = times["plain" if name == "plain" else "drafting"] * factor
        arm = {"mean_tpot_ms": token_s * 1e3, "mean_itl_ms": None, "mean_e2el_ms": None}
        arm |= {"output_throughput": None, "total_token_throughput": None, "request_throughput": 1.0}
        setattr(pair, name, arm)
    return pair


def test_a_misconfigured_run_is_told_which_flag_to_set() -> None:
    found = of_file("misconfigured.txt", **PLACE)
    assert found.verdict == "misconfigured"
    assert [one.rule.id for one in found.findings] == ["sglang_admits_48"]
    assert found.findings[0].fix.startswith("--max-running-requests")


def test_a_mismeasured_run_is_to_be_measured_again() -> None:
    found = of_file("mismeasured.jsonl")
    assert found.verdict == "mismeasured"
    assert {one.rule.id for one in found.findings} == {"too_few_requests", "random_prompts"}
    assert found.sentence.startswith("Measure again")


def test_an_honest_slow_run_is_told_that_it_is_physics() -> None:
    found = of_file("honest.csv")
    assert found.verdict == "as_predicted"
    assert [one.rule.id for one in found.findings] == ["k_loses_as_predicted"]
    assert "does not pay" in found.sentence
    (_, compared) = found.comparisons[-1]
    speedup = compared.row("speedup")
    assert speedup is not None
    assert speedup.measured == pytest.approx(159.78 / 222.47)
    assert compared.best_k == 0


def test_an_honest_run_is_as_predicted_and_has_what_it_is_made_of() -> None:
    found = diagnose(Pair().files())
    assert found.verdict == "as_predicted"
    assert found.sentence.startswith("Nothing found")
    (_, compared) = found.comparisons[-1]
    whole = compared.row("round")
    assert whole is not None
    assert sum(part.round_s for part in compared.parts) == pytest.approx(
        whole.predicted * (1.0 - compared.prefill_share), rel=1e-6
    )


def test_a_gap_that_no_rule_explains_is_said_and_blamed_on_nothing() -> None:
    found = diagnose(slower(drafting=1.5).files())
    assert found.verdict == "unexplained"
    assert not found.findings
    assert "not explained" in found.sentence
    assert any("the round takes" in gap and "more than predicted" in gap for gap in found.gaps)


def test_a_round_beyond_what_any_kernel_explains_is_a_finding_of_its_own() -> None:
    found = diagnose(slower(drafting=2.3).files())
    assert [one.rule.id for one in found.findings] == ["round_slow"]
    assert found.verdict == "slower_than_predicted"


def test_rows_that_contradict_themselves_are_the_verdict_where_nothing_else_is() -> None:
    text = b"hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,accepted_length,tpot_ms\n"
    found = diagnose([Given("x.csv", text + b"h200-sxm,1,vllm,qwen3-30b-a3b,eagle3,3,16,4.7,8\n")])
    assert found.verdict == "mismeasured"
    assert "K + 1" in found.refused[0]


def test_a_refused_row_that_a_rule_explains_is_named_by_the_rule() -> None:
    pair = Pair(drafting={"mean_tpot_ms": predicted()["drafting"] * 2.4e3, "mean_e2el_ms": None})
    found = diagnose(pair.files())
    assert found.refused
    assert [one.rule.id for one in found.findings] == ["token_time_is_chunk_time"]


def test_settings_without_a_run_are_judged_as_far_as_they_go() -> None:
    line = """vllm serve m --enforce-eager --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'"""
    found = diagnose([Given("launch.sh", line.encode())])
    assert [one.rule.id for one in found.findings] == ["graphs_off"]
    assert not found.comparisons
    assert found.not_compared


def test_a_log_goes_to_the_run_with_speculation_and_the_other_line_to_the_plain_one() -> None:
    slow = Pair(launch="vllm serve m --enforce-eager").files()[2]  # no speculation: the plain server's
    found = diagnose([*Pair().files()[:1], slow])
    assert not [one for one in found.findings if one.rule.id == "graphs_off"]


def test_every_rule_is_judged_found_or_open_and_the_open_ones_say_what_they_need() -> None:
    found = diagnose(Pair().files())
    named = [*(one.rule.id for one in found.findings), *(rule.id for _, rule in found.clean)]
    open_rules = [one.rule.id for one in found.not_judged]
    assert len(named + open_rules) == len({*named, *open_rules})
    assert len(named) >= 20
    assert all(one.lacks and all(len(text) > 8 for text in one.lacks) for one in found.not_judged)


def test_a_diagnosis_is_json() -> None:
    document = json.loads(json_text(diagnosis_document(of_file("mismeasured.jsonl"))))
    assert document["verdict"] == "mismeasured"
    assert {one["rule"] for one in document["findings"]} == {"too_few_requests", "random_prompts"}
    assert document["findings"][0]["evidence"][0]["limit"] == 3
    assert document["comparisons"][0]["quantities"][0]["name"] == "plain"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("note.txt", b"it was slow\n", "not recognised"),
        ("empty.json", b"", "empty"),
        ("array.npy", b"\x93NUMPY\x01\x00", "NumPy"),
    ],
)
def test_a_file_that_holds_nothing_is_refused_with_its_reason(name: str, data: bytes, message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        diagnose([Given(name, data)])


def test_a_file_beside_a_good_one_is_named_as_not_read() -> None:
    found = diagnose([*Pair().files(), Given("note.txt", b"it was slow\n")])
    assert found.not_read
    assert found.not_read[0].startswith("note.txt")


def test_a_model_without_a_profile_is_taken_from_its_config() -> None:
    first, *rest = Pair().files()
    renamed = [replace(first, data=first.data.replace(b"Qwen/Qwen3-30B-A3B", b"our-own-moe")), *rest]
    unknown = diagnose(renamed)
    assert not unknown.comparisons
    assert any("our-own-moe" in text for text in unknown.not_compared)
    known = diagnose(renamed, configs={"our-own-moe": CONFIG_JSON})
    assert known.comparisons


def test_a_mean_concurrency_that_is_no_whole_number_is_predicted() -> None:
    text = b"hardware_id,tensor_parallel,engine,model_id,draft_tokens_k,batch_size,batch_kind,tpot_ms\n"
    found = diagnose([Given("x.csv", text + b"h200-sxm,1,vllm,qwen3-30b-a3b,0,15.6,concurrency,14\n")])
    assert len(found.comparisons) == 1


@pytest.mark.parametrize(
    ("values", "message"), [({"batch_size": "many"}, "is no number"), ({"batches": "4"}, "is no column")]
)
def test_a_value_that_is_none_of_its_column_is_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        diagnose([Given("launch.sh", b"vllm serve m --max-num-seqs 4")], values)


def test_names_in_files_are_printed_without_what_they_could_do_to_a_terminal() -> None:
    first, *rest = Pair(plain={"dataset": "a\x1b[31m\u202eb"}).files()
    shown = view_of(diagnose([replace(first, name="run\x1b.jsonl"), *rest]))
    text = " ".join([shown.sentence, *shown.notes, *shown.gaps, *(t for one in shown.findings for t in one.differs)])
    assert "dataset" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_plain_run_on_other_prompts_is_no_baseline_of_a_sweep_and_nothing_is_blamed_for_it() -> None:
    head = b"hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,dataset,al,tpot_ms\n"
    place = b"h200-sxm,1,vllm,qwen3-30b-a3b,"
    rows = [b",0,16,gsm8k,,14", b"eagle3,3,16,gsm8k,2.4,8", b"eagle3,3,16,mt-bench,2.4,8"]
    found = diagnose([Given("x.csv", head + b"\n".join(place + row for row in rows))])
    assert "arms_differ" not in [one.rule.id for one in found.findings]
    speedups = [one.row("speedup") for _, one in found.comparisons[1:]]
    assert [row is not None and row.measured is not None for row in speedups] == [True, False]


def test_a_row_that_cannot_be_read_beside_good_ones_is_listed_and_is_no_verdict() -> None:
    head = b"hardware_id,tensor_parallel,engine,model_id,draft_tokens_k,batch_size,tpot_ms\n"
    row = b"h200-sxm,1,vllm,qwen3-30b-a3b,0,16,"
    found = diagnose([Given("x.csv", head + row + b"14.2\n" + row + b"fast\n")])
    assert found.verdict == "as_predicted"
    assert len(found.refused) == 1


def test_a_log_alone_is_a_run_at_the_rate_and_requests_that_it_prints() -> None:
    log = """vLLM API server version 0.33.0
    vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 1 \\
      --speculative-config '{"method": "eagle3", "num_speculative_tokens": 3}'
    Engine 000: Avg generation throughput: 239.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs
    SpecDecoding metrics: Mean acceptance length: 2.29, Per-position acceptance rate: 0.624, 0.398, 0.268, Avg Draft
    """
    found = diagnose([Given("pasted.txt", log.encode())], PLACE)
    ((_, compared),) = found.comparisons
    whole = compared.row("round")
    assert whole is not None
    assert whole.measured == pytest.approx(2.29 / 239.2)
    assert compared.same_run_length
    assert not found.findings


def test_what_a_result_counts_stands_against_what_a_log_counts() -> None:
    pair = Pair(
        log="SpecDecoding metrics: Mean acceptance length: 1.1, Per-position acceptance rate: 0.1, 0.0, 0.0, Avg"
    )
    found = diagnose(pair.files())
    assert not found.findings
    assert found.verdict == "as_predicted"


@pytest.mark.parametrize(("high", "said"), [(0.97, False), (1.21, True)])
def test_a_run_that_loses_as_predicted_is_told_where_the_band_reaches_above_one(high: float, said: bool) -> None:
    (_, compared) = of_file("honest.csv").comparisons[-1]
    rows = tuple(replace(row, high=high) if row.name == "speedup" else row for row in compared.rows)
    sentence = verdict_text("as_predicted", [], [replace(compared, rows=rows)], [], 0)
    assert "Speculation does not pay at this batch" in sentence
    assert ("The band reaches to 1.21x, so that a gain is not ruled out." in sentence) == said


def test_a_finding_names_no_source_twice() -> None:
    tree = Pair("sglang", launch=SGLANG + SGLANG_SPECULATIVE.replace("topk 1", "topk 4"))
    (found,) = view_of(diagnose(tree.files())).findings
    assert found.source.startswith("sgl-project/sglang pull request 2150")
    assert not any(found.source in text for text in found.evidence)
    assert any("by definition" in text for text in found.evidence), "a source of its own stays"


@pytest.mark.parametrize(
    ("hardware_id", "kind"), [("h200-sxm", "synchronous"), ("rtx-5090", "workstation"), ("mi300x", "rocm")]
)
def test_the_kind_of_a_build_is_that_of_its_version_on_its_chip(hardware_id: str, kind: str) -> None:
    facts = {"engine": "vllm", "engine_version": "0.9.2", "hardware_id": hardware_id}
    assert quantity("kind_of_build").of(Run(facts)) == kind
