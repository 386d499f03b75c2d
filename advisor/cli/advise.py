"""`advise` and `curve`: one scenario's answer, and the grid behind it.

`examples` and `compare`: scenarios to start from, and several answers side by side.

`context`: speedup and K over batch and context, and where speculation turns.

`explain`: how the prediction of one batch and K was made, formula by formula.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import click

from advisor.answers.advice import Advice, answer_values
from advisor.answers.advice import advise as advise_scenario
from advisor.answers.engines.export import export_scenario, needs_draft_model
from advisor.answers.explore.cells import DEFAULT_CONTEXTS, DEFAULT_MAP_BATCHES, context_map
from advisor.answers.explore.changes import GOALS, Goal, NextSteps, best_effects, next_steps
from advisor.answers.explore.compare import MAX_COMPARED, comparison_rows, finding, short_names
from advisor.answers.explore.own_runs import own_runs_text
from advisor.answers.round_costs import range_values
from advisor.answers.schedule import accepted_length_text, carried_text, plain_text, schedule_rule
from advisor.catalog.engines import export_engines, load_engine
from advisor.cli.output import (
    TYPED,
    ScenarioCommand,
    json_option,
    print_json,
    print_labelled,
    print_table,
    scenario_in,
)
from advisor.predict.band_parts import BandPart, band_parts
from advisor.predict.curve import DEFAULT_BATCHES, curve_for, curve_rows
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, example_ids, load_example
from advisor.predict.setup import Setup
from advisor.predict.spend import MeasuredPower, Spend, price_of, spend_at
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.show.explain.formulas import ConstantUse
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import GROUPS, Quantity, step_text, value_text
from advisor.show.table import Column, Table, matrix
from advisor.show.words.load import (
    acceptance_texts,
    does_not_fit,
    map_document,
    map_table,
    share_table,
    spend_document,
    spend_text,
    turn_texts,
    verdict,
)
from advisor.show.words.next_steps import (
    effects_table,
    none_text,
    steps_document,
    unoffered_texts,
)
from advisor.show.words.schedule import DRAFTS, k_by_batch_table
from advisor.text import MERITS, csv_text


@click.command(cls=ScenarioCommand)
@click.option(
    "--goal", type=click.Choice(GOALS), default=GOALS[0], show_default=True, help="What `try next` is ranked by."
)
@click.option("--usd-per-hour", type=float, help="Price of one GPU for an hour [default: the accelerator's].")
@click.option(
    "--power-log",
    type=click.Path(path_type=Path),
    help="Power measured while it ran: CSV of nvidia-smi --query-gpu, or output of dcgmi dmon; else estimated.",
)
@click.option("--power-k", type=int, help="K that ran while power was logged [default: the recommended one].")
@json_option()
def advise(
    scenario: Scenario,
    goal: Goal,
    usd_per_hour: float | None,
    power_log: Path | None,
    power_k: int | None,
    as_json: bool,
) -> None:
    """Recommend a draft length K for one scenario, with its band and the reason, and what to try next.

    Expected loss: how much of the speedup a K gives away on average against the best K in each of 256 simulated
    cases (`regret` in JSON). The K that loses least is recommended; within the noise the smaller.
    """
    advice = advise_scenario(scenario)
    spend = spend_of(advice, usd_per_hour, power_log, power_k)
    steps = next_steps(advice)
    if as_json:
        told = None if spend is None else spend_document(spend)
        print_json(advice_document(advice) | {"spend": told, "next_steps": steps_document(steps)})
        return
    answer = advice.recommendation
    tpot, rate = MERITS["tpot"], MERITS["tokens_per_s_per_gpu"]
    click.echo(answer.verdict)
    if steps.standing is not None:
        click.echo(steps.standing.text)
    click.echo(f"{answer.bound_because} ({answer.bound}-bound)")
    speed = f"{tpot.text(answer.tpot_s)} {answer.per_user}; {rate.text(answer.tokens_per_s_per_gpu)} {rate.words}"
    click.echo(f"{tpot.name} {speed}; {answer.odds}.")
    if answer.equals:
        click.echo(answer.equals)
    click.echo(does_not_fit(advice.setup) if spend is None else spend_text(spend, advice.setup.hardware))
    click.echo(f"Speedup: {answer.speedup.tier} ({answer.speedup.because}); {advice.band_level:.0%} band.")
    if own := own_runs_text(advice):
        click.echo(own)
    click.echo()
    click.echo(f"Each K at batch {scenario.batch_size}:")
    print_table(Table(DRAFTS, advice.drafts))
    click.echo("\nK by batch:")
    print_table(k_by_batch_table(advice.k_by_batch, scenario.max_tpot_ms is not None))
    click.echo(" ".join((*advice.schedule_texts, schedule_rule(scenario.max_tpot_ms))))
    _print_next(steps, goal)
    _print_notes(advice)
    click.echo(f"\n{export_pointer(advice, click.get_current_context().meta[TYPED])}")


def export_pointer(advice: Advice, typed: Sequence[str]) -> str:
    """Command that writes the schedule as the engine's configuration, or why there is nothing to write.

    typed : the scenario's options as the user gave them.
    """
    scenario, setup = advice.scenario, advice.setup
    if setup.drafter.kind == "none":
        return "Nothing to export: nothing is drafted."
    if not any(item.k_running for item in advice.to_serve):
        why = plain_text(advice.k_by_batch, scenario.batch_size)
        return why or "Nothing to export: start the engine without speculation."
    names = [engine.id for engine in export_engines()]
    if scenario.engine not in names:
        return f"No export for {scenario.engine}: `export` writes the schedule with --engine {' or '.join(names)}."
    words = ["python", "-m", "advisor", "export", *typed, "--output", "out"]
    asked = {"draft_model": "DRAFT-MODEL"} if needs_draft_model(setup, scenario.engine) else {}
    if scenario.model_config_json is not None:
        asked["served_model"] = "SERVED-MODEL"
    try:
        export_scenario(setup, advice.to_serve, scenario.engine, **asked)  # type: ignore[arg-type]
    except AdvisorError as error:
        return f"No export: {str(error).rstrip('.')}."
    for name, value in asked.items():
        words += [f"--{name.replace('_', '-')}", value]
    fill = f" (write yours for {' and '.join(asked.values())})" if asked else ""
    return f"Write it as {load_engine(scenario.engine).name} loads it{fill}:\n    {shlex.join(words)}"


def _power(file: Path, n_draft: int, gpus: int) -> MeasuredPower:
    """The power log of a run at one K. Raises AdvisorError for another file, and for GPUs that no instance has."""
    from advisor.cli.measure import read_bytes  # readers of files need pandas, an answer does not
    from advisor.measured.ingest.logs import read_power_log

    log = read_power_log(file.name, read_bytes(file))
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, n_draft)


def spend_of(advice: Advice, usd_per_hour: float | None, power_log: Path | None, power_k: int | None) -> Spend | None:
    """Money and energy of a token at the recommended K. None where the batch does not fit.

    power_k : the K that ran while the log was taken; None: the recommended one. [-]

    Raises AdvisorError for a price that is none, or a file that is no power log of the scenario's run.
    """
    curve, setup, best = advice.curve, advice.setup, advice.recommendation.n_draft
    if power_log is None and power_k is not None:
        raise AdvisorError("--power-k says what ran while power was logged; give --power-log FILE too")
    price, measured = price_of(setup.hardware, usd_per_hour), None
    if does_not_fit(setup):
        return None
    if power_log is not None:
        measured = _power(power_log, best if power_k is None else power_k, setup.placement.gpus)
    return spend_at(setup, curve, advice.batch_index, curve.column(best), price, measured)


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
    more = [text for text in (*_too_large(setup, float(grid.batches.max())), carried_text(setup, grid.drafts)) if text]
    print_labelled("warning", [*setup.warnings, *more], err=True)


def _too_large(setup: Setup, largest: float) -> list[str]:
    """What to say of batches of a curve that do not fit, where the scenario's own does."""
    fits = setup.memory.largest_batch
    if not setup.scenario.batch_size <= fits < largest:
        return []
    context = setup.scenario.context_tokens
    return [f"Batches above {fits:,} do not fit in memory at {context:,} tokens of context."]


