"""Silicon points that are not what they say, found by rules on measured fields and physics alone.

No rule sees a prediction: this module knows neither steps nor fits. `python -m advisor.studies.validation.quarantine`
writes the list that the judge reads, one line per point with its rule and reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from advisor import store
from advisor.architecture import parameter_counts, weight_bytes_by_component
from advisor.hardware import load_hardware, peak_flops
from advisor.memory import cache_bytes_per_gpu, memory_fit
from advisor.profiles import PROFILES
from advisor.studies.validation.silicon import (
    GROUP,
    PLACEMENT,
    SCENARIO_FORMATS,
    SETTINGS,
    architecture_of,
    expressible,
    placement_of,
)
from advisor.text import frame_csv

QUARANTINE = PROFILES / "validation" / "plain_decode_quarantine.csv"
REACHED = 0.9
"""Share of peak that nothing exceeds: the best GEMM of any accelerator here reads at 0.89 of peak bandwidth (H100) and
computes at 0.82 of peak arithmetic (`profiles/hardware`). [-]"""
SMALLEST_CACHE = 1.0
"""Bytes of a cache element in the smallest format that the engines of these points serve, fp8. [B]"""
DISAGREE = 1.3
"""Factor between times that should be equal, or the other way round. [-]"""
UNREPEATED = 1.5
"""The same for a single pair of repeated settings, 95 % of which lie within 1.22. [-]"""
FLAT, FLAT_BATCHES, FLAT_POINTS = 1.15, 2.0, 4
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

    floor_s: a step that reads one token's weights (the output head left out, in the point's favour) and the batch's
    cache, and its share of the prompts' arithmetic, at REACHED of peak. every_weight_s: the same with every expert
    read. end_to_end_s: by Little's law, (TTFT + (OSL - 1) TPOT) / OSL, whatever the engine does first. [s]
    gpus, layers, and surely_fits: the batch that memory holds with a 16-bit cache. [-]
    """
    keys = [name for name in (*SETTINGS, *SCENARIO_FORMATS) if name != "batch_size"]
    groups = [_with_physics(group) for _, group in points.groupby(keys, sort=False)]
    return pd.concat(groups).sort_index() if groups else points


