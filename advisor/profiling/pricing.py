"""What a block of the plan costs: its time and its memory, from its sizes and assumed rates.

Nothing measured rests on these figures: meta.yaml records estimate and elapsed time of every block, and the memory that
captured graphs really took.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from advisor.profiling.device import Device

GRAPH_NODE_BYTES = 64 * 2**10
"""Device memory of one node of an instantiated graph: 362, 395 and 458 MB were seen for 500, 1000 and 2000 kernels
(driver 470, forums.developer.nvidia.com/t/244901); newer drivers may need less. [bytes]"""
NODES_PER_LAYER = {"moe_layer": 12, "decode_step": 40, "sd_speedup": 40, "verify_parts": 40}
"""Kernels of one captured layer, counted in the code of the blocks and rounded up. [-]"""
ITEM_BYTES = {"float32": 4, "float8_e4m3fn": 1}
"""Size of a number where it is not 2. [bytes]"""
TRITON_S = {"moe_layer": 8.0, "decode_step": 6.0, "sd_speedup": 4.0, "verify_parts": 6.0, "attention_decode": 4.0}
"""Time that compiling the Triton kernels of a block is assumed to take. [s]"""
CPU_COMPUTE = {"verify_parts": 1.4, "float8_e4m3fn": 30.0}
"""How much longer than reading their bytes one CPU (EPYC Turin, one thread) took over passes of many tokens and over
products in fp8, which it has no instructions for. [-]"""
ENGINE_START_S = 25.0
"""Assumed time until an engine's package is imported and its scheduler stands. [s]"""
NO_ENGINE_S = 0.5
"""Assumed time to find out that there is no engine. [s]"""


def price(
    preset: str, op: str, params: dict[str, Any], device: Device, rounds: int, *, compiled: bool = False
) -> float:
    """Expected wall time of a block [s]: building weights, checking, warm-up, then rounds x cases.

    An accelerator runs every case twice a round, between them the control kernel. compiled: an earlier block has had
    this one's Triton kernels compiled.
    """
    if op == "engine_host":
        return engine_host_price(params)
    cpu = device.backend == "cpu"
    bandwidth = device.assumed_bandwidth_bytes_per_s * (1.0 if cpu else 0.6)
    cases, swept_bytes, built_bytes = volume(op, params)
    fill = built_bytes / (1.0e9 if cpu else 5e11)
    per_case = 0.02 if cpu else 0.3  # check against float64, warm-up, graph capture
    compiling = 0.0 if cpu or compiled or params.get("dtype") == "float8_e4m3fn" else TRITON_S.get(op, 0.0)
    per_sample, calls = (0.6e-3, 1) if cpu else (2.5e-3, 2)  # the control kernel (0.4 ms on a CPU), a spin of 1.5 ms
    if not cpu and op in ("decode_step", "sd_speedup", "verify_parts"):
        per_sample = 10e-3  # routing of every layer is drawn on the host
    if preset == "smoke":
        per_case, compiling = 0.02, 0.0
    if cpu:
        swept_bytes *= CPU_COMPUTE.get(params.get("dtype", ""), 1.0) * CPU_COMPUTE.get(op, 1.0)
    sampling = (rounds + 4) * (calls * swept_bytes / bandwidth + cases * per_sample)
    return round(0.3 + compiling + fill + cases * per_case + sampling, 1)


def engine_host_price(params: dict[str, Any]) -> float:
    """Expected wall time of timing an engine's scheduler. [s] About 30 microseconds a sequence and step, twice over."""
    if find_spec("vllm") is None:
        return NO_ENGINE_S
    sequences = sum(batch for batch, _, _ in params["points"]) * len(params["schedulers"])
    return round(ENGINE_START_S + 60e-6 * (params["steps"] + params["warm_steps"]) * sequences, 1)


def memory(op: str, params: dict[str, Any], device: Device) -> float:
    """Memory that a block holds at its widest: weights, caches, and on an accelerator its captured graphs. [bytes]

    Graphs of a block share one pool, so of their intermediate tensors only the largest case counts.
    """
    if op == "engine_host":
        return 0.0  # in a process of its own
    cases, _, built = volume(op, params)
    held = cache_bytes(op, params, device)
    held += 0.0 if op in ("attention_decode", "mla_decode") else built
    widest = max(token_counts(op, params), default=1) * widest_row_bytes(op, params)
    if device.backend == "cpu":
        return held + widest
    layers = params.get("n_layers", params.get("layers", 1))
    depth = max(layers) if isinstance(layers, list) else layers
    nodes = NODES_PER_LAYER.get(op, 4) * depth + 20
    return held + widest + cases * nodes * GRAPH_NODE_BYTES


def item_bytes(params: dict[str, Any]) -> int:
    """Bytes of a weight of the block's dtype."""
    return ITEM_BYTES.get(params.get("dtype", ""), 2)


def token_counts(op: str, params: dict[str, Any]) -> list[int]:
    """Tokens of each of a block's passes, for its widest one. [-]"""
    if op == "moe_layer":
        return [batch * q * k for k, batch, q, _ in params["points"]]
    if op == "decode_step":
        return [max(params["batches"]) * max(params["queries"])]
    if op == "sd_speedup":
        return [max(params["batches"]) * (max(params["drafts"]) + 1)]
    return [tokens if isinstance(tokens, int) else 1 for tokens in params.get("tokens", [1])]


