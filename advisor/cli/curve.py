"""`curve`: speedup over batch and K. `examples`: scenarios to start from. Both load no more than
the prediction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import click

from advisor.cli.asked import ScenarioCommand
from advisor.cli.output import json_option, path_option, print_json, print_labelled, whole_numbers
from advisor.predict.curve import DEFAULT_BATCHES, curve_for, curve_rows, digits
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, carried_text, example_ids, load_example
from advisor.predict.setup import Setup
from advisor.prediction import Tier
from advisor.text import counted, csv_text

_CELLS_NAMED = 4


@click.command(cls=ScenarioCommand)
@click.option(
    "--batches", default=",".join(map(str, DEFAULT_BATCHES)), help="Comma-separated batch sizes."
)
@click.option("--k", "drafts", help="Comma-separated draft lengths [default: 0 to --k-max].")
@path_option(
    "--measured",
    multiple=True,
    help="Benchmark results of this very setup, beside the curve; repeat.",
)
@json_option()
def curve(
    scenario: Scenario, batches: str, drafts: str | None, measured: Sequence[Path], as_json: bool
) -> None:
    """Speedup over batch and K, with bands, expert counts and components, as CSV."""
    setup = load_setup(scenario)
    grid = curve_for(
        setup,
        whole_numbers("--batches", batches),
        whole_numbers("--k", drafts) if drafts is not None else None,
    )
    rows = curve_rows(grid)
    if measured:
        rows = _beside(rows, setup, measured)
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


def _beside(
    rows: list[dict[str, Any]], setup: Setup, files: Sequence[Path]
) -> list[dict[str, Any]]:
    """Rows of a curve with what files measured of the same model and accelerator at their batch and
    K, and its tier."""
    from advisor.cli.measured_files import (
        read_measured,
    )  # readers of files need pandas, a curve does not
    from advisor.measured.own_points import (
        carried_from,
        measured_cells,
        rows_of,
        unlike,
        with_rounds,
    )

    measurements = with_rounds(
        rows_of(read_measured(files), setup.scenario), setup.acceptance.accepted_length
    )
    cells = measured_cells(measurements)
    curve_cells = {(row["batch_size"], row["n_draft"]) for row in rows}
    if not curve_cells & cells.keys():
        at = ", ".join(f"batch {batch:g} K = {k}" for batch, k in sorted(cells)[:_CELLS_NAMED])
        why = (
            f"they hold {at}; name those with --batches and --k" if at else "they hold none of them"
        )
        click.echo(
            f"note: no row of {', '.join(file.name for file in files)} lies on this curve: {why}",
            err=True,
        )
    if differs := unlike(measurements, setup.scenario):
        scenario = setup.scenario
        beside = (
            f"the curve has {scenario.routing} routing, context {scenario.context_tokens:,}, "
            f"{scenario.drafter_id}"
        )
        click.echo(f"note: measured with {', '.join(differs)}; {beside}", err=True)
    tier = Tier.FITTED if carried_from(measurements["notes"]) else Tier.MEASURED
    out = []
    for row in rows:
        cell = cells.get((row["batch_size"], row["n_draft"]), {})
        step_s = cell.get("step_time_s", nan)
        ratio = cell.get("speedup", nan)
        values = {
            "measured_step_ms": digits(1e3 * step_s) if step_s > 0 else None,
            "measured_speedup": digits(ratio) if ratio > 0 else None,
        }
        out.append(row | values | {"measured_tier": tier if any(values.values()) else None})
    measured_rows = [row for row in out if row["measured_speedup"]]
    outside = [
        row
        for row in measured_rows
        if not row["speedup_low"] <= row["measured_speedup"] <= row["speedup_high"]
    ]
    if outside:
        at = ", ".join(
            f"batch {row['batch_size']:g} K = {row['n_draft']}" for row in outside[:_CELLS_NAMED]
        )
        finding = (
            f"the measured speedup lies outside the model's band in {len(outside)} of "
            f"{counted(len(measured_rows), 'cell')}"
        )
        more = ", ..." if len(outside) > _CELLS_NAMED else ""
        click.echo(f"note: {finding}: {at}{more}", err=True)
    return out


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
    named_examples = [load_example(name) for name in example_ids()]
    if as_json:
        print_json(named_examples)
        return
    for example in named_examples:
        click.echo(f"{example.id}\n  {example.description}")
        click.echo(f"  Accepted length: {example.acceptance_origin}; {example.acceptance_note}.")
        click.echo(f"  Source: {'; '.join(example.sources)}.")
