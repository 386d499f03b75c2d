"""`ingest`, `fit`: a user's own benchmark results.

`predict` and `validate`: the model held against rows that somebody measured.

`acceptance`: accepted length by K from metrics, an acceptance histogram or a list of rates.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import pandas as pd

from advisor.cli.measured_files import Own, files_in, pair, read_all, read_bytes, read_points, reading_options, with_own
from advisor.cli.output import (
    given_acceptance,
    json_option,
    path_option,
    print_json,
    print_labelled,
    print_table,
    progress,
    say,
    text_width,
    write_file,
)
from advisor.measured.ingest.acceptance import AcceptanceRates, rates_from_list, read_acceptance_file
from advisor.measured.ingest.read import GivenRows
from advisor.measured.ingest.result import csv_of, measured_length, open_questions
from advisor.measured.ingest.rows import NAME_COLUMNS, Measured, combine
from advisor.measured.points import Point, Refused, judged_rows
from advisor.measured.refit_result import Errors, notes
from advisor.measured.validation import PREDICTED_COLUMNS, predict_rows
from advisor.measured.validation import validate as validate_points
from advisor.prediction import AdvisorError
from advisor.show.table import Column, Table, matrix
from advisor.show.words.constants import PARAMETERS
from advisor.text import counted, frame_csv, json_text, wrapped


@click.command()
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@reading_options("values", "columns", "models", "hardware")
@path_option("--output", "-o", help="Write the rows that were read here (CSV), for `fit` and `predict`.")
@path_option("--rejects", help="Write rejected rows with their reasons here (CSV).")
@json_option()
def ingest(
    paths: Sequence[Path],
    values: Sequence[str],
    columns: Sequence[str],
    models: Sequence[str],
    hardware: Sequence[str],
    output: Path | None,
    rejects: Path | None,
    as_json: bool,
) -> None:
    """Read benchmark results, or every file of a directory, and say what can be used.

    A run with K = 0 in one of the files is the baseline of those in the others. --output writes all of them as one.
    """
    read, failed = read_all(files_in(paths), values, columns, Own.given(models, hardware))
    results = [rows.result for rows in read]
    if rejects is not None:
        parts = [csv_of(result.rejects).split(b"\n", 1) for result in results]
        write_file(rejects, parts[0][0] + b"\n" + b"".join(body for _, body in parts))
    kinds = [[rows for rows in read if rows.kind == kind] for kind in ("points", "kernels")]
    together = [combine(alike).result for alike in kinds if alike]
    if output is not None:
        _write_rows(output, together)
    if as_json:
        more = [_summary(one) for one in together] if len(results) > len(together) else []
        files = [_summary(item) for item in results]
        refits = [
            {"rows_used": n_rows, "not_used": [vars(each) for each in refused]}
            for n_rows, refused in filter(None, map(_refit_use, together))
        ]
        print_json({"files": files, "together": more, "not_read": failed, "refit": refits})
        return
    for result in results:
        _print_result(result)
    _print_failed(failed)
    if len(results) > len(together):
        for one in together:
            say(f"together, {counted(one.rows_kept, 'row')} read: {one.derived[-1]}")
    for n_rows, refused in filter(None, map(_refit_use, together)):
        click.echo(f"`fit` can use {counted(n_rows, 'row')}")
        _print_reasons("not used in the fit", _lines(refused))
    if output is not None:
        say(f"{counted(together[0].rows_kept, 'row')} written to {output}")
    for plain in filter(None, (_plain_sweep_text(one, output) for one in together)):
        say(plain)


def _refit_use(result: Measured) -> tuple[int, Sequence[Refused]] | None:
    """Rows that `fit` could use, of whichever accelerator and engine, and those it would not with the reason.

    None for kernel times.
    """
    from advisor.measured.points import refit_points

    if result.kind != "points" or not result.rows_kept:
        return None
    points, refused = refit_points(result.frame)
    return len(points), refused


def _lines(refused: Sequence[Refused]) -> list[tuple[str, int, int]]:
    return [(each.reason, each.line, each.rows) for each in refused]


@click.command()
@click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@reading_options("values", "columns", "models")
@click.option(
    "--hardware",
    "hardware_id",
    help="Refit this accelerator's rows, an id or a path to its JSON [default: the pair with most rows].",
)
@click.option("--engine", help="Refit this engine's rows.")
@click.option("--accepted-length", metavar="X@K", help="Accepted length X at K, for rows that give none.")
@click.option("--acceptance", help="a1,a2,...: chance that draft token i is accepted, for rows that give no length.")
@click.option("--acceptance-preset", help="Id of a measured acceptance curve, for rows that give no length.")
@path_option("--output", "-o", help="Write the refit here, for --refit of other commands.")
@click.option("--force", is_flag=True, help="Write the refit even if the checks reject it.")
@json_option()
def fit(paths: Sequence[Path], output: Path | None, force: bool, as_json: bool, **given: Any) -> None:
    """Refit overheads and efficiencies on the points of one or more files, and say what changed.

    `advise`, `curve`, `design` and the other commands that take a scenario predict with it by --refit.
    """
    from advisor.catalog.adjustment import write_adjustment
    from advisor.measured.moesd import moesd_of
    from advisor.measured.refit import adjustment_of, refit_chosen

    show = progress("fitting")
    rows, failed, points, refused = _rows_to_fit(paths, given, not as_json)
    show(f"{len(points)} points", 0.0)
    answer, small = refit_chosen(points, refused, rows.result.header_of), moesd_of(points)
    show(1.0)
    text = write_adjustment(adjustment_of(answer)) if force or not answer.reasons_against else None
    if output is not None and text is not None:
        write_file(output, f"{text}\n")
    if as_json:
        compared = answer.rows.to_dict("records")
        said = {k: v for k, v in vars(answer).items() if k != "rows"}
        said |= {
            "warnings": rows.result.warnings,
            "sentence": answer.sentence,
            "reasons_against": answer.reasons_against,
            "refit": text,
        }
        print_json({**said, "rows": compared, "moesd": small})
        _check_written(output, text, answer.reasons_against)
        return
    _print_failed(failed)
    print_labelled("warning", rows.result.warnings)
    say(answer.sentence + "\n")
    print_table(Table(PARAMETERS, answer.parameters))
    for note in notes(answer):
        say(note)
    if small is not None:
        say(f"\nMoESD's ten-parameter form fits the {small.n_points} speedups with an RMS error of {small.rms:.2f}.")
    _print_reasons("not used in the fit", _lines(answer.refused))
    click.echo("")
    print_labelled("rejected by the checks", answer.reasons_against)
    if text is not None:
        how = f"advise ... --refit {output}" if output else "--output FILE here, then advise ... --refit FILE"
        click.echo(f"To use it: {how}")
    if plain := _plain_sweep_text(rows.result, None):
        say(plain)
    _check_written(output, text, answer.reasons_against)


def _rows_to_fit(
    paths: Sequence[Path], given: Mapping[str, Any], aloud: bool
) -> tuple[Measured, list[dict[str, str]], list[Point], list[Refused]]:
    """The rows of the files, the files that cannot be read, the points to fit, and the rows that are none.

    given : the other options of `fit`. aloud : whether what was concluded while reading is printed. Raises AdvisorError
    with the columns that the files lack.
    """
    from advisor.measured.refit import select_points

    hardware_id, engine = given["hardware_id"], given["engine"]
    stated = given_acceptance(given["accepted_length"], given["acceptance"], given["acceptance_preset"])
    own = Own.given(given["models"], [hardware_id] if hardware_id else [])
    hardware_id = next((one.name for one in own.documents if one.column == "hardware_id"), hardware_id)
    read, failed = read_all(files_in(paths), given["values"], given["columns"], own)
    rows = combine(read)
    if rows.kind != "points":
        raise AdvisorError(
            f"{rows.file_name} holds kernel times; a refit needs served runs (speedup, step or token times)"
        )
    if aloud:
        _print_said(rows.result)
    try:
        points, refused = select_points(rows.result.frame, hardware_id=hardware_id, engine=engine, acceptance=stated)
    except AdvisorError as error:
        needed = [f"--set {item.name}=..." for item in rows.result.missing if item.needed]
        lacks = f"{error}; the file lacks {' '.join(needed)} (`advisor ingest` says what each means)"
        raise (AdvisorError(lacks) if needed else error) from error
    return rows, failed, list(points), list(refused)


def _print_failed(failed: Iterable[Mapping[str, str]]) -> None:
    for item in failed:
        say(f"skipped file {item['file']}: {item['reason']}")


_SWEPT = 3
"""Batches of plain decoding that --plain-sweep needs at least. [-]"""


def _plain_sweep_text(result: Measured, written: Path | None) -> str:
    """How plain runs at several batches are used as they were measured. Empty where there are too few."""
    if result.kind != "points" or not result.rows_kept:
        return ""
    plain = result.frame[result.frame["draft_tokens_k"].fillna(-1) == 0]
    if plain["batch_size"].nunique() < _SWEPT:
        return ""
    first = "" if written else "`ingest ... --output my_runs.csv`, then "
    return (
        f"Plain decoding at {plain['batch_size'].nunique()} batches is among the rows: {first}"
        f"`advise ... --plain-sweep {written or 'my_runs.csv'}` predicts from those times themselves."
    )


def _check_written(output: Path | None, text: str | None, reasons: Sequence[str]) -> None:
    """Raise AdvisorError when a refit was asked for as a file and the data speak against it."""
    if output is not None and text is None:
        raise AdvisorError(f"{output} is not written: {' '.join(reasons)} --force writes it anyway")


def _write_rows(path: Path, together: Sequence[Measured]) -> None:
    """Write the usable rows of all files in the columns of docs/formats.md. Raises AdvisorError unless of one kind."""
    if len(together) != 1:
        found = " and ".join(one.kind for one in together) or "nothing that can be used"
        raise AdvisorError(f"{path} is not written: the files hold {found}; --output takes files of one kind")
    write_file(path, csv_of(together[0].frame.dropna(axis=1, how="all")))


def _summary(result: Measured) -> dict[str, Any]:
    return {
        "file": result.file_name,
        "format": result.format_id,
        **{name: getattr(result, name) for name in ("format_name", "kind", "sha256")},
        **{name: getattr(result, name) for name in ("rows_read", "rows_kept", "rows_refused")},
        **{name: getattr(result, name) for name in ("ready", "missing", "derived", "warnings")},
        "asked": [one.text for one in open_questions(result.rejects)],
        "rejects": result.rejects.head(200).to_dict("records"),
    }


def _print_result(result: Measured) -> None:
    say(
        f"{result.file_name}: {result.format_name}; {counted(result.rows_kept, 'row')} read, "
        f"{result.rows_refused:,} rejected"
    )
    for item in result.missing:
        need = "needed" if item.needed else "useful"
        guess = f" (the file suggests {item.prefill})" if item.prefill is not None else ""
        _item(f"{need}: --set {item.name}=...  {item.meaning}; missing in {counted(item.rows, 'row')}{guess}")
    for asked in open_questions(result.rejects):
        _item(f"needed: {asked.options}  {asked.text}")
    for text in result.derived:
        _item(f"{text}")
    if result.kind == "points" and (length := measured_length(result.frame)) is not None:
        _item(f"to predict with the accepted length of these runs: advise ... --accepted-length {length}")
    for line, rates in _acceptances(result):
        _item(f"to use the acceptance measured in line {line}: --acceptance {rates}")
    for text in result.warnings:
        _item(f"warning: {text}")
    for reject in result.rejects.head(10).to_dict("records"):
        _item(f"line {reject['line']}, {reject['column'] or 'row'} {reject['value']!r}: {reject['reason']}")
    if len(result.rejects) > 10:
        _item(f"... {len(result.rejects) - 10:,} more reasons; write them with --rejects FILE.csv")


def _item(text: str) -> None:
    """Print a text under its heading, in lines that fit the terminal."""
    for line in wrapped(text, text_width() - 2):
        click.echo(f"  {line}")


def _print_said(result: Measured) -> None:
    """What was concluded or refused while reading, before a fit: names, formats, rounding, refused rows by reason."""
    for text in result.derived:
        if text.startswith(tuple(NAME_COLUMNS)) or "as you say" in text:
            say(f"read: {text}")
    for text in result.warnings:
        say(f"warning: {text}")
    for asked in open_questions(result.rejects):
        say(f"needed, with {asked.options}: {asked.text}")
    if result.kind == "points":
        means = result.frame[["input_tokens", "output_tokens"]].to_numpy(dtype=float, na_value=0.0)
        rounded = int((means % 1 != 0).any(axis=1).sum())
        if rounded:
            say(f"read: mean lengths of {counted(rounded, 'row')} rounded to whole tokens")
    rejects = result.rejects.to_dict("records")
    _print_reasons("rejected", ((str(each["reason"]), int(each["line"]), 1) for each in rejects))


def _acceptances(result: Measured) -> list[tuple[int, str]]:
    """Line and conditional probabilities of up to three runs that measured acceptance by position."""
    if result.kind != "points":
        return []
    out = []
    for line, text in result.frame["acceptance_by_position"].dropna().drop_duplicates().head(3).items():
        try:
            out.append((int(line), rates_from_list(text).text))
        except AdvisorError as error:
            out.append((int(line), f"not possible: {error}"))
    return out


def _print_reasons(label: str, rows: Iterable[tuple[str, int, int]]) -> None:
    """Reasons with the number of rows and the first lines, most rows first.

    rows : reason, line, number of rows.
    """
    for reason, lines in alike(rows):
        shown = ", ".join(map(str, [*dict.fromkeys(lines)][:5])) + (", ..." if len(lines) > 5 else "")
        print_labelled(f"{label}, {counted(len(lines), 'row')} (line {shown})", [reason])


def _points(
    file: Path, columns: Sequence[str], models: Sequence[str], hardware: Sequence[str]
) -> tuple[GivenRows, pd.DataFrame]:
    found = read_points(file, columns)
    return found, with_own(found.asked, models, hardware, file.parent)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@reading_options("cells", "assume", "columns", "models", "hardware")
@path_option("--output", "-o", help="Write here instead of standard output.")
@json_option("Rows as JSON instead of CSV.")
def predict(
    file: Path,
    values: Sequence[str],
    columns: tuple[str, ...],
    models: Sequence[str],
    hardware: Sequence[str],
    output: Path | None,
    as_json: bool,
) -> None:
    """Add predicted speedup, band, tier and reason to the rows of FILE.

    The columns are those of measurements/published_speedups.

    An accepted_length counts as borrowed, with a wider band, unless accepted_length_same_run is 1.
    """
    found, asked = _points(file, columns, models, hardware)
    show = progress("predicting")
    answers = predict_rows(asked, dict(map(pair, values)), refused=found.refused, on_progress=show)
    show(1.0)
    answers = answers[list(PREDICTED_COLUMNS)]
    given = found.given.drop(columns=list(PREDICTED_COLUMNS), errors="ignore")  # of an earlier prediction
    rows = pd.concat([given.reset_index(drop=True), answers], axis=1)
    text = json_text(_records(rows)) + "\n" if as_json else frame_csv(rows, float_format="%.6g")
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)
    refused = int(rows["predicted_speedup"].isna().sum())
    click.echo(f"{len(rows) - refused} rows predicted, {refused} not predicted (see predicted_reason).", err=True)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@reading_options("cells", "assume", "columns", "models", "hardware")
@json_option("Machine-readable output: overall, by_laboratory, rows.")
def validate(
    file: Path | None,
    values: Sequence[str],
    columns: tuple[str, ...],
    models: Sequence[str],
    hardware: Sequence[str],
    as_json: bool,
) -> None:
    """Errors of the predictions on FILE, or on the shipped published measurements."""
    show = progress("predicting")
    if file is None:
        if columns or models or hardware:
            raise AdvisorError("--map, --model and --hardware need FILE")
        result = validate_points(judged_rows(), dict(map(pair, values)), on_progress=show)
    else:
        found, asked = _points(file, columns, models, hardware)
        marked = found.given.get("defect", "")
        result = validate_points(asked.assign(defect=marked), dict(map(pair, values)), found.refused, show)
    show(1.0)
    if as_json:
        print_json(
            {
                "overall": result.overall,
                "by_laboratory": result.by_laboratory,
                "by_tier": result.by_tier,
                "by_acceptance": result.by_acceptance,
                "best_k_regret": result.best_k_regret,
                "n_best_k": result.n_best_k,
                "n_refused": result.n_refused,
                "rows": _records(result.rows),
            }
        )
        return
    groups = [("all rows", result.overall), *result.by_acceptance.items(), *result.by_tier.items()]
    print_table(_errors_table("rows", groups))
    click.echo("\nBy source; every other line is a mean over sources")
    print_table(_errors_table("source", result.by_laboratory.items()))
    if result.best_k_regret is not None:
        click.echo(
            f"\nLoss of the recommended K: {result.best_k_regret:.1%} over {result.n_best_k} points with several K."
        )
    reasons = result.rows.loc[result.rows["predicted_speedup"].isna(), "predicted_reason"]
    click.echo(f"\n{result.n_refused} rows not predicted")
    for reason, lines in alike((str(each).removeprefix("not predicted: "), 0, 1) for each in reasons):
        click.echo(f"{len(lines):5d}  {reason}")


_PARTICULAR = re.compile(r"(?<!\w)\d[\d.,]*(?!\w)|'[^']*'|\"[^\"]*\"|(?<=for )\S+ with \S+")
"""Numbers and names: what reasons that say the same differ in."""


def alike(rows: Iterable[tuple[str, int, int]]) -> list[tuple[str, list[int]]]:
    """Reasons with the lines of their rows, most rows first. Those that differ in numbers or names alone are one.

    rows : reason, line, number of rows. A group is told by its first reason, with how many others there are.
    """
    groups: dict[str, dict[str, list[int]]] = {}
    for reason, line, number in rows:
        group = groups.setdefault(_PARTICULAR.sub("#", reason), {})
        group.setdefault(reason, []).extend([line] * number)
    told = []
    for group in groups.values():
        others = len(group) - 1
        more = f" (and {others:,} more that differ in numbers or names)" if others else ""
        told.append((next(iter(group)) + more, [line for lines in group.values() for line in lines]))
    return sorted(told, key=lambda each: -len(each[1]))


_ERRORS = {
    "median error": "median_ape",
    "mean error": "mape",
    "p90": "p90_ape",
    "right side of 1x": "sign_accuracy",
    "in likely range": "coverage",
    "width of range": "mean_band_width",
}


def _errors_table(label: str, rows: Iterable[tuple[str, Errors]]) -> Table[dict[str, Any]]:
    """Errors of groups of rows, each under its name."""
    shares = (Column[dict[str, Any]](heading, itemgetter(name), _percent) for heading, name in _ERRORS.items())
    named = Column[dict[str, Any]](label, itemgetter(label), words=True)
    return Table((named, Column("n", itemgetter("n")), *shares), [{label: name, **vars(one)} for name, one in rows])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: None if value != value else value for name, value in row.items()} for row in frame.to_dict("records")
    ]


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[BEFORE] [FILE]")
@click.option("--rates", help="Rates by draft position instead of a file, e.g. 0.72,0.51,0.35.")
@click.option(
    "--conditional",
    is_flag=True,
    help="The list gives each rate given that all tokens before were accepted [default: share of all rounds].",
)
@click.option("--k-max", type=click.IntRange(1, 64), default=16, show_default=True, help="Longest draft to show.")
@json_option()
def acceptance(files: tuple[Path, ...], rates: str | None, conditional: bool, k_max: int, as_json: bool) -> None:
    """Accepted length by K from FILE. With BEFORE, an earlier scrape, only what was counted in between.

    FILE: the text of vLLM's or SGLang's /metrics, JSON with an acceptance histogram (AIPerf, vLLM's replies), or a
    golden curve of InferenceX.
    """
    found = _read(files, rates, conditional)
    lengths = found.accepted_lengths(k_max)
    if as_json:
        print_json(
            {
                "acceptance": found.text,
                "conditional": found.conditional,
                "n_drafts": found.n_drafts,
                "relative_error": found.relative_error,
                "source": found.source,
                "warnings": found.warnings,
                "accepted_lengths": lengths.to_dict("records"),
            }
        )
        return
    click.echo(f"{found.source}\n")
    rows = [
        (
            row.n_draft,
            f"{row.accepted_length:.3f}",
            f"{row.low:.3f}",
            f"{row.high:.3f}",
            "measured" if row.measured else "last probability held",
        )
        for row in lengths.itertuples()
    ]
    print_table(matrix(("K", "accepted length", "likely from", "to", ""), rows, "rrrrl"))
    print_labelled("warning", found.warnings)
    option = "--acceptance" if found.length is None else "--accepted-length"
    click.echo(f"\nTo use it: {option} {found.text}")


def _read(files: tuple[Path, ...], rates: str | None, conditional: bool) -> AcceptanceRates:
    if (rates is None) == (not files) or len(files) > 2:
        raise AdvisorError("give one or two files of vLLM's /metrics (the earlier one first), or --rates, not both")
    if rates is not None:
        return rates_from_list(rates, conditional)
    *before, last = files
    earlier = (before[0].name, read_bytes(before[0])) if before else None
    return read_acceptance_file(last.name, read_bytes(last), earlier, conditional)
