"""A run that disappoints: rules tried on it, and the verdict: is it measured right, configured to win, or physics?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.answers.diagnosis.facts import Run, fact_words
from advisor.answers.diagnosis.physics import Compared, Comparison
from advisor.answers.diagnosis.quantities import Value, quantity
from advisor.answers.diagnosis.rules import HOLDS, IN_WORDS, Condition, Kind, Rule, all_rules
from advisor.answers.diagnosis.runs import LoadedRuns, UserFile, UserInput, differences, read_runs
from advisor.predict.scenario import Scenario
from advisor.text import counted, typeset, with_prefix

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
        """Evidence as a sentence fragment, `completed requests per concurrent request 1, below 3`."""
        if isinstance(self.limit, bool):
            return f"{self.words}: {'yes' if self.value else 'no'}"
        shown = f"{self.words} {_shown(self.value, self.unit)}, {self.test} {_shown(self.limit, self.unit)}"
        return typeset(shown)


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
    in_run = [one for one in outcomes if one.state == "found"]
    ids = {one.rule.id for one in in_run}
    # A kind of rules says more only where one of it stays: arms that differ in what a rule of settings names do not.
    found = ids | {one.kind for one in in_run if not ids & set(one.rule.yields_to)}
    return [
        RuleOutcome(one.rule, one.kind, run, "clean", one.evidence)
        if one.state == "found" and found & set(one.rule.yields_to)
        else one
        for one in outcomes
    ]


def try_rule(rule: Rule, kind: Kind, run: Run) -> RuleOutcome:
    """One rule on one run. A test that fails clears it, whatever is unknown of the others."""
    lacking = _not_concerned(rule, run)
    if lacking is None:
        return RuleOutcome(rule, kind, run, "not_concerned")
    evidence, missing, cleared = [], list(lacking), False
    for test in rule.tests:
        value, limit, needs = _measured(test, run)
        if isinstance(value, str) and not isinstance(limit, str):  # a number that is none
            value = None
        if value is None or limit is None:
            missing += [need for need in needs if not run.has(need)]
            missing += [] if any(not run.has(need) for need in needs) else [f"a run in which {test.quantity} is told"]
            continue
        evidence.append(_evidence(test, value, limit))
        cleared |= not HOLDS[test.test](value, limit)
    if cleared and not lacking:
        return RuleOutcome(rule, kind, run, "clean", tuple(evidence))
    if missing:
        return RuleOutcome(
            rule, kind, run, "not_judged", tuple(evidence), tuple(dict.fromkeys(map(fact_words, missing)))
        )
    return RuleOutcome(rule, kind, run, "found", tuple(evidence))


def _not_concerned(rule: Rule, run: Run) -> list[str] | None:
    """None where a rule speaks of other engines or of the other run. Else what is unknown of that."""
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


def _evidence(test: Condition, value: Value, limit: Value) -> Evidence:
    tested = quantity(test.quantity)
    return Evidence(tested.words, value, tested.unit, IN_WORDS[test.test], limit, test.limit.source)


def _shown(value: Value, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or value is None:
        return str(value)
    return with_prefix(float(value), unit) if unit == "s" else f"{value:,.4g}{'' if unit == '1' else f' {unit}'}"


_OPENING: dict[Kind, str] = {
    "measurement": "Measure again before anything is tuned",
    "configuration": "The engine is misconfigured",
    "physics": "The measurement and the settings look right",
}
_SLOWER = {
    True: ", and the run is slower than the model explains",
    False: ", and no time is longer than the model explains",
}


def verdict_text(
    verdict: str,
    findings: Sequence[tuple[Rule, Kind]],
    compared: Sequence[Comparison],
    refused: Sequence[str],
    n_not_judged: int,
    losing: Sequence[Comparison] = (),
) -> str:
    """The verdict as a reader sees it first. `losing`: runs whose loss is what the model predicts."""
    faults = [(rule, kind) for rule, kind in findings if not rule.expected]
    if faults:
        return _fault_text(faults, compared, losing)
    if refused and verdict == "mismeasured":
        return f"Measure again before anything is tuned: no row of it can be used ({refused[0]})."
    open_rules = f" {counted(n_not_judged, 'rule')} could not be judged." if n_not_judged else ""
    if not compared or verdict == "unknown":
        return f"No fault found here. Add a run with drafts and one without: their gap says where to look.{open_rules}"
    if losing and verdict == "as_predicted":
        return f"{loss_text(losing[0])}{open_rules}"
    row = shown_row(compared)
    if row is None:
        return f"Nothing found in what could be judged.{open_rules}"
    row_said = row_text(row)
    if verdict == "as_predicted":
        loses = row.name == "speedup" and max(row.measured or 1.0, row.predicted) < 1.0
        end = " Speculation does not pay at this batch on this hardware: no setting found is at fault." if loses else ""
        if loses and row.high > 1.0:
            end += f" The band reaches to {amount(row.high, row.unit)}, so that a gain is not ruled out."
        return f"Nothing found: {row_said}, within the band.{end}{open_rules}"
    besides = f" {besides_text(losing[0])}" if losing else ""
    return f"No fault found, and the gap is not explained: {row_said}, outside the band.{besides}{open_rules}"


def _fault_text(
    faults: Sequence[tuple[Rule, Kind]], compared: Sequence[Comparison], losing: Sequence[Comparison]
) -> str:
    """Faults of the first kind that was found. What the model predicts anyway stands before mere physics."""
    kind = faults[0][1]
    titles = "; ".join(rule.title for rule, of in faults if of == kind)
    slower = slower_than_explained(compared)
    if kind == "physics" and losing and not slower:
        return f"{loss_text(losing[0])} Besides: {titles}."
    opening = _OPENING[kind] + (_SLOWER.get(slower, "") if kind == "physics" and slower is not None else "")
    return f"{opening}: {titles}." + (f" {besides_text(losing[0])}" if losing else "")


def slower_than_explained(compared: Sequence[Comparison]) -> bool | None:
    """Whether some run takes longer than its band. None where nothing was measured beside a prediction."""
    slower = [one.slower for one in compared if one.slower is not None]
    return any(slower) if slower else None


def loss_text(one: Comparison) -> str:
    """Sentence that a run loses as the model predicts, and what to draft instead."""
    row, at = one.row("speedup"), f"K = {one.n_draft} at batch {one.batch_size:,.4g}"
    if row is None:
        return ""
    band = f"({amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
    if row.measured is None:
        sentence = f"The model predicts a loss for {at}: {amount(row.predicted, row.unit)} {band}."
    else:
        measured = f"measured {amount(row.measured, row.unit)}, predicted {amount(row.predicted, row.unit)} {band}"
        sentence = f"This loss is what the model predicts for {at}: {measured}."
    pays = "" if one.recommended.n_draft else "Speculation does not pay at this batch on this hardware: "
    instead = _instead(one)
    sentence += f" {pays}{instead if pays else instead[0].upper() + instead[1:]}."
    reach = f" The band reaches to {amount(row.high, row.unit)}, so that a gain is not ruled out."
    return sentence + (reach if row.high > 1.0 else "")


def besides_text(one: Comparison) -> str:
    """Sentence that the model predicts a loss whatever else is found, and what to draft instead."""
    row = one.row("speedup")
    if row is None:
        return ""
    predicted = f"{amount(row.predicted, row.unit)} ({amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
    return (
        f"Besides, the model predicts a loss for K = {one.n_draft} at batch {one.batch_size:,.4g} without "
        f"that fault: {predicted}; {_instead(one)}."
    )


def _instead(one: Comparison) -> str:
    """`draft K = 2, predicted 1.05x (0.90x to 1.20x)`."""
    choice = one.recommended
    if not choice.n_draft:
        return "draft nothing (1.00x)"
    carried = f", its accepted length carried from that of K = {one.n_draft}" if choice.carried else ""
    return (
        f"draft K = {choice.n_draft}, predicted {amount(choice.speedup, 'x')} ({amount(choice.low, 'x')} to "
        f"{amount(choice.high, 'x')}){carried}"
    )


def shown_row(compared: Sequence[Comparison]) -> Compared | None:
    """The compared quantity that a verdict names: of the run furthest outside its band."""
    rows = [
        row
        for one in compared
        for name in ("speedup", "round", "plain")
        if (row := one.row(name)) is not None and row.measured is not None
    ]
    speedups = [row for row in rows if row.name == "speedup"] or rows
    return max(speedups, key=lambda row: (not row.inside, abs(math.log(row.ratio or 1.0))), default=None)


def row_text(row: Compared) -> str:
    """Row in words, `speedup measured 1.08x, predicted 1.62x (1.40-1.80)`."""
    measured = "not measured" if row.measured is None else f"measured {amount(row.measured, row.unit)}"
    band = f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)}"
    return f"{row.label[0].lower()}{row.label[1:]} {measured}, predicted {amount(row.predicted, row.unit)} ({band})"


def amount(value: float, unit: str) -> str:
    """A compared value with its unit."""
    if unit == "x":
        return f"{value:.2f}x"
    return with_prefix(value, "s") if unit == "s" else f"{value:.2f}"


def gap_text(comparison: Comparison) -> str:
    """Sentence on what separates a measured run from its prediction.

    Empty where neither round nor plain step was measured.
    """
    pieces = []
    for name, label in (("plain", "a plain token"), ("round", "the round")):
        row = comparison.row(name)
        if row is not None and row.measured is not None:
            gap = row.measured - row.predicted
            pieces.append(
                f"{label} takes {amount(row.measured, row.unit)}, {amount(abs(gap), row.unit)} "
                f"{'more' if gap >= 0 else 'less'} than predicted ({'within' if row.inside else 'outside'} "
                f"{amount(row.low, row.unit)} to {amount(row.high, row.unit)})"
            )
    length = comparison.row("length")
    if length is not None and length.measured is not None and not length.inside:
        share = abs(length.measured / length.predicted - 1.0)
        pieces.append(
            f"an accepted length of {length.measured:.2f} where {length.low:.2f} to {length.high:.2f} is published for "
            f"this model and drafter makes a token {'dearer' if length.measured < length.predicted else 'cheaper'} by "
            f"{share:.0%}"
        )
    row = comparison.row("round")
    if comparison.n_draft and row is not None and row.measured is not None and row.measured > row.high:
        extra = with_prefix((row.measured - row.predicted) / comparison.n_draft, "s")
        host = with_prefix(sum(part.round_s for part in comparison.parts if part.host), "s")
        pieces.append(
            f"were it all the host's, that would be {extra} for each of the {comparison.n_draft} drafts ({host} of "
            "host time are predicted for the whole round)"
        )
    return "; ".join(pieces)


VerdictKind = Literal["mismeasured", "misconfigured", "slower_than_predicted", "as_predicted", "unexplained", "unknown"]
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
    findings: tuple[Finding, ...]
    clean: tuple[tuple[Kind, Rule], ...]
    """Rules that were judged and found nothing."""
    not_judged: tuple[RuleOutcome, ...]
    comparisons: tuple[tuple[str, Comparison], ...]
    """Each predicted run beside its measurement, by `file, line`."""
    gaps: tuple[str, ...]
    """What separates measured from predicted, a sentence for each comparison that has both."""
    not_compared: tuple[str, ...]
    read: tuple[str, ...]
    not_read: tuple[str, ...]
    refused: tuple[str, ...]
    """Rows that contradict themselves or cannot be read, with the reader's reason."""


