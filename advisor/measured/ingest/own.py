"""Models and accelerators of a user's own in measured rows, each with its document in the row.

So a row means what was measured, whatever its file says later: kept tables, sessions and exports
hold the figures, and two documents of one name are two models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from advisor.catalog.hardware import hardware_meant, hardware_slug, read_own_hardware
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import model_ids, model_meant
from advisor.measured.ingest.columns import DOCUMENT_OF, empty, lacks_document, put, told_apart
from advisor.measured.ingest.result import ReadNote, noted
from advisor.measured.ingest.rows import Measured, saying
from advisor.physics.hardware import hardware_ids
from advisor.text import read_json

_MATCH: dict[str, Callable[[str], str | None]] = {
    "hardware_id": hardware_meant,
    "model_id": model_meant,
}


@dataclass(frozen=True)
class OwnDocument:
    """A document of the user's own, checked, by the name that its rows get."""

    column: str
    """hardware_id or model_id."""
    name: str
    text: str
    """On one line, keys in order: equal contents are equal texts."""
    called: tuple[str, ...] = ()
    """Further names that rows may use."""

    @property
    def names(self) -> frozenset[str]:
        """All names that mean it."""
        stems = {self.name, self.name.removeprefix("own-"), *self.called}
        return frozenset({*stems, *(hardware_slug(stem) for stem in stems)})


def own_document(column: str, name: str, text: str, called: Iterable[str] = ()) -> OwnDocument:
    """Document of a user's own model or accelerator as rows hold it. Raises AdvisorError for any
    other text."""
    if column == "hardware_id":
        name = name or hardware_slug(read_own_hardware(text).name)
    else:
        architecture_from_config(text, name)
    plain = json.dumps(read_json(text.lstrip("\ufeff")), sort_keys=True, separators=(",", ":"))
    return OwnDocument(column, name, plain, tuple(called))


def with_documents(frame: pd.DataFrame, given: Iterable[OwnDocument]) -> pd.DataFrame:
    """The frame with the documents of those names in it that mean one of `given`. Rows that hold
    one stay."""
    out = frame.copy(deep=False)
    for document in given:
        if document.column not in out:
            continue
        rows = lacks_document(out, document.column) & out[document.column].isin(
            document.names
        ).to_numpy(dtype=bool)
        if rows.any():
            put(out, document.column, rows, document.name)
            put(out, DOCUMENT_OF[document.column], rows, document.text)
    return told_apart(out)


def known_ids(column: str) -> tuple[str, ...]:
    """Ids of shipped profiles that a column may name."""
    return tuple(hardware_ids() if column == "hardware_id" else model_ids())


Conclusion = tuple[ReadNote, np.ndarray]
"""A note, and the lines that it is of."""


def own_frame(
    frame: pd.DataFrame, own: Iterable[OwnDocument], cells: Iterable[OwnDocument] = ()
) -> tuple[pd.DataFrame, list[Conclusion]]:
    """The frame with documents of the user's own filled in, and each conclusion with the rows that
    took it.

    own : given for the whole table; one alone is meant by rows that name nothing else. cells :
        those that cells name.
    """
    out = with_documents(frame, cells)
    conclusions: list[Conclusion] = []
    documents = list(own)
    for column in _MATCH:
        out, conclusion = _with_open_names(out, column, documents)
        conclusions += conclusion
    return out, conclusions


def own_rows(
    rows: Measured, own: Iterable[OwnDocument], cells: Iterable[OwnDocument] = ()
) -> Measured:
    """The table with a user's own documents filled in as by `own_frame`, and conclusions as
    notes."""
    held = _documents(rows.frame)
    (frame, conclusions) = own_frame(rows.frame, own, cells)
    sources = rows.sources
    for conclusion, lines in conclusions:
        sources = saying(sources, conclusion, lines)
    if added := sorted(_documents(frame) - held):
        # Other documents named by path, other file.
        texts = ("\0".join((source.sha256, *added)).encode() for source in sources)
        hashed = zip(sources, texts, strict=True)
        sources = tuple(
            replace(source, sha256=hashlib.sha256(text).hexdigest()) for source, text in hashed
        )
    return replace(rows, frame=frame, sources=sources)


def _documents(frame: pd.DataFrame) -> set[str]:
    """All documents that rows hold."""
    return {
        text
        for column in DOCUMENT_OF.values()
        if column in frame
        for text in frame[column].dropna().unique()
    }


def _with_open_names(
    frame: pd.DataFrame, column: str, documents: Sequence[OwnDocument]
) -> tuple[pd.DataFrame, list[Conclusion]]:
    """The frame with `documents`, and the conclusion on rows that took one without naming it.

    Where one document of a column is given and the rows use one name that nothing explains, or
    none, they mean it.
    """
    out = with_documents(frame, documents)
    candidates = [document for document in documents if document.column == column]
    if len(candidates) != 1 or column not in out:
        return out, []
    stated = out.loc[lacks_document(out, column), column].dropna().unique()
    names = [name for name in stated if name and _MATCH[column](name) is None]
    (document,) = candidates
    rows = empty(out[column])
    if len(names) == 1:
        rows = rows | ((out[column] == names[0]).to_numpy(dtype=bool) & lacks_document(out, column))
    if not rows.any():
        return out, []
    out = out.copy(deep=False)
    put(out, column, rows, document.name)
    put(out, DOCUMENT_OF[column], rows, document.text)
    stated_name = names[0] if len(names) == 1 else None
    note = noted(
        "own_document", column=column, stated=stated_name, n=int(rows.sum()), name=document.name
    )
    return told_apart(out), [(note, out.index[rows].to_numpy())]
