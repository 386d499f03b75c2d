"""The user's benchmark results in the session: files, which of our columns their headers stand for,
rows, refit."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import streamlit as st

from advisor.catalog.hardware import own_drafter
from advisor.catalog.models import model_ids
from advisor.measured.ingest.columns import COLUMNS, TableKind, lacks_document
from advisor.measured.ingest.own import own_document, with_documents
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.remap import (
    IGNORE,
    Header,
    UnrecognizedFileError,
    own_headers,
    target_label,
)
from advisor.measured.ingest.result import (
    ANSWERS,
    OF_ONE_RUN,
    MissingField,
    OpenQuestion,
    measured_length,
    open_questions,
)
from advisor.measured.ingest.rows import (
    NAME_COLUMNS,
    Measured,
    combine,
    complete,
    lacking_files,
    resolve_names,
    with_given,
)
from advisor.measured.ingest.side_by_side import says_k, told_per_token
from advisor.measured.point_checks import HeaderOf, check_units
from advisor.measured.points import Point
from advisor.measured.refit import lacking, refit_chosen, select_points
from advisor.measured.refit_result import RefitResult
from advisor.physics.hardware import hardware_ids
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario, usual_drafter
from advisor.predict.scenario_fields import DOCUMENTS
from advisor.prediction import AdvisorError
from advisor.text import number_of
from advisor.ui.own_data import UPLOAD, in_use, own, stop_refit, text_of
from advisor.ui.session import Kept, attempt
from advisor.ui.state import own_hardware, own_models

MAPPED_FORMATS = ("canonical_csv", "canonical_json", "kernel_table")
"""Formats whose headers a user may give in words of their own."""


@dataclass(frozen=True)
class UploadFile:
    """A file as read under the columns that were chosen for it. Where it cannot be read, the reason
    and no rows."""

    name: str
    digest: str
    rows: Measured | None
    problem: str = ""
    data: bytes = b""
    """Its content, kept where its headers may be mapped."""
    kind: TableKind = "points"
    headers: tuple[Header, ...] = ()
    """Its own headers, each with what it is read as or may be; empty where they cannot be
    mapped."""
    chosen: bool = False
    """Whether a user said which column is which."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What the user says of its columns, where that is not what the readers do by themselves, and
    of the whole file."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What the user says of the whole file (ANSWERS): what commas mark, the unit of times."""
    unrecognized: bool = False
    """Whether no reader claims it."""

    @property
    def half_read(self) -> bool:
        """Whether its columns but the batch's are understood, and that one is guessed: a question,
        no error."""
        guessed = any(item.ours == "batch_size" for item in self.headers)
        return (
            self.rows is None
            and guessed
            and sum(item.native is not None for item in self.headers) > 1
        )

    @property
    def asked(self) -> tuple[OpenQuestion, ...]:
        """Questions that it leaves open of its own numbers."""
        return open_questions(self.rows.rejects) if self.rows is not None else ()

    @property
    def unused(self) -> int:
        """Number of its columns of numbers that nothing is read from and nobody ignored."""
        if self.chosen and self.rows is not None:
            return 0
        return sum(
            item.native is None and any(number_of(cell) is not None for cell in item.cells)
            for item in self.headers
        )


def read_file(name: str, data: bytes, digest: str) -> UploadFile:
    """Read a file by what its readers know."""
    rows, problem, unrecognized = _attempted(name, data)
    kind = "points" if rows is None else rows.kind
    return UploadFile(name, digest, rows, problem, data, kind, unrecognized=unrecognized)


def with_headers(file: UploadFile, alone: bool) -> UploadFile:
    """The file with guesses at what its own headers mean, where they may be mapped.

    Otherwise the file without its content.

    `alone`: no other file is read with it, so that columns which its rows contradict are its own.
    """
    headers: tuple[Header, ...] = ()
    if file.rows is None or file.rows.sources[0].format_id in MAPPED_FORMATS:
        headers = own_headers(file.name, file.data, file.kind, _swapped(file.rows, alone))
    if (rows := file.rows) is not None:
        wanted_columns = _asked_first(attempt(lambda: rows.result)[0])
        headers = tuple(
            header
            if header.native or header.ours in wanted_columns
            else replace(header, ours=IGNORE)
            for header in headers
        )
    problem = file.problem
    if headers and file.unrecognized:
        problem = f"{file.name} is not recognized by its headers; say below which column is which"
    return replace(file, headers=headers, data=file.data if headers else b"", problem=problem)


