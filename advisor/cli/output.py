"""Tables and JSON on a terminal.

The scenario's arguments, the same for every command that takes one.
"""

from __future__ import annotations

import operator
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from advisor.catalog.adjustment import parse_adjustment
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model
from advisor.cli.own import assume, hardware_asked, hardware_fields, model_fields, own_fields
from advisor.physics.acceptance import load_acceptance_curve
from advisor.physics.hardware import gpus_of_node, load_hardware
from advisor.predict.field_rows import FieldRow, Flag
from advisor.predict.scenario import (
    MAX_LOADS_BYTES,
    Scenario,
    ScenarioFile,
    build_scenario,
    load_example,
    load_scenario_file,
    parse_loads,
    read_loads,
    write_loads,
)
from advisor.predict.scenario_fields import FIELDS
from advisor.predict.usual import drafted, split_gpus, usual_tensor_parallel
from advisor.prediction import AdvisorError
from advisor.profiles import read_file, shown_path, write_whole
from advisor.text import json_text, number_of, printable, token_count, typed_number, wrapped

if TYPE_CHECKING:
    from advisor.show.table import Table

WIDTH = 100
"""Longest line of prose; also where there is no terminal. [characters]"""
_GLANCE_S = 0.5
"""How long something may take before its progress is shown. [s]"""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(help_text: str = "Machine-readable output.") -> Callable[[_Command], _Command]:
    """The option --json of every command that prints an answer."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def path_option(*names: str, **more: Any) -> Callable[[_Command], _Command]:
    """An option that takes a path."""
    return click.option(*names, type=click.Path(path_type=Path), **more)


def spend_options(power: bool = True, also: Sequence[str] = ()) -> Callable[[_Command], _Command]:
    """The options that say what a GPU costs and, with `power`, what it draws. also : other names of the price."""
    usd = ("--usd-per-hour", *also, "usd_per_hour")
    price = click.option(*usd, type=float, help="Price of one GPU for an hour in USD [default: the accelerator's].")
    if not power:
        return price
    log = click.option(
        "--power-log",
        type=click.Path(path_type=Path),
        help="Power measured during the run: CSV of nvidia-smi --query-gpu, or output of dcgmi dmon, in place of the "
        "estimate.",
    )
    k = click.option("--power-k", type=int, help="K that ran while power was logged [default: the recommended one].")
    return lambda command: price(log(k(command)))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json_text(value))


@contextmanager
def file_errors(doing: str, instead: str = "") -> Iterator[None]:
    """Turn a failure of the file system into AdvisorError: what failed, why, and what to do instead.

    doing : what is being done, as in `read FILE`.
    """
    try:
        yield
    except OSError as error:
        raise AdvisorError(f"cannot {doing}: {error.strerror or error}{instead and f'; {instead}'}") from error


def progress(doing: str) -> Callable[..., None]:
    """Shows on a terminal's standard error how far something is, once it has taken longer than a glance.

    The call it returns takes names to show, if any, and the share done. At 1 the line goes.
    """
    started_s, terminal = time.monotonic(), sys.stderr

    def show(*state: str | float) -> None:
        if not terminal.isatty() or time.monotonic() - started_s < _GLANCE_S:
            return
        names, share = state[:-1], float(state[-1])
        text = "" if share >= 1.0 else f"{' '.join([doing, *map(str, names)])}: {share:.0%}"
        terminal.write(f"\r\x1b[K{text}")
        terminal.flush()

    return show


def text_width() -> int:
    """Characters of a line of prose: the terminal's, at most WIDTH."""
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def say(text: str) -> None:
    """Print sentences in lines that fit the terminal.

    Line breaks of their own stay. Nothing for an empty text.
    """
    for part in text.split("\n") if text else ():
        for line in wrapped(part, text_width(), "") or [""]:
            click.echo(line)


def print_labelled(label: str, texts: Iterable[str], err: bool = False) -> None:
    """Each text on a line of its own, as `warning: text`. `err` where standard output holds a table for a machine."""
    for text in texts:
        for line in wrapped(f"{label}: {text}", text_width()):
            click.echo(line, err=err)


def write_file(path: Path, content: str | bytes, instead: str = "") -> None:
    """Write text as UTF-8, or bytes as they are: all of it, or the file stays as it was.

    Raises AdvisorError, which names `instead`, when that cannot be.
    """
    with file_errors(f"write {path}", instead):
        write_whole(path, content.encode() if isinstance(content, str) else content)


