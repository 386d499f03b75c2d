"""Tables with one row a batch and a column for each K
(`batch, plain_tpot_ms, k1_tpot_ms, k3_tpot_ms`), made long.

Such a row becomes one row for each K that it has a value of, before any reader sees it; what all
share is repeated. A table with one row a K and a column for each batch (`setup, bs=1, bs=8`) is
turned first. A column whose cells say K in words (`off`, `K=3`) is read as K.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.measured.ingest.columns import (
    COLUMNS,
    MAX_DRAFT_TOKENS,
    SAID,
    header_key,
    match_header,
)
from advisor.measured.ingest.result import warned
from advisor.measured.ingest.side_by_side import IGNORED, drafts_said, meaning_of, said_by, side_of
from advisor.measured.ingest.upload import MAX_ROWS, Sample
from advisor.prediction import AdvisorError
from advisor.text import listed, number_of

_K = re.compile(r"(?:^|_)(k|mtp|spec)_?([0-9]{1,3})(?=_|$)")
"""How headers say their K: `k3_tpot_ms`, `TPOT (ms) K=3`, `mtp_3_tpot_ms`."""
_ROW_K = re.compile(
    r"(?:^|_)(?:k|(?:\w+_)?tokens)_?([0-9]{1,3})(?=_|$)|(?:^|_)([0-9]{1,3})_(?:(?:draft_)?tokens?|drafts?)(?=_|$)"
)
_BATCH = re.compile(
    r"(?:^|_)(?:b|bs|batch(?:_?size)?|c|conc|(?:max_)?concurrency)_?([0-9]{1,5})(?=_|$)|^([0-9]{1,5})$"
)
"""How headers say their batch: `bs=1`, `conc64`, `TPOT (ms) batch 8`, `32`."""
_SAYS = re.compile(r"[^\s:-]")  # no line of dashes below a Markdown table's header
_LONG = "draft_tokens_k"
_BATCHES = "batch_size"
_RATE = "output_tok_per_s"
_LENGTH = "accepted_length"
_Place = tuple[int, Mapping[str, str]]
"""Line of a row in the file, and where of several columns its K stood."""
_FLAGS = {"no": "off", "false": "off", "yes": "on", "true": "on"}
"""Words of a column that is called by drafts, as those that say it by themselves."""
_LOOKED_AT = 200
"""Rows of a column called K in which words are looked for."""
SLOWEST_MS = 250.0
FASTEST_PER_S = 1000.0
"""Bounds of a server's time per token and of one request's tokens/s, which tell the two apart. Own
choice."""


@dataclass(frozen=True)
class _Wide:
    """Headers of a table that hold one quantity at several K."""

    held: dict[str, dict[int, int]]
    """Place of the column of each K, by the header that the long table has instead."""
    kept: tuple[int, ...]
    """Places of the columns that all K share."""

    @property
    def drafts(self) -> list[int]:
        """Every K, increasing. [tokens]"""
        return sorted({k for places in self.held.values() for k in places})

    def header(self, headers: Sequence[str]) -> list[str]:
        """Headers of the long table."""
        return [*(headers[place] for place in self.kept), *self.held, _LONG]

    def rows(self, cells: Sequence[Any]) -> Iterator[list[Any]]:
        """The rows of one row, one for each K with a value; a row without any stays one, to be
        refused by its line."""
        shared = [cells[place] for place in self.kept]
        values_by_k = [
            (k, [cells[at[k]] if k in at else "" for at in self.held.values()]) for k in self.drafts
        ]
        stated = [
            (k, values)
            for k, values in values_by_k
            if any(str(value or "").strip() for value in values)
        ]
        for k, values in stated or values_by_k[:1]:
            yield [*shared, *values, k]


def _wide(headers: Sequence[str], least: int, meant: Mapping[str, str]) -> _Wide | None:
    """How headers hold at least so many K side by side, or None.

    A table with a column of its own for K is none: it may say for which K its other columns stand.

    meant : what a user says of columns of the long table, {header: ours}.
    """
    if any((match_header(header, "points") or ("",))[0] == _LONG for header in headers):
        return None
    stems: dict[tuple[str, str], dict[int, int]] = {}
    for place, header in enumerate(headers):
        key = header_key(header)
        k_match = None if header.startswith(IGNORED) else _K.search(key)
        if k_match and 0 < int(k_match[2]) <= MAX_DRAFT_TOKENS:
            stem = re.sub("_+", "_", _K.sub("_", key, count=1)).strip("_")
            at = stems.setdefault((stem, "mtp_" if k_match[1] == "mtp" else ""), {})
            if int(k_match[2]) in at:
                return None
            at[int(k_match[2])] = place
    bare = {header_key(header) for header in headers}
    plain = any(side_of(header) == "plain" for header in headers) or any(
        stem in bare for stem, _ in stems
    )
    said_plain = {said_by(header) for header in headers if side_of(header) == "plain"}
    held: dict[str, dict[int, int]] = {}
    name_of_meaning: dict[object, str] = {}
    ordered = sorted(stems.items(), key=lambda entry: said_by(entry[0][0]) not in said_plain)
    for (stem, drafter), places in ordered:
        if plain or (
            (match := match_header(stem, "points")) and not COLUMNS["points"][match[0]].context
        ):
            name = _long_name(stem, drafter, plain)
            ours = meant.get(name, meant.get(f"{name} {_RATE}", "ignore"))
            first_name = name_of_meaning.setdefault(
                (drafter, meaning_of(stem)) if ours == "ignore" else ours, name
            )
            repeats_k = places.keys() & held.get(first_name, {}).keys()
            at = held.setdefault(name if repeats_k else first_name, {})
            at |= places
    if max((len(places) for places in held.values()), default=0) < least:
        return None
    taken = {place for places in held.values() for place in places.values()}
    return _Wide(held, tuple(place for place in range(len(headers)) if place not in taken))


def _long_name(stem: str, drafter: str, beside_plain: bool) -> str:
    """Header of the long table's column: its quantity, said to be with drafts where plain values
    stand beside it.

    What has one meaning with drafts alone, as the accepted length, keeps its own name.
    """
    match = match_header(stem, "points")
    alone = match is not None and match[0] in (
        "accepted_length",
        "speedup",
        "verify_time_s",
        "draft_time_s",
    )
    return stem if alone or not beside_plain else f"with_drafts_{drafter}{stem}".rstrip("_")


def with_k(columns: Mapping[str, str]) -> dict[str, str]:
    """Headers {theirs: ours} with the K of theirs behind ours, where several are to be read as
    one."""
    several = {ours for ours in columns.values() if [*columns.values()].count(ours) > 1}
    columns_with_k = {}
    for theirs, ours in columns.items():
        match = _K.search(header_key(theirs)) if ours in several else None
        columns_with_k[theirs] = f"{ours} k{match[2]}" if match else ours
    return columns_with_k


def one_row_a_k(sample: Sample, meant: Mapping[str, str] | None = None) -> Sample:
    """A table or records with several K side by side as one with a row for each K, which is said.
    Else the sample.

    meant : what a user says of columns of the long table, {header: ours}.
    """
    if sample.kind == "text":
        headers: Sequence[str] = [cell.strip() for cell in sample.header]
    elif sample.is_json and all(isinstance(record, dict) for record in sample.records):
        headers = list(dict.fromkeys(str(name) for record in sample.records for name in record))
    else:
        return sample
    if sample.kind == "text":
        long = _turned(sample, headers)
        sample = k_of_words(sample) if long is sample else long
        headers = [cell.strip() for cell in sample.header]
    wide = _wide(headers, 1 if sample.origin else 2, meant or {})
    if wide is None:
        return sample
    if sample.kind == "text":
        long_sample = _long_table(sample, headers, wide)
    else:
        names = wide.header(headers)
        rows = [
            (line, row)
            for line, record in zip(sample.lines, sample.records, strict=True)
            for row in wide.rows([record.get(header, "") for header in headers])
        ]
        records = [
            {name: value for name, value in zip(names, row, strict=True) if value not in ("", None)}
            for _, row in rows
        ]
        origin: dict[int, _Place] = {at: (line, {}) for at, (line, _) in enumerate(rows, 1)}
        document = records if isinstance(sample.document, list) or len(records) > 1 else records[0]
        long_sample = replace(
            sample, document=document, records=tuple(records), lines=tuple(origin), origin=origin
        )
    turned_from = sample.shown if sample.origin else {}
    note = warned(
        "several_k",
        drafts=tuple(wide.drafts),
        k_from=turned_from.get(_LONG),
        batches_from=turned_from.get(_BATCHES),
    )
    return replace(long_sample, notes=(*sample.notes, note))


def _long_table(sample: Sample, headers: Sequence[str], wide: _Wide) -> Sample:
    numbered = list(_cells(sample, len(wide.drafts)))
    rows = [row for _, row in numbered]
    lengths = [
        name for name, at in wide.held.items() if name == _LENGTH or _are_lengths(name, at, rows)
    ]
    if len(lengths) == 1:
        wide = replace(
            wide, held={_LENGTH if name in lengths else name: at for name, at in wide.held.items()}
        )
    names = {name: f"{name} {_RATE}" for name in _rates(rows, headers, wide)}
    file_headers = [sample.shown.get(name, name) for name in headers]
    stood = {
        name: listed([file_headers[place] for place in at.values()])
        for name, at in wide.held.items()
    }
    stood |= {} if _LONG in sample.shown else {_LONG: listed(list(stood.values()))}
    stood |= sample.shown
    headers_shown = stood | {new: stood.get(old, old) for old, new in names.items()}
    of_k = {
        k: {headers_shown[name]: file_headers[at[k]] for name, at in wide.held.items() if k in at}
        for k in wide.drafts
    }
    long: list[tuple[_Place, Sequence[Any]]] = []
    for line, row in numbered:
        each = wide.rows(row) if len(row) == len(headers) else ()
        long += [
            ((sample.origin.get(-long_row[-1], (line,))[0], of_k[long_row[-1]]), long_row)
            for long_row in each
        ] or [((line, {}), row)]
    return _written(
        sample, [names.get(name, name) for name in wide.header(headers)], long, headers_shown
    )


def _are_lengths(name: str, at: Mapping[int, int], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a header's words (`accept K2`) and its values, from 1 to K + 1, are those of accepted
    lengths."""
    length_words = {*name.split("_")} & {*SAID.hints[_LENGTH], "accept", "acceptance"}
    says_length = bool(length_words) and match_header(name, "points") is None
    cells = [
        (k, number_of(row[place])) for k, place in at.items() for row in rows if len(row) > place
    ]
    return says_length and all(value is not None and 1.0 <= value <= k + 1.0 for k, value in cells)


