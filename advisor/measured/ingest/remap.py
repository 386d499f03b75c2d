"""A user's own headers and documents read as ours, and what a file that no reader claims nearly
is."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.catalog.hardware import hardware_meant
from advisor.catalog.models import model_meant
from advisor.measured.ingest.cells import Cells, bare_times, outside_range, table_header
from advisor.measured.ingest.columns import (
    COLUMNS,
    SAID,
    UNIT_FACTORS,
    TableKind,
    header_key,
    match_header,
)
from advisor.measured.ingest.result import shorten, warned
from advisor.measured.ingest.several_k import one_row_a_k
from advisor.measured.ingest.side_by_side import (
    IGNORED,
    METRICS,
    SIDES,
    own_header,
    side_by_side,
)
from advisor.measured.ingest.upload import MAX_COLUMNS, Sample, open_upload
from advisor.measured.readers import FORMATS
from advisor.measured.readers.base import RawRows, field_of
from advisor.prediction import AdvisorError
from advisor.text import NO, NOT_STATED, YES, number_of

IGNORE = "ignore"
"""What a column is read as that takes no part."""
FIRST_ROWS = 3
_SHOWN_UNITS = ("s", "ms", "us")


@dataclass(frozen=True)
class Header:
    """A user's CSV column or JSON field: name, what it is or may be read as, and first cells."""

    theirs: str
    ours: str
    """A header of ours, with its unit where it is a time; IGNORE where nothing fits."""
    native: str | None
    """How the readers take it by themselves; None: they ignore it."""
    cells: tuple[str, ...]
    stands: str = ""
    """Column of the file that it is made of, where that is called otherwise."""


def own_headers(
    name: str, data: bytes, kind: TableKind = "points", swapped: Iterable[tuple[str, str]] = ()
) -> tuple[Header, ...]:
    """The columns of a CSV, or the fields of JSON records, with what each may be read as.

    () for anything else, and for a CSV whose headers are not distinct.

    Columns in `swapped` (`Measured.swapped`) are guessed the other way round.
    """
    try:
        sample = one_row_a_k(unfolded(open_upload(name, data)))
    except AdvisorError:
        return ()
    header, cells = _fields(sample) if sample.is_json else _columns(sample)
    if len(header) < 2 or len(set(header)) < len(header):
        return ()
    known = {cell: _with_unit(cell, kind) for cell in header} | _paired(header, kind)
    taken = {target for target in known.values() if target}
    exchange = _exchanged(known, swapped, kind)
    out = []
    for cell, first in zip(header, cells, strict=True):
        ours = (
            exchange.get(cell)
            or known[cell]
            or _named_in(first, kind, taken)
            or _guess(cell, first, kind, taken)
        )
        taken.add(ours)
        if cell:
            out.append(Header(cell, ours, known[cell], first, sample.shown.get(cell, "")))
    return tuple(out)


def _named_in(cells: Sequence[str], kind: TableKind, taken: set[str]) -> str:
    """The column whose names stand in the first cells, whatever its header says. Empty where
    neither's do."""
    meant = (
        {"hardware_id": hardware_meant, "model_id": model_meant}
        if kind == "points" and cells
        else {}
    )
    fits = (
        name
        for name, means in meant.items()
        if all(any(map(str.isalpha, cell)) and means(cell) for cell in cells)
    )
    return next((name for name in fits if name not in taken), "")


def _paired(header: Sequence[str], kind: TableKind) -> dict[str, str | None]:
    """Our names of the two columns that hold one quantity without and with drafts. Empty where
    there are none."""
    try:
        pair = side_by_side(header) if kind == "points" else None
    except AdvisorError:
        return {}
    return {} if pair is None else {header[place]: name for place, name in pair.names().items()}


