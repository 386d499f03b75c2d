"""The leaderboard: every model at its best placement and K on one machine at one load, ranked, with
its doubts.

Every placement and number of copies is bounded, few are evaluated with draws.

Shared: host and launches, links, attention, dense products: one accelerator and one engine run them
for every model. An error of a kernel is shared since one measured table (or data sheet) of the
accelerator prices it for all models: where the table is slow or fast, at other clocks or another
version of the engine, it is so for all of them; what differs by the shape of a model's own matrices
is left to the model. A model's own: its experts' kernel at their shape, its routing, its accepted
length, what the components leave unexplained, and that part of an absolute time's error which the
draws of the components do not hold (`spend.own_log_sd`).
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import recommended_drafts, within_limit
from advisor.answers.by_batch import served_drafts
from advisor.answers.explore.entrants import (
    BY,
    Accepted,
    Basis,
    By,
    Entrant,
    RankQuestion,
    architecture_of,
    entrants_of,
)
from advisor.answers.flags import Flags
from advisor.physics import laws
from advisor.physics.architecture import parameter_counts
from advisor.physics.bands import Draws, make_draws, rank_range, ranks
from advisor.physics.hardware import Hardware
from advisor.physics.kernel_costs import KernelCosts
from advisor.physics.memory import memory_fit
from advisor.physics.notes import Note
from advisor.physics.step import Placement
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import with_placement
from advisor.predict.setup import Setup
from advisor.predict.spend import (
    Price,
    banded,
    drawn_times,
    no_price,
    price_of,
    spend_at,
    token_time_s,
)
from advisor.prediction import AdvisorError, Array, Prediction, Tier, lowest
from advisor.text import counted


@dataclass(frozen=True)
class PlacedModel:
    """A model placed: copies of one instance, each with its share of the users, and the K of each
    load."""

    entrant: Entrant
    setup: Setup
    copies: int
    curve: Curve
    """Curve at the batch of the fullest copy at each load, with the draws that every command
    recommends K by."""
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

    @property
    def token_s(self) -> Array:
        """Time for a token of one sequence at each load, its own prefill included, [loads]. [s]"""
        return np.asarray(
            token_time_s(self.curve, self.setup.placement.gpus)[self.rows, self.columns]
        )

    @property
    def tpot_s(self) -> Array:
        """Time per output token at each load, [loads]. [s]"""
        return np.asarray(self.curve.tpot_s[self.rows, self.columns])


Reason = Literal["scores", "total", "active", "refused", "context", "memory", "slow"]
"""What keeps a model off: the table of scores, its total or active size, a refusal, its own
context, memory, or the limit on time per token."""


@dataclass(frozen=True)
class ExcludedModel:
    """Reason that a model is not on the board."""

    name: str
    reason: Reason
    limit: float | None = None
    """The most it reaches: context [tokens], batch [sequences] or the least time per token [ms]."""
    error: str = ""
    """The refusal."""

    @property
    def facts(self) -> dict[str, Any]:
        """All fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Option:
    """A placement and its number of copies, by the best it could reach."""

    bound: float
    placed: Setup
    copies: int
    batches: Array
    """Batch of the fullest copy at each load, [loads]."""


def score(question: RankQuestion, gpus: int, token_s: Array, tpot_s: Array) -> Array:
    """Value that the leaderboard is ordered by, lower is better, [...] from times [..., loads].

    speed: mean time per output token over the tokens, in seconds; all else: GPU-seconds per token,
    to which money is in proportion, as tokens/s per GPU are in inverse proportion. (Energy is
    ranked afterwards; its placement is that of the most tokens per GPU-second.)
    """
    if question.by == "speed":
        return mean_over_tokens(question, token_s, tpot_s)
    return np.asarray(1.0 / throughput(question, gpus, token_s))


def throughput(question: RankQuestion, gpus: int, token_s: Array) -> Array:
    """Tokens per second of one paid GPU over the loads by their share of the time, [...] from [...,
    loads]."""
    users = np.array(question.users.batches, float)
    weights = np.array(question.users.weights, float)
    paid = question.scenario.n_gpus if question.whole_machine else gpus
    return np.asarray(
        (weights / weights.sum() * laws.tokens_per_s_per_gpu(users, token_s, paid)).sum(-1)
    )


