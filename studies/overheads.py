"""`python -m studies.overheads`: fits the overheads on the shipped rows and writes their records.

`--small-launches` fits the launches that no kernel table holds: what measured plain decode takes
beyond its kernels, divided by the layers that run them, judged with each model's points left out
(docs/decisions/history.md (0013)).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.engines import Engine, class_today, engine_ids, engines
from advisor.catalog.fit_records import (
    ANY_CLASS,
    OVERHEAD_NAMES,
    OVERHEADS_FILE,
    RECORDS,
    FitParameter,
    HeldOutFit,
    OverheadFit,
    OverheadRecord,
    costs_by,
)
from advisor.catalog.kernel_choice import SmallLaunch, version_key
from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.physics import laws
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.load import with_costs
from studies.fits.held_out import (
    COMMON_SHARE,
    held_out_fits,
)
from studies.fits.overheads import (
    PRIOR,
    PRIOR_LOG_SD,
    OverheadModel,
    Overheads,
    fit_overheads,
    prior_overheads,
)
from studies.fits.records import write_overheads, write_small_launches
from studies.published import COLLECTION_FILES, PublishedPoint, fitted_rows, points_of, seen_by
from studies.validation.plain import believed, plain_decode

FORM = (
    "speedup = AL (A + cl L + pf) / (V + D + cl (L + L_draft K') + cd K' + cr + kappa (q - 1) "
    "V_attn + phi b q / (1 + phi b q) max(q A - V - (q - 1) F, 0) + .03 A max(log2(B q / 8), 0) "
    "+ AL pf), host 0.3 ms in both arms; cl, cd, cr, kappa per engine class, phi one for all; "
    "lognormal prior 10 us, 0.3 ms, 0.4 ms (synchronous engines 2.4 ms, 5/8 of it on one GPU), "
    "0.5 (workstation parts, and kept where one laboratory has the class; else no kappa), 3e-4, "
    "each within a factor of 2 at 80 %; an offset and a drift over batch per laboratory; host "
    "times of vLLM and TensorRT-LLM on data-centre parts about a mean of their own"
)
_FIXED_POINT = 1e-3
"""Rounds of the fit end when no constant moves by more: the time of verified tokens depends on
steps whose launches are fitted too. [-]"""
_MAX_ROUNDS = 20


def fit_to_the_end() -> None:
    """Fit in rounds, each on the constants of the last, and write the records once they stand."""
    prior = _prior_fit()
    (points, refused) = points_of(fitted_rows(), other_models=True)
    points = [_seen_by(point, prior) for point in points]
    # A row weighs by its tier under the prior, so that it does not weigh by what was fitted on it.
    points = [replace(point, tier=str(point.curve().tier[0, 0])) for point in points]
    before = np.zeros(1)
    for _ in range(_MAX_ROUNDS):
        model = fit_overheads(points, COMMON_SHARE, classes_today())
        points = [
            _seen_by(point, prior.model_copy(update={"records": _records(model)}))
            for point in points
        ]
        now = np.array(
            [value for name in sorted(model.by_class) for value in model.by_class[name].values]
        )
        if now.shape == before.shape and np.allclose(now, before, rtol=_FIXED_POINT):
            break
        before = now
    write_overheads(*build_fit(points, refused))


def _seen_by(point: PublishedPoint, fit: OverheadFit) -> PublishedPoint:
    """The point as its scenario is predicted with the constants of a fit, and the law of its own
    class."""
    hardware = point.setup.hardware
    own = point.setup.costs.host_one_gpu_share
    today = class_today(point.scenario.engine, hardware.vendor, hardware.generation)
    return seen_by(
        point, with_costs(point.setup, **costs_by(fit, today) | {"host_one_gpu_share": own})
    )


def build_fit(
    points: Sequence[PublishedPoint], refused: Mapping[str, int]
) -> tuple[OverheadFit, tuple[HeldOutFit, ...]]:
    """Fit on all rows that may choose something and that the model can express, and without each
    laboratory."""
    model = fit_overheads(points, COMMON_SHARE, classes_today())
    models = held_out_fits(points)
    fit = OverheadFit(
        records=_records(model),
        sources=tuple(sorted(models)),
        form=FORM,
        data_sha256=rows_hash(),
        kernel_fits_sha256=kernel_fits_hash(),
        dropped=dict(sorted(refused.items())),
    )
    return fit, tuple(
        HeldOutFit(
            laboratory=name,
            records=_records(each, model.by_class),
        )
        for name, each in sorted(models.items())
    )


def rows_hash() -> str:
    """SHA-256 over the files with the rows."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in COLLECTION_FILES)).hexdigest()


def kernel_fits_hash(folder: Path = RECORDS) -> str:
    """SHA-256 over the kernel fit records, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.json")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _prior_fit() -> OverheadFit:
    """What is known before any speedup: the priors, for every class that a scenario may be of."""
    records = tuple(_record(name, prior_overheads(name)) for name in (ANY_CLASS, *classes_today()))
    nothing = {
        "sources": (),
        "form": FORM,
        "data_sha256": "",
        "kernel_fits_sha256": "",
    }
    return OverheadFit.model_validate({"records": records, **nothing})


def classes_today() -> tuple[str, ...]:
    """Every class that a scenario may be of: today's release of each engine on each accelerator."""
    parts = [load_hardware(name) for name in hardware_ids()]
    found = {
        class_today(engine, part.vendor, part.generation)
        for engine in engine_ids()
        for part in parts
    }
    return tuple(sorted(found))


