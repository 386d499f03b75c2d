"""Sections of docs/validation.md on what nothing is fitted on: published curves, round cost,
MoESD's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.fit_records import class_costs
from advisor.measured.point_checks import least_pass_s
from advisor.measured.points import measured_times
from advisor.measured.refit_result import errors_of, relative_error
from advisor.physics.architecture import Architecture
from advisor.predict.curve import Curve, curve_for, speedup_curve
from advisor.predict.load import load_setup, with_costs
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import by_form
from advisor.prediction import AdvisorError
from studies.fits.overheads import Overheads
from studies.published import PublishedPoint, point_of
from studies.runtime import COHERE_ACCEPTED_LENGTH, conditional_acceptance
from studies.validation.tables import markdown_table, percent

BUNDLE = "SpecBundle"
BUNDLE_BAR = 0.12
"""The external bundle, and the mean error of its round cost that was asked, without impossible
models. [-]"""


def external_section(external: pd.DataFrame, as_prior: pd.DataFrame) -> str:
    """Section of docs/validation.md on the collections that took no part in any fit."""
    with_error = as_prior.assign(error=relative_error(as_prior))
    overall = ", ".join(
        (
            f"{name} {percent(errors_of(group).mape)} "
            f"({percent(float(with_error.loc[group.index, 'error'].mean()))})"
        )
        for name, group in external.groupby("source")
    )
    return (
        "## Round cost on rows without a stated accelerator\n\nNever fitted. Measured: accepted "
        "length over speedup, "
        f"in plain steps. Assumed: {ASSUMED_HARDWARE}, which SpecBundle's dashboard names; as "
        "many GPUs (1, 2, 4 or 8) "
        "as bring the predicted plain step "
        "nearest to the plain throughput that the rows state (eight for MiMo, which counts its "
        "batch per node); 1024 "
        "tokens of context; MiMo's three dense MTP layers costed as an EAGLE head. By its date "
        "SpecBundle belongs to "
        "the class `sglang-synchronous`, fitted on other sources (table above); the prior serves "
        "today's SGLang. Mean "
        f"error by source, with the prior in brackets: {overall}.\n\n"
        + _external_table(external, with_error)
        + f"\n\n{_possible(external, with_error)}\n"
    )


def bundle_errors(external: pd.DataFrame) -> dict[str, tuple[float | None, int]]:
    """SpecBundle's mean error of round cost and its rows: as it comes, and without
    `impossible_models`. [-]"""
    bundle = external[external["source"] == BUNDLE]
    possible = bundle[~bundle["model_id"].isin(impossible_models(external))]
    return {
        "as it comes": (errors_of(bundle).mape, len(bundle)),
        "possible": (errors_of(possible).mape, len(possible)),
    }


def _possible(external: pd.DataFrame, as_prior: pd.DataFrame) -> str:
    """What the physical rule sets aside, what is left against the bar, and which model is off
    furthest."""
    faulty = impossible_models(external)
    rows = external[external["model_id"].isin(faulty)]
    (every, _), (rest, n) = bundle_errors(external).values()
    prior = as_prior[(as_prior["source"] == BUNDLE) & ~as_prior["model_id"].isin(faulty)]
    by_model = prior.groupby("model_id")["error"].mean()
    furthest = by_model.idxmax()
    status = "met" if rest is not None and rest <= BUNDLE_BAR else "missed"
    said = (
        "A published round that costs less than reading the weights of the experts it touches, "
        "on the GPUs that the model's plain throughput implies, cannot be as it is printed: "
        f"{', '.join(faulty)} ({int((rows['impossible'] != '').sum())} of {len(rows)} rows), set "
        "aside as a whole. "
        if faulty
        else "No published round costs less than reading the weights of the experts it touches. "
    )
    return (
        f"{said}SpecBundle's mean error is {percent(rest)} without (n {n}; bar "
        f"{percent(BUNDLE_BAR, 0)}: {status}) and {percent(every)} with it. What is left is host "
        "time: with the prior's in place of the class's it is "
        f"{percent(float(prior['error'].mean()))}, by model from {percent(float(by_model.min()))} "
        f"to {percent(float(by_model.max()))} ({furthest}), draft trees included. Published "
        "sources disagree on SGLang's host time per round by more than the band of its class "
        "says (the slowest is a report of a slowdown, SpecForge issue 339), and none states its "
        "host."
    )


def _external_table(external: pd.DataFrame, as_prior: pd.DataFrame) -> str:
    """One row per source, model, draft structure and GPU count."""
    keys = ["source", "model_id", "tree", "gpus"]
    prior = as_prior.groupby(keys)["error"].mean()
    body = [
        (
            *key[:2],
            "tree" if key[2] else "chain",
            key[3],
            len(group),
            _milliseconds(group["published_plain_s"]),
            _milliseconds(group["predicted_plain_s"]),
            f"{group['measured'].median():.2f}",
            f"{group['predicted'].median():.2f}",
            percent(errors_of(group).mape),
            percent(float(prior.loc[key])),
        )
        for key, group in external.groupby(keys)
    ]
    names = ["source", "model", "draft", "GPUs", "n"]
    steps = ("plain step published, ms", "predicted", "round measured", "predicted")
    return markdown_table((*names, *steps, "error", "error with the prior"), body)


def _milliseconds(seconds: pd.Series) -> str:
    return "" if seconds.isna().all() else f"{seconds.median() * 1e3:.1f}"


def moesd_section(cells: pd.DataFrame) -> str:
    """Section of docs/validation.md on MoESD's cells."""
    body = []
    for key, group in cells.groupby(["model_id", "hardware_id", "gpus", "tier"]):
        errors = errors_of(group)
        body.append(
            (
                *key,
                len(group),
                f"{group['measured'].mean():.2f}",
                f"{group['predicted'].mean():.2f}",
                f"{group['batch_size'].median():.0f}",
                percent(errors.median_ape),
                percent(errors.coverage, 0),
            )
        )
    keys = ("model", "accelerator", "GPUs", "tier")
    errors = errors_of(cells)
    return (
        "## R14: MoESD's tables\n\nPeak over batches 1 to 100, published acceptance, gamma tokens "
        "verified, overheads "
        f"of vLLM before 2026, no fit. {len(cells)} cells: median error "
        f"{percent(errors.median_ape)}, 90 % within "
        f"{percent(errors.p90_ape)}. H800 and A800 use the kernels measured on H100 and A100. "
        "Predicted above "
        f"measured in {percent(float((cells['predicted'] > cells['measured']).mean()), 0)} of "
        "them, as it would be if "
        "that implementation paid more per round than its class does; the batch of a published "
        "peak is not known.\n\n"
        + markdown_table(
            (*keys, "cells", "measured", "predicted", "at batch", "median error", "in band"), body
        )
    )


