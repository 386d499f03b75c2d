"""`explore`: fields of a scenario varied, models ranked at one load, or scenarios side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.answers.by_batch import BatchHistogram
from advisor.answers.explore import entrants
from advisor.answers.explore.cells import (
    DEFAULT_CONTEXTS,
    DEFAULT_MAP_BATCHES,
    SETTINGS,
    context_map,
)
from advisor.answers.explore.drafters import (
    DRAFTERS,
    drafters_beside,
    gaining_most,
    known_length,
)
from advisor.answers.explore.grid import SweepPlan, load_plan, read_plan
from advisor.answers.summary import on_more_gpus
from advisor.catalog.hardware import drafter_name
from advisor.catalog.models import model_ids, resolve_model_name
from advisor.cli import asked, example_of
from advisor.cli import output as out
from advisor.cli.own import hardware_asked, own_fields
from advisor.physics.hardware import gpus_of_node, hardware_ids, load_hardware
from advisor.physics.notes import ranked
from advisor.predict.scenario import (
    Scenario,
    acceptance_option,
    build_scenario,
    example_ids,
    load_example,
    scenario_words,
    usual_tensor_parallel,
)
from advisor.predict.scenario_fields import (
    DOCUMENTS,
    FIELDS,
    POOL_FIELDS,
    RANK_FIELDS,
    SERVER_FIELDS,
)
from advisor.prediction import AdvisorError
from advisor.profiles import is_there, read_file, unknown_id
from advisor.show.phrases.notes import note_text, note_texts
from advisor.show.table import Table, matrix
from advisor.text import counted, token_count

if TYPE_CHECKING:
    import pandas as pd

    from advisor.answers.explore.leaderboard import Standing

_GRID = frozenset({"vary", "plan", "output", "workers", "dask", "dry_run"})
_SIZES = ("min_total_params", "max_total_params", "min_active_params", "max_active_params")
_SCORES = ("scores", "quality", "min_quality", "where")
_LOAD = ("users", "histogram", "by", "usd_per_hour", "whole_machine", "expert_parallel_too", "top")
_RANK = frozenset({"names", "configs", *_LOAD, *_SIZES, *_SCORES})
_PLACED = frozenset(name for name, row in FIELDS.items() if row.unit == "ranks")
_STARTS = frozenset({"model", "model_id", "scenario_file", "example"})
_OF_ONE_MODEL = _STARTS | _PLACED | {"batch_size", "routing", *RANK_FIELDS, *POOL_FIELDS}
_SCENARIO = frozenset(option.name or "" for option in asked.SCENARIO_OPTIONS)
_MAX_SHOWN = 512
"""Combinations whose table is printed; more go to files. [-]"""
_MAPPED = {"context_tokens": DEFAULT_CONTEXTS, "batch_size": DEFAULT_MAP_BATCHES}
"""Fields whose map tells where speculation turns, with the values tried where none are given."""
_BY_NAME = {
    flag.name.removeprefix("--"): name for name, row in FIELDS.items() for flag in row.flags
}
"""Fields by the names of their options."""


class _ExploreCommand(asked.ScenarioCommand):
    """A command with the options of a scenario, which its three modes read in their own ways."""

    models = -1
    headings = dict.fromkeys(_GRID, "Vary fields") | dict.fromkeys(_RANK, "Rank models")

    def prepare(self, ctx: click.Context) -> None:
        """Leave the options to the mode."""


@click.command(cls=_ExploreCommand)
@click.option(
    "--vary",
    multiple=True,
    metavar="FIELD=VALUES",
    help="Values of a field or option, comma-separated, e.g. engine=vllm,sglang; repeat. Context "
    "and batch alone show where speculation turns, drafter alone each with its own accepted "
    "length; they take usual values where none are given.",
)
@out.path_option("--plan", help="YAML of fields and values (docs/choose-hardware.md).")
@out.path_option("--output", "-o", help="Folder for all rows as Parquet; a stopped run continues.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Worker processes.",
)
@click.option(
    "--dask", metavar="ADDRESS", help="Compute on the workers of this Dask scheduler instead."
)
@click.option("--dry-run", is_flag=True, help="Print the number of scenarios and compute nothing.")
@click.option(
    "--models", "names", help="Models to rank: all, or ids and patterns, e.g. qwen3*,gpt-oss-*."
)
@out.path_option(
    "--config", "configs", multiple=True, help="Also rank this config.json; repeat for several."
)
@click.option("--users", type=int, help="Sequences that decode together on all GPUs [default: 16].")
@click.option("--histogram", help="Users over time instead, as users:share,..., e.g. 1:10,64:90.")
@click.option(
    "--by",
    type=click.Choice(entrants.BY),
    help="What to rank by [default: cost where a price is known].",
)
@out.spend_options(power=False)
@click.option(
    "--whole-machine", is_flag=True, help="Use and pay every GPU, also where fewer would do."
)
@click.option(
    "--expert-parallel",
    "expert_parallel_too",
    is_flag=True,
    help="Also expert parallelism; less sure.",
)
@click.option("--min-total-params", type=float, help="Minimum total parameters, e.g. 1e10.")
@click.option("--max-total-params", type=float, help="Maximum total parameters.")
@click.option("--min-active-params", type=float, help="Minimum active parameters.")
@click.option("--max-active-params", type=float, help="Maximum active parameters, e.g. 4e9.")
@out.path_option("--scores", help="CSV of your scores: model,score,... (none is shipped).")
@click.option("--quality", help="Column of --scores to show as an axis [default: its first].")
@click.option("--min-quality", type=float, help="Minimum score in that column.")
@click.option(
    "--where",
    multiple=True,
    help="column=value of --scores that a model must have, e.g. licence=mit.",
)
@click.option(
    "--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Models to list."
)
@out.path_option("--csv", "csv_file", help="Write all rows or models here as CSV.")
@out.json_option()
@click.pass_context
def explore(ctx: click.Context, *, csv_file: Path | None, as_json: bool, **options: Any) -> None:
    """Vary fields of a scenario, rank models at one load, or compare two to four scenarios.

    \b
    explore qwen3-30b-a3b --gpus 1xH200 --vary batch=1,16,64 --vary engine=vllm,sglang
    explore deepseek-v3 --gpus 8xH200 --vary context=4k,32k,128k
    explore gpt-oss-20b --gpus 1xB200 --vary drafter
    explore --models all --gpus 8xH200 --users 64 --max-tpot-ms 20
    explore gpt-oss-20b gpt-oss-120b --gpus 1xH200

    A compared MODEL may also be a scenario file, a JSON report, an output of `advise --json` or an
    example's id. A ranked model stands at its best placement and K, and drafts with what is known
    of it: the acceptance measured with it, else its own MTP module with a borrowed length, else
    nothing.
    """
    several = len(ctx.params["model"]) > 1
    modes = [bool(_typed(ctx, {"vary", "plan"})), bool(_typed(ctx, {"names"})), several]
    for is_asked, names, needed in (
        (modes[0], _GRID, "--vary or --plan"),
        (modes[1], _RANK, "--models"),
    ):
        if not is_asked and (astray := _typed(ctx, names)):
            remedy = "; --vary shows all of them" if astray[0] == "--by" else ""
            raise AdvisorError(f"{astray[0]} needs {needed}{remedy}")
    if sum(modes) != 1:
        modes_of = "--vary FIELD=VALUES, --models all, or two to four models, each with --gpus"
        raise AdvisorError(f"give one of {modes_of}; e.g. `{example_of('explore')}`")
    if several:
        _compare(ctx, csv_file, as_json)
    else:
        (_vary if modes[0] else _rank)(ctx, options, csv_file, as_json)


def _typed(ctx: click.Context, names: Set[str]) -> list[str]:
    """Those of some options that are typed, as they are typed."""
    typed = asked.typed_names(ctx) & names
    return [
        {"model": "MODEL"}.get(param.name or "", param.opts[0])
        for param in ctx.command.params
        if param.name in typed
    ]


def _vary(
    ctx: click.Context, options: Mapping[str, Any], csv_file: Path | None, as_json: bool
) -> None:
    """Every combination of the values: as a map over context and batch, as a table, or as files."""
    to_files = options["output"] is not None or options["dry_run"]
    file = options["plan"]
    if options["dask"] and options["output"] is None:
        raise AdvisorError("--dask computes a sweep into a folder; add --output FOLDER")
    if file is not None:
        if others := _typed(ctx, {"vary", "model", *_SCENARIO}):
            raise AdvisorError(f"--plan states every field; leave {others[0]} out")
        plan = load_plan(file).own_named(lambda name, text: own_fields(name, text, file.parent))
    else:
        varied, places = _placed(ctx, _varied(options["vary"]))
        is_several = bool(places or varied.keys() & SERVER_FIELDS)
        if is_several and (astray := _typed(ctx, set(POOL_FIELDS))):
            raise AdvisorError(f"{astray[0]} is of one server; leave it out, --vary asks several")
        is_map = (
            varied.keys() <= _MAPPED.keys()
            and "context_tokens" in varied
            and not (to_files or csv_file)
        )
        keeps_gpus = "n_gpus" in asked.typed_names(ctx)
        usual = _MAPPED.keys() if is_map else {"drafter_id"}
        scenario = _base(ctx, varied, varied.keys() - usual)
        if is_map:
            _map(scenario, varied, as_json)
            return
        if varied.keys() == {"drafter_id"} and not (places or to_files):
            _drafters(scenario, varied["drafter_id"], csv_file, as_json)
            return
        plan = _plan(scenario, varied, places, keeps_gpus, to_files)
    if to_files:
        _to_files(plan, options, as_json)
        return
    best = _show_rows(plan, csv_file, as_json)
    several_drafters = len({case.get("drafter_id") for case in plan.cases}) > 1
    if best is not None and file is None and best["fits"].any() and not several_drafters:
        out.print_next(
            {"its row of most tokens/s per GPU": _words_of(plan, best, placed=bool(places))}
        )


def _words_of(plan: SweepPlan, best: pd.DataFrame, *, placed: bool) -> list[str]:
    """The row of most tokens per second and GPU as `advise` takes it. placed : whether machines
    vary."""
    row = best[best["fits"]].nlargest(1, "tokens_per_s_per_gpu").iloc[0]
    place = {"hardware_id", "n_gpus"}
    varied = {*plan.axes} | ({"batch_size"} if len(plan.batches) > 1 else set())
    left_out = set(varied)
    words = list[str]()
    if placed or place & varied:
        left_out = left_out | place
        words = ["--gpus", f"{row['n_gpus']}x{row['hardware_id']}"]
    for name in FIELDS:
        if name in varied - place and row[name] == row[name]:
            words += [FIELDS[name].flags[0].name, str(row[name])]
    return ["advise", *asked.typed_words(*left_out), *words]


def _placed(
    ctx: click.Context, varied: dict[str, tuple[Any, ...]]
) -> tuple[dict[str, tuple[Any, ...]], list[dict[str, Any]]]:
    """The fields that vary one by one, and the machines that do: GPUs, accelerator and ranks of
    each.

    A machine is placed as `advise` places `--gpus 8xH200`, unless ranks are typed or varied.
    """
    typed = asked.typed_names(ctx)
    names = {"n_gpus", "hardware_id"}
    counts = varied.get("n_gpus", (ctx.params["n_gpus"],))
    hardware = tuple(
        map(hardware_asked, varied.get("hardware_id", filter(None, (ctx.params["hardware_id"],))))
    )
    varied = varied | ({"hardware_id": hardware} if "hardware_id" in varied else {})
    names_hardware = any(isinstance(count, str) for count in counts)
    if "hardware_id" in varied and (names_hardware or isinstance(counts[0], asked.GpusOf)):
        raise AdvisorError(
            "--gpus names the accelerators that --vary hardware varies; say them once, e.g. 8xH200"
        )
    if not names_hardware and not (
        names & varied.keys() and all(isinstance(count, int) for count in counts)
    ):
        return varied, []
    if twice := _typed(ctx, varied.keys() & names | ({"hardware_id"} if names_hardware else set())):
        raise AdvisorError(f"{twice[0]} is given and varied; leave it out")
    machines = [asked.GpusOf(count, hardware_id) for hardware_id in hardware for count in counts]
    if names_hardware:
        machines = [asked.gpus_of(str(count)) for count in counts]
    by_hand = bool((_PLACED - names) & (varied.keys() | typed))
    if not machines or (by_hand and not names_hardware):
        return varied, []
    places = [{"hardware_id": hardware_id, "n_gpus": count} for count, hardware_id in machines]
    for place, (count, hardware_id) in zip(places, () if by_hand else machines, strict=False):
        node = gpus_of_node(load_hardware(hardware_id)) if hardware_id in hardware_ids() else count
        place["tensor_parallel"] = usual_tensor_parallel(count, node)
    if not by_hand:
        ctx.meta[asked.ASSUMED] = [
            " and ".join(dict.fromkeys(f"TP {place['tensor_parallel']}" for place in places))
        ]
    ctx.params |= {"hardware_id": machines[0].hardware_id, "n_gpus": None}
    return {name: values for name, values in varied.items() if name not in names}, places


def _varied(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Values by field, read as a sweep's file is. Raises AdvisorError as that does."""
    lines = []
    for text in texts:
        typed, _, values = text.partition("=")
        name = _BY_NAME.get(typed.strip().replace("_", "-"), typed.strip())
        if name not in FIELDS or FIELDS[name].is_private:
            options = [
                each
                for each, of in _BY_NAME.items()
                if not (FIELDS[of].is_private or of == "model_id")
            ]
            raise unknown_id(typed, "options that vary", options, f"there are {', '.join(options)}")
        if name == "model_id":
            raise AdvisorError("--vary model: rank models with --models, or name two to four")
        if name == "batch_size" and values:
            out.whole_numbers(f"--vary {typed}", values)
        usual = _MAPPED | {"drafter_id": DRAFTERS}
        listed: Iterable[Any] = values.split(",") if values else usual.get(name, ())
        if name.endswith("_tokens") and values:
            try:
                listed = [token_count(each) for each in values.split(",")]
            except ValueError as error:
                raise AdvisorError(f"--vary {typed}: {error}") from error
        lines.append(f"{name}: [{', '.join(map(str, listed))}]")
    gives_batch = any(line.startswith("batch_size:") for line in lines)
    try:
        read = read_plan("\n".join([*lines, *([] if gives_batch else ["batch_size: 1"])]))
    except AdvisorError as error:
        raise AdvisorError(f"--vary {error}") from error
    return {**read.axes, **({"batch_size": read.batches} if gives_batch else {})}