def _records(model: OverheadModel, also: Iterable[str] = ()) -> tuple[OverheadRecord, ...]:
    # Without rows: launches as plain decode has them, and the prior of the rest.
    every = {name: model.of_new_class(name) for name in (*classes_today(), *also)} | model.by_class
    return tuple(_record(name, overheads) for name, overheads in sorted(every.items()))


def _record(name: str, overheads: Overheads) -> OverheadRecord:
    sds = np.sqrt(np.diag(overheads.log_covariance))
    parameters = {
        parameter: FitParameter(
            value=value, unit="s" if parameter.endswith("_s") else "1", stderr=float(value * sd)
        )
        for parameter, value, sd in zip(OVERHEAD_NAMES, overheads.values, sds, strict=True)
    }
    if name == ANY_CLASS:
        message = (
            "engines without rows of their own; with classes fitted each alone this is the prior"
        )
    elif not overheads.n_sources:
        message = "no rows: the prior, with the launches that plain decode shows"
    elif overheads.n_sources < 2:
        message = "seen in one laboratory only: keeps the prior's width"
    else:
        named = zip(OVERHEAD_NAMES, overheads.values, sds, strict=True)
        moved = [name for name, value, sd in named if value > 0.0 and sd < 0.8 * PRIOR_LOG_SD]
        message = (
            f"the rows narrow {', '.join(moved)}" if moved else "the rows hardly narrow the prior"
        )
    covariance = tuple(tuple(float(x) for x in row) for row in overheads.log_covariance)
    return OverheadRecord(
        engine_class=name,
        parameters=parameters,
        log_covariance=covariance,
        n_rows=overheads.n_rows,
        n_sources=overheads.n_sources,
        message=message,
    )


PRIOR_LAUNCH_S = PRIOR[0]
"""Launch overhead of a layer where nothing says otherwise (docs/model.md). [s]"""
MAX_BATCH = 32
"""Larger batches hide launches behind kernels, and errors of these outweigh them. [-]"""
MIN_LAUNCH_S = 2e-6
"""Least launch overhead of a layer: two kernels that no table has, its norms, about 1 us each in a
graph (assumed). The fit of TensorRT-LLM comes to rest on it: its measured kernels add up to the
measured step, or a little more. [s]"""
MIN_POINTS = 4
LAUNCH = "launch_per_layer_s"
NORM = "query_key_norm_s"
LEAST_S = {LAUNCH: MIN_LAUNCH_S, NORM: 0.0}
ASSUMED_S = {LAUNCH: PRIOR_LAUNCH_S, NORM: 0.0}
"""What is assumed of each before any model: norms are then among the launches. [s]"""
SOURCE = "plain decode of the measured-kernel package (silicon_sample.csv), batches up to 32"


