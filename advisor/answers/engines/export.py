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
from advisor.answers.by_batch import KByContext
from advisor.answers.engines.config import (
    NEEDS_MODEL,
    EngineExport,
    ExportRequest,
    ServedModel,
    check_draft_model,
)
from advisor.answers.engines.vllm import placement_words, token_budget, vllm_speculative_config
from advisor.catalog.engines import ExportRule, MtpSupport, export_engines, load_engine
from advisor.catalog.hf.fields import parse_json
from advisor.catalog.models import (
    load_model,
    model_ids,
    model_profile,
    release_names,
    resolve_model_name,
)
from advisor.predict.load import block_warnings, default_graphs
from advisor.predict.setup import Setup, served_weights
from advisor.prediction import AdvisorError
from advisor.profiles import write_whole
from advisor.text import listed

GRAPHS_FILE = "vllm_compilation_config.json"
"""File that holds the CUDA graphs to capture, beside the launch script, which has them as well."""


def export_scenario(
    setup: Setup,
    ranges: Sequence[KRange],
    engine: str,
    *,
    served_model: str | None = None,
    draft_model: str | None = None,
    max_running_requests: int | None = None,
    engine_version: str | None = None,
    folder: Path | None = None,
    contexts: KByContext | None = None,
) -> EngineExport:
    """Checked configuration and launch line of a scenario's schedule.

    ranges : the schedule, or one range for a static K (`runtime.static_ranges`).
    engine : one that has an export; may differ from the engine whose overheads the scenario
        assumes.
    served_model, draft_model : names or paths; default the Hugging Face names of the profiles,
        where there are any.
    max_running_requests : limit of concurrent requests on the launch line; None leaves the engine's
        own.
    engine_version : release that will load it; None: the scenario's, else the one whose rules were
        read (`profiles/engines`).
    folder : where the launch line looks for the engine's file, where it has one; None: where the
        server starts.
    contexts : whether another context has another K; None: not looked at.

    Raises AdvisorError when the engine cannot run the drafter, or a name is missing.
    """
    file_name = _export_rule(engine).file_name or ""
    if engine_version is None and setup.scenario.engine == engine:
        engine_version = setup.scenario.engine_version
    method = method_for(setup, engine)
    model = served_model or default_served_model(setup)
    if (
        draft_model is None
        and needs_draft_model(setup, engine)
        and any(item.k_running for item in ranges)
    ):
        check_draft_model(method, None, needed=True)
    target_batch = min(setup.scenario.batch_size, ranges[-1].batch_end)
    multi_layer = method == "mtp" and _model_type(setup) in _mtp_support(engine).multi_layer
    request = ExportRequest(
        ranges=per_rank(ranges, setup.placement.attention_groups),
        method=method,
        served=_served(setup, model, max_running_requests),
        draft_model=default_draft_model(setup) if draft_model is None else draft_model,
        file_name=str(folder / file_name) if folder else file_name,
        parallel_drafting=setup.drafter.parallel_drafting,
        multi_layer=multi_layer,
        version=engine_version,
        context_matters=contexts is not None and contexts.matters,
        graphs=default_graphs(setup, engine, engine_version),
        priced=setup.graphs is not None and setup.scenario.graph_sizes is None,
        token_budget=token_budget(setup.hardware),
        target_k=int(k_running_at(ranges, target_batch)),
    )
    export = export_engine_config(engine, request)
    about = [contexts.text] if contexts is not None and contexts.matters else []
    return replace(export, warnings=(*export.warnings, *about, *_notes(setup, engine, model)))


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
    methods = dict.fromkeys(method for profile in export_engines() for method in profile.methods)
    if request.method not in methods:
        raise AdvisorError(
            f"drafting method {request.method!r} is unknown; choose one of {', '.join(methods)}"
        )
    if any(item.k_running for item in request.ranges):
        check_draft_model(request.method, request.draft_model)
    return import_module(f"advisor.answers.engines.{rule.writer}").export(request)


def _export_rule(engine: str) -> ExportRule:
    rules = {profile.id: profile.export for profile in export_engines()}
    if rule := rules.get(engine):
        return rule
    raise AdvisorError(f"there is no export for engine {engine!r}; choose {' or '.join(rules)}")


