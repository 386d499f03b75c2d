"""`store`, `models`, `hardware`: what the advisor knows."""

from __future__ import annotations

import sys
from typing import Any

import click

from advisor import store as measured
from advisor.architecture import attention_share_of_active, parameter_counts, weight_bytes
from advisor.cli.output import print_json, print_table
from advisor.hardware import hardware_ids, load_hardware
from advisor.model_profiles import load_model, model_ids


@click.group()
def store() -> None:
    """Build or inspect the store of measured tables."""


@store.command()
@click.option("--if-stale", is_flag=True, help="Do nothing when the store matches its sources.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def build(if_stale: bool, as_json: bool) -> None:
    """Build the store from the installed kernel tables and measurements/; the old one stays until all is done."""
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
        f"Built {summary.path.name}: {total:,} rows from {summary.n_files} tables in {summary.seconds:.0f} s, "
        f"{summary.size_bytes / 1e6:.0f} MB."
    )
    if summary.kernel_package_version is None:
        click.echo("The measured kernel tables are not installed here; the app runs on the shipped fits.")
    for left_out, original in summary.copies:
        click.echo(f"Counted once: {left_out} repeats {original}.")
    for note in summary.notes:
        click.echo(note)


@store.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def status(as_json: bool) -> None:
    """What the store holds, and whether it is up to date."""
    now = measured.status()
    if as_json:
        coverage = now.coverage.to_dict("records") if now.coverage is not None else []
        print_json(
            {
                "path": str(now.path),
                "exists": now.exists,
                "problem": now.problem,
                "stale_because": now.stale_because,
                "kernel_package_version": now.kernel_package_version,
                "size_bytes": now.size_bytes,
                "rows_by_table": now.rows_by_table or {},
                "coverage": coverage,
                "sweeps": now.sweeps.to_dict("records") if now.sweeps is not None else [],
            }
        )
        return
    if now.problem:
        click.echo(now.problem)
        return
    click.echo(f"{now.path.name}: {now.size_bytes / 1e6:.0f} MB, built {now.built_utc:%Y-%m-%d %H:%M} UTC")
    for reason in now.stale_because:
        click.echo(f"stale: {reason}; run `python -m advisor store build`")
    if now.coverage is not None:
        columns = ("hardware_id", "engine", "version", "op", "dtype", "n_shapes", "n_rows")
        print_table(columns, now.coverage[list(columns)].astype(object).values.tolist())
    if now.sweeps is not None and len(now.sweeps):
        click.echo("\nSweeps of the profiler:")
        facts = ("name", "device", "status", "preset", "measured_rows", "started_at")
        print_table(facts, now.sweeps[list(facts)].astype(object).values.tolist())


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
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
                "n_experts": moe.n_experts if moe else None,
                "n_active": moe.n_active if moe else None,
                "n_shared": moe.n_shared if moe else None,
                "expert_width": moe.expert_width if moe else None,
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
                round(row["total_params"] / 1e9, 1),
                round(row["active_params"] / 1e9, 2),
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
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
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
    """One line that moves on a terminal; on a pipe a line per tenth, so that logs stay short."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K[{fraction:4.0%}] {step}", nl=fraction >= 1.0, err=True)
    elif int(fraction * 10) != _show_progress.__dict__.get("last"):
        _show_progress.__dict__["last"] = int(fraction * 10)
        click.echo(f"[{fraction:4.0%}] {step}", err=True)
