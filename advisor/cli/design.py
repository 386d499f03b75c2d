"""`design`: which MoE to train, at the baseline's quality, so that it serves best with speculative decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from pydantic import ValidationError

from advisor.cli.output import json_option, print_json, print_labelled, print_table, progress, write_file
from advisor.cli.scenario_options import ScenarioCommand
from advisor.design import (
    LAW_NAMES,
    OBJECTIVES,
    SHAPE_EXAMPLE,
    DesignAnswer,
    DesignGrid,
    Start,
    added_keys,
    answer_document,
    candidate_rows,
    design_answer,
    design_config,
    design_space,
    parse_batches,
    sensitivity_text,
    start_from_shape,
    start_from_size,
)
from advisor.prediction import AdvisorError
from advisor.scenario import FIELDS, Scenario, explain
from advisor.text import csv_text

_FROM_NOTHING = "advisor.design.from_nothing"
"""Where the command notes that no model was given, in the context's meta."""


class _DesignCommand(ScenarioCommand):
    """As other commands with a scenario; a typed shape or a target size stands in for the model."""

    def invoke(self, ctx: click.Context) -> Any:
        """Without a model but with a shape or a size, the model is a placeholder that `design` replaces."""
        asked = ctx.params["shape"] or ctx.params["target_total_params"] or ctx.params["target_active_params"]
        started = ctx.params["scenario_file"] is not None or ctx.params["example"] is not None
        ctx.meta[_FROM_NOTHING] = bool(asked) and ctx.params["model_id"] is None and not started
        if ctx.params["shape"] and ctx.params["model_id"] is not None:
            raise AdvisorError("give --model or --shape, not both")
        if ctx.meta[_FROM_NOTHING]:
            ctx.params["model_id"] = FIELDS["model_id"].default
        return super().invoke(ctx)


@click.command(cls=_DesignCommand)
@click.option("--shape", help=f"A shape instead of --model, e.g. '{SHAPE_EXAMPLE}'.")
@click.option(
    "--target-total",
    "target_total_params",
    type=float,
    help="Total size to be met within 5%, e.g. 4e10; without --model the question starts from it.",
)
@click.option(
    "--target-active",
    "target_active_params",
    type=float,
    help="The same of active parameters without embeddings, e.g. 3e9.",
)
@click.option("--objective", type=click.Choice(OBJECTIVES), default="tpot", show_default=True, help="What to rank by.")
@click.option("--quality-eps", type=float, default=0.02, show_default=True, help="Share of quality that may be lost.")
@click.option("--tokens", "training_tokens", type=float, help="Training tokens, the same for all designs, e.g. 1e12.")
@click.option("--batches", help="1,64,512, a range 1-512, or with weights 1:0.2,64:0.8 [default: --batch].")
@click.option("--max-total-params", type=float, help="Largest total size in parameters, e.g. 4e10.")
@click.option("--max-training-cost", type=float, help="Training compute over the baseline's, at equal tokens, e.g. 1.")
@click.option("--max-memory-gb", type=float, help="Memory an engine may use per GPU [default: 90% of it].")
@click.option("--price", "price_usd_per_hour", type=float, help="USD per GPU-hour [default: the accelerator's].")
@click.option("--experts", help="Numbers of experts to try, comma-separated.")
@click.option("--active", help="Experts per token to try.")
@click.option("--shared", help="Numbers of shared experts to try.")
@click.option("--width-step", type=int, default=32, show_default=True, help="Step of the expert width.")
@click.option("--depths", help="Multiples of the baseline's depth to try, e.g. 0.75,1,1.25.")
@click.option("--heads", help="Multiples of the baseline's attention heads to try, e.g. 0.5,1.")
@click.option("--top", type=click.IntRange(1, 100), default=8, show_default=True, help="Candidates to list.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the candidates here as CSV.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Write the best as config.json here.")
@json_option()
@click.pass_context
def design(
    ctx: click.Context,
    scenario: Scenario,
    *,
    shape: str | None,
    batches: str | None,
    max_memory_gb: float | None,
    experts: str | None,
    active: str | None,
    shared: str | None,
    width_step: int,
    depths: str | None,
    heads: str | None,
    top: int,
    csv_file: Path | None,
    config_file: Path | None,
    as_json: bool,
    **question: Any,  # the options that design_space takes as they stand
) -> None:
    """Which MoE to train instead of --model, at equal quality, so that it serves best with speculative decoding."""
    show = progress("searching")
    started = _started(scenario, shape, question, from_nothing=ctx.meta[_FROM_NOTHING])
    space = design_space(
        scenario if started is None else started.scenario,
        batches=parse_batches(batches) if batches is not None else None,
        grid=_grid(experts, active, shared, width_step, depths, heads),
        max_memory_bytes=None if max_memory_gb is None else max_memory_gb * 1e9,
        **question,
        on_progress=show,
    )
    show(1)
    answer = design_answer(space, top)
    if csv_file is not None:
        _write(csv_file, candidate_rows(answer))
    if config_file is not None:
        _write_config(config_file, answer)
    if as_json:
        print_json(answer_document(answer) | ({} if started is None else {"start": started.note}))
        return
    if started is not None:
        click.echo(f"{started.note}\n")
    _print(answer)


