"""A measured run beside its prediction, part by part: plain step, round, drafting, verification,
acceptance.

And the rules of profiles/diagnosis as checked data: what is tested, against what, why, and what to
do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from advisor.answers.best_k import DraftRow, draft_rows
from advisor.answers.engines.config import LEAST_COUNTS
from advisor.catalog.engines import class_today, engine_ids, grid_sizes
from advisor.catalog.fit_records import class_costs, load_overheads
from advisor.catalog.models import resolve_model_name
from advisor.measured.ingest.acceptance import rates_from_list
from advisor.measured.point_checks import least_pass_s
from advisor.measured.points import measured_times
from advisor.measured.published import WHOLE_BATCH_KINDS
from advisor.measured.row_questions import RowQuestion
from advisor.measured.run import Facts, PredictedRun, Run, as_number, run_question
from advisor.physics import laws
from advisor.physics.acceptance import acceptance_curves, parse_acceptance
from advisor.physics.bands import band, draw_total, make_draws
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import load_setup, with_costs
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import Frozen
from advisor.profiles import load_profile, profile_ids

TestName = Literal["above", "at_least", "below", "near", "is", "contains"]
"""above, at_least, below: the quantity against its limit; near: within 15 % of it; is: the same
text or flag; contains: the limit is among the words of the quantity."""
Kind = Literal["measurement", "configuration", "physics"]
_STEP_TOKENS = 8192
"""Least budget of a step that is advised: vLLM's own on a server. [tokens]"""
NEAR = 0.15
"""Share within which values are alike: that of `ingest.contradictions`. [-]"""


HOLDS: dict[TestName, Callable[[Any, Any], bool]] = {
    "above": lambda value, limit: value > limit,
    "at_least": lambda value, limit: value >= limit,
    "below": lambda value, limit: value < limit,
    "near": lambda value, limit: (
        value > 0 and limit > 0 and abs(math.log(value / limit)) <= math.log1p(NEAR)
    ),
    "is": lambda value, limit: value == limit,
    "contains": lambda value, limit: str(limit) in str(value).split(),
}


class Limit(Frozen):
    """Limit of a quantity: a value with its source, or another quantity `times` a factor."""

    value: float | bool | str | None = None
    unit: str = "1"
    source: str = ""
    of: str | None = None
    times: float = 1.0

    @model_validator(mode="after")
    def _one(self) -> Limit:
        if (self.value is None) == (self.of is None):
            raise ValueError(
                "give a value with its source, or the quantity that it is a multiple of"
            )
        return self


class Condition(Frozen):
    """One test of a rule."""

    quantity: str
    test: TestName
    limit: Limit


class PublishedCase(Frozen):
    """A case in public, with the figures that the rule is tried on."""

    says: str = Field(min_length=10)
    given: dict[str, Any] = Field(min_length=1)
    """Facts and columns of the run."""
    plain: dict[str, Any] = Field(default_factory=dict)
    """Those of the plain run beside it."""
    assumed: tuple[str, ...] = ()
    """Those of the figures that the source does not state."""
    source: str = Field(min_length=3)


Change = Mapping[str, Any]
"""Options of a launch line and their new values; None leaves an option out, an object changes its
keys, and a name that ends in `*` stands for all that begin so."""


class Rule(Frozen):
    """One thing that can be wrong with a run."""

    id: str = Field(pattern=r"[a-z0-9_]+")
    tests: tuple[Condition, ...] = Field(min_length=1)
    """All of them hold where it is wrong."""
    engines: tuple[str, ...] = ()
    """Engines that it speaks of; empty: of all."""
    arm: Literal["speculative", "plain", "any"] = "speculative"
    change: Mapping[str, Change] = {}
    """Options of the launch line to change, by engine. `{recommended_k}` stands for that value of
    the run."""
    change_without: Mapping[str, Change] = {}
    """Likewise, where it is best to draft nothing."""
    touches: tuple[str, ...] = ()
    """Of a measurement: columns that it makes wrong."""
    expected: bool = False
    """What it finds is what the prediction says too: advice on an explained run, no gap."""
    yields_to: tuple[str, ...] = ()
    """Rules, or kinds of rules, that say more: where one of them is found, this one is not said."""
    published: PublishedCase

    def change_for(self, values: Mapping[str, Any]) -> Change:
        """Options to change in the launch line of a run of these `remedy_values`. Empty where the
        remedy is another."""
        changes = self.change
        if values["recommended_k"] == 0 and self.change_without:
            changes = self.change_without
        change: Change = _with_values(changes.get(values["engine"], {}), values)
        return change


