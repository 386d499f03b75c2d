"""Which constants price the core of a layer."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.physics.attention import AttentionLoad, Core, attention_core, core_cost
from advisor.physics.components import BY_KEY
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.predict.tiers import records_in_use


def hybrid(kv_dtype: str, engine: str = "vllm") -> Setup:
    """Recurrent layers beside softmax ones."""
    scenario = Scenario(
        model_id="qwen3-next-80b-a3b",
        kv_dtype=kv_dtype,
        engine=engine,
        acceptance="2.4@3",
        n_gpus=2,
        tensor_parallel=2,
    )  # type: ignore[arg-type]
    return load_setup(scenario)


def cores(setup: Setup) -> dict[str, Core]:
    load = AttentionLoad(
        np.array(32.0), np.array(1.0), np.array(4096.0), setup.kv_bytes_per_element, 2
    )
    return {
        mixer.kind: attention_core(mixer, setup.costs, load) for mixer in setup.architecture.mixers
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_recurrent_layers_move_their_state_at_one_rate_whatever_the_cache_s_format(
    engine: str,
) -> None:
    wide = cores(hybrid("bf16", engine))
    narrow = cores(hybrid("fp8", engine))
    assert narrow["linear"].time_s == pytest.approx(wide["linear"].time_s)
    assert narrow["linear"].cost == wide["full"].cost
    assert narrow["full"].read_bytes < wide["full"].read_bytes


def test_a_hybrid_s_tier_and_spread_are_of_both_kinds_of_layers() -> None:
    costs = hybrid("fp8").costs
    used = records_in_use(hybrid("fp8"), BY_KEY["attention"])
    assert used == list(
        dict.fromkeys([core_cost(mixer, costs) for mixer in hybrid("fp8").architecture.mixers])
    )
    assert len(used) == 2
    assert costs.attention_log_sd == max(cost.log_sd for cost in used)  # type: ignore[union-attr]
