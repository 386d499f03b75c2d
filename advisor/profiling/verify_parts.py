"""Where the time of a verified token goes: passes of 1 to 1024 tokens without LM head, with it, and with each sampler.

The same number of tokens is passed as plain decoding (each of its own sequence) and as verification (q of each), so
that attention, LM head, sampler and expert kernels can be told apart: published speedups cannot do that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from advisor.profiling.kernels_moe import TOLERANCE, checked_error
from advisor.profiling.plan import Block
from advisor.profiling.pricing import verify_shapes
from advisor.profiling.rounds import Stage
from advisor.profiling.sampling import sample, verify
from advisor.profiling.synthetic import Session, redraw
from advisor.profiling.timing import Case, Context, measure, row_of, tried

LAYERS, HEAD = "layers", "layers+head"
"""Names of the two parts without a sampler; with one it is appended: `layers+head+greedy`."""
CHECKED_VOCABULARY = 4096
"""Rows of the LM head that are checked against float64: all of them would need gigabytes. [-]"""


def measure_verify_parts(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows by (token count, tokens of each sequence, part). Parts of one shape are timed in the same rounds."""
    params = block.params
    stage = Stage(block, context, params["n_layers"], _probe(params))
    rows: list[dict[str, Any]] = []
    for n_tokens in params["tokens"]:  # one token count at a time: its caches fit, then go
        cases: list[Case] = []
        for batch, n_queries in verify_shapes(params | {"tokens": [n_tokens]}):
            columns = stage.columns("verify_parts", batch, n_queries, stage.n_layers)
            cases += tried(partial(_cases, stage, batch, n_queries), columns, rows, context) or []
        if cases:
            measure(cases, context)
            rows += [row_of(case, context) for case in cases]
        context.graphs.drop()
    return rows + stage.rows


def _probe(params: dict[str, Any]) -> tuple[int, int]:
    """(sequences, tokens of each) at which kernels are compared: the middle token count, all queries."""
    n_tokens = sorted(params["tokens"])[len(params["tokens"]) // 2]
    n_queries = max(q for q in params["queries"] if q <= n_tokens)
    return max(n_tokens // n_queries, 1), n_queries


def _cases(stage: Stage, batch: int, n_queries: int) -> list[Case]:
    """A case for each part of one shape. They share a session, hence routing and caches."""
    session = stage.model.session(batch, n_queries, stage.block.params["context"], stage.n_layers)
    error = stage.check_chosen(session)
    error = max(error, _head_error(stage, session))
    found = []
    for part, call in _parts(stage, session).items():
        run, mode, why = stage.capture(call)
        columns = stage.columns("verify_parts", batch, n_queries, stage.n_layers)
        columns |= {"part": part, "mode": mode, "checked_error": error}
        if n_queries > 1:
            columns["n_draft"] = n_queries - 1
        account = partial(stage.account, batch, n_queries, stage.n_layers) if part == HEAD else None
        found.append(Case(columns, run, lambda rng: redraw(stage.dims, session, rng), account=account, notes=[why]))
    return found


def _parts(stage: Stage, session: Session) -> dict[str, Callable[[], Any]]:
    """The calls by part. Drafts are random, which costs what right ones cost: all shapes are fixed."""
    model, (batch, n_queries) = stage.model, session.tokens.shape
    drafted = torch.randint(model.dims.vocabulary, (batch, n_queries - 1), device=model.device)
    states = torch.empty(batch * n_queries, model.dims.hidden, dtype=model.dims.dtype, device=model.device)
    tokens = torch.zeros(batch, n_queries, dtype=torch.int64, device=model.device)

    def logits() -> torch.Tensor:
        return F.linear(model.hidden(session, stage.moe, stage.attention), model.head)

    def layers() -> None:
        states.copy_(model.hidden(session, stage.moe, stage.attention))

    def sampled(sampler: str) -> None:
        found = logits()
        tokens.copy_(verify(found, drafted, sampler)[1] if n_queries > 1 else sample(found, sampler)[:, None])

    parts: dict[str, Callable[[], Any]] = {LAYERS: layers, HEAD: logits}
    return parts | {f"{HEAD}+{name}": partial(sampled, name) for name in stage.block.params["samplers"]}


def _head_error(stage: Stage, session: Session) -> float:
    """Relative error of the LM head over its first rows against float64. Raises ValueError when it is too large."""
    hidden = stage.model.hidden(session, stage.moe, stage.attention)[-2:]
    head = stage.model.head[:CHECKED_VOCABULARY]
    wanted = hidden.double() @ head.double().T
    tolerance = TOLERANCE[stage.block.params["dtype"]]
    return checked_error(F.linear(hidden, stage.model.head)[:, :CHECKED_VOCABULARY], wanted, tolerance, "LM head")
