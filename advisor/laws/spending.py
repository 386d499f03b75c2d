"""The laws of what a token costs: money and energy."""

from __future__ import annotations

from advisor.arrays import Floats


def usd_per_million_tokens(p: Floats, X: Floats) -> Floats:
    """Price of a million output tokens.

    USD = p / (0.0036 × X)

    p: price of one GPU for an hour. [USD/h]
    X: output tokens per second of one GPU; 0.0036 are the seconds of an hour over a million. [1/s]
    Limits: for GPUs that are paid whether they work or not; as much as that of idle ones is left out.
    Source: definition.
    """
    return p / (0.0036 * X)


def board_power(P_b: Floats, s_c: Floats, s_m: Floats, f_c: Floats, f_m: Floats, f_w: Floats) -> Floats:
    """Power of one board by what it does with its time.

    P = P_b × (f_c × s_c + f_m × s_m + f_w × (1 - s_c - s_m))

    P_b: power that the board is built for. [W]
    s_c, s_m: shares of the time in arithmetic and in reading memory; the rest waits for host and links. [-]
    f_c, f_m, f_w: share of the board's power drawn meanwhile. [-]
    Limits: a roofline estimate with a wide band; clocks, voltage and temperature are not in it.
    Source: own derivation, fractions in `advisor.spend.power`: P95 of serving nodes, arXiv:2509.20241, and two
      anchors of arXiv:2601.22076.
    """
    return P_b * (f_c * s_c + f_m * s_m + f_w * (1 - s_c - s_m))


def joules_per_token(P: Floats, X: Floats) -> Floats:
    """Energy of an output token.

    J = P / X

    P: power of one GPU, its board alone. [W]
    X: output tokens per second of one GPU. [1/s]
    Limits: host, network and cooling are not in it.
    Source: definition.
    """
    return P / X
