"""What a change of design costs in pre-training quality: laws that compare MoE shapes at equal
training tokens.

Symbols: N routed experts, k routed experts per token, s shared experts in units of one routed
expert, d hidden size, I expert width, A = (k+s)/(N+s) activation ratio, G = 2 d / I granularity, S
= s/(k+s) shared share, D training tokens, C = 6 N_act D training compute. N_act counts active
parameters without embeddings.

References
----------
[Leverage] "Towards Greater Leverage: Scaling Laws for Efficient Mixture-of-Experts",
    arXiv:2507.17702. Its log bases are not printed; base 10 for C with base 2 for G is the only
    pair of nine that returns both of its published statements.
[Kimi-K2] "Kimi K2", arXiv:2507.20534: FLOPs for equal loss at sparsity 8, 16, 32, 48.
[Expert mix] Zhao et al., arXiv:2509.23678: a law with the shared share and the number of active
    experts; coefficients from secondary notes, embedding convention not given, no uncertainty
    published.
[Sparsity for reasoning] arXiv:2508.18672: reasoning falls off when tokens per parameter are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from advisor.prediction import AdvisorError, Array

DEFAULT_EPS = 0.01
"""Share of size that a design of equal quality may lose against the baseline, by every law. [-]"""
COMPUTE_RANGE_FLOP = (1e18, 1e22)
"""Training compute at which [Leverage] is evaluated; beyond the end it is clipped, as it then
promises too much."""
GRANULARITY_RANGE = (2.0, 16.0)
"""Granularities of the models behind [Leverage]; outside it is evaluated at the nearer end."""
SPARSITY_EXPONENT = 0.30
"""p in N_act ~ A^p at equal loss: 0.29, 0.30 and 0.34 from the three points of [Kimi-K2]."""
SPARSITY_EXPONENT_RANGE = (0.29, 0.34)
"""Least and largest p of the three points of [Kimi-K2]."""
LAW_SPREAD_PER_OCTAVE = 0.15
"""How far published laws lie apart in dense-equivalent size per octave of activation ratio: about
30 % two octaves away, between [Leverage] and [Kimi-K2]. [-]"""
TOKENS_PER_PARAMETER_WARNING = 20.0
"""Below this many training tokens per parameter, [Sparsity for reasoning] reports weaker reasoning.
[-]"""
# [Leverage], printed coefficients.
_A = 1.23
_D = -7.61e-2
_GAMMA = 1.67e-2
_BETA = -1.17e-1
_A_START = 1.63e-2
_A_MAX = 5.28e16
_LOSS = {  # [Expert mix]
    "e": 0.1577,
    "f": 7.2446,
    "m": 5.1395,
    "n": -3.2363,
    "k": 0.0013,
    "h": 0.0450,
    "a": 38.051,
    "alpha": 0.2383,
    "b": 27129.05,
    "beta": 0.4694,
    "c": 31.096,
    "floor": 1.8182,
}
LIMITS = (
    "Pre-training loss only: post-training, reasoning and long context are not covered.",
    (
        "The log bases of the default law are inferred from its two published statements "
        "(arXiv:2507.17702)."
    ),
    "The default law does not see the shared share, the attention design or the KV cache.",
    (
        "The law rests on activation ratios from 0.8%, granularities 2 to 16 and up to 1e22 FLOP; "
        "beyond, it is clipped."
    ),
    "About 10% uncertain on the two designs trained to check it, about 30% between laws two "
    "octaves of activation ratio away.",
    "Whether shared experts help quality is contested: one of eight to twelve active is best in "
    "arXiv:2507.17702, about a third in arXiv:2509.23678, slightly harmful in arXiv:2409.02060.",
)
"""Printed next to every recommendation."""


def activation_ratio(n_experts: ArrayLike, n_active: ArrayLike, n_shared: ArrayLike = 0.0) -> Array:
    """Activation ratio A = (k + s) / (N + s), the share of a layer's experts that a token uses. [-]

    n_experts, n_active, n_shared: N, k and s of one routed layer. [-]
    Definition, as in [Leverage]. 1 where every expert is active (k = N).
    """
    shared = np.asarray(n_shared, float)
    return np.asarray(
        (np.asarray(n_active, float) + shared) / (np.asarray(n_experts, float) + shared)
    )


def granularity(hidden_size: ArrayLike, expert_width: ArrayLike) -> Array:
    """Granularity G = 2 d / I, twice the hidden size over the expert width. [-]

    hidden_size, expert_width: d and I, in elements. [-]
    The convention of [Leverage]; others use 4 d / I. 2 where an expert is as wide as the hidden
    size.
    """
    return np.asarray(2.0 * np.asarray(hidden_size, float) / np.asarray(expert_width, float))


def training_flops(active_params: ArrayLike, training_tokens: float | None) -> Array:
    """Training compute C = 6 N_act D, the upper end of the law's range where D is not known. [FLOP]

    active_params: N_act, without embeddings. [parameters]
    training_tokens: D; None: not known. [-]
    Definition, as in [Leverage]. Raises AdvisorError for training tokens that are not positive.
    """
    active = np.asarray(active_params, float)
    if training_tokens is None:
        return np.full_like(active, COMPUTE_RANGE_FLOP[1])
    if not training_tokens > 0:
        raise AdvisorError(
            f"training_tokens={training_tokens} must be positive, e.g. 1e12 for a trillion"
        )
    return np.asarray(6.0 * active * training_tokens)


def efficiency_leverage(
    activation: ArrayLike, granularity_2d: ArrayLike, compute_flop: ArrayLike
) -> Array:
    """Compute that a dense model needs over what the MoE needs at equal loss, by [Leverage]. [-]

    Parameters
    ----------
    activation : A, in (0, 1]. [-]
    granularity_2d : G = 2 d / I, evaluated within `GRANULARITY_RANGE`. [-]
    compute_flop : C, evaluated within `COMPUTE_RANGE_FLOP`. [FLOP]

    Notes
    -----
    EL = Ahat ^ (alpha(C) + gamma (log2 G)^2 + beta log2 G), alpha(C) = 1.23 - 0.0761 log10 C,
    1 / Ahat = 1 / (A + 1/(1/A_start - 1/A_max)) + 1 / A_max: Ahat = A + 0.0163 in practice. Source
    [Leverage].
    """
    # Clipped and not extended: nobody trained beyond, and a quadratic in log G means nothing there.
    level = np.log2(np.clip(np.asarray(granularity_2d, float), *GRANULARITY_RANGE))
    alpha = _A + _D * np.log10(np.clip(np.asarray(compute_flop, float), *COMPUTE_RANGE_FLOP))
    saturated = 1.0 / (
        1.0 / (np.asarray(activation, float) + 1.0 / (1.0 / _A_START - 1.0 / _A_MAX)) + 1.0 / _A_MAX
    )
    return np.asarray(saturated ** (alpha + _GAMMA * level**2 + _BETA * level))


def dense_equivalent(
    active_params: ArrayLike,
    activation: ArrayLike,
    granularity_2d: ArrayLike,
    compute_flop: ArrayLike,
) -> Array:
    """Size Q = N_act EL of the dense model expected to reach the same loss on the same tokens.
    [parameters]

    active_params: N_act, without embeddings. [parameters]
    activation, granularity_2d, compute_flop: A, G [-] and C [FLOP], as
    `quality.efficiency_leverage` takes them. Own derivation: at equal tokens compute goes as active
    parameters, so the leverage carries over.
    """
    return np.asarray(
        np.asarray(active_params, float)
        * efficiency_leverage(activation, granularity_2d, compute_flop)
    )


def law_range(
    ratio: ArrayLike, activation: ArrayLike, baseline_activation: float
) -> tuple[Array, Array]:
    """Range of a dense-equivalent size over the baseline's, LAW_SPREAD_PER_OCTAVE either way. [-]

    ratio: the size over the baseline's, by `quality.dense_equivalent`. [-]
    activation, baseline_activation: A of the design and of the baseline. [-]
    A point where the activation ratio is the baseline's own; wider by a factor for each octave
    between the two.
    """
    octaves = np.abs(np.log2(np.asarray(activation, float) / baseline_activation))
    factor = (1.0 + LAW_SPREAD_PER_OCTAVE) ** octaves
    middle = np.asarray(ratio, float)
    return middle / factor, middle * factor


def anchored_ratio(
    active_params: ArrayLike,
    activation: ArrayLike,
    baseline_active_params: float,
    baseline_activation: float,
    exponent: float = SPARSITY_EXPONENT,
) -> Array:
    """Dense-equivalent size over the baseline's if quality goes as N_act A^-0.30, by [Kimi-K2]. [-]

    active_params, baseline_active_params: N_act of the design and of the baseline. [parameters]
    activation, baseline_activation: A of both. [-]
    exponent: p. [-]
    The pessimistic view: sparser designs gain less here than under `quality.dense_equivalent`,
    denser ones lose less.
    """
    size = np.asarray(active_params, float) / baseline_active_params
    return np.asarray(size * (np.asarray(activation, float) / baseline_activation) ** -exponent)


def expert_mix_loss(
    total_params: ArrayLike,
    active_params: ArrayLike,
    active_experts: ArrayLike,
    shared_share: ArrayLike,
) -> Array:
    """Training loss by the law of [Expert mix], without its data term, which cancels at equal
    tokens. [nat per token]

    Parameters
    ----------
    total_params, active_params : N_tot and Na, raw counts. [parameters]
    active_experts : k + s. [-]
    shared_share : S = s / (k + s). [-]

    Notes
    -----
    L = X (N_tot^-al + 0.0013 Na^-al + 0.045 Na / N_tot) + a N_tot^-al + c Na^-al + floor, X = e n +
    f/n + m S^2 + n S. Use differences only: a risk note beside the default law, never the
    constraint.
    """
    c = _LOSS
    total = np.asarray(total_params, float)
    active = np.asarray(active_params, float)
    count = np.asarray(active_experts, float)
    share = np.asarray(shared_share, float)
    by_total = total ** -c["alpha"]
    by_active = active ** -c["alpha"]
    mix = c["e"] * count + c["f"] / count + c["m"] * share**2 + c["n"] * share
    size = by_total + c["k"] * by_active + c["h"] * active / total
    return np.asarray(mix * size + c["a"] * by_total + c["c"] * by_active + c["floor"])


def loss_as_active_params(
    loss_difference: ArrayLike, total_params: float, active_params: float
) -> Array:
    """Extra active parameters, as a share, that would make up for a loss difference under [Expert
    mix]. [-]

    loss_difference: a design's training loss minus another's. [nat per token]
    total_params, active_params: N_tot and Na at which the slope is taken. [parameters]
    The slope is taken at eight active experts, one of them shared.
    """
    # The law has no inverse in active parameters, so the slope is a central difference in their
    # logarithm.
    step = 1e-4
    more = expert_mix_loss(total_params, active_params * (1.0 + step), 8.0, 0.125)
    less = expert_mix_loss(total_params, active_params * (1.0 - step), 8.0, 0.125)
    slope = float(more - less) / (2.0 * step)
    return np.asarray(np.expm1(np.asarray(loss_difference, float) / -slope))


@dataclass(frozen=True)
class Shape:
    """Quantities of a design that laws and guard-rails read, arrays that broadcast."""

    activation: Array
    granularity: Array
    attention_share: Array
    shared_share: Array
    n_active: Array


@dataclass(frozen=True)
class GuardRails:
    """Bounds on candidates, without which the search degenerates to one expert per token. All
    [-]."""

    min_activation: float = 0.008
    """Smallest activation ratio behind the law."""
    granularity: tuple[float, float] = GRANULARITY_RANGE
    attention_share: tuple[float, float] = (0.2, 0.5)
    """Share of attention in active parameters; outside, the law was not measured."""
    max_shared_share: float = 1.0 / 3.0
    """Upper end of the region in which the shared share hardly matters [Expert mix]."""
    min_active: float = 2.0
    """Top-1 routing is penalised heavily by [Expert mix]."""

    def relaxed_to(self, baseline: Shape) -> tuple[GuardRails, tuple[str, ...]]:
        """Rails that the baseline itself keeps, and a sentence for each one that had to move."""
        activation = float(baseline.activation)
        granularity = float(baseline.granularity)
        attention = float(baseline.attention_share)
        shared = float(baseline.shared_share)
        active = float(baseline.n_active)
        rails = GuardRails(
            min(self.min_activation, activation),
            (min(self.granularity[0], granularity), max(self.granularity[1], granularity)),
            (min(self.attention_share[0], attention), max(self.attention_share[1], attention)),
            max(self.max_shared_share, shared),
            min(self.min_active, active),
        )
        outside = {
            "min_activation": f"activation ratio {activation:.2%}, below {self.min_activation:.1%}",
            "granularity": "granularity {:.3g}, outside {:g} to {:g}".format(
                granularity, *self.granularity
            ),
            "attention_share": "attention share {:.1%}, outside {:.0%} to {:.0%}".format(
                attention, *self.attention_share
            ),
            "max_shared_share": f"shared share {shared:.1%}, above {self.max_shared_share:.1%}",
            "min_active": f"{active:g} active expert, below {self.min_active:g}",
        }
        return rails, tuple(
            (
                f"The baseline lies outside the law's data ({text}); this bound is relaxed to the "
                "baseline's value."
            )
            for name, text in outside.items()
            if getattr(rails, name) != getattr(self, name)
        )

    def violations(self, shape: Shape) -> dict[str, Array]:
        """Distance of designs beyond each rail, as natural logs (0 within), by the rail's name. [-]

        Own derivation: logs, so that a rail missed by a factor counts alike on either side.
        """
        return {
            "activation": _below(shape.activation, self.min_activation),
            "granularity": _outside(shape.granularity, *self.granularity),
            "attention_share": _outside(shape.attention_share, *self.attention_share),
            "shared_share": _above(shape.shared_share, self.max_shared_share),
            "n_active": _below(shape.n_active, self.min_active),
        }


_SLACK = 1e-9  # a baseline on the edge of its own rail keeps it


def _below(value: Array, bound: float) -> Array:
    return np.where(value >= bound * (1 - _SLACK), 0.0, np.log(bound / np.maximum(value, 1e-12)))


def _above(value: Array, bound: float) -> Array:
    return np.where(value <= bound * (1 + _SLACK), 0.0, np.log(np.maximum(value, 1e-12) / bound))


def _outside(value: Array, low: float, high: float) -> Array:
    return _below(value, low) + _above(value, high)
