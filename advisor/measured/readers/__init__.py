"""One module per tool, with a `Format` for each kind of file it writes."""

from __future__ import annotations

from advisor.measured.readers import (
    aiperf,
    decode_matrix,
    guidellm,
    inferencex,
    llama_benchy,
    llama_cpp,
    ours,
    sglang,
    step_logs,
    trtllm,
    vllm,
)
from advisor.measured.readers.base import Format

FORMATS: tuple[Format, ...] = (
    *ours.FORMATS,
    *(*vllm.FORMATS, *sglang.FORMATS, *guidellm.FORMATS, *aiperf.FORMATS),
    *ours.KERNELS,
    *(*inferencex.FORMATS, *trtllm.FORMATS, *llama_benchy.FORMATS, *llama_cpp.FORMATS),
    *decode_matrix.FORMATS,
    *ours.PROFILED,
    *step_logs.FORMATS,
)
"""In the order of docs/formats.md; the first of equally good scores wins."""
