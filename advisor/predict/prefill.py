"""Prefill that shares the GPUs with decode: a chunk of a prompt is a step with many tokens.

Engines cut a prompt into chunks. vLLM and TensorRT-LLM process a chunk beside the tokens of the
running sequences, in one step, so that the sequences wait for the longer step alone; SGLang stops
decoding meanwhile (profiles/engines).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from advisor.catalog.engines import engine_of
from advisor.physics import laws
from advisor.physics.hardware import effective_bandwidth, peak_flops
from advisor.physics.laws.recording import unrecorded
from advisor.physics.step import MoeShape, lm_head, n_layers, slowest_rank, step_time, weights_time
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup, touched_in_pass
from advisor.prediction import Array, Constant, Floats

CHUNK_TOKENS = 8192
"""Tokens of a chunk: the default budget of a step on data-centre accelerators (vLLM
max_num_batched_tokens of its server, TensorRT-LLM max_num_tokens, SGLang chunked_prefill_size).
[-]"""
ATTENTION_SHARE = 0.5
"""Of the peak in 16 bits that attention over a prompt reaches. Assumed: FlashAttention-3
(arXiv:2407.08608, figure 5) has 0.35 to 0.75 on H100 with lengths of 512 to 16k. [-]"""


@dataclass(frozen=True)
class Prompt:
    """Cost of one prompt beside batches [nB], and the parts that it is made of. [s]"""

    input_tokens: float
    """Tokens that are computed: those beyond a shared prefix. [-]"""
    output_tokens: float
    n_chunks: float
    with_s: Array
    """Step with one chunk."""
    without_s: Array
    """The same step without it; 0 where the engine does not decode meanwhile."""
    attention_flops: float
    attention_peak: Constant
    small_bandwidth: Constant
    width: int
    n_layers: int
    sequences: Array
    """Of one attention group, which share its GPUs. [-]"""
    waits: Array
    """Prompts of any data-parallel group that a group waits for, with each of its own. [-]"""
    first_step_s: Array
    """The part of a chunk's step that `with_s` leaves out: the running sequences' attention,
    launches, host."""

    @property
    def attention_s(self) -> float:
        """Attention of the prompt's tokens on each other. [s]"""
        peak = self.attention_peak.value
        return float(laws.prompt_attention(self.attention_flops, ATTENTION_SHARE, peak))

    @property
    def small_s(self) -> float:
        """Small kernels of the prompt's tokens. [s]"""
        return float(
            laws.prompt_small(
                self.input_tokens, self.width, self.n_layers, self.small_bandwidth.value
            )
        )

    @property
    def symbols(self) -> dict[str, Floats]:
        """Arguments of `laws.prompt` by symbol. Times in [s], chunks in [-]."""
        times = {"T_with": self.with_s, "T_without": self.without_s}
        return {
            "n": self.n_chunks,
            **times,
            "T_attn": self.attention_s,
            "T_small": self.small_s,
            "w": self.waits,
        }

    @property
    def time_s(self) -> Array:
        """Time that the prompt takes from the running sequences, [nB]. [s]"""
        return np.asarray(laws.prompt(**self.symbols))

    @property
    def first_symbols(self) -> dict[str, Floats]:
        """Arguments of `laws.prompt` for the time to first token, [s] and [-]: whole steps, nothing
        taken off."""
        return {
            **self.symbols,
            "T_with": self.with_s + self.first_step_s,
            "T_without": 0.0,
            "w": 1.0,
        }

    @property
    def first_token_s(self) -> Array:
        """Time to first token of a prompt that does not queue, beside the running sequences, [nB].
        [s]"""
        return np.asarray(laws.prompt(**self.first_symbols))

    def per_token_s(self, others_only: bool = False) -> Array:
        """Prefill charged to one output token, [nB], of all sequences or the others:
        `laws.prefill`. [s]"""
        # The own prompt lies before the first token; the B - 1 others come while it decodes
        # (decision 0008).
        shared = np.maximum(self.sequences - 1.0, 0.0) if others_only else self.sequences
        return np.asarray(laws.prefill(shared, self.time_s, self.output_tokens))


