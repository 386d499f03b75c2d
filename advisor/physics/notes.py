"""Notes: what a reader must know before trusting an answer, as records of facts.

Whoever decides that something has to be said makes a Note; show/phrases/notes.py says it. Readers
order and shorten notes by rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, get_args


class Rank(IntEnum):
    """How much a note weighs, the heaviest first."""

    BLOCKS = 0
    """What is asked about does not start, or does not fit."""
    CHANGES = 1
    """Steps run otherwise than they are charged, or are charged much: the answer may change."""
    OWN = 2
    """Data of the user's own is used, or is not."""
    REMARK = 3
    """The answer stands, with a wider range or an assumption."""
    NOTICE = 4
    """Nothing to heed."""


Kind = Literal[
    "weights_too_large",
    "sequence_too_large",
    "batch_too_large",
    "split_blocks",
    "graphs_unread",
    "graphs_in_pieces",
    "graph_missing",
    "graph_unnamed",
    "refit_forced",
    "sweep_of_other",
    "sweep_unsteady",
    "sweep_used",
    "read",
    "trace_read",
    "published_in_blocks",
    "parts_in_bf16",
    "copies",
    "context_too_long",
    "network_charged",
    "network_unknown",
    "ranks_beyond_node",
    "ranks_beyond_measured",
    "format_converted",
    "format_unlisted",
    "release_host_time",
    "same_chip",
    "heads_apart",
    "kernels_borrowed",
    "kernels_unmeasured",
    "cache_rate_assumed",
    "cache_time_assumed",
    "shape_untuned",
    "layers_borrowed",
    "layers_with_gaps",
    "length_carried",
    "length_borrowed",
    "loads_of_some_layers",
    "experts_without_load",
    "trace_not_halved",
    "trace_of_few",
    "copies_change_nothing",
    "imbalance_assumed",
    "imbalance_counted",
    "layout_planned",
    "top_1_unmeasured",
    "over_limit",
    "outside_data",
    "longest_k",
    "length_extrapolated",
    "graph_padding",
    "kernel_cliff",
    "model_to_name",
    "drafter_to_name",
    "weights_to_name",
    "schedule_ends",
    "nothing_drafted",
    "experts_over_all_ranks",
    "table_untested",
    "fixed_k_of_method",
    "fixed_k_of_ranks",
    "fixed_k_of_engine",
    "k_of_method_not_varied",
    "suffix_package",
    "token_budget",
    "graphs_of_tokens",
    "graphs_of_requests",
    "batches_padded",
    "guard",
    "k_by_context",
    "schedule_of_engine",
    "dspark_stages",
    "limit_passed",
    "guard_safe",
    "rules_checked",
]
"""What a note is on; one phrase or more each in show/phrases/notes.py."""
KINDS: tuple[Kind, ...] = get_args(Kind)
_BLOCKS: tuple[Kind, ...] = (
    *("weights_too_large", "sequence_too_large", "batch_too_large"),
    *("split_blocks", "model_to_name", "drafter_to_name"),
)
_CHANGES: tuple[Kind, ...] = (
    *("graphs_unread", "graphs_in_pieces"),
    *("graph_missing", "graph_unnamed"),
)
_OWN: tuple[Kind, ...] = ("refit_forced", "sweep_of_other", "sweep_unsteady", "sweep_used")
RANKS: dict[Kind, Rank] = {
    **dict.fromkeys(KINDS, Rank.REMARK),
    **dict.fromkeys(_BLOCKS, Rank.BLOCKS),
    **dict.fromkeys(_CHANGES, Rank.CHANGES),
    **dict.fromkeys(_OWN, Rank.OWN),
    "guard_safe": Rank.NOTICE,
    "rules_checked": Rank.NOTICE,
}
"""The rank of each kind."""


@dataclass(frozen=True)
class Note:
    """One thing to know, and its facts."""

    kind: Kind
    rank: Rank
    facts: Mapping[str, Any] = field(hash=False)
    """Numbers in the unit that their name ends in, ids and cases; None is unknown."""

    @classmethod
    def of(cls, kind: Kind, **facts: Any) -> Note:
        """The note of a kind, at the rank of that kind."""
        return cls(kind, RANKS[kind], facts)


def ranked(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes, each once, the heaviest first, those of one rank in the order given."""
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: note.rank))
