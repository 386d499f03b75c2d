"""Speedup over batch and K: the model's steps strung together as arrays, with bands and the tier of
each part."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.catalog.engines import Ran
from advisor.physics import laws
from advisor.physics.acceptance import Acceptance, speedup
from advisor.physics.bands import (
    SHARED_LOG_SD,
    Draws,
    band,
    draw_acceptance,
    draw_total,
    drift,
    make_draws,
    unseen_ends,
    unseen_gain,
)
from advisor.physics.bands import wobble as sampled_wobble
from advisor.physics.components import COMPONENTS
from advisor.physics.draft import draft_time
from advisor.physics.laws.recording import unrecorded, within
from advisor.physics.step import (
    MoeShape,
    StepTime,
    in_graph,
    n_layers,
    routed_time,
    slowest_rank,
    step_time,
)
from advisor.predict.load import load_setup
from advisor.predict.plain_sweep import HeldSweep, sweep_factors
from advisor.predict.prefill import prefill_shares_s, prompt_cost
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.predict.setup import End, Setup, context_beside, graphs_of_steps, touched_at_ends
from advisor.predict.tiers import CALIBRATED_TOKENS, beyond_log_sd, tiers_of
from advisor.prediction import AdvisorError, Array, Tier

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
SCHEDULE_BATCHES = (
    *range(1, 8),
    *(2**octave * quarter // 4 for octave in range(3, 10) for quarter in range(4, 8)),
    1024,
)
"""Batches that a schedule is decided on, whatever batch is asked about: all to 8, then four to a
doubling. [-]"""


@dataclass(frozen=True)
class Curve:
    """Predictions on a grid of batches [nB] and draft lengths K [nK]. Times in seconds [s], the
    rest [-]."""

    batches: Array
    drafts: NDArray[np.int64]
    speedup: Array
    low: Array
    high: Array
    p_gain: Array
    """Chance that it is faster than plain decoding, [nB, nK]; 0 at K = 0."""
    draws: Array
    """Speedup under each draw, [draws, nB, nK]: shared errors, for comparisons between K."""
    plain_draws_s: Array
    """Plain step under the same draws, [draws, nB]: for comparisons of absolute speed."""
    accepted_length: Array
    plain_step_s: Array
    verify_step_s: Array
    round_s: Array
    verify_ratio: Array
    touched_plain: Array
    touched_verify: Array
    plain_components: Mapping[str, Array]
    """Plain decode step by component, [nB]."""
    round_components: Mapping[str, Array]
    """One speculative round by component (verify, draft, host), [nB, nK]."""
    tier: NDArray[np.object_]
    extrapolated: NDArray[np.bool_]
    tpot_s: Array
    """Time per output token of one user after the first, [nB, nK]."""
    tokens_per_s_per_gpu: Array
    """Throughput, with the prefill of every prompt, [nB, nK]."""
    prefill_s: Array | float = 0.0
    """Prefill charged to each output token, [nB]."""
    eager: NDArray[np.bool_] | None = None
    """Rounds that no captured CUDA graph holds, [nB, nK]; None where it is not known what is
    captured."""
    padding: Array | None = None
    """Rows that a round's graph computes over those asked for, likewise."""
    ttft_s: Array | None = None
    """Time to first token of a prompt that does not queue, beside plain decode, [nB]; None without
    lengths."""

    def to_frame(self) -> pd.DataFrame:
        """One row for each batch and K, as `curve` prints them."""
        import pandas as pd  # an answer does not need it

        return pd.DataFrame(curve_rows(self))

    def column(self, n_draft: int) -> int:
        """Index of one K along the axis of draft lengths. Raises AdvisorError for a K that is not
        on it."""
        indices = np.flatnonzero(self.drafts == n_draft)
        if not indices.size:
            raise AdvisorError(
                f"K = {n_draft} is not in the curve, which has K = {self.drafts[0]} to "
                f"{self.drafts[-1]}"
            )
        return int(indices[0])

    def at(self, rows: slice | NDArray[Any]) -> Curve:
        """The curve at some of its batches."""
        by_draw = {name: getattr(self, name)[:, rows] for name in ("draws", "plain_draws_s")}
        of_all = {"drafts", "accepted_length", *by_draw}
        values = {name: value for name, value in vars(self).items() if name not in of_all}
        return replace(
            self, **by_draw, **{name: _rows(each, rows) for name, each in values.items()}
        )

    def tier_at(self, batch_size: float, n_draft: int) -> Tier:
        """Tier of one K at the batch looked at that lies nearest."""
        return Tier(
            self.tier[np.abs(np.log(self.batches / batch_size)).argmin(), self.column(n_draft)]
        )

    def components_at(self, row: int, column: int) -> tuple[dict[str, float], dict[str, float]]:
        """Time by component of a plain step and of one round, at one batch and K. [s]

        row, column: places along the axes of batches and draft lengths. [-]
        Read from the curve's own components, which `curve.curve_for` adds up.
        """
        plain = {name: float(time[row]) for name, time in self.plain_components.items()}
        return plain, {
            name: float(time[row, column]) for name, time in self.round_components.items()
        }


