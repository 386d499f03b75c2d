"""The recommended K at one batch: the least expected loss, how sure that is, and what the other K lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.bands import BEST_K_OF_EACH
from advisor.curve import Curve, draft_odds, excess_loss, recommended
from advisor.setup import Setup


@dataclass(frozen=True)
class DraftRow:
    """One draft length at the target batch: what it gives, and its odds. The evidence of a recommendation."""

    n_draft: int
    speedup: float
    speedup_low: float
    speedup_high: float
    tpot_s: float
    tokens_per_s_per_gpu: float
    p_best: float
    """Share of draws in which it is the fastest. [-]"""
    p_gain: float
    """Share of draws in which it is faster than plain decoding; 0 for plain decoding itself. [-]"""
    expected_loss: float
    """Share of the speedup it gives up against each draw's fastest K, mean over the draws. [-]"""
    as_good: bool
    """Whether the noise of the draws does not tell its loss from the least one."""
    meets_limit: bool
    """Whether it keeps the limit on time per output token, where there is one."""
    recommended: bool


def draft_rows(setup: Setup, curve: Curve, row: int) -> tuple[DraftRow, ...]:
    """Every K at the curve's batch `row`, exactly one of them recommended.

    That is the smallest K that the noise does not tell from the least expected loss, among those that keep the
    scenario's limit on time per output token; among all where none does.
    """
    within = within_limit(setup, curve)[row]
    odds = draft_odds(curve.draws[:, row], within)
    equal = excess_loss(odds.loss, odds.noise, within) == 0.0
    chosen = int(recommended(odds.loss, odds.noise, within))
    return tuple(
        DraftRow(
            n_draft=int(k),
            speedup=float(curve.speedup[row, i]),
            speedup_low=float(curve.low[row, i]),
            speedup_high=float(curve.high[row, i]),
            tpot_s=float(curve.tpot_s[row, i]),
            tokens_per_s_per_gpu=float(curve.tokens_per_s_per_gpu[row, i]),
            p_best=float(odds.p_best[i]),
            p_gain=float(odds.p_gain[i]),
            expected_loss=float(odds.loss[i]),
            as_good=bool(equal[i]),
            meets_limit=bool(within[i]),
            recommended=i == chosen,
        )
        for i, k in enumerate(curve.drafts)
    )


def recommended_draft(setup: Setup, curve: Curve, row: int) -> int:
    """Index, along the curve's drafts, of the K recommended at its batch `row`. The rule of `draft_rows`."""
    within = within_limit(setup, curve)[row]
    odds = draft_odds(curve.draws[:, row], within)
    return int(recommended(odds.loss, odds.noise, within))


def meets_limit(setup: Setup, curve: Curve, row: int) -> bool:
    """Whether some K keeps the scenario's limit on time per output token at the curve's batch `row`."""
    return bool(within_limit(setup, curve)[row].any())


def others_text(rows: Sequence[DraftRow]) -> str:
    """Sentence on other K that do as well as the recommended one, and the nearest's cost. Empty for one K."""
    own = next(item for item in rows if item.recommended)
    rest = [item for item in rows if item is not own and item.n_draft > 0]
    if own.n_draft == 0 or not rest:
        return ""
    equal = [item.n_draft for item in rest if item.as_good]
    faster = [item for item in rest if item.as_good and item.speedup > own.speedup]
    worse = sorted((item for item in rest if not item.as_good), key=lambda item: item.expected_loss)[:1]
    said = [f"K = {_listed(equal)} {'does' if len(equal) == 1 else 'do'} as well"] if equal else []
    if faster:
        said[0] += f"{_shorter_text(own, faster)}"
    behind = f"on average K = {own.n_draft} is {own.expected_loss:.1%} behind {BEST_K_OF_EACH}"
    said += [f"{behind}, K = {item.n_draft} {item.expected_loss:.1%}" for item in worse]
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def _shorter_text(own: DraftRow, faster: Sequence[DraftRow]) -> str:
    """Why the recommended K is not the one with the highest speedup, where others that do as well show a higher one."""
    best = max(item.speedup for item in faster)
    lead = best / own.speedup - 1.0
    shown = f"{lead:.1%}" if lead >= 0.0005 else "under 0.1%"
    return f" (the lead of {shown} is within the noise, so the shortest is taken)"


def within_limit(setup: Setup, curve: Curve) -> NDArray[np.bool_]:
    """Mask of K that keep the scenario's limit on time per output token, [nB, nK]. All where there is none."""
    limit_ms = setup.scenario.max_tpot_ms
    if limit_ms is None:
        return np.ones(curve.tpot_s.shape, bool)
    return np.asarray(curve.tpot_s * 1e3 <= limit_ms)


def last_batch(setup: Setup, curve: Curve) -> int:
    """Largest batch of the curve that fits in memory. The curve's last where nothing fits. [-]"""
    end = int(curve.batches[-1])
    return min(setup.memory.largest_batch, end) or end


def _listed(numbers: Sequence[int]) -> str:
    """`3`, `3 to 6` for neighbours, else `2, 4 and 5`."""
    if len(numbers) == 1:
        return str(numbers[0])
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
