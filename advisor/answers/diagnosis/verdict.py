"""The one verdict on measured runs: agrees, another server, another accepted length, slower or
faster, what to keep and where, and the cause with its evidence. A record of facts; what is said of
it stands in show/phrases/runs.py."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from advisor.answers.best_k import DraftRow
from advisor.answers.diagnosis.facts import FACTS, TO_PREDICT, UserRun
from advisor.answers.diagnosis.physics import Compared, Comparison, LengthFrom, measured_gain
from advisor.answers.diagnosis.quantities import suspected_limit
from advisor.answers.diagnosis.runs import LoadedRuns, was_measured
from advisor.answers.flags import Flags
from advisor.answers.own_gap import NOTHING_DECIDED, SAME_LENGTH, Decision, decision
from advisor.catalog.hardware import model_name
from advisor.measured.published import runs_beside
from advisor.physics.memory import GIB
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS

Case = Literal[
    "contradicted",
    "does_not_fit",
    "mismeasured",
    "few_accepted",
    "misconfigured",
    "physics",
    "unusable",
    "forecast",
    "not_stated",
    "not_predicted",
    "nothing",
    "baseline",
    "slower",
    "foreseen",
    "faster",
    "own_length",
    "agrees",
]
"""Files contradict each other; the server does not fit; a fault of the measurement, of the
drafter, of the settings, or beyond what kernels explain; no row can be used; nothing was measured;
columns are missing; the model refuses the runs; nothing to compare; the baseline is another
server's; slower than the range; a loss that is predicted; faster than the range; the runs' own
accepted length explains them; all within the range."""
Number = float | None
Quantity = Literal["speedup", "round", "plain"]
Cause = Literal["admission", "drafter", "host", "verification", "round", "too_long", "few_tokens"]
"""Likeliest cause of a loss that is not predicted: requests wait to be admitted; a round is too
long per draft, whatever K, or per verified token; in a part that is not known; longer by a factor
that no accepted length explains; or few tokens are accepted."""
OF_THE_RUN = ("mismeasured", "few_accepted", "misconfigured")
"""Faults that runs show by themselves, whatever is predicted."""
FAULTS = (*OF_THE_RUN, "physics")
UNDECIDED = ("contradicted", "does_not_fit", "unusable", "mismeasured")
"""Cases in which measured speedups decide nothing."""
OF_DRAFTS = frozenset({"drafter_hardly_accepted", "k_too_long"})
"""Rules of the settings that speak of the drafter and its K: the engine does as it was told."""


@dataclass(frozen=True)
class Unfit:
    """A server that does not fit as it is predicted, and what would."""

    dtype: str
    needed_gib: float | None
    """Per GPU. [GiB]"""
    usable_gib: float | None
    formats: tuple[str, ...]
    """Weight formats in which it fits, the widest first."""
    scenario: Scenario


@dataclass(frozen=True)
class ReadAs:
    """A server of which the runs do not state all: who states its accelerator and their number."""

    model: str
    place: str
    accelerator: str
    number: str


@dataclass(frozen=True)
class Verdict:
    """Facts of the verdict. Absent is None. Times in seconds, speedups and shares without unit."""

    case: Case
    faults: tuple[str, ...] = ()
    """Ids of the rules that the verdict is of."""
    unsaid: tuple[str, ...] = ()
    """Columns without which nothing is predicted."""
    first_place: str | None = None
    first_length: Number = None
    """The first row that states an accepted length at K = 0. [tokens]"""
    refusal: str | None = None
    """The reader's or the model's reason why nothing is judged."""
    place: str | None = None
    read_as: tuple[ReadAs, ...] = ()
    unfit: Unfit | None = None
    n_runs: int = 0
    """Runs that were compared. [-]"""
    k: int | None = None
    batch: Number = None
    """Of the run that the verdict names: the worst, else the furthest from its prediction."""
    quantity: Quantity | None = None
    measured: Number = None
    predicted: Number = None
    low: Number = None
    high: Number = None
    """The 80 % range of the prediction."""
    computed: bool = False
    """Whether the measured value was computed from a time per token and an accepted length."""
    token_s: Number = None
    baseline_token_s: Number = None
    """Measured times per token with and without drafts at the named run. [s]"""
    loss: Number = None
    """One minus the measured speedup. [-]"""
    is_foreseen: bool = False
    """The named run loses as predicted."""
    baseline_batch: Number = None
    baseline_s: Number = None
    baseline_predicted_s: Number = None
    baseline_low_s: Number = None
    baseline_high_s: Number = None
    """The baseline that lies furthest outside its range, where some does. [s]"""
    length: Number = None
    stated_length: Number = None
    """Accepted lengths of the runs and of the bar at K. [tokens]"""
    length_from: LengthFrom | None = None
    cause: Cause | None = None
    times: Number = None
    """Predicted over measured speedup. [-]"""
    least_length: Number = None
    """Accepted length that would explain the loss alone. [tokens]"""
    slow: Number = None
    """Share by which a round is too long, whatever is accepted. [-]"""
    gained: Number = None
    gained_batch: Number = None
    """Where this K gained most. [-]"""
    admitted: Number = None
    round_s: Number = None
    round_predicted_s: Number = None
    steps: Number = None
    steps_predicted: Number = None
    """A round in baseline steps. [-]"""
    draft_s: Number = None
    draft_predicted_s: Number = None
    """What each further draft adds to a round: slope over K. [s]"""
    fixed_s: Number = None
    fixed_predicted_s: Number = None
    """A round at K = 0: intercept over K. [s]"""
    better_k: int | None = None
    better: Number = None
    better_low: Number = None
    better_high: Number = None
    """The K recommended at the named run, up to its own, and its speedup."""
    carried: bool = False
    """Its accepted length is carried from that of the run's K."""
    untried: bool = False
    """It is lower than the named run's K and no run has it at this batch."""
    fixed_k: int | None = None
    fixed: Number = None
    fixed_low: Number = None
    fixed_high: Number = None
    """The K that is faster once a misconfigured server is fixed, and its predicted speedup."""
    decision: Decision = NOTHING_DECIDED
    """What to keep and where, by measured speedups."""
    first_batch: Number = None
    first: Number = None
    """Predicted speedup at the smallest batch, where nothing was measured."""
    near: tuple[float, ...] = ()
    """Batches at which a loss lies within the range of a predicted gain."""
    published_n: int = 0
    published_low: Number = None
    published_high: Number = None
    published_first: Number = None
    published_last: Number = None
    """Published runs of the setup at batches up to twice away: speedups and batches."""
    missing: tuple[tuple[str, int], ...] = ()
    """The cheapest inputs that are missing, with the rules that wait for each."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts by name, with those that phrases ask for besides."""
        case = self.case
        return vars(self) | {
            "faulty": case in FAULTS,
            "undecided": case in UNDECIDED,
        }


