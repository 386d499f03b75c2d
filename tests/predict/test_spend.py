"""Money and energy of a token: by hand, at the anchors, and with speculation beside without.

Absolute times under draws: the error of a model's own, and what follows for throughput.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.physics.bands import band
from advisor.physics.hardware import load_hardware
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.spend import (
    ARITHMETIC,
    PLAIN_LOG_SD,
    READING,
    WAITING,
    MeasuredPower,
    Regimes,
    Spend,
    drawn_power_w,
    drawn_times,
    own_log_sd,
    power_w,
    price_of,
    regimes,
    spend_at,
    token_time_s,
)
from advisor.prediction import AdvisorError, Tier
from advisor.show.words.load import power_text, spend_document, spend_text
from tests.golden.sentences import Golden, lines_with


def answer(
    batch: int = 16, hardware: str = "h200-sxm", model: str = "qwen3-30b-a3b", **values: object
) -> Advice:
    given = {
        "hardware_id": hardware,
        "model_id": model,
        "drafter_id": "eagle3",
        "acceptance": "2.4@3",
    } | values
    return advise(build_scenario(**given, batch_size=batch))


def spent(advice: Advice, measured: MeasuredPower | None = None, usd: float | None = None) -> Spend:
    column = advice.curve.column(advice.recommendation.n_draft)
    price = price_of(advice.setup.hardware, usd)
    return spend_at(advice.setup, advice.curve, advice.batch_index, column, price, measured)


def test_the_users_price_goes_before_the_profile_s_and_an_unknown_one_is_not_invented() -> None:
    h200 = load_hardware("h200-sxm")
    for own in (0.5, 10_000.0):
        assert price_of(h200, own).usd_per_hour == own
    assert price_of(h200).usd_per_hour == h200.price_usd_per_hour.value
    assert h200.price_usd_per_hour.date.isoformat() in price_of(h200).text
    kind = h200.price_usd_per_hour.kind
    origin = h200.price_usd_per_hour.source.split(";")[0]
    assert price_of(h200).short.endswith(
        f" USD per GPU-hour ({kind}: {origin[0].lower()}{origin[1:]})"
    )
    assert price_of(load_hardware("gaudi3")) is None


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf"), 10_001.0])
def test_a_price_that_is_none_is_refused(price: float) -> None:
    with pytest.raises(AdvisorError, match="GPU-hour"):
        price_of(load_hardware("h200-sxm"), price)


def test_money_follows_from_price_and_throughput_by_hand() -> None:
    advice = answer()
    found = spent(advice, usd=3.6)
    rate = advice.recommendation.tokens_per_s_per_gpu
    assert found.chosen.tokens_per_s_per_gpu.value == pytest.approx(rate)
    assert found.chosen.usd_per_million.value == pytest.approx(3.6 / 3600 / rate * 1e6)
    assert found.plain.usd_per_million.value / found.chosen.usd_per_million.value == pytest.approx(
        advice.recommendation.speedup.value
    )


def test_every_figure_has_a_band_around_it_a_tier_and_an_origin() -> None:
    found = spent(answer())
    for arm in (found.plain, found.chosen):
        for value in (
            arm.tokens_per_s_per_gpu,
            arm.usd_per_million,
            arm.joules_per_token,
            arm.power_w,
        ):
            assert value.low < value.value < value.high
            assert value.because
    assert found.chosen.joules_per_token.tier is Tier.ROOFLINE
    assert "TDP" in found.chosen.joules_per_token.because
    assert power_text(found).startswith("Power: 700 W board")


ANCHORS_W = {1: 300.0, 128: 600.0}
"""Of an H100 by batch (ML.ENERGY v3.0 as a fleet simulator cites it, docs/choose-hardware.md;
models not stated)."""


@pytest.mark.parametrize(
    ("model", "within"),
    [("llama-3.1-8b", 0.02), ("qwen3-30b-a3b", 0.06), ("gpt-oss-20b", 0.06), ("qwen3-32b", 0.06)],
)
def test_the_estimate_meets_the_anchors_it_was_solved_from_and_other_models_come_near(
    model: str, within: float
) -> None:
    """Solved at Llama 3.1 8B; the others only see it, at 0.1 to 4 % when this was written."""
    for batch, watts in ANCHORS_W.items():
        power = spent(
            answer(batch, "h100-sxm", model, drafter_id="none", acceptance="0")
        ).plain.power_w
        assert power.value == pytest.approx(watts, rel=within)
        assert power.low < watts * 0.85
        assert power.high > watts * 1.1


def test_power_lies_between_waiting_and_the_whole_board() -> None:
    for shares, fraction in (
        (Regimes(1.0, 0.0, 1.0), ARITHMETIC),
        (Regimes(0.0, 1.0, 1.0), READING[0]),
        (Regimes(0.0, 1.0, 128.0), READING[1]),
        (Regimes(0.0, 1.0, 4096.0), READING[1]),
        (Regimes(0.0, 0.0, 1.0), WAITING),
    ):
        assert power_w(700.0, shares) == pytest.approx(700.0 * fraction)
    assert WAITING < READING[0] < READING[1] < ARITHMETIC < 1.0
    middle = power_w(700.0, Regimes(0.0, 1.0, 128.0**0.5))
    assert middle == pytest.approx(700.0 * sum(READING) / 2)  # half of the logarithm
    drawn = drawn_power_w(700.0, Regimes(0.5, 0.4, 64.0), 256)
    assert 0.1 * 700 < drawn.min() < power_w(700.0, Regimes(0.5, 0.4, 64.0)) < drawn.max() <= 700.0


SERVING = math.log(0.9 / 0.4) * 2.563 / 3.290
"""0.4 to 0.9 are P5 and P95: 3.29 standard deviations of the logarithm, of which 80 % take 2.56."""
MIXED = [READING[0] * math.exp(sign * SERVING / 2) + WAITING * 2.0**sign for sign in (1, -1)]


@pytest.mark.parametrize(
    ("arithmetic", "reading", "width"),
    [
        (0, 1, SERVING),
        (0.5, 0.5, SERVING),
        (0, 0, math.log(4)),
        (0, 0.5, math.log(MIXED[0] / MIXED[1])),
    ],
    ids=["reads", "one error of both", "waits, by a factor of two", "high with high"],
)
def test_the_band_of_power_is_the_scatter_of_nodes_that_serve(
    arithmetic: float, reading: float, width: float
) -> None:
    low, high = band(drawn_power_w(700.0, Regimes(arithmetic, reading, 1.0), 4096))
    assert np.log(high / low) == pytest.approx(width, rel=0.05)


def test_prefill_draws_what_arithmetic_draws() -> None:
    lengths = {"input_tokens": 8192, "output_tokens": 128, "context_tokens": 8256}
    without = spent(answer(16, context_tokens=8256))
    found = spent(answer(16, **lengths))
    for arm, bare in ((found.plain, without.plain), (found.chosen, without.chosen)):
        assert arm.regimes.arithmetic > 0.3 > bare.regimes.arithmetic
        assert arm.power_w.value > bare.power_w.value
    advice = answer(16, **lengths)
    curve = advice.curve
    row = advice.batch_index
    share = curve.prefill_s[row] / (curve.plain_step_s[row] + curve.prefill_s[row])
    bare = found.plain.regimes.arithmetic - share
    assert bare / (1 - share) == pytest.approx(without.plain.regimes.arithmetic, abs=0.005)


FP8_BLOCK = 1.0 + 4.0 / 128**2
"""Of DeepSeek-V3's matrices, one 32-bit scale a block; its router and embeddings have 2. [B]"""


