"""Measured quantities in the one form that every fit here works on, and what the model predicts for them.

A speedup, a step time or a time per token is a ratio of two sums of seconds. Each second belongs to a multiplier of
NAMES, which scales the constants behind it, or to none; so the logarithm and its slopes are cheap for any multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from advisor.curve import Curve
from advisor.setup import Setup

Array = NDArray[np.float64]

COMPONENTS: dict[str, tuple[str, ...]] = {
    "launch": ("launch", "draft_launch"),
    "host": ("host",),
    "draft_host": ("draft_host",),
    "round_host": ("round_host",),
    "routed": ("routed",),
    "attention": ("attention",),
    "dense": ("attention_projection", "router", "shared", "dense", "lm_head"),
    "communication": ("communication",),
    "drafter": ("draft_kernels",),
}
"""Which components of a step each time multiplier scales."""
TIME_NAMES = tuple(COMPONENTS)
NAMES = (*TIME_NAMES, "accepted_length")
"""All multipliers; the last one scales accepted lengths that were borrowed from another run."""
LENGTH = NAMES.index("accepted_length")
_FIXED = len(NAMES)  # column of what no multiplier scales


@dataclass(frozen=True)
class Observations:
    """n measured quantities: log value = log(upper . m) - log(lower . m) + shift + length_share log m_AL.

    `upper` and `lower` [n, len(NAMES) + 1] hold seconds by multiplier m; nothing scales the last column.
    """

    line: NDArray[np.int_]
    """Which row of its file each was measured in."""
    quantity: tuple[str, ...]
    """speedup [1], or seconds of step_time_s, tpot_s, verify_time_s or draft_time_s."""
    measured: Array
    upper: Array
    lower: Array
    shift: Array
    """Logarithm of the accepted length, or minus it for a time per token; 0 for other times."""
    length_share: Array
    """1 or -1 where that length was borrowed, so that its multiplier counts; else 0."""

    @property
    def log_measured(self) -> Array:
        """Log of each value [n]."""
        return np.log(self.measured)

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Those that are `chosen` [n]."""
        quantity = tuple(name for name, kept in zip(self.quantity, chosen, strict=True) if kept)
        arrays = {item.name: getattr(self, item.name)[chosen] for item in fields(self) if item.name != "quantity"}
        return type(self)(quantity=quantity, **arrays)

    def depend_on(self) -> NDArray[np.bool_]:
        """Multipliers that any of the values depends on [names]."""
        used = np.asarray((self.upper[:, :_FIXED] > 0).any(axis=0) | (self.lower[:, :_FIXED] > 0).any(axis=0))
        used[LENGTH] |= bool((self.length_share != 0).any())
        return used


_NONE = Observations(
    np.zeros(0, int), (), np.zeros(0), np.zeros((0, _FIXED + 1)), np.zeros((0, _FIXED + 1)), np.zeros(0), np.zeros(0)
)


def joined(parts: Iterable[Observations]) -> Observations:
    """All of several, one after the other."""
    given = (_NONE, *parts)
    arrays = {
        item.name: np.concatenate([getattr(part, item.name) for part in given])
        for item in fields(Observations)
        if item.name != "quantity"
    }
    return Observations(quantity=tuple(name for part in given for name in part.quantity), **arrays)


def log_predicted(observed: Observations, theta: Array) -> Array:
    """Log of each quantity [n] at log multipliers `theta`: [names], or [n, names] for one set each."""
    m = _multipliers(theta)
    ratio = np.log((observed.upper * m).sum(axis=-1)) - np.log((observed.lower * m).sum(axis=-1))
    return np.asarray(ratio + observed.shift + observed.length_share * theta[..., LENGTH])


def log_slopes(observed: Observations, theta: Array) -> Array:
    """Derivative of `log_predicted` by each log multiplier [n, names]."""
    m = _multipliers(theta)
    upper, lower = observed.upper * m, observed.lower * m
    slopes = upper / upper.sum(axis=-1, keepdims=True) - lower / lower.sum(axis=-1, keepdims=True)
    slopes = slopes[:, :_FIXED]
    slopes[:, LENGTH] += observed.length_share
    return np.asarray(slopes)


def _multipliers(theta: Array) -> Array:
    return np.concatenate([np.exp(theta), np.ones((*np.shape(theta)[:-1], 1))], axis=-1)


