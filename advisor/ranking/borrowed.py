"""The accepted length of an MTP head that nobody has measured: the middle of those that were, on the asked text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.acceptance import Acceptance, AcceptanceCurve, acceptance_curves, parse_acceptance
from advisor.arrays import Array
from advisor.task_transfer import TASKS, Task, carried, task_of, task_transfer

_KIND = "mtp"


@dataclass(frozen=True, eq=False)
class BorrowedHeads:
    """Measured MTP heads as they are lent to another model."""

    chances: str
    """Of each draft token given those before it, comma-separated, from the median accepted length at each K."""
    text: str
    """What it rests on."""
    n_carried: int
    """Heads whose length was carried to the asked text. [-]"""
    down: Array
    up: Array
    """How much further the ends of the band lie for being carried, in logarithms, median over the heads, [K]. [-]"""
    remarks: tuple[str, ...]

    def spread_over(self, known: Acceptance) -> Acceptance:
        """Accepted lengths read from `chances`, with the band that being carried adds."""
        value, most = known.accepted_length, np.arange(known.accepted_length.size) + 1.0
        down = np.hypot(np.log(value / known.low), self.down)
        up = np.hypot(np.log(known.high / value), self.up)
        low, high = np.maximum(value * np.exp(-down), 1.0), np.maximum(np.minimum(value * np.exp(up), most), value)
        return replace(known, low=low, high=high, source=self.text, remarks=self.remarks)


def is_carried(curve: AcceptanceCurve, kind: str, task: str | None) -> bool:
    """Whether a curve's lengths are moved to reach the asked text.

    They are where the curve is of another kind of text, and both kinds are known.
    """
    known = task_of(curve.dataset)
    return task not in (None, known) and known in TASKS and task_transfer(kind, known, str(task)) is not None


@functools.lru_cache(maxsize=32)
def borrowed_heads(task: Task | None, context_tokens: int, k_max: int) -> BorrowedHeads | None:
    """The middle of the measured MTP heads, K as far as all go, each on the asked text first.

    One curve a model, of the asked task where there is one. A head whose text is not known is left out where a task is
    asked: it cannot be said to be of it. None where no head is left.
    """
    heads = _curves(task)
    if not heads:
        return None
    longest = min(len(curve.n_draft) for curve in heads)
    size = max(k_max, longest)
    measured = [parse_acceptance(curve.id, size) for curve in heads]
    moved = [
        carried(curve.id, known, _KIND, task, context_tokens) for curve, known in zip(heads, measured, strict=True)
    ]
    lengths = np.median([each.accepted_length[: longest + 1] for each in moved], axis=0)
    gains = np.diff(lengths)
    chances = np.clip(gains / np.concatenate([[1.0], gains[:-1]]), 0.0, 1.0)
    names = ", ".join(sorted(curve.model_id for curve in heads))
    kinds = ", ".join(sorted({task_of(curve.dataset) or "unknown" for curve in heads}))
    return BorrowedHeads(
        ",".join(f"{chance:.4f}" for chance in chances),
        f"borrowed: the median of {len(heads)} measured MTP heads ({names}; text: {kinds})",
        sum(is_carried(curve, _KIND, task) for curve in heads),
        _added(measured, moved, "low")[: k_max + 1],
        _added(measured, moved, "high")[: k_max + 1],
        tuple(dict.fromkeys(remark for each in moved for remark in each.remarks)),
    )


def _curves(task: str | None) -> list[AcceptanceCurve]:
    """The first curve of each model's MTP head over K = 1, 2, ..., of the asked task where it has one."""
    found: dict[str, AcceptanceCurve] = {}
    for curve in acceptance_curves(drafter_id="mtp"):
        known = task_of(curve.dataset)
        if curve.n_draft != tuple(range(1, len(curve.n_draft) + 1)):
            continue
        if task is not None and known != task and not is_carried(curve, _KIND, task):
            continue
        first = found.setdefault(curve.model_id, curve)
        if task is not None and task_of(first.dataset) != task == known:
            found[curve.model_id] = curve
    return list(found.values())


def _added(measured: Sequence[Acceptance], moved: Sequence[Acceptance], end: str) -> Array:
    """What being carried added to the distance of a band's end from the middle, in logarithms, [K]. [-]"""

    def far(known: Acceptance) -> Array:
        return np.abs(np.log(getattr(known, end) / known.accepted_length))

    squares = [np.square(far(new)) - np.square(far(old)) for old, new in zip(measured, moved, strict=True)]
    return np.asarray(np.sqrt(np.maximum(np.median(squares, axis=0), 0.0)))
