"""`diagnose`: why a run with speculation is slow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from advisor.cli.measure import pair, read_bytes
from advisor.cli.output import json_option, print_json, print_labelled, print_table
from advisor.cli.scenario_options import read_config
from advisor.diagnosis import COMPARED_COLUMNS, DiagnosisView, FindingView, Given, diagnosis_document, view_of
from advisor.diagnosis import diagnose as diagnosed
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.text import counted

_OF_A_RUN = {
    "hardware_id": ("--hardware", "Accelerator that served the runs."),
    "model_id": ("--model", "Target model: an id, or a path to its config.json."),
    "engine": ("--engine", "Engine that served the runs."),
    "engine_version": ("--engine-version", "Its release."),
    "drafter": ("--drafter", "Drafter of the speculative runs."),
    "gpu_count": ("--gpus", "Accelerators that served the runs."),
    "tensor_parallel": ("--tp", "Tensor-parallel size."),
    "expert_parallel": ("--ep", "Expert-parallel size."),
    "weight_dtype": ("--weight-dtype", "Stored type of the routed experts' weights."),
    "batch_size": ("--batch", "Sequences that decode together."),
}
"""Columns that options of their own fill; --set fills any other."""
_SHOWN_RUNS = 3
_SHOWN_WANTS = 6


@click.command()
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Fill a column that the files lack, e.g. --set draft_tokens_k=3; repeat for several.",
)
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="THEIRS=OURS",
    help="Read a CSV column or a JSON field under another name, e.g. --map 'users=batch_size'; repeat.",
)
@click.option("--all", "show_all", is_flag=True, help="List every rule that was judged or lacks data, one a line.")
@json_option()
def diagnose(
    paths: Sequence[Path],
    values: Sequence[str],
    columns: Sequence[str],
    show_all: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """Say why speculation is slow: mismeasured, misconfigured, or physics.

    FILE: benchmark results of any known tool, the server's launch line, its printed arguments and its log, in any
    mixture; a plain run (K = 0) beside the speculative one tells most. `-` reads standard input. A rule that lacks data
    says what to collect.
    """
    form = "column=value, e.g. --set draft_tokens_k=3"
    given = {name: str(value) for name, value in options.items() if value is not None}
    configs = _own_model(given)
    given |= dict(pair(text, "--set", form) for text in values)
    mapped = dict(pair(text, "--map", "theirs=ours, e.g. --map users=batch_size") for text in columns)
    found = diagnosed([Given(path.name, read_bytes(path)) for path in paths], given, mapped, configs)
    if as_json:
        print_json(diagnosis_document(found))
        return
    _print(view_of(found), show_all)


for _column, (_option, _help) in reversed(_OF_A_RUN.items()):
    diagnose = click.option(_option, _column, help=_help)(diagnose)


def _own_model(given: dict[str, str]) -> dict[str, str]:
    """config.json of a model given by its path, by the name that stands for it. `given` then has the name."""
    path = Path(given.get("model_id", ""))
    if not given.get("model_id") or not (path.suffix == ".json" or is_there(path)):
        return {}
    name = path.parent.name if path.name == "config.json" else path.stem
    if not name:
        raise AdvisorError(f"{path} names no model; give a path such as my-model/config.json")
    given["model_id"] = name
    return {name: read_config(path)}


def _print(found: DiagnosisView, show_all: bool) -> None:
    click.echo(found.sentence)
    for one in found.findings:
        _print_finding(one)
    for compared in found.comparisons[:_SHOWN_RUNS]:
        click.echo(f"\n{compared.title}, measured beside predicted")
        print_table(tuple(name.lower() for name in COMPARED_COLUMNS), compared.rows)
        click.echo(compared.parts)
    for text in found.gaps[:_SHOWN_RUNS]:
        click.echo(text)
    if found.comparisons[_SHOWN_RUNS:]:
        click.echo(f"... {counted(len(found.comparisons) - _SHOWN_RUNS, 'more run')}; --json has all")
    click.echo(f"\nChecked and clean: {counted(len(found.clean), 'rule')}")
    print_labelled("  clean", found.clean if show_all else ())
    click.echo(f"Not judged: {counted(len(found.not_judged), 'rule')}, for want of")
    _print_wanted(found, show_all)
    for text in found.notes:
        click.echo(text)


def _print_finding(one: FindingView) -> None:
    click.echo(f"\n[{one.kind}] {one.title}")
    print_labelled("  in", [one.where])
    print_labelled("  evidence", one.evidence)
    print_labelled("  differs", one.differs)
    for label, text in (("why", one.because), ("do", one.fix), ("source", one.source)):
        print_labelled(f"  {label}", [text])


def _print_wanted(found: DiagnosisView, show_all: bool) -> None:
    if show_all:
        for title, needs in found.not_judged:
            click.echo(f"  {title}: needs {needs}")
        return
    for text, count in found.wanted[:_SHOWN_WANTS]:
        click.echo(f"  {text}: {count}")
    if found.wanted[_SHOWN_WANTS:]:
        click.echo(f"  ... {len(found.wanted) - _SHOWN_WANTS} more; --all lists every rule")
