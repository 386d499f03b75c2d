"""The laws of a speculative round: drafting, accepting, and what follows for users and throughput.

The laws of what a token costs: money and energy.
"""

from __future__ import annotations

import numpy as np

from advisor.physics.laws.kernels import one_minus_power
from advisor.prediction import Floats


def drafting(n: Floats, T_pass: Floats, c_l: Floats, L: Floats) -> Floats:
    """Time of drafting on the device, its kernel launches included.

    T_draft = n × (T_pass + c_l × L)

    n: passes of a round: K for heads, MTP and draft models, 1 for parallel drafters. [-]
    T_pass: kernels of one pass. [s]
    c_l, L: launch overhead of a layer [s], and layers of a pass. [-]
    Limits: n-gram drafting takes no device time.
    Source: own derivation: passes run one after another, each over all layers of what drafts.
    """
    return n * (T_pass + c_l * L)


def draft_host(n: Floats, c_d: Floats) -> Floats:
    """Host time of drafting.

    T_draft_host = n × c_d

    n: drafting passes of a round. [-]
    c_d: host time of a pass, fitted per engine class. [s]
    Limits: 0 where no pass is drafted on the device (n-gram, K = 0).
    Source: own derivation; c_d fitted on published speedups,
      docs/decisions/0003-engine-overheads.md.
    """
    return n * c_d


def waiting_for_the_last(s: Floats, g: Floats, e: Floats, r: Floats) -> Floats:
    """Time of a batch that starts together and ends with its slowest sequence, over that of a
    steady batch.

    w = 1 + s × g × e × r

    s: spread of the chance that a draft is accepted, between sequences, over its mean. [-]
    g: growth of the accepted length with that chance, d ln AL / d ln alpha. [-]
    e: how far the slowest of B is expected from the mean, in standard deviations. [-]
    r: a round of one sequence over a round of all, both of kernels. [-]
    Limits: 1 for one sequence, and without drafting, where all of one length end together.
    Source: own derivation: T(b) = T(0) + b t, so what waits is T(0) alone, for s g e more rounds
      than the mean; docs/decisions/history.md (0036).
    """
    return 1 + s * g * e * r


def reread(kappa: Floats, q: Floats, T_attn: Floats) -> Floats:
    """Reading the cache again for further tokens of one sequence.

    T_reread = kappa × (q - 1) × T_attn

    kappa: share of the attention that each further token adds, fitted per engine class; 0 where
      kernels read the cache once for all tokens of a sequence. Above 1 it holds more than readings:
      a latency for each token. [-]
    q: tokens of each sequence in the pass. [-]
    T_attn: attention of the pass before that, of layers that keep a cache: a recurrent state is
      read once and its law charges every token already. [s]
    Limits: 0 in plain decode.
    Source: docs/decisions/history.md (0015).
    """
    return kappa * (q - 1) * T_attn


def verified(
    phi: Floats, b: Floats, q: Floats, T_plain: Floats, T_verify: Floats, T_fix: Floats = 0.0
) -> Floats:
    """Time that verifying many tokens adds beyond the kernels, a correction without measured
    mechanism.

    T_verified = phi × b × q / (1 + phi × b × q) × max(q × T_plain - T_verify - (q - 1) × T_fix, 0)

    phi: fitted on speedups: 1/phi tokens of an attention group are half of the way to the limit.
      [-]
    b, q: sequences of one attention group, and tokens that each verifies. [-]
    T_plain, T_verify: one plain step, and a step of q tokens for each sequence. [s]
    T_fix: host time and launches of a step, which do not grow with its tokens. [s]
    Limits: 0 for few tokens; at most what makes every verified token as dear on the device as one
      of a plain step. Candidates are sampling, rejection, copies of hidden states, padding, and
      kernels off their tables.
    Source: docs/decisions/history.md (0019).
    """
    # Bounded on both sides: verified tokens are never dearer than plain steps, and the kernels are
    # never made cheaper.
    return phi * b * q / (1 + phi * b * q) * np.maximum(q * T_plain - T_verify - (q - 1) * T_fix, 0)


