"""Data of the user's own that this session predicts with: fields, upload, loads of experts, refit,
plain sweep, sweeps.

Loads, refit and plain sweep lie in the session as one line of text under their field's name, as the
widgets' values do, and go into the scenario of every run whose model, or accelerator and engine,
they are of: so into its hash, its link and its report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.explore.questions import SweepMap, default_axes, sweep_map
from advisor.answers.explore.sweep_files import Sweep
from advisor.answers.own_gap import SAME_LENGTH
from advisor.catalog.adjustment import is_for, parse_adjustment, write_adjustment
from advisor.catalog.hardware import (
    drafter_name,
    hardware_by_vendor,
    model_name,
    models_by_name,
    own_digest,
)
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import load_model, model_ids
from advisor.catalog.routing_presets import routing_preset_ids
from advisor.measured.ingest.rows import Measured
from advisor.measured.own_points import rows_of, unlike, with_rounds
from advisor.measured.refit import adjustment_of
from advisor.measured.refit_result import RefitResult
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.architecture import Moe
from advisor.physics.draft import drafter_ids
from advisor.predict.field_rows import Catalogue
from advisor.predict.load import load_setup
from advisor.predict.plain_sweep import not_of, parse_sweep
from advisor.predict.scenario import START_ACCEPTANCE, Scenario, loads_shape, parse_loads
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, RANK_FIELDS
from advisor.prediction import AdvisorError
from advisor.text import counted
from advisor.ui.session import Kept

START: Mapping[str, str] = {
    "model_id": "command-a-plus",
    "hardware_id": "h200-sxm",
    "n_gpus": "4",
    "tensor_parallel": "4",
    "drafter_id": "eagle3",
    "acceptance": "command-a-plus-eagle3-publisher",
    "batch_size": "32",
}
"""What the first screen asks: a setup whose gain dips, peaks and falls within the batches that fit,
beside a dense model's that only falls."""
NAMES = tuple(row.name for row in FIELDS.values() if row.name not in DOCUMENTS)
"""Fields that lie in the session by their own name; documents lie there by the name of what they
hold."""
_LISTED: dict[Catalogue, Callable[[], Sequence[str]]] = {
    "models": models_by_name,
    "accelerators": hardware_by_vendor,
    "drafters": drafter_ids,
    "routing presets": lambda: ["auto", "uniform", *routing_preset_ids()],
}
_CHECKED: dict[str, Callable[[str], object]] = {
    "refit": parse_adjustment,
    "expert_loads": parse_loads,
    "plain_sweep": parse_sweep,
}
"""Texts that no reader types, with what reads them."""
_OWN = {"model_config_json": "_own_models", "hardware_json": "_own_hardware"}


def own(document: str) -> dict[str, str]:
    """Texts given by the user in this session, by name: of `model_config_json` or of
    `hardware_json`."""
    return st.session_state.setdefault(_OWN[document], {})


def default(field: str) -> Any:
    """Value of a field when neither link nor user says anything."""
    return START_ACCEPTANCE if field == "acceptance" else FIELDS[field].default


def choices(field: str) -> list[str]:
    """Values that a field of choice may take here and now, the user's own first."""
    row = FIELDS[field]
    listed = row.choices if row.catalogue is None else _LISTED[row.catalogue]()
    session_names = [
        name for document, owner in DOCUMENTS.items() if owner == field for name in own(document)
    ]
    return [*(name for name in session_names if name not in listed), *listed]


def read(field: str, text: str) -> Any:
    """The value of a field that `text` stands for. Raises ValueError when the screen cannot show
    it."""
    row = FIELDS[field]
    if text == "" and default(field) is None:
        return None
    if row.range is not None:
        low, high = row.range
        value = row.kind(text)
        if not low <= value <= high:
            raise ValueError(f"{field} is outside {row.limits}")
        return value
    if field in _CHECKED:
        _CHECKED[field](text)
        return text
    is_listed = row.catalogue is not None or row.choices
    if not is_listed or (row.free_text and "," in text):  # checked where it is used, with a message
        if not text.strip():
            raise ValueError(f"{field} is empty")
        return text
    if text not in choices(field):
        raise ValueError(f"{text} is not a valid choice for {field}")
    return text


