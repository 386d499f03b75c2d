"""`make test-engines`: exports of some scenarios, loaded by the engines' own code. Exit status 1
where one is refused.

Where a wheel cannot be had, its engine is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.answers.best_k import KRange, k_running_at
from advisor.answers.by_batch import schedule_for
from advisor.answers.engines.config import EngineExport
from advisor.answers.engines.export import export_scenario, needs_draft_model, per_rank
from advisor.catalog.engines import Engine, load_engine
from advisor.catalog.models import model_ids, model_profile
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from tools.engine_code import graphs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".data" / "engine_wheels"
"""Unpacked wheels; git does not see it."""
MINUTES = 20
ENGINES = ("vllm", "sglang")
HELPERS = {"sglang": (("msgspec", "0.22.0"),)}
"""Packages that an engine's own classes are made with, and no stand-in can be: unpacked beside
it."""
SIGNS = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))
"""A schedule with a rise, a fall and a zero: computed ones seldom have all three."""


@dataclass(frozen=True)
class Case:
    """A scenario whose export is loaded: its schedule computed, or the made-up one."""

    name: str
    scenario: Scenario
    made_up: bool = False


def _case(name: str, made_up: bool = False, **values: Any) -> Case:
    return Case(
        name, Scenario(**{"acceptance": "2.4@3", "hardware_id": "h200-sxm", **values}), made_up
    )


CASES = (
    _case("EAGLE-3, Qwen3-30B-A3B"),
    _case("EAGLE-3, made-up table", made_up=True),
    _case(
        "EAGLE, Mixtral",
        made_up=True,
        model_id="mixtral-8x7b",
        drafter_id="eagle",
        n_gpus=2,
        tensor_parallel=2,
    ),
    _case(
        "EAGLE-3, Command A+ on 4",
        model_id="command-a-plus",
        weight_dtype="fp8",
        n_gpus=4,
        tensor_parallel=4,
    ),
    _case(
        "MTP, DeepSeek-V3 on 8",
        model_id="deepseek-v3",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    _case(
        "MTP, DeepSeek-V3, table",
        True,
        model_id="deepseek-v3",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    _case(
        "MTP, Qwen3-Next",
        True,
        model_id="qwen3-next-80b-a3b",
        drafter_id="mtp",
        n_gpus=4,
        tensor_parallel=4,
    ),
    _case(
        "MTP, MiMo-V2-Flash",
        True,
        model_id="mimo-v2-flash",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    _case(
        "MTP, GLM-4.5",
        True,
        model_id="glm-4.5",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
        kv_dtype="fp8",
    ),
    _case(
        "MTP, MiniMax-M2",
        True,
        model_id="minimax-m2",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    _case("n-gram", True, drafter_id="ngram"),
    _case("suffix", True, drafter_id="suffix"),
    _case("draft model", True, drafter_id="draft_model"),
    _case("DFlash", True, drafter_id="dflash"),
    _case("DSpark, own checkpoint", True, drafter_id="dspark"),
    _case(
        "DSpark, in DeepSeek-V4",
        True,
        model_id="deepseek-v4-flash",
        drafter_id="dspark",
        n_gpus=8,
        tensor_parallel=8,
    ),
    _case(
        "DSpark, data-parallel attention", True, drafter_id="dspark", n_gpus=8, expert_parallel=8
    ),
    _case("P-EAGLE", True, drafter_id="p-eagle"),
    _case("EAGLE-3, data-parallel attention", True, n_gpus=8, expert_parallel=8),
    _case(
        "MTP, data-parallel attention",
        True,
        model_id="deepseek-v3",
        drafter_id="mtp",
        n_gpus=8,
        expert_parallel=8,
    ),
)
MTP_KEYS = (
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
    "mtp_num_layers",
)
ARCHITECTURES = {
    "bailing_moe_v2": "BailingMoeV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "deepseek_v4": "DeepseekV4ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "gigachat3_5": "GigaChat35ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm4_moe_lite": "Glm4MoeLiteForCausalLM",
    "glm5_next_text": "Glm5NextForConditionalGeneration",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "hy_v3": "HYV3ForCausalLM",
    "longcat_flash": "LongcatFlashForCausalLM",
    "mimo": "MiMoForCausalLM",
    "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "minimax_m3": "MiniMaxM3SparseForConditionalGeneration",
    "nemotron_h": "NemotronHForCausalLM",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
    "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen4_exp": "Qwen4ExpForConditionalGeneration",
    "step3p7": "Step3p7ForConditionalGeneration",
}
"""What releases of a model_type call their architecture, by which SGLang goes, and vLLM for
some."""
RELEASED_AS = {"glm5_next_text": "glm5_next"}
"""What the whole of a release is called where a profile has its text tower alone."""


def main() -> int:
    failed = 0
    for engine_id in ENGINES:
        engine = load_engine(engine_id)
        assert engine.reviewed is not None
        wheel = unpacked(engine_id, engine.reviewed.version)
        print(f"\n{engine.name} {engine.reviewed.version}")
        if isinstance(wheel, str):
            print(f"  skipped: {wheel}")
            continue
        refused, exports = exports_for(engine_id)
        for name, reason in refused:
            print(f"  not exported  {name}: {reason}")
        answer = run_side(engine_id, wheel, [*exports, *planted(engine_id, exports)])
        if isinstance(answer, str):
            print(f"  failed: {answer}")
            failed += 1
            continue
        failed += report(answer, len(exports))
        for version in graphs.VERSIONS[engine_id]:
            failed += graphs.report(engine_id, version, unpacked(engine_id, version))
        failed += report_tables(engine, answer)
        failed += check_newest(engine)
    return min(failed, 1)


def check_newest(engine: Engine) -> int:
    """Prints how the tables stand to the newest release, where that is another; returns the rows
    that are wrong."""
    assert engine.reviewed is not None
    newest = newest_release(engine.id)
    if newest in (None, engine.reviewed.version):
        print(f"  newest release: {newest or 'not known, the index cannot be asked'}")
        return 0
    wheel = unpacked(engine.id, str(newest))
    answer = wheel if isinstance(wheel, str) else run_side(engine.id, wheel, [])
    print(f"  newest release: {newest}; the rules were read in {engine.reviewed.version}")
    if isinstance(answer, str):
        print(f"  its tables are not compared: {answer}")
        return 0
    return report_tables(engine, answer)


def newest_release(package: str) -> str | None:
    """The newest release of a package in the index; None where it cannot be asked."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        "--disable-pip-version-check",
        package,
    ]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(rf"{re.escape(package)} \(([0-9][0-9a-z.]*)\)", said)
    return found[1] if found else None