def verify_tokens(c: Floats, B: Floats, q: Floats, T_plain: Floats) -> Floats:
    """Time that verification takes beyond its kernels as the tokens of a step double.

    T_tokens = c × T_plain × max(log2(B × q / 8), 0)

    c: share of a baseline step for each doubling of the tokens; chosen, not fitted. [-]
    B, q: sequences of the whole step, and tokens that each verifies. [-]
    T_plain: one baseline step of B sequences. [s]
    Limits: 0 up to 8 tokens. For rounds alone: a baseline step is measured as it is, and
      verification runs other kernels.
    Source: step times published without an acceptance, docs/decisions/0045-verified-tokens.md.
    """
    return c * T_plain * np.maximum(np.log2(B * q / 8), 0)


def accepted_length(alpha: Floats, K: Floats) -> Floats:
    """Tokens emitted per round, bonus token included, if every draft token has the same chance.

    AL = (1 - alpha^(K + 1)) / (1 - alpha)

    alpha: chance that a draft token is accepted, given those before it, 0 < alpha < 1. [-]
    K: draft tokens of a round. [-]
    Limits: 1 at alpha = 0, K + 1 at alpha = 1.
    Source: Leviathan et al., arXiv:2211.17192, eq. 1.
    """
    # Near alpha = 1 numerator and denominator both vanish; this form keeps their digits.
    return one_minus_power(alpha, K + 1) / (1 - alpha)


def prompt_waits(p: Floats, G: Floats) -> Floats:
    """Steps with a chunk that a data-parallel group sits through for each chunk of its own.

    w = (1 - (1 - p)^G) / p

    p: chance that a step holds a chunk of one group's prompts, 0 < p <= 1. [-]
    G: groups, which exchange tokens with each other's experts in every layer and so step together.
      [-]
    Limits: G for rare prompts, which never fall together; 1 where every step holds a chunk of every
      group.
    Source: own derivation: groups take prompts independently,
      docs/decisions/history.md (0020).
    """
    return one_minus_power(1 - p, G) / p


def prompt(
    n: Floats, T_with: Floats, T_without: Floats, T_attn: Floats, T_small: Floats, w: Floats = 1.0
) -> Floats:
    """Time that the prefill of one prompt takes from the sequences that decode on the same GPUs.

    T_prompt = w × (n × (T_with - T_without) + T_attn + T_small)

    n: chunks of the prompt. [-]
    T_with, T_without: a step with the tokens of one chunk, and without them; 0 without where an
      engine does not decode while it prefills. [s]
    T_attn: attention of the prompt's tokens on each other. [s]
    T_small: small kernels of the prompt's tokens. [s]
    w: prompts that a data-parallel group waits for, with each of its own. [-]
    Limits: a prompt of one token costs next to nothing where chunks ride along.
    Source: docs/decisions/history.md (0008).
    """
    return w * (n * (T_with - T_without) + T_attn + T_small)


def prefill(S: Floats, T_prompt: Floats, OSL: Floats) -> Floats:
    """Prefill time charged to one output token, where input and output lengths are given.

    pf = S × T_prompt / OSL

    S: prompts processed while one answer is written: in a closed loop, one for each sequence of the
      attention group, or without the answer's own where its user has waited for that before the
      first token. [-]
    T_prompt: one prompt. [s]
    OSL: tokens of an answer. [-]
    Limits: 0 for the headline, which is what one user sees.
    Source: own derivation: each answer of OSL tokens pays for S prompts,
      docs/decisions/history.md (0008).
    """
    return S * T_prompt / OSL


def speedup(AL: Floats, T_plain: Floats, T_round: Floats, pf: Floats = 0.0) -> Floats:
    """Time per token of plain decode over that of speculative decode.

    speedup = AL × (T_plain + pf) / (T_round + AL × pf)

    AL: tokens emitted per round. [-]
    T_plain, T_round: one plain step, T(B, 1), and one whole round: draft, verify, sampling, host.
      [s]
    pf: prefill charged to each output token. [s]
    Limits: above 1, speculation is faster. Without prefill AL T_plain / T_round.
    Source: own derivation: AL tokens decoded plainly over the round that emits them, their prefill
      on both sides.
    """
    # Prefill stands on both sides: a token of either arm waits for as much of other prompts.
    return AL * (T_plain + pf) / (T_round + AL * pf)


