"""What steps of a derivation are called, by the part of the model and the law that runs in it.

A law without a row is called by its own docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from advisor.physics.laws.kernels import Law


class Title(NamedTuple):
    """What a step is called. `{layers}`, `{dtype}` and `{because}` are filled in."""

    id: str
    title: str
    symbol: str
    unit: str = "s"
    note: str = ""


_GEMM = "W weights in {dtype}, M rows."
_COUNTED = (
    "u and p: what the slowest rank reads and serves over the mean rank, counted step by step."
)
_LOCAL = "Distinct experts on the slowest rank"
_STATE = "Each state is read once, and one is written for every token, in fp32."
_BLOCKS = "Query rows padded to blocks of m_0, which each KV head fills on its own."
_WHOLE = "{because}. Projections, core, cache write and launches of a layer together."
TITLES: Mapping[str, Mapping[str, Title]] = {
    "routed": {
        "step_tokens": Title("tokens", "Tokens in the step", "M", "1"),
        "touched_experts": Title("experts", "Distinct experts touched", "U", "1"),
        "rank_choices": Title(
            "choices", "Choices of a token that the slowest rank serves", "k_rank", "1"
        ),
        "counted_experts": Title("local", _LOCAL, "U_rank", "1", _COUNTED),
        "local_experts": Title("local", _LOCAL, "U_rank", "1"),
        "rows_per_expert": Title("rows", "Rows of each touched expert", "m", "1"),
        "expert_weight_bytes": Title("weights", "Expert weights read, {dtype}", "W", "B"),
        "expert_flops": Title("flops", "Operations, padded to tiles of 16 rows", "F", "FLOP"),
        "expert_activation_bytes": Title("activations", "16-bit activations moved", "A", "B"),
        "routed_layers": Title("routed", "Routed experts, {layers}", "T_routed", note="{because}"),
    },
    "router": {"gemm": Title("router", "Router, {layers}", "T_router", note=_GEMM)},
    "shared": {"gemm": Title("shared", "Shared experts, {layers}", "T_shared", note=_GEMM)},
    "attention_projection": {
        "gemm": Title(
            "attention_projection.products", "Attention weights, {layers}", "T_products", note=_GEMM
        ),
        "norms": Title("attention_projection.norms", "Norms of queries and keys", "T_norm"),
        "stream_mixing": Title("attention_projection.streams", "Hyper-connections", "T_mix"),
    },
    "attention": {
        "cache_read": Title("cache", "Cache read by one layer", "R", "B", "{because}"),
        "state_moved": Title("cache", "Recurrent state moved, one layer", "R", "B", _STATE),
        "attention_flops": Title(
            "attention_flops", "Operations of one layer's core", "F", "FLOP", _BLOCKS
        ),
        "state_flops": Title("attention_flops", "Operations of one layer's core", "F", "FLOP"),
        "attention_core": Title("attention", "Attention core, {layers}", "T_core"),
        "attention_module": Title(
            "attention", "Attention measured whole, {layers}", "T_core", note=_WHOLE
        ),
    },
    "reread": {"reread": Title("reread", "KV cache, read again", "T_reread")},
    "dense": {"gemm": Title("dense", "Dense FFN, {layers}", "T_block", note=_GEMM)},
    "communication": {
        "message_bytes": Title("message", "Message of one exchange", "X", "B"),
        "fullest_rows": Title("fullest", "Rows of the rank that receives most", "M_max", "1"),
        "fp8_messages": Title("dispatch", "Message to the experts, in 8 bits", "X_8", "B"),
        "other_nodes": Title("other_nodes", "Share of choices on other nodes", "s", "1"),
        "wire_bytes": Title("wire", "Bytes of one rank and direction as they travel", "X_net", "B"),
        "sent_bytes": Title("sent", "Bytes of one rank and direction", "X_k", "B"),
        "all_reduces": Title("all_reduce", "Two all-reduces in each of {layers}", "T_reduce"),
        "expert_exchange": Title(
            "all_to_all", "Dispatch and combine in each of {layers}", "T_exchange"
        ),
    },
    "lm_head": {"gemm": Title("lm_head", "LM head", "T_head", note=_GEMM)},
    "launch": {"launches": Title("launch", "Kernel launches", "T_launch", note="{because}")},
    "between_graphs": {
        "between_graphs": Title("between_graphs", "Launches between graphs", "T_between")
    },
    "host": {},
    "eager": {"eager_wait": Title("eager", "Launches without a graph", "T_eager")},
    "round": {
        "drafting": Title("kernels", "Drafting with its launches", "T_draft"),
        "draft_host": Title("host", "Drafting, host", "T_draft_host"),
        "verified": Title("verified", "Verified tokens", "T_verified"),
        "verification_ratio": Title("verify_ratio", "Verification in plain steps", "R", "1"),
        "speedup": Title("speedup", "Speedup", "speedup", "1"),
        "tpot": Title("tpot", "Time per output token", "TPOT"),
        "tokens_per_s_per_gpu": Title(
            "tokens_per_s_per_gpu", "Tokens per second and GPU", "X", "1/s"
        ),
        "prompt_attention": Title(
            "prompt_attention", "Attention of a prompt's tokens on each other", "T_attn"
        ),
        "prompt_small": Title("prompt_small", "Small kernels of a prompt", "T_small"),
        "prompt": Title("prompt", "One prompt", "T_prompt"),
        "prefill": Title("prefill", "Prefill charged to one output token", "pf"),
    },
}
"""By component of a pass, or of a round, and law: the order in which components are shown."""
SUMS = {
    "attention_projection": Title("attention_projection", "Attention weights", "T_projections"),
    "attention": Title("attention", "Attention core", "T_attention"),
    "dense": Title("dense", "Dense FFN", "T_dense"),
    "communication": Title("communication", "GPU to GPU", "T_links"),
}
"""Components of several times, and what a single one is called."""
_COMPONENT_OF = {law: part for part, laws in TITLES.items() for law in laws if law != "gemm"}
_UNITS = {"Time": "s", "Bytes": "B", "Operations": "FLOP"}
"""Of a result, by the first word of a law's docstring."""


