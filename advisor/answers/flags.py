"""Flags of a record of facts: comparisons written once as data, which phrases name and the browser
reads too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

Flags = Mapping[str, tuple[str, str, Any]]
"""(fact, comparison, bound) by flag. The bound is a constant or the name of another fact."""
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(flags: Flags, flag: str, facts: Mapping[str, Any]) -> bool:
    """Whether a flag holds of some facts. One with None does not, but for `unknown`."""
    name, comparison, bound = flags[flag]
    value = facts[name]
    if comparison in ("known", "unknown"):
        return (value is None) == (comparison == "unknown")
    against = facts[bound] if isinstance(bound, str) and bound in facts else bound
    if value is None or against is None:
        return False
    return _COMPARISONS[comparison](value, against)
