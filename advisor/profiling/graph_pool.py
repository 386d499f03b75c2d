"""The memory that captured graphs of a block share."""

from __future__ import annotations

from typing import Any

import torch


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
        """The pool's handle, made when first asked for. None where this torch has none."""
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