_WORDS = {
    "case": get_args(Case),
    "reach": ("up_to", "range"),
    "kind": ("launch", "log", "table", "setup", "between", "models"),
    "unpredicted": ("sampled", "nothing_measured", "too_large"),
}
"""Closed words that are flags by their own name."""
_PREFIXED = {
    "by": ("cause", get_args(Cause)),
    "of": ("quantity", ("speedup", "round")),
    "from": ("length_from", ("run", "bar", "published")),
    "place": ("accelerator", ("given", "bar")),
    "count": ("number", ("given", "bar")),
}
"""Closed words that are flags with a prefix: fact and words."""
_KNOWN = {
    "measured": "measured",
    "timed": "token_s",
    "then": "fixed_k",
    "ranged": "first_batch",
    "stepped": "steps",
    "gained": "gained",
    "at_batch": "batch",
    "with_k": "k",
    "refused": "refusal",
    "sized": "needed_gib",
}
_TRUE = ("computed", "carried", "untried", "all_gain", "faulty", "undecided", "fixed_too")
_FILLED = {
    "noted": "faults",
    "keeps": "keeps",
    "offs": "offs",
    "near": "near",
    "missing": "missing",
    "unstated": "unsaid",
    "closest": "closest",
    "fits_as": "formats",
}
_OF_RUNS: Flags = {
    "loses": ("measured", "<", 1.0),
    "too_little": ("measured", "<", "low"),
    "too_much": ("measured", ">", "high"),
    "predicted_loss": ("predicted", "<", 1.0),
    "may_gain": ("high", ">", 1.0),
    "baseline_slow": ("baseline_s", ">", "baseline_predicted_s"),
    "whole_step": ("draft_s", ">=", "baseline_token_s"),
    "foreseen_too": ("is_foreseen", "==", True),
    "no_drafts": ("better_k", "==", 0),
    "several": ("n_runs", ">", 1),
}
_OF_TEXTS: Flags = {
    "published": ("published_n", ">", 0),
    "published_alike": ("published_low", "==", "published_high"),
    "steady": ("first", "==", "last"),
    "of_gain": ("k", ">", 0),
    "drafting": ("n_draft", ">", 0),
    "one_length": ("n_lengths", "==", 1),
    "place_known": ("accelerator", "!=", ""),
    "count_known": ("number", "!=", ""),
    "same_word": ("accelerator", "==", "number"),
}
FLAGS: Flags = {
    **{word: (fact, "==", word) for fact, words in _WORDS.items() for word in words},
    **{
        f"{prefix}_{word}": (fact, "==", word)
        for prefix, (fact, words) in _PREFIXED.items()
        for word in words
    },
    **{flag: (fact, "known", None) for flag, fact in _KNOWN.items()},
    **{fact: (fact, "==", True) for fact in _TRUE},
    **{flag: (fact, "!=", ()) for flag, fact in _FILLED.items()},
    **_OF_RUNS,
    **_OF_TEXTS,
}
"""What phrases ask of a verdict, and of the records beside it: the only place with thresholds."""


