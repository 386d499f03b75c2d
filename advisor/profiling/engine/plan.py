"""What a run of an engine measures: the grid, its order, what is left of it, and what a repeat was
worth.

And the model it runs, which was never trained: a head of random weights, random tokens at no cost,
or what the engine has.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from advisor.profiling.device import ProfilingError

ENGINES = ("vllm",)
DRAFTERS = ("none", "random", "eagle3", "mtp", "ngram")
LEFT = "not measured yet: --resume goes on"
"""Notes of a cell that no repeat was made of."""
NOISE_LIMIT = 0.15
"""Spread of the repeats, or distance of the control from its median, above which a cell counts as
noisy. [-]"""
FASTEST = (0.6, 1.0)
"""Fastest tenth of a cell's steps over their median where they are steady: 0.70 to 0.99 in 336 such
cells. [-]"""
EXTRA_ROUNDS = 2
"""Rounds added at the end for noisy cells alone. [-]"""
LOST = 75
"""Exit status after a failed cell: the engine's state is unknown, a new process may go on.
(sysexits: EX_TEMPFAIL)"""
START_S = 20.0
RATES_S = 8.0
COMPILE_S = 40.0
STEP_S = 0.05
PROMPT_S = 4e-4
"""Priors for the estimate alone, on two cores of a server: an engine's start, the processor's own
rates, a step and a token of a prompt (measurements/engine_cpu_k*). Compiling and capturing: an
accelerator's, assumed. [s]"""
LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
"""Keys of a config.json that count its layers, the first that is there."""
PERIODS = (
    *(
        "decoder_sparse_step",
        "moe_layer_freq",
        "interleave_moe_layer_step",
        "full_attention_interval",
    ),
    *("sliding_window_pattern", "attn_layer_period", "expert_layer_period"),
)
"""Keys that say after how many layers their kinds come again."""


@dataclass(frozen=True, order=True)
class Cell:
    """One configuration: sequences B, drafts of each K, tokens of each in the cache before the
    first step. [-]"""

    batch: int
    n_draft: int
    context: int

    @property
    def tokens(self) -> int:
        """Tokens of one step, B (K + 1). [-]"""
        return self.batch * (self.n_draft + 1)


@dataclass(frozen=True)
class Work:
    """One repeat of one cell. `round` tells repeats apart; `control` is its place among the round's
    controls, or -1.

    layers: first layers of the model that it runs; 0: all. [-]
    """

    cell: Cell
    round: int
    control: int = -1
    layers: int = 0

    @property
    def id(self) -> str:
        """Name of the repeat in the file of finished ones."""
        kind = "" if self.control < 0 else f":control{self.control}"
        depth = f":l{self.layers}" if self.layers else ""
        return f"r{self.round}:b{self.cell.batch}:k{self.cell.n_draft}:c{self.cell.context}{depth}{kind}"  # noqa: E501


