"""The leaderboard: the search finds the best, K is what every command recommends, and ranks carry
their doubt.

Accepted lengths on another kind of text: own curves of that kind first, borrowed heads carried one
by one.
"""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import recommended_draft
from advisor.answers.by_batch import BatchHistogram
from advisor.answers.explore.entrants import (
    Entrant,
    ModelFilter,
    RankQuestion,
    borrowed_heads,
    entrants_of,
    load_as_text,
    load_from_text,
    one_load,
    question_of,
    users_of,
)
from advisor.answers.explore.leaderboard import (
    ExcludedModel,
    Leaderboard,
    Standing,
    _copies,
    _options,
    _placements,
    best_placement,
    board_draws,
    leaderboard,
    mean_over_tokens,
    times_under_draws,
)
from advisor.catalog.hardware import model_name
from advisor.catalog.models import model_profile
from advisor.catalog.task_transfer import carried
from advisor.physics.acceptance import load_acceptance_curve, parse_acceptance
from advisor.physics.bands import make_draws, rank_range, ranks
from advisor.physics.step import Placement
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup, with_placement
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import note_texts
from advisor.show.words.leaderboard import by_size, own_place, quality_text


def question(
    users: int | BatchHistogram = 64, n_gpus: int = 8, by: str = "cost", **given: object
) -> RankQuestion:
    shape = {field.name for field in dataclasses.fields(RankQuestion)}
    extra = {name: given.pop(name) for name in list(given) if name in shape}
    scenario = build_scenario(
        **{"hardware_id": "h200-sxm", "n_gpus": n_gpus, "drafter_id": "none", "acceptance": "0"}
        | given
    )
    return RankQuestion(scenario, one_load(users) if isinstance(users, int) else users, by, **extra)


def named(*names: str, **sizes: float) -> ModelFilter:
    return ModelFilter(names, **sizes)


SOME = named(
    "qwen3-30b-a3b",
    "gpt-oss-120b",
    "deepseek-v3",
    "llama-3.1-8b",
    "qwen3.5-35b-a3b",
    "qwen3.5-397b-a17b",
)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return leaderboard(question(max_tpot_ms=20.0, wanted=SOME))


def by_name(found: Leaderboard, name: str) -> Standing:
    return next(one for one in found.standings if one.name == name)


def test_the_order_is_by_what_was_asked_and_every_figure_has_a_band(board: Leaderboard) -> None:
    costs = [one.usd_per_million.value for one in board.standings]
    assert costs == sorted(costs)
    assert [one.rank for one in board.standings] == list(range(1, len(costs) + 1))
    for one in board.standings:
        for value in (
            one.speedup,
            one.tpot_s,
            one.tokens_per_s_per_gpu,
            one.usd_per_million,
            one.joules_per_token,
        ):
            assert value.low <= value.value <= value.high
        assert one.tpot_s.value <= 0.020
        assert one.rank_low <= one.rank <= one.rank_high
        assert 0 < one.memory_share <= 1.0
        assert (one.tpot_s.because == "dense kernels") == one.name.startswith("llama")
    assert sum(one.p_first for one in board.standings) == pytest.approx(1.0)


def test_cost_is_the_price_of_the_gpus_in_use_over_their_tokens(board: Leaderboard) -> None:
    for one in board.standings:
        tokens_per_s = 64 / one.tpot_s.value
        paid = 3.5 / 3600 * one.gpus
        assert one.usd_per_million.value == pytest.approx(paid / tokens_per_s * 1e6, rel=0.05)
        assert one.tokens_per_s_per_gpu.value == pytest.approx(tokens_per_s / one.gpus, rel=0.05)


@pytest.mark.parametrize(("by", "figure"), [("speed", "tpot_s"), ("energy", "joules_per_token")])
def test_the_first_has_the_least_of_what_is_asked_and_the_best_chance_of_it(
    by: str, figure: str
) -> None:
    found = leaderboard(question(64, by=by, wanted=SOME)).standings
    values = [getattr(one, figure).value for one in found]
    assert values == sorted(values)
    assert found[0].p_first == max(one.p_first for one in found)
    assert sum(one.p_first for one in found) == pytest.approx(1.0), (
        "one of them is first in every draw"
    )
    assert found[0].p_first > 2.0 / len(found)


