"""One module per tool, with a `Format` for each kind of file it writes."""

from __future__ import annotations

from advisor.measured.readers.aiperf import CSV as AIPERF_CSV
from advisor.measured.readers.aiperf import JSON as AIPERF_JSON
from advisor.measured.readers.aiperf import RECORDS as AIPERF_RECORDS
from advisor.measured.readers.base import Format
from advisor.measured.readers.decode_matrix import MATRIX
from advisor.measured.readers.guidellm import GUIDELLM_CSV, GUIDELLM_JSON
from advisor.measured.readers.inferencex import AGGREGATE, ARGUED, LOCAL, TURNS
from advisor.measured.readers.llama_benchy import CSV as BENCHY_CSV
from advisor.measured.readers.llama_benchy import JSON as BENCHY_JSON
from advisor.measured.readers.llama_benchy import PRINTED as BENCHY_PRINTED
from advisor.measured.readers.ours import ENGINE_STEPS, LOG, RECORDS, TABLE, TEMPLATE
from advisor.measured.readers.ours import SWEEP as OUR_SWEEP
from advisor.measured.readers.sglang import ONE_BATCH, SERVING, SPECFORGE, SPECULATIVE
from advisor.measured.readers.step_logs import SGLANG_STEPS, VLLM_STEPS
from advisor.measured.readers.trtllm import LOG as TRTLLM_LOG
from advisor.measured.readers.trtllm import REPORT as TRTLLM_REPORT
from advisor.measured.readers.vllm import BLOCK, FORWARD, LATENCY, SERVE, SWEEP, THROUGHPUT

FORMATS: tuple[Format, ...] = (
    TEMPLATE,
    RECORDS,
    SERVE,
    LATENCY,
    THROUGHPUT,
    SWEEP,
    FORWARD,
    BLOCK,
    SERVING,
    ONE_BATCH,
    SPECULATIVE,
    SPECFORGE,
    GUIDELLM_JSON,
    GUIDELLM_CSV,
    AIPERF_JSON,
    AIPERF_CSV,
    AIPERF_RECORDS,
    TABLE,
    LOG,
    AGGREGATE,
    TURNS,
    LOCAL,
    ARGUED,
    TRTLLM_LOG,
    TRTLLM_REPORT,
    BENCHY_JSON,
    BENCHY_PRINTED,
    BENCHY_CSV,
    MATRIX,
    OUR_SWEEP,
    ENGINE_STEPS,
    VLLM_STEPS,
    SGLANG_STEPS,
)
"""In the order of docs/formats.md; the first of equally good scores wins."""
