"""`profile`: the profiler of `advisor.profiling`, from the advisor's own command line."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from advisor.prediction import AdvisorError
from advisor.profiling import main as profiler

TORCH_MISSING = "profiling needs torch, which is not installed here; install torch 2.10 to 2.13 for your device"
_WITHOUT_TORCH = {"-h", "--help", "--ray"}


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def profile(options: tuple[str, ...]) -> None:
    """Measure this machine's device. The options are those of `python -m advisor.profiling`.

    Exits 0 when the sweep is complete, 2 on bad input, 3 when it is not complete. Needs torch.
    """
    asked = {option.split("=")[0] for option in options}
    if not asked & _WITHOUT_TORCH and find_spec("torch") is None:
        raise AdvisorError(TORCH_MISSING)
    sys.exit(profiler(list(options)))