@pytest.mark.parametrize("by", ["cost", "speed"])
def test_the_search_finds_what_trying_everything_finds(by: str) -> None:
    asked = question(24, by=by, max_tpot_ms=30.0)
    for name in ("qwen3-30b-a3b", "qwen3.5-35b-a3b"):
        found = best_placement(entrants_of(name, None, asked), asked)
        assert not isinstance(found, ExcludedModel)
        entrant = entrants_of(name, None, asked)[0]
        tried = {}
        for tensor in (1, 2, 4, 8):
            setup = with_placement(entrant.setup, Placement(tensor, 1))
            for copies in {1, 2, 4, 8} & set(range(1, 8 // tensor + 1)):
                batch = math.ceil(24 / copies)
                scenario = setup.scenario.model_copy(update={"batch_size": batch})
                curve = curve_for(dataclasses.replace(setup, scenario=scenario), [batch])
                k = recommended_draft(setup, curve, 0)
                token = float(curve.tpot_s[0, k])
                if token <= 0.030:
                    tried[tensor, copies] = token * (1.0 if by == "speed" else tensor * copies)
        assert (found.setup.placement.tensor_parallel, found.copies) == min(
            tried, key=lambda each: tried[each]
        )


def test_a_placed_setup_is_the_one_that_loading_gives() -> None:
    base = {
        "hardware_id": "h200-sxm",
        "model_id": "qwen3-30b-a3b",
        "acceptance": "2.4@3",
        "n_gpus": 8,
    }
    moved = with_placement(load_setup(build_scenario(**base)), Placement(4, 4))
    loaded = load_setup(build_scenario(**base, tensor_parallel=4, expert_parallel=4))
    assert moved == dataclasses.replace(loaded, acceptance=moved.acceptance)
    with pytest.raises(AdvisorError, match="does not divide"):
        with_placement(moved, Placement(1, 3))


def test_more_users_than_fit_in_one_copy_are_spread_over_several() -> None:
    found = leaderboard(
        question(512, by="throughput", context_tokens=8192, wanted=named("llama-3.1-8b"))
    )
    one = found.standings[0]
    assert one.gpus > 4  # 512 caches of a gigabyte each, of 136 GB usable
    assert one.memory_share <= 1.0
    assert one.gpus <= 8


def test_a_gpu_that_cannot_be_used_is_paid_with_the_whole_machine() -> None:
    wanted = named("glm-4.5-air")  # needs two of three
    used = leaderboard(question(8, n_gpus=3, wanted=wanted, whole_machine=False)).standings[0]
    paid = leaderboard(question(8, n_gpus=3, wanted=wanted, whole_machine=True)).standings[0]
    assert used.gpus == paid.gpus == 2
    assert paid.usd_per_million.value == pytest.approx(1.5 * used.usd_per_million.value)


def test_a_histogram_of_one_load_is_that_load_and_a_mixed_one_lies_between() -> None:
    wanted = named("qwen3-30b-a3b")
    cost = {
        text: leaderboard(
            question(BatchHistogram.from_text(text), wanted=wanted, n_gpus=1)
        ).standings[0]
        for text in ("8:1", "8:3", "64:1", "8:1,64:1")
    }
    assert cost["8:1"].usd_per_million.value == pytest.approx(cost["8:3"].usd_per_million.value)
    mixed = cost["8:1,64:1"].usd_per_million.value
    assert cost["64:1"].usd_per_million.value < mixed < cost["8:1"].usd_per_million.value
    rate = np.mean([cost[text].tokens_per_s_per_gpu.value for text in ("8:1", "64:1")])
    assert cost["8:1,64:1"].tokens_per_s_per_gpu.value == pytest.approx(rate)
    assert len(cost["8:1,64:1"].drafts) == 2


def test_a_mean_over_two_loads_weighs_by_the_tokens_that_each_writes() -> None:
    asked = question(BatchHistogram.from_text("2:1,8:3"))
    # A quarter of the time 2 / 0.01 s = 200 tokens a second, three quarters 8 / 0.02 s = 400: one
    # token in seven.
    found = mean_over_tokens(asked, np.array([0.01, 0.02]), np.array([7.0, 14.0]))
    assert found == pytest.approx((1 * 7.0 + 6 * 14.0) / 7)


def test_copies_share_the_users_and_none_of_them_holds_more_than_fits() -> None:
    asked = question(BatchHistogram.from_text("3:1,1000:1"), by="throughput")
    found = _options(entrants_of("llama-3.1-8b", None, asked)[0], asked)
    assert not isinstance(found, ExcludedModel)
    assert 8 in {one.copies for one in found}
    for one in found:
        assert one.batches.tolist() == [math.ceil(3 / one.copies), math.ceil(1000 / one.copies)]
        assert one.batches.max() <= one.placed.memory.largest_batch
        assert one.copies * one.placed.placement.gpus <= 8


def test_a_model_that_cannot_be_served_leaves_those_after_it_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(name: str, *rest: object) -> list[Entrant]:
        if name == "gpt-oss-20b":
            raise AdvisorError("no kernels")
        return entrants_of(name, *rest)

    monkeypatch.setattr("advisor.answers.explore.leaderboard.entrants_of", refused)
    found = leaderboard(question(8, wanted=named("gpt-oss-20b", "qwen3-30b-a3b")))
    assert [one.name for one in found.standings] == ["qwen3-30b-a3b"]
    assert [(one.name, one.error) for one in found.missed] == [("gpt-oss-20b", "no kernels")]


def test_every_drafter_of_a_model_is_tried_in_any_order() -> None:
    asked = question(8)
    every = [one for one in entrants_of("gpt-oss-20b", None, asked) if one.accepted != "none"]
    assert len(every) > 1
    alone = [best_placement([one], asked) for one in every]
    least = min(
        float(one.token_s[0]) * one.gpus for one in alone if not isinstance(one, ExcludedModel)
    )
    for order in (every, every[::-1]):
        best = best_placement(order, asked)
        assert not isinstance(best, ExcludedModel)
        assert float(best.token_s[0]) * best.gpus == pytest.approx(least)


def test_ranks_by_hand() -> None:
    values = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 3.0, 2.0]])
    found = ranks(values)
    assert found.tolist() == [[1, 2, 3], [2, 1, 3], [1, 3, 2]]
    low, high = rank_range(np.repeat(found, 10, axis=0))
    assert low.tolist() == [1, 1, 2]
    assert high.tolist() == [2, 3, 3]
    assert [int(end[0]) for end in rank_range(np.arange(1, 101)[:, None])] == [11, 90]