def verification_ratio(T_verify: Floats, T_plain: Floats) -> Floats:
    """Cost of verifying K + 1 tokens for each sequence, in plain steps.

    R = T_verify / T_plain

    T_verify, T_plain: steps of K + 1 tokens and of one token for each sequence, T(B, K + 1) and
      T(B, 1). [s]
    Limits: 1 at K = 0; near 1 where the plain step already reads every weight and cache entry that
      the verification does.
    Source: definition.
    """
    return T_verify / T_plain


def amdahl_ratio(f: Floats, U_ratio: Floats, eta: Floats = 1.0) -> Floats:
    """Verification ratio of a step in which only the loading of routed experts grows.

    R = 1 + eta × f × (U_ratio - 1)

    f: share of a plain step spent on routed experts. [-]
    U_ratio: distinct experts of the verification step over those of the plain one. [-]
    eta: part of the extra loading that nothing hides, at most 1. [-]
    Limits: 1 where no further experts are touched: k = N, or so many sequences that a plain step
      touches all. U_ratio where experts are all of a step (f = eta = 1).
    Source: own derivation, after Amdahl's law.
    """
    return 1 + eta * f * (U_ratio - 1)


def hidden_share(R: Floats, f: Floats, U_ratio: Floats) -> Floats:
    """Part of the extra expert loading that a ratio does not show: 1 - eta, solved from the Amdahl
    ratio.

    hidden = 1 - (R - 1) / (f × (U_ratio - 1))

    R: verification ratio, measured or predicted. [-]
    f, U_ratio: as in the Amdahl ratio; U_ratio > 1, else nothing was there to hide. [-]
    Limits: 0 where the ratio shows all of the extra loading, 1 where it shows none (R = 1).
    Source: own derivation: the Amdahl ratio solved for eta.
    """
    return 1 - (R - 1) / (f * (U_ratio - 1))


def tpot(T_round: Floats, AL: Floats, pf: Floats = 0.0) -> Floats:
    """Time per output token of one user, after the first.

    TPOT = T_round / AL + pf

    T_round, AL: one round [s], and the tokens that it emits. [-]
    pf: prefill of the other sequences' prompts, charged to each output token. [s]
    Limits: one plain step at AL = 1 without drafting (K = 0), and pf more with prefill.
    Source: definition.
    """
    return T_round / AL + pf


def tokens_per_s_per_gpu(B: Floats, TPOT: Floats, n_GPU: Floats = 1.0) -> Floats:
    """Throughput of one GPU.

    X = B / (TPOT × n_GPU)

    B: sequences of the instance. [-]
    TPOT: time per output token of each, the prefill of its own prompt included. [s]
    n_GPU: GPUs of the instance. [-]
    Limits: for many sequences the step grows with them and X levels off.
    Source: definition.
    """
    return B / (TPOT * n_GPU)


def usd_per_million_tokens(p: Floats, X: Floats) -> Floats:
    """Price of a million output tokens.

    USD = p / (0.0036 × X)

    p: price of one GPU for an hour. [USD/h]
    X: output tokens per second of one GPU; 0.0036 are the seconds of an hour over a million. [1/s]
    Limits: for GPUs that are paid whether they work or not; as much as that of idle ones is left
      out.
    Source: definition.
    """
    return p / (0.0036 * X)


def board_power(
    P_b: Floats, s_c: Floats, s_m: Floats, f_c: Floats, f_m: Floats, f_w: Floats
) -> Floats:
    """Power of one board by what it does with its time.

    P = P_b × (f_c × s_c + f_m × s_m + f_w × (1 - s_c - s_m))

    P_b: power that the board is built for. [W]
    s_c, s_m: shares of the time in arithmetic and in reading memory; the rest waits for host and
      links. [-]
    f_c, f_m, f_w: share of the board's power drawn meanwhile. [-]
    Limits: a roofline estimate with a wide band; clocks, voltage and temperature are not in it.
    Source: own derivation, fractions in `advisor.predict.spend`: P95 of serving nodes,
      arXiv:2509.20241, and two anchors of arXiv:2601.22076.
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
