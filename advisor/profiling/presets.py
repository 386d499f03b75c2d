"""What each preset measures. Sizes are data here; how they are measured stands in the kernels_* modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.profiling.device import Device
from advisor.profiling.errors import ProfilingError
from advisor.profiling.plan import PROMISE_S, Block, Plan

INDEPENDENT: dict[str, Any] = {"name": "independent"}
CORRELATED: dict[str, Any] = {"name": "correlated", "affinity": 0.2, "stickiness": 0.3}
SKEWED: dict[str, Any] = {"name": "skewed", "load_cv": 1.0}


# Dimensions from the models' public Hugging Face config.json files (expert_width = moe_intermediate_size).
def _experts(
    like: str, n_experts: int, expert_width: int, hidden_size: int, shared_width: int, dtype: str = "bfloat16"
) -> dict[str, Any]:
    sizes = {"n_experts": n_experts, "expert_width": expert_width, "hidden_size": hidden_size}
    return {"like": like, **sizes, "shared_width": shared_width, "dtype": dtype}


QWEN3_30B = _experts("Qwen3-30B-A3B", 128, 768, 2048, 0)
DEEPSEEK_LITE = _experts("DeepSeek-V2-Lite", 64, 1408, 2048, 2816)
MIXTRAL = _experts("Mixtral-8x7B", 8, 14336, 4096, 0)
DEEPSEEK_V3 = _experts("DeepSeek-V3", 256, 2048, 7168, 2048)
QWEN3_30B_MODEL = (
    QWEN3_30B
    | {"n_heads": 32, "n_kv_heads": 4, "head_dim": 128, "n_active": 8, "real_n_layers": 48}
    | {"vocab_size": 151936, "draft_vocab_size": 32000, "dense_width": 6144}
)
# The CPU's model is made for the CPU: one layer's experts are three times the last-level cache of a server chip.
CPU_MODEL = (
    _experts("", 32, 512, 1024, 512)
    | {"n_heads": 16, "n_kv_heads": 4, "head_dim": 64, "n_active": 4, "real_n_layers": 0}
    | {"vocab_size": 32000, "draft_vocab_size": 8000, "dense_width": 2048}
)
SMOKE_EXPERTS = _experts("", 8, 32, 64, 32, "float32")
SMOKE_MODEL = (
    SMOKE_EXPERTS
    | {"n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "n_active": 2, "real_n_layers": 0}
    | {"vocab_size": 256, "draft_vocab_size": 128, "dense_width": 128}
)


def preset_rounds(preset: str, device: Device) -> int:
    """Rounds of each configuration. [1]"""
    if preset == "smoke":
        return 3
    if device.backend == "cpu":
        return {"quick": 24, "standard": 32, "full": 48}[preset]
    return 60 if preset == "full" else 30


def make_plan(preset: str, device: Device, *, only: Sequence[str] = (), seed: int = 0) -> Plan:
    """The plan of a preset for `device`; `only` keeps the blocks whose name or op starts with one of its entries.

    Raises ProfilingError for an unknown preset, or when `only` leaves nothing.
    """
    if preset not in PROMISE_S:
        raise ProfilingError(f"unknown preset {preset!r}; choose one of {', '.join(PROMISE_S)}")
    blocks = preset_blocks(preset, device)
    if only:
        kept = tuple(block for block in blocks if any(block.name.startswith(o) or block.op == o for o in only))
        if not kept:
            names = ", ".join(sorted({block.op for block in blocks} | {block.name for block in blocks}))
            raise ProfilingError(f"no block matches {', '.join(only)}; choose from {names}")
        blocks = kept
    return Plan(preset, device, blocks, preset_rounds(preset, device), seed, tuple(only))


def preset_blocks(preset: str, device: Device) -> tuple[Block, ...]:
    """The blocks of a preset in order of worth: what comes late is lost first when time runs out."""
    if preset == "smoke":
        specs = _smoke()
    elif device.backend == "cpu":
        specs = _cpu(preset)
    else:
        specs = _accelerator(preset)
    rounds = preset_rounds(preset, device)
    return tuple(Block(name, op, params, _price(preset, op, params, device, rounds)) for name, op, params in specs)


Spec = tuple[str, str, dict[str, Any]]


def _points(ks: list[int], tokens: list[int], routings: list[dict[str, Any]], sequences: int = 0) -> list[list[Any]]:
    """[k, sequences, tokens per sequence, routing] of a MoE block; sequences = 0: one token each."""
    points = []
    for k in ks:
        for n in tokens:
            for routing in routings:
                per = n // sequences if sequences and n >= sequences else 1
                points.append([k, n // per, per, routing])
    return points


def _smoke() -> list[Spec]:
    points = [*_points([1, 2], [1, 4], [INDEPENDENT]), [2, 2, 2, CORRELATED]]
    steps = {"n_layers": [1, 2], "batches": [1, 2], "queries": [1, 3], "context": 64, "routing": CORRELATED}
    rounds = {"n_layers": 1, "batches": [2], "drafts": [1, 2], "context": 64, "routing": CORRELATED}
    rounds |= {"alpha": 0.7, "drafters": ["eagle", "mtp"]}
    return [
        ("bandwidth", "bandwidth", {"bytes": 2**22}),
        ("launch", "launch", {"launches": 50}),
        ("moe-smoke", "moe_layer", SMOKE_EXPERTS | {"points": points, "layers": 2}),
        ("gemm", "gemm", {"sizes": [[64, 64]], "tokens": [1, 8], "dtypes": ["float32"]}),
        ("attention-gqa", "attention_decode", _gqa(4, 2, 16, "float32", [1, 2], [1, 3], [64])),
        ("attention-mla", "mla_decode", _mla(2, 32, 8, "float32", [1], [1, 3], [64])),
        ("lm-head", "lm_head", {"hidden_size": 64, "vocab_size": 256, "tokens": [1, 4], "dtype": "float32"}),
        ("steps", "decode_step", SMOKE_MODEL | steps),
        ("rounds", "sd_speedup", SMOKE_MODEL | rounds),
    ]


def _gqa(
    heads: int, kv: int, dim: int, dtype: str, batches: list[int], queries: list[int], contexts: list[int]
) -> dict[str, Any]:
    points = [[b, q, c] for b in batches for q in queries for c in contexts]
    return {"n_heads": heads, "n_kv_heads": kv, "head_dim": dim, "dtype": dtype, "points": points}


def _mla(
    heads: int, latent: int, rope: int, dtype: str, batches: list[int], queries: list[int], contexts: list[int]
) -> dict[str, Any]:
    points = [[b, q, c] for b in batches for q in queries for c in contexts]
    return {"n_heads": heads, "latent_width": latent, "rope_width": rope, "dtype": dtype, "points": points}


def _cpu_layers(
    n_experts: int, points: list[list[Any]], width: int = 512, shared: int = 0, dtype: str = "bfloat16"
) -> dict[str, Any]:
    return _experts("", n_experts, width, 1024, shared, dtype) | {"layers": 2, "points": points}


def _cpu(preset: str) -> list[Spec]:
    deep = preset != "quick"
    tokens = sorted([1, 2, 4, 8, 16, 32] + ([3, 6, 12, 24, 64] if deep else []))
    pools = [{"name": f"pool{n}", "expert_pool": n} for n in (4, 8, 16)]
    around = _points([4], [8, 16, 32], [CORRELATED], sequences=4) + _points([4], [16, 32], [SKEWED, *pools])
    moe32 = _points([1, 2, 3, 4, 6, 8], tokens, [INDEPENDENT]) + around
    moe64 = _points([1, 2, 4, 6, 8] if deep else [1, 2, 4, 8], tokens, [INDEPENDENT])
    f32_tokens = [1, 2, 4, 8, 16, 32, 3, 6, 12, 24, 64] if deep else [1, 4, 16]
    moe_f32 = _points([1, 2, 4, 6, 8] if deep else [1, 4, 8], f32_tokens, [INDEPENDENT])
    shared = _points([4], [1, 4, 16, 32], [INDEPENDENT])
    steps = {"n_layers": [2, 4], "batches": [1, 4, 8], "queries": [1, 2, 4], "context": 512, "routing": CORRELATED}
    rounds = {"n_layers": 4, "batches": [1, 4, 8], "drafts": [1, 3], "context": 512, "routing": CORRELATED}
    rounds |= {"alpha": 0.75, "drafters": ["eagle", "mtp"] if deep else ["eagle"]}
    if deep:
        steps |= {"batches": [1, 2, 4, 8, 16], "queries": [1, 2, 3, 4, 6, 8]}
        rounds |= {"batches": [1, 4, 16], "drafts": [1, 2, 3, 5]}
    sizes = [[1024, 1024], [2048, 2048]]
    specs: list[Spec] = [
        ("bandwidth", "bandwidth", {"bytes": 2**27}),
        ("launch", "launch", {"launches": 2000}),
        ("moe-bf16-n32", "moe_layer", _cpu_layers(32, moe32)),
        ("moe-bf16-n64", "moe_layer", _cpu_layers(64, moe64)),
        ("moe-fp32-n32", "moe_layer", _cpu_layers(32, moe_f32, dtype="float32")),
        ("moe-bf16-n32-shared", "moe_layer", _cpu_layers(32, shared, shared=1024)),
        ("steps", "decode_step", CPU_MODEL | steps),
        ("rounds", "sd_speedup", CPU_MODEL | rounds),
        ("attention-gqa", "attention_decode", _gqa(16, 4, 64, "bfloat16", [1, 4, 16], [1, 2, 4], [512, 2048])),
        ("attention-mla", "mla_decode", _mla(8, 256, 32, "bfloat16", [1, 4], [1, 4], [2048])),
        ("lm-head", "lm_head", {"hidden_size": 1024, "vocab_size": 32000, "tokens": [1, 4, 16], "dtype": "bfloat16"}),
        ("gemm", "gemm", {"sizes": sizes, "tokens": [1, 8, 64], "dtypes": ["bfloat16", "float32"]}),
    ]
    if deep:
        wide = _points([1, 2, 4], tokens, [INDEPENDENT])
        specs.append(("moe-bf16-n16-wide", "moe_layer", _cpu_layers(16, wide, width=2048)))
    return specs


def _accelerator(preset: str) -> list[Spec]:
    deep, full = preset != "quick", preset == "full"
    tokens = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] if deep else [1, 4, 16, 64, 256]
    if full:
        tokens = sorted([*tokens, 3, 6, 12, 24, 48, 96, 192, 384, 1024, 2048])
    pools = [{"name": f"pool{n}", "expert_pool": n} for n in (16, 32, 64)]
    around = _points([8], [16, 64], [CORRELATED], sequences=4) + _points([8], [64], [SKEWED, *pools])
    qwen_k = [1, 2, 4, 6, 8, 12, 16] if full else ([1, 2, 4, 6, 8, 16] if deep else [2, 4, 8])
    qwen = QWEN3_30B | {"layers": 4, "points": _points(qwen_k, tokens, [INDEPENDENT]) + around}
    lite_points = _points([2, 4, 6, 8] if deep else [6], tokens, [INDEPENDENT])
    lite = DEEPSEEK_LITE | {"layers": 4, "points": lite_points}
    mixtral = MIXTRAL | {"layers": 2, "points": _points([1, 2, 4] if deep else [2], tokens, [INDEPENDENT])}
    v3 = DEEPSEEK_V3 | {"layers": 2, "points": _points([4, 8] if full else [8], tokens, [INDEPENDENT])}
    batches = [1, 2, 4, 8, 16, 32, 64, 128] if deep else [1, 8, 32]
    queries = [1, 2, 3, 4, 6, 8] if deep else [1, 2, 4]
    steps = {"n_layers": [4, 8], "batches": batches, "queries": queries, "context": 1024, "routing": CORRELATED}
    rounds = {"n_layers": 8, "batches": batches if full or not deep else [1, 4, 16, 64], "context": 1024}
    rounds["drafts"] = [1, 2, 3, 5, 7] if deep else [1, 3]
    rounds |= {"routing": CORRELATED, "alpha": 0.75, "drafters": ["eagle", "mtp"] if deep else ["eagle"]}
    contexts = [1024, 8192, 32768] if full else ([1024, 8192] if deep else [4096])
    gqa = _gqa(32, 4, 128, "bfloat16", [1, 8, 32, 128] if deep else [1, 32], queries, contexts)
    mla = _mla(128, 512, 64, "bfloat16", [1, 8, 32] if deep else [1, 32], [1, 2, 4], contexts)
    sizes = [[2048, 2048], [4096, 4096], [8192, 8192]] if deep else [[4096, 4096], [8192, 8192]]
    dtypes = ["bfloat16", "float8_e4m3fn"] + (["float16", "float32"] if deep else [])
    head = {"hidden_size": 2048, "vocab_size": 151936, "tokens": [1, 16, 64, 256], "dtype": "bfloat16"}
    specs: list[Spec] = [
        ("bandwidth", "bandwidth", {"bytes": 2**31}),
        ("launch", "launch", {"launches": 1000}),
        ("moe-qwen3-30b", "moe_layer", qwen),
        ("steps-qwen3-30b", "decode_step", QWEN3_30B_MODEL | steps),
        ("rounds-qwen3-30b", "sd_speedup", QWEN3_30B_MODEL | rounds),
        ("moe-deepseek-lite", "moe_layer", lite),
        ("attention-gqa", "attention_decode", gqa),
        ("moe-mixtral", "moe_layer", mixtral),
        ("attention-mla", "mla_decode", mla),
        ("lm-head", "lm_head", head),
        ("gemm", "gemm", {"sizes": sizes, "tokens": [1, 16, 64, 256, 1024, 4096], "dtypes": dtypes}),
    ]
    if deep:
        specs.insert(-1, ("moe-deepseek-v3", "moe_layer", v3))
    return specs


def _price(preset: str, op: str, params: dict[str, Any], device: Device, rounds: int) -> float:
    """Expected wall time of a block [s]: building weights, checking, warm-up, then rounds x cases.

    Rates are assumed (they price the plan, no result rests on them); meta.yaml records estimate and elapsed time.
    """
    cpu = device.backend == "cpu"
    bandwidth = device.assumed_bandwidth_bytes_per_s * (1.0 if cpu else 0.6)
    cases, swept_bytes, built_bytes = _volume(op, params)
    fill = built_bytes / (1.0e9 if cpu else 5e11)
    per_case = 0.02 if cpu else 0.3  # check against float64, warm-up, graph capture
    triton_s = {"moe_layer": 8.0, "decode_step": 6.0, "sd_speedup": 4.0, "attention_decode": 4.0}  # compiling kernels
    compiling = 0.0 if cpu else triton_s.get(op, 0.0)
    per_sample = 50e-6 if cpu else 400e-6
    if not cpu and op in ("decode_step", "sd_speedup"):
        per_sample = 8e-3  # routing of every layer is drawn on the host
    if preset == "smoke":
        per_case, compiling = 0.02, 0.0
    return round(
        0.3 + compiling + fill + cases * per_case + (rounds + 4) * (swept_bytes / bandwidth + cases * per_sample), 1
    )


def _volume(op: str, params: dict[str, Any]) -> tuple[int, float, float]:
    """(cases, bytes moved by one round over all cases, bytes of weights to build)."""
    size = {"float32": 4}.get(params.get("dtype", ""), 2)
    if op == "moe_layer":
        n = params["n_experts"]
        expert = 3 * params["hidden_size"] * params["expert_width"] * size
        share = [n * (1 - (1 - k / n) ** (b * q)) for k, b, q, _ in params["points"]]
        shared = 3 * params["hidden_size"] * params["shared_width"] * size * len(share)
        return len(share), params["layers"] * (sum(share) * expert + shared), params["layers"] * n * expert
    if op in ("decode_step", "sd_speedup"):
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
