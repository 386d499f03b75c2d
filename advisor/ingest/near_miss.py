"""What a file that no reader claims nearly is: which fields it has of a known format, which it lacks, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.ingest.canonical import MEASURED_COLUMNS, match_header
from advisor.ingest.raw import Format, field_of
from advisor.ingest.remap import scalar_paths
from advisor.ingest.result import shorten
from advisor.ingest.table import table_header
from advisor.ingest.upload import Sample

_NEAR = 0.5
"""Share of a format's fields that a file must have to be called a near miss."""
_SHOWN = 8
_SAME = 3
"""Names of one and the same field that are listed."""


def near_miss(sample: Sample, formats: Sequence[Format]) -> str | None:
    """One sentence on what an unrecognised file has and lacks. None where it resembles nothing.

    For JSON the known format of which it has the largest share of fields, at least half; else, and for tables, the
    columns of our own that it has, and what a row needs beside them.
    """
    if sample.kind in ("json", "jsonl"):
        return _near_format(sample.first, formats) or _near_columns(scalar_paths(sample.first), "field")
    return _near_columns(table_header(sample), "column")


def _near_format(record: Mapping[str, Any], formats: Iterable[Format]) -> str | None:
    best: tuple[float, int, str] | None = None
    for item in formats:
        have = [wanted for wanted in item.wants if present(record, wanted)]
        lacks = [wanted for wanted in item.wants if wanted not in have]
        share = len(have) / len(item.wants) if item.wants else 0.0
        if share < _NEAR or (best is not None and (share, len(have)) <= best[:2]):
            continue
        missing = "; ".join(_either(wanted) for wanted in lacks) or "the kinds of values that the tool writes there"
        text = (
            f"it is nearly {item.name}: it has {', '.join(_found(record, wanted) for wanted in have)}, and lacks "
            f"{missing}. Send the file as the tool wrote it, or name its fields with --map theirs=ours"
        )
        best = (share, len(have), text)
    return None if best is None else best[2]


def present(record: Mapping[str, Any], wanted: str) -> bool:
    """Whether a record has one of the fields `a|b`."""
    return any(field_of(record, path) is not None for path in wanted.split("|"))


def _either(wanted: str) -> str:
    names = wanted.split("|")
    more = f" or one of {len(names) - _SAME} more" if len(names) > _SAME + 1 else ""
    return " or ".join(names[:_SAME] if more else names) + more


def _found(record: Mapping[str, Any], wanted: str) -> str:
    return next(path for path in wanted.split("|") if field_of(record, path) is not None)


def _near_columns(names: Iterable[str], what: str) -> str | None:
    """What our own table would need, where some names are understood already."""
    names = [name for name in names if name.strip()]
    known = {found[0]: name for name in names if (found := match_header(name, "points"))}
    if not known:
        return None
    has = ", ".join(f"{name} ({ours})" if name != ours else name for ours, name in list(known.items())[:_SHOWN])
    measured = MEASURED_COLUMNS["points"]
    lacks = [] if any(name in known for name in measured) else [f"a measurement (one of {', '.join(measured)})"]
    if len(known) < len(lacks) + 3:
        lacks.append(f"at least three {what}s that are understood")
    untimed = [name for name in names if match_header(f"{name}_ms", "points") and not match_header(name, "points")]
    unit = (
        f"; {', '.join(shorten(name)[:40] for name in untimed[:3])} needs a unit, as in {untimed[0]}_ms"
        if untimed
        else ""
    )
    others = [name for name in names if name not in known.values() and name not in untimed]
    rest = f"; not understood: {', '.join(shorten(name)[:40] for name in others[:_SHOWN])}" if others else ""
    are = "is" if len(known) == 1 else "are"
    return (
        f"of its {what}s {has} {are} understood; it lacks {' and '.join(lacks)}{unit}{rest}."
        " Say what yours mean with --map theirs=ours, e.g. --map users=batch_size"
    )
