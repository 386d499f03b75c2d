"""The pace rule: what a slow first block, a wrong estimate and a skipped block do to the rest of a
sweep.

The samplers emit the model's distribution: what is timed in verify_parts is what an engine
computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from advisor.profiling import runner
from advisor.profiling.device import detect_devices
from advisor.profiling.plan import Block, Plan
from advisor.profiling.results import ResultFolder, State
from advisor.profiling.timing import TOP_P, Pace, random_chances, sample, top_p_chances, verify

PRICES = {"bandwidth": 1.0, "launch": 1.0, "moe": 60.0, "rounds": 40.0, "gemm": 10.0}


@dataclass
class Sweep:
    """A run whose blocks take the time the test gives, on a clock that only they move. [s]"""

    seconds: dict[str, float]
    now: float = 0.0
    tried: list[str] = field(default_factory=list)

    def run_block(self, block: Block, _context: Any) -> tuple[str, list[dict[str, Any]], str]:
        self.tried.append(block.name)
        self.now += self.seconds.get(block.name, block.estimate_s)
        return "ok", [{"block": block.name, "op": block.op, "status": "ok", "time_s": 1.0}], ""


def measured(
    sweep: Sweep, budget_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, Any]]:
    """What became of each block."""
    clock = SimpleNamespace(
        monotonic=lambda: sweep.now,
        time=lambda: sweep.now,
        strftime=lambda *_: "",
        gmtime=lambda: 0,
    )
    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(runner, "run_block", sweep.run_block)
    device = next(device for device in detect_devices() if device.backend == "cpu")
    plan = Plan(
        "quick", device, tuple(Block(name, "gemm", {}, price) for name, price in PRICES.items()), 3
    )
    folder = ResultFolder(tmp_path / "out")
    folder.start()
    state = State(plan.hash)
    runner.Run(plan, folder, state, lambda _: None, lambda: False, budget_s).all_blocks()
    return state.blocks


def test_a_slow_first_block_does_not_cost_the_main_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep({"bandwidth": 12.0})  # libraries load, memory is touched for the first time
    blocks = measured(sweep, 130.0, tmp_path, monkeypatch)
    assert {name: entry["status"] for name, entry in blocks.items()} == dict.fromkeys(PRICES, "ok")
    assert sweep.tried == list(PRICES), "in the order of the plan"


def test_a_block_put_off_is_tried_again_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep(
        {"moe": 90.0, "rounds": 15.0}
    )  # rounds is cheaper than its price, which nobody knows before
    blocks = measured(sweep, 120.0, tmp_path, monkeypatch)
    assert sweep.tried == ["bandwidth", "launch", "moe", "gemm", "rounds"]
    assert blocks["rounds"]["status"] == "ok"


def test_a_block_is_skipped_only_when_the_time_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep({"moe": 119.0})
    blocks = measured(sweep, 120.0, tmp_path, monkeypatch)
    assert blocks["rounds"]["status"] == blocks["gemm"]["status"] == "skipped"
    assert "time limit" in blocks["rounds"]["message"]


def test_the_pace_of_a_small_block_counts_little_and_of_a_large_one_fully() -> None:
    small = Pace(20.0)
    large = Pace(20.0)
    small.add(0.5, 5.0)
    large.add(200.0, 2000.0)
    assert small.ratio < 1.25
    assert large.ratio > 9.0
    assert Pace(0.0).ratio == 1.0
    assert large.fits(10.0, 100.0)
    assert not large.fits(20.0, 100.0)


def test_preparing_a_block_ends_at_the_limit_too() -> None:
    import numpy as np

    from advisor.profiling.device import Clock
    from advisor.profiling.timing import Context, StoppedError, tried

    device = next(device for device in detect_devices() if device.backend == "cpu")
    context = Context(device, Clock(device), 3, np.random.default_rng(0), deadline_s=0.0)
    rows: list[dict[str, Any]] = []
    with pytest.raises(StoppedError, match="time limit"):
        tried(lambda: 1, {}, rows, context)
    context.deadline_s = float("inf")
    context.should_stop = lambda: True
    with pytest.raises(StoppedError, match="request"):
        tried(lambda: 1, {}, rows, context)
    assert rows == []


N_DRAWS = 40_000


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


def logits(rows: int, vocabulary: int = 6) -> torch.Tensor:
    return 1.5 * torch.randn(rows, vocabulary)


def shares(tokens: torch.Tensor, vocabulary: int) -> torch.Tensor:
    return torch.bincount(tokens, minlength=vocabulary) / len(tokens)


def worst_gap(found: torch.Tensor, wanted: torch.Tensor, n: int) -> float:
    """Largest distance between shares and chances in standard errors."""
    spread = (wanted * (1 - wanted) / n).sqrt().clamp_min(1 / n)
    return float(((found - wanted).abs() / spread).max())


@pytest.mark.parametrize("sampler", ["random", "top_p"])
def test_drawn_tokens_follow_the_model(sampler: str) -> None:
    one = logits(1)
    chances = (random_chances if sampler == "random" else top_p_chances)(one)[0]
    tokens = sample(one.expand(N_DRAWS, -1), sampler)
    assert worst_gap(shares(tokens, 6), chances / chances.sum(), N_DRAWS) < 4.5


@pytest.mark.parametrize("sampler", ["random", "top_p"])
def test_verified_tokens_follow_the_model_whatever_was_drafted(sampler: str) -> None:
    two = logits(2)
    chances = (random_chances if sampler == "random" else top_p_chances)(two)
    chances = chances / chances.sum(dim=-1, keepdim=True)
    for draft in (int(two[0].argmax()), int(two[0].argsort()[2])):
        drafted = torch.full((N_DRAWS, 1), draft)
        count, tokens = verify(two.repeat(N_DRAWS, 1), drafted, sampler)
        assert worst_gap(shares(tokens[:, 0], 6), chances[0], N_DRAWS) < 4.5
        accepted = count == 2
        n = int(accepted.sum())
        assert n / N_DRAWS == pytest.approx(float(chances[0, draft]), abs=0.02)
        if n > 1000:
            assert worst_gap(shares(tokens[accepted][:, 1], 6), chances[1], n) < 4.5


def test_the_nucleus_is_the_smallest_that_reaches_its_mass() -> None:
    rows = logits(50, 40)
    kept = top_p_chances(rows)
    for chances, row in zip(kept, random_chances(rows), strict=True):
        inside = chances > 0
        assert float(row[inside].sum()) >= TOP_P - 1e-5
        assert float(row[inside].sum() - row[inside].min()) < TOP_P + 1e-5
        assert float(row[~inside].max()) <= float(row[inside].min())


def test_greedy_verification_accepts_up_to_the_first_difference() -> None:
    rows = logits(8, 12)  # two sequences, three drafts each
    own = rows.argmax(dim=-1).view(2, 4)
    drafted = own[:, :3].clone()
    drafted[1, 1] = (drafted[1, 1] + 1) % 12
    count, tokens = verify(rows, drafted, "greedy")
    assert count.tolist() == [4, 2]
    assert tokens[0].tolist() == own[0].tolist()
    assert tokens[1].tolist() == [*own[1, :2].tolist(), -1, -1]
    assert sample(rows, "greedy").tolist() == own.flatten().tolist()
