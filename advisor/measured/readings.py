"""What else the rows of a refit may mean: the misreadings that people make, and how well each
explains the same rows.

A column off by a factor that no engine explains is refused (`advisor.measured.point_checks`). Here
the rows are within reason either way, so the readings compete: each is predicted and refitted as
the given one is. One that is far more probable, and whose rows left out of the fit are far less
off, is asked about.

A time per touched expert competes in the same way, on a chip that nobody fitted: a kernel that
calls one product for each expert pays for the call, which no byte and no operation tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from advisor.measured.multipliers import MultiplierPrior, Posterior, fit_many, log_left_out
from advisor.measured.observations import (
    NAMES,
    Observations,
    joined,
    log_predicted,
    stacked,
)
from advisor.measured.points import Point, Reread, as_read, repriced
from advisor.physics.architecture import Moe
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.prediction import BAND_SIGMAS, Array

FOLDS = 6
"""Parts that the rows are left out in, in turn, to judge a reading. [-]"""
MAX_COMPARED = 40
"""Rows that readings compete on; of more, an even sample: rows of one file share what is wrong with
it. [-]"""
JUDGED = 3
"""Readings, the most probable first, that are judged on rows left out. [-]"""
LEAST_GAIN = 6.0
"""Log odds by which a reading must beat the given one: a factor of 400. True misreadings win by 7
to 70 where each row's own time is fitted (a trial on synthetic truths). [-]"""
MAX_LEFT_OUT = 0.9
"""Share of the given reading's left-out error that a reading may have. [-]"""
LEAST_SHAPE_GAIN = 4.0
MAX_SHAPE_LEFT_OUT = 0.75
"""The same of a time per touched expert, which is taken without a question: it has to explain more.
[-]"""
MAX_SIBLINGS = 3
"""Accelerators of the same generation that are tried, those named most alike. [-]"""
CAPPED_RISE = 1.5
"""Most that a rate or a time rises from the batch at which a server stops admitting more. Own
choice. [-]"""
SWITCHED_OFF = 0.25
"""Most that the log time of a row differs from the baseline of its batch, where nothing is drafted:
twice four times a scatter of 3 %. [-]"""
MAX_K = 64
"""Longest draft that is tried. [-]"""

Values = Callable[[Observations], Observations]


@dataclass(frozen=True)
class Reading:
    """Another meaning of the rows: the question that it raises, and its changes of rows or
    values."""

    question: str
    reread: Reread | None = None
    values: Values | None = None


@dataclass(frozen=True)
class Rival:
    """Another reading of the rows beside the stated one: left-out error of each, and its log odds.
    [-]"""

    question: str
    given_error: float
    error: float
    gain: float

    @property
    def is_better(self) -> bool:
        """Whether it beats the stated reading clearly."""
        return self.gain >= LEAST_GAIN and self.error <= MAX_LEFT_OUT * self.given_error

    @property
    def text(self) -> str:
        """Question, and why it is asked: `Is batch_size
        the sum over 4 copies? Asked because ... by 4%, not 23%.`"""
        return (
            f"{self.question} Asked because the model would then explain these rows far better: "
            f"values left out of the fit are off by {self.error:.0%} in place of "
            f"{self.given_error:.0%}."
        )


def rivals(points: Sequence[Point], prior: MultiplierPrior) -> tuple[Rival, ...]:
    """The reading that beats the stated one clearly, if any."""
    return tuple([rival for rival in compared(points, prior) if rival.is_better][:1])


