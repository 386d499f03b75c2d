"""The README's worked example is what the command prints, and its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from advisor.cli import main
from tests.golden.counts import COUNTS, Count, store_is_usable
from tests.golden.readme_example import validation_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Arguments of each `python -m advisor ...` line of the README, continuation lines joined, comments dropped."""
    joined = re.sub(r"\s*#[^\n]*", "", README.replace("\\\n", " "))
    found = re.findall(r"python -m advisor ([^\n`]+)", joined)
    return [shlex.split(line) for line in found]


def test_the_worked_example_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    example = next(arguments for arguments in commands() if arguments[:2] == ["advise", "deepseek-ai/DeepSeek-V3"])
    with pytest.raises(SystemExit):
        main(example)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    shown = [line.strip() for line in README.splitlines()]
    missing = [line for line in printed if line.strip() not in shown]
    assert not missing, "the README's example is stale"


def test_the_validation_table_is_the_one_of_the_validation() -> None:
    assert validation_table() in README, "run: python -m tests.golden.readme_example"


@pytest.mark.parametrize(
    "arguments", [a for a in commands() if a[0] in ("advise", "curve") and "..." not in a], ids=str
)
def test_every_full_command_of_the_readme_runs(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize("count", COUNTS, ids=lambda count: f"{count.file}: {count.sentence}")
def test_a_number_of_things_is_the_number_there_is(count: Count) -> None:
    if count.stored and not store_is_usable():
        pytest.skip("no store of the kernel tables, or an old one; run `make store`")
    text = (ROOT / count.file).read_text(encoding="utf-8")
    assert count.place(text)[1] == count.now(), "run `make documents`"


def test_a_stale_number_is_rewritten_and_nothing_else() -> None:
    count = Count("README.md", "reads {} formats (as listed)", lambda: "17")
    text = "It reads 9\nformats (as\nlisted), and 9 more."
    assert count.rewritten(text) == "It reads 17\nformats (as\nlisted), and 9 more."


@pytest.mark.parametrize("text", ["", "reads 9 formats, reads 9 formats"])
def test_a_sentence_that_is_gone_or_there_twice_is_no_count(text: str) -> None:
    with pytest.raises(LookupError, match="once is wanted"):
        Count("README.md", "reads {} formats", lambda: "9").place(text)


WRITTEN = {"validation.md", "runtime-k-validation.md", "cli.md", "sources.md"}
"""Pages of docs/ that programs write whole."""
COUNTED = re.compile(
    r"\b(?:\d[\d,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty)(?:\s+\w+)?\s+"
    r"(?:formats|accelerators|models|drafters|presets|readers|commands|curves|datasets|tests)\b"
)


def by_hand(file: str, text: str) -> list[str]:
    """Numbers of things in a page that no entry of COUNTS writes."""
    places = [count.place(text).span() for count in COUNTS if count.file == file]
    return [
        found[0]
        for found in COUNTED.finditer(text)
        if not any(start < found.end() and found.start() < end for start, end in places)
    ]


def test_no_number_of_things_is_written_by_hand() -> None:
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if path.name not in WRITTEN)]
    left = {page: by_hand(page, (ROOT / page).read_text(encoding="utf-8")) for page in pages}
    assert not {page: found for page, found in left.items() if found}, "add it to COUNTS in tests/golden/counts.py"


def test_a_number_written_by_hand_is_seen() -> None:
    planted = "It knows 37 known accelerators and four\nreaders."
    assert by_hand("docs/tour.md", planted) == ["37 known accelerators", "four\nreaders"]
