"""`trace`: routing parameters from a user's own expert ids or counts of activated experts."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.catalog import load_model
from advisor.cli.measure import read_bytes
from advisor.cli.output import json_option, print_json, print_labelled, print_table, write_file
from advisor.expert_traffic import write_loads
from advisor.ingest import ActivationLog, LayerCounts, layer_counts, open_activation_log, read_traces
from advisor.prediction import AdvisorError
from advisor.routing import RoutingPreset, expert_loads, load_routing_preset, preset_for, write_own_routing
from advisor.text import counted

MAX_EXPERTS = 65_536
"""Ids of experts come as 16-bit numbers. [-]"""
MAX_LAYERS = 2_000
ANY_MOE = "class-fine-no-shared"
"""Preset behind a log whose model is not named."""


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", "model_id", help="Model id, for its number of experts.")
@click.option("--experts", type=int, help="Routed experts per layer, where the model has no profile.")
@click.option("--active", type=int, help="Experts per token, with --experts.")
@click.option("--layers", type=int, help="Routed layers, with --experts: tells what the axes of an array are.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write the experts' loads by layer, for --expert-loads."
)
@json_option()
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

    FILES hold the ids of the experts that each token chose, one request or several in each, or one log of how many
    experts each pass activated (MoE-CAP).
    """
    count, model = _experts(model_id, experts, LayerCounts(layers, layers, active))
    given = [(file.name, read_bytes(file)) for file in files]
    log = open_activation_log(*given[0]) if len(given) == 1 else None
    if log is not None:
        if output is not None:
            raise AdvisorError(
                "a log of activated experts does not say which ones; --output needs a trace of their ids"
            )
        _counts(log, count, model.n_active, model_id, as_json)
        return
    _ids(given, count, model, output, as_json)


def _ids(files: list[tuple[str, bytes]], count: int, model: LayerCounts, output: Path | None, as_json: bool) -> None:
    from advisor.routing import fit_sequences

    read = read_traces(files, model)
    found = fit_sequences(read.sequences, count)
    own = write_own_routing(
        (found.fit.load_cv, found.fit.affinity, found.fit.stickiness),
        (found.fit.load_cv_interval, found.fit.affinity_interval, found.fit.stickiness_interval),
    )
    if output is not None:
        kept = tuple(ids[:, list(found.layers)] for ids in read.sequences)
        write_file(output, write_loads(expert_loads(kept, count)) + "\n", "choose another --output")
    if as_json:
        print_json({"file": read.file_name, "layout": read.layout, "routing": own, **vars(found)})
        return
    click.echo(
        f"{counted(found.n_sequences, 'sequence')}, {found.n_tokens:,} tokens, {counted(len(found.layers), 'layer')}, "
        f"{found.n_active} of {found.n_experts} experts ({read.layout})"
    )
    for what in ("load_cv", "affinity", "stickiness"):
        low, high = getattr(found.fit, f"{what}_interval")
        click.echo(f"{what:11s} {getattr(found.fit, what):.3f}  (80%: {low:.3f} to {high:.3f})")
    click.echo("overlap at lag 1 to 7: " + " ".join(f"{share:.3f}" for share in found.fit.overlap_by_lag))
    click.echo(f"overlap of unrelated tokens: {found.fit.unrelated_overlap:.3f}\n")
    _union_table([(u.batch_size, u.tokens, u.counted, u.predicted, u.uniform) for u in found.unions])
    print_labelled("warning", found.warnings)
    click.echo(f"\nTo use it: --routing {own}")
    if output is not None:
        click.echo(f"With expert-parallel ranks also: --expert-loads {output}")


def _counts(log: ActivationLog, n_experts: int, n_active: int | None, model_id: str | None, as_json: bool) -> None:
    from advisor.routing import fit_counts

    if n_active is None:
        raise AdvisorError("a log of activated experts needs the experts per token too; give --model ID or --active K")
    preset = _preset(model_id)
    found = fit_counts(log.sequences, log.tokens_per_sequence, log.experts, n_experts, n_active, preset)
    if as_json:
        told = {**vars(found), "routing": found.routing, "left_out": dict(log.left_out)}
        print_json({"file": log.file_name, "layout": "log of activated experts", **told})
        return
    click.echo(f"{found.n_passes:,} passes, {n_active} of {n_experts} experts (log of activated experts)")
    for item in found.parameters:
        origin = "" if item.identified else f"  not told by the log: {preset.name}"
        click.echo(f"{item.name:11s} {item.value:.3f}  (80%: {item.low:.3f} to {item.high:.3f}){origin}")
    click.echo("")
    _union_table([(c.batch_size, c.tokens, c.counted, c.predicted, c.uniform) for c in found.cells])
    for reason, count in log.left_out:
        click.echo(f"not used, {count:,} passes: {reason}")
    print_labelled("warning", found.warnings)
    click.echo(f"\nTo use it: --routing {found.routing}")


def _union_table(rows: list[tuple[int, int, float, float, float]]) -> None:
    header = ("sequences", "tokens each", "experts counted", "predicted", "error", "uniform")
    print_table(
        header,
        [(b, t, f"{c:.1f}", f"{p:.1f}", f"{p / c - 1:+.1%}", f"{u:.1f}") for b, t, c, p, u in rows],
    )


def _preset(model_id: str | None) -> RoutingPreset:
    return preset_for(load_model(model_id))[0] if model_id is not None else load_routing_preset(ANY_MOE)


def _experts(model_id: str | None, experts: int | None, given: LayerCounts) -> tuple[int, LayerCounts]:
    """N, and the layers and k: those of a model's profile, or those given."""
    if (model_id is None) == (experts is None):
        raise AdvisorError("give --model ID or --experts N, so that experts that were never chosen are counted")
    if experts is not None:
        if not 2 <= experts <= MAX_EXPERTS:
            raise AdvisorError(f"--experts {experts}: a routed layer has 2 to {MAX_EXPERTS:,} experts")
        for name, value, most in (("--active", given.n_active, experts), ("--layers", given.routed, MAX_LAYERS)):
            if value is not None and not 1 <= value <= most:
                raise AdvisorError(f"{name} {value} is out of range; expected 1 to {most:,}")
        return experts, given
    if given.routed is not None or given.n_active is not None:
        raise AdvisorError("--layers and --active go with --experts; the model's profile knows its own")
    architecture = load_model(str(model_id))
    moe = architecture.moe
    if moe is None:
        raise AdvisorError(f"{model_id} is dense: it has no experts to trace")
    return moe.n_experts, layer_counts(architecture)
