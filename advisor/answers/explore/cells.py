"""Cells of a grid: predictions of each combination, batch and K as rows; a scenario over two of its
settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.answers.best_k import IntArray, recommended_drafts, within_limit
from advisor.answers.by_batch import served_drafts
from advisor.answers.schedule import KValues, values_of
from advisor.catalog.hardware import (
    drafter_name,
    hardware_called,
    measured_chips,
    model_name,
    own_drafter,
)
from advisor.catalog.models import model_ids
from advisor.physics import laws
from advisor.physics.acceptance import acceptance_curves
from advisor.physics.bands import band
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids, load_hardware, of_data_centre
from advisor.physics.memory import cache_bytes_per_gpu
from advisor.physics.notes import Note
from advisor.predict.curve import (
    Curve,
    Odds,
    Rounds,
    batches_with,
    curve_for,
    draft_odds,
    graph_edges,
    recommended,
    rounds_for,
)
from advisor.predict.load import kernel_notes, load_setup, priced_setup
from advisor.predict.prefill import has_lengths
from advisor.predict.scenario import Scenario, build_scenario, nearest_acceptance
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, MAX_BATCH, MAX_CONTEXT, POOL_FIELDS
from advisor.predict.setup import Setup
from advisor.predict.spend import drawn_times, price_of
from advisor.prediction import AdvisorError, Array

if TYPE_CHECKING:
    import pandas as pd


SETTINGS = tuple(name for name, row in FIELDS.items() if row.flag and not row.is_private)
"""Columns that name the scenario."""
_KINDS: Mapping[type, str] = {int: "Int64", float: "Float64"}
_SEED = 0
"""Of the error that absolute times share: the same question has the same band. [-]"""
_MAX_INT = 2**63 - 1
"""What a column of whole numbers holds at most. [-]"""
COLUMNS = {
    **{name: _KINDS.get(FIELDS[name].kind, "string") for name in SETTINGS},
    "batch_size": "int32",
    "n_draft": "int16",
    "speedup": "float32",
    "speedup_low": "float32",
    "speedup_high": "float32",
    "p_gain": "float32",
    "expected_loss": "float32",
    "recommended": "bool",
    "tpot_ms": "float32",
    "tpot_low_ms": "float32",
    "tpot_high_ms": "float32",
    "tokens_per_s_per_gpu": "float32",
    "tokens_per_s_per_gpu_low": "float32",
    "tokens_per_s_per_gpu_high": "float32",
    "accepted_length": "float32",
    "plain_step_ms": "float32",
    "round_ms": "float32",
    "tier": "string",
    "fits": "bool",
    "reason": "string",
}
"""Of a row: the scenario's settings, what is predicted at one K, and why nothing is."""
_ANSWERED = frozenset(COLUMNS) - set(SETTINGS) | {"batch_size"}


def sweep_rows(combinations: Iterable[Mapping[str, Any]], batches: Sequence[int]) -> pd.DataFrame:
    """Predictions of every combination at every batch and K, `COLUMNS`.

    combinations : settings of a scenario, the batch apart; n_gpus is what the placement needs where
        it is left out.
    batches : sequences that decode together. [-]

    One row for each K from 0 to the setting's k_max; one row with a `reason` and no prediction
    where a combination cannot be. Of each batch one row is `recommended`: the K that `advise`
    serves there. Times in milliseconds.
    """
    # only here: the context map stands in this file, and commands that draw it need no frames
    import pandas as pd

    answered = _answers([dict(settings) for settings in combinations], np.array(batches))
    rows = np.repeat(np.arange(len(answered)), [answers["n_draft"].size for _, answers in answered])
    columns: dict[str, Any] = {}
    # One by one: a frame that changes its kinds takes as long as half a curve.
    for name, kind in COLUMNS.items():
        if name in _ANSWERED:
            values = np.concatenate([answers[name] for _, answers in answered] or [np.zeros(0)])
            columns[name] = pd.array(values, kind) if kind == "string" else values.astype(kind)
        else:
            cells = [_as_its_kind(name, settings.get(name)) for settings, _ in answered]
            columns[name] = pd.array(np.array(cells, object), kind).take(rows)
    return pd.DataFrame(columns, copy=False)