def diagnose(
    files: Sequence[UserFile],
    values: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    otherwise: Mapping[str, str] | None = None,
    source: str = "the scenario",
    scenario: Scenario | None = None,
) -> Diagnosis:
    """Diagnose a run: faults found, verdict and comparison with its prediction, as far as its files tell.

    files : benchmark results of any known tool, launch lines, printed server arguments and logs, in any mixture.
    values : columns that the files lack, by name, as `ingest --set` takes them.
    columns : headers that mean a column of ours, as `ingest --map` takes them.
    configs : config.json texts of models without a profile, by the name that the runs use.
    otherwise : columns that hold only where neither the files nor `values` say them.
    source : where `otherwise` is from, as the verdict names it.
    scenario : tells of runs of its model and drafter what no column does: accepted length, context, formats.
    Raises AdvisorError when nothing in the files can be read, or a value is none of its column.
    """
    words = UserInput(values or {}, columns or {}, otherwise or {}, source, scenario)
    result = read_runs(files, words, configs or {})
    outcomes = [outcome for run in result.runs for outcome in judged(run)]
    found = [[one for one in outcomes if one.state == "found" and one.rule.id == rule.id] for _, rule in all_rules()]
    findings = tuple(_finding(of_rule) for of_rule in found if of_rule)
    compared = [(run.place, run.comparison) for run in result.runs if run.comparison is not None]
    unusable = bool(result.refused) and not result.n_kept
    verdict = _verdict(findings, unusable, [one for _, one in compared])
    if result.contradicted:
        verdict = "mismeasured"
    reasons = {run.not_compared for run in result.runs if run.not_compared}
    clean, not_judged = _by_rule(outcomes)
    refused = tuple(f"{file}, line {line}: {reason}" for file, line, reason in result.refused)
    return Diagnosis(
        verdict=verdict,
        sentence=_sentence(result, verdict, findings, outcomes, len(not_judged)),
        findings=findings,
        clean=clean,
        not_judged=not_judged,
        comparisons=tuple(compared),
        gaps=tuple(f"{place}: {text}" for place, one in compared if (text := gap_text(one))),
        not_compared=tuple(sorted(reasons)),
        read=tuple(result.read),
        not_read=tuple(f"{name}: {why}" for name, why in result.not_read.items()),
        refused=refused,
    )


