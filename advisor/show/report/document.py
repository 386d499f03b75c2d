"""The JSON report, field by field (docs/report-schema.md). Nothing inside the advisor reads it: `formats` fills it."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import ConfigDict, Field

from advisor.answers.advice import ComponentTime
from advisor.answers.engines.export import CheckCommand
from advisor.catalog.engines import ExportEngineId
from advisor.predict.scenario import SCHEMA_VERSION, Scenario
from advisor.prediction import Confidence, Frozen, OriginKind, Prediction, Tier
from advisor.show.words.diagnosis import DiagnosisFinding


class _Speedup(Frozen):
    n_draft: int
    speedup: float
    speedup_low: float
    speedup_high: float
    tier: Tier


class Setting(Frozen):
    """One line of the question, as a reader sees it."""

    label: str
    value: str


class Answer(_Speedup):
    """The recommendation at the target batch."""

    band_level: float
    because: str
    extrapolated: bool
    bound: str
    bound_because: str
    tpot_ms: float
    ttft_ms: float | None = None
    tokens_per_s_per_gpu: float
    p_best: float
    p_gain: float | None = None
    chance_of_gain: float | None = None
    regret: float
    equal_drafts: tuple[int, ...] = ()
    meets_limit: bool
    largest_batch_that_fits: int


class CurvePoint(_Speedup):
    """Prediction for one batch and one K, with one whole round by component in milliseconds."""

    batch_size: int
    extrapolated: bool
    accepted_length: float
    verify_ratio: float
    touched_plain: float
    touched_verify: float
    tpot_ms: float
    tokens_per_s_per_user: float | None = None
    tokens_per_s_per_gpu: float | None = None
    ttft_ms: float | None = None
    components_ms: dict[str, float]


class ScheduleRange(Frozen):
    """Range of batches from batch_start to batch_end that runs n_draft.

    The speedup is their mean, the regret the largest expected loss.

    k_running is the K of one server for all batches, which keeps its drafter where n_draft is 0.
    """

    batch_start: int
    batch_end: int
    n_draft: int
    k_running: int
    speedup: float
    regret: float
    meets_limit: bool


class ScheduleContext(Frozen):
    """The recommended K along the batches of its section at one context, null where a batch does not fit.

    schedule_loss is what the schedule loses there beyond what it loses at its own context.
    """

    context_tokens: int
    n_draft: tuple[int | None, ...]
    schedule_loss: tuple[float, ...]


class ScheduleContexts(Frozen):
    """The recommended K over batch and context, and whether context changes the schedule's answer."""

    says: str
    matters: bool
    batches: tuple[int, ...]
    contexts: tuple[ScheduleContext, ...]


class EngineSetup(Frozen):
    """Command and files with which one engine runs the schedule.

    `problem` says why it cannot, and the other fields are then empty.
    """

    engine: ExportEngineId
    launch_line: str = ""
    config_json: str = ""
    """The adaptive file (SGLang) or the object already on the launch line (vLLM); empty where there is none."""
    file_name: str = ""
    warnings: tuple[str, ...] = ()
    problem: str = ""


class AcceptedLength(Frozen):
    """Tokens emitted per round at one K, with its band."""

    n_draft: int
    accepted_length: float
    low: float
    high: float
    extrapolated: bool


class UsedConstant(Frozen):
    """A constant of the accelerator with its origin."""

    name: str
    value: float
    unit: str
    kind: OriginKind
    confidence: Confidence
    source: str
    date: dt.date


class DesignChoice(Frozen):
    """The best design at equal quality for one goal.

    Its gain is over the scenario's own design, above 1 better.
    """

    goal: str
    design: str
    n_experts: int
    n_active: int
    n_shared: float
    expert_width: int
    total_params: float
    active_params: float
    shared_share: float
    n_draft: int
    speedup: float
    tpot_ms: float
    gain: float
    gain_low: float
    gain_high: float
    quality: float
    quality_pessimistic: float
    training_cost: float | None = None
    tier: Tier


