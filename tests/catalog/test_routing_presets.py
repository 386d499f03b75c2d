"""Routing presets: all load with origins and bands, and the right one is chosen with a reason."""

import math

import pytest

from advisor.catalog.routing_presets import load_routing_preset, preset_for, routing_preset_ids
from advisor.measured.row_questions import _routing
from advisor.physics.architecture import Architecture, Mixer, Moe
from advisor.physics.touched_experts import shared_share
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.prediction import AdvisorError


def architecture(
    model_id: str = "other",
    n_experts: int = 128,
    n_active: int = 8,
    expert_width: int = 768,
    shared_width: int = 0,
) -> Architecture:
    """A MoE model with nothing in it but its routing."""
    moe = Moe(
        count=1,
        n_experts=n_experts,
        n_active=n_active,
        expert_width=expert_width,
        expert_input_width=2048,
        n_shared=1 if shared_width else 0,
        shared_width=shared_width,
    )
    mixer = Mixer(kind="full", count=1, projection_params=1)
    return Architecture(
        id=model_id, name="Some Model", hidden_size=2048, vocab_size=100, mixers=(mixer,), moe=moe
    )


def test_the_twenty_six_presets_load_nineteen_of_them_measured():
    presets = [load_routing_preset(name) for name in routing_preset_ids()]
    kinds = [preset.kind for preset in presets]
    assert len(presets) == 26
    assert (
        kinds.count("measured_model"),
        kinds.count("class_default"),
        kinds.count("published_preset"),
    ) == (19, 6, 1)


def test_every_number_is_a_possible_value_with_a_band_around_it_and_a_source():
    for name in routing_preset_ids():
        preset = load_routing_preset(name)
        for value in (preset.load_cv, preset.affinity, preset.stickiness, preset.gamma):
            assert 0 <= value.low <= value.value <= value.high
            assert value.high > value.low
            assert len(value.source) > 15
        assert preset.affinity.high < 0.5
        assert preset.stickiness.high < 0.5
        if preset.n_experts and preset.n_active:  # a larger CV is impossible for q <= 1
            assert preset.load_cv.high < math.sqrt(preset.n_experts / preset.n_active - 1)


def test_published_overlap_of_unrelated_tokens_agrees_with_the_load_cv():
    checked = 0
    for name in routing_preset_ids():
        preset = load_routing_preset(name)
        if preset.overlaps.independent is not None and preset.n_experts and preset.n_active:
            expected = preset.n_active / preset.n_experts * (1 + preset.load_cv.value**2)
            assert preset.overlaps.independent.value == pytest.approx(expected, abs=0.002)
            checked += 1
    assert checked == 19


def test_two_token_unions_agree_with_the_overlap_at_lag_one():
    for name in routing_preset_ids():
        overlaps = load_routing_preset(name).overlaps
        if overlaps.lag1 is not None and overlaps.union2_over_k is not None:
            assert overlaps.union2_over_k.value == pytest.approx(2 - overlaps.lag1.value, abs=0.006)


def test_measured_presets_have_narrower_bands_than_class_defaults():
    measured = load_routing_preset("qwen3-30b-a3b").affinity
    default = load_routing_preset("class-fine-no-shared").affinity
    assert (measured.high - measured.low) / measured.value < (
        default.high - default.low
    ) / default.value
    assert default.low == pytest.approx(0.6 * default.value)
    assert default.high == pytest.approx(1.4 * default.value)


def test_unbalanced_routers_and_inferred_models_are_flagged():
    for name in ("llama-moe-v2", "yuan2.0-m32"):
        preset = load_routing_preset(name)
        assert preset.load_cv.confidence == "low"
        assert any("unbalanced" in note for note in preset.notes)
    assert any("inferred" in note for note in load_routing_preset("cohere-128-8").notes)


@pytest.mark.parametrize(
    ("of", "preset_id", "words"),
    [
        (architecture("qwen3-30b-a3b"), "qwen3-30b-a3b", ("measured", "arXiv")),
        (architecture("command-a-plus", 128, 8, 4096, 16384), "cohere-128-8", ("second-hand",)),
        (
            architecture("qwen3-30b-a3b", n_experts=256),
            "class-fine-no-shared",
            ("No routing was measured",),
        ),
    ],
)
def test_a_model_gets_its_own_measurement_a_second_hand_one_or_its_class_and_says_so(
    of, preset_id, words
):
    preset, why = preset_for(of)
    assert preset.id == preset_id
    assert all(word in why for word in words)


