"""Results on disk: data.csv (gzip above 8 MiB) and meta.yaml, written with the standard library alone."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from advisor.profiling.errors import ProfilingError

GZIP_ABOVE_BYTES = 8 * 2**20
"""A larger data.csv is shipped as data.csv.gz. [bytes]"""

COLUMNS = (
    *("block", "op", "status", "dtype", "kernel", "mode", "like", "part", "engine", "engine_version"),
    *("batch_size", "tokens_per_sequence", "n_tokens", "context_tokens"),
    *("n_experts", "n_active", "expert_width", "hidden_size", "shared_width", "touched_experts", "touched_experts_sd"),
    *("routing", "load_cv", "affinity", "stickiness", "expert_pool"),
    *("n_heads", "n_kv_heads", "head_dim", "value_dim", "in_features", "out_features", "vocab_size", "n_layers"),
    *("n_draft", "drafter", "acceptance", "accepted_length", "baseline_time_s", "speedup"),
    *("time_s", "time_p20_s", "time_p80_s", "n_rounds", "bytes", "flops", "bandwidth_fraction"),
    *("checked_error", "control_ratio", "worker", "notes"),
)
"""Columns of data.csv, documented in docs/profiling.md. Empty means unknown or not applicable, never zero."""


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else ""
    return value  # the writer leaves None empty


def rows_text(rows: Iterable[Mapping[str, Any]], *, header: bool) -> str:
    """Rows as CSV text with the fixed columns. Raises ProfilingError for a column that is not documented."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        unknown = set(row) - set(COLUMNS)
        if unknown:
            raise ProfilingError(f"undocumented result columns: {', '.join(sorted(unknown))}")
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return buffer.getvalue()


def read_rows(out_dir: Path) -> list[dict[str, str]]:
    """Rows of data.csv or data.csv.gz as text cells. [] where there is none."""
    for name in ("data.csv", "data.csv.gz"):
        path = out_dir / name
        if path.exists():
            content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
            return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))
    return []


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a killed run leaves the old or the new one."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)


class ResultFolder:
    """data.csv, meta.yaml and, until the plan is complete, progress.json in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def data(self) -> Path:
        """The growing CSV file."""
        return self.path / "data.csv"

    def is_empty(self) -> bool:
        """Whether no results are here."""
        return not any(
            (self.path / name).exists() for name in ("data.csv", "data.csv.gz", "meta.yaml", "progress.json")
        )

    def start(self, finished_blocks: Iterable[str] = ()) -> int:
        """Make data.csv hold exactly the rows of the finished blocks.

        Returns their number. Raises ProfilingError where it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            wanted = set(finished_blocks)
            kept = [row for row in read_rows(self.path) if row["block"] in wanted]
            write_atomically(self.data, rows_text(kept, header=True))
        except OSError as error:
            raise ProfilingError(f"cannot write results to {self.path}: {error}; choose another --output") from error
        (self.path / "data.csv.gz").unlink(missing_ok=True)
        return len(kept)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add a finished block's rows and push them to the disk."""
        with self.data.open("a", encoding="utf-8", newline="") as stream:
            stream.write(rows_text(rows, header=False))
            stream.flush()
            os.fsync(stream.fileno())

    def compress_if_large(self, above_bytes: int = GZIP_ABOVE_BYTES) -> str:
        """Turn a data.csv above the limit into data.csv.gz. Returns the name of the data file."""
        if self.data.stat().st_size <= above_bytes:
            return self.data.name
        packed = self.path / "data.csv.gz"
        with packed.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream:
            stream.write(self.data.read_bytes())
        self.data.unlink()
        return packed.name

    def read_progress(self) -> dict[str, Any]:
        """Contents of progress.json, {} where there is none. Raises ProfilingError when it cannot be read."""
        path = self.path / "progress.json"
        if not path.exists():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ProfilingError(f"{path} cannot be read ({error}); choose another --output") from error
        return content if isinstance(content, dict) else {}

    def write_progress(self, content: Mapping[str, Any]) -> None:
        """Replace progress.json."""
        write_atomically(self.path / "progress.json", json.dumps(content, indent=1))

    def write_meta(self, content: Mapping[str, Any]) -> None:
        """Replace meta.yaml."""
        write_atomically(self.path / "meta.yaml", to_yaml(content))


def to_yaml(value: Any, indent: int = 0) -> str:
    """Nested dicts, lists and scalars as YAML text. Strings are quoted as in JSON, NaN and infinity become null."""
    pad = "  " * indent
    lines = []
    items = value.items() if isinstance(value, Mapping) else [(None, item) for item in value]
    for key, item in items:
        lead = f"{pad}- " if key is None else f"{pad}{_key(key)}:"
        if isinstance(item, Mapping | list | tuple):
            if not item:
                lines.append(f"{lead.rstrip()} {'{}' if isinstance(item, Mapping) else '[]'}\n")
            else:
                lines.append(f"{lead.rstrip()}\n" + to_yaml(item, indent + 1))
        else:
            lines.append(f"{lead.rstrip()} {_scalar(item)}\n")
    return "".join(lines)


def _key(key: Any) -> str:
    """A plain word as it is. Quoted when YAML could take it for something else, as `no` or `1`."""
    text = str(key)
    plain = text.isidentifier() and text.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    return text if plain else json.dumps(text)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        if not math.isfinite(value):
            return "null"
        text = f"{value:.9g}"
        mantissa, _, exponent = text.partition("e")  # YAML 1.1 wants a point in a float, also before an exponent
        mantissa = mantissa if "." in mantissa else mantissa + ".0"
        return mantissa + (f"e{exponent}" if exponent else "")
    return json.dumps(value if value is None or isinstance(value, int) else str(value))
