"""Runs in a process of its own, with SGLang's unpacked wheel first on the path: exports in as JSON,
findings out."""

from __future__ import annotations

import argparse
import ast
import copy
import json
import logging
import re
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
    families = _mtp_families(asked["families"])
    json.dump(
        {"results": done, "methods": methods, "families": families, "stubs": sorted(stubs.USED)},
        sys.stdout,
    )


def _mtp_families(asked: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """Whether SGLang loads an MTP draft model of each configuration: one under another
    architecture's name."""
    import sglang

    source = Path(sglang.__path__[0]) / "srt"
    written = "\n".join(
        each.read_text(encoding="utf-8") for each in (source / "models").glob("*.py")
    )
    known = set(re.findall(r"^class (\w+)\(", written, re.MULTILINE))
    rename = _renaming(source / "configs" / "model_config.py")
    found = {}
    for family, config in asked.items():
        given = SimpleNamespace(
            **{**_UNSTATED, **config, "architectures": list(config["architectures"])}
        )
        whose = {
            "is_draft_model": True,
            "speculative_algorithm": "EAGLE",
            "hf_config": given,
            "hf_text_config": given,
        }
        holder = SimpleNamespace(**whose, is_draft_quantization_explicit=False)
        rename(holder)
        named = holder.hf_config.architectures[0]
        found[family] = named != config["architectures"][0] and named in known
    return found


def _renaming(file: Path) -> Any:
    """ModelConfig._config_draft_model of SGLang alone, since its module imports most of
    transformers.

    What it imports itself (classes of other models, DSpark) stands for nothing.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (owner,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelConfig"
    )
    (method,) = (node for node in owner.body if getattr(node, "name", "") == "_config_draft_model")
    namespace: dict[str, Any] = {
        "copy": copy,
        "logger": logging.getLogger(),
        "get_hf_text_config": lambda whole: whole,
    }
    for node in ast.walk(method):
        for name, body in ast.iter_fields(node):
            if isinstance(body, list) and any(isinstance(item, ast.ImportFrom) for item in body):
                kept = [item for item in body if not isinstance(item, ast.ImportFrom)]
                setattr(node, name, kept or [ast.Pass()])
                imported = [
                    each.name
                    for item in body
                    if isinstance(item, ast.ImportFrom)
                    for each in item.names
                ]
                namespace |= {
                    each: type(each, (), {}) if each[0].isupper() else _false for each in imported
                }
    constants = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, _LITERALS)
    ]
    module = ast.Module([*constants, method], [])
    exec(compile(ast.fix_missing_locations(module), str(file), "exec"), namespace)
    return namespace["_config_draft_model"]


def _false(*_: Any) -> bool:
    return False


_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Constant)
_UNSTATED = {"num_nextn_predict_layers": 1, "num_hidden_layers": 1, "mtp_local_layer_ids": None}
"""What a profile may leave out and the renaming reads."""


def _check(
    adaptive: Any, given: SimpleNamespace | argparse.Namespace, export: dict[str, Any]
) -> list[str]:
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
