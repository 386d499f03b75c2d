"""What a store holds, and whether it still matches its sources."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS, is_there
from advisor.store import profiler_sweeps, queries
from advisor.store.connection import BUILD_COMMAND, default_store_path, open_store
from advisor.store.kernel_tables import installed_package
from advisor.store.measurements import measurement_hashes
from advisor.store.table_specs import KERNEL_TABLES


@dataclass(frozen=True)
class StoreStatus:
    """State of the store at `path`. `problem` says in one sentence why it cannot be used, and is empty otherwise."""

    path: Path
    exists: bool
    problem: str = ""
    size_bytes: int = 0
    built_utc: dt.datetime | None = None
    """Naive, in UTC."""
    kernel_package_version: str = ""
    """Empty: built without the kernel tables."""
    stale_because: tuple[str, ...] = ()
    """Reasons to rebuild; empty when the store matches its sources."""
    rows_by_table: dict[str, int] | None = None
    coverage: pd.DataFrame | None = None
    sweeps: pd.DataFrame | None = None
    """Sweeps of the profiler, as `store.sweeps` lists them."""
    copies: pd.DataFrame | None = None
    dropped: pd.DataFrame | None = None

    @property
    def stale(self) -> bool:
        """True when a rebuild would change what the store holds."""
        return bool(self.stale_because)


def status(path: str | os.PathLike[str] | None = None, *, measurements: Path = MEASUREMENTS) -> StoreStatus:
    """Look at the store without changing it. Never raises for a missing or unusable one."""
    file = Path(path) if path is not None else default_store_path()
    if not is_there(file) or not file.is_file():
        return StoreStatus(file, exists=False, problem=f"there is no store at {file}; run `{BUILD_COMMAND}`")
    try:
        return _described(file, measurements)
    except AdvisorError as error:
        problem = str(error)
    # A file that another program made or that was cut may lack anything: tables, keys, dates, its size.
    except Exception as error:
        problem = f"{file} is not a usable store ({type(error).__name__}); rebuild it with `{BUILD_COMMAND}`"
    return StoreStatus(file, exists=True, problem=problem)


def _described(file: Path, measurements: Path) -> StoreStatus:
    with open_store(file) as store:
        info = store.info()
        counted = [*KERNEL_TABLES, "plain_decode", "sweep_rows"]
        rows = {name: int(store.rows(f"SELECT count(*) FROM {name}")[0][0]) for name in counted}
        rows |= {
            f"dataset_{name}": int(n) for name, n in store.rows("SELECT name, row_count FROM datasets ORDER BY name")
        }
        sources = queries.kernel_sources(store)
        return StoreStatus(
            path=file,
            exists=True,
            size_bytes=file.stat().st_size,
            built_utc=dt.datetime.fromisoformat(info["built_utc"]).replace(tzinfo=None),
            kernel_package_version=info["kernel_package_version"],
            stale_because=_reasons(info, measurements),
            rows_by_table=rows,
            coverage=queries.coverage(store),
            sweeps=profiler_sweeps.sweeps(store),
            copies=sources[sources["copy_of"].notna()].reset_index(drop=True),
            dropped=queries.dropped_rows(store),
        )


@functools.cache
def builder_sha256() -> str:
    """Hash of the sources of this folder, which decide what a build makes of the tables."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _reasons(info: dict[str, str], measurements: Path) -> tuple[str, ...]:
    reasons = [] if info.get("builder_sha256") == builder_sha256() else ["the code that builds it has changed"]
    package = installed_package()
    built_with = info["kernel_package_version"]
    # A package that has gone since is no reason: a rebuild would only lose its tables.
    if package is not None and package.version != built_with:
        reasons.append(
            f"kernel tables of version {package.version} are installed, the store has {built_with or 'none'}"
        )
    before = json.loads(info["measurement_hashes"])
    now = measurement_hashes(measurements)
    reasons += [
        f"dataset {name} has changed"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    return tuple(reasons)
