"""Runs in a process of its own, with an engine's unpacked wheel first on the path: cases in as
JSON, its sizes out.

A case is a server (admitted requests, K, largest size, list, accelerator); the answer are the sizes
that the engine's own functions make of it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tools.engine_code import stubs

TOKENS = 16_384
"""max_num_batched_tokens of a case: no size is cut for it."""
GIB = 1024.0
"""SGLang tells memory in MiB. [MiB]"""


def _any_version(package: str) -> str:
    """Version of an installed package; a far one of a stub, which old releases ask for when they
    are imported."""
    try:
        return _VERSION(package)
    except importlib.metadata.PackageNotFoundError:
        return "99.0.0"


_VERSION = importlib.metadata.version


def main() -> None:
    importlib.metadata.version = _any_version
    engine = sys.argv[1]
    sizes_of = {"vllm": vllm, "sglang": sglang}[engine]()
    found = []
    for case in json.load(sys.stdin):
        try:
            found.append(list(map(int, sizes_of(case))))
        except Exception as error:  # whatever the engine's code raises is the finding
            found.append(f"{type(error).__name__}: {error}"[:300])
    json.dump({"results": found, "stubs": sorted(stubs.USED)}, sys.stdout)


def vllm() -> Callable[[dict[str, Any]], list[int]]:
    stubs.install("vllm", ("vllm.ir",))
    import vllm.platforms as platforms
    from vllm.platforms.interface import UnspecifiedPlatform

    platforms._current_platform = UnspecifiedPlatform()
    from vllm.config.compilation import CompilationConfig, CUDAGraphMode
    from vllm.config.vllm import VllmConfig

    def sizes_of(case: dict[str, Any]) -> list[int]:
        q = int(case["q"])
        family = 100 if case["blackwell"] else 90
        current = SimpleNamespace(is_device_capability_family=lambda asked: asked == family)
        platforms._current_platform = current
        graphs = SimpleNamespace(
            cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
            max_cudagraph_capture_size=case.get("largest"),
            cudagraph_capture_sizes=case.get("sizes"),
            pass_config=SimpleNamespace(enable_sp=False, enable_sequence_parallelism=False),
            post_init_cudagraph_sizes=lambda: None,
            compute_bs_to_padded_graph_size=lambda: None,
        )
        server = SimpleNamespace(
            model_config=SimpleNamespace(enforce_eager=False),
            compilation_config=graphs,
            scheduler_config=SimpleNamespace(
                max_num_seqs=case["admitted"], max_num_batched_tokens=TOKENS
            ),
            parallel_config=SimpleNamespace(tensor_parallel_size=1),
            performance_mode="balanced",
            num_speculative_tokens=q - 1,
            uniform_decode_query_len=q,
            speculative_config=_drafts(q) if q > 1 else None,
        )
        VllmConfig._set_cudagraph_sizes(server)
        if q > 1:
            adjust = CompilationConfig.adjust_cudagraph_sizes_for_spec_decode
            # Releases before 0.33 are given the tensor-parallel ranks, too.
            try:
                adjust(graphs, *((q, 1) if adjust.__code__.co_argcount == 3 else (q,)))
            except ValueError as error:
                # It does not start with so few requests at so long a draft.
                if "No valid cudagraph sizes" not in str(error):
                    raise
                return []
        return list(graphs.cudagraph_capture_sizes)

    return sizes_of


def _drafts(q: int) -> SimpleNamespace:
    return SimpleNamespace(
        num_speculative_tokens=q - 1, uses_dynamic_speculative_decoding=lambda: False
    )


def sglang() -> Callable[[dict[str, Any]], list[int]]:
    stubs.install("sglang", ("sglang.srt.utils.hf_transformers_patches",))
    import sglang.srt.platforms as platforms
    from sglang.srt.platforms.cpu import CpuSRTPlatform

    platforms._current_platform = CpuSRTPlatform()
    from sglang.srt.arg_groups import cuda_graph_hook, memory_hook

    def sizes_of(case: dict[str, Any]) -> list[int]:
        decode = SimpleNamespace(max_bs=case.get("largest"), bs=None)
        config = SimpleNamespace(decode=decode, prefill=SimpleNamespace(max_bs=None, bs=None))
        server = SimpleNamespace(
            cuda_graph_config=config,
            chunked_prefill_size=8192,
            device="cuda",
            tp_size=case["n_gpus"],
            disable_cuda_graph_padding=False,
            speculative_algorithm="EAGLE3" if case["q"] > 1 else None,
            max_running_requests=None,
        )
        for module in (cuda_graph_hook, memory_hook):
            module.resolving_view = lambda given: given
        memory_hook.get_device_memory_capacity = lambda _: case["memory_gib"] * GIB
        most: list[int] = []

        def largest(_: Any, size: int) -> list[int]:
            most.append(size)
            raise _Found

        own = cuda_graph_hook.generate_decode_cuda_graph_batch_sizes
        cuda_graph_hook.generate_decode_cuda_graph_batch_sizes = largest
        try:
            memory_hook.handle_gpu_memory_settings(server)
        except _Found:
            pass
        finally:
            cuda_graph_hook.generate_decode_cuda_graph_batch_sizes = own
        return [size * int(case["q"]) for size in own(server, most[0])]

    return sizes_of


class _Found(Exception):
    """The engine's code got as far as the largest size."""


if __name__ == "__main__":
    main()