def _with_values(change: Any, values: Mapping[str, Any]) -> Any:
    """A change with each `{name}` replaced by the value of that name."""
    if isinstance(change, Mapping):
        return {name: _with_values(value, values) for name, value in change.items()}
    return values[change[1:-1]] if change is not None and change[0] == "{" else change


def remedy_values(
    engine: str,
    recommended_k: int | None = None,
    batch: float = 0,
    n_draft: float = 0,
    admitted: float = 0,
) -> dict[str, Any]:
    """Values that a remedy names, for the K that is recommended and the batch and K that were run.

    admitted : requests that the launch line lets run at a time, which graphs have to hold too. [-]
    """
    requests = math.ceil(batch)
    captured = math.ceil(max(batch, admitted))
    verified = int(n_draft) + 1
    counts = {*grid_sizes(LEAST_COUNTS, captured), captured}
    return {
        "engine": engine,
        "recommended_k": recommended_k,
        "recommended_tokens": (recommended_k or 0) + 1,
        "batch_size": requests,
        "verified_tokens": verified,
        "step_tokens": max(requests * verified, _STEP_TOKENS),
        "captured_requests": captured,
        "captured_tokens": sorted({count * verified for count in counts}),
    }


class RuleSet(Frozen):
    """The rules of one kind, a file of profiles/diagnosis."""

    id: Kind
    order: int
    question: str = Field(min_length=5)
    """What they answer together."""
    rules: tuple[Rule, ...] = Field(min_length=1)
    spread: Limit | None = None
    """Of physics: how far measured times lie from predicted ones, half-width of an 80 % band in
    logarithms. [-]"""
    sources: tuple[str, ...]


@lru_cache(maxsize=1)
def rule_sets() -> tuple[RuleSet, ...]:
    """All rules by kind, in the order in which they are asked. Raises AdvisorError for a damaged
    file."""
    names = profile_ids("diagnosis")
    sets = [
        load_profile("diagnosis", name, RuleSet, "sets of rules", "see profiles/diagnosis")
        for name in names
    ]
    return tuple(sorted(sets, key=lambda rule_set: rule_set.order))


def time_spread() -> float:
    """Half-width of the 80 % band of a predicted time, in logarithms. 0 where no rule file states
    it. [-]"""
    stated = next(
        (rule_set.spread for rule_set in rule_sets() if rule_set.spread is not None), None
    )
    return float(stated.value or 0.0) if stated is not None else 0.0


def all_rules() -> list[tuple[Kind, Rule]]:
    """Every rule with its kind, in the order in which they are asked."""
    return [(rule_set.id, rule) for rule_set in rule_sets() for rule in rule_set.rules]


