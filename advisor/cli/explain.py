"""`explain`: how the prediction of one batch and K was made, formula by formula."""

from __future__ import annotations

from typing import Any

import click

from advisor.answers.advice import advise as advise_scenario
from advisor.answers.advice import band_parts
from advisor.cli.asked import ScenarioCommand
from advisor.cli.output import json_option, print_json, print_labelled, print_table, say
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import GROUPS, step_text
from advisor.show.table import Table, matrix
from advisor.show.words.explain import BAND_PARTS, CONSTANTS, KERNELS


@click.command(cls=ScenarioCommand)
@click.option("--k", "n_draft", type=int, help="Draft length [default: the recommended one, else the best above 0].")
@click.option("--nearby/--no-nearby", default=True, show_default=True, help="Show measured points near it.")
@json_option("Machine-readable output, SI units.")
def explain(scenario: Scenario, n_draft: int | None, nearby: bool, as_json: bool) -> None:
    """Show how the speedup at --batch and --k was made.

    It prints formulas, numbers, sources, and measured points near it.
    """
    advice = advise_scenario(scenario)
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
            click.echo(f"{group}, batch {scenario.batch_size:,}, K = {0 if group == 'Plain step' else k}")
        for step in steps:
            note = step.note.rstrip(".")
            click.echo(f"  {step.title}{f' ({note})' if note else ''}\n    {step_text(step)}")
        say("")
    say("Where the likely range comes from, each kind of uncertainty alone")
    print_table(Table(BAND_PARTS, band_parts(advice.setup, made.batch_size, k)))
    say("\nConstants")
    print_table(Table(CONSTANTS, list(dict.fromkeys(made.constants))).on_paper())
    _print_nearby(kernels, speedups)
    print_labelled("warning", advice.warnings)


def _print_nearby(kernels: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> None:
    if kernels:
        say("\nKernel measurements near it")
        print_table(Table(KERNELS, kernels).on_paper())
    if speedups:
        say("\nPublished speedups near it")
        rows = [tuple(map(str, item.values())) for item in speedups]
        print_table(matrix(tuple(speedups[0]), rows, "l" * len(speedups[0])))


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
    from advisor.measured.store import open_store
    from advisor.show.explain.nearby import near_kernels, nearest_speedups, published_speedups

    scenario = setup.scenario
    try:
        with open_store() as store:
            kernels = near_kernels(store, setup, made.batch_size, made.n_draft).to_dict("records")
    except AdvisorError as error:
        click.echo(f"note: no measured kernels: {error}", err=True)
        kernels = []
    if scenario.model_config_json:
        return kernels, []
    points = published_speedups(scenario.hardware_id, scenario.model_id, setup.placement.gpus)
    return kernels, nearest_speedups(points, made.batch_size, made.n_draft).to_dict("records")
