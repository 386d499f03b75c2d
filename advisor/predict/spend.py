"""What an output token costs in money and energy, with speculation and without, each with band,
tier and origin.

The price of a GPU-hour is the user's, else the profile's. Power of a board while it decodes is a
roofline estimate from its TDP and what the step spends its time on: no power was measured for this
project. What is known are two anchors of an H100 (700 W): 300 W decoding at batch 1 and 600 W at
batch 128 [ML.ENERGY], whose models are not stated; and that nodes which serve draw 0.4 to 0.9 of
their most, P5 to P95 [Inference energy]. Time alone does not tell the anchors apart: at both
batches nine tenths of a step are reading. The share drawn while reading therefore grows with the
tokens in a pass, by their logarithm, between the anchors, and is held beyond them; its two ends are
solved so that both anchors are met by the reference step. The shares of arithmetic and of waiting
are assumed. A measured log of the run replaces the estimate.

References
----------
[ML.ENERGY] ML.ENERGY Benchmark v3.0 (arXiv:2601.22076), as the power model of vLLM Semantic
Router's fleet simulator
    cites it.
[Inference energy] Energy Use of AI Inference: Efficiency Pathways and Test-Time Compute,
    arXiv:2509.20241.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.physics import laws
from advisor.physics.architecture import BYTES_PER_WEIGHT, WeightDtype
from advisor.physics.bands import band
from advisor.physics.components import BY_KEY
from advisor.physics.hardware import Hardware
from advisor.physics.kernel_costs import GemmCost, MoeCost
from advisor.predict.curve import Curve
from advisor.predict.prefill import prefill_shares_s
from advisor.predict.setup import Setup
from advisor.prediction import BAND_SIGMAS, AdvisorError, Array, Prediction, Tier, lowest

MAX_USD_PER_HOUR = 10_000.0
"""More than any accelerator is let for; a slip of the keyboard. [USD/h]"""


@dataclass(frozen=True)
class Price:
    """Price of one GPU for an hour, with its origin."""

    usd_per_hour: float
    origin: str
    known_as: str = "as given"
    """The origin in a word or two, for a line of an answer."""

    @property
    def text(self) -> str:
        """Price with its whole origin, `3.5 USD per
        GPU-hour (one-year reserved price ..., 2026-02-01)`."""
        return f"{self.usd_per_hour:g} USD per GPU-hour ({self.origin})"

    @property
    def short(self) -> str:
        """Price with its origin in a word, `3.5 USD
        per GPU-hour (assumed: one-year reserved price ...)`."""
        return f"{self.usd_per_hour:g} USD per GPU-hour ({self.known_as})"


def price_of(hardware: Hardware, own_usd_per_hour: float | None = None) -> Price | None:
    """Price of a GPU-hour: the user's, else the profile's, else None. Raises AdvisorError outside 0
    to 10,000 USD."""
    # A user knows what they pay; the profile's price is a market's.
    if own_usd_per_hour is not None:
        if not (math.isfinite(own_usd_per_hour) and 0 < own_usd_per_hour <= MAX_USD_PER_HOUR):
            raise AdvisorError(
                f"a price of {own_usd_per_hour:g} USD per GPU-hour is none; give more than 0, up "
                f"to {MAX_USD_PER_HOUR:,.0f}"
            )
        return Price(own_usd_per_hour, "as given")
    listed = hardware.price_usd_per_hour
    if listed is None:
        return None
    note = f"; {listed.note}" if listed.note else ""
    source = listed.source[:1].lower() + listed.source[1:]
    origin = f"{source}; {listed.date.isoformat()}, {listed.confidence} confidence{note}"
    return Price(listed.value, origin, f"{listed.kind}: {source.partition(';')[0]}")


def no_price(hardware: Hardware) -> AdvisorError:
    """Error to raise where money is asked for and no price is known."""
    return AdvisorError(
        f"no price is known for {hardware.name}; give --usd-per-hour (USD of one GPU for an "
        "hour), or rank by another figure"
    )


ARITHMETIC = 0.90
"""Share of a board's power while matrix units are busy. Assumed: the P95 of nodes that serve
[Inference energy]. [-]"""
WAITING = 0.20
"""The same while the device waits for host or links. Assumed: between an idle board and the anchor
at batch 1. [-]"""
READING = (0.451, 0.878)
"""The same while memory is read, in a pass of few tokens and of many: solved from the two anchors
at the reference step (Llama 3.1 8B in bf16 on an H100, 2,048 tokens of context), given ARITHMETIC
and WAITING. [-]"""
READING_TOKENS = (1.0, 128.0)
"""Tokens of a pass in one attention group at which READING holds: the anchors' batches. [-]"""
POWER_LOG_SD = math.log(0.9 / 0.4) / (2.0 * 1.645)
"""Error of the estimate, as a standard deviation of its logarithm. Assumed to be what nodes that
serve scatter by: 0.4 to 0.9 of their most from P5 to P95 [Inference energy], which is 1.645
standard deviations to each side. [-]"""
WAITING_LOG_SD = math.log(2.0) / BAND_SIGMAS
"""The same of the share while waiting. Assumed: a factor of 2 to each side of an 80 % band. [-]"""
BASIS = (
    "not measured: TDP times 0.45-0.88 reading (solved from an H100's 300 and 600 W, "
    "arXiv:2601.22076), 0.90 computing and 0.20 waiting (assumed, as is the band); boards alone"
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
        return (
            f"{self.reading:.0%} reading, {self.arithmetic:.0%} arithmetic, {self.waiting:.0%} "
            "waiting"
        )


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

    A product's time is shared between arithmetic and reading as a roofline has them, x to 1, with x
    its rows over those at which both take as long. The cache, drafting and corrections count as
    reading, prefill as arithmetic: a chunk of a prompt has more rows than it takes to keep the
    matrix units busy.
    """
    total = sum(components.values()) + prefill_s
    arithmetic = prefill_s
    reading = 0.0
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
    # The cache, drafting and corrections have no rows to hold against a ridge: their time counts as
    # reading.
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
    return float(
        laws.board_power(
            board_w, shares.arithmetic, shares.reading, ARITHMETIC, _reading(shares), WAITING
        )
    )


def drawn_power_w(board_w: float, shares: Regimes, n_draws: int) -> Array:
    """Power of one board under one error per draw, [draws], up to the board's: `laws.board_power`.
    [W]"""
    z = np.random.default_rng(_SEED).standard_normal(n_draws)
    # One error for all regimes of work: clocks and voltage belong to the board, not to a kernel.
    works = np.exp(POWER_LOG_SD * z)
    waits = np.exp(WAITING_LOG_SD * z)
    fractions = ARITHMETIC * works, _reading(shares) * works, WAITING * waits
    drawn = laws.board_power(board_w, shares.arithmetic, shares.reading, *fractions)
    # A board throttles at its limit: no state lies above it.
    return np.asarray(np.minimum(drawn, board_w))


def _reading(shares: Regimes) -> float:
    """Share of the board's power while it reads, between the anchors by the logarithm of the
    tokens. [-]"""
    # Two anchors carry no curve: straight between them, held beyond.
    return float(np.interp(math.log(shares.tokens), np.log(READING_TOKENS), READING))


PLAIN_LOG_SD = 0.14
"""Log standard deviation of plain decode times over predicted ones, models against each other. Of
2404 points, each predicted by a fit without its model, 90 % lie within 24.5 % (docs/validation.md,
plain decode): 0.13 by ln 1.245 / 1.645; the logarithms of the ratios themselves scatter by 0.155.
Kept at 0.14, between the two. It is the whole error: draws of the components hold a part of it
(`own_log_sd`). [-]"""


@dataclass(frozen=True)
class DrawnSpeed:
    """Seconds for a token of one sequence under each draw, [draws, nB], or [draws, nB, n] of
    several K."""

    token_s: Array
    """With the prefill of the sequence's own prompt: what throughput, money and energy go by."""
    tpot_s: Array
    """Without it: what its user waits between two tokens."""


def drawn_times(
    setup: Setup, curve: Curve, columns: NDArray[np.int64] | None, own_z: Array | float = 0.0
) -> DrawnSpeed:
    """Times of a curve's batches under its draws.

    Parameters
    ----------
    columns : where the K of each batch stands along the curve's drafts, [nB]; None: all K, [nB,
        nK]. [-]
    own_z : standard normals of the error that is this model's alone, `own_log_sd` wide, [draws] or
        0 for none. [-]
    """
    rows = np.arange(curve.batches.size)
    error = np.exp(
        own_log_sd(curve.plain_draws_s)
        * np.broadcast_to(own_z, curve.plain_draws_s.shape[:1])[:, None]
    )
    prefill, own_prompt = prefill_shares_s(setup, curve.batches)
    plain_s = error * (curve.plain_draws_s + prefill)
    prompt_s = error * own_prompt
    # A speculative token takes the plain one's time over the speedup, draw by draw: errors that
    # both share stay shared.
    if columns is None:
        prompt_s = prompt_s[..., None]
        token_s = plain_s[..., None] / curve.draws
    else:
        token_s = plain_s / curve.draws[:, rows, columns]
    return DrawnSpeed(token_s, token_s - prompt_s)


def own_log_sd(plain_draws_s: Array) -> Array:
    """Log standard deviation of a plain time beyond the scatter of its components' draws, [nB]. [-]

    PLAIN_LOG_SD is the whole error of held-out models, that of their kernels included: only the
    rest is added (own derivation: variances of independent errors add).

    plain_draws_s : plain step under each draw, [draws, nB]. [s]
    """
    # In squares, as independent errors add; the components' draws hold their part of the whole
    # already.
    drawn = np.log(plain_draws_s).std(axis=0)
    return np.sqrt(np.maximum(PLAIN_LOG_SD**2 - np.square(drawn), 0.0))


def token_time_s(curve: Curve, gpus: int) -> Array:
    """Time for a token of one sequence with its own prompt, [nB, nK], by
    `laws.tokens_per_s_per_gpu`. [s]"""
    return np.asarray(curve.batches[:, None] / (curve.tokens_per_s_per_gpu * gpus))


_TOKEN_SEED = 20261123


@dataclass(frozen=True)
class Arm:
    """One way to decode, at one batch."""

    n_draft: int
    tokens_per_s_per_gpu: Prediction
    usd_per_million: Prediction | None
    """None where no price is known."""
    power_w: Prediction | None
    """Of one board; None where neither its TDP nor a measured log is known."""
    joules_per_token: Prediction | None
    regimes: Regimes


@dataclass(frozen=True)
class Spend:
    """Money and energy of a scenario's tokens at one batch."""

    plain: Arm
    chosen: Arm
    """At the K that was asked for; the same as `plain` for K = 0."""
    price: Price | None
    joules_ratio: Prediction | None
    """Energy of a token at the chosen K over that of plain decoding, both under the same draws.

    None for K = 0, and where one of the two is measured: an estimate's error does not cancel
    against a measurement.
    """


def spend_at(
    setup: Setup,
    curve: Curve,
    row: int,
    column: int,
    price: Price | None,
    measured: MeasuredPower | None = None,
    own_z: Array | None = None,
) -> Spend:
    """Money and energy at the curve's batch `row` and the K of its `column`.

    measured : power of a run at one of the two K, which replaces the estimate there; the other
        stays estimated.
    own_z : error of absolute times that is this model's alone, as `drawn_times` takes it; None:
        drawn here. [-]

    Raises AdvisorError for a measurement at another K.
    """
    own_z = (
        np.random.default_rng(_TOKEN_SEED).standard_normal(len(curve.draws))
        if own_z is None
        else own_z
    )
    if measured is not None and measured.n_draft not in (0, int(curve.drafts[column])):
        raise AdvisorError(
            f"the power log ran with K = {measured.n_draft}, and energy is stated for K = "
            f"{curve.drafts[column]} and of K = 0; measure one of these, or leave the log out"
        )
    # Both arms take the same own_z: what a model's plain time is off by, its rounds are off by too.
    plain = _arm(setup, curve, row, 0, price, measured, own_z)
    if column == 0:
        return Spend(plain[0], plain[0], price, None)
    speculative = _arm(setup, curve, row, column, price, measured, own_z)
    ratio = None
    if (
        measured is None
        and speculative[0].joules_per_token is not None
        and plain[0].joules_per_token is not None
    ):
        joules = speculative[0].joules_per_token, plain[0].joules_per_token
        tier = lowest([energy.tier for energy in joules])
        ratio = banded(joules[0].value / joules[1].value, speculative[1] / plain[1], tier, BASIS)
    return Spend(plain[0], speculative[0], price, ratio)


def _arm(
    setup: Setup,
    curve: Curve,
    row: int,
    column: int,
    price: Price | None,
    measured: MeasuredPower | None,
    own_z: Array,
) -> tuple[Arm, Array]:
    """The arm, and its energy under each draw (zeros where none is known) [draws]."""
    gpus = setup.placement.gpus
    batch = float(curve.batches[row])
    columns = np.full(curve.batches.size, column)
    token_s = drawn_times(setup, curve, columns, own_z).token_s[:, row]
    central = float(laws.tokens_per_s_per_gpu(batch, token_time_s(curve, gpus)[row, column], gpus))
    rates = np.asarray(laws.tokens_per_s_per_gpu(batch, token_s, gpus))
    tier = Tier(curve.tier[row, column])
    because = "the predicted times"
    rate = banded(central, rates, tier, because)
    usd = None
    if price is not None:
        value = laws.usd_per_million_tokens(price.usd_per_hour, central)
        drawn = laws.usd_per_million_tokens(price.usd_per_hour, rates)
        usd = banded(float(value), np.asarray(drawn), tier, f"{because}, at {price.text}")
    shares = _regimes(setup, curve, row, column)
    at_this_k = (
        measured if measured is not None and measured.n_draft == curve.drafts[column] else None
    )
    power = _power(setup, shares, at_this_k, len(rates))
    if power is None:
        return Arm(int(curve.drafts[column]), rate, usd, None, None, shares), np.zeros_like(rates)
    watts, drawn_w = power
    joules = np.asarray(laws.joules_per_token(drawn_w, rates))
    energy = banded(
        float(laws.joules_per_token(watts.value, central)),
        joules,
        lowest([tier, watts.tier]),
        watts.because,
    )
    return Arm(int(curve.drafts[column]), rate, usd, watts, energy, shares), joules


def _power(
    setup: Setup, shares: Regimes, measured: MeasuredPower | None, n_draws: int
) -> tuple[Prediction, Array] | None:
    """Power of a board and the same under each draw. None where nothing is known of it."""
    if measured is not None:
        watts = np.full(n_draws, measured.mean_w)
        return banded(measured.mean_w, watts, Tier.MEASURED, measured.because), watts
    tdp = setup.hardware.board_power_w
    if tdp is None:
        return None
    drawn = drawn_power_w(tdp.value, shares, n_draws)
    because = f"{tdp.value:g} W board ({tdp.source}); {BASIS}"
    return banded(power_w(tdp.value, shares), drawn, Tier.ROOFLINE, because), drawn


def _regimes(setup: Setup, curve: Curve, row: int, column: int) -> Regimes:
    plain, of_round = curve.components_at(row, column)
    k = int(curve.drafts[column])
    touched = curve.touched_verify[row, column] if k else curve.touched_plain[row]
    # Prefill is charged by the token: a round pays that of all its tokens.
    tokens = float(curve.accepted_length[column]) if k else 1.0
    prefill_s = tokens * float(np.broadcast_to(curve.prefill_s, curve.batches.shape)[row])
    return regimes(
        setup,
        of_round if k else plain,
        float(curve.batches[row]),
        k + 1.0,
        float(touched),
        prefill_s,
    )


def banded(value: float, draws: Array, tier: Tier, because: str) -> Prediction:
    """A value with the band of its draws [both in any unit], which always holds it. Definition:
    `bands.band`."""
    low, high = band(draws)
    return Prediction(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        tier=tier,
        because=because,
    )