def _rows(value: Any, rows: slice | NDArray[Any], n_drafts: int | None = None) -> Any:
    """Rows of an array, of its first so many K where it has them, or of all arrays of a mapping;
    anything else as it is."""
    if isinstance(value, Mapping):
        return {name: _rows(each, rows, n_drafts) for name, each in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    return value[rows] if value.ndim == 1 else value[rows, :n_drafts]


@dataclass(frozen=True)
class Odds:
    """Loss of each draft length against the fastest of each draw, [..., nK], K increasing."""

    loss: Array
    """Expected loss: share of the speedup given up against each draw's fastest K, mean over the
    draws. [-]"""
    noise: Array
    """Standard error over the draws of what the loss exceeds the least one by; 0 for the least
    itself. [-]"""

    def at(self, rows: slice | NDArray[Any]) -> Odds:
        """Odds at some of the batches."""
        return Odds(self.loss[rows], self.noise[rows])


def share_fastest(draws: ArrayLike) -> Array:
    """Share of draws in which each K is the fastest, [..., nK]. [-]

    draws: speedups, [draws, ..., nK]. [-]
    Definition: as fast as the fastest but for rounding.
    """
    values = np.asarray(draws, float)
    return np.asarray((values >= values.max(axis=-1, keepdims=True) - 1e-12).mean(axis=0))


def draft_odds(draws: ArrayLike, allowed: ArrayLike | None = None) -> Odds:
    """Odds of each K from its speedups under shared draws.

    draws: speedups, [draws, ..., nK]. [-]
    allowed: K among which the least loss is looked for, [..., nK] of true and false (default all).
      Losses are against all K, since a limit on time per output token leaves out slow K alone. [-]
    Source: docs/decisions/0006-one-k-for-each-batch.md.
    """
    # K first and one after another: several times quicker than along so short an axis.
    values = np.ascontiguousarray(np.moveaxis(np.asarray(draws, float), -1, 0))
    best = functools.reduce(np.maximum, values)
    shares = values / best
    loss = np.moveaxis(1.0 - shares.mean(axis=1), 0, -1)
    least = np.where(_choosable(allowed, loss.shape), loss, np.inf).argmin(axis=-1)
    # Differences to the least, draw by draw: what all K err by alike must not blur which one is
    # better.
    beside = shares - np.take_along_axis(shares, least[None, None], axis=0)
    n_draws = values.shape[1]
    squares = np.einsum("kd...,kd...->k...", beside, beside) / n_draws
    variance = np.maximum(squares - beside.mean(axis=1) ** 2, 0.0)
    return Odds(
        loss=loss,
        noise=np.moveaxis(np.sqrt(variance / n_draws), 0, -1),
    )


def excess_loss(loss: Array, noise: Array, allowed: ArrayLike | None = None) -> Array:
    """Expected loss of each K beyond the least among the allowed and beyond the noise, [..., nK].
    [-]

    loss, noise: expected losses and their standard errors, as `curve.draft_odds` gives them. [-]
    allowed: K that may be chosen, true and false; where none is, all are. [-]
    0 where the noise does not tell a K from the least; infinite where it is not allowed. Own
    derivation, after the one-standard-error rule of model selection:
    docs/decisions/0006-one-k-for-each-batch.md.
    """
    choosable = _choosable(allowed, loss.shape)
    least = np.where(choosable, loss, np.inf).min(axis=-1, keepdims=True)
    # 1e-12: losses that are equal but for rounding tie.
    return np.where(choosable, np.maximum(loss - least - noise - 1e-12, 0.0), np.inf)


def recommended(loss: Array, noise: Array, allowed: ArrayLike | None = None) -> NDArray[np.int64]:
    """Place of the recommended K: the smallest whose expected loss is the least within the noise.

    loss, noise, allowed: as `curve.excess_loss` takes them. [-]
    Along the last axis. Every K counts alike, plain decoding (K = 0) too; the one rule behind
    verdict, schedule, export and validation.
    """
    # The first of those that tie is the smallest K: it verifies and drafts least for the same gain.
    return least_excess(excess_loss(loss, noise, allowed))


def least_excess(excess: Array) -> NDArray[np.int64]:
    """Place of the smallest K without excess loss, along the last axis. [-]

    excess : of `excess_loss`, [..., nK]. [-]
    """
    return np.asarray((excess == 0.0).argmax(axis=-1), dtype=np.int64)


def _choosable(allowed: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """`allowed`, and all K where it is None or allows none."""
    if allowed is None:
        return np.ones(shape, bool)
    mask = np.broadcast_to(np.asarray(allowed, bool), shape)
    return np.asarray(mask | ~mask.any(axis=-1, keepdims=True))


def batches_with(*more: int) -> Array:
    """Batches of a curve that a schedule is decided on, SCHEDULE_BATCHES and some more, increasing.
    [-]

    Own choice: four to each doubling show a dip that two would cut off.
    """
    return np.unique([*SCHEDULE_BATCHES, *more]).astype(float)


def graph_edges(setup: Setup) -> tuple[int, ...]:
    """Batches at which a K leaves the captured CUDA graphs, each with the next one. Empty where no
    K is known to.

    Between two batches of a curve values are interpolated: without these, a drop would be smeared
    over both.
    """
    if setup.graphs is None:
        return ()
    groups = setup.placement.attention_groups
    most = DEFAULT_BATCHES[-1]
    # A round of K drafts fills a graph with q = K + 1 rows a sequence, so each K leaves at a batch
    # of its own.
    last = (setup.graphs.largest(q) // q * groups for q in range(1, setup.longest_step + 1))
    return tuple(sorted({batch for end in last if 0 < end < most for batch in (end, end + 1)}))


def speedup_curve(
    scenario: Scenario, batches: ArrayLike = DEFAULT_BATCHES, drafts: ArrayLike | None = None
) -> Curve:
    """Speedup over batch and K of a scenario, its setup loaded here.

    batches, drafts: as `curve.curve_for` takes them. [-]
    Raises AdvisorError when the scenario names something unknown or impossible.
    """
    return curve_for(load_setup(scenario), batches, drafts)


def curve_for(
    setup: Setup,
    batches: ArrayLike = DEFAULT_BATCHES,
    drafts: ArrayLike | None = None,
    verify_tokens: int | None = None,
    draws: Draws | None = None,
    central_only: bool = False,
) -> Curve:
    """Predict speedup, times and bands over `batches` [nB] and draft lengths `drafts` [nK].

    batches: sequences that decode together, at least 1. [-]
    drafts: K to predict (default 0 to the scenario's k_max). [-]
    verify_tokens: tokens that a sequence verifies per round when that is not K + 1: the nodes of a
    draft tree. [-] draws: replaces the draws of the uncertain constants,
    `bands.make_draws(setup.costs)`. central_only: draws nothing, for searches that bound first. The
    one draw of the result is its centre.

    Raises AdvisorError for a batch below 1 or a K outside 0..k_max.
    """
    return rounds_for(setup, batches, drafts, verify_tokens, draws, central_only).curve(
        setup.acceptance
    )


def rounds_for(
    setup: Setup,
    batches: ArrayLike,
    drafts: ArrayLike | None = None,
    verify_tokens: int | None = None,
    draws: Draws | None = None,
    central_only: bool = False,
) -> Rounds:
    """Baseline steps and rounds of a setup, whatever is accepted.

    batches, drafts: as `curve.curve_for` takes them, as the others. [-]
    Raises AdvisorError as that does.
    """
    batch, k = _axes(setup, batches, drafts)
    # A round of K = 0 is a plain step, whatever tree the others verify.
    verified = np.asarray(
        k + 1.0 if verify_tokens is None else np.where(k > 0, verify_tokens, 1), float
    )
    baseline, whole_round = _baseline_and_round(setup, batch, k, verified, central_only)
    step_tokens = batch[:, None] * verified
    prompt = prompt_cost(setup, batch)
    plain_draws_s = baseline.total_s[None]
    round_draws_s = wobble = np.zeros((len(k), 0, len(batch)))
    if not central_only:
        # One set of draws for both times: an error that they share cancels in the speedup.
        draws = draws or make_draws(setup.costs)
        plain_draws_s = baseline.drawn(setup, draws)
        round_draws_s = np.moveaxis(whole_round.drawn(setup, draws), 1, 0)
        wobble = _wobble(setup, draws, batch, step_tokens, k)
    prefill = np.zeros_like(batch) if prompt is None else prompt.per_token_s()
    # A user's own prompt is over before the first token; throughput pays for it all the same
    # (decision 0008).
    waiting = prefill if prompt is None else prompt.per_token_s(others_only=True)
    of_curve = {
        "batches": batch,
        "tier": tiers_of(setup, baseline.components, whole_round.components, batch, step_tokens),
        "extrapolated": step_tokens > CALIBRATED_TOKENS,
        "prefill_s": prefill,
        "ttft_s": None if prompt is None else prompt.first_token_s,
        **_times(baseline, whole_round),
    }
    return Rounds(
        setup,
        k,
        None if central_only else draws,
        plain_draws_s,
        round_draws_s,
        wobble,
        waiting,
        of_curve,
    )


def _range(setup: Setup, speedup: Array, draws: Array, k: NDArray[np.int64]) -> tuple[Array, Array]:
    """Ends of the 80 % range that is stated of speedups, [nB, nK] each. Arguments as
    `chance_of_gain` takes them."""
    if setup.costs.scatter_log_sd is None:
        ends = unseen_ends()
        low = speedup * ends[0]
        high = speedup * ends[1]
    else:
        # The centre is no quantile of the draws: a skewed band is stretched rather than leave it
        # out.
        low, high = band(draws)
    known = k == 0
    return (
        np.where(known, speedup, np.minimum(low, speedup)),
        np.where(known, speedup, np.maximum(high, speedup)),
    )


def chance_of_gain(setup: Setup, speedup: Array, draws: Array, k: NDArray[np.int64]) -> Array:
    """Chance that drafting is faster than plain decoding, [nB, nK]. [-]

    speedup, draws: the predicted one, and that under each draw [draws, nB, nK]. [-]
    k: draft lengths, [nK]. [-]
    Of the draws where rows of the user's own say how far they scatter; else of the speedup alone
    (`bands.unseen`). The one chance of a gain that is stated anywhere.
    """
    if setup.costs.scatter_log_sd is None:
        return np.where(k == 0, 0.0, unseen_gain(speedup))
    return np.where(k == 0, 0.0, np.mean(draws > 1.0, axis=0))


def _axes(
    setup: Setup, batches: ArrayLike, drafts: ArrayLike | None
) -> tuple[Array, NDArray[np.int64]]:
    """Batches [nB] and draft lengths [nK] of a curve. Raises AdvisorError for one that cannot be
    predicted."""
    batch = np.atleast_1d(np.asarray(batches, float))
    if batch.size == 0 or not np.all((batch >= 1) & (batch <= MAX_BATCH)):
        raise AdvisorError(f"batches must be numbers from 1 to {MAX_BATCH}, e.g. 1,2,4,8")
    k_max = setup.longest_step - 1
    k = np.arange(k_max + 1) if drafts is None else np.atleast_1d(np.asarray(drafts, np.int64))
    if k.size == 0 or np.any(k < 0) or np.any(k > k_max):
        raise AdvisorError(
            f"K must lie between 0 and {k_max}; got {', '.join(map(str, k[(k < 0) | (k > k_max)]))}"
        )
    return batch, k


PADDED = "padded"
"""Part of a recording: the rows that a captured graph computes beside those asked for."""


@dataclass(frozen=True)
class _Timed:
    """A time of a speedup by component: a baseline step [nB] or a round [nB, nK]."""

    run: _Pass
    """The pass of the target in it."""
    by_model: Mapping[str, Array]
    """Seconds by component as the model has them. [s]"""
    factor: Array
    """Of a user's own plain sweep on the pass. [-]"""

    @functools.cached_property
    def components(self) -> dict[str, Array]:
        """Seconds by component as swept. [s]"""
        # A plain sweep knows nothing of drafting, so its factor leaves the drafter and its host
        # alone (decision 0026).
        return {
            name: time if name in BESIDE else time * self.factor
            for name, time in self.by_model.items()
        }

    @functools.cached_property
    def total_s(self) -> Array:
        """The whole time. [s]"""
        return np.asarray(sum(self.components.values()))

    @functools.cached_property
    def pass_s(self) -> Array:
        """The pass of the target, with its launches where no graph holds it. [s]"""
        waiting = self.components.get("eager", 0.0)
        return np.asarray(self.run.step.total * self.factor + waiting + np.zeros_like(self.total_s))

    def drawn(self, setup: Setup, draws: Draws) -> Array:
        """The whole time under each draw, [draws, nB] of steps and [draws, nK, nB] of rounds. [s]

        Batches last: numpy is several times quicker along them than along so short an axis as K.
        """
        total = _drawn(setup, self.by_model, draws, self.run)
        if setup.sweep is None:
            return total
        beside = {name: time.T for name, time in self.components.items() if name in BESIDE}
        if not beside:
            return np.asarray(total * self.factor.T)
        beside_s = draw_total(beside, draws, None, None)
        return np.asarray((total - beside_s) * self.factor.T + beside_s)


@dataclass(frozen=True)
class Rounds:
    """Baseline steps and rounds of a setup over batches [nB] and K [nK]: what no accepted length
    changes."""

    setup: Setup
    drafts: NDArray[np.int64]
    draws: Draws | None
    """None: only the centre is wanted."""
    plain_draws_s: Array
    """Plain step under each draw, [draws, nB]. [s]"""
    round_draws_s: Array
    """Round under each draw, [nK, draws, nB]. [s]"""
    wobble: Array
    """Factor on the speedup of what no component explains, [nK, draws, nB]. [-]"""
    waiting_s: Array
    """Prefill of other prompts that a user waits for at each token, [nB]. [s]"""
    of_curve: Mapping[str, Any]
    """Fields of a `Curve` that are the same for every accepted length."""

    def at(self, rows: slice, n_drafts: int) -> Rounds:
        """The rounds at some of the batches and the first so many K."""
        return replace(
            self,
            drafts=self.drafts[:n_drafts],
            plain_draws_s=self.plain_draws_s[:, rows],
            round_draws_s=self.round_draws_s[:n_drafts, :, rows],
            wobble=self.wobble[:n_drafts, :, rows],
            waiting_s=self.waiting_s[rows],
            of_curve=_rows(self.of_curve, rows, n_drafts),
        )

    def curve(self, acceptance: Acceptance) -> Curve:
        """Speedup, times and bands where so many tokens of each round are accepted."""
        setup = self.setup
        k = self.drafts
        accepted = acceptance.accepted_length[k]
        plain_s = self.of_curve["plain_step_s"]
        round_s = self.of_curve["round_s"]
        prefill_s = self.of_curve["prefill_s"]
        batches = self.of_curve["batches"]
        central = speedup(accepted, plain_s[:, None], round_s, prefill_s[:, None])
        samples = central[None] if self.draws is None else self._samples(acceptance, self.draws)
        low, high = _range(setup, central, samples, k)
        each_s = laws.tpot(round_s, accepted, prefill_s[:, None])
        rate = laws.tokens_per_s_per_gpu(batches[:, None], each_s, setup.placement.gpus)
        return Curve(
            drafts=k,
            speedup=central,
            low=low,
            high=high,
            p_gain=chance_of_gain(setup, central, samples, k),
            draws=samples,
            plain_draws_s=self.plain_draws_s,
            accepted_length=accepted,
            tpot_s=np.asarray(laws.tpot(round_s, accepted, self.waiting_s[:, None])),
            tokens_per_s_per_gpu=np.asarray(rate),
            **self.of_curve,
        )

    def _samples(self, acceptance: Acceptance, draws: Draws) -> Array:
        """Speedup under each draw, [draws, nB, nK]; 1 at K = 0."""
        k = self.drafts
        # Drawn in both directions on its own: a length is bounded by 1 and K + 1, so its band is
        # skewed.
        lengths = draw_acceptance(
            acceptance.low[k], acceptance.accepted_length[k], acceptance.high[k], draws
        )
        prefill_s = self.of_curve["prefill_s"]
        accepted = lengths.T[..., None]
        if prefill_s.any():
            plain_s = self.plain_draws_s
            samples = speedup(accepted, plain_s, self.round_draws_s, prefill_s) * self.wobble
        else:
            samples = accepted * self._of_one_token
        # Plain decoding over itself: no error can move it.
        samples[k == 0] = 1.0
        return np.moveaxis(samples, 0, -1)

    @functools.cached_property
    def _of_one_token(self) -> Array:
        """Speedup under each draw were one token accepted, to which it is proportional without
        prompts, [nK, draws, nB]. [-]"""
        return speedup(1.0, self.plain_draws_s, self.round_draws_s) * self.wobble


def _wobble(
    setup: Setup, draws: Draws, batch: Array, step_tokens: Array, k: NDArray[np.int64]
) -> Array:
    """Factor on a speedup of what no component explains, under each draw, [nK, draws, nB]. [-]"""
    scatter = setup.costs.scatter_log_sd
    beyond = beyond_log_sd(step_tokens)
    if scatter is None:
        # Independent of each other: long steps are the kernels' extrapolation, drift is between
        # laboratories.
        scatter = SHARED_LOG_SD
        beyond = np.hypot(beyond, drift(batch)[:, None])
    return sampled_wobble(draws, scatter, beyond, k)


def _times(baseline: _Timed, whole_round: _Timed) -> dict[str, Any]:
    """Fields of a `Curve` that are those of its two times."""
    ran = whole_round.run.ran
    shape = whole_round.total_s.shape
    pass_s = whole_round.pass_s
    times = {
        "plain_step_s": baseline.total_s,
        "verify_step_s": pass_s,
        "round_s": whole_round.total_s,
        "verify_ratio": np.asarray(laws.verification_ratio(pass_s, baseline.total_s[:, None])),
        "touched_plain": baseline.run.touched,
        "touched_verify": np.broadcast_to(whole_round.run.touched, shape),
        "plain_components": baseline.components,
        "round_components": whole_round.components,
    }
    if ran is None:
        return times
    eager = np.broadcast_to(ran.eager, shape)
    return times | {"eager": eager, "padding": np.broadcast_to(ran.padding, shape)}


def _baseline_and_round(
    setup: Setup, batch: Array, k: NDArray[np.int64], verified: Array, central_only: bool
) -> tuple[_Timed, _Timed]:
    column = batch[:, None]
    with within("plain"):
        baseline = _pass(setup, batch, np.asarray(1.0), context_beside(setup, 1), central_only)
    with within("verify"):
        verify = _pass(setup, column, verified, context_beside(setup, 2), central_only)
    parts = {
        name: np.broadcast_to(time, batch.shape) for name, time in baseline.step.components.items()
    }
    components = _round_components(setup, verify, column, k, baseline.touched[:, None])
    # What rounds take beyond kernels and hosts grows with their tokens (decisions 0019 and 0045).
    steps = StepTime({name: time[:, None] for name, time in parts.items()}), verify.step
    for name, time in verified_parts(setup, steps, column, verified).items():
        components[name] = np.asarray(time * (k > 0))
    if baseline.ran is not None and verify.ran is not None:
        parts["eager"] = _launched_apart(setup, parts, baseline.ran)
        components["eager"] = _launched_apart(setup, components, verify.ran)
    of_baseline, of_round = swept_factors(setup, batch, verified)
    return _Timed(baseline, parts, of_baseline), _Timed(verify, components, of_round)


def _round_components(
    setup: Setup, verify: _Pass, column: Array, k: NDArray[np.int64], touched_one: Array
) -> dict[str, Array]:
    """Seconds of a speculative round by component, each [nB, nK]: the verify step, drafting, and
    the host's share."""
    with within("draft"):
        draft = draft_time(
            setup.drafting,
            batch_size=column,
            n_draft=k.astype(float),
            context_tokens=context_beside(setup, 2),
            touched_one=touched_one,
        )
    costs = setup.costs
    shape = (len(column), len(k))
    components = {
        name: np.broadcast_to(time, shape) for name, time in verify.step.components.items()
    }
    components["draft"] = np.broadcast_to(draft.time_s(costs.launch_per_layer_s), shape)
    components["draft_host"] = np.broadcast_to(draft.host_s(costs.host_per_draft_pass_s), shape)
    # Nothing is accepted or rejected at K = 0.
    components["round_host"] = np.broadcast_to(
        costs.round_host_s(setup.placement.gpus) * (k > 0), shape
    )
    return components


def verified_time(
    setup: Setup, steps: tuple[StepTime, StepTime], batch: Array, tokens: Array
) -> Array:
    """Time that verifying many tokens adds beyond the kernels, broadcast. [s]

    batch, tokens: as of `verified_parts`, whose sum it is. [-]
    Source: docs/decisions/0045-verified-tokens.md.
    """
    return np.asarray(sum(verified_parts(setup, steps, batch, tokens).values()))


def verified_parts(
    setup: Setup, steps: tuple[StepTime, StepTime], batch: Array, tokens: Array
) -> dict[str, Array]:
    """Parts of that time by component: `laws.verified` and `laws.verify_tokens`. [s]

    steps: a baseline one and a verification.
    batch, tokens: sequences of the instance, and tokens that each verifies. [-]
    """
    # Launches and the host's step are fixed: only what reads and computes grows with the tokens
    # verified.
    plain, verify = steps
    costs = setup.costs
    group_batch = batch / setup.placement.attention_groups
    times = {"T_plain": plain.total, "T_verify": verify.total}
    times["T_fix"] = plain.components["host"] + plain.components["launch"]
    phi = costs.verified_per_token
    c = np.where(tokens > 1.0, costs.verify_per_doubling, 0.0)
    return {
        "verified": np.asarray(laws.verified(phi=phi, b=group_batch, q=tokens, **times)),
        "verify_tokens": np.asarray(laws.verify_tokens(c, batch, tokens, plain.total)),
    }


_BESIDE_THE_STEP = {
    component.key for component in COMPONENTS if component.drafter or component.bound == "host"
} - {
    "launch",
    "between_graphs",
}
"""Components of a round that do not hide launches of the target's own kernels."""


BESIDE = ("draft", "draft_host", "round_host")
"""Components of a round that no plain step has."""


def _target_s(setup: Setup, batch: Array, tokens: Array) -> Array:
    """The model's step of the target, B sequences x q tokens, broadcast: kernels, launches,
    verified tokens. [s]"""
    context = float(setup.scenario.context_tokens)
    # Central only: a sweep corrects the middle of the band and leaves its width.
    run = _pass(setup, batch, tokens, context, central_only=True)
    plain_run = _pass(setup, batch, np.ones(()), context, central_only=True)
    steps = plain_run.step, run.step
    parts = {**run.step.components, **verified_parts(setup, steps, batch, tokens)}
    if run.ran is not None:
        parts["eager"] = _launched_apart(setup, parts, run.ran)
    return np.asarray(sum(parts.values()))


def held_sweep(setup: Setup) -> HeldSweep | None:
    """The user's own plain sweep beside the model's times per output token. None where the scenario
    has none."""
    if (sweep := setup.sweep) is None:
        return None
    # A user waits for the others' prompts between two tokens, not for the own one.
    waiting = np.subtract(*prefill_shares_s(setup, sweep.batches))
    return HeldSweep(sweep, _target_s(setup, sweep.batches, np.ones(())) + waiting)


@unrecorded()
def swept_factors(setup: Setup, batch: Array, tokens: Array) -> tuple[Array, Array]:
    """Factors of the user's plain sweep on plain steps [nB] and verifications [nB, nK]. [-]

    batch, tokens: B, [nB], and q of each sequence, [nK]. [-]
    1 without a sweep. Source: `sweep_factors`, docs/decisions/history.md (0026).
    """
    if (held := held_sweep(setup)) is None:
        return np.ones_like(batch), np.ones((len(batch), len(tokens)))
    return sweep_factors(
        held, lambda sequences, each: _target_s(setup, sequences, each), batch, tokens
    )


def _launched_apart(setup: Setup, components: Mapping[str, Array], ran: Ran) -> Array:
    """Time that steps without a CUDA graph wait for their launches: `laws.eager_wait`, broadcast.
    [s]"""
    device = sum(
        (time for name, time in components.items() if name not in _BESIDE_THE_STEP), np.zeros(1)
    )
    e = setup.costs.eager_per_layer_s
    layers = n_layers(setup.architecture)
    return np.asarray(np.where(ran.eager, laws.eager_wait(e, layers, device), 0.0))


def _drawn(setup: Setup, components: Mapping[str, Array], draws: Draws, run: _Pass) -> Array:
    """Total time under each draw, batches last; launches without a graph wait for the drawn
    kernels. [s]"""
    low = None if run.routed_low is None else run.routed_low.T
    high = None if run.routed_high is None else run.routed_high.T
    rest = {name: time.T for name, time in components.items() if name != "eager"}
    total = draw_total(rest, draws, low, high)
    if run.ran is None or not run.ran.eager.any():
        return total
    device = {name: time for name, time in rest.items() if name not in _BESIDE_THE_STEP}
    # Drawn apart from the kernels: how fast a host launches says nothing of how fast they run.
    factor = draws.factor["eager"].reshape(-1, *(1,) * (total.ndim - 1))
    e = factor * setup.costs.eager_per_layer_s
    layers = n_layers(setup.architecture)
    waits_s = laws.eager_wait(e, layers, draw_total(device, draws, low, high))
    return np.asarray(total + np.where(run.ran.eager.T, waits_s, 0.0))


@dataclass(frozen=True)
class _Pass:
    step: StepTime
    touched: Array
    routed_low: Array | None
    routed_high: Array | None
    ran: Ran | None
    """Captured graphs that its steps run in; None where they are not known."""


def _pass(
    setup: Setup, batch: Array, tokens: Array, context: ArrayLike, central_only: bool
) -> _Pass:
    ran = graphs_of_steps(setup, batch, tokens)
    # Rows of padding choose experts too: engines leave in them what stood there before.
    computed = batch if ran is None else batch * ran.padding
    ends: tuple[End, ...] = (
        ("value",) if setup.routing is None or central_only else ("value", "low", "high")
    )
    touched_by_end = touched_at_ends(setup, computed, tokens, ends)
    touched = touched_by_end[0]
    beside = touched_by_end[1:]
    step = step_as_run(setup, batch, tokens, context, touched, ran)
    # Only where routing has a band of its own: uniform routing and dense models have none.
    fewer, more = _routed_only(setup, computed, tokens, beside) if len(beside) else (None, None)
    return _Pass(step, touched, fewer, more, ran)


def step_as_run(
    setup: Setup,
    batch: Array,
    tokens: Array,
    context: ArrayLike,
    touched: Array,
    graphs: Ran | None,
    moe: MoeShape | None = None,
) -> StepTime:
    """A pass of B sequences x q tokens, as long as the padding of its captured graph makes it,
    broadcast. [s]

    batch, tokens, context : B, q, and cached tokens of each sequence. [-]
    touched : distinct experts U of a routed layer. [-]
    graphs : captured graphs that the pass runs in; None: not known.
    moe : routed layers of many designs in place of the architecture's own.
    """
    step_of = functools.partial(
        step_time,
        setup.architecture,
        setup.costs,
        setup.placement,
        tokens_per_sequence=tokens,
        context_tokens=context,
        touched=touched,
        kv_bytes_per_element=setup.kv_bytes_per_element,
        moe=moe,
    )
    step = step_of(batch_size=batch)
    if graphs is None:
        return step
    with within(PADDED):
        return in_graph(step, step_of(batch_size=batch * graphs.padding))


def _routed_only(setup: Setup, batch: Array, tokens: Array, touched: Array) -> Array:
    """Time of the routed experts in all layers, `touched` as it broadcasts with B sequences x q
    tokens. [s]"""
    layer = setup.routed_layer
    cost = layer.cost
    placement = layer.placement
    shape = layer.shape
    dtype = layer.dtype
    uneven = slowest_rank(cost, placement, shape, batch, tokens, touched, dtype)
    layer_time_s = routed_time(
        cost, placement, shape, batch * tokens, touched, dtype, uneven=uneven
    )
    return np.asarray(shape.count, float) * layer_time_s


def curve_columns(grid: Curve) -> dict[str, NDArray[Any]]:
    """The table behind every list of a curve's points: its columns by name, [nB * nK], K changing
    fastest.

    Times are in milliseconds; `NAME_ms` is the component NAME of one whole round.
    """
    shape = grid.speedup.shape
    columns: dict[str, ArrayLike] = {
        "batch_size": grid.batches[:, None].astype(int),
        "n_draft": grid.drafts,
        "speedup": grid.speedup,
        "speedup_low": grid.low,
        "speedup_high": grid.high,
        "tier": grid.tier.astype(str),
        "extrapolated": grid.extrapolated,
    }
    columns |= {
        "accepted_length": grid.accepted_length,
        "verify_ratio": grid.verify_ratio,
        "touched_plain": grid.touched_plain[:, None],
        "touched_verify": grid.touched_verify,
        "tpot_ms": grid.tpot_s * 1e3,
        "tokens_per_s_per_user": 1.0 / grid.tpot_s,
        "tokens_per_s_per_gpu": grid.tokens_per_s_per_gpu,
    }
    if grid.ttft_s is not None:
        columns["ttft_ms"] = grid.ttft_s[:, None] * 1e3
    columns |= {f"{name}_ms": time * 1e3 for name, time in grid.round_components.items()}
    return {name: np.broadcast_to(values, shape).ravel() for name, values in columns.items()}


def curve_rows(grid: Curve) -> list[dict[str, Any]]:
    """One row for each batch and K, as JSON and CSV write it: six significant digits."""
    columns = curve_columns(grid)
    # JSON has no numpy numbers; counts and texts go as they are.
    values = [
        map(digits, items) if items.dtype.kind == "f" else items.tolist()
        for items in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def digits(value: float) -> float:
    """Number with six significant digits, more than any band tells and stable between machines. [as
    given]

    value: in any unit. [as given]
    Own choice.
    """
    return float(f"{float(value):.6g}")
