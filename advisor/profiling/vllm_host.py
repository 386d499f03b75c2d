"""Drives the scheduler of an installed vLLM without a model or a device, and times it: the child of `engine_host`.

`python -m advisor.profiling.vllm_host REQUEST ANSWER` reads a JSON request and appends a JSON line for every measured
point to ANSWER. Schedulers, requests and the KV cache manager are vLLM's own; what the model runner would return is
made up, since only the time of the host's own work is asked for. Parameters are passed by the names that the installed
version's signatures have, and each step is checked to have scheduled and emitted what was meant, so that a version
with another interface ends in a message, never in a number.

Host time of an engine's scheduler, measured in a process of its own on whatever vLLM is installed here.

No accelerator is needed, and none is touched. Where vLLM is missing or has another interface, one row says so.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from advisor.profiling.device import InterfaceError, found
from advisor.profiling.plan import Block
from advisor.profiling.timing import Context, StoppedError, failed_row

BLOCK_TOKENS = 16
"""Tokens of a block of the KV cache, vLLM's default. [-]"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "float16",
    "vocab_size": 32000,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 2**17,
}
"""A model of no weight: the scheduler asks a model's configuration for its longest context and little else."""


def accepted(call: Callable[..., Any], **wanted: Any) -> Any:
    """Call a function with those of `wanted` that its signature has."""
    names = inspect.signature(call).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values()):
        return call(**wanted)
    return call(**{name: value for name, value in wanted.items() if name in names})


class Engine:
    """The installed vLLM's classes, found once, and configurations made of them."""

    def __init__(self, folder: Path) -> None:
        import vllm

        self.version = str(getattr(vllm, "__version__", "unknown"))
        config = "vllm.config"
        self.configs = {
            name: found(f"{config}:{name}")
            for name in ("ModelConfig", "SchedulerConfig", "CacheConfig", "SpeculativeConfig", "DeviceConfig")
        }
        self.vllm_config = found(f"{config}:VllmConfig")
        (folder / "config.json").write_text(json.dumps(CONFIG))
        self.folder = str(folder)
        self.sampling_params = found("vllm.sampling_params:SamplingParams", "vllm:SamplingParams")
        self.request = found("vllm.v1.request:Request")
        self.model_output = found("vllm.v1.outputs:ModelRunnerOutput")
        self.draft_ids = found("vllm.v1.outputs:DraftTokenIds")
        self.structured = found("vllm.v1.structured_output:StructuredOutputManager")
        self.schedulers = {
            "async": found("vllm.v1.core.sched.async_scheduler:AsyncScheduler"),
            "sync": found("vllm.v1.core.sched.scheduler:Scheduler"),
        }

    def config(self, point: Point) -> Any:
        """A VllmConfig for one point. Drafts come from n-grams, the drafter that needs no second model.

        Older versions refuse n-grams with asynchronous scheduling, since their worker cannot do it; their scheduler
        can, and no worker runs here, so there the setting is made afterwards.
        """
        overlapped = point.scheduler == "async"
        try:
            return self._config(point, overlapped)
        except ValueError:
            if not (overlapped and point.n_draft):
                raise
        config = self._config(point, False)
        config.scheduler_config.async_scheduling = True
        return config

    def _config(self, point: Point, overlapped: bool) -> Any:
        made = self.configs
        model = accepted(
            made["ModelConfig"],
            model=self.folder,
            tokenizer=self.folder,
            skip_tokenizer_init=True,
            dtype="float16",
            max_model_len=point.length,
            seed=0,
        )
        scheduler = accepted(
            made["SchedulerConfig"],
            max_num_seqs=point.batch,
            max_num_batched_tokens=point.batch * point.length,
            max_model_len=point.length,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=overlapped,
        )
        cache = accepted(
            made["CacheConfig"], block_size=BLOCK_TOKENS, enable_prefix_caching=True, swap_space=0, cache_dtype="auto"
        )
        cache.num_gpu_blocks = point.blocks
        parts = {"model_config": model, "scheduler_config": scheduler, "cache_config": cache}
        if point.n_draft:
            parts["speculative_config"] = accepted(
                made["SpeculativeConfig"],
                method="ngram",
                model="ngram",
                num_speculative_tokens=point.n_draft,
                prompt_lookup_max=2,
                prompt_lookup_min=1,
            )
        return accepted(self.vllm_config, **parts, device_config=accepted(made["DeviceConfig"], device="cpu"))

    def scheduler(self, point: Point) -> Any:
        """vLLM's scheduler for one point, over a cache of one full-attention layer."""
        import torch

        config = self.config(point)
        interface = "vllm.v1.kv_cache_interface"
        spec = accepted(
            found(f"{interface}:FullAttentionSpec"),
            block_size=BLOCK_TOKENS,
            num_kv_heads=1,
            head_size=64,
            dtype=torch.float16,
            use_mla=False,
        )
        group = found(f"{interface}:KVCacheGroupSpec")(["layer"], spec)
        cache = accepted(
            found(f"{interface}:KVCacheConfig"),
            num_blocks=point.blocks,
            kv_cache_tensors=[],
            tensors={},
            kv_cache_groups=[group],
        )
        return accepted(
            self.schedulers[point.scheduler],
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=self.structured(config),
            block_size=BLOCK_TOKENS,
            hash_block_size=BLOCK_TOKENS,
            log_stats=True,
        )

    def block_hasher(self) -> Any:
        """Hasher of full blocks for prefix caching, on by default in a server. None where this version hides it."""
        try:
            by_name = found("vllm.utils.hashing:get_hash_fn_by_name", "vllm.utils:get_hash_fn_by_name")
            core = "vllm.v1.core.kv_cache_utils"
            function = by_name("sha256")
            found(f"{core}:init_none_hash")(function)
            return found(f"{core}:get_request_block_hasher")(BLOCK_TOKENS, function)
        except InterfaceError:
            return None

    def encoder(self) -> Any:
        """Encoder of a step's outputs for the API process. None where this version hides it."""
        try:
            return found("vllm.v1.serial_utils:MsgpackEncoder")()
        except InterfaceError:
            return None

    def requests(self, point: Point) -> list[Any]:
        """Requests with prompts of their own that never end by themselves."""
        sampling = accepted(self.sampling_params, max_tokens=point.length, ignore_eos=True, temperature=0.8)
        hasher = self.block_hasher()
        return [
            accepted(
                self.request,
                request_id=str(index),
                prompt_token_ids=[index % 31991 + 7] * point.prompt,
                sampling_params=sampling,
                pooling_params=None,
                block_hasher=hasher,
                eos_token_id=2,
                multi_modal_inputs=None,
                mm_features=None,
                arrival_time=0.0,
                client_index=0,
            )
            for index in range(point.batch)
        ]


