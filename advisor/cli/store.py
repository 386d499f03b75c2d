"""`store`: build or inspect the store of measured tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from advisor.cli import output as out
from advisor.measured.measurements import sweeps
from advisor.measured.store_build import build as build_store
from advisor.measured.store_build import status as store_status
from advisor.physics.hardware import load_hardware
from advisor.show.table import matrix

if TYPE_CHECKING:
    import pandas as pd


@click.group()
def store() -> None:
    """Build or inspect the store of measured tables."""


@store.command()
@click.option("--if-stale", is_flag=True, help="Do nothing where the store is up to date.")
@out.json_option()
def build(if_stale: bool, as_json: bool) -> None:
    """Build the store from the installed kernel tables. The old one stays until all is done."""
    now = store_status() if if_stale else None
    if now is not None and now.exists and not now.problem and not now.stale:
        if as_json:
            out.print_json({"built": False, "path": str(now.path)})
        return
    summary = build_store(progress=out.progress("building the store:"))
    if as_json:
        out.print_json({"built": True, **vars(summary), "path": str(summary.path)})
        return
    total = sum(summary.rows_by_table.values())
    click.echo(
        f"Built {summary.path}: {total:,} rows from {summary.n_files} tables in "
        f"{summary.seconds:.0f} s, {summary.size_bytes / 1e6:.0f} MB."
    )
    if summary.kernel_package_version is None:
        click.echo(
            "The measured kernel tables are not installed here; the app runs on the shipped fits."
        )
    for left_out, original in summary.copies:
        click.echo(f"Counted once: {left_out} repeats {original}.")
    for note in summary.notes:
        click.echo(note)


@store.command()
@click.option("--hardware", "hardware_id", help="Show every measured table of this accelerator.")
@click.option(
    "--all",
    "whole",
    is_flag=True,
    help="Show every measured table [default: one line per accelerator].",
)
@out.json_option("Machine-readable output, always with every table.")
def status(hardware_id: str | None, whole: bool, as_json: bool) -> None:
    """Show what the store holds, and whether it is up to date."""
    if hardware_id is not None:
        load_hardware(hardware_id)  # raises for an unknown one, with those that are known
    now = store_status()
    coverage = now.coverage
    if coverage is not None and hardware_id is not None:
        coverage = coverage[coverage["hardware_id"] == hardware_id]
    if as_json:
        names = ("exists", "problem", "stale_because", "kernel_package_version", "size_bytes")
        state = {"path": str(now.path)} | {name: getattr(now, name) for name in names}
        tables = {"coverage": coverage, "sweeps": sweeps()}
        rows = {
            name: [] if frame is None else frame.to_dict("records")
            for name, frame in tables.items()
        }
        out.print_json(state | {"rows_by_table": now.rows_by_table or {}} | rows)
        return
    if now.problem:
        click.echo(now.problem)
        return
    click.echo(
        f"{now.path}: {now.size_bytes / 1e6:.0f} MB, built {now.built_utc:%Y-%m-%d %H:%M} UTC"
    )
    for reason in now.stale_because:
        click.echo(f"stale: {reason}; run `python -m advisor store build`")
    if coverage is not None and (whole or hardware_id is not None):
        _print_frame(
            coverage, ("hardware_id", "engine", "version", "op", "dtype", "n_shapes", "n_rows")
        )
        if coverage.empty:
            click.echo(f"No measured kernels of {hardware_id or 'any accelerator'}.")
    elif coverage is not None:
        summary = _by_accelerator(coverage)
        _print_frame(summary, tuple(summary.columns))
        click.echo("Every table: --hardware ID for one accelerator, --all for all of them.")
    if len(listed := sweeps()):
        click.echo("\nSweeps of the profiler:")
        _print_frame(listed, ("name", "device", "status", "preset", "measured_rows", "started_at"))


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
    letters = "".join("r" if frame[name].dtype.kind in "iuf" else "l" for name in columns)
    out.print_table(matrix(columns, cells.where(cells.notna(), None).values.tolist(), letters))
