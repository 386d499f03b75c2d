"""`predict` and `validate` read as `ingest` does: bounded, every odd cell named, what is handed
back is quoted."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import partial

import pytest

from advisor.measured.ingest import read
from tests.golden.sentences import lines_with
from tests.measured.test_ingest_traces import zip_of

HEAD = (
    "point_id,hardware_id,tensor_parallel,engine,model_id,drafter,draft_tokens_k,batch_size,accepted_length,"
    "accepted_length_same_run,speedup"
)
GOOD = "a,h200-sxm,1,vllm,qwen3-30b-a3b,eagle3,3,16,2.4,1,1.6"
zipped = partial(zip_of, "points.csv")


def table(*rows: str, head: str = HEAD) -> bytes:
    return "\n".join((head, *rows, "")).encode()


@pytest.fixture
def call(tmp_path, run):
    def answer(data: bytes, command: str = "predict", *options: str) -> tuple[int, str, str]:
        path = tmp_path / "points.csv"
        path.write_bytes(data)
        return run(command, path, *options)

    return answer


def predicted(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zipped], ids=["plain", "gzip", "zip"])
def test_a_table_is_predicted_plain_or_packed(call, pack, golden):
    code, out, err = call(pack(table(GOOD)))
    assert code == 0
    golden(row_predicted=lines_with(err, "1 row"))
    (row,) = predicted(out)
    assert 1.2 < float(row["predicted_speedup"]) < 2.2
    assert row["point_id"] == "a"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(table(GOOD))[:-9], "ends too early"),
        (b"\x1f\x8b\x08\x00" + b"rubbish" * 9, "damaged gzip"),
        (zipped(table(GOOD))[:60], "damaged zip"),
        (table(GOOD, head=HEAD.replace("speedup", "engine")), "several columns named 'engine'"),
        (
            table(GOOD.replace("1.6", "4"), head=HEAD.replace("speedup", "k")),
            "both give the draft length K and differ",
        ),
        (
            ",".join(f"c{i}" for i in range(300_000)).encode() + b"\n1,2\n",
            "more than the 1,024 allowed",
        ),
        (json.dumps({"a": 1}).encode(), "is not a CSV file"),
        (b"", "empty"),
        (b"\x80\x04\x95" + b"x" * 40, "pickle"),
        (b"\x00" * 4096, "binary"),
        (table(), "no rows"),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else "data"
    ),  # archives hold the second they were made in
)
def test_what_is_no_such_table_is_refused_in_one_sentence(call, data, words):
    code, out, err = call(data)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_more_rows_than_can_be_predicted_are_refused(call, monkeypatch, golden):
    monkeypatch.setattr(read, "MAX_GIVEN_ROWS", 2)
    code, _, err = call(table(*[GOOD] * 3))
    assert code == 2
    golden(most_are=lines_with(err, "at most"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (GOOD.replace("16", "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT SIX}"), "batch_size"),
        (GOOD.replace("16", "1_6"), "batch_size '1_6': not a number"),
        (GOOD.replace("16", "true"), "not a number"),
        (GOOD.replace("2.4", "9"), "exceeds K + 1"),
        (GOOD.replace("1.6", "160"), "looks like a percentage"),
    ],
)
def test_a_row_that_cannot_be_read_keeps_its_line_with_the_reason_and_the_others_are_predicted(
    call, row, reason, golden
):
    code, out, err = call(table(GOOD, row))
    assert code == 0, err
    good, bad = predicted(out)
    assert good["predicted_speedup"]
    assert not bad["predicted_speedup"]
    assert bad["predicted_reason"].startswith("not predicted: ")
    assert reason in bad["predicted_reason"]
    code, out, _ = call(table(GOOD, row), "validate")
    assert code == 0
    golden(rows_not=lines_with(out, "1 rows"))
    assert reason in out


def test_rows_that_do_not_fit_the_header_are_named_with_their_lines(call, golden):
    code, out, err = call(table("b,h200-sxm", GOOD, f"{GOOD},7,8"))
    assert code == 0
    assert len(predicted(out)) == 1
    golden(line_left=lines_with(err, "line 2"))
    golden(line_left_2=lines_with(err, "line 4"))


def test_an_unknown_engine_is_named(call, golden):
    _, out, _ = call(table(GOOD.replace("vllm", "my-engine")))
    golden(overheads_an=lines_with(predicted(out)[0]["predicted_reason"], "overheads of"))
    assert "unknown engine" not in predicted(call(table(GOOD))[1])[0]["predicted_reason"]


def test_cells_that_are_handed_back_are_quoted_and_an_earlier_prediction_is_replaced(call):
    row = f"{GOOD},=HYPERLINK(1)"
    _, out, _ = call(table(row, head=f"{HEAD},notes"))
    assert predicted(out)[0]["notes"] == "'=HYPERLINK(1)"
    again = predicted(call(out.encode())[1])
    assert list(again[0]) == list(predicted(out)[0])
