"""Run-time control of the draft length K: schedules, Cascade and its competitors, and a serving-loop simulator."""

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
from advisor.runtime.cascade import Cascade, CascadeSettings
from advisor.runtime.costs import RoundCosts, round_costs
from advisor.runtime.policies import SGLANG_DEFAULT_SLOTS, BatchSchedule, EmaAdaptive, Oracle, Policy, StaticK
from advisor.runtime.schedule import (
    ContextSchedule,
    KRange,
    ScheduleGain,
    k_at,
    k_by_batch,
    k_by_batch_and_context,
    schedule_gain,
)
from advisor.runtime.simulator import Load, SimulationResult, closed_loop, compare, poisson_arrivals, simulate

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
    "Switching",
    "accepted_length_of",
    "break_even_accepted_length",
    "can_pay",
    "closed_loop",
    "compare",
    "draw_trace",
    "k_at",
    "k_by_batch",
    "k_by_batch_and_context",
    "last_paying_batch",
    "paying_intervals",
    "poisson_arrivals",
    "round_costs",
    "schedule_gain",
    "simulate",
]
