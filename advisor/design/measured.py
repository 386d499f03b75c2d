"""The baseline by its own measured rows beside the fitted form, by which all designs are compared."""

from __future__ import annotations

import numpy as np

from advisor.curve import curve_for
from advisor.design.evaluate import Served
from advisor.design.question import Question
from advisor.setup import Setup


def measured_gap(given: Setup, by_fit: Setup, question: Question, served: Served) -> tuple[float, str]:
    """Plain step by measured rows over the fit's, less 1, where they differ most [1]; and both speeds in one sentence.

    `served` is the baseline by the fit, [nB, 1]. (0, "") where the baseline's shape was not measured.
    """
    if given.costs.routed.measured is None:
        return 0.0, ""
    drafts = np.unique([0, *served.k_draft[:, 0]])
    own = curve_for(given, question.batches, drafts)
    gaps = own.plain_step_s / curve_for(by_fit, question.batches, [0]).plain_step_s - 1.0
    rows, columns = np.arange(len(question.batches)), np.searchsorted(drafts, served.k_draft[:, 0])
    measured = own.speedup[rows, columns], own.tpot_s[rows, columns]
    fitted = served.speedup[:, 0], served.tpot_s[:, 0]
    (speedup, tpot_ms), (fit_speedup, fit_tpot_ms) = (
        (question.mean_speedup(*each), question.mean_tpot_s(each[1]) * 1e3) for each in (measured, fitted)
    )
    note = (
        f"Designs are compared by the fitted kernels; so costed, the baseline has {fit_speedup:.2f}x and "
        f"{fit_tpot_ms:.2f} ms. Its own measured rows, used elsewhere, give {speedup:.2f}x and {tpot_ms:.2f} ms."
    )
    return float(gaps[np.argmax(np.abs(gaps))]), note
