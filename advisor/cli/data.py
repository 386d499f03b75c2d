"""`diagnose`: why a run with speculation is slow.

`acceptance`: accepted length by K from metrics, an acceptance histogram or a list of rates.

`trace`: routing parameters from a user's own expert ids.

`expert-ranks`: experts on ranks, by a trace or by loads: imbalance, copies of hot experts,
exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from textwrap import indent
from typing import Any

import click

from advisor.answers.diagnosis.diagnose import diagnose as diagnosed
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.catalog.hardware import drafter_name
from advisor.catalog.models import load_model, model_ids
from advisor.cli import output as out
from advisor.cli.asked import ScenarioCommand, given_acceptance, retyped
from advisor.cli.measured_files import (
    document_path,
    documents_of,
    given_documents,
    lacking_words,
    mapped,
    of_gpus,
    pair,
    read_bytes,
    reading_options,
    values_of,
)
from advisor.cli.own import assume, read_config
from advisor.measured.ingest.acceptance import rates_from_list, read_acceptance_file
from advisor.measured.ingest.columns import DOCUMENT_OF
from advisor.measured.ingest.side_by_side import two_values, value_and_metric
from advisor.measured.ingest.traces import LayerCounts, layer_counts, read_traces
from advisor.physics.expert_loads import Traffic, traffic_of_trace
from advisor.physics.expert_ranks import expert_loads
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, scenario_words, usual_drafter, write_loads
from advisor.predict.scenario_fields import FIELDS
from advisor.predict.setup import Setup, traffic_of
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.reading import reading_texts
from advisor.show.table import Column, Table, matrix
from advisor.show.words.diagnosis import DiagnosisView, diagnosis_document, view_of
from advisor.show.words.expert_ranks import document as ranks_document
from advisor.show.words.expert_ranks import (
    exchange_table,
    exchange_text,
    layout_table,
    rank_table,
    warning_notes,
)
from advisor.show.words.expert_ranks import notes as ranks_notes
from advisor.show.words.expert_ranks import verdict as ranks_verdict
from advisor.text import counted

_OF_A_RUN = {
    "hardware_id": ("--hardware", "Accelerator that served the runs."),
    "model_id": ("--model", "Target model: an id, or a path to its config.json."),
    "engine": ("--engine", "Engine that served the runs."),
    "engine_version": ("--engine-version", "Release of the engine."),
    "drafter": ("--drafter", "Drafter of the speculative runs."),
    "gpu_count": ("--gpus", "GPUs that served the runs, e.g. 8xH200."),
    "tensor_parallel": ("--tp", "Tensor-parallel size."),
    "expert_parallel": ("--ep", "Expert-parallel size."),
    "weight_dtype": ("--weight-dtype", "Stored type of the routed experts' weights."),
    "batch_size": ("--batch", "Sequences that decode together."),
    "draft_tokens_k": ("--k", "Draft length K of the runs with drafts."),
}
"""Columns that options of their own fill; --set fills any other."""
_SHOWN_RUNS = 3


@click.command()
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, metavar="[FILE...]")
@click.option("--without", metavar="VALUE", help="Time per token or rate without drafts: 52ms.")
@click.option("--with", "with_drafts", metavar="VALUE", help="The same with drafts: 61ms.")
@reading_options("values", "columns", "accepted_length")
@click.option(
    "--all", "show_all", is_flag=True, help="List every rule, also those that passed or lack data."
)
@out.json_option()
def diagnose(
    paths: Sequence[Path],
    without: str | None,
    with_drafts: str | None,
    values: Sequence[str],
    columns: Sequence[str],
    show_all: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """Say why speculation is slow: mismeasured, misconfigured, or physics.

    FILE: benchmark results of any known tool, the server's launch line, its printed arguments and
    its log, in any mixture; a plain run (K = 0) beside the speculative one tells most. `-` reads
    standard input. --without and --with give two numbers in place of a result file, or beside a
    launch line. A rule that lacks data says what to collect.
    """
    column_values = of_gpus(options.pop("gpu_count"))
    column_values |= {name: str(value) for name, value in options.items() if value is not None}
    configs = _own_model(column_values)
    if stated := given_acceptance(column_values.pop("accepted_length", None), None, None):
        column_values["accepted_length"] = stated
    of_all = [text for text in values if ":" not in pair(text)[0]]
    of_file = [text for text in values if text not in of_all]
    column_values |= dict(map(pair, of_all))
    hardware, _ = given_documents("hardware_id", [column_values.get("hardware_id")])
    column_values |= {document.column: document.name for document in hardware}
    files = [
        UserFile(
            path.name,
            data,
            documents=(*hardware, *documents_of(path, data, columns)),
            values=dict(map(pair, values_of(number, of_file, paths))),
        )
        for number, path in enumerate(paths)
        for data in [read_bytes(path)]
    ]
    files += _typed_run(without, with_drafts)
    if not files:
        raise AdvisorError("nothing to diagnose: give FILE, or --without 52ms and --with 61ms")
    diagnosis = diagnosed(files, column_values, mapped(columns), configs)
    if diagnosis.verdict.unsaid == ("drafter",) and column_values.get("model_id") in model_ids():
        column_values["drafter"] = usual_drafter(column_values["model_id"])
        assume(f"{drafter_name(column_values['drafter'])} (--drafter)")
        diagnosis = diagnosed(files, column_values, mapped(columns), configs)
    if as_json:
        out.print_json(diagnosis_document(diagnosis))
        return
    view = view_of(diagnosis)
    _print(view, show_all)
    _print_next(view, paths, options)


def _typed_run(without: str | None, with_drafts: str | None) -> list[UserFile]:
    """The table of a value without drafts and one with them. Empty where neither is given."""
    if without is None and with_drafts is None:
        return []
    if without is None or with_drafts is None:
        raise AdvisorError("--without and --with go together, as in --without 52ms --with 61ms")
    baseline, metric = _typed_value("--without", without)
    drafting, other_metric = _typed_value("--with", with_drafts)
    if metric != other_metric:
        raise AdvisorError(
            f"--without {without} and --with {with_drafts} count different things; give two times "
            "per token, or two rates of all requests or of one"
        )
    return [UserFile("--without, --with", two_values(baseline, drafting, metric, {}))]


def _typed_value(option: str, text: str) -> tuple[float, str]:
    """A value and what it counts. Raises AdvisorError with the option."""
    try:
        return value_and_metric(text)
    except AdvisorError as error:
        raise AdvisorError(f"{option} {error}") from error


def _print_next(view: DiagnosisView, paths: Sequence[Path], options: dict[str, str | None]) -> None:
    """The command that follows: the same with what the files leave open, or every K of the remedy's
    run."""
    if view.verdict.unsaid:
        out.print_next(
            {
                "with your own values": [
                    "diagnose",
                    *retyped(),
                    *lacking_words(dict.fromkeys(view.verdict.unsaid)),
                ]
            }
        )
    elif view.verdict.unfit is not None:
        words = ["--set", f"weight_dtype={next(iter(view.verdict.unfit.formats), 'FORMAT')}"]
        out.print_next({"in the format that it runs": ["diagnose", *retyped(), *words]})
    elif view.verdict.cause == "few_tokens":
        out.print_next(
            {"with the engine's log: its accepted length": ["diagnose", *retyped(), "server.log"]}
        )
    elif view.remedy is not None:
        every_k = {"acceptance": view.remedy.acceptance, "k_max": FIELDS["k_max"].default}
        scenario = view.remedy.scenario.model_copy(update=every_k)
        document_paths = [
            document_path(name, getattr(scenario, DOCUMENT_OF[name]), paths, [options[name]])
            for name in ("model_id", "hardware_id")
        ]
        words = [] if None in document_paths else scenario_words(scenario, *document_paths)
        out.print_next({"the same with every K": ["advise", *words]} if words else {})


for _column, (_option, _help) in reversed(_OF_A_RUN.items()):
    diagnose = click.option(_option, _column, help=_help)(diagnose)


def _own_model(given: dict[str, str]) -> dict[str, str]:
    """config.json of a model given by its path, by the name that stands for it. `given` then has
    the name."""
    path = Path(given.get("model_id", ""))
    if not given.get("model_id") or not (path.suffix == ".json" or is_there(path)):
        return {}
    name = path.parent.name if path.name == "config.json" else path.stem
    if not name:
        raise AdvisorError(f"{path} names no model; give a path such as my-model/config.json")
    given["model_id"] = name
    return {name: read_config(path)}


def _print(view: DiagnosisView, show_all: bool) -> None:
    out.say(view.sentence)
    out.say(view.until)
    if view.command is not None:
        click.echo(f"{view.command['title']}:\n{indent(view.command['text'], '  ')}")
        out.say(view.command["note"])
    if view.remedy is not None:
        out.say(f"\n{view.remedy.title}:")
        out.print_table(view.remedy.table)
    for finding in view.findings:
        out.say(f"\n[{finding.kind}] {finding.title}")
        paragraphs = (
            ("of", [finding.where]),
            ("evidence", finding.evidence),
            ("differs", finding.differs),
            ("why", [finding.because]),
        )
        for label, texts in (*paragraphs, ("do", [finding.fix]), ("source", [finding.source])):
            out.print_labelled(f"  {label}", texts)
    for title, table in view.comparisons[:_SHOWN_RUNS]:
        out.say(f"\n{title}, measured beside predicted")
        out.print_table(table)
    if view.comparisons[_SHOWN_RUNS:]:
        click.echo(
            f"... {counted(len(view.comparisons) - _SHOWN_RUNS, 'more run')}; --json has all"
        )
    counts = f"{len(view.clean)}; not judged: {len(view.not_judged)} (--all lists them)"
    out.say(f"\nChecks passed: {counts}. {view.texts['missing']}")
    if show_all:
        out.print_labelled("  passed", view.clean)
        open_checks = [f"{title} Needs: {needs}" for title, needs in view.not_judged]
        out.print_labelled("  not judged", open_checks)
    for text in view.notes:
        out.say(text)


MAX_EXPERTS = 65_536
"""Ids of experts come as 16-bit numbers. [-]"""
MAX_LAYERS = 2_000


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", "model_id", help="Model id, for its experts and layers.")
@click.option(
    "--experts", type=int, help="Routed experts per layer, where the model has no profile."
)
@click.option("--active", type=int, help="With --experts: active experts per token.")
@click.option(
    "--layers", type=int, help="With --experts: routed layers, which tell the axes of an array."
)
@out.path_option("--output", "-o", help="Write the experts' loads by layer, for --expert-loads.")
@out.json_option()
def trace(
    files: tuple[Path, ...],
    model_id: str | None,
    experts: int | None,
    active: int | None,
    layers: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Fit load variation, affinity and stickiness to the routing trace in FILES.

    FILES hold the ids of the experts that each token chose, one request or several in each.
    """
    from advisor.physics.routing_trace import fit_sequences

    count, model = _experts(model_id, experts, LayerCounts(layers, layers, active))
    read = read_traces([(file.name, read_bytes(file)) for file in files], model)
    trace_fit = fit_sequences(read.sequences, count)
    routing = trace_fit.fit.text
    if output is not None:
        expert_ids = tuple(ids[:, list(trace_fit.layers)] for ids in read.sequences)
        out.write_file(
            output, write_loads(expert_loads(expert_ids, count)) + "\n", "choose another --output"
        )
    if as_json:
        out.print_json(
            {"file": read.file_name, "layout": read.layout, "routing": routing, **vars(trace_fit)}
            | {"warnings": note_texts(trace_fit.notes)}
        )
        return
    click.echo(
        f"{counted(trace_fit.n_sequences, 'sequence')}, {trace_fit.n_tokens:,} tokens, "
        f"{counted(len(trace_fit.layers), 'layer')}, {trace_fit.n_active} of "
        f"{trace_fit.n_experts} experts ({read.layout})"
    )
    for what in ("load_cv", "affinity", "stickiness"):
        low, high = getattr(trace_fit.fit, f"{what}_interval")
        click.echo(
            f"{what:11s} {getattr(trace_fit.fit, what):.3f}  (likely {low:.3f} to {high:.3f})"
        )
    click.echo(
        "overlap at lag 1 to 7: "
        + " ".join(f"{share:.3f}" for share in trace_fit.fit.overlap_by_lag)
    )
    click.echo(f"overlap of unrelated tokens: {trace_fit.fit.unrelated_overlap:.3f}\n")
    out.print_table(Table(_UNIONS, trace_fit.unions))
    out.print_labelled("warning", note_texts(trace_fit.notes))
    click.echo(f"\nTo use it: --routing {routing}")
    if output is not None:
        click.echo(f"With expert-parallel ranks also: --expert-loads {output}")


