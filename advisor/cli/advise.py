"""`advise`: the answer to one scenario, short on a terminal, whole as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.advice import Advice, answer_values
from advisor.answers.advice import advise as advise_scenario
from advisor.answers.round_costs import range_values
from advisor.answers.schedule import accepted_length_text, schedule_rule
from advisor.cli.output import (
    TYPED,
    ScenarioCommand,
    json_option,
    print_json,
    print_labelled,
    print_table,
    say,
    spend_options,
    text_width,
)
from advisor.predict.curve import curve_rows
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.table import Table
from advisor.show.words.answer import short_answer
from advisor.show.words.schedule import DRAFTS, k_by_batch_table
from advisor.text import MERITS

if TYPE_CHECKING:
    from advisor.answers.explore.changes import NextSteps
    from advisor.predict.spend import MeasuredPower, Spend

GOALS = ("tokens_per_s_per_gpu", "tpot", "speedup")
"""Those of answers/explore/changes.py, which an answer without next steps does not load."""


@click.command(cls=ScenarioCommand)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also cost, energy, what to try next, and where each figure is from."
)
@click.option(
    "--goal", type=click.Choice(GOALS), default=GOALS[0], show_default=True, help="What `try next` of -v is ranked by."
)
@spend_options()
@json_option()
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

    Expected loss: how much of the speedup a K gives away on average against the best K in each of 256 simulated
    cases (`regret` in JSON). The K that loses least is recommended; within the noise the smaller.
    """
    advice = advise_scenario(scenario)
    asked = usd_per_hour is not None or power_log is not None or power_k is not None
    spend = spend_of(advice, usd_per_hour, power_log, power_k) if as_json or verbose or asked else None
    if as_json:
        from advisor.answers.explore.changes import next_steps
        from advisor.show.words.load import spend_document
        from advisor.show.words.next_steps import steps_document

        told = None if spend is None else spend_document(spend)
        print_json(advice_document(advice) | {"spend": told, "next_steps": steps_document(next_steps(advice))})
        return
    made = short_answer(advice, click.get_current_context().meta[TYPED], text_width())
    click.echo("\n".join(made.head))
    print_table(Table(DRAFTS, advice.drafts) if verbose else made.table)
    click.echo("\n".join(made.tail))
    if not verbose:
        left_out = f"{made.left_out}, " if made.left_out else ""
        say(f"-v adds {left_out}cost, energy, what to try next; `advisor explain` shows formulas.")
    if spend is not None:
        from advisor.show.words.load import spend_text

        say(spend_text(spend, advice.setup.hardware))
    if verbose:
        _print_more(advice, goal)


def _print_more(advice: Advice, goal: str) -> None:
    """All that the short answer leaves out."""
    from advisor.answers.explore.changes import next_steps
    from advisor.show.words.load import does_not_fit

    answer, limited = advice.recommendation, advice.scenario.max_tpot_ms
    steps = next_steps(advice)
    click.echo()
    for text in (
        answer.verdict,
        steps.standing.text if steps.standing is not None else "",
        f"{answer.bound_because} ({answer.bound}-bound)",
        does_not_fit(advice.setup),
        f"Speedup: {answer.speedup.tier} ({answer.speedup.because}).",
    ):
        say(text)
    click.echo("\nK by batch:")
    print_table(k_by_batch_table(advice.k_by_batch, limited is not None))
    say(schedule_rule(limited))
    _print_next(steps, goal)
    click.echo()
    say(accepted_length_text(advice.setup))
    say(f"Routing: {advice.setup.routing_because.rstrip('.')}.")
    print_labelled("warning", advice.warnings)


def _power(file: Path, n_draft: int, gpus: int) -> MeasuredPower:
    """The power log of a run at one K. Raises AdvisorError for another file, and for GPUs that no instance has."""
    from advisor.cli.measured_files import read_bytes  # readers of files need pandas, an answer does not
    from advisor.measured.ingest.logs import read_power_log
    from advisor.predict.spend import MeasuredPower

    log = read_power_log(file.name, read_bytes(file))
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, n_draft)


def spend_of(advice: Advice, usd_per_hour: float | None, power_log: Path | None, power_k: int | None) -> Spend | None:
    """Money and energy of a token at the recommended K. None where the batch does not fit.

    power_k : the K that ran while the log was taken; None: the recommended one. [-]

    Raises AdvisorError for a price that is none, or a file that is no power log of the scenario's run.
    """
    from advisor.predict.spend import price_of, spend_at
    from advisor.show.words.load import does_not_fit

    curve, setup, best = advice.curve, advice.setup, advice.recommendation.n_draft
    if power_log is None and power_k is not None:
        raise AdvisorError("--power-k needs --power-log FILE")
    price, measured = price_of(setup.hardware, usd_per_hour), None
    if does_not_fit(setup):
        return None
    if power_log is not None:
        measured = _power(power_log, best if power_k is None else power_k, setup.placement.gpus)
    return spend_at(setup, curve, advice.batch_index, curve.column(best), price, measured)


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


def _print_next(steps: NextSteps, goal: Any) -> None:
    """The three changes that help most, with what each comparison leaves out."""
    from advisor.answers.explore.changes import best_effects
    from advisor.show.words.next_steps import effects_table, none_text, unoffered_texts

    best = best_effects(steps, goal)
    click.echo()
    if not best:
        say(none_text(steps, goal))
        return
    click.echo(f"Try next, the single changes that help {MERITS[goal].words} most (likely range):")
    print_table(effects_table(best, goal))
    print_labelled("note", dict.fromkeys(note for item in best for note in item.change.notes))
    print_labelled("not offered", unoffered_texts(steps))