def reproduction_section(table: pd.DataFrame | None) -> str:
    """Section of docs/validation.md on published effects and whether they are reproduced."""
    moe, dense = cohere()
    ks = best_k()
    lines = [
        "## R10-R13, R17, R19\n",
        "Directions and tolerances of published curves; nothing was fitted on them.\n",
    ]
    header = ("curve", *(f"B {batch}" for batch in BATCHES))
    body = [
        ("R10 Command A+ speedup, K = 3", *(f"{v:.2f}" for v in moe.speedup[:, 0])),
        ("R10 Command A+ R", *(f"{v:.2f}" for v in moe.verify_ratio[:, 0])),
        ("R11 dense Command A speedup", *(f"{v:.2f}" for v in dense.speedup[:, 0])),
        ("R17 best K, Command A+", *ks[0]),
        ("R17 best K, dense Command A", *ks[1]),
    ]
    lines.append(markdown_table(header, body))
    lines.append(_r10(moe))
    falls = bool(np.all(np.diff(dense.speedup[:, 0]) <= 1e-9))
    lines.append(
        f"- R11: published non-increasing; here {'too' if falls else 'not'}. R17: published 3, "
        "then 5 at B 16-32, then 3, and non-increasing on the dense model; here "
        f"{_course(ks[0])}, and on the dense model {_course(ks[1])}."
    )
    peaks = {
        k: (float(v.max()), float(WIDE_BATCHES[v.argmax()]), plateau(v))
        for k, v in by_active().items()
    }
    text = "; ".join(
        f"k {k}: {p:.2f} at B {b:.0f}, plateau x{w:.0f}" for k, (p, b, w) in peaks.items()
    )
    later = [peak[1] for peak in peaks.values()]
    agrees = "here too" if all(np.diff(later) <= 0) else "here not for every k"
    lines.append(
        f"- R12 (k of 128 experts; published: smaller k peaks later and holds longer; {agrees}): "
        f"{text}."
    )
    ridge = ", ".join(f"{name} {value:.2f}" for name, value in by_ridge().items())
    lines.append(f"- R13 (higher ridge point, higher peak): {ridge}.")
    lines.append(_r19(table))
    return "\n".join(lines)


