"""`python -m studies.score NAME COLLECTION.csv RELEASE DRAWN`: appends a line to docs/scores.csv.

A collection enters as rows and predictions that a landed release froze before any code had seen
them: in that release's checkout `--predict NAME COLLECTION.csv` writes docs/scores/NAME.csv. A line
holds the hashes of both files and of the line before, so the log can only grow. RELEASE is the
version and commit that predicted; DRAWN is one of DRAWN.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.measured.points import judged_rows
from advisor.measured.refit_result import relative_error
from advisor.physics.bands import BAND_LEVEL
from advisor.prediction import AdvisorError, Array
from advisor.profiles import data_root
from studies.fits.held_out import held_out
from studies.published import points_of
from studies.validation.tables import markdown_table, percent

LOG = data_root() / "docs" / "scores.csv"
DRAWN = ("field", "field replayed", "causes")
"""How rows came: as the field publishes them; the same, but judged later by the code of then; or
chosen because each shows a cause that the model lacks, so that they tell no width."""
CHANCES = (0, 50, 80, 95)
"""Where classes of the stated chance of a gain begin. [%]"""
PROSPECTIVE = 30
"""Laboratories whose latest lines make the prospective figures. [-]"""
_MEANS = ("error", "four_constants", "range_held", "width")


def four_constants(fitted: pd.DataFrame, judged: pd.DataFrame) -> Array:
    """Speedup of judged rows [n] by a AL^b B^c (K + 1)^d. [-]

    Least squares of logarithms on the fitted rows of other laboratories. Both frames as `held_out`
    gives them.
    """
    speedups = np.zeros(len(judged))
    for laboratory in judged["source"].unique():
        others = fitted[fitted["source"] != laboratory]
        own = (judged["source"] == laboratory).to_numpy()
        constants, *_ = np.linalg.lstsq(_logs(others), np.log(others["measured"]), rcond=None)
        speedups[own] = np.exp(_logs(judged[own]) @ constants)
    return speedups


def _logs(rows: pd.DataFrame) -> Array:
    columns = (rows["accepted_length"], rows["batch_size"], rows["n_draft"] + 1)
    return np.stack([np.ones(len(rows)), *map(np.log, columns)], axis=1)


def judged(rows: pd.DataFrame, fitted: pd.DataFrame) -> pd.DataFrame:
    """Rows of `held_out` as `figures` takes them: `known` where engine class and kernels are."""
    classes = [
        (fitted["engine_class"].eq(engine) & fitted["source"].ne(laboratory)).any()
        for engine, laboratory in zip(rows["engine_class"], rows["source"], strict=True)
    ]
    return pd.DataFrame(
        {
            "laboratory": rows["source"],
            "known": np.array(classes, int) * (rows["tier"] != "roofline"),
            **{name: rows[name] for name in ("predicted", "low", "high", "measured")},
            "chance": [float(np.mean(np.asarray(draws) > 1.0)) for draws in rows["draws"]],
            "four_constants": four_constants(fitted, rows),
        }
    )


def figures(rows: pd.DataFrame) -> dict[str, float]:
    """Figures of `judged` rows: shares and means over laboratories, counts and chances over rows.

    `needed_log_half_width`: of a range that holds 80 % of the rows, laboratories alike. [-]
    """
    laboratories = rows["laboratory"]
    off = np.abs(np.log(rows["measured"] / rows["predicted"])).to_numpy()
    order = np.argsort(off)
    each = pd.DataFrame(
        {
            "error": relative_error(rows),
            "four_constants": relative_error(rows, "four_constants"),
            "range_held": rows["measured"].between(rows["low"], rows["high"]),
            "width": (rows["high"] - rows["low"]) / rows["predicted"],
        }
    )
    weights = 1.0 / laboratories.map(laboratories.value_counts()) / laboratories.nunique()
    held = np.cumsum(weights.to_numpy()[order])
    slower = rows["measured"] < 1.0
    foreseen = rows["predicted"] < 1.0
    chances = {}
    for least, most in zip(CHANCES, (*CHANCES[1:], 101), strict=True):
        stated = rows[(100 * rows["chance"] >= least) & (100 * rows["chance"] < most)]
        chances[f"stated_{least}"] = float(stated["chance"].mean())
        chances[f"gained_{least}"] = float((stated["measured"] > 1.0).mean())
        chances[f"rows_{least}"] = len(stated)
    return {
        "laboratories": laboratories.nunique(),
        "rows": len(rows),
        **each.groupby(laboratories).mean().mean(),
        "needed_log_half_width": float(np.append(off[order][held >= BAND_LEVEL - 1e-9], np.nan)[0]),
        "slowdowns": int(slower.sum()),
        "foreseen": int((slower & foreseen).sum()),
        "gains": int((~slower).sum()),
        "false": int((~slower & foreseen).sum()),
        **chances,
    }


def predictions(collection: Path) -> pd.DataFrame:
    """Rows of a collection that this release predicts, defects too, without what was measured."""
    frame = pd.read_csv(collection, dtype=str, keep_default_na=False)
    points, _ = points_of(frame.assign(defect=""), other_models=True)
    known, _ = points_of(judged_rows(), other_models=True)
    rows = judged(held_out(points), held_out(known))
    rows.insert(0, "point_id", [point.facts["point_id"] for point in points])
    return rows.drop(columns="measured")


def scored(collection: Path, frozen: Path) -> dict[str, float]:
    """Figures of a collection by its frozen predictions, and of its `known` rows.

    Raises AdvisorError for a prediction of a row that is not there.
    """
    measured = pd.read_csv(collection).set_index("point_id")["speedup"]
    rows = pd.read_csv(frozen)
    if absent := sorted(set(rows["point_id"]) - set(measured.index)):
        raise AdvisorError(f"{frozen.name} predicts {absent[0]}, which is no row of {collection}")
    rows = rows.assign(measured=rows["point_id"].map(measured))
    known = figures(rows[rows["known"] == 1])
    return figures(rows) | {f"known_{name}": value for name, value in known.items()}


def chained(before: str, cells: Sequence[str]) -> str:
    """Hash of a line: SHA-256 of the hash before it and of its own cells."""
    return hashlib.sha256("\n".join([before, *cells]).encode()).hexdigest()


def read_log(path: Path = LOG) -> pd.DataFrame:
    """The lines, oldest first. Raises AdvisorError where one is not as it was appended."""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    before = ""
    for *cells, stated in text.itertuples(index=False):
        before = chained(before, cells)
        if before != stated:
            raise AdvisorError(f"{path}: the line of {cells[2]} was changed; restore the file")
    return pd.read_csv(path)


def append(name: str, collection: Path, release: str, drawn: str, path: Path = LOG) -> None:
    """Score a collection by docs/scores/NAME.csv and append its line.

    Raises AdvisorError for another DRAWN, a collection that has a line, or one without predictions.
    """
    frozen = path.with_suffix("") / f"{name}.csv"
    log = read_log(path) if path.exists() else pd.DataFrame(columns=["collection", "hash"])
    if drawn not in DRAWN or name in set(log["collection"]) or not frozen.exists():
        raise AdvisorError(
            f"{name} has a line already, no {frozen}, or is drawn as none of {', '.join(DRAWN)}"
        )
    line = {
        "date": datetime.date.today().isoformat(),
        "release": release,
        "collection": name,
        "drawn": drawn,
        "collection_sha256": hashlib.sha256(collection.read_bytes()).hexdigest(),
        "predictions_sha256": hashlib.sha256(frozen.read_bytes()).hexdigest(),
    }
    numbers = {
        key: "" if np.isnan(value) else f"{value:.4g}"
        for key, value in scored(collection, frozen).items()
    }
    cells = [*line.values(), *numbers.values()]
    before = log["hash"].iloc[-1] if len(log) else ""
    row = pd.DataFrame([[*cells, chained(before, cells)]], columns=[*line, *numbers, "hash"])
    row.to_csv(path, mode="a", header=not len(log), index=False, lineterminator="\n")


def half_width(log: pd.DataFrame) -> float:
    """Log half-width of the 80 % range on an unseen machine: the largest that rows of the field
    needed. [-]"""
    field = log[log["drawn"] != "causes"]
    return round(float(field["needed_log_half_width"].max()), 2)


def pooled(log: pd.DataFrame, prefix: str = "") -> dict[str, float]:
    """Figures over the last lines that bring PROSPECTIVE laboratories, each laboratory alike."""
    laboratories = log["laboratories"]
    earlier = laboratories[::-1].cumsum()[::-1] - laboratories
    last = log[earlier < PROSPECTIVE]
    numbers = last.filter(regex=f"^{prefix}").rename(columns=lambda key: key.removeprefix(prefix))
    weights = numbers["laboratories"]
    means = {name: float(np.average(numbers[name], weights=weights)) for name in _MEANS}
    counts = ("laboratories", "rows", "slowdowns", "foreseen", "gains", "false", "rows_95")
    gained = (numbers["gained_95"] * numbers["rows_95"]).sum()
    return {
        **means,
        **{name: int(numbers[name].sum()) for name in counts},
        "gained_95": float(gained / max(numbers["rows_95"].sum(), 1)),
    }


def opening_table(log: pd.DataFrame, rows: pd.DataFrame, immature: pd.Series) -> str:
    """The first table of docs/validation.md. `rows`: `judged` of the development rows."""
    last = log.iloc[-1]
    lines: dict[str, Mapping[str, float]] = {
        f"prospective, last {PROSPECTIVE} laboratories": pooled(log),
        "... engines and kernels that are known": pooled(log, "known_"),
        f"the last collection ({last['date']}, release {last['release']})": last,
        "left out, constants only: every stack": figures(rows),
        "... without stacks that were called immature": figures(rows[~immature]),
    }
    header = (
        "judged",
        "laboratories (rows)",
        "mean error",
        "four constants",
        "80 % range held (width)",
        "slowdowns foreseen (false)",
        "gained where 95 % and more was stated",
    )
    return markdown_table(header, [(name, *_cells(line)) for name, line in lines.items()])


def _cells(line: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"{line['laboratories']} ({line['rows']})",
        percent(line["error"]),
        percent(line["four_constants"]),
        f"{percent(line['range_held'], 0)} ({percent(line['width'], 0)})",
        f"{line['foreseen']} of {line['slowdowns']} ({line['false']} of {line['gains']})",
        f"{percent(line['gained_95'], 0)} of {line['rows_95']}",
    )


def main(arguments: Sequence[str]) -> None:
    """Freeze predictions, or append a line. Raises AdvisorError for other arguments."""
    match list(arguments):
        case ["--predict", name, collection]:
            frozen = LOG.with_suffix("") / f"{name}.csv"
            predictions(Path(collection)).to_csv(frozen, index=False, float_format="%.5g")
        case [name, collection, release, drawn]:
            append(name, Path(collection), release, drawn)
        case _:
            raise AdvisorError("give --predict NAME COLLECTION, or NAME COLLECTION RELEASE DRAWN")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AdvisorError as error:
        sys.exit(f"error: {error}")
