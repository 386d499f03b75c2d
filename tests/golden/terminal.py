"""What commands print at 80 and 120 columns, digit by digit: `python -m tests.golden.terminal`
writes the pages."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from advisor.cli import main

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "cli" / "terminal"
COLUMNS = (80, 120)
_DEEPSEEK = "--gpus 8xH200 --model deepseek-v3 --drafter mtp --engine vllm"
_QWEN = "qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 2.4@3"
_RUNS = f"tests/fixtures/terminal/runs.csv {_DEEPSEEK}"
_TWO = "tests/fixtures/terminal/two.csv --gpus 8xH200 --model deepseek-v3"
_INGEST = "tests/fixtures/ingest"
_OWN = "--gpus 1xH200 --model qwen3-30b-a3b --drafter eagle3 --engine vllm"
BOTH_WIDTHS = (
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
    (
        "advise qwen3-30b-a3b --gpus 1xH200 --batch 256 --plain-sweep "
        "tests/fixtures/terminal/plain.csv"
    ),
    f"ingest {_TWO} --engine vllm --drafter mtp",
)
"""Printed at each of COLUMNS."""
COMMANDS = (
    *BOTH_WIDTHS,
    (
        "advise gpt-oss-120b --gpus 4xH100 --engine sglang --batch 64 --drafter eagle3 "
        "--accepted-length 2.3@3"
    ),
    f"advise {_QWEN} --batch 1",
    f"advise {_QWEN} --batch 512 --context 8k",
    f"advise {_QWEN} --batch 4096 --context 32k",
    f"advise {_QWEN} --max-tpot-ms 9",
    f"advise {_QWEN} --max-tpot-ms 0.01",
    "advise qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 1.3@3 --batch 512",
    "advise qwen3-30b-a3b --gpus 1xH200 --drafter eagle3 --accepted-length 1.9@3 --batch 256 -v",
    "advise deepseek-v3 --gpus 1xH200",
    "advise qwen3-30b-a3b --gpus 8xMI300X --batch 32 --drafter eagle3 --accepted-length 2.4@3",
    "advise command-a --gpus 4xH200 --weight-dtype fp8 --drafter eagle3 --accepted-length 2.73@3",
    "advise gpt-oss-20b --gpus 1xB200 --engine trtllm --batch 128",
    "advise kimi-k2 --gpus 8xB200 --batch 16",
    "advise qwen3-235b-a22b --gpus 8xH100 --engine vllm --engine-version 0.24.0 --batch 300",
    (
        "advise mixtral-8x7b --gpus 2xA100 --drafter eagle3 --accepted-length 2.2@3 --batch 8 "
        "--context 4k"
    ),
    f"advise {_QWEN} --refit nowhere.refit",
    f"explain {_QWEN} --batch 16 --k 3",
    "explain deepseek-v3 --gpus 8xH200 --batch 32 --no-nearby",
    "schedule deepseek-v3 --gpus 8xH200 --engine sglang",
    "schedule gpt-oss-120b --gpus 4xH100 --drafter eagle3 --accepted-length 2.3@3",
    "schedule glm-4.5 --gpus 8xB200 --engine sglang",
    "export deepseek-v3 --gpus 8xH200 --engine sglang --output out/sglang",
    f"export {_QWEN} --engine vllm --output out/vllm --draft-model a/b",
    f"simulate {_QWEN} --iterations 200 --requests 40",
    f"curve {_QWEN} --batches 1,8,64 --k 0,1,3,5",
    f"explore {_QWEN} --vary context=1024,8192 --vary batch=1,64",
    "explore deepseek-v3 --vary gpus=8xH200,8xB200 --vary batch=1,8,64,256",
    "explore --models all --gpus 8xH200 --users 64 --max-tpot-ms 20",
    "design --gpus 1xH200 --batch 16 --target-total 30B --drafter eagle3 --accepted-length 2.4@3",
    "design --gpus 8xH200 --batch 256 --target-total 200B",
    "expert-ranks deepseek-v3 --gpus 8xH200 --ep 8 --batch 64",
    f"ingest {_INGEST}/vllm_serve_constructed.jsonl",
    f"ingest {_INGEST}/sglang_serving_constructed.jsonl {_OWN}",
    f"ingest {_INGEST}/kernel_table_constructed.csv",
    f"fit tests/fixtures/terminal/plain.csv {_OWN} --accepted-length 2.4@3",
    f"predict tests/fixtures/terminal/runs.csv {_DEEPSEEK}",
    f"diagnose tests/fixtures/diagnosis/honest.csv {_OWN} --all",
    "diagnose tests/fixtures/diagnosis/misconfigured.txt --hardware h200-sxm --tp 1",
    f"diagnose --without 52ms --with 61ms --k 3 --batch 64 {_DEEPSEEK}",
    "diagnose tests/fixtures/diagnosis/mismeasured.jsonl --hardware h200-sxm --tp 1",
    f"acceptance {_INGEST}/aiperf_0.13.0_reduced.json",
    "models",
    "hardware",
    "presets",
    "examples",
)


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def printed(command: str) -> str:
    """Standard output and error of a command, one after the other."""
    out = Terminal()
    err = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        main(command.split())
    return out.getvalue() + err.getvalue()


@contextlib.contextmanager
def in_a_folder(columns: int) -> Iterator[None]:
    """An empty folder that sees the fixtures, and a terminal of that width."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, COLUMNS=str(columns), NO_COLOR="1"),
    ):
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        with contextlib.chdir(folder):
            yield


def page(columns: int) -> str:
    """All commands as a terminal of that width shows them."""
    with in_a_folder(columns):
        return "".join(
            f"$ advisor {command}\n{printed(command)}\n"
            for command in (COMMANDS if columns == COLUMNS[0] else BOTH_WIDTHS)
        )


def file(columns: int) -> Path:
    """Where the page of a width is kept."""
    return FOLDER / f"{columns}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for width in COLUMNS:
        file(width).write_text(page(width), encoding="utf-8")
