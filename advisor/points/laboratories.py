"""Who measured which source, and which laboratories are set apart: their rows choose nothing.

Titles and laboratories stand in profiles/validation/laboratories.yaml. Whether one is set apart follows from its name,
so that nobody picks the rows that judge; each look at them is logged in docs/set-apart.md.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import Any

from pydantic import Field, model_validator

from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, read_yaml, validate

LABORATORIES = PROFILES / "validation" / "laboratories.yaml"
SET_APART_OF = 5
"""One laboratory of this many is set apart, in the mean over names. [-]"""


class Laboratory(Frozen):
    """A company, wiki, team or person with the sources that are theirs."""

    name: str = Field(min_length=2)
    titles: tuple[str, ...] = Field(min_length=1)


class _File(Frozen):
    laboratories: tuple[Laboratory, ...]

    @model_validator(mode="after")
    def _each_once(self) -> _File:
        names = [name for one in self.laboratories for name in (f"laboratory {one.name}", *one.titles)]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise ValueError(f"each laboratory and title stands once, but these do not: {', '.join(twice)}")
        return self


def laboratory_of(title: str) -> str:
    """The laboratory that published the source `title`. Raises AdvisorError for a title that the file does not list."""
    try:
        return _by_title()[title]
    except KeyError:
        raise AdvisorError(
            f"no laboratory is known for the source {title[:120]!r}; "
            f"add its title to profiles/validation/{LABORATORIES.name}"
        ) from None


def set_apart(laboratory: str) -> bool:
    """Whether a laboratory's rows are kept from every choice: sha256 of its name modulo SET_APART_OF is 0."""
    return int(hashlib.sha256(laboratory.encode()).hexdigest(), 16) % SET_APART_OF == 0


@lru_cache(maxsize=1)
def _by_title() -> dict[str, str]:
    content: dict[str, Any] = read_yaml(LABORATORIES)
    content.pop("_source_texts")
    found = validate(content, _File, LABORATORIES)
    return {title: one.name for one in found.laboratories for title in one.titles}
