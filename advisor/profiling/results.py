"""Results on disk, data.csv and meta.yaml, written with the standard library alone."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.profiling.device import GraphPool, ProfilingError, clocks, driver_facts
from advisor.profiling.plan import Block, Plan

COLUMNS = (
    *(
        "block",
        "op",
        "status",
        "dtype",
        "kernel",
        "mode",
        "like",
        "part",
        "engine",
        "engine_version",
    ),
    *("batch_size", "tokens_per_sequence", "n_tokens", "context_tokens"),
    *(
        "n_experts",
        "n_active",
        "expert_width",
        "hidden_size",
        "shared_width",
        "touched_experts",
        "touched_experts_sd",
    ),
    *("routing", "load_cv", "affinity", "stickiness", "expert_pool"),
    *(
        "n_heads",
        "n_kv_heads",
        "head_dim",
        "value_dim",
        "in_features",
        "out_features",
        "vocab_size",
        "n_layers",
    ),
    *(
        "n_draft",
        "drafter",
        "acceptance",
        "accepted_length",
        "baseline_time_s",
        "speedup",
    ),  # past n_draft: of old sets
    *("time_s", "time_p20_s", "time_p80_s", "n_rounds", "bytes", "flops", "bandwidth_fraction"),
    *("checked_error", "control_ratio", "worker", "notes"),
)
"""Columns of data.csv, documented in docs/profiling.md. Empty means unknown or not applicable,
never zero."""


def _cell(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return f"{value:.{digits}g}" if math.isfinite(value) else ""
    return int(value) if isinstance(value, bool) else value  # the writer leaves None empty


def rows_text(
    rows: Iterable[Mapping[str, Any]],
    *,
    header: bool,
    columns: Sequence[str] = COLUMNS,
    digits: int = 9,
) -> str:
    """Rows as CSV text with fixed columns. Raises ProfilingError for a column that is not
    documented."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        unknown = set(row) - set(columns)
        if unknown:
            raise ProfilingError(f"undocumented result columns: {', '.join(sorted(unknown))}")
        writer.writerow({name: _cell(value, digits) for name, value in row.items()})
    return buffer.getvalue()


def read_rows(out_dir: Path) -> list[dict[str, str]]:
    """Rows of data.csv as text cells. [] where there is none."""
    path = out_dir / "data.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a killed run leaves the old or the new one."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)


class ResultFolder:
    """data.csv, meta.yaml and, until the plan is complete, progress.json in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def data(self) -> Path:
        """The growing CSV file."""
        return self.path / "data.csv"

    def is_empty(self) -> bool:
        """Whether no results are here."""
        return not any(
            (self.path / name).exists() for name in ("data.csv", "meta.yaml", "progress.json")
        )

    def start(self, finished_blocks: Iterable[str] = ()) -> int:
        """Make data.csv hold only rows of finished blocks, and count them. Raises ProfilingError
        where it cannot."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            wanted = set(finished_blocks)
            finished_rows = [row for row in read_rows(self.path) if row["block"] in wanted]
            write_atomically(self.data, rows_text(finished_rows, header=True))
        except OSError as error:
            raise ProfilingError(
                f"cannot write results to {self.path}: {error}; choose another --output"
            ) from error
        return len(finished_rows)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add a finished block's rows and push them to the disk."""
        with self.data.open("a", encoding="utf-8", newline="") as stream:
            stream.write(rows_text(rows, header=False))
            stream.flush()
            os.fsync(stream.fileno())

    def read_progress(self) -> dict[str, Any]:
        """Contents of progress.json, {} where there is none. Raises ProfilingError when it cannot
        be read."""
        path = self.path / "progress.json"
        if not path.exists():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ProfilingError(
                f"{path} cannot be read ({error}); choose another --output"
            ) from error
        return content if isinstance(content, dict) else {}


def to_yaml(value: Any) -> str:
    """Plain data as JSON, which YAML reads. Floats have nine digits, NaN and infinity become
    null."""
    text = json.dumps(_finite(value), indent=1, default=str)
    # YAML 1.1 wants a point in a float, also before an exponent; a line holds one value.
    return _BARE_EXPONENT.sub(r"\1.0e", text) + "\n"


