"""A scenario's experts on its ranks: assumed, in order, and balanced with copies; what each costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.arrays import Array
from advisor.bands import BAND_SIGMAS
from advisor.curve import Curve, curve_for, draft_odds, recommended
from advisor.expert_ranks.exchange import Moved, moved
from advisor.expert_traffic import Counted, Planned, Steps, Traffic, Variant, counted, filling_copies, layout_plan
from advisor.hardware import gpus_of_node
from advisor.memory import weight_bytes_per_gpu
from advisor.prediction import AdvisorError
from advisor.routing import Sources, local_experts
from advisor.setup import Setup, touched_in_pass, with_assumed_ranks

HEAT = (0.02, 0.1, 0.5)
"""Shares by which the hottest experts are tried hotter. [-]"""


@dataclass(frozen=True)
class Placing:
    """Layouts to try: copies of experts, machines, and groups of experts that stay together on one."""

    redundant: tuple[int, ...] = ()
    """Copies to try; empty: none, and one for each rank. [-]"""
    ranks_per_node: int | None = None
    """None: the GPUs of the accelerator's own node. [-]"""
    groups: int = 1
    heat: tuple[float, ...] = HEAT


@dataclass(frozen=True, eq=False)
class RankArm:
    """One layout of experts and what it costs at the scenario's batch, over draft lengths K."""

    name: str
    redundant: int
    found: Counted | None
    """None: the slowest rank is assumed, not counted."""
    touched: Array
    """Experts read in a layer by the rank that reads most, by K; it need not be the slowest. [-]"""
    pairs_ratio: Array
    """Expert choices of the fullest rank over the mean rank's, by K. [-]"""
    curve: Curve
    """Curve at the one batch."""
    extra_bytes: float
    """Weights of the copies on one rank. [B]"""
    best: int
    """Column of the recommended K."""
    is_balanced: bool = False
    """Whether experts are placed by their load; else they lie in order."""


@dataclass(frozen=True)
class Heated:
    """Change by hotter experts under one layout at one K, as shares of the values before. [-]"""

    arm: str
    more: float
    draft: int
    plain_step: float
    round: float
    speedup: float
    noise: float
    """80 % half-width of the change of the round by the draws, as a share. [-]"""


@dataclass(frozen=True, eq=False)
class RanksAnswer:
    """Everything about a scenario's experts on its ranks."""

    setup: Setup
    traffic: Traffic
    placing: Placing
    arms: tuple[RankArm, ...]
    """Assumed, in order, then balanced by number of copies."""
    moved: tuple[Moved, ...]
    """Bytes moved with the experts in order."""
    heated: tuple[Heated, ...]
    touched_overall: Array
    """Distinct experts of a step by K: counted, [nK]. [-]"""

    @property
    def assumed(self) -> RankArm:
        """The arm of the prediction without counts."""
        return self.arms[0]

    @property
    def in_order(self) -> RankArm:
        """The engines' default."""
        return self.arms[1]

    @property
    def best(self) -> RankArm:
        """The counted arm of the least time per token among those that fit in memory.

        With each arm at its own recommended K; among those without copies where none fits.
        """
        counted_arms = self.arms[1:]
        able = [arm for arm in counted_arms if self.fits(arm)] or [arm for arm in counted_arms if not arm.extra_bytes]
        return min(able, key=_tpot)

    @property
    def quickest(self) -> RankArm:
        """The counted arm of the least time per token, whether or not it fits in memory."""
        return min(self.arms[1:], key=_tpot)

    def fits(self, arm: RankArm) -> bool:
        """Whether the scenario's batch and the copies of an arm fit in a GPU's memory."""
        memory, setup = self.setup.memory, self.setup
        used = memory.total_bytes(setup.scenario.batch_size, setup.placement.attention_groups)
        return bool(used + arm.extra_bytes <= memory.usable_bytes)


def _tpot(arm: RankArm) -> float:
    """Time per token at the arm's recommended K. [s]"""
    return float(arm.curve.tpot_s[0, arm.best])


