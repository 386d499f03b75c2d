"""Reading the YAML profiles that ship with the package: one file per profile, every constant with
its origin.

A file may name its sources once (`sources: {key: text}`); each `source:` in it is then a key of
that table. An unknown key, a value without a source, and a field that the type does not know are
refused with the file and the field named.
"""

from __future__ import annotations

import difflib
import errno
import io
import itertools
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import yaml
from pydantic import ValidationError

from advisor.prediction import AdvisorError, Frozen, explain

PACKAGE = Path(__file__).resolve().parent
"""The folder `advisor`."""


def data_root(package: Path = PACKAGE) -> Path:
    """Folder of profiles/, measurements/ and app.py. `_data` of an installed package, else the
    checkout around it."""
    installed = package / "_data"
    return installed if installed.is_dir() else package.parent


_folders: tuple[Path, ...] | None = None
"""Folders below which `read_file` opens files; None: everywhere."""


def confine(*folders: Path) -> None:
    """Read a user's files below these folders alone, from here on in this process. Links that lead
    out of them are refused too."""
    global _folders
    _folders = tuple(folder.resolve() for folder in folders)


def _is_reachable(path: Path) -> bool:
    try:
        return _folders is None or any(map(path.resolve().is_relative_to, _folders))
    except (OSError, RuntimeError):  # links that lead in a circle
        return False


def read_file(
    path: Path, limit: int, subject: str = "a file that is read here", instead: str = ""
) -> bytes:
    """The bytes of a regular file of at most `limit` bytes, which messages call `subject`.

    Raises AdvisorError, which names `instead`, when that cannot be. Devices and pipes are refused:
    they need not end.
    """
    display = shown_path(path)
    remedy = instead and f"; {instead}"
    try:
        is_reachable = _is_reachable(path)
        mode = path.stat().st_mode if is_reachable else 0
    except OSError as error:
        raise AdvisorError(f"cannot read {display}: {error.strerror or error}{remedy}") from error
    except ValueError as error:  # a NUL in the path
        raise AdvisorError(f"cannot read {display}: this is no path{remedy}") from error
    if not is_reachable:
        raise AdvisorError(f"cannot read {display}: only files below --folder are read{remedy}")
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or pipe"
        raise AdvisorError(f"{display} is {kind}, not a file{remedy}")
    try:
        with path.open("rb") as file:
            content = read_up_to(file, limit + 1)
    except OSError as error:
        raise AdvisorError(f"cannot read {display}: {error.strerror or error}{remedy}") from error
    if len(content) > limit:
        raise AdvisorError(
            f"{display} has more than {limit:,} bytes; {subject} may have at most that"
        )
    return content


def read_up_to(stream: BinaryIO, size_bytes: int) -> bytes:
    """Read the next bytes of a stream, at most so many, without setting memory aside for all of
    them."""
    content = io.BytesIO()
    while (left := size_bytes - content.tell()) > 0 and (piece := stream.read(min(left, 2**20))):
        content.write(piece)
    return content.getvalue()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it.

    Whoever is stopped, or meets a full disk, leaves the old one as it was. What is no regular file
    (/dev/stdout, a pipe) is written as it is. Raises PermissionError for a file that is read-only,
    OSError for what else cannot be written, a pipe that nobody reads too.
    """
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        _write_into(path, content)
        return
    target = Path(os.path.realpath(path))  # a link goes on to lead to it
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    beside = target.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with beside.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if before is not None:
            beside.chmod(stat.S_IMODE(before.st_mode))
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _write_into(path: Path, content: bytes) -> None:
    """Write to a device or pipe. Raises OSError at once for a pipe that nobody reads, which would
    block for good."""
    try:
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(
                error.errno, "it is a pipe that nobody reads; start its reader first"
            ) from error
        raise
    with os.fdopen(opened, "wb") as stream:
        os.set_blocking(opened, True)
        stream.write(content)


def is_there(path: Path) -> bool:
    """Whether something lies at a path that may be read. False for text that cannot be one (too
    long, with a NUL)."""
    try:
        return _is_reachable(path) and path.exists()
    except (OSError, ValueError):
        return False


def shown_path(path: Path, longest: int = 200) -> str:
    """A path as messages show it: one line, the end of a long one."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(path))
    return text if len(text) <= longest else f"...{text[-longest:]}"


