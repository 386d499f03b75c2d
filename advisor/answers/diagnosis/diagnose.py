"""A run that disappoints: rules tried on it, and the verdict: is it measured right, configured to
win, or physics?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Literal

from advisor.answers.diagnosis.another_server import Unfit, plain_off, published_near, unfit_of
from advisor.answers.diagnosis.cause import amount, cause_text, may_accept_less
from advisor.answers.diagnosis.facts import FACTS, TO_PREDICT, Run, fact_words
from advisor.answers.diagnosis.physics import (
    HOLDS,
    IN_WORDS,
    Compared,
    Comparison,
    Condition,
    Kind,
    Rule,
    all_rules,
)
from advisor.answers.diagnosis.quantities import Value, limit_suspected, quantity
from advisor.answers.diagnosis.runs import (
    LoadedRuns,
    UserFile,
    UserInput,
    differences,
    read_runs,
    was_measured,
)
from advisor.answers.own_gap import CHECK_SERVER, SWITCH_OFF, plain_title
from advisor.catalog.hardware import model_name
from advisor.measured.ingest.columns import COLUMNS
from advisor.predict.scenario import Scenario
from advisor.text import counted, listed, typeset, with_prefix

State = Literal["found", "clean", "not_judged", "not_concerned"]


@dataclass(frozen=True)
class Evidence:
    """One test of a rule: what was measured, and what it was held against."""

    words: str
    value: Value
    unit: str
    test: str
    limit: Value
    source: str

    @property
    def text(self) -> str:
        """Evidence as a sentence fragment, `completed
        requests per concurrent request 1, below 3`."""
        if isinstance(self.limit, bool):
            words = FACTS[self.words].meaning if self.words in FACTS else self.words
            answer = "yes" if self.value else "no"
            return f"{words}: {answer}"
        sentence = (
            f"{self.words} {_shown(self.value, self.unit)}, {self.test} "
            f"{_shown(self.limit, self.unit)}"
        )
        return typeset(sentence)


@dataclass(frozen=True)
class RuleOutcome:
    """Result of one rule on one run."""

    rule: Rule
    kind: Kind
    run: Run
    state: State
    evidence: tuple[Evidence, ...] = ()
    lacks: tuple[str, ...] = ()
    """What it would need, and where that stands."""


def judged(run: Run) -> list[RuleOutcome]:
    """Every rule tried on a run. Of the found ones those that another says better are clean."""
    outcomes = [try_rule(rule, kind, run) for kind, rule in all_rules()]
    in_run = [outcome for outcome in outcomes if outcome.state == "found"]
    ids = {outcome.rule.id for outcome in in_run}
    # A kind of rules says more only where one of it stays: arms that differ in what a rule of
    # settings names do not.
    matched = ids | {outcome.kind for outcome in in_run if not ids & set(outcome.rule.yields_to)}
    return [
        RuleOutcome(outcome.rule, outcome.kind, run, "clean", outcome.evidence)
        if outcome.state == "found" and matched & set(outcome.rule.yields_to)
        else outcome
        for outcome in outcomes
    ]


def try_rule(rule: Rule, kind: Kind, run: Run) -> RuleOutcome:
    """One rule on one run. A test that fails clears it, whatever is unknown of the others."""
    lacking = _not_concerned(rule, run)
    if lacking is None:
        return RuleOutcome(rule, kind, run, "not_concerned")
    evidence = []
    missing = list(lacking)
    cleared = False
    for test in rule.tests:
        value, limit, needs = _measured(test, run)
        if isinstance(value, str) and not isinstance(limit, str):  # a number that is none
            value = None
        if value is None or limit is None:
            missing += [need for need in needs if not run.has(need)]
            missing += (
                []
                if any(not run.has(need) for need in needs)
                else [f"a run in which {test.quantity} is told"]
            )
            continue
        tested = quantity(test.quantity)
        evidence.append(
            Evidence(
                tested.words, value, tested.unit, IN_WORDS[test.test], limit, test.limit.source
            )
        )
        cleared |= not HOLDS[test.test](value, limit)
    if cleared and not lacking:
        return RuleOutcome(rule, kind, run, "clean", tuple(evidence))
    if missing:
        lacks = tuple(dict.fromkeys(map(fact_words, missing)))
        return RuleOutcome(rule, kind, run, "not_judged", tuple(evidence), lacks)
    return RuleOutcome(rule, kind, run, "found", tuple(evidence))


def _not_concerned(rule: Rule, run: Run) -> list[str] | None:
    """None where a rule speaks of other engines or of the other run. Else what is unknown of
    that."""
    lacking = []
    if rule.engines and run.text("engine") not in rule.engines:
        if run.text("engine"):
            return None
        lacking.append("engine")
    if rule.arm != "any":
        if run.value("draft_tokens_k") is None and run.value("speculation_on") is None:
            lacking.append("draft_tokens_k")
        elif run.drafts != (rule.arm == "speculative"):
            return None
    return lacking


def _measured(test: Condition, run: Run) -> tuple[Value, Value, tuple[str, ...]]:
    """(value, limit, what both need)."""
    tested = quantity(test.quantity)
    if test.limit.of is None:
        return tested.of(run), test.limit.value, tested.needs
    against = quantity(test.limit.of)
    limit = against.of(run)
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        limit = limit * test.limit.times
    return tested.of(run), limit, (*tested.needs, *against.needs)


def _shown(value: Value, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or value is None:
        return str(value)
    if unit == "s":
        return with_prefix(float(value), unit)
    unit_text = "" if unit == "1" else f" {unit}"
    return f"{value:,.4g}{unit_text}"


_OPENING: dict[Kind, str] = {
    "measurement": "Measure again before tuning",
    "configuration": "The engine is misconfigured",
    "physics": "Measurement and settings look right",
}
FEW_ACCEPTED = "Few drafts are accepted"
_OF_DRAFTS = {"drafter_hardly_accepted", "k_too_long"}
"""Rules of the settings that speak of the drafter and its K: the engine does as it was told."""


def verdict_text(
    verdict: str,
    findings: Sequence[Finding],
    compared: Sequence[Comparison],
    refused: Sequence[str] = (),
    losing: Sequence[Comparison] = (),
    suspect: str = "",
) -> str:
    """The verdict as a reader sees it first. `losing`: runs whose loss is what the model
    predicts."""
    # Physics finds such a server slow because it is another, or since requests wait.
    off = plain_off(compared)
    slow = off is None and not suspect
    if faults := [
        finding
        for finding in findings
        if not finding.rule.expected and (slow or finding.kind != "physics")
    ]:
        return _fault_text(faults, compared, losing)
    if refused and verdict == "mismeasured":
        return f"{_OPENING['measurement']}: no row can be used ({refused[0]})."
    if losing and verdict == "as_predicted":
        return loss_text(losing[0])
    if foreseen := predicted_text(compared):
        return foreseen
    if not compared or verdict == "unknown":
        return (
            "No fault found here. Add a run with drafts and one without: their gap says where to "
            "look."
        )
    if (worst := unforeseen(compared)) is not None:
        cause = _cause(compared, suspect)
        first = f"{plain_title(off)}: {CHECK_SERVER[:1].lower()}{CHECK_SERVER[1:]}" if off else ""
        return " ".join(
            filter(None, [first, _unforeseen_text(worst), published_near(worst), suspect, cause])
        )
    if (row := shown_row(compared)) is None:
        return "Nothing found in what could be judged."
    row_text = f"{row.label[0].lower()}{row.label[1:]} {_both(row)}"
    if verdict == "as_predicted":
        loses = row.name == "speedup" and max(row.measured or 1.0, row.predicted) < 1.0
        no_gain_text = f" {_NO_GAIN}.{_reach(row)}" if loses else ""
        return f"Nothing found: {row_text}, within the 80% range.{no_gain_text}"
    besides = f" {besides_text(losing[0])}" if losing else ""
    return f"No fault found, and the gap is not explained: {row_text}, outside the band.{besides}"


def _cause(compared: Sequence[Comparison], suspect: str) -> str:
    """Sentence on the likeliest cause of a loss that is not foreseen. Empty without one."""
    likely = "Else" if suspect else "Likeliest cause" if plain_off(compared) is None else "Besides"
    worst = unforeseen(compared)
    return "" if worst is None else cause_text(worst, compared, likely)


def unforeseen(compared: Sequence[Comparison]) -> Comparison | None:
    """The run that gains least of those that gain less than their band, or lose. None where no run
    does."""
    less = []
    for comparison in compared:
        row = comparison.row("speedup")
        if row is not None and comparison.gain is not None and comparison.gain < row.low:
            less.append(comparison)
    return min(less, key=lambda comparison: comparison.gain or 0.0, default=None)


def _headline(compared: Sequence[Comparison], suspect: str) -> str:
    """What to do and to look at first, of a run whose loss or gap is not foreseen. Empty without
    one."""
    if (comparison := unforeseen(compared)) is None:
        return ""
    at = f"at batch {comparison.batch_size:,.4g}"
    row = comparison.row("speedup")
    (do, measured, _) = _remedy(compared)
    if (off := plain_off(compared)) is not None:
        gain_text = f"{comparison.gain:.2f}x at K = {comparison.n_draft}"
        measured_text = f"{measured}, {gain_text}" if measured else gain_text
        return f"{do}: measured {measured_text}" if do else plain_title(off)
    now = do or f"Slower than predicted {at}"
    if suspect:
        return f"{now}; look at --max-running-requests"
    if row is not None and may_accept_less(comparison, compared):
        return f"{now}; look up the accepted length in the log"
    return f"{now}: a round takes too long"


def _until_text(compared: Sequence[Comparison], verdict: VerdictKind) -> str:
    """Sentence on what to do at the batch that loses most until its cause is mended. Empty where
    none loses."""
    do, measured, untried = _remedy(compared)
    measured_text = f": measured {measured}" if measured else ""
    if verdict != "misconfigured":
        untried_text = f", or try {untried}" if untried else ""
        return f"{do} until the cause is found{measured_text or untried_text}." if do else ""
    faster = next((comparison for comparison in compared if comparison.faster_k is not None), None)
    then = "" if faster is None else f"draft {_chosen(faster)}"
    if not do:
        return f"Once mended, {then}." if then else ""
    then_text = f"; then {then}" if then else ""
    return f"{do} until that is mended{measured_text or then_text}."


def _times_text(comparison: Comparison) -> str:
    """Times per token of a run with drafts and of its plain run. Empty where the plain run was not
    timed."""
    plain = comparison.ratio("plain") and comparison.row("plain")
    if not plain or not plain.measured or not comparison.gain:
        return ""
    with_drafts = with_prefix(plain.measured / comparison.gain, "s")
    without = with_prefix(plain.measured, "s")
    return f" ({with_drafts} a token, {without} without)"


def _remedy(compared: Sequence[Comparison]) -> tuple[str, str, str]:
    """What to do at the batch that loses most, what that measured, or what to try. Empty texts
    where none loses."""
    if (worst := unforeseen(compared)) is None or (worst.gain or 1.0) >= 1.0:
        return "", "", ""
    at = f"at batch {worst.batch_size:,.4g}"
    k = worst.recommended.n_draft
    server = attrgetter("batch_size", "place", "scenario.model_id")
    same = [comparison for comparison in compared if server(comparison) == server(worst)]
    here = {
        n: median(
            comparison.gain for comparison in same if comparison.n_draft == n and comparison.gain
        )
        for n in {comparison.n_draft for comparison in same if comparison.gain}
    }
    if (best := max(here, key=lambda n: here[n])) != worst.n_draft and here[best] >= 1.0:
        return f"Draft K = {best} {at}", f"{here[best]:.2f}x", ""
    is_untried = 0 < k < worst.n_draft and k not in here and plain_off(compared) is None
    return f"{SWITCH_OFF} {at}", "", _chosen(worst) if is_untried else ""


def _unforeseen_text(comparison: Comparison) -> str:
    if (row := comparison.row("speedup")) is None or row.measured is None:
        return ""
    less = "gains less than predicted" if row.measured >= 1.0 else f"loses {1.0 - row.measured:.0%}"
    return f"{_cell(comparison)} {less}: {_both(row, _times_text(comparison))}."


_NO_GAIN = "Speculation does not pay at this batch on this hardware"


def _cell(comparison: Comparison) -> str:
    return f"K = {comparison.n_draft} at batch {comparison.batch_size:,.4g}"


def _both(row: Compared, aside: str = "") -> str:
    """`measured 1.08x, predicted 1.60x (1.11x to 2.03x)`, of a measured row. aside : stands behind
    the measured."""
    origin = "computed" if row.computed else "measured"
    return f"{origin} {amount(row.measured or 0.0, row.unit)}{aside}, predicted {_band(row)}"


def _band(row: Compared) -> str:
    """`1.60x (1.11x to 2.03x)`."""
    return (
        f"{amount(row.predicted, row.unit)} ({amount(row.low, row.unit)} to "
        f"{amount(row.high, row.unit)})"
    )


def _reach(row: Compared) -> str:
    """Sentence that the band of a loss holds gains. Empty where it does not."""
    return (
        f" The band reaches to {amount(row.high, row.unit)}: a gain is not ruled out."
        if row.high > 1.0
        else ""
    )


def predicted_text(compared: Sequence[Comparison]) -> str:
    """Sentence on what a server is predicted to gain or lose by batch. Empty where something was
    measured."""
    speedups = [(comparison, comparison.row("speedup")) for comparison in compared]
    rows = [(comparison, row) for comparison, row in speedups if row is not None]
    was_any_measured = any(
        row.measured is not None for comparison in compared for row in comparison.rows
    )
    if not rows or was_any_measured:
        return ""
    gains = [pair for pair in rows if not pair[1].predicted < 1.0]
    losses = [pair for pair in rows if pair[1].predicted < 1.0]
    k_and_place = f"K = {rows[0][0].n_draft} on {rows[0][0].place}"
    if not losses:
        near = [f"{comparison.batch_size:,.4g}" for comparison, row in rows if row.low < 1.0]
        within = f"; a loss lies within the 80% range at batch {listed(near)}" if near else ""
        ends = _at(*rows[0])
        if rows[1:]:
            ends += f", {_at(*rows[-1])}"
        return (
            f"{k_and_place} is predicted to gain at each batch tried: {ends}{within}. Add what "
            "was measured without and with drafts."
        )
    worst, row = min(losses, key=lambda pair: pair[1].predicted)
    pays = f"gain {_at(*gains[-1])} and to " if gains else ""
    return (
        f"{k_and_place} is predicted to {pays}lose {_at(worst, row)}. At batch "
        f"{worst.batch_size:,.4g} {_instead(worst)}."
    )


def _at(comparison: Comparison, row: Compared) -> str:
    return f"{_band(row)} at batch {comparison.batch_size:,.4g}"


def _fault_text(
    faults: Sequence[Finding], compared: Sequence[Comparison], losing: Sequence[Comparison]
) -> str:
    """Faults of the first kind that was found. What the model predicts anyway stands before mere
    physics."""
    kind = faults[0].kind
    titles = "; ".join(fault.rule.title for fault in faults if fault.kind == kind)
    if kind == "physics" and losing and not slower_than_explained(compared):
        return f"{loss_text(losing[0])} Besides: {titles}."
    opening = (
        FEW_ACCEPTED if kind == "configuration" and of_drafts_alone(faults) else _OPENING[kind]
    )
    worst = unforeseen(compared)
    besides = (
        besides_text(losing[0]) if losing else "" if worst is None else _unforeseen_text(worst)
    )
    row = shown_row(compared)
    measured = (
        f"Speedup {_both(row)}."
        if row is not None and row.name == "speedup"
        else predicted_text(compared)
    )
    near = "" if worst is None else published_near(worst)
    return " ".join(filter(None, [f"{opening}: {titles}.", besides or measured, near]))


def of_drafts_alone(findings: Sequence[Finding]) -> bool:
    """Whether all faults of settings are that few drafts are accepted, which is no misconfigured
    engine."""
    return {
        finding.rule.id for finding in findings if finding.kind == "configuration"
    } <= _OF_DRAFTS


def slower_than_explained(compared: Sequence[Comparison]) -> bool | None:
    """Whether some run takes longer than its band. None where nothing was measured beside a
    prediction."""
    slower = [comparison.slower for comparison in compared if comparison.slower is not None]
    return any(slower) if slower else None


def loss_text(one: Comparison) -> str:
    """Sentence that a run loses as the model predicts, and what to draft instead."""
    row = one.row("speedup")
    instead = _instead(one)
    if row is None:
        return ""
    foreseen = f"The model predicts a loss for {_cell(one)}: {_band(row)}."
    if row.measured is not None:
        foreseen = f"This loss is what the model predicts for {_cell(one)}: {_both(row)}."
    pays = f"D{instead[1:]}" if one.recommended.n_draft else f"{_NO_GAIN}: {instead}"
    return f"{foreseen} {pays}.{_reach(row)}"


def besides_text(one: Comparison) -> str:
    """Sentence that the model predicts a loss whatever else is found, and what to draft instead."""
    if (row := one.row("speedup")) is None:
        return ""
    return (
        f"Besides, the model predicts a loss for {_cell(one)} without that fault: {_band(row)}; "
        f"{_instead(one)}."
    )


def _instead(comparison: Comparison) -> str:
    """`draft K = 2, predicted 1.05x (0.90x to 1.20x)`."""
    return (
        f"draft {_chosen(comparison)}"
        if comparison.recommended.n_draft
        else "draft nothing (1.00x)"
    )


def _chosen(comparison: Comparison) -> str:
    choice = comparison.recommended
    carried = (
        f", its accepted length carried from that of K = {comparison.n_draft}"
        if comparison.carried
        else ""
    )
    return (
        f"K = {choice.n_draft}, predicted {amount(choice.speedup, 'x')} "
        f"({amount(choice.speedup_low, 'x')} to {amount(choice.speedup_high, 'x')}){carried}"
    )


def shown_row(compared: Sequence[Comparison]) -> Compared | None:
    """The compared quantity that a verdict names: of the run furthest outside its band."""
    rows = [
        comparison.row(name) for comparison in compared for name in ("speedup", "round", "plain")
    ]
    measured = [row for row in rows if row is not None and row.measured is not None]
    speedups = [row for row in measured if row.name == "speedup"]
    return max(
        speedups or measured,
        key=lambda row: (not row.inside, abs(math.log(row.ratio or 1.0))),
        default=None,
    )


VerdictKind = Literal[
    "mismeasured",
    "misconfigured",
    "slower_than_predicted",
    "as_predicted",
    "unexplained",
    "unknown",
]
_BY_KIND: dict[Kind, VerdictKind] = {
    "measurement": "mismeasured",
    "configuration": "misconfigured",
    "physics": "slower_than_predicted",
}


@dataclass(frozen=True)
class Finding:
    """A rule that was found, in which runs, with the evidence of the first of them."""

    rule: Rule
    kind: Kind
    lines: tuple[str, ...]
    """`file, line` of every run it was found in."""
    evidence: tuple[Evidence, ...]
    fix: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Everything that a page or a terminal shows of a diagnosed run."""

    verdict: VerdictKind
    sentence: str
    cause: str
    """Sentence on the likeliest cause of such a loss, as `sentence` has it. Empty without one."""
    headline: str
    """What to do and to look at first where a loss is not foreseen. Empty without one."""
    unfit: Unfit | None
    """Why the server cannot run as it is predicted. None where it fits."""
    until: str
    """What to do at the batch that loses most until its cause is known. Empty where none loses
    unforeseen."""
    findings: tuple[Finding, ...]
    clean: tuple[tuple[Kind, Rule], ...]
    """Rules that were judged and found nothing."""
    not_judged: tuple[RuleOutcome, ...]
    comparisons: tuple[tuple[str, Comparison], ...]
    """Each predicted run beside its measurement, by `file, line`."""
    unsaid: tuple[str, ...]
    """Columns without which nothing is predicted."""
    not_compared: tuple[str, ...]
    read: tuple[str, ...]
    not_read: tuple[str, ...]
    refused: tuple[str, ...]
    """Rows that contradict themselves or cannot be read, with the reader's reason."""
    launch_line: str
    """Of the run that the first finding is of, else of the first one that drafts. Empty where it is
    not known."""
    fixes: tuple[str, ...]
    """What was found in that run, as its findings word the remedy; of a misconfigured one with
    `mended_k`."""
    mended_k: int | None
    """The K that is faster once it is mended. None where the run's own is."""


