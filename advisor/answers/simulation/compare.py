"""All ways to choose K on the same requests, acceptance and arrivals; accepted drafts per step from
a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.answers.best_k import IntArray, KRange, RoundCosts, interpolate_batches
from advisor.answers.flags import Flags
from advisor.answers.simulation.policies import (
    BatchSchedule,
    Cascade,
    CascadeSettings,
    EmaAdaptive,
    Oracle,
    Policy,
    StaticK,
)
from advisor.answers.simulation.simulator import (
    AcceptanceProcess,
    Load,
    RecordedSteps,
    SimulationResult,
    closed_loop,
    draw_trace,
    per_position,
    poisson_arrivals,
    simulate,
    switching_around,
)
from advisor.prediction import AdvisorError
from advisor.text import RepeatedKeyError, read_json

MAX_TRACE_BYTES = 20_000_000
MAX_TRACE_STEPS = 2_000_000
MAX_TRACE_REQUESTS = 20_000
_STEPS = "per_step_accepted"
"""Field of vLLM's `metrics.speculative_decoding` (docs.vllm.ai, per-request acceptance metrics,
0.29 to 0.33, read 2026-11-22), which AIPerf's records carry on. A step that drafted nothing
accepted nothing."""
_MAX_DEPTH = 6
_FORMATS = (
    "give JSON ([3, 0, 2] or [[3, 0, 2], [1, 1]]: accepted drafts of each step, one list for each "
    "request), vLLM's replies with --per-request-spec-decode-metrics detailed, one to a line or "
    "in a list, or CSV with a column `accepted` and, for several requests, a column `request`"
)


def recorded(data: bytes, file_name: str) -> RecordedSteps:
    """Accepted drafts per step from an engine's log, as JSON or CSV. Raises AdvisorError saying
    what is wrong where."""
    if len(data) > MAX_TRACE_BYTES:
        raise AdvisorError(
            f"{file_name} has {len(data):,} bytes; at most {MAX_TRACE_BYTES:,} are read"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdvisorError(f"{file_name} is not a text file; {_FORMATS}") from error
    if not text.strip():
        raise AdvisorError(f"{file_name} is empty; {_FORMATS}")
    rows = _json_rows(text, file_name) if text.lstrip()[0] in "[{" else _csv_rows(text, file_name)
    if len(rows) > MAX_TRACE_REQUESTS or sum(map(len, rows)) > MAX_TRACE_STEPS:
        raise AdvisorError(
            f"{file_name} holds {len(rows):,} requests and {sum(map(len, rows)):,} steps; at most "
            f"{MAX_TRACE_REQUESTS:,} and {MAX_TRACE_STEPS:,} are read"
        )
    return RecordedSteps.from_array(rows)


def _json_rows(text: str, file_name: str) -> list[list[int]]:
    content = _json_content(text, file_name)
    steps = list(_reported(content, 0))
    if steps:
        content = steps
    elif isinstance(content, dict):
        content = content.get("accepted")
    if not isinstance(content, list) or not content or isinstance(content[0], dict):
        raise AdvisorError(f"{file_name} holds no list of accepted drafts; {_FORMATS}")
    rows = content if isinstance(content[0], list) else [content]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or not row:
            raise AdvisorError(
                f"{file_name}, request {number}: expected a list of accepted drafts; {_FORMATS}"
            )
        for step, value in enumerate(row, start=1):
            if isinstance(value, bool) or not isinstance(value, int):
                raise AdvisorError(
                    f"{file_name}, request {number}, step {step}: {str(value)[:20]!r} is no whole "
                    "number"
                )
    return rows


def _json_content(text: str, file_name: str) -> Any:
    """The one value of a JSON file, or the list of those of a file with one to each line."""
    try:
        return read_json(text)
    except RepeatedKeyError as error:
        raise AdvisorError(f"{file_name}: {error}; remove one of them") from error
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise AdvisorError(f"{file_name} is not valid JSON; {_FORMATS}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(read_json(line))
        except ValueError as error:
            raise AdvisorError(
                f"{file_name}, line {number}, is not valid JSON; {_FORMATS}"
            ) from error
    return records


def _reported(content: Any, depth: int) -> Iterator[list[Any]]:
    """What each request's steps accepted, in vLLM's replies or AIPerf's records: every non-empty
    list named _STEPS."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(content, dict):
        accepted_steps = content.get(_STEPS)
        if isinstance(accepted_steps, list) and accepted_steps:
            yield accepted_steps
            return
        for value in content.values():
            yield from _reported(value, depth + 1)
    elif isinstance(content, list):
        for value in content:
            if isinstance(value, dict):
                yield from _reported(value, depth + 1)