def per_rank(ranges: Sequence[KRange], groups: int) -> tuple[KRange, ...]:
    """Schedule by the batch of one data-parallel rank. A rank with b sequences is an instance with
    b x groups."""
    if groups == 1:
        return tuple(ranges)
    last = max(1, ranges[-1].batch_end // groups)
    running = k_running_at(ranges, np.arange(1, last + 1) * groups)
    edges = np.flatnonzero(np.diff(running)) + 1
    starts = [0, *edges.tolist()]
    ends = [*edges.tolist(), last]
    speedup = [
        next(r.speedup for r in reversed(ranges) if r.batch_start <= (a + 1) * groups)
        for a in starts
    ]
    return tuple(
        KRange(a + 1, b, int(running[a]), value)
        for a, b, value in zip(starts, ends, speedup, strict=True)
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
        or family in support.models
    ):
        return setup.drafter.method
    others = [
        profile.name
        for profile in export_engines()
        if profile.mtp is not None and family in profile.mtp.models
    ]
    instead = f"export for {' or '.join(others)}, or " if others else ""
    read = f" {rule.reviewed.version}" if rule.reviewed else ""
    raise AdvisorError(
        f"{rule.name}{read} does not run the multi-token-prediction module of {family} models: it "
        f"refuses the method or has no such draft model; {instead}choose another drafter, e.g. "
        "eagle3 or ngram"
    )


def _mtp_support(engine: str) -> MtpSupport:
    return load_engine(engine).mtp or MtpSupport(source="not looked up")


_SHIP_DSPARK = ("deepseek_v4", "deepseek_v41")
"""Families for which vLLM looks for the stages in the target's checkpoint where no draft model is
named."""


def _config(setup: Setup) -> Mapping[str, Any]:
    """The scenario's configuration. Empty where it is not at hand."""
    scenario = setup.scenario
    if scenario.model_config_json is not None:
        return parse_json(scenario.model_config_json, "the model's config.json")
    return model_profile(scenario.model_id).config if scenario.model_id in model_ids() else {}


def _model_type(setup: Setup) -> str:
    return str(_config(setup).get("model_type", ""))


def _runs(setup: Setup, engine: str) -> bool:
    drafter = setup.drafter
    profile = load_engine(engine)
    return drafter.method in profile.methods and (
        profile.parallel_drafting or not drafter.parallel_drafting
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


def format_remark(setup: Setup, served: str) -> str:
    """Words to name a checkpoint in the weight format that is asked for. Empty where `served` is in
    it."""
    formats = sorted(
        {
            str(weight_format)
            for weight_format in (setup.scenario.weight_dtype, setup.scenario.expert_dtype)
            if weight_format
        }
    )
    if not formats or is_served_as(setup, served):
        return ""
    relatives = (
        release_names(setup.architecture.id)[1] if setup.architecture.id in model_ids() else []
    )
    like = next((f", such as {name}" for name in relatives if is_served_as(setup, name)), "")
    return f"weights as {listed(formats)}: name a checkpoint in that format{like}"


def default_draft_model(setup: Setup) -> str | None:
    """Hugging Face name of the drafter's own model. None where the drafter has none or it is not a
    shipped profile."""
    draft_id = setup.drafter.draft_model_id
    return (
        model_profile(draft_id).hf_repo
        if draft_id is not None and draft_id in model_ids()
        else None
    )


def write_export(export: EngineExport, folder: Path) -> tuple[Path, ...]:
    """Write the JSON and the launch line into `folder`. Returns the files. Raises AdvisorError when
    that fails."""
    files: list[tuple[Path, str]] = []
    if export.config is not None:
        name = (
            Path(export.file_name).name
            if export.file_name
            else f"{export.engine}_speculative_config.json"
        )
        files.append((folder / name, export.config_json + "\n"))
    if export.capture_sizes:
        files.append((folder / GRAPHS_FILE, export.capture_sizes + "\n"))
    checked = "".join(f"# {text}\n" for text in export.warnings if text.startswith("checked by"))
    files.append(
        (folder / f"{export.engine}_launch.sh", f"#!/bin/sh\n{checked}exec {export.launch_line}\n")
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files:
            write_whole(path, text.encode())
    except OSError as error:
        raise AdvisorError(f"cannot write to {folder}: {error.strerror or error}") from error
    return tuple(path for path, _ in files)


def _notes(setup: Setup, engine: str, served: str) -> list[str]:
    scenario = setup.scenario
    notes = list[str]()
    if "/" not in (scenario.served_checkpoint or "/"):
        notes.append(
            "write the path or Hugging Face repository of your model for "
            f"{scenario.served_checkpoint}"
        )
    if scenario.engine != engine:
        notes.append(
            f"the schedule was computed with the kernels and overheads of {scenario.engine}, not "
            f"{engine}"
        )
    if setup.drafter.method == "dspark" and _model_type(setup) == "deepseek_v4":
        notes.append(
            "DSpark's stages are looked for in the target's checkpoint: serve a release of "
            "DeepSeek-V4 that has them"
        )
    notes += filter(
        None, [format_remark(setup, served), *(text.rstrip(".") for text in block_warnings(setup))]
    )
    if scenario.max_tpot_ms is not None:
        notes.append(
            "beyond the limit on time per output token the schedule names the fastest K; cap the "
            "batch instead"
        )
    return notes


NOT_TIMED = ("suffix",)
"""Methods that `vllm bench forward` cannot start with: it needs Model Runner V2, which has neither
these nor EAGLE heads that draft in parallel."""
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
    upload into the page Data.

    Acceptance is synthetic: the scenario's accepted length is imposed, so the run tests the cost
    model alone.

    Raises AdvisorError as `export.export_scenario` does, for vLLM.
    """
    method = method_for(setup, "vllm")
    model = served_model or default_served_model(setup)
    draft = draft_model or default_draft_model(setup)
    check_draft_model(method, draft)
    config = _synthetic_config(setup, method, n_draft, draft)
    scenario = setup.scenario
    served = _served(setup, model, None)
    parallel = placement_words(served) + ["--kv-cache-dtype", "fp8"] * served.fp8_kv_cache
    context = scenario.context_tokens
    batch = -(
        -scenario.batch_size // setup.placement.attention_groups
    )  # both benchmark and limit count one rank
    ending = PER_RANK if setup.placement.attention_groups > 1 else ""
    gpus = setup.placement.gpus
    several = ["-m", "vllm.entrypoints.cli.main", "bench", "forward"]
    start = (
        ["vllm", "bench", "forward"]
        if gpus == 1
        else ["torchrun", f"--nproc-per-node={gpus}", *several]
    )
    forward = [*start, "--model", model, *parallel, "--load-format", "auto", "--routing", "real"]
    forward += ["--kv-len-jitter", "0"]
    verify = [*forward, "--speculative-config", config, "--exclude-drafter"]
    verify += ["--case", f"verify{ending}={batch}*{n_draft + 1}@{context + n_draft + 1}:{n_draft}"]
    timed = method not in NOT_TIMED and not (setup.drafter.parallel_drafting and method != "dflash")
    step = _command(
        f"Verification step at K = {n_draft}, target model alone", verify, "verify_step.json"
    )
    server = ["vllm", "serve", model, *parallel, "--max-num-seqs", str(batch)]
    load = ["vllm", "bench", "serve", "--model", model, "--dataset-name", "random"]
    load += [
        "--random-input-len",
        str(max(1, context - OUTPUT_TOKENS // 2)),
        "--random-output-len",
        str(OUTPUT_TOKENS),
    ]
    load += ["--ignore-eos", "--max-concurrency", str(scenario.batch_size)]
    load += [
        "--num-prompts",
        str(REQUESTS_PER_SLOT * scenario.batch_size),
        "--save-result",
        "--result-filename",
    ]
    plain = [*forward, "--case", f"plain{ending}={batch}*1@{context + 1}"]
    return (
        _command("Plain decode step", plain, "plain_step.json"),
        *([step] if timed else []),
        CheckCommand("Server without speculation", shlex.join(server)),
        CheckCommand("Load on it", shlex.join([*load, "without_speculation.json"])),
        CheckCommand(
            f"Server with K = {n_draft} and the scenario's accepted length imposed",
            shlex.join([*server, "--speculative-config", config]),
        ),
        CheckCommand("The same load on it", shlex.join([*load, "with_speculation.json"])),
    )


def _command(purpose: str, words: Sequence[str], output: str) -> CheckCommand:
    return CheckCommand(purpose, shlex.join([*words, "--output-json", output]))


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
