"""Where each model stands under draws: errors of the machine are shared by all, a model's own are its alone.

Shared: host and launches, links, attention, dense products: one accelerator and one engine run them for every model.
An error of a kernel is shared since one measured table (or data sheet) of the accelerator prices it for all models:
where the table is slow or fast, at other clocks or another version of the engine, it is so for all of them; what
differs by the shape of a model's own matrices is left to the model. A model's own: its experts' kernel at their
shape, its routing, its accepted length, what the components leave unexplained, and that part of an absolute time's
error which the draws of the components do not hold (`spend.own_log_sd`).

A user's table of quality scores beside the leaderboard: an axis and a filter. No score ships with the advisor.

The leaderboard: every model at its best placement and K on one machine at one load, ranked, with its doubts.
"""

from __future__ import annotations

import csv
import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.answers.explore.leaderboard import (
    Accepted,
    Missed,
    Placed,
    RankQuestion,
    architecture_of,
    best_placement,
    entrants_of,
    mean_over_tokens,
    throughput,
)
from advisor.catalog.models import model_ids, resolve_model_name
from advisor.physics import laws
from advisor.physics.architecture import parameter_counts
from advisor.physics.bands import BAND_LEVEL, Draws, band, make_draws
from advisor.physics.hardware import Hardware
from advisor.physics.kernel_costs import KernelCosts
from advisor.predict.curve import curve_for
from advisor.predict.spend import Price, drawn_times, no_price, price_of, spend_at, token_time_s
from advisor.prediction import AdvisorError, Array, Prediction, Tier, lowest
from advisor.text import counted


@dataclass(frozen=True)
class DrawnTimes:
    """A placed model's times under the draws of the board, [draws, loads]. [s]"""

    token_s: Array
    tpot_s: Array
    speedup: Array
    """Speedup at its recommended K, at each load. [-]"""


def own_seed(name: str) -> int:
    """A seed of a model's own: the same in every run, another for each model."""
    return zlib.crc32(name.encode())


def board_draws(costs: KernelCosts, name: str) -> Draws:
    """Draws whose errors of the machine are everybody's, and those of the model its own."""
    common, own = make_draws(costs), make_draws(costs, seed=own_seed(name))
    return replace(own, factor={**common.factor, "routed": own.factor["routed"]})


def times_under_draws(placed: Placed) -> DrawnTimes:
    """The placed model's times at its recommended K."""
    setup, name = placed.setup, placed.entrant.name
    grid = placed.curve.batches
    drafts, columns = np.unique(placed.columns, return_inverse=True)
    curve = curve_for(setup, grid, placed.curve.drafts[drafts], draws=board_draws(setup.costs, name))
    own_z = np.random.default_rng(own_seed(name) + 1).standard_normal(len(curve.draws))
    at = np.zeros(grid.size, np.int64)
    at[placed.rows] = columns
    drawn = drawn_times(setup, curve, at, own_z)
    rows = placed.rows
    return DrawnTimes(drawn.token_s[:, rows], drawn.tpot_s[:, rows], curve.draws[:, rows, at[rows]])