_TENTHS = "{:.1f}".format
_UNIONS: tuple[Column[Any], ...] = (
    Column("sequences", attrgetter("batch_size")),
    Column("tokens each", attrgetter("tokens")),
    Column("experts counted", attrgetter("counted"), _TENTHS),
    Column("predicted", attrgetter("predicted"), _TENTHS),
    Column("error", lambda union: union.predicted / union.counted - 1.0, "{:+.1%}".format),
    Column("uniform", attrgetter("uniform"), _TENTHS),
)


def _experts(
    model_id: str | None, experts: int | None, given: LayerCounts
) -> tuple[int, LayerCounts]:
    """N, and the layers and k: those of a model's profile, or those given."""
    if (model_id is None) == (experts is None):
        raise AdvisorError("give --model ID or --experts N: experts never chosen count too")
    if experts is not None:
        if not 2 <= experts <= MAX_EXPERTS:
            raise AdvisorError(
                f"--experts {experts}: a routed layer has 2 to {MAX_EXPERTS:,} experts"
            )
        for name, value, most in (
            ("--active", given.n_active, experts),
            ("--layers", given.routed, MAX_LAYERS),
        ):
            if value is not None and not 1 <= value <= most:
                raise AdvisorError(f"{name} {value} is out of range; expected 1 to {most:,}")
        return experts, given
    if given.routed is not None or given.n_active is not None:
        raise AdvisorError("--layers and --active need --experts; --model states its own")
    architecture = load_model(str(model_id))
    moe = architecture.moe
    if moe is None:
        raise AdvisorError(f"{model_id} is dense: it has no experts to trace")
    return moe.n_experts, layer_counts(architecture)