@pytest.mark.parametrize(
    ("key", "record", "rows", "width"),
    [
        ("routed", "routed", 64 * 3 * 8 / 128, FP8_BLOCK),
        ("dense", "dense", 48, FP8_BLOCK),
        ("attention_projection", "attention_projection", 48, FP8_BLOCK),
        ("router", "lm_head", 48, 2.0),
        ("lm_head", "lm_head", 48, 2.0),
    ],
)
def test_a_part_computes_by_its_operations_a_byte_over_its_kernel_s_ridge(
    key: str, record: str, rows: float, width: float
) -> None:
    """64 sequences of 3 tokens in 4 attention groups; two operations a row and weight are x / (1 +
    x) of the time."""
    placed = {
        "n_gpus": 8,
        "tensor_parallel": 2,
        "expert_parallel": 8,
        "drafter_id": "mtp",
        "acceptance": "2.4@3",
    }
    setup = load_setup(build_scenario(hardware_id="h200-sxm", model_id="deepseek-v3", **placed))
    kernel = getattr(setup.costs, record)
    x = 2 * rows / width * kernel.bandwidth_bytes_per_s / kernel.flops_per_s
    found = regimes(setup, {key: 3.0, "attention": 1.0, "host": 4.0}, 64, 3, 128, prefill_s=2.0)
    assert found.arithmetic == pytest.approx((2 + 3 * x / (1 + x)) / 10)
    assert found.reading == pytest.approx((1 + 3 / (1 + x)) / 10)
    assert found.waiting == pytest.approx(0.4)
    assert found.tokens == 48
    x *= 128 if key == "routed" else 1  # a pass touches one expert at least
    assert regimes(setup, {key: 1.0}, 64, 3, 0.5).arithmetic == pytest.approx(x / (1 + x))


