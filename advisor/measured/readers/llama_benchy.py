"""llama-benchy's results: its JSON, its CSV, and the Markdown table that it prints and people
paste.

Read in llama-benchy 0.4.0: src/llama_benchy/results.py (what is written) and client.py (how tokens
are counted).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.measured.ingest.cells import Cells, read_table
from advisor.measured.ingest.result import Reject, shorten
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import Format, RawRows, field_of, with_header
from advisor.prediction import AdvisorError
from advisor.text import number_of

_TEST = re.compile(
    r"(?P<context>ctx_)?(?P<kind>pp|tg)(?P<tokens>[0-9]{0,9})"
    r"(?: @ d(?P<depth>[0-9]{1,9}))?(?: \(c(?P<users>[0-9]{1,6})\))?"
)
"""`tg128 @ d4096 (c8)`: 128 generated tokens behind 4,096 of context, 8 requests at once."""
_MEAN = re.compile(r"([0-9.]+)(?:\s*(?:±|\+/-|\+-).*)?")
"""`71.15 ± 7.10`: the mean, then the standard deviation over runs."""
_OWN_COLUMNS = ("ttfr (ms)", "peak t/s")
"""Columns of its table that llama-bench's table, of which it is an imitation, does not have."""


@dataclass(frozen=True)
class _Run:
    """One measured decode: where it stands in the file, and its figures as written."""

    line: int
    model: Any
    users: Any
    prompt: Any
    """Prompt and the context before it. [tokens]"""
    generated: Any
    request_rate: Any
    """Tokens per second of one request. [tokens/s]"""
    total_rate: Any
    first_token_ms: Any


def _raw(sample: Sample, runs: Sequence[_Run], rejects: Sequence[Reject], left_out: int) -> RawRows:
    """Rows of the runs. Raises AdvisorError for a file without a decode."""
    if not runs and not rejects:
        raise AdvisorError(
            f"{sample.name} holds no generation test (tg...); run llama-benchy with --tg above 0"
        )
    records = [{"model": run.model} for run in runs]
    raw = RawRows("points", np.array([run.line for run in runs], dtype=np.int64), {}, list(rejects))
    raw.name_models(records, "model")
    raw.cells |= {
        "batch_size": Cells([run.users for run in runs], "concurrency"),
        "input_tokens": Cells([run.prompt for run in runs], "context_size + prompt_size"),
        "output_tokens": Cells([run.generated for run in runs], "response_size"),
        "ttft_s": Cells([run.first_token_ms for run in runs], "e2e_ttft (ms)", 1e-3),
        "tpot_s": Cells([_inverse(run.request_rate) for run in runs], "t/s of one request"),
    }
    raw.constant("batch_kind", "max_concurrency")
    # Where a table gives the rate of all requests alone, it is kept as such: it is no rate of one
    # request.
    if any(run.request_rate is None for run in runs):
        raw.cells["output_tok_per_s"] = Cells([run.total_rate for run in runs], "t/s (total)")
    if left_out:
        raw.note("prompt_tests", left=(left_out, "test"))
    return raw


def _inverse(rate: Any) -> Any:
    """1 / rate. What is no rate is passed on, so that the row is refused."""
    number = number_of(rate)
    return rate if number is None or number <= 0 else 1.0 / number


# --format json: the run's settings, and a list of tests.
_FIELDS = ("latency_mode", "benchmarks")


def detect_json(sample: Sample) -> float:
    """0.95 for its latency mode beside a list of tests with a context size and a rate."""
    tests = sample.first.get("benchmarks")
    first = tests[0] if isinstance(tests, list) and tests and isinstance(tests[0], dict) else {}
    test_fields = {"concurrency", "context_size", "prompt_size", "response_size"}
    has_test_fields = test_fields <= first.keys()
    return 0.95 if sample.kind == "json" and has_test_fields else 0.0


def read_json(sample: Sample) -> RawRows:
    """One row per test, under its number in the list. Loading of a context is left out."""
    runs = []
    rejects = list(sample.rejects)
    left_out = 0
    for line, test in enumerate(sample.first["benchmarks"], start=1):
        if not isinstance(test, dict):
            rejects.append(Reject(line, "benchmarks", shorten(test), "expected a JSON object"))
            continue
        rate = field_of(test, "tg_req_throughput.mean")
        total = field_of(test, "tg_throughput.mean")
        if test.get("is_context_prefill_phase") is True or (rate is None and total is None):
            left_out += 1
            continue
        if rate is None and test.get("concurrency") == 1:
            rate = total
        lengths = [number_of(test.get(name)) for name in ("context_size", "prompt_size")]
        runs.append(
            _Run(
                line,
                sample.first.get("model"),
                test.get("concurrency"),
                None if None in lengths else sum(filter(None, lengths)),
                test.get("response_size"),
                rate,
                total,
                field_of(test, "e2e_ttft.mean"),
            )
        )
    return _raw(sample, runs, rejects, left_out)


