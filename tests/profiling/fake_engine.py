"""A package `vllm` with the interface that `advisor.profiling.engine` drives: steps of known
length, faults on demand.

FAULT in the environment: `start` dies at its start, `hang:B`, `die:B` and `memory:B` at that batch,
`one_expert` ignores the routing it was given, `no_k` drafts nothing whatever K is, `ends` ends each
sequence at two tokens, `graph` replays what a capture holds,
`pause:FILE` waits once a time stands in that file. It has no FLASHINFER, and takes
TRITON_ATTN where FLASHMLA is asked for. Nothing here was copied from vLLM.
"""

from __future__ import annotations

from pathlib import Path

STEP_S = 2e-3
TOKEN_S = 1e-4
"""A step of B sequences and K drafts sleeps STEP_S + TOKEN_S B (K + 1), for LAYERS layers. [s]"""
N_EXPERTS = 64
N_ACTIVE = 4
LAYERS = 3
ENGINE = f"""
import json, os, time
from types import SimpleNamespace as Thing
from vllm.model_executor.layers.fused_moe.router.routing_simulator_router import RoutingSimulator
__version__ = "0.0.fake"
platforms = Thing(current_platform=Thing(is_cpu=lambda: True))
NAME, _, AT = os.environ.get("FAULT", "").partition(":")


class Logits:
    def __init__(self, *shape):
        self.shape, self.device = shape, None


class Scheduler:
    def __init__(self, llm, most, budget):
        self.llm, self.dynamic_sd_lookup, self.budget = llm, [most] * 65, budget

    def schedule(self):
        # Sequences that decode first, then as much of the prompts as one step may carry.
        k = 0 if NAME == "no_k" else self.dynamic_sd_lookup[len(self.llm.requests)]
        tokens, left = {{}}, self.budget
        for name, one in sorted(self.llm.requests.items(), key=lambda item: item[1].read < len(item[1].prompt)):
            tokens[name] = min(left, k + 1 if one.tokens else len(one.prompt) - one.read)
            left -= tokens[name]
        return Thing(num_scheduled_tokens={{name: count for name, count in tokens.items() if count}})


class LLM:
    def __init__(self, model, **arguments):
        print("fake engine starts", sorted(arguments))
        if NAME == "start":
            raise RuntimeError("no device to be found")
        with open(os.path.join(model, "config.json")) as file:
            config = json.load(file)
        self.layers, stored = config.get("num_hidden_layers", {LAYERS}), config.get("quantization_config", {{}})
        asked = arguments.get("attention_config", {{"backend": "CPU_ATTN"}})
        if asked["backend"] == "FLASHINFER":
            raise ValueError("Selected backend FLASHINFER is not valid for this configuration")
        backend = asked["backend"].replace("FLASHMLA", "TRITON_ATTN")
        experts = Thing(_quant_method=Thing(experts_cls=Scheduler))
        attention = Thing(
            attn_backend=Thing(get_name=lambda: backend),
            impl=Thing(vllm_flash_attn_version=asked.get("flash_attn_version")),
        )
        self.arguments, self.requests, self.llm_engine = arguments, {{}}, self
        most = (arguments.get("speculative_config") or {{}}).get("num_speculative_tokens", 0)
        budget = arguments.get("max_num_batched_tokens", 2048)
        self.engine_core = Thing(engine_core=Thing(scheduler=Scheduler(self, most, budget)))
        self.vllm_config = Thing(
            model_config=Thing(
                get_vocab_size=lambda: 100,
                dtype="torch.bfloat16",
                enforce_eager=arguments.get("enforce_eager", False),
                quantization=stored.get("quant_method"),
            ),
            quant_config=Thing(weight_block_size=stored.get("weight_block_size")),
            compilation_config=Thing(static_forward_context={{"attn": attention, "experts": experts}}),
            scheduler_config=Thing(async_scheduling=False),
            device_config=Thing(device_type="cpu"),
        )

    def add_request(self, name, prompt, sampling):
        assert len(prompt["prompt_token_ids"]) + sampling.max_tokens <= self.arguments["max_model_len"]
        self.requests[name] = Thing(prompt=prompt["prompt_token_ids"], tokens=[], read=0, most=sampling.max_tokens)

    def abort_request(self, names):
        for name in names:
            self.requests.pop(name, None)

    def has_unfinished_requests(self):
        return bool(self.requests)

    def step(self):
        scheduled = self.engine_core.engine_core.scheduler.schedule().num_scheduled_tokens
        batch, tokens = len(scheduled), sum(scheduled.values())
        if NAME == "pause" and os.path.exists(AT) and '"times"' in open(AT).read():
            time.sleep(600)
        if NAME and AT.isdigit() and batch == int(AT):
            if NAME == "hang":
                time.sleep(600)
            if NAME == "die":
                os._exit(41)
            if NAME == "memory":
                raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        for _ in range(self.layers):
            RoutingSimulator.strategy.route_tokens(Logits(tokens, 8), Logits(tokens, {N_EXPERTS}), {N_ACTIVE})
        if NAME == "graph":  # no call reaches Python: the rows that the table handed out are what is left
            RoutingSimulator.strategy.calls.clear()
        time.sleep({STEP_S} + {TOKEN_S} * tokens * self.layers / {LAYERS})
        said = []
        for name, count in scheduled.items():
            one = self.requests[name]
            one.read += count
            if one.read >= len(one.prompt):
                one.tokens.append(1)
                said.append(Thing(request_id=name, outputs=[Thing(token_ids=list(one.tokens))]))
            if len(one.tokens) == (2 if NAME == "ends" else one.most):
                self.requests.pop(name)
        return said


class SamplingParams:
    def __init__(self, max_tokens, ignore_eos, temperature, detokenize):
        assert ignore_eos and max_tokens
        self.max_tokens = max_tokens
"""  # noqa: E501
ROUTER = """
import os


class RoutingSimulator:
    strategy = None

    @classmethod
    def register_strategy(cls, name, strategy):
        assert os.environ["VLLM_MOE_ROUTING_SIMULATION_STRATEGY"] == name
        if os.environ.get("FAULT") == "one_expert":
            drawn = strategy._draw
            strategy._draw = lambda shape: drawn(shape)[:1].repeat(8192, 0)
        cls.strategy = strategy
"""
TORCH = """
import contextlib
import numpy
int32, int64, float32 = numpy.int32, numpy.int64, numpy.float32
inference_mode = contextlib.nullcontext


def as_tensor(values, dtype=None, device=None):
    return numpy.asarray(values, dtype)


def full(shape, value, dtype=None, device=None):
    return numpy.full(shape, value, dtype)
"""


def install(folder: Path) -> Path:
    """Write the package, and the few functions of torch that it wants, into a folder for
    PYTHONPATH."""
    router = folder / "vllm" / "model_executor" / "layers" / "fused_moe" / "router"
    router.mkdir(parents=True)
    for package in (router, *router.parents[:3]):
        (package / "__init__.py").write_text("", encoding="utf-8")
    (router / "routing_simulator_router.py").write_text(ROUTER, encoding="utf-8")
    (folder / "vllm" / "__init__.py").write_text(ENGINE, encoding="utf-8")
    (folder / "vllm" / "sampling_params.py").write_text(
        "from vllm import SamplingParams\n", encoding="utf-8"
    )
    (folder / "torch.py").write_text(TORCH, encoding="utf-8")
    return folder