def diagnose(
    files: Sequence[UserFile],
    values: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    otherwise: Mapping[str, str] | None = None,
    source: str = "the scenario",
    scenario: Scenario | None = None,
) -> Diagnosis:
    """Diagnose a run: faults found, verdict and comparison with its prediction, as far as its files
    tell.

    files : benchmark results of any known tool, launch lines, printed server arguments and logs, in
        any mixture.
    values : columns that the files lack, by name, as `ingest --set` takes them.
    columns : headers that mean a column of ours, as `ingest --map` takes them.
    configs : config.json texts of models without a profile, by the name that the runs use.
    otherwise : columns that hold only where neither the files nor `values` say them.
    source : where `otherwise` is from, as the verdict names it.
    scenario : tells of runs of its model and drafter what no column does: accepted length, context,
        formats.
    Raises AdvisorError when nothing in the files can be read, or a value is none of its column.
    """
    words = UserInput(values or {}, columns or {}, otherwise or {}, source, scenario)
    result = read_runs(files, words, configs or {})
    outcomes = [outcome for run in result.runs for outcome in judged(run)]
    if plain_off([run.comparison for run in result.runs if run.comparison is not None]) is not None:
        # Physics finds such a server slow since it is another.
        outcomes = [
            outcome
            for outcome in outcomes
            if outcome.rule.expected or (outcome.state, outcome.kind) != ("found", "physics")
        ]
    in_runs = [outcome for outcome in outcomes if outcome.state == "found"]
    by_rule = [
        [outcome for outcome in in_runs if outcome.rule.id == rule.id] for _, rule in all_rules()
    ]
    mended_k = (
        None if result.contradicted else _mended_k([of_rule[0] for of_rule in by_rule if of_rule])
    )
    findings = tuple(_finding(of_rule, mended_k) for of_rule in by_rule if of_rule)
    compared = [(run.place, run.comparison) for run in result.runs if run.comparison is not None]
    predicted = [comparison for _, comparison in compared]
    unusable = bool(result.refused) and not result.n_kept
    suspect = next(filter(None, map(limit_suspected, result.runs)), "")
    unfit = unfit_of(predicted)
    verdict: VerdictKind = (
        "mismeasured" if result.contradicted else _verdict(findings, unusable, predicted)
    )
    reasons = {run.not_compared for run in result.runs if run.not_compared}
    clean, not_judged = _by_rule(outcomes)
    places = [
        *(finding.lines[0] for finding in findings),
        *(run.place for run in result.runs if run.drafts),
        "",
    ]
    lines = (run.value("launch_line") for run in result.runs if run.place == places[0])
    launch_line = next((line for line in lines if isinstance(line, str)), "")
    fixes = tuple(finding.fix for finding in findings if places[0] in finding.lines)
    return Diagnosis(
        launch_line=launch_line,
        fixes=fixes,
        mended_k=mended_k,
        verdict=verdict,
        sentence=_sentence(result, verdict, findings, outcomes, suspect, unfit),
        cause=suspect or _cause(predicted, suspect),
        headline=_headline(predicted, suspect),
        unfit=unfit,
        until=_until_text(predicted, verdict),
        unsaid=unsaid(result),
        findings=findings,
        clean=clean,
        not_judged=not_judged,
        comparisons=tuple(compared),
        not_compared=tuple(sorted(reasons)),
        read=tuple(result.read),
        not_read=tuple(f"{name}: {why}" for name, why in result.not_read.items()),
        refused=_refused(result),
    )