def mean_over_tokens(question: RankQuestion, token_s: Array, values: Array) -> Array:
    """Mean of `values` [..., loads] over the tokens that each load writes, [...]."""
    users = np.array(question.users.batches, float)
    weights = np.array(question.users.weights, float)
    written = weights / weights.sum() * laws.tokens_per_s_per_gpu(users, token_s)
    return np.asarray((written * values).sum(-1) / written.sum(-1))


def best_placement(
    entrants: Sequence[Entrant], question: RankQuestion
) -> PlacedModel | ExcludedModel:
    """The best of a model's drafters, placements and copies, or what keeps it off.

    The placement with the best bound is evaluated first: a bound takes the fastest K that keeps the
    limit, and the recommended K is never faster. Once a bound is worse than what was found, no
    further one can be better.
    """
    drafting = [entrant for entrant in entrants if entrant.accepted != "none"]
    plain = [entrant for entrant in entrants if entrant.accepted == "none"]
    reasons: list[ExcludedModel] = []
    for group in (drafting, plain):
        options: list[tuple[_Option, Entrant]] = []
        for entrant in group:
            outcome = _options(entrant, question)
            if isinstance(outcome, ExcludedModel):
                reasons.append(outcome)
            else:
                options += [(option, entrant) for option in outcome]
        if options:
            return _best(options, question)
    return reasons[0]


def _best(options: list[tuple[_Option, Entrant]], question: RankQuestion) -> PlacedModel:
    first, *others = sorted(options, key=lambda pair: pair[0].bound)
    least, best = _evaluated(*first, question)
    for option, entrant in others:
        if option.bound >= least:
            break
        merit, placed = _evaluated(option, entrant, question)
        if merit < least:
            least = merit
            best = placed
    return best


def _evaluated(
    option: _Option, entrant: Entrant, question: RankQuestion
) -> tuple[float, PlacedModel]:
    """The score of an option at its recommended K, with the curve it is read from."""
    grid, rows = np.unique(option.batches, return_inverse=True)
    curve = curve_for(option.placed, grid)
    alone, _ = recommended_drafts(option.placed, curve)
    served = served_drafts(option.placed, grid.astype(np.int64), curve.drafts[alone])
    columns = np.searchsorted(curve.drafts, served)
    placed = PlacedModel(entrant, option.placed, option.copies, curve, rows, columns[rows])
    return float(score(question, placed.gpus, placed.token_s, placed.tpot_s)), placed


def _options(entrant: Entrant, question: RankQuestion) -> list[_Option] | ExcludedModel:
    """Every placement and number of copies that fits and keeps the limit, with its bound."""
    users = np.array(question.users.batches, float)
    options = []
    largest = 0
    fastest = math.inf
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
        allowed = within_limit(setup, curve)
        fastest = min(fastest, float(curve.tpot_s.min(axis=1).max()))
        least_token = np.where(allowed, token_s, np.inf).min(axis=1)
        least_tpot = np.where(allowed, curve.tpot_s, np.inf).min(axis=1)
        for count, at, row in zip(counts, batches, rows.reshape(batches.shape), strict=True):
            if np.isfinite(least_token[row]).all():
                bound = score(
                    question, count * setup.placement.gpus, least_token[row], least_tpot[row]
                )
                options.append(_Option(float(bound), setup, count, at))
    return options or _missed(entrant, question, largest, fastest)


def _missed(
    entrant: Entrant, question: RankQuestion, largest: int, fastest: float
) -> ExcludedModel:
    name = entrant.name
    limit = entrant.setup.architecture.max_context_tokens
    if limit is not None and question.scenario.context_tokens > limit:
        return ExcludedModel(name, "context", limit)
    if math.isinf(fastest):
        return ExcludedModel(name, "memory", largest)
    return ExcludedModel(name, "slow", fastest * 1e3)


NODE_GPUS = 8
"""GPUs of one instance at most: all-reduces between nodes are not modelled. [-]"""


