"""A scenario's schedule as engine configuration, and the commands that measure what was predicted.

Options read in vLLM 0.33: vllm/benchmarks/forward (main.py, shapes.py, speculator.py),
vllm/benchmarks/serve.py and vllm/config/speculative.py (synthetic rejection sampling).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from advisor.answers.best_k import KRange, k_running_at
from advisor.answers.by_context import KByContext
from advisor.answers.engines.config import (
    NEEDS_MODEL,
    AdaptiveRange,
    Capture,
    EngineExport,
    ExportRequest,
    ServedModel,
    check_draft_model,
    guard_notes,
    on_older_runner,
    per_rank,
)
from advisor.answers.engines.graphs import assumed_capture
from advisor.answers.engines.vllm import placement_words, token_budget, vllm_speculative_config
from advisor.catalog.engines import (
    ADMITTED,
    AdaptiveRule,
    Engine,
    ExportRule,
    GraphServer,
    MtpSupport,
    engine_of,
    export_engines,
    load_engine,
)
from advisor.catalog.hf.fields import parse_json
from advisor.catalog.models import (
    load_model,
    model_ids,
    model_profile,
    release_names,
    resolve_model_name,
)
from advisor.physics.notes import Kind, Note, ranked
from advisor.predict.load import block_notes, default_graphs
from advisor.predict.setup import Setup, served_weights
from advisor.prediction import AdvisorError
from advisor.profiles import write_whole


def export_scenario(
    setup: Setup,
    ranges: Sequence[KRange],
    engine: str,
    *,
    served_model: str | None = None,
    draft_model: str | None = None,
    max_running_requests: int | None = None,
    folder: Path | None = None,
    contexts: KByContext | None = None,
    capture: Capture | None = None,
) -> EngineExport:
    """Checked configuration and launch line of a scenario's schedule.

    ranges : the schedule, one range for a static K (`runtime.static_ranges`), or `AdaptiveRange`.
    engine : one that has an export; may differ from the engine whose overheads the scenario
        assumes.
    served_model, draft_model : names or paths; default the Hugging Face names of the profiles,
        where there are any.
    max_running_requests : limit of concurrent requests on the launch line; None leaves the engine's
        own.
    folder : where the launch line looks for the engine's file, where it has one; None: where the
        server starts.
    contexts : whether another context has another K; None: not looked at.
    capture : of the schedule, where its graphs were decided with it (`schedule_for`).

    Raises AdvisorError when the engine cannot run the drafter, or a name is missing.
    """
    file_name = _export_rule(engine).file_name or ""
    method = method_for(setup, engine)
    model = served_model or default_served_model(setup)
    if (
        draft_model is None
        and needs_draft_model(setup, engine)
        and any(item.k_running for item in ranges)
    ):
        check_draft_model(method, None, needed=True)
    target_batch = min(setup.scenario.batch_size, ranges[-1].batch_end)
    max_running_requests = max_running_requests or _admitted(setup)
    is_adaptive = isinstance(ranges[0], AdaptiveRange)
    adaptive = adaptive_rule(setup, engine)[0] if is_adaptive else None
    draft_model = default_draft_model(setup) if draft_model is None else draft_model
    server, capture = _graphs_of(setup, ranges, engine, max_running_requests, capture)
    request = replace(
        _request(setup, ranges, engine),
        served=_served(setup, model, max_running_requests),
        adaptive=adaptive,
        draft_model=draft_model,
        file_name=str(folder / file_name) if folder else file_name,
        context_matters=contexts is not None and contexts.matters,
        server=server,
        capture=capture,
        token_budget=token_budget(setup.hardware),
        target_k=int(k_running_at(ranges, target_batch)),
    )
    export = export_engine_config(engine, request)
    notes = [*export.notes, *_notes(setup, engine, model)]
    if contexts is not None and contexts.matters:
        notes.append(Note.of("k_by_context", **contexts.facts))
    return replace(export, notes=ranked(notes))


def _request(setup: Setup, ranges: Sequence[KRange], engine: str) -> ExportRequest:
    """What an export's guards go by."""
    return ExportRequest(
        ranges=per_rank(ranges, setup.placement.attention_groups),
        method=setup.drafter.method,
        served=_served(setup, "", None),
        parallel_drafting=setup.drafter.parallel_drafting,
        multi_layer=_is_multi_layer(setup, engine),
        mtp_modules=_mtp_modules(setup, engine),
        # The release that was reviewed where none is named.
        version=setup.scenario.engine_version if setup.scenario.engine == engine else None,
    )


