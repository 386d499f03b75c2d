"""The comparison of arXiv:2506.20675 on costs and acceptance processes given by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

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

POLICIES: tuple[Policy, ...] = (*(StaticK(k) for k in range(4)), Cascade(), EmaAdaptive(), Oracle())
"""K = 0, each static K of the paper, Cascade, acceptance-only adaptation and the oracle."""


@dataclass(frozen=True)
class StudyRow:
    """One policy on one workload of one model, against plain decoding of the same requests."""

    model: str
    workload: str
    policy: str
    speedup: float
    """Total plain time over total time, all requests. [-]"""
    slowdown: float
    """max(0, 1 / speedup - 1): extra time per token. [-]"""


@dataclass(frozen=True)
class StudySummary:
    """worst_slowdown: by policy, over all models and workloads. Gains are means over a model's workloads, by model."""

    worst_slowdown: Mapping[str, float]
    best_static_k: Mapping[str, int]
    gain_over_best_static: Mapping[str, float]
    """Cascade against the one static K that is best for the model over all its workloads."""


def cascade_study(
    costs_by_model: Mapping[str, RoundCosts],
    processes: Mapping[str, Mapping[str, AcceptanceProcess]],
    n_requests: int = 200,
    output_tokens: int = 250,
    seed: int = 2506,
) -> tuple[StudyRow, ...]:
    """Results of every policy on every (model, workload), one request at a time as in the paper.

    Raises AdvisorError for a model without workloads.

    Parameters
    ----------
    costs_by_model : round costs by model (or model/drafter); only batch 1 is used.
    processes : acceptance process by model and workload name.
    n_requests, output_tokens : independent requests per workload and their length. The paper's runs are longer than
        20,000 tokens per mixed workload.
    seed : of all traces; each (model, workload) has a stream of its own, so adding one does not move the others.
    """
    rows: list[StudyRow] = []
    for model, costs in costs_by_model.items():
        if model not in processes or not processes[model]:
            raise AdvisorError(f"no acceptance process given for {model!r}; expected at least one workload")
        for workload, process in processes[model].items():
            key = [seed, *f"{model}\n{workload}".encode()]
            trace = draw_trace(process, n_requests, output_tokens, costs.k_max, np.random.default_rng(key))
            load = closed_loop(n_requests, requests_per_group=1, output_tokens=output_tokens)
            plain = simulate(costs, StaticK(0), trace, load, output_tokens)
            for policy in POLICIES:
                run = simulate(costs, policy, trace, load, output_tokens)
                speedup = float(plain.busy_time_s.sum() / run.busy_time_s.sum())
                rows.append(StudyRow(model, workload, policy.name, speedup, max(0.0, 1 / speedup - 1)))
    return tuple(rows)


def summarise_study(rows: Sequence[StudyRow]) -> StudySummary:
    """Worst slowdowns and gains from `cascade_study`'s rows."""
    frame = pd.DataFrame(map(vars, rows))
    mean = frame.pivot_table(index="model", columns="policy", values="speedup")
    static = mean[[name for name in mean if name.startswith("static K=") and name != "static K=0"]]
    return StudySummary(
        worst_slowdown=frame.groupby("policy")["slowdown"].max().to_dict(),
        best_static_k=static.idxmax(axis=1).str.removeprefix("static K=").astype(int).to_dict(),
        gain_over_best_static=(mean["Cascade"] / static.max(axis=1) - 1).to_dict(),
    )
