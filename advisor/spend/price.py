"""What an hour of a GPU costs: as the user says, else as the accelerator's profile has it, with source and date."""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.hardware import Hardware
from advisor.prediction import AdvisorError

_DEAREST = 10_000.0
"""More than any accelerator is let for; a slip of the keyboard. [USD/h]"""


@dataclass(frozen=True)
class Price:
    """The price of one GPU, and where it is from."""

    usd_per_hour: float
    origin: str
    known_as: str = "as given"
    """The origin in a word or two, for a line of an answer."""

    @property
    def text(self) -> str:
        """Price with its whole origin, `3.5 USD per GPU-hour (one-year reserved price ..., 2026-02-01)`."""
        return f"{self.usd_per_hour:g} USD per GPU-hour ({self.origin})"

    @property
    def short(self) -> str:
        """Price with its origin in a word, `3.5 USD per GPU-hour (assumed: one-year reserved price ...)`."""
        return f"{self.usd_per_hour:g} USD per GPU-hour ({self.known_as})"


def price_of(hardware: Hardware, own_usd_per_hour: float | None = None) -> Price | None:
    """The user's price, else the profile's. None where neither is known.

    Raises AdvisorError for a price that is none.
    """
    # A user knows what they pay; the profile's price is a market's.
    if own_usd_per_hour is not None:
        if not (math.isfinite(own_usd_per_hour) and 0 < own_usd_per_hour <= _DEAREST):
            raise AdvisorError(
                f"a price of {own_usd_per_hour:g} USD per GPU-hour is none; give more than 0, up to {_DEAREST:,.0f}"
            )
        return Price(own_usd_per_hour, "as given")
    known = hardware.price_usd_per_hour
    if known is None:
        return None
    note = f"; {known.note}" if known.note else ""
    source = known.source[:1].lower() + known.source[1:]
    origin = f"{source}; {known.date.isoformat()}, {known.confidence} confidence{note}"
    return Price(known.value, origin, f"{known.kind}: {source.partition(';')[0]}")


def no_price(hardware: Hardware) -> AdvisorError:
    """Error to raise where money is asked for and no price is known."""
    return AdvisorError(
        f"no price is known for {hardware.name}; give --usd-per-hour (USD of one GPU for an hour), or rank by another "
        "figure"
    )
