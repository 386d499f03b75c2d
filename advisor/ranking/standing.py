"""Where each model stands under draws: errors of the machine are shared by all, a model's own are its alone.

Shared: host and launches, links, attention, dense products: one accelerator and one engine run them for every model.
An error of a kernel is shared since one measured table (or data sheet) of the accelerator prices it for all models:
where the table is slow or fast, at other clocks or another version of the engine, it is so for all of them; what
differs by the shape of a model's own matrices is left to the model. A model's own: its experts' kernel at their
shape, its routing, its accepted length, what the components leave unexplained, and that part of an absolute time's
error which the draws of the components do not hold (`spend.own_log_sd`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor import bands
from advisor.arrays import Array
from advisor.curve import curve_for
from advisor.kernel_costs import KernelCosts
from advisor.ranking.search import Placed
from advisor.spend import drawn_times


@dataclass(frozen=True)
class DrawnTimes:
    """A placed model's times under the draws of the board, [draws, loads]. [s]"""

    token_s: Array
    tpot_s: Array
    speedup: Array
    """Of its recommended K at each load. [-]"""


def own_seed(name: str) -> int:
    """A seed of a model's own: the same in every run, another for each model."""
    return zlib.crc32(name.encode())


def board_draws(costs: KernelCosts, name: str) -> bands.Draws:
    """Draws whose errors of the machine are everybody's, and those of the model its own."""
    common, own = bands.make_draws(costs), bands.make_draws(costs, seed=own_seed(name))
    return replace(own, factor={**common.factor, "routed": own.factor["routed"]})


def times_under_draws(placed: Placed) -> DrawnTimes:
    """The placed model's times at its recommended K."""
    setup, name = placed.setup, placed.entrant.name
    grid = placed.curve.batches
    drafts, columns = np.unique(placed.columns, return_inverse=True)
    curve = curve_for(setup, grid, placed.curve.drafts[drafts], draws=board_draws(setup.costs, name))
    own_z = np.random.default_rng(own_seed(name) + 1).standard_normal(len(curve.draws))
    at = np.zeros(grid.size, np.int64)
    at[placed.rows] = columns
    drawn = drawn_times(setup, curve, at, own_z)
    rows = placed.rows
    return DrawnTimes(drawn.token_s[:, rows], drawn.tpot_s[:, rows], curve.draws[:, rows, at[rows]])


def ranks(values: Array) -> NDArray[np.int64]:
    """Rank of each model in each draw, 1 for the least value, from values [draws, models]."""
    order = np.argsort(values, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
    return found


def rank_range(found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last rank of each model's central 80 %, from ranks [draws, models].

    Both are ranks that did occur.
    """
    edge = (1.0 - bands.BAND_LEVEL) / 2.0
    low, high = np.quantile(found, [edge, 1.0 - edge], axis=0, method="nearest")
    return np.asarray(low, np.int64), np.asarray(high, np.int64)
