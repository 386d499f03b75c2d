"""`rank`: which model serves a load best on a machine, and how sure that order is.

`advisor sweep`: a grid of scenarios as Parquet.

`ranks`: experts on expert-parallel ranks, by a trace or by loads: imbalance, copies of hot experts, and exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from advisor.answers.by_batch import BatchHistogram
from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.answers.explore.entrants import (
    BY,
    MAX_SCORES_BYTES,
    ModelFilter,
    RankQuestion,
    default_by,
    one_load,
    read_scores,
)
from advisor.answers.explore.grid import load_plan
from advisor.answers.explore.leaderboard import leaderboard
from advisor.answers.explore.sweep_files import run_sweep
from advisor.catalog.models import model_ids
from advisor.cli.measured_files import read_bytes
from advisor.cli.output import (
    ScenarioCommand,
    field_options,
    given_acceptance,
    json_option,
    print_json,
    print_labelled,
    print_table,
    progress,
    say,
    scenario_from,
    spell_out_gpus,
    whole_numbers,
    write_file,
)
from advisor.cli.own import own_fields
from advisor.measured.ingest.traces import layer_counts, read_traces
from advisor.physics.expert_loads import Traffic, traffic_of_trace
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS, RANK_FIELDS
from advisor.predict.setup import Setup, traffic_of
from advisor.prediction import AdvisorError
from advisor.profiles import read_file
from advisor.show.words.expert_ranks import document as ranks_document
from advisor.show.words.expert_ranks import (
    exchange_table,
    exchange_text,
    layout_table,
    rank_table,
    warnings,
)
from advisor.show.words.expert_ranks import notes as ranks_notes
from advisor.show.words.expert_ranks import verdict as ranks_verdict
from advisor.show.words.leaderboard import (
    by_size,
    document,
    missed_texts,
    notes,
    quality_text,
    table,
    verdict,
)
from advisor.text import counted

_OF_ONE_MODEL = ("model_id", "batch_size", "routing", *RANK_FIELDS)
_FIELDS = tuple(name for name, row in FIELDS.items() if row.flags and name not in _OF_ONE_MODEL and row.unit != "ranks")
_NO_MODEL = FIELDS["model_id"].default
"""Only checks the rest of the question: a leaderboard has models of its own."""


class _RankCommand(click.Command):
    """A command with the scenario's options that are the same for every model."""

    def __init__(self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any) -> None:
        kwargs["params"] = [*(option for name in _FIELDS for option in field_options(FIELDS[name])), *(params or [])]
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As other commands; `--gpus 8xH200` names the accelerator too."""
        rest = super().parse_args(ctx, args)
        spell_out_gpus(ctx)
        return rest


@click.command(cls=_RankCommand)
@click.option("--users", type=int, help="Sequences that decode together on the whole machine [default: 16].")
@click.option("--histogram", help="Users over time instead, as users:share,..., e.g. 1:10,64:90.")
@click.option("--by", type=click.Choice(BY), help="What to rank by [default: cost where a price is known].")
@click.option("--usd-per-hour", type=float, help="Price of one GPU for an hour [default: the accelerator's].")
@click.option("--whole-machine", is_flag=True, help="Use and pay every GPU, also where fewer would do.")
@click.option("--expert-parallel", is_flag=True, help="Try expert parallelism too, whose effect is not well predicted.")
@click.option(
    "--models", "names", help="Rank only these model ids or patterns, comma-separated, e.g. qwen3*,gpt-oss-*."
)
@click.option("--config", "configs", type=click.Path(path_type=Path), multiple=True, help="Your own config.json, too.")
@click.option("--min-total-params", type=float, help="Least total size, e.g. 1e10.")
@click.option("--max-total-params", type=float, help="Largest total size.")
@click.option("--min-active-params", type=float, help="Least active size.")
@click.option("--max-active-params", type=float, help="Largest active size, e.g. 4e9.")
@click.option(
    "--scores", type=click.Path(path_type=Path), help="Your CSV of scores: model,score,... (none is shipped)."
)
@click.option("--quality", help="Column of --scores to show as an axis [default: its first].")
@click.option("--min-quality", type=float, help="Least score in that column.")
@click.option("--where", multiple=True, help="column=value of --scores that a model must have, e.g. licence=mit.")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Models to list.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write all models here as CSV.")
@json_option()
def rank(*, top: int, csv_file: Path | None, as_json: bool, **values: Any) -> None:
    """Rank all models at one load on one machine, each at its best placement and K, with bands and doubt.

    Every model drafts with what is known of it: the curve measured with it, else its own MTP module with a borrowed
    length, else nothing.
    """
    question, axis = _question(values)
    board = leaderboard(question, progress("ranking"))
    if csv_file is not None:
        write_file(csv_file, table(board, quality=axis).csv())
    if as_json:
        print_json(document(board, axis))
        return
    say(verdict(board))
    if axis is None and (said := quality_text(board, "set --min-total-params or bring --scores")):
        say(said)
    if board.standings:
        say(f"{by_size(board)}\n".lstrip("\n"))
        print_table(table(board, top, axis))
        if len(board.standings) > top:
            say(f"... and {len(board.standings) - top} more; --top shows them.")
        click.echo()
        print_labelled("note", notes(board))
    print_labelled("not ranked", missed_texts(board))


Axis = tuple[str, dict[str, float]]
"""A column of the user's scores, and its numbers by model."""


