"""Which tier each shipped model has on each shipped accelerator:
`python -m tests.golden.coverage_page` writes docs/coverage.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from advisor.catalog.models import model_ids
from advisor.physics.hardware import hardware_ids
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario

FILE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
MARKS = {"measured": "M", "interpolated": "I", "fitted": "F", "roofline": "r"}
HEAD = """# Models, accelerators, tiers

Written by `make documents`. The tier of a speedup at batch 16 with K = 3 under vLLM, in the formats
of the checkpoint, on one GPU.

- I: the expert shape was measured on this accelerator, and the step is interpolated.
- F: kernels are fitted on measured tables of this accelerator.
- r: roofline, by the data sheet.

Your own model, by its config.json, has the tier of its shapes.
"""


def tier(model_id: str, hardware_id: str) -> str:
    """One letter for the tier of a speedup."""
    scenario = build_scenario(
        hardware_id=hardware_id,
        model_id=model_id,
        drafter_id="ngram",
        acceptance="2.4@3",
        batch_size=16,
    )
    return MARKS[curve_for(load_setup(scenario), [16], [3]).tier[0, 0]]


def row(model_id: str, accelerators: Sequence[str]) -> str:
    """The row of a model, in Markdown."""
    cells = [model_id, *(tier(model_id, hardware_id) for hardware_id in accelerators)]
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page."""
    rooflines = [name for name in hardware_ids() if tier("qwen3-30b-a3b", name) == "r"]
    fitted = [name for name in hardware_ids() if name not in rooflines]
    lines = [
        HEAD,
        f"Roofline for every model: {', '.join(rooflines)}.\n",
        f"| model | {' | '.join(fitted)} |",
        "|---" * (len(fitted) + 1) + "|",
        *(row(model_id, fitted) for model_id in model_ids()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