def same(text: str, value: Any) -> bool:
    """Whether a text of an address stands for a value."""
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return text == ("" if value is None else str(value))


UPLOAD: Kept[Measured | None] = Kept("_upload")
"""The rows of this session's upload, as read and completed so far."""


SAMPLE: Kept[str] = Kept("_sample", str)
"""Checksum of the sample that was tried on Measure; empty without one."""


def own_points(scenario: Scenario) -> pd.DataFrame | None:
    """Rows of `measured_points` that are the user's: none of a sample, which is for Measure."""
    rows = UPLOAD.result
    if rows is not None and any(source.sha256 == SAMPLE.result for source in rows.sources):
        return None
    return measured_points(scenario)


def measured_points(scenario: Scenario) -> pd.DataFrame | None:
    """Rows of the upload with a speedup of this accelerator and model, or None. `decides`: see
    decision 0037."""
    rows = UPLOAD.result
    if rows is None or rows.kind != "points":
        return None
    accepted = load_setup(scenario).acceptance.accepted_length
    points = with_rounds(rows_of(rows.result.frame, scenario), accepted)
    points = points.dropna(subset=["speedup", "batch_size"]).rename(
        columns={"draft_tokens_k": "n_draft"}
    )
    apart = unlike(points, scenario)
    here = (points["drafter"].isna() | points["drafter"].eq(scenario.drafter_id)) & points[
        "n_draft"
    ].le(scenario.k_max)
    here = here.fillna(False) & (
        not apart and scenario.max_tpot_ms is None and scenario.drafter_id != "none"
    )
    lengths = points[here].groupby("n_draft")["accepted_length"].median().dropna().astype(float)
    same = abs(accepted[lengths.index.astype(int)] / lengths - 1.0) <= SAME_LENGTH
    typed = len(same) > 0 and not same.any() and acceptance_curve(scenario.acceptance) is None
    points = points.assign(source=", ".join(["your upload", *apart]), decides=here & (not typed))
    points = points[points["n_draft"].fillna(1) > 0]
    return points.reset_index(drop=True) if len(points) else None


LOADS, COPIES = RANK_FIELDS
_BEFORE: Kept[Mapping[str, tuple[str, str]]] = Kept("_before_own_data", dict)
"""By field: the value that a trace or a refit's runs brought, and the one before it."""


def use_ranks(loads: str | None, copies: int | None, routing: str | None) -> None:
    """Predict with these from the next run on, in this session only.

    loads : None for the spread of the routing preset. copies : None for experts in order. [-]
    routing : the scenario's routing as a trace gave it; None leaves it as it is.
    """
    st.session_state.update({LOADS: loads, COPIES: copies})
    _bring("routing", routing)


def undo_ranks() -> None:
    """Back to experts in order with the slowest rank assumed, and to the routing before a
    trace's."""
    st.session_state.update({LOADS: None, COPIES: None})
    _take_back("routing")


def _bring(name: str, value: str | None) -> None:
    """Set a field to what the user's data brought, and keep what it was; None leaves it as it
    is."""
    now = st.session_state
    if value is not None and now.get(name) != value:
        brought, before = _BEFORE.result.get(name, ("", ""))
        if not brought or now.get(name) != brought:
            before = str(now.get(name) or default(name))
        _BEFORE.put({**_BEFORE.result, name: (value, before)})
        now[name] = value


def _take_back(name: str) -> str:
    """Set a field to what it was, unless it was set to anything else since. What is taken back, or
    empty."""
    brought, before = _BEFORE.result.get(name, ("", ""))
    _BEFORE.put({other: pair for other, pair in _BEFORE.result.items() if other != name})
    if not brought or st.session_state.get(name) != brought:
        return ""
    st.session_state[name] = before
    return brought


Pair = tuple[str, str]
"""Model and drafter, which an accepted length belongs to."""
_LENGTHS: Kept[Mapping[Pair, tuple[str, bool]]] = Kept("_lengths_left", dict)
"""Accepted lengths that a change of model or drafter has ended, and whether each was a run's."""
_LEFT: Kept[tuple[Pair, Pair] | None] = Kept("_length_left")
"""Whose length was ended last, and what model and drafter are since."""


