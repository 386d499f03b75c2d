"""A package `vllm` with the interface that `advisor.profiling.vllm_host` drives, and known host times.

`schedule` takes 1 ms a sequence, `update_from_output` 0.5 ms an emitted token. Nothing here was copied from vLLM.
"""

from __future__ import annotations

from pathlib import Path

SCHEDULE_S, UPDATE_S = 1e-3, 5e-4

SOURCE = """
import time
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any

__version__ = "0.0.stub"


def config(name, *names):
    return make_dataclass(name, [(each, Any, None) for each in names], kw_only=True)


ModelConfig = config("ModelConfig", "model", "tokenizer", "skip_tokenizer_init", "dtype", "max_model_len", "seed")
SchedulerConfig = config("SchedulerConfig", "max_num_seqs", "max_num_batched_tokens", "async_scheduling")
CacheConfig = config("CacheConfig", "block_size", "enable_prefix_caching")
SpeculativeConfig = config("SpeculativeConfig", "method", "num_speculative_tokens", "prompt_lookup_max")
DeviceConfig = config("DeviceConfig", "device")
SamplingParams = config("SamplingParams", "max_tokens", "ignore_eos", "temperature")


class VllmConfig:
    def __init__(self, model_config, scheduler_config, cache_config, device_config, speculative_config=None):
        if REFUSES and speculative_config and scheduler_config.async_scheduling:
            raise ValueError("n-grams want synchronous scheduling")
        self.scheduler_config, self.speculative_config = scheduler_config, speculative_config


@dataclass
class Request:
    request_id: str
    prompt_token_ids: list
    sampling_params: Any
    pooling_params: Any
    prefilled: bool = False
    spec: list = field(default_factory=list)


@dataclass
class ModelRunnerOutput:
    req_ids: list
    req_id_to_index: dict
    sampled_token_ids: list
    logprobs: Any = None
    prompt_logprobs_dict: dict = field(default_factory=dict)
    pooler_output: list = field(default_factory=list)


@dataclass
class DraftTokenIds:
    req_ids: list
    draft_token_ids: list


@dataclass
class FullAttentionSpec:
    block_size: int
    num_kv_heads: int
    head_size: int
    dtype: Any


@dataclass
class KVCacheGroupSpec:
    layer_names: list
    kv_cache_spec: Any


@dataclass
class KVCacheConfig:
    num_blocks: int
    kv_cache_tensors: list
    kv_cache_groups: list


class StructuredOutputManager:
    def __init__(self, vllm_config):
        pass


def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    time.sleep(WAITS)


class Scheduler:
    overlapped = False

    def __init__(self, vllm_config, kv_cache_config, structured_output_manager, log_stats=False):
        assert vllm_config.scheduler_config.async_scheduling is self.overlapped
        self.k = vllm_config.speculative_config.num_speculative_tokens if vllm_config.speculative_config else 0
        self.requests = {}

    def add_request(self, request):
        self.requests[request.request_id] = request

    def schedule(self):
        work(SCHEDULE_S * len(self.requests))
        tokens, drafts = {}, {}
        for name, request in self.requests.items():
            tokens[name] = 1 + len(request.spec) if request.prefilled else len(request.prompt_token_ids)
            if request.spec:
                drafts[name] = request.spec
            request.prefilled = True
            request.spec = [-1] * self.k if self.overlapped else []
        return SimpleNamespace(num_scheduled_tokens=tokens, scheduled_spec_decode_tokens=drafts)

    def update_from_output(self, output, result):
        emitted = sum(map(len, result.sampled_token_ids))
        work(UPDATE_S * emitted)
        lost = LOSES
        outputs = [SimpleNamespace(new_token_ids=ids[lost:]) for ids in result.sampled_token_ids]
        return {0: SimpleNamespace(outputs=outputs)}

    def update_draft_token_ids(self, drafts):
        for name, ids in zip(drafts.req_ids, drafts.draft_token_ids):
            self.requests[name].spec = ids


class AsyncScheduler(Scheduler):
    overlapped = True


class MsgpackEncoder:
    def encode(self, message):
        return [b""]
"""

PLACES = (
    *("config", "sampling_params", "v1.request", "v1.outputs", "v1.structured_output", "v1.kv_cache_interface"),
    *("v1.core.sched.async_scheduler", "v1.core.sched.scheduler", "v1.serial_utils"),
)


def install(folder: Path, *, without: str = "", loses: int = 0, refuses: bool = False, waits: float = 0.0) -> Path:
    """Write the package below `folder`; `without` leaves a module out, `loses` drops tokens of every output.

    waits: time for which another process has the core in every part of a step. [s]
    """
    root = folder / "vllm"
    root.mkdir(parents=True)
    constants = (
        f"SCHEDULE_S, UPDATE_S, LOSES, REFUSES = {SCHEDULE_S}, {UPDATE_S}, {loses}, {refuses}\nWAITS = {waits}\n"
    )
    (root / "stub.py").write_text(constants + SOURCE)
    (root / "__init__.py").write_text("from vllm.stub import __version__\n")
    for place in PLACES:
        if place == without:
            continue
        path = root.joinpath(*place.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from vllm.stub import *\n")
    return folder