@dataclass(frozen=True)
class Compared:
    """One quantity, measured and predicted, with the 80 % band of what is predicted."""

    name: str
    measured: float | None
    predicted: float
    low: float
    high: float
    unit: str
    computed: tuple[float, float] | None = None
    """Time per token [s] and accepted length [tokens] that a measured round was computed from. None
    where it was measured."""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted. [-]"""
        return None if self.measured is None else self.measured / self.predicted

    @property
    def inside(self) -> bool | None:
        """Whether the measured value lies in the band. None where it was not measured."""
        return None if self.measured is None else self.low <= self.measured <= self.high


LengthFrom = Literal["run", "bar", "other_models", "published"]
"""Whose an accepted length is: counted or stated with the run, of the user's scenario, of this
drafter on other models, or published for model and drafter."""


@dataclass(frozen=True)
class Comparison:
    """Quantities predicted for a run, beside those of them that were measured."""

    n_draft: int
    scenario: Scenario
    """What it was predicted as, at its batch and with K up to its own."""
    place: str
    """The accelerators that it was predicted on, `4 x NVIDIA H200 SXM 141GB`."""
    batch_size: float
    """Sequences that decode together on all ranks. [-]"""
    largest_batch: int
    """That fits in memory. [-]"""
    rows: tuple[Compared, ...]
    tier: str
    engine_class: str
    known_class: bool
    """The overheads of the engine's kind of build were fitted on rows of its own."""
    same_run_length: bool
    """The accepted length was counted in this run."""
    accepted_length: float
    """What it is predicted with at the run's K. [tokens]"""
    length_from: LengthFrom
    stated_length: float | None
    """What the bar states for a run that counted its own. [tokens]"""
    assumed: tuple[str, ...]
    by_k: tuple[DraftRow, ...]
    """Every K up to the run's own at its batch and accepted length, as predicted; K = 0 is without
    drafts."""
    carried: bool
    """The recommended K's accepted length is carried from that of the run's K, neither measured nor
    given."""
    best_gain: float
    """Predicted speedup at the best K above 0, up to the run's own, over that at its own. [-]"""
    build_share: float
    """Predicted round (or plain step) of this kind of build over that of the engine's today. [-]"""
    prefill_share: float
    """Of the predicted time per token, what other requests' prompts take. [-]"""
    first_token_s: float | None
    least_round_s: float
    least_plain_s: float
    """Shortest conceivable passes: the weights they touch, read once. [s]"""

    @property
    def recommended(self) -> DraftRow:
        """The K recommended at the run's batch, up to the run's own."""
        return next(row for row in self.by_k if row.recommended)

    @property
    def faster_k(self) -> int | None:
        """The recommended K where it is predicted to gain more than the run's own."""
        current = next(row for row in self.by_k if row.n_draft == self.n_draft)
        best = self.recommended
        return best.n_draft if best.n_draft and best.speedup > current.speedup else None

    def row(self, name: str) -> Compared | None:
        """One compared quantity. None where it is not predicted."""
        return next((row for row in self.rows if row.name == name), None)

    def ratio(self, name: str) -> float | None:
        """Measured over predicted of one quantity. None where it is not known. [-]"""
        row = self.row(name)
        return row.ratio if row is not None else None

    @property
    def gain(self) -> float | None:
        """The measured speedup. None where it was not measured. [-]"""
        row = self.row("speedup")
        return None if row is None else row.measured

    @property
    def judged(self) -> Compared | None:
        """Quantity that the run is judged by. The speedup where it was measured, else the round or
        the plain step."""
        rows = [self.row(name) for name in ("speedup", "round", "plain")]
        return next((row for row in rows if row is not None and row.measured is not None), None)

    @property
    def slower(self) -> bool | None:
        """Whether something measured takes longer than its band, or gains less. None where nothing
        was measured."""
        times = [row for row in self.rows if row.unit == "s" and row.measured is not None]
        gained = self.row("speedup")
        late = [row.measured > row.high for row in times if row.measured is not None]
        if gained is not None and gained.measured is not None:
            late.append(gained.measured < gained.low)
        return any(late) if late else None

    @property
    def supported(self) -> bool:
        """Kernels of this accelerator were measured, and the engine's overheads are those of a
        known class."""
        return self.known_class and self.tier != "roofline"