def _csv_rows(text: str, file_name: str) -> list[list[int]]:
    try:
        reader = csv.DictReader(io.StringIO(text))
        names = [(name or "").strip() for name in reader.fieldnames or ()]
        if "accepted" not in names:
            raise AdvisorError(f"{file_name} has no column `accepted`; {_FORMATS}")
        reader.fieldnames = names
        by_request: dict[str, list[int]] = {}
        for line in reader:
            cell = (line["accepted"] or "").strip()
            if not cell.isascii() or not cell.isdigit():
                raise AdvisorError(
                    f"{file_name}, line {reader.line_num}, column accepted: {cell[:20]!r} is no "
                    "whole number >= 0"
                )
            by_request.setdefault((line.get("request") or "").strip(), []).append(int(cell))
    except csv.Error as error:
        raise AdvisorError(f"{file_name} is not a CSV file: {error}; {_FORMATS}") from error
    if not by_request:
        raise AdvisorError(f"{file_name} has a header but no steps; {_FORMATS}")
    return list(by_request.values())


MAX_REQUESTS = 100_000
MAX_ITERATIONS = 100_000
MAX_REQUEST_TOKENS = 16_384
LONGEST_S = 30.0
"""Estimated processor time that a simulation may take: within a minute on a core shared by two.
[s]"""
ITERATION_S = 30e-6
SLOT_S = 50e-9
"""Processor time of one iteration of one policy, and of each slot in it; 100 to 50,000 slots
measured on one Xeon core in November 2026: 21 to 66 us with up to 1,000 slots, 19 to 58 ns a slot
beyond. [s]"""
_STREAMS = 2_000
"""Distinct acceptance streams drawn; more requests share them, which 2,000 average out."""
_ROUNDS_OF_REQUESTS = 2
"""Requests each slot serves in turn, where there are enough of them."""