def widest_row_bytes(op: str, params: dict[str, Any]) -> float:
    """Intermediate numbers that one token leaves at the widest place of a pass. [bytes]"""
    if op == "verify_parts":  # logits, in float32 too; sorted with their places for top-p; noise
        return params["vocab_size"] * 26.0
    if "vocab_size" in params:
        return params["vocab_size"] * 2.0 * item_bytes(params)
    if op == "moe_layer":
        return 2.0 * (4 * params["expert_width"] + 3 * params["hidden_size"])
    return 4.0 * max([width for shape in params.get("sizes", []) for width in shape], default=0)


def cache_bytes(op: str, params: dict[str, Any], device: Device) -> float:
    """KV caches that are alive at once. [bytes]"""
    size = item_bytes(params)
    if op in ("attention_decode", "mla_decode"):
        width = 2 * params["n_kv_heads"] * params["head_dim"] if op == "attention_decode" else _latent(params)
        return max(max(2.0 * b * c * width * size, 3.0 * device.cache_bytes) for b, _, c in params["points"])
    if op not in ("decode_step", "sd_speedup", "verify_parts"):
        return 0.0
    token = 2 * params["n_kv_heads"] * params["head_dim"] * size * params["context"]
    layers = params["n_layers"] if isinstance(params["n_layers"], list) else [params["n_layers"]]
    if op == "verify_parts":  # one batch at a time, its parts share a session
        return float(max(params["tokens"]) * layers[0] * token)
    passes = len(params["queries"]) if op == "decode_step" else 1 + len(params["drafts"]) * len(params["drafters"])
    return float(max(params["batches"]) * passes * sum(layers) * token)


def alignment_points(points: list[list[Any]]) -> list[list[Any]]:
    """The points of a MoE block at which the alignment is measured apart: all token counts of its middle k.

    Alignment depends on the number of token-expert pairs, which the token counts spread widely enough.
    """
    plain = [point for point in points if point[3]["name"] == "independent"]
    ks = sorted({point[0] for point in plain})
    return [point for point in plain if point[0] == ks[len(ks) // 2]]


def verify_shapes(params: dict[str, Any]) -> list[tuple[int, int]]:
    """(sequences, tokens of each) of a verify_parts block: every token count that `queries` divide it into. [-]"""
    return [(n // q, q) for n in params["tokens"] for q in params["queries"] if n % q == 0]


def _latent(params: dict[str, Any]) -> int:
    width: int = params["latent_width"] + params["rope_width"]
    return width


def volume(op: str, params: dict[str, Any]) -> tuple[int, float, float]:
    """(cases, bytes moved by one round over all cases, bytes of weights to build)."""
    size = item_bytes(params)
    if op == "moe_layer":
        n = params["n_experts"]
        expert = 3 * params["hidden_size"] * params["expert_width"] * size
        share = [n * (1 - (1 - k / n) ** (b * q)) for k, b, q, _ in params["points"]]
        shared = 3 * params["hidden_size"] * params["shared_width"] * size * len(share)
        cases = len(share) + len(alignment_points(params["points"]))
        return cases, params["layers"] * (sum(share) * expert + shared), params["layers"] * n * expert
    if op in ("decode_step", "sd_speedup", "verify_parts"):
        return _step_volume(op, params, size)
    if op == "bandwidth":
        return 2, 3.0 * params["bytes"], 2.0 * params["bytes"]
    if op == "gemm":
        cases = len(params["sizes"]) * len(params["tokens"]) * len(params["dtypes"])
        return cases, cases * 1.2e8, 5e8
    if op == "lm_head":
        weights = params["hidden_size"] * params["vocab_size"] * size
        return len(params["tokens"]), 1.0 * len(params["tokens"]) * weights, 1.0 * weights
    if op == "launch":
        return 3, 0.0, 0.0
    width = 2 * params["n_kv_heads"] * params["head_dim"] if op == "attention_decode" else params["latent_width"]
    kv = sum(b * c * width * size for b, _, c in params["points"])
    return len(params["points"]), 8.0 * kv, 8.0 * kv


def _step_volume(op: str, params: dict[str, Any], size: int) -> tuple[int, float, float]:
    n, k = params["n_experts"], params["n_active"]
    expert = 3 * params["hidden_size"] * params["expert_width"] * size
    head = params["hidden_size"] * params["vocab_size"] * size
    layers = params["n_layers"] if isinstance(params["n_layers"], list) else [params["n_layers"]]

    def step(batch: int, q: int, depth: int) -> float:
        return depth * n * (1 - (1 - k / n) ** (batch * q)) * expert + head

    built = max(layers) * n * expert + head
    if op == "verify_parts":
        parts = 2 + len(params["samplers"])
        moved = [step(b, q, layers[0]) * parts for b, q in verify_shapes(params)]
        sampled = sum(b * q for b, q in verify_shapes(params)) * len(params["samplers"]) * params["vocab_size"] * 26.0
        return parts * len(moved), sum(moved) + sampled, built
    if op == "decode_step":
        moved = [step(b, q, depth) for b in params["batches"] for q in params["queries"] for depth in layers]
        return len(moved), sum(moved), built
    moved = []
    for b in params["batches"]:
        for drafter in params["drafters"]:
            for draft in params["drafts"]:
                passes = draft * (step(b, 1, 1) if drafter == "mtp" else head)
                moved.append(step(b, draft + 1, layers[0]) + 2 * step(b, 1, layers[0]) + 2 * passes)
    return 3 * len(moved), sum(moved), built
