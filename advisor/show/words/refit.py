"""What is said of a refit: its summary, and remarks on its data. What speaks against it is its own
(`RefitResult.reasons_against`)."""

from __future__ import annotations

import numpy as np

from advisor.catalog.adjustment import change_text
from advisor.measured.refit_result import RefitResult


def sentence(result: RefitResult) -> str:
    """Summary of the refit: changes, points, the baseline step, and errors on points left out."""
    learnt = result.learnt
    moved = " and ".join(f"{item.meaning} by {change_text(item.factor)}" for item in learnt[:3])
    text = (
        f"Your data moved {moved}" if moved else "Your data moved no constant beyond what was known"
    )
    speedups_alone = result.refused and result.rows["quantity"].eq("speedup").all()
    what = "speedups" if speedups_alone else "points"
    of = (
        f" of {result.n_points + sum(refusal.rows for refusal in result.refused)} rows, on"
        if result.refused
        else " of"
    )
    text += f": {result.n_points} {what}{of} {result.hardware_id} with {result.engine_class}"
    if result.outliers:
        first = result.outliers[0]
        plural = "s" if len(result.outliers) > 1 else ""
        text += (
            f", {len(result.outliers)} set aside as outlier{plural} because in line "
            f"{first.line} {first.reason}"
        )
    else:
        text += ", none set aside"
    return f"{text}. {_baseline_text(result)} {_errors_text(result)}"


def _baseline_text(result: RefitResult) -> str:
    """The baseline step before and after at the smallest and largest batch, and where it moves
    furthest."""
    baseline = result.baseline
    at = sorted({0, baseline.furthest, len(baseline.batches) - 1})
    steps = ", ".join(
        f"{1e3 * baseline.before_s[i]:.3g} → {1e3 * baseline.after_s[i]:.3g} ms at batch "
        f"{baseline.batches[i]:g}"
        for i in at
    )
    return f"Its baseline step: {steps}."


def _errors_text(result: RefitResult) -> str:
    n = result.own_errors.after.n
    before, after = result.own_errors.means
    if result.own_errors.agrees_already:
        return f"The shipped constants agree already: {before:.1%} off before, {after:.1%} after."
    return (
        f"Its {n} values, each left out of the fit in turn: {after:.1%} off, {before:.1%} before."
    )


def notes(result: RefitResult) -> list[str]:
    """Remarks on a refit's data: how they were read, constants not determined, K held."""
    sentences = [f"Predictions of these points change by {result.moved:.1%} in the median."]
    if result.prompts is not None:
        how = "with the prefill of prompts in them" if result.prompts.held else "as decoding alone"
        times = f"{np.exp(min(result.prompts.log_odds, _MOST_ODDS)):,.0f}"
        sentences.append(f"The times are read {how} ({times} times as probable as the other way).")
    if result.bend is not None:
        bend = result.bend
        sentences.append(
            f"What is left over follows the batch, most at batch {bend.batch_size:g} with K = "
            f"{bend.n_draft} ({bend.error:+.0%}): something there is not in the model."
        )
    if (factor := result.length_factor) is not None:
        sentences.append(
            f"The accepted length stays the scenario's own: {factor:.2f} of it predicts these "
            "points."
        )
    sentences += [
        finding.text for finding in (result.repeats, result.experts) if finding is not None
    ]
    if result.few_layers:
        sentences.append(
            f"Rows lie on the {' and the '.join(result.few_layers)}: no whole model was timed."
        )
    if names := ", ".join(item.meaning for item in result.parameters if not item.identified):
        sentences += [
            f"Cannot be determined from these data, so they stay near their values before: {names}."
        ]
    if held := sorted({int(k) for k in result.rows["n_draft"] if k > 0}):
        listed = ", ".join(map(str, held))
        sentences.append(
            f"Your points hold K = {listed}; odds between other K are the model's, your points do "
            "not test them."
        )
    return sentences


_MOST_ODDS = np.log(1e6)
"""Larger odds are told as these. [-]"""
