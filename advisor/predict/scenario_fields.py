"""Every field of a scenario, once: its type, default and limits, and what screen, options and
tables say of it.

A field added here stands in the sidebar, in every command's options, in comparisons, reports, links
and files, and in docs/scenarios.md and docs/cli.md (both are generated); what it does is the
business of the module that uses it.
"""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from advisor.catalog.engines import EngineChoice, GraphMode, engine_choices
from advisor.catalog.hf.fields import MAX_VOCABULARY
from advisor.catalog.task_transfer import Task
from advisor.physics.architecture import WeightDtype
from advisor.predict.field_rows import FieldRow, FieldSection, Flag, Told, Widget, rows_of
from advisor.prediction import Frozen

KvDtype = Literal["auto", "bf16", "fp8"]
Prompts = Literal["prefilled", "cached"]
MAX_BATCH = 65536
MAX_CONTEXT = 10_000_000
MAX_DRAFT = 32
DEFAULT_CONTEXT_TOKENS = 2048
"""Cached tokens of a sequence of a scenario or measured row that states neither them nor lengths
(assumed). [-]"""
MAX_POOL = 10_000_000_000
"""Tokens of one rank's cache at most. [-]"""
_MAX_GPUS = 1024
_MAX_LOADS_CHARACTERS = 1_000_000
_MAX_COPIES = 65_536


SPELLINGS = {
    **dict.fromkeys(("llama.cpp", "llama-cpp", "ollama"), "other"),
    **dict.fromkeys(("q4_k_m", "q4_k_s", "q4_k_xl", "q4_0", "iq4_xs", "iq4_nl"), "int4"),
    "q8_0": "int8",
}
"""Choices by names that are priced like them: engines without a profile, formats of GGUF files."""


def mean_context(input_tokens: Any, output_tokens: Any) -> np.ndarray:
    """Mean tokens in the cache while decoding, prompt + output / 2, broadcast over both.
    [tokens]"""
    return np.asarray(input_tokens, float) + np.asarray(output_tokens, float) / 2.0


