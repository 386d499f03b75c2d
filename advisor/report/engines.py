"""The schedule as each engine's own configuration, the commands that check the prediction, and their sections."""

from __future__ import annotations

from advisor.advice import Advice, advice_on
from advisor.catalog import export_engines, load_engine
from advisor.engines import (
    CheckCommand,
    check_commands,
    default_served_model,
    export_scenario,
    needs_draft_model,
    one_option_a_line,
    one_slot_a_line,
)
from advisor.prediction import AdvisorError
from advisor.report.blocks import Block, Code, Listing, Paragraph
from advisor.report.document import EngineSetup
from advisor.runtime import KByContext
from advisor.text import printable

DRAFT_MODEL_PLACEHOLDER = "YOUR-DRAFT-MODEL"


def engine_setups(
    advice: Advice,
    served_model: str | None = None,
    draft_model: str | None = None,
    contexts: KByContext | None = None,
) -> tuple[EngineSetup, ...]:
    """One EngineSetup for each engine that has an export.

    served_model, draft_model : names or paths for the launch lines. Default: the model's Hugging Face repository (the
    scenario's own name for a model that the user gave), and a placeholder that the warnings name, where the method
    needs a draft checkpoint that no profile knows.
    """
    served = printable(served_model or _served_model(advice))
    return tuple(_setup(advice, engine.id, served, draft_model, contexts) for engine in export_engines())


def check_steps(
    advice: Advice, served_model: str | None = None, draft_model: str | None = None
) -> tuple[CheckCommand, ...]:
    """The vLLM benchmarks that measure the recommended K.

    Empty for K = 0 and where vLLM cannot run the drafter.
    """
    setup, n_draft = advice.setup, advice.recommendation.n_draft
    if n_draft < 1:
        return ()
    served = printable(served_model or _served_model(advice))
    try:
        draft = _draft_model(advice, "vllm", draft_model)
        return check_commands(setup, n_draft, served_model=served, draft_model=draft)
    except AdvisorError:
        return ()  # the engine section says why vLLM cannot


def engine_blocks(engine: EngineSetup) -> tuple[Block, ...]:
    """One engine's launch line, its file and what to know before use, or why it cannot run the schedule."""
    name = load_engine(engine.engine).name
    if engine.problem:
        return (Paragraph(f"{name}: {engine.problem}."),)
    blocks: list[Block] = [Code(one_option_a_line(engine.launch_line), f"{name}, launch line")]
    if engine.file_name:
        blocks.append(Code(one_slot_a_line(engine.config_json), f"{name}, {engine.file_name}"))
    if engine.warnings:
        blocks.append(Listing(tuple(f"{name}: {warning}." for warning in engine.warnings)))
    return tuple(blocks)


def check_blocks(checks: tuple[CheckCommand, ...]) -> tuple[Block, ...]:
    """The commands that measure what is predicted, or why there are none."""
    if not checks:
        return (Paragraph("No commands: K = 0 is recommended, or vLLM cannot run this drafter."),)
    intro = (
        "These vLLM commands measure what is predicted here, with the accepted length imposed, so that the cost model "
        "alone is tested. Upload their output on the page Data."
    )
    return (Paragraph(intro), *(Code(one_option_a_line(step.command), step.purpose) for step in checks))


def _setup(
    advice: Advice, engine: str, served_model: str, draft_model: str | None, contexts: KByContext | None
) -> EngineSetup:
    try:
        draft, own = _draft_model(advice, engine, draft_model), advice_on(advice, engine)
        export = export_scenario(
            own.setup,
            own.to_serve,
            engine,
            served_model=served_model,
            draft_model=draft,
            contexts=contexts,
        )
    except AdvisorError as error:
        return EngineSetup(engine=engine, problem=printable(str(error)))
    warnings = list(export.warnings)
    if DRAFT_MODEL_PLACEHOLDER in export.launch_line:
        warnings.insert(0, f"write the name or path of your draft checkpoint for {DRAFT_MODEL_PLACEHOLDER}")
    if not _known_model(advice) and served_model == printable(advice.scenario.model_id):
        warnings.insert(0, f"write the path or Hugging Face repository of your model for {served_model}")
    return EngineSetup(
        engine=engine,
        launch_line=export.launch_line,
        config_json=export.config_json,
        file_name=export.file_name or "",
        warnings=tuple(warnings),
    )


def _known_model(advice: Advice) -> str:
    """The model's Hugging Face repository; empty for the user's own, whose path nobody else knows."""
    try:
        return default_served_model(advice.setup)
    except AdvisorError:
        return ""


def _served_model(advice: Advice) -> str:
    return _known_model(advice) or advice.scenario.model_id


def _draft_model(advice: Advice, engine: str, given: str | None) -> str | None:
    """The name given, else a placeholder where the method needs one that no profile knows, else None."""
    if given:
        return printable(given)
    return DRAFT_MODEL_PLACEHOLDER if needs_draft_model(advice.setup, engine) else None
