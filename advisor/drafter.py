"""Drafters: what one round of drafting runs, and how much of it the target accepts."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.arrays import Array
from advisor.prediction import Constant, Frozen
from advisor.profiles import load_profile, profile_ids

DrafterKind = Literal["none", "eagle", "mtp", "draft_model", "ngram", "parallel"]


class Drafter(Frozen):
    """Kind of drafter and the device time it takes.

    Acceptance is not part of it: see `AcceptanceCurve`.

    eagle: K passes of one dense transformer layer of the target's width and a (reduced) LM head.
    mtp: K passes of one of the target's own layers (MoE where the target is) and the target's LM head.
    draft_model: K steps of `draft_model_id`. ngram: no device time. parallel: one pass proposes all K tokens.
    """

    id: str
    name: str
    kind: DrafterKind
    draft_model_id: str | None = None
    n_layers: Constant | None = None
    head_vocab_size: Constant | None = None
    """LM-head rows of a reduced draft vocabulary; None: the target's own head."""
    method: str = ""
    """The drafting method that engines run it by, in vLLM's words; profiles/engines say which engine has it."""
    parallel_drafting: bool = False
    """All K tokens come from one pass although the method drafts in turn: the engine must be told."""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def passes(self, n_draft: ArrayLike) -> Array:
        """Drafting passes of one round of K tokens: K, or one where all K come together. [-]"""
        drafts = np.asarray(n_draft, float)
        return np.minimum(drafts, 1.0) if self.kind == "parallel" else drafts


def drafter_ids() -> list[str]:
    """Ids of all drafters with a profile, sorted."""
    return profile_ids("drafters")


@lru_cache(maxsize=64)
def load_drafter(drafter_id: str) -> Drafter:
    """The drafter `drafter_id`, from profiles/drafters. Raises AdvisorError for an unknown id or a damaged file."""
    return load_profile("drafters", drafter_id, Drafter, "drafters", f"known are {', '.join(drafter_ids())}")
