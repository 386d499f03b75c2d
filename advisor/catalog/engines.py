"""Serving engines, one file each under profiles/engines: names, vintages, drafting methods,
exports, CUDA graphs.

A step that no graph holds is launched kernel by kernel; one that a larger graph holds computes all
rows of that graph.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from advisor.physics.hardware import Hardware
from advisor.prediction import AdvisorError, Array, Frozen
from advisor.profiles import load_profile, profile_ids, unknown_id
from advisor.text import name_key

EAGER_DENSE_S = 0.77e-3
EAGER_ROUTED_S = 1.1e-3
"""Launching the kernels of a dense layer, and of one with routed experts, one by one. Measured on
vLLM: rounds of 0.24 on GB200 beyond its captured sizes, 1.20 and 1.23 ms a layer with experts, .81
dense; plain steps without graphs there, 1.03 and 1.04, and .73 to .74 (seonjinn/RL,
dynamic_sd_sync_rollout and the NeMo-RL notes); .79 on an A800 with an x86 host
(vllm-project/vllm-omni issue 7960). Not measured for other engines, of which they are assumed.
[s]"""
EAGER_SOURCE = (
    "measured with vLLM on GB200 (seonjinn/RL, dynamic_sd_sync_rollout) and A800 (vllm-omni issue "
    "7960), 80% range a factor of 1.2 either way"
)
GraphMode = Literal["full", "pieces", "none"]
MAX_SIZE = 65_536
"""Largest size that may be given. [tokens or requests]"""
ADMITTED = 1024
"""max_num_seqs where nothing says it, of vLLM's server on parts of 70 GiB and more
(vllm/engine/arg_utils.py of 0.33.0); its 256 on smaller ones gives the same sizes up to the ceiling
of 512. [requests]"""


class GraphMemory(Frozen):
    """Largest size on accelerators with less memory than `below_gib`, on few GPUs and on four or
    more."""

    below_gib: float = Field(gt=0)
    few: int = Field(ge=1)
    many: int = Field(ge=1)


class _OfReleases(Frozen):
    """A rule of some releases, as their source was read."""

    since: str = Field(pattern=r"\d+(\.\d+)+")
    before: str = Field(pattern=r"\d+(\.\d+)+")
    """First release that was not read, or has another rule."""
    source: str = Field(min_length=3)
    date: str = Field(pattern=r"\d{4}-\d{2}-\d{2}")
    """Day it was read."""


class GraphRule(_OfReleases):
    """Sizes that releases of an engine capture, where the user states none."""

    counts: Literal["tokens", "requests"]
    """What a size counts: tokens of a step, or requests, whatever each of them verifies."""
    grid: tuple[tuple[int, int], ...] = Field(min_length=1)
    """(first, step): from `first` on every `step`, up to the next entry's first."""
    plain_grid: tuple[tuple[int, int], ...] = ()
    """The same of a server without speculation; empty: as `grid`."""
    ceiling: int | None = Field(default=None, ge=1)
    """Largest size; None: `by_memory`."""
    ceiling_on: dict[str, int] = Field(default_factory=dict)
    """Largest size on accelerators whose generation has this word."""
    by_memory: tuple[GraphMemory, ...] = ()
    """Largest sizes by memory, the first that applies; the last has no end."""
    at_most: Literal["", "2 n", "2 n q"] = ""
    """Further limit: twice the admitted requests n, or twice their tokens."""
    whole_rounds: bool = False
    """Sizes are rounded up to multiples of the tokens that a request verifies."""
    request_counts: bool = False
    """The grid's own numbers of requests are captured too, up to the largest size."""
    pads: bool = True
    """A step between two sizes runs in the larger one; else without a graph."""
    of_rows: bool = True
    """Whether published runs that name the release are taken to capture so; else their recipes set
    other sizes."""


@dataclass(frozen=True)
class GraphServer:
    """Facts about a server that its captured sizes follow from."""

    generation: str = ""
    """Of its accelerator."""
    memory_bytes: float = 80.0 * 2**30
    n_gpus: int = 1
    admitted: int = ADMITTED
    """Requests at a time, n. [-]"""
    sizes: tuple[int, ...] | None = None
    """As the user lists them, in the engine's own count; () for none."""
    largest: int | None = None
    """As the user limits them."""

    @classmethod
    def of(cls, hardware: Hardware, n_gpus: int) -> "GraphServer":
        """Server on so many of an accelerator, with what engines admit by themselves."""
        return cls(hardware.generation, hardware.memory_bytes.value, n_gpus)