def compare(
    run: Run,
    configs: Mapping[str, str] | None = None,
    bar: Scenario | None = None,
    other_models: bool = False,
) -> Comparison:
    """A run and its baseline held against their prediction.

    configs : config.json texts of models without a profile, by the name the run uses.
    bar : the user's scenario, which tells of a run of its model and drafter what the run does not
        say.
    other_models : whether a run may take what its drafter reaches on other models where nobody
        published its own.
    Raises AdvisorError with what is missing, or why the run cannot be predicted.
    """
    facts = run.facts
    unsaid = _unsaid(facts, bar)
    question = _question(
        facts, configs or {}, bar if "acceptance" in unsaid else None, other_models
    )
    setup = _setup(question, facts, unsaid)
    predicted = PredictedRun(facts, plain=run.plain, question=question, setup=setup)
    n_draft = predicted.n_draft
    batch = predicted.batch_size
    verified = question.verify_tokens
    curve = predicted.curve(drafts=[0, n_draft] if n_draft else [0])
    every = predicted.curve(drafts=range(n_draft + 1)) if verified is None else curve
    by_k = draft_rows(setup, every, 0)
    length_from = _whose_length(facts, unsaid, question.acceptance_source)
    scenario = setup.scenario.model_copy(
        update={"batch_size": max(round(batch), 1), "k_max": max(n_draft, 1)}
    )
    rows = _rows(predicted, curve)
    carried = any(
        row.recommended and row.n_draft and setup.acceptance.extrapolated[row.n_draft]
        for row in by_k
    )
    best_gain = every.speedup[0, min(1, n_draft) :].max() / every.speedup[0, -1]
    first_token_s = None if curve.ttft_s is None else float(curve.ttft_s[0])
    return Comparison(
        n_draft=n_draft,
        scenario=scenario,
        place=f"{setup.placement.gpus} x {setup.hardware.name}",
        batch_size=batch,
        largest_batch=setup.memory.largest_batch,
        rows=tuple(rows),
        tier=str(curve.tier[0, -1]),
        engine_class=question.engine_class,
        known_class=question.engine_class in _known_classes(),
        same_run_length=not question.borrowed and n_draft > 0,
        accepted_length=float(curve.accepted_length[-1]),
        length_from=length_from,
        stated_length=_stated_length(facts, n_draft, bar, length_from),
        assumed=question.assumed,
        by_k=by_k,
        carried=carried,
        best_gain=float(best_gain),
        build_share=_build_share(question, setup, curve),
        prefill_share=_prefill_share(curve),
        first_token_s=first_token_s,
        least_round_s=least_pass_s(setup, batch, verified or n_draft + 1.0),
        least_plain_s=least_pass_s(setup, batch, 1.0),
    )


def _build_share(question: RowQuestion, setup: Setup, curve: Curve) -> float:
    """Last round of a curve over that of the engine's build of today. [-]"""
    engine = question.scenario.engine
    hardware = setup.hardware
    costed = with_costs(
        setup, **class_costs(class_today(engine, hardware.vendor, hardware.generation))
    )
    today = curve_for(costed, curve.batches, curve.drafts[-1:], question.verify_tokens)
    return float(curve.round_s[0, -1] / today.round_s[0, -1])


_GRAPH_MODES = {
    "PIECEWISE": "pieces",
    "NONE": "none",
    **dict.fromkeys(("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"), ""),
}
"""vLLM's words for the mode. One that is full is a request, which attention kernels may lower: the
rule of the release decides."""


def _question(
    facts: Facts, configs: Mapping[str, str], lengths_of: Scenario | None, other_models: bool
) -> RowQuestion:
    """The run as a row to predict. lengths_of: whose accepted length stands for the run's own."""
    row = dict(facts)
    if config := configs.get(str(facts.get("model_id"))):
        row["model_config_json"] = config
    if lengths_of is not None:
        row["accepted_length"] = _length_at(lengths_of, _k(facts))
    mode = str(row.get("graph_mode") or "")
    row = row | {"graph_mode": _GRAPH_MODES.get(mode, mode)}
    return run_question(row, other_models)


def _known_classes() -> set[str]:
    """Kinds of builds with overheads of their own. Forks and patched images are as many kinds as
    there are."""
    classes = {record.engine_class for record in load_overheads().records}
    return {
        name
        for name in classes
        if name.partition("-")[0] in engine_ids() and not name.endswith("-community")
    }


_LENGTH = ("accepted_length", "acceptance_by_position")
_PROMPTS = ("context_tokens", "input_tokens", "output_tokens")
_SAID_IN = {
    **dict.fromkeys(("acceptance", "task"), _LENGTH),
    **dict.fromkeys(_PROMPTS, _PROMPTS),
    **dict.fromkeys(("weight_dtype", "expert_dtype"), ("weight_dtype",)),
    "kv_dtype": ("kv_dtype",),
    "routing": ("routing", "touched_experts"),
    **dict.fromkeys(("refit", "plain_sweep"), ()),
}
"""Columns of which each says that the run itself tells a field of the scenario."""


def _k(facts: Facts) -> int:
    """K of a run that states it, else 0. [-]"""
    return int(_number(facts, "draft_tokens_k") or 0)


