"""Scenarios side by side: what differs in the question, what comes of it, and a short name for each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice import Advice
from advisor.calibration import parse_adjustment
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.text import MERITS, tier_text

MAX_COMPARED = 4
"""More scenarios than this are told apart neither in a chart nor in a table."""
LABELS = {
    "model_id": "Model",
    "hardware_id": "Accelerator",
    "n_gpus": "GPUs",
    "tensor_parallel": "Tensor parallel",
    "expert_parallel": "Expert parallel",
    "batch_size": "Batch",
    "context_tokens": "Context (tokens)",
    "drafter_id": "Drafter",
    "acceptance": "Accepted length",
    "k_max": "Longest draft (K max)",
    "engine": "Engine",
    "weight_dtype": "Weights",
    "expert_dtype": "Routed experts' weights",
    "kv_dtype": "KV cache",
    "routing": "Routing",
    "input_tokens": "Prompt tokens",
    "output_tokens": "Output tokens",
    "max_tpot_ms": "Limit on time per output token (ms)",
    "refit": "Refit",
}
"""Every setting of a scenario, the ones that say most first."""
_SHORT = {
    "n_gpus": "GPUs {}",
    "tensor_parallel": "TP {}",
    "expert_parallel": "EP {}",
    "batch_size": "batch {}",
    "context_tokens": "context {}",
    "k_max": "K max {}",
    "weight_dtype": "weights {}",
    "expert_dtype": "experts {}",
    "kv_dtype": "KV {}",
    "routing": "routing {}",
    "input_tokens": "prompt {}",
    "output_tokens": "output {}",
    "max_tpot_ms": "limit {} ms",
}
_UNSET = {"refit": "shipped constants", "weight_dtype": "as stored", "expert_dtype": "as the weights"}
_DOCUMENT = {"model_id": "model_config_json", "hardware_id": "hardware_json"}
_MERITS = tuple(MERITS[name] for name in ("speedup", "tpot", "tokens_per_s_per_gpu"))
_NAME_PIECES, _PIECE_CHARACTERS = 2, 28


@dataclass(frozen=True)
class Row:
    """One line of the comparison: a setting that differs, or a part of the answer, for each scenario."""

    label: str
    values: tuple[str, ...]
    is_answer: bool


def differing(scenarios: Sequence[Scenario]) -> list[str]:
    """Settings in which the scenarios are not all alike, in the order of LABELS."""
    return [field for field in LABELS if len({_identity(scenario, field) for scenario in scenarios}) > 1]


def short_names(scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """A name for each scenario from what differs, two settings at most; the hash tells apart those that stay alike."""
    fields = differing(scenarios)
    if "n_gpus" in fields and all(s.tensor_parallel == s.n_gpus for s in scenarios):
        fields = [field for field in fields if field != "tensor_parallel"]
    if not fields:
        fields = ["model_id", "batch_size"]
    names = [", ".join(_piece(scenario, field) for field in fields[:_NAME_PIECES]) for scenario in scenarios]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({scenario.hash[:6]})"
        for name, scenario in zip(names, scenarios, strict=True)
    )


def comparison_rows(advices: Sequence[Advice]) -> tuple[Row, ...]:
    """What differs in the question, then the answers. Raises AdvisorError for none or more than MAX_COMPARED."""
    if not 1 <= len(advices) <= MAX_COMPARED:
        raise AdvisorError(f"{len(advices)} scenarios cannot be compared; give two to {MAX_COMPARED}")
    scenarios = [advice.scenario for advice in advices]
    question = [
        Row(LABELS[field], tuple(_shown(scenario, field) for scenario in scenarios), False)
        for field in differing(scenarios)
    ]
    columns = [_answers(advice) for advice in advices]
    return (*question, *(Row(label, tuple(column[label] for column in columns), True) for label in columns[0]))


def finding(advices: Sequence[Advice], names: Sequence[str]) -> str:
    """Which scenario has the highest speedup, the shortest time per output token and the most tokens/s per GPU."""
    answers = [advice.recommendation for advice in advices]
    ratio = max(answers, key=lambda answer: answer.speedup.value)
    fastest = min(answers, key=lambda answer: answer.tpot_s)
    busiest = max(answers, key=lambda answer: answer.tokens_per_s_per_gpu)
    speedup, tpot, rate = _MERITS
    best = (
        (ratio, f"the highest {speedup.words} ({speedup.text(ratio.speedup.value)})"),
        (fastest, f"the shortest {tpot.words} ({tpot.text(fastest.tpot_s)})"),
        (busiest, f"the most {rate.words} ({rate.text(busiest.tokens_per_s_per_gpu)})"),
    )
    told = []
    for name, answer in zip(names, answers, strict=True):
        if won := [what for winner, what in best if winner is answer]:
            told.append(f"{name} has {' and '.join(won) if len(won) < 3 else f'{won[0]}, {won[1]} and {won[2]}'}")
    return "; ".join(told) + "."


def _answers(advice: Advice) -> dict[str, str]:
    answer, largest = advice.recommendation, advice.setup.memory.largest_batch
    speedup, (ratio, tpot, rate) = answer.speedup, _MERITS
    return {
        "Draft length K": str(answer.k_draft),
        ratio.name: ratio.text(speedup.value),
        f"{advice.band_level:.0%} band": f"{speedup.low:.2f} to {speedup.high:.2f}",
        "Tier": tier_text(speedup.tier, speedup.extrapolated),
        tpot.name: tpot.text(answer.tpot_s),
        rate.name: rate.text(answer.tokens_per_s_per_gpu),
        "Plain step is bound by": answer.bound,
        "Largest batch that fits": f"{largest:,}" if largest else "does not fit",
        "Sweet spot": f"batch {advice.sweet_spot_batch:,.0f}",
    }


def _identity(scenario: Scenario, field: str) -> tuple[object, ...]:
    document = _DOCUMENT.get(field)
    return getattr(scenario, field), getattr(scenario, document) if document else None


def _shown(scenario: Scenario, field: str) -> str:
    value, document = _identity(scenario, field)
    if value is None:
        return _UNSET.get(field, "not set")
    if field == "refit":
        return parse_adjustment(str(value)).label
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{text} (own, {hashlib.sha256(str(document).encode()).hexdigest()[:4]})" if document else text


def _piece(scenario: Scenario, field: str) -> str:
    text = _SHORT.get(field, "{}").format(_shown(scenario, field))
    return text if len(text) <= _PIECE_CHARACTERS else text[: _PIECE_CHARACTERS - 1] + "…"