def judge(
    result: LoadedRuns,
    faults: Sequence[tuple[str, str]],
    losing: Comparison | None = None,
    fixed: DraftRow | None = None,
    asked: Number = None,
    missing: Sequence[tuple[str, int]] = (),
    beside: Sequence[str] = (),
) -> Verdict:
    """The verdict on runs.

    faults : (kind, rule) of each finding that is no advice on an explained run, those that count
        for the verdict first.
    losing : run whose loss is what the model predicts. fixed : the K of a misconfigured server that
        is faster once it is fixed. asked : the batch that the user names. [-]
    missing : inputs and the rules that wait for each, the cheapest first.
    beside : rules found in runs that nobody would serve, noted where there is no other.
    """
    compared = [run.comparison for run in result.runs if run.comparison is not None]
    unfit = unfit_of(compared)
    admitted = next(filter(None, map(suspected_limit, result.runs)), None)
    worst = least_gain(compared)
    off = baseline_off(compared)
    case = _case(result, faults, compared, unfit, worst, off, losing, admitted)
    subject = worst or losing or _shown(compared, asked)
    waiting = _open_run(result)
    facts: dict[str, Any] = {
        "unfit": unfit,
        "missing": tuple(missing),
        "n_runs": len(compared),
        "read_as": _read_as(result.runs),
        "is_foreseen": losing is not None and subject is losing,
        "unsaid": () if waiting is None else _unsaid(waiting),
    }
    if subject is not None:
        facts |= _named(subject)
    elif waiting is not None:
        facts |= _of_unpredicted(waiting)
    if result.contradicted:
        place, length = result.contradicted[0]
        facts |= {"first_place": place, "first_length": length}
    if case not in ("contradicted", "does_not_fit"):
        of_kind = tuple(rule for kind, rule in faults if kind == faults[0][0])
        facts["faults"] = of_kind or tuple(beside)
    if fixed is not None and case in ("misconfigured", "few_accepted"):
        facts |= {"fixed_k": fixed.n_draft, "fixed": fixed.speedup}
        facts |= {"fixed_low": fixed.speedup_low, "fixed_high": fixed.speedup_high}
    named_off = _furthest_baseline(compared) if case == "baseline" else off
    if named_off is not None:
        facts |= _baseline(*named_off)
    if case == "unusable":
        facts["refusal"] = "{}, line {}: {}".format(*result.refused[0])
    if case == "forecast":
        facts |= _outlook(compared)
    if worst is not None:
        facts |= _published(worst) | _cause(worst, compared, admitted)
    if subject is not None and (worst or losing):
        tried = {each.n_draft for each in _same_server(subject, compared)}
        better = subject.recommended.n_draft
        facts["untried"] = 0 < better < subject.n_draft and better not in tried and off is None
    if case not in UNDECIDED:
        facts["decision"] = _decision(result.runs, subject)
    return Verdict(case, **facts)