def component_of(law: Law, part: tuple[str, ...]) -> str:
    """Component that a law is part of: by its row, else where it ran, else its own."""
    return _COMPONENT_OF.get(law.__name__) or (part[-1] if len(part) > 1 else law.__name__)


def title_of(component: str, law: Law) -> Title:
    """What a law's step is called in a component."""
    row = TITLES.get(component, {}).get(law.__name__)
    if row is not None:
        return row
    first, equation, _ = (inspect.getdoc(law) or "").split("\n\n", 2)
    title = " ".join(first.split()).rstrip(".")
    symbol = equation.partition(" = ")[0]
    return Title(law.__name__, title, symbol, _UNITS.get(title.split()[0], "1"))


@cache
def units_of(law: Law) -> Mapping[str, str]:
    """Unit of each symbol of a law, from its docstring: `W, b: weights [-], and the storage of one.
    [B]`."""
    text = " ".join((inspect.getdoc(law) or "").split()).partition(" Limits: ")[0]
    known = set(inspect.signature(law).parameters)
    names_at = [
        (match, match[1].split(", "))
        for match in re.finditer(r"(?:^|(?<= ))(\w+(?:, \w+)*): ", text)
        if known >= set(match[1].split(", "))
    ]
    ends = [*(match.start() for match, _ in names_at), len(text)][1:]
    units: dict[str, str] = {}
    for (match, names), end in zip(names_at, ends, strict=True):
        listed = re.findall(r"\[([^\]]+)\]", text[match.end() : end]) or ["-"]
        # Of fewer units than symbols the last symbol has the last.
        each = listed[:1] * (len(names) - len(listed)) + listed
        units |= {name: "1" if unit == "-" else unit for name, unit in zip(names, each)}  # noqa: B905
    return units