def _sentence(
    result: LoadedRuns,
    verdict: VerdictKind,
    findings: Sequence[Finding],
    outcomes: Sequence[RuleOutcome],
    suspect: str,
    unfit: Unfit | None,
) -> str:
    """The verdict in words, with the accelerators that runs were judged by and do not state."""
    if result.contradicted:
        first, *others = result.contradicted
        more = f" {counted(len(others), 'other run')} likewise." if others else ""
        return (
            f"The files contradict each other, so that nothing is said of the run: {first}.{more}"
        )
    compared = [(run, run.comparison) for run in result.runs if run.comparison is not None]
    losing = [
        outcome.run.comparison
        for outcome in outcomes
        if outcome.state == "found" and outcome.rule.expected
    ]
    predicted = [comparison for _, comparison in compared]
    losses = [comparison for comparison in losing if comparison is not None]
    verdict_sentence = verdict_text(verdict, findings, predicted, _refused(result), losses, suspect)
    if unfit is not None:
        verdict_sentence = unfit.text
    if not predicted and (run := _unpredicted(result)) is not None:
        open_ = _unpredicted_text(run, unsaid(result))
        verdict_sentence = (
            f"{verdict_sentence} {open_}".strip() if findings else open_ or verdict_sentence
        )
    judged_as = {
        f"{model_name(comparison.scenario.model_id)} on {comparison.place}": run.assumed
        for run, comparison in reversed(compared)
        if run.assumed
    }
    return " ".join(
        [verdict_sentence, *(f"Read as {what}, {assumed}." for what, assumed in judged_as.items())]
    )


