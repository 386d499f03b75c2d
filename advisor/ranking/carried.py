"""Accepted lengths carried from the text they were measured on to another kind, with the spread of doing so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.acceptance import Acceptance
from advisor.arrays import Array
from advisor.task_transfer import Transfer

_Z80 = 1.2815515655446004  # normal quantile of an 80 % band


def on_task(known: Acceptance, transfer: Transfer) -> Acceptance:
    """`known` on text of the transfer's other kind: its drafted part times the factor, the band wider by its spread.

    A round emits at most K + 1 tokens, and at least the bonus token, whatever the text.
    """
    most = np.arange(known.accepted_length.size) + 1.0
    drafted = known.accepted_length - 1.0
    value = np.minimum(1.0 + drafted * transfer.factor, most)
    spread = _Z80 * transfer.log_sd
    down, up = (np.hypot(_log_ratio(end - 1.0, drafted), spread) for end in (known.low, known.high))
    low = 1.0 + (value - 1.0) * np.exp(-down)
    high = np.minimum(1.0 + (value - 1.0) * np.exp(up), most)
    source = f"{known.source}; carried from {transfer.task_from} to {transfer.task_to}"
    return replace(known, accepted_length=value, low=low, high=np.maximum(high, value), source=source, borrowed=True)


def _log_ratio(end: Array, drafted: Array) -> Array:
    """How far an end of the band lies from the middle, in logarithms of the drafted part; 0 where none is drafted."""
    some = (drafted > 0) & (end > 0)
    return np.where(some, np.abs(np.log(np.where(some, end, 1.0) / np.where(some, drafted, 1.0))), 0.0)


def carried_text(transfer: Transfer) -> str:
    """What was done to a length, and on what evidence."""
    heads = f"{transfer.n_heads} heads of {transfer.n_laboratories} laboratories"
    return (
        f"carried from {transfer.task_from} to {transfer.task_to} text: {transfer.factor:.2f} of the drafted part "
        f"({heads})"
    )
