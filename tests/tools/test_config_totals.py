"""`make test-configs` without transformers: what is asked, what counts as off, and that its data
file is in step."""

from __future__ import annotations

import ast

import pytest
import yaml

from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.physics.architecture import parameter_counts
from tools.config_totals.__main__ import (
    CATALOGUE,
    THEIR_SIDE,
    compared,
    default_lines,
    merged,
    questions,
)

KNOWN = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))
OURS = parameter_counts(load_model("qwen3-30b-a3b"))


def line(
    total: float = 1.0, routed: float = 1.0, known: dict[str, object] | None = None
) -> tuple[str, bool]:
    theirs = {"class": "Theirs", "total": OURS.total / total, "routed": OURS.routed / routed}
    found = compared("qwen3-30b-a3b", OURS, theirs, known or {})
    return found.cells[-1], found.fault


@pytest.mark.parametrize(
    ("total", "routed", "fault"),
    [(1.0, 1.0, False), (1.003, 1.0, False), (0.98, 1.0, True), (1.0, 1.01, True)],
)
def test_a_count_that_is_off_is_a_fault(total: float, routed: float, fault: bool) -> None:
    said, found = line(total, routed)
    assert found is fault
    assert ("OFF" in said) is fault


def test_a_known_difference_is_told_and_counts_once_it_moves() -> None:
    known = {"because": "identity experts", "total": 0.75}
    assert line(0.75, known=known) == ("identity experts", False)
    assert line(1.0, known=known)[1]


def test_a_model_that_transformers_cannot_build_is_named_and_no_fault() -> None:
    found = compared("x", OURS, {"error": "LookupError: unknown"}, {})
    assert (found.cells[-1], found.fault) == ("LookupError: unknown", False)
    assert compared("x", OURS, {"error": "gone"}, {"because": "known", "total": 0.5}).fault, (
        "nothing left to know"
    )


def test_every_shipped_model_is_asked_about_and_changes_say_why() -> None:
    asked = questions(KNOWN["asked"])
    assert list(asked) == list(model_ids())
    assert all(config["model_type"] for config in asked.values())
    assert asked["kimi-k2"]["model_type"] == "deepseek_v3"
    assert asked["dbrx"]["attn_config"].keys() > {"rope_theta"}, "the block's own keys stay"
    for entry in (*KNOWN["asked"].values(), *KNOWN["differs"].values()):
        assert len(entry["because"]) > 20
    assert {*KNOWN["asked"], *KNOWN["differs"]} <= set(model_ids())


def test_a_default_config_that_is_off_needs_a_reason() -> None:
    config = model_profile("qwen3-30b-a3b").config
    theirs = {"class": "Theirs", "total": OURS.total / 1.02, "config": dict(config)}
    (off,), n_read = default_lines({"qwen3_moe": theirs, "blt": {"error": "TypeError"}}, {})
    assert (off.cells[-1], off.fault, n_read) == ("OFF", True, 1)
    assert not default_lines({"qwen3_moe": theirs}, {"qwen3_moe": "known"})[0][0].fault
    unknown = theirs | {"config": {**config, "model_type": "qwen9"}}
    assert not default_lines({"qwen9": unknown}, {})[0][0].fault, (
        "the reader says that it does not know the type"
    )
    assert default_lines({"qwen3_moe": theirs | {"total": OURS.total}}, {}) == ([], 1)


def test_blocks_are_merged_and_values_replaced() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "d": None}) == {
        "a": {"b": 4, "c": 2},
        "d": None,
    }


def test_their_side_imports_nothing_of_ours() -> None:
    nodes = list(ast.walk(ast.parse(THEIR_SIDE.read_text(encoding="utf-8"))))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not any(name.split(".")[0] in ("advisor", "tools") for name in named)
