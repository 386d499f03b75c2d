"""Result files that are right, and the same files misread: whose batch, which draft length, which
time, which machine.

Right ones are SYNTHETIC (the model's own predictions under constants drawn from their priors, with
a tilt over the batch and scatter that no constant explains) or published rows of one deployment
each. A misreading changes what a file says, never what was run: so the right rows tell what a refit
on the wrong ones does to predictions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.multipliers import multiplier_prior
from advisor.measured.observations import NAMES, QUANTITIES, joined, log_predicted
from advisor.measured.points import judged_rows, measured_times, refit_points

INPUT_TOKENS = 1000.0
OUTPUT_TOKENS = 200.0
SCATTER = 0.03
TILT = 0.05
"""Log scatter of one time, and log standard deviation of a drift from the smallest batch to the
largest. [-]"""
_FULL = {1: 1.7, 2: 2.1, 3: 2.4, 5: 2.7}
_STATED = (
    *(
        "hardware_id",
        "gpu_count",
        "tensor_parallel",
        "expert_parallel",
        "engine",
        "engine_version",
        "date",
    ),
    *(
        "model_id",
        "weight_dtype",
        "drafter",
        "draft_tokens_k",
        "draft_structure",
        "batch_size",
        "batch_kind",
    ),
    *(
        "input_tokens",
        "output_tokens",
        "dataset",
        "accepted_length",
        "accepted_length_same_run",
        "notes",
    ),
)


@dataclass(frozen=True, eq=False)
class Deployment:
    """Synthetic deployment: what its rows state, the grid that was run, and whether its file holds
    speedups alone."""

    name: str
    stated: Mapping[str, object]
    sibling: str
    """Accelerator that its owner might name by mistake."""
    sister: str
    """Model of the same family that its owner might name by mistake."""
    batches: tuple[int, ...] = (1, 4, 16, 64, 128)
    drafts: tuple[int, ...] = (1, 3, 5)
    ratios: bool = False
    seed: int = 0


DEPLOYMENTS = (
    Deployment(
        "qwen3-30b on an H200",
        {
            "hardware_id": "h200-sxm",
            "gpu_count": 1,
            "model_id": "qwen3-30b-a3b",
            "drafter": "eagle3",
        },
        "h100-sxm",
        "qwen3-235b-a22b",
        seed=1,
    ),
    Deployment(
        "deepseek-v3 on 8 H200",
        {
            "hardware_id": "h200-sxm",
            "gpu_count": 8,
            "model_id": "deepseek-v3",
            "drafter": "mtp",
            "engine": "sglang",
        },
        "b200-sxm",
        "kimi-k2",
        drafts=(1, 2, 3),
        seed=2,
    ),
    Deployment(
        "speedups of gpt-oss-120b on a B200",
        {
            "hardware_id": "b200-sxm",
            "gpu_count": 1,
            "model_id": "gpt-oss-120b",
            "drafter": "eagle3",
        },
        "h200-sxm",
        "gpt-oss-20b",
        ratios=True,
        seed=3,
    ),
    Deployment(
        "qwen3-235b on 4 MI300X, rooflines",
        {
            "hardware_id": "mi300x",
            "gpu_count": 4,
            "model_id": "qwen3-235b-a22b",
            "drafter": "eagle3",
        },
        "mi325x",
        "qwen3-30b-a3b",
        batches=(1, 4, 16, 64),
        seed=4,
    ),
)
REAL = {
    "qwen3-coder on a B200, published": (
        "DFlash (arXiv 2602.06036, later version), table 3",
        "qwen3-coder-30b-a3b",
    ),
    "qwen3-30b on 2 H100, published": ("SpecForge issue 339", "qwen3-30b-a3b"),
}


@cache
def synthetic(deployment: Deployment, without: tuple[str, ...] = ()) -> pd.DataFrame:
    """Rows as they were run: every time and ratio, under one draw of the constants.

    `without`: multipliers of what was not in the measured time.
    """
    rows = [
        {
            "engine": "vllm",
            "input_tokens": INPUT_TOKENS,
            "output_tokens": OUTPUT_TOKENS,
            "tpot_s": 1.0,
            "tensor_parallel": deployment.stated["gpu_count"],
            "accepted_length_same_run": 1,
            **deployment.stated,
            "batch_size": batch,
            "draft_tokens_k": k,
            "accepted_length": _FULL.get(k),
        }
        for batch in deployment.batches
        for k in (0, *deployment.drafts)
    ]
    frame = pd.DataFrame(rows, index=pd.RangeIndex(2, len(rows) + 2, name="line")).reindex(
        columns=COLUMNS["points"]
    )
    points, refused = refit_points(frame)
    assert not refused, refused
    rng = np.random.default_rng(deployment.seed)
    theta = np.linalg.cholesky(multiplier_prior(points).covariance) @ rng.standard_normal(
        len(NAMES)
    )
    theta[[NAMES.index(name) for name in without]] = np.log(1e-6)
    tilt = TILT * rng.standard_normal() * np.log(frame["batch_size"] / deployment.batches[0])
    tilt = tilt / np.log(deployment.batches[-1] / deployment.batches[0])
    observed = joined(point.observations for point in points)
    times = np.exp(
        log_predicted(observed, theta) + tilt + SCATTER * rng.standard_normal(len(frame))
    )
    return with_what_follows(frame.assign(tpot_s=np.asarray(times)))


def with_what_follows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rounds, speedups over the plain row of the same batch, and whole requests, from the times per
    token."""
    batch = frame["batch_size"].astype(float)
    tpot = frame["tpot_s"].astype(float)
    plain = (
        tpot.where(frame["draft_tokens_k"] == 0)
        .groupby([frame.get("_cell", batch)])
        .transform("first")
    )
    ttft = 0.03 + 0.002 * batch
    return frame.assign(
        step_time_s=tpot * frame["accepted_length"].astype(float).fillna(1.0),
        speedup=np.where(frame["draft_tokens_k"] > 0, plain / tpot, np.nan),
        ttft_s=ttft,
        request_latency_s=ttft + (OUTPUT_TOKENS - 1) * tpot,
    )


