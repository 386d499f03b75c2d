"""A run that disappoints, from its files to a verdict: is it measured right, configured to win, or is it physics?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor.diagnosis.arms import differences
from advisor.diagnosis.facts import Run
from advisor.diagnosis.judge import Evidence, RuleOutcome, judged
from advisor.diagnosis.physics import Comparison
from advisor.diagnosis.rules import Kind, Rule, rule_sets
from advisor.diagnosis.runs import Given, Read, read_runs
from advisor.diagnosis.verdict import contradicted_text, gap_text, slower_than_explained, verdict_text
from advisor.diagnosis.words import Words

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
class NotJudged:
    """A rule that could not be judged, and what it lacks."""

    rule: Rule
    kind: Kind
    lacks: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Everything that a page or a terminal shows of a diagnosed run."""

    verdict: VerdictKind
    sentence: str
    findings: tuple[Finding, ...]
    clean: tuple[tuple[Kind, Rule], ...]
    """Rules that were judged and found nothing."""
    not_judged: tuple[NotJudged, ...]
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
    files: Sequence[Given],
    values: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
    otherwise: Mapping[str, str] | None = None,
    source: str = "the scenario",
) -> Diagnosis:
    """Diagnose a run: faults found, verdict and comparison with its prediction, as far as its files tell.

    Parameters
    ----------
    files : benchmark results of any known tool, launch lines, printed server arguments and logs, in any mixture.
    values : columns that the files lack, by name, as `ingest --set` takes them.
    columns : headers that mean a column of ours, as `ingest --map` takes them.
    configs : config.json texts of models without a profile, by the name that the runs use.
    otherwise : columns that hold only where neither the files nor `values` say them.
    source : where `otherwise` is from, as the verdict names it.

    Raises
    ------
    AdvisorError when nothing in the files can be read, or a value is none of its column.
    """
    found = read_runs(files, Words(values or {}, columns or {}, otherwise or {}, source), configs or {})
    outcomes = [outcome for run in found.runs for outcome in judged(run)]
    findings = _findings(outcomes)
    compared = [(_place(run), run.comparison) for run in found.runs if run.comparison is not None]
    unusable = bool(found.refused) and not found.n_kept
    verdict = _verdict(findings, unusable, [one for _, one in compared])
    if found.contradicted:
        verdict = "mismeasured"
    reasons = {run.not_compared for run in found.runs if run.not_compared}
    states = _by_rule(outcomes)
    refused = tuple(f"{file}, line {line}: {reason}" for file, line, reason in found.refused)
    return Diagnosis(
        verdict=verdict,
        sentence=_sentence(found, verdict, findings, outcomes, states.count_not_judged),
        findings=findings,
        clean=states.clean,
        not_judged=states.not_judged,
        comparisons=tuple(compared),
        gaps=tuple(f"{place}: {text}" for place, one in compared if (text := gap_text(one))),
        not_compared=tuple(sorted(reasons)),
        read=tuple(found.read),
        not_read=tuple(f"{name}: {why}" for name, why in found.not_read.items()),
        refused=refused,
    )


def _sentence(
    found: Read, verdict: VerdictKind, findings: Sequence[Finding], outcomes: Sequence[RuleOutcome], n_not_judged: int
) -> str:
    """The verdict in words, with the accelerators that runs were judged by and do not state."""
    if found.contradicted:
        return contradicted_text(found.contradicted)
    compared = [(run, run.comparison) for run in found.runs if run.comparison is not None]
    losing = [one.run.comparison for one in outcomes if one.state == "found" and one.rule.expected]
    said = verdict_text(
        verdict,
        [(one.rule, one.kind) for one in findings],
        [one for _, one in compared],
        [f"{file}, line {line}: {reason}" for file, line, reason in found.refused],
        n_not_judged,
        [one for one in losing if one is not None],
    )
    judged_as = {one.place: run.assumed for run, one in reversed(compared) if run.assumed}
    return " ".join([said, *(f"Judged as {place}, {assumed}." for place, assumed in judged_as.items())])


def _place(run: Run) -> str:
    return f"{run.file}, line {run.line}" if run.line else run.file


def _findings(outcomes: Sequence[RuleOutcome]) -> tuple[Finding, ...]:
    """Found rules in the order of the rules, each once."""
    by_rule: dict[str, list[RuleOutcome]] = {}
    for outcome in outcomes:
        if outcome.state == "found":
            by_rule.setdefault(outcome.rule.id, []).append(outcome)
    order = [rule.id for kinds in rule_sets() for rule in kinds.rules]
    return tuple(_finding(by_rule[name]) for name in order if name in by_rule)


def _finding(outcomes: Sequence[RuleOutcome]) -> Finding:
    first = outcomes[0]
    compared = first.run.comparison
    tested = {test.quantity for test in first.rule.tests}
    details = differences(first.run.facts, first.run.plain) if "differences_of_arms" in tested else []
    return Finding(
        rule=first.rule,
        kind=first.kind,
        lines=tuple(_place(one.run) for one in outcomes),
        evidence=first.evidence,
        fix=first.rule.fix_for(first.run.text("engine"), compared.recommended.n_draft if compared else None),
        details=tuple(details),
    )


@dataclass(frozen=True)
class _States:
    clean: tuple[tuple[Kind, Rule], ...]
    not_judged: tuple[NotJudged, ...]

    @property
    def count_not_judged(self) -> int:
        return len(self.not_judged)


def _by_rule(outcomes: Sequence[RuleOutcome]) -> _States:
    """Rules that found nothing anywhere: judged in some run, or in none."""
    clean: dict[str, tuple[Kind, Rule]] = {}
    open_: dict[str, NotJudged] = {}
    found = {one.rule.id for one in outcomes if one.state == "found"}
    for one in outcomes:
        if one.rule.id in found:
            continue
        if one.state == "clean":
            clean.setdefault(one.rule.id, (one.kind, one.rule))
        elif one.state == "not_judged":
            open_.setdefault(one.rule.id, NotJudged(one.rule, one.kind, one.lacks))
    return _States(tuple(clean.values()), tuple(one for name, one in open_.items() if name not in clean))


def _verdict(findings: Sequence[Finding], all_refused: bool, compared: Sequence[Comparison]) -> VerdictKind:
    """The first kind of fault that was found, in the order of the rules. Else what the comparison says."""
    kinds = [one.kind for one in findings if not one.rule.expected]
    if kinds and (kinds[0] != "physics" or slower_than_explained(compared) is not False):
        return _BY_KIND[kinds[0]]
    if all_refused and not kinds:
        return "mismeasured"
    known = [row.inside for one in compared if (row := one.judged) is not None]
    if not known:
        return "unknown"
    return "as_predicted" if all(known) else "unexplained"
