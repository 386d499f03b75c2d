"""The scenario in the session: what the sidebar's widgets say, links that restore it, and models given by the user.

Each field of a Scenario is one widget whose key, and so whose URL parameter, is the field's name. The user's own model
configurations are too large for a widget: they lie in the session by name, and travel in a link packed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import streamlit as st

from advisor.drafter import acceptance_curves
from advisor.hf_config import architecture_from_config
from advisor.model_profiles import model_ids
from advisor.prediction import AdvisorError
from advisor.scenario import MAX_CONFIG_BYTES, Scenario, build_scenario
from advisor.ui import refit_use

START_ACCEPTANCE = "gpt-oss-20b-eagle3-mt-bench"
"""Acceptance has no default: the first screen takes this measured curve, and says so."""

CONFIG = "model_config_json"
_LABELS = {"tensor_parallel": "TP", "expert_parallel": "EP", "n_gpus": "GPUs", "batch_size": "Batch"}
MAX_LINK_CHARACTERS = 30_000
"""A longer address is refused by servers and proxies; the configuration then stays out of the link."""

PAGE_PREFIXES = ("design_",)
"""Settings of single pages begin with these in an address; the page itself compares them with what it shows."""

_SCENARIO, _PROBLEM, _OWN, _LINK, _LINK_NOTES = "_scenario", "_problem", "_own_models", "_link", "_link_notes"
_PAGE_LINK = "_page_link"


def default(field: str) -> Any:
    """What a field is when neither link nor user says anything."""
    return START_ACCEPTANCE if field == "acceptance" else Scenario.model_fields[field].default


def own_models() -> dict[str, str]:
    """Configurations given in this session: name to config.json text."""
    models: dict[str, str] = st.session_state.setdefault(_OWN, {})
    return models


def add_own_model(text: str, file_name: str = "") -> str:
    """Check a config.json, keep it in the session, and return its name. Raises AdvisorError when it is no model."""
    name = _name_for(text, file_name)
    architecture_from_config(text, name=name)
    own_models()[name] = text
    return name


def _name_for(text: str, file_name: str) -> str:
    """A short plain name that no shipped model and no other configuration of this session has.

    From the file's name, else from the configuration's model type; a second configuration of that name gets a number.
    """
    stem = file_name.rsplit(".", 1)[0]
    if stem in ("", "config"):
        try:
            stem = str(json.loads(text).get("model_type", ""))
        except (ValueError, AttributeError):
            stem = ""
    slug = re.sub(r"[^a-z0-9._]+", "-", stem.lower()).strip("-._")[:40] or "model"
    name = slug if slug.startswith("own-") else f"own-{slug}"
    numbered = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(free for free in numbered if own_models().get(free, text) == text)


def read_link(query: Mapping[str, str]) -> None:
    """Take a packed configuration from the address into the session, before the widgets are drawn."""
    link = dict(query)
    if _LINK not in st.session_state:
        st.session_state[_LINK] = link
    if problem := refit_use.read_link(link):
        st.session_state.setdefault(_LINK_NOTES, []).append(problem)
    packed = link.get(CONFIG)
    if packed is None or packed == st.session_state.get("_packed"):
        return
    st.session_state["_packed"] = packed
    try:
        text = Scenario.from_query(urlencode({"acceptance": START_ACCEPTANCE, CONFIG: packed})).model_config_json or ""
    except AdvisorError as error:
        st.session_state[_LINK_NOTES] = [str(error)]
        return
    name = link.get("model_id")
    if name is None or name in model_ids():
        name = _name_for(text, "")
        st.session_state["model_id"] = name
    own_models()[name] = text


def keep_scenario(values: Mapping[str, Any]) -> None:
    """Build the scenario from the widgets' values and keep it, or the sentence that says why there is none."""
    chosen = {name: value for name, value in values.items() if value is not None}
    if (text := own_models().get(str(values["model_id"]))) is not None:
        chosen[CONFIG] = text
    chosen |= refit_use.for_scenario(values)
    if not {"input_tokens", "output_tokens"} <= chosen.keys():  # one alone says nothing yet; the sidebar says so
        chosen = {name: value for name, value in chosen.items() if name not in ("input_tokens", "output_tokens")}
    st.session_state[_SCENARIO], st.session_state[_PROBLEM] = None, ""
    try:
        scenario = build_scenario(**chosen)
    except AdvisorError as error:
        st.session_state[_PROBLEM] = _in_screen_words(str(error))
    else:
        st.session_state[_SCENARIO] = scenario
        _write_configuration(scenario)
        refit_use.write_address(scenario)
    _compare_with_link(values)


