"""`explain`: how the prediction of one batch and K was made, formula by formula."""

from __future__ import annotations

from typing import Any

import click

from advisor.advice import advise
from advisor.cli.output import json_option, print_json, print_labelled, print_table
from advisor.cli.scenario_options import ScenarioCommand
from advisor.explain import GROUPS, Derivation, Quantity, band_parts, derive, step_text, value_text
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.setup import Setup


@click.command(cls=ScenarioCommand)
@click.option("--k", "n_draft", type=int, help="Draft length [default: the recommended one, else the best above 0].")
@click.option(
    "--nearby/--no-nearby",
    default=True,
    show_default=True,
    help="Show measured points near the scenario, read from the store.",
)
@json_option("Machine-readable output, SI units.")
def explain(scenario: Scenario, n_draft: int | None, nearby: bool, as_json: bool) -> None:
    """Show how the speedup at --batch and --k was made.

    It prints formulas, numbers, sources, and measured points near it.
    """
    advice = advise(scenario)
    k = advice.curve_k if n_draft is None else n_draft
    made = derive(advice.setup, scenario.batch_size, k)
    kernels, speedups = _nearby(advice.setup, made) if nearby else ([], [])
    if as_json:
        found = {"kernels_nearby": kernels, "speedups_nearby": speedups, "warnings": advice.warnings}
        print_json(_document(advice.setup, made) | found)
        return
    for group in GROUPS:
        steps = made.of(group)
        if steps:
            click.echo(f"{group}, batch {scenario.batch_size:,}, K = {k}")
        for step in steps:
            note = step.note.rstrip(".")
            click.echo(f"  {step.title}{f' ({note})' if note else ''}\n    {step_text(step)}")
        click.echo("")
    click.echo("Where the 80% band comes from, each kind of uncertainty alone")
    rows = [
        (p.what, f"{p.low:.2f}-{p.high:.2f}", f"{p.share:.0%}") for p in band_parts(advice.setup, made.batch_size, k)
    ]
    print_table(("uncertain", "band", "share of variance"), rows)
    click.echo("\nConstants")
    constants = [
        (use.name, value_text(Quantity(use.value, use.unit)), use.tier, use.source)
        for use in dict.fromkeys(made.constants)
    ]
    print_table(("constant", "value", "tier", "source"), constants)
    _print_nearby(kernels, speedups)
    print_labelled("warning", advice.warnings)


def _print_nearby(kernels: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> None:
    if kernels:
        click.echo("\nKernel measurements near it")
        rows = [
            (
                item["part"],
                item["step"],
                item["measured_at"],
                value_text(Quantity(item["measured_s"], "s")),
                value_text(Quantity(item["model_s"], "s")),
                f"{item['ratio']:.2f}",
            )
            for item in kernels
        ]
        print_table(("part", "step", "measured at", "measured", "model", "model/measured"), rows)
    if speedups:
        click.echo("\nPublished speedups near it")
        print_table(tuple(speedups[0]), [tuple(map(str, item.values())) for item in speedups])


def _document(setup: Setup, made: Derivation) -> dict[str, Any]:
    return {
        "scenario_hash": setup.scenario.hash,
        "batch_size": made.batch_size,
        "n_draft": made.n_draft,
        "steps": [{**vars(step), "text": step_text(step)} for step in made.steps],
        "band_parts": band_parts(setup, made.batch_size, made.n_draft),
        "constants": made.constants,
    }


def _nearby(setup: Setup, made: Derivation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measured points as records. Without a usable store a note, and none."""
    from advisor.explain import near_kernels, nearest_speedups, published_speedups
    from advisor.store import open_store

    scenario = setup.scenario
    try:
        with open_store() as store:
            kernels = near_kernels(store, setup, made.batch_size, made.n_draft)
            if scenario.model_config_json:
                return kernels.to_dict("records"), []
            points = published_speedups(store, scenario.hardware_id, scenario.model_id, setup.placement.gpus)
            return kernels.to_dict("records"), nearest_speedups(points, made.batch_size, made.n_draft).to_dict(
                "records"
            )
    except AdvisorError as error:
        click.echo(f"note: no measured points: {error}", err=True)
        return [], []
