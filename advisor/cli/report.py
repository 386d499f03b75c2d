"""`report`: one scenario's answer as a file to hand on."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from advisor.advice import advise
from advisor.cli.output import print_json
from advisor.cli.scenario_options import SCENARIO_OPTIONS, scenario_from
from advisor.next_steps import next_steps
from advisor.prediction import AdvisorError
from advisor.report.build import build_report, read_report_scenario
from advisor.report.evidence import applicable_errors
from advisor.report.formats import FORMATS, Format, render
from advisor.scenario import Scenario
from advisor.validation import Errors

MAX_REPORT_BYTES = 64_000_000


class _ReportCommand(click.Command):
    """Takes the scenario's options, or --from a JSON report instead of them; hands on scenario and date."""

    def __init__(self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any) -> None:
        options = [copy.copy(option) for option in SCENARIO_OPTIONS]
        self.needed = [option for option in options if option.required]
        self.scenario_names = [option.name for option in options if option.name]
        for option in options:
            option.required = False
        kwargs["params"] = [*options, *(params or [])]
        super().__init__(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Build or read the scenario, then run. Raises AdvisorError or UsageError when there is none."""
        values = {name: ctx.params.pop(name) for name in self.scenario_names}
        source: Path | None = ctx.params.pop("source")
        date: dt.datetime | None = ctx.params.pop("date")
        stated = date.date() if date else None
        if source is None:
            for option in self.needed:
                if values[option.name or ""] is None:
                    raise click.MissingParameter(ctx=ctx, param=option)
            scenario, found = scenario_from(values), None
        else:
            self._refuse_both(ctx)
            scenario, found, stated_hash = read_report_scenario(_read(source))
            if stated_hash != scenario.hash:
                click.echo(
                    f"note: the scenario of {source} has the hash {scenario.hash}, the file says {stated_hash}: it was "
                    "edited, or written by another version of the advisor",
                    err=True,
                )
        ctx.params |= {"scenario": scenario, "date": stated or found or dt.date.today()}
        return super().invoke(ctx)

    def _refuse_both(self, ctx: click.Context) -> None:
        given = click.core.ParameterSource.COMMANDLINE
        options = [option for option in self.params if option.name in self.scenario_names]
        both = [option.opts[0] for option in options if ctx.get_parameter_source(option.name or "") == given]
        if both:
            raise AdvisorError(f"--from already gives the whole scenario; leave out {', '.join(both)}")


@click.command(cls=_ReportCommand)
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="File format.")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Date on the report [default: of --from, else today].")
@click.option("--from", "source", type=click.Path(path_type=Path), help="A JSON report whose scenario is used.")
@click.option("--served-model", help="Model name or path for the launch lines [default: the model's repository].")
@click.option("--draft-model", help="Draft checkpoint's name or path for the launch lines.")
@click.option("--no-checks", is_flag=True, help="Leave out errors on published speedups.")
@click.option("--brief", is_flag=True, help="Leave out designs and what to try next, which take half a second.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def report(
    scenario: Scenario,
    date: dt.date,
    form: Format,
    output: Path,
    served_model: str | None,
    draft_model: str | None,
    no_checks: bool,
    brief: bool,
    as_json: bool,
) -> None:
    """Write a report: verdict, curve, schedule, engine configuration, assumptions, known errors, sources."""
    advice = advise(scenario)
    steps = None if brief else next_steps(advice)
    known = None if no_checks else _known_errors(scenario)
    document = build_report(
        advice, date, steps=steps, validation=known, served_model=served_model, draft_model=draft_model
    )
    content = render(document, form)
    try:
        output.write_bytes(content)
    except OSError as error:
        raise AdvisorError(f"cannot write {output}: {error.strerror or error}; choose another --output") from error
    if as_json:
        print_json(
            {
                "output": str(output),
                "format": form,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "scenario_hash": scenario.hash,
                "date": date.isoformat(),
            }
        )
        return
    click.echo(document.verdict)
    click.echo(f"Wrote {output}: {form}, {len(content):,} bytes, scenario {scenario.hash}, {date.isoformat()}.")


def _known_errors(scenario: Scenario) -> Mapping[str, Errors] | None:
    """Errors on published points; None without the shipped rows, which the report then says."""
    model_id = None if scenario.model_config_json else scenario.model_id
    try:
        return applicable_errors(scenario.hardware_id, model_id)
    except AdvisorError as error:
        click.echo(f"note: no published measurements in this report: {error}", err=True)
        return None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise AdvisorError(
                f"{path} has {path.stat().st_size:,} bytes; a JSON report has at most {MAX_REPORT_BYTES:,}"
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise AdvisorError(f"cannot read {path}: {error.strerror or error}; give a JSON report") from error
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{path} is not text; give a JSON report") from error
