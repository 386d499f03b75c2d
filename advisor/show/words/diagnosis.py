"""A diagnosis in words and tables, and as one document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Any

import pandas as pd

from advisor.answers.advice import Advice, advise
from advisor.answers.best_k import DraftRow
from advisor.answers.diagnosis.diagnose import Diagnosis, Evidence, Finding
from advisor.answers.diagnosis.facts import UserRun
from advisor.answers.diagnosis.physics import Change, Compared, Comparison, all_rules, remedy_values
from advisor.answers.diagnosis.verdict import RunsOfK, Verdict, measured_speedups, runs_by_k
from advisor.answers.engines.config import changed_line, merged_rows
from advisor.answers.engines.vllm import FIXED_K_ONLY
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import as_measured, borders, own_schedule
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.prediction import AdvisorError
from advisor.show.live_answer import engine_label, launch
from advisor.show.phrases import rules, runs
from advisor.show.table import Column, Table
from advisor.text import counted, printable, with_prefix

SOURCES = ("verdict", "also", "published", "cause", "read_as")


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Diagnosis as plain values: the verdict's facts, findings, comparisons, and open rules."""
    view = view_of(diagnosis)
    verdict = diagnosis.verdict
    records = ("unfit", "decision", "read_as")
    facts = {name: value for name, value in vars(verdict).items() if name not in records}
    facts["decision"] = list(map(vars, verdict.decision.spans))
    texts = {"verdict": verdict.case, "sentence": view.sentence, "until": view.until}
    clean = [rule.id for rule in diagnosis.clean]
    return texts | {
        "facts": facts,
        "findings": list(map(_finding, diagnosis.findings)),
        "clean": clean,
        "not_judged": [
            {"rule": gap.rule.id, "needs": list(map(rules.need_words, gap.lacks))}
            for gap in diagnosis.not_judged
        ],
        "comparisons": [
            {"run": place, **_comparison(comparison)} for place, comparison in diagnosis.comparisons
        ],
        "notes": list(view.notes),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    tests = [
        {**vars(each.test.limit), "quantity": each.test.quantity, "test": each.test.test}
        | {"value": each.value, "limit": each.limit}
        for each in finding.evidence
    ]
    facts = {"rule": finding.rule.id, "runs": list(finding.places), "change": finding.change}
    texts = vars(_finding_row(finding))
    return {**texts, **facts, "counts": finding.counts, "tests": tests}


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
    ends = {"low": row.speedup_low, "high": row.speedup_high}
    return {"n_draft": row.n_draft, "speedup": row.speedup, **ends}


_LABELS = {
    "plain": "Time per token, baseline",
    "round": "Round of speculation",
    "verify": "Verification pass",
    "draft": "Drafting of a round",
    "speedup": "Speedup",
    "length": "Accepted length, published",
}


def amount(value: float, unit: str) -> str:
    """A compared value with its unit."""
    if unit == "x":
        return f"{value:.2f}×"
    return with_prefix(value, "s") if unit == "s" else f"{value:.2f}"


_ALL_K = 4
"""Up to which every K has its column; of more, those that matter. [-]"""


def _quantity(row: Compared) -> str:
    return "Round, computed" if row.computed else _LABELS[row.name]


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

    title: str
    """With which accepted length, and whose that is."""
    table: Table[Any]
    scenario: Scenario
    """Of the largest batch at which a measured run gains; where none was measured, of the run that
    the verdict names."""
    n_draft: int | None
    """The K that gains there, measured or else predicted; 0: no drafts. None where no measured run
    gains."""
    acceptance: str
    """The accepted length that was used: `2.4@3`."""
    own_length: bool
    """Whether the run states it."""


@dataclass(frozen=True)
class DiagnosisView:
    """Everything to draw, top to bottom."""

    verdict: Verdict
    texts: Mapping[str, str]
    """The verdict's sentences by slot: title, runs.VERDICT, action, `read_as` and `missing`."""
    command: Mapping[str, str] | None
    """What to paste: title, text, note and hint, engine. None where nothing is to be fixed."""
    findings: tuple[DiagnosisFinding, ...]
    remedy: Remedy | None
    """None without a predicted run that drafts."""
    comparisons: tuple[tuple[str, Table[Any]], ...]
    """Title and table of runs of which something was measured."""
    clean: tuple[str, ...]
    """Titles of rules that found nothing."""
    not_judged: tuple[tuple[str, str], ...]
    """(title of the rule, what it needs)."""
    notes: tuple[str, ...]
    """What was read, refused, not read and not predicted."""
    by_k: tuple[RunsOfK, ...]
    """Measured runs by K, those of most runs first."""

    @property
    def is_far(self) -> bool:
        """Whether what is predicted is of another server."""
        return self.verdict.baseline_batch is not None or self.verdict.unfit is not None

    @property
    def title(self) -> str:
        """The verdict in a few words."""
        return self.texts["title"]

    @property
    def until(self) -> str:
        """The action that measured speedups decide."""
        return self.texts["action"]

    @property
    def sentence(self) -> str:
        """The verdict in one paragraph."""
        return " ".join(filter(None, (self.texts[slot] for slot in SOURCES)))


def view_of(diagnosis: Diagnosis) -> DiagnosisView:
    """A diagnosis ready to be drawn."""
    drafting = [
        comparison
        for _, comparison in diagnosis.comparisons
        if comparison.n_draft and comparison.largest_batch
    ]
    verdict = diagnosis.verdict
    texts = {slot: printable(text) for slot, text in runs.verdict_texts(verdict).items()}
    remedy = _remedy(drafting, diagnosis)
    comparisons = tuple(
        (_comparison_title(place, comparison), Table(_COMPARED, comparison.rows))
        for place, comparison in diagnosis.comparisons
        if comparison.largest_batch and any(row.measured for row in comparison.rows)
    )
    not_judged = tuple(
        (rules.BOOK.say(gap.rule.id, {}), "; ".join(map(rules.need_words, gap.lacks)))
        for gap in diagnosis.not_judged
    )
    notes = tuple(map(printable, _notes(diagnosis)))
    findings = tuple(map(_finding_row, diagnosis.findings))
    return DiagnosisView(
        verdict=verdict,
        texts=texts,
        command=_command(diagnosis, remedy),
        findings=findings,
        remedy=remedy,
        comparisons=comparisons,
        clean=tuple(rules.BOOK.say(rule.id, {}) for rule in diagnosis.clean),
        not_judged=not_judged,
        notes=notes,
        by_k=tuple(runs_by_k(comparison for _, comparison in diagnosis.comparisons)),
    )


def _notes(diagnosis: Diagnosis) -> list[str]:
    """What was refused, not predicted, read, and not read."""
    result = diagnosis.result
    contradicted = [
        runs.BOOK.say("contradiction", {"first_place": place, "first_length": length})
        for place, length in result.contradicted
    ]
    refused = [f"{file}, line {line}: {reason}" for file, line, reason in result.refused]
    unpredicted = {_unpredicted(run) for run in result.runs if run.unpredicted}
    read = [runs.BOOK.say("read", vars(reading)) for reading in result.read]
    return [
        *(f"refused: {text}" for text in (*contradicted, *refused)),
        *(f"not predicted: {text}" for text in sorted(unpredicted)),
        *(f"read: {text}" for text in read),
        *(f"not read: {name}: {why}" for name, why in result.not_read.items()),
    ]


def _unpredicted(run: UserRun) -> str:
    facts = {"unpredicted": run.unpredicted, "refusal": run.refusal}
    return runs.BOOK.say("unpredicted", facts | {"batch": run.number("batch_size")})


def _comparison_title(place: str, comparison: Comparison) -> str:
    computed = ""
    for row in comparison.rows:
        if row.computed is not None:
            token_s, length = row.computed
            product = f"{with_prefix(token_s, 's')} × {length:.2f} tokens"
            computed = f"; round: {product}{_whose(comparison)}"
    return (
        f"{printable(place)} (K = {comparison.n_draft}, batch {comparison.batch_size:,.4g}, "
        f"{comparison.tier}{computed})"
    )


def _whose(comparison: Comparison) -> str:
    """Whose an accepted length is, in brackets. Empty for the run's own."""
    text = runs.BOOK.say("whose", vars(comparison))
    return "" if comparison.length_from == "run" else f" ({text})"


def _command(diagnosis: Diagnosis, remedy: Remedy | None) -> Mapping[str, str] | None:
    """The user's own launch line corrected, else the advisor's: with the K that was measured to
    pay, or without any.

    As `live_answer.launch` has it, with a title. None of a good run.
    """
    drafting = [comparison for _, comparison in diagnosis.comparisons if comparison.n_draft]
    worst = min(drafting, key=_gain, default=None)
    verdict = diagnosis.verdict
    changes = list(filter(None, diagnosis.changes))
    if worst is not None and verdict.fixed_k is not None:
        changes.append(_change_of_k(worst, verdict.fixed_k))
    loses = worst is not None and _gain(worst)[0] < 1.0
    if verdict.case == "mismeasured" or worst is None or not (changes or loses):
        return None
    if corrected := changed_line(diagnosis.launch_line, changes):
        return _as_command(worst, corrected, verdict.fixed_k, fixed_too=True)
    measured = measured_speedups(diagnosis.result.runs, worst).dropna().assign(decides=True)
    measured = measured.astype({"draft_tokens_k": int})
    is_measured = not measured.empty
    k = verdict.fixed_k
    if k is None and remedy is not None:
        k = remedy.n_draft or (0 if is_measured else worst.recommended.n_draft)
    schedule = own_schedule(measured) if is_measured else ((1, MAX_BATCH, k or 0),)
    command, answer = _launched(remedy, worst, measured, schedule)
    notes = []
    if k and is_measured and answer is not None:
        end = answer.to_serve[-1].batch_end
        ends = [border for border in borders(measured) if border.batch < end]
        notes = [runs.BOOK.say("border", vars(border)) for border in ends]
    if not diagnosis.launch_line:
        title = f"Launch on {command['engine']}"
        note = " ".join([command["note"], *notes]).strip()
        return {**command, "title": title, "note": note} if command["text"] else None
    table = () if answer is None or not k else _table_of(answer)
    if notes and not table:
        notes = [runs.BOOK.say("one_k", {})]
    line = changed_line(diagnosis.launch_line, [_change_of_k(worst, k or 0, table)])
    return _as_command(worst, line, k, " ".join(notes)) if line and loses else None


def _as_command(
    comparison: Comparison, text: str, k: int | None, note: str = "", fixed_too: bool = False
) -> dict[str, str]:
    engine = engine_label(comparison.scenario.engine)
    title = runs.BOOK.say("corrected", {"n_draft": k, "fixed_too": fixed_too})
    return {"engine": engine, "title": title, "text": text, "note": note, "hint": ""}


def _launched(
    remedy: Remedy | None,
    worst: Comparison,
    measured: pd.DataFrame,
    schedule: Sequence[tuple[int, int, int]],
) -> tuple[dict[str, str], Advice | None]:
    """The advisor's command for the remedy's scenario with the K that measured runs decide, and its
    answer; without text where there is none."""
    scenario = (remedy or worst).scenario
    changes: dict[str, Any] = {"k_max": max([scenario.k_max, *measured["draft_tokens_k"]])}
    if remedy is not None and remedy.own_length:
        changes["acceptance"] = remedy.acceptance
    try:
        answer = as_measured(advise(scenario.model_copy(update=changes)), schedule)
        outcome = outcome_of(answer, follows_own=not measured.empty)
        return launch(answer, outcome), answer
    except AdvisorError:
        return {"engine": "", "text": "", "note": ""}, None


def _change_of_k(comparison: Comparison, k: int, table: Sequence[Sequence[int]] = ()) -> Change:
    """Options that draft another K, or K by batch."""
    rule = next(rule for _, rule in all_rules() if rule.id == "k_loses_as_predicted")
    change = rule.change_for(remedy_values(comparison.scenario.engine, k))
    if not table:
        return change
    rows = {"num_speculative_tokens_per_batch_size": [list(row) for row in table]}
    return {flag: {**value, **rows} for flag, value in change.items()}


def _table_of(answer: Advice) -> tuple[tuple[int, int, int], ...]:
    """vLLM's rows of K by batch. Empty for another engine, one K, and methods that cannot vary
    it."""
    rows = merged_rows(answer.to_serve)
    varies = answer.setup.drafter.id not in FIXED_K_ONLY
    is_vllm = answer.scenario.engine == "vllm"
    return tuple(rows) if is_vllm and varies and len(rows) > 1 else ()


_PATH = re.compile(
    r" ?\((?:advisor|docs|profiles|measurements|tests)/[^()]*\)|(?:advisor|docs)/[\w./]+: "
)
"""Where in this project a source is written down, which tells a user nothing."""


def _finding_row(finding: Finding) -> DiagnosisFinding:
    rule = finding.rule.id
    published = finding.rule.published.source
    others = f" and {counted(len(finding.places) - 1, 'other run')}" if finding.places[1:] else ""
    differs = [
        f"{name}: {_setting(plain)} -> {_setting(drafting)}"
        for name, plain, drafting in finding.differences
    ]
    evidence = tuple(_evidence(test, published) for test in finding.evidence)
    return DiagnosisFinding(
        kind=finding.kind,
        title=rules.BOOK.say(rule, {}),
        where=printable(finding.places[0]) + others,
        evidence=evidence,
        differs=tuple(map(printable, differs)),
        because=rules.BOOK.say(f"{rule}_why", {}),
        fix=rules.BOOK.say(f"{rule}_do", finding.values),
        source=_source(published),
    )


def _source(text: str) -> str:
    return _PATH.sub("", text).replace("`", "")


def _evidence(evidence: Evidence, published: str) -> str:
    """A test with its source, which is left out where it is the finding's own, named below."""
    text = printable(rules.evidence_text(evidence))
    source = evidence.test.limit.source
    return text if source in ("", published) else f"{text} ({_source(source)})"


def _setting(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else str(value)


def _remedy(drafting: Sequence[Comparison], diagnosis: Diagnosis) -> Remedy | None:
    """The remedy of predicted runs that draft, by batch. None without any."""
    if not drafting:
        return None
    verdict = diagnosis.verdict
    measured = any(comparison.gain for comparison in drafting)
    paying = [
        (batch, span.k) for span in verdict.decision.spans if span.k for batch in span.batches
    ]
    place = max(paying, default=(verdict.batch, verdict.k))
    subject = [each for each in drafting if (each.batch_size, each.n_draft) == place]
    chosen = min(subject or drafting, key=_gain)
    n_draft = None if measured else chosen.recommended.n_draft
    n_draft = chosen.n_draft if paying else n_draft
    lengths = {(comparison.accepted_length, comparison.length_from) for comparison in drafting}
    title = runs.BOOK.say("forecast", vars(chosen) | {"n_lengths": len(lengths)})
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
        Column("batch", lambda at_batch: at_batch[-1].batch_size, "{:,.4g}".format)
    ]
    if measured:
        columns += [
            Column(
                "measured",
                lambda at_batch: ", ".join(
                    f"{run.gain:.2f}× at K = {run.n_draft}" for run in at_batch if run.gain
                ),
            )
        ]
        if any(comparison.ratio("plain") for comparison in drafting):
            columns += [
                Column(
                    "K = 0, measured",
                    lambda at_batch: _times(at_batch[-1].row("plain")),
                    paper=False,
                )
            ]
    else:
        columns.append(
            Column("predicted best", lambda at_batch: f"K = {at_batch[-1].recommended.n_draft}")
        )
        columns.append(
            Column(
                "K = 0", lambda at_batch: with_prefix(at_batch[-1].by_k[0].tpot_s, "s"), paper=False
            )
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
        title,
        Table(tuple(columns), tuple(rows.values())),
        chosen.scenario,
        n_draft,
        acceptance,
        chosen.length_from == "run",
    )


def _times(row: Compared | None) -> str:
    return "" if row is None or row.measured is None else with_prefix(row.measured, "s")


def _server(comparison: Comparison) -> Scenario:
    return comparison.scenario.model_copy(
        update={"acceptance": comparison.length_from, "k_max": 1, "batch_size": 1}
    )


def _gain(comparison: Comparison) -> tuple[float, float]:
    """What a run gained, else what it is predicted to. Of equal ones the largest batch comes
    first."""
    row = comparison.row("speedup")
    return (1.0 if row is None else row.measured or row.predicted), -comparison.batch_size


def _cell_of(n_draft: int, at_batch: list[Comparison]) -> str:
    closest = next(
        (run for run in at_batch if run.n_draft == n_draft), at_batch[-1]
    )  # it knows its accepted length
    row = next((row for row in closest.by_k if row.n_draft == n_draft), None)
    return (
        "" if row is None else f"{row.speedup:.2f}× ({row.speedup_low:.2f}-{row.speedup_high:.2f})"
    )
