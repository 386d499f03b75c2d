"""A user's own headers read as ours: the header line of a CSV is rewritten before any reader sees it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace

from advisor.ingest.canonical import match_header
from advisor.ingest.result import shorten
from advisor.ingest.upload import Sample
from advisor.prediction import AdvisorError


def rename_headers(sample: Sample, columns: Mapping[str, str]) -> Sample:
    """The sample with headers replaced by `columns` {theirs: ours}.

    Ours is any header that is understood, with its unit where it is a time (`tpot_ms`). Raises AdvisorError when the
    file is no CSV, a header is not in it or is there twice, or ours is not understood.
    """
    if sample.kind != "text":
        raise AdvisorError(f"{sample.name} has no header line to rename; columns can be mapped in a CSV only")
    header = [cell.strip() for cell in sample.header]
    for theirs, ours in columns.items():
        if header.count(theirs.strip()) != 1:
            there = "twice or more" if theirs.strip() in header else "not"
            shown = ", ".join(shorten(cell)[:40] for cell in header[:12])
            raise AdvisorError(f"{sample.name}: column {shorten(theirs)!r} is {there} in the header ({shown})")
        if not any(match_header(ours, kind) for kind in ("points", "kernels")):
            raise AdvisorError(
                f"{shorten(ours)!r} is no column that is understood; see the column list, and give times a unit "
                "as in tpot_ms"
            )
    wanted = {theirs.strip(): ours.strip() for theirs, ours in columns.items()}
    line = io.StringIO()
    csv.writer(line, delimiter=sample.delimiter, lineterminator="").writerow(
        [wanted.get(cell, cell) for cell in header]
    )
    old, new = sample.first_line.encode(), line.getvalue().encode()
    return replace(sample, data=sample.data.replace(old, new, 1))