def _course(best_k: np.ndarray) -> str:
    """Whether a best K rises anywhere over batch, and from where to where it goes."""
    rises = "rises in places" if np.any(np.diff(best_k) > 0) else "never rises"
    return f"{best_k[0]} at B {BATCHES[0]}, {best_k[-1]} at B {BATCHES[-1]} and {rises}"


def _r10(curve: Curve) -> str:
    speedup = float(curve.speedup[0, 0])
    ratio = float(curve.verify_ratio[0, 0])
    plain_s = float(curve.plain_step_s[0])
    parts = curve.round_components
    host = float(parts["draft_host"][0, 0] + parts["round_host"][0, 0]) / plain_s
    kernels = float(parts["draft"][0, 0]) / plain_s
    verified = float(parts["verified"][0, 0]) / plain_s if "verified" in parts else 0.0
    later = curve.speedup[1:, 0]
    peak = int(later.argmax()) + 1
    return (
        "\n- R10: published about 1.95 at B 1 with R = 1.25 and a peak of 2.2 at 4-16 (second "
        "hand). Here "
        f"{speedup:.2f} and {ratio:.2f}, "
        f"{'within' if abs(speedup / 1.95 - 1) <= 0.1 else 'outside'} 10 %; beyond B 1 "
        f"the highest is {float(later.max()):.2f} at B {curve.batches[peak]:.0f}. At B 1, in "
        "plain steps: drafting is "
        f"published as 14.3 % in all; here its kernels take {percent(kernels)}, the host "
        f"{percent(host)} and what "
        f"verified tokens cost beyond kernels {percent(verified)}. Nothing is tuned to it."
    )


def _r19(table: pd.DataFrame | None) -> str:
    if table is None or table.empty:
        return "- R19: no store here, so not printed; run `make store` first."
    newest = table[table["version"] == table["version"].iloc[-1]]
    time_s = newest.groupby("num_tokens")["latency_s"].median()
    found = [
        (int(t), float(time_s[t] / time_s[4 * t]))
        for t in time_s.index
        if 4 * t in time_s.index and t <= 512
    ]
    ratios = ", ".join(f"{t}: {ratio:.2f}" for t, ratio in found)
    return (
        "- R19 (H200 bf16 128/8 2048x768 balanced, measured T(B)/T(4B); expected a minimum near "
        f"B 4 of .31, >= .93 for B 16-64, .76 at 512): {ratios}."
    )


BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COMMAND_A_PLUS = Scenario(
    hardware_id="h200-sxm",
    n_gpus=4,
    tensor_parallel=4,
    model_id="command-a-plus",
    weight_dtype="fp8",
    drafter_id="eagle3",
    acceptance="2.73@3",
    context_tokens=512,
    k_max=7,
)
COMMAND_A = COMMAND_A_PLUS.model_copy(update={"model_id": "command-a"})


def cohere() -> tuple[Curve, Curve]:
    """R10, R11: Command A+ and dense Command A at K = 3 with an EAGLE head, 4 x H200."""
    return speedup_curve(COMMAND_A_PLUS, BATCHES, [3]), speedup_curve(COMMAND_A, BATCHES, [3])


def best_k() -> tuple[np.ndarray, np.ndarray]:
    """R17: best K over BATCHES for Command A+ and dense Command A with the published accepted
    lengths."""
    given = {"acceptance": conditional_acceptance(COHERE_ACCEPTED_LENGTH)}
    curves = (
        speedup_curve(s.model_copy(update=given), BATCHES) for s in (COMMAND_A_PLUS, COMMAND_A)
    )
    moe, dense = (curve.drafts[curve.speedup.argmax(axis=1)] for curve in curves)
    return moe, dense


def with_active(n_active: int) -> Architecture:
    """Qwen3-30B-A3B with another number of active experts, attention, depth and expert width as
    they are."""
    architecture = load_setup(QWEN).architecture
    assert architecture.moe is not None
    return architecture.model_copy(
        update={"moe": architecture.moe.model_copy(update={"n_active": n_active})}
    )


QWEN = Scenario(
    hardware_id="h200-sxm",
    model_id="qwen3-30b-a3b",
    drafter_id="eagle3",
    acceptance="2.73@3",
    k_max=3,
)
WIDE_BATCHES = np.unique(np.round(np.geomspace(1, 2048, 45)))


def by_active(actives: tuple[int, ...] = (2, 4, 8, 16, 32)) -> dict[int, np.ndarray]:
    """R12: speedup over WIDE_BATCHES as k varies at fixed N and expert width, all by the form."""
    setup = by_form(load_setup(QWEN))
    return {
        k: curve_for(
            dataclasses.replace(setup, architecture=with_active(k)), WIDE_BATCHES, [3]
        ).speedup[:, 0]
        for k in actives
    }


def by_ridge() -> dict[str, float]:
    """R13: peak speedup on H800 (ridge 295 FLOP/B) and A800 (153), Qwen2-57B-A14B on two GPUs."""
    base = Scenario(
        n_gpus=2,
        tensor_parallel=2,
        model_id="qwen2-57b-a14b",
        drafter_id="qwen2-0.5b",
        acceptance="0.9",
        k_max=4,
    )
    return {
        name: float(
            speedup_curve(
                base.model_copy(update={"hardware_id": name}), WIDE_BATCHES, [4]
            ).speedup.max()
        )
        for name in ("h800-sxm", "a800-80gb-sxm")
    }


def plateau(speedups: np.ndarray) -> float:
    """Longest range of batches with speedup >= peak / sqrt(2), as a ratio of its ends. [-]"""
    good = speedups >= speedups.max() / np.sqrt(2.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(int)))
    return max(
        float(WIDE_BATCHES[end - 1] / WIDE_BATCHES[start])
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    )


EXTERNAL_SOURCES = {
    "SpecForge SpecBundle dashboard": "SpecBundle",
    "MiMo-V2-Flash technical report, table 10": "MiMo",
}
ASSUMED_HARDWARE = "h200-sxm"
"""SpecBundle and MiMo do not state their accelerator: assumed, never fitted."""
"""What else they may have run on: shows how much of their error the assumption is."""
GPU_COUNTS = ("1", "2", "4", "8")
MOESD_BATCHES = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 80, 100)


