"""The schedule of an advice as each engine's own configuration, or the reason why that engine cannot run it."""

from __future__ import annotations

from typing import cast, get_args

from advisor.advice import Advice
from advisor.model_profiles import model_ids, model_profile
from advisor.prediction import AdvisorError
from advisor.report.document import EngineSetup
from advisor.report.engine_config import ExportEngine, Method, ServedModel, export_engine_config
from advisor.report.engine_rules import VLLM_NEEDS_MODEL
from advisor.report.words import printable

DRAFT_MODEL_PLACEHOLDER = "YOUR-DRAFT-MODEL"


def engine_setups(
    advice: Advice, served_model: str | None = None, draft_model: str | None = None
) -> tuple[EngineSetup, ...]:
    """One EngineSetup for each engine that has an export.

    served_model, draft_model : names or paths for the launch lines. Default: the model's Hugging Face repository, and
    a placeholder that the warnings name, where the method needs a draft checkpoint.
    """
    return tuple(_setup(advice, engine, served_model, draft_model) for engine in get_args(ExportEngine))


def _setup(advice: Advice, engine: ExportEngine, served_model: str | None, draft_model: str | None) -> EngineSetup:
    method, problem = _method(advice)
    if method is None:
        return EngineSetup(engine=engine, problem=problem)
    needs_draft = method in VLLM_NEEDS_MODEL
    draft = printable(draft_model or DRAFT_MODEL_PLACEHOLDER) if needs_draft else None
    setup = advice.setup
    served = ServedModel(
        model=printable(served_model or _repository(advice)),
        tensor_parallel=setup.placement.tensor_parallel,
        expert_parallel=setup.placement.expert_parallel,
        data_parallel=setup.placement.attention_groups,
    )
    try:
        export = export_engine_config(engine, advice.k_by_batch, method, served, draft)
    except AdvisorError as error:
        return EngineSetup(engine=engine, problem=printable(str(error)))
    warnings = list(export.warnings)
    if DRAFT_MODEL_PLACEHOLDER in export.launch_line:
        warnings.insert(0, f"write the name or path of your draft checkpoint for {DRAFT_MODEL_PLACEHOLDER}")
    if advice.scenario.engine != engine:
        warnings.append(f"times and K were predicted for {advice.scenario.engine}, not for {engine}")
    return EngineSetup(
        engine=engine,
        launch_line=export.launch_line,
        config_json=export.config_json,
        file_name=export.file_name or "",
        warnings=tuple(warnings),
    )


def _method(advice: Advice) -> tuple[Method | None, str]:
    """The drafting method in vLLM's names, or None and why there is no export."""
    if all(item.k_draft == 0 for item in advice.k_by_batch):
        return "ngram", ""  # a schedule that never drafts names no method; this one needs no checkpoint
    drafter = advice.setup.drafter
    method = drafter.engine_method.get("vllm", "")
    if method not in get_args(Method):
        return None, f"no checked export for drafter {drafter.id}; see the engine's own documentation"
    if drafter.kind == "parallel" and method == "eagle3":
        return None, f"drafter {drafter.id} also needs parallel_drafting, which the export does not write"
    return cast(Method, method), ""


def _repository(advice: Advice) -> str:
    scenario = advice.scenario
    if scenario.model_config_json is None and scenario.model_id in model_ids():
        return model_profile(scenario.model_id).hf_repo
    return scenario.model_id
