"""Measured rows of one or more uploads, one type from the file on: each stage adds cells and what
is said of them.

Quantities are computed, rules checked and baselines looked for once, when the result is asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from advisor.catalog.hardware import hardware_meant
from advisor.catalog.models import model_ids, model_meant
from advisor.measured.ingest.cells import check_text, strings, to_numbers
from advisor.measured.ingest.checks import check_rows
from advisor.measured.ingest.columns import (
    COLUMNS,
    CanonicalColumn,
    TableKind,
    lacks_document,
    named_format,
    told_apart,
)
from advisor.measured.ingest.derived import derive_rows, match_baselines, plain_by_chunks
from advisor.measured.ingest.result import (
    OF_ONE_RUN,
    SWAPS,
    MissingField,
    ReadNote,
    at_lines,
    missing_fields,
    noted,
    open_questions,
    rejects_frame,
    rows_noted,
    shorten,
    warned,
)
from advisor.measured.ingest.upload import MAX_REJECTS, MAX_ROWS, one_sentence
from advisor.measured.readers.base import NAME_MAPS
from advisor.measured.row_questions import copies_sharing
from advisor.prediction import AdvisorError

_LINES_NAMED = 5


@dataclass(frozen=True)
class RowSource:
    """One file of a table, and what its reader said of it."""

    format_id: str
    format_name: str
    file_name: str
    sha256: str
    rows_read: int
    last_line: int
    """The last line that is kept or refused, counted in the file itself."""
    notes: tuple[ReadNote, ...]
    prefill: dict[str, Any]
    """Guesses at what the file lacks, to be confirmed."""
    headers: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """The file's own header of each column that it has, and the factor from its unit to ours."""
    before: int = 0
    """Lines of the files before it in the table."""
    lines: Mapping[int, int] = field(default_factory=dict)
    """The file's own line of each row's, where it was read as another table."""

    def holds(self, lines: np.ndarray) -> np.ndarray:
        """Mask of the table's lines that are this file's."""
        return (lines > self.before) & (lines <= self.before + self.last_line)


def saying(
    sources: Iterable[RowSource], note: ReadNote, lines: np.ndarray
) -> tuple[RowSource, ...]:
    """Files, with a note more where some of the lines that it speaks of are their own."""
    return tuple(
        replace(source, notes=(*source.notes, note)) if source.holds(lines).any() else source
        for source in sources
    )


@dataclass(frozen=True)
class UnknownName:
    """A hardware or model name that fits no single known id, and the lines that bear it,
    [lines]."""

    column: str
    text: str
    lines: np.ndarray

    def warning(self, source: RowSource, usable: pd.Index) -> ReadNote | None:
        """Warning with the places of the name in one file, of the usable lines.

        None where it does not stand there.

        Rows stay usable under such a name, since what it means can still be given.
        """
        inside = self.lines[source.holds(self.lines)]
        if not len(inside):
            return None
        lines = [
            source.lines.get(line, line)
            for line in (inside[np.isin(inside, usable)] - source.before).tolist()
        ]
        note = warned("name_unknown", column=self.column, stated=shorten(self.text))
        return at_lines(note, lines, _LINES_NAMED)


