"""Time and peak memory of reading large uploads. Run by `make bench`; prints a table and fails
above the limits.

Each case is read in its own process, so that its peak memory is its own. The files are generated
(not measured) data.
"""

from __future__ import annotations

import io
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

N_ROWS = 1_000_000
MAX_SECONDS = 10.0
"""Held against processor seconds: reading runs on one thread, so that is what an idle machine
takes."""
MAX_GIB = 1.5


def points_csv(n_rows: int, dirty: bool) -> bytes:
    """Canonical points with a baseline for every drafting row; `dirty` spoils one row in a
    hundred."""
    rng = np.random.default_rng(7)
    k = rng.integers(0, 8, n_rows)
    accepted = 1 + rng.random(n_rows) * k
    step = 0.005 * (1 + 0.1 * k) * (1 + 0.02 * rng.random(n_rows))
    frame = pd.DataFrame(
        {
            "point_id": np.char.add("run-", np.arange(n_rows).astype(str)),
            "hardware_id": rng.choice(["h200-sxm", "h100-sxm", "mi300x"], n_rows),
            "gpu_count": 8,
            "tensor_parallel": 8,
            "expert_parallel": rng.choice([1, 8], n_rows),
            "engine": rng.choice(["vLLM", "SGLang"], n_rows),
            "engine_version": "1.0",
            "model_id": rng.choice(["qwen3-30b-a3b", "deepseek-v3"], n_rows),
            "weight_dtype": "fp8",
            "drafter": "eagle3",
            "draft_tokens_k": k,
            "draft_structure": "chain",
            "batch_size": 2 ** rng.integers(0, 9, n_rows),
            "batch_kind": "batch",
            "input_tokens": 1024,
            "output_tokens": rng.integers(240, 260, n_rows),
            "dataset": "generated",
            "accepted_length": np.where(k > 0, accepted, 1.0).round(6),
            "itl_ms": (step * 1e3).round(6),
            "tpot_ms": (step * 1e3 / np.where(k > 0, accepted, 1.0)).round(6),
            "ttft_ms": 55.5,
        }
    )
    if dirty:
        frame = frame.astype({"tpot_ms": object, "accepted_length": object, "itl_ms": object})
        bad = np.arange(0, n_rows, 100)
        frame.loc[bad[0::4], "tpot_ms"] = "NaN"
        frame.loc[bad[1::4], "tpot_ms"] = "1e400"
        frame.loc[bad[2::4], "accepted_length"] = "99.5"
        frame.loc[bad[3::4], "itl_ms"] = "=A1*2"
    return _csv(frame)


def kernels_csv(n_rows: int) -> bytes:
    """A MoE kernel table in the collectors' columns."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "framework": "VLLM",
            "version": "0.24.0",
            "device": "NVIDIA H200",
            "op_name": "moe",
            "kernel_source": "generated",
            "moe_dtype": rng.choice(["fp8", "bfloat16"], n_rows),
            "num_tokens": 2 ** rng.integers(0, 15, n_rows),
            "hidden_size": 2048,
            "inter_size": 768,
            "topk": 8,
            "num_experts": 128,
            "moe_tp_size": 1,
            "moe_ep_size": 1,
            "distribution": "balanced",
            "latency": rng.random(n_rows) + 0.01,
        }
    )
    return _csv(frame)


def decimal_commas(n_rows: int) -> bytes:
    """Clean points as a German spreadsheet writes them: semicolons and decimal commas."""
    frame = pd.read_csv(io.BytesIO(points_csv(n_rows, dirty=False)))
    return frame.to_csv(index=False, sep=";", decimal=",").encode()


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


def _measure(data_path: str) -> tuple[float, float, float, int, int]:
    from advisor.measured.ingest.read import read_upload

    data = Path(data_path).read_bytes()
    start = time.perf_counter()
    start_cpu = time.process_time()
    result = read_upload("bench.csv", data).result
    seconds = time.perf_counter() - start
    cpu = time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return seconds, cpu, peak, result.rows_kept, result.rows_refused


def main(n_rows: int = N_ROWS) -> int:
    """Print the table; 1 when a case is above the limits (only meaningful at the full size)."""
    import tempfile

    cases = {
        "points, clean": lambda: points_csv(n_rows, dirty=False),
        "points, 1 % bad rows": lambda: points_csv(n_rows, dirty=True),
        "points, decimal commas": lambda: decimal_commas(n_rows),
        "kernel table": lambda: kernels_csv(n_rows),
    }
    context = multiprocessing.get_context("spawn")
    failed = False
    print(
        f"{'case':24s} {'MiB':>6s} {'seconds':>8s} {'cpu s':>8s} {'peak GiB':>9s} {'kept':>9s} "
        f"{'refused':>8s}"
    )
    for name, make in cases.items():
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            data = make()
            size = len(data) / 1024**2
            Path(file.name).write_bytes(data)
            del data
            with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
                seconds, cpu, peak, kept, refused = pool.submit(_measure, file.name).result()
        slow = cpu > MAX_SECONDS or peak > MAX_GIB
        failed |= slow
        mark = "  ABOVE THE LIMIT" if slow else ""
        print(
            f"{name:24s} {size:6.0f} {seconds:8.2f} {cpu:8.2f} {peak:9.2f} {kept:9,d} "
            f"{refused:8,d}{mark}"
        )
    print(f"limits: {MAX_SECONDS:g} s and {MAX_GIB:g} GiB for {N_ROWS:,} rows")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else N_ROWS))
