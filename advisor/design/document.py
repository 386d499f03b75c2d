"""An answer as flat rows and as one document, and a question's batches as text: what screen and terminal share."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from advisor.design.answer import DesignAnswer
from advisor.design.candidates import Candidate
from advisor.design.space import DesignSpace
from advisor.design.sweeps import DesignLine
from advisor.prediction import AdvisorError

_PIECE = re.compile(
    r"(?P<first>\d{1,6})(\s*-\s*(?P<last>\d{1,6})|\s*:\s*(?P<weight>\d*\.?\d+(e[+-]?\d+)?))?", re.IGNORECASE
)
MAX_BATCHES = 32
"""Batches of one question: each costs as much time and memory as the whole search at one."""


def parse_batches(text: str) -> dict[int, float]:
    """Read batches with their weights, as {batch: weight}.

    A list `1,64`, a range `1-512` (its powers of two and its ends) or a histogram `1:0.2,64:0.8`. Raises AdvisorError
    for anything else.
    """
    found: dict[int, float] = {}
    for piece in text.split(","):
        match = _PIECE.fullmatch(piece.strip())
        if match is None:
            raise AdvisorError(
                f"batches {text[:80]!r} is no list like 1,64, range like 1-512 or histogram like 1:0.2,64:0.8"
            )
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            raise AdvisorError(f"batches {text[:80]!r}: a range runs from the smaller to the larger batch, e.g. 1-512")
        weight = float(match["weight"] or 1.0)
        for batch in _range(first, last):
            if batch in found:
                raise AdvisorError(f"batches {text[:80]!r} gives {batch} twice")
            found[batch] = weight
    if len(found) > MAX_BATCHES:
        raise AdvisorError(f"{len(found)} batches are too many for one search; give at most {MAX_BATCHES}")
    return found


def _range(first: int, last: int) -> list[int]:
    """Both ends and the powers of two between."""
    return sorted({first, last, *(2**i for i in range(last.bit_length()) if first < 2**i < last)})


def candidate_rows(answer: DesignAnswer) -> list[dict[str, Any]]:
    """One flat row for each distinct candidate, best first."""
    rows = []
    for rank, item in enumerate(answer.top, 1):
        row: dict[str, Any] = {"rank": rank}
        for field in fields(Candidate):
            value = getattr(item, field.name)
            if field.name in ("objective_gain", "speedup_gain", "tpot_gain"):
                row |= {
                    f"{field.name}{end}": getattr(value, name)
                    for end, name in (("", "value"), ("_low", "low"), ("_high", "high"), ("_chance", "chance"))
                }
            elif field.name == "quality":
                for law in value:
                    row |= {
                        f"quality_{law.law}{end}": x
                        for end, x in (("", law.ratio), ("_low", law.low), ("_high", law.high))
                    }
            elif field.name == "corners":
                row["corners"] = "; ".join(value)
            elif isinstance(value, tuple):
                batches = answer.space.question.batches
                row |= {f"{field.name}_b{batch:g}": x for batch, x in zip(batches, value, strict=True)}
            else:
                row[field.name] = str(value) if field.name == "tier" else value
        rows.append(row)
    return rows


def answer_document(answer: DesignAnswer) -> dict[str, Any]:
    """The answer as one JSON-able document, whose keys are part of the public contract."""
    space = answer.space
    question = space.question
    return {
        "scenario": space.setup.scenario,
        "scenario_hash": space.setup.scenario.hash,
        **{name: getattr(question, name) for name in ("objective", "batches", "batch_weights")},
        **{name: getattr(question, name) for name in ("quality_eps", "training_tokens")},
        "n_designs": len(space),
        "n_feasible": len(space.candidates),
        "verdict": answer.verdict,
        "baseline": _baseline(space),
        **{name: value for name, value in vars(answer).items() if name not in ("space", "verdict")},
        "shared_sweep": _sweep(answer.shared_sweep),
        "granularity_sweep": _sweep(answer.granularity_sweep),
        "pareto": [
            {
                "design": space.describe(int(i)),
                "dense_equivalent": space.dense_equivalent[i],
                "objective": question.value(float(space.score[i])),
            }
            for i in answer.pareto
        ],
    }


def _baseline(space: DesignSpace) -> dict[str, Any]:
    own = space.baseline
    return (
        {name: value for name, value in vars(own).items() if name not in ("activation", "shape", "served", "score")}
        | {name: values[:, 0] for name, values in vars(own.served).items()}
        | {"objective": space.question.value(own.score)}
    )


def _sweep(found: DesignLine) -> dict[str, Any]:
    return vars(found.mix) | {name: value for name, value in vars(found).items() if name != "mix"}