def use_length(text: str | None) -> None:
    """Predict with the accepted length of the user's run, as long as model and drafter stay. None
    changes nothing."""
    _LEFT.forget()
    _bring("acceptance", text)


def stop_length() -> None:
    """Back to the accepted length before the run's, where that is in use."""
    _LENGTHS.put({pair: length for pair, length in _LENGTHS.result.items() if not length[1]})
    _take_back("acceptance")


def leave_length(of: Pair, to: Pair) -> None:
    """Model or drafter is another: the length given with the former ends, that of the latter is
    back."""
    now = st.session_state
    lengths = {pair: length for pair, length in _LENGTHS.result.items() if pair != of}
    brought = _take_back("acceptance")
    if acceptance_curve(text := brought or str(now["acceptance"])) is None:
        lengths[of] = text, bool(brought)
    if acceptance_curve(str(now["acceptance"])) is None:
        now["acceptance"] = default("acceptance")
    _LENGTHS.put(lengths)
    _LEFT.put((of, to) if of in lengths and to not in lengths else None)
    if to in lengths:
        _take_again(*lengths[to])


def _take_again(text: str, of_run: bool) -> None:
    if of_run:
        use_length(text)
    else:
        st.session_state["acceptance"] = text
        _LEFT.forget()


def length_banner(scenario: Scenario) -> None:
    """Note on every page that an accepted length given with another model or drafter is not used. A
    click uses it."""
    of, here = _LEFT.result or (("", ""), ("", ""))
    if of not in _LENGTHS.result or here != (scenario.model_id, scenario.drafter_id):
        return
    text, of_run = _LENGTHS.result[of]
    owner = f"{model_name(of[0])} with {drafter_name(of[1])}"
    origin = "of your run, " if of_run else ""
    sentence = f"The accepted length {origin}{text} was given for {owner}; **here it is not used.**"
    _banner(
        f":material/timeline: {sentence}",
        "Use it here too",
        "keep_own_length",
        _take_again,
        text,
        of_run,
    )


def ranks_are_for(values: Mapping[str, Any]) -> bool:
    """Whether what the session holds says something of a scenario's model."""
    loads = values.get(LOADS)
    if loads is None:
        return values.get(COPIES) is not None
    layers, experts = loads_shape(loads)
    moe = _moe(str(values["model_id"]))
    return moe is not None and experts == moe.n_experts and layers <= moe.count


def _moe(model: str) -> Moe | None:
    config = own("model_config_json").get(model)
    if config is None and model not in model_ids():
        return None
    try:
        return (
            architecture_from_config(config, model) if config is not None else load_model(model)
        ).moe
    except AdvisorError:
        return None


def ranks_banner(scenario: Scenario) -> None:
    """Note on every page saying what the slowest rank is counted on, or why it is not. One click
    undoes it."""
    loads = st.session_state.get(LOADS)
    copies = st.session_state.get(COPIES)
    if loads is None and copies is None:
        return
    layers, experts = loads_shape(loads or "")
    origin = (
        f"your loads ({counted(layers, 'layer')}, {experts} experts)"
        if loads
        else "the routing preset's loads"
    )
    if scenario == scenario.on_assumed_ranks():
        text = (
            f"Your loads are of {counted(layers, 'layer')} and {experts} experts; **this model is "
            "another.**"
        )
    elif scenario.expert_parallel == 1:
        text = f"**Experts touched** by {origin}; with EP above 1 its slowest rank too."
    else:
        how = (
            "in order" if copies is None else f"balanced, {copies} copies" if copies else "balanced"
        )
        text = f"**Experts on ranks**: counted on {origin}, {how}."
    _banner(
        f":material/grid_view: {text}", "Back to assumed ranks", "undo_ranks_in_use", undo_ranks
    )


def _banner(text: str, label: str, key: str, undo: Callable[..., None], *args: Any) -> None:
    """Note over a page on what of the user's own is in use, and the button that takes it back."""
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(text)
        st.button(label, key=key, on_click=undo, args=args, icon=":material/undo:")


FIELD = "refit"


def in_use() -> str | None:
    """Text of the refit chosen in this session, or None for the shipped constants."""
    return st.session_state.get(FIELD)


