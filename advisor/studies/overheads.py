"""`python -m advisor.studies.overheads`: fits the overheads on the shipped rows and writes their records."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from advisor.calibration import (
    OVERHEAD_NAMES,
    OVERHEADS_FILE,
    RECORDS,
    FitParameter,
    OverheadFit,
    OverheadRecord,
    ResidualRecord,
    write_overheads,
)
from advisor.catalog import engine_ids
from advisor.points import ANY_CLASS, PRIOR_LOG_SD, ROWS, Overheads, Point, fit_overheads, points_of, published_rows
from advisor.validation import COMMON_SHARE, Width, predictions_left_out, widths_by_tier

SHARES_TRIED = (0.0, 0.25, 0.5, 0.75, 1.0)
FORM = (
    "speedup = AL (A + cl L + pf) / (V + D + cl (L + L_draft K') + cd K' + cr + AL pf), host 0.3 ms in both arms; "
    "cl, cd, cr per engine class, lognormal prior 10 us, 0.3 ms, 0.4 ms (2 ms for synchronous engines), each within a "
    "factor of 3 at 80 %"
)


def build_fit() -> OverheadFit:
    """Fit on all shipped rows that the model can express, residuals on sources left out."""
    points, refused = points_of(published_rows(), other_models=True)
    model = fit_overheads(points, COMMON_SHARE)
    widths = widths_by_tier(points)
    # Today's engines have a record each: without rows, launches as plain decode has them and the prior of the rest.
    every = {name: model.unseen(name) for name in engine_ids()} | model.by_class
    return OverheadFit(
        records=tuple(_record(name, overheads) for name, overheads in sorted(every.items())),
        residuals=tuple(_residual(tier, width, points) for tier, width in widths.items()),
        sources=tuple(sorted({point.source for point in points})),
        form=FORM,
        data_sha256=hashlib.sha256(ROWS.read_bytes()).hexdigest(),
        kernel_fits_sha256=kernel_fits_hash(),
        dropped=dict(sorted(refused.items())),
        held_out_error={f"common share {share:g}": _error_by_source(points, share) for share in SHARES_TRIED},
    )


def kernel_fits_hash(folder: Path = RECORDS) -> str:
    """SHA-256 over the kernel fit records, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.json")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _record(name: str, overheads: Overheads) -> OverheadRecord:
    sds = np.sqrt(np.diag(overheads.log_covariance))
    parameters = {
        parameter: FitParameter(value=value, unit="s", stderr=float(value * sd))
        for parameter, value, sd in zip(OVERHEAD_NAMES, overheads.values_s, sds, strict=True)
    }
    if name == ANY_CLASS:
        message = "engines without rows of their own; with classes fitted each alone this is the prior"
    elif not overheads.n_sources:
        message = "no rows: the prior, with the launches that plain decode shows"
    elif overheads.n_sources < 2:
        message = "seen in one source only: keeps the prior's width"
    else:
        moved = [n for n, sd in zip(OVERHEAD_NAMES, sds, strict=True) if sd < 0.8 * PRIOR_LOG_SD]
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


def _residual(tier: str, width: Width, points: Sequence[Point]) -> ResidualRecord:
    judged = [point for point in points if (point.tier == "roofline") == (tier == "roofline")]
    return ResidualRecord(
        tier=tier,
        log_sd=width.log_sd,
        share=width.share,
        n_rows=len(judged),
        n_sources=len({point.source for point in judged}),
    )


def _error_by_source(points: Sequence[Point], share: float) -> float:
    error = np.abs(predictions_left_out(points, share) / np.array([p.measured for p in points]) - 1.0)
    sources = np.array([point.source for point in points])
    return float(np.mean([error[sources == source].mean() for source in np.unique(sources)]))


if __name__ == "__main__":
    OVERHEADS_FILE.unlink(missing_ok=True)  # the fit starts from the prior, whatever an older file holds
    write_overheads(build_fit())
    sys.stdout.write(f"{OVERHEADS_FILE} written\n")
