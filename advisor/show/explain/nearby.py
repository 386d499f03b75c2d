"""Measured points near a prediction: kernel measurements nearest to each component, and published
speedups.

Near means near in the logarithms of everything that decides the time. Beside each measurement
stands the model's own time at the very measured shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import FitRecord, load_records
from advisor.catalog.kernel_costs import KV_BYTES
from advisor.catalog.measured_shapes import table_behind
from advisor.measured.kernel_fits import add_touched, frame_work
from advisor.measured.published import PublishedRun, published_runs
from advisor.measured.store import Store, kernel_table
from advisor.physics import laws
from advisor.physics.architecture import effective_n_active
from advisor.physics.kernel_costs import GemmCost, MoeCost, stream_cost
from advisor.physics.step import gemm_time, matrix_products
from advisor.predict.setup import Setup
from advisor.prediction import Array
from advisor.show.explain.formulas import record_behind

NEAR_COLUMNS = ("part", "step", "measured_at", "wanted", "measured_s", "model_s", "ratio", "record")
"""ratio is model over measured. [-]"""
SPEEDUP_COLUMNS = ("batch_size", "n_draft", "speedup", "drafter", "tensor_parallel", "source")
_CLOSE = 24
"""Rows that are looked at again with their touched experts, which take a simulation each."""


def near_kernels(
    store: Store, setup: Setup, batch_size: float, n_draft: int, count: int = 3
) -> pd.DataFrame:
    """Nearest kernel measurements of each component, `count` for the plain and the verification
    step.

    Returns NEAR_COLUMNS, nearest first within each part; without rows where the costs are a
    roofline. Raises AdvisorError when the store cannot be read.
    """
    steps = {"plain": 1.0} | ({"verify": n_draft + 1.0} if n_draft else {})
    rows: list[dict[str, object]] = []
    for look in (_experts, _projections, _attention, _attention_layers, _all_reduce):
        for step, q in steps.items():
            rows += [{"step": step, **row} for row in look(store, setup, batch_size, q, count)]
    return pd.DataFrame(rows, columns=list(NEAR_COLUMNS)).sort_values(
        "part", kind="stable", ignore_index=True
    )


def published_speedups(hardware_id: str, model_id: str, gpus: int) -> pd.DataFrame:
    """Published speedups of an accelerator, model and GPUs in all collections, a row a
    `PublishedRun`."""
    return pd.DataFrame(
        published_runs(hardware_id, model_id, gpus), columns=list(PublishedRun._fields)
    )


def nearest_speedups(
    points: pd.DataFrame, batch_size: float, n_draft: int, count: int = 6
) -> pd.DataFrame:
    """The published speedups nearest in log batch and in K."""
    distance = np.hypot(
        np.log2(points["batch_size"].astype(float) / batch_size),
        points["n_draft"].fillna(n_draft) - n_draft,
    )
    return points.loc[
        distance.sort_values(kind="stable").index[:count], list(SPEEDUP_COLUMNS)
    ].reset_index(drop=True)


def _experts(
    store: Store, setup: Setup, batch: float, q: float, count: int
) -> list[dict[str, object]]:
    moe = setup.architecture.moe
    cost = setup.costs.routed
    placement = setup.placement
    record = record_behind(setup, "experts", cost.t0_s) if moe is not None else None
    if moe is None or record is None:
        return []
    table = _rows("moe", store, record, ep=1)
    target = {
        "num_tokens": batch * q,
        "hidden_size": moe.expert_input_width,
        "inter_size": moe.expert_width / placement.expert_tensor_parallel,
        "topk": effective_n_active(moe),
        "num_experts": moe.n_experts / placement.expert_parallel,
    }
    local = table.assign(inter_size=table["inter_size"] / table["moe_tp_size"])
    table = table.loc[_apart(local, target).index[:_CLOSE]]
    if table.empty:
        return []
    nearest = add_touched(table)
    model = _expert_times(nearest, cost, record)
    labels = [
        f"{row.num_tokens:,} tokens, {row.num_experts} experts top-{row.topk}, h "
        f"{row.hidden_size}, I {row.inter_size // row.moe_tp_size}, {row.distribution} load, U "
        f"{row.touched:.0f}"
        for row in nearest.itertuples()
    ]
    goal = (
        f"{batch * q:,.0f} tokens, {target['num_experts']:g} experts top-{moe.n_active}, h "
        f"{moe.expert_input_width}, I {target['inter_size']:g}"
    )
    return _shown("Routed experts, one layer", goal, labels, nearest, model, record.id, count)


def _expert_times(found: pd.DataFrame, cost: MoeCost, record: FitRecord) -> Array:
    """The model's time of measured rows that carry their touched experts. [s]"""
    work = frame_work(found, record.dtype, ungated=record.ungated_matrices == 2)
    factor = cost.correction(found["routed_rows"].to_numpy() / found["touched"].to_numpy())
    if cost.measured is not None:
        shard = found["inter_size"] / found["moe_tp_size"]
        shapes = np.column_stack([found["hidden_size"], shard, found["topk"], found["num_experts"]])
        same_shape = (shapes == np.array(cost.measured.shape[:4])).all(axis=1)
        factor = np.where(same_shape, cost.measured.factor(found["num_tokens"]), factor)
    return np.asarray(laws.routed_layers(c=factor, **work, **cost.symbols))


