"""MoE blocks over k, tokens and touched experts, and passes of 1 to 1024 tokens part by part.

The same number of tokens is passed as plain decoding (each of its own sequence) and as verification
(q of each), so that attention, LM head, sampler and expert kernels can be told apart: published
speedups cannot do that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from advisor.profiling.kernels_moe import (
    TOLERANCE,
    Alignment,
    Choice,
    Kernel,
    MoeLayer,
    alignment_of,
    available_kernels,
    checked_error,
    make_choice,
    make_layer,
    random_tensor,
    reference,
    run_layer,
)
from advisor.profiling.plan import Block, alignment_points, verify_shapes
from advisor.profiling.routing_draw import Routing, draw_typical, mean_touched, touched
from advisor.profiling.steps import Session, Stage, redraw
from advisor.profiling.timing import (
    Case,
    Context,
    brief_seconds,
    capture,
    failed_row,
    measured_rows,
    pass_columns,
    sample,
    tried,
    verify,
)


class MoeSweep:
    """One block's layers and points. Builds the case of a point for a kernel."""

    def __init__(self, block: Block, context: Context) -> None:
        self.block = block
        self.context = context
        self.params = block.params
        params = block.params
        self.dtype = getattr(torch, params["dtype"])
        self.token_dtype = torch.bfloat16 if self.dtype == torch.float8_e4m3fn else self.dtype
        expert = 3 * params["hidden_size"] * params["expert_width"] * self.dtype.itemsize
        context.require_bytes(1.3 * params["layers"] * params["n_experts"] * expert, block.name)
        n_experts = params["n_experts"]
        width = params["expert_width"]
        hidden = params["hidden_size"]
        shared = params["shared_width"]
        self.layers = [
            make_layer(n_experts, width, hidden, shared, self.dtype, context.torch_device)
            for _ in range(params["layers"])
        ]
        self._targets: dict[str, float] = {}

    def columns(self, point: list[Any], kernel: str) -> dict[str, Any]:
        """Identity of a result row."""
        k, batch, per_sequence, routing = point
        params = self.params
        names = ("n_experts", "expert_width", "hidden_size", "shared_width", "dtype", "like")
        columns = pass_columns(self.block.name, "moe_layer", kernel, batch, per_sequence, routing)
        columns |= {
            "n_active": k,
            "expert_pool": routing.get("expert_pool", 0),
            "n_layers": params["layers"],
        }
        return {name: params[name] for name in names} | columns

    def account(self, point: list[Any], touched_experts: float | None) -> tuple[float, float]:
        """Bytes and operations of a point: weights of touched and shared experts once, activations
        in and out."""
        k, batch, per_sequence, _ = point
        tokens = batch * per_sequence
        params = self.params
        hidden = params["hidden_size"]
        width = params["expert_width"]
        shared = params["shared_width"]
        weights = (
            3
            * hidden
            * (
                width * (touched_experts or 0.0) * self.dtype.itemsize
                + shared * self.token_dtype.itemsize
            )
        )
        activations = tokens * k * (2 * hidden + 4 * width) + tokens * (
            2 * hidden + (4 * shared if shared else 0)
        )
        return float(weights + self.token_dtype.itemsize * activations), float(
            6.0 * tokens * hidden * (k * width + shared)
        )

    def draw(self, point: list[Any], rng: np.random.Generator) -> np.ndarray:
        """Fresh expert ids [T, k] whose touched count is close to the point's mean."""
        k, batch, per_sequence, how = point
        routing = Routing(**how)
        n = self.params["n_experts"]
        key = repr(point)
        if key not in self._targets:
            self._targets[key] = mean_touched(rng, batch, per_sequence, n, k, routing)
        ids = draw_typical(rng, batch, per_sequence, n, k, routing, target=self._targets[key])
        return ids.reshape(batch * per_sequence, k)

    def case(self, point: list[Any], name: str, kernel: Kernel) -> Case:
        """The checked, warmed-up and where possible captured case. Raises ValueError when the
        output is wrong."""
        _, batch, per_sequence, _ = point
        tokens = batch * per_sequence
        context = self.context
        x = random_tensor(
            (tokens, self.params["hidden_size"]), 1.0, self.token_dtype, context.torch_device
        )
        choices = self._choices(point)
        columns = self.columns(point, name) | {
            "checked_error": self._check(point, kernel, x, choices[-1])
        }
        case = self._captured(
            columns,
            point,
            choices,
            lambda layer, choice: run_layer(kernel, x, layer, choice),
            name != "expert_loop",
        )
        case.account = lambda touched_experts: self.account(point, touched_experts)
        return case

    def _choices(self, point: list[Any]) -> list[Choice]:
        k, batch, per_sequence, _ = point
        return [
            make_choice(batch * per_sequence, k, self.token_dtype, self.context.torch_device)
            for _ in self.layers
        ]

    def _captured(
        self,
        columns: dict[str, Any],
        point: list[Any],
        choices: list[Choice],
        run: Callable[[MoeLayer, Choice], Any],
        wanted: bool = True,
    ) -> Case:
        """The case of a call on all layers, each with fresh routing before it, whose touched
        experts are counted.

        On an accelerator all layers run in one graph, where it can be captured; on a CPU one after
        the other.
        """
        together = self.context.accelerator
        turn = [0]

        def prepare(rng: np.random.Generator) -> float:
            turn[0] = (turn[0] + 1) % len(self.layers)
            fresh = choices if together else [choices[turn[0]]]
            draws = [self.draw(point, rng) for _ in fresh]
            for choice, ids in zip(fresh, draws, strict=True):
                choice.fill(ids)
            return float(np.mean([touched(ids) for ids in draws]))

        def one() -> None:
            run(self.layers[turn[0]], choices[turn[0]])

        def every() -> None:
            for layer, choice in zip(self.layers, choices, strict=True):
                run(layer, choice)

        prepare(self.context.rng)
        call, mode, reason = capture(every if together else one, self.context, wanted=wanted)
        return Case(
            columns | {"mode": mode},
            call,
            prepare,
            len(self.layers) if together else 1,
            notes=[reason],
        )

    def alignment_case(self, point: list[Any], name: str, alignment: Alignment) -> Case:
        """The alignment of a kernel alone, once for each layer of the layer's own case. Checked on
        fresh routing."""
        choices = self._choices(point)
        choices[-1].fill(self.draw(point, self.context.rng))
        check_alignment(choices[-1], *alignment(self.layers[-1], choices[-1]))
        return self._captured(
            self.columns(point, name) | {"op": "moe_align"}, point, choices, alignment
        )

    def _check(self, point: list[Any], kernel: Kernel, x: torch.Tensor, choice: Choice) -> float:
        """Largest relative error against float64 on fresh routing. Touched experts asserted on the
        device."""
        ids = self.draw(point, self.context.rng)
        choice.fill(ids)
        on_device = int(torch.unique(choice.ids).numel())
        if on_device != touched(ids) or any(len(set(line)) != len(line) for line in ids.tolist()):
            raise ValueError(
                f"routing arrived wrong: {on_device} experts touched, {touched(ids)} drawn"
            )
        count = min(len(ids), 12 if self.context.accelerator else 3)
        rows = sorted(self.context.rng.choice(len(ids), count, replace=False).tolist())
        out = run_layer(kernel, x, self.layers[-1], choice)
        expected = reference(x, self.layers[-1], choice, rows)
        return checked_error(out[rows], expected, TOLERANCE[self.params["dtype"]])


