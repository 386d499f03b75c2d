"""How big and how plain the code is: `python -m tests.house.counters` prints it, `--lower` lowers
the budgets to it.

Nodes are those of the AST without docstrings, contexts and operators, so that neither layout nor
comments move them. Budgets (budgets.yaml) stand by room beside the figures of version 0.3; they
only fall.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BUDGETS = Path(__file__).with_name("budgets.yaml")
HEAVY_NODES = 60
"""Nodes above which a simple statement is heavy. [-]"""
SAYING_WORDS = 3
"""Words from which a text counts as one. [-]"""
SPEAKING_ROOMS = {"show", "cli", "ui", "text"}
"""Rooms that may build text."""
EMPTY_NAMES = frozenset(
    (
        *("found", "one", "own", "said", "told", "asked", "given"),
        *("kept", "made", "shown", "named", "which", "whose", "it"),
    )
)
"""Words that say nothing as the name of a local."""
BY_ROOM = ("nodes", "heavy", "packed", "empty_names", "text_below_show")
OVERALL = ("text_read_back", "js_tokens", "asserts_on_text")
_UNCOUNTED = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
_COMPOUND = (
    *(ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
_OF_TEXT = re.compile(
    r"text|said|told|note|warning|problem|sentence|title|verdict|because|reason|detail|decision"
    r"|words|remark|message|headline|summary"
)
_CUTS = {
    *("startswith", "endswith", "removeprefix", "removesuffix"),
    *("partition", "rpartition", "split"),
}
_JS_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
_JS_TOKEN = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|[A-Za-z_$][\w$]*|\d[\w.]*"
    r"|=>|===|!==|[<>=!]=|&&|\|\||\?\?|\.\.\.|[^\s\w]"
)


def size(node: ast.AST) -> int:
    """Nodes of a tree."""
    return sum(not isinstance(each, _UNCOUNTED) for each in ast.walk(node))


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree with each text that stands alone as a statement taken out, in place."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            code = [statement for statement in body if not _is_text_alone(statement)]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _is_text_alone(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def words(node: ast.AST) -> int:
    """Words of a literal text, an f-string's fields as one each; 0 of what has no space."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        return 0
    return len(re.findall(r"[A-Za-z]{2,}", text)) if " " in text else 0


def builds_text(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns text and builds a sentence; those of its errors do not count."""
    if function.returns is None or not re.search(r"\bstr\b", ast.unparse(function.returns)):
        return False
    open_nodes: list[ast.AST] = list(function.body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Raise):
            continue
        if words(node) >= SAYING_WORDS:
            return True
        open_nodes += ast.iter_child_nodes(node)
    return False


def heavy_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Simple statements of more than HEAVY_NODES nodes."""
    for node in ast.walk(tree):
        is_simple = isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND)
        if is_simple and size(node) > HEAVY_NODES:
            yield node


def packed_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """`a, b = x, y`, a tuple unpacked from a generator, a walrus outside a condition."""
    conditions = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.While))
        for part in ast.walk(node.test)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, (ast.Tuple, ast.GeneratorExp))
        ):
            yield node
        if isinstance(node, ast.NamedExpr) and id(node) not in conditions:
            yield node


def empty_names(tree: ast.Module) -> Iterator[ast.AST]:
    """Locals whose name says nothing, where they are bound."""
    for node in ast.walk(tree):
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if is_bound and node.id in EMPTY_NAMES:
            yield node


def texts_read_back(tree: ast.Module) -> Iterator[ast.AST]:
    """What is called like a text, tested for a word, cut by one or cut after a letter: candidates,
    to be reviewed."""
    for node in ast.walk(tree):
        if _tests_for_a_word(node) or _cuts_by_a_word(node) or _cuts_a_letter(node):
            yield node


def _tests_for_a_word(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.In, ast.NotIn))
        and _has_letters(node.left)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.comparators[0], (ast.Name, ast.Attribute))
        and bool(_OF_TEXT.search(ast.unparse(node.comparators[0])))
    )


