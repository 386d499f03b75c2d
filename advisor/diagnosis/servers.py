"""The server that each measured row ran on: a launch line is of its own file, or of the blocks after it in a paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.diagnosis.facts import as_number
from advisor.diagnosis.settings import read_servers
from advisor.text import counted

_COUNTED = ("accepted_length", "accepted_length_same_run", "acceptance_by_position")
"""What a log counts and a result file counts better."""


@dataclass(frozen=True)
class Server:
    """Settings of one server as a text tells them, and where it does."""

    file: str
    line: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ServerRow:
    """One measured row as its file tells it."""

    file: str
    line: int
    facts: Mapping[str, Any]
    form: str
    """Name of the file's format."""

    @property
    def place(self) -> str:
        """Place of the row, `file, line 4`."""
        return f"{self.file}, line {self.line}"


def servers_in(name: str, text: str) -> list[Server]:
    """The servers that a text tells of."""
    return [Server(name, line, facts) for line, facts in read_servers(text)]


def what_of(servers: Sequence[Server]) -> str:
    """Kind of text that told of these servers."""
    launched = sum("launch_line" in one.facts for one in servers)
    return f"{counted(launched, 'launch line')} of a server" if launched else "a server's log"


def plain_by_absence(rows: Sequence[ServerRow], servers: Sequence[Server]) -> tuple[list[ServerRow], list[str]]:
    """Rows with those as runs without speculation that state no accepted length.

    Unlike others of their tool, which do.

    A benchmark prints the accepted length of every server that speculates. Rows whose K is known, or whose own file has
    a launch line, stay as they are. What was taken so is said in sentences.
    """
    counting = {row.form: row.place for row in rows if "accepted_length" in row.facts}
    out, said = [], []
    for row in rows:
        if row.form in counting and _drafts({**_own(row, rows, servers), **row.facts}) is None:
            said.append(
                f"{row.place}: taken as the run without speculation, since no accepted length is printed there and one "
                f"is in {counting[row.form]}"
            )
            row = replace(row, facts={**row.facts, "draft_tokens_k": 0})
        out.append(row)
    return out, said


def server_of(row: ServerRow, rows: Sequence[ServerRow], servers: Sequence[Server]) -> dict[str, Any]:
    """Settings of the server that a row ran on.

    Those of its own file come first; files without a row tell of the rows that speculate, or do not, as they say.
    """
    own, measured = _own(row, rows, servers), {one.file for one in rows}
    drafts = _drafts({**own, **row.facts})
    apart = [one for one in servers if one.file not in measured]
    fitting = _fitting(apart, drafts)
    if not fitting and len(rows) == 1 and "draft_tokens_k" not in row.facts:
        fitting = apart  # all there is was meant for it: what contradicts is named
    merged: dict[str, Any] = {}
    for one in fitting:
        merged |= one.facts
    counted_there = _COUNTED if "accepted_length" in row.facts else ()
    return {name: value for name, value in {**merged, **own}.items() if name not in counted_there}


def contradiction(facts: Mapping[str, Any]) -> str:
    """Reason why a row cannot be what its launch line says of it. Empty where it can."""
    k, length = (as_number(facts.get(name)) for name in ("draft_tokens_k", "accepted_length"))
    if k != 0 or length is None or length <= 1.0:
        return ""
    return (
        f"an accepted length of {length:g} beside K = 0: a server without speculation accepts no drafts; give each run "
        "the launch line it was served with"
    )


def _own(row: ServerRow, rows: Sequence[ServerRow], servers: Sequence[Server]) -> Mapping[str, Any]:
    """The last server of its own file before it. The first one where all rows of the file stand before."""
    own = [one for one in servers if one.file == row.file]
    before = [one for one in own if one.line <= row.line]
    if before:
        return before[-1].facts
    last = max((one.line for one in rows if one.file == row.file), default=0)
    return own[0].facts if own and last < own[0].line else {}


def _drafts(facts: Mapping[str, Any]) -> bool | None:
    """Whether a row or a server speculates. None where nothing tells."""
    k = as_number(facts.get("draft_tokens_k"))
    if k is not None:
        return bool(k)
    if facts.get("speculation_on") is not None:
        return bool(facts["speculation_on"])
    return True if (as_number(facts.get("accepted_length")) or 1.0) > 1.0 else None


def _fitting(servers: Sequence[Server], drafts: bool | None) -> list[Server]:
    """Servers that speculate as a row does. Of a row of which nothing is known, none where they differ in it."""
    kinds = {kind for one in servers if (kind := _drafts(one.facts)) is not None}
    if drafts is None and len(kinds) == 1:
        return list(servers)
    return [one for one in servers if _drafts(one.facts) in (None, drafts)]