def test_errors_of_the_machine_are_shared_and_those_of_a_model_are_its_own() -> None:
    costs = load_setup(build_scenario(model_id="qwen3-30b-a3b", acceptance="2.4@3")).costs
    one = board_draws(costs, "one")
    other = board_draws(costs, "other")
    for name in one.factor:
        same = np.allclose(one.factor[name], other.factor[name])
        assert same == (name != "routed"), name
    assert abs(np.corrcoef(one.acceptance_z, other.acceptance_z)[0, 1]) < 0.3
    assert abs(np.corrcoef(one.factor["routed"], other.factor["routed"])[0, 1]) < 0.3
    assert np.allclose(one.factor["host"], make_draws(costs).factor["host"])


def test_a_model_against_itself_under_another_name_is_a_coin_s_toss_not_a_certainty() -> None:
    asked = question(64, wanted=named("qwen3-30b-a3b"))
    entrant = entrants_of("qwen3-30b-a3b", None, asked)[0]
    twins = [
        best_placement([dataclasses.replace(entrant, name=name)], asked) for name in ("one", "two")
    ]
    first, second = (times_under_draws(twin).token_s[:, 0] for twin in twins)
    assert 0.35 < np.mean(first < second) < 0.65
    assert np.std(np.log(first / second)) < np.std(np.log(first)) + np.std(np.log(second))


def test_what_was_measured_with_a_model_goes_before_what_is_borrowed() -> None:
    kinds = {
        name: [(one.setup.drafter.id, one.accepted) for one in entrants_of(name, None, question())]
        for name in ("minimax-m3", "qwen3.5-35b-a3b", "mixtral-8x7b", "gpt-oss-20b")
    }
    assert kinds["minimax-m3"] == [("eagle3", "measured"), ("none", "none")]
    assert kinds["qwen3.5-35b-a3b"] == [("mtp", "borrowed"), ("none", "none")]
    assert kinds["mixtral-8x7b"] == [("none", "none")]
    assert kinds["gpt-oss-20b"] == [
        ("p-eagle", "measured"),
        ("eagle3", "measured"),
        ("none", "none"),
    ]


def test_a_borrowed_head_is_the_median_of_the_measured_ones_and_its_band_is_wider() -> None:
    lent = borrowed_heads(None, 2048, 8)
    heads = (
        "deepseek-r1-mtp-internal",
        "deepseek-v4-pro-mtp-coding",
        "glm-5.2-mtp-coding",
        "qwen3.5-397b-mtp-coding",
    )
    lengths = np.median([load_acceptance_curve(head).accepted_length[:5] for head in heads], axis=0)
    read = lent.spread_over(parse_acceptance(lent.chances, 8, borrowed=True))
    assert read.accepted_length[1:6] == pytest.approx(lengths, abs=1e-3)
    assert read.low[3] < parse_acceptance(lent.chances, 8, borrowed=False).low[3]
    assert len(lent.names) == 4