class ScenarioFields(Frozen):
    """The fields, in the order of files and options, each with its row of the table."""

    hardware_id: Annotated[
        str,
        FieldRow(
            "Accelerator",
            FieldSection.HARDWARE,
            widget=Widget(1),
            told=Told("Accelerator"),
            flag="--hardware",
            help=(
                "Accelerator id or short name (see `advisor hardware`), or a path to your own "
                "accelerator's JSON."
            ),
            needed=True,
            catalogue="accelerators",
        ),
    ] = "h200-sxm"
    hardware_json: Annotated[
        str | None,
        FieldRow(
            "Your own accelerator",
            FieldSection.HARDWARE,
            document_of="hardware_id",
            is_private=True,
            is_younger=True,
        ),
    ] = None
    """An accelerator given by the user (docs/scenarios.md); it then replaces the profile of
    `hardware_id`."""
    n_gpus: Annotated[
        int,
        Field(ge=1, le=_MAX_GPUS),
        FieldRow(
            "GPUs",
            FieldSection.HARDWARE,
            short="GPUs {}",
            widget=Widget(2),
            told=Told("Accelerator", ""),
            flag="--gpus",
            help="GPUs in all, or with their accelerator as one instance, e.g. 8xH200.",
            flag_default="what tp and ep need",
        ),
    ] = 1
    tensor_parallel: Annotated[
        int,
        Field(ge=1, le=_MAX_GPUS),
        FieldRow(
            "Tensor parallel",
            FieldSection.HARDWARE,
            unit="ranks",
            short="TP {}",
            widget=Widget(2, "TP", "Tensor-parallel ranks of one instance."),
            told=Told("Placement", "tensor parallel {}"),
            flag="--tp",
            help="Tensor-parallel ranks.",
        ),
    ] = 1
    expert_parallel: Annotated[
        int,
        Field(ge=1, le=_MAX_GPUS),
        FieldRow(
            "Expert parallel",
            FieldSection.HARDWARE,
            unit="ranks",
            short="EP {}",
            widget=Widget(2, "EP", "Expert-parallel ranks of one instance."),
            told=Told("Placement", ", expert parallel {}"),
            flag="--ep",
            help="Expert-parallel ranks.",
        ),
    ] = 1
    model_id: Annotated[
        str,
        FieldRow(
            "Model",
            FieldSection.MODEL,
            widget=Widget(1),
            flag="--model",
            help=(
                "The same as MODEL: an id of `advisor models`, a Hugging Face name, or a path to "
                "a config.json."
            ),
            needed=True,
            catalogue="models",
        ),
    ] = "qwen3-30b-a3b"
    model_config_json: Annotated[
        str | None,
        FieldRow(
            "Your own config.json", FieldSection.MODEL, document_of="model_id", is_private=True
        ),
    ] = None
    """A Hugging Face config.json given by the user; it then replaces the profile of `model_id`."""
    checkpoint: Annotated[
        str | None,
        Field(max_length=200),
        FieldRow(
            "Checkpoint",
            FieldSection.MODEL,
            unset="the model's own",
            told=Told("Checkpoint", unset=""),
            help="Checkpoint of the same architecture that is served, by its name.",
            is_younger=True,
        ),
    ] = None
    """Counts while its name means `model_id` (`Scenario.served_checkpoint`): that may be changed
    beside it."""
    batch_size: Annotated[
        int,
        Field(ge=1, le=MAX_BATCH),
        FieldRow(
            "Batch",
            FieldSection.LOAD,
            unit="sequences",
            short="batch {}",
            widget=Widget(1, help="Sequences that decode together in one instance."),
            told=Told("Batch, context", "{} sequences"),
            flag="--batch",
            help="Sequences decoding together.",
        ),
    ] = 16
    context_tokens: Annotated[
        int,
        Field(ge=1, le=MAX_CONTEXT),
        FieldRow(
            "Context (tokens)",
            FieldSection.LOAD,
            unit="tokens",
            short="context {}",
            widget=Widget(1, "Context", "Cached tokens per sequence."),
            told=Told("Batch, context", ", {} tokens each"),
            flag="--context",
            help="Cached tokens each, mean over decoding.",
            flag_default="prompt and half the output where both are given, else 2048",
        ),
    ] = DEFAULT_CONTEXT_TOKENS
    """Mean while decoding; left out beside both lengths it is `mean_context` of them."""
    drafter_id: Annotated[
        str,
        FieldRow(
            "Drafter",
            FieldSection.DRAFTER,
            widget=Widget(1),
            flag="--drafter",
            help="Drafter id, e.g. eagle3, mtp, ngram.",
            flag_default="the drafter that ships with the model or its recipe, else eagle3",
            needed=True,
            catalogue="drafters",
        ),
    ] = "eagle3"
    acceptance: Annotated[
        str,
        Field(min_length=1),
        FieldRow(
            "Accepted length",
            FieldSection.DRAFTER,
            widget=Widget(
                2,
                "Accepted length: measured curve, or type your own",
                "Type `2.4@3` (2.4 tokens per round at K = 3, bonus token included) or "
                "`0.7,0.5,0.4` (chance that each draft token is accepted, given those before it), "
                "or choose a measured curve by its model, drafter and data.",
            ),
            flag="--accepted-length",
            help=(
                "X@K: X tokens per round measured at K drafted tokens, e.g. 2.73@3, or several: "
                "1.8@1,2.6@3."
            ),
            flag_default="the nearest measured curve, named as borrowed",
            more_flags=(
                Flag(
                    "--acceptance",
                    "a1,a2,...: chance that draft token i is accepted, given the ones before it.",
                ),
                Flag("--acceptance-preset", "Id of a measured acceptance curve."),
            ),
        ),
    ]
    """Required: how much is accepted is the user's to say (`2.4@3`, `0.7,0.5,0.4`, or a measured
    curve's id)."""
    task: Annotated[
        Task | None,
        FieldRow(
            "Kind of text",
            FieldSection.DRAFTER,
            unset="as measured",
            short="on {}",
            widget=Widget(
                3,
                help="Carries a measured curve to your text, with a wider 80% range; your own "
                "numbers stay. "
                "Requests that are all code or mathematics share more experts.",
            ),
            told=Told("Drafter", "; accepted as on {}", ""),
            flag="--task",
            help=(
                "Kind of text: a measured curve is carried to it, own numbers are not; experts "
                "shared as in it."
            ),
            flag_default="the curve's own",
            is_younger=True,
        ),
    ] = None
    """Kind of text; None: what the curve was measured on."""
    draft_vocabulary: Annotated[
        int | None,
        Field(ge=1, le=MAX_VOCABULARY),
        FieldRow(
            "Draft vocabulary",
            FieldSection.DRAFTER,
            unit="tokens",
            unset="the drafter's own",
            short="draft vocabulary {}",
            widget=Widget(4, section=FieldSection.ADVANCED),
            told=Told("Drafter", "; drafts from {} tokens", ""),
            flag="--draft-vocabulary",
            help="Tokens that the draft head scores: a reduced head (FR-Spec, d2t).",
            flag_default="the drafter's own",
            is_younger=True,
        ),
    ] = None
    """Rows of the LM head of a drafting pass; None: as the drafter's profile says, or all."""
    draft_dtype: Annotated[
        WeightDtype | None,
        FieldRow(
            "Drafter's weights",
            FieldSection.DRAFTER,
            unset="the drafter's own",
            short="drafter in {}",
            widget=Widget(4, section=FieldSection.ADVANCED),
            told=Told("Drafter", "; its weights {}", ""),
            flag="--draft-dtype",
            help="Weight format of the drafter's layers and of a reduced draft head.",
            flag_default="the drafter's own",
            is_younger=True,
        ),
    ] = None
    """None: 16 bits, or the target's own where the drafter's layers are cut from it (MTP)."""
    engine: Annotated[
        EngineChoice,
        FieldRow(
            "Engine",
            FieldSection.ENGINE,
            choices=tuple(engine_choices()),
            widget=Widget(1),
            flag="--engine",
            help="Serving engine; sets kernels and overheads. llama.cpp is priced as other.",
        ),
    ] = "vllm"
    engine_version: Annotated[
        str | None,
        Field(max_length=40),
        FieldRow(
            "Engine release",
            FieldSection.ENGINE,
            short="release {}",
            widget=Widget(
                3,
                help=(
                    "E.g. 0.33.0: says which steps run in CUDA graphs, and the host time of a "
                    "round."
                ),
                section=FieldSection.ADVANCED,
            ),
            told=Told("Engine", ", release {}", ""),
            flag="--engine-version",
            help=(
                "Release of the engine, e.g. 0.33.0: says which steps run in CUDA graphs, and a "
                "round's host time."
            ),
            is_younger=True,
        ),
    ] = None
    """Release that serves; None: today's host times, and neither padding nor steps without a graph
    are charged."""
    graph_sizes: Annotated[
        str | None,
        Field(max_length=2000),
        FieldRow(
            "CUDA graphs captured",
            FieldSection.ENGINE,
            short="graphs {}",
            unset="the release's own",
            widget=Widget(
                3,
                help="The largest size (512), a list (8,16,32), max_num_seqs=64, or none.",
                section=FieldSection.ADVANCED,
            ),
            told=Told("Engine", ", CUDA graphs {}", ""),
            flag="--graph-sizes",
            help="What it captures in CUDA graphs: the largest size (512), a list (8,16,32), "
            "max_num_seqs=64, or "
            "none. Tokens of a step for vLLM, requests for SGLang and TensorRT-LLM.",
            flag_default="the release's own",
            is_younger=True,
        ),
    ] = None
    """As `catalog.engines.stated_sizes` reads it; None: what the release captures by default."""
    graph_mode: Annotated[
        GraphMode | None,
        FieldRow(
            "CUDA graph mode",
            FieldSection.ENGINE,
            short="graph mode {}",
            unset="by its release and kernels",
            widget=Widget(3, section=FieldSection.ADVANCED),
            told=Told("Engine", ", graph mode {}", ""),
            flag="--graph-mode",
            help="CUDA graph mode, as the engine's startup log reports it: full, pieces "
            "(PIECEWISE) or none.",
            is_younger=True,
        ),
    ] = None
    """None: in full, but where the release's attention kernels are known not to."""
    k_max: Annotated[
        int,
        Field(ge=1, le=MAX_DRAFT),
        FieldRow(
            "Longest draft (K max)",
            FieldSection.DRAFTER,
            unit="tokens",
            short="K max {}",
            widget=Widget(3, "Longest draft to consider (K max)"),
            told=Told("Drafter", "; K up to {}"),
            flag="--k-max",
            help="Longest draft to consider.",
        ),
    ] = 8
    weight_dtype: Annotated[
        WeightDtype | None,
        FieldRow(
            "Weights",
            FieldSection.ENGINE,
            short="weights {}",
            unset="as stored",
            widget=Widget(2),
            told=Told("Weights, KV cache"),
            flag="--weight-dtype",
            help="Format of all matrix weights. q4_k_m (GGUF) is priced as int4.",
            flag_default="as the checkpoint stores them",
        ),
    ] = None
    """Format of all matrix weights. None: as the checkpoint stores them, component by component."""
    expert_dtype: Annotated[
        WeightDtype | None,
        FieldRow(
            "Routed experts' weights",
            FieldSection.ENGINE,
            short="experts {}",
            unset="as the weights",
            widget=Widget(
                2,
                help="Overrides the format of the weights for the experts alone.",
                section=FieldSection.ADVANCED,
            ),
            told=Told("Weights, KV cache", "", ""),
            flag="--expert-dtype",
            help="Format of the routed experts alone, e.g. mxfp4.",
        ),
    ] = None
    """Format of the routed experts alone, over weight_dtype."""
    head_dtype: Annotated[
        WeightDtype | None,
        FieldRow(
            "LM head and embeddings",
            FieldSection.ENGINE,
            short="LM head {}",
            unset="as stored",
            widget=Widget(2, section=FieldSection.ADVANCED),
            told=Told("Weights, KV cache", "; LM head {}", ""),
            flag="--head-dtype",
            help="Weight format of the LM head, which a drafter without a reduced head shares, and "
            "of the embeddings.",
            flag_default="as the checkpoint stores them",
            is_younger=True,
        ),
    ] = None
    """Format of both embedding tables, whatever the format of the other weights."""
    kv_dtype: Annotated[
        KvDtype,
        FieldRow(
            "KV cache",
            FieldSection.ENGINE,
            short="KV {}",
            widget=Widget(
                2, help="auto: as the checkpoint says, else as the engine chooses for its weights."
            ),
            told=Told("Weights, KV cache", "; KV {}"),
            flag="--kv-dtype",
            help=(
                "KV cache; auto: as the checkpoint says, else as the engine chooses for its "
                "weights."
            ),
        ),
    ] = "auto"
    """auto is settled by `setup.served_cache`, which says why."""
    routing: Annotated[
        str,
        FieldRow(
            "Routing",
            FieldSection.ADVANCED,
            short="routing {}",
            widget=Widget(
                1,
                help="auto: the model's own measured routing, else the default of its class. "
                "uniform: every token "
                "chooses its experts independently. Your own: upload a routing trace on the "
                "page Measure.",
            ),
            told=Told("Routing", ""),
            flag="--routing",
            help="Routing preset id, `uniform`, `auto`, or what `design` prints.",
            catalogue="routing presets",
            free_text=True,
        ),
    ] = "auto"
    """A routing preset's id, `uniform`, `auto` (the model's own measured preset, else its class
    default), or what a routing trace gave:
    load_cv/low/high,affinity/low/high,stickiness/low/high."""
    expert_loads: Annotated[
        str | None,
        Field(max_length=_MAX_LOADS_CHARACTERS),
        FieldRow(
            "Loads of experts",
            FieldSection.ADVANCED,
            unset="not counted",
            short="{} loads",
            told=Told("Loads of experts", "given, {} (layers x experts)", ""),
            flag="--expert-loads",
            help="Your experts' loads by layer, which set the slowest of the --ep ranks: a CSV "
            "with columns layer, "
            "expert, tokens, a .npy array [layers, experts], or a file that `trace --output` "
            "wrote.",
            shown_until=":",
            is_private=True,
            is_younger=True,
        ),
    ] = None
    """Loads of experts as `write_loads` packs them; None: the slowest rank follows a formula."""
    redundant_experts: Annotated[
        int | None,
        Field(ge=0, le=_MAX_COPIES),
        FieldRow(
            "Copies of experts",
            FieldSection.ADVANCED,
            unit="copies",
            unset="experts in order",
            short="{} copies",
            told=Told("Placement", ", balanced with {} copies of experts", ""),
            flag="--redundant-experts",
            help=(
                "Balance experts over the --ep ranks by their load, with this many copies of hot "
                "ones."
            ),
            flag_default="experts in order",
            is_younger=True,
        ),
    ] = None
    """Copies of a balanced layout, rounded up to fill the ranks evenly; None: experts in order,
    without balancing."""
    input_tokens: Annotated[
        int | None,
        Field(ge=1, le=MAX_CONTEXT),
        FieldRow(
            "Prompt tokens",
            FieldSection.ADVANCED,
            unit="tokens",
            short="prompt {}",
            widget=Widget(3, help="With output tokens, prefill is charged."),
            told=Told("Prefill", "{} prompt", "not charged"),
            flag="--input-tokens",
            help="Prompt length; with --output-tokens, prefill is charged.",
        ),
    ] = None
    output_tokens: Annotated[
        int | None,
        Field(ge=1, le=MAX_CONTEXT),
        FieldRow(
            "Output tokens",
            FieldSection.ADVANCED,
            unit="tokens",
            short="output {}",
            widget=Widget(4),
            told=Told("Prefill", " and {} output tokens", ""),
            flag="--output-tokens",
            help="Output length.",
        ),
    ] = None
    prompts: Annotated[
        Prompts,
        FieldRow(
            "Prompts",
            FieldSection.ADVANCED,
            short="prompts {}",
            widget=Widget(
                5,
                help=(
                    "cached: prompts come from a prefix cache, or only decoding is timed; no "
                    "prefill."
                ),
            ),
            flag="--prompts",
            help=(
                "cached: no prefill is charged, as prompts come from a prefix cache or only "
                "decoding is timed."
            ),
            is_younger=True,
        ),
    ] = "prefilled"
    """cached: prompt lengths set the context alone."""
    max_tpot_ms: Annotated[
        float | None,
        Field(ge=0.01, le=1e6, allow_inf_nan=False),
        FieldRow(
            "Limit on time per output token (ms)",
            FieldSection.ADVANCED,
            unit="ms",
            short="limit {} ms",
            widget=Widget(6, help="A K that exceeds it is not recommended."),
            told=Told("Limit", "{} ms per output token", "none"),
            flag="--max-tpot-ms",
            help="Limit on time per output token, milliseconds.",
        ),
    ] = None
    refit: Annotated[
        str | None,
        Field(max_length=1000),
        FieldRow(
            "Refit",
            FieldSection.ADVANCED,
            unset="shipped constants",
            told=Told("Constants", unset=""),
            flag="--refit",
            help=(
                "Predict with your own measurements: a file that `fit --output` wrote, or its text."
            ),
            is_private=True,
            is_younger=True,
        ),
    ] = None
    """Corrections that the user's own measurements gave to the shipped constants, as `fit` prints
    them."""
    plain_sweep: Annotated[
        str | None,
        Field(max_length=2000),
        FieldRow(
            "Plain sweep",
            FieldSection.ADVANCED,
            unset="none of one's own",
            short="own plain sweep",
            told=Told("Plain steps", "measured over batches, {}", ""),
            flag="--plain-sweep",
            help="Your plain decoding (K = 0) at three batches and more: a benchmark file as "
            "`fit` reads it. Steps "
            "follow it where it is steady.",
            is_private=True,
            is_younger=True,
        ),
    ] = None
    """Measured plain steps of this scenario over batches, as `plain_sweep.write_sweep` packs
    them."""
    shared_prefix_tokens: Annotated[
        int | None,
        Field(ge=1, le=MAX_CONTEXT),
        FieldRow(
            "Shared prefix",
            FieldSection.ADVANCED,
            unit="tokens",
            unset="none",
            short="shared prefix {}",
            widget=Widget(
                7, help="First tokens of the context that all requests share: cached once."
            ),
            told=Told("Prefill", "; {} shared by all requests", ""),
            flag="--shared-prefix",
            help="First tokens of the context that all requests share: cached and prefilled once.",
            is_younger=True,
        ),
    ] = None
    """Part of `context_tokens`, and of `input_tokens` where that is given. None: nothing is
    shared."""
    kv_cache_tokens: Annotated[
        int | None,
        Field(ge=1, le=MAX_POOL),
        FieldRow(
            "KV cache size without drafter",
            FieldSection.ADVANCED,
            unit="tokens",
            unset="modeled",
            short="KV cache of {}",
            widget=Widget(8, help="`GPU KV cache size` of the engine's startup log."),
            told=Told("KV cache size", "{} without a drafter", ""),
            flag="--kv-cache-tokens",
            help="GPU KV cache size that the engine logs at startup without a drafter.",
            flag_default="modeled",
            is_younger=True,
        ),
    ] = None
    """Of one data-parallel rank, as vLLM logs `GPU KV cache size` and SGLang
    `max_total_num_tokens`."""
    kv_cache_tokens_with_drafter: Annotated[
        int | None,
        Field(ge=1, le=MAX_POOL),
        FieldRow(
            "KV cache size with drafter",
            FieldSection.ADVANCED,
            unit="tokens",
            unset="modeled",
            short="KV cache of {} with drafter",
            widget=Widget(8, help="The same with speculation turned on."),
            told=Told("KV cache size", " {} with the drafter", ""),
            flag="--kv-cache-tokens-with-drafter",
            help="GPU KV cache size that the engine logs at startup with the drafter.",
            flag_default="modeled",
            is_younger=True,
        ),
    ] = None


