"""All fits of all measured tables, written under profiles/calibration. Run by `make calibrate`; never by the app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

import numpy as np

from advisor import __version__
from advisor.calibration import (
    ATTENTION_KEYS,
    BYTES_PER_WEIGHT,
    CHECKPOINTS,
    DTYPE_NAMES,
    GEMM_KEYS,
    IDENTITY,
    KV_BYTES,
    MEASURED,
    MIN_SHAPES,
    MLA_KEYS,
    MODULE_KEYS,
    MODULES,
    MOE_KEYS,
    RECORDS,
    SCALE_KEYS,
    SERVED_OPERATIONS,
    SHAPE,
    UNGATED_KERNELS,
    FitRecord,
    MeasuredTable,
    ModuleTable,
    Operation,
    all_reduce_record,
    all_to_all_record,
    attention_record,
    clean_table,
    gemm_record,
    gemm_variants,
    limits,
    load_records,
    measured_table,
    mla_record,
    module_table,
    moe_record,
    one_row_per_point,
    record_id,
    select_rows,
    version_key,
    write_measured,
    write_modules,
    write_records,
)
from advisor.hardware import Hardware, hardware_ids, load_hardware
from advisor.prediction import AdvisorError
from advisor.store import hardware_id as device_hardware_id
from advisor.store import kernel_table

if TYPE_CHECKING:
    import pandas as pd

    from advisor.store import Store

OPERATIONS = frozenset(get_args(Operation))
"""Everything that is fitted."""

KernelTables = Callable[[str, str], "pd.DataFrame"]
"""Measured rows of (table, accelerator): the columns of the store's table of that name, latency_s in seconds; empty
when unmeasured."""


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
    """Fit the tables of `ops` on `devices` and write one file per device. Returns all records of these devices.

    `devices` are the accelerators that were measured themselves (not those that borrow another's tables). Records of
    operations that are not asked for stay as they are in `folder`.
    """
    every: list[FitRecord] = []
    for hardware in devices:
        device = hardware.kernel_table_device
        if device is None:
            continue
        fresh = [one.model_copy(update={"code_version": __version__}) for one in device_records(tables, hardware, ops)]
        records = fresh + [one for one in load_records(device, folder) if one.op not in ops]
        if records:
            write_records(device, records, folder)
        if records and "moe" in ops:
            measured = measured_shapes(tables, hardware, tuple(records))
            write_measured(device, measured, folder / MEASURED.name)
        modules = list(attention_modules(tables("mla", hardware.id))) if "mla" in ops else []
        if modules:
            write_modules(device, modules, folder / MODULES.name)
        progress(f"{hardware.id}: {len(fresh)} of {len(records)} fits, {len(modules)} attention layers")
        every += records
    return every


def measured_shapes(tables: KernelTables, hardware: Hardware, records: tuple[FitRecord, ...]) -> list[MeasuredTable]:
    """Measured shapes of the expert kernels that may serve.

    They are of the newest version of each engine and format, and of older ones where that has few shapes.
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
            by_table.setdefault((record.engine, record.dtype), {}).setdefault(record.version, []).append(record)
    for versions in by_table.values():
        n_shapes = 0
        for version in sorted(versions, key=version_key, reverse=True):
            if n_shapes >= MIN_SHAPES:
                break
            yield from versions[version]
            n_shapes += sum(record.n_shapes for record in versions[version])


_MODULE_IDENTITY = ["op", "engine", "model", "kv_dtype", "gemm_dtype", "num_heads"]


def attention_modules(table: pd.DataFrame) -> Iterator[ModuleTable]:
    """Attention layers measured as a whole, of each engine's newest version, in a fixed order.

    Several kernels of one layer take turns by batch. A layer of 16 heads is the same alone and as a rank of eight.
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


def device_records(tables: KernelTables, hardware: Hardware, ops: frozenset[str] = OPERATIONS) -> Iterator[FitRecord]:
    """All fits of `ops` on one accelerator, in a fixed order.

    MoE tables of every version; of the other operations the newest, whose constants hardly move between versions.
    """
    gemm = _named(tables("gemm", hardware.id)) if ops & {"moe", "gemm", "attention", "mla"} else None
    cache = 0.0 if gemm is None else cache_resident_bytes(gemm, hardware)
    for identity, frame in _groups(_named(tables("moe", hardware.id)), IDENTITY, True) if "moe" in ops else ():
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


def _gemm(tables: KernelTables, hardware: Hardware, gemm: pd.DataFrame, cache: float) -> Iterator[FitRecord]:
    """Fits of the newest GEMM tables, each as the kernels that serving runs."""
    peak = hardware.bandwidth_bytes_per_s.value
    launches = _named(tables("activation_scale", hardware.id))
    newest = {(one["engine"], one["dtype"]): (one, frame) for one, frame in _groups(gemm, IDENTITY)}
    for identity, frame in _groups(gemm, IDENTITY):
        engine, dtype = identity["engine"], identity["dtype"]
        if dtype not in BYTES_PER_WEIGHT:
            continue
        own = launches[(launches["engine"] == engine) & (launches["dtype"] == dtype)] if len(launches) else launches
        beside = newest.get(("vllm", dtype), ({}, frame.iloc[:0]))[1]
        for variant in gemm_variants(
            one_row_per_point(frame, GEMM_KEYS),
            engine,
            dtype,
            one_row_per_point(own, SCALE_KEYS) if len(own) else own,
            one_row_per_point(beside, GEMM_KEYS),
        ):
            named = {**identity, "kernel_source": identity["kernel_source"] + variant.ending}
            yield from _some(gemm_record(variant.frame, named, cache, peak, variant.note, variant.assumed_log_sd))


def _attention(op: str, table: pd.DataFrame, hardware: Hardware, cache: float) -> Iterator[FitRecord]:
    keys, record = {
        "attention": ([*ATTENTION_KEYS, "window_size"], attention_record),
        "mla": (MLA_KEYS, mla_record),
    }[op]
    if op == "mla" and "op" in table.columns:
        # Rows of that name in another format (fp8_block) time a module with its projections and launches.
        alone = table["op"].isin(["mla_generation", "generation_mla"]) & table["dtype"].isin(["bf16", "fp16"])
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
            kernel_source=table["backend"], dtype=table["dtype"].fillna("bf16").replace("default", "bf16")
        )
        table["n_ranks"] = table["n_ranks"].fillna(8 * table["n_nodes"].fillna(1))
        table = _named(table)
        table = table[(table["dtype"] == "bf16") & (table["n_nodes"].fillna(1) == 1)]
    for identity, frame in _groups(table, [*IDENTITY, "n_ranks"]):
        n_ranks = int(float(identity.pop("n_ranks")))
        yield from _some(all_to_all_record(frame, identity, n_ranks))


def fitted_moe_tables(tables: KernelTables, hardware_id: str) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Newest expert tables of gated models by engine, format and kernel, cleaned.

    They hold the rows that a fit uses, with touched and routed_rows.
    """
    for identity, frame in _groups(_named(tables("moe", hardware_id)), IDENTITY):
        if identity["dtype"] in BYTES_PER_WEIGHT and UNGATED_KERNELS not in identity["kernel_source"]:
            clean, _ = clean_table(one_row_per_point(frame, MOE_KEYS))
            used, _ = select_rows(clean, 0.0, identity["dtype"])
            yield (identity["engine"], identity["dtype"], identity["kernel_source"]), used


def one_gpu_moe_table(
    opened: Store, hardware_id: str, engine: str, dtype: str, load: str, max_tokens: int, min_shapes: int
) -> tuple[str, pd.DataFrame]:
    """(version, rows) on one GPU of the newest table of an engine and format with `min_shapes` shapes. Of several
    kernels in one version, that with most shapes. Rows: the columns of `MOE_KEYS` and latency_s [s].

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
        raise AdvisorError(f"the store has no {dtype} expert table of {engine} on {hardware_id}; run `make store`")
    _, _, version, frame = max(found, key=lambda entry: entry[:2])
    return version, one_row_per_point(frame, MOE_KEYS)


def cache_resident_bytes(gemm: pd.DataFrame, hardware: Hardware) -> float:
    """The last-level cache when small matrices are read faster than the memory's peak allows, else 0. [B]

    The tables time one matrix again and again, so a large cache keeps it; a model's layers evict each other.
    """
    if hardware.last_level_cache_bytes is None or not len(gemm):
        return 0.0
    cache = hardware.last_level_cache_bytes.value
    weights = gemm["n"] * gemm["k"] * gemm["dtype"].map(BYTES_PER_WEIGHT)
    small = (gemm["m"] <= 16) & (weights > 0.1 * cache) & (weights < 0.8 * cache)
    rate = (weights[small] / gemm.loc[small, "latency_s"]).to_numpy()
    rate = rate[np.isfinite(rate)]
    return cache if rate.size and np.mean(rate > hardware.bandwidth_bytes_per_s.value) > 0.05 else 0.0


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
    """Sub-tables by `keys`, sorted. The newest version of each (engine, format) unless all are wanted."""
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
