"""`context`: speedup and K over batch and context, and where speculation turns."""

from __future__ import annotations

import click

from advisor.cli.advise import whole_numbers
from advisor.cli.output import json_option, print_json, print_labelled, print_table
from advisor.cli.scenario_options import ScenarioCommand
from advisor.context_map import (
    DEFAULT_CONTEXTS,
    DEFAULT_MAP_BATCHES,
    acceptance_texts,
    context_map,
    map_document,
    map_table,
    share_table,
    turn_texts,
    verdict,
)
from advisor.scenario import Scenario


@click.command(cls=ScenarioCommand)
@click.option(
    "--contexts",
    default=",".join(map(str, DEFAULT_CONTEXTS)),
    show_default=True,
    help="Context lengths, comma-separated; --context is added.",
)
@click.option(
    "--batches",
    default=",".join(map(str, DEFAULT_MAP_BATCHES)),
    show_default=True,
    help="Batch sizes, comma-separated; --batch is added.",
)
@json_option()
def context(scenario: Scenario, contexts: str, batches: str, as_json: bool) -> None:
    """Speedup and recommended K over batch and context.

    Does it pay at --context, where does it turn, and why.

    Decoding alone: prefill is not charged. A dash stands where a batch does not fit in memory.
    """
    found = context_map(scenario, whole_numbers("--contexts", contexts), whole_numbers("--batches", batches))
    said = verdict(found, scenario.context_tokens, scenario.batch_size)
    if as_json:
        print_json({"verdict": said, "scenario": scenario, "says": turn_texts(found), **map_document(found)})
        return
    click.echo(said)
    for text in turn_texts(found):
        click.echo(text)
    click.echo("\nSpeedup and recommended K:")
    print_table(*map_table(found))
    click.echo("\nAttention's share of a plain step:")
    print_table(*share_table(found))
    click.echo()
    print_labelled("note", acceptance_texts(found))
    row, _ = found.at(scenario.context_tokens, scenario.batch_size)
    print_labelled("warning", found.setups[row].warnings)