def _is_multi_layer(setup: Setup, engine: str) -> bool:
    families = _mtp_support(engine).multi_layer
    return setup.drafter.method == "mtp" and _model_type(setup) in families


def _mtp_modules(setup: Setup, engine: str) -> int:
    """MTP modules that the engine drafts with. 1 for drafters of other kinds."""
    if setup.drafter.method != "mtp":
        return 1
    loaded = _mtp_support(engine).models.get(_model_type(setup), 0)
    return max(loaded or setup.architecture.mtp_modules, 1)


def _exported_engine(setup: Setup) -> Engine | None:
    """The scenario's engine, where something is exported for it and it runs the drafter."""
    engine = engine_of(setup.scenario.engine)
    is_exported = engine is not None and engine.export is not None and _runs(setup, engine.id)
    return engine if is_exported else None


def fixed_k_of(setup: Setup) -> Kind | None:
    """Kind of note on why the scenario's engine runs one K at every batch.

    None where it switches, and where nothing is exported for it.
    """
    engine = _exported_engine(setup)
    if engine is None or engine.export is None:
        return None
    writer = import_module(f"advisor.answers.engines.{engine.export.writer}")
    groups = setup.placement.attention_groups
    # A writer without one has an engine that switches.
    fixed_k = getattr(writer, "fixed_k", lambda *_: None)
    kind: Kind | None = fixed_k(setup.drafter.method, groups, _is_multi_layer(setup, engine.id))
    return kind


def void_notes(setup: Setup, ranges: Sequence[KRange]) -> list[Note]:
    """Notes on a launch command that has no effect, does harm, or needs another release."""
    engine = _exported_engine(setup)
    if engine is None:
        return []
    request = _request(setup, ranges, engine.id)
    return [note for note in guard_notes(engine.id, request) if note.kind == "guard_void"]


def _admitted(setup: Setup) -> int | None:
    """Requests that the scenario says its server admits. None where it does not."""
    admitted = ADMITTED if setup.graphs is None else setup.graphs.server.admitted
    return None if admitted == ADMITTED else admitted


def _graphs_of(
    setup: Setup,
    ranges: Sequence[KRange],
    engine: str,
    limit: int | None,
    capture: Capture | None,
) -> tuple[GraphServer | None, Capture | None]:
    """What the priced server captures, and what of it is beyond the release's own."""
    if setup.graphs is None or setup.scenario.engine != engine:
        by_itself = default_graphs(setup, engine)
        # An engine that chooses what it verifies stays within the graphs that it has.
        if by_itself is None or isinstance(ranges[0], AdaptiveRange):
            return None, None
        return None, assumed_capture(setup, by_itself, ranges, limit)
    return setup.graphs.server, capture


def _served(setup: Setup, model: str, max_running_requests: int | None) -> ServedModel:
    """The target model under a name, in the scenario's placement and cache format."""
    placement = setup.placement
    balanced = setup.scenario.redundant_experts is not None and placement.expert_parallel > 1
    return ServedModel(
        model=model,
        tensor_parallel=placement.tensor_parallel,
        expert_parallel=placement.expert_parallel,
        data_parallel=placement.attention_groups,
        redundant_experts=placement.redundant if balanced else None,
        max_running_requests=max_running_requests,
        fp8_kv_cache=setup.cache.dtype == "fp8",
    )


def export_engine_config(engine: str, request: ExportRequest) -> EngineExport:
    """The checked configuration of one engine, by its writer. Raises AdvisorError when it cannot
    run the method."""
    rule = _export_rule(engine)
    methods = load_engine(engine).methods
    if request.method not in methods:
        raise AdvisorError(
            f"{load_engine(engine).name} has no drafting method {request.method!r}; choose one of "
            f"{', '.join(methods)}"
        )
    if any(item.k_running for item in request.ranges):
        check_draft_model(request.method, request.draft_model)
    return import_module(f"advisor.answers.engines.{rule.writer}").export(request)