def _case(
    result: LoadedRuns,
    faults: Sequence[tuple[str, str]],
    compared: Sequence[Comparison],
    unfit: Unfit | None,
    worst: Comparison | None,
    off: tuple[Comparison, Compared] | None,
    losing: Comparison | None,
    admitted: float | None,
) -> Case:
    if result.contradicted:
        return "contradicted"
    if unfit is not None:
        return "does_not_fit"
    # Physics finds a server slow because it is another, or because requests wait.
    counted = [(kind, rule) for kind, rule in faults if kind != "physics" or not admitted]
    if counted and (counted[0][0] != "physics" or _is_any_slower(compared) is not False):
        return _of_fault(counted)
    if result.refused and not result.n_kept:
        return "unusable"
    run = _open_run(result)
    if run is not None and not any(each.n_draft for each in compared):
        if _unsaid(run):
            return "not_stated"
        if not compared:
            return "not_predicted"
    judged = [row for row in (each.judged for each in compared) if row is not None]
    if not judged:
        return "forecast" if _gains(compared) else "nothing"
    if off is not None:
        return "baseline"
    if worst is not None:
        return "slower"
    outside = [row for row in judged if not row.inside]
    if outside:
        furthest = max(outside, key=_distance)
        return "baseline" if furthest.name == "plain" else _beyond(furthest)
    if losing is not None:
        return "foreseen"
    return "own_length" if any(map(_is_own_length, compared)) else "agrees"


def _of_fault(faults: Sequence[tuple[str, str]]) -> Case:
    kind = faults[0][0]
    if kind != "configuration":
        return "mismeasured" if kind == "measurement" else "physics"
    rules = {rule for of, rule in faults if of == kind}
    return "few_accepted" if rules <= OF_DRAFTS else "misconfigured"


def _beyond(row: Compared) -> Case:
    """Case of a speedup or a round outside its range."""
    is_above = (row.measured or 0.0) > row.high
    return "faster" if is_above == (row.unit == "x") else "slower"


def _is_own_length(comparison: Comparison) -> bool:
    """Whether a run agrees with its own accepted length, and would not with the bar's."""
    row = comparison.row("speedup")
    stated = comparison.stated_length
    if row is None or row.measured is None or stated is None:
        return False
    factor = stated / comparison.accepted_length
    is_other = abs(factor - 1.0) > SAME_LENGTH
    return is_other and not row.low * factor <= row.measured <= row.high * factor


def _is_any_slower(compared: Sequence[Comparison]) -> bool | None:
    """Whether some run takes longer than its range. None where nothing was measured beside a
    prediction."""
    slower = [each.slower for each in compared if each.slower is not None]
    return any(slower) if slower else None


def _distance(row: Compared) -> float:
    return abs(math.log(row.ratio or 1.0))


def _measured(compared: Iterable[Comparison], name: str) -> list[tuple[Comparison, Compared]]:
    """Runs of which a quantity was measured, with it."""
    pairs = [(each, each.row(name)) for each in compared]
    return [(each, row) for each, row in pairs if row is not None and row.measured is not None]


def _gains(compared: Iterable[Comparison]) -> list[tuple[Comparison, Compared]]:
    """Runs with a predicted speedup, with it."""
    pairs = [(each, each.row("speedup")) for each in compared]
    return [(each, row) for each, row in pairs if row is not None]


def least_gain(compared: Sequence[Comparison]) -> Comparison | None:
    """The run that gains least of those that gain less than their range. None where no run does."""
    gains = _measured(compared, "speedup")
    less = [each for each, row in gains if (row.measured or 0.0) < row.low]
    return min(less, key=lambda each: each.gain or 0.0, default=None)


def baseline_off(compared: Sequence[Comparison]) -> tuple[Comparison, Compared] | None:
    """The baseline furthest outside its range, where most lie outside. None where they do not.

    Such a server is another than the predicted one.
    """
    rows = _measured(compared, "plain")
    outside = [row for _, row in rows if not row.inside]
    return None if 2 * len(outside) <= len(rows) else _furthest_baseline(compared)


def _furthest_baseline(compared: Sequence[Comparison]) -> tuple[Comparison, Compared]:
    """The baseline furthest from its prediction."""
    return max(_measured(compared, "plain"), key=lambda pair: _distance(pair[1]))


def _baseline(comparison: Comparison, row: Compared) -> dict[str, Any]:
    return {
        "baseline_batch": comparison.batch_size,
        "baseline_s": row.measured,
        "baseline_predicted_s": row.predicted,
        "baseline_low_s": row.low,
        "baseline_high_s": row.high,
    }


