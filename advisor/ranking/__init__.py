"""Which model is best at your load: all of them on one machine, each at its best placement and K, ranked with doubt."""

from __future__ import annotations

from advisor.ranking.board import Leaderboard, Standing, leaderboard
from advisor.ranking.question import BY, By, RankQuestion, Wanted, default_by, one_load, question_of
from advisor.ranking.scores import MAX_SCORES_BYTES, read_scores
from advisor.ranking.words import by_size, csv_rows, document, missed_texts, notes, table, verdict

__all__ = [
    "BY",
    "MAX_SCORES_BYTES",
    "By",
    "Leaderboard",
    "RankQuestion",
    "Standing",
    "Wanted",
    "by_size",
    "csv_rows",
    "default_by",
    "document",
    "leaderboard",
    "missed_texts",
    "notes",
    "one_load",
    "question_of",
    "read_scores",
    "table",
    "verdict",
]
