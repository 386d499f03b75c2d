"""`store`, `models`, `hardware`, `presets`: what the advisor knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from advisor import store as measured
from advisor.acceptance import acceptance_curves
from advisor.architecture import attention_share_of_active, parameter_counts, weight_bytes
from advisor.catalog import load_model, model_ids
from advisor.cli.output import json_option, print_json, print_table
from advisor.drafter import drafter_ids, load_drafter
from advisor.hardware import hardware_ids, load_hardware
from advisor.routing import load_routing_preset, routing_preset_ids

if TYPE_CHECKING:
    import pandas as pd


@click.group()
def store() -> None:
    """Build or inspect the store of measured tables."""


@store.command()
@click.option("--if-stale", is_flag=True, help="Do nothing when the store matches its sources.")
@json_option()
def build(if_stale: bool, as_json: bool) -> None:
    """Build the store from the installed kernel tables and measurements/. The old one stays until all is done."""
    if if_stale:
        now = measured.status()
        if now.exists and not now.problem and not now.stale:
            if as_json:
                print_json({"built": False, "path": str(now.path)})
            return
    summary = measured.build(progress=_show_progress)
    if as_json:
        print_json({"built": True, **vars(summary), "path": str(summary.path)})
        return
    total = sum(summary.rows_by_table.values())
    click.echo(
        f"Built {summary.path}: {total:,} rows from {summary.n_files} tables in {summary.seconds:.0f} s, "
        f"{summary.size_bytes / 1e6:.0f} MB."
    )
    if summary.kernel_package_version is None:
        click.echo("The measured kernel tables are not installed here; the app runs on the shipped fits.")
    for left_out, original in summary.copies:
        click.echo(f"Counted once: {left_out} repeats {original}.")
    for note in summary.notes:
        click.echo(note)


@store.command()
@click.option("--hardware", "hardware_id", help="Every measured table of this accelerator.")
@click.option("--all", "whole", is_flag=True, help="Every measured table [default: one line per accelerator].")
@json_option("Machine-readable output, always with every table.")
def status(hardware_id: str | None, whole: bool, as_json: bool) -> None:
    """Show what the store holds, and whether it is up to date."""
    if hardware_id is not None:
        load_hardware(hardware_id)  # raises for an unknown one, with those that are known
    now = measured.status()
    coverage = now.coverage
    if coverage is not None and hardware_id is not None:
        coverage = coverage[coverage["hardware_id"] == hardware_id]
    if as_json:
        print_json(_status_document(now, coverage))
        return
    if now.problem:
        click.echo(now.problem)
        return
    click.echo(f"{now.path}: {now.size_bytes / 1e6:.0f} MB, built {now.built_utc:%Y-%m-%d %H:%M} UTC")
    for reason in now.stale_because:
        click.echo(f"stale: {reason}; run `python -m advisor store build`")
    if coverage is not None and (whole or hardware_id is not None):
        _print_frame(coverage, ("hardware_id", "engine", "version", "op", "dtype", "n_shapes", "n_rows"))
        if coverage.empty:
            click.echo(f"No measured kernels of {hardware_id or 'any accelerator'}.")
    elif coverage is not None:
        summary = _by_accelerator(coverage)
        _print_frame(summary, tuple(summary.columns))
        click.echo("Every table: --hardware ID for one accelerator, --all for all of them.")
    if now.sweeps is not None and len(now.sweeps):
        click.echo("\nSweeps of the profiler:")
        _print_frame(now.sweeps, ("name", "device", "status", "preset", "measured_rows", "started_at"))


def _status_document(now: measured.StoreStatus, coverage: pd.DataFrame | None) -> dict[str, Any]:
    return {
        "path": str(now.path),
        **{name: getattr(now, name) for name in ("exists", "problem", "stale_because")},
        **{name: getattr(now, name) for name in ("kernel_package_version", "size_bytes")},
        "rows_by_table": now.rows_by_table or {},
        "coverage": coverage.to_dict("records") if coverage is not None else [],
        "sweeps": now.sweeps.to_dict("records") if now.sweeps is not None else [],
    }


def _by_accelerator(coverage: pd.DataFrame) -> pd.DataFrame:
    """One row per accelerator: engines and operations measured, number of tables and of rows."""
    groups = coverage.groupby("hardware_id", sort=True)
    return groups.agg(
        engines=("engine", lambda names: ", ".join(sorted(set(names)))),
        operations=("op", lambda names: ", ".join(sorted(set(names)))),
        tables=("op", "size"),
        rows=("n_rows", "sum"),
    ).reset_index()


def _print_frame(frame: pd.DataFrame, columns: tuple[str, ...]) -> None:
    """The columns of a frame as a table. A missing value is an empty cell."""
    cells = frame[list(columns)].astype(object)
    print_table(columns, cells.where(cells.notna(), None).values.tolist())


@click.command()
@json_option()
def models(as_json: bool) -> None:
    """List the known models: size, experts, weights."""
    rows: list[dict[str, Any]] = []
    for model_id in model_ids():
        architecture = load_model(model_id)
        counts, moe = parameter_counts(architecture), architecture.moe
        rows.append(
            {
                "id": model_id,
                "total_params": counts.total,
                "active_params": counts.active_all,
                **{name: getattr(moe, name, None) for name in ("n_experts", "n_active", "n_shared", "expert_width")},
                "attention_share": attention_share_of_active(architecture),
                "weight_bytes": weight_bytes(architecture),
                "mtp_modules": architecture.mtp_modules,
                "confidence": architecture.confidence,
                "sources": architecture.sources,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(
        ("model", "total B", "active B", "N", "k", "expert width", "weights GB", "MTP", "confidence"),
        [
            (
                row["id"],
                f"{row['total_params'] / 1e9:.1f}",
                f"{row['active_params'] / 1e9:.2f}",
                row["n_experts"],
                row["n_active"],
                row["expert_width"],
                round(row["weight_bytes"] / 1e9),
                row["mtp_modules"],
                row["confidence"],
            )
            for row in rows
        ],
    )


@click.command()
@json_option()
def hardware(as_json: bool) -> None:
    """List the known accelerators: memory, bandwidth, arithmetic, whether kernels are measured."""
    profiles = [load_hardware(hardware_id) for hardware_id in hardware_ids()]
    if as_json:
        print_json(profiles)
        return
    print_table(
        ("accelerator", "memory GB", "bandwidth GB/s", "bf16 TFLOP/s", "kernel tables", "confidence"),
        [
            (
                item.id,
                round(item.memory_bytes.value / 1e9),
                round(item.bandwidth_bytes_per_s.value / 1e9),
                round(item.peak_flops_per_s["bf16"].value / 1e12) if "bf16" in item.peak_flops_per_s else None,
                "measured" if item.kernel_table_device else "-",
                item.confidence,
            )
            for item in profiles
        ],
    )


def _show_progress(step: str, fraction: float) -> None:
    """One line that moves on a terminal. On a pipe a line per tenth, so that logs stay short."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K[{fraction:4.0%}] {step}", nl=fraction >= 1.0, err=True)
    elif int(fraction * 10) != _show_progress.__dict__.get("last"):
        _show_progress.__dict__["last"] = int(fraction * 10)
        click.echo(f"[{fraction:4.0%}] {step}", err=True)


@click.command()
@json_option()
def presets(as_json: bool) -> None:
    """List drafters, measured acceptance curves and routing presets, with the ids that the options take."""
    drafters = [load_drafter(name) for name in drafter_ids()]
    curves = acceptance_curves()
    routing = [load_routing_preset(name) for name in routing_preset_ids()]
    if as_json:
        print_json({"drafters": drafters, "acceptance_curves": curves, "routing_presets": routing})
        return
    print_table(("--drafter", "kind", "name"), [(item.id, item.kind, item.name) for item in drafters])
    click.echo("")
    print_table(
        ("--acceptance-preset", "model", "drafter", "K", "accepted length at the largest K"),
        [(c.id, c.model_id, c.drafter_id, f"{c.n_draft[0]}-{c.n_draft[-1]}", c.accepted_length[-1]) for c in curves],
    )
    click.echo("")
    print_table(
        ("--routing", "kind", "N", "k", "load CV", "affinity", "stickiness"),
        [
            (p.id, p.kind, p.n_experts, p.n_active, p.load_cv.value, p.affinity.value, p.stickiness.value)
            for p in routing
        ],
    )
