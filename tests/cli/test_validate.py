"""`validate` on a terminal: reasons that say the same stand on one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.measure import alike
from tests.command_line import run


def test_reasons_that_differ_in_numbers_or_names_are_one_line_with_their_count() -> None:
    reasons = [
        "the round of 15.82 ms is shorter than reading the weights (19.38 ms on 2 x h200-sxm)",
        "the round of 16 ms is shorter than reading the weights (20.4 ms on 4 x h200-sxm)",
        "the round of 16 ms is shorter than reading the weights (20.4 ms on 4 x h200-sxm)",
        "'GPU A' is not one of the 39 accelerators",
        "'GPU B' is not one of the 39 accelerators",
        "none measured for llama-3.1-8b with eagle",
        "none measured for llama4-scout with ngram",
        "K is not stated",
    ]
    assert alike(reasons) == [
        (f"{reasons[0]} (and 1 more that differ in numbers or names)", 3),
        (f"{reasons[3]} (and 1 more that differ in numbers or names)", 2),
        (f"{reasons[5]} (and 1 more that differ in numbers or names)", 2),
        (reasons[7], 1),
    ]


def test_different_reasons_stay_apart_and_equal_ones_are_counted() -> None:
    assert alike(["K is not stated", "batch is not stated", "K is not stated"]) == [
        ("K is not stated", 2),
        ("batch is not stated", 1),
    ]


def test_an_accelerator_s_name_with_a_number_in_it_is_no_number() -> None:
    assert len(alike(["h100-sxm is old", "h200-sxm is old"])) == 2


def test_predict_names_unreadable_cells_together_with_missing_columns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "points.csv"
    file.write_text("hardware_id,model_id,batch_size,tpot_s\nh200-sxm,qwen3-30b-a3b,abc,0.01\n")
    code, _, err = run(capsys, "predict", str(file))
    assert code != 0
    assert "line 2: batch_size 'abc': not a number" in err
    assert "lacks the columns drafter, draft_tokens_k" in err
    file.write_text("hardware_id,model_id,batch_size\n" + "h200-sxm,qwen3-30b-a3b,abc\n" * 5)
    assert "(and 2 more rows); and the file lacks" in run(capsys, "predict", str(file))[2]
