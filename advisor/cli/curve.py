"""`curve`: speedup over batch and K. `examples`: scenarios to start from. Both load no more than the prediction."""

from __future__ import annotations

import sys

import click

from advisor.cli.output import ScenarioCommand, json_option, print_json, print_labelled, whole_numbers
from advisor.predict.curve import DEFAULT_BATCHES, curve_for, curve_rows
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, example_ids, load_example
from advisor.predict.setup import Setup
from advisor.predict.usual import carried_text
from advisor.text import csv_text


@click.command(cls=ScenarioCommand)
@click.option("--batches", default=",".join(map(str, DEFAULT_BATCHES)), help="Comma-separated batch sizes.")
@click.option("--k", "drafts", help="Comma-separated draft lengths [default: 0 to --k-max].")
@json_option()
def curve(scenario: Scenario, batches: str, drafts: str | None, as_json: bool) -> None:
    """Speedup over batch and K, with bands, expert counts and components, as CSV."""
    setup = load_setup(scenario)
    grid = curve_for(
        setup,
        whole_numbers("--batches", batches),
        whole_numbers("--k", drafts) if drafts is not None else None,
    )
    rows = curve_rows(grid)
    if as_json:
        print_json(rows)
    else:
        sys.stdout.write(csv_text(list(rows[0]), rows))
    more = [
        text
        for text in (
            *_too_large(setup, float(grid.batches.max())),
            carried_text(setup.acceptance.extrapolated, grid.drafts),
        )
        if text
    ]
    print_labelled("warning", [*setup.warnings, *more], err=True)


def _too_large(setup: Setup, largest: float) -> list[str]:
    """What to say of batches of a curve that do not fit, where the scenario's own does."""
    fits = setup.memory.largest_batch
    if not setup.scenario.batch_size <= fits < largest:
        return []
    context = setup.scenario.context_tokens
    return [f"Batches above {fits:,} do not fit in memory at {context:,} tokens of context."]


@click.command()
@json_option()
def examples(as_json: bool) -> None:
    """List the named examples that --example takes."""
    found = [load_example(name) for name in example_ids()]
    if as_json:
        print_json(found)
        return
    for item in found:
        click.echo(f"{item.id}\n  {item.description}")
        click.echo(f"  Accepted length: {item.acceptance_origin}; {item.acceptance_note}.")
        click.echo(f"  Source: {'; '.join(item.sources)}.")
