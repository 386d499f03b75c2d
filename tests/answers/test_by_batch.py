"""A scenario's schedule, its gain on a batch histogram, and context buckets.

The recommended K over batch and context, and what is said of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import (
    KRange,
    costs_of,
    idle_speedup,
    interpolate_batches,
    k_at,
    last_batch,
    recommended_draft,
)
from advisor.answers.by_batch import (
    MAX_HISTOGRAM_ROWS,
    BatchHistogram,
    given_ranges,
    ranges_of,
    ranges_to_serve,
    schedule_for,
    schedule_values,
    static_ranges,
    table_of,
)
from advisor.answers.by_context import (
    KByContext,
    contexts_from_text,
    curves_at,
    k_by_context,
)
from advisor.answers.schedule import SWITCH_COST, schedule_facts, schedule_gain, values_of
from advisor.answers.simulation.policies import BatchSchedule, StaticK
from advisor.answers.simulation.simulator import closed_loop, simulate
from advisor.predict.curve import batches_with, curve_for, draft_odds, speedup_curve
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH, MAX_CONTEXT
from advisor.prediction import AdvisorError
from advisor.show.phrases.schedule import CONTEXT
from advisor.show.words.answer import context_values, k_by_context_table

EAGLE = Scenario(acceptance="2.4@3")
NGRAM = Scenario(acceptance="1.4@3", drafter_id="ngram")


def test_the_schedule_covers_every_batch_and_follows_the_least_expected_loss() -> None:
    found = schedule_for(NGRAM)
    assert [r.batch_start for r in found.ranges] == [
        1,
        *(r.batch_end + 1 for r in found.ranges[:-1]),
    ]
    assert found.ranges[-1].batch_end == last_batch(load_setup(NGRAM), found.curve)
    fits = found.curve.batches <= found.ranges[-1].batch_end
    assert fits.sum() > 10
    chosen = k_at(found.ranges, found.curve.batches[fits])
    loss = draft_odds(found.curve.draws).loss[fits]
    mean = (loss[np.arange(chosen.size), chosen] - loss.min(axis=1)).mean()
    assert mean <= (loss - loss.min(axis=1, keepdims=True)).mean(axis=0).min() + 1e-9


def test_the_gain_names_the_best_single_k() -> None:
    found = schedule_for(NGRAM, histogram=BatchHistogram.from_text("1:1,64:1,256:1"))
    assert found.gain.best_static_speedup == max(found.gain.static_speedup)
    assert found.gain.static_speedup[0] == 1.0
    assert found.facts["best_static_k"] in found.curve.drafts


def test_schedule_gain_and_simulator_charge_an_idle_drafter_alike() -> None:
    """A table that never drafts at batch 16, with its drafter kept: the same time per token in all
    three."""
    curve = speedup_curve(EAGLE)
    row = int(np.searchsorted(curve.batches, 16))
    table = (KRange(1, 16, 0, 1.0), KRange(17, 1024, 2, 1.0))
    costs = costs_of(curve)
    load = closed_loop(1, 16, 16, 50)
    trace = np.zeros((16, 50), np.int8)
    plain = simulate(costs, StaticK(0), trace, load, 50)
    kept = simulate(costs, BatchSchedule(table), trace, load, 50)
    simulated = float(plain.sequence_time_s.sum() / kept.sequence_time_s.sum())
    assert simulated < 1.0
    assert idle_speedup(curve)[row] == pytest.approx(simulated)
    assert schedule_gain(table, values_of(curve), (16,), (1.0,)).schedule_speedup == pytest.approx(
        simulated
    )


B200 = Scenario(hardware_id="b200-sxm", model_id="gpt-oss-20b", acceptance="2.4@3")
LONGER = B200.model_copy(update={"acceptance": "2.73@3"})


@pytest.mark.parametrize(
    "scenario", [B200, LONGER, EAGLE.model_copy(update={"acceptance": "2.7@3"}), NGRAM]
)
def test_a_schedule_and_its_table_do_not_depend_on_the_target_batch(scenario: Scenario) -> None:
    asked = [
        schedule_for(scenario.model_copy(update={"batch_size": batch}))
        for batch in (1, 5, 24, 64, 128, 300, 1024)
    ]
    assert (
        len(
            {
                tuple((item.batch_end, item.n_draft, item.k_running) for item in one.ranges)
                for one in asked
            }
        )
        == 1
    )
    for one in asked:
        if (batch := one.setup.scenario.batch_size) <= one.ranges[-1].batch_end:
            facts = one.facts
            assert facts["scheduled"] == k_at(one.ranges, batch)
            assert facts["best_alone"] == one.n_draft


@pytest.mark.parametrize("scenario", [LONGER, EAGLE])
def test_a_schedule_does_not_depend_on_the_batches_that_are_shown(scenario: Scenario) -> None:
    setup = load_setup(scenario)
    shown = [(1, 16, 1024), (1, 7, 16, 40, 100, 700, 1024), (*tuple(range(1, 1025, 31)), 16, 1024)]
    ends = {
        tuple(
            (item.batch_end, item.n_draft)
            for item in ranges_of(setup, curve_for(setup, np.unique(batches)))
        )
        for batches in shown
    }
    assert ends == {tuple((item.batch_end, item.n_draft) for item in advise(scenario).k_by_batch)}
    assert advise(scenario).to_serve == schedule_for(scenario).to_serve


@pytest.mark.parametrize(
    ("scenario", "acceptance"),
    [(B200, "1.6@3"), (B200, "1.7@3"), (EAGLE, "1.3@3"), (NGRAM, "1.25@3")],
)
def test_no_schedule_drafts_up_to_the_largest_batches_where_no_draft_is_recommended(
    scenario: Scenario, acceptance: str
) -> None:
    found = schedule_for(scenario.model_copy(update={"acceptance": acceptance}))
    fits = np.flatnonzero(found.curve.batches <= found.ranges[-1].batch_end)
    own = np.array(
        [found.curve.drafts[recommended_draft(found.setup, found.curve, int(row))] for row in fits]
    )
    above = fits > np.flatnonzero(own)[-1]
    assert above.any()
    assert not k_at(found.ranges, found.curve.batches[fits])[above].any()
    assert all(item.speedup >= 1.0 for item in found.ranges)


def test_a_schedule_says_what_plain_decoding_means_in_it_and_what_one_server_does_there() -> None:
    curve = speedup_curve(EAGLE)
    table = (KRange(1, 15, 2, 1.0), KRange(16, 1024, 0, 1.0))
    values = values_of(curve)
    here = schedule_facts(table, values, 16, 0)
    elsewhere = schedule_facts(table, values, 8, 2)
    assert (here.zero_here, here.zero_running) == (True, 0)
    assert 0.0 < here.zero_slower < 1.0
    assert (elsewhere.zero_here, elsewhere.zero_ranges) == (False, ((16, 1024),))
    kept = (table[0], KRange(16, 1024, 0, 1.0, table_k=1))
    assert schedule_facts(kept, values, 16, 0).zero_running == 1
    assert schedule_facts((KRange(1, 1024, 0, 1.0),), values, 16, 0).zero_running is None
    other = schedule_facts((KRange(1, 1024, 3, 1.0),), values, 16, 2)
    assert (other.best_alone, other.scheduled) == (2, 3)


def test_a_histogram_beyond_the_usual_batches_extends_the_grid() -> None:
    short = EAGLE.model_copy(update={"context_tokens": 128})
    found = schedule_for(short, histogram=BatchHistogram.from_text("1500:1"))
    assert found.curve.batches[-1] == found.ranges[-1].batch_end == 2048
    assert 37 in schedule_for(EAGLE.model_copy(update={"batch_size": 37})).curve.batches


def test_the_schedule_ends_at_the_last_batch_that_fits_and_a_histogram_beyond_it_is_refused() -> (
    None
):
    tight = EAGLE.model_copy(update={"context_tokens": 65536})
    fits = load_setup(tight).memory.largest_batch
    assert 0 < fits < 1024
    found = schedule_for(tight)
    assert found.ranges[-1].batch_end == fits
    assert schedule_for(tight, histogram=BatchHistogram.from_text(f"{fits}:1")).gain is not None
    with pytest.raises(
        AdvisorError, match=f"Batch {fits + 1:,} does not fit in memory; the largest that does is"
    ):
        schedule_for(tight, histogram=BatchHistogram.from_text(f"1:1,{fits + 1}:1"))


def test_where_nothing_fits_a_histogram_is_of_the_whole_curve() -> None:
    large = EAGLE.model_copy(update={"model_id": "deepseek-v3"})
    assert load_setup(large).memory.largest_batch == 0
    assert schedule_for(large, histogram=BatchHistogram.from_text("4:1")).gain is not None


def test_a_static_range_ends_where_it_is_told_and_knows_its_largest_loss_up_to_there() -> None:
    curve = speedup_curve(EAGLE)
    values = values_of(curve)
    (only,) = static_ranges(values, 3, 128)
    assert (only.batch_start, only.batch_end, only.n_draft) == (1, 128, 3)
    at = interpolate_batches(values.batches, values.speedup, np.arange(1, 129))
    assert only.speedup == pytest.approx(at[:, 3].mean()), "over batch sizes, as of every range"
    loss = draft_odds(curve.draws).loss[:, 3]
    assert only.regret == pytest.approx(float(loss[curve.batches <= 128].max()))
    assert only.regret < loss.max(), (
        "the batches beyond are worse, so that leaving them out can be seen"
    )
    with pytest.raises(AdvisorError, match=r"0\.\.8"):
        static_ranges(values, 9, 64)
    drafts = np.repeat([3, 0, 2], [4, 60, 64])
    first, none, last = given_ranges(values, drafts)
    assert [(one.batch_start, one.batch_end, one.n_draft) for one in (first, none, last)] == [
        (1, 4, 3),
        (5, 64, 0),
        (65, 128, 2),
    ]
    assert (none.speedup, last.speedup) == (1.0, pytest.approx(at[64:, 2].mean()))


def test_one_k_is_served_where_the_sentence_says_that_one_is_enough() -> None:
    curve = speedup_curve(EAGLE)
    flat = values_of(
        replace(curve, speedup=np.ones_like(curve.speedup) + np.r_[0.0, 0.5, 0.501, [0.1] * 6])
    )
    split = (KRange(1, 16, 1, 1.5), KRange(17, 64, 2, 1.501))
    assert schedule_facts(split, flat, 8, 1).one_is_enough
    assert [(one.n_draft, one.batch_end) for one in ranges_to_serve(split, flat, 8, 1)] == [(1, 64)]
    steep = values_of(
        replace(curve, speedup=np.ones_like(curve.speedup) + np.r_[0.0, 0.5, 0.9, [0.1] * 6])
    )
    assert ranges_to_serve(split, steep, 8, 1) == split == ranges_to_serve(split, steep, 24, 1), (
        "a tie moves no table"
    )


def test_where_nothing_is_drafted_at_the_target_batch_a_server_without_a_drafter_is_served() -> (
    None
):
    curve = speedup_curve(EAGLE)
    split = (KRange(1, 16, 2, 1.5), KRange(17, 64, 0, 1.0), KRange(65, 128, 1, 1.0))
    assert [
        (one.n_draft, one.batch_end) for one in ranges_to_serve(split, values_of(curve), 32, 0)
    ] == [(0, 128)]


def test_contexts_are_sorted_and_checked() -> None:
    assert contexts_from_text("8192, 1024,1K") == (1024, 8192)
    for text in ("", "0", "a", "1.5", ",".join(str(n) for n in range(1, 20))):
        with pytest.raises(AdvisorError, match="contexts"):
            contexts_from_text(text)


def test_a_target_batch_that_one_server_for_all_would_not_serve_so_gets_its_own_k() -> None:
    curve = speedup_curve(EAGLE)
    split = (KRange(1, 16, 1, 1.3, table_k=2), KRange(17, 64, 2, 1.5))
    assert [one.n_draft for one in ranges_to_serve(split, values_of(curve), 8, 1)] == [1]


LLAMA = Scenario(
    n_gpus=4, tensor_parallel=4, model_id="llama-3.1-8b", drafter_id="eagle3", acceptance="2.4@3"
)
GPT_OSS = Scenario(
    hardware_id="b200-sxm", model_id="gpt-oss-20b", drafter_id="eagle3", acceptance="2.4@3"
)


def test_each_cell_is_the_k_that_is_recommended_for_a_scenario_at_that_context_and_batch() -> None:
    found = schedule_for(LLAMA, (512, 2048, 32768)).at_contexts
    assert found.contexts == (512, 2048, 32768)
    for row, context in enumerate(found.contexts):
        for batch in (1, 16, 64):
            asked = LLAMA.model_copy(update={"context_tokens": context, "batch_size": batch})
            alone = schedule_for(asked)
            at = int(np.searchsorted(alone.curve.batches, batch))
            own = alone.curve.drafts[recommended_draft(alone.setup, alone.curve, at)]
            assert found.k[row, np.searchsorted(found.batches, batch)] == own


def test_batches_that_do_not_fit_at_a_context_have_no_k() -> None:
    found = schedule_for(LLAMA).at_contexts
    for context, ks in zip(found.contexts, found.k, strict=True):
        fits = load_setup(LLAMA.model_copy(update={"context_tokens": context})).memory.largest_batch
        assert np.array_equal(ks >= 0, found.batches <= fits)
    assert found.k.min() == -1


def test_where_context_matters_the_sentence_names_context_batch_and_what_it_would_cost() -> None:
    found = schedule_for(LLAMA).at_contexts
    assert found.matters
    row, column = np.unravel_index(found.loss.argmax(), found.loss.shape)
    assert found.loss[row, column] > SWITCH_COST
    places = (found.contexts[row], found.batches[column], found.k[row, column])
    assert places in [case[:3] for case in found.facts["cases"]]
    assert f"{found.batches[column]:,}" in [cells[0] for cells in k_by_context_table(found).cells]
    assert (
        k_at(schedule_for(LLAMA).ranges, found.batches[column])
        == found.own_k[column]
        != found.k[row, column]
    )


def test_where_context_hardly_matters_it_is_said_in_one_line() -> None:
    found = schedule_for(GPT_OSS).at_contexts
    assert not found.matters
    assert found.facts["cases"] == ()
    assert (found.facts["first"], found.facts["last"]) == (512, 131_072)
    assert found.batches[found.shown].tolist() == [1, 4, 16, 64, 256, 1024]


def test_context_matters_where_the_schedule_misses_a_limit_that_another_k_keeps() -> None:
    placed = {"model_id": "deepseek-v3", "n_gpus": 8, "tensor_parallel": 8, "batch_size": 4}
    asked = Scenario(**placed, drafter_id="mtp", acceptance="deepseek-r1-mtp-internal")
    free = schedule_for(asked)
    assert not free.at_contexts.misses.any()
    assert not free.at_contexts.matters
    far = curves_at(free.setup, free.curve)[131_072][1]
    at = int(np.searchsorted(far.batches, 4))
    two_s, three_s = far.tpot_s[at, 2:4]
    assert three_s < two_s, "at 131,072 tokens K = 3 is the faster one, hardly"
    limit_ms = 1e3 * float(two_s + three_s) / 2.0
    found = schedule_for(asked.model_copy(update={"max_tpot_ms": limit_ms})).at_contexts
    row = found.contexts.index(131_072)
    assert found.own_k[at] == 2
    assert found.misses[row, at]
    assert np.isfinite(found.loss).all()
    assert found.loss.max() < SWITCH_COST, "what it loses in speed would not matter"
    assert found.matters
    assert found.facts["cases"] == ((131_072, 4, 3, 2, None),)


def test_a_limit_in_milliseconds_is_kept_in_seconds() -> None:
    setup = load_setup(EAGLE)
    curve = curve_for(setup, np.array([1, 16]))
    values = schedule_values(setup, curve)
    free = table_of(setup, curve, values)
    assert free.allowed.all()
    middle_ms = float(np.median(curve.tpot_s)) * 1e3
    limited = setup.scenario.model_copy(update={"max_tpot_ms": middle_ms})
    table = table_of(replace(setup, scenario=limited), curve, values)
    tpot_s = interpolate_batches(values.batches, values.tpot_s, np.arange(1, 17))
    assert table.allowed.tolist() == (tpot_s <= middle_ms / 1e3).tolist()
    assert 0 < table.allowed.sum() < table.allowed.size


def test_contexts_end_where_the_model_does() -> None:
    olmoe = GPT_OSS.model_copy(update={"model_id": "olmoe-1b-7b"})
    assert schedule_for(olmoe).at_contexts.contexts == (512, 2048)


def test_the_sentence_names_the_two_contexts_that_lose_most_and_none_at_the_limit() -> None:
    loss = np.array([0.0, SWITCH_COST, 0.06, 0.08, 0.07])[:, None]
    k = np.full((5, 1), 2)
    contexts = (512, 1024, 2048, 4096, 8192)
    made = KByContext(
        own_context=512,
        contexts=contexts,
        batches=np.array([20]),
        k=k,
        own_k=np.array([3]),
        loss=loss,
        misses=np.zeros((5, 1), bool),
        own_batch=20,
        speedup=np.array([[1.2], [1.3], [1.4], [1.5], [1.6]]),
    )
    assert made.facts["cases"] == ((4096, 20, 2, 3, 0.08), (8192, 20, 2, 3, 0.07))
    hardly = replace(made, loss=np.minimum(loss, SWITCH_COST))
    assert (hardly.matters, hardly.shown.size) == (False, 0)
    assert CONTEXT.say("context", made.facts | {"n_contexts": 1}) == ""
    assert CONTEXT.say("context", made.facts) == (
        "K changes with context: with 4,096 tokens at batch 20 K = 2, where this schedule's 3 "
        "would cost 8.0%; with 8,192 tokens at batch 20 K = 2, where this schedule's 3 would cost "
        "7.0%. The speedup at batch 20 goes from 1.20× at 512 tokens to 1.60× at 8,192."
    )
    steady = replace(made, speedup=np.full((5, 1), 1.5))
    assert "speedup" not in CONTEXT.say("context", steady.facts)
    fits_below = replace(made, k=np.array([[2], [2], [2], [-1], [-1]]))
    assert fits_below.facts["longest"] == 2048


def test_a_loss_counts_where_both_contexts_fit_a_k_of_none_included(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = np.array([0, 2, -1]), np.array([0.25, 0.0, 0.0]), np.full(3, False), np.ones(3)
    missed = np.array([True, False, True])
    other = np.array([3, 0, 2]), np.array([0.75, 0.5, 0.5]), missed, np.ones(3)
    judged = iter((own, other))
    monkeypatch.setattr("advisor.answers.by_context._judged", lambda *_: next(judged))
    curve = replace(speedup_curve(EAGLE, [1]), batches=np.array([1.0, 2.0, 4.0]))
    at = dict.fromkeys((512, 2048), (load_setup(EAGLE), curve))
    found = k_by_context(512, (KRange(1, 4, 2, 1.0),), at)
    assert found.loss.tolist() == [[0.0, 0.0, 0.0], [0.5, 0.5, 0.0]]
    assert found.misses.tolist() == [[False] * 3, [True, False, False]]


@pytest.mark.parametrize(
    ("end", "last"), [(100, [96, 112]), (3600, [1024, 2048, 4096]), (7000, [4096, 8192])]
)
def test_a_schedule_is_decided_on_fixed_batches_up_to_the_next_beyond_the_curve(
    end: int, last: list[int]
) -> None:
    setup = load_setup(EAGLE)
    values = schedule_values(setup, curve_for(setup, np.array([1, 16, end]), [0, 1]))
    assert (values.batches[-len(last) :].tolist(), values.drafts.tolist()) == (last, [0, 1])


def test_the_table_has_a_dash_where_a_batch_does_not_fit() -> None:
    made = KByContext(
        own_context=512,
        contexts=(512, 8192),
        batches=batches_with().astype(np.int64)[[0, 3, 11]],
        k=np.array([[3, 2, 1], [3, 2, -1]]),
        own_k=np.array([3, 2, 1]),
        loss=np.zeros((2, 3)),
        misses=np.array([[False, False, False], [False, True, False]]),
        own_batch=16,
        speedup=np.array([[1.5, 1.4, 1.2], [1.6, 1.5, 1.4]]),
    )
    table = k_by_context_table(made)
    assert table.header == ("batch", "512", "8,192")
    assert table.cells == [("1", "3", "3"), ("4", "2", "2"), ("16", "1", "-")]
    assert context_values(made)["contexts"][1] == {  # type: ignore[index]
        "context_tokens": 8192,
        "n_draft": [3, 2, None],
        "schedule_loss": [0.0, 0.0, 0.0],
    }


def test_a_histogram_and_contexts_may_be_as_large_as_their_errors_say() -> None:
    assert BatchHistogram((1, MAX_BATCH), (0.0, 1e15)).batches == (1, MAX_BATCH)
    rows = range(1, MAX_HISTOGRAM_ROWS + 1)
    assert len(BatchHistogram(tuple(rows), tuple(1.0 for _ in rows)).batches) == 10_000
    for batches, weights, said in (
        ((*rows, MAX_HISTOGRAM_ROWS + 1), (1.0,) * (MAX_HISTOGRAM_ROWS + 1), "10,001 rows"),
        ((MAX_BATCH + 1,), (1.0,), "must lie in"),
        ((0,), (1.0,), "must lie in"),
        ((1,), (1e15 + 1,), "the weight"),
        ((1, 2), (0.0, 0.0), "above 0"),
        ((1, 2), (1.0,), "as many weights"),
        ((), (), "at least one"),
    ):
        with pytest.raises(AdvisorError, match=said):
            BatchHistogram(batches, weights)
    assert contexts_from_text(f"1,{MAX_CONTEXT}") == (1, MAX_CONTEXT)
    for text in ("0,5", f"5,6,{MAX_CONTEXT + 1}"):
        with pytest.raises(AdvisorError, match="contexts must lie in"):
            contexts_from_text(text)
    assert len(contexts_from_text(",".join(map(str, range(1, 17))))) == 16
    with pytest.raises(AdvisorError, match="17 contexts are too many"):
        contexts_from_text(",".join(map(str, range(1, 18))))


def test_a_k_of_none_is_a_recommendation_and_not_a_batch_that_does_not_fit() -> None:
    short = NGRAM.model_copy(update={"acceptance": "1.05@3", "context_tokens": 2048})
    found = schedule_for(short, contexts=(2048, 131_072))
    values = context_values(found.at_contexts)["contexts"]
    assert isinstance(values, list)
    rows = [row["n_draft"] for row in values]
    assert rows[0][0] == 0, "no draft is recommended where none pays"
    assert None in rows[1], "memory ends at the long context"


def test_contexts_begin_with_the_prompt_itself() -> None:
    setup = load_setup(
        EAGLE.model_copy(
            update={"context_tokens": 4096, "input_tokens": 2048, "output_tokens": 512}
        )
    )
    assert list(curves_at(setup, curve_for(setup, np.array([1, 16])))) == [2048, 4096, 8192, 32768]
