"""Refits the measured kernel tables and rewrites profiles/calibration (`make calibrate`), with the
accuracy gates.

`--device b200-sxm --op moe` refits those of one accelerator and operation, and keeps the rest.
`--widths` prints what serves best where experts were measured at one width of a shard alone;
`choose_experts` follows that table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import numpy as np
import pandas as pd

from advisor import __version__
from advisor.catalog.fit_records import (
    BYTES_PER_WEIGHT,
    IDENTITY,
    MEASURED,
    MODULES,
    RECORDS,
    FitRecord,
    MeasuredTable,
    ModuleTable,
    Operation,
    load_records,
    record_id,
)
from advisor.catalog.kernel_choice import MIN_SHAPES as MIN_GEMM_SHAPES
from advisor.catalog.kernel_choice import SHARED_KERNELS, UNGATED_KERNELS, version_key
from advisor.catalog.kernel_costs import KV_BYTES
from advisor.catalog.measured_shapes import CHECKPOINTS, SERVED_OPERATIONS
from advisor.measured.kernel_fits import MOE_KEYS, SHAPE, fit_moe
from advisor.measured.store import Store, kernel_table, open_store
from advisor.measured.store_tables import hardware_id as device_hardware_id
from advisor.physics import laws
from advisor.physics.hardware import Hardware, hardware_ids, load_hardware
from advisor.prediction import AdvisorError
from studies.fits.attention import (
    ATTENTION_KEYS,
    MLA_KEYS,
    MODULE_KEYS,
    attention_record,
    limits,
    mla_record,
    module_table,
)
from studies.fits.dense import GEMM_KEYS, all_reduce_record, all_to_all_record, gemm_record
from studies.fits.experts import (
    clean_table,
    frame_columns,
    least_coefficients,
    measured_table,
    moe_record,
    select_rows,
)
from studies.fits.gemm_variants import SCALE_KEYS, gemm_variants
from studies.fits.records import write_measured, write_modules, write_records
from studies.fits.tables import one_row_per_point

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
OPERATIONS = frozenset(get_args(Operation))
"""Everything that is fitted."""
KernelTables = Callable[[str, str], "pd.DataFrame"]
"""Measured rows of (table, accelerator): the columns of the store's table of that name, latency_s
in seconds; empty when unmeasured."""


def tables_of(store: Store) -> KernelTables:
    """The store's kernel tables, one accelerator at a time."""

    def rows(table: str, hardware_id: str) -> pd.DataFrame:
        return kernel_table(store, table, hardware_id)

    return rows


def measured_devices() -> list[Hardware]:
    """Accelerators whose own kernels were measured, in the order of their ids."""
    found = []
    for one in hardware_ids():
        hardware = load_hardware(one)
        device = hardware.kernel_table_device
        if device is not None and device_hardware_id(device) == one:
            found.append(hardware)
    return found


def calibrate(
    tables: KernelTables,
    devices: list[Hardware],
    folder: Path = RECORDS,
    ops: frozenset[str] = OPERATIONS,
    progress: Callable[[str], None] = lambda _: None,
) -> list[FitRecord]:
    """Fit the tables of `ops` on `devices` and write one file per device. Returns all records of
    these devices.

    `devices` are the accelerators that were measured themselves (not those that borrow another's
    tables). Records of operations that are not asked for stay as they are in `folder`.
    """
    every: list[FitRecord] = []
    for hardware in devices:
        device = hardware.kernel_table_device
        if device is None:
            continue
        fresh = [
            one.model_copy(update={"code_version": __version__})
            for one in device_records(tables, hardware, ops)
        ]
        before = load_records(device, folder) if (folder / f"{device}.json").is_file() else ()
        records = fresh + [one for one in before if one.op not in ops]
        if records:
            write_records(device, records, folder)
        if records and "moe" in ops:
            measured = measured_shapes(tables, hardware, tuple(records))
            write_measured(device, measured, folder / MEASURED.name)
        modules = list(attention_modules(tables("mla", hardware.id))) if "mla" in ops else []
        if "mla" in ops:
            write_modules(device, modules, folder / MODULES.name)
        progress(
            f"{hardware.id}: {len(fresh)} of {len(records)} fits, {len(modules)} attention layers"
        )
        every += records
    return every


