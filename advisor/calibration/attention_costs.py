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
    """An attention core's constants, the record behind them, and what a reader must know about the cache's format."""

    cost: AttentionCost
    choice: Choice
    note: str = ""


def attention_cost(
    hardware: Hardware, records: tuple[FitRecord, ...], engine: str, op: Operation, kv_dtype: str
) -> PricedAttention | None:
    """Constants of grouped (`attention`) or latent (`mla`) attention; None where no record serves.

    A record of a smaller cache that reads a token no faster than the same engine's 16-bit record does is refused: it
    times a kernel that the engine would not choose. The 16-bit record then serves, at the smaller cache's bytes where
    another engine's tables show that these pay on this accelerator, else at the 16-bit time.
    """
    own = choose(records, op, engine, "bf16", kernel_ending=_ending(kv_dtype))
    plain = choose(records, op, engine if own is None else own.record.engine, "bf16", kernel_ending=_ending("bf16"))
    if kv_dtype == "bf16" or plain is None or (own is not None and saves(own.record, plain.record)):
        return None if own is None else PricedAttention(_cost(hardware, op, own), own)
    shown_by = sorted(
        {record.engine for record in records if record.engine != engine and _pays(records, op, record, kv_dtype)}
    )
    refused = "" if own is None else f"{_name(own.record)} was measured no faster with it than with a 16-bit one"
    why = refused or f"no table of {_name(plain.record)} with it"
    start = f"{kv_dtype} KV cache: {why}; "
    if shown_by:
        return PricedAttention(
            _cost(hardware, op, plain),
            plain,
            f"{start}the 16-bit kernel's rate at {kv_dtype} bytes is assumed, as {' and '.join(shown_by)} reach.",
        )
    slower = KV_BYTES["bf16"] / KV_BYTES[kv_dtype]
    return PricedAttention(_cost(hardware, op, plain, slower), plain, f"{start}the 16-bit cache's time is assumed.")


def saves(small: FitRecord, plain: FitRecord) -> bool:
    """Whether a smaller cache's kernel reads a cached token in less time than the 16-bit one."""
    return _token_time(small) < _token_time(plain)


def _token_time(record: FitRecord) -> float:
    """Seconds to read one element of the cache, of whatever bytes. [s]"""
    return record.value("s_per_byte") * KV_BYTES[record.kernel_source.rpartition("+kv-")[2]]


def _pays(records: tuple[FitRecord, ...], op: Operation, record: FitRecord, kv_dtype: str) -> bool:
    """Whether `record` is an engine's serving record of this cache format, and saves against its 16-bit one."""
    small = choose(records, op, record.engine, "bf16", kernel_ending=_ending(kv_dtype))
    plain = choose(records, op, record.engine, "bf16", kernel_ending=_ending("bf16"))
    if small is None or plain is None or small.record != record or plain.record.engine != record.engine:
        return False
    return saves(small.record, plain.record)


def _ending(kv_dtype: str) -> str:
    return f"+kv-{kv_dtype}"


def _name(record: FitRecord) -> str:
    return f"{record.engine} {record.version}'s {record.kernel_source.rpartition('+kv-')[0]} kernel"


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
