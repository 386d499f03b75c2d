"""Published comparisons of K at run time, on our own step times: Cascade's study, Cohere's K by
batch.

The acceptance traces of arXiv:2506.20675 (code, math, extraction and four mixes; n-gram drafts) are
not published, so stand-ins are ASSUMED: a drafter is copying (conditional acceptance 0.9) or not
(0.08), passages are 40 tokens long on average, and the share of tokens inside them sets the task.
Two shares meet a published number each and prove nothing about it: code yields ETR 3.2 at K = 7,
math the 26 % slowdown of K = 1 on a purely memory-bound Mixtral. Every round carries K drafts,
where a real n-gram drafter proposes none without a match; that makes losing rounds dearer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from advisor.answers.best_k import KRange, RoundCosts, costs_of
from advisor.answers.by_batch import ranges_of
from advisor.answers.simulation.policies import (
    Cascade,
    CascadeSettings,
    EmaAdaptive,
    Oracle,
    Policy,
    StaticK,
)
from advisor.answers.simulation.simulator import (
    AcceptanceProcess,
    RunLengths,
    Switching,
    closed_loop,
    draw_trace,
    per_position,
    simulate,
    switching_around,
)
from advisor.physics.acceptance import parse_acceptance
from advisor.predict.curve import Curve, curve_for, speedup_curve
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

COPYING_ACCEPTANCE = 0.9
OTHER_ACCEPTANCE = 0.08
COPYING_TOKENS = 40.0
COPYING_SHARE = {"code": 0.77, "math": 0.3, "extraction": 0.5}


@dataclass(frozen=True)
class Mixture:
    """Requests of several kinds: each stream follows one of the processes, drawn with the given
    weights."""

    processes: tuple[AcceptanceProcess, ...]
    weights: tuple[float, ...]

    def run_lengths(
        self, n_streams: int, n_tokens: int, k_max: int, rng: np.random.Generator
    ) -> RunLengths:
        """Run lengths [n_streams, n_tokens]."""
        share = np.asarray(self.weights) / sum(self.weights)
        kind = rng.choice(len(self.processes), size=n_streams, p=share)
        out = np.zeros((n_streams, n_tokens), dtype=np.int8)
        for i, process in enumerate(self.processes):
            rows = np.flatnonzero(kind == i)
            if rows.size:
                out[rows] = process.run_lengths(rows.size, n_tokens, k_max, rng)
        return out


def ngram_task(copying_share: float, k_max: int = 7) -> Switching:
    """Acceptance of n-gram drafts when a share of the output tokens repeat earlier text.

    `copying_share` is that share.
    """
    other_tokens = COPYING_TOKENS * (1 - copying_share) / copying_share
    return Switching(
        (COPYING_ACCEPTANCE,) * k_max,
        (OTHER_ACCEPTANCE,) * k_max,
        COPYING_TOKENS,
        max(1.0, other_tokens),
    )


def ngram_workloads(k_max: int = 7) -> dict[str, AcceptanceProcess]:
    """The seven workloads by name: three tasks and their four equal mixes, one task per request."""
    task: dict[str, AcceptanceProcess] = {
        name: ngram_task(share, k_max) for name, share in COPYING_SHARE.items()
    }
    mixes = (
        ("code", "math"),
        ("math", "extraction"),
        ("code", "extraction"),
        ("code", "math", "extraction"),
    )
    mixed = {
        "+".join(names): Mixture(tuple(task[n] for n in names), (1.0,) * len(names))
        for names in mixes
    }
    return {**task, **mixed}


K_MAX = 7
N_REQUESTS = 800
"""Requests of each workload: worst slowdowns repeat within about half a point. [-]"""
CONTEXT_TOKENS = 512
"""Assumed: the order of the prompts and outputs of HumanEval, GSM8K and MT-Bench."""
ALWAYS_BAD_ITERATIONS = 250


@dataclass(frozen=True)
class PaperModel:
    """One target of arXiv:2506.20675 as it is run here."""

    model_id: str
    weight_dtype: str | None = None
    """None: as the checkpoint stores it (bf16)."""
    tensor_parallel: int = 1

    @property
    def label(self) -> str:
        """Name with format and placement, `mixtral-8x7b int4`, `mixtral-8x7b bf16 TP4`."""
        parallel = f" TP{self.tensor_parallel}" if self.tensor_parallel > 1 else ""
        return f"{self.model_id} {self.weight_dtype or 'bf16'}{parallel}"


PAPER_MODELS = (
    PaperModel("mixtral-8x7b", "int4"),
    PaperModel("phi-3.5-moe", "int4"),
    PaperModel("olmoe-1b-7b"),
    PaperModel("deepseek-moe-16b"),
    PaperModel("qwen1.5-moe-a2.7b"),
)
"""On one 48 GB card; the two whose bf16 weights do not fit it run in 4-bit, which is an
assumption."""
MIXTRAL_IN_BF16 = PaperModel("mixtral-8x7b", None, 4)
"""The other way to make Mixtral fit."""
EAGLE_CURVES = {
    "code": "gpt-oss-20b-eagle3-humaneval",
    "chat": "gpt-oss-20b-eagle3-mt-bench",
    "mixed prompts": "gpt-oss-20b-eagle3-speed-bench",
}
"""Measured accepted lengths of an EAGLE-3 head on an MoE, by task: borrowed, none is published for
the five models."""
PUBLISHED_WORST = {1: 0.26, 2: 0.38, 3: 0.54}
"""Worst slowdown of static K=1..3 in arXiv:2506.20675. [-]"""
PUBLISHED_CASCADE_WORST = 0.05
PUBLISHED_GAIN = (0.07, 0.14)
"""Cascade's worst slowdown, and its gain over static K by model, there. [-]"""
PUBLISHED_COST_AT_7 = 2.3
PUBLISHED_ETR_AT_7 = 3.2
"""Mixtral, K = 7, code. [plain steps], [tokens per round]"""


