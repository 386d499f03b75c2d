"""`python -m advisor.studies.overheads`: fits the overheads on the shipped rows and writes their records."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from advisor.calibration import (
    OVERHEAD_NAMES,
    OVERHEADS_FILE,
    RECORDS,
    FitParameter,
    HeldOutFit,
    OverheadFit,
    OverheadRecord,
    ResidualRecord,
    class_costs,
    write_overheads,
)
from advisor.catalog import class_today, engine_ids
from advisor.hardware import hardware_ids, load_hardware
from advisor.points import (
    ANY_CLASS,
    COLLECTION_FILES,
    PRIOR_LOG_SD,
    OverheadModel,
    Overheads,
    Point,
    fit_overheads,
    fitted_rows,
    laboratory_or_title,
    points_of,
    prior_overheads,
    with_costs,
)
from advisor.validation import (
    COMMON_SHARE,
    HeldOutDraw,
    held_out_draws,
    held_out_fits,
    held_out_predictions,
    residuals_of,
)

SHARES_TRIED = (0.0, 0.25, 0.5, 0.75, 1.0)
FORM = (
    "speedup = AL (A + cl L + pf) / (V + D + cl (L + L_draft K') + cd K' + cr + kappa (q - 1) V_attn + "
    "phi b / (1 + phi b) max(q A - V - (q - 1) F, 0) + AL pf), host 0.3 ms in both arms; cl, cd, cr, kappa per engine "
    "class, phi one for all; lognormal prior 10 us, 0.3 ms, 0.4 ms (2 ms for synchronous engines), 0.5 "
    "(workstation parts, else "
    "no kappa), 2e-3, each within a factor of 2 at 80 %; an offset and a drift over batch per laboratory"
)
_FIXED_POINT = 1e-3
"""Rounds of the fit end when no constant moves by more: the time of verified tokens depends on steps whose launches
are fitted too. [-]"""
_MAX_ROUNDS = 20


def fit_to_the_end() -> None:
    """Fit in rounds, each on the constants of the last, and write the records once they stand."""
    write_overheads(_prior_fit())
    points, refused = points_of(fitted_rows(), other_models=True)
    before = np.zeros(1)
    for _ in range(_MAX_ROUNDS):
        model = fit_overheads(points, COMMON_SHARE)
        write_overheads(_prior_fit().model_copy(update={"records": _records(model)}))
        points = [_with_todays_costs(point) for point in points]
        now = np.array([value for name in sorted(model.by_class) for value in model.by_class[name].values])
        if now.shape == before.shape and np.allclose(now, before, rtol=_FIXED_POINT):
            break
        before = now
    write_overheads(*build_fit(points, refused))


def _with_todays_costs(point: Point) -> Point:
    """The point as its scenario predicts it with the constants written last."""
    hardware = point.setup.hardware
    today = class_today(point.scenario.engine, hardware.vendor, hardware.generation)
    return point.seen_by(with_costs(point.setup, **class_costs(today)))


def build_fit(points: Sequence[Point], refused: Mapping[str, int]) -> tuple[OverheadFit, tuple[HeldOutFit, ...]]:
    """Fit on all rows that may choose something and that the model can express. Residuals on laboratories left out."""
    model, models = fit_overheads(points, COMMON_SHARE), held_out_fits(points)
    drawn = held_out_draws(points, models)
    fit = OverheadFit(
        records=_records(model),
        residuals=_residuals(residuals_of(drawn), drawn),
        sources=tuple(sorted(models)),
        form=FORM,
        data_sha256=rows_hash(),
        kernel_fits_sha256=kernel_fits_hash(),
        dropped=dict(sorted(refused.items())),
        held_out_error={f"common share {share:g}": _error_by_laboratory(points, share) for share in SHARES_TRIED},
    )
    return fit, tuple(
        HeldOutFit(
            laboratory=name,
            records=_records(each, model.by_class),
            residuals=_residuals(residuals_of(drawn, name), drawn, name),
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
    nothing = {"residuals": (), "sources": (), "form": FORM, "data_sha256": "", "kernel_fits_sha256": ""}
    return OverheadFit.model_validate({"records": records, **nothing})


def classes_today() -> tuple[str, ...]:
    """Every class that a scenario may be of: today's release of each engine on each accelerator."""
    parts = [load_hardware(name) for name in hardware_ids()]
    found = {class_today(engine, part.vendor, part.generation) for engine in engine_ids() for part in parts}
    return tuple(sorted(found))


def _records(model: OverheadModel, also: Iterable[str] = ()) -> tuple[OverheadRecord, ...]:
    # Without rows: launches as plain decode has them, and the prior of the rest.
    every = {name: model.of_new_class(name) for name in (*classes_today(), *also)} | model.by_class
    return tuple(_record(name, overheads) for name, overheads in sorted(every.items()))


def _record(name: str, overheads: Overheads) -> OverheadRecord:
    sds = np.sqrt(np.diag(overheads.log_covariance))
    parameters = {
        parameter: FitParameter(value=value, unit="s" if parameter.endswith("_s") else "1", stderr=float(value * sd))
        for parameter, value, sd in zip(OVERHEAD_NAMES, overheads.values, sds, strict=True)
    }
    if name == ANY_CLASS:
        message = "engines without rows of their own; with classes fitted each alone this is the prior"
    elif not overheads.n_sources:
        message = "no rows: the prior, with the launches that plain decode shows"
    elif overheads.n_sources < 2:
        message = "seen in one laboratory only: keeps the prior's width"
    else:
        named = zip(OVERHEAD_NAMES, overheads.values, sds, strict=True)
        moved = [name for name, value, sd in named if value > 0.0 and sd < 0.8 * PRIOR_LOG_SD]
        message = f"the rows narrow {', '.join(moved)}" if moved else "the rows hardly narrow the prior"
    covariance = tuple(tuple(float(x) for x in row) for row in overheads.log_covariance)
    return OverheadRecord(
        engine_class=name,
        parameters=parameters,
        log_covariance=covariance,
        n_rows=overheads.n_rows,
        n_sources=overheads.n_sources,
        message=message,
    )


def _residuals(
    found: Mapping[tuple[str, bool], float], drawn: Sequence[HeldOutDraw], without: str = ""
) -> tuple[ResidualRecord, ...]:
    out = []
    for (tier, workstation), log_sd in found.items():
        judged = [
            one.laboratory
            for one in drawn
            if (one.tier, one.workstation) == (tier, workstation) and one.laboratory != without
        ]
        sizes = {"n_rows": len(judged), "n_sources": len(set(judged))}
        out.append(ResidualRecord(tier=tier, workstation=workstation, log_sd=log_sd, **sizes))
    return tuple(out)


def _error_by_laboratory(points: Sequence[Point], share: float) -> float:
    error = np.abs(held_out_predictions(points, share) / np.array([p.measured for p in points]) - 1.0)
    names = np.array([laboratory_or_title(point.source) for point in points])
    return float(np.mean([error[names == name].mean() for name in np.unique(names)]))


if __name__ == "__main__":
    fit_to_the_end()
    sys.stdout.write(f"{OVERHEADS_FILE} written\n")
