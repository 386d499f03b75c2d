"""Words that every format of a report, and the app, share: limits, component names, and text made fit to print."""

from __future__ import annotations

from advisor.memory import USABLE_SHARE
from advisor.runtime import MIN_GAIN
from advisor.tiers import CALIBRATED_TOKENS

LIMITS = (
    "The headline speedup is for decoding, per user. Prefill is charged only when prompt and output tokens are given.",
    "All sequences of a batch have the same context length and draft the same K in every round.",
    "A round drafts, verifies K + 1 tokens per sequence, then accepts or rejects; the three do not overlap.",
    f"Kernels are calibrated on steps of up to {CALIBRATED_TOKENS:,} tokens; beyond, results are marked as outside the "
    "data and their band is widened.",
    f"A gain below {MIN_GAIN:.0%} counts as noise: K = 0 is then recommended.",
    f"Memory counts weights, drafter and KV cache against {USABLE_SHARE:.0%} of each GPU.",
    "Expert-parallel imbalance follows an assumed formula that has not been measured.",
    "Draft trees, several nodes and a second model on the same GPU are outside the model.",
    "Tiers, best first: measured, interpolated, fitted, roofline. An answer has the lowest tier among the parts that "
    "take a tenth of the time or more.",
)