@click.command(cls=ScenarioCommand)
@out.path_option(
    "--trace",
    "traces",
    multiple=True,
    help="Routing trace, as of `trace` [default: --expert-loads]; repeat.",
)
@click.option(
    "--copies",
    help="Redundant copies of hot experts to try, e.g. 0,32 [default: none, and one per rank].",
)
@click.option(
    "--ranks-per-node",
    type=click.IntRange(1, 1024),
    help="GPUs of a node [default: the accelerator's].",
)
@click.option(
    "--expert-groups", type=click.IntRange(1, 65536), default=1, help="Groups kept on one node."
)
@out.json_option()
def expert_ranks(
    scenario: Scenario,
    traces: tuple[Path, ...],
    copies: str | None,
    ranks_per_node: int | None,
    expert_groups: int,
    as_json: bool,
) -> None:
    """Place experts on the --ep ranks: slowest rank, copies of hot experts, exchange.

    Without --trace or --expert-loads the routing preset's spread of loads is used, with hot experts
    placed by chance.
    """
    tried = tuple(out.whole_numbers("--copies", copies)) if copies is not None else ()
    answer = ranks_answer(
        *_traffic(scenario, traces), LayoutOptions(tried, ranks_per_node, expert_groups)
    )
    if as_json:
        out.print_json(
            {
                "verdict": ranks_verdict(answer),
                "scenario": answer.setup.scenario,
                **ranks_document(answer),
            }
        )
        return
    out.say(ranks_verdict(answer))
    out.say("\nLayouts, each at its recommended K:")
    out.print_table(layout_table(answer))
    out.say("\nExperts in order, by K:")
    out.print_table(rank_table(answer))
    out.say(f"\n{exchange_text(answer)}")
    if answer.moved:
        out.print_table(exchange_table(answer))
    click.echo()
    out.print_labelled("note", ranks_notes(answer))
    out.print_labelled("warning", note_texts(warning_notes(answer)))