def _refused(result: LoadedRuns) -> tuple[str, ...]:
    return tuple(f"{file}, line {line}: {reason}" for file, line, reason in result.refused)


def unsaid(result: LoadedRuns) -> tuple[str, ...]:
    """Columns that the first run with drafts has to state to be predicted. Empty where it is, or
    there is none."""
    run = _unpredicted(result)
    return tuple(name.split("|")[0] for name in TO_PREDICT if run is not None and not run.has(name))


def _unpredicted(result: LoadedRuns) -> Run | None:
    drafting = (run for run in result.runs if run.value("draft_tokens_k") != 0)
    return next((run for run in drafting if run.comparison is None), None)


def _unpredicted_text(run: Run, lacks: Sequence[str]) -> str:
    """Sentence on why a run with drafts is not predicted. Empty where it measured nothing and tells
    of no server."""
    missing_text = listed([COLUMNS["points"][name].in_text for name in lacks]) if lacks else ""
    speedup = run.number("speedup")
    batch = run.number("batch_size")
    k = run.number("draft_tokens_k")
    at = ("" if batch is None else f" at batch {batch:,.4g}") + (
        "" if k is None else f" with K = {k:.0f}"
    )
    if speedup is not None and missing_text:
        return (
            f"Measured {speedup:.2f}x{at}. Whether that is foreseen depends on what is not said: "
            f"{missing_text}."
        )
    if missing_text:
        return f"The server cannot be predicted before this is said: {missing_text}."
    read = (
        f" Read as {model_name(run.text('model_id'))}, {run.assumed}."
        if run.assumed and run.text("model_id")
        else ""
    )
    return f"Not predicted: {run.not_compared}.{read}" if was_measured(run.facts) else ""


