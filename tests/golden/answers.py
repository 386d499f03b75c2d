"""Facts of the advice in twenty states: `python -m tests.golden.answers` writes what a test
compares."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from advisor.answers.advice import Advice, advise, answer_values, component_times
from advisor.answers.outcome import outcome_of
from advisor.predict.scenario import Scenario
from advisor.show.phrases.notes import note_texts
from advisor.show.words.basis import accepted_text

FILE = Path(__file__).parents[1] / "answers" / "answers.json"
QWEN = Scenario(
    hardware_id="h200-sxm",
    model_id="qwen3-30b-a3b",
    drafter_id="eagle3",
    acceptance="2.4@3",
    batch_size=16,
)
DEEPSEEK: dict[str, Any] = {"model_id": "deepseek-v3", "drafter_id": "mtp"}
STATES: dict[str, dict[str, Any]] = {
    "usual": {},
    "never right": {"acceptance": "0.05", "batch_size": 128},
    "more likely a loss": {"acceptance": "0.3", "batch_size": 512},
    "may lose": {"acceptance": "1.9@3", "batch_size": 256},
    "break-even": {"acceptance": "1.15@3"},
    "noise": {
        "hardware_id": "b200-sxm",
        "model_id": "gpt-oss-20b",
        "acceptance": "1.62@3",
        "batch_size": 512,
    },
    "more than noise": {
        "hardware_id": "b200-sxm",
        "model_id": "gpt-oss-20b",
        "acceptance": "1.4@3",
        "batch_size": 512,
    },
    "limit kept": {"max_tpot_ms": 9.0},
    "limit missed": {"max_tpot_ms": 0.01},
    "batch too large": {"batch_size": 4096, "context_tokens": 32768},
    "context too long": {"context_tokens": 5_000_000},
    "weights too large": DEEPSEEK,
    "beyond the data": {"batch_size": 2000},
    "another's kernels": {"hardware_id": "h800-sxm"},
    "data sheet": {"hardware_id": "mi300x"},
    "first token": {"input_tokens": 4000, "output_tokens": 200},
    "launches": {"graph_sizes": "none", "batch_size": 1},
    "borrowed acceptance": {"acceptance": "gpt-oss-20b-eagle3-mt-bench"},
    "another checkpoint": DEEPSEEK
    | {"n_gpus": 8, "tensor_parallel": 8, "acceptance": "deepseek-r1-mtp-internal"},
    "dense": {
        "model_id": "command-a",
        "weight_dtype": "fp8",
        "n_gpus": 4,
        "tensor_parallel": 4,
        "acceptance": "2.73@3",
    },
}


def facts_of(advice: Advice) -> dict[str, Any]:
    """Every fact of an answer, and the sentences that are not of the book, to six digits."""
    facts: dict[str, Any] = {
        "outcome": outcome_of(advice).facts,
        "values": answer_values(advice),
        "warnings": note_texts(advice.notes),
        "drafts": [
            [
                row.n_draft,
                row.speedup,
                row.speedup_low,
                row.speedup_high,
                row.expected_loss,
                row.p_best,
                row.p_gain,
            ]
            for row in advice.drafts
        ],
        "k_by_batch": [
            [one.batch_start, one.batch_end, one.n_draft, one.regret] for one in advice.k_by_batch
        ],
        "to_serve": [[one.batch_start, one.batch_end, one.n_draft] for one in advice.to_serve],
        "schedule": advice.schedule.facts,
        "ends": [
            advice.curve_k,
            advice.sweet_spot_batch,
            advice.break_even_batch,
            advice.setup.memory.largest_batch,
        ],
        "components": [[one.label, one.plain_ms, one.round_ms] for one in component_times(advice)],
        "accepted": accepted_text(advice),
    }
    return json.loads(
        json.dumps(facts, default=str), parse_float=lambda text: float(f"{float(text):.6g}")
    )


def answers(name: str) -> dict[str, Any]:
    """Facts of the advice on one of STATES."""
    return facts_of(advise(QWEN.model_copy(update=STATES[name])))


if __name__ == "__main__":
    text = json.dumps({name: answers(name) for name in STATES}, indent=1, ensure_ascii=False)
    rows = re.sub(r"\[[^][{}\"]*\]", lambda row: " ".join(row[0].split()), text)
    FILE.write_text(rows + "\n", encoding="utf-8")
