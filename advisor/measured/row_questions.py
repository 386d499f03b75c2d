"""One row of a measured table (the columns of measurements/published_speedups) as a scenario to
predict."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, get_args

import numpy as np
import pandas as pd

from advisor.catalog.engines import (
    OTHER_ENGINE,
    Build,
    engine_called,
    engine_ids,
    load_engine,
)
from advisor.catalog.fit_records import class_costs, one_gpu_share
from advisor.catalog.hardware import hardware_meant, hardware_slug, read_own_hardware
from advisor.catalog.kernel_costs import BETWEEN_S, graph_pieces
from advisor.catalog.models import load_model, model_ids, own_model, resolve_model_name
from advisor.catalog.routing_presets import ONE_DOMAIN, one_domain_routing, one_prompt_routing
from advisor.catalog.task_transfer import TASKS, Task, task_of
from advisor.measured.ingest.columns import Numbers, true_in
from advisor.measured.published import UNTIL_LAST, WHOLE_BATCH_KINDS
from advisor.physics import laws
from advisor.physics.acceptance import acceptance_curves, parse_acceptance, solve_alpha
from advisor.physics.architecture import WeightDtype
from advisor.physics.components import COMPONENTS
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.curve import curve_for
from advisor.predict.load import priced_setup, with_costs
from advisor.predict.scenario import UNNAMED_MODEL, Scenario, build_scenario
from advisor.predict.scenario_fields import (
    DEFAULT_CONTEXT_TOKENS,
    MAX_CONTEXT,
    KvDtype,
    mean_context,
)
from advisor.predict.setup import CountedPass, Setup, in_pieces
from advisor.prediction import AdvisorError
from advisor.text import NO, NOT_STATED, YES, number_of, says

ASSUMED_PROMPT_TOKENS = 512
"""Prompt of rows that state their output alone (assumed; speedups of short-context benchmarks
hardly depend on it). [-]"""
_WEIGHTS: dict[str, dict[str, str]] = {
    **{name: {"weight_dtype": name} for name in get_args(WeightDtype)},
    "": {},
    "checkpoint_default": {},
    "fp16": {"weight_dtype": "bf16"},
    "mxfp8": {"weight_dtype": "fp8"},
    "mxfp4": {"expert_dtype": "mxfp4"},
    "fp4": {"expert_dtype": "nvfp4"},
    "nvfp4_experts": {"expert_dtype": "nvfp4"},
    "fp8_nvfp4_experts": {"weight_dtype": "fp8_block", "expert_dtype": "nvfp4"},
    "fp4_experts": {"expert_dtype": "nvfp4"},
}
_NAMED_IN_NOTES = ("p-eagle", "dspark", "dflash", "suffix")
PREFILL_METRICS = {
    *("output_tok_per_s", "output_tok_per_s_per_rank", "output_tok_per_s_per_gpu"),
    *("total_tok_per_s", "total_tok_per_s_per_gpu", "request_latency_s"),
}
"""Metrics in which a prompt's prefill is paid: throughput, and by Little's law the latency of whole
requests (a batch over its throughput)."""
_DECODE_METRICS = {"tpot_ms", "tpot_s", "decode_tok_per_s_per_user", "output_tok_per_s_per_user"}
"""Metrics of one request between its first token and its last, in which it waits for the prompts of
all others."""
_ONE_PROMPT = ("llm_decode_bench",)
"""Benchmarks whose requests all bring the same prompt (its script builds the messages once for all
of a cell)."""
_SAME_CHIP = {"RTX PRO 6000 Blackwell Max-Q": "rtx-pro-6000-blackwell"}
# The same GPU and memory at 300 W instead of 600 W (NVIDIA at GTC 2025: 96 GB and 1792 GB/s in all
# three editions).
NO_TEXT = ("other", "random")
"""What a prompt set may be besides the kinds of text that lengths are carried between."""


@dataclass(frozen=True)
class RowQuestion:
    """Question that a row asks the model."""

    scenario: Scenario
    n_draft: int
    verify_tokens: int | None
    acceptance_source: str
    """same_run, borrowed (measured elsewhere for this model and drafter) or other_model."""
    assumed: tuple[str, ...]
    engine_class: str
    """Engine and vintage whose overheads the row shares, see `engine_class`; `other` where it is
    none of the known."""
    build: Build
    """What the row states of its engine and accelerator."""
    batch_size: float
    """Sequences of one instance that decode together. [-]"""
    batch_share: float = 1.0
    """Those of one instance for each of the row's batch: 1 / copies, or the ranks where it counts
    one. [-]"""
    counted: CountedPass | None = None
    """What the row says of the experts that its passes touched, beside how they were routed; None:
    nothing."""

    @property
    def borrowed(self) -> bool:
        """Whether the accepted length was counted in another run."""
        return self.acceptance_source != "same_run"

    def setup(self) -> Setup:
        """Setup that answers it, with overheads of today's engine. Raises AdvisorError as
        `load_setup` does."""
        # What a fit scales are times under the class's own law, whose constants stand in another
        # record.
        share = one_gpu_share(self.engine_class)
        return self._with(
            priced_setup(self.scenario, borrowed_acceptance=self.borrowed), host_one_gpu_share=share
        )

    def built(self, setup: Setup, without: str = "") -> Setup:
        """Setup with the overheads and graphs of the row's build. `without`: the laboratory that a
        fit leaves out."""
        return self._with(setup, **class_costs(self.engine_class, without))

    def _with(self, setup: Setup, **costs: Any) -> Setup:
        pieces = graph_pieces(
            self.scenario.engine, self.build, setup.cache.dtype, setup.architecture
        )
        costs["between_graphs_s"] = BETWEEN_S if in_pieces(self.scenario, pieces) else 0.0
        return with_costs(replace(setup, counted=self.counted), **costs)


def question_of(
    row: Mapping[str, Any], assume: Mapping[str, str] | None = None, other_models: bool = False
) -> RowQuestion:
    """Scenario, K and verified tokens of one row.

    `assume` fills cells that are empty or say "not-stated", nothing else. `other_models` lets a row
    without an accepted length borrow the median of what the same drafter reaches on other models. A
    model or accelerator whose document the row holds is what that says, also where the name is a
    shipped one's. Raises AdvisorError with the reason when the row cannot be predicted.
    """
    cells, filled = _filled(row, assume or {})
    name = _named_model(cells)
    if "adaptive" in cells.get("draft_structure", ""):
        raise AdvisorError("the draft length was adaptive; no single K stands for the row")
    n_draft = _whole(cells, "draft_tokens_k")
    batch = _whole(cells, "batch_size")
    gpus, tensor_parallel, expert_parallel, share = _placement(cells)
    # Of an accelerator of one's own nothing is shipped that graphs are part of.
    if says(cells.get("captured"), NO) and not cells.get("hardware_json"):
        raise AdvisorError(
            "it ran eagerly (captured=0), and the engines' overheads are those of captured graphs"
        )
    drafter = _drafter(cells)
    acceptance, origin, task = _acceptance(cells, drafter, n_draft, other_models)
    lengths, rounded = _lengths(cells)
    engine = engine_called(cells.get("engine", ""), forks=True)
    filled += [*_unknown_task(cells), *rounded, *_assumed(cells, share)]
    instance_batch = max(round(batch * share), 1)
    engine_id = engine.id if engine else OTHER_ENGINE
    scenario = build_scenario(
        hardware_id=_needed(cells, "hardware_id"),
        hardware_json=cells.get("hardware_json") or None,
        n_gpus=gpus,
        tensor_parallel=tensor_parallel,
        expert_parallel=expert_parallel,
        model_id=name or _needed(cells, "model_id"),
        model_config_json=cells.get("model_config_json") or None,
        batch_size=instance_batch,
        drafter_id=drafter,
        acceptance=acceptance,
        task=task,
        engine=engine_id,
        engine_version=_graph_release(cells),
        graph_sizes=cells.get("graph_sizes") or None,
        graph_mode=cells.get("graph_mode") or None,
        k_max=max(n_draft, 1),
        routing=_routing(cells),
        **_weights(cells),
        **_cache(cells),
        **lengths,
    )
    if cells.get("batch_kind") == UNTIL_LAST and origin == "same_run":
        scenario = scenario.model_copy(update={"acceptance": until_last(scenario, n_draft)})
    build = build_of(cells)
    verified = _verify_tokens(cells, n_draft)
    class_name = engine_class(build, scenario.engine)
    counted = _counted(cells, verified or n_draft + 1, batch)
    return RowQuestion(
        scenario,
        n_draft,
        verified,
        origin,
        tuple(filled),
        class_name,
        build,
        float(instance_batch),
        share,
        counted,
    )


ALPHA_SPREAD = 0.058
"""Spread of the chance that a draft is accepted between sequences, over its mean: that between
twelve prompt sets of one MTP head (docs/decisions/history.md (0036)). [-]"""


def until_last(scenario: Scenario, n_draft: int) -> str:
    """Accepted length of a scenario, as X@K, that counts where a batch waits for its slowest
    sequence."""
    length = float(parse_acceptance(scenario.acceptance, n_draft).accepted_length[n_draft])
    curve = curve_for(
        priced_setup(scenario), [1, scenario.batch_size], [n_draft], central_only=True
    )
    kernels = np.sum(
        [time[:, 0] for name, time in curve.round_components.items() if name in _KERNELS], axis=0
    )
    alpha = float(solve_alpha(length, n_draft))
    n = np.arange(n_draft + 1)
    waits = laws.waiting_for_the_last(
        s=ALPHA_SPREAD,
        g=float(np.sum(n * alpha**n) / np.sum(alpha**n)),
        # Blom's approximation of the largest of B normal draws.
        e=NormalDist().inv_cdf((scenario.batch_size - 0.375) / (scenario.batch_size + 0.25)),
        r=float(kernels[0] / kernels[1]),
    )
    return f"{max(length / waits, 1.0):.6g}@{n_draft}"


_KERNELS = {
    component.key
    for component in COMPONENTS
    if component.factor in ("routed", "attention", "dense", "communication")
}
"""Components of a verification that no constant of rounds scales."""


def _named_model(cells: dict[str, str]) -> str:
    """Name of the row's model, its cell then the id that counts. A format in the name fills a cell
    without one."""
    name = cells.get("model_id", "")
    if config := cells.get("model_config_json"):
        name = name or UNNAMED_MODEL
        cells["model_id"] = own_model(config, name).id
        return name
    if name:
        check_named("model_id", name)
        match = None if name in model_ids() else resolve_model_name(name)
        if match is not None:
            cells["model_id"] = match.model_id
            cells["weight_dtype"] = cells.get("weight_dtype") or match.weight_format or ""
    return cells.get("model_id", "")


def _assumed(cells: Mapping[str, str], share: float) -> list[str]:
    """What is assumed of a row that does not say it: overheads, context, copies."""
    assumptions = []
    if cells.get("engine") and engine_called(cells["engine"], forks=True) is None:
        assumptions.append(f"the overheads of an unknown engine for {cells['engine']!r}")
    if not _stated_lengths(cells) and not cells.get("context_tokens"):
        assumptions.append(f"context_tokens={DEFAULT_CONTEXT_TOKENS}")
    return (
        [*assumptions, f"each of {1 / share:.0f} copies decodes its part of batch_size"]
        if share < 1.0
        else assumptions
    )


def _filled(row: Mapping[str, Any], assume: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Cells as text with the accelerator by our id, and what was assumed in them."""
    cells = {name: _text(value) for name, value in row.items()}
    filled = []
    for name, value in assume.items():
        if not cells.get(name):
            cells[name] = value
            filled.append(f"{name}={value}")
    hardware = cells.get("hardware_id", "")
    if hardware_json := cells.get("hardware_json"):
        cells["hardware_id"] = hardware = hardware_slug(read_own_hardware(hardware_json).name)
    if hardware in _SAME_CHIP:
        filled.append(f"hardware_id={_SAME_CHIP[hardware]}")
    if hardware and not hardware_json:
        check_named("hardware_id", hardware)
        cells["hardware_id"] = _SAME_CHIP.get(hardware) or hardware_meant(hardware) or hardware
    return cells, filled


