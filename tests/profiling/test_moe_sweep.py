"""Verification and plain decoding at the same token counts, with and without LM head and
samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from advisor.profiling import moe_sweep
from advisor.profiling.device import Clock, detect_devices
from advisor.profiling.moe_sweep import measure_verify_parts
from advisor.profiling.plan import SMOKE_MODEL, Block, make_plan, verify_shapes
from advisor.profiling.timing import Context
from tests.profiling.test_plan import CPU, H200

PARTS = ("layers", "layers+head", "layers+head+greedy", "layers+head+random", "layers+head+top_p")
PARAMS: dict[str, Any] = SMOKE_MODEL | {
    "tokens": [1, 8],
    "queries": [1, 4],
    "n_layers": 1,
    "context": 32,
    "samplers": ["greedy", "random", "top_p"],
    "routing": {"name": "independent"},
}


@pytest.fixture
def context() -> Context:
    device = next(device for device in detect_devices() if device.backend == "cpu")
    return Context(device, Clock(device), 3, np.random.default_rng(0))


def measured(context: Context, **changes: Any) -> list[dict[str, Any]]:
    with torch.no_grad():
        rows = measure_verify_parts(Block("parts", "verify_parts", PARAMS | changes, 1.0), context)
    return [row for row in rows if row["op"] == "verify_parts"]


def test_the_same_tokens_are_passed_plainly_and_as_verification(context: Context) -> None:
    rows = measured(context)
    assert {row["status"] for row in rows} == {"ok"}
    shapes = {(row["batch_size"], row["tokens_per_sequence"], row["part"]) for row in rows}
    assert shapes == {(b, q, part) for b, q in ((1, 1), (8, 1), (2, 4)) for part in PARTS}
    assert {row["n_tokens"] for row in rows} == {1, 8}
    assert {row.get("n_draft") for row in rows if row["tokens_per_sequence"] == 4} == {3}
    assert all("n_draft" not in row for row in rows if row["tokens_per_sequence"] == 1)


def test_each_part_does_its_work(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The LM head's product and the samplers are counted while each part runs."""
    done: list[str] = []
    linear = moe_sweep.F.linear
    sample = moe_sweep.sample
    verify = moe_sweep.verify

    def counted(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        done.extend(["head"] * (len(weight) == PARAMS["vocab_size"]))
        return linear(x, weight)

    monkeypatch.setattr(moe_sweep.F, "linear", counted)
    monkeypatch.setattr(
        moe_sweep, "sample", lambda *a: (done.append(f"sample {a[1]}"), sample(*a))[1]
    )
    monkeypatch.setattr(
        moe_sweep, "verify", lambda *a: (done.append(f"verify {a[2]}"), verify(*a))[1]
    )
    with torch.no_grad():
        block = Block("parts", "verify_parts", PARAMS, 1.0)
        stage = moe_sweep.Stage(block, context, 1, (2, 4))
        for batch, queries, kind in ((8, 1, "sample"), (2, 4, "verify")):
            parts = moe_sweep._parts(stage, stage.model.session(batch, queries, 32, 1))
            for part, call in parts.items():
                done.clear()
                call()
                wanted = [] if part == "layers" else ["head"]
                sampler = part.removeprefix("layers+head").removeprefix("+")
                wanted += [f"{kind} {sampler}"] if sampler and part != "layers" else []
                assert done == wanted, part


def test_a_wrong_lm_head_gives_no_time(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    linear = moe_sweep.F.linear

    def wrong(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return linear(x, weight) * (1.05 if len(weight) == PARAMS["vocab_size"] else 1.0)

    monkeypatch.setattr(moe_sweep.F, "linear", wrong)
    rows = measured(context)
    assert rows
    assert all("time_s" not in row and "wrong LM head" in row["notes"] for row in rows)


def test_the_presets_for_accelerators_reach_1024_tokens() -> None:
    for preset in ("quick", "standard", "full"):
        (block,) = make_plan(preset, H200, only=["verify_parts"]).blocks
        counts = {batch * queries for batch, queries in verify_shapes(block.params)}
        assert {1, 1024} <= counts
        plain = {batch for batch, queries in verify_shapes(block.params) if queries == 1}
        assert plain == counts, "every verified token count is measured plainly too"
        assert block.params["samplers"] == ["greedy", "random", "top_p"]
    (block,) = make_plan("full", CPU, only=["verify_parts"]).blocks
    assert 1024 in {batch * queries for batch, queries in verify_shapes(block.params)}
