"""`design`: which MoE to train, at the baseline's quality, so that it serves best with speculative
decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import numpy as np
from pydantic import ValidationError

from advisor.answers.design import start as starts
from advisor.answers.design.answer import DesignAnswer, design_answer
from advisor.answers.design.candidates import LAW_NAMES, Candidate, keeps_baseline
from advisor.answers.design.dials import experts_of
from advisor.answers.design.grid import OBJECTIVES, DesignGrid
from advisor.answers.design.search import design_space
from advisor.answers.design.space import DesignSpace
from advisor.cli import output as out
from advisor.cli.asked import ScenarioCommand, retyped, typed_words
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError, explain
from advisor.show.phrases.book import ratio_text
from advisor.show.phrases.design import STARTED
from advisor.show.table import Column, Table
from advisor.show.words.design import (
    LIMITS_OF_LAWS,
    answer_document,
    binding_text,
    candidate_rows,
    change_text,
    experts_text,
    losses_text,
    sensitivity_text,
    verdict,
    warnings,
)
from advisor.text import csv_text, typed_number

_FROM_NOTHING = "advisor.design.from_nothing"
"""Where the command notes that no model was given, in the context's meta."""


class _DesignCommand(ScenarioCommand):
    """As other commands with a scenario; a typed shape or a target size stands in for the model."""

    asks_model = (
        f"the model to start from (MODEL, --target-total 40B or --shape '{starts.SHAPE_EXAMPLE}')"
    )
    """The model, where it is missing."""

    def invoke(self, ctx: click.Context) -> Any:
        """Without a model but with a shape or a size, the model is a placeholder that `design`
        replaces."""
        shape_or_size = (
            ctx.params["shape"]
            or ctx.params["target_total_params"]
            or ctx.params["target_active_params"]
        )
        started = ctx.params["scenario_file"] is not None or ctx.params["example"] is not None
        if (size := ctx.params["model"]) and typed_number(size) is not None:
            raise AdvisorError(f"{size} is a size, not a model; give it as --target-total {size}")
        with_model = ctx.params["model_id"] is not None or bool(size)
        ctx.meta[_FROM_NOTHING] = bool(shape_or_size) and not with_model and not started
        if ctx.params["shape"] and with_model:
            raise AdvisorError("give a model or --shape, not both")
        if ctx.meta[_FROM_NOTHING]:
            ctx.params["model_id"] = FIELDS["model_id"].default
        return super().invoke(ctx)


