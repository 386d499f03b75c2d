"""The store's kernel tables, and which tables of the aiconfigurator-core package fill them, column
by column.

A new kernel table is a row of KERNEL_TABLES and one of SPECS: schema, loading, queries and coverage
read these. Files below the package's folder are read in place,
`systems/data/<device>/<family>/<framework>/<version>/<table>.parquet`, with `collection_meta.yaml`
beside them; its Python code is never imported. Source: ai-dynamo/aiconfigurator (Apache-2.0).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_e4m3": "fp8"}
MILLISECOND = 1e-3
MICROSECOND = 1e-6
_WORD = "VARCHAR NOT NULL"
_WORD_OR_NONE = "VARCHAR"
_COUNT = "INTEGER NOT NULL"
_COUNT_OR_NONE = "INTEGER"


@dataclass(frozen=True)
class KernelTable:
    """One table of measured kernel times.

    `columns` maps each key column to its SQL type, in the order in which answers are sorted.
    Coverage counts the distinct values of `shape` by `label` and the range of `tokens`; all three
    are SQL expressions.
    """

    what: str
    columns: dict[str, str]
    shape: str
    tokens: str
    label: str = "dtype"


KERNEL_TABLES = {
    "moe": KernelTable(
        "The routed experts of one layer: no shared expert, no router, no communication. "
        "num_tokens counts the step's tokens over all expert-parallel ranks; inter_size is one "
        "expert's width before tensor-parallel splitting.",
        {
            "dtype": _WORD,
            "kernel_source": _WORD_OR_NONE,
            "distribution": _WORD,
            **dict.fromkeys(("hidden_size", "inter_size", "topk", "num_experts"), _COUNT),
            **dict.fromkeys(("moe_tp_size", "moe_ep_size"), _COUNT_OR_NONE),
            "num_tokens": _COUNT,
        },
        shape="(hidden_size, inter_size, topk, num_experts)",
        tokens="num_tokens",
    ),
    "gemm": KernelTable(
        "An (m x k) by (k x n) matrix product; m counts tokens, n and k are weight dimensions.",
        {"dtype": _WORD, "kernel_source": _WORD_OR_NONE, "n": _COUNT, "k": _COUNT, "m": _COUNT},
        shape="(n, k)",
        tokens="m",
    ),
    "activation_scale": KernelTable(
        "Finding the scale of m rows of k activations before a product in `dtype`: a launch of "
        "its own under TensorRT-LLM, the difference of dynamic and static quantisation under "
        "vLLM, nothing under SGLang.",
        {"dtype": _WORD, "kernel_source": _WORD_OR_NONE, "k": _COUNT, "m": _COUNT},
        shape="k",
        tokens="m",
    ),
    "attention": KernelTable(
        "Decode attention of one layer, one query token per sequence: batch_size sequences each "
        "attend to context_tokens cached tokens; window_size 0 is full attention, missing is not "
        "stated.",
        {
            "dtype": _WORD,
            "kv_dtype": _WORD,
            "kernel_source": _WORD_OR_NONE,
            **dict.fromkeys(("num_heads", "num_kv_heads", "head_dim"), _COUNT),
            "window_size": _COUNT_OR_NONE,
            "batch_size": _COUNT,
            "context_tokens": _COUNT,
        },
        shape="(num_heads, num_kv_heads, head_dim, window_size)",
        tokens="batch_size",
    ),
    "mla": KernelTable(
        "Decode of one latent or sparse attention layer; op says how much of the layer is timed. "
        "`mla_generation` is the attention kernel alone; ops ending in `_module` contain the "
        "projections too. num_heads is per rank.",
        {
            "op": _WORD,
            **dict.fromkeys(
                ("model", "dtype", "kv_dtype", "gemm_dtype", "kernel_source"), _WORD_OR_NONE
            ),
            "num_heads": _COUNT,
            "tp_size": _COUNT_OR_NONE,
            "compress_ratio": _COUNT_OR_NONE,
            "batch_size": _COUNT,
            "context_tokens": _COUNT,
        },
        shape="(op, model, num_heads, compress_ratio)",
        tokens="batch_size",
    ),
    "all_reduce": KernelTable(
        (
            "All-reduce of message_elements among n_ranks accelerators; the engine may be nccl or "
            "oneccl."
        ),
        {
            "kernel_source": _WORD_OR_NONE,
            "dtype": _WORD,
            "n_ranks": _COUNT,
            "message_elements": "BIGINT NOT NULL",
        },
        shape="n_ranks",
        tokens="NULL::INTEGER",
    ),
    "all_to_all": KernelTable(
        (
            "Expert-parallel exchange: phase dispatch, combine (or prepare), num_tokens per rank, "
            "within n_nodes."
        ),
        {
            "backend": _WORD,
            "dtype": _WORD_OR_NONE,
            "n_ranks": _COUNT_OR_NONE,
            "n_nodes": _COUNT_OR_NONE,
            **dict.fromkeys(("hidden_size", "topk", "num_experts"), _COUNT),
            "phase": _WORD,
            "num_tokens": _COUNT,
        },
        shape="(hidden_size, topk, num_experts, n_ranks)",
        tokens="num_tokens",
    ),
}
"""By name. Each has, beside its columns, latency_s [s], repeats and repeat_spread, and the file it
came from."""


@dataclass(frozen=True)
class TableSpec:
    """Recipe by which one package table becomes rows of a store table.

    `keys` maps a store column to a source column, or to an SQL expression over source columns when
    it starts with `=`. A source column that a file lacks becomes NULL (unknown); a row without one
    of the target's NOT NULL columns is dropped. `latency` is (phase or None, source column) pairs:
    one output row per pair.
    """

    table: str
    target: str
    keys: dict[str, str]
    seconds_per_unit: float = MILLISECOND
    latency: tuple[tuple[str | None, str], ...] = ((None, "latency"),)
    keep: str = "TRUE"

    @property
    def needs(self) -> tuple[str, ...]:
        """Store columns that a row cannot do without."""
        columns = KERNEL_TABLES[self.target].columns
        return tuple(name for name, kind in columns.items() if kind.endswith("NOT NULL"))


def _same(*names: str) -> dict[str, str]:
    """Columns that the package's table calls as the store does."""
    return {name: name for name in names}


