"""Whole steps and whole speculative rounds of the synthetic transformer, and the speedup they give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from advisor.profiling.graphs import capture
from advisor.profiling.kernel_choice import available_kernels
from advisor.profiling.kernels_attention import Attention, attention_kernels
from advisor.profiling.kernels_moe import Kernel, checked_error
from advisor.profiling.plan import Block
from advisor.profiling.synthetic import Dimensions, Drafter, Session, SyntheticModel, accept, redraw, reference_hidden
from advisor.profiling.timing import Case, Context, brief_seconds, measure, row_of, tried

STEP_TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}
"""Whole-pass tolerance: rounding of up to eight layers adds up, so three times the single layer's or more. [-]"""


class Stage:
    """A synthetic model on a device with the kernels that were fastest for it."""

    def __init__(self, block: Block, context: Context, n_layers: int, probe: tuple[int, int] | None = None) -> None:
        self.block, self.context = block, context
        self.dims = Dimensions(block.params)
        context.require_bytes(1.4 * self.dims.model_bytes(n_layers), block.name)
        self.model = SyntheticModel(self.dims, n_layers, context.torch_device)
        self.n_layers = n_layers
        self.rows: list[dict[str, Any]] = []
        self.moe_name, self.moe, self.attention_name, self.attention = self._choose(*(probe or _probe(block.params)))

    @property
    def kernel(self) -> str:
        """Name for the result's kernel column."""
        return f"moe:{self.moe_name}+attention:{self.attention_name}"

    def _choose(self, batch: int, queries: int) -> tuple[str, Kernel, str, Attention]:
        """The fastest right kernels for a whole pass of `queries` tokens of each of `batch` sequences."""
        session = self.model.session(batch, queries, self.block.params["context"], min(2, self.n_layers))
        dim = self.dims.head_dim
        attentions = attention_kernels(self.context, power_of_two=dim & (dim - 1) == 0)
        usable = {name: kernel for name, kernel in attentions.items() if not isinstance(kernel, str)}
        moes = {n: k for n, k in available_kernels(self.context).items() if not isinstance(k, str)}
        first = usable.get("two_products") or next(iter(usable.values()))
        if self.context.accelerator and len(moes) > 1:  # cannot be captured, so it cannot be the fastest
            moes.pop("expert_loop", None)
        moe_name = self._best({n: (k, first) for n, k in moes.items()}, session)
        attention_name = self._best({n: (moes[moe_name], a) for n, a in usable.items()}, session)
        return moe_name, moes[moe_name], attention_name, usable[attention_name]

    def _best(self, candidates: dict[str, tuple[Kernel, Attention]], session: Session) -> str:
        times: dict[str, float] = {}
        for name, (moe, attention) in candidates.items():
            self.context.on_kernel(name)
            columns = {"block": self.block.name, "op": self.block.op, "kernel": name}
            seconds = tried(
                partial(self._pass_seconds, name, moe, attention, session), columns, self.rows, self.context
            )
            if seconds is not None:
                times[name] = seconds
        self.context.on_kernel("")
        if not times:
            raise RuntimeError("no kernel gave a right whole pass: " + str(self.rows[-1]["notes"]))
        return min(times, key=lambda name: times[name])

    def _pass_seconds(self, name: str, moe: Kernel, attention: Attention, session: Session) -> float:
        self.check(session, moe, attention)
        forward = partial(self.model.forward, session, moe, attention)
        call, _, _ = capture(forward, self.context, wanted=name != "expert_loop")
        return brief_seconds(Case({}, call, lambda rng: redraw(self.dims, session, rng)), self.context)

    def capture(self, call: Callable[[], Any]) -> tuple[Callable[[], Any], str, str]:
        """Capture a call that uses the chosen kernels, by `timing.capture`."""
        return capture(call, self.context, wanted=self.moe_name != "expert_loop")

    def check_chosen(self, session: Session) -> float:
        """Check the chosen kernels as `check` does.

        They may be compiled for this shape, so the limit for that holds.
        """
        self.context.on_kernel(self.moe_name)
        try:
            return self.check(session, self.moe, self.attention)
        finally:
            self.context.on_kernel("")

    def check(self, session: Session, moe: Kernel, attention: Attention) -> float:
        """Relative error of a whole pass against float64, last sequence. Raises ValueError when too large."""
        redraw(self.dims, session, self.context.rng)
        hidden = self.model.hidden(session, moe, attention)
        n_queries = session.tokens.shape[1]
        wanted, tolerance = reference_hidden(self.model, session), STEP_TOLERANCE[self.block.params["dtype"]]
        return checked_error(hidden[-n_queries:], wanted, tolerance, "output of a whole pass")

    def columns(self, op: str, batch: int, n_queries: int, n_layers: int) -> dict[str, Any]:
        """Identity of a result row."""
        params = self.block.params
        names = ("n_experts", "n_active", "expert_width", "shared_width", "hidden_size", "n_heads", "n_kv_heads")
        routing = params["routing"]
        return {name: params[name] for name in (*names, "head_dim", "vocab_size", "dtype", "like")} | {
            "block": self.block.name,
            "op": op,
            "kernel": self.kernel,
            "batch_size": batch,
            "tokens_per_sequence": n_queries,
            "n_tokens": batch * n_queries,
            "context_tokens": params["context"],
            "n_layers": n_layers,
            "routing": routing["name"],
            "load_cv": routing.get("load_cv", 0.0),
            "affinity": routing.get("affinity", 0.0),
            "stickiness": routing.get("stickiness", 0.0),
        }

    def account(self, batch: int, n_queries: int, n_layers: int, touched: float | None) -> tuple[float, float]:
        """(bytes, flops) of a pass: weights of layers and head once, KV caches once. Small activations left out."""
        d, tokens, size = self.dims, batch * n_queries, self.dims.dtype.itemsize
        context = self.block.params["context"]
        attention = d.hidden * d.head_dim * (2 * d.heads + 2 * d.kv_heads)
        routed = 3 * d.hidden * d.expert_width
        fixed = attention + 3 * d.hidden * d.shared_width + d.experts * d.hidden
        head = d.vocabulary * d.hidden
        kv = 2 * batch * context * d.kv_heads * d.head_dim
        volume = size * (n_layers * (fixed + routed * (touched or 0.0) + kv) + head)
        core = 2 * context * d.heads * d.head_dim
        work = 2 * tokens * (n_layers * (fixed + routed * d.active + core) + head)
        return float(volume), float(work)


