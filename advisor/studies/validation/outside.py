"""Sections of docs/validation.md on measurements that nothing is fitted on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.curve import Curve
from advisor.points import errors_of, relative_error
from advisor.studies.validation.checks import ASSUMED_HARDWARE, impossible_models
from advisor.studies.validation.reproduction import BATCHES, WIDE_BATCHES, best_k, by_active, by_ridge, cohere, plateau
from advisor.studies.validation.tables import markdown_table, percent

BUNDLE, BUNDLE_BAR = "SpecBundle", 0.12
"""The external bundle, and the mean error of its round cost that was asked, without impossible models. [-]"""


def external_section(external: pd.DataFrame, as_prior: pd.DataFrame) -> str:
    """Section of docs/validation.md on the collections that took no part in any fit."""
    with_error = as_prior.assign(error=relative_error(as_prior))
    overall = ", ".join(
        f"{name} {percent(errors_of(group).mape)} ({percent(float(with_error.loc[group.index, 'error'].mean()))})"
        for name, group in external.groupby("source")
    )
    return (
        "## Round cost on rows without a stated accelerator\n\nNever fitted. Measured: accepted length over speedup, "
        f"in plain steps. Assumed: {ASSUMED_HARDWARE}; as many GPUs (1, 2, 4 or 8) as bring the predicted plain step "
        "nearest to the plain throughput that the rows state (eight for MiMo, which counts its batch per node); 1024 "
        "tokens of context; MiMo's three dense MTP layers costed as an EAGLE head. By its date SpecBundle belongs to "
        "the class `sglang-synchronous`, fitted on other sources (table above); the prior serves today's SGLang. Mean "
        f"error by source, with the prior in brackets: {overall}.\n\n"
        + _external_table(external, with_error)
        + f"\n\n{_possible(external, with_error)}\n"
    )


def bundle_errors(external: pd.DataFrame) -> dict[str, tuple[float | None, int]]:
    """SpecBundle's mean error of round cost and its rows: as it comes, and without `impossible_models`. [-]"""
    bundle = external[external["source"] == BUNDLE]
    possible = bundle[~bundle["model_id"].isin(impossible_models(external))]
    return {"as it comes": (errors_of(bundle).mape, len(bundle)), "possible": (errors_of(possible).mape, len(possible))}


def _possible(external: pd.DataFrame, as_prior: pd.DataFrame) -> str:
    """What the physical rule sets aside, what is left against the bar, and which model is off furthest."""
    faulty = impossible_models(external)
    rows = external[external["model_id"].isin(faulty)]
    (every, _), (rest, n) = bundle_errors(external).values()
    prior = as_prior[(as_prior["source"] == BUNDLE) & ~as_prior["model_id"].isin(faulty)]
    by_model = prior.groupby("model_id")["error"].mean()
    furthest = by_model.idxmax()
    status = "met" if rest is not None and rest <= BUNDLE_BAR else "missed"
    said = (
        f"A published round that costs less than reading the weights of the experts it touches, on the GPUs that the "
        f"model's plain throughput implies, cannot be as it is printed: {', '.join(faulty)} "
        f"({int((rows['impossible'] != '').sum())} of {len(rows)} rows), set aside as a whole. "
        if faulty
        else "No published round costs less than reading the weights of the experts it touches. "
    )
    return (
        f"{said}SpecBundle's mean error is {percent(rest)} without (n {n}; bar {percent(BUNDLE_BAR, 0)}: {status}) and "
        f"{percent(every)} with it. What is left is host time: with the prior's in place of the class's it is "
        f"{percent(float(prior['error'].mean()))}, by model from {percent(float(by_model.min()))} to "
        f"{percent(float(by_model.max()))} ({furthest}), draft trees included. Published sources disagree on SGLang's "
        "host time per round by more than the band of its class says (the slowest is a report of a slowdown, SpecForge "
        "issue 339), and none states its host."
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


def assumed_accelerators(
    external: pd.DataFrame, as_prior: pd.DataFrame, elsewhere: dict[str, tuple[pd.DataFrame, pd.DataFrame]]
) -> str:
    """Error of SpecBundle under each accelerator it may have run on. (By class, with the prior) by accelerator."""
    body = []
    faulty = impossible_models(external)  # on the GPUs assumed first: others are as many as their bandwidth asks for
    for hardware_id, pair in {ASSUMED_HARDWARE: (external, as_prior), **elsewhere}.items():
        bundle = [frame[frame["source"] == BUNDLE] for frame in pair]
        others = [frame[~frame["model_id"].isin(faulty)] for frame in bundle]
        errors = (percent(errors_of(frame).mape) for frame in (*bundle, *others))
        body.append((hardware_id, len(bundle[0]), *errors))
    header = ("assumed", "n", "by class", "with the prior", "possible rounds, by class", "... with the prior")
    return (
        "SpecBundle's mean error by assumed accelerator, as it comes and without what is set aside above.\n\n"
        + markdown_table(header, body)
    )


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
        "## R14: MoESD's tables\n\nPeak over batches 1 to 100, published acceptance, gamma tokens verified, overheads "
        f"of vLLM before 2026, no fit. {len(cells)} cells: median error {percent(errors.median_ape)}, 90 % within "
        f"{percent(errors.p90_ape)}. H800 and A800 use the kernels measured on H100 and A100. Predicted above "
        f"measured in {percent(float((cells['predicted'] > cells['measured']).mean()), 0)} of them, as it would be if "
        "that implementation paid more per round than its class does; the batch of a published peak is not known.\n\n"
        + markdown_table((*keys, "cells", "measured", "predicted", "at batch", "median error", "in band"), body)
    )


