"""The section on a measured run that was diagnosed, for reports that were given one."""

from __future__ import annotations

from advisor.diagnosis import COMPARED_COLUMNS, WANTED_COLUMNS, DiagnosisView
from advisor.report.blocks import Block, Listing, Paragraph, Table

_SHOWN_RUNS = 4
_SHOWN_WANTS = 8


def diagnosed(found: DiagnosisView) -> tuple[Block, ...]:
    """Verdict, findings with evidence and remedy, runs beside their prediction, what to collect."""
    blocks: list[Block] = [Paragraph(found.sentence)]
    for one in found.findings:
        lines = [
            f"Found in {one.where}: {'; '.join(one.evidence)}.",
            *(f"Differs: {text}." for text in one.differs),
            f"Why: {one.because}.",
            f"Instead: {one.fix}",
            f"Published case: {one.source}.",
        ]
        blocks += [Paragraph(f"{one.title[0].upper()}{one.title[1:]}."), Listing(tuple(lines))]
    for run in found.comparisons[:_SHOWN_RUNS]:
        blocks += [Table(COMPARED_COLUMNS, run.rows, "lrrrr", run.title), Paragraph(f"{run.parts}.")]
    if found.gaps:
        blocks.append(Listing(found.gaps[:_SHOWN_RUNS]))
    if found.wanted:
        said = f"{len(found.clean)} rules were checked and found nothing; {len(found.not_judged)} lack data."
        blocks += [Paragraph(said), Table(WANTED_COLUMNS, found.wanted[:_SHOWN_WANTS], "lr")]
    return tuple(blocks)