def _base(ctx: click.Context, varied: Mapping[str, tuple[Any, ...]], once: Set[str]) -> Scenario:
    """The scenario whose fields vary. Raises AdvisorError for one of the fields `once` that is
    typed and varied."""
    ctx.params["model"] = (ctx.params["model"] or (None,))[0]
    asked.name_model(ctx)
    (asked.spell_out_gpus if varied.keys() & _PLACED else asked.place_gpus)(ctx)
    if twice := _typed(ctx, once):
        raise AdvisorError(f"{twice[0]} is given and varied; leave one out")
    if "hardware_id" in varied:
        ctx.params["hardware_id"] = varied["hardware_id"][0]
    return asked.scenario_asked(ctx)


def _plan(
    scenario: Scenario,
    varied: Mapping[str, tuple[Any, ...]],
    places: Sequence[Mapping[str, Any]],
    keeps_gpus: bool,
    to_files: bool,
) -> SweepPlan:
    """The scenario's grid, on each machine of `places`. Raises AdvisorError for files of what no
    sweep's file holds."""
    left = {"batch_size", *varied} | (
        {"n_gpus"} if varied.keys() & _PLACED and not keeps_gpus else set()
    )
    left |= {"input_tokens", "output_tokens"} if "context_tokens" in varied else set()
    left |= set(POOL_FIELDS) if places or varied.keys() & SERVER_FIELDS else set()
    base = scenario.model_dump(exclude=left, exclude_none=True)
    documents = {DOCUMENTS[name]: {name: base.pop(name)} for name in DOCUMENTS if name in base}
    if to_files and (private := [name for name in base if FIELDS[name].is_private]):
        raise AdvisorError(
            f"{FIELDS[private[0]].flags[0].name} is not written to files; leave --output out"
        )
    axes = {name: values for name, values in varied.items() if name != "batch_size"}
    drafts = [_with_length(scenario, name) for name in axes.pop("drafter_id", ())]
    cases = tuple(
        {**base, **place, **draft} for place in places or ({},) for draft in drafts or ({},)
    )
    if places and "hardware_id" in documents:
        documents.pop("hardware_id")
    plan = SweepPlan(cases, axes, varied.get("batch_size", (scenario.batch_size,)))
    return plan.own_named(
        lambda name, text: (
            documents[name] | {name: text} if name in documents else own_fields(name, text, Path())
        )
    )