def _projections(
    store: Store, setup: Setup, batch: float, q: float, count: int
) -> list[dict[str, object]]:
    """One GEMM of the largest group of attention layers whose projections stand apart from the
    rest."""
    products = matrix_products(setup.architecture, setup.costs, setup.placement, None)[
        "attention_projection"
    ]
    if not products:
        return []
    product = max(products, key=lambda product: float(np.max(product.layers)))
    cost: GemmCost = setup.costs.attention_projection
    record = record_behind(setup, "projections", cost.t0_s)
    if record is None or not product.launches:
        return []
    weights = float(np.max(product.weights)) / product.launches
    rows = batch / setup.placement.attention_groups * q
    table = _rows("gemm", store, record)
    table = table.assign(weights=table["n"].astype(float) * table["k"])
    nearest = table.loc[_apart(table, {"m": rows, "weights": weights}).index[:count]]
    dtype = setup.architecture.dtypes.attention
    model = gemm_time(cost, nearest["m"].to_numpy(float), nearest["weights"].to_numpy(), dtype, 1)
    labels = [f"{row.m:,} rows, {row.k} x {row.n} weights" for row in nearest.itertuples()]
    goal = f"{rows:,.0f} rows, {weights / 1e6:.3g} million weights"
    return _shown("Attention weights, one GEMM", goal, labels, nearest, model, record.id, count)


def _attention(
    store: Store, setup: Setup, batch: float, q: float, count: int
) -> list[dict[str, object]]:
    """The core of the largest group of softmax layers that are not measured whole. Windows are not
    in the fits."""
    if q != 1.0:  # tables time one query per sequence, and the cache is read once whatever q is
        return []
    unmeasured = [mixer for mixer in setup.architecture.mixers if mixer not in setup.costs.modules]
    mixers = [mixer for mixer in unmeasured if mixer.kind in ("full", "mla")]
    if not mixers:
        return []
    mixer = max(mixers, key=lambda mixer: mixer.count)
    latent = mixer.kind == "mla" and setup.costs.mla is not None
    cost = setup.costs.mla if latent and setup.costs.mla is not None else setup.costs.attention
    record = record_behind(setup, "latent attention" if latent else "attention", cost.t0_s)
    if record is None:
        return []
    kv_dtype = record.kernel_source.rpartition("+kv-")[2]
    table = _rows("mla" if latent else "attention", store, record, kv_dtype=kv_dtype)
    if latent:
        table = table[table["op"].isin(["mla_generation", "generation_mla"])]
        table = table.assign(
            elements=mixer.kv_elements_per_token, each=mixer.flops_per_head_and_key, num_kv_heads=1
        )
    else:
        table = table[table["window_size"].fillna(0) <= 0]
        table = table.assign(
            elements=2.0 * table["num_kv_heads"] * table["head_dim"], each=4.0 * table["head_dim"]
        )
    tensor = setup.placement.tensor_parallel
    context = setup.scenario.context_tokens
    group = batch / setup.placement.attention_groups
    elements = mixer.kv_elements_per_token
    target = {
        "batch_size": group,
        "context_tokens": context,
        "elements": elements / min(tensor, mixer.kv_shards),
    }
    # The operations that tell latent kernels apart are those of a rank's heads; grouped heads
    # hardly matter.
    target |= {"num_heads": mixer.query_heads / tensor} if latent else {}
    nearest = table.loc[_apart(table, target).index[:count]]
    sequences = nearest["batch_size"].to_numpy(float)
    cached = nearest["context_tokens"].to_numpy(float)
    elements = nearest["elements"].to_numpy(float)
    each = nearest["each"].to_numpy(float)
    heads = nearest["num_heads"].to_numpy(float)
    groups = nearest["num_kv_heads"].to_numpy(float)
    moved = laws.cache_read(sequences, cached, 0.0, elements, KV_BYTES[kv_dtype])
    flops = laws.attention_flops(sequences, cached - 1.0, 1.0, each, heads, cost.block_rows, groups)
    labels = [
        f"{row.batch_size:,} sequences, {row.context_tokens:,} cached tokens, {row.num_heads} heads"
        for row in nearest.itertuples()
    ]
    goal = f"{group:,.0f} sequences, {context:,} cached tokens"
    return _shown(
        "Attention core, one layer",
        goal,
        labels,
        nearest,
        cost.time_s(moved, flops),
        record.id,
        count,
    )