def _question(values: dict[str, Any]) -> tuple[RankQuestion, Axis | None]:
    """What the options ask, and the quality axis."""
    users, histogram, names, configs = (values.pop(name) for name in ("users", "histogram", "names", "configs"))
    if users is not None and histogram is not None:
        raise AdvisorError("give --users or --histogram, not both")
    sizes = {name: values.pop(name) for name in list(values) if name.endswith("_params")}
    listed, axis = _scores(*(values.pop(name) for name in ("scores", "quality", "min_quality", "where")))
    by, usd = values.pop("by"), values.pop("usd_per_hour")
    alone = {name: values.pop(name) for name in ("expert_parallel", "whole_machine")}
    scenario, drafter = _scenario(values)
    question = RankQuestion(
        scenario,
        BatchHistogram.from_text(histogram) if histogram is not None else one_load(16 if users is None else users),
        by or default_by(scenario, usd),
        usd,
        drafter,
        wanted=ModelFilter(
            tuple(each.strip() for each in names.split(",")) if names is not None else (), **sizes, listed=listed
        ),
        configs=_configs(configs),
        **alone,
    )
    return question, axis


def _configs(paths: Sequence[Path]) -> tuple[tuple[str, str], ...]:
    """The user's own models, each under a name of its own."""
    found: dict[str, str] = {}
    for path in paths:
        name, config = _config(path)
        if name in found or name in model_ids():
            whose = "given twice" if name in found else "a shipped model's"
            raise AdvisorError(f"--config {path}: the name {name} is {whose}; rename the file's folder or the file")
        found[name] = config
    return tuple(found.items())


def _scenario(values: dict[str, Any]) -> tuple[Scenario, tuple[str, str] | None]:
    """What all models share, and the user's drafter with its accepted length, None for what is known of each."""
    drafter_id = values.pop("drafter_id")
    given = given_acceptance(*(values.pop(name) for name in ("accepted_length", "acceptance", "acceptance_preset")))
    if given is not None and drafter_id in (None, "none"):
        raise AdvisorError("an accepted length belongs to a drafter; give --drafter too, e.g. eagle3")
    if given is None and drafter_id not in (None, "none"):
        raise AdvisorError(
            f"how much of {drafter_id}'s drafts is accepted is missing; give --accepted-length X@K (e.g. 2.73@3), or "
            "leave --drafter out to use what is known of each model"
        )
    if values["hardware_id"] is None:
        raise AdvisorError("on which accelerator is missing; give --hardware, an id of `advisor hardware` or a file")
    n_gpus = values.pop("n_gpus")
    shared = scenario_from(
        {**values, "n_gpus": 1 if n_gpus is None else n_gpus, "model_id": _NO_MODEL, "drafter_id": "none"}
    )
    return shared, None if drafter_id is None else (drafter_id, given or "0")


def _config(path: Path) -> tuple[str, str]:
    """Name and text of the user's own model."""
    made = scenario_from({"model_id": str(path), "drafter_id": "none"})
    if made.model_config_json is None:
        raise AdvisorError(f"--config {path}: no such file; shipped models are named with --models")
    return made.model_id, made.model_config_json


def _scores(
    file: Path | None, quality: str | None, least: float | None, where: Sequence[str]
) -> tuple[frozenset[str] | None, Axis | None]:
    """The models that the table of scores leaves (None: all), and the quality axis."""
    if file is None:
        if quality is not None or least is not None or where:
            raise AdvisorError("--quality, --min-quality and --where read a table of your own; give --scores FILE")
        return None, None
    read = read_scores(file.name, read_file(file, MAX_SCORES_BYTES, "a table of scores"))
    listed: frozenset[str] | None = None
    for condition in where:
        found = read.where(condition)
        listed = found if listed is None else listed & found
    only_words = quality is None and least is None and bool(where)
    column = None if only_words else read.column(quality or read.columns[0])
    if column is None:
        return listed, None
    numbers = read.numbers(column)
    if least is not None:
        good = frozenset(model for model, score in numbers.items() if score >= least)
        listed = good if listed is None else listed & good
    return listed, (column, numbers)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the result; a stopped run continues there.",
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 1024), help="Processes.")
@click.option(
    "--ray", "ray_address", default="", metavar="ADDRESS", help="Run on the Ray cluster at this address (needs ray)."
)
@click.option("--dry-run", is_flag=True, help="Print the size of the sweep and compute nothing.")
@json_option()
def sweep(file: Path, output: Path, workers: int, ray_address: str, dry_run: bool, as_json: bool) -> None:
    """Every combination of the settings in FILE (YAML), at every batch and K, as Parquet (docs/sweeps.md)."""
    if workers > 1 and ray_address:
        raise AdvisorError("give --workers or --ray, not both")
    plan = load_plan(file).own_named(lambda name, text: own_fields(name, text, file.parent))
    asked = {"scenarios": plan.n_scenarios, "combinations": plan.n_curves, "parts": plan.n_parts}
    scenarios = counted(plan.n_scenarios, "scenario")
    if dry_run:
        if as_json:
            print_json(asked)
        else:
            say(f"{scenarios}: {counted(plan.n_curves, 'combination')} at {len(plan.batches)} batches")
        return
    done = run_sweep(plan, output, workers, ray_address, progress("sweeping"))
    if as_json:
        print_json({**asked, "found": done.n_found, "elapsed_s": round(done.elapsed_s, 3), "folder": str(done.folder)})
        return
    earlier = f", {counted(done.n_found, 'part')} there already" if done.n_found else ""
    say(f"{scenarios}: {counted(done.n_parts - done.n_found, 'part')} in {done.elapsed_s:.1f} s{earlier}")
    click.echo(f"Query them: SELECT ... FROM '{done.folder}/part-*.parquet' (DuckDB, Polars, pandas)")


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
            "--copies",
            help=f"Redundant copies of hot experts to try, e.g. 0,32 [default: none, and one a rank].{end}",
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