def print_table(table: Table[Any]) -> None:
    """Columns aligned, words to the left and numbers to the right. On a terminal, words wrap to its width."""
    if sys.stdout.isatty():
        _print_rich(table)
        return
    for line in table.lines():
        click.echo(line)


def _print_rich(table: Table[Any]) -> None:
    """The table for a reader at a terminal: coloured unless NO_COLOR is set, the recommended row in bold."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="cyan")
    for label, letter in zip(table.header, table.align, strict=True):
        grid.add_column(label, justify="left" if letter == "l" else "right", no_wrap=letter == "r", overflow="fold")
    for cells in table.cells:
        grid.add_row(*cells, style="bold" if "recommended" in cells else None)
    Console(highlight=False, markup=False).print(grid)


MAX_NUMBERS = 4096
"""Batch sizes, or draft lengths, of one curve. [-]"""


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers from `1,2,4`. Raises AdvisorError, which names the option, for anything else or too many."""
    if text.count(",") >= MAX_NUMBERS:
        raise AdvisorError(
            f"{option} has {text.count(',') + 1:,} values; at most {MAX_NUMBERS:,} are predicted at once"
        )
    try:
        return [operator.index(typed_number(piece)) for piece in text.split(",")]  # type: ignore[arg-type]
    except TypeError as error:
        raise AdvisorError(
            f"{option} {text[:60]!r} is not a comma-separated list of whole numbers, e.g. 1,2,4"
        ) from error


MAX_REFIT_BYTES = 4096
_USUAL_K = 3
"""K of an accepted length that names none: what examples of EAGLE-3 and MTP draft most. Own choice. [-]"""
_PACKED_LOADS = r"\d+x\d+:"
_ACCEPTANCE = ("accepted_length", "acceptance", "acceptance_preset")


class _Ascii(click.ParamType):
    """Checks how a typed number is written before click reads it, which takes more than is meant (see `number_of`)."""

    expected = "a whole number, e.g. 16"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number that is meant. Raises click.BadParameter for anything else."""
        number = typed_number(value) if isinstance(value, str) else value
        if number is None or (isinstance(number, float) and isinstance(self, click.types.IntParamType)):
            self._refuse(value, param, ctx)
        try:
            return super().convert(number, param, ctx)
        except click.BadParameter as error:
            if "range" in error.message:
                raise
            self._refuse(value, param, ctx)

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        self.fail(f"{printable(str(value), 40)!r} is not {self.expected}", param, ctx)


class _Decimal(_Ascii, click.types.FloatParamType):
    """A finite number."""

    expected = "a number, e.g. 12.5, 4e10 or 40B"


class _Whole(_Ascii, click.types.IntParamType):
    """A whole number."""


class _WholeRange(_Ascii, click.IntRange):
    """A whole number between bounds."""


def read_as_typed(command: click.Command) -> click.Command:
    """The command with every option of a number read as `number_of` does, its subcommands too."""
    for param in command.params:
        kind = param.type
        if isinstance(kind, click.IntRange):
            param.type = _WholeRange(kind.min, kind.max, kind.min_open, kind.max_open, kind.clamp)
        elif kind in (click.INT, click.FLOAT):
            param.type = _Whole() if kind is click.INT else _Decimal()
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        read_as_typed(inner)
    return command


class GpusOf(NamedTuple):
    """GPUs with their accelerator, as `8xH200` names both."""

    n_gpus: int
    hardware_id: str


class _Gpus(_Ascii, click.types.IntParamType):
    """GPUs in all, typed as 8 or 8xH200."""

    name = "N|NxGPU"
    expected = "a number of GPUs, e.g. 8 or 8xH200"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or number and accelerator. Raises click.BadParameter for anything else."""
        if not isinstance(value, str) or typed_number(value) is not None or not value[:1].isdigit():
            return super().convert(value, param, ctx)
        n_gpus, name = split_gpus(value)
        return GpusOf(n_gpus, hardware_asked(name))