@cache
def published(title: str, model: str) -> pd.DataFrame:
    """Published rows of one source and model, the plain and the speculative time of each as rows of
    their own."""
    found = judged_rows()
    chosen = (
        (found["source_title"] == title) & (found["model_id"] == model) & (found["defect"] == "")
    )
    return as_own_rows(found[chosen])


def as_own_rows(found: pd.DataFrame) -> pd.DataFrame:
    """Published rows as their authors would upload them: times per token where they are printed,
    else the speedup."""
    out = []
    for cell, row in enumerate(found.to_dict("records")):
        plain_s, token_s = measured_times(row)
        stated = {name: row.get(name) or None for name in (*_STATED, "metric")} | {"_cell": cell}
        if np.isfinite(plain_s) and np.isfinite(token_s):
            out.append({**stated, "draft_tokens_k": 0, "accepted_length": None, "tpot_s": plain_s})
            out.append({**stated, "tpot_s": token_s})
        else:
            out.append({**stated, "speedup": row["speedup"]})
    frame = pd.DataFrame(out, index=pd.RangeIndex(2, len(out) + 2, name="line"))
    numbers = [
        "draft_tokens_k",
        "batch_size",
        "accepted_length",
        "gpu_count",
        "tensor_parallel",
        "input_tokens",
    ]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    return (
        with_what_follows(frame) if "tpot_s" in frame and frame["tpot_s"].notna().all() else frame
    )


Change = Callable[[pd.DataFrame], Mapping[str, object]]


def _times(column: str, factor: float) -> Change:
    return lambda f: {column: f[column].astype(float) * factor}


def _drafting(change: Callable[[pd.DataFrame], pd.Series], column: str = "tpot_s") -> Change:
    """A change of the rows with drafts alone."""
    return lambda f: {column: f[column].astype(float).where(f["draft_tokens_k"] == 0, change(f))}


def _plain(change: Callable[[pd.DataFrame], pd.Series]) -> Change:
    """A change of the rows without drafts alone: a wrong baseline."""
    return lambda f: {"tpot_s": f["tpot_s"].astype(float).where(f["draft_tokens_k"] > 0, change(f))}


def _length(change: Callable[[pd.DataFrame], pd.Series]) -> Change:
    """A change of the accepted length, within 1 and K + 1."""

    def changed(f: pd.DataFrame) -> pd.Series:
        numbers = f.assign(accepted_length=f["accepted_length"].astype(float))
        return change(numbers).clip(1.0, f["draft_tokens_k"] + 1.0)

    return _drafting(changed, "accepted_length")


def _k(change: Callable[[pd.Series], pd.Series]) -> Change:
    return _drafting(
        lambda f: change(f["draft_tokens_k"].astype(float)).clip(lower=1.0), "draft_tokens_k"
    )


