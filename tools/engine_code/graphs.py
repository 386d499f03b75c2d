"""Captured sizes by our rules against the engines' own functions, for several releases of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

from advisor.catalog.engines import GraphServer, captured_sizes, load_engine

VERSIONS = {"vllm": ("0.12.0", "0.24.0", "0.28.0", "0.33.0"), "sglang": ("0.5.23",)}
"""Releases that are tried: one for each rule of profiles/engines, the newest that each holds
for."""


def cases(engine: str) -> list[dict[str, Any]]:
    """Servers that the rules are tried on."""
    found = []
    for q, admitted in product((1, 2, 3, 4, 6, 8, 17), (8, 48, 100, 256, 1024)):
        for blackwell in (False, True):
            found.append({"q": q, "admitted": admitted, "blackwell": blackwell})
        found.append({"q": q, "admitted": admitted, "blackwell": False, "largest": 500})
        found.append({"q": q, "admitted": admitted, "blackwell": False, "sizes": [16, 40, 96, 300]})
    if engine == "sglang":
        boards = product((1, 4, 8), (16.0, 24.0, 32.0, 48.0, 79.0, 140.0, 180.0))
        found = [
            {"q": q, "n_gpus": gpus, "memory_gib": gib} for q in (1, 4, 6) for gpus, gib in boards
        ]
        found += [
            {"q": 4, "n_gpus": 1, "memory_gib": 79.0, "largest": size} for size in (33, 100, 300)
        ]
    return found


def ours(engine: str, version: str, case: dict[str, Any]) -> list[int]:
    """Sizes by the rule of profiles/engines."""
    rule = load_engine(engine).graph_rule(version)
    assert rule is not None, f"{engine} {version} has no rule"
    server = GraphServer(
        generation="Blackwell sm_100" if case.get("blackwell") else "Hopper sm_90",
        memory_bytes=case.get("memory_gib", 80.0) * 2**30,
        n_gpus=case.get("n_gpus", 1),
        admitted=case.get("admitted", 1024),
        sizes=tuple(case["sizes"]) if "sizes" in case else None,
        largest=case.get("largest"),
    )
    return [int(size) for size in captured_sizes(rule, server, case["q"])]


def differences(engine: str, version: str, wheel: Path) -> tuple[list[str], str]:
    """Cases in which the engine's own functions capture other sizes, in words; and a reason where
    they do not run."""
    given = cases(engine)
    path = os.pathsep.join(map(str, [wheel, Path(__file__).resolve().parents[2]]))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "VLLM_LOGGING_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "tools.engine_code.graphs_side", engine]
    done = subprocess.run(
        command,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    try:
        theirs = json.loads(done.stdout[done.stdout.index('{"results"') :])["results"]
    except ValueError:
        return [], (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]
    wrong = []
    for case, sizes in zip(given, theirs, strict=True):
        if (own := ours(engine, version, case)) != sizes:
            wrong.append(f"{case}: ours {_short(own)}, theirs {_short(sizes)}")
    return wrong, ""


def _short(sizes: Any) -> str:
    return (
        str(sizes)
        if isinstance(sizes, str) or len(sizes) < 8
        else f"{len(sizes)} to {sizes[-1]}: {sizes[:4]}..."
    )


def report(engine: str, version: str, wheel: Path | str) -> int:
    """Prints what the comparison of one release found; returns 1 where it failed or sizes
    differ."""
    if isinstance(wheel, str):
        print(f"  CUDA graphs of {version} skipped: {wheel}")
        return 0
    wrong, reason = differences(engine, version, wheel)
    if reason:
        print(f"  CUDA graphs of {version} failed: {reason}")
        return 1
    print(
        f"  CUDA graphs of {version}: {len(cases(engine)) - len(wrong)} of {len(cases(engine))} "
        "servers alike"
    )
    for text in wrong[:10]:
        print(f"  DIFFERS       {text}")
    return int(bool(wrong))