PROFILES = data_root() / "profiles"
MEASUREMENTS = data_root() / "measurements"
Profile = TypeVar("Profile", bound=Frozen)
Read = TypeVar("Read")
_ALIKE = 0.5
"""Least likeness of an id that is offered in place of an unknown one (`difflib`). [-]"""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_made(
    path: Path, parse: Callable[[Any], Read], remedy: str = "run `make validation`"
) -> Read:
    """Read a shipped file of YAML or JSON by `parse`. Raises AdvisorError with the remedy for a
    damaged one."""
    try:
        text = path.read_text(encoding="utf-8")
        return parse(
            json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        raise AdvisorError(f"{_short(path)} cannot be read ({reason}); {remedy}") from error


def profile_ids(kind: str) -> list[str]:
    """Ids of all profiles of one kind (`hardware`, `drafters`, `routing`), sorted. An id is a
    file's stem."""
    return sorted(
        name.removesuffix(".yaml") for name in os.listdir(PROFILES / kind) if name.endswith(".yaml")
    )


def load_profile(
    kind: str, profile_id: str, model: type[Profile], plural: str, listing: str
) -> Profile:
    """The profile `profile_id` of one kind, validated as `model`. Reads that one file.

    Raises AdvisorError for an unknown id (with close matches; `plural` names the kind in the
    message and `listing` says where all ids are printed) and for a file that does not hold a valid
    profile of that id.
    """
    if profile_id not in (ids := profile_ids(kind)):
        raise unknown_id(profile_id, plural, ids, listing)
    profile = read_profile(PROFILES / kind / f"{profile_id}.yaml", model)
    if getattr(profile, "id", profile_id) != profile_id:
        raise AdvisorError(
            f"profiles/{kind}/{profile_id}.yaml: its id must be {profile_id!r}, the name of the "
            "file"
        )
    return profile


def unknown_id(requested: str, plural: str, ids: list[str], listing: str) -> AdvisorError:
    """The error for an id that nothing has: what was given, the closest ids, where to find all of
    them."""
    shortened = requested if len(requested) <= 60 else requested[:57] + "..."
    close = close_ids(requested[:200].lower(), ids)
    hint = f"did you mean {' or '.join(close)}? Else " if close else ""
    return AdvisorError(f"{shortened!r} is not one of the {len(ids)} {plural}; {hint}{listing}")


def close_ids(requested: str, ids: list[str], count: int = 3) -> list[str]:
    """Ids most like a mistyped one, best first: those that it begins, where there are any. Ids with
    its leading letters (`h` of h300) stand before all others.

    Where nothing follows the first word, an id counts as its first word and stands for the others
    that have it: what follows (`-sxm`, `-pcie`) was not asked for. Of equally alike ones the
    nearest number comes first.
    """
    ids = [candidate for candidate in ids if candidate.startswith(requested)] or ids
    words = {
        candidate: candidate if "-" in requested else candidate.partition("-")[0]
        for candidate in ids
    }

    def likeness(candidate: str) -> float:
        return max(
            difflib.SequenceMatcher(None, spelling, requested).ratio()
            for spelling in (candidate, words[candidate])
        )

    def rank(candidate: str) -> tuple[object, ...]:
        away = abs(_number(words[candidate]) - _number(requested))
        return (
            _letters(candidate) != _letters(requested),
            -likeness(candidate),
            away,
            not candidate.endswith("-sxm"),
            candidate,
        )

    best: dict[str, str] = {}
    for candidate in sorted(
        (candidate for candidate in ids if likeness(candidate) >= _ALIKE), key=rank
    ):
        best.setdefault(words[candidate], candidate)
    return list(best.values())[:count]


def _letters(text: str) -> str:
    return "".join(itertools.takewhile(str.isalpha, text))


def _number(text: str) -> int:
    match = re.search(r"\d{1,9}", text)
    return int(match[0]) if match else 0


def read_profile(path: Path, model: type[Profile]) -> Profile:
    """The profile in one file, validated as `model`. Raises AdvisorError naming file and field."""
    content = read_yaml(path)
    if "sources" in model.model_fields:  # a type that lists its sources gets their texts
        content["sources"] = tuple(content.pop("_source_texts"))
    content.pop("_source_texts", None)
    return validate(content, model, path)


def read_yaml(path: Path) -> dict[str, Any]:
    """One file as a mapping, its source keys replaced by their texts (all texts under
    `_source_texts`).

    Raises AdvisorError when the file cannot be read, is not YAML, or holds a value without a known
    source.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except FileNotFoundError as error:
        raise AdvisorError(
            f"{_short(path)}: no such file; restore it from the repository"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AdvisorError(
            f"{_short(path)}: not readable as YAML: {' '.join(str(error).split())[:200]}"
        ) from error
    if not isinstance(content, dict):
        raise AdvisorError(f"{_short(path)}: expected a mapping of fields at the top level")
    sources = content.pop("sources", {})
    if not isinstance(sources, dict) or not all(
        isinstance(text, str) and text for text in sources.values()
    ):
        raise AdvisorError(
            f"{_short(path)}: sources must map keys to texts, as in `sources: {{specs: data "
            "sheet}`"
        )
    resolved = _resolve(content, sources, "", path)
    resolved["_source_texts"] = list(sources.values())
    return resolved


def validate(content: Any, model: type[Profile], path: Path) -> Profile:
    """Check YAML content against a model. Raises AdvisorError naming the file and each wrong
    field."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise AdvisorError(f"{_short(path)}: {explain(error)}") from error


def _resolve(node: Any, sources: dict[str, str], location: str, path: Path) -> Any:
    """`node` with each `source` key replaced by its text. A mapping with a value must have one."""
    if isinstance(node, list):
        return [
            _resolve(child, sources, f"{location}[{index}]", path)
            for index, child in enumerate(node)
        ]
    if not isinstance(node, dict):
        return node
    resolved = {
        key: _resolve(child, sources, f"{location}.{key}".lstrip("."), path)
        for key, child in node.items()
    }
    if "source" in node:
        if node["source"] not in sources:
            declared = ", ".join(sources) or "none are declared"
            source = node["source"]
            raise AdvisorError(
                f"{_short(path)}: {location}.source={source!r} is not a key of `sources` "
                f"({declared}); add it there"
            )
        resolved["source"] = sources[node["source"]]
    elif "value" in node:
        raise AdvisorError(
            f"{_short(path)}: {location} has a value but no source; say where the number comes from"
        )
    return resolved


def _short(path: Path) -> str:
    """The path from `profiles/` on where it lies there. Messages should not show a user's
    folders."""
    return f"profiles/{path.relative_to(PROFILES)}" if path.is_relative_to(PROFILES) else path.name
