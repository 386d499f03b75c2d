"""A made-up benchmark to try the upload with: what the advisor itself predicts, on a host half as quick."""

from __future__ import annotations

from advisor import laws
from advisor.advice import Advice
from advisor.text import csv_text

_BATCHES = (1, 4, 16, 64)
_DRAFTS = (1, 2, 3)
SLOWER = 2.0
"""Factor on the host's time per step with drafts: made up, so that the refit has something to find. [-]"""


def sample_csv(advice: Advice) -> str:
    """Rows of speedup by batch and K in the canonical columns, computed and not measured."""
    scenario, curve = advice.scenario, advice.curve
    rows = []
    for batch in _BATCHES:
        row = int((curve.batches == batch).argmax())
        for k in _DRAFTS:
            column = curve.column(k)
            extra_s = (SLOWER - 1.0) * float(curve.round_components["round_host"][row, column])
            length = float(curve.accepted_length[column])
            slower_s = float(curve.round_s[row, column]) + extra_s
            speedup = laws.speedup(length, float(curve.plain_step_s[row]), slower_s, 0.0)
            rows.append(
                {
                    "hardware_id": scenario.hardware_id,
                    "gpu_count": scenario.n_gpus,
                    "tensor_parallel": scenario.tensor_parallel,
                    "engine": scenario.engine,
                    "model_id": scenario.model_id,
                    "drafter": scenario.drafter_id,
                    "draft_tokens_k": k,
                    "batch_size": batch,
                    "context_tokens": scenario.context_tokens,
                    "accepted_length": round(length, 3),
                    "accepted_length_same_run": 1,
                    "speedup": f"{speedup:.4f}",
                    "notes": "made up by the advisor, not measured",
                }
            )
    return csv_text(list(rows[0]), rows)
