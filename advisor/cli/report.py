"""`report`: one scenario's answer as a file to hand on.

`app`: the store brought up to date, then the app, served to this machine alone.

`profile`: the profiler of `advisor.profiling`, from the advisor's own command line.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from advisor.answers.advice import advise
from advisor.answers.outcome import outcome_of
from advisor.catalog.hardware import hardware_named
from advisor.catalog.hf.fields import parse_json
from advisor.catalog.models import model_ids, model_profile
from advisor.cli import program
from advisor.cli.asked import FILE_DATE, ScenarioCommand
from advisor.cli.output import (
    json_option,
    path_option,
    print_json,
    progress,
    spend_options,
    write_file,
)
from advisor.physics.hardware import load_hardware
from advisor.predict.scenario import MAX_LINK_CHARACTERS, Scenario, load_scenario_file
from advisor.prediction import AdvisorError
from advisor.profiling.command import main as profiler
from advisor.profiling.device import TORCH_MISSING
from advisor.profiling.engine.command import config_file
from advisor.profiling.engine.command import main as engine_profiler
from advisor.show.live_answer import MOST_PINS
from advisor.show.live_file import live_file
from advisor.show.phrases.answer import BOOK
from advisor.show.report.basis import APP_ADDRESS
from advisor.show.report.blocks import FORMATS, Format


@click.command(cls=ScenarioCommand)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="File format; html: the answer with its sliders [default: the ending of --output].",
)
@path_option("--output", "-o", required=True, help="File to write.")
@click.option(
    "--date",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Of the report [default: of --scenario, else today].",
)
@click.option(
    "--served-model",
    help="Model name or path for the launch lines [default: the model's repository].",
)
@click.option("--draft-model", help="Draft checkpoint's name or path for the launch lines.")
@path_option(
    "--beside",
    multiple=True,
    help="HTML: also a setup's scenario file, as a line and a row beside this one; repeat.",
)
@click.option("--no-checks", is_flag=True, help="Leave out the errors on published speedups.")
@click.option("--brief", is_flag=True, help="One page, as PDF.")
@click.option("--models", is_flag=True, help="Also rank the other models at this load (about 2 s).")
@click.option(
    "--min-total-params", type=float, help="With --models: minimum total parameters, e.g. 1e11."
)
@click.option(
    "--ranks",
    is_flag=True,
    help="Also the load of the --ep ranks, as in `expert-ranks` (some seconds).",
)
@path_option(
    "--sweep",
    "swept",
    multiple=True,
    help="Also a finished sweep: its folder or Parquet files; repeat.",
)
@spend_options()
@path_option(
    "--diagnose",
    "measured",
    multiple=True,
    help="Also diagnose a run: results, launch lines, logs; repeat.",
)
@json_option("Print what was written as JSON.")
def report(
    scenario: Scenario,
    date: dt.datetime | None,
    form: Format | None,
    output: Path,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write a report: verdict, curve, schedule, engine configuration, assumptions, known errors,
    sources."""
    form = form or _format_of(output)
    brief = asked["brief"]
    show = progress("writing the report:")
    if asked["min_total_params"] is not None and not asked["models"]:
        raise AdvisorError("--min-total-params needs --models")
    if brief and form != "pdf":
        raise AdvisorError(
            f"--brief is one page as PDF, not {form}; end --output in .pdf, or leave --brief out"
        )
    day = (
        date.date() if date else click.get_current_context().meta.get(FILE_DATE) or dt.date.today()
    )
    if form == "html":
        _refuse_sections(asked)
        if len(asked["beside"]) > MOST_PINS:
            raise AdvisorError(f"--beside takes at most {MOST_PINS} setups; leave some out")
    elif asked["beside"]:
        raise AdvisorError(f"--beside is for the HTML file, not {form}; end --output in .html")
    show("answer", 0.0)
    advice = advise(scenario)
    show("sections", 0.3)
    if form == "html":
        names = {name: asked[name] for name in _OF_LIVE_FILE}
        beside = [advise(load_scenario_file(path).scenario) for path in asked["beside"]]
        content = live_file(advice, day, beside=beside, **names).encode()
    else:
        # Frames and fonts, which an answer does not need.
        from advisor.cli.report_sections import report_of
        from advisor.show.report.formats import render

        content = render(report_of(advice, day, asked), form, brief=brief)
    write_file(output, content, "choose another --output")
    show(1.0)
    if as_json:
        print_json(
            {
                "output": str(output),
                "format": form,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "scenario_hash": scenario.hash,
                "date": day.isoformat(),
            }
        )
        return
    click.echo(BOOK.say("headline", outcome_of(advice).facts))
    click.echo(
        f"Wrote {output}: {form}, {len(content):,} bytes, scenario {scenario.hash}, "
        f"{day.isoformat()}."
    )
    if len(query := scenario.to_query()) <= MAX_LINK_CHARACTERS:
        click.echo(f"Link, for whoever runs `advisor app`:\n  {APP_ADDRESS}?{query}")


_OF_LIVE_FILE = ("served_model", "draft_model", "usd_per_hour")
"""Options that a live file takes; the others add sections that it does not have."""


def _refuse_sections(asked: Mapping[str, Any]) -> None:
    """Raise AdvisorError for an option of a section that the live HTML file does not have."""
    for option in click.get_current_context().command.params:
        name = option.name or ""
        if asked.get(name) and name not in (*_OF_LIVE_FILE, "beside", "no_checks"):
            raise AdvisorError(
                f"{option.opts[0]} adds a section that the HTML file does not have; end --output "
                "in .pdf, .md or .json"
            )


def _format_of(output: Path) -> Format:
    """The format that a file's ending names. Raises AdvisorError where it names none."""
    ending = output.suffix.lower().removeprefix(".")
    for form in FORMATS:
        if ending == form:
            return form
    problem = (
        f"ends in .{ending}, which is no report format"
        if ending
        else "has no ending that names a format"
    )
    raise AdvisorError(
        f"--output {output.name} {problem}; end it in "
        f"{', '.join(f'.{form}' for form in FORMATS)}, or give --format"
    )


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def profile(options: tuple[str, ...]) -> None:
    """Measure this machine's device. The options are those of `python -m advisor.profiling`.

    With --engine vllm: steps of a serving engine, with random weights (`--engine vllm --help`).

    Exits 0 when the sweep is complete, 2 on bad input, 3 when it is not complete. Needs torch, or
    the engine.
    """
    option_names = {option.split("=")[0] for option in options}
    if "--engine" in option_names:
        from advisor.measured.profiler_runs import engine_python

        python = engine_python() or sys.executable
        sys.exit(
            engine_profiler(
                options,
                _engine_config,
                python,
                program(),
                lambda text: load_hardware(hardware_named(text)),
            )
        )
    if not option_names & {"-h", "--help"} and find_spec("torch") is None:
        raise AdvisorError(TORCH_MISSING)
    sys.exit(profiler(list(options)))


def _engine_config(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, config.json, model of the rows) of a shipped id, a scenario or a config.json's
    path."""
    if text in model_ids():
        return text, dict(model_profile(text).config), text
    try:
        scenario = load_scenario_file(Path(text)).scenario
    except AdvisorError:  # no scenario: a config, whose own reader says what is wrong with it
        return config_file(text)
    if scenario.model_config_json is None:
        return _engine_config(scenario.model_id)
    return scenario.model_id, parse_json(scenario.model_config_json, text), "config.json"
