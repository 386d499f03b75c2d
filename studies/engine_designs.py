"""`python -m studies.engine_designs`: what a fit on some cells of a measured engine says of others.

Reads measurements/engine_cpu_*/ (`make engine-data-set`) through the same readers as `advisor fit`. Cells whose control
held within 15 % take part, also where only their repeats lie further apart; their share is printed. Every error is of
cells that the fit did not see: the other half of the cells, or a whole design.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.cli.measured_files import read_measured
from advisor.measured.observations import NAMES, log_predicted
from advisor.measured.points import Point
from advisor.measured.refit import refit_chosen, refitted, select_points
from advisor.prediction import AdvisorError, Array
from advisor.profiles import MEASUREMENTS
from advisor.profiling.engine.plan import NOISE_LIMIT

PREFIX = "engine_cpu_"
UNUSABLE = ("routing", "drafts", "out_of_memory", "hung", "error", "skipped")
"""Statuses of cells that have no time, or that of something else."""
APART = 2.0
"""Pairs of designs count where they differ by more than this many times the largest spread of the four cells. [-]"""
BARS = {"plain": 0.10, "rounds": 0.14, "design": 0.20, "order": 0.75}
"""Errors at most, of plain steps and rounds of cells left out, and of a design left out; least share of pairs."""
EQUAL_BYTES, SHALLOW = ("coarse", "fine"), ("k4-2-layers", "k4-4-layers")
"""Designs beside the others: the bytes of k4 in coarser and finer experts, and its first layers."""


def cells_of(folders: Sequence[Path]) -> pd.DataFrame:
    """All cells as their files hold them, with `held`: whether the control beside them held. Index: point_id."""
    cells = pd.concat([pd.read_csv(folder / "data.csv", keep_default_na=True) for folder in folders])
    off = (cells["control_ratio"].fillna(1.0) - 1.0).abs()
    return cells.assign(held=~cells["status"].isin(UNUSABLE) & (off <= NOISE_LIMIT)).set_index("point_id")


def points_held(folders: Sequence[Path], cells: pd.DataFrame) -> list[Point]:
    """The cells that held, as `advisor fit` reads them."""
    with tempfile.TemporaryDirectory() as at:
        files = []
        for folder in folders:
            copy = Path(shutil.copytree(folder, Path(at) / folder.name))
            table = pd.read_csv(copy / "data.csv", dtype=str, keep_default_na=False)
            table["status"] = table["status"].where(~table["point_id"].map(cells["held"]), "ok")
            table[table["point_id"].map(cells["held"])].to_csv(copy / "data.csv", index=False)
            files.append(copy / "data.csv")
        return select_points(read_measured(files))[0]


def predicted_s(points: Sequence[Point], group: Callable[[Point], object] | None) -> Array:
    """Time of each point's step by a fit on the points of the other groups; without groups, unfitted [points]. [s]"""
    out = np.zeros(len(points))
    groups = [None if group is None else group(point) for point in points]
    for each in dict.fromkeys(groups):
        left = [i for i, name in enumerate(groups) if name == each]
        result = None
        if group is not None:
            result = refit_chosen([points[i] for i, name in enumerate(groups) if name != each], ask=False)
        for i in left:
            point = points[i] if result is None else points[i].seen_by(refitted(points[i].setup, result))
            out[i] = np.exp(log_predicted(point.observations, np.zeros(len(NAMES)))[0])
    return out


def table_of(points: Sequence[Point], cells: pd.DataFrame) -> pd.DataFrame:
    """One row a point: design, batch, K, measured time, and its prediction unfitted and left out in two ways. [s]"""
    batches, drafts = (
        sorted({value(point) for point in points}) for value in (lambda p: p.batch_size, lambda p: p.n_draft)
    )

    def half(point: Point) -> int:
        return (batches.index(point.batch_size) + drafts.index(point.n_draft)) % 2

    return _measured(points, cells).assign(
        half=predicted_s(points, half), design_out=predicted_s(points, lambda point: point.scenario.model_id)
    )


def _measured(points: Sequence[Point], cells: pd.DataFrame) -> pd.DataFrame:
    names = [str(point.row["point_id"]) for point in points]
    return pd.DataFrame(
        {
            "design": [name.rsplit("-b", 1)[0] for name in names],
            "batch": [point.batch_size for point in points],
            "n_draft": [point.n_draft for point in points],
            "spread": cells.loc[names, "spread"].to_numpy(float),
            "measured": [point.measured for point in points],
            "before": predicted_s(points, None),
        }
    )


def _from_others(folders: Sequence[Path], left: Sequence[str]) -> pd.DataFrame:
    """Rows of all folders; `apart`: those of the designs left out, by a fit on the rest. NaN for the rest."""
    cells = cells_of(folders)
    points = points_held(folders, cells)
    rows = _measured(points, cells)
    out = rows["design"].isin([PREFIX + name for name in left]).to_numpy()
    result = refit_chosen([point for point, apart in zip(points, out, strict=True) if not apart], ask=False)
    said = [
        np.exp(log_predicted(point.seen_by(refitted(point.setup, result)).observations, np.zeros(len(NAMES)))[0])
        if apart
        else np.nan
        for point, apart in zip(points, out, strict=True)
    ]
    return rows.assign(apart=said)


def mean_error(rows: pd.DataFrame, column: str) -> float:
    """Mean of |predicted / measured - 1|. NaN without rows. [-]"""
    return float((rows[column] / rows["measured"] - 1.0).abs().mean())


