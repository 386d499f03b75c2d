"""What docs/profiling.md leaves open, on a GPU that is at hand only briefly:
`python -m tools.gpu_blocks`.

Needs Python, numpy and torch; where vLLM is importable, a real engine is timed too. Writes below
--output alone, downloads nothing. The most wanted block comes first; each has a share of what is
left of --budget-s and goes on where an earlier call with the same --output ended. summary.json says
what was measured, with which format, attention and expert kernel as the engine names them, at which
clock; and what was not and why. clocks.csv has the GPU's clock, power and temperature all along,
and a folder of an engine's steps those beside each repeat.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LEAST_S = 20.0
"""Time left below which no block is begun. [s]"""
LIBRARIES = (
    "torch",
    "vllm",
    "sglang",
    "flashinfer",
    "flash_attn_interface",
    "flash_mla",
    "deep_gemm",
)
LAYERS = 8
ROUTERS = ["lm_head", *(f"model.layers.{layer}.mlp.gate" for layer in range(LAYERS))]
"""Parts that stay in 16 bits in every quantised release."""
BLOCK_FP8 = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ROUTERS,
}
"""As in Qwen3-30B-A3B-FP8's config.json."""
NVFP4 = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "group_size": 16,
    "ignore": [*ROUTERS, *(f"model.layers.{layer}.self_attn*" for layer in range(LAYERS))],
}
"""As ModelOpt writes it into config.json."""
DESIGNS: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tools" / "gpu_designs.json").read_text(encoding="utf-8")
)
"""Configs whose weights are made up: eight layers like those of Qwen3-30B-A3B and of gpt-oss-20b
(their config.json), and DeepSeek-V3's attention (128 heads on a latent cache of 512 + 64) over a
narrower model. Half a minute to start."""
DESIGNS["qwen-fp8-block"] = DESIGNS["qwen"] | {"quantization_config": BLOCK_FP8}
DESIGNS["qwen-nvfp4"] = DESIGNS["qwen"] | {"quantization_config": NVFP4}


@dataclass(frozen=True)
class Block:
    """One command: its folder below --output, its arguments, its share of what is left of the time.
    [-]

    `asked`: what the engine has to say that it ran, by its own facts. `needs`: a module of the
    engine's Python.
    """

    name: str
    arguments: tuple[str, ...]
    share: float
    asked: tuple[tuple[str, str], ...] = ()
    needs: str = ""

    @property
    def is_engine(self) -> bool:
        """Whether an engine's steps are timed, and not kernels."""
        return "--engine" in self.arguments


def sweep(name: str, *operations: str, share: float = 0.5, preset: str = "standard") -> Block:
    """A sweep of the profiler over some operations."""
    only = [part for operation in operations for part in ("--only", operation)]
    return Block(name, ("--preset", preset, *only), share)


def engine(name: str, design: str = "qwen", drafter: str = "random", **how: Any) -> Block:
    """Steps of the engine importable here on a design; of a kind beside others, fewer of them.

    `how`: `asked`, `needs`, and arguments of the engine.
    """
    batches, drafts = ("1,16,128", "0,3") if how else ("1,4,16,64,128", "0,1,3,5")
    grid = ("--batches", batches, "--k", drafts, "--context", "1024", "--repeats", "3")
    block = {key: how.pop(key) for key in ("asked", "needs") if key in how}
    more = [
        part
        for key, value in how.items()
        for part in ("--engine-arg", f"{key}={json.dumps(value)}")
    ]
    arguments = (
        "--engine",
        "vllm",
        "--model",
        f"DESIGNS/{design}",
        "--drafter",
        drafter,
        *grid,
        *more,
    )
    return Block(name, arguments, 0.4, **block)


def experts(name: str, design: str, dtypes: str, **how: Any) -> Block:
    """Steps of a quantised design. The engine has to say one of these formats (its spellings), with
    / between."""
    return engine(f"engine-{name}", design, asked=(("weight_dtype", dtypes),), **how)


def attention(
    backend: str, design: str = "qwen", version: int | None = None, needs: str = ""
) -> Block:
    """Steps with an attention backend by the engine's own name for it."""
    config = {"backend": backend} | ({"flash_attn_version": version} if version else {})
    said = f"{backend} {version}" if version else backend
    name = "-".join(
        ["engine", backend.lower().replace("_", "-"), *([f"v{version}"] if version else [])]
    )
    return engine(
        name, design, attention_config=config, asked=(("attention_backend", said),), needs=needs
    )


