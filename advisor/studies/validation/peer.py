"""AIConfigurator's predictions of the same points beside ours, from its last run (`make bench-peer`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.profiles import PROFILES
from advisor.studies.validation.plain_tables import errors_s, figures_s, is_heavy, kinds
from advisor.studies.validation.silicon import GROUP
from advisor.studies.validation.tables import markdown_table, percent
from advisor.text import frame_csv

PEER = PROFILES.parent / "docs" / "peer" / "aiconfigurator.csv"
"""Its answers, one line a point; the first line says which version answered when, and how fast both tools are."""
WAYS = {"checkpoint": "by checkpoint", "format": "by format"}
"""How the tool was asked first: by its configuration of the release, or by the formats that the points name."""
COLUMNS = ("point_id", *(f"{name}_{way}" for way in WAYS for name in ("tpot_s", "ttft_s")))


@dataclass(frozen=True)
class PeerRun:
    """One run of the tool over the points."""

    version: str
    date: str
    """Day of the run, YYYY-MM-DD."""
    asked: int
    """Points asked for; those without an answer are not in the file."""
    seconds_per_point: float
    """Median, its tables being in memory. [s]"""
    own_seconds_per_point: float
    """Ours on the same machine, setups included. [s]"""
    how: str
    """How it was asked, in words."""


def write_peer(answers: pd.DataFrame, run: PeerRun, path: Path = PEER) -> None:
    """Write a run: its description as a comment, then COLUMNS of the points that were answered.

    `answers` has a line for each point and way: point_id, first (of WAYS), tpot_s and ttft_s.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    wide = answers.pivot(index="point_id", columns="first", values=["tpot_s", "ttft_s"]).dropna()
    wide.columns = [f"{name}_{way}" for name, way in wide.columns]
    lines = frame_csv(wide.reset_index()[list(COLUMNS)], float_format="%.4g")
    path.write_text(f"# {json.dumps(run.__dict__)}\n{lines}", encoding="utf-8")


def read_peer(path: Path = PEER) -> tuple[PeerRun, pd.DataFrame]:
    """The last run, and its answers in seconds, COLUMNS."""
    with path.open(encoding="utf-8") as lines:
        run = PeerRun(**json.loads(lines.readline().removeprefix("# ")))
    return run, pd.read_csv(path, comment="#")


def side_by_side(judged: pd.DataFrame, answers: pd.DataFrame, way: str) -> pd.DataFrame:
    """The judged rows that the tool answered, with peer_s and peer_end_to_end_s of one of WAYS."""
    named = {f"tpot_s_{way}": "peer_s", f"ttft_s_{way}": "peer_ttft_s"}
    both = judged.merge(answers[["point_id", *named]].rename(columns=named), on="point_id")
    tokens = both["output_tokens"]
    return both.assign(peer_end_to_end_s=(both["peer_ttft_s"] + (tokens - 1) * both["peer_s"]) / tokens)


def compared(both: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str, str, str]]:
    """(kind, rows, measured, ours, theirs: columns) of each kind of point. Heavy ones also end to end."""
    for name, rows in kinds(both):
        yield name, rows, "measured_s", "predicted_s", "peer_s"
    whole = ("end_to_end_s", "predicted_end_to_end_s", "peer_end_to_end_s")
    yield "end to end", both, *whole
    yield "heavy, end to end", both[is_heavy(both)], *whole


def groups_closer(both: pd.DataFrame) -> tuple[int, int]:
    """(groups in which our median error is smaller, groups)."""
    closer = [
        float(np.median(errors_s(group))) < float(np.median(errors_s(group, "peer_s")))
        for _, group in both.groupby(list(GROUP))
    ]
    return sum(closer), len(closer)


def peer_section(judged: pd.DataFrame, path: Path = PEER) -> str:
    """The section of docs/validation.md. `judged`: plain decode after the quarantine, each measurement once."""
    if not path.is_file():
        return "## Beside AIConfigurator\n\nNot run here; `make bench-peer` does."
    run, answers = read_peer(path)
    by_way = [side_by_side(judged, answers, way) for way in WAYS]
    body = []
    for (name, rows, measured, ours, theirs), (_, other, *_) in zip(*map(compared, by_way), strict=True):
        figures = figures_s(rows, ours, measured), *(figures_s(each, theirs, measured) for each in (rows, other))
        body.append((name, len(rows), *(percent(share) for _, *shares in figures for share in shares)))
    header: tuple[str, ...] = ("points", "n", "ours: median", "p90", "bias")
    header += tuple(text for way in WAYS.values() for text in (f"AIConfigurator {way}: median", "p90", "bias"))
    closer = " and ".join(
        f"{won} of {count} ({way})"
        for way, both in zip(WAYS.values(), by_way, strict=True)
        for won, count in [groups_closer(both)]
    )
    return (
        f"## Beside AIConfigurator\n\nAIConfigurator {run.version} asked for the same points on {run.date} "
        f"({run.how}); it answered {len(answers):,} of {run.asked:,}. Same rows for both, after the quarantine. Closer "
        f"in groups (model, engine, accelerator, weights): {closer}. A point takes it "
        f"{1e3 * run.seconds_per_point:.0f} ms with its tables in memory, us {1e3 * run.own_seconds_per_point:.1f} ms, "
        "setups included. The points are shipped with its own tables and were known to its makers.\n\n"
        + markdown_table(header, body)
    )
