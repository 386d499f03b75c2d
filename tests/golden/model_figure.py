"""The figure of docs/model.md: `python -m tests.golden.model_figure` draws it."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from studies.validation.outside import COMMAND_A, COMMAND_A_PLUS

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "model.svg"
BATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
INK = {"moe": "#0b5cad", "dense": "#596273", "experts": "#b84a00"}


def figure() -> Figure:
    """Speedup by batch of Command A+ and dense Command A at K = 3, and the experts loaded."""
    moe = load_setup(COMMAND_A_PLUS)
    curve = curve_for(moe, BATCHES, [3])
    drawn = Figure(figsize=(8, 3.4), layout="constrained")
    axes = drawn.add_subplot()
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES[::3], [str(batch) for batch in BATCHES[::3]])
    axes.set_xlabel("batch (sequences that decode together)")
    axes.set_ylabel("speedup")
    axes.axhline(1.0, color=INK["dense"], linewidth=0.8)
    flat = curve_for(load_setup(COMMAND_A), BATCHES, [3]).speedup[:, 0]
    axes.plot(BATCHES, curve.speedup[:, 0], color=INK["moe"], linewidth=2.5, label="MoE")
    axes.plot(BATCHES, flat, color=INK["dense"], linestyle=":", linewidth=2, label="dense")
    loaded = axes.twinx()
    loaded.set_ylim(0.0, 1.05)
    loaded.yaxis.set_major_formatter(PercentFormatter(1.0))
    loaded.set_ylabel("experts loaded by a baseline step", color=INK["experts"])
    share = curve.touched_plain / moe.architecture.moe.n_experts
    loaded.plot(BATCHES, share, color=INK["experts"], linewidth=1.2)
    axes.legend(frameon=False, loc=(0.02, 0.28))
    return drawn


def svg() -> str:
    """The figure as SVG, the same bytes for the same curves."""
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "model"}):
        figure().savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


if __name__ == "__main__":
    FILE.write_text(svg(), encoding="utf-8")
