"""The rows of a sweep: one for each combination, batch and K."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor import bands, laws
from advisor.arrays import Array
from advisor.curve import Curve, curve_for, draft_odds
from advisor.prediction import AdvisorError
from advisor.runtime import recommended_draft
from advisor.scenario import DOCUMENTS, FIELDS, build_scenario
from advisor.setup import Setup, load_setup
from advisor.spend import drawn_times
from advisor.tiers import Tier

SETTINGS = tuple(name for name, row in FIELDS.items() if name not in DOCUMENTS and not row.is_private)
"""Columns that name the scenario."""
_KINDS: Mapping[type, str] = {int: "Int64", float: "Float64"}
_SEED = 0
"""Of the error that absolute times share: the same question has the same band. [-]"""
_MAX_INT = 2**63 - 1
"""What a column of whole numbers holds at most. [-]"""
COLUMNS = {
    **{name: _KINDS.get(FIELDS[name].kind, "string") for name in SETTINGS},
    "batch_size": "int32",
    "n_draft": "int16",
    "speedup": "float32",
    "speedup_low": "float32",
    "speedup_high": "float32",
    "p_gain": "float32",
    "expected_loss": "float32",
    "recommended": "bool",
    "tpot_ms": "float32",
    "tpot_low_ms": "float32",
    "tpot_high_ms": "float32",
    "tokens_per_s_per_gpu": "float32",
    "tokens_per_s_per_gpu_low": "float32",
    "tokens_per_s_per_gpu_high": "float32",
    "accepted_length": "float32",
    "plain_step_ms": "float32",
    "round_ms": "float32",
    "tier": "string",
    "fits": "bool",
    "reason": "string",
}
"""Of a row: the scenario's settings, what is predicted at one K, and why nothing is."""


def sweep_rows(combinations: Iterable[Mapping[str, Any]], batches: Sequence[int]) -> pd.DataFrame:
    """Predictions of every combination at every batch and K, `COLUMNS`.

    Parameters
    ----------
    combinations : settings of a scenario, the batch apart; n_gpus is what the placement needs where it is left out.
    batches : sequences that decode together. [-]

    Returns
    -------
    One row for each K from 0 to the setting's k_max; one row with a `reason` and no prediction where a combination
    cannot be. Of each batch one row is `recommended`: the K of least expected loss. Times in milliseconds.
    """
    found = [_of_one(dict(settings), np.array(batches)) for settings in combinations]
    whole = {name: np.concatenate([one[name] for one in found]) for name in COLUMNS} if found else {}
    return pd.DataFrame(whole, columns=list(COLUMNS)).astype(COLUMNS)


def _of_one(settings: dict[str, Any], batches: np.ndarray) -> dict[str, np.ndarray]:
    try:
        scenario = build_scenario(**{"n_gpus": _needed_gpus(settings), **settings, "batch_size": int(batches[0])})
        setup = load_setup(scenario)
        curve = curve_for(setup, batches)
    except AdvisorError as error:
        return _columns(settings, batches, _nothing(str(error)), 1)
    return _columns(scenario.model_dump(include=set(SETTINGS)), batches, _predicted(setup, curve), len(curve.drafts))


def _needed_gpus(settings: Mapping[str, Any]) -> int:
    """GPUs of the placement. [-]"""
    ranks = (_as_its_kind(name, settings.get(name)) for name in ("tensor_parallel", "expert_parallel"))
    return max(1, *(rank or 1 for rank in ranks))


def _columns(
    settings: Mapping[str, Any], batches: np.ndarray, predicted: Mapping[str, Any], n_drafts: int
) -> dict[str, np.ndarray]:
    """All columns of one combination, [nB x nK] each: batch by batch, K changing first."""
    rows = len(batches) * n_drafts
    named = {name: np.full(rows, _as_its_kind(name, settings.get(name)), object) for name in SETTINGS}
    answers = {name: np.broadcast_to(value, (len(batches), n_drafts)).ravel() for name, value in predicted.items()}
    return named | {"batch_size": np.repeat(batches, n_drafts)} | answers


def _as_its_kind(name: str, value: Any) -> Any:
    """The value as its column holds it. Nothing where it is none of the kind, which the row's reason says."""
    if value is None:
        return None
    try:
        found = FIELDS[name].kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(found, int) and abs(found) > _MAX_INT else found


def _nothing(reason: str) -> dict[str, Any]:
    numbers = {name: np.nan for name, kind in COLUMNS.items() if kind == "float32"}
    return {**numbers, "n_draft": -1, "recommended": False, "tier": "", "fits": False, "reason": reason}


def _predicted(setup: Setup, curve: Curve) -> dict[str, Any]:
    """The answers of one curve, arrays that broadcast to [nB, nK]."""
    odds = draft_odds(curve.draws)
    shape = curve.speedup.shape
    chosen = [recommended_draft(setup, curve, row) for row in range(shape[0])]
    return {
        "n_draft": curve.drafts,
        "speedup": curve.speedup,
        "speedup_low": curve.low,
        "speedup_high": curve.high,
        "p_gain": odds.p_gain,
        "expected_loss": odds.loss,
        "recommended": np.arange(shape[1]) == np.array(chosen)[:, None],
        **_absolute(setup, curve),
        "accepted_length": curve.accepted_length,
        "plain_step_ms": curve.plain_step_s[:, None] * 1e3,
        "round_ms": curve.round_s * 1e3,
        "tier": np.array([[Tier(one).value for one in row] for row in np.broadcast_to(curve.tier, shape)]),
        "fits": (curve.batches <= setup.memory.largest_batch)[:, None],
        "reason": "",
    }


def _absolute(setup: Setup, curve: Curve) -> dict[str, Array]:
    """Time per token and throughput with their bands, [nB, nK]: what absolute times err by is in them."""
    own_z = np.random.default_rng(_SEED).standard_normal(len(curve.draws))
    each = [
        drawn_times(setup, curve, np.full(curve.batches.size, column), own_z) for column in range(len(curve.drafts))
    ]
    tpot_s = np.stack([one.tpot_s for one in each], axis=-1)
    token_s = np.stack([one.token_s for one in each], axis=-1)
    rate = laws.tokens_per_s_per_gpu(curve.batches[:, None], token_s, setup.placement.gpus)
    found: dict[str, Array] = {}
    for name, central, drawn in (
        ("tpot{}_ms", curve.tpot_s * 1e3, tpot_s * 1e3),
        ("tokens_per_s_per_gpu{}", curve.tokens_per_s_per_gpu, np.asarray(rate)),
    ):
        low, high = bands.band(drawn)
        # The centre is no quantile of the draws, as in the curve's own band.
        found |= {
            name.format(""): central,
            name.format("_low"): np.minimum(low, central),
            name.format("_high"): np.maximum(high, central),
        }
    return found
