"""read_upload: which reader fits the content, and one road for everything that can go wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from advisor.ingest import refused
from advisor.ingest.pipeline import complete, finalise
from advisor.ingest.readers import READERS
from advisor.ingest.remap import rename_headers
from advisor.ingest.result import IngestResult, shorten
from advisor.ingest.upload import Sample, open_upload
from advisor.prediction import AdvisorError

DETECTED = 0.5
"""A reader that scores less does not claim the file."""


@dataclass(frozen=True)
class Format:
    """A format that can be read: its id, the tool's name for it, and how it is recognised."""

    id: str
    name: str
    recognised_by: str


FORMATS: tuple[Format, ...] = tuple(
    Format(reader.FORMAT_ID, reader.FORMAT_NAME, reader.RECOGNISED_BY) for reader in READERS
)


def read_upload(
    name: str, data: bytes, context: Mapping[str, Any] | None = None, columns: Mapping[str, str] | None = None
) -> IngestResult:
    """Read a benchmark result of any known format, recognised by its content alone.

    Parameters: `name` is used in messages only; `data` the bytes as uploaded (plain, gzip, or a zip of one file);
    `context` fills fields the file lacks, as `complete` does; `columns` renames headers of a CSV, {theirs: ours}.
    Raises AdvisorError, and nothing else, when the file is not recognised, exceeds a limit, or carries nothing that
    can be used.
    """
    shown = shorten(name) or "the upload"
    try:
        result = read_unguarded(shown, data, columns)
    except AdvisorError:
        raise
    except (RecursionError, MemoryError) as error:
        raise AdvisorError(f"{shown} is nested too deeply or too large to be read; send a smaller file") from error
    # Files come from outside, and the parsing libraries raise what they like on damaged ones; the cause stays attached.
    except Exception as error:
        raise AdvisorError(
            f"{shown} could not be read ({type(error).__name__}): the file is damaged or the reader is at fault; "
            "please report it with the file"
        ) from error
    return complete(result, context) if context else result


def read_unguarded(name: str, data: bytes, columns: Mapping[str, str] | None = None) -> IngestResult:
    """`read_upload` without its last guard, so that tests see a reader's own faults."""
    sample = open_upload(name, data)
    if columns:
        sample = rename_headers(sample, columns)
    reader = detect(sample)
    draft = reader.read(sample)
    draft.warnings = [*sample.warnings, *draft.warnings]
    return finalise(draft, reader.FORMAT_ID, reader.FORMAT_NAME, name, hashlib.sha256(data).hexdigest())


def detect(sample: Sample) -> ModuleType:
    """The reader with the highest score. Raises AdvisorError when none claims the file."""
    scores = [(reader.detect(sample), reader) for reader in READERS]
    score, best = max(scores, key=lambda pair: pair[0])
    if score >= DETECTED:
        return best
    reason = refused.reason(sample)
    if reason:
        raise AdvisorError(f"{sample.name} cannot be used: {reason}")
    raise AdvisorError(f"{sample.name} is not recognised: {_seen(sample)}; expected a result file of {_known()}")


def _seen(sample: Sample) -> str:
    if sample.kind in ("json", "jsonl"):
        keys = ", ".join(shorten(key)[:40] for key in list(sample.first)[:6])
        return f"JSON with the fields {keys}" if keys else "JSON without fields"
    if sample.kind == "parquet":
        return "a parquet file without the columns of a kernel table or of the template"
    return f"text that begins with {shorten(sample.first_line)[:80]!r}"


def _known() -> str:
    return ", ".join(item.name for item in FORMATS)
