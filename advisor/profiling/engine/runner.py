"""Runs a plan: an engine in a process group of its own, watched, ended, started again; results
written at the end.

What a run leaves: lines.jsonl (one line for each finished repeat, flushed to the disk), engine.log,
config.json, and the data.csv and meta.yaml that `advisor ingest` and the store read.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from advisor.profiling.device import ProfilingError, own_path
from advisor.profiling.engine.plan import (
    LOST,
    NOISE_LIMIT,
    Plan,
    cell_facts,
    head_config,
    model_config,
)
from advisor.profiling.results import rows_text, to_yaml, write_atomically

COLUMNS = (
    *(
        "point_id",
        "status",
        "hardware_id",
        "gpu_count",
        "tensor_parallel",
        "engine",
        "engine_version",
    ),
    *(
        "model_id",
        "n_experts",
        "n_active",
        "weight_dtype",
        "kv_dtype",
        "captured",
        "drafter",
        "draft_tokens_k",
    ),
    *(
        "batch_size",
        "batch_kind",
        "context_tokens",
        "prompts_cached",
        "accepted_length",
        "accepted_length_same_run",
    ),
    *(
        "step_time_s",
        "prefill_time_s",
        "routing",
        "touched_experts",
        "touched_law",
        "tokens_in_step",
    ),
    *("time_p10_s", "spread", "control_ratio", "n_steps", "n_repeats", "expert_parallel"),
    *(
        "async_scheduling",
        "graph_mode",
        "runner",
        "attention_backend",
        "expert_kernel",
        "date",
        "notes",
    ),
)
"""Columns of data.csv, documented in docs/profiling.md. Empty means unknown or not applicable,
never zero."""
START_LIMIT_S = 900.0
STEP_LIMIT_S = 120.0
"""Longest time to the engine's first line, and for one repeat, before it counts as hung. [s]"""
GRACE_S = 20.0
"""Time between SIGINT and SIGKILL. [s]"""
STARTS = 8
"""Engines that one run starts at most: each failed cell costs one. [-]"""
FRUITLESS = 2
"""Engines in a row without a finished repeat after which a run is given up. [-]"""
POLL_S = 0.2


