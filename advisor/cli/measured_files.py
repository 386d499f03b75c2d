"""Benchmark files as commands read them: what --set, --map, --model and --hardware say, and paths
in their cells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import pandas as pd

from advisor.catalog.engines import engine_called, engine_ids
from advisor.cli.output import print_labelled
from advisor.cli.own import hardware_asked, hardware_fields, model_fields
from advisor.measured.ingest.columns import (
    COLUMNS,
    DOCUMENT_OF,
    MAX_DRAFT_TOKENS,
    drafter_name,
    lacks_document,
)
from advisor.measured.ingest.own import OwnDocument, known_ids, own_document, own_frame, own_rows
from advisor.measured.ingest.read import GivenRows, read_given, read_upload
from advisor.measured.ingest.result import ANSWERS, OF_ONE_RUN, PREFER
from advisor.measured.ingest.rows import (
    Measured,
    combine,
    complete,
    resolve_names,
    values_of_files,
    with_baselines,
    with_given,
)
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.row_questions import check_named
from advisor.physics.acceptance import parse_acceptance
from advisor.physics.draft import drafter_ids, load_drafter
from advisor.predict.scenario import load_scenario_file, split_gpus
from advisor.prediction import AdvisorError
from advisor.profiles import is_there, read_file, read_up_to, unknown_id
from advisor.show.phrases.reading import reading_texts
from advisor.text import number_of

MAX_FILES = 1000


def named(_: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """A drafter or engine as typed. Raises AdvisorError for no known drafter, and for an engine's
    name misspelt."""
    if (
        text is not None
        and param.name == "drafter"
        and drafter_name(text) not in (*drafter_ids(), "random", "other")
    ):
        load_drafter(text)
    unknown = (
        text if param.name == "engine" and text and engine_called(text, forks=True) is None else ""
    )
    if unknown and get_close_matches(unknown.lower(), engine_ids(), cutoff=_ALIKE):
        raise unknown_id(unknown, "engines", engine_ids(), "write another name in full")
    return text


_ALIKE = 0.8
"""A name of no known engine is a slip from here on, by difflib; below it an engine of its own. Own
choice. [-]"""
_OPTIONS = {
    "values": click.option(
        "--set",
        "values",
        multiple=True,
        metavar="COLUMN=VALUE",
        help="Fill the empty cells of a column, or one that the files lack, e.g. --set "
        "draft_tokens_k=3; repeat. FILE:draft_tokens_k=0 speaks of one file. "
        "In `ingest`, `fit`, `diagnose` names (hardware_id, model_id, engine, drafter, "
        "weight_dtype) hold for all.",
    ),
    "columns": click.option(
        "--map",
        "columns",
        multiple=True,
        metavar="THEIRS=OURS",
        help="Read a CSV column or a JSON field (metrics.tpot) under another name, e.g. --map "
        "'users=batch_size'; "
        "repeat. --map ,=decimal or ,=thousands says what a comma in numbers marks.",
    ),
    "models": click.option(
        "--model",
        "models",
        multiple=True,
        help="Model (an id) of rows that name none, or the path of a config.json.",
    ),
    "gpus": click.option("--gpus", help="GPUs of rows that name none, e.g. 8xH200."),
    "engine": click.option(
        "--engine", callback=named, help="Engine of rows that name none, e.g. vllm."
    ),
    "drafter": click.option(
        "--drafter", callback=named, help="Drafter of rows that name none, e.g. eagle3."
    ),
    "accepted_length": click.option(
        "--accepted-length",
        metavar="X@K",
        help="Accepted length X at K, for rows that give none (counts as borrowed).",
    ),
    "hardware": click.option(
        "--hardware",
        multiple=True,
        help="Accelerator (an id) of rows that name none, or the path of its JSON.",
    ),
}
_PREFER = click.option(
    "--prefer",
    type=click.Choice(ANSWERS[PREFER]),
    help="Read this quantity of a table that holds several without and with drafts [default: "
    "time per token].",
)
OF_ROWS = (
    "values",
    "columns",
    "gpus",
    "models",
    "hardware",
    "engine",
    "drafter",
    "accepted_length",
)
"""Options of every command that reads measured rows."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def reading_options(*names: str) -> Callable[[_Command], _Command]:
    """The options that say what a measured file leaves out: values, columns, models, hardware."""

    def add(command: _Command) -> _Command:
        @wraps(command)
        def preferring(*args: Any, prefer: str | None = None, **given: Any) -> Any:
            if prefer is not None:
                given["columns"] = (*given["columns"], f"{PREFER}={prefer}")
            return command(*args, **given)

        with_options: Any = _PREFER(preferring) if "columns" in names else command
        for name in reversed(names):
            with_options = _OPTIONS[name](with_options)
        return cast("_Command", with_options)

    return add


