"""Typed, bounded access to the keys of a config.json, with errors that name key, value, expectation
and remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from advisor.prediction import AdvisorError
from advisor.text import RepeatedKeyError, read_json

MAX_FILE_BYTES = 8_000_000
"""The largest published config.json files (per-layer quantisation lists) stay below 2 MB."""
MAX_LAYERS = 2_000
MAX_HEADS = 100_000
MAX_EXPERTS = 1_000_000
MAX_WIDTH = 10_000_000
MAX_VOCABULARY = 100_000_000
MAX_CONTEXT = 10**12
_CORRECT = "correct the file or download it again"


def shown(value: object) -> str:
    """A short, one-line rendering of a bad value."""
    if isinstance(value, (dict, list)):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value)} entries"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """Keys of one configuration object. `where` is how messages name it; `read` are the keys that
    were looked up."""

    def __init__(self, values: Mapping[str, Any], where: str = "config.json") -> None:
        self.values = values
        self.where = where
        self.read: set[str] = set()
        self._blocks: dict[str, Fields] = {}

    def fail(self, key: str, expected: str, remedy: str = _CORRECT) -> NoReturn:
        """Raise AdvisorError on the value found at `key`."""
        raise AdvisorError(
            f"{self.where}: {key} is {shown(self.values.get(key))}, expected {expected}; {remedy}"
        )

    def refuse(self, problem: str) -> NoReturn:
        """Raise AdvisorError on the file as a whole."""
        raise AdvisorError(f"{self.where}: {problem}")

    def find(self, *keys: str) -> str | None:
        """The first of `keys` that is present and not null."""
        self.read.update(keys)
        return next((key for key in keys if self.values.get(key) is not None), None)

    def get(self, *keys: str) -> Any:
        """The raw value of the first key present and not null, else None."""
        key = self.find(*keys)
        return None if key is None else self.values[key]

    def _checked(self, key: str, value: object, minimum: int, maximum: int, item: str = "") -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            expected = f"a whole number from {minimum} to {maximum}"
            raise AdvisorError(
                f"{self.where}: {item or key} is {shown(value)}, expected {expected}; {_CORRECT}"
            )
        return value

    def optional_count(self, *keys: str, minimum: int = 0, maximum: int = MAX_WIDTH) -> int | None:
        """A whole number under the first key present, or None. Raises AdvisorError outside
        [minimum, maximum]."""
        key = self.find(*keys)
        return None if key is None else self._checked(key, self.values[key], minimum, maximum)

    def count(self, *keys: str, minimum: int = 1, maximum: int = MAX_WIDTH) -> int:
        """A required whole number. Raises AdvisorError when it is missing or outside [minimum,
        maximum]."""
        value = self.optional_count(*keys, minimum=minimum, maximum=maximum)
        if value is None:
            self.refuse(
                f"{keys[0]} is missing, expected a whole number from {minimum} to {maximum}"
                + (f" (also accepted: {', '.join(keys[1:])})" if len(keys) > 1 else "")
                + "; add it, or download the model's complete config.json"
            )
        return value

    def collapsed(
        self, *keys: str, minimum: int, maximum: int, warnings: list[str], n_layers: int
    ) -> int | None:
        """Whole number, absent or not (`optional_count`), or the first entry of a per-layer list.

        A warning says where the entries differ. A list of two is the [text, vision] pair of
        ERNIE-4.5-VL: the text value counts.
        """
        key = self.find(*keys)
        if key is None:
            return None
        value = self.values[key]
        if not isinstance(value, list):
            return self._checked(key, value, minimum, maximum)
        entries = self.integers(key, minimum=minimum, maximum=maximum)
        if len(entries) not in (n_layers, 2):
            self.fail(key, f"a whole number or a list of {n_layers} entries, one per layer")
        if len(entries) == n_layers and len(set(entries)) > 1:
            warnings.append(
                f"{key} differs between layers; the first entry, {entries[0]}, is used for all"
            )
        return entries[0]

    def flag(self, *keys: str, default: bool = False) -> bool:
        """A boolean. Raises AdvisorError on anything else but null."""
        key = self.find(*keys)
        if key is None:
            return default
        value = self.values[key]
        if not isinstance(value, bool):
            self.fail(key, "true or false")
        return value

    def sequence(
        self, key: str, length: int | None = None, at_least: int | None = None
    ) -> list[Any]:
        """A list, of `length` entries or `at_least` so many. Raises AdvisorError."""
        value = self.values.get(key)
        if not isinstance(value, list):
            self.fail(
                key,
                "a list" + (f" of {length} entries, one per layer" if length is not None else ""),
            )
        if length is not None and len(value) != length:
            self.fail(key, f"a list of {length} entries, one per layer")
        if at_least is not None and len(value) < at_least:
            self.fail(key, f"a list of at least {at_least} entries, one per layer")
        if len(value) > 2 * MAX_LAYERS:
            self.fail(key, f"a list of at most {2 * MAX_LAYERS} entries")
        return value

    def integers(
        self, key: str, *, minimum: int = 0, maximum: int = MAX_WIDTH, length: int | None = None
    ) -> list[int]:
        """A list of whole numbers. Raises AdvisorError naming the bad entry."""
        values = self.sequence(key, length)
        return [
            self._checked(key, v, minimum, maximum, item=f"{key}[{i}]")
            for i, v in enumerate(values)
        ]

    def block(self, key: str) -> Fields | None:
        """A nested object, or None when the key is absent. Raises AdvisorError on anything else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(key, "an object")
        if key not in self._blocks:
            self._blocks[key] = Fields(value, f"{self.where}, {key}")
        return self._blocks[key]

    def text(self, key: str) -> str:
        """A string, "" when absent. Raises AdvisorError on anything else."""
        value = self.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(key, "a text")
        return value


