"""`schedule`, `export`, `simulate`: K while serving."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from advisor.answers.best_k import costs_of, range_values
from advisor.answers.by_batch import BatchHistogram, RuntimeSchedule, ServeChoice, schedule_for
from advisor.answers.by_context import contexts_from_text
from advisor.answers.engines.adaptive import adaptive_ranges
from advisor.answers.engines.config import DRAFT_MODEL_PLACEHOLDER
from advisor.answers.engines.export import export_scenario, needs_draft_model, write_export
from advisor.answers.simulation.compare import (
    MAX_TRACE_BYTES,
    PolicyOutcome,
    SimulationPlan,
    process_of,
    recorded,
    simulate_policies,
)
from advisor.answers.simulation.simulator import DEFAULT_PASSAGE_TOKENS, DEFAULT_SPREAD
from advisor.cli import output as out
from advisor.cli.asked import ScenarioCommand, typed_words
from advisor.physics.notes import Rank
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.profiles import read_file, shown_path
from advisor.show.phrases.notes import checked_by, note_texts
from advisor.show.phrases.schedule import BOOK, CONTEXT, TEXTS
from advisor.show.phrases.simulation import LOAD
from advisor.show.table import Column, Table
from advisor.show.words.answer import (
    accepted_length_text,
    context_values,
    k_by_batch_table,
    k_by_context_table,
)


@click.command(cls=ScenarioCommand)
@click.option("--contexts", help="Context lengths, comma-separated, of the table of K by context.")
@click.option(
    "--histogram",
    help="Time your server spends at each batch size, as batch:weight,...; weights the gain.",
)
@out.json_option()
def schedule(
    scenario: Scenario, contexts: str | None, histogram: str | None, as_json: bool
) -> None:
    """K by batch size, by context where that matters, and the gain over the best single K."""
    weighed = BatchHistogram.from_text(histogram) if histogram is not None else None
    runtime_schedule = schedule_for(
        scenario, contexts_from_text(contexts) if contexts is not None else (), weighed
    )
    if as_json:
        out.print_json(
            {
                "scenario": scenario,
                "scenario_hash": scenario.hash,
                "context_tokens": scenario.context_tokens,
                "k_by_batch": [range_values(item) for item in runtime_schedule.ranges],
                "k_by_batch_says": BOOK.says(TEXTS, runtime_schedule.facts),
                "k_by_context": context_values(runtime_schedule.at_contexts),
                "gain": runtime_schedule.gain,
                "warnings": note_texts(runtime_schedule.setup.notes),
                "notes": runtime_schedule.setup.notes,
            }
        )
        return
    out.print_table(k_by_batch_table(runtime_schedule.ranges, scenario.max_tpot_ms is not None))
    out.say(" ".join(BOOK.says((*TEXTS, "rule"), runtime_schedule.facts)))
    at = runtime_schedule.at_contexts
    if at.matters or runtime_schedule.others is not None:
        out.say("\nRecommended K by batch and tokens of context (-: does not fit):")
        out.print_table(k_by_context_table(at))
    out.say(CONTEXT.say("context", at.facts))
    if runtime_schedule.gain is not None:
        gain = runtime_schedule.gain
        out.say(
            f"\nOn your histogram: {gain.schedule_speedup:.3f}x, against "
            f"{gain.best_static_speedup:.3f}x with "
            f"K = {gain.best_static_k} throughout, the best single K: {gain.gain:+.1%}."
        )
    length_text = accepted_length_text(runtime_schedule.setup)
    out.say(f"\nTable: context {scenario.context_tokens:,}. {length_text}")
    out.print_labelled("warning", note_texts(runtime_schedule.setup.notes))
    if scenario.drafter_id != "none":
        out.print_next(
            {"as the engine loads it": export_words(runtime_schedule.setup, typed_words())}
        )


def export_words(setup: Setup, scenario: list[str]) -> list[str]:
    """Words of the `export` of a scenario, with the head that has to be named."""
    needs_head = needs_draft_model(setup, setup.scenario.engine)
    head = ["--draft-model", DRAFT_MODEL_PLACEHOLDER] if needs_head else []
    return ["export", *scenario, "--output", "out", *head]


@click.command(cls=ScenarioCommand)
@out.path_option("--output", "-o", required=True, help="Folder to write to.")
@click.option("--static-k", type=int, help="Export this K for all batches.")
@click.option(
    "--by-batch",
    is_flag=True,
    help="K by batch even where one K is enough, or the batch should not draft.",
)
@click.option(
    "--adaptive",
    is_flag=True,
    help="Let the engine choose at each step which drafts it verifies; --static-k: of that K.",
)
@click.option(
    "--served-model",
    help="Name or path the engine serves [default: the profile's Hugging Face name].",
)
@click.option("--draft-model", help="Name or path of the draft model or EAGLE head.")
@click.option("--max-running-requests", type=click.IntRange(1), help="Of the launch line.")
@out.json_option()
def export(
    scenario: Scenario,
    output: Path,
    static_k: int | None,
    by_batch: bool,
    adaptive: bool,
    as_json: bool,
    **launch: Any,  # the options that export_scenario takes as they stand
) -> None:
    """Write what to serve, one K or K by batch, as configuration and launch line of --engine.

    The engine's own rules check it.
    """
    runtime_schedule = schedule_for(scenario, choice=ServeChoice(static_k, by_batch))
    setup = runtime_schedule.setup
    ranges = runtime_schedule.to_serve
    is_schedule = static_k is None and not adaptive
    if adaptive:
        last = ranges[-1].batch_end
        curve = runtime_schedule.curve
        ranges = adaptive_ranges(setup, scenario.engine, curve, last, static_k)
    exported = export_scenario(
        setup,
        ranges,
        scenario.engine,
        folder=output,
        contexts=runtime_schedule.at_contexts if is_schedule else None,
        capture=runtime_schedule.capture,
        **launch,
    )
    files = write_export(exported, output, checked_by(exported.notes))
    setup_notes = (*setup.notes, *runtime_schedule.notes)
    gain_texts = _said_of_export(runtime_schedule, by_batch) if is_schedule else ()
    if as_json:
        out.print_json(
            {
                "engine": exported.engine,
                "config": exported.config,
                "launch_line": exported.launch_line,
                "files": [str(file) for file in files],
                "warnings": [*note_texts(setup_notes), *note_texts(exported.notes, "bare")],
                "notes": (*setup_notes, *exported.notes),
                "k_by_batch": [range_values(item) for item in ranges],
                "k_by_batch_says": gain_texts,
                "scenario_hash": scenario.hash,
            }
        )
        return
    for file in files:
        click.echo(f"wrote {file}")
    click.echo(f"\n{exported.launch_line}\n")
    for text in (*gain_texts, accepted_length_text(runtime_schedule.setup)):
        out.say(text)
    notices = [note for note in exported.notes if note.rank is Rank.NOTICE]
    out.print_labelled("note", note_texts(notices, "labelled"))
    warnings = [note for note in exported.notes if note not in (*notices, *setup_notes)]
    out.print_labelled("warning", [*note_texts(setup_notes), *note_texts(warnings)])


def _said_of_export(runtime_schedule: RuntimeSchedule, by_batch: bool) -> tuple[str, ...]:
    """What the schedule gains. Where a plain server is written in its place, why."""
    facts = runtime_schedule.facts
    without = "" if by_batch else BOOK.say("without", facts)
    one_k = by_batch and len({item.k_running for item in runtime_schedule.ranges}) == 1
    one_k_note = (
        ("--by-batch finds one K for all batches, so no table of K is written.",) if one_k else ()
    )
    return (without,) if without else (*BOOK.says(TEXTS, facts), *one_k_note)


@click.command(cls=ScenarioCommand)
@click.option(
    "--process",
    type=click.Choice(["list", "switching"]),
    default="list",
    help="Independent rounds, or passages.",
)
@out.path_option(
    "--trace",
    help="JSON or CSV of accepted drafts per step, or vLLM's replies, instead of --process.",
)
@click.option(
    "--spread",
    type=float,
    default=DEFAULT_SPREAD,
    show_default=True,
    help="Good from bad passages, logits.",
)
@click.option(
    "--good-share",
    type=float,
    default=0.5,
    show_default=True,
    help="Share of tokens in good passages.",
)
@click.option(
    "--good-tokens",
    type=float,
    default=DEFAULT_PASSAGE_TOKENS,
    show_default=True,
    help="Their mean length.",
)
@click.option(
    "--requests", type=int, default=200, show_default=True, help="Number of requests served."
)
@click.option(
    "--iterations",
    type=int,
    default=SimulationPlan.iterations,
    show_default=True,
    help="Maximum of them.",
)
@click.option(
    "--request-tokens",
    type=int,
    default=250,
    show_default=True,
    help="Output tokens of each request.",
)
@click.option(
    "--load", "load_share", type=float, help="Poisson arrivals at this share of plain capacity."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@out.json_option()
def simulate(
    scenario: Scenario,
    process: str,
    trace: Path | None,
    spread: float,
    good_share: float,
    good_tokens: float,
    as_json: bool,
    **load: Any,  # the options that SimulationPlan takes as they stand
) -> None:
    """Compare K = 0, each static K, the schedule, Cascade and the oracle on one load.

    Control by acceptance alone is among them.
    """
    passages = {"spread": spread, "good_share": good_share, "good_tokens": good_tokens}
    plan = SimulationPlan(batch_size=scenario.batch_size, **load)
    kind = "trace" if trace else process
    recorded_steps = None
    if trace is not None:
        recorded_steps = recorded(
            read_file(trace, MAX_TRACE_BYTES, "a trace of accepted drafts"), shown_path(trace)
        )
    runtime_schedule = schedule_for(scenario)
    costs = costs_of(runtime_schedule.curve)
    acceptance = process_of(kind, costs, runtime_schedule.ranges, recorded_steps, **passages)
    show = out.progress("simulating")
    report = simulate_policies(costs, runtime_schedule.ranges, acceptance, plan, on_policy=show)
    show(1)
    if as_json:
        names = ("plan", "requests", "complete", "best_static_k")
        outcome = {name: getattr(report, name) for name in names} | {"policies": report.outcomes}
        question = {"scenario": scenario, "scenario_hash": scenario.hash, "process": kind}
        out.print_json(question | outcome | {"warnings": note_texts(runtime_schedule.setup.notes)})
        return
    out.print_table(Table(_POLICIES, report.outcomes))
    out.say(
        f"\n{report.requests} requests of {plan.request_tokens} tokens, batch {plan.batch_size}, "
        f"acceptance: {kind}, "
        f"seed {plan.seed}. Best single K: {report.best_static_k}. Decode iterations only; "
        "prefill is not simulated."
    )
    out.say(LOAD.say("load", report.facts))
    if kind != "trace":
        out.say(accepted_length_text(runtime_schedule.setup))
    out.print_labelled("warning", note_texts(runtime_schedule.setup.notes))
    if not report.complete:
        out.say(
            f"note: {plan.iterations} iterations ended before all requests were served; raise "
            "--iterations"
        )


_POLICIES: tuple[Column[PolicyOutcome], ...] = (
    Column("policy", attrgetter("policy"), words=True),
    Column("speedup", attrgetter("speedup"), "{:.3f}".format),
    Column("to best single K", attrgetter("gain_over_best_static"), "{:+.1%}".format),
    Column("ms per token", lambda row: row.tpot_s * 1e3, "{:.3f}".format),
    Column(
        "p95 ms",
        attrgetter("p95_request_tpot_s"),
        lambda time_s: "" if time_s is None else f"{time_s * 1e3:.3f}",
    ),
    Column("mean K", attrgetter("mean_draft"), "{:.2f}".format),
    Column("mean batch", attrgetter("mean_batch"), "{:.1f}".format),
    Column(
        "tests", attrgetter("test_share"), lambda share: "" if share is None else f"{share:.0%}"
    ),
)