def _with_length(scenario: Scenario, drafter_id: str) -> dict[str, Any]:
    """A drafter with its own accepted length. Raises AdvisorError where none is known."""
    if (length := known_length(scenario, drafter_id)) is None:
        raise AdvisorError(
            f"no accepted length of {drafter_name(drafter_id)} was measured; give one with "
            f"--drafter {drafter_id} --accepted-length X@K"
        )
    return {"drafter_id": drafter_id, "acceptance": length.acceptance}


def _drafters(
    scenario: Scenario, drafters: Sequence[str], csv_file: Path | None, as_json: bool
) -> None:
    """Drafters side by side, each with its own accepted length."""
    from advisor.show.words.drafters import drafter_table, refused_texts

    rows = drafters_beside(scenario, drafters)
    table = drafter_table(rows)
    if csv_file is not None:
        out.write_file(csv_file, table.csv())
    if as_json:
        refused = refused_texts(rows)
        out.print_json({"scenario": scenario, "drafters": table.records(), "refused": refused})
        return
    out.print_table(table)
    out.print_labelled("not possible", refused_texts(rows))
    if (best := gaining_most(rows)) is not None and best.length is not None:
        acceptance = best.length.acceptance
        words = ["advise", *asked.typed_words("drafter_id", *asked.ACCEPTANCE)]
        words += ["--drafter", best.drafter, acceptance_option(acceptance), acceptance]
        out.print_next({"the one that gains most": words})


