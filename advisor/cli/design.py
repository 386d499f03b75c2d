"""`design`: which MoE to train, at the baseline's quality, so that it serves best with speculative decoding; for one
accelerator and batch, for several targets as one, or over a map of both."""

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

from advisor.answers.design.answer import DesignAnswer, design_answer, sensitivity_text
from advisor.answers.design.candidates import LAW_NAMES, Candidate
from advisor.answers.design.cells import parse_place
from advisor.answers.design.grid import OBJECTIVES, DesignGrid
from advisor.answers.design.regions import (
    MAP_ACCELERATORS,
    OneDesign,
    RegionMap,
    one_design,
    parse_target,
    parse_targets,
    region_map,
)
from advisor.answers.design.search import design_space
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.start import (
    SHAPE_EXAMPLE,
    Start,
    added_keys,
    design_config,
    parse_batches,
    start_from_shape,
    start_from_size,
)
from advisor.cli.output import (
    ScenarioCommand,
    json_option,
    path_option,
    print_json,
    print_labelled,
    print_table,
    progress,
    say,
    spend_options,
    write_file,
)
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError, explain
from advisor.show.table import Column, Table
from advisor.show.words.design import answer_document, candidate_rows, losses_text
from advisor.show.words.one_design import (
    against_baseline,
    choices_table,
    one_design_document,
    one_design_notes,
    one_design_price,
    one_design_rows,
    one_design_table,
    one_design_verdict,
)
from advisor.show.words.regions import (
    held_where,
    map_cells_table,
    region_document,
    region_notes,
    region_rows,
    region_table,
    region_verdict,
)
from advisor.text import csv_text, typed_number

_FROM_NOTHING = "advisor.design.from_nothing"
"""Where the command notes that no model was given, in the context's meta."""


class _DesignCommand(ScenarioCommand):
    """As other commands with a scenario; a typed shape or a target size stands in for the model."""

    def invoke(self, ctx: click.Context) -> Any:
        """Without a model but with a shape or a size, the model is a placeholder that `design` replaces."""
        asked = ctx.params["shape"] or ctx.params["target_total_params"] or ctx.params["target_active_params"]
        started = ctx.params["scenario_file"] is not None or ctx.params["example"] is not None
        if (size := ctx.params["model"]) and typed_number(size) is not None:
            raise AdvisorError(f"{size} is a size, not a model; give it as --target-total {size}")
        ctx.meta[_FROM_NOTHING] = bool(asked) and ctx.params["model_id"] is None and not started
        if ctx.params["shape"] and ctx.params["model_id"] is not None:
            raise AdvisorError("give --model or --shape, not both")
        if ctx.meta[_FROM_NOTHING]:
            ctx.params["model_id"] = FIELDS["model_id"].default
        if ctx.params["hardware_id"] is None and not started and (named := _first_named(ctx.params)):
            ctx.params["hardware_id"] = named
        return super().invoke(ctx)


def _first_named(params: dict[str, Any]) -> str | None:
    """The accelerator of the first target or of the map's first column, which --hardware may leave out."""
    if params["targets"]:
        return parse_target(params["targets"][0]).place.hardware_id
    if params["accelerators"] is not None:
        return parse_place(params["accelerators"].split(",")[0]).hardware_id
    return MAP_ACCELERATORS[0] if params["as_map"] else None


