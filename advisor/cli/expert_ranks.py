"""`expert-ranks`: experts on ranks, by a trace or by loads: imbalance, copies of hot experts, exchange."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.cli.asked import ScenarioCommand
from advisor.cli.measured_files import read_bytes
from advisor.cli.output import json_option, path_option, print_json, print_labelled, print_table, say, whole_numbers
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


@click.command(cls=ScenarioCommand)
@path_option("--trace", "traces", multiple=True, help="Routing trace, as of `trace` [default: --expert-loads]; repeat.")
@click.option("--copies", help="Redundant copies of hot experts to try, e.g. 0,32 [default: none, and one a rank].")
@click.option("--ranks-per-node", type=click.IntRange(1, 1024), help="GPUs of a node [default: the accelerator's].")
@click.option("--expert-groups", type=click.IntRange(1, 65536), default=1, help="Groups kept on one node.")
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
    tried = tuple(whole_numbers("--copies", copies)) if copies is not None else ()
    answer = ranks_answer(*_traffic(scenario, traces), LayoutOptions(tried, ranks_per_node, expert_groups))
    if as_json:
        print_json({"verdict": ranks_verdict(answer), "scenario": answer.setup.scenario, **ranks_document(answer)})
        return
    say(ranks_verdict(answer))
    say("\nLayouts, each at its recommended K:")
    print_table(layout_table(answer))
    say("\nExperts in order, by K:")
    print_table(rank_table(answer))
    say(f"\n{exchange_text(answer)}")
    if answer.moved:
        print_table(exchange_table(answer))
    click.echo()
    print_labelled("note", ranks_notes(answer))
    print_labelled("warning", warnings(answer))


def counted_ranks(scenario: Scenario) -> RanksAnswer:
    """Experts on the scenario's ranks, counted on its loads, or else on its preset's spread."""
    return ranks_answer(*_traffic(scenario, ()))


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
