"""The leaderboard: every model at its best placement and K on one machine at one load, ranked, with its doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor import bands, laws
from advisor.architecture import parameter_counts
from advisor.arrays import Array
from advisor.hardware import Hardware
from advisor.prediction import AdvisorError, Prediction, Tier, lowest
from advisor.ranking.entrants import Accepted, architecture_of, entrants_of
from advisor.ranking.question import RankQuestion
from advisor.ranking.search import Missed, Placed, best_placement, mean_over_tokens, throughput
from advisor.ranking.standing import DrawnTimes, own_seed, rank_range, ranks, times_under_draws
from advisor.spend import Price, no_price, price_of, spend_at, token_time_s
from advisor.text import counted


@dataclass(frozen=True)
class Standing:
    """One model on the board, with figures as means over the loads by the tokens that each writes."""

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
    accepted: Accepted
    acceptance: str
    """How a scenario writes the accepted length: a curve's id, or chances."""
    acceptance_text: str
    drafts: tuple[int, ...]
    """The recommended K at each load."""
    speedup: Prediction
    """Over plain decoding on the same placement."""
    tpot_s: Prediction
    tokens_per_s_per_gpu: Prediction
    usd_per_million: Prediction | None
    joules_per_token: Prediction | None
    memory_share: float
    """Of what an engine may use of the fullest GPU, at the largest load. [-]"""
    total_params: float
    active_params: float
    tier: Tier
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All models that serve the load, best first, and those that do not, with the reason."""

    question: RankQuestion
    hardware: Hardware
    price: Price | None
    standings: tuple[Standing, ...]
    missed: tuple[Missed, ...]

    @property
    def place(self) -> str:
        """Words for the machine, such as `8 x NVIDIA H200 SXM 141GB`."""
        n_gpus = self.question.scenario.n_gpus
        return f"{n_gpus} x {self.hardware.name}" if n_gpus > 1 else self.hardware.name


@dataclass(frozen=True)
class _Figures:
    """A placed model's figures and the same under each draw, [draws]."""

    placed: Placed
    usd: tuple[float, Array] | None
    rate: tuple[float, Array]
    tpot: tuple[float, Array]
    speedup: tuple[float, Array]
    joules: Prediction | None
    p_limit: float
    tier: Tier
    because: str


def leaderboard(question: RankQuestion, on_progress: Callable[[str, float], object] = lambda *_: None) -> Leaderboard:
    """Rank all models that take part. Raises AdvisorError for an impossible question, and where nothing takes part.

    `on_progress` is called with a model's name and the share done.
    """
    named: list[tuple[str, str | None]] = [(name, None) for name in question.wanted.models()]
    named += question.configs
    placed: list[Placed] = []
    missed: list[Missed] = []
    hardware = None
    for count, (name, config) in enumerate(named):
        on_progress(name, count / len(named))
        why = question.wanted.why_not(name, architecture_of(name, config))
        if why:
            missed.append(Missed(name, why))
            continue
        try:
            entrants = entrants_of(name, config, question)
        except AdvisorError as error:
            missed.append(Missed(name, "cannot be served here", str(error)))
            continue
        hardware = entrants[0].setup.hardware
        found = best_placement(entrants, question)
        if isinstance(found, Placed):
            placed.append(found)
        else:
            missed.append(found)
    on_progress("", 1.0)
    if hardware is None:
        raise AdvisorError(_nobody(missed))
    price = price_of(hardware, question.usd_per_hour)
    if question.by == "cost" and price is None:
        raise no_price(hardware)
    if question.by == "energy" and hardware.board_power_w is None:
        raise AdvisorError(f"the power of {hardware.name} is not known; rank by {' or '.join(_OTHERS)}")
    return Leaderboard(question, hardware, price, _standings(placed, question, price), tuple(missed))


_OTHERS = ("cost", "throughput", "speed")


def _nobody(missed: Sequence[Missed]) -> str:
    """Why nobody takes part, the commonest reason first."""
    reasons = Counter(each.detail or each.reason for each in missed)
    told = "; ".join(f"{reason} ({counted(number, 'model')})" for reason, number in reasons.most_common(3))
    return f"no model takes part: {told or 'none was named'}"


def _standings(placed: Sequence[Placed], question: RankQuestion, price: Price | None) -> tuple[Standing, ...]:
    if not placed:
        return ()
    figures = [_figures(each, question, price) for each in placed]
    middle, drawn = _ranked_by(figures, question)
    order = np.argsort(middle, kind="stable")
    found = ranks(drawn)
    low, high = rank_range(found)
    first = np.mean(found == 1, axis=0)
    return tuple(
        _standing(figures[i], rank + 1, (int(low[i]), int(high[i])), float(first[i])) for rank, i in enumerate(order)
    )


def _ranked_by(figures: Sequence[_Figures], question: RankQuestion) -> tuple[Array, Array]:
    """What is ranked by, lower is better: [models], and under each draw [draws, models]."""
    if question.by == "speed":
        pairs = [each.tpot for each in figures]
    elif question.by == "energy":
        # One error moves the power of all models, a little more where they wait: what moves ranks is time, which the
        # throughput's draws have. The middle power is each model's own.
        pairs = [(_joules(each), _joules(each) * each.rate[0] / each.rate[1]) for each in figures]
    else:
        pairs = [(1.0 / each.rate[0], 1.0 / each.rate[1]) for each in figures]
    return np.array([value for value, _ in pairs]), np.stack([drawn for _, drawn in pairs], axis=1)


