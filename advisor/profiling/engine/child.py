"""The process beside the engine: starts it, times its steps one by one, writes one line for each
finished repeat.

Runs in the engine's own Python (`python -m
advisor.profiling.engine.child request.json
lines.jsonl`) with numpy alone besides the
engine. Nothing here prints; whatever the engine says goes to the log.

It makes the engine use the expert choices of the plan, and counts what they touched. vLLM asks a
registered strategy for each layer's experts where VLLM_MOE_ROUTING_SIMULATION_STRATEGY names it.
Ours hands out rows of a table drawn beforehand, with the wanted skew and correlation. Table and
place lie on the device and are changed in place, so that a captured graph goes through them as
well.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.device import found
from advisor.profiling.engine.plan import (
    LOST,
    NGRAM_WORDS,
    Cell,
    Plan,
    RandomDrafter,
    Work,
    layer_block,
    routing_parameters,
    speculative_config,
)
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
        self.shape = shape
        self.device = device
        self.drawn = np.zeros((TABLE_ROWS, shape[1]), np.int32)
        self.rows = self._put(self.drawn)
        self.place = self._put(np.zeros(1, np.int64))
        self.length = self._put(np.full(1, TABLE_ROWS))
        self.span = self._put(np.arange(TABLE_ROWS))
        self.counted_to = 0

    def _put(self, values: np.ndarray) -> Any:
        import torch

        return torch.as_tensor(values.copy(), device=self.device)

    def fill(self, drawn: np.ndarray) -> None:
        """Take other choices, at most TABLE_ROWS, and begin with the first."""
        import torch

        self.drawn = drawn
        self.counted_to = 0
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
        self.batch = TABLE_ROWS
        self.per_sequence = 1

    def route_tokens(
        self, hidden_states: Any, router_logits: Any, top_k: int, indices_type: Any = None
    ) -> tuple[Any, Any]:
        """(weights, ids) of each token, as the engine's interface wants them."""
        import torch

        shape = (int(router_logits.shape[-1]), int(top_k))
        tokens = int(hidden_states.shape[0])
        if shape not in self.tables:
            self.tables[shape] = Table(shape, hidden_states.device)
            self.tables[shape].fill(self._draw(shape))
        table = self.tables[shape]
        self.calls.append((table, tokens))
        ids = table.take(tokens)
        weights = torch.full(
            (tokens, top_k), 1.0 / top_k, dtype=torch.float32, device=hidden_states.device
        )
        return weights, ids if indices_type is None else ids.to(indices_type)

    def _draw(self, shape: tuple[int, int]) -> np.ndarray:
        """Choices [rows, k] of whole steps, B sequences of q tokens, each step drawn on its own."""
        steps = max(1, TABLE_ROWS // (self.batch * self.per_sequence))
        if self.uniform:
            drawn = draw_routing(self.rng, steps * self.batch * self.per_sequence, 1, *shape)
        else:
            sizes = (self.batch, self.per_sequence, *shape)
            drawn = np.concatenate(
                [draw_routing(self.rng, *sizes, self.routing) for _ in range(steps)]
            )
        return drawn.reshape(-1, shape[1])[:TABLE_ROWS].astype(np.int32)

    def prepare(self, batch: int, per_sequence: int) -> None:
        """New choices for steps of B sequences of q tokens. Called between steps."""
        self.batch = batch
        self.per_sequence = per_sequence
        self.calls = []
        for shape, table in self.tables.items():
            table.fill(self._draw(shape))

    def law(self) -> float:
        """Mean distinct experts of a step of the shape prepared: the uniform law, or the mean of
        fresh draws. [-]"""
        if not self.tables:
            return 0.0
        n_experts, n_active = next(iter(self.tables))
        if self.uniform:
            return float(
                n_experts * (1 - (1 - n_active / n_experts) ** (self.batch * self.per_sequence))
            )
        sizes = (self.batch, self.per_sequence, n_experts, n_active)
        return mean_touched(self.rng, *sizes, self.routing, draws=LAW_DRAWS)

    def counted(self, tokens: int) -> list[int]:
        """Distinct experts of each layer's call that carried `tokens` tokens since the last count.
        [-]

        Under a captured graph no call of a table reaches Python: then the rows that the device went
        through are counted, whatever other tables were asked for.
        """
        calls = self.calls
        called = {table for table, _ in calls}
        self.calls = []
        touched_counts = []
        for table, count in calls:
            if count == tokens:
                touched_counts.append(table.touched(table.counted_to, count))
            table.counted_to += count
        for table in self.tables.values():
            place = int(table.place[0])
            if table not in called:
                starts = range(table.counted_to, place - tokens + 1, tokens)
                touched_counts += [table.touched(start, tokens) for start in starts]
            table.counted_to = place
        return touched_counts


_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
WARM_STEPS = 2
"""Steps after the first tokens that are not timed. [-]"""
LEAST_CHUNK = 2048
"""Tokens that an engine puts into one step at least, unless `max_num_batched_tokens` says less.
[tokens]"""
MEMORY_SHARE = 0.9
"""Part of a GPU's memory that the engines of a run take together. [-]"""


class Engine:
    """vLLM in this process, driven step by step."""

    def __init__(
        self, plan: Plan, folder: Path, strategy: Strategy | None, layers: int = 0
    ) -> None:
        import vllm

        self.plan = plan
        self.strategy = strategy
        positions = layer_block(plan.model)[1].get("max_position_embeddings") or sys.maxsize
        self.longest = min(
            positions, max(cell.context + most_tokens(plan, cell) for cell in plan.cells)
        )
        arguments: dict[str, Any] = {
            "model": plan.checkpoint or str(folder / f"model{layers or ''}"),
            "load_format": "auto" if plan.checkpoint else "dummy",
            "skip_tokenizer_init": True,
            "enable_prefix_caching": False,
            "max_num_seqs": max(plan.batches),
            "max_model_len": self.longest,
            "seed": plan.seed,
            "disable_log_stats": True,
        }
        if layers:
            arguments["gpu_memory_utilization"] = MEMORY_SHARE / len(plan.engines)
        on_processor = _reach(vllm, "platforms.current_platform.is_cpu")
        if strategy is not None and on_processor and on_processor():
            arguments["enforce_eager"] = (
                True  # compiled there, a step does not go through Python, which deals experts
            )
        config = speculative_config(plan, str(folder / f"head{layers or ''}"))
        if config is not None:
            arguments["speculative_config"] = config
        self.llm = vllm.LLM(**(arguments | plan.engine_args))
        self.sampling = found("vllm.sampling_params:SamplingParams", "vllm:SamplingParams")
        self.engine = self.llm.llm_engine
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self.vocabulary = int(self.engine.vllm_config.model_config.get_vocab_size())
        self.rng = np.random.default_rng(plan.seed)
        self.count = 0
        self.scheduled = list[int]()
        schedule = self.scheduler.schedule

        def watched(*arguments: Any, **keywords: Any) -> Any:
            """Note how many tokens of each sequence a step carries: whether all decode, and K is
            obeyed."""
            output = schedule(*arguments, **keywords)
            self.scheduled = list(output.num_scheduled_tokens.values())
            return output

        self.scheduler.schedule = watched

    def facts(self) -> dict[str, Any]:
        """Facts that the engine tells of itself. "" for what this version does not tell."""
        import vllm

        config = self.engine.vllm_config
        worker = _reach(self.engine, "engine_core.engine_core.model_executor.driver_worker")
        runner = _reach(worker, "worker.model_runner") or _reach(worker, "model_runner")
        layers = list(
            getattr(_reach(config, "compilation_config.static_forward_context"), "values", list)()
        )
        graphs = _reach(config, "compilation_config.cudagraph_mode")
        graphs = str(getattr(graphs, "name", graphs or "NONE"))
        device = str(_reach(config, "device_config.device_type") or "")
        dtype = str(_reach(config, "model_config.dtype")).removeprefix("torch.")
        cache = str(_reach(config, "cache_config.cache_dtype") or "auto")
        quantised = _reach(config, "model_config.quantization")
        blocks = (
            "_block"
            if quantised == "fp8" and _reach(config, "quant_config.weight_block_size")
            else ""
        )
        weight_dtype = f"{quantised}{blocks}" if quantised else _DTYPES.get(dtype, dtype)
        sizes = _reach(config, "compilation_config.cudagraph_capture_sizes")
        runner_class = f"{type(runner).__module__}.{type(runner).__name__}" if runner else ""
        backends = {*map(_backend, layers)} - {""}
        expert_kernels = {*map(_experts, layers)} - {""}
        ranks = int(_reach(config, "parallel_config.tensor_parallel_size") or 1)
        spreads_experts = _reach(config, "parallel_config.enable_expert_parallel")
        facts: dict[str, Any] = {
            "engine": "vllm",
            "engine_version": str(getattr(vllm, "__version__", "")),
            "async_scheduling": bool(_reach(config, "scheduler_config.async_scheduling")),
            "eager": bool(_reach(config, "model_config.enforce_eager")),
            "graph_mode": graphs,
            "captured_sizes": list(sizes or []),
        }
        return facts | {
            "runner": runner_class,
            "attention_backend": ", ".join(sorted(backends)),
            "expert_kernel": ", ".join(sorted(expert_kernels)),
            "weight_dtype": weight_dtype,
            "kv_dtype": "" if cache == "auto" else _DTYPES.get(cache, cache),
            "tensor_parallel": ranks,
            "expert_parallel": ranks if spreads_experts else 1,
            "device": device,
            "captured": None if device == "cpu" else graphs != "NONE",
        }

    def measure(self, work: Work) -> dict[str, Any]:
        """One repeat of one cell: prompts, warm steps, timed steps.

        Raises RuntimeError where K cannot be switched, and what the engine raises.
        """
        cell = work.cell
        plan = self.plan
        lookup = getattr(self.scheduler, "dynamic_sd_lookup", None)
        if lookup is not None:
            lookup[:] = [cell.n_draft] * len(lookup)
        elif cell.n_draft:
            raise RuntimeError(
                "this engine has no table of K by batch (dynamic_sd_lookup): K cannot be switched"
            )
        RandomDrafter.n_draft = cell.n_draft
        names = [f"{self.count}-{index}" for index in range(cell.batch)]
        self.count += 1
        tokens: dict[str, int] = {}
        start = time.perf_counter()
        words = NGRAM_WORDS if plan.drafter == "ngram" else self.vocabulary
        for name in names:
            prompt = self.rng.integers(0, words, cell.context).tolist()
            self.engine.add_request(name, {"prompt_token_ids": prompt}, self._sampling(cell))
        while len(tokens) < cell.batch:
            self._step(tokens)
        line: dict[str, Any] = {"prefill_s": time.perf_counter() - start}
        if self.strategy:
            self.strategy.prepare(cell.batch, cell.n_draft + 1)
        for _ in range(WARM_STEPS):
            self._step(tokens)
        line |= self._timed(cell, tokens)
        self.engine.abort_request(names)
        while self.engine.has_unfinished_requests():
            self.engine.step()
        emitted = line.pop("emitted")
        line["accepted"] = emitted / (cell.batch * plan.steps)
        line["context"] = cell.context + (sum(tokens.values()) - emitted / 2) / cell.batch
        return line

    def _timed(self, cell: Cell, tokens: dict[str, int]) -> dict[str, Any]:
        times = []
        carried = []
        touched = []
        short = 0
        if self.strategy:
            self.strategy.counted(cell.tokens)
        before = sum(tokens.values())
        for _ in range(self.plan.steps):
            start = time.perf_counter()
            self._step(tokens)
            times.append(time.perf_counter() - start)
            carried.append(sum(self.scheduled))
            # A sequence that ended is missing; one still at its prompt carries more than K drafts
            # and a token.
            short += len(self.scheduled) != cell.batch or max(self.scheduled) > cell.n_draft + 1
            if self.strategy and carried[-1]:
                touched += self.strategy.counted(carried[-1])
        return {
            "times": times,
            "tokens": float(np.median(carried)),
            "short": short,
            "touched": [float(np.mean(touched))] if touched else [],
            "law": self.strategy.law() if self.strategy else 0.0,
            "experts": list(next(iter(self.strategy.tables), ())) if self.strategy else [],
            "emitted": sum(tokens.values()) - before,
        }

    def _step(self, tokens: dict[str, int]) -> None:
        """One step of the engine. `tokens` is each request's number of tokens so far."""
        self.scheduled = []
        for output in self.engine.step():
            tokens[output.request_id] = len(output.outputs[0].token_ids)

    def _sampling(self, cell: Cell) -> Any:
        most = max(1, min(most_tokens(self.plan, cell), self.longest - cell.context))
        parameters: dict[str, Any] = {
            "max_tokens": most,
            "ignore_eos": True,
            "temperature": 1.0,
            "detokenize": False,
        }
        if self.plan.drafter == "ngram":
            parameters["allowed_token_ids"] = list(range(NGRAM_WORDS))
        return self.sampling(**parameters)


def most_tokens(plan: Plan, cell: Cell) -> int:
    """Most tokens that a sequence of the cell may emit before its last timed step. [tokens]

    Prompts are read in chunks: the first ones decode while the last ones are read.
    """
    chunk = int(plan.engine_args.get("max_num_batched_tokens", LEAST_CHUNK))
    reading = math.ceil(cell.batch * cell.context / max(chunk - cell.tokens, chunk // 4, 1))
    return (reading + WARM_STEPS + plan.steps + 4) * (cell.n_draft + 1)


def _reach(thing: Any, path: str) -> Any:
    """Attribute at the end of a dotted path. None where it ends early."""
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


def _backend(layer: Any) -> str:
    backend = getattr(layer, "attn_backend", None) or getattr(layer, "backend", None)
    name = getattr(backend, "get_name", None)
    version = _reach(layer, "impl.vllm_flash_attn_version")
    return str(name() if name else getattr(backend, "name", backend or "")) + (
        f" {version}" if version else ""
    )


def _experts(layer: Any) -> str:
    """Class that computes a MoE layer's experts. "" of another layer."""
    method = getattr(layer, "_quant_method", None) or getattr(layer, "quant_method", None)
    return str(getattr(_reach(method, "experts_cls"), "__name__", ""))


def install(plan: Plan) -> Strategy | None:
    """Register our routing with the engine. None for real routing, which is neither replaced nor
    counted."""
    if plan.routing == "natural":
        return None
    simulator = found(
        "vllm.model_executor.layers.fused_moe.router.routing_simulator_router:RoutingSimulator",
        "vllm.model_executor.layers.fused_moe.routing_simulator:RoutingSimulator",
    )
    strategy = Strategy(routing_parameters(plan.routing), plan.seed)
    simulator.register_strategy(NAME, strategy)
    return strategy


def main(arguments: list[str]) -> int:
    """Measure what is left of the request's plan until its deadline. 0 when there is nothing more
    to do here."""
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    path = Path(arguments[1])
    plan_values: dict[str, Any] = request["plan"]
    plan_values |= {
        name: tuple(value) for name, value in plan_values.items() if isinstance(value, list)
    }
    plan = Plan(**plan_values)
    lines: list[dict[str, Any]] = request["lines"]
    deadline = request["deadline"]
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    if plan.routing != "natural":
        os.environ["VLLM_MOE_ROUTING_SIMULATION_STRATEGY"] = NAME
    with path.open("a", encoding="utf-8") as stream:
        stream.write("\n")  # an earlier process may have been cut off in the middle of a line

        def say(**line: Any) -> None:
            lines.append(line)
            stream.write(json.dumps(line | {"at": round(time.time(), 3)}) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

        began = time.monotonic()
        strategy = install(plan)
        engines = {layers: Engine(plan, path.parent, strategy, layers) for layers in plan.engines}
        say(
            started=engines[plan.engines[-1]].facts()
            | {"start_s": round(time.monotonic() - began, 3)}
        )
        while time.time() < deadline and (left := plan.left(lines)):
            for work in left:
                if time.time() >= deadline:
                    break
                cell = [work.cell.batch, work.cell.n_draft, work.cell.context]
                say(begin=work.id, cell=cell)
                try:
                    measured = engines[work.layers].measure(work)
                    say(
                        id=work.id,
                        cell=cell,
                        control=work.control >= 0,
                        layers=work.layers,
                        **measured,
                    )
                except Exception as error:
                    why = f"{type(error).__name__}: {error}".split("\n")[0][:300]
                    memory = isinstance(error, MemoryError) or "out of memory" in why.lower()
                    say(failed="out_of_memory" if memory else "error", cell=cell, why=why)
                    return LOST
        say(ended=engines[plan.engines[-1]].facts())
    return 0


if __name__ == "__main__":
    code = 1
    try:
        code = main(sys.argv[1:])
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an engine's threads would keep the process alive
