"""A run of `vllm bench serve` that sends at a rate."""

from __future__ import annotations

import json


def open_run(**fields: object) -> bytes:
    """A run of `vllm bench serve` at 5 requests a second, 200 tokens each, 60 requests at its
    peak."""
    run = {
        "backend": "vllm",
        "model_id": "Qwen/Qwen3-30B-A3B",
        "request_rate": 5.0,
        "max_concurrency": None,
    }
    run |= {
        "duration": 40.0,
        "completed": 200,
        "total_input_tokens": 200 * 512,
        "total_output_tokens": 200 * 200,
    }
    run |= {
        "output_throughput": 1000.0,
        "total_token_throughput": 3560.0,
        "mean_ttft_ms": 60.0,
        "mean_tpot_ms": 9.0,
    }
    run |= {"max_concurrent_requests": 60, "spec_k": "0"}
    return json.dumps(run | fields).encode()
