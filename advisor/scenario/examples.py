"""Named scenarios to start from, under profiles/examples: realistic placements, accepted lengths with their origin."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pydantic import Field

from advisor.prediction import Frozen
from advisor.profiles import load_profile, profile_ids
from advisor.scenario.scenario import Scenario

_LISTING = "run `python -m advisor examples` for all of them"


class MeasuredSpeedup(Frozen):
    """A speedup that a source of an example measured on its very scenario, at one K."""

    n_draft: int = Field(ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    """None: at the batch where it is highest, which the source does not state."""
    speedup: float = Field(gt=0)


class Example(Frozen):
    """One scenario with a line on what it shows, and where its accepted length comes from."""

    id: str
    title: str = Field(max_length=60)
    description: str = Field(max_length=150)
    """What it shows and, where `measured` is given, how the prediction compares with it: what is read first."""
    acceptance_origin: Literal["measured curve", "published value"]
    """A measured curve of the profiles, or numbers from a publication typed in as a user would."""
    acceptance_note: str
    sources: tuple[str, ...] = Field(min_length=1)
    measured: tuple[MeasuredSpeedup, ...] = ()
    """Speedups that its sources measured; the prediction is never fitted to them."""
    scenario: Scenario


def example_ids() -> list[str]:
    """Ids of all examples, sorted."""
    return profile_ids("examples")


@lru_cache(maxsize=16)
def load_example(example_id: str) -> Example:
    """The example of that id. Raises AdvisorError for an unknown id (with close matches) or a damaged file."""
    return load_profile("examples", example_id, Example, "examples", _LISTING)
