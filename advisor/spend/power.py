"""Power of a board while it decodes: a roofline estimate from its TDP and what the step spends its time on.

No power was measured for this project. What is known are two anchors of an H100 (700 W): 300 W decoding at batch 1 and
600 W at batch 128 [ML.ENERGY], whose models are not stated; and that nodes which serve draw 0.4 to 0.9 of their most,
P5 to P95
[Inference energy]. Time alone does not tell the anchors apart: at both batches nine tenths of a step are reading. The
share drawn while reading therefore grows with the tokens in a pass, by their logarithm, between the anchors, and is
held beyond them; its two ends are solved so that both anchors are met by the reference step. The shares of arithmetic
and of waiting are assumed. A measured log of the run replaces the estimate.

References
----------
[ML.ENERGY] ML.ENERGY Benchmark v3.0 (arXiv:2601.22076), as the power model of vLLM Semantic Router's fleet simulator
    cites it.
[Inference energy] Energy Use of AI Inference: Efficiency Pathways and Test-Time Compute, arXiv:2509.20241.
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
from advisor.prediction import BAND_SIGMAS
from advisor.setup import Setup

ARITHMETIC = 0.90
"""Share of a board's power while matrix units are busy. Assumed: the P95 of nodes that serve [Inference energy]. [-]"""
WAITING = 0.20
"""The same while the device waits for host or links. Assumed: between an idle board and the anchor at batch 1. [-]"""
READING = (0.451, 0.878)
"""The same while memory is read, in a pass of few tokens and of many: solved from the two anchors at the reference step
(Llama 3.1 8B in bf16 on an H100, 2,048 tokens of context), given ARITHMETIC and WAITING. [-]"""
READING_TOKENS = (1.0, 128.0)
"""Tokens of a pass in one attention group at which READING holds: the anchors' batches. [-]"""
POWER_LOG_SD = math.log(0.9 / 0.4) / (2.0 * 1.645)
"""Error of the estimate, as a standard deviation of its logarithm. Assumed to be what nodes that serve scatter by: 0.4
to 0.9 of their most from P5 to P95 [Inference energy], which is 1.645 standard deviations to each side. [-]"""
WAITING_LOG_SD = math.log(2.0) / BAND_SIGMAS
"""The same of the share while waiting. Assumed: a factor of 2 to each side of an 80 % band. [-]"""
BASIS = (
    "not measured: TDP times 0.45-0.88 reading (solved from an H100's 300 and 600 W, arXiv:2601.22076), 0.90 computing "
    "and 0.20 waiting (assumed, as is the band); boards alone"
)
_SEED = 20261122


@dataclass(frozen=True)
class MeasuredPower:
    """Power of one GPU while a run worked, as its user measured it."""

    mean_w: float
    text: str
    """Where it is from."""
    n_draft: int
    """Draft length that ran, 0 for none; its power is that of no other. [-]"""

    @property
    def because(self) -> str:
        """Origin of the power, and the draft length it is taken to be of."""
        return f"{self.text}; taken to have run with K = {self.n_draft}"


@dataclass(frozen=True)
class Regimes:
    """Shares of the time of a step or round. What is neither waits for host and links. [-]"""

    arithmetic: float
    reading: float
    tokens: float
    """Of a pass in one attention group, which the power of reading goes by. [-]"""

    @property
    def waiting(self) -> float:
        """Share in which the device stands still. [-]"""
        return 1.0 - self.arithmetic - self.reading

    @property
    def text(self) -> str:
        """Shares in words, `78% reading, 4% arithmetic, 18% waiting`."""
        return f"{self.reading:.0%} reading, {self.arithmetic:.0%} arithmetic, {self.waiting:.0%} waiting"


def regimes(
    setup: Setup,
    components: Mapping[str, float],
    batch: float,
    tokens_per_sequence: float,
    touched: float,
    prefill_s: float = 0.0,
) -> Regimes:
    """Regimes of a pass over `batch` sequences of `tokens_per_sequence` tokens each.

    components : its time by component. [s]
    batch : sequences of the instance. [-]
    tokens_per_sequence : tokens of each in the pass. [-]
    touched : distinct routed experts that it touches in a layer, U. [-]
    prefill_s : time of prompts that its tokens pay for. [s]

    A product's time is shared between arithmetic and reading as a roofline has them, x to 1, with x its rows over those
    at which both take as long. The cache, drafting and corrections count as reading, prefill as arithmetic: a chunk of
    a prompt has more rows than it takes to keep the matrix units busy.
    """
    total = sum(components.values()) + prefill_s
    arithmetic, reading = prefill_s, 0.0
    for key, time_s in components.items():
        if BY_KEY[key].bound == "device":
            busy = _arithmetic_share(setup, key, batch * tokens_per_sequence, touched)
            arithmetic += busy * time_s
            reading += (1.0 - busy) * time_s
    tokens = batch * tokens_per_sequence / setup.placement.attention_groups
    return Regimes(arithmetic / total, reading / total, tokens)


def _arithmetic_share(setup: Setup, key: str, n_tokens: float, touched: float) -> float:
    """Part of a component's time in arithmetic. [-]"""
    component = BY_KEY[key]
    record = None if component.drafter else getattr(setup.costs, component.priced_by[0])
    # The cache, drafting and corrections have no rows to hold against a ridge: their time counts as reading.
    if not isinstance(record, GemmCost | MoeCost):
        return 0.0
    moe = setup.architecture.moe
    if isinstance(record, MoeCost) and moe is not None:
        rows = float(laws.rows_per_expert(n_tokens, float(moe.n_active), max(touched, 1.0)))
    else:
        rows = n_tokens / setup.placement.attention_groups
    # Two operations for each weight and row, over the bytes of a weight.
    intensity = 2.0 * rows / BYTES_PER_WEIGHT[_stored(setup, key)]
    x = intensity / float(laws.ridge(record.flops_per_s, record.bandwidth_bytes_per_s))
    return x / (1.0 + x)


def _stored(setup: Setup, key: str) -> WeightDtype:
    """Format of the weights that a component multiplies by. The router's is never quantised."""
    if key == "router":
        return "bf16"
    part = {"attention_projection": "attention", "lm_head": "embedding"}.get(key, key)
    dtype: WeightDtype = getattr(setup.architecture.dtypes, part)
    return dtype


def power_w(board_w: float, shares: Regimes) -> float:
    """Power of one board at the middle fractions: `laws.board_power`. [W]"""
    return float(laws.board_power(board_w, shares.arithmetic, shares.reading, ARITHMETIC, _reading(shares), WAITING))


def drawn_power_w(board_w: float, shares: Regimes, n_draws: int) -> Array:
    """Power of one board under each draw, [draws], never above the board's: `laws.board_power`. [W]

    One error moves all regimes: clocks, voltage and temperature are the board's in each of them.
    """
    z = np.random.default_rng(_SEED).standard_normal(n_draws)
    # One error for all regimes of work: clocks and voltage belong to the board, not to a kernel.
    works, waits = np.exp(POWER_LOG_SD * z), np.exp(WAITING_LOG_SD * z)
    fractions = ARITHMETIC * works, _reading(shares) * works, WAITING * waits
    drawn = laws.board_power(board_w, shares.arithmetic, shares.reading, *fractions)
    # A board throttles at its limit: no state lies above it.
    return np.asarray(np.minimum(drawn, board_w))


def _reading(shares: Regimes) -> float:
    """Share of the board's power while it reads, between the anchors by the logarithm of the tokens. [-]"""
    # Two anchors carry no curve: straight between them, held beyond.
    return float(np.interp(math.log(shares.tokens), np.log(READING_TOKENS), READING))