def advice_document(advice: Advice) -> dict[str, Any]:
    """The answer as one JSON-able document. Its keys are part of the public contract."""
    curve = advice.curve
    plain, whole = curve.components_at(advice.batch_index, curve.column(advice.recommendation.n_draft))
    return {
        "scenario": advice.scenario,
        "scenario_hash": advice.scenario.hash,
        "engine": advice.scenario.engine,
        "band_level": advice.band_level,
        "recommendation": answer_values(advice) | {"verdict": advice.recommendation.verdict},
        "k_at_batch": advice.drafts,
        "k_by_batch": [range_values(item) for item in advice.k_by_batch],
        "k_by_batch_says": advice.schedule_texts,
        "sweet_spot_batch": advice.sweet_spot_batch,
        "break_even_batch": advice.break_even_batch,
        "curve": curve_rows(curve),
        "components_ms": {
            "plain": {name: time * 1e3 for name, time in plain.items()},
            "round": {name: time * 1e3 for name, time in whole.items()},
        },
        "memory": {
            "weights_bytes_per_gpu": advice.setup.memory.weights_bytes,
            "drafter_bytes_per_gpu": advice.setup.memory.drafter_bytes,
            "kv_bytes_per_sequence_per_gpu": advice.setup.memory.kv_bytes_per_sequence,
            "usable_bytes_per_gpu": advice.setup.memory.usable_bytes,
            "largest_batch": advice.setup.memory.largest_batch,
        },
        "routing": advice.setup.routing_because,
        "kv_cache": advice.setup.cache.sentence,
        "acceptance_source": advice.setup.acceptance.source,
        "sources": advice.setup.sources,
        "warnings": advice.warnings,
    }


