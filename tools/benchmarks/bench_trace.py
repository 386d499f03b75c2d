"""Time of fitting a large SYNTHETIC routing trace: SEQUENCES x 512 tokens x LAYERS x top-8 of
128."""

from __future__ import annotations

import time

import numpy as np

from advisor.physics.routing_trace import fit_sequences
from advisor.profiling.routing_draw import Routing, draw_routing

SEQUENCES = 200
LAYERS = 48


def main() -> None:
    """Print seconds, and the parameters that came back."""
    rng = np.random.default_rng(3)
    one = draw_routing(rng, SEQUENCES, 512, 128, 8, Routing("synthetic", 0.5, 0.2, 0.15))
    ids = np.stack([rng.permutation(128)[one] for _ in range(LAYERS)], axis=2).astype(np.uint8)
    start = time.perf_counter()
    found = fit_sequences(list(ids), 128)
    fit = found.fit
    print(f"{ids.size / 1e6:.0f} M ids: {time.perf_counter() - start:.1f} s (asked: 20 s)")
    print(
        f"load_cv {fit.load_cv:.3f} (0.5), affinity {fit.affinity:.3f} (0.2), stickiness "
        f"{fit.stickiness:.3f} (0.15)"
    )


if __name__ == "__main__":
    main()
