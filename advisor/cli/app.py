"""`app`: the store brought up to date, then the app, served to this machine alone."""

from __future__ import annotations

import runpy
import sys

import click

from advisor.cli.data import build
from advisor.profiles import data_root


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True, help="Port on 127.0.0.1.")
@click.pass_context
def app(context: click.Context, port: int) -> None:
    """Start the app on http://127.0.0.1:PORT.

    Builds the store of measured tables first where it is out of date.

    Runs until it is interrupted. Settings: docs/settings.md.
    """
    context.invoke(build, if_stale=True, as_json=False)
    script = str(data_root() / "serve.py")
    sys.argv = ["streamlit", "run", script, "--server.address", "127.0.0.1", "--server.port", str(port)]
    runpy.run_module("streamlit", run_name="__main__")