def compared(points: Sequence[Point], prior: MultiplierPrior, judged: int = JUDGED) -> list[Rival]:
    """The `judged` most probable readings of the rows, the best first."""
    sample = [
        points[i]
        for i in np.unique(np.linspace(0, len(points) - 1, MAX_COMPARED).round().astype(int))
    ]
    stated = joined(point.observations for point in sample)
    readings = []
    every = [stated]
    candidates = list(_readings(sample))
    reread = iter(
        as_read(sample, [reading.reread for reading in candidates if reading.reread is not None])
    )
    for reading in candidates:
        read = stated if reading.reread is None else next(reread)
        if read is not None and len(read.line) == len(stated.line):
            readings.append(reading)
            every.append(read if reading.values is None else reading.values(stated))
    if not readings:
        return []
    observed = stacked(every)
    gain = log_evidence(observed, prior, np.ones(observed.measured.shape, bool))[0]
    best = np.argsort(-gain[1:])[:judged]
    stated_error = _left_out(every[0], prior)
    errors = [_left_out(every[i + 1], prior) for i in best]
    return [
        Rival(readings[i].question, stated_error, error, float(gain[i + 1] - gain[0]))
        for i, error in zip(best, errors, strict=True)
    ]


def log_evidence(
    observed: Observations, prior: MultiplierPrior, used: NDArray[np.bool_]
) -> tuple[Array, Posterior]:
    """Log probability of the values `used` [m, n] under each reading [m], and its best constants.
    [-]

    The constants are integrated out around their best (Laplace's approximation): it counts against
    a reading how far they must move from what is known of them.
    """
    posterior = fit_many(observed, prior, used)
    theta = posterior.theta
    scale = posterior.scale
    z = (log_predicted(observed, theta[:, None]) - observed.log_measured) / scale[:, None]
    robust = (used * (np.sqrt(1.0 + z**2) - 1.0)).sum(axis=1)
    moved = np.einsum("mp,pq,mq->m", theta, np.linalg.inv(prior.covariance), theta) / 2.0
    room = (
        np.linalg.slogdet(posterior.covariance)[1] - np.linalg.slogdet(prior.covariance)[1]
    ) / 2.0
    wide = scale / prior.residual_log_sd
    scatter = 2.0 * (2.0 * np.log(wide) + wide**-2)  # its prior, worth four rows
    return np.asarray(room - robust - moved - used.sum(axis=1) * np.log(scale) - scatter), posterior


def _left_out(observed: Observations, prior: MultiplierPrior) -> float:
    """Mean relative error of values, each predicted by a refit without its part of the rows. [-]"""
    lines = np.unique(observed.line)
    part = np.searchsorted(lines, observed.line) % min(len(lines), FOLDS)
    return float(
        np.abs(np.expm1(log_left_out(observed, prior, part) - observed.log_measured)).mean()
    )


def _readings(points: Sequence[Point]) -> Iterator[Reading]:
    """Every reading that changes something in the rows.

    What the engine's program recorded (batch, K, unit, model, placement) has one meaning; the
    accelerator was named.
    """
    if all(point.recorded for point in points):
        yield from _of_siblings(points[0])
        return
    yield from _of_batch(points)
    drafts = np.array([point.n_draft for point in points])
    if drafts.any():
        yield from _of_draft(drafts)
        yield from _of_switching_off(points)
        yield from _of_length(np.array([point.accepted_length for point in points]), drafts)
    yield from _of_values(points)
    yield from _of_setup(points[0])


def _of_batch(points: Sequence[Point]) -> Iterator[Reading]:
    def read(after: Array) -> Reread:
        return Reread(batches=np.maximum(after, 1.0))

    batch = np.array([point.batch_size for point in points])
    for copies in (n for n in (2, 4, 8) if n <= batch.min()):  # a copy runs a sequence at least
        yield Reading(
            f"Is batch_size the sum over {copies} copies of the server?", read(batch / copies)
        )
    yield Reading(
        "Did about a third of batch_size decode together, the others waiting?", read(batch / 3.0)
    )
    for parts in (2, 4):
        yield Reading(
            (
                f"Did {parts} times as many decode together, batch_size being that of one client "
                "or rank?"
            ),
            read(batch * parts),
        )
    for cap in (cap for cap in np.unique(batch)[:-1] if _is_flat_above(points, cap)):
        yield Reading(
            f"Did the server run no more than {cap:g} sequences at once?",
            read(np.minimum(batch, cap)),
        )


