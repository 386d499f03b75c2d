"""What one width of a shard says of others, judged on made-up tables whose truth is known."""

from __future__ import annotations

import pandas as pd
import pytest

from studies.calibration import judged_widths
from tests.calibration.test_fits import SHAPES, moe_table

KERNELS = {"vllm": "flashinfer_trtllm", "sglang": "trtllm_moe", "trtllm": "cutlass"}
SLOWER = {"vllm": 1.0, "sglang": 1.02, "trtllm": 1.5}


def tables(table: str, hardware_id: str) -> pd.DataFrame:
    parts = []
    for engine, kernel in KERNELS.items():
        rows = moe_table(shapes=SHAPES[:2])
        rows = pd.concat([rows, rows.assign(distribution="power_law_1.01")], ignore_index=True)
        rows["latency_s"] *= SLOWER[engine]
        parts.append(rows.assign(engine=engine, kernel_source=kernel))
    return pd.concat(parts).assign(hardware_id=hardware_id, version="1.0", dtype="bf16", table=table)


def test_each_shape_is_judged_on_its_shards_beside_other_engines_kernels():
    found = judged_widths(tables, "h200-sxm")
    assert len(found) == 3 * 2
    assert (found["bounded"] < found["free"]).mean() >= 0.5
    by_engine = found.groupby("engine").first()
    assert by_engine.loc["vllm", "shared"] == pytest.approx(0.02)
    assert by_engine.loc["vllm", "borrowed"] == pytest.approx((0.02 + 0.5) / 2)
    assert pd.isna(by_engine.loc["trtllm", "shared"])