def test_the_user_s_drafter_serves_every_model_that_can_run_it() -> None:
    found = leaderboard(question(8, wanted=SOME, drafter=("mtp", "2.4@3")))
    assert by_name(found, "deepseek-v3").accepted == "given"
    assert by_name(found, "qwen3-30b-a3b").drafts == (0,)  # it has no module of its own
    plain = leaderboard(question(8, wanted=SOME, drafter=("none", "0")))
    assert {one.drafts for one in plain.standings} == {(0,)}


def test_a_config_of_one_s_own_takes_part_beside_the_shipped_models() -> None:
    config = json.dumps(model_profile("olmoe-1b-7b").config)
    seen: list[float] = []
    asked = question(4, wanted=named("qwen3-4b"), configs=(("mine", config),))
    found = leaderboard(asked, lambda _, share: seen.append(share))
    assert seen == [0.0, 0.5, 1.0]
    assert {one.name for one in found.standings} == {"qwen3-4b", "mine"}
    shipped = leaderboard(question(4, wanted=named("olmoe-1b-7b"))).standings[0]
    assert by_name(found, "mine").tpot_s.value == pytest.approx(shipped.tpot_s.value)


def test_an_unreachable_limit_names_the_nearest_and_what_does_not_fit_is_said() -> None:
    found = leaderboard(question(64, max_tpot_ms=0.5, wanted=SOME))
    assert not found.standings
    assert found.facts["nearest_ms"] == min(each.limit for each in found.missed)
    one_gpu = leaderboard(question(64, n_gpus=1, wanted=named("deepseek-v3", "llama-3.1-8b")))
    assert [(each.reason, each.limit) for each in one_gpu.missed] == [("memory", 0)]
    long = leaderboard(question(1, context_tokens=500_000, wanted=named("llama-3.1-8b")))
    assert (long.missed[0].reason, long.missed[0].limit) == ("context", 131072)


def test_a_tighter_limit_never_lets_more_models_in_nor_makes_one_cheaper() -> None:
    loose = leaderboard(question(64, max_tpot_ms=40.0, wanted=SOME))
    tight = leaderboard(question(64, max_tpot_ms=12.0, wanted=SOME))
    assert {one.name for one in tight.standings} < {one.name for one in loose.standings}
    for one in tight.standings:
        assert one.usd_per_million.value >= by_name(loose, one.name).usd_per_million.value * (
            1 - 1e-9
        )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"wanted": ("no-such-model",)}, "no shipped model"),
        ({"sizes": {"min_total_params": 5e10, "max_total_params": 1e10}}, "no model has"),
        ({"sizes": {"max_active_params": -1.0}}, "above 0"),
        ({"sizes": {"min_total_params": 1e14}}, "no model takes part"),
        ({"users": 0}, "cannot be served"),
        ({"hardware_id": "gaudi3", "engine": "other"}, "no price is known"),
        ({"hardware_id": "gaudi3", "engine": "other", "by": "energy"}, "power"),
        ({"usd_per_hour": -2.0}, "GPU-hour"),
    ],
)
def test_impossible_questions_are_refused_in_one_sentence(changes: dict, expected: str) -> None:
    names = changes.pop("wanted", ("qwen3-4b",) if "sizes" not in changes else ())
    sizes = changes.pop("sizes", {})
    with pytest.raises(AdvisorError, match=expected):
        leaderboard(question(**changes, wanted=named(*names, **sizes)))


def test_the_best_of_each_size_is_named_beside_the_cheapest(board: Leaderboard) -> None:
    text = by_size(board)
    large = next(one for one in board.standings if one.total_params >= 1e11)
    assert text.startswith("Best by total size: of 0 to 10 B parameters Llama")
    assert model_name(large.name) in text.split("100 B and more")[1]
    assert by_size(dataclasses.replace(board, standings=(large,))) == ""