_BARE_EXPONENT = re.compile(r'^( *(?:"(?:[^"\\]|\\.)*": )?-?[0-9]+)e', re.MULTILINE)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_finite, value))
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value


PLAN_FACTS = ("hash", "preset", "only", "seed", "rounds", "estimate_s", "code_version")
"""What meta.yaml says of the plan."""
DRIFT_LIMIT = 0.10
"""A control kernel this much slower or faster than at the start of the sweep is reported. [-]"""
BANDWIDTH_GOAL = 0.70
"""Share of the measured copy bandwidth that a bandwidth-bound MoE layer should reach on a
data-centre GPU. [-]"""


@dataclass
class State:
    """State that progress.json holds between processes. Blocks done, crashes seen, facts that later
    blocks need."""

    plan_hash: str
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    crashes: dict[str, int] = field(default_factory=dict)
    avoid: dict[str, str] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0
    setup_s: float = 0.0
    control_reference_s: float | None = None
    copy_bytes_per_s: float | None = None
    started_at: str = ""
    clocks_at_start: dict[str, Any] = field(default_factory=dict)

    def record(
        self,
        block: Block,
        status: str,
        n_rows: int,
        message: str,
        seconds: float,
        graphs: GraphPool | None = None,
    ) -> None:
        """Note how a block ended, and what its captured graphs took where it had any."""
        self.blocks[block.name] = {
            "status": status,
            "rows": n_rows,
            "seconds": round(seconds, 3),
            "estimate_s": block.estimate_s,
            "message": message,
        }
        if graphs is not None and graphs.n_graphs:
            self.blocks[block.name] |= {"graphs": graphs.n_graphs, "graph_bytes": graphs.held_bytes}

    @property
    def n_rows(self) -> int:
        """Rows of all blocks. [-]"""
        return sum(entry["rows"] for entry in self.blocks.values())

    @property
    def finished(self) -> list[str]:
        """Names of blocks that need no other try."""
        return [
            name
            for name, entry in self.blocks.items()
            if entry["status"] not in ("skipped", "interrupted")
        ]


def status_of(
    plan: Plan, blocks: dict[str, dict[str, Any]], folder: ResultFolder
) -> tuple[str, list[str]]:
    """(complete | partial | failed, reasons). Complete: every block ran, and measured what is to be
    had here."""
    rows = read_rows(folder.path)
    measured = {row["block"] for row in rows if row["status"] == "ok"}
    absent = _not_to_be_had(rows)
    reasons = []
    for block in plan.blocks:
        entry = blocks.get(block.name)
        if entry is None:
            reasons.append(f"{block.name}: not reached")
        elif entry["status"] != "ok":
            reasons.append(f"{block.name}: {entry['status']}, {entry['message']}")
        elif block.name not in measured and block.name not in absent:
            reasons.append(f"{block.name}: no row measured")
    status = "complete" if not reasons else ("partial" if measured else "failed")
    return status, reasons


def _not_to_be_had(rows: list[dict[str, str]]) -> dict[str, str]:
    """Reason by block of which every row says that what it measures is not installed or not built
    in here."""
    had = {row["block"] for row in rows if row["status"] != "unavailable"}
    return {row["block"]: row["notes"] for row in rows if row["block"] not in had}


def findings_of(rows: list[dict[str, str]], backend: str) -> list[str]:
    """Remarks that a reader should know before using the rows, each computed from them."""
    findings = []
    good = [row for row in rows if row["status"] == "ok"]
    bad = [row for row in rows if row["status"] in ("error", "wrong", "out_of_memory")]
    if bad:
        findings.append(f"{len(bad)} configurations failed, see the rows whose status is not ok")
    drifts = [abs(float(row["control_ratio"]) - 1) for row in good if row.get("control_ratio")]
    if drifts and max(drifts) > DRIFT_LIMIT:
        findings.append(
            f"the control kernel drifted by up to {100 * max(drifts):.0f}%: the device was not "
            "steady"
        )
    findings += [
        f"{block}: not measured, {reason}" for block, reason in _not_to_be_had(rows).items()
    ]
    findings += _bandwidth_findings(good, backend)
    eager = {row["op"] for row in good if row["mode"] == "eager"} - {
        "launch",
        "copy_bandwidth",
        "read_bandwidth",
    }
    if backend != "cpu" and eager:
        findings.append("timed without a graph: " + ", ".join(sorted(eager)))
    return findings


