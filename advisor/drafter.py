"""Drafters: what one round of drafting runs, and how much of it the target accepts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.prediction import Confidence, Constant, Frozen

DrafterKind = Literal["none", "eagle", "mtp", "draft_model", "ngram", "parallel"]


class Drafter(Frozen):
    """How a drafter spends device time. Acceptance is not part of it: see `AcceptanceCurve`.

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
    engine_method: dict[str, str] = {}
    """How each engine calls this drafter: {'vllm': 'eagle3', 'sglang': 'EAGLE3'}."""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class AcceptanceCurve(Frozen):
    """Measured accepted length by K: tokens emitted per round, bonus token included."""

    id: str
    model_id: str
    drafter_id: str
    dataset: str
    n_draft: tuple[int, ...] = Field(min_length=1)
    accepted_length: tuple[float, ...] = Field(min_length=1)
    confidence: Confidence
    source: str = Field(min_length=3)
    url: str = ""
    note: str = ""