class Point:
    """One configuration: sequences, drafts of each, tokens each emits a step, and the steps to time. [-]"""

    def __init__(self, scheduler: str, sizes: list[int], request: dict[str, Any]) -> None:
        self.scheduler = scheduler
        self.batch, self.n_draft, self.emitted = sizes
        self.prompt, self.steps, self.warm = request["prompt_tokens"], request["steps"], request["warm_steps"]
        longest = self.prompt + (self.steps + self.warm + 4) * max(self.emitted, 1) + 4 * (self.n_draft + 1)
        self.length = -(-longest // BLOCK_TOKENS) * BLOCK_TOKENS
        self.blocks = self.batch * (self.length // BLOCK_TOKENS + 2) + 16


class Loop:
    """vLLM's step loop with the device taken out. `step` returns the time of each part. [s]"""

    def __init__(self, engine: Engine, point: Point) -> None:
        self.engine, self.point = engine, point
        self.scheduler = engine.scheduler(point)
        self.encoder = engine.encoder()
        self.waiting: deque[Any] = deque()
        for request in engine.requests(point):
            self.scheduler.add_request(request)

    def step(self) -> dict[str, float] | None:
        """One step: schedule, and take in the output of the step before last (async) or of this one (sync)."""
        spent: dict[str, float] = {}
        output = timed(spent, "schedule", self.scheduler.schedule)
        self.waiting.append(output)
        if self.point.scheduler == "async" and len(self.waiting) < 2:
            return None
        output = self.waiting.popleft()
        emitted = {name: self._emits(output, name) for name in output.num_scheduled_tokens}
        result = self._model_output(emitted)
        answer = timed(spent, "update_from_output", lambda: self.scheduler.update_from_output(output, result))
        if self.point.scheduler == "sync" and self.point.n_draft:
            drafts = self.engine.draft_ids(list(emitted), [[5] * self.point.n_draft for _ in emitted])
            timed(spent, "update_draft_token_ids", lambda: self.scheduler.update_draft_token_ids(drafts))
        messages = list(answer.values()) if isinstance(answer, dict) else [answer]
        if self.encoder is not None:
            timed(spent, "encode_message", lambda: [self.encoder.encode(message) for message in messages])
        self._check(output, messages, sum(emitted.values()))
        return spent

    def _emits(self, output: Any, name: str) -> int:
        drafted = output.scheduled_spec_decode_tokens.get(name)
        return self.point.emitted if drafted else 1

    def _model_output(self, emitted: dict[str, int]) -> Any:
        names = list(emitted)
        return accepted(
            self.engine.model_output,
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[[9] * count for count in emitted.values()],
            spec_token_ids=None,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )

    def _check(self, output: Any, messages: list[Any], emitted: int) -> None:
        """The step must have carried what was meant, or its time stands for something else."""
        self.scheduled = sum(output.num_scheduled_tokens.values())
        given = sum(len(one.new_token_ids) for message in messages for one in message.outputs)
        if given != emitted:
            raise InterfaceError(f"the scheduler emitted {given} tokens in a step, {emitted} were meant")


def timed(spent: dict[str, float], part: str, call: Callable[[], Any]) -> Any:
    """Call a function and add its processor time to `spent`.

    The wall's goes to the entry WALL. [s]

    A scheduler waits for nothing, so on a quiet machine the two are one; on a busy one the wall's also counts the
    processes that ran in between.
    """
    wall, start = time.perf_counter(), time.thread_time()
    result = call()
    spent[part] = time.thread_time() - start
    spent[WALL] = spent.get(WALL, 0.0) + time.perf_counter() - wall
    return result


WALL = "wall"
"""Entry that collects the wall's time of all parts of a step."""


def control() -> int:
    """A fixed piece of Python, timed beside every step: what tells one machine's core from another's."""
    table = {index: index * 3 for index in range(2000)}
    return sum(table[index] for index in range(0, 2000, 3))


def measure(engine: Engine, point: Point) -> dict[str, list[float]]:
    """Times of each part by step, once all sequences are in steady decoding. [s]

    Raises InterfaceError where a step schedules another number of tokens than was meant.
    """
    loop = Loop(engine, point)
    for _ in range(point.warm):
        loop.step()
    gc.collect()
    gc.freeze()  # as vLLM does when it starts
    parts: dict[str, list[float]] = {}
    meant = point.batch * (point.n_draft + 1)
    for _ in range(point.steps):
        beside: dict[str, float] = {}
        control()  # so that what the step left of the caches does not count
        timed(beside, "python_control", control)
        spent = loop.step()
        del beside[WALL]
        if spent is None or loop.scheduled != meant:
            raise InterfaceError(
                f"{loop.scheduled if spent else 0} tokens were scheduled in a step, {meant} were meant"
            )
        own = sum(seconds for part, seconds in spent.items() if part not in ("encode_message", WALL))
        for part, seconds in (spent | {"sum": own} | beside).items():
            parts.setdefault(part, []).append(seconds)
    gc.unfreeze()
    return parts


def main(arguments: list[str]) -> int:
    """Measure the points of the request. 0 when the answer says what there is to say, a reason included."""
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with Path(arguments[1]).open("a", encoding="utf-8") as answer, tempfile.TemporaryDirectory() as folder:

        def say(**line: Any) -> None:
            answer.write(json.dumps(line) + "\n")
            answer.flush()

        if importlib.util.find_spec("vllm") is None:
            say(unavailable="vLLM is not installed here: nothing of its scheduler was timed")
            return 0
        try:
            engine = Engine(Path(folder))
        except Exception as error:
            say(unavailable=f"the installed vLLM cannot be driven: {type(error).__name__}: {error}")
            return 0
        say(version=engine.version)
        for scheduler in request["schedulers"]:
            for sizes in request["points"]:
                identity = {"scheduler": scheduler, "name": engine.schedulers[scheduler].__name__, "sizes": sizes}
                try:
                    say(**identity, parts=measure(engine, Point(scheduler, sizes, request)))
                except Exception as error:
                    say(**identity, error=f"{type(error).__name__}: {error}")
    return 0


ENGINE = "vllm"
POLL_S = 0.1
BUSY = 1.15
"""Wall time over processor time of a step above which a row says so: other processes ran in between. [-]"""
OUT_OF_TIME = "ran out of time"


def measure_engine_host(block: Block, context: Context) -> list[dict[str, Any]]:
    """Rows of an engine's own time between steps, or one row with the reason for none.

    They differ in scheduler, batch, drafts, emitted tokens and part of the step.

    Raises StoppedError on request, and when time runs out before the first point.
    """
    with tempfile.TemporaryDirectory() as scratch:
        request, answer, log = (Path(scratch) / name for name in ("request.json", "answer.jsonl", "log"))
        request.write_text(json.dumps(block.params), encoding="utf-8")
        answer.touch()
        ended = _run([str(request), str(answer)], log, context)
        lines = _lines(answer)
        common = {"block": block.name, "op": "engine_host", "engine": ENGINE}
        if not any("sizes" in line for line in lines) and ended == OUT_OF_TIME:
            raise StoppedError("time limit reached")
        if not lines:
            return [failed_row(common, "error", f"the process that drives the scheduler {ended}: {_last_line(log)}")]
    rows = rows_of(common, lines)
    return [*rows, failed_row(common, "error", f"not all points: the process {ended}")] if ended else rows


def rows_of(common: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Result rows of the child's answer: a median over steps for each part, or why there is none."""
    rows: list[dict[str, Any]] = []
    version, first_control = "", 0.0
    for line in lines:
        version = line.get("version", version)
        identity = common | {"engine_version": version}
        if "unavailable" in line:
            rows.append(failed_row(identity, "unavailable", line["unavailable"]))
        if "sizes" not in line:
            continue
        batch, n_draft, emitted = line["sizes"]
        identity |= {"kernel": f"{ENGINE}.{line['name']}", "batch_size": batch, "tokens_per_sequence": n_draft + 1}
        identity |= {"n_tokens": batch * (n_draft + 1), "n_draft": n_draft, "accepted_length": float(emitted)}
        if "error" in line:
            rows.append(failed_row(identity, "error", line["error"]))
            continue
        control = float(np.median(line["parts"]["python_control"]))
        first_control = first_control or control
        wall = float(np.median(line["parts"].pop("wall")))
        busy = wall / float(np.median(line["parts"]["sum"]))
        rows += [
            identity | {"part": part, "control_ratio": control / first_control} | _quantiles(samples, busy)
            for part, samples in line["parts"].items()
        ]
    return rows


def _quantiles(samples_s: list[float], busy: float) -> dict[str, Any]:
    samples = np.asarray(samples_s)
    names = ("time_p20_s", "time_s", "time_p80_s")
    times = {name: float(np.quantile(samples, level)) for name, level in zip(names, (0.2, 0.5, 0.8), strict=True)}
    note = "processor time; the device is taken out: model outputs are made up, the host's own work is the engine's"
    note += f"; by the wall's clock a step took {busy:.2f} times as long" if busy > BUSY else ""
    return times | {"n_rounds": len(samples), "status": "ok", "notes": note}


def _run(arguments: list[str], log: Path, context: Context) -> str:
    """Run the child to its end. "" when it ended well, else how it ended. Raises StoppedError on request."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "advisor.profiling.vllm_host", *arguments]
    with log.open("wb") as stream:
        child = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stdout=stream, stderr=stream)
        try:
            while child.poll() is None:
                if context.should_stop():
                    raise StoppedError("stopped on request")
                if time.monotonic() > context.deadline_s:
                    return OUT_OF_TIME
                time.sleep(POLL_S)
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
    return "" if child.returncode == 0 else f"ended with status {child.returncode}"


def _lines(answer: Path) -> list[dict[str, Any]]:
    """The child's whole lines. One that was cut off when it was ended is left out."""
    lines = []
    for text in answer.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
