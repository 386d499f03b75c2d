"""Captures a call as a graph, in one memory pool per block, and counts the memory that graphs hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from advisor.profiling.device import free_bytes
from advisor.profiling.errors import DeviceLostError

if TYPE_CHECKING:
    from advisor.profiling.timing import Context


class GraphPool:
    """The pool that the graphs of one block share, and what they took from the device.

    Graphs of a block are replayed one after another and leave nothing behind that a later one needs (what must last
    lies in buffers made before the capture), so their intermediate tensors may use the same memory. Without a shared
    pool every captured configuration would keep its own for as long as its block lasts.
    """

    def __init__(self) -> None:
        self.handle: Any = None
        self.held_bytes = 0.0
        self.n_graphs = 0

    def open(self) -> Any:
        """The pool's handle, made when first asked for; None where this torch has none."""
        if self.handle is None:
            make = getattr(torch.cuda, "graph_pool_handle", None)
            self.handle = make() if make else None
        return self.handle

    def took(self, free_before: float, free_after: float) -> None:
        """Count a captured graph and the memory gone since before its capture. [bytes]"""
        self.n_graphs += 1
        self.held_bytes += max(free_before - free_after, 0.0)

    def drop(self) -> None:
        """Give up the pool: after a failed capture it is in no known state, after a block its graphs are gone."""
        self.handle = None


def capture(call: Callable[[], Any], context: Context, *, wanted: bool = True) -> tuple[Callable[[], Any], str, str]:
    """(callable, mode, reason): a graph replay on an accelerator, else the call itself, warmed up.

    mode is `graph` or `eager`; reason says why a wanted graph was not to be had, else "".
    """
    if not context.accelerator or not wanted:
        call()
        call()
        return call, "eager", ""
    try:
        _warm_on_side_stream(call, context)
        before = free_bytes(context.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=context.graphs.open()):
            call()
        graph.replay()
        context.clock.synchronize()
        context.graphs.took(before, free_bytes(context.device))
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, DeviceLostError):
            raise
        context.clock.synchronize()
        context.graphs.drop()
        call()
        return call, "eager", f"no graph: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return graph.replay, "graph", ""


def _warm_on_side_stream(call: Callable[[], Any], context: Context) -> None:
    """Run the call three times on a stream of its own, as torch asks before a capture."""
    index = context.device.index
    stream = torch.cuda.Stream(index)
    stream.wait_stream(torch.cuda.current_stream(index))
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream(index).wait_stream(stream)
    context.clock.synchronize()
