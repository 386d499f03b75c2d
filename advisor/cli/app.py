"""`app`: the pages in a browser, the store built beside them where it is out of date."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from contextlib import closing

import click

from advisor.cli import program
from advisor.prediction import AdvisorError
from advisor.profiles import data_root

HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8501,
    show_default=True,
    help=f"Port on {HOST}.",
)
def app(port: int) -> None:
    """Start the app on http://127.0.0.1:PORT.

    Brings the store of measured tables up to date in the background; Trust says when it is done.

    Runs until it is interrupted. Settings: docs/install.md.
    """
    _check_port(port)
    _build_store()
    script = str(data_root() / "serve.py")
    options = ["--server.address", HOST, "--server.port", str(port)]
    sys.argv = ["streamlit", "run", script, *options]
    runpy.run_module("streamlit", run_name="__main__")


def _check_port(port: int) -> None:
    """Raise AdvisorError where another program listens on the port already."""
    with closing(socket.socket()) as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise AdvisorError(
                f"port {port} is in use; choose another: make run PORT={port + 1}, or "
                f"`{program()} app --port {port + 1}`"
            )


def _build_store() -> None:
    """Start `store build --if-stale` as a process of its own, behind the pages in priority.

    An interrupt reaches it too; it then leaves the old store as it was.
    """
    subprocess.Popen(
        [sys.executable, "-m", "advisor", "store", "build", "--if-stale", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_yield_processor if os.name == "posix" else None,
    )


def _yield_processor() -> None:
    os.nice(10)