def of_gpus(text: str | None) -> dict[str, str]:
    """Columns that --gpus fills: the number of GPUs, and in `8xH200` their accelerator."""
    if text is None or text.isdigit():
        return {} if text is None else {"gpu_count": text}
    count, name = split_gpus(text)
    return {"hardware_id": hardware_asked(name), "gpu_count": str(count)}


_OPTION_OF = {
    "gpu_count": ("--gpus", "NxGPU"),
    "hardware_id": ("--hardware", "GPU"),
    "model_id": ("--model", "MODEL"),
    "engine": ("--engine", "ENGINE"),
    "drafter": ("--drafter", "DRAFTER"),
    "batch_size": ("--batch", "BATCH"),
    "draft_tokens_k": ("--k", "K"),
    "accepted_length": ("--accepted-length", "X@K"),
}
"""Options that fill a column, and what stands for their values, so that no copied command states
another's setup."""


def lacking_words(lacks: Mapping[str, Any]) -> list[str]:
    """Words to add to the running command for columns that files lack: a guess, or what stands for
    it."""
    flags = {name for param in click.get_current_context().command.params for name in param.opts}
    if "--gpus" in flags and lacks.keys() & {"gpu_count", "hardware_id"}:
        lacks = {"gpu_count": None} | {
            k: v for k, v in lacks.items() if k not in ("hardware_id", "tensor_parallel")
        }
    words: list[str] = []
    for name, guess in lacks.items():
        option, example = _OPTION_OF.get(name, ("", "..."))
        value = example if guess is None else str(guess)
        words += [option, value] if option in flags else ["--set", f"{name}={value}"]
    return words


_FIELDS = {"model_id": model_fields, "hardware_id": hardware_fields}
_FILES = {"model_id": "a config.json", "hardware_id": "an accelerator's JSON"}


def given_documents(
    column: str, options: Iterable[str | None]
) -> tuple[list[OwnDocument], list[str]]:
    """Documents that an option's values give by path, and those values that are ids.

    A path may be that of a scenario file or JSON answer that carries one. Raises AdvisorError for a
    file that is none.
    """
    documents = []
    ids = []
    for text in filter(None, options):
        if text.endswith(".json") or is_there(Path(text)):
            documents.append(_document(column, Path(text), text))
        else:
            check_named(column, text)
            ids.append(text)
    return documents, ids


def cell_documents(frame: pd.DataFrame, folder: Path) -> list[OwnDocument]:
    """Documents that cells name by path, beside the file, then from here. Raises AdvisorError for a
    .json not there."""
    out = []
    for column in DOCUMENT_OF:
        if column not in frame:
            continue
        for name in frame.loc[lacks_document(frame, column), column].dropna().unique():
            known = name in known_ids(column) or not name or "\x00" in name
            places = (
                []
                if known
                else [place for place in (folder / name, Path(name)) if _holds(place, column)]
            )
            if places:
                out.append(_document(column, places[0], name))
            elif name.endswith(".json") and not known:
                option = "--model" if column == "model_id" else "--hardware"
                raise AdvisorError(
                    f"{column} {name!r} names a file that is neither in {folder} nor here; put "
                    f"{_FILES[column]} there, or give it as {option} PATH"
                )
    return out


