"""The map over batch and context: its cells are advise's, its edge is memory's, and it says where
speculation turns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.cells import ContextMap, context_map
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError
from advisor.show.words.load import acceptance_texts, turn_texts, turns, verdict


def scenario(**values: object) -> Scenario:
    given = {
        "hardware_id": "h200-sxm",
        "model_id": "qwen3-30b-a3b",
        "drafter_id": "eagle3",
        "acceptance": "2.4@3",
    }
    return build_scenario(**given | values)


@pytest.fixture(scope="module")
def found() -> ContextMap:
    return context_map(scenario(batch_size=16, context_tokens=32768, tensor_parallel=2, n_gpus=2))


def test_a_cell_is_what_advise_says_there(found: ContextMap) -> None:
    for context, batch in ((1024, 16), (32768, 4), (32768, 64)):
        row, column = found.at(context, batch)
        answer = advise(
            scenario(batch_size=batch, context_tokens=context, tensor_parallel=2, n_gpus=2)
        ).recommendation
        assert found.n_draft[row, column] == answer.n_draft
        assert found.speedup[row, column] == pytest.approx(answer.speedup.value)
        assert found.low[row, column] == pytest.approx(answer.speedup.low)
        assert found.p_gain[row, column] == pytest.approx(answer.p_gain)


def test_memory_s_edge_is_where_the_largest_batch_ends(found: ContextMap) -> None:
    assert (np.diff(found.largest_batch) < 0).all()
    assert (found.fits == (found.batches[None, :] <= found.largest_batch[:, None])).all()
    for setup, largest in zip(found.setups, found.largest_batch, strict=True):
        memory = setup.memory
        assert (
            memory.total_bytes(int(largest))
            <= memory.usable_bytes
            < memory.total_bytes(int(largest) + 1)
        )


def test_attention_grows_with_context_and_the_drafter_keeps_a_cache_of_its_own(
    found: ContextMap,
) -> None:
    assert (np.diff(found.attention_share, axis=0) > 0).all()
    assert (found.drafter_cache_bytes > 0).all()
    assert (found.drafter_cache_bytes < found.cache_bytes).all()
    layers = sum(mixer.count for mixer in found.setups[0].architecture.mixers)
    assert found.drafter_cache_bytes / found.cache_bytes == pytest.approx(
        1 / (layers + 1)
    )  # one layer like theirs


def planted(found: ContextMap, drafts: list[int]) -> ContextMap:
    """The map with these recommended K by context, at every batch, and everything fitting."""
    table = np.repeat(np.array(drafts)[:, None], found.batches.size, axis=1)
    return dataclasses.replace(found, n_draft=table, fits=np.ones_like(found.fits))


def test_a_turn_is_where_drafting_starts_or_stops_being_recommended_within_memory(
    found: ContextMap,
) -> None:
    rising = turns(planted(found, [0, 0, 1, 2, 3, 3]))
    assert len(rising) == found.batches.size
    assert (rising[0].before, rising[0].after, rising[0].to_gain) == (1, 2, True)
    twice = turns(planted(found, [0, 1, 1, 1, 0, 0]))
    assert [each.to_gain for each in twice if each.batch == 1] == [True, False]
    assert not turns(planted(found, [2, 2, 1, 1, 3, 3]))
    gone = dataclasses.replace(planted(found, [0, 0, 1, 1, 1, 1]), fits=np.zeros_like(found.fits))
    assert not turns(gone)


def test_a_loss_turns_to_a_gain_as_the_cache_outgrows_the_experts() -> None:
    """Verification reads the cache once for all its tokens, experts for each: with context the loss
    fades."""
    real = context_map(
        scenario(
            acceptance="1.22@2",
            k_max=3,
            tensor_parallel=4,
            n_gpus=4,
            batch_size=32,
            context_tokens=1024,
        ),
        (1024, 4096, 16384, 65536),
        (32,),
    )
    assert list(real.n_draft[:, 0] > 0) == [False, False, False, True]
    assert real.verify_ratio[0, 0] > real.verify_ratio[-1, 0]
    (text,) = turn_texts(real)
    assert (
        "At batch 32 speculation turns from a loss to a gain between 16,384 and 65,536 tokens"
        in text
    )
    assert "read once" in text


def test_where_each_token_chooses_entries_of_its_own_nothing_is_said_to_be_read_once() -> None:
    sparse = context_map(
        scenario(
            model_id="minimax-m3", drafter_id="mtp", acceptance="1.6@3", tensor_parallel=8, n_gpus=8
        ),
        (4096, 131072),
        (4,),
    )
    kinds = {mixer.kind for mixer in sparse.setups[0].architecture.mixers}
    assert "sparse" in kinds
    assert "read once" not in " ".join(turn_texts(sparse))


@pytest.mark.parametrize("limit", [None, 7.0])
def test_the_k_that_is_compared_over_context_is_the_k_that_is_printed(limit: float | None) -> None:
    many = context_map(
        scenario(max_tpot_ms=limit, acceptance="0.8,0.7,0.6,0.5", k_max=8, context_tokens=8192)
    )
    drafts = many.n_draft > 0
    assert drafts.any()
    assert (many.drafting_k[drafts] == many.n_draft[drafts]).all()
    assert many.drafting_speedup[drafts] == pytest.approx(many.speedup[drafts])
    row, column = many.at(8192, 16)
    first = many.drafting_speedup[0, column]
    assert many.n_draft[row, column] > 0
    assert f"at 1,024 tokens ({first:.2f}x)" in verdict(many, 8192, 16)


def test_where_no_k_pays_the_best_that_keeps_the_limit_is_told() -> None:
    """With the limit between the times of the drafts, the shortest is what is left."""
    asked = scenario(acceptance="1.05@3", context_tokens=4096, batch_size=64)
    times_ms = curve_for(load_setup(asked), [64.0]).tpot_s[0] * 1e3
    first, second = sorted(times_ms[1:])[:2]
    limited = asked.model_copy(update={"max_tpot_ms": float(first + second) / 2})
    found = context_map(limited, (4096,), (64,))
    row, column = found.at(4096, 64)
    assert found.n_draft[row, column] == 0
    assert times_ms[found.drafting_k[row, column]] == pytest.approx(first)
    assert f"its best, K = {found.drafting_k[row, column]}," in verdict(found, 4096, 64)


def test_the_verdict_at_a_context_that_does_not_fit_names_the_edge_and_what_fits() -> None:
    big = context_map(scenario(batch_size=256, context_tokens=131072), batches=(1, 4))
    text = verdict(big, 131072, 256)
    assert "does not fit" in text
    assert "the largest batch that does is" in text
    assert "batch 4" in text


def test_plain_decoding_is_told_as_such_and_what_is_known_of_acceptance_over_context(
    found: ContextMap,
) -> None:
    plain = context_map(scenario(drafter_id="none"), (1024,), (1,))
    assert "nothing is drafted" in verdict(plain, 2048, 16)
    assert turn_texts(plain) == ("Nothing is drafted, so nothing turns.",)
    assert acceptance_texts(plain) == ()
    assert "nothing was measured" in acceptance_texts(found)[0]
    mtp = context_map(
        scenario(model_id="deepseek-v3", drafter_id="mtp", tensor_parallel=8, n_gpus=8),
        (1024,),
        (1,),
    )
    assert "131,072 tokens" in acceptance_texts(mtp)[0]


@pytest.mark.parametrize(
    ("contexts", "batches", "expected"),
    [
        ((0,), (1,), "contexts"),
        ((20_000_000,), (1,), "contexts"),
        ((1,), (0,), "batches"),
        (tuple(range(1, 200)), tuple(range(1, 200)), "too many"),
    ],
)
def test_axes_out_of_range_are_refused(
    contexts: tuple[int, ...], batches: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(AdvisorError, match=expected):
        context_map(scenario(), contexts, batches)


def test_prefill_is_not_charged_on_the_map() -> None:
    with_lengths = context_map(
        scenario(input_tokens=4000, output_tokens=100, context_tokens=4050), (8192,), (16,)
    )
    without = context_map(scenario(context_tokens=4050), (8192,), (16,))
    assert with_lengths.tpot_s == pytest.approx(without.tpot_s)
