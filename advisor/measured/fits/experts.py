"""Fit of `laws.routed_layers` to the rows of a table of expert kernels, with the experts that they touched.

Linear in non-negative coefficients but for c(m), a piecewise-linear factor in log rows per touched expert that all
shapes of a table share. Forms tried: docs/decisions/0002-moe-kernel-form.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.fit_records import BYTES_PER_WEIGHT
from advisor.measured.fits.solver import SERIES, LinearFit, fit_relative, held_out, touched_under_power_law
from advisor.physics import laws
from advisor.physics.step import expert_work

if TYPE_CHECKING:
    import pandas as pd

FORM = "moe-additive-curve"
MOE_KEYS = ["num_tokens", *SERIES]
SHAPE = ["hidden_size", "inter_size", "topk", "num_experts"]
KNOTS = np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512], dtype=float)
MIN_ROWS_PER_KNOT = 8
ROUNDS = 3
UNKNOWN_LOG_SD = 0.25
"""Least band of a table with one or two shapes, where little can be held out: the worst tables' held-out spread."""
TWO_MATRIX_SHAPES = frozenset(
    {(2688, 1856, 6, 128), (1024, 2688, 22, 512), (2048, 5120, 22, 512), (4096, 2688, 22, 512), (8192, 5120, 22, 512)}
)
"""Nemotron-3 experts (up, squared ReLU, down). Some engines run them gated in the measurement, some do not."""


@dataclass(frozen=True)
class MoeFit:
    """Coefficients (order of PARAMETERS) and the log correction at KNOTS that have data."""

    linear: LinearFit
    knots: np.ndarray
    log_factor: np.ndarray

    def predict(self, columns: np.ndarray, rows_per_expert: np.ndarray) -> np.ndarray:
        """Seconds, [rows]."""
        return (columns @ self.linear.coefficients) * np.exp(self.correction(rows_per_expert))

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Knots of c(m) as a FitRecord holds them."""
        return tuple((float(m), float(np.exp(f))) for m, f in zip(self.knots, self.log_factor, strict=True))

    def correction(self, rows_per_expert: np.ndarray) -> np.ndarray:
        """Correction log c(m), held constant beyond the outer knots. [-]"""
        if not self.knots.size:
            return np.zeros(len(rows_per_expert))
        return np.interp(np.log(rows_per_expert), np.log(self.knots), self.log_factor)


def add_touched(frame: pd.DataFrame) -> pd.DataFrame:
    """Table with columns touched and routed_rows, from how each row's load was generated."""
    keys = ["num_tokens", "num_experts", "topk", "distribution", "moe_ep_size"]
    points = frame[keys].drop_duplicates()
    loads = [
        touched_under_power_law(int(m), int(n), int(k), str(d), int(ep))
        for m, n, k, d, ep in points.itertuples(index=False)
    ]
    points = points.assign(touched=[load.touched for load in loads], routed_rows=[load.routed_rows for load in loads])
    return frame.merge(points, on=keys, how="left")


def fit_moe(
    columns: np.ndarray, measured: np.ndarray, rows_per_expert: np.ndarray, low: np.ndarray | None = None
) -> MoeFit:
    """Alternate the linear fit, its coefficients at least `low`, and the correction curve. All times in seconds."""
    log_factor = np.zeros(len(measured))
    knots, values = np.array([]), np.array([])
    nearest = np.abs(np.log(rows_per_expert)[:, None] - np.log(KNOTS)[None, :]).argmin(axis=1)
    # A knot with few rows would follow their noise; between its neighbours the curve is interpolated.
    filled = [i for i in range(len(KNOTS)) if (nearest == i).sum() >= MIN_ROWS_PER_KNOT]
    # c(m) multiplies the linear terms, so the two cannot be columns of one linear fit: each is fitted at the other.
    for _ in range(ROUNDS):
        linear = fit_relative(columns, measured * np.exp(-log_factor), low)
        log_ratio = np.log(measured / (columns @ linear.coefficients))
        knots, values = KNOTS[filled], np.array([np.median(log_ratio[nearest == i]) for i in filled])
        log_factor = MoeFit(linear, knots, values).correction(rows_per_expert)
    return MoeFit(linear, knots, values)


def leave_one_shape_out(
    columns: np.ndarray, measured: np.ndarray, rows: np.ndarray, shape: np.ndarray, low: np.ndarray | None = None
) -> np.ndarray:
    """Each row predicted by a fit (coefficients and curve) that saw no row of its shape. NaN with a single shape."""

    def predict(seen: np.ndarray, held: np.ndarray) -> np.ndarray:
        return fit_moe(columns[seen], measured[seen], rows[seen], low).predict(columns[held], rows[held])

    return held_out(shape, predict)


def two_matrices(frame: pd.DataFrame) -> np.ndarray:
    """Mask of the rows whose shape is one of TWO_MATRIX_SHAPES, [rows]."""
    return np.array([shape in TWO_MATRIX_SHAPES for shape in frame[SHAPE].itertuples(index=False, name=None)], bool)


def frame_work(frame: pd.DataFrame, dtype: str, ungated: bool) -> dict[str, Any]:
    """Arguments of `laws.routed_layers` but for the costs, from a table with touched and routed_rows."""
    get = {name: frame[name].to_numpy(dtype=float) for name in MOE_KEYS if name != "distribution"}
    touched, rows = frame["touched"].to_numpy(), frame["routed_rows"].to_numpy()
    work = expert_work(
        tokens=get["num_tokens"],
        n_active=rows / get["num_tokens"],  # of the measured rank, so that the rows are those it was given
        rows_per_expert=np.asarray(laws.rows_per_expert(rows, 1.0, touched)),
        touched=touched,
        h=get["hidden_size"],
        I=get["inter_size"] / get["moe_tp_size"],
        n_mat=np.where(two_matrices(frame) & ungated, 2.0, 3.0),
        bytes_per_weight=BYTES_PER_WEIGHT[dtype],
    )
    return {**work, "N": get["num_experts"] / get["moe_ep_size"]}
