"""`python -m tests.golden.readme_example` puts what the worked example prints now into the README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
ARGUMENTS = [
    *("advise", "--hardware", "h200-sxm", "--model", "qwen3-30b-a3b", "--drafter", "eagle3"),
    *("--accepted-length", "2.4@3", "--batch", "16"),
]


def main() -> None:
    """Replace the lines between the command and the paragraph after it."""
    done = subprocess.run([sys.executable, "-m", "advisor", *ARGUMENTS], capture_output=True, text=True, check=True)
    example = "\n".join(f"    {line}".rstrip() for line in done.stdout.rstrip().splitlines())
    text = README.read_text(encoding="utf-8")
    start, end = text.index("    At batch 16 on"), text.index("`curve` prints the grid")
    README.write_text(f"{text[:start]}{example}\n\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