def _routing(cells: Mapping[str, str]) -> str:
    """How a scenario says that the row's tokens chose experts."""
    stated = cells.get("routing") or "natural"
    model_id = cells.get("model_id", "")
    if stated == "natural" and model_id in model_ids():
        if cells.get("dataset") in _ONE_PROMPT and (
            one_prompt := one_prompt_routing(load_model(model_id))
        ):
            return one_prompt
        if _task(cells) in ONE_DOMAIN and (domain := one_domain_routing(load_model(model_id))):
            return domain
    if stated == "traced" and not cells.get("touched_experts"):
        raise AdvisorError(
            "routing=traced does not say by which trace; give touched_experts, or in its place "
            "what `trace` prints"
        )
    return {"natural": "auto", "traced": "auto", "round_robin": "uniform"}.get(stated, stated)


def _counted(cells: Mapping[str, str], tokens: int, batch: int) -> CountedPass | None:
    """Experts counted in the row's own pass of so many tokens a sequence, and whether they were
    dealt in turn."""
    check_tokens_in_step(number_of(cells.get("tokens_in_step", "")), batch * tokens)
    in_turn = cells.get("routing") == "round_robin"
    touched = _number(cells, "touched_experts") if cells.get("touched_experts") else None
    return CountedPass(tokens, touched, in_turn) if in_turn or touched is not None else None


