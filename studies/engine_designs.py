"""`python -m studies.engine_designs`: what a fit on some cells of a measured engine says of others.

Reads measurements/engine_cpu_*/ (`make engine-data-set`) through the same readers as `advisor fit`,
one sitting at a time: the machine's speed differs between them. Cells whose control held within 15
% take part, also where only their repeats lie further apart; their share is printed. Every error is
of cells that the fit did not see: the other half of the cells, or a whole design.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.cli.measured_files import read_measured
from advisor.measured.multipliers import multiplier_prior
from advisor.measured.observations import NAMES, log_predicted
from advisor.measured.points import Point
from advisor.measured.readings import expert_time
from advisor.measured.refit import refit_chosen, refitted, select_points
from advisor.measured.refit_result import RefitResult
from advisor.prediction import AdvisorError, Array
from advisor.profiles import MEASUREMENTS
from advisor.profiling.engine.plan import NOISE_LIMIT
from studies.published import seen_by

PREFIX = "engine_cpu_"
UNUSABLE = ("routing", "drafts", "out_of_memory", "hung", "error", "skipped")
"""Statuses of cells that have no time, or that of something else."""
APART = 2.0
"""Pairs of designs count where they differ by more than this many times the largest spread of the
four cells. [-]"""
BARS = {"plain": 0.10, "rounds": 0.14, "design": 0.20, "order": 0.75}
"""Errors at most, of plain steps and rounds of cells left out, and of a design left out; least
share of pairs."""
EQUAL_BYTES = ("coarse", "fine")
"""Designs of the bytes of k4 in coarser and finer experts."""


def cells_of(folders: Sequence[Path]) -> pd.DataFrame:
    """All cells as their files hold them, with `held`: whether the control beside them held. Index:
    point_id."""
    cells = pd.concat(
        [pd.read_csv(folder / "data.csv", keep_default_na=True) for folder in folders]
    )
    off = (cells["control_ratio"].fillna(1.0) - 1.0).abs()
    return cells.assign(held=~cells["status"].isin(UNUSABLE) & (off <= NOISE_LIMIT)).set_index(
        "point_id"
    )


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
    """Time of each point's step by a fit on the points of the other groups; without groups,
    unfitted [points]. [s]"""
    out = np.zeros(len(points))
    groups = [None if group is None else group(point) for point in points]
    for each in dict.fromkeys(groups):
        left = [i for i, name in enumerate(groups) if name == each]
        result = None
        if group is not None:
            result = refit_chosen(
                [points[i] for i, name in enumerate(groups) if name != each], ask=False
            )
        for i in left:
            unfitted = log_predicted(points[i].observations, np.zeros(len(NAMES)))
            out[i] = np.exp(unfitted[0]) if result is None else _said(points[i], result)
    return out


def table_of(points: Sequence[Point], cells: pd.DataFrame) -> pd.DataFrame:
    """One row a point: design, batch, K, measured time, and its prediction unfitted and left out in
    two ways. [s]"""
    batches, drafts = (
        sorted({value(point) for point in points})
        for value in (lambda p: p.batch_size, lambda p: p.n_draft)
    )

    def half(point: Point) -> int:
        return (batches.index(point.batch_size) + drafts.index(point.n_draft)) % 2

    return _measured(points, cells).assign(
        half=predicted_s(points, half),
        design_out=predicted_s(points, lambda point: point.scenario.model_id),
    )


def _measured(points: Sequence[Point], cells: pd.DataFrame) -> pd.DataFrame:
    names = [str(point.facts["point_id"]) for point in points]
    return pd.DataFrame(
        {
            "design": [name.removeprefix(PREFIX).rsplit("-b", 1)[0] for name in names],
            "batch": [point.batch_size for point in points],
            "n_draft": [point.n_draft for point in points],
            "spread": cells.loc[names, "spread"].to_numpy(float),
            "measured": [point.measured for point in points],
            "before": predicted_s(points, None),
        }
    )


def _said(point: Point, result: RefitResult) -> float:
    """Time of a point's step by a fit. [s]"""
    seen = seen_by(point, refitted(point.setup, result))
    return float(np.exp(log_predicted(seen.observations, np.zeros(len(NAMES)))[0]))


def _from_others(points: Sequence[Point], cells: pd.DataFrame, left: Sequence[str]) -> pd.DataFrame:
    """Rows of all points; `apart`: those of the designs left out, by a fit on the rest. NaN for the
    rest."""
    rows = _measured(points, cells)
    out = rows["design"].isin(left).to_numpy()
    result = refit_chosen(
        [point for point, apart in zip(points, out, strict=True) if not apart], ask=False
    )
    return rows.assign(
        apart=[
            _said(point, result) if apart else np.nan
            for point, apart in zip(points, out, strict=True)
        ]
    )


def mean_error(rows: pd.DataFrame, column: str) -> float:
    """Mean of |predicted / measured - 1|. NaN without rows. [-]"""
    return float((rows[column] / rows["measured"] - 1.0).abs().mean())