def _to_files(plan: SweepPlan, options: Mapping[str, Any], as_json: bool) -> None:
    """All rows as Parquet, or with --dry-run how many scenarios that would be."""
    size = {"scenarios": plan.n_scenarios, "combinations": plan.n_curves, "parts": plan.n_parts}
    scenarios = counted(plan.n_scenarios, "scenario")
    if options["dry_run"]:
        if as_json:
            out.print_json(size)
        else:
            out.say(
                f"{scenarios}: {counted(plan.n_curves, 'combination')} at {len(plan.batches)} "
                "batches"
            )
        return
    from advisor.answers.explore.sweep_files import run_sweep  # Parquet is slow to load

    show = out.progress("computing")
    done = run_sweep(plan, options["output"], options["workers"], show, options["dask"])
    if as_json:
        out.print_json(
            {
                **size,
                "found": done.n_found,
                "elapsed_s": round(done.elapsed_s, 3),
                "folder": str(done.folder),
            }
        )
        return
    earlier = f", {counted(done.n_found, 'part')} there already" if done.n_found else ""
    out.say(
        f"{scenarios}: {counted(done.n_parts - done.n_found, 'part')} in {done.elapsed_s:.1f} "
        f"s{earlier}"
    )
    click.echo(
        f"Query them: SELECT ... FROM '{done.folder}/part-*.parquet' (DuckDB, Polars, pandas)"
    )