def check_tokens_in_step(counted: float | None, meant: float) -> None:
    """Raises AdvisorError where an engine counted other tokens in its steps than the row's columns
    say."""
    if counted is not None and counted != meant:
        raise AdvisorError(
            f"the engine counted {counted:g} tokens in a step; batch_size x (K + 1) says {meant:g}"
        )


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = str(value).strip()
    return "" if says(text, NOT_STATED) else text


def check_named(column: str, name: str) -> None:
    """Raise AdvisorError for a name that says that it is the user's own while nobody gave its
    document."""
    if name.startswith("own-"):
        option, file = (
            ("--model", "config.json")
            if column == "model_id"
            else ("--hardware", "my-accelerator.json")
        )
        raise AdvisorError(f"{name} is one of your own: give its file as well, {option} {file}")


def _needed(cells: Mapping[str, str], name: str) -> str:
    if not cells.get(name):
        raise AdvisorError(f"{name} is not stated; give it with --set {name}=...")
    return cells[name]


def _whole(cells: Mapping[str, str], name: str) -> int:
    value = _number(cells, name)
    if value != math.floor(value) or value < 1:
        if name == "draft_tokens_k" and value == 0:
            raise AdvisorError("a row of K = 0 is a baseline")
        raise AdvisorError(f"{name}={cells[name]!r} is not a whole number >= 1")
    return int(value)


