"""`expert-ranks`: experts on ranks, by a trace or by loads: imbalance, copies of hot experts, exchange."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.cli.measured_files import read_bytes
from advisor.cli.output import ScenarioCommand, json_option, print_json, print_labelled, print_table, say, whole_numbers
from advisor.measured.ingest.traces import layer_counts, read_traces
from advisor.physics.expert_loads import Traffic, traffic_of_trace
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup, traffic_of
from advisor.prediction import AdvisorError
from advisor.show.words.expert_ranks import document as ranks_document
from advisor.show.words.expert_ranks import exchange_table, exchange_text, layout_table, rank_table, warnings
from advisor.show.words.expert_ranks import notes as ranks_notes
from advisor.show.words.expert_ranks import verdict as ranks_verdict


def counting_options(needs: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options `traces` and `copies`, which say what ranks are counted on.

    needs : sentence that ends their help, empty for none.
    """
    end = f" {needs}" if needs else ""
    added = (
        click.option(
            "--trace",
            "traces",
            type=click.Path(path_type=Path),
            multiple=True,
            help="Routing trace as `advisor trace` reads it, several times for several files [default: "
            f"--expert-loads, or a preset's spread].{end}",
        ),
        click.option(
            "--copies", help=f"Redundant copies of hot experts to try, e.g. 0,32 [default: none, and one a rank].{end}"
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(added):
            command = option(command)
        return command

    return add


@click.command(cls=ScenarioCommand)
@counting_options()
@click.option("--ranks-per-node", type=click.IntRange(1, 1024), help="GPUs of a node [default: the accelerator's].")
@click.option(
    "--expert-groups", type=click.IntRange(1, 65536), default=1, show_default=True, help="Groups kept on one node."
)
@json_option()
def expert_ranks(
    scenario: Scenario,
    traces: tuple[Path, ...],
    copies: str | None,
    ranks_per_node: int | None,
    expert_groups: int,
    as_json: bool,
) -> None:
    """Place experts on the --ep ranks: slowest rank, copies of hot experts, exchange.

    Without --trace or --expert-loads the routing preset's spread of loads is used, with hot experts placed by chance.
    """
    placing = LayoutOptions(copies_tried(copies), ranks_per_node, expert_groups)
    answer = counted_ranks(scenario, traces, placing)
    if as_json:
        print_json({"verdict": ranks_verdict(answer), "scenario": answer.setup.scenario, **ranks_document(answer)})
        return
    _print(answer)
    click.echo()
    print_labelled("note", ranks_notes(answer))
    print_labelled("warning", warnings(answer))


def _print(answer: RanksAnswer) -> None:
    say(ranks_verdict(answer))
    say("\nLayouts, each at its recommended K:")
    print_table(layout_table(answer))
    say("\nExperts in order, by K:")
    print_table(rank_table(answer))
    say(f"\n{exchange_text(answer)}")
    if answer.moved:
        print_table(exchange_table(answer))


def copies_tried(text: str | None) -> tuple[int, ...]:
    """Numbers of copies that --copies names, empty without it. Raises AdvisorError for anything else."""
    return tuple(whole_numbers("--copies", text)) if text is not None else ()


def counted_ranks(scenario: Scenario, traces: tuple[Path, ...], placing: LayoutOptions) -> RanksAnswer:
    """Experts on the scenario's ranks, counted on a trace, on its loads, or else on its preset's spread.

    Raises AdvisorError for files that cannot be read, and as `ranks_answer` does.
    """
    setup, traffic = _traffic(scenario, traces)
    return ranks_answer(setup, traffic, placing)


def _traffic(scenario: Scenario, traces: tuple[Path, ...]) -> tuple[Setup, Traffic]:
    """The scenario, with its routing from the trace where one is given, and the choices to place for."""
    if traces and scenario.expert_loads is not None:
        raise AdvisorError("give --trace or --expert-loads, not both")
    setup = load_setup(scenario.model_copy(update={"redundant_experts": None}))
    if not traces:
        return setup, traffic_of(setup, scenario.expert_loads)
    moe = setup.router.moe
    read = read_traces([(file.name, read_bytes(file)) for file in traces], layer_counts(setup.architecture))
    traffic = traffic_of_trace(read.sequences, moe.n_experts, setup.longest_step)
    return load_setup(setup.scenario.model_copy(update={"routing": traffic.routing})), traffic
