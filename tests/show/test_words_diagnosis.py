"""What a user says beside the files, and how the verdict names the accelerators that a run does not
state."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, Evidence, Finding, diagnose
from advisor.answers.diagnosis.physics import all_rules, remedy_values
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.diagnosis.verdict import ReadAs
from advisor.measured.ingest.side_by_side import two_values
from advisor.show.words.diagnosis import _finding_row, view_of
from tests.answers.console_runs import PLACE, block, launch

BAR = {
    "hardware_id": "b200-sxm",
    "gpu_count": "4",
    "tensor_parallel": "4",
    "model_id": "qwen3-30b-a3b",
    "engine": "vllm",
}
ONE_LINE = launch(3) + block(20.0, 2.4, batch=16)
NO_PLACE = ONE_LINE.replace("--tensor-parallel-size 1", "")
BLOCK_ONLY = block(20.0, batch=16)
HONEST = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis" / "honest.csv"


def from_bar(text: str, **values: str) -> Diagnosis:
    return diagnose([UserFile("paste", text.encode())], values, otherwise=BAR, source="bar")


def test_the_verdict_names_what_is_from_the_bar_and_only_what_the_run_does_not_state() -> None:
    found = from_bar(BLOCK_ONLY, draft_tokens_k="0")
    place = found.comparisons[0][1].place
    assert found.verdict.read_as == (ReadAs("Qwen3-30B-A3B", place, "bar", "bar"),)
    found = from_bar(ONE_LINE)
    place = found.comparisons[0][1].place
    assert place.startswith("1 x ")
    assert found.verdict.read_as == (ReadAs("Qwen3-30B-A3B", place, "bar", ""),)
    two = from_bar(ONE_LINE.replace("--tensor-parallel-size 1", "--tensor-parallel-size 2"))
    assert two.comparisons[0][1].place.startswith("2 x ")


def test_what_the_user_gives_is_named_as_given_and_stands_before_the_bar() -> None:
    found = from_bar(NO_PLACE, **PLACE, gpu_count="2")
    (server,) = found.verdict.read_as
    assert (server.place[:10], server.accelerator, server.number) == (
        "2 x NVIDIA",
        "given",
        "given",
    )
    (server,) = from_bar(ONE_LINE, **PLACE).verdict.read_as
    assert (server.place[:10], server.accelerator, server.number) == ("1 x NVIDIA", "given", "")


@pytest.mark.parametrize("otherwise", [None, BAR])
def test_a_run_that_states_its_accelerators_is_judged_by_them_without_a_word(
    otherwise: dict[str, str] | None,
) -> None:
    found = diagnose(
        [UserFile(HONEST.name, HONEST.read_bytes())], otherwise=otherwise, source="bar"
    )
    assert found.comparisons[0][1].place.startswith("2 x NVIDIA H100")
    assert not found.verdict.read_as


def measured(engine: str, *lines: bytes) -> Diagnosis:
    """K = 2 on one H100: CONSTRUCTED times that gain to batch 32 and lose at 128."""
    head = b"hardware_id,tensor_parallel,model_id,drafter,engine,batch_size,draft_tokens_k,tpot_ms,accepted_length\n"  # noqa: E501
    times = ((1, 4.0, 2.8), (32, 7.0, 6.0), (128, 11.0, 12.0))
    pairs = [(batch, k, ms) for batch, *arms in times for k, ms in zip((0, 2), arms, strict=True)]
    rows = [
        f"h100-sxm,1,gpt-oss-20b,eagle3,{engine},{b},{k},{ms},{2.3 if k else ''}\n".encode()
        for b, k, ms in pairs
    ]
    return diagnose(
        [
            UserFile("runs.csv", head + b"".join(rows)),
            *(UserFile("line.sh", line) for line in lines),
        ]
    )


def test_the_command_is_that_of_the_measured_speedups_and_says_what_lies_between_batches() -> None:
    command = view_of(measured("vllm")).command
    assert (
        '"num_speculative_tokens":2,"num_speculative_tokens_per_batch_size":[[1,77,2],[78,1024,0]]'
        in command["text"]
    )
    assert command["note"].endswith("77: interpolated between your 32 and 128.")
    line = (
        b'vllm serve openai/gpt-oss-20b --speculative-config \'{"method": "eagle3", '
        b'"num_speculative_tokens": 2}\''
    )
    own = view_of(measured("vllm", line)).command
    assert '"num_speculative_tokens_per_batch_size": [[1, 77, 2], [78, 1024, 0]]' in own["text"]
    assert own["title"] == "Your launch command with K = 2"


def test_a_command_has_every_k_that_was_measured_to_pay_whichever_run_comes_first() -> None:
    head = b"hardware_id,tensor_parallel,model_id,drafter,engine,batch_size,draft_tokens_k,tpot_ms,accepted_length\n"  # noqa: E501
    times = ((1, (6.1, 3.5, 3.0)), (16, (9.8, 6.8, 7.0)), (192, (21.0, 22.0, 30.0)))  # CONSTRUCTED
    rows = [(b, k, ms) for b, arms in times for k, ms in zip((0, 2, 4), arms, strict=True)]
    lengths = {0: "", 2: "2.25", 4: "2.95"}
    cells = "".join(
        f"h200-sxm,1,qwen3-30b-a3b,eagle3,vllm,{b},{k},{ms},{lengths[k]}\n" for b, k, ms in rows
    )
    command = view_of(diagnose([UserFile("runs.csv", head + cells.encode())])).command
    assert re.search(
        r'per_batch_size":\[\[1,\d+,4\],\[\d+,\d+,2\],\[\d+,\d+,0\]\]', command["text"]
    )


def test_what_physics_finds_of_a_server_far_from_the_predicted_is_no_verdict() -> None:
    rows = b"batch_size,draft_tokens_k,tpot_ms,accepted_length\n32,0,60,\n32,3,80,2.4\n"
    found = diagnose(
        [UserFile("runs.csv", rows)], otherwise=BAR | {"drafter": "eagle3"}, source="bar"
    )
    assert found.verdict.case == "baseline"
    assert found.verdict.baseline_s > found.verdict.baseline_high_s


def test_a_server_that_does_not_fit_is_asked_for_its_format_before_anything_is_predicted() -> None:
    line = b"vllm serve Qwen/Qwen3.5-397B-A17B --tensor-parallel-size 8 --speculative-config "
    line += b'\'{"method": "mtp", "num_speculative_tokens": 3}\''
    rows = b"batch_size,draft_tokens_k,tpot_ms\n96,0,24.6\n96,3,31\n"
    files = [UserFile("line.sh", line), UserFile("runs.csv", rows)]
    found = view_of(diagnose(files, {"hardware_id": "h100-sxm"}))
    unfit = found.verdict.unfit
    assert (found.verdict.case, unfit.dtype) == ("does_not_fit", "bf16")
    assert unfit.needed_gib == pytest.approx(100, abs=1)
    assert unfit.usable_gib < 80
    assert unfit.formats[:2] == ("fp8_block", "fp8")
    assert found.remedy is None
    assert not found.comparisons, "no time of a server that cannot run"
    format_known = {"hardware_id": "h100-sxm", "weight_dtype": "fp8_block"}
    verdict = diagnose(files, format_known).verdict
    assert (verdict.case, verdict.unfit, verdict.cause) == ("slower", None, "few_tokens")
    assert [(span.k, span.batches) for span in verdict.decision.spans] == [(0, (96.0,))]


def test_no_source_on_a_card_is_a_file_of_this_project() -> None:
    for kind, rule in all_rules():
        tests = tuple(Evidence(test, 6.0, 5.0) for test in rule.tests)
        values = remedy_values("vllm", 2)
        card = _finding_row(Finding(rule, kind, ("runs.csv, line 2",), tests, values))
        shown = " ".join([*card.evidence, card.source])
        assert not re.search(r"\b(?:advisor|profiles|tests|docs/[a-z]+[.]md)/?", shown), shown


def test_a_mended_launch_line_drafts_the_k_that_is_faster_then_and_captures_its_rounds() -> None:
    """`or try K = 2` stood beside a line to paste that kept K = 3."""
    graphs = """--compilation-config '{"cudagraph_capture_sizes":[1,2,4,8,16,32,64]}'"""
    drafts = (
        """--speculative-config '{"method":"eagle3","model":"head","num_speculative_tokens":5}'"""
    )
    line = f"vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 4 --max-num-seqs 128 {graphs} {drafts}"
    typed = two_values(25, 31, "tpot_ms", {"batch_size": 48, "draft_tokens_k": 5})
    files = [UserFile("launch.sh", line.encode()), UserFile("typed", typed)]
    found = diagnose(files, {"hardware_id": "h200-sxm", "drafter": "eagle3"})
    k = found.verdict.fixed_k
    command = view_of(found).command
    assert k is not None
    assert 0 < k < 5
    assert command["title"] == f"Corrected launch command (K = {k})"
    assert f'"num_speculative_tokens": {k}' in command["text"]
    sizes = json.loads(re.search(r"cudagraph_capture_sizes\": (\[[^]]*\])", command["text"])[1])
    assert sizes[-1] == 128 * (k + 1)
    assert all(size % (k + 1) == 0 for size in sizes)
