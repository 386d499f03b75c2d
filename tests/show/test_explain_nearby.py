"""Measured points near a prediction, on a small store whose latencies are made up.

Position against the roofline: work counted by hand, rates below the roofs, and the chart's finding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import Advice, advise
from advisor.catalog.measured_shapes import table_behind
from advisor.measured.fits.solver import touched_under_power_law
from advisor.measured.points import COLLECTIONS, published_rows
from advisor.measured.store import Store, open_store
from advisor.measured.store_build import build
from advisor.physics.components import BY_KEY
from advisor.physics.step import MoeShape, Placement, routed_time
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup, touched_in_pass
from advisor.show.charts.why import roofline_chart
from advisor.show.explain.nearby import (
    NEAR_COLUMNS,
    SPEEDUP_COLUMNS,
    near_kernels,
    nearest_speedups,
    pass_work,
    positions,
    published_speedups,
    roof_of,
)
from tests.measured.store_package import add_table, fake_package, moe_rows

EXPERTS = "vllm_unquantizedfusedmoe_triton_tritonexperts"


SETUP = load_setup(Scenario(acceptance="2.4@3"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "package"
    package = fake_package(root)
    own = moe_rows([0.1 * 2**i for i in range(8)], kernel_source=EXPERTS)
    wider = moe_rows([9.0] * 8, kernel_source=EXPERTS, inter_size=4096)
    other_kernel = moe_rows([7.0] * 8, kernel_source="another")
    add_table(root, "h200_sxm/moe/vllm/0.24.0", "moe_perf", own + wider + other_kernel)
    base = {"op_name": "gemm", "kernel_source": "torch.nn.functional.linear", "gemm_dtype": "bfloat16"}
    shapes = ((16, 3072, 3072), (16, 64, 64), (64, 3072, 3072))
    gemm = [{**base, "m": m, "n": n, "k": k, "latency": 0.01} for m, n, k in shapes]
    add_table(root, "h200_sxm/gemm/vllm/0.24.0", "gemm_perf", gemm)
    path = tmp_path / "store.duckdb"
    build(path, kernels=package)
    return open_store(path)


def part(found: pd.DataFrame, name: str, step: str) -> pd.DataFrame:
    return found[found["part"].str.startswith(name) & (found["step"] == step)]


def test_the_nearest_shape_and_load_of_the_same_kernel_comes_first(store: Store) -> None:
    found = near_kernels(store, SETUP, 16, 3)
    assert list(found.columns) == list(NEAR_COLUMNS)
    plain, verify = part(found, "Routed", "plain").iloc[0], part(found, "Routed", "verify").iloc[0]
    assert "16 tokens, 128 experts top-8, h 2048, I 768" in plain["measured_at"]
    assert plain["measured_s"] == pytest.approx(1.6e-3)
    assert "64 tokens" in verify["measured_at"]
    assert 7.0e-3 not in set(found["measured_s"])


def test_the_model_stands_beside_at_the_measured_shape_and_its_own_touched_experts(store: Store) -> None:
    row = part(near_kernels(store, SETUP, 16, 3), "Routed", "plain").iloc[0]
    touched = touched_under_power_law(16, 128, 8, "balanced").touched
    shape = MoeShape(1, 128, 8, 768, 2048, 3, 0)
    expected = float(routed_time(SETUP.costs.routed, Placement(), shape, 16, touched, "bf16"))
    assert row["model_s"] == pytest.approx(expected, rel=0.02)
    assert row["ratio"] == pytest.approx(row["model_s"] / row["measured_s"])


def test_a_projection_is_compared_with_the_gemm_nearest_in_rows_and_weights(store: Store) -> None:
    found = part(near_kernels(store, SETUP, 16, 3), "Attention weights", "verify")
    assert found.iloc[0]["measured_at"] == "64 rows, 3072 x 3072 weights"


def deepseek(engine: str = "trtllm", model: str = "deepseek-v3") -> Setup:
    """A model whose attention layers were measured whole, on eight ranks."""
    return load_setup(Scenario(acceptance="2.4@3", model_id=model, engine=engine, n_gpus=8, tensor_parallel=8))


def module_rows(setup: Setup, milliseconds: list[float], heads: int) -> list[dict[str, object]]:
    """Rows of the table behind the setup's attention layers, at 16 sequences and ever longer contexts."""
    (mixer,) = setup.costs.modules
    scenario = setup.scenario
    table = table_behind(setup.hardware, setup.architecture, mixer, 8, scenario.engine, setup.cache.dtype)
    assert table is not None
    named = {"op_name": table.op, "model": table.model, "kernel_source": "default", "mla_dtype": "bfloat16"}
    formats = {"kv_cache_dtype": table.kv_dtype, "gemm_type": table.gemm_dtype, "num_heads": heads, "tp_size": 1}
    return [
        {**named, **formats, "batch_size": 16, "isl": 1, "step": 2048 * 8**index - 1, "latency": each}
        for index, each in enumerate(milliseconds)
    ]


