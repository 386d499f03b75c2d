"""What both engines are given: `python -m tests.golden.engine_exports` writes what a test
compares."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.answers.best_k import KRange
from advisor.answers.by_batch import schedule_for
from advisor.answers.engines.config import ExportRequest, ServedModel
from advisor.answers.engines.export import check_commands, export_engine_config, export_scenario
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import note_texts

FILE = Path(__file__).parents[1] / "answers" / "engine_exports.json"
RANGES = (KRange(1, 16, 3, 1.8), KRange(17, 64, 5, 2.0), KRange(65, 256, 0, 1.0))
ONE_K = (KRange(1, 256, 3, 1.8),)
MODEL = ServedModel("Qwen/Qwen3-30B-A3B", tensor_parallel=2)
DRAFT = "some/eagle head"
PLACED = ServedModel(
    "m", tensor_parallel=2, expert_parallel=4, data_parallel=2, max_running_requests=512
)
REQUESTS: dict[str, ExportRequest] = {
    "eagle3": ExportRequest(RANGES, "eagle3", MODEL, DRAFT, "my k.json"),
    "eagle": ExportRequest(RANGES, "eagle", MODEL, DRAFT, "my k.json"),
    "draft model": ExportRequest(RANGES, "draft_model", MODEL, "Qwen/Qwen3-0.6B", "my k.json"),
    "mtp": ExportRequest(RANGES, "mtp", MODEL),
    "mtp, no zero": ExportRequest(RANGES[:2], "mtp", MODEL),
    "ngram": ExportRequest(RANGES, "ngram", MODEL),
    "ngram, target K": ExportRequest(RANGES, "ngram", MODEL, target_k=1),
    "suffix": ExportRequest(RANGES, "suffix", MODEL),
    "suffix, target K": ExportRequest(RANGES, "suffix", MODEL, target_k=1),
    "one K": ExportRequest(ONE_K, "eagle3", MODEL, DRAFT),
    "one K, older": ExportRequest(ONE_K, "eagle3", MODEL, DRAFT, version="0.27.1"),
    "K = 0": ExportRequest((KRange(1, 64, 0, 1.0),), "mtp", MODEL),
    "older": ExportRequest(RANGES, "eagle3", MODEL, DRAFT, version="0.27.1"),
    "oldest": ExportRequest(RANGES, "eagle3", MODEL, DRAFT, version="0.20"),
    "placed": ExportRequest(RANGES, "eagle3", PLACED, "d"),
    "data parallel": ExportRequest(RANGES, "eagle3", ServedModel("m", data_parallel=4), DRAFT),
    "few requests": ExportRequest(
        RANGES, "eagle3", ServedModel("m", max_running_requests=100), DRAFT
    ),
    "many requests": ExportRequest(
        ONE_K, "eagle3", ServedModel("m", max_running_requests=1024), DRAFT
    ),
    "most requests": ExportRequest(
        ONE_K, "eagle3", ServedModel("m", max_running_requests=8192), DRAFT
    ),
    "hostile name": ExportRequest(
        RANGES, "eagle3", ServedModel("m; rm -rf ~ $(x) `y` 'z'"), "a'b\"c"
    ),
    "no draft model": ExportRequest(RANGES, "eagle3", MODEL),
    "a draft model too many": ExportRequest(RANGES, "ngram", MODEL, DRAFT),
    "unknown method": ExportRequest(RANGES, "medusa", MODEL, DRAFT),
}
EIGHT = {"n_gpus": 8, "tensor_parallel": 8}
SCENARIOS: dict[str, tuple[dict[str, Any], tuple[KRange, ...], str | None]] = {
    "fp8 cache": ({"kv_dtype": "fp8"}, RANGES, DRAFT),
    "p-eagle": ({"drafter_id": "p-eagle"}, RANGES, DRAFT),
    "deepseek's mtp": ({"model_id": "deepseek-v3", "drafter_id": "mtp"} | EIGHT, RANGES, None),
    "mtp that no engine runs": (
        {"model_id": "minimax-m2", "drafter_id": "mtp"} | EIGHT,
        RANGES,
        None,
    ),
    "dspark": ({"drafter_id": "dspark", "n_gpus": 8, "expert_parallel": 8}, RANGES, "some/dspark"),
    "dspark without": ({"drafter_id": "dspark", "n_gpus": 8, "expert_parallel": 8}, RANGES, None),
    "dspark in the target": (
        {"drafter_id": "dspark", "model_id": "deepseek-v4-flash", "n_gpus": 8},
        RANGES,
        None,
    ),
    "large batches": ({}, (KRange(1, 300, 3, 1.5),), DRAFT),
    **{
        f"mtp of {name}": (
            {"model_id": name, "drafter_id": "mtp", "acceptance": "1.8@1"} | EIGHT,
            RANGES,
            None,
        )
        for name in (
            "mimo-v2-flash",
            "qwen3-next-80b-a3b",
            "longcat-flash",
            "ernie-4.5-300b-a47b",
            "glm-4.7-flash",
        )
    },
}
COMMANDS: dict[str, tuple[dict[str, Any], str | None]] = {
    "eagle3": ({"context_tokens": 4092, "batch_size": 16}, DRAFT),
    "ngram over ranks": (
        {"n_gpus": 8, "expert_parallel": 8, "batch_size": 20, "drafter_id": "ngram"},
        None,
    ),
    "suffix": ({"drafter_id": "suffix"}, None),
    "p-eagle": ({"drafter_id": "p-eagle"}, DRAFT),
}


def outcome(export: Callable[[], Any]) -> dict[str, Any]:
    """Configuration, launch line and warnings of an export, or why it is refused."""
    try:
        made = export()
    except AdvisorError as error:
        return {"refused": str(error)}
    return {
        "config": made.config,
        "launch": made.launch_line,
        "warnings": note_texts(made.notes, "bare"),
    }


def _setup(changes: dict[str, Any], **more: Any) -> Any:
    return load_setup(Scenario(**({"acceptance": "2.4@3"} | changes | more)))


def everything() -> dict[str, Any]:
    """Outcomes of REQUESTS, SCENARIOS and COMMANDS, and of a schedule that changes with the
    context."""
    found: dict[str, Any] = {}
    for engine in ("vllm", "sglang"):
        for name, request in REQUESTS.items():
            found[f"{engine}: {name}"] = outcome(
                lambda e=engine, r=request: export_engine_config(e, r)
            )
        for name, (changes, ranges, draft) in SCENARIOS.items():
            given = (_setup(changes, engine=engine), ranges, engine)
            found[f"{engine}: {name}, scenario"] = outcome(
                lambda g=given, d=draft: export_scenario(*g, draft_model=d)
            )
    own = schedule_for(
        Scenario(n_gpus=4, tensor_parallel=4, model_id="llama-3.1-8b", acceptance="2.4@3")
    )
    for engine in ("vllm", "sglang"):
        made = export_scenario(
            own.setup, own.ranges, engine, draft_model=DRAFT, contexts=own.at_contexts
        )
        found[f"{engine}: by context"] = note_texts(made.notes, "bare")
    for name, (changes, draft) in COMMANDS.items():
        commands = check_commands(_setup(changes), 3, draft_model=draft)
        found[f"check: {name}"] = [[one.purpose, one.command] for one in commands]
    return json.loads(json.dumps(found))


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