def _cuts_by_a_word(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CUTS
        and bool(_OF_TEXT.search(ast.unparse(node.func.value)))
        and any(_has_letters(part) for argument in node.args for part in ast.walk(argument))
    )


def _cuts_a_letter(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Slice)
        and isinstance(node.slice.upper, ast.Constant)
        and node.slice.upper.value == 1
        and bool(_OF_TEXT.search(ast.unparse(node.value)))
    )


def _has_letters(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(re.search("[A-Za-z]{3}", node.value))
    )


def room_of(path: Path) -> str:
    """The room of a file of advisor/: its folder, or its own name in the root."""
    parts = path.relative_to(ROOT / "advisor").parts
    return parts[0] if len(parts) > 1 else path.stem


def trees(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    """Each file of a folder of the project and its tree without docstrings."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path, without_docstrings(ast.parse(path.read_text(encoding="utf-8")))


def by_room() -> dict[str, Counter[str]]:
    """Counts of BY_ROOM for each room of advisor/."""
    counts: dict[str, Counter[str]] = {}
    for path, tree in trees("advisor"):
        room = room_of(path)
        count = counts.setdefault(room, Counter())
        count["nodes"] += size(tree)
        count["heavy"] += _length(heavy_statements(tree))
        count["packed"] += _length(packed_statements(tree))
        count["empty_names"] += _length(empty_names(tree))
        if room not in SPEAKING_ROOMS:
            functions = (
                node
                for node in ast.walk(tree)
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
            count["text_below_show"] += sum(map(builds_text, functions))
    return counts


def read_back_sites() -> Counter[str]:
    """Candidates of text read back by file and expression, without their lines."""
    return Counter(
        f"{path.relative_to(ROOT / 'advisor')}: {ast.unparse(node)}"
        for path, tree in trees("advisor")
        for node in texts_read_back(tree)
    )


def js_tokens(text: str) -> int:
    """Tokens of JavaScript without its comments."""
    return len(_JS_TOKEN.findall(_JS_COMMENT.sub("", text)))


def overall() -> dict[str, int]:
    """Counts of OVERALL."""
    scripts = (ROOT / "advisor").rglob("*.js")
    asserts = sum(
        isinstance(node, ast.Assert)
        and any(words(part) >= SAYING_WORDS for part in ast.walk(node.test))
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    return {
        "text_read_back": sum(read_back_sites().values()),
        "js_tokens": sum(js_tokens(path.read_text(encoding="utf-8")) for path in scripts),
        "asserts_on_text": asserts,
    }


def _length(values: Iterable[object]) -> int:
    return sum(1 for _ in values)


def budgets() -> dict[str, dict[str, dict[str, int]]]:
    """Budgets: `rooms` by room and counter, `overall`, and both of version 0.3."""
    loaded: dict[str, dict[str, dict[str, int]]] = yaml.safe_load(
        BUDGETS.read_text(encoding="utf-8")
    )
    return loaded


def lowered() -> str:
    """The file of budgets with each at today's count where that is lower."""
    budget = budgets()
    for room, count in by_room().items():
        limits = budget["rooms"][room]
        budget["rooms"][room] = {name: min(limits[name], count[name]) for name in BY_ROOM}
    for name, count in overall().items():
        budget["overall"]["budget"][name] = min(budget["overall"]["budget"][name], count)
    return yaml.safe_dump(budget, sort_keys=False, default_flow_style=None)


def main() -> None:
    """Print the counts of each room beside its budget."""
    if "--lower" in sys.argv:
        BUDGETS.write_text(lowered(), encoding="utf-8")
    limits = budgets()
    totals: Counter[str] = Counter()
    for room, count in sorted(by_room().items()):
        totals.update(count)
        columns = (f"{name} {count[name]:,} of {limits['rooms'][room][name]:,}" for name in BY_ROOM)
        print(f"{room:12}", ", ".join(columns))
    print(f"{'all':12}", ", ".join(f"{name} {totals[name]:,}" for name in BY_ROOM))
    for name, count in overall().items():
        print(f"{name} {count:,} of {limits['overall']['budget'][name]:,}")


if __name__ == "__main__":
    main()
