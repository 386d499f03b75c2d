"""One chance of a gain wherever one is stated, and what it assumes."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from advisor.answers.advice import advise, answer_values
from advisor.answers.best_k import MAY_LOSE
from advisor.answers.by_length import at_length, by_batch, length_now
from advisor.answers.experts_loaded import Loading
from advisor.answers.explore.cells import context_map
from advisor.answers.flags import holds
from advisor.answers.outcome import FLAGS, outcome_of
from advisor.answers.summary import own_half_widths, read_own_runs
from advisor.physics.bands import MOST_CHANCE, unseen_gain
from advisor.predict.scenario import Scenario
from advisor.show.answer_tables import answer_tables
from advisor.show.phrases.answer import BOOK
from tests.command_line import QWEN, Run, flat

SCENARIO = Scenario(acceptance="2.4@3")
LENGTHS = ("1.4@3", "1.9@3", "2.4@3", "3.9@3")


@pytest.mark.parametrize("length", LENGTHS)
def test_row_record_json_map_and_page_state_the_chance_of_the_speedup(length: str) -> None:
    advice = advise(SCENARIO.model_copy(update={"acceptance": length}))
    outcome = outcome_of(advice)
    chance = float(unseen_gain(np.array(outcome.speedup)))
    tried = next(row for row in advice.drafts if row.n_draft == outcome.tried)
    batch = advice.scenario.batch_size
    found = context_map(advice.scenario, [advice.scenario.context_tokens], [batch])
    assert found.p_gain[0, 0] == pytest.approx(unseen_gain(found.drafting_speedup[0, 0]))
    stated = (tried.p_gain, outcome.chance, answer_values(advice)["p_gain"])
    assert stated == pytest.approx([chance] * 3)
    assert holds(FLAGS, "may_lose", outcome.facts) == (chance < MAY_LOSE)
    tables = answer_tables(advice, Loading.of(advice.setup, advice.curve))
    shape = len(tables["factor"]), *advice.curve.speedup.shape
    shares = np.frombuffer(base64.b64decode(tables["chance"]), np.uint8).reshape(shape)
    place = tables["now_at"], advice.batch_index, advice.curve.column(outcome.tried)
    assert shares[place] == round(100 * chance)


def test_no_chance_is_near_certain_and_more_accepted_tokens_raise_it() -> None:
    chances = [
        advise(SCENARIO.model_copy(update={"acceptance": length})).recommendation.p_gain
        for length in LENGTHS
    ]
    assert chances == sorted(chances)
    assert max(chances) == MOST_CHANCE


def test_a_configuration_may_lose_from_where_the_chance_stays_below_the_threshold() -> None:
    advice = advise(SCENARIO.model_copy(update={"acceptance": "1.8@3"}))
    answer = at_length(advice, length_now(advice))
    places = by_batch(advice, answer.curve, answer.table.ranges)
    assert places.loses_from is not None
    drafting = answer.curve.batches <= (places.drafts_to or 0)
    after = drafting & (answer.curve.batches >= places.loses_from)
    assert 0 < after.sum() < drafting.sum()
    for batch, row in zip(answer.curve.batches[after], answer.curve.p_gain[after], strict=True):
        k = next(r.k_running for r in answer.table.ranges if r.batch_start <= batch <= r.batch_end)
        assert row[answer.curve.column(k)] < MAY_LOSE


def test_the_range_after_own_runs_is_what_a_refit_gave() -> None:
    widths = own_half_widths(advise(SCENARIO))
    assert widths is not None
    _, kinds = read_own_runs()
    assert widths[1] == kinds["data centre"].width_after / 2.0 < widths[0]


def test_what_a_chance_assumes_is_said_where_it_is_explained(run: Run) -> None:
    assumed = BOOK.say("assumed", outcome_of(advise(SCENARIO)).facts)
    assert "full CUDA graphs" in assumed
    assert assumed in flat(run("advise", *QWEN, "-v")[1])
    assert assumed not in flat(run("advise", *QWEN)[1])
