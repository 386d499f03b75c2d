"""The curve behind an answer as rows, for the command line, JSON and CSV."""

from __future__ import annotations

from typing import Any

from advisor.curve import Curve


def curve_rows(grid: Curve) -> list[dict[str, Any]]:
    """One row for each batch and K, components of the whole round in milliseconds; six significant digits."""
    names = list(grid.round_components)
    rows = []
    for i, batch in enumerate(grid.batches):
        for j, k in enumerate(grid.drafts):
            row: dict[str, Any] = {
                "batch_size": int(batch),
                "k_draft": int(k),
                "speedup": digits(grid.speedup[i, j]),
                "speedup_low": digits(grid.low[i, j]),
                "speedup_high": digits(grid.high[i, j]),
                "tier": str(grid.tier[i, j]),
                "extrapolated": bool(grid.extrapolated[i, j]),
                "accepted_length": digits(grid.accepted_length[j]),
                "verify_ratio": digits(grid.verify_ratio[i, j]),
                "distinct_experts_plain": digits(grid.distinct_plain[i]),
                "distinct_experts_verify": digits(grid.distinct_verify[i, j]),
                "tpot_ms": digits(grid.tpot_s[i, j] * 1e3),
            }
            row |= {f"{name}_ms": digits(grid.round_components[name][i, j] * 1e3) for name in names}
            rows.append(row)
    return rows


def digits(value: float) -> float:
    """Six significant digits: more than any band tells, and stable between machines."""
    return float(f"{float(value):.6g}")
