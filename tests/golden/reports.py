"""Three reports in Markdown: `python -m tests.golden.reports` writes what a test compares."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from unittest import mock

from advisor.cli import main

FOLDER = Path(__file__).parents[1] / "show" / "reports"
REPORTS = {
    "usual": "qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 2.4@3 --batch 16",
    "served": "deepseek-v3 --gpus 8xH200 --engine sglang --batch 32 --models",
    "limited": (
        "qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 2.4@3 --batch 64 "
        "--max-tpot-ms 0.5"
    ),
}


def report(name: str) -> str:
    """One of REPORTS as the command writes it, without a store."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, MOE_ADVISOR_STORE=f"{folder}/none.duckdb"),
    ):
        path = Path(folder) / "report.md"
        arguments = ["report", *REPORTS[name].split(), "--date", "2026-11-29", "-o", str(path)]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(arguments)
        return path.read_text(encoding="utf-8")


def file(name: str) -> Path:
    """Where a report is kept."""
    return FOLDER / f"{name}.md"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in REPORTS:
        file(each).write_text(report(each), encoding="utf-8")
