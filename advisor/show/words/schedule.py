"""Each K at the target batch, K by batch, K by batch and context, and accepted lengths, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from advisor.answers.best_k import DraftRow, KRange
from advisor.answers.by_batch import KByContext
from advisor.physics.acceptance import Acceptance
from advisor.show.table import Column, Table, matrix

DRAFTS: tuple[Column[DraftRow], ...] = (
    Column("K", attrgetter("n_draft")),
    Column("", lambda row: "recommended" if row.recommended else "", words=True),
    Column("speedup", attrgetter("speedup"), "{:.2f}".format),
    Column("likely range", lambda row: f"{row.speedup_low:.2f}-{row.speedup_high:.2f}"),
    Column("ms/token", lambda row: row.tpot_s * 1e3, "{:.2f}".format),
    Column("best in", attrgetter("p_best"), "{:.0%}".format),
    Column("gains in", lambda row: f"{row.p_gain:.0%}" if row.n_draft else ""),
    Column("expected loss", attrgetter("expected_loss"), "{:.1%}".format),
)
"""Every K at the target batch."""


def k_by_batch_table(ranges: Sequence[KRange], limited: bool) -> Table[KRange]:
    """Ranges of batches, each with its K. `limited` adds whether the limit on time per output token is kept.

    Where one server for all batches runs another K than the schedule's, a column has it.
    """
    columns: list[Column[KRange]] = [
        Column("batch", lambda row: f"{row.batch_start:,} to {row.batch_end:,}"),
        Column("K", attrgetter("n_draft")),
        Column("mean speedup", attrgetter("speedup"), "{:.2f}x".format),
        Column("largest expected loss", attrgetter("regret"), "{:.1%}".format),
    ]
    if limited:
        columns.append(Column("meets the limit", lambda row: "yes" if row.meets_limit else "no", words=True))
    if any(row.k_running != row.n_draft for row in ranges):
        columns.append(Column("K in one server", attrgetter("k_running")))
    return Table(tuple(columns), ranges)


def k_by_context_table(found: KByContext) -> Table[Sequence[Any]]:
    """The recommended K by batch and context, a dash where it does not fit."""
    header = ("batch", *(f"{context:,}" for context in found.contexts))
    rows = [(f"{found.batches[at]:,}", *("-" if k < 0 else str(k) for k in found.k[:, at])) for at in found.shown]
    return matrix(header, rows, "r" * len(header))


def accepted_lengths(acceptance: Acceptance, shortest: int = 0) -> Table[int]:
    """Tokens per round by K from `shortest` on, the bonus token included."""
    columns: tuple[Column[int], ...] = (
        Column("K", int, key="n_draft"),
        Column("tokens per round", lambda k: acceptance.accepted_length[k], "{:.2f}".format, "accepted_length"),
        Column("likely range", lambda k: f"{acceptance.low[k]:.2f}-{acceptance.high[k]:.2f}"),
        Column(None, lambda k: acceptance.low[k], key="low"),
        Column(None, lambda k: acceptance.high[k], key="high"),
        Column(
            "extrapolated", lambda k: acceptance.extrapolated[k], lambda it: "yes" if it else "no", "extrapolated", True
        ),
    )
    return Table(columns, range(shortest, acceptance.accepted_length.size))