_SHAPE = _same("num_tokens", "hidden_size", "topk", "num_experts")
_MODULE_KEYS = (
    _same("kernel_source", "model", "num_heads", "batch_size", "tp_size", "compress_ratio")
    | {
        "op": "op_name",
        "dtype": "mla_dtype",
        "kv_dtype": "kv_cache_dtype",
        "gemm_dtype": "gemm_type",
    }
    | {"context_tokens": "=isl + step"}
)


def _all_reduce(table: str, dtype: str, keep: str = "TRUE") -> TableSpec:
    renamed = {"dtype": dtype, "n_ranks": "num_gpus", "message_elements": "message_size"}
    return TableSpec(table, "all_reduce", {**_same("kernel_source"), **renamed}, keep=keep)


SPECS = (
    TableSpec(
        "moe_perf",
        "moe",
        _SHAPE
        | _same("kernel_source", "inter_size", "moe_tp_size", "moe_ep_size", "distribution")
        | {"dtype": "moe_dtype"},
    ),
    TableSpec(
        "gemm_perf", "gemm", {**_same("kernel_source", "m", "n", "k"), "dtype": "gemm_dtype"}
    ),
    TableSpec(
        "computescale_perf",
        "activation_scale",
        {**_same("kernel_source", "m", "k"), "dtype": "quant_dtype"},
    ),
    TableSpec(
        "generation_attention_perf",
        "attention",
        _same("kernel_source", "batch_size", "num_heads", "head_dim", "window_size")
        | {
            "dtype": "attn_dtype",
            "kv_dtype": "kv_cache_dtype",
            "num_kv_heads": "num_key_value_heads",
        }
        | {"context_tokens": "=isl + step"},
    ),
    *(
        TableSpec(table, "mla", _MODULE_KEYS)
        for table in (
            "generation_mla_perf",
            "mla_generation_module_perf",
            "wideep_generation_mla_perf",
            "dsa_generation_module_perf",
            "dsv4_csa_generation_module_perf",
            "dsv4_hca_generation_module_perf",
            "msa_generation_module_perf",
        )
    ),
    _all_reduce("custom_allreduce_perf", "allreduce_dtype"),
    _all_reduce("nccl_perf", "nccl_dtype", keep="op_name = 'all_reduce'"),
    _all_reduce("oneccl_perf", "nccl_dtype", keep="op_name = 'all_reduce'"),
    TableSpec(
        "moe_a2a_perf",
        "all_to_all",
        _SHAPE
        | {"backend": "comm_backend", "phase": "phase"}
        | {"dtype": "comm_dtype", "n_ranks": "ep_size", "n_nodes": "node_num"},
        seconds_per_unit=MICROSECOND,  # its `latency` equals transmit_us + notify_us
    ),
    TableSpec(
        "wideep_deepep_ll_perf",
        "all_to_all",
        _SHAPE
        | {
            "backend": "='deepep_ll'",
            "n_nodes": "node_num",
            "num_tokens": "num_token",
            "topk": "num_topk",
        },
        seconds_per_unit=MICROSECOND,
        latency=(("dispatch", "dispatch_avg_t_us"), ("combine", "combine_avg_t_us")),
    ),
    TableSpec(
        "trtllm_alltoall_perf",
        "all_to_all",
        _SHAPE
        | {"backend": "kernel_source", "phase": "=replace(op_name, 'alltoall_', '')"}
        | {"dtype": "moe_dtype", "n_ranks": "moe_ep_size"},
    ),
)
"""Every package table the store reads; all others are left alone (see docs/measured-tables.md)."""
SPEC_BY_TABLE = {spec.table: spec for spec in SPECS}
PACKAGE = "aiconfigurator-core"
MODULE = "aiconfigurator_core"
HARDWARE_BY_DEVICE = {
    "a100_sxm": "a100-80gb-sxm",  # rows carry the device name NVIDIA A100-SXM4-80GB
    "a100_pcie": "a100-80gb-pcie",
    "h100_sxm": "h100-sxm",
    "h100_pcie": "h100-pcie",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "l4": "l4",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell",
    "b60": "arc-pro-b60",
}