def _number(cells: Mapping[str, str], name: str) -> float:
    text = _needed(cells, name)
    value = number_of(text)
    if value is None or value < 0:
        raise AdvisorError(f"{name}={text!r} is not a number of at least 0")
    return value


def _placement(cells: Mapping[str, str]) -> tuple[int, int, int, float]:
    """(gpus, tp, ep, batch of one instance for each of batch_size) from counts and the kind of
    batch."""
    kind = cells.get("batch_kind") or "batch"
    gpus = _whole(cells, "gpu_count") if cells.get("gpu_count") else None
    if kind == "requests_per_rank":
        if gpus is None:
            raise AdvisorError(
                "gpu_count is not stated, so requests per rank give no batch; give it with --set "
                "gpu_count=..."
            )
        return gpus, 1, gpus, float(gpus)
    if kind not in WHOLE_BATCH_KINDS:
        raise AdvisorError(f"batch_kind={kind!r} does not say how many sequences decode together")
    split = _whole(cells, "decode_context_parallel") if cells.get("decode_context_parallel") else 1
    if split > 1:
        raise AdvisorError(
            f"decode_context_parallel={split} splits the KV cache over GPUs, which is not modelled"
        )
    copies = _whole(cells, "data_parallel") if cells.get("data_parallel") else None
    if cells.get("tensor_parallel"):
        tensor = _whole(cells, "tensor_parallel")
    elif gpus is not None:
        tensor = gpus // copies if copies and gpus % copies == 0 else gpus
    else:
        raise AdvisorError(
            "tensor_parallel and gpu_count are not stated; fill one with --set tensor_parallel=..."
        )
    expert = _whole(cells, "expert_parallel") if cells.get("expert_parallel") else 1
    if copies is not None and copies > 1:
        return _shared(cells, gpus or max(tensor * copies, expert), tensor, expert, copies)
    instance = max(tensor, expert)
    if gpus is None or gpus == instance or gpus % instance:
        return instance, tensor, expert, 1.0
    if copies is None:
        raise AdvisorError(
            f"gpu_count={gpus}, and one instance of the model takes {instance}: state "
            f"data_parallel={gpus // instance} where as many copies share batch_size, else the "
            "gpu_count that decodes it"
        )
    raise AdvisorError(
        f"gpu_count={gpus} is not tensor_parallel={tensor} x data_parallel=1: pipeline stages and "
        "GPUs that prefill are not modelled; state the gpu_count that decodes"
    )