def read_as(file: UploadFile, chosen: Mapping[str, str]) -> UploadFile:
    """The file read anew with its headers as chosen {theirs: ours}."""
    read_by_itself = {item.theirs: item.native or IGNORE for item in file.headers}
    changed = {
        theirs: chosen[theirs] for theirs, ours in read_by_itself.items() if chosen[theirs] != ours
    }
    answers = {**file.said, **{key: chosen[key] for key in ANSWERS if chosen.get(key)}}
    changed |= answers
    headers = tuple(replace(item, ours=chosen[item.theirs]) for item in file.headers)
    rows, problem, unrecognized = _attempted(file.name, file.data, changed or None)
    needs = (
        "cannot be read with these columns: say above which hold the batch, K, and a rate, a time "
        "or a speedup"
    )
    problem = f"{file.name} {needs}" if unrecognized else problem
    return replace(
        file,
        rows=rows,
        problem=problem,
        headers=headers,
        chosen=True,
        columns=changed,
        said=answers,
    )


def _read(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> Measured:
    return resolve_names(_with_own(read_upload(name, data, columns=columns)))


def _attempted(
    name: str, data: bytes, columns: Mapping[str, str] | None = None
) -> tuple[Measured | None, str, bool]:
    """(rows, "", False), or (None, the sentence of the refusal, whether no reader claims it)."""
    try:
        return _read(name, data, columns), "", False
    except AdvisorError as error:
        return None, str(error), isinstance(error, UnrecognizedFileError)


def _with_own(rows: Measured) -> Measured:
    """Rows whose models and accelerators of this session hold their documents, so that they stay
    what was measured."""
    if rows.kind != "points":
        return rows
    documents = [own_document("model_id", name, text) for name, text in own_models().items()]
    documents += [own_document("hardware_id", name, text) for name, text in own_hardware().items()]
    return replace(rows, frame=with_documents(rows.frame, documents))


def _swapped(rows: Measured | None, alone: bool) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that look exchanged, by their cells and, of a lone file, by what its rows
    contradict."""
    if rows is None:
        return ()
    if not alone:
        return rows.swapped
    result, _ = attempt(lambda: rows.result)
    return () if result is None else result.swapped


FILES: Kept[tuple[UploadFile, ...]] = Kept("_upload_files", tuple)
"""Those that could not be read among them."""
_GIVEN: Kept[tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]] = Kept("_upload_given", tuple)
"""What was filled in and what was read under another name, in the order in which it was said."""
_PROBLEM: Kept[tuple[str, str]] = Kept("_upload_in_vain", lambda: ("", ""))
"""Where the button stands that was pressed last in vain (`file`, `columns 0`, `fields`, `refit`),
and why."""
REFIT: Kept[tuple[list[Point], RefitResult] | None] = Kept("_upload_refit")
_UNITS: Kept[tuple[Measured, tuple[Any, ...], str] | None] = Kept("_upload_units")
"""What the units of an upload were judged with, and what is wrong with them."""
_JUDGED_ROWS = 100
"""Rows of an upload that units are judged on when it is read, spread over it: a wrong unit moves
all of them. [-]"""
_MADE: Kept[tuple[str, ...]] = Kept("_upload_refits", tuple)
"""Every refit of this upload, as a scenario carries it."""
NOTES: Kept[list[str]] = Kept("_upload_notes", list)
"""On the upload as a whole: already read, made up, forgotten."""
FROM_BAR: Kept[Mapping[str, Any]] = Kept("_upload_from_bar", dict)
"""What the files do not say and the bar said when they were dropped, by column."""
FROM_SCENARIO = {
    "hardware_id": "hardware_id",
    "model_id": "model_id",
    "engine": "engine",
    "tensor_parallel": "tensor_parallel",
    "expert_parallel": "expert_parallel",
    "drafter": "drafter_id",
}
_SET_BY_ROWS = FROM_SCENARIO | {"context_tokens": "context_tokens"}
OF_THE_MODEL = ("gpu_count", "tensor_parallel", "expert_parallel", "drafter")
"""Fields of the bar that hold for its own model: a file of another model is asked for them."""
FIELD_KEYS = ("missing_", "known_", "stated_", "map_")
"""How the keys of widgets that belong to one upload begin."""


def upload() -> Measured | None:
    """The upload of this session, as read and completed so far."""
    rows = UPLOAD.result
    return None if rows is None else rows.result


def problem(place: str) -> str:
    """Reason that the last thing asked for at one place did not work, empty when it did."""
    where, reason = _PROBLEM.result
    return reason if where == place else ""


def complain(place: str, error: AdvisorError | str) -> None:
    """Say at one place why what was asked for did not work."""
    _PROBLEM.put((place, str(error)))


def take(given: Mapping[str, bytes], scenario: Scenario) -> None:
    """Read benchmark files {name: content} as one. What they do not say is taken from the scenario
    in the bar."""
    by_hash: dict[str, tuple[str, bytes]] = {}
    notes: list[str] = []
    for name, data in given.items():
        digest = hashlib.sha256(data).hexdigest()
        if digest in by_hash:
            notes.append(f"{name} is the same file as {by_hash[digest][0]}: read once")
        else:
            by_hash[digest] = (name, data)
    if set(by_hash) == {file.digest for file in FILES.result}:
        _PROBLEM.forget()
        NOTES.put(notes or ["This is already read in this session; nothing changed"])
        return
    before = UPLOAD.result
    _take_bytes(by_hash)
    if UPLOAD.result is not before:
        fill_from_bar(scenario)
    NOTES.put(notes)


def _take_bytes(given: Mapping[str, tuple[str, bytes]]) -> None:
    """Read files {hash: (name, content)} as one in place of what was read before; what cannot be
    read is said.

    Where they bring nothing that can be read, what was read before stays, with what was filled in
    and its refit.
    """
    files = [read_file(name, data, digest) for digest, (name, data) in given.items()]
    files = [with_headers(file, len(files) == 1) for file in files]
    problems = [file.problem for file in files if file.problem]
    rows, combine_problem = attempt(_combined, files)
    if combine_problem:
        problems.append(combine_problem)
    new = {file.digest for file in files if file.rows is not None or file.headers}
    if (
        problems
        and UPLOAD.result is not None
        and (combine_problem or new <= {file.digest for file in FILES.result})
    ):
        names = ", ".join(file.name for file in FILES.result)
        reasons = " ".join(f"{text.rstrip('.')}." for text in problems)
        complain("file", f"{reasons} What was read before stays: {names}.")
        return
    drop()
    FILES.put(tuple(files))
    if rows is not None:
        UPLOAD.put(rows)
    if problems:
        complain("file", ". ".join(problems))


def _combined(files: Sequence[UploadFile]) -> Measured | None:
    """Rows of all files that could be read, computed, checked, or None. Raises AdvisorError where
    they do not fit."""
    tables = [file.rows for file in files if file.rows is not None]
    return _filled(combine(tables), ()) if tables else None


def _filled(
    rows: Measured | None, given: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Measured | None:
    """Rows with what was filled in, one after the other, checked. Raises AdvisorError where they do
    not go together."""
    if rows is None:
        return None
    for values, override in given:
        rows = _with(rows, values, override)
    _ = rows.result  # computed once, kept with the rows
    return rows


def _with(rows: Measured, values: Mapping[str, Any], override: Mapping[str, Any]) -> Measured:
    """Rows with what a user says of them, as far as they have such columns."""
    known = COLUMNS[rows.kind]
    filled = complete(rows, {name: value for name, value in values.items() if name in known})
    changed = with_given(
        filled, {name: value for name, value in override.items() if value and name in known}
    )
    return resolve_names(_with_own(changed))


def read_with(number: int, chosen: Mapping[str, str], scenario: Scenario) -> None:
    """Read one of the files anew with its headers as chosen, {theirs: ours}. What was filled in
    stays, a refit not."""
    forget_refit()
    changed = list(FILES.result)
    changed[number] = read_as(changed[number], chosen)
    FILES.put(tuple(changed))
    UPLOAD.forget()
    UPLOAD.take(lambda: _filled(_combined(FILES.result), _GIVEN.result))
    if problems := [text for text in (changed[number].problem, UPLOAD.problem) if text]:
        complain(f"columns {number}", ". ".join(problems))
    else:
        meant = (
            f"{theirs} as {target_label(ours)}" for theirs, ours in changed[number].columns.items()
        )
        NOTES.put(
            [f"{changed[number].name} read with {', '.join(meant) or 'its columns as they were'}"]
        )
    fill_from_bar(scenario)


def fill_in(values: Mapping[str, Any], override: Mapping[str, Any], place: str) -> bool:
    """Complete the upload's context, replace names, drop the refit. Whether it worked, else
    `problem` says why."""
    if UPLOAD.result is None:
        return False
    forget_refit()
    if not UPLOAD.take(_filled, UPLOAD.result, [(values, override)]):
        complain(place, UPLOAD.problem)
        return False
    _GIVEN.put((*_GIVEN.result, (dict(values), dict(override))))
    return True


def filled_in() -> dict[str, str]:
    """Values that the user filled in, by column. Left out is what the bar says, and what is said of
    each file apart."""
    stated: dict[str, Any] = {}
    for values, override in _GIVEN.result:
        stated |= {**values, **_said(override)}
    apart = {
        name for name in OF_ONE_RUN if "," in str(stated.get(name, ""))
    } | FROM_BAR.result.keys()
    return {name: str(value) for name, value in stated.items() if name not in apart}


def fill_from_bar(scenario: Scenario) -> None:
    """Fill what the files leave open with what they suggest, else with what the bar says of the
    same model."""
    read = upload()
    if read is None or read.kind != "points":
        return
    other = other_model(read, scenario)
    open_fields = [item for item in read.missing if item.needed or item.name in FROM_SCENARIO]
    guesses = {item.name: guess_of(item, other, scenario) for item in open_fields}
    likely = likely_columns()
    lacked = lacked_drafter(other or scenario.model_id)
    likely |= {
        item.name for item in open_fields if item.name == "drafter" and item.prefill == lacked
    }
    likely |= {
        item.name for item in open_fields if item.name == "batch_size" and item.prefill is not None
    }
    taken = {
        name: value for name, value in guesses.items() if value is not None and name not in likely
    }
    # A guess from the name of a column is asked about, with the guess filled in.
    if not told_per_token(read.frame):
        taken.pop("metric", None)
    header = header_in(read, "sd_value")
    if header and not says_k(header) and taken.pop("draft_tokens_k", None):
        other_drafter = taken.get("drafter") != scenario.drafter_id
        taken = {
            name: value for name, value in taken.items() if name != "drafter" or not other_drafter
        }
    last_problem = _PROBLEM.result  # of a file beside those that could be read
    if taken and fill_in(taken, {}, "fields"):
        _PROBLEM.put(last_problem)
        suggested = {item.name for item in open_fields if item.prefill is not None}
        FROM_BAR.put(
            {**FROM_BAR.result, **{name: taken[name] for name in taken if name not in suggested}}
        )


def fill_as_bar(scenario: Scenario) -> None:
    """Take what was taken from the bar when the files came from the bar as it stands now."""
    forget_refit()
    before = FROM_BAR.result.items()
    entries = [(dict(values.items() - before), override) for values, override in _GIVEN.result]
    if not UPLOAD.take(lambda: _filled(_combined(FILES.result), entries)):
        complain("fields", UPLOAD.problem)
        return
    _GIVEN.put(tuple(entry for entry in entries if any(entry)))
    FROM_BAR.forget()
    fill_from_bar(scenario)


def likely_columns() -> set[str]:
    """Required columns of ours that an unused column of a file may well be: asked first."""
    lone = [file for file in FILES.result if not file.chosen]
    return {
        item.ours for file in lone for item in file.headers if item.native is None
    } & _asked_first(upload())


def _asked_first(read: Measured | None) -> set[str]:
    """Columns of ours that rows lack and a guess at a file's own is confirmed for. Other guesses
    are not taken."""
    if read is None:
        return set()
    needed = {item.name for item in read.missing if item.required}
    no_length = read.kind == "points" and bool(read.frame["accepted_length"].isna().all())
    return needed | {"accepted_length"} if no_length else needed


def header_in(read: Measured, column: str) -> str:
    """Header that the first file with one of our columns has for it. Empty where none has."""
    return next(
        (source.headers[column][0] for source in read.sources if column in source.headers), ""
    )


def guess_of(item: MissingField, other: str, scenario: Scenario) -> Any:
    """The file's suggestion, else the bar's value of the same model. None without either."""
    bar = of_scenario(item.name, scenario)
    if item.name == "drafter" and item.prefill == lacked_drafter(other or scenario.model_id):
        return None if other else bar
    if (
        item.name == "drafter"
        and item.prefill is not None
        and str(bar).startswith(str(item.prefill))
    ):
        return bar  # a header says the family, `eagle`
    if item.prefill is not None or (other and item.name in OF_THE_MODEL):
        return item.prefill
    return bar


def lacked_drafter(model_id: str) -> str:
    """The draft module that a shipped model has not. Empty where it has one, or is the user's
    own."""
    return "mtp" if model_id in model_ids() and own_drafter(model_id) != "mtp" else ""


def of_scenario(name: str, scenario: Scenario) -> Any:
    """The bar's value of a column. None where it says nothing of it."""
    if name == "gpu_count":  # of one copy, as the scenario's batch is
        return max(scenario.tensor_parallel, scenario.expert_parallel)
    if name == "drafter" and scenario.drafter_id == "none":
        return None
    return getattr(scenario, FROM_SCENARIO[name]) if name in FROM_SCENARIO else None


def other_model(read: Measured, scenario: Scenario) -> str:
    """The first model that the files name and the bar does not. Empty where there is none."""
    model_names = read.frame["model_id"].dropna() if "model_id" in read.frame else ()
    return next((str(name) for name in model_names if name != scenario.model_id), "")


def one_a_file(name: str) -> list[str]:
    """Files that a field may be given one value each for, in order. Empty where it holds for all
    rows alike."""
    rows = UPLOAD.result
    files = lacking_files(rows, name) if rows is not None and name in OF_ONE_RUN else []
    return [source.file_name for source in files] if len(files) > 1 else []


def shown() -> tuple[dict[str, Any], dict[str, Any]]:
    """Entries of the form of missing fields: values by column, and readings of unknown names."""
    read = upload()
    if read is None:
        return {}, {}
    now = st.session_state
    values = {item.name: now.get(f"missing_{item.name}") for item in read.missing}
    override = {
        name: now.get(f"known_{name}") or now.get(f"stated_{name}") for name in NAME_COLUMNS
    }
    return _said(values), _said(override)


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in values.items() if value is not None and str(value).strip()
    }


