"""Small hand-built values for the tests of charts: shapes and orders of magnitude, no
measurement."""

import numpy as np

from advisor.predict.curve import Curve
from advisor.prediction import Tier

PLAIN_S = {
    "routed": 3e-3,
    "attention": 1e-3,
    "dense": 0.5e-3,
    "launch": 0.4e-3,
    "host": 0.3e-3,
    "router": 1e-6,
}
ROUND_S = {
    "routed": 4.4e-3,
    "attention": 1.1e-3,
    "dense": 0.5e-3,
    "launch": 0.4e-3,
    "host": 0.3e-3,
    "router": 2e-6,
    "draft": 0.9e-3,
}


def hand_curve(scale: float = 1.0, extrapolated_from: float = 256) -> Curve:
    """K = 0 to 4 over ten batches: speedup rises to batch 16, then falls below 1 at `scale` = 1."""
    batches = 2.0 ** np.arange(10)
    drafts = np.arange(5)
    hump = np.exp(-((np.log2(batches) - 4) ** 2) / 12)[:, None]
    speedup = np.where(drafts == 0, 1.0, scale * (0.7 + hump * (1.0 + 0.1 * drafts)))
    plain = 5e-3 * batches**0.3
    length = 1 + 0.6 * drafts
    round_s = length * plain[:, None] / speedup
    low = speedup * 0.9
    high = speedup * 1.1
    return Curve(
        batches=batches,
        drafts=drafts,
        speedup=speedup,
        low=low,
        high=high,
        p_gain=np.clip(0.5 + (speedup - 1.0) * 2.0, 0.0, 0.95),
        draws=np.stack([low, speedup, high]),
        plain_draws_s=np.stack([0.95 * plain, plain, 1.05 * plain]),
        accepted_length=length,
        plain_step_s=plain,
        verify_step_s=0.9 * round_s,
        round_s=round_s,
        verify_ratio=0.9 * round_s / plain[:, None],
        touched_plain=np.minimum(8 * batches, 128),
        touched_verify=np.minimum(8 * batches[:, None] * (drafts + 1), 128),
        plain_components={name: share * plain for name, share in PLAIN_S.items()},
        round_components={name: share * round_s for name, share in ROUND_S.items()},
        tier=np.full(speedup.shape, Tier.FITTED, dtype=object),
        extrapolated=np.broadcast_to(batches[:, None] >= extrapolated_from, speedup.shape),
        tpot_s=round_s / length,
        tokens_per_s_per_gpu=batches[:, None] / (round_s / length),
    )
