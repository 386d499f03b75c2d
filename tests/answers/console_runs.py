"""Texts as somebody pastes them: launch lines of vLLM and the console blocks of
`vllm bench serve`."""

from __future__ import annotations

from advisor.answers.diagnosis.diagnose import Diagnosis, diagnose
from advisor.answers.diagnosis.runs import UserFile

PLACE = {"hardware_id": "h200-sxm"}
DRAFTED = "drafted.txt"
PLAIN = "plain.txt"
# Graphs for every round: the rules that look at graphs have runs of their own.
_SERVES = "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 1 --max-cudagraph-capture-size 4096"
_CLIENT = (
    "Namespace(backend='vllm', model='Qwen/Qwen3-30B-A3B', dataset_name='%s', max_concurrency=%d, "
    "num_prompts=%d)"
)


def launch(k: int = 0, flags: str = "") -> str:
    """A launch line, with an EAGLE-3 head where K is not 0."""
    head = (
        '{"method": "eagle3", "model": "RedHatAI/Qwen3-30B-A3B-speculator.eagle3", '
        '"num_speculative_tokens": %d}'
    )
    return f"{_SERVES} {flags}" + (f" --speculative-config '{head % k}'" if k else "") + "\n"


def block(
    token_ms: float,
    length: float | None = None,
    batch: int = 256,
    first_ms: float = 300.0,
    dataset: str = "sharegpt",
    output: int = 512,
) -> str:
    """What a benchmark prints of a run at a time per token, with an accepted length where it
    drafts."""
    n = 4 * batch
    latency_s = (first_ms + (output - 1) * token_ms) / 1e3
    rate = batch * output / latency_s
    counted = f"Acceptance length:                       {length}\n" if length is not None else ""
    return (
        f"{_CLIENT % (dataset, batch, n)}\n============ Serving Benchmark Result ============\n"
        f"Successful requests:                     {n}\nMaximum request concurrency:             "
        f"{batch}\n"
        f"Benchmark duration (s):                  {n * output / rate:.2f}\n"
        f"Total input tokens:                      {224 * n}\nTotal generated tokens:             "
        f"     {output * n}\n"
        f"Output token throughput (tok/s):         {rate:.2f}\n"
        f"Mean TTFT (ms):                          {first_ms}\nMean TPOT (ms):                    "
        f"      {token_ms}\n"
        f"Mean ITL (ms):                           {token_ms * (length or 1.0):.2f}\n{counted}"
        "==================================================\n"
    )


def of_files(*texts: tuple[str, str], **values: str) -> Diagnosis:
    """The diagnosis of files of these names and texts."""
    return diagnose([UserFile(name, text.encode()) for name, text in texts], PLACE | values)


def drafts_by_place(found: Diagnosis) -> dict[str, int]:
    """K of every predicted run by its file."""
    return {place.partition(",")[0]: compared.n_draft for place, compared in found.comparisons}


def found_in(found: Diagnosis, rule: str) -> list[str]:
    """Files in which a rule is found."""
    return [
        line.partition(",")[0]
        for one in found.findings
        if one.rule.id == rule
        for line in one.places
    ]
