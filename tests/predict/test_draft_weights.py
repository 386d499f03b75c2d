"""What the vocabulary of a draft head and the formats of drafter and LM head cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.physics.draft import draft_time
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array

BATCHES = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
DRAFTERS = {"mtp": "qwen3-next-80b-a3b", "eagle3": "qwen3-30b-a3b", "dflash": "qwen3-30b-a3b"}
HARDWARE = ("h100-sxm", "rtx-3090", "mi300x")


def _setup(drafter: str, **fields: Any) -> Setup:
    values = {"model_id": DRAFTERS[drafter], "acceptance": "2.4@3"} | fields
    return load_setup(Scenario(drafter_id=drafter, **values))


def _pass_s(setup: Setup) -> Array:
    """Kernels of a drafting pass at K = 4, by batch. [s]"""
    return draft_time(
        setup.drafting, batch_size=BATCHES, n_draft=4.0, context_tokens=1000.0, touched_one=8.0
    ).pass_s


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_pass_takes_longer_and_more_memory_the_larger_the_vocabulary(
    drafter: str, hardware: str
) -> None:
    whole = 151_936
    rows = (1_000, 15_000, 32_000, 40_960, 100_000, whole)
    setups = [_setup(drafter, hardware_id=hardware, draft_vocabulary=count) for count in rows]
    assert (np.diff([_pass_s(setup) for setup in setups], axis=0) > 0).all()
    assert (np.diff([setup.memory.drafter_bytes for setup in setups]) > 0).all()


@pytest.mark.parametrize(
    ("drafter", "rows"), [("mtp", 151_936), ("dflash", 151_936), ("eagle3", 32_000)]
)
def test_the_vocabulary_a_drafter_has_by_itself_changes_nothing(drafter: str, rows: int) -> None:
    default = _setup(drafter)
    stated = _setup(drafter, draft_vocabulary=rows)
    assert (_pass_s(stated) == _pass_s(default)).all()
    assert stated.memory == default.memory
    assert stated.draft_architecture == default.draft_architecture


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("field", ["head_dtype", "draft_dtype"])
def test_a_pass_takes_longer_the_more_bytes_the_head_s_format_has(
    field: str, hardware: str
) -> None:
    """Where weights are read and hardly multiplied. Beyond, 4 bits multiply in 16 bits, and so may
    take longer than 8."""
    rows = {"draft_vocabulary": 100_000} if field == "draft_dtype" else {}
    four, eight, sixteen = (
        _setup("mtp", hardware_id=hardware, **rows, **{field: dtype})
        for dtype in ("int4", "fp8", "bf16")
    )
    assert (_pass_s(four) < _pass_s(sixteen)).all()
    assert (_pass_s(eight) < _pass_s(sixteen)).all()
    few = BATCHES <= 16
    assert (_pass_s(four)[few] < _pass_s(eight)[few]).all()
    drafters = [setup.memory.drafter_bytes for setup in (four, eight, sixteen)]
    assert drafters == sorted(set(drafters))


def test_a_quantised_lm_head_is_the_target_s_and_leaves_its_router_alone() -> None:
    stored = _setup("mtp")
    quantised = _setup("mtp", head_dtype="int8")
    step = quantised.architecture
    assert step.dtypes == stored.architecture.dtypes.model_copy(update={"embedding": "int8"})
    assert quantised.costs.router == stored.costs.lm_head
    assert quantised.memory.weights_bytes < stored.memory.weights_bytes
    # EAGLE-3 scores drafts with a head of its own.
    own_head = _setup("eagle3", head_dtype="int8")
    assert own_head.draft_architecture == _setup("eagle3").draft_architecture


def test_what_is_said_of_one_drafter_s_weights_does_not_go_to_another() -> None:
    scenario = _setup("mtp", draft_vocabulary=32_000, draft_dtype="int4").scenario
    moved = scenario.model_copy(update={"drafter_id": "eagle3"})
    assert (moved.draft_vocabulary, moved.draft_dtype) == (None, None)
    assert scenario.model_copy(update={"batch_size": 2}).draft_vocabulary == 32_000


def test_more_rows_than_the_model_has_tokens_are_refused() -> None:
    with pytest.raises(AdvisorError, match="exceeds the 151,936 of Qwen3-Next-80B-A3B; give at"):
        _setup("mtp", draft_vocabulary=200_000)
