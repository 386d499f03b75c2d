"""Docstrings that can be read without the signature: first sentence, units, errors and source, read
with ast.

A first sentence names the thing or starts with
a verb ("Whether ..." names a truth value), has one clause and ends in the first paragraph. In the
physics every number with a unit says it in brackets, `[-]` where it has none, and a function that
computes one names where its formula is from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "advisor"
PHYSICS = (
    *(
        "physics.laws",
        "physics.touched_experts",
        "physics.expert_ranks",
        "physics.routing_trace",
        "physics.step",
    ),
    *(
        "physics.acceptance",
        "physics.draft",
        "physics.attention",
        "physics.memory",
        "physics.bands",
        "physics.quality",
    ),
    *("predict.prefill", "predict.spend", "predict.curve"),
)
"""Files, and one folder, whose functions state units and limits."""
LONGEST = 100
"""Letters of a first sentence, its unit in brackets apart."""
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|eq|vs|et al|cf)\.$")
HEADLESS = {
    *(
        "What",
        "Which",
        "Where",
        "When",
        "How",
        "Why",
        "Who",
        "That",
        "Those",
        "These",
        "This",
        "Its",
        "Their",
        "It",
    ),
    *(
        "They",
        "Such",
        "Likewise",
        "As",
        "Of",
        "In",
        "On",
        "At",
        "By",
        "From",
        "With",
        "Without",
        "Between",
        "For",
    ),
}
"""Words that begin a clause without a noun, point to something that a reader has not read, or
continue a sentence."""
REPEATING = ("The same", "The other", "The rest", "The others")
NUMBERS = re.compile(r"\b(float|Array|Floats|ArrayLike|NDArray\[np\.float64\])\b")
UNIT = re.compile(r"\[(?:-|1/s|[A-Za-zµ%$]+(?:[ /][A-Za-z]+)*)\]")
"""`[-]`, `[s]`, `[B/s]`, `[nat per token]`; a shape such as [nB, nK] or [draws] is none."""
SHAPES = {"rows", "draws", "n", "nB", "nK", "names", "p"}
UNIT_IN_NAME = re.compile(
    r"(_s|_w|_bytes|_bytes_per_\w+|_tokens|_params|_flops?|_per_s\w*|_usd_per_\w+|_log_sd|_share|_ratio|_sizes?)$"
)
SOURCED = re.compile(
    r"\[[A-Z][\w. "
    r"-]+\]|arXiv:|`laws\.|`advisor\.|docs/decisions/|[Oo]wn\s(derivation|choice)|[Dd]efinition"
    r"|[Mm]easured|[Aa]ssumed|[Ff]itted|Source:|`[a-z_]+\.[a-z_]+`"
)
"""A named paper, a law, a decision, another function, or how the number came about."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one docstring."""

    module: str
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}: {self.what}"