def step_rows(setup: Setup, batch: Array) -> tuple[Array, Array]:
    """Rows that one attention group multiplies in a step with a chunk of a prompt, and in one
    without. [-]

    batch: sequences of the instance, [nB]. [-]
    None in the step without it where the engine does not decode meanwhile. Own derivation: the
    chunk's tokens beside one of each sequence, docs/decisions/history.md (0008).
    """
    # A closed loop: each sequence that ends brings the next prompt, so decoding and prompts share
    # the step.
    decoding = batch / setup.placement.attention_groups
    if not _decodes_meanwhile(setup):
        decoding = np.zeros_like(decoding)
    return decoding + _chunk(setup), decoding


def _decodes_meanwhile(setup: Setup) -> bool:
    engine = engine_of(setup.scenario.engine)
    return engine is None or engine.decodes_during_prefill


def step_tokens(setup: Setup, batch: Array) -> tuple[Array, Array]:
    """Tokens of all attention groups together in a step with a chunk of a prompt, and in one
    without. [-]

    batch: sequences of the instance, [nB]. [-]
    With the chunks of as many groups as have one at the same time: `laws.prompt_waits`.
    """
    groups = setup.placement.attention_groups
    decoding = step_rows(setup, batch)[1] * groups
    return decoding + _chunk(setup) * groups / _waits(setup, batch), decoding


def _waits(setup: Setup, batch: Array) -> Array:
    """`laws.prompt_waits` beside each batch; 1 where groups prefill in the same steps or there is
    one. [-]"""
    groups = setup.placement.attention_groups
    engine = engine_of(setup.scenario.engine)
    if groups == 1 or (engine is not None and engine.prefills_together):
        return np.ones_like(batch)
    chunks = computed_tokens(setup.scenario) / _chunk(setup)
    # A step gives each sequence one token, so that it brings this share of its prompt's chunks.
    chance = np.minimum(chunks * batch / groups / float(setup.scenario.output_tokens or 1), 1.0)
    return np.asarray(laws.prompt_waits(chance, groups))


def prompt_cost(setup: Setup, batch: Array) -> Prompt | None:
    """One prompt of the scenario beside each batch [nB]. None where `has_lengths` says no."""
    if not has_lengths(setup):
        return None
    rows = step_rows(setup, batch)
    tokens = step_tokens(setup, batch)
    return prompt_beside(
        setup, batch, *(_layers_s(setup, *counts) for counts in zip(rows, tokens, strict=True))
    )


@unrecorded()
def prompt_beside(setup: Setup, batch: Array, with_s: Array, without_s: Array) -> Prompt:
    """One prompt of a scenario with lengths beside each batch [nB].

    `with_s` and `without_s` are times of all layers but attention over both of `step_rows`; of a
    search's many designs [nB, designs]. [s]
    """
    scenario = setup.scenario
    architecture = setup.architecture
    whole = float(scenario.input_tokens or 0)
    length = computed_tokens(scenario)
    sequences = batch / setup.placement.attention_groups
    # The parts of a plain step that no chunk changes.
    plain = step_time(
        architecture,
        setup.costs,
        setup.placement,
        batch_size=batch,
        tokens_per_sequence=1.0,
        context_tokens=float(scenario.context_tokens),
        touched=touched_in_pass(setup, batch, 1.0),
        kv_bytes_per_element=setup.kv_bytes_per_element,
    ).components
    joined = _decodes_meanwhile(setup)
    logits = lm_head(architecture, setup.costs, setup.placement).time_s(
        sequences if joined else np.ones_like(batch)
    )
    # A chunk that is a step of its own pays host, launches and logits again; one that rides along
    # finds them paid.
    outside = plain["host"] + plain["launch"] + logits
    if not joined:
        with_s = with_s + outside
    # A token attends to the prefix too, which attended to itself once for all.
    attention_flops = _attention_flops(setup, whole) - _attention_flops(setup, whole - length)
    first_step_s = outside + plain["attention"] if joined else np.zeros_like(batch)
    return Prompt(
        input_tokens=length,
        output_tokens=float(scenario.output_tokens or 0),
        # Not rounded up: a short last chunk costs in proportion.
        n_chunks=length / _chunk(setup),
        with_s=with_s,
        without_s=without_s,
        attention_flops=attention_flops,
        attention_peak=peak_flops(setup.hardware, "bf16"),
        small_bandwidth=effective_bandwidth(setup.hardware, "bf16"),
        width=architecture.hidden_size,
        n_layers=n_layers(architecture),
        sequences=sequences,
        waits=_waits(setup, batch),
        first_step_s=first_step_s,
    )