def _shared(
    cells: Mapping[str, str], gpus: int, tensor: int, expert: int, data_parallel: int
) -> tuple[int, int, int, float]:
    """(gpus, tp, ep, batch of one instance for each of batch_size) where data-parallel ranks share
    the batch.

    Ranks beside the tensor-parallel ones are copies, or attention groups of one instance where the
    experts lie over all of them; within them (SGLang, TensorRT-LLM), attention groups.
    """
    placement = f"gpu_count={gpus}, tensor_parallel={tensor}, data_parallel={data_parallel}"
    if gpus == tensor and tensor % data_parallel == 0 and expert == tensor:
        return gpus, tensor // data_parallel, expert, 1.0
    if gpus == tensor and tensor % data_parallel == 0:
        raise AdvisorError(
            f"{placement}, expert_parallel={expert}: attention in groups beside experts that "
            f"tensor parallelism splits is not modelled; state expert_parallel={gpus} where whole "
            "experts lay on the ranks"
        )
    if gpus != tensor * data_parallel:
        raise AdvisorError(
            f"{placement} do not go together: expected gpu_count = tensor_parallel x data_parallel"
        )
    engine = engine_called(cells.get("engine", ""), forks=True)
    model_id = cells.get("model_id", "")
    mixture = (
        model_id not in model_ids() or load_model(model_id).moe is not None
    )  # one without a profile may be
    spreads = engine is not None and engine.id in _SPREAD_EXPERTS and mixture
    if spreads and not cells.get("expert_parallel"):
        engine_name = engine.name if engine else "the engine"
        raise AdvisorError(
            f"{placement}: {engine_name} lays the experts over all ranks of one server; state "
            f"expert_parallel={gpus} where it did (--enable-expert-parallel), 1 where the copies "
            "are servers apart"
        )
    instance = max(tensor, expert)
    if gpus % instance:
        raise AdvisorError(
            f"expert_parallel={expert} does not divide gpu_count={gpus}; state both as they ran"
        )
    return gpus, tensor, expert, instance / gpus


_SPREAD_EXPERTS = frozenset({"vllm"})
"""Engines whose data-parallel ranks hold a model's experts together (vLLM,
docs/serving/data_parallel_deployment)."""


def copies_at_most(frame: pd.DataFrame) -> np.ndarray:
    """GPUs over those of one instance, 1 where either is not stated [rows]. [-]"""
    numbers = Numbers(frame)
    gpus = numbers["gpu_count"]
    copies = gpus / np.fmax(numbers["tensor_parallel"], numbers["expert_parallel"])
    return np.where(np.isnan(copies) | (copies < 1.0) | (copies % 1.0 > 0.0), 1.0, copies)


def open_copies(frame: pd.DataFrame) -> np.ndarray:
    """Rows of more GPUs than one instance takes that do not say whether copies share their batch
    [rows]."""
    per_rank = true_in(frame["batch_kind"] == "requests_per_rank")
    return np.asarray(
        (copies_at_most(frame) > 1.0) & frame["data_parallel"].isna().to_numpy() & ~per_rank
    )


def copies_sharing(frame: pd.DataFrame) -> np.ndarray:
    """Copies of the model that share each row's batch and rates, 1 where it says nothing of several
    [rows]. [-]"""
    numbers = Numbers(frame)
    gpus = numbers["gpu_count"]
    tensor = numbers["tensor_parallel"]
    expert = numbers["expert_parallel"]
    ranks = np.nan_to_num(numbers["data_parallel"], nan=1.0)
    tensor = np.where(np.isnan(tensor), gpus / ranks, tensor)
    copies = tensor * ranks / np.fmax(tensor, np.nan_to_num(expert, nan=1.0))
    within = gpus == tensor  # attention groups within the tensor-parallel ranks
    return np.where(np.isnan(copies) | (copies < 1.0) | within, 1.0, copies)