def ranks(values: Array) -> NDArray[np.int64]:
    """Rank of each model in each draw, 1 for the least value, from values [draws, models]."""
    order = np.argsort(values, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
    return found


def rank_range(found: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last rank of each model's central 80 %, from ranks [draws, models].

    Both are ranks that did occur.
    """
    edge = (1.0 - BAND_LEVEL) / 2.0
    low, high = np.quantile(found, [edge, 1.0 - edge], axis=0, method="nearest")
    return np.asarray(low, np.int64), np.asarray(high, np.int64)


MAX_SCORES_BYTES = 1_000_000
_MAX_ROWS = 5_000
_MODEL_COLUMNS = ("model", "model_id", "name")


@dataclass(frozen=True)
class Scores:
    """Cells by model and column, as the user gave them."""

    file_name: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    """Cells by model id, or the name as given where no shipped model is called so."""

    def column(self, name: str) -> str:
        """A column by its name, without regard to case. Raises AdvisorError with those there are."""
        for known in self.columns:
            if known.lower() == name.strip().lower():
                return known
        raise AdvisorError(f"{self.file_name} has no column {name[:60]!r}; it has {', '.join(self.columns)[:600]}")

    def numbers(self, name: str) -> dict[str, float]:
        """Numbers of a column by model, empty cells left out. Raises AdvisorError for a cell that is no number."""
        column, found = self.column(name), {}
        for model, row in self.cells.items():
            if text := row[column]:
                try:
                    found[model] = float(text)
                except ValueError as error:
                    raise AdvisorError(
                        f"{self.file_name}: {column[:60]} of {model[:60]} is {text[:40]!r}, not a number; choose a "
                        "column of numbers"
                    ) from error
                if not math.isfinite(found[model]):
                    raise AdvisorError(f"{self.file_name}: {column[:60]} of {model[:60]} is not a finite number")
        return found

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of models in the table that no shipped model has."""
        return tuple(name for name in self.cells if name not in model_ids())

    def where(self, condition: str) -> frozenset[str]:
        """The models whose cell is as `column=value` says, without regard to case.

        Raises AdvisorError for a condition of another form, and for a value that no model has.
        """
        name, equals, value = condition.partition("=")
        if not equals:
            raise AdvisorError(f"{condition[:60]!r} is not column=value, e.g. licence=apache-2.0")
        column, wanted = self.column(name), value.strip().lower()
        found = frozenset(model for model, row in self.cells.items() if row[column].lower() == wanted)
        if not found:
            seen = sorted({row[column] for row in self.cells.values() if row[column]})[:12]
            raise AdvisorError(
                f"{self.file_name}: no model has {column}={value.strip()[:60]}; it holds {', '.join(seen)[:600]}"
            )
        return found


def read_scores(name: str, data: bytes) -> Scores:
    """A CSV with a column of models (id or repository) and others of scores or words.

    Raises AdvisorError for a file that is no such table, too large, or names a model twice.
    """
    if len(data) > MAX_SCORES_BYTES:
        raise AdvisorError(f"{name} has more than {MAX_SCORES_BYTES:,} bytes; a table of scores is smaller")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), skipinitialspace=True, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name} is no CSV ({error}); give columns model,score") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    header = rows[0] if rows else []
    place = next((i for i, cell in enumerate(header) if cell.lower() in _MODEL_COLUMNS), None)
    columns = tuple(cell for i, cell in enumerate(header) if i != place)
    if place is None or not columns or not all(columns) or len(set(columns)) < len(columns):
        raise AdvisorError(
            f"{name}: the first line must name a column model and one column or more of scores, each once"
        )
    if not 2 <= len(rows) <= _MAX_ROWS + 1:
        raise AdvisorError(f"{name} has {max(len(rows) - 1, 0):,} rows of models; 1 to {_MAX_ROWS:,} are read")
    return Scores(name, columns, _cells(name, header, place, rows[1:]))