def _placements(setup: Setup, question: RankQuestion) -> Iterator[Setup]:
    """The setup on every placement whose weights leave room for one sequence: powers of two up to a
    node."""
    architecture = setup.architecture
    n_gpus = question.scenario.n_gpus
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
    """Numbers of copies to try: powers of two, and as many as the machine holds; never more than
    users."""
    most = question.scenario.n_gpus // setup.placement.gpus
    if question.whole_machine:
        return [most]
    counts = {2**power for power in range(most.bit_length())} | {most}
    return sorted(n for n in counts if n <= max(question.users.batches))


@dataclass(frozen=True)
class DrawnTimes:
    """A placed model's times under the draws of the board, [draws, loads]. [s]"""

    token_s: Array
    tpot_s: Array


def own_seed(name: str) -> int:
    """A seed of a model's own: the same in every run, another for each model."""
    return zlib.crc32(name.encode())


def board_draws(costs: KernelCosts, name: str) -> Draws:
    """Draws whose errors of the machine are everybody's, and those of the model its own."""
    common = make_draws(costs)
    model_draws = make_draws(costs, seed=own_seed(name))
    return replace(model_draws, factor={**common.factor, "routed": model_draws.factor["routed"]})


def times_under_draws(placed: PlacedModel) -> DrawnTimes:
    """The placed model's times at its recommended K."""
    setup = placed.setup
    name = placed.entrant.name
    grid = placed.curve.batches
    drafts, columns = np.unique(placed.columns, return_inverse=True)
    curve = curve_for(
        setup, grid, placed.curve.drafts[drafts], draws=board_draws(setup.costs, name)
    )
    own_z = np.random.default_rng(own_seed(name) + 1).standard_normal(len(curve.draws))
    at = np.zeros(grid.size, np.int64)
    at[placed.rows] = columns
    drawn = drawn_times(setup, curve, at, own_z)
    rows = placed.rows
    return DrawnTimes(drawn.token_s[:, rows], drawn.tpot_s[:, rows])


@dataclass(frozen=True)
class Standing:
    """One model on the board, with figures as means over the loads by the tokens that each
    writes."""

    name: str
    rank: int
    rank_low: int
    rank_high: int
    """The ranks of the central 80 % of the draws."""
    p_first: float
    """Share of the draws in which it is the best. [-]"""
    p_limit: float
    """Share of the draws in which it keeps the limit on time per token; 1 without a limit. [-]"""
    tensor_parallel: int
    expert_parallel: int
    copies: int
    gpus: int
    drafter: str
    basis: Basis
    acceptance: str
    """Accepted length as a scenario writes it: a curve's id, or chances."""
    drafts: tuple[int, ...]
    """The recommended K at each load."""
    speedup: Prediction
    """Over plain decoding on the same placement."""
    tpot_s: Prediction
    tokens_per_s_per_gpu: Prediction
    usd_per_million: Prediction | None
    joules_per_token: Prediction | None
    memory_share: float
    """Share filled of what an engine may use of the fullest GPU, at the largest load. [-]"""
    total_params: float
    active_params: float
    tier: Tier
    notes: tuple[Note, ...]

    @property
    def accepted(self) -> Accepted:
        """Source of the accepted length, in one word."""
        return self.basis.accepted

    def facts(self, by: By) -> dict[str, Any]:
        """Facts of a rank: model, placement, figure that it is ranked by, drafter, doubt."""
        return {
            "model": self.name,
            "rank_low": self.rank_low,
            "rank_high": self.rank_high,
            "p_first": self.p_first,
            "p_limit": self.p_limit,
            "tensor": self.tensor_parallel,
            "expert": self.expert_parallel,
            "instance_gpus": self.gpus // self.copies,
            "copies": self.copies,
            "gpus": self.gpus,
            "by": by,
            "figure": getattr(self, FIGURE_OF[by]),
            "drafter": self.drafter,
            "accepted": self.accepted,
        }


FIGURE_OF: Mapping[By, str] = {
    "cost": "usd_per_million",
    "throughput": "tokens_per_s_per_gpu",
    "speed": "tpot_s",
    "energy": "joules_per_token",
}
"""Field of a standing that models are ranked by."""


