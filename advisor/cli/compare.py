"""`examples` and `compare`: scenarios to start from, and several answers side by side."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.advice import advise
from advisor.cli.advise import advice_document
from advisor.cli.output import json_option, print_json, print_table
from advisor.comparison import MAX_COMPARED, comparison_rows, finding, short_names
from advisor.prediction import AdvisorError
from advisor.profiles import is_there
from advisor.scenario import Scenario, example_ids, load_example, load_scenario_file


@click.command()
@json_option()
def examples(as_json: bool) -> None:
    """List the named examples that --example takes."""
    found = [load_example(name) for name in example_ids()]
    if as_json:
        print_json(found)
        return
    for item in found:
        click.echo(f"{item.id}\n  {item.description}")
        click.echo(f"  Accepted length: {item.acceptance_origin}; {item.acceptance_note}.")
        click.echo(f"  Source: {'; '.join(item.sources)}.")


@click.command()
@click.argument("scenarios", nargs=-1, required=True)
@json_option()
def compare(scenarios: tuple[str, ...], as_json: bool) -> None:
    """Answer two to four SCENARIOS side by side.

    Each is a scenario file, a JSON report, an output of `advise --json`, or the id of an example.
    """
    if not 2 <= len(scenarios) <= MAX_COMPARED:
        raise AdvisorError(f"{len(scenarios)} scenarios given; compare takes two to {MAX_COMPARED}")
    read = [_scenario(text) for text in scenarios]  # all, before any is answered: the last may not be readable
    advices = [advise(scenario) for scenario in read]
    names = short_names([advice.scenario for advice in advices])
    rows = comparison_rows(advices)
    if as_json:
        answers = [{"name": name} | advice_document(one) for name, one in zip(names, advices, strict=True)]
        print_json({"finding": finding(advices, names), "scenarios": answers})
        return
    print_table(("", *names), [(row.label, *row.values) for row in rows])
    click.echo(f"\n{finding(advices, names)}")
    for warning in dict.fromkeys(text for advice in advices for text in advice.warnings):
        of = [name for name, advice in zip(names, advices, strict=True) if warning in advice.warnings]
        click.echo(f"warning: {'' if len(of) == len(names) else '; '.join(of) + ': '}{warning}")


def _scenario(text: str) -> Scenario:
    """An example's id, else a file. What looks like no file must be an example, so its near matches are named."""
    path = Path(text)
    is_file = path.suffix or is_there(path) or len(path.parts) > 1
    return load_scenario_file(path).scenario if is_file and text not in example_ids() else load_example(text).scenario
