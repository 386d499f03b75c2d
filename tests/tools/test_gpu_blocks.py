"""The script for a GPU that is at hand only briefly, where there is neither GPU nor engine but a
fake of each."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.models import own_model
from advisor.measured.ingest.columns import weight_dtype
from advisor.profiling.engine.command import parser as engine_options
from advisor.profiling.engine.command import plan_of
from advisor.profiling.plan import make_plan
from advisor.profiling.results import to_yaml
from tests.golden.sentences import Golden
from tests.profiling import fake_engine
from tools import gpu_blocks

ENGINE = [block for block in gpu_blocks.BLOCKS if block.is_engine]
SMI = """#!{python}
import datetime, time
while True:
    print(datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3] + ", 1980, 2619, 312.5, 41", flush=True)
    time.sleep(0.02)
"""  # noqa: E501


def run(out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """(exit status, blocks of summary.json) of a call."""
    status = gpu_blocks.main(
        ["--output", str(out), "--hardware", "h200-sxm", "--budget-s", "60", *more]
    )
    return status, json.loads((out / "summary.json").read_text(encoding="utf-8"))["blocks"]


def test_verification_by_parts_comes_first() -> None:
    assert "verify_parts" in gpu_blocks.BLOCKS[0].arguments
    assert len({block.name for block in gpu_blocks.BLOCKS}) == len(gpu_blocks.BLOCKS)


def test_without_an_engine_or_time_it_says_so_and_writes_below_its_folder_alone(
    tmp_path: Path,
) -> None:
    only = [part for block in (*ENGINE, gpu_blocks.BLOCKS[0]) for part in ("--only", block.name)]
    status, blocks = run(tmp_path / "out", "--budget-s", "1", *only)
    assert status == 3
    assert {blocks[block.name]["ended"] for block in ENGINE} == {
        "no engine: vLLM is not importable here"
    }
    assert blocks["verify"] == {"ended": "no time left"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_each_block_says_what_the_engine_ran_and_a_refusal_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_engine.install(tmp_path / "fake")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(
        SMI.format(python=sys.executable), encoding="utf-8"
    )
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    grid = ("--batches", "1", "--k", "0,1", "--context", "8", "--repeats", "1")
    wanted = (
        "engine-fp8-block",
        "engine-nvfp4",
        "engine-flash-attn-v3",
        "engine-flashmla",
        "engine-flashinfer",
    )
    small = [block for block in gpu_blocks.BLOCKS if block.name in wanted]
    small = [replace(block, arguments=(*block.arguments, *grid), needs="") for block in small]
    monkeypatch.setattr(
        gpu_blocks, "BLOCKS", (*small, replace(small[0], name="other", needs="flash_mla"))
    )
    out = tmp_path / "out"
    _, blocks = run(out)
    fp8 = blocks["engine-fp8-block"]
    v3 = blocks["engine-flash-attn-v3"]
    assert (fp8["weight_dtype"], fp8["expert_kernel"]) == ("fp8_block", "Scheduler")
    assert v3["attention_backend"] == "FLASH_ATTN 3"
    golden(engine_ran=blocks["engine-nvfp4"]["ended"])
    golden(engine_ran_2=blocks["engine-flashmla"]["ended"])
    golden(refused_engine=blocks["engine-flashinfer"]["ended"])
    assert blocks["other"] == {"ended": "no engine: flash_mla is not importable here"}
    assert (fp8["sm_clock_mhz"], fp8["power_w"], fp8["temperature_c"]) == (1980.0, 312.5, 41.0)
    with (out / "engine-fp8-block" / "clocks.csv").open(encoding="utf-8", newline="") as stream:
        assert {row["sm_clock_least_mhz"] for row in csv.DictReader(stream)} == {"1980.0"}
    meta = out / "engine-fp8-block" / "meta.yaml"
    meta.write_text(to_yaml({"status": "complete", "reasons": []}), encoding="utf-8")
    lines = (out / "engine-fp8-block" / "lines.jsonl").read_bytes()
    assert run(out)[1]["engine-fp8-block"]["ended"] == "complete"
    assert (out / "engine-fp8-block" / "lines.jsonl").read_bytes() == lines, (
        "what is complete is not measured again"
    )


@pytest.mark.parametrize("block", gpu_blocks.BLOCKS, ids=lambda block: block.name)
def test_every_block_is_a_command_that_the_profiler_knows(block: gpu_blocks.Block) -> None:
    if block in ENGINE:
        options = engine_options().parse_args(list(block.arguments))
        plan = plan_of(
            options,
            lambda text: (text, gpu_blocks.DESIGNS[text.removeprefix("DESIGNS/")], "config.json"),
        )
        stored = own_model(plan.model, block.name).dtypes.routed
        wanted = dict(block.asked).get("weight_dtype", "bf16")
        assert stored in {weight_dtype(one) for one in wanted.split("/")}, (
            "the design has the format that is asked"
        )
        return
    from advisor.profiling.device import pick_device

    only = [
        block.arguments[place + 1] for place, part in enumerate(block.arguments) if part == "--only"
    ]
    assert make_plan(block.arguments[1], pick_device("cpu"), only=only).blocks, sys.version
