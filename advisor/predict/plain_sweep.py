"""A user's own plain decoding over batches (K = 0): what its times say of steps, and one line of
text for a scenario.

A measured plain step of B (K + 1) sequences has the rows of a verification of K drafts beside B
sequences: it sees kernel switches, queues and hosts that no table of kernels has, before any
drafter exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.physics.notes import Note
from advisor.predict.scenario_fields import SWEEP_FIELDS
from advisor.prediction import AdvisorError, Array

CONTEXT_FACTOR = 2.0
"""Contexts this far apart are another measurement: attention has another share of the step (choice
of this project)."""
LEAST_BATCHES = 3
MOST_BATCHES = 64
STEADY = 0.12
"""Scatter of log(measured / predicted) along a sweep up to which it says more than the model alone.
[-] Published sweeps: docs/decisions/history.md (0026)."""
JUMP = 1.5
"""Measured rise over the predicted one from which the sweep alone is believed: a kernel switch,
which the model does not know and a mean with it would halve (physics; no published steady sweep has
one). [-]"""
MAX_TIME_MS = 1e6
GRAMMAR = f"{'/'.join(name.upper() for name in SWEEP_FIELDS)}/CONTEXT:BATCH=MS,BATCH=MS,..."


@dataclass(frozen=True)
class PlainSweep:
    """Measured plain steps, and the scenario that they are of."""

    of: tuple[str, ...]
    """Values of SWEEP_FIELDS as texts."""
    context_tokens: int
    batches: Array
    """Increasing, [n]. [-]"""
    step_s: Array
    """Time per output token of a sequence, [n]. [s]"""

    @property
    def tokens(self) -> int:
        """Largest batch. [-]"""
        return int(self.batches[-1])


def write_sweep(
    scenario: Mapping[str, Any], batches: Sequence[float], step_s: Sequence[float]
) -> str:
    """One line for `parse_sweep` of times [s] at batches [-]. Raises AdvisorError for too few or
    many."""
    times = ",".join(
        f"{batch:.6g}={1e3 * seconds:.4g}"
        for batch, seconds in sorted(zip(batches, step_s, strict=True))
    )
    text = f"{'/'.join((*_of(scenario), str(scenario['context_tokens'])))}:{times}"
    parse_sweep(text)
    return text


def _of(scenario: Mapping[str, Any]) -> tuple[str, ...]:
    values = ("-" if scenario[name] is None else str(scenario[name]) for name in SWEEP_FIELDS)
    return tuple(value.replace("/", "_").replace(":", "_") for value in values)


@lru_cache(maxsize=64)
def parse_sweep(text: str) -> PlainSweep:
    """Inverse of `write_sweep`. Raises AdvisorError with the grammar, or what is wrong with the
    batches."""
    try:
        head, _, tail = text.strip().partition(":")
        *of, context = head.split("/")
        pairs = np.array(
            [[float(number) for number in pair.split("=")] for pair in tail.split(",")]
        )
        if len(of) != len(SWEEP_FIELDS) or pairs.shape[1:] != (2,) or int(context) < 1:
            raise ValueError
    except ValueError as error:
        raise AdvisorError(f"plain_sweep is no plain sweep; its form is {GRAMMAR}") from error
    batches, times_ms = pairs.T
    if not LEAST_BATCHES <= len(pairs) <= MOST_BATCHES:
        raise AdvisorError(
            f"plain_sweep has {len(pairs)} batches; measure plain decoding (K = 0) at "
            f"{LEAST_BATCHES} to {MOST_BATCHES}"
        )
    if not (
        batches[0] >= 1
        and np.all(np.diff(batches) > 0)
        and np.all((times_ms > 0) & (times_ms <= MAX_TIME_MS))
    ):
        raise AdvisorError(
            "plain_sweep: batches must increase from 1, times lie above 0 and up to "
            f"{MAX_TIME_MS:,.0f} ms"
        )
    return PlainSweep(tuple(of), int(context), batches, times_ms / 1e3)


def not_of(sweep: PlainSweep, scenario: Mapping[str, Any]) -> str:
    """Settings of the sweep that a scenario has otherwise, in words. Empty where the sweep holds
    for it."""
    settings = zip(SWEEP_FIELDS, sweep.of, _of(scenario), strict=True)
    # Any other setting is another step: engine, release, graphs, formats and placement all move it.
    other = [f"{name} {swept}" for name, swept, requested in settings if swept != requested]
    distance = abs(np.log(scenario["context_tokens"] / sweep.context_tokens))
    if distance > np.log(CONTEXT_FACTOR):
        other.append(f"context_tokens {sweep.context_tokens:,}")
    return ", ".join(other)


@dataclass(frozen=True)
class HeldSweep:
    """A sweep beside the model's own plain steps."""

    sweep: PlainSweep
    predicted_s: Array
    """At the sweep's batches, [n]. [s]"""

    @property
    def ratio(self) -> Array:
        """Measured over predicted, [n]. [-]"""
        return np.asarray(self.sweep.step_s / self.predicted_s)

    @property
    def scatter(self) -> float:
        """Median absolute deviation of the log ratio along the sweep. [-]"""
        # The median, so that one batch with a prompt in it does not call a sweep unsteady.
        log = np.log(self.ratio)
        return float(np.median(np.abs(log - np.median(log))))

    @property
    def steady(self) -> bool:
        """Whether the sweep is used."""
        return self.scatter < STEADY

    @property
    def jumps(self) -> tuple[tuple[int, int, float], ...]:
        """Neighbouring batches between which it rises JUMP times as much as predicted: from, to,
        measured rise. [-]"""
        jumps = np.flatnonzero(self.ratio[1:] > JUMP * self.ratio[:-1])
        measured = self.sweep.step_s
        batches = self.sweep.batches
        return tuple(
            (int(batches[i]), int(batches[i + 1]), float(measured[i + 1] / measured[i]))
            for i in jumps
        )

    def ratio_at(self, batch: ArrayLike) -> Array:
        """Measured over predicted at other batches: log linear in log batch, held beyond the ends.
        [-]"""
        places = np.log(self.sweep.batches)
        return np.asarray(
            np.exp(np.interp(np.log(np.asarray(batch, float)), places, np.log(self.ratio)))
        )

    def note_at(self, batch: float | None = None) -> Note:
        """Use that is made of the sweep, and which K run beyond a jump at a batch. [sequences]"""
        first = int(self.sweep.batches[0])
        last = self.sweep.tokens
        if not self.steady:
            return Note.of(
                "sweep_unsteady", first=first, last=last, scatter=self.scatter, most=STEADY
            )
        crossed = [] if batch is None else [max(int(low // batch), 1) for low, *_ in self.jumps]
        off = float(np.median(self.ratio)) - 1.0
        return Note.of(
            "sweep_used",
            first=first,
            last=last,
            slower=off >= 0,
            off=abs(off),
            jumps=self.jumps,
            batch=batch if crossed else None,
            beyond_k=min(crossed, default=None),
        )


def swept(T_verify: Array, T_sweep: Array, rise: Array) -> Array:
    """Factor on the time of a verification of which a plain sweep has a step with as many rows.

    c = sqrt(T_sweep / T_verify), and T_sweep / T_verify where rise > 1.5

    T_verify: the model's, its plain step being as measured. [s]
    T_sweep: measured plain step of B q sequences. [s]
    rise: measured rise from B to B q sequences over the model's. [-]
    Limits: 1 at q = 1. The model reads the cache of B sequences, the sweep of B q; the model lacks
    kernel
      switches and what verified tokens add, which the sweep holds: neither bounds the other.
    Source: docs/decisions/history.md (0026).
    """
    # Else the mean of both: of the forms tried it erred least on laboratories left out (14.7 %,
    # decision 0026).
    return np.where(rise > JUMP, T_sweep / T_verify, np.sqrt(T_sweep / T_verify))


def sweep_factors(
    held: HeldSweep, step_s: Callable[[Array, Array], Array], batch: Array, tokens: Array
) -> tuple[Array, Array]:
    """Factors on the target's plain steps and on verifications, [nB] and [nB, nK]. 1 where the
    sweep is not steady. [-]

    step_s: the model's step of B sequences x q tokens, broadcast. [s]
    batch, tokens: B, [nB], and q, [nK]. [-]
    A round of more tokens than the sweep has keeps the factor of its last batch, so that no K gains
    by leaving it.
    """
    column = batch[:, None]
    if not held.steady:
        return np.ones_like(batch), np.ones((len(batch), len(tokens)))
    # Whole tokens of each sequence up to which the sweep reaches.
    inside = np.clip(tokens, 1.0, np.maximum(held.sweep.tokens // column, 1.0))
    plain = held.ratio_at(column)
    rows = held.ratio_at(column * inside)
    # The plain step is as measured already: only the model's rise from it to the verification is
    # corrected.
    model = plain * step_s(column, inside)
    beside = rows * step_s(column * inside, np.ones(()))
    return plain[:, 0], np.asarray(plain * swept(model, beside, rows / plain))
