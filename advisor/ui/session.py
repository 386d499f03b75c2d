"""What the session keeps besides its widgets' values: each value is one typed slot, made once by the module it is of.

Widgets' values lie under their keys in `st.session_state`, where Streamlit puts them; a slot's key starts with an
underscore.

Settings of single pages: one row each, kept in the session over a change of page and written in the address.

The scenario's fields are `advisor.scenario.FIELDS`; these are what a page asks besides: which tab is open, which
objective ranks designs. A widget's key is its setting's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from advisor.answers.explore.cells import AXES
from advisor.answers.explore.entrants import BY
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.scenario_fields import FIELDS
from advisor.show.charts.explore import SHOWN

T = TypeVar("T")


@dataclass(frozen=True)
class Slot(Generic[T]):
    """One value of the user's session, and what it is as long as nobody has put one there."""

    key: str
    empty: Callable[[], T]

    def get(self) -> T:
        """The value, or a new empty one, which is not kept."""
        if self.key not in st.session_state:
            return self.empty()
        value: T = st.session_state[self.key]
        return value

    def put(self, value: T) -> None:
        """Keep a value."""
        st.session_state[self.key] = value

    def drop(self) -> None:
        """Back to empty."""
        st.session_state.pop(self.key, None)

    def take(self) -> T:
        """The value, which is then dropped."""
        value = self.get()
        self.drop()
        return value


def nothing() -> None:
    """The empty value of a slot that may hold none."""


SERVE_TABS = ("Why", "Explore", "Evidence", "Command check")
EXPLORE_AS = ("Map", "Table", "Compare models")
LAB_TABS = ("Simulation", "Sweep", "Expert parallelism", "This machine")
_WAS = {"Ranks of experts": "Expert parallelism"}
MAX_GPUS = int((FIELDS["n_gpus"].range or (1, 1))[1])
LARGEST_LIMIT = 1e9
SMALLEST_LIMIT = 1e-3
_KEPT = "_page_settings"


@dataclass(frozen=True)
class PageSetting:
    """One setting of a page: its value when nothing is said, and how an address spells it."""

    default: Any
    read: Callable[[str], Any]
    """Raises ValueError for a text that the page cannot show."""


def _one_of(choices: Sequence[str], also: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """A reader of one of these; `also` has other spellings, those of older links."""

    def read(text: str) -> str:
        value = (also or {}).get(text, text)
        if value not in choices:
            raise ValueError(f"{text} is not one of {', '.join(choices)}")
        return value

    return read


def _number(low: float, high: float) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        if text == "":
            return None
        value = float(text)
        if not low <= value <= high:
            raise ValueError(f"{text} is outside {low:g} to {high:g}")
        return value

    return read


def _whole(low: int, high: int) -> Callable[[str], int | None]:
    read = _number(low, high)
    return lambda text: None if (value := read(text)) is None else int(value)


def _flag(text: str) -> bool:
    if text not in ("True", "False", ""):
        raise ValueError(f"{text} is neither True nor False")
    return text == "True"


_off = PageSetting(False, _flag)
_limit = PageSetting(None, _number(SMALLEST_LIMIT, LARGEST_LIMIT))
SETTINGS: Mapping[str, PageSetting] = {
    "serve_tab": PageSetting(SERVE_TABS[0], _one_of(SERVE_TABS)),
    "explore_as": PageSetting(EXPLORE_AS[0], _one_of(EXPLORE_AS)),
    "explore_across": PageSetting(AXES[0], _one_of(AXES)),
    "explore_down": PageSetting(AXES[1], _one_of(AXES)),
    "explore_show": PageSetting(next(iter(SHOWN)), _one_of(tuple(SHOWN))),
    "load_price": _limit,
    "rank_by": PageSetting(BY[0], _one_of(BY)),
    "rank_names": PageSetting("", str),
    "rank_min_total": _limit,
    "rank_max_total": _limit,
    "design_mine": PageSetting("", str),
    "design_batches": PageSetting("", str),
    "design_targets": PageSetting("", str),
    "design_quality": PageSetting(DEFAULT_EPS * 100, _number(0.0, 50.0)),
    "design_tokens": _limit,
    "design_total_params": _limit,
    "design_target_total": _limit,
    "design_target_active": _limit,
    "design_tpot": _limit,
    "design_memory": _limit,
    "lab_tab": PageSetting(LAB_TABS[0], _one_of(LAB_TABS, _WAS)),
    "report_context": _off,
    "report_models": _off,
    "report_ranks": _off,
    "report_sweep": _off,
}
"""By name."""


def restore() -> None:
    """Put back what Streamlit forgot: it drops the value of every widget that the last run did not draw."""
    kept: dict[str, Any] = st.session_state.setdefault(_KEPT, {})
    for name, setting in SETTINGS.items():
        if name in st.session_state:
            kept[name] = st.session_state[name]
        else:
            st.session_state[name] = kept.get(name, setting.default)


def values() -> dict[str, Any]:
    """Every setting as it is now."""
    return {name: st.session_state.get(name, setting.default) for name, setting in SETTINGS.items()}


def take(texts: Mapping[str, str]) -> dict[str, str]:
    """Set every setting to what an address says, else to its default.

    Returns by name what the address asks for and cannot have.
    """
    refused = {}
    for name, setting in SETTINGS.items():
        value = setting.default
        if name in texts:
            try:
                value = setting.read(texts[name])
            except ValueError:
                refused[name] = texts[name]
        st.session_state[name] = value
    return refused