def _columns(sample: Sample) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headers of a CSV and the first cells under each. Two empty lists where it cannot be read as
    one."""
    header = [cell.strip() for cell in sample.header]
    lines = [line for line in sample.head.splitlines() if line.strip() and not line.startswith("#")]
    try:
        rows = list(
            itertools.islice(csv.reader(lines, delimiter=sample.delimiter), 1, FIRST_ROWS + 1)
        )
    except csv.Error:
        return [], []
    if sample.kind != "text":
        return [], []
    return header, [
        tuple(shorten(row[i])[:40] for row in rows if i < len(row)) for i in range(len(header))
    ]


def _fields(sample: Sample) -> tuple[list[str], list[tuple[str, ...]]]:
    """Fields of the first JSON record and their first values."""
    paths = scalar_paths(sample.first)[:MAX_COLUMNS]
    firsts = [record for record in sample.records[:FIRST_ROWS] if isinstance(record, dict)]
    return paths, [
        tuple(shorten(field_of(record, path))[:40] for record in firsts) for path in paths
    ]


def scalar_paths(record: Mapping[str, Any], depth: int = 3, before: str = "") -> list[str]:
    """Paths of the values of a record that are no lists, objects descended into `depth` deep."""
    out: list[str] = []
    for key, value in record.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping):
            out += scalar_paths(value, depth - 1, f"{path}.") if depth > 1 else []
        elif not isinstance(value, list):
            out.append(path)
    return out


_DEEPEST = 4
_OF_THE_TOOL = frozenset({"id", "version", "context", "notes", "date", "derived"})
"""Names that stand beside a list of runs and speak of the file or its tool, not of the runs."""


def unfolded(sample: Sample) -> Sample:
    """A home-made JSON document as one record for each object of its longest list of objects.

    What holds of all are known settings (model, GPU, parallel sizes) in the objects around the
    list, which is said. Objects within a run are opened too (`metrics.tpot_ms`). The sample itself
    where it has no such list.
    """
    if sample.kind != "json" or not isinstance(sample.document, dict):
        return sample
    lists = [*_lists_of_objects(sample.document, {}, 0), ({}, _numbered("number", sample.document))]
    longest = max(lists, key=lambda pair: len(pair[1]))
    if not longest[1]:
        return sample
    around, runs = longest
    settings = {}
    for name, value in around.items():
        match = match_header(name, "points")
        if match is None or header_key(name) in _OF_THE_TOOL:
            continue
        if COLUMNS["points"][match[0]].context:
            settings[name] = value
    records = [{**settings, **_opened(run)} if isinstance(run, dict) else run for run in runs]
    notes = sample.notes
    if settings:
        notes = (*notes, warned("settings_around", names=tuple(map(shorten, settings))))
    lines = tuple(range(1, len(records) + 1))
    return replace(sample, document=records, records=tuple(records), lines=lines, notes=notes)


def _lists_of_objects(
    node: Any, around: dict[str, Any], depth: int
) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Lists of objects within a document, each with the scalars of the objects around it."""
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return
    beside = {**around, **_opened({k: v for k, v in node.items() if not isinstance(v, list)})}
    for name, value in node.items():
        if (
            isinstance(value, list)
            and value
            and all(isinstance(element, dict) for element in value[:FIRST_ROWS])
        ):
            yield beside, value
        elif numbered := _numbered(str(name), value):
            yield (
                {
                    **around,
                    **{
                        key: scalar
                        for key, scalar in node.items()
                        if not isinstance(scalar, list | dict)
                    },
                },
                numbered,
            )
            continue
        yield from _lists_of_objects(value, beside, depth + 1)


def _numbered(name: str, value: Any) -> list[dict[str, Any]]:
    """Runs that an object holds by number, as in `{"batch": {"1": {...}}}`, each with its number
    under the name."""
    if (
        not isinstance(value, Mapping)
        or len(value) < 2
        or not all(isinstance(run, Mapping) for run in value.values())
    ):
        return []
    numbers = [number_of(key) for key in value]
    if any(number is None for number in numbers):
        return []
    return [{**run, name: number} for number, run in zip(numbers, value.values(), strict=True)]


def _opened(record: Mapping[str, Any]) -> dict[str, Any]:
    """The scalars of a record by their last name, by their path where a last name stands twice."""
    paths = scalar_paths(record)
    last = [path.rpartition(".")[2] for path in paths]
    return {
        name if last.count(name) == 1 else path: field_of(record, path)
        for path, name in zip(paths, last, strict=True)
    }


