"""Samplers of an engine, with static shapes and no host synchronise: one token a row, or the verification of drafts.

What they cost is measured (verify_parts.py); they are right too, since a wrong one could be fast: `tests/profiling`
holds the tokens' frequencies against the model's probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

TEMPERATURE = 0.8
"""Temperature of the random samplers. Their cost does not depend on it. [-]"""
TOP_P = 0.95
"""Mass of the nucleus that `top_p` keeps. Its cost, a sort of the vocabulary, does not depend on it. [-]"""

Chances = Callable[[torch.Tensor], torch.Tensor]
"""logits [T, V] -> probabilities [T, V], float32."""


def random_chances(logits: torch.Tensor) -> torch.Tensor:
    """Probabilities at TEMPERATURE, float32."""
    return torch.softmax(logits.float() / TEMPERATURE, dim=-1)


def top_p_chances(logits: torch.Tensor) -> torch.Tensor:
    """Chances of the likeliest tokens that together reach TOP_P, after `random_chances`.

    The others have 0. Not renormalised.
    """
    ranked, order = random_chances(logits).sort(dim=-1, descending=True)
    outside = ranked.cumsum(dim=-1) - ranked >= TOP_P
    return torch.zeros_like(ranked).scatter_(-1, order, ranked.masked_fill(outside, 0.0))


CHANCES: dict[str, Chances] = {"random": random_chances, "top_p": top_p_chances}
"""Samplers that draw, by name; `greedy` takes the largest logit."""


def race(chances: torch.Tensor) -> torch.Tensor:
    """Token of each row with chance proportional to `chances` [T, V]. The first of exponential arrival times, [T]."""
    arrivals = torch.empty_like(chances).exponential_()
    return (chances / arrivals).argmax(dim=-1)


def sample(logits: torch.Tensor, sampler: str) -> torch.Tensor:
    """One token of each row of logits [T, V]: [T]. sampler: greedy | random | top_p."""
    return logits.argmax(dim=-1) if sampler == "greedy" else race(CHANCES[sampler](logits))


def verify(logits: torch.Tensor, drafted: torch.Tensor, sampler: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rejection sampling of drafts that were chosen, not drawn.

    Gives tokens emitted of each sequence [B], and tokens [B, K+1].

    logits [B * (K+1), V], drafted [B, K]. Draft i is accepted with the target's probability of it; the token after the
    accepted ones is drawn from the target without the refused draft, after all K from the target itself. So every
    emitted token has the target's distribution (arXiv:2211.17192, with all of the draft's mass on one token). Places of
    `tokens` after the emitted ones are -1.
    """
    batch, n_draft = drafted.shape
    if sampler == "greedy":
        own = logits.argmax(dim=-1).view(batch, n_draft + 1)
        accepted = own[:, :-1] == drafted
    else:
        chances = CHANCES[sampler](logits).view(batch, n_draft + 1, -1)
        total = chances.sum(dim=-1)
        of_draft = chances[:, :-1].gather(2, drafted[..., None])[..., 0]
        accepted = torch.rand_like(of_draft) * total[:, :-1] < of_draft
        chances[:, :-1].scatter_(2, drafted[..., None], 0.0)
        own = race(chances.flatten(0, 1)).view(batch, n_draft + 1)
    count = accepted.to(torch.int64).cumprod(dim=1).sum(dim=1)
    place = torch.arange(n_draft + 1, device=logits.device)
    padded = torch.cat([drafted, drafted[:, :1]], dim=1)
    tokens = torch.where(place < count[:, None], padded, own).masked_fill(place > count[:, None], -1)
    return count + 1, tokens