class DesignSection(Frozen):
    """The scenario's expert design against the best at equal quality."""

    text: str
    binding: str
    choices: tuple[DesignChoice, ...]
    notes: tuple[str, ...]


class TriedChange(Frozen):
    """A single change that helps by one goal, with effects as `before -> after`."""

    goal: str
    what: str
    gain: str
    speedup: str
    tpot: str
    tokens_per_s_per_gpu: str
    tier: Tier
    notes: tuple[str, ...]


class DerivationStep(Frozen):
    """One formula with its numbers, as text."""

    group: str
    title: str
    text: str


class CitedWork(Frozen):
    """A work behind a formula or constant of this answer."""

    text: str
    url: str
    used_for: str


class ErrorLine(Frozen):
    """Errors of this advisor on published measurements that share something with the scenario. Shares, not percent."""

    group: str
    n: int
    median_error: float | None
    p90_error: float | None
    sign_right: float | None
    in_band: float | None


class DiagnosisSection(Frozen):
    """A measured run, diagnosed."""

    verdict: str
    sentence: str
    findings: tuple[DiagnosisFinding, ...]
    more: str
    not_judged: tuple[str, ...]


class SpendArm(Frozen):
    """One way to decode at the target batch, per GPU, with None where price or power is not known."""

    n_draft: int
    tokens_per_s_per_gpu: Prediction
    usd_per_million_tokens: Prediction | None
    power_w_per_gpu: Prediction | None
    joules_per_token: Prediction | None
    share_of_time: dict[str, float]


class SpendSection(Frozen):
    """Money and energy of a token, without speculation and at the recommended K."""

    price_usd_per_gpu_hour: float | None
    price_origin: str | None
    plain: SpendArm
    recommended: SpendArm
    joules_ratio: Prediction | None


class ReportDocument(Frozen):
    """Everything a report says. Same scenario, data, package versions and date: the same report."""

    model_config = ConfigDict(title="Report")
    schema_version: Literal[1] = SCHEMA_VERSION
    date: dt.date
    scenario: Scenario
    scenario_hash: str
    share_query: str
    """URL query that restores the scenario; empty when its configuration is too large for an address."""
    question: str
    settings: tuple[Setting, ...]
    verdict: str
    answer: Answer
    curve_k: int
    """K of the curve shown and of `components`: the recommended one, or the best K > 0 when that is 0."""
    sweet_spot_batch: int
    break_even_batch: float | None
    curve: tuple[CurvePoint, ...] = Field(min_length=1)
    schedule: tuple[ScheduleRange, ...] = Field(min_length=1)
    k_by_context: ScheduleContexts | None = None
    """None: not looked up."""
    engines: tuple[EngineSetup, ...]
    check_commands: tuple[CheckCommand, ...]
    """Empty where K = 0 is recommended or vLLM cannot run the drafter."""
    components: tuple[ComponentTime, ...]
    accepted_lengths: tuple[AcceptedLength, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    limits: tuple[str, ...]
    constants: tuple[UsedConstant, ...]
    validation: tuple[ErrorLine, ...] | None
    """None: nothing was looked up. Empty: nothing published shares this accelerator or model."""
    design: DesignSection | None
    """None: a dense model, no drafter, or not looked up."""
    next_steps: tuple[TriedChange, ...] | None
    """None: not looked up. Empty: nothing tried helps beyond noise."""
    spend: SpendSection | None = None
    diagnosis: DiagnosisSection | None = None
    over_context: dict[str, Any] | None = None
    other_models: dict[str, Any] | None = None
    design_regions: dict[str, Any] | None = None
    expert_ranks: dict[str, Any] | None = None
    sweep: dict[str, Any] | None = None
    """The last five as documents of their own. None of the seven: not asked for or looked up."""
    derivation: tuple[DerivationStep, ...]
    cited: tuple[CitedWork, ...]
    sources: tuple[str, ...]
    versions: dict[str, str]
