"""Power of a board while it decodes: a roofline estimate from its TDP and what the step spends its time on.

No power was measured for this project. What is known are two anchors of an H100 (700 W): 300 W decoding at batch 1 and
600 W at batch 128 [1]; and nodes that serve draw 0.4 to 0.9 of their most, P5 to P95 [2]. A measured log of the run
replaces the estimate.

References
----------
[1] ML.ENERGY Benchmark v3.0 (arXiv:2601.22076), as the power model of vLLM Semantic Router's fleet simulator cites it.
[2] Energy Use of AI Inference: Efficiency Pathways and Test-Time Compute, arXiv:2509.20241.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from advisor import laws
from advisor.architecture import BYTES_PER_WEIGHT, WeightDtype
from advisor.arrays import Array
from advisor.components import BY_KEY
from advisor.kernel_costs import GemmCost, MoeCost
from advisor.setup import Setup

Fraction = tuple[float, float, float]
"""(low, middle, high) of the share of a board's power, 80 %. [1]"""
READING: Fraction = (0.40, 0.61, 0.90)
"""While memory is read: the range of nodes that serve [2]; between, the geometric mean of the two anchors."""
ARITHMETIC: Fraction = (0.70, 0.86, 1.00)
"""While matrix units are busy: the anchor at batch 128, up to all that the board may draw; the lower end is assumed."""
WAITING: Fraction = (0.10, 0.20, 0.43)
"""While the device waits for host or links: assumed, at most as much as at batch 1."""
BASIS = (
    "not measured: TDP times 0.40-0.90 reading, 0.70-1.00 computing, 0.10-0.43 waiting (ML.ENERGY v3.0, "
    "arXiv:2509.20241); boards alone"
)
_SIGMAS = 1.2815515655446004  # standard normal quantile of 0.9
_SEED = 20261122


@dataclass(frozen=True)
class MeasuredPower:
    """Power of one GPU while a run worked, as its user measured it."""

    mean_w: float
    text: str
    """Where it is from."""
    k_draft: int
    """Draft length that ran, 0 for none; its power is that of no other. [1]"""

    @property
    def because(self) -> str:
        """Where it is from, and what it is taken to be of."""
        return f"{self.text}; taken to have run with K = {self.k_draft}"


@dataclass(frozen=True)
class Regimes:
    """Shares of the time of a step or round; what is neither waits for host and links. [1]"""

    arithmetic: float
    reading: float

    @property
    def waiting(self) -> float:
        """Share in which the device stands still. [1]"""
        return 1.0 - self.arithmetic - self.reading

    @property
    def text(self) -> str:
        """`78% reading, 4% arithmetic, 18% waiting`."""
        return f"{self.reading:.0%} reading, {self.arithmetic:.0%} arithmetic, {self.waiting:.0%} waiting"


def regimes(
    setup: Setup, components: Mapping[str, float], batch: float, tokens_per_sequence: float, distinct: float
) -> Regimes:
    """Regimes of a pass over `batch` sequences of `tokens_per_sequence` tokens each.

    components : its time by component. [s]
    distinct : distinct routed experts that it touches in a layer, U. [1]

    A product's time is shared between arithmetic and reading as a roofline has them, x to 1, with x its rows over those
    at which both take as long. The cache, drafting and corrections count as reading.
    """
    total = sum(components.values())
    arithmetic = reading = 0.0
    for key, time_s in components.items():
        if BY_KEY[key].bound == "device":
            busy = _arithmetic_share(setup, key, batch * tokens_per_sequence, distinct)
            arithmetic += busy * time_s
            reading += (1.0 - busy) * time_s
    return Regimes(arithmetic / total, reading / total)


def _arithmetic_share(setup: Setup, key: str, n_tokens: float, distinct: float) -> float:
    """Part of a component's time in arithmetic. [1]"""
    component = BY_KEY[key]
    record = None if component.drafter else getattr(setup.costs, component.priced_by[0])
    if not isinstance(record, GemmCost | MoeCost):
        return 0.0
    moe = setup.architecture.moe
    if isinstance(record, MoeCost) and moe is not None:
        rows = float(laws.rows_per_expert(n_tokens, float(moe.n_active), max(distinct, 1.0)))
    else:
        rows = n_tokens / setup.placement.attention_groups
    # Two operations for each weight and row, over the bytes of a weight.
    intensity = 2.0 * rows / BYTES_PER_WEIGHT[_stored(setup, key)]
    x = intensity / float(laws.ridge(record.flops_per_s, record.bandwidth_bytes_per_s))
    return x / (1.0 + x)


def _stored(setup: Setup, key: str) -> WeightDtype:
    """Format of the weights that a component multiplies by; the router's is never quantised."""
    if key == "router":
        return "bf16"
    part = {"attention_projection": "attention", "lm_head": "embedding"}.get(key, key)
    dtype: WeightDtype = getattr(setup.architecture.dtypes, part)
    return dtype


def drawn_power_w(board_w: float, shares: Regimes, n_draws: int) -> Array:
    """Power of one board under each draw of the fractions, [draws]; the same draws for every pass. [W]

    One error moves all three: clocks, voltage and temperature are the board's in every regime.
    """
    z = np.random.default_rng(_SEED).standard_normal(n_draws)
    f_c, f_m, f_w = (_split(fraction, z) for fraction in (ARITHMETIC, READING, WAITING))
    return np.asarray(laws.board_power(board_w, shares.arithmetic, shares.reading, f_c, f_m, f_w))


def power_w(board_w: float, shares: Regimes) -> float:
    """Power of one board at the middle fractions. [W]"""
    return float(laws.board_power(board_w, shares.arithmetic, shares.reading, ARITHMETIC[1], READING[1], WAITING[1]))


def _split(fraction: Fraction, z: Array) -> Array:
    """A split lognormal through (low, middle, high), at most all of the board's power."""
    low, middle, high = fraction
    spread = np.where(z > 0, math.log(high / middle) / _SIGMAS, math.log(middle / low) / _SIGMAS)
    return np.asarray(np.minimum(middle * np.exp(spread * z), 1.0))
