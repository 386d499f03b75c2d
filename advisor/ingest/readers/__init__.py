"""One module per tool, with a `Format` for each kind of file it writes."""

from advisor.ingest.raw import Format
from advisor.ingest.readers import aiperf, console, guidellm, inferencex, moe_kernels, ours, sglang, vllm

FORMATS: tuple[Format, ...] = (
    ours.TEMPLATE,
    ours.RECORDS,
    vllm.SERVE,
    vllm.LATENCY,
    vllm.THROUGHPUT,
    vllm.SWEEP,
    vllm.FORWARD,
    console.BLOCK,
    sglang.SERVING,
    sglang.ONE_BATCH,
    sglang.SPECULATIVE,
    sglang.SPECFORGE,
    guidellm.JSON,
    guidellm.CSV,
    aiperf.JSON,
    aiperf.CSV,
    aiperf.RECORDS,
    moe_kernels.TABLE,
    moe_kernels.LOG,
    inferencex.AGGREGATE,
    inferencex.TURNS,
    inferencex.LOCAL,
    inferencex.ARGUED,
    ours.SWEEP,
)
"""In the order of docs/formats.md; the first of equally good scores wins."""