def external_points(
    frame: pd.DataFrame, hardware_id: str = ASSUMED_HARDWARE
) -> list[PublishedPoint]:
    """Rows of EXTERNAL_SOURCES on an assumed accelerator.

    How many GPUs held a model is not stated either: of the counts that hold it, the one whose
    predicted plain step is nearest to the plain throughput that its rows state. MiMo counts its
    batch per node, so it gets the eight GPUs of one.
    """
    rows = frame[frame["source_title"].isin(list(EXTERNAL_SOURCES))]
    rows = rows.assign(
        drafter=rows["drafter"].replace("mtp", "eagle")
    )  # MiMo's MTP layers are dense, as EAGLE heads
    points = []
    for _, group in rows.groupby(["model_id", "batch_size"], sort=False):
        records = group.to_dict("records")
        gpus = (
            "8"
            if (group["batch_kind"] == "batch_per_node").all()
            else _nearest_gpu_count(records, hardware_id)
        )
        for row in records:
            point = _point_if_it_fits(row, hardware_id, gpus) if gpus else None
            if point is not None:
                points.append(point)
    return points


def published_plain_s(row: Mapping[str, Any]) -> float:
    """Seconds of a plain step, prefill included, from the whole batch's plain throughput. NaN where
    none is stated."""
    if row["metric"] != "output_tok_per_s" or not row["baseline_value"]:
        return float("nan")
    return float(row["batch_size"]) / float(row["baseline_value"])


def _nearest_gpu_count(records: Sequence[Mapping[str, Any]], hardware_id: str) -> str | None:
    """The count of GPU_COUNTS whose predicted plain step is nearest to the median of the published
    ones."""
    published_s = float(np.nanmedian([published_plain_s(row) for row in records]))
    distance = {}
    for gpus in GPU_COUNTS:
        found = (_point_if_it_fits(row, hardware_id, gpus) for row in records)
        point = next((point for point in found if point is not None), None)
        if point is not None:
            plain_s = point.curve(
                with_costs(point.setup, **class_costs(point.engine_class))
            ).plain_step_s[0]
            distance[gpus] = abs(np.log(plain_s / published_s))
    return min(distance, key=lambda gpus: distance[gpus], default=None)


def _point_if_it_fits(row: Mapping[str, Any], hardware_id: str, gpus: str) -> PublishedPoint | None:
    try:
        point = point_of(row, {"hardware_id": hardware_id, "tensor_parallel": gpus})
    except AdvisorError:
        return None
    return point if point.setup.memory.largest_batch >= point.question.scenario.batch_size else None


def external_round_costs(
    points: Sequence[PublishedPoint], overheads: Overheads | None = None
) -> pd.DataFrame:
    """Measured and predicted round cost in plain steps. Columns source, title, model_id, checkpoint
    (what was served), head (what drafted), dataset, n_draft, verify_tokens, tree, gpus, batch_size,
    accepted_length, measured_speedup, measured, predicted, predicted_speedup, draws; the plain
    steps themselves in seconds, published (the batch over the plain throughput) and predicted;
    impossible, why the row cannot be as it is printed (`faster_than_reading`)."""
    rows = []
    for point in points:
        costs = (
            class_costs(point.engine_class)
            if overheads is None
            else overheads.costs() | {"host_one_gpu_share": 1.0}
        )
        curve = point.curve(with_costs(point.setup, **costs))
        question = point.question
        rows.append(
            {
                "source": EXTERNAL_SOURCES.get(point.source, point.source),
                "model_id": question.scenario.model_id,
                "title": point.source,
                "checkpoint": _noted(point, "served checkpoint"),
                "head": _noted(point, "draft head").lower(),  # one head is printed in two spellings
                "dataset": point.facts.get("dataset", ""),
                "n_draft": question.n_draft,
                "verify_tokens": question.verify_tokens or question.n_draft + 1,
                "tree": str(point.facts["draft_structure"]).startswith("tree"),
                "gpus": question.scenario.n_gpus,
                "batch_size": question.scenario.batch_size,
                "accepted_length": point.accepted_length,
                "measured_speedup": point.measured,
                "measured": point.accepted_length / point.measured,
                "predicted": float(curve.round_s[0, 0] / curve.plain_step_s[0]),
                "predicted_speedup": float(curve.speedup[0, 0]),
                "draws": curve.draws[:, 0, 0],
                "published_plain_s": published_plain_s(point.facts),
                "predicted_plain_s": float(curve.plain_step_s[0]),
                "impossible": faster_than_reading(point),
            }
        )
    return pd.DataFrame(rows)


