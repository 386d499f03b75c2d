"""Replies of llama.cpp's server (`llama-server`): the object `timings` of each.

Read in ggml-org/llama.cpp, tools/server/server-task.cpp (`result_timings::to_json`). `predicted_ms`
begins at the first token, which the prompt gives; `draft_n` is absent where nothing was drafted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.upload import Sample
from advisor.measured.readers.base import (
    MS,
    FieldMap,
    Format,
    RawRows,
    field_maps,
    field_of,
    finish_serve,
    raw_points,
)
from advisor.text import number_of

_WANTS = ("timings.predicted_n", "timings.predicted_ms")
_MAPS: tuple[FieldMap, ...] = (
    *field_maps(MS, ttft_s="timings.prompt_ms"),
    *field_maps(output_tokens="timings.predicted_n"),
    *field_maps(input_tokens="usage.prompt_tokens|usage.input_tokens|tokens_evaluated"),
    *field_maps(_draft_tokens="timings.draft_n", _accepted="timings.draft_n_accepted"),
)


def read(sample: Sample) -> RawRows:
    """One row per reply: a time per token, and where it drafted the accepted length and K.

    A reply tells neither how many others were served beside it nor, without drafts, that it could
    have drafted: batch and K are asked for.
    """
    raw, records = raw_points(
        sample, _MAPS, finish_serve, models=("model", "__verbose.model"), engine="llama.cpp"
    )
    token_times_ms = [_token_time_ms(record) for record in records]
    raw.cells["tpot_s"] = Cells(token_times_ms, "timings.predicted_ms", MS)
    raw.cells["_drafts"] = Cells([_rounds(record) for record in records], "timings.draft_n")
    raw.cells["_positions"] = Cells([_most_drafts(each) for each in records], "speculative")
    raw.prefill["batch_size"] = 1
    return raw


def _after_first(record: Mapping[str, Any]) -> float | None:
    """Tokens of a reply but the first. None where there is no other, or no number."""
    n_tokens = number_of(field_of(record, "timings.predicted_n"))
    return None if n_tokens is None or n_tokens <= 1 else n_tokens - 1.0


def _token_time_ms(record: Mapping[str, Any]) -> Any:
    """Time per token after the first. What is no number is passed on so that the row is refused."""
    stated = field_of(record, "timings.predicted_ms")
    total_ms = number_of(stated)
    tokens = _after_first(record)
    return None if tokens is None else stated if total_ms is None else total_ms / tokens


def _rounds(record: Mapping[str, Any]) -> float | None:
    """Rounds of a reply that drafted: each gives one token beside those accepted. None without."""
    accepted = number_of(field_of(record, "timings.draft_n_accepted"))
    tokens = _after_first(record)
    rounds = 0.0 if tokens is None or accepted is None else tokens - accepted
    return rounds if rounds > 0 else None


def _most_drafts(record: Mapping[str, Any]) -> Any:
    """The longest draft that the server's settings allow, of a reply that drafted."""
    if not field_of(record, "timings.draft_n"):
        return None
    settings = field_of(record, "generation_settings")
    verbose = field_of(record, "__verbose.generation_settings")
    return field_of(settings, "speculative.n_max") or field_of(verbose, "speculative.n_max")


FORMATS = (Format.of_fields("llama_cpp", "llama.cpp server replies", 0.9, read, _WANTS),)
