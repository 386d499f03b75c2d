"""`advisor sweep`: a grid of scenarios as Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import json_option, print_json, progress
from advisor.prediction import AdvisorError
from advisor.sweep import load_plan, run_sweep
from advisor.text import counted


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
    plan = load_plan(file)
    asked = {"scenarios": plan.n_scenarios, "combinations": plan.n_curves, "parts": plan.n_parts}
    scenarios = counted(plan.n_scenarios, "scenario")
    if dry_run:
        if as_json:
            print_json(asked)
        else:
            click.echo(f"{scenarios}: {counted(plan.n_curves, 'combination')} at {len(plan.batches)} batches")
        return
    done = run_sweep(plan, output, workers, ray_address, progress("sweeping"))
    if as_json:
        print_json({**asked, "found": done.n_found, "elapsed_s": round(done.elapsed_s, 3), "folder": str(done.folder)})
        return
    earlier = f", {counted(done.n_found, 'part')} there already" if done.n_found else ""
    click.echo(f"{scenarios}: {counted(done.n_parts - done.n_found, 'part')} in {done.elapsed_s:.1f} s{earlier}")
    click.echo(f"Query them: SELECT ... FROM '{done.folder}/part-*.parquet' (DuckDB, Polars, pandas)")
