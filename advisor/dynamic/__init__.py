"""Run-time control of the draft length K: schedules, Cascade and its competitors, and a serving-loop simulator."""

from advisor.dynamic.acceptance_process import (
    AcceptanceProcess,
    Mixture,
    PerPosition,
    RecordedSteps,
    Switching,
    accepted_length_of,
    draw_trace,
)
from advisor.dynamic.break_even import break_even_accepted_length, can_pay, last_paying_batch, paying_intervals
from advisor.dynamic.cascade import Cascade, CascadeSettings
from advisor.dynamic.costs import RoundCosts, round_costs
from advisor.dynamic.paper_setting import ngram_task, ngram_workloads
from advisor.dynamic.policies import SGLANG_DEFAULT_SLOTS, BatchSchedule, EmaAdaptive, Oracle, Policy, StaticK
from advisor.dynamic.schedule import (
    ContextSchedule,
    KRange,
    ScheduleGain,
    k_at,
    k_by_batch,
    k_by_batch_and_context,
    schedule_gain,
)
from advisor.dynamic.simulator import Load, SimulationResult, closed_loop, compare, poisson_arrivals, simulate
from advisor.dynamic.study import StudyRow, StudySummary, cascade_study, study_policies, summarise_study

__all__ = [
    "SGLANG_DEFAULT_SLOTS",
    "AcceptanceProcess",
    "BatchSchedule",
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
    "ScheduleGain",
    "SimulationResult",
    "StaticK",
    "StudyRow",
    "StudySummary",
    "Switching",
    "accepted_length_of",
    "break_even_accepted_length",
    "can_pay",
    "cascade_study",
    "closed_loop",
    "compare",
    "draw_trace",
    "k_at",
    "k_by_batch",
    "k_by_batch_and_context",
    "last_paying_batch",
    "ngram_task",
    "ngram_workloads",
    "paying_intervals",
    "poisson_arrivals",
    "round_costs",
    "schedule_gain",
    "simulate",
    "study_policies",
    "summarise_study",
]