def _rates(rows: Sequence[Sequence[str]], headers: Sequence[str], wide: _Wide) -> list[str]:
    """Headers that do not say it of values that are tokens/s of the whole server.

    They rise with the batch as no time per token does, and as those of one request never do.
    """
    open_ = [
        name
        for name in headers
        if side_of(name) == "plain" and said_by(name) in ("", "rate", _RATE)
    ]
    columns = [match_header(name, "points") for name in headers]
    if not open_ or (_BATCHES, 1.0) not in columns:
        return []
    places = columns.index((_BATCHES, 1.0)), headers.index(open_[0])
    numbers = (
        [number_of(row[at]) or 0.0 for at in places] for row in rows if len(row) == len(headers)
    )
    pairs = sorted(pair for pair in numbers if all(pair)) or [[1.0, 0.0]]
    least, low = pairs[0]
    most, high = pairs[-1]
    times = not said_by(open_[0]) and (high <= SLOWEST_MS or low > FASTEST_PER_S * least)
    rises = most > least and high >= low * (most / least) ** 0.5 and not times
    with_drafts = [name for name in wide.held if name.startswith("with_drafts")]
    rates = [name for name in with_drafts if said_by(name) in ("", "rate", _RATE)]
    return [open_[0], *rates] if rises else []


def _turned(sample: Sample, headers: Sequence[str]) -> Sample:
    """A table with a column for each batch and a row for each K as one with a row for each batch.
    Any other as it is.

    Raises AdvisorError where some rows say their K and others none of their own.
    """
    matches = [_BATCH.search(header_key(header)) for header in headers]
    batch_matches = {at: match for at, match in enumerate(matches) if match}
    batches = {at: int(match[1] or match[2]) for at, match in batch_matches.items()}
    stems = {_BATCH.sub("", match.string).strip("_") for match in batch_matches.values()}
    other_places = [at for at in range(len(headers)) if at not in batch_matches]
    has_batch_column = any(
        match_header(headers[at], "points") == (_BATCHES, 1.0) for at in other_places
    )
    if has_batch_column or len({*batches.values()}) < max(len(batch_matches), 2):
        return sample
    cells = list(_cells(sample, len(batch_matches)))
    rows = [[*map(str.strip, row), *[""] * len(headers)] for _, row in cells]
    differ = [at for at in other_places if len({row[at] for row in rows}) > 1]
    words = [
        " ".join(f"{headers[at]}={row[at]}" if row[at].isdigit() else row[at] for at in differ)
        for row in rows
    ]
    drafts = [_k_said(text) for text in words]
    texts_without_k = [_ROW_K.sub("", header_key(text)) for text in words]
    drafters = [
        drafts_said(text).get("drafter", "") if k else ""
        for text, k in zip(texts_without_k, drafts, strict=True)
    ]
    if len(stems) > 1 or drafts.count(None) == len(drafts):
        return sample
    if None in drafts or len({*drafts}) < len(drafts) or len({*drafters} - {""}) > 1:
        requirement = (
            "rows have to be of one drafter, each with a K of its own (k=3, or baseline), not"
        )
        raise AdvisorError(f"{sample.name}: {requirement} {listed(words[:4])}")
    quantity = next(
        (text for text in (*stems, *(headers[at] for at in other_places)) if said_by(text)), ""
    )
    drafter = max(map(str, drafters))
    drafter_words = [drafter if k else "" for k in drafts]
    names = [
        f"{word} k{k} {quantity}".strip() for word, k in zip(drafter_words, drafts, strict=True)
    ]
    shared = [at for at in other_places if at not in differ]
    turned: list[tuple[_Place, list[Any]]] = [
        ((cells[0][0], {}), [*(rows[0][at] for at in shared), batch, *(row[at] for row in rows)])
        for at, batch in batches.items()
    ]
    at_batch = ", ".join(headers[at] for at in batch_matches)
    headers_shown = {
        _BATCHES: at_batch,
        _LONG: listed(words),
        **dict(zip(names, words, strict=True)),
    }
    long_sample = _written(
        sample, [*(headers[at] for at in shared), _BATCHES, *names], turned, headers_shown
    )
    of_k: dict[int, _Place] = {
        -k: (line, {}) for k, (line, _) in zip(drafts, cells, strict=True) if k
    }
    # whose K have lines of their own
    return replace(long_sample, origin={**long_sample.origin, **of_k})


