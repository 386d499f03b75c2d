"""Finished sweeps: their Parquet files read back, checked by what they say of themselves.

Questions to a sweep: where drafting pays, what is fastest within a limit, what one K for all loses.

A sweep as a map: the speedup at the recommended K over two settings, all others fixed.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from advisor.answers.explore.cells import COLUMNS, SETTINGS
from advisor.predict.scenario_fields import FIELDS, MAX_BATCH, MAX_DRAFT
from advisor.prediction import AdvisorError, Tier
from advisor.profiles import read_file, shown_path
from advisor.text import counted, names_of_today, printable

MAX_ROWS = 2_000_000
"""Rows that are read at most: 270 bytes each in memory. [-]"""
MAX_PART_BYTES = 64 * 2**20
_MAX_TEXT = 1000
_BYTES_PER_ROW = 2000
"""A row's share of a file, unpacked, is a tenth of this; a file beyond holds something else. [bytes]"""
_MAX_HEAD_BYTES = 4 * 2**20
_MAX_NAME = 300
_NO_NAME = re.compile(r"[^\w.,@/:+ -]")
"""What no id, accepted length or routing is made of."""
_BANDS = ("speedup", "tpot_ms", "tokens_per_s_per_gpu")
_WHOLE = {"Int64": pa.int64(), "int32": pa.int32(), "int16": pa.int16()}
_YOUNGER = ("tpot_low_ms", "tpot_high_ms", "tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high")
"""Columns that sweeps of before have not."""
_HOW = "give files that the command sweep or the tab Sweep wrote"


@dataclass(frozen=True)
class Sweep:
    """The rows of a sweep, and what was noted while they were read."""

    frame: pd.DataFrame
    """`COLUMNS`; bands of times are empty in files of before."""
    maker: Mapping[str, str]
    """Release and constants, as `made_by` gives them; empty where the files do not say."""
    notes: tuple[str, ...] = ()

    @property
    def made_by(self) -> str:
        """Release and constants in words."""
        return _by_words(self.maker)


def read_sweep_files(paths: Sequence[Path], max_rows: int = MAX_ROWS) -> Sweep:
    """Read a sweep from its folder, or from some of its files, as `read_sweep`.

    Raises AdvisorError as that does, and for a folder without files.
    """
    files: list[Path] = []
    for path in paths:
        parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not parts:
            raise AdvisorError(
                f"{shown_path(path)} holds no *.parquet file; give the folder that `sweep --output` names"
            )
        files += parts
    return read_sweep([(path.name, read_file(path, MAX_PART_BYTES, "a part of a sweep")) for path in files], max_rows)


def read_sweep(files: Sequence[tuple[str, bytes]], max_rows: int = MAX_ROWS) -> Sweep:
    """Read the Parquet files of one sweep, (name, content) each.

    Settings younger than a file stand at their defaults. A row that stands in several files counts once.

    Raises AdvisorError naming file, column and row for what is no sweep, holds values that none can have, or was made
    by other constants than the files before it.
    """
    if not files:
        raise AdvisorError(f"no file was given; {_HOW}")
    tables, rows = [], 0
    for name, content in files:
        file = _opened(_shown(name), content)
        rows += file.metadata.num_rows
        if rows > max_rows:
            raise AdvisorError(
                f"{_shown(name)}: with it there are {rows:,} rows; at most {max_rows:,} are read here: ask larger "
                "sweeps with DuckDB (docs/sweeps.md), or give some of the parts"
            )
        tables.append((_shown(name), file))
    makers = {name: _made_by(file) for name, file in tables}
    first = next(iter(makers))
    for name, maker in makers.items():
        if maker != makers[first]:
            raise AdvisorError(
                f"{name} was made by {_by_words(maker)}, {first} by {_by_words(makers[first])}: numbers of the two "
                "do not compare; give the files of one sweep"
            )
    frame = pd.concat([_frame(name, file) for name, file in tables], ignore_index=True)
    sweep = sweep_from(frame, makers[first])
    remarks = dict.fromkeys(names_of_today(file.schema_arrow.names)[1] for _, file in tables)
    return replace(sweep, notes=(*sweep.notes, *(f"{text[0].upper()}{text[1:]}." for text in remarks if text)))


