"""SYNTHETIC benchmark tables whose every cell is in range and one of whose columns is in the wrong
unit or sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd

from tests.measured.refit_synthetic import synthetic_points

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
GPUS = 4
_INPUT = 1000.0
_OUTPUT = 200.0
Change = Callable[[pd.DataFrame], Mapping[str, object]]


@cache
def right(gpus: int = 1) -> pd.DataFrame:
    """A table that is right: the model's own times under slower hosts, 3 % noise, and what follows
    from them."""
    truth = {"round_host": 2.0, "host": 1.5, "routed": 1.1}
    placed = {"gpu_count": gpus, "tensor_parallel": gpus}
    frame = synthetic_points(
        BATCHES, (0, 1, 3, 5), truth=truth, noise=0.03, quantity="tpot_s", **placed
    )
    batch = frame["batch_size"].astype(float)
    tpot = frame["tpot_s"].astype(float)
    ttft = 0.02 + 0.001 * batch
    base = tpot.groupby(batch).transform("first")
    drafting = frame["draft_tokens_k"] > 0
    return frame.assign(
        metric=None,
        tpot_s=tpot,
        ttft_s=ttft,
        request_latency_s=ttft + (_OUTPUT - 1) * tpot,
        output_tok_per_s=batch * _OUTPUT / (ttft + (_OUTPUT - 1) * tpot),
        step_time_s=tpot * frame["accepted_length"].astype(float).fillna(1.0),
        speedup=np.where(drafting, base / tpot, np.nan),
    )


MINIMAL = (
    "hardware_id",
    "gpu_count",
    "tensor_parallel",
    "engine",
    "model_id",
    "drafter",
    "draft_tokens_k",
    "batch_size",
)
MINIMAL += ("input_tokens", "output_tokens", "accepted_length", "accepted_length_same_run")


def table(
    measured: tuple[str, ...],
    change: Change = lambda _: {},
    gpus: int = 1,
    drafts_only: bool = False,
) -> bytes:
    """The right table with these measured columns, changed; as a canonical CSV."""
    frame = right(gpus)
    frame = frame.assign(**change(frame))[[*MINIMAL, *measured]]  # type: ignore[arg-type]
    return (
        frame[frame["draft_tokens_k"] > 0 if drafts_only else slice(None)]
        .to_csv(index=False)
        .encode()
    )


def times(column: str, factor: float) -> Change:
    """A column times a factor, as its unit was confused."""
    return lambda f: {column: f[column] * factor}


def _with_prefill(f: pd.DataFrame) -> Mapping[str, object]:
    """A prefill as long as the decoding, and the request's latency over its tokens as time per
    token."""
    decoding = f["tpot_s"] * _OUTPUT
    return {"ttft_s": decoding, "request_latency_s": 2.0 * decoding, "tpot_s": 2.0 * f["tpot_s"]}


LATENCIES = ("tpot_s", "ttft_s", "request_latency_s")
ROUND = ("tpot_s", "step_time_s")
RATE = ("tpot_s", "output_tok_per_s")
CASES: dict[str, tuple[bytes, str, str]] = {}
"""By name: the file, what has to happen, and a word of the sentence that says so.

