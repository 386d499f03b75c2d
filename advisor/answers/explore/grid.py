"""What a sweep computes: every combination of the listed settings, in parts that are computed one
by one."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from advisor import __version__
from advisor.predict.scenario_fields import FIELDS, MAX_BATCH
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES, read_file, shown_path

MAX_SCENARIOS = 20_000_000
"""Batches times combinations that one sweep may ask for. [-]"""
CURVES_PER_PART = 64
"""Combinations, each with all its batches, in one part of the result: what is lost when a worker
is. [-]"""
MAX_BYTES = 1_000_000
_CASES = "cases"
_OWN = {"model_id": "model_config_json", "hardware_id": "hardware_json"}
"""Settings that may name a file of the user's own, and where its content then stands."""
_PROFILE_FILES = ("*.yaml", "*.json", "*.csv")
Settings = Mapping[str, Any]
"""Fields of a scenario by name, the batch apart."""


@dataclass(frozen=True)
class SweepPlan:
    """Every combination of `cases` and `axes`, each at all `batches`."""

    cases: tuple[Settings, ...]
    """Settings that belong together, e.g. a model with its placement; one empty case where none are
    listed."""
    axes: Mapping[str, tuple[Any, ...]]
    """Values of every other setting, one or several."""
    batches: tuple[int, ...]
    own: Mapping[tuple[str, str], Settings] = field(default_factory=dict)
    """What a setting of `own_named` and its text in the plan stand for: the user's own model or
    accelerator."""

    def own_named(self, read: Callable[[str, str], Settings]) -> SweepPlan:
        """The plan with the user's own models and accelerators, by file and content. `read` gives a
        path's fields."""
        listed = [
            *self.axes.items(),
            *((name, (value,)) for case in self.cases for name, value in case.items()),
        ]
        settings_by_text: dict[tuple[str, str], Settings] = {}
        for name, values in listed:
            for text in values if name in _OWN else ():
                if fields := read(name, str(text)):
                    digest = hashlib.sha256(str(fields[_OWN[name]]).encode()).hexdigest()[:6]
                    settings_by_text[name, text] = {
                        **fields,
                        name: f"own-{fields[name].removeprefix('own-')}-{digest}",
                    }
        return replace(self, own=settings_by_text)

    @property
    def n_curves(self) -> int:
        """Combinations, the batch apart. [-]"""
        return len(self.cases) * math.prod(len(values) for values in self.axes.values())

    @property
    def n_scenarios(self) -> int:
        """Combinations. [-]"""
        return self.n_curves * len(self.batches)

    @property
    def n_parts(self) -> int:
        """Parts of the result. [-]"""
        return math.ceil(self.n_curves / CURVES_PER_PART)

    def part(self, index: int) -> tuple[Settings, ...]:
        """The combinations of one part, in the order of the whole: the last axis changes first."""
        first = index * CURVES_PER_PART
        return tuple(
            map(self._combination, range(first, min(first + CURVES_PER_PART, self.n_curves)))
        )

    def _combination(self, index: int) -> Settings:
        settings: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            index, place = divmod(index, len(values))
            settings[name] = values[place]
        settings = {**self.cases[index], **settings}
        for name in _OWN.keys() & settings.keys():
            settings |= self.own.get((name, settings[name]), {})
        return settings

    @property
    def digest(self) -> str:
        """Twelve hex digits of question and constants: parts of equal ones fit. The axes count in
        their order."""
        question = {"cases": self.cases, "axes": list(self.axes.items()), "batches": self.batches}
        if self.own:
            question["own"] = sorted(map(str, self.own.items()))
        versions = [__version__, _constants_sha256(PROFILES)]
        return hashlib.sha256(
            json.dumps([question, versions], sort_keys=True).encode()
        ).hexdigest()[:12]

    @property
    def text(self) -> str:
        """The plan as YAML, which `read_plan` reads back."""
        cases = [dict(case) for case in self.cases if case]
        axes = {
            name: values[0] if len(values) == 1 else list(values)
            for name, values in self.axes.items()
        }
        content = {**({_CASES: cases} if cases else {}), **axes, "batch_size": list(self.batches)}
        return yaml.safe_dump(
            content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
        )