@click.command(cls=_DesignCommand)
@click.option("--shape", help=f"A shape instead of --model, e.g. '{SHAPE_EXAMPLE}'.")
@click.option(
    "--target-total",
    "target_total_params",
    type=float,
    help="Target total parameters, within 5%, e.g. 4e10; can replace MODEL.",
)
@click.option(
    "--target-active",
    "target_active_params",
    type=float,
    help="Target active parameters without embeddings, within 5%, e.g. 3e9.",
)
@click.option(
    "--objective", type=click.Choice(OBJECTIVES), default="tpot", show_default=True, help="What to rank designs by."
)
@click.option(
    "--quality-eps",
    type=float,
    default=DEFAULT_EPS,
    show_default=True,
    help="Maximum share of quality that may be lost.",
)
@click.option("--tokens", "training_tokens", type=float, help="Training tokens, the same for all designs, e.g. 1e12.")
@click.option("--batches", help="Batches, e.g. 1,64,512, 1-512, or with weights 1:0.2,64:0.8 [default: --batch].")
@click.option("--max-total-params", type=float, help="Maximum total parameters, e.g. 4e10.")
@click.option(
    "--max-training-cost",
    type=float,
    help="Maximum training compute relative to the baseline's at equal tokens, e.g. 1.",
)
@click.option("--max-memory-gb", type=float, help="Memory per GPU that the engine may use [default: 90%].")
@spend_options(power=False, also=("--price",))
@click.option("--experts", help="Numbers of experts to try, e.g. 64,128.")
@click.option("--active", help="Numbers of active experts per token to try, e.g. 4,8.")
@click.option("--shared", help="Numbers of shared experts to try.")
@click.option("--width-step", type=int, default=32, show_default=True, help="Step between expert widths tried.")
@click.option("--depths", help="Multiples of the baseline's depth to try, e.g. 0.75,1,1.25.")
@click.option("--heads", help="Multiples of the baseline's attention heads to try, e.g. 0.5,1.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="ACCELERATOR:BATCH, e.g. h100-sxm:8, or 2xb200-sxm:128 on two; repeat it for the one design of all of them.",
)
@click.option(
    "--map",
    "as_map",
    is_flag=True,
    help="Map the best design over --batches and --accelerators, with as few designs as suffice.",
)
@click.option("--accelerators", help=f"Columns of the map, comma-separated [default: {','.join(MAP_ACCELERATORS)}].")
@click.option("--top", type=click.IntRange(1, 100), default=8, show_default=True, help="Candidates to list.")
@path_option("--csv", "csv_file", help="Write the candidates here as CSV.")
@path_option("--config", "config_file", help="Write the best as config.json here.")
@json_option()
@click.pass_context
def design(
    ctx: click.Context,
    scenario: Scenario,
    *,
    top: int,
    csv_file: Path | None,
    config_file: Path | None,
    as_json: bool,
    **question: Any,  # the options of the grid and the places, and those that design_space takes as they stand
) -> None:
    """Search for the MoE to train instead of --model, at equal quality, to serve with speculative decoding.

    --target asks for the one design that several accelerators and batches lose least with; --map for each one's.
    """
    show = progress("searching")
    batches, targets, accelerators, gb = (
        question.pop(name) for name in ("batches", "targets", "accelerators", "max_memory_gb")
    )
    is_map = question.pop("as_map") or accelerators is not None
    started = _started(scenario, question.pop("shape"), question, from_nothing=ctx.meta[_FROM_NOTHING])
    asked = scenario if started is None else started.scenario
    options = {
        "grid": _grid({name: question.pop(name) for name in _GRID}),
        "price_usd_per_hour": question.pop("usd_per_hour"),
        "max_memory_bytes": None if gb is None else gb * 1e9,
        **question,
        "on_progress": show,
    }
    start = "" if started is None else started.note
    _refuse_mixed(targets, batches, config_file, is_map=is_map)
    if targets:
        one = one_design(asked, parse_targets(targets, asked.hardware_id), top, **options)
        _give_one(one, start, csv_file, config_file, as_json=as_json)
        return
    if is_map:
        _give_map(_mapped(asked, accelerators, batches, options), start, csv_file, as_json=as_json)
        return
    space = design_space(asked, batches=parse_batches(batches) if batches is not None else None, **options)
    show(1)
    answer = design_answer(space, top)
    if csv_file is not None:
        _write(csv_file, candidate_rows(answer))
    if config_file is not None:
        _write_config(config_file, space, None if answer.recommended is None else answer.recommended.index)
    if as_json:
        print_json(answer_document(answer) | _started_from(start))
        return
    _print_start(start)
    _print(answer)


def _mapped(scenario: Scenario, accelerators: str | None, batches: str | None, options: dict[str, Any]) -> RegionMap:
    """The map of the accelerators and batches that are typed, else of the defaults."""
    places = [] if accelerators is None else [parse_place(x, scenario.hardware_id) for x in accelerators.split(",")]
    return region_map(scenario, places, None if batches is None else list(parse_batches(batches)), **options)


def _refuse_mixed(targets: tuple[str, ...], batches: str | None, config: Path | None, *, is_map: bool) -> None:
    """Raise AdvisorError for options of two questions at once."""
    if targets and is_map:
        raise AdvisorError("give --target for one design, or --map (--accelerators) for a map, not both")
    if targets and batches is not None:
        raise AdvisorError("--target already names a batch; leave --batches out")
    if is_map and config is not None:
        raise AdvisorError(
            "--map has several designs; --config writes one, of --target or of one accelerator and batch"
        )


def _give_one(one: OneDesign, start: str, csv_file: Path | None, config_file: Path | None, *, as_json: bool) -> None:
    """One design for several targets: files, then JSON or words and tables."""
    if csv_file is not None:
        _write(csv_file, one_design_rows(one))
    if config_file is not None:
        _write_config(config_file, one.cells.spaces[0], None if one.best is None else one.best.index)
    if as_json:
        print_json(one_design_document(one) | _started_from(start))
        return
    _print_start(start)
    for text in (one_design_verdict(one), against_baseline(one), one_design_price(one)):
        if text:
            say(text)
    click.echo()
    print_table(one_design_table(one))
    if one.choices:
        say("\nExpected loss of the best designs, over the targets and at each:")
        print_table(choices_table(one))
    click.echo()
    print_labelled("note", one_design_notes(one))