def measured_shapes(
    tables: KernelTables, hardware: Hardware, records: tuple[FitRecord, ...]
) -> list[MeasuredTable]:
    """Measured shapes of the expert kernels that may serve.

    They are of the newest version of each engine and format, and of older ones where that has few
    shapes.
    """
    wanted = {record.id: record for record in _shipped(records)}
    cache = cache_resident_bytes(_named(tables("gemm", hardware.id)), hardware)
    found: list[MeasuredTable] = []
    for identity, frame in _groups(_named(tables("moe", hardware.id)), IDENTITY, all_versions=True):
        record = wanted.get(record_id("moe", identity))
        if record is not None:
            clean, _ = clean_table(one_row_per_point(frame, MOE_KEYS))
            found += _some(measured_table(clean, record, cache))
    return found


def _shipped(records: tuple[FitRecord, ...]) -> Iterator[FitRecord]:
    by_table: dict[tuple[str, str], dict[str, list[FitRecord]]] = {}
    for record in records:
        if record.op == "moe" and record.success:
            by_table.setdefault((record.engine, record.dtype), {}).setdefault(
                record.version, []
            ).append(record)
    for versions in by_table.values():
        n_shapes = 0
        for version in sorted(versions, key=version_key, reverse=True):
            if n_shapes >= MIN_GEMM_SHAPES:
                break
            yield from versions[version]
            n_shapes += sum(record.n_shapes for record in versions[version])


_MODULE_IDENTITY = ["op", "engine", "model", "kv_dtype", "gemm_dtype", "num_heads"]


def attention_modules(table: pd.DataFrame) -> Iterator[ModuleTable]:
    """Attention layers measured as a whole, of each engine's newest version, in a fixed order.

    Several kernels of one layer take turns by batch. A layer of 16 heads is the same alone and as a
    rank of eight.
    """
    if not len(table):
        return
    modules = _named(table[table["op"].isin(SERVED_OPERATIONS) & table["model"].isin(CHECKPOINTS)])
    for values, frame in modules.groupby(_MODULE_IDENTITY, sort=True, observed=True):
        identity = dict(zip(_MODULE_IDENTITY, map(str, values), strict=True))
        newest = max(frame["version"].unique(), key=version_key)
        rows = one_row_per_point(frame[frame["version"] == newest], MODULE_KEYS)
        heads = int(identity.pop("num_heads"))
        yield from _some(module_table(rows, {**identity, "version": str(newest)}, heads))


def device_records(
    tables: KernelTables, hardware: Hardware, ops: frozenset[str] = OPERATIONS
) -> Iterator[FitRecord]:
    """All fits of `ops` on one accelerator, in a fixed order.

    MoE tables of every version; of the other operations the newest, whose constants hardly move
    between versions.
    """
    gemm = (
        _named(tables("gemm", hardware.id)) if ops & {"moe", "gemm", "attention", "mla"} else None
    )
    cache = 0.0 if gemm is None else cache_resident_bytes(gemm, hardware)
    for identity, frame in (
        _groups(_named(tables("moe", hardware.id)), IDENTITY, True) if "moe" in ops else ()
    ):
        if identity["dtype"] in BYTES_PER_WEIGHT:
            peak = hardware.bandwidth_bytes_per_s.value
            yield from _some(moe_record(one_row_per_point(frame, MOE_KEYS), identity, cache, peak))
    if gemm is not None and "gemm" in ops:
        yield from _gemm(tables, hardware, gemm, cache)
    for op in ("attention", "mla"):
        if op in ops:
            yield from _attention(op, _named(tables(op, hardware.id)), hardware, cache)
    if ops & {"all_reduce", "all_to_all"}:
        yield from _communication(tables, hardware.id)


def _gemm(
    tables: KernelTables, hardware: Hardware, gemm: pd.DataFrame, cache: float
) -> Iterator[FitRecord]:
    """Fits of the newest GEMM tables, each as the kernels that serving runs."""
    peak = hardware.bandwidth_bytes_per_s.value
    launches = _named(tables("activation_scale", hardware.id))
    newest = {(one["engine"], one["dtype"]): (one, frame) for one, frame in _groups(gemm, IDENTITY)}
    for identity, frame in _groups(gemm, IDENTITY):
        engine = identity["engine"]
        dtype = identity["dtype"]
        if dtype not in BYTES_PER_WEIGHT:
            continue
        own = (
            launches[(launches["engine"] == engine) & (launches["dtype"] == dtype)]
            if len(launches)
            else launches
        )
        beside = newest.get(("vllm", dtype), ({}, frame.iloc[:0]))[1]
        for variant in gemm_variants(
            one_row_per_point(frame, GEMM_KEYS),
            engine,
            dtype,
            one_row_per_point(own, SCALE_KEYS) if len(own) else own,
            one_row_per_point(beside, GEMM_KEYS),
        ):
            named = {**identity, "kernel_source": identity["kernel_source"] + variant.ending}
            yield from _some(
                gemm_record(variant.frame, named, cache, peak, variant.note, variant.assumed_log_sd)
            )


