"""The answer as the browser keeps it: curves, ranges and tables of every K, so that a slider asks
nobody.

The browser looks cases up and interpolates numbers (show/answer_tables.py); it decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.answers.advice import Advice
from advisor.answers.best_k import last_batch
from advisor.answers.by_length import at_length, length_now
from advisor.answers.engines.config import EngineExport, one_option_a_line
from advisor.answers.experts_loaded import Loading
from advisor.answers.outcome import FLAGS, Outcome, outcome_of
from advisor.answers.own_gap import own_schedule
from advisor.answers.texts import on_texts
from advisor.catalog.engines import engine_of
from advisor.catalog.hardware import drafter_name, hardware_called, hardware_name, model_name
from advisor.measured.published import published_ids, published_runs
from advisor.physics import laws
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.components import GROUPS
from advisor.physics.draft import drafter_ids
from advisor.physics.memory import GIB
from advisor.predict.curve import curve_for, curve_rows
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.predict.spend import price_of
from advisor.prediction import AdvisorError, Array
from advisor.show.answer_tables import answer_tables, last_and_k
from advisor.show.phrases.answer import BOOK, PHRASES, RUNS, TEXT_NAMES, TEXT_ORIGIN, ZONE_NAMES
from advisor.show.phrases.notes import note_text, note_texts
from advisor.show.phrases.schedule import COMMAND
from advisor.show.words.answer import TO_FILL, engine_setup
from advisor.show.words.compare import differing, setting_text
from advisor.text import counted, csv_text, printable

if TYPE_CHECKING:  # an answer without runs of the user's own needs no pandas
    import pandas as pd

MOST_PINS = 4
"""Setups beside an answer at most; so many colors are told apart."""
_GROWS = 1e-3
"""Growth of the loaded experts below which there is nothing to hide. [-]"""


def live_answer(
    advice: Advice,
    own: pd.DataFrame | None = None,
    usd_per_hour: float | None = None,
    pins: Sequence[Advice] = (),
) -> dict[str, Any]:
    """Everything that the live answer draws, as plain values for JSON.

    own : the user's measured speedups: batch_size, n_draft, speedup, drafter, source, decides.
    usd_per_hour : the user's price of this GPU. None: the profile's. [USD/h]
    pins : answers of the setups that stand beside this one.
    """
    curve = advice.curve
    setup = advice.setup
    scenario = advice.scenario
    schedule = own_schedule(own)
    own_rows = () if own is None else own.astype({"n_draft": float}).itertuples()
    points = _points(own_rows, "")
    published = published_runs(*published_ids(scenario), setup.placement.gpus)
    own_runs = [(batch, k, speedup) for batch, k, speedup, *_ in points]
    outcome = outcome_of(advice, own_runs, follows_own=bool(schedule))
    loading = Loading.of(setup, curve)
    tables = answer_tables(advice, loading, schedule)
    axes = {
        "key": scenario.hash,
        "batch": scenario.batch_size,
        "k": advice.curve_k,
        "name": setup_name(scenario),
    }
    curves = _curves(advice, usd_per_hour) | {
        "low": rounded(curve.low),
        "high": rounded(curve.high),
    }
    experts = {
        "loaded": rounded(loading.share) if setup.architecture.moe else None,
        "growth": rounded(loading.growth),
        "loading_time": rounded(loading.time_share),
        "twin": dense_twin(advice),
    }
    limits = {
        "needed_gib": [setup.memory.total_bytes(batch) / GIB for batch in (0, 1)],
        "limit_ms": scenario.max_tpot_ms,
    }
    remarks = BOOK.says(("adaptive",), outcome.facts)
    fits = setup.memory.largest_batch or curve.batches[-1]
    rows = [row for row in curve_rows(curve) if row["batch_size"] <= fits]
    measurements = {
        "published": _points(published, scenario.drafter_id),
        "own": points,
        "texts": _texts(advice),
        "command": launch(advice, outcome),
        "wider": _wider(advice, outcome),
        "warnings": [*map(printable, note_texts(advice.notes)), *remarks],
        "csv": csv_text(_CSV, rows),
        "pins": [_pinned(pin, scenario, usd_per_hour) for pin in pins],
    }
    phrases = {"phrases": PAGE_PHRASES, "flags": FLAGS, "zone_names": ZONE_NAMES}
    book = {"outcome": outcome.facts} | phrases
    return axes | curves | experts | tables | limits | measurements | book


_CSV = (
    *("batch_size", "n_draft", "speedup", "speedup_low", "speedup_high"),
    *("tpot_ms", "tokens_per_s_per_gpu"),
)


def _curves(advice: Advice, usd_per_hour: float | None) -> dict[str, Any]:
    """Figures by batch and K, [nB][nK], their axes, and the price of a GPU. [USD/h]"""
    curve = advice.curve
    price = price_of(advice.setup.hardware, usd_per_hour)
    return {
        "batches": curve.batches.astype(int).tolist(),
        "last": last_batch(advice.setup, curve),
        "largest": advice.setup.memory.largest_batch,
        "drafts": curve.drafts.tolist(),
        "speedup": rounded(curve.speedup),
        "tpot_ms": rounded(curve.tpot_s * 1e3),
        "rate": rounded(curve.tokens_per_s_per_gpu),
        "usd_per_hour": None if price is None else price.usd_per_hour,
        "price": "" if price is None else price.short,
    }


def _pinned(pin: Advice, base: Scenario, usd_per_hour: float | None) -> dict[str, Any]:
    """A setup beside that of `base`: its name, figures and the K that it serves at each batch."""
    is_same_gpu = pin.scenario.hardware_id == base.hardware_id
    served = at_length(pin, length_now(pin)).served
    pin.at_lengths.clear()
    return _curves(pin, usd_per_hour if is_same_gpu else None) | {
        "name": difference_name(base, pin.scenario),
        "served": last_and_k(served),
    }


_CALLED: Mapping[str, Callable[[Any], str]] = {
    "model_id": model_name,
    "hardware_id": hardware_called,
    "n_gpus": lambda value: counted(value, "GPU"),
    "engine": lambda value: engine_label(value),
    "drafter_id": drafter_name,
    "acceptance": "accepted {}".format,
}
"""Settings that go by other words in the name of a setup than elsewhere."""
_IN_A_NAME = ("model_id", "hardware_id", "engine", "drafter_id", "context_tokens")


def setup_name(scenario: Scenario, fields: Sequence[str] = _IN_A_NAME) -> str:
    """A setup by some of its settings."""
    pieces = (
        _CALLED[field](getattr(scenario, field))
        if field in _CALLED
        else FIELDS[field].in_a_name(setting_text(scenario, field))
        for field in fields
    )
    return " · ".join(map(printable, pieces))


def difference_name(base: Scenario, other: Scenario) -> str:
    """A setup by what differs from another, whatever the batch. Its whole name where nothing
    does."""
    fields = dict.fromkeys(differing((base, other)))
    follows = {"batch_size"}
    if other.n_gpus == other.tensor_parallel and "n_gpus" in fields:
        follows.add("tensor_parallel")
    if fields.keys() & {"model_id", "drafter_id"} and acceptance_curve(other.acceptance):
        follows.add("acceptance")
    return setup_name(other, [name for name in fields if name not in follows] or _IN_A_NAME)


def rounded(values: Array) -> Any:
    """Numbers with seven significant digits, nested as they lie.

    With fewer a figure of three would be rounded twice, and differ from that of a report.
    """
    return [rounded(row) for row in values] if values.ndim else float(f"{float(values):.7g}")


def dense_twin(advice: Advice) -> list[float] | None:
    """Speedup at the shown K of a dense twin, [nB].

    The same layers with the active experts alone, loaded by every step. None for a dense model,
    where nothing is drafted, and where such a layer cannot be placed.
    """
    setup = advice.setup
    moe = advice.setup.architecture.moe
    k = advice.curve_k
    if moe is None or k == 0:
        return None
    every = setup.architecture.model_copy(
        update={"moe": moe.model_copy(update={"n_experts": moe.n_active})}
    )
    twin = replace(setup, architecture=every, routing=None, sweep=None)
    try:
        curve = curve_for(twin, advice.curve.batches, [0, k], central_only=True)
    except (AdvisorError, ValueError):
        return None
    return rounded(curve.speedup[:, 1])


def _points(speedups: Iterable[Any], drafter_id: str) -> list[list[Any]]:
    """Measured speedups as [batch, K or None, speedup, whether of this drafter, source, whether of
    random tokens, color, name of its group]; those without a drafter's id are the user's."""
    runs = [_run(row, drafter_id) for row in speedups]
    of_group = Counter(group for *_, group in runs)
    return [[*run, f"{group} ({of_group[group]})"] for *run, group in runs]


def _run(row: Any, drafter_id: str) -> list[Any]:
    is_same = row.drafter == drafter_id
    is_random = bool(getattr(row, "random_tokens", False))
    facts = {
        "own": not drafter_id,
        "random": is_random,
        "drafter": _drafter_called(str(row.drafter)),
    }
    color = "own" if not drafter_id else "published" if is_same else "other"
    k = None if math.isnan(row.n_draft) else int(row.n_draft)
    source = printable(str(row.source))
    run = [float(row.batch_size), k, float(row.speedup), color == "published", source, is_random]
    return [*run, color, RUNS.say("group", facts)]


def _texts(advice: Advice) -> list[dict[str, Any]]:
    """Kinds of text to choose from: name, what the scenario then says, where the length is from,
    whether it is carried and whether it is what the scenario says now."""
    kinds = [
        {
            "name": TEXT_NAMES["random" if each.origin == "published" else each.task],
            "title": TEXT_ORIGIN.say("origin", vars(each)),
            "carried": each.origin == "carried",
            "chosen": each.is_chosen,
            "acceptance": each.acceptance,
            "task": each.task,
        }
        for each in on_texts(advice)
    ]
    return [] if len(kinds) == 1 and kinds[0]["chosen"] else kinds


def _drafter_called(drafter_id: str) -> str:
    return drafter_name(drafter_id) if drafter_id in drafter_ids() else "another drafter"


def launch(
    advice: Advice,
    outcome: Outcome,
    served_model: str | None = None,
    draft_model: str | None = None,
) -> dict[str, str]:
    """Text to paste into a shell, notes and engine: how this answer is served, or why no command is
    given.

    A file that the engine loads is written by the same paste.

    served_model, draft_model : as of `engine_setup`.
    """
    engine = engine_label(advice.scenario.engine)
    facts = outcome.facts
    written = {"engine": engine, "text": "", "title": BOOK.say("launch_title", facts)}
    if outcome.batch > outcome.largest:
        note = BOOK.say("launch", facts)
        return written | {"note": note, "title": BOOK.say("headline", facts)}
    engine_launch = engine_setup(advice, advice.scenario.engine, served_model, draft_model)
    command = _command_facts(advice, outcome, engine_launch) | {"engine_name": engine}
    if engine_launch.problem:
        return written | {"note": COMMAND.say("problem", command)}
    text = one_option_a_line(engine_launch.launch_line)
    if engine_launch.file_name:
        text = f"{engine_launch.file_command}\n{text}"
    to_fill = (note for note in engine_launch.notes if note.kind in TO_FILL)
    notes = [
        *note_texts(to_fill, "sentence"),
        *(note_text(note, "short") for note in advice.notes if note.kind == "split_blocks"),
        *COMMAND.says(("fixed", "requests"), command),
    ]
    note = " ".join(filter(None, notes))
    return written | {"text": text, "note": note, "hint": COMMAND.say("hint", command)}


def _command_facts(advice: Advice, outcome: Outcome, engine_launch: EngineExport) -> dict[str, Any]:
    """Facts of a launch command for its notes."""
    return {
        "engine": engine_launch.engine,
        "problem": engine_launch.problem,
        "fixed_k": outcome.varies and bool(outcome.k) and advice.decided.fixed_k is not None,
        "admitted": engine_launch.admitted,
        "full": advice.to_serve[-1].batch_end >= advice.setup.memory.largest_batch,
        "has_table": engine_launch.switches,
    }


PAGE_SLOTS = (
    *("headline", "cause", "range", "time", "slow", "alternative", "memory", "admit"),
    *("amber", "published", "other_gained", "pool_cancels", "pool_line", "uncounted"),
    "pool_basis",
    *("memory_need", "memory_fix", "launch"),
)
"""Slots that the browser fills."""
PAGE_PHRASES = [
    [phrase.slot, phrase.when, phrase.say] for phrase in PHRASES if phrase.slot in PAGE_SLOTS
]


def engine_label(engine_id: str) -> str:
    """Name of an engine for readers."""
    profile = engine_of(engine_id)
    return "another engine" if profile is None else profile.name


def _wider(advice: Advice, outcome: Outcome) -> str | None:
    """Label of the button that takes more GPUs. None where the batch fits or nothing holds it."""
    if outcome.wider_gpus is None:
        return None
    return f"Use {outcome.wider_gpus} × {hardware_name(advice.setup.hardware)}"


def live_why(advice: Advice) -> dict[str, Any]:
    """Time of a round at every batch and K, by group, and the split by Amdahl, as plain values."""
    curve = advice.curve
    moe = advice.setup.architecture.moe
    shape = curve.speedup.shape
    parts = curve.round_components
    zero = np.zeros(shape)
    group_times_s = [
        sum((parts.get(component, zero) for component in names), zero) for names in GROUPS.values()
    ]
    verified = curve.verify_step_s / curve.plain_step_s[:, None]
    loading = Loading.of(advice.setup, curve)
    axes = {
        "key": advice.scenario.hash,
        "batch": advice.scenario.batch_size,
        "batches": curve.batches.astype(int).tolist(),
        "drafts": curve.drafts.tolist(),
        "k": advice.recommendation.n_draft or advice.curve_k,
    }
    times = {
        "groups": list(GROUPS),
        "ms": rounded(np.stack(group_times_s) * 1e3),
        "accepted": rounded(curve.accepted_length),
        "speedup": rounded(curve.speedup),
    }
    amdahl = {
        "experts": None if moe is None else moe.n_experts,
        "touched": [rounded(curve.touched_plain), rounded(curve.touched_verify)],
        "share": rounded(loading.time_share),
        "verify": rounded(verified),
        "amdahl": rounded(loading.expected),
        "hidden": rounded(hidden_loading(loading, verified)),
    }
    return axes | times | amdahl


def hidden_loading(loading: Loading, verified: Array) -> Array:
    """Part of the extra expert loading hidden in the verification step, [nB, nK]. [-]

    0 without extra loading.

    verified : verification steps over plain steps, [nB, nK]. [-]
    """
    growth = loading.growth
    share = loading.time_share[:, None]
    grows = (growth > 1.0 + _GROWS) & (share > 0.0)
    hidden = laws.hidden_share(verified, np.where(grows, share, 1.0), np.where(grows, growth, 2.0))
    return np.asarray(np.where(grows, hidden, 0.0))
