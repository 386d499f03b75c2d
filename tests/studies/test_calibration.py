"""Refitting some operations keeps the records of the others and says which code fitted what."""

from __future__ import annotations

import pandas as pd

from advisor import __version__
from advisor.catalog.fit_records import load_records, write_records
from advisor.physics.hardware import load_hardware
from studies.calibration import calibrate, device_records
from tests.calibration.test_fits import moe_table


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
    assert [record.id for record in after if record.op == "moe"] == ["moe/h200-sxm/vllm/1.0/bf16/triton"]
    kept = {record.id: record for record in before if record.op == "attention"}
    assert {record.id: record for record in after if record.op == "attention"} == kept
    assert {record.code_version for record in load_records("h200_sxm", tmp_path)} == {__version__}
    assert (tmp_path / "measured" / "h200_sxm.json").is_file()


def test_a_fit_is_bound_by_the_memory_of_its_accelerator():
    hardware = load_hardware("h200-sxm")
    (record,) = device_records(tables, hardware, frozenset({"moe"}))
    assert record.parameters["weight_s_per_byte"].low == 1.0 / hardware.bandwidth_bytes_per_s.value