def documents_of(file: Path, data: bytes, columns: Sequence[str]) -> list[OwnDocument]:
    """Documents that cells of a file's rows name by path. None of a file that is no table of
    points."""
    try:
        rows = read_upload(file.name, data, columns=mapped(columns))
    except AdvisorError:
        return []  # its own reader says what is wrong with it
    return cell_documents(rows.frame, file.parent) if rows.kind == "points" else []


def document_path(
    column: str, text: str | None, files: Iterable[Path], given: Iterable[str | None]
) -> str | None:
    """Path of the file that holds a document of rows: one given, or beside the rows. "" without
    one, None unknown."""
    if text is None:
        return ""
    beside = (
        path
        for file in files
        for form in ("*.json", "*/*.json")
        for path in sorted(file.parent.glob(form))
    )
    for path in (*map(Path, filter(None, given)), *islice(beside, MAX_FILES)):
        with suppress(AdvisorError):
            if _document(column, path, "").text == text:
                return str(path)
    return None


def with_own(
    frame: pd.DataFrame, models: Sequence[str], hardware: Sequence[str], folder: Path
) -> pd.DataFrame:
    """A table of points as text with the documents that options and cells name by path.

    An option that gives an id, or one document for names that nothing explains, fills empty cells
    as well.
    """
    run_options = Own.given(models, hardware)
    option_columns = {
        name for name, options in (("hardware_id", hardware), ("model_id", models)) if options
    }
    for column, text in (
        dict.fromkeys(sorted(option_columns), "") | dict(run_options.values)
    ).items():
        frame = frame.assign(
            **{column: frame.get(column, pd.Series("", frame.index)).replace("", text)}
        )
    frame = own_frame(frame, run_options.documents)[0]
    return own_frame(frame, (), cell_documents(frame, folder))[0]


def with_length(frame: pd.DataFrame, said: Mapping[str, str], stated: str) -> pd.DataFrame:
    """A table of points as text, drafting rows without an accepted length given a stated one, as
    borrowed."""
    length = "accepted_length"
    same = "accepted_length_same_run"
    drafts = "draft_tokens_k"
    frame = frame.assign(**{name: frame.get(name, "") for name in (length, same)})
    for line, text in (
        frame.get(drafts, pd.Series("", frame.index)).replace("", said.get(drafts, "")).items()
    ):
        k = number_of(text)
        if not frame.at[line, length] and k and 1 <= k <= MAX_DRAFT_TOKENS and k % 1 == 0:
            frame.loc[line, [length, same]] = [
                f"{parse_acceptance(stated, int(k)).accepted_length[int(k)]:.6g}",
                "0",
            ]
    return frame


def with_speedups(
    frame: pd.DataFrame, file: Path, said: Mapping[str, str], columns: Sequence[str]
) -> pd.DataFrame:
    """A table of points as text with the speedups that `ingest` computes from times or rates."""
    fills = {name for name, column in COLUMNS["points"].items() if column.context}
    rows = read_rows(
        file, [f"{name}={value}" for name, value in said.items() if name in fills], columns
    )
    print_labelled("warning", reading_texts(rows.result.warnings), err=True)
    speedups = (
        rows.result.frame["speedup"].dropna().map(str)
        if rows.kind == "points"
        else pd.Series(dtype=str)
    )
    return (
        frame.assign(speedup=speedups.reindex(frame.index, fill_value=""))
        if len(speedups)
        else frame
    )


def _holds(place: Path, column: str) -> bool:
    """Whether a document of that kind may lie at a path: a file of JSON, or a model's folder."""
    if not is_there(place):
        return False
    if place.is_dir():
        return column == "model_id" and is_there(place / "config.json")
    return place.suffix == ".json"


