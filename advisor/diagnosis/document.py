"""A diagnosis as JSON."""

from __future__ import annotations

from typing import Any

from advisor.diagnosis.diagnose import Diagnosis, Finding
from advisor.diagnosis.physics import Comparison


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """Diagnosis as plain values: verdict, findings with evidence, comparisons, and what was not judged."""
    return {
        "verdict": found.verdict,
        "sentence": found.sentence,
        "findings": [_finding(one) for one in found.findings],
        "clean": [rule.id for _, rule in found.clean],
        "not_judged": [{"rule": one.rule.id, "needs": list(one.lacks)} for one in found.not_judged],
        "comparisons": [{"run": place, **_comparison(one)} for place, one in found.comparisons],
        "gaps": list(found.gaps),
        "not_compared": list(found.not_compared),
        "read": list(found.read),
        "not_read": list(found.not_read),
        "refused": list(found.refused),
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "rule": one.rule.id,
        "kind": one.kind,
        "title": one.rule.title,
        "runs": list(one.lines),
        "evidence": [
            {
                "quantity": item.words,
                "value": item.value,
                "unit": item.unit,
                "test": item.test,
                "limit": item.limit,
                "source": item.source,
            }
            for item in one.evidence
        ],
        "details": list(one.details),
        "because": one.rule.because,
        "fix": one.fix,
        "source": one.rule.published.source,
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    rows = [{**vars(row), "inside": row.inside} for row in one.rows]
    parts = [{"label": part.label, "plain_s": part.plain_s, "round_s": part.round_s} for part in one.parts]
    return {
        "n_draft": one.n_draft,
        "batch_size": one.batch_size,
        "place": one.place,
        "recommended": vars(one.recommended),
        "tier": one.tier,
        "engine_class": one.engine_class,
        "quantities": rows,
        "components": parts,
        "best_k": one.best_k,
        "gain_of_best_k": one.best_gain,
        "assumed": list(one.assumed),
    }