def _attention(
    op: str, table: pd.DataFrame, hardware: Hardware, cache: float
) -> Iterator[FitRecord]:
    keys, record = {
        "attention": ([*ATTENTION_KEYS, "window_size"], attention_record),
        "mla": (MLA_KEYS, mla_record),
    }[op]
    if op == "mla" and "op" in table.columns:
        # Rows of that name in another format (fp8_block) time a module with its projections and
        # launches.
        alone = table["op"].isin(["mla_generation", "generation_mla"]) & table["dtype"].isin(
            ["bf16", "fp16"]
        )
        table = table[alone]
    for identity, frame in _groups(table, [*IDENTITY, "kv_dtype"]):
        kv_dtype = identity.pop("kv_dtype")
        if kv_dtype in KV_BYTES:
            present = [key for key in keys if key in frame.columns]
            # The cache's format decides the bytes, so it is part of the kernel's name.
            named = {**identity, "kernel_source": f"{identity['kernel_source']}+kv-{kv_dtype}"}
            bounds = limits(hardware, kv_dtype, cache)
            yield from _some(record(one_row_per_point(frame, present), named, kv_dtype, bounds))


def _communication(tables: KernelTables, hardware_id: str) -> Iterator[FitRecord]:
    table = _named(tables("all_reduce", hardware_id))
    table = table[table["dtype"].isin(["bf16", "fp16"])] if len(table) else table
    for identity, frame in _groups(table, [*IDENTITY, "n_ranks"]):
        n_ranks = int(float(identity.pop("n_ranks")))
        clean = one_row_per_point(frame, ["message_elements"])
        yield from _some(all_reduce_record(clean, identity, n_ranks))
    table = tables("all_to_all", hardware_id)
    if len(table):
        table = table.assign(
            kernel_source=table["backend"],
            dtype=table["dtype"].fillna("bf16").replace("default", "bf16"),
        )
        table["n_ranks"] = table["n_ranks"].fillna(8 * table["n_nodes"].fillna(1))
        table = _named(table)
        table = table[(table["dtype"] == "bf16") & (table["n_nodes"].fillna(1) == 1)]
    for identity, frame in _groups(table, [*IDENTITY, "n_ranks"]):
        n_ranks = int(float(identity.pop("n_ranks")))
        yield from _some(all_to_all_record(frame, identity, n_ranks))


def fitted_moe_tables(
    tables: KernelTables, hardware_id: str
) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Newest expert tables of gated models by engine, format and kernel, cleaned.

    They hold the rows that a fit uses, with touched and routed_rows.
    """
    for identity, frame in _groups(_named(tables("moe", hardware_id)), IDENTITY):
        if (
            identity["dtype"] in BYTES_PER_WEIGHT
            and UNGATED_KERNELS not in identity["kernel_source"]
        ):
            clean, _ = clean_table(one_row_per_point(frame, MOE_KEYS))
            used, _ = select_rows(clean, 0.0, identity["dtype"])
            yield (identity["engine"], identity["dtype"], identity["kernel_source"]), used


def one_gpu_moe_table(
    opened: Store,
    hardware_id: str,
    engine: str,
    dtype: str,
    load: str,
    max_tokens: int,
    min_shapes: int,
) -> tuple[str, pd.DataFrame]:
    """(version, rows) on one GPU of the newest table of an engine and format with `min_shapes`
    shapes. Of several kernels in one version, that with most shapes. Rows: the columns of
    `MOE_KEYS` and latency_s [s].

    Raises AdvisorError when there is none.
    """
    table = _named(kernel_table(opened, "moe", hardware_id, engine, distribution=load, ep=1))
    table = table[(table["moe_tp_size"] == 1) & (table["num_tokens"] <= max_tokens)]
    found = []
    for identity, frame in _groups(table, IDENTITY, all_versions=True):
        n_shapes = len(frame[SHAPE].drop_duplicates())
        if identity["dtype"] == dtype and n_shapes >= min_shapes:
            found.append((version_key(identity["version"]), n_shapes, identity["version"], frame))
    if not found:
        raise AdvisorError(
            f"the store has no {dtype} expert table of {engine} on {hardware_id}; run `make store`"
        )
    _, _, version, frame = max(found, key=lambda entry: entry[:2])
    return version, one_row_per_point(frame, MOE_KEYS)


def cache_resident_bytes(gemm: pd.DataFrame, hardware: Hardware) -> float:
    """The last-level cache when small matrices are read faster than the memory's peak allows, else
    0. [B]

    The tables time one matrix again and again, so a large cache keeps it; a model's layers evict
    each other.
    """
    if hardware.last_level_cache_bytes is None or not len(gemm):
        return 0.0
    cache = hardware.last_level_cache_bytes.value
    weights = gemm["n"] * gemm["k"] * gemm["dtype"].map(BYTES_PER_WEIGHT)
    small = (gemm["m"] <= 16) & (weights > 0.1 * cache) & (weights < 0.8 * cache)
    rate = (weights[small] / gemm.loc[small, "latency_s"]).to_numpy()
    rate = rate[np.isfinite(rate)]
    return (
        cache if rate.size and np.mean(rate > hardware.bandwidth_bytes_per_s.value) > 0.05 else 0.0
    )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Names of formats unified, unknown kernel named `unknown`."""
    if not len(table):
        return table
    out = table.copy()
    names = [name for name in ("dtype", "kv_dtype") if name in out.columns]
    out[names] = out[names].replace(DTYPE_NAMES)
    if "kernel_source" in out.columns:
        out["kernel_source"] = out["kernel_source"].fillna("unknown")
    return out


