"""Runs in a process of its own, with SGLang's unpacked wheel first on the path: exports in as JSON, findings out."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tools.engine_code import stubs

OWN = ("sglang.srt.utils.hf_transformers_patches",)
"""Modules of SGLang itself that are stubbed: they patch transformers."""


def main() -> None:
    stubs.install("sglang", OWN)
    import sglang.srt.platforms as platforms
    from sglang.srt.platforms.cpu import CpuSRTPlatform

    platforms._current_platform = CpuSRTPlatform()
    from sglang.srt.server_args import ServerArgs
    from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    done = []
    asked = json.load(sys.stdin)
    for export in asked["exports"]:
        found: list[str] = []
        try:
            words = shlex.split(export["launch_line"])
            given = parser.parse_args(words[words.index("sglang.launch_server") + 1 :])
            found.append("arguments parsed")
            found += _check(AdaptiveSpeculativeParams, given, export)
            done.append({"name": export["name"], "ok": True, "found": found})
        except (Exception, SystemExit) as error:  # whatever the engine's code raises is the finding
            said = f"{type(error).__name__}: {error}"[:300]
            done.append({"name": export["name"], "ok": False, "found": [*found, said]})
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    methods = [*SpeculativeAlgorithm.__members__, "NEXTN"]
    json.dump({"results": done, "methods": methods, "families": {}, "stubs": sorted(stubs.USED)}, sys.stdout)


def _check(adaptive: Any, given: SimpleNamespace | argparse.Namespace, export: dict[str, Any]) -> list[str]:
    """The adaptive file's K at each batch of the schedule, and the limit of requests."""
    found = []
    if given.speculative_algorithm is not None:
        if given.max_running_requests is None:
            raise ValueError("speculation without --max-running-requests: 48 requests are admitted")
        found.append(f"{given.max_running_requests} requests admitted")
    if export["config"] is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "adaptive.json"
        file.write_text(export["config_json"], encoding="utf-8")
        loaded = adaptive(given.speculative_num_steps, str(file))
    expected = export["k_by_batch"]
    if [loaded.get_steps_for_batch(batch) for batch in range(1, len(expected) + 1)] != expected:
        raise ValueError("the slots are not the schedule")
    return [*found, f"slots of {len(expected)} batches equal the schedule"]


if __name__ == "__main__":
    main()