def _finding(outcomes: Sequence[RuleOutcome], mended_k: int | None) -> Finding:
    first = outcomes[0]
    run = outcomes[0].run
    tested = {test.quantity for test in first.rule.tests}
    details = differences(run.facts, run.plain) if "differences_of_arms" in tested else []
    fix = _fix(first, mended_k)
    lines = tuple(outcome.run.place for outcome in outcomes)
    return Finding(first.rule, first.kind, lines, first.evidence, fix, tuple(details))


def _mended_k(outcomes: Sequence[RuleOutcome]) -> int | None:
    """The K that is faster once a misconfigured run is mended. None without such a fault, or where
    its own is."""
    faults = [outcome for outcome in outcomes if not outcome.rule.expected]
    if not faults or faults[0].kind != "configuration" or faults[0].run.comparison is None:
        return None
    return faults[0].run.comparison.faster_k


def _fix(outcome: RuleOutcome, drafts: int | None = None) -> str:
    """What mends what was found, in words. drafts : the K to go on with. None: the run's own."""
    run = outcome.run
    k = run.comparison.recommended.n_draft if run.comparison else None
    batch = run.number("batch_size") or 0
    n_draft = (run.number("draft_tokens_k") or 0) if drafts is None else drafts
    admitted = max(run.number("max_num_seqs") or 0, run.number("max_running_requests") or 0)
    return outcome.rule.fix_for(run.text("engine"), k, batch, n_draft, admitted)


