"""How often an answer computes a curve: once, wherever it is shown.

K by batch is decided anew at each accepted length that is looked at (answers/by_length.py)."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest

import advisor.predict.curve
import advisor.predict.load
from advisor.cli import advise as _cli_advise  # noqa: F401  (loaded, so that its names are counted too)
from advisor.cli import report as _cli_report  # noqa: F401
from advisor.cli import runtime as _cli_runtime  # noqa: F401
from tests import command_line

OTHER_CONTEXTS = 3
"""512, 8,192 and 32,768 tokens: the others are the scenario's own, and beyond the model."""
OPTIONS = (*command_line.QWEN, "--batch", "16")
COUNTED = (
    (advisor.predict.curve, "curve_for"),
    (advisor.predict.load, "load_setup"),
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Calls of `curve_for` and `load_setup`, from whichever module they come."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **named)

        return call

    for home, name in COUNTED:
        function = getattr(home, name)
        wrapped = counted(name, function)
        for module in [item for key, item in sys.modules.items() if key.startswith("advisor")]:
            if vars(module).get(name) is function:
                monkeypatch.setattr(module, name, wrapped)
    return counts


@pytest.mark.parametrize("command", ["advise", "report", "schedule", "export"])
def test_a_command_loads_each_scenario_once(
    command: str, calls: Counter[str], capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """The scenario's own curve; in `schedule` and `export` the curves at other
    contexts."""
    more = {
        "report": ["-o", str(tmp_path / "r.pdf"), "--brief"],
        "export": ["--output", str(tmp_path)],
    }
    more["export"] += ["--draft-model", "HEAD"]
    code, _, err = command_line.run(capsys, command, *OPTIONS, *more.get(command, []))
    assert code == 0, err
    engines = 2 if command == "report" else 1  # each engine's own kernels say what it loads
    looked_at = {"advise": 1, "report": engines}.get(command, 1 + OTHER_CONTEXTS)
    # What a launch command's graphs gain: central values with and without them.
    graphs = {"advise": 2, "report": 2 * engines, "export": 2}.get(command, 0)
    assert calls == {"load_setup": looked_at, "curve_for": looked_at + graphs}
