"""Run-time control of the draft length K: schedules, Cascade and its competitors, and a serving-loop simulator."""

from __future__ import annotations

from advisor.runtime.acceptance_of import (
    DEFAULT_PASSAGE_TOKENS,
    DEFAULT_SPREAD,
    MAX_TRACE_BYTES,
    concave,
    per_position,
    recorded,
    switching_around,
)
from advisor.runtime.acceptance_process import (
    AcceptanceProcess,
    Mixture,
    PerPosition,
    RecordedSteps,
    Switching,
    accepted_length_of,
    draw_trace,
)
from advisor.runtime.break_even import break_even_accepted_length, can_pay, last_paying_batch, paying_intervals
from advisor.runtime.by_batch import last_batch, ranges_of, scheduled_draft
from advisor.runtime.cascade import Cascade, CascadeSettings
from advisor.runtime.costs import RoundCosts, round_costs
from advisor.runtime.judge import BestDraft, break_even_batch, equals_text, judge_draft, sweet_spot
from advisor.runtime.of_scenario import (
    BatchHistogram,
    RuntimeSchedule,
    check_fits,
    contexts_from_text,
    costs_of,
    gain_of,
    schedule_for,
    static_ranges,
)
from advisor.runtime.policies import BatchSchedule, EmaAdaptive, Oracle, Policy, StaticK
from advisor.runtime.schedule import (
    DEFAULT_MARGIN,
    MIN_GAIN,
    ContextSchedule,
    KRange,
    ScheduleGain,
    k_at,
    k_by_batch,
    k_by_batch_and_context,
    schedule_gain,
)
from advisor.runtime.simulation import SimulationPlan, SimulationReport, simulate_policies
from advisor.runtime.simulator import Load, closed_loop, compare, poisson_arrivals, simulate

__all__ = [
    "DEFAULT_MARGIN",
    "DEFAULT_PASSAGE_TOKENS",
    "DEFAULT_SPREAD",
    "MAX_TRACE_BYTES",
    "MIN_GAIN",
    "AcceptanceProcess",
    "BatchHistogram",
    "BatchSchedule",
    "BestDraft",
    "Cascade",
    "CascadeSettings",
    "ContextSchedule",
    "EmaAdaptive",
    "KRange",
    "Load",
    "Mixture",
    "Oracle",
    "PerPosition",
    "Policy",
    "RecordedSteps",
    "RoundCosts",
    "RuntimeSchedule",
    "ScheduleGain",
    "SimulationPlan",
    "SimulationReport",
    "StaticK",
    "Switching",
    "accepted_length_of",
    "break_even_accepted_length",
    "break_even_batch",
    "can_pay",
    "check_fits",
    "closed_loop",
    "compare",
    "concave",
    "contexts_from_text",
    "costs_of",
    "draw_trace",
    "equals_text",
    "gain_of",
    "judge_draft",
    "k_at",
    "k_by_batch",
    "k_by_batch_and_context",
    "last_batch",
    "last_paying_batch",
    "paying_intervals",
    "per_position",
    "poisson_arrivals",
    "ranges_of",
    "recorded",
    "round_costs",
    "schedule_for",
    "schedule_gain",
    "scheduled_draft",
    "simulate",
    "simulate_policies",
    "static_ranges",
    "sweet_spot",
    "switching_around",
]
