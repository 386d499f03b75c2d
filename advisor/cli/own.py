"""The user's own models and accelerators, named by path: a config.json or its folder, an
accelerator's JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from advisor.catalog.hardware import (
    MAX_HARDWARE_BYTES,
    boards_named,
    hardware_label,
    hardware_named,
    hardware_slug,
    read_own_hardware,
)
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import checkpoint_name, model_ids, with_quantisation_file
from advisor.cli.output import print_labelled
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.scenario import MAX_CONFIG_BYTES, named_model
from advisor.prediction import AdvisorError
from advisor.profiles import is_there, read_file, shown_path


def model_fields(text: str) -> dict[str, Any]:
    """Fields that a model's id, name or path to its config.json sets. A file is checked while its
    name is known."""
    path = Path(text)
    if not (text.endswith(".json") or is_there(path)):
        return named_model(text)
    name = checkpoint_name(_config_of(path))
    config = read_config(path)
    architecture_from_config(config, name, path.name if path.suffix == ".json" else "config.json")
    return {"model_id": name, "model_config_json": config}


def assume(text: str) -> None:
    """Say on standard error, once a command, what is taken for the user."""
    context = click.get_current_context(silent=True)
    assumptions: set[str] = (
        set() if context is None else context.meta.setdefault("advisor.assumed", set())
    )
    if text not in assumptions:
        assumptions.add(text)
        print_labelled("assumed", [text], err=True)


def beginning(ids: Callable[[], Sequence[str]], before: str = "") -> Callable[..., list[str]]:
    """Ids that a shell offers for a typed beginning, after a number of GPUs where `before` asks for
    one."""

    def offered(_: click.Context, __: click.Parameter, typed: str) -> list[str]:
        start = re.match(before, typed)
        return [
            f"{start[0]}{name}" for name in ids() if start and f"{start[0]}{name}".startswith(typed)
        ]

    return offered


def hardware_asked(text: str) -> str:
    """Id of an accelerator by the name typed. Of several boards, says which is taken."""
    if text in hardware_ids():
        return text
    hardware_id = hardware_named(text)
    others = [name for name in boards_named(text) if name != hardware_id]
    if others:
        assume(f"{text} is {hardware_label(hardware_id)} (others: {', '.join(others)})")
    return hardware_id


def hardware_fields(text: str) -> dict[str, Any]:
    """The fields that an accelerator's id, or a path to the user's own, sets."""
    path = Path(text)
    if not (text.endswith(".json") or is_there(path)):
        return {"hardware_id": load_hardware(hardware_asked(text)).id, "hardware_json": None}
    document = _read_text(
        path, MAX_HARDWARE_BYTES, "an accelerator's file", "an accelerator's id or JSON file"
    )
    return {
        "hardware_id": hardware_slug(read_own_hardware(document).name),
        "hardware_json": document,
    }


def own_fields(name: str, text: str, folder: Path) -> dict[str, Any]:
    """The fields that a path in a file sets where it leads to the user's own model or accelerator.
    Empty for an id.

    name : model_id or hardware_id. folder : of the file, from which its paths are seen.
    """
    of_model = name == "model_id"
    if text in (model_ids() if of_model else hardware_ids()):
        return {}
    if not (text.endswith(".json") or is_there(folder / text)):
        return {}
    return model_fields(str(folder / text)) if of_model else hardware_fields(str(folder / text))


def read_config(path: Path) -> str:
    """Text of a config.json, or of the one in a folder, with the formats of the file beside it.

    The latter is hf_quant_config.json.

    Raises AdvisorError when it is absent, huge or not text.
    """
    path = _config_of(path)
    text = _read_text(
        path, MAX_CONFIG_BYTES, "a config.json", "a model id or a path to a config.json"
    )
    return str(with_quantisation_file(path, text))


def _config_of(path: Path) -> Path:
    return path / "config.json" if is_there(path) and path.is_dir() else path


def _read_text(path: Path, limit: int, what: str, instead: str) -> str:
    try:
        return read_file(path, limit, what, f"give {instead}").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{shown_path(path)} is not a text file; give {instead}") from error
