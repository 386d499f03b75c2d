"""What every reader of a text, file or setting refuses: refusals.yaml by reader, and here what is
too large for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.answers.advice import advise
from advisor.answers.by_batch import BatchHistogram
from advisor.answers.design.dials import Experts
from advisor.answers.design.start import parse_batches, parse_designs, start_from_shape
from advisor.answers.explore.entrants import load_from_text, read_scores
from advisor.answers.explore.grid import read_plan
from advisor.answers.simulation import compare
from advisor.answers.simulation.compare import MAX_TRACE_BYTES, recorded
from advisor.catalog.engines import stated_sizes
from advisor.catalog.hardware import read_own_hardware
from advisor.catalog.models import load_model
from advisor.measured.ingest.acceptance import (
    MAX_METRICS_BYTES,
    rates_from_list,
    read_acceptance_file,
)
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import complete
from advisor.measured.ingest.traces import read_power_log
from advisor.measured.row_questions import question_of
from advisor.physics.hardware import load_hardware
from advisor.predict.scenario import (
    Scenario,
    build_scenario,
    parse_loads,
    read_loads,
    read_scenario,
)
from advisor.prediction import AdvisorError
from advisor.show.explain.formulas import written
from tests.answers.test_design_start import PLAIN
from tests.catalog.test_hardware import POD
from tests.golden.answers import QWEN
from tests.measured.test_ingest_columns import GOOD, HEAD
from tests.measured.test_row_questions import SERVER
from tests.predict.test_plain_sweep import ASKED

CASES: dict[str, list[list[Any]]] = yaml.safe_load(
    (Path(__file__).parent / "refusals.yaml").read_text(encoding="utf-8")
)
HUGE: dict[str, list[tuple[Any, str]]] = {
    "shape": [("a" * 5000, "is no part of a shape")],
    "plan of a sweep": [
        (
            f"batch_size: 1\nk_max: {list(range(5000))}\ncontext_tokens: {list(range(5000))}",
            "asks for 25,000,000",
        )
    ],
    "trace of accepted drafts": [
        ("[" * 100_000, "not valid JSON"),
        ("accepted\n" + "1\n" * 2_001, "and 2,000 are read"),
        (json.dumps([[1]] * 20_001), "20,000"),
        (" " * (MAX_TRACE_BYTES + 1), "20,000,000"),
    ],
    "accelerator": [("[" * 15_000, "not JSON"), (" " * 20_001, "at most")],
    "benchmark": [
        (bytes(range(1, 256)) * 20, "binary"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "too many digits"),
    ],
    "acceptance": [
        ("vllm:spec_decode_num_drafts_total{" + "a," * 10**6 + "} 1\n", "line 1"),
        ("#" * (MAX_METRICS_BYTES + 1), "at most 32"),
    ],
    "loads of experts": [("layer,expert,tokens\n0,1," + "2" * 200_000, "neither")],
    "damaged link": [("A" * 5000, "damaged")],
    "model": [("a" * 5000, "cannot be read")],
    "id of an accelerator": [("x" * 5000, "is not one of")],
    "scenario": [("[" * 100_000, "not JSON"), (" " * 16_000_001, "has at most")],
}


def given(read: Callable[[bytes], object]) -> Callable[[str | bytes], object]:
    """A reader of bytes, where the table has text."""
    return lambda data: read(data.encode() if isinstance(data, str) else data)


ROW = f"{HEAD}\n{GOOD}\n".encode()
READERS: dict[str, Callable[[Any], object]] = {
    "histogram": BatchHistogram.from_text,
    "batches": parse_batches,
    "shape": lambda text: start_from_shape(PLAIN, text),
    "designs to compare": lambda text: parse_designs(text, Experts(128, 8, 0.0, 768)),
    "plan of a sweep": read_plan,
    "scores": given(lambda data: read_scores("s.csv", data)),
    "trace of accepted drafts": given(lambda data: recorded(data, "trace.csv")),
    "question": lambda change: advise(QWEN.model_copy(update=change)),
    "figure of an accelerator": lambda change: read_own_hardware(json.dumps(POD | change)),
    "accelerator": read_own_hardware,
    "power log": given(lambda data: read_power_log("x.csv", data)),
    "benchmark": given(lambda data: read_upload("x", data)),
    "acceptance": given(lambda data: read_acceptance_file("m", data)),
    "completed context": lambda values: complete(read_upload("t.csv", ROW), values),
    "loads of experts": given(lambda data: read_loads("given.csv", data)),
    "setting": lambda values: build_scenario(**{"acceptance": "2@3"} | values),
    "scenario": given(read_scenario),
    "sizes of graphs": stated_sizes,
    "list of rates": rates_from_list,
    "model": load_model,
    "id of an accelerator": load_hardware,
    "text of loads": parse_loads,
    "damaged link": lambda packed: Scenario.from_query(
        f"acceptance=2@3&model_config_json={packed}"
    ),
    "row": lambda cells: question_of(SERVER | cells).setup(),
    "load of users": load_from_text,
    "formula": lambda text: written(text, "plain"),
    "plain sweep": lambda text: build_scenario(**ASKED.model_dump() | {"plain_sweep": text}),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_refused_in_one_sentence_that_says_why(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MAX_TRACE_STEPS", 2_000)
    cases = [*CASES[reader], *HUGE.get(reader, [])]
    assert len(cases) >= 5
    for value, words in cases:
        with pytest.raises(AdvisorError) as told:
            READERS[reader](value)
        said = str(told.value)
        assert re.search(words, said), (str(value)[:80], words, said)
        assert "\n" not in said
        assert len(said) < 900, (str(value)[:80], said)