def counted_ranks(scenario: Scenario) -> RanksAnswer:
    """Experts on the scenario's ranks, counted on its loads, or else on its preset's spread."""
    return ranks_answer(*_traffic(scenario, ()))


def _traffic(scenario: Scenario, traces: tuple[Path, ...]) -> tuple[Setup, Traffic]:
    """The scenario, with its routing from the trace where one is given, and the choices to place
    for."""
    if traces and scenario.expert_loads is not None:
        raise AdvisorError("give --trace or --expert-loads, not both")
    setup = load_setup(scenario.model_copy(update={"redundant_experts": None}))
    if not traces:
        return setup, traffic_of(setup, scenario.expert_loads)
    moe = setup.router.moe
    read = read_traces(
        [(file.name, read_bytes(file)) for file in traces], layer_counts(setup.architecture)
    )
    traffic = traffic_of_trace(read.sequences, moe.n_experts, setup.longest_step)
    return load_setup(setup.scenario.model_copy(update={"routing": traffic.routing})), traffic


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[BEFORE] [FILE]")
@click.option("--rates", help="Rates by draft position instead of a file, e.g. 0.72,0.51,0.35.")
@click.option(
    "--conditional", is_flag=True, help="Each rate is given that all before it were accepted."
)
@click.option(
    "--k-max",
    type=click.IntRange(1, 64),
    default=16,
    show_default=True,
    help="Longest draft to show.",
)
@click.option(
    "--k", type=click.IntRange(1, 64), help="K of a server whose metrics do not state it."
)
@out.json_option()
def acceptance(
    files: tuple[Path, ...],
    rates: str | None,
    conditional: bool,
    k_max: int,
    k: int | None,
    as_json: bool,
) -> None:
    """Accepted length by K from FILE. With BEFORE, an earlier scrape, only what was counted in
    between.

    FILE: the text of vLLM's or SGLang's /metrics, JSON with an acceptance histogram (AIPerf, vLLM's
    replies), or a golden curve of InferenceX.
    """
    if (rates is None) == (not files) or len(files) > 2:
        raise AdvisorError(
            "give one or two files of vLLM's /metrics (the earlier one first), or --rates, not both"
        )
    if rates is not None:
        measured_rates = rates_from_list(rates, conditional)
    else:
        *before, last = files
        earlier = (before[0].name, read_bytes(before[0])) if before else None
        measured_rates = read_acceptance_file(last.name, read_bytes(last), earlier, conditional, k)
    lengths = measured_rates.accepted_lengths(k_max)
    if as_json:
        out.print_json(
            {
                "acceptance": measured_rates.text,
                "conditional": measured_rates.conditional,
                "n_drafts": measured_rates.n_drafts,
                "relative_error": measured_rates.relative_error,
                "source": measured_rates.source,
                "warnings": reading_texts(measured_rates.warnings),
                "accepted_lengths": lengths.to_dict("records"),
            }
        )
        return
    click.echo(f"{measured_rates.source}\n")
    rows = [
        (
            row.n_draft,
            *(f"{value:.3f}" for value in (row.accepted_length, row.low, row.high)),
            "measured" if row.measured else "last probability held",
        )
        for row in lengths.itertuples()
    ]
    out.print_table(matrix(("K", "accepted length", "likely from", "to", ""), rows, "rrrrl"))
    out.print_labelled("warning", reading_texts(measured_rates.warnings))
    option = "--acceptance" if measured_rates.length is None else "--accepted-length"
    click.echo(f"\nTo use it: {option} {measured_rates.text}")
