"""Files of any kind to runs: measured rows with their server, their plain run and their
prediction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

import numpy as np
import pandas as pd

from advisor.answers.diagnosis.facts import UserRun, client_facts, read_servers
from advisor.answers.diagnosis.physics import compare, token_time_s
from advisor.catalog.models import model_ids, model_meant
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.derived import MATCH_COLUMNS, MEAN_RUNNING
from advisor.measured.ingest.own import OwnDocument, own_rows
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import (
    NAME_COLUMNS,
    Measured,
    resolve_names,
    with_baselines,
    with_given,
)
from advisor.measured.ingest.side_by_side import ANY_RATE
from advisor.measured.ingest.upload import MAX_BYTES, named_apart
from advisor.measured.points import measured_times
from advisor.measured.run import as_number
from advisor.physics.acceptance import parse_acceptance
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import AdvisorError

DEFAULT_ADMITTED = 48
"""Requests that SGLang admits with speculation where nothing is said
(profiles/engines/sglang.yaml). [-]"""
_PLACEMENT = ("gpu_count", "tensor_parallel", "expert_parallel")
"""Columns that tell together on how many accelerators a run was served."""


@dataclass(frozen=True)
class UserInput:
    """Words of a user about the files. `values` fill and replace names, `columns` rename headers,
    `otherwise` fills."""

    values: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)
    source: str = "scenario"
    """Where `otherwise` is from: `bar` or `scenario`."""
    scenario: Scenario | None = None
    """Tells of runs of its model and drafter what no column does."""


def filled(run: UserRun, words: UserInput) -> UserRun:
    """The run completed by the user's words.

    A number of accelerators is of one piece: where a run or the user states a part of it,
    `otherwise` adds nothing. Raises AdvisorError for a word on no column of ours, and for no number
    where one is meant.
    """
    facts = run.facts
    others = _typed(words.otherwise)
    values = _typed(
        _at_its_k(words.values, facts.get("draft_tokens_k", words.values.get("draft_tokens_k")))
    )
    if any(facts.get(name) is not None or name in values for name in _PLACEMENT):
        others = {name: value for name, value in others.items() if name not in _PLACEMENT}

    def source_of(*names: str) -> str:
        if any(facts.get(name) is not None for name in names):
            return ""
        if any(name in values for name in names):
            return "given"
        return words.source if any(name in others for name in names) else ""

    # A user's names replace those of files.
    accelerator = "given" if "hardware_id" in values else source_of("hardware_id")
    assumed = accelerator, source_of(*_PLACEMENT)
    return replace(run, facts={**others, **values, **facts}, assumed=assumed)


def _at_its_k(values: Mapping[str, str], n_draft: Any) -> Mapping[str, str]:
    """Values with an accepted length typed as X@K at the run's own K. Without one where that is 0
    or not known."""
    stated = values.get("accepted_length", "")
    k = int(as_number(n_draft) or 0)
    if "@" not in stated:
        return values
    rest = {name: value for name, value in values.items() if name != "accepted_length"}
    if not k:
        return rest
    length = parse_acceptance(stated, k).accepted_length[k]
    return rest | {"accepted_length": f"{length:.6g}", "accepted_length_same_run": "0"}


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """What a user says of columns, numbers as such. Raises AdvisorError for no column of ours, and
    for no number."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        column = COLUMNS["points"].get(name)
        if column is None:
            raise AdvisorError(f"{name!r} is no column that can be filled in; see docs/formats.md")
        out[name] = as_number(value) if column.numeric else value
        if out[name] is None:
            raise AdvisorError(f"{name}={value!r} is no number; expected {column.range_text}")
    return out


_COUNTED = ("accepted_length", "accepted_length_same_run", "acceptance_by_position")
"""What a log counts and a result file counts better."""


@dataclass(frozen=True)
class ReadFile:
    """A file, or a row of it, as it was read."""

    kind: Literal["launch", "log", "table", "baseline"]
    place: str
    lines: int = 0
    """Launch lines. [-]"""
    of: str = ""
    """Name of a table's format; for a baseline, the place that prints an accepted length."""