MAX_NUMBERS = 4096
"""Batch sizes, or draft lengths, of one curve. [-]"""


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers from `1,2,4`. Raises AdvisorError, which names the option, for anything else or too many."""
    if text.count(",") >= MAX_NUMBERS:
        raise AdvisorError(
            f"{option} has {text.count(',') + 1:,} values; at most {MAX_NUMBERS:,} are predicted at once"
        )
    try:
        return [int(piece) for piece in text.split(",")]
    except ValueError as error:
        raise AdvisorError(
            f"{option} {text[:60]!r} is not a comma-separated list of whole numbers, e.g. 1,2,4"
        ) from error


def _print_next(steps: NextSteps, goal: Goal) -> None:
    """The three changes that help most, with what each comparison leaves out."""
    best = best_effects(steps, goal)
    if not best:
        click.echo(f"\n{none_text(steps, goal)}")
        return
    click.echo(f"\nTry next, the single changes that help {MERITS[goal].words} most (80% band):")
    print_table(effects_table(best, goal))
    print_labelled("note", dict.fromkeys(note for item in best for note in item.change.notes))
    print_labelled("not offered", unoffered_texts(steps))


def _print_notes(advice: Advice) -> None:
    setup = advice.setup
    click.echo(f"\n{accepted_length_text(setup)}")
    click.echo(f"Routing: {setup.routing_because.rstrip('.')}.")
    print_labelled("warning", advice.warnings)


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


@click.command()
@click.argument("scenarios", nargs=-1, required=True)
@json_option()
def compare(scenarios: tuple[str, ...], as_json: bool) -> None:
    """Answer two to four SCENARIOS side by side.

    Each is a scenario file, a JSON report, an output of `advise --json`, or the id of an example.
    """
    if not 2 <= len(scenarios) <= MAX_COMPARED:
        raise AdvisorError(f"{len(scenarios)} scenarios given; compare takes two to {MAX_COMPARED}")
    read = [_scenario(text) for text in scenarios]  # all, before any is answered: the last may not be readable
    advices = [advise_scenario(scenario) for scenario in read]
    names = short_names([advice.scenario for advice in advices])
    rows = comparison_rows(advices)
    if as_json:
        answers = [{"name": name} | advice_document(one) for name, one in zip(names, advices, strict=True)]
        print_json({"finding": finding(advices, names), "scenarios": answers})
        return
    print_table(matrix(("", *names), [(row.label, *row.values) for row in rows]))
    click.echo(f"\n{finding(advices, names)}")
    for warning in dict.fromkeys(text for advice in advices for text in advice.warnings):
        of = [name for name, advice in zip(names, advices, strict=True) if warning in advice.warnings]
        click.echo(f"warning: {'' if len(of) == len(names) else '; '.join(of) + ': '}{warning}")


def _scenario(text: str) -> Scenario:
    """An example's id, else a file. What looks like no file must be an example, so its near matches are named."""
    path = Path(text)
    is_file = path.suffix or is_there(path) or len(path.parts) > 1
    return scenario_in(path).scenario if is_file and text not in example_ids() else load_example(text).scenario


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
    print_table(map_table(found))
    click.echo("\nAttention's share of a plain step:")
    print_table(share_table(found))
    click.echo()
    print_labelled("note", acceptance_texts(found))
    row, _ = found.at(scenario.context_tokens, scenario.batch_size)
    print_labelled("warning", found.setups[row].warnings)


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
        click.echo("")
    click.echo("Where the 80% band comes from, each kind of uncertainty alone")
    print_table(Table(_BAND_PARTS, band_parts(advice.setup, made.batch_size, k)))
    click.echo("\nConstants")
    print_table(Table(_CONSTANTS, list(dict.fromkeys(made.constants))))
    _print_nearby(kernels, speedups)
    print_labelled("warning", advice.warnings)


_BAND_PARTS: tuple[Column[BandPart], ...] = (
    Column("uncertain", attrgetter("what"), words=True),
    Column("band", lambda part: f"{part.low:.2f}-{part.high:.2f}"),
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
        click.echo("\nKernel measurements near it")
        print_table(Table(_NEAR, kernels))
    if speedups:
        click.echo("\nPublished speedups near it")
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