def check_alignment(choice: Choice, pairs: torch.Tensor, ends: torch.Tensor) -> None:
    """Raises ValueError where pairs, with the end of each expert's part, are not all pairs by
    expert."""
    ids = choice.ids.flatten()
    counts = torch.bincount(ids, minlength=len(ends))
    if not torch.equal(ids[pairs.long()], ids.sort().values) or not torch.equal(
        pairs.long().sort().values.cpu(), torch.arange(len(ids))
    ):
        raise ValueError("wrong alignment: the pairs are not grouped by expert")
    if not torch.equal(ends.long(), counts.cumsum(0)):
        raise ValueError("wrong alignment: the ends are not those of the experts' parts")


def _probes(points: list[list[Any]]) -> list[list[Any]]:
    """A small and a middle point of a block, where kernels are compared. First k of the middle of
    the list."""
    by_tokens = sorted(points, key=lambda point: (point[1] * point[2], point[0]))
    few = [point for point in by_tokens if point[1] * point[2] <= 64] or by_tokens
    return [few[len(few) // 4], few[-1]] if len(few) > 1 else few


def _probe_seconds(
    sweep: MoeSweep, probes: list[list[Any]], name: str, kernel: Kernel
) -> list[float]:
    return [brief_seconds(sweep.case(point, name, kernel), sweep.context) for point in probes]


def _try_kernels(
    sweep: MoeSweep, probes: list[list[Any]], rows: list[dict[str, Any]]
) -> tuple[dict[str, float], dict[str, Kernel]]:
    """Mean log time of each working kernel at the probes. What does not work becomes a row that
    says why."""
    context = sweep.context
    scores: dict[str, float] = {}
    working: dict[str, Kernel] = {}
    for name, kernel in available_kernels(context, sweep.params["dtype"]).items():
        identity = {
            "block": sweep.block.name,
            "op": "moe_layer",
            "kernel": name,
            "dtype": sweep.params["dtype"],
        }
        if isinstance(kernel, str):
            rows.append(failed_row(identity, "unavailable", kernel))
            continue
        times = tried(
            partial(_probe_seconds, sweep, probes, name, kernel),
            identity,
            rows,
            context,
            "wrong",
            name,
        )
        if times is not None:
            scores[name] = float(np.mean(np.log(times)))
            working[name] = kernel
    return scores, working


def measure_moe(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows of a MoE block, the other kernels at probe points. Raises RuntimeError where no kernel
    is right."""
    rows: list[dict[str, Any]] = []
    sweep = MoeSweep(block, context)
    points = block.params["points"]
    probes = _probes(points)
    scores, working = _try_kernels(sweep, probes, rows)
    if not working:
        raise RuntimeError(
            "no kernel gave a right result: " + "; ".join(str(row["notes"]) for row in rows)
        )
    best = min(scores, key=lambda name: scores[name])
    cases = _layer_cases(sweep, best, working, probes, rows) + _alignment_cases(
        sweep, best, working, rows
    )
    return measured_rows(cases, context) + rows


def _layer_cases(
    sweep: MoeSweep,
    best: str,
    working: dict[str, Kernel],
    probes: list[list[Any]],
    rows: list[dict[str, Any]],
) -> list[Case]:
    """Every point with the best kernel, the probe points with the others too."""
    requested = [(point, best) for point in sweep.params["points"]]
    requested += [(point, name) for name in working if name != best for point in probes]
    cases: list[Case] = []
    for point, name in requested:
        columns = sweep.columns(point, name)  # a new shape may be compiled
        case = tried(
            partial(sweep.case, point, name, working[name]),
            columns,
            rows,
            sweep.context,
            kernel=name,
        )
        if case is not None:
            case.notes += ["fastest at the probe sizes"] if name == best else []
            cases.append(case)
    return cases


def _alignment_cases(
    sweep: MoeSweep, best: str, working: dict[str, Kernel], rows: list[dict[str, Any]]
) -> list[Case]:
    """The alignment at some points: the best kernel's, else that of one that has its own."""
    name = next((name for name in (best, *working) if alignment_of(name)), None)
    alignment = alignment_of(name) if name else None
    if name is None or alignment is None:
        return []
    cases = []
    for point in alignment_points(sweep.params["points"]):
        columns = sweep.columns(point, name) | {"op": "moe_align"}
        case = tried(
            partial(sweep.alignment_case, point, name, alignment),
            columns,
            rows,
            sweep.context,
            "wrong",
            name,
        )
        cases += [case] if case else []
    return cases


LAYERS = "layers"
HEAD = "layers+head"
"""Names of the two parts without a sampler; with one it is appended: `layers+head+greedy`."""
CHECKED_VOCABULARY = 4096
"""Rows of the LM head that are checked against float64: all of them would need gigabytes. [-]"""


def measure_verify_parts(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows by (token count, tokens of each sequence, part). Parts of one shape are timed in the
    same rounds."""
    params = block.params
    # Kernels are compared at the middle token count and all queries.
    n_tokens = sorted(params["tokens"])[len(params["tokens"]) // 2]
    n_queries = max(q for q in params["queries"] if q <= n_tokens)
    stage = Stage(block, context, params["n_layers"], (max(n_tokens // n_queries, 1), n_queries))
    rows: list[dict[str, Any]] = []
    for n_tokens in params["tokens"]:  # one token count at a time: its caches fit, then go
        cases: list[Case] = []
        for batch, n_queries in verify_shapes(params | {"tokens": [n_tokens]}):
            columns = stage.columns("verify_parts", batch, n_queries, stage.n_layers)
            cases += tried(partial(_cases, stage, batch, n_queries), columns, rows, context) or []
        rows += measured_rows(cases, context)
        context.graphs.drop()
    return rows + stage.rows


def _cases(stage: Stage, batch: int, n_queries: int) -> list[Case]:
    """A case for each part of one shape. They share a session, hence routing and caches."""
    session = stage.model.session(batch, n_queries, stage.block.params["context"], stage.n_layers)
    error = max(stage.check_chosen(session), _head_error(stage, session))
    cases = []
    for part, call in _parts(stage, session).items():
        run, mode, reason = stage.capture(call)
        columns = stage.columns("verify_parts", batch, n_queries, stage.n_layers)
        columns |= {"part": part, "mode": mode, "checked_error": error}
        if n_queries > 1:
            columns["n_draft"] = n_queries - 1
        account = partial(stage.account, batch, n_queries, stage.n_layers) if part == HEAD else None
        cases.append(
            Case(
                columns,
                run,
                lambda rng: redraw(stage.dims, session, rng),
                account=account,
                notes=[reason],
            )
        )
    return cases


def _parts(stage: Stage, session: Session) -> dict[str, Callable[[], Any]]:
    """The calls by part. Drafts are random, which costs what right ones cost: all shapes are
    fixed."""
    model = stage.model
    (batch, n_queries) = session.tokens.shape
    drafted = torch.randint(model.dims.vocabulary, (batch, n_queries - 1), device=model.device)
    states = torch.empty(
        batch * n_queries, model.dims.hidden, dtype=model.dims.dtype, device=model.device
    )
    tokens = torch.zeros(batch, n_queries, dtype=torch.int64, device=model.device)

    def logits() -> torch.Tensor:
        return F.linear(model.hidden(session, stage.moe, stage.attention), model.head)

    def layers() -> None:
        states.copy_(model.hidden(session, stage.moe, stage.attention))

    def sampled(sampler: str) -> None:
        values = logits()
        tokens.copy_(
            verify(values, drafted, sampler)[1]
            if n_queries > 1
            else sample(values, sampler)[:, None]
        )

    parts: dict[str, Callable[[], Any]] = {LAYERS: layers, HEAD: logits}
    return parts | {
        f"{HEAD}+{name}": partial(sampled, name) for name in stage.block.params["samplers"]
    }


def _head_error(stage: Stage, session: Session) -> float:
    """Relative error of the LM head over its first rows against float64. Raises ValueError when it
    is too large."""
    hidden = stage.model.hidden(session, stage.moe, stage.attention)[-2:]
    head = stage.model.head[:CHECKED_VOCABULARY]
    expected = hidden.double() @ head.double().T
    tolerance = TOLERANCE[stage.block.params["dtype"]]
    return checked_error(
        F.linear(hidden, stage.model.head)[:, :CHECKED_VOCABULARY], expected, tolerance, "LM head"
    )