def targets(kind: TableKind = "points") -> list[str]:
    """Headers of ours that a column may be read as, times once for each unit. IGNORE comes
    first."""
    out = [IGNORE]
    if kind == "points":
        out += [f"{side}_{metric}" for metric in METRICS for side in SIDES]
    for column in COLUMNS[kind].values():
        stem = column.name.removesuffix("_s")
        out += (
            [f"{stem}_{unit}" for unit in _SHOWN_UNITS]
            if column.unit == "s"
            else [column.name, *column.opposites[:1]]
        )
    return out


def likely_targets(item: Header, kind: TableKind = "points") -> list[str]:
    """Headers of `targets` that a column's cells can be: its own, those that share its words, the
    rest. IGNORE stands before those that share none."""
    words = {*header_key(item.theirs).split("_")}

    def apart(name: str) -> float:
        shared = words & ({*name.split("_")} | {*SAID.hints.get(name, ())})
        return float("-inf") if name == item.ours != IGNORE else -len(shared)

    return sorted(
        (
            name
            for name in targets(kind)
            if name in (IGNORE, item.ours) or _can_be(name, item.cells, kind)
        ),
        key=apart,
    )


def _can_be(target: str, cells: Sequence[str], kind: TableKind) -> bool:
    """Whether cells may be what one of `targets` holds: words are no number."""
    match = match_header(target, kind)
    column = COLUMNS[kind][match[0]] if match else None
    words = [cell.lower() for cell in cells if cell.lower() not in NOT_STATED]
    if not words or (
        column and (not column.numeric or (column.type == "flag" and {*words} <= YES | NO))
    ):
        return True
    return any(re.match(r"\W{0,2}[0-9]", cell) for cell in words)


def target_label(target: str, kind: TableKind = "points") -> str:
    """One of `targets` in words, its own name behind:
    `Time per output token of one request (tpot_ms)`."""
    side, _, metric = target.partition("_")
    if side in SIDES and metric in METRICS:
        drafts = "without drafts" if side == "baseline" else "with drafts"
        return f"{METRICS[metric].title}, {drafts} ({target})"
    match = match_header(target, kind)
    if match is None:
        return "(ignored)"
    column, factor = match
    title = COLUMNS[kind][column].title
    if column == "accepted_length":
        title += ", bonus token included"
    negation = "Not: " if factor < 0 else ""
    return f"{negation}{title} ({target})"


def rename_headers(sample: Sample, columns: Mapping[str, str]) -> Sample:
    """The sample with headers or JSON fields replaced by `columns` {theirs: ours}.

    Ours is any header that is understood, with its unit where it is a time (`tpot_ms`), or IGNORE;
    a field of nested JSON objects is named by its path (`metrics.tpot`). Raises AdvisorError when
    the file has no names, one is not in it or is there twice, or ours is not understood.
    """
    if sample.kind == "parquet":
        raise AdvisorError(
            f"{sample.name} has no header line to rename; columns can be mapped in a CSV or JSON "
            "only"
        )
    header = (
        scalar_paths(sample.first)
        if sample.kind != "text"
        else [cell.strip() for cell in sample.header]
    )
    for theirs, ours in columns.items():
        if header.count(theirs.strip()) != 1:
            there = "twice or more" if theirs.strip() in header else "not"
            first_headers = ", ".join(shorten(cell)[:40] for cell in header[:12])
            raise AdvisorError(
                f"{sample.name}: column {shorten(theirs)!r} is {there} in the header "
                f"({first_headers})"
            )
        bare = re.sub(r" k\d+$", "", ours.strip())  # of `with_k`
        if bare != IGNORE and not (
            own_header(bare) or any(match_header(bare, kind) for kind in COLUMNS)
        ):
            raise AdvisorError(
                f"{shorten(ours)!r} is no column that is understood; see the column list, and "
                "give times a unit as in tpot_ms"
            )
        _check_unit(sample.name, theirs, bare)
    stripped = {theirs.strip(): ours.strip() for theirs, ours in columns.items()}
    _check_twice(sample.name, stripped)
    if sample.kind != "text":
        return _rename_fields(sample, stripped)
    wanted = {
        theirs: f"{IGNORED}{theirs}" if ours == IGNORE else ours
        for theirs, ours in stripped.items()
    }
    line = io.StringIO()
    csv.writer(line, delimiter=sample.delimiter, lineterminator="").writerow(
        [wanted.get(cell, cell) for cell in header]
    )
    old = sample.first_line.encode()
    new = line.getvalue().encode()
    stood = {
        **sample.shown,
        **{ours: sample.shown.get(theirs, theirs) for theirs, ours in wanted.items()},
    }
    return replace(sample, data=sample.data.replace(old, new, 1), shown=stood)


