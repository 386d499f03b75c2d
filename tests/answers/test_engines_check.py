"""A launch line of the user's own held against the one that serves the answer."""

from __future__ import annotations

import pytest

from advisor.answers.engines.config import check_line
from advisor.prediction import AdvisorError

WANTED = """vllm serve openai/gpt-oss-20b --tensor-parallel-size 2 \\
  --speculative-config '{"method":"eagle3","model":"DRAFT-MODEL","num_speculative_tokens":3}'"""


def verdicts(given: str, wanted: str = WANTED) -> dict[str, str]:
    return {one.flag: one.verdict for one in check_line(given, wanted)}


def test_the_same_line_is_the_same_whatever_its_order_spaces_and_short_names() -> None:
    given = """vllm serve openai/gpt-oss-20b --speculative-config \
    '{"num_speculative_tokens": 3, "model": "my/head", "method": "eagle3"}' -tp 2"""
    assert set(verdicts(given).values()) == {"same"}


def test_what_differs_lacks_or_is_more_is_told_apart_and_changes_come_first() -> None:
    given = "VAR=1 vllm serve openai/gpt-oss-20b --tensor_parallel_size=4 --seed 7"
    found = check_line(given, WANTED)
    assert [(one.flag, one.verdict) for one in found] == [
        ("--tensor-parallel-size", "change"),
        ("--speculative-config", "set"),
        ("--model-path", "same"),
        ("--seed", "keep"),
    ]
    assert (found[0].given, found[0].wanted) == ("4", "2")


def test_another_number_of_draft_tokens_is_a_change() -> None:
    given = WANTED.replace('"num_speculative_tokens":3', '"num_speculative_tokens":5')
    assert verdicts(given)["--speculative-config"] == "change"


@pytest.mark.parametrize(("given", "words"), [("", "no flag"), ("vllm serve 'x", "quotes"), ("hello", "no flag")])
def test_what_is_no_line_is_refused_in_words(given: str, words: str) -> None:
    with pytest.raises(AdvisorError, match=words):
        check_line(given, WANTED)