@dataclass(frozen=True)
class KernelPackage:
    """The package's folder of tables, and its version."""

    systems: Path
    version: str

    @property
    def data(self) -> Path:
        """Folder that holds one folder per device."""
        return self.systems / "data"


@dataclass(frozen=True)
class KernelFile:
    """One parquet file and what the notes beside it say."""

    path: Path
    relative: str
    """Below the systems folder, with forward slashes."""
    device: str
    hardware_id: str
    engine: str
    """Framework folder: vllm, sglang, trtllm, or the library nccl, oneccl."""
    version: str
    table: str
    status: str
    """`complete` or `partial` as the collector noted; empty when it noted nothing."""
    provenance: str
    """`collected`, `legacy`, `local`, or empty."""


def installed_package() -> KernelPackage | None:
    """Kernel package that is installed, else None: it ships for Linux x86-64 only."""
    try:
        spec = importlib.util.find_spec(MODULE)
    except ImportError:  # an import hook that hides it
        spec = None
    if spec is None or spec.origin is None:
        return None
    systems = Path(spec.origin).parent / "systems"
    if not (systems / "data").is_dir():
        return None
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return KernelPackage(systems=systems, version=version)


def hardware_id(device: str) -> str:
    """Our id of a device folder. A device we have no id for keeps its folder name with dashes."""
    return HARDWARE_BY_DEVICE.get(device, device.replace("_", "-"))


def _read_yaml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def kernel_files(package: KernelPackage, tables: set[str]) -> list[KernelFile]:
    """The parquet files whose table name is in `tables`, in path order."""
    files = []
    notes: dict[Path, dict[str, Any]] = {}
    for path in sorted(package.data.glob("*/*/*/*/*.parquet")):
        if path.stem not in tables:
            continue
        device, _, engine, version = path.relative_to(package.data).parts[:4]
        if path.parent not in notes:
            notes[path.parent] = _read_yaml(path.parent / "collection_meta.yaml")
        note = notes[path.parent]
        entry = (note.get("tables") or {}).get(path.stem) or {}
        files.append(
            KernelFile(
                path=path,
                relative=path.relative_to(package.systems).as_posix(),
                device=device,
                hardware_id=hardware_id(device),
                engine=engine,
                version=version,
                table=path.stem,
                status=str(entry.get("status") or ""),
                provenance=str(note.get("provenance") or ""),
            )
        )
    return files