def _in_screen_words(problem: str) -> str:
    """A message of the scenario with the labels that the sidebar gives its fields."""
    return re.sub(r"\b(?:" + "|".join(_LABELS) + r")\b", lambda found: _LABELS[found.group()], problem)


def scenario_or_problem() -> tuple[Scenario | None, str]:
    """The scenario of this run, or None and the reason in one sentence."""
    return st.session_state.get(_SCENARIO), st.session_state.get(_PROBLEM, "")


def link_notes() -> list[str]:
    """What a link asked for that this screen does not show, one sentence each."""
    return list(st.session_state.get(_LINK_NOTES, []))


def link_to(scenario: Scenario, base: str | None) -> str | None:
    """The address that restores this scenario, relative when the page's own is unknown; None when it is too long."""
    query = scenario.to_query()
    if len(query) > MAX_LINK_CHARACTERS or len(scenario.model_config_json or "") > MAX_CONFIG_BYTES:
        return None
    return urlunsplit(urlsplit(base)._replace(query=query, fragment="")) if base else f"?{query}"


def _write_configuration(scenario: Scenario) -> None:
    """Keep the packed configuration in the address; all other fields are written by their widgets."""
    link = link_to(scenario, None)
    packed = dict(parse_qsl((link or "?")[1:])).get(CONFIG)
    if packed is None:
        st.query_params.pop(CONFIG, None)
        return
    st.session_state["_packed"] = packed
    if st.query_params.get(CONFIG) != packed:
        st.query_params[CONFIG] = packed


def _compare_with_link(values: Mapping[str, Any]) -> None:
    """Once, after the first draw: widgets drop values they do not know; say which."""
    link = st.session_state.get(_LINK)
    if not link:
        return
    st.session_state[_LINK] = {}
    notes = list(st.session_state.get(_LINK_NOTES, []))
    for name, asked in link.items():
        if name in (CONFIG, refit_use.FIELD) or name.startswith("embed"):
            continue
        if name.startswith(PAGE_PREFIXES):
            st.session_state.setdefault(_PAGE_LINK, {})[name] = asked
            continue
        if name not in Scenario.model_fields:
            notes.append(f"The link has {_short(name)}, which is no setting here; it was ignored.")
        elif not _same(asked, values.get(name)) and not (name == "model_id" and CONFIG in link):
            notes.append(
                f"The link asks for {name} = {_short(asked)}, which is not possible; {values.get(name)} is shown."
            )
    if "acceptance" not in link:
        notes.append(f"The link gives no accepted length; the measured curve {START_ACCEPTANCE} is used.")
    st.session_state[_LINK_NOTES] = notes


def page_link_notes(prefix: str) -> list[str]:
    """What a link asked of one page that its widgets, drawn before this call, do not show; asked once."""
    link: dict[str, str] = st.session_state.get(_PAGE_LINK, {})
    for name in [name for name in link if name.startswith(prefix)]:
        asked = link.pop(name)
        if not _same(asked, st.session_state.get(name)):
            st.session_state.setdefault(f"_notes_{prefix}", []).append(
                f"The link asks for {name} = {_short(asked)}, which is not possible here; it was ignored."
            )
    return list(st.session_state.get(f"_notes_{prefix}", []))


def _same(asked: str, shown: Any) -> bool:
    try:
        return float(asked) == float(shown)
    except (TypeError, ValueError):
        return asked == ("" if shown is None else str(shown))


def _short(text: str) -> str:
    """A user's text as a short quoted piece without markup."""
    plain = re.sub(r"[^\w.,@+ -]", "?", text)
    return f"'{plain[:40]}'"


def best_acceptance(model_id: str, drafter_id: str, current: str) -> str:
    """The measured curve nearest to a model and drafter; `current` when it is the user's own numbers or as near.

    Near: measured with this model and drafter, else with this drafter, else any.
    """
    curves = {curve.id: curve for curve in acceptance_curves()}
    if current not in curves:
        return current

    def nearness(curve_id: str) -> tuple[bool, bool]:
        same_drafter = curves[curve_id].drafter_id == drafter_id
        return same_drafter and curves[curve_id].model_id == model_id, same_drafter

    best = max(curves, key=nearness)
    return best if nearness(best) > nearness(current) else current
