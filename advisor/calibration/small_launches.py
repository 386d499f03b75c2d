"""Launches that no kernel table holds, by engine and version: fitted on measured plain decode, judged model by model.

Written by `advisor.studies.small_launches`. What they are worth on a model that took no part stands in
docs/validation.md; a version before the first with a row of its own takes the oldest.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from pydantic import Field, TypeAdapter

from advisor.calibration.choice import version_key
from advisor.calibration.records import RECORDS, compact, one_a_line, read_fitted, rounded, write_text
from advisor.prediction import Frozen

SMALL_LAUNCHES_FILE = RECORDS / "end_to_end" / "small_launches.json"


class SmallLaunch(Frozen):
    """Seconds that one layer takes beside the measured kernels, on one engine before one version."""

    engine: str
    before_version: str | None = None
    """None: today's."""
    before_date: str | None = Field(default=None, pattern=r"\d{4}-\d{2}-\d{2}")
    """Day of that release, for builds without a release number; None: not known."""
    name: str = Field(pattern="launch_per_layer_s|query_key_norm_s")
    """Field of KernelCosts: of every layer, or of a layer that normalises queries and keys."""
    value_s: float = Field(ge=0)
    low_s: float = Field(ge=0)
    high_s: float = Field(ge=0)
    """Range of the values with one model left out; with one model alone, the quartiles of its points, which hold the
    noise of runs and not the spread between models."""
    n_points: int = Field(ge=1)
    """Points of `models` that it was fitted on."""
    models: tuple[str, ...]
    source: str


def write_small_launches(found: list[SmallLaunch], path: Path = SMALL_LAUNCHES_FILE) -> None:
    """Write the file, one record a line."""
    write_text(path, one_a_line(compact(rounded(one.model_dump(mode="json"))) for one in found))


@lru_cache(maxsize=4)
def load_small_launches(path: Path = SMALL_LAUNCHES_FILE) -> tuple[SmallLaunch, ...]:
    """The shipped records, read once. Empty where there are none. Raises AdvisorError when the file is damaged."""
    return read_fitted(path, TypeAdapter(tuple[SmallLaunch, ...]).validate_json, "small launches") or ()


def small_launch(
    engine: str, name: str, version: str = "", records: tuple[SmallLaunch, ...] | None = None
) -> SmallLaunch | None:
    """The record of an engine and field at a version (empty: today's). None where the engine has none."""
    found = [one for one in (load_small_launches() if records is None else records) if one.engine == engine]
    named = [one for one in found if one.name == name]
    held = [one for one in named if one.before_version and is_before(version, one.before_version, one.before_date)]
    if held:
        return min(held, key=lambda one: version_key(str(one.before_version)))
    return next((one for one in named if one.before_version is None), None)


def is_before(version: str, release: str, day: str | None = None) -> bool:
    """Whether a build is older than a release, by its number or else its date.

    The date is what its name holds, YYYY-MM-DD or eight digits.

    `day`: when the release came out. A nightly build or a fork without a date, and an empty version, count as today's.
    """
    if re.match(r"v?\d+\.\d", version):
        return version_key(version.removeprefix("v")) < version_key(release)
    dated = re.search(r"(?<!\d)(20\d{2})-?([01]\d)-?([0-3]\d)(?!\d)", version)
    return dated is not None and day is not None and "-".join(dated.groups()) < day
