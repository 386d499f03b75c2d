"""Money and energy of a token in sentences, and as JSON."""

from __future__ import annotations

from typing import Any

from advisor.hardware import Hardware
from advisor.prediction import Prediction, Tier
from advisor.setup import Setup
from advisor.spend.token import Arm, Spend
from advisor.text import counted


def spend_text(spend: Spend, hardware: Hardware) -> str:
    """Money and energy in one line, and what to give where one of them cannot be told."""
    return f"{_money(spend, hardware)} {_energy(spend, hardware)}"


def does_not_fit(setup: Setup) -> str:
    """Sentence on a batch that does not fit in memory, of which no spending is told. Empty where it fits."""
    batch, largest = setup.scenario.batch_size, setup.memory.largest_batch
    if batch <= largest:
        return ""
    most = f"at most {counted(largest, 'sequence')} do" if largest else "not even one sequence does"
    return f"Cost and energy are not told: batch {batch:,} does not fit in memory, {most}."


def power_text(spend: Spend) -> str:
    """Sentence on where the power is from. Empty where none is known."""
    watts, plain = spend.chosen.power_w, spend.plain.power_w
    if watts is None:
        return "" if plain is None else f"Power without speculation: {plain.because}."
    if plain is None or plain.tier is watts.tier:
        return f"Power: {watts.because}."
    return f"Power: {watts.because}. Without speculation: {plain.because}."


def _money(spend: Spend, hardware: Hardware) -> str:
    usd, plain = spend.chosen.usd_per_million, spend.plain.usd_per_million
    if usd is None or plain is None or spend.price is None:
        return f"Cost is not told: no price is known for {hardware.name}; give --usd-per-hour."
    without = "" if spend.chosen is spend.plain else f", {figure(plain)} without speculation"
    return f"Cost {figure(usd)} USD per million output tokens{without}, at {spend.price.short}."


def _energy(spend: Spend, hardware: Hardware) -> str:
    joules, watts = spend.chosen.joules_per_token, spend.chosen.power_w
    if joules is None or watts is None:
        return f"Energy is not told: the power of {hardware.name} is not known; give a measured --power-log."
    ratio = "" if spend.joules_ratio is None else f", {figure(spend.joules_ratio)} times plain decoding's"
    told = f"Energy {figure(joules)} J per output token{ratio}, {_at(spend.chosen, watts)}"
    plain, plain_w = spend.plain.joules_per_token, spend.plain.power_w
    if plain is None or plain_w is None or plain_w.tier is watts.tier:
        return f"{told}."
    return f"{told}; {figure(plain)} without speculation, {_at(spend.plain, plain_w)}."


def _at(arm: Arm, watts: Prediction) -> str:
    """`at 598 W a GPU, measured, taken to have run with K = 3`."""
    measured = watts.tier is Tier.MEASURED
    how = f"measured, taken to have run with K = {arm.n_draft}" if measured else "a roofline estimate"
    return f"at {watts.value:.0f} W a GPU, {how}"


def figure(value: Prediction) -> str:
    """Figure with its band, `0.522 (0.420-0.728)`."""
    return f"{digits(value.value)} ({digits(value.low)}-{digits(value.high)})"


def digits(value: float) -> str:
    """Two significant digits of a value in any unit [-], more of them above 100."""
    return f"{value:,.0f}" if value >= 100 else f"{float(f'{value:.2g}'):g}" if value < 0.1 else f"{value:#.3g}"


def spend_document(spend: Spend) -> dict[str, Any]:
    """Both arms as JSON: each figure with band, tier and reason. Null where it is not known."""
    return {
        "price_usd_per_gpu_hour": None if spend.price is None else spend.price.usd_per_hour,
        "price_origin": None if spend.price is None else spend.price.origin,
        "plain": _arm(spend.plain),
        "recommended": _arm(spend.chosen),
        "joules_ratio": spend.joules_ratio,
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {
        "n_draft": arm.n_draft,
        "tokens_per_s_per_gpu": arm.tokens_per_s_per_gpu,
        "usd_per_million_tokens": arm.usd_per_million,
        "power_w_per_gpu": arm.power_w,
        "joules_per_token": arm.joules_per_token,
        "share_of_time": {
            "reading": arm.regimes.reading,
            "arithmetic": arm.regimes.arithmetic,
            "waiting": arm.regimes.waiting,
        },
    }