def _shown(compared: Sequence[Comparison], asked: float | None) -> Comparison | None:
    """The run that a verdict names where none gains too little: that of the asked batch, else the
    furthest from its prediction, else the one with the least predicted gain."""
    at = [each for each in compared if each.n_draft and each.batch_size == asked]
    judged = [each for each in compared if each.judged is not None]
    gains = [each for each in judged if each.gain is not None]

    def rank(comparison: Comparison) -> tuple[bool, float]:
        row = comparison.judged
        return (row is not None and not row.inside, 0.0 if row is None else _distance(row))

    if judged:
        return max(gains or judged, key=rank)
    rows = [(row.predicted, each) for each, row in _gains(at or compared)]
    return min(rows, key=itemgetter(0), default=(0.0, None))[1]


def _named(comparison: Comparison) -> dict[str, Any]:
    """Facts of the run that the verdict names."""
    row = comparison.judged or comparison.row("speedup") or comparison.rows[0]
    plain = comparison.row("plain")
    plain_s = None if plain is None else plain.measured
    gain = comparison.gain
    choice = comparison.recommended
    names = ("measured", "predicted", "low", "high")
    facts: dict[str, Any] = {name: getattr(row, name) for name in names}
    names = ("place", "stated_length", "length_from", "carried")
    facts |= {name: getattr(comparison, name) for name in names}
    facts |= {"better": choice.speedup, "better_low": choice.speedup_low}
    return facts | {
        "k": comparison.n_draft,
        "batch": comparison.batch_size,
        "quantity": row.name,
        "computed": row.computed is not None,
        "token_s": plain_s / gain if plain_s and gain else None,
        "baseline_token_s": plain_s,
        "loss": None if gain is None else 1.0 - gain,
        "length": comparison.accepted_length,
        "better_k": choice.n_draft,
        "better_high": choice.speedup_high,
    }


def _outlook(compared: Sequence[Comparison]) -> dict[str, Any]:
    """Facts of servers of which nothing was measured: the gain at the smallest batch, and where a
    loss lies within the range."""
    rows = [(each.batch_size, row) for each, row in _gains(compared)]
    near = tuple(batch for batch, row in rows if row.low < 1.0 <= row.predicted)
    first = {"first_batch": rows[0][0], "first": rows[0][1].predicted} if rows[1:] else {}
    return {"near": near, **first}


def _published(comparison: Comparison) -> dict[str, Any]:
    """Published runs of the run's setup at batches up to twice away."""
    scenario = comparison.scenario
    gpus = max(scenario.tensor_parallel, scenario.expert_parallel)
    near = [
        run
        for run in runs_beside(scenario, gpus)
        if 0.5 <= run.batch_size / comparison.batch_size <= 2.0
    ]
    speedups = [run.speedup for run in near]
    batches = [run.batch_size for run in near]
    return {
        "published_n": len(near),
        "published_low": min(speedups, default=None),
        "published_high": max(speedups, default=None),
        "published_first": min(batches, default=None),
        "published_last": max(batches, default=None),
    }


def _open_run(result: LoadedRuns) -> UserRun | None:
    """The first run with drafts that is not predicted."""
    drafting = (run for run in result.runs if run.value("draft_tokens_k") != 0)
    return next((run for run in drafting if run.comparison is None), None)


def _unsaid(run: UserRun) -> tuple[str, ...]:
    """Columns that a run has to state to be predicted."""
    return tuple(name.split("|")[0] for name in TO_PREDICT if not run.has(name))


def _of_unpredicted(run: UserRun) -> dict[str, Any]:
    """Facts of a run that nothing can be held against."""
    k = run.number("draft_tokens_k")
    is_measured = was_measured(run.facts) and run.unpredicted == "refused"
    return {
        "refusal": run.refusal if is_measured else None,
        "measured": run.number("speedup"),
        "batch": run.number("batch_size"),
        "k": None if k is None else int(k),
    }


def _read_as(runs: Sequence[UserRun]) -> tuple[ReadAs, ...]:
    """Servers whose accelerators the runs do not state, each once."""
    servers = (
        ReadAs(model_name(run.comparison.scenario.model_id), run.comparison.place, *run.assumed)
        for run in runs
        if run.comparison is not None and any(run.assumed)
    )
    return tuple(dict.fromkeys(servers))


