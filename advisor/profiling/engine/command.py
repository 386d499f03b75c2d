"""Options of `advisor profile --engine`, and this machine's processor as an accelerator's JSON for
its rows."""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime as dt
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from advisor.profiling.device import Options, ProfilingError, StopOnSignal
from advisor.profiling.engine.plan import (
    DRAFTERS,
    ENGINES,
    EXTRA_ROUNDS,
    STEP_S,
    Plan,
    routing_parameters,
)
from advisor.profiling.engine.runner import Outcome, require_engine, run
from advisor.profiling.results import write_atomically

SPEED = """
import json, time, torch
if torch.cuda.is_available():
    raise SystemExit(9)
def best(work, n):
    times = []
    for _ in range(n):
        start = time.perf_counter(); work(); times.append(time.perf_counter() - start)
    return min(times)
a = torch.ones(1 << 28, dtype=torch.uint8); b = torch.empty_like(a)
x = torch.randn(2048, 2048, dtype=torch.bfloat16)
print(json.dumps([2 * a.numel() / best(lambda: b.copy_(a), 12), 2 * 2048**3 / best(lambda: x @ x, 12)]))
"""  # noqa: E501
"""Bytes a second of a copy and bf16 operations a second of a product, best of twelve, on all
cores."""
SOURCE = (
    "a copy of 256 MiB and a bf16 product of 2048 x 2048 x 2048 in torch on all cores, best of 12"
)