def _show_rows(plan: SweepPlan, csv_file: Path | None, as_json: bool) -> pd.DataFrame | None:
    """The recommended K of every combination and batch as a table; every K as CSV or JSON. The
    table's rows."""
    if plan.n_curves > _MAX_SHOWN:
        raise AdvisorError(
            f"{plan.n_curves:,} combinations are more than {_MAX_SHOWN} to print; give --output "
            "FOLDER"
        )
    import pandas as pd

    from advisor.answers.explore.cells import kernel_notes_of, sweep_rows, with_prices
    from advisor.show.words.sweep import fastest_of_each, reasons_texts
    from advisor.text import frame_csv

    show = out.progress("computing")
    parts = []
    for index in range(plan.n_parts):
        parts.append(sweep_rows(plan.part(index), plan.batches))
        show((index + 1) / plan.n_parts)
    rows = pd.concat(parts, ignore_index=True)
    best = with_prices(rows[rows["recommended"]])
    refused = reasons_texts(rows)
    rows["recommended"] &= rows["fits"]  # nothing that cannot run
    if csv_file is not None:
        out.write_file(csv_file, frame_csv(rows))
    if as_json:
        out.print_json(rows.astype(object).where(rows.notna(), None).to_dict("records"))
        return None
    if best.empty:
        raise AdvisorError(f"no combination is possible; {'; '.join(refused)}")
    changing = [
        name
        for name in SETTINGS
        if name in {*plan.axes, *(key for case in plan.cases for key in case)}
    ]
    changing = [name for name in changing if rows[name].nunique(dropna=False) > 1] + ["batch_size"]
    tiers = best["tier"].unique()
    out.print_table(_grid_table(best, changing, len(tiers)))
    if len(tiers) == 1:
        out.say(f"Tier: {tiers[0]}.")
    out.say(fastest_of_each(best[best["fits"]], changing[:-1]))
    for text in _unfit_texts(best[~best["fits"]]):
        out.say(text)
    if csv_file is not None:
        out.say(f"{counted(len(rows), 'row')} written to {csv_file}")
    out.print_labelled("not possible", refused)
    lacks = kernel_notes_of(
        (combination for index in range(plan.n_parts) for combination in plan.part(index)),
        plan.batches[0],
    )
    for note, number in lacks.items():
        some = "" if number == plan.n_curves else f", {number} of {plan.n_curves} combinations"
        out.print_labelled(f"warning{some}", [note_text(note)])
    return best