def _sentence(
    result: LoadedRuns,
    verdict: VerdictKind,
    findings: Sequence[Finding],
    outcomes: Sequence[RuleOutcome],
    n_not_judged: int,
) -> str:
    """The verdict in words, with the accelerators that runs were judged by and do not state."""
    if result.contradicted:
        first, *others = result.contradicted
        more = f" {counted(len(others), 'other run')} likewise." if others else ""
        return f"The files contradict each other, so that nothing is said of the run: {first}.{more}"
    compared = [(run, run.comparison) for run in result.runs if run.comparison is not None]
    losing = [one.run.comparison for one in outcomes if one.state == "found" and one.rule.expected]
    verdict_sentence = verdict_text(
        verdict,
        [(one.rule, one.kind) for one in findings],
        [one for _, one in compared],
        [f"{file}, line {line}: {reason}" for file, line, reason in result.refused],
        n_not_judged,
        [one for one in losing if one is not None],
    )
    judged_as = {one.place: run.assumed for run, one in reversed(compared) if run.assumed}
    off = off_text([one for _, one in compared]) if verdict in _OFF_FIRST else ""
    said = [off, verdict_sentence] if off else [verdict_sentence]
    return " ".join([*said, *(f"Judged as {place}, {assumed}." for place, assumed in judged_as.items())])