def with_prices(best: pd.DataFrame) -> pd.DataFrame:
    """The rows with `usd` per million output tokens, NaN unless accelerators differ and each has a
    price."""
    prices = {}
    for name in best["hardware_id"].unique():
        price = price_of(load_hardware(name)) if name in hardware_ids() else None
        prices[name] = np.nan if price is None else price.usd_per_hour
    known = len(prices) > 1 and not np.isnan(list(prices.values())).any()
    per_hour = best["hardware_id"].map(prices) if known else np.nan
    return best.assign(usd=laws.usd_per_million_tokens(per_hour, best["tokens_per_s_per_gpu"]))


def kernel_notes_of(combinations: Iterable[Mapping[str, Any]], batch: int) -> dict[Note, int]:
    """Notes on kernels that are not measured, each with the number of combinations it concerns."""
    counts: Counter[Note] = Counter()
    for settings in combinations:
        with suppress(AdvisorError):
            counts.update(dict.fromkeys(kernel_notes(_loaded(settings, batch)[1]), 1))
    return counts


def _loaded(settings: Mapping[str, Any], batch: int) -> tuple[Scenario, Setup]:
    """A combination at one batch, its setup without the limit. Raises AdvisorError for one that
    cannot be."""
    ranks = (
        _as_its_kind(name, settings.get(name)) or 1
        for name in ("tensor_parallel", "expert_parallel")
    )
    scenario = build_scenario(**{"n_gpus": max(1, *ranks), **settings, "batch_size": batch})
    return scenario, priced_setup(scenario.model_copy(update={"max_tpot_ms": None}))


_Answers = tuple[Mapping[str, Any], dict[str, np.ndarray]]
"""The settings of one combination, and its columns [nB x nK]: batch by batch, K changing first."""


def _answers(combinations: Sequence[dict[str, Any]], batches: np.ndarray) -> list[_Answers]:
    """The answers of every combination; those that differ in context, K, accepted length and limit
    alone share their rounds."""
    answers_by_place: dict[int, _Answers] = {}
    alike: dict[Any, list[tuple[int, Setup]]] = {}
    for place, settings in enumerate(combinations):
        try:
            scenario, setup = _loaded(settings, int(batches[0]))
        except AdvisorError as error:
            nothing: dict[str, Any] = {
                name: np.nan for name, kind in COLUMNS.items() if kind == "float32"
            }
            nothing |= {
                "n_draft": -1,
                "recommended": False,
                "tier": "",
                "fits": False,
                "reason": str(error),
            }
            answers_by_place[place] = settings, _columns(batches, 1, nothing)
            continue
        counted = setup.placement.balance is not None
        alone = counted or has_lengths(setup) or setup.sweep is not None
        varied = {"acceptance"} if alone else {"acceptance", "context_tokens", "k_max"}
        same = tuple(each for name, each in setup.scenario if name not in varied)
        key = same, id(setup.costs), id(setup.draft_costs)
        alike.setdefault(key, []).append((place, replace(setup, scenario=scenario)))
    for together in alike.values():
        answers_by_place |= _of_one_server(together, batches)
    return [answers_by_place[place] for place in range(len(combinations))]


_Placed = tuple[int, Setup]
"""A combination's place in the sweep, and its setup."""


def _of_one_server(together: Sequence[_Placed], batches: np.ndarray) -> dict[int, _Answers]:
    """The answers of setups that differ in context, K, accepted length and limit alone, by
    place."""
    setup = max((each for _, each in together), key=lambda each: each.longest_step)
    contexts = np.unique([each.scenario.context_tokens for _, each in together])
    # The K that is served follows from all batches of a schedule. Those asked about come first.
    more = np.setdiff1d(batches_with(*graph_edges(setup)), batches)
    grid = np.concatenate([batches, more])
    if len(contexts) > 1:
        setup = replace(setup, contexts=np.repeat(contexts, len(grid)).astype(float))
    rounds = rounds_for(setup, np.tile(grid, len(contexts)))
    order = np.argsort(grid)
    first = slice(0, len(batches))
    answers: dict[int, _Answers] = {}
    # One context after another: what is computed of one stays near the processor.
    for index, context in enumerate(contexts.tolist()):
        rows = slice(index * len(grid), (index + 1) * len(grid))
        to_length: dict[int, Rounds] = {}
        by_lengths: dict[tuple[bytes, ...], list[_Placed]] = {}
        for place, each in together:
            if each.scenario.context_tokens == context:
                lengths = each.acceptance.low, each.acceptance.accepted_length, each.acceptance.high
                key = tuple(map(np.ndarray.tobytes, lengths))
                by_lengths.setdefault(key, []).append((place, each))
        for placed in by_lengths.values():
            setup = placed[0][1]
            longest = setup.longest_step
            if longest not in to_length:
                to_length[longest] = rounds.at(rows, longest)
            curve = to_length[longest].curve(setup.acceptance)
            odds = draft_odds(curve.draws)
            scheduled = order[
                np.searchsorted(grid, batches_with(*graph_edges(setup)), sorter=order)
            ]
            values = values_of(curve, odds).at(scheduled)
            answers.update(_of_one_curve(placed, curve.at(first), odds.at(first), values))
    return answers


