"""Time of a sweep of 102,400 scenarios (921,600 rows) by one and two processes: goal, two are 1.6
times as fast.

Processor time of a scenario first: goal 0.2 ms at ten batches. Combinations that differ in context,
K, accepted length or limit share their rounds; any other has rounds of its own, some hundreds of
calls of numpy whatever the batch.

python -m tools.benchmarks.bench_sweep
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from advisor.answers.explore.cells import sweep_rows
from advisor.answers.explore.grid import SweepPlan, read_plan
from advisor.answers.explore.sweep_files import run_sweep

_SHARED = ("context_tokens", "max_tpot_ms")
"""Settings that share a curve."""
PLAN = """
cases:
  - {model_id: qwen3-30b-a3b, acceptance: 2.4@3}
  - {model_id: gpt-oss-20b, acceptance: gpt-oss-20b-eagle3-humaneval}
  - {model_id: gpt-oss-120b, acceptance: 2.4@3}
  - {model_id: glm-4.5-air, tensor_parallel: 4, drafter_id: mtp, acceptance: 2.4@3}
  - {model_id: deepseek-v3, tensor_parallel: 8, drafter_id: mtp, acceptance: deepseek-r1-mtp-internal}
hardware_id: [h100-sxm, h200-sxm, b200-sxm, b300-sxm, a100-80gb-sxm, l40s, mi300x, rtx-pro-6000-blackwell]
engine: [vllm, sglang]
context_tokens: [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
kv_dtype: [bf16, fp8]
routing: [auto, uniform]
max_tpot_ms: [20, 50, 100, 1000]
batch_size: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
"""  # noqa: E501


_EVERY = 5
"""Of the parts of the plan, the share whose processor time is taken: one in so many. [-]"""


def cpu_ms(plan: SweepPlan) -> float:
    """Processor time of a scenario, every batch of every combination counted. [ms]"""
    parts = range(0, plan.n_parts, _EVERY)
    start = time.process_time()
    done = sum(
        len(plan.part(index)) for index in parts if len(sweep_rows(plan.part(index), plan.batches))
    )
    return (time.process_time() - start) / (done * len(plan.batches)) * 1e3


def main() -> None:
    """Print processor time a scenario, then one row per number of processes."""
    whole = read_plan(PLAN)
    one = replace(whole, batches=(16,))
    unlike = replace(
        one,
        axes={name: values[:1] if name in _SHARED else values for name, values in one.axes.items()},
    )
    for what, plan in (
        ("ten batches a combination", whole),
        ("one batch a combination", one),
        ("one batch, all of another model, accelerator, engine, cache or routing", unlike),
    ):
        print(f"{cpu_ms(plan):.2f} ms of CPU a scenario, {what}")
    plan = read_plan(PLAN)
    before = 0.0
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            done = run_sweep(plan, Path(folder) / "out", workers)
            size = sum(part.stat().st_size for part in done.folder.glob("*.parquet"))
        faster = f"  {before / done.elapsed_s:.2f} times as fast as one" if before else ""
        before = before or done.elapsed_s
        print(
            f"{plan.n_scenarios:,} scenarios, {workers} processes: {done.elapsed_s:6.1f} s  "
            f"{size / 1e6:.0f} MB{faster}"
        )


if __name__ == "__main__":
    main()
