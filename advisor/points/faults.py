"""What no accelerator can do: a published round that takes less time than reading the weights it touches."""

from __future__ import annotations

import numpy as np

from advisor.architecture import weight_bytes_by_component
from advisor.points.points import Point
from advisor.points.published import measured_times
from advisor.setup import Setup, touched_in_pass

_NOT_READ = {"embedding", "mtp"}  # a lookup, and the drafter's own


def least_pass_s(setup: Setup, batch_size: float, tokens_per_sequence: float) -> float:
    """Shortest conceivable pass: its weights at the nominal bandwidth of all accelerators together. [s]

    Of the routed experts those that B sequences x q tokens touch, at the end of the routing preset that touches fewer;
    everything else that a pass multiplies once. No cache, no arithmetic, no launch.
    """
    moe = setup.architecture.moe
    share = 1.0
    if moe is not None:
        share = float(touched_in_pass(setup, batch_size, tokens_per_sequence, "low")) / moe.n_experts
    parts = weight_bytes_by_component(setup.architecture)
    size = sum(part * (share if name == "routed" else 1.0) for name, part in parts.items() if name not in _NOT_READ)
    return float(size / (setup.placement.gpus * setup.hardware.bandwidth_bytes_per_s.value))


def faster_than_reading(point: Point) -> str:
    """Reason why a published row cannot be as it is printed, or an empty text.

    Its round is the printed time of a token times the accepted length of the same run, else K + 1, the most there can
    be; its plain step is the printed time of a token.
    """
    plain_s, token_s = measured_times(point.row)
    length = point.n_draft + 1.0 if point.question.borrowed else point.accepted_length
    passes = {
        "plain step": (plain_s, 1.0),
        "round": (token_s * length, point.question.verify_tokens or point.n_draft + 1.0),
    }
    for name, (printed_s, tokens) in passes.items():
        least_s = least_pass_s(point.setup, point.batch_size, tokens)
        if np.isfinite(printed_s) and printed_s < least_s:
            return (
                f"the printed {name} of {printed_s * 1e3:.2f} ms is shorter than reading the weights it touches "
                f"({least_s * 1e3:.2f} ms on {point.setup.placement.gpus} x {point.setup.hardware.id})"
            )
    return ""