def _give_map(drawn: RegionMap, start: str, csv_file: Path | None, *, as_json: bool) -> None:
    """A map of regions: its cells as CSV, then JSON or words and tables."""
    if csv_file is not None:
        _write(csv_file, region_rows(drawn))
    if as_json:
        print_json(region_document(drawn) | _started_from(start))
        return
    _print_start(start)
    say(f"{region_verdict(drawn)}\n\nRegion, K, and expected loss against the cell's own best:")
    print_table(map_cells_table(drawn))
    click.echo()
    print_table(region_table(drawn))
    for region in drawn.regions:
        say(f"{region.letter} holds {held_where(drawn, region)}.")
    click.echo()
    print_labelled("note", region_notes(drawn))


def _started_from(note: str) -> dict[str, str]:
    return {"start": note} if note else {}


def _print_start(note: str) -> None:
    if note:
        say(f"{note}\n")


def _started(scenario: Scenario, shape: str | None, question: dict[str, Any], *, from_nothing: bool) -> Start | None:
    """The model to start from where it was typed or sized; None where the scenario has one."""
    if shape is not None:
        return start_from_shape(scenario, shape)
    if from_nothing:
        return start_from_size(scenario, question["target_total_params"], question["target_active_params"])
    return None


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
    """The grid of the options. Raises AdvisorError, which names them, for what is no list of numbers."""
    given: dict[str, Any] = {}
    for option, text in typed.items():
        name, kind = _GRID[option]
        try:
            if text is not None:
                given[name] = tuple(kind(each) for each in text.split(",")) if isinstance(text, str) else text
        except ValueError as error:
            kinds = "whole numbers" if kind is int else "numbers"
            raise AdvisorError(f"--{option} {text!r} is not a comma-separated list of {kinds}") from error
    try:
        return DesignGrid(**given)
    except ValidationError as error:
        said = explain(error)
        for option, (name, _) in _GRID.items():
            said = said.replace(name, f"--{option.replace('_', '-')}")
        raise AdvisorError(said) from error


def _law(item: Candidate, *, at: int) -> str:
    return item.quality[at].short


def _best_designs(answer: DesignAnswer) -> Table[Candidate]:
    """The best distinct designs, shared experts without decimals where all are whole."""
    question = answer.space.question
    shared = "{:.0f}" if all(item.n_shared == round(item.n_shared) for item in answer.top) else "{:.2f}"
    columns: tuple[Column[Candidate], ...] = (
        Column("N", attrgetter("n_experts")),
        Column("k", attrgetter("n_active")),
        Column("s", attrgetter("n_shared"), shared.format),
        Column("width", attrgetter("expert_width")),
        Column("total B", lambda item: item.total_params / 1e9, "{:.1f}".format),
        Column("active B", lambda item: item.active_params / 1e9, "{:.2f}".format),
        Column("training", attrgetter("training_cost"), "{:.2f}x".format),
        *(Column[Candidate](f"law {letter}", partial(_law, at=at)) for at, letter in enumerate("ABC")),
        Column("speedup", lambda item: question.mean_speedup(item.speedup, item.tpot_s), "{:.2f}".format),
        Column("ms/token", lambda item: question.mean_tpot_s(item.tpot_s) * 1e3, "{:.2f}".format),
        Column("K", lambda item: "/".join(map(str, item.n_draft))),
        Column("gain", lambda item: item.objective_gain.value, "{:.3f}".format),
        Column("likely range", lambda item: f"{item.objective_gain.low:.2f}-{item.objective_gain.high:.2f}"),
    )
    return Table(columns, answer.top)


def _print(answer: DesignAnswer) -> None:
    space = answer.space
    say(answer.verdict)
    if answer.recommended is None:
        return
    say(f"\n{answer.binding_text}\n")
    say(f"{len(space):,} designs, {len(space.candidates):,} at equal quality within all limits. Best distinct:")
    print_table(_best_designs(answer))
    laws = "; ".join(f"{letter}: {name}" for letter, name in zip("ABC", LAW_NAMES.values(), strict=True))
    say(f"Training: compute at equal tokens over the baseline's. Quality by law {laws}.")
    say("\nTime lost at equal quality with one value held, the others solved again (k/N to the nearest pair):")
    for dial in answer.dials:
        say(f"  {losses_text(dial)}")
    flipped = [item for item in answer.sensitivity if item.flips]
    say(f"\n{sensitivity_text(answer.sensitivity)}")
    for item in flipped:
        cost = "it is then not allowed" if np.isnan(item.regret) else f"keeping it costs {item.regret:.1%}"
        say(f"  {item.change}: {item.best_text} ({cost})")
    say("")
    print_labelled("warning", answer.warnings)
    print_labelled("limit", answer.limits)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    write_file(path, csv_text(list(rows[0]) if rows else ["rank"], rows))


def _write_config(path: Path, space: DesignSpace, index: int | None) -> None:
    if index is None:
        raise AdvisorError(f"no design is feasible, so {path} is not written")
    config = design_config(space, index)
    write_file(path, json.dumps(config, indent=2) + "\n")
    added = added_keys(space, config)
    if added:
        click.echo(f"{path}: {', '.join(added)} is new to this model type; the engine must support it.", err=True)