def text_of(result: RefitResult) -> str:
    """A refit as a scenario carries it."""
    return write_adjustment(adjustment_of(result))


def use_refit(result: RefitResult, acceptance: str | None = None) -> None:
    """Predict with a refit from the next run on, in this session only.

    acceptance : what the runs behind it counted, which takes the place of the scenario's; None
        leaves that as it is.
    """
    st.session_state[FIELD] = text_of(result)
    use_length(acceptance)


def stop_refit() -> None:
    """Back to the shipped constants, and to the acceptance before the one that came with the
    refit."""
    st.session_state[FIELD] = None
    stop_length()


def refit_is_for(values: Mapping[str, Any]) -> bool:
    """Whether the refit among a scenario's values is for their accelerator and engine."""
    text = values.get(FIELD)
    if text is None:
        return False
    adjustment = parse_adjustment(text)
    hardware_id = str(values["hardware_id"])
    return is_for(
        adjustment,
        hardware_id,
        str(values["engine"]),
        own_digest(own("hardware_json").get(hardware_id)),
    )


def refit_banner(scenario: Scenario) -> None:
    """Note on every page saying whose points the constants were refitted on, or why not. One click
    undoes it."""
    text = in_use()
    if text is None:
        return
    adjustment = parse_adjustment(text)
    place = f"`{adjustment.hardware_id}` with `{adjustment.engine_class}`"
    sentence = f"The refit is for {place}; **here the shipped constants are used.**"
    if scenario.refit is not None:
        sentence = (
            f"**{adjustment.label[0].upper()}{adjustment.label[1:]}** in this session: {place}."
        )
    _banner(
        f":material/tune: {sentence}",
        "Back to the shipped constants",
        "undo_refit_in_use",
        stop_refit,
    )


SWEEP = "plain_sweep"


def sweep_is_for(values: Mapping[str, Any]) -> bool:
    """Whether the plain sweep among a scenario's values is of it."""
    text = values.get(SWEEP)
    return text is not None and not not_of(parse_sweep(text), values)


def sweep_banner(scenario: Scenario) -> None:
    """Note on every page that steps follow the user's plain sweep, or why they do not. One click
    undoes it."""
    if (text := st.session_state.get(SWEEP)) is None:
        return
    sentence = "**Steps follow your plain sweep** in this session."
    if scenario.plain_sweep is None:
        other = not_of(parse_sweep(text), vars(scenario)).replace("_", " ")
        sentence = f"Your plain sweep is of {other}; **here it is not used.**"
    _banner(
        f":material/show_chart: {sentence}",
        "Without it",
        "undo_plain_sweep",
        st.session_state.__setitem__,
        SWEEP,
        None,
    )


MAX_ROWS = 200_000
"""Rows of a sweep in a session: 50 MB. Larger ones are asked with DuckDB. [-]"""


@dataclass(frozen=True)
class KeptSweep:
    """A sweep in the session."""

    sweep: Sweep
    digest: str
    """Twelve hex digits of what it was made from: keys of widgets on it end in them."""
    origin: str
    """Whether it was computed here or from which files, in words."""


@dataclass(frozen=True)
class Shown:
    """Part of a sweep that is on screen: the limit on time per token, and the map."""

    digest: str = ""
    max_tpot_ms: float | None = None
    axes: tuple[str, str] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it, for names of what rests on it."""
        return repr((self.digest, self.max_tpot_ms, self.axes, sorted(self.fixed.items())))


KEPT: Kept[KeptSweep | None] = Kept("_sweep")
SHOWN: Kept[Shown] = Kept("_sweep_shown", Shown)
"""What is on screen of it."""


def shown(kept: KeptSweep) -> Shown:
    """Part of this sweep that is on screen, or that would be at first."""
    now = SHOWN.result
    return (
        now
        if now.digest == kept.digest
        else Shown(kept.digest, None, default_axes(kept.sweep.frame))
    )


def map_of(kept: KeptSweep, now: Shown) -> SweepMap | None:
    """The map of what is on screen, None where fewer than two settings vary."""
    return None if now.axes is None else sweep_map(kept.sweep.frame, *now.axes, now.fixed)
