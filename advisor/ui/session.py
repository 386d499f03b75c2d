"""What the session keeps besides its widgets' values, each made once by the module it is of; the
settings of pages.

Widgets' values lie under their keys in `st.session_state`, where Streamlit puts them; another key
starts with an underscore. A page's settings are one row each, kept over a change of page and
written in the address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from advisor.answers.explore.cells import AXES
from advisor.answers.explore.entrants import BY
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.spend import MAX_USD_PER_HOUR
from advisor.prediction import AdvisorError
from advisor.show.charts.maps import SHOWN

T = TypeVar("T")


@dataclass(frozen=True)
class Kept(Generic[T]):
    """One thing that the user's session holds, and why the last one asked for could not be had."""

    key: str
    empty: Callable[[], Any] = lambda: None
    """What it is as long as none is held."""

    @property
    def result(self) -> T:
        """The thing, or a new empty one, which is not held."""
        return st.session_state[self.key] if self.key in st.session_state else self.empty()

    @property
    def problem(self) -> str:
        """Reason that the last one asked for could not be had, or empty."""
        return str(st.session_state.get(f"{self.key}_problem", ""))

    def put(self, value: T) -> None:
        """Hold a thing."""
        st.session_state[self.key] = value
        st.session_state.pop(f"{self.key}_problem", None)

    def refuse(self, reason: AdvisorError | str) -> None:
        """Keep the reason that none could be had, beside what was held before."""
        st.session_state[f"{self.key}_problem"] = str(reason)

    def take(self, make: Callable[..., T], *arguments: Any) -> bool:
        """Hold what a call returns, or keep the reason that it raises. Whether it returned."""
        try:
            self.put(make(*arguments))
        except AdvisorError as error:
            self.refuse(error)
        return not self.problem

    def forget(self) -> None:
        """Back to empty, without a problem."""
        for key in (self.key, f"{self.key}_problem"):
            st.session_state.pop(key, None)

    def pop(self) -> T:
        """The thing, which is then forgotten."""
        value = self.result
        self.forget()
        return value


_FOLDED: Kept[dict[str, tuple[int, Any]]] = Kept("_folded", dict)
"""By the name of a setting behind a button: how many widgets it has had, and the value that the
present one shows."""


def folded_key(name: str) -> str:
    """Key of a widget behind a button: the setting's name, but another once its value was set
    elsewhere.

    A browser that has the widget folded away is not told, and would go on sending what it last
    showed: under a new key the widget starts from the value that holds.
    """
    now = st.session_state
    folded = _FOLDED.result
    number, before = folded.get(name, (0, now[name]))
    number += now[name] != before
    _FOLDED.put(folded | {name: (number, now[name])})
    if not number:
        return name
    key = f"{name}_{number}"
    now[name] = now[name]  # no widget of its own keeps it any more
    if now.get(key) != now[name]:
        now[key] = now[name]
    return key


def take_typed(name: str, key: str, follow: Callable[[], None] | None = None) -> None:
    """Callback of such a widget: what was typed is the setting's value, and what follows from
    it."""
    now = st.session_state
    folded = _FOLDED.result
    now[name] = now[key]
    if follow is not None:
        follow()
    _FOLDED.put(folded | {name: (folded.get(name, (0,))[0], now[name])})


def attempt(action: Callable[..., T], *arguments: Any) -> tuple[T | None, str]:
    """(result, ""), or (None, the sentence) when the action raises an AdvisorError."""
    try:
        return action(*arguments), ""
    except AdvisorError as error:
        return None, str(error)


SERVE_TABS = ("Why", "Drafters", "Explore", "Evidence", "Command check", "Simulate", "Sweep")
EXPLORE_AS = ("Map", "Table", "K by context", "Compare models")
LARGEST_LIMIT = 1e9
SMALLEST_LIMIT = 1e-3
_SETTINGS = "_page_settings"


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


def _flag(text: str) -> bool:
    if text not in ("True", "False", ""):
        raise ValueError(f"{text} is neither True nor False")
    return text == "True"


_off = PageSetting(False, _flag)
_limit = PageSetting(None, _number(SMALLEST_LIMIT, LARGEST_LIMIT))
SETTINGS: Mapping[str, PageSetting] = {
    "pins": PageSetting("", str),
    "serve_tab": PageSetting(SERVE_TABS[0], _one_of(SERVE_TABS)),
    "explore_as": PageSetting(EXPLORE_AS[0], _one_of(EXPLORE_AS)),
    "explore_across": PageSetting(AXES[0], _one_of(AXES)),
    "explore_down": PageSetting(AXES[1], _one_of(AXES)),
    "explore_show": PageSetting(next(iter(SHOWN)), _one_of(tuple(SHOWN))),
    "load_price": PageSetting(None, _number(SMALLEST_LIMIT, MAX_USD_PER_HOUR)),
    "rank_by": PageSetting(BY[0], _one_of(BY)),
    "rank_names": PageSetting("", str),
    "rank_min_total": _limit,
    "rank_max_total": _limit,
    "design_compare": PageSetting("", str),
    "design_batches": PageSetting("", str),
    "design_quality": PageSetting(DEFAULT_EPS * 100, _number(0.0, 50.0)),
    "design_tokens": _limit,
    "design_total_params": _limit,
    "design_target_total": _limit,
    "design_target_active": _limit,
    "design_tpot": _limit,
    "design_memory": _limit,
    "report_context": _off,
    "report_models": _off,
    "report_ranks": _off,
    "report_sweep": _off,
}
"""By name."""


def restore() -> None:
    """Put back what Streamlit forgot: it drops the value of every widget that the last run did not
    draw."""
    saved: dict[str, Any] = st.session_state.setdefault(_SETTINGS, {})
    for name, setting in SETTINGS.items():
        if name in st.session_state:
            saved[name] = st.session_state[name]
        else:
            st.session_state[name] = saved.get(name, setting.default)


def values() -> dict[str, Any]:
    """Every setting as it is now."""
    return {name: st.session_state.get(name, setting.default) for name, setting in SETTINGS.items()}


def take(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Set every setting to what an address says, else to its default. Returns what it cannot have,
    by name."""
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
