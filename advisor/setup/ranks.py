"""The slowest expert-parallel rank: counted on the loads that a scenario carries, or assumed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import OrderedDict

import numpy as np

from advisor.expert_traffic import (
    Traffic,
    counted_balance,
    filling_copies,
    parse_loads,
    traffic_of_loads,
    traffic_of_preset,
)
from advisor.memory import memory_fit
from advisor.routing import RankBalance
from advisor.scenario import Scenario
from advisor.setup.loaded import Setup

_REMEMBERED = 64
_KNOWN: OrderedDict[str, RankBalance] = OrderedDict()
"""Counts by a digest of everything they follow from: a user's loads are neither kept here nor to be read from it."""


def asks_for_counts(scenario: Scenario) -> bool:
    """Whether a scenario gives loads of experts or a balanced layout for several ranks."""
    several = scenario.expert_parallel > 1
    return several and (scenario.expert_loads is not None or scenario.redundant_experts is not None)


def with_counted_ranks(setup: Setup) -> Setup:
    """Setup that predicts with the slowest rank counted, where its scenario asks for that.

    The copies of a balanced layout are rounded up to fill the ranks evenly, and take memory. Without loads they are
    placed on the routing preset's spread.

    Raises AdvisorError for loads that cannot be read or are of another number of experts.
    """
    if not asks_for_counts(setup.scenario):
        return setup
    wanted, ranks = setup.scenario.redundant_experts, setup.placement.expert_parallel
    copies = None if wanted is None else filling_copies(setup.router.moe.n_experts, ranks, wanted)
    placement = dataclasses.replace(setup.placement, redundant=copies or 0, balance=_balance(setup, copies))
    return with_memory(dataclasses.replace(setup, placement=placement))


def with_memory(setup: Setup) -> Setup:
    """Setup with the memory that its placement takes."""
    memory = memory_fit(
        setup.architecture,
        setup.placement,
        setup.hardware.memory_bytes.value,
        setup.scenario.context_tokens,
        setup.cache.bytes_per_element,
        setup.draft_architecture,
    )
    return dataclasses.replace(setup, memory=memory)


def traffic_of(setup: Setup, expert_loads: str | None) -> Traffic:
    """Traffic of a scenario's own loads, or (None) of its routing preset's spread.

    expert_loads : as a scenario packs them.

    Raises AdvisorError for a dense model, and for loads that cannot be read or are of another number of experts.
    """
    if expert_loads is not None:
        return traffic_of_loads(parse_loads(expert_loads), setup.router)
    return traffic_of_preset(setup.router, np.random.default_rng(0))


def _balance(setup: Setup, copies: int | None) -> RankBalance:
    loads, ranks, longest = setup.scenario.expert_loads, setup.placement.expert_parallel, setup.longest_step
    key = hashlib.sha256(repr((loads, setup.router, ranks, copies, longest)).encode()).hexdigest()
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = counted_balance(traffic_of(setup, loads), ranks, copies, longest)
        while len(_KNOWN) > _REMEMBERED:
            _KNOWN.popitem(last=False)
    return found
