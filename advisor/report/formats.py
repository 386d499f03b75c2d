"""The formats of a report: report in, bytes out."""

from __future__ import annotations

from typing import Literal, get_args

from advisor.prediction import AdvisorError
from advisor.report.document import Report
from advisor.text import csv_text

Format = Literal["md", "html", "pdf", "json", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: dict[Format, str] = {
    "md": "text/markdown",
    "html": "text/html",
    "pdf": "application/pdf",
    "json": "application/json",
    "csv": "text/csv",
}


def render(report: Report, form: Format) -> bytes:
    """The report in one format, UTF-8 where it is text. Raises AdvisorError for an unknown format."""
    if form == "pdf":
        from advisor.report.pdf import to_pdf

        return to_pdf(report)
    if form == "html":
        from advisor.report.html import to_html

        return to_html(report).encode()
    if form == "md":
        from advisor.report.markdown import to_markdown

        return to_markdown(report).encode()
    if form == "json":
        return (report.model_dump_json(indent=2) + "\n").encode()
    if form == "csv":
        return curve_csv(report).encode()
    raise AdvisorError(f"no report format {form!r}; choose one of {', '.join(FORMATS)}")


def file_name(report: Report, form: Format) -> str:
    """A name for the file, from the scenario's hash: nothing of a user's stands in it."""
    return f"advice-{report.scenario_hash}.{form}"


def curve_csv(report: Report) -> str:
    """The whole curve as CSV, one row for each batch and K; columns: docs/report-schema.md."""
    names = list(report.curve[0].components_ms)
    rows = []
    for point in report.curve:
        row = {"scenario_hash": report.scenario_hash, **point.model_dump(mode="json", exclude={"components_ms"})}
        rows.append(row | {f"{name}_ms": point.components_ms[name] for name in names})
    return csv_text(list(rows[0]), rows)
