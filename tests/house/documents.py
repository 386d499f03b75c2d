"""What a document names, looked up where the program keeps it: pages and tabs of the app, commands
and options, make's targets, files, functions, links."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from advisor.cli import root
from advisor.profiling.command import parser as device_parser
from advisor.profiling.engine.command import parser as engine_parser
from advisor.ui import PAGES
from advisor.ui.session import EXPLORE_AS, SERVE_TABS
from tests.golden.terminal import ROOT

DOCS = ROOT / "docs"
SCREENS = {name.capitalize() for name in PAGES}
TABS = {*SERVE_TABS, *EXPLORE_AS}
FOREIGN = {"--from", "--wheel"}
"""Options of uv."""
FIRST_SCREEN = {"speedup over batch"}
"""Places of a page that are no tab."""
_PLACES = re.compile(
    r"(?:^In the app: |^On screen: |\| )([A-Z][\w,; ]+?)(?:\. |\.$| \|$| \()", flags=re.M
)
_PAGE = re.compile(r"\bpages? ([A-Z]\w+)")
_TAB = re.compile(
    r"\btabs? ([A-Z][a-z ]*?)(?: of ([A-Z]\w+))?(?=[,.;:|)]| (?:starts|says|holds)|$)"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_COMMAND = re.compile(r"(?:`|^    (?:\$ )?)(?:python -m )?advisor ([a-z][a-z-]+)", flags=re.M)
_TARGET = re.compile(r"(?:`|^    )make ([a-z][a-z-]+)", flags=re.M)
_FILE = re.compile(
    r"(?<![\w/.-])(?:advisor|docs|measurements|profiles|studies|tests|tools)/[\w./*-]*[\w*]/?"
)
_NAME = re.compile(r"`(?:python -m )?((?:advisor|studies|tests|tools)(?:\.\w+)+)[`( ]")
_LAW = re.compile(r"`laws\.(\w+)`")
_DEFINED = re.compile(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", flags=re.M)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


@cache
def commands() -> dict[str, click.Command]:
    """Every command of the command line by name."""
    context = click.Context(root)
    found = {name: root.get_command(context, name) for name in root.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@cache
def options() -> frozenset[str]:
    """Every long option that a command or a profiler takes."""
    parameters = [option for command in commands().values() for option in command.params]
    inner = [
        option
        for command in commands().values()
        if isinstance(command, click.Group)
        for child in command.commands.values()
        for option in child.params
    ]
    ours = [
        flag for option in [*parameters, *inner] for flag in (*option.opts, *option.secondary_opts)
    ]
    parsers = (device_parser(), engine_parser())
    theirs = [
        flag for each in parsers for action in each._actions for flag in action.option_strings
    ]
    return frozenset([*ours, *theirs, "--help", "--version"])


@cache
def known_elsewhere() -> str:
    """Text that holds the options of engines and of our own tools."""
    folders = ("profiles", "advisor/answers", "advisor/show/phrases", "studies", "tools", "tests")
    files = [
        file
        for folder in folders
        for end in ("*.py", "*.yaml")
        for file in (ROOT / folder).rglob(end)
        if file.name not in ("test_documents.py", "documents.py")
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@cache
def other_projects() -> str:
    """Text of the profiles, which cite other projects' files."""
    files = sorted((ROOT / "profiles").rglob("*.yaml"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def faults(text: str, folder: Path = DOCS) -> Iterator[str]:
    """What a text in `folder` names that does not exist."""
    yield from _screen_faults(text)
    for option in sorted(set(_OPTION.findall(text)) - options() - FOREIGN):
        if not re.search(rf"{option}(?![\w-])", known_elsewhere()):
            yield f"no option {option}"
    for command in sorted(set(_COMMAND.findall(text)) - commands().keys()):
        yield f"no command {command}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in sorted(set(_TARGET.findall(text))):
        if not re.search(rf"^{target}:", makefile, flags=re.M):
            yield f"no target {target}"
    yield from _name_faults(text)
    for name, anchor in _LINK.findall(text):
        file = (folder / name) if name else None
        if file is not None and not file.exists():
            yield f"no page {name}"
        elif anchor and file is not None and anchor[1:] not in anchors(file):
            yield f"no heading {name}{anchor}"


def _screen_faults(text: str) -> Iterator[str]:
    for page in _PAGE.findall(text):
        if page not in SCREENS:
            yield f"no page {page} in the app"
    for tab, page in _TAB.findall(text):
        if tab.strip() not in TABS or (page and page not in SCREENS):
            yield f"no tab {tab} {page}".rstrip()
    for place in _PLACES.findall(text):
        names = [name.removeprefix("tab ") for name in re.split(r"[,;] | and ", place)]
        if names[0] in SCREENS or "tab " in place or place.startswith(("Lab", "Data")):
            for name in names:
                if name not in {*SCREENS, *TABS, *FIRST_SCREEN}:
                    yield f"no place {name} in {place}"


def _name_faults(text: str) -> Iterator[str]:
    for file in sorted(set(_FILE.findall(text))):
        is_there = any(ROOT.glob(file)) or any((ROOT / "tests").glob(file))
        is_example = re.search(r"[A-Z]{3,}|my-gpu|h200", file)
        if not (is_there or is_example or file in other_projects()):
            yield f"no file {file}"
    for name in sorted(set(_NAME.findall(text))):
        if not is_importable(name):
            yield f"no {name}"
    for law in sorted(set(_LAW.findall(text))):
        if not is_importable(f"advisor.physics.laws.{law}"):
            yield f"no law {law}"
    for file, function in _DEFINED.findall(text):
        if not (ROOT / file).exists() or function not in definitions(ROOT / file):
            yield f"no {function} in {file}"


def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ImportError:
        return bool(module) and is_importable(module) and has(module, attribute)
    return True


def has(module: str, attribute: str) -> bool:
    """Whether a module, or a class in one, has an attribute."""
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ImportError:
        owner, _, name = module.rpartition(".")
        return hasattr(getattr(importlib.import_module(owner), name), attribute)


def definitions(file: Path) -> set[str]:
    """Functions and classes at the top of a file."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@cache
def anchors(file: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def by_hand(text: str) -> str:
    """A page without what the program writes into it: blocks, and outputs of examples."""
    text = re.sub(r"<!-- [^>]*-->\n.*?<!-- end[^>]*-->\n?", "", text, flags=re.S)
    return re.sub(
        r"^(    \$ advisor [^\n]+\n)(?:    [^\n]*\n|\n(?=    ))*", r"\1", text, flags=re.M
    )


def sentences(text: str) -> list[int]:
    """Words of each sentence of a page's prose: code, tables and headings left out."""
    prose = re.sub(
        r"^(?:    .*|\|.*|#.*|!\[.*|\[[^]]+\]: .*|<!--.*)$", "", by_hand(text), flags=re.M
    )
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    pieces = re.split(r"\n\s*\n|\n(?=- |\d\. )|(?<=[.?!:])(?=\s)", prose)
    words = [len(re.findall(r"[\w`*\[(±-][^\s]*", piece)) for piece in pieces]
    return [count for count in words if count > 2]