def _unfit_texts(unfit: pd.DataFrame) -> Iterator[str]:
    """What batches that do not fit in memory would need, on each machine."""
    if not unfit.empty:
        yield "-: does not fit in memory."
    where = ["model_id", "hardware_id", "n_gpus", "tensor_parallel", "expert_parallel"]
    for _, rows in unfit.groupby(where, sort=False):
        first = rows.iloc[0]
        settings = first[list(SETTINGS)].dropna().to_dict()
        if str(first["model_id"]).startswith("own-") or str(first["hardware_id"]).startswith(
            "own-"
        ):
            continue
        ranks = max(
            int(settings.get("tensor_parallel", 1)), int(settings.get("expert_parallel", 1))
        )
        scenario = build_scenario(
            **settings | {"n_gpus": ranks, "batch_size": int(first["batch_size"])}
        )
        wider = on_more_gpus(scenario)
        needs = (
            "too large for tensor parallelism alone"
            if wider is None
            else f"needs TP {wider.tensor_parallel} (--tp)"
        )
        place = f"{first['n_gpus']} x {first['hardware_id']}, TP {first['tensor_parallel']}"
        yield f"Batch {scenario.batch_size:,} on {place}: {needs}."


_COST = "USD/M tokens"
_ANSWERS = {
    "K": "{n_draft}",
    "speedup": "{speedup:.2f}",
    "80% range": "{speedup_low:.2f}-{speedup_high:.2f}",
    "expected loss": "{expected_loss:.1%}",
    "ms/token": "{tpot_ms:.2f}",
    "tokens/s/GPU": "{tokens_per_s_per_gpu:,.0f}",
    _COST: "{usd:.3f}",
}
"""Columns of the answer at the recommended K."""


def _grid_table(best: pd.DataFrame, varied: Sequence[str], tiers: int) -> Table[Any]:
    """The varied fields, then the answer, a dash where the batch does not fit; the tier where there
    are several."""
    formats = {
        name: text for name, text in _ANSWERS.items() if name != _COST or best["usd"].notna().any()
    }
    formats |= {"tier": "{tier}"} if tiers > 1 else {}
    rows = [
        (
            *(row[name] for name in varied),
            *(text.format(**row) if row["fits"] else "-" for text in formats.values()),
        )
        for row in best.astype(object).where(best.notna(), None).to_dict("records")
    ]
    called = [FIELDS[name].flags[0].name.removeprefix("--") for name in varied]
    letters = (
        "".join("l" if FIELDS[name].kind is str else "r" for name in varied)
        + "r" * len(formats.keys() - {"tier"})
        + "l"
    )
    return matrix((*called, *formats), rows, letters[: len(varied) + len(formats)])


def _map(scenario: Scenario, varied: Mapping[str, tuple[Any, ...]], as_json: bool) -> None:
    """Speedup and K over context and batch, and where speculation turns. Prefill is not charged."""
    from advisor.show.words.load import (
        acceptance_texts,
        map_document,
        map_table,
        share_table,
        turn_texts,
        verdict,
    )

    speedup_map = context_map(
        scenario, varied["context_tokens"], varied.get("batch_size", (scenario.batch_size,))
    )
    verdict_text = verdict(speedup_map, scenario.context_tokens, scenario.batch_size)
    if as_json:
        out.print_json(
            {
                "verdict": verdict_text,
                "scenario": scenario,
                "says": turn_texts(speedup_map),
                **map_document(speedup_map),
            }
        )
        return
    out.say(verdict_text)
    for text in turn_texts(speedup_map):
        out.say(text)
    out.say("\nSpeedup and recommended K (-: does not fit in memory):")
    out.print_table(map_table(speedup_map))
    out.say("\nAttention's share of a plain step:")
    out.print_table(share_table(speedup_map))
    click.echo()
    out.print_labelled("note", acceptance_texts(speedup_map))
    row, _ = speedup_map.at(scenario.context_tokens, scenario.batch_size)
    out.print_labelled("warning", note_texts(speedup_map.setups[row].notes))
    words = [
        *asked.typed_words("context_tokens", "batch_size"),
        "--context",
        str(speedup_map.contexts[-1]),
    ]
    out.print_next({"K by batch at the longest": ["schedule", *words]})


