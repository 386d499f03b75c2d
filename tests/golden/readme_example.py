"""`python -m tests.golden.readme_example` writes what the examples print now, and the gates, into
README and docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
PAGE = README.parent / "docs/examples.md"
SCENARIO = [
    *("--hardware", "h200-sxm", "--model", "qwen3-30b-a3b", "--drafter", "eagle3"),
    *("--accepted-length", "2.4@3", "--batch", "16"),
]
# Page, command, the line that ends it there, the line that follows its output, and how many lines
# are shown.
EXAMPLES = [
    (
        README,
        [
            "advise",
            "deepseek-ai/DeepSeek-V3",
            "--gpus",
            "8xH200",
            "--engine",
            "sglang",
            "--batch",
            "32",
        ],
        "--engine sglang --batch 32\n",
        "\nWhat you leave open",
        None,
    ),
    (
        PAGE,
        [
            *(
                "schedule",
                "--hardware",
                "h200-sxm",
                "--tp",
                "4",
                "--model",
                "command-a-plus",
                "--weight-dtype",
                "fp8",
            ),
            *(
                "--drafter",
                "eagle3",
                "--accepted-length",
                "2.73@3",
                "--histogram",
                "1:10,32:60,256:30",
            ),
        ],
        "eagle3 --accepted-length 2.73@3 --histogram 1:10,32:60,256:30\n",
        "\n`export --engine vllm|sglang` writes",
        5,
    ),
    (
        PAGE,
        ["design", *SCENARIO, "--tokens", "1e12"],
        "--batch 16 --tokens 1e12\n",
        "\nThe reasoning in one breath",
        6,
    ),
]
BEFORE_TABLE = "that of a formula of four constants:\n\n"
AFTER_TABLE = "\n## Bring your own"
VALIDATION = README.parent / "docs/validation.md"


def validation_table() -> str:
    """The README's share of the first table of docs/validation.md: its head and four rows."""
    lines = VALIDATION.read_text(encoding="utf-8").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| judged |"))
    return "\n".join(lines[first : first + 6])


def main() -> None:
    """Replace each example's output between its command and the paragraph after it, and the table
    of gates."""
    for page, arguments, before, after, shown in EXAMPLES:
        text = page.read_text(encoding="utf-8")
        run = [
            sys.executable,
            "-c",
            "from advisor.cli import main; main()",
            *arguments,
        ]  # under its own name
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        printed = done.stdout.rstrip().splitlines()
        lines = printed if shown is None else [*printed[:shown], "..."]
        example = "\n".join(f"    {line}".rstrip() for line in lines)
        start = text.index(before) + len(before)
        page.write_text(f"{text[:start]}{example}\n{text[text.index(after) :]}", encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    start = text.index(BEFORE_TABLE) + len(BEFORE_TABLE)
    text = f"{text[:start]}{validation_table()}\n{text[text.index(AFTER_TABLE) :]}"
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