@pytest.mark.parametrize(
    ("wanted", "favors_small"),
    [
        (ModelFilter(), True),
        (ModelFilter(max_total_params=1e12), True),
        (ModelFilter(min_total_params=1e10), False),
        (ModelFilter(min_active_params=1e9), False),
        (SOME, False),
        (ModelFilter(listed=frozenset()), False),
    ],
)
def test_without_a_least_size_the_small_lead_and_it_is_said_as_long_as_nobody_chose(
    board: Leaderboard, wanted: ModelFilter, favors_small: bool
) -> None:
    asked = dataclasses.replace(board, question=dataclasses.replace(board.question, wanted=wanted))
    assert asked.facts["favors_small"] == favors_small
    assert bool(quality_text(asked)) == favors_small
    assert favors_small == quality_text(asked, "ask").endswith("; ask.")


def test_one_model_s_place_is_that_of_its_standing(board: Leaderboard) -> None:
    for one in board.standings:
        facts = one.facts("cost")
        assert (facts["accepted"], facts["figure"]) == (one.accepted, one.usd_per_million)
        assert own_place(board, one.name).startswith(model_name(one.name))
    assert own_place(board, "not-on-it") == ""


def test_the_users_of_a_scenario_are_those_of_all_its_copies() -> None:
    scenario = build_scenario(n_gpus=8, tensor_parallel=2, batch_size=16, acceptance="2.4@3")
    assert users_of(scenario) == 64
    assert question_of(scenario).users == one_load(64)
    assert question_of(scenario.model_copy(update={"tensor_parallel": 8})).users == one_load(16)


def test_a_standing_is_the_answer_of_a_scenario_that_asks_for_it(board: Leaderboard) -> None:
    """What opening a model relies on: its placement, users of a copy, drafter and length give the
    same K and time."""
    assert {one.accepted for one in board.standings} >= {"none", "borrowed", "measured"}
    for one in board.standings:
        answer = advise(
            board.question.scenario.model_copy(
                update={
                    "model_id": one.name,
                    "n_gpus": one.gpus,
                    "tensor_parallel": one.tensor_parallel,
                    "expert_parallel": one.expert_parallel,
                    "batch_size": math.ceil(64 / one.copies),
                    "drafter_id": one.drafter,
                    "acceptance": one.acceptance,
                }
            )
        )
        served = answer.recommendation
        assert (served.n_draft,) == one.drafts
        assert served.tpot_s == pytest.approx(one.tpot_s.value)


def test_where_scores_leave_all_models_out_nothing_is_said_of_sizes() -> None:
    with pytest.raises(AdvisorError, match=r"left out by the table of scores \(\d+ models\)$"):
        leaderboard(question(4, wanted=ModelFilter(listed=frozenset())))


@pytest.mark.parametrize("text", ["64", "1:10,64:90", "1:0.5,8:2.25,64:90"])
def test_a_load_is_written_as_it_is_read(text: str) -> None:
    assert load_as_text(load_from_text(text)) == text


def first(name: str, **given: object) -> Entrant:
    return entrants_of(name, None, question(**given))[0]


def test_a_borrowed_length_is_the_median_of_heads_carried_to_the_asked_text() -> None:
    """As the own curves of their models are: the two stand in one table."""
    heads = ("deepseek-v4-pro-mtp-coding", "glm-5.2-mtp-coding", "qwen3.5-397b-mtp-coding")
    moved = [
        carried(head, parse_acceptance(head, 8), "mtp", "chat", 2048).accepted_length
        for head in heads
    ]
    entrant = first("qwen3.5-35b-a3b", task="chat")
    assert entrant.accepted == "carried"
    # To K = 7: from there on the middle is another head's, and gains more than before, which no
    # chance says.
    assert entrant.setup.acceptance.accepted_length[:8] == pytest.approx(
        np.median(moved, axis=0)[:8], abs=2e-3
    )
    own = first("qwen3.5-397b-a17b", task="chat").setup.acceptance
    assert own.accepted_length == pytest.approx(moved[2])


def test_a_carried_borrowed_band_is_wider_than_a_borrowed_one_and_than_a_carried_one() -> None:
    lent = {
        task: first("qwen3.5-35b-a3b", task=task).setup.acceptance for task in ("coding", "chat")
    }
    own = first("qwen3.5-397b-a17b", task="chat").setup.acceptance
    width = {
        name: np.log(each.high[2] / each.low[2]) for name, each in (*lent.items(), ("own", own))
    }
    assert width["chat"] > max(width["coding"], width["own"])
    for each in lent.values():
        assert (each.low <= each.accepted_length).all()
        assert (each.accepted_length <= each.high).all()
        assert (each.high <= np.arange(9) + 1.0).all()