def _cells(name: str, header: Sequence[str], place: int, rows: Sequence[Sequence[str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise AdvisorError(f"{name}: line {number} has {len(row)} cells, the first line {len(header)}")
        model = _model(row[place])
        if not model:
            raise AdvisorError(f"{name}: line {number} names no model")
        if model in found:
            raise AdvisorError(f"{name}: {model[:60]} stands there twice (line {number}); leave one of them")
        found[model] = {column: cell for i, (column, cell) in enumerate(zip(header, row, strict=True)) if i != place}
    return found


def _model(text: str) -> str:
    """The id of a shipped model by id or repository; other names as they stand."""
    if text in model_ids():
        return text
    named = resolve_model_name(text)
    return text if named is None else named.model_id


def on_front(values: Sequence[float], quality: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether no other model beats each in both value and quality.

    To beat is to be lower in value at a quality at least as high, or the other way round.
    """
    known = [(value, score) for value, score in zip(values, quality, strict=True) if score is not None]
    return tuple(
        score is not None and not any(v <= value and q >= score and (v, q) != (value, score) for v, q in known)
        for value, score in zip(values, quality, strict=True)
    )


@dataclass(frozen=True)
class Standing:
    """One model on the board, with figures as means over the loads by the tokens that each writes."""

    name: str
    rank: int
    rank_low: int
    rank_high: int
    """The ranks of the central 80 % of the draws."""
    p_first: float
    """Share of the draws in which it is the best. [-]"""
    p_limit: float
    """Share of the draws in which it keeps the limit on time per token; 1 without a limit. [-]"""
    tensor_parallel: int
    expert_parallel: int
    copies: int
    gpus: int
    drafter: str
    accepted: Accepted
    acceptance: str
    """Accepted length as a scenario writes it: a curve's id, or chances."""
    acceptance_text: str
    drafts: tuple[int, ...]
    """The recommended K at each load."""
    speedup: Prediction
    """Over plain decoding on the same placement."""
    tpot_s: Prediction
    tokens_per_s_per_gpu: Prediction
    usd_per_million: Prediction | None
    joules_per_token: Prediction | None
    memory_share: float
    """Share filled of what an engine may use of the fullest GPU, at the largest load. [-]"""
    total_params: float
    active_params: float
    tier: Tier
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All models that serve the load, best first, and those that do not, with the reason."""

    question: RankQuestion
    hardware: Hardware
    price: Price | None
    standings: tuple[Standing, ...]
    missed: tuple[Missed, ...]

    @property
    def place(self) -> str:
        """Words for the machine, such as `8 x NVIDIA H200 SXM 141GB`."""
        n_gpus = self.question.scenario.n_gpus
        return f"{n_gpus} x {self.hardware.name}" if n_gpus > 1 else self.hardware.name


@dataclass(frozen=True)
class _Figures:
    """A placed model's figures and the same under each draw, [draws]."""

    placed: Placed
    usd: tuple[float, Array] | None
    rate: tuple[float, Array]
    tpot: tuple[float, Array]
    speedup: tuple[float, Array]
    joules: Prediction | None
    p_limit: float
    tier: Tier
    because: str


def leaderboard(question: RankQuestion, on_progress: Callable[[str, float], object] = lambda *_: None) -> Leaderboard:
    """Rank all models that take part. Raises AdvisorError for an impossible question, and where nothing takes part.

    `on_progress` is called with a model's name and the share done.
    """
    named: list[tuple[str, str | None]] = [(name, None) for name in question.wanted.models()]
    named += question.configs
    placed: list[Placed] = []
    missed: list[Missed] = []
    hardware = None
    for count, (name, config) in enumerate(named):
        on_progress(name, count / len(named))
        why = question.wanted.why_not(name, architecture_of(name, config))
        if why:
            missed.append(Missed(name, why))
            continue
        try:
            entrants = entrants_of(name, config, question)
        except AdvisorError as error:
            missed.append(Missed(name, "cannot be served here", str(error)))
            continue
        hardware = entrants[0].setup.hardware
        found = best_placement(entrants, question)
        if isinstance(found, Placed):
            placed.append(found)
        else:
            missed.append(found)
    on_progress("", 1.0)
    if hardware is None:
        raise AdvisorError(_nobody(missed))
    price = price_of(hardware, question.usd_per_hour)
    if question.by == "cost" and price is None:
        raise no_price(hardware)
    if question.by == "energy" and hardware.board_power_w is None:
        raise AdvisorError(f"the power of {hardware.name} is not known; rank by {' or '.join(_OTHERS)}")
    return Leaderboard(question, hardware, price, _standings(placed, question, price), tuple(missed))


_OTHERS = ("cost", "throughput", "speed")


def _nobody(missed: Sequence[Missed]) -> str:
    """Why nobody takes part, the commonest reason first."""
    reasons = Counter(each.detail or each.reason for each in missed)
    told = "; ".join(f"{reason} ({counted(number, 'model')})" for reason, number in reasons.most_common(3))
    return f"no model takes part: {told or 'none was named'}"


def _standings(placed: Sequence[Placed], question: RankQuestion, price: Price | None) -> tuple[Standing, ...]:
    if not placed:
        return ()
    figures = [_figures(each, question, price) for each in placed]
    middle, drawn = _ranked_by(figures, question)
    order = np.argsort(middle, kind="stable")
    found = ranks(drawn)
    low, high = rank_range(found)
    first = np.mean(found == 1, axis=0)
    return tuple(
        _standing(figures[i], rank + 1, (int(low[i]), int(high[i])), float(first[i])) for rank, i in enumerate(order)
    )


def _ranked_by(figures: Sequence[_Figures], question: RankQuestion) -> tuple[Array, Array]:
    """What is ranked by, lower is better: [models], and under each draw [draws, models]."""
    if question.by == "speed":
        pairs = [each.tpot for each in figures]
    elif question.by == "energy":
        # One error moves the power of all models, a little more where they wait: what moves ranks is time, which the
        # throughput's draws have. The middle power is each model's own.
        pairs = [(_joules(each), _joules(each) * each.rate[0] / each.rate[1]) for each in figures]
    else:
        pairs = [(1.0 / each.rate[0], 1.0 / each.rate[1]) for each in figures]
    return np.array([value for value, _ in pairs]), np.stack([drawn for _, drawn in pairs], axis=1)


def _joules(figures: _Figures) -> float:
    assert figures.joules is not None
    return figures.joules.value


def _figures(placed: Placed, question: RankQuestion, price: Price | None) -> _Figures:
    curve, rows, columns, gpus = placed.curve, placed.rows, placed.columns, placed.gpus
    users = np.array(question.users.batches, float)
    drawn = times_under_draws(placed)
    token_s = token_time_s(curve, placed.setup.placement.gpus)[rows, columns]
    tpot_s = curve.tpot_s[rows, columns]
    rate = float(throughput(question, gpus, users, token_s)), throughput(question, gpus, users, drawn.token_s)
    usd = None
    if price is not None:
        usd = (
            float(laws.usd_per_million_tokens(price.usd_per_hour, rate[0])),
            np.asarray(laws.usd_per_million_tokens(price.usd_per_hour, rate[1])),
        )
    tiers = [Tier(tier) for tier in curve.tier[rows, columns]]
    because = placed.setup.costs.routed.because if placed.setup.architecture.moe is not None else "dense kernels"
    return _Figures(
        placed,
        usd,
        rate,
        _mean_pair(question, users, (token_s, tpot_s), (drawn.token_s, drawn.tpot_s)),
        _mean_pair(question, users, (token_s, curve.speedup[rows, columns]), (drawn.token_s, drawn.speedup)),
        _energy(placed, question, users, token_s),
        _kept(question, drawn),
        lowest(tiers),
        because or "data sheet roofline",
    )


def _energy(placed: Placed, question: RankQuestion, users: Array, token_s: Array) -> Prediction | None:
    """Energy of a token, mean over the tokens of all loads; of the copies that work. None without a known power."""
    own_z = np.random.default_rng(own_seed(placed.entrant.name) + 1).standard_normal(len(placed.curve.draws))
    found = []
    for row, column in zip(placed.rows, placed.columns, strict=True):
        arm = spend_at(placed.setup, placed.curve, int(row), int(column), None, own_z=own_z).chosen
        if arm.joules_per_token is None:
            return None
        found.append(arm.joules_per_token)
    ends = np.array([(each.low, each.value, each.high) for each in found]).T
    low, value, high = (float(end) for end in mean_over_tokens(question, users, token_s, ends))
    lowest_tier = lowest([each.tier for each in found])
    return Prediction(value=value, low=low, high=high, tier=lowest_tier, because=found[0].because)


def _mean_pair(
    question: RankQuestion, users: Array, middle: tuple[Array, Array], drawn: tuple[Array, Array]
) -> tuple[float, Array]:
    """Mean over tokens of a figure: (token_s, values) [loads], and the same [draws, loads]."""
    return float(mean_over_tokens(question, users, *middle)), mean_over_tokens(question, users, *drawn)


def _kept(question: RankQuestion, drawn: DrawnTimes) -> float:
    """Share of the draws in which the limit is kept at every load. [-]"""
    limit_ms = question.scenario.max_tpot_ms
    return 1.0 if limit_ms is None else float(np.mean((drawn.tpot_s * 1e3 <= limit_ms).all(axis=1)))


def _standing(figures: _Figures, rank: int, between: tuple[int, int], p_first: float) -> Standing:
    placed = figures.placed
    setup, entrant, placement = placed.setup, placed.entrant, placed.setup.placement
    counts = parameter_counts(setup.architecture)
    memory, busiest = setup.memory, float(placed.curve.batches.max())
    used = memory.total_bytes(int(busiest), placement.attention_groups)

    def told(pair: tuple[float, Array]) -> Prediction:
        low, high = band(pair[1])
        return Prediction(
            value=pair[0],
            low=min(float(low), pair[0]),
            high=max(float(high), pair[0]),
            tier=figures.tier,
            because=figures.because,
        )

    return Standing(
        name=entrant.name,
        rank=rank,
        rank_low=min(between[0], rank),
        rank_high=max(between[1], rank),
        p_first=p_first,
        p_limit=figures.p_limit,
        tensor_parallel=placement.tensor_parallel,
        expert_parallel=placement.expert_parallel,
        copies=placed.copies,
        gpus=placed.gpus,
        drafter=setup.drafter.id,
        accepted=entrant.accepted,
        acceptance=entrant.setup.scenario.acceptance,
        acceptance_text=entrant.acceptance_text,
        drafts=placed.drafts,
        speedup=told(figures.speedup),
        tpot_s=told(figures.tpot),
        tokens_per_s_per_gpu=told(figures.rate),
        usd_per_million=None if figures.usd is None else told(figures.usd),
        joules_per_token=figures.joules,
        memory_share=used / memory.usable_bytes,
        total_params=float(counts.total),
        active_params=float(counts.active_all),
        tier=figures.tier,
        warnings=setup.warnings,
    )
