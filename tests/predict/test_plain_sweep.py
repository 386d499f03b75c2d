"""A user's own plain decoding over batches: read, held against the model, and used for
verification."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.physics.notes import Rank
from advisor.predict.curve import Curve, curve_for, held_sweep
from advisor.predict.load import load_setup
from advisor.predict.plain_sweep import (
    HeldSweep,
    PlainSweep,
    not_of,
    parse_sweep,
    sweep_factors,
    swept,
    write_sweep,
)
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError, Array
from advisor.show.explain.round import derive
from advisor.show.phrases.notes import note_text, note_texts
from tests.golden.sentences import Golden, lines_with

ASKED = build_scenario(
    hardware_id="h200-sxm",
    model_id="qwen3-30b-a3b",
    drafter_id="eagle3",
    acceptance="3.2@5",
    batch_size=128,
)
BATCHES = np.array([1.0, 8, 64, 128, 256, 512, 513, 1024])


def with_sweep(factor: Callable[[Array], Array], scenario: Scenario = ASKED) -> Scenario:
    """The scenario with the model's own plain steps times a factor by batch, as if measured."""
    plain = curve_for(load_setup(scenario), BATCHES, [0], central_only=True).plain_step_s
    text = write_sweep(vars(scenario), BATCHES.tolist(), (plain * factor(BATCHES)).tolist())
    return scenario.model_copy(update={"plain_sweep": text})


def curve(scenario: Scenario, batches: list[int] | None = None) -> Curve:
    return curve_for(load_setup(scenario), batches or [1, 16, 128, 256])


def held(*ratio: float) -> HeldSweep:
    """A sweep at batches 1, 4, 16, 64, its steps predicted to take 1, 2, 3, 4 s."""
    predicted = np.arange(1.0, 5.0)
    return HeldSweep(PlainSweep((), 2048, 4.0 ** np.arange(4), predicted * ratio), predicted)


def test_a_sweep_beside_predictions_by_hand(golden: Golden) -> None:
    found = held(0.8, 0.8, 1.25, 1.25)
    assert found.ratio == pytest.approx([0.8, 0.8, 1.25, 1.25])
    assert found.scatter == pytest.approx(np.log(1.25))
    assert not found.steady
    golden(not_steady=lines_with(note_text(found.note_at(8)), "is not"))
    notes = []
    for rise, jumps in ((1.51, ((16, 64, 1.51 * 4 / 3),)), (1.49, ())):
        found = held(0.9, 0.9, 0.9, 0.9 * rise)
        assert found.steady
        assert [each[:2] for each in found.jumps] == [each[:2] for each in jumps]
        assert [each[2] for each in found.jumps] == pytest.approx([each[2] for each in jumps])
        assert found.ratio_at([0.5, 4, 32, 128]) == pytest.approx(
            [0.9, 0.9, 0.9 * rise**0.5, 0.9 * rise]
        )
        notes += lines_with(note_text(found.note_at()), "batch 1")
        assert (
            "rounds of up to 64 tokens the mean of both; it jumps 2 times from 16 to 64"
            in note_text(found.note_at())
        ) == bool(jumps)
    golden(lies=notes)
    beyond = [held(1.0, 1.0, 1.0, 2.0).note_at(batch).facts["beyond_k"] for batch in (5, 16, 100)]
    assert beyond == [3, 1, 1]
    assert note_text(held(1.0, 1.0, 1.0, 2.0).note_at(5)).endswith(
        "At batch 5 K = 3 and more run beyond it."
    )
    level = held(1.0, 1.0, 1.0, 1.0)
    assert level.note_at() == level.note_at(5)
    assert "lies 0% above" in note_text(level.note_at())
    assert [each[:2] for each in held(0.6, 1.0, 1.0, 1.0).jumps] == [(1, 4)]