def _with_physics(group: pd.DataFrame) -> pd.DataFrame:
    """`with_physics` of points that differ in batch and version alone."""
    point = group.iloc[0].to_dict()
    architecture, placement, hardware = architecture_of(point), placement_of(point), load_hardware(point["hardware_id"])
    tp, isl, osl = placement.tensor_parallel, int(point["input_tokens"]), int(point["output_tokens"])
    parts = weight_bytes_by_component(architecture)
    always = sum(size for name, size in parts.items() if name not in ("mtp", "routed", "embedding")) / tp
    routed = parts.get("routed", 0.0) / placement.gpus
    share = architecture.moe.n_active / architecture.moe.n_experts if architecture.moe else 0.0
    sequences = group["batch_size"] / placement.attention_groups
    cache = cache_bytes_per_gpu(architecture, tp, isl + osl // 2, SMALLEST_CACHE) * sequences
    computed = (architecture.dtypes.routed if architecture.moe else architecture.dtypes.dense) or "bf16"
    flops = 2.0 * parameter_counts(architecture).active_nonembedding * isl / osl * group["batch_size"]
    prompts_s = (
        flops / placement.gpus / (REACHED * peak_flops(hardware, "bf16" if computed == "fp32" else computed).value)
    )
    bandwidth = REACHED * hardware.bandwidth_bytes_per_s.value
    return group.assign(
        gpus=placement.gpus,
        surely_fits=memory_fit(architecture, placement, hardware.memory_bytes.value, isl + osl // 2).largest_batch,
        layers=sum(mixer.count for mixer in architecture.mixers),
        floor_s=(always + share * routed + cache) / bandwidth + prompts_s,
        every_weight_s=(always + routed + cache) / bandwidth + prompts_s,
        end_to_end_s=(group["ttft_s"] + (osl - 1) * group["measured_s"]) / osl,
    )


def below_floor(points: pd.DataFrame) -> Reasons:
    """Points that are quicker end to end than their bytes and arithmetic at the best rates ever measured.

    They had a prompt cache, or left out other work.
    """
    low = points[points["end_to_end_s"] < points["floor_s"]]
    return {
        row.point_id: f"{_ms(row.end_to_end_s)} a token end to end; its bytes and arithmetic take {_ms(row.floor_s)}"
        for row in low.itertuples()
    }


def queued(points: pd.DataFrame) -> Reasons:
    """Points whose first token is later than all others together take, though memory holds the batch.

    Fewer sequences decoded than such a point says. A batch that memory may not hold waits by its size, and is judged
    at the one that fits.
    """
    waited = points["ttft_s"] > points["output_tokens"] * points["measured_s"]
    late = points[waited & (points["batch_size"] <= points["surely_fits"])]
    return {
        row.point_id: f"first token after {row.ttft_s:.3g} s, the {row.output_tokens} others within "
        f"{row.output_tokens * row.measured_s:.3g} s: the batch was not reached"
        for row in late.itertuples()
    }


def flat(points: pd.DataFrame) -> Reasons:
    """Points with one time at any batch, far above what weights, cache, prompts and launches take."""
    found: Reasons = {}
    for _, group in points.groupby([*RUN, "gpus"]):
        times, batches = group["measured_s"], group["batch_size"]
        beyond_s = ((times - group["every_weight_s"]) / group["layers"]).min()
        same = times.max() <= FLAT * times.min() and batches.max() >= FLAT_BATCHES * batches.min()
        if same and len(group) >= FLAT_POINTS and beyond_s > LAUNCHES_S:
            why = (
                f"{_ms(times.min())} to {_ms(times.max())} at batches {batches.min()} to {batches.max()}, "
                f"{1e6 * beyond_s:.0f} us a layer beyond reading every weight"
            )
            found |= dict.fromkeys(group["point_id"], why)
    return found


def falls(points: pd.DataFrame) -> Reasons:
    """Slower by more than DISAGREE than the same server with FALL_BATCHES times the batch or more."""
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
                    f"{_ms(row.measured_s)} at batch {row.batch_size}, {_ms(other['measured_s'])} at batch "
                    f"{other['batch_size']} of the same server"
                )
    return found


def not_repeated(points: pd.DataFrame) -> Reasons:
    """Measured again with every setting and the version equal, and different by more than UNREPEATED.

    Of two, neither is believed; of more, those that far from the middle.
    """
    found: Reasons = {}
    for _, group in points.groupby([*SETTINGS, "version"]):
        times = group["measured_s"]
        if times.max() <= UNREPEATED * times.min():
            continue
        away = np.exp(np.abs(np.log(times / times.median())))
        doubtful = group if len(group) == 2 else group[away > UNREPEATED]
        why = f"one setting and version measured at {', '.join(_ms(time_s) for time_s in sorted(times))}"
        found |= dict.fromkeys(doubtful["point_id"], why)
    return found


def version_pair(points: pd.DataFrame) -> Reasons:
    """The quicker of two versions whose times at equal settings differ by more than DISAGREE in the median."""
    found: Reasons = {}
    for _, group in points.groupby(list(GROUP)):
        times = group.groupby([*SETTINGS, "version"])["measured_s"].median().unstack("version")
        for quick in times.columns:
            for slow in times.columns:
                factors = (times[slow] / times[quick]).dropna()
                if len(factors) >= PAIRS and factors.median() > DISAGREE:
                    why = (
                        f"version {quick} is {factors.min():.2f} to {factors.max():.2f} times as quick as {slow} at "
                        f"{len(factors)} equal settings: speculation inferred"
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
    """The points that a rule finds, columns point_id, rule, reason. `points`: `expressible` ones, nothing predicted.

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
    with store.open_store(store.default_store_path()) as opened:
        found = quarantined(expressible(store.plain_decode_points(opened)))
    QUARANTINE.write_text(frame_csv(found), encoding="utf-8")
    sys.stdout.write(found.groupby([*RUN, "rule"]).size().to_string() + f"\n{len(found)} points, {QUARANTINE}\n")


if __name__ == "__main__":
    main()
