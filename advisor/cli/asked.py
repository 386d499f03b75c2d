"""The scenario that a command is asked about: its options, what of it is typed, files, and what is
taken for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from advisor.catalog.adjustment import parse_adjustment
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model, model_ids
from advisor.cli import example_of, program
from advisor.cli.output import print_labelled
from advisor.cli.own import (
    assume,
    beginning,
    hardware_asked,
    hardware_fields,
    model_fields,
    own_fields,
)
from advisor.physics.acceptance import load_acceptance_curve
from advisor.physics.hardware import gpus_of_node, hardware_ids, load_hardware
from advisor.predict.field_rows import FieldRow
from advisor.predict.scenario import (
    MAX_LOADS_BYTES,
    Scenario,
    ScenarioFile,
    build_scenario,
    drafted,
    load_example,
    load_scenario_file,
    parse_loads,
    read_loads,
    split_gpus,
    usual_drafter,
    usual_tensor_parallel,
    write_loads,
)
from advisor.predict.scenario_fields import FIELDS, SPELLINGS
from advisor.prediction import AdvisorError
from advisor.profiles import is_there, read_file, shown_path
from advisor.text import counted, listed, number_of, printable, token_count, typed_number

MAX_REFIT_BYTES = 4096
_USUAL_K = 3
"""K of an accepted length that names none: what examples of EAGLE-3 and MTP draft most. Own choice.
[-]"""
_PACKED_LOADS = r"\d+x\d+:"
ACCEPTANCE = ("accepted_length", "acceptance", "acceptance_preset")


class _Ascii(click.ParamType):
    """Checks how a typed number is written before click reads it, which takes more than is meant
    (see `number_of`)."""

    expected = "a whole number, e.g. 16"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number that is meant. Raises click.BadParameter for anything else."""
        number = typed_number(value) if isinstance(value, str) else value
        if number is None or (
            isinstance(number, float) and isinstance(self, click.types.IntParamType)
        ):
            self._refuse(value, param, ctx)
        try:
            return super().convert(number, param, ctx)
        except click.BadParameter as error:
            if "range" in error.message:
                raise
            self._refuse(value, param, ctx)

    def _refuse(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> NoReturn:
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


def gpus_of(text: str) -> GpusOf:
    """GPUs as typed, `8xH200`."""
    n_gpus, name = split_gpus(text)
    return GpusOf(n_gpus, hardware_asked(name))


class _Gpus(_Ascii, click.types.IntParamType):
    """GPUs in all, typed as 8 or 8xH200."""

    name = "N|NxGPU"
    expected = "a number of GPUs, e.g. 8 or 8xH200"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or number and accelerator. Raises click.BadParameter for anything else."""
        if isinstance(value, str) and value[:1].isalpha():
            name = printable(value, 40)
            turned = re.fullmatch(r"(.+)[xX](\d+)", name)
            example = f"{turned[2]}x{turned[1]}" if turned else f"8 or 8x{name}"
            self.fail(f"{name!r} is not a number of GPUs, e.g. {example}", param, ctx)
        if not isinstance(value, str) or typed_number(value) is not None or not value[:1].isdigit():
            return super().convert(value, param, ctx)
        return gpus_of(value)


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


class _Choice(click.Choice[str]):
    """Choices, by the names that a scenario knows them by."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(SPELLINGS.get(str(value).lower(), value), param, ctx)


def field_options(row: FieldRow) -> list[click.Option]:
    """The options that give one field: typed, with its choices and its default, by the table of
    fields."""
    default = None if row.needed or any(flag.default for flag in row.flags) else row.default
    kind: Any = (
        _Choice(row.choices, case_sensitive=False)
        if row.choices and not row.is_optional
        else row.kind
    )
    offered = {"hardware_id": beginning(hardware_ids), "model_id": beginning(model_ids)}.get(
        row.name
    )
    also = ""
    if row.name.endswith("_tokens"):
        kind = TokenCount()
        also = " Also as 128k (128,000) or 128K (131,072)."
    if row.name == "n_gpus":
        kind = _Gpus()
        offered = beginning(hardware_ids, r"\d+x")
    return [
        click.Option(
            [flag.name, row.name] if len(row.flags) == 1 else [flag.name],
            type=kind,
            shell_complete=offered,
            default=default,
            show_default=default is not None,
            help=(
                f"{flag.help.removesuffix('.')} [default: {flag.default}]."
                if flag.default
                else flag.help
            )
            + also,
        )
        for flag in row.flags
    ]


SCENARIO_OPTIONS = [
    click.Option(
        ["--scenario", "scenario_file"],
        type=click.Path(path_type=Path),
        help=(
            "Scenario file, JSON report or output of `advise --json` to start from; the options "
            "below change it."
        ),
    ),
    click.Option(
        ["--example"], help="Id of a named example to start from; see `advisor examples`."
    ),
    *(option for row in FIELDS.values() for option in field_options(row)),
]
FILE_DATE = "advisor.scenario_options.date"
"""Where a command finds the date of the report that gave the scenario, in the context's meta."""
TYPED = "advisor.scenario_options.typed"
"""Where a command finds its scenario as it was typed, in the context's meta: words of a shell line
by field."""


ASSUMED = "advisor.scenario_options.assumed"
"""Where a command notes what it takes for the user, in the context's meta."""
_MODEL = "model"


class ScenarioCommand(click.Command):
    """A command that takes the scenario's options and hands its function one `scenario` instead of
    them."""

    models = 1
    """Models that stand by place; -1 for any number. [-]"""
    headings: Mapping[str, str] = {}
    """Headings of the help by the names of options; the others stand under Options."""

    def __init__(
        self, *args: Any, params: list[click.Parameter] | None = None, **kwargs: Any
    ) -> None:
        metavar = "[MODEL]" if self.models == 1 else "[MODEL]..."
        model = click.Argument(
            [_MODEL],
            required=False,
            nargs=self.models,
            metavar=metavar,
            shell_complete=beginning(model_ids),
        )
        kwargs["params"] = [model, *SCENARIO_OPTIONS, *(params or [])]
        super().__init__(*args, **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then the scenario's under the headings of the sidebar."""
        groups: dict[str, list[click.Parameter]] = {"Options": []}
        own_params = (param for param in self.get_params(ctx) if param not in SCENARIO_OPTIONS)
        for param in own_params:
            heading = self.headings.get(param.name or "", "Options")
            groups.setdefault(heading, []).append(param)
        groups["Start from"] = list(SCENARIO_OPTIONS[:2])
        for option in SCENARIO_OPTIONS[2:]:
            row = FIELDS.get(
                option.name or "", FIELDS["acceptance"]
            )  # one field that three options give
            groups.setdefault(str(row.section), []).append(option)
        for heading, options in groups.items():
            if records := [
                record for option in options if (record := option.get_help_record(ctx)) is not None
            ]:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a command line apart. Raises click.UsageError with all that is missing."""
        read, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        typed = {
            name: value for name, value in read.items() if isinstance(value, str | tuple)
        }  # no mark of click's
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            values = {"model_id": typed.get(_MODEL) or None} | typed
            open_ = (
                param
                for param in self.params
                if param.required and typed.get(param.name or "") is None
            )
            refuse_missing(ctx, values, [f"{param.name} ({param.opts[0]})" for param in open_])
            raise click.UsageError(error.format_message(), ctx) from error

    def prepare(self, ctx: click.Context) -> None:
        """Put the scenario in place of its options. Raises AdvisorError, click.UsageError for a
        missing option."""
        name_model(ctx)
        place_gpus(ctx)
        ctx.params["scenario"] = scenario_asked(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Prepare, then run."""
        ctx.meta[TYPED] = _typed(ctx)
        self.prepare(ctx)
        return super().invoke(ctx)


def refuse_repeated(ctx: click.Context, args: Sequence[str]) -> None:
    """Raise click.UsageError for an option that is given twice and takes one value."""
    try:
        _, _, order = ctx.command.make_parser(ctx).parse_args(args=list(args))
    except click.BadOptionUsage as error:
        error.ctx = ctx  # click forgets whose option it was
        raise
    for option in order:
        if (
            isinstance(option, click.Option)
            and not (option.multiple or option.is_flag)
            and order.count(option) > 1
        ):
            once = f"{option.opts[0]} is given more than once; give one"
            raise click.UsageError(
                _twice(option.opts[0], args) if option in SCENARIO_OPTIONS else once
            )


def _twice(option: str, args: Sequence[str]) -> str:
    """What to type in place of an option that is given twice: a comparison of its values."""
    values = []
    others = []
    rest = list(args)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        if word != option:
            others.append(f"{word}{equals}{value}")
        elif equals or rest:
            values.append(value if equals else rest.pop(0))
    values = list(dict.fromkeys(values))
    compared = ["--vary", f"{option.removeprefix('--')}={','.join(values)}"]
    whole = option in ("--model", "--scenario", "--example")
    words = shlex.join(["explore", *values, *others] if whole else ["explore", *others, *compared])
    return f"{option} is given more than once; give one, or compare them: `{program()} {words}`"


def name_model(ctx: click.Context) -> None:
    """Put the model that stands by its place as --model. Raises AdvisorError where that is typed
    too."""
    if model := ctx.params.pop(_MODEL, None):
        type_in(ctx, "model_id", model, f"{model} names the model already; leave --model out")


def take_scenario(ctx: click.Context) -> dict[str, Any]:
    """The scenario's options by name, taken from the context's parameters."""
    return {option.name: ctx.params.pop(option.name) for option in SCENARIO_OPTIONS if option.name}


def scenario_asked(ctx: click.Context) -> Scenario:
    """Scenario of the context's options, which are taken. Raises AdvisorError, click.UsageError for
    a missing one."""
    typed = typed_names(ctx)
    values = take_scenario(ctx)
    file = values.pop("scenario_file")
    example = values.pop("example")
    if file is not None and example is not None:
        raise AdvisorError("give --scenario or --example, not both")
    assumed: list[str] = ctx.meta.get(ASSUMED, [])
    if file is None and example is None:
        refuse_missing(ctx, values)
        scenario = scenario_from(values, assumed=assumed)
    else:
        base = load_example(example).scenario if example is not None else _from_file(ctx, file)
        scenario = scenario_from(
            {name: value for name, value in values.items() if name in typed}, base, assumed
        )
    if assumed:
        print_labelled("assumed", ["; ".join(assumed)], err=True)
    return scenario


def typed_names(ctx: click.Context) -> set[str]:
    """Names of the parameters that stand on the command line."""
    typed = click.core.ParameterSource.COMMANDLINE
    return {name for name in ctx.params if ctx.get_parameter_source(name) == typed}


def type_in(ctx: click.Context, name: str, value: Any, twice: str = "") -> None:
    """Set a parameter as if it were typed. Raises AdvisorError with `twice` where it is typed."""
    if name in typed_names(ctx):
        raise AdvisorError(twice)
    ctx.params[name] = value
    ctx.set_parameter_source(name, click.core.ParameterSource.COMMANDLINE)


def place_gpus(ctx: click.Context) -> None:
    """Put `8xH200` as one instance over eight of them, where no placement is typed."""
    if not isinstance(gpus := ctx.params.get("n_gpus"), GpusOf):
        return
    spell_out_gpus(ctx)
    if not {"tensor_parallel", "expert_parallel"} & typed_names(ctx):
        node = gpus_of_node(load_hardware(gpus.hardware_id))
        type_in(ctx, "tensor_parallel", usual_tensor_parallel(gpus.n_gpus, node))
        ctx.meta[ASSUMED] = [f"TP {ctx.params['tensor_parallel']}"] if gpus.n_gpus > 1 else []


def spell_out_gpus(ctx: click.Context) -> None:
    """Put `8xH200` as eight GPUs and their accelerator. Raises AdvisorError where the accelerator
    is typed as well."""
    if isinstance(gpus := ctx.params.get("n_gpus"), GpusOf):
        ctx.params["n_gpus"] = gpus.n_gpus
        type_in(
            ctx,
            "hardware_id",
            gpus.hardware_id,
            f"--gpus names {gpus.hardware_id} already; leave --hardware out",
        )


def refuse_missing(
    ctx: click.Context, values: Mapping[str, Any], needed: Sequence[str] = ()
) -> None:
    """Raise click.UsageError with all that is missing, and a command that has it.

    values : typed or read, by parameter. needed : what else lacks, in words.
    """
    model = getattr(ctx.command, "asks_model", "the model (MODEL)")
    required = {"model_id": model, "hardware_id": "the GPUs (--gpus or --hardware)"}
    if (gpus := values.get("n_gpus")) is not None:
        required["hardware_id"] = f"which GPU (--gpus {gpus}xH200, or --hardware H200)"
    if isinstance(gpus, str) and not gpus.isdigit():
        required.pop("hardware_id")
    if values.get("scenario_file") or values.get("example"):
        required = {}
    missing = [words for name, words in required.items() if values.get(name) is None]
    start = ", or start from --example or --scenario" if missing else ""
    if missing := [*missing, *needed]:
        raise click.UsageError(
            f"missing {listed(missing)}; e.g. `{example_of(ctx.info_name or '')}`{start}"
        )


def _typed(ctx: click.Context) -> dict[str, list[str]]:
    """Words of the scenario as they stand on the command line, by field, the model first."""
    names = typed_names(ctx)
    models = ctx.params.get(_MODEL) or ()
    words_by_field = {"model_id": [models] if isinstance(models, str) else list(models)}
    for option in SCENARIO_OPTIONS:
        if (name := option.name or "") in names:
            value = ctx.params[name]
            text = (
                f"{value.n_gpus}x{value.hardware_id}" if isinstance(value, GpusOf) else str(value)
            )
            words_by_field.setdefault(name, []).extend((option.opts[0], text))
    return words_by_field


def typed_words(*left_out: str) -> list[str]:
    """The running command's scenario as words of a shell line, without some fields."""
    words_by_field: dict[str, list[str]] = click.get_current_context().meta.get(TYPED, {})
    return [
        word for name, words in words_by_field.items() if name not in left_out for word in words
    ]


def _word(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{value / 1e9:g}B" if isinstance(value, float) and value >= 1e9 else text


def retyped(*left_out: str) -> list[str]:
    """The running command's arguments as they were typed, without some parameters: words of a shell
    line."""
    ctx = click.get_current_context()
    typed = typed_names(ctx) - set(left_out)
    words = typed_words(*left_out)
    for param in ctx.command.params:
        if param.name not in typed:
            continue
        value = ctx.params[param.name]
        values = value if isinstance(value, tuple) else (value,)
        value_words = list(map(_word, values))
        if isinstance(param, click.Argument):
            words = [*value_words, *words]
        elif getattr(param, "is_flag", False):
            words.append(param.opts[0])
        else:
            words += [word for value_word in value_words for word in (param.opts[0], value_word)]
    return words


def _from_file(ctx: click.Context, path: Path) -> Scenario:
    scenario_file = scenario_in(path)
    if scenario_file.note:
        click.echo(f"note: {path}: {scenario_file.note}", err=True)
    ctx.meta[FILE_DATE] = scenario_file.date
    return scenario_file.scenario


def scenario_from(
    values: dict[str, Any], base: Scenario | None = None, assumed: list[str] | None = None
) -> Scenario:
    """Scenario from option values, or `base` changed by them. `assumed` gets what it takes. Raises
    AdvisorError."""
    acceptance = given_acceptance(*(values.pop(name, None) for name in ACCEPTANCE))
    changed = {name: value for name, value in values.items() if value is not None}
    if acceptance is not None:
        changed["acceptance"] = acceptance
    if (model := changed.pop("model_id", None)) is not None:
        changed = model_fields(model) | changed
    if "refit" in changed:
        changed["refit"], accepted_lengths = _refit_text(changed["refit"])
        drafts = changed.get("drafter_id") or usual_drafter(changed.get("model_id", ""))
        if (
            base is None
            and acceptance is None
            and (length := accepted_lengths.get((changed.get("model_id", ""), drafts)))
        ):
            changed["acceptance"] = length
            (assumed if assumed is not None else []).append(
                f"accepted length {length} of the runs refitted to"
            )
    if base is None:
        changed = drafted(changed, [] if assumed is None else assumed) | changed
    if (hardware := changed.pop("hardware_id", None)) is not None:
        changed |= hardware_fields(hardware)
    whole = changed if base is None else base.model_dump() | base.moved(changed)
    if "expert_loads" in changed:
        whole["expert_loads"] = _loads_text(changed["expert_loads"], _n_experts(whole))
    own_sweep = changed.get("plain_sweep")
    whole.pop("plain_sweep" if own_sweep else "", None)
    if "context_tokens" not in changed and changed.keys() & {"input_tokens", "output_tokens"}:
        whole.pop("context_tokens", None)  # other lengths, another context
    if "n_gpus" not in changed and (
        base is None or changed.keys() & {"tensor_parallel", "expert_parallel"}
    ):
        whole["n_gpus"] = max(whole.get("tensor_parallel", 1), whole.get("expert_parallel", 1))
    try:
        scenario = build_scenario(**whole)
    except AdvisorError as error:  # a field by the option that was typed
        raise AdvisorError(re.sub(r"(?<!\S)(\w+)=(?=\S+: )", _as_typed, str(error))) from error
    return scenario if own_sweep is None else _with_sweep(scenario, own_sweep)


def _as_typed(field: re.Match[str]) -> str:
    """`--batch ` for `batch_size=`, where one option gives the field."""
    flags = FIELDS[field[1]].flags if field[1] in FIELDS else ()
    return f"{flags[0].name} " if len(flags) == 1 else field[0]


def _with_sweep(scenario: Scenario, sweep: str) -> Scenario:
    """The scenario with a plain sweep, as text or a benchmark file. Raises AdvisorError for a file
    without its own."""
    if re.search(r":\d+(\.\d+)?=", sweep) is None:
        from advisor.cli.measured_files import (
            read_measured,
        )  # readers of files need pandas, an answer does not
        from advisor.measured.own_points import plain_sweep_of, rows_of

        path = Path(sweep)
        path = (
            path / "data.csv" if is_there(path / "data.csv") else path
        )  # of a run of `profile --engine`
        try:
            rows = read_measured([path], plain=True)
            measured_sweep = plain_sweep_of(rows, scenario)
            rounds = int((rows_of(rows, scenario)["draft_tokens_k"] > 0).sum())
            if rounds:
                fit = f"{program()} fit {shlex.quote(str(path))} --output my.refit"
                say = (
                    f"{counted(rounds, 'row')} with drafts not used: a plain sweep is of K = 0; "
                    f"`{fit}` uses all"
                )
                click.echo(f"note: --plain-sweep {sweep}: {say}, for --refit", err=True)
            sweep = measured_sweep
        except AdvisorError as error:
            reason, _, maps = str(error).partition(", e.g. --map ")
            plain = "" if "draft_tokens_k" in maps else " --set draft_tokens_k=0"
            ingest_line = f"ingest {shlex.quote(sweep)} --map {maps}{plain} --output plain.csv"
            how = (
                f", as you mean them: `advisor {ingest_line}`, then `--plain-sweep plain.csv`"
                if maps
                else ""
            )
            raise AdvisorError(f"--plain-sweep {sweep}: {reason}{how}") from error
    return build_scenario(**scenario.model_dump() | {"plain_sweep": sweep})


def scenario_in(path: Path) -> ScenarioFile:
    """The scenario of a file, whose model and accelerator may be paths seen from its folder.

    Raises AdvisorError as `load_scenario_file` does, and for a path that leads to no model or
    accelerator.
    """
    scenario_file = load_scenario_file(path)
    documents: dict[str, Any] = {}
    if scenario_file.scenario.model_config_json is None:
        documents |= own_fields("model_id", scenario_file.scenario.model_id, path.parent)
    if scenario_file.scenario.hardware_json is None:
        documents |= own_fields("hardware_id", scenario_file.scenario.hardware_id, path.parent)
    return (
        replace(
            scenario_file,
            scenario=build_scenario(**scenario_file.scenario.model_dump() | documents),
        )
        if documents
        else scenario_file
    )


def given_acceptance(
    accepted_length: str | None, acceptance: str | None, preset: str | None
) -> str | None:
    """Acceptance that one of its three options states.

    None when none is given. Raises AdvisorError for several, or one that is not of its form. The
    options are --accepted-length, --acceptance and --acceptance-preset.

    Each takes its own form, so that a slip of one is not silently read as another.
    """
    stated = [text for text in (accepted_length, acceptance, preset) if text is not None]
    if len(stated) > 1:
        raise AdvisorError(
            "give one of --accepted-length, --acceptance, --acceptance-preset, not several"
        )
    if accepted_length is not None and "@" not in accepted_length:
        stated = [f"{accepted_length}@{_USUAL_K}"]
        length = number_of(accepted_length)
        if length is None or not 1.0 <= length <= _USUAL_K + 1.0:
            raise AdvisorError(
                f"--accepted-length {accepted_length!r} is not X@K: X tokens a round, 1 to K + 1, "
                "at K drafted (num_speculative_tokens; num_steps in SGLang), e.g. 2.6@3"
            )
        assume(
            f"--accepted-length {length:g} counts the tokens a round yields, the target's own "
            f"among them, with {_USUAL_K} drafted; measured at another K: {length:g}@K"
        )
    if acceptance is not None and ("@" in acceptance or not re.search(r"[0-9]", acceptance)):
        raise AdvisorError(
            f"--acceptance {acceptance!r} is not a list of probabilities, e.g. 0.7,0.5,0.4"
        )
    if preset is not None:
        load_acceptance_curve(preset)
    return stated[0] if stated else None


def refit_note(model_id: str, drafter_id: str, length: str) -> str:
    """Line of a refit's file with its runs' accepted length (X@K), for commands where none is
    typed."""
    return f"# accepted length of {model_id} with {drafter_id}: {length}\n"


_REFIT_NOTE = re.compile(refit_note(r"(\S+)", r"(\S+)", r"(\S+@\d+)"))


def _refit_text(given: str) -> tuple[str, dict[tuple[str, str], str]]:
    """A refit, given itself or as a file, and its runs' accepted lengths by model and drafter.
    Raises AdvisorError."""
    text = given
    if not given.startswith("on="):
        remedy = "write a refit with `advisor fit RESULT --output FILE`"
        text = read_file(Path(given), MAX_REFIT_BYTES, "a refit", remedy).decode(
            "utf-8", errors="replace"
        )
    if not text.startswith("on="):
        instruction = "make one of a benchmark result with `advisor fit RESULT --output FILE`"
        raise AdvisorError(f"{shown_path(Path(given))} is no refit; {instruction}")
    line, _, notes = text.strip().partition("\n")
    parse_adjustment(line)
    return line, {
        (model, drafter): length for model, drafter, length in _REFIT_NOTE.findall(f"{notes}\n")
    }


def _n_experts(values: dict[str, Any]) -> int:
    """Routed experts of the model that a scenario's values name; 0 for a dense or an unknown one.
    [-]"""
    try:
        config = values.get("model_config_json")
        architecture = (
            load_model(values["model_id"]) if config is None else architecture_from_config(config)
        )
    except (AdvisorError, KeyError):
        return 0  # the scenario's own check says what is wrong with it
    return architecture.moe.n_experts if architecture.moe is not None else 0


def _loads_text(given: str, n_experts: int) -> str:
    """The packed loads of experts, given themselves or as a file.

    n_experts : the model's, to which a CSV is filled up. [-]

    Raises AdvisorError for what is neither, with the line of a CSV.
    """
    text = given
    if re.match(_PACKED_LOADS, given) is None:
        data = read_file(
            Path(given),
            MAX_LOADS_BYTES,
            "a table of loads",
            "give a CSV with layer, expert, tokens",
        )
        if re.match(_PACKED_LOADS.encode(), data) is None:
            return write_loads(read_loads(Path(given).name, data, n_experts))
        text = data.decode("ascii", errors="replace")
    parse_loads(text.strip())
    return text.strip()