def _is_flat_above(points: Sequence[Point], cap: float) -> bool:
    """Whether the server's rate, else its time per token, hardly rises above a batch. True where
    neither is stated."""
    for name in ("output_tok_per_s", "tpot_s"):
        values: dict[tuple[int, float], float] = {}
        for point in points:
            value = point.number(name)
            if value:
                values[point.n_draft, point.batch_size] = value
        if above := [
            value / values[k, cap]
            for (k, batch), value in values.items()
            if batch > cap and (k, cap) in values
        ]:
            return max(above) <= CAPPED_RISE
    return True


def _of_draft(k: Array) -> Iterator[Reading]:
    def read(after: Array) -> Reread:
        return Reread(drafts=np.where(k > 0, after, 0))

    least = k[k > 0].min()
    if least > 1:
        yield Reading(
            "Does draft_tokens_k count the bonus token, one more than were drafted?", read(k - 1)
        )
    if k.max() < MAX_K:
        yield Reading("Was one token more drafted than draft_tokens_k says?", read(k + 1))
    if k.max() > 1:
        yield Reading(
            "Is draft_tokens_k twice the length that was drafted?", read(np.maximum(k // 2, 1))
        )


def _of_switching_off(points: Sequence[Point]) -> Iterator[Reading]:
    """The engine that stops drafting from some batch on, where rows are about as long as the
    baseline there."""
    batch = np.array([point.batch_size for point in points])
    k = np.array([point.n_draft for point in points])
    length = np.array([point.accepted_length for point in points])
    time = np.array([point.number("tpot_s") or np.nan for point in points])
    plain = {b: float(np.median(time[(batch == b) & (k == 0)])) for b in np.unique(batch[k == 0])}
    ratio = time / np.array([plain.get(b, np.nan) for b in batch])
    for least in np.unique(batch[k > 0]):
        off = (batch >= least) & (k > 0)
        if np.abs(np.log(ratio[off])).max() <= SWITCHED_OFF and not off[k > 0].all():
            yield Reading(
                f"Did the engine stop drafting from batch {least:g} on?",
                Reread(drafts=np.where(off, 0, k), lengths=np.where(off, 1.0, length)),
            )
            return


def _of_length(length: Array, k: Array) -> Iterator[Reading]:
    def read(after: Array) -> Reread:
        return Reread(lengths=np.where(k > 0, np.clip(after, 1.0, k + 1.0), 1.0))

    yield Reading(
        "Does accepted_length leave out the token that each round adds by itself?",
        read(length + 1.0),
    )
    yield Reading("Does accepted_length count a token more than a round emits?", read(length - 1.0))
    yield Reading("Is accepted_length a share of the drafted tokens?", read(1.0 + length * k))
    elsewhere = "Was accepted_length counted on {} text than these runs?"
    yield Reading(elsewhere.format("easier"), read(1.0 + (length - 1.0) / 1.4))
    yield Reading(elsewhere.format("harder"), read(1.0 + (length - 1.0) * 1.6))


def _of_values(points: Sequence[Point]) -> Iterator[Reading]:
    """Readings under which the values themselves change, or the parts that they hold."""
    observed = joined(point.observations for point in points)
    at = [point for point in points for _ in point.observations.line]
    time = observed.quantity != "speedup"
    length = np.array([point.accepted_length for point in at])
    yield from _of_speculation(observed, time, np.array([point.n_draft for point in at]), length)
    if not time.all():
        inverse = np.where(time, 0.0, -2.0 * observed.log_measured)
        yield Reading(
            "Is speedup the time with drafts over the time without?", values=_scaled(inverse)
        )
    if time.any():
        yield from _of_times(
            observed, time, np.array([point.scenario.n_gpus for point in at], float)
        )
    yield from _of_what_is_added(observed, time, length)


def _scaled(log_factor: Array) -> Values:
    return lambda observed: replace(observed, measured=observed.measured * np.exp(log_factor))


def _of_speculation(
    observed: Observations, time: NDArray[np.bool_], k: Array, length: Array
) -> Iterator[Reading]:
    """Readings of rounds against plain steps, in times or in speedups."""
    if not (k > 0).any():
        return
    drafting = np.where(k > 0, np.where(time, 1.0, -1.0), 0.0)
    for question, factor in (
        ("Is the time of speculation that of a whole round, not of a token?", 1.0 / length),
        ("Is the time of a round that of one token?", length),
        ("Is the time of a token that of a round divided by K + 1?", (k + 1.0) / length),
        ("Does the time of speculation hold two rounds?", 0.5),
        ("Does the time of speculation hold half a round?", 2.0),
    ):
        yield Reading(question, values=_scaled(drafting * np.log(factor)))
    plain = np.where(time, k == 0, 1.0)
    for slower in (1.25, 1.5):
        question = (
            f"Is the run without drafts about {slower:g} times slower than plain decoding "
            "(drafting, eager mode)?"
        )
        yield Reading(question, values=_scaled(-plain * np.log(slower)))
    yield Reading(
        "Do the times of speculation leave out drafting?",
        values=_without(observed, time, _DRAFTING),
    )


def _of_times(observed: Observations, time: NDArray[np.bool_], gpus: Array) -> Iterator[Reading]:
    """Readings of times alone."""
    for question, factor in (
        ("Are the times half of what was measured?", 2.0),
        ("Are the times twice what was measured?", 0.5),
        ("Are the times divided by the number of GPUs?", gpus),
        ("Are the times summed over GPUs?", 1.0 / gpus),
    ):
        if np.any(factor != 1.0):
            yield Reading(question, values=_scaled(np.where(time, np.log(factor), 0.0)))
    yield Reading(
        "Do the times leave out the host (launches, scheduling)?",
        values=_without(observed, time, _HOST),
    )


def _of_what_is_added(
    observed: Observations, time: NDArray[np.bool_], length: Array
) -> Iterator[Reading]:
    """Readings under which each token or round took a constant time more than decoding, in times
    and in speedups."""
    token_s = np.where(time, observed.measured, observed.upper.sum(axis=1))
    for share in (0.3, 0.6):
        added_s = share * float(token_s.min())
        for each, tokens in (("token", length), ("round", np.ones_like(length))):
            upper = observed.upper.copy()
            lower = observed.lower.copy()
            upper[:, -1] += added_s * np.where(time, tokens, 1.0)
            lower[:, -1] += np.where(time, 0.0, added_s * tokens)
            question = (
                f"Does the time of each {each} hold {added_s * 1e3:.2g} ms of something else "
                "(prefill, network)?"
            )
            yield Reading(question, values=partial(replace, upper=upper, lower=lower))


_DRAFTING = ("drafter", "draft_host")
_HOST = ("host", "round_host", "launch")


def _without(observed: Observations, time: NDArray[np.bool_], names: Sequence[str]) -> Values:
    """Values whose times do not hold the parts of some multipliers."""
    part_mask = np.ones(observed.upper.shape[1])
    part_mask[[NAMES.index(name) for name in names]] = 0.0
    lower = np.where(time[:, None], observed.lower, observed.lower * part_mask)
    return lambda observations: replace(observations, upper=observed.upper * part_mask, lower=lower)


def _of_setup(point: Point) -> Iterator[Reading]:
    """Readings under which the rows ran elsewhere. What holds for the first row is taken for
    all."""
    scenario = point.scenario

    def read(**changes: object) -> Reread:
        return Reread(scenario=tuple(changes.items()))

    if scenario.n_gpus == scenario.tensor_parallel:
        half = scenario.n_gpus // 2
        twice = 2 * scenario.n_gpus
        if half:
            yield Reading(
                f"Did {half} of the {scenario.n_gpus} GPUs serve?",
                read(n_gpus=half, tensor_parallel=half),
            )
        yield Reading(
            f"Did {twice} GPUs serve, not {scenario.n_gpus}?",
            read(n_gpus=twice, tensor_parallel=twice),
        )
    for factor, words in ((8.0, "longer"), (1 / 8.0, "shorter")):
        context = max(int(scenario.context_tokens * factor), 16)
        yield Reading(
            f"Was the context about 8 times {words} than said?", read(context_tokens=context)
        )
    yield from _of_siblings(point)


def _of_siblings(point: Point) -> Iterator[Reading]:
    hardware = point.setup.hardware
    alike = [
        name
        for name in hardware_ids()
        if name != hardware.id and load_hardware(name).generation == hardware.generation
    ]
    alike.sort(key=lambda name: -len(commonprefix([name, hardware.id])))  # noqa: RUF071 - names, not paths
    for name in alike[:MAX_SIBLINGS]:
        yield Reading(
            f"Did these runs use {name}, not {hardware.id}?",
            Reread(scenario=(("hardware_id", name),)),
        )


TRIED_S = np.array([0.0, *np.geomspace(0.5e-6, 128e-6, 25)])
"""Times that compete, equally likely a priori. [s]"""
LEAST_SIZES = 4.0
"""Sizes of the experts of two designs, one over the other, from which on they tell the time. [-]"""
SAME_BYTES = 0.1
"""Difference of the logarithms of two layers' bytes up to which they count as equal. [-]"""
_UNIT_S = 10e-6
"""A step is linear in the time, so that one prediction with this much tells all. [s]"""
_ROUTED = NAMES.index("routed")


@dataclass(frozen=True)
class ExpertTime:
    """Time per touched expert of a layer that rows ask for."""

    constant_s: float
    """What a refit adds to the shipped constant, before the factor of the routed experts; the most
    probable. [s]"""
    mean_s: float
    """Mean and standard deviation of the time itself over all that competed. [s]"""
    sd_s: float
    given_error: float
    """Mean error of values left out, without such a time and with the one that suits the others.
    [-]"""
    error: float
    gain: float
    """Log odds of the most probable one against none. [-]"""

    @property
    def taken(self) -> bool:
        """Whether a refit takes it: by a stricter rule than a question's."""
        return bool(
            self.constant_s
            and self.gain >= LEAST_SHAPE_GAIN
            and self.error <= MAX_SHAPE_LEFT_OUT * self.given_error
        )

    @property
    def text(self) -> str:
        """Sentence on what was found, and whether it was taken."""
        if not self.constant_s:
            return "The rows ask for no time per touched expert."
        low = max(self.mean_s + -1.0 * BAND_SIGMAS * self.sd_s, 0.0) * 1000000.0
        high = max(self.mean_s + 1.0 * BAND_SIGMAS * self.sd_s, 0.0) * 1000000.0
        about = (
            f"{self.mean_s * 1e6:.1f} us ({low:.1f} to {high:.1f}) for each touched expert of a "
            "layer"
        )
        errors = (
            f"designs left out of the fit are off by {self.error:.1%} in place of "
            f"{self.given_error:.1%}"
        )
        if self.taken:
            return f"Taken: {about}; with it {errors}."
        need = f"{MAX_SHAPE_LEFT_OUT * self.given_error:.1%}"
        odds = (
            f"{np.exp(self.gain):.0f} times as probable as none, "
            f"{np.exp(LEAST_SHAPE_GAIN):.0f} times is asked for"
        )
        sure = "" if self.gain >= LEAST_SHAPE_GAIN else f"; it is {odds}"
        return f"Not taken: {about}; with it {errors}, {need} is asked for{sure}."

    def repriced(self, points: Sequence[Point]) -> list[Point]:
        """Rows as predicted with it."""
        return _with_time(points, self.constant_s)


def expert_time(points: Sequence[Point], prior: MultiplierPrior) -> ExpertTime | None:
    """The time per touched expert that rows ask for. None where they cannot tell, or the chip's
    kernels were fitted.

    Only experts of other sizes but equal bytes tell it from a byte and from a launch: without such
    a pair six measured designs agreed on 28 us, where the pair says 9
    (docs/decisions/history.md (0032)).
    """
    shapes = {id(point.setup): point.setup.architecture.moe for point in points}
    if any(point.setup.hardware.generation for point in points) or not isolated(
        list(shapes.values())
    ):
        return None
    designs = [(point.scenario.model_id, point.scenario.model_config_json) for point in points]
    names = list(dict.fromkeys(designs))
    stated = joined(point.observations for point in points)
    read = joined(point.observations for point in _with_time(points, _UNIT_S))
    if len(read.line) != len(stated.line):
        return None
    by_line = {
        point.line: names.index(design) for point, design in zip(points, designs, strict=True)
    }
    part = np.array([by_line[line] for line in stated.line])
    every = stacked([_at(stated, read, float(seconds)) for seconds in TRIED_S])
    used = np.ones(every.measured.shape, bool)
    evidence, posterior = log_evidence(every, prior, used)
    likely = np.exp(evidence - evidence.max())
    likely /= likely.sum()
    times = TRIED_S * np.exp(posterior.theta[:, _ROUTED])
    known = times**2 * posterior.covariance[:, _ROUTED, _ROUTED]
    mean = float(likely @ times)
    best = int(evidence.argmax())
    errors = _error_left_out(every, prior, part)
    return ExpertTime(
        constant_s=float(f"{TRIED_S[best]:.3g}"),
        mean_s=mean,
        sd_s=float(np.sqrt(likely @ ((times - mean) ** 2 + known))),
        given_error=errors[0],
        error=errors[1],
        gain=float(evidence[best] - evidence[0]),
    )


def isolated(layers: Sequence[Moe | None]) -> bool:
    """Whether two of these layers have equal bytes in experts at least LEAST_SIZES apart in
    size."""
    sizes = [
        (np.log(moe.expert_width * moe.expert_input_width), np.log(moe.n_experts))
        for moe in layers
        if moe is not None
    ]
    return len(sizes) == len(layers) and any(
        size - other >= np.log(LEAST_SIZES) and abs(size + count - other - others) <= SAME_BYTES
        for size, count in sizes
        for other, others in sizes
    )


def _error_left_out(
    every: Observations, prior: MultiplierPrior, part: NDArray[np.int_]
) -> tuple[float, float]:
    """Mean error of values left out, part by part: without a time, and with the one that suits the
    other parts. [-]"""
    out = np.zeros((2, part.size))
    for fold in np.unique(part):
        in_fold = part == fold
        used = np.broadcast_to(~in_fold, every.measured.shape)
        evidence, posterior = log_evidence(every, prior, used)
        log_errors = log_predicted(every, posterior.theta[:, None]) - every.log_measured
        out[:, in_fold] = log_errors[[0, int(evidence.argmax())]][:, in_fold]
    plain, chosen = np.abs(np.expm1(out)).mean(axis=1)
    return float(plain), float(chosen)


def _at(given: Observations, read: Observations, seconds: float) -> Observations:
    """Observations with another time per touched expert, along the line through none and _UNIT_S.
    [s]"""
    parts = {
        name: getattr(given, name)
        + (getattr(read, name) - getattr(given, name)) * (seconds / _UNIT_S)
        for name in ("upper", "lower")
    }
    return replace(given, **parts)


def _with_time(points: Sequence[Point], seconds: float) -> list[Point]:
    """Rows as predicted with a further time per touched expert. [s]"""
    return repriced(
        points, lambda setup: replace(setup, costs=setup.costs.with_expert_time(seconds))
    )