# The table: `| model | test | t/s (total) | t/s (req) | peak t/s | ...`, printed, saved or pasted.
def detect_table(sample: Sample) -> float:
    """0.9 for a Markdown table with the columns model, test, t/s and ttfr (ms) or peak t/s.

    It stands in the first 256 KiB.
    """
    return (
        0.9
        if sample.kind == "text" and any(_header(line) for line in sample.head.splitlines()[:2000])
        else 0.0
    )


def _header(line: str) -> list[str]:
    """The names of its table's columns. Empty for any other line."""
    names = _cells(line)
    has_rate = any(name in ("t/s", "t/s (req)") for name in names)
    has_tool_columns = any(name.startswith(_OWN_COLUMNS) for name in names)
    return names if {"model", "test"} <= set(names) and has_rate and has_tool_columns else []


def _cells(line: str) -> list[str]:
    """Cells of a row of a Markdown table, behind the marks of a quotation too. Empty for any other
    line."""
    match = re.fullmatch(r"[\s>]*\|(.*)\|\s*", line)
    return [cell.strip().strip("`*") for cell in match[1].split("|")] if match else []


def read_printed(sample: Sample) -> RawRows:
    """One row per generation test, its prompt and first token those of the prompt test before
    it."""
    tests: list[tuple[int, Mapping[str, str]]] = []
    names: list[str] = []
    for line, text in enumerate(sample.text.splitlines(), start=1):
        if header := _header(text):
            names = header
        elif names and (cells := _cells(text)):
            if len(cells) == len(names) and not set(cells[0]) <= set(":- "):
                tests.append((line, dict(zip(names, cells, strict=True))))
        else:
            names = []
    return _raw(sample, *_runs_of_tests(tests, "t/s", "t/s (req)", "t/s (total)", "e2e_ttft (ms)"))


def _runs_of_tests(
    tests: Sequence[tuple[int, Mapping[str, str]]],
    plain: str,
    of_one: str,
    of_all: str,
    first_token: str,
) -> tuple[list[_Run], list[Reject], int]:
    """Runs, refused rows and the number of tests left out, of tests in the order in which they ran.

    The names are those of the columns: a rate without a word beside it, of one request, of all, the
    first token.
    """
    runs: list[_Run] = []
    rejects: list[Reject] = []
    left_out = 0
    before: tuple[str, Any, Any] = ("", None, None)
    for line, cells in tests:
        test = cells.get("test") or cells.get("test_name") or ""
        match = _TEST.fullmatch(" ".join(test.split()))
        if match is None:
            rejects.append(
                Reject(
                    line,
                    "test",
                    shorten(test),
                    "no test of llama-benchy, such as tg128 @ d4096 (c8)",
                )
            )
            continue
        if match["kind"] == "pp" or match["context"]:
            left_out += 1
            before = (_place(match), match["tokens"] or None, _mean(cells.get(first_token)))
            continue
        prompt_test = before if before[0] == _place(match) else ("", None, None)
        users = int(match["users"] or 1)
        rate = _mean(cells.get(of_one)) or (_mean(cells.get(plain)) if users == 1 else None)
        total = _mean(cells.get(of_all)) or _mean(cells.get(plain))
        rate = total if rate is None and users == 1 else rate
        prompt = None if prompt_test[1] is None else int(prompt_test[1]) + int(match["depth"] or 0)
        runs.append(
            _Run(
                line,
                cells.get("model"),
                users,
                prompt,
                match["tokens"],
                rate,
                total,
                prompt_test[2],
            )
        )
    return runs, rejects, left_out


def _place(test: re.Match[str]) -> str:
    """What a prompt test and the generation test after it share."""
    return f"{test['context'] or ''}@{test['depth'] or 0}c{test['users'] or 1}"


def _mean(cell: str | None) -> str | None:
    """The mean of `71.15 ± 7.10`. None for an empty cell; what is no number is passed on to be
    refused."""
    text = (cell or "").strip()
    match = _MEAN.fullmatch(text)
    return match[1] if match else text or None


# --format csv: the rows of the table, means and deviations apart.
def read_csv(sample: Sample) -> RawRows:
    """One row per generation test, as of the printed table."""
    table = read_table(sample)
    columns = {
        name: column.to_pylist() for name, column in zip(table.header, table.columns, strict=True)
    }
    tests = [
        (int(line), {name: column[row] or "" for name, column in columns.items()})
        for row, line in enumerate(table.lines)
    ]
    runs, rejects, left_out = _runs_of_tests(tests, "", "t_s_req_mean", "t_s_mean", "e2e_ttft_mean")
    return _raw(sample, runs, [*table.rejects, *rejects], left_out)


FORMATS = (
    Format("llama_benchy_json", "llama-benchy JSON", detect_json, read_json, wants=_FIELDS),
    Format("llama_benchy", "llama-benchy's printed table", detect_table, read_printed),
    Format(
        "llama_benchy_csv",
        "llama-benchy CSV",
        with_header(0.95, "model", "test_name", "t_s_mean", "t_s_req_mean", "ttfr_mean"),
        read_csv,
    ),
)