def _groups(
    table: pd.DataFrame, keys: list[str], all_versions: bool = False
) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Sub-tables by `keys`, sorted. The newest version of each (engine, format) unless all are
    wanted."""
    if not len(table):
        return
    if not all_versions:
        order = table["version"].map({v: version_key(str(v)) for v in table["version"].unique()})
        rank = order.map({key: i for i, key in enumerate(sorted(set(order)))})
        table = table[rank == rank.groupby([table["engine"], table["dtype"]]).transform("max")]
    for values, frame in table.groupby(keys, sort=True, observed=True):
        yield dict(zip(keys, map(str, values), strict=True)), frame


_Made = TypeVar("_Made")


def _some(made: _Made | None) -> Iterator[_Made]:
    if made is not None:
        yield made


GATED_HARDWARE = frozenset({"h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm"})
MIN_SHAPES = 8


@dataclass(frozen=True)
class Gate:
    """Gate on a figure of the tables. `attribute` must be at most `limit` in at least `share` of
    them."""

    name: str
    attribute: str
    limit: float
    share: float


GATES = (
    Gate("latency median", "loso_median", 0.07, 0.80),
    Gate("latency p90", "loso_p90", 0.20, 0.75),
    Gate("ratio T(4t)/T(t) median", "ratio_median", 0.06, 0.70),
    Gate("ratio T(4t)/T(t) p90", "ratio_p90", 0.25, 0.85),
)
"""The kernel rows of docs/validation.md: leave one shape out, EP = 1, tokens <= 2048."""


@dataclass(frozen=True)
class GateResult:
    """One gate over all tables it applies to."""

    gate: Gate
    n_passed: int
    n_tables: int

    @property
    def passed(self) -> bool:
        """Whether the share of tables within the limit reaches the gate's. False without tables."""
        return self.n_tables > 0 and self.n_passed >= self.gate.share * self.n_tables


def gated_tables(records: Iterable[FitRecord]) -> list[FitRecord]:
    """MoE fits on the gated accelerators with at least MIN_SHAPES shapes. Tables with equal rows
    count once."""
    found: dict[str, FitRecord] = {}
    for record in sorted(records, key=lambda record: record.id):
        if (
            record.op == "moe"
            and record.hardware_id in GATED_HARDWARE
            and record.n_shapes >= MIN_SHAPES
        ):
            found.setdefault(f"{record.kernel_source}/{record.data_sha256}", record)
    return list(found.values())


def gate_results(records: Iterable[FitRecord]) -> list[GateResult]:
    """Every gate, counted over `gated_tables`. A table without the figure does not pass."""
    tables = gated_tables(records)
    results = []
    for gate in GATES:
        values = [getattr(record, gate.attribute) for record in tables]
        results.append(
            GateResult(
                gate,
                sum(value is not None and value <= gate.limit for value in values),
                len(tables),
            )
        )
    return results


DEVICES = ("h200-sxm", "b200-sxm")
MIN_ROWS = 30
"""Rows on either side below which a shape says too little. [-]"""
Table = tuple[str, str, str]
"""Engine, format, kernel."""


