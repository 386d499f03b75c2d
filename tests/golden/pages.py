"""What every page of the app shows: `python -m tests.golden.pages` writes what a test compares.

Texts, labels, tables and what the browser's component is handed, lists of numbers by their length
alone.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from streamlit.testing.v1.element_tree import Block, Element

from tests.pages.app_page import opened

FILE = Path(__file__).parents[1] / "pages" / "pages.txt"
QWEN = {
    "model_id": "qwen3-30b-a3b",
    "drafter_id": "eagle3",
    "acceptance": "2.4@3",
    "hardware_id": "h200-sxm",
}
STATES: dict[str, tuple[str, str, dict[str, str]]] = {
    "serve": ("serve", "", {}),
    "serve, why": ("serve", "Why", {}),
    "serve, one limit": ("serve", "", {"max_tpot_ms": "9", "batch_size": "64"} | QWEN),
    "serve, weights too large": (
        "serve",
        "",
        {"model_id": "deepseek-v3", "hardware_id": "h200-sxm", "n_gpus": "1"},
    ),
    "design": ("design", "", {}),
    "design, batch 16": ("design", "", {"batch_size": "16"} | QWEN),
    "measure": ("measure", "", {}),
    "trust": ("trust", "", {}),
    "serve, simulate": ("serve", "Simulate", {}),
    "serve, sweep": ("serve", "Sweep", {}),
    "share": ("share", "", {}),
    "share, batch 256": ("share", "", {"batch_size": "256"} | QWEN),
}
"""A name : page, tab, parameters of the address."""
MOST_ROWS = 6
"""Rows of a table that are kept; the others are counted."""
MOST_DOTS = 24
"""Records of a list (dots of a plate) from which on the first alone is kept."""
LONGEST = 400
"""Characters of a text without a space (packed draws) that are kept as they are."""


def elements(block: Block) -> Iterator[Element]:
    """The elements of a page in the order in which they stand."""
    for child in block.children.values():
        if isinstance(child, Block):
            yield from elements(child)
        else:
            yield child


def without_bulk(value: Any) -> Any:
    """A value of JSON with lists of numbers, lists of lists and packed bytes replaced by their
    length."""
    if isinstance(value, dict):
        return {key: without_bulk(each) for key, each in value.items()}
    if isinstance(value, list):
        if len(value) > 4 and all(isinstance(each, int | float | list | None) for each in value):
            return f"{len(value)} numbers or lists"
        if len(value) > MOST_DOTS and all(isinstance(each, dict) for each in value):
            return [without_bulk(value[0]), f"{len(value) - 1} more"]
        return [without_bulk(each) for each in value]
    if isinstance(value, str) and len(value) > LONGEST and " " not in value:
        return f"{len(value)} characters"
    return value


def shown(element: Element) -> str:
    """An element's kind and what a reader sees of it."""
    if element.type == "bidi_component":
        data = json.loads(element.proto.json or "null")
        if isinstance(data, dict) and "phrases" in data:  # tests/show/phrases_answer.txt has them
            data = {key: value for key, value in data.items() if key not in ("phrases", "flags")}
        return json.dumps(without_bulk(data), ensure_ascii=False, indent=1, sort_keys=True)
    if element.type == "plotly_chart":
        layout = json.loads(element.proto.spec)["layout"]
        return json.dumps(
            [layout.get("title", {}).get("text"), layout.get("meta")], ensure_ascii=False
        )
    if element.type in ("dataframe", "table"):
        rows = str(element.value.to_csv(index=False)).splitlines()
        return "\n".join([*rows[: MOST_ROWS + 1], f"({len(rows) - 1} rows)"])
    parts = [getattr(element, name, None) for name in ("label", "value", "help")]
    return " | ".join(str(part) for part in parts if part not in (None, "", []))


def pages() -> str:
    """All of STATES, without a store; an element that the first state shows alike is left out of
    the others."""
    text = ""
    in_first: set[str] = set()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, MOE_ADVISOR_STORE=f"{folder}/none.duckdb"),
    ):
        for name, (page, tab, query) in STATES.items():
            lines = [
                f"[{element.type}] {shown(element)}"
                for element in elements(opened(page, tab, **query)._tree)
            ]
            text += "\n".join(
                [f"##### {name}", *(line for line in lines if line not in in_first), "", ""]
            )
            in_first = in_first or set(lines)
    return text.replace(dt.date.today().isoformat(), "TODAY")


if __name__ == "__main__":
    FILE.write_text(pages(), encoding="utf-8")
