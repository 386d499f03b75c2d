"""Blocks of the parts beyond the answer itself: what to try next, designs, how the speedup was made, works cited."""

from __future__ import annotations

from advisor.report.blocks import Block, Listing, Paragraph, Table
from advisor.report.document import DesignChoice, Report, TriedChange


def try_next(report: Report) -> tuple[Block, ...]:
    """The single changes that help most, by goal."""
    if report.next_steps is None:
        return (Paragraph("Not looked up: this report was made without trying single changes."),)
    if not report.next_steps:
        return (Paragraph("No single change that was tried helps beyond noise."),)
    columns = ("By", "Change", "Gain", "Tokens/s per GPU", "Time per token", "Speedup", "Tier")
    rows = tuple(_change(item) for item in report.next_steps)
    text = (
        f"Single changes beyond noise, the best of each kind, {report.answer.band_level:.0%} bands; before and after, "
        "each at its own best K."
    )
    notes = tuple(dict.fromkeys(note for item in report.next_steps for note in item.notes))
    table = Table(columns, rows, "llrrrrl")
    return (Paragraph(text), table, Listing(notes)) if notes else (Paragraph(text), table)


def _change(item: TriedChange) -> tuple[str, ...]:
    figures = (item.tokens_per_s_per_gpu, item.tpot, item.speedup)
    return (item.goal, item.what, item.gain, *figures, str(item.tier))


def design(report: Report) -> tuple[Block, ...]:
    """The best designs at equal quality beside the scenario's own."""
    found = report.design
    assert found is not None
    columns = ("Best for", "Design", "Shared", "Speedup", "ms per token", "Gain", "Quality", "By both laws", "Tier")
    rows = tuple(_design_row(item) for item in found.choices)
    caption = (
        "Gain over the scenario's own design. Shared: share of the active experts. Quality: dense-equivalent size over "
        "its own, by the default law and by the more cautious of two."
    )
    blocks: tuple[Block, ...] = (
        Paragraph(found.text),
        Table(columns, rows, "llrrrrrrl", caption),
        Paragraph(found.binding),
    )
    return (*blocks, Listing(found.notes)) if found.notes else blocks


def _design_row(item: DesignChoice) -> tuple[str, ...]:
    return (
        item.goal,
        item.design,
        f"{item.shared_share:.0%}",
        f"{item.speedup:.2f}x",
        f"{item.tpot_ms:.2f}",
        f"{item.gain:.2f} ({item.gain_low:.2f}-{item.gain_high:.2f})",
        f"{item.quality:.1%}",
        f"{item.quality_pessimistic:.1%}",
        str(item.tier),
    )


def derivation(report: Report) -> tuple[Block, ...]:
    """The formulas behind the speedup with their numbers."""
    rows = tuple((f"{item.group}: {item.title}", item.text) for item in report.derivation)
    text = (
        f"Batch {report.scenario.batch_size:,}, K = {report.curve_k}; four digits are shown. `explain` prints all "
        "steps with their constants."
    )
    return Paragraph(text), Table(("Step", "Formula, numbers, result"), rows, "ll")


def works(report: Report) -> Listing:
    """Works behind formulas and constants, with what was taken from them."""
    return Listing(tuple(f"{item.text} {item.url} ({item.used_for})" for item in report.cited), numbered=True)