def sweep_from(frame: pd.DataFrame, maker: Mapping[str, str]) -> Sweep:
    """Rows as `sweep_rows` gives them as a finished sweep.

    Raises AdvisorError where there is none.
    """
    notes = []
    again = frame.duplicated([*SETTINGS, "n_draft"])
    if again.any():
        notes.append(f"{counted(int(again.sum()), 'row')} stood there twice and counted once.")
    if not len(frame):
        raise AdvisorError(f"the files hold no row; {_HOW}")
    if frame[list(_YOUNGER)].isna().all(axis=None) and (frame["reason"] == "").any():
        notes.append("Of an older release: times have no band.")
    return Sweep(frame[~again].reset_index(drop=True), maker, tuple(notes))


def _shown(name: str) -> str:
    return printable(name, 80)


def _opened(name: str, content: bytes) -> pq.ParquetFile:
    """The file with its head read, and no row yet."""
    try:
        limits = {"thrift_string_size_limit": _MAX_HEAD_BYTES, "thrift_container_size_limit": _MAX_HEAD_BYTES}
        there = set(pq.ParquetFile(io.BytesIO(content), **limits).schema_arrow.names)
        text = [column for column, kind in COLUMNS.items() if kind == "string" and column in there]
        file = pq.ParquetFile(io.BytesIO(content), read_dictionary=text, page_checksum_verification=True, **limits)
        meta = file.metadata
        unpacked = sum(meta.row_group(index).total_byte_size for index in range(meta.num_row_groups))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise AdvisorError(f"{name} is no readable Parquet file ({_first(error)}); {_HOW}") from error
    known = set(_stored_names(file))
    needed = [column for column in COLUMNS if column not in _YOUNGER and not _may_be_missing(column)]
    if missing := [column for column in needed if column not in known]:
        more = " and others" if len(missing) > 6 else ""
        raise AdvisorError(
            f"{name} is no sweep of this advisor: of {counted(len(needed), 'column')} it lacks "
            f"{', '.join(missing[:6])}{more}; {_HOW}"
        )
    if len(known) < len(file.schema_arrow.names):
        raise AdvisorError(f"{name}: a column stands there twice; {_HOW}")
    if unpacked > _BYTES_PER_ROW * max(meta.num_rows, 1000):
        raise AdvisorError(f"{name}: {meta.num_rows:,} rows unpack to {unpacked:,} bytes, more than a sweep's; {_HOW}")
    return file


def _stored_names(file: pq.ParquetFile) -> dict[str, str]:
    """Names of a file's columns as it has them, by today's."""
    old, _ = names_of_today(file.schema_arrow.names)
    return {old.get(name, name): name for name in file.schema_arrow.names}


def _may_be_missing(column: str) -> bool:
    """Whether files of before a setting existed are read at its default."""
    row = FIELDS.get(column)
    return row is not None and not row.needed and not row.is_required and column != "batch_size"


def _made_by(file: pq.ParquetFile) -> dict[str, str]:
    """Release and constants by the file's own head, empty where it does not say."""
    said = (file.schema_arrow.metadata or {}).get(b"PANDAS_ATTRS", b"{}")
    try:
        found = json.loads(said)
        return {name: printable(str(found[name]), 20) for name in ("release", "constants")}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _by_words(maker: Mapping[str, str]) -> str:
    return f"release {maker['release']}, constants {maker['constants']}" if maker else "a release that is not named"


def _frame(name: str, file: pq.ParquetFile) -> pd.DataFrame:
    """The rows of one file as `COLUMNS`. Raises AdvisorError where a value is none of its column's."""
    stored = _stored_names(file)
    present = [column for column in COLUMNS if column in stored]
    try:
        table = file.read(columns=[stored[column] for column in present])
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise AdvisorError(f"{name} is damaged: its rows cannot be read ({_first(error)}); write it anew") from error
    found = {column: _values(name, column, table.column(stored[column])) for column in present}
    for column in COLUMNS.keys() - found.keys():
        default = FIELDS[column].default if column in FIELDS else None
        found[column] = pd.Series([default] * table.num_rows, dtype=COLUMNS[column])
    frame = pd.DataFrame(found, columns=list(COLUMNS))
    _check(name, frame)
    return frame