def unfit_of(compared: Sequence[Comparison]) -> Unfit | None:
    """The first server of which not even one sequence fits as it is predicted. None where each
    fits."""
    comparison = next((each for each in compared if not each.largest_batch), None)
    if comparison is None:
        return None
    scenario = comparison.scenario
    setup = load_setup(scenario)
    memory = setup.memory
    others = [
        load_setup(scenario.model_copy(update={"weight_dtype": name}))
        for name in FIELDS["weight_dtype"].choices
    ]
    fitting = sorted(
        (other for other in others if other.memory.largest_batch),
        key=lambda other: -other.memory.weights_bytes,
    )
    return Unfit(
        str(scenario.weight_dtype or setup.architecture.dtypes.routed),
        memory.total_bytes(scenario.batch_size) / GIB,
        memory.usable_bytes / GIB,
        tuple(str(other.scenario.weight_dtype) for other in fitting),
        scenario,
    )


_SERVER: Callable[[Comparison], Any] = attrgetter("place", "scenario.model_id")


def _same_server(comparison: Comparison, compared: Iterable[Comparison]) -> list[Comparison]:
    """Runs of a run's server at its batch."""
    return [
        each
        for each in compared
        if _SERVER(each) == _SERVER(comparison) and each.batch_size == comparison.batch_size
    ]


def decided_k(runs: Sequence[UserRun], subject: Comparison) -> dict[float, int]:
    """The K that measured speedups of a run's server decide, by batch. 0: no drafts."""
    spans = _decision(runs, subject).spans
    return {batch: span.k for span in spans for batch in span.batches}


def _decision(runs: Sequence[UserRun], subject: Comparison | None) -> Decision:
    """What measured speedups of the named run's server decide; of all runs where nothing is
    predicted."""
    return decision(measured_speedups(runs, subject))


def measured_speedups(runs: Sequence[UserRun], subject: Comparison | None = None) -> pd.DataFrame:
    """Measured speedups by batch_size and draft_tokens_k, of the runs that no sample left out too.

    subject : a run of the server whose runs count; None: all.
    """
    rows = []
    for run in runs:
        other = run.comparison
        if subject is None or other is None or _SERVER(other) == _SERVER(subject):
            batch = run.number("batch_size") if other is None else other.batch_size
            k = run.number("draft_tokens_k")
            rows.append((batch, k, measured_gain(run) if k else None))
    return pd.DataFrame(rows, columns=["batch_size", "draft_tokens_k", "speedup"])


def _cause(
    worst: Comparison, compared: Sequence[Comparison], admitted: float | None
) -> dict[str, Any]:
    """The likeliest cause of a loss that is not predicted, with its evidence.

    A round of the same times gains in proportion to its accepted length, down to that of no
    accepted draft; a K accepts as many tokens as it ever gained, on the same text, since a round
    takes a baseline step at least.
    """
    row = worst.row("speedup")
    if admitted is not None or row is None or not row.measured:
        return {"cause": "admission", "admitted": admitted}
    times = row.predicted / row.measured
    part = _part_of_round(worst, compared)
    if part:
        return part | {"times": times}
    if worst.length_from == "run":
        return {"cause": "round", "times": times, **_round_in_steps(worst)}
    gained = [
        each
        for each in compared
        if _SERVER(each) == _SERVER(worst)
        and each.n_draft == worst.n_draft
        and (each.gain or 0.0) > 1.0
    ]
    best = max(gained, key=lambda each: each.gain or 0.0, default=None)
    least = 1.0 if best is None else best.gain or 1.0
    length = worst.accepted_length
    if length / times > least:
        return {"cause": "few_tokens", "times": times, "least_length": length / times}
    best_facts = {} if best is None else {"gained": best.gain, "gained_batch": best.batch_size}
    return {"cause": "too_long", "slow": times * least / length - 1.0, **best_facts}


def _round_in_steps(comparison: Comparison) -> dict[str, Any]:
    """A round and a baseline step, where both were measured."""
    whole = comparison.row("round")
    plain = comparison.row("plain")
    if whole is None or plain is None or whole.measured is None or plain.measured is None:
        return {}
    return {
        "round_s": whole.measured,
        "round_predicted_s": whole.predicted,
        "steps": whole.measured / plain.measured,
        "steps_predicted": whole.predicted / plain.predicted,
        "baseline_predicted_s": plain.predicted,
    }