def _compare(ctx: click.Context, csv_file: Path | None, as_json: bool) -> None:
    """Answer two to four scenarios side by side, all changed by the options."""
    from advisor.answers.advice import advise
    from advisor.show.words.compare import MAX_COMPARED, comparison_table, finding, short_names

    texts = ctx.params["model"]
    if len(texts) > MAX_COMPARED:
        raise AdvisorError(
            f"{len(texts)} scenarios are given; at most {MAX_COMPARED} stand side by side"
        )
    asked.place_gpus(ctx)
    typed = asked.typed_names(ctx)
    if astray := _typed(ctx, {"model_id", "scenario_file", "example"}):
        raise AdvisorError(f"{astray[0]} is one more; name it beside the others")
    changes = {name: value for name, value in asked.take_scenario(ctx).items() if name in typed}
    show = out.progress("answering")
    advices = []
    for scenario in [
        _named(text, changes) for text in texts
    ]:  # all before any is answered: the last may not be readable
        advices.append(advise(scenario))
        show(len(advices) / len(texts))
    names = short_names([advice.scenario for advice in advices])
    table = comparison_table(advices, names)
    if csv_file is not None:
        out.write_file(csv_file, table.csv())
    if as_json:
        from advisor.cli.advise import advice_document

        answers = [
            {"name": name} | advice_document(advice)
            for name, advice in zip(names, advices, strict=True)
        ]
        out.print_json({"finding": finding(advices, names), "scenarios": answers})
        return
    out.print_table(table)
    out.say(f"\n{finding(advices, names)}")
    for note in ranked(note for advice in advices for note in advice.notes):
        of = [name for name, advice in zip(names, advices, strict=True) if note in advice.notes]
        prefix = "" if len(of) == len(names) else f"{'; '.join(of)}: "
        out.print_labelled("warning", [f"{prefix}{note_text(note)}"])
    fastest = max(range(len(texts)), key=lambda at: advices[at].recommendation.tokens_per_s_per_gpu)
    kind = (
        "--example"
        if texts[fastest] in example_ids()
        else "--scenario"
        if is_there(Path(texts[fastest]))
        else ""
    )
    words = [*filter(None, [kind]), texts[fastest], *asked.typed_words("model_id")]
    out.print_next({"the one of most tokens/s per GPU": ["advise", *words]})


def _named(text: str, given: dict[str, Any]) -> Scenario:
    """An example's id, a model's id or name, else a file, changed by what is asked."""
    path = Path(text)
    assumed = list[str]()
    if text in example_ids():
        return asked.scenario_from(dict(given), load_example(text).scenario)
    if is_there(path) or path.suffix == ".json":
        return asked.scenario_from(dict(given), asked.scenario_in(path).scenario)
    if resolve_model_name(text) is None:
        return load_example(text).scenario  # which refuses it, with near matches
    if "hardware_id" not in given:
        raise AdvisorError(f"{text} is a model; say on which GPUs, e.g. --gpus 8xH200")
    scenario = asked.scenario_from({**given, "model_id": text}, assumed=assumed)
    out.print_labelled(f"assumed for {text}", assumed and ["; ".join(assumed)], err=True)
    return scenario


def _rank(
    ctx: click.Context, options: Mapping[str, Any], csv_file: Path | None, as_json: bool
) -> None:
    """All models at one load on one machine, each at its best placement and K, with bands and
    doubt."""
    from advisor.answers.explore.leaderboard import leaderboard
    from advisor.show.words.leaderboard import (
        by_size,
        document,
        missed_texts,
        notes,
        quality_text,
        table,
        verdict,
    )

    if astray := _typed(ctx, _OF_ONE_MODEL):
        raise AdvisorError(
            f"{astray[0]} is of one model; leave it out, --models tries each at its best"
        )
    asked.spell_out_gpus(ctx)
    question, axis = _question(asked.take_scenario(ctx), options)
    board = leaderboard(question, out.progress("ranking"))
    top = options["top"]
    if csv_file is not None:
        out.write_file(csv_file, table(board, quality=axis).csv())
    if as_json:
        out.print_json(document(board, axis))
        return
    out.say(verdict(board))
    if axis is None and (
        quality_note := quality_text(board, "set --min-total-params or bring --scores")
    ):
        out.say(quality_note)
    if board.standings:
        out.say(f"{by_size(board)}\n".lstrip("\n"))
        out.print_table(table(board, top, axis))
        if len(board.standings) > top:
            out.say(f"... and {len(board.standings) - top} more; --top shows them.")
        click.echo()
        out.print_labelled("note", notes(board))
    out.print_labelled("not ranked", missed_texts(board))
    shipped = question.scenario.hardware_json is None and options["histogram"] is None
    if shipped and board.standings and board.standings[0].name in model_ids():
        out.print_next(
            {"the first of them": ["advise", *_words_of_first(board.standings[0], question)]}
        )


