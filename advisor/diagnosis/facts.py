"""What can be known of a run beyond its measured columns: names, units, and where each stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.diagnosis.physics import Comparison
from advisor.ingest import COLUMNS

Facts = Mapping[str, Any]
"""Values by name: columns of a point (advisor.ingest) and names of FACTS; what is unknown is absent."""


@dataclass(frozen=True)
class Fact:
    """Something a file may tell of a server, its log or its client."""

    meaning: str
    where: str
    """What to collect, so that it is known."""
    unit: str = "1"


_LINE = "the server's launch line or its printed arguments"
_LOG = "the server's log while it decodes"
_CLIENT = "the benchmark's own result file"
FACTS = {
    "launch_line": Fact("the server's arguments are known", _LINE),
    "speculation_on": Fact("the server was started with speculation", _LINE),
    "max_num_seqs": Fact("requests that the server admits", f"{_LINE} (vLLM --max-num-seqs)"),
    "max_running_requests": Fact("requests that the server admits", f"{_LINE} (SGLang --max-running-requests)"),
    "max_num_batched_tokens": Fact("tokens of a step", f"{_LINE} (vLLM --max-num-batched-tokens)", "tokens"),
    "graphs_off": Fact("CUDA graphs are switched off", f"{_LINE} (--enforce-eager, --disable-cuda-graph)"),
    "graph_mode": Fact("mode of CUDA graphs", f"{_LINE} or {_LOG} (cudagraph_mode)"),
    "largest_graph": Fact("tokens of the largest captured graph", f"{_LINE} (cudagraph_capture_sizes)", "tokens"),
    "largest_graph_batch": Fact("requests of the largest captured graph", f"{_LINE} (SGLang --cuda-graph-max-bs)"),
    "draft_graphs_off": Fact("the drafter runs without CUDA graphs", f"{_LINE} (enforce_eager of the drafter)"),
    "asynchronous": Fact(
        "the host prepares a round while another runs", f"{_LINE} (--no-async-scheduling, --disable-overlap-schedule)"
    ),
    "k_table": Fact("K by batch size", f"{_LINE} (num_speculative_tokens_per_batch_size)"),
    "data_parallel": Fact("data-parallel ranks", f"{_LINE} (--data-parallel-size, --dp-size)"),
    "draft_topk": Fact("branches of a draft tree at each depth", f"{_LINE} (SGLang --speculative-eagle-topk)"),
    "kv_pool_tokens": Fact(
        "tokens that the KV cache holds", f"{_LOG} (GPU KV cache size, max_total_num_tokens)", "tokens"
    ),
    "running_requests": Fact("requests that decode, mean over the log", _LOG),
    "waiting_requests": Fact("requests that wait, mean over the log", _LOG),
    "logged_tok_per_s": Fact("output rate, median over the log", _LOG, "tokens/s"),
    "prefix_hit_share": Fact("prompt tokens found in the prefix cache", f"{_LOG} (Prefix cache hit rate)"),
    "decode_without_graph": Fact("logged decode batches without a CUDA graph", f"{_LOG} (cuda graph: False)"),
    "requests_completed": Fact("requests that ended well", _CLIENT),
    "requests_asked": Fact("requests that were sent", _CLIENT),
    "request_rate": Fact("requests that the client sends in a second", _CLIENT, "1/s"),
    "mean_concurrency": Fact("requests in flight, mean over the run", _CLIENT),
    "peak_tok_per_s": Fact("peak of the output rate", _CLIENT, "tokens/s"),
    "tokens_generated": Fact("tokens that the server says it generated", _CLIENT, "tokens"),
    "tokens_retokenized": Fact("tokens of the text, counted again", _CLIENT, "tokens"),
    "temperature": Fact("temperature of sampling", _CLIENT),
    "first_tpot_s": Fact("time per token of the first of runs alike", "the same run, repeated three times", "s"),
    "later_tpot_s": Fact("median time per token of the runs after it", "the same run, repeated three times", "s"),
}
"""Facts beside the columns of a point, by name."""


@dataclass(frozen=True)
class Run:
    """One measured row with all that is known of it, of the plain run beside it and of what is predicted."""

    facts: Facts
    file: str = ""
    line: int = 0
    plain: Facts = field(default_factory=dict)
    """The run without speculation that it is compared with; empty where there is none."""
    comparison: Comparison | None = None
    not_compared: str = ""
    """Why nothing is predicted for it."""
    assumed: str = ""
    """Whose word its accelerators are; empty where the run states them."""

    def number(self, name: str) -> float | None:
        """A fact as a finite number. `plain:NAME` is that of the plain run. None where it is unknown."""
        return as_number(self.value(name))

    def text(self, name: str) -> str:
        """A fact as text. Empty where it is unknown."""
        value = self.value(name)
        return "" if value is None else str(value)

    def value(self, name: str) -> Any:
        """A fact as it is. None where it is unknown."""
        side, _, rest = name.rpartition(":")
        return (self.plain if side == "plain" else self.facts).get(rest)

    def has(self, needed: str) -> bool:
        """Whether it knows one of the facts `a|b`, or has a prediction (`prediction`)."""
        return any(
            self.comparison is not None if name == "prediction" else self.value(name) is not None
            for name in needed.split("|")
        )

    @property
    def drafts(self) -> bool:
        """Whether speculation was on, as far as is known."""
        k = self.number("draft_tokens_k")
        return bool(k) if k is not None else bool(self.value("speculation_on"))


def as_number(value: Any) -> float | None:
    """A cell as a finite number. None for anything else."""
    if isinstance(value, bool):
        return float(value)
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def fact_words(needed: str) -> str:
    """Name of a fact that a quantity needs, and where it is found."""
    return " or ".join(_words(name) for name in needed.split("|"))


def _words(name: str) -> str:
    side, _, rest = name.rpartition(":")
    whose = "of the plain run, " if side == "plain" else ""
    if rest == "prediction":
        return "a prediction (accelerator, model, engine, batch and K)"
    if rest in FACTS:
        return f"{whose}{rest} ({FACTS[rest].meaning}: {FACTS[rest].where})"
    column = COLUMNS["points"].get(rest)
    return f"{whose}{rest} ({column.meaning[0].lower()}{column.meaning[1:]})" if column else whose + rest


def unit_of(name: str) -> str:
    """Unit of a fact or column, `1` where it has none."""
    rest = name.rpartition(":")[2]
    if rest in FACTS:
        return FACTS[rest].unit
    column = COLUMNS["points"].get(rest)
    return column.unit if column is not None and column.unit else "1"


def known_names(names: Iterable[str]) -> list[str]:
    """Names that are neither a fact, a column nor a prediction."""
    known = {*FACTS, *COLUMNS["points"], "prediction"}
    return [name for name in names if name.rpartition(":")[2] not in known]
