"""Drafters: what one round of drafting runs, and how long that takes by the target's own step-cost
model."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from advisor.physics import laws
from advisor.physics.architecture import (
    Architecture,
    DenseFfn,
    Mixer,
    WeightDtype,
    WeightDtypes,
    mtp_ffn,
    mtp_mixer,
    with_dtype,
)
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.step import MoeShape, Placement, n_layers, step_time
from advisor.prediction import AdvisorError, Array, Constant, Frozen, arrays
from advisor.profiles import load_profile, profile_ids

DrafterKind = Literal["none", "eagle", "mtp", "draft_model", "ngram", "parallel"]


class Drafter(Frozen):
    """Kind of drafter and the device time it takes. Acceptance is not part of it: see
    `AcceptanceCurve`.

    eagle: K passes of one dense transformer layer of the target's width and a (reduced) LM head.
    mtp: K passes of one of the target's own layers (MoE where the target is) and the target's LM
    head, or of its assistant. draft_model: K steps of `draft_model_id`. ngram: no device time.
    parallel: one pass proposes all K tokens.
    """

    id: str
    name: str
    short_name: str = ""
    """As lists on screen have it; empty: its name."""
    kind: DrafterKind
    draft_model_id: str | None = None
    n_layers: Constant | None = None
    head_vocab_size: Constant | None = None
    """LM-head rows of a reduced draft vocabulary; None: the target's own head."""
    stated_vocabulary: int | None = None
    """The same of a head that the user states, instead of the profile's."""
    weight_dtype: WeightDtype | None = None
    """Format of its layers and of a reduced head; None: 16 bits, or the target's own where they are
    cut from it."""
    method: str = ""
    """The drafting method that engines run it by, in vLLM's words; profiles/engines say which
    engine has it."""
    parallel_drafting: bool = False
    """All K tokens come from one pass although the method drafts in turn: the engine must be
    told."""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def passes(self, n_draft: ArrayLike) -> Array:
        """Passes of one round of `n_draft` tokens [-]: as many, or one where all come together.
        Definition. [-]"""
        drafts = np.asarray(n_draft, float)
        return np.minimum(drafts, 1.0) if self.kind == "parallel" else drafts


def drafter_ids() -> list[str]:
    """Ids of all drafters with a profile, sorted."""
    return profile_ids("drafters")


@lru_cache(maxsize=64)
def load_drafter(drafter_id: str) -> Drafter:
    """The drafter `drafter_id`, from profiles/drafters. Raises AdvisorError for an unknown id or a
    damaged file."""
    return load_profile(
        "drafters", drafter_id, Drafter, "drafters", f"known are {', '.join(drafter_ids())}"
    )


# EAGLE heads are one Llama-like layer; where the target has no dense block to take a width from,
# Llama-3's ratio of intermediate to hidden size is assumed (14336 / 4096), as is its attention of
# 128-wide heads with 8 KV heads.
_FFN_RATIO = 3.5
_LAUNCHES = ("host", "launch", "between_graphs")
"""Components of a drafting pass that are charged by the round, or by `laws.eager_wait`."""
_HEAD_DIM = 128
_KV_HEADS = 8


@dataclass(frozen=True)
class Drafting:
    """Drafter, what one of its passes runs, and where."""

    drafter: Drafter
    architecture: Architecture | None
    """What a pass runs: `draft_architecture`."""
    costs: KernelCosts
    placement: Placement
    kv_bytes_per_element: float
    """Of its cache: 2 in 16 bits, 1 in fp8. [B]"""


@dataclass(frozen=True)
class DraftTime:
    """One round of drafting. Arrays that broadcast over batch and K."""

    pass_s: Array
    """Kernels of one pass. [s]"""
    passes: Array
    """Passes of the round. [-]"""
    layers: int
    """Layers launched in one pass. [-]"""

    def time_s(self, launch_per_layer_s: float) -> Array:
        """Device time of the round, its launches included: `laws.drafting`. [s]"""
        return np.asarray(laws.drafting(self.passes, self.pass_s, launch_per_layer_s, self.layers))

    def host_s(self, host_per_draft_pass_s: float) -> Array:
        """Host time of the round: `laws.draft_host`. [s]"""
        return np.asarray(laws.draft_host(self.passes, host_per_draft_pass_s))


def draft_architecture(
    drafter: Drafter, target: Architecture, draft_model: Architecture | None = None
) -> Architecture | None:
    """Architecture that one drafting pass runs, with the head that scores its tokens. None where
    drafting takes no device time.

    A reduced head is the drafter's own, in the format of its layers; a whole one is shared with the
    target. Raises AdvisorError when a drafter needs a draft model and none is given, MTP is asked
    of a model without it, or a stated head has more rows than the model has tokens.
    """
    if drafter.kind in ("none", "ngram"):
        return None
    per_pass = _layers_of_pass(drafter, target, draft_model)
    profile_rows = drafter.head_vocab_size
    rows = drafter.stated_vocabulary or (int(profile_rows.value) if profile_rows else 0)
    if (drafter.stated_vocabulary or 0) > per_pass.vocab_size:
        raise AdvisorError(
            f"a draft vocabulary of {rows:,} tokens exceeds the {per_pass.vocab_size:,} of "
            f"{per_pass.name}; give at most that"
        )
    if drafter.weight_dtype is not None:
        per_pass = with_dtype(per_pass, drafter.weight_dtype)
    if not 0 < rows < per_pass.vocab_size:
        return per_pass
    head = drafter.weight_dtype or ("bf16" if profile_rows else per_pass.dtypes.embedding)
    dtypes = per_pass.dtypes.model_copy(update={"embedding": head})
    return per_pass.model_copy(update={"vocab_size": rows, "dtypes": dtypes})