def _words_of_first(first: Standing, question: entrants.RankQuestion) -> list[str]:
    """A ranked model at its placement, as `advise` takes it: one of its copies."""
    placed: dict[str, Any] = {
        "n_gpus": first.gpus // first.copies,
        "batch_size": -(-question.users.batches[0] // first.copies),
    }
    placed |= {
        name: getattr(first, name) for name in ("tensor_parallel", "expert_parallel", "acceptance")
    }
    placed |= {"model_id": first.name, "drafter_id": first.drafter}
    return scenario_words(question.scenario.model_copy(update=placed))


Axis = tuple[str, dict[str, float]]
"""A column of the user's scores, and its numbers by model."""


def _question(
    values: dict[str, Any], options: Mapping[str, Any]
) -> tuple[entrants.RankQuestion, Axis | None]:
    """What the options ask, and the quality axis."""
    users = options["users"]
    histogram = options["histogram"]
    names = options["names"]
    usd = options["usd_per_hour"]
    if users is not None and histogram is not None:
        raise AdvisorError("give --users or --histogram, not both")
    listed, axis = _scores(*(options[name] for name in _SCORES))
    scenario, drafter = _shared(values)
    patterns = () if names == "all" else tuple(each.strip() for each in names.split(","))
    sizes = {name: options[name] for name in _SIZES}
    question = entrants.RankQuestion(
        scenario,
        BatchHistogram.from_text(histogram)
        if histogram is not None
        else entrants.one_load(16 if users is None else users),
        options["by"] or entrants.default_by(scenario, usd),
        usd,
        drafter,
        options["expert_parallel_too"],
        options["whole_machine"],
        entrants.ModelFilter(patterns, **sizes, listed=listed),
        _configs(options["configs"]),
    )
    return question, axis


def _configs(paths: Sequence[Path]) -> tuple[tuple[str, str], ...]:
    """The user's own models, each under a name of its own."""
    configs: dict[str, str] = {}
    for path in paths:
        scenario = asked.scenario_from({"model_id": str(path), "drafter_id": "none"})
        name = scenario.model_id
        if scenario.model_config_json is None:
            raise AdvisorError(
                f"--config {path}: no such file; shipped models are named with --models"
            )
        if name in configs or name in model_ids():
            clash = "given twice" if name in configs else "a shipped model's"
            raise AdvisorError(
                f"--config {path}: the name {name} is {clash}; rename the file's folder or the file"
            )
        configs[name] = scenario.model_config_json
    return tuple(configs.items())


def _shared(values: dict[str, Any]) -> tuple[Scenario, tuple[str, str] | None]:
    """What all models share, and the user's drafter with its accepted length, None for what is
    known of each."""
    drafter_id = values.pop("drafter_id")
    acceptance = asked.given_acceptance(
        *(values.pop(name) for name in ("accepted_length", "acceptance", "acceptance_preset"))
    )
    if acceptance is not None and drafter_id in (None, "none"):
        raise AdvisorError("--accepted-length needs --drafter, e.g. eagle3")
    if acceptance is None and drafter_id not in (None, "none"):
        raise AdvisorError(
            f"--drafter {drafter_id} needs --accepted-length X@K, e.g. 2.73@3; or leave --drafter "
            "out to use what is known of each model"
        )
    if values["hardware_id"] is None:
        raise AdvisorError("the GPUs are missing; give --gpus, e.g. 8xH200, or --hardware")
    n_gpus = values.pop("n_gpus")
    shared = asked.scenario_from(
        {
            **values,
            "n_gpus": 1 if n_gpus is None else n_gpus,
            "model_id": _NO_MODEL,
            "drafter_id": "none",
        }
    )
    return shared, None if drafter_id is None else (drafter_id, acceptance or "0")


_NO_MODEL = FIELDS["model_id"].default
"""Only checks the rest of the question: a leaderboard has models of its own."""


def _scores(
    file: Path | None, quality: str | None, least: float | None, where: Sequence[str]
) -> tuple[frozenset[str] | None, Axis | None]:
    """The models that the table of scores leaves (None: all), and the quality axis."""
    if file is None:
        if quality is not None or least is not None or where:
            raise AdvisorError("--quality, --min-quality and --where need --scores FILE")
        return None, None
    read = entrants.read_scores(
        file.name, read_file(file, entrants.MAX_SCORES_BYTES, "a table of scores")
    )
    listed: frozenset[str] | None = None
    for condition in where:
        matches = read.where(condition)
        listed = matches if listed is None else listed & matches
    only_words = quality is None and least is None and bool(where)
    column = None if only_words else read.column(quality or read.columns[0])
    if column is None:
        return listed, None
    numbers = read.numbers(column)
    if least is not None:
        good = frozenset(model for model, score in numbers.items() if score >= least)
        listed = good if listed is None else listed & good
    return listed, (column, numbers)