def _export_rule(engine: str) -> ExportRule:
    profile = engine_of(engine)
    if profile is not None and profile.export is not None:
        return profile.export
    names = " and ".join(each.id for each in export_engines())
    raise AdvisorError(
        f"commands are written for {names} only, not for "
        f"{profile.name if profile else 'another engine'}; choose one of them"
    )


def method_for(setup: Setup, engine: str) -> str:
    """The drafter's method, by its name in vLLM. Raises AdvisorError when the engine cannot run the
    drafter."""
    if not _runs(setup, engine):
        raise AdvisorError(
            f"{setup.drafter.name} has no {engine} export; choose another engine or drafter, e.g. "
            "eagle3, mtp or ngram"
        )
    # Whether the engine is known not to run the MTP modules of the model's family.
    support = _mtp_support(engine)
    family = _model_type(setup)
    rule = load_engine(engine)
    if (
        setup.drafter.method != "mtp"
        or not support.models
        or not family
        or family in (*support.models, *support.assistants)
    ):
        return setup.drafter.method
    others = [
        f"export for {profile.name}"
        for profile in export_engines()
        if profile.mtp is not None and family in (*profile.mtp.models, *profile.mtp.assistants)
    ]
    read = f" {rule.reviewed.version}" if rule.reviewed else ""
    raise AdvisorError(
        f"{rule.name}{read} does not run the multi-token-prediction module of {family} models: it "
        "refuses the method or has no such draft model; "
        f"{' or '.join([*others, 'choose another drafter, e.g. eagle3 or ngram'])}"
    )


def adaptive_rule(setup: Setup, engine: str) -> tuple[AdaptiveRule, str]:
    """Rule by which an engine verifies the scenario's drafts adaptively, and its release for
    readers. Raises AdvisorError, with the reason, where it does not."""
    profile = load_engine(engine)
    version = setup.scenario.engine_version if setup.scenario.engine == engine else None
    version = version or (profile.reviewed.version if profile.reviewed else "0.0")
    release = f"{profile.name} {version}"
    drafter = setup.drafter
    rule = profile.adaptive_rule(version)
    if rule is None:
        read = " and ".join(f"{each.since} to before {each.before}" for each in profile.adaptive)
        raise AdvisorError(
            f"{release} does not verify adaptively; releases of it that do: {read or 'none'}"
        )
    kinds = {mixer.kind for mixer in setup.architecture.mixers}
    chips = rule.latent_chips if kinds & {"mla", "sparse"} else rule.chips
    graphless = setup.graphs is not None and setup.graphs.server.sizes == ()
    if (
        drafter.method not in rule.methods
        or on_older_runner(drafter.method, drafter.parallel_drafting)
        or graphless
        or setup.costs.between_graphs_s
        or ("linear" in kinds and _model_type(setup) not in rule.recurrent)
        or set(chips).isdisjoint(setup.hardware.generation.split())
    ):
        raise AdvisorError(
            f"{release} verifies adaptively what {', '.join(rule.methods)} (not P-EAGLE) draft, "
            f"with full CUDA graphs, on {', '.join(chips)} for this attention, and with recurrent "
            f"layers of {', '.join(rule.recurrent) or 'no model'}; leave out --adaptive"
        )
    return rule, release


def _mtp_support(engine: str) -> MtpSupport:
    return load_engine(engine).mtp or MtpSupport(source="not looked up")


_SHIP_DSPARK = ("deepseek_v4", "deepseek_v41")
"""Families for which vLLM looks for the stages in the target's checkpoint where no draft model is
named."""


def _config(setup: Setup) -> Mapping[str, Any]:
    """The scenario's configuration. Empty where it is not at hand."""
    scenario = setup.scenario
    if scenario.model_config_json is not None:
        return parse_json(scenario.model_config_json, "config.json")
    return model_profile(scenario.model_id).config if scenario.model_id in model_ids() else {}


def _model_type(setup: Setup) -> str:
    return str(_config(setup).get("model_type", ""))


def _runs(setup: Setup, engine: str) -> bool:
    drafter = setup.drafter
    profile = engine_of(engine)
    return (
        profile is not None
        and drafter.method in profile.methods
        and (profile.parallel_drafting or not drafter.parallel_drafting)
    )


