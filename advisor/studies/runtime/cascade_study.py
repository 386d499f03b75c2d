"""The comparison of arXiv:2506.20675 on costs and acceptance processes given by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.prediction import AdvisorError
from advisor.runtime import (
    AcceptanceProcess,
    Cascade,
    EmaAdaptive,
    Oracle,
    Policy,
    RoundCosts,
    StaticK,
    closed_loop,
    draw_trace,
    simulate,
)

PAPER_STATIC_K = (1, 2, 3)


@dataclass(frozen=True)
class StudyRow:
    """One policy on one workload of one model, against plain decoding of the same requests."""

    model: str
    workload: str
    policy: str
    speedup: float
    """Total plain time over total time, all requests. [1]"""
    slowdown: float
    """max(0, 1 / speedup - 1): extra time per token. [1]"""
    p95_request_slowdown: float
    """95th percentile over requests of time per token against plain, minus 1. [1]"""
    test_share: float | None
    """Share of iterations spent on tests; None for policies that do not test."""


@dataclass(frozen=True)
class StudySummary:
    """worst_slowdown: by policy, over all models and workloads. Gains are means over a model's workloads, by model."""

    worst_slowdown: Mapping[str, float]
    best_static_k: Mapping[str, int]
    gain_over_best_static: Mapping[str, float]
    """`controlled` policy against the one static K that is best for the model over all its workloads."""
    gain_over_each_static: Mapping[str, Mapping[int, float]]


def study_policies(static: Sequence[int] = PAPER_STATIC_K) -> tuple[Policy, ...]:
    """K = 0, each static K, Cascade, acceptance-only adaptation and the oracle."""
    return (StaticK(0), *(StaticK(k) for k in static), Cascade(), EmaAdaptive(), Oracle())


def cascade_study(
    costs_by_model: Mapping[str, RoundCosts],
    processes: Mapping[str, Mapping[str, AcceptanceProcess]],
    policies: Sequence[Policy] | None = None,
    n_requests: int = 200,
    output_tokens: int = 250,
    seed: int = 2506,
) -> tuple[StudyRow, ...]:
    """Every policy on every (model, workload), one request at a time as in the paper.

    Parameters
    ----------
    costs_by_model : round costs by model (or model/drafter); only batch 1 is used.
    processes : acceptance process by model and workload name.
    n_requests, output_tokens : independent requests per workload and their length. The paper's runs are longer than
        20,000 tokens per mixed workload.
    seed : of all traces; each (model, workload) has a stream of its own, so adding one does not move the others.
    """
    chosen = tuple(policies) if policies is not None else study_policies()
    rows: list[StudyRow] = []
    for model, costs in costs_by_model.items():
        if model not in processes or not processes[model]:
            raise AdvisorError(f"no acceptance process given for {model!r}; expected at least one workload")
        for workload, process in processes[model].items():
            key = [seed, *f"{model}\n{workload}".encode()]
            trace = draw_trace(process, n_requests, output_tokens, costs.k_max, np.random.default_rng(key))
            load = closed_loop(n_requests, requests_per_group=1, output_tokens=output_tokens)
            plain = simulate(costs, StaticK(0), trace, load, output_tokens)
            for policy in chosen:
                run = simulate(costs, policy, trace, load, output_tokens)
                speedup = float(plain.busy_time_s.sum() / run.busy_time_s.sum())
                p95 = float(np.quantile(run.busy_time_s / plain.busy_time_s, 0.95)) - 1
                tests = run.test_iterations
                share = None if tests is None else float(tests.sum() / run.iterations.sum())
                rows.append(StudyRow(model, workload, policy.name, speedup, max(0.0, 1 / speedup - 1), p95, share))
    return tuple(rows)


def summarise_study(rows: Sequence[StudyRow], controlled: str = "Cascade") -> StudySummary:
    """Worst slowdowns and gains from `cascade_study`'s rows. Raises AdvisorError when `controlled` is missing."""
    if not any(row.policy == controlled for row in rows):
        raise AdvisorError(f"the study holds no policy named {controlled!r}")
    names = list(dict.fromkeys(row.policy for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    worst = {name: max(row.slowdown for row in rows if row.policy == name) for name in names}
    statics = {int(name.removeprefix("static K=")): name for name in names if name.startswith("static K=")}
    statics.pop(0, None)
    best_k: dict[str, int] = {}
    gain: dict[str, float] = {}
    each: dict[str, dict[int, float]] = {}
    for model in models:
        mean = {
            name: float(np.mean([row.speedup for row in rows if row.model == model and row.policy == name]))
            for name in names
        }
        each[model] = {k: mean[controlled] / mean[name] - 1 for k, name in statics.items()}
        if each[model]:
            best_k[model] = min(each[model], key=lambda k: each[model][k])
            gain[model] = each[model][best_k[model]]
    return StudySummary(worst, best_k, gain, each)
