"""What a token costs in money and energy: prices, an estimate of power by regime, or a measured log of it."""

from __future__ import annotations

from advisor.spend.power import BASIS
from advisor.spend.price import Price, no_price, price_of
from advisor.spend.speed import PLAIN_LOG_SD, drawn_times, token_time_s
from advisor.spend.token import Arm, Spend, spend_at
from advisor.spend.words import figure, origin_texts, spend_document, spend_text

__all__ = [
    "BASIS",
    "PLAIN_LOG_SD",
    "Arm",
    "Price",
    "Spend",
    "drawn_times",
    "figure",
    "no_price",
    "origin_texts",
    "price_of",
    "spend_at",
    "spend_document",
    "spend_text",
    "token_time_s",
]