def _of_one_curve(
    placed: Sequence[_Placed], curve: Curve, odds: Odds, values: KValues
) -> Iterator[tuple[int, _Answers]]:
    """The answers of setups that differ in their limit alone, by place. `values`: on the batches of
    a schedule."""
    setup = placed[0][1]
    shape = len(curve.batches), len(curve.drafts)
    batches = curve.batches.astype(np.int64)
    predicted = _predicted(setup, curve, odds)
    predicted["fits"] = (batches <= setup.memory.largest_batch)[:, None]
    # No K is slower at any batch of the schedule, the drafter kept or not.
    slowest_ms = float(values.tpot_s.max() / values.idle.min()) * 1e3
    is_covered = batches.max() <= values.batches[-1]

    @cache
    def served_within(limit_ms: float | None) -> IntArray:
        limits = {"max_tpot_ms": limit_ms}
        limited = replace(setup, scenario=setup.scenario.model_copy(update=limits))
        within = within_limit(limited, curve)
        alone = (
            recommended(odds.loss, odds.noise)
            if within.all()
            else recommended_drafts(limited, curve)[0]
        )
        return served_drafts(limited, batches, curve.drafts[alone], values)

    for place, each in placed:
        limit_ms = each.scenario.max_tpot_ms
        holds = is_covered and limit_ms is not None and limit_ms > 1.001 * slowest_ms
        served = served_within(None if holds else limit_ms)
        predicted["recommended"] = curve.drafts == served[:, None]
        settings = each.scenario.model_dump(include=set(SETTINGS))
        yield place, (settings, _columns(batches, shape[1], predicted))


