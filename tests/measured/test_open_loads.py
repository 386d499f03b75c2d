"""The batch of a run that sends requests at a rate: by Little's law, in every format that states
the rate."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import combine
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import Golden, lines_with
from tests.measured.open_runs import open_run


def test_the_batch_of_an_open_load_is_rate_times_time_per_token_and_its_queue_is_said(
    golden: Golden,
) -> None:
    result = read_upload("open.json", open_run()).result
    assert result.frame["batch_size"].iloc[0] == pytest.approx(1000 * 9e-3 * 199 / 200)
    assert result.frame["batch_kind"].iloc[0] == "mean_running"
    assert not any(item.name == "batch_size" for item in result.missing)
    assert not any("queued" in text for text in reading_texts(result.warnings))
    capped = read_upload("open.json", open_run(max_concurrency=128)).result.frame
    assert capped["batch_size"].iloc[0] == pytest.approx(1000 * 9e-3 * 199 / 200), (
        "a cap that is not reached is no batch"
    )
    closed = read_upload("open.json", open_run(max_concurrency=16, request_rate="inf")).result.frame
    assert (closed["batch_size"].iloc[0], closed["batch_kind"].iloc[0]) == (16, "max_concurrency")
    result = read_upload("open.json", open_run(mean_ttft_ms=2400.0)).result
    golden(requests_queued=lines_with(reading_texts(result.warnings), "requests queued"))


def test_a_folder_of_open_runs_has_a_batch_for_each_file() -> None:
    tables = [read_upload(f"{ms}.json", open_run(mean_tpot_ms=ms)) for ms in (8.0, 12.0)]
    frame = combine(tables).result.frame
    assert frame["batch_size"].tolist() == pytest.approx([8 * 0.995, 12 * 0.995])


RUN = {
    "output_throughput": 1000.0,
    "mean_tpot_ms": 9.0,
    "completed": 200,
    "total_output_tokens": 200 * 200,
}
RUNNING = pytest.approx(1000 * 9e-3 * 199 / 200)


def _sweep(rate: Any, cap: Any) -> bytes:
    row = {
        "run_number": 0,
        "total_token_throughput": 3560,
        "max_concurrency": cap,
        "request_rate": rate,
        **RUN,
    }
    out = io.StringIO()
    writer = csv.DictWriter(out, row)
    writer.writeheader()
    writer.writerow(row)
    return out.getvalue().encode()


def _block(label: str, ahead: bool = False) -> Callable[[Any, Any], bytes]:
    """The console block, its rate under a label, printed above the title (`ahead`) or within."""

    def written(rate: Any, cap: Any) -> bytes:
        said = f"{label}: {rate}\nMaximum request concurrency: {cap}\n"
        title = "============ Serving Benchmark Result ============\n"
        figures = "Successful requests: 200\nTotal generated tokens: 40000\nMean TPOT (ms): 9.00\n"
        rates = "Output token throughput (tok/s): 1000.00\n" + 50 * "=" + "\n"
        return ((said + title if ahead else title + said) + figures + rates).encode()

    return written


def _with_arguments(rate: Any, cap: Any) -> bytes:
    named = f"Namespace(backend='vllm', max_concurrency={cap}, request_rate={rate})\n"
    return named.encode() + _block("Burstiness factor")("1.0", cap)


def _aiperf(rate: Any, cap: Any) -> bytes:
    sent = {} if rate == "inf" else {"rate": rate}
    load = {
        "name": "profiling",
        "type": "poisson" if sent else "concurrency",
        "concurrency": cap,
        **sent,
    }
    metrics: Mapping[str, Any] = {
        "request_latency": {"unit": "ms", "avg": 1851.0},
        "inter_token_latency": {"unit": "ms", "avg": 9.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 1000.0},
        "output_sequence_length": {"unit": "tokens", "avg": 200.0},
    }
    return json.dumps({**metrics, "input_config": {"phases": [load]}}).encode()


FORMATS: dict[str, Callable[[Any, Any], bytes]] = {
    "vllm_serve": lambda rate, cap: open_run(request_rate=rate, max_concurrency=cap),
    "vllm_sweep": _sweep,
    "serving_console, vLLM": _block("Request rate configured (RPS)"),
    "serving_console, SGLang": _block("Traffic request rate"),
    "serving_console, above the title": _block("Traffic request rate", ahead=True),
    "serving_console, arguments": _with_arguments,
    "sglang_serving": lambda rate, cap: json.dumps(
        {
            **RUN,
            "backend": "sglang",
            "duration": 40.0,
            "random_range_ratio": 1.0,
            "request_rate": rate,
            "max_concurrency": cap,
        }
    ).encode(),
    "atom_results": lambda rate, cap: json.dumps(
        {**RUN, "benchmark_args": {"request_rate": rate, "max_concurrency": cap}}
    ).encode(),
    "aiperf_json": _aiperf,
}


@pytest.mark.parametrize("name", FORMATS)
def test_one_run_has_one_batch_in_every_format(name: str) -> None:
    sent = read_upload("run", FORMATS[name](5.0, 128)).result
    assert sent.format_id == name.partition(",")[0]
    assert len(sent.frame) == 1
    row = sent.frame.iloc[0]
    assert (row["batch_size"], row["batch_kind"]) == (RUNNING, "mean_running")
    closed = read_upload("run", FORMATS[name]("inf", 16)).result.frame.iloc[0]
    assert (closed["batch_size"], closed["batch_kind"]) == (16, "max_concurrency")


def test_failed_requests_are_said(golden: Golden) -> None:
    failed = _block("Failed requests")("7", 16)
    golden(
        requests_failed=lines_with(
            reading_texts(read_upload("a.log", failed).result.warnings), "7 of"
        )
    )
    assert any(
        "3 of 203 requests" in text
        for text in reading_texts(read_upload("a.json", open_run(failed=3)).result.warnings)
    )
    assert not any(
        "failed" in text
        for text in reading_texts(read_upload("a.json", open_run(failed=0)).result.warnings)
    )