def _check_twice(name: str, columns: Mapping[str, str]) -> None:
    """Raise AdvisorError where two columns are to be read as one and their headers do not tell
    their K."""
    for ours in {*columns.values()} - {IGNORE}:
        first, *others = [
            shorten(theirs)[:40] for theirs, meant in columns.items() if meant == ours
        ]
        if others:
            label = target_label(re.sub(r" k\d+$", "", ours)).rpartition(" (")[0]
            raise AdvisorError(
                f"{name}: {first!r} and {others[0]!r} are both to be read as {label!r}; keep one "
                "of them, or write into each header the K that it is of, as in K=3"
            )


_UNIT_SAID = re.compile(
    r"(?:^|[\s_(\[,])(?:(m)(?:s|secs?|illiseconds?)|([uµμ])s|(s)(?:ecs?|econds?)?)[)\]]?(?=$|[\s_,])"
)
"""A unit of time that stands as a word of its own in a header: `latency per token (ms)`, not
`tok/s`."""


def _check_unit(name: str, theirs: str, ours: str) -> None:
    """Raise AdvisorError where a header says one unit of time and the column that it is mapped to
    another."""
    target_unit = re.search(r"(?<!per)_(s|ms|us)$", header_key(ours))
    header_unit = _UNIT_SAID.search(re.sub(r"(?:/| per |_per_)\s*s\w*", "", theirs.lower()))
    if target_unit is None or header_unit is None:
        return
    unit = "ms" if header_unit[1] else "us" if header_unit[2] else "s"
    if unit != target_unit[1]:
        raise AdvisorError(
            f"{name}: the header {shorten(theirs)!r} says {unit}, and {ours.strip()} is in "
            f"{target_unit[1]}; map it to {header_key(ours).removesuffix(target_unit[1])}{unit}, "
            "or correct the header"
        )


def _rename_fields(sample: Sample, columns: Mapping[str, str]) -> Sample:
    """The sample with each field's value under our name at the top of its record. Its own field
    goes where it stands at the top too."""
    records = []
    for record in sample.records:
        if isinstance(record, dict):
            fields = {
                ours: field_of(record, theirs) for theirs, ours in columns.items() if ours != IGNORE
            }
            record = {key: value for key, value in record.items() if key not in columns} | fields
        records.append(record)
    return replace(
        sample,
        records=tuple(records),
        document=records if isinstance(sample.document, list) else records[0],
    )


def fill_mapped(raw: RawRows, sample: Sample, columns: Mapping[str, str]) -> None:
    """Fill rows of JSON records with the values of fields that a user named.

    A tool's own reader made the rows.

    The reader looks for its tool's names alone. Rows that stand for no single record stay as they
    are.
    """
    if not sample.is_json:
        return
    by_line = dict(zip(sample.lines, sample.records, strict=True))
    rows = [by_line.get(int(line)) for line in raw.lines]
    if len(rows) + len({reject.line for reject in raw.rejects}) < len(by_line):
        raw.notes.append(warned("several_records"))
        return
    for theirs, ours in columns.items():
        match = match_header(ours.strip(), raw.kind)
        if match is None:
            continue
        column, factor = match
        values = [record.get(ours.strip()) if isinstance(record, dict) else None for record in rows]
        raw.cells[column] = Cells(values, theirs.strip(), factor)


def _with_unit(header: str, kind: TableKind) -> str | None:
    """One of `targets` that means what a header means to the readers. None when it means nothing to
    them."""
    match = match_header(header, kind)
    if match is None:
        return None
    name, factor = match
    if COLUMNS[kind][name].unit != "s":
        return COLUMNS[kind][name].opposites[0] if factor < 0 else name
    unit = next((unit for unit in _SHOWN_UNITS if UNIT_FACTORS[unit] == factor), "s")
    return f"{name.removesuffix('_s')}_{unit}"


