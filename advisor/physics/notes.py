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
    """Weight of a note, the heaviest first."""

    BLOCKS = 0
    """What is asked about does not start, or does not fit."""
    CHANGES = 1
    """Steps run otherwise than they are charged, or are charged much, or every number rests on a
    refit that was rejected: the answer may change."""
    OWN = 2
    """Data of the user's own is used, or is not."""
    REMARK = 3
    """The answer stands, with a wider range or an assumption."""
    NOTICE = 4
    """Nothing to heed."""


Blocks = Literal[
    "weights_too_large",
    "sequence_too_large",
    "batch_too_large",
    "split_blocks",
    "model_to_name",
    "drafter_to_name",
]
Changes = Literal[
    "refit_forced",
    "graphs_unread",
    "graphs_in_pieces",
    "graph_mode_unknown",
    "graph_missing",
    "guard_void",
]
Own = Literal["sweep_of_other", "sweep_unsteady", "sweep_used"]
OfModel = Literal[
    "read",
    "published_in_blocks",
    "parts_in_bf16",
    "context_too_long",
    "engines_immature",
    "format_converted",
    "format_unlisted",
    "weights_to_name",
    "length_carried",
    "length_borrowed",
    "length_extrapolated",
    "top_1_unmeasured",
]
OfRanks = Literal[
    "copies",
    "network_charged",
    "network_unknown",
    "ranks_beyond_node",
    "ranks_beyond_measured",
    "trace_dense",
    "trace_too_short",
    "trace_few_sequences",
    "trace_never_chosen",
    "trace_not_halved",
    "trace_of_few",
    "loads_of_some_layers",
    "experts_without_load",
    "copies_change_nothing",
    "imbalance_assumed",
    "imbalance_counted",
    "layout_planned",
]
OfKernels = Literal[
    "release_host_time",
    "same_chip",
    "heads_apart",
    "kernels_borrowed",
    "kernels_unmeasured",
    "cache_rate_assumed",
    "cache_time_assumed",
    "sparse_cache_in_16_bits",
    "shape_untuned",
    "layers_borrowed",
    "layers_with_gaps",
    "kernel_cliff",
    "graph_padding",
    "outside_data",
]
OfServing = Literal[
    "over_limit",
    "longest_k",
    "limit_passed",
    "k_by_context",
    "schedule_ends",
    "schedule_of_engine",
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
    "dspark_stages",
    "guard",
]
Notices = Literal["guard_safe", "rules_checked"]
Remarks = Literal[OfModel, OfRanks, OfKernels, OfServing]
Kind = Literal[Blocks, Changes, Own, Remarks, Notices]
"""What a note is on; one phrase or more each in show/phrases/notes.py."""
RANKS: dict[Kind, Rank] = {
    **dict.fromkeys(get_args(Blocks), Rank.BLOCKS),
    **dict.fromkeys(get_args(Changes), Rank.CHANGES),
    **dict.fromkeys(get_args(Own), Rank.OWN),
    **dict.fromkeys(get_args(Remarks), Rank.REMARK),
    **dict.fromkeys(get_args(Notices), Rank.NOTICE),
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
