"""What a user says beside the files, and how the verdict names the accelerators that a run does not state."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose
from advisor.answers.diagnosis.runs import UserFile
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
    return diagnose([UserFile("paste", text.encode())], values, otherwise=BAR, source="the bar")


def test_the_verdict_names_what_is_from_the_bar_and_only_what_the_run_does_not_state() -> None:
    found = from_bar(BLOCK_ONLY, draft_tokens_k="0")
    assert found.sentence.endswith("Read as Qwen3-30B-A3B on 4 x NVIDIA B200 SXM (HGX/DGX), from the bar.")
    assert found.comparisons[0][1].place in found.sentence
    found = from_bar(ONE_LINE)
    assert found.comparisons[0][1].place.startswith("1 x ")
    assert found.sentence.endswith(
        "Read as Qwen3-30B-A3B on 1 x NVIDIA B200 SXM (HGX/DGX), the accelerator from the bar."
    )
    two = from_bar(ONE_LINE.replace("--tensor-parallel-size 1", "--tensor-parallel-size 2"))
    assert two.comparisons[0][1].place.startswith("2 x ")


def test_what_the_user_gives_is_named_as_given_and_stands_before_the_bar() -> None:
    found = from_bar(NO_PLACE, **PLACE, gpu_count="2")
    assert found.sentence.endswith("Read as Qwen3-30B-A3B on 2 x NVIDIA H200 SXM 141GB, as given.")
    mixed = from_bar(ONE_LINE, **PLACE)
    assert mixed.sentence.endswith("Read as Qwen3-30B-A3B on 1 x NVIDIA H200 SXM 141GB, the accelerator as given.")


@pytest.mark.parametrize("otherwise", [None, BAR])
def test_a_run_that_states_its_accelerators_is_judged_by_them_without_a_word(otherwise: dict[str, str] | None) -> None:
    found = diagnose([UserFile(HONEST.name, HONEST.read_bytes())], otherwise=otherwise, source="the bar")
    assert found.comparisons[0][1].place.startswith("2 x NVIDIA H100")
    assert "Read as" not in found.sentence
