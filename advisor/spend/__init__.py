"""What a token costs in money and energy: prices, an estimate of power by regime, or a measured log of it."""

from __future__ import annotations

from advisor.spend.power import MeasuredPower
from advisor.spend.price import Price, no_price, price_of
from advisor.spend.speed import drawn_times, own_log_sd, token_time_s
from advisor.spend.token import Spend, spend_at
from advisor.spend.words import digits, does_not_fit, figure, power_text, spend_document, spend_text

__all__ = [
    "MeasuredPower",
    "Price",
    "Spend",
    "digits",
    "does_not_fit",
    "drawn_times",
    "figure",
    "no_price",
    "own_log_sd",
    "power_text",
    "price_of",
    "spend_at",
    "spend_document",
    "spend_text",
    "token_time_s",
]
