"""Exported engine configuration: right fields per method, and checkers that accept good files and refuse bad ones."""

from __future__ import annotations

import copy
import json
import shlex
from typing import Any

import pytest

from advisor.answers.engines.config import EngineExport, ExportRequest, ServedModel, merged_rows, widest_k
from advisor.answers.engines.export import export_engine_config
from advisor.answers.engines.sglang import check_sglang_adaptive_config, sglang_adaptive_config
from advisor.answers.engines.vllm import check_vllm_speculative_config, vllm_speculative_config
from advisor.answers.round_costs import KRange
from advisor.prediction import AdvisorError

RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))
MODEL = ServedModel("Qwen/Qwen3-30B-A3B", tensor_parallel=2)
DRAFT = "some/eagle head"  # a path with a blank: must survive the shell


def flags(line: str) -> dict[str, str]:
    words = shlex.split(line)
    return {w: words[i + 1] if i + 1 < len(words) else "" for i, w in enumerate(words) if w.startswith("--")}


def exported(
    engine: str, ranges: tuple[KRange, ...], method: str, served: ServedModel, draft: str | None = None
) -> EngineExport:
    return export_engine_config(engine, ExportRequest(ranges, method, served, draft, "my k.json"))


@pytest.mark.parametrize(
    ("method", "draft", "extra"),
    [
        ("eagle3", DRAFT, {"model": DRAFT}),
        ("eagle", DRAFT, {"model": DRAFT}),
        ("draft_model", "Qwen/Qwen3-0.6B", {"model": "Qwen/Qwen3-0.6B"}),
        ("mtp", None, {}),
        ("ngram", None, {"prompt_lookup_min": 2, "prompt_lookup_max": 5}),
    ],
)
def test_vllm_config_has_the_fields_of_its_method(method: str, draft: str | None, extra: dict[str, Any]) -> None:
    export = exported("vllm", RANGES, method, MODEL, draft)
    expected = {
        "method": method,
        **extra,
        "num_speculative_tokens": 5,
        "num_speculative_tokens_per_batch_size": [[1, 16, 3], [17, 64, 5], [65, 256, 0]],
    }
    assert export.config == expected
    found = flags(export.launch_line)
    assert json.loads(found["--speculative-config"]) == expected
    assert found["--tensor-parallel-size"] == "2"
    assert shlex.split(export.launch_line)[:3] == ["vllm", "serve", "Qwen/Qwen3-30B-A3B"]


@pytest.mark.parametrize(
    ("method", "draft", "algorithm"),
    [("eagle3", DRAFT, "EAGLE3"), ("eagle", DRAFT, "EAGLE"), ("mtp", None, "EAGLE")],
)
def test_sglang_adaptive_file_holds_one_candidate_per_range(method: str, draft: str | None, algorithm: str) -> None:
    export = exported("sglang", RANGES, method, MODEL, draft)
    assert export.config == {
        "1": {"candidate_steps": [3]},
        "17": {"candidate_steps": [5]},
        "65": {"candidate_steps": [0]},
    }
    assert json.loads(export.config_json) == export.config
    found = flags(export.launch_line)
    assert found["--speculative-algorithm"] == algorithm
    assert found["--speculative-num-steps"] == "5"
    assert found["--speculative-num-draft-tokens"] == "6"
    assert found["--speculative-eagle-topk"] == "1"
    assert found["--speculative-adaptive-config"] == "my k.json"
    assert "--speculative-adaptive" in found
    assert found.get("--speculative-draft-model-path") == draft


def test_sglang_runs_other_drafters_with_one_k_and_says_so() -> None:
    for method, draft, algorithm in (("ngram", None, "NGRAM"), ("draft_model", "Qwen/Qwen3-0.6B", "STANDALONE")):
        export = exported("sglang", RANGES, method, MODEL, draft)
        found = flags(export.launch_line)
        assert export.config is None
        assert found["--speculative-algorithm"] == algorithm
        assert "--speculative-adaptive" not in found
        assert found["--speculative-num-draft-tokens"] == "4"  # K = 3 covers 1-16, the widest range on a log scale
        assert any("widest range" in warning for warning in export.warnings)
    with pytest.raises(AdvisorError, match="SGLang has no suffix"):
        exported("sglang", RANGES, "suffix", MODEL)


