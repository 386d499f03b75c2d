"""The book of a running server: what it does, and what a change of K would gain."""

from __future__ import annotations

from advisor.answers.running import FACTS, FLAGS
from advisor.show.phrases.answer import NOTHING_FITS, OVER_LIMIT, TOO_LARGE
from advisor.show.phrases.book import Book, Phrase

_HEADLINES = (
    Phrase(
        "headline",
        "!fits at_load",
        "{too_large}. The server runs {batch:int}, so its placement, context or formats are not "
        "those assumed; give --tp, --ep, --context, --weight-dtype or --kv-dtype.",
    ),
    Phrase("headline", "!fits", "{too_large}."),
    Phrase("too_large", "nothing_fits", NOTHING_FITS),
    Phrase("too_large", "", TOO_LARGE),
    Phrase("headline", "all_over_limit", f"{OVER_LIMIT}."),
    Phrase(
        "headline",
        "same",
        "Keep K = {k_now} at batch {batch:int}: it is the K recommended at this load.",
    ),
    Phrase(
        "headline",
        "small no_gain",
        "Keep K = {k_now} at batch {batch:int}: K = {k} would gain nothing.",
    ),
    Phrase(
        "headline",
        "small",
        "Keep K = {k_now} at batch {batch:int}: K = {k} would gain only {gain:pct1}.",
    ),
    Phrase(
        "headline",
        "off",
        "Turn speculation off at batch {batch:int}: {gain:pct} faster (80% range {low:pct} to "
        "{high:pct}).",
    ),
    Phrase(
        "headline",
        "",
        "Draft {k:tokens} instead of {k_now} at batch {batch:int}: {gain:pct} faster (80% range "
        "{low:pct} to {high:pct}).",
    ),
)
PHRASES = (
    *_HEADLINES,
    Phrase("predicted", "fits at_load", "; predicted {predicted_ms:3} ms"),
    Phrase(
        "server",
        "rated",
        "{engine} at {url} runs {running:3} requests at K = {k_now}{engines_summed}: "
        "{tok_per_s:int} tokens/s, {tpot_ms:3} ms per token{predicted}.",
    ),
    Phrase(
        "server",
        "loaded",
        "{engine} at {url} runs {running:3} requests at K = {k_now}{engines_summed}.",
    ),
    Phrase("server", "", "{engine} at {url} runs K = {k_now}{engines_summed}."),
    Phrase(
        "engines_summed", "several", " ({engines} engines, summed; place them with --tp and --ep)"
    ),
    Phrase("length", "", "Accepted length {length:x2} at K = {length_k}{counted_in}."),
    Phrase("counted_in", "counted since_start", ": {rounds:int} rounds since the server started"),
    Phrase("counted_in", "counted", ": {rounds:int} rounds in {seconds:g} s"),
    Phrase("change", "same", "To switch K by batch, change on the launch line:"),
    Phrase("change", "", "To run that, change on the launch line:"),
)
BOOK = Book(PHRASES, FACTS, FLAGS)
SLOTS = ("server", "length", "headline")