@dataclass(frozen=True)
class Progress:
    """Repeats done of those planned, and what is in hand. [-], [s]"""

    done: int
    total: int
    message: str
    elapsed_s: float


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: complete (every cell has a time), partial or failed. `counts`: rows by
    status."""

    status: str
    reasons: tuple[str, ...]
    counts: dict[str, int]
    out_dir: str
    elapsed_s: float


class Folder:
    """The files of one run."""

    def __init__(self, path: Path, plan: Plan, *, resume: bool) -> None:
        self.path = path
        self.lines_path = path / "lines.jsonl"
        self.log = path / "engine.log"
        try:
            plan_hash = (
                json.loads((path / "plan.json").read_text(encoding="utf-8"))["hash"]
                if path.exists()
                else None
            )
        except (OSError, ValueError, KeyError):
            plan_hash = None
        if plan_hash is None and path.exists() and any(path.iterdir()):
            raise ProfilingError(f"{path} holds something else; choose another --output")
        if plan_hash is not None and not resume:
            raise ProfilingError(
                f"{path} already holds results; give --resume to go on, or another --output"
            )
        if plan_hash is not None and plan_hash != plan.hash:
            raise ProfilingError(
                f"{path} holds plan {plan_hash}, this is plan {plan.hash}; choose another --output"
            )
        plans = {f"{layers or ''}": plan.at_depth(layers) for layers in plan.engines}
        configs = {f"model{depth}": model_config(shallow) for depth, shallow in plans.items()}
        if plan.drafter == "eagle3":
            configs |= {f"head{depth}": head_config(shallow) for depth, shallow in plans.items()}
        try:
            for name, config in {**configs, "": plan.model}.items():
                (path / name).mkdir(parents=True, exist_ok=True)
                write_atomically(path / name / "config.json", json.dumps(config, indent=1))
            write_atomically(
                path / "plan.json", json.dumps({"hash": plan.hash, **asdict(plan)}, indent=1)
            )
        except OSError as error:
            raise ProfilingError(
                f"cannot write results to {path}: {error}; choose another --output"
            ) from error

    def lines(self) -> list[dict[str, Any]]:
        """Finished lines. One that was cut off when its process ended is left out."""
        records = []
        text = (
            self.lines_path.read_text(encoding="utf-8", errors="replace")
            if self.lines_path.exists()
            else ""
        )
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                records.append(json.loads(line))
        return [line for line in records if isinstance(line, dict)]

    def add(self, **line: Any) -> None:
        """Add a line of the runner's own, on a line of its own whatever the child left."""
        with self.lines_path.open("a", encoding="utf-8") as stream:
            stream.write("\n" + json.dumps(line) + "\n")

    def last_words(self) -> str:
        """The last line of the engine's log that says something."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        spoken = [line.strip() for line in text.splitlines() if line.strip()]
        return spoken[-1][-300:] if spoken else "it said nothing"


def run(
    plan: Plan,
    out_dir: str | Path,
    *,
    python: str,
    budget_s: float = 300.0,
    resume: bool = False,
    beside: Mapping[str, str] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    limits_s: tuple[float, float] = (START_LIMIT_S, STEP_LIMIT_S),
) -> Outcome:
    """Measure what is left of `plan` with the engine of `python`, at most `budget_s`. [s]

    Writes data.csv and meta.yaml whatever happened.

    `beside`: files by name that are kept with the rows. `limits_s`: to the engine's start, and for
    one repeat. Raises ProfilingError for a folder that holds something else and for a Python
    without the engine.
    """
    began = time.time()
    require_engine(python, plan.engine)
    folder = Folder(Path(out_dir), plan, resume=resume)
    for name, text in (beside or {}).items():
        write_atomically(folder.path / name, text)
    if resume and not plan.left(folder.lines()):
        folder.add(again=True)
    reasons: list[str] = []
    fruitless = 0
    for _ in range(STARTS):
        lines = folder.lines()
        if not plan.left(lines) or time.time() - began >= budget_s or should_stop():
            break
        ended = _one_engine(
            plan, folder, python, began + budget_s, on_progress, should_stop, limits_s
        )
        if not any("started" in line for line in folder.lines()[len(lines) :]) and ended:
            reasons.append(f"the engine did not start: it {ended}; {folder.last_words()}")
            break
        if ended:
            _blame(folder, len(lines), ended)
        fruitless = (
            0 if any("times" in line for line in folder.lines()[len(lines) :]) else fruitless + 1
        )
        if fruitless == FRUITLESS:
            reasons.append(f"{FRUITLESS} engines in a row finished no repeat: given up")
            break
    return _close(plan, folder, reasons, began)


@cache
def require_engine(python: str, engine: str) -> None:
    """Raise ProfilingError where `python` cannot be run or does not have the engine."""
    look = f"import importlib.util as u; raise SystemExit(0 if u.find_spec({engine!r}) else 9)"
    try:
        status = subprocess.run(
            [python, "-c", look], env=_environment(), capture_output=True, check=False
        ).returncode
    except OSError as error:
        raise ProfilingError(f"--engine-python {python} cannot be run: {error}") from error
    if status:
        raise ProfilingError(
            f"{engine} is not installed for {python}; `make engine` installs its processor build "
            "beside the advisor, or give the Python that has it: --engine-python PATH"
        )


def _environment() -> dict[str, str]:
    return {"VLLM_CPU_KVCACHE_SPACE": "1", **os.environ, **own_path()}


def _one_engine(
    plan: Plan,
    folder: Folder,
    python: str,
    deadline: float,
    on_progress: Callable[[Progress], None],
    should_stop: Callable[[], bool],
    limits_s: tuple[float, float],
) -> str:
    """Start one engine and watch it to its end. "" when it ended well, else how it ended."""
    lines = folder.lines()
    request = folder.path / "request.json"
    request.write_text(
        json.dumps({"plan": asdict(plan), "lines": lines, "deadline": deadline}), encoding="utf-8"
    )
    command = [python, "-m", "advisor.profiling.engine.child", str(request), str(folder.lines_path)]
    began = time.time()
    with folder.log.open("ab") as log:
        child = subprocess.Popen(
            command, env=_environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            seen = 0
            heard = began
            n_lines_before = len(lines)
            while child.poll() is None:
                size = folder.lines_path.stat().st_size if folder.lines_path.exists() else 0
                if size != seen:
                    seen = size
                    heard = time.time()
                    known = len(lines)
                    lines = folder.lines()
                    on_progress(_progress(plan, lines, lines[known:], time.time() - began))
                started = any("started" in line for line in lines[n_lines_before:])
                quiet_s = time.time() - heard
                limit_s = limits_s[1 if started else 0]
                if should_stop():
                    return "" if started else "was stopped on request"
                if quiet_s > limit_s:
                    return f"said nothing for {limit_s:.0f} s"
                if time.time() > deadline + min(limit_s, GRACE_S):
                    return ""
                time.sleep(POLL_S)
        finally:
            end(child)
            request.unlink(missing_ok=True)
    return "" if child.returncode in (0, LOST) else f"ended with status {child.returncode}"


def end(child: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """End a child and all that it started: SIGINT to its group, then SIGKILL."""
    if child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)
            child.wait(timeout=grace_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _progress(
    plan: Plan, lines: list[dict[str, Any]], new: list[dict[str, Any]], elapsed_s: float
) -> Progress:
    """Repeats done and in hand. Those of noisy cells are added to the plan's, which is said."""
    done = sum("times" in line for line in lines)
    last = lines[-1] if lines else {}
    message = str(last.get("begin") or last.get("id") or last.get("why", ""))
    for started in (line["started"] for line in new if "started" in line):
        eager = (
            started.get("eager")
            and started.get("device") == "cpu"
            and "enforce_eager" not in plan.engine_args
        )
        message = "engine started" + (
            "; eager: this engine has no graphs on a processor" if eager else ""
        )
    total = sum(len(plan.round(number, plan.cells)) for number in range(plan.repeats))
    if done >= total:
        left = plan.left(lines)
        noisy = {repeat.cell for repeat in left if repeat.control < 0}
        total = done + len(left)
        message += f"; repeating noisy cells: {len(noisy)}" if noisy else ""
    controls = [statistics.median(line["times"]) for line in lines if line.get("control")]
    before = len(controls) - sum(bool(line.get("control")) for line in new)
    earlier = controls[:before]
    was = max(earlier, default=1.0) / min(earlier, default=1.0) - 1
    now = max(controls, default=1.0) / min(controls, default=1.0) - 1
    if was <= NOISE_LIMIT < now:
        message += (
            f"; control steps {100 * now:.0f} % apart: other work disturbs this run, stop and "
            "resume when quiet"
        )
    if 0 < done < total:  # by the steps measured so far, with those that are not timed
        repeat_s = statistics.mean(
            line["prefill_s"] + 1.25 * sum(line["times"]) for line in lines if "times" in line
        )
        message += f"; about {repeat_s * (total - done):.0f} s left"
    return Progress(done, max(done, total), message, elapsed_s)


