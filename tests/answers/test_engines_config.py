"""Exported engine configuration: rows of K by batch, and what the engines' own code makes of it."""

from __future__ import annotations

import pytest

from advisor.answers.best_k import KRange
from advisor.answers.engines.config import merged_rows
from advisor.answers.engines.sglang import sglang_adaptive_config
from advisor.answers.engines.vllm import vllm_speculative_config
from advisor.prediction import AdvisorError

RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))


def test_neighbouring_ranges_of_one_k_are_joined_and_gaps_refused() -> None:
    assert merged_rows((KRange(1, 4, 2, 1.2), KRange(5, 9, 2, 1.1), KRange(10, 12, 1, 1.1))) == ((1, 9, 2), (10, 12, 1))
    for bad in ((KRange(2, 4, 1, 1.0),), (KRange(1, 4, 1, 1.0), KRange(6, 9, 2, 1.0)), (KRange(1, 0, 1, 1.0),), ()):
        with pytest.raises(AdvisorError):
            merged_rows(bad)


def test_exports_satisfy_vllms_own_validator_where_it_is_installed() -> None:
    utils = pytest.importorskip("vllm.v1.spec_decode.dynamic.utils")
    config = vllm_speculative_config(RANGES, "mtp")
    table = config["num_speculative_tokens_per_batch_size"]
    lookup = utils.build_dynamic_sd_schedule_lookup(table, 256, config["num_speculative_tokens"])
    assert [lookup[b] for b in (1, 16, 17, 64, 65, 256)] == [3, 3, 5, 5, 0, 0]


def test_sglang_slots_reproduce_the_schedule_at_every_batch() -> None:
    slots = sglang_adaptive_config(RANGES)
    for batch in (1, 16, 17, 64, 65, 256):
        key = max(int(k) for k in slots if int(k) <= batch)
        expected = next(r.n_draft for r in RANGES if r.batch_start <= batch <= r.batch_end)
        assert slots[str(key)]["candidate_steps"] == [expected]
