"""`ingest`, `fit`: a user's own benchmark results.

`predict` and `validate`: the model held against rows that somebody measured.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pandas as pd

from advisor.cli import measured_files as reading
from advisor.cli import output as out
from advisor.cli.asked import given_acceptance, refit_note, retyped
from advisor.measured.ingest.acceptance import rates_from_list
from advisor.measured.ingest.columns import DOCUMENT_OF
from advisor.measured.ingest.read import GivenRows
from advisor.measured.ingest.remap import UnreadColumnsError, map_words, own_headers
from advisor.measured.ingest.result import ON_NAMES, csv_of, measured_length, open_questions
from advisor.measured.ingest.rows import Measured, combine
from advisor.measured.points import Point, Refused, judged_rows, refit_points
from advisor.measured.refit_result import Errors, RefitResult
from advisor.measured.validation import NEEDED_COLUMNS, PREDICTED_COLUMNS, predict_rows
from advisor.measured.validation import validate as validate_points
from advisor.predict.scenario import scenario_words
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from advisor.show.table import Column, Table
from advisor.show.words.refit import notes, sentence
from advisor.text import counted, frame_csv, json_text, wrapped

if TYPE_CHECKING:
    from advisor.measured.validation import MoesdFit


@click.command()
@click.argument(
    "paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE..."
)
@reading.reading_options(*reading.OF_ROWS)
@out.path_option(
    "--output", "-o", help="Write the rows that were read here (CSV), for `fit` and `predict`."
)
@out.path_option("--rejects", help="Write rejected rows with their reasons here (CSV).")
@out.json_option()
def ingest(
    paths: Sequence[Path], output: Path | None, rejects: Path | None, as_json: bool, **given: Any
) -> None:
    """Read benchmark results, or every file of a directory, and say what can be used.

    A run with K = 0 in one of the files is the baseline of those in the others. --output writes all
    of them as one.
    """
    values = given.pop("values")
    columns = given.pop("columns")
    stated = given_acceptance(given.pop("accepted_length"), None, None)
    read, failed = _read_all(paths, values, columns, reading.Own.given(**given))
    results = [rows.result for rows in read]
    if rejects is not None:
        out.write_file(rejects, csv_of(pd.concat([result.rejects for result in results])))
    kinds = [[rows for rows in read if rows.kind == kind] for kind in ("points", "kernels")]
    together = [combine(alike).result for alike in kinds if alike]
    points = [table for table in together if table.kind == "points" and table.rows_kept]
    usable = [refit_points(table.frame, stated) for table in points]
    if output is not None:
        if len(together) != 1:
            kinds_read = (
                " and ".join(table.kind for table in together) or "nothing that can be used"
            )
            raise AdvisorError(
                f"{output} is not written: the files hold {kinds_read}; --output takes files of "
                "one kind"
            )
        out.write_file(output, csv_of(together[0].frame.dropna(axis=1, how="all")))
    if as_json:
        more = [_summary(table) for table in together] if len(results) > len(together) else []
        files = [_summary(result) for result in results]
        refits = [
            {"rows_used": len(used), "not_used": list(map(vars, refused))}
            for used, refused in usable
        ]
        out.print_json({"files": files, "together": more, "not_read": failed, "refit": refits})
        return
    for result in results:
        _print_result(result)
    _print_failed(failed)
    if len(results) > len(together):
        for table in together:
            speedups = "; ".join(reading_texts(table.speedups))
            out.say(f"together, {counted(table.rows_kept, 'row')} read: {speedups}")
    for table, (used, refused) in zip(points, usable, strict=True):
        click.echo(f"`fit` can use {counted(len(used), 'row')}")
        _say_borrowed(used)
        _print_reasons(
            "not used in the fit",
            ((each.reason, table.own_line(each.line), each.rows) for each in refused),
        )
    if output is not None:
        out.say(f"{counted(together[0].rows_kept, 'row')} written to {output}")
    for plain in filter(None, (_plain_sweep_text(table, output) for table in together)):
        out.say(plain)
    if len(together) == 1 and together[0].kind == "points":
        _lead_on(_lacks(together[0], paths), sum(len(used) for used, _ in usable))


def _lead_on(lacks: Sequence[str], n_used: int) -> None:
    """Print what to do next with the rows that were read: mend, add, refit, or hold them beside the
    model.

    lacks : words to add for columns that files lack. n_used : rows that a refit can use. [-]
    """
    from advisor.measured.refit import MIN_POINTS  # reading needs no fit

    if lacks:
        out.print_next(
            {"with what is missing, your own in capitals": ["ingest", *retyped(), *lacks]}
        )
        return
    if not n_used:
        out.say(
            "Nothing can be refitted or compared with the model until the problems above are fixed."
        )
        return
    words = retyped(*_OF_FIT)
    onward = {}
    if n_used >= MIN_POINTS:
        onward = {"what these runs change": ["fit", *words, *_TO_REFIT]}
    else:
        out.say(f"A refit needs at least {MIN_POINTS}: add runs at other batches or K.")
    out.print_next(onward | {"beside the model": ["validate", *words]})


def _read_all(paths: Sequence[Path], *given: Any) -> tuple[list[Measured], list[dict[str, str]]]:
    """As `reading.read_all`; a refusal that guesses what columns mean ends with the whole command
    that says so."""
    try:
        return reading.read_all(reading.files_in(paths), *given)
    except UnreadColumnsError as error:
        if not error.maps:
            raise
        command = _command(*map_words(error.maps))
        raise AdvisorError(f"{error.reason}, as you mean them: `advisor {command}`") from error


def _command(*more: str) -> str:
    """The running command as it was typed, with more words."""
    return shlex.join([click.get_current_context().info_name or "", *retyped(), *more])


_TO_REFIT = ("--output", "my.refit")


def _lacks(rows: Measured, paths: Sequence[Path]) -> list[str]:
    """What to add to a command line that rows lack for a refit: a column that looks like it, else a
    value."""
    lacks = {item.name: item.prefill for item in rows.result.missing if item.needed}
    files = [path for path in reading.files_in(paths) if lacks and str(path) != "-"]
    headers = [own_headers(path.name, reading.read_bytes(path)) for path in files]
    guesses = [{item.theirs: item.ours for item in each if not item.native} for each in headers]
    alike = {
        theirs: ours
        for theirs, ours in next(iter(guesses), {}).items()
        if ours in lacks and all(other.get(theirs) == ours for other in guesses)
    }
    others = {name: guess for name, guess in lacks.items() if name not in alike.values()}
    return [*map_words(alike), *reading.lacking_words(others)]


def _say_borrowed(points: Sequence[Point]) -> None:
    """Say which accepted length rows that state none take, where nobody measured their model with
    their drafter."""
    lengths = {
        (point.question.scenario.acceptance)
        for point in points
        if point.question.acceptance_source == "other_model"
    }
    if lengths:
        out.say(
            f"borrowed: rows without an accepted length take {', '.join(sorted(lengths))}, the "
            "median of their drafter on other models; your own: --accepted-length X@K"
        )


@click.command()
@click.argument(
    "paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE..."
)
@reading.reading_options(*(name for name in reading.OF_ROWS if name not in ("hardware", "engine")))
@click.option(
    "--hardware",
    "hardware_id",
    help="Refit its rows, id or path to JSON [default: the pair with most rows].",
)
@click.option(
    "--engine", callback=reading.named, help="Refit this engine's rows, and those that name none."
)
@click.option(
    "--acceptance",
    help="a1,a2,...: chance that draft token i is accepted, for rows that give no length.",
)
@click.option(
    "--acceptance-preset", help="Id of a measured acceptance curve, for rows that give no length."
)
@out.path_option("--output", "-o", help="Write the refit here, for --refit of other commands.")
@click.option("--force", is_flag=True, help="Write the refit even if the checks reject it.")
@out.json_option()
def fit(
    paths: Sequence[Path], output: Path | None, force: bool, as_json: bool, **given: Any
) -> None:
    """Refit overheads and efficiencies on the points of one or more files, and say what changed.

    `advise`, `curve`, `design` and the other commands that take a scenario predict with it by
    --refit.
    """
    from advisor.catalog.adjustment import write_adjustment
    from advisor.measured.refit import adjustment_of, refit_chosen
    from advisor.measured.validation import moesd_of

    show = out.progress("fitting")
    rows, failed, points, refused = _rows_to_fit(paths, given, not as_json)
    show(f"{len(points)} points", 0.0)
    answer = refit_chosen(points, refused, rows.result.header_of)
    small = moesd_of(points)
    show(1.0)
    against = answer.reasons_against
    text = write_adjustment(adjustment_of(answer)) if force or not against else None
    length_of_runs = measured_length(rows.result.frame)
    length = length_of_runs or given["accepted_length"]
    if output is not None and text is not None:
        ran = {
            (each.scenario.model_id, each.scenario.drafter_id) for each in points if each.n_draft
        }
        of = refit_note(*ran.pop(), length) if length is not None and len(ran) == 1 else ""
        out.write_file(output, f"{text}\n{of}")
    if as_json:
        out.print_json(
            {k: v for k, v in vars(answer).items() if k != "rows"}
            | {
                "warnings": reading_texts(rows.result.warnings),
                "rejects": rows.result.rejects.to_dict("records"),
                "not_read": failed,
                "sentence": sentence(answer),
                "reasons_against": against,
                "refit": text,
                "rows": answer.rows.to_dict("records"),
                "moesd": small,
            }
        )
    else:
        _print_failed(failed)
        _print_fit(answer, points, small, rows.own_line)
        if plain := _plain_sweep_text(rows.result, None):
            out.say(plain)
        words = (
            _advise_words(points, paths, given, length_of_runs)
            if text is None or output is not None
            else []
        )
        onward = {"why they differ": ["diagnose", *retyped(*_OF_FIT)]} if against else {}
        if text is not None and output is not None:
            onward |= (
                {"predict with it": ["advise", *words, "--refit", str(output)]} if words else {}
            )
        elif text is not None:
            onward["write it"] = ["fit", *retyped(), *_TO_REFIT]
        else:
            forced = [*retyped("output", "force"), "--output", str(output or "my.refit"), "--force"]
            onward = ({"by the shipped constants": ["advise", *words]} if words else {}) | onward
            onward["write it all the same"] = ["fit", *forced]
        out.print_next(onward)
    if output is not None and text is None:
        raise AdvisorError(f"{output} is not written: {' '.join(against)} --force writes it anyway")


def _print_fit(
    answer: RefitResult, points: Sequence[Point], small: MoesdFit | None, own: Callable[[int], int]
) -> None:
    """What a refit found, and what speaks against it. `own` gives the file's own line of a
    row's."""
    from advisor.show.words.explain import (
        PARAMETERS,
    )  # which knows how a number was made, and ingest need not

    held = answer.length_factor is not None
    out.say(
        sentence(answer)
        + " Lengths of these very runs are held: --set accepted_length_same_run=1." * held
    )
    out.print_labelled("rejected by the checks", answer.reasons_against)
    click.echo("")
    out.print_table(Table(PARAMETERS, answer.parameters))
    _say_borrowed(points)
    for note in notes(answer):
        out.say(note)
    if small is not None:
        out.say(
            f"\nMoESD's ten-parameter form fits the {small.n_points} speedups with an RMS error "
            f"of {small.rms:.2f}."
        )
    _print_reasons(
        "not used in the fit", ((each.reason, own(each.line), each.rows) for each in answer.refused)
    )