_OFF_FIRST = ("slower_than_predicted", "unexplained")


def off_text(compared: Sequence[Comparison]) -> str:
    """Sentence that switches speculation off at batches that lose unforeseen. Empty without any."""
    measured = [(one, row.measured) for one in compared if (row := one.row("speedup")) is not None]
    losing = [(speedup, one.batch_size) for one, speedup in measured if speedup is not None and speedup < 1.0]
    if not losing:
        return ""
    speedup, batch = min(losing)
    at = f"batch {batch:,.4g}" if len({batch for _, batch in losing}) == 1 else "the batches that lose"
    worst = "" if at.startswith("batch") else f", at worst at batch {batch:,.4g}"
    return f"Switch speculation off at {at} (measured {speedup:.2f}x{worst}) until the cause is found."


def _finding(outcomes: Sequence[RuleOutcome]) -> Finding:
    first = outcomes[0]
    compared = first.run.comparison
    tested = {test.quantity for test in first.rule.tests}
    details = differences(first.run.facts, first.run.plain) if "differences_of_arms" in tested else []
    return Finding(
        rule=first.rule,
        kind=first.kind,
        lines=tuple(one.run.place for one in outcomes),
        evidence=first.evidence,
        fix=first.rule.fix_for(first.run.text("engine"), compared.recommended.n_draft if compared else None),
        details=tuple(details),
    )


def _by_rule(outcomes: Sequence[RuleOutcome]) -> tuple[tuple[tuple[Kind, Rule], ...], tuple[RuleOutcome, ...]]:
    """Rules that found nothing anywhere: those judged in some run, and those judged in none."""
    clean: dict[str, tuple[Kind, Rule]] = {}
    open_: dict[str, RuleOutcome] = {}
    found = {one.rule.id for one in outcomes if one.state == "found"}
    for one in outcomes:
        if one.rule.id in found:
            continue
        if one.state == "clean":
            clean.setdefault(one.rule.id, (one.kind, one.rule))
        elif one.state == "not_judged":
            open_.setdefault(one.rule.id, one)
    return tuple(clean.values()), tuple(one for name, one in open_.items() if name not in clean)


def _verdict(findings: Sequence[Finding], all_refused: bool, compared: Sequence[Comparison]) -> VerdictKind:
    """The first kind of fault that was found, in the order of the rules. Else what the comparison says."""
    kinds = [one.kind for one in findings if not one.rule.expected]
    if kinds and (kinds[0] != "physics" or slower_than_explained(compared) is not False):
        return _BY_KIND[kinds[0]]
    if all_refused and not kinds:
        return "mismeasured"
    inside = [row.inside for one in compared if (row := one.judged) is not None]
    if not inside:
        return "unknown"
    return "as_predicted" if all(inside) else "unexplained"
