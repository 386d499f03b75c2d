"""The samplers emit the model's distribution: what is timed in verify_parts is what an engine computes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="profiling is tested only where torch is installed (requirements.txt has it)")

import torch

from advisor.profiling.timing import TOP_P, random_chances, sample, top_p_chances, verify

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