def needs_draft_model(setup: Setup, engine: str) -> bool:
    """Whether an export needs a draft model's name that no profile knows. Only where the engine
    runs the drafter."""
    method = setup.drafter.method
    # Whether the target's checkpoint holds DSpark's stages: its configuration says so, or all of
    # its family do.
    ships_dspark = _model_type(setup) in _SHIP_DSPARK or any(
        key.startswith("dspark_") for key in _config(setup)
    )
    apart = method in NEEDS_MODEL or (method == "dspark" and not ships_dspark)
    return _runs(setup, engine) and apart and default_draft_model(setup) is None


def default_served_model(setup: Setup) -> str:
    """Hugging Face name of the scenario's model, of its release in the weight format that is asked
    for.

    The profile's own repository where none is known in it. Raises AdvisorError for the user's own
    configuration.
    """
    scenario = setup.scenario
    if scenario.served_checkpoint is not None:
        return scenario.served_checkpoint
    if scenario.model_config_json is None and scenario.model_id in model_ids():
        checkpoints, _ = release_names(scenario.model_id)
        return next((name for name in checkpoints if is_served_as(setup, name)), checkpoints[0])
    raise AdvisorError(
        f"{scenario.model_id} is your own configuration; give the name or path the engine serves"
    )


def is_served_as(setup: Setup, name: str) -> bool:
    """Whether a checkpoint's name says the scenario's model in the weight format that is asked
    for."""
    resolved_name = resolve_model_name(name)
    if resolved_name is None or resolved_name.model_id != setup.architecture.id:
        return False
    scenario = setup.scenario.model_copy(
        update={"weight_dtype": resolved_name.weight_format, "expert_dtype": None}
    )
    return (
        served_weights(load_model(resolved_name.model_id), scenario).dtypes
        == setup.architecture.dtypes
    )


def format_note(setup: Setup, served: str) -> Note | None:
    """A note to name a checkpoint in the format that is asked for. None where `served` is in
    it."""
    formats = sorted(
        {
            str(weight_format)
            for weight_format in (setup.scenario.weight_dtype, setup.scenario.expert_dtype)
            if weight_format
        }
    )
    if not formats or is_served_as(setup, served):
        return None
    relatives = (
        release_names(setup.architecture.id)[1] if setup.architecture.id in model_ids() else []
    )
    like = next((name for name in relatives if is_served_as(setup, name)), None)
    return Note.of("weights_to_name", formats=tuple(formats), like=like)


def default_draft_model(setup: Setup) -> str | None:
    """Hugging Face name of the drafter's own model. None where it has none, or no profile names
    it."""
    draft_id = setup.drafter.draft_model_id
    if draft_id is not None and draft_id in model_ids():
        return model_profile(draft_id).hf_repo
    target_id = setup.architecture.id
    of_model = model_profile(target_id).drafter if target_id in model_ids() else None
    if of_model is None or of_model.id != setup.drafter.id:
        return None
    return of_model.checkpoint or None


