"""Row of the table of a scenario's fields: all that screen, command line, tables, files and links
know about one."""

from __future__ import annotations

import enum
import types
from dataclasses import dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Catalogue = Literal["accelerators", "models", "drafters", "routing presets"]
"""A list of things by id, out of which a field names one."""


class FieldSection(enum.StrEnum):
    """Headings of the sidebar, in its order."""

    MODEL = "Model"
    HARDWARE = "Hardware and placement"
    LOAD = "Batch and context"
    DRAFTER = "Drafter and acceptance"
    ENGINE = "Engine and formats"
    ADVANCED = "Advanced"


@dataclass(frozen=True)
class Flag:
    """An option of the command line that gives the field."""

    name: str
    help: str
    default: str = ""
    """What the command line takes without the option, in words, where it is no value; stated in the
    help."""


@dataclass(frozen=True)
class Widget:
    """Place and kind of a field's control in the sidebar."""

    line: int
    """Of its section, from the top; fields on one line stand side by side."""
    label: str = ""
    """Where it is another than the row's own."""
    help: str = ""
    section: FieldSection | None = None
    """Where it stands under another heading than its subject's."""


@dataclass(frozen=True)
class Told:
    """Part of a field in a report's settings. A line of its own, or a piece of a line that several
    share."""

    line: str
    text: str = "{}"
    unset: str | None = None
    """The piece when the field is not set; None: as elsewhere."""


@dataclass(frozen=True)
class FieldRow:
    """One field of a scenario, as screen, command line, tables, files and links know it."""

    label: str
    section: FieldSection
    """Its subject; what tables list goes by it."""
    unit: str = ""
    short: str = "{}"
    """How a scenario's short name gives its value."""
    unset: str = "not set"
    """What is said when it has no value."""
    flag: str = ""
    """The option of the command line that gives it; empty: none does."""
    help: str = ""
    flag_default: str = ""
    """As `Flag.default`."""
    more_flags: tuple[Flag, ...] = ()
    """Options beside that one, for other ways to write the value."""
    widget: Widget | None = None
    """None: a page or a panel sets it."""
    told: Told | None = None
    """None: a line of its own. Its text is empty where the line says it already, or another part of
    a report does."""
    needed: bool = False
    """Whether a scenario that starts from nothing must settle it: no default suits all."""
    catalogue: Catalogue | None = None
    free_text: bool = False
    """Whether it may also be a text with commas that no list holds."""
    document_of: str = ""
    """The field whose name stands for the document of the user's own that this one holds."""
    shown_until: str = ""
    """Of a packed text, readers see what stands before this sign; empty: all of it."""
    is_private: bool = False
    """Whether it carries something of the user's own: no shared cache may keep that."""
    is_younger: bool = False
    """Whether reports were written before it existed: at its default it is no part of the hash, so
    that theirs hold."""

    name: str = ""
    """This and the rest is taken from the model's field."""
    kind: type[Any] = str
    default: Any = None
    is_required: bool = False
    is_optional: bool = False
    choices: tuple[str, ...] = ()
    range: tuple[float, float] | None = None

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Every option that gives the field, its own first."""
        return (
            (Flag(self.flag, self.help, self.flag_default), *self.more_flags) if self.flag else ()
        )

    def written(self, value: Any) -> str:
        """A value as readers see it."""
        if value is None:
            return self.unset
        if self.shown_until:
            return str(value).partition(self.shown_until)[0]
        return (
            f"{value:,}"
            if isinstance(value, int)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )

    def in_a_name(self, text: str) -> str:
        """Piece of a scenario's short name, where the value reads `text`. Nothing that is not set
        has a unit."""
        pattern = self.short.removesuffix(f" {self.unit}") if text == self.unset else self.short
        return pattern.format(text)

    @property
    def limits(self) -> str:
        """Range in words. Empty where it is no number."""
        bounds = [int(bound) if bound == int(bound) else bound for bound in self.range or ()]
        return " to ".join(f"{bound:,}" for bound in bounds)

    @property
    def line(self) -> str:
        """The label of its line in a report."""
        return self.label if self.told is None else self.told.line

    def piece(self, text: str) -> str:
        """Part of the shared line, where the value reads `text`."""
        piece = self.told or Told(self.label)
        return (
            piece.unset
            if piece.unset is not None and text == self.unset
            else piece.text.format(text)
        )

    @property
    def screen_label(self) -> str:
        """The label of its widget."""
        return (self.widget.label if self.widget is not None else "") or self.label

    @property
    def screen_section(self) -> FieldSection:
        """The heading under which its widget stands."""
        return (self.widget.section if self.widget is not None else None) or self.section


def rows_of(model: type[BaseModel]) -> dict[str, FieldRow]:
    """Table of fields by name. The row in each field's annotation, filled in with the field's own
    type and limits."""
    return {name: _filled_in(name, info) for name, info in model.model_fields.items()}


def _filled_in(name: str, info: FieldInfo) -> FieldRow:
    row = next((entry for entry in info.metadata if isinstance(entry, FieldRow)), None)
    if row is None:
        raise TypeError(f"the field {name} has no FieldRow in its annotation; give it one")
    parts = (
        get_args(info.annotation)
        if get_origin(info.annotation) in (Union, types.UnionType)
        else [info.annotation]
    )
    kinds = [type_ for type_ in parts if type_ is not types.NoneType]
    kind = kinds[0] if isinstance(kinds[0], type) else str
    low = next((entry.ge for entry in info.metadata if isinstance(entry, Ge)), None)
    high = next((entry.le for entry in info.metadata if isinstance(entry, Le)), None)
    if kind in (int, float) and (low is None or high is None):
        raise TypeError(f"the number {name} has no limits; give it Field(ge=..., le=...)")
    return replace(
        row,
        name=name,
        kind=kind,
        default=None if info.is_required() else info.default,
        is_required=info.is_required(),
        is_optional=len(kinds) < len(parts),
        choices=row.choices or tuple(get_args(kinds[0])),
        range=None if low is None or high is None else (low, high),  # type: ignore[arg-type]
    )
