"""`report`: one scenario's answer as a file to hand on.

`app`: the store brought up to date, then the app, served to this machine alone.

`profile`: the profiler of `advisor.profiling`, from the advisor's own command line.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from advisor.answers.advice import Advice, advise
from advisor.answers.by_batch import curves_at, k_by_context
from advisor.answers.design.regions import region_map
from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer
from advisor.answers.explore.cells import context_map
from advisor.answers.explore.changes import next_steps
from advisor.answers.explore.entrants import ModelFilter, question_of
from advisor.answers.explore.leaderboard import Leaderboard, leaderboard
from advisor.answers.explore.questions import view_of as sweep_view
from advisor.answers.explore.sweep_files import read_sweep_files
from advisor.catalog.hf.fields import parse_json
from advisor.catalog.models import model_ids, model_profile
from advisor.cli.advise import spend_of
from advisor.cli.data import build
from advisor.cli.expert_ranks import copies_tried, counted_ranks, counting_options
from advisor.cli.measured_files import read_bytes
from advisor.cli.output import (
    FILE_DATE,
    ScenarioCommand,
    json_option,
    path_option,
    print_json,
    progress,
    spend_options,
    write_file,
)
from advisor.measured.profiler_runs import engine_python
from advisor.measured.published import published_ids
from advisor.measured.refit_result import Errors
from advisor.predict.scenario import Scenario, load_scenario_file
from advisor.prediction import AdvisorError
from advisor.profiles import data_root
from advisor.profiling.command import main as profiler
from advisor.profiling.engine.command import config_file
from advisor.profiling.engine.command import main as engine_profiler
from advisor.show.report.build import applicable_errors, build_report
from advisor.show.report.formats import FORMATS, Format, render
from advisor.show.words.diagnosis import DiagnosisView, view_of


@click.command(cls=ScenarioCommand)
@click.option("--format", "form", type=click.Choice(FORMATS), help="File format [default: the ending of --output].")
@path_option("--output", "-o", required=True, help="File to write.")
@click.option(
    "--date", type=click.DateTime(["%Y-%m-%d"]), help="Date on the report [default: of --scenario, else today]."
)
@click.option("--served-model", help="Model name or path for the launch lines [default: the model's repository].")
@click.option("--draft-model", help="Draft checkpoint's name or path for the launch lines.")
@click.option("--no-checks", is_flag=True, help="Leave out the errors on published speedups.")
@click.option(
    "--brief", is_flag=True, help="One page as PDF; other formats without designs, next steps and the map over context."
)
@click.option("--models", is_flag=True, help="Also rank the other models at this load (about 2 s).")
@click.option("--min-total-params", type=float, help="With --models: minimum total parameters, e.g. 1e11.")
@click.option("--regions", is_flag=True, help="Also map the design to train over batch and accelerator (about 2 s).")
@click.option(
    "--ranks",
    is_flag=True,
    help="Also show the load of the --ep ranks, as `expert-ranks` does (some seconds; needs --ep > 1).",
)
@counting_options("Needs --ranks.")
@path_option(
    "--sweep",
    "swept",
    multiple=True,
    help="Also show a finished sweep: its folder, or Parquet files of it; repeat for several.",
)
@spend_options()
@path_option(
    "--diagnose",
    "measured",
    multiple=True,
    help="Also diagnose a measured run: results, launch lines, logs; repeat for several files.",
)
@json_option("Print what was written as JSON.")
def report(
    scenario: Scenario, date: dt.datetime | None, form: Format | None, output: Path, as_json: bool, **asked: Any
) -> None:
    """Write a report: verdict, curve, schedule, engine configuration, assumptions, known errors, sources."""
    form, brief, show = form or _format_of(output), asked["brief"], progress("writing the report:")
    if asked["min_total_params"] is not None and not asked["models"]:
        raise AdvisorError("--min-total-params needs --models")
    counted = _ranks(scenario, asked["ranks"], asked["traces"], asked["copies"])
    day = date.date() if date else click.get_current_context().meta.get(FILE_DATE) or dt.date.today()
    show("answer", 0.0)
    advice = advise(scenario)
    spend = spend_of(advice, *(asked[name] for name in ("usd_per_hour", "power_log", "power_k")))
    show("sections", 0.3)
    document = build_report(
        advice,
        day,
        steps=None if brief else next_steps(advice),
        validation=None if asked["no_checks"] else _known_errors(advice),
        served_model=asked["served_model"],
        draft_model=asked["draft_model"],
        spend=spend,
        over_context=None if brief else context_map(scenario),
        board=_board(scenario, asked["usd_per_hour"], asked["min_total_params"]) if asked["models"] else None,
        diagnosis=_diagnosis(asked["measured"], scenario) if asked["measured"] else None,
        k_by_context=None
        if brief
        else k_by_context(scenario.context_tokens, advice.k_by_batch, curves_at(advice.setup, advice.curve)),
        regions=region_map(scenario) if asked["regions"] else None,
        ranks=counted,
        swept=_swept(asked["swept"], scenario) if asked["swept"] else None,
    )
    show("file", 0.8)
    content = render(document, form, brief=brief)
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
    click.echo(document.verdict)
    click.echo(f"Wrote {output}: {form}, {len(content):,} bytes, scenario {scenario.hash}, {day.isoformat()}.")


def _swept(files: Sequence[Path], scenario: Scenario) -> Any:
    return sweep_view(read_sweep_files(files), scenario.max_tpot_ms, scenario.model_dump())


def _board(scenario: Scenario, usd_per_hour: float | None, min_total_params: float | None) -> Leaderboard:
    """All models of a least size at the scenario's load."""
    wanted = ModelFilter(min_total_params=min_total_params)
    return leaderboard(replace(question_of(scenario, usd_per_hour), wanted=wanted))


