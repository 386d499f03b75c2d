"""`python -m advisor.studies.small_launches`: fits the launches that no kernel table holds, and writes their records.

Small kernels between the measured ones do not show in speedups, which have them in both arms, but in plain steps: what
measured decode takes beyond its kernels, divided by the layers that run them. They are the only constants fitted on the
plain-decode points, and are judged there with each model's own points left out (docs/decisions/0013-small-launches.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from advisor import laws, store
from advisor.calibration import SmallLaunch, is_before, small_launch, write_small_launches
from advisor.catalog import Engine, engines
from advisor.points import PRIOR
from advisor.studies.validation.plain import plain_decode
from advisor.studies.validation.plain_tables import believed

PRIOR_LAUNCH_S = PRIOR[0]
"""Launch overhead of a layer where nothing says otherwise (docs/model.md). [s]"""
MAX_BATCH = 32
"""Larger batches hide launches behind kernels, and errors of these outweigh them. [-]"""
MIN_LAUNCH_S = 2e-6
"""Least launch overhead of a layer: two kernels that no table has, its norms, about 1 us each in a graph (assumed).
The fit of TensorRT-LLM comes to rest on it: its measured kernels add up to the measured step, or a little more. [s]"""
MIN_POINTS = 4
LAUNCH, NORM = "launch_per_layer_s", "query_key_norm_s"
LEAST_S = {LAUNCH: MIN_LAUNCH_S, NORM: 0.0}
SOURCE = "plain decode of the measured-kernel package (silicon_sample.csv), batches up to 32"


def without(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `plain_decode` predicted with no constant that was chosen on them."""
    return _moved(rows, np.full(len(rows), PRIOR_LAUNCH_S), np.zeros(len(rows)))


def held_out_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows predicted with constants fitted without the points of their own model. Versions count apart."""
    parts = []
    for model_id, own in rows.groupby("model_id", sort=False):
        records = fitted(rows[rows["model_id"] != model_id])
        parts.append(_with_records(own, records))
    return pd.concat(parts).sort_index()


def fitted(rows: pd.DataFrame) -> list[SmallLaunch]:
    """Records of every engine and version that the points tell apart: median of the models' medians."""
    bare = believed(without(rows))
    bare = bare[bare["served_batch"] <= MAX_BATCH]
    apart = {engine.id: engine for engine in engines() if engine.norms_apart_before is not None}
    # Engines with one constant for every layer: TensorRT-LLM fuses the norms; SGLang launches more than those apart,
    # and models left out are met better by one constant for all its layers than by one for norms.
    whole = bare[~bare["engine"].isin(apart)]
    found = []
    for engine, group in whole.groupby("engine"):
        missing = _missing(group, "n_layers")
        launches = {model: each + PRIOR_LAUNCH_S for model, each in missing.items()}
        found += [_record({"engine": str(engine), "name": LAUNCH}, launches)] if launches else []
    for engine, rows_of_it in bare[bare["normed_layers"] > 0].groupby("engine"):
        found += _norms(apart[str(engine)], rows_of_it) if engine in apart else []
    return found


def _norms(engine: Engine, rows: pd.DataFrame) -> list[SmallLaunch]:
    """Norms of queries and keys on an engine that launches them apart: today's, and before the release that changed.

    Where no model was seen on today's kind (it may be the one left out), the engine's other models serve.
    """
    first, day = str(engine.norms_apart_before), engine.norms_apart_before_date
    is_old = rows["version"].map(lambda version: is_before(str(version), first, day))
    old, today = (_missing(each, "normed_layers") for each in (rows[is_old], rows[~is_old]))
    named = {"engine": engine.id, "name": NORM}
    found = [_record(named, today or old)] if today or old else []
    border = {**named, "before_version": first, "before_date": day}
    return found + ([_record(border, old)] if old else [])


def _missing(rows: pd.DataFrame, layers: str) -> dict[str, np.ndarray]:
    """Seconds of a layer beyond the prediction at each point, by model with enough of them."""
    missing = (rows["measured_s"] - rows["predicted_s"]) / rows[layers]
    groups = missing.groupby(rows["model_id"])
    return {str(model): each.to_numpy() for model, each in groups if len(each) >= MIN_POINTS}


def _record(named: Mapping[str, str | None], by_model: dict[str, np.ndarray]) -> SmallLaunch:
    """The median of the models' medians, with the range of it that `SmallLaunch` promises."""
    medians = np.array([np.median(each) for each in by_model.values()])
    alone = next(iter(by_model.values()))
    ends = np.quantile(alone, (0.25, 0.75))
    if len(medians) > 1:
        rest = [np.median(np.delete(medians, index)) for index in range(len(medians))]
        ends = np.array([min(rest), max(rest)])
    value, low, high = np.maximum([np.median(medians), *ends], LEAST_S[str(named["name"])])
    return SmallLaunch.model_validate(
        dict(named)
        | {"value_s": float(value), "low_s": float(low), "high_s": float(high)}
        | {"n_points": sum(map(len, by_model.values())), "models": tuple(by_model), "source": SOURCE}
    )


def _with_records(rows: pd.DataFrame, records: Sequence[SmallLaunch]) -> pd.DataFrame:
    """`rows` with the constants of their versions by `records`."""

    def value(row: pd.Series, name: str, otherwise: float) -> float:
        record = small_launch(str(row["engine"]), name, str(row["version"]), tuple(records))
        return otherwise if record is None else record.value_s

    launch = [value(row, LAUNCH, PRIOR_LAUNCH_S) for _, row in rows.iterrows()]
    return _moved(rows, np.array(launch), np.array([value(row, NORM, 0.0) for _, row in rows.iterrows()]))


def _moved(rows: pd.DataFrame, launch_s: np.ndarray, norm_s: np.ndarray) -> pd.DataFrame:
    """`rows` with other small launches: they stand in the plain step once, whatever the batch."""
    layers, normed = rows["n_layers"], rows["normed_layers"]
    charged_s = laws.launches(rows["launch_per_layer_s"], layers) + laws.norms(rows["query_key_norm_s"], normed)
    more_s = laws.launches(launch_s, layers) + laws.norms(norm_s, normed) - charged_s
    times = {name: rows[name] + more_s for name in ("predicted_s", "step_s", "predicted_end_to_end_s")}
    return rows.assign(**times, launch_per_layer_s=launch_s, query_key_norm_s=norm_s)


def main() -> None:
    """Fit on all points and write the file."""
    with store.open_store(store.default_store_path()) as opened:
        rows = plain_decode(store.plain_decode_points(opened))
    found = fitted(rows)
    write_small_launches(found)
    for one in found:
        models = ", ".join(one.models)
        at = f"before {one.before_version}" if one.before_version else "today"
        sys.stdout.write(
            f"{one.engine} {at}: {one.name} {one.value_s * 1e6:.1f} us ({one.n_points} points, {models})\n"
        )


if __name__ == "__main__":
    main()
