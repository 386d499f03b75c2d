"""`presets`: ids of drafters, measured acceptance curves and routing presets."""

from __future__ import annotations

import click

from advisor.acceptance import acceptance_curves
from advisor.cli.output import print_json, print_table
from advisor.drafter import drafter_ids, load_drafter
from advisor.routing import load_routing_preset, routing_preset_ids


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
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