def reproduction_section(table: pd.DataFrame | None) -> str:
    """Section of docs/validation.md on published effects and whether they are reproduced."""
    moe, dense = cohere()
    ks = best_k()
    lines = ["## R10-R13, R17, R19\n", "Directions and tolerances of published curves; nothing was fitted on them.\n"]
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
        f"- R11: published non-increasing; here {'too' if falls else 'not'}. R17: published 3, then 5 at B 16-32, then "
        f"3, and non-increasing on the dense model; here {_course(ks[0])}, and on the dense model {_course(ks[1])}."
    )
    peaks = {k: (float(v.max()), float(WIDE_BATCHES[v.argmax()]), plateau(v)) for k, v in by_active().items()}
    text = "; ".join(f"k {k}: {p:.2f} at B {b:.0f}, plateau x{w:.0f}" for k, (p, b, w) in peaks.items())
    later = [peak[1] for peak in peaks.values()]
    agrees = "here too" if all(np.diff(later) <= 0) else "here not for every k"
    lines.append(f"- R12 (k of 128 experts; published: smaller k peaks later and holds longer; {agrees}): {text}.")
    ridge = ", ".join(f"{name} {value:.2f}" for name, value in by_ridge().items())
    lines.append(f"- R13 (higher ridge point, higher peak): {ridge}.")
    lines.append(_r19(table))
    return "\n".join(lines)


def _course(best_k: np.ndarray) -> str:
    """Whether a best K rises anywhere over batch, and from where to where it goes."""
    rises = "rises in places" if np.any(np.diff(best_k) > 0) else "never rises"
    return f"{best_k[0]} at B {BATCHES[0]}, {best_k[-1]} at B {BATCHES[-1]} and {rises}"


def _r10(curve: Curve) -> str:
    speedup, ratio = float(curve.speedup[0, 0]), float(curve.verify_ratio[0, 0])
    plain_s, parts = float(curve.plain_step_s[0]), curve.round_components
    host = float(parts["draft_host"][0, 0] + parts["round_host"][0, 0]) / plain_s
    kernels = float(parts["draft"][0, 0]) / plain_s
    verified = float(parts["verified"][0, 0]) / plain_s if "verified" in parts else 0.0
    later = curve.speedup[1:, 0]
    peak = int(later.argmax()) + 1
    return (
        "\n- R10: published about 1.95 at B 1 with R = 1.25 and a peak of 2.2 at 4-16 (second hand). Here "
        f"{speedup:.2f} and {ratio:.2f}, {'within' if abs(speedup / 1.95 - 1) <= 0.1 else 'outside'} 10 %; beyond B 1 "
        f"the highest is {float(later.max()):.2f} at B {curve.batches[peak]:.0f}. At B 1, in plain steps: drafting is "
        f"published as 14.3 % in all; here its kernels take {percent(kernels)}, the host {percent(host)} and what "
        f"verified tokens cost beyond kernels {percent(verified)}. Nothing is tuned to it."
    )


def _r19(table: pd.DataFrame | None) -> str:
    if table is None or table.empty:
        return "- R19: no store here, so not printed; run `make store` first."
    newest = table[table["version"] == table["version"].iloc[-1]]
    time_s = newest.groupby("num_tokens")["latency_s"].median()
    found = [(int(t), float(time_s[t] / time_s[4 * t])) for t in time_s.index if 4 * t in time_s.index and t <= 512]
    ratios = ", ".join(f"{t}: {ratio:.2f}" for t, ratio in found)
    return (
        "- R19 (H200 bf16 128/8 2048x768 balanced, measured T(B)/T(4B); expected a minimum near B 4 of .31, >= .93 "
        f"for B 16-64, .76 at 512): {ratios}."
    )
