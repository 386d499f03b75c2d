"""`diagnose`: why a run with speculation is slow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from advisor.cli.measure import pair, read_bytes
from advisor.cli.output import json_option, print_json, print_table
from advisor.cli.scenario_options import read_config
from advisor.diagnosis import Diagnosis, Finding, Given, amount, diagnosis_document
from advisor.diagnosis import diagnose as diagnosed
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.text import counted, with_prefix

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
_KIND = {"measurement": "measurement", "configuration": "configuration", "physics": "physics"}


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
    _print(found, show_all)


for _column, (_option, _help) in reversed(_OF_A_RUN.items()):
    diagnose = click.option(_option, _column, help=_help)(diagnose)


def _own_model(given: dict[str, str]) -> dict[str, str]:
    """config.json of a model given by its path, by the name that stands for it; `given` then has the name."""
    path = Path(given.get("model_id", ""))
    if not given.get("model_id") or not (path.suffix == ".json" or is_there(path)):
        return {}
    name = path.parent.name if path.name == "config.json" else path.stem
    if not name:
        raise AdvisorError(f"{path} names no model; give a path such as my-model/config.json")
    given["model_id"] = name
    return {name: read_config(path)}


def _print(found: Diagnosis, show_all: bool) -> None:
    click.echo(found.sentence)
    for one in found.findings:
        _print_finding(one)
    for text in found.refused:
        click.echo(f"\nrefused: {text}")
    _print_comparisons(found)
    click.echo("")
    click.echo(f"Checked and clean: {_listed([rule.title for _, rule in found.clean], show_all)}")
    click.echo(f"Not judged: {counted(len(found.not_judged), 'rule')}, for want of")
    _print_lacks(found, show_all)
    for text in found.not_compared:
        click.echo(f"Not predicted: {text}")
    for text in (*found.read, *(f"not read: {text}" for text in found.not_read)):
        click.echo(f"read: {text}".replace("read: not read", "not read"))


def _print_finding(one: Finding) -> None:
    click.echo(f"\n[{_KIND[one.kind]}] {one.rule.title}")
    click.echo(f"  in: {one.lines[0]}" + (f" and {counted(len(one.lines) - 1, 'other run')}" if one.lines[1:] else ""))
    for item in one.evidence:
        click.echo(f"  evidence: {item.text}" + (f" ({item.source})" if item.source else ""))
    for text in one.details:
        click.echo(f"  differs: {text}")
    click.echo(f"  why: {one.rule.because}")
    click.echo(f"  do: {one.fix}")
    click.echo(f"  source: {one.rule.published.source}")


def _print_comparisons(found: Diagnosis) -> None:
    for place, one in found.comparisons[:3]:
        click.echo(f"\n{place}: measured beside predicted (K = {one.n_draft}, {one.tier}, 80% band)")
        rows = [
            (
                row.label,
                "" if row.measured is None else amount(row.measured, row.unit),
                amount(row.predicted, row.unit),
                f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}",
                "" if row.ratio is None else f"{row.ratio:.2f}",
            )
            for row in one.rows
        ]
        print_table(("quantity", "measured", "predicted", "band", "ratio"), rows)
        largest = sorted(one.parts, key=lambda part: -max(part.round_s, part.plain_s))[:6]
        shown = ", ".join(f"{part.label} {with_prefix(part.round_s or part.plain_s, 's')}" for part in largest)
        click.echo(f"predicted parts of {'a round' if one.n_draft else 'a step'}: {shown}")
    for text in found.gaps[:3]:
        click.echo(text)
    if len(found.comparisons) > 3:
        click.echo(f"... {len(found.comparisons) - 3} more runs; --json has all")


def _print_lacks(found: Diagnosis, show_all: bool) -> None:
    if show_all:
        for one in found.not_judged:
            click.echo(f"  {one.rule.id}: needs {'; '.join(one.lacks)}")
        return
    wanted: dict[str, int] = {}
    for one in found.not_judged:
        for text in one.lacks:
            wanted[text] = wanted.get(text, 0) + 1
    for text, count in sorted(wanted.items(), key=lambda item: -item[1])[:6]:
        click.echo(f"  {text}: {counted(count, 'rule')}")
    if len(wanted) > 6:
        click.echo(f"  ... {len(wanted) - 6} more; --all lists every rule")


def _listed(titles: Sequence[str], show_all: bool) -> str:
    if show_all and titles:
        return "".join(f"\n  {title}" for title in titles)
    return counted(len(titles), "rule")
