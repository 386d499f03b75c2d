"""Outputs of docs/advisor.ipynb: `python -m tests.golden.notebook` runs its cells and writes what
they print."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs/advisor.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the printed output of each cell of code, names of one cell known in the
    next."""
    known: dict[str, Any] = {}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), known)
        text = printed.getvalue().splitlines(keepends=True)
        output = {"name": "stdout", "output_type": "stream", "text": text}
        cell |= {"execution_count": number, "outputs": [output] if text else []}
    return notebook


def written(notebook: dict[str, Any]) -> str:
    """The notebook's text."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(
        written(executed(json.loads(PAGE.read_text(encoding="utf-8")))), encoding="utf-8"
    )
