"""`compare`: two to four scenarios side by side. `context`: speedup and K over batch and context.

`explain`: how the prediction of one batch and K was made, formula by formula.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.answers.advice import advise as advise_scenario
from advisor.answers.explore.cells import DEFAULT_CONTEXTS, DEFAULT_MAP_BATCHES, context_map
from advisor.catalog.models import resolve_model_name
from advisor.cli.advise import advice_document
from advisor.cli.output import (
    SCENARIO_OPTIONS,
    ScenarioCommand,
    json_option,
    place_gpus,
    print_json,
    print_labelled,
    print_table,
    say,
    scenario_from,
    scenario_in,
    typed_names,
    whole_numbers,
)
from advisor.predict.band_parts import band_parts
from advisor.predict.scenario import Scenario, example_ids, load_example
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import GROUPS, step_text
from advisor.show.table import Table, matrix
from advisor.show.words.compare import MAX_COMPARED, comparison_table, finding, short_names
from advisor.show.words.explain import BAND_PARTS, CONSTANTS, KERNELS
from advisor.show.words.load import acceptance_texts, map_document, map_table, share_table, turn_texts, verdict


class _CompareCommand(click.Command):
    """A command that takes scenarios and models, and the scenario's options for all of them."""

    def __init__(self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any) -> None:
        options = [one for one in SCENARIO_OPTIONS if one.name not in ("scenario_file", "example", "model_id")]
        kwargs["params"] = [*(params or []), *options]
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As other commands; `--gpus 8xH200` is one instance."""
        rest = super().parse_args(ctx, args)
        place_gpus(ctx)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Build the scenarios, all before any is answered: the last may not be readable."""
        typed, texts = typed_names(ctx), ctx.params["scenarios"]
        values = {one.name: ctx.params.pop(one.name, None) for one in SCENARIO_OPTIONS if one.name}
        if not 2 <= len(texts) <= MAX_COMPARED:
            raise AdvisorError(f"{len(texts)} scenarios given; compare takes two to {MAX_COMPARED}")
        asked = {name: value for name, value in values.items() if name in typed}
        ctx.params["scenarios"] = tuple(_scenario(text, asked) for text in texts)
        return super().invoke(ctx)


@click.command(cls=_CompareCommand)
@click.argument("scenarios", nargs=-1, required=True)
@json_option()
def compare(scenarios: tuple[Scenario, ...], as_json: bool) -> None:
    """Answer two to four SCENARIOS side by side, all changed by the options.

    Each is a model, with --gpus or --hardware; a scenario file, a JSON report or an output of `advise --json`; or the
    id of an example.
    """
    read = list(scenarios)
    advices = [advise_scenario(scenario) for scenario in read]
    names = short_names([advice.scenario for advice in advices])
    if as_json:
        answers = [{"name": name} | advice_document(one) for name, one in zip(names, advices, strict=True)]
        print_json({"finding": finding(advices, names), "scenarios": answers})
        return
    print_table(comparison_table(advices, names))
    say(f"\n{finding(advices, names)}")
    for warning in dict.fromkeys(text for advice in advices for text in advice.warnings):
        of = [name for name, advice in zip(names, advices, strict=True) if warning in advice.warnings]
        print_labelled("warning", [f"{'' if len(of) == len(names) else '; '.join(of) + ': '}{warning}"])


def _scenario(text: str, asked: dict[str, Any]) -> Scenario:
    """An example's id, a model's id or name, else a file, changed by what is asked."""
    path, assumed = Path(text), list[str]()
    if text in example_ids():
        return scenario_from(dict(asked), load_example(text).scenario)
    if is_there(path) or path.suffix == ".json":
        return scenario_from(dict(asked), scenario_in(path).scenario)
    if resolve_model_name(text) is None:
        return load_example(text).scenario  # which refuses it, with near matches
    if "hardware_id" not in asked:
        raise AdvisorError(f"{text} is a model; say on which GPUs, e.g. --gpus 8xH200")
    scenario = scenario_from({**asked, "model_id": text}, assumed=assumed)
    print_labelled(f"assumed for {text}", assumed and ["; ".join(assumed)], err=True)
    return scenario


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
    say(said)
    for text in turn_texts(found):
        say(text)
    say("\nSpeedup and recommended K:")
    print_table(map_table(found))
    say("\nAttention's share of a plain step:")
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
        say("")
    say("Where the likely range comes from, each kind of uncertainty alone")
    print_table(Table(BAND_PARTS, band_parts(advice.setup, made.batch_size, k)))
    say("\nConstants")
    print_table(Table(CONSTANTS, list(dict.fromkeys(made.constants))).on_paper())
    _print_nearby(kernels, speedups)
    print_labelled("warning", advice.warnings)


def _print_nearby(kernels: list[dict[str, Any]], speedups: list[dict[str, Any]]) -> None:
    if kernels:
        say("\nKernel measurements near it")
        print_table(Table(KERNELS, kernels).on_paper())
    if speedups:
        say("\nPublished speedups near it")
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
            kernels = near_kernels(store, setup, made.batch_size, made.n_draft).to_dict("records")
    except AdvisorError as error:
        click.echo(f"note: no measured kernels: {error}", err=True)
        kernels = []
    if scenario.model_config_json:
        return kernels, []
    points = published_speedups(scenario.hardware_id, scenario.model_id, setup.placement.gpus)
    return kernels, nearest_speedups(points, made.batch_size, made.n_draft).to_dict("records")
