"""Measured points near a prediction, on a small store whose latencies are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.measured_shapes import table_behind
from advisor.measured.kernel_fits import touched_under_power_law
from advisor.measured.points import published_rows
from advisor.measured.published import COLLECTIONS
from advisor.measured.store import Store, open_store
from advisor.measured.store_build import build
from advisor.physics.step import MoeShape, Placement, routed_time
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.show.explain.nearby import (
    NEAR_COLUMNS,
    SPEEDUP_COLUMNS,
    near_kernels,
    nearest_speedups,
    published_speedups,
)
from tests.golden.sentences import Golden, lines_with
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
    base = {
        "op_name": "gemm",
        "kernel_source": "torch.nn.functional.linear",
        "gemm_dtype": "bfloat16",
    }
    shapes = ((16, 3072, 3072), (16, 64, 64), (64, 3072, 3072))
    gemm = [{**base, "m": m, "n": n, "k": k, "latency": 0.01} for m, n, k in shapes]
    add_table(root, "h200_sxm/gemm/vllm/0.24.0", "gemm_perf", gemm)
    path = tmp_path / "store.duckdb"
    build(path, kernels=package)
    return open_store(path)


def part(found: pd.DataFrame, name: str, step: str) -> pd.DataFrame:
    return found[found["part"].str.startswith(name) & (found["step"] == step)]


def test_the_nearest_shape_and_load_of_the_same_kernel_comes_first(
    store: Store, golden: Golden
) -> None:
    found = near_kernels(store, SETUP, 16, 3)
    assert list(found.columns) == list(NEAR_COLUMNS)
    plain = part(found, "Routed", "plain").iloc[0]
    verify = part(found, "Routed", "verify").iloc[0]
    golden(tokens_experts=lines_with(plain["measured_at"], "16 tokens"))
    assert plain["measured_s"] == pytest.approx(1.6e-3)
    assert "64 tokens" in verify["measured_at"]
    assert 7.0e-3 not in set(found["measured_s"])


def test_the_model_stands_beside_at_the_measured_shape_and_its_own_touched_experts(
    store: Store,
) -> None:
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
    return load_setup(
        Scenario(acceptance="2.4@3", model_id=model, engine=engine, n_gpus=8, tensor_parallel=8)
    )


def module_rows(setup: Setup, milliseconds: list[float], heads: int) -> list[dict[str, object]]:
    """Rows of the table behind the setup's attention layers, at 16 sequences and ever longer
    contexts."""
    (mixer,) = setup.costs.modules
    scenario = setup.scenario
    table = table_behind(
        setup.hardware, setup.architecture, mixer, 8, scenario.engine, setup.cache.dtype
    )
    named = {
        "op_name": table.op,
        "model": table.model,
        "kernel_source": "default",
        "mla_dtype": "bfloat16",
    }
    formats = {
        "kv_cache_dtype": table.kv_dtype,
        "gemm_type": table.gemm_dtype,
        "num_heads": heads,
        "tp_size": 1,
    }
    return [
        {
            **named,
            **formats,
            "batch_size": 16,
            "isl": 1,
            "step": 2048 * 8**index - 1,
            "latency": each,
        }
        for index, each in enumerate(milliseconds)
    ]


@pytest.mark.parametrize(
    ("model", "steps"), [("deepseek-v3", {"plain"}), ("glm-5", {"plain", "verify"})]
)
def test_a_layer_measured_whole_is_compared_with_its_own_table(
    tmp_path: Path, model: str, steps: set[str]
) -> None:
    setup = deepseek("sglang" if model == "glm-5" else "trtllm", model)
    (mixer,) = setup.costs.modules
    known = table_behind(
        setup.hardware, setup.architecture, mixer, 8, setup.scenario.engine, setup.cache.dtype
    )
    root = tmp_path / "package"
    package = fake_package(root)
    rows = module_rows(setup, [0.06, 0.09], known.n_heads) + module_rows(
        setup, [5.0, 5.0], 2 * known.n_heads
    )
    add_table(
        root,
        f"h200_sxm/mla/{known.engine}/{known.version}",
        f"{known.op}_perf".removesuffix("_skip_indexer"),
        rows,
    )
    path = tmp_path / "layers.duckdb"
    build(path, kernels=package)
    found = near_kernels(open_store(path), setup, 16, 3)
    found = found[found["part"] == "Attention measured whole, one layer"]
    assert set(found["step"]) == steps
    first = part(found, "Attention measured", "plain").iloc[0]
    assert (
        first["measured_at"]
        == f"16 sequences, 2,048 tokens with the new one, {known.n_heads} heads"
    )
    assert first["measured_s"] == pytest.approx(6e-5)
    assert first["model_s"] == pytest.approx(float(setup.costs.modules[mixer].time_s(16, 2048)))
    assert first["record"] == known.id
    assert 5e-3 not in set(found["measured_s"])


def test_a_roofline_has_no_measured_kernels_near_it(store: Store) -> None:
    assert near_kernels(
        store, load_setup(Scenario(acceptance="2.4@3", hardware_id="mi300x")), 16, 3
    ).empty


def test_published_speedups_are_those_of_the_accelerator_model_and_gpus() -> None:
    points = published_speedups("b200-sxm", "gpt-oss-20b", 1)
    assert len(points) > 0
    assert list(points.columns) == [*SPEEDUP_COLUMNS, "accepted_length", "random_tokens"]
    assert published_speedups("b200-sxm", "gpt-oss-20b", 64).empty


def test_published_speedups_are_those_of_every_collection_without_rows_that_have_a_defect() -> None:
    points = published_speedups("rtx-pro-6000-blackwell", "qwen3.5-397b-a17b", 4)
    shipped = published_rows(COLLECTIONS[1])
    here = shipped[
        (shipped["model_id"] == "qwen3.5-397b-a17b") & (shipped["tensor_parallel"] == "4")
    ]
    assert 0 < len(points) < len(here)
    assert len(points) == (here["defect"] == "").sum()


def test_the_nearest_published_speedup_is_near_in_log_batch_and_k() -> None:
    rows = [
        [1, 3, 1.5, "eagle3", 1, "a"],
        [64, 3, 1.2, "eagle3", 1, "b"],
        [16, 7, 1.1, "eagle3", 1, "c"],
    ]
    points = pd.DataFrame(rows, columns=list(SPEEDUP_COLUMNS))
    assert nearest_speedups(points, 16, 3, 1)["source"].tolist() == ["b"]
    assert len(nearest_speedups(points, 16, 3)) == 3
    assert np.isfinite(nearest_speedups(points, 16, 3)["speedup"]).all()
