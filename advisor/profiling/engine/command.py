"""Options of `advisor profile --engine`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from advisor.profiling.device import ProfilingError, StopOnSignal
from advisor.profiling.engine.plan import DRAFTERS, ENGINES, Plan
from advisor.profiling.engine.runner import Progress, run

ConfigOf = Callable[[str], tuple[str, dict[str, Any], str]]
"""(name, config.json's content, model of the rows) of what --model names."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    parse = argparse.ArgumentParser(
        prog="advisor profile --engine",
        description="Time an engine's steps with a model's config and made-up weights. Columns: docs/profiling.md.",
    )
    parse.add_argument("--engine", choices=ENGINES, required=True, help="engine to measure")
    parse.add_argument("--engine-python", default=sys.executable, metavar="PATH", help="the Python that has the engine")
    parse.add_argument("--model", required=True, help="config.json or its folder; with the advisor also an id")
    parse.add_argument("--layers", type=int, help="first layers of the model alone, where the whole does not fit")
    parse.add_argument("--drafter", default="random", help=f"{', '.join(DRAFTERS)} or draft:FOLDER")
    parse.add_argument("--batches", default="1,2,4,8,16,32", help="sequences decoding together")
    parse.add_argument("--k", default="0,1,2,3,5", help="draft lengths; 0 is the plain step")
    parse.add_argument("--context", default="32", help="prompt tokens of each sequence")
    parse.add_argument("--routing", default="uniform", help="uniform, natural, or what `trace` prints")
    parse.add_argument("--accepted-length", metavar="X@K", help="tokens a round that the engine simulates (GPUs)")
    parse.add_argument("--repeats", type=int, default=3, help="repeats of each cell")
    parse.add_argument("--steps", type=int, default=8, help="timed steps of a repeat")
    parse.add_argument("--eager", action="store_true", help="run without compiled code and captured graphs")
    parse.add_argument("--engine-arg", action="append", default=[], metavar="NAME=JSON", help="for the engine")
    parse.add_argument("--hardware", default="", help="accelerator id of the rows, or a path to its JSON")
    parse.add_argument("--budget-s", type=float, default=300.0, help="no new repeat after this time [s]")
    parse.add_argument("--seed", type=int, default=0, help="seed of prompts, routing and order")
    parse.add_argument("--output", type=Path, help="folder for the results; new, unless --resume")
    parse.add_argument("--resume", action="store_true", help="measure what is left of the run in --output")
    parse.add_argument("--plan", action="store_true", help="print the cells and the estimate, measure nothing")
    parse.add_argument("--json", action="store_true", help="print the outcome as JSON, progress to stderr")
    return parse