def _advise_words(
    points: Sequence[Point], paths: Sequence[Path], given: Mapping[str, Any], own: object
) -> list[str]:
    """Words for `advise` at the point in the middle, one that drafts if there is one, with the
    lengths of all its K.

    own : whether files count some. None where no file holds the rows' own model or accelerator.
    """
    ran = (
        sorted((point for point in points if point.n_draft), key=lambda point: point.batch_size)
        or points
    )
    point = ran[len(ran) // 2]
    values: dict[str, Any] = {"k_max": FIELDS["k_max"].default}
    stated = given_acceptance(
        *(given[name] for name in ("accepted_length", "acceptance", "acceptance_preset"))
    )
    if stated is not None and not own:
        values["acceptance"] = stated
    elif point.n_draft and point.accepted_length > 1:
        of = attrgetter("scenario.model_id", "scenario.drafter_id")
        alike = [run for run in ran if of(run) == of(point)]
        lengths = (
            pd.Series([run.accepted_length for run in alike])
            .groupby([run.n_draft for run in alike])
            .median()
        )
        values["acceptance"] = ",".join(
            f"{length:.3g}@{k}" for k, length in lengths.items() if length > 1
        )
    elif point.n_draft:
        values["acceptance"] = f"2@{max(run.n_draft for run in points)}"
        out.say(
            f"Drafts of random weights are refused: in {values['acceptance']} put your accepted "
            "length for 2."
        )
    scenario = point.scenario.model_copy(update=values)
    model = reading.document_path(
        "model_id",
        getattr(scenario, DOCUMENT_OF["model_id"]),
        reading.files_in(paths),
        given["models"],
    )
    hardware = reading.document_path(
        "hardware_id",
        getattr(scenario, DOCUMENT_OF["hardware_id"]),
        reading.files_in(paths),
        [given["hardware_id"]],
    )
    return [] if None in (model, hardware) else scenario_words(scenario, model, hardware)


def _rows_to_fit(
    paths: Sequence[Path], given: Mapping[str, Any], aloud: bool
) -> tuple[Measured, list[dict[str, str]], list[Point], list[Refused]]:
    """The rows of the files, the files that cannot be read, the points to fit, and the rows that
    are none.

    given : the other options of `fit`. aloud : whether what was concluded while reading is printed.
        Raises AdvisorError
    with the columns that the files lack.
    """
    from advisor.measured.refit import MIN_POINTS, select_points

    hardware_id = given["hardware_id"]
    engine = given["engine"]
    stated = given_acceptance(
        given["accepted_length"], given["acceptance"], given["acceptance_preset"]
    )
    run = {name: given[name] for name in ("gpus", "engine", "drafter")}
    run_options = reading.Own.given(given["models"], [hardware_id] if hardware_id else [], **run)
    hardware_id = next(
        (document.name for document in run_options.documents if document.column == "hardware_id"),
        hardware_id,
    )
    read, failed = _read_all(paths, given["values"], given["columns"], run_options)
    rows = combine(read)
    if rows.kind != "points":
        raise AdvisorError(
            f"{rows.file_name} holds kernel times; a refit needs served runs (speedup, step or "
            "token times)"
        )
    if aloud:
        _print_said(rows.result)
    try:
        points, refused = select_points(
            rows.result.frame, hardware_id=hardware_id, engine=engine, acceptance=stated
        )
    except AdvisorError as error:
        rejected = "" if aloud else "".join(f"; {why}" for why in _reasons_of(rows.result))
        if lacks := _lacks(rows, paths):
            raise AdvisorError(
                f"{error}{rejected}. Say it, your own in capitals: `advisor {_command(*lacks)}`"
            ) from error
        if not str(error).rstrip(".").endswith(f"at least {MIN_POINTS}"):
            raise AdvisorError(f"{error}{rejected}") from error
        beside = shlex.join(["validate", *retyped(*_OF_FIT)])
        raise AdvisorError(
            f"{error}{rejected}: add runs at other batches or K, or hold these beside it: "
            f"`advisor {beside}`"
        ) from error
    return rows, failed, list(points), list(refused)


def _print_failed(failed: Iterable[Mapping[str, str]]) -> None:
    for item in failed:
        out.say(f"skipped file {item['file']}: {item['reason']}")


_SWEPT = 3
"""Batches of plain decoding that --plain-sweep needs at least. [-]"""


def _plain_sweep_text(result: Measured, written: Path | None) -> str:
    """How plain runs at several batches are used as they were measured. Empty where there are too
    few."""
    if result.kind != "points" or not result.rows_kept:
        return ""
    plain = result.frame[result.frame["draft_tokens_k"].fillna(-1) == 0]
    n_batches = plain["batch_size"].nunique()
    if n_batches < _SWEPT:
        return ""
    words = shlex.join(["ingest", *retyped(*_OF_FIT), "--output", "rows.csv"])
    after = "" if written else f", after `advisor {words}`"
    return (
        f"Plain decoding at {n_batches} batches is among the rows: `--plain-sweep "
        f"{written or 'rows.csv'}` in `advise` predicts from those times themselves{after}."
    )


_OF_FIT = ("output", "rejects", "force", "as_json", "acceptance", "acceptance_preset")
"""Parameters of `ingest` and `fit` that other commands on the same files do not share."""


_SUMMED = (
    *("format_name", "kind", "sha256", "rows_read", "rows_kept"),
    *("rows_refused", "ready", "missing"),
)


def _summary(result: Measured) -> dict[str, Any]:
    return {
        "file": result.file_name,
        "format": result.format_id,
        **{name: getattr(result, name) for name in _SUMMED},
        "warnings": reading_texts(result.warnings),
        "derived": reading_texts(result.derived),
        "asked": [question.text for question in open_questions(result.rejects)],
        "rejects": result.rejects.to_dict("records"),
    }


def _print_result(result: Measured) -> None:
    out.say(
        f"{result.file_name}: {result.format_name}; {counted(result.rows_kept, 'row')} read, "
        f"{result.rows_refused:,} rejected"
    )
    for item in result.missing:
        need = "needed" if item.needed else "useful"
        guess = f" (the file suggests {item.prefill})" if item.prefill is not None else ""
        _item(
            f"{need}: --set {item.name}=...  {item.meaning}; missing in "
            f"{counted(item.rows, 'row')}{guess}"
        )
    for question in open_questions(result.rejects):
        _item(f"needed: {question.options}  {question.text}")
    for text in reading_texts(result.derived):
        _item(text)
    if result.kind == "points" and (length := measured_length(result.frame)) is not None:
        _item(
            "to predict with the accepted length of these runs: advise ... --accepted-length "
            f"{length}"
        )
    for line, rates in _acceptances(result):
        _item(f"to use the acceptance measured in line {line}: --acceptance {rates}")
    for text in reading_texts(result.warnings):
        _item(f"warning: {text}")
    for reject in result.rejects.head(10).to_dict("records"):
        _item(
            f"line {reject['line']}, {reject['column'] or 'row'} {reject['value']!r}: "
            f"{reject['reason']}"
        )
    if len(result.rejects) > 10:
        _item(f"... {len(result.rejects) - 10:,} more reasons; write them with --rejects FILE.csv")


def _item(text: str) -> None:
    """Print a text under its heading, in lines that fit the terminal."""
    for line in wrapped(text, out.text_width() - 2):
        click.echo(f"  {line}")


def _print_said(result: Measured) -> None:
    """What was concluded or refused while reading, before a fit: names, formats, rounding, refused
    rows by reason."""
    for text in reading_texts(note for note in result.derived if note.kind in ON_NAMES):
        out.say(f"read: {text}")
    out.print_labelled("warning", reading_texts(result.warnings))
    for question in open_questions(result.rejects):
        out.say(f"needed, with {question.options}: {question.text}")
    if result.kind == "points":
        means = result.frame[["input_tokens", "output_tokens"]].to_numpy(dtype=float, na_value=0.0)
        rounded = int((means % 1 != 0).any(axis=1).sum())
        if rounded:
            out.say(f"read: mean lengths of {counted(rounded, 'row')} rounded to whole tokens")
    _print_reasons("rejected", _rejected(result))


def _rejected(result: Measured) -> list[tuple[str, int, int]]:
    """Rows refused in reading: reason, line, one row each."""
    rejects = result.rejects
    return [*zip(rejects["reason"], rejects["line"], [1] * len(rejects), strict=True)]


def _reasons_of(result: Measured) -> list[str]:
    """Why rows were refused in reading, a clause for each reason."""
    groups = alike(_rejected(result))
    return [f"{counted(len(lines), 'row')} rejected: {reason}" for reason, lines in groups]


def _acceptances(result: Measured) -> list[tuple[int, str]]:
    """Line and conditional probabilities of up to three runs that measured acceptance by
    position."""
    if result.kind != "points":
        return []
    rates_by_line = []
    for line, text in (
        result.frame["acceptance_by_position"].dropna().drop_duplicates().head(3).items()
    ):
        try:
            rates = rates_from_list(text).text
        except AdvisorError as error:
            rates = f"not possible: {error}"
        rates_by_line.append((result.own_line(int(line)), rates))
    return rates_by_line


def _print_reasons(label: str, rows: Iterable[tuple[str, int, int]]) -> None:
    """Reasons (reason, line, number of rows) with the number of rows and the first lines, most rows
    first."""
    for reason, lines in alike(rows):
        lines_text = ", ".join(map(str, [*dict.fromkeys(lines)][:5])) + (
            ", ..." if len(lines) > 5 else ""
        )
        out.print_labelled(f"{label}, {counted(len(lines), 'row')} (line {lines_text})", [reason])


def _points(file: Path, given: Mapping[str, Any]) -> tuple[GivenRows, pd.DataFrame, dict[str, str]]:
    """Rows of a CSV as given, as asked of the model, and the values that fill their empty cells."""
    given_rows = reading.read_points(file, given["columns"])
    names = {name: given[name] for name in ("engine", "drafter") if given[name] is not None}
    values = dict(map(reading.pair, given["values"])) | reading.of_gpus(given["gpus"]) | names
    questions = reading.with_own(given_rows.asked, given["models"], given["hardware"], file.parent)
    stated = given_acceptance(given["accepted_length"], None, None)
    return (
        given_rows,
        reading.with_length(questions, values, stated) if stated else questions,
        values,
    )


@contextmanager
def _naming_what_lacks(questions: pd.DataFrame, values: Mapping[str, str]) -> Iterator[None]:
    """Add to a refusal the command that says what the rows lack. values : columns that --set
    fills."""
    try:
        yield
    except AdvisorError as error:
        lacks = [name for name in NEEDED_COLUMNS if name not in {*questions.columns, *values}]
        if not lacks:
            raise
        whole = _command(*reading.lacking_words(dict.fromkeys(lacks)))
        raise AdvisorError(f"{error}. Say them, your own in capitals: `advisor {whole}`") from error


def _raise_none_predicted(reasons: Iterable[Any]) -> None:
    """Raise AdvisorError where no row could be predicted: why, and the command with the option that
    fills a column."""
    (reason, lines), *_ = alike(
        (str(each).removeprefix("not predicted: "), 0, 1) for each in reasons
    )
    column = re.search(r"(\w+) (?:is|are) not stated", reason)
    more = reading.lacking_words({column[1]: None}) if column else []
    remedy = f". Say it, your own in capitals: `advisor {_command(*more)}`" if more else ""
    raise AdvisorError(f"no row could be predicted; {counted(len(lines), 'row')}: {reason}{remedy}")


_RATIO = "measured_over_predicted"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@reading.reading_options(*reading.OF_ROWS)
@out.path_option("--output", "-o", help="Write here instead of standard output.")
@out.json_option("Rows as JSON instead of CSV.")
def predict(file: Path, output: Path | None, as_json: bool, **given: Any) -> None:
    """Add predicted speedup, band, tier and reason to the rows of FILE, and measured over
    predicted.

    The columns are those of measurements/published_speedups.

    An accepted_length is borrowed, with a wider 80% range, unless accepted_length_same_run is 1;
    a row without one gets the median of its drafter over other models, as in `validate`.
    """
    given_rows, questions, values = _points(file, given)
    show = out.progress("predicting")
    with _naming_what_lacks(questions, values):
        answers = predict_rows(
            questions, values, other_models=True, refused=given_rows.refused, on_progress=show
        )
    show(1.0)
    answers = answers[list(PREDICTED_COLUMNS)]
    if "speedup" in questions:
        measured = pd.to_numeric(questions["speedup"], errors="coerce").reset_index(drop=True)
        ratio = measured / pd.to_numeric(answers["predicted_speedup"], errors="coerce")
        answers.insert(1, _RATIO, ratio.where(np.isfinite(ratio) & (ratio > 0)))
    left_out = int(answers["predicted_speedup"].isna().sum())
    if left_out == len(answers):
        _raise_none_predicted(answers["predicted_reason"])
    before = given_rows.given.drop(
        columns=[*PREDICTED_COLUMNS, _RATIO], errors="ignore"
    )  # of an earlier prediction
    rows = pd.concat([before.reset_index(drop=True), answers], axis=1)
    text = json_text(_records(rows)) + "\n" if as_json else frame_csv(rows, float_format="%.6g")
    if output is None:
        sys.stdout.write(text)
    else:
        out.write_file(output, text)
    click.echo(
        (
            f"{counted(len(rows) - left_out, 'row')} predicted, {left_out} not predicted (see "
            "predicted_reason)."
        ),
        err=True,
    )


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@reading.reading_options(*reading.OF_ROWS)
@out.json_option("Machine-readable output: overall, by_laboratory, rows.")
def validate(file: Path | None, as_json: bool, **given: Any) -> None:
    """Errors of the predictions on FILE, or on the shipped published measurements."""
    show = out.progress("predicting")
    if file is None:
        if any(given[name] for name in reading.OF_ROWS[1:]):
            raise AdvisorError("--map, --model, --gpus and other values for rows need FILE")
        values = dict(map(reading.pair, given["values"]))
        result = validate_points(judged_rows(), values, on_progress=show)
    else:
        given_rows, questions, values = _points(file, given)
        if "speedup" not in questions:
            questions = reading.with_speedups(questions, file, values, given["columns"])
        marked = given_rows.given.get("defect", "")
        with _naming_what_lacks(questions, values):
            result = validate_points(
                questions.assign(defect=marked), values, given_rows.refused, show
            )
    show(1.0)
    if file is not None and result.n_refused == len(result.rows):
        _raise_none_predicted(result.rows["predicted_reason"])
    if as_json:
        names = (
            "overall",
            "by_laboratory",
            "by_tier",
            "by_acceptance",
            "best_k_regret",
            "n_best_k",
            "n_refused",
        )
        out.print_json(
            {name: getattr(result, name) for name in names} | {"rows": _records(result.rows)}
        )
        return
    judged = result.rows[result.rows["absolute_percentage_error"].notna()]
    if len(judged) <= _FEW_ROWS:
        out.print_table(
            Table(_ROWS, judged.reindex(columns=_SHOWN).apply(pd.to_numeric).to_dict("records"))
        )
        click.echo()
    groups = [
        (_GROUPS.get(name, name), errors)
        for name, errors in (*result.by_acceptance.items(), *result.by_tier.items())
    ]
    out.say("Errors of the predicted speedup, each source weighted equally:")
    out.print_table(_errors_table("rows", [("all rows", result.overall), *groups]))
    click.echo("\nBy source:")
    out.print_table(_errors_table("source", result.by_laboratory.items()))
    if result.best_k_regret is not None:
        click.echo(
            f"\nLoss of the recommended K: {result.best_k_regret:.1%} over {result.n_best_k} "
            "points with several K."
        )
    reasons = result.rows.loc[result.rows["predicted_speedup"].isna(), "predicted_reason"]
    click.echo(f"\n{result.n_refused} rows not predicted")
    for reason, lines in alike(
        (str(each).removeprefix("not predicted: "), 0, 1) for each in reasons
    ):
        click.echo(f"{len(lines):5d}  {reason}")
    if file is not None:
        out.print_next({"refit to these runs": ["fit", *retyped("as_json"), *_TO_REFIT]})


_FEW_ROWS = 20  # each is shown up to here; own choice
_LENGTH = "accepted length {}counted in the run"
_GROUPS = {
    "same_run": _LENGTH.format(""),
    "borrowed": _LENGTH.format("not "),
    "other_model": "length of other models",
}
_GROUPS |= {
    "fitted": "kernels fitted",
    "interpolated": "kernels interpolated",
    "roofline": "kernels by data sheet",
}
_SHOWN = [
    "batch_size",
    "draft_tokens_k",
    "speedup",
    "predicted_speedup",
    "predicted_low",
    "predicted_high",
]
_ROWS: tuple[Column[dict[str, Any]], ...] = (
    Column("batch", itemgetter("batch_size"), "{:,.4g}".format),
    Column("K", itemgetter("draft_tokens_k"), "{:.0f}".format),
    Column("measured", itemgetter("speedup"), "{:.2f}x".format),
    Column("predicted", itemgetter("predicted_speedup"), "{:.2f}x".format),
    Column("80% range", lambda row: f"{row['predicted_low']:.2f}-{row['predicted_high']:.2f}"),
    Column(
        "inside",
        lambda row: (
            "yes" if row["predicted_low"] <= row["speedup"] <= row["predicted_high"] else "no"
        ),
    ),
)


_PARTICULAR = re.compile(r"(?<!\w)\d[\d.,]*(?!\w)|'[^']*'|\"[^\"]*\"|(?<=for )\S+ with \S+")
"""Numbers and names: what reasons that say the same differ in."""


def alike(rows: Iterable[tuple[str, int, int]]) -> list[tuple[str, list[int]]]:
    """Reasons with the lines of their rows, most rows first. Those that differ in numbers or names
    alone are one.

    rows : reason, line, number of rows. A group is told by its first reason, with how many others
        there are.
    """
    groups: dict[str, dict[str, list[int]]] = {}
    for reason, line, number in rows:
        group = groups.setdefault(_PARTICULAR.sub("#", reason), {})
        group.setdefault(reason, []).extend([line] * number)
    reasons = []
    for group in groups.values():
        others = len(group) - 1
        more = f" (and {others:,} more that differ in numbers or names)" if others else ""
        reasons.append(
            (next(iter(group)) + more, [line for lines in group.values() for line in lines])
        )
    return sorted(reasons, key=lambda each: -len(each[1]))


_ERRORS = {
    "median error": "median_ape",
    "mean error": "mape",
    "p90": "p90_ape",
    "gain or loss right": "sign_accuracy",
    "in 80% range": "coverage",
    "width of range": "mean_band_width",
}


def _errors_table(label: str, rows: Iterable[tuple[str, Errors]]) -> Table[dict[str, Any]]:
    """Errors of groups of rows, each under its name."""
    shares = (
        Column[dict[str, Any]](
            heading, itemgetter(name), lambda share: "-" if share is None else f"{share:.1%}"
        )
        for heading, name in _ERRORS.items()
    )
    name_column = Column[dict[str, Any]](label, itemgetter(label), words=True)
    return Table(
        (name_column, Column("n", itemgetter("n")), *shares),
        [{label: name, **vars(errors)} for name, errors in rows],
    )


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
