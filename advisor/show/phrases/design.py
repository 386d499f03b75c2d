"""The books of a design: the one for several targets."""

from __future__ import annotations

from advisor.answers.design.targets import ONE_DESIGN_FACTS, ONE_DESIGN_FLAGS
from advisor.show.phrases.book import Book, Phrase

TARGETS = Book(
    (
        Phrase(
            "one_design",
            "!serves blocked",
            "No design serves every target; the table names what fails.",
        ),
        Phrase(
            "one_design",
            "!serves",
            "No design serves every target: each is served by another design.",
        ),
        Phrase(
            "one_design",
            "all_tied",
            "Use {design:experts}: within {tie:pct} of the best design at each target.",
        ),
        Phrase(
            "one_design",
            "",
            "Use {design:experts}: {mean_loss:pct1} behind the best design of each target on "
            "average, {worst_loss:pct1} at {worst_at}.",
        ),
        Phrase(
            "tie",
            "",
            "Within {tie:pct} counts as equal: the fit misses the kernels of an expert shape by "
            "as much. The best of a target is the best design there alone, at equal quality.",
        ),
        Phrase("memory", "", "does not fit in memory"),
        Phrase("tpot", "", "over the limit on time per token"),
        Phrase("limits", "", "no design keeps every limit"),
    ),
    ONE_DESIGN_FACTS,
    ONE_DESIGN_FLAGS,
)