def test_a_measured_log_replaces_the_estimate_of_the_run_s_arm_alone() -> None:
    advice = answer()
    best = advice.recommendation.n_draft
    assert best > 0
    log = MeasuredPower(500.0, "measured: run.csv", best)
    guessed = spent(advice)
    known = spent(advice, log)
    assert known.chosen.power_w.value == known.chosen.power_w.low == 500.0
    assert known.chosen.power_w.tier is Tier.MEASURED
    assert known.chosen.joules_per_token.tier is Tier(advice.recommendation.speedup.tier)
    assert known.chosen.joules_per_token.value == pytest.approx(
        500.0 / advice.recommendation.tokens_per_s_per_gpu
    )
    assert known.plain == guessed.plain
    assert f"measured, taken to have run with K = {best}" in spend_text(
        known, advice.setup.hardware
    )
    assert (
        f"measured: run.csv; taken to have run with K = {best}. Without speculation: 700 W"
        in power_text(known)
    )
    assert "modeled (roofline)" in spend_text(guessed, advice.setup.hardware)


def test_a_log_of_the_plain_run_is_that_of_plain_decoding_and_one_of_another_k_is_refused(
    golden: Golden,
) -> None:
    advice = answer()
    known = spent(advice, MeasuredPower(500.0, "measured: run.csv", 0))
    assert known.plain.power_w.value == 500.0
    assert known.chosen == spent(advice).chosen
    text = spend_text(known, advice.setup.hardware)
    golden(without_speculation=lines_with(text, "without speculation"))
    with pytest.raises(AdvisorError, match="ran with K = 8, and energy is stated for"):
        spent(advice, MeasuredPower(500.0, "measured: run.csv", 8))


def test_a_measurement_is_not_divided_by_an_estimate() -> None:
    advice = answer()
    for k in (0, advice.recommendation.n_draft):
        known = spent(advice, MeasuredPower(500.0, "measured: run.csv", k))
        assert known.joules_ratio is None
        assert lines_with(spend_text(known, advice.setup.hardware), "times plain") == []


