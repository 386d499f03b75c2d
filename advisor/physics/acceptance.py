"""How much of a draft the target accepts: lengths, probabilities and measured curves, with their
spread.

References
----------
[Leviathan] Leviathan et al., "Fast inference from transformers via speculative decoding",
    arXiv:2211.17192.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from advisor.physics import laws
from advisor.prediction import (
    BAND_SIGMAS,
    AdvisorError,
    Array,
    Confidence,
    Frozen,
    arrays,
    quantiles,
)
from advisor.profiles import PROFILES, read_profile, unknown_id
from advisor.text import number_of

SAME_RUN_LOG_SD = 0.04
"""Spread of an accepted length measured in the run it is used for, as a standard deviation of its
logarithm.

This and the next are what remains between published speculative-decoding points when they are
compared across sources.
"""
BORROWED_LOG_SD = 0.13
"""The same for one taken from another run: another model, drafter or workload."""
MAX_DRAFT = 64
"""Longest draft that accepted lengths are given for. [-]"""
_GRAMMAR = (
    "give `X@K` (2.4@3; of several K 1.8@1,2.6@3), a list of acceptance probabilities "
    "(0.7,0.5,0.4), or a measured curve's id (`python -m advisor presets` lists them)"
)


class AcceptanceCurve(Frozen):
    """Measured accepted length by K: tokens emitted per round, bonus token included."""

    id: str
    model_id: str
    drafter_id: str
    dataset: str
    n_draft: tuple[int, ...] = Field(min_length=1)
    accepted_length: tuple[float, ...] = Field(min_length=1)
    confidence: Confidence
    source: str = Field(min_length=3)
    url: str = ""
    note: str = ""
    checkpoint: str = ""
    """What ran; `model_id` is the profile that has its dimensions."""
    reasoning: Literal["on", "off", "not stated"] = "not stated"
    hardware_id: str = ""
    engine: str = ""

    @model_validator(mode="after")
    def _possible(self) -> "AcceptanceCurve":
        if len(self.n_draft) != len(self.accepted_length):
            raise ValueError("n_draft and accepted_length must have the same number of entries")
        if list(self.n_draft) != sorted(set(self.n_draft)) or self.n_draft[0] < 1:
            raise ValueError("n_draft must be increasing and start at 1 or above")
        for k, length in zip(self.n_draft, self.accepted_length, strict=True):
            if not 1 <= length <= k + 1:
                raise ValueError(
                    f"accepted_length {length} at K={k} is not between 1 and K+1={k + 1}"
                )
        return self


class _CurveFile(Frozen):
    curves: tuple[AcceptanceCurve, ...]


@dataclass(frozen=True, eq=False)
class Acceptance:
    """Accepted length for K = 0..k_max. Every array has shape [k_max + 1] and entry 0 is exactly
    1."""

    accepted_length: Array
    low: Array
    """Lower edge of the 80 % band. [tokens per round]"""
    high: Array
    """Upper edge of the 80 % band. [tokens per round]"""
    extrapolated: NDArray[np.bool_]
    """True where the value is no measurement and does not lie between two."""
    source: str
    borrowed: bool = False
    """True where the numbers come from another model, drafter or run than the one they are used
    for."""
    carried_from: str = ""
    """Kind of text they were measured on, where they were carried to another
    (`task_transfer.carried`)."""
    remarks: tuple[str, ...] = ()
    """What a reader must know of how they were carried to where they are used ."""

    def log_sd(self, n_draft: int) -> float:
        """Log standard deviation of the accepted length at one K, by the ends of its band. [-]
        Definition."""
        return math.log(self.high[n_draft] / self.low[n_draft]) / (2.0 * BAND_SIGMAS)


def accepted_length(alpha: ArrayLike, n_draft: ArrayLike) -> Array:
    """Tokens emitted per round, bonus token included, if each draft token has the same chance
    alpha.

    Parameters
    ----------
    alpha : acceptance probability per position, 0 <= alpha <= 1. [-]
    n_draft : draft tokens K >= 0. [-]

    Returns
    -------
    `laws.accepted_length`, bonus token included; K + 1 at alpha = 1. Broadcasts. [tokens per round]

    Raises
    ------
    AdvisorError outside those ranges.

    References
    ----------
    Leviathan et al., arXiv:2211.17192, eq. 1.
    """
    a, k = np.broadcast_arrays(np.asarray(alpha, dtype=float), np.asarray(n_draft, dtype=float))
    if not (np.all((a >= 0) & (a <= 1)) and np.all(k >= 0)):
        raise AdvisorError(
            "accepted_length needs 0 <= alpha <= 1 and n_draft >= 0; check the two inputs"
        )
    inner = np.clip(
        a, 1e-300, _LARGEST_ALPHA
    )  # keeps logarithm and quotient finite; the two ends are set below
    return np.where(a >= 1 - 1e-15, k + 1, np.where(a <= 0, 1.0, laws.accepted_length(inner, k)))


# The float below 1: at 1 itself the geometric sum is 0/0.
_LARGEST_ALPHA = 1 - 1e-16


def solve_alpha(accepted_length: ArrayLike, n_draft: ArrayLike) -> Array:
    """Chance alpha per draft token that gives an accepted length at K draft tokens, broadcast. [-]

    Parameters
    ----------
    accepted_length : tokens emitted per round, 1 <= value <= K + 1. [tokens per round]
    n_draft : draft tokens K >= 1. [-]

    Raises
    ------
    AdvisorError outside those ranges.

    Notes
    -----
    The inverse of `laws.accepted_length` in alpha, in which it increases, by cutting [0, 1] into 64
    parts nine times: 54 halvings reach the spacing of floats near 1.
    """
    target, k = np.broadcast_arrays(
        np.asarray(accepted_length, dtype=float), np.asarray(n_draft, dtype=float)
    )
    if not (np.all(k >= 1) and np.all((target >= 1) & (target <= k + 1))):
        raise AdvisorError(
            "solve_alpha needs n_draft >= 1 and 1 <= accepted_length <= n_draft + 1; check the two"
        )
    low = np.zeros(target.shape)
    width = 1.0
    for _ in range(9):
        width /= 64.0
        inner = low[..., None] + width * np.arange(1, 64)
        lengths = laws.accepted_length(np.minimum(inner, _LARGEST_ALPHA), k[..., None])
        low = low + width * np.count_nonzero(lengths < target[..., None], axis=-1)
    return np.where(target >= k + 1, 1.0, np.where(target <= 1, 0.0, low + width / 2.0))


def acceptance_curves(
    model_id: str | None = None, drafter_id: str | None = None
) -> list[AcceptanceCurve]:
    """Curves of different heads, or those of one model and/or drafter, in the order of the file.

    What holds of other heads is read off these alone.
    """
    return _of(_curves("curves").values(), model_id, drafter_id)


def every_curve(
    model_id: str | None = None, drafter_id: str | None = None
) -> list[AcceptanceCurve]:
    """Curves of different heads, then those that speak of their own model and its family alone."""
    curves = (curve for file in _FILES for curve in _curves(file).values())
    return _of(curves, model_id, drafter_id)


def _of(
    curves: Iterable[AcceptanceCurve], model_id: str | None, drafter_id: str | None
) -> list[AcceptanceCurve]:
    return [
        curve
        for curve in curves
        if model_id in (None, curve.model_id) and drafter_id in (None, curve.drafter_id)
    ]


def acceptance_curve(curve_id: str) -> AcceptanceCurve | None:
    """The measured curve of an id. None for a user's own numbers."""
    if not curve_id[:1].isalpha():  # numbers, which no file need be read for
        return None
    return next((curves[curve_id] for curves in map(_curves, _FILES) if curve_id in curves), None)


