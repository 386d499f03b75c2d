"""The Triton kernels' logic, run by Triton's interpreter on the CPU. Speed and bf16 wait for a
GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

pytest.importorskip("triton", reason="triton comes with torch for GPUs; the CPU wheel has none")

ROOT = Path(__file__).resolve().parents[2]

# In a process of its own: the interpreter must be chosen before triton is imported. float16 stands
# for bf16, whose products the interpreter (Triton 3.6, 3.8) computes on the raw bits.
PROGRAM = """
import numpy as np, torch
from advisor.profiling import kernels_basic as ka, kernels_moe as km, kernels_triton as kt
from advisor.profiling.routing_draw import draw_routing
worst = {}
for name in ("float32", "float16"):
    dtype = getattr(torch, name)
    shapes = ((1, 1, 8, 64, 128), (5, 3, 8, 96, 160), (40, 4, 8, 64, 128), (130, 2, 6, 48, 64))
    for tokens, k, n, width, hidden in shapes:
        layer = km.make_layer(n, width, hidden, 0, dtype, "cpu")
        choice = km.make_choice(tokens, k, dtype, "cpu")
        choice.fill(draw_routing(np.random.default_rng(), tokens, 1, n, k)[:, 0])
        x = torch.randn(tokens, hidden).to(dtype)
        wanted = km.reference(x, layer, choice, list(range(tokens)))
        for tile in kt.TILES[:2]:
            out = kt.fused_moe(x, layer.w13, layer.w2, choice.ids32, choice.gates, tile)
            error = km.relative_error(out, wanted)
            assert error < km.TOLERANCE[name], ("moe", name, tokens, k, tile, error)
    for batch, queries, heads, kv, dim, keys in ((2, 1, 8, 2, 64, 100), (1, 4, 16, 2, 32, 333), (2, 8, 32, 4, 16, 70)):
        q, k, v = (torch.randn(s).to(dtype) for s in ((batch, queries, heads, dim), *[(batch, kv, keys, dim)] * 2))
        error = km.relative_error(kt.split_kv_attention(q, k, v)[-1:], ka.attention_reference(q, k, v))
        assert error < km.TOLERANCE[name], ("attention", name, batch, queries, error)
print("right")
"""  # noqa: E501


def test_triton_kernels_agree_with_float64_in_the_interpreter() -> None:
    if Version(version("triton")) < Version("3.8") and Version(version("numpy")) >= Version("2.4"):
        pytest.skip(
            "Triton's interpreter fails under numpy 2.4 (3.6 does, 3.8 does not): one-element "
            "arrays"
        )
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "right" in done.stdout
