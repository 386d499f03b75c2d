"""The best placement, number of copies and K of one model: every one is bounded, few are evaluated with draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor import laws
from advisor.arrays import Array
from advisor.curve import Curve, curve_for, draft_odds, recommended
from advisor.memory import memory_fit
from advisor.prediction import AdvisorError
from advisor.ranking.entrants import Entrant
from advisor.ranking.question import RankQuestion
from advisor.setup import Setup, with_placement
from advisor.spend import token_time_s
from advisor.step_cost import Placement
from advisor.text import counted


@dataclass(frozen=True)
class Placed:
    """A model placed: copies of one instance, each with its share of the users, and the K of each load."""

    entrant: Entrant
    setup: Setup
    copies: int
    curve: Curve
    """Curve at the batch of the fullest copy at each load, with the draws that every command recommends K by."""
    rows: NDArray[np.int64]
    """Where each load stands in the curve, [loads]."""
    columns: NDArray[np.int64]
    """Where the recommended K of each load stands, [loads]."""

    @property
    def gpus(self) -> int:
        """GPUs in use. [-]"""
        return self.copies * self.setup.placement.gpus

    @property
    def drafts(self) -> tuple[int, ...]:
        """The recommended K of each load."""
        return tuple(int(k) for k in self.curve.drafts[self.columns])


@dataclass(frozen=True)
class Missed:
    """Reason that a model is not on the board."""

    name: str
    reason: str
    """Reason in general words, for a count of like ones."""
    detail: str = ""
    """Reason with its figures."""


@dataclass(frozen=True)
class _Option:
    """A placement and its number of copies, by the best it could reach."""

    bound: float
    placed: Setup
    copies: int
    batches: Array
    """Batch of the fullest copy at each load, [loads]."""


def score(question: RankQuestion, gpus: int, users: Array, token_s: Array, tpot_s: Array) -> Array:
    """Value that the board is ordered by, lower is better, [...] from times [..., loads].

    speed: mean time per output token over the tokens, in seconds; all else: GPU-seconds per token, to which money is in
    proportion, as tokens/s per GPU are in inverse proportion. (Energy is ranked afterwards; its placement is that of
    the most tokens per GPU-second.)
    """
    if question.by == "speed":
        return np.asarray(mean_over_tokens(question, users, token_s, tpot_s))
    return np.asarray(1.0 / throughput(question, gpus, users, token_s))


def throughput(question: RankQuestion, gpus: int, users: Array, token_s: Array) -> Array:
    """Tokens per second of one paid GPU over the loads, [...] from times [..., loads].

    Loads count by their share of the time.

    gpus : in use; all of the machine are paid where the question says so. [-]
    """
    paid = question.scenario.n_gpus if question.whole_machine else gpus
    return np.asarray((load_weights(question) * laws.tokens_per_s_per_gpu(users, token_s, paid)).sum(-1))


def mean_over_tokens(question: RankQuestion, users: Array, token_s: Array, values: Array) -> Array:
    """Mean of `values` [..., loads] over the tokens that each load writes, [...]."""
    written = load_weights(question) * laws.tokens_per_s_per_gpu(users, token_s)
    return np.asarray((written * values).sum(-1) / written.sum(-1))


def load_weights(question: RankQuestion) -> Array:
    """Share of the time at each load. [-]"""
    weights = np.array(question.users.weights, float)
    return weights / weights.sum()


def best_placement(entrants: Sequence[Entrant], question: RankQuestion) -> Placed | Missed:
    """The best of a model's drafters, placements and copies, or what keeps it off.

    The placement with the best bound is evaluated first: a bound takes the fastest K that keeps the limit, and the
    recommended K is never faster. Once a bound is worse than what was found, no further one can be better.
    """
    drafting = [one for one in entrants if one.accepted != "none"]
    reasons: list[Missed] = []
    for group in (drafting, [one for one in entrants if one.accepted == "none"]):
        options: list[tuple[_Option, Entrant]] = []
        for entrant in group:
            found = _options(entrant, question)
            if isinstance(found, Missed):
                reasons.append(found)
            else:
                options += [(option, entrant) for option in found]
        if options:
            return _best(options, question)
    return reasons[0]


def _best(options: list[tuple[_Option, Entrant]], question: RankQuestion) -> Placed:
    users, best, least = np.array(question.users.batches, float), None, math.inf
    for option, entrant in sorted(options, key=lambda each: each[0].bound):
        if option.bound >= least:
            break
        placed = _evaluated(entrant, option, question)
        own = _score_of(placed, question, users)
        if own < least:
            best, least = placed, own
    assert best is not None, "the first option is always evaluated"
    return best


def _score_of(placed: Placed, question: RankQuestion, users: Array) -> float:
    curve, rows, columns = placed.curve, placed.rows, placed.columns
    token_s = token_time_s(curve, placed.setup.placement.gpus)[rows, columns]
    return float(score(question, placed.gpus, users, token_s, curve.tpot_s[rows, columns]))


def _evaluated(entrant: Entrant, option: _Option, question: RankQuestion) -> Placed:
    grid, rows = np.unique(option.batches, return_inverse=True)
    curve = curve_for(option.placed, grid)
    allowed = _allowed(question, curve)
    odds = draft_odds(curve.draws, allowed)
    columns = recommended(odds.loss, odds.noise, allowed)
    return Placed(entrant, option.placed, option.copies, curve, rows, columns[rows])


def _allowed(question: RankQuestion, curve: Curve) -> NDArray[np.bool_]:
    """Which K keep the limit on time per output token, [nB, nK]."""
    limit_ms = question.scenario.max_tpot_ms
    return np.asarray(curve.tpot_s * 1e3 <= (math.inf if limit_ms is None else limit_ms))


def _options(entrant: Entrant, question: RankQuestion) -> list[_Option] | Missed:
    """Every placement and number of copies that fits and keeps the limit, with its bound."""
    users = np.array(question.users.batches, float)
    found, largest, fastest = [], 0, math.inf
    for setup in _placements(entrant.setup, question):
        fits = setup.memory.largest_batch
        largest = max(largest, fits * (question.scenario.n_gpus // setup.placement.gpus))
        counts = [n for n in _copies(setup, question) if math.ceil(users.max() / n) <= fits]
        if not counts:
            continue
        batches = np.ceil(users / np.array(counts, float)[:, None])
        grid, rows = np.unique(batches, return_inverse=True)
        curve = curve_for(setup, grid, central_only=True)
        token_s = token_time_s(curve, setup.placement.gpus)
        allowed = _allowed(question, curve)
        fastest = min(fastest, float(curve.tpot_s.min(axis=1).max()))
        least_token, least_tpot = (np.where(allowed, each, np.inf).min(axis=1) for each in (token_s, curve.tpot_s))
        for count, at, row in zip(counts, batches, rows.reshape(batches.shape), strict=True):
            if np.isfinite(least_token[row]).all():
                gpus = count * setup.placement.gpus
                bound = score(question, gpus, users, least_token[row], least_tpot[row])
                found.append(_Option(float(bound), setup, count, at))
    if found:
        return found
    return _missed(entrant, question, largest, fastest)


def _missed(entrant: Entrant, question: RankQuestion, largest: int, fastest: float) -> Missed:
    name, architecture = entrant.name, entrant.setup.architecture
    limit, context = architecture.max_context_tokens, question.scenario.context_tokens
    if limit is not None and context > limit:
        return Missed(name, "context longer than the model's own", f"at most {limit:,} tokens")
    if math.isinf(fastest):
        most = f"{counted(largest, 'sequence')} at most" if largest else "not even its weights and one sequence fit"
        return Missed(name, "does not fit in memory", most)
    return Missed(name, "misses the limit on time per token", f"{fastest * 1e3:.1f} ms at best")


NODE_GPUS = 8
"""GPUs of one instance at most: all-reduces between nodes are not modelled. [-]"""


def _placements(setup: Setup, question: RankQuestion) -> Iterator[Setup]:
    """The setup on every placement whose weights leave room for one sequence: powers of two up to a node."""
    architecture, n_gpus = setup.architecture, question.scenario.n_gpus
    limit = architecture.max_context_tokens
    if limit is not None and question.scenario.context_tokens > limit:
        return
    for gpus in (2**power for power in range(min(n_gpus, NODE_GPUS).bit_length())):
        shapes = [(gpus, 1)]
        if question.expert_parallel and architecture.moe is not None and gpus > 1:
            shapes += [(gpus, gpus), (1, gpus)]
        for tensor, expert in shapes:
            placement = Placement(tensor, expert)
            room = memory_fit(
                architecture,
                placement,
                setup.hardware.memory_bytes.value,
                question.scenario.context_tokens,
                setup.kv_bytes_per_element,
                setup.draft_architecture,
            )
            if room.largest_batch:
                # Copies are counted here, so that a setup is one of them.
                alone = replace(setup, scenario=setup.scenario.model_copy(update={"n_gpus": gpus}))
                try:
                    yield with_placement(alone, placement)
                except AdvisorError:
                    continue  # its widths do not divide


def _copies(setup: Setup, question: RankQuestion) -> list[int]:
    """Numbers of copies to try: powers of two, and as many as the machine holds; never more than users."""
    most = question.scenario.n_gpus // setup.placement.gpus
    if question.whole_machine:
        return [most]
    counts = {2**power for power in range(most.bit_length())} | {most}
    return sorted(n for n in counts if n <= max(question.users.batches))
