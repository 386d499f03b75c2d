"""A scenario that carries loads of experts or asks for copies: counted ranks in every prediction.

The slowest rank over all batches of a scenario: against direct counts, and at its limits.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from advisor.answers.by_batch import static_ranges
from advisor.answers.design.search import design_space
from advisor.answers.engines.export import export_scenario
from advisor.answers.schedule import values_of
from advisor.catalog.engines import EAGER_DENSE_S
from advisor.catalog.fit_records import class_costs
from advisor.catalog.kernel_costs import BETWEEN_S
from advisor.catalog.models import load_model, model_ids, model_profile, published_architecture
from advisor.physics.expert_loads import Steps, counted, traffic_of_loads
from advisor.physics.expert_ranks import RankBalance, Sources, drawn_choices, skewed_loads
from advisor.physics.memory import GIB
from advisor.physics.notes import Note
from advisor.physics.step import routed_time, slowest_rank
from advisor.predict.curve import curve_for
from advisor.predict.load import _remembered, load_setup, with_costs
from advisor.predict.scenario import Scenario, build_scenario, write_loads
from advisor.predict.setup import (
    _KNOWN,
    Setup,
    counted_balance,
    filling_copies,
    layout_plan,
    served_weights,
    touched_in_pass,
    traffic_of,
)
from advisor.prediction import AdvisorError
from advisor.show.explain.round import derive
from tests.physics.test_expert_loads import ON_RANKS, SETUP


def scenario(**values: object) -> Scenario:
    given = {"drafter_id": "eagle3", "acceptance": "2.4@3", "k_max": 3, "batch_size": 128}
    return build_scenario(**ON_RANKS | given | values)


def setup_of(**values: object) -> Setup:
    return load_setup(scenario(**values))


def block(hot: float) -> str:
    """Loads whose first 16 experts, one of eight ranks, are `hot` times as popular as the
    others."""
    return write_loads(np.repeat(np.r_[np.full(16, hot), np.ones(112)][None], 4, axis=0))


def test_a_hot_rank_makes_every_step_longer_and_even_loads_do_not() -> None:
    assumed = curve_for(setup_of(expert_loads=None), [16, 128])
    even = curve_for(setup_of(expert_loads=block(1.0)), [16, 128])
    hot = curve_for(setup_of(expert_loads=block(9.0)), [16, 128])
    assert (hot.round_s > even.round_s).all()
    assert hot.round_s[1, 3] > 1.2 * even.round_s[1, 3]  # 512 tokens: arithmetic of the hot rank
    assert even.round_s == pytest.approx(assumed.round_s, rel=0.05)


def test_a_balanced_layout_takes_the_heat_out() -> None:
    in_order = curve_for(setup_of(expert_loads=block(9.0), redundant_experts=None), [128]).round_s
    balanced = curve_for(setup_of(expert_loads=block(9.0), redundant_experts=0), [128]).round_s
    assert (balanced < 0.97 * in_order).all()


def test_copies_take_memory_and_are_rounded_up_to_fill_the_ranks() -> None:
    plain = setup_of()
    copied = setup_of(redundant_experts=3)
    assert copied.placement.redundant == 8
    moe = plain.architecture.moe
    one_expert = 3 * 2048 * 768 * 2 * moe.count
    # One copy for each rank in the model, and in its drafter none: the head has no experts.
    assert copied.memory.weights_bytes - plain.memory.weights_bytes == pytest.approx(
        one_expert, abs=0.001 * GIB
    )
    assert Note.of("layout_planned", rounded=8) in copied.notes


def spread(cv: float) -> str:
    """Loads of 48 layers of a lognormal spread."""
    return write_loads(skewed_loads(128, 8, cv, 48, np.random.default_rng(2)))


@pytest.mark.parametrize("cv", [0.3, 0.9, 1.7])
def test_as_many_experts_are_touched_as_are_counted(cv: float) -> None:
    """Without correlation, which loads say nothing of: drawn from the loads against the law at
    their spread."""
    setup = setup_of(expert_loads=spread(cv), routing="uniform")
    traffic = traffic_of(setup, setup.scenario.expert_loads)
    drawn = drawn_choices(traffic.loads, 8, 16, 2, np.random.default_rng(0))
    counted = np.mean([len(np.unique(drawn[:, :, layer])) for layer in range(48)])
    assert float(touched_in_pass(setup, 16.0, 2.0)) == pytest.approx(counted, rel=0.03)


def test_a_trace_s_own_spread_stands_beside_its_loads() -> None:
    routing = "0.5/0.4/0.6,0.2/0.1/0.3,0.1/0/0.2"
    given = setup_of(expert_loads=spread(1.7), routing=routing)
    assert given.routing_parameters() == (0.5, 0.2, 0.1)
    assert setup_of(expert_loads=spread(1.7)).routing_parameters()[0] == pytest.approx(
        1.7, rel=0.02
    )


def test_on_one_rank_copies_change_nothing_and_it_is_said() -> None:
    plain = setup_of(expert_parallel=1, tensor_parallel=8, redundant_experts=None)
    given = setup_of(expert_parallel=1, tensor_parallel=8, redundant_experts=8)
    assert (curve_for(given, [64]).round_s == curve_for(plain, [64]).round_s).all()
    assert Note.of("copies_change_nothing") in given.notes


def test_loads_of_fewer_layers_and_idle_experts_are_told() -> None:
    some_layers = Note.of("loads_of_some_layers", layers=4, routed_layers=48)
    assert some_layers in setup_of(expert_loads=block(2.0)).notes
    idle = np.ones((48, 128))
    idle[:, 7] = 0.0
    notes = setup_of(expert_loads=write_loads(idle)).notes
    assert Note.of("experts_without_load", idle=1, experts=128) in notes
    assert not any(note.kind == "loads_of_some_layers" for note in notes)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "redundant_experts",
            65_536,
            "65,536 copies of 128 experts cannot be placed; give at most 128",
        ),
        ("expert_loads", "nonsense", "no text of loads"),
        (
            "expert_loads",
            write_loads(np.ones((2, 64))),
            "2 layers and 64 experts; expected up to 48 layers and 128",
        ),
        (
            "expert_loads",
            write_loads(np.ones((49, 128))),
            "49 layers and 128 experts; expected up to 48 layers",
        ),
    ],
)
def test_loads_and_copies_that_cannot_be_are_refused(name: str, value: object, says: str) -> None:
    with pytest.raises(AdvisorError, match=says):
        setup_of(**{name: value})


def test_loads_are_private_and_no_cache_keeps_them() -> None:
    loads = spread(1.23)
    given = scenario(expert_loads=loads, redundant_experts=8)
    assert given.is_private
    before = _remembered.cache_info().currsize
    load_setup(given)
    assert _remembered.cache_info().currsize == before
    assert _KNOWN
    assert loads not in repr(list(_KNOWN.items()))
    assert not scenario(redundant_experts=8).is_private


def test_engines_are_told_the_copies() -> None:
    copied = setup_of(redundant_experts=8)
    ranges = static_ranges(values_of(curve_for(copied, [1, 128])), 3, 128)
    vllm = export_scenario(copied, ranges, "vllm", draft_model="head").launch_line
    sglang = export_scenario(copied, ranges, "sglang", draft_model="head").launch_line
    assert "--enable-eplb --eplb-config '{\"num_redundant_experts\":8}'" in vllm
    assert "--enable-eplb --ep-num-redundant-experts 8" in sglang
    even = export_scenario(
        setup_of(redundant_experts=0), ranges, "vllm", draft_model="head"
    ).launch_line
    assert "--enable-eplb --" in even
    assert "num_redundant_experts" not in even
    assert "eplb" not in export_scenario(setup_of(), ranges, "vllm", draft_model="head").launch_line


def test_other_designs_are_searched_without_this_model_s_loads() -> None:
    plain = design_space(scenario(expert_loads=None))
    given = design_space(scenario(expert_loads=block(9.0)))
    assert (plain.tpot_s == given.tpot_s).all()


LOADS = skewed_loads(128, 8, 0.8, 48, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("experts", "wanted", "filled"),
    [(128, 0, 0), (128, 1, 8), (128, 8, 8), (128, 9, 16), (126, 0, 2)],
)
def test_copies_are_rounded_up_to_fill_the_ranks(experts: int, wanted: int, filled: int) -> None:
    assert filling_copies(experts, 8, wanted) == filled


@pytest.mark.parametrize(
    ("hardware", "copies"), [("h200-sxm", None), ("rtx-pro-6000-blackwell", 8)]
)
def test_it_takes_as_long_as_long_counts_with_these_kernels_say(
    hardware: str, copies: int | None
) -> None:
    setup = load_setup(SETUP.scenario.model_copy(update={"hardware_id": hardware}))
    layer = setup.routed_layer
    traffic = traffic_of_loads(LOADS, setup.router)
    placement = dataclasses.replace(layer.placement, balance=counted_balance(traffic, 8, copies, 4))
    planned = layout_plan(128, 8, copies)
    for batch in (4, 256):
        once = counted(
            layer.rank_seconds, traffic, [planned], Sources(8), Steps(batch, 4, 1_500_000)
        )[0]
        tokens = np.arange(1.0, 5.0)
        touched = once.touched_overall
        kind = (layer.cost, placement, layer.shape)
        uneven = slowest_rank(*kind, np.asarray(float(batch)), tokens, touched, layer.dtype)
        here = routed_time(*kind, batch * tokens, touched, layer.dtype, uneven=uneven)
        assert here == pytest.approx(once.slowness[:, 0].mean(axis=0), rel=0.04)


def fullest(found: RankBalance, batch: float, tokens: float) -> float:
    return max(float(one.pairs) for one in found.at(batch, tokens))


def test_many_tokens_load_the_fullest_rank_as_the_loads_say() -> None:
    found = counted_balance(traffic_of_loads(LOADS, SETUP.router), 8, None, 4)
    by_rank = LOADS.reshape(48, 8, 16).sum(axis=2)
    assert fullest(found, 1024, 4) == pytest.approx(
        (by_rank.max(axis=1) / by_rank.mean(axis=1)).mean(), rel=0.04
    )


def test_even_loads_leave_ranks_even_in_large_steps() -> None:
    found = counted_balance(traffic_of_loads(np.ones((4, 128)), SETUP.router), 8, None, 4)
    assert fullest(found, 1024, 4) == pytest.approx(1.0, abs=0.05)
    assert fullest(found, 1, 1) > 2.0  # eight choices on eight ranks are never one each


def test_longer_drafts_than_are_counted_hold_the_last() -> None:
    found = counted_balance(traffic_of_loads(LOADS, SETUP.router), 8, None, 9)
    assert found.pairs.shape == (5, 6, 9)
    assert (found.pairs[:, -1, 4:] == found.pairs[:, -1, 3:4]).all()


ON_A100 = {
    "hardware_id": "a100-80gb-sxm",
    "model_id": "llama-3.1-8b",
    "drafter_id": "eagle3",
    "acceptance": "2.9@5",
}


@pytest.mark.parametrize(
    ("changes", "pieces"),
    [
        ({"kv_dtype": "fp8"}, True),
        ({"kv_dtype": "bf16"}, False),
        ({"kv_dtype": "fp8", "hardware_id": "h100-sxm"}, False),
        ({"kv_dtype": "fp8", "engine": "sglang"}, False),
        ({"kv_dtype": "fp8", "graph_mode": "full"}, False),
        ({"kv_dtype": "bf16", "graph_mode": "pieces"}, True),
        ({"hardware_id": "rtx-pro-6000-blackwell"}, False),
        ({"hardware_id": "rtx-pro-6000-blackwell", "engine_version": "0.27.1"}, True),
        ({"hardware_id": "rtx-pro-6000-blackwell", "engine_version": "0.28.0"}, False),
        (
            {
                "hardware_id": "rtx-pro-6000-blackwell",
                "engine_version": "0.27.1",
                "model_id": "gpt-oss-20b",
            },
            False,
        ),
    ],
)
def test_where_vllm_verifies_outside_full_graphs_a_round_pays_for_launches_and_says_so(
    changes, pieces
) -> None:
    found = load_setup(Scenario(**{**ON_A100, "n_gpus": 1, **changes}))
    held = curve_for(found, [16], [5], central_only=True)
    assert (found.costs.between_graphs_s > 0) == pieces
    assert any(note.kind == "graphs_in_pieces" for note in found.notes) == pieces
    assert (
        "between_graphs" not in held.plain_components
        or not held.plain_components["between_graphs"].any()
    )
    if pieces:
        without = curve_for(with_costs(found, between_graphs_s=0.0), [16], [5], central_only=True)
        layers = found.architecture.mixers[0].count
        assert held.round_components["between_graphs"].item() == pytest.approx(layers * BETWEEN_S)
        # Five passes of a head of one layer, each launched kernel by kernel.
        assert held.round_components["draft"].item() > without.round_components["draft"].item()
        assert held.round_components["draft"].item() >= 5 * EAGER_DENSE_S


def test_a_server_without_graphs_launches_every_step_kernel_by_kernel() -> None:
    found = load_setup(Scenario(**ON_A100, n_gpus=1, graph_mode="none"))
    same = load_setup(Scenario(**ON_A100, n_gpus=1, graph_sizes="none"))
    held = curve_for(found, [1], [0, 5], central_only=True)
    assert held.eager is not None
    assert held.eager.all()
    assert held.round_s == pytest.approx(curve_for(same, [1], [0, 5], central_only=True).round_s)
    full = load_setup(Scenario(**ON_A100, n_gpus=1, graph_mode="full"))
    assert held.round_s[0, 1] > curve_for(full, [1], [0, 5], central_only=True).round_s[0, 1]


@pytest.mark.parametrize(
    ("engine", "kv_dtype", "warned"),
    [("sglang", "bf16", True), ("sglang", "fp8", False), ("vllm", "bf16", False)],
)
def test_a_sparse_cache_in_16_bits_is_remarked_where_it_was_seen_to_be_slow(
    engine: str, kv_dtype: str, warned: bool
) -> None:
    asked = Scenario(
        hardware_id="h20",
        n_gpus=8,
        tensor_parallel=8,
        model_id="deepseek-v3.2",
        engine=engine,
        kv_dtype=kv_dtype,
        acceptance="1.8@1",
    )
    kinds = {note.kind for note in load_setup(asked).notes}
    assert ("sparse_cache_in_16_bits" in kinds) == warned


def setup(model_id: str, **changes: object) -> Setup:
    asked = {
        "acceptance": "2@3",
        "model_id": model_id,
        "hardware_id": "b200-sxm",
        "drafter_id": "ngram",
    }
    return load_setup(Scenario(**{**asked, "n_gpus": 8, "tensor_parallel": 8, **changes}))


def test_a_model_published_in_the_format_keeps_the_parts_that_its_release_keeps() -> None:
    found = setup("minimax-m2", weight_dtype="nvfp4")
    assert (found.architecture.dtypes.routed, found.architecture.dtypes.attention) == (
        "nvfp4",
        "bf16",
    )
    (kept,) = (note for note in found.notes if note.kind == "parts_in_bf16")
    assert kept.facts["parts"] == ("attention",)
    assert (
        any("NVFP4" in source for source in found.sources)
        or found.architecture.sources[-1] in found.sources
    )


def test_a_model_without_such_a_release_gets_the_format_in_every_matrix() -> None:
    found = setup("mixtral-8x7b", weight_dtype="nvfp4").architecture.dtypes
    assert {found.routed, found.attention} == {"nvfp4"}


def test_fp8_of_a_model_published_in_blocks_means_blocks_and_says_so() -> None:
    blocks = setup("qwen3-235b-a22b", weight_dtype="fp8")
    tensors = setup("llama-3.1-8b", weight_dtype="fp8")
    assert blocks.architecture.dtypes.routed == "fp8_block"
    assert "published_in_blocks" in {note.kind for note in blocks.notes}
    assert tensors.architecture.dtypes.dense == "fp8"


def test_a_stated_format_of_the_experts_wins_over_the_release() -> None:
    found = setup("minimax-m2", weight_dtype="nvfp4", expert_dtype="fp8").architecture.dtypes
    assert (found.routed, found.attention) == ("fp8", "bf16")


@pytest.mark.parametrize(
    ("model_id", "changes", "dtype", "why"),
    [
        ("qwen3-30b-a3b", {}, "bf16", "names none"),
        ("qwen3-30b-a3b", {"kv_dtype": "fp8"}, "fp8", "as chosen"),
        (
            "deepseek-v3",
            {"kv_dtype": "bf16", "engine": "trtllm", "weight_dtype": "nvfp4"},
            "bf16",
            "as chosen",
        ),
        ("deepseek-v3", {"engine": "trtllm"}, "bf16", "names none"),
        ("deepseek-v3", {"weight_dtype": "nvfp4"}, "fp8", "checkpoint says"),
        ("mixtral-8x7b", {"engine": "trtllm", "weight_dtype": "fp8"}, "fp8", "TensorRT-LLM"),
        ("mixtral-8x7b", {"engine": "vllm", "weight_dtype": "fp8"}, "bf16", "names none"),
        ("qwen3-30b-a3b", {"engine": "sglang", "tensor_parallel": 4}, "bf16", "names none"),
        ("deepseek-v3", {"engine": "sglang"}, "bf16", "names none"),
        ("glm-5", {"engine": "sglang"}, "fp8", "sparse attention"),
        ("glm-5", {"engine": "vllm"}, "bf16", "names none"),
        ("glm-5", {"engine": "sglang", "hardware_id": "h200-sxm"}, "bf16", "names none"),
    ],
)
def test_the_cache_is_what_the_checkpoint_and_the_engine_make_it(
    model_id: str, changes: dict[str, object], dtype: str, why: str
) -> None:
    found = setup(model_id, **changes)
    assert (found.cache.dtype, found.kv_bytes_per_element) == (
        dtype,
        {"bf16": 2.0, "fp8": 1.0}[dtype],
    )
    assert why in found.cache.sentence


def test_an_fp8_cache_halves_what_a_sequence_takes_the_drafter_s_keys_with_it() -> None:
    """Per token two vectors of 4 KV heads of 128 in each of 48 layers, and those of the head's one
    layer; half on each of two ranks."""
    placed = {"drafter_id": "eagle3", "context_tokens": 1000, "tensor_parallel": 2, "n_gpus": 2}
    wide, narrow = (setup("qwen3-30b-a3b", **placed, kv_dtype=dtype) for dtype in ("bf16", "fp8"))
    assert narrow.memory.kv_bytes_per_sequence == 1000 * 49 * 2 * 4 * 128 / 2
    assert wide.memory.kv_bytes_per_sequence == 2 * narrow.memory.kv_bytes_per_sequence


def test_every_shipped_model_can_be_served_in_each_of_its_published_formats() -> None:
    for model_id in model_ids():
        for release in model_profile(model_id).published_formats:
            asked = Scenario(
                acceptance="2@3", model_id=model_id, weight_dtype=release.weight_format
            )
            found = served_weights(load_model(model_id), asked)
            assert found.dtypes == published_architecture(model_id, release.weight_format).dtypes
            assert (
                found.kv_cache_dtype
                == published_architecture(model_id, release.weight_format).kv_cache_dtype
            )


def served_fp8(scheme: str | None, engine: str, **changes: object) -> Setup:
    """Llama-3.1-70B in fp8 of tensors, its file stating `scheme`."""
    config = dict(model_profile("llama-3.1-70b").config)
    stated = {} if scheme is None else {"activation_scheme": scheme}
    config["quantization_config"] = {"quant_method": "fp8", **stated}
    scenario = Scenario(
        model_id="own",
        model_config_json=json.dumps(config),
        engine=engine,
        n_gpus=2,
        tensor_parallel=2,
        acceptance="2.4@3",
        **changes,  # type: ignore[arg-type]
    )
    return load_setup(scenario)


def test_a_dynamic_activation_scheme_pays_for_its_scales_where_the_engine_s_table_has_them() -> (
    None
):
    static = served_fp8("static", "trtllm").costs
    dynamic = served_fp8("dynamic", "trtllm").costs
    silent = served_fp8(None, "trtllm").costs
    assert dynamic.dense.t0_s > static.dense.t0_s + 3e-6
    assert silent.dense == static.dense
    assert served_fp8("dynamic", "vllm").costs.dense == served_fp8("static", "vllm").costs.dense


def test_the_scheme_of_a_checkpoint_ends_with_its_format() -> None:
    own = served_fp8("dynamic", "trtllm")
    assert own.architecture.activation_scheme == "dynamic"
    assert (
        served_fp8("dynamic", "trtllm", weight_dtype="nvfp4").architecture.activation_scheme is None
    )
    assert served_fp8("dynamic", "trtllm", weight_dtype="fp8").costs.dense == own.costs.dense


def test_a_file_that_is_in_the_format_asked_for_is_taken_as_it_is_stored() -> None:
    """Also where a known release of those dimensions stores it otherwise."""
    block = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "ignore": ["*self_attn*", "lm_head"],
    }
    for experts in (128, 129):
        config = dict(model_profile("qwen3-30b-a3b").config) | {"num_experts": experts}
        text = json.dumps(config | {"quantization_config": block})
        stored = setup(
            "mine", n_gpus=1, tensor_parallel=1, model_config_json=text, weight_dtype=None
        ).architecture.dtypes
        asked = setup(
            "mine", n_gpus=1, tensor_parallel=1, model_config_json=text, weight_dtype="nvfp4"
        ).architecture.dtypes
        assert asked == stored
        assert (stored.routed, stored.attention) == ("nvfp4", "bf16")


@pytest.mark.parametrize(
    ("release", "ending"), [("0.11.2", "-synchronous"), ("0.33.0", ""), (None, "")]
)
def test_the_host_times_are_those_of_the_release_stated(release: str | None, ending: str) -> None:
    setup = load_setup(Scenario(acceptance="2.4@3", engine_version=release))
    own = class_costs(f"vllm{ending}")
    assert {name: getattr(setup.costs, name) for name in own} == own
    assert any(note.kind == "release_host_time" for note in setup.notes) == bool(ending)
    (host,) = (use for use in derive(setup, 16, 3).constants if use.symbol == "c_r")
    assert ("vllm-synchronous" in host.source) == bool(ending), host.source