_SIGNATURES = {
    b"GGUF": "a GGUF weight file",
    b"PK\x03\x04": "a zip archive or PyTorch checkpoint",
    b"\x1f\x8b": "a gzip archive",
    b"\x80\x02": "a pickled checkpoint",
}


def parse_json(content: str | bytes, where: str = "config.json") -> dict[str, Any]:
    """The top-level object of a JSON text, which messages call `where`. Raises AdvisorError, with
    line and column."""
    advice = "give the config.json of the model's Hugging Face repository"

    def wrong(problem: str) -> AdvisorError:
        return AdvisorError(f"{where}: {problem}, expected a JSON text; {advice}")

    if isinstance(content, bytes):
        for signature, meaning in _SIGNATURES.items():
            if content.startswith(signature):
                raise wrong(f"this is {meaning}")
    if len(content) > MAX_FILE_BYTES:
        raise AdvisorError(
            f"{where}: the file has {len(content)} bytes, expected at most {MAX_FILE_BYTES}; "
            f"{advice}, not a weight index or tokenizer file"
        )
    try:
        text = (
            content.decode("utf-8-sig")
            if isinstance(content, bytes)
            else content.removeprefix("\ufeff")
        )
    except UnicodeDecodeError as error:
        raise wrong(f"byte {error.start} is not UTF-8 text") from None
    try:
        values = read_json(text)
    except RepeatedKeyError as error:
        raise AdvisorError(
            f"{where}: {error}; expected each key once; remove one of them"
        ) from None
    except json.JSONDecodeError as error:
        raise AdvisorError(
            f"{where}: line {error.lineno}, column {error.colno}: {error.msg}; expected a JSON "
            f"text; {advice}"
        ) from None
    except ValueError as error:  # Python refuses integers of more than 4300 digits
        if isinstance(error.__cause__, RecursionError):
            raise AdvisorError(
                f"{where}: objects or lists are nested too deeply, expected a few levels; {advice}"
            ) from None
        raise wrong("a number has thousands of digits") from None
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"the single value {shown(values)}"
        raise AdvisorError(
            f"{where}: the file holds {kind}, expected an object in braces; {advice}"
        )
    return values
