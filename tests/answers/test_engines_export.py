"""A scenario's export: method and names from its profiles, a data-parallel rank's batch, and commands to check it.

What engines' versions do with an export: guards as data, dropped tables, limits, MTP families.

What `make test-engines` does before an engine's code is there: its exports, planted faults, and skipping.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor.answers.by_batch import schedule_for
from advisor.answers.engines.config import EFFECTS, ExportRequest, ServedModel, export_tags
from advisor.answers.engines.export import (
    check_commands,
    export_engine_config,
    export_scenario,
    needs_draft_model,
    per_rank,
    write_export,
)
from advisor.answers.engines.sglang import check_sglang_adaptive_config
from advisor.answers.engines.vllm import check_vllm_speculative_config
from advisor.answers.round_costs import KRange, k_at
from advisor.catalog.engines import Guard, engines, export_engines, load_engine
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from tools.engine_code import __main__ as driver
from tools.engine_code import sglang_side

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


ONE_K = (KRange(1, 256, 3, 1.8),)


MODEL = ServedModel("some/model", tensor_parallel=2)


def said(engine: str, request: ExportRequest) -> str:
    return "\n".join(export_engine_config(engine, request).warnings)


def test_every_guard_has_a_source_a_date_and_a_range_that_is_one() -> None:
    for engine in export_engines():
        assert engine.reviewed is not None
        assert len({guard.id for guard in engine.guards}) == len(engine.guards)
        for guard in engine.guards:
            assert guard.effect in EFFECTS
            assert len(guard.source) > 10
            assert guard.since is None or guard.concerns(guard.since)
            assert guard.before is None or not guard.concerns(guard.before)


def test_versions_are_compared_as_numbers_and_words_are_refused() -> None:
    guard = Guard(
        id="x",
        when=("table",),
        effect="harmful",
        since="0.9",
        before="0.33",
        says="something happens",
        source="abc",
        date="2026-01-01",
    )
    assert [guard.concerns(version) for version in ("0.8.9", "0.9", "0.10.2", "0.32.5", "0.33.0", "1.0")] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(AdvisorError, match="no version of vLLM"):
        load_engine("vllm").warned_of({"table"}, "newest")


def test_a_table_is_warned_of_by_the_version_that_will_load_it() -> None:
    request = ExportRequest(RANGES, "eagle3", MODEL, "a/head")
    newest = said("vllm", request)
    assert "Model Runner V2 drafts the largest K" not in newest
    assert "K is looked up by all requests of a step" in newest
    assert "checked by the rules of vLLM 0.33.0, read 2026-11-22" in newest
    older = said("vllm", ExportRequest(RANGES, "eagle3", MODEL, "a/head", version="0.27.1"))
    assert "has no effect: Model Runner V2 drafts the largest K" in older
    assert "issue 51510" in older
    assert "can harm: with full CUDA graphs" in older
    assert "for vLLM 0.27.1" in older
    assert "refuse the configuration" in said("vllm", ExportRequest(RANGES, "eagle3", MODEL, "a/head", version="0.20"))
    plain = said("vllm", ExportRequest(ONE_K, "eagle3", MODEL, "a/head", version="0.27.1"))
    assert "table" not in plain


def test_a_zero_in_the_table_is_said_not_to_be_free_where_the_drafter_runs_a_model() -> None:
    assert "at K = 0 the drafter still runs" in said("vllm", ExportRequest(RANGES, "mtp", MODEL))
    assert "at K = 0" not in said("vllm", ExportRequest(RANGES, "ngram", MODEL))
    assert "at K = 0" not in said("vllm", ExportRequest(RANGES[:2], "mtp", MODEL))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_under_data_parallelism_one_k_is_exported_because_the_engine_drops_the_table(engine: str) -> None:
    served = ServedModel("m", tensor_parallel=1, data_parallel=4)
    made = export_engine_config(engine, ExportRequest(RANGES, "eagle3", served, "a/head", "k.json"))
    if engine == "vllm":
        assert made.config == {"method": "eagle3", "model": "a/head", "num_speculative_tokens": 3}
    else:
        assert made.config is None
        assert flags(made.launch_line)["--speculative-num-steps"] == "3"
        assert "--speculative-adaptive" not in made.launch_line
    assert any(text.startswith("has no effect: ") for text in made.warnings)


def test_sglang_drops_the_table_for_models_with_multi_layer_mtp() -> None:
    scenario = Scenario(
        model_id="mimo-v2-flash", drafter_id="mtp", acceptance="2.4@3", n_gpus=8, tensor_parallel=8, engine="sglang"
    )
    made = export_scenario(load_setup(scenario), RANGES, "sglang")
    assert made.config is None
    assert any("multi-layer EAGLE" in text for text in made.warnings)
    assert export_scenario(load_setup(scenario), RANGES, "vllm").config is not None


def test_sglang_s_limit_of_48_requests_is_lifted_to_the_schedule_s_last_batch() -> None:
    made = export_engine_config("sglang", ExportRequest(RANGES, "eagle3", MODEL, "a/head", "k.json"))
    assert flags(made.launch_line)["--max-running-requests"] == "256"
    groups = ServedModel("m", data_parallel=4)
    four = export_engine_config("sglang", ExportRequest(RANGES, "eagle3", groups, "a/head", "k.json"))
    assert flags(four.launch_line)["--max-running-requests"] == "1024"  # it counts all groups
    given = ServedModel("m", max_running_requests=100)
    stated = export_engine_config("sglang", ExportRequest(RANGES, "eagle3", given, "a/head", "k.json"))
    assert flags(stated.launch_line)["--max-running-requests"] == "100"
    never = export_engine_config("sglang", ExportRequest((KRange(1, 64, 0, 1.0),), "eagle3", MODEL, "a/head"))
    assert "--max-running-requests" not in never.launch_line


def test_requests_with_their_drafts_fit_vllm_s_token_budget() -> None:
    small = said("vllm", ExportRequest(ONE_K, "eagle3", MODEL, "a/head"))
    assert "--max-num-batched-tokens" not in small  # 256 x 4 tokens
    many = ServedModel("m", max_running_requests=1024)
    medium = export_engine_config("vllm", ExportRequest(ONE_K, "eagle3", many, "a/head"))
    assert any("4,096 tokens a step" in text for text in medium.warnings)
    assert "--max-num-batched-tokens" not in medium.launch_line
    wide = ServedModel("m", max_running_requests=8192)
    large = export_engine_config("vllm", ExportRequest(ONE_K, "eagle3", wide, "a/head"))
    assert flags(large.launch_line)["--max-num-batched-tokens"] == "32768"


def test_export_tags_say_what_kind_of_export_it_is() -> None:
    assert export_tags(ExportRequest(RANGES, "mtp", MODEL)) == {"speculation", "table", "zero_in_table", "own_forward"}
    assert export_tags(ExportRequest(ONE_K, "ngram", MODEL)) == {"speculation"}
    assert export_tags(ExportRequest(RANGES, "suffix", MODEL)) == {"speculation", "zero_in_table", "older_runner"}
    assert export_tags(ExportRequest((KRange(1, 8, 0, 1.0),), "mtp", MODEL)) == {"own_forward"}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_mtp_of_a_family_that_the_engine_does_not_run_is_refused(engine: str) -> None:
    scenario = Scenario(model_id="minimax-m2", drafter_id="mtp", acceptance="2.4@3", n_gpus=8, tensor_parallel=8)
    with pytest.raises(AdvisorError, match="does not run the multi-token-prediction module of minimax_m2"):
        export_scenario(load_setup(scenario), RANGES, engine)


@pytest.mark.parametrize(
    "model", ["qwen3-next-80b-a3b", "mimo-v2-flash", "longcat-flash", "ernie-4.5-300b-a47b", "glm-4.7-flash"]
)
def test_mtp_modules_that_the_configuration_does_not_state_are_known_from_the_engine(model: str) -> None:
    assert load_model(model).mtp_modules == 1
    scenario = Scenario(model_id=model, drafter_id="mtp", acceptance="1.8@1", n_gpus=8, tensor_parallel=8)
    made = export_scenario(load_setup(scenario), ONE_K, "vllm")
    assert made.config == {"method": "mtp", "num_speculative_tokens": 3}


def test_every_shipped_model_with_mtp_is_run_by_an_engine_or_listed_here() -> None:
    without = {"minimax_m2"}
    families = {model_profile(name).config["model_type"] for name in model_ids() if load_model(name).mtp_modules}
    run = {family for engine in engines() if engine.mtp is not None for family in engine.mtp.models}
    assert families - run == without


def test_the_file_and_the_warnings_say_what_was_checked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    setup = load_setup(Scenario(acceptance="2.4@3"))
    made = export_scenario(setup, RANGES, "vllm", draft_model="a/b", engine_version="0.30.1")
    *_, launch = write_export(made, tmp_path)
    assert "# checked by the rules of vLLM 0.33.0, read 2026-11-22, for vLLM 0.30.1" in launch.read_text()


@pytest.mark.parametrize("drafter", ["suffix", "p-eagle"])
def test_methods_that_the_forward_benchmark_cannot_start_get_the_plain_step_and_the_servers(drafter: str) -> None:
    setup = load_setup(Scenario(drafter_id=drafter, acceptance="2.4@3"))
    commands = check_commands(setup, 3, draft_model="a/b" if drafter == "p-eagle" else None)
    assert [command.purpose.split(" ")[0] for command in commands] == ["Plain", "Server", "Load", "Server", "The"]


def test_the_verification_step_is_timed_without_its_drafter() -> None:
    setup = load_setup(Scenario(acceptance="2.4@3"))
    verify = check_commands(setup, 3, draft_model="a/b")[1]
    assert "--exclude-drafter" in verify.command
    assert json.loads(flags(verify.command)["--speculative-config"])["method"] == "eagle3"


@pytest.mark.parametrize(
    ("engine", "read"), [("vllm", "the table has no context axis"), ("sglang", "the file has no context axis")]
)
def test_an_export_says_that_the_engine_reads_no_context_axis_where_context_changes_k(engine: str, read: str) -> None:
    asked = Scenario(n_gpus=4, tensor_parallel=4, model_id="llama-3.1-8b", drafter_id="eagle3", acceptance="2.4@3")
    found = schedule_for(asked)
    made = export_scenario(found.setup, found.ranges, engine, draft_model="a/head", contexts=found.at_contexts)
    assert any(read in text for text in made.warnings)
    assert found.at_contexts.text in made.warnings
    alike = schedule_for(asked.model_copy(update={"hardware_id": "b200-sxm", "model_id": "gpt-oss-120b"}))
    assert not alike.at_contexts.matters
    silent = export_scenario(alike.setup, alike.ranges, engine, draft_model="a/head", contexts=alike.at_contexts)
    assert not any("context" in text.lower() for text in silent.warnings)


def test_a_wheel_that_cannot_be_had_is_a_reason_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert driver.main() == 0
    assert capsys.readouterr().out.count("skipped: the wheel cannot be downloaded") == len(driver.ENGINES)


@pytest.mark.parametrize("engine", driver.ENGINES)
def test_at_least_ten_scenarios_are_exported_and_faults_planted(engine: str) -> None:
    refused, exports = driver.exports_for(engine)
    assert len(exports) >= 10
    assert any("MiniMax-M2" in name for name, _ in refused)
    assert len(driver.planted(engine, exports)) >= 3


def test_an_export_refused_or_a_planted_fault_taken_counts_as_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    results = [{"name": "a", "ok": True, "found": []}, {"name": "b", "ok": False, "found": []}]
    assert driver.report({"results": results, "stubs": []}, 1) == 0
    assert driver.report({"results": results, "stubs": []}, 2) == 1
    assert driver.report({"results": results[::-1], "stubs": []}, 1) == 2
    assert "REFUSED" in capsys.readouterr().out


def captured(line: str) -> list[int]:
    """Sizes that a vLLM launch line captures."""
    words = shlex.split(line)
    text = words[words.index("--compilation-config") + 1] if "--compilation-config" in words else "{}"
    found: list[int] = json.loads(text).get("cudagraph_capture_sizes", [])
    return found


def test_sizes_are_captured_that_hold_every_round_of_the_schedule() -> None:
    """K = 5 up to batch 83 is what vLLM 0.24 captures by itself; one sequence more, or K = 1 at 300, is not."""
    setup = load_setup(Scenario(acceptance="2.4@3", engine_version="0.24.0"))
    own = (KRange(1, 83, 5, 1.5),)
    assert captured(export_scenario(setup, own, "vllm", draft_model="a/b").launch_line) == []
    ranges = (KRange(1, 84, 5, 1.5), KRange(85, 300, 1, 1.2))
    made = export_scenario(setup, ranges, "vllm", draft_model="a/b")
    sizes = captured(made.launch_line)
    for batch in range(1, 301):
        tokens = batch * (6 if batch <= 84 else 2)
        held = next(size for size in sizes if size >= tokens)
        assert held <= tokens + max(6 * 16, 0.25 * tokens), "padded little"
    assert sizes[-1] % 6 == 0, "Model Runner V1 drops sizes above the last multiple of K + 1"
    assert any("600 tokens are captured" in text and "above the 498 that vLLM 0.24.0" in text for text in made.warnings)
    few = export_scenario(setup, ranges, "vllm", draft_model="a/b", max_running_requests=80)
    assert captured(few.launch_line) == [], "more requests are not admitted"


def test_sglang_is_told_the_largest_batch_where_it_would_not_capture_it() -> None:
    setup = load_setup(Scenario(acceptance="2.4@3", engine="sglang"))
    wide, held = (KRange(1, 300, 3, 1.5),), (KRange(1, 256, 3, 1.5),)
    assert "--cuda-graph-max-bs-decode 300" in export_scenario(setup, wide, "sglang", draft_model="a/b").launch_line
    assert "graph" not in export_scenario(setup, held, "sglang", draft_model="a/b").launch_line


@pytest.mark.parametrize(
    ("model", "draft", "words"),
    [("qwen3-30b-a3b", "some/dspark", ["some/dspark"]), ("deepseek-v4-flash", None, [])],
)
def test_dspark_is_exported_with_its_block_and_its_checkpoint_where_it_has_one(model, draft, words) -> None:
    setup = load_setup(EAGLE.model_copy(update={"drafter_id": "dspark", "model_id": model, "n_gpus": 8}))
    assert needs_draft_model(setup, "vllm") == needs_draft_model(setup, "sglang") == (draft is not None)
    vllm, sglang = (export_scenario(setup, RANGES, engine, draft_model=draft) for engine in ("vllm", "sglang"))
    assert vllm.config is not None
    assert vllm.config["method"] == "dspark"
    assert [vllm.config[name] for name in ("model",) if name in vllm.config] == words
    assert len(vllm.config["num_speculative_tokens_per_batch_size"]) == 3
    given = flags(sglang.launch_line)
    assert given["--speculative-algorithm"] == "DSPARK"
    assert given["--speculative-dspark-block-size"] == "3"  # of the target batch, since SGLang does not vary it
    assert "--speculative-num-steps" not in given
    assert any("stages are looked for" in text for text in vllm.warnings) == (draft is None)


def test_dspark_needs_its_checkpoint_where_the_target_does_not_hold_it_and_older_releases_are_warned_of() -> None:
    setup = load_setup(EAGLE.model_copy(update={"drafter_id": "dspark", "n_gpus": 8, "expert_parallel": 8}))
    with pytest.raises(AdvisorError, match="dspark needs --draft-model"):
        export_scenario(setup, RANGES, "vllm")
    made = export_scenario(setup, RANGES, "sglang", draft_model="a/b", engine_version="0.5.20")
    assert "--enable-dp-lm-head" in made.launch_line  # SGLang refuses DSpark under data-parallel attention without
    assert any("earlier releases were not looked up" in text for text in made.warnings)
    known = export_scenario(setup, RANGES, "sglang", draft_model="a/b", engine_version="0.5.23")
    assert not any("earlier releases were not looked up" in text for text in known.warnings)


def test_the_renaming_of_draft_models_is_the_engines_own_code(tmp_path: Path) -> None:
    (tmp_path / "model_config.py").write_text(
        "import transformers_of_tomorrow\n"
        "NAMES = ('OneForCausalLM',)\n"
        "class ModelConfig:\n"
        "    def _config_draft_model(self):\n"
        "        from sglang.srt.configs.other import OtherConfig, bundles\n"
        "        if isinstance(self.hf_text_config, OtherConfig) or bundles(self):\n"
        "            raise ValueError\n"
        "        if self.is_draft_model and self.hf_config.architectures[0] in NAMES:\n"
        "            self.hf_config.architectures[0] = 'OneMTP'\n"
    )
    rename = sglang_side._renaming(tmp_path / "model_config.py")
    for given, expected in (("OneForCausalLM", "OneMTP"), ("TwoForCausalLM", "TwoForCausalLM")):
        config = SimpleNamespace(architectures=[given])
        rename(SimpleNamespace(is_draft_model=True, hf_config=config, hf_text_config=config))
        assert config.architectures == [expected]


def test_an_engines_own_lists_are_held_against_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    vllm = load_engine("vllm")
    families = {family: family in vllm.mtp.models for family in driver.mtp_families()}
    answer = {"methods": [*vllm.methods.values(), "custom_class"], "families": families}
    assert driver.report_tables(vllm, answer) == 0
    assert "custom_class" in capsys.readouterr().out
    lost = {**answer, "methods": [name for name in vllm.methods.values() if name != "dspark"]}
    assert driver.report_tables(vllm, lost) == 1
    turned = {**answer, "families": {**families, "deepseek_v3": False, "brand_new": True}}
    assert driver.report_tables(vllm, turned) == 2
