"""The scenario as a file: a JSON report, of which only the scenario is written and read. docs/scenarios.md."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from advisor.prediction import AdvisorError
from advisor.profiles import read_file, shown_path
from advisor.scenario.scenario import Scenario, build_scenario
from advisor.text import RepeatedKeyError, read_json

SCHEMA_VERSION: Literal[1] = 1
"""Of a JSON report and of a scenario file, which is one without the answer."""
MAX_SCENARIO_BYTES = 16_000_000
"""Largest scenario file or JSON report read: a report with a large config.json has about 2 MB. [B]"""


@dataclass(frozen=True)
class ScenarioFile:
    """Scenario of a file, and the file's own words about it."""

    scenario: Scenario
    date: dt.date | None
    """Date of the report; None in a file that holds a scenario alone."""
    stated_hash: str

    @property
    def note(self) -> str:
        """Says that the file's scenario is not the one it was written with. Empty where it is."""
        if self.stated_hash == self.scenario.hash:
            return ""
        return (
            f"the scenario in the file has the hash {self.scenario.hash}, the file says "
            f"{_plain(self.stated_hash)}: it was edited, or written by another version of the advisor"
        )


def scenario_json(scenario: Scenario) -> str:
    """The scenario as a file's text. `read_scenario` is the inverse."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "scenario_hash": scenario.hash,
        "scenario": scenario.model_dump(mode="json"),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read_scenario(content: bytes) -> ScenarioFile:
    """The scenario of a scenario file, a JSON report, or what a command printed with --json. The rest is left unread.

    Raises AdvisorError saying what the file is instead, or which setting of its scenario cannot be.
    """
    if len(content) > MAX_SCENARIO_BYTES:
        raise AdvisorError(
            f"the file has {len(content):,} bytes; a scenario file or JSON report has at most {MAX_SCENARIO_BYTES:,}"
        )
    try:
        document = read_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise AdvisorError("the file is not text; give a scenario file or a JSON report") from error
    except RepeatedKeyError as error:
        raise AdvisorError(f"{error}; remove one of them") from error
    except ValueError as error:
        raise AdvisorError("the file is not JSON, or is cut off; give a scenario file or a JSON report") from error
    if not isinstance(document, dict) or not isinstance(document.get("scenario"), dict):
        raise AdvisorError(f"the file is {_what_else(document)}; give a scenario file or a JSON report")
    # What commands print with --json has no version; the hash beside the scenario tells it from a cut-out piece.
    is_answer = "schema_version" not in document and "scenario_hash" in document
    if (version := document.get("schema_version")) != SCHEMA_VERSION and not is_answer:
        raise AdvisorError(f"the file has schema_version {repr(version)[:40]}; this advisor reads {SCHEMA_VERSION}")
    for name, value in document["scenario"].items():
        if isinstance(value, bool):
            raise AdvisorError(
                f"{_plain(name)} is {str(value).lower()}; every setting of a scenario is a number or text"
            )
    try:
        scenario = build_scenario(**{str(name): value for name, value in document["scenario"].items()})
    except AdvisorError as error:
        raise AdvisorError(f"the scenario in the file cannot be: {error}") from error
    return ScenarioFile(scenario, _date(document), str(document.get("scenario_hash", "")))


def load_scenario_file(path: Path) -> ScenarioFile:
    """Read a scenario file on disk, as `read_scenario`. Raises AdvisorError, also when it cannot be read."""
    content = read_file(path, MAX_SCENARIO_BYTES, "a scenario file or JSON report", "give a scenario file")
    try:
        return read_scenario(content)
    except AdvisorError as error:
        raise AdvisorError(f"{shown_path(path)}: {error}") from error


def _date(document: dict[str, Any]) -> dt.date | None:
    if (stated := document.get("date")) is None:
        return None
    try:
        return dt.date.fromisoformat(stated)
    except (TypeError, ValueError) as error:
        raise AdvisorError(f"the file's date {_plain(stated)} is not a day, e.g. 2026-11-21") from error


def _what_else(document: Any) -> str:
    if isinstance(document, dict):
        if isinstance(document.get("scenarios"), list):
            return f"a comparison of {len(document['scenarios'])} scenarios, not one scenario"
        if "model_type" in document or "architectures" in document:
            return "a model's config.json, not a scenario: give it as the model"
        if "bandwidth_bytes_per_s" in document:
            return "an accelerator, not a scenario: give it as the accelerator"
    return "JSON without a scenario"


def _plain(value: Any) -> str:
    return repr(str(value)[:40])
