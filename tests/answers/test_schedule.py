"""K by batch size, its gain, and break-even answers.

What is said of accepted lengths that nobody measured or gave.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from advisor.answers.best_k import (
    KRange,
    interpolate_batches,
    interpolate_losses,
    k_at,
    k_running_at,
)
from advisor.answers.schedule import (
    MIN_GAIN,
    SWITCH_COST,
    TIE,
    KValues,
    WholeBatches,
    _blocks,
    _cheapest,
    _one_server,
    _undominated,
    doublings,
    k_by_batch,
    schedule_facts,
    schedule_gain,
    whole_batches,
)
from advisor.predict.curve import draft_odds
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, carried_text
from advisor.show.phrases.schedule import BOOK
from advisor.show.words.answer import accepted_length_text, k_by_batch_table

BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]


# Low-high-low, the shape of an MoE: K = 1, then 3 in the middle, then none.
MOE = np.array(
    [
        [1.0, 1.50, 1.40, 1.30],
        [1.0, 1.45, 1.44, 1.35],
        [1.0, 1.40, 1.50, 1.55],
        [1.0, 1.50, 1.70, 1.90],
        [1.0, 1.50, 1.75, 1.95],
        [1.0, 1.40, 1.25, 1.20],
        [1.0, 1.05, 0.95, 0.80],
        [1.0, 0.80, 0.70, 0.60],
    ]
)


def k_values(
    batches: ArrayLike,
    drafts: ArrayLike,
    speedup: ArrayLike,
    *,
    draws: ArrayLike | None = None,
    idle: ArrayLike = 1.0,
    tpot_s: ArrayLike = 0.01,
) -> KValues:
    """Values of each K from speedups [nB, nK] and their draws [draws, nB, nK]. Certain without
    draws."""
    grid = np.asarray(batches, float)
    ks = np.asarray(drafts, np.int64)
    table = np.asarray(speedup, float)
    odds = draft_odds(table[None] if draws is None else draws)
    times = np.broadcast_to(np.asarray(tpot_s, float), table.shape)
    return KValues(grid, ks, table, odds.loss, odds.noise, np.broadcast_to(idle, grid.shape), times)


VALUES = k_values(BATCHES, range(4), MOE)


def test_ranges_cover_every_batch_size_once_and_follow_the_best_k() -> None:
    ranges = k_by_batch(VALUES)
    assert ranges[0].batch_start == 1
    assert ranges[-1].batch_end == 128
    assert all(b.batch_start == a.batch_end + 1 for a, b in pairwise(ranges))
    assert [r.n_draft for r in ranges] == [1, 3, 1, 0]
    assert k_at(ranges, [1, 8, 16, 128, 500]).tolist() == [1, 3, 3, 0, 0]


def test_a_switch_that_saves_less_than_it_costs_is_not_made() -> None:
    """K = 2 is better by `edge` over two doublings: the switches there and back cost SWITCH_COST
    each."""

    def ks(edge: float) -> list[int]:
        table = np.tile([1.0, 1.5, 1.5 * (1 - 0.1)], (9, 1))
        table[4:7, 2] = 1.5 / (1 - edge)
        return [r.n_draft for r in k_by_batch(k_values(2 ** np.arange(9), range(3), table))]

    assert ks(0.5 * SWITCH_COST) == [1]
    assert ks(1.5 * SWITCH_COST) == [1, 2, 1]


def test_noise_of_the_draws_does_not_flip_k() -> None:
    """Two K of one mean speedup, each a little ahead at every other batch, within what 256 draws
    can tell."""
    rng = np.random.default_rng(3)
    flat = np.tile([1.0, 1.5, 1.5], (8, 1))
    draws = flat * np.exp(0.05 * rng.standard_normal((256, 8, 3)))
    draws[:, :, 0] = 1.0
    values = k_values(BATCHES, range(3), flat, draws=draws)
    assert len(set(values.loss.argmin(axis=1).tolist())) > 1
    assert len(k_by_batch(values)) == 1


def test_plain_decoding_stands_at_both_ends_wherever_it_is_recommended_at_no_price() -> None:
    """K = 1 loses half a per cent at the ends, which a switch would not save; between, K = 0 has
    that price."""
    table = np.column_stack([np.ones(8), [0.995, 1.3, 1.3, 0.995, 1.3, 1.3, 0.995, 0.995]])
    found = k_by_batch(k_values(BATCHES, range(2), table))
    assert [r.n_draft for r in found] == [0, 1, 0]
    assert [r.batch_start for r in found][:2] == [1, 2]
    assert k_at(found, 8) == 1


def test_one_server_is_charged_for_the_drafter_it_keeps_where_the_schedule_does_not_draft() -> None:
    """At the largest batches K = 1 loses 1 %; an idle drafter costs 3 % there, so one server keeps
    K = 1."""
    table = np.array([[1.0, 1.5]] * 6 + [[1.0, 0.99]] * 2)
    *_, last = k_by_batch(k_values(BATCHES, range(2), table, idle=0.97))
    assert (last.n_draft, last.k_running, last.speedup) == (0, 1, 1.0)
    assert last.regret < 0.01
    steep = k_values(
        [1, 63, 64, 1024], range(2), [[1.0, 1.5], [1.0, 1.5], [1.0, 0.7], [1.0, 0.7]], idle=0.97
    )
    found = k_by_batch(steep)
    assert [(r.batch_start, r.n_draft, r.k_running) for r in found] == [(1, 1, 1), (64, 0, 0)]
    assert k_running_at(found, [1, 64, 4096]).tolist() == [1, 0, 0]
    gain = schedule_gain(found, steep, [1, 1024], [1.0, 1.0])
    assert gain.schedule_speedup == pytest.approx(2 / (1 / 1.5 + 1 / 0.97)), (
        "the drafter that is kept is charged"
    )


def test_one_server_drafts_nowhere_where_a_table_loses_more_than_it_gains() -> None:
    table = np.tile([1.0, 0.8], (8, 1))
    table[0, 1] = 1.05
    charged = k_values(BATCHES, range(2), table, idle=0.95)
    found = k_by_batch(charged)
    assert [(r.n_draft, r.k_running) for r in found] == [(1, 0), (0, 0)]
    assert found[1].speedup == 1.0
    assert [r.k_running for r in k_by_batch(k_values(BATCHES, range(2), table, idle=0.999))] == [
        1,
        0,
    ]


@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(0.3, 3.0), min_size=3, max_size=3), min_size=3, max_size=3))
def test_no_single_k_and_no_one_switch_beats_the_schedule_in_what_it_minimises(
    rows: list[list[float]],
) -> None:
    """The sum it minimises, written out by hand: loss beyond the noise (here none) over doublings,
    and switches."""
    batches = [1, 6, 40]
    whole = np.arange(1, 41)
    values = k_values(batches, range(4), np.column_stack([np.ones(3), np.array(rows)]))
    loss = interpolate_losses(batches, values.loss, whole)
    loss = loss - loss.min(axis=1, keepdims=True)
    weight = np.log2((whole + 1) / whole)

    def cost(ks: np.ndarray) -> float:
        return float(loss[np.arange(40), ks] @ weight) + SWITCH_COST * np.count_nonzero(np.diff(ks))

    ks = k_at(k_by_batch(values), whole)
    # K = 0 at either end has no price of a switch.
    own = cost(ks) - SWITCH_COST * (np.count_nonzero(ks[[0, -1]] == 0) if np.ptp(ks) else 0)
    ties = 1e-3 * float(loss.max()) * float(weight.sum())
    assert loss[np.arange(40), ks].max() <= MIN_GAIN + 1e-9
    for first in range(4):
        for then in range(4):
            for at in (0, 1, 5, 20):
                other = np.where(np.arange(40) < at, first, then)
                if loss[np.arange(40), other].max() <= MIN_GAIN:
                    assert own <= cost(other) + ties + 1e-9


def test_limit_on_time_per_output_token_marks_batches_that_no_k_can_serve() -> None:
    plain = np.linspace(0.010, 0.080, 8)
    tpot = plain[:, None] / MOE
    ranges = k_by_batch(k_values(BATCHES, range(4), MOE, tpot_s=tpot), max_tpot_s=0.030)
    assert ranges[0].meets_limit
    assert not ranges[-1].meets_limit
    last = max(r.batch_end for r in ranges if r.meets_limit)
    kept, missed = interpolate_batches(BATCHES, tpot, [last, last + 1]).min(axis=1)
    assert kept <= 0.030 < missed


def test_batches_that_miss_the_limit_are_smoothed_like_others() -> None:
    """K = 1 and 2 change places by half a per cent: without a limit one K, and one K where every K
    misses it."""
    table = np.tile([1.0, 1.5, 1.5], (8, 1))
    table[::2, 1] *= 1.005
    table[1::2, 2] *= 1.005
    values = k_values(BATCHES, range(3), table, tpot_s=0.03 / table)
    assert len(k_by_batch(values)) == 1
    (missed,) = k_by_batch(values, max_tpot_s=0.001)
    assert not missed.meets_limit


def test_gain_over_the_best_static_k_is_the_harmonic_mean_of_the_histogram() -> None:
    ranges = k_by_batch(VALUES)
    gain = schedule_gain(ranges, VALUES, [1, 16, 128], [1.0, 2.0, 1.0])
    scheduled = 4 / (1 / 1.5 + 2 / 1.95 + 1 / 1.0)
    static = [4 / (1 / MOE[0, k] + 2 / MOE[4, k] + 1 / MOE[7, k]) for k in range(4)]
    assert gain.schedule_speedup == pytest.approx(scheduled)
    assert gain.best_static_k == int(np.argmax(static))
    assert gain.gain == pytest.approx(scheduled / max(static) - 1)
    assert gain.gain > 0.1


def test_a_schedules_gain_pays_for_its_idle_drafter_and_a_single_plain_k_does_not() -> None:
    values = k_values(BATCHES, range(4), MOE, idle=0.9)
    ranges = k_by_batch(values)
    assert ranges[-1].n_draft == 0
    gain = schedule_gain(ranges, values, [1, 128], [1.0, 1.0])
    assert gain.schedule_speedup == pytest.approx(2 / (1 / 1.5 + 1 / 0.9))
    assert gain.static_speedup[0] == 1.0


def test_one_sentence_says_whether_one_k_is_enough() -> None:
    def said(table: np.ndarray, ranges: tuple[KRange, ...] | None = None, n_draft: int = 1) -> str:
        values: KValues = k_values([1, 2, 3], range(3), table)
        shown = ranges or k_by_batch(values)
        return BOOK.say("enough", schedule_facts(shown, values, 1, n_draft).facts)

    flat = np.tile([1.0, 1.5, 1.4], (3, 1))
    poor = np.tile([1.0, 0.9, 0.8], (3, 1))
    assert said(flat) == "One K is enough: 1 at every batch up to 3."
    assert said(poor) == "Speculation pays at no batch: K = 0."
    plain = (KRange(1, 1, 1, 1.05, table_k=0), KRange(2, 3, 0, 1.0))
    assert said(poor, plain).startswith(
        "One K is enough: 0; a server without speculation loses least"
    )
    two = (KRange(1, 2, 2, 1.4), KRange(3, 3, 1, 1.5))
    assert said(flat, two) == "One K is enough: 1 at every batch up to 3, at no cost."
    near = np.array([[1.0, 1.5, 1.4], [1.0, 1.5, 1.4], [1.0, 1.5, 1.51]])
    split = (KRange(1, 2, 1, 1.5), KRange(3, 3, 2, 1.51))
    assert (
        said(near, split)
        == "One K is enough: 1 at every batch up to 3 costs 0.1% (mean over batch doublings)."
    )
    assert said(near, split, 2).startswith("K by batch gains 0.1% over the best single K, 1,"), (
        "K = 2 is recommended here"
    )
    idle = np.array([[1.0, 0.7, 1.02], [1.0, 0.7, 1.02], [1.0, 0.7, 0.9]])
    kept = (KRange(1, 2, 1, 0.7), KRange(3, 3, 0, 1.0, table_k=2))
    assert said(idle, kept) == (
        "K by batch is not worth its drafter: over all batches up to 3 no speculation is faster "
        "(mean over batch doublings)."
    )
    near[2, 2] = 1.8
    gain = 1 / ((2 - np.log2(4 / 3)) / 2 / 1.5 + np.log2(4 / 3) / 2 / 1.8) / 1.5 - 1
    assert said(near, split).startswith(f"K by batch gains {gain:.1%} over the best single K, 1,")


def test_the_table_of_k_by_batch_says_whether_the_limit_is_kept_only_where_there_is_one() -> None:
    ranges = (
        KRange(1, 1024, 3, 1.8249, 0.0196),
        KRange(1025, 2048, 0, 1.0, 0.0, meets_limit=False),
    )
    table = k_by_batch_table(ranges, limited=True)
    assert table.header == (
        "batch",
        "K",
        "mean speedup",
        "largest expected loss",
        "meets the limit",
    )
    assert table.cells == [
        ("1 to 1,024", "3", "1.82x", "2.0%", "yes"),
        ("1,025 to 2,048", "0", "1.00x", "0.0%", "no"),
    ]
    assert k_by_batch_table(ranges, limited=False).cells == [row[:4] for row in table.cells]
    apart = (KRange(1, 64, 1, 1.2), KRange(65, 128, 0, 1.0, table_k=1))
    table = k_by_batch_table(apart, limited=False)
    assert (table.header[-1], [row[-1] for row in table.cells]) == ("K in one server", ["1", "1"])


def test_a_range_has_the_mean_speedup_and_the_largest_loss_of_its_batches() -> None:
    """K = 1 loses 0.7 % against K = 2 at the second of three batches, too little for a switch there
    and back."""
    table = np.array([[1.0, 1.5, 1.4], [1.0, 1.5, 1.51], [1.0, 1.5, 1.4]])
    (found,) = k_by_batch(k_values([1, 2, 3], range(3), table))
    assert (found.n_draft, found.speedup) == (1, pytest.approx(1.5))
    assert found.regret == pytest.approx(1 - 1.5 / 1.51)


def test_the_rule_names_its_price_of_a_switch_and_the_limit() -> None:
    values = k_values([1, 2, 3], range(3), np.tile([1.0, 1.5, 1.4], (3, 1)))
    ranges = k_by_batch(values)
    assert f"saves {SWITCH_COST:.0%} over" in BOOK.say(
        "rule", schedule_facts(ranges, values, 1, 1).facts
    )
    limited = schedule_facts(ranges, values, 1, 1, limit_ms=7.5)
    assert "miss 7.5 ms per token" in BOOK.say("rule", limited.facts)


def whole(loss: list[list[float]], **given: object) -> WholeBatches:
    """Losses at batches from 1, certain and within any limit unless told otherwise."""
    table = np.array(loss)
    usual = {
        "drafts": np.arange(table.shape[1]),
        "speedup": 1.5 * (1.0 - table),
        "noise": np.zeros_like(table),
        "allowed": np.ones(table.shape, bool),
        "idle": np.ones(len(table)),
        "idle_allowed": np.ones(len(table), bool),
        "doublings": doublings(np.arange(1, len(table) + 1)),
    }
    return WholeBatches(
        loss=table, **{name: np.asarray(value) for name, value in (usual | given).items()}
    )  # type: ignore[arg-type]


def test_what_a_choice_costs_is_its_loss_over_the_doublings_and_its_switches() -> None:
    """Batches 1, 2 and 3 stand for log2 of 2, 3/2 and 4/3 doublings."""
    table = whole([[0.3, 0.0], [0.1, 0.2], [0.0, 0.5]])
    assert table.doublings == pytest.approx(np.log2([2.0, 1.5, 4 / 3]))
    assert table.cost(np.array([0, 1, 1])) == pytest.approx(
        0.3 + 0.1 * np.log2(1.5) + 0.5 * np.log2(4 / 3) + SWITCH_COST
    )
    assert table.excess == pytest.approx(np.array([[0.3, TIE], [0.0, 0.1 + TIE], [0.0, 0.5 + TIE]]))


def test_a_kept_drafter_slows_plain_decoding_and_may_miss_the_limit() -> None:
    allowed = [[True, True], [True, False]]
    table = whole(
        [[0.2, 0.0], [0.1, 0.3]], idle=[0.9, 0.8], idle_allowed=[True, False], allowed=allowed
    )
    kept = table.charged()
    assert kept.loss == pytest.approx(np.array([[1 - 0.9 * 0.8, 0.0], [1 - 0.8 * 0.9, 0.3]]))
    assert kept.speedup[:, 0].tolist() == [0.9, 0.8]
    assert kept.speedup[:, 1].tolist() == table.speedup[:, 1].tolist()
    assert kept.allowed.tolist() == [[True, True], [False, False]]
    assert table.allowed.tolist() == allowed, "the table itself stays as it is"


def test_a_server_without_speculation_loses_what_the_best() -> None:
    """At batch 1 K = 1 saves 0.2, of which 0.05 is noise; at 2 it is 0.1 worse than the idle one's
    0.05 loss."""
    table = whole([[0.2, 0.0], [0.0, 0.15]], idle=[0.9, 0.95], noise=[[0.05, 9.0], [0.01, 9.0]])
    assert table.plain_cost(table.charged()) == pytest.approx(0.15 - (0.05 - 0.01) * np.log2(1.5))
    within = whole([[0.2, 0.0]], noise=[[0.3, 0.0]])
    assert within.plain_cost(within.charged()) == 0.0
    missed = whole([[0.2, 0.0]], allowed=[[False, True]])
    assert missed.plain_cost(missed.charged()) == np.inf
    nobody = whole([[0.2, 0.0]], allowed=[[False, False]], idle_allowed=[False])
    assert nobody.plain_cost(nobody.charged()) == pytest.approx(0.2), (
        "where no K keeps the limit all are compared"
    )
    slow = whole([[0.2, 0.0]], allowed=[[True, False]], idle=[0.5])
    assert slow.plain_cost(slow.charged()) == pytest.approx(0.2 - (1 - 0.5 * 0.8)), (
        "K = 1 misses the limit, the idle server stays"
    )


def test_a_limit_lets_through_what_takes_just_as_long_and_charges_an_idle_drafter() -> None:
    values = k_values(
        [1, 2],
        range(2),
        [[1.0, 1.5], [1.0, 1.2]],
        idle=[0.8, 0.5],
        tpot_s=[[0.03, 0.02], [0.04, 0.03]],
    )
    table = whole_batches(values, 2, 0.03)
    assert table.allowed[0].tolist() == [True, True]
    assert table.idle_allowed.tolist() == [False, False]
    assert whole_batches(values, 2, 0.03 / 0.8).idle_allowed.tolist() == [True, False]
    assert whole_batches(values, 2, 0.079).idle_allowed.tolist() == [True, False]
    assert whole_batches(values, 2, 0.081).idle_allowed.tolist() == [True, True]
    even = k_values([1, 2], range(2), np.ones((2, 2)), idle=0.5, tpot_s=np.ones((2, 2)))
    assert whole_batches(even, 2, 1.0).allowed.all()
    assert whole_batches(even, 2, 2.0).idle_allowed.all()
    assert not whole_batches(even, 2, 1.999).idle_allowed.any()
    free = whole_batches(values, 2, None)
    assert free.allowed.all()
    assert free.idle_allowed.tolist() == [True, True]
    assert free.idle == pytest.approx([0.8, 0.5])


def test_where_plain_decoding_misses_the_limit_a_k_that_loses_runs_instead() -> None:
    values = k_values(
        [1, 4], range(2), [[1.0, 0.99], [1.0, 0.99]], tpot_s=[[0.03, 0.01], [0.03, 0.01]]
    )
    assert [(item.n_draft, item.meets_limit) for item in k_by_batch(values, max_tpot_s=0.02)] == [
        (1, True)
    ]
    assert [item.n_draft for item in k_by_batch(values)] == [0]


def test_one_server_keeps_the_k_of_the_schedule_where_that_drafts() -> None:
    """K = 2 would lose less at batch 1, and does where the schedule has K = 0; a switch there costs
    less."""
    table = whole([[0.5, 0.1, 0.0], [0.0, 0.5, 0.1]], idle=[0.6, 0.6])
    assert _one_server(table, np.array([1, 0])).tolist() == [1, 2]
    assert _one_server(table, np.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("n", [1, 511, 512, 513, 600, 777, 1024, 4096])
def test_batches_are_decided_one_by_one_to_512_and_then_256_to_a_doubling(n: int) -> None:
    starts = _blocks(np.zeros((n, 2)), np.ones((n, 2), bool))
    assert starts[: min(n, 512)].tolist() == list(range(min(n, 512)))
    assert starts.max() < n
    further = starts[512:]
    assert further.tolist() == [
        int(512 * 2 ** (j / 256)) for j in range(1000) if int(512 * 2 ** (j / 256)) < n
    ]


def test_no_block_reaches_over_a_change_of_what_is_allowed_or_ruled_out() -> None:
    n = 1000
    change = 903
    plain = _blocks(np.zeros((n, 2)), np.ones((n, 2), bool)).tolist()
    assert change not in plain
    allowed = np.ones((n, 2), bool)
    excess = np.zeros((n, 2))
    allowed[change:, 1] = False
    assert _blocks(excess, allowed).tolist() == sorted([*plain, change])
    excess[change:, 0] = np.inf
    assert _blocks(excess, np.ones((n, 2), bool)).tolist() == sorted([*plain, change])


def test_a_schedule_changes_k_just_where_the_limit_is_first_missed_also_beyond_512() -> None:
    """K = 2 is allowed to batch 903, inside a block of three batches."""
    grid = [1, 903, 904, 1000]
    table = np.tile([1.0, 1.2, 1.5], (4, 1))
    tpot = np.tile([0.03, 0.01, 0.01], (4, 1))
    tpot[2:, 2] = 0.03
    found = k_by_batch(k_values(grid, range(3), table, tpot_s=tpot), max_tpot_s=0.02)
    assert [(item.batch_start, item.n_draft) for item in found] == [(1, 2), (904, 1)]


@pytest.mark.parametrize(
    ("acceptance", "expected"),
    [
        ("2.4@3", "At K = 1, 2 and 4 to 8 it is extrapolated, with a wider 80% range."),
        ("0.7,0.6,0.5,0.5,0.5,0.4", "At K = 7 and 8 it is extrapolated"),
        ("0.7,0.6,0.5,0.5,0.5,0.4,0.4", "At K = 8 it is extrapolated"),
        ("0.7,0.6,0.5,0.5,0.5,0.4,0.4,0.4", ""),
    ],
)
def test_accepted_lengths_at_k_beyond_those_given_carry_a_remark(
    acceptance: str, expected: str
) -> None:
    setup = load_setup(Scenario(acceptance=acceptance))
    found = carried_text(setup.acceptance.extrapolated, np.arange(9))
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert accepted_length_text(setup).startswith("Accepted length: ")
    assert accepted_length_text(setup).endswith(found)


def test_the_cheapest_path_is_that_of_all_paths_whatever_columns_are_left_out() -> None:
    """Losses of eighths: many columns are as cheap as another, or nowhere cheaper."""
    drawn = np.random.default_rng(3)
    for _ in range(40):
        excess = drawn.integers(0, 4, (4, 4)) / 8 * SWITCH_COST + TIE * np.arange(4)
        excess[drawn.random((4, 4)) < 0.2] = np.inf
        excess[np.isinf(excess).all(axis=1)] = 0.0
        weight = drawn.random(4)
        path = _cheapest(excess, weight, np.ones((4, 4), bool))
        costs = {
            each: float(excess[np.arange(4), each] @ weight)
            + SWITCH_COST * np.count_nonzero(np.diff(each))
            for each in product(range(4), repeat=4)
        }
        assert costs[tuple(path.tolist())] == pytest.approx(min(costs.values()), abs=1e-12)
        assert set(path) <= set(_undominated(excess))


def test_a_column_is_left_out_where_another_is_as_cheap_everywhere() -> None:
    cost = np.array([[1.0, 1.0, 2.0, np.inf, 0.5], [1.0, 1.0, 1.0, np.inf, 3.0]])
    assert _undominated(cost).tolist() == [0, 4]