def _exchanged(
    known: Mapping[str, str | None], swapped: Iterable[tuple[str, str]], kind: TableKind
) -> dict[str, str]:
    """{theirs: ours} with each swapped pair the other way round."""
    out: dict[str, str] = {}
    for first, second in swapped:
        placed = {}
        for theirs, ours in known.items():
            match = match_header(ours, kind) if ours else None
            if match and match[0] in (first, second):
                placed[match[0]] = (theirs, str(ours))
        if len(placed) == 2:
            out |= {placed[first][0]: placed[second][1], placed[second][0]: placed[first][1]}
    return out


def _guess(header: str, cells: Sequence[str], kind: TableKind, taken: set[str]) -> str:
    """The one target that all words of a header speak for and all its cells can be, in the unit
    that it says. IGNORE without one."""
    words = set(header_key(header).split("_"))
    units = sorted(words & {*_SHOWN_UNITS})
    speaking = words - {*units, *SAID.beside}
    fits = []
    for column in COLUMNS[kind].values():
        stem = column.name.removesuffix("_s") if column.unit == "s" else column.name
        word_sets = [{*name.split("_")} for name in (stem, *column.aliases)]
        whole = [name for name in word_sets if name <= words and not name <= {*SAID.beside}]
        hinted = words & {*SAID.hints.get(column.name, ())}
        target = column.name
        if column.unit == "s":
            target = f"{stem}_{units[0]}" if len(units) == 1 else ""
        is_whole = bool(whole or hinted) and speaking <= hinted.union(word_sets[0], *whole)
        in_unit = column.unit == "s" or {*units} <= {*column.unit.split("/")[1:]}
        fresh = target and target not in taken
        if is_whole and in_unit and fresh and _all_can_be(target, cells, kind):
            fits.append(target)
    return fits[0] if len(fits) == 1 else IGNORE


def _all_can_be(target: str, cells: Sequence[str], kind: TableKind) -> bool:
    """Whether every cell is a number in the range of a target, a count whole and not 0 throughout;
    words where the target takes words."""
    match = match_header(target, kind)
    stated = [number_of(cell.replace(",", ".")) for cell in cells]
    if match is None or not (column := COLUMNS[kind][match[0]]).numeric:
        return None in stated and any(map(str.isalpha, "".join(cells)))
    numbers = np.array([number * match[1] for number in stated if number is not None])
    counts = column.unit in ("sequences", "tokens") and column.name != "accepted_length"
    return (
        0 < len(numbers) == len(cells)
        and not outside_range(numbers, column).any()
        and not (counts and ((numbers % 1).any() or numbers.max() <= 1))
    )


_NEAR = 0.5
"""Share of a format's fields that a file must have to be called a near miss."""
_SHOWN = 8
_GUESSED = 64
"""Columns whose meaning is guessed: a guess compares a name with every one of ours. Own choice.
[-]"""
_SAME = 3
"""Names of one and the same field that are listed."""


class UnrecognizedFileError(AdvisorError):
    """A file that no reader claims."""


class UnreadColumnsError(UnrecognizedFileError):
    """One of which some columns are understood."""

    def __init__(self, reason: str, maps: Mapping[str, str]) -> None:
        """maps : columns of the file that may be some of ours, {theirs: ours}."""
        words = map_words(maps)
        super().__init__(reason + (f", e.g. {shlex.join(words)}" if words else ""))
        self.reason = reason
        self.maps = maps


def map_words(maps: Mapping[str, str]) -> list[str]:
    """Words of a command line that read columns {theirs: ours}."""
    return [word for theirs, ours in maps.items() for word in ("--map", f"{theirs}={ours}")]


def near_miss(sample: Sample) -> tuple[str, dict[str, str]] | None:
    """Parts that an unrecognized file has and lacks, and {theirs: ours} that its columns may mean.
    None where it resembles nothing.

    For JSON the known format of which it has the largest share of fields, at least half; else, and
    for tables, the columns of our own that it has, and what a row needs beside them.
    """
    if sample.is_json:
        paths, cells = _fields(sample)
        near = _near_format(sample.first)
        first_cells = dict(zip(paths, cells, strict=True))
        return (near, {}) if near else _near_columns(first_cells, "field")
    if sample.kind != "text":
        return _near_columns(dict.fromkeys(table_header(sample), ()), "column")
    header, cells = _columns(sample)
    first_cells = dict(zip(header, cells, strict=True))
    repeated = {name for name in header if header.count(name) > 1}  # which no mapping can name
    return _near_columns(first_cells | dict.fromkeys(repeated, ()), "column")


