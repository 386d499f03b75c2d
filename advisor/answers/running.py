"""A running server beside the answer for its load: what a change of K would gain, and which flags
change.

Decides nothing of its own: K is the answer's (`outcome`), the gain that of the same curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.best_k import KRange
from advisor.answers.by_batch import static_ranges
from advisor.answers.engines.config import DRAFT_MODEL_PLACEHOLDER, FlagCheck, check_line
from advisor.answers.engines.export import export_scenario, needs_draft_model
from advisor.answers.flags import Flags, holds
from advisor.answers.outcome import FLAGS as ANSWER_FLAGS
from advisor.catalog.engines import load_engine
from advisor.measured.server import ServerReading
from advisor.physics.bands import band

WORTH_IT = 0.02
"""A gain below this is no reason to restart a server. Own choice. [-]"""


@dataclass(frozen=True)
class Running:
    """Facts of a running server beside its answer. None is unknown."""

    engine: str
    """Name of the engine as readers know it, with its release where that is known."""
    url: str
    k_now: int
    """K that it runs. [tokens]"""
    k: int
    """K of the answer at its load; 0: without speculation. [tokens]"""
    batch: int
    """Load that the answer is of. [sequences]"""
    running: float | None
    """Requests that decode, mean of the scrapes. [-]"""
    engines: int
    """Engines or ranks whose counts are summed. [-]"""
    tok_per_s: float | None
    """Output of all requests. [tokens/s]"""
    tpot_ms: float | None
    """Time per output token, requests over rate. [ms]"""
    predicted_ms: float
    """Time per output token of `k_now` at `batch`, predicted. [ms]"""
    at_load: bool
    """Whether `batch` is what runs, and not another that was typed."""
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
    small: bool
    """Whether `k` gains too little over `k_now` to restart for."""
    largest: int
    """Largest batch that fits in memory. [sequences]"""
    limit_ms: float | None
    """Limit on the time per output token. [ms]"""
    fastest_ms: float
    """Least time per output token of all K at `batch`. [ms]"""
    any_in_limit: bool
    """Whether some K keeps the limit at `batch`."""

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)


FACTS = frozenset(field.name for field in fields(Running))
_ANSWER: Flags = {
    **{name: ANSWER_FLAGS[name] for name in ("fits", "nothing_fits", "all_over_limit")},
    "same": ("k", "==", "k_now"),
    "off": ("k", "==", 0),
    "small": ("small", "==", True),
    "no_gain": ("gain", "<", 0.0005),
}
FLAGS: Flags = {
    **_ANSWER,
    "loaded": ("running", "known", None),
    "several": ("engines", ">", 1),
    "at_load": ("at_load", "==", True),
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
    load = reading.load
    tpot_s = load.running / load.tok_per_s if load.running and load.tok_per_s else 0.0
    keeps_limit = {row.n_draft for row in advice.drafts if row.meets_limit}
    name = load_engine(reading.engine).name
    server: dict[str, Any] = {
        "engine": f"{name} {reading.version or ''}".strip(),
        "url": reading.url,
        "running": load.running,
        "engines": load.engines,
        "tok_per_s": load.tok_per_s,
        "seconds": reading.seconds,
    }
    gains = {"gain": ratio, "low": min(float(low), ratio), "high": max(float(high), ratio)}
    length: dict[str, Any] = {
        "length": 1.0 + float(np.cumprod(reading.rates.conditional).sum()),
        "length_k": len(reading.rates.conditional),
        "rounds": reading.rates.n_drafts,
        **{name: factor - 1.0 for name, factor in gains.items()},
    }
    limits: dict[str, Any] = {
        "small": k != reading.k and ratio - 1.0 < WORTH_IT and reading.k in keeps_limit,
        "largest": advice.setup.memory.largest_batch,
        "limit_ms": advice.scenario.max_tpot_ms,
        "fastest_ms": min(row.tpot_s for row in advice.drafts) * 1e3,
        "any_in_limit": bool(keeps_limit),
    }
    return Running(
        **server,
        **length,
        **limits,
        k_now=reading.k,
        k=k,
        batch=advice.scenario.batch_size,
        tpot_ms=tpot_s * 1e3 or None,
        at_load=round(load.running or 0.0) == advice.scenario.batch_size,
        predicted_ms=float(curve.tpot_s[row, now]) * 1e3,
    )


def flag_changes(advice: Advice, reading: ServerReading, record: Running) -> tuple[FlagCheck, ...]:
    """Flags in which a launch of the answer differs from one of the K that runs. Empty for the same
    K throughout, and where the answer is to change nothing, or there is none.

    `wanted` is empty for a flag to leave out.
    """
    facts = record.facts
    if record.small or holds(FLAGS, "all_over_limit", facts) or not holds(FLAGS, "fits", facts):
        return ()
    last = advice.to_serve[-1].batch_end
    now = _launch_line(advice, static_ranges(advice.values, reading.k, last), reading)
    then = _launch_line(advice, advice.to_serve, reading)
    return tuple(check for check in check_line(now, then) if check.verdict != "same")


def _launch_line(advice: Advice, ranges: Sequence[KRange], reading: ServerReading) -> str:
    has_head = needs_draft_model(advice.setup, reading.engine)
    head = reading.settings.get("speculative_draft_model_path", DRAFT_MODEL_PLACEHOLDER)
    return export_scenario(
        advice.setup, ranges, reading.engine, draft_model=str(head) if has_head else None
    ).launch_line