@pytest.mark.parametrize(("engine", "method"), [("sglang", "ngram"), ("vllm", "suffix")])
def test_an_engine_that_cannot_vary_k_runs_the_one_of_the_target_batch(engine: str, method: str) -> None:
    request = ExportRequest(RANGES, method, MODEL, target_k=1)
    export = export_engine_config(engine, request)
    assert widest_k(merged_rows(RANGES)) != 1
    assert not export.varies_k
    assert any("K = 1 of the target batch" in warning for warning in export.warnings)


def test_suffix_decoding_gets_one_k_because_its_proposer_takes_no_other() -> None:
    export = exported("vllm", RANGES, "suffix", MODEL)
    assert export.config == {"method": "suffix", "num_speculative_tokens": 3}
    assert any("fixed K" in warning for warning in export.warnings)
    assert any("arctic-inference" in warning for warning in export.warnings)


def test_a_schedule_of_one_k_needs_no_table_and_one_of_zero_no_speculation() -> None:
    assert vllm_speculative_config((KRange(1, 64, 2, 1.4),), "mtp") == {"method": "mtp", "num_speculative_tokens": 2}
    for engine in ("vllm", "sglang"):
        export = exported(engine, (KRange(1, 64, 0, 1.0),), "mtp", MODEL)
        assert export.config is None
        assert "speculative" not in export.launch_line
        assert export.warnings == ("K = 0 throughout: the engine is started without speculation",)


def test_launch_lines_carry_placement_and_warn_where_the_engine_deviates() -> None:
    served = ServedModel("m", tensor_parallel=2, expert_parallel=4, data_parallel=2, max_running_requests=512)
    vllm = exported("vllm", RANGES, "eagle3", served, "d")
    assert flags(vllm.launch_line)["--data-parallel-size"] == "2"
    assert "--enable-expert-parallel" in flags(vllm.launch_line)
    assert flags(vllm.launch_line)["--max-num-seqs"] == "512"
    assert any("data parallelism" in warning for warning in vllm.warnings)
    assert any("ends at batch 256" in warning for warning in vllm.warnings)
    sglang = exported("sglang", RANGES, "eagle3", served, "d")
    assert flags(sglang.launch_line)["--ep-size"] == "4"
    assert flags(sglang.launch_line)["--dp-size"] == "2"


def test_a_hostile_model_name_stays_one_shell_word() -> None:
    served = ServedModel("m; rm -rf ~ $(x) `y` 'z'")
    words = shlex.split(exported("vllm", RANGES, "eagle3", served, "a'b\"c").launch_line)
    assert words[2] == served.model
    assert json.loads(words[words.index("--speculative-config") + 1])["model"] == "a'b\"c"


def test_neighbouring_ranges_of_one_k_are_joined_and_gaps_refused() -> None:
    assert merged_rows((KRange(1, 4, 2, 1.2), KRange(5, 9, 2, 1.1), KRange(10, 12, 1, 1.1))) == ((1, 9, 2), (10, 12, 1))
    for bad in ((KRange(2, 4, 1, 1.0),), (KRange(1, 4, 1, 1.0), KRange(6, 9, 2, 1.0)), (KRange(1, 0, 1, 1.0),), ()):
        with pytest.raises(AdvisorError):
            merged_rows(bad)


def test_a_method_without_its_draft_model_is_refused() -> None:
    with pytest.raises(AdvisorError, match="needs --draft-model"):
        exported("vllm", RANGES, "eagle3", MODEL)
    with pytest.raises(AdvisorError, match="has no draft model"):
        exported("vllm", RANGES, "ngram", MODEL, "x")
    with pytest.raises(AdvisorError, match="unknown"):
        exported("vllm", RANGES, "medusa", MODEL, "x")


GOOD_VLLM: dict[str, Any] = {
    "method": "eagle3",
    "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    "num_speculative_tokens": 5,
    "num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]],
}


