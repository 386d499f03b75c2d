"""Expert choices that the engine is made to use, and the count of what it touched.

vLLM asks a registered strategy for each layer's experts where VLLM_MOE_ROUTING_SIMULATION_STRATEGY names it. Ours hands
out rows of a table drawn beforehand, with the wanted skew and correlation. Table and place lie on the device and are
changed in place, so that a captured graph goes through them as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.profiling.routing_draw import Routing, draw_routing, mean_touched

NAME = "advisor"
"""Name of the strategy in the engine."""
TABLE_ROWS = 8192
"""Tokens whose choices a table holds. [-]"""
LAW_DRAWS = 200
"""Draws whose mean is the law of a routing that is not uniform. [-]"""


class Table:
    """Choices of TABLE_ROWS tokens on the device, handed out one call after another."""

    def __init__(self, shape: tuple[int, int], device: Any) -> None:
        self.shape, self.device = shape, device
        self.drawn = np.zeros((TABLE_ROWS, shape[1]), np.int32)
        self.rows = self._put(self.drawn)
        self.place, self.length = self._put(np.zeros(1, np.int64)), self._put(np.full(1, TABLE_ROWS))
        self.span = self._put(np.arange(TABLE_ROWS))
        self.counted_to = 0

    def _put(self, values: np.ndarray) -> Any:
        import torch

        return torch.as_tensor(values.copy(), device=self.device)

    def fill(self, drawn: np.ndarray) -> None:
        """Take other choices, at most TABLE_ROWS, and begin with the first."""
        import torch

        self.drawn, self.counted_to = drawn, 0
        with torch.inference_mode():  # as the engine's own steps, in which the tensors were made
            self.rows[: len(drawn)] = self._put(drawn)
            self.length[:] = len(drawn)
            self.place[:] = 0

    def take(self, tokens: int) -> Any:
        """Choices of the next tokens, [tokens, k]."""
        if tokens > len(self.span):  # a long prompt: never part of a captured graph
            self.span = self._put(np.arange(tokens))
        ids = self.rows[(self.place + self.span[:tokens]) % self.length]
        self.place += tokens
        return ids

    def touched(self, start: int, tokens: int) -> int:
        """Distinct experts of the tokens handed out from place `start` on. [-]"""
        return len(np.unique(self.drawn[(start + np.arange(tokens)) % len(self.drawn)]))


class Strategy:
    """The engine's routing strategy: tables by (N, k), and the calls since the last count."""

    def __init__(self, parameters: tuple[float, float, float], seed: int) -> None:
        self.routing = Routing("engine", *parameters)
        self.uniform = not any(parameters)
        self.rng = np.random.default_rng(seed)
        self.tables: dict[tuple[int, int], Table] = {}
        self.calls: list[tuple[Table, int]] = []
        self.batch, self.per_sequence = TABLE_ROWS, 1

    def route_tokens(
        self, hidden_states: Any, router_logits: Any, top_k: int, indices_type: Any = None
    ) -> tuple[Any, Any]:
        """(weights, ids) of each token, as the engine's interface wants them."""
        import torch

        shape, tokens = (int(router_logits.shape[-1]), int(top_k)), int(hidden_states.shape[0])
        if shape not in self.tables:
            self.tables[shape] = Table(shape, hidden_states.device)
            self.tables[shape].fill(self._draw(shape))
        table = self.tables[shape]
        self.calls.append((table, tokens))
        ids = table.take(tokens)
        weights = torch.full((tokens, top_k), 1.0 / top_k, dtype=torch.float32, device=hidden_states.device)
        return weights, ids if indices_type is None else ids.to(indices_type)

    def _draw(self, shape: tuple[int, int]) -> np.ndarray:
        """Choices [rows, k] of whole steps, B sequences of q tokens, each step drawn on its own."""
        steps = max(1, TABLE_ROWS // (self.batch * self.per_sequence))
        if self.uniform:
            drawn = draw_routing(self.rng, steps * self.batch * self.per_sequence, 1, *shape)
        else:
            sizes = (self.batch, self.per_sequence, *shape)
            drawn = np.concatenate([draw_routing(self.rng, *sizes, self.routing) for _ in range(steps)])
        return drawn.reshape(-1, shape[1])[:TABLE_ROWS].astype(np.int32)

    def prepare(self, batch: int, per_sequence: int) -> None:
        """New choices for steps of B sequences of q tokens. Called between steps."""
        self.batch, self.per_sequence, self.calls = batch, per_sequence, []
        for shape, table in self.tables.items():
            table.fill(self._draw(shape))

    def law(self) -> float:
        """Mean distinct experts of a step of the shape prepared: the uniform law, or the mean of fresh draws. [-]"""
        if not self.tables:
            return 0.0
        n_experts, n_active = next(iter(self.tables))
        if self.uniform:
            return float(n_experts * (1 - (1 - n_active / n_experts) ** (self.batch * self.per_sequence)))
        sizes = (self.batch, self.per_sequence, n_experts, n_active)
        return mean_touched(self.rng, *sizes, self.routing, draws=LAW_DRAWS)

    def counted(self, tokens: int) -> list[int]:
        """Distinct experts of each layer's call that carried `tokens` tokens since the last count. [-]

        Under a captured graph no call reaches Python: then the rows that the device went through are counted.
        """
        calls, self.calls = self.calls, []
        found = []
        for table, count in calls:
            if count == tokens:
                found.append(table.touched(table.counted_to, count))
            table.counted_to += count
        for table in self.tables.values():
            place = int(table.place[0])
            if not calls:
                starts = range(table.counted_to, place - tokens + 1, tokens)
                found += [table.touched(start, tokens) for start in starts]
            table.counted_to = place
        return found
