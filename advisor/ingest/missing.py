"""What an upload leaves open and a user may say of it: fields, whether they are needed, and a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.ingest.canonical import COLUMNS, REQUIRED_CONTEXT, USEFUL_CONTEXT, TableKind
from advisor.ingest.result import MissingField

_OF_ONE_RUN = frozenset({"batch_size", "draft_tokens_k"})
"""What runs of a sweep differ in, so that other rows tell nothing of it."""


def missing_fields(
    frame: pd.DataFrame, kind: TableKind, prefills: Sequence[Mapping[str, Any]]
) -> tuple[MissingField, ...]:
    """Context fields that at least one row lacks, required ones first.

    prefills : what each file suggests, by column. The guess is the one that all files agree on, else the one value that
    the other rows state.
    """
    out = []
    for name in (*REQUIRED_CONTEXT[kind], *USEFUL_CONTEXT[kind]):
        empty = _lacking(frame, name)
        if not empty.any():
            continue
        column = COLUMNS[kind][name]
        guesses = [prefill.get(name) for prefill in prefills]
        guess = guesses[0] if all(item == guesses[0] for item in guesses) else None
        stated = [] if guess is not None or name in _OF_ONE_RUN else frame[name].dropna().unique().tolist()
        if len(stated) == 1:
            guess = _plain(stated[0])
        required, needs = name in REQUIRED_CONTEXT[kind], bool((empty & _needs(frame, name)).any())
        out.append(MissingField(name, column.unit, column.meaning, required, int(empty.sum()), guess, needs))
    return tuple(out)


def _lacking(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Rows that lack a field and have something that it speaks of, [rows]."""
    empty = frame[name].isna().to_numpy()
    if name == "drafter":  # without drafting there is no drafter to name
        empty = empty & (frame["draft_tokens_k"].to_numpy(dtype=float, na_value=np.nan) != 0)
    if name == "accepted_length_same_run":
        empty = empty & frame["accepted_length"].notna().to_numpy()
    return np.asarray(empty)


def _needs(frame: pd.DataFrame, name: str) -> np.ndarray | bool:
    """Rows that cannot be predicted without a field that other rows can do without, [rows]."""
    either = ["gpu_count", "tensor_parallel"]  # one of the two says where the model lies
    if name in either:
        return np.asarray(frame[either].isna().all(axis=1))
    return name == "drafter"


def _plain(value: Any) -> Any:
    """A cell as a form takes it: a whole number without its point."""
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() else float(value)