def _drafter(cells: Mapping[str, str]) -> str:
    name = _needed(cells, "drafter").lower().replace("_", "-")
    notes = f"{cells.get('notes', '')} {cells.get('dataset', '')}".lower()
    if name in ("other", "ngram") and (
        named_drafters := [drafter for drafter in _NAMED_IN_NOTES if drafter in notes]
    ):
        return named_drafters[0]
    if name == "other":
        raise AdvisorError(
            "the drafter is not one that is modeled (drafter=other, none named in the notes)"
        )
    # Random tokens: no draft model runs either.
    return {"draft-model": "draft_model", "random": "ngram"}.get(name, name)


def engine_class(build: Build, engine: str) -> str:
    """Class of a row's engine by overheads: the engine, with the kind of a build that is not
    today's."""
    return load_engine(engine).class_of(build) if engine in engine_ids() else engine


def build_of(cells: Mapping[str, str]) -> Build:
    """Engine and accelerator that ran a row, as it states them."""
    hardware_id = cells.get("hardware_id", "")
    hardware = load_hardware(hardware_id) if hardware_id in hardware_ids() else None
    return Build(
        version=cells.get("engine_version", ""),
        date=cells.get("date", ""),
        tree=cells.get("draft_structure", "").startswith("tree"),
        vendor=hardware.vendor if hardware else "",
        chip=hardware.generation if hardware else "",
        notes=cells.get("notes", ""),
    )


def _graph_release(cells: Mapping[str, str]) -> str | None:
    """The row's release, where it says what ran in CUDA graphs; None else, so that every step is
    priced as in one."""
    version = cells.get("engine_version", "")[:40]
    engine = engine_called(cells.get("engine", ""))
    rule = engine.graph_rule(version) if engine is not None and version else None
    return version if rule is not None and rule.of_rows else None


def usual_length(drafter: str, n_draft: int) -> str | None:
    """Median accepted length of a drafter over the models it was measured on, as X@K. None where it
    was on none."""
    curves = acceptance_curves(drafter_id=drafter)
    lengths = [parse_acceptance(curve.id, n_draft).accepted_length[n_draft] for curve in curves]
    return f"{float(np.median(lengths)):.3f}@{n_draft}" if lengths else None


def _acceptance(
    cells: Mapping[str, str], drafter: str, n_draft: int, other_models: bool = False
) -> tuple[str, str, Task | None]:
    """(acceptance as in a scenario, where it is from, the kind of text that it is carried to) of a
    row."""
    stated = cells.get("accepted_length")
    if stated:
        # A mean over requests lies above what the rounds of the run emit.
        is_mean = says(cells.get("accepted_length_per_request"), YES)
        same_run = says(cells.get("accepted_length_same_run"), YES) and not is_mean
        nothing = stated in ("1", "1.0")  # one emitted token a round: no draft was accepted
        length = ",".join(["0"] * n_draft) if nothing else f"{stated}@{n_draft}"
        return length, "same_run" if same_run else "borrowed", None
    curves = acceptance_curves(model_id=cells.get("model_id"), drafter_id=drafter)
    if not curves and other_models and (usual := usual_length(drafter, n_draft)):
        return usual, "other_model", None
    if not curves:
        raise AdvisorError(
            "no accepted length in the row, and none measured for "
            f"{cells.get('model_id') or 'it'} with {drafter}"
        )
    dataset = cells.get("dataset", "").lower()
    matching = [curve for curve in curves if dataset and curve.dataset.lower() in dataset]
    task = None if matching else _task(cells)
    alike = [curve for curve in curves if task is not None and task_of(curve.dataset) == task]
    with_task = [curve for curve in curves if task is not None and task_of(curve.dataset) in TASKS]
    return (matching or alike or with_task or curves)[0].id, "borrowed", task


def _task(cells: Mapping[str, str]) -> Task | None:
    """Kind of text that a row states, else that of its prompt set. None where lengths are carried
    to none such."""
    stated = cells.get("task", "").lower().replace(" ", "_") or task_of(cells.get("dataset", ""))
    return next((task for task in TASKS if task == stated), None)


