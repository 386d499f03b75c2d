"""`advise` and `curve`: one scenario's answer, and the grid behind it."""

from __future__ import annotations

import sys
from typing import Any

import click
import numpy as np

from advisor.advice import Advice
from advisor.advice import advise as advise_scenario
from advisor.cli.output import print_json, print_table
from advisor.cli.scenario_options import ScenarioCommand
from advisor.curve import DEFAULT_BATCHES, curve_rows, speedup_curve
from advisor.next_steps import (
    GOAL_NAMES,
    GOAL_WORDS,
    GOALS,
    Goal,
    NextSteps,
    best_effects,
    change_text,
    gain_text,
    next_steps,
    none_text,
    steps_document,
)
from advisor.prediction import AdvisorError
from advisor.runtime import DEFAULT_MARGIN
from advisor.scenario import Scenario
from advisor.text import csv_text


@click.command(cls=ScenarioCommand)
@click.option(
    "--goal", type=click.Choice(GOALS), default=GOALS[0], show_default=True, help="What `try next` is ranked by."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def advise(scenario: Scenario, goal: Goal, as_json: bool) -> None:
    """Recommend a draft length K for one scenario, with its band and the reason, and what to try next.

    Expected loss: how much of the speedup this K gives away on average over the band's draws, against each draw's own
    fastest K (`regret` in JSON).
    """
    advice = advise_scenario(scenario)
    steps = next_steps(advice)
    if as_json:
        print_json(advice_document(advice) | {"next_steps": steps_document(steps)})
        return
    answer = advice.recommendation
    click.echo(answer.verdict)
    if steps.standing is not None:
        click.echo(steps.standing.text)
    click.echo(f"{answer.bound_because} ({answer.bound}-bound)")
    click.echo(
        f"Time per output token {answer.tpot_s * 1e3:.2f} ms, {answer.tokens_per_s_per_gpu:,.0f} tokens/s per GPU; "
        f"chance that K = {answer.k_draft} is best {answer.p_best:.0%}, expected loss {answer.regret:.1%}."
    )
    if answer.equals:
        click.echo(answer.equals)
    click.echo(f"Speedup: {answer.speedup.tier} ({answer.speedup.because}); {advice.band_level:.0%} band.\n")
    click.echo(f"K by batch, in the fewest ranges that lose at most {DEFAULT_MARGIN:.0%} against the best K:")
    rows = [
        (f"{r.batch_start}-{r.batch_end}", r.k_draft, f"{r.speedup:.2f}", f"{r.regret:.1%}") for r in advice.k_by_batch
    ]
    print_table(("batch", "K", "mean speedup", "largest loss"), rows)
    _print_next(steps, goal)
    _print_notes(advice)


@click.command(cls=ScenarioCommand)
@click.option("--batches", default=",".join(map(str, DEFAULT_BATCHES)), help="Comma-separated batch sizes.")
@click.option("--k", "drafts", help="Comma-separated draft lengths [default: 0 to --k-max].")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def curve(scenario: Scenario, batches: str, drafts: str | None, as_json: bool) -> None:
    """Speedup over batch and K, with bands, expert counts and components, as CSV."""
    grid = speedup_curve(
        scenario, _whole_numbers("--batches", batches), _whole_numbers("--k", drafts) if drafts else None
    )
    rows = curve_rows(grid)
    if as_json:
        print_json(rows)
        return
    sys.stdout.write(csv_text(list(rows[0]), rows))


def advice_document(advice: Advice) -> dict[str, Any]:
    """The answer as one JSON-able document; its keys are part of the public contract."""
    answer = advice.recommendation
    row = advice.batch_index
    column = int(np.flatnonzero(advice.curve.drafts == answer.k_draft)[0])
    return {
        "scenario": advice.scenario,
        "scenario_hash": advice.scenario.hash,
        "engine": advice.scenario.engine,
        "band_level": advice.band_level,
        "recommendation": {
            "k_draft": answer.k_draft,
            "speedup": answer.speedup.value,
            "speedup_low": answer.speedup.low,
            "speedup_high": answer.speedup.high,
            "tier": answer.speedup.tier,
            "because": answer.speedup.because,
            "extrapolated": answer.speedup.extrapolated,
            "bound": answer.bound,
            "bound_because": answer.bound_because,
            "tpot_ms": answer.tpot_s * 1e3,
            "tokens_per_s_per_gpu": answer.tokens_per_s_per_gpu,
            "p_best": answer.p_best,
            "regret": answer.regret,
            "equal_drafts": answer.equal_drafts,
            "meets_limit": answer.meets_limit,
            "verdict": answer.verdict,
        },
        "k_by_batch": advice.k_by_batch,
        "sweet_spot_batch": advice.sweet_spot_batch,
        "break_even_batch": advice.break_even_batch,
        "curve": curve_rows(advice.curve),
        "components_ms": {
            "plain": {name: time[row] * 1e3 for name, time in advice.curve.plain_components.items()},
            "round": {name: time[row, column] * 1e3 for name, time in advice.curve.round_components.items()},
        },
        "memory": {
            "weights_bytes_per_gpu": advice.setup.memory.weights_bytes,
            "drafter_bytes_per_gpu": advice.setup.memory.drafter_bytes,
            "kv_bytes_per_sequence_per_gpu": advice.setup.memory.kv_bytes_per_sequence,
            "usable_bytes_per_gpu": advice.setup.memory.usable_bytes,
            "largest_batch": advice.setup.memory.largest_batch,
        },
        "routing": advice.setup.routing_because,
        "acceptance_source": advice.setup.acceptance.source,
        "sources": advice.setup.sources,
        "warnings": advice.warnings,
    }


def _whole_numbers(option: str, text: str) -> list[int]:
    try:
        return [int(piece) for piece in text.split(",")]
    except ValueError as error:
        raise AdvisorError(f"{option} {text!r} is not a comma-separated list of whole numbers, e.g. 1,2,4") from error


def _print_next(steps: NextSteps, goal: Goal) -> None:
    """The three changes that help most, with what each comparison leaves out."""
    best = best_effects(steps, goal)
    if not best:
        click.echo(f"\n{none_text(steps, goal)}")
        return
    click.echo(f"\nTry next, the single changes that help {GOAL_WORDS[goal]} most (80% band):")
    header = ("change", "gain", *(GOAL_NAMES[shown] for shown in GOALS), "tier")
    rows = [
        (item.change.what, gain_text(item, goal), *(change_text(item, shown) for shown in GOALS), str(item.tier))
        for item in best
    ]
    print_table(header, rows)
    for note in dict.fromkeys(note for item in best for note in item.change.notes):
        click.echo(f"note: {note}")


def _print_notes(advice: Advice) -> None:
    setup = advice.setup
    click.echo(f"\nAccepted length: {setup.acceptance.source.rstrip('.')}.")
    click.echo(f"Routing: {setup.routing_because.rstrip('.')}.")
    for warning in advice.warnings:
        click.echo(f"warning: {warning}")
