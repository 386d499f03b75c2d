"""The kernel package's silicon points as configurations, and those that are not what they say.

No rule sees a prediction: this module knows neither steps nor fits.
`python -m studies.validation.silicon` writes the list that the judge reads, one line per point with
its rule and reason.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.models import load_model, model_profile
from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.physics.architecture import (
    Architecture,
    parameter_counts,
    weight_bytes_by_component,
    with_dtype,
)
from advisor.physics.hardware import load_hardware, peak_flops
from advisor.physics.memory import cache_bytes_per_gpu, memory_fit
from advisor.physics.step import Placement
from advisor.profiles import PROFILES
from advisor.text import frame_csv

PLAIN_MODELS = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-v3",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "moonshotai/Kimi-K2.5": "kimi-k2",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "zhipuai/GLM-5": "glm-5",
}
"""Models of the plain-decode points and the profile with their dimensions."""
_FORMATS = {"fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
GROUP = ("model_id", "engine", "hardware_id", "weight_dtype")
PLACEMENT = ("tensor_parallel", "expert_parallel", "attention_groups")
SETTINGS = (*GROUP, *PLACEMENT, "batch_size", "input_tokens", "output_tokens")
"""Columns that say how a point was served, its version apart."""
SCENARIO_FORMATS = ("scenario_weights", "scenario_experts", "scenario_cache")
"""weight_dtype, expert_dtype and kv_dtype of a point's scenario; empty leaves the checkpoint's
own."""
POINTS = ("point_id", "version", *SETTINGS, *SCENARIO_FORMATS, "drawn", "measured_s", "ttft_s")
DRAWN = ("db-dump/", "source_file=20", "source_file=kimi-k2.5-gap", "source_file=qwen3.5-397b-gap")
"""What the origin of InferenceX's points starts with: dumps of its results (216 of DeepSeek's equal
a run's mean time per token), and two lists that repeat them. Its benchmark sends REQUESTS requests
a slot, as many at once as there are slots, with lengths drawn evenly from SHORTEST of those named
up to those (benchmark-tmpl.yml: RANDOM_RANGE_RATIO, benchmark_lib.sh, utils/bench_serving; alike in
October 2025 and April 2026)."""
SHORTEST = 0.8
REQUESTS = 10
CACHES = PROFILES / "validation" / "plain_decode_caches.csv"
"""The cache's format by InferenceX's script of the day, with its commit: the script of each run
from its day `since`, auto where it names none. Runs that no script of their day served are
absent."""
SPECULATIVE: tuple[Mapping[str, Any], ...] = (
    {
        "model": "Qwen/Qwen3.5-397B-A17B",
        "engine": "sglang",
        "version": "0.5.9",
        "tensor_parallel": 4,
        "expert_parallel": 1,
    },
    {"model": "deepseek-ai/DeepSeek-R1", "engine": "trtllm", "version": "1.2.0rc6.post3"},
)
"""Rows that are no plain decode: InferenceX's configurations of February to April 2026
(nvidia-master.yaml) run them with `spec-decoding: mtp` alone, of an image that no plain
configuration of them names."""
UNSTATED = "unstated"
"""Version of a point that names none."""
NEAR_DUPLICATE = 0.005
"""Two points with all settings and the version equal and times this close are one measurement
listed twice. [-]"""


def expressible(frame: pd.DataFrame, as_named: bool = False) -> pd.DataFrame:
    """The points that a scenario can express, columns POINTS, a point and its alias once.

    Aggregated serving, one worker, no pipeline parallelism, no speculation by configuration
    (SPECULATIVE); attention data parallelism only with expert parallelism over the same ranks.
    `frame` is `store.plain_decode_points`. `batch_size` counts all attention ranks; lengths are the
    mean of those sent, `drawn` whether they were (DRAWN), the cache is the one launched. `as_named`
    leaves lengths and caches as the points name them.
    """
    found = []
    for row in frame[frame["serving_mode"] == "agg"].to_dict("records"):
        placement = _placement(row)
        if placement is None or row["model"] not in PLAIN_MODELS or _speculates(row):
            continue
        model_id = PLAIN_MODELS[row["model"]]
        drawn = not as_named and str(row.get("source", "")).startswith(DRAWN)
        sent = (1.0 + SHORTEST) / 2.0 if drawn else 1.0
        found.append(
            {
                **{name: row[name] for name in ("point_id", "hardware_id", "engine")},
                **{
                    name: text if pd.isna(row[name]) else str(row[name])
                    for name, text in _UNNAMED.items()
                },
                "model_id": model_id,
                **dict(zip(PLACEMENT, placement, strict=True)),
                "batch_size": int(row["batch_size"]) * placement[2],
                **{
                    name: round(sent * int(row[name])) for name in ("input_tokens", "output_tokens")
                },
                **dict(
                    zip(
                        SCENARIO_FORMATS,
                        (*_formats(row, model_id), launched_cache(row) if drawn else ""),
                        strict=True,
                    )
                ),
                "drawn": drawn,
                "measured_s": float(row["tpot_s"]),
                "ttft_s": float(row["ttft_s"]),
            }
        )
    points = pd.DataFrame(found, columns=list(POINTS))
    return points.drop_duplicates([*SETTINGS, "measured_s"]).reset_index(drop=True)


def launched_cache(row: Mapping[str, Any]) -> str:
    """kv_dtype that a point of InferenceX was launched with (CACHES). Empty: the checkpoint's own,
    or not known."""
    version, weights = (
        text if pd.isna(row[name]) else str(row[name]) for name, text in _UNNAMED.items()
    )
    runs = _caches().get(
        (row["engine"], PLAIN_MODELS[row["model"]], row["hardware_id"], weights, version), []
    )
    day = re.search(r"measured=(\d{4}-\d\d-\d\d)", row["source"])
    # A list without days repeats the run's first.
    known = [each for since, each in runs if day is None or since <= day[1]]
    found = known[0 if day is None else -1] if known else "auto"
    return "" if found == "auto" else found


_UNNAMED = {"version": UNSTATED, "weight_dtype": "bf16"}


@lru_cache(maxsize=1)
def _caches() -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """(since, kv_dtype) of CACHES by engine, model, accelerator, weights and version, in the order
    of days."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for row in pd.read_csv(CACHES, dtype=str).sort_values("since").to_dict("records"):
        key = tuple(
            row[name] for name in ("engine", "model_id", "hardware_id", "weight_dtype", "version")
        )
        found.setdefault(key, []).append((row["since"], row["kv_dtype"]))
    return found