def order(rows: pd.DataFrame, column: str) -> tuple[int, int]:
    """Pairs of designs in the right order by T_plain / T_round at one batch and K, and all that lie
    apart enough.

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
    # The first layers of a design measured in runs of their own do not carry to its whole: decision
    # 0032.
    whole = [
        point for point in points_held(folders, cells) if not _design_of(point).endswith("-layers")
    ]
    rows = table_of(whole, cells)
    names = set(map(_design_of, whole))
    plain = rows[rows["n_draft"] == 0]
    rounds = rows[rows["n_draft"] > 0]
    lines = [
        f"{len(folders)} designs, {len(cells)} cells, {len(timed)} timed as asked",
        f"control within {NOISE_LIMIT:.0%}: {cells['held'].sum()} ({cells['held'].mean():.0%}); "
        f"of these {(cells['held'] & (cells['spread'] > NOISE_LIMIT)).sum()} with repeats further "
        "apart",
        (
            f"unfitted: plain steps {mean_error(plain, 'before'):.1%}, rounds "
            f"{mean_error(rounds, 'before'):.1%}"
        ),
        f"half fitted, the other half: plain steps {mean_error(plain, 'half'):.1%} (bar "
        f"{BARS['plain']:.0%}), rounds {mean_error(rounds, 'half'):.1%} (bar {BARS['rounds']:.0%})",
    ]
    if rows["design"].nunique() > 1:
        worst = {str(name): mean_error(each, "design_out") for name, each in rows.groupby("design")}
        lines.append(
            (
                f"a design left out whole: {mean_error(rows, 'design_out'):.1%} (bar "
                f"{BARS['design']:.0%}); "
            )
            + ", ".join(
                f"{name} {error:.1%}"
                for name, error in sorted(worst.items(), key=lambda each: -each[1])
            )
        )
        for column, words in (
            ("before", "unfitted"),
            ("half", "half fitted"),
            ("design_out", "a design left out"),
        ):
            right, total = order(rows, column)
            share = f"{right / total:.0%}" if total else "none lie apart"
            lines.append(
                f"order of designs, {words}: {right} of {total} pairs right, {share} (bar "
                f"{BARS['order']:.0%})"
            )
    found = expert_time(whole, multiplier_prior(whole))
    told = (
        found.text
        if found
        else "no two designs of equal bytes, with experts a fourth of the size, that would tell it"
    )
    lines.append(f"a time per touched expert, as a refit is offered it: {told}")
    lines += granularity(whole, cells) if names > set(EQUAL_BYTES) else []
    return "\n".join(lines)


def granularity(points: Sequence[Point], cells: pd.DataFrame) -> list[str]:
    """Steps of fine experts over those of coarse ones of equal bytes: measured, and by a fit on the
    other designs."""
    rows = _from_others(points, cells, EQUAL_BYTES)
    names = [str(point.facts["point_id"]) for point in points]
    rows = rows.assign(
        visits=cells.loc[names, "touched_experts"].to_numpy() * [_n_moe(point) for point in points]
    )
    coarse, fine = (
        rows[rows["design"] == name].set_index(["batch", "n_draft"]) for name in EQUAL_BYTES
    )
    ratio = (fine[["measured", "apart"]] / coarse[["measured", "apart"]]).dropna()
    true = ratio["measured"].median()
    said = ratio["apart"].median()
    each_s = (
        (fine["measured"] - coarse["measured"]) / (fine["visits"] - coarse["visits"])
    ).dropna()
    low, middle, high = each_s.quantile([0.25, 0.5, 0.75]) * 1e6
    by_expert = (
        f"; {middle:.1f} us for each further expert touched in a layer (half of the cells "
        f"{low:.1f} to {high:.1f})"
    )
    return [
        f"fine experts over coarse ones of equal bytes, {len(ratio)} cells: measured x{true:.2f}, "
        f"predicted x{said:.2f}{by_expert if len(each_s) else ''}"
    ]


def _n_moe(point: Point) -> int:
    moe = point.setup.architecture.moe
    return moe.count if moe else 0


def _design_of(point: Point) -> str:
    return str(point.facts["point_id"]).removeprefix(PREFIX).rsplit("-b", 1)[0]


def sittings(root: Path) -> dict[str, list[Path]]:
    """Folders of each sitting: engine_cpu_NAME of the first, engine_cpu_2_NAME of the second."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.glob(f"{PREFIX}*/data.csv")):
        number = re.match(r"\d+(?=_)", path.parent.name.removeprefix(PREFIX))
        found.setdefault(number[0] if number else "1", []).append(path.parent)
    return dict(sorted(found.items()))


def main(arguments: Sequence[str]) -> int:
    """Print the report on the measurements, or on those of a folder. 2 where their rows cannot be
    fitted."""
    root = Path(arguments[0]) if arguments else MEASUREMENTS
    if not (found := sittings(root)):
        print(f"{root} holds no engine_cpu_*/data.csv; make them with `make engine-data-set`")
        return 2
    try:
        for number, folders in found.items():
            print(f"sitting {number}")
            print(report(folders))
    except AdvisorError as error:
        print(f"the rows cannot be fitted: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
