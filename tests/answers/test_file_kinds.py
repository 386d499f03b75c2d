"""What a file is, by its content: every fixture goes where its reader is, and nothing raises."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.file_kinds import KIND_NAMES, kind_of
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.traces import read_traces
from advisor.predict.scenario import read_loads
from advisor.prediction import AdvisorError
from tests.measured.test_ingest_acceptance import scrape
from tests.measured.test_ingest_traces import npy, synthetic
from tests.own_model import CONFIG_JSON

ROOT = Path(__file__).resolve().parents[2]
INGEST = ROOT / "tests/fixtures/ingest"


def array(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones(shape, np.int64))
    return out.getvalue()


def packed(**arrays: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **{name: np.ones(shape, np.int64) for name, shape in arrays.items()})
    return out.getvalue()


@pytest.mark.parametrize("file", sorted(INGEST.glob("*.*")), ids=lambda file: file.name)
def test_whatever_the_benchmark_readers_take_is_a_benchmark(file: Path) -> None:
    data = file.read_bytes()
    try:
        read_upload(file.name, data)
    except AdvisorError:
        pytest.skip("no reader takes it")
    # A log that states the server's settings is diagnosed; `ingest` reads its steps too.
    assert kind_of(file.name, data) == (
        "server" if b"ServerArgs" in data or b"server_args" in data else "benchmark"
    )


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("config.json", CONFIG_JSON.encode(), "config"),
        (
            "run.sh",
            b"vllm serve openai/gpt-oss-20b --tensor-parallel-size 2 \\\n  --max-num-seqs 64",
            "server",
        ),
        (
            "launch.txt",
            b"python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp 2",
            "server",
        ),
        (
            "nvidia.csv",
            (ROOT / "tests/fixtures/power/nvidia_smi_constructed.csv").read_bytes(),
            "power",
        ),
        (
            "dcgmi.txt",
            (ROOT / "tests/fixtures/power/dcgmi_dmon_constructed.txt").read_bytes(),
            "power",
        ),
        ("metrics.txt", scrape(100, [80, 60, 40]).encode(), "acceptance"),
        ("rates.txt", b"0.72, 0.51, 0.35\n", "acceptance"),
        ("trace.npy", npy(synthetic(2, 8, 2)[0]), "trace"),
        ("trace.npz", packed(a=(4, 2, 8), b=(5, 2, 8)), "trace"),
        ("trace.csv", b"sequence,token,layer,experts\n0,0,0,3;17\n", "trace"),
        ("replies.jsonl", b'{"choices": [{"routed_experts": [[[1, 2]]]}]}\n', "trace"),
        ("loads.npy", array((24, 32)), "loads"),
        ("loads.csv", b"layer,expert,tokens\n0,0,12\n", "loads"),
        ("mixed.txt", (ROOT / "tests/fixtures/diagnosis/misconfigured.txt").read_bytes(), "server"),
        ("mine.csv", b"mean value,other\n1,2\n", "benchmark"),
        ("empty.csv", b"", "benchmark"),
        ("photo.png", b"\x89PNG\r\n\x1a\n", "benchmark"),
        ("cut.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", "trace"),
        ("claim.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<i8', (", "trace"),
        ("cut.zip", b"PK\x03\x04abc", "benchmark"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_goes_by_its_content_and_nothing_raises(name: str, data: bytes, kind: str) -> None:
    assert kind_of(name, data) == kind
    assert kind in KIND_NAMES


def test_the_readers_agree_with_the_kinds_of_arrays() -> None:
    assert read_traces([("trace.npz", packed(a=(4, 2, 8), b=(5, 2, 8)))]).sequences
    assert read_loads("loads.npy", array((24, 32))).shape == (24, 32)
