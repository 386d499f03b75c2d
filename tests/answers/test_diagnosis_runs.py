"""Whose a launch line is, with several files in any order and within one paste."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from tests.answers.console_runs import (
    DRAFTED,
    PLACE,
    PLAIN,
    block,
    drafts_by_place,
    found_in,
    launch,
    of_files,
)

Files = Sequence[tuple[str, str]]
EAGER = (DRAFTED, launch(7, "--enforce-eager") + block(70.1, 2.14))
OTHER = (PLAIN, launch() + block(32.1))
WITHOUT_LINE = (PLAIN, block(32.1))
RESULTS = ((DRAFTED, block(70.1, 2.14)), WITHOUT_LINE)
LINES = (("serve.sh", launch(7, "--enforce-eager")), ("plain.sh", launch()))


@pytest.mark.parametrize(
    "files",
    [(EAGER, OTHER), (OTHER, EAGER), (*RESULTS, *LINES), (*reversed(LINES), *reversed(RESULTS))],
)
def test_a_launch_line_belongs_to_its_own_file_or_to_the_run_that_speculates_as_it_does(
    files: Files,
) -> None:
    found = of_files(*files)
    assert drafts_by_place(found) == {DRAFTED: 7, PLAIN: 0}
    assert found_in(found, "graphs_off") == [DRAFTED]
    assert found.verdict.case == "misconfigured"
    speedups = [one.row("speedup") for _, one in found.comparisons if one.n_draft]
    assert [row is not None and row.measured is not None for row in speedups] == [True]


@pytest.mark.parametrize("files", [(EAGER, WITHOUT_LINE), (WITHOUT_LINE, EAGER)])
def test_a_plain_file_without_a_launch_line_inherits_nothing_and_is_the_plain_run(
    files: Files,
) -> None:
    found = of_files(*files, tensor_parallel="1")
    assert drafts_by_place(found) == {DRAFTED: 7, PLAIN: 0}
    assert found_in(found, "graphs_off") == [DRAFTED]
    (taken,) = (reading for reading in found.result.read if reading.kind == "baseline")
    assert (taken.place, taken.of) == (f"{PLAIN}, line 2", f"{DRAFTED}, line 3")


def test_two_files_say_what_one_paste_of_both_says() -> None:
    drafted = (DRAFTED, launch(3) + block(28.1, 1.12, batch=16, dataset="random"))
    plain = (PLAIN, launch() + block(18.1, batch=16, dataset="random"))
    together = of_files(("paste", drafted[1] + plain[1]))
    for files in ((drafted, plain), (plain, drafted)):
        found = of_files(*files)
        assert [one.rule.id for one in found.findings] == [one.rule.id for one in together.findings]
        assert found_in(found, "random_prompts") == [DRAFTED]


def test_a_checkpoint_of_a_launch_line_is_the_model_that_the_bar_calls_by_our_name() -> None:
    table = "concurrency,spec,tpot_ms,accepted_length\n96,no,15.1,\n96,K=5,22.4,2.1\n"
    line = launch(5, "--max-num-seqs 256")
    bar = {
        "hardware_id": "h100-sxm",
        "model_id": "qwen3-30b-a3b",
        "engine": "vllm",
        "drafter": "eagle3",
    }
    for files in ((table, line), (line, table)):
        found = diagnose(
            [UserFile(f"{i}.txt", text.encode()) for i, text in enumerate(files)], otherwise=bar
        )
        assert not found.findings
        assert found.comparisons[-1][1].row("speedup").measured == pytest.approx(15.1 / 22.4)
    bar["model_id"] = "qwen3-32b"
    other = diagnose([UserFile("a", table.encode()), UserFile("b", line.encode())], otherwise=bar)
    assert other.verdict.faults == ("arms_differ",), "another model is another"


def test_two_files_of_one_name_are_two_files() -> None:
    found = of_files(("run.txt", EAGER[1]), ("run.txt", OTHER[1]))
    assert drafts_by_place(found) == {"run.txt": 7, "run.txt (2)": 0}
    assert found_in(found, "graphs_off") == ["run.txt"]


def test_within_one_paste_a_block_before_a_launch_line_is_not_of_that_server() -> None:
    found = of_files(
        ("paste", block(32.1) + launch(7, "--enforce-eager") + block(70.1, 2.14)),
        tensor_parallel="1",
    )
    assert [one.n_draft for _, one in found.comparisons] == [0, 7]
    (finding,) = (one for one in found.findings if one.rule.id == "graphs_off")
    assert len(finding.places) == 1


def test_a_launch_line_under_its_only_block_is_that_block_s() -> None:
    found = of_files(("paste", block(70.1, 2.14) + launch(7, "--enforce-eager")))
    assert [one.n_draft for _, one in found.comparisons] == [7]
    assert found_in(found, "graphs_off") == ["paste"]


@pytest.mark.parametrize(
    "files",
    [
        [(PLAIN, launch() + block(32.1, 2.14))],
        [("bench.txt", block(32.1, 2.14)), ("plain.sh", launch())],
    ],
)
def test_an_accepted_length_beside_a_launch_line_without_speculation_is_named(
    files: Files,
) -> None:
    found = of_files(*files)
    assert (found.verdict.case, found.verdict.first_length) == ("contradicted", 2.14)
    assert not found.comparisons


def test_a_contradiction_beside_a_good_run_stands_in_the_verdict() -> None:
    found = of_files((DRAFTED, launch() + block(70.1, 2.14)), OTHER)
    assert (found.verdict.case, found.verdict.first_length) == ("contradicted", 2.14)
    assert drafts_by_place(found) == {PLAIN: 0}


def test_what_a_launch_line_says_stands_before_the_bar_and_before_numbers_filled_in() -> None:
    line = launch(3).replace("--tensor-parallel-size 1", "--tensor-parallel-size 2")
    text = [UserFile("paste", (line + block(20.0, 2.4, batch=16)).encode())]
    bar = {
        "tensor_parallel": "1",
        "gpu_count": "2",
        "model_id": "gpt-oss-120b",
        "drafter": "mtp",
        "engine": "sglang",
    }
    said = diagnose(text, PLACE, otherwise=bar)
    filled = diagnose(text, PLACE | {"tensor_parallel": "1"})
    alone = diagnose(text, PLACE)
    assert said.comparisons == alone.comparisons == filled.comparisons


def test_a_result_without_a_launch_line_does_not_take_that_of_another_result() -> None:
    other = ("other.txt", block(40.0, 2.3))
    for files in ((EAGER, other), (other, EAGER)):
        found = of_files(*files, tensor_parallel="1")
        assert found_in(found, "graphs_off") == [DRAFTED]
        assert drafts_by_place(found) == {DRAFTED: 7}
        (left,) = (run for run in found.result.runs if run.unpredicted)
        assert "draft_tokens_k is not stated" in left.refusal


def test_k_filled_in_for_a_run_leaves_the_k_of_a_launch_line_beside_it() -> None:
    drafted = (DRAFTED, block(70.1, 2.14))
    found = of_files(
        drafted, OTHER, draft_tokens_k="7", tensor_parallel="1", drafter="eagle3", engine="vllm"
    )
    assert drafts_by_place(found) == {DRAFTED: 7, PLAIN: 0}
