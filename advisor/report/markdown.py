"""A report as Markdown (CommonMark with pipe tables). Nothing in it is read as markup or HTML unless it is ours."""

from __future__ import annotations

import re

from advisor.report.blocks import Block, Code, FigureBlock, Listing, Paragraph, Table
from advisor.report.build import Report
from advisor.report.layout import key_figures, sections

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def to_markdown(report: Report) -> str:
    """The whole report as Markdown, with charts as the sentence that says what they show."""
    lines = [f"# {escape(report.verdict)}", "", f"*{report.date.isoformat()}, scenario {report.scenario.hash}*", ""]
    figures = tuple((label, f"{value} ({note})") for label, value, note in key_figures(report))
    lines += _table(Table(("At the target batch", "Value"), figures, "ll"))
    for section in sections(report):
        lines += ["", f"## {escape(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block(block)] if not isinstance(block, FigureBlock) else []
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """A text on one line such that CommonMark shows it letter by letter.

    Markup characters get a backslash, HTML's an entity; a colon before a letter too, since some readers make icons of
    `:word:`, unless it belongs to a web address.
    """
    flat = " ".join(text.split())
    flat = re.sub(r"([\\`*_{}\[\]#|~$!^])", r"\\\1", flat)
    flat = re.sub(r":(?=[A-Za-z])", r"\\:", flat)
    flat = re.sub(r"\A(\d*)([-+=]|[.)](?=\s))", r"\1\\\2", flat)  # no list and no heading rule where a line begins
    return re.sub(r"[&<>]", lambda found: _ENTITIES[found[0]], flat)


def _block(block: Block) -> list[str]:
    match block:
        case Paragraph(text):
            return [escape(text)]
        case Listing(items, numbered):
            return [f"{f'{n}.' if numbered else '-'} {escape(item)}" for n, item in enumerate(items, start=1)]
        case Table():
            return _table(block)
        case Code():
            return markdown_code(block)
        case FigureBlock():
            return []


def _table(table: Table) -> list[str]:
    rule = ["---" if letter == "l" else "---:" for letter in table.align]
    head = [f"{escape(table.caption)}", ""] if table.caption else []
    return [*head, _row(table.columns), f"|{'|'.join(rule)}|", *(_row(row) for row in table.rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(escape(cell) for cell in cells)} |"


def markdown_code(code: Code) -> list[str]:
    """A fence longer than any run of backticks inside, so that the text cannot close it."""
    longest = max((len(run) for run in re.findall(r"`+", code.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{escape(code.caption)}:", "", fence, code.text, fence]
