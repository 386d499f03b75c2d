"""Tables with one row a batch and a column for each K (`batch, plain_tpot_ms, k1_tpot_ms, k3_tpot_ms`), made long.

Such a row becomes one row for each K that it has a value of, before any reader sees it; what all share is repeated.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.measured.ingest.columns import COLUMNS, MAX_DRAFT_TOKENS, header_key, match_header
from advisor.measured.ingest.side_by_side import side_of
from advisor.measured.ingest.upload import MAX_ROWS, Sample
from advisor.prediction import AdvisorError

_K = re.compile(r"(?:^|_)(k|mtp|spec)_?([0-9]{1,3})(?=_|$)")
"""How headers say their K: `k3_tpot_ms`, `TPOT (ms) K=3`, `mtp_3_tpot_ms`."""
_LONG = "draft_tokens_k"


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
        """The rows of one row, one for each K with a value; a row without any stays one, to be refused by its line."""
        shared = [cells[place] for place in self.kept]
        held = [(k, [cells[at[k]] if k in at else "" for at in self.held.values()]) for k in self.drafts]
        found = [(k, values) for k, values in held if any(str(value or "").strip() for value in values)]
        for k, values in found or held[:1]:
            yield [*shared, *values, k]


def _wide(headers: Sequence[str]) -> _Wide | None:
    """How headers hold several K side by side, or None.

    A table with a column of its own for K is none: it may say for which K its other columns stand.
    """
    if any((match_header(header, "points") or ("",))[0] == _LONG for header in headers):
        return None
    stems: dict[tuple[str, str], dict[int, int]] = {}
    for place, header in enumerate(headers):
        key = header_key(header)
        found = _K.search(key)
        if found and 0 < int(found[2]) <= MAX_DRAFT_TOKENS:
            stem = re.sub("_+", "_", _K.sub("_", key, count=1)).strip("_")
            at = stems.setdefault((stem, "mtp_" if found[1] == "mtp" else ""), {})
            if int(found[2]) in at:
                return None
            at[int(found[2])] = place
    bare = {header_key(header) for header in headers}
    plain = any(side_of(header) == "plain" for header in headers) or any(stem in bare for stem, _ in stems)
    held = {
        _long_name(stem, drafter, plain): places
        for (stem, drafter), places in stems.items()
        if plain or ((match := match_header(stem, "points")) and not COLUMNS["points"][match[0]].context)
    }
    if max((len(places) for places in held.values()), default=0) < 2:
        return None
    taken = {place for places in held.values() for place in places.values()}
    return _Wide(held, tuple(place for place in range(len(headers)) if place not in taken))


def _long_name(stem: str, drafter: str, beside_plain: bool) -> str:
    """Header of the long table's column: its quantity, said to be with drafts where plain values stand beside it.

    What has one meaning with drafts alone, as the accepted length, keeps its own name.
    """
    found = match_header(stem, "points")
    alone = found is not None and found[0] in ("accepted_length", "speedup", "verify_time_s", "draft_time_s")
    return stem if alone or not beside_plain else f"with_drafts_{drafter}{stem}".rstrip("_")


def one_row_a_k(sample: Sample, named: Sequence[str] = ()) -> Sample:
    """A table or records with several K side by side as one with a row for each K, which is said. Else the sample.

    named : headers of the file that a user says the meaning of; such a table stays as it is.
    """
    if sample.kind == "text":
        headers: Sequence[str] = [cell.strip() for cell in sample.header]
    elif sample.is_json and all(isinstance(record, dict) for record in sample.records):
        headers = list(dict.fromkeys(str(name) for record in sample.records for name in record))
    else:
        return sample
    wide = _wide(headers)
    if wide is None or {name.strip() for name in named} & set(headers):
        return sample
    if sample.kind == "text":
        made = _long_table(sample, headers, wide)
    else:
        names = wide.header(headers)
        records = [
            {name: value for name, value in zip(names, row, strict=True) if value not in ("", None)}
            for record in sample.records
            for row in wide.rows([record.get(header, "") for header in headers])
        ]
        lines = tuple(range(1, len(records) + 1))
        document = records if isinstance(sample.document, list) or len(records) > 1 else records[0]
        made = replace(sample, document=document, records=tuple(records), lines=lines)
    said = (
        f"columns of several K side by side (K = {', '.join(map(str, wide.drafts))}): each row is read as one row for "
        "each K, and lines count those"
    )
    return replace(made, warnings=(*sample.warnings, said))


def _long_table(sample: Sample, headers: Sequence[str], wide: _Wide) -> Sample:
    out = io.StringIO()
    write = csv.writer(out, delimiter=sample.delimiter, lineterminator="\n").writerow
    write(wide.header(headers))
    text = sample.text
    try:
        rows = csv.reader((line for line in io.StringIO(text) if not line.startswith("#")), delimiter=sample.delimiter)
        filled = (row for row in rows if any(cell.strip() for cell in row))
        for number, row in enumerate(itertools.islice(filled, 1, None)):
            if number * len(wide.drafts) > MAX_ROWS:
                raise AdvisorError(f"{sample.name} has more than {MAX_ROWS:,} rows, one for each K; split it")
            for long in [row] if len(row) != len(headers) else wide.rows(row):
                write(long)
    except csv.Error as error:
        raise AdvisorError(f"{sample.name} is not a readable table: {str(error)[:120]}") from error
    return replace(sample, data=out.getvalue().encode())
