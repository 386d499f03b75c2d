"""A diagnosis in words and tables, and as one document."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

from advisor.answers.best_k import DraftRow
from advisor.answers.diagnosis.diagnose import Diagnosis, Finding, amount
from advisor.answers.diagnosis.physics import OF_THE_RUN, Compared, Comparison
from advisor.show.table import Column, Table
from advisor.text import counted, printable, with_prefix


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
            {"quantity": item.words}
            | {name: getattr(item, name) for name in ("value", "unit", "test", "limit", "source")}
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
        "by_k": [
            {"n_draft": row.n_draft, "speedup": row.speedup, "low": row.speedup_low, "high": row.speedup_high}
            for row in one.by_k
        ],
        "tier": one.tier,
        "engine_class": one.engine_class,
        "quantities": rows,
        "components": parts,
        "best_k": one.best_k,
        "gain_of_best_k": one.best_gain,
        "assumed": list(one.assumed),
    }


_LARGEST_PARTS = 6
_COMPARED: tuple[Column[Compared], ...] = (
    Column("quantity", attrgetter("label"), words=True),
    Column("measured", lambda row: "" if row.measured is None else amount(row.measured, row.unit)),
    Column("predicted", lambda row: amount(row.predicted, row.unit)),
    Column("likely range", lambda row: f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}"),
    Column("measured / predicted", attrgetter("ratio"), lambda ratio: "" if ratio is None else f"{ratio:.2f}"),
)
WANTED: tuple[Column[tuple[str, str]], ...] = (
    Column("What to collect", itemgetter(0), words=True),
    Column("Rules that need it", itemgetter(1)),
)


@dataclass(frozen=True)
class DiagnosisFinding:
    """One finding: what, where, on which evidence, why, and what to paste."""

    kind: str
    title: str
    where: str
    evidence: tuple[str, ...]
    differs: tuple[str, ...]
    because: str
    fix: str
    source: str


@dataclass(frozen=True)
class ComparedView:
    """One run beside its prediction, and the largest predicted parts."""

    title: str
    table: Table[Any]
    parts: str
    """Its largest predicted parts and the rest, which add up."""
    product: str
    """Gap of the speedup as what the plain step and the round make of it; empty where one of them is unknown."""
    remedy: Table[Any]
    """What K = 0, 1, the run's own and the best K up to it are predicted to give here."""
    n_draft: int
    """The best of them."""
    batch_size: float
    length: str
    """Accepted length that it is predicted with, and whose that is; empty without drafts."""
    acceptance: str
    """The run's own accepted length, `2.4@3`; empty where it states none."""
    loses: bool
    """Measured slower than without drafts, and not as predicted."""


@dataclass(frozen=True)
class DiagnosisView:
    """Everything to draw, top to bottom."""

    verdict: str
    sentence: str
    findings: tuple[DiagnosisFinding, ...]
    comparisons: tuple[ComparedView, ...]
    gaps: tuple[str, ...]
    clean: tuple[str, ...]
    """Titles of rules that found nothing."""
    not_judged: tuple[tuple[str, str], ...]
    """(title of the rule, what it needs)."""
    wanted: tuple[tuple[str, str], ...]
    """What to collect, what most rules want first."""
    notes: tuple[str, ...]
    """What was read, refused, not read and not predicted."""


def view_of(found: Diagnosis) -> DiagnosisView:
    """A diagnosis ready to be drawn."""
    lacks = Counter(text for one in found.not_judged for text in one.lacks)
    notes = (
        *(f"refused: {text}" for text in found.refused),
        *(f"not predicted: {text}" for text in found.not_compared),
        *(f"read: {text}" for text in found.read),
        *(f"not read: {text}" for text in found.not_read),
    )
    return DiagnosisView(
        verdict=found.verdict,
        sentence=printable(found.sentence),
        findings=tuple(_finding_row(one) for one in found.findings),
        comparisons=tuple(_compared(place, one) for place, one in found.comparisons),
        gaps=tuple(map(printable, found.gaps)),
        clean=tuple(rule.title for _, rule in found.clean),
        not_judged=tuple((one.rule.title, "; ".join(one.lacks)) for one in found.not_judged),
        wanted=tuple((text, counted(count, "rule")) for text, count in lacks.most_common()),
        notes=tuple(map(printable, notes)),
    )


def _finding_row(one: Finding) -> DiagnosisFinding:
    named = one.rule.published.source
    others = f" and {counted(len(one.lines) - 1, 'other run')}" if one.lines[1:] else ""
    return DiagnosisFinding(
        kind=one.kind,
        title=one.rule.title,
        where=printable(one.lines[0]) + others,
        evidence=tuple(
            # The source of a test's limit is left out where it is the finding's own, named beside it.
            printable(f"{item.text} ({item.source})" if item.source not in ("", named) else item.text)
            for item in one.evidence
        ),
        differs=tuple(map(printable, one.details)),
        because=one.rule.because,
        fix=one.fix,
        source=one.rule.published.source,
    )


def _compared(place: str, one: Comparison) -> ComparedView:
    largest = sorted(one.parts, key=lambda part: -max(part.round_s, part.plain_s))[:_LARGEST_PARTS]
    shown = ", ".join(f"{part.label} {with_prefix(part.round_s or part.plain_s, 's')}" for part in largest)
    whole, name = ("a round", "round") if one.n_draft else ("a step", "plain")
    total = one.row(name)
    rest = 0.0 if total is None else total.predicted - sum(part.round_s or part.plain_s for part in largest)
    others = "" if rest <= 0.0 or total is None else f", others {with_prefix(rest, 's')}"
    sums = "" if total is None else f" = {with_prefix(total.predicted, 's')}"
    wanted, row = {0, 1, one.n_draft, one.recommended.n_draft}, one.row("speedup")
    return ComparedView(
        f"{printable(place)} (K = {one.n_draft}, {one.tier})",
        Table(_COMPARED, one.rows),
        f"Predicted parts of {whole}: {shown}{others}{sums}",
        _product(one),
        Table(_REMEDY, tuple(row for row in one.by_k if row.n_draft in wanted)),
        one.recommended.n_draft,
        one.batch_size,
        f"{one.accepted_length:.2f} {one.length_from}" if one.n_draft else "",
        f"{one.accepted_length:.3g}@{one.n_draft}" if one.n_draft and one.length_from == OF_THE_RUN else "",
        row is not None and row.measured is not None and row.measured < min(1.0, row.low),
    )


def _product(one: Comparison) -> str:
    speedup, plain, whole = (one.ratio(name) for name in ("speedup", "plain", "round"))
    if speedup is None or plain is None or whole is None:
        return ""
    return f"Speedup {speedup:.2f} of predicted: plain step {plain:.2f} / round {whole:.2f}"


_REMEDY: tuple[Column[DraftRow], ...] = (
    Column("K", lambda row: str(row.n_draft)),
    Column("speedup", lambda row: f"{row.speedup:.2f}x"),
    Column("likely range", lambda row: f"{row.speedup_low:.2f} to {row.speedup_high:.2f}x" if row.n_draft else ""),
    Column("ms per token", lambda row: f"{row.tpot_s * 1e3:.3g}"),
    Column("best of these", lambda row: f"{row.p_best:.0%}"),
)
