"""A tiny stand-in for the kernel package's folder, for the store's tests. All latencies here are
made up."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from advisor.measured.store import Store, coverage
from advisor.measured.store_tables import KernelPackage


def measured_moe(store: Store) -> pd.DataFrame:
    """What the store covers of routed experts, a row per accelerator, engine, version and
    format."""
    found = coverage(store)
    return found[found["op"] == "moe"]


LABELS = {"vllm": "VLLM", "sglang": "SGLang", "trtllm": "TRTLLM"}


def moe_rows(latencies_ms: list[float], **fixed: object) -> list[dict[str, object]]:
    """One MoE row per latency, tokens 1, 2, 4, ..."""
    shape = {
        "hidden_size": 2048,
        "inter_size": 768,
        "topk": 8,
        "num_experts": 128,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    base = {
        "op_name": "moe",
        "kernel_source": "triton",
        "moe_dtype": "bfloat16",
        "distribution": "balanced",
        **shape,
    }
    return [
        {**base, "num_tokens": 2**i, "latency": ms, **fixed} for i, ms in enumerate(latencies_ms)
    ]


def add_table(
    root: Path,
    where: str,
    table: str,
    rows: list[dict[str, object]],
    *,
    device: str = "NVIDIA H200",
    note: str = "",
) -> None:
    """Write `rows` as systems/data/<where>/<table>.parquet with the labels of its folder, and a
    collection note."""
    folder = root / "systems" / "data" / where
    folder.mkdir(parents=True, exist_ok=True)
    engine, version = Path(where).parts[2:4]
    labels = {"framework": LABELS.get(engine, engine), "version": version, "device": device}
    pq.write_table(
        pa.Table.from_pylist([{**labels, **row} for row in rows]), folder / f"{table}.parquet"
    )
    (folder / "collection_meta.yaml").write_text(
        note or f"provenance: collected\ntables:\n  {table}:\n    status: complete\n",
        encoding="utf-8",
    )


def fake_package(root: Path) -> KernelPackage:
    """H200 and GB300 MoE tables, an all-reduce, an all-to-all, latent attention, and two
    plain-decode points."""
    add_table(root, "h200_sxm/moe/vllm/1.0", "moe_perf", moe_rows([0.04, 0.06, 0.09]))
    add_table(
        root,
        "h200_sxm/moe/sglang/2.0",
        "moe_perf",
        moe_rows([0.03, 0.05, 0.08], kernel_source="flash"),
    )
    rows = [
        {
            "op_name": "all_reduce",
            "kernel_source": "graph",
            "allreduce_dtype": "bfloat16",
            "num_gpus": 8,
        }
        | {"message_size": size, "latency": ms}
        for size, ms in ((128, 0.005), (1024, 0.006))
    ]
    add_table(root, "h200_sxm/comm/vllm/1.0", "custom_allreduce_perf", rows)
    exchange = {
        "op_name": "ll",
        "kernel_source": "deepep",
        "node_num": 1,
        "hidden_size": 7168,
        "num_topk": 8,
    }
    exchange |= {
        "num_experts": 256,
        "num_token": 4,
        "dispatch_avg_t_us": 20.0,
        "combine_avg_t_us": 30.0,
    }
    add_table(root, "h200_sxm/comm/sglang/2.0", "wideep_deepep_ll_perf", [exchange])
    latent = {
        "op_name": "mla_generation",
        "kernel_source": "default",
        "mla_dtype": "bfloat16",
        "kv_cache_dtype": "fp8",
    }
    latent |= {
        "num_heads": 128,
        "batch_size": 4,
        "isl": 1,
        "tp_size": 1,
        "step": 1023,
        "latency": 0.02,
    }
    add_table(root, "h200_sxm/mla/sglang/2.0", "generation_mla_perf", [latent])
    (root / "systems" / "silicon_sample.csv").write_text(_SAMPLE, encoding="utf-8")
    return KernelPackage(systems=root / "systems", version="test-1")


_COLUMNS = (
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
    "moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,prefill_batch_size,"
    "prefill_num_workers,prefill_tp_size,prefill_pp_size,prefill_attention_dp_size,prefill_moe_tp_size,"
    "prefill_moe_ep_size,decode_batch_size,decode_num_workers,decode_tp_size,decode_pp_size,"
    "decode_attention_dp_size,decode_moe_tp_size,decode_moe_ep_size,silicon_ttft_ms,silicon_tpot_ms"
)
_SAMPLE = "\n".join(
    [
        _COLUMNS,
        "a,made up,vllm,1.0,org/m,h200_sxm,fp8,agg,1024,128,fp8,fp8,64,8,1,1,8,1"
        + "," * 14
        + ",300,12.5",
        (
            "b,made "
            "up,sglang,2.0,org/m,gb300,fp4,disagg,1024,128,fp4,fp4,,,,,,,1,1,1,1,1,1,1,32,2,4,1,4,1,16,300,9.0"
        ),
        "c,made up,vllm,1.0,org/m,h200_sxm,fp8,agg,1024,128,fp8,fp8,64,8,1,1,8,1"
        + "," * 14
        + ",300,0",
    ]
)