def load_acceptance_curve(curve_id: str) -> AcceptanceCurve:
    """The measured curve `curve_id`. Raises AdvisorError with close matches when there is none."""
    if (curve := acceptance_curve(curve_id)) is None:
        known = [each.id for each in every_curve()]
        raise unknown_id(curve_id, "measured acceptance curves", known, _GRAMMAR)
    return curve


@lru_cache(maxsize=256)
def parse_acceptance(
    text: str,
    k_max: int,
    borrowed: bool | None = None,
    model_id: str | None = None,
    drafter_id: str | None = None,
) -> Acceptance:
    """Accepted length for K = 0..k_max from the user's one string.

    Parameters
    ----------
    text : one of
        `X@K`: accepted length X at K draft tokens, 1 < X <= K+1. One alpha carries it to other K,
        all marked extrapolated, bent by the curves' median departure from it (downwards above K).
        `X@K,X@K`: points of a curve. `a1,a2,...`: probabilities that draft token i is accepted
        *given that tokens 1..i-1 were* (conditional, as in AL(K) = 1 + a1 + a1 a2 + ...). Beyond
        the list its last value is held, marked extrapolated. the id of a measured curve: its own
        values at its own K; between them alpha is interpolated; below its first K the first alpha
        is held; beyond its last K the accepted length itself is held (most curves still grow a
        little: the band reaches up to where one alpha would lead). The last two are marked.
    k_max : largest K, 1..64. [-]
    borrowed : whether the numbers come from another run than the one they are used for; that widens
        the band. None: decided from the curve's model and drafter; a user's own numbers are not
        borrowed.
    model_id, drafter_id : what the numbers are used for; None: not compared.

    Returns
    -------
    Acceptance with an 80 % band: sampling spread (`SAME_RUN_LOG_SD` or `BORROWED_LOG_SD`) and, for
    extrapolated entries, the scatter of the shipped curves around their own one-alpha extrapolation
    (`extrapolation_spread`).

    Raises
    ------
    AdvisorError, one sentence, for text that is none of these or is out of range.
    """
    if not 1 <= k_max <= MAX_DRAFT:
        raise AdvisorError(f"k_max={k_max} is out of range; choose 1 to {MAX_DRAFT}")
    stripped = text.strip()
    if not stripped:
        raise AdvisorError(f"acceptance is empty; {_GRAMMAR}")
    if "@" in stripped:
        length_at_k = dict(sorted(_length_at(point)[::-1] for point in stripped.split(",")))
        if len(length_at_k) < stripped.count("@"):
            raise AdvisorError(f"acceptance={_shown(text)}: a K is given twice")
        points_text = " and ".join(
            f"{length:g} tokens a round at K = {at}" for at, length in length_at_k.items()
        )
        others = (
            "longer drafts accept no more"
            if len(length_at_k) > 1
            else "other K follow the measured curves' shape"
        )
        source = f"{points_text}, as given; {others}"
        return _from_points(
            np.array([*length_at_k]),
            np.array([*length_at_k.values()]),
            k_max,
            bool(borrowed),
            source,
        )
    if "," in stripped or number_of(stripped) is not None:
        return _from_list(_probabilities(stripped), k_max, bool(borrowed))
    return _of_curve(load_acceptance_curve(stripped), k_max, borrowed, model_id, drafter_id)