@click.command(cls=_DesignCommand)
@click.option("--shape", help=f"A shape instead of MODEL, e.g. '{starts.SHAPE_EXAMPLE}'.")
@click.option(
    "--target-total",
    "target_total_params",
    type=float,
    help="Total parameters within 5%, e.g. 40B.",
)
@click.option(
    "--target-active",
    "target_active_params",
    type=float,
    help="Active ones, no embeddings, within 5%.",
)
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="tpot",
    show_default=True,
    help="Ranks designs.",
)
@click.option(
    "--quality-eps",
    type=float,
    default=DEFAULT_EPS,
    show_default=True,
    help="Share of quality to lose.",
)
@click.option(
    "--tokens",
    "training_tokens",
    type=float,
    help="Training tokens, the same for all designs, e.g. 1e12.",
)
@click.option(
    "--batches",
    help="Batches, e.g. 1,64,512, 1-512, or with weights 1:0.2,64:0.8 [default: --batch].",
)
@click.option("--max-total-params", type=float, help="Maximum total parameters, e.g. 4e10.")
@click.option(
    "--max-training-cost", type=float, help="Maximum training compute over the baseline's, e.g. 1."
)
@click.option(
    "--max-memory-gb", type=float, help="Memory per GPU that the engine may use [default: 90%]."
)
@out.spend_options(power=False)
@click.option("--experts", help="Numbers of experts to try, e.g. 64,128.")
@click.option("--active", help="Numbers of active experts per token to try, e.g. 4,8.")
@click.option("--shared", help="Numbers of shared experts to try.")
@click.option(
    "--width-step",
    type=int,
    default=32,
    show_default=True,
    help="Step between expert widths tried.",
)
@click.option("--depths", help="Multiples of the baseline's depth to try, e.g. 0.75,1,1.25.")
@click.option("--heads", help="Multiples of the baseline's attention heads to try, e.g. 0.5,1.")
@click.option(
    "--top", type=click.IntRange(1, 100), default=8, show_default=True, help="Candidates to list."
)
@out.path_option("--csv", "csv_file", help="Write the candidates here as CSV.")
@out.path_option("--config", "config_file", help="Write the headline's design as config.json here.")
@out.json_option()
@click.pass_context
def design(
    ctx: click.Context,
    scenario: Scenario,
    *,
    top: int,
    csv_file: Path | None,
    config_file: Path | None,
    as_json: bool,
    # the options of the grid, and those that design_space takes as they stand
    **question: Any,
) -> None:
    """Search for the MoE to train instead of MODEL, at equal quality, to serve with speculative
    decoding."""
    show = out.progress("searching")
    typed = question.pop("batches")
    scenario, start = _started(
        scenario, question.pop("shape"), question, from_nothing=ctx.meta[_FROM_NOTHING]
    )
    batches = None if typed is None else starts.parse_batches(typed)
    question = _question(question) | {"on_progress": show}
    answer = design_answer(design_space(scenario, batches=batches, **question), top)
    space = answer.space
    best = None if answer.recommended is None else answer.recommended.index
    keeps = answer.recommended is not None and keeps_baseline(space, answer.recommended)
    rows = candidate_rows(answer)
    show(1)
    if csv_file is not None:
        out.write_file(csv_file, csv_text(list(rows[0]) if rows else ["rank"], rows))
    if config_file is not None:
        _write_config(config_file, space, best, keeps=keeps)
    if as_json:
        out.print_json(answer_document(answer) | ({"start": start} if start else {}))
        return
    out.say(start and f"{start}\n")
    _tell(answer, start)
    if best is not None:
        routing = "" if keeps else starts.routing_in_serve(space, experts_of(space, best))
        _print_onward(config_file, routing, keeps=keeps and not start)


def _print_onward(config_file: Path | None, routing: str, *, keeps: bool) -> None:
    """What follows a design: its config.json, then its answer. keeps : it is the model that was
    given.

    routing : the design's, as text for a scenario; empty where the scenario's own says it.
    """
    if keeps:
        out.print_next({"the design itself": ["advise", *typed_words()]})
    elif config_file is None:
        out.print_next(
            {"its config.json, for advise": ["design", *retyped(), "--config", "design.json"]}
        )
    else:
        moved = ["--routing", routing] if routing else []
        words = typed_words("model_id", *(["routing"] if routing else []))
        out.print_next({"the design itself": ["advise", str(config_file), *words, *moved]})


def _started(
    scenario: Scenario, shape: str | None, question: dict[str, Any], *, from_nothing: bool
) -> tuple[Scenario, str]:
    """The model to start from where it was typed or sized, with what it is; else the scenario as it
    stands."""
    started = None
    if shape is not None:
        started = starts.start_from_shape(scenario, shape)
    elif from_nothing:
        sizes = question["target_total_params"], question["target_active_params"]
        started = starts.start_from_size(scenario, *sizes)
    return (
        (scenario, "")
        if started is None
        else (started.scenario, STARTED.say("start", started.facts))
    )


_GRID = {
    "experts": ("n_experts", int),
    "active": ("n_active", int),
    "shared": ("n_shared", int),
    "depths": ("depth_factors", float),
    "heads": ("head_factors", float),
    "width_step": ("width_step", int),
}
"""Options of the grid: what they set, and the kind of its numbers."""


def _grid(typed: Mapping[str, Any]) -> DesignGrid:
    """The grid of the options. Raises AdvisorError, which names them, for what is no list of
    numbers."""
    values: dict[str, Any] = {}
    for option, text in typed.items():
        name, kind = _GRID[option]
        try:
            if text is not None:
                values[name] = (
                    tuple(kind(each) for each in text.split(",")) if isinstance(text, str) else text
                )
        except ValueError as error:
            kinds = "whole numbers" if kind is int else "numbers"
            raise AdvisorError(
                f"--{option} {text!r} is not a comma-separated list of {kinds}"
            ) from error
    try:
        return DesignGrid(**values)
    except ValidationError as error:
        message = explain(error)
        for option, (name, _) in _GRID.items():
            message = message.replace(name, f"--{option.replace('_', '-')}")
        raise AdvisorError(message) from error