def _part_of_round(worst: Comparison, compared: Sequence[Comparison]) -> dict[str, Any]:
    """Intercept and slope over K of the rounds at one batch, each against its prediction, and the
    part that is too long. Empty for one K, and where rounds rest on a borrowed accepted length.

    A verification costs no more a token than a baseline step, so what a draft adds beyond that is
    the drafter's; below, the part with the larger predicted slope is subject.
    """
    rounds = [
        (each, whole)
        for each, whole in _measured(_same_server(worst, compared), "round")
        if whole.computed is None or each.length_from == "run"
    ]
    k = np.array([each.n_draft for each, _ in rounds], float)
    if len(set(k.tolist())) < 2:
        return {}
    measured_s = [whole.measured or 0.0 for _, whole in rounds]
    draft_s, fixed_s = np.polyfit(k, measured_s, 1)
    draft_predicted_s, fixed_predicted_s = np.polyfit(
        k, [whole.predicted for _, whole in rounds], 1
    )
    per_draft = float(k.mean() * (draft_s - draft_predicted_s))
    fixed = float(fixed_s - fixed_predicted_s)
    if max(per_draft, fixed) <= 0.0:
        return {}
    cause: Cause = "host"
    if per_draft > fixed:
        plain = worst.row("plain")
        drafting = [each.row("draft") for each, _ in rounds]
        drafting_s = [0.0 if row is None else row.predicted for row in drafting]
        is_drafter = 2.0 * np.polyfit(k, drafting_s, 1)[0] >= draft_predicted_s
        beyond = plain is not None and draft_s >= (plain.measured or math.inf)
        cause = "drafter" if is_drafter or beyond else "verification"
    return {
        "cause": cause,
        "draft_s": float(draft_s),
        "draft_predicted_s": float(draft_predicted_s),
        "fixed_s": float(fixed_s),
        "fixed_predicted_s": float(fixed_predicted_s),
    }


_OF_RESULT = frozenset(
    (
        *("tpot_s", "ttft_s", "output_tok_per_s", "request_latency_s", "step_time_s"),
        *("input_tokens", "output_tokens"),
    )
)
"""Columns that a benchmark's result file has."""
_EFFORTS = {
    **dict.fromkeys(("engine", "engine_version", "drafter", "draft_tokens_k", "batch_size"), 1),
    **dict.fromkeys(("verify_time_s", "draft_time_s", "repeats"), 6),
}
"""Effort of an input: a word to type, else a line or file to paste (2), else a profile. Own choice.
[-]"""
_CHEAPEST = 3


def cheapest_missing(lacks: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Inputs that rules wait for, and how many do: a source of FACTS or a column. The three with
    the least effort for each rule.

    lacks : facts that a rule lacks, `a|b` where either does.
    """
    waiting: Counter[str] = Counter()
    for of_rule in lacks:
        names = {need.split("|")[0].rpartition(":")[2] for need in of_rule} - {"prediction"}
        inputs = {"result" if name in _OF_RESULT else FACTS.get(name, name) for name in names}
        waiting.update(map(str, inputs))
    return sorted(waiting.items(), key=lambda item: (_EFFORTS.get(item[0], 2) / item[1], item[0]))[
        :_CHEAPEST
    ]


@dataclass(frozen=True, eq=False)
class RunsOfK:
    """Measured runs of one K beside what is predicted of each."""

    n_draft: int
    quantity: Quantity
    points: pd.DataFrame
    """batch_size, measured, predicted: speedups, or times of rounds or baseline steps. [s]"""


def runs_by_k(compared: Iterable[Comparison]) -> list[RunsOfK]:
    """Measured runs by K, most runs first: speedups, else baselines, else rounds."""
    pairs = [(each, each.judged) for each in compared]
    rows = [(each, row) for each, row in pairs if row is not None]
    order: tuple[Quantity, ...] = ("speedup", "plain", "round")
    quantity = next((name for name in order if any(row.name == name for _, row in rows)), None)
    groups: dict[int, list[tuple[float, float | None, float]]] = {}
    for each, row in rows:
        if row.name == quantity:
            point = (each.batch_size, row.measured, row.predicted)
            groups.setdefault(each.n_draft, []).append(point)
    names = ["batch_size", "measured", "predicted"]
    return [
        RunsOfK(k, quantity or "speedup", pd.DataFrame(points, columns=names))
        for k, points in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