def paper_costs(model: PaperModel, drafter_id: str) -> RoundCosts:
    """Round costs at batch 1 on the RTX 6000 Ada for K = 0..7, the drafter kept ready at K = 0."""
    scenario = Scenario(
        hardware_id="rtx-6000-ada",
        n_gpus=model.tensor_parallel,
        tensor_parallel=model.tensor_parallel,
        model_id=model.model_id,
        weight_dtype=model.weight_dtype,  # type: ignore[arg-type]
        batch_size=1,
        context_tokens=CONTEXT_TOKENS,
        drafter_id=drafter_id,
        acceptance="0.5",  # costs do not depend on it; the processes bring their own
        k_max=K_MAX,
    )
    return costs_of(speedup_curve(scenario, [1.0]))


def eagle_workloads(spread: float = 0.0) -> dict[str, AcceptanceProcess]:
    """Tasks with published accepted lengths and their equal mix. `spread` > 0 adds good and bad
    passages (assumed)."""
    tasks: dict[str, AcceptanceProcess] = {}
    for task, curve_id in EAGLE_CURVES.items():
        length = parse_acceptance(curve_id, K_MAX).accepted_length
        tasks[task] = (
            per_position(length) if spread == 0 else switching_around(length, 3, spread=spread)
        )
    return {**tasks, "all three": Mixture(tuple(tasks.values()), (1.0,) * len(tasks))}


@dataclass(frozen=True)
class AlwaysBad:
    """One request of 250 iterations whose drafts are never accepted."""

    model: str
    test_iterations: int
    slowdown: float
    test_iterations_without_back_off: int
    slowdown_without_back_off: float


def always_bad(label: str, costs: RoundCosts) -> AlwaysBad:
    """Cascade with and without back-off on a request that never accepts a draft."""
    found = []
    for factor in (2.0, 1.0):
        policy = Cascade(CascadeSettings(back_off_factor=factor))
        trace = np.zeros((1, 2 * ALWAYS_BAD_ITERATIONS), dtype=np.int8)
        run = simulate(costs, policy, trace, closed_loop(1), ALWAYS_BAD_ITERATIONS)
        assert run.test_iterations is not None
        found.append(
            (int(run.test_iterations[0]), float(run.tpot_s[0] / costs.round_time_s[0, 0] - 1))
        )
    return AlwaysBad(label, *found[0], *found[1])


@dataclass(frozen=True)
class PaperStudy:
    """Cascade's comparison on this project's costs. Names of models carry the drafter:
    `olmoe-1b-7b bf16 / ngram`."""

    costs: Mapping[str, RoundCosts]
    rows: tuple[StudyRow, ...]
    always_bad: tuple[AlwaysBad, ...]
    always_bad_cold: Mapping[str, AlwaysBad]
    """The same where an iteration at K = 0 does not run the drafter."""


@lru_cache(maxsize=4)
def paper_study(eagle_spread: float = 0.0, n_requests: int = 200) -> PaperStudy:
    """All models, n-gram and EAGLE, 250 tokens a request. About 6 s on one core."""
    costs: dict[str, RoundCosts] = {}
    processes: dict[str, Mapping[str, AcceptanceProcess]] = {}
    for drafter, workloads in (
        ("ngram", ngram_workloads(K_MAX)),
        ("eagle", eagle_workloads(eagle_spread)),
    ):
        for model in (*PAPER_MODELS, MIXTRAL_IN_BF16):
            name = f"{model.label} / {drafter}"
            costs[name] = paper_costs(model, drafter)
            processes[name] = workloads
    bad = tuple(always_bad(name, cost) for name, cost in costs.items())
    cold = {
        name: always_bad(name, replace(cost, draft_warm_s=np.zeros(1)))
        for name, cost in costs.items()
    }
    return PaperStudy(costs, cascade_study(costs, processes, n_requests=n_requests), bad, cold)


def rows_of(rows: Sequence[StudyRow], drafter: str) -> tuple[StudyRow, ...]:
    """The rows of one drafter, without the second way to run Mixtral."""
    return tuple(
        row
        for row in rows
        if row.model.endswith(f"/ {drafter}") and not row.model.startswith(MIXTRAL_IN_BF16.label)
    )


