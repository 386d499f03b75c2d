"""A GEMM table as the kernels that serving runs: with the launches that its collector timed, and
without them.

TensorRT-LLM's fp8 table times a launch that finds the activations' scale on every call. A
checkpoint with static scales has no such launch, and what it takes is in a table of its own, by
rows and depth. Its nvfp4 table is slower than vLLM's at the same products; why is not measured, so
a stated share of the excess is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from advisor.catalog.kernel_choice import ENDINGS
from studies.fits.tables import require_columns

SCALE_KEYS = ["m", "k"]
LEAST_SHARE_LEFT = 0.25
"""A product takes at least this share of what was timed with its scale launch: two tables timed
apart differ by noise. [-]"""
NVFP4_EXCESS_SHARE = 0.5
"""Share of TensorRT-LLM's nvfp4 time beyond vLLM's at the same product that serving is assumed not
to pay.

No table settles it: none of the package separates the quantisation launch of nvfp4. Norm and
quantisation are fused in front of two of a layer's four products, which gives a half. Against it
speaks that the excess grows with the depth k (0.5 us at 512, 20 us at 16384, one row, B200) as a
launch would not. The spread to the whole table is in the band. [-]
"""


@dataclass(frozen=True)
class GemmVariant:
    """One table as one kernel runs it: m, n, k, latency_s [s] in `frame`, and what was done to
    it."""

    ending: str
    frame: pd.DataFrame
    note: str = ""
    assumed_log_sd: float = 0.0
    """Spread that an assumption about the launches adds. [-]"""
    n_at_floor: int = field(default=0)
    """Rows held at LEAST_SHARE_LEFT of their time."""


def without_scale_launch(frame: pd.DataFrame, scales: pd.DataFrame) -> GemmVariant:
    """The kernel of static scales: each row less the scale launch of its rows and depth.

    `frame` has m, n, k and latency_s [s], `scales` m, k and latency_s; raises AdvisorError where it
    lacks one.
    """
    require_columns(scales, (*SCALE_KEYS, "latency_s"), "activation scale")
    measured = frame["latency_s"].to_numpy()
    launch = scale_seconds(
        scales, frame["m"].to_numpy(dtype=float), frame["k"].to_numpy(dtype=float)
    )
    floor = LEAST_SHARE_LEFT * measured
    note = (
        "less the measured launch that finds the activations' scale "
        f"({np.median(launch) * 1e6:.1f} us)"
    )
    left = np.maximum(measured - launch, floor)
    return GemmVariant(
        "", frame.assign(latency_s=left), note, n_at_floor=int((measured - launch < floor).sum())
    )


def scale_seconds(scales: pd.DataFrame, m: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Time of the scale launch at m rows of depth k, straight in the logarithms, constant beyond
    the table. [s]"""
    grid = np.log(scales.pivot_table(index="m", columns="k", values="latency_s"))
    grid = grid.interpolate(
        axis=0, limit_direction="both"
    )  # the few points that the store refused, as zero seconds
    rows = np.log(grid.index.to_numpy(dtype=float))
    depths = np.log(grid.columns.to_numpy(dtype=float))
    below, share = _between(rows, np.log(m))
    left, across = _between(depths, np.log(k))
    values = grid.to_numpy()
    first = (1 - across) * values[below, left] + across * values[below, left + 1]
    second = (1 - across) * values[below + 1, left] + across * values[below + 1, left + 1]
    return np.asarray(np.exp((1 - share) * first + share * second))


def _between(knots: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the knot below each of `at`, and how far it is to the next. Inside the table."""
    inside = np.clip(at, knots[0], knots[-1])
    below = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
    return below, (inside - knots[below]) / (knots[below + 1] - knots[below])


def without_excess(
    frame: pd.DataFrame, other: pd.DataFrame, share: float, ending: str
) -> GemmVariant:
    """Table less a share of its time beyond another table's at the same product. Rows that `other`
    lacks stay.

    Both have m, n, k and latency_s [s]. The spread between this and the table as it is widens the
    band.
    """
    keys = ["m", "n", "k"]
    beside = (
        frame[keys].merge(other[[*keys, "latency_s"]], on=keys, how="left")["latency_s"].to_numpy()
    )
    measured = frame["latency_s"].to_numpy()
    excess = np.maximum(measured - np.where(np.isnan(beside), measured, beside), 0.0)
    left = measured - share * excess
    log_sd = float(np.sqrt(np.mean(np.log(measured / left) ** 2)))
    note = (
        f"less {share:g} of the time beyond another engine's at the same product: an assumption, "
        "no table settles it"
    )
    return GemmVariant(ending, frame.assign(latency_s=left), note, log_sd)


def gemm_variants(
    frame: pd.DataFrame, engine: str, dtype: str, scales: pd.DataFrame, other: pd.DataFrame
) -> Iterator[GemmVariant]:
    """One table as the kernels that serving may run, the static one first. Most tables are one
    kernel.

    Parameters
    ----------
    frame : m, n, k, latency_s [s], one row per point.
    engine, dtype : whose table it is.
    scales : its scale launches (m, k, latency_s); may be empty.
    other : vLLM's table of the same format; may be empty.
    """
    as_timed = GemmVariant(
        ENDINGS["dynamic"], frame, "as timed, with the launches that quantise the activations"
    )
    if engine == "trtllm" and dtype == "fp8" and len(scales):
        yield without_scale_launch(frame, scales)
        yield as_timed
    elif engine == "trtllm" and dtype == "nvfp4" and len(other):
        yield without_excess(frame, other, NVFP4_EXCESS_SHARE, ENDINGS["static"])
        yield without_excess(frame, other, 1.0, ENDINGS["fused"])
        yield as_timed
    else:
        yield GemmVariant("", frame)