def test_the_example_of_vllms_own_documentation_passes() -> None:
    check_vllm_speculative_config(GOOD_VLLM)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_speculative_tokens_per_batch_size": [[2, 16, 5]]}, "must start at 1"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 5], [16, 32, 1]]}, "start at 17"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 5], [18, 32, 1]]}, "start at 17"),
        ({"num_speculative_tokens_per_batch_size": [[17, 32, 1], [1, 16, 5]]}, "must start at 1"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 6]]}, "K=6 exceeds"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, -1]]}, "negative"),
        ({"num_speculative_tokens_per_batch_size": [[1, 0, 5]]}, "lies before"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16]]}, "row 1"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 2.0]]}, "whole numbers"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, True]]}, "whole numbers"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 1, 4096, 5]]}, "row 1"),
        ({"num_speculative_tokens_per_batch_size": {"1-16": 5}}, "non-empty list"),
        ({"num_speculative_tokens_per_batch_size": []}, "non-empty list"),
        ({"num_speculative_tokens_per_batch_size": [[1, 16, 3]]}, "no row uses"),
        ({"num_speculative_tokens": 0}, "at least 1"),
        ({"num_speculative_tokens": "5"}, "at least 1"),
        ({"method": "eagle4"}, "not one of"),
        ({"model": None}, "needs the draft model"),
        ({"method": "ngram", "model": None}, "prompt_lookup_max"),
        ({"method": "suffix", "model": None}, "fixed K"),
        ({"method": "ngram", "prompt_lookup_max": 3}, "leave 'model' out"),
        ({"prompt_lookup_max": 3}, "belong to method 'ngram'"),
        ({"num_spec_tokens": 3}, "unknown key"),
    ],
)
def test_the_vllm_checker_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        check_vllm_speculative_config({**copy.deepcopy(GOOD_VLLM), **change})


GOOD_SGLANG: dict[str, Any] = {
    "1": {"candidate_steps": [1, 3, 5, 7], "up_hysteresis": 0.0, "down_hysteresis": -0.25, "ceiling_coeff": 0},
    "64": {"candidate_steps": [0], "ema_alpha": 0.2, "update_interval": 5, "warmup_batches": 10},
}


def test_a_file_with_sglangs_own_keys_passes() -> None:
    check_sglang_adaptive_config(GOOD_SGLANG, num_steps=5)
    check_sglang_adaptive_config({"ema_alpha": 0.2, "strategy": "ema", **GOOD_SGLANG})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no batch size"),
        ({"candidate_steps": [1, 3]}, "no batch size"),
        ({"8": {"candidate_steps": [1]}}, "batch size 1"),
        ({"1": {"candidate_steps": []}}, "non-empty"),
        ({"1": {"candidate_steps": [1, -1]}}, "whole numbers"),
        ({"1": {"candidate_steps": [1.0]}}, "whole numbers"),
        ({"1": {"candidate_steps": [3, 1]}}, "increase"),
        ({"1": {"candidate_steps": [1, 1]}}, "increase"),
        ({"1": {}}, "non-empty"),
        ({"1": [1, 3]}, "expected an object"),
        ({"1": {"candidate_steps": [1]}, "01": {"candidate_steps": [2]}}, "leading zeros"),
        ({"1": {"candidate_steps": [1]}, "0": {"candidate_steps": [2]}}, "at least 1"),
        ({"1": {"candidate_steps": [1], "ema_alpha": 1.5}}, "ema_alpha"),
        ({"1": {"candidate_steps": [1], "update_interval": 0}}, "update_interval"),
        ({"1": {"candidate_steps": [1], "hysteresis": 0}}, "unknown key"),
        ({"1": {"candidate_steps": [1]}, "1-8": {"candidate_steps": [1]}}, "unknown key"),
        ({"1": {"candidate_steps": [1]}, "strategy": "throughput_aware"}, "strategy"),
        ([["1", 3]], "JSON object"),
    ],
)
def test_the_sglang_checker_refuses(config: object, message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        check_sglang_adaptive_config(config)


def test_the_sglang_checker_wants_the_start_value_among_the_candidates() -> None:
    with pytest.raises(AdvisorError, match="is not a candidate"):
        check_sglang_adaptive_config(GOOD_SGLANG, num_steps=4)


def test_exports_satisfy_vllms_own_validator_where_it_is_installed() -> None:
    utils = pytest.importorskip("vllm.v1.spec_decode.dynamic.utils")
    config = vllm_speculative_config(RANGES, "mtp")
    assert config is not None
    table = config["num_speculative_tokens_per_batch_size"]
    lookup = utils.build_dynamic_sd_schedule_lookup(table, 256, config["num_speculative_tokens"])
    assert [lookup[b] for b in (1, 16, 17, 64, 65, 256)] == [3, 3, 5, 5, 0, 0]


def test_sglang_slots_reproduce_the_schedule_at_every_batch() -> None:
    slots = sglang_adaptive_config(RANGES)
    for batch in (1, 16, 17, 64, 65, 256):
        key = max(int(k) for k in slots if int(k) <= batch)
        expected = next(r.n_draft for r in RANGES if r.batch_start <= batch <= r.batch_end)
        assert slots[str(key)]["candidate_steps"] == [expected]
