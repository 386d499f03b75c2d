"""Traces of accepted drafts read from files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.answers.simulation.compare import MAX_TRACE_BYTES, recorded
from advisor.prediction import AdvisorError


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("[3, 0, 2]", ((3, 0, 2),)),
        ("[[3, 0, 2], [1]]", ((3, 0, 2), (1,))),
        ('{"accepted": [[1, 1]]}', ((1, 1),)),
        ("accepted\n3\n0\n", ((3, 0),)),
        ("\ufeffrequest,accepted\na,3\nb,1\na,0\n", ((3, 0), (1,))),
        ("step, accepted \n1, 3\n2,0\n", ((3, 0),)),
    ],
)
def test_json_and_csv_traces_are_read(text: str, steps: tuple[tuple[int, ...], ...]) -> None:
    assert recorded(text.encode(), "trace").steps == steps


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00", "not a text file"),
        (b"[", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "no list"),
        (b"{}", "no list"),
        (b"[[]]", "request 1"),
        (b"[[1], 2]", "request 2"),
        (b"[1.5]", "step 1"),
        (b"[true]", "step 1"),
        (b"[-1]", "0..126"),
        (b"[127]", "0..126"),
        (b"k,v\n1,2\n", "no column `accepted`"),
        (b"accepted\n", "no steps"),
        (b"accepted\n1\nx\n", "line 3"),
        (b"accepted\n-1\n", "line 2"),
        ("accepted\n²\n".encode(), "line 2"),
        (b"request,accepted\na\n", "line 2"),
        (b"accepted\n" + b"1\n" * 2_000_001, "2,000,000"),
        (json.dumps([[1]] * 20_001).encode(), "20,000"),
        (b" " * (MAX_TRACE_BYTES + 1), "20,000,000"),
    ],
)
def test_a_bad_trace_is_refused_with_what_and_where(data: bytes, fragment: str) -> None:
    with pytest.raises(AdvisorError, match=fragment) as caught:
        recorded(data, "trace.csv")
    assert "trace" in str(caught.value)


REPLIES = Path(__file__).parents[1] / "fixtures" / "vllm_replies_detailed.jsonl"


def test_replies_of_vllm_with_detailed_metrics_are_a_trace() -> None:
    data = REPLIES.read_bytes()
    found = recorded(data, "replies.jsonl")
    assert found.steps == ((3, 0, 2, 1, 2), (1, 1, 0))
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert recorded(json.dumps(lines).encode(), "list.json") == found
    assert recorded(json.dumps(lines[0]).encode(), "one.json").steps == ((3, 0, 2, 1, 2),)
    records = {"records": [{"spec_decode_acceptance": one["metrics"]["speculative_decoding"]} for one in lines]}
    assert recorded(json.dumps(records).encode(), "aiperf.json") == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("[1, 1, 0]", "[1, 1.5, 0]"), "request 2, step 2: '1.5' is no whole number"),
        (lambda text: text + "{broken\n", "line 3, is not valid JSON"),
        (lambda text: text.replace("per_step_accepted", "something_else"), "holds no list of accepted drafts"),
    ],
)
def test_replies_that_hold_no_trace_are_refused_with_what_to_give(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(AdvisorError, match=re.escape(message)) as told:
        recorded(change(REPLIES.read_text(encoding="utf-8")).encode(), "replies.jsonl")
    assert "request" in str(told.value)