def judged_widths(tables: KernelTables, hardware_id: str) -> pd.DataFrame:
    """Median error on the shards of each shape of the newest expert tables, one row a shape.

    Columns: engine, dtype, kernel; bounded and free, the fit on whole experts with and without the
    memory's bound; borrowed and shared, the median over other engines' kernels of the format, and
    over those of the library that both run (NaN where there is none). [-]
    """
    peak = load_hardware(hardware_id).bandwidth_bytes_per_s.value
    frames = dict(fitted_moe_tables(tables, hardware_id))
    rows = [
        {
            **dict(zip(("engine", "dtype", "kernel"), table, strict=True)),
            "bounded": _carried(whole, shards, table[1], least_coefficients(peak)),
            "free": _carried(whole, shards, table[1], None),
            **_others(shards, table, frames),
        }
        for table, frame in frames.items()
        for whole, shards in _split(frame)
    ]
    return pd.DataFrame(rows)


def _split(frame: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of whole experts and of shards, shape by shape."""
    for _, one in frame.groupby(SHAPE):
        cut = one["moe_tp_size"] > 1
        if min(cut.sum(), (~cut).sum()) >= MIN_ROWS:
            yield one[~cut], one[cut]


def _carried(
    whole: pd.DataFrame, shards: pd.DataFrame, dtype: str, low: np.ndarray | None
) -> float:
    """Median error on `shards` of the fit on `whole`."""
    columns, rows = zip(
        *((frame_columns(one, dtype, False), _rows_each(one)) for one in (whole, shards)),
        strict=True,
    )
    fit = fit_moe(columns[0], whole["latency_s"].to_numpy(), rows[0], low)
    return _error(fit.predict(columns[1], rows[1]), shards["latency_s"])


def _rows_each(frame: pd.DataFrame) -> np.ndarray:
    return np.asarray(
        laws.rows_per_expert(frame["routed_rows"].to_numpy(), 1.0, frame["touched"].to_numpy())
    )


def _others(
    shards: pd.DataFrame, table: Table, frames: Mapping[Table, pd.DataFrame]
) -> dict[str, float]:
    """Median errors of other engines' times at the very rows of `shards`."""
    errors: dict[str, list[float]] = {"borrowed": [], "shared": []}
    for other, frame in frames.items():
        if other[1] != table[1] or other[0] == table[0]:
            continue
        both = shards.merge(frame, on=MOE_KEYS, suffixes=("", "_other"))
        if len(both) >= MIN_ROWS:
            error = _error(both["latency_s_other"].to_numpy(), both["latency_s"])
            errors["borrowed"].append(error)
            if SHARED_KERNELS in table[2] and SHARED_KERNELS in other[2]:
                errors["shared"].append(error)
    return {name: float(np.median(found)) if found else np.nan for name, found in errors.items()}


def _error(predicted: np.ndarray, measured: pd.Series) -> float:
    return float(np.median(np.abs(predicted / measured.to_numpy() - 1.0)))


def main_widths() -> None:
    """Print the medians and quartiles over the shapes of DEVICES."""
    with open_store() as store:
        tables = tables_of(store)
        found = pd.concat([judged_widths(tables, one) for one in DEVICES], ignore_index=True)
    figures = (
        found[["bounded", "free", "borrowed", "shared"]]
        .describe()
        .loc[["count", "25%", "50%", "75%"]]
    )
    sys.stdout.write(f"{figures.round(3).to_string()}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Refit from the default store, print one line per accelerator and the gates. 2 when the store
    cannot be read."""
    devices = {one.id: one for one in measured_devices()}
    parser = argparse.ArgumentParser(
        prog="python -m studies.calibration", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--device", action="append", choices=sorted(devices), help="only this accelerator"
    )
    parser.add_argument(
        "--op", action="append", choices=sorted(OPERATIONS), help="only this operation"
    )
    asked = parser.parse_args(arguments)
    chosen = [devices[one] for one in asked.device or devices]
    ops = frozenset(asked.op or OPERATIONS)
    try:
        with open_store() as store:
            records = calibrate(
                tables_of(store), chosen, ops=ops, progress=lambda text: print(text, flush=True)
            )
    except AdvisorError as error:
        print(error, file=sys.stderr)
        return 2
    if not records:
        print(
            "the store holds no kernel tables: install aiconfigurator-core and rebuild it",
            file=sys.stderr,
        )
        return 2
    for result in gate_results(records):
        gate = result.gate
        state = "passed" if result.passed else "missed"
        print(
            f"{gate.name} <= {gate.limit:.0%}: {result.n_passed} of {result.n_tables} tables "
            f"(gate {gate.share:.0%}): {state}"
        )
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--widths"]:
        main_widths()
    else:
        raise SystemExit(main())
