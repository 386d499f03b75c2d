"""A running server beside the answer for its load: what a change of K would gain, and which flags
change.

Decides nothing of its own: K is the answer's (`outcome`), the gain that of the same curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.best_k import KRange
from advisor.answers.by_batch import static_ranges
from advisor.answers.engines.config import DRAFT_MODEL_PLACEHOLDER, FlagCheck, check_line
from advisor.answers.engines.export import export_scenario, needs_draft_model
from advisor.answers.flags import Flags
from advisor.catalog.engines import load_engine
from advisor.measured.server import ServerReading
from advisor.physics.bands import band

WORTH_IT = 0.02
"""A gain below this is no reason to restart a server. Own choice. [-]"""


@dataclass(frozen=True)
class Running:
    """Facts of a running server beside its answer. None is unknown."""

    engine: str
    """Name of the engine as readers know it."""
    version: str | None
    url: str
    k_now: int
    """K that it runs. [tokens]"""
    k: int
    """K of the answer at its load; 0: without speculation. [tokens]"""
    batch: int
    """Load that the answer is of. [sequences]"""
    running: float
    """Requests that decode, mean of the scrapes. [-]"""
    engines: int
    """Engines or ranks whose counts are summed. [-]"""
    tok_per_s: float | None
    """Output of all requests. [tokens/s]"""
    tpot_ms: float | None
    """Time per output token, requests over rate. [ms]"""
    predicted_ms: float
    """Time per output token of `k_now`, predicted. [ms]"""
    length: float
    """Accepted length at the K that it counts. [tokens]"""
    length_k: int
    rounds: float | None
    """Rounds counted; None where the server does not count them. [-]"""
    seconds: float | None
    """Between the scrapes; None: since the start. [s]"""
    gain: float
    """Speedup of `k` over `k_now`, minus 1. [-]"""
    low: float
    """Low end of the 80 % range of that gain. [-]"""
    high: float

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)


FACTS = frozenset(field.name for field in fields(Running))
FLAGS: Flags = {
    "same": ("k", "==", "k_now"),
    "off": ("k", "==", 0),
    "small": ("gain", "<", WORTH_IT),
    "versioned": ("version", "known", None),
    "several": ("engines", ">", 1),
    "rated": ("tpot_ms", "known", None),
    "counted": ("rounds", "known", None),
    "since_start": ("seconds", "unknown", None),
}


def running_facts(advice: Advice, reading: ServerReading) -> Running:
    """The record of a server and of the answer for its load.

    The curve of `advice` holds the reading's K.
    """
    curve = advice.curve
    k = advice.recommendation.n_draft
    now = curve.column(reading.k)
    then = curve.column(k)
    row = advice.batch_index
    ratio = float(curve.speedup[row, then] / curve.speedup[row, now])
    low, high = band(curve.draws[:, row, then] / curve.draws[:, row, now])
    if k == 0:  # against the baseline the range is that of every speedup (decision 0043)
        low = 1.0 / curve.high[row, now]
        high = 1.0 / curve.low[row, now]
    counted_k = len(reading.rates.conditional)
    tok_per_s = reading.tok_per_s
    return Running(
        engine=load_engine(reading.engine).name,
        version=reading.version,
        url=reading.url,
        k_now=reading.k,
        k=k,
        batch=advice.scenario.batch_size,
        running=reading.running,
        engines=reading.engines,
        tok_per_s=tok_per_s,
        tpot_ms=reading.running / tok_per_s * 1e3 if tok_per_s and reading.running else None,
        predicted_ms=float(curve.tpot_s[row, now]) * 1e3,
        length=1.0 + float(np.cumprod(reading.rates.conditional).sum()),
        length_k=counted_k,
        rounds=reading.rates.n_drafts,
        seconds=reading.seconds,
        gain=ratio - 1.0,
        low=min(float(low), ratio) - 1.0,
        high=max(float(high), ratio) - 1.0,
    )


def flag_changes(advice: Advice, reading: ServerReading) -> tuple[FlagCheck, ...]:
    """Flags in which a launch of the answer differs from one of the K that runs. Empty for the same
    K throughout.

    `wanted` is empty for a flag to leave out.
    """
    last = advice.to_serve[-1].batch_end
    now = _launch_line(advice, static_ranges(advice.values, reading.k, last), reading)
    then = _launch_line(advice, advice.to_serve, reading)
    gone = [check for check in check_line(now, then) if check.verdict == "keep"]
    changed = [check for check in check_line(now, then) if check.verdict in ("change", "set")]
    return (*changed, *gone)


def _launch_line(advice: Advice, ranges: Sequence[KRange], reading: ServerReading) -> str:
    placeholder = (
        DRAFT_MODEL_PLACEHOLDER if needs_draft_model(advice.setup, reading.engine) else None
    )
    settings: Mapping[str, Any] = reading.settings
    head = settings.get("speculative_draft_model_path")
    return export_scenario(
        advice.setup,
        ranges,
        reading.engine,
        draft_model=head if isinstance(head, str) else placeholder,
    ).launch_line
