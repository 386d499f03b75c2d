"""`python -m advisor.studies.absolute`: plain and speculative times of published rows, each against its prediction.

A speedup can be right with both of its times wrong. Predicted with the overheads shipped for the row's engine class, so
nothing is left out: this shows where a time goes missing, it is no score. Laboratories set apart are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from advisor.calibration import class_costs
from advisor.points import (
    COLLECTIONS,
    Point,
    laboratory_of,
    measured_times,
    points_of,
    published_rows,
    set_apart,
    with_costs,
)
from advisor.prefill import prefill_per_token_s

LEAST_BATCHES = 3
"""Different batch sizes from which on a laboratory's slope over batch is printed. [-]"""


def predicted_times(point: Point) -> tuple[float, float]:
    """Seconds for a token of one sequence without and with speculation.

    They hold the prefill that the row's metric holds.
    """
    setup = with_costs(point.setup, **class_costs(point.engine_class))
    curve = point.curve(setup)
    prefill_s = float(prefill_per_token_s(setup, np.array([point.batch_size]))[0])
    return float(curve.plain_step_s[0]) + prefill_s, float(curve.round_s[0, 0]) / point.accepted_length + prefill_s


def ratios(points: Sequence[Point]) -> pd.DataFrame:
    """Log errors of rows that print a time, one line each.

    Laboratory, hardware_id, batch_size, and log predicted over measured of the plain and of the speculative time of a
    token, and of their ratio, the speedup.
    """
    rows = []
    for point in points:
        laboratory = laboratory_of(point.source)
        measured = np.array(measured_times(point.row))
        if set_apart(laboratory) or not np.isfinite(measured).any():
            continue
        plain, speculative = np.log(np.array(predicted_times(point)) / measured)
        rows.append((laboratory, point.scenario.hardware_id, point.batch_size, plain, speculative, plain - speculative))
    return pd.DataFrame(rows, columns=["laboratory", "hardware_id", "batch_size", "plain", "speculative", "speedup"])


def table(judged: pd.DataFrame) -> str:
    """Median predicted over measured by laboratory and accelerator, and its slope over the batch.

    The slope is that of its log per doubling.
    """
    kinds = ("plain", "speculative", "speedup")
    lines = [f"{'laboratory, accelerator':48}{'n':>5}" + "".join(f"{kind:>13}{'slope':>8}" for kind in kinds)]
    for (laboratory, hardware), group in judged.groupby(["laboratory", "hardware_id"]):
        doublings = np.log2(group["batch_size"])
        line = f"{f'{laboratory}, {hardware}'[:47]:48}{len(group):5}"
        for kind in kinds:
            known = group[kind].notna()
            middle = f"{np.exp(group[kind].median()):.2f}" if known.any() else ""
            steep = np.polyfit(doublings[known], group[kind][known], 1)[0] if _varied(doublings[known]) else np.nan
            line += f"{middle:>13}" + (f"{steep:+8.3f}" if np.isfinite(steep) else " " * 8)
        lines.append(line)
    return "\n".join(lines)


def _varied(doublings: pd.Series) -> bool:
    return doublings.nunique() >= LEAST_BATCHES


def main() -> None:
    """Print the table of all collections."""
    points, _ = points_of(published_rows(*COLLECTIONS), other_models=True)
    print(table(ratios(points)))


if __name__ == "__main__":
    main()