def _probe(params: dict[str, Any]) -> tuple[int, int]:
    """(sequences, tokens of each) at which kernels are compared: the middle batch, the most queries."""
    batches = sorted(params["batches"])
    queries = max(params["queries"]) if "queries" in params else max(params["drafts"]) + 1
    return batches[len(batches) // 2], queries


def measure_steps(block: Block, context: Context) -> list[dict[str, Any]]:
    """Measure decode_step (one token a sequence) and verify_step (more).

    Both run at two depths, which give the time per layer.
    """
    params = block.params
    stage = Stage(block, context, max(params["n_layers"]))
    rows: list[dict[str, Any]] = []
    for batch in params["batches"]:  # one batch at a time: its caches fit, then go
        cases: list[Case] = []
        for n_queries in params["queries"]:
            for n_layers in params["n_layers"]:
                columns = stage.columns("verify_step", batch, n_queries, n_layers)
                case = tried(partial(_step_case, stage, batch, n_queries, n_layers), columns, rows, context)
                if case is not None:
                    cases.append(case)
        if cases:
            measure(cases, context)
            rows += [row_of(case, context) for case in cases]
    return rows + stage.rows


def _step_case(stage: Stage, batch: int, n_queries: int, n_layers: int) -> Case:
    model = stage.model
    session = model.session(batch, n_queries, stage.block.params["context"], n_layers)
    error = stage.check_chosen(session)
    call, mode, why = stage.capture(lambda: model.forward(session, stage.moe, stage.attention))
    columns = stage.columns("decode_step" if n_queries == 1 else "verify_step", batch, n_queries, n_layers)
    columns |= {"mode": mode, "checked_error": error}
    real = stage.block.params["real_n_layers"]
    note = f"{n_layers} of {real} layers, random weights" if real else "synthetic dimensions, random weights"
    return Case(
        columns,
        call,
        lambda rng: redraw(stage.dims, session, rng),
        account=lambda u: stage.account(batch, n_queries, n_layers, u),
        notes=[note, why],
    )


def expected_length(alpha: float, n_draft: int) -> float:
    """Mean tokens emitted per round when each draft is accepted with chance alpha: 1 + alpha + ... + alpha^K. [-]

    The synthetic acceptance has this mean, and a round's work does not depend on what it accepted (static shapes),
    so the expectation replaces the noisy mean of a few dozen rounds; that mean stands in the notes.
    """
    return float(sum(alpha**index for index in range(n_draft + 1)))


def measure_rounds(block: Block, context: Context) -> list[dict[str, Any]]:
    """sd_speedup by (drafter, B, K): drafting, verifying, accepting and handing the counts to the host."""
    params = block.params
    stage = Stage(block, context, params["n_layers"])
    rows: list[dict[str, Any]] = []
    drafters = {kind: Drafter(kind, stage.model) for kind in params["drafters"]}
    for batch in params["batches"]:
        plain = _plain_case(stage, batch)
        cases: list[Case] = [plain]
        counts: list[tuple[Case, list[float]]] = []
        for kind, drafter in drafters.items():
            for n_draft in params["drafts"]:
                columns = stage.columns("sd_speedup", batch, n_draft + 1, params["n_layers"])
                columns |= {"n_draft": n_draft, "drafter": kind}
                found = tried(partial(_round_cases, stage, drafter, batch, n_draft), columns, rows, context)
                if found is not None:
                    draft, speculative, emitted = found
                    cases += [draft, speculative]
                    counts.append((speculative, emitted))
        measure(cases, context)
        baseline = float(np.median(plain.samples_s))
        for case, emitted in counts:
            length = expected_length(params["alpha"], case.columns["n_draft"])
            seconds = float(np.median(case.samples_s))
            case.notes.append(f"{np.mean(emitted):.3f} tokens emitted per sequence and round")
            case.columns |= {"accepted_length": length, "baseline_time_s": baseline}
            case.columns["speedup"] = length * baseline / seconds
        rows += [row_of(case, context) for case in cases]
    return rows + stage.rows


def _plain_case(stage: Stage, batch: int) -> Case:
    """A plain step with its tokens back on the host: the arm a speculative round is compared with."""
    model, n_layers = stage.model, stage.n_layers
    session = model.session(batch, 1, stage.block.params["context"], n_layers)
    error = stage.check_chosen(session)
    token = torch.zeros(batch, dtype=torch.int64, device=model.device)

    def step() -> None:
        token.copy_(model.forward(session, stage.moe, stage.attention)[0][:, 0])

    run, mode, why = stage.capture(step)

    def whole() -> list[int]:
        run()
        return token.tolist()

    columns = stage.columns("decode_round", batch, 1, n_layers) | {"mode": mode, "checked_error": error}
    return Case(
        columns,
        whole,
        lambda rng: redraw(stage.dims, session, rng),
        host_clock=True,
        account=lambda u: stage.account(batch, 1, n_layers, u),
        notes=[why],
    )


def _round_cases(stage: Stage, drafter: Drafter, batch: int, n_draft: int) -> tuple[Case, Case, list[float]]:
    """(draft loop alone, whole round, list that collects each round's mean emitted tokens)."""
    model, params, context = stage.model, stage.block.params, stage.context
    session = model.session(batch, n_draft + 1, params["context"], stage.n_layers)
    error = stage.check_chosen(session)
    start = drafter.session(batch, params["context"], n_draft)
    hidden = torch.randn(batch, stage.dims.hidden, device=model.device).to(stage.dims.dtype)
    verdict = torch.zeros(batch, n_draft, dtype=torch.bool, device=model.device)
    counts = torch.zeros(batch, dtype=torch.int64, device=model.device)
    drafted = torch.zeros(batch, n_draft, dtype=torch.int64, device=model.device)

    def draft() -> None:
        drafted.copy_(drafter.draft(start, hidden, n_draft, stage.moe, stage.attention))

    def verify() -> None:
        session.tokens[:, 0].copy_(start.tokens[:, 0])
        session.tokens[:, 1:].copy_(drafted)
        target, states = model.forward(session, stage.moe, stage.attention)
        emitted, token, state = accept(target, states, verdict)
        counts.copy_(emitted)
        start.tokens[:, 0].copy_(token)
        hidden.copy_(state)

    run_draft, mode, why = stage.capture(draft)
    run_verify, verify_mode, verify_why = stage.capture(verify)
    emitted: list[float] = []

    def prepare(rng: np.random.Generator) -> float:
        verdict.copy_(torch.from_numpy(rng.random((batch, n_draft)) < params["alpha"]))
        if start.choices:
            redraw(stage.dims, start, rng)
        return redraw(stage.dims, session, rng)

    def whole() -> None:
        run_draft()
        run_verify()
        emitted.append(float(np.mean(counts.tolist())))

    prepare(context.rng)
    _warm(whole, context)
    emitted.clear()
    common = {"n_draft": n_draft, "drafter": drafter.kind, "acceptance": params["alpha"]}
    columns = stage.columns("sd_speedup", batch, n_draft + 1, stage.n_layers) | common
    columns |= {"mode": mode if mode == verify_mode else f"{mode}/{verify_mode}", "checked_error": error}
    draft_columns = stage.columns("draft_round", batch, 1, 1) | common | {"mode": mode}
    note = "acceptance is drawn with the given chance for each token, not judged"

    def prepare_draft(rng: np.random.Generator) -> float | None:
        return redraw(stage.dims, start, rng) if start.choices else None

    return (
        Case(draft_columns, run_draft, prepare_draft, notes=[f"{n_draft} passes", why]),
        Case(columns, whole, prepare, host_clock=True, notes=[note, why, verify_why]),
        emitted,
    )


def _warm(call: Callable[[], Any], context: Context) -> None:
    for _ in range(2):
        call()
    context.clock.synchronize()