@dataclass(frozen=True)
class Plan:
    """A grid over one config and drafter. `model`: the config.json's content. `engine_args` go to
    the engine.

    routing: `natural` (real weights), `uniform`, or `load_cv,affinity,stickiness` as
    `advisor trace` prints them. accepted_length: tokens emitted per round that the engine is to
    simulate at the largest K; None: as it comes.
    """

    model: dict[str, Any]
    name: str
    drafter: str = "random"
    engine: str = "vllm"
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    drafts: tuple[int, ...] = (0, 1, 2, 3, 5)
    contexts: tuple[int, ...] = (32,)
    repeats: int = 3
    steps: int = 8
    routing: str = "uniform"
    accepted_length: float | None = None
    checkpoint: str = ""
    """Folder of real weights, with routing `natural`. Empty: random weights."""
    engine_args: dict[str, Any] = field(default_factory=dict)
    model_id: str = "config.json"
    """Model of the rows: a shipped id, or the config that lies beside them."""
    hardware: str = ""
    """Accelerator of the rows: an id, or `hardware.json` for the document that lies beside them."""
    seed: int = 0
    depths: tuple[int, ...] = ()
    """Two numbers of the model's first layers that are measured side by side for the whole; none:
    it itself. [-]"""

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise ProfilingError(problem)

    @property
    def hash(self) -> str:
        """Twelve digits that name all that is measured and how."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    @property
    def cells(self) -> list[Cell]:
        """All cells, smallest first."""
        drafts = (0,) if self.drafter == "none" else self.drafts
        return sorted(
            Cell(b, k, c)
            for b in set(self.batches)
            for k in set(drafts)
            for c in set(self.contexts)
        )

    @property
    def depth_note(self) -> str:
        """Words of a row that two depths were carried to. "" of a model that was measured whole."""
        depths = " and ".join(map(str, self.depths))
        return f"line through the first {depths} of {n_layers(self.model)} layers" if depths else ""

    @property
    def engines(self) -> tuple[int, ...]:
        """Depths of the engines that a run holds. 0 is the whole model. [-]"""
        return self.depths or (0,)

    def at_depth(self, layers: int) -> Plan:
        """The plan of the model's first layers alone. This one for 0 layers."""
        return replace(self, model=shallower(self.model, layers), depths=()) if layers else self

    def price_s(self, more: int = 0) -> float:
        """Price of the run by the priors above, with more rounds of all cells than its repeats.
        [s]"""
        eager = self.engine_args.get("enforce_eager")
        processor = self.hardware == "hardware.json"
        start_s = START_S + (0.0 if eager or processor else COMPILE_S)
        prompts = [work.cell.batch * work.cell.context for work in self.round(0, self.cells)]
        round_s = len(prompts) * STEP_S * (self.steps + 3) + PROMPT_S * sum(prompts)
        return (
            start_s * len(self.engines) + 2 * RATES_S * processor + (self.repeats + more) * round_s
        )

    def round(
        self, number: int, cells: Iterable[Cell], usable: Iterable[Cell] | None = None
    ) -> list[Work]:
        """One repeat of each cell in random order (its depths in a row), a usable cell as control
        beside them."""
        order = sorted(cells)
        if not order:
            return []
        control = control_of(order if usable is None else usable)
        np.random.default_rng([self.seed, number]).shuffle(order)
        depths = self.engines[:: -1 if number % 2 else 1]
        work = [Work(cell, number, layers=layers) for cell in order for layers in depths]
        for place, index in reversed(list(enumerate((0, len(order) // 2, len(order))))):
            work.insert(index * len(depths), Work(control, number, place, self.engines[-1]))
        return work

    def left(self, lines: Iterable[Mapping[str, Any]]) -> list[Work]:
        """The repeats of the next round that are not done. All cells have one repeat before any has
        two.

        Cells that failed are not tried again. After the last round, noisy cells get EXTRA_ROUNDS
        more. They begin again with each resume of a run that had nothing else left (lines with
        `again`).
        """
        lines = list(lines)
        extra = EXTRA_ROUNDS + self.repeats * sum("again" in line for line in lines)
        done = {line["id"] for line in lines if "times" in line}
        failed = {tuple(line["cell"]) for line in lines if "failed" in line}
        cells = [
            cell for cell in self.cells if (cell.batch, cell.n_draft, cell.context) not in failed
        ]
        usable = list(cells)
        for number in range(self.repeats + extra):
            if number >= self.repeats:
                rows = [cell_facts(self, cell, lines) for cell in cells]
                cells = [
                    cell
                    for cell, facts in zip(cells, rows, strict=True)
                    if facts.get("status") == "noisy"
                ]
            work = [repeat for repeat in self.round(number, cells, usable) if repeat.id not in done]
            if work:
                return work
        return []


def layer_block(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """(key of the config's part that describes its layers, or "", that part)."""
    part = next(
        (key for key in ("text_config", "llm_config") if isinstance(config.get(key), dict)), ""
    )
    return part, config[part] if part else config


def n_layers(config: Mapping[str, Any]) -> int:
    """Layers of a config.json. 0 where it does not say. [-]"""
    block = layer_block(config)[1]
    return next((block[key] for key in LAYER_COUNTS if isinstance(block.get(key), int)), 0)


def shallower(config: dict[str, Any], depth: int) -> dict[str, Any]:
    """The config.json of the model's first layers."""
    part, settings = layer_block(config)
    whole = n_layers(config)
    block = dict(settings) | {
        key: depth for key in LAYER_COUNTS if isinstance(settings.get(key), int)
    }
    block |= {
        key: value[:depth]
        for key, value in block.items()
        if isinstance(value, list) and len(value) == whole
    }
    return {**config, part: block} if part else block


def uneven_depths(config: Mapping[str, Any], few: int, many: int) -> str:
    """Words on two depths whose line misses the whole. "" where the layers between have the rest's
    shares of kinds."""
    block = layer_block(config)[1]
    whole = n_layers(config)
    numbers = {key: value for key, value in block.items() if isinstance(value, int)}
    marks = [value for value in block.values() if isinstance(value, list) and len(value) == whole]
    only = block.get("mlp_only_layers") or ()
    dense = numbers.get("first_k_dense_replace", 0)
    after = [key for key in PERIODS if numbers.get(key, 0) > 0]
    kinds = [
        (
            at < dense,
            at in only,
            *(at % numbers[key] for key in after),
            *(str(mark[at]) for mark in marks),
        )
        for at in range(whole)
    ]

    def off(few: int, many: int) -> bool:
        far = (whole - few) / (many - few)
        between = Counter(kinds[few:many])
        rest = Counter(kinds[few:])
        return any(abs(far * between[kind] - rest[kind]) >= 1 for kind in rest | between)

    fits = next(
        (f"{a},{b}" for b in range(3, whole) for a in range(b - 2, 0, -1) if not off(a, b)),
        "none of them",
    )
    why = (
        f"the layers between them are not of the kinds, in those shares, of the rest; {fits} "
        "would do"
    )
    return why if off(few, many) else ""


def control_of(cells: Iterable[Cell]) -> Cell:
    """The cell measured again for drift: fewest drafts, middle batch (steadier than one), shortest
    context."""
    cells = list(cells)
    few = min(cell.n_draft for cell in cells)
    batches = sorted({cell.batch for cell in cells if cell.n_draft == few})
    middle = batches[len(batches) // 2]
    return min(cell for cell in cells if (cell.batch, cell.n_draft) == (middle, few))


def _problem(plan: Plan) -> str:
    """What is wrong with the plan, and what to give instead. "" for nothing."""
    if plan.engine not in ENGINES:
        return (
            f"--engine {plan.engine} is not one of {', '.join(ENGINES)}; read other engines' logs "
            "with `ingest`"
        )
    if plan.drafter not in DRAFTERS and not plan.drafter.startswith("draft:"):
        return f"--drafter {plan.drafter} is not one of {', '.join(DRAFTERS)} or draft:FOLDER"
    for words, values, least in zip(
        ("--batches", "--k", "--context"),
        (plan.batches, plan.drafts, plan.contexts),
        (1, 0, 1),
        strict=True,
    ):
        if not values or min(values) < least:
            return (
                f"{words} {','.join(map(str, values))}: give whole numbers from {least} on, e.g. "
                f"{least},{least + 1}"
            )
    whole = n_layers(plan.model)
    if plan.depths and not (len(plan.depths) == 2 and 0 < plan.depths[0] < plan.depths[1] < whole):
        has = (
            f"this model has {whole}"
            if whole
            else f"its config has none of {', '.join(LAYER_COUNTS)}"
        )
        return (
            f"--layers {','.join(map(str, plan.depths))}: {has}; give two depths below all, e.g. "
            "2,4"
        )
    if plan.depths and (uneven := uneven_depths(plan.model, *plan.depths)):
        return f"--layers {','.join(map(str, plan.depths))}: {uneven}"
    if plan.depths and plan.checkpoint:
        return "--layers goes with random weights alone: leave out --routing natural"
    if plan.repeats < 1 or plan.steps < 1:
        return f"--repeats {plan.repeats} and --steps {plan.steps} must be at least 1"
    if not isinstance(plan.model.get("hidden_size", plan.model.get("text_config")), int | dict):
        return f"{plan.name}: no hidden_size, so this is no model's config.json"
    if plan.routing == "natural" and not plan.checkpoint:
        return (
            "--routing natural needs real weights: random ones send tokens to the same experts; "
            "give a checkpoint's folder as --model, or --routing uniform"
        )
    routing_parameters(plan.routing)
    return ""


def routing_parameters(text: str) -> tuple[float, float, float]:
    """(load_cv, affinity, stickiness) of a routing as text. [-]

    All are 0 of `uniform` and `natural`. Else the text is what `advisor trace` prints; its bands,
    `value/low/high`, are left out. Raises ProfilingError for anything else.
    """
    if text in ("uniform", "natural"):
        return 0.0, 0.0, 0.0
    try:
        parameters = [float(part.split("/")[0]) for part in text.split(",")]
        load_cv, affinity, stickiness = parameters
    except ValueError as error:
        raise ProfilingError(
            f"--routing {text}: give uniform, natural, or load_cv,affinity,stickiness as `advisor "
            "trace` prints them"
        ) from error
    if load_cv < 0 or not (0 <= affinity < 1 and 0 <= stickiness <= 1):
        raise ProfilingError(
            f"--routing {text}: load_cv from 0 on, affinity and stickiness in 0..1"
        )
    return load_cv, affinity, stickiness


UNION_LIMIT = 0.05
"""Distance of the counted experts from the law above which a cell is not to be fitted. [-]"""


def cell_facts(plan: Plan, cell: Cell, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One cell's medians over its repeats, and its status.

    `control_ratio` is the median of the controls on either side of its repeats over the lower
    quartile of all controls: what disturbs a machine makes it slower, hardly ever faster.
    """
    lines = _at_whole(plan, lines)
    key = [cell.batch, cell.n_draft, cell.context]
    failed = next((line for line in lines if "failed" in line and line["cell"] == key), None)
    repeats = [
        line for line in lines if "times" in line and line["cell"] == key and not line["control"]
    ]
    repeats = _pooled(lines, repeats, plan)
    if not repeats:
        return (
            {"status": failed["failed"], "notes": failed["why"]}
            if failed
            else {"status": "skipped", "notes": LEFT}
        )
    medians = np.array([np.median(line["times"]) for line in repeats])
    beside, all_controls = _controls(lines, {line["id"] for line in repeats})
    touched = [value for line in repeats for value in line["touched"]]
    law = float(np.mean([line["law"] for line in repeats]))
    n_experts, n_active = repeats[0]["experts"] or (None, None)
    times_s = np.concatenate([line["times"] for line in repeats])
    control_ratio = float(np.median(beside) / np.quantile(all_controls, 0.25)) if beside else None
    facts: dict[str, Any] = {
        "n_experts": n_experts,
        "n_active": n_active,
        "step_time_s": float(np.median(medians)),
        "time_p10_s": float(np.quantile(times_s, 0.1)),
        "spread": _spread(medians, repeats[0]["times"]),
        "control_ratio": control_ratio,
    }
    facts |= {
        "prefill_time_s": float(np.median([line["prefill_s"] for line in repeats])),
        "accepted_length": float(np.mean([line["accepted"] for line in repeats])),
        "context_tokens": float(np.mean([line["context"] for line in repeats])),
        "tokens_in_step": float(np.median([line["tokens"] for line in repeats])),
    }
    facts |= {
        "touched_experts": float(np.mean(touched)) if touched else None,
        "touched_law": law or None,
        "short": sum(line.get("short", 0) for line in repeats),
        "n_steps": sum(len(line["times"]) for line in repeats),
        "n_repeats": len(repeats),
    }
    status = _status(plan, cell, facts)
    # A line through two disturbed steps may fall below 0, which is no time.
    return {
        name: None if name == "time_p10_s" and value <= 0 else value
        for name, value in facts.items()
    } | status


def _at_whole(plan: Plan, lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Lines as of the whole model: each repeat's two depths, run side by side, carried along the
    line through them."""
    if not plan.depths:
        return list(lines)
    few, many = plan.depths
    far = (n_layers(plan.model) - few) / (many - few)
    whole_lines: list[Mapping[str, Any]] = []
    halves: dict[str, dict[int, Mapping[str, Any]]] = {}
    for line in lines:
        if "times" not in line or line["control"]:
            whole_lines.append(line)
            continue
        pair = halves.setdefault(line["id"].rpartition(":")[0], {})
        pair[line["layers"]] = line
        if len(pair) == len(plan.depths):
            whole_lines.append({**line, **_carried(pair[few], pair[many], far)})
    return whole_lines


def _carried(shallow: Mapping[str, Any], deep: Mapping[str, Any], far: float) -> dict[str, Any]:
    """A repeat `far` times as deep below the first of two as the other is: its times lie on the
    line through theirs."""
    times = np.sort(shallow["times"])
    deep_times = np.sort(deep["times"])
    means = {name: (shallow[name] + deep[name]) / 2 for name in ("tokens", "accepted", "context")}
    return {
        "times": [float(time) for time in times + far * (deep_times - times)],
        "prefill_s": shallow["prefill_s"] + far * (deep["prefill_s"] - shallow["prefill_s"]),
        "touched": [*shallow["touched"], *deep["touched"]],
        "short": shallow.get("short", 0) + deep.get("short", 0),
    } | means


def _pooled(
    lines: list[Mapping[str, Any]], repeats: list[Mapping[str, Any]], plan: Plan
) -> list[Mapping[str, Any]]:
    """All repeats. After a resume without those whose controls were noisy, where as many are left
    as the plan has.

    To keep the repeats that agree would call a cell steady that is not.
    """
    if len(repeats) <= plan.repeats + EXTRA_ROUNDS:
        return repeats
    beside = [_controls(lines, {line["id"]}) for line in repeats]
    calm = [
        np.median(near) <= (1 + NOISE_LIMIT) * np.quantile(every, 0.25) for near, every in beside
    ]
    calm_repeats = [line for line, is_calm in zip(repeats, calm, strict=True) if is_calm]
    return calm_repeats if len(calm_repeats) >= plan.repeats else repeats


def _spread(medians: np.ndarray, times_s: list[float]) -> float:
    """Range of the repeats' medians over their median; of five or more without the outer ones, so
    that they mend. [-]

    Of a single repeat: the range of the middle half of its steps.
    """
    if len(medians) == 1:
        return float(np.diff(np.quantile(times_s, (0.25, 0.75)))[0] / medians[0])
    edge = (len(medians) - 1) // 4
    return float(np.ptp(np.sort(medians)[edge : len(medians) - edge]) / np.median(medians))


def _controls(lines: list[Mapping[str, Any]], ids: set[str]) -> tuple[list[float], list[float]]:
    """(controls nearest before and after the repeats of these ids, all controls), medians of each.
    [s]"""
    order = [line for line in lines if "times" in line]
    last = next(
        (line["cell"] for line in reversed(order) if line["control"]), None
    )  # of another one before it failed
    controls = {
        index: float(np.median(line["times"]))
        for index, line in enumerate(order)
        if line["control"] and line["cell"] == last
    }
    beside = []
    for index in (index for index, line in enumerate(order) if line["id"] in ids):
        before = [place for place in controls if place < index][-1:]
        after = [place for place in controls if place > index][:1]
        beside += [controls[place] for place in before + after]
    return beside, list(controls.values())


def _status(plan: Plan, cell: Cell, facts: dict[str, Any]) -> dict[str, str]:
    """The cell's status, worst first, and in words why."""
    if facts["short"]:
        few = (
            f"{facts['short']} of {facts['n_steps']} timed steps did not have all {cell.batch} "
            "sequences decoding"
        )
        return {
            "status": "drafts",
            "notes": f"{few}: give the engine more cache, or fewer or shorter sequences",
        }
    if facts["tokens_in_step"] != cell.tokens:
        ran = (
            f"the engine ran {facts['tokens_in_step']:g} tokens in a step, {cell.tokens} were meant"
        )
        return {"status": "drafts", "notes": ran}
    law = facts["touched_law"]
    touched = facts["touched_experts"]
    if law and plan.routing != "natural":
        if touched is None:
            return {
                "status": "routing",
                "notes": "the engine did not ask for its experts here: none were counted",
            }
        if abs(touched / law - 1) > UNION_LIMIT:
            return {
                "status": "routing",
                "notes": f"{touched:.1f} experts touched, {law:.1f} by the law",
            }
    ratio = facts["control_ratio"]
    steady = facts["step_time_s"] > 0 and facts["spread"] <= NOISE_LIMIT  # a line may fall below 0
    fastest = facts["time_p10_s"] / facts["step_time_s"]
    if (
        not steady
        or not FASTEST[0] <= fastest <= FASTEST[1]
        or (ratio and abs(ratio - 1) > NOISE_LIMIT)
    ):
        apart = (
            f"repeats {100 * facts['spread']:.0f} % apart, fastest tenth of the steps "
            f"x{fastest:.2f}"
        )
        return {"status": "noisy", "notes": f"{apart}, control x{ratio or 1:.2f}"}
    return {"status": "ok", "notes": ""}


NGRAM_WORDS = 8
"""Vocabulary left to sampling with drafts from n-grams: else random weights never repeat
themselves. [tokens]"""
HEAD_VOCABULARY = 32_000
"""Rows of an EAGLE-3 head's own LM head, the usual size. (profiles/drafters/eagle3.yaml)
[tokens]"""
HEAD_WIDTH = 4
"""Intermediate over hidden size of the head's dense layer, the order of released heads. [-]"""
LEAST_LAYERS = 8
"""Layers from which the three that a head reads by default, 2, L/2 and L - 3, differ; else others
are taken. [-]"""
KINDS = (
    "deepseek_v2",
    "deepseek_v3",
    "glm4_moe",
    "gpt_oss",
    "mixtral",
    "olmoe",
    "qwen2_moe",
    "qwen3_moe",
)
"""Kinds of model whose class in the engine is called as they are, for a config.json that names
none."""


class RandomDrafter:
    """A drafter at no cost (vLLM's `custom_class`): K random tokens for each sequence."""

    n_draft = 0
    """K of the cell in hand, set between cells. [-]"""

    def __init__(self, vllm_config: Any) -> None:
        self.rng = np.random.default_rng(0)
        self.vocabulary = int(vllm_config.model_config.get_vocab_size())

    def load_model(self, *_: Any, **__: Any) -> None:
        """Nothing to load."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Drafts by sequence. None for a prompt that is not finished."""
        drafts = self.rng.integers(
            0, self.vocabulary, (len(sampled_token_ids), self.n_draft)
        ).tolist()
        return [
            draft if tokens else [] for draft, tokens in zip(drafts, sampled_token_ids, strict=True)
        ]


def speculative_config(plan: Plan, head: str) -> dict[str, Any] | None:
    """The engine's speculative configuration. Its table over all batches lets K be switched between
    cells."""
    most = max(plan.drafts)
    if plan.drafter == "none" or most == 0:
        return None
    config: dict[str, Any] = {"num_speculative_tokens": most}
    config["num_speculative_tokens_per_batch_size"] = [[1, max(plan.batches), most]]
    methods: dict[str, dict[str, Any]] = {
        "random": {"method": "custom_class", "model": f"{__name__}.RandomDrafter"},
        "eagle3": {"method": "eagle3", "model": head},
        "mtp": {"method": "mtp"},
        "ngram": {"method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 1},
    }
    config |= methods.get(plan.drafter, {"model": plan.drafter.removeprefix("draft:")})
    if plan.accepted_length is not None:
        config |= {
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": plan.accepted_length,
        }
    return config


def model_config(plan: Plan) -> dict[str, Any]:
    """The plan's config.json with what an engine wants. Raises ProfilingError where no class is
    named or known."""
    config = dict(plan.model)
    if not config.get("architectures"):
        kind = str(config.get("model_type", ""))
        if kind not in KINDS:
            raise ProfilingError(
                f"{plan.name}: config.json names no `architectures`, and model_type {kind!r} is "
                f"not one of {', '.join(KINDS)}; add the engine's class to it"
            )
        config["architectures"] = [f"{kind.title().replace('_', '')}ForCausalLM"]
    config.setdefault("torch_dtype", "bfloat16")
    config.setdefault("max_position_embeddings", 131_072)
    if plan.drafter == "mtp" and not (
        config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers")
    ):
        config["num_nextn_predict_layers"] = 1
    return config


def head_config(plan: Plan) -> dict[str, Any]:
    """Config.json of an EAGLE-3 head: one dense layer of the model's size. Raises ProfilingError
    without its sizes."""
    target = plan.model.get("text_config") or plan.model
    hidden = int(target["hidden_size"])
    heads = int(target.get("num_attention_heads") or 0)
    if not heads or not target.get("vocab_size"):
        raise ProfilingError(
            f"{plan.name}: an EAGLE-3 head needs num_attention_heads and vocab_size in config.json"
        )
    width = int(target.get("head_dim") or hidden // heads)
    layers = int(target.get("num_hidden_layers") or 0)
    read = (2, layers // 2, layers - 3) if layers >= LEAST_LAYERS else (1, layers // 2, layers - 1)
    head: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": HEAD_WIDTH * hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": max(1, hidden // width),
        "num_key_value_heads": max(1, hidden // width // 4),
        "head_dim": width,
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": min(HEAD_VOCABULARY, int(target["vocab_size"])),
    }
    return head | {
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": sorted(set(read)),
            "use_aux_hidden_state": True,
        },
        "max_position_embeddings": target.get("max_position_embeddings", 131_072),
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