def without(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `plain_decode` predicted with no constant that was chosen on them."""
    return _moved(rows, np.full(len(rows), PRIOR_LAUNCH_S), np.zeros(len(rows)))


def held_out_rows(rows: pd.DataFrame, families: bool = False) -> pd.DataFrame:
    """Rows predicted with constants fitted without the points of their own model, or its family.
    Versions count apart.

    A family is what a model's id begins with: all Qwen models are one.
    """
    held = rows["model_id"].str.extract("^([a-z]+)", expand=False) if families else rows["model_id"]
    parts = [
        _with_records(own, fitted(rows[held != name]))
        for name, own in rows.groupby(held, sort=False)
    ]
    return pd.concat(parts).sort_index()


def fitted(rows: pd.DataFrame) -> list[SmallLaunch]:
    """Records of every engine and version that the points tell apart: median of the models'
    medians."""
    bare = believed(without(rows))
    bare = bare[bare["served_batch"] <= MAX_BATCH]
    apart = {engine.id: engine for engine in engines() if engine.norms_apart_before is not None}
    # Engines with one constant for every layer: TensorRT-LLM fuses the norms; SGLang launches more
    # than those apart, and models left out are met better by one constant for all its layers than
    # by one for norms.
    whole = bare[~bare["engine"].isin(apart)]
    found = []
    for engine, group in whole.groupby("engine"):
        missing = _missing(group, "n_layers")
        launches = {model: each + PRIOR_LAUNCH_S for model, each in missing.items()}
        found += (
            [_launch_record({"engine": str(engine), "name": LAUNCH}, launches)] if launches else []
        )
    for engine, rows_of_it in bare[bare["normed_layers"] > 0].groupby("engine"):
        found += _norms(apart[str(engine)], rows_of_it) if engine in apart else []
    return found


def _norms(engine: Engine, rows: pd.DataFrame) -> list[SmallLaunch]:
    """Norms of queries and keys on an engine that launches them apart: today's, and before the
    release that changed.

    Where no model was seen on today's kind (it may be the one left out), the engine's other models
    serve.
    """
    first = str(engine.norms_apart_before)
    day = engine.norms_apart_before_date
    is_old = rows["version"].map(lambda version: is_before(str(version), first, day))
    old = _missing(rows[is_old], "normed_layers")
    today = _missing(rows[~is_old], "normed_layers")
    named = {"engine": engine.id, "name": NORM}
    found = [_launch_record(named, today or old)] if today or old else []
    border = {**named, "before_version": first, "before_date": day}
    return found + ([_launch_record(border, old)] if old else [])


def _missing(rows: pd.DataFrame, layers: str) -> dict[str, np.ndarray]:
    """Seconds of a layer beyond the prediction at each point, by model with enough of them."""
    missing = (rows["measured_s"] - rows["predicted_s"]) / rows[layers]
    groups = missing.groupby(rows["model_id"])
    return {str(model): each.to_numpy() for model, each in groups if len(each) >= MIN_POINTS}


def _launch_record(named: Mapping[str, str | None], by_model: dict[str, np.ndarray]) -> SmallLaunch:
    """The median of the models' medians and of what is assumed before any, with the range of it
    with one left out.

    The assumption counts as one model, so that the one or two of another family do not decide
    alone; without it the models speak for themselves, which the range holds.
    """
    name = str(named["name"])
    medians = [*(float(np.median(each)) for each in by_model.values()), ASSUMED_S[name]]
    rest = [np.median(np.delete(medians, index)) for index in range(len(medians))]
    value, low, high = np.maximum([np.median(medians), min(rest), max(rest)], LEAST_S[name])
    return SmallLaunch.model_validate(
        dict(named)
        | {
            "value_s": float(value),
            "low_s": float(min(low, value)),
            "high_s": float(max(high, value)),
        }
        | {
            "n_points": sum(map(len, by_model.values())),
            "models": tuple(by_model),
            "source": SOURCE,
        }
    )


def launch_of(
    engine: str, name: str, version: str, records: Iterable[SmallLaunch]
) -> SmallLaunch | None:
    """The record of an engine and field at a version (empty: today's). None where there is none."""
    of_name = [record for record in records if (record.engine, record.name) == (engine, name)]
    older = [
        record
        for record in of_name
        if record.before_version and is_before(version, record.before_version, record.before_date)
    ]
    if older:
        return min(older, key=lambda record: version_key(str(record.before_version)))
    return next((record for record in of_name if record.before_version is None), None)


def is_before(version: str, release: str, day: str | None = None) -> bool:
    """Whether a build is older than a release, by its number or else by the date that its name
    holds.

    The date is YYYY-MM-DD or eight digits. `day`: when the release came out. A nightly build or a
    fork without a date, and an empty version, count as today's.
    """
    if re.match(r"v?\d+\.\d", version):
        return version_key(version.removeprefix("v")) < version_key(release)
    dated = re.search(r"(?<!\d)(20\d{2})-?([01]\d)-?([0-3]\d)(?!\d)", version)
    return dated is not None and day is not None and "-".join(dated.groups()) < day


def _with_records(rows: pd.DataFrame, records: Sequence[SmallLaunch]) -> pd.DataFrame:
    """`rows` with the constants of their versions by `records`."""

    def value(row: pd.Series, name: str, otherwise: float) -> float:
        record = launch_of(str(row["engine"]), name, str(row["version"]), records)
        return otherwise if record is None else record.value_s

    launch = [value(row, LAUNCH, PRIOR_LAUNCH_S) for _, row in rows.iterrows()]
    return _moved(
        rows, np.array(launch), np.array([value(row, NORM, 0.0) for _, row in rows.iterrows()])
    )


def _moved(rows: pd.DataFrame, launch_s: np.ndarray, norm_s: np.ndarray) -> pd.DataFrame:
    """`rows` with other small launches: they stand in the plain step once, whatever the batch."""
    layers = rows["n_layers"]
    normed = rows["normed_layers"]
    charged_s = laws.launches(rows["launch_per_layer_s"], layers) + laws.norms(
        rows["query_key_norm_s"], normed
    )
    more_s = laws.launches(launch_s, layers) + laws.norms(norm_s, normed) - charged_s
    times = {
        name: rows[name] + more_s for name in ("predicted_s", "step_s", "predicted_end_to_end_s")
    }
    return rows.assign(**times, launch_per_layer_s=launch_s, query_key_norm_s=norm_s)


def main() -> None:
    """Fit on all points and write the file."""
    with open_store(default_store_path()) as opened:
        rows = plain_decode(plain_decode_points(opened))
    found = fitted(rows)
    write_small_launches(found)
    for one in found:
        models = ", ".join(one.models)
        at = f"before {one.before_version}" if one.before_version else "today"
        sys.stdout.write(
            f"{one.engine} {at}: {one.name} {one.value_s * 1e6:.1f} us ({one.n_points} points, "
            f"{models})\n"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--small-launches"]:
        main()
    else:
        fit_to_the_end()
        sys.stdout.write(f"{OVERHEADS_FILE} written\n")