def report_tables(engine: Engine, answer: dict[str, Any]) -> int:
    """Prints how profiles/engines stands to the engine's own lists; returns the rows that are
    wrong.

    A method that the engine no longer has and a family that the table and the engine see
    differently are wrong; methods of the engine that no export asks for are only named.
    """
    gone = sorted(set(engine.methods.values()) - set(answer["methods"]))
    others = sorted(set(answer["methods"]) - set(engine.methods.values()))
    print(f"  methods: {len(engine.methods)} exported, gone: {', '.join(gone) or 'none'}")
    print(f"  methods that no export asks for: {', '.join(others)}")
    table = engine.mtp.models if engine.mtp is not None else {}
    differ = [
        f"{family} ({'runs' if runs else 'does not run'}, the table says otherwise)"
        for family, runs in sorted(answer["families"].items())
        if runs != (family in table)
    ]
    print(
        f"  MTP: {len(answer['families'])} families of shipped models asked: "
        f"{'; '.join(differ) or 'as in the table'}"
    )
    return len(gone) + len(differ)


def mtp_families() -> dict[str, dict[str, Any]]:
    """A configuration of each family of shipped models that states MTP modules or is in a table, by
    its model_type."""
    stated: dict[str, dict[str, Any]] = {}
    listed: dict[str, dict[str, Any]] = {}
    tables = {
        family
        for engine in map(load_engine, ENGINES)
        if engine.mtp is not None
        for family in engine.mtp.models
    }
    for model_id in model_ids():
        config = dict(model_profile(model_id).config)
        inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
        family = str(config.get("model_type", ""))
        made = {"architectures": [ARCHITECTURES.get(family, "SomeForCausalLM")], **config}
        if family in RELEASED_AS:
            made |= {"model_type": RELEASED_AS[family], "text_config": config}
        if any({**config, **inner}.get(key) for key in MTP_KEYS):
            stated.setdefault(family, made)
        elif family in tables:
            listed.setdefault(family, made)
    return {**listed, **stated}


def report(answer: dict[str, Any], n_exports: int) -> int:
    """Prints what the engine's code said; returns the exports it refused and the planted faults
    that it took."""
    wrong = 0
    for place, item in enumerate(answer["results"]):
        plant = place >= n_exports
        wrong += item["ok"] == plant
        word = (
            ("TAKEN" if item["ok"] else "refuses")
            if plant
            else ("loads" if item["ok"] else "REFUSED")
        )
        print(f"  {word:13} {item['name']}: {', '.join(item['found'])}")
    loaded = sum(item["ok"] for item in answer["results"][:n_exports])
    plants = len(answer["results"]) - n_exports
    print(
        f"  {loaded} of {n_exports} exports load in the engine's own code; {plants} planted faults"
    )
    print(f"  stubs: {', '.join(answer['stubs'])}")
    return wrong