def test_a_head_of_unknown_text_is_lent_where_no_text_is_asked_alone() -> None:
    asked = borrowed_heads("chat", 2048, 8)
    bare = borrowed_heads(None, 2048, 8)
    assert "deepseek-v3" not in asked.names
    assert "deepseek-v3" in bare.names
    assert len(bare.names) == 4
    assert (asked.n_carried, bare.n_carried) == (3, 0)
    assert not bare.down.any()


def test_a_curve_measured_on_the_asked_text_goes_before_one_that_would_be_carried_to_it() -> None:
    entrant = first("gpt-oss-20b", task="chat")
    assert entrant.accepted == "measured"
    assert entrant.basis.dataset == "MT-Bench"
    measured = load_acceptance_curve("gpt-oss-20b-p-eagle-mt-bench")
    lengths = entrant.setup.acceptance.accepted_length[list(measured.n_draft)]
    assert lengths == pytest.approx(measured.accepted_length)
    assert first("gpt-oss-20b").basis.dataset == "HumanEval"


def test_each_entrant_says_whether_its_length_was_carried() -> None:
    assert first("qwen3.5-397b-a17b", task="chat").accepted == "carried"
    unknown = first("deepseek-v3", task="chat")
    assert unknown.accepted == "uncarried"
    assert unknown.basis.remarks
    assert first("qwen3.5-397b-a17b", task="coding").accepted == "measured"
    assert first("qwen3.5-35b-a3b", task="coding").accepted == "borrowed"
    assert first("deepseek-v3", task="chat", drafter=("mtp", "2.4@3")).accepted == "given"


def test_only_lengths_that_a_user_gave_are_called_the_user_s_own() -> None:
    scenario = build_scenario(
        hardware_id="h200-sxm", n_gpus=8, drafter_id="none", acceptance="0", task="chat"
    )
    for name in ("qwen3.5-35b-a3b", "qwen3.5-397b-a17b", "llama-3.1-8b"):
        for entrant in entrants_of(name, None, question_of(scenario)):
            assert not any(
                "your own numbers" in text for text in note_texts(entrant.setup.notes)
            ), name
    given = first("deepseek-v3", task="chat", drafter=("mtp", "2.4@3"))
    assert any("your own numbers" in text for text in note_texts(given.setup.notes))


def test_the_chance_to_keep_the_limit_is_the_share_of_draws_that_keep_it_at_every_load() -> None:
    asked = question(users=BatchHistogram((16, 64), (1.0, 1.0)), wanted=named("qwen3-30b-a3b"))
    free = leaderboard(asked).standings[0]
    assert free.p_limit == 1.0
    limit_ms = 1.02 * 1e3 * free.tpot_s.value
    limited = dataclasses.replace(
        asked, scenario=asked.scenario.model_copy(update={"max_tpot_ms": limit_ms})
    )
    board = leaderboard(limited)
    if not board.standings:
        pytest.fail(f"nothing keeps {limit_ms:.2f} ms")
    placed = best_placement(entrants_of("qwen3-30b-a3b", None, limited), limited)
    assert not isinstance(placed, ExcludedModel)
    drawn = times_under_draws(placed)
    kept = [(row * 1e3 <= limit_ms).all() for row in drawn.tpot_s]
    assert 0.0 < board.standings[0].p_limit < 1.0
    assert board.standings[0].p_limit == pytest.approx(sum(kept) / len(kept))


def test_every_placement_of_a_mixture_within_a_node_is_tried() -> None:
    def tried(name: str, **given: object) -> set[tuple[int, int]]:
        asked = question(**given)
        setups = _placements(entrants_of(name, None, asked)[0].setup, asked)
        return {(one.placement.tensor_parallel, one.placement.expert_parallel) for one in setups}

    both = {(1, 1), (2, 1), (2, 2), (1, 2), (4, 1), (4, 4), (1, 4), (8, 1), (8, 8), (1, 8)}
    assert tried("gpt-oss-120b", n_gpus=16, expert_parallel=True) == both, (
        "16 GPUs are two nodes: no instance spans them"
    )
    assert tried("gpt-oss-120b") == {(1, 1), (2, 1), (4, 1), (8, 1)}
    one = entrants_of("llama-3.1-8b", None, question())[0].setup
    assert [_copies(one, question(6, n_gpus=n)) for n in (1, 8, 6)] == [
        [1],
        [1, 2, 4],
        [1, 2, 4, 6],
    ]
    assert tried("llama-3.1-8b", expert_parallel=True) == {(1, 1), (2, 1), (4, 1), (8, 1)}
    assert (1, 1) not in tried("deepseek-v3"), "its weights do not fit one"
