"""A diagnosis in words and tables, and as one document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any

import pandas as pd

from advisor.answers.advice import advise
from advisor.answers.best_k import DraftRow
from advisor.answers.diagnosis.another_server import Unfit, plain_off
from advisor.answers.diagnosis.cause import amount
from advisor.answers.diagnosis.diagnose import (
    FEW_ACCEPTED,
    Diagnosis,
    Finding,
    of_drafts_alone,
    predicted_text,
    unforeseen,
)
from advisor.answers.diagnosis.physics import OF_THE_RUN, Compared, Comparison, all_rules
from advisor.answers.engines.config import mended_line
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import as_measured, border_texts, own_schedule
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import AdvisorError
from advisor.show.live_answer import launch
from advisor.show.table import Column, Table
from advisor.text import MAX_TEXT, counted, listed, printable, with_prefix


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """Diagnosis as plain values: verdict, findings with evidence, comparisons, and what was not
    judged."""
    not_judged = [{"rule": gap.rule.id, "needs": list(gap.lacks)} for gap in found.not_judged]
    comparisons = [
        {"run": place, **_comparison(comparison)} for place, comparison in found.comparisons
    ]
    return {
        "verdict": found.verdict,
        "sentence": found.sentence,
        "until": found.until,
        "findings": [_finding(finding) for finding in found.findings],
        "clean": [rule.id for _, rule in found.clean],
        "not_judged": not_judged,
        "comparisons": comparisons,
        "not_compared": list(found.not_compared),
        "read": list(found.read),
        "not_read": list(found.not_read),
        "refused": list(found.refused),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.id,
        "kind": finding.kind,
        "title": finding.rule.title,
        "runs": list(finding.lines),
        "evidence": [
            {"quantity": evidence.words}
            | {
                name: getattr(evidence, name)
                for name in ("value", "unit", "test", "limit", "source")
            }
            for evidence in finding.evidence
        ],
        "details": list(finding.details),
        "because": finding.rule.because,
        "fix": finding.fix,
        "source": finding.rule.published.source,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "n_draft": comparison.n_draft,
        "batch_size": comparison.batch_size,
        "place": comparison.place,
        "recommended": _draft(comparison.recommended) | {"carried": comparison.carried},
        "by_k": [_draft(draft) for draft in comparison.by_k],
        "tier": comparison.tier,
        "engine_class": comparison.engine_class,
        "quantities": [
            {**vars(quantity), "inside": quantity.inside} for quantity in comparison.rows
        ],
        "gain_of_best_k": comparison.best_gain,
        "assumed": list(comparison.assumed),
    }


def _draft(row: DraftRow) -> dict[str, Any]:
    return {
        "n_draft": row.n_draft,
        "speedup": row.speedup,
        "low": row.speedup_low,
        "high": row.speedup_high,
    }


_ALL_K = 4
"""Up to which every K has its column; of more, those that matter. [-]"""


def _quantity(row: Compared) -> str:
    return "Round, computed" if row.computed else row.label


def _measured(row: Compared) -> str:
    return "" if row.measured is None else amount(row.measured, row.unit)


def _likely_range(row: Compared) -> str:
    return f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}"


def _ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


_COMPARED: tuple[Column[Compared], ...] = (
    Column("quantity", _quantity, words=True),
    Column("measured", _measured),
    Column("predicted", lambda row: amount(row.predicted, row.unit)),
    Column("80% range", _likely_range),
    Column("measured / predicted", attrgetter("ratio"), _ratio_text),
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
class Remedy:
    """Table of the speedup predicted for each K at the batches of the runs, and the scenario to go
    on with."""

    said: str
    """With which accepted length, and whose that is."""
    table: Table[Any]
    scenario: Scenario
    """Of the largest batch at which a measured run gains; where none was measured, of the one that
    loses most."""
    n_draft: int | None
    """The K that gains there, measured or else predicted; 0: no drafts. None where no measured run
    gains."""
    acceptance: str
    """The accepted length that was used: `2.4@3`."""
    own_length: bool
    """Whether the run states it."""
    is_far: bool
    """Whether the plain step is far from the measured one: what is predicted is of another
    server."""


@dataclass(frozen=True)
class DiagnosisView:
    """Everything to draw, top to bottom."""

    verdict: str
    title: str
    sentence: str
    cause: str
    """The likeliest cause, as `sentence` has it. Empty where it has none."""
    until: str
    """What to do until the cause is known, where a batch loses."""
    command: Mapping[str, str] | None
    """What to paste: title, text, note and hint, engine. None where nothing is to be mended."""
    unfit: Unfit | None
    """Why the server cannot run as it is predicted. None where it fits."""
    findings: tuple[DiagnosisFinding, ...]
    remedy: Remedy | None
    """None without a predicted run that drafts."""
    comparisons: tuple[tuple[str, Table[Any]], ...]
    """Title and table of runs of which something was measured."""
    clean: tuple[str, ...]
    """Titles of rules that found nothing."""
    not_judged: tuple[tuple[str, str], ...]
    """(title of the rule, what it needs)."""
    unsaid: tuple[str, ...]
    """Columns without which nothing is predicted."""
    notes: tuple[str, ...]
    """What was read, refused, not read and not predicted."""


def view_of(found: Diagnosis) -> DiagnosisView:
    """A diagnosis ready to be drawn."""
    drafting = [
        comparison
        for _, comparison in found.comparisons
        if comparison.n_draft and comparison.largest_batch
    ]
    remedy = _remedy(drafting, any(not finding.rule.expected for finding in found.findings))
    notes = (
        *(f"refused: {text}" for text in found.refused),
        *(f"not predicted: {text}" for text in found.not_compared),
        *(f"read: {text}" for text in found.read),
        *(f"not read: {text}" for text in found.not_read),
    )
    comparisons = tuple(
        (_comparison_title(place, comparison), Table(_COMPARED, comparison.rows))
        for place, comparison in found.comparisons
        if comparison.largest_batch and any(row.measured for row in comparison.rows)
    )
    not_judged = tuple((gap.rule.title, "; ".join(gap.lacks)) for gap in found.not_judged)
    return DiagnosisView(
        verdict=found.verdict,
        title=_title(found),
        sentence=printable(found.sentence, 2 * MAX_TEXT),
        cause=found.cause if found.cause in found.sentence else "",
        until=found.until,
        command=_command(found, remedy),
        unfit=found.unfit,
        findings=tuple(map(_finding_row, found.findings)),
        remedy=remedy,
        comparisons=comparisons,
        clean=tuple(rule.title for _, rule in found.clean),
        not_judged=not_judged,
        unsaid=found.unsaid,
        notes=tuple(map(printable, notes)),
    )


def _comparison_title(place: str, comparison: Comparison) -> str:
    computed = "".join(f"; round: {row.computed}" for row in comparison.rows if row.computed)
    return (
        f"{printable(place)} (K = {comparison.n_draft}, batch {comparison.batch_size:,.4g}, "
        f"{comparison.tier}{computed})"
    )


def _command(diagnosis: Diagnosis, remedy: Remedy | None) -> Mapping[str, str] | None:
    """The user's own launch line mended, else the advisor's: with the K that was measured to pay,
    or without any.

    As `live_answer.launch` has it, with a title. None of a good run.
    """
    drafting = [comparison for _, comparison in diagnosis.comparisons if comparison.n_draft]
    worst = min(drafting, key=_gain, default=None)
    loses = worst is not None and _gain(worst)[0] < 1.0
    if diagnosis.verdict == "mismeasured" or worst is None or not (diagnosis.fixes or loses):
        return None
    measured_runs = pd.DataFrame(
        [
            (comparison.batch_size, comparison.n_draft, comparison.gain, True)
            for comparison in drafting
            if comparison.gain is not None
        ],
        columns=["batch_size", "draft_tokens_k", "speedup", "decides"],
    )
    k = (
        0
        if remedy is None
        else remedy.n_draft or (worst.recommended.n_draft if measured_runs.empty else 0)
    )
    try:
        scenario = (remedy or worst).scenario
        wider = {"k_max": max([scenario.k_max, *measured_runs["draft_tokens_k"]])}
        wider |= (
            {"acceptance": remedy.acceptance} if remedy is not None and remedy.own_length else {}
        )
        answer = as_measured(
            advise(scenario.model_copy(update=wider)),
            own_schedule(None if measured_runs.empty else measured_runs),
        )
        command = launch(answer, outcome_of(answer, follows_own=not measured_runs.empty))
    except AdvisorError:
        command = {"engine": "", "text": "", "note": ""}
    borders = border_texts(measured_runs) if k and len(measured_runs) else {}
    end = answer.to_serve[-1].batch_end if command["text"] else MAX_BATCH
    notes = []
    for last, border_text in borders.items():
        if last < end:
            # An engine names the last batch of a range, or the first of the next.
            batch = last if f"{last}" in command["text"] else last + 1
            notes.append(f"{batch:,}: {border_text}.")
    if not diagnosis.launch_line:
        note = " ".join([command["note"], *notes]).strip()
        return (
            {**command, "title": f"Launch on {command['engine']}", "note": note}
            if command["text"]
            else None
        )
    by_k = next(rule for _, rule in all_rules() if rule.id == "k_loses_as_predicted")
    fix = by_k.fix_for(worst.scenario.engine, k)
    table = _TABLE.search(command["text"])
    if k and table is not None:
        fix = f"--speculative-config '{{..., \"num_speculative_tokens\": {k}, {table[0]}}}'"
    elif notes:
        ends = []
        for _, last, n_draft in own_schedule(measured_runs):
            where = "above" if last == MAX_BATCH else f"to batch {last:,}"
            ends.append(f"K = {n_draft} {where}" if n_draft else f"no drafts {where}")
        notes = [f"One K for all batches; your runs ask for {listed(ends)}."]
    instead = f"with K = {k}" if k else "without drafts"
    mended = "mended"
    fixes = diagnosis.fixes
    if diagnosis.mended_k is not None:
        fixes = *fixes, by_k.fix_for(worst.scenario.engine, diagnosis.mended_k)
        mended = f"mended, with K = {diagnosis.mended_k}"
    k_fixes = (fix,) if loses else ()
    for line_fixes, change, note in (
        (fixes, mended, ""),
        (k_fixes, instead, " ".join(notes)),
    ):
        if text := mended_line(diagnosis.launch_line, line_fixes):
            return {
                **command,
                "title": f"Your launch line, {change}",
                "text": text,
                "note": note,
                "hint": "",
            }
    return None


_TABLE = re.compile(r'"num_speculative_tokens_per_batch_size":\[\[[\d,\[\]]*\]\]')
_TITLES = {
    "mismeasured": "Measure again before tuning",
    "misconfigured": "The engine is misconfigured",
}


def _title(diagnosis: Diagnosis) -> str:
    """The verdict in a few words."""
    if diagnosis.unfit is not None:
        return diagnosis.unfit.title
    if diagnosis.verdict == "misconfigured" and of_drafts_alone(diagnosis.findings):
        return FEW_ACCEPTED
    if diagnosis.verdict in _TITLES:
        return _TITLES[diagnosis.verdict]
    if diagnosis.unsaid:
        return "Say what was served"
    compared = [comparison for _, comparison in diagnosis.comparisons]
    if diagnosis.headline:
        return diagnosis.headline
    if any(finding.rule.expected for finding in diagnosis.findings):
        return "This loss is foreseen"
    if predicted_text(compared):
        speedups = [(comparison.batch_size, comparison.row("speedup")) for comparison in compared]
        losing = [batch for batch, row in speedups if row and row.predicted < 1.0]
        return f"Predicted to lose at batch {losing[0]:,.4g}" if losing else "Predicted to gain"
    return "As predicted" if diagnosis.verdict == "as_predicted" else "Diagnosis"


_PATH = re.compile(
    r" ?\((?:advisor|docs|profiles|measurements|tests)/[^()]*\)|(?:advisor|docs)/[\w./]+: "
)
"""Where in this project a source is written down, which tells a user nothing."""


def _finding_row(finding: Finding) -> DiagnosisFinding:
    published_source = finding.rule.published.source
    others = f" and {counted(len(finding.lines) - 1, 'other run')}" if finding.lines[1:] else ""
    evidence_texts = []
    for evidence in finding.evidence:
        text = evidence.text
        # The source of a test's limit is left out where it is the finding's own, named beside it.
        if evidence.source not in ("", published_source):
            text = f"{text} ({_PATH.sub('', evidence.source)})"
        evidence_texts.append(printable(text).replace("`", ""))
    return DiagnosisFinding(
        kind=finding.kind,
        title=finding.rule.title,
        where=printable(finding.lines[0]) + others,
        evidence=tuple(evidence_texts),
        differs=tuple(map(printable, finding.details)),
        because=finding.rule.because,
        fix=finding.fix.replace("`", ""),
        source=_PATH.sub("", published_source).replace("`", ""),
    )


def _remedy(drafting: Sequence[Comparison], is_found: bool) -> Remedy | None:
    """The remedy of predicted runs that draft, by batch. None without any. is_found : whether the
    cause is known."""
    if not drafting:
        return None
    worst = unforeseen(drafting)
    measured = _measured_gains(drafting)
    paying = [
        (comparison.batch_size, speedup, comparison.n_draft, comparison)
        for speedup, comparison in measured
        if speedup >= 1.0
    ]
    chosen = (
        max(paying, key=itemgetter(0, 1, 2))[3] if paying else worst or min(drafting, key=_gain)
    )
    n_draft = (chosen.n_draft if paying else None) if measured else chosen.recommended.n_draft
    lengths = {(comparison.accepted_length, comparison.length_from) for comparison in drafting}
    length = f"{chosen.accepted_length:.2f} at K = {chosen.n_draft}, {chosen.length_from}"
    length_text = length if len(lengths) == 1 else "of each run"
    condition = "mended" if is_found else "the cause is found"
    once = f", once {condition}," if worst else ""
    rows: dict[tuple[float, Scenario], list[Comparison]] = {}
    for comparison in sorted(
        drafting, key=attrgetter("batch_size", "n_draft")
    ):  # those of one row differ in K alone
        rows.setdefault((comparison.batch_size, _server(comparison)), []).append(comparison)
    accepted = [
        (comparison.n_draft, comparison.accepted_length)
        for comparison in drafting
        if _server(comparison) == _server(chosen)
    ]
    columns: list[Column[list[Comparison]]] = [
        Column("batch", lambda runs: runs[-1].batch_size, "{:,.4g}".format)
    ]
    if measured:
        columns += [
            Column(
                "measured",
                lambda runs: ", ".join(
                    f"{run.gain:.2f}x at K = {run.n_draft}" for run in runs if run.gain
                ),
            )
        ]
        if any(comparison.ratio("plain") for comparison in drafting):
            columns += [
                Column("K = 0, measured", lambda runs: _times(runs[-1].row("plain")), paper=False)
            ]
    else:
        columns.append(Column("predicted best", lambda runs: f"K = {runs[-1].recommended.n_draft}"))
        columns.append(
            Column("K = 0", lambda runs: with_prefix(runs[-1].by_k[0].tpot_s, "s"), paper=False)
        )
    needed = {
        k
        for comparison in drafting
        for k in (comparison.n_draft, comparison.recommended.n_draft)
        if k
    }
    every = {*range(1, max(needed) + 1)} if max(needed) <= _ALL_K else {1, *needed}
    columns += [Column(f"K = {k}", partial(_cell_of, k), paper=k in needed) for k in sorted(every)]
    acceptance = ",".join(
        f"{median(length for n, length in accepted if n == k):.4g}@{k}"
        for k in sorted({k for k, _ in accepted})
    )
    return Remedy(
        f"Speedup predicted{once} on {chosen.place}, accepted length {length_text}",
        Table(tuple(columns), tuple(rows.values())),
        chosen.scenario,
        n_draft,
        acceptance,
        chosen.length_from == OF_THE_RUN,
        plain_off(drafting) is not None,
    )


def _times(row: Compared | None) -> str:
    return "" if row is None or row.measured is None else with_prefix(row.measured, "s")


def _server(comparison: Comparison) -> Scenario:
    return comparison.scenario.model_copy(
        update={"acceptance": comparison.length_from, "k_max": 1, "batch_size": 1}
    )


def _measured_gains(compared: Sequence[Comparison]) -> list[tuple[float, Comparison]]:
    """Measured speedups with their runs, of those at one batch and K the median."""
    measured = [
        (comparison.gain, comparison) for comparison in compared if comparison.gain is not None
    ]
    key = attrgetter("batch_size", "n_draft")
    return [
        (
            median(speedup for speedup, other in measured if key(other) == key(comparison)),
            comparison,
        )
        for _, comparison in measured
    ]


def _gain(comparison: Comparison) -> tuple[float, float]:
    """What a run gained, else what it is predicted to. Of equal ones the largest batch comes
    first."""
    row = comparison.row("speedup")
    return (1.0 if row is None else row.measured or row.predicted), -comparison.batch_size


def _cell_of(n_draft: int, runs: list[Comparison]) -> str:
    closest = next(
        (run for run in runs if run.n_draft == n_draft), runs[-1]
    )  # it knows its accepted length
    row = next((row for row in closest.by_k if row.n_draft == n_draft), None)
    return (
        "" if row is None else f"{row.speedup:.2f}x ({row.speedup_low:.2f}-{row.speedup_high:.2f})"
    )