def _attention_layers(
    store: Store, setup: Setup, batch: float, q: float, count: int
) -> list[dict[str, object]]:
    """Whole layers of the largest group that was measured so.

    Their tables have one token of a sequence: of tokens that share a cache only the plain step has
    a row near it.
    """
    mixers = [mixer for mixer in setup.architecture.mixers if mixer in setup.costs.modules]
    if not mixers:
        return []
    mixer = max(mixers, key=lambda mixer: mixer.count)
    module = setup.costs.modules[mixer]
    engine = setup.scenario.engine
    tensor = setup.placement.tensor_parallel
    serving = table_behind(
        setup.hardware, setup.architecture, mixer, tensor, engine, setup.cache.dtype
    )
    if serving is None or (module.shares_cache and q != 1.0):
        return []
    measured_on = load_records(str(setup.hardware.kernel_table_device))[0].hardware_id
    table = kernel_table(
        store,
        "mla",
        measured_on,
        serving.engine,
        version=serving.version,
        op=serving.op,
        kv_dtype=serving.kv_dtype,
    )
    for name in ("model", "gemm_dtype"):
        table = table[table[name] == getattr(serving, name)]
    table = table[table["num_heads"] == serving.n_heads]
    rows = batch / setup.placement.attention_groups * q
    context = setup.scenario.context_tokens + q
    nearest = table.loc[
        _apart(table, {"batch_size": rows, "context_tokens": context}).index[:count]
    ]
    model = module.time_s(
        nearest["batch_size"].to_numpy(float), nearest["context_tokens"].to_numpy(float)
    )
    labels = [
        (
            f"{row.batch_size:,} sequences, {row.context_tokens:,} tokens with the new one, "
            f"{row.num_heads} heads"
        )
        for row in nearest.itertuples()
    ]
    goal = f"{rows:,.0f} sequences, {context:,.0f} tokens with the new one, {serving.n_heads} heads"
    return _shown(
        "Attention measured whole, one layer", goal, labels, nearest, model, serving.id, count
    )


def _all_reduce(
    store: Store, setup: Setup, batch: float, q: float, count: int
) -> list[dict[str, object]]:
    ranks = setup.placement.tensor_parallel
    cost = stream_cost(setup.costs.all_reduce, ranks)
    record = record_behind(setup, "all-reduce", cost.t0_s) if cost is not None else None
    if cost is None or record is None:
        return []
    rows = batch / setup.placement.attention_groups * q
    message = float(laws.message_bytes(rows, setup.architecture.hidden_size))
    table = _rows("all_reduce", store, record, n_ranks=record.n_ranks).dropna(
        subset=["message_bytes"]
    )
    nearest = table.loc[_apart(table, {"message_bytes": message}).index[:count]]
    labels = [
        f"{row.message_bytes / 1e3:,.4g} kB among {row.n_ranks}" for row in nearest.itertuples()
    ]
    goal = f"{message / 1e3:,.4g} kB among {ranks}"
    return _shown(
        "All-reduce", goal, labels, nearest, cost.time_s(nearest["message_bytes"]), record.id, count
    )


def _rows(name: str, store: Store, record: FitRecord, **more: Any) -> pd.DataFrame:
    """The rows of the table that a record was fitted on."""
    table = kernel_table(
        store, name, record.hardware_id, engine=record.engine, version=record.version, **more
    )
    kernel = record.kernel_source.rpartition("+kv-")[0] or record.kernel_source
    return table[
        (table["dtype"] == record.dtype) & (table["kernel_source"].fillna("unknown") == kernel)
    ]


def _apart(table: pd.DataFrame, target: Mapping[str, float]) -> pd.Series:
    """Distance of each row in octaves, nearest first."""
    squares = sum(np.log2(table[name].astype(float) / value) ** 2 for name, value in target.items())
    return pd.Series(np.sqrt(squares), index=table.index).sort_values(kind="stable")


def _shown(
    part: str,
    goal: str,
    labels: list[str],
    nearest: pd.DataFrame,
    model: Array,
    record: str,
    count: int,
) -> list[dict[str, object]]:
    same = {"part": part, "wanted": goal, "record": record}
    return [
        same
        | {
            "measured_at": shape_label,
            "measured_s": float(measured_s),
            "model_s": float(predicted_s),
            "ratio": float(predicted_s / measured_s),
        }
        for shape_label, measured_s, predicted_s in zip(
            labels[:count], nearest["latency_s"], model, strict=False
        )
    ]