def plain_by_absence(
    rows: Sequence[UserRun], servers: Sequence[UserRun]
) -> tuple[list[UserRun], list[ReadFile]]:
    """Rows with those as runs without speculation that state no accepted length.

    Unlike others of their tool, which do.

    A benchmark prints the accepted length of every server that speculates. Rows whose K is known,
    or whose own file has a launch line, stay as they are.
    """
    counting = {row.form: row.place for row in rows if "accepted_length" in row.facts}
    out = []
    readings = []
    for row in rows:
        if row.form in counting and _drafts({**_own(row, rows, servers), **row.facts}) is None:
            readings.append(ReadFile("baseline", row.place, of=counting[row.form]))
            row = replace(row, facts={**row.facts, "draft_tokens_k": 0})
        out.append(row)
    return out, readings


def server_of(row: UserRun, rows: Sequence[UserRun], servers: Sequence[UserRun]) -> dict[str, Any]:
    """Settings of the server that a row ran on.

    Those of its own file come first; files without a row tell of the rows that speculate, or do
    not, as they say.
    """
    file_settings = _own(row, rows, servers)
    measured = {other.file for other in rows}
    drafts = _drafts({**file_settings, **row.facts})
    apart = [server for server in servers if server.file not in measured]
    kinds = {_drafts(server.facts) for server in apart} - {None}
    fitting = apart  # of a row of which nothing is known, those that do not differ in it
    if drafts is not None or len(kinds) != 1:
        fitting = [server for server in apart if _drafts(server.facts) in (None, drafts)]
    if not fitting and len(rows) == 1 and "draft_tokens_k" not in row.facts:
        fitting = apart  # all there is was meant for it: what contradicts is named
    merged: dict[str, Any] = {}
    for server in fitting:
        merged |= server.facts
    counted_there = _COUNTED if "accepted_length" in row.facts else ()
    return {
        name: value
        for name, value in {**merged, **file_settings}.items()
        if name not in counted_there
    }


def _own(row: UserRun, rows: Sequence[UserRun], servers: Sequence[UserRun]) -> Mapping[str, Any]:
    """The last server of its own file before it. The first one where all rows of the file stand
    before."""
    same_file = [server for server in servers if server.file == row.file]
    before = [server for server in same_file if server.line <= row.line]
    if before:
        return before[-1].facts
    last = max((other.line for other in rows if other.file == row.file), default=0)
    return same_file[0].facts if same_file and last < same_file[0].line else {}


def _drafts(facts: Mapping[str, Any]) -> bool | None:
    """Whether a row or a server speculates. None where nothing tells."""
    k = as_number(facts.get("draft_tokens_k"))
    if k is not None:
        return bool(k)
    if facts.get("speculation_on") is not None:
        return bool(facts["speculation_on"])
    return True if (as_number(facts.get("accepted_length")) or 1.0) > 1.0 else None


SAME_LENGTH = 0.05
"""Prompt and output lengths that differ by no more are the same, as for ingest's baselines. [-]"""
_EXACT = (
    *(name for name in MATCH_COLUMNS if name not in ("n_experts", "n_active")),
    "max_num_seqs",
    "max_running_requests",
    "graphs_off",
    "temperature",
    "request_rate",
)
_WITHIN = ("input_tokens", "output_tokens")
_THE_SAME = ("model_id", "hardware_id", "batch_size", "dataset")
_TOLD = ("model_id", "hardware_id", "batch_size", "dataset", "engine_version", "gpu_count")


