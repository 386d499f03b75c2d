"""The book of K by batch: what it gains over one K, what its K = 0 means, and by which rule it was
chosen."""

from __future__ import annotations

from dataclasses import fields

from advisor.answers.by_context import CONTEXT_FLAGS
from advisor.answers.schedule import SCHEDULE_FLAGS, ScheduleFacts
from advisor.show.phrases.book import Book, Phrase

PHRASES = (
    Phrase("enough", "!drafts", "Speculation pays at no batch: K = 0."),
    Phrase(
        "enough",
        "!serves_drafts",
        "One K is enough: 0; a server without speculation loses least (mean over batch doublings).",
    ),
    Phrase("enough", "single", "One K is enough: {single_k} at every batch up to {last:int}."),
    Phrase(
        "enough",
        "one_is_enough costs_much",
        "K by batch is not worth its drafter: over all batches up to {last:int} no speculation is "
        "faster (mean over batch doublings).",
    ),
    Phrase(
        "enough",
        "one_is_enough costs",
        "One K is enough: {best_alone} at every batch up to {last:int} costs {cost:pct1} (mean "
        "over batch doublings).",
    ),
    Phrase(
        "enough",
        "one_is_enough",
        "One K is enough: {best_alone} at every batch up to {last:int}, at no cost.",
    ),
    Phrase(
        "enough",
        "",
        "K by batch gains {gain:pct1} over the best single K, {best_static_k}, up to batch "
        "{last:int} (mean over batch doublings).",
    ),
    Phrase("zero", "!zero", ""),
    Phrase(
        "zero",
        "zero_here",
        "K = 0 is a server without speculation; start one where it mostly runs at batch "
        "{batch:int}. {server} drafter would still run once per step, {zero_slower:pct1} slower.",
    ),
    Phrase(
        "zero",
        "",
        "K = 0 is a server without speculation; start one where it mostly runs at batch "
        "{zero_ranges:spans}. {server} drafter would still run once per step.",
    ),
    Phrase(
        "server",
        "zero_drafts",
        "One server for all batches runs K = {zero_running} there: at K = 0 its",
    ),
    Phrase("server", "", "One server for all batches drafts nothing there either, but its"),
    Phrase(
        "alone",
        "kept",
        "At batch {batch:int} alone K = {best_alone} is best; with its neighbors K by batch runs "
        "K = {scheduled} there.",
    ),
    Phrase(
        "without",
        "off serves_drafts",
        "At batch {batch:int} no drafting is recommended: the engine starts without speculation; "
        "export --by-batch writes K by batch.",
    ),
    Phrase(
        "rule",
        "",
        "The K of least expected loss at each batch; it switches only where that saves "
        "{switch_cost:pct} over a doubling of the batch. {limit}",
    ),
    Phrase(
        "limit",
        "limited",
        "K that miss {limit_ms:g} ms per token are left out, unless all do ('no').",
    ),
)
BOOK = Book(PHRASES, frozenset(field.name for field in fields(ScheduleFacts)), SCHEDULE_FLAGS)
CONTEXT_CHANGES = "K changes with context: {cases:contexts}."
CONTEXT = Book.of(
    Phrase("context", "!others", ""),
    Phrase("context", "matters", CONTEXT_CHANGES + " {gain}"),
    Phrase(
        "context",
        "",
        "K hardly changes with context: from {first:int} to {last:int} tokens this schedule costs "
        "at most {most:pct1} more than at its own, at any batch that fits. {gain}",
    ),
    Phrase(
        "gain",
        "gain_moves",
        "The speedup at batch {batch:int} goes from {shortest_gain:x} at {shortest:int} tokens to "
        "{longest_gain:x} at {longest:int}.",
    ),
    flags=CONTEXT_FLAGS,
)
"""K by batch at other contexts (`KByContext.facts`)."""
COMMAND = Book.of(
    Phrase("problem", "", "{engine_name}: {problem}."),
    Phrase("fixed", "fixed_k", "{engine_name} cannot vary K here: this batch's K is set for all."),
    Phrase(
        "requests",
        "admits full",
        "{admitted:int} requests: all that fit in memory at this context.",
    ),
    Phrase("requests", "admits", "{admitted:int} requests: where K by batch ends."),
    Phrase(
        "hint",
        "has_table vllm",
        "num_speculative_tokens_per_batch_size: [first batch, last batch, K]",
    ),
    Phrase("hint", "has_table", "candidate_steps: K from that batch on"),
    flags={"admits": ("admitted", "known", None), "vllm": ("engine", "==", "vllm")},
)
"""What stands below a launch command."""
TEXTS = ("enough", "zero", "alone")
"""Slots on the gain of K by batch over one K, a sentence or two each."""