def _capped(f: pd.DataFrame) -> Mapping[str, object]:
    """No more than a quarter of the largest batch ran together; the rest waited, outside the time
    of a token."""
    batch = f["batch_size"].astype(float)
    cap = max(b for b in batch.unique() if b <= batch.max() / 4.0)
    held = (
        f.assign(at=batch.clip(upper=cap))
        .groupby(["at", "draft_tokens_k"])["tpot_s"]
        .transform("first")
    )
    return {"tpot_s": held.where(batch > cap, f["tpot_s"].astype(float))}


def _reversed_batches(f: pd.DataFrame) -> Mapping[str, object]:
    """Batches listed from the largest down beside times listed from the smallest up."""
    known = np.sort(f["batch_size"].astype(float).unique())
    return {
        "batch_size": f["batch_size"].astype(float).map(dict(zip(known, known[::-1], strict=True)))
    }


def _first_k(f: pd.DataFrame) -> pd.Series:
    """Time per token with the shortest draft, at each row's batch."""
    cell = f.get("_cell", f["batch_size"])
    return f["tpot_s"].astype(float).where(f["draft_tokens_k"] > 0).groupby(cell).transform("first")


KINDS: dict[str, Change] = {
    "batch of 2 copies": _times("batch_size", 2.0),
    "batch of 4 copies": _times("batch_size", 4.0),
    "batch of 8 copies": _times("batch_size", 8.0),
    "batch of one of 2 clients": _times("batch_size", 0.5),
    "batch of one of 4 clients": _times("batch_size", 0.25),
    "a third of the batch running": _times("batch_size", 3.0),
    "peak of requests for the mean": _times("batch_size", 1.8),
    "batch capped by the server": _capped,
    "batches against the order of times": _reversed_batches,
    "every batch called 1": lambda _: {"batch_size": 1.0},
    "K less one": _k(lambda k: k - 1),
    "K plus one": _k(lambda k: k + 1),
    "twice K": _k(lambda k: 2 * k),
    "largest K for all": _k(lambda k: k.where(k == 0, k.max())),
    "accepted drafts for accepted length": _length(lambda f: f["accepted_length"] - 1.0),
    "accepted length with a token more": _length(lambda f: f["accepted_length"] + 1.0),
    "K + 1 for accepted length": _length(lambda f: f["draft_tokens_k"] + 1.0),
    "accepted length of an easier text": _length(
        lambda f: 1.0 + 1.4 * (f["accepted_length"] - 1.0)
    ),
    "accepted length of a harder text": _length(lambda f: 1.0 + 0.6 * (f["accepted_length"] - 1.0)),
    "rate per draft for accepted length": _length(
        lambda f: (f["accepted_length"] - 1.0) / f["draft_tokens_k"]
    ),
    "accepted length of the longest draft": _length(
        lambda f: 0.0 * f["accepted_length"] + f["accepted_length"].max()
    ),
    "prefill in the time": lambda f: {"tpot_s": (f["tpot_s"] * 0.5 + 0.5 * f["tpot_s"].max())},
    "a first token in each time": lambda f: {
        "tpot_s": f["tpot_s"] + (0.03 + 0.002 * f["batch_size"]) / 20.0
    },
    "times twice": _times("tpot_s", 2.0),
    "times half": _times("tpot_s", 0.5),
    "times five times": _times("tpot_s", 5.0),
    "rounds twice": _drafting(lambda f: 2.0 * f["tpot_s"]),
    "rounds half": _drafting(lambda f: 0.5 * f["tpot_s"]),
    "round for time per token": _drafting(lambda f: f["step_time_s"]),
    "time per token divided once more": _drafting(
        lambda f: f["tpot_s"] / f["accepted_length"].astype(float)
    ),
    "time of K + 1 tokens": _drafting(lambda f: f["step_time_s"] / (f["draft_tokens_k"] + 1.0)),
    "slowest percentile": lambda f: {
        "tpot_s": f["tpot_s"] * (1.2 + 0.1 * np.log2(f["batch_size"].astype(float)))
    },
    "best run of many": _times("tpot_s", 0.8),
    "profiler running": lambda f: {
        "tpot_s": f["tpot_s"] + 0.005 / f["accepted_length"].astype(float).fillna(1.0)
    },
    "time per GPU": lambda f: {"tpot_s": f["tpot_s"] / f["gpu_count"].astype(float)},
    "time summed over GPUs": lambda f: {"tpot_s": f["tpot_s"] * f["gpu_count"].astype(float)},
    "client's network in each token": lambda f: {"tpot_s": f["tpot_s"] + 0.004},
    "baseline is K = 1": _plain(_first_k),
    "baseline of another engine": _plain(lambda f: 1.5 * f["tpot_s"]),
    "baseline with drafting on": _plain(lambda f: 1.25 * f["tpot_s"]),
    "speedup inverted": lambda f: {"speedup": 1.0 / f["speedup"].astype(float)},
    "accepted length as speedup": lambda f: {"speedup": f["accepted_length"]},
    "gain as speedup": lambda f: {"speedup": (f["speedup"].astype(float) - 1.0).clip(lower=0.02)},
    "half of the tensor parallel ranks": lambda f: dict.fromkeys(
        ("gpu_count", "tensor_parallel"), (f["gpu_count"].astype(float) / 2).clip(lower=1)
    ),
    "twice the tensor parallel ranks": lambda f: dict.fromkeys(
        ("gpu_count", "tensor_parallel"), f["gpu_count"].astype(float) * 2
    ),
    "context 16 times longer than said": _times("input_tokens", 1 / 16),
    "context 16 times shorter than said": _times("input_tokens", 16.0),
    "rows shuffled": lambda f: {
        "tpot_s": np.random.default_rng(9).permutation(f["tpot_s"].to_numpy(float))
    },
    "times in 8 bits called 16": lambda _: {"weight_dtype": "bf16"},
    "times in 16 bits called 8": lambda _: {"weight_dtype": "fp8"},
}
"""What a file says wrongly, by name. Times of speculation count with their speedups."""
MACHINES = (
    "sibling accelerator",
    "sister model",
    "drafting left out of the time",
    "host left out of the time",
)
"""Misreadings that need the deployment: rows of another machine or model, or times without a
part."""
_OF_RATIOS = {"speedup inverted", "accepted length as speedup", "gain as speedup"}


