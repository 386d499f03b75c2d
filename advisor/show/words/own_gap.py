"""A user's own runs against the model, in words: the verdict's title, its sentence and its parts."""

from __future__ import annotations

import pandas as pd

from advisor.answers.own_gap import OwnVerdict, PartKey
from advisor.catalog.adjustment import change_text
from advisor.text import counted

_HIGHER, _LONGER = ("higher", "lower", "as predicted"), ("longer", "less", "as long as predicted")
PARTS: dict[PartKey, str] = {
    "plain_step": "Plain step",
    "accepted_length": "Accepted length",
    "round": "Round",
    "times": "Plain step, round",
    "rest": "Accepted length, round",
    "whole": "Speedup",
}


def _beside(ratio: float, words: tuple[str, str, str] = _HIGHER) -> str:
    """A factor on the predicted value in words, `18% lower than predicted`."""
    percent = round((ratio - 1.0) * 100.0)
    return f"{abs(percent)}% {words[percent < 0]} than predicted" if percent else words[2]


def verdict_title(found: OwnVerdict) -> str:
    """The verdict in a few words."""
    if found.kind == "plain_step":
        plain = next(part.ratio for part in found.parts if part.key == "plain_step")
        return f"Your step without drafts takes {_beside(plain, _LONGER)}"
    return {
        "agree": "Your runs agree with the model",
        "accepted_length": "Your accepted length explains it",
        "slower": "Your runs gain less than predicted",
        "faster": "Your runs gain more than predicted",
    }[found.kind]


def verdict_text(found: OwnVerdict) -> str:
    """The sentence or two below the title."""
    rows = counted(len(found.points), "row")
    of = f"{rows} at K = {found.n_draft}" if found.n_draft else f"{rows} without drafts"
    if found.quantity == "round_s":
        return f"Your rounds take {_beside(found.gap, _LONGER)} ({of}); a run without drafts tells the speedup."
    if found.kind == "accepted_length":
        said = (
            f"You accept {found.own_length:.2f} tokens, not {found.model_length:.2f}. With yours the gap shrinks from "
            f"{change_text(found.gap)} to {change_text(found.gap_with_own_length)}."
        )
    elif found.kind == "agree":
        each = found.points["measured"] / found.points["predicted"]
        said = f"{of}: {change_text(found.gap)} on average, {change_text(each.min())} to {change_text(each.max())}."
    else:
        said = f"Your speedup is {_beside(found.gap)} ({of})." if found.n_draft else f"{of[:1].upper()}{of[1:]}."
    if found.own_context is not None:
        said += f" Measured at {found.own_context:,} tokens of context, not the scenario's."
    return said


def decision_text(frame: pd.DataFrame, n_draft: int, one_k: bool) -> str:
    """Sentence on where to draft, by the measured speedups of a points frame alone. Empty where there are none.

    one_k : no other K was measured, which might gain more.
    """
    of_k = frame["draft_tokens_k"].eq(n_draft) & (n_draft > 0)
    at = frame[of_k].groupby("batch_size")["speedup"].median().dropna()
    keep, off = at[at >= 1.0], at[at < 1.0]
    pays = f"Keep K = {n_draft}" if one_k else f"K = {n_draft} pays"
    said = f"{pays} {_batches(keep, at)}. " if len(keep) else ""
    return f"{said}Switch speculation off {_batches(off, at)}." if len(off) else said.strip()


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
