"""What a source file lists: for tests that hold a table to be the only one of its kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def listed_words(source: str) -> Iterator[tuple[int, set[str]]]:
    """Line and words of each list in `source`: a literal with all in it, `dict(...)`, or a text that is split."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set):
            yield node.lineno, {item.value for item in ast.walk(node) if _is_text(item)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            yield node.lineno, {keyword.arg for keyword in node.keywords if keyword.arg}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            text = node.func.value
            yield node.lineno, set(text.value.split()) if isinstance(text, ast.Constant) else set()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