def hardware(python: str) -> str:
    """JSON of this machine as an accelerator, its two rates measured by the engine's torch.

    Raises ProfilingError where there is an accelerator, which is to be named, and where torch does
    not run.
    """
    done = subprocess.run([python, "-c", SPEED], check=False, capture_output=True, text=True)
    if done.returncode == 9:
        raise ProfilingError(
            "give --hardware, the accelerator of the rows: an id (`advisor hardware`) or its JSON"
        )
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProfilingError(
            f"this machine's rates cannot be measured with {python}: {words}; give --hardware"
        )
    bandwidth, flops = json.loads(done.stdout.splitlines()[-1])
    names = re.findall(r"^model name\s*: *(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = names[0] if names else platform.machine()
    accelerator = {
        "name": f"{processor}, {len(names)} cores",
        "memory_bytes": float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        "bandwidth_bytes_per_s": float(f"{bandwidth:.4g}"),
        "peak_flops_per_s": {"bf16": float(f"{flops:.4g}")},
        "source": SOURCE,
        "date": dt.date.today().isoformat(),
    }
    return json.dumps(accelerator, indent=1)


NOT_DRIVEN = (
    "for SGLang run `python -m sglang.bench_one_batch_server --load-format dummy ...` with "
    "SGLANG_SIMULATE_UNIFORM_EXPERTS=1 and read its file by `advisor ingest FILE --set "
    "routing=round_robin`; for TensorRT-LLM `trtllm-bench` and `advisor ingest FILE`"
)
LEAST_ROWS = 3
"""Cells that a fit needs at least. [-]"""
ConfigOf = Callable[[str], tuple[str, dict[str, Any], str]]
"""(name, config.json's content, model of the rows) of what --model names."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    parse = Options(
        prog="advisor profile --engine",
        description=(
            "Time an engine's steps with a model's config and random weights. Columns: "
            "docs/profiling.md."
        ),
    )
    parse.add_argument(
        "--engine", required=True, type=str.lower, help=f"engine to measure: {', '.join(ENGINES)}"
    )
    parse.add_argument("--engine-python", metavar="PATH", help="the Python that has the engine")
    parse.add_argument(
        "--model", default="", help="config.json or its folder; with the advisor also an id"
    )
    parse.add_argument(
        "--layers",
        metavar="A,B",
        help="two depths in place of the whole model, where it does not fit",
    )
    parse.add_argument(
        "--drafter",
        default="random",
        help=f"{', '.join(DRAFTERS)} or draft:FOLDER [default: random]",
    )
    parse.add_argument(
        "--batches",
        default="1,2,4,8,16,32",
        help="sequences decoding together [default: %(default)s]",
    )
    parse.add_argument(
        "--k", default="0,1,3", help="draft lengths; 0 is the plain step [default: %(default)s]"
    )
    parse.add_argument(
        "--context", default="32", help="prompt tokens of each sequence [default: %(default)s]"
    )
    parse.add_argument(
        "--routing", default="uniform", help="uniform (default), natural, or what `trace` prints"
    )
    parse.add_argument(
        "--accepted-length", metavar="X@K", help="tokens a round that the engine simulates (GPUs)"
    )
    parse.add_argument(
        "--repeats", type=int, help="repeats of each cell [default: 3; with --layers 5]"
    )
    parse.add_argument(
        "--steps", type=int, default=8, help="timed steps of a repeat [default: %(default)s]"
    )
    parse.add_argument(
        "--eager", action="store_true", help="run without compiled code and captured graphs"
    )
    parse.add_argument(
        "--engine-arg", action="append", default=[], metavar="NAME=JSON", help="for the engine"
    )
    parse.add_argument(
        "--hardware", default="", help="accelerator's id or JSON; a processor's is measured first"
    )
    parse.add_argument(
        "--budget-s", type=float, default=270.0, help="no new repeat after it [s] [default: 270]"
    )
    parse.add_argument("--seed", type=int, default=0, help="seed of prompts, routing and order")
    parse.add_argument("--output", type=Path, help="folder for the results; new, unless --resume")
    parse.add_argument(
        "--resume", action="store_true", help="measure what is left of the run in --output"
    )
    parse.add_argument(
        "--plan", action="store_true", help="print the cells and the estimate, measure nothing"
    )
    parse.add_argument(
        "--json", action="store_true", help="print the outcome as JSON, progress to stderr"
    )
    return parse


def main(
    argv: Sequence[str],
    config_of: ConfigOf | None = None,
    python: str = sys.executable,
    program: str = "python -m advisor",
    check_hardware: Callable[[str], object] = str,
) -> int:
    """Run the command. Returns 0 complete, 2 bad input, 3 not complete.

    program: what printed commands begin with. check_hardware: raises for an accelerator's id that
    is unknown.
    """
    parse = parser()
    parse.set_defaults(engine_python=python)
    options = parse.parse_args(list(argv))
    options.program = program
    options.typed = list(argv)
    try:
        plan = plan_of(options, config_of or config_file)
        if plan.hardware != "hardware.json":
            check_hardware(plan.hardware)
        if options.plan:
            facts = {
                "hash": plan.hash,
                "estimate_s": plan.price_s(),
                "cells": [asdict(cell) for cell in plan.cells],
            }
            print(json.dumps(facts) if options.json else _price(plan, options.budget_s))
            return 0
        if options.output is None:
            raise ProfilingError(
                "give --output DIRECTORY for the results (or --plan to see the price only)"
            )
        if not options.budget_s > 0:
            raise ProfilingError(f"--budget-s {options.budget_s} must be above 0")
        return _measure(plan, options)
    except ProfilingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # later ones end the run in hand
        print("stopped before the engine began; the same command starts again", file=sys.stderr)
        return 3


def config_file(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, content, `config.json`) of a config.json or of the folder that holds one. Raises
    ProfilingError."""
    path = Path(text)
    path = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfilingError(
            f"--model {text} cannot be read ({error}); give a config.json or its folder"
        ) from error
    if not isinstance(content, dict):
        raise ProfilingError(f"--model {text} holds no JSON object")
    name = path.parent.resolve().name if path.name == "config.json" else path.stem
    return name, content, "config.json"


def plan_of(options: argparse.Namespace, config_of: ConfigOf) -> Plan:
    """The plan that the options describe. Raises ProfilingError for what it cannot be."""
    if options.engine not in ENGINES:
        raise ProfilingError(
            f"--engine {options.engine} is not driven, {' or '.join(ENGINES)} is; {NOT_DRIVEN}"
        )
    if not options.model:
        raise ProfilingError(
            "give --model, a config.json or its folder, e.g. --model measurements/engine_cpu_2_k4"
        )
    name, config, model_id = config_of(options.model)
    arguments: dict[str, Any] = {"enforce_eager": True} if options.eager else {}
    for text in options.engine_arg:
        key, mark, value = text.partition("=")
        try:
            arguments[key.replace("-", "_")] = json.loads(value) if mark else True
        except ValueError:
            arguments[key.replace("-", "_")] = value
    drafts = _numbers("--k", options.k)
    path = Path(options.model)
    has_weights = options.routing == "natural" and any(path.glob("*.safetensors"))
    usual_repeats = 5 if options.layers else 3
    own_hardware = not options.hardware or options.hardware.endswith(".json")
    return Plan(
        model=config,
        name=name,
        drafter=options.drafter,
        engine=options.engine,
        batches=_numbers("--batches", options.batches),
        drafts=drafts,
        contexts=_numbers("--context", options.context),
        repeats=usual_repeats if options.repeats is None else options.repeats,
        steps=options.steps,
        routing=own_routing(options.routing),
        accepted_length=_accepted(options.accepted_length, max(drafts)),
        checkpoint=str(path.resolve()) if has_weights else "",
        engine_args=arguments,
        model_id=model_id,
        hardware="hardware.json" if own_hardware else options.hardware,
        seed=options.seed,
        depths=_numbers("--layers", options.layers) if options.layers else (),
    )


def own_routing(text: str) -> str:
    """A routing as the rows hold it and `fit` reads it: parameters without bands get some of no
    width."""
    routing_parameters(text)
    return re.sub(r"(?<![^,])([^,/]+)(?![^,])", r"\1/\1/\1", text) if "," in text else text


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise ProfilingError(
            f"{option} {text}: give whole numbers with commas between, e.g. 1,4,16"
        ) from error


def _accepted(text: str | None, most: int) -> float | None:
    if text is None:
        return None
    value, _, k = text.partition("@")
    with contextlib.suppress(ValueError):
        if int(k or most) == most and 1 <= float(value) <= most + 1:
            return float(value)
    raise ProfilingError(
        f"--accepted-length {text}: give X@K, X in 1..K+1 at the largest K of --k, {most}"
    )


def _price(plan: Plan, budget_s: float) -> str:
    """The grid and its price in words."""
    cells = (
        f"{plan.name}, drafter {plan.drafter}: {len(plan.cells)} cells, {plan.repeats} x "
        f"{plan.steps} steps"
    )
    quiet = plan.price_s(0) / 60
    noisy = plan.price_s(EXTRA_ROUNDS) / 60
    price = (
        f"about {quiet:.1f} to {noisy:.1f} min where a step takes {STEP_S:g} s, at most "
        f"{budget_s / 60:.1f}"
    )
    depth = f"; rows on the {plan.depth_note}" if plan.depths else ""
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    times = f"makes a processor take {1 + load / cores:.0f} times as long and disturbs its times"
    busy = f"; load {load:.1f} on {cores} cores: other work {times}" if load > cores else ""
    return f"{cells}; {price}{depth}{busy}; plan {plan.hash}"


def _hardware(options: argparse.Namespace, *, again: bool) -> str:
    """The accelerator's JSON as given, or this processor's with the best rates so far: other work
    speeds none up."""
    saved_path = options.output / "hardware.json"
    try:
        path = (
            Path(options.hardware)
            if options.hardware
            else saved_path
            if again and saved_path.exists()
            else None
        )
        was = path.read_text(encoding="utf-8") if path else ""
    except (OSError, ValueError) as error:
        raise ProfilingError(f"--hardware {path} cannot be read: {error}") from error
    if was and (options.hardware or SOURCE not in was):
        return was
    new = hardware(options.engine_python)
    best = json.loads(was or new)
    now = json.loads(new)
    best["bandwidth_bytes_per_s"] = max(best["bandwidth_bytes_per_s"], now["bandwidth_bytes_per_s"])
    best["peak_flops_per_s"]["bf16"] = max(
        best["peak_flops_per_s"]["bf16"], now["peak_flops_per_s"]["bf16"]
    )
    return json.dumps(best, indent=1)


def _next(plan: Plan, outcome: Outcome, program: str, typed: Sequence[str]) -> list[str]:
    """The commands that put a run to use, or what stands in the way of it."""
    out = shlex.quote(outcome.out_dir)
    again = f"{program} profile {shlex.join([*_without(typed), '--resume'])}"
    if re.search(r"did not start(?!: it was stopped)|given up", " ".join(outcome.reasons)):
        return [f"mend what stands above ({out}/engine.log says more), then: {again}"]
    if outcome.counts.get("ok", 0) < LEAST_ROWS:
        if outcome.counts.get("noisy"):
            next_step = (
                f"other work disturbed the rest; on a quiet machine measure them again: {again}"
            )
        elif outcome.counts.keys() - {"ok", "skipped"}:
            next_step = (
                f"the engine's reasons stand above and in {out}/engine.log; --drafter random asks "
                "least of it"
            )
        else:
            next_step = f"measure the rest, with more --budget-s where it ended by itself: {again}"
        return [f"`fit` needs {LEAST_ROWS} cells that are ok: {next_step}"]
    of = (
        f"--model {out}/config.json"
        if plan.model_id == "config.json"
        else f"--model {plan.model_id}"
    )
    on = (
        f"--hardware {out}/hardware.json"
        if plan.hardware == "hardware.json"
        else f"--hardware {plan.hardware}"
    )
    drafter = plan.drafter if plan.drafter in ("eagle3", "mtp") else "ngram"
    grid = f"--batches {','.join(map(str, plan.batches))} --k {','.join(map(str, plan.drafts))}"
    length = (
        f"--drafter {drafter} --accepted-length 2@{max(plan.drafts)}"
        if max(plan.drafts)
        else "--drafter none"
    )
    with (Path(outcome.out_dir) / "data.csv").open(encoding="utf-8", newline="") as file:
        ours = [
            row for row in csv.DictReader(file) if row["point_id"].endswith(f"-c{plan.contexts[0]}")
        ]
    rows = [row for row in ours if row["step_time_s"]]
    # The rows' own context: a curve at another one would stand beside steps that read another
    # cache.
    context = f"--context {round(statistics.median(float(row['context_tokens']) for row in rows))}"
    # On the same accelerator's figures: measured anew they would be another one of that name.
    other = ["--drafter", "eagle3", *shlex.split(on), "--output", f"{outcome.out_dir}-eagle3"]
    other = [*_without(typed, "--drafter", "--hardware", "--output"), *other]
    head = f"what an EAGLE-3 head costs on top: {program} profile {shlex.join(other)}"
    lines = _table(plan, rows)
    if outcome.status != "complete":
        lines.append(f"the rest is measured by: {again}")
    if plan.drafter == "random" and max(plan.drafts):
        lines.append(head)
    lines.append(
        f"beside the model (2: your accepted length): {program} curve {of} {on} --routing "
        f"{plan.routing} {context} {length} {grid} --measured {out}/data.csv"
    )
    lines.append(
        f"what it changes, written where rows left out gain: {program} fit {out}/data.csv "
        f"--output {out}/refit"
    )
    return lines


def _without(typed: Sequence[str], *names: str) -> list[str]:
    """Words of a command line without some options and their values, and without --resume."""
    words = iter(typed)
    remaining = []
    for word in words:
        if word in names:
            next(words)
        elif word != "--resume" and word.split("=")[0] not in names:
            remaining.append(word)
    return remaining


def _table(plan: Plan, rows: list[dict[str, str]]) -> list[str]:
    """Measured steps by batch and K, and the tokens a round has to bring for a gain."""
    steps = {(int(float(row["batch_size"])), int(row["draft_tokens_k"])): row for row in rows}
    headings = [f"K={k}" if k else "plain" for k in plan.drafts]
    lines = [" ".join(["batch", *(f"{heading:>16}" for heading in headings)])]
    for batch in plan.batches:
        plain = steps.get((batch, 0))
        cells = [_cell(steps.get((batch, k)), plain if k else None) for k in plan.drafts]
        lines.append(" ".join([f"{batch:5d}", *(f"{cell:>16}" for cell in cells)]))
    free = "; random drafts cost nothing" if plan.drafter == "random" else ""
    return [f"measured steps [ms] (tokens a round from which K gains; ~ noisy{free}):", *lines]


def _cell(row: dict[str, str] | None, plain: dict[str, str] | None) -> str:
    if row is None:
        return "-"
    step_s = float(row["step_time_s"])
    ratio = f" ({step_s / float(plain['step_time_s']):.2f})" if plain else ""
    mark = "~" if row["status"] != "ok" else ""
    return f"{mark}{step_s * 1e3:.2f}{ratio}"


def _measure(plan: Plan, options: argparse.Namespace) -> int:
    stream = sys.stderr if options.json else sys.stdout
    began = time.monotonic()
    require_engine(options.engine_python, plan.engine)

    def say(text: str) -> None:
        print(text, file=stream, flush=True)

    say(_price(plan, options.budget_s))
    hardware_files = (
        {plan.hardware: _hardware(options, again=options.resume)}
        if plan.hardware == "hardware.json"
        else {}
    )
    outcome = run(
        plan,
        options.output,
        python=options.engine_python,
        budget_s=options.budget_s - (time.monotonic() - began),
        resume=options.resume,
        beside=hardware_files,
        on_progress=lambda at: say(f"[{at.elapsed_s:6.1f} s] {at.done}/{at.total} {at.message}"),
        should_stop=StopOnSignal("stopping; --resume goes on from here"),
    )
    if hardware_files and outcome.status == "complete":
        write_atomically(options.output / plan.hardware, _hardware(options, again=True))
    if options.json:
        print(json.dumps(asdict(outcome)))
    else:
        counts = ", ".join(f"{count} {status}" for status, count in outcome.counts.items())
        print(f"{outcome.status}: {counts} in {outcome.elapsed_s:.0f} s, {outcome.out_dir}")
        for reason in outcome.reasons:
            print(f"  {reason}")
        print(*_next(plan, outcome, options.program, options.typed), sep="\n")
    return 0 if outcome.status == "complete" else 3
