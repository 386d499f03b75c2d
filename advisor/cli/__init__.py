"""The terminal edge: every command takes --json and exits 2 with one sentence on bad input, never
with a traceback."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import shlex
import signal
import sys
import threading
from functools import cache
from pathlib import Path
from typing import NoReturn

import click

from advisor import AdvisorError, __version__

__all__ = ["as_called", "main", "program", "root"]
_GROUPS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "Decide": (
        "advise deepseek-ai/DeepSeek-V3 --gpus 8xH200 --batch 32",
        {
            "advise": (
                "advise",
                "How many tokens to draft, how much faster, how sure, what to launch.",
            ),
            "explain": ("advise", "How one prediction was made, formula by formula."),
            "schedule": ("runtime", "K by batch size and context, and what it gains."),
            "export": ("runtime", "Write the schedule as vLLM or SGLang loads it."),
            "simulate": ("runtime", "Compare ways to choose K while serving."),
        },
    ),
    "Explore": (
        "explore gpt-oss-20b gpt-oss-120b --gpus 1xH200",
        {
            "curve": ("curve", "Speedup over batch and K as CSV."),
            "explore": (
                "explore",
                "Vary any field, rank models at your load, or compare scenarios.",
            ),
            "design": ("design", "Which MoE to train instead, at equal quality."),
            "expert-ranks": (
                "data",
                "Experts on ranks: imbalance, copies of hot experts, exchange.",
            ),
        },
    ),
    "Measure": (
        "fit my_run.json --set hardware_id=h200-sxm --output my.refit",
        {
            "ingest": ("measure", "Read a benchmark result and say what can be used."),
            "fit": ("measure", "Refit overheads and efficiencies to your own points."),
            "predict": ("measure", "Add predicted speedups to a CSV of measured points."),
            "validate": ("measure", "Errors of predictions on measured points."),
            "diagnose": ("data", "Say why a run with speculation is slow."),
            "doctor": ("doctor", "Ask a running server what it accepts and which K it should run."),
            "acceptance": ("data", "Accepted length by K from vLLM's metrics, or from a list."),
            "trace": ("data", "Fit routing skew and correlation to a routing trace."),
            "profile": (
                "report",
                "Measure this machine's device (needs torch), or an engine on it.",
            ),
        },
    ),
    "Share": (
        "report gpt-oss-20b --gpus 1xH200 -o answer.pdf",
        {
            "report": ("report", "Write a report: PDF, HTML, Markdown, JSON or CSV."),
            "app": ("app", "Start the app on this machine."),
            "mcp": ("mcp", "Serve advise, explore and diagnose to an agent (MCP)."),
        },
    ),
    "Data": (
        "models",
        {
            "models": ("catalog", "List the known models."),
            "hardware": ("catalog", "List the known accelerators."),
            "presets": ("catalog", "List drafters, acceptance curves and routing presets."),
            "examples": ("curve", "List the named examples to start from."),
            "store": ("store", "Build or inspect the store of measured tables."),
        },
    ),
}
"""Headings of the help: an example, and the commands with their modules and what they do."""
_COMMANDS = {
    name: module_and_text
    for _, commands in _GROUPS.values()
    for name, module_and_text in commands.items()
}
HELP = Path(__file__).with_name("help.json")
_MODEL_AND_GPUS = "deepseek-ai/DeepSeek-V3 --gpus 8xH200 --batch 32"
_RUNS = "my_runs.csv --gpus 8xH200 --model deepseek-v3 --engine vllm --drafter mtp"
_EXAMPLES = {
    "export": f"{_MODEL_AND_GPUS} --output out",
    "report": f"{_MODEL_AND_GPUS} --output answer.pdf",
    "design": "--gpus 1xB200 --batch 64 --target-total 40B",
    "explore": "gpt-oss-20b --gpus 1xH200 --vary batch=1,8,64",
    **dict.fromkeys(("ingest", "validate", "predict"), _RUNS),
    "fit": f"{_RUNS} --output my.refit",
    "diagnose": "plain.json mtp.json --gpus 8xH200 --model deepseek-v3",
    "doctor": "http://localhost:8000 --gpus 8xH200",
    "trace": "trace.npy --model deepseek-v3",
}
"""Arguments that are enough, by command; the others take a model and GPUs."""
_COLUMNS = {
    "--context": "context_tokens=8192",
    "--tp": "tensor_parallel=8",
    "--weight-dtype": "weight_dtype=fp8",
}
_COLUMNS |= dict.fromkeys(
    ("--batch", "--concurrency"), "batch_size=16"
)  # what says the same of measured rows
_EXTRAS = dict.fromkeys(("pandas", "prometheus_client", "pyarrow", "scipy"), "data")
_EXTRAS |= dict.fromkeys(("duckdb", "filelock", "platformdirs"), "store")
_EXTRAS |= dict.fromkeys(("matplotlib", "typst"), "report")
_EXTRAS |= dict.fromkeys(("plotly", "rich", "streamlit"), "app") | {"torch": "profile"}
_EXTRAS |= {"distributed": "cluster"}
"""Extra of pyproject.toml that brings a package, by the name that is imported."""
_SHORT_OF_MEMORY = re.compile(
    r"cannot allocate|out of memory|map segment|start new thread|bad_alloc", re.IGNORECASE
)
"""What libraries and the loader say where there is no memory left; libraries seldom raise
MemoryError."""
_LONGEST = 1200
"""Characters of an error that are printed; what a file holds may stand in it. [-]"""


_OBJECTS = 100_000
"""New objects between two looks for garbage: an answer makes fewer, and looking takes a tenth of
its time. [-]"""


@cache
def program() -> str:
    """Name that was typed: `advisor`, or a Python with `-m advisor`."""
    words = sys.orig_argv
    at = words.index("-m") + 1 if "-m" in words else len(words)
    return shlex.join(words[: at + 1]) if words[at : at + 1] == ["advisor"] else "advisor"


def example_of(command: str) -> str:
    """A command line that has all that a command needs."""
    return f"{program()} {command} {_EXAMPLES.get(command, _MODEL_AND_GPUS)}"


def as_called(text: str) -> str:
    """Text with its commands under the name that the user called."""
    if program() == "advisor":
        return text
    return re.sub(
        r"(^ *|`)(?:python -m )?advisor ",
        lambda found: f"{found[1]}{program()} ",
        text,
        flags=re.MULTILINE,
    )


def _load_numpy() -> None:
    """Load numpy, OpenBLAS on one thread: small matrices gain nothing from more, which spin.
    Children choose theirs."""
    name = "OPENBLAS_NUM_THREADS"
    chosen = os.environ.get(name)
    os.environ[name] = chosen or "1"
    importlib.import_module("numpy")
    if chosen is None:
        del os.environ[name]


class _Page(click.Command):
    """Help of a command, from what was written of it (tests/golden/cli_reference.py): its options
    are made of modules that take longer to load than the rest of the command line."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command itself gives its formatter."""
        pages = json.loads(HELP.read_text(encoding="utf-8"))
        for number in pages["commands"][self.name]:
            method, *values = pages["calls"][number]
            if method == "write_usage":
                formatter.write_usage(ctx.command_path, *values)
            elif method == "write_dl":
                formatter.write_dl(list(map(tuple, *values)))
            else:
                getattr(formatter, method)(*values)