def _of_curve(
    curve: AcceptanceCurve,
    k_max: int,
    borrowed: bool | None,
    model_id: str | None,
    drafter_id: str | None,
) -> Acceptance:
    """A measured curve's lengths, borrowed where it is another model's or drafter's, unless
    `borrowed` says."""
    other = model_id not in (None, curve.model_id) or drafter_id not in (None, curve.drafter_id)
    reasoning = {"on": ", reasoning on", "off": ", reasoning off"}.get(curve.reasoning, "")
    source = (
        f"{curve.checkpoint or curve.model_id} with {curve.drafter_id} on "
        f"{curve.dataset}{reasoning}: {curve.source}"
    )
    points = np.array(curve.n_draft), np.array(curve.accepted_length)
    return _from_points(*points, k_max, other if borrowed is None else borrowed, source)


@dataclass(frozen=True)
class ExtrapolationSpread:
    """Quantiles (10, 50, 90 %) by which measured curves depart from one alpha, per log distance in
    K. [-]

    Each is of log(measured / one-alpha extrapolation) over |log((K'+1)/(K+1))|. `above` holds for
    K' above the K of the given length, `below` for K' under it; (lower, middle, upper).
    """

    above: tuple[float, float, float]
    below: tuple[float, float, float]
    n_pairs: int
    n_curves: int


@lru_cache(maxsize=1)
def extrapolation_spread() -> ExtrapolationSpread:
    """Scatter of the shipped curves around one alpha, each K predicted from every other K of its
    curve.

    Quantiles of the log ratio over the log distance, apart for upward and downward extrapolation.
    The middle is not zero: later draft tokens are accepted less often than one alpha says, so above
    its K it promises too much. Proportional to the distance: halving it about halves the error (the
    tables of both behave so from K = 1 to 8). Source:
    docs/decisions/history.md (0001).
    """
    curves = [curve for curve in acceptance_curves() if len(curve.n_draft) > 1]
    drafts = [np.array(curve.n_draft, dtype=float) for curve in curves]
    lengths = [np.array(curve.accepted_length) for curve in curves]
    ends = np.cumsum([k.size for k in drafts])[:-1]
    alphas = np.split(
        solve_alpha(np.concatenate(lengths), np.concatenate(drafts)), ends
    )  # at once: 55 halvings each
    per_distance = []
    for k, length, alpha in zip(drafts, lengths, alphas, strict=True):
        predicted = accepted_length(alpha[:, None], k[None, :])
        distance = np.log((k[None, :] + 1) / (k[:, None] + 1))
        off = ~np.eye(len(k), dtype=bool)
        ratio = np.log(length[None, :] / predicted)
        per_distance.append(np.stack([distance[off], ratio[off] / np.abs(distance[off])]))
    signed, slope = np.concatenate(per_distance, axis=1)
    edges = {}
    for name, side in (("above", signed > 0), ("below", signed < 0)):
        lower, middle, upper = quantiles(slope[side], (0.1, 0.5, 0.9))
        edges[name] = (float(lower), float(middle), float(upper))
    return ExtrapolationSpread(**edges, n_pairs=slope.size, n_curves=len(curves))


