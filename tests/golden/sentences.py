"""Sentences that tests meet, beside those that were reviewed: golden.yaml of the test's folder.

`WRITE_GOLDEN=1 python -m pytest FILE` writes those of the tests that it runs, to be read as a diff.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

TESTS = Path(__file__).parents[1]
NAME = "golden.yaml"
_OF_ONE_RUN = re.compile(r"/\S*?/pytest-of-[^/]+/pytest-\d+(/popen-gw\d+)?/[^/\s`']+")
"""Folders that pytest makes for a test."""


def lines_with(text: str | Iterable[str], words: str) -> list[str]:
    """Sentences of a text's lines that hold some words; of several texts those that do, whole."""
    if not isinstance(text, str):
        return [each for each in text if words in each]
    sentences = [each for line in text.splitlines() for each in re.split(r"(?<=[.!?]) ", line)]
    return [sentence for sentence in sentences if words in sentence]


def reviewed(folder: Path) -> dict[str, dict[str, Any]]:
    """Sentences of a folder's tests by what they are of, by test. Empty where none is held."""
    file = folder / NAME
    return yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}


def without_folders(text: str | list[str]) -> str | list[str]:
    """Texts with FOLDER in place of the one that pytest made."""
    if isinstance(text, str):
        return _OF_ONE_RUN.sub("FOLDER", text)
    return [_OF_ONE_RUN.sub("FOLDER", each) for each in text]


class Golden:
    """Holds a test's sentences against the reviewed ones: `golden(refused=test.error[0].value)`.

    test : `test_file.py::test_name[case]`.
    """

    def __init__(self, folder: Path, test: str) -> None:
        self.folder = folder
        self.test = test
        self.seen: dict[str, Any] = {}

    def __call__(self, **texts: Any) -> None:
        """Each of a name of its own within the test; a text, or a list of them, none empty."""
        assert all(texts.values()), "a sentence that is looked for is not there"
        texts = {name: without_folders(text) for name, text in texts.items()}
        assert all(self.seen.setdefault(*each) == each[1] for each in texts.items()), (
            "two texts of one name: name each"
        )
        if os.environ.get("WRITE_GOLDEN"):
            self._write(texts)
        known = reviewed(self.folder).get(self.test, {})
        held = {name: known.get(name) for name in texts}
        assert texts == held, (
            f"review it: WRITE_GOLDEN=1 python -m pytest {self.folder / self.test}"
        )

    def _write(self, texts: dict[str, Any]) -> None:
        every = reviewed(self.folder)
        every.setdefault(self.test, {}).update(texts)
        content = yaml.safe_dump(dict(sorted(every.items())), width=96, allow_unicode=True)
        (self.folder / NAME).write_text(content, encoding="utf-8")
