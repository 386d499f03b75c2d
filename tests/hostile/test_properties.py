"""Hypothesis for every reader of what comes from outside: AdvisorError or an answer, for any bytes
and any edit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.answers.explore.entrants import read_scores
from advisor.answers.simulation.compare import recorded
from advisor.catalog.adjustment import parse_adjustment
from advisor.catalog.hardware import read_own_hardware
from advisor.catalog.hf.config import architecture_from_config
from advisor.measured.ingest.acceptance import read_acceptance_file
from advisor.measured.ingest.read import read_given, read_upload
from advisor.measured.ingest.traces import read_power_log, read_trace
from advisor.predict.scenario import read_scenario
from advisor.prediction import AdvisorError
from advisor.text import read_json
from tests.hostile.corpus import CONFIG, HARDWARE, METRICS, SCENARIO, npy
from tests.hostile.test_given_tables import GOOD, table

Read = Callable[[bytes], object]


def as_text(read: Callable[[str], object]) -> Read:
    return lambda data: read(data.decode("utf-8", errors="replace"))


REFIT = "on=h200-sxm/vllm/vllm;n=5;data=0123456789ab;routed=1.1/0.05;corr=0/0/0/0/0/0/0/0/0/0"
READERS: dict[str, tuple[Read, bytes]] = {
    "benchmark": (lambda data: read_upload("file", data).result, table(GOOD, GOOD)),
    "points to predict": (lambda data: read_given("file", data), table(GOOD)),
    "trace": (
        lambda data: read_trace("file", data),
        npy(np.arange(48, dtype=np.int32).reshape(8, 3, 2)),
    ),
    "metrics": (lambda data: read_acceptance_file("file", data), METRICS.encode()),
    "config.json": (architecture_from_config, json.dumps(CONFIG).encode()),
    "scenario": (read_scenario, json.dumps(SCENARIO).encode()),
    "accelerator": (as_text(read_own_hardware), json.dumps(HARDWARE).encode()),
    "accepted drafts": (lambda data: recorded(data, "file"), b"[[3, 0, 2], [1, 1]]"),
    "power log": (
        lambda data: read_power_log("file", data),
        b"timestamp, power.draw [W]\n0, 300.0 W\n1, 310.0 W\n",
    ),
    "scores": (lambda data: read_scores("file.csv", data), b"model,arena\nqwen3-4b,1100\n"),
    "refit": (as_text(parse_adjustment), REFIT.encode()),
}
SETTINGS = settings(max_examples=60)


@pytest.mark.parametrize("reader", READERS)
def test_the_seed_of_each_reader_can_be_read(reader):
    read, seed = READERS[reader]
    assert read(seed) is not None


@pytest.mark.parametrize("reader", READERS)
@SETTINGS
@given(data=st.binary(max_size=300))
def test_any_bytes_give_an_answer_or_one_sentence(reader, data):
    with contextlib.suppress(AdvisorError):
        READERS[reader][0](data)


@pytest.mark.parametrize("reader", READERS)
@SETTINGS
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 5000), st.binary(max_size=5), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_any_edit_of_a_good_file_gives_an_answer_or_one_sentence(reader, edits):
    read, seed = READERS[reader]
    data = bytearray(seed)
    for place, piece, insert in edits:
        place %= len(data) + 1
        data[place : place if insert else place + len(piece)] = piece
    with contextlib.suppress(AdvisorError):
        read(bytes(data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(("reader", "seed"), [("accelerator", HARDWARE), ("scenario", SCENARIO)])
@SETTINGS
@given(data=st.data())
def test_any_json_value_under_any_key_gives_an_answer_or_one_sentence(reader, seed, data):
    document = json.loads(json.dumps(seed))
    inner = document.get("scenario", document)
    for key in data.draw(
        st.lists(st.sampled_from([*inner, "batch_size", "model_id", "extra"]), max_size=3)
    ):
        inner[key] = data.draw(JSON)
    with contextlib.suppress(AdvisorError):
        READERS[reader][0](json.dumps(document).encode())


@SETTINGS
@given(value=JSON)
def test_json_without_repeated_keys_is_read_as_python_reads_it(value):
    text = json.dumps(value)
    assert repr(read_json(text)) == repr(json.loads(text))


@given(key=st.text(max_size=10), values=st.tuples(st.integers(), st.integers()))
def test_a_key_that_stands_twice_is_never_read(key, values):
    text = f"[{{{json.dumps(key)}: {values[0]}, {json.dumps(key)}: {values[1]}}}]"
    with pytest.raises(ValueError, match="occurs twice"):
        read_json(text)


@pytest.mark.parametrize(
    "reader", ["config.json", "accelerator", "scenario", "benchmark", "accepted drafts"]
)
def test_a_key_twice_is_refused_by_every_reader_of_json(reader):
    read, seed = READERS[reader]
    inside = b'{"accepted": [[1]], ' if reader == "accepted drafts" else b"{"
    text = (
        inside + b'"twice": 1, "twice": 2, ' + seed.lstrip(b"{")
        if seed.startswith(b"{")
        else inside
    )
    if not seed.startswith(b"{"):
        text = inside + b'"twice": 1, "twice": 2}'
    with pytest.raises(AdvisorError, match="occurs twice"):
        read(text)


@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_no_number(value):
    document = {**SCENARIO, "scenario": {"acceptance": "2.4@3", "batch_size": value}}
    with pytest.raises(AdvisorError, match="every setting of a scenario is a number or text"):
        read_scenario(json.dumps(document).encode())
    with pytest.raises(AdvisorError, match="hidden_size is"):
        architecture_from_config(CONFIG | {"hidden_size": value})
    with pytest.raises(AdvisorError, match="memory_bytes"):
        read_own_hardware(json.dumps(HARDWARE | {"memory_bytes": value}))
    row = GOOD.replace("16", str(value).lower())
    assert read_given("f", table(row)).refused
