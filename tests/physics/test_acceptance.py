"""Drafters and acceptance: the one-alpha formula, the measured curves, and the user's one string.

Speedup algebra: published identities, limits, properties.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.physics.acceptance import (
    AcceptanceCurve,
    ExtrapolationSpread,
    acceptance_curves,
    accepted_length,
    extrapolation_spread,
    load_acceptance_curve,
    parse_acceptance,
    solve_alpha,
    speedup,
)
from advisor.physics.draft import drafter_ids, load_drafter
from advisor.prediction import AdvisorError

MTP = "deepseek-v4-pro-mtp-coding"  # saturates at 2.58
PAPER = {
    "model_id": "m",
    "drafter_id": "mtp",
    "dataset": "d",
    "confidence": "low",
    "source": "paper",
}
LONG = "qwen3.5-397b-mtp-coding"  # still grows at K = 8


def test_one_alpha_from_273_at_three_drafts_gives_the_published_lengths_at_other_k():
    alpha = solve_alpha(2.73, 3)
    assert alpha == pytest.approx(0.749, abs=5e-4)
    expected = [1.749, 2.310, 3.045, 3.280, 3.589]
    assert accepted_length(alpha, [1, 2, 4, 5, 7]) == pytest.approx(expected, abs=5e-4)


def test_accepted_length_has_its_limits_and_sums_the_geometric_series():
    assert accepted_length(1.0, [0, 1, 7]).tolist() == [1, 2, 8]
    assert accepted_length(0.0, [0, 1, 7]).tolist() == [1, 1, 1]
    assert accepted_length(0.5, 3) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert accepted_length([[0.3], [0.6]], [1, 2, 3]).shape == (2, 3)


@given(st.floats(0, 1), st.integers(1, 64))
def test_solving_for_alpha_inverts_the_accepted_length(alpha: float, n_draft: int):
    length = accepted_length(alpha, n_draft)
    assert accepted_length(solve_alpha(length, n_draft), n_draft) == pytest.approx(
        float(length), rel=1e-12
    )


@given(st.floats(0.001, 0.999), st.integers(1, 32))
def test_accepted_length_rises_with_alpha_and_with_k_and_stays_in_its_bounds(
    alpha: float, n_draft: int
):
    here = accepted_length(alpha, n_draft)
    assert 1 <= here <= n_draft + 1
    assert accepted_length(alpha, n_draft + 1) >= here
    assert accepted_length(min(1.0, alpha + 0.001), n_draft) > here


def test_values_outside_the_formula_are_refused():
    for call in (
        lambda: accepted_length(1.1, 3),
        lambda: accepted_length(np.nan, 3),
        lambda: accepted_length(0.5, -1),
    ):
        with pytest.raises(AdvisorError, match="accepted_length needs"):
            call()
    for length, n_draft in ((4.1, 3), (0.9, 3), (1.5, 0), (np.nan, 3)):
        with pytest.raises(AdvisorError, match="solve_alpha needs"):
            solve_alpha(length, n_draft)


def test_every_drafter_loads_and_those_that_run_layers_know_how_many():
    assert set(drafter_ids()) >= {
        *(
            "none",
            "eagle3",
            "eagle",
            "mtp",
            "draft_model",
            "ngram",
            "suffix",
            "p-eagle",
            "dflash",
            "dspark",
        )
    }
    for name in drafter_ids():
        drafter = load_drafter(name)
        assert drafter.id == name
        assert (drafter.n_layers is not None) == (drafter.kind in ("eagle", "mtp", "parallel"))
        assert (drafter.draft_model_id is not None) == (drafter.kind == "draft_model")
        assert drafter.kind == "none" or drafter.sources
        assert drafter.kind == "none" or drafter.method


def test_an_unknown_drafter_names_a_close_one():
    with pytest.raises(AdvisorError, match="did you mean eagle3"):
        load_drafter("eagle-3")


def test_all_twenty_eight_curves_load_and_fourteen_run_from_one_to_eight():
    curves = acceptance_curves()
    assert len({curve.id for curve in curves}) == len(curves) == 28
    assert sum(curve.n_draft == (1, 2, 3, 4, 5, 6, 7, 8) for curve in curves) == 14
    assert all(curve.url.startswith("https://") and len(curve.source) > 15 for curve in curves)
    assert all(curve.drafter_id in drafter_ids() for curve in curves)


def test_curves_are_found_by_model_and_drafter():
    found = acceptance_curves(model_id="deepseek-v4-pro", drafter_id="mtp")
    assert [curve.id for curve in found] == [MTP, f"{MTP}-no-reasoning"]
    assert acceptance_curves(model_id="no-such-model") == []


def test_an_impossible_curve_is_refused():
    for n_draft, lengths in (
        ((1, 2), (1.5,)),
        ((2, 1), (1.5, 1.6)),
        ((1,), (2.1,)),
        ((0,), (1.0,)),
    ):
        with pytest.raises(ValueError, match=r"n_draft|accepted_length"):
            AcceptanceCurve(id="x", **PAPER, n_draft=n_draft, accepted_length=lengths)


def test_a_given_length_keeps_its_value_and_other_k_are_marked_extrapolated():
    found = parse_acceptance("2.73@3", 7)
    assert found.accepted_length[3] == 2.73
    assert found.extrapolated.tolist() == [False, True, True, False, True, True, True, True]
    assert found.accepted_length[0] == found.low[0] == found.high[0] == 1


def test_a_given_length_carried_to_other_k_meets_a_published_curve_that_one_alpha_misses():
    """Command A+'s list (Cohere blog on dynamic speculation, 2026) is no curve of ours, so nothing
    was fitted on it."""
    published = np.array([1.75, 2.31, 2.73, 2.98, 3.12, 3.20, 3.25])
    found = parse_acceptance("2.73@3", 7).accepted_length[1:]
    assert found == pytest.approx(published, rel=0.05)
    one_alpha = accepted_length(solve_alpha(2.73, 3), np.arange(1, 8))
    assert abs(one_alpha[-1] / published[-1] - 1) > 0.09


def test_a_list_of_conditional_probabilities_adds_their_running_products():
    found = parse_acceptance(" 0.8, 0.5 ,0.25", 5)
    by_hand = [1, 1.8, 2.2, 2.3, 2.3 + 0.025, 2.3 + 0.025 + 0.00625]
    assert found.accepted_length == pytest.approx(by_hand)
    assert found.extrapolated.tolist() == [False, False, False, False, True, True]
    assert parse_acceptance("0.8,0.5,0.25", 2).accepted_length == pytest.approx([1, 1.8, 2.2])


def test_a_single_probability_holds_at_every_position():
    assert parse_acceptance("0.6", 4).accepted_length == pytest.approx(
        accepted_length(0.6, np.arange(5))
    )
    assert parse_acceptance("1", 4).accepted_length.tolist() == [1, 2, 3, 4, 5]


def test_a_measured_curve_keeps_its_values_at_its_own_k():
    found = parse_acceptance(MTP, 8)
    assert found.accepted_length[1:].tolist() == list(load_acceptance_curve(MTP).accepted_length)
    assert not found.extrapolated.any()
    assert "reasoning on" in found.source


def test_a_saturating_curve_is_held_beyond_its_last_k_and_its_band_widens():
    found = parse_acceptance(MTP, 12)
    assert found.accepted_length[9:].tolist() == [2.58] * 4
    assert found.extrapolated[9:].all()
    width = np.log(found.high / found.low)[8:]
    assert (np.diff(width) > 0).all()


def test_interpolating_every_second_point():
    from advisor.physics import acceptance as module

    misses = []
    for curve in acceptance_curves():
        if curve.n_draft == (1, 2, 3, 4, 5, 6, 7, 8):
            at = np.array(curve.n_draft[::2])
            length = np.array(curve.accepted_length[::2])
            found = module._from_points(at, length, 7, False, "left out")
            misses += [
                found.accepted_length[k] / curve.accepted_length[k - 1] - 1 for k in (2, 4, 6)
            ]
    assert len(misses) == 42
    assert np.std(misses) < module.SAME_RUN_LOG_SD / 2


def test_every_band_contains_its_value_and_stays_possible():
    texts = [
        "2.4@3",
        "1.01@1",
        "8.9@8",
        "4@3",
        "0.9,0.1",
        "0",
        "1",
        *(curve.id for curve in acceptance_curves()),
    ]
    for text in texts:
        for borrowed in (False, True):
            found = parse_acceptance(text, 16, borrowed=borrowed)
            k = np.arange(17)
            assert (found.low <= found.accepted_length).all()
            assert (found.accepted_length <= found.high).all()
            assert (found.low >= 1).all()
            assert (found.high <= k + 1 + 1e-12).all()
            assert np.isfinite(found.high).all()


SPREAD = ExtrapolationSpread(
    above=(-0.15, -0.1, 0.05), below=(-0.06, 0.08, 0.2), n_pairs=2, n_curves=1
)
"""Per doubling's logarithm; the middles bend the value, the ends are its band."""
SAMPLING = 1.2815515655446004 * 0.04


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spreads of round numbers, for answers of these tests alone: what was asked before is kept by
    its text."""
    monkeypatch.setattr("advisor.physics.acceptance.extrapolation_spread", lambda: SPREAD)
    parse_acceptance.cache_clear()
    yield
    parse_acceptance.cache_clear()


@pytest.mark.usefixtures("by_hand")
def test_the_band_above_a_given_k_by_hand():
    """Half of the drafts accepted: 1.5 at K = 1, so 1.875 at K = 3, one doubling of K + 1 away,
    where curves bend."""
    found = parse_acceptance("1.5@1", 3)
    assert found.accepted_length[3] == pytest.approx(1.875 * 2**-0.1)
    up = np.hypot(SAMPLING, (0.05 + 0.1) * np.log(2))
    assert found.high[3] == pytest.approx(1.875 * 2**-0.1 * np.exp(up))
    assert found.low[3] == pytest.approx(
        1.875 * 2**-0.1 * np.exp(-np.hypot(SAMPLING, 0.05 * np.log(2)))
    )
    assert (found.low[1], found.high[1]) == pytest.approx(
        (1.5 * np.exp(-SAMPLING), 1.5 * np.exp(SAMPLING))
    )


@pytest.mark.usefixtures("by_hand")
def test_the_band_below_a_given_k_by_hand():
    """Half of the drafts accepted: 1.875 at K = 3 and 1.5 at K = 1, half of K + 1."""
    found = parse_acceptance("1.875@3", 3)
    assert found.accepted_length[1] == pytest.approx(1.5 * 2**0.08)
    assert found.high[1] == pytest.approx(
        1.5 * 2**0.08 * np.exp(np.hypot(SAMPLING, (0.2 - 0.08) * np.log(2)))
    )
    assert found.low[1] == pytest.approx(
        1.5 * 2**0.08 * np.exp(-np.hypot(SAMPLING, (0.06 + 0.08) * np.log(2)))
    )


@pytest.mark.usefixtures("by_hand")
def test_a_borrowed_length_scatters_by_13_percent_instead_of_4():
    found = parse_acceptance("2.5@3", 3, borrowed=True)
    assert np.log(found.high[3] / 2.5) == pytest.approx(1.2815515655446004 * 0.13)
    assert np.log(2.5 / found.low[3]) == pytest.approx(1.2815515655446004 * 0.13)


def test_more_drafts_emit_no_less_than_fewer_do_within_their_own_spread(
    monkeypatch: pytest.MonkeyPatch,
):
    """Where curves scatter far below one alpha, the lower end is that of the K it comes from."""
    wide = ExtrapolationSpread(
        above=(-2.0, -0.1, 0.05), below=(-0.06, 0.08, 0.2), n_pairs=2, n_curves=1
    )
    monkeypatch.setattr("advisor.physics.acceptance.extrapolation_spread", lambda: wide)
    found = parse_acceptance.__wrapped__("1.5@1", 63)
    assert found.low[1:] == pytest.approx(np.full(63, 1.5 * np.exp(-SAMPLING)))
    assert (np.diff(found.accepted_length) >= 0).all()
    assert found.accepted_length[63] < found.accepted_length[7] * 1.001, (
        "the bend takes what one alpha would still add"
    )


@pytest.mark.usefixtures("by_hand")
def test_the_band_of_a_list_grows_beyond_its_last_probability():
    found = parse_acceptance("0.5", 3)
    assert np.log(found.high[1] / 1.5) == pytest.approx(SAMPLING)
    assert np.log(found.high[3] / 1.875) == pytest.approx(
        np.hypot(SAMPLING, (0.05 + 0.1) * np.log(2))
    )
    assert np.log(1.875 / found.low[3]) == pytest.approx(np.hypot(SAMPLING, 0.05 * np.log(2)))


@pytest.mark.usefixtures("by_hand")
def test_a_held_length_may_have_grown_as_one_alpha_says(monkeypatch: pytest.MonkeyPatch):
    """Measured to K = 3 at half accepted: 1.875 is held at K = 7, where one alpha gives 255/128."""
    curve = AcceptanceCurve(id="x", n_draft=(1, 3), accepted_length=(1.5, 1.875), **PAPER)
    monkeypatch.setattr("advisor.physics.acceptance._curves", lambda _: {"x": curve})
    found = parse_acceptance("x", 7)
    assert found.accepted_length[[1, 2, 3, 7]] == pytest.approx([1.5, 1.75, 1.875, 1.875])
    assert found.extrapolated.tolist() == [False] * 4 + [True] * 4
    grown = np.log(255 / 128 / 1.875)
    up = np.hypot(np.hypot(SAMPLING, 0.15 * np.log(2)), grown)
    assert found.high[7] == pytest.approx(1.875 * np.exp(up))
    assert found.low[7] == pytest.approx(1.875 * np.exp(-SAMPLING)), (
        "no less than at the K it is held from"
    )


@pytest.mark.usefixtures("by_hand")
def test_between_two_measured_lengths_none_is_longer_or_shorter_than_both(
    monkeypatch: pytest.MonkeyPatch,
    golden,
):
    """One alpha between 0.9 at K = 1 and 0.5 at K = 4 would emit 2.4 tokens at K = 2, more than
    were at K = 4."""
    curve = AcceptanceCurve(id="x", n_draft=(1, 4, 8), accepted_length=(1.9, 2.0, 2.01), **PAPER)
    own = {"checkpoint": "C", "reasoning": "off"}
    falls = AcceptanceCurve(id="y", n_draft=(3, 7), accepted_length=(2.0, 1.9), **PAPER, **own)
    monkeypatch.setattr("advisor.physics.acceptance._curves", lambda _: {"x": curve, "y": falls})
    found = parse_acceptance("x", 8)
    assert found.accepted_length[1:5].tolist() == [1.9, 2.0, 2.0, 2.0]
    assert found.accepted_length[5:9] == pytest.approx([2.01] * 4)
    golden(mtp_paper=found.source)
    down = parse_acceptance("y", 8)
    golden(mtp_reasoning=down.source)
    assert down.accepted_length[8] == 1.9
    assert down.low[8] == pytest.approx(1.9 * np.exp(-SAMPLING)), "held, so no less than at K = 7"
    assert down.low[7] < down.low[3], "a drafter that loses at its largest K keeps that"


def test_the_band_never_falls_with_more_drafts_also_where_the_length_no_longer_grows(
    monkeypatch: pytest.MonkeyPatch,
):
    wide = ExtrapolationSpread(
        above=(-0.5, -0.3, -0.2), below=(-0.06, 0.08, 2.0), n_pairs=2, n_curves=1
    )
    monkeypatch.setattr("advisor.physics.acceptance.extrapolation_spread", lambda: wide)
    found = parse_acceptance("1.9@3", 40)
    assert found.accepted_length[40] == found.accepted_length[30]
    assert (np.diff(found.low) >= 0).all()
    assert (np.diff(found.high) >= 0).all()
    assert found.high[3] == found.high[2] > 2.5


def test_a_round_never_emits_less_than_one_token_however_far_it_is_carried(
    monkeypatch: pytest.MonkeyPatch,
):
    bent = ExtrapolationSpread(
        above=(-0.5, -0.3, -0.2), below=(-1.0, -0.9, -0.8), n_pairs=2, n_curves=1
    )
    monkeypatch.setattr("advisor.physics.acceptance.extrapolation_spread", lambda: bent)
    assert parse_acceptance("1.1@7", 7).accepted_length[:3].tolist() == [1.0, 1.0, 1.0]


def test_the_ends_of_every_range_are_inside():
    assert parse_acceptance("2.4@3", 1).accepted_length.shape == (2,)
    assert parse_acceptance("2.4@3", 64).accepted_length.shape == (65,)
    assert parse_acceptance("2.5@64", 64).accepted_length[64] == 2.5
    assert parse_acceptance("4@3", 3).accepted_length[3] == 4.0
    assert parse_acceptance(",".join(["0.5"] * 64), 64).accepted_length[64] == pytest.approx(2.0)
    assert solve_alpha([1.0, 4.0], 3).tolist() == [0.0, 1.0]
    assert AcceptanceCurve(
        id="x", n_draft=(1, 2), accepted_length=(1.0, 3.0), **PAPER
    ).accepted_length == (1.0, 3.0)


def test_what_is_given_is_said_with_what_follows_from_it(golden):
    golden(tokens_round=parse_acceptance("2.4@3", 4).source)
    golden(conditional_acceptance=parse_acceptance("0.5,0.4", 2).source)
    assert parse_acceptance("0.5,0.4", 3).source.endswith("as given; the last is held")
    curve = load_acceptance_curve(MTP)
    printed = (
        f"{curve.checkpoint or curve.model_id} with mtp on {curve.dataset}, reasoning on: "
        f"{curve.source}"
    )
    assert parse_acceptance(MTP, 3).source == printed


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, "x" * 37 + "...")])
def test_a_message_quotes_up_to_forty_characters(length: int, shown: str):
    with pytest.raises(AdvisorError) as caught:
        parse_acceptance("x" * (length - 2) + "@3", 3)
    assert f"acceptance={shown[:36]}" in str(caught.value).replace("'", "")
    assert ("..." in str(caught.value)) == (length > 40)
    assert (
        str(caught.value).split(":")[0]
        == f"acceptance={('x' * 38 + '@3' if length == 40 else 'x' * 37 + '...')!r}"
    )


def test_the_spread_of_curves_around_one_alpha_by_hand(monkeypatch: pytest.MonkeyPatch):
    """One curve of two K, one of half accepted drafts that is 10 % short at K = 3; a curve of one K
    says nothing."""
    curves = [
        AcceptanceCurve(id="x", n_draft=(1, 3), accepted_length=(1.5, 1.6875), **PAPER),
        AcceptanceCurve(id="y", n_draft=(2,), accepted_length=(1.5,), **PAPER),
    ]
    monkeypatch.setattr("advisor.physics.acceptance.acceptance_curves", lambda: curves)
    found = extrapolation_spread.__wrapped__()
    upward = np.log(0.9) / np.log(2)
    back = np.log(1.5 / (1 + float(solve_alpha(1.6875, 3)))) / np.log(2)
    assert found.above == pytest.approx((upward,) * 3)
    assert found.below == pytest.approx((back,) * 3)
    assert (found.n_pairs, found.n_curves) == (2, 1)


def test_the_ends_of_the_spread_leave_a_tenth_of_the_curves_on_each_side(
    monkeypatch: pytest.MonkeyPatch,
):
    """Eleven curves through 1.5 at K = 1 that end from 10 % below to 0 % below what one alpha says
    at K = 3."""
    shares = np.linspace(0.9, 1.0, 11)
    curves = [
        AcceptanceCurve(
            id=str(share), n_draft=(1, 3), accepted_length=(1.5, 1.875 * share), **PAPER
        )
        for share in shares
    ]
    monkeypatch.setattr("advisor.physics.acceptance.acceptance_curves", lambda: curves)
    found = extrapolation_spread.__wrapped__()
    assert found.above == pytest.approx(np.log([shares[1], shares[5], shares[9]]) / np.log(2))


def test_the_shipped_curves_say_that_one_alpha_promises_too_much_above_and_too_little_below():
    spread = extrapolation_spread()
    assert spread.n_curves == 21
    assert spread.above[0] < -0.2
    assert -0.2 < spread.above[1] < -0.05
    assert 0 < spread.below[1] < 0.15
    assert spread.below[2] > 0.1


def test_bands_from_one_point_hold_the_other_points_of_curves_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    from advisor.physics import acceptance as module

    everything = {curve.id: curve for curve in acceptance_curves()}
    inside = []
    try:
        for curve in everything.values():
            if curve.n_draft != (1, 2, 3, 4, 5, 6, 7, 8):
                continue
            rest = {
                name: other
                for name, other in everything.items()
                if other.model_id != curve.model_id
            }
            monkeypatch.setattr(module, "_curves", lambda _, rest=rest: rest)
            extrapolation_spread.cache_clear()
            found = parse_acceptance(f"{curve.accepted_length[2]}@3", 8)
            measured = np.array(curve.accepted_length)
            others = np.array(curve.n_draft) != 3
            inside += ((found.low[1:] <= measured) & (measured <= found.high[1:]))[others].tolist()
    finally:
        monkeypatch.undo()
        extrapolation_spread.cache_clear()
    assert len(inside) == 98
    assert (
        0.75 <= np.mean(inside) <= 0.95
    )  # an 80 % band, plus the sampling spread of the user's own number


def test_a_curve_of_another_model_or_drafter_is_borrowed_and_its_band_is_wider():
    own = parse_acceptance(MTP, 8, model_id="deepseek-v4-pro", drafter_id="mtp")
    for other in ({"model_id": "deepseek-v3"}, {"drafter_id": "eagle3"}):
        lent = parse_acceptance(MTP, 8, **other)
        assert lent.borrowed
        assert (lent.high - lent.low)[1:].min() > 1.5 * (own.high - own.low)[1:].min()
    assert not own.borrowed
    assert not parse_acceptance("2.4@3", 8).borrowed
    assert parse_acceptance("2.4@3", 8, borrowed=True).borrowed
    assert parse_acceptance("0.5,0.4", 8, borrowed=True).borrowed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "acceptance is empty"),
        ("abc", "'abc' is not one of the 42 measured acceptance curves"),
        ("glm-mtp", "did you mean glm-5.2-mtp-coding"),
        ("5@3", r"at most K\+1=4"),
        ("1@3", "more than 1"),
        ("nan@3", "expected an accepted length and a whole K"),
        ("2@0", "K=0 is out of range; choose 1 to 64"),
        ("2@999999999", "K=999999999 is out of range"),
        ("2@1.5", "whole K"),
        ("@", "whole K"),
        ("1_0@3", "expected an accepted length"),
        ("２@3", "expected an accepted length"),
        ("-1,2", "entry 1 is '-1', but an acceptance probability lies between 0 and 1"),
        ("0.5,1.2", "entry 2 is '1.2'"),
        ("0.5,,0.5", "entry 2 is '', not a number"),
        ("2.4", "an accepted length needs its K, as in 2.4@3"),
        (",".join(["0.5"] * 10_000), "lists 10000 probabilities; give at most 64"),
        ("x" * 100_000, "is not one of the 42"),
        ("0.5," + "9" * 100_000, "entry 2"),
        ("../none", "is not one of the 42"),
    ],
)
def test_a_hostile_string_gets_one_short_sentence(text: str, message: str):
    with pytest.raises(AdvisorError, match=message) as caught:
        parse_acceptance(text, 8)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_k_max_outside_its_range_is_refused():
    for k_max in (0, -1, 65):
        with pytest.raises(AdvisorError, match="k_max"):
            parse_acceptance("2.4@3", k_max)


def test_coheres_identity_of_accepted_length_over_draft_and_verify_cost() -> None:
    """2.73 tokens for 0.143 + 1.25 plain steps (Cohere blog, 2026-04-21)."""
    assert float(speedup(2.73, 1.0, 1.25 + 0.143)) == pytest.approx(1.960, abs=5e-4)


@pytest.mark.usefixtures("by_hand")
def test_several_given_lengths_are_points_of_a_curve_and_longer_drafts_accept_no_more() -> None:
    """One alpha, 0.5, is behind both: AL(1) = 1.5, AL(3) = 1.875, so AL(2) = 1.75."""
    found = parse_acceptance(" 1.875@3, 1.5@1 ", 7)
    assert found.accepted_length == pytest.approx([1.0, 1.5, 1.75, *[1.875] * 5])
    assert found.extrapolated.tolist() == [False] * 4 + [True] * 4
    assert not found.borrowed
    one = parse_acceptance("1.5@1", 7).accepted_length
    assert one[7] > one[3], "one length alone is carried to longer drafts"


@pytest.mark.parametrize("text", ["1.8@1,1.9@1", "1.8@1,", "1.8@1,0.5", "1.8@1,5@3"])
def test_several_lengths_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(AdvisorError, match="acceptance="):
        parse_acceptance(text, 4)
