"""What an output token costs in money and energy, with speculation and without, each with band, tier and origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor import bands, laws
from advisor.arrays import Array
from advisor.curve import Curve
from advisor.prediction import AdvisorError, Prediction, Tier, lowest
from advisor.setup import Setup
from advisor.spend.power import BASIS, MeasuredPower, Regimes, drawn_power_w, power_w, regimes
from advisor.spend.price import Price
from advisor.spend.speed import drawn_times, token_time_s

_SEED = 20261123


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

    None for K = 0, and where one of the two is measured: an estimate's error does not cancel against a measurement.
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

    measured : power of a run at one of the two K, which replaces the estimate there; the other stays estimated.
    own_z : error of absolute times that is this model's alone, as `drawn_times` takes it; None: drawn here. [-]

    Raises AdvisorError for a measurement at another K.
    """
    own_z = np.random.default_rng(_SEED).standard_normal(len(curve.draws)) if own_z is None else own_z
    if measured is not None and measured.n_draft not in (0, int(curve.drafts[column])):
        raise AdvisorError(
            f"the power log ran with K = {measured.n_draft}, and energy is told of K = {curve.drafts[column]} and of "
            "K = 0; measure one of these, or leave the log out"
        )
    # Both arms take the same own_z: what a model's plain time is off by, its rounds are off by too.
    plain = _arm(setup, curve, row, 0, price, measured, own_z)
    if column == 0:
        return Spend(plain[0], plain[0], price, None)
    chosen = _arm(setup, curve, row, column, price, measured, own_z)
    ratio = None
    if measured is None and chosen[0].joules_per_token is not None and plain[0].joules_per_token is not None:
        each = chosen[0].joules_per_token, plain[0].joules_per_token
        tier = lowest([one.tier for one in each])
        ratio = _banded(each[0].value / each[1].value, chosen[1] / plain[1], tier, BASIS)
    return Spend(plain[0], chosen[0], price, ratio)


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
    gpus, batch = setup.placement.gpus, float(curve.batches[row])
    columns = np.full(curve.batches.size, column)
    token_s = drawn_times(setup, curve, columns, own_z).token_s[:, row]
    middle = float(laws.tokens_per_s_per_gpu(batch, token_time_s(curve, gpus)[row, column], gpus))
    rates = np.asarray(laws.tokens_per_s_per_gpu(batch, token_s, gpus))
    tier, why = Tier(curve.tier[row, column]), "the predicted times"
    rate = _banded(middle, rates, tier, why)
    usd = None
    if price is not None:
        value, drawn = (laws.usd_per_million_tokens(price.usd_per_hour, each) for each in (middle, rates))
        usd = _banded(float(value), np.asarray(drawn), tier, f"{why}, at {price.text}")
    shares = _regimes(setup, curve, row, column)
    at_this_k = measured if measured is not None and measured.n_draft == curve.drafts[column] else None
    power = _power(setup, shares, at_this_k, len(rates))
    if power is None:
        return Arm(int(curve.drafts[column]), rate, usd, None, None, shares), np.zeros_like(rates)
    watts, drawn_w = power
    joules = np.asarray(laws.joules_per_token(drawn_w, rates))
    energy = _banded(
        float(laws.joules_per_token(watts.value, middle)), joules, lowest([tier, watts.tier]), watts.because
    )
    return Arm(int(curve.drafts[column]), rate, usd, watts, energy, shares), joules


def _power(
    setup: Setup, shares: Regimes, measured: MeasuredPower | None, n_draws: int
) -> tuple[Prediction, Array] | None:
    """Power of a board and the same under each draw. None where nothing is known of it."""
    if measured is not None:
        watts = np.full(n_draws, measured.mean_w)
        return _banded(measured.mean_w, watts, Tier.MEASURED, measured.because), watts
    board = setup.hardware.board_power_w
    if board is None:
        return None
    drawn = drawn_power_w(board.value, shares, n_draws)
    because = f"{board.value:g} W board ({board.source}); {BASIS}"
    return _banded(power_w(board.value, shares), drawn, Tier.ROOFLINE, because), drawn


def _regimes(setup: Setup, curve: Curve, row: int, column: int) -> Regimes:
    plain, whole = curve.components_at(row, column)
    k = int(curve.drafts[column])
    touched = curve.touched_verify[row, column] if k else curve.touched_plain[row]
    # Prefill is charged by the token: a round pays that of all its tokens.
    tokens = float(curve.accepted_length[column]) if k else 1.0
    prefill_s = tokens * float(np.broadcast_to(curve.prefill_s, curve.batches.shape)[row])
    return regimes(setup, whole if k else plain, float(curve.batches[row]), k + 1.0, float(touched), prefill_s)


def _banded(value: float, draws: Array, tier: Tier, because: str) -> Prediction:
    low, high = bands.band(draws)
    return Prediction(value=value, low=min(float(low), value), high=max(float(high), value), tier=tier, because=because)