def test_factors_by_hand_inside_the_sweep_and_beyond_its_last_batch() -> None:
    def step_s(batch: Array, tokens: Array) -> Array:
        return batch * (1.0 + tokens)

    found = held(0.9, 0.9, 1.0, 1.0)
    plain, verify = sweep_factors(found, step_s, np.array([4.0, 64.0, 128.0]), np.array([1.0, 4.0]))
    assert plain == pytest.approx([0.9, 1.0, 1.0])
    mean = 0.9 * ((1.0 * 16 * 2) / (0.9 * 4 * 5)) ** 0.5
    assert verify == pytest.approx(np.array([[0.9, mean], [1.0, 1.0], [1.0, 1.0]]))
    plain, verify = sweep_factors(
        held(0.8, 0.8, 1.25, 1.25), step_s, np.array([4.0, 64.0]), np.array([1.0, 4.0, 8.0])
    )
    assert (plain.tolist(), verify.tolist()) == ([1.0] * 2, [[1.0] * 3] * 2), "not steady"


def test_beyond_a_jump_the_sweep_is_believed_alone_and_else_the_mean_of_both() -> None:
    assert swept(np.array([4.0, 4.0]), 9.0, np.array([1.5, 1.51])) == pytest.approx([1.5, 2.25])


def line(batches: list[float], context: int = 2048, ms: float = 5.0) -> str:
    return f"{'x/' * 12}{context}:" + ",".join(f"{one:g}={ms!r}" for one in batches)


@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        (line([1, 2, 3]), line([1, 2])),
        (line(list(range(1, 65))), line(list(range(1, 66)))),
        (line([1, 2, 3], context=1), line([1, 2, 3], context=0)),
        (line([1, 2, 3], ms=1e6), line([1, 2, 3], ms=1e6 + 0.5)),
        (line([1, 2, 3], ms=1e-3), line([1, 2, 3], ms=0)),
        (line([1, 2, 2.5]), line([1, 2, 2])),
        (line([1, 2, 3]), line([0.5, 2, 3])),
        (line([1, 2, 3]), line([1, 2, 3])[2:]),
        (line([1, 2, 3]), line([1, 2, 3]).replace("5.0", "5.0=5.0")),
    ],
)
def test_a_sweep_is_read_up_to_its_limits_and_refused_beyond(taken: str, refused: str) -> None:
    assert parse_sweep(taken).step_s == pytest.approx(float(taken.rpartition("=")[2]) / 1e3)
    with pytest.raises(AdvisorError, match="plain_sweep"):
        parse_sweep(refused)
    with pytest.raises(AdvisorError, match="its form is MODEL_ID/CHECKPOINT/HARDWARE_ID/"):
        parse_sweep("x")
    named = write_sweep(vars(ASKED) | {"model_id": "a/b:c"}, [1, 2, 3], [1, 1, 1])
    assert parse_sweep(named).of[0] == "a_b_c"


def test_a_sweep_holds_for_contexts_up_to_twice_as_long_or_short() -> None:
    sweep = parse_sweep(with_sweep(np.ones_like).plain_sweep or "")
    for context, holds in ((1024, True), (1023, False), (4096, True), (4097, False)):
        assert (not_of(sweep, vars(ASKED) | {"context_tokens": context}) == "") == holds


def test_a_sweep_as_predicted_moves_plain_steps_by_nothing_and_rounds_little() -> None:
    own = curve(with_sweep(np.ones_like))
    model = curve(ASKED)
    np.testing.assert_allclose(own.plain_step_s, model.plain_step_s, rtol=2e-3)
    # Beside B sequences a round reads less cache than B (K + 1) plain ones, and touches fewer
    # experts.
    assert np.all(own.round_s[:, 1:] > 0.8 * model.round_s[:, 1:])
    assert np.all(own.round_s[:, 0] == own.plain_step_s)


def test_a_sweep_that_is_slower_throughout_moves_target_steps_alone() -> None:
    once = curve(with_sweep(np.ones_like))
    twice = curve(with_sweep(lambda batch: 2.0 + 0.0 * batch))
    np.testing.assert_allclose(twice.plain_step_s, 2.0 * once.plain_step_s, rtol=2e-3)
    np.testing.assert_allclose(twice.verify_step_s, 2.0 * once.verify_step_s, rtol=2e-3)
    np.testing.assert_allclose(twice.round_components["draft"], once.round_components["draft"])
    # Drafting counts half as much: speculation gains more.
    assert np.all(twice.speedup[:, 1:] > once.speedup[:, 1:])


