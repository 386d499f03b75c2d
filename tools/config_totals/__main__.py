"""`make test-configs`: parameters of the shipped models beside those of transformers, built on the
meta device.

Then those of transformers' own default configs, by kind, where they are off by more than
DEFAULT_TOLERANCE.

transformers runs in an environment of its own, .configs-venv (requirements-configs.txt). The
command fails where a total or the routed experts differ by more than TOLERANCE and catalogue.yaml
knows no reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.cli.output import print_table
from advisor.physics.architecture import ParameterCounts, parameter_counts
from advisor.prediction import AdvisorError
from advisor.profiles import data_root
from advisor.show.table import matrix

INTERPRETER = data_root() / ".configs-venv" / "bin" / "python"
THEIR_SIDE = Path(__file__).parent / "their_side.py"
CATALOGUE = Path(__file__).parent / "catalogue.yaml"
TOLERANCE = 0.005
"""Share by which two counts may differ: norms, biases and small mixers of residuals are not all
counted here. [-]"""
DEFAULT_TOLERANCE = 0.01
"""Likewise of a default config, which no model was released with. [-]"""
KNOWN_SPREAD = 0.002
"""Share by which a known difference may move before it is looked at anew. [-]"""
HEADER = ("model", "their class", "theirs, B", "ours, B", "total", "routed", "")


SAYS_SO = re.compile("is not known|not counted|only the active|is missing: (?:layers|experts|head)")
"""What a warning holds that names a part which is not read."""


@dataclass(frozen=True)
class Line:
    """One model of the table."""

    cells: tuple[str, ...]
    fault: bool
    """Whether a count is off without a known reason, or a known difference is gone."""


def questions(asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The configs to build by model id, with the changes of the catalogue."""
    found = {}
    for model_id in model_ids():
        config = dict(model_profile(model_id).config)
        change = asked.get(model_id, {})
        if block := change.get("within"):
            config = {"model_type": config.pop("model_type"), block: config}
        found[model_id] = merged(config, change.get("config", {}))
    return found


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with some values changed, blocks one by one."""
    out = dict(config)
    for name, value in changes.items():
        inner = out.get(name)
        out[name] = (
            merged(inner, value)
            if isinstance(value, Mapping) and isinstance(inner, Mapping)
            else value
        )
    return out


def compared(
    model_id: str,
    ours: ParameterCounts,
    theirs: Mapping[str, Any],
    known: Mapping[str, Any],
    tables: int = 0,
) -> Line:
    """Our counts of a model beside theirs.

    known : of catalogue.yaml, what is known to differ; empty for nothing. tables : numbers in
        n-gram tables. [-]
    """
    total = ours.total + tables
    if "error" in theirs:
        return Line(
            (model_id, "-", "-", _billions(total), "-", "-", str(theirs["error"])),
            fault=bool(known),
        )
    pairs = {"total": (total, theirs["total"]), "routed": (ours.routed, theirs["routed"])}
    ratios = {
        name: mine / other if other else (1.0 if not mine else float("inf"))
        for name, (mine, other) in pairs.items()
    }
    faults = [
        f"{name} is {ratio - 1:+.2%}, expected {wanted - 1:+.2%}"
        for name, ratio in ratios.items()
        if abs(ratio - (wanted := float(known.get(name, 1.0))))
        > (KNOWN_SPREAD if name in known else TOLERANCE)
    ]
    said = "; ".join(
        [*(f"OFF: {fault}" for fault in faults), *([known["because"]] if known else [])]
    )
    counts = (
        _billions(theirs["total"]),
        _billions(total),
        *(f"{ratio - 1:+.2%}" for ratio in ratios.values()),
    )
    return Line((model_id, str(theirs["class"]), *counts, said), bool(faults))


def default_lines(
    theirs: Mapping[str, Mapping[str, Any]], known: Mapping[str, str]
) -> tuple[list[Line], int]:
    """Kinds whose default is read with another total than theirs, and how many are read at all.

    One is a fault where neither the reader says what it left out nor the catalogue knows why.
    """
    lines = []
    n_read = 0
    for kind, answer in theirs.items():
        try:
            made = (
                None
                if "error" in answer
                else architecture_from_config(json.dumps(answer["config"]), kind)
            )
        except AdvisorError:
            continue
        if made is None:
            continue
        n_read += 1
        ratio = (parameter_counts(made).total + made.table_params) / answer["total"]
        if abs(ratio - 1.0) > DEFAULT_TOLERANCE:
            said = next(
                (text for text in made.warnings if SAYS_SO.search(text)), known.get(kind, "")
            )
            counts = (
                _billions(answer["total"]),
                _billions(ratio * answer["total"]),
                f"{ratio - 1:+.2%}",
            )
            lines.append(Line((kind, answer["class"], *counts, "", said or "OFF"), not said))
    return lines, n_read


def _billions(count: float) -> str:
    return f"{count / 1e9:,.3f}"


def main() -> int:
    """Ask transformers for every shipped model and print both counts. Returns the exit status."""
    catalogue = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.json"
        answers = Path(folder) / "answers.json"
        asked.write_text(json.dumps(questions(catalogue["asked"])), encoding="utf-8")
        interpreter = sys.argv[1] if len(sys.argv) > 1 else str(INTERPRETER)
        subprocess.run([interpreter, str(THEIR_SIDE), str(asked), str(answers)], check=True)
        said = json.loads(answers.read_text(encoding="utf-8"))
    lines = [
        compared(
            name,
            parameter_counts(made),
            theirs,
            catalogue["differs"].get(name, {}),
            made.table_params,
        )
        for name, theirs in said["models"].items()
        for made in [load_model(name)]
    ]
    print_table(matrix(HEADER, [line.cells for line in lines]))
    faults = sum(line.fault for line in lines)
    built = sum("error" not in each for each in said["models"].values())
    sys.stdout.write(
        f"\n{built} of {len(lines)} models built by transformers {said['transformers']} (torch "
        f"{said['torch']}); "
        f"{faults} differ by more than {TOLERANCE:.1%} without a known reason. MTP modules count "
        "on neither side.\n"
    )
    off, n_read = default_lines(said["defaults"], catalogue["defaults"])
    print_table(matrix(HEADER, [line.cells for line in off]))
    wrong = sum(line.fault for line in off)
    sys.stdout.write(
        f"\n{n_read} of {len(said['defaults'])} default configs are read; {len(off)} differ by "
        "more than "
        f"{DEFAULT_TOLERANCE:.0%}, {wrong} of them without a known reason.\n"
    )
    return 1 if faults or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