def _unknown_task(cells: Mapping[str, str]) -> list[str]:
    """What is assumed where a row without an accepted length states a kind of text that nobody
    knows."""
    known = {*TASKS, *NO_TEXT, ""}
    if cells.get("accepted_length") or cells.get("task", "").lower().replace(" ", "_") in known:
        return []
    return [
        f"nothing of the text ({cells['task'][:40]!r} is none of {', '.join((*TASKS, *NO_TEXT))})"
    ]


def _stated_lengths(cells: Mapping[str, str]) -> dict[str, float]:
    """Prompt and output lengths, means over requests. A prompt of 0 tokens means a short one of
    unknown length."""
    names = ("input_tokens", "output_tokens")
    return {
        name: _number(cells, name)
        for name in names
        if cells.get(name) and _number(cells, name) != 0
    }


def _lengths(cells: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """Context while decoding, and prompt and output lengths where prefill shares the measured
    throughput.

    Also which lengths were rounded: benchmarks state means over requests, which are seldom whole.
    """
    stated = {}
    rounded = []
    for name, mean in _stated_lengths(cells).items():
        stated[name] = max(round(mean), 1)
        if mean != stated[name]:
            rounded.append(f"{name}={stated[name]} for a mean of {mean:.6g}")
    if cells.get("context_tokens"):
        context = round(_number(cells, "context_tokens"))
    elif stated:
        context = int(
            mean_context(
                stated.get("input_tokens", ASSUMED_PROMPT_TOKENS), stated.get("output_tokens", 0)
            )
        )
    else:
        return {"context_tokens": DEFAULT_CONTEXT_TOKENS}, []
    lengths = {"context_tokens": min(max(context, 1), MAX_CONTEXT)}
    # On separate decode nodes, from a prefix cache or outside the timed window, prefill costs the
    # decode rate nothing.
    shared = "decode nodes" not in cells.get("notes", "") and not says(
        cells.get("prompts_cached"), YES
    )
    if len(stated) == 2 and shared:
        lengths |= _charged(stated, cells.get("metric", ""), _whole(cells, "batch_size"))
    return lengths, rounded


def _charged(stated: Mapping[str, int], metric: str, batch: int) -> dict[str, int]:
    """Lengths of the prompts that a metric waits for, of `stated` ones. Empty where it waits for
    none.

    While one of B requests decodes, each of the others brings one prompt: as in the throughput of
    answers that are B/(B - 1) as long.
    """
    if metric in PREFILL_METRICS:
        return dict(stated)
    if metric not in _DECODE_METRICS or batch < 2:
        return {}
    return {**stated, "output_tokens": round(stated["output_tokens"] * batch / (batch - 1))}


def _weights(cells: Mapping[str, str]) -> dict[str, str]:
    stated = cells.get("weight_dtype", "").lower()
    model_id = cells.get("model_id", "")
    if (
        stated == "fp8"
        and model_id in model_ids()
        and load_model(model_id).dtypes.attention == "fp8_block"
    ):
        # "fp8" then names the published checkpoint: 128 x 128 blocks, its experts as they are
        # stored
        return {}
    if (
        stated in ("mxfp4", "fp4_experts")
        and model_id in model_ids()
        and load_model(model_id).dtypes.routed == "mxfp4"
    ):
        return {}  # as published: just the experts are in 4 bits, in blocks of 32
    if stated not in _WEIGHTS:
        raise AdvisorError(f"weight_dtype={stated!r} is not one that is modeled")
    return _WEIGHTS[stated]


def _cache(cells: Mapping[str, str]) -> dict[str, str]:
    """Format of the KV cache, where the row states it."""
    stated = cells.get("kv_dtype", "").lower()
    if not stated:
        return {}
    dtype = {"fp16": "bf16"}.get(stated, stated)
    if dtype not in get_args(KvDtype):
        raise AdvisorError(f"kv_dtype={stated!r} is not one that is modeled; expected bf16 or fp8")
    return {"kv_dtype": dtype}


def _verify_tokens(cells: Mapping[str, str], n_draft: int) -> int | None:
    """Nodes a tree or chain verifies, where the row states them. A bare tree without them is
    refused."""
    structure = cells.get("draft_structure", "")
    if match := re.search(r"verify=([0-9]+)", structure):
        return int(match[1]) if int(match[1]) != n_draft + 1 else None
    if structure.startswith("tree"):
        raise AdvisorError(
            "a draft tree without its number of verified tokens (draft_structure verify=...)"
        )
    return None