refused: rows or file; named: a warning; asked: a question; against: the refit is judged and not
written.
"""


def _case(name: str, outcome: str, word: str, data: bytes) -> None:
    CASES[name] = (data, outcome, word)


def cases() -> dict[str, tuple[bytes, str, str]]:
    """All of CASES, made on first use."""
    if CASES:
        return CASES
    for unit, factor in (
        ("microseconds", 1e3),
        ("nanoseconds", 1e6),
        ("seconds", 1e-3),
        ("kiloseconds", 1e-6),
    ):
        _case(
            f"time per token in {unit}",
            "refused",
            "unit in the header",
            table(("tpot_s",), times("tpot_s", factor)),
        )
    for unit, factor in (("microseconds", 1e3), ("seconds", 1e-3)):
        data = table(("step_time_s",), times("step_time_s", factor))
        _case(f"round in {unit}", "refused", "unit in the header", data)
    _case(
        "round in minutes",
        "refused",
        "step_time_s",
        table(("step_time_s",), times("step_time_s", 1 / 60)),
    )
    data = table(("tpot_s",), lambda f: {"tpot_s": 1.0 / f["tpot_s"]})
    _case("tokens per second as time per token", "refused", "tpot_s", data)
    data = table(RATE, times("output_tok_per_s", 60.0))
    _case("rate per minute", "refused", "more than the batch can give", data)
    data = table(
        RATE, lambda f: {"output_tok_per_s": f["output_tok_per_s"] * (_INPUT + _OUTPUT) / _OUTPUT}
    )
    _case("rate of all tokens as that of output", "refused", "prompt tokens", data)
    data = table(RATE, times("output_tok_per_s", 1 / GPUS), GPUS)
    _case("rate per GPU as total", "named", "per GPU", data)
    data = table(RATE, times("batch_size", 1 / GPUS), GPUS)
    _case("batch per GPU as total", "refused", "that of one GPU", data)
    data = table(LATENCIES, _with_prefill)
    _case("time per token with a long prefill", "named", "prefill", data)
    data = table(LATENCIES, times("ttft_s", 1e3))
    _case("first token in microseconds", "refused", "first token", data)
    data = table(ROUND, lambda f: {"tpot_s": f["step_time_s"]}, drafts_only=True)
    _case("round as time per token, with the round", "named", "one of them", data)
    data = table(ROUND, times("step_time_s", 1e3))
    _case("round alone in microseconds", "named", "step_time_s", data)
    _case(
        "speedup in percent", "refused", "percentage", table(("speedup",), times("speedup", 100.0))
    )
    data = table(
        ("speedup",),
        lambda f: {"speedup": 100.0 * (f["speedup"] - 1.0).where(f["speedup"] > 1.0, 0.01)},
    )
    _case("gain in percent as speedup", "refused", "percentage", data)
    data = table(("speedup", "tpot_s"), lambda f: {"speedup": 1.0 / f["speedup"]})
    _case("speedup inverted, with times", "named", "inverse", data)
    data = table(("speedup",), lambda f: {"speedup": 1.0 / f["speedup"]})
    _case("speedup inverted alone", "asked", "inverted", data)
    data = table(
        ("tpot_s",),
        lambda f: {"accepted_length": (f["accepted_length"] - 1.0) / f["draft_tokens_k"]},
    )
    _case("acceptance rate as accepted length", "refused", "accepted_length", data)
    data = table(("tpot_s",), lambda f: {"accepted_length": 100.0 * f["accepted_length"]})
    _case("accepted length in percent", "refused", "range of accepted_length", data)
    data = table(("tpot_s",), lambda f: {"accepted_length": f["draft_tokens_k"] + 1.0})
    _case("drafted tokens as accepted length", "named", "K + 1", data)
    data = table(
        ("tpot_s",),
        lambda f: {"tpot_s": f["tpot_s"] * (f["draft_tokens_k"] + 1.0)},
        drafts_only=True,
    )
    _case("time of K + 1 tokens as per token", "asked", "per round", data)
    data = table(("tpot_s",), times("tpot_s", GPUS), GPUS)
    _case("GPU-seconds per token", "asked", "GPUs", data)
    _case(
        "time per token over GPUs",
        "asked",
        "GPUs",
        table(("tpot_s",), times("tpot_s", 1 / GPUS), GPUS),
    )
    _case(
        "seconds under a header in ms",
        "named",
        "in seconds",
        table(("tpot_s",), times("tpot_s", 1e-3)),
    )
    data = table(("tpot_s",), times("input_tokens", 1e-3))
    _case("prompt in thousands of tokens", "named", "thousands", data)
    _case(
        "prompt in thousandths of tokens",
        "refused",
        "model those",
        table(("tpot_s",), times("input_tokens", 1e3)),
    )
    data = table(("verify_time_s",), lambda f: {"verify_time_s": f["step_time_s"] / 48})
    _case("verification of one layer", "refused", "verify_time_s", data)
    data = table(("tpot_s",), lambda f: {"tpot_s": f["step_time_s"]}, drafts_only=True)
    _case("round as time per token alone", "against", "bound", data)
    data = table(("step_time_s",), lambda f: {"step_time_s": f["tpot_s"]}, drafts_only=True)
    _case("time per token as round", "against", "off by", data)
    data = table(("speedup",), lambda f: {"speedup": (f["speedup"] - 1.0).clip(lower=0.01)})
    _case("gain as speedup", "against", "off by", data)
    data = table(("tpot_s",), lambda f: {"accepted_length": f["accepted_length"] - 1.0})
    _case("accepted length without its bonus token", "against", "off by", data)
    data = table(("tpot_s",), lambda f: {"tpot_s": f["tpot_s"] / f["batch_size"]})
    _case("time per token of the whole batch", "refused", "batch", data)
    return CASES
