"""What engines' versions do with an export: guards as data, dropped tables, limits, MTP families."""

from __future__ import annotations

import json
import shlex

import pytest

from advisor.answers.by_batch import schedule_for
from advisor.answers.engines.config import EFFECTS, ExportRequest, ServedModel, export_tags
from advisor.answers.engines.export import check_commands, export_engine_config, export_scenario, write_export
from advisor.answers.round_costs import KRange
from advisor.catalog.engines import Guard, engines, export_engines, load_engine
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError

RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))
ONE_K = (KRange(1, 256, 3, 1.8),)
MODEL = ServedModel("some/model", tensor_parallel=2)


def flags(line: str) -> dict[str, str]:
    words = shlex.split(line)
    return {w: words[i + 1] if i + 1 < len(words) else "" for i, w in enumerate(words) if w.startswith("--")}


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
    alike = schedule_for(asked.model_copy(update={"hardware_id": "b200-sxm", "model_id": "gpt-oss-20b"}))
    assert not alike.at_contexts.matters
    silent = export_scenario(alike.setup, alike.ranges, engine, draft_model="a/head", contexts=alike.at_contexts)
    assert not any("context" in text.lower() for text in silent.warnings)