def planted(engine: str, exports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exports with a fault each, which the engine's code must refuse: else the others' loading
    means nothing."""
    table = next(one for one in exports if one["name"] == "EAGLE-3, made-up table")
    faults = [
        {
            **table,
            "name": "planted: unknown flag",
            "launch_line": table["launch_line"] + " --no-such-flag 1",
        }
    ]
    shifted = [*table["k_by_batch"][1:], 7]
    faults.append({**table, "name": "planted: another schedule", "k_by_batch": shifted})
    if engine == "vllm":
        family = {"model_type": "minimax_m2", "architecture": ARCHITECTURES["minimax_m2"]}
        mtp = next(one for one in exports if one["name"] == "MTP, GLM-4.5")
        faults.append({**mtp, "name": "planted: MTP of MiniMax-M2", **family})
        text = json.dumps(table["config"]).replace("[17, 64, 5]", "[16, 64, 5]")
        broken = {
            "config": json.loads(text),
            "launch_line": f"vllm serve m --speculative-config '{text}'",
        }
        faults.append({**table, "name": "planted: ranges that overlap", **broken})
    else:
        text = table["config_json"].replace("3", "-1", 1)
        faults.append({**table, "name": "planted: negative steps", "config_json": text})
    return faults


def exports_for(engine: str) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """(name, reason) of the scenarios that the advisor itself does not export for the engine, and
    the others."""
    refused = []
    exports = []
    for case in CASES:
        found = schedule_for(case.scenario)
        ranges = SIGNS if case.made_up else found.ranges
        try:
            draft = "some/eagle3-head" if needs_draft_model(found.setup, engine) else None
            made = export_scenario(
                found.setup, ranges, engine, draft_model=draft, served_model="some/model"
            )
        except AdvisorError as error:
            refused.append((case.name, str(error)))
            continue
        exports.append(
            _described(case, made, per_rank(ranges, found.setup.placement.attention_groups))
        )
    return refused, exports


def _described(case: Case, made: EngineExport, ranges: tuple[KRange, ...]) -> dict[str, Any]:
    family = str(model_profile(case.scenario.model_id).config.get("model_type", ""))
    return {
        "name": case.name,
        "model": "some/model",
        "launch_line": made.launch_line,
        "config": made.config,
        "config_json": made.config_json,
        "k_by_batch": np.asarray(
            k_running_at(ranges, np.arange(1, ranges[-1].batch_end + 1))
        ).tolist(),
        "model_type": family,
        "architecture": ARCHITECTURES.get(family, "SomeForCausalLM"),
    }


def unpacked(package: str, version: str, native: bool = False) -> Path | str:
    """The folder of a package's unpacked wheel, downloaded once; a reason where it cannot be had.

    Its compiled parts are left out unless `native`.
    """
    folder = FOLDER / f"{package}-{version}"
    if (folder / package).is_dir():
        return folder
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
    ]
    command += ["--disable-pip-version-check", "--dest", str(FOLDER), f"{package}=={version}"]
    try:
        got = subprocess.run(
            command, capture_output=True, text=True, timeout=60 * MINUTES, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the wheel cannot be downloaded ({error})"
    wheels = sorted(FOLDER.glob(f"{package}-{version}-*.whl"))
    if got.returncode or not wheels:
        reason = (got.stderr.strip().splitlines() or ["no wheel for this machine"])[-1]
        return f"the wheel cannot be downloaded ({reason[:200]})"
    with zipfile.ZipFile(wheels[-1]) as archive:
        archive.extractall(
            folder, [name for name in archive.namelist() if native or not name.endswith(".so")]
        )
    wheels[-1].unlink()
    return folder


def run_side(engine: str, wheel: Path, exports: list[dict[str, Any]]) -> dict[str, Any] | str:
    """What the engine's code says of the exports, from a process of its own; a reason where that
    fails."""
    helpers = [unpacked(name, version, native=True) for name, version in HELPERS.get(engine, ())]
    absent = [reason for reason in helpers if isinstance(reason, str)]
    if absent:
        return absent[0]
    path = os.pathsep.join(map(str, [wheel, *helpers, ROOT]))
    asked = json.dumps({"exports": exports, "families": mtp_families()})
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "VLLM_LOGGING_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", f"tools.engine_code.{engine}_side"]
    done = subprocess.run(
        command, input=asked, capture_output=True, text=True, env=environment, check=False
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index('{"results"') :])
    except ValueError:
        return (done.stderr.strip().splitlines() or ["no answer"])[-1][:300]
    return answer


if __name__ == "__main__":
    sys.exit(main())