@dataclass(frozen=True)
class SimulationPlan:
    """Plan of a simulation.

    requests : asked for in all. Iterations : limit per server; request_tokens : output of each
        request. [-]

    batch_size : slots of a server. load_share : None keeps every slot full while a request waits;
        else Poisson arrivals
    at this share of what plain decoding could serve, so that the batch varies.
    """

    requests: int = 200
    iterations: int = 4000
    request_tokens: int = 250
    batch_size: int = 1
    load_share: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "requests": MAX_REQUESTS,
            "iterations": MAX_ITERATIONS,
            "request_tokens": MAX_REQUEST_TOKENS,
        }
        for name, most in limits.items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise AdvisorError(f"{name}={value} must lie in 1..{most:,}")
        if self.load_share is not None and not 0 < self.load_share <= 2:
            raise AdvisorError(
                f"load_share={self.load_share} must lie above 0 and up to 2, e.g. 0.7"
            )
        if self.seed < 0:
            raise AdvisorError(f"seed={self.seed} must not be negative")

    @property
    def servers(self) -> int:
        """Independent servers the requests are dealt to, as evenly as can be."""
        return max(1, self.requests // (_ROUNDS_OF_REQUESTS * self.batch_size))

    @property
    def offered(self) -> int:
        """Requests served: those asked for, and at least one full batch."""
        return max(self.batch_size, self.requests)

    @property
    def requests_by_server(self) -> IntArray:
        """Requests dealt to each server, [servers]."""
        least, more = divmod(self.offered, self.servers)
        return least + (np.arange(self.servers) < more).astype(np.int64)

    @property
    def most_iterations(self) -> int:
        """Iterations that a policy can need: a busy server emits at least one token in each. [-]"""
        served = int(self.requests_by_server.max())
        in_turn = served if self.load_share is not None else -(-served // self.batch_size) + 1
        return min(self.iterations, in_turn * self.request_tokens)

    def estimate_s(self, n_policies: int) -> float:
        """Processor time at most, all policies together. [s]"""
        return (
            n_policies
            * self.most_iterations
            * (ITERATION_S + SLOT_S * self.servers * self.batch_size)
        )

    def check_duration(self, n_policies: int) -> None:
        """Raise AdvisorError, with the iterations that there is time for, where the estimate
        exceeds LONGEST_S."""
        asked_s = self.estimate_s(n_policies)
        if asked_s > LONGEST_S:
            fitting = max(1, int(self.most_iterations * LONGEST_S / asked_s))
            raise AdvisorError(
                f"{self.requests:,} requests and {self.iterations:,} iterations under "
                f"{n_policies} policies would take about {asked_s / 60:.0f} minutes; ask for "
                f"fewer requests, or for at most {fitting:,} iterations"
            )


@dataclass(frozen=True)
class PolicyOutcome:
    """One policy against plain decoding of the same requests."""

    policy: str
    static_k: int | None
    """K of a static policy, else None."""
    tpot_s: float
    """Iteration time lived through by all sequences over their tokens. [s]"""
    speedup: float
    """Plain time per output token over this policy's. [-]"""
    gain_over_best_static: float
    """speedup / best static speedup - 1 (K = 0 is a static K). [-]"""
    p95_request_tpot_s: float | None
    """95th percentile over finished requests; None where none finished. [s]"""
    mean_draft: float
    """Mean K over iterations. [-]"""
    iterations_by_draft: tuple[int, ...]
    test_share: float | None
    """Share of iterations spent on tests; None for policies that do not test. [-]"""
    mean_batch: float
    finished: int


LOAD_FLAGS: Flags = {
    "more_requests": ("requests", "!=", "asked_requests"),
    "differs": ("low", "!=", "high"),
    "arrives": ("load_share", "known", None),
    "tail": ("low", "<", "slots"),
}


@dataclass(frozen=True)
class SimulationReport:
    """All policies. K = 0 first, then static K, then the adaptive ones, the oracle last."""

    plan: SimulationPlan
    outcomes: tuple[PolicyOutcome, ...]
    best_static_k: int
    requests: int
    """Requests offered to each policy."""
    complete: bool
    """False where the iteration limit ended some requests early, at least for one policy."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the load: what was offered, and how full the servers were. [-]"""
        batches = [round(outcome.mean_batch, 1) for outcome in self.outcomes]
        return {
            "asked_requests": self.plan.requests,
            "requests": self.requests,
            "low": min(batches),
            "high": max(batches),
            "slots": self.plan.batch_size,
            "load_share": self.plan.load_share,
        }

    def of(self, policy: str) -> PolicyOutcome:
        """The outcome of a policy by name."""
        return next(outcome for outcome in self.outcomes if outcome.policy == policy)


def process_of(
    kind: str,
    costs: RoundCosts,
    ranges: Sequence[KRange],
    recorded_steps: RecordedSteps | None = None,
    **passages: float,
) -> AcceptanceProcess:
    """Process by which acceptance varies around the accepted length of the costs.

    kind : `list` of independent rounds, `switching` between passages, or `trace` with its steps.
    passages : spread, good_share and good_tokens of `switching_around`; the mean stays at the
        longest scheduled K.

    Raises AdvisorError where there is no drafter.
    """
    if costs.accepted_length.size < 2:
        raise AdvisorError("there is no drafter, so every policy drafts nothing: choose a drafter")
    if kind == "trace" and recorded_steps is not None:
        return recorded_steps
    if kind == "switching":
        longest = max((item.n_draft for item in ranges), default=0) or 1
        return switching_around(costs.accepted_length, longest, **passages)
    return per_position(costs.accepted_length)


def policies_for(
    ranges: Sequence[KRange], k_max: int, cascade: CascadeSettings | None = None
) -> tuple[tuple[Policy, int | None], ...]:
    """K = 0, each static K, batch schedule, Cascade, acceptance-only control, oracle. Each with its
    static K."""
    static: list[tuple[Policy, int | None]] = [(StaticK(k), k) for k in range(k_max + 1)]
    controlled = (
        BatchSchedule(tuple(ranges)),
        Cascade(cascade or CascadeSettings()),
        EmaAdaptive(),
        Oracle(),
    )
    return (*static, *((policy, None) for policy in controlled))


def simulate_policies(
    costs: RoundCosts,
    ranges: Sequence[KRange],
    process: AcceptanceProcess,
    plan: SimulationPlan,
    cascade: CascadeSettings | None = None,
    *,
    on_policy: Callable[[str, float], None] | None = None,
) -> SimulationReport:
    """Every policy on the same trace and load.

    Raises AdvisorError when the costs do not reach the plan's batch, or the plan takes longer than
    LONGEST_S. Before each policy, `on_policy` gets its name and the share of policies done; it may
    raise to end the simulation.
    """
    if costs.k_max < 1:
        raise AdvisorError(
            "nothing to simulate at k_max = 0; choose a drafter and k_max of at least 1"
        )
    if plan.batch_size > costs.batches[-1]:
        raise AdvisorError(
            f"batch {plan.batch_size} lies beyond the costs, which reach to {costs.batches[-1]:g}"
        )
    policies = policies_for(ranges, costs.k_max, cascade)
    plan.check_duration(len(policies))
    rng = np.random.default_rng([plan.seed, 0])
    streams = min(plan.offered, _STREAMS)
    trace = draw_trace(process, streams, plan.request_tokens, costs.k_max, rng)
    load = _load(costs, plan)
    runs = []
    for number, (policy, k) in enumerate(policies):
        if on_policy is not None:
            on_policy(policy.name, number / len(policies))
        runs.append((simulate(costs, policy, trace, load, plan.iterations), k))
    plain = next(run.mean_tpot_s for run, k in runs if k == 0)
    static = {k: plain / run.mean_tpot_s for run, k in runs if k is not None}
    best = max(static, key=lambda k: static[k])
    outcomes = tuple(_outcome(run, k, plain, static[best]) for run, k in runs)
    complete = all(outcome.finished == plan.offered for outcome in outcomes)
    return SimulationReport(plan, outcomes, best, plan.offered, complete)


def _load(costs: RoundCosts, plan: SimulationPlan) -> Load:
    if plan.load_share is None:
        return closed_loop(
            plan.servers, plan.batch_size, plan.requests_by_server, plan.request_tokens
        )
    plain_s = float(interpolate_batches(costs.batches, costs.round_time_s, plan.batch_size)[0])
    capacity_per_s = plan.batch_size / plain_s / plan.request_tokens
    rate_per_s = plan.load_share * capacity_per_s
    rng = np.random.default_rng([plan.seed, 1])
    return poisson_arrivals(
        plan.servers, plan.batch_size, plan.requests_by_server, plan.request_tokens, rate_per_s, rng
    )


def _outcome(
    run: SimulationResult, static_k: int | None, plain_tpot_s: float, best_static: float
) -> PolicyOutcome:
    by_draft = run.iterations_by_draft
    speedup = plain_tpot_s / run.mean_tpot_s
    total = max(int(by_draft.sum()), 1)
    tests = run.test_iterations
    request_tpot_s = run.request_tpot_s
    p95_s = float(np.quantile(request_tpot_s, 0.95)) if request_tpot_s.size else None
    mean_draft = float(by_draft @ np.arange(by_draft.size) / total)
    mean_batch = float(run.sequence_time_s.sum() / run.busy_time_s.sum())
    return PolicyOutcome(
        policy=run.policy,
        static_k=static_k,
        tpot_s=run.mean_tpot_s,
        speedup=speedup,
        gain_over_best_static=speedup / best_static - 1,
        p95_request_tpot_s=p95_s,
        mean_draft=mean_draft,
        iterations_by_draft=tuple(map(int, by_draft)),
        test_share=None if tests is None else float(tests.sum() / total),
        mean_batch=mean_batch,
        finished=int(request_tpot_s.size),
    )
