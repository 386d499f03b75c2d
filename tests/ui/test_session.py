"""The session's slots: typed, empty until something is put there, dropped again; no value lies beside a slot."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import streamlit as st

from advisor.ui.session import Slot, nothing

UI = Path(__file__).resolve().parents[2] / "advisor" / "ui"


def test_a_slot_is_empty_until_a_value_is_put_there_and_after_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "session_state", {})
    notes: Slot[list[str]] = Slot("_notes", list)
    assert notes.get() == []
    notes.get().append("lost: an empty value is not kept")
    assert notes.get() == []
    notes.put(["kept"])
    assert notes.take() == ["kept"]
    assert notes.get() == []
    assert Slot("_none", nothing).get() is None


def test_every_slot_has_a_key_of_its_own_that_no_widget_could_have() -> None:
    keys = [
        str(node.args[0].value)
        for path in UI.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Slot"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert len(keys) > 20
    assert len(keys) == len(set(keys))
    assert all(key.startswith("_") for key in keys)