class _Lazy(click.Group):
    """Loads a command's module when it is asked for, so that --help and small commands start
    fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands, in the order of the documentation."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now. None when there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        _load_numpy()
        module = importlib.import_module(f"advisor.cli.{_COMMANDS[cmd_name][0]}")
        from advisor.cli.asked import read_as_typed  # every command's module has imported it

        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return read_as_typed(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called. Raises AdvisorError for a name that is none, with what to
        type."""
        if args[0] not in _COMMANDS:
            from advisor.profiles import unknown_id

            raise unknown_id(args[0], "commands", list(_COMMANDS), "`advisor --help` lists them")
        has_own_help = args[0] in ("store", "profile")
        if args[1:] in (["--help"], ["-h"]) and not has_own_help:
            return args[0], _Page(args[0]), args[1:]
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            from advisor.cli.asked import refuse_repeated

            refuse_repeated(click.Context(command, ctx, name, **command.context_settings), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands in groups, each with an example, from the table above: nothing is imported
        to print it."""
        for heading, (example, commands) in _GROUPS.items():
            with formatter.section(f"{heading} (advisor {example})"):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


def _said(error: click.ClickException) -> str:
    """What click says of a command line, with what to type."""
    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.MissingParameter) and ctx is not None and ctx.info_name in _EXAMPLES:
        lacks = [
            param
            for param in ctx.command.params
            if param.required and not ctx.params.get(param.name or "")
        ]
        return (
            f"missing {', '.join(param.make_metavar(ctx) for param in lacks)}; e.g. "
            f"`{example_of(ctx.info_name)}`"
        )
    if isinstance(error, click.NoSuchOption) and ctx is not None and ctx.info_name:
        known = {name for param in ctx.command.params for name in param.opts}
        if error.option_name == "--concurrency" and "--batch" in known:
            return "--concurrency is called --batch here"
        if error.option_name in _COLUMNS and "--set" in known:
            return f"{error.option_name} is called --set {_COLUMNS[error.option_name]} here"
        typed = error.option_name
        offered = error.possibilities or []
        near = [
            option for option in offered if option.startswith(typed)
        ] or offered  # `--gpu` is short for one, not like three
        meant = f"; did you mean {', '.join(near)}?" if near else ";"
        return f"no option {typed}{meant} `{program()} {ctx.info_name} --help` lists them"
    if isinstance(error, click.BadOptionUsage) and ctx is not None and ctx.info_name:
        return f"{error.format_message().rstrip('.')}; e.g. `{example_of(ctx.info_name)}`"
    return error.format_message()


@click.command(
    cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(version=__version__, prog_name="advisor")
def root() -> None:
    """Recommend how many tokens to draft per round (K), and which MoE to train."""


def _terminated(number: int, _: object) -> None:
    """End as an interrupt does, so that what is half written is taken away. A second signal ends at
    once."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


def _end() -> None:
    """Spare Python its last look through all that was imported, a seventh of what `curve` takes."""
    if "duckdb" not in sys.modules:  # it writes of leaks where it is not taken apart
        gc.freeze()


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line, the process's own without `argv`. Always ends by SystemExit with 0, or
    2 for bad input."""
    if argv is None:
        gc.set_threshold(_OBJECTS)
        atexit.register(_end)
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # looking for some reads every installed package
    before = signal.getsignal(signal.SIGTERM)
    first = threading.current_thread() is threading.main_thread()
    try:
        if first:
            signal.signal(signal.SIGTERM, _terminated)
        root.main(args=argv, prog_name=program(), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except (AdvisorError, click.UsageError, click.FileError) as error:
        message = _said(error) if isinstance(error, click.ClickException) else str(error)
        message = as_called(" ".join(message.split()))
        shortened = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."
        click.echo(f"error: {shortened}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] == "advisor":
            raise
        package = str(error.name).split(".")[0]
        extra = _EXTRAS.get(package)
        install = (
            f"`pip install 'moe-sd-advisor[{extra}]'`" if extra else "`pip install moe-sd-advisor`"
        )
        click.echo(f"error: this needs {package}, which is not installed; {install}", err=True)
        sys.exit(2)
    except (MemoryError, ImportError, OSError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _SHORT_OF_MEMORY.search(str(error)):
            raise
        click.echo("error: not enough memory; free some, or give fewer rows at once", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("error: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    finally:
        if first:
            signal.signal(signal.SIGTERM, before)
    sys.exit(0)
