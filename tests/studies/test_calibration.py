"""Refitting some operations keeps the records of the others and says which code fitted what.

What one width of a shard says of others, judged on made-up tables whose truth is known.
"""

from __future__ import annotations

import pandas as pd
import pytest

from advisor import __version__
from advisor.catalog.fit_records import load_records
from advisor.physics.hardware import load_hardware
from studies.calibration import calibrate, device_records, judged_widths
from studies.fits.records import write_records
from tests.studies.test_fits_experts import SHAPES, moe_table


def tables(table: str, hardware_id: str) -> pd.DataFrame:
    if table != "moe":
        return pd.DataFrame()
    return moe_table().assign(
        hardware_id=hardware_id, engine="vllm", version="1.0", dtype="bf16", kernel_source="triton"
    )


def test_only_the_operations_asked_for_are_refitted(tmp_path):
    hardware = load_hardware("h200-sxm")
    before = [record for record in load_records("h200_sxm") if record.op in ("moe", "attention")]
    write_records("h200_sxm", before, tmp_path)
    after = calibrate(tables, [hardware], tmp_path, ops=frozenset({"moe"}))
    assert [record.id for record in after if record.op == "moe"] == [
        "moe/h200-sxm/vllm/1.0/bf16/triton"
    ]
    kept = {record.id: record for record in before if record.op == "attention"}
    assert {record.id: record for record in after if record.op == "attention"} == kept
    written = load_records("h200_sxm", tmp_path)
    assert {record.code_version for record in written if record.op == "moe"} == {__version__}
    assert (tmp_path / "measured" / "h200_sxm.json").is_file()


def test_a_fit_is_bound_by_the_memory_of_its_accelerator():
    hardware = load_hardware("h200-sxm")
    (record,) = device_records(tables, hardware, frozenset({"moe"}))
    assert record.parameters["weight_s_per_byte"].low == 1.0 / hardware.bandwidth_bytes_per_s.value


KERNELS = {"vllm": "flashinfer_trtllm", "sglang": "trtllm_moe", "trtllm": "cutlass"}
SLOWER = {"vllm": 1.0, "sglang": 1.02, "trtllm": 1.5}


def tables_widths(table: str, hardware_id: str) -> pd.DataFrame:
    parts = []
    for engine, kernel in KERNELS.items():
        rows = moe_table(shapes=SHAPES[:2])
        rows = pd.concat([rows, rows.assign(distribution="power_law_1.01")], ignore_index=True)
        rows["latency_s"] *= SLOWER[engine]
        parts.append(rows.assign(engine=engine, kernel_source=kernel))
    return pd.concat(parts).assign(
        hardware_id=hardware_id, version="1.0", dtype="bf16", table=table
    )


def test_each_shape_is_judged_on_its_shards_beside_other_engines_kernels():
    found = judged_widths(tables_widths, "h200-sxm")
    assert len(found) == 3 * 2
    assert (found["bounded"] < found["free"]).mean() >= 0.5
    by_engine = found.groupby("engine").first()
    assert by_engine.loc["vllm", "shared"] == pytest.approx(0.02)
    assert by_engine.loc["vllm", "borrowed"] == pytest.approx((0.02 + 0.5) / 2)
    assert pd.isna(by_engine.loc["trtllm", "shared"])
