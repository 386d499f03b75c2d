"""CUDA graphs that an engine captured: their sizes by release, and which step runs in which of them.

A step that no graph holds is launched kernel by kernel; one that a larger graph holds computes all rows of that graph.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from advisor.physics.hardware import Hardware
from advisor.prediction import AdvisorError, Array, Frozen

EAGER_DENSE_S, EAGER_ROUTED_S = 0.77e-3, 1.1e-3
"""Launching the kernels of a dense layer, and of one with routed experts, one by one. Measured on vLLM: rounds of 0.24
on GB200 beyond its captured sizes, 1.20 and 1.23 ms a layer with experts, .81 dense; plain steps without graphs there,
1.03 and 1.04, and .73 to .74 (seonjinn/RL, dynamic_sd_sync_rollout and the NeMo-RL notes); .79 on an A800 with an x86
host (vllm-project/vllm-omni issue 7960). Not measured for other engines, of which they are assumed. [s]"""
EAGER_SOURCE = (
    "measured with vLLM on GB200 (seonjinn/RL, dynamic_sd_sync_rollout) and A800 (vllm-omni issue 7960), 80% range a "
    "factor of 1.2 either way"
)
MAX_SIZE = 65_536
"""Largest size that may be given. [tokens or requests]"""
ADMITTED = 1024
"""max_num_seqs where nothing says it, of vLLM's server on parts of 70 GiB and more (vllm/engine/arg_utils.py of
0.33.0); its 256 on smaller ones gives the same sizes up to the ceiling of 512. [requests]"""


class GraphMemory(Frozen):
    """Largest size on accelerators with less memory than `below_gib`, on few GPUs and on four or more."""

    below_gib: float = Field(gt=0)
    few: int = Field(ge=1)
    many: int = Field(ge=1)


class GraphRule(Frozen):
    """Sizes that releases of an engine capture, where the user states none."""

    since: str = Field(pattern=r"\d+(\.\d+)+")
    before: str = Field(pattern=r"\d+(\.\d+)+")
    """First release that was not read, or has another rule."""
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
    """Whether published runs that name the release are taken to capture so; else their recipes set other sizes."""
    source: str = Field(min_length=3)
    date: str = Field(pattern=r"\d{4}-\d{2}-\d{2}")
    """Day it was read."""


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
    def of(cls, hardware: Hardware, n_gpus: int) -> GraphServer:
        """Server on so many of an accelerator, with what engines admit by themselves."""
        return cls(hardware.generation, hardware.memory_bytes.value, n_gpus)


def stated_sizes(text: str) -> dict[str, Any]:
    """Fields of GraphServer from `none`, `512`, `8,16,32` or `max_num_seqs=64`. Raises AdvisorError for others."""
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
        f"graph_sizes={text[:60]!r} says no captured sizes; give the largest (512), a list (8,16,32), max_num_seqs=64, "
        "or none for a server without CUDA graphs"
    )


def _size(text: str) -> int:
    if not 1 <= int(text) <= MAX_SIZE:
        raise AdvisorError(f"graph_sizes: {text} does not lie in 1 to {MAX_SIZE:,}")
    return int(text)


def captured_sizes(rule: GraphRule, server: GraphServer, q: int) -> NDArray[np.int64]:
    """Captured sizes in tokens of a step whose requests verify q tokens each, increasing. [tokens]

    rule, server: of the release, and of how it is run. q: 1 without speculation. [-]
    """
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
    twice = {"": MAX_SIZE, "2 n": 2 * server.admitted, "2 n q": 2 * server.admitted * q}[rule.at_most]
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
    return {size for (first, step), bound in stretches for size in range(first, min(bound, top + 1), step)}


def _counts_of_requests(rule: GraphRule, server: GraphServer, top: int, q: int) -> set[int]:
    """Numbers of requests on the grid, up to those admitted, times the tokens of each."""
    if q == 1:
        return {server.admitted} if server.admitted <= top else set()
    max_requests = min(server.admitted, _ceiling(rule, server))
    return {count * q for count in grid_sizes(rule.grid, max_requests) | {max_requests} if count * q <= top}


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

    def largest(self, q: int) -> int:
        """Tokens of the largest graph for q verified tokens of each request. [tokens] 0 where nothing is captured."""
        return int(max(self.sizes(q), default=0))

    def sizes(self, q: int) -> NDArray[np.int64]:
        """Sizes of steps whose requests verify q tokens each, in tokens."""
        return captured_sizes(self.rule, self.server, q)

    def ran(self, sequences: ArrayLike, tokens: ArrayLike) -> Ran:
        """Graph that each step runs in.

        sequences: of one attention group, whose ranks each run graphs of their own; a part of one counts as whole. [-]
        tokens: of each sequence, q. [-]
        """
        batch, per_sequence = np.broadcast_arrays(np.asarray(sequences, float), np.asarray(tokens, float))
        padding, eager = np.ones(batch.shape), np.ones(batch.shape, bool)
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
