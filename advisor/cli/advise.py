"""`advise`: the answer to one scenario, short on a terminal, whole as JSON. `explain`: how a number
of it was made."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.advice import Advice, band_parts
from advisor.answers.advice import advise as advise_scenario
from advisor.answers.best_k import range_values
from advisor.answers.outcome import Outcome, outcome_of
from advisor.answers.summary import on_more_gpus
from advisor.cli import as_called
from advisor.cli import output as out
from advisor.cli.asked import ScenarioCommand, typed_words
from advisor.predict.curve import curve_rows
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH, POOL_FIELDS
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.phrases.answer import BOOK, SLOTS
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.schedule import BOOK as SCHEDULE_BOOK
from advisor.show.phrases.schedule import TEXTS
from advisor.show.table import Table, matrix
from advisor.show.words.answer import (
    DRAFTS,
    LINES,
    accepted_length_text,
    answer_document,
    k_by_batch_table,
    short_answer,
)
from advisor.show.words.basis import correction_text
from advisor.text import MERITS

if TYPE_CHECKING:
    from advisor.answers.explore.changes import NextSteps
    from advisor.predict.spend import MeasuredPower, Spend
    from advisor.show.explain.round import Derivation

SCHEMA_VERSION = 2
"""Of the JSON document: 2 has `outcome`, and its K is the one that the exported configuration runs.
[-]"""
GOALS = ("tokens_per_s_per_gpu", "tpot", "speedup")
"""Those of answers/explore/changes.py, which an answer without next steps does not load."""


@click.command(cls=ScenarioCommand)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also cost, energy, what to try next, origin of each figure.",
)
@click.option(
    "--goal",
    type=click.Choice(GOALS),
    default=GOALS[0],
    show_default=True,
    help="Ranks `try next` of -v.",
)
@out.spend_options()
@out.json_option()
def advise(
    scenario: Scenario,
    verbose: bool,
    goal: str,
    usd_per_hour: float | None,
    power_log: Path | None,
    power_k: int | None,
    as_json: bool,
) -> None:
    """Recommend a draft length K for one scenario: how much faster, how sure, and what to launch.

    MODEL is an id, a Hugging Face name, or a path to a config.json.

    Expected loss: how much of the speedup a K gives away on average against the best K in each of
    256 simulated cases (`regret` in JSON). The K that loses least is recommended; within the noise
    the smaller.
    """
    advice = advise_scenario(scenario)
    wants_spend = usd_per_hour is not None or power_log is not None or power_k is not None
    spend = (
        spend_asked(advice, usd_per_hour, power_log, power_k)
        if as_json or verbose or wants_spend
        else None
    )
    if as_json:
        from advisor.answers.explore.changes import next_steps
        from advisor.show.words.compare import steps_document
        from advisor.show.words.load import spend_document

        spend_values = None if spend is None else spend_document(spend)
        out.print_json(
            advice_document(advice)
            | {"spend": spend_values, "next_steps": steps_document(next_steps(advice))}
        )
        return
    steps = _onward(advice)
    if out.text_width() < out.WIDTH and len(steps) > 1:
        steps.popitem()  # there is room for one
    onward = [] if verbose else out.next_lines(steps)
    most = inf if verbose else LINES
    outcome = outcome_of(advice)
    answer = short_answer(advice, out.text_width(), onward[1:], most, outcome)
    click.echo("\n".join(answer.head))
    out.print_table(Table(DRAFTS, advice.drafts) if verbose else answer.table)
    click.echo(as_called("\n".join(answer.tail)))
    if not verbose:
        left_out = f"{answer.left_out}, " if answer.left_out else ""
        more = f"-v adds {left_out}cost, energy, what to try"
        click.echo("\n".join([f"Next ({more}):" if answer.after else f"{more}.", *answer.after]))
    if spend is not None:
        from advisor.show.words.load import spend_text

        out.say(spend_text(spend, advice.setup.hardware))
    if verbose:
        _print_more(advice, outcome.facts, goal)


_OTHERS = ("b200-sxm", "h200-sxm")
"""What another accelerator is tried by first: the fastest measured ones. Own choice."""
_OF_ONE_ACCELERATOR = ("hardware_json", "refit", "plain_sweep", *POOL_FIELDS)


def _onward(advice: Advice) -> dict[str, list[str]]:
    """What follows an answer, as it is typed: other GPUs or batches, one page to pass on; or GPUs
    that hold it."""
    scenario = advice.scenario
    fits = advice.setup.memory.largest_batch >= scenario.batch_size
    larger = None if fits else on_more_gpus(scenario)
    if larger is not None:
        wider = [f"{larger.n_gpus}x{scenario.hardware_id}", "--tp", str(larger.tensor_parallel)]
        return {
            "it fits": [
                "advise",
                *typed_words("n_gpus", "hardware_id", "tensor_parallel"),
                "--gpus",
                *wider,
            ]
        }
    report = {"one page to pass on": ["report", *typed_words(), "--brief", "-o", "answer.pdf"]}
    if any(getattr(scenario, name) for name in _OF_ONE_ACCELERATOR):
        batches = sorted({1, scenario.batch_size, min(4 * scenario.batch_size, MAX_BATCH)})
        left_out: tuple[str, ...] = ("batch_size",)
        varied = f"batch={','.join(map(str, batches))}"
    else:
        other = next(hardware_id for hardware_id in _OTHERS if hardware_id != scenario.hardware_id)
        left_out = ("n_gpus", "hardware_id")
        compared = (scenario.hardware_id, other)
        gpus = [f"{scenario.n_gpus}x{hardware_id}" for hardware_id in compared]
        varied = f"gpus={','.join(gpus)}"
    return {"beside others": ["explore", *typed_words(*left_out), "--vary", varied], **report}


def _print_more(advice: Advice, facts: Mapping[str, Any], goal: str) -> None:
    """All that the short answer leaves out."""
    from advisor.answers.explore.changes import next_steps
    from advisor.show.words.design import standing_text
    from advisor.show.words.load import does_not_fit

    limited = advice.scenario.max_tpot_ms
    steps = next_steps(advice)
    click.echo()
    for text in (
        standing_text(steps.standing) if steps.standing is not None else "",
        BOOK.say("bound", facts),
        does_not_fit(advice.setup),
        BOOK.say("assumed", facts),
        BOOK.say("pool_more", facts),
        BOOK.say("tier_because", facts),
        correction_text(advice),
    ):
        out.say(text)
    click.echo("\nK by batch:")
    out.print_table(k_by_batch_table(advice.k_by_batch, limited is not None))
    out.say(SCHEDULE_BOOK.say("rule", advice.schedule.facts))
    _print_next(steps, goal)
    click.echo()
    out.say(accepted_length_text(advice.setup))
    out.say(BOOK.say("length_range", facts))
    out.say(f"Routing: {advice.setup.routing_because.rstrip('.')}.")


def _power(file: Path, n_draft: int, gpus: int) -> MeasuredPower:
    """The power log of a run at one K. Raises AdvisorError for another file, and for GPUs that no
    instance has."""
    from advisor.cli.measured_files import (
        read_bytes,
    )  # readers of files need pandas, an answer does not
    from advisor.measured.ingest.traces import read_power_log
    from advisor.predict.spend import MeasuredPower

    log = read_power_log(file.name, read_bytes(file))
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, n_draft)


def spend_asked(
    advice: Advice, usd_per_hour: float | None, power_log: Path | None, power_k: int | None
) -> Spend | None:
    """Money and energy of a token at the recommended K. None where the batch does not fit.

    power_k : the K that ran while the log was taken; None: the recommended one. [-]

    Raises AdvisorError for a price that is none, or a file that is no power log of the scenario's
    run.
    """
    from advisor.show.words.load import does_not_fit, spend_of

    measured = None
    if power_log is None and power_k is not None:
        raise AdvisorError("--power-k needs --power-log FILE")
    if power_log is not None and not does_not_fit(advice.setup):
        k = advice.recommendation.n_draft if power_k is None else power_k
        measured = _power(power_log, k, advice.setup.placement.gpus)
    return spend_of(advice, usd_per_hour, measured)


def advice_document(advice: Advice, outcome: Outcome | None = None) -> dict[str, Any]:
    """The answer as one JSON-able document. Its keys are part of the public contract.

    outcome : the record of the answer, where it is at hand.
    """
    setup = advice.setup
    curve = advice.curve
    facts = (outcome_of(advice) if outcome is None else outcome).facts
    plain, whole = curve.components_at(
        advice.batch_index, curve.column(advice.recommendation.n_draft)
    )
    components_ms = {
        "plain": {name: time_s * 1e3 for name, time_s in plain.items()},
        "round": {name: time_s * 1e3 for name, time_s in whole.items()},
    }
    memory = {
        "weights_bytes_per_gpu": setup.memory.weights_bytes,
        "drafter_bytes_per_gpu": setup.memory.drafter_bytes,
        "kv_bytes_per_sequence_per_gpu": setup.memory.kv_bytes_per_sequence,
        "usable_bytes_per_gpu": setup.memory.usable_bytes,
        "largest_batch": setup.memory.largest_batch,
    }
    answer: dict[str, Any] = {
        "scenario": advice.scenario,
        "scenario_hash": advice.scenario.hash,
        "engine": advice.scenario.engine,
        "band_level": advice.band_level,
        "schema_version": SCHEMA_VERSION,
        "recommendation": answer_document(advice, facts) | {"verdict": BOOK.say("headline", facts)},
        "outcome": facts,
        "says": {slot: BOOK.say(slot, facts) for slot in SLOTS if BOOK.say(slot, facts)},
    }
    by_batch = {
        "k_at_batch": advice.drafts,
        "k_by_batch": [range_values(batch_range) for batch_range in advice.k_by_batch],
        "k_by_batch_says": SCHEDULE_BOOK.says(TEXTS, advice.schedule.facts),
        "sweet_spot_batch": advice.sweet_spot_batch,
        "break_even_batch": advice.break_even_batch,
    }
    return (
        answer
        | by_batch
        | {
            "curve": curve_rows(curve),
            "components_ms": components_ms,
            "memory": memory,
            "routing": setup.routing_because,
            "kv_cache": setup.cache.sentence,
            "acceptance_source": setup.acceptance.source,
            "sources": setup.sources,
            "warnings": note_texts(advice.notes),
            "notes": advice.notes,
            "capture": advice.decided.capture,
        }
    )


def _print_next(steps: NextSteps, goal: Any) -> None:
    """The three changes that help most, with what each comparison leaves out."""
    from advisor.answers.explore.changes import best_effects
    from advisor.show.words.compare import effects_table, none_text, unoffered_texts
    from advisor.show.words.compare import note_texts as change_notes

    best = best_effects(steps, goal)
    click.echo()
    if not best:
        out.say(none_text(steps, goal))
        return
    click.echo(f"Try next, the single changes that help {MERITS[goal].words} most (80% range):")
    out.print_table(effects_table(best, goal))
    out.print_labelled(
        "note", dict.fromkeys(note for item in best for note in change_notes(item.change))
    )
    out.print_labelled("not offered", unoffered_texts(steps))


@click.command(cls=ScenarioCommand)
@click.option(
    "--k",
    "n_draft",
    type=int,
    help="Draft length [default: the recommended one, else the best above 0].",
)
@click.option(
    "--nearby/--no-nearby", default=True, show_default=True, help="Show measured points near it."
)
@out.json_option("Machine-readable output, SI units.")
def explain(scenario: Scenario, n_draft: int | None, nearby: bool, as_json: bool) -> None:
    """Show how the speedup at --batch and --k was made.

    It prints formulas, numbers, sources, and measured points near it.
    """
    from advisor.show.explain.round import derive  # an answer shows no formulas
    from advisor.show.explain.steps import GROUPS, step_text
    from advisor.show.words.explain import BAND_PARTS, CONSTANTS

    advice = advise_scenario(scenario)
    k = advice.curve_k if n_draft is None else n_draft
    derivation = derive(advice.setup, scenario.batch_size, k)
    kernels, speedups = _nearby(advice.setup, derivation) if nearby else ([], [])
    if as_json:
        measurements = {
            "kernels_nearby": kernels,
            "speedups_nearby": speedups,
            "warnings": note_texts(advice.notes),
        }
        document = {
            "scenario_hash": advice.setup.scenario.hash,
            "batch_size": derivation.batch_size,
            "n_draft": derivation.n_draft,
            "steps": [{**vars(step), "text": step_text(step)} for step in derivation.steps],
            "band_parts": band_parts(advice.setup, derivation.batch_size, derivation.n_draft),
            "constants": derivation.constants,
        }
        out.print_json(document | measurements)
        return
    for group in GROUPS:
        steps = derivation.of(group)
        if steps:
            group_k = 0 if group == "Plain step" else k
            click.echo(f"{group}, batch {scenario.batch_size:,}, K = {group_k}")
        for step in steps:
            note = step.note.rstrip(".")
            title = f"{step.title} ({note})" if note else step.title
            click.echo(f"  {title}\n    {step_text(step)}")
        out.say("")
    out.say(correction_text(advice) and f"{correction_text(advice)}\n")
    out.say("Where the 80% range comes from, each kind of uncertainty alone")
    out.print_table(Table(BAND_PARTS, band_parts(advice.setup, derivation.batch_size, k)))
    out.say("\nConstants")
    out.print_table(Table(CONSTANTS, list(dict.fromkeys(derivation.constants))).on_paper())
    _print_nearby(kernels, speedups)
    out.print_labelled("warning", note_texts(advice.notes))


def _print_nearby(kernels: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> None:
    if kernels:
        from advisor.show.words.explain import KERNELS

        out.say("\nKernel measurements near it")
        out.print_table(Table(KERNELS, kernels).on_paper())
    if speedups:
        out.say("\nPublished speedups near it")
        rows = [tuple(map(str, item.values())) for item in speedups]
        out.print_table(matrix(tuple(speedups[0]), rows, "l" * len(speedups[0])))


def _nearby(
    setup: Setup, derivation: Derivation
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measured points as records. Without a usable store a note, and none."""
    scenario = setup.scenario
    try:
        from advisor.measured.store import open_store
        from advisor.show.explain.nearby import near_kernels, nearest_speedups, published_speedups
    except ModuleNotFoundError as error:
        click.echo(f"note: no measured points: {error.name} is not installed", err=True)
        return [], []
    try:
        with open_store() as store:
            kernels = near_kernels(store, setup, derivation.batch_size, derivation.n_draft).to_dict(
                "records"
            )
    except AdvisorError as error:
        click.echo(f"note: no measured kernels: {error}", err=True)
        kernels = []
    if scenario.model_config_json:
        return kernels, []
    points = published_speedups(scenario.hardware_id, scenario.model_id, setup.placement.gpus)
    return kernels, nearest_speedups(points, derivation.batch_size, derivation.n_draft).to_dict(
        "records"
    )
