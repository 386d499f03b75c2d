"""What commands print at 80 and 120 columns, numbers left out: `python -m tests.golden.terminal` writes the pages."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from unittest import mock

from advisor.cli import main

FOLDER = Path(__file__).resolve().parents[1] / "cli" / "terminal"
COLUMNS = (80, 120)
_OF = "--gpus 8xH200 --model deepseek-v3 --drafter mtp --engine vllm"
_RUNS = f"tests/fixtures/terminal/runs.csv {_OF}"
_TWO = "tests/fixtures/terminal/two.csv --gpus 8xH200 --model deepseek-v3"
COMMANDS = (
    "--help",
    "advise deepseek-ai/DeepSeek-V3 --gpus 8xH200 --engine sglang --batch 32",
    "advise qwen3-30b-a3b --gpus 1xH200 --drafter none",
    "schedule qwen3-30b-a3b --gpus 1xH200 --accepted-length 2.4@3",
    "explore gpt-oss-20b gpt-oss-120b --gpus 1xH200",
    "explore qwen3-30b-a3b --gpus 1xH200 --vary engine=vllm,sglang",
    "advise --help",
    "advise deepseek-ai/DeepSeek-V3 --gpus 8xH200 --batch 32 -v",
    "design --gpus 1xB200 --batch 64 --target-total 40B",
    "explore --models all --gpus 8xH200",
    f"fit {_RUNS}",
    f"validate {_RUNS}",
    f"diagnose {_TWO}",
    "ingest tests/fixtures/terminal/runs.csv",
    "advise qwen3-30b-a3b --gpus 1xH200 --batch 256 --plain-sweep tests/fixtures/terminal/plain.csv",
    f"ingest {_TWO} --engine vllm --drafter mtp",
)


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def printed(command: str) -> str:
    """Standard output and error of a command, one after the other."""
    out, err = Terminal(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
        main(command.split())
    return out.getvalue() + err.getvalue()


def page(columns: int) -> str:
    """All commands as a terminal of that width shows them, a # for each number."""
    with mock.patch.dict(os.environ, COLUMNS=str(columns), NO_COLOR="1"):
        shown = "".join(f"$ advisor {command}\n{printed(command)}\n" for command in COMMANDS)
    return re.sub(r" *(?<![\w.-])[0-9][0-9.,]*", " #", shown)


def file(columns: int) -> Path:
    """Where the page of a width is kept."""
    return FOLDER / f"{columns}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for width in COLUMNS:
        file(width).write_text(page(width), encoding="utf-8")
