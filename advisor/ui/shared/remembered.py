"""One cache for answers on a scenario: a user's own data stay in that user's session, all else serves everybody."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from advisor.prediction import Frozen
from advisor.scenario import Scenario

P = ParamSpec("P")
T = TypeVar("T")
Asked = Callable[Concatenate[Scenario, P], T]


def keys_of(*types: type[Frozen]) -> dict[str | type[Any], Callable[[Any], Any]]:
    """Functions by which a Streamlit cache names values of these types: by all their fields.

    Streamlit knows nothing of such types.
    """
    return {one: one.model_dump_json for one in types}


def remembered(
    cache: Callable[..., Any],
    *,
    shared: int,
    own: int,
    spinner: str | bool = False,
    keys: tuple[type[Frozen], ...] = (),
) -> Callable[[Asked[P, T]], Asked[P, T]]:
    """Decorate a function whose first argument is the scenario, so that equal questions are answered once.

    Parameters
    ----------
    cache : `st.cache_resource`, or `st.cache_data` where each caller needs a copy.
    shared : most entries that all sessions share; the oldest goes first.
    own : most entries of one session, for scenarios that are private, or a further argument that says so of itself.
    spinner : what the page says while the answer is computed.
    keys : types of further arguments beside texts and numbers.
    """

    def decorate(function: Asked[P, T]) -> Asked[P, T]:
        options = {"show_spinner": spinner, "hash_funcs": keys_of(Scenario, *keys)}
        for_all = cache(max_entries=shared, **options)(function)
        for_one = cache(max_entries=own, scope="session", **options)(function)

        @functools.wraps(function)
        def look_up(scenario: Scenario, /, *rest: P.args, **named: P.kwargs) -> T:
            is_private = any(getattr(one, "is_private", False) for one in (scenario, *rest, *named.values()))
            answer: T = (for_one if is_private else for_all)(scenario, *rest, **named)
            return answer

        return look_up

    return decorate
