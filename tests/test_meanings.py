"""What short texts mean to those who read them, as engines, drivers and people write them:
meanings.yaml by reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.answers.diagnosis.facts import read_settings
from advisor.catalog.engines import stated_sizes
from advisor.catalog.hardware import hardware_meant
from advisor.measured.ingest.columns import drafter_name, weight_dtype
from advisor.measured.observations import laboratory_of_row
from advisor.measured.row_questions import build_of, engine_class, question_of
from advisor.text import safe_cell, token_count, with_prefix
from studies.overheads import is_before
from tests.catalog.formats import formats_from_config
from tests.catalog.test_hf_weight_format import LATENT
from tests.measured.test_points import ROW

MEANINGS: dict[str, list[list[Any]]] = yaml.safe_load(
    Path(__file__).with_name("meanings.yaml").read_text(encoding="utf-8")
)
READERS: dict[str, Callable[[Any], object]] = {
    "printed settings of a server": lambda given: read_settings(given[0])[given[1]],
    "graph sizes": lambda text: {name: _plain(value) for name, value in stated_sizes(text).items()},
    "scheme of activations": lambda block: (
        formats_from_config({**LATENT, "quantization_config": block}).activation_scheme
    ),
    "older than 0.18 of 2026-03-20": lambda version: is_before(version, "0.18", "2026-03-20"),
    "laboratory of an address": lambda url: laboratory_of_row(
        {"source_title": "a new title", "source_url": url}
    ),
    "weight format of an engine": weight_dtype,
    "drafter of an engine": drafter_name,
    "accelerator of a driver": hardware_meant,
    "name in a row": lambda given: getattr(
        question_of(ROW | {given[0]: given[1]}).scenario, given[0]
    ),
    "kind of build of a row": lambda cells: question_of(ROW | cells).engine_class,
    "engine class": lambda given: engine_class(build_of(given[0]), given[1]),
    "bytes and operations": lambda given: with_prefix(*given),
    "number of tokens": token_count,
    "safe cell": safe_cell,
}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("reader", READERS)
def test_a_text_means_what_it_meant(reader: str) -> None:
    assert len(MEANINGS[reader]) >= 5
    for given, meaning in MEANINGS[reader]:
        assert READERS[reader](given) == meaning, given
