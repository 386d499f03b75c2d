"""Own runs: whether they are of a scenario, and which K their speedups decide where."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import k_running_at
from advisor.answers.own_gap import (
    NOTHING_DECIDED,
    Border,
    Mismatch,
    Span,
    as_measured,
    borders,
    decision,
    mismatch_of,
    own_schedule,
)
from advisor.measured.ingest.columns import COLUMNS
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH

SCENARIO = Scenario(acceptance="2.7@3", context_tokens=2048)
BATCHES = (1.0, 8.0, 32.0, 128.0)


def rows(**cells: object) -> pd.DataFrame:
    """CONSTRUCTED rows of the scenario at BATCHES."""
    values: dict[str, object] = {
        "hardware_id": SCENARIO.hardware_id,
        "model_id": SCENARIO.model_id,
        "engine": SCENARIO.engine,
        "gpu_count": SCENARIO.n_gpus,
        "draft_tokens_k": 3,
        "drafter": SCENARIO.drafter_id,
        "batch_size": list(BATCHES),
        "speedup": [1.4, 1.3, 1.2, 1.1],
    }
    return pd.DataFrame(values | cells).reindex(columns=list(COLUMNS["points"]))


@pytest.mark.parametrize(
    ("cells", "mismatch"),
    [
        ({}, None),
        ({"drafter": None}, None),
        ({"drafter": "mtp", "draft_tokens_k": 0}, None),
        ({"model_id": "deepseek-v3"}, Mismatch("setup")),
        ({"drafter": "mtp"}, Mismatch("drafter", ("mtp",))),
    ],
)
def test_rows_of_another_setup_or_drafter_are_not_of_the_scenario(
    cells: dict[str, object], mismatch: Mismatch | None
) -> None:
    assert mismatch_of(SCENARIO, rows(**cells)) == mismatch


def spans(*speedups: float) -> tuple[Span, ...]:
    return decision(rows(speedup=list(speedups))).spans


def test_the_decision_is_that_of_the_measured_speedups() -> None:
    assert spans(1.46, 1.4, 1.3, 1.09) == (Span(3, BATCHES, "up_to", 1.46, 1.09),)
    assert spans(1.4, 1.2, 1.1, 0.86) == (
        Span(3, BATCHES[:3], "up_to", 1.4, 1.1),
        Span(0, BATCHES[3:], "each", 0.86, 0.86),
    )
    assert spans(1.4, 0.9, 1.1, 0.86)[0] == Span(3, (1.0, 32.0), "each", 1.4, 1.1)
    assert spans(0.7, 0.8, 0.8, 0.86) == (Span(0, BATCHES, "range", 0.7, 0.86),)


def two_k() -> pd.DataFrame:
    """A reader's K = 1 and K = 3 (Qwen3-30B-A3B, EAGLE-3, H100, vLLM): K = 3 gains most at 1 and 8
    and loses at 64."""
    speedup = {
        1: (121 / 92, 798 / 612, 1702 / 1490, 2290 / 2210),
        3: (158 / 92, 890 / 612, 1655 / 1490, 1980 / 2210),
    }
    cells = [
        (batch, k, of[i]) for k, of in speedup.items() for i, batch in enumerate((1, 8, 32, 64))
    ]
    return pd.DataFrame(cells, columns=["batch_size", "draft_tokens_k", "speedup"]).assign(
        decides=True
    )


def test_of_several_k_the_decision_names_each_by_batch_and_none_that_loses() -> None:
    both = decision(two_k())
    assert both.all_gain
    assert [(span.k, span.batches, span.reach) for span in both.spans] == [
        (3, (1.0, 8.0), "up_to"),
        (1, (32.0, 64.0), "range"),
    ]
    assert both.spans[1].first == pytest.approx(1702 / 1490)
    lost = two_k().assign(speedup=lambda rows: rows["speedup"].where(rows["batch_size"] < 64, 0.9))
    assert decision(lost).spans[-1] == Span(0, (64.0,), "each", 0.9, 0.9, (1,))
    assert not decision(lost).all_gain
    assert decision(two_k().head(0)) == NOTHING_DECIDED


def test_own_speedups_name_k_between_their_batches_and_for_one_doubling_above() -> None:
    assert own_schedule(two_k()) == ((1, 24, 3), (25, 82, 1), (83, MAX_BATCH, 0)), (
        "falling on as from 32 to 64"
    )
    end = 64 * 2 ** (math.log(2290 / 2210) / math.log((1702 / 1490) / (2290 / 2210)))
    assert 82 < end < 83
    flat = two_k().assign(
        speedup=lambda rows: rows["speedup"].where(rows["batch_size"] < 64, 1702 / 1490)
    )
    assert own_schedule(flat)[-1][1:] == (128, 1), "held for a doubling"
    slope = [
        math.log(one / two) for one, two in ((798 / 612, 1702 / 1490), (890 / 612, 1655 / 1490))
    ]
    cross = 8 * 4 ** (math.log((890 / 612) / (798 / 612)) / (slope[1] - slope[0]))
    assert 24 < cross < 25, "where the two straight lines meet"
    assert borders(two_k()) == [Border(24, "between", 8, 32), Border(82, "falls", 64)]
    assert own_schedule(two_k().query("batch_size > 1"))[0] == (4, 24, 3), "down to half the first"
    alone = two_k()[two_k()["draft_tokens_k"] == 3]
    assert borders(alone) == [Border(44, "between", 32, 64)]
    assert own_schedule(alone)[-1] == (45, MAX_BATCH, 0), (
        "beyond where K = 3 alone meets 1, and no model is followed"
    )
    assert own_schedule(two_k().assign(decides=False)) == own_schedule(None) == ()
    assert own_schedule(alone.tail(1).assign(batch_size=2.5)) == ((3, MAX_BATCH, 0),)


@pytest.mark.parametrize("batch", [8, 64])
def test_an_engine_is_given_the_k_that_was_measured_to_gain_most_at_every_batch(batch: int) -> None:
    answer = advise(SCENARIO.model_copy(update={"batch_size": batch}))
    served = as_measured(answer, own_schedule(two_k())).to_serve
    assert k_running_at(served, [1, 24, 25, 82, 83, 128, 256]).tolist() == [3, 3, 1, 1, 0, 0, 0]
    to_64 = two_k()["batch_size"].lt(64) & two_k()["draft_tokens_k"].eq(1)
    held = as_measured(answer, own_schedule(two_k()[to_64])).to_serve
    beyond = np.minimum(k_running_at(answer.k_by_batch, [65, 256]), 1)
    assert k_running_at(held, [64, 65, 256]).tolist() == [1, *beyond.tolist()], (
        "the model's, no higher than the last"
    )
    late = as_measured(
        answer, own_schedule(two_k().query("batch_size > 8 and draft_tokens_k == 1"))
    ).to_serve
    assert k_running_at(late, [1, 15, 16, 32]).tolist() == [1, 1, 1, 1], (
        "smaller batches draft no longer than what pays"
    )
    alone = as_measured(answer, own_schedule(two_k()[two_k()["draft_tokens_k"] == 3])).to_serve
    assert k_running_at(alone, [8, 44, 45, 512]).tolist() == (
        [3, 3, 0, 0] if batch == 8 else [0, 0, 0, 0]
    )
    assert as_measured(answer, ()) is answer
    small = as_measured(
        advise(SCENARIO.model_copy(update={"batch_size": 2})), own_schedule(two_k())
    ).to_serve
    assert k_running_at(small, [24, 25]).tolist() == [3, 1], (
        "own runs count where another batch is asked"
    )
