"""`acceptance`: accepted length by K from metrics, an acceptance histogram or a list of rates."""

from __future__ import annotations

from pathlib import Path

import click

from advisor import ingest as reading
from advisor.cli.measure import read_bytes
from advisor.cli.output import json_option, print_json, print_labelled, print_table
from advisor.ingest import AcceptanceRates
from advisor.prediction import AdvisorError


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[BEFORE] [FILE]")
@click.option("--rates", help="Rates by draft position instead of a file, e.g. 0.72,0.51,0.35.")
@click.option(
    "--conditional",
    is_flag=True,
    help="The list gives each rate given that all tokens before were accepted [default: share of all rounds].",
)
@click.option("--k-max", type=click.IntRange(1, 64), default=16, show_default=True, help="Longest draft to show.")
@json_option()
def acceptance(files: tuple[Path, ...], rates: str | None, conditional: bool, k_max: int, as_json: bool) -> None:
    """Accepted length by K from FILE. With BEFORE, an earlier scrape, only what was counted in between.

    FILE: the text of vLLM's or SGLang's /metrics, JSON with an acceptance histogram (AIPerf, vLLM's replies), or a
    golden curve of InferenceX.
    """
    found = _read(files, rates, conditional)
    lengths = found.accepted_lengths(k_max)
    if as_json:
        print_json(
            {
                "acceptance": found.text,
                "conditional": found.conditional,
                "n_drafts": found.n_drafts,
                "relative_error": found.relative_error,
                "source": found.source,
                "warnings": found.warnings,
                "accepted_lengths": lengths.to_dict("records"),
            }
        )
        return
    click.echo(f"{found.source}\n")
    print_table(
        ("K", "accepted length", "low (80%)", "high (80%)", ""),
        [
            (
                row.n_draft,
                f"{row.accepted_length:.3f}",
                f"{row.low:.3f}",
                f"{row.high:.3f}",
                "measured" if row.measured else "last probability held",
            )
            for row in lengths.itertuples()
        ],
    )
    print_labelled("warning", found.warnings)
    option = "--acceptance" if found.length is None else "--accepted-length"
    click.echo(f"\nTo use it: {option} {found.text}")


def _read(files: tuple[Path, ...], rates: str | None, conditional: bool) -> AcceptanceRates:
    if (rates is None) == (not files) or len(files) > 2:
        raise AdvisorError("give one or two files of vLLM's /metrics (the earlier one first), or --rates, not both")
    if rates is not None:
        return reading.rates_from_list(rates, conditional)
    *before, last = files
    earlier = (before[0].name, read_bytes(before[0])) if before else None
    return reading.read_acceptance(last.name, read_bytes(last), earlier, conditional)
