"""Several read uploads as one: runs of one sweep come in a file each, and the baseline is often another of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from advisor.ingest.limits import MAX_ROWS
from advisor.ingest.pipeline import evaluate
from advisor.ingest.result import IngestResult, Swap
from advisor.prediction import AdvisorError


def combine(results: Sequence[IngestResult]) -> IngestResult:
    """One result with the rows of all; baselines are then looked for among all of them.

    Lines are counted on through the files in the order given, and the notes say where each file begins. The hash is
    that of the files' hashes, in any order. Raises AdvisorError for kernel tables among served runs and for too many
    rows; one result comes back as it is.
    """
    if len(results) == 1:
        return results[0]
    if len({result.kind for result in results}) > 1:
        named = ", ".join(f"{result.file_name} ({result.format_name})" for result in results)
        raise AdvisorError(f"kernel tables and served runs cannot be read as one; upload them apart: {named}")
    if sum(len(result.measured) for result in results) > MAX_ROWS:
        raise AdvisorError(f"the files have more than {MAX_ROWS:,} rows together; upload them apart")
    offset, measured, refused, starts = 0, [], [], []
    for result in results:
        rows = result.measured.copy(deep=False)
        rows.index = pd.Index(rows.index.to_numpy() + offset, name="line", dtype="int64")
        measured.append(rows)
        refused.append(result.parse_rejects.assign(line=result.parse_rejects["line"] + offset))
        starts.append(f"{result.file_name} from line {offset + 1}")
        offset += max([0, *result.measured.index, *result.parse_rejects["line"]])
    frame = pd.concat(measured)
    both = replace(
        results[0],
        format_id=_common([result.format_id for result in results]),
        format_name=_common([result.format_name for result in results]),
        file_name=f"{len(results)} files",
        sha256=hashlib.sha256("".join(sorted(result.sha256 for result in results)).encode()).hexdigest(),
        frame=frame,
        measured=frame,
        parse_rejects=pd.concat(refused, ignore_index=True),
        rows_read=int(np.sum([result.rows_read for result in results])),
        metadata={},
        prefill=_agreed([result.prefill for result in results]),
        reader_notes=(f"lines are counted on through the files: {', '.join(starts)}", *_said(results, "reader_notes")),
        reader_warnings=_said(results, "reader_warnings"),
        reader_swaps=tuple(
            Swap(swap.columns, f"{item.file_name}: {swap.reason}") for item in results for swap in item.reader_swaps
        ),
    )
    return evaluate(both)


def _common(names: list[str]) -> str:
    return names[0] if len(set(names)) == 1 else ", ".join(dict.fromkeys(names))


def _said(results: Sequence[IngestResult], which: str) -> tuple[str, ...]:
    """Each sentence once, with its file where not all files say it."""
    by_text: dict[str, list[str]] = {}
    for result in results:
        for text in getattr(result, which):
            by_text.setdefault(text, []).append(result.file_name)
    return tuple(
        text if len(files) == len(results) else f"{', '.join(files[:3])}{', ...' if len(files) > 3 else ''}: {text}"
        for text, files in by_text.items()
    )


def _agreed(prefills: list[dict[str, object]]) -> dict[str, object]:
    return {name: value for name, value in prefills[0].items() if all(item.get(name) == value for item in prefills)}
