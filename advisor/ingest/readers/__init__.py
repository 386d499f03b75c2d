"""One reader per outside format.

A reader is a module with FORMAT_ID, FORMAT_NAME, RECOGNISED_BY, `detect(sample) -> float` (0 to 1, from the content
alone) and `read(sample) -> Draft`.
"""

from types import ModuleType

from advisor.ingest.readers import (
    aiperf_csv,
    aiperf_json,
    aiperf_records,
    benchmark_moe,
    canonical_csv,
    guidellm_csv,
    guidellm_json,
    inferencex,
    kernel_table,
    profiler_sweep,
    sglang_one_batch,
    sglang_serving,
    sglang_speculative,
    vllm_forward,
    vllm_latency,
    vllm_serve,
    vllm_sweep,
    vllm_throughput,
)

READERS: tuple[ModuleType, ...] = (
    canonical_csv,
    vllm_serve,
    vllm_latency,
    vllm_throughput,
    vllm_sweep,
    vllm_forward,
    sglang_serving,
    sglang_one_batch,
    sglang_speculative,
    guidellm_json,
    guidellm_csv,
    aiperf_json,
    aiperf_csv,
    aiperf_records,
    kernel_table,
    benchmark_moe,
    inferencex,
    profiler_sweep,
)
"""In the order of docs/formats.md; the first of equally good scores wins."""