AGREES = 0.02
"""Choice of this project: how far a share may lie from a published one, in points, and be called
the same. [-]"""


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of arXiv:2506.20675 beside what comes out here, by drafter. Shares, as lowest and
    highest."""

    what: str
    published: tuple[float, float]
    ngram: tuple[float, float]
    eagle: tuple[float, float]

    def agrees(self, predicted: tuple[float, float]) -> bool:
        """Whether a prediction lies within AGREES of what is published, at both of its ends."""
        return (
            predicted[0] >= self.published[0] - AGREES
            and predicted[1] <= self.published[1] + AGREES
        )


def published_figures(study: PaperStudy) -> tuple[PublishedFigure, ...]:
    """Published slowdowns and gains beside the study's. Worst over models and workloads, gains by
    model."""
    ngram = summarise_study(rows_of(study.rows, "ngram"))
    eagle = summarise_study(rows_of(study.rows, "eagle"))

    def worst(what: str, published: tuple[float, float], policy: str) -> PublishedFigure:
        ends = [(found.worst_slowdown[policy],) * 2 for found in (ngram, eagle)]
        return PublishedFigure(what, published, *ends)

    static = {k: (share, share) for k, share in PUBLISHED_WORST.items()}
    gains = [tuple(found.gain_over_best_static.values()) for found in (ngram, eagle)]
    return (
        *(
            worst(f"worst slowdown, static K = {k}", ends, f"static K={k}")
            for k, ends in static.items()
        ),
        worst("worst slowdown, Cascade", (0.0, PUBLISHED_CASCADE_WORST), "Cascade"),
        PublishedFigure(
            "gain over the best static K", PUBLISHED_GAIN, *((min(own), max(own)) for own in gains)
        ),
    )


def implied_lengths(costs: RoundCosts) -> tuple[float, ...]:
    """Accepted length at K = 1, 2, 3 with which these rounds lose what is published: no workload
    enters. [tokens]"""
    ratio = costs.round_time_s[0] / costs.round_time_s[0, 0]
    return tuple(float(ratio[k] / (1.0 + loss)) for k, loss in PUBLISHED_WORST.items())


COHERE_ACCEPTED_LENGTH = (1.0, 1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25)
"""Command A+'s AL(0..7), Cohere's posts on speculative decoding for MoE (second-hand;
docs/runtime-k-validation.md)."""


@dataclass(frozen=True)
class CohereK:
    """K by batch for one model on 4 x H200, TP4, fp8."""

    model_id: str
    drafter_id: str
    curve: Curve
    ranges: tuple[KRange, ...]

    @property
    def best(self) -> tuple[int, ...]:
        """K of the highest speedup at each batch of the curve."""
        return tuple(int(k) for k in self.curve.drafts[self.curve.speedup.argmax(axis=1)])


def conditional_acceptance(accepted_length: Sequence[float]) -> str:
    """AL(0..n) as the scenario's list of conditional acceptance probabilities."""
    survival = np.diff(accepted_length)
    before = np.concatenate([[1.0], survival[:-1]])
    return ",".join(f"{probability:.6f}" for probability in survival / before)


@lru_cache(maxsize=8)
def cohere_k(model_id: str, drafter_id: str = "eagle") -> CohereK:
    """K by batch for `command-a-plus` or `command-a` with Command A+'s accepted lengths."""
    scenario = Scenario(
        hardware_id="h200-sxm",
        n_gpus=4,
        tensor_parallel=4,
        model_id=model_id,
        weight_dtype="fp8",
        drafter_id=drafter_id,
        acceptance=conditional_acceptance(COHERE_ACCEPTED_LENGTH),
        k_max=len(COHERE_ACCEPTED_LENGTH) - 1,
    )
    setup = load_setup(scenario)
    curve = curve_for(setup)
    return CohereK(model_id, drafter_id, curve, ranges_of(setup, curve))


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
    """worst_slowdown: by policy, over all models and workloads. Gains are means over a model's
    workloads, by model."""

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
    n_requests, output_tokens : independent requests per workload and their length. The paper's runs
        are longer than 20,000 tokens per mixed workload.
    seed : of all traces; each (model, workload) has a stream of its own, so adding one does not
        move the others.
    """
    rows: list[StudyRow] = []
    for model, costs in costs_by_model.items():
        if model not in processes or not processes[model]:
            raise AdvisorError(
                f"no acceptance process given for {model!r}; expected at least one workload"
            )
        for workload, process in processes[model].items():
            key = [seed, *f"{model}\n{workload}".encode()]
            trace = draw_trace(
                process, n_requests, output_tokens, costs.k_max, np.random.default_rng(key)
            )
            load = closed_loop(n_requests, requests_per_group=1, output_tokens=output_tokens)
            plain = simulate(costs, StaticK(0), trace, load, output_tokens)
            for policy in POLICIES:
                run = simulate(costs, policy, trace, load, output_tokens)
                speedup = float(plain.busy_time_s.sum() / run.busy_time_s.sum())
                rows.append(
                    StudyRow(model, workload, policy.name, speedup, max(0.0, 1 / speedup - 1))
                )
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