def _columns(
    batches: np.ndarray, n_drafts: int, predicted: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The answers of one combination, [nB x nK] each: batch by batch, K changing first."""
    shape = len(batches), n_drafts
    answers = {name: _shaped(value, shape).ravel() for name, value in predicted.items()}
    return answers | {"batch_size": np.repeat(batches, n_drafts)}


def _shaped(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The value at every batch and K. Most have that shape, and numpy takes its time to see it."""
    return value if np.shape(value) == shape else np.broadcast_to(value, shape)


def _as_its_kind(name: str, value: Any) -> Any:
    """The value as its column holds it. Nothing where it is none of the kind, which the row's
    reason says."""
    if value is None:
        return None
    try:
        converted = FIELDS[name].kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(converted, int) and abs(converted) > _MAX_INT else converted


def _predicted(setup: Setup, curve: Curve, odds: Odds) -> dict[str, Any]:
    """The answers of one curve whatever the limit and the memory, arrays that broadcast to [nB,
    nK]."""
    own_z = np.random.default_rng(_SEED).standard_normal(len(curve.draws))
    # What absolute times err by beyond their components is in their bands.
    drawn = drawn_times(setup, curve, None, own_z)
    rate = laws.tokens_per_s_per_gpu(curve.batches[:, None], drawn.token_s, setup.placement.gpus)
    tpot_columns = _banded("tpot{}_ms", curve.tpot_s * 1e3, drawn.tpot_s * 1e3)
    rate_columns = _banded("tokens_per_s_per_gpu{}", curve.tokens_per_s_per_gpu, np.asarray(rate))
    return {
        "n_draft": curve.drafts,
        "speedup": curve.speedup,
        "speedup_low": curve.low,
        "speedup_high": curve.high,
        "p_gain": curve.p_gain,
        "expected_loss": odds.loss,
        **tpot_columns,
        **rate_columns,
        "accepted_length": curve.accepted_length,
        "plain_step_ms": curve.plain_step_s[:, None] * 1e3,
        "round_ms": curve.round_s * 1e3,
        "tier": curve.tier.astype(str),
        "reason": "",
    }


def _banded(name: str, central: Array, drawn: Array) -> dict[str, Array]:
    """Columns of a figure and the ends of its band; the centre is no quantile of the draws, as in
    the curve's own."""
    low, high = band(drawn)
    ends = {"_low": np.minimum(low, central), "_high": np.maximum(high, central)}
    return {name.format(""): central, **{name.format(end): values for end, values in ends.items()}}


DEFAULT_CONTEXTS = (1024, 4096, 16384, 32768, 65536, 131072)
DEFAULT_MAP_BATCHES = (1, 4, 16, 64, 256)
MAX_CELLS = 4096
"""Batches times contexts of one map. [-]"""


@dataclass(frozen=True)
class ContextMap:
    """A scenario's decoding over contexts [nC] and batches [nB], arrays [nC, nB]. Prefill is not
    charged."""

    setups: tuple[Setup, ...]
    """One for each context."""
    contexts: NDArray[np.int64]
    batches: NDArray[np.int64]
    n_draft: NDArray[np.int64]
    """The recommended K, 0 included, under the scenario's limit on time per output token."""
    speedup: Array
    """Speedup at the recommended K. [-]"""
    low: Array
    high: Array
    p_gain: Array
    """Chance that `drafting_k` gains. [-]"""
    drafting_k: NDArray[np.int64]
    """The recommended K where that is above 0, else the one that would be without K = 0 among them,
    under the same limit; 0 where the scenario drafts nothing."""
    drafting_speedup: Array
    """Speedup at `drafting_k`, which says whether speculation itself gains."""
    tpot_s: Array
    attention_share: Array
    """Share of a plain step: cache and products with it. [-]"""
    verify_ratio: Array
    """Verification over plain step at `drafting_k`. [-]"""
    draft_share: Array
    """Share of a round at `drafting_k` that drafting takes, host included. [-]"""
    fits: NDArray[np.bool_]
    largest_batch: NDArray[np.int64]
    """Largest batch that fits in memory, [nC]."""
    cache_bytes: Array
    """Cache of one sequence per GPU, target and drafter, [nC]. [B]"""
    drafter_cache_bytes: Array
    """The drafter's part of it, [nC]. [B]"""
    tier: NDArray[np.object_]

    def at(self, context: int, batch: int) -> tuple[int, int]:
        """Indices of one context and batch. Raises KeyError for one that is not on the map."""
        row = np.flatnonzero(self.contexts == context)
        column = np.flatnonzero(self.batches == batch)
        if not (row.size and column.size):
            raise KeyError((context, batch))
        return int(row[0]), int(column[0])


def context_map(
    scenario: Scenario,
    contexts: Sequence[int] = DEFAULT_CONTEXTS,
    batches: Sequence[int] = DEFAULT_MAP_BATCHES,
) -> ContextMap:
    """A scenario over contexts and batches, its own among them. Raises AdvisorError for impossible
    ones."""
    at = np.unique([*contexts, scenario.context_tokens]).astype(np.int64)
    sizes = np.unique([*batches, scenario.batch_size]).astype(np.int64)
    if at[0] < 1 or at[-1] > MAX_CONTEXT:
        raise AdvisorError(
            f"contexts must lie in 1..{MAX_CONTEXT:,} tokens, e.g. 1024,16384,131072"
        )
    if sizes[0] < 1 or sizes[-1] > MAX_BATCH:
        raise AdvisorError(f"batches must lie in 1..{MAX_BATCH:,}, e.g. 1,16,64")
    if at.size * sizes.size > MAX_CELLS:
        raise AdvisorError(
            f"{at.size} contexts x {sizes.size} batches are too many; at most {MAX_CELLS:,} cells"
        )
    plain = scenario.model_copy(update={"input_tokens": None, "output_tokens": None})
    setups = tuple(
        load_setup(plain.model_copy(update={"context_tokens": int(each)})) for each in at
    )
    curves = [curve_for(setup, sizes) for setup in setups]
    rows = [_row(setup, curve) for setup, curve in zip(setups, curves, strict=True)]
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    largest = np.array([setup.memory.largest_batch for setup in setups])
    return ContextMap(
        setups=setups,
        contexts=at,
        batches=sizes,
        fits=sizes[None, :] <= largest[:, None],
        largest_batch=largest,
        cache_bytes=np.array([setup.memory.kv_bytes_per_sequence for setup in setups]),
        drafter_cache_bytes=np.array([_drafter_cache(setup) for setup in setups]),
        **stacked,
    )


def _row(setup: Setup, curve: Curve) -> dict[str, NDArray[np.generic]]:
    """The figures of one context by batch, [nB] each."""
    rows = np.arange(curve.batches.size)
    within = within_limit(setup, curve)
    alone, odds = recommended_drafts(setup, curve)
    served = served_drafts(setup, curve.batches.astype(np.int64), curve.drafts[alone])
    best = np.searchsorted(curve.drafts, served)
    # What speculation does where none is recommended: the K best without K = 0 among them.
    drafting = np.zeros_like(best)
    if curve.drafts.size > 1:
        without_zero = recommended(odds.loss[:, 1:], odds.noise[:, 1:], within[:, 1:]) + 1
        drafting = np.where(best > 0, best, without_zero)
    at_best = rows, best
    at_drafting = rows, drafting
    drafting_s = sum(curve.round_components[name][at_drafting] for name in ("draft", "draft_host"))
    draft_share = drafting_s / curve.round_s[at_drafting]
    attention_share = curve.plain_components["attention"] / curve.plain_step_s
    return {
        "n_draft": curve.drafts[best],
        "speedup": curve.speedup[at_best],
        "low": curve.low[at_best],
        "high": curve.high[at_best],
        "p_gain": curve.p_gain[at_drafting],
        "drafting_k": curve.drafts[drafting],
        "drafting_speedup": curve.speedup[at_drafting],
        "tpot_s": curve.tpot_s[at_best],
        "attention_share": attention_share,
        "verify_ratio": curve.verify_ratio[at_drafting],
        "draft_share": np.asarray(draft_share),
        "tier": curve.tier[at_best],
    }


def _drafter_cache(setup: Setup) -> float:
    """Cache of one sequence that the drafter keeps on one GPU. [B]"""
    if setup.draft_architecture is None:
        return 0.0
    tokens = setup.scenario.context_tokens
    size = setup.kv_bytes_per_element
    return cache_bytes_per_gpu(
        setup.draft_architecture, setup.placement.tensor_parallel, tokens, size
    )


BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Choice of this project: batches that a map has. [-]"""
_CONTEXTS = (512, 2048, 8192, 32768, 131072)
_GPUS = (1, 2, 4, 8)
_FORMATS = ("bf16", "fp8", "nvfp4", "int4")
AXES = ("Batch", "Context", "K", "Accelerator", "GPUs", "Model", "Drafter", "Weight format")
FIGURES = ("speedup", "n_draft", "tpot_ms", "tokens_per_s_per_gpu")
"""Columns of a sweep that a cell has."""
_OF_EVERY_CURVE = ("batch_size", "n_draft")
"""What one curve runs over anyway."""


@dataclass(frozen=True)
class Explored:
    """Figures of the recommended K over two settings, [n down, n across], NaN where it cannot
    be."""

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: Mapping[str, Array]
    """By FIGURES."""

    @property
    def n_answers(self) -> int:
        """Cells that have an answer. [-]"""
        return int(np.isfinite(self.values["speedup"]).sum())


def explore(scenario: Scenario, across: str, down: str) -> Explored:
    """Answers over two of AXES, all else as the scenario says. Raises AdvisorError for one setting
    on both."""
    if across == down:
        raise AdvisorError(f"{across} is on both axes; choose another for one of them")
    base = _base(scenario, {across, down})
    batches = BATCHES if "Batch" in (across, down) else (scenario.batch_size,)

    @cache
    def curve(settings: tuple[tuple[str, Any], ...]) -> dict[tuple[int, int | None], Array]:
        """FIGURES of what fits, by batch and K, None being the recommended one."""
        rows = sweep_rows([base | dict(settings)], batches)
        rows = rows[rows["fits"]]
        figures = rows[list(FIGURES)].to_numpy(float)
        best = rows[rows["recommended"]]
        by_k = dict(
            zip(zip(rows["batch_size"], rows["n_draft"], strict=True), figures, strict=True)
        )
        return by_k | {
            (batch, None): by_k[batch, k]
            for batch, k in zip(best["batch_size"], best["n_draft"], strict=True)
        }

    def cell(settings: Mapping[str, Any]) -> Array:
        others = tuple(
            (name, value) for name, value in settings.items() if name not in _OF_EVERY_CURVE
        )
        at = settings.get("batch_size", scenario.batch_size), settings.get("n_draft")
        return curve(others).get(at, np.full(len(FIGURES), np.nan))

    rows = _stops(scenario, down)
    columns = _stops(scenario, across)
    values = np.moveaxis(
        np.array([[cell(row | column) for column in columns.values()] for row in rows.values()]),
        2,
        0,
    )
    return Explored(
        across, down, tuple(columns), tuple(rows), dict(zip(FIGURES, values, strict=True))
    )


def _base(scenario: Scenario, axes: set[str]) -> dict[str, Any]:
    """The scenario's settings without its batch, and without what belongs to a setting that an axis
    changes."""
    settings = {
        name: value
        for name, value in scenario.model_dump().items()
        if value is not None and name != "batch_size"
    }
    if axes <= {"Batch", "K", "Context"}:
        return settings
    surviving_document = {"Model": "hardware_json", "Accelerator": "model_config_json"}
    dropped = {
        name
        for name in DOCUMENTS
        if any(axis in surviving_document and surviving_document[axis] != name for axis in axes)
    }
    dropped |= {name for name, row in FIELDS.items() if row.is_private and name not in DOCUMENTS}
    dropped |= set(POOL_FIELDS)
    return {name: value for name, value in settings.items() if name not in dropped}


def _stops(scenario: Scenario, axis: str) -> dict[str, dict[str, Any]]:
    """What an axis changes at each of its stops, by the stop's name."""
    if axis == "Batch":
        return {f"{batch:,}": {"batch_size": batch} for batch in BATCHES}
    if axis == "Context":
        least = max(scenario.input_tokens or 1, (scenario.shared_prefix_tokens or 0) + 1)
        return {
            f"{context:,}": {"context_tokens": context}
            for context in sorted({*_CONTEXTS, scenario.context_tokens})
            if context >= least
        }
    if axis == "K":
        return {str(k): {"n_draft": k} for k in range(1, scenario.k_max + 1)}
    if axis == "GPUs":
        return {
            str(n): {"n_gpus": n, "tensor_parallel": n, "expert_parallel": 1}
            for n in sorted({*_GPUS, scenario.n_gpus})
        }
    if axis == "Accelerator":
        names = [
            scenario.hardware_id,
            *(name for name in measured_chips() if of_data_centre(load_hardware(name))),
        ]
        names = [name for name in dict.fromkeys(names) if name in hardware_ids()]
        return {hardware_called(name, None): {"hardware_id": name} for name in names}
    if axis == "Model":
        measured = dict.fromkeys(
            [scenario.model_id, *(curve.model_id for curve in acceptance_curves())]
        )
        return {
            model_name(name): _of_model(scenario, name) for name in measured if name in model_ids()
        }
    if axis == "Drafter":
        return {
            drafter_name(name): _drafted(scenario, scenario.model_id, name)
            for name in drafter_ids()
            if name != "none"
        }
    return {dtype: {"weight_dtype": dtype, "expert_dtype": dtype} for dtype in _FORMATS}


def _of_model(scenario: Scenario, model_id: str) -> dict[str, Any]:
    """A model with its own draft module, where it has one, else the scenario's drafter or
    EAGLE-3."""
    drafter = own_drafter(model_id) or (
        "eagle3" if scenario.drafter_id == "mtp" else scenario.drafter_id
    )
    return {"model_id": model_id} | _drafted(scenario, model_id, drafter)


def _drafted(scenario: Scenario, model_id: str, drafter_id: str) -> dict[str, Any]:
    """A drafter with the accepted length nearest to it; the scenario's own pair and a user's own
    number stay."""
    acceptance = scenario.acceptance
    if (model_id, drafter_id) != (scenario.model_id, scenario.drafter_id):
        acceptance = nearest_acceptance(model_id, drafter_id, acceptance)
    return {"drafter_id": drafter_id, "acceptance": acceptance}
