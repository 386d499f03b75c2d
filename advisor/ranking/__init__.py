"""Which model is best at your load: all of them on one machine, each at its best placement and K, ranked with doubt."""

from __future__ import annotations

from advisor.ranking.board import Leaderboard, Standing, leaderboard
from advisor.ranking.question import (
    BY,
    By,
    RankQuestion,
    Wanted,
    default_by,
    load_as_text,
    load_from_text,
    one_load,
    question_of,
    users_of,
)
from advisor.ranking.scores import MAX_SCORES_BYTES, Scores, read_scores
from advisor.ranking.tables import csv_rows, document, front_of, table
from advisor.ranking.words import (
    best_of_sizes,
    by_size,
    missed_texts,
    notes,
    own_place,
    placement_text,
    quality_text,
    rank_text,
    value_of,
    verdict,
)

__all__ = [
    "BY",
    "MAX_SCORES_BYTES",
    "By",
    "Leaderboard",
    "RankQuestion",
    "Scores",
    "Standing",
    "Wanted",
    "best_of_sizes",
    "by_size",
    "csv_rows",
    "default_by",
    "document",
    "front_of",
    "leaderboard",
    "load_as_text",
    "load_from_text",
    "missed_texts",
    "notes",
    "one_load",
    "own_place",
    "placement_text",
    "quality_text",
    "question_of",
    "rank_text",
    "read_scores",
    "table",
    "users_of",
    "value_of",
    "verdict",
]