@dataclass(frozen=True)
class Measured:
    """Rows of one or more files. Each stage returns new ones that know more; `result` has been
    through all of them.

    `frame` has every canonical column of its kind; its index, named `line`, is the line in the file
    (for one JSON document, the number of the record in it), counted on through the files. `rejects`
    has the columns line, column, value, reason; a refused row appears once per reason and is not in
    `frame`.
    """

    kind: TableKind
    frame: pd.DataFrame
    rejects: pd.DataFrame
    sources: tuple[RowSource, ...]
    unknown: tuple[UnknownName, ...] = ()
    missing: tuple[MissingField, ...] = ()
    derived: tuple[ReadNote, ...] = ()
    speedups: tuple[ReadNote, ...] = ()
    """The last of `derived`: where speedups are from, and why some rows have none."""
    warnings: tuple[ReadNote, ...] = ()
    rows_repeated: int = 0
    """Measured left out because another equals them in every cell; neither in `frame` nor refused.
    [-]"""

    @property
    def file_name(self) -> str:
        """The file's name, or how many files there are."""
        return self.sources[0].file_name if len(self.sources) == 1 else f"{len(self.sources)} files"

    @property
    def format_name(self) -> str:
        """The tools whose files these are."""
        return ", ".join(dict.fromkeys(source.format_name for source in self.sources))

    @property
    def format_id(self) -> str:
        """The formats of the files."""
        return ", ".join(dict.fromkeys(source.format_id for source in self.sources))

    @property
    def sha256(self) -> str:
        """Hash of the file, or of the hashes of several in any order."""
        hashes = sorted(source.sha256 for source in self.sources)
        return (
            hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
        )

    @property
    def rows_read(self) -> int:
        """Rows of the files. [-]"""
        return sum(source.rows_read for source in self.sources)

    @property
    def rows_kept(self) -> int:
        """Measured in `frame`. [-]"""
        return len(self.frame)

    @property
    def rows_refused(self) -> int:
        """Rows of the file that are not in `frame`. [-]"""
        return int(self.rejects["line"].nunique()) if len(self.rejects) else 0

    @property
    def ready(self) -> bool:
        """Whether nothing needed is missing or open, so that the rows can be held against
        predictions."""
        return not any(
            missing_field.required for missing_field in self.missing
        ) and not open_questions(self.rejects)

    @property
    def swapped(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns that look as if they had changed places.

        By their cells, and in a result also by what rows contradict.
        """
        of_cells = (note for source in self.sources for note in source.notes)
        notes = (dict(note.facts) for note in (*of_cells, *self.warnings) if note.kind in SWAPS)
        return tuple(dict.fromkeys((facts["first"], facts["second"]) for facts in notes))

    def header_of(self, column: str, line: int) -> tuple[str, float] | None:
        """Name of a column in the file at a line, and the factor from its unit to ours. None where
        it has none."""
        headers = next(
            (source.headers for source in self.sources if source.holds(np.array(line)).any()), {}
        )
        # A time that stands beside another one is read from its value with drafts.
        return headers.get(column) or (headers.get("sd_value") if column == "tpot_s" else None)

    def own_line(self, line: int) -> int:
        """Line of a row in the file itself, counted on through the files."""
        for source in self.sources:
            if source.holds(np.array(line)):
                inside = line - source.before
                return source.lines.get(inside, inside) + source.before
        return line

    def at_own_lines(self, note: ReadNote) -> ReadNote:
        """A note that names lines of rows, with those of the file itself."""
        facts = dict(note.facts)
        for name in facts.keys() & {"line", "plain_line"}:
            facts[name] = self.own_line(facts[name])
        if "lines" in facts:
            facts["lines"] = tuple(dict.fromkeys(map(self.own_line, facts["lines"])))
        return replace(note, facts=tuple(facts.items()))

    def in_own_lines(self, text: str) -> str:
        """A sentence that names lines of rows, with those of the file itself."""

        def file_lines(match: re.Match[str]) -> str:
            return ", ".join(
                dict.fromkeys(str(self.own_line(int(line))) for line in match[0].split(", "))
            )

        return re.sub(r"(?<=\bline )\d+(?:, \d+)*", file_lines, text)

    @cached_property
    def result(self) -> Measured:
        """The rows with everything computed, checked and matched. Raises AdvisorError, and nothing
        else."""
        with one_sentence(self.file_name):
            return evaluate(self)


def combine(tables: Sequence[Measured]) -> Measured:
    """One table with the rows of all. Baselines are then looked for among all of them.

    Lines are counted on through the files in the order given, and the notes say where each file
    begins. The hash is that of the files' hashes, in any order. Raises AdvisorError for kernel
    tables among served runs and for too many rows; one table comes back as it is.
    """
    if len(tables) == 1:
        return with_baselines(tables)[0]
    if len({table.kind for table in tables}) > 1:
        file_names = ", ".join(f"{table.file_name} ({table.format_name})" for table in tables)
        raise AdvisorError(
            f"kernel tables and served runs cannot be read as one; upload them apart: {file_names}"
        )
    if sum(len(table.frame) for table in tables) > MAX_ROWS:
        raise AdvisorError(
            f"the files have more than {MAX_ROWS:,} rows together; upload them apart"
        )
    before = 0
    frames = []
    refused = []
    sources = []
    unknown = []
    for table in with_baselines(tables):
        frames.append(table.frame.set_axis(table.frame.index + before))
        refused.append(table.rejects.assign(line=table.rejects["line"] + before))
        sources += [replace(source, before=source.before + before) for source in table.sources]
        unknown += [replace(name, lines=name.lines + before) for name in table.unknown]
        before += sum(source.last_line for source in table.sources)
    rejects = pd.concat(refused, ignore_index=True)
    return Measured(tables[0].kind, pd.concat(frames), rejects, tuple(sources), tuple(unknown))


def with_baselines(tables: Sequence[Measured]) -> list[Measured]:
    """Tables with K = 0 in runs that the others show to be the baseline, which a note says."""
    if not tables or any(table.kind != "points" for table in tables):
        return list(tables)
    plain = iter(plain_by_chunks(pd.concat([table.frame for table in tables])).tolist())
    out = []
    for table in tables:
        rows = np.array([next(plain) for _ in range(len(table.frame))], dtype=bool)
        if rows.any():
            k = table.frame["draft_tokens_k"].mask(rows, 0)
            (note,) = rows_noted(no_chunks=rows)
            lines = table.frame.index[rows].to_numpy()
            sources = saying(table.sources, note, lines)
            table = replace(table, frame=table.frame.assign(draft_tokens_k=k), sources=sources)
        out.append(table)
    return out


def complete(rows: Measured, values: Mapping[str, Any], override: bool = False) -> Measured:
    """The table with context filled in: each value goes into the empty cells of its column.

    With `override`, it replaces what the file says in that column as well (a hardware name by a
    profile's id, say). Raises AdvisorError when a name is no context column of this kind of table
    or a value is not allowed in it; blank values are skipped.
    """
    spec = COLUMNS[rows.kind]
    frame = rows.frame.copy(deep=False)
    chosen = set[str]()
    for name, value in values.items():
        column = spec.get(name)
        if column is None or not column.context:
            allowed = ", ".join(
                known_column.name for known_column in spec.values() if known_column.context
            )
            raise AdvisorError(f"{name!r} cannot be filled in; choose among {allowed}")
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if (file_values := _one_a_file(rows, name, value)) is not None:
            frame[name] = frame[name].fillna(file_values)
            continue
        typed = _one_value(column, value)
        if typed is not None:
            before = frame[name]
            frame[name] = _filled(before, typed, column, override)
            if name == "draft_tokens_k" and typed == 0:  # never of a row that names its drafter
                frame[name] = frame[name].mask(before.isna() & _names_drafter(frame))
            chosen |= {name} if override else set()
    unknown = tuple(name for name in rows.unknown if name.column not in chosen)
    return replace(rows, frame=frame, unknown=unknown)


def _names_drafter(frame: pd.DataFrame) -> pd.Series:
    """Rows that say by which drafter they were served, [rows]."""
    return frame["drafter"].notna() & ~frame["drafter"].isin(["none", ""])


NAME_COLUMNS = frozenset(
    {"hardware_id", "hardware", "model_id", "engine", "drafter", "weight_dtype"}
)
"""Columns of names. What a user says of one holds for every row, since a file may call a thing as
it likes; numbers that a file states are facts of its run and stay."""


def with_given(rows: Measured, values: Mapping[str, Any]) -> Measured:
    """Table completed by a user's values: they fill empty cells and replace names, which a note
    says.

    The weight format in a replaced model name is kept. Raises AdvisorError as `complete` does.
    """
    names = {
        name: value for name, value in values.items() if name in NAME_COLUMNS and name in rows.frame
    }
    other_values = {name: value for name, value in values.items() if name not in names}
    filled = complete(rows, other_values)
    if "model_id" in names and "weight_dtype" not in names:
        frame = filled.frame.copy(deep=False)
        sources = _with_named_formats(
            frame, filled.sources, frame["model_id"].dropna().unique(), formats_only=True
        )
        filled = replace(filled, frame=frame, sources=sources)
    changed = complete(filled, names, override=True)
    sources = changed.sources
    for name in names:
        before = rows.frame[name]
        after = changed.frame[name]
        replaced = before.notna() & (before != after)
        for text in before[replaced].unique():
            bearing = rows.frame.index[replaced & (before == text)].to_numpy()
            note = noted(
                "name_replaced",
                column=name,
                stated=shorten(text),
                n=len(bearing),
                name=shorten(values[name]),
            )
            sources = saying(sources, note, bearing)
    return replace(changed, sources=sources)


def resolve_names(rows: Measured, own_models: Collection[str] = ()) -> Measured:
    """Table with plain hardware and model names replaced by the one id each of them means, if any.

    Names that fit no id, or several, stay as they are; the result names them in a warning. A weight
    format that a model's name says fills empty cells, and is said. `own_models` are names of the
    user's own models, which stay.
    """
    columns: dict[str, Callable[[str], str | None]] = {"hardware": hardware_meant}
    if rows.kind == "points":
        columns = {"hardware_id": hardware_meant, "model_id": model_meant}
    frame = rows.frame.copy(deep=False)
    unknown = list[UnknownName]()
    sources = rows.sources
    for name, meant in columns.items():
        renamed: dict[str, str] = {}
        undocumented = lacks_document(frame, name)
        for text in frame.loc[undocumented, name].dropna().unique():
            known_id = text if text in own_models else meant(text)
            # 8xH100
            gpus_and_name = re.fullmatch(r"([1-9][0-9]{0,4})\s*[x×*]\s*(\S.*)", text, re.IGNORECASE)
            if (
                known_id is None
                and gpus_and_name
                and name == "hardware_id"
                and (known_id := meant(gpus_and_name[2]))
            ):
                bearing = (frame[name] == text) & frame["gpu_count"].isna()
                frame["gpu_count"] = frame["gpu_count"].mask(bearing, int(gpus_and_name[1]))
            if known_id is None:
                unknown.append(UnknownName(name, text, frame.index[frame[name] == text].to_numpy()))
            else:
                renamed[text] = known_id
        if name == "model_id":
            plain = [text for text in renamed if text not in model_ids() and text not in own_models]
            sources = _with_named_formats(frame, sources, plain)
        frame[name] = frame[name].mask(
            pd.Series(undocumented, frame.index), frame[name].replace(renamed)
        )
    return replace(rows, frame=frame, sources=sources, unknown=tuple(unknown))


def _with_named_formats(
    frame: pd.DataFrame,
    sources: tuple[RowSource, ...],
    names: Iterable[str],
    formats_only: bool = False,
) -> tuple[RowSource, ...]:
    """Fill empty weight types of `frame` from names of known models. Each file with what is to be
    said of its names."""
    for text in names:
        weight_format, remark = named_format(text)
        facts = {"stated": shorten(text), "remark": remark}
        bearing = frame["model_id"] == text
        empty = bearing & frame["weight_dtype"].isna()
        if weight_format is not None and empty.any():
            frame["weight_dtype"] = frame["weight_dtype"].mask(empty, weight_format)
            note = noted("format_of_name", format=weight_format, **facts)
            bearing = empty
        elif formats_only or remark == "":
            continue
        else:
            note = noted("name_remark", **facts)
        lines = frame.index[bearing].to_numpy()
        sources = saying(sources, note, lines)
    return sources


def values_of_files(value: Any, n_files: int) -> list[str]:
    """The values of a text that may name one for each of several files (`8, 16, 32`). Empty where
    it names one."""
    parts = re.split(r"\s*[,;]\s*|\s+", str(value).strip()) if n_files > 1 else []
    return parts if len(parts) > 1 else []


def lacking_files(rows: Measured, name: str) -> list[RowSource]:
    """Files of a table with a row that does not state a column, in order."""
    empty = rows.frame.index[rows.frame[name].isna()].to_numpy()
    return [source for source in rows.sources if source.holds(empty).any()]


def _one_a_file(rows: Measured, name: str, value: Any) -> pd.Series | None:
    """Values of each file for its own rows [rows], where a text names several. None where it names
    one for all.

    Raises AdvisorError where they are not as many as the files that lack the column.
    """
    files = lacking_files(rows, name) if name in OF_ONE_RUN else []
    parts = values_of_files(value, len(files))
    if not parts:
        return None
    if len(parts) != len(files):
        file_names = ", ".join(source.file_name for source in files[:_LINES_NAMED]) + (
            "..." if len(files) > _LINES_NAMED else ""
        )
        raise AdvisorError(
            f"{name}={shorten(value)!r} names {len(parts)} values for {len(files)} files that "
            f"lack it ({file_names}); give one for all, or one for each in this order"
        )
    out = pd.Series(np.nan, index=rows.frame.index)
    for source, part in zip(files, parts, strict=True):
        out[source.holds(rows.frame.index.to_numpy())] = _one_value(COLUMNS[rows.kind][name], part)
    return out.astype(rows.frame[name].dtype)


def _one_value(column: CanonicalColumn, value: Any) -> Any:
    """One context value in the column's type. Raises AdvisorError naming the field."""
    text = strings([value])
    if column.numeric:
        numbers, bad = to_numbers(text, column, 1.0, None)
    else:
        bad = check_text(text, column)
    if bad.rows:
        raise AdvisorError(f"{column.name}={bad.values[0]!r}: {bad.reasons[0]}")
    if text[0].as_py() is None:
        return None
    if not column.numeric:
        word = text[0].as_py()
        rename = NAME_MAPS.get(column.name)
        return rename(word) if rename else word
    return int(numbers[0]) if column.type == "integer" else float(numbers[0])


def _filled(series: pd.Series, value: Any, column: CanonicalColumn, override: bool) -> pd.Series:
    if not override and series.notna().any():
        return series.fillna(value)
    if column.numeric:
        return pd.Series(value, index=series.index, dtype=series.dtype)
    text = pa.repeat(pa.scalar(value, pa.large_string()), len(series))
    return pd.Series(text.to_pandas(), dtype="str").set_axis(series.index)


def evaluate(rows: Measured) -> Measured:
    """The result of a table: empty quantities computed, rules checked, speedups over baselines
    matched."""
    unique, repeated = without_repeats(told_apart(rows.frame))
    frame, computed = derive_rows(unique) if rows.kind == "points" else (unique, None)
    checked = check_rows(frame, rows.kind)
    keep = checked.keep
    broken = [replace(reject, line=rows.own_line(reject.line)) for reject in checked.rejects]
    missing_from = frame if not keep.any() else None
    frame = frame if keep.all() else frame[keep]
    notes = [*_notes_of_readers(rows, frame.index), *map(rows.at_own_lines, checked.notes)]
    speedups: list[ReadNote] = []
    if repeated:
        notes.append(warned("repeated", n=repeated))
    if computed is not None:
        notes += computed.notes(keep)
        several = copies_sharing(frame)
        if (several > 1.0).any():
            notes.append(noted("copies", n=int((several > 1.0).sum()), copies=int(several.max())))
        if len(frame):
            frame, matched = match_baselines(frame)
            speedups = [rows.at_own_lines(note) for note in matched]
    rejects = (
        pd.concat([rows.rejects, rejects_frame(broken)], ignore_index=True)
        if broken
        else rows.rejects
    )
    rejects = rejects.sort_values("line", kind="stable", ignore_index=True)
    if len(rejects) > MAX_REJECTS:
        notes.append(warned("reasons_cut", n=len(rejects)))
        rejects = rejects.head(MAX_REJECTS)
    prefills = [source.prefill for source in rows.sources]
    return replace(
        rows,
        frame=frame,
        rejects=rejects,
        missing=missing_fields(
            frame if missing_from is None else missing_from, rows.kind, prefills
        ),
        derived=(*(note for note in notes if not note.warns), *speedups),
        speedups=tuple(speedups),
        warnings=tuple(note for note in notes if note.warns),
        rows_repeated=repeated,
    )


def without_repeats(frame: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The frame with rows that equal an earlier one in every cell left out, and how many they were.

    Numbers are hashed first; only rows whose numbers are those of another are compared cell by
    cell.
    """
    if len(frame) < 2:
        return frame, 0
    numbers = frame.select_dtypes("number")
    code = np.zeros(len(frame), dtype=np.uint64)
    for name in numbers:
        if numbers[name].notna().any():
            bits = numbers[name].to_numpy(dtype=float, na_value=np.nan).view(np.uint64)
            code = (code ^ bits) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
    alike = pd.Series(code).duplicated(keep=False).to_numpy()
    if not alike.any():
        return frame, 0
    repeated = frame[alike].dropna(axis="columns", how="all").duplicated().to_numpy()
    if not repeated.any():
        return frame, 0
    keep = np.ones(len(frame), dtype=bool)
    keep[np.flatnonzero(alike)[repeated]] = False
    return frame[keep], int(repeated.sum())


def _notes_of_readers(rows: Measured, usable: pd.Index) -> list[ReadNote]:
    """What the readers note, and the names that fit no known id with the usable lines that bear
    them: each once, with its files where it is not of all of them."""
    notes: list[ReadNote] = []
    if len(rows.sources) > 1:
        starts = tuple((each.file_name, each.before + 1) for each in rows.sources)
        notes.append(noted("files", starts=starts))
    by_note: dict[ReadNote, list[str]] = {}
    for source in rows.sources:
        of_names = (name.warning(source, usable) for name in rows.unknown)
        for note in (*source.notes, *filter(None, of_names)):
            by_note.setdefault(note, []).append(source.file_name)
    for note, names in by_note.items():
        of_all = len(names) == len(rows.sources)
        notes.append(note if of_all else replace(note, files=tuple(names)))
    return notes


def of_files(names: Sequence[str]) -> str:
    """The first of some files before what is of them, `a.csv, b.csv: `. Empty for none."""
    more = ", ..." if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}: " if names else ""