BLOCKS = (
    sweep("verify", "bandwidth", "verify_parts", share=0.4),
    engine("engine-random"),
    engine("engine-eagle3", drafter="eagle3"),
    sweep("moe", "bandwidth", "moe_layer"),
    experts("fp8-block", "qwen-fp8-block", "fp8_block"),
    experts("mxfp4", "gpt-oss-mxfp4", "mxfp4/gpt_oss_mxfp4"),
    experts("mxfp4-marlin", "gpt-oss-mxfp4", "mxfp4/gpt_oss_mxfp4", moe_backend="marlin"),
    experts("nvfp4", "qwen-nvfp4", "modelopt_fp4"),
    sweep("steps", "bandwidth", "decode_step"),
    sweep("attention", "bandwidth", "attention_decode", "mla_decode"),
    attention("FLASH_ATTN", version=3),
    attention("FLASH_ATTN", version=2),
    attention("FLASHINFER", needs="flashinfer"),
    attention("TRITON_ATTN"),
    attention("FLASHMLA", "latent"),
    attention("FLASH_ATTN_MLA", "latent"),
    attention("FLASHINFER_MLA", "latent", needs="flashinfer"),
    attention("CUTLASS_MLA", "latent"),
    attention("TRITON_MLA", "latent"),
    sweep("gemm", "bandwidth", "gemm", "lm_head"),
)
"""In the order of what they settle (docs/profiling.md). vLLM 0.32's own names of arguments and
backends."""


