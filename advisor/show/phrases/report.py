"""The book of the report: what stands beside the answer's own sentences, slot by slot."""

from __future__ import annotations

from advisor.show.phrases.book import Book, Phrase

BOOK = Book.of(
    Phrase(
        "components",
        "",
        "At batch {batch:int} a baseline step takes {baseline_ms:x2} ms and emits one token "
        "per sequence; a round with K = {k} takes {round_ms:x2} ms and emits {emitted:x2}. "
        "Most of the round is {component}: {component_ms:x2} ms.",
    ),
    Phrase(
        "nearest",
        "",
        "On {n} published speedups of {group}, on any number of GPUs, each laboratory counting "
        "alike, these predictions (with a wider range where a run does not state its accepted "
        "length) were off by {median:share} at the median, on the right side of 1× in "
        "{right:share} and inside the 80% range in {inside:share}.",
    ),
    Phrase(
        "validation",
        "!looked_up",
        "Not looked up: this report was made without comparing with published measurements.",
    ),
    Phrase(
        "validation",
        "!compared",
        "No published measurement could be predicted and compared.",
    ),
    Phrase("validation", "near", "{validation_of}"),
    Phrase(
        "validation",
        "",
        "{validation_of} None of them is on this accelerator or of this model.",
    ),
    Phrase("validation_of", "", "Errors of these predictions on speedups that others published."),
    Phrase(
        "checks",
        "has_checks",
        "These vLLM commands measure what is predicted here, with the accepted length imposed, "
        "so that the cost model alone is tested. Drop their output on Measure.",
    ),
    Phrase("checks", "", "No commands: K = 0 is recommended, or vLLM cannot run this drafter."),
    Phrase("identity", "", "Scenario {hash}, {date}. Versions: {versions}."),
    Phrase("opens", "is_local", "Opens in the app; write your server's address for {host}"),
    Phrase("opens", "", "Opens in the app"),
    Phrase(
        "opens_not",
        "",
        "The link is too long to print, for what it carries of your own; the JSON report "
        "restores the scenario.",
    ),
    Phrase("own", "", "{decided} The command below follows these runs of yours."),
    Phrase("pass_on", "", "Pass it on: {answer}"),
    Phrase("answer", "", "{headline:inline}"),
    Phrase(
        "setup",
        "",
        "{model_id:model} · {gpus} × {accelerator} · {engine} · {drafter_id:drafter} · "
        "{context:int} tokens of context, batch {batch:int}.",
    ),
    Phrase("link", "", "The link"),
    Phrase(
        "amber",
        "decided",
        "Your own runs decide: {decided} Files say so; the link carries the model alone.",
    ),
    Phrase(
        "amber",
        "is_local",
        "The link opens on this computer alone. For others: the HTML file, whose sliders work "
        "without a server, or the JSON report, which restores everything.",
    ),
    Phrase("no_link", "", "This scenario is too long for a link: pass on the JSON report instead."),
    Phrase("elsewhere", "", "The launch line on {engine} is in the full report."),
    flags={"decided": ("decided", "!=", "")},
)
LIVE_FILE = Book.of(
    Phrase(
        "place", "", "{what} on {gpus} × {accelerator}, {engine}, context {context:int}. {date}."
    ),
    Phrase("other_title", "", "Get the launch command"),
    Phrase(
        "other_note",
        "private",
        "The launch command at another accepted length: `advisor advise` with your own file and "
        "--accepted-length.",
    ),
    Phrase("other_note", "", "It writes the launch command at this accepted length."),
)
"""The answer as a file that lives."""
GALLERY = Book.of(
    Phrase("title", "", "Where drafting gains most"),
    Phrase(
        "intro",
        "",
        "{n} setups, predicted by version {version} on {date}: speedup over no speculation by "
        "batch, 1 to {largest:int} on a logarithmic axis, with the 80% range. The dot is the sweet "
        "spot, where a step loads most experts anyway. Each opens as a live answer with its "
        "command.",
    ),
    Phrase("where", "", "{gpus} × {accelerator}, {engine}"),
    Phrase("spot_text", "has_spot", "Sweet spot: {spot:x} at batch {spot_batch:int}"),
    Phrase("spot_text", "", "No sweet spot: {first:x} at batch 1"),
    Phrase(
        "label",
        "",
        "Speedup by batch: {first:x} at batch 1, {end:x} at batch {end_batch:int}. {spot_text}.",
    ),
    flags={"has_spot": ("spot", "known", None)},
)
"""The index of `make gallery`."""
