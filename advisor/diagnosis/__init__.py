"""Why speculation is slow: rules of profiles/diagnosis tried on a run, and the run held against its prediction.

    found = diagnose([Given("run.json", data), Given("server.log", log)], {"hardware_id": "h200-sxm"})
    found.sentence, found.findings, found.not_judged

A rule never blames without evidence: what it lacks is said instead.
"""

from __future__ import annotations

from advisor.diagnosis.diagnose import Diagnosis, diagnose
from advisor.diagnosis.document import diagnosis_document
from advisor.diagnosis.facts import Run
from advisor.diagnosis.judge import judged
from advisor.diagnosis.rules import rule_sets
from advisor.diagnosis.runs import Given, with_prediction
from advisor.diagnosis.view import COMPARED_COLUMNS, WANTED_COLUMNS, DiagnosisView, FindingView, view_of

__all__ = [
    "COMPARED_COLUMNS",
    "WANTED_COLUMNS",
    "Diagnosis",
    "DiagnosisView",
    "FindingView",
    "Given",
    "Run",
    "diagnose",
    "diagnosis_document",
    "judged",
    "rule_sets",
    "view_of",
    "with_prediction",
]
