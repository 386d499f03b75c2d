"""Mutants of a module, by mutmut's operators, as changed source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import (
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    WhitespaceInclusivePositionProvider,
)
from mutmut.node_mutation import (
    mutation_operators,
    operator_arg_removal,
    operator_assignment,
    operator_string,
)

LEAST_HALVED = 1e-6
"""Smaller numbers guard against rounding; half of one guards as well."""
UNTOUCHED_CALLS = {"len", "isinstance", "cast", "Field", "re.compile"}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    function: str
    """Dotted name inside the module; empty for a constant of the module."""
    line: int
    kind: str
    """`value`: an operator, a comparison, a number, a truth value. `plumbing`: an argument, an
    assignment, a text."""
    old: str
    """The first line that changes, stripped."""
    new: str
    lines: range
    """Where the changed node stands."""
    in_body: bool
    """Whether it stands in the body of a function, so that only tests that run these lines can
    notice."""
    source: str
    """The whole module with the change."""

    @property
    def name(self) -> str:
        """What the table of equivalents and a report call it."""
        return f"{self.module}:{self.line} {self.function or 'module'}: {self.old}  =>  {self.new}"


def halved(node: cst.BaseNumber) -> Iterator[cst.BaseNumber]:
    """Half of a number with a point: a step of one leaves 0.05 far behind, and half of a width
    slips through."""
    if isinstance(node, cst.Float) and node.evaluated_value >= LEAST_HALVED:
        yield node.with_changes(value=repr(node.evaluated_value / 2))


def text(node: cst.BaseString) -> Iterator[cst.BaseString]:
    """The first of mutmut's changes of a text; the other two change letters' case."""
    yield from list(operator_string(node))[:1]


OPERATORS = [
    *(
        (kind, text if operator is operator_string else operator)
        for kind, operator in mutation_operators
    ),
    (cst.BaseNumber, halved),
]
STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
PLUMBING = {operator_arg_removal, operator_assignment, text}


@dataclass(frozen=True)
class Found:
    """One change of a node, and where the node stands."""

    node: cst.CSTNode
    changed: cst.CSTNode
    kind: str
    function: str
    where: CodeRange
    lines: range
    in_body: bool


class Finder(cst.CSTVisitor):
    """Collects the changes of a module, without what no test of behaviour can see."""

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.place: list[cst.FunctionDef | cst.ClassDef] = []
        self.statements: list[range] = []
        self.in_parameters = False

    def on_visit(self, node: cst.CSTNode) -> bool:
        if self.skipped(node):
            return False
        if isinstance(node, STATEMENTS):
            self.statements.append(self.own_lines(node))
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.place.append(node)
        if isinstance(node, cst.Parameters):
            self.in_parameters = True
        for type_, operator in OPERATORS:
            for changed in operator(node) if isinstance(node, type_) else ():
                where = self.get_metadata(WhitespaceInclusivePositionProvider, node)
                kind = "plumbing" if operator in PLUMBING else "value"
                in_body = (
                    bool(self.place)
                    and isinstance(self.place[-1], cst.FunctionDef)
                    and not self.in_parameters
                )
                name = ".".join(one.name.value for one in self.place)
                self.found.append(
                    Found(node, changed, kind, name, where, self.statements[-1], in_body)
                )
        return True

    def own_lines(self, node: cst.CSTNode) -> range:
        """Lines of a statement; of one that holds others its head."""
        where = self.get_metadata(PositionProvider, node)
        body = getattr(node, "body", None)
        inner = (
            self.get_metadata(PositionProvider, body, None)
            if isinstance(body, cst.BaseSuite)
            else None
        )
        return range(where.start.line, (inner.start.line if inner else where.end.line) + 1)

    def on_leave(self, node: cst.CSTNode) -> None:
        if self.skipped(node):
            return
        if isinstance(node, STATEMENTS):
            self.statements.pop()
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.place.pop()
        if isinstance(node, cst.Parameters):
            self.in_parameters = False

    def skipped(self, node: cst.CSTNode) -> bool:
        """Types, decorators, imports, documentation, the words of errors, and calls of
        UNTOUCHED_CALLS."""
        if isinstance(
            node,
            cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.Raise | cst.Assert,
        ):
            return True
        if isinstance(node, cst.Call):
            return written(node.func) in UNTOUCHED_CALLS
        if isinstance(node, cst.Expr):
            return isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
        if isinstance(node, cst.Assign | cst.AnnAssign):
            target = node.target if isinstance(node, cst.AnnAssign) else node.targets[0].target
            return isinstance(target, cst.Name) and target.value == "__all__"
        return False


def written(node: cst.CSTNode) -> str:
    """A node as source."""
    return cst.Module([]).code_for_node(node)


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module's source, in the order of the file, no two alike.

    The text of the node is exchanged in the source, which costs a tenth of writing the whole tree
    anew.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    finder = Finder()
    wrapper.visit(finder)
    lines = source.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    made: dict[str, Mutant] = {}
    for one in finder.found:
        start = starts[one.where.start.line - 1] + one.where.start.column
        end = starts[one.where.end.line - 1] + one.where.end.column
        assert source[start:end].split() == written(one.node).split(), (
            "the place of a node is not that of its text"
        )
        after = source[:start] + written(one.changed) + source[end:]
        pairs = enumerate(
            zip(map(str.strip, lines), map(str.strip, after.splitlines()), strict=False), 1
        )
        line, old, new = next(((number, a, b) for number, (a, b) in pairs if a != b), (0, "", ""))
        if line and after not in made:
            made[after] = Mutant(
                module, one.function, line, one.kind, old, new, one.lines, one.in_body, after
            )
    return list(made.values())