def _blame(folder: Folder, since: int, ended: str) -> None:
    """Count the engine's death against the cell that was in hand."""
    lines = folder.lines()[since:]
    begun = [line for line in lines if "begin" in line]
    if begun and not any(line.get("id") == begun[-1]["begin"] for line in lines):
        kind = (
            "out_of_memory" if "status -9" in ended else "hung" if "nothing" in ended else "error"
        )
        folder.add(
            failed=kind, cell=begun[-1]["cell"], why=f"the engine {ended}: {folder.last_words()}"
        )


def rows_of(plan: Plan, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each cell of the plan. A step time that is not to be fitted has a status other
    than ok."""
    newest = {name: line[name] for line in lines for name in ("started", "ended") if name in line}
    engine_facts: dict[str, Any] = {**newest.get("started", {}), **newest.get("ended", {})}
    rows = []
    for cell in plan.cells:
        facts = cell_facts(plan, cell, lines)
        drafter = plan.drafter.split(":")[0] if cell.n_draft else "none"
        row: dict[str, Any] = {
            "point_id": f"{plan.name}-b{cell.batch}-k{cell.n_draft}-c{cell.context}",
            "hardware_id": plan.hardware,
            "gpu_count": engine_facts.get("tensor_parallel", 1),
            "model_id": plan.model_id,
            "drafter": drafter,
            "draft_tokens_k": cell.n_draft,
            "batch_size": cell.batch,
        }
        row |= {
            "batch_kind": "batch",
            "prompts_cached": 1,
            "accepted_length_same_run": int(cell.n_draft > 0),
            "routing": plan.routing,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }
        row |= {name: value for name, value in (engine_facts | facts).items() if name in COLUMNS}
        row["notes"] = "; ".join(filter(None, (plan.depth_note, facts["notes"])))
        if not cell.n_draft:
            row |= {"accepted_length": None, "accepted_length_same_run": None}
        rows.append(row)
    return rows


def _close(plan: Plan, folder: Folder, reasons: list[str], began: float) -> Outcome:
    """Write data.csv and meta.yaml from the lines."""
    lines = folder.lines()
    rows = rows_of(plan, lines)
    counts = dict(Counter(row["status"] for row in rows))
    failed = [row for row in rows if row["status"] not in ("ok", "noisy", "skipped")]
    reasons += [f"{row['point_id']}: {row['status']}, {row['notes']}" for row in failed]
    left = plan.left(lines)
    if left and not reasons:
        reasons.append(f"{len(left)} repeats of the round in hand are left; --resume measures them")
    measured = sum("step_time_s" in row for row in rows)
    status = (
        "failed"
        if not measured
        else "complete"
        if measured == len(rows) and not left
        else "partial"
    )
    write_atomically(
        folder.path / "data.csv", rows_text(rows, header=True, columns=COLUMNS, digits=6)
    )
    elapsed_s = time.time() - began
    engines = [line["started"] for line in lines if "started" in line]
    weights = "real weights" if plan.checkpoint else "routing is simulated"
    limits = [
        f"random weights: times, not text; {weights}",
        (
            "drafts of a head of random weights are refused: the round is what is measured, the "
            "accepted length is as it came"
        ),
    ]
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "node": "",
    }
    plan_values = {name: value for name, value in asdict(plan).items() if name != "model"}
    meta = {
        "dataset": folder.path.resolve().name,
        "kind": "measured",
        "source": "advisor profile --engine, steps of a real engine timed one by one",
        "limits": limits,
        "data": "data.csv",
        "machine": machine,
        "plan_hash": plan.hash,
        "plan": plan_values,
        "engine_starts": len(engines),
        "engine": engines[-1] if engines else {},
        "status": status,
        "reasons": reasons,
        "rows": len(rows),
        "rows_by_status": counts,
        "elapsed_s": elapsed_s,
    }
    write_atomically(folder.path / "meta.yaml", to_yaml(meta))
    return Outcome(status, tuple(reasons), counts, str(folder.path), elapsed_s)