_FILES = ("curves", "publishers", "by_domain")
"""Of profiles/drafters/acceptance; the first holds curves of different heads."""


@lru_cache(maxsize=len(_FILES))
def _curves(file: str) -> dict[str, AcceptanceCurve]:
    path = PROFILES / "drafters" / "acceptance" / f"{file}.yaml"
    return {curve.id: curve for curve in read_profile(path, _CurveFile).curves}


def _length_at(text: str) -> tuple[float, int]:
    """X and K of `X@K`, refused with one sentence where it is no such thing."""
    length_text, _, draft_text = map(str.strip, text.partition("@"))
    if number_of(length_text) is None or not re.fullmatch(r"[0-9]{1,9}", draft_text):
        raise AdvisorError(
            f"acceptance={_shown(text)}: expected an accepted length and a whole K, as in 2.4@3"
        )
    length = float(length_text)
    at = int(draft_text)
    if not 1 <= at <= MAX_DRAFT:
        raise AdvisorError(
            f"acceptance={_shown(text)}: K={at} is out of range; choose 1 to {MAX_DRAFT}"
        )
    if not 1 < length <= at + 1:
        raise AdvisorError(
            f"acceptance={_shown(text)}: a round with K={at} emits more than 1 and at most "
            f"K+1={at + 1} tokens, so the accepted length must lie there (bonus token included)"
        )
    return length, at


def _probabilities(text: str) -> Array:
    """The list `a1,a2,...`, refused with one sentence where an entry is no probability."""
    fields = [field.strip() for field in text.split(",")]
    if len(fields) > MAX_DRAFT:
        raise AdvisorError(
            f"acceptance lists {len(fields)} probabilities; give at most {MAX_DRAFT}"
        )
    for position, field in enumerate(fields, start=1):
        if number_of(field) is None:
            raise AdvisorError(
                f"acceptance={_shown(text)}: entry {position} is {_shown(field)}, not a number; "
                f"{_GRAMMAR}"
            )
        if not 0 <= float(field) <= 1:
            advice = (
                f"; an accepted length needs its K, as in {field}@3" if len(fields) == 1 else ""
            )
            raise AdvisorError(
                f"acceptance={_shown(text)}: entry {position} is {_shown(field)}, but an "
                f"acceptance probability lies between 0 and 1{advice}"
            )
    return np.array([float(field) for field in fields])


def _from_list(probabilities: Array, k_max: int, borrowed: bool) -> Acceptance:
    k = np.arange(k_max + 1)
    n = len(probabilities)
    conditional = np.concatenate(
        [probabilities[:k_max], np.full(max(0, k_max - n), probabilities[-1])]
    )
    value = 1 + np.concatenate([[0.0], np.cumsum(np.cumprod(conditional))])
    source = f"{n} conditional acceptance probabilities, as given" + (
        "; the last is held" if n < k_max else ""
    )
    return _banded(value, k > n, np.minimum(k, n), borrowed, source)


