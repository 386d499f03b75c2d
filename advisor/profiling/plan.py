"""What each preset measures, in blocks that are measured and saved on their own, and what they
cost.

Sizes are data here; how they are measured stands in the kernels_* modules. Nothing measured rests
on the prices: meta.yaml records estimate and elapsed time of every block, and the memory that
captured graphs really took.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.profiling.device import Device, ProfilingError

PROMISE_S = {"smoke": 120.0, "quick": 120.0, "standard": 480.0, "full": 7200.0}
"""Longest time of each preset [s]; the run stops there and says so if the device is slower than the
estimate."""


@dataclass(frozen=True)
class Block:
    """Isolated piece of the sweep.

    What is measured together shares its weights, control kernel and fate.

    params is plain JSON data. estimate_s: expected wall time [s]; memory_bytes: weights, caches and
    graphs. [bytes]
    """

    name: str
    op: str
    params: dict[str, Any]
    estimate_s: float
    memory_bytes: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Plan of a run: blocks to measure, the device, and the price."""

    preset: str
    device: Device
    blocks: tuple[Block, ...]
    rounds: int
    seed: int = 0
    only: tuple[str, ...] = ()
    code_version: str = field(default_factory=lambda: code_version())

    @property
    def estimate_s(self) -> float:
        """Expected wall time of the whole plan. [s]"""
        return sum(block.estimate_s for block in self.blocks)

    @property
    def promise_s(self) -> float:
        """Time after which the run stops by itself. [s]"""
        return PROMISE_S[self.preset]

    @property
    def hash(self) -> str:
        """Identity of the plan: blocks, rounds, seed, device and code. A resume must match it. 16
        hex digits."""
        content = {
            "preset": self.preset,
            "device": [self.device.backend, self.device.name, self.device.torch_version],
            "blocks": [[block.name, block.op, block.params] for block in self.blocks],
            "rounds": self.rounds,
            "seed": self.seed,
            "code": self.code_version,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """The plan as text: device, blocks with their estimates, total."""
        lines = [
            f"preset {self.preset} on {self.device.backend}: {self.device.name}, plan "
            f"{self.hash}, {self.rounds} rounds"
        ]
        lines += [
            f"  {block.name:<34} {block.estimate_s:7.1f} s {block.memory_bytes / 2**30:7.2f} GiB"
            for block in self.blocks
        ]
        lines.append(
            f"estimate {self.estimate_s:.0f} s for {len(self.blocks)} blocks (limit "
            f"{self.promise_s:.0f} s)"
        )
        return "\n".join(lines)


def code_version() -> str:
    """Hash over the sources of this package: identifies the code also where there is no git. 12 hex
    digits."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


INDEPENDENT: dict[str, Any] = {"name": "independent"}
CORRELATED: dict[str, Any] = {"name": "correlated", "affinity": 0.2, "stickiness": 0.3}
SKEWED: dict[str, Any] = {"name": "skewed", "load_cv": 1.0}


# Dimensions from the models' public Hugging Face config.json files (expert_width =
# moe_intermediate_size).
def _experts(
    like: str,
    n_experts: int,
    expert_width: int,
    hidden_size: int,
    shared_width: int,
    dtype: str = "bfloat16",
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
    | {"vocab_size": 151936}
)
# The CPU's model is made for the CPU: one layer's experts are three times the last-level cache of a
# server chip.
CPU_MODEL = (
    _experts("", 32, 512, 1024, 512)
    | {"n_heads": 16, "n_kv_heads": 4, "head_dim": 64, "n_active": 4, "real_n_layers": 0}
    | {"vocab_size": 32000}
)
SMOKE_EXPERTS = _experts("", 8, 32, 64, 32, "float32")
SMOKE_MODEL = (
    SMOKE_EXPERTS
    | {"n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "n_active": 2, "real_n_layers": 0}
    | {"vocab_size": 256}
)
FP_DTYPES = {
    False: ["bfloat16", "float8_e4m3fn"],
    True: ["bfloat16", "float8_e4m3fn", "float16", "float32"],
}
"""Types of the plain products on an accelerator, in `quick` and in the longer presets."""


def preset_rounds(preset: str, device: Device) -> int:
    """Rounds of each configuration. [-]"""
    if preset == "smoke":
        return 3
    if device.backend == "cpu":
        return {"quick": 24, "standard": 32, "full": 48}[preset]
    return 60 if preset == "full" else 30


def make_plan(preset: str, device: Device, *, only: Sequence[str] = (), seed: int = 0) -> Plan:
    """The plan of a preset for `device`, of blocks that `only` names or begins. Raises
    ProfilingError without any."""
    if preset not in PROMISE_S:
        raise ProfilingError(f"unknown preset {preset!r}; choose one of {', '.join(PROMISE_S)}")
    blocks = preset_blocks(preset, device)
    if only:
        selected = tuple(
            block
            for block in blocks
            if any(block.name.startswith(o) or block.op == o for o in only)
        )
        if not selected:
            names = ", ".join(
                sorted({block.op for block in blocks} | {block.name for block in blocks})
            )
            raise ProfilingError(f"no block matches {', '.join(only)}; choose from {names}")
        blocks = selected
    return Plan(preset, device, blocks, preset_rounds(preset, device), seed, tuple(only))


def preset_blocks(preset: str, device: Device) -> tuple[Block, ...]:
    """The blocks of a preset in order of worth: what comes late is lost first when time runs
    out."""
    if preset == "smoke":
        specs = _smoke()
    elif device.backend == "cpu":
        specs = _cpu(preset)
    else:
        specs = _accelerator(preset)
    rounds = preset_rounds(preset, device)
    blocks: list[Block] = []
    for name, op, params in specs:
        compiled = any(block.op == op for block in blocks)
        estimate_s = price(preset, op, params, device, rounds, compiled=compiled)
        blocks.append(Block(name, op, params, estimate_s, memory(op, params, device)))
    return tuple(blocks)


Spec = tuple[str, str, dict[str, Any]]


def _points(
    ks: list[int], tokens: list[int], routings: list[dict[str, Any]], sequences: int = 0
) -> list[list[Any]]:
    """[k, sequences, tokens per sequence, routing] of a MoE block. Sequences = 0: one token
    each."""
    steps = [(n, n // sequences if sequences and n >= sequences else 1) for n in tokens]
    return [[k, n // per, per, routing] for k in ks for n, per in steps for routing in routings]


def _smoke() -> list[Spec]:
    points = [*_points([1, 2], [1, 4], [INDEPENDENT]), [2, 2, 2, CORRELATED]]
    steps = {
        "n_layers": [1, 2],
        "batches": [1, 2],
        "queries": [1, 3],
        "context": 64,
        "routing": CORRELATED,
    }
    fp8 = SMOKE_EXPERTS | {
        "dtype": "float8_e4m3fn",
        "points": _points([2], [1, 4], [INDEPENDENT]),
        "layers": 2,
    }
    return [
        ("bandwidth", "bandwidth", {"bytes": 2**22}),
        ("launch", "launch", {"launches": 50}),
        ("moe-smoke", "moe_layer", SMOKE_EXPERTS | {"points": points, "layers": 2}),
        ("moe-fp8-smoke", "moe_layer", fp8),
        ("verify-parts", "verify_parts", SMOKE_MODEL | _parts([1, 4], [1, 2], 1, 64)),
        ("gemm", "gemm", {"sizes": [[64, 64]], "tokens": [1, 8], "dtypes": ["float32"]}),
        _attention("gqa", [4, 2, 16], "float32", [1, 2], [1, 3], [64]),
        _attention("mla", [2, 32, 8], "float32", [1], [1, 3], [64]),
        (
            "lm-head",
            "lm_head",
            {"hidden_size": 64, "vocab_size": 256, "tokens": [1, 4], "dtype": "float32"},
        ),
        ("steps", "decode_step", SMOKE_MODEL | steps),
    ]


def _parts(tokens: list[int], queries: list[int], n_layers: int, context: int) -> dict[str, Any]:
    """Passes of so many tokens, as `queries` tokens of each sequence, with and without LM head and
    samplers."""
    sizes = {"tokens": tokens, "queries": queries, "n_layers": n_layers, "context": context}
    return sizes | {"samplers": ["greedy", "random", "top_p"], "routing": CORRELATED}


def _attention(kind: str, sizes: list[int], dtype: str, *points: list[int]) -> Spec:
    """Attention over `points`, batches x queries x contexts. Sizes: heads, KV heads and head, or
    latent and rope."""
    op, *widths = _KINDS[kind]
    params = dict(zip(("n_heads", *widths), sizes, strict=True)) | {"dtype": dtype}
    return (
        f"attention-{kind}",
        op,
        params | {"points": [list(point) for point in itertools.product(*points)]},
    )


_KINDS = {
    "gqa": ("attention_decode", "n_kv_heads", "head_dim"),
    "mla": ("mla_decode", "latent_width", "rope_width"),
}
"""Kinds of attention: op, and what sizes they have beside the heads."""


def _cpu_layers(
    n_experts: int,
    points: list[list[Any]],
    width: int = 512,
    shared: int = 0,
    dtype: str = "bfloat16",
) -> dict[str, Any]:
    return _experts("", n_experts, width, 1024, shared, dtype) | {"layers": 2, "points": points}


def _cpu(preset: str) -> list[Spec]:
    deep = preset != "quick"
    tokens = sorted([1, 2, 4, 8, 16, 32] + ([3, 6, 12, 24, 64] if deep else []))
    pools = [{"name": f"pool{n}", "expert_pool": n} for n in (4, 8, 16)]
    around = _points([4], [8, 16, 32], [CORRELATED], sequences=4) + _points(
        [4], [16, 32], [SKEWED, *pools]
    )
    moe32 = _points([1, 2, 3, 4, 6, 8], tokens, [INDEPENDENT]) + around
    moe64 = _points([1, 2, 4, 6, 8] if deep else [1, 2, 4, 8], tokens, [INDEPENDENT])
    f32_tokens = [1, 2, 4, 8, 16, 32, 6, 12, 24] if deep else [1, 4, 16]
    moe_f32 = _points([1, 2, 4, 6, 8] if deep else [1, 4, 8], f32_tokens, [INDEPENDENT])
    shared = _points([4], [1, 4, 16, 32], [INDEPENDENT])
    fp8 = _points([4], [1, 4, 16] if deep else [1, 4], [INDEPENDENT])
    counts = {"quick": [1, 16], "standard": [1, 8, 64], "full": [2**n for n in range(11)]}[preset]
    parts = _parts(counts, [1, 2, 4, 8] if preset == "full" else [1, 4], 2, 512)
    steps = {
        "n_layers": [2, 4],
        "batches": [1, 4, 8],
        "queries": [1, 2, 4],
        "context": 512,
        "routing": CORRELATED,
    }
    if deep:
        steps |= {"batches": [1, 2, 4, 8, 16], "queries": [1, 2, 3, 4, 6, 8]}
    sizes = [[1024, 1024], [2048, 2048]]
    specs: list[Spec] = [
        ("bandwidth", "bandwidth", {"bytes": 2**27}),
        ("launch", "launch", {"launches": 2000}),
        ("moe-bf16-n32", "moe_layer", _cpu_layers(32, moe32)),
        ("moe-bf16-n64", "moe_layer", _cpu_layers(64, moe64)),
        ("moe-fp32-n32", "moe_layer", _cpu_layers(32, moe_f32, dtype="float32")),
        ("verify-parts", "verify_parts", CPU_MODEL | parts),
        ("moe-bf16-n32-shared", "moe_layer", _cpu_layers(32, shared, shared=1024)),
        ("moe-fp8-n32", "moe_layer", _cpu_layers(32, fp8, dtype="float8_e4m3fn")),
        ("steps", "decode_step", CPU_MODEL | steps),
        _attention("gqa", [16, 4, 64], "bfloat16", [1, 4, 16], [1, 2, 4], [512, 2048]),
        _attention("mla", [8, 256, 32], "bfloat16", [1, 4], [1, 4], [2048]),
        (
            "lm-head",
            "lm_head",
            {"hidden_size": 1024, "vocab_size": 32000, "tokens": [1, 4, 16], "dtype": "bfloat16"},
        ),
        ("gemm", "gemm", {"sizes": sizes, "tokens": [1, 8, 64], "dtypes": ["bfloat16", "float32"]}),
    ]
    if deep:
        wide = _points([1, 2, 4], tokens, [INDEPENDENT])
        specs.append(("moe-bf16-n16-wide", "moe_layer", _cpu_layers(16, wide, width=2048)))
    return specs


def _accelerator(preset: str) -> list[Spec]:
    deep = preset != "quick"
    full = preset == "full"
    tokens = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] if deep else [1, 4, 16, 64, 256]
    if full:
        tokens = sorted([*tokens, 3, 6, 12, 24, 48, 96, 192, 384, 1024, 2048])
    pools = [{"name": f"pool{n}", "expert_pool": n} for n in (16, 32, 64)]
    around = _points([8], [16, 64], [CORRELATED], sequences=4) + _points(
        [8], [64], [SKEWED, *pools]
    )
    qwen_k = [1, 2, 4, 6, 8, 12, 16] if full else ([1, 2, 4, 6, 8, 16] if deep else [2, 4, 8])
    qwen = QWEN3_30B | {"layers": 4, "points": _points(qwen_k, tokens, [INDEPENDENT]) + around}
    lite_k, lite_tokens = ([2, 4, 6, 8], tokens) if deep else ([6], [1, 16, 64])
    lite = DEEPSEEK_LITE | {"layers": 4, "points": _points(lite_k, lite_tokens, [INDEPENDENT])}
    mixtral = MIXTRAL | {
        "layers": 2,
        "points": _points([1, 2, 4] if deep else [2], tokens, [INDEPENDENT]),
    }
    v3 = DEEPSEEK_V3 | {
        "layers": 2,
        "points": _points([4, 8] if full else [8], tokens, [INDEPENDENT]),
    }
    batches = [1, 2, 4, 8, 16, 32, 64, 128] if deep else [1, 8, 32]
    queries = [1, 2, 3, 4, 6, 8] if deep else [1, 2, 4]
    steps = {
        "n_layers": [4, 8],
        "batches": batches,
        "queries": queries,
        "context": 1024,
        "routing": CORRELATED,
    }
    contexts = [1024, 8192, 32768] if full else ([1024, 8192] if deep else [4096])
    gqa = _attention(
        "gqa", [32, 4, 128], "bfloat16", [1, 8, 32, 128] if deep else [1, 32], queries, contexts
    )
    mla = _attention(
        "mla", [128, 512, 64], "bfloat16", [1, 8, 32] if deep else [1, 32], [1, 2, 4], contexts
    )
    fp8 = QWEN3_30B | {
        "dtype": "float8_e4m3fn",
        "layers": 4,
        "points": _points([8], tokens if deep else [1, 16, 64], [INDEPENDENT]),
    }
    counts = (
        [2**n for n in range(11)] if full else ([4**n for n in range(6)] if deep else [1, 64, 1024])
    )
    parts = QWEN3_30B_MODEL | _parts(counts, [1, 2, 4, 8] if deep else [1, 4], 4, 1024)
    sizes = [[2048, 2048], [4096, 4096], [8192, 8192]] if deep else [[4096, 4096], [8192, 8192]]
    head = {
        "hidden_size": 2048,
        "vocab_size": 151936,
        "tokens": [1, 16, 64, 256],
        "dtype": "bfloat16",
    }
    gemm = {
        "sizes": sizes,
        "tokens": [1, 16, 64, 256, 1024, 4096],
        "dtypes": FP_DTYPES[deep],
    }
    specs: list[Spec] = [
        ("bandwidth", "bandwidth", {"bytes": 2**31}),
        ("launch", "launch", {"launches": 1000}),
        ("moe-qwen3-30b", "moe_layer", qwen),
        ("verify-parts-qwen3-30b", "verify_parts", parts),
        ("steps-qwen3-30b", "decode_step", QWEN3_30B_MODEL | steps),
        ("moe-fp8-qwen3-30b", "moe_layer", fp8),
        ("moe-deepseek-lite", "moe_layer", lite),
        gqa,
        ("moe-mixtral", "moe_layer", mixtral),
        mla,
        ("lm-head", "lm_head", head),
        ("gemm", "gemm", gemm),
    ]
    if deep:
        specs.insert(-1, ("moe-deepseek-v3", "moe_layer", v3))
    return specs


GRAPH_NODE_BYTES = 64 * 2**10
"""Device memory of one node of an instantiated graph: 362, 395 and 458 MB were seen for 500, 1000
and 2000 kernels (driver 470, forums.developer.nvidia.com/t/244901); newer drivers may need less.
[bytes]"""
NODES_PER_LAYER = {"moe_layer": 12, "decode_step": 40, "verify_parts": 40}
"""Kernels of one captured layer, counted in the code of the blocks and rounded up. [-]"""
ITEM_BYTES = {"float32": 4, "float8_e4m3fn": 1}
"""Size of a number where it is not 2. [bytes]"""
TRITON_S = {"moe_layer": 8.0, "decode_step": 6.0, "verify_parts": 6.0, "attention_decode": 4.0}
"""Time that compiling the Triton kernels of a block is assumed to take. [s]"""
CPU_COMPUTE = {"verify_parts": 1.4, "float8_e4m3fn": 30.0}
"""How much longer than reading their bytes one CPU (EPYC Turin, one thread) took over passes of
many tokens and over products in fp8, which it has no instructions for. [-]"""


def price(
    preset: str,
    op: str,
    params: dict[str, Any],
    device: Device,
    rounds: int,
    *,
    compiled: bool = False,
) -> float:
    """Expected wall time of a block [s]: building weights, checking, warm-up, then rounds x cases.

    An accelerator runs every case twice a round, between them the control kernel. compiled: an
    earlier block has had this one's Triton kernels compiled.
    """
    cpu = device.backend == "cpu"
    bandwidth = device.assumed_bandwidth_bytes_per_s * (1.0 if cpu else 0.6)
    cases, swept_bytes, built_bytes = volume(op, params)
    fill = built_bytes / (1.0e9 if cpu else 5e11)
    per_case = 0.02 if cpu else 0.3  # check against float64, warm-up, graph capture
    compiling = (
        0.0 if cpu or compiled or params.get("dtype") == "float8_e4m3fn" else TRITON_S.get(op, 0.0)
    )
    per_sample, calls = (
        (0.6e-3, 1) if cpu else (2.5e-3, 2)
    )  # the control kernel (0.4 ms on a CPU), a spin of 1.5 ms
    if not cpu and op in ("decode_step", "verify_parts"):
        per_sample = 10e-3  # routing of every layer is drawn on the host
    if preset == "smoke":
        per_case = 0.02
        compiling = 0.0
    if cpu:
        swept_bytes *= CPU_COMPUTE.get(params.get("dtype", ""), 1.0) * CPU_COMPUTE.get(op, 1.0)
    sampling = (rounds + 4) * (calls * swept_bytes / bandwidth + cases * per_sample)
    return round(0.3 + compiling + fill + cases * per_case + sampling, 1)


def memory(op: str, params: dict[str, Any], device: Device) -> float:
    """Memory of a block at its widest: weights, caches, and the largest captured graph's tensors.
    [bytes]"""
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
        latent = params.get("latent_width", 0) + params.get("rope_width", 0)
        width = latent or 2 * params["n_kv_heads"] * params["head_dim"]
        return max(
            max(2.0 * b * c * width * size, 3.0 * device.cache_bytes)
            for b, _, c in params["points"]
        )
    if op not in ("decode_step", "verify_parts"):
        return 0.0
    token = 2 * params["n_kv_heads"] * params["head_dim"] * size * params["context"]
    layers = params["n_layers"] if isinstance(params["n_layers"], list) else [params["n_layers"]]
    if op == "verify_parts":  # one batch at a time, its parts share a session
        return float(max(params["tokens"]) * layers[0] * token)
    return float(max(params["batches"]) * len(params["queries"]) * sum(layers) * token)


def alignment_points(points: list[list[Any]]) -> list[list[Any]]:
    """Points of a MoE block at which alignment is measured apart: all token counts of its middle
    k."""
    plain = [point for point in points if point[3]["name"] == "independent"]
    ks = sorted({point[0] for point in plain})
    return [point for point in plain if point[0] == ks[len(ks) // 2]]


def verify_shapes(params: dict[str, Any]) -> list[tuple[int, int]]:
    """(sequences, tokens of each) of a verify_parts block: every token count that `queries` divide
    it into. [-]"""
    return [(n // q, q) for n in params["tokens"] for q in params["queries"] if n % q == 0]


def volume(op: str, params: dict[str, Any]) -> tuple[int, float, float]:
    """(cases, bytes moved by one round over all cases, bytes of weights to build)."""
    size = item_bytes(params)
    if op == "moe_layer":
        n = params["n_experts"]
        expert = 3 * params["hidden_size"] * params["expert_width"] * size
        share = [n * (1 - (1 - k / n) ** (b * q)) for k, b, q, _ in params["points"]]
        shared = 3 * params["hidden_size"] * params["shared_width"] * size * len(share)
        cases = len(share) + len(alignment_points(params["points"]))
        return (
            cases,
            params["layers"] * (sum(share) * expert + shared),
            params["layers"] * n * expert,
        )
    if op in ("decode_step", "verify_parts"):
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
    width = (
        2 * params["n_kv_heads"] * params["head_dim"]
        if op == "attention_decode"
        else params["latent_width"]
    )
    kv = sum(b * c * width * size for b, _, c in params["points"])
    return len(params["points"]), 8.0 * kv, 8.0 * kv


def _step_volume(op: str, params: dict[str, Any], size: int) -> tuple[int, float, float]:
    n = params["n_experts"]
    k = params["n_active"]
    expert = 3 * params["hidden_size"] * params["expert_width"] * size
    head = params["hidden_size"] * params["vocab_size"] * size
    layers = params["n_layers"] if isinstance(params["n_layers"], list) else [params["n_layers"]]

    def step(batch: int, q: int, depth: int) -> float:
        return depth * n * (1 - (1 - k / n) ** (batch * q)) * expert + head

    built = max(layers) * n * expert + head
    if op == "verify_parts":
        parts = 2 + len(params["samplers"])
        moved = [step(b, q, layers[0]) * parts for b, q in verify_shapes(params)]
        sampled = (
            sum(b * q for b, q in verify_shapes(params))
            * len(params["samplers"])
            * params["vocab_size"]
            * 26.0
        )
        return parts * len(moved), sum(moved) + sampled, built
    moved = [
        step(b, q, depth) for b in params["batches"] for q in params["queries"] for depth in layers
    ]
    return len(moved), sum(moved), built
