"""What the session keeps besides its widgets' values: each value is one typed slot, made once by the module it is of.

Widgets' values lie under their keys in `st.session_state`, where Streamlit puts them; a slot's key starts with an
underscore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st

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