def meta_of(folder: Path) -> tuple[str, str]:
    """(status, first reason) of a block's meta.yaml, which is JSON, read without a YAML parser."""
    try:
        meta = json.loads((folder / "meta.yaml").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return "", ""
    return meta["status"], "".join(meta["reasons"][:1])[:300]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Lines that an engine's run has written, those cut off left out."""
    found = []
    path = folder / "lines.jsonl"
    for line in (
        path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    ):
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


def ending(block: Block, folder: Path, status: int) -> dict[str, Any]:
    """How a block ended and, of an engine, what it says that it ran; a run of something else than
    asked is told."""
    how, why = meta_of(folder)
    lines = lines_of(folder)
    facts: dict[str, Any] = next(
        (line["started"] for line in reversed(lines) if "started" in line), {}
    )
    said: dict[str, Any] = {key: facts[key] for key in KERNELS if facts.get(key)}
    other = [
        f"{name} {said.get(name, 'unknown')}, not {wanted}"
        for name, wanted in block.asked
        if facts and said.get(name) not in wanted.split("/")
    ]
    if other:
        return said | {"ended": f"the engine ran {'; '.join(other)}"}
    if how == "complete":
        return said | {"ended": how} | ({"but": why} if why else {})
    if block.is_engine and not facts:
        return {"ended": f"refused: {why or 'see log.txt'}"}
    words = {2: "refused, see log.txt", 3: "partial"}.get(status, f"status {status}")
    return said | {"ended": f"{words}: {why}" if why and how else words}


KERNELS = (
    "engine_version",
    "weight_dtype",
    "kv_dtype",
    "attention_backend",
    "expert_kernel",
    "graph_mode",
)
"""Facts of an engine that summary.json repeats."""


def run_block(
    block: Block, out: Path, seconds: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one block. Returns how it ended, and what an engine says that it ran."""
    folder = out / block.name
    arguments = [part.replace("DESIGNS", str(out / "designs")) for part in block.arguments]
    if block.is_engine:
        arguments += ["--engine-python", options.engine_python, "--hardware", options.hardware]
        arguments += ["--budget-s", f"{seconds:.0f}"]
    else:
        arguments += ["--time-budget-s", f"{seconds:.0f}", "--progress", "none"]
    if folder.exists() and any(folder.iterdir()):
        arguments.append("--resume")
    caches = {
        name: str(out / "cache")
        for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")
    }
    offline = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "XDG_CACHE_HOME": str(out / "cache"),
    }
    python = sys.executable if block.is_engine else options.python
    command = [python, "-m", "advisor.profiling", *arguments, "--output", str(folder)]
    with (out / "log.txt").open("ab") as stream:
        stream.write(f"\n== {block.name}\n".encode())
        stream.flush()
        try:
            environment = dict(os.environ) | caches | offline
            limit_s = seconds + 120
            status = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=stream,
                timeout=limit_s,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            return {
                "ended": "ran past its time, ended"
                if isinstance(error, subprocess.TimeoutExpired)
                else str(error)
            }
    return ending(block, folder, status)


CLOCKS = ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c")
QUERY = "timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu"
TICK_MS = 200


@contextlib.contextmanager
def watched(path: Path) -> Iterator[None]:
    """Let nvidia-smi write the first GPU's clock, power and temperature into a file meanwhile,
    where there is one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        yield
        return
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
    command = [
        tool,
        f"--query-gpu={QUERY}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={TICK_MS}",
        "-i",
        index,
    ]
    with path.open("ab") as stream:
        child = subprocess.Popen(command, stdout=stream, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            child.kill()
            child.wait()


Trace = list[tuple[float, list[float]]]
"""Time of a look, and its CLOCKS. [s]"""


def read_trace(path: Path) -> Trace:
    """Looks of nvidia-smi so far. [] where there is none."""
    found: Trace = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for at, *values in csv.reader(text.splitlines()):
        with contextlib.suppress(ValueError):  # a line cut off, a value that this GPU does not tell
            when = dt.datetime.strptime(at.strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
            found.append((when, [float(value) for value in values]))
    return [look for look in found if len(look[1]) == len(CLOCKS)]


def clocks(trace: Trace, begin: float, end: float) -> dict[str, float]:
    """Medians of what was watched between two times, and the lowest SM clock. {} where nothing was.
    [s]"""
    rows = [values for when, values in trace if begin <= when <= end]
    if not rows:
        return {}
    found = {
        name: statistics.median(column)
        for name, column in zip(CLOCKS, zip(*rows, strict=True), strict=True)
    }
    return found | {"sm_clock_least_mhz": min(row[0] for row in rows)}


def clock_by_repeat(folder: Path, trace: Trace) -> None:
    """Write clocks.csv of an engine's run: what was watched in the timed steps of each repeat."""
    rows = [
        {"id": line["id"]}
        | clocks(trace, line["at"] - max(sum(line["times"]), 2e-3 * TICK_MS), line["at"])
        for line in lines_of(folder)
        if "times" in line and "at" in line
    ]
    if not any(len(row) > 1 for row in rows):
        return
    with (folder / "clocks.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("id", *CLOCKS, "sm_clock_least_mhz"))
        writer.writeheader()
        writer.writerows(rows)


def has(python: str, module: str) -> bool:
    """Whether a Python can import a module."""
    look = f"import importlib.util as u; raise SystemExit(0 if u.find_spec({module!r}) else 9)"
    with contextlib.suppress(OSError):
        return (
            subprocess.run([python, "-c", look], check=False, capture_output=True).returncode == 0
        )
    return False


def main(argv: list[str] | None = None) -> int:
    """Run the blocks. 0 when all that can be had here was measured, 3 when something is left."""
    parse = argparse.ArgumentParser(prog="python -m tools.gpu_blocks", description=__doc__)
    parse.add_argument("--output", type=Path, required=True, help="folder for everything")
    parse.add_argument(
        "--budget-s", type=float, default=1500.0, help="time for all blocks together [s]"
    )
    parse.add_argument("--engine-python", default=sys.executable, help="the Python that has vLLM")
    parse.add_argument(
        "--python",
        default=sys.executable,
        help="the Python of the sweeps, e.g. one with torch 2.14",
    )
    parse.add_argument(
        "--hardware", required=True, help="accelerator id of the engine's rows, e.g. h200-sxm"
    )
    parse.add_argument("--only", action="append", default=[], help="this block alone; repeatable")
    options = parse.parse_args(argv)
    out = options.output.resolve()
    began = time.monotonic()
    for name, config in DESIGNS.items():
        (out / "designs" / name).mkdir(parents=True, exist_ok=True)
        (out / "designs" / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    importable = {name: has(options.engine_python, name) for name in LIBRARIES}
    ended: dict[str, dict[str, Any]] = {}
    with watched(out / "clocks.csv"):
        for block in BLOCKS:
            left = options.budget_s - (time.monotonic() - began)
            start = time.time()
            if options.only and block.name not in options.only:
                continue
            if meta_of(out / block.name)[0] == "complete":
                ended[block.name] = ending(block, out / block.name, 0)
            elif block.is_engine and not importable["vllm"]:
                ended[block.name] = {"ended": "no engine: vLLM is not importable here"}
            elif block.needs and not importable[block.needs]:
                ended[block.name] = {"ended": f"no engine: {block.needs} is not importable here"}
            elif left < LEAST_S:
                ended[block.name] = {"ended": "no time left"}
            else:
                ended[block.name] = run_block(block, out, max(LEAST_S, block.share * left), options)
                trace = read_trace(out / "clocks.csv")
                ended[block.name] |= clocks(trace, start, time.time())
                clock_by_repeat(out / block.name, trace)
            print(f"{block.name}: {ended[block.name]['ended']}", flush=True)
            summary = {"blocks": ended, "importable": importable, "python": sys.version.split()[0]}
            summary |= {"elapsed_s": round(time.monotonic() - began, 1)}
            (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    shutil.rmtree(out / "cache", ignore_errors=True)
    final = ("complete", "no engine", "refused:", "the engine ran")
    return 0 if all(one["ended"].startswith(final) for one in ended.values()) else 3


if __name__ == "__main__":
    raise SystemExit(main())