@dataclass(frozen=True)
class Leaderboard:
    """All models that serve the load, best first, and those that do not, with the reason."""

    question: RankQuestion
    hardware: Hardware
    price: Price | None
    standings: tuple[Standing, ...]
    missed: tuple[ExcludedModel, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the whole board: the question, who is first or nearest, who takes part."""
        question = self.question
        users_low, users_high = question.users_range
        late = [each for each in self.missed if each.reason == "slow"]
        nearest = min(late, key=lambda each: each.limit or 0.0, default=None)
        first = dict.fromkeys(STANDING_FACTS)
        if self.standings:
            first = self.standings[0].facts(question.by)
        facts = {
            "by": question.by,
            "users_low": users_low,
            "users_high": users_high,
            "place": self.hardware.name,
            "n_gpus": question.scenario.n_gpus,
            "limit_ms": question.scenario.max_tpot_ms,
            "n_ranked": len(self.standings),
            "nearest": None if nearest is None else nearest.name,
            "nearest_ms": None if nearest is None else nearest.limit,
        }
        return first | facts | self._taking_part() | self._basis()

    def _taking_part(self) -> dict[str, Any]:
        """Facts of the filter."""
        wanted = self.question.wanted
        bounded = (wanted.min_total_params or wanted.min_active_params) is not None
        chosen = bounded or bool(wanted.names) or wanted.listed is not None
        return {
            "favors_small": len(self.standings) > 1 and not chosen,
            "min_total": wanted.min_total_params,
            "max_total": wanted.max_total_params,
            "min_active": wanted.min_active_params,
            "max_active": wanted.max_active_params,
            "names_chosen": bool(wanted.names),
            "scores_chosen": wanted.listed is not None,
        }

    def _basis(self) -> dict[str, Any]:
        """Facts of drafters, price and placements searched."""
        question = self.question
        drafting = Counter(each.accepted for each in self.standings)
        return {
            "n_undrafted": drafting.pop("none", 0),
            "drafting": tuple(drafting.most_common()),
            "drafter_given": question.drafter is not None,
            "task": question.scenario.task,
            "usd_per_hour": None if self.price is None else self.price.usd_per_hour,
            "price_origin": None if self.price is None else self.price.origin,
            "whole_machine": question.whole_machine,
            "experts_searched": question.expert_parallel,
        }


STANDING_FACTS = frozenset(
    (
        *("model", "rank_low", "rank_high", "p_first", "p_limit", "by", "figure"),
        *("tensor", "expert", "instance_gpus", "copies", "gpus", "drafter", "accepted"),
    )
)
BOARD_FACTS = STANDING_FACTS | {
    *("users_low", "users_high", "place", "n_gpus", "limit_ms", "n_ranked"),
    *("nearest", "nearest_ms", "favors_small", "min_total", "max_total", "min_active"),
    *("max_active", "names_chosen", "scores_chosen", "n_undrafted", "drafting"),
    *("drafter_given", "task", "usd_per_hour", "price_origin", "whole_machine"),
    "experts_searched",
}
_KNOWN = ("min_total", "max_total", "min_active", "max_active")
_TRUE = ("favors_small", "names_chosen", "scores_chosen", "drafter_given", "whole_machine")
_COUNTS: Flags = {
    "ranked": ("n_ranked", ">", 0),
    "several_gpus": ("n_gpus", ">", 1),
    "one_load": ("users_low", "==", "users_high"),
    "one_user": ("users_high", "==", 1),
    "some_undrafted": ("n_undrafted", ">", 0),
    "one_undrafted": ("n_undrafted", "==", 1),
    "some_drafting": ("drafting", "!=", ()),
}
_OF_STANDING: Flags = {
    "alone": ("instance_gpus", "==", 1),
    "one_copy": ("copies", "==", 1),
    "on_experts": ("expert", ">", 1),
    "uses_all": ("gpus", "==", "n_gpus"),
    "keeps_limit": ("p_limit", ">", 0.99),
    "certain_rank": ("rank_low", "==", "rank_high"),
    "undrafted": ("accepted", "==", "none"),
    "priced": ("usd_per_hour", "known", None),
}
BOARD_FLAGS: Flags = {
    **{name: (name, "known", None) for name in _KNOWN},
    **{name: (name, "==", True) for name in (*_TRUE, "experts_searched")},
    **{f"by_{by}": ("by", "==", by) for by in BY if by != "energy"},
    **_COUNTS,
    **_OF_STANDING,
    "near": ("nearest", "known", None),
    "limited": ("limit_ms", "known", None),
    "task_known": ("task", "known", None),
}


@dataclass(frozen=True)
class _Figures:
    """A placed model's figures, and what it is ranked by under each draw."""

    placed: PlacedModel
    merit: float
    """Lower is better."""
    drawn_merit: Array
    """[draws]."""
    figures: Mapping[str, Any]
    """Predictions by name; None where a figure is not known."""
    p_limit: float
    tier: Tier


def leaderboard(
    question: RankQuestion, on_progress: Callable[[str, float], object] = lambda *_: None
) -> Leaderboard:
    """Rank all models that take part. Raises AdvisorError where none does, or the question is
    impossible."""
    models: list[tuple[str, str | None]] = [(name, None) for name in question.wanted.models()]
    models += question.configs
    placed: list[PlacedModel] = []
    missed: list[ExcludedModel] = []
    hardware = None
    for count, (name, config) in enumerate(models):
        on_progress(name, count / len(models))
        why = question.wanted.why_not(name, architecture_of(name, config))
        if why is not None:
            missed.append(ExcludedModel(name, why))
            continue
        try:
            entrants = entrants_of(name, config, question)
        except AdvisorError as error:
            missed.append(ExcludedModel(name, "refused", error=str(error)))
            continue
        hardware = entrants[0].setup.hardware
        outcome = best_placement(entrants, question)
        if isinstance(outcome, PlacedModel):
            placed.append(outcome)
        else:
            missed.append(outcome)
    on_progress("", 1.0)
    if hardware is None:
        raise _none_takes_part(missed)
    price = price_of(hardware, question.usd_per_hour)
    if question.by == "cost" and price is None:
        raise no_price(hardware)
    if question.by == "energy" and hardware.board_power_w is None:
        others = " or ".join(by for by in BY if by != "energy")
        raise AdvisorError(f"the power of {hardware.name} is not known; rank by {others}")
    return Leaderboard(
        question, hardware, price, _standings(placed, question, price), tuple(missed)
    )


def _none_takes_part(missed: Sequence[ExcludedModel]) -> AdvisorError:
    """An error with the commonest reasons and how many models each keeps out."""
    kinds = {"scores": "left out by the table of scores"}
    reasons = Counter(
        each.error or kinds.get(each.reason, f"{each.reason} size outside the limits asked for")
        for each in missed
    )
    texts = "; ".join(
        f"{reason} ({counted(number, 'model')})" for reason, number in reasons.most_common(3)
    )
    return AdvisorError(f"no model takes part: {texts or 'none was named'}")


def _standings(
    placed: Sequence[PlacedModel], question: RankQuestion, price: Price | None
) -> tuple[Standing, ...]:
    if not placed:
        return ()
    figures = [_figures(each, question, price) for each in placed]
    order = np.argsort([each.merit for each in figures], kind="stable")
    drawn = ranks(np.stack([each.drawn_merit for each in figures], axis=1))
    low, high = rank_range(drawn)
    first = np.mean(drawn == 1, axis=0)
    return tuple(
        _standing(figures[i], rank, (int(low[i]), int(high[i])), float(first[i]))
        for rank, i in enumerate(order, 1)
    )


def _figures(placed: PlacedModel, question: RankQuestion, price: Price | None) -> _Figures:
    drawn = times_under_draws(placed)
    setup = placed.setup
    curve = placed.curve
    at = placed.rows, placed.columns
    tier = lowest([Tier(each) for each in curve.tier[at]])
    kernels = "dense kernels" if setup.architecture.moe is None else setup.costs.routed.because
    because = kernels or "data sheet roofline"

    def mean(central: Array, draws: Array) -> tuple[float, Array]:
        middle = mean_over_tokens(question, placed.token_s, central)
        return float(middle), mean_over_tokens(question, drawn.token_s, draws)

    rate = throughput(question, placed.gpus, placed.token_s)
    rates = throughput(question, placed.gpus, drawn.token_s)
    pairs = {
        "tpot_s": mean(placed.tpot_s, drawn.tpot_s),
        "tokens_per_s_per_gpu": (float(rate), rates),
    }
    if price is not None:
        usd = laws.usd_per_million_tokens(price.usd_per_hour, float(rate))
        all_usd = laws.usd_per_million_tokens(price.usd_per_hour, rates)
        pairs["usd_per_million"] = float(usd), np.asarray(all_usd)
    ends = np.array([curve.low[at], curve.speedup[at], curve.high[at]])
    low, value, high = mean_over_tokens(question, placed.token_s, ends).tolist()
    predictions: dict[str, Prediction | None] = {
        "speedup": Prediction(value=value, low=low, high=high, tier=tier, because=because),
        "usd_per_million": None,
    }
    for name, (value, draws) in pairs.items():
        predictions[name] = banded(value, draws, tier, because)
    predictions["joules_per_token"] = joules = _energy(placed, question)
    merit, merits = pairs["tpot_s"] if question.by == "speed" else (1.0 / float(rate), 1.0 / rates)
    if question.by == "energy" and joules is not None:
        # One error moves the power of all models, a little more where they wait: what moves ranks
        # is time, which the throughput's draws have. The middle power is each model's own.
        merit = joules.value
        merits = joules.value * float(rate) / rates
    limit_ms = question.scenario.max_tpot_ms
    p_limit = (
        1.0 if limit_ms is None else float(np.mean((drawn.tpot_s * 1e3 <= limit_ms).all(axis=1)))
    )
    return _Figures(placed, merit, merits, predictions, p_limit, tier)


def _energy(placed: PlacedModel, question: RankQuestion) -> Prediction | None:
    """Energy of a token, mean over the tokens of all loads; of the copies that work. None without a
    known power."""
    own_z = np.random.default_rng(own_seed(placed.entrant.name) + 1).standard_normal(
        len(placed.curve.draws)
    )
    at_loads = []
    for row, column in zip(placed.rows, placed.columns, strict=True):
        arm = spend_at(placed.setup, placed.curve, int(row), int(column), None, own_z=own_z).chosen
        if arm.joules_per_token is None:
            return None
        at_loads.append(arm.joules_per_token)
    ends = np.array([(each.low, each.value, each.high) for each in at_loads]).T
    low, value, high = mean_over_tokens(question, placed.token_s, ends)
    tier = lowest([each.tier for each in at_loads])
    return Prediction(
        value=float(value),
        low=float(low),
        high=float(high),
        tier=tier,
        because=at_loads[0].because,
    )


def _standing(figures: _Figures, rank: int, between: tuple[int, int], p_first: float) -> Standing:
    placed = figures.placed
    setup = placed.setup
    entrant = placed.entrant
    placement = placed.setup.placement
    counts = parameter_counts(setup.architecture)
    used = setup.memory.total_bytes(int(placed.curve.batches.max()))
    ranked: dict[str, Any] = {
        "rank": rank,
        "rank_low": min(between[0], rank),
        "rank_high": max(between[1], rank),
        "p_first": p_first,
    }
    place: dict[str, Any] = {
        "tensor_parallel": placement.tensor_parallel,
        "expert_parallel": placement.expert_parallel,
        "copies": placed.copies,
        "gpus": placed.gpus,
    }
    return Standing(
        **ranked,
        **place,
        name=entrant.name,
        p_limit=figures.p_limit,
        drafter=setup.drafter.id,
        basis=entrant.basis,
        acceptance=entrant.setup.scenario.acceptance,
        drafts=placed.drafts,
        memory_share=used / setup.memory.usable_bytes,
        total_params=float(counts.total),
        active_params=float(counts.active_all),
        tier=figures.tier,
        notes=setup.notes,
        **figures.figures,
    )
