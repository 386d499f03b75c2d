"""Runs of our own making: a server with and without speculation as its files tell of it, honest
unless changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from advisor.answers.diagnosis.physics import compare
from advisor.answers.diagnosis.runs import UserFile
from advisor.measured.run import Run

BATCH = 16
PROMPT = 1024
OUTPUT = 512
K = 3
LENGTH = 2.4
SHARES = [0.7, 0.45, 0.25]
RUN = {
    "hardware_id": "h200-sxm",
    "gpu_count": 1,
    "tensor_parallel": 1,
    "engine": "vllm",
    "engine_version": "0.33.0",
}
RUN |= {"model_id": "qwen3-30b-a3b", "drafter": "eagle3", "draft_tokens_k": K, "batch_size": BATCH}
RUN |= {
    "batch_kind": "max_concurrency",
    "input_tokens": PROMPT,
    "output_tokens": OUTPUT,
    "context_tokens": 1280,
}
RUN |= {"accepted_length": LENGTH, "accepted_length_same_run": 1}
VLLM = "vllm serve Qwen/Qwen3-30B-A3B --max-num-seqs 256 --max-num-batched-tokens 8192"
SPECULATIVE = (
    """ --speculative-config '{"method": "eagle3", "model": "head", "num_speculative_tokens": 3}'"""
)
SGLANG = "python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --cuda-graph-max-bs 128"
SGLANG_SPECULATIVE = (
    " --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --speculative-draft-model-path head --max-running-requests "
    "128"
)


@lru_cache(maxsize=8)
def predicted(
    engine: str = "vllm", version: str = "0.33.0", batch: int = BATCH
) -> Mapping[str, float]:
    """Time per token with and without drafts, and to the first token, as the model has them. [s]"""
    found = compare(Run({**RUN, "engine": engine, "engine_version": version, "batch_size": batch}))
    plain = found.row("plain")
    whole = found.row("round")
    assert found.first_token_s is not None
    return {
        "plain": plain.predicted,
        "drafting": whole.predicted / LENGTH,
        "first": found.first_token_s,
    }


def result(token_s: float, first_s: float, drafts: bool, **changes: Any) -> dict[str, Any]:
    """What `vllm bench serve` writes of an honest run with these times."""
    batch = changes.pop("batch", BATCH)
    output = changes.pop("output", OUTPUT)
    n = changes.pop("requests", 10 * BATCH)
    prompt = changes.pop("prompt", PROMPT)
    latency = first_s + (output - 1) * token_s
    rate = batch * output / latency
    record: dict[str, Any] = {
        "backend": "vllm",
        "model_id": "Qwen/Qwen3-30B-A3B",
        "gpu": "H200",
        "tp": "1",
    }
    record |= {
        "num_gpus": 1,
        "request_rate": "inf",
        "max_concurrency": batch,
        "num_prompts": n,
        "completed": n,
    }
    record |= {
        "duration": n * output / rate,
        "total_input_tokens": n * prompt,
        "total_output_tokens": n * output,
    }
    record |= {
        "output_throughput": rate,
        "total_token_throughput": rate * (prompt + output) / output,
    }
    record |= {
        "max_output_tokens_per_s": rate * 1.3,
        "mean_ttft_ms": first_s * 1e3,
        "mean_tpot_ms": token_s * 1e3,
    }
    record |= {
        "mean_e2el_ms": latency * 1e3,
        "mean_itl_ms": token_s * 1e3 * (LENGTH if drafts else 1.0),
    }
    record |= {"dataset": "sharegpt", "engine_version": "0.33.0", "spec_k": K if drafts else 0}
    if drafts:
        record |= {
            "drafter": "eagle3",
            "spec_decode_acceptance_length": LENGTH,
            "spec_decode_num_drafts": 10_000,
            "spec_decode_draft_tokens": 10_000 * K,
            "spec_decode_accepted_tokens": round(10_000 * (LENGTH - 1)),
            "spec_decode_per_position_acceptance_rates": SHARES,
        }
    return record | changes


@dataclass
class Pair:
    """The two arms as files: results, launch lines, and the log of the speculative server."""

    engine: str = "vllm"
    plain: dict[str, Any] = field(default_factory=dict)
    drafting: dict[str, Any] = field(default_factory=dict)
    launch: str = ""
    log: str = ""
    repeats: tuple[float, ...] = ()
    """Times per token of the plain arm's runs, over its own."""
    batch: int = BATCH

    def files(self) -> list[UserFile]:
        """What a user hands over."""
        times = predicted(self.engine, batch=self.batch)
        asked = {} if self.batch == BATCH else {"batch": self.batch, "requests": 10 * self.batch}
        first = 1.2 * times["first"]
        own = {
            "backend": self.engine,
            "engine_version": {"vllm": "0.33.0", "sglang": "0.5.23"}[self.engine],
        }
        plain = result(times["plain"], first, False, **own | asked | self.plain)
        repeated = [
            {**plain, "mean_tpot_ms": plain["mean_tpot_ms"] * share} for share in self.repeats
        ]
        drafting = result(times["drafting"], first, True, **own | asked | self.drafting)
        lines = "\n".join(json.dumps(one) for one in [*(repeated or [plain]), drafting])
        base = VLLM if self.engine == "vllm" else SGLANG
        added = SPECULATIVE if self.engine == "vllm" else SGLANG_SPECULATIVE
        server = "\n".join([self.launch or base + added, self.log])
        return [
            UserFile("runs.jsonl", lines.encode()),
            UserFile("plain.sh", base.encode()),
            UserFile("server.log", server.encode()),
        ]