def _near_format(record: Mapping[str, Any]) -> str | None:
    best: tuple[float, int, str] | None = None
    for known_format in FORMATS:
        have = [wanted for wanted in known_format.wants if present(record, wanted)]
        lacks = [wanted for wanted in known_format.wants if wanted not in have]
        share = len(have) / len(known_format.wants) if known_format.wants else 0.0
        if share < _NEAR or (best is not None and (share, len(have)) <= best[:2]):
            continue
        missing = (
            "; ".join(_either(wanted) for wanted in lacks)
            or "the kinds of values that the tool writes there"
        )
        text = (
            f"it is nearly {known_format.name}: it has "
            f"{', '.join(_found(record, wanted) for wanted in have)}, and lacks {missing}. Send "
            "the file as the tool wrote it, or name its fields with --map theirs=ours"
        )
        best = (share, len(have), text)
    return None if best is None else best[2]


def present(record: Mapping[str, Any], wanted: str) -> bool:
    """Whether a record has one of the fields `a|b`."""
    return any(field_of(record, path) is not None for path in wanted.split("|"))


def _either(wanted: str) -> str:
    names = wanted.split("|")
    more = f" or one of {len(names) - _SAME} more" if len(names) > _SAME + 1 else ""
    return " or ".join(names[:_SAME] if more else names) + more


def _found(record: Mapping[str, Any], wanted: str) -> str:
    return next(path for path in wanted.split("|") if field_of(record, path) is not None)


_SAY = "Say what yours mean with --map theirs=ours"


def _near_columns(
    first_cells: Mapping[str, tuple[str, ...]], what: str
) -> tuple[str, dict[str, str]] | None:
    """What our own table would need, where some names are understood already.

    first_cells : the first values under each name, in order.
    """
    names = [name for name in first_cells if name.strip()]
    matches = [(name, match_header(name, "points")) for name in names]
    known = {match[0]: name for name, match in matches if match}
    known |= {
        own_header(str(ours)) or str(ours): theirs
        for theirs, ours in _paired(names, "points").items()
    }
    others = [name for name in names if name not in known.values()]
    likely = _unique_guesses(others[:_GUESSED], first_cells, set(known))
    if not known:
        seen = ", ".join(shorten(name)[:40] for name in names[:_SHOWN])
        return (f"none of its {what}s is understood: {seen}. {_SAY}", likely) if names else None
    understood = ", ".join(
        f"{name} ({ours})" if name != ours else name for ours, name in list(known.items())[:_SHOWN]
    )
    measured = SAID.measured["points"]
    needs = {
        "a measurement (speedup, tpot_ms, step_time_ms or a rate)": measured,
        "the batch (batch_size)": ("batch_size",),
    }
    lacks = [words for words, columns in needs.items() if known.keys().isdisjoint(columns)]
    untimed = bare_times(names)
    unit = (
        (
            f"; {', '.join(shorten(name)[:40] for name in untimed[:3])} needs a unit, as in "
            f"{untimed[0]}_ms"
        )
        if untimed
        else ""
    )
    others = [name for name in others if name not in untimed]
    not_understood = (
        f"; not understood: {', '.join(shorten(name)[:40] for name in others[:_SHOWN])}"
        if others
        else ""
    )
    are = "is" if len(known) == 1 else "are"
    lacking = f"; it lacks {' and '.join(lacks)}" if lacks else ""
    return (
        f"of its {what}s {understood} {are} understood{lacking}{unit}{not_understood}. {_SAY}",
        likely,
    )


def _unique_guesses(
    names: Sequence[str], first_cells: Mapping[str, tuple[str, ...]], taken: set[str]
) -> dict[str, str]:
    """Likely meanings of names, for a command to copy: none that two of them may have."""
    guesses = {name: _guess(name, first_cells[name], "points", taken) for name in names}
    matches = {name: match_header(ours, "points") for name, ours in guesses.items()}
    columns = {name: match[0] for name, match in matches.items() if match}
    meant = list(columns.values())
    return {name: guesses[name] for name, column in columns.items() if meant.count(column) == 1}