def _unsaid(facts: Facts, bar: Scenario | None) -> dict[str, Any]:
    """Fields of the bar's scenario that a run of its model and drafter says nothing of."""
    resolved = resolve_model_name(str(facts.get("model_id")))
    if bar is None or bar.model_id not in (facts.get("model_id"), resolved and resolved.model_id):
        return {}
    if resolved is not None and resolved.weight_format:
        facts = {**facts, "weight_dtype": resolved.weight_format}
    others_drafts = not _k(facts) or facts.get("drafter") != bar.drafter_id
    return {
        name: getattr(bar, name)
        for name, columns in _SAID_IN.items()
        if all(facts.get(column) is None for column in columns)
        and not (others_drafts and columns == _LENGTH)
    }


def _whose_length(facts: Facts, unsaid: Mapping[str, Any], source: str) -> LengthFrom:
    if "acceptance" in unsaid:
        return "bar"
    if source == "other_model":
        return "other_models"
    is_stated = any(facts.get(name) is not None for name in _LENGTH)
    return "run" if is_stated else "published"


def _stated_length(
    facts: Facts, n_draft: int, bar: Scenario | None, length_from: LengthFrom
) -> float | None:
    """Accepted length of the bar at a run's K, where both are of one model and drafter. [tokens]"""
    if bar is None or length_from != "run" or not n_draft:
        return None
    is_of_bar = (bar.model_id, bar.drafter_id) == (facts.get("model_id"), facts.get("drafter"))
    return _length_at(bar, n_draft) if is_of_bar else None


def _length_at(scenario: Scenario, k: int) -> float:
    """Accepted length of a scenario at a K. [tokens]"""
    acceptance = load_setup(scenario.model_copy(update={"k_max": k})).acceptance
    return float(acceptance.accepted_length[k])


def _setup(question: RowQuestion, facts: Facts, unsaid: Mapping[str, Any]) -> Setup:
    """What answers: with prefill where requests come one after the other and their lengths are
    known."""
    scenario = question.scenario
    changes = dict[str, Any]()
    context = _number(facts, "context_tokens")
    if context:
        changes["context_tokens"] = max(round(context), 1)
    lengths = {key: _number(facts, key) for key in ("input_tokens", "output_tokens")}
    closed = facts.get("batch_kind") in {"max_concurrency", "concurrency"} & WHOLE_BATCH_KINDS
    if closed and all(lengths.values()) and scenario.input_tokens is None:
        changes |= {key: max(round(value), 1) for key, value in lengths.items() if value}
    shares = facts.get("acceptance_by_position")
    if shares and question.n_draft and not question.borrowed:
        changes["acceptance"] = rates_from_list(str(shares)).text
    scenario = scenario.model_copy(update={**changes, **unsaid})
    borrowed = None if "acceptance" in unsaid else question.borrowed
    return question.built(load_setup(scenario, borrowed))


def _rows(run: PredictedRun, curve: Curve) -> list[Compared]:
    """All that is predicted for the run, with what was measured of it."""
    k = run.n_draft
    draws = make_draws(run.setup.costs)
    each = curve.tpot_s[0]
    if run.number("tpot_s") is None:
        gpus = run.setup.placement.gpus
        each = run.batch_size / (curve.tokens_per_s_per_gpu[0] * gpus)
    plain_s = _plain_time_s(run if k else replace(run, plain=run.facts))
    out = [_compared("plain", plain_s, float(each[0]), curve.plain_draws_s[:, 0])]
    if not k:
        return out
    length = float(curve.accepted_length[-1])
    parts = {name: time[0, -1] for name, time in curve.round_components.items()}
    drafting = {name: parts.pop(name) for name in ("draft", "draft_host")}
    after_s = parts.pop("round_host")
    verify_draws = draw_total(parts, draws, None, None)
    draft_draws = draw_total(drafting, draws, None, None)
    round_draws = (
        verify_draws + draft_draws + draw_total({"round_host": after_s}, draws, None, None)
    )
    measured = run.number("step_time_s")
    counted = run.number("accepted_length") or length
    computed = None
    token_s = token_time_s(run.facts)
    if measured is None and token_s is not None:
        measured = token_s * counted
        computed = token_s, counted
    of_round = _compared("round", measured, float(each[-1] * length), round_draws)
    out.append(replace(of_round, computed=computed))
    verify = float(curve.verify_step_s[0, -1])
    draft = float(sum(drafting.values()))
    verify_s = run.number("verify_time_s")
    out.append(_compared("verify", verify_s, verify, verify_draws))
    if draft > 0:
        out.append(_compared("draft", run.number("draft_time_s"), draft, draft_draws))
    out.append(_speedup(curve, float(each[0] / each[-1]), measured_gain(run)))
    return [*out, *_length(run)]


