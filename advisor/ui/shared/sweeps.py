"""The sweep of this session: opened or computed on the page Data, and what of it is on screen. Nothing is shared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.sweep import Sweep, SweepMap, default_axes, sweep_map
from advisor.ui.shared.session import Slot, nothing

MAX_ROWS = 200_000
"""Rows of a sweep in a session: 50 MB. Larger ones are asked with DuckDB. [-]"""


@dataclass(frozen=True)
class KeptSweep:
    """A sweep in the session."""

    sweep: Sweep
    digest: str
    """Twelve hex digits of what it was made from: keys of widgets on it end in them."""
    origin: str
    """Whether it was computed here or from which files, in words."""


@dataclass(frozen=True)
class Shown:
    """Part of a sweep that is on screen: the limit on time per token, and the map."""

    digest: str = ""
    max_tpot_ms: float | None = None
    axes: tuple[str, str] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it, for names of what rests on it."""
        return repr((self.digest, self.max_tpot_ms, self.axes, sorted(self.fixed.items())))


KEPT: Slot[KeptSweep | None] = Slot("_sweep", nothing)
_SHOWN: Slot[Shown] = Slot("_sweep_shown", Shown)


def keep(sweep: Sweep, content: bytes, origin: str) -> None:
    """Make a sweep the session's.

    content : what it was made from.
    """
    KEPT.put(KeptSweep(sweep, hashlib.sha256(content).hexdigest()[:12], origin))


def show(shown: Shown) -> None:
    """Note what is on screen."""
    _SHOWN.put(shown)


def shown(kept: KeptSweep) -> Shown:
    """Part of this sweep that is on screen, or that would be at first."""
    now = _SHOWN.get()
    return now if now.digest == kept.digest else Shown(kept.digest, None, default_axes(kept.sweep.frame))


def map_of(kept: KeptSweep, now: Shown) -> SweepMap | None:
    """The map of what is on screen, None where fewer than two settings vary."""
    return None if now.axes is None else sweep_map(kept.sweep.frame, *now.axes, now.fixed)
