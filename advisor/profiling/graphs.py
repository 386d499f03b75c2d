"""Captures a call as a graph in the pool of its block, and counts the memory that it took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from advisor.profiling.device import free_bytes
from advisor.profiling.errors import DeviceLostError
from advisor.profiling.timing import Context


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
