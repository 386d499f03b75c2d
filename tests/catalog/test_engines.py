"""One file per engine, no second list of them anywhere, and what a new engine or drafter costs in
files.

Which engine runs on which accelerators, and which weight formats on which generation.

docs/engines.md says what profiles/engines says.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import advisor.answers.engines
from advisor import profiles
from advisor.answers.advice import advise
from advisor.answers.best_k import KRange
from advisor.answers.engines.export import export_scenario, write_export
from advisor.catalog.engines import (
    OTHER_ENGINE,
    Build,
    Engine,
    Graphs,
    GraphServer,
    GuardTag,
    captured_sizes,
    engine_called,
    engine_choices,
    engine_ids,
    engines,
    export_engines,
    load_engine,
)
from advisor.catalog.fit_records import ANY_CLASS, load_overheads
from advisor.measured.ingest.columns import engine_name
from advisor.measured.readers.sglang import _engine
from advisor.measured.row_questions import engine_class
from advisor.physics.draft import drafter_ids, load_drafter
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import note_texts
from advisor.show.report.build import engine_blocks, engine_setups
from tests.golden.engines_page import FILE, WHEN, with_tables
from tests.golden.sentences import Golden, lines_with

MADE_UP = """\
id: made-up
name: "Made Up"
order: 9
sources: {docs: "invented for a test"}
aliases: [made-up, madeup-server]
backend: madeup
classes:
  - {ending: early, before: "2030-01", before_version: "2.0", source: docs}
methods: {eagle3: EAGLE-THREE, ngram: lookup}
export: {writer: made_up, file_name: made_up_k.json}
"""
WRITER = '''\
"""A schedule as the made-up engine loads it."""

from __future__ import annotations

import json

from advisor.catalog.engines import load_engine
from advisor.answers.engines.config import EngineExport, ExportRequest, merged_rows


def export(request: ExportRequest) -> EngineExport:
    config = {"method": load_engine("made-up").methods[request.method], "k": list(merged_rows(request.ranges))}
    line = f"made-up {request.served.model} --k {request.file_name}"
    return EngineExport("made-up", config, json.dumps(config), request.file_name, line, ())
'''  # noqa: E501
DRAFTER = """\
id: two-layer-head
name: "A head of two layers"
kind: eagle
sources: {card: "invented for a test"}
n_layers: {value: 2, unit: layers, kind: assumed, source: card, date: 2026-11-22, confidence: low}
method: eagle3
"""
RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 1, 1.2))


@pytest.fixture
def own_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the profiles that a test may add to; what was read from it is forgotten
    afterwards."""
    folder = tmp_path / "profiles"
    for kind in ("drafters", "engines", "hardware", "routing"):
        shutil.copytree(profiles.PROFILES / kind, folder / kind)
    monkeypatch.setattr(profiles, "PROFILES", folder)
    engines.cache_clear()
    yield folder
    engines.cache_clear()


@pytest.mark.parametrize("engine", engines(), ids=engine_ids())
def test_every_engine_loads_and_says_where_its_facts_come_from(engine: Engine) -> None:
    assert all(len(source) > 15 for source in engine.sources)
    assert all(one.source in engine.sources for one in engine.classes)
    assert set(engine.methods) <= {load_drafter(name).method for name in drafter_ids()}, (
        "methods some drafter has"
    )
    if engine.export is not None:
        assert callable(
            importlib.import_module(f"advisor.answers.engines.{engine.export.writer}").export
        )


def test_engines_are_listed_in_their_order_and_every_other_one_last() -> None:
    assert engine_choices() == ["vllm", "sglang", "trtllm", OTHER_ENGINE]
    assert [engine.id for engine in export_engines()] == ["vllm", "sglang"]


def test_no_two_engines_share_a_spelling() -> None:
    spellings = [name for engine in engines() for name in (*engine.aliases, *engine.forks)]
    assert len(set(spellings)) == len(spellings)
    for engine in engines():
        assert all(
            engine_called(name, forks=True) is engine
            for name in (engine.id, engine.name, *engine.forks)
        )


def test_a_fork_keeps_its_name_in_a_file_and_counts_as_its_engine_where_rows_are_predicted() -> (
    None
):
    assert engine_name("vllm-ascend") == "vllm-ascend"
    assert engine_called("vLLM-Ascend") is None
    assert engine_called("vLLM-Ascend", forks=True) is load_engine("vllm")