@dataclass(frozen=True)
class Seconds:
    """What the model predicts for one row: seconds by multiplier [len(NAMES) + 1], and its accepted length."""

    plain: Array
    """A plain step."""
    whole: Array
    """A whole round."""
    prefill: float
    """Prefill charged to one output token. [s]"""
    length: float
    """Tokens per round; 1 without speculation. [1]"""
    borrowed: bool
    """Whether that length was measured in another run."""


def observe(line: int, row: Mapping[str, Any], predicted: Seconds, *, drafts: bool) -> Observations:
    """What a row measures; `drafts`: the row speculates.

    A speedup that was computed from a baseline row already holds the row's own time, so that counts once.
    """
    whole = predicted.whole if drafts else predicted.plain
    share, shift = float(predicted.borrowed), math.log(predicted.length)
    charged, round_charged, one = predicted.plain.copy(), whole.copy(), np.zeros(_FIXED + 1)
    one[_FIXED] = 1.0
    charged[_FIXED] += predicted.prefill
    round_charged[LENGTH if predicted.borrowed else _FIXED] += predicted.length * predicted.prefill
    derived, found = str(row.get("derived") or ""), []

    def add(name: str, upper: Array, lower: Array = one, shift: float = 0.0, share: float = 0.0) -> None:
        value = np.array([number(row, name)], float)
        found.append(
            Observations(
                np.array([line]), (name,), value, upper[None], lower[None], np.array([shift]), np.array([share])
            )
        )

    if drafts and number(row, "speedup"):
        add("speedup", charged, round_charged, shift, share)
        if "speedup" in derived:
            return found[0]
    # A step time that was computed from a time per token says nothing that the latter does not.
    if number(row, "step_time_s") and not ("step_time_s" in derived and number(row, "tpot_s")):
        add("step_time_s", whole)
    elif number(row, "tpot_s"):
        add("tpot_s", round_charged, one, -shift, -share)
    if number(row, "verify_time_s"):
        add("verify_time_s", _verify_only(predicted))
    if drafts and number(row, "draft_time_s") and whole[TIME_NAMES.index("drafter")] > 0:
        add("draft_time_s", _draft_only(predicted))
    return joined(found)


def number(row: Mapping[str, Any], name: str) -> float | None:
    """A cell as a finite number; None for an empty one."""
    value = row.get(name)
    if value is None or value == "":
        return None
    found = float(value)
    return found if math.isfinite(found) else None


_LAUNCH = TIME_NAMES.index("launch")
_DRAFTING = [TIME_NAMES.index("drafter"), TIME_NAMES.index("draft_host")]
_SCHEDULING = [TIME_NAMES.index("round_host"), TIME_NAMES.index("host")]


def _verify_only(predicted: Seconds) -> Array:
    """The verification pass of a round: a timed forward pass holds neither drafting nor the host's scheduling."""
    out = predicted.whole.copy()
    out[[*_DRAFTING, *_SCHEDULING]] = 0.0
    out[_LAUNCH] = predicted.plain[_LAUNCH]
    return out


def _draft_only(predicted: Seconds) -> Array:
    """All draft passes of a round."""
    out = np.zeros_like(predicted.whole)
    out[_DRAFTING] = predicted.whole[_DRAFTING]
    out[_LAUNCH] = predicted.whole[_LAUNCH] - predicted.plain[_LAUNCH]
    return out


def time_columns(setup: Setup, curve: Curve) -> tuple[Array, Array]:
    """Seconds of a plain step and of a round by multiplier, [nB, len(NAMES) + 1] each, for a curve with one K."""
    parts = {name: time[:, 0] for name, time in curve.round_components.items()}
    launched_s = setup.costs.launch_per_layer_s * _draft_layers(setup, int(curve.drafts[0]))
    parts |= {
        "draft_launch": np.full(len(curve.batches), launched_s),
        "draft_kernels": np.maximum(parts.pop("draft") - launched_s, 0.0),
    }
    return _grouped(curve.plain_components, len(curve.batches)), _grouped(parts, len(curve.batches))


def _draft_layers(setup: Setup, n_draft: int) -> int:
    """Layers launched over all drafting passes of one round. [1]"""
    if setup.draft_architecture is None or n_draft == 0:
        return 0
    passes = 1 if setup.drafter.kind == "parallel" else n_draft
    return passes * sum(mixer.count for mixer in setup.draft_architecture.mixers)


def _grouped(parts: Mapping[str, Array], n: int) -> Array:
    out = np.zeros((n, len(NAMES) + 1))
    for column, names in enumerate(COMPONENTS.values()):
        for name in names:
            if name in parts:
                out[:, column] += parts[name]
    return out