def documented(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Public functions, classes and methods of public classes by dotted name; what a function
    defines is its own."""
    todo: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    while todo:
        before, body = todo.pop(0)
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield before + node.name, node
                if isinstance(node, ast.ClassDef):
                    todo.append((f"{before}{node.name}.", node.body))


def first_sentence(docstring: str) -> str | None:
    """The first sentence without its full stop; None where the first paragraph has none."""
    line = " ".join(docstring.partition("\n\n")[0].split())
    for end in re.finditer(r"[.?](?=$|\s)", line):
        if not ABBREVIATED.search(line[: end.end()]):
            return line[: end.start()]
    return None


def opening_faults(name: str, docstring: str) -> Iterator[str]:
    """What is wrong with the first sentence of the docstring of `name`."""
    sentence = first_sentence(docstring)
    if sentence is None:
        yield "the first sentence does not end with a full stop"
        return
    if len(sentence) > LONGEST:
        yield f"the first sentence has {len(sentence)} letters, more than {LONGEST}"
    word = re.split(r"[\s,:]", sentence)[0]
    if word in HEADLESS or sentence.startswith(REPEATING):
        yield f"the first sentence begins with {word!r}: name the thing, or start with a verb"
    elif not (word[0].isupper() or word[0] in "(0123456789") and not is_a_name(word):
        yield f"the first sentence begins with {word!r}, in lower case"
    if re.search(r";(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", sentence):
        yield "the first sentence has more than one clause"
    if words_of(sentence) <= words_of(name.rpartition(".")[2].replace("_", " ")):
        yield "the first sentence repeats the name"


def is_a_name(word: str) -> bool:
    """Whether a word is written as it is wherever it stands: a file, a symbol, a product such as
    vLLM."""
    return bool(re.search(r"[A-Z._/()\d]", word)) and not word.startswith("`")


def words_of(text: str) -> set[str]:
    """The words of a text without articles, in the singular."""
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Za-z]+", text)} - {
        "the",
        "a",
        "an",
        "of",
    }


def raised(function: ast.FunctionDef) -> set[str]:
    """Names of the errors that leave a function's own body; those of functions inside it are
    theirs."""
    found: set[str] = set()
    todo: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset()) for node in function.body]
    while todo:
        node, caught = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", "")
            found |= set() if caught & {name, "Exception"} else {name}
        inside = caught
        if isinstance(node, ast.Try):
            types = (handler.type for handler in node.handlers if handler.type is not None)
            inside |= {
                name.id for one in types for name in ast.walk(one) if isinstance(name, ast.Name)
            }
            todo += [(after, caught) for after in [*node.handlers, *node.orelse, *node.finalbody]]
            todo += [(before, inside) for before in node.body]
        else:
            todo += [(child, caught) for child in ast.iter_child_nodes(node)]
    return {name for name in found if name[:1].isupper()}


def is_command(function: ast.FunctionDef) -> bool:
    """Whether click shows the docstring as help, where a user reads the message and not the error's
    name."""
    names = (one.func if isinstance(one, ast.Call) else one for one in function.decorator_list)
    return any(
        ast.unparse(name).endswith((".command", ".group", "command", "group")) for name in names
    )


def number_faults(function: ast.FunctionDef, docstring: str) -> Iterator[str]:
    """What a function of the physics leaves out of its numbers: units of result and parameters, and
    the source."""
    in_lines = docstring
    docstring = "\n\n".join(" ".join(part.split()) for part in docstring.split("\n\n"))
    units = [found for found in UNIT.findall(docstring) if found[1:-1] not in SHAPES]
    returns = ast.unparse(function.returns) if function.returns is not None else ""
    gives_numbers = bool(NUMBERS.search(returns))
    if gives_numbers and not units:
        yield "the result has no unit in brackets"
    for one in [*function.args.args, *function.args.kwonlyargs]:
        annotation = ast.unparse(one.annotation) if one.annotation is not None else ""
        if (
            NUMBERS.search(annotation)
            and not UNIT_IN_NAME.search(one.arg)
            and not unit_of(one.arg, docstring)
            and not unit_of(one.arg, in_lines)
        ):
            yield f"the parameter {one.arg} has no unit in brackets"
    is_property = any(ast.unparse(one).endswith("property") for one in function.decorator_list)
    if gives_numbers and not is_property and not SOURCED.search(docstring):
        yield "no source of the formula is named"


def unit_of(parameter: str, docstring: str) -> bool:
    """Whether the entry or sentence of a docstring that names a parameter has a unit."""
    pieces = re.split(r"\n(?=\S)|\n\s*\n", docstring)
    return any(
        re.search(rf"\b{re.escape(parameter)}\b", piece) and UNIT.search(piece) for piece in pieces
    )


def faults_of(module: str, source: str) -> list[Fault]:
    """All faults of the docstrings in one module."""
    found = [
        Fault(module, f"line {n}", "has [1]: write [-], or name the reference")
        for n in numbered(source)
    ]
    for name, node in documented(ast.parse(source)):
        docstring = ast.get_docstring(node) or ""
        if not docstring:
            found.append(Fault(module, name, "no docstring"))
            continue
        found += [Fault(module, name, what) for what in opening_faults(name, docstring)]
        if isinstance(node, ast.FunctionDef):
            unsaid = {
                error for error in raised(node) if error not in docstring and not is_command(node)
            }
            found += [
                Fault(module, name, f"does not say that it raises {error}")
                for error in sorted(unsaid)
            ]
            if module.startswith(PHYSICS):
                found += [Fault(module, name, what) for what in number_faults(node, docstring)]
    return found


def numbered(source: str) -> list[int]:
    """Lines of texts (docstrings, and those beside constants) with [1], which may mean a reference
    or no unit."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines = enumerate(node.value.value.splitlines(), start=node.lineno)
            found += [line for line, text in lines if re.search(r"(?<!\w)\[1\]", text)]
    return found


def all_faults() -> list[Fault]:
    """Faults of every module of advisor/."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found += faults_of(module or "advisor", path.read_text(encoding="utf-8"))
    return found


def test_docstrings_can_be_read_without_the_signature() -> None:
    found = [str(fault) for fault in all_faults()]
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)


def test_a_planted_number_in_brackets_is_seen() -> None:
    """`[-]` and `[MoESD]`, so that no mark means two things."""
    source = (
        '"""Share, by [1].\n\nMore. [1]\n"""\nx = row[1]\n"""Shape [-], of row[1], [1, 2]."""\n'
    )
    assert [fault.name for fault in faults_of("physics.laws.shares", source)] == [
        "line 1",
        "line 3",
    ]


GOOD = '''
def rate(moved_bytes: float, time_s: float) -> float:
    """Mean rate of a transfer. [B/s]

    Definition: bytes over time. Raises ValueError for no time.
    """
    if not time_s:
        raise ValueError("time_s is 0")
    return moved_bytes / time_s
'''
TITLE = "Mean rate of a transfer."


def test_a_good_docstring_has_no_fault_and_outside_the_physics_numbers_need_no_unit() -> None:
    assert not faults_of("physics.laws.links", GOOD)
    assert not faults_of(
        "cli.links", GOOD.replace(" [B/s]", "").replace("Definition: bytes", "Bytes")
    )


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        (TITLE, "What moves in a time.", "begins with 'What'"),
        (TITLE, "The same of a link.", "begins with 'The'"),
        (TITLE, "mean rate of a transfer.", "in lower case"),
        (TITLE, "Mean rate of a transfer", "does not end with a full stop"),
        (TITLE, "Mean rate of a transfer; 0 for none.", "more than one clause"),
        (TITLE, f"Mean rate of a transfer {'and another ' * 8}.", "letters, more than 100"),
        (TITLE, "The rate.", "repeats the name"),
        ("Raises ValueError for", "Not for", "does not say that it raises ValueError"),
        ("[B/s]", "", "the result has no unit"),
        ("moved_bytes: float", "moved: float", "the parameter moved has no unit"),
        ("Definition: bytes", "Bytes", "no source"),
    ],
)
def test_a_planted_fault_is_seen(good: str, bad: str, fault: str) -> None:
    assert good in GOOD
    found = faults_of("physics.laws.links", GOOD.replace(good, bad))
    assert any(fault in str(one) for one in found), found


def test_an_error_that_the_function_itself_catches_is_none_of_its_own() -> None:
    body = """    try:
        raise ValueError
    except ValueError:
        raise KeyError from None
"""
    source = 'def pick():\n    """Choose the first."""\n' + body
    assert [fault.what for fault in faults_of("cli.pick", source)] == [
        "does not say that it raises KeyError"
    ]
    assert not faults_of("cli.pick", f"@cli.command()\n{source}")


def test_a_missing_docstring_is_seen_and_a_private_function_needs_none() -> None:
    source = (
        "def spin():\n    pass\n\ndef _spin():\n    pass\n\nclass Top:\n    def spin(self):\n   "
        "     pass\n"
    )
    assert [fault.name for fault in faults_of("cli.top", source)] == ["spin", "Top", "Top.spin"]
