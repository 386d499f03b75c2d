"""Pinned setups: what goes in and out of the address, and what cannot be pinned."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from advisor.answers.advice import advise
from advisor.answers.by_length import at_length, length_now
from advisor.predict.scenario import Scenario
from advisor.show.live_answer import difference_name, live_answer
from advisor.show.phrases.answer import PIN
from advisor.ui.pins import MOST_PINS, pin_of, read_pins, setup_of
from tests.own_model import CONFIG_JSON
from tests.pages.app_page import live, opened

GPT_OSS = Scenario(
    model_id="gpt-oss-20b",
    hardware_id="b200-sxm",
    acceptance="gpt-oss-20b-eagle3-mt-bench",
    max_tpot_ms=12.0,
    batch_size=48,
)


def other(**changes: object) -> Scenario:
    return GPT_OSS.model_copy(update=changes)


def test_a_pin_is_read_back_but_for_its_batch() -> None:
    assert setup_of(pin_of(GPT_OSS)) == other(batch_size=16)
    assert pin_of(GPT_OSS) == pin_of(other(batch_size=7))


@pytest.mark.parametrize(
    "bad",
    [
        "junk",
        "x=3",
        pin_of(other(model_id="gpt-9")),
        pin_of(other(acceptance="nine")),
        pin_of(GPT_OSS).replace("2048", "many"),
        pin_of(other(model_id="own-tiny", model_config_json=CONFIG_JSON)),
    ],
)
def test_a_bad_pin_is_left_out_alone(bad: str) -> None:
    good = pin_of(GPT_OSS)
    assert read_pins(f"{bad}!{good}") == ([good], [bad])


def test_no_more_pins_than_colors() -> None:
    pins = [pin_of(other(context_tokens=1000 * n)) for n in range(1, MOST_PINS + 2)]
    assert read_pins("!".join(pins)) == (pins[:MOST_PINS], pins[MOST_PINS:])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"drafter_id": "p-eagle", "acceptance": "gpt-oss-20b-p-eagle-mt-bench"}, "P-EAGLE"),
        ({"hardware_id": "h200-sxm"}, "H200 SXM"),
        ({"n_gpus": 4, "tensor_parallel": 4}, "4 GPUs"),
        ({"acceptance": "2.2@3", "engine": "sglang"}, "accepted 2.2@3 · SGLang"),
        ({"batch_size": 3}, "gpt-oss-20b · B200 SXM · vLLM · EAGLE-3 · context 2,048"),
    ],
)
def test_a_pin_goes_by_what_differs(changes: dict[str, object], name: str) -> None:
    assert difference_name(GPT_OSS, other(**changes)) == name


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_pin_serves_at_each_batch_what_an_answer_for_it_serves(engine: str) -> None:
    scenario = other(engine=engine, max_tpot_ms=None)
    base = advise(scenario)
    (pin,) = live_answer(base, pins=[base])["pins"]
    assert pin["speedup"] == live_answer(base)["speedup"]
    for batch in (1, 16, 64, 256, 512):
        served = next(k for last, k in pin["served"] if batch <= last)
        answer = advise(scenario.model_copy(update={"batch_size": batch}))
        assert served == answer.recommendation.n_draft
        assert served == at_length(answer, length_now(answer)).k(batch)


def test_what_is_the_user_s_own_is_not_pinned() -> None:
    own = other(model_id="own-tiny", model_config_json=CONFIG_JSON)
    private = live(opened(**dict(parse_qsl(own.to_query()))))
    assert private["unpinnable"] == PIN.say("refused", {"private": True})
    pinned = opened(**dict(parse_qsl(GPT_OSS.to_query())), pins=pin_of(GPT_OSS))
    assert live(pinned)["unpinnable"] == PIN.say("refused", {"private": False, "again": True})
