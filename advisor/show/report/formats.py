"""The formats of a report: report in, bytes out; the JSON document is filled here, by
docs/report.schema.json."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

from advisor.answers.advice import component_times
from advisor.answers.best_k import range_values
from advisor.answers.explore.changes import DesignStanding
from advisor.predict.curve import curve_rows
from advisor.predict.scenario import SCHEMA_VERSION, Scenario
from advisor.prediction import AdvisorError
from advisor.show.explain.steps import step_text
from advisor.show.phrases.notes import note_texts
from advisor.show.report.basis import LIMITS
from advisor.show.report.blocks import (
    Block,
    Code,
    FigureBlock,
    Format,
    Listing,
    Paragraph,
    TableBlock,
)
from advisor.show.report.build import Report
from advisor.show.report.layout import ERRORS, if_any, key_figures, sections
from advisor.show.report.sections import (
    cited_works,
    context_texts,
    design_table,
    printed,
    ranks_values,
    shown_steps,
    sweep_values,
    tried,
    what_binds,
)
from advisor.show.table import Table
from advisor.show.words.answer import accepted_lengths, answer_document, context_values
from advisor.show.words.compare import CHANGES
from advisor.show.words.design import space_notes, standing_text
from advisor.show.words.diagnosis import DiagnosisView
from advisor.show.words.explain import NAMED
from advisor.show.words.leaderboard import document as board_document
from advisor.show.words.load import map_document, spend_document
from advisor.text import csv_text, json_values, printable

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def to_pdf(report: Report, *, brief: bool) -> bytes:
    """The whole report on paper, or its one page, without the link where that would take
    another."""
    from advisor.show.report.layout import brief_sections, brief_title
    from advisor.show.report.paper import typeset_pdf

    if not brief:
        return typeset_pdf(report, sections(report), report.verdict)
    page_pdf = typeset_pdf(report, brief_sections(report), brief_title(report))
    bare = len(_PAGE.findall(page_pdf)) > 1
    return (
        typeset_pdf(report, brief_sections(report, linked=False), brief_title(report))
        if bare
        else page_pdf
    )


_PAGE = re.compile(rb"/Type\s*/Page\b")
"""A page of a PDF."""


def to_markdown(report: Report) -> str:
    """The whole report as Markdown, with charts as the sentence that says what they show."""
    lines = [
        f"# {escape(report.verdict)}",
        "",
        f"*{report.date.isoformat()}, scenario {report.scenario.hash}*",
        "",
    ]
    figures = tuple((label, f"{value} ({note})") for label, value, note in key_figures(report))
    lines += _table(TableBlock(("At the target batch", "Value"), figures, "ll"))
    for section in sections(report):
        lines += ["", f"## {escape(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block(block)] if not isinstance(block, FigureBlock) else []
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """A text on one line such that CommonMark shows it letter by letter.

    Markup characters get a backslash, HTML's an entity; a colon before a letter too, since some
    readers make icons of `:word:`, unless it belongs to a web address.
    """
    flat = " ".join(text.split())
    flat = re.sub(r"([\\`*_{}\[\]#|~$!^])", r"\\\1", flat)
    flat = re.sub(r":(?=[A-Za-z])", r"\\:", flat)
    flat = re.sub(
        r"\A(\d*)([-+=]|[.)](?=\s))", r"\1\\\2", flat
    )  # no list and no heading rule where a line begins
    return re.sub(r"[&<>]", lambda match: _ENTITIES[match[0]], flat)


def _block(block: Block) -> list[str]:
    match block:
        case Paragraph(text):
            return [escape(text)]
        case Listing(items, numbered):
            marks = [f"{number}." if numbered else "-" for number in range(1, len(items) + 1)]
            return [f"{mark} {escape(text)}" for mark, text in zip(marks, items, strict=True)]
        case TableBlock():
            return _table(block)
        case Code():
            return markdown_code(block)
        case FigureBlock():
            return []


def _table(table: TableBlock) -> list[str]:
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


def render(report: Report, form: Format, *, brief: bool = False) -> bytes:
    """The report in a format, UTF-8 where text. `brief`: a PDF of one page. Raises AdvisorError for
    an unknown one."""
    if form == "pdf":
        try:
            return to_pdf(report, brief=brief)
        except ModuleNotFoundError as error:
            raise AdvisorError(
                f"PDF needs the package {error.name}, which is not installed; install "
                "requirements.txt, or choose md"
            ) from error
    if form == "md":
        return to_markdown(report).encode()
    if form == "json":
        return (
            json.dumps(document_of(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode()
    if form == "csv":
        rows = [
            {"scenario_hash": report.scenario.hash, **row}
            for row in curve_rows(report.advice.curve)
        ]
        return csv_text(list(rows[0]), rows).encode()
    raise AdvisorError(f"no report format {form!r}; choose md, pdf, json or csv")


def file_name(scenario: Scenario, form: Format, date: dt.date) -> str:
    """A name for the file: model, accelerator, date and hash. Nothing of a user's own stands in
    it."""
    subject = "" if scenario.is_private else f"{scenario.model_id}-{scenario.hardware_id}-"
    return f"advice-{subject}{date}-{scenario.hash}.{form}"


def document_of(report: Report) -> dict[str, Any]:
    """The JSON report as JSON types, by docs/report.schema.json.

    Floats have six significant digits, but those of the scenario and of constants. Same scenario,
    data, package versions and date: the same document. None of a section: not asked for or looked
    up.
    """
    advice = report.advice
    figures = answer_document(report.advice, report.facts)
    answer = figures | {
        "because": printable(figures["because"]),
        "band_level": advice.band_level,
        "largest_batch_that_fits": advice.setup.memory.largest_batch,
    }
    question = {
        "share_query": report.share_query,
        "question": report.question,
        "settings": [{"label": label, "value": value} for label, value in report.settings.items()],
        "verdict": report.verdict,
        "answer": answer,
    }
    by_batch = {
        "curve_k": advice.curve_k,
        "sweet_spot_batch": int(advice.sweet_spot_batch),
        "break_even_batch": advice.break_even_batch,
        "curve": _curve(report),
        "schedule": [range_values(item) for item in advice.k_by_batch],
        "k_by_context": if_any(context_values, report.k_by_context),
    }
    validation = report.validation
    engine_values = [
        {**vars(engine), "warnings": note_texts(engine.notes, "bare")} for engine in report.engines
    ]
    for values in engine_values:
        values |= {"file_name": values["file_name"] or ""}
        del values["config"]
    use = {
        "engines": engine_values,
        "check_commands": report.checks,
        "components": component_times(advice),
        "accepted_lengths": accepted_lengths(advice.setup.acceptance).records(),
        "assumptions": report.assumptions,
        "warnings": report.warnings,
        "notes": report.advice.notes,
        "limits": LIMITS,
        "validation": None
        if validation is None
        else Table(ERRORS, [*validation.items()]).records(),
    }
    derivation = [
        {"group": step.group, "title": printable(step.title), "text": printable(step_text(step))}
        for step in shown_steps(advice)
    ]
    cited = [
        {"text": text, "url": url, "used_for": used} for text, url, used in cited_works(report)
    ]
    reference = {
        "derivation": derivation,
        "cited": cited,
        "sources": report.sources,
        "versions": report.versions,
    }
    constants = Table(NAMED, [*report.constants.items()]).records()
    return {
        "schema_version": SCHEMA_VERSION,
        "date": report.date.isoformat(),
        "scenario": report.scenario.model_dump(mode="json"),
        "scenario_hash": report.scenario.hash,
        **json_values(question | by_batch | use | _sections(report) | reference),
        "constants": [constant | {"date": constant["date"].isoformat()} for constant in constants],
    }


def _sections(report: Report) -> dict[str, Any]:
    """Answers to further questions, each None where it was not asked."""
    context_map = report.over_context
    over_context = None
    if context_map is not None:
        over_context = {
            "says": context_texts(report.scenario, context_map),
            **map_document(context_map),
        }
    steps = report.steps
    next_steps = None if steps is None else Table(CHANGES, tried(steps)).records()
    return {
        "design": if_any(_design, report.standing),
        "next_steps": next_steps,
        "spend": if_any(spend_document, report.spend),
        "over_context": over_context,
        "other_models": printed(if_any(board_document, report.board)),
        "expert_ranks": printed(if_any(ranks_values, report.ranks)),
        "design_regions": None,
        "sweep": printed(if_any(sweep_values, report.swept)),
        "diagnosis": if_any(_diagnosis, report.diagnosis),
    }


def _curve(report: Report) -> list[dict[str, Any]]:
    """Points of the curve with their components apart."""
    parts = {f"{name}_ms": name for name in report.advice.curve.round_components}
    return [
        {"ttft_ms": None}
        | {name: value for name, value in row.items() if name not in parts}
        | {"components_ms": {name: row[column] for column, name in parts.items()}}
        for row in curve_rows(report.advice.curve)
    ]


def _design(standing: DesignStanding) -> dict[str, Any]:
    return {
        "text": printable(standing_text(standing)),
        "binding": what_binds(standing),
        "choices": design_table(standing).records(),
        "notes": [printable(note) for note in space_notes(standing.space)],
    }


def _diagnosis(view: DiagnosisView) -> dict[str, Any]:
    names = ("sentence", "until", "findings")
    return {name: getattr(view, name) for name in names} | {
        "verdict": view.verdict.case,
        "command": view.command["text"] if view.command else "",
        "not_judged": [f"{title}: needs {needs}" for title, needs in view.not_judged],
    }
