"""What a schedule says of itself: whether one K is enough, what K = 0 means in it, where the target batch differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.curve import Curve
from advisor.runtime.costs import IntArray, idle_speedup
from advisor.runtime.gain import ScheduleGain, gain_over_doublings, one_k_is_enough
from advisor.runtime.ranges import KRange, k_at, k_running_at
from advisor.runtime.schedule import values_of
from advisor.setup import Setup

_EQUALLY = "(each doubling counts equally)"


def schedule_texts(ranges: Sequence[KRange], curve: Curve, batch_size: int) -> tuple[str, ...]:
    """Sentences on the gain of a schedule over one K.

    They tell what its K = 0 means, too, and where the target batch has a K of its own.

    batch_size : the target batch, which the curve holds. [-]
    """
    idle = float(idle_speedup(curve)[np.searchsorted(curve.batches, batch_size)])
    gain = gain_over_doublings(ranges, values_of(curve, without=batch_size))
    said = [one_k_text(ranges, gain, int(k_at(ranges, batch_size))), _zero_text(ranges, batch_size, idle)]
    here = next((item for item in ranges if item.smoothed_k is not None), None)
    if here is not None:
        said.append(
            f"K = {here.n_draft} is recommended at batch {batch_size:,}; smoothed over all batches K = "
            f"{here.smoothed_k} would stand there."
        )
    return tuple(text for text in said if text)


def plain_text(ranges: Sequence[KRange], batch_size: int) -> str:
    """Reason to start an engine without speculation though the schedule drafts elsewhere.

    Empty where it drafts.

    batch_size : the target batch. [-]
    """
    if int(k_at(ranges, batch_size)) or not any(item.k_running for item in ranges):
        return ""
    return (
        f"At batch {batch_size:,} no drafting is recommended: the engine is started without speculation; "
        "export --by-batch writes the schedule."
    )


def one_k_text(ranges: Sequence[KRange], gain: ScheduleGain, n_draft: int) -> str:
    """Whether one K, the recommended one, is enough for a server at all batches, in a sentence.

    gain : what one server gains over the best single K, over the doublings of the batches that the ranges cover.
    n_draft : the K recommended at the target batch.
    """
    last, best = ranges[-1].batch_end, gain.best_static_k
    if not any(item.n_draft for item in ranges):
        return "Drafting pays at no batch: K = 0 throughout."
    running = {item.k_running for item in ranges}
    if running == {0}:
        return f"One K is enough: 0, a server without speculation, loses least over all batches {_EQUALLY}."
    if len(running) == 1:
        return f"One K is enough: {running.pop()} at every batch."
    if one_k_is_enough(ranges, gain, n_draft):
        cost = 1.0 - gain.static_speedup[n_draft] / gain.schedule_speedup
        if cost <= 0.0:
            return f"One K is enough: {n_draft} everywhere costs nothing up to batch {last:,}."
        return f"One K is enough: {n_draft} everywhere costs {cost:.1%} up to batch {last:,} {_EQUALLY}."
    return f"The schedule gains {gain.gain:.1%} over the best single K, {best}, up to batch {last:,} {_EQUALLY}."


def accepted_length_text(setup: Setup) -> str:
    """Origin of a scenario's accepted lengths, and the K at which they are carried rather than known."""
    known = f"Accepted length: {setup.acceptance.source.rstrip('.')}."
    carried = carried_text(setup, np.arange(setup.acceptance.accepted_length.size))
    return f"{known} {carried}".rstrip()


def carried_text(setup: Setup, drafts: IntArray) -> str:
    """Sentence on those of some K whose accepted length is neither measured nor given. Empty where none is."""
    found = [int(k) for k in drafts if k and setup.acceptance.extrapolated[k]]
    if not found:
        return ""
    runs = np.split(found, 1 + np.flatnonzero(np.diff(found) > 1))
    named = [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if run.size > 2 else map(str, run))]
    listed = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
    return f"At K = {listed} it is carried from there, neither measured nor given: its band is wider."


def _zero_text(ranges: Sequence[KRange], batch_size: int, idle: float) -> str:
    """What K = 0 means in a schedule that drafts at other batches. Empty where it has none or its drafter is free."""
    zero = [item for item in ranges if not item.n_draft]
    if not zero or len(zero) == len(ranges) or idle >= 1.0 or not any(item.k_running for item in ranges):
        return ""
    here = not int(k_at(ranges, batch_size))
    kept = int(k_running_at(ranges, batch_size if here else zero[-1].batch_start))
    slower = f", {1.0 - idle:.1%} slower" if here else ""
    one = "One server for all batches "
    one += f"runs K = {kept} there: at K = 0 its" if kept else "drafts nothing there either, but its"
    where = f"at batch {batch_size:,}" if here else _batches(zero)
    return (
        f"K = 0 is a server without speculation; start one where it mostly runs {where}. {one} drafter would still run "
        f"once a step{slower}."
    )


def _batches(ranges: Sequence[KRange]) -> str:
    """`at batch 8 to 23 and 512 to 1,024`."""
    runs: list[tuple[int, int]] = []
    for item in ranges:
        if runs and runs[-1][1] + 1 == item.batch_start:
            runs[-1] = (runs[-1][0], item.batch_end)
        else:
            runs.append((item.batch_start, item.batch_end))
    return "at batch " + " and ".join(f"{first:,} to {last:,}" for first, last in runs)
