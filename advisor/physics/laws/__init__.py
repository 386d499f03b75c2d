"""Every formula of the model once: pure functions of arrays, each one returned expression of its
symbols.

What runs is what is shown: `explain` reads the expression from the function's own source. A
parameter with a default is an optional term: at the default the term is zero, or the factor one,
and is left out of what is shown. A docstring names the law, then has its equation (a test compares
it with the code), symbols with units, limits and source; docs/model.md is made from them.
"""

# ruff: noqa: F401 -- this file is the list of laws.

from __future__ import annotations

import inspect

from advisor.physics.laws import recording
from advisor.physics.laws.attention import (
    attention_core,
    attention_flops,
    attention_module,
    cache_read,
    prompt_attention,
    prompt_flops,
    state_flops,
    state_moved,
)
from advisor.physics.laws.kernels import (
    ROUTED_COEFFICIENTS,
    STREAM_COEFFICIENTS,
    Law,
    between_graphs,
    between_knots,
    columns,
    counted_experts,
    eager_wait,
    expert_activation_bytes,
    expert_flops,
    expert_weight_bytes,
    gemm,
    launches,
    norms,
    off,
    one_minus_power,
    p_norm,
    prompt_small,
    rank_choices,
    ridge,
    routed_layers,
    rows_per_expert,
    step_tokens,
    stream,
    stream_mixing,
    uniform_experts,
)
from advisor.physics.laws.links import (
    all_reduces,
    expert_exchange,
    fp8_messages,
    fullest_rows,
    gathered_bytes,
    message_bytes,
    network_wait,
    nodes_reached,
    other_nodes,
    prompt_exchange,
    sent_bytes,
    wire_bytes,
)
from advisor.physics.laws.rounds import (
    accepted_length,
    amdahl_ratio,
    board_power,
    draft_host,
    drafting,
    hidden_share,
    joules_per_token,
    prefill,
    prompt,
    prompt_waits,
    reread,
    speedup,
    tokens_per_s_per_gpu,
    tpot,
    usd_per_million_tokens,
    verification_ratio,
    verified,
    verify_tokens,
    waiting_for_the_last,
)

FORMS = ("p_norm", "one_minus_power", "off", "columns")
"""What laws are written and fitted with."""
globals().update(
    {
        name: recording.recorded(law)
        for name, law in tuple(globals().items())
        if inspect.isfunction(law) and name not in FORMS
    }
)
