"""The schedule of an advice as each engine's own configuration, or the reason why that engine cannot run it."""

from __future__ import annotations

from advisor.advice import Advice
from advisor.catalog import export_engines
from advisor.engines import check_commands, default_served_model, export_scenario, needs_draft_model
from advisor.prediction import AdvisorError
from advisor.report.document import CheckStep, EngineSetup
from advisor.text import printable

DRAFT_MODEL_PLACEHOLDER = "YOUR-DRAFT-MODEL"


def engine_setups(
    advice: Advice, served_model: str | None = None, draft_model: str | None = None
) -> tuple[EngineSetup, ...]:
    """One EngineSetup for each engine that has an export.

    served_model, draft_model : names or paths for the launch lines. Default: the model's Hugging Face repository (the
    scenario's own name for a model that the user gave), and a placeholder that the warnings name, where the method
    needs a draft checkpoint that no profile knows.
    """
    served = printable(served_model or _served_model(advice))
    draft = printable(draft_model) if draft_model else None
    return tuple(_setup(advice, engine.id, served, draft) for engine in export_engines())


def check_steps(
    advice: Advice, served_model: str | None = None, draft_model: str | None = None
) -> tuple[CheckStep, ...]:
    """The vLLM benchmarks that measure the recommended K; empty for K = 0 and where vLLM cannot run the drafter."""
    setup, k_draft = advice.setup, advice.recommendation.k_draft
    if k_draft < 1:
        return ()
    served = printable(served_model or _served_model(advice))
    try:
        draft = draft_model or (DRAFT_MODEL_PLACEHOLDER if needs_draft_model(setup, "vllm") else None)
        found = check_commands(setup, k_draft, served_model=served, draft_model=draft and printable(draft))
    except AdvisorError:
        return ()  # the engine section says why vLLM cannot
    return tuple(CheckStep(purpose=step.purpose, command=step.command) for step in found)


def _setup(advice: Advice, engine: str, served_model: str, draft_model: str | None) -> EngineSetup:
    setup = advice.setup
    try:
        draft = draft_model or (DRAFT_MODEL_PLACEHOLDER if needs_draft_model(setup, engine) else None)
        export = export_scenario(setup, advice.k_by_batch, engine, served_model=served_model, draft_model=draft)
    except AdvisorError as error:
        return EngineSetup(engine=engine, problem=printable(str(error)))
    warnings = list(export.warnings)
    if DRAFT_MODEL_PLACEHOLDER in export.launch_line:
        warnings.insert(0, f"write the name or path of your draft checkpoint for {DRAFT_MODEL_PLACEHOLDER}")
    return EngineSetup(
        engine=engine,
        launch_line=export.launch_line,
        config_json=export.config_json,
        file_name=export.file_name or "",
        warnings=tuple(warnings),
    )


def _served_model(advice: Advice) -> str:
    try:
        return default_served_model(advice.setup)
    except AdvisorError:  # the user's own configuration: nobody but the user knows its repository
        return advice.scenario.model_id