@lru_cache(maxsize=1)
def drawn_shares() -> tuple[float, float]:
    """Shares of a drawn run's slots and prompts that one of its requests meets while it decodes.
    [-]

    Sequences in flight over slots, and others' prompts after its first token over the other slots.
    Counted over SLOTS slots in steps, each of which gives a sequence a token: of prompts that start
    at once, half come after a request's own; the last requests of all slots decode beside fewer and
    fewer, and no prompt follows them.
    """
    lengths = np.random.default_rng(0).integers(
        int(SHORTEST * STEPS), STEPS, SLOTS * REQUESTS, endpoint=True
    )
    start = np.zeros(lengths.size)
    ends = [int(end) for end in lengths[:SLOTS]]
    heapq.heapify(ends)
    for request in range(SLOTS, lengths.size):
        start[request] = ends[0]
        heapq.heapreplace(ends, int(start[request] + lengths[request]))
    end = start + lengths
    steps = np.arange(start[-1] + STEPS + 1)
    in_flight = np.searchsorted(start, steps, "right") - np.searchsorted(
        np.sort(end), steps, "right"
    )
    so_far = np.concatenate([[0], np.cumsum(in_flight)])
    seen = (so_far[end.astype(int)] - so_far[start.astype(int)]) / lengths
    first = np.searchsorted(start, start, "left")
    last = np.searchsorted(start, start, "right")
    prompts = np.searchsorted(start, end, "left") - last + (last - first - 1) / 2.0
    return float(seen.mean()) / SLOTS, float(prompts.mean()) / (SLOTS - 1)


SLOTS = 64
STEPS = 1024
"""What `drawn_shares` counts: 4 to 512 slots agree within 0.002. [-]"""


def near_duplicates(points: pd.DataFrame) -> pd.Series:
    """Whether a point repeats an earlier one: SETTINGS and version equal, time within
    NEAR_DUPLICATE of it."""
    repeats = pd.Series(False, index=points.index)
    for _, group in points.groupby([*SETTINGS, "version"], sort=False):
        kept: list[float] = []
        for label, time_s in group["measured_s"].items():
            repeats[label] = any(abs(time_s / other - 1.0) <= NEAR_DUPLICATE for other in kept)
            kept += [] if repeats[label] else [time_s]
    return repeats


def chosen_formats(point: Mapping[str, Any]) -> dict[str, str]:
    """The formats that a scenario names: `weight_dtype`, `expert_dtype` of an MoE, `kv_dtype`.
    Absent: its own."""
    moe = load_model(point["model_id"]).moe is not None
    wanted = {
        "weight_dtype": point["scenario_weights"],
        "expert_dtype": point["scenario_experts"] if moe else "",
    }
    wanted["kv_dtype"] = point["scenario_cache"]
    return {name: text for name, text in wanted.items() if text}


