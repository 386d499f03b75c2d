"""The formats of a report: report in, bytes out; and the JSON document, filled here and nowhere else."""

from __future__ import annotations

from typing import Any, Literal, get_args

from advisor.advice import answer_values, component_times
from advisor.curve import curve_rows
from advisor.explain import step_text
from advisor.next_steps import GOALS, DesignStanding, change_text, gain_text
from advisor.prediction import AdvisorError
from advisor.report.build import LIMITS, Report
from advisor.report.document import DesignChoice, ReportDocument, UsedConstant
from advisor.report.further import best_designs, cited_works, shown_steps, tried, what_binds
from advisor.report.load import load_values
from advisor.report.ranks import ranks_values
from advisor.report.regions import regions_values
from advisor.report.sweep import sweep_values
from advisor.runtime import context_values, range_values
from advisor.scenario import Scenario
from advisor.text import MERITS, csv_text, json_values, printable

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
        try:
            from advisor.report.pdf import to_pdf
        except ModuleNotFoundError as error:
            raise AdvisorError(
                f"a PDF needs the package {error.name}, which is not installed; install requirements.txt, or choose "
                "html or md"
            ) from error

        return to_pdf(report)
    if form == "html":
        from advisor.report.html import to_html

        return to_html(report).encode()
    if form == "md":
        from advisor.report.markdown import to_markdown

        return to_markdown(report).encode()
    if form == "json":
        return (document_of(report).model_dump_json(indent=2) + "\n").encode()
    if form == "csv":
        return curve_csv(report).encode()
    raise AdvisorError(f"no report format {form!r}; choose one of {', '.join(FORMATS)}")


def file_name(scenario: Scenario, form: Format) -> str:
    """A name for the file, from the scenario's hash: nothing of a user's stands in it."""
    return f"advice-{scenario.hash}.{form}"


def curve_csv(report: Report) -> str:
    """The whole curve as CSV, one row for each batch and K.

    Its columns are described in docs/report-schema.md.
    """
    rows = [{"scenario_hash": report.scenario.hash, **row} for row in curve_rows(report.advice.curve)]
    return csv_text(list(rows[0]), rows)


def document_of(report: Report) -> ReportDocument:
    """The JSON report: floats with six significant digits."""
    advice = report.advice
    same = ("share_query", "question", "verdict", "engines", "assumptions", "warnings", "sources", "versions")
    values = {name: getattr(report, name) for name in same} | {
        "answer": _answer(report),
        "curve_k": advice.curve_k,
        "sweet_spot_batch": int(advice.sweet_spot_batch),
        "break_even_batch": advice.break_even_batch,
        "curve": _curve(report),
        "schedule": [range_values(item) for item in advice.k_by_batch],
        "k_by_context": None if report.k_by_context is None else context_values(report.k_by_context),
        "check_commands": report.checks,
        "components": component_times(advice),
        "accepted_lengths": _accepted_lengths(report),
        "limits": LIMITS,
        "validation": _errors(report),
        "design": None if report.standing is None else _design(report.standing),
        "next_steps": _next_steps(report),
        **load_values(report),
        **ranks_values(report.ranks),
        **regions_values(report.regions),
        **sweep_values(report.swept),
        "diagnosis": _diagnosis(report),
        "derivation": [
            {"group": step.group, "title": printable(step.title), "text": printable(step_text(step))}
            for step in shown_steps(advice)
        ],
        "cited": [{"text": text, "url": url, "used_for": used} for text, url, used in cited_works(report)],
    }
    return ReportDocument(
        date=report.date,
        scenario=report.scenario,
        scenario_hash=report.scenario.hash,
        settings=report.settings,
        constants=tuple(
            UsedConstant(name=name, **constant.model_dump(exclude={"note"}))
            for name, constant in report.constants.items()
        ),
        **json_values(values),
    )


def _answer(report: Report) -> dict[str, Any]:
    values = answer_values(report.advice)
    return values | {
        "because": printable(values["because"]),
        "band_level": report.advice.band_level,
        "largest_batch_that_fits": report.advice.setup.memory.largest_batch,
    }


def _curve(report: Report) -> list[dict[str, Any]]:
    """Points of the curve with their components apart."""
    parts = {f"{name}_ms": name for name in report.advice.curve.round_components}
    return [
        {name: value for name, value in row.items() if name not in parts}
        | {"components_ms": {name: row[column] for column, name in parts.items()}}
        for row in curve_rows(report.advice.curve)
    ]


def _accepted_lengths(report: Report) -> list[dict[str, Any]]:
    given = report.advice.setup.acceptance
    columns = {
        "n_draft": range(given.accepted_length.size),
        "accepted_length": given.accepted_length,
        "low": given.low,
        "high": given.high,
        "extrapolated": given.extrapolated,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _errors(report: Report) -> list[dict[str, Any]] | None:
    if report.validation is None:
        return None
    return [
        {
            "group": group,
            "n": errors.n,
            "median_error": errors.median_ape,
            "p90_error": errors.p90_ape,
            "sign_right": errors.sign_accuracy,
            "in_band": errors.coverage,
        }
        for group, errors in report.validation.items()
    ]


def _design(standing: DesignStanding) -> dict[str, Any]:
    choices = [
        {
            **{name: value for name, value in vars(item).items() if name in DesignChoice.model_fields},
            "goal": goal,
            "design": printable(standing.space.describe(item.index)),
            "n_draft": item.n_draft[0],
            "speedup": item.speedup[0],
            "tpot_ms": item.tpot_s[0] * 1e3,
            "gain": gain.value,
            "gain_low": gain.low,
            "gain_high": gain.high,
            "quality": item.quality_ratio,
            "quality_pessimistic": item.quality_ratio_pessimistic,
        }
        for goal, item, gain in best_designs(standing)
    ]
    notes = [printable(note) for note in standing.space.notes]
    return {"text": printable(standing.text), "binding": what_binds(standing), "choices": choices, "notes": notes}


def _diagnosis(report: Report) -> dict[str, Any] | None:
    found = report.diagnosis
    if found is None:
        return None
    return {
        "verdict": found.verdict,
        "sentence": found.sentence,
        "findings": [vars(one) for one in found.findings],
        "gaps": found.gaps,
        "not_judged": [f"{title}: needs {needs}" for title, needs in found.not_judged],
    }


def _next_steps(report: Report) -> list[dict[str, Any]] | None:
    if report.steps is None:
        return None
    return [
        {
            "goal": MERITS[goal].name,
            "what": printable(effect.change.what),
            "gain": gain_text(effect, goal),
            **{name: change_text(effect, name) for name in GOALS},
            "tier": effect.tier,
            "notes": [printable(note) for note in effect.change.notes],
        }
        for goal, effect in tried(report.steps)
    ]
