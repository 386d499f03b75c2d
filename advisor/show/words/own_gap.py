"""A user's own runs against the model, in words: the verdict's title, its sentence and its parts."""

from __future__ import annotations

import pandas as pd

from advisor.answers.own_gap import OwnVerdict, PartKey
from advisor.text import counted

_TIMES = ("longer", "less")
PARTS: dict[PartKey, str] = {
    "plain_step": "Plain step",
    "accepted_length": "Accepted length",
    "round": "Round",
    "times": "Plain step, round",
    "rest": "Accepted length, round",
    "whole": "Speedup",
}


def signed(ratio: float) -> str:
    """A factor as a change, `-18%`."""
    percent = round((ratio - 1.0) * 100.0)
    return f"{percent:+d}%" if percent else "0%"


def _beside(ratio: float, words: tuple[str, str] = ("higher", "lower")) -> str:
    """A factor on the model's value in words, `18% lower than modelled`."""
    percent = round((ratio - 1.0) * 100.0)
    return f"{abs(percent)}% {words[percent < 0]} than modelled" if percent else "as modelled"


def verdict_title(found: OwnVerdict) -> str:
    """The verdict in a few words."""
    if found.kind == "slower":
        known = found.own_length is not None or found.quantity == "round_s"
        return "Slower than modelled, cause not found" if known else "Your runs gain less than the model says"
    if found.kind == "plain_step":
        return f"Your step without drafts takes {_beside(_plain(found), _TIMES)}"
    return {
        "agree": "Your runs agree with the model",
        "accepted_length": "Your accepted length explains it",
        "faster": "Your runs are faster than the model says",
    }[found.kind]


def _plain(found: OwnVerdict) -> float:
    return next(part.ratio for part in found.parts if part.key == "plain_step")


def verdict_text(found: OwnVerdict) -> str:
    """The sentence or two below the title."""
    rows = counted(len(found.points), "row")
    of = f"{rows} at K = {found.n_draft}" if found.n_draft else f"{rows} without drafts"
    if found.quantity == "round_s":
        return f"Your rounds take {_beside(found.gap, _TIMES)} ({of}); a run without drafts tells the speedup."
    if found.kind == "accepted_length":
        said = (
            f"You accept {found.own_length:.2f} tokens, not {found.model_length:.2f}. With yours the gap shrinks from "
            f"{signed(found.gap)} to {signed(found.gap_with_own_length)}."
        )
    elif found.kind == "agree":
        each = found.points["measured"] / found.points["predicted"]
        said = f"{of}: {signed(found.gap)} on average, {signed(each.min())} to {signed(each.max())}."
    elif found.kind == "plain_step":
        said = f"Your speedup is {_beside(found.gap)} ({of})." if found.n_draft else f"{of[:1].upper()}{of[1:]}."
    else:
        said = f"Your speedup is {_beside(found.gap)} ({of}). {_of_the_rest(found)}"
    if found.own_context is not None:
        said += f" Measured at {found.own_context:,} tokens of context, not the scenario's."
    return said


def decision_text(found: OwnVerdict, one_k: bool) -> str:
    """Sentence on where to draft, by the measured speedups alone. Empty where there are none.

    one_k : no other K was measured, which might gain more.
    """
    if found.quantity != "speedup":
        return ""
    at = found.points.groupby("batch_size")["measured"].median()
    keep, off = at[at >= 1.0], at[at < 1.0]
    pays = f"Keep K = {found.n_draft}" if one_k else f"K = {found.n_draft} pays"
    said = f"{pays} {_batches(keep, at)}." if len(keep) else ""
    if not len(off):
        return said
    cause = " until the cause is found" if found.kind == "slower" else ""
    return f"{said} Switch speculation off {_batches(off, at)}{cause}.".strip()


def _batches(some: pd.Series, at: pd.Series) -> str:
    """Batches among those measured, with their speedups: `up to batch 64 (measured 1.09x to 1.46x)`."""
    first, last = some.index[0], some.index[-1]
    whole = len(some) == len(at.loc[first:last])
    named = f"batch {first:,.4g}"
    if len(some) > 1:
        named = (
            f"batch {first:,.4g} to {last:,.4g}" if whole else "batch " + ", ".join(f"{one:,.4g}" for one in some.index)
        )
    if whole and len(some) > 1 and first == at.index[0] and some.iloc[0] >= 1.0:
        named = f"up to batch {last:,.4g}"
    else:
        named = f"at {named}"
    low, high = f"{some.min():.2f}x", f"{some.max():.2f}x"
    return f"{named} (measured {low if low == high else f'{low} to {high}'})"


def _of_the_rest(found: OwnVerdict) -> str:
    if found.own_length is not None:
        rest = found.parts[-1]
        what = "The round" if rest.key == "round" else "What a round costs over a plain step"
        slower = rest.ratio < 1.0
        return f"{what} takes {abs(1.0 / rest.ratio - 1.0):.0%} {'longer' if slower else 'less'} than modelled."
    if found.implied_length is None:
        return "The file states no accepted length, and none explains it."
    return (
        f"The file states no accepted length; {found.implied_length:.2f}, not {found.model_length:.2f}, would explain "
        "the gap."
    )
