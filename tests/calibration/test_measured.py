"""Checks against the measured kernel tables themselves; skipped where the package is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

SPEC = importlib.util.find_spec("aiconfigurator_core")
DATA = Path(SPEC.origin).parent / "systems" / "data" if SPEC and SPEC.origin else None
needs_package = pytest.mark.skipif(DATA is None or not DATA.is_dir(), reason="aiconfigurator-core is not installed")


@pytest.fixture(scope="module")
def qwen_layer():
    """H200, vLLM 0.24.0, bf16: N = 128, k = 8, h = 2048, I = 768 on one GPU. [s]"""
    path = DATA / "h200_sxm" / "moe" / "vllm" / "0.24.0" / "moe_perf.parquet"
    wanted = {"hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128, "moe_tp_size": 1, "moe_ep_size": 1}
    filters = [(name, "==", value) for name, value in wanted.items()] + [("moe_dtype", "==", "bfloat16")]
    frame = pd.read_parquet(path, filters=filters)
    return frame.assign(latency_s=frame["latency"] * 1e-3)


@needs_package
def test_plain_over_verify_time_of_the_measured_layer_dips_at_small_batch(qwen_layer):
    balanced = qwen_layer[qwen_layer["distribution"] == "balanced"].set_index("num_tokens")["latency_s"]
    ratio = {b: balanced[b] / balanced[4 * b] for b in balanced.index if 4 * b in balanced.index and b <= 512}
    assert min(ratio, key=ratio.get) == 4
    assert ratio[4] == pytest.approx(0.31, abs=0.01)
    assert all(ratio[b] >= 0.93 for b in (16, 32, 64))
    assert ratio[512] == pytest.approx(0.76, abs=0.01)


@needs_package
def test_fitted_layer_follows_the_measured_one_including_its_dip(qwen_layer):
    from advisor.catalog.kernel_costs import kernel_costs
    from advisor.measured.fits.solver import touched_under_power_law
    from advisor.physics.architecture import WeightDtypes
    from advisor.physics.hardware import load_hardware
    from advisor.physics.step import MoeShape, Placement, routed_time

    cost = kernel_costs(load_hardware("h200-sxm"), "vllm", WeightDtypes()).routed
    shape = MoeShape(1, 128, 8, 768, 2048, 3, 0)
    errors = []
    for load in ("balanced", "power_law_1.2"):
        measured = qwen_layer[qwen_layer["distribution"] == load].set_index("num_tokens")["latency_s"]
        for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            touched = touched_under_power_law(tokens, 128, 8, load).touched
            predicted = float(routed_time(cost, Placement(), shape, tokens, touched, "bf16"))
            errors.append(abs(predicted / measured[tokens] - 1))
    assert np.median(errors) < 0.06
    assert max(errors) < 0.2


@needs_package
def test_skewed_rows_are_explained_by_the_experts_they_touch(qwen_layer):
    """Between balanced points, latency is linear in touched experts; the skewed rows must lie on that line."""
    from advisor.measured.fits.solver import touched_under_power_law

    balanced = qwen_layer[(qwen_layer["distribution"] == "balanced") & (qwen_layer["num_tokens"] <= 16)]
    balanced = balanced.sort_values("num_tokens")
    known = [touched_under_power_law(t, 128, 8, "balanced").touched for t in balanced["num_tokens"]]
    errors = []
    for load in ("power_law_1.01", "power_law_1.2"):
        rows = qwen_layer[(qwen_layer["distribution"] == load) & qwen_layer["num_tokens"].between(2, 16)]
        for tokens, latency in zip(rows["num_tokens"], rows["latency_s"], strict=True):
            touched = touched_under_power_law(int(tokens), 128, 8, load).touched
            errors.append(np.interp(touched, known, balanced["latency_s"]) / latency - 1)
    assert abs(np.median(errors)) < 0.08
    assert np.max(np.abs(errors)) < 0.25