def _layers_of_pass(
    drafter: Drafter, target: Architecture, draft_model: Architecture | None
) -> Architecture:
    """What a pass runs under a head for the whole vocabulary."""
    if drafter.kind == "draft_model":
        if draft_model is None:
            raise AdvisorError(
                f"drafter {drafter.id!r} runs a separate model; give its draft_model_id"
            )
        return draft_model
    if drafter.kind == "mtp":
        return _mtp_module(target)
    layers = int(drafter.n_layers.value) if drafter.n_layers else 1
    hidden = target.hidden_size
    width = max((block.width for block in target.dense), default=round(_FFN_RATIO * hidden))
    return Architecture(
        id=f"{drafter.id} for {target.id}",
        name=f"{drafter.name} head of {target.name}",
        hidden_size=hidden,
        vocab_size=target.vocab_size,
        mixers=(_head_attention(target, layers),),
        dense=(DenseFfn(count=layers, width=width),),
        dtypes=WeightDtypes(embedding=target.dtypes.embedding),
        confidence="low",
    )


def draft_time(
    drafting: Drafting,
    *,
    batch_size: ArrayLike,
    n_draft: ArrayLike,
    context_tokens: ArrayLike,
    touched_one: ArrayLike = 0.0,
    moe: MoeShape | None = None,
) -> DraftTime:
    """Kernels of a drafting pass over B sequences, and the passes and layers that K tokens take.

    Parameters
    ----------
    drafting : the drafter, what one of its passes runs, kernel constants for its weight formats,
        and where it runs.
    batch_size, n_draft, context_tokens : B, K and c, broadcast. [-]
    touched_one : distinct experts that B sequences touch with one token each (MTP on an MoE). [-]
    moe : replaces the routed layer of an MTP pass by arrays of shapes (design search).

    Notes
    -----
    Sequential drafters run K passes over one token per sequence; parallel drafters one pass over K
    tokens.
    """
    batch, drafts = arrays(batch_size, n_draft)
    if drafting.architecture is None:
        zero = np.zeros(np.broadcast_shapes(batch.shape, drafts.shape, np.shape(context_tokens)))
        return DraftTime(zero, zero, 0)
    parallel = drafting.drafter.kind == "parallel"
    step = step_time(
        drafting.architecture,
        drafting.costs,
        drafting.placement,
        batch_size=batch,
        tokens_per_sequence=np.maximum(drafts, 1.0) if parallel else 1.0,
        context_tokens=context_tokens,
        touched=touched_one,
        kv_bytes_per_element=drafting.kv_bytes_per_element,
        moe=moe,
    )
    kernels = np.asarray(
        sum(time for name, time in step.components.items() if name not in _LAUNCHES)
    )
    layers = n_layers(drafting.architecture)
    costs = drafting.costs
    if (
        costs.between_graphs_s
    ):  # what keeps a verification out of full graphs leaves the drafter without any
        kernels = kernels + laws.eager_wait(costs.eager_per_layer_s, layers, kernels)
    return DraftTime(kernels, drafting.drafter.passes(drafts), layers)


def _mtp_module(target: Architecture) -> Architecture:
    if target.assistant is not None:
        return target.assistant
    if target.mtp_modules < 1:
        raise AdvisorError(
            f"{target.name} has no multi-token-prediction module; choose another drafter, e.g. "
            "eagle3 or ngram"
        )
    template = mtp_mixer(target) or target.mixers[-1]
    (dense, moe) = mtp_ffn(target)
    fusion = (
        2 * target.hidden_size**2
    )  # joins the hidden state with the embedding of the token just drafted
    mixer = template.model_copy(
        update={"count": 1, "projection_params": template.projection_params + fusion}
    )
    block = {"mixers": (mixer,), "dense": () if dense is None else (dense,), "moe": moe}
    return target.model_copy(update={"id": f"mtp of {target.id}", **block})


def _head_attention(target: Architecture, layers: int) -> Mixer:
    """Attention of an EAGLE-like head: the target's own heads where they are plain, else Llama-like
    ones."""
    hidden = target.hidden_size
    fusion = hidden * hidden  # the first layer reads hidden state and embedding side by side
    plain = [mixer for mixer in target.mixers if mixer.kind in ("full", "sliding")]
    if plain:
        template = plain[-1]
        return template.model_copy(
            update={
                "kind": "full",
                "count": layers,
                "window_tokens": None,
                "query_key_norm": False,
                "mixed_streams": 0,
                "projection_params": template.projection_params + fusion,
            }
        )
    heads = max(hidden // _HEAD_DIM, 1)
    return Mixer(
        kind="full",
        count=layers,
        projection_params=hidden * _HEAD_DIM * (2 * heads + 2 * _KV_HEADS) + fusion,
        kv_elements_per_token=2 * _KV_HEADS * _HEAD_DIM,
        kv_shards=_KV_HEADS,
        query_heads=heads,
        flops_per_head_and_key=4 * _HEAD_DIM,
    )
