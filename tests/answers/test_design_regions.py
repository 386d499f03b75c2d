"""A map of regions over batch and accelerator: cells, the rule that merges them, words, CSV, and
the command.

One design for several targets: the least expected loss against each target's own best, and honest
words about it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.answers.design.candidates import Band
from advisor.answers.design.cells import (
    CORE_CHANCE,
    TIE,
    DesignCells,
    Place,
    Standings,
    ask_cells,
    parse_place,
    scenario_at,
    standings,
)
from advisor.answers.design.grid import DesignGrid
from advisor.answers.design.regions import (
    MAP_ACCELERATORS,
    OneDesign,
    RegionMap,
    cover,
    default_places,
    one_design,
    parse_targets,
    region_map,
)
from advisor.answers.design.search import design_space
from advisor.answers.design.space import MAX_MEASURED_GAP
from advisor.predict.scenario import Scenario, build_scenario
from advisor.show.words.regions import (
    against_baseline,
    loss_words,
    one_design_document,
    one_design_rows,
    one_design_verdict,
    percent,
    region_document,
    region_rows,
    region_verdict,
    standing_values,
)

GRID = DesignGrid(
    n_experts=(32, 64, 96, 128, 192, 256),
    n_active=(2, 4, 6, 8, 12, 20),
    n_shared=(0, 1, 2),
    width_step=64,
)
BATCHES = (1, 8, 64, 256)
PLACES = ("h100-sxm", "h200-sxm", "b200-sxm")


@lru_cache(maxsize=4)
def scenario(**changes: Any) -> Scenario:
    given = {
        "hardware_id": "h200-sxm",
        "acceptance": "2.4@3",
        "batch_size": 16,
        "model_id": "qwen3-30b-a3b",
    }
    return build_scenario(**(given | changes))


@lru_cache(maxsize=8)
def drawn_map(places: tuple[str, ...] = PLACES, **question: Any) -> RegionMap:
    return region_map(
        scenario(), [parse_place(text) for text in places], BATCHES, grid=GRID, **question
    )


@lru_cache(maxsize=1)
def cells() -> DesignCells:
    return ask_cells(
        scenario(), {Place("h100-sxm"): BATCHES, Place("b200-sxm"): BATCHES}, grid=GRID
    )


@lru_cache(maxsize=1)
def drawn() -> Standings:
    return standings(cells(), np.unique(cells().best[cells().served]))


@pytest.mark.parametrize("hardware_id", ["h100-sxm", "b200-sxm"])
def test_every_cell_has_the_design_that_the_search_at_that_accelerator_and_batch_alone_recommends(
    hardware_id: str,
) -> None:
    found = cells()
    for cell in range(len(found)):
        if found.places[found.space_of[cell]].hardware_id != hardware_id:
            continue
        moved = scenario_at(scenario(), Place(hardware_id))
        alone = design_space(moved, batches=[int(found.batches[cell])], grid=GRID)
        assert alone.best == (int(found.found[found.best[cell]]) if found.served[cell] else None)


def test_a_cell_that_no_design_serves_says_why() -> None:
    found = cells()
    last = int(found.cells_of(0)[-1])
    assert found.batches[last] == 256
    assert found.why_not(last) == "does not fit in memory"
    assert found.why_not(0) == ""
    fast = ask_cells(scenario(), {Place("b200-sxm"): (8,)}, grid=GRID, max_tpot_ms=0.1)
    assert fast.why_not(0) == "over the limit on time per token"
    none = ask_cells(scenario(), {Place("b200-sxm"): (8,)}, grid=GRID, max_total_params=1e6)
    assert none.why_not(0) == "no design keeps every limit"


def test_a_limit_on_time_holds_at_each_batch_alone() -> None:
    found = ask_cells(scenario(), {Place("h200-sxm"): (1, 256)}, grid=GRID, max_tpot_ms=8.0)
    space = found.spaces[0]
    assert found.served.tolist() == [True, False]
    assert np.all(space.tpot_s[0, found.found[found.merit[0] > 0]] <= 8e-3)


def test_losses_are_never_negative_beyond_noise_and_a_chance_of_a_tie_is_counted_by_hand() -> None:
    one = drawn()
    assert one.loss.min() == 0.0
    assert one.expected[one.allowed].min() > -TIE / 2
    low, high = one.band
    assert np.all((low <= one.loss) & (one.loss <= high))
    assert np.all(one.chance[~one.allowed] == 0.0)
    assert np.all(one.expected[~one.allowed] == 1.0)
    cell = int(np.flatnonzero(cells().served)[3])
    merit = one.common[:, cell]
    by_hand = [
        sum(row[column] >= (1 - TIE) * row.max() for row in merit) / len(merit)
        for column in range(len(one.pool))
    ]
    assert one.chance[cell].tolist() == pytest.approx(by_hand)


def test_gains_are_not_told_where_the_baseline_s_own_kernels_lie_far_from_the_fit() -> None:
    space = replace(cells().spaces[0], measured_gap=2 * MAX_MEASURED_GAP)
    moved = replace(cells(), spaces=(space, cells().spaces[1]))
    one = standings(moved, np.unique(moved.best[moved.served]))
    assert one.of(0, 0).gain is None
    assert one.of(0, int(moved.cells_of(1)[0])).gain is not None
    assert any(space.setup.place in note and "not told there" in note for note in moved.notes)


def test_a_map_without_a_served_cell_is_empty_and_says_so() -> None:
    found = drawn_map(("b200-sxm",), max_tpot_ms=0.1)
    assert found.regions == ()
    assert found.holder.tolist() == [-1] * len(BATCHES)
    assert region_verdict(found) == "No design keeps every limit in any cell of the map."
    assert {row["why_not"] for row in region_rows(found)} == {"over the limit on time per token"}
    assert region_document(found)["regions"] == []
    empty = standings(found.cells, np.array([], np.intp))
    draws = len(empty.baseline)
    assert empty.common.shape == (draws, len(BATCHES), 0)
    assert empty.errors.shape == (draws, 0)
    shapes = [each.shape for each in (empty.loss, empty.chance, empty.expected, *empty.band)]
    assert shapes == [(len(BATCHES), 0)] * 5


def stub(chance: Any, expected: Any, low: Any, best: Any) -> Any:
    """What `cover` looks at, by hand: [cells, designs]."""
    chance = np.array(chance, float)
    expected = np.array(expected, float)
    low = np.array(low, float)
    shown = SimpleNamespace(served=np.array(best) >= 0, best=np.array(best))
    pool = np.arange(chance.shape[1])
    return SimpleNamespace(
        cells=shown,
        chance=chance,
        expected=expected,
        band=(low, low),
        pool=pool,
        allowed=np.ones(chance.shape, bool),
    )


def test_the_design_with_most_cores_is_chosen_first_and_a_lone_cell_within_noise_is_its_edge() -> (
    None
):
    chance = [[1.0, 0.9], [0.8, 1.0], [0.9, 0.1], [0.7, 1.0]]
    expected = [[0.0, 0.02], [0.01, 0.0], [0.0, 0.3], [0.03, 0.0]]
    low = [[0.0, -0.1], [-0.1, 0.0], [0.0, 0.2], [-0.05, 0.0]]
    chosen, holder, core = cover(stub(chance, expected, low, [0, 1, 0, 1]))
    assert chosen == [0]
    assert holder.tolist() == [0, 0, 0, 0]
    assert core.tolist() == [True, True, True, False]


def test_a_lone_cell_that_every_chosen_design_clearly_loses_in_gets_its_own_best() -> None:
    chance = [[1.0, 0.0], [1.0, 0.0], [0.0, 0.9]]
    expected = [[0.0, 0.3], [0.0, 0.3], [0.3, 0.0]]
    low = [[0.0, 0.2], [0.0, 0.2], [0.2, 0.0]]
    chosen, holder, core = cover(stub(chance, expected, low, [0, 0, 1]))
    assert chosen == [0, 1]
    assert holder.tolist() == [0, 0, 1]
    assert core.all()


def test_an_edge_goes_to_the_chosen_design_that_ties_most_likely_of_those_within_noise() -> None:
    chance = [
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.5, 0.6, 0.7],
        [0.7, 0.6, 0.7],
    ]
    low = [[0.0] * 3] * 4 + [[-0.1, -0.1, 0.0], [0.1, -0.1, 0.0]]
    expected = [[0.0] * 3] * 4 + [[0.01, 0.02, 0.0], [0.01, 0.02, 0.0]]
    chosen, holder, core = cover(stub(chance, expected, low, [0, 0, 1, 1, 2, 2]))
    assert chosen == [1, 0]
    assert holder.tolist() == [1, 1, 0, 0, 0, 0]
    assert core.tolist() == [True, True, True, True, False, False]


def test_a_cell_that_nobody_serves_is_nobody_s() -> None:
    chance = [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]
    expected = [[0.04, 0.0, 0.03], [0.0, 0.01, 0.03], [1.0, 1.0, 1.0]]
    chosen, holder, core = cover(stub(chance, expected, np.zeros((3, 3)), [1, 0, -1]))
    assert chosen == [1]
    assert holder.tolist() == [0, 0, -1]
    assert core.tolist() == [True, True, False]


def test_regions_hold_every_served_cell_once_and_an_expected_loss_below_none_is_told_as_it_is() -> (
    None
):
    found = drawn_map()
    held = [cell for region in found.regions for cell in region.cells]
    assert sorted(held) == np.flatnonzero(found.cells.served).tolist()
    assert len(found.regions) < len(set(found.cells.best.tolist()) - {-1})
    for region in found.regions:
        assert all(region.everywhere[cell].chance >= CORE_CHANCE for cell in region.core)  # type: ignore[union-attr]
        assert all(region.everywhere[cell].chance < CORE_CHANCE for cell in region.edge)  # type: ignore[union-attr]
        assert all(
            region.everywhere[cell].within_noise
            for cell in region.edge  # type: ignore[union-attr]
        )
    counts = [len(region.cells) for region in found.regions]
    assert counts == sorted(counts, reverse=True)
    each = found.standing(int(found.grid[1, 0]))
    assert each is not None
    lopsided = replace(each, expected=-0.07)
    assert lopsided.expected_loss == 0.0
    assert standing_values(lopsided)["loss_expected"] == -0.07


def test_accelerators_with_other_numbers_of_gpus_cost_the_very_same_designs() -> None:
    found = ask_cells(scenario(), {Place("h100-sxm", 4): (8,), Place("h200-sxm"): (8,)}, grid=GRID)
    one, two = found.spaces
    assert one.setup.placement.tensor_parallel == 4
    for name in ("body", "n_experts", "n_active", "n_shared", "expert_width"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.all(one.expert_width % 64 == 0)


def test_cost_is_ranked_as_throughput_so_that_accelerators_without_a_price_can_be_asked() -> None:
    found = ask_cells(
        scenario(), {Place("l40s"): (8,)}, grid=GRID, objective="cost_per_million_tokens"
    )
    assert found.spaces[0].question.objective == "tokens_per_s_per_gpu"


def test_a_refit_and_an_accelerator_of_one_s_own_stay_where_they_belong() -> None:
    assert scenario_at(scenario(), Place("h200-sxm")) is scenario()
    own = scenario().model_copy(update={"hardware_id": "mine", "hardware_json": "{}", "refit": "x"})
    moved = scenario_at(own, Place("h100-sxm", 2))
    assert (moved.hardware_id, moved.hardware_json, moved.refit) == ("h100-sxm", None, None)
    assert (moved.n_gpus, moved.tensor_parallel) == (2, 2)
    assert default_places(own)[0] == Place("mine")
    assert [str(place) for place in default_places(scenario())] == list(MAP_ACCELERATORS)


def test_the_verdict_counts_the_cells_that_no_design_serves_and_those() -> None:
    found = drawn_map()
    served = np.flatnonzero(found.cells.served)
    assert len(served) == len(found.cells) - 1
    first = found.regions[0]
    lone = replace(found, regions=(replace(first, core=tuple(map(int, served)), edge=()),))
    said = region_verdict(lone)
    assert "One design serves every cell of the map that any design serves, within noise" in said
    assert said.endswith(f"No design serves 1 cell of the map's {len(found.cells)}.")
    gone = {int(cell) for cell in served if cell not in first.cells}
    bound = replace(
        first,
        everywhere=tuple(None if x is None or x.cell in gone else x for x in first.everywhere),
    )
    several = region_verdict(replace(found, regions=(bound, *found.regions[1:])))
    assert len(gone) > 1
    assert f"In {len(gone)} cells more it cannot run within the limits." in several
    assert "cannot run" not in said


BOTH = ("h100-sxm:8", "b200-sxm:128")


@lru_cache(maxsize=8)
def one(*targets: str, **question: Any) -> OneDesign:
    return one_design(scenario(), parse_targets(targets), grid=GRID, **question)


def test_one_target_gives_that_target_s_own_answer_and_loses_nothing() -> None:
    found = one("b200-sxm:128")
    alone = design_space(scenario_at(scenario(), Place("b200-sxm")), batches=[128], grid=GRID)
    assert found.best.index == alone.best
    at = found.best.at[0]
    assert (at.loss, at.low, at.high, at.expected) == (0.0, 0.0, 0.0, 0.0)
    assert (found.best.expected, found.best.worst) == (0.0, 0.0)
    assert at == found.own[0]
    assert "the best design of that target alone" in one_design_verdict(found)


def test_the_one_design_loses_least_in_the_mean_as_its_times_say() -> None:
    found = one(*BOTH)
    means = [choice.expected for choice in found.choices]
    assert means == sorted(means)
    assert found.choices[0].expected == pytest.approx(
        np.mean([max(at.expected, 0.0) for at in found.choices[0].at])
    )
    assert found.least_worst is not None
    assert all(found.least_worst.worst <= choice.worst for choice in found.choices)
    assert all(at.loss >= 0.0 for choice in found.choices for at in choice.at)
    assert found.baseline.expected >= found.choices[0].expected
    for at, own in zip(found.best.at, found.own, strict=True):
        assert at.loss == pytest.approx(1.0 - own.tpot_s / at.tpot_s, abs=1e-6)
        space = found.cells.space(at.cell)
        assert space.largest_batch[at.index] >= found.cells.batches[at.cell]
    within = [replace(at, loss=0.03, low=-0.05, high=0.1) for at in found.best.at]
    beyond = [within[0], replace(within[1], loss=0.2, low=0.1, high=0.3)]
    for at, said in (
        (within, "would not clearly be better"),
        (beyond, "clearly better at batch 128 on NVIDIA B200"),
    ):
        told = replace(found, choices=(replace(found.best, at=tuple(at)),))
        assert said in one_design_verdict(told)


def test_the_order_of_targets_changes_nothing_and_one_named_twice_counts_once() -> None:
    there = one(*BOTH)
    back = one(*reversed(BOTH))
    assert there.best.index == back.best.index
    assert [at.loss for at in back.best.at] == [at.loss for at in reversed(there.best.at)]
    assert [str(target) for target in parse_targets((*BOTH, BOTH[0]))] == list(BOTH)


def test_a_gain_whose_band_includes_one_is_no_clear_gain() -> None:
    found = one("h100-sxm:1", "b200-sxm:2")
    first, second = found.best.at
    assert first.gain is not None
    assert second.gain is not None

    def told(*lows: float) -> OneDesign:
        at = [
            replace(each, gain=replace(first.gain, low=low))  # type: ignore[type-var]
            for each, low in zip(found.best.at, lows, strict=True)  # type: ignore[union-attr]
        ]
        return replace(found, choices=(replace(found.best, at=tuple(at)),))  # type: ignore[type-var]

    assert told(1.01, 1.01).is_clear
    assert "clearly better at every target" in against_baseline(told(1.01, 1.01))
    assert not told(1.01, 0.99).is_clear
    assert "it is not clearly better: the 80% range includes 1" in against_baseline(
        told(1.01, 0.99)
    )
    assert (
        "It is not clearly better than the baseline anywhere: every 80% range includes 1."
        in against_baseline(told(0.9, 0.99))
    )
    slow = replace(found.best.at[1], gain=Band(0.88, 0.83, 0.95, 0.0))
    mixed = replace(found, choices=(replace(found.best, at=(first, slow)),))
    assert "At batch 2 on NVIDIA B200 SXM (HGX/DGX) it is clearly worse" in against_baseline(mixed)
    assert one_design_document(mixed)["clear"] is False


@pytest.mark.parametrize(
    ("target", "limits", "why", "advised", "not_advised"),
    [
        ("h100-sxm:256", {}, "does not fit in memory", "a smaller format", "limit on time"),
        (
            "b200-sxm:8",
            {"max_tpot_ms": 0.1},
            "over the limit on time per token",
            "a longer limit",
            "a smaller format",
        ),
        (
            "b200-sxm:8",
            {"max_total_params": 1e8},
            "no design keeps every limit",
            "loosen those on",
            "more GPUs",
        ),
    ],
)
def test_targets_of_which_no_design_serves_any_say_why_and_advise_by_it(
    target: str, limits: dict[str, float], why: str, advised: str, not_advised: str
) -> None:
    found = one(target, **limits)
    assert (found.best, found.own, found.choices) == (None, (None,), ())
    assert found.cells.why_not(0) == why
    said = one_design_verdict(found)
    assert why in said
    assert advised in said
    assert not_advised not in said
    assert one_design_rows(found) == []
    assert one_design_document(found)["own"][0]["why_not"] == why


def test_words_of_a_loss_never_say_minus_nothing() -> None:
    found = one(*BOTH)
    assert found.own[0] is not None
    assert loss_words(found.own[0]) == "nothing: it is the best there"
    assert (percent(-1e-9), percent(0.0304), percent(-0.05)) == ("0.0%", "3.0%", "-5.0%")


def test_a_target_may_be_named_as_a_page_shows_it() -> None:
    named = parse_targets(("H100 SXM:8", "2xB200 SXM:128"), "")
    assert named == parse_targets(("h100-sxm:8", "2xb200-sxm:128"), "")
