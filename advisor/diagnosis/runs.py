"""Files of any kind to runs: measured rows with the settings, log and client facts that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog import model_ids
from advisor.diagnosis.arms import plain_beside
from advisor.diagnosis.client import client_facts
from advisor.diagnosis.facts import Run
from advisor.diagnosis.physics import compare, token_time_s
from advisor.diagnosis.servers import ServerRow, contradiction, plain_by_absence, server_of, servers_in, what_of
from advisor.diagnosis.words import Words, filled
from advisor.hardware import hardware_ids
from advisor.ingest import MAX_BYTES, NAME_COLUMNS, Rows, read_upload, resolve_names, with_given
from advisor.prediction import AdvisorError

MAX_RUNS = 2000
"""Rows of all files that rules are tried on; of more, the first ones."""
MAX_PREDICTED = 40
"""Of them, those that are predicted: an even sample of more."""
_NOT_FACTS = frozenset({"derived", "notes", "source_title", "source_url", "point_id", "tier"})
_ALIKE = ("model_id", "hardware_id", "engine", "batch_size", "draft_tokens_k", "input_tokens", "output_tokens")
_ENOUGH_REPEATS = 3


@dataclass(frozen=True)
class Given:
    """A file as the user gave it."""

    name: str
    data: bytes


@dataclass
class Read:
    """Runs and servers that the files hold together."""

    runs: list[Run] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """What each file was read as."""
    not_read: dict[str, str] = field(default_factory=dict)
    """Files that hold nothing of use, with the reason."""
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    """Rows that contradict themselves or cannot be read: file, line, reason."""
    contradicted: list[str] = field(default_factory=list)
    """Rows that cannot be of the server that their launch line tells of: place and reason."""
    n_kept: int = 0
    """Rows that can be used. [-]"""


def read_runs(files: Sequence[Given], words: Words, configs: Mapping[str, str]) -> Read:
    """The runs of all files, each with its settings, its plain run and its prediction.

    Raises AdvisorError when no file holds a run or a server's settings.
    """
    out, rows, servers = Read(), [], []
    for given in _named_apart(files):
        table, why = _table(given, words.columns)
        told = servers_in(given.name, _text(given.data))
        if told:
            servers += told
            out.read.append(f"{given.name}: {what_of(told)}")
        if table is not None:
            out.read.append(f"{given.name}: {table.format_name}")
            rows += _rows(table, given, words, out)
        elif not told:
            out.not_read[given.name] = why
    if not rows and not servers:
        name, why = next(iter(out.not_read.items()), ("nothing", "no file was given"))
        raise AdvisorError(why if why.startswith(name) else f"{name}: {why}")
    if "draft_tokens_k" not in words.values:
        rows, said = plain_by_absence(rows, servers)
        out.read += said
    facts = [_without_contradiction({**server_of(row, rows, servers), **row.facts}, row, out) for row in rows]
    facts = facts or [_of_log(one.facts) for one in servers]
    where = [(row.file, row.line) for row in rows] or [(one.file, one.line) for one in servers]
    whole = [filled(one, words) for one in facts]
    facts = _with_repeats([one for one, _ in whole])
    runs = _runs(facts[:MAX_RUNS], where[:MAX_RUNS], configs)
    out.runs = [replace(run, assumed=assumed) for run, (_, assumed) in zip(runs, whole, strict=False)]
    return out


def _named_apart(files: Sequence[Given]) -> list[Given]:
    """The files, those of the same name numbered: a launch line is told by its file."""
    out, names = [], set[str]()
    for given in files:
        name, number = given.name, 1
        while name in names:
            number += 1
            name = f"{given.name} ({number})"
        names.add(name)
        out.append(replace(given, name=name))
    return out


def _without_contradiction(facts: dict[str, Any], row: ServerRow, out: Read) -> dict[str, Any]:
    """The facts. Where K and accepted length contradict each other the row is refused and its K unknown."""
    why = contradiction(facts)
    if not why:
        return facts
    if (row.file, row.line) not in {(file, line) for file, line, _ in out.refused}:
        out.refused.append((row.file, row.line, why))
        out.contradicted.append(f"{row.place}: {why}")
        out.n_kept -= 1
    return {name: value for name, value in facts.items() if name not in ("draft_tokens_k", "speculation_on")}


def _text(data: bytes) -> str:
    """The start of a file as text. A result file that is JSON holds no launch line of its own."""
    head = data[:MAX_BYTES].decode("utf-8", errors="replace")
    return "" if head.lstrip()[:1] in ("{", "[") or "\x00" in head[:1000] else head


def _table(given: Given, columns: Mapping[str, str]) -> tuple[Rows | None, str]:
    """The measured rows of a file under the headers that a user renamed, else why there are none."""
    try:
        rows = read_upload(given.name, given.data, columns=columns)
    except AdvisorError as error:
        return None, str(error)
    return (rows, "") if rows.kind == "points" else (None, "it holds kernel times, not served runs")


def _rows(stated: Rows, given: Given, words: Words, out: Read) -> list[ServerRow]:
    """Every row with its facts, the refused ones as they were written.

    Names are those that the user says. Numbers that the user fills in stand behind those of a launch line, so that they
    are none of the row's own.
    """
    table = resolve_names(with_given(stated, words.values), hardware_ids(), model_ids())
    client, kept = client_facts(given.name, given.data), table.result.frame
    out.n_kept += len(kept)
    refused: dict[int, str] = {}
    for item in table.result.rejects.to_dict("records"):
        refused.setdefault(int(item["line"]), str(item["reason"]))
    out.refused += [(given.name, line, reason) for line, reason in refused.items()]
    written = table.frame[table.frame.index.isin(list(refused))]
    found = []
    for frame in (kept, written):
        for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
            filled = {
                name for name in words.values if name not in NAME_COLUMNS and pd.isna(stated.frame.at[line, name])
            }
            cells = {str(name): cell for name, cell in row.items() if name not in _NOT_FACTS and not pd.isna(cell)}
            texts = {name: row[name] for name in ("notes",) if isinstance(row.get(name), str)}
            own = {name: cell for name, cell in {**texts, **cells}.items() if name not in filled}
            found.append(ServerRow(given.name, int(line), {**client.get(int(line), {}), **own}, table.format_name))
    return sorted(found, key=lambda one: one.line)


def _of_log(server: Mapping[str, Any]) -> dict[str, Any]:
    """A server's log as a run of its own, where no result file is given: its rate at the requests that ran."""
    measured = {"output_tok_per_s": "logged_tok_per_s", "batch_size": "running_requests"}
    if not all(name in server for name in measured.values()):
        return dict(server)
    return {**{name: server[own] for name, own in measured.items()}, "batch_kind": "concurrency", **server}