def _question(options: dict[str, Any]) -> dict[str, Any]:
    """The rest of the options by the names of `design_space`: grid, price and memory in its
    terms."""
    grid = _grid({name: options.pop(name) for name in _GRID})
    gb = options.pop("max_memory_gb")
    price = options.pop("usd_per_hour")
    memory = None if gb is None else gb * 1e9
    return options | {"grid": grid, "price_usd_per_hour": price, "max_memory_bytes": memory}


def _law(candidate: Candidate, *, at: int) -> str:
    return ratio_text(candidate.quality[at].ratio)


def _best_designs(answer: DesignAnswer) -> Table[Candidate]:
    """The best distinct designs, shared experts without decimals where all are whole."""
    question = answer.space.question
    shared = (
        "{:.0f}"
        if all(candidate.n_shared == round(candidate.n_shared) for candidate in answer.top)
        else "{:.2f}"
    )
    columns: tuple[Column[Candidate], ...] = (
        Column("N", attrgetter("n_experts")),
        Column("k", attrgetter("n_active")),
        Column("s", attrgetter("n_shared"), shared.format),
        Column("width", attrgetter("expert_width")),
        Column("K", lambda item: "/".join(map(str, item.n_draft))),
        Column("ms/token", lambda item: question.mean_tpot_s(item.tpot_s) * 1e3, "{:.2f}".format),
        Column("gain", lambda item: item.objective_gain.value, "{:.3f}".format),
        Column(
            "80% range",
            lambda item: f"{item.objective_gain.low:.2f}-{item.objective_gain.high:.2f}",
        ),
        Column(
            "speedup",
            lambda item: question.mean_speedup(item.speedup, item.tpot_s),
            "{:.2f}".format,
        ),
        Column("total B", lambda item: item.total_params / 1e9, "{:.1f}".format),
        Column("active B", lambda item: item.active_params / 1e9, "{:.2f}".format),
        Column("training", attrgetter("training_cost"), "{:.2f}x".format),
        *(
            Column[Candidate](f"law {letter}", partial(_law, at=at))
            for at, letter in enumerate("ABC")
        ),
    )
    return Table(columns, answer.top)


def _tell(answer: DesignAnswer, start: str) -> None:
    space = answer.space
    out.say(verdict(answer, "start" if start else "today"))
    if answer.recommended is None:
        return
    out.say(f"\n{binding_text(space)}\n")
    out.say(
        f"{len(space):,} designs, {len(space.candidates):,} at equal quality within all limits. "
        "Best distinct:"
    )
    out.print_table(_best_designs(answer))
    laws = "; ".join(
        f"{letter}: {name}" for letter, name in zip("ABC", LAW_NAMES.values(), strict=True)
    )
    out.say(f"Training: compute at equal tokens over the baseline's. Quality by law {laws}.")
    out.say(
        "\nTime lost at equal quality with one value held, the others solved again (k/N to the "
        "nearest pair):"
    )
    for dial in answer.dials:
        out.say(f"  {losses_text(dial)}")
    out.say(f"\n{sensitivity_text(answer.sensitivity)}")
    for change in answer.sensitivity:
        if not change.flips or change.best is None:
            continue
        cost = (
            "it is then not allowed"
            if np.isnan(change.regret)
            else f"keeping it costs {change.regret:.1%}"
        )
        out.say(f"  {change_text(change)}: {experts_text(space, change.best)} ({cost})")
    out.say("")
    out.print_labelled("warning", warnings(answer))
    out.print_labelled("limit", LIMITS_OF_LAWS)


def _write_config(path: Path, space: DesignSpace, index: int | None, *, keeps: bool) -> None:
    """Write the headline's design, which is the baseline where that is to be kept."""
    if index is None:
        raise AdvisorError(f"no design is feasible, so {path} is not written")
    config = (
        starts.baseline_config(space.setup.scenario)
        if keeps
        else starts.design_config(space, index)
    )
    out.write_file(path, json.dumps(config, indent=2) + "\n")
    added = starts.added_keys(space, config)
    if added:
        click.echo(
            f"{path}: {', '.join(added)} is new to this model type; the engine must support it.",
            err=True,
        )