def _values(name: str, column: str, values: pa.ChunkedArray) -> pd.Series:
    """One column in its own kind."""
    kind, given = COLUMNS[column], values.type
    if pa.types.is_dictionary(given):
        given = given.value_type
    is_text = pa.types.is_string(given) or pa.types.is_large_string(given)
    is_number = pa.types.is_integer(given) or pa.types.is_floating(given)
    fits = {"string": is_text, "bool": pa.types.is_boolean(given)}.get(kind, is_number) or pa.types.is_null(given)
    if not fits or (kind in ("bool", "int32", "int16") and values.null_count):
        expected = {"string": "text", "bool": "true or false"}.get(kind, "numbers")
        raise AdvisorError(f"{name}, column {column}: expected {expected}, got {str(given)[:40]}; {_HOW}")
    if kind == "string":
        values = _texts(column, values)
    try:
        if kind in _WHOLE:  # pandas would wrap what is too large, and cut fractions off
            values = values.cast(_WHOLE[kind])
        return values.to_pandas().astype(kind)
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise AdvisorError(f"{name}, column {column}: {_first(error)}; {_HOW}") from error


def _texts(column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts cut and cleaned, each distinct one once: a long one could stand in every row, and pictures read markup."""
    chunks = []
    for chunk in values.chunks:
        # A file without a dictionary of its own gives the texts themselves.
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        chunks.append(
            pa.array([_clean(column, one) for one in coded.dictionary.to_pylist()], "string").take(coded.indices)
        )
    return pa.chunked_array(chunks, "string")


def _clean(column: str, text: str | None) -> str | None:
    if text is None:
        return None
    return printable(text, _MAX_TEXT) if column == "reason" else _NO_NAME.sub("?", text[:_MAX_NAME])


def _check(name: str, frame: pd.DataFrame) -> None:
    """Values as a sweep has them, or AdvisorError naming the first row that has not."""
    done = (frame["reason"].fillna("") == "").to_numpy()
    tiers = [tier.value for tier in Tier]
    within = {
        f"batch_size: expected 1 to {MAX_BATCH:,}": frame["batch_size"].between(1, MAX_BATCH),
        f"n_draft: expected 0 to {MAX_DRAFT}, -1 beside a reason": frame["n_draft"].between(
            np.where(done, 0, -1), np.where(done, MAX_DRAFT, -1)
        ),
        "p_gain: expected a share, 0 to 1": frame["p_gain"].between(0, 1) | ~done,
        "expected_loss: expected a share, 0 to 1": frame["expected_loss"].between(0, 1) | ~done,
        "tier: expected one of " + ", ".join(tiers): frame["tier"].isin(tiers) | ~done,
        "recommended: no row without a prediction is": done | ~frame["recommended"],
    }
    for column in (*_BANDS, "accepted_length", "plain_step_ms", "round_ms"):
        values = frame[column].to_numpy()
        within[f"{column}: expected a number above 0"] = (np.isfinite(values) & (values > 0)) | ~done
    for column in _BANDS:
        low, high = (frame[_band_column(column, end)].to_numpy() for end in ("low", "high"))
        value, none = frame[column].to_numpy(), np.isnan(low) & np.isnan(high) & (column != "speedup")
        within[f"{column}: expected a band around the value"] = ((low <= value) & (value <= high)) | none | ~done
    for what, good in within.items():
        wrong = ~np.asarray(good.fillna(value=False) if isinstance(good, pd.Series) else good, bool)
        if wrong.any():
            column = what.partition(":")[0]
            row = int(np.flatnonzero(wrong)[0])
            raise AdvisorError(
                f"{name}, row {row + 1}, {what}, got {printable(str(frame[column].iloc[row]), 40)}; {_HOW}"
            )
    if bool((done & frame[["model_id", "hardware_id"]].isna().any(axis=1)).any()):
        raise AdvisorError(f"{name}: a prediction names no model or no accelerator; {_HOW}")


def _band_column(column: str, end: str) -> str:
    """Name of the column with one end (low, high) of a band."""
    return f"tpot_{end}_ms" if column == "tpot_ms" else f"{column}_{end}"


def _first(error: Exception) -> str:
    """The first line of an error, without its full stop."""
    return printable((str(error).splitlines() or [type(error).__name__])[0], 120).rstrip(".")


SURE = 0.8
"""Share of the draws in which drafting has to gain, so that it counts as paying (own choice). [-]"""
_PAIR = ["model_id", "hardware_id"]
_SAID = ("n_draft", "speedup", "speedup_low", "speedup_high", "p_gain", "tier")
_ABSOLUTE = tuple(name for name in COLUMNS if name.startswith(("tpot", "tokens_per_s")))


def predicted(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a prediction."""
    return frame[frame["reason"].fillna("") == ""]


def _columns(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Some columns of the rows that hold a prediction: forty would have to be copied with each choice of rows."""
    return predicted(frame[[*names, "reason"]])


def varied(frame: pd.DataFrame) -> tuple[str, ...]:
    """Settings that take more than one value in what was predicted, the batch among them."""
    known = predicted(frame)
    return tuple(name for name in SETTINGS if known[name].nunique(dropna=False) > 1)


def where_drafting_pays(frame: pd.DataFrame, sure: float = SURE) -> pd.DataFrame:
    """The largest batch of each model and accelerator at which drafting pays, at the best other settings.

    frame : rows of a sweep, `COLUMNS`.
    sure : least share of the draws in which the recommended K gains. [-]

    A row for each pair that was predicted: `pays_up_to` (empty where it never does), the K, speedup and odds there, the
    settings with which it does, and whether any of its batches `fits`. Of several with the same batch the one of the
    largest speedup.
    """
    known = _columns(frame, *_PAIR, "batch_size", "speedup", "recommended", "n_draft", "p_gain", "fits")
    pays = known[known["recommended"] & (known["n_draft"] > 0) & (known["p_gain"] >= sure) & known["fits"]]
    best = frame.loc[pays.sort_values(["batch_size", "speedup"], kind="stable").groupby(_PAIR).tail(1).index]
    pairs = known.groupby(_PAIR, sort=True)["fits"].any().reset_index()
    found = pairs.merge(best.drop(columns="fits").reset_index(names="row"), on=_PAIR, how="left")
    found = found.rename(columns={"batch_size": "pays_up_to"})
    columns = [*_PAIR, "pays_up_to", *_SAID, *_others(frame, *_PAIR), "fits", "row"]
    return found[columns].astype({"pays_up_to": "Int64", "n_draft": "Int64", "row": "Int64"})


def fastest_within(frame: pd.DataFrame, max_tpot_ms: float | None) -> pd.DataFrame:
    """The row of most tokens per second and GPU of each model among those that fit and keep a limit.

    frame : rows of a sweep, `COLUMNS`.
    max_tpot_ms : limit on the time per output token of one user; None: none. [ms]

    A row for each model that was predicted, without figures where no row keeps the limit; `least_tpot_ms` is then the
    best there is, empty where nothing fits.
    """
    known = _columns(frame, "model_id", "tpot_ms", "tokens_per_s_per_gpu", "fits")
    fits = known[known["fits"]]
    quick = fits if max_tpot_ms is None else fits[fits["tpot_ms"] <= max_tpot_ms]
    # Of as many tokens per second, the one that waits least for each.
    order = quick.sort_values(["tokens_per_s_per_gpu", "tpot_ms"], ascending=[True, False], kind="stable")
    best = frame.loc[order.groupby("model_id").tail(1).index]
    models = known[["model_id"]].drop_duplicates()
    least = fits.groupby("model_id")["tpot_ms"].min().rename("least_tpot_ms")
    found = models.merge(best.reset_index(names="row"), on="model_id", how="left").merge(
        least, on="model_id", how="left"
    )
    columns = [
        "model_id",
        "hardware_id",
        "batch_size",
        *_SAID,
        *_ABSOLUTE,
        *_others(frame, *_PAIR),
        "least_tpot_ms",
        "row",
    ]
    kinds = {"batch_size": "Int64", "n_draft": "Int64", "row": "Int64"}
    return found.sort_values("model_id", kind="stable")[columns].astype(kinds).reset_index(drop=True)


def one_k_for_all(frame: pd.DataFrame) -> pd.DataFrame:
    """Loss of each K used at every point that fits, against the fastest of each draw.

    frame : rows of a sweep, `COLUMNS`.

    `loss` is the mean over the points and the draws, `worst` the largest of a point, `points` how many have this K,
    `tier` the lowest among them. [loss and worst as shares]

    A K that every point has stands before one that fewer have, whose mean is over other points; among those of as many
    points the least loss is first.
    """
    fits = _columns(frame, "n_draft", "expected_loss", "tier", "fits")
    losses = _losses(fits[fits["fits"]], "n_draft")
    return losses.sort_values(["points", "loss"], ascending=[False, True], kind="stable").reset_index(drop=True)


def loss_of_recommended(frame: pd.DataFrame) -> float | None:
    """Mean loss of each point's own recommended K, over the points that fit. [-]

    None where none does.
    """
    known = _columns(frame, "fits", "recommended", "expected_loss")
    loss = known.loc[known["fits"] & known["recommended"], "expected_loss"]
    return float(loss.mean()) if len(loss) else None


def _losses(fits: pd.DataFrame, by: str) -> pd.DataFrame:
    ranks = {tier.value: tier.rank for tier in Tier}
    groups = fits.assign(rank=fits["tier"].map(ranks), loss=fits["expected_loss"].astype(float)).groupby(by, sort=True)
    found = groups.agg(loss=("loss", "mean"), worst=("loss", "max"), points=("loss", "size"), tier=("rank", "max"))
    found["tier"] = [list(Tier)[int(rank)].value for rank in found["tier"]]
    return found.reset_index()


def _others(frame: pd.DataFrame, *named: str) -> list[str]:
    """Varied settings that no column names yet, those that follow from another left out."""
    return [name for name in axes(frame) if name not in (*named, "batch_size")]


def axes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Settings that vary and do not follow from one another, model and accelerator first, batch last.

    A placement that goes with its model (`cases` of a plan) is no axis of its own.
    """
    kept: list[str] = []
    some = predicted(frame)[list(varied(frame))].drop_duplicates()
    for name in sorted(some, key=lambda one: (one not in _PAIR, one == "batch_size")):
        if not any((some.groupby(known, dropna=False)[name].nunique(dropna=False) == 1).all() for known in kept):
            kept.append(name)
    return tuple(kept)


def values_of(frame: pd.DataFrame, name: str) -> list[object]:
    """Values of a setting in their order: numbers by size, texts as the rows come, None for not set."""
    values = [None if pd.isna(one) else one for one in frame[name].drop_duplicates()]
    numbers = [one for one in values if isinstance(one, (int, float, np.number))]
    ordered = sorted(numbers) if len(numbers) == len([one for one in values if one is not None]) else values
    return [*([None] if None in values and ordered is not values else []), *ordered]


def where(frame: pd.DataFrame, fixed: Mapping[str, object]) -> pd.DataFrame:
    """Rows with these settings.

    A setting that is not set is None.
    """
    keep = np.ones(len(frame), bool)
    for name, value in fixed.items():
        keep &= (frame[name].isna() if value is None else frame[name] == value).fillna(value=False).to_numpy(bool)
    return frame[keep]


MAX_SIDE = 24
"""Values of an axis that a map shows. [-]"""


@dataclass(frozen=True)
class SweepMap:
    """Cells [nY, nX] of a sweep: places of rows in its frame, -1 where the grid has none."""

    x: str
    y: str
    x_values: tuple[object, ...]
    y_values: tuple[object, ...]
    fixed: Mapping[str, object]
    """The other axes, each at one value."""
    row: NDArray[np.int64]
    cells: pd.DataFrame
    """Rows of the sweep that the cells stand for, by their place in its frame."""
    left_out: int = 0
    """Values of an axis beyond MAX_SIDE. [-]"""

    def values(self, column: str, unless: float = np.nan) -> NDArray[np.float64]:
        """One column of the cells, `unless` where nothing was predicted. [as the column]"""
        found = np.full(self.row.shape, unless)
        has = self.has
        found[has] = self.cells[column].reindex(self.row[has]).to_numpy(float)
        return found

    @property
    def has(self) -> NDArray[np.bool_]:
        """Cells with a prediction."""
        return self.row >= 0

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Cells whose batch fits in memory."""
        return np.asarray(self.values("fits", 0.0) > 0)

    def tier(self, row: int, column: int) -> str:
        """Tier of a cell."""
        return str(self.cells["tier"].loc[self.row[row, column]])


def default_axes(frame: pd.DataFrame) -> tuple[str, str] | None:
    """Two settings to look at first, the batch across and the one of most values down.

    None where fewer than two vary.
    """
    free = axes(frame)
    if len(free) < 2:
        return None
    x = "batch_size" if "batch_size" in free else free[-1]
    # Of as many values the first, which is model or accelerator.
    return x, max((name for name in free if name != x), key=lambda name: predicted(frame)[name].nunique(dropna=False))


def choices(frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]) -> dict[str, tuple[list[object], object]]:
    """Values of each further axis that the grid has beside those chosen before it, and the chosen one.

    fixed : wishes by name; the first value stands where a wish is not in the grid.
    """
    rest, found = predicted(frame), {}
    for name in axes(frame):
        if name in (x, y):
            continue
        values = values_of(rest, name)
        chosen = fixed[name] if name in fixed and fixed[name] in values else values[0]
        found[name] = (values, chosen)
        rest = where(rest, {name: chosen})
    return found


def sweep_map(frame: pd.DataFrame, x: str, y: str, fixed: Mapping[str, object]) -> SweepMap:
    """The map over two axes of a sweep, the others as `choices` settles them."""
    settled = {name: chosen for name, (_, chosen) in choices(frame, x, y, fixed).items()}
    best = where(predicted(frame), settled)
    best = best[best["recommended"]]
    sides = {name: values_of(best, name) for name in (x, y)}
    left_out = sum(max(0, len(values) - MAX_SIDE) for values in sides.values())
    sides = {name: values[:MAX_SIDE] for name, values in sides.items()}
    row = np.full((len(sides[y]), len(sides[x])), -1)
    places = {name: {value: at for at, value in enumerate(values)} for name, values in sides.items()}
    for index, across, down in zip(best.index, best[x], best[y], strict=True):
        at = [places[name].get(None if pd.isna(value) else value) for name, value in ((y, down), (x, across))]
        if None not in at:
            row[tuple(at)] = index
    return SweepMap(x, y, tuple(sides[x]), tuple(sides[y]), settled, row, best, left_out)


@dataclass(frozen=True)
class SweepView:
    """A sweep and what of it is shown."""

    sweep: Sweep
    max_tpot_ms: float | None
    """Limit on the time per output token of one user; None: none. [ms]"""
    map: SweepMap | None
    """None where fewer than two settings vary."""


def view_of(sweep: Sweep, max_tpot_ms: float | None, wishes: Mapping[str, object]) -> SweepView:
    """A sweep with its first map.

    wishes : values by setting for what the map fixes, where the sweep has them.
    """
    sides = default_axes(sweep.frame)
    return SweepView(sweep, max_tpot_ms, None if sides is None else sweep_map(sweep.frame, *sides, wishes))


def setting_text(name: str, value: object) -> str:
    """A setting's value as a reader sees it, without its name."""
    row = FIELDS[name]
    if value is None or pd.isna(value):
        return row.unset
    return row.written(row.kind(value))
