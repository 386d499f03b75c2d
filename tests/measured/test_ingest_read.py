"""Opening uploads: encodings, archives, limits, and the promise that only AdvisorError ever comes
out."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measured.ingest import upload
from advisor.measured.ingest.read import read_unguarded, read_upload
from advisor.measured.ingest.rows import evaluate
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

CSV = "hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms\nh200-sxm,qwen3-30b-a3b,vllm,4,0,10\n"  # noqa: E501


def read(data: bytes | str, name: str = "file"):
    return read_upload(name, data.encode() if isinstance(data, str) else data).result


def refusal(data: bytes | str) -> str:
    with pytest.raises(AdvisorError) as caught:
        read(data)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 900
    return message


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files:
            archive.writestr(
                zipfile.ZipInfo(name), data, compress_type=method
            )  # a fixed date: stable test names
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        CSV.encode(),
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.encode("utf-16"),
        b"\xfe\xff" + CSV.encode("utf-16-be"),
        CSV.replace("\n", "\r\n").encode(),
        CSV.replace("\n", "\r").encode(),
        CSV.replace(",", ";").encode(),
        CSV.replace(",", "\t").encode(),
        CSV.replace(",", "|").encode(),
        ("\n\n# made by hand\n" + CSV).encode(),
        gzip.compress(CSV.encode(), mtime=0),
        gzip.compress(CSV[:30].encode(), mtime=0) + gzip.compress(CSV[30:].encode(), mtime=0),
        zipped(("results.json", CSV.encode())),
        zipped(("results.csv", CSV.encode()), method=zipfile.ZIP_STORED),
    ],
)
def test_one_table_reads_the_same_in_every_encoding_delimiter_and_archive(data):
    result = read(data)
    assert result.format_id == "canonical_csv"
    assert result.frame["tpot_s"].tolist() == [0.010]
    assert result.frame["batch_size"].tolist() == [4]
    assert result.rows_refused == 0


def test_the_name_of_a_file_plays_no_part_in_its_detection():
    assert read(CSV, "trace.npy").format_id == "canonical_csv"


def test_text_in_windows_1252_is_read_with_a_warning():
    result = read((CSV + "h200-sxm,Modèle,vllm,4,0,10\n").encode("cp1252"))
    assert result.frame["model_id"].tolist()[-1] == "Modèle"
    assert any(
        "line 3" in warning and "1252" in warning for warning in reading_texts(result.warnings)
    )


def test_a_gzip_bomb_stops_at_the_byte_limit(monkeypatch, golden):
    monkeypatch.setattr(upload, "MAX_BYTES", 2 * upload.MIB)
    bomb = gzip.compress(b"0" * (40 * upload.MIB))
    assert len(bomb) < upload.MIB
    golden(unpacks_more=lines_with(refusal(bomb), "unpacks to"))
    golden(
        unpacks_more_2=lines_with(
            refusal(zipped(("x.csv", b"0" * (40 * upload.MIB)))), "unpacks to"
        )
    )


def test_byte_row_and_column_limits_are_named_in_the_refusal(monkeypatch, golden):
    from advisor.measured.ingest import cells

    monkeypatch.setattr(cells, "MAX_ROWS", 3)
    golden(more_than=lines_with(refusal(CSV + "h200-sxm,m,vllm,4,0,10\n" * 5), "more than"))
    monkeypatch.setattr(upload, "MAX_COLUMNS", 5)
    assert "6 columns" in refusal(CSV)
    monkeypatch.setattr(upload, "MAX_BYTES", 100)
    golden(allowed_file=lines_with(refusal("x" * 5000), "allowed for"))
    monkeypatch.undo()
    monkeypatch.setattr(upload, "MAX_JSON_BYTES", 50)
    assert "JSON document" in refusal(json.dumps({"a": "b" * 100}))


def test_a_line_beyond_the_limit_is_refused(golden):
    golden(
        line_longer=lines_with(
            refusal(CSV + '"' + "x" * (upload.MAX_LINE_BYTES * 2) + '",b,c,4,0,1\n'), "line longer"
        )
    )


SEEDS = [
    b'{"duration": 1, "completed": 2, "output_throughput": 3, "total_token_throughput": 4}',
    b'[{"median_us": 1, "requests": [{"query_len": 1, "kv_len": 2, "num_draft_tokens": 0}]}]',
    b'{"metadata": {"guidellm_version": "1"}, "benchmarks": [{"metrics": {}}]}',
    b'{"request_latency": {"unit": "ms", "avg": 3}}',
    b'{"metadata": {}, "metrics": {"request_latency": {"value": 1, "unit": "ms"}}}',
    b"Metric,avg,min,max\nRequest Latency (ms),1,2,3\n",
    b"Benchmark,Inter Token Latency\n,Successful ms\n,Mean\nx,1\n",
    b"Batch size: 16, config: {}\nKernel time: 12.5 us\n",
    b"num_tokens,hidden_size,topk,num_experts,latency\n1,2,3,4,5\n",
    b'{"batch_size":1,"steps":0,"topk":0,"num_draft_tokens":0,"acc_length":1,"step_time":1,"speed":1}',
    b'{"hw":"h200","conc":4,"framework":"vllm","isl":1,"osl":2,"tput_per_gpu":3}',
    CSV.encode(),
    gzip.compress(CSV.encode(), mtime=0),
    zipped(("a.csv", CSV.encode())),
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = sorted(
    {
        key
        for seed in SEEDS
        if seed[:1] in b"{["
        for record in [json.loads(seed)]
        for key in (record[0] if isinstance(record, list) else record)
    }
)


@settings(max_examples=60)
@given(st.sampled_from([seed for seed in SEEDS if seed[:1] in b"{["]), st.data())
def test_any_json_value_in_any_field_raises_nothing_but_advisor_error(seed, data):
    document = json.loads(seed)
    record = document[0] if isinstance(document, list) else document
    for key in data.draw(st.lists(st.sampled_from(sorted(set(record) | set(FIELDS))), max_size=4)):
        record[key] = data.draw(JSON_VALUES)
    with contextlib.suppress(AdvisorError):
        evaluate(read_unguarded("file", json.dumps(document).encode()))


def test_a_unicode_line_separator_does_not_end_a_header():
    head, row = CSV.split("\n")[:2]
    result = read(f"{head},no\u2028te\n{row},x\n")
    assert result.rows_kept == 1


@pytest.mark.parametrize("at", ["read.read_unguarded", "rows.evaluate"])
def test_a_fault_of_the_reader_or_of_what_is_computed_reaches_the_user_as_one_sentence(
    monkeypatch, at
):
    def broken(*_):
        raise KeyError("inner")

    monkeypatch.setattr(f"advisor.measured.ingest.{at}", broken)
    with pytest.raises(AdvisorError, match=r"mine\.csv .* please report") as caught:
        _ = read_upload("mine.csv", CSV.encode()).result
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (
            '{"backend": "vllm", "mean_tpot_ms": 1.0, "output_thr',
            "ends within a text that begins at line 1, column 42",
        ),
        ('{"backend": "vllm",\n "mean_tpot_ms": 1.0,', "ends at line 2, column 22"),
        ('{"a": {"b": [1, 2', "ends at line 1, column 18"),
    ],
)
def test_a_json_file_that_stops_early_is_called_cut_off(text: str, end: str) -> None:
    with pytest.raises(AdvisorError, match=rf"^x is cut off: its JSON {end}; send the whole file$"):
        read(text, "x")


def test_json_that_is_wrong_in_its_middle_is_not_called_cut_off() -> None:
    with pytest.raises(
        AdvisorError, match="starts like JSON but is not: Expecting ',' delimiter at line 1"
    ):
        read('{"a": 1 "b": 2}', "x")