def has_lengths(setup: Setup) -> bool:
    """Whether prefill is charged: the scenario gives prompt and output lengths, and prompts are not
    cached."""
    scenario = setup.scenario
    return (
        scenario.prompts != "cached"
        and scenario.input_tokens is not None
        and scenario.output_tokens is not None
    )


def _chunk(setup: Setup) -> float:
    return min(computed_tokens(setup.scenario), float(CHUNK_TOKENS))


def computed_tokens(scenario: Scenario) -> float:
    """Tokens of a prompt that are computed for each request. [-]

    Definition: all but a shared prefix, which is in the cache, and at least one; 0 without lengths.
    """
    tokens = (scenario.input_tokens or 0) - (scenario.shared_prefix_tokens or 0)
    return float(max(tokens, min(scenario.input_tokens or 0, 1)))


def prefill_per_token_s(setup: Setup, batch: Array) -> Array:
    """Prefill charged to one output token at each `batch` [-], [nB], 0 without lengths:
    `laws.prefill`. [s]"""
    prompt = prompt_cost(setup, batch)
    return np.zeros_like(batch) if prompt is None else prompt.per_token_s()


def prefill_shares_s(setup: Setup, batch: Array) -> tuple[Array, Array]:
    """Prefill charged to one output token, and the share of it that is a sequence's own prompt,
    each [nB]. [s]

    batch: sequences of the instance, [nB]. [-]
    Both by `laws.prefill`. The time per output token leaves the second out: its user waits for it
    before the first token.
    """
    prompt = prompt_cost(setup, batch)
    if prompt is None:
        return np.zeros_like(batch), np.zeros_like(batch)
    return prompt.per_token_s(), prompt.per_token_s() - prompt.per_token_s(others_only=True)


@unrecorded()
def _layers_s(setup: Setup, rows: Array, tokens: Array) -> Array:
    """Time of all layers but attention: `rows` tokens of the slowest group, `tokens` of all.
    Nothing for no rows. [s]

    Between nodes tokens are exchanged as in a step with a chunk, without one too: what a chunk adds
    is its own tokens, not another way of sending the others.

    Where ranks were counted, layers wait for the slowest one of as many sequences of one token
    each: a chunk's tokens choose experts by the same loads, and counts have settled long before a
    chunk's size.
    """
    tokens = np.maximum(tokens, 1.0)
    touched = touched_in_pass(setup, tokens, 1.0)
    shape = MoeShape.of(setup.architecture)
    # Layers measured as a whole were measured while decoding: a chunk's products are those of the
    # form.
    costs = dataclasses.replace(setup.costs, modules={})
    uneven = None
    if shape is not None:
        dtype = setup.architecture.dtypes.routed
        uneven = slowest_rank(
            costs.routed, setup.placement, shape, tokens, np.asarray(1.0), touched, dtype
        )
    parts = weights_time(
        setup.architecture,
        costs,
        setup.placement,
        rows,
        tokens,
        touched,
        shape,
        uneven,
        for_prompt=True,
    )
    return np.where(rows > 0, np.asarray(sum(parts.values())), 0.0)


def _attention_flops(setup: Setup, length: float) -> float:
    """Operations of all layers' attention over a prompt of `length` tokens, on one rank. Recurrent
    layers are left out: a scan of chunks costs little beside its projections."""
    total = 0.0
    tp = setup.placement.tensor_parallel
    for mixer in setup.architecture.mixers:
        if mixer.kind in ("linear", "none"):
            continue
        # Over a prompt latent attention expands its heads (DeepSeek-V3: 320 in place of 1,088 a
        # head, decision 0008).
        per_pair = mixer.query_heads * (
            mixer.prompt_flops_per_head_and_key or mixer.flops_per_head_and_key
        )
        window = np.inf if mixer.window_tokens is None else float(mixer.window_tokens)
        total += mixer.count * float(
            laws.prompt_flops(length, per_pair, mixer.compression, window, tp)
        )
    return total