def unknown_names(read: Measured) -> dict[str, list[str]]:
    """Hardware and model names in the upload that are no known id, by column."""
    if read.kind != "points":
        return {}
    known = {"hardware_id": set(hardware_ids()), "model_id": set(model_ids())}
    stated = {
        name: read.frame.loc[lacks_document(read.frame, name), name].dropna() for name in known
    }
    unknown = {name: sorted(set(stated[name]) - ids) for name, ids in known.items()}
    return {name: names for name, names in unknown.items() if names}


def lacks(read: Measured) -> dict[tuple[str, ...], int]:
    """Columns that keep the upload, filled in by the form, from a refit. With the rows that lack
    each."""
    values, override = shown()
    frame = read.frame.copy(deep=False)
    for name, names in unknown_names(read).items():
        if name not in override:
            frame[name] = frame[name].mask(frame[name].isin(names))
    return lacking(frame, values)


def unit_problem(acceptance: str) -> str:
    """Sentence on a column whose values no engine explains in its unit.

    Empty where there is none, or where none can be judged.

    acceptance : as in a scenario; for rows without an accepted length. The upload counts with the
        form's entries.
    """
    rows = UPLOAD.result
    read = upload()
    if rows is None or read is None or read.kind != "points" or not read.rows_kept or lacks(read):
        return ""
    values, override = shown()
    judged_with = (values, override, acceptance)
    judged = _UNITS.result
    if judged is None or judged[0] is not read or judged[1] != judged_with:
        some = replace(rows, frame=read.frame.iloc[:: -(-len(read.frame) // _JUDGED_ROWS)])
        selected, _ = attempt(
            lambda: select_points(_with(some, values, override).frame, acceptance=acceptance)
        )
        # Why none could be selected is said at the button that asks for it.
        reason = (
            ""
            if selected is None
            else read.in_own_lines(attempt(check_units, selected[0], read.header_of)[1])
        )
        judged = (read, judged_with, reason)
        _UNITS.put(judged)
    return judged[2]


def acceptances(read: Measured) -> dict[str, str]:
    """Acceptance by position that the upload's runs measured: label to shares of rounds
    `0.8;0.6;0.4`."""
    if read.kind != "points":
        return {}
    column = read.frame["acceptance_by_position"].dropna()
    return {
        f"line {read.own_line(line)}, {len(text.split(';'))} positions: {text.replace(';', ', ')}": text  # noqa: E501
        for line, text in column.drop_duplicates().items()
    }


def own_length(read: Measured, scenario: Scenario) -> str | None:
    """Accepted length that the upload's runs of a scenario's model and drafter counted (`2.4@3`),
    or None."""
    if read.kind != "points":
        return None
    rows = read.frame
    drafter = rows["drafter"].fillna(scenario.drafter_id)
    return measured_length(
        rows[rows["model_id"].eq(scenario.model_id) & drafter.eq(scenario.drafter_id)]
    )


def refit_upload(acceptance: str | None) -> None:
    """Refit on the session's upload, completed with the form's entries, and keep the result."""
    values, override = shown()
    filled = fill_in(values, override, "refit") if values or override else True
    if filled and (read := upload()) is not None:
        refit(read.frame, "refit", acceptance, read.header_of)


def refit(
    frame: pd.DataFrame,
    place: str,
    acceptance: str | None = None,
    header_of: HeaderOf | None = None,
) -> None:
    """Refit on points and keep the result in the session."""
    forget_refit()
    try:
        points, refused = select_points(frame, acceptance=acceptance)
        result = refit_chosen(points, refused, header_of)
    except AdvisorError as error:
        read = upload()
        complain(place, str(error) if read is None else read.in_own_lines(str(error)))
        return
    REFIT.put((points, result))
    _MADE.put((*_MADE.result, text_of(result)))


def forget_refit() -> None:
    """Drop the refit from this page. Predictions that use it go on until that is undone."""
    REFIT.forget()
    _PROBLEM.forget()


def undo_refit() -> None:
    """Back to the shipped constants, here and in every prediction."""
    forget_refit()
    stop_refit()


def forget() -> None:
    """Drop the upload, its refit and every prediction with it from the session, and say so."""
    used = in_use() in _MADE.result
    drop()
    note = "Forgotten"
    if used:
        stop_refit()
        note += (
            ", and with it the refit that was in use: every page predicts with the shipped "
            "constants again"
        )
    NOTES.put([note])


def drop() -> None:
    """Drop the upload and its refit from this page. Predictions that use the refit go on until that
    is undone."""
    forget_refit()
    for session_value in (UPLOAD, FILES, _GIVEN, _MADE, NOTES, _UNITS, FROM_BAR):
        session_value.forget()
    for key in [str(key) for key in st.session_state if str(key).startswith(FIELD_KEYS)]:
        del st.session_state[key]


def scenario_of(frame: pd.DataFrame, scenario: Scenario) -> Scenario | None:
    """The scenario with what most rows state. None where that changes nothing, or cannot be."""
    stated = {
        field: Counter(frame[column].dropna().tolist()).most_common(1)[0][0]
        for column, field in _SET_BY_ROWS.items()
        if frame[column].notna().any()
    }
    gpus = frame["gpu_count"].fillna(frame["tensor_parallel"]).dropna()
    if len(gpus):
        stated["n_gpus"] = int(gpus.mode().iloc[0])
        stated.setdefault("tensor_parallel", stated["n_gpus"])
    stated |= {
        name: int(stated[name])
        for name in ("context_tokens", "tensor_parallel", "expert_parallel")
        if name in stated
    }
    new_scenario, _ = attempt(with_stated, scenario, stated)
    return None if new_scenario == scenario else new_scenario


def scenario_launched(told: Mapping[str, str], scenario: Scenario) -> Scenario:
    """The scenario with the server that a launch line names by columns. Raises AdvisorError where
    it cannot be."""
    stated: dict[str, Any] = {
        field: told[name] for name, field in FROM_SCENARIO.items() if name in told
    }
    if gpus := int(told.get("tensor_parallel") or 0):
        stated |= {"n_gpus": gpus, "tensor_parallel": gpus}
    if "weight_dtype" in told:
        stated |= {"weight_dtype": told["weight_dtype"] or None, "expert_dtype": None}
    stated |= {name: told[name] for name in _FORMAT_AND_RELEASE if name in told}
    if stated.get("model_id", scenario.model_id) != scenario.model_id:
        stated.setdefault("drafter_id", usual_drafter(stated["model_id"]))
        # What the bar says of these is of another server.
        scenario = scenario.model_copy(
            update={
                field_name: Scenario.model_fields[field_name].default
                for field_name in _FORMAT_AND_RELEASE
            }
        )
    return with_stated(scenario, stated)


_FORMAT_AND_RELEASE = ("kv_dtype", "engine_version")


def with_stated(scenario: Scenario, stated: Mapping[str, Any]) -> Scenario:
    """The scenario with other values of its fields. Raises AdvisorError where no server is of
    them."""
    before = scenario.model_dump(exclude_defaults=True)
    for (
        document,
        owner,
    ) in DOCUMENTS.items():  # the bar's own model or accelerator does not describe another one
        if (owner_name := stated.get(owner, before.get(owner))) != before.get(owner):
            before[document] = own(document).get(str(owner_name))
    new_scenario = build_scenario(**before | scenario.moved(stated))
    load_setup(new_scenario)
    return new_scenario