def _from_points(
    at: NDArray[np.int_], length: Array, k_max: int, borrowed: bool, source: str
) -> Acceptance:
    """Values at K = 0..k_max from measured points: interpolated inside, extrapolated outside. Two
    rules, one reason.

    One point: the same alpha at every K, bent by the median of the measured curves around their own
    one-alpha extrapolation (`extrapolation_spread`), never below the given length above its K. A
    curve: beyond its last K the length is held, because measured curves flatten and one alpha would
    let it grow without a measurement; the growth that one alpha would give widens the band instead.
    """
    k = np.arange(k_max + 1)
    alpha = np.interp(k, at, _solved(tuple(length.tolist()), tuple(at.tolist())))
    value = accepted_length(alpha, k)
    growth = None
    if len(at) == 1:
        # One alpha promises 10 % too much from K = 3 to 8: later draft tokens are accepted less
        # often (decision 0001).
        value = np.where(
            k > at[0], np.maximum(value * _bend(k, at[0]), length[0]), value * _bend(k, at[0])
        )
        value = np.maximum.accumulate(
            np.clip(value, 1.0, k + 1.0)
        )  # drafting more never emits less
    else:
        right = np.clip(np.searchsorted(at, k, side="left"), 1, len(at) - 1)
        bounds = np.stack([length[right - 1], length[right]])
        inside = (k >= at[0]) & (k <= at[-1])
        value = np.where(inside, np.clip(value, bounds.min(axis=0), bounds.max(axis=0)), value)
        # Beyond the last measured K nothing is promised: what one alpha would add goes into the
        # upper edge alone.
        growth = np.maximum(value, 1.0)
        value = np.where(k > at[-1], length[-1], value)
    measured = np.isin(k, at)
    value[measured] = length[
        np.searchsorted(at, k[measured])
    ]  # measured values as they are, not through alpha
    outside = (k > 0) & ((k < at[0]) | (k > at[-1]))
    return _banded(value, outside, np.clip(k, at[0], at[-1]), borrowed, source, growth)


_solved = lru_cache(maxsize=256)(solve_alpha)
"""Remembered by question, which all scenarios with that accepted length share."""


def _bend(k: NDArray[np.int_], at: int) -> Array:
    """Median factor by which measured curves differ from one alpha carried from K = `at` to each k.
    [-]"""
    slopes = extrapolation_spread()
    distance = np.log((k + 1) / (at + 1))
    slope = np.where(distance > 0, slopes.above[1], slopes.below[1])
    return np.where(k == 0, 1.0, np.exp(slope * np.abs(distance)))


def _banded(
    value: Array,
    extrapolated: NDArray[np.bool_],
    nearest: NDArray[np.int_],
    borrowed: bool,
    source: str,
    growth: Array | None = None,
) -> Acceptance:
    """The 80 % band around `value` [k_max + 1]. `nearest` is the K each entry was carried from.

    Sampling and extrapolation spread are independent, so they add in squares, each side on its own.
    A round emits between 1 and K + 1 tokens whatever the spread, and drafting more does not emit
    less than at the K it was carried from. `growth` [k_max + 1]: what held values may have grown to
    (None: nothing is held).
    """
    k = np.arange(len(value))
    spread = extrapolation_spread()
    distance = np.where(extrapolated, np.log((k + 1) / (nearest + 1)), 0.0)
    slopes = np.where((distance > 0)[:, None], spread.above, spread.below)
    sampling = BAND_SIGMAS * (BORROWED_LOG_SD if borrowed else SAME_RUN_LOG_SD)
    # Sampling and carrying err independently, so they add in squares.
    down = np.hypot(sampling, (slopes[:, 0] - slopes[:, 1]) * np.abs(distance))
    up = np.hypot(sampling, (slopes[:, 2] - slopes[:, 1]) * np.abs(distance))
    low = value * np.exp(-down)
    low = np.where(
        distance > 0, np.maximum(low, value[np.minimum(nearest, k)] * np.exp(-sampling)), low
    )
    if growth is not None:
        up = np.hypot(up, np.where(distance > 0, np.log(growth / value), 0.0))
    high = np.clip(value * np.exp(up), value, k + 1.0)
    low = np.clip(low, 1.0, value)
    if (np.diff(value) >= 0).all():  # some measured block drafters do lose at their largest K
        low = np.maximum.accumulate(low)
        high = np.maximum.accumulate(high)
    return Acceptance(value, low, high, extrapolated, source, borrowed)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def speedup(
    accepted_length: ArrayLike,
    plain_step_s: ArrayLike,
    round_s: ArrayLike,
    prefill_per_token_s: ArrayLike = 0.0,
) -> Array:
    """Time per token of plain decode over that of speculative decode. [-]

    Parameters
    ----------
    accepted_length : tokens emitted per round, bonus token included, AL >= 1. [-]
    plain_step_s : one plain decode step, T(B,1). [s]
    round_s : one whole round: draft, verify, rejection sampling, host. [s]
    prefill_per_token_s : prefill time charged to each output token, 0 for per-user decode speed.
        [s]

    Returns
    -------
    `laws.speedup`, broadcast over the arguments. Above 1, speculation is faster.
    """
    return np.asarray(
        laws.speedup(*arrays(accepted_length, plain_step_s, round_s, prefill_per_token_s))
    )
