"""Faults that once went unnoticed, planted one by one into a copy of the tree: their tests must
fail, and pass where nothing is planted. `make planted` runs it; tests/house/planted.yaml holds
them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "tests" / "house" / "planted.yaml"
COPIED = ("advisor", "tests")
"""Folders that are copied; links stand for all others."""


@dataclass(frozen=True)
class Plant:
    """One wrong line: `text` of `file` becomes `planted`, and `tests` have to notice."""

    fault: str
    file: str
    text: str
    planted: str
    tests: tuple[str, ...]

    def into(self, source: str) -> str:
        """The source with the fault. Raises ValueError where its text does not stand there once."""
        count = source.count(self.text)
        if count != 1:
            raise ValueError(
                f"{self.fault}: {self.text!r} stands {count} times in {self.file}, expected once; "
                f"plant it anew in {FAULTS.relative_to(ROOT)}"
            )
        return source.replace(self.text, self.planted)


def plants() -> list[Plant]:
    """All faults, in the order of the file."""
    entries = yaml.safe_load(FAULTS.read_text(encoding="utf-8"))
    return [Plant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def copy_to(folder: Path) -> None:
    """The tree, of which code and tests may be changed."""
    for path in ROOT.iterdir():
        if path.name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, folder / path.name, ignore=ignored)
        elif path.name != ".git":
            (folder / path.name).symlink_to(path)


def outcome(folder: Path, tests: Sequence[str]) -> int:
    """pytest's exit status on tests of a copy: 0 all pass, 1 one fails, others: they did not
    run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode


def unnoticed(chosen: Sequence[Plant]) -> Iterator[str]:
    """What is wrong with the faults or their tests, a sentence each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_to(folder)
        tests = list(dict.fromkeys(test for plant in chosen for test in plant.tests))
        if (status := outcome(folder, tests)) != 0:
            yield f"without a fault the tests end with {status}, expected 0: run them by themselves"
        for plant in chosen:
            path = folder / plant.file
            source = path.read_text(encoding="utf-8")
            path.write_text(plant.into(source), encoding="utf-8")
            if (status := outcome(folder, plant.tests)) != 1:
                yield f"{plant.fault}: its tests end with {status}, expected 1 (a failure)"
            path.write_text(source, encoding="utf-8")


def main() -> int:
    """Plant all faults, or those whose name holds a word of the command line."""
    chosen = [plant for plant in plants() if all(word in plant.fault for word in sys.argv[1:])]
    problems = list(unnoticed(chosen))
    print("\n".join(problems) or f"all {len(chosen)} planted faults are noticed")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
