"""Who measured what, and which laboratories are set apart: their rows choose nothing.

A laboratory is told by the title of a source, else by its address, so that whatever it publishes next is left out with
what it published before. Titles and addresses stand in profiles/validation/laboratories.yaml. Whether a laboratory is
set apart follows from its name, so that nobody picks the rows that judge; each look is logged in docs/set-apart.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, read_profile

LABORATORIES = PROFILES / "validation" / "laboratories.yaml"
SET_APART_OF = 5
"""One laboratory of this many is set apart, in the mean over names. [-]"""
_SAME_OWNER = {"raw.githubusercontent.com": "github.com", "gist.github.com": "github.com", "hf.co": "huggingface.co"}
"""Hosts whose paths begin with an owner of another host."""
_PAGES = ".github.io"


class Laboratory(Frozen):
    """A company, wiki, team or person with the sources that are theirs."""

    name: str = Field(min_length=2)
    titles: tuple[str, ...] = Field(min_length=1)
    addresses: tuple[str, ...] = ()
    """Host and path that all of its addresses begin with, in the form of `place_of`; the longest one decides."""


class _File(Frozen):
    laboratories: tuple[Laboratory, ...]

    @model_validator(mode="after")
    def _each_once(self) -> _File:
        names = [name for one in self.laboratories for name in (f"laboratory {one.name}", *one.titles, *one.addresses)]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise ValueError(f"each laboratory, title and address stands once, but these do not: {', '.join(twice)}")
        unread = [address for one in self.laboratories for address in one.addresses if place_of(address) != address]
        if unread:
            raise ValueError(f"addresses are host/path in lower case, but these are not: {', '.join(unread)}")
        return self


def laboratory_of(title: str) -> str:
    """The laboratory that published a source. Raises AdvisorError where the file does not list its title."""
    if name := _by_title().get(title):
        return name
    raise AdvisorError(
        f"no laboratory is known for the source {title[:120]!r}; "
        f"add its title to profiles/validation/{LABORATORIES.name}"
    )


def laboratory_of_row(row: Mapping[str, Any]) -> str:
    """Laboratory of a row by its source_title, else its source_url. The title itself where neither is listed."""
    cells = (row.get(name) for name in SOURCE_COLUMNS)
    title, address = (cell if isinstance(cell, str) else "" for cell in cells)  # an empty cell may be NaN
    return _by_title().get(title) or _at(place_of(address)) or title


SOURCE_COLUMNS = ("source_title", "source_url")


def place_of(address: str) -> str:
    """Host and path of an address in lower case, as laboratories list them. Empty for what is no address.

    Without scheme, user, port, `www.` and query. A site of GitHub Pages and a raw file are their owner's on GitHub.
    """
    text = address.strip().lower()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    except ValueError:  # a bracket that no IPv6 address closes
        return ""
    if "." not in host:
        return ""
    if host.endswith(_PAGES):
        host, path = "github.com", f"/{host.removesuffix(_PAGES)}{parts.path}"
    else:
        host, path = _SAME_OWNER.get(host, host), parts.path
    return "/".join([host, *(part for part in path.split("/") if part)])


def _at(place: str) -> str:
    """The laboratory whose address is the longest beginning of a place, whole names at a time. Empty for none.

    A site below a listed host is its owner's too.
    """
    host, *path = place.split("/")
    domains = host.split(".")
    for i in range(len(domains)):
        for n in range(len(path), -1, -1):
            laboratory = _by_address().get("/".join([".".join(domains[i:]), *path[:n]]))
            if laboratory:
                return laboratory
    return ""


def set_apart(laboratory: str) -> bool:
    """Whether a laboratory's rows are kept from every choice: sha256 of its name modulo SET_APART_OF is 0."""
    return int(hashlib.sha256(laboratory.encode()).hexdigest(), 16) % SET_APART_OF == 0


@lru_cache(maxsize=1)
def _listed() -> tuple[Laboratory, ...]:
    return read_profile(LABORATORIES, _File).laboratories


@lru_cache(maxsize=1)
def _by_title() -> dict[str, str]:
    return {title: one.name for one in _listed() for title in one.titles}


@lru_cache(maxsize=1)
def _by_address() -> dict[str, str]:
    return {address: one.name for one in _listed() for address in one.addresses}