@dataclass(frozen=True)
class File:
    """Uploaded rows, and the rows as they were run, with every quantity that the file measures."""

    name: str
    data: bytes
    truth: pd.DataFrame


@cache
def wrong_files() -> dict[str, File]:
    """Every kind of misreading of every deployment that it changes, by `kind: deployment`."""
    found = {}
    for name, frame, ratios in (
        *((one.name, synthetic(one), one.ratios) for one in DEPLOYMENTS),
        *((name, published(*of), False) for name, of in REAL.items()),
    ):
        right = file_of(name, frame, frame, ratios)
        for kind, change in KINDS.items():
            only_ratios = ratios or kind in _OF_RATIOS
            one = file_of(f"{kind}: {name}", _misread(frame, change), frame, only_ratios)
            if one.data != right.data and (not only_ratios or ratios or kind in _OF_RATIOS):
                found[one.name] = one
    for one in DEPLOYMENTS:
        found |= {file.name: file for file in _of_machines(one)}
    return found


def half(name: str) -> int:
    """0 for the kinds that thresholds are chosen on, 1 for those that judge them, by the kind's
    name alone."""
    return zlib.crc32(name.split(":")[0].encode()) % 2


def _of_machines(one: Deployment) -> list[File]:
    frame = synthetic(one)
    other = synthetic(
        Deployment(**{**vars(one), "stated": {**one.stated, "hardware_id": one.sibling}})
    )
    drafting = synthetic(one, ("drafter", "draft_host"))
    host = synthetic(one, ("host", "round_host", "launch"))
    said = (
        (frame.assign(hardware_id=one.sibling), other),
        (frame.assign(model_id=one.sister), frame),
        (drafting, frame),
        (host, frame),
    )
    return [
        file_of(f"{kind}: {one.name}", wrong, truth, one.ratios)
        for kind, (wrong, truth) in zip(MACHINES, said, strict=True)
    ]


def _misread(frame: pd.DataFrame, change: Change) -> pd.DataFrame:
    changed = change(frame)
    out = frame.assign(**changed)  # type: ignore[arg-type]
    if "tpot_s" in changed and "speedup" not in changed:
        out = with_what_follows(out)
    return out


def file_of(name: str, wrong: pd.DataFrame, truth: pd.DataFrame, ratios: bool = False) -> File:
    measured = "speedup" if ratios or "tpot_s" not in wrong else "tpot_s"
    columns = [column for column in _STATED if column in wrong]
    drafting = wrong["draft_tokens_k"] > 0
    written = wrong[drafting if measured == "speedup" else slice(None)][[*columns, measured]]
    judged = truth.assign(metric=None, derived=None).reindex(columns=COLUMNS["points"])
    others = [
        q
        for q in QUANTITIES
        if q not in ({"speedup"} if measured == "speedup" else {"speedup", "tpot_s"})
    ]
    judged[others] = np.nan
    return File(name, written.to_csv(index=False).encode(), judged.rename_axis("line"))
