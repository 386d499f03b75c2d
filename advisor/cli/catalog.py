"""`models`, `hardware`, `presets`: what the advisor knows."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any

import click

from advisor.catalog.models import load_model, model_ids
from advisor.catalog.routing_presets import load_routing_preset, routing_preset_ids
from advisor.cli import output as out
from advisor.physics.acceptance import AcceptanceCurve, every_curve
from advisor.physics.architecture import attention_share_of_active, parameter_counts, weight_bytes
from advisor.physics.draft import drafter_ids, load_drafter
from advisor.physics.hardware import Hardware, hardware_ids, load_hardware
from advisor.physics.touched_experts import RoutingPreset
from advisor.show.table import Column, Table, matrix


@click.command()
@out.json_option()
def models(as_json: bool) -> None:
    """List the known models: size, experts, weights."""
    rows: list[dict[str, Any]] = []
    for model_id in model_ids():
        architecture = load_model(model_id)
        counts = parameter_counts(architecture)
        moe = architecture.moe
        rows.append(
            {
                "id": model_id,
                "total_params": counts.total,
                "active_params": counts.active_all,
                **{
                    name: getattr(moe, name, None)
                    for name in ("n_experts", "n_active", "n_shared", "expert_width")
                },
                "attention_share": attention_share_of_active(architecture),
                "weight_bytes": weight_bytes(architecture),
                "mtp_modules": architecture.mtp_modules,
                "confidence": architecture.confidence,
                "sources": architecture.sources,
            }
        )
    if as_json:
        out.print_json(rows)
        return
    out.print_table(Table(_MODELS, rows))


_MODELS: tuple[Column[dict[str, Any]], ...] = (
    Column("model", itemgetter("id"), words=True),
    Column("total B", lambda row: row["total_params"] / 1e9, "{:.1f}".format),
    Column("active B", lambda row: row["active_params"] / 1e9, "{:.2f}".format),
    Column("N", itemgetter("n_experts")),
    Column("k", itemgetter("n_active")),
    Column("expert width", itemgetter("expert_width")),
    Column("weights GB", lambda row: row["weight_bytes"] / 1e9, "{:.0f}".format),
    Column("MTP", itemgetter("mtp_modules")),
    Column("confidence", itemgetter("confidence"), words=True),
)


@click.command()
@out.json_option()
def hardware(as_json: bool) -> None:
    """List the known accelerators: memory, bandwidth, arithmetic, whether kernels are measured."""
    profiles = [load_hardware(hardware_id) for hardware_id in hardware_ids()]
    if as_json:
        out.print_json(profiles)
        return
    out.print_table(Table(_HARDWARE, profiles))


_HARDWARE: tuple[Column[Hardware], ...] = (
    Column("accelerator", attrgetter("id"), words=True),
    Column("memory GB", lambda profile: profile.memory_bytes.value / 1e9, "{:.0f}".format),
    Column(
        "bandwidth GB/s", lambda profile: profile.bandwidth_bytes_per_s.value / 1e9, "{:.0f}".format
    ),
    Column(
        "bf16 TFLOP/s",
        lambda profile: profile.peak_flops_per_s.get("bf16"),
        lambda flops_per_s: flops_per_s and f"{flops_per_s.value / 1e12:.0f}",
    ),
    Column(
        "kernel tables",
        lambda profile: "measured" if profile.kernel_table_device else "-",
        words=True,
    ),
    Column("confidence", attrgetter("confidence"), words=True),
)


@click.command()
@out.json_option()
def presets(as_json: bool) -> None:
    """List drafters, measured acceptance curves and routing presets, with the ids that the options
    take."""
    drafters = [load_drafter(name) for name in drafter_ids()]
    curves = every_curve()
    routing = [load_routing_preset(name) for name in routing_preset_ids()]
    if as_json:
        out.print_json(
            {"drafters": drafters, "acceptance_curves": curves, "routing_presets": routing}
        )
        return
    out.print_table(
        matrix(
            ("--drafter", "kind", "name"),
            [(item.id, item.kind, item.name) for item in drafters],
            "lll",
        )
    )
    click.echo("")
    out.print_table(Table(_CURVES, curves))
    click.echo("")
    out.print_table(Table(_ROUTING, routing))


_CURVES: tuple[Column[AcceptanceCurve], ...] = (
    Column("--acceptance-preset", attrgetter("id"), words=True),
    Column("model", attrgetter("model_id"), words=True),
    Column("drafter", attrgetter("drafter_id"), words=True),
    Column("K", lambda curve: f"{curve.n_draft[0]}-{curve.n_draft[-1]}"),
    Column("accepted length at the largest K", lambda curve: curve.accepted_length[-1]),
)
_ROUTING: tuple[Column[RoutingPreset], ...] = (
    Column("--routing", attrgetter("id"), words=True),
    Column("kind", attrgetter("kind"), words=True),
    Column("N", attrgetter("n_experts")),
    Column("k", attrgetter("n_active")),
    Column("load CV", attrgetter("load_cv.value")),
    Column("affinity", attrgetter("affinity.value")),
    Column("stickiness", attrgetter("stickiness.value")),
)