def test_energy_with_and_without_speculation_share_their_draws() -> None:
    found = spent(answer())
    value = found.chosen.joules_per_token.value / found.plain.joules_per_token.value
    assert found.joules_ratio.value == pytest.approx(value)
    assert found.joules_ratio.tier is Tier.ROOFLINE
    apart = found.chosen.joules_per_token.high / found.plain.joules_per_token.low
    assert 0.7 * value < found.joules_ratio.low < value < found.joules_ratio.high < 0.8 * apart
    bare = spent(answer(drafter_id="none"))
    assert (bare.joules_ratio, bare.chosen) == (None, bare.plain)


def test_what_is_not_known_is_said_and_not_invented() -> None:
    advice = answer(hardware="gaudi3", engine="other")
    found = spent(advice)
    text = spend_text(found, advice.setup.hardware)
    assert found.chosen.usd_per_million is None
    assert found.chosen.joules_per_token is None
    assert "--usd-per-hour" in text
    assert "--power-log" in text
    document = spend_document(found)
    assert document["recommended"]["usd_per_million_tokens"] is None
    assert np.isfinite(document["recommended"]["tokens_per_s_per_gpu"].value)


VALIDATION = Path(__file__).resolve().parents[2] / "docs/validation.md"


def test_the_error_of_an_absolute_time_is_the_one_that_validation_found() -> None:
    row = re.search(
        r"^\| fitted without the point's model \| \d+ \| [\d.]+ % \| ([\d.]+) % \|",
        VALIDATION.read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert math.log(1 + float(row[1]) / 100) / 1.645 == pytest.approx(PLAIN_LOG_SD, abs=0.015)


def test_an_error_of_its_own_moves_a_model_s_times_and_not_its_centre() -> None:
    scenario = build_scenario(
        hardware_id="h200-sxm",
        model_id="qwen3-30b-a3b",
        acceptance="2.4@3",
        input_tokens=2000,
        output_tokens=500,
    )
    setup = load_setup(scenario)
    curve = curve_for(setup, [4.0, 64.0])
    columns = np.array([3, 2])
    still = drawn_times(setup, curve, columns, *())
    slower = drawn_times(setup, curve, columns, *(np.ones(len(curve.draws)),))
    every = drawn_times(setup, curve, None)
    assert every.token_s[:, [0, 1], columns] == pytest.approx(still.token_s)
    assert every.tpot_s[:, [0, 1], columns] == pytest.approx(still.tpot_s)
    assert slower.token_s == pytest.approx(still.token_s * np.exp(own_log_sd(curve.plain_draws_s)))
    middle = token_time_s(curve, 1)[[0, 1], columns]
    assert token_time_s(curve, 4) == pytest.approx(token_time_s(curve, 1) / 4)
    assert np.median(still.token_s, axis=0) == pytest.approx(middle, rel=0.1)
    assert (still.tpot_s < still.token_s).all()  # a user has waited for its own prompt before
    assert middle == pytest.approx(curve.batches / curve.tokens_per_s_per_gpu[[0, 1], columns])


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "llama-3.1-8b", "gpt-oss-20b"])
def test_a_plain_time_scatters_by_the_error_that_validation_found_and_no_more(model: str) -> None:
    setup = load_setup(build_scenario(hardware_id="h200-sxm", model_id=model, acceptance="2.4@3"))
    curve = curve_for(setup, [1.0, 16.0, 256.0], [0])
    own_z = np.random.default_rng(7).standard_normal(len(curve.draws))
    drawn = drawn_times(setup, curve, np.zeros(3, np.int64), own_z).token_s
    assert np.log(drawn).std(axis=0) == pytest.approx(PLAIN_LOG_SD, rel=0.12)
    assert (np.log(curve.plain_draws_s).std(axis=0) > 0.03).all()


def test_draws_that_scatter_more_than_validation_found_get_nothing_added() -> None:
    wide = np.exp(np.random.default_rng(1).normal(0.0, [0.05, 0.3], (4000, 2)))
    assert own_log_sd(wide) == pytest.approx([math.sqrt(PLAIN_LOG_SD**2 - 0.05**2), 0.0], rel=0.02)