@pytest.mark.parametrize(("model", "steps"), [("deepseek-v3", {"plain"}), ("glm-5", {"plain", "verify"})])
def test_a_layer_measured_whole_is_compared_with_its_own_table(tmp_path: Path, model: str, steps: set[str]) -> None:
    setup = deepseek("sglang" if model == "glm-5" else "trtllm", model)
    (mixer,) = setup.costs.modules
    known = table_behind(setup.hardware, setup.architecture, mixer, 8, setup.scenario.engine, setup.cache.dtype)
    assert known is not None
    root = tmp_path / "package"
    package = fake_package(root)
    rows = module_rows(setup, [0.06, 0.09], known.n_heads) + module_rows(setup, [5.0, 5.0], 2 * known.n_heads)
    add_table(
        root, f"h200_sxm/mla/{known.engine}/{known.version}", f"{known.op}_perf".removesuffix("_skip_indexer"), rows
    )
    path = tmp_path / "layers.duckdb"
    build(path, kernels=package)
    found = near_kernels(open_store(path), setup, 16, 3)
    found = found[found["part"] == "Attention measured whole, one layer"]
    assert set(found["step"]) == steps
    first = part(found, "Attention measured", "plain").iloc[0]
    assert first["measured_at"] == f"16 sequences, 2,048 tokens with the new one, {known.n_heads} heads"
    assert first["measured_s"] == pytest.approx(6e-5)
    assert first["model_s"] == pytest.approx(float(setup.costs.modules[mixer].time_s(16, 2048)))
    assert first["record"] == known.id
    assert 5e-3 not in set(found["measured_s"])


def test_a_roofline_has_no_measured_kernels_near_it(store: Store) -> None:
    assert near_kernels(store, load_setup(Scenario(acceptance="2.4@3", hardware_id="mi300x")), 16, 3).empty


def test_published_speedups_are_those_of_the_accelerator_model_and_gpus(store: Store) -> None:
    points = published_speedups(store, "b200-sxm", "gpt-oss-20b", 1)
    assert len(points) > 0
    assert list(points.columns) == list(SPEEDUP_COLUMNS)
    assert published_speedups(store, "b200-sxm", "gpt-oss-20b", 64).empty


def test_published_speedups_are_those_of_every_collection_without_rows_that_have_a_defect(store: Store) -> None:
    points = published_speedups(store, "rtx-pro-6000-blackwell", "qwen3.5-397b-a17b", 4)
    shipped = published_rows(COLLECTIONS[1])
    here = shipped[(shipped["model_id"] == "qwen3.5-397b-a17b") & (shipped["tensor_parallel"] == "4")]
    assert 0 < len(points) < len(here)
    assert len(points) == (here["defect"] == "").sum()


def test_the_nearest_published_speedup_is_near_in_log_batch_and_k() -> None:
    rows = [[1, 3, 1.5, "eagle3", 1, "a"], [64, 3, 1.2, "eagle3", 1, "b"], [16, 7, 1.1, "eagle3", 1, "c"]]
    points = pd.DataFrame(rows, columns=list(SPEEDUP_COLUMNS))
    assert nearest_speedups(points, 16, 3, 1)["source"].tolist() == ["b"]
    assert len(nearest_speedups(points, 16, 3)) == 3
    assert np.isfinite(nearest_speedups(points, 16, 3)["speedup"]).all()