def _with_repeats(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows, the first of each group of repeated runs with its time beside that of the later ones."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        if row.get("tpot_s") is not None:
            groups.setdefault(tuple(str(row.get(name)) for name in _ALIKE), []).append(place)
    for places in groups.values():
        if len(places) >= _ENOUGH_REPEATS:
            first, *later = (float(rows[place]["tpot_s"]) for place in places)
            rows[places[0]] |= {"first_tpot_s": first, "later_tpot_s": median(later)}
    return rows


def _runs(facts: list[dict[str, Any]], where: list[tuple[str, int]], configs: Mapping[str, str]) -> list[Run]:
    n = len(facts)
    predicted = set(np.unique(np.linspace(0, n - 1, min(n, MAX_PREDICTED)).round().astype(int)).tolist())
    runs, without = [], [row for row in facts if row.get("draft_tokens_k") == 0]
    a_pair = len(without) == 1 and n == 2
    for place, (own, (file, line)) in enumerate(zip(facts, where, strict=True)):
        plain = plain_beside(own, without, a_pair) if own.get("draft_tokens_k") else {}
        run = Run(own, file, line, plain)
        if place in predicted:
            run = with_prediction(run, configs)
        else:
            run = replace(run, not_compared=f"an even sample of {MAX_PREDICTED} rows is predicted")
        runs.append(run)
    return runs


def with_prediction(run: Run, configs: Mapping[str, str] | None = None) -> Run:
    """The run with its prediction, or with the reason why it has none."""
    try:
        if token_time_s(run.facts) is None and not any(run.has(name) for name in ("verify_time_s", "speedup")):
            return replace(run, not_compared="nothing that can be predicted was measured")
        return replace(run, comparison=compare(run.facts, run.plain, configs))
    except AdvisorError as error:
        reason = str(error).replace("fill it with --assume", "give it with --set").replace("--assume", "--set")
        return replace(run, not_compared=reason)