def _ranks(scenario: Scenario, asked: bool, traces: tuple[Path, ...], copies: str | None) -> RanksAnswer | None:
    """Experts on the scenario's ranks, None where nobody asked. Raises AdvisorError where there is one rank."""
    if not asked:
        for name, given in (("--trace", traces), ("--copies", copies)):
            if given:
                raise AdvisorError(f"{name} needs --ranks")
        return None
    return counted_ranks(scenario, traces, LayoutOptions(copies_tried(copies)))


def _diagnosis(files: Sequence[Path], scenario: Scenario) -> DiagnosisView:
    """The files of a measured run, diagnosed; the scenario says what they leave out of place, model and drafter."""
    values = {
        "hardware_id": scenario.hardware_id,
        "model_id": scenario.model_id,
        "gpu_count": str(max(scenario.tensor_parallel, scenario.expert_parallel)),  # batch and speed are per copy
        "tensor_parallel": str(scenario.tensor_parallel),
        "expert_parallel": str(scenario.expert_parallel),
        "drafter": scenario.drafter_id,
    }
    config = scenario.model_config_json
    configs = {scenario.model_id: config} if config is not None else {}
    return view_of(
        diagnose([UserFile(path.name, read_bytes(path)) for path in files], configs=configs, otherwise=values)
    )


def _format_of(output: Path) -> Format:
    """The format that a file's ending names. Raises AdvisorError where it names none."""
    ending = output.suffix.lower().removeprefix(".")
    for form in FORMATS:
        if ending == form:
            return form
    said = f"ends in .{ending}, which is no report format" if ending else "has no ending that names a format"
    raise AdvisorError(
        f"--output {output.name} {said}; end it in {', '.join(f'.{form}' for form in FORMATS)}, or give --format"
    )


def _known_errors(advice: Advice) -> Mapping[str, Errors] | None:
    """Errors on published points; None without the shipped rows, which the report then says."""
    try:
        return applicable_errors(*published_ids(advice.scenario), advice.recommendation.speedup.tier)
    except AdvisorError as error:
        click.echo(f"note: no published measurements in this report: {error}", err=True)
        return None


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port on 127.0.0.1.")
@click.pass_context
def app(context: click.Context, port: int) -> None:
    """Start the app on http://127.0.0.1:PORT.

    Builds the store of measured tables first where it is out of date.

    Runs until it is interrupted. Settings: docs/settings.md.
    """
    context.invoke(build, if_stale=True, as_json=False)
    script = str(data_root() / "serve.py")
    sys.argv = ["streamlit", "run", script, "--server.address", "127.0.0.1", "--server.port", str(port)]
    runpy.run_module("streamlit", run_name="__main__")


TORCH_MISSING = "profiling needs torch, which is not installed here; install torch 2.10 to 2.13 for your device"
_WITHOUT_TORCH = {"-h", "--help"}


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True}, add_help_option=False)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def profile(options: tuple[str, ...]) -> None:
    """Measure this machine's device. The options are those of `python -m advisor.profiling`.

    With --engine vllm: steps of a serving engine, with made-up weights (`--engine vllm --help`).

    Exits 0 when the sweep is complete, 2 on bad input, 3 when it is not complete. Needs torch, or the engine.
    """
    asked = {option.split("=")[0] for option in options}
    if "--engine" in asked:
        named = [] if "--engine-python" in asked else ["--engine-python", engine_python() or sys.executable]
        sys.exit(engine_profiler([*options, *named], _engine_config))
    if not asked & _WITHOUT_TORCH and find_spec("torch") is None:
        raise AdvisorError(TORCH_MISSING)
    sys.exit(profiler(list(options)))


def _engine_config(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, config.json, model of the rows) of a shipped id, a scenario or a config.json's path."""
    if text in model_ids():
        return text, dict(model_profile(text).config), text
    try:
        scenario = load_scenario_file(Path(text)).scenario
    except AdvisorError:  # no scenario: a config, whose own reader says what is wrong with it
        return config_file(text)
    if scenario.model_config_json is None:
        return _engine_config(scenario.model_id)
    return scenario.model_id, parse_json(scenario.model_config_json, text), "config.json"