@pytest.mark.parametrize(
    ("n_experts", "n_active", "expert_width", "shared_width", "expected"),
    [
        (128, 8, 768, 0, "class-fine-no-shared"),
        (256, 8, 2048, 2048, "class-fine-one-shared"),  # DeepSeek-V3
        (384, 8, 2048, 2048, "class-fine-one-shared"),  # Kimi-K2
        (64, 6, 1408, 2816, "class-quarter-shared"),  # DeepSeek-V2-Lite
        (60, 4, 1408, 5632, "class-half-shared"),  # Qwen1.5-MoE
        (128, 1, 8192, 8192, "class-half-shared"),  # Llama 4 Maverick
        (8, 2, 14336, 0, "class-coarse-top2"),  # Mixtral
    ],
)
def test_models_fall_into_the_class_of_their_shared_share(
    n_experts: int, n_active: int, expert_width: int, shared_width: int, expected: str
):
    preset, why = preset_for(architecture("other", n_experts, n_active, expert_width, shared_width))
    assert preset.id == expected
    assert why.count(".") >= 1
    assert f"{n_active} of {n_experts} experts" in why


def test_shared_share_counts_width_so_that_fused_shared_experts_count_in_full():
    moe = architecture(
        "other", 60, 4, 1408, 5632
    ).moe  # four shared experts fused into one of four times the width
    assert moe is not None
    assert shared_share(moe) == pytest.approx(0.5)


def test_a_dense_model_has_no_routing():
    dense = architecture().model_copy(update={"moe": None})
    with pytest.raises(AdvisorError, match="has no experts"):
        preset_for(dense)


def test_an_unknown_preset_names_a_close_one():
    with pytest.raises(AdvisorError, match="did you mean mixtral-8x7b"):
        load_routing_preset("mixtral-8x22b")


def test_own_routing_round_trips_through_its_text():
    from advisor.catalog.routing_presets import own_routing
    from advisor.physics.touched_experts import write_own_routing

    text = write_own_routing((0.5123, 0.2, 0.15), ((0.45, 0.6), (0.17, 0.22), (0.12, 0.18)))
    preset = own_routing(text, load_routing_preset("class-coarse-top2"))
    assert (preset.load_cv.value, preset.load_cv.low, preset.load_cv.high) == (0.512, 0.45, 0.6)
    assert preset.affinity.kind == "measured"
    assert write_own_routing((0.512, 0.2, 0.15), ((0.45, 0.6), (0.17, 0.22), (0.12, 0.18))) == text
    text = write_own_routing((None, 0.2, 0.15), ((0.0, 0.0), (0.2, 0.22), (0.12, 0.15)))
    assert text == "-,0.2/0.2/0.22,0.15/0.12/0.15"


MISWRITTEN = "a,b,c 1,2 0.5/0.4/0.6,0.2/0.1/0.3 0.5/0.6/0.4,0/0/0,0/0/0"
OUTSIDE = "0/0/0,1/1/2,0/0/0 nan/0/1,0/0/0,0/0/0 -1/-1/0,0/0/0,0/0/0 inf/0/inf,0/0/0,0/0/0"


@pytest.mark.parametrize("text", f"{MISWRITTEN} {OUTSIDE}".split())
def test_other_text_with_commas_is_refused_with_the_grammar(text):
    from advisor.catalog.routing_presets import own_routing

    with pytest.raises(AdvisorError, match="load_cv/low/high"):
        own_routing(text, load_routing_preset("class-coarse-top2"))


@pytest.mark.parametrize("hardware_id", ["b200-sxm", "rtx-pro-6000-blackwell"])
def test_code_and_mathematics_are_text_of_one_domain_for_a_scenario_as_for_a_measured_row(
    hardware_id,
):
    """The rule of measured rows is that of scenarios: what is validated is what a user gets."""
    of = {
        "hardware_id": hardware_id,
        "model_id": "qwen3-30b-a3b",
        "acceptance": "2.4@3",
        "k_max": 3,
    }
    asked = {
        task: load_setup(build_scenario(**of, task=task)).routing.parameters
        for task in ("coding", "chat", None)
    }
    assert asked["chat"] == asked[None]
    assert asked["coding"] != asked["chat"]
    cells = {
        "routing": "",
        "task": "coding",
        "model_id": "qwen3-30b-a3b",
        "hardware_id": hardware_id,
    }
    of_row = load_setup(build_scenario(**of, routing=_routing(cells))).routing.parameters
    for ours, theirs in zip(asked["coding"], of_row, strict=True):
        # A row carries its routing as text of three decimals.
        assert (ours.value, ours.low, ours.high) == pytest.approx(
            (theirs.value, theirs.low, theirs.high), abs=5.1e-4
        )
    assert asked["coding"][0].value > asked["chat"][0].value, "loads of one domain are less even"
    assert asked["coding"][1].value < asked["chat"][1].value
