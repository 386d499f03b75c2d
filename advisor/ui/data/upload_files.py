"""One file of the upload: what was read of it, and which of our columns its own headers stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor import ingest
from advisor.catalog import model_ids
from advisor.hardware import hardware_ids
from advisor.ingest import IGNORE, Header, Rows, TableKind
from advisor.prediction import AdvisorError

MAPPED_FORMATS = ("canonical_csv", "canonical_json", "kernel_table")
"""Formats whose headers a user may give in words of their own."""


@dataclass(frozen=True)
class UploadFile:
    """A file as read under the columns that were chosen for it.

    Where it cannot be read, the reason and no rows.
    """

    name: str
    digest: str
    rows: Rows | None
    problem: str = ""
    data: bytes = b""
    """Its content, kept where its headers may be mapped."""
    kind: TableKind = "points"
    headers: tuple[Header, ...] = ()
    """Its own headers, each with what it is read as or may be; empty where they cannot be mapped."""
    chosen: bool = False
    """Whether a user said which column is which."""

    @property
    def unused(self) -> int:
        """Number of its headers that nothing is read from."""
        by_choice = self.chosen and self.rows is not None
        return sum(item.ours == IGNORE if by_choice else item.native is None for item in self.headers)


def read_file(name: str, data: bytes, digest: str) -> UploadFile:
    """Read a file by what its readers know."""
    try:
        rows = _read(name, data)
    except AdvisorError as error:
        return UploadFile(name, digest, None, str(error), data)
    return UploadFile(name, digest, rows, data=data, kind=rows.kind)


def with_headers(file: UploadFile, alone: bool) -> UploadFile:
    """The file with guesses at what its own headers mean, where they may be mapped.

    Otherwise the file without its content.

    `alone`: no other file is read with it, so that columns which its rows contradict are its own.
    """
    headers: tuple[Header, ...] = ()
    if file.rows is None or file.rows.sources[0].format_id in MAPPED_FORMATS:
        headers = ingest.own_headers(file.name, file.data, file.kind, _swapped(file.rows, alone))
    problem = file.problem
    if headers and "is not recognised" in problem:
        problem = f"{file.name} is not recognised by its headers; say below which column is which"
    return replace(file, headers=headers, data=file.data if headers else b"", problem=problem)


def read_as(file: UploadFile, chosen: Mapping[str, str]) -> UploadFile:
    """The file read anew with its headers as chosen {theirs: ours}."""
    changed = {item.theirs: chosen[item.theirs] for item in file.headers if _differs(item, chosen[item.theirs])}
    headers = tuple(replace(item, ours=chosen[item.theirs]) for item in file.headers)
    problem, rows = "", None
    try:
        rows = _read(file.name, file.data, changed or None)
    except AdvisorError as error:
        problem = str(error)
    return replace(file, rows=rows, problem=problem, headers=headers, chosen=True)


def _differs(item: Header, ours: str) -> bool:
    """Whether a choice asks for anything else than what the readers do by themselves."""
    return ours != (item.native or IGNORE)


def _read(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> Rows:
    return ingest.resolve_names(ingest.read_upload(name, data, columns=columns), hardware_ids(), model_ids())


def _swapped(rows: Rows | None, alone: bool) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that look exchanged, by their cells and, of a lone file, by what its rows contradict."""
    if rows is None:
        return ()
    if not alone:
        return tuple(swap.columns for source in rows.sources for swap in source.swaps)
    try:
        return rows.result.swapped
    except AdvisorError:
        return ()
