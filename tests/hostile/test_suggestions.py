"""Suggested meanings of columns: whatever a file is, they name columns that it has, in the unit
that these say, one a target, and no count or rate of requests as batch or K; or there are none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.measured.ingest.cells import table_header
from advisor.measured.ingest.columns import COLUMNS, UNIT_FACTORS, header_key, match_header
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.remap import (
    UnreadColumnsError,
    own_headers,
    rename_headers,
    scalar_paths,
    targets,
)
from advisor.measured.ingest.upload import Sample, open_upload
from advisor.prediction import AdvisorError
from advisor.text import number_of
from tests.command_line import Run
from tests.hostile.corpus import FIXTURES, corpus

COUNTS = {
    *("requests", "request", "reqs", "prompts", "failed", "failures", "errors", "successful"),
    *("completed", "rate", "ratio", "throughput", "rps", "qps", "tps", "goodput", "queue"),
    *("waiting", "cost", "time", "id", "p99", "p90", "max", "min", "std"),
}
"""Words of what is no batch, no K and no mean."""
OTHERS = ("users", "gpus", "batch", "tokens", "step", "round", "mean", "latency", "tpot", "ttft")
MORE = ("spec", "gain", "s", "ms", "us", "parallel", "concurrent", "streams", "accepted", "per")
WORDS = (*sorted(COUNTS), *OTHERS, *MORE)
CELLS = ("0", "1", "3", "64", "0.7", "2.42", "45", "1200", "12.5 ms", "fast", "n/a", "", "-2")
COUNTED = {"batch_size", "draft_tokens_k"}
_OF_A_LIMIT = {"requests", "reqs", "max"}
"""Words that stand in names of the concurrency as well (`max_concurrent_requests`)."""


def sample_of(data: bytes) -> Sample | None:
    try:
        return open_upload("x", data)
    except AdvisorError:
        return None


def suggested(data: bytes) -> Iterator[Mapping[str, str]]:
    """What the columns of a file may mean: by its refusal, and in the form where nothing reads
    them."""
    try:
        read_upload("x", data)
    except UnreadColumnsError as error:
        yield error.maps
    except AdvisorError:
        pass
    items = own_headers("x", data)
    yield {
        item.theirs: item.ours
        for item in items
        if item.native is None and item.ours != "ignore" and not item.ours.startswith("sd_")
    }


def check(data: bytes) -> int:
    """Check every suggestion for a file, and count them."""
    sample = sample_of(data)
    n_suggested = 0
    for maps in suggested(data):
        if not maps:
            continue
        assert sample is not None
        header = table_header(sample) if sample.kind == "text" else scalar_paths(sample.first)
        assert {*maps} <= {cell.strip() for cell in header}
        assert len({*maps.values()}) == len(maps)
        for theirs, ours in maps.items():
            n_suggested += 1
            words = {*header_key(theirs).split("_")}
            column, factor = match_header(ours, "points") or ("", 1.0)
            assert ours in targets()
            assert not (column in COUNTED and words & COUNTS - _OF_A_LIMIT), (theirs, ours)
            assert not (COLUMNS["points"][column].unit == "s" and words & {"p99", "max", "std"})
            factors = [UNIT_FACTORS[word] for word in words & {"s", "ms", "us"}]
            if COLUMNS["points"][column].unit == "s":
                assert factors == [factor], (theirs, ours)
            elif COLUMNS["points"][column].unit != "tokens/s":
                assert not factors, (theirs, ours)
        rename_headers(sample, maps)  # can be typed as it stands
    return n_suggested


def test_suggestions_for_the_whole_corpus_and_for_the_files_of_every_tool_hold() -> None:
    files = {**corpus(), **{path.name: path.read_bytes() for path in FIXTURES.iterdir()}}
    n_suggested = 0
    for data in files.values():
        if len(data) < 1_000_000:
            n_suggested += check(data)
    assert n_suggested >= 30, "the corpus has columns to suggest for"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
            st.lists(st.sampled_from(CELLS), min_size=2, max_size=2),
        ),
        min_size=2,
        max_size=5,
    ),
    st.booleans(),
)
def test_suggestions_for_any_headers_hold(columns, as_json) -> None:
    names = [" ".join(words) for words, _ in columns]
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    if as_json:
        records = [
            dict(zip(names, (number_of(cell) or cell for cell in row), strict=True)) for row in rows
        ]
        check(json.dumps(records).encode())
    else:
        check("\n".join(map(",".join, [names, *rows])).encode())


def test_columns_that_are_what_they_seem_are_suggested() -> None:
    assert check(b"gpu,parallel streams,gen latency per token ms\nH200,8,9.1\n") == 4


@pytest.mark.parametrize("command", ["ingest", "fit"])
def test_a_suggested_command_names_columns_that_each_of_its_files_has(
    run: Run, tmp_path: Path, command: str
) -> None:
    head = "hardware_id,model_id,engine,gpu_count,draft_tokens_k,tpot_ms"
    cells = "h200-sxm,qwen3-30b-a3b,vllm,1,0"
    for name, column in (("a.csv", "parallel streams"), ("b.csv", "num_requests")):
        rows = "".join(f"{cells},{time},{batch}\n" for time, batch in ((9.1, 8), (9.9, 16)))
        (tmp_path / name).write_text(f"{head},{column}\n{rows}")

    def maps(*files: str) -> list[str]:
        _, out, err = run(command, *(tmp_path / name for name in files))
        text = " ".join((out + err).replace("\\\n", " ").split())
        return [words.strip("'") for words in re.findall(r"--map ('[^']+'|\S+)", text)]

    assert maps("a.csv") == ["parallel streams=batch_size"]
    assert maps("b.csv") == []
    assert maps("a.csv", "b.csv") == []