def differences(facts: Mapping[str, Any], plain: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that both runs state and that are not the same: name, baseline's, speculative
    run's."""
    out = []
    for name in (*_EXACT, *_WITHIN):
        value = facts.get(name)
        other = plain.get(name)
        if value is None or other is None or _is_same(name, value, other):
            continue
        if name == "batch_size" and is_mean_batch(facts):
            continue
        if name in _WITHIN and abs(float(value) - float(other)) <= SAME_LENGTH * float(other):
            continue
        out.append((name, other, value))
    return out


def _is_same(name: str, value: Any, other: Any) -> bool:
    """Whether two values of a setting are one: a model's checkpoint is that which our name for it
    means."""
    if value == other or name != "model_id":
        return bool(value == other)
    names = {str(value), str(other)}
    return not names.isdisjoint(model_ids()) and len({model_meant(model) for model in names}) == 1


def is_mean_batch(facts: Mapping[str, Any]) -> bool:
    """Whether a run's batch is the mean that an open load came to, which no two runs have alike."""
    return facts.get("batch_kind") == MEAN_RUNNING


def plain_beside(
    facts: Mapping[str, Any], plain: Sequence[Mapping[str, Any]], a_pair: bool = False
) -> Mapping[str, Any]:
    """Plain run that a speculative one is compared with. The one most like it of all without
    speculation.

    One for another model, accelerator, batch or data set is none, except where the two are all
    there is (`a_pair`): then they were meant for each other. Empty where none fits.
    """
    same = [name for name in _THE_SAME if name != "batch_size" or not is_mean_batch(facts)]

    def fits(row: Mapping[str, Any]) -> bool:
        return a_pair or all(
            row.get(name) is None or _is_same(name, row[name], facts.get(name)) for name in same
        )

    fitting = [row for row in plain if fits(row)]
    return min(
        fitting, key=lambda row: sum(row.get(name) != facts.get(name) for name in _TOLD), default={}
    )


MAX_RUNS = 2000
"""Rows of all files that rules are tried on; of more, the first ones."""
MAX_PREDICTED = 40
"""Of them, those that are predicted: an even sample of more."""
_NOT_FACTS = frozenset({"derived", "notes", "source_title", "source_url", "point_id", "tier"})
_ALIKE = (
    "model_id",
    "hardware_id",
    "engine",
    "batch_size",
    "draft_tokens_k",
    "input_tokens",
    "output_tokens",
)
_ENOUGH_REPEATS = 3


@dataclass(frozen=True)
class UserFile:
    """A file as the user gave it."""

    name: str
    data: bytes
    columns: Mapping[str, str] = field(default_factory=dict)
    """Its headers that mean a column of ours, as the user says."""
    documents: tuple[OwnDocument, ...] = ()
    """Models and accelerators of the user's own that its rows name."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What the user says of its runs alone, by column."""


@dataclass
class LoadedRuns:
    """Runs and servers that the files hold together."""

    runs: list[UserRun] = field(default_factory=list)
    read: list[ReadFile] = field(default_factory=list)
    not_read: dict[str, str] = field(default_factory=dict)
    """Files that hold nothing of use, with the reason."""
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    """Rows that contradict themselves or cannot be read: file, line, reason."""
    contradicted: list[tuple[str, float]] = field(default_factory=list)
    """Rows that cannot be of the server that their launch line tells of: place and accepted length
    stated at K = 0."""
    n_kept: int = 0
    """Rows that can be used. [-]"""


def read_runs(
    files: Sequence[UserFile], words: UserInput, configs: Mapping[str, str]
) -> LoadedRuns:
    """Runs of all files with settings, plain run, prediction. Raises AdvisorError for neither run
    nor settings."""
    out = LoadedRuns()
    rows = []
    servers = []
    user_files = _named_apart(files)
    tables = [_table(file, words.columns) for file in user_files]
    with_k = iter(with_baselines([table for table in tables if isinstance(table, Measured)]))
    for file, stated in zip(user_files, tables, strict=True):
        table = next(with_k) if isinstance(stated, Measured) else None
        file_servers = [
            UserRun(facts, file.name, line) for line, facts in read_servers(_text(file.data))
        ]
        if file_servers:
            servers += file_servers
            launched = sum("launch_line" in server.facts for server in file_servers)
            out.read.append(ReadFile("launch" if launched else "log", file.name, launched))
        if table is not None:
            out.read.append(ReadFile("table", file.name, of=table.format_name))
            rows += _rows(table, file, words, configs, out)
        elif not file_servers:
            out.not_read[file.name] = str(stated)
    if not rows and not servers:
        refused = {f"{name}, line {line}": reason for name, line, reason in out.refused}
        name, reason = next(
            iter((out.not_read | refused).items()), ("nothing", "no file was given")
        )
        raise AdvisorError(reason if reason.startswith(name) else f"{name}: {reason}")
    rows, readings = plain_by_absence(rows, servers)
    out.read += readings
    complete_rows = [
        replace(row, facts={**server_of(row, rows, servers), **row.facts}) for row in rows
    ]
    runs = [_without_contradiction(row, out) for row in complete_rows]
    if not runs:
        runs = [_of_log(server) for server in servers]
    batch_runs = [
        at_batch for run in runs for at_batch in _at_batches(filled(run, words), words.scenario)
    ]
    out.runs = _compared(_with_repeats(batch_runs)[:MAX_RUNS], configs, words.scenario)
    return out


_BATCHES = (1, 4, 16, 64, 256, 1024)
"""Requests at a time that a server is judged at by prediction alone, besides those of its settings.
Own choice. [-]"""
_ADMITTED = 256
"""Up to which it is judged where neither its settings nor the user say how many run together. Own
choice. [-]"""


def _at_batches(server: UserRun, bar: Scenario | None) -> list[UserRun]:
    """A server of which nothing was measured, at the batches that it allows. Any other run as it
    is."""
    k = server.number("draft_tokens_k")
    if not k or not server.value("launch_line") or was_measured(server.facts):
        return [server]
    stated = server.number("batch_size") or (None if bar is None else float(bar.batch_size))
    captured = server.number("largest_graph")
    admitted = server.number("max_num_seqs") or server.number("max_running_requests")
    if admitted is None and server.text("engine") == "sglang":
        admitted = float(DEFAULT_ADMITTED)
    last = max(stated or 0.0, admitted or 0.0) or _ADMITTED
    setting_batches = {
        stated,
        admitted,
        server.number("largest_graph_batch"),
        captured and captured // (k + 1.0),
    } - {None, 0.0}
    batches = sorted(
        {
            float(batch)
            for batch in (*_BATCHES, *setting_batches, last)
            if batch and batch <= min(last, MAX_BATCH)
        }
    )
    return [replace(server, facts={**server.facts, "batch_size": batch}) for batch in batches]


def was_measured(facts: Mapping[str, Any]) -> bool:
    """Whether a run states a time, a rate or a speedup that a prediction can be held against."""
    return token_time_s(facts) is not None or any(
        facts.get(name) is not None for name in ("verify_time_s", "speedup")
    )


def _named_apart(files: Sequence[UserFile]) -> list[UserFile]:
    """The files, those of the same name numbered: a launch line is told by its file."""
    names = named_apart(file.name for file in files)
    return [replace(file, name=name) for file, name in zip(files, names, strict=True)]


def _without_contradiction(row: UserRun, out: LoadedRuns) -> UserRun:
    """The run. Where K and accepted length contradict each other the row is refused and its K
    unknown."""
    k = row.number("draft_tokens_k")
    length = row.number("accepted_length")
    if k != 0 or length is None or length <= 1.0:
        return row
    if row.place not in {place for place, _ in out.contradicted}:
        out.contradicted.append((row.place, length))
        out.n_kept -= 1
    contradicted = ("draft_tokens_k", "speculation_on")
    return replace(
        row, facts={name: value for name, value in row.facts.items() if name not in contradicted}
    )


def _text(data: bytes) -> str:
    """The start of a file as text. A result file that is JSON holds no launch line of its own."""
    head = data[:MAX_BYTES].decode("utf-8", errors="replace")
    return "" if head.lstrip()[:1] in ("{", "[") or "\x00" in head[:1000] else head


def _table(file: UserFile, columns: Mapping[str, str]) -> Measured | AdvisorError:
    """The measured rows of a file under the headers that a user renamed, else why there are
    none."""
    names = {**columns, **file.columns}
    try:
        rows = own_rows(read_upload(file.name, file.data, columns=names), (), file.documents)
        if rows.kind != "points":
            raise AdvisorError("it holds kernel times, not served runs")
    except AdvisorError as error:
        return error
    return rows


def _rows(
    stated: Measured, file: UserFile, words: UserInput, models: Collection[str], out: LoadedRuns
) -> list[UserRun]:
    """Every row with its facts, the refused ones as they were written. A name of `models` stays
    what it is.

    Names are those that the user says. Numbers that the user fills in stand behind those of a
    launch line, so that they are none of the row's own.
    """
    rates = any("_per_s" in str(source.prefill.get("metric")) for source in stated.sources)
    values = ({"metric": ANY_RATE} if rates else {}) | dict(_at_its_k(words.values, None))
    values |= file.values
    table = resolve_names(with_given(stated, values), models)
    client = client_facts(file.name, file.data)
    usable = table.result.frame
    out.n_kept += len(usable)
    refused: dict[int, str] = {}
    for reject in table.result.rejects.to_dict("records"):
        where = f"{reject['column']} {reject['value']!r}: " if reject["column"] else ""
        refused.setdefault(int(reject["line"]), f"{where}{reject['reason']}")
    out.refused += [(file.name, line, reason) for line, reason in refused.items()]
    left = table.frame.drop(usable.index)
    written = left[[table.own_line(line) in refused for line in left.index]]
    server_rows = []
    for frame in (usable, written):
        for line, row in zip(frame.index, frame.to_dict("records"), strict=True):
            filled = {
                name
                for name in words.values.keys() - file.values.keys()
                if name not in NAME_COLUMNS and pd.isna(stated.frame.at[line, name])
            }
            cells = {
                str(name): cell
                for name, cell in row.items()
                if name not in _NOT_FACTS and not pd.isna(cell)
            }
            texts = {name: row[name] for name in ("notes",) if isinstance(row.get(name), str)}
            stated_cells = {
                name: cell for name, cell in {**texts, **cells}.items() if name not in filled
            }
            facts = {**client.get(int(line), {}), **stated_cells}
            server_rows.append(
                UserRun(facts, file.name, table.own_line(int(line)), form=table.format_name)
            )
    return sorted(server_rows, key=lambda run: run.line)


def _of_log(server: UserRun) -> UserRun:
    """A server's log as a run of its own, where no result file is given: its rate at the requests
    that ran."""
    measured = {"output_tok_per_s": "logged_tok_per_s", "batch_size": "running_requests"}
    if not all(name in server.facts for name in measured.values()):
        return server
    rate = {name: server.facts[logged] for name, logged in measured.items()}
    return replace(server, facts={**rate, "batch_kind": "concurrency", **server.facts})


def _with_repeats(runs: list[UserRun]) -> list[UserRun]:
    """Runs, the first of each group of repeated runs with its time beside that of the later
    ones."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, run in enumerate(runs):
        if run.value("tpot_s") is not None:
            groups.setdefault(tuple(str(run.value(name)) for name in _ALIKE), []).append(index)
    for places in groups.values():
        if len(places) >= _ENOUGH_REPEATS:
            run = runs[places[0]]
            times_s = [float(runs[index].facts["tpot_s"]) for index in places]
            repeats = {"first_tpot_s": times_s[0], "later_tpot_s": median(times_s[1:])}
            runs[places[0]] = replace(run, facts={**run.facts, **repeats})
    return runs


def _compared(
    runs: Sequence[UserRun], configs: Mapping[str, str], bar: Scenario | None
) -> list[UserRun]:
    """The runs, each with the plain one beside it and, of an even sample, its prediction."""
    n = len(runs)
    out = []
    predicted = set(
        np.unique(np.linspace(0, n - 1, min(n, MAX_PREDICTED)).round().astype(int)).tolist()
    )
    without = [run for run in runs if run.value("draft_tokens_k") == 0]
    for index, run in enumerate(runs):
        if run.value("draft_tokens_k"):
            # Of plain runs that are as like it, that of its own file.
            near = [
                plain_run.facts
                for plain_run in sorted(without, key=lambda plain_run: plain_run.file != run.file)
            ]
            beside = plain_beside(run.facts, near, a_pair=len(near) == 1 and n == 2)
            printed_s = measured_times(run.facts)[0]  # of the plain run that the row itself states
            printed_plain = (
                {"draft_tokens_k": 0, "tpot_s": printed_s} if np.isfinite(printed_s) else {}
            )
            run = replace(run, plain=beside or printed_plain)
        sampled = index in predicted
        out.append(
            with_prediction(run, configs, bar, other_models=True)
            if sampled
            else replace(run, unpredicted="sampled")
        )
    return out


def with_prediction(
    run: UserRun,
    configs: Mapping[str, str] | None = None,
    bar: Scenario | None = None,
    other_models: bool = False,
) -> UserRun:
    """The run with its prediction, or with the reason why it has none."""
    measured = was_measured(run.facts)
    if not measured and not (run.value("launch_line") and run.drafts):
        return replace(run, unpredicted="nothing_measured")
    try:
        comparison = compare(run, configs, bar, other_models)
    except AdvisorError as error:
        return replace(run, unpredicted="refused", refusal=str(error))
    if not measured and 0 < comparison.largest_batch < comparison.batch_size:
        return replace(run, unpredicted="too_large", comparison=None)
    return replace(run, comparison=comparison)