def _by_rule(
    outcomes: Sequence[RuleOutcome],
) -> tuple[tuple[tuple[Kind, Rule], ...], tuple[RuleOutcome, ...]]:
    """Rules that found nothing anywhere: those judged in some run, and those judged in none."""
    clean: dict[str, tuple[Kind, Rule]] = {}
    open_: dict[str, RuleOutcome] = {}
    matched_ids = {outcome.rule.id for outcome in outcomes if outcome.state == "found"}
    for outcome in outcomes:
        if outcome.rule.id in matched_ids:
            continue
        if outcome.state == "clean":
            clean.setdefault(outcome.rule.id, (outcome.kind, outcome.rule))
        elif outcome.state == "not_judged":
            open_.setdefault(outcome.rule.id, outcome)
    return tuple(clean.values()), tuple(
        outcome for name, outcome in open_.items() if name not in clean
    )


def _verdict(
    findings: Sequence[Finding], all_refused: bool, compared: Sequence[Comparison]
) -> VerdictKind:
    """The first kind of fault that was found, in the order of the rules. Else what the comparison
    says."""
    kinds = [finding.kind for finding in findings if not finding.rule.expected]
    if kinds and (kinds[0] != "physics" or slower_than_explained(compared) is not False):
        return _BY_KIND[kinds[0]]
    if all_refused and not kinds:
        return "mismeasured"
    rows = [comparison.judged for comparison in compared]
    inside = [row.inside for row in rows if row is not None]
    if not inside:
        return "unknown"
    return "as_predicted" if all(inside) else "unexplained"