def placement_of(point: Mapping[str, Any]) -> Placement:
    """Placement of a point's model. A dense model has no experts to spread."""
    moe = load_model(point["model_id"]).moe is not None
    return Placement(int(point["tensor_parallel"]), int(point["expert_parallel"]) if moe else 1)


def architecture_of(point: Mapping[str, Any]) -> Architecture:
    """Dimensions of a point's model, every matrix in the format its row names."""
    architecture = load_model(point["model_id"])
    formats = chosen_formats(point)
    if "weight_dtype" in formats:
        architecture = with_dtype(architecture, formats["weight_dtype"])  # type: ignore[arg-type]
    if "expert_dtype" in formats:
        dtypes = architecture.dtypes.model_copy(update={"routed": formats["expert_dtype"]})
        architecture = architecture.model_copy(update={"dtypes": dtypes})
    return architecture


def _placement(point: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """(tp, ep, attention groups), or None where the row's parallelism does not nest as a scenario's
    does."""
    tensor = _count(point["tensor_parallel"])
    groups = _count(point["attention_data_parallel"])
    expert = _count(point["expert_parallel"])
    expert_tensor = _count(point["moe_tensor_parallel"])
    if _count(point["pipeline_parallel"]) != 1 or tensor > 8 or pd.isna(point["batch_size"]):
        return None
    if groups > 1:
        return (
            (tensor, expert, groups) if expert_tensor == 1 and expert == tensor * groups else None
        )
    nests = expert * expert_tensor == tensor or (expert == 1 and expert_tensor == 1)
    return (tensor, expert, 1) if nests else None


def _speculates(point: Mapping[str, Any]) -> bool:
    return any(all(point[name] == value for name, value in one.items()) for one in SPECULATIVE)


def _count(value: Any) -> int:
    return 1 if pd.isna(value) else max(int(value), 1)


def _formats(point: Mapping[str, Any], model_id: str) -> tuple[str, str]:
    """The SCENARIO_FORMATS of a row, its cache's apart.

    The table calls every 8-bit checkpoint fp8. Where a known release of the model in 8 bits is
    scaled by blocks, or the row says so of its experts, the checkpoint is; else (Llama) it is
    scaled per tensor, as the row says.
    """
    gemm = str(point["gemm_dtype"])
    moe = str(point["moe_dtype"])
    if "gpt-oss" in str(point["model"]):
        return "", ""  # published in mxfp4 experts only, whatever the table calls it
    if moe == "int4_wo":
        return "bf16", "int4"
    weights = _FORMATS.get(gemm, "bf16")
    experts = _FORMATS.get(moe, "")
    if weights == "fp8" and (experts == "fp8_block" or "fp8_block" in _released_formats(model_id)):
        return "fp8_block", "fp8_block"
    return weights, experts


def _released_formats(model_id: str) -> set[str]:
    """Weight formats that the model is known to be published in."""
    own = load_model(model_id).dtypes
    return {
        own.routed or own.dense,
        *(each.weight_format for each in model_profile(model_id).published_formats),
    }


QUARANTINE = PROFILES / "validation" / "plain_decode_quarantine.csv"
REACHED = 0.9
"""Share of peak that nothing exceeds: the best GEMM of any accelerator here reads at 0.89 of peak
bandwidth (H100) and computes at 0.82 of peak arithmetic (`profiles/hardware`). [-]"""
SMALLEST_CACHE = 1.0
"""Bytes of a cache element in the smallest format that the engines of these points serve, fp8.
[B]"""
DISAGREE = 1.3
"""Factor between times that should be equal, or the other way round. [-]"""
UNREPEATED = 1.5
"""The same for a single pair of repeated settings, 95 % of which lie within 1.22. [-]"""
FLAT = 1.15
FLAT_BATCHES = 2.0
FLAT_POINTS = 4
"""Times this alike over batches this far apart, at so many points, do not follow the batch. [-]"""
LAUNCHES_S = 200e-6
"""What a layer's launches can cost beside its bytes and arithmetic: twenty, of 10 us each. [s]"""
FALL_BATCHES = 1.5
"""A batch so many times as large is larger: more work a step, by any sharing of it. [-]"""
PAIRS = 5
"""Equal settings that a comparison of two versions needs. [-]"""
RUN = (*GROUP, "version")
Reasons = dict[str, str]
"""Why a point is not judged, by point_id."""


def with_physics(points: pd.DataFrame) -> pd.DataFrame:
    """Points with what physics asks of each.

    floor_s, every_weight_s, layers, and its end-to-end time per token.

    floor_s: a step that reads one token's weights (the output head left out, in the point's favour)
    and the batch's cache, and its share of the prompts' arithmetic, at REACHED of peak.
    every_weight_s: the same with every expert read. end_to_end_s: by Little's law, (TTFT + (OSL -
    1) TPOT) / OSL, whatever the engine does first. [s] gpus, layers, and surely_fits: the batch
    that memory holds with a 16-bit cache. [-]
    """
    keys = [name for name in (*SETTINGS, *SCENARIO_FORMATS) if name != "batch_size"]
    groups = [_with_physics(group) for _, group in points.groupby(keys, sort=False)]
    return pd.concat(groups).sort_index() if groups else points


def _with_physics(group: pd.DataFrame) -> pd.DataFrame:
    """`with_physics` of points that differ in batch and version alone."""
    point = group.iloc[0].to_dict()
    architecture = architecture_of(point)
    placement = placement_of(point)
    hardware = load_hardware(point["hardware_id"])
    tp = placement.tensor_parallel
    isl = int(point["input_tokens"])
    osl = int(point["output_tokens"])
    parts = weight_bytes_by_component(architecture)
    always = (
        sum(size for name, size in parts.items() if name not in ("mtp", "routed", "embedding")) / tp
    )
    routed = parts.get("routed", 0.0) / placement.gpus
    share = architecture.moe.n_active / architecture.moe.n_experts if architecture.moe else 0.0
    sequences = group["batch_size"] / placement.attention_groups
    cache = cache_bytes_per_gpu(architecture, tp, isl + osl // 2, SMALLEST_CACHE) * sequences
    computed = (
        architecture.dtypes.routed if architecture.moe else architecture.dtypes.dense
    ) or "bf16"
    flops = (
        2.0 * parameter_counts(architecture).active_nonembedding * isl / osl * group["batch_size"]
    )
    prompts_s = (
        flops
        / placement.gpus
        / (REACHED * peak_flops(hardware, "bf16" if computed == "fp32" else computed).value)
    )
    bandwidth = REACHED * hardware.bandwidth_bytes_per_s.value
    return group.assign(
        gpus=placement.gpus,
        surely_fits=memory_fit(
            architecture, placement, hardware.memory_bytes.value, isl + osl // 2
        ).largest_batch,
        layers=sum(mixer.count for mixer in architecture.mixers),
        floor_s=(always + share * routed + cache) / bandwidth + prompts_s,
        every_weight_s=(always + routed + cache) / bandwidth + prompts_s,
        end_to_end_s=(group["ttft_s"] + (osl - 1) * group["measured_s"]) / osl,
    )


def below_floor(points: pd.DataFrame) -> Reasons:
    """Points that are quicker end to end than their bytes and arithmetic at the best rates ever
    measured.

    They had a prompt cache, or left out other work.
    """
    low = points[points["end_to_end_s"] < points["floor_s"]]
    return {
        row.point_id: (
            f"{_ms(row.end_to_end_s)} a token end to end; its bytes and arithmetic take "
            f"{_ms(row.floor_s)}"
        )
        for row in low.itertuples()
    }


def queued(points: pd.DataFrame) -> Reasons:
    """Points whose first token is later than all others together take, though memory holds the
    batch.

    Fewer sequences decoded than such a point says. A batch that memory may not hold waits by its
    size, and is judged at the one that fits.
    """
    waited = points["ttft_s"] > points["output_tokens"] * points["measured_s"]
    late = points[waited & (points["batch_size"] <= points["surely_fits"])]
    return {
        row.point_id: f"first token after {row.ttft_s:.3g} s, the {row.output_tokens} others "
        "within "
        f"{row.output_tokens * row.measured_s:.3g} s: the batch was not reached"
        for row in late.itertuples()
    }


def flat(points: pd.DataFrame) -> Reasons:
    """Points with one time at any batch, far above what weights, cache, prompts and launches
    take."""
    found: Reasons = {}
    for _, group in points.groupby([*RUN, "gpus"]):
        times = group["measured_s"]
        batches = group["batch_size"]
        beyond_s = ((times - group["every_weight_s"]) / group["layers"]).min()
        same = times.max() <= FLAT * times.min() and batches.max() >= FLAT_BATCHES * batches.min()
        if same and len(group) >= FLAT_POINTS and beyond_s > LAUNCHES_S:
            why = (
                f"{_ms(times.min())} to {_ms(times.max())} at batches {batches.min()} to "
                f"{batches.max()}, {1e6 * beyond_s:.0f} us a layer beyond reading every weight"
            )
            found |= dict.fromkeys(group["point_id"], why)
    return found


def falls(points: pd.DataFrame) -> Reasons:
    """Slower by more than DISAGREE than the same server with FALL_BATCHES times the batch or
    more."""
    found: Reasons = {}
    for _, group in points.groupby([*RUN, *PLACEMENT, "input_tokens", "output_tokens"]):
        if group["measured_s"].max() <= DISAGREE * group["measured_s"].min():
            continue
        for row in group.itertuples():
            larger = group[group["batch_size"] >= FALL_BATCHES * row.batch_size]
            quicker = larger[larger["measured_s"] * DISAGREE < row.measured_s]
            if not quicker.empty:
                other = quicker.loc[quicker["measured_s"].idxmin()]
                found[row.point_id] = (
                    f"{_ms(row.measured_s)} at batch {row.batch_size}, {_ms(other['measured_s'])} "
                    f"at batch {other['batch_size']} of the same server"
                )
    return found


def not_repeated(points: pd.DataFrame) -> Reasons:
    """Measured again with every setting and the version equal, and different by more than
    UNREPEATED.

    Of two, neither is believed; of more, those that far from the middle.
    """
    found: Reasons = {}
    for _, group in points.groupby([*SETTINGS, "version"]):
        times = group["measured_s"]
        if times.max() <= UNREPEATED * times.min():
            continue
        away = np.exp(np.abs(np.log(times / times.median())))
        doubtful = group if len(group) == 2 else group[away > UNREPEATED]
        why = (
            "one setting and version measured at "
            f"{', '.join(_ms(time_s) for time_s in sorted(times))}"
        )
        found |= dict.fromkeys(doubtful["point_id"], why)
    return found


def version_pair(points: pd.DataFrame) -> Reasons:
    """The quicker of two versions whose times at equal settings differ by more than DISAGREE in the
    median."""
    found: Reasons = {}
    for _, group in points.groupby(list(GROUP)):
        times = group.groupby([*SETTINGS, "version"])["measured_s"].median().unstack("version")
        for quick in times.columns:
            for slow in times.columns:
                factors = (times[slow] / times[quick]).dropna()
                if len(factors) >= PAIRS and factors.median() > DISAGREE:
                    why = (
                        f"version {quick} is {factors.min():.2f} to {factors.max():.2f} times as "
                        f"quick as {slow} at {len(factors)} equal settings: speculation inferred"
                    )
                    found |= dict.fromkeys(group.loc[group["version"] == quick, "point_id"], why)
    return found


RULES: Mapping[str, Callable[[pd.DataFrame], Reasons]] = {
    "below the floor": below_floor,
    "queued": queued,
    "same time at any batch": flat,
    "falls with batch": falls,
    "not repeated": not_repeated,
    "version pair": version_pair,
}
"""The rules by name, in the order in which they name a point."""


def quarantined(points: pd.DataFrame) -> pd.DataFrame:
    """The points that a rule finds, columns point_id, rule, reason. `points`: `expressible` ones,
    nothing predicted.

    A run (group and version) of which half the points or more are found goes as a whole.
    """
    physical = with_physics(points)
    found: dict[str, tuple[str, str]] = {}
    for rule, reasons in RULES.items():
        found = {point_id: (rule, why) for point_id, why in reasons(physical).items()} | found
    rules = physical["point_id"].map({point_id: rule for point_id, (rule, _) in found.items()})
    for _, group in physical.groupby(list(RUN)):
        own = rules[group.index].dropna()
        if 2 * len(own) >= len(group) > len(own):
            why = f"{len(own)} of the {len(group)} points of this run: {own.mode().iloc[0]}"
            found = dict.fromkeys(group["point_id"], ("the run it stands in", why)) | found
    listed = points[points["point_id"].isin(found)]
    return (
        listed[["point_id", *RUN]]
        .assign(
            rule=[found[point_id][0] for point_id in listed["point_id"]],
            reason=[found[point_id][1] for point_id in listed["point_id"]],
        )
        .sort_values("point_id", ignore_index=True)
    )


def read_quarantine(path: Path = QUARANTINE) -> pd.DataFrame:
    """The list that is shipped: point_id, the run it stands in, rule, reason."""
    return pd.read_csv(path, dtype=str)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def main() -> None:
    """Write the list from the store's points."""
    with open_store(default_store_path()) as opened:
        found = quarantined(expressible(plain_decode_points(opened)))
    QUARANTINE.write_text(frame_csv(found), encoding="utf-8")
    sys.stdout.write(
        found.groupby([*RUN, "rule"]).size().to_string() + f"\n{len(found)} points, {QUARANTINE}\n"
    )


if __name__ == "__main__":
    main()