def made_by() -> dict[str, str]:
    """Release and constants by which rows are computed here. Every part of a sweep states them."""
    return {"release": __version__, "constants": _constants_sha256(PROFILES)[:12]}


def _constants_sha256(folder: Path) -> str:
    """Of the paths and contents of every profile below a folder."""
    files = (path for kind in _PROFILE_FILES for path in folder.rglob(kind))
    whole = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in files):
        whole.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def load_plan(path: Path) -> SweepPlan:
    """Read a plan from a file, as `read_plan`. Raises AdvisorError, also when it cannot be read."""
    text = read_file(path, MAX_BYTES, "a sweep's file", "give a YAML file of settings").decode(
        "utf-8", "replace"
    )
    try:
        return read_plan(text)
    except AdvisorError as error:
        raise AdvisorError(f"{shown_path(path)}: {error}") from error


def read_plan(text: str) -> SweepPlan:
    """Read a plan from YAML.

    Scenario settings by name, each one value or a list, and `cases` of settings that go together.
    Raises AdvisorError for what is no such file, an unknown setting, one given twice, or more than
    MAX_SCENARIOS.
    """
    content = _mapping(text)
    cases = content.pop(_CASES, [{}])
    if not (isinstance(cases, list) and cases and all(isinstance(case, dict) for case in cases)):
        raise AdvisorError(
            "cases: expected a list of settings that go together, e.g. - {model_id: qwen3-30b-a3b}"
        )
    batches = _batches(content.pop("batch_size", None))
    _check_names([*content, *(name for case in cases for name in case)])
    for name in content.keys() & {name for case in cases for name in case}:
        raise AdvisorError(f"{name} stands both in cases and beside them; leave it in one place")
    axes = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in content.items()
    }
    for name, values in (
        *axes.items(),
        *((name, (value,)) for case in cases for name, value in case.items()),
    ):
        if not values:
            raise AdvisorError(f"{name}: the list is empty; give at least one value")
        if not all(
            value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool))
            for value in values
        ):
            raise AdvisorError(
                f"{name}: expected a number, a text or a list of them (lists stand beside cases)"
            )
        if any(isinstance(value, str) and not value.isprintable() for value in values):
            raise AdvisorError(
                f"{name}: a text holds characters that cannot be shown; write it anew"
            )
        if len(set(values)) < len(values):
            raise AdvisorError(f"{name}: duplicate value")
    if len({frozenset(case.items()) for case in cases}) < len(cases):
        raise AdvisorError("cases: duplicate case")
    plan = SweepPlan(tuple(cases), axes, batches)
    if plan.n_scenarios > MAX_SCENARIOS:
        raise AdvisorError(
            f"the sweep asks for {plan.n_scenarios:,} scenarios; at most {MAX_SCENARIOS:,} are "
            "computed"
        )
    return plan


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which the plain loader keeps the last in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{key} is given twice; leave one")
        return dict(super().construct_mapping(node, deep))


def _mapping(text: str) -> dict[str, Any]:
    try:
        content = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise AdvisorError(f"not readable as YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(content, dict):
        raise AdvisorError("expected settings by name, e.g. `batch_size: [1, 16, 64]`")
    return {str(name): value for name, value in content.items()}


def _batches(value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    if (
        value is None
        or not values
        or not all(isinstance(batch, int) and not isinstance(batch, bool) for batch in values)
    ):
        raise AdvisorError("batch_size: expected whole numbers, e.g. [1, 4, 16, 64]")
    if wrong := [batch for batch in values if not 1 <= batch <= MAX_BATCH]:
        raise AdvisorError(
            f"batch_size: {str(wrong[0])[:40]} is out of range; give 1 to {MAX_BATCH:,}"
        )
    if len(set(values)) < len(values):
        raise AdvisorError("batch_size: duplicate value")
    return tuple(values)


def _check_names(names: Sequence[str]) -> None:
    swept = [name for name, row in FIELDS.items() if row.flag and not row.is_private]
    for name in names:
        if name == "batch_size":
            raise AdvisorError("batch_size stands beside cases, not in one")
        if name not in swept:
            raise AdvisorError(f"{name!r} is no setting of a sweep; there are {', '.join(swept)}")
