"""`python -m tests.golden.readme_example` writes what the examples print now, and the validation, into the README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
SCENARIO = [
    *("--hardware", "h200-sxm", "--model", "qwen3-30b-a3b", "--drafter", "eagle3"),
    *("--accepted-length", "2.4@3", "--batch", "16"),
]
# Command, the line of the README that ends it, the line that follows its output, and how many lines are shown.
EXAMPLES = [
    (["advise", *SCENARIO], "--accepted-length 2.4@3 --batch 16\n", "\n`curve` prints the grid", None),
    (
        [
            *("schedule", "--hardware", "h200-sxm", "--tp", "4", "--model", "command-a-plus", "--weight-dtype", "fp8"),
            *("--drafter", "eagle3", "--accepted-length", "2.73@3", "--histogram", "1:10,32:60,256:30"),
        ],
        "eagle3 --accepted-length 2.73@3 --histogram 1:10,32:60,256:30\n",
        "\n`export --engine vllm|sglang` writes",
        7,
    ),
    (["design", *SCENARIO, "--tokens", "1e12"], "--batch 16 --tokens 1e12\n", "\nThe reasoning in one breath", 4),
]

BEFORE_TABLE = "so a share is a mean over laboratories:\n\n"
AFTER_TABLE = '\n"Not testable here"'
VALIDATION = README.parent / "docs/validation.md"
TRUSTED = (
    "speedup, known engine class",
    "the same, 90 % of rows within",
    "speedup, borrowed AL",
    "speedup, unknown engine",
    "sign, all rows",
    "80 % band, all rows",
    "round cost, SpecBundle",
    "best K regret, ",
    "plain decode",
)
"""How the rows of docs/validation.md begin that stand in the README, the missed one among them."""


def validation_table() -> str:
    """The README's share of the gates in docs/validation.md, line by line as they stand there."""
    lines = VALIDATION.read_text(encoding="utf-8").splitlines()
    first = lines.index("## Gates") + 2
    wanted = [next(line for line in lines if line.startswith(f"| {start}")) for start in TRUSTED]
    return "\n".join([*lines[first : first + 2], *wanted])


def main() -> None:
    """Replace each example's output between its command and the paragraph after it, and the table of gates."""
    text = README.read_text(encoding="utf-8")
    for arguments, before, after, shown in EXAMPLES:
        run = [sys.executable, "-m", "advisor", *arguments]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        lines = done.stdout.rstrip().splitlines()[:shown]
        example = "\n".join(f"    {line}".rstrip() for line in lines)
        start = text.index(before) + len(before)
        text = f"{text[:start]}{example}\n{text[text.index(after) :]}"
    start = text.index(BEFORE_TABLE) + len(BEFORE_TABLE)
    text = f"{text[:start]}{validation_table()}\n{text[text.index(AFTER_TABLE) :]}"
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
