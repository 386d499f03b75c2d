"""Exports: names from profiles, a rank's batch, guards, an own launch line held against them,
`make test-engines`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.answers.advice import advise
from advisor.answers.best_k import KRange, k_at
from advisor.answers.engines.config import (
    ExportRequest,
    check_line,
    export_tags,
    merged_rows,
)
from advisor.answers.engines.export import (
    default_served_model,
    export_engine_config,
    export_scenario,
    format_note,
    is_served_as,
    per_rank,
    void_notes,
    write_export,
)
from advisor.answers.engines.vllm import token_budget, vllm_speculative_config
from advisor.catalog.engines import Guard, engines, export_engines, load_engine
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.physics.hardware import load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import BOOK, note_text
from advisor.show.words.answer import short_answer
from tests.golden.engine_exports import FILE, MODEL, ONE_K, RANGES, REQUESTS, everything
from tools.engine_code import __main__ as driver
from tools.engine_code import sglang_side

EAGLE = Scenario(acceptance="2.4@3")


def flags(line: str) -> dict[str, str]:
    words = shlex.split(line)
    return {
        w: words[i + 1] if i + 1 < len(words) else ""
        for i, w in enumerate(words)
        if w.startswith("--")
    }


def test_exports_are_what_they_were() -> None:
    said = json.loads(FILE.read_text(encoding="utf-8"))
    now = everything()
    assert set(now) == set(said)
    for name, export in now.items():
        assert export == said[name], f"{name}; run: python -m tests.golden.engine_exports"


def test_a_hostile_model_name_stays_one_shell_word() -> None:
    request = REQUESTS["hostile name"]
    words = shlex.split(export_engine_config("vllm", request).launch_line)
    assert words[2] == request.served.model
    assert (
        json.loads(words[words.index("--speculative-config") + 1])["model"] == request.draft_model
    )


@pytest.mark.parametrize("engine", ["trtllm", "other"])
def test_engines_without_an_export_are_refused(engine: str) -> None:
    with pytest.raises(AdvisorError, match="written for vllm and sglang only"):
        export_scenario(load_setup(EAGLE), RANGES, engine, draft_model="a/b")


def test_an_own_configuration_asks_for_a_name() -> None:
    profile = json.loads(
        (Path(__file__).parents[2] / "profiles/models/mixtral-8x7b.json").read_text()
    )
    own = EAGLE.model_copy(
        update={"model_id": "mine", "model_config_json": json.dumps(profile["config"])}
    )
    with pytest.raises(AdvisorError, match="your own configuration"):
        export_scenario(load_setup(own), RANGES, "vllm", draft_model="a/b")
    line = export_scenario(
        load_setup(own), RANGES, "vllm", draft_model="a/b", served_model="./mine"
    ).launch_line
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
    assert json.loads(config.read_text()) == made.config
    assert Path(flags(made.launch_line)["--speculative-adaptive-config"]) == config
    assert made.launch_line in launch.read_text()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(AdvisorError, match="cannot write"):
        write_export(made, blocked / "below")


def test_every_guard_has_a_source_a_date_and_a_range_that_is_one() -> None:
    for engine in export_engines():
        assert engine.reviewed is not None
        assert len({guard.id for guard in engine.guards}) == len(engine.guards)
        for guard in engine.guards:
            assert BOOK.say("guard_effect", {"effect": guard.effect})
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
    assert [
        guard.concerns(version) for version in ("0.8.9", "0.9", "0.10.2", "0.32.5", "0.33.0", "1.0")
    ] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(AdvisorError, match="no version of vLLM"):
        load_engine("vllm").warned_of({"table"}, "newest")


def test_export_tags_say_what_kind_of_export_it_is() -> None:
    assert export_tags(ExportRequest(RANGES, "mtp", MODEL)) == {
        "speculation",
        "table",
        "zero_in_table",
        "own_forward",
    }
    assert export_tags(ExportRequest(ONE_K, "ngram", MODEL)) == {"speculation"}
    assert export_tags(ExportRequest(RANGES, "suffix", MODEL)) == {
        "speculation",
        "zero_in_table",
        "older_runner",
    }
    assert export_tags(ExportRequest((KRange(1, 8, 0, 1.0),), "mtp", MODEL)) == {"own_forward"}


def test_every_shipped_model_with_mtp_is_run_by_an_engine_or_listed_here() -> None:
    without = {"minimax_m2"}
    families = {
        model_profile(name).config["model_type"]
        for name in model_ids()
        if load_model(name).mtp_modules
    }
    run = {family for engine in engines() if engine.mtp is not None for family in engine.mtp.models}
    assert families - run == without


def test_a_wheel_that_cannot_be_had_is_a_reason_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "FOLDER", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert driver.main() == 0
    assert capsys.readouterr().out.count("skipped: the wheel cannot be downloaded") == len(
        driver.ENGINES
    )


@pytest.mark.parametrize("engine", driver.ENGINES)
def test_at_least_ten_scenarios_are_exported_and_faults_planted(engine: str) -> None:
    refused, exports = driver.exports_for(engine)
    assert len(exports) >= 10
    assert any("MiniMax-M2" in name for name, _ in refused)
    assert len(driver.planted(engine, exports)) >= 3


def test_an_export_refused_or_a_planted_fault_taken_counts_as_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [{"name": "a", "ok": True, "found": []}, {"name": "b", "ok": False, "found": []}]
    assert driver.report({"results": results, "stubs": []}, 1) == 0
    assert driver.report({"results": results, "stubs": []}, 2) == 1
    assert driver.report({"results": results[::-1], "stubs": []}, 1) == 2
    assert "REFUSED" in capsys.readouterr().out


@pytest.mark.parametrize(("version", "warned"), [("0.5.20", True), ("0.5.23", False)])
def test_a_release_from_before_those_looked_up_is_warned_of(version: str, warned: bool) -> None:
    setup = load_setup(
        EAGLE.model_copy(
            update={
                "drafter_id": "dspark",
                "n_gpus": 8,
                "expert_parallel": 8,
                "engine": "sglang",
                "engine_version": version,
            }
        )
    )
    made = export_scenario(setup, RANGES, "sglang", draft_model="a/b")
    for notes in (made.notes, void_notes(setup, RANGES)):
        assert any("DSPARK" in note.facts.get("says", "") for note in notes) == warned


def test_what_voids_a_command_is_the_first_thing_said_of_an_answer_that_has_one() -> None:
    """vLLM 0.24 to 0.32 drafts the largest K whatever the table says."""
    asked = EAGLE.model_copy(update={"engine_version": "0.30.0", "batch_size": 64})
    advice = advise(asked)
    assert len(advice.to_serve) > 1
    exported = export_scenario(advice.setup, advice.to_serve, "vllm", draft_model="a/b")
    of_export = [note for note in exported.notes if note.kind == "guard_void"]
    assert list(advice.notes[: len(of_export)]) == of_export
    text = " ".join(short_answer(advice).tail)
    assert of_export[0].facts["source"].split()[0] in text


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"k_max": 5}, True),
        ({"k_max": 3}, False),
        ({"k_max": 5, "drafter_id": "eagle3"}, False),
        ({"k_max": 5, "engine": "sglang"}, False),
        ({"k_max": 5, "model_id": "mimo-v2.6-flash"}, False),
    ],
)
def test_more_drafts_than_mtp_modules_come_in_multiples_of_them(
    changes: dict[str, Any], refused: bool
) -> None:
    """Step-3.5-Flash has three modules. Of MiMo-V2.6-Flash vLLM loads one."""
    scenario = Scenario(
        **{
            "model_id": "step-3.5-flash",
            "drafter_id": "mtp",
            "batch_size": 1,
            "n_gpus": 8,
            "tensor_parallel": 8,
            "hardware_id": "h200-sxm",
            "acceptance": "3.4@3",
        }
        | changes
    )
    advice = advise(scenario)
    assert advice.recommendation.n_draft in (3, 5)
    refusals = [note for note in advice.notes if "MTP modules" in note.facts.get("says", "")]
    assert [note.kind for note in refusals] == ["guard_void"] * refused


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


def test_an_engines_own_lists_are_held_against_the_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vllm = load_engine("vllm")
    families = {family: family in vllm.mtp.models for family in driver.mtp_families()}
    answer = {"methods": [*vllm.methods.values(), "custom_class"], "families": families}
    assert driver.report_tables(vllm, answer) == 0
    assert "custom_class" in capsys.readouterr().out
    lost = {**answer, "methods": [name for name in vllm.methods.values() if name != "dspark"]}
    assert driver.report_tables(vllm, lost) == 1
    turned = {**answer, "families": {**families, "deepseek_v3": False, "brand_new": True}}
    assert driver.report_tables(vllm, turned) == 2


def test_neighbouring_ranges_of_one_k_are_joined_and_gaps_refused() -> None:
    assert merged_rows((KRange(1, 4, 2, 1.2), KRange(5, 9, 2, 1.1), KRange(10, 12, 1, 1.1))) == (
        (1, 9, 2),
        (10, 12, 1),
    )
    for bad in (
        (KRange(2, 4, 1, 1.0),),
        (KRange(1, 4, 1, 1.0), KRange(6, 9, 2, 1.0)),
        (KRange(1, 0, 1, 1.0),),
        (),
    ):
        with pytest.raises(AdvisorError):
            merged_rows(bad)


def test_exports_satisfy_vllms_own_validator_where_it_is_installed() -> None:
    utils = pytest.importorskip("vllm.v1.spec_decode.dynamic.utils")
    config = vllm_speculative_config(RANGES, "mtp")
    table = config["num_speculative_tokens_per_batch_size"]
    lookup = utils.build_dynamic_sd_schedule_lookup(table, 256, config["num_speculative_tokens"])
    assert [lookup[b] for b in (1, 16, 17, 64, 65, 256)] == [3, 3, 5, 5, 0, 0]


WANTED = """vllm serve openai/gpt-oss-20b --tensor-parallel-size 2 \\
  --speculative-config '{"method":"eagle3","model":"DRAFT-MODEL","num_speculative_tokens":3}'"""


def verdicts(given: str, wanted: str = WANTED) -> dict[str, str]:
    return {one.flag: one.verdict for one in check_line(given, wanted)}


def test_the_same_line_is_the_same_whatever_its_order_spaces_and_short_names() -> None:
    given = """vllm serve openai/gpt-oss-20b --speculative-config \
    '{"num_speculative_tokens": 3, "model": "my/head", "method": "eagle3"}' -tp 2"""
    assert set(verdicts(given).values()) == {"same"}


def test_what_differs_lacks_or_is_more_is_told_apart_and_changes_come_first() -> None:
    given = "VAR=1 vllm serve openai/gpt-oss-20b --tensor_parallel_size=4 --seed 7"
    found = check_line(given, WANTED)
    assert [(one.flag, one.verdict) for one in found] == [
        ("--tensor-parallel-size", "change"),
        ("--speculative-config", "set"),
        ("model", "same"),
        ("--seed", "keep"),
    ]
    assert (found[0].given, found[0].wanted) == ("4", "2")


def test_another_number_of_draft_tokens_is_a_change() -> None:
    given = WANTED.replace('"num_speculative_tokens":3', '"num_speculative_tokens":5')
    assert verdicts(given)["--speculative-config"] == "change"


@pytest.mark.parametrize(
    ("given", "words"), [("", "no flag"), ("vllm serve 'x", "quotes"), ("hello", "no flag")]
)
def test_what_is_no_line_is_refused_in_words(given: str, words: str) -> None:
    with pytest.raises(AdvisorError, match=words):
        check_line(given, WANTED)


def in_format(model_id: str, weight_dtype: str | None, **more: str) -> Scenario:
    eight = {"hardware_id": "h200-sxm", "n_gpus": 8, "tensor_parallel": 8}
    return Scenario(
        acceptance="2.4@3", model_id=model_id, weight_dtype=weight_dtype, **eight, **more
    )


@pytest.mark.parametrize(
    ("model_id", "weights", "served", "remark"),
    [
        ("qwen3-235b-a22b", None, "Qwen/Qwen3-235B-A22B", ""),
        ("qwen3-235b-a22b", "fp8", "Qwen/Qwen3-235B-A22B-FP8", ""),
        ("qwen3-235b-a22b", "nvfp4", "nvidia/Qwen3-235B-A22B-NVFP4", ""),
        ("qwen3-32b", "fp8_block", "Qwen/Qwen3-32B-FP8", ""),
        ("deepseek-v3", "fp8", "deepseek-ai/DeepSeek-V3", ""),
        ("glm-5", "fp8", "zai-org/GLM-5-FP8", ""),
        (
            "kimi-k2",
            "int4",
            "moonshotai/Kimi-K2-Instruct",
            "weights as int4: name a checkpoint in that format, such as",
        ),
        (
            "mixtral-8x7b",
            "fp8",
            "mistralai/Mixtral-8x7B-v0.1",
            "weights as fp8: name a checkpoint in that format",
        ),
    ],
)
def test_the_release_in_the_format_asked_for_is_served_and_where_there_is_none_that_is_said(
    model_id: str, weights: str | None, served: str, remark: str
) -> None:
    setup = load_setup(in_format(model_id, weights))
    assert default_served_model(setup) == served
    note = format_note(setup, served)
    assert (note is not None) == bool(remark)
    assert note is None or note_text(note).startswith(remark)
    for engine in ("vllm", "sglang"):
        made = export_scenario(setup, RANGES, engine, draft_model="a/b")
        assert served in made.launch_line.split()
        assert (note in made.notes) == bool(remark)


def test_a_checkpoint_that_the_user_names_stays_and_its_format_is_looked_at() -> None:
    for name, fits in (
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", True),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", False),
    ):
        setup = load_setup(in_format("qwen3-235b-a22b", "fp8", checkpoint=name))
        assert default_served_model(setup) == name
        assert (format_note(setup, name) is None) == fits


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", "same"),
        ("/models/Qwen3-235B-A22B-Instruct-2507-FP8", "same"),
        ("Qwen/Qwen3-235B-A22B", "change"),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "change"),
        ("Qwen/Qwen3-30B-A3B-FP8", "change"),
    ],
)
def test_any_checkpoint_of_the_model_in_the_format_asked_for_is_the_same(
    given: str, verdict: str
) -> None:
    setup = load_setup(in_format("qwen3-235b-a22b", "fp8_block"))
    wanted = export_scenario(setup, RANGES, "vllm", draft_model="a/b").launch_line
    found = check_line(f"vllm serve {given}", wanted, lambda name: is_served_as(setup, name))
    assert {one.flag: one.verdict for one in found}["model"] == verdict


@pytest.mark.parametrize(
    ("hardware_id", "budget"),
    [("l40s", 2048), ("a100-80gb-sxm", 2048), ("h200-sxm", 8192), ("b200-sxm", 16384)],
)
def test_the_budget_of_a_step_is_written_where_the_accelerator_s_own_is_too_small(
    hardware_id: str, budget: int
) -> None:
    assert token_budget(load_hardware(hardware_id)) == budget
    request = ExportRequest((KRange(1, 800, 3, 1.0),), "mtp", MODEL, token_budget=budget)
    made = export_engine_config("vllm", request)
    assert ("--max-num-batched-tokens 3200" in made.launch_line) == (budget < 3200)
    assert any(note.kind == "token_budget" for note in made.notes) == (budget < 3200)


@pytest.mark.parametrize(
    ("hardware_id", "batch", "written"),
    [
        ("l40s", 512, None),
        ("l40s", 513, "2052"),
        ("h200-sxm", 2048, None),
        ("h200-sxm", 2049, "8208"),
        ("b200-sxm", 2049, None),
    ],
)
def test_a_scenario_s_export_goes_by_the_budget_of_its_own_accelerator(
    hardware_id: str, batch: int, written: str | None
) -> None:
    """Four tokens a sequence at K = 3: 512 of them fill 2,048 tokens, 2,048 of them 8,192.

    A captured graph of all of them is the next multiple of 16, which the budget holds.
    """
    setup = load_setup(Scenario(acceptance="2.4@3", hardware_id=hardware_id))
    made = export_scenario(setup, (KRange(1, batch, 3, 1.5),), "vllm", draft_model="a/b")
    assert flags(made.launch_line).get("--max-num-batched-tokens") == written
