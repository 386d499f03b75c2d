"""A sweep whose answers can be read off: every figure is made up, nothing was predicted."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd

from advisor.answers.explore.cells import COLUMNS, SETTINGS
from advisor.answers.explore.sweep_files import Sweep, sweep_from
from advisor.predict.scenario_fields import FIELDS

MAKER = {"release": "1.2.3", "constants": "0123456789ab"}


def row(model: str, hardware: str, batch: int, n_draft: int, **changes: Any) -> dict[str, Any]:
    """One row at the defaults of a scenario; the speedup is 1 + K / 10 unless said otherwise."""
    settings = {name: FIELDS[name].default for name in SETTINGS}
    speedup = float(changes.get("speedup", 1.0 + n_draft / 10))
    found = settings | {
        "acceptance": "2.4@3",
        "model_id": model,
        "hardware_id": hardware,
        "batch_size": batch,
        "n_draft": n_draft,
        "speedup": speedup,
        "speedup_low": speedup - 0.1,
        "speedup_high": speedup + 0.1,
        "p_gain": 0.9 if n_draft else 0.0,
        "expected_loss": 0.1 if n_draft == 0 else 0.02 * n_draft,
        "recommended": n_draft == 1,
        "tpot_ms": 2.0 * batch / speedup,
        "tokens_per_s_per_gpu": 500.0 * speedup,
        "accepted_length": 1.0 + n_draft / 2,
        "plain_step_ms": 2.0 * batch,
        "round_ms": 3.0 * batch,
        "tier": "fitted",
        "fits": True,
        "reason": "",
    }
    found |= changes
    for name, low, high in (
        ("tpot_ms", "tpot_low_ms", "tpot_high_ms"),
        ("tokens_per_s_per_gpu", "tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high"),
    ):
        found |= {low: 0.8 * found[name], high: 1.2 * found[name]}
    return found


def impossible(model: str, hardware: str, batch: int, reason: str) -> dict[str, Any]:
    """A row of a combination that cannot be."""
    empty = dict.fromkeys(COLUMNS) | {
        "model_id": model,
        "hardware_id": hardware,
        "batch_size": batch,
    }
    return empty | {
        "n_draft": -1,
        "recommended": False,
        "tier": "",
        "fits": False,
        "reason": reason,
    }


def frame_of(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(COLUMNS)


def grid() -> pd.DataFrame:
    """Two models, two accelerators, batches 1 and 8, K from 0 to 2; `big` fits on one of them
    alone."""
    rows = [
        row(
            model,
            hardware,
            batch,
            n_draft,
            **({"fits": False} if (model, hardware) == ("big", "h100-sxm") else {}),
        )
        for model in ("small", "big")
        for hardware in ("h100-sxm", "b200-sxm")
        for batch in (1, 8)
        for n_draft in (0, 1, 2)
    ]
    return frame_of(*rows)


def sweep(frame: pd.DataFrame | None = None) -> Sweep:
    return sweep_from(grid() if frame is None else frame, MAKER)


def parquet(frame: pd.DataFrame, maker: dict[str, str] | None = None) -> bytes:
    """A frame as any writer would leave it."""
    out = io.BytesIO()
    frame = frame.copy()
    frame.attrs = {} if maker is None else dict(maker)
    frame.to_parquet(out, index=False)
    return out.getvalue()