def test_backends_of_the_serving_benchmark_mean_their_engine() -> None:
    assert [_engine(text) for text in ("sglang-oai", "vllm-chat", "trt", "lmdeploy", None)] == [
        *("sglang", "vllm", "trtllm", "lmdeploy", None)
    ]


def test_an_unknown_engine_is_refused_with_the_choices() -> None:
    with pytest.raises(
        AdvisorError, match="engine='tgi': expected 'vllm', 'sglang', 'trtllm' or 'other'"
    ):
        build_scenario(acceptance="2.4@3", engine="tgi")
    with pytest.raises(AdvisorError, match="did you mean vllm"):
        load_engine("vlm")


def test_every_fitted_overhead_class_is_one_of_some_engine() -> None:
    shipped = load_overheads()
    known = {
        name
        for engine in engines()
        for name in (engine.id, *(f"{engine.id}-{c.ending}" for c in engine.classes))
    }
    assert {record.engine_class for record in shipped.records} <= known | {ANY_CLASS}


def test_a_new_export_engine_takes_its_profile_and_its_writer(
    own_profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = tmp_path / "writers"
    writers.mkdir()
    (own_profiles / "engines" / "made-up.yaml").write_text(MADE_UP)
    (writers / "made_up.py").write_text(WRITER)
    monkeypatch.setattr(
        advisor.answers.engines, "__path__", [*advisor.answers.engines.__path__, str(writers)]
    )

    advice = advise(build_scenario(acceptance="2.4@3", engine="made-up", k_max=3))
    made = export_scenario(
        advice.setup, RANGES, "made-up", draft_model="a/b", folder=tmp_path / "out"
    )
    assert made.config == {"method": "EAGLE-THREE", "k": [(1, 16, 3), (17, 64, 1)]}
    config, launch = write_export(made, tmp_path / "out")
    assert config.name == "made_up_k.json"
    assert json.loads(config.read_text())["method"] == "EAGLE-THREE"
    assert f"made-up Qwen/Qwen3-30B-A3B --k {config}" in launch.read_text()

    setups = {one.engine: one for one in engine_setups(advice)}
    assert list(setups) == ["vllm", "sglang", "made-up"]
    assert "Made Up, launch line" in str(engine_blocks(setups["made-up"]))
    assert engine_choices() == ["vllm", "sglang", "trtllm", "made-up", OTHER_ENGINE]
    assert engine_name("MadeUp Server") == "made-up"
    assert engine_class(Build(version="1.9"), "made-up") == "made-up-early"
    with pytest.raises(AdvisorError, match="vllm and sglang and made-up only"):
        export_scenario(advice.setup, RANGES, "trtllm")
    own_head = {"model_id": "deepseek-v3", "drafter_id": "mtp", "n_gpus": 8, "tensor_parallel": 8}
    refused = load_setup(build_scenario(acceptance="2.4@3", **own_head))
    with pytest.raises(AdvisorError, match="no made-up export"):
        export_scenario(refused, RANGES, "made-up")


def test_a_new_drafter_of_a_known_kind_takes_its_profile_alone(own_profiles: Path) -> None:
    (own_profiles / "drafters" / "two-layer-head.yaml").write_text(DRAFTER)
    assert "two-layer-head" in drafter_ids()
    advice = advise(build_scenario(acceptance="2.4@3", drafter_id="two-layer-head", k_max=4))
    one_layer = advise(build_scenario(acceptance="2.4@3", drafter_id="eagle3", k_max=4))
    row = advice.batch_index
    assert advice.recommendation.n_draft > 0
    assert (
        advice.curve.round_components["draft"][row, 3]
        > one_layer.curve.round_components["draft"][row, 3]
    )
    for engine in ("vllm", "sglang"):
        assert "a/b" in export_scenario(advice.setup, RANGES, engine, draft_model="a/b").launch_line


def warnings(**choices: object) -> list[str]:
    found = note_texts(load_setup(Scenario(acceptance="2.4@3", **choices)).notes)  # type: ignore[arg-type]
    return [text for text in found if "does not multiply in" in text or "may not run" in text]


@pytest.mark.parametrize("hardware_id", ["mi300x", "gaudi3", "tpu-v6e"])
def test_tensorrt_llm_off_nvidia_is_refused_with_what_to_choose(
    hardware_id: str, golden: Golden
) -> None:
    name = load_hardware(hardware_id).name
    with pytest.raises(AdvisorError) as caught:
        load_setup(Scenario(acceptance="2.4@3", engine="trtllm", hardware_id=hardware_id))
    assert f"TensorRT-LLM does not run on {name}" in str(caught.value)
    golden(choose_vllm=lines_with(str(caught.value), "choose vllm"))
    for engine in ("vllm", "sglang", "other"):
        load_setup(Scenario(acceptance="2.4@3", engine=engine, hardware_id=hardware_id))


@pytest.mark.parametrize(
    ("hardware_id", "dtype", "native"),
    [
        ("h200-sxm", "nvfp4", False),
        ("h200-sxm", "fp8", True),
        ("a100-80gb-sxm", "fp8", False),
        ("b200-sxm", "nvfp4", True),
        ("mi300x", "nvfp4", False),
        ("mi300x", "fp8", True),
        ("mi355x", "nvfp4", False),
        ("a100-80gb-sxm", "int4", True),
    ],
)
def test_a_format_without_arithmetic_of_its_own_is_said_to_be_widened(
    hardware_id: str, dtype: str, native: bool
) -> None:
    said = [
        text
        for text in warnings(hardware_id=hardware_id, weight_dtype=dtype)
        if "does not multiply in" in text
    ]
    assert (said == []) is native
    if said:
        assert f"does not multiply in {dtype}" in said[0]


@pytest.mark.parametrize(
    ("engine", "hardware_id", "dtype", "listed"),
    [
        ("trtllm", "h200-sxm", "nvfp4", False),
        ("trtllm", "a100-80gb-sxm", "fp8", False),
        ("trtllm", "l40s", "fp8_block", False),
        ("trtllm", "rtx-pro-6000-blackwell", "fp8_block", False),
        ("trtllm", "b200-sxm", "nvfp4", True),
        ("trtllm", "h200-sxm", "fp8", True),
        ("sglang", "h200-sxm", "nvfp4", False),
        ("sglang", "mi300x", "nvfp4", True),
        ("sglang", "mi355x", "nvfp4", False),
        ("vllm", "h200-sxm", "nvfp4", True),
    ],
)
def test_a_format_that_the_engine_does_not_list_is_said_with_the_source(
    engine: str, hardware_id: str, dtype: str, listed: bool
) -> None:
    said = [
        text
        for text in warnings(engine=engine, hardware_id=hardware_id, weight_dtype=dtype)
        if "may not run" in text
    ]
    assert (said == []) is listed
    assert all("documentation" in text for text in said)


def test_a_format_of_no_weights_is_not_warned_of() -> None:
    """Routed experts in mxfp4 on Blackwell, attention in bf16: nothing is widened."""
    assert warnings(model_id="gpt-oss-20b", hardware_id="b200-sxm") == []
    assert warnings(hardware_id="h200-sxm") == []


def test_every_rule_names_generations_and_vendors_that_profiles_have() -> None:
    profiles = [load_hardware(name) for name in hardware_ids()]
    for engine in engines():
        assert set(engine.vendors) <= {one.vendor for one in profiles}
        for rule in engine.unlisted:
            for start in rule.generations:
                assert any(
                    one.generation.startswith(start) and one.vendor in engine.vendors
                    for one in profiles
                ), start
    assert load_engine("trtllm").vendors == ("NVIDIA",)


def test_the_page_s_tables_are_written_from_the_profiles_and_name_the_releases_that_were_read() -> (
    None
):
    text = FILE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python -m tests.golden.engines_page"
    assert with_tables(text.replace("| vLLM | before 0.24 |", "| vLLM | before 0.25 |")) == text
    for engine in export_engines():
        assert f"{engine.reviewed.version}, {engine.reviewed.date}" in text


def test_every_kind_of_export_has_words_on_the_page() -> None:
    assert set(WHEN) == set(get_args(GuardTag))


SERVER = GraphServer("Hopper sm_90")
BLACKWELL = GraphServer("Blackwell sm_100", 180 * 2**30)


def sizes(version: str, q: int, server: GraphServer = SERVER, engine: str = "vllm") -> list[int]:
    rule = load_engine(engine).graph_rule(version)
    assert rule is not None
    return captured_sizes(rule, server, q).tolist()


@pytest.mark.parametrize(("q", "largest"), [(1, 512), (2, 512), (4, 512), (6, 498), (8, 512)])
def test_the_largest_size_of_vllm_is_the_last_multiple_of_a_round_within_512(
    q: int, largest: int
) -> None:
    """As `vllm/config/vllm.py` of 0.24.0 has it; `make test-engines` runs that code itself."""
    found = sizes("0.24.0", q)
    assert found[-1] == largest
    assert all(size % q == 0 for size in found)


def test_releases_differ_in_what_they_capture() -> None:
    few = GraphServer("Hopper sm_90", admitted=32)
    assert sizes("0.12.0", 4, few)[-1] == 64, "twice the requests, whatever each verifies"
    assert sizes("0.24.0", 4, few)[-1] == 256, "twice their tokens"
    assert sizes("0.27.1", 4, BLACKWELL)[-1] == 512
    assert sizes("0.28.0", 4, BLACKWELL)[-1] == 1024
    assert sizes("0.28.0", 5)[:4] == [5, 10, 20, 25]
    assert {size // 5 for size in sizes("0.33.0", 5)} >= {1, 2, 4, 8, 16, 24}, (
        "numbers of requests on the grid"
    )


def test_sglang_captures_by_requests_and_memory() -> None:
    small = GraphServer(memory_bytes=24 * 2**30)
    large = GraphServer(memory_bytes=79 * 2**30)
    assert sizes("0.5.23", 4, small, "sglang")[-1] == 4 * 48
    assert sizes("0.5.16", 4, small, "sglang")[-1] == 4 * 24
    assert (
        sizes("0.5.23", 4, large, "sglang")[-1]
        == sizes("0.5.23", 2, large, "sglang")[-1] * 2
        == 4 * 256
    )
    assert sizes("0.5.23", 1, large, "sglang")[:6] == [1, 2, 4, 8, 12, 16]
    assert [size // 4 for size in sizes("0.5.23", 4, large, "sglang")][7:12] == [8, 10, 12, 14, 16]


def test_releases_that_were_not_read_have_no_rule() -> None:
    vllm = load_engine("vllm")
    assert vllm.graph_rule("0.10.2") is None
    assert vllm.graph_rule("0.34.0") is None
    assert load_engine("sglang").graph_rule("0.5.20") is None


@pytest.mark.parametrize("engine", [one for one in engines() if one.graphs], ids=lambda one: one.id)
def test_rules_stand_in_order_and_do_not_overlap(engine) -> None:  # type: ignore[no-untyped-def]
    def number(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    edges = [number(edge) for rule in engine.graphs for edge in (rule.since, rule.before)]
    assert edges == sorted(edges)


def graphs(version: str = "0.24.0", engine: str = "vllm", **server: object) -> Graphs:
    rule = load_engine(engine).graph_rule(version)
    assert rule is not None
    return Graphs(version, rule, GraphServer("Hopper sm_90", **server))  # type: ignore[arg-type]


def test_steps_are_padded_up_or_held_by_no_graph() -> None:
    """K = 2: 4 sequences are 12 tokens, run as 18; K = 5: 83 sequences are the last, 84 run without
    a graph."""
    ran = graphs().ran(np.array([[4.0], [83.0], [84.0]]), np.array([3.0, 6.0]))
    assert ran.padding[0, 0] == pytest.approx(1.5)
    assert ran.padding[0, 1] == 1.0, "24 tokens are a size"
    assert ran.eager[:, 1].tolist() == [False, False, True]
    assert ran.padding[2, 1] == 1.0, "nothing is padded without a graph"
    assert not ran.eager[:, 0].any()


def test_a_fullest_rank_decides_where_sequences_do_not_divide() -> None:
    ran = graphs().ran(np.array([4.25]), np.array([1.0]))
    assert ran.padding[0] == pytest.approx(8 / 4.25)


def test_an_engine_that_does_not_pad_runs_a_batch_between_sizes_without_a_graph() -> None:
    ran = graphs("1.2.1", "trtllm").ran(np.array([31.0, 32.0, 33.0, 128.0, 129.0]), np.array([4.0]))
    assert ran.eager.tolist() == [False, False, True, False, True]
    assert (ran.padding == 1.0).all()


def test_a_server_without_graphs_holds_nothing() -> None:
    found = graphs(sizes=())
    assert found.largest(4) == 0
    assert found.ran(np.array([1.0, 64.0]), np.array([4.0])).eager.all()