def stated_sizes(text: str) -> dict[str, Any]:
    """Fields of GraphServer from `none`, `512`, `8,16,32` or `max_num_seqs=64`. Raises AdvisorError
    for others."""
    stated = text.strip().lower()
    if stated in ("none", "off", "eager"):
        return {"sizes": ()}
    if admits := re.fullmatch(r"-*max[-_]num[-_]seqs[ =]+(\d{1,6})", stated):
        return {"admitted": _size(admits[1])}
    if re.fullmatch(r"\d{1,6}", stated):
        return {"largest": _size(stated)}
    if re.fullmatch(r"\[?\d{1,6}([ ,]+\d{1,6})+\]?", stated):
        return {"sizes": tuple(sorted({_size(number) for number in re.findall(r"\d+", stated)}))}
    raise AdvisorError(
        f"graph_sizes={text[:60]!r} says no captured sizes; give the largest (512), a list "
        "(8,16,32), max_num_seqs=64, or none for a server without CUDA graphs"
    )


def _size(text: str) -> int:
    if not 1 <= int(text) <= MAX_SIZE:
        raise AdvisorError(f"graph_sizes: {text} does not lie in 1 to {MAX_SIZE:,}")
    return int(text)


def captured_sizes(rule: GraphRule, server: GraphServer, q: int) -> NDArray[np.int64]:
    """Captured sizes of steps whose requests verify q tokens each (1: no speculation), increasing.
    [tokens]"""
    top = _largest(rule, server, q)
    if server.sizes is not None:
        sizes = set(server.sizes)
    else:
        sizes = grid_sizes(rule.plain_grid if q == 1 and rule.plain_grid else rule.grid, top)
        if rule.counts == "requests":
            sizes |= {top}
        elif rule.request_counts and server.largest is None:
            sizes |= _counts_of_requests(rule, server, top, q)
        top = max(sizes)
    if rule.counts == "requests":
        return np.array(sorted(sizes), np.int64) * q
    if rule.whole_rounds and q > 1:
        rounded = {-(-size // q) * q for size in sizes}
        sizes = {size for size in rounded if size <= top} or ({q} if q <= top else set())
    return np.array(sorted(sizes), np.int64)


def _largest(rule: GraphRule, server: GraphServer, q: int) -> int:
    """Largest size, in the rule's own count."""
    if server.sizes is not None:
        return max(server.sizes, default=0)
    if server.largest is not None:
        return server.largest
    twice = {"": MAX_SIZE, "2 n": 2 * server.admitted, "2 n q": 2 * server.admitted * q}[
        rule.at_most
    ]
    return min(_ceiling(rule, server), twice)


def _ceiling(rule: GraphRule, server: GraphServer) -> int:
    words = server.generation.split()
    by_word = [size for word, size in rule.ceiling_on.items() if word in words]
    if by_word or rule.ceiling is not None:
        return max([*by_word, rule.ceiling or 0]) if by_word else int(rule.ceiling or 0)
    gib = server.memory_bytes / 2**30
    step = next((entry for entry in rule.by_memory if gib < entry.below_gib), rule.by_memory[-1])
    return step.many if server.n_gpus >= 4 else step.few


def grid_sizes(grid: tuple[tuple[int, int], ...], top: int) -> set[int]:
    """Numbers on a rule's grid up to `top`. [tokens or requests]"""
    bounds = [*(first for first, _ in grid[1:]), top + 1]
    stretches = zip(grid, bounds, strict=True)
    return {
        size
        for (first, step), bound in stretches
        for size in range(first, min(bound, top + 1), step)
    }


def _counts_of_requests(rule: GraphRule, server: GraphServer, top: int, q: int) -> set[int]:
    """Numbers of requests on the grid, up to those admitted, times the tokens of each."""
    if q == 1:
        return {server.admitted} if server.admitted <= top else set()
    max_requests = min(server.admitted, _ceiling(rule, server))
    return {
        count * q
        for count in grid_sizes(rule.grid, max_requests) | {max_requests}
        if count * q <= top
    }


@dataclass(frozen=True)
class Ran:
    """Graphs that steps ran in, broadcast over batches and tokens."""

    padding: Array
    """Rows that are computed over those asked for, >= 1; 1 without a graph. [-]"""
    eager: NDArray[np.bool_]
    """Whether no graph holds the step."""


@dataclass(frozen=True)
class Graphs:
    """Captured graphs of one server."""

    release: str
    """Engine and version for readers."""
    rule: GraphRule
    server: GraphServer
    stated: bool = False
    """Whether the user states what is captured."""

    def largest(self, q: int) -> int:
        """Tokens of the largest graph for q verified tokens of each request. [tokens] 0 where
        nothing is captured."""
        return int(max(self.sizes(q), default=0))

    def sizes(self, q: int) -> NDArray[np.int64]:
        """Sizes of steps whose requests verify q tokens each, in tokens."""
        return captured_sizes(self.rule, self.server, q)

    def ran(self, sequences: ArrayLike, tokens: ArrayLike) -> Ran:
        """Graph that each step runs in.

        sequences: of one attention group, whose ranks each run graphs of their own; a part of one
        counts as whole. [-] tokens: of each sequence, q. [-]
        """
        batch, per_sequence = np.broadcast_arrays(
            np.asarray(sequences, float), np.asarray(tokens, float)
        )
        padding = np.ones(batch.shape)
        eager = np.ones(batch.shape, bool)
        for q in np.unique(per_sequence):
            mask = per_sequence == q
            sizes = self.sizes(int(q))
            if not sizes.size:
                continue
            # A rank cannot hold half a sequence: the fullest one decides.
            rows = np.ceil(batch[mask] - 1e-9) * q
            index = np.searchsorted(sizes, rows)
            graph = sizes[np.minimum(index, sizes.size - 1)]
            fits = (index < sizes.size) & (self.rule.pads | (graph == rows))
            eager[mask] = ~fits
            padding[mask] = np.where(fits, graph / (batch[mask] * q), 1.0)
        return Ran(np.maximum(padding, 1.0), eager)


ANY_SIZE = GraphRule(
    since="0.0",
    before="9999.0",
    counts="tokens",
    grid=((1, 1),),
    ceiling=MAX_SIZE,
    source="as given with the scenario",
    date="2026-11-23",
)
"""Stands for an engine whose rule is not known and whose user states which sizes it captures."""


OTHER_ENGINE = "other"
"""Any engine without a file: it borrows kernels, and overheads are the mean over the known ones."""


@dataclass(frozen=True)
class Build:
    """Facts that a measured row states of the engine that ran it. Empty where it says nothing."""

    version: str = ""
    """Release, commit or image as the source names it."""
    date: str = ""
    """YYYY, YYYY-MM or YYYY-MM-DD: an interval of months."""
    tree: bool = False
    """It verified a draft tree."""
    vendor: str = ""
    """Of the accelerator, as in profiles/hardware."""
    chip: str = ""
    """Generation of the accelerator, as there."""
    notes: str = ""

    @property
    def months(self) -> tuple[str, str]:
        """First and last month that the date may mean. Empty texts without a date."""
        if not self.date:
            return "", ""
        return (
            (f"{self.date}-01", f"{self.date}-12")
            if len(self.date) == len("2026")
            else (self.date[:7],) * 2
        )


class _Older(Frozen):
    """Builds before a release, and the chips that they ran on."""

    before: str | None = Field(default=None, pattern=r"\d{4}-\d{2}")
    """Month from which on rows are of today's version, where they name none."""
    before_version: str | None = Field(default=None, pattern=r"\d+(\.\d+)+")
    """First release of today's kind; a row that names its version is judged by it, not by its
    date."""
    not_called: tuple[str, ...] = ()
    """Words of a version or note that say that a build is of today's kind, whatever its date."""
    chips: tuple[str, ...] = ()
    """Builds for accelerators whose generation has one of these words."""
    source: str = Field(min_length=3)

    def on_chip(self, build: Build) -> bool:
        """Whether the build's accelerator is one of `chips`."""
        return not set(self.chips).isdisjoint(build.chip.split())

    def is_older(self, build: Build) -> bool | None:
        """Whether a build is older than that release. None where its date may mean months before
        and after."""
        release = _release(build.version)
        if release and self.before_version:
            return release < _release(self.before_version)
        called = f"{build.version} {build.notes}"
        if any(
            re.search(rf"(?<!\w){re.escape(word)}(?!\w)", called, re.IGNORECASE)
            for word in self.not_called
        ):
            return False
        first, last = build.months
        if not first or self.before is None or first >= self.before:
            return False
        return True if last < self.before else None


class EngineClass(_Older):
    """Builds of an engine whose rows share launch and host overheads that today's release has
    not."""

    ending: str = Field(pattern=r"[a-z0-9]+")
    """The class is called `ENGINE-ENDING` in profiles/calibration/end_to_end/overheads.json."""
    trees: bool = False
    """Draft trees are scheduled like this in every version."""
    vendor: str = ""
    """Builds for accelerators of this vendor."""

    @model_validator(mode="after")
    def _tells(self) -> "EngineClass":
        if not (self.before or self.vendor or self.chips):
            raise ValueError("give before, vendor or chips: what tells a build of this class")
        return self

    def holds(self, build: Build) -> bool | None:
        """Whether a build belongs to it, by what its row states and never by its result. None where
        a date is no answer because today's kind came out between the months it may mean."""
        if self.trees and build.tree:
            return True
        if self.vendor or self.chips:
            return self.vendor == build.vendor != "" or self.on_chip(build)
        return self.is_older(build)


class GraphPieces(_Older):
    """Builds whose attention kernels no full CUDA graph holds where a sequence has several
    tokens."""

    cache: str | None = None
    """Format of the KV cache that they are picked for; None: any."""
    do: str = Field(min_length=3)
    """What keeps the verification in a full graph."""

    def holds(self, build: Build, cache: str) -> bool:
        """Whether a build captures a verification in pieces. Without version and date it is
        today's."""
        of_all = self.before_version is None
        return (
            self.on_chip(build)
            and self.cache in (None, cache)
            and (of_all or self.is_older(build) is True)
        )


class ExportRule(Frozen):
    """Rules by which a schedule becomes the engine's configuration."""

    writer: str = Field(pattern=r"[a-z_]+")
    """Module of advisor.answers.engines whose `export` writes it."""
    file_name: str | None = None
    """The file that the launch line points to; None where the configuration stands on the line
    itself."""


GuardEffect = Literal["safe", "no_effect", "harmful", "unknown"]
GuardTag = Literal[
    "speculation",
    "table",
    "zero_in_table",
    "data_parallel",
    "multi_layer_eagle",
    "own_forward",
    "older_runner",
    "context_matters",
    "dspark",
    "split_blocks",
    "adaptive",
    "part_of_modules",
]
"""What an export may be: it drafts at all; K varies by batch; K = 0 is in the table; more than one
data-parallel rank (of SGLang's attention, too); MTP modules drafted by a worker each; a drafter
with a forward pass of its own; a method that vLLM runs on its older model runner; another context
has another K; DSpark's drafter; experts split within the blocks of their weights; adaptive
verification; more drafts than MTP modules, and no multiple of them."""


class Reviewed(Frozen):
    """The release whose source the rules of an engine were read in, and when."""

    version: str = Field(pattern=r"\d+(\.\d+)+")
    date: str = Field(pattern=r"\d{4}-\d{2}-\d{2}")


class Guard(Frozen):
    """Warning on what versions of an engine do with an export of some kind."""

    id: str = Field(pattern=r"[a-z0-9_]+")
    when: tuple[GuardTag, ...] = Field(min_length=1)
    """All of them hold for the export."""
    effect: GuardEffect
    since: str | None = Field(default=None, pattern=r"\d+(\.\d+)+")
    """First release concerned; None: as far back as the engine has it."""
    before: str | None = Field(default=None, pattern=r"\d+(\.\d+)+")
    """First release that is not concerned any more; None: the reviewed one still is."""
    says: str = Field(min_length=10)
    do: str = ""
    source: str = Field(min_length=3)
    date: str = Field(pattern=r"\d{4}-\d{2}-\d{2}")
    """Day it was read."""

    def concerns(self, version: str) -> bool:
        """Whether a release is within its range."""
        return _within(self, version)

    @property
    def voids(self) -> bool:
        """Whether the export has no effect, does harm, or needs a later release."""
        needs_later = self.effect == "unknown" and self.before is not None
        return needs_later or self.effect in ("no_effect", "harmful")


class AdaptiveRule(_OfReleases):
    """Releases that choose at each step which drafted tokens they verify, where they are told
    to."""

    key: str = Field(pattern=r"[a-z_]+")
    """What turns it on, as the engine spells it. Off by default."""
    methods: tuple[str, ...] = Field(min_length=1)
    """Drafting methods, by their names in vLLM."""
    chips: tuple[str, ...] = Field(min_length=1)
    """Chips with an attention backend that takes it."""
    latent_chips: tuple[str, ...] = Field(min_length=1)
    """The same of latent attention."""
    recurrent: tuple[str, ...]
    """Families of models with recurrent layers that take it; others with such layers do not."""


class Unlisted(Frozen):
    """Weight formats that an engine's documentation does not list on some generations of
    accelerators.

    That is no proof that they do not run: TensorRT-LLM's matrix leaves out mxfp4 on Hopper, where
    it was measured.
    """

    formats: tuple[str, ...] = Field(min_length=1)
    generations: tuple[str, ...] = Field(min_length=1)
    """How the generation in a profile of profiles/hardware begins: `Hopper`, `Blackwell sm_120`."""
    source: str = Field(min_length=3)


class MtpSupport(Frozen):
    """Families of models whose MTP modules an engine runs."""

    models: dict[str, int] = Field(default_factory=dict)
    """Modules that it loads where a configuration states none, by its model_type; 0: as stated
    there."""
    multi_layer: tuple[str, ...] = ()
    """Those that it drafts with by one worker per module."""
    assistants: tuple[str, ...] = ()
    """Those whose assistant, a checkpoint of its own, it loads as the module."""
    source: str = Field(min_length=3)


class Engine(Frozen):
    """Facts about a serving engine, its kernels and overheads apart."""

    id: str
    name: str = Field(min_length=1)
    """For readers."""
    order: int
    """Its place wherever engines are listed."""
    aliases: tuple[str, ...] = Field(min_length=1)
    """Spellings in files, without regard to case and punctuation."""
    forks: tuple[str, ...] = ()
    """Engines of other names with this one's scheduler: published rows count as its own."""
    backend: str = Field(min_length=1)
    """How the backend names of SGLang's serving benchmark begin that mean it."""
    classes: tuple[EngineClass, ...] = ()
    """Kinds of builds; the first that a row belongs to counts, else the row is of today's
    release."""
    methods: dict[str, str] = Field(default_factory=dict)
    """Its own name of each drafting method that an export can ask for, by the method's name in
    vLLM."""
    parallel_drafting: bool = False
    """It can be told that a drafter of a method that drafts in turn proposes all K tokens in one
    pass."""
    decodes_during_prefill: bool = True
    """A step may hold tokens of a prompt beside those of running sequences; else decoding stops for
    a prompt."""
    tables_on_host: bool = False
    """N-gram tables lie in host memory unless it is told otherwise; else on the GPUs, split among
    them."""
    prefills_together: bool = False
    """Data-parallel groups hold prompts back until all have one; else every group waits for each
    other's prompts."""
    latent_rows_apart: tuple[str, ...] = ()
    """Chips on which its latent attention reads the cache for each token that is verified, as for a
    sequence."""
    other_kernels: tuple[str, ...] = ()
    """Formats of experts for which it picks a quicker kernel than tables were made with, where
    those read slowly."""
    heads_apart: tuple[str, ...] = ()
    """Chips on which its attention reads the cache for each query head of a group where it
    verifies."""
    graph_pieces: tuple[GraphPieces, ...] = ()
    """Where it verifies outside full CUDA graphs."""
    norms_apart_before: str | None = None
    """Version before which normalising queries and keys took more kernels; None: its launches are
    told by the layer alone (docs/decisions/history.md (0013))."""
    norms_apart_before_date: str | None = Field(default=None, pattern=r"\d{4}-\d{2}-\d{2}")
    """Day of that release, for builds that name a day in place of a release."""
    export: ExportRule | None = None
    """None: nothing is exported for it."""
    reviewed: Reviewed | None = None
    """None: nothing is exported for it."""
    guards: tuple[Guard, ...] = ()
    graphs: tuple[GraphRule, ...] = ()
    """What its releases capture in CUDA graphs, oldest first; empty: not looked up."""
    adaptive: tuple[AdaptiveRule, ...] = ()
    """Where it verifies adaptively, oldest first; empty: it does not."""
    vendors: tuple[str, ...] = ()
    """Vendors whose accelerators it runs on, as in profiles/hardware; empty: not looked up."""
    unlisted: tuple[Unlisted, ...] = ()
    """Weight formats that it may not run, by generation."""
    mtp: MtpSupport | None = None
    """None: not looked up."""
    sources: tuple[str, ...] = Field(min_length=1)

    def warned_of(self, tags: Collection[str], version: str | None = None) -> tuple[Guard, ...]:
        """The guards of an export of these kinds in a version. Raises AdvisorError for no release
        number."""
        release = version or (self.reviewed.version if self.reviewed else "0.0")
        if not _release(release):
            raise AdvisorError(
                f"{release[:40]!r} is no version of {self.name}; give a release such as 0.33.0"
            )
        return tuple(
            guard
            for guard in self.guards
            if set(guard.when) <= set(tags) and guard.concerns(release)
        )

    def graph_rule(self, version: str) -> GraphRule | None:
        """Rule of what a release captures in CUDA graphs. None where that was not read."""
        return next((rule for rule in self.graphs if _within(rule, version)), None)

    def adaptive_rule(self, version: str) -> AdaptiveRule | None:
        """Rule by which a release verifies adaptively. None where it does not."""
        return next((rule for rule in self.adaptive if _within(rule, version)), None)

    def unlisted_on(self, weight_format: str, generation: str) -> Unlisted | None:
        """Reason why a weight format is in doubt on a generation of accelerators, or None."""
        concerned = (entry for entry in self.unlisted if generation.startswith(entry.generations))
        return next((entry for entry in concerned if weight_format in entry.formats), None)

    def class_of(self, build: Build) -> str:
        """Class of a build, whose rows share launch and host overheads.

        The engine, with the kind of its build where that is none of today's releases; OTHER_ENGINE,
        which informs no class, where a date leaves it open.
        """
        for kind in self.classes:
            holds = kind.holds(build)
            if holds is None:
                return OTHER_ENGINE
            if holds:
                return f"{self.id}-{kind.ending}"
        return self.id


@lru_cache(maxsize=1)
def engines() -> tuple[Engine, ...]:
    """All engines in their order, read once. Raises AdvisorError for a damaged file."""
    loaded = [
        load_profile("engines", name, Engine, "engines", "see profiles/engines")
        for name in profile_ids("engines")
    ]
    return tuple(sorted(loaded, key=lambda engine: (engine.order, engine.id)))


def load_engine(engine_id: str) -> Engine:
    """The engine `engine_id`. Raises AdvisorError when none has that id."""
    for engine in engines():
        if engine.id == engine_id:
            return engine
    raise unknown_id(engine_id, "engines", engine_ids(), f"known are {', '.join(engine_ids())}")


def engine_ids() -> list[str]:
    """Ids of all engines with a file, in their order."""
    return [engine.id for engine in engines()]


def engine_choices() -> list[str]:
    """Choices of a scenario's engine."""
    return [*engine_ids(), OTHER_ENGINE]


def class_today(engine: str, vendor: str, chip: str, version: str | None = None) -> str:
    """Class of a scenario's engine on a vendor's generation of parts: of its release, else of
    today's."""
    known = engine_of(engine)
    return (
        engine
        if known is None
        else known.class_of(Build(version=version or "", vendor=vendor, chip=chip))
    )


def engine_of(choice: str) -> Engine | None:
    """The engine of a scenario. None for OTHER_ENGINE."""
    return None if choice == OTHER_ENGINE else load_engine(choice)


def export_engines() -> list[Engine]:
    """The engines that a schedule can be exported for, in their order."""
    return [engine for engine in engines() if engine.export is not None]


def engine_called(text: str, forks: bool = False) -> Engine | None:
    """The engine that a file's spelling means, or None. With `forks` also the one that it is a fork
    of."""
    key = name_key(text)
    for engine in engines():
        if key in map(name_key, (*engine.aliases, *(engine.forks if forks else ()))):
            return engine
    return None


def is_release(version: str) -> bool:
    """Whether a text starts as a release number does, `0.33.0` or `v0.14.1.dev3`."""
    return bool(_release(version))


def _within(rule: Guard | _OfReleases, version: str) -> bool:
    """Whether a release is from a rule's first one on and before the first that it is not of."""
    before = _release(rule.before or "9999.0")
    return _release(rule.since or "0.0") <= _release(version) < before


def _release(version: str) -> tuple[int, ...]:
    """(0, 14, 1) of `v0.14.1.dev3`. () where the text does not start with a release number."""
    match = re.match(r"v?(\d+(?:\.\d+)+)", version)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


@dataclass(frozen=True)
class _OneOf:
    """A string among those that `listed` gives at the time of checking, refused and documented as a
    Literal is."""

    listed: Callable[[], list[str]]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._known)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": self.listed(), "type": "string"}

    def _known(self, value: Any) -> str:
        choices = self.listed()
        if not isinstance(value, str) or value not in choices:
            *first, last = map(repr, choices)
            raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})
        return value


EngineChoice = Annotated[str, _OneOf(engine_choices)]
"""A scenario's engine."""