def test_a_cliff_at_512_tokens_is_foreseen_before_any_drafter_runs() -> None:
    def cliff(batch: Array) -> Array:
        return np.where(batch > 512, 2.5, 1.0)

    loaded = ASKED.model_copy(
        update={
            "hardware_id": "b200-sxm",
            "model_id": "gpt-oss-120b",
            "batch_size": 96,
            "acceptance": "5.5@7",
        }
    )
    smooth = advise(with_sweep(np.ones_like, loaded))
    cut = advise(with_sweep(cliff, loaded))
    # 96 x 6 tokens lie beyond the cliff, 96 x 5 do not.
    assert smooth.recommendation.n_draft > 4
    assert cut.recommendation.n_draft == 4
    # What stays below the cliff is as it was; beyond the last measured batch the cliff stays.
    at = cut.batch_index
    columns = range(5)
    np.testing.assert_allclose(
        cut.curve.speedup[at, columns], smooth.curve.speedup[at, columns], rtol=2e-3
    )
    assert np.all(cut.curve.speedup[at, 5:] < 0.6 * smooth.curve.speedup[at, 5:])
    used = next(note for note in cut.notes if note.kind == "sweep_used")
    assert used.facts["jumps"][0][:2] == (512, 513)
    assert (used.facts["batch"], used.facts["beyond_k"]) == (96, 5)
    assert all(
        (item.n_draft + 1) * item.batch_start <= 512
        for item in cut.k_by_batch
        if item.batch_start <= 256
    )


def test_a_sweep_that_is_not_steady_is_told_and_not_used() -> None:
    scenario = with_sweep(lambda batch: np.where(np.arange(len(batch)) % 2, 1.4, 0.8))
    np.testing.assert_array_equal(curve(scenario).speedup, curve(ASKED).speedup)
    assert [note.kind for note in advise(scenario).notes if note.rank is Rank.OWN] == [
        "sweep_unsteady"
    ]


def test_a_sweep_of_another_scenario_is_told_and_not_used(golden: Golden) -> None:
    moved = with_sweep(np.ones_like).model_copy(
        update={"hardware_id": "b200-sxm", "context_tokens": 8192}
    )
    setup = load_setup(moved)
    assert setup.sweep is None
    golden(plain_sweep=lines_with(note_texts(setup.notes), "Your plain"))
    bare = curve(moved.model_copy(update={"plain_sweep": None}))
    np.testing.assert_array_equal(curve(moved).speedup, bare.speedup)


def test_prompts_between_two_tokens_are_part_of_the_measured_time() -> None:
    loaded = build_scenario(
        **ASKED.model_dump()
        | {"input_tokens": 2000, "output_tokens": 200, "context_tokens": 2048, "plain_sweep": None}
    )
    tpot = curve_for(load_setup(loaded), BATCHES, [0], central_only=True).tpot_s[:, 0]
    text = write_sweep(vars(loaded), BATCHES.tolist(), tpot.tolist())
    held = held_sweep(load_setup(loaded.model_copy(update={"plain_sweep": text})))
    np.testing.assert_allclose(held.ratio, 1.0, rtol=1e-3)


def test_the_derivation_arrives_at_the_curves_speedup() -> None:
    scenario = with_sweep(lambda batch: 1.1 + 0.1 * (batch > 100))
    for k in (0, 3):
        made = derive(load_setup(scenario), 128.0, k)
        found = curve_for(load_setup(scenario), [128.0], [k])
        assert made.step("speedup").result.value == pytest.approx(found.speedup[0, 0])
        assert made.step("round").result.value == pytest.approx(found.round_s[0, 0])


def test_the_band_holds_the_curve_and_is_that_of_the_model() -> None:
    own = curve(with_sweep(lambda batch: 1.2 + 0.0 * batch))
    model = curve(ASKED)
    assert np.all((own.low <= own.speedup) & (own.speedup <= own.high))
    width = [(each.high - each.low)[:, 1:] / each.speedup[:, 1:] for each in (own, model)]
    np.testing.assert_allclose(width[0], width[1], rtol=0.15)


def test_a_sweep_goes_through_text_link_and_hash() -> None:
    scenario = with_sweep(np.ones_like)
    assert Scenario.from_query(scenario.to_query()) == scenario
    assert scenario.hash != ASKED.hash
    np.testing.assert_array_equal(parse_sweep(scenario.plain_sweep or "").batches, BATCHES)
