"""Own runs against the model: parts that multiply to the gap, and the verdict with the step that
follows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.advice import advise
from advisor.answers.best_k import k_running_at
from advisor.answers.own_gap import (
    OwnVerdict,
    as_measured,
    border_texts,
    decision_text,
    drafts_of,
    own_schedule,
    own_verdict,
    rows_to_compare,
    verdict_text,
    verdict_title,
)
from advisor.measured.ingest.columns import COLUMNS
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH

SCENARIO = Scenario(acceptance="2.7@3", context_tokens=2048)
ADVICE = advise(SCENARIO)
BATCHES = [1, 8, 32, 128]
GAIN = float(ADVICE.curve.speedup[ADVICE.curve.batches == BATCHES[-1], ADVICE.curve.column(3)][0])


def rows(
    plain: float = 1.0, length: float = 1.0, whole: float = 1.0, k: int = 3, **cells: object
) -> pd.DataFrame:
    """CONSTRUCTED rows: the model's own values at BATCHES times these factors; `None` as a cell
    leaves it empty."""
    curve = ADVICE.curve
    column = ADVICE.curve.column(k)
    at = [int(np.flatnonzero(curve.batches == batch)[0]) for batch in BATCHES]
    speedup = curve.speedup[at, column] * whole
    values: dict[str, object] = {
        "hardware_id": SCENARIO.hardware_id,
        "model_id": SCENARIO.model_id,
        "engine": SCENARIO.engine,
        "gpu_count": SCENARIO.n_gpus,
        "draft_tokens_k": k,
        "drafter": SCENARIO.drafter_id,
        "batch_size": [float(batch) for batch in BATCHES],
        "speedup": speedup,
        "tpot_s": curve.tpot_s[at, 0] * plain / speedup,
        "accepted_length": float(curve.accepted_length[column]) * length,
    }
    found = pd.DataFrame(values).reindex(columns=list(COLUMNS["points"]))
    found = found.assign(**{name: cell for name, cell in cells.items() if cell is not None})
    return found.assign(**{name: np.nan for name, cell in cells.items() if cell is None})


def verdict(frame: pd.DataFrame) -> OwnVerdict:
    kept, why = rows_to_compare(ADVICE, frame)
    assert why == ""
    return own_verdict(ADVICE, kept)


@given(
    *[st.floats(0.4, 2.5)] * 3,
    st.sampled_from([(), ("tpot_s",), ("accepted_length",), ("tpot_s", "accepted_length")]),
)
def test_the_plain_step_and_the_length_that_rows_state_are_told_from_the_gap(
    plain: float, length: float, whole: float, unknown: tuple[str, ...]
) -> None:
    found = verdict(rows(plain, length, whole, **dict.fromkeys(unknown)))
    assert found.gap == pytest.approx(whole)
    assert found.plain_step == pytest.approx(1.0 if "tpot_s" in unknown else plain)
    assert found.gap_with_own_length == pytest.approx(
        whole if "accepted_length" in unknown else whole / length
    )


def test_a_plain_step_far_off_is_named_before_the_speedup_and_one_near_by_its_share() -> None:
    far = verdict(rows(plain=2.9, whole=1.3))
    near = verdict(rows(plain=1.3, whole=1.3))
    assert verdict_title(far) == "Your plain step takes 2.9 times as long as predicted"
    assert verdict_text(far).startswith(
        "Check model, GPUs, weight format and batch. Your speedup is 30% higher"
    )
    assert verdict_title(near) == "Your step without drafts takes 30% longer than predicted"
    assert (
        verdict_title(verdict(rows(plain=0.4, whole=1.3)))
        == "Your plain step takes 40% of the time predicted"
    )


@pytest.mark.parametrize(
    ("plain", "length", "whole", "kind"),
    [
        (1.0, 1.0, 0.95, "agree"),
        (1.3, 0.7, 1.05, "agree"),
        (1.05, 0.81, 0.80, "accepted_length"),
        (1.3, 0.81, 0.80, "accepted_length"),
        (1.0, 1.2, 1.25, "accepted_length"),
        (1.0, 0.875, 0.80, "accepted_length"),  # 0.6 of the gap's logarithm
        (1.0, 0.905, 0.80, "slower"),  # 0.45 of it
        (1.0, 0.64, 0.45, "slower"),  # 0.56 of it, and the rest is 30 %
        (1.2, 1.0, 0.80, "plain_step"),
        (0.8, 0.95, 0.80, "plain_step"),
        (1.0, 1.0, 0.80, "slower"),
        (1.1, 1.3, 0.80, "slower"),
        (1.0, 1.0, 1.20, "faster"),
    ],
)
def test_the_verdict_takes_the_first_reason_in_order(
    plain: float, length: float, whole: float, kind: str
) -> None:
    assert verdict(rows(plain, length, whole)).kind == kind


@pytest.mark.parametrize(
    ("cells", "kind", "title", "text"),
    [
        (
            {"whole": np.array([0.74, 0.9, 1.1, 1.26])},
            "mixed",
            "errs one way",
            "-26% at batch 1 to +26% at batch 128",
        ),
        (
            {"whole": np.array([1.05, 0.97, 1.02, 0.96])},
            "agree",
            "agree with",
            "on average, -4% at batch 128 to +5%",
        ),
        ({"plain": 4.9}, "plain_step", "takes 4.9 times as long as predicted", "Check model, GPUs"),
        (
            {"whole": np.array([(GAIN / 0.97) ** (1 / 3)] * 3 + [0.97 / GAIN])},
            "mixed",
            "lose at batch 128 where a gain is predicted",
            "4 rows at K = 3",
        ),
    ],
)
def test_agreement_is_not_claimed_of_opposite_errors_losses_or_another_server(
    cells: dict[str, object], kind: str, title: str, text: str
) -> None:
    found = verdict(rows(**cells))
    assert (found.kind, title in verdict_title(found), text in verdict_text(found)) == (
        kind,
        True,
        True,
    )


def test_with_the_own_accepted_length_the_model_says_what_the_verdict_promised() -> None:
    found = verdict(rows(1.0, 0.8, 0.78))
    assert found.own_length is not None
    then = advise(SCENARIO.model_copy(update={"acceptance": f"{found.own_length:.6f}@3"}))
    again = own_verdict(then, rows_to_compare(then, rows(1.0, 0.8, 0.78))[0])
    assert again.gap == pytest.approx(found.gap_with_own_length, rel=1e-3)
    assert again.kind == "agree"


def test_plain_steps_alone_are_judged_as_plain_steps() -> None:
    curve = ADVICE.curve
    at = [int(np.flatnonzero(curve.batches == batch)[0]) for batch in BATCHES]
    found = verdict(
        rows(draft_tokens_k=0, speedup=None, drafter=None, tpot_s=curve.tpot_s[at, 0] * 1.2)
    )
    assert (found.n_draft, found.kind) == (0, "plain_step")
    assert found.gap == pytest.approx(1.2)


def test_the_k_with_most_rows_is_judged_first_and_any_can_be_asked() -> None:
    both = pd.concat([rows(whole=0.8), rows(whole=1.0, k=2).head(2)], ignore_index=True)
    kept, _ = rows_to_compare(ADVICE, both)
    assert drafts_of(kept) == [3, 2]
    assert own_verdict(ADVICE, kept).n_draft == 3
    assert own_verdict(ADVICE, kept, 2).kind == "agree"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"model_id": "deepseek-v3"}, "No row is of"),
        ({"drafter": "mtp"}, "drafter is mtp"),
        ({"draft_tokens_k": 40}, "within the curve, K = 0 to 8 and batch 1 to 1,024."),
        ({"speedup": None}, "No row has a speedup"),
    ],
)
def test_rows_that_cannot_be_compared_say_why(cells: dict[str, object], words: str) -> None:
    kept, why = rows_to_compare(ADVICE, rows(**cells))
    assert not len(kept)
    assert words in why


def test_rows_of_the_drafter_within_the_curve_are_kept_whatever_stands_beside_a_plain_one() -> None:
    ends = [float(ADVICE.curve.batches[0]), float(ADVICE.curve.batches[-1])]
    inside = [
        rows().head(2).assign(batch_size=ends),
        rows(draft_tokens_k=0, drafter="mtp", speedup=None).head(1),
    ]
    outside = [{"drafter": "mtp"}, {"draft_tokens_k": 40}, {"batch_size": 2 * ends[1]}]
    every = [*inside, *(rows(**cells).head(1) for cells in outside)]
    kept, why = rows_to_compare(ADVICE, pd.concat(every, ignore_index=True))
    assert (kept.index.tolist(), why) == ([0, 1, 2], "")


def test_the_k_of_speedups_go_before_plain_steps_and_those_before_rounds() -> None:
    k = [0, 0, 0, 1, 1, 3, 2, 2, 2, 2]
    speedup = [1.0, 1.0, 1.0, 1.2, 1.3, 1.5, *[np.nan] * 4]
    frame = pd.DataFrame({"draft_tokens_k": k, "speedup": speedup})
    timed = frame.assign(speedup=np.nan)
    assert [drafts_of(each) for each in (frame, timed, timed[3:])] == [[1, 3], [0], [2, 1, 3]]


def test_another_context_is_noted() -> None:
    assert [verdict(rows(context_tokens=each)).own_context for each in (512.0, 1.0)] == [512, 1]
    assert verdict(rows(context_tokens=2200.0)).own_context is None


@pytest.mark.parametrize(("factor", "kind"), [(1.3, "slower"), (0.8, "faster")])
def test_rounds_without_a_speedup_are_judged_by_their_time(factor: float, kind: str) -> None:
    curve = ADVICE.curve
    column = ADVICE.curve.column(3)
    at = [int(np.flatnonzero(curve.batches == batch)[0]) for batch in BATCHES]
    slow = rows(
        speedup=None,
        tpot_s=None,
        accepted_length=None,
        step_time_s=curve.round_s[at, column] * factor,
    )
    found = verdict(slow)
    assert (found.quantity, found.n_draft, found.kind) == ("round_s", 3, kind)
    assert found.gap == pytest.approx(factor)
    alike = verdict(slow.assign(step_time_s=curve.round_s[at, column]))
    assert verdict_text(alike).startswith("Your rounds take as long as predicted (4 rows at K = 3)")


def test_the_decision_is_that_of_the_measured_speedups() -> None:
    def said(*speedups: float) -> str:
        return decision_text(rows().assign(speedup=speedups, tpot_s=None))

    assert said(1.46, 1.4, 1.3, 1.09) == "Keep K = 3 up to batch 128 (measured 1.46x to 1.09x)."
    mixed = said(1.4, 1.2, 1.1, 0.86)
    assert mixed.startswith(
        "Keep K = 3 up to batch 32 (measured 1.40x to 1.10x). Switch speculation off at batch 128 ("
    )
    assert "at batch 1, 32 (measured 1.40x to 1.10x)" in said(1.4, 0.9, 1.1, 0.86)
    lost = said(0.7, 0.8, 0.8, 0.86)
    assert lost == "Switch speculation off at batch 1 to 128 (measured 0.70x to 0.86x)."


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
    assert decision_text(two_k()) == (
        "Keep K = 3 up to batch 8 (measured 1.72x to 1.45x) and K = 1 at batch 32 to 64 (measured "
        "1.14x to 1.04x): so switched, no batch of yours loses."
    )
    lost = two_k().assign(speedup=lambda rows: rows["speedup"].where(rows["batch_size"] < 64, 0.9))
    assert decision_text(lost).endswith(
        "K = 1 at batch 32 (measured 1.14x). Switch speculation off at batch 64 (measured 0.90x "
        "at best, K = 1)."
    )
    assert decision_text(two_k().head(0)) == ""


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
    fall = {82: "where your speedup, falling on beyond 64, reaches 1x"}
    assert border_texts(two_k()) == {24: "interpolated between your 8 and 32"} | fall
    assert own_schedule(two_k().query("batch_size > 1"))[0] == (4, 24, 3), "down to half the first"
    alone = two_k()[two_k()["draft_tokens_k"] == 3]
    assert border_texts(alone) == {44: "interpolated between your 32 and 64"}
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
