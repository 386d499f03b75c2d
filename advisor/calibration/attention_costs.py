"""Which attention record serves a cache format, and what a smaller cache is worth where its own record says nothing."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.calibration.attention_fit import (
    GROUPED_BLOCK_ROWS,
    KV_BYTES,
    SHARPNESS,
    assumed_rate,
    latent_block_rows,
)
from advisor.calibration.choice import Choice, choose
from advisor.calibration.records import FitRecord, Operation
from advisor.hardware import Hardware, effective_bandwidth
from advisor.kernel_costs import AttentionCost
from advisor.prediction import Tier

ROOFLINE_T0_S = 11e-6
"""Median over the fitted tables of ten accelerators. [s]"""


@dataclass(frozen=True)
class PricedAttention:
    """Constants of an attention core, the record behind them, and remarks on the cache's format."""

    cost: AttentionCost
    choice: Choice
    note: str = ""


def attention_cost(
    hardware: Hardware, records: tuple[FitRecord, ...], engine: str, op: Operation, kv_dtype: str
) -> PricedAttention | None:
    """Constants of grouped (`attention`) or latent (`mla`) attention. None where no record serves.

    A record of a smaller cache that reads a token no faster than the same engine's 16-bit record does is refused: it
    times a kernel that the engine would not choose. The engine's 16-bit record then serves, at the smaller cache's
    bytes where another engine's tables show that these pay on this accelerator, else at the 16-bit time.
    """
    kept = tuple(record for record in records if not _refused(records, record))
    small = choose(kept, op, engine, "bf16", kernel_ending=_ending(kv_dtype))
    if kv_dtype == "bf16":
        return None if small is None else PricedAttention(_cost(hardware, op, small), small)
    plain = choose(records, op, engine, "bf16", kernel_ending=_ending("bf16"))
    own = plain is not None and plain.record.engine == engine
    if small is not None and (small.record.engine == engine or not own):
        return PricedAttention(_cost(hardware, op, small), small)
    if plain is None:
        return None
    measured = any(r.op == op and r.engine == engine and _format(r) == kv_dtype for r in records)
    why = "its kernel was measured no faster than the 16-bit one" if measured else "its kernel was not measured"
    start = f"{kv_dtype} KV cache: {why} under {plain.record.engine} {plain.record.version}; "
    if small is not None:
        note = f"{start}the 16-bit kernel's rate at {kv_dtype} bytes is assumed, as {small.record.engine} reaches."
        return PricedAttention(_cost(hardware, op, plain), plain, note)
    slower = KV_BYTES["bf16"] / KV_BYTES[kv_dtype]
    return PricedAttention(_cost(hardware, op, plain, slower), plain, f"{start}the 16-bit cache's time is assumed.")


def _refused(records: tuple[FitRecord, ...], record: FitRecord) -> bool:
    """Whether `record` is of a smaller cache and saves nothing against the same engine's 16-bit record."""
    if record.op not in ("attention", "mla") or _format(record) == "bf16":
        return False
    plain = choose(records, record.op, record.engine, "bf16", kernel_ending=_ending("bf16"))
    return plain is not None and plain.record.engine == record.engine and not saves(record, plain.record)


def saves(small: FitRecord, plain: FitRecord) -> bool:
    """Whether a smaller cache's kernel reads a cached token in less time than the 16-bit one."""
    return _token_time(small) < _token_time(plain)


def _token_time(record: FitRecord) -> float:
    """Seconds to read one element of the cache, of whatever bytes. [s]"""
    return record.value("s_per_byte") * KV_BYTES[_format(record)]


def _format(record: FitRecord) -> str:
    """Format of the cache that a record was measured with."""
    return record.kernel_source.rpartition("+kv-")[2]


def _ending(kv_dtype: str) -> str:
    return f"+kv-{kv_dtype}"


def _cost(hardware: Hardware, op: Operation, choice: Choice, slower_by: float = 1.0) -> AttentionCost:
    record = choice.record
    return AttentionCost(
        t0_s=record.value("t0_s"),
        bandwidth_bytes_per_s=1.0 / (record.value("s_per_byte") * slower_by),
        flops_per_s=1.0 / record.value("s_per_flop"),
        tier=Tier.FITTED,
        log_sd=choice.log_sd,
        sharpness=SHARPNESS,
        block_rows=_block_rows(hardware, op),
    )


def roofline_attention(hardware: Hardware, op: Operation, log_sd: float) -> AttentionCost:
    """Constants of an accelerator without attention tables, from its profile."""
    return AttentionCost(
        t0_s=ROOFLINE_T0_S,
        bandwidth_bytes_per_s=effective_bandwidth(hardware, "bf16").value,
        flops_per_s=assumed_rate(hardware),
        tier=Tier.ROOFLINE,
        log_sd=log_sd,
        sharpness=SHARPNESS,
        block_rows=_block_rows(hardware, op),
    )


def _block_rows(hardware: Hardware, op: Operation) -> float:
    return latent_block_rows(hardware) if op == "mla" else GROUPED_BLOCK_ROWS