def main(argv: Sequence[str], config_of: ConfigOf | None = None) -> int:
    """Run the command. Returns 0 complete, 2 bad input, 3 not complete."""
    options = parser().parse_args(list(argv))
    try:
        plan = plan_of(options, config_of or config_file)
        if options.plan:
            return _show(plan, as_json=options.json)
        if options.output is None:
            raise ProfilingError("give --output DIRECTORY for the results (or --plan to see the price only)")
        if not options.budget_s > 0:
            raise ProfilingError(f"--budget-s {options.budget_s} must be above 0")
        return _measure(plan, options)
    except ProfilingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def config_file(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, content, `config.json`) of a config.json or of the folder that holds one. Raises ProfilingError."""
    path = Path(text)
    path = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfilingError(f"--model {text} cannot be read ({error}); give a config.json or its folder") from error
    except ValueError as error:
        raise ProfilingError(f"--model {text} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ProfilingError(f"--model {text} holds no JSON object")
    name = path.parent.resolve().name if path.name == "config.json" else path.stem
    return name, content, "config.json"


def plan_of(options: argparse.Namespace, config_of: ConfigOf) -> Plan:
    """The plan that the options describe. Raises ProfilingError for what it cannot be."""
    name, config, model_id = config_of(options.model)
    if options.layers is not None:
        name, config, model_id = f"{name}-{options.layers}-layers", shallower(config, options.layers), "config.json"
    arguments: dict[str, Any] = {"enforce_eager": True} if options.eager else {}
    for text in options.engine_arg:
        key, mark, value = text.partition("=")
        try:
            arguments[key.replace("-", "_")] = json.loads(value) if mark else True
        except ValueError:
            arguments[key.replace("-", "_")] = value
    drafts, path = _numbers("--k", options.k), Path(options.model)
    has_weights = options.routing == "natural" and any(path.glob("*.safetensors"))
    return Plan(
        model=config,
        name=name,
        drafter=options.drafter,
        engine=options.engine,
        batches=_numbers("--batches", options.batches),
        drafts=drafts,
        contexts=_numbers("--context", options.context),
        repeats=options.repeats,
        steps=options.steps,
        routing=options.routing,
        accepted_length=_accepted(options.accepted_length, max(drafts)),
        checkpoint=str(path.resolve()) if has_weights else "",
        engine_args=arguments,
        model_id=model_id,
        hardware="hardware.json" if options.hardware.endswith(".json") else options.hardware,
        seed=options.seed,
    )


_LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")


def shallower(config: dict[str, Any], n_layers: int) -> dict[str, Any]:
    """The config.json of the model's first layers. Raises ProfilingError where it has no more than that."""
    name = next((key for key in ("text_config", "llm_config") if isinstance(config.get(key), dict)), None)
    block = dict(config if name is None else config[name])
    counts = [key for key in _LAYER_COUNTS if isinstance(block.get(key), int)]
    if not counts or not 1 <= n_layers < block[counts[0]]:
        has = f"this model has {block[counts[0]]}" if counts else f"its config has none of {', '.join(_LAYER_COUNTS)}"
        raise ProfilingError(
            f"--layers {n_layers}: {has}; give from 1 to fewer than all, and a second depth in a run of its own"
        )
    lists = [key for key, value in block.items() if isinstance(value, list) and len(value) == block[counts[0]]]
    block |= dict.fromkeys(counts, n_layers) | {key: block[key][:n_layers] for key in lists}
    return block if name is None else {**config, name: block}


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise ProfilingError(f"{option} {text}: give whole numbers with commas between, e.g. 1,4,16") from error


def _accepted(text: str | None, most: int) -> float | None:
    if text is None:
        return None
    value, _, k = text.partition("@")
    try:
        length, at = float(value), int(k or most)
    except ValueError as error:
        raise ProfilingError(f"--accepted-length {text}: give X@K, e.g. 2.4@3") from error
    if not 1 <= length <= at + 1 or at != most:
        raise ProfilingError(f"--accepted-length {text}: give X in 1..K+1 at the largest K of --k, {most}")
    return length


def _show(plan: Plan, *, as_json: bool) -> int:
    facts = {"hash": plan.hash, "estimate_s": plan.estimate_s, "cells": [asdict(cell) for cell in plan.cells]}
    if as_json:
        print(json.dumps(facts))
    else:
        print(f"{plan.name}, drafter {plan.drafter}: {len(plan.cells)} cells, {plan.repeats} x {plan.steps} steps")
        print(f"about {plan.estimate_s / 60:.0f} min where a step takes 0.1 s; plan {plan.hash}")
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ProfilingError(f"--hardware {path} cannot be read: {error}") from error


def _measure(plan: Plan, options: argparse.Namespace) -> int:
    stream = sys.stderr if options.json else sys.stdout
    beside = {"hardware.json": _text(Path(options.hardware))} if plan.hardware == "hardware.json" else {}

    def show(at: Progress) -> None:
        print(f"[{at.elapsed_s:6.1f} s] {at.done}/{at.total} {at.message}", file=stream, flush=True)

    outcome = run(
        plan,
        options.output,
        python=options.engine_python,
        budget_s=options.budget_s,
        resume=options.resume,
        beside=beside,
        on_progress=show,
        should_stop=StopOnSignal("stopping; --resume goes on from here"),
    )
    if options.json:
        print(json.dumps(asdict(outcome)))
    else:
        counts = ", ".join(f"{count} {status}" for status, count in outcome.counts.items())
        print(f"{outcome.status}: {counts} in {outcome.elapsed_s:.0f} s, {outcome.out_dir}")
        for reason in outcome.reasons:
            print(f"  {reason}")
        print(f"what it changes: advisor fit {outcome.out_dir}/data.csv --output {outcome.out_dir}/refit")
        print(f"beside the curve: advisor curve ... --measured {outcome.out_dir}/data.csv")
    return 0 if outcome.status == "complete" else 3