def _document(column: str, path: Path, called: str) -> OwnDocument:
    carried = _carried(column, path)
    values = _FIELDS[column](str(path)) if carried is None else carried
    stems = {
        called,
        path.stem,
        path.parent.resolve().name if path.name == "config.json" else path.name,
    }
    try:
        return own_document(column, str(values[column]), str(values[DOCUMENT_OF[column]]), stems)
    except ValueError as error:
        raise AdvisorError(f"{path} is not JSON ({error}); give {_FILES[column]}") from error


def _carried(column: str, path: Path) -> dict[str, str | None] | None:
    """The document that a scenario file carries. None for a file that is no scenario, or carries
    none."""
    if path.is_dir():
        return None
    try:
        scenario = load_scenario_file(path).scenario
    except AdvisorError:
        return None  # its own reader says what is wrong with it
    values = {name: getattr(scenario, name) for name in (column, DOCUMENT_OF[column])}
    return values if values[DOCUMENT_OF[column]] is not None else None


@dataclass(frozen=True)
class Own:
    """Values of --model and --hardware: documents by path, and columns that an id fills."""

    documents: tuple[OwnDocument, ...] = ()
    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def given(
        cls,
        models: Sequence[str],
        hardware: Sequence[str],
        gpus: str | None = None,
        **names: str | None,
    ) -> Own:
        """The options' values as read, names by column. Raises AdvisorError for a file that is
        neither."""
        documents: list[OwnDocument] = []
        values = []
        for column, options in (("model_id", models), ("hardware_id", hardware)):
            column_documents, ids = given_documents(column, options)
            documents += column_documents
            values += [(column, ids[0])] if len(ids) == 1 and not column_documents else []
        values += [
            *of_gpus(gpus).items(),
            *((name, text) for name, text in names.items() if text is not None),
        ]
        return cls(tuple(documents), tuple(values))


def read_all(
    files: Sequence[Path], values: Sequence[str], columns: Sequence[str], own: Own
) -> tuple[list[Measured], list[dict[str, str]]]:
    """The files that can be read, each content once, and why others cannot. Raises AdvisorError for
    a lone one."""
    read = []
    failed = []
    seen = dict[str, str]()
    values_by_file = [values_of(number, values, files) for number in range(len(files))]
    uploads: list[Measured | AdvisorError] = []
    for file in files:
        try:
            uploads.append(read_upload(file.name, read_bytes(file), columns=mapped(columns)))
        except AdvisorError as error:
            if len(files) == 1:
                raise
            uploads.append(error)
    tables = [rows for rows in uploads if isinstance(rows, Measured)]
    with_k = dict(zip(map(id, tables), with_baselines(tables), strict=True))
    for file, rows, file_values in zip(files, uploads, values_by_file, strict=True):
        try:
            if isinstance(rows, AdvisorError):
                raise rows
            rows = _completed(with_k[id(rows)], file, file_values, own)
        except AdvisorError as error:
            if len(files) == 1:
                raise
            failed.append({"file": file.name, "reason": str(error)})
            continue
        if rows.sha256 in seen:
            failed.append(
                {"file": file.name, "reason": f"it is the same file as {seen[rows.sha256]}"}
            )
        else:
            seen[rows.sha256] = file.name
            read.append(rows)
    if not read:
        raise AdvisorError(
            f"none of the {len(files)} files could be read; first: {failed[0]['reason']}"
        )
    return read, failed