FIELDS = rows_of(ScenarioFields)
"""The table: the row of each field by its name, in the order of the fields."""
DOCUMENTS = {name: row.document_of for name, row in FIELDS.items() if row.document_of}
"""Fields that hold a document of the user's own, each with the field that names it; a link carries
them compressed."""
SETTINGS = tuple(
    sorted(
        (row for row in FIELDS.values() if not row.document_of),
        key=lambda row: list(FieldSection).index(row.section),
    )
)
"""The rows of all other fields by subject, as tables list them: what says most comes first."""
RANK_FIELDS = ("expert_loads", "redundant_experts")
"""What is said of one model's experts on its ranks; it says nothing of another model's."""
RELEASE_FIELDS = ("engine_version", "graph_sizes", "graph_mode")
"""What is said of one engine's release; it says nothing of another engine's."""
DRAFT_FIELDS = ("draft_vocabulary", "draft_dtype")
"""What is said of one drafter's weights; it says nothing of another drafter's."""
POOL_FIELDS = ("kv_cache_tokens", "kv_cache_tokens_with_drafter")
"""What one server logs of its cache; it says nothing of another server's."""
SWEEP_FIELDS = tuple(
    row.name
    for row in SETTINGS
    if row.section in (FieldSection.MODEL, FieldSection.HARDWARE, FieldSection.ENGINE)
    # Pieces of graphs hold verifications up, and no baseline step; sweeps that are kept were packed
    # before the LM head's format could be stated.
    and row.name not in ("graph_mode", "head_dtype")
)
"""What a measured plain sweep is of, beside its context; it says nothing of another scenario."""
SERVER_FIELDS = frozenset(
    {*SWEEP_FIELDS, *DRAFT_FIELDS, "head_dtype", "hardware_json", "model_config_json", "drafter_id"}
)
"""What `POOL_FIELDS` are of."""
