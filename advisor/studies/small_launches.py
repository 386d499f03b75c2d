"""`python -m advisor.studies.small_launches`: fits the launches that no kernel table holds, and writes their records.

Small kernels between the measured ones do not show in speedups, which have them in both arms, but in plain steps: what
measured decode takes beyond its kernels, divided by the layers that run them. They are the only constants fitted on the
plain-decode points, and are judged there with each model's own points left out (docs/decisions/0013-small-launches.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from advisor import laws, store
from advisor.calibration import SmallLaunch, small_launch, version_key, write_small_launches
from advisor.catalog import engines
from advisor.points import PRIOR
from advisor.studies.validation.plain import plain_decode
from advisor.studies.validation.plain_tables import believed

PRIOR_LAUNCH_S = PRIOR[0]
"""Launch overhead of a layer where nothing says otherwise (docs/model.md). [s]"""
MAX_BATCH = 32
"""Larger batches hide launches behind kernels, and errors of these outweigh them. [1]"""
MIN_LAUNCH_S = 2e-6
"""Least launch overhead of a layer: two kernels that no table has, its norms, about 1 us each in a graph (assumed).
The fit of TensorRT-LLM comes to rest on it: its measured kernels add up to the measured step, or a little more. [s]"""
MIN_POINTS = 4
FUSED = "trtllm"
"""It fuses the norms: its points tell nothing of theirs."""
SOURCE = "plain decode of the measured-kernel package (silicon_sample.csv), batches up to 32"


def without(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` of `plain_decode` predicted with no constant that was chosen on them."""
    return _moved(rows, np.full(len(rows), PRIOR_LAUNCH_S), np.zeros(len(rows)))


def left_out(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` predicted with the constants of their engine's version, fitted without the points of their own model."""
    parts = []
    for model_id, own in rows.groupby("model_id", sort=False):
        records = fitted(rows[rows["model_id"] != model_id])
        parts.append(_with_records(own, records))
    return pd.concat(parts).sort_index()


def fitted(rows: pd.DataFrame) -> list[SmallLaunch]:
    """Records of every engine and version that the points tell apart: median of the models' medians."""
    bare = believed(without(rows))
    bare = bare[bare["served_batch"] <= MAX_BATCH]
    apart = {engine.id: engine.norms_apart_before for engine in engines()}
    # Engines with one constant for every layer: TensorRT-LLM fuses the norms; SGLang launches more than those apart,
    # and models left out are met better by one constant for all its layers than by one for norms.
    whole = bare[~bare["engine"].map(apart).notna()]
    found = []
    for engine, group in whole.groupby("engine"):
        launches = {model: value + PRIOR_LAUNCH_S for model, value in _by_model(group, "n_layers").items()}
        found += [_record(str(engine), "launch_per_layer_s", None, launches, group)] if launches else []
    normed = bare[bare["normed_layers"] > 0]
    pooled = _by_model(
        normed[normed["engine"] != FUSED], "normed_layers"
    )  # where a kind of version is seen in no model
    for engine, group in normed[normed["engine"].map(apart).notna()].groupby("engine"):
        first = str(apart[engine])
        new = pd.Series([_is_since(str(version), first) for version in group["version"]], group.index)
        named, old = (str(engine), "query_key_norm_s"), _by_model(group[~new], "normed_layers")
        today = _by_model(group[new], "normed_layers")
        found.append(_record(*named, None, today or pooled, group[new] if today else normed))
        found += [_record(*named, first, old, group[~new])] if old else []
    return found


def _by_model(rows: pd.DataFrame, layers: str) -> dict[str, float]:
    """Median seconds of a layer beyond the prediction, by model with enough points."""
    missing = (rows["measured_s"] - rows["predicted_s"]) / rows[layers]
    groups = missing.groupby(rows["model_id"])
    return {str(model): float(each.median()) for model, each in groups if len(each) >= MIN_POINTS}


def _record(engine: str, name: str, before: str | None, by_model: dict[str, float], rows: pd.DataFrame) -> SmallLaunch:
    values = np.array(list(by_model.values()))
    rest = [float(np.median(np.delete(values, i))) for i in range(len(values))] if len(values) > 1 else values.tolist()
    least = MIN_LAUNCH_S if name == "launch_per_layer_s" else 0.0
    return SmallLaunch(
        engine=engine,
        before_version=before,
        name=name,
        value_s=max(float(np.median(values)), least),
        low_s=max(min(rest), least),
        high_s=max([*rest, least]),
        n_points=len(rows),
        models=tuple(by_model),
        source=SOURCE,
    )


def _with_records(rows: pd.DataFrame, records: Sequence[SmallLaunch]) -> pd.DataFrame:
    """`rows` with the constants of their versions by `records`."""

    def value(row: pd.Series, name: str, otherwise: float) -> float:
        record = small_launch(str(row["engine"]), name, str(row["version"]), tuple(records))
        return otherwise if record is None else record.value_s

    launch = [value(row, "launch_per_layer_s", PRIOR_LAUNCH_S) for _, row in rows.iterrows()]
    return _moved(rows, np.array(launch), np.array([value(row, "query_key_norm_s", 0.0) for _, row in rows.iterrows()]))


def _moved(rows: pd.DataFrame, launch_s: np.ndarray, norm_s: np.ndarray) -> pd.DataFrame:
    """`rows` with other small launches: they stand in the plain step once, whatever the batch."""
    layers, normed = rows["n_layers"], rows["normed_layers"]
    charged_s = laws.launches(rows["launch_per_layer_s"], layers) + laws.norms(rows["query_key_norm_s"], normed)
    more_s = laws.launches(launch_s, layers) + laws.norms(norm_s, normed) - charged_s
    times = {name: rows[name] + more_s for name in ("predicted_s", "step_s", "predicted_end_to_end_s")}
    return rows.assign(**times, launch_per_layer_s=launch_s, query_key_norm_s=norm_s)


def _is_since(version: str, first: str) -> bool:
    """Nightly builds and versions that are not stated count as today's."""
    return not version[:1].isdigit() or version_key(version) >= version_key(first)


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