MODELS = {
    "moe": Scenario(acceptance="2.4@3"),
    "latent": Scenario(acceptance="2.4@3", model_id="deepseek-v3", n_gpus=8, tensor_parallel=8),
    "experts split": Scenario(acceptance="2.4@3", model_id="deepseek-v3", n_gpus=8, expert_parallel=8),
    "dense": Scenario(acceptance="2.4@3", model_id="command-a", n_gpus=4, tensor_parallel=4, batch_size=512),
    "roofline": Scenario(acceptance="2.4@3", hardware_id="mi300x"),
}


@pytest.fixture(params=MODELS, ids=str)
def advice(request: pytest.FixtureRequest) -> Advice:
    return advise(MODELS[request.param])


def test_the_work_of_a_pass_is_what_a_hand_counts() -> None:
    setup = advise(MODELS["moe"]).setup
    moved, computed = pass_work(setup, 16, 4)
    architecture = setup.architecture
    moe, hidden = architecture.moe, architecture.hidden_size
    assert moe is not None
    touched = float(touched_in_pass(setup, 16, 4))
    weights = touched * 3 * hidden * moe.expert_width * 2
    activations = 64 * 8 * 2 * (2 * hidden + 3 * moe.expert_width) + 4 * 64 * hidden
    assert moved["routed"] == pytest.approx(moe.count * (weights + activations))
    rows = max(16.0, 64 * 8 / touched + 7.5)
    assert computed["routed"] == pytest.approx(moe.count * 2 * 3 * hidden * moe.expert_width * touched * rows)
    assert moved["lm_head"] == pytest.approx(architecture.vocab_size * hidden * 2)
    assert computed["lm_head"] == pytest.approx(2 * 64 * architecture.vocab_size * hidden)
    mixer = architecture.mixers[0]
    assert moved["attention"] == pytest.approx(mixer.count * 16 * (2048 + 4) * mixer.kv_elements_per_token * 2)
    idle = [name for name in moved if BY_KEY[name].bound != "device"]
    assert idle
    assert all(moved[name] == 0 and computed[name] == 0 for name in idle)


def test_no_component_exceeds_a_roof(advice: Advice) -> None:
    roof = roof_of(advice.setup)
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    assert {item.arm for item in found} == {"plain", "verify"}
    for item in found:
        assert 0 < item.of_bandwidth(roof) < 1.1, item
        assert 0 < item.rate < 1.1 * max(roof.peak_flops_per_s.values()), item


def test_verifying_more_tokens_raises_the_intensity_of_all_but_small_expert_blocks(advice: Advice) -> None:
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    by_arm = {arm: {item.component: item.intensity for item in found if item.arm == arm} for arm in ("plain", "verify")}
    for component, plain in by_arm["plain"].items():
        if component != "routed":
            assert by_arm["verify"][component] > 1.5 * plain


def test_a_dense_model_at_large_batch_stands_right_of_the_ridge_and_says_so() -> None:
    dense = advise(MODELS["dense"])
    found = positions(dense.setup, dense.curve, dense.batch_index, 3)
    roof = roof_of(dense.setup)
    chart = roofline_chart(found, roof, n_draft=3, batch_size=512, name="H200")
    assert next(item for item in found if item.component == "dense" and item.arm == "verify").intensity > roof.ridge
    assert "right of the ridge" in chart.alt
    assert "compute-bound" in chart.alt


def test_the_chart_has_units_roofs_both_steps_and_its_numbers(advice: Advice) -> None:
    found = positions(advice.setup, advice.curve, advice.batch_index, 3)
    chart = roofline_chart(found, roof_of(advice.setup), n_draft=3, batch_size=16, name="an accelerator")
    layout = chart.figure.layout
    assert "FLOP/s" in layout.title.text
    assert layout.xaxis.title.text == "Arithmetic intensity (FLOP/B)"
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    roofs = [trace for trace in chart.figure.data if trace.name.startswith("roof")]
    assert len(roofs) == len(roof_of(advice.setup).peak_flops_per_s)
    for trace in chart.figure.data:
        if trace not in roofs:
            assert list(trace.marker.symbol) == ["circle-open", "diamond"]
    assert set(chart.data["step"]) == {"plain", "verify"}
    assert np.allclose(chart.data["flop_per_byte"], chart.data["flop"] / chart.data["bytes"])
    assert any(letter.isdigit() for letter in chart.alt)