def ranks_answer(setup: Setup, traffic: Traffic, placing: Placing | None = None) -> RanksAnswer:
    """Place the experts of `setup` in several ways and predict with the slowest rank that is counted.

    Raises AdvisorError for a scenario without expert-parallel ranks, or copies that do not fill them evenly.
    """
    placing, setup = placing or Placing(), with_assumed_ranks(setup)
    node = placing.ranks_per_node or gpus_of_node(setup.hardware)
    ranks, n_experts = setup.placement.expert_parallel, traffic.loads.shape[1]
    if ranks < 2:
        raise AdvisorError("the scenario has one expert-parallel rank, which holds all experts; give --ep, e.g. --ep 8")
    nodes = -(-ranks // node) if placing.groups > 1 else 1
    sources = Sources(setup.placement.attention_groups, node)
    plans = _plans(n_experts, ranks, placing, nodes)
    warm = [Variant(plans[place][1], more) for place in _heated_plans(plans) for more in placing.heat]
    variants = [*(Variant(planned) for _, planned in plans), *warm]
    steps = Steps(setup.scenario.batch_size, setup.longest_step)
    found = counted(setup.routed_layer.rank_seconds, traffic, variants, sources, steps)
    arms = [_assumed(setup), *(_arm(setup, copies, one) for (copies, _), one in zip(plans, found, strict=False))]
    heated = _heated(setup, [arms[place + 1] for place in _heated_plans(plans)], found[len(plans) :], placing.heat)
    curve = arms[1].curve
    travels = moved(setup, found[0], curve.drafts, curve.accepted_length)
    return RanksAnswer(setup, traffic, placing, tuple(arms), travels, heated, found[0].touched_overall[curve.drafts])


def _heated_plans(plans: Sequence[_Plan]) -> list[int]:
    """The plans that are heated: the engines' own order, balanced with fewest copies, and with most.

    plans : as `_plans` gives them, by number of copies.
    """
    return list(dict.fromkeys((0, min(1, len(plans) - 1), len(plans) - 1)))


_Plan = tuple[int | None, Planned]
"""Copies of a balanced layout, None for experts in order; and how it is planned."""


def _plans(n_experts: int, ranks: int, placing: Placing, nodes: int) -> list[_Plan]:
    """Every arm that is counted: in order, then balanced from fewest copies to most."""
    least = filling_copies(n_experts, ranks, 0)
    tried = sorted(set(placing.redundant or (least, least + ranks)))
    in_order = (None, layout_plan(n_experts, ranks, None))
    return [in_order, *((copies, layout_plan(n_experts, ranks, copies, nodes, placing.groups)) for copies in tried)]


def _layout_name(copies: int | None) -> str:
    if copies is None:
        return "in order"
    return f"balanced, {copies} copies" if copies else "balanced"


def recommended_curve(setup: Setup) -> tuple[Curve, int]:
    """The curve at the scenario's batch, and the column of its recommended K."""
    curve = curve_for(setup, [setup.scenario.batch_size])
    limit = setup.scenario.max_tpot_ms
    allowed = None if limit is None else curve.tpot_s * 1e3 <= limit
    odds = draft_odds(curve.draws, allowed)
    return curve, int(recommended(odds.loss, odds.noise, allowed)[0])


def _assumed(setup: Setup) -> RankArm:
    curve, best = recommended_curve(setup)
    experts, ranks = float(setup.architecture.moe.n_experts), setup.placement.expert_parallel  # type: ignore[union-attr]
    touched_overall = touched_in_pass(setup, float(setup.scenario.batch_size), curve.drafts + 1.0)
    slowest = local_experts(touched_overall, experts, ranks)
    return RankArm("assumed", 0, None, slowest, slowest / (touched_overall / ranks), curve, 0.0, best)


def _arm(setup: Setup, copies: int | None, found: Counted) -> RankArm:
    placed = placed_setup(setup, found)
    curve, best = recommended_curve(placed)
    ratio, redundant = found.pairs / found.mean_pairs, copies or 0
    return RankArm(
        _layout_name(copies),
        redundant,
        found,
        found.touched[curve.drafts],
        ratio[curve.drafts],
        curve,
        _extra(setup, redundant),
        best,
        is_balanced=copies is not None,
    )


def placed_setup(setup: Setup, found: Counted) -> Setup:
    """Setup that predicts with the slowest rank that was counted."""
    balance = found.balance(setup.scenario.batch_size)
    return dataclasses.replace(setup, placement=dataclasses.replace(setup.placement, balance=balance))


def _extra(setup: Setup, redundant: int) -> float:
    """Weights of `redundant` copies on one rank, all routed layers. [B]"""
    with_copies = dataclasses.replace(setup.placement, redundant=redundant)
    return weight_bytes_per_gpu(setup.architecture, with_copies) - weight_bytes_per_gpu(
        setup.architecture, setup.placement
    )


def _heated(
    setup: Setup, arms: Sequence[RankArm], found: Sequence[Counted], heat: Sequence[float]
) -> tuple[Heated, ...]:
    """What each arm loses when each layer's hottest expert is hotter than it was planned for."""
    cases = [(arm, more) for arm in arms for more in heat]
    return tuple(_change(setup, arm, more, after) for (arm, more), after in zip(cases, found, strict=True))


def _change(setup: Setup, arm: RankArm, more: float, after: Counted) -> Heated:
    before, k, layers = arm.found, arm.best, _routed_share(arm)
    assert before is not None
    curve = curve_for(placed_setup(setup, after), [setup.scenario.batch_size], central_only=True)
    layer_s, usual = before.slowness[:, 0, k], before.slowness[:, 0, k].mean()
    apart = after.slowness[:, 0, k] / usual - layer_s / usual
    noise = float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else 0.0
    return Heated(
        arm.name,
        more,
        int(arm.curve.drafts[k]),
        float(curve.plain_step_s[0] / arm.curve.plain_step_s[0] - 1.0),
        float(curve.round_s[0, k] / arm.curve.round_s[0, k] - 1.0),
        float(curve.speedup[0, k] / arm.curve.speedup[0, k] - 1.0),
        BAND_SIGMAS * noise * layers,
    )


def _routed_share(arm: RankArm) -> float:
    """Share of a round that the routed experts take, at the recommended K. [-]"""
    return float(arm.curve.round_components["routed"][0, arm.best] / arm.curve.round_s[0, arm.best])
