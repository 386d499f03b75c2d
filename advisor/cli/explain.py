"""`explain`: how the prediction of one batch and K was made, formula by formula."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any

import click

from advisor.answers.advice import advise as advise_scenario
from advisor.cli.output import ScenarioCommand, json_option, print_json, print_labelled, print_table, say
from advisor.predict.band_parts import BandPart, band_parts
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.explain.formulas import ConstantUse
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import GROUPS, Quantity, step_text, value_text
from advisor.show.table import Column, Table, matrix


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
            click.echo(f"{group}, batch {scenario.batch_size:,}, K = {k}")
        for step in steps:
            note = step.note.rstrip(".")
            click.echo(f"  {step.title}{f' ({note})' if note else ''}\n    {step_text(step)}")
        say("")
    say("Where the likely range comes from, each kind of uncertainty alone")
    print_table(Table(_BAND_PARTS, band_parts(advice.setup, made.batch_size, k)))
    say("\nConstants")
    print_table(Table(_CONSTANTS, list(dict.fromkeys(made.constants))))
    _print_nearby(kernels, speedups)
    print_labelled("warning", advice.warnings)


_BAND_PARTS: tuple[Column[BandPart], ...] = (
    Column("uncertain", attrgetter("what"), words=True),
    Column("likely range", lambda part: f"{part.low:.2f}-{part.high:.2f}"),
    Column("share of variance", attrgetter("share"), "{:.0%}".format),
)
_CONSTANTS: tuple[Column[ConstantUse], ...] = (
    Column("constant", attrgetter("name"), words=True),
    Column("value", lambda use: value_text(Quantity(use.value, use.unit))),
    Column("tier", attrgetter("tier"), words=True),
    Column("source", attrgetter("source"), words=True),
)
_NEAR: tuple[Column[dict[str, Any]], ...] = (
    *(Column(label, itemgetter(label.replace(" ", "_")), words=True) for label in ("part", "step", "measured at")),
    Column("measured", lambda row: value_text(Quantity(row["measured_s"], "s"))),
    Column("model", lambda row: value_text(Quantity(row["model_s"], "s"))),
    Column("model/measured", itemgetter("ratio"), "{:.2f}".format),
)


def _print_nearby(kernels: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> None:
    if kernels:
        say("\nKernel measurements near it")
        print_table(Table(_NEAR, kernels))
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