def _noted(point: PublishedPoint, what: str) -> str:
    """What a row's notes name after `what`. Empty where they do not."""
    notes = (note.strip() for note in str(point.facts.get("notes", "")).split(";"))
    return next((note.removeprefix(what).strip() for note in notes if note.startswith(what)), "")


def impossible_models(external: pd.DataFrame) -> list[str]:
    """Models of which a published round costs less than reading the weights of the experts it
    touches.

    Its other rows are of the same runs, on the same unstated GPUs, so that the model is set aside
    as a whole.
    """
    return sorted(external.loc[external["impossible"] != "", "model_id"].unique())


def moesd_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Each cell of MoESD's tables: published and predicted peak speedup over MOESD_BATCHES with its
    batch.

    Published acceptance, gamma tokens verified per request as in the paper, no fit. Overheads of an
    engine of 2025.
    """
    rows = []
    for cell in frame.to_dict("records"):
        gamma = int(cell["draft_tokens_gamma"])
        gpus = int(cell["gpu_count"])
        scenario = build_scenario(
            hardware_id=cell["hardware_id"],
            n_gpus=gpus,
            tensor_parallel=gpus,
            model_id=cell["model_id"],
            drafter_id="qwen2-0.5b" if cell["drafter"] == "draft_model" else "eagle",
            acceptance=f"{cell['tokens_per_round']}@{gamma}",
            context_tokens=512,
            k_max=gamma,
        )
        setup = with_costs(
            load_setup(scenario, borrowed_acceptance=False), **class_costs("vllm-synchronous")
        )
        curve = curve_for(setup, MOESD_BATCHES, [gamma], verify_tokens=gamma)
        peak = int(curve.speedup[:, 0].argmax())
        rows.append(
            {
                "cell_id": cell["cell_id"],
                "hardware_id": cell["hardware_id"],
                "gpus": gpus,
                "model_id": cell["model_id"],
                "dataset": cell["dataset"],
                "temperature": cell["temperature"],
                "n_draft": gamma,
                "tier": str(curve.tier[peak, 0]),
                "measured": float(cell["speedup_peak"]),
                "predicted": float(curve.speedup[peak, 0]),
                "low": float(curve.low[peak, 0]),
                "high": float(curve.high[peak, 0]),
                "draws": curve.draws[:, peak, 0],
                "batch_size": MOESD_BATCHES[peak],
            }
        )
    return pd.DataFrame(rows)


def faster_than_reading(point: PublishedPoint) -> str:
    """Reason why a published row cannot be as it is printed, or an empty text.

    Its round is the printed time of a token times the accepted length of the same run, else K + 1,
    the most there can be; its plain step is the printed time of a token.
    """
    plain_s, token_s = measured_times(point.facts)
    length = point.n_draft + 1.0 if point.question.borrowed else point.accepted_length
    passes = {
        "plain step": (plain_s, 1.0),
        "round": (token_s * length, point.question.verify_tokens or point.n_draft + 1.0),
    }
    for name, (printed_s, tokens) in passes.items():
        least_s = least_pass_s(point.setup, point.batch_size, tokens)
        if np.isfinite(printed_s) and printed_s < least_s:
            return (
                f"the printed {name} of {printed_s * 1e3:.2f} ms is shorter than reading the "
                f"weights it touches ({least_s * 1e3:.2f} ms on {point.setup.placement.gpus} x "
                f"{point.setup.hardware.id})"
            )
    return ""
