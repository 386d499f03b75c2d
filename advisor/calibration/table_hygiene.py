"""What a measured table must satisfy before it is fitted or shipped: no spikes, no times that fall with size.

A step of more tokens never takes less than one of fewer must: engines can pad to it. So each time is lowered to the
least of those at more tokens, and that of a message to the least of larger ones. On plain decode that changes little
(0.1 points of the median error); without it a bump at one token count, or an all-reduce that changes its algorithm,
makes the recommended draft length jump (steps of 8 GPUs on B200 fell by up to 14 % with batch or K, now by 2.5 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SERIES = [
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
]
"""Rows that agree in these differ in tokens alone."""
SPIKE = 1.5
"""A time this much above both its neighbours in tokens, where times rise, is an outlier of the measurement. [-]"""
SEEN_LOWERING = 1.03
"""Rows lowered by less lie within the repeats' scatter and are not counted. [-]"""
NOISY_SHARE = 0.10
"""A table with a larger share of counted rows is called noisy. [-]"""


def without_spikes(frame: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Table without spikes, and how many rows those were.

    A spike lies beyond SPIKE times both neighbours in num_tokens.
    """
    ordered = frame.sort_values([*SERIES, "num_tokens"])
    times = ordered.groupby(SERIES, sort=False, dropna=False, observed=True)["latency_s"]
    beside = np.maximum(times.shift(1), times.shift(-1))  # missing at the ends, which have one neighbour
    spike = (ordered["latency_s"] > SPIKE * beside).to_numpy()
    return ordered[~spike].sort_index(), int(spike.sum())


def monotone(frame: pd.DataFrame, by: str = "num_tokens", series: Sequence[str] = SERIES) -> pd.DataFrame:
    """Table with every latency_s lowered to the least at as many or more of `by`.

    Among rows that agree in `series` (none: all rows); column `lowered` says whether that was by more than
    SEEN_LOWERING.
    """
    ordered = frame.sort_values([*series, by], ascending=False)
    times = ordered["latency_s"]
    if series:
        times_of = times.groupby([ordered[name] for name in series], sort=False, dropna=False, observed=True)
        least = times_of.cummin()
    else:
        least = times.cummin()
    return ordered.assign(latency_s=least, lowered=times > SEEN_LOWERING * least).sort_index()