def _bandwidth_findings(rows: list[dict[str, str]], backend: str) -> list[str]:
    """Best share of the copy bandwidth a MoE block reaches: its few-token rows are limited by
    reading weights."""
    findings = []
    for block in sorted({row["block"] for row in rows if row["op"] == "moe_layer"}):
        block_rows = [
            row
            for row in rows
            if (row["block"], row["op"]) == (block, "moe_layer")
            and row["bandwidth_fraction"]
            and float(row["n_tokens"]) * float(row["n_active"]) <= 4 * float(row["n_experts"])
        ]
        if not block_rows:
            continue
        top = max(block_rows, key=lambda row: float(row["bandwidth_fraction"]))
        share = float(top["bandwidth_fraction"])
        text = (
            f"{block}: MoE layer reaches {100 * share:.0f}% of the copy bandwidth with "
            f"{top['kernel']}"
        )
        text += f" at {top['n_tokens']} tokens, {float(top['touched_experts']):.1f} touched experts"
        if backend != "cpu":
            verdict = "reached" if share >= BANDWIDTH_GOAL else "NOT reached"
            text += f" (goal {100 * BANDWIDTH_GOAL:.0f}%: {verdict})"
        findings.append(text)
    return findings


def build_meta(
    plan: Plan, state: State, folder: ResultFolder, status: str, reasons: list[str]
) -> dict[str, Any]:
    """The whole of meta.yaml as plain data. Units stand in the keys."""
    device = plan.device
    rows = read_rows(folder.path)
    device_facts = {
        "backend": device.backend,
        "name": device.name,
        "memory_bytes": device.memory_bytes,
        "last_level_cache_bytes": device.cache_bytes,
        "last_level_cache_known": device.cache_known,
        "compute_capability": device.compute_capability or None,
        "n_multiprocessors": device.n_multiprocessors or None,
        "clocks_at_start": state.clocks_at_start,
        "clocks_at_end": clocks(device),
    }
    block_facts = [
        {"name": block.name, "op": block.op} | state.blocks.get(block.name, {"status": "open"})
        for block in plan.blocks
    ]
    summary: dict[str, Any] = {
        "dataset": folder.path.resolve().name,
        "kind": "measured",
        "source": f"advisor.profiling, code {plan.code_version}",
        "status": status,
        "reasons": reasons,
        "findings": findings_of(rows, device.backend),
        "data": folder.data.name,
        "rows": len(rows),
        "measured_rows": sum(row["status"] == "ok" for row in rows),
    }
    return summary | {
        "started_at": state.started_at,
        "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "elapsed_s": state.elapsed_s,
        "setup_s": state.setup_s,
        "plan": {name: getattr(plan, name) for name in PLAN_FACTS},
        "device": device_facts,
        "software": driver_facts(device),
        "blocks": block_facts,
        "avoided_kernels": dict(state.avoid),
        "method": METHOD_CPU if device.backend == "cpu" else METHOD_ACCELERATOR,
    }


METHOD_CPU = (
    "one thread; routing redrawn before every call; configurations in random order in each round, "
    "the control kernel beside each; weights and caches rotate through more than the last-level "
    "cache; time_s is the median over rounds; outputs checked against float64"
)
METHOD_ACCELERATOR = (
    "device events around the second of two graph replays where mode is graph, both queued behind "
    "a spin, with the control kernel between them; routing redrawn before every sample; "
    "configurations in random order in each round; weights and caches rotate through more than "
    "the last-level cache; time_s is the median over rounds; outputs checked against float64"
)
