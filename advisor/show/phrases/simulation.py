"""The book of a simulation: the load that was offered and how full the servers were."""

from __future__ import annotations

from advisor.answers.simulation.compare import LOAD_FLAGS
from advisor.show.phrases.book import Book, Phrase

LOAD = Book.of(
    Phrase("load", "", "{more} {mean}"),
    Phrase(
        "more",
        "more_requests",
        "{requests:int} requests instead of {asked_requests:int}, so that the batch is full once.",
    ),
    Phrase("more", "", ""),
    Phrase(
        "mean",
        "arrives",
        "Mean batch {spread} of {slots:int}: requests arrive at {load_share:pct} of what plain "
        "decoding could serve.",
    ),
    Phrase(
        "mean",
        "tail",
        "Mean batch {spread} of {slots:int}: the tail, when no request waits and slots empty, "
        "is included.",
    ),
    Phrase("mean", "", "Mean batch {spread} of {slots:int}."),
    Phrase("spread", "differs", "{low:1} to {high:1}, by policy,"),
    Phrase("spread", "", "{low:1}"),
    flags=LOAD_FLAGS,
)
"""Load of a simulation (`SimulationReport.facts`)."""