def k_of_words(sample: Sample) -> Sample:
    """A table with numbers in its one column of words that say K. Else the sample.

    `off` is 0, `K=3` is 3, and `on` leaves it open. A column called K is the one, with numbers
    among words. Raises AdvisorError for a table with too many rows.
    """
    headers = [cell.strip() for cell in sample.header]
    columns = [match_header(header, "points") for header in headers]
    k_places = [at for at, match in enumerate(columns) if match == (_LONG, 1.0)]
    if k_places and not _has_words(sample, k_places):
        return sample
    cells = list(_cells(sample, 1))
    rows = [row for _, row in cells if len(row) == len(headers)]
    open_ = k_places or [at for at, match in enumerate(columns) if match is None]
    flags = {
        at
        for at in open_
        if at in k_places or {*header_key(headers[at]).split("_")} & {*SAID.hints[_LONG], "drafts"}
    }
    words = {
        at: [_FLAGS.get(header_key(row[at]), row[at]) if at in flags else row[at] for row in rows]
        for at in open_
    }
    k_by_row = {at: [_k_said(word, at in flags) for word in cells] for at, cells in words.items()}
    on = {at: [side_of(word) == "spec" for word in cells] for at, cells in words.items()}
    candidates = [
        at for at in open_ if not all(word.strip().isdigit() for word in words[at])
    ]  # 0 and 1 may be off and on
    candidates = [
        at for at in candidates if 0 in k_by_row[at] and not all(k == 0 for k in k_by_row[at])
    ]
    candidates = [
        at
        for at in candidates
        if all(k is not None or word for k, word in zip(k_by_row[at], on[at], strict=True))
    ]
    if len(candidates) != 1:
        return sample
    at = candidates[0]
    drafts = iter(k_by_row[candidates[0]])
    numbered: list[tuple[_Place, list[Any]]] = [
        ((line, {}), [*row[:at], next(drafts), *row[at + 1 :]] if len(row) == len(headers) else row)
        for line, row in cells
    ]
    header = [_LONG if place == at else name for place, name in enumerate(headers)]
    k_of_word = dict(zip((row[at].strip() for row in rows), k_by_row[at], strict=True))
    note = warned("k_of_words", stated=headers[at], k_of_word=tuple(k_of_word.items()))
    numbered_sample = _written(sample, header, numbered, {**sample.shown, _LONG: headers[at]})
    return replace(numbered_sample, notes=(*sample.notes, note))