def _started(scenario: Scenario, shape: str | None, question: dict[str, Any], *, from_nothing: bool) -> Start | None:
    """The model to start from where it was typed or sized; None where the scenario has one."""
    if shape is not None:
        return start_from_shape(scenario, shape)
    if from_nothing:
        return start_from_size(scenario, question["target_total_params"], question["target_active_params"])
    return None


def _grid(
    experts: str | None, active: str | None, shared: str | None, step: int, depths: str | None, heads: str | None
) -> DesignGrid:
    given: dict[str, Any] = {"width_step": step}
    lists = {"n_experts": experts, "n_active": active, "n_shared": shared}
    try:
        given |= {name: tuple(int(x) for x in text.split(",")) for name, text in lists.items() if text is not None}
        factors = {"depth_factors": depths, "head_factors": heads}
        given |= {name: tuple(float(x) for x in text.split(",")) for name, text in factors.items() if text is not None}
        return DesignGrid(**given)
    except ValidationError as error:
        raise AdvisorError(explain(error)) from error
    except ValueError as error:
        raise AdvisorError(f"grid values must be comma-separated numbers: {error}") from error


def _print(answer: DesignAnswer) -> None:
    space = answer.space
    click.echo(answer.verdict)
    if answer.recommended is None:
        return
    click.echo(f"\n{answer.disagreement}\n{answer.binding_text}\n")
    click.echo(f"{len(space):,} designs, {len(space.candidates):,} at equal quality within all limits. Best distinct:")
    question = space.question
    shared = "{:.0f}" if all(item.n_shared == round(item.n_shared) for item in answer.top) else "{:.2f}"
    header = ("N", "k", "s", "width", "total B", "active B", "training", "law A", "law B", "law C", "speedup",
              "ms/token", "K", "gain", "band")  # fmt: skip
    print_table(
        header,
        [
            (
                item.n_experts,
                item.n_active,
                shared.format(item.n_shared),
                item.expert_width,
                f"{item.total_params / 1e9:.1f}",
                f"{item.active_params / 1e9:.2f}",
                f"{item.training_cost:.2f}x",
                *(law.short for law in item.quality),
                f"{question.mean_speedup(item.speedup, item.tpot_s):.2f}",
                f"{question.mean_tpot_s(item.tpot_s) * 1e3:.2f}",
                "/".join(map(str, item.k_draft)),
                f"{item.objective_gain.value:.3f}",
                f"{item.objective_gain.low:.2f}-{item.objective_gain.high:.2f}",
            )
            for item in answer.top
        ],
    )
    laws = "; ".join(f"{letter}: {name}" for letter, name in zip("ABC", LAW_NAMES.values(), strict=True))
    click.echo(f"Training: compute at equal tokens over the baseline's. Quality by law {laws}.")
    if answer.try_next:
        click.echo("\nSingle changes to the baseline, at equal quality")
        columns = ("change", "objective", "speedup", "speed per token")
        rows = [
            (c.what, *(f"{x - 1:+.1%}" for x in (c.objective_gain, c.speedup_gain, c.tpot_gain)))
            for c in answer.try_next
        ]
        print_table(columns, rows)
    flipped = [item for item in answer.sensitivity if item.flips]
    click.echo(f"\n{sensitivity_text(answer.sensitivity)}")
    for item in flipped:
        cost = "it is then not allowed" if np.isnan(item.regret) else f"keeping it costs {item.regret:.1%}"
        click.echo(f"  {item.change}: {item.best_text} ({cost})")
    click.echo("")
    print_labelled("warning", answer.warnings)
    print_labelled("limit", answer.limits)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    write_file(path, csv_text(list(rows[0]) if rows else ["rank"], rows))


def _write_config(path: Path, answer: DesignAnswer) -> None:
    if answer.recommended is None:
        raise AdvisorError(f"no design is feasible, so {path} is not written")
    config = design_config(answer.space, answer.recommended.index)
    write_file(path, json.dumps(config, indent=2) + "\n")
    added = added_keys(answer.space, config)
    if added:
        click.echo(f"{path}: {', '.join(added)} is new to this model type; the engine must support it.", err=True)
