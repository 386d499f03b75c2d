"""Models and accelerators of the user's own, named by path: in options, and in the cells of a benchmark file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from advisor.catalog.models import model_ids
from advisor.cli.output import hardware_fields, model_fields
from advisor.measured.ingest.documents import DOCUMENT_OF, lacks_document
from advisor.measured.ingest.own import OwnDocument, own_document, with_open_names
from advisor.measured.row_questions import check_named
from advisor.physics.hardware import hardware_ids
from advisor.predict.scenario import load_scenario_file
from advisor.prediction import AdvisorError
from advisor.profiles import is_there

_FIELDS = {"model_id": model_fields, "hardware_id": hardware_fields}
_FILES = {"model_id": "a config.json", "hardware_id": "an accelerator's JSON"}
KNOWN: dict[str, Callable[[], Sequence[str]]] = {"hardware_id": hardware_ids, "model_id": model_ids}
"""Ids of shipped profiles by column."""


def given_documents(column: str, options: Iterable[str | None]) -> tuple[list[OwnDocument], list[str]]:
    """Documents that an option's values give by path, and those values that are ids.

    A path may be that of a scenario file or JSON answer that carries one. Raises AdvisorError for a file that is none.
    """
    found, ids = [], []
    for text in filter(None, options):
        if text.endswith(".json") or is_there(Path(text)):
            found.append(_document(column, Path(text), text))
        else:
            check_named(column, text)
            ids.append(text)
    return found, ids


def cell_documents(frame: pd.DataFrame, folder: Path) -> list[OwnDocument]:
    """Documents that cells of a file name by path, looked for beside the file and then from here.

    Raises AdvisorError for a cell that ends in .json where no such file is.
    """
    out = []
    for column in DOCUMENT_OF:
        if column not in frame:
            continue
        for name in frame.loc[lacks_document(frame, column), column].dropna().unique():
            known = name in KNOWN[column]() or not name or "\x00" in name
            places = [] if known else [place for place in (folder / name, Path(name)) if _holds(place, column)]
            if places:
                out.append(_document(column, places[0], name))
            elif name.endswith(".json") and not known:
                raise AdvisorError(
                    f"{column} {name!r} names a file that is neither in {folder} nor here; put {_FILES[column]} there, "
                    f"or give it as {'--model' if column == 'model_id' else '--hardware'} PATH"
                )
    return out


def with_own(frame: pd.DataFrame, models: Sequence[str], hardware: Sequence[str], folder: Path) -> pd.DataFrame:
    """A table of points as text with the documents that options and cells name by path.

    An option that gives an id, or one document for names that nothing explains, fills empty cells as well.
    """
    out = frame
    for column, options in (("hardware_id", hardware), ("model_id", models)):
        documents, ids = given_documents(column, options)
        if column not in out and (documents or ids):
            out = out.assign(**{column: ""})
        if len(ids) == 1 and not documents:
            out = out.assign(**{column: out[column].replace("", ids[0])})
        out = with_open_names(out, column, documents, KNOWN[column]())[0]
    return with_open_names(out, "", cell_documents(out, folder), ())[0]


def _holds(place: Path, column: str) -> bool:
    """Whether a document of that kind may lie at a path: a file of JSON, or a model's folder."""
    if not is_there(place):
        return False
    if place.is_dir():
        return column == "model_id" and is_there(place / "config.json")
    return place.suffix == ".json"


def _document(column: str, path: Path, called: str) -> OwnDocument:
    carried = _carried(column, path)
    values = _FIELDS[column](str(path)) if carried is None else carried
    stems = {called, path.stem, path.parent.resolve().name if path.name == "config.json" else path.name}
    try:
        return own_document(column, str(values[column]), str(values[DOCUMENT_OF[column]]), stems)
    except ValueError as error:
        raise AdvisorError(f"{path} is not JSON ({error}); give {_FILES[column]}") from error


def _carried(column: str, path: Path) -> dict[str, str | None] | None:
    """The document that a scenario file carries. None for a file that is no scenario, or carries none."""
    if path.is_dir():
        return None
    try:
        scenario = load_scenario_file(path).scenario
    except AdvisorError:
        return None  # its own reader says what is wrong with it
    values = {name: getattr(scenario, name) for name in (column, DOCUMENT_OF[column])}
    return values if values[DOCUMENT_OF[column]] is not None else None