def _has_words(sample: Sample, columns: Sequence[int]) -> bool:
    """Whether a column called K has words that say it, in one of the first rows."""
    try:
        rows = [row for _, row in itertools.islice(_cells(sample, 1), _LOOKED_AT)]
    except AdvisorError:  # the reader says what is wrong with it
        return False
    cells = (row[at] for row in rows for at in columns if at < len(row))
    return any(
        _k_said(_FLAGS.get(header_key(cell), cell)) is not None
        for cell in cells
        if not cell.strip().isdigit()
    )


def _k_said(words: str, of_k: bool = False) -> int | None:
    """K that words say (`eagle k=3`, `3 tokens`, `no spec`; `3` in a column that is of K). None
    where they say none."""
    if of_k and words.strip().isdigit():
        return int(words)
    match = _ROW_K.search(header_key(words)) or _K.search(header_key(words))
    return (
        int(next(filter(str.isdigit, match.groups(""))))
        if match
        else 0
        if side_of(words) == "plain"
        else None
    )


def _cells(sample: Sample, of_each: int) -> Iterator[tuple[int, list[str]]]:
    """Rows below the header, each with its line in the file. Each becomes so many."""
    lines = ("\n" if line.startswith("#") else line for line in io.StringIO(sample.text))
    reader = csv.reader(lines, delimiter=sample.delimiter)
    try:
        filled = (
            (reader.line_num - sum(cell.count("\n") for cell in row), row)
            for row in reader
            if any(map(_SAYS.search, row))
        )
        for number, (line, row) in enumerate(itertools.islice(filled, 1, None)):
            if number * of_each > MAX_ROWS:
                raise AdvisorError(
                    f"{sample.name} has more than {MAX_ROWS:,} rows, one for each K; split it"
                )
            yield sample.origin.get(line, (line,))[0], row
    except csv.Error as error:
        raise AdvisorError(f"{sample.name} is not a readable table: {str(error)[:120]}") from error


def _written(
    sample: Sample,
    header: list[str],
    rows: Sequence[tuple[_Place, Sequence[Any]]],
    shown: Mapping[str, str],
) -> Sample:
    """The sample with another table, each row of which has its line in the file and its columns
    there."""
    out = io.StringIO()
    csv.writer(out, delimiter=sample.delimiter, lineterminator="\n").writerows(
        [header, *(row for _, row in rows)]
    )
    origin = {at: place for at, (place, _) in enumerate(rows, 2)}
    return replace(sample, data=out.getvalue().encode(), shown=shown, origin=origin)
