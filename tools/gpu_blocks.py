"""What docs/gpu-todo.md leaves open, on a GPU that is at hand only briefly: `python -m tools.gpu_blocks`.

Needs Python, numpy and torch; where vLLM is importable, a real engine is timed too. Writes below --output alone,
downloads nothing. The most wanted block comes first; each has a share of what is left of --budget-s and goes on where
an earlier call with the same --output ended. summary.json says what was measured, what was not and why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST_S = 20.0
"""Time left below which no block is begun. [s]"""
LIBRARIES = ("vllm", "sglang", "flashinfer", "flash_attn_interface", "flash_mla", "deep_gemm")
DESIGN = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_hidden_layers": 8,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151_936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6,
}
"""Eight layers like those of Qwen3-30B-A3B (its config.json): half a minute to start, the whole round of an engine."""


@dataclass(frozen=True)
class Block:
    """One command: its folder below --output, its arguments, and its share of what is left of the time. [-]"""

    name: str
    arguments: tuple[str, ...]
    share: float


def sweep(name: str, *operations: str, share: float = 0.5, preset: str = "standard") -> Block:
    """A sweep of the profiler over some operations."""
    only = [part for operation in operations for part in ("--only", operation)]
    return Block(name, ("--preset", preset, *only), share)


def engine(name: str, drafter: str, *more: str, share: float = 0.5) -> Block:
    """Steps of the engine importable here, on DESIGN."""
    grid = ("--batches", "1,4,16,64,128", "--k", "0,1,3,5", "--context", "1024", "--repeats", "3")
    return Block(name, ("--engine", "vllm", "--model", "MODEL", "--drafter", drafter, *grid, *more), share)


BLOCKS = (
    sweep("verify", "bandwidth", "verify_parts", share=0.4),
    engine("engine-random", "random", share=0.4),
    engine("engine-eagle3", "eagle3", share=0.4),
    sweep("moe", "bandwidth", "moe_layer"),
    sweep("steps", "bandwidth", "decode_step"),
    sweep("attention", "bandwidth", "attention_decode", "mla_decode"),
    sweep("gemm", "bandwidth", "gemm", "lm_head"),
    engine("engine-fp8", "random", "--engine-arg", 'quantization="fp8"'),
)
"""In the order of what they settle (docs/gpu-todo.md)."""


def done(folder: Path) -> bool:
    """Whether a block's meta.yaml says that it is complete."""
    meta = folder / "meta.yaml"
    return meta.exists() and any(
        line.strip() in ('status: "complete"', "status: complete")
        for line in meta.read_text(encoding="utf-8", errors="replace").splitlines()
    )


def run_block(block: Block, out: Path, seconds: float, python: str, hardware: str, log: Path) -> str:
    """Run one block. Returns how it ended: complete, partial, or why it was not measured."""
    folder = out / block.name
    arguments = [str(out / "design") if part == "MODEL" else part for part in block.arguments]
    if "--engine" in arguments:
        arguments += ["--engine-python", python, "--hardware", hardware, "--budget-s", f"{seconds:.0f}"]
    else:
        arguments += ["--time-budget-s", f"{seconds:.0f}", "--progress", "none"]
    if folder.exists() and any(folder.iterdir()):
        arguments.append("--resume")
    caches = {name: str(out / "cache") for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")}
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "XDG_CACHE_HOME": str(out / "cache")}
    command = [sys.executable, "-m", "advisor.profiling", *arguments, "--output", str(folder)]
    with log.open("ab") as stream:
        stream.write(f"\n== {block.name}\n".encode())
        stream.flush()
        try:
            status = subprocess.run(
                command,
                cwd=ROOT,
                env=dict(os.environ) | caches | offline,
                stdout=stream,
                stderr=stream,
                timeout=seconds + 120,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return "ran past its time, ended"
    return "complete" if done(folder) else {2: "refused, see log.txt", 3: "partial"}.get(status, f"status {status}")


def main(argv: list[str] | None = None) -> int:
    """Run the blocks. 0 when all that can be had here was measured, 3 when something is left."""
    parse = argparse.ArgumentParser(prog="python -m tools.gpu_blocks", description=__doc__)
    parse.add_argument("--output", type=Path, required=True, help="folder for everything")
    parse.add_argument("--budget-s", type=float, default=1500.0, help="time for all blocks together [s]")
    parse.add_argument("--engine-python", default=sys.executable, help="the Python that has vLLM")
    parse.add_argument("--hardware", required=True, help="accelerator id of the engine's rows, e.g. h200-sxm")
    parse.add_argument("--only", action="append", default=[], help="this block alone; repeatable")
    options = parse.parse_args(argv)
    out, began = options.output.resolve(), time.monotonic()
    (out / "design").mkdir(parents=True, exist_ok=True)
    (out / "design" / "config.json").write_text(json.dumps(DESIGN), encoding="utf-8")
    look = "import importlib.util as u; raise SystemExit(0 if u.find_spec('vllm') else 9)"
    has_engine = subprocess.run([options.engine_python, "-c", look], check=False, capture_output=True).returncode == 0
    ended: dict[str, str] = {}
    for block in BLOCKS:
        left = options.budget_s - (time.monotonic() - began)
        if options.only and block.name not in options.only:
            continue
        if done(out / block.name):
            ended[block.name] = "complete"
        elif "--engine" in block.arguments and not has_engine:
            ended[block.name] = "no engine: vLLM is not importable here"
        elif left < LEAST_S:
            ended[block.name] = "no time left"
        else:
            ended[block.name] = run_block(
                block,
                out,
                max(LEAST_S, block.share * left),
                options.engine_python,
                options.hardware,
                out / "log.txt",
            )
        print(f"{block.name}: {ended[block.name]}", flush=True)
        summary = {
            "blocks": ended,
            "importable": {name: importlib.util.find_spec(name) is not None for name in LIBRARIES},
        }
        summary |= {"python": sys.version.split()[0], "elapsed_s": round(time.monotonic() - began, 1)}
        (out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
    shutil.rmtree(out / "cache", ignore_errors=True)
    return 0 if all(how == "complete" or how.startswith("no engine") for how in ended.values()) else 3


if __name__ == "__main__":
    raise SystemExit(main())