def _joules(figures: _Figures) -> float:
    assert figures.joules is not None
    return figures.joules.value


def _figures(placed: Placed, question: RankQuestion, price: Price | None) -> _Figures:
    curve, rows, columns, gpus = placed.curve, placed.rows, placed.columns, placed.gpus
    users = np.array(question.users.batches, float)
    drawn = times_under_draws(placed)
    token_s = token_time_s(curve, placed.setup.placement.gpus)[rows, columns]
    tpot_s = curve.tpot_s[rows, columns]
    rate = float(throughput(question, gpus, users, token_s)), throughput(question, gpus, users, drawn.token_s)
    usd = None
    if price is not None:
        usd = (
            float(laws.usd_per_million_tokens(price.usd_per_hour, rate[0])),
            np.asarray(laws.usd_per_million_tokens(price.usd_per_hour, rate[1])),
        )
    tiers = [Tier(tier) for tier in curve.tier[rows, columns]]
    because = placed.setup.costs.routed.because if placed.setup.architecture.moe is not None else "dense kernels"
    return _Figures(
        placed,
        usd,
        rate,
        _mean_pair(question, users, (token_s, tpot_s), (drawn.token_s, drawn.tpot_s)),
        _mean_pair(question, users, (token_s, curve.speedup[rows, columns]), (drawn.token_s, drawn.speedup)),
        _energy(placed, question, users, token_s),
        _kept(question, drawn),
        lowest(tiers),
        because or "data sheet roofline",
    )


def _energy(placed: Placed, question: RankQuestion, users: Array, token_s: Array) -> Prediction | None:
    """Energy of a token, mean over the tokens of all loads; of the copies that work. None without a known power."""
    own_z = np.random.default_rng(own_seed(placed.entrant.name) + 1).standard_normal(len(placed.curve.draws))
    found = []
    for row, column in zip(placed.rows, placed.columns, strict=True):
        arm = spend_at(placed.setup, placed.curve, int(row), int(column), None, own_z=own_z).chosen
        if arm.joules_per_token is None:
            return None
        found.append(arm.joules_per_token)
    ends = np.array([(each.low, each.value, each.high) for each in found]).T
    low, value, high = (float(end) for end in mean_over_tokens(question, users, token_s, ends))
    lowest_tier = lowest([each.tier for each in found])
    return Prediction(value=value, low=low, high=high, tier=lowest_tier, because=found[0].because)


def _mean_pair(
    question: RankQuestion, users: Array, middle: tuple[Array, Array], drawn: tuple[Array, Array]
) -> tuple[float, Array]:
    """Mean over tokens of a figure: (token_s, values) [loads], and the same [draws, loads]."""
    return float(mean_over_tokens(question, users, *middle)), mean_over_tokens(question, users, *drawn)


def _kept(question: RankQuestion, drawn: DrawnTimes) -> float:
    """Share of the draws in which the limit is kept at every load. [-]"""
    limit_ms = question.scenario.max_tpot_ms
    return 1.0 if limit_ms is None else float(np.mean((drawn.tpot_s * 1e3 <= limit_ms).all(axis=1)))


def _standing(figures: _Figures, rank: int, between: tuple[int, int], p_first: float) -> Standing:
    placed = figures.placed
    setup, entrant, placement = placed.setup, placed.entrant, placed.setup.placement
    counts = parameter_counts(setup.architecture)
    memory, busiest = setup.memory, float(placed.curve.batches.max())
    used = memory.total_bytes(int(busiest), placement.attention_groups)

    def told(pair: tuple[float, Array]) -> Prediction:
        low, high = bands.band(pair[1])
        return Prediction(
            value=pair[0],
            low=min(float(low), pair[0]),
            high=max(float(high), pair[0]),
            tier=figures.tier,
            because=figures.because,
        )

    return Standing(
        name=entrant.name,
        rank=rank,
        rank_low=min(between[0], rank),
        rank_high=max(between[1], rank),
        p_first=p_first,
        p_limit=figures.p_limit,
        tensor_parallel=placement.tensor_parallel,
        expert_parallel=placement.expert_parallel,
        copies=placed.copies,
        gpus=placed.gpus,
        drafter=setup.drafter.id,
        accepted=entrant.accepted,
        acceptance=entrant.setup.scenario.acceptance,
        acceptance_text=entrant.acceptance_text,
        drafts=placed.drafts,
        speedup=told(figures.speedup),
        tpot_s=told(figures.tpot),
        tokens_per_s_per_gpu=told(figures.rate),
        usd_per_million=None if figures.usd is None else told(figures.usd),
        joules_per_token=figures.joules,
        memory_share=used / memory.usable_bytes,
        total_params=float(counts.total),
        active_params=float(counts.active_all),
        tier=figures.tier,
        warnings=setup.warnings,
    )
