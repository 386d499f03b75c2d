"""Every formula of the model once: pure functions of arrays, each one returned expression of its symbols.

What runs is what is shown: `explain` reads the expression from the function's own source. A parameter with a default
is an optional term: at the default the term is zero, or the factor one, and is left out of what is shown. A docstring
names the law, then has its equation (a test compares it with the code), symbols with units, limits and source;
docs/model.md is made from them.
"""

from __future__ import annotations

from advisor.laws.forms import columns, one_minus_power, p_norm
from advisor.laws.kernels import (
    ROUTED_OFF,
    STREAM_OFF,
    all_reduces,
    attention_core,
    attention_flops,
    bandwidth_share,
    between_knots,
    cache_read,
    expert_activation_bytes,
    expert_exchange,
    expert_flops,
    expert_weight_bytes,
    gemm,
    launches,
    message_bytes,
    ridge,
    routed_layers,
    rows_per_expert,
    sent_bytes,
    state_flops,
    state_moved,
    step_tokens,
    stream,
    uniform_experts,
)
from advisor.laws.rounds import (
    accepted_length,
    amdahl_ratio,
    draft_host,
    drafting,
    hidden_share,
    prefill,
    speedup,
    target_efficiency,
    tokens_per_s_per_gpu,
    tpot,
    utility,
    verification_ratio,
)

__all__ = [
    "ROUTED_OFF",
    "STREAM_OFF",
    "accepted_length",
    "all_reduces",
    "amdahl_ratio",
    "attention_core",
    "attention_flops",
    "bandwidth_share",
    "between_knots",
    "cache_read",
    "columns",
    "draft_host",
    "drafting",
    "expert_activation_bytes",
    "expert_exchange",
    "expert_flops",
    "expert_weight_bytes",
    "gemm",
    "hidden_share",
    "launches",
    "message_bytes",
    "one_minus_power",
    "p_norm",
    "prefill",
    "ridge",
    "routed_layers",
    "rows_per_expert",
    "sent_bytes",
    "speedup",
    "state_flops",
    "state_moved",
    "step_tokens",
    "stream",
    "target_efficiency",
    "tokens_per_s_per_gpu",
    "tpot",
    "uniform_experts",
    "utility",
    "verification_ratio",
]