def write_export(
    export: EngineExport, folder: Path, comments: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Write the JSON and the launch line into `folder`. Returns the files. Raises AdvisorError when
    that fails.

    comments : lines that stand above the launch line.
    """
    files: dict[Path, str] = {}
    if export.config is not None:
        name = Path(export.file_name or f"{export.engine}_speculative_config.json").name
        files[folder / name] = export.config_json + "\n"
    checked = "".join(f"# {text}\n" for text in comments)
    launch = f"#!/bin/sh\n{checked}exec {export.launch_line}\n"
    files[folder / f"{export.engine}_launch.sh"] = launch
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            write_whole(path, text.encode())
    except OSError as error:
        raise AdvisorError(f"cannot write to {folder}: {error.strerror or error}") from error
    return tuple(files)


def _notes(setup: Setup, engine: str, served: str) -> list[Note]:
    scenario = setup.scenario
    notes = block_notes(setup)
    checkpoint = scenario.served_checkpoint
    if "/" not in (checkpoint or "/"):
        notes.append(Note.of("model_to_name", name=checkpoint))
    if scenario.engine != engine:
        notes.append(Note.of("schedule_of_engine", engine=scenario.engine, exported=engine))
    if setup.drafter.method == "dspark" and _model_type(setup) == "deepseek_v4":
        notes.append(Note.of("dspark_stages"))
    if (weights := format_note(setup, served)) is not None:
        notes.append(weights)
    if scenario.max_tpot_ms is not None:
        notes.append(Note.of("limit_passed"))
    return notes


PER_RANK = "_per_rank"
"""Ending of a case's name whose requests are one data-parallel rank's; the reader of the result
goes by it."""
OUTPUT_TOKENS = 256
"""Output of each benchmark request, ours to choose: long enough to average over, short beside most
contexts."""
REQUESTS_PER_SLOT = 4


@dataclass(frozen=True)
class CheckCommand:
    """One shell command and what its result is held against."""

    purpose: str
    command: str


def check_commands(
    setup: Setup, n_draft: int, *, served_model: str | None = None, draft_model: str | None = None
) -> tuple[CheckCommand, ...]:
    """Commands for the scenario's batch and context at one K >= 1. Only vLLM has them. Results
    upload into the page Measure.

    Acceptance is synthetic: the scenario's accepted length is imposed, so the run tests the cost
    model alone.

    Raises AdvisorError as `export.export_scenario` does, for vLLM.
    """
    method = method_for(setup, "vllm")
    model = served_model or default_served_model(setup)
    draft = draft_model or default_draft_model(setup)
    check_draft_model(method, draft)
    config = shlex.quote(_synthetic_config(setup, method, n_draft, draft))
    scenario = setup.scenario
    groups = setup.placement.attention_groups
    served = _served(setup, model, None)
    cache = ["--kv-cache-dtype", "fp8"] * served.fp8_kv_cache
    placed = shlex.join([model, *placement_words(served), *cache])
    context = scenario.context_tokens
    batch = -(-scenario.batch_size // groups)  # both benchmark and limit count one rank
    ending = PER_RANK if groups > 1 else ""
    gpus = setup.placement.gpus
    several = f"torchrun --nproc-per-node={gpus} -m vllm.entrypoints.cli.main"
    forward = (
        f"{'vllm' if gpus == 1 else several} bench forward --model {placed} --load-format auto "
        "--routing real --kv-len-jitter 0"
    )
    plain = f"--case 'plain{ending}={batch}*1@{context + 1}' --output-json plain_step.json"
    verify = (
        f"--speculative-config {config} --exclude-drafter --case 'verify{ending}={batch}*"
        f"{n_draft + 1}@{context + n_draft + 1}:{n_draft}' --output-json verify_step.json"
    )
    server = f"vllm serve {placed} --max-num-seqs {batch}"
    load = (
        f"vllm bench serve --model {shlex.quote(model)} --dataset-name random --random-input-len "
        f"{max(1, context - OUTPUT_TOKENS // 2)} --random-output-len {OUTPUT_TOKENS} --ignore-eos "
        f"--max-concurrency {scenario.batch_size} --num-prompts "
        f"{REQUESTS_PER_SLOT * scenario.batch_size} --save-result --result-filename"
    )
    # It needs Model Runner V2.
    timed = not on_older_runner(method, setup.drafter.parallel_drafting)
    return (
        CheckCommand("Plain decode step", f"{forward} {plain}"),
        *[
            CheckCommand(
                f"Verification step at K = {n_draft}, target model alone", f"{forward} {verify}"
            )
        ]
        * timed,
        CheckCommand("Server without speculation", server),
        CheckCommand("Load on it", f"{load} without_speculation.json"),
        CheckCommand(
            f"Server with K = {n_draft} and the scenario's accepted length imposed",
            f"{server} --speculative-config {config}",
        ),
        CheckCommand("The same load on it", f"{load} with_speculation.json"),
    )


def _synthetic_config(setup: Setup, method: str, n_draft: int, draft_model: str | None) -> str:
    """Speculation at K = `n_draft` >= 1 whose acceptance is imposed, as JSON."""
    ranges = (KRange(1, setup.scenario.batch_size, n_draft, 1.0),)
    parallel = setup.drafter.parallel_drafting
    config = vllm_speculative_config(ranges, method, draft_model, parallel_drafting=parallel) or {}
    from advisor.answers.simulation.simulator import concave  # `advise` does without

    rates = np.diff(concave(setup.acceptance.accepted_length))[:n_draft]
    config["rejection_sample_method"] = "synthetic"
    config["synthetic_acceptance_rates"] = [round(float(rate), 4) for rate in rates]
    return json.dumps(config, separators=(",", ":"))
