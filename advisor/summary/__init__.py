"""The answer as a first screen says it: headline, every K judged, how sure, what would flip it, what would fit."""

from __future__ import annotations

from advisor.summary.fits import Fit, fit_of
from advisor.summary.flips import Flip, accepted_length_flips, flip_texts
from advisor.summary.headline import headline, likely_text, one_k_text, place_text
from advisor.summary.outcomes import Outcome, outcomes_of
from advisor.summary.refit import refit_text, refitted_times_text
from advisor.summary.sample import sample_csv
from advisor.summary.sure import ENOUGH_ROWS, accepted_text, borrowed_from, errors_text, tier_words

__all__ = [
    "ENOUGH_ROWS",
    "Fit",
    "Flip",
    "Outcome",
    "accepted_length_flips",
    "accepted_text",
    "borrowed_from",
    "errors_text",
    "fit_of",
    "flip_texts",
    "headline",
    "likely_text",
    "one_k_text",
    "outcomes_of",
    "place_text",
    "refit_text",
    "refitted_times_text",
    "sample_csv",
    "tier_words",
]
