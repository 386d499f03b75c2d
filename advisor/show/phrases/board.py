"""The books of a leaderboard: the best, its doubt, a model's place, what keeps others off."""

from __future__ import annotations

from dataclasses import fields

from advisor.answers.explore.entrants import Basis
from advisor.answers.explore.leaderboard import BOARD_FACTS, BOARD_FLAGS, ExcludedModel
from advisor.answers.flags import Flags
from advisor.show.phrases.book import Book, Phrase

BOARD = Book(
    (
        Phrase(
            "best",
            "!ranked near",
            "No model serves {load}{under} on {machine}. The nearest is {nearest:model} with "
            "{nearest_ms:1} ms at best.",
        ),
        Phrase("best", "!ranked", "No model serves {load}{under} on {machine}."),
        Phrase(
            "best",
            "",
            "{merit}{under} at {load} on {machine}: {model:model} on {placement}{of_all}, "
            "{value}; first in {p_first:cases}{within}.",
        ),
        Phrase("load", "one_load one_user", "1 user"),
        Phrase("load", "one_load", "{users_high:int} users"),
        Phrase("load", "", "{users_low:int} to {users_high:int} users"),
        Phrase("under", "limited", " under {limit_ms:g} ms per token"),
        Phrase("machine", "several_gpus", "{n_gpus} x {place}"),
        Phrase("machine", "", "{place}"),
        Phrase("merit", "by_cost", "Cheapest"),
        Phrase("merit", "by_throughput", "Most tokens/s per GPU"),
        Phrase("merit", "by_speed", "Fastest"),
        Phrase("merit", "", "Least energy"),
        Phrase("value", "by_cost", "{figure:band} USD per million output tokens"),
        Phrase("value", "by_throughput", "{figure:band} tokens/s per GPU"),
        Phrase("value", "by_speed", "{figure:ms_band} ms per output token"),
        Phrase("value", "", "{figure:band} J per output token"),
        Phrase("placement", "alone one_copy", "1 GPU"),
        Phrase("placement", "alone", "{copies} GPUs"),
        Phrase("placement", "one_copy", "{ranks}"),
        Phrase("placement", "", "{copies} copies of {ranks}"),
        Phrase("ranks", "on_experts", "TP {tensor} EP {expert}"),
        Phrase("ranks", "", "TP {tensor}"),
        Phrase("of_all", "uses_all", ""),
        Phrase("of_all", "alone", " of {n_gpus:int}"),
        Phrase("of_all", "", " ({gpus} of {n_gpus:int} GPUs)"),
        Phrase("within", "limited !keeps_limit", ", and within the limit in {p_limit:cases}"),
        Phrase("quality", "!favors_small", ""),
        Phrase("quality", "", "Smaller models {smaller}: quality is not compared; {remedy}."),
        Phrase("smaller", "by_cost", "are cheaper"),
        Phrase("smaller", "by_throughput", "write more tokens"),
        Phrase("smaller", "by_speed", "are faster"),
        Phrase("smaller", "", "take less energy"),
        Phrase("remedy", "", "set a least size or bring scores"),
        Phrase("of_size", "", "{model:model} on {placement}, {value}"),
        Phrase("rank", "certain_rank", "{rank_low:ordinal}"),
        Phrase("rank", "", "{rank_low:ordinal} to {rank_high:ordinal}"),
        Phrase(
            "own",
            "undrafted",
            "{model:model} stands {rank} of {n_ranked}, ranked without a drafter: it has no "
            "measured accepted length.",
        ),
        Phrase(
            "own",
            "",
            "{model:model} stands {rank} of {n_ranked}, ranked with {drafter:drafter}, whose "
            "accepted length is {accepted}.",
        ),
        Phrase(
            "total",
            "min_total max_total",
            "with at least {min_total:billions} and at most {max_total:billions} parameters",
        ),
        Phrase("total", "min_total", "with at least {min_total:billions} parameters"),
        Phrase("total", "max_total", "with at most {max_total:billions} parameters"),
        Phrase(
            "active",
            "min_active max_active",
            "with at least {min_active:billions} and at most {max_active:billions} active "
            "parameters",
        ),
        Phrase("active", "min_active", "with at least {min_active:billions} active parameters"),
        Phrase("active", "max_active", "with at most {max_active:billions} active parameters"),
        Phrase("names", "names_chosen", "chosen by name"),
        Phrase("scores", "scores_chosen", "left by the table of scores"),
        Phrase("accepted_lengths", "!ranked", ""),
        Phrase("accepted_lengths", "", "Accepted lengths: {drafting_models}{undrafted_models}."),
        Phrase("drafting_models", "some_drafting", "{drafting:counts}"),
        Phrase("undrafted_models", "some_undrafted", "{semicolon}{undrafted_count}{undrafted_why}"),
        Phrase("semicolon", "some_drafting", "; "),
        Phrase("undrafted_count", "one_undrafted", "1 model decodes without speculation"),
        Phrase("undrafted_count", "", "{n_undrafted:int} models decode without speculation"),
        Phrase("undrafted_why", "!drafter_given", ", without a known drafter"),
        Phrase(
            "other_text",
            "ranked !task_known",
            "Text of another kind is accepted differently: state yours (--task, Kind of text).",
        ),
        Phrase("price", "priced", "Price: {usd_per_hour:g} USD per GPU-hour ({price_origin})."),
        Phrase(
            "searched",
            "whole_machine",
            "Placement: tensor parallelism within a node and copies are searched; every GPU of "
            "the machine is used and paid.",
        ),
        Phrase(
            "searched",
            "",
            "Placement: tensor parallelism within a node and copies are searched; only the GPUs "
            "that serve are paid, unless the whole machine is asked for.",
        ),
        Phrase(
            "experts",
            "experts_searched",
            "Expert parallelism is searched as asked, although its effect was predicted in the "
            "right direction in few measured pairs (docs/validation.md) and its imbalance "
            "follows an assumed formula.",
        ),
        Phrase(
            "doubt",
            "",
            "The range of a rank holds 80% of the simulated cases: errors of the machine are "
            "shared by "
            "all models, those of a model's experts, acceptance and absolute time are not. "
            "Formats are those of the releases.",
        ),
        Phrase("judged", "", "Quality is not judged: scores, where there are any, are yours."),
    ),
    BOARD_FACTS,
    BOARD_FLAGS,
)
FILTERS = ("total", "active", "names", "scores")
"""Slots on who takes part, joined by and."""
NOTES = ("price", "searched", "experts", "doubt", "judged")
"""Slots of the notes after those on accepted lengths."""
_REASONS = {
    "scores": "left out by the table of scores",
    "total": "total size outside the limits asked for",
    "active": "active size outside the limits asked for",
    "refused": "cannot be served here",
    "context": "context over the model's limit",
    "memory": "does not fit in memory",
    "slow": "misses the limit on time per token",
}
_REASON_FLAGS: Flags = {
    **{case: ("reason", "==", case) for case in _REASONS},
    "none_fits": ("limit", "==", 0),
}
REASONS = Book(
    (
        *(Phrase("reason", case, text) for case, text in _REASONS.items()),
        Phrase("detail", "refused", "{error}"),
        Phrase("detail", "context", "at most {limit:int} tokens"),
        Phrase("detail", "memory none_fits", "neither its weights nor a sequence fit"),
        Phrase("detail", "memory", "batch {limit:int} at most"),
        Phrase("detail", "slow", "{limit:1} ms at best"),
    ),
    frozenset(field.name for field in fields(ExcludedModel)),
    _REASON_FLAGS,
)
_BASIS_FLAGS: Flags = {
    "given": ("accepted", "==", "given"),
    "lent": ("n_heads", ">", 0),
    "measured": ("source", "known", None),
    "remarked": ("remarks", "!=", ()),
}
BASIS = Book(
    (
        Phrase("basis", "given", "as given for every model{remarks_text}"),
        Phrase(
            "basis",
            "lent",
            "borrowed: the median of {n_heads} measured MTP heads ({heads:commas}; text: "
            "{tasks:commas}){remarks_text}",
        ),
        Phrase("basis", "measured", "{dataset}: {source}{remarks_text}"),
        Phrase("basis", "", "no drafter with a measured accepted length{remarks_text}"),
        Phrase("remarks_text", "remarked", "; {remarks:semicolons}"),
    ),
    frozenset(field.name for field in fields(Basis)) | {"n_heads"},
    _BASIS_FLAGS,
)
