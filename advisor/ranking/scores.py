"""A user's table of quality scores beside the leaderboard: an axis and a filter. No score ships with the advisor."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.catalog import model_ids, resolve_model_name
from advisor.prediction import AdvisorError

MAX_SCORES_BYTES = 1_000_000
_MAX_ROWS = 5_000
_MODEL_COLUMNS = ("model", "model_id", "name")


@dataclass(frozen=True)
class Scores:
    """Cells by model and column, as the user gave them."""

    file_name: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    """By model id, or the name as given where no shipped model is called so."""

    def column(self, name: str) -> str:
        """A column by its name, without regard to case. Raises AdvisorError with those there are."""
        for known in self.columns:
            if known.lower() == name.strip().lower():
                return known
        raise AdvisorError(f"{self.file_name} has no column {name[:60]!r}; it has {', '.join(self.columns)[:600]}")

    def numbers(self, name: str) -> dict[str, float]:
        """Numbers of a column by model, empty cells left out. Raises AdvisorError for a cell that is no number."""
        column, found = self.column(name), {}
        for model, row in self.cells.items():
            if text := row[column]:
                try:
                    found[model] = float(text)
                except ValueError as error:
                    raise AdvisorError(
                        f"{self.file_name}: {column[:60]} of {model[:60]} is {text[:40]!r}, not a number; choose a "
                        "column of numbers"
                    ) from error
                if not math.isfinite(found[model]):
                    raise AdvisorError(f"{self.file_name}: {column[:60]} of {model[:60]} is not a finite number")
        return found

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of models in the table that no shipped model has."""
        return tuple(name for name in self.cells if name not in model_ids())

    def where(self, condition: str) -> frozenset[str]:
        """The models whose cell is as `column=value` says, without regard to case.

        Raises AdvisorError for a condition of another form, and for a value that no model has.
        """
        name, equals, value = condition.partition("=")
        if not equals:
            raise AdvisorError(f"{condition[:60]!r} is not column=value, e.g. licence=apache-2.0")
        column, wanted = self.column(name), value.strip().lower()
        found = frozenset(model for model, row in self.cells.items() if row[column].lower() == wanted)
        if not found:
            seen = sorted({row[column] for row in self.cells.values() if row[column]})[:12]
            raise AdvisorError(
                f"{self.file_name}: no model has {column}={value.strip()[:60]}; it holds {', '.join(seen)[:600]}"
            )
        return found


def read_scores(name: str, data: bytes) -> Scores:
    """A CSV with a column of models (id or repository) and others of scores or words.

    Raises AdvisorError for a file that is no such table, too large, or names a model twice.
    """
    if len(data) > MAX_SCORES_BYTES:
        raise AdvisorError(f"{name} has more than {MAX_SCORES_BYTES:,} bytes; a table of scores is smaller")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), skipinitialspace=True, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name} is no CSV ({error}); give columns model,score") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    header = rows[0] if rows else []
    place = next((i for i, cell in enumerate(header) if cell.lower() in _MODEL_COLUMNS), None)
    columns = tuple(cell for i, cell in enumerate(header) if i != place)
    if place is None or not columns or not all(columns) or len(set(columns)) < len(columns):
        raise AdvisorError(
            f"{name}: the first line must name a column model and one column or more of scores, each once"
        )
    if not 2 <= len(rows) <= _MAX_ROWS + 1:
        raise AdvisorError(f"{name} has {max(len(rows) - 1, 0):,} rows of models; 1 to {_MAX_ROWS:,} are read")
    return Scores(name, columns, _cells(name, header, place, rows[1:]))


def _cells(name: str, header: Sequence[str], place: int, rows: Sequence[Sequence[str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise AdvisorError(f"{name}: line {number} has {len(row)} cells, the first line {len(header)}")
        model = _model(row[place])
        if not model:
            raise AdvisorError(f"{name}: line {number} names no model")
        if model in found:
            raise AdvisorError(f"{name}: {model[:60]} stands there twice (line {number}); leave one of them")
        found[model] = {column: cell for i, (column, cell) in enumerate(zip(header, row, strict=True)) if i != place}
    return found


def _model(text: str) -> str:
    """The id of a shipped model by id or repository; other names as they stand."""
    if text in model_ids():
        return text
    named = resolve_model_name(text)
    return text if named is None else named.model_id


def on_front(values: Sequence[float], quality: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether no other model beats each in both value and quality.

    To beat is to be lower in value at a quality at least as high, or the other way round.
    """
    known = [(value, score) for value, score in zip(values, quality, strict=True) if score is not None]
    return tuple(
        score is not None and not any(v <= value and q >= score and (v, q) != (value, score) for v, q in known)
        for value, score in zip(values, quality, strict=True)
    )