def values_of(number: int, values: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Values that --set gives for one of several files, `name=value` each.

    `FILE:draft_tokens_k=0` speaks of that file alone, before what is said of all;
    `batch_size=8,16,32` names one value for each, in order. Raises AdvisorError for a file that is
    not given.
    """
    of_file = []
    of_all = []
    for text in values:
        name, value = pair(text)
        file_name, colon, column = name.rpartition(":")
        if colon:
            same = [file_name in (str(file), file.name) for file in files]
            if not any(same):
                raise AdvisorError(
                    f"--set {text!r}: {file_name!r} is not a file given "
                    f"({', '.join(file.name for file in files[:5])})"
                )
            of_file += [f"{column}={value}"] if same[number] else []
            continue
        each = values_of_files(value, len(files)) if name in OF_ONE_RUN else []
        if each and len(each) != len(files):
            raise AdvisorError(
                f"--set {text!r} names {len(each)} values for {len(files)} files; give one for "
                "all, or one for each"
            )
        of_all.append(f"{name}={each[number]}" if each else text)
    said = {pair(text)[0] for text in of_file}
    return of_file + [text for text in of_all if pair(text)[0] not in said]


def read_bytes(file: Path) -> bytes:
    """The bytes of a file, `-` being standard input. Raises AdvisorError when unreadable or larger
    than an upload."""
    return (
        read_up_to(sys.stdin.buffer, MAX_BYTES + 1)
        if str(file) == "-"
        else read_file(file, MAX_BYTES, "an upload")
    )


def read_rows(
    file: Path, values: Sequence[str], columns: Sequence[str] = (), own: Own | None = None
) -> Measured:
    """A benchmark result with headers and names resolved and missing context filled in. Raises
    AdvisorError."""
    rows = read_upload(file.name, read_bytes(file), columns=mapped(columns))
    return _completed(with_baselines([rows])[0], file, values, own or Own())


def _completed(rows: Measured, file: Path, values: Sequence[str], run_options: Own) -> Measured:
    column_values = dict(pair(text) for text in values)
    if length := column_values.get("accepted_length"):
        raise AdvisorError(
            f"--set accepted_length={length}: give --accepted-length {length}@K, K as it was "
            "counted at"
        )
    rows = with_given(rows, column_values)
    if rows.kind == "points":
        rows = complete(rows, dict(run_options.values))
        rows = own_rows(rows, run_options.documents, cell_documents(rows.frame, file.parent))
    return resolve_names(rows)


def read_measured(files: Sequence[Path], plain: bool = False) -> pd.DataFrame:
    """Served runs of several files as one table of points. Raises AdvisorError for kernel tables.

    plain : runs without speculation, whose table need not say K = 0.
    """
    values = ["draft_tokens_k=0"] if plain else []
    rows = combine(read_all(files, values, (), Own())[0])
    if rows.kind != "points":
        raise AdvisorError(f"{rows.file_name} holds kernel times; give served runs")
    return rows.result.frame


def mapped(columns: Sequence[str]) -> dict[str, str]:
    """The headers that --map names, {theirs: ours}. Raises AdvisorError for what is no pair."""
    return dict(pair(text, "--map", "theirs=ours, e.g. --map users=batch_size") for text in columns)


def pair(
    text: str, option: str = "--set", form: str = "column=value, e.g. --set hardware_id=h200-sxm"
) -> tuple[str, str]:
    """Name and value of `name=value` as an option takes it. Raises AdvisorError for anything
    else."""
    name, equals, value = text.rpartition("=") if option == "--map" else text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise AdvisorError(f"{option} {text!r} is not {form}")
    return name.strip(), value.strip()


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files among some paths, and those that lie directly in folders. Raises AdvisorError for
    none or too many."""
    files: list[Path] = []
    for path in paths:
        inside = [path]
        if str(path) != "-" and is_there(path) and path.is_dir():
            inside = sorted(
                item for item in path.iterdir() if item.is_file() and not item.name.startswith(".")
            )
        if not inside:
            raise AdvisorError(
                f"{path} holds no files; give a benchmark result or a directory of them"
            )
        files += inside
    if len(files) > MAX_FILES:
        raise AdvisorError(
            f"{len(files):,} files are given; at most {MAX_FILES:,} are read at once"
        )
    return files


def read_points(path: Path, columns: Sequence[str] = ()) -> GivenRows:
    """A CSV of measured points, what is odd about it on standard error. Raises AdvisorError for
    anything else."""
    rows = read_given(path.name, read_bytes(path), mapped(columns))
    print_labelled("warning", reading_texts(rows.warnings), err=True)
    return rows
