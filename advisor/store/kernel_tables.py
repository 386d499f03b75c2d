"""Finding the measured kernel tables of the aiconfigurator-core package, and what their collectors wrote beside them.

Files below the package's folder are read in place; its Python code is never imported. Layout:
`systems/data/<device>/<family>/<framework>/<version>/<table>.parquet`, with `collection_meta.yaml` and sometimes
`reuse.yaml` beside the tables. Source: ai-dynamo/aiconfigurator, Apache-2.0.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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
    family: str
    engine: str
    """Framework folder: vllm, sglang, trtllm, or the library nccl, oneccl."""
    version: str
    table: str
    status: str
    """`complete` or `partial` as the collector noted; empty when it noted nothing."""
    provenance: str
    """`collected`, `legacy`, `local`, or empty."""


@dataclass(frozen=True)
class DeclaredReuse:
    """The package serves `table` of this version from another version. No rows are stored for it here."""

    hardware_id: str
    engine: str
    version: str
    table: str
    from_version: str
    reason: str


def installed_package() -> KernelPackage | None:
    """The installed kernel package, or None where there is none (it ships for Linux x86-64 only)."""
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
    found = []
    notes: dict[Path, dict[str, Any]] = {}
    for path in sorted(package.data.glob("*/*/*/*/*.parquet")):
        if path.stem not in tables:
            continue
        device, family, engine, version = path.relative_to(package.data).parts[:4]
        if path.parent not in notes:
            notes[path.parent] = _read_yaml(path.parent / "collection_meta.yaml")
        note = notes[path.parent]
        entry = (note.get("tables") or {}).get(path.stem) or {}
        found.append(
            KernelFile(
                path=path,
                relative=path.relative_to(package.systems).as_posix(),
                device=device,
                hardware_id=hardware_id(device),
                family=family,
                engine=engine,
                version=version,
                table=path.stem,
                status=str(entry.get("status") or ""),
                provenance=str(note.get("provenance") or ""),
            )
        )
    return found


def declared_reuse(package: KernelPackage, tables: set[str]) -> list[DeclaredReuse]:
    """Reuse that the package's reuse.yaml files declare for the given tables, in path order."""
    declared = []
    for path in sorted(package.data.glob("*/*/*/*/reuse.yaml")):
        device, _, engine, version = path.relative_to(package.data).parts[:4]
        declared += [
            DeclaredReuse(
                hardware_id=hardware_id(device),
                engine=engine,
                version=version,
                table=str(entry["table"]),
                from_version=str(entry.get("from_version", "")),
                reason=str(entry.get("reason", "")).strip(),
            )
            for entry in _read_yaml(path).get("reuse") or []
            if entry.get("table") in tables
        ]
    return declared
