"""Run-time control of the draft length K: schedules, Cascade and its competitors, and a serving-loop simulator."""

from __future__ import annotations

from advisor.runtime.acceptance_process import (
    DEFAULT_PASSAGE_TOKENS,
    DEFAULT_SPREAD,
    AcceptanceProcess,
    Mixture,
    PerPosition,
    RecordedSteps,
    Switching,
    concave,
    draw_trace,
    per_position,
    switching_around,
)
from advisor.runtime.bounds import StopsAtRejection
from advisor.runtime.break_even import (
    break_even_accepted_length,
    break_even_batch,
    can_pay,
    paying_intervals,
    sweet_spot,
)
from advisor.runtime.by_batch import (
    BatchHistogram,
    RuntimeSchedule,
    check_fits,
    contexts_from_text,
    gain_of,
    ranges_of,
    ranges_to_serve,
    schedule_for,
    schedules_by_context,
    static_ranges,
)
from advisor.runtime.by_context import KByContext, context_values, curves_at, k_by_context
from advisor.runtime.cascade import Cascade, CascadeSettings
from advisor.runtime.cliffs import kernel_cliffs
from advisor.runtime.costs import RoundCosts, costs_of, idle_speedup, round_costs
from advisor.runtime.gain import ScheduleGain, gain_over_doublings, schedule_gain
from advisor.runtime.judge import DraftRow, draft_rows, last_batch, meets_limit, others_text, recommended_draft
from advisor.runtime.policies import BatchSchedule, EmaAdaptive, Oracle, Policy, StaticK
from advisor.runtime.ranges import (
    ContextSchedule,
    KRange,
    bucket_values,
    buckets_by_context,
    k_at,
    k_by_batch_table,
    k_running_at,
    range_values,
)
from advisor.runtime.schedule import MIN_GAIN, SWITCH_COST, KValues, k_by_batch, k_values, schedule_rule, values_of
from advisor.runtime.simulation import SimulationPlan, SimulationReport, simulate_policies
from advisor.runtime.simulator import Load, closed_loop, compare, poisson_arrivals, simulate
from advisor.runtime.trace_file import MAX_TRACE_BYTES, recorded
from advisor.runtime.words import accepted_length_text, carried_text, one_k_text, plain_text, schedule_texts

__all__ = [
    "DEFAULT_PASSAGE_TOKENS",
    "DEFAULT_SPREAD",
    "MAX_TRACE_BYTES",
    "MIN_GAIN",
    "SWITCH_COST",
    "AcceptanceProcess",
    "BatchHistogram",
    "BatchSchedule",
    "Cascade",
    "CascadeSettings",
    "ContextSchedule",
    "DraftRow",
    "EmaAdaptive",
    "KByContext",
    "KRange",
    "KValues",
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
    "StopsAtRejection",
    "Switching",
    "accepted_length_text",
    "break_even_accepted_length",
    "break_even_batch",
    "bucket_values",
    "buckets_by_context",
    "can_pay",
    "carried_text",
    "check_fits",
    "closed_loop",
    "compare",
    "concave",
    "context_values",
    "contexts_from_text",
    "costs_of",
    "curves_at",
    "draft_rows",
    "draw_trace",
    "gain_of",
    "gain_over_doublings",
    "idle_speedup",
    "k_at",
    "k_by_batch",
    "k_by_batch_table",
    "k_by_context",
    "k_running_at",
    "k_values",
    "kernel_cliffs",
    "last_batch",
    "meets_limit",
    "one_k_text",
    "others_text",
    "paying_intervals",
    "per_position",
    "plain_text",
    "poisson_arrivals",
    "range_values",
    "ranges_of",
    "ranges_to_serve",
    "recommended_draft",
    "recorded",
    "round_costs",
    "schedule_for",
    "schedule_gain",
    "schedule_rule",
    "schedule_texts",
    "schedules_by_context",
    "simulate",
    "simulate_policies",
    "static_ranges",
    "sweet_spot",
    "switching_around",
    "values_of",
]
