"""Scenario: validation, hash, URL and JSON round trips.

The scenario as a file: round trip, reports read as well, and a clear word for everything else.

The named examples: each has an answer on measured kernels, fits its GPUs, and says where its
numbers come from.

Loads of experts as one line of text: what a scenario and its link carry.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.advice import advise
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.expert_ranks import skewed_loads
from advisor.predict.curve import DEFAULT_BATCHES, speedup_curve
from advisor.predict.scenario import (
    Scenario,
    build_scenario,
    example_ids,
    load_example,
    load_scenario_file,
    loads_shape,
    parse_loads,
    read_scenario,
    scenario_json,
    write_loads,
)
from advisor.predict.scenario_fields import DEFAULT_CONTEXT_TOKENS, mean_context
from advisor.prediction import AdvisorError, Tier
from tests.catalog.test_hardware import POD

CONFIG = json.dumps({"model_type": "mixtral", "hidden_size": 64, "name": "käse & co"})


def test_how_much_is_accepted_has_no_default() -> None:
    with pytest.raises(AdvisorError, match="acceptance"):
        build_scenario(hardware_id="h200-sxm")


@given(
    batch=st.integers(1, 65536),
    gpus=st.sampled_from([1, 2, 4, 8]),
    k_max=st.integers(1, 32),
    limit=st.none() | st.floats(0.01, 1e4),
    config=st.none() | st.just(CONFIG),
    routing=st.sampled_from(["auto", "uniform", "a b&c=d"]),
)
def test_a_link_restores_the_scenario(
    batch: int, gpus: int, k_max: int, limit: float | None, config: str | None, routing: str
) -> None:
    scenario = Scenario(
        acceptance="0.7,0.5",
        batch_size=batch,
        n_gpus=gpus,
        tensor_parallel=gpus,
        k_max=k_max,
        max_tpot_ms=limit,
        model_config_json=config,
        routing=routing,
    )
    again = Scenario.from_query("?" + scenario.to_query())
    assert again == scenario
    assert {"batch_size", "context_tokens", "engine", "hardware_id"} <= dict(
        parse_qsl(scenario.to_query())
    ).keys()
    assert again.hash == scenario.hash
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario


def test_the_hash_changes_with_every_choice_and_with_nothing_else() -> None:
    one = Scenario(acceptance="2@3", batch_size=4)
    same = Scenario(acceptance="2@3", batch_size=4)
    other = Scenario(acceptance="2@3", batch_size=5)
    assert one.hash == same.hash != other.hash
    assert len(one.hash) == 12


def test_hashes_in_reports_that_were_written_hold() -> None:
    """A field that is added later must be marked `is_younger`, or every hash changes."""
    assert Scenario(acceptance="2.4@3", kv_dtype="bf16").hash == "143e33ba133d"
    assert (
        Scenario(acceptance="2.4@3", kv_dtype="bf16", hardware_json="{}", refit="on=x").hash
        == "00be8028c608"
    )


def test_a_link_that_unpacks_to_more_than_a_config_is_refused() -> None:
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b" " * 50_000_000, 9)).decode()
    with pytest.raises(AdvisorError, match="model_config_json"):
        Scenario.from_query(f"acceptance=2@3&model_config_json={bomb}")


@given(st.text(max_size=200))
def test_any_query_string_gives_a_scenario_or_one_sentence(query: str) -> None:
    message = ""
    try:
        Scenario.from_query(query)
    except AdvisorError as error:
        message = str(error)
    assert "\n" not in message


def test_a_context_left_out_is_the_prompt_and_half_the_output_and_else_the_default() -> None:
    lengths = {"input_tokens": 4096, "output_tokens": 301}
    assert build_scenario(acceptance="2@3").context_tokens == DEFAULT_CONTEXT_TOKENS == 2048
    assert build_scenario(acceptance="2@3", **lengths).context_tokens == 4246
    texts = {name: str(value) for name, value in lengths.items()}
    assert build_scenario(acceptance="2@3", **texts).context_tokens == 4246
    assert build_scenario(acceptance="2@3", **lengths, context_tokens=6000).context_tokens == 6000
    assert mean_context(4096, 301) == 4246.5


@pytest.mark.parametrize("context", [DEFAULT_CONTEXT_TOKENS, 1250, 9000])
def test_a_link_keeps_the_context_beside_lengths(context: int) -> None:
    scenario = Scenario(
        acceptance="2@3", input_tokens=1000, output_tokens=500, context_tokens=context
    )
    assert Scenario.from_query(scenario.to_query()) == scenario


WHOLE = Scenario(
    acceptance="2.4@3",
    model_id="mine",
    model_config_json='{"model_type": "x"}',
    hardware_id="own-pod",
    hardware_json=json.dumps(POD),
    max_tpot_ms=12.5,
    input_tokens=5,
    output_tokens=6,
)


@pytest.mark.parametrize(
    "scenario", [WHOLE, *(load_example(name).scenario for name in example_ids())], ids=str
)
def test_a_file_brings_the_same_scenario_back(scenario: Scenario) -> None:
    found = read_scenario(scenario_json(scenario).encode())
    assert (found.scenario, found.stated_hash, found.date, found.note) == (
        scenario,
        scenario.hash,
        None,
        "",
    )


def test_a_report_s_date_comes_along_and_settings_left_out_have_their_defaults() -> None:
    text = json.dumps(
        {"schema_version": 1, "date": "2026-01-02", "scenario": {"acceptance": "2@3"}}
    )
    found = read_scenario(b"\xef\xbb\xbf" + text.encode())
    assert (found.scenario, found.date) == (Scenario(acceptance="2@3"), dt.date(2026, 1, 2))


def test_an_edited_file_says_so() -> None:
    edited = json.loads(scenario_json(WHOLE))
    edited["scenario"]["batch_size"] = 3
    found = read_scenario(json.dumps(edited).encode())
    assert found.scenario.batch_size == 3
    assert WHOLE.hash in found.note


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match=r"none\.json"):
        load_scenario_file(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(AdvisorError, match=r"broken\.json: the file is not JSON"):
        load_scenario_file(broken)


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", example_ids())
def test_an_example_runs_fits_names_its_accepted_length_and_how_it_compares_to_cited_speedups(
    name: str,
) -> None:
    example = load_example(name)
    advice = advise(example.scenario)
    assert advice.recommendation.speedup.tier.rank <= Tier.FITTED.rank
    assert advice.recommendation.n_draft > 0
    assert advice.setup.memory.largest_batch >= example.scenario.batch_size
    assert not advice.setup.acceptance.borrowed
    curves = {curve.id: curve for curve in acceptance_curves()}
    is_curve = example.scenario.acceptance in curves
    assert example.acceptance_origin == ("measured curve" if is_curve else "published value")
    if is_curve:
        curve = curves[example.scenario.acceptance]
        assert (curve.model_id, curve.drafter_id) == (
            example.scenario.model_id,
            example.scenario.drafter_id,
        )
    said = re.search(r"predicted [a-z ]+(?=\.$)", example.description)
    assert (said is None) == (not example.measured)
    if said is not None:
        assert said[0] == compared(name), "the first line of the example is no longer true"
        assert f"{max(one.speedup for one in example.measured):.3g}x" in example.description


def test_mixtral_s_share_placement_and_speedups_are_those_that_the_paper_gives() -> None:
    with (ROOT / "measurements/moesd_cells/data.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model_id"] == "mixtral-8x7b"]
    greedy = {
        int(row["draft_tokens_gamma"]): row
        for row in rows
        if (row["dataset"], row["temperature"]) == ("HumanEval", "0.0")
    }
    example = load_example("mixtral")
    assert example.scenario.acceptance == f"{4 * float(greedy[3]['sigma']):.2f}@3"
    place = (example.scenario.hardware_id, example.scenario.n_gpus)
    assert {(row["hardware_id"], int(row["gpu_count"])) for row in rows} == {place}
    published = {k: float(row["speedup_peak"]) for k, row in greedy.items()}
    assert {one.n_draft: one.speedup for one in example.measured}.items() <= published.items()


def compared(name: str) -> str:
    """How today's prediction compares with what an example's sources measured on it, in the words
    of its first line."""
    example = load_example(name)
    ratios = []
    for one in example.measured:
        batches = [one.batch_size] if one.batch_size else [b for b in DEFAULT_BATCHES if b <= 100]
        curve = speedup_curve(example.scenario, batches, [one.n_draft])
        ratios.append(np.log(curve.speedup[:, 0].max() / one.speedup))
    off = float(np.exp(np.mean(ratios)) - 1.0)
    return (
        "predicted the same"
        if abs(off) <= 0.1
        else "predicted higher"
        if off > 0
        else "predicted lower"
    )


def test_an_unknown_example_is_refused_with_the_closest() -> None:
    with pytest.raises(AdvisorError, match="did you mean mixtral"):
        load_example("mixtrall")


def test_every_example_is_documented() -> None:
    text = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    assert set(
        re.findall(r"^\| `([\w-]+)` \| [^|]+ \| (?:published|measured)", text, flags=re.M)
    ) == set(example_ids())


LINK_CHARACTERS = 30_000
"""What a link may have (advisor/ui/state.py)."""


def test_a_text_gives_back_the_loads_of_each_layer_to_half_a_hundredth_of_its_mean() -> None:
    loads = np.array([[1.0, 2.0, 0.0, 1.0], [40.0, 0.25, 0.0, 3.0]])
    text = write_loads(loads)
    assert loads_shape(text) == (2, 4)
    assert np.abs(parse_loads(text) - loads / loads.mean(axis=1, keepdims=True)).max() <= 0.005


def test_a_text_of_a_text_is_the_same_text() -> None:
    text = write_loads(skewed_loads(128, 8, 0.9, 6, np.random.default_rng(0)))
    assert write_loads(parse_loads(text)) == text


@pytest.mark.parametrize(("layers", "experts"), [(58, 256), (60, 384), (48, 512)])
@pytest.mark.parametrize("cv", [0.9, 2.0])
def test_the_loads_of_a_large_model_fit_a_link(layers: int, experts: int, cv: float) -> None:
    loads = skewed_loads(experts, 8, cv, layers, np.random.default_rng(0))
    text = write_loads(loads)
    assert len(text) < LINK_CHARACTERS
    off = np.abs(parse_loads(text) - loads / loads.mean(axis=1, keepdims=True)).max()
    assert off <= (0.005 if layers * experts <= 16_384 else 0.02)


def test_loads_in_any_unit_are_the_same_text() -> None:
    loads = skewed_loads(64, 4, 0.9, 3, np.random.default_rng(0))
    assert write_loads(loads * 1e307) == write_loads(loads) == write_loads(loads * 1e-300)


@pytest.mark.parametrize(
    "loads", [np.ones(3), np.array([[1.0, -1.0]]), np.array([[np.nan, 1.0]]), np.zeros((0, 4))]
)
def test_what_are_no_loads_is_not_written(loads: np.ndarray) -> None:
    with pytest.raises(AdvisorError, match="expected numbers >= 0 by layer and expert"):
        write_loads(loads)


def test_a_layer_without_any_load_is_named() -> None:
    with pytest.raises(AdvisorError, match="a layer has no load at all"):
        write_loads(np.array([[1.0, 1.0], [0.0, 0.0]]))