class TokenCount(click.ParamType):
    """A whole number of tokens, typed as 131072, 128k, 128K or 1M."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that is meant. Raises click.BadParameter with the forms it may have."""
        if isinstance(value, int):
            return value
        try:
            return token_count(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def field_options(row: FieldRow) -> list[click.Option]:
    """The options that give one field: typed, with its choices and its default, by the table of fields."""
    default = None if row.needed or any(flag.default for flag in row.flags) else row.default
    kind: Any = click.Choice(row.choices) if row.choices and not row.is_optional else row.kind
    also = ""
    if row.name.endswith("_tokens"):
        kind, also = TokenCount(), " Also as 128k (128,000) or 128K (131,072)."
    if row.name == "n_gpus":
        kind = _Gpus()
    return [
        click.Option(
            [flag.name, row.name] if len(row.flags) == 1 else [flag.name],
            type=kind,
            default=default,
            show_default=default is not None,
            help=f"{_help(flag)}{also}",
        )
        for flag in row.flags
    ]


def _help(flag: Flag) -> str:
    return f"{flag.help.removesuffix('.')} [default: {flag.default}]." if flag.default else flag.help


SCENARIO_OPTIONS = [
    click.Option(
        ["--scenario", "scenario_file"],
        type=click.Path(path_type=Path),
        help="Scenario file, JSON report or output of `advise --json` to start from; the options below change it.",
    ),
    click.Option(["--example"], help="Id of a named example to start from; see `advisor examples`."),
    *(option for row in FIELDS.values() for option in field_options(row)),
]
FILE_DATE = "advisor.scenario_options.date"
"""Where a command finds the date of the report that gave the scenario, in the context's meta."""
TYPED = "advisor.scenario_options.typed"
"""Where a command finds the scenario's options as they were typed, in the context's meta: words of a shell line."""


ASSUMED = "advisor.scenario_options.assumed"
"""Where a command notes what it takes for the user, in the context's meta."""
_MODEL = "model"
_EXAMPLE = "deepseek-ai/DeepSeek-V3 --gpus 8xH200 --batch 32"


class ScenarioCommand(click.Command):
    """A command that takes the scenario's options and hands its function one `scenario` instead of them."""

    models = 1
    """Models that stand by place; -1 for any number. [-]"""
    headings: Mapping[str, str] = {}
    """Headings of the help by the names of options; the others stand under Options."""

    def __init__(self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any) -> None:
        shown = "[MODEL]" if self.models == 1 else "[MODEL]..."
        model = click.Argument([_MODEL], required=False, nargs=self.models, metavar=shown)
        kwargs["params"] = [model, *SCENARIO_OPTIONS, *(params or [])]
        super().__init__(*args, **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then the scenario's under the headings of the sidebar."""
        groups: dict[str, list[click.Parameter]] = {"Options": []}
        for own in (param for param in self.get_params(ctx) if param not in SCENARIO_OPTIONS):
            groups.setdefault(self.headings.get(own.name or "", "Options"), []).append(own)
        groups["Start from"] = list(SCENARIO_OPTIONS[:2])
        for option in SCENARIO_OPTIONS[2:]:
            row = FIELDS.get(option.name or "", FIELDS["acceptance"])  # one field that three options give
            groups.setdefault(str(row.section), []).append(option)
        for heading, options in groups.items():
            if records := [record for option in options if (record := option.get_help_record(ctx)) is not None]:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def prepare(self, ctx: click.Context) -> None:
        """Put the scenario in place of its options.

        Raises AdvisorError for a scenario that cannot be, click.UsageError for a missing option.
        """
        name_model(ctx)
        place_gpus(ctx)
        ctx.params["scenario"] = scenario_asked(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Prepare, then run."""
        self.prepare(ctx)
        return super().invoke(ctx)


def name_model(ctx: click.Context) -> None:
    """Put the model that stands by its place as --model. Raises AdvisorError where that is typed too."""
    if model := ctx.params.pop(_MODEL, None):
        _say(ctx, "model_id", model, f"{model} names the model already; leave --model out")


def take_scenario(ctx: click.Context) -> dict[str, Any]:
    """The scenario's options by name, taken from the context's parameters."""
    return {option.name: ctx.params.pop(option.name) for option in SCENARIO_OPTIONS if option.name}


def scenario_asked(ctx: click.Context) -> Scenario:
    """The scenario of the options, which are taken from the context's parameters.

    Raises AdvisorError for a scenario that cannot be, click.UsageError for a missing option.
    """
    ctx.meta[TYPED], typed = _typed(ctx), typed_names(ctx)
    values = take_scenario(ctx)
    file, example = values.pop("scenario_file"), values.pop("example")
    if file is not None and example is not None:
        raise AdvisorError("give --scenario or --example, not both")
    assumed: list[str] = ctx.meta.get(ASSUMED, [])
    if file is None and example is None:
        _refuse_missing(ctx, values)
        made = scenario_from(values, assumed=assumed)
    else:
        values = {name: value for name, value in values.items() if name in typed}
        base = load_example(example).scenario if example is not None else _from_file(ctx, file)
        made = scenario_from(values, base, assumed)
    if assumed:
        print_labelled("assumed", ["; ".join(assumed)], err=True)
    return made


def typed_names(ctx: click.Context) -> set[str]:
    """Names of the parameters that stand on the command line."""
    typed = click.core.ParameterSource.COMMANDLINE
    return {name for name in ctx.params if ctx.get_parameter_source(name) == typed}


def _say(ctx: click.Context, name: str, value: Any, twice: str) -> None:
    """Set a parameter as if it were typed. Raises AdvisorError with `twice` where it is typed."""
    if name in typed_names(ctx):
        raise AdvisorError(twice)
    ctx.params[name] = value
    ctx.set_parameter_source(name, click.core.ParameterSource.COMMANDLINE)


def place_gpus(ctx: click.Context) -> None:
    """Put `8xH200` as one instance over eight of them, where no placement is typed."""
    gpus = ctx.params.get("n_gpus")
    if not isinstance(gpus, GpusOf):
        return
    spell_out_gpus(ctx)
    if not {"tensor_parallel", "expert_parallel"} & typed_names(ctx):
        node = gpus_of_node(load_hardware(gpus.hardware_id))
        _say(ctx, "tensor_parallel", usual_tensor_parallel(gpus.n_gpus, node), "")
        ctx.meta[ASSUMED] = [f"TP {ctx.params['tensor_parallel']}"] if gpus.n_gpus > 1 else []


def spell_out_gpus(ctx: click.Context) -> None:
    """Put `8xH200` as eight GPUs and their accelerator. Raises AdvisorError where the accelerator is typed as well."""
    if isinstance(gpus := ctx.params.get("n_gpus"), GpusOf):
        ctx.params["n_gpus"] = gpus.n_gpus
        _say(ctx, "hardware_id", gpus.hardware_id, f"--gpus names {gpus.hardware_id} already; leave --hardware out")


def _refuse_missing(ctx: click.Context, values: dict[str, Any]) -> None:
    """Raise click.UsageError with all that is missing, and a command that has it."""
    asked = {"model_id": "the model (MODEL)", "hardware_id": "the GPUs (--gpus or --hardware)"}
    if missing := [words for name, words in asked.items() if values[name] is None]:
        example = f"{ctx.command_path} {_EXAMPLE}"
        raise click.UsageError(
            f"missing {' and '.join(missing)}; e.g. `{example}`, or start from --example or --scenario"
        )


def _typed(ctx: click.Context) -> list[str]:
    """The scenario's options that stand on the command line, each with its value."""
    names = typed_names(ctx)
    given = [option for option in SCENARIO_OPTIONS if option.name in names]
    return [word for option in given for word in (option.opts[0], str(ctx.params[option.name or ""]))]


def _from_file(ctx: click.Context, path: Path) -> Scenario:
    found = scenario_in(path)
    if found.note:
        click.echo(f"note: {path}: {found.note}", err=True)
    ctx.meta[FILE_DATE] = found.date
    return found.scenario


def scenario_from(values: dict[str, Any], base: Scenario | None = None, assumed: list[str] | None = None) -> Scenario:
    """Scenario from option values, or `base` changed by them. What it takes for the user is added to `assumed`.

    Raises AdvisorError with what to give when something is wrong.
    """
    given = given_acceptance(*(values.pop(name, None) for name in _ACCEPTANCE))
    changed = {name: value for name, value in values.items() if value is not None}
    if given is not None:
        changed["acceptance"] = given
    if (model := changed.pop("model_id", None)) is not None:
        changed = model_fields(model) | changed
    if base is None:
        changed = drafted(changed, [] if assumed is None else assumed) | changed
    if (hardware := changed.pop("hardware_id", None)) is not None:
        changed |= hardware_fields(hardware)
    if "refit" in changed:
        changed["refit"] = _refit_text(changed["refit"])
    whole = (base.model_dump() if base is not None else {}) | changed
    if "expert_loads" in changed:
        whole["expert_loads"] = _loads_text(changed["expert_loads"], _n_experts(whole))
    own_sweep = changed.get("plain_sweep")
    whole.pop("plain_sweep" if own_sweep else "", None)
    if "context_tokens" not in changed and changed.keys() & {"input_tokens", "output_tokens"}:
        whole.pop("context_tokens", None)  # other lengths, another context
    if "n_gpus" not in changed and (base is None or changed.keys() & {"tensor_parallel", "expert_parallel"}):
        whole["n_gpus"] = max(whole.get("tensor_parallel", 1), whole.get("expert_parallel", 1))
    scenario = build_scenario(**whole)
    return scenario if own_sweep is None else _with_sweep(scenario, own_sweep)


def _with_sweep(scenario: Scenario, given: str) -> Scenario:
    """The scenario with a plain sweep, given as its text or as a benchmark file.

    Raises AdvisorError for a file that has no sweep of this scenario.
    """
    if re.search(r":\d+(\.\d+)?=", given) is None:
        from advisor.cli.measured_files import read_measured  # readers of files need pandas, an answer does not
        from advisor.measured.own_sweep import plain_sweep_of

        given = plain_sweep_of(read_measured([Path(given)]), scenario)
    return build_scenario(**scenario.model_dump() | {"plain_sweep": given})


def scenario_in(path: Path) -> ScenarioFile:
    """The scenario of a file, whose model and accelerator may be paths seen from its folder.

    Raises AdvisorError as `load_scenario_file` does, and for a path that leads to no model or accelerator.
    """
    found = load_scenario_file(path)
    said: dict[str, Any] = {}
    if found.scenario.model_config_json is None:
        said |= own_fields("model_id", found.scenario.model_id, path.parent)
    if found.scenario.hardware_json is None:
        said |= own_fields("hardware_id", found.scenario.hardware_id, path.parent)
    return replace(found, scenario=build_scenario(**found.scenario.model_dump() | said)) if said else found


def given_acceptance(accepted_length: str | None, acceptance: str | None, preset: str | None) -> str | None:
    """Acceptance that one of its three options states.

    None when none is given. Raises AdvisorError for several, or one that is not of its form. The options are
    --accepted-length, --acceptance and --acceptance-preset.

    Each takes its own form, so that a slip of one is not silently read as another.
    """
    stated = [text for text in (accepted_length, acceptance, preset) if text is not None]
    if len(stated) > 1:
        raise AdvisorError("give one of --accepted-length, --acceptance, --acceptance-preset, not several")
    if accepted_length is not None and "@" not in accepted_length:
        stated = [f"{accepted_length}@{_USUAL_K}"]
        length = number_of(accepted_length)
        if length is None or not 1.0 <= length <= _USUAL_K + 1.0:
            raise AdvisorError(
                f"--accepted-length {accepted_length!r} is not X@K: X tokens a round, 1 to K + 1, at K drafted "
                "(num_speculative_tokens; num_steps in SGLang), e.g. 2.6@3"
            )
        assume(f"accepted length {length:g} at K = {_USUAL_K} (--accepted-length {length:g}@K for another K)")
    if acceptance is not None and ("@" in acceptance or not re.search(r"[0-9]", acceptance)):
        raise AdvisorError(f"--acceptance {acceptance!r} is not a list of probabilities, e.g. 0.7,0.5,0.4")
    if preset is not None:
        load_acceptance_curve(preset)
    return stated[0] if stated else None


def _refit_text(given: str) -> str:
    """The text of a refit, given itself or as a file. Raises AdvisorError when it is neither."""
    text = given
    if not given.startswith("on="):
        remedy = "write a refit with `advisor fit RESULT --output FILE`"
        text = read_file(Path(given), MAX_REFIT_BYTES, "a refit", remedy).decode("utf-8", errors="replace")
    if not text.startswith("on="):
        made = "make one of a benchmark result with `advisor fit RESULT --output FILE`"
        raise AdvisorError(f"{shown_path(Path(given))} is no refit; {made}")
    parse_adjustment(text)
    return text.strip()


def _n_experts(values: dict[str, Any]) -> int:
    """Routed experts of the model that a scenario's values name; 0 for a dense or an unknown one. [-]"""
    try:
        config = values.get("model_config_json")
        found = load_model(values["model_id"]) if config is None else architecture_from_config(config)
    except (AdvisorError, KeyError):
        return 0  # the scenario's own check says what is wrong with it
    return found.moe.n_experts if found.moe is not None else 0


def _loads_text(given: str, n_experts: int) -> str:
    """The packed loads of experts, given themselves or as a file.

    n_experts : the model's, to which a CSV is filled up. [-]

    Raises AdvisorError for what is neither, with the line of a CSV.
    """
    text = given
    if re.match(_PACKED_LOADS, given) is None:
        data = read_file(Path(given), MAX_LOADS_BYTES, "a table of loads", "give a CSV with layer, expert, tokens")
        if re.match(_PACKED_LOADS.encode(), data) is None:
            return write_loads(read_loads(Path(given).name, data, n_experts))
        text = data.decode("ascii", errors="replace")
    parse_loads(text.strip())
    return text.strip()
