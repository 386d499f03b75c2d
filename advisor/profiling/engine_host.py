"""Host time of an engine's scheduler, measured in a process of its own on whatever vLLM is installed here.

No accelerator is needed, and none is touched. Where vLLM is missing or has another interface, one row says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.plan import Block
from advisor.profiling.timing import Context, StoppedError, failed_row

ENGINE = "vllm"
POLL_S = 0.1
BUSY = 1.15
"""Wall time over processor time of a step above which a row says so: other processes ran in between. [-]"""
OUT_OF_TIME = "ran out of time"


def measure_engine_host(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows of an engine's own time between steps, or one row with the reason for none.

    They differ in scheduler, batch, drafts, emitted tokens and part of the step.

    Raises StoppedError on request, and when time runs out before the first point.
    """
    with tempfile.TemporaryDirectory() as scratch:
        request, answer, log = (Path(scratch) / name for name in ("request.json", "answer.jsonl", "log"))
        request.write_text(json.dumps(block.params), encoding="utf-8")
        answer.touch()
        ended = _run([str(request), str(answer)], log, context)
        lines = _lines(answer)
        common = {"block": block.name, "op": "engine_host", "engine": ENGINE}
        if not any("sizes" in line for line in lines) and ended == OUT_OF_TIME:
            raise StoppedError("time limit reached")
        if not lines:
            return [failed_row(common, "error", f"the process that drives the scheduler {ended}: {_last_line(log)}")]
    rows = rows_of(common, lines)
    return [*rows, failed_row(common, "error", f"not all points: the process {ended}")] if ended else rows


def rows_of(common: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Result rows of the child's answer: a median over steps for each part, or why there is none."""
    rows: list[dict[str, Any]] = []
    version, first_control = "", 0.0
    for line in lines:
        version = line.get("version", version)
        identity = common | {"engine_version": version}
        if "unavailable" in line:
            rows.append(failed_row(identity, "unavailable", line["unavailable"]))
        if "sizes" not in line:
            continue
        batch, n_draft, emitted = line["sizes"]
        identity |= {"kernel": f"{ENGINE}.{line['name']}", "batch_size": batch, "tokens_per_sequence": n_draft + 1}
        identity |= {"n_tokens": batch * (n_draft + 1), "n_draft": n_draft, "accepted_length": float(emitted)}
        if "error" in line:
            rows.append(failed_row(identity, "error", line["error"]))
            continue
        control = float(np.median(line["parts"]["python_control"]))
        first_control = first_control or control
        wall = float(np.median(line["parts"].pop("wall")))
        busy = wall / float(np.median(line["parts"]["sum"]))
        rows += [
            identity | {"part": part, "control_ratio": control / first_control} | _quantiles(samples, busy)
            for part, samples in line["parts"].items()
        ]
    return rows


def _quantiles(samples_s: list[float], busy: float) -> dict[str, Any]:
    samples = np.asarray(samples_s)
    names = ("time_p20_s", "time_s", "time_p80_s")
    times = {name: float(np.quantile(samples, level)) for name, level in zip(names, (0.2, 0.5, 0.8), strict=True)}
    note = "processor time; the device is taken out: model outputs are made up, the host's own work is the engine's"
    note += f"; by the wall's clock a step took {busy:.2f} times as long" if busy > BUSY else ""
    return times | {"n_rounds": len(samples), "status": "ok", "notes": note}


def _run(arguments: list[str], log: Path, context: Context) -> str:
    """Run the child to its end. "" when it ended well, else how it ended. Raises StoppedError on request."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "advisor.profiling.vllm_host", *arguments]
    with log.open("wb") as stream:
        child = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stdout=stream, stderr=stream)
        try:
            while child.poll() is None:
                if context.should_stop():
                    raise StoppedError("stopped on request")
                if time.monotonic() > context.deadline_s:
                    return OUT_OF_TIME
                time.sleep(POLL_S)
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
    return "" if child.returncode == 0 else f"ended with status {child.returncode}"


def _lines(answer: Path) -> list[dict[str, Any]]:
    """The child's whole lines. One that was cut off when it was ended is left out."""
    found = []
    for text in answer.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            break
    return found


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