def order(rows: pd.DataFrame, column: str) -> tuple[int, int]:
    """Pairs of designs in the right order by T_plain / T_round at one batch and K, and all that lie apart enough.

    The accepted length is the same for both, so that it orders them as speedups do.
    """
    plain = rows[rows["n_draft"] == 0].set_index(["design", "batch"])
    rounds = rows[rows["n_draft"] > 0]
    at = pd.MultiIndex.from_frame(rounds[["design", "batch"]])
    beside = plain.reindex(at)
    ratios = rounds.assign(
        true=np.log(beside["measured"].to_numpy() / rounds["measured"]),
        said=np.log(beside[column].to_numpy() / rounds[column]),
        noise=np.maximum(beside["spread"].to_numpy(), rounds["spread"]),
    ).dropna(subset=["true"])
    right = total = 0
    for _, cell in ratios.groupby(["batch", "n_draft"]):
        for one, other in combinations(cell.itertuples(), 2):
            if abs(one.true - other.true) > APART * max(one.noise, other.noise):
                total += 1
                right += (one.true - other.true) * (one.said - other.said) > 0
    return right, total


def report(folders: Sequence[Path]) -> str:
    """The figures beside their bars, as text."""
    cells = cells_of(folders)
    timed = cells[~cells["status"].isin(UNUSABLE)]
    rows = table_of(points_held(folders, cells), cells)
    plain, rounds = rows[rows["n_draft"] == 0], rows[rows["n_draft"] > 0]
    lines = [
        f"{len(folders)} designs, {len(cells)} cells, {len(timed)} timed as asked",
        f"control within {NOISE_LIMIT:.0%}: {cells['held'].sum()} ({cells['held'].mean():.0%}); of these "
        f"{(cells['held'] & (cells['spread'] > NOISE_LIMIT)).sum()} with repeats further apart",
        f"unfitted: plain steps {mean_error(plain, 'before'):.1%}, rounds {mean_error(rounds, 'before'):.1%}",
        f"half fitted, the other half: plain steps {mean_error(plain, 'half'):.1%} (bar {BARS['plain']:.0%}), "
        f"rounds {mean_error(rounds, 'half'):.1%} (bar {BARS['rounds']:.0%})",
    ]
    if rows["design"].nunique() > 1:
        worst = {str(name): mean_error(each, "design_out") for name, each in rows.groupby("design")}
        lines.append(
            f"a design left out whole: {mean_error(rows, 'design_out'):.1%} (bar {BARS['design']:.0%}); "
            + ", ".join(f"{name} {error:.1%}" for name, error in sorted(worst.items(), key=lambda each: -each[1]))
        )
        for column, words in (("before", "unfitted"), ("half", "half fitted"), ("design_out", "a design left out")):
            right, total = order(rows, column)
            share = f"{right / total:.0%}" if total else "none lie apart"
            lines.append(
                f"order of designs, {words}: {right} of {total} pairs right, {share} (bar {BARS['order']:.0%})"
            )
    return "\n".join(lines)


def granularity(folders: Sequence[Path]) -> list[str]:
    """Steps with the bytes of k4 in coarser and finer experts over its own: measured, and by a fit on the others."""
    if not {*EQUAL_BYTES, "k4"} <= set(map(_design, folders)):
        return []
    chosen = [folder for folder in folders if _design(folder) not in SHALLOW]
    rows = _from_others(chosen, EQUAL_BYTES)
    rows["apart"] = rows["apart"].fillna(rows["measured"])  # k4's own: the ratio takes the error of the other alone
    table = rows.set_index(["design", "batch", "n_draft"])[["measured", "apart"]]
    lines = []
    for name in EQUAL_BYTES:
        ratio = (table.loc[PREFIX + name] / table.loc[f"{PREFIX}k4"]).dropna()
        error = abs(ratio["apart"] / ratio["measured"] - 1.0).mean()
        low, high = ratio["measured"].quantile([0.1, 0.9])
        lines.append(
            f"{name} experts of equal bytes over k4, {len(ratio)} cells: measured x{ratio['measured'].median():.2f} "
            f"({low:.2f} to {high:.2f}), predicted x{ratio['apart'].median():.2f}, error of the ratio {error:.1%}"
        )
    return lines


def depth(folders: Sequence[Path]) -> list[str]:
    """The whole of k4 predicted by a fit on two of its depths alone."""
    chosen = [folder for folder in folders if _design(folder) in (*SHALLOW, "k4")]
    if len(chosen) < 3:
        return []
    rows = _from_others(chosen, ["k4"])
    whole = rows[rows["design"] == f"{PREFIX}k4"]
    return [
        f"eight layers from two and four: {mean_error(whole, 'apart'):.1%} on {len(whole)} cells, "
        f"unfitted {mean_error(whole, 'before'):.1%}"
    ]


def _design(folder: Path) -> str:
    return folder.name.removeprefix(PREFIX)


def main(arguments: Sequence[str]) -> int:
    """Print the report on the measurements, or on those of a folder. 2 where their rows cannot be fitted."""
    root = Path(arguments[0]) if arguments else MEASUREMENTS
    every = [path.parent for path in sorted(root.glob(f"{PREFIX}*/data.csv"))]
    folders = [folder for folder in every if _design(folder) not in (*EQUAL_BYTES, *SHALLOW)]
    if not folders:
        print(f"{root} holds no engine_cpu_*/data.csv; make them with `make engine-data-set`")
        return 2
    try:
        print(report(folders))
        print("\n".join((*granularity(every), *depth(every))))
    except AdvisorError as error:
        print(f"the rows cannot be fitted: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