def _plain_time_s(run: Run) -> float | None:
    """Time per token of the baseline, else that which the row itself prints beside its own. [s]"""
    printed_s = measured_times(run.facts)[0]
    return token_time_s(run.plain) or (printed_s if math.isfinite(printed_s) else None)


def measured_gain(run: Run) -> float | None:
    """Speedup of a run with drafts over its baseline, of one quantity of both. None where it was
    not measured. [-]"""
    rate = run.number("output_tok_per_s")
    plain_rate = run.number("plain:output_tok_per_s")
    mixed = (run.number("tpot_s") is None) != (run.number("plain:tpot_s") is None)
    # A time of one run over the rate of the other is no ratio of either.
    if mixed and rate and plain_rate:
        return rate / plain_rate
    plain_s = _plain_time_s(run)
    token_s = token_time_s(run.facts)
    return plain_s / token_s if plain_s and token_s else run.number("speedup")


def _compared(name: str, measured: float | None, predicted: float, draws: np.ndarray) -> Compared:
    """A time whose band is that of its parts' draws, or what shipped measurements are off by where
    that is wider.

    The parts' errors alone hold half of the measured times: kernels were timed apart from the
    engines that run them.
    """
    low, high = band(draws)
    median = float(np.median(draws))
    widest = math.exp(time_spread())
    return Compared(
        name,
        measured,
        predicted,
        predicted * min(float(low) / median, 1.0 / widest),
        predicted * max(float(high) / median, widest),
        "s",
    )


def _speedup(curve: Curve, predicted: float, measured: float | None) -> Compared:
    central = float(curve.speedup[0, -1])
    low = float(curve.low[0, -1]) / central
    high = float(curve.high[0, -1]) / central
    return Compared("speedup", measured, predicted, predicted * low, predicted * high, "x")


def _length(run: PredictedRun) -> list[Compared]:
    """The measured accepted length beside what is published for the model and drafter. Nothing
    where nothing is."""
    setup = run.setup
    k = run.n_draft
    curves = acceptance_curves(model_id=setup.architecture.id, drafter_id=setup.drafter.id)
    if not curves:
        return []
    published = [parse_acceptance(curve.id, k, borrowed=True) for curve in curves]
    central = float(np.median([acceptance.accepted_length[k] for acceptance in published]))
    low = float(min(acceptance.low[k] for acceptance in published))
    high = float(max(acceptance.high[k] for acceptance in published))
    return [Compared("length", run.number("accepted_length"), central, low, high, "tokens")]


def _prefill_share(curve: Curve) -> float:
    drafts = len(curve.drafts) > 1
    step_s = curve.round_s[0, -1] if drafts else curve.plain_step_s[0]
    decode = float(laws.tpot(step_s, float(curve.accepted_length[-1]) if drafts else 1.0))
    return max(1.0 - decode / float(curve.tpot_s[0, -1]), 0.0)


def token_time_s(facts: Facts) -> float | None:
    """Seconds for one token of one request. As stated, else the round over its length, else batch
    over the rate."""
    for name in ("tpot_s", "_token_s"):
        if (token_s := _number(facts, name)) is not None:
            return token_s
    step = _number(facts, "step_time_s")
    k = _number(facts, "draft_tokens_k")
    length = _number(facts, "accepted_length") if k else 1.0
    if step is not None and length:
        return step / length
    batch = _number(facts, "batch_size")
    rate = _number(facts, "output_tok_per_s")
    if batch and rate and facts.get("batch_kind") in (None, *WHOLE_BATCH_KINDS):
        return batch / rate
    value = measured_times({**facts, "baseline_value": None})[1]
    return value if math.isfinite(value) else None


def _number(facts: Facts, name: str) -> float | None:
    return as_number(facts.get(name))
