"""A scenario's export: method and names from its profiles, a data-parallel rank's batch, and commands to check it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from advisor.answers.engines.export import check_commands, export_scenario, needs_draft_model, per_rank, write_export
from advisor.answers.engines.sglang import check_sglang_adaptive_config
from advisor.answers.engines.vllm import check_vllm_speculative_config
from advisor.answers.round_costs import KRange, k_at
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))
EAGLE = Scenario(acceptance="2.4@3")


def flags(line: str) -> dict[str, str]:
    words = shlex.split(line)
    return {w: words[i + 1] if i + 1 < len(words) else "" for i, w in enumerate(words) if w.startswith("--")}


@pytest.mark.parametrize(
    ("drafter", "model", "method", "sglang"),
    [
        ("eagle3", "qwen3-30b-a3b", "eagle3", "EAGLE3"),
        ("eagle", "qwen3-30b-a3b", "eagle", "EAGLE"),
        ("mtp", "deepseek-v3", "mtp", "EAGLE"),
        ("ngram", "qwen3-30b-a3b", "ngram", "NGRAM"),
    ],
)
def test_both_engines_get_the_drafters_own_method(drafter: str, model: str, method: str, sglang: str) -> None:
    scenario = EAGLE.model_copy(update={"drafter_id": drafter, "model_id": model, "n_gpus": 8, "tensor_parallel": 8})
    setup = load_setup(scenario)
    draft = "some/head" if needs_draft_model(setup, "vllm") else None
    vllm = export_scenario(setup, RANGES, "vllm", draft_model=draft)
    assert vllm.config is not None
    assert vllm.config["method"] == method
    check_vllm_speculative_config(vllm.config)
    assert flags(vllm.launch_line)["--tensor-parallel-size"] == "8"
    made = export_scenario(setup, RANGES, "sglang", draft_model=draft)
    assert flags(made.launch_line)["--speculative-algorithm"] == sglang
    if made.config is not None:
        check_sglang_adaptive_config(made.config)


def test_the_served_name_is_the_profiles_and_the_kv_format_is_passed_on() -> None:
    setup = load_setup(EAGLE.model_copy(update={"kv_dtype": "fp8"}))
    vllm, sglang = (export_scenario(setup, RANGES, engine, draft_model="a/b") for engine in ("vllm", "sglang"))
    assert shlex.split(vllm.launch_line)[2] == "Qwen/Qwen3-30B-A3B"
    assert flags(vllm.launch_line)["--kv-cache-dtype"] == "fp8"
    assert flags(sglang.launch_line)["--kv-cache-dtype"] == "fp8_e4m3"


def test_a_parallel_eagle_drafter_tells_vllm_so_and_has_no_sglang_export() -> None:
    setup = load_setup(EAGLE.model_copy(update={"drafter_id": "p-eagle"}))
    config = export_scenario(setup, RANGES, "vllm", draft_model="a/b").config
    assert config is not None
    assert config["parallel_drafting"] is True
    with pytest.raises(AdvisorError, match="no sglang export"):
        export_scenario(setup, RANGES, "sglang", draft_model="a/b")


@pytest.mark.parametrize("engine", ["trtllm", "other", ""])
def test_engines_without_an_export_are_refused(engine: str) -> None:
    with pytest.raises(AdvisorError, match="choose vllm or sglang"):
        export_scenario(load_setup(EAGLE), RANGES, engine, draft_model="a/b")


def test_a_missing_draft_model_and_an_own_configuration_ask_for_names() -> None:
    with pytest.raises(AdvisorError, match="draft model"):
        export_scenario(load_setup(EAGLE), RANGES, "vllm")
    profile = json.loads((Path(__file__).parents[2] / "profiles/models/mixtral-8x7b.json").read_text())
    own = EAGLE.model_copy(update={"model_id": "mine", "model_config_json": json.dumps(profile["config"])})
    with pytest.raises(AdvisorError, match="your own configuration"):
        export_scenario(load_setup(own), RANGES, "vllm", draft_model="a/b")
    line = export_scenario(load_setup(own), RANGES, "vllm", draft_model="a/b", served_model="./mine").launch_line
    assert shlex.split(line)[2] == "./mine"


@pytest.mark.parametrize("groups", [1, 2, 3, 8, 400])
def test_a_data_parallel_rank_runs_the_k_of_the_whole_instances_batch(groups: int) -> None:
    own = per_rank(RANGES, groups)
    assert own[0].batch_start == 1
    for batch in range(1, max(1, 256 // groups) + 1):
        assert k_at(own, batch) == k_at(RANGES, batch * groups)


def test_written_files_hold_the_checked_json_and_a_launch_line(tmp_path: Path) -> None:
    setup = load_setup(EAGLE)
    made = export_scenario(setup, RANGES, "sglang", draft_model="a/b", folder=tmp_path / "out")
    config, launch = write_export(made, tmp_path / "out")
    check_sglang_adaptive_config(json.loads(config.read_text()))
    assert Path(flags(made.launch_line)["--speculative-adaptive-config"]) == config
    assert made.launch_line in launch.read_text()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(AdvisorError, match="cannot write"):
        write_export(made, blocked / "below")


def test_check_commands_impose_the_scenarios_acceptance_at_its_batch_context_and_k() -> None:
    setup = load_setup(EAGLE.model_copy(update={"batch_size": 16, "context_tokens": 4092}))
    plain, verify, _, load, server, _ = check_commands(setup, 3, draft_model="a/b")
    assert flags(plain.command)["--case"] == "plain=16*1@4093"
    assert flags(verify.command)["--case"] == "verify=16*4@4096:3"
    assert flags(load.command)["--max-concurrency"] == "16"
    config = json.loads(flags(server.command)["--speculative-config"])
    assert config["num_speculative_tokens"] == 3
    assert config["rejection_sample_method"] == "synthetic"
    assert 1 + sum(config["synthetic_acceptance_rates"]) == pytest.approx(2.4, abs=1e-3)
    check_vllm_speculative_config(config)


def test_check_commands_use_one_process_per_gpu_and_one_ranks_share_of_the_batch() -> None:
    scenario = EAGLE.model_copy(update={"n_gpus": 8, "expert_parallel": 8, "batch_size": 20, "drafter_id": "ngram"})
    plain, verify, *_ = check_commands(load_setup(scenario), 2)
    assert shlex.split(plain.command)[:2] == ["torchrun", "--nproc-per-node=8"]
    assert flags(plain.command)["--case"].startswith("plain_per_rank=3*1@")
    assert "--exclude-drafter" in flags(verify.command)  # vLLM's forward benchmark cannot time an n-gram drafter
