"""The likeliest cause of a loss that is not predicted: too few tokens accepted, or too long a
round."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from advisor.answers.diagnosis.physics import OF_THE_RUN, Comparison
from advisor.text import with_prefix

_OF_A_ROUND = "drafting, verification or the host"
_SERVER = attrgetter("place", "scenario.model_id", "n_draft")


def amount(value: float, unit: str) -> str:
    """A compared value with its unit."""
    if unit == "x":
        return f"{value:.2f}x"
    return with_prefix(value, "s") if unit == "s" else f"{value:.2f}"


def cause_text(
    one: Comparison, compared: Sequence[Comparison], likely: str = "Likeliest cause"
) -> str:
    """Sentence on the likeliest cause of a loss that is not predicted, with its number.

    A round of the same times gains in proportion to its accepted length, down to that of no
    accepted draft.

    compared : all runs, which bound the accepted length of their K.
    likely : how the sentence on a slow round begins.
    """
    row = one.row("speedup")
    if row is None or row.measured is None:
        return ""
    too_little = row.predicted / row.measured
    length = one.accepted_length
    if one.length_from == OF_THE_RUN:
        return _round_text(one, too_little, likely)
    if may_accept_less(one, compared):
        return (
            f"Either {length / too_little:.2f} tokens are accepted per round, not {length:.2f} "
            f"({one.length_from}), or a round takes {too_little:.2f} times as long: the mean "
            "accepted length in the engine's log tells which."
        )
    slow = too_little * _least_length(one, compared) / length - 1.0
    best = _best_of(one, compared)
    if best is None:
        return (
            f"{likely}: a round at least {slow:.0%} too long, whatever is accepted (no CUDA "
            "graphs, a slow drafter)."
        )
    return (
        f"{likely}: a round at least {slow:.0%} too long. At batch {best.batch_size:,.4g} this K "
        f"gained {best.gain:.2f}x, so that it accepts as many tokens at least."
    )


def may_accept_less(one: Comparison, compared: Sequence[Comparison]) -> bool:
    """Whether fewer accepted tokens than predicted would explain what a run gained.

    A round takes a plain step at least, so a K accepts as many tokens as it ever gained, on the
    same text.
    """
    row = one.row("speedup")
    if row is None or not row.measured or one.length_from == OF_THE_RUN:
        return False
    return one.accepted_length * row.measured / row.predicted > _least_length(one, compared)


def _best_of(one: Comparison, compared: Sequence[Comparison]) -> Comparison | None:
    """The run of a K that gained most, where it gained at all."""
    gained = [
        other for other in compared if _SERVER(other) == _SERVER(one) and (other.gain or 0.0) > 1.0
    ]
    return max(gained, key=lambda other: other.gain or 0.0, default=None)


def _least_length(one: Comparison, compared: Sequence[Comparison]) -> float:
    best = _best_of(one, compared)
    return 1.0 if best is None else best.gain or 1.0


def _round_text(one: Comparison, too_little: float, likely: str) -> str:
    """Sentence on a round that takes too many plain steps."""
    round_s = one.row("round")
    plain_s = one.row("plain")
    if round_s is None or plain_s is None or round_s.measured is None or plain_s.measured is None:
        return (
            f"{likely}: a round of {too_little:.2f} times as many plain steps as predicted "
            f"({_OF_A_ROUND})."
        )
    steps = round_s.measured / plain_s.measured
    predicted = round_s.predicted / plain_s.predicted
    both = "; ".join(
        f"{name} {amount(row.measured or 0.0, 's')}, {amount(row.predicted, 's')} predicted"
        for name, row in (("round", round_s), ("plain step", plain_s))
    )
    times = f"a round takes {steps:.2f} plain steps, {predicted:.2f} predicted ({both})"
    return f"{likely}: {times}; {_OF_A_ROUND}."
