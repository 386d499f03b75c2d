"""The scenario in the session: what the bar's widgets say, what links and files bring, and what the
user gave.

Each field of a Scenario is one widget whose key, and so whose URL parameter, is the field's name.
The user's own model configurations and accelerators are documents: they lie in the session by name,
and travel packed.

Scenario and page settings in the browser's address: read from links and on Back and Forward,
written after a change.

Each change of the scenario is one entry of the browser's history, so Back undoes it and Forward
does it again (docs/decisions/history.md (0004)). Widgets bound by Streamlit itself would rewrite
the entry in place instead.

Some are typed in other words than a number field takes: 128k or 1M tokens, an accepted length.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from advisor.catalog.hardware import hardware_slug, own_drafter, read_own_hardware
from advisor.catalog.hf.config import architecture_from_config
from advisor.catalog.models import model_ids, own_model
from advisor.physics.acceptance import acceptance_curve
from advisor.physics.hardware import hardware_ids
from advisor.predict.field_rows import FieldRow
from advisor.predict.scenario import (
    MAX_CONFIG_BYTES,
    MAX_LINK_CHARACTERS,
    Scenario,
    build_scenario,
    nearest_acceptance,
    pack,
    unpack,
)
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, POOL_FIELDS, RANK_FIELDS
from advisor.prediction import AdvisorError
from advisor.text import TOKENS_FORMS, read_json, screen_style, token_count, typeset
from advisor.ui.own_data import (
    FIELD,
    LOADS,
    NAMES,
    START,
    SWEEP,
    default,
    leave_length,
    own,
    ranks_are_for,
    read,
    refit_is_for,
    same,
    sweep_is_for,
)
from advisor.ui.pins import read_pins
from advisor.ui.session import SETTINGS, Kept, folded_key, restore, take_typed
from advisor.ui.session import take as read_settings
from advisor.ui.session import values as values_of_pages

CONFIG = "model_config_json"
HARDWARE = "hardware_json"
CONFIG_FROM: Kept[str] = Kept("_config_from", str)
"""file or text: where the config.json in use comes from, and why the one given last cannot be
used."""
_LABELS = {
    name: row.screen_label for name, row in FIELDS.items() if "_" in name and row.widget is not None
}
"""Of names that are no words of a sentence."""
_SCENARIO: Kept[Scenario | None] = Kept("_scenario")
_NOTES: Kept[list[str]] = Kept("_link_notes", list)
_NOTED: Kept[dict[str, Any] | None] = Kept("_noted_values")
"""The widgets' values for which the notes were taken; None: those of the next run."""
_VALUES: Kept[dict[str, Any] | None] = Kept("_values")
PAGE: Kept[str] = Kept("_page", str)
"""Path of the page that was drawn last."""
TO_SERVE: Kept[bool] = Kept("_to_serve", bool)
"""Whether a click on another page opened a scenario that Serve is to show."""


def own_models() -> dict[str, str]:
    """Configurations given in this session: name to config.json text."""
    return own(CONFIG)


def known_as(model_id: str) -> str:
    """Id of the shipped model that has the dimensions of a model of this session. Its own name
    where none has."""
    text = own_models().get(model_id)
    shipped = model_id if text is None else own_model(text, model_id).id
    return shipped if shipped in model_ids() else model_id


def choose_model(model_id: str) -> None:
    """Make a model the bar's, with what follows from it."""
    st.session_state["model_id"] = model_id
    follow_model()


def follow_model() -> None:
    """Another model: the drafter that ships with it where one does, and the acceptance measured
    with it."""
    now = st.session_state
    forget(POOL_FIELDS)
    before = str((_VALUES.result or now)["model_id"])
    module = own_drafter(now["model_id"])
    if module is not None:
        now["drafter_id"] = module
    elif now["drafter_id"] in ("mtp", own_drafter(before)) and now["model_id"] not in own_models():
        now["drafter_id"] = str(FIELDS["drafter_id"].default)
    follow_drafter()


def forget(names: Iterable[str]) -> None:
    """Leave fields of the bar unset that were of another server."""
    for name in names:
        st.session_state[name] = None


def follow_drafter() -> None:
    """Take the acceptance measured with another model or drafter, or the length that was given for
    it."""
    now = st.session_state
    before = _VALUES.result or st.session_state
    of = (str(before["model_id"]), str(before["drafter_id"]))
    to = (str(now["model_id"]), str(now["drafter_id"]))
    if of != to:
        leave_length(of, to)
    # From the first screen's, whichever was shown before: a model that is chosen again gets the
    # same once more.
    current = (
        now["acceptance"] if acceptance_curve(now["acceptance"]) is None else default("acceptance")
    )
    now["acceptance"] = nearest_acceptance(known_as(now["model_id"]), now["drafter_id"], current)


def uploaded_text(given: Any, most_bytes: int, what: str) -> str:
    """The text of an uploaded file. Raises AdvisorError for one that is too large or is no text."""
    if given.size > most_bytes:
        raise AdvisorError(f"The file has {given.size:,} bytes; {what} has at most {most_bytes:,}.")
    try:
        text: str = given.getvalue().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdvisorError(f"The file is not text; give {what}.") from error
    return text


def own_hardware() -> dict[str, str]:
    """Accelerators given in this session: name to JSON text."""
    return own(HARDWARE)


def add_own_model(text: str, file_name: str = "") -> str:
    """Check a config.json, keep it in the session, and return its name. Raises AdvisorError when it
    is no model."""
    name = _model_name(text, file_name)
    architecture_from_config(text, name, file_name or "config.json")
    own_models()[name] = text
    return name


def add_own_hardware(text: str) -> str:
    """Check an accelerator, keep it in the session, and return its name. Raises AdvisorError when
    it is none."""
    name = _free(hardware_slug(read_own_hardware(text).name), own_hardware(), text)
    own_hardware()[name] = text
    return name


def _model_name(text: str, file_name: str) -> str:
    """A short plain name that no shipped model and no other configuration of this session has.

    From the file's name, else from the configuration's model type; a second configuration of that
    name gets a number.
    """
    stem = file_name.rsplit(".", 1)[0]
    if stem in ("", "config"):
        try:
            stem = str(read_json(text).get("model_type", ""))
        except (ValueError, AttributeError):
            stem = ""
    slug = re.sub(r"[^a-z0-9._]+", "-", stem.lower()).strip("-._")[:40] or "model"
    return _free(slug if slug.startswith("own-") else f"own-{slug}", own_models(), text)


def _free(name: str, taken: Mapping[str, str], text: str) -> str:
    """`name`, with a number when another text has it."""
    numbered = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(free for free in numbered if taken.get(free, text) == text)


def take(texts: Mapping[str, str], documents: Mapping[str, str], origin: str) -> list[str]:
    """Set every widget to what `texts` and `documents` say, else to its default.

    To be called before the widgets are drawn.

    texts : values by field, as a link spells them. documents : texts of the user's own model and
        accelerator.
    Returns one sentence for each thing asked for that cannot be shown; `origin` (link, file) is
    named in it.
    """
    texts = dict(texts)
    notes = []
    for document, text in documents.items():
        owner = DOCUMENTS[document]
        texts[owner] = _document_name(document, texts.get(owner), text)
        own(document)[texts[owner]] = text
    for name in texts.keys() - FIELDS.keys():
        if name not in SETTINGS:
            notes.append(
                f"The {origin} has {_short(name)}, which is no setting here; it was ignored."
            )
    for field in NAMES:
        value = default(field)
        if field in texts:
            try:
                value = read(field, texts[field])
            except ValueError:
                notes.append(_refused(origin, field, texts[field], value))
        st.session_state[field] = value
    return notes


def _refused(origin: str, field: str, text: str, shown: Any) -> str:
    if field == LOADS:
        return (
            f"The {origin} carries loads of experts that cannot be read; the slowest rank is "
            "assumed."
        )
    if field == FIELD:
        return f"The {origin} carries a refit that cannot be read; the shipped constants are used."
    return (
        f"The {origin} asks for {field} = {_short(text)}, which is not possible; {shown} is shown."
    )


def show_other(scenario: Scenario) -> None:
    """Show the scenario of a file, of another model or drafter with the acceptance of those."""
    now = st.session_state
    before = now["model_id"], now["drafter_id"]
    show(scenario)
    if (now["model_id"], now["drafter_id"]) != before:
        follow_drafter()


def show(scenario: Scenario, origin: str = "file", *more: str) -> None:
    """Make a scenario the one on screen, for callbacks. What cannot be shown becomes a note, beside
    `more`."""
    values = scenario.model_dump(mode="json")
    documents = {}
    for name in DOCUMENTS:
        text = values.pop(name)
        if text is not None:
            documents[name] = text
    note(
        *take(
            {name: "" if value is None else str(value) for name, value in values.items()},
            documents,
            origin,
        ),
        *more,
    )


def _document_name(document: str, asked: str | None, text: str) -> str:
    """The name under which a document that came with a link or file is kept: the one asked for,
    where it is free."""
    if document == CONFIG:
        return _model_name(text, "") if asked is None or asked in model_ids() else asked
    if asked is not None and asked not in hardware_ids():
        return asked
    try:
        return hardware_slug(read_own_hardware(text).name)
    except AdvisorError:  # the answer says what is wrong with it
        return hardware_slug("")


def keep_scenario(values: Mapping[str, Any]) -> None:
    """Build the scenario from the widgets' values and keep it, or the sentence that says why there
    is none."""
    chosen = {name: value for name, value in values.items() if value is not None}
    for document, owner in DOCUMENTS.items():
        if (text := own(document).get(str(values[owner]))) is not None:
            chosen[document] = text
    if not ranks_are_for(values):
        chosen = {name: value for name, value in chosen.items() if name not in RANK_FIELDS}
    if not refit_is_for(values):
        chosen.pop(FIELD, None)
    if not sweep_is_for(values):
        chosen.pop(SWEEP, None)
    if (
        not {"input_tokens", "output_tokens"} <= chosen.keys()
    ):  # one alone says nothing yet; the bar says so
        chosen = {
            name: value
            for name, value in chosen.items()
            if name not in ("input_tokens", "output_tokens")
        }
    _VALUES.put(dict(values))
    if _NOTED.result is None:
        _NOTED.put(dict(values))
    _SCENARIO.forget()
    _SCENARIO.take(functools.partial(build_scenario, **chosen))


def scenario_or_problem() -> tuple[Scenario | None, str]:
    """The scenario of this run, or None and the reason in one sentence, in the words of the bar."""
    labels = r"\b(?:" + "|".join(_LABELS) + r")\b"
    return _SCENARIO.result, re.sub(labels, lambda name: _LABELS[name.group()], _SCENARIO.problem)


def note(*notes: str) -> None:
    """Keep what a link or file asked for that the screen does not show. It is said until something
    is changed."""
    _NOTES.put(list(notes))
    _NOTED.put(None)


def link_notes() -> list[str]:
    """Sentences on what a link or file asked for that this screen does not show."""
    return _NOTES.result if _NOTED.result == _VALUES.result else []


def plain(text: str) -> str:
    """Text for a Markdown element with nothing in it read as markup: messages may quote what a user
    typed."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", screen_style(typeset(text)))
    return re.sub(r":(?=\S)", r"\\:", escaped)  # `:word:` would be an icon


def _short(text: str) -> str:
    """A user's text as a short quoted piece without markup."""
    cut = re.sub(r"[^\w.,@+ -]", "?", text)
    return f"'{cut[:40]}'"


_WRITTEN = "_address"
_PACKED_AS = "_packed_as"
_IMPLIED = "_address_implied"


def follow() -> None:
    """Bring session and address together, before the navigation and all widgets are drawn.

    A first run and Back or Forward take what the address says; one that says nothing means the
    first screen's scenario. Otherwise the session is ahead: Streamlit drops the parameters when the
    page changes, and they are put back before the browser notes the new page's address.
    """
    now = st.session_state
    parameters = {
        name: text
        for name, text in st.query_params.to_dict().items()
        if name in FIELDS or name in SETTINGS
    }
    opened = _WRITTEN not in now
    restore()
    # Streamlit has no public name for Back and Forward: without this one they are not followed.
    if opened or getattr(get_script_run_ctx(), "is_history_navigation", False):
        now[_IMPLIED] = not any(name in FIELDS for name in parameters)
        link = {**(START if now[_IMPLIED] else {}), **st.query_params.to_dict()}
        _take(link, opened and not now[_IMPLIED])
        now[_WRITTEN] = parameters | (dict(START) if now[_IMPLIED] else {})
    elif parameters != now[_WRITTEN] and not (
        now[_IMPLIED] and parameters.items() <= now[_WRITTEN].items()
    ):
        st.query_params.update(now[_WRITTEN])


def write(values: Mapping[str, Any]) -> None:
    """Put the widgets' values in the address, all in one step. An address that already means them
    is left alone."""
    now = st.session_state
    written: dict[str, str] = now[_WRITTEN]
    documents = {name: _packed(name, values[owner]) for name, owner in DOCUMENTS.items()}
    wanted = dict(values) | documents | values_of_pages()
    if any(len(str(wanted[name] or "")) > MAX_LINK_CHARACTERS for name in RANK_FIELDS):
        wanted |= dict.fromkeys(RANK_FIELDS)  # copies without their loads would be another question
    changed = {
        name: "" if value is None else str(value)
        for name, value in wanted.items()
        if not _means(written.get(name), name, value)
    }
    if not changed:
        return
    if now[_IMPLIED]:  # the address said nothing so far
        changed = dict(START) | changed
        now[_IMPLIED] = False
    if (
        "acceptance" not in written
    ):  # whoever copies the address bar copies an answer that says what is accepted
        changed["acceptance"] = str(values["acceptance"])
    name, text = next(iter(changed.items()))
    if len(changed) == 1 and not text and name in written and _means(None, name, wanted[name]):
        # Its absence says the same. Of several, none is taken out: each call is an entry of the
        # history of its own.
        now[_WRITTEN] = {known: text for known, text in written.items() if known != name}
        del st.query_params[name]
        return
    now[_WRITTEN] = written | changed
    st.query_params.update(changed)


def write_settings() -> None:
    """Put in the address what a run of a fragment alone has changed, which draws no bar."""
    if values := _VALUES.result:
        write(values)


def link_to(scenario: Scenario, base: str | None) -> str | None:
    """Address that restores this scenario and the pages' settings, relative without `base`. None
    when too long."""
    settings = {
        name: value for name, value in values_of_pages().items() if not _means(None, name, value)
    }
    query = "&".join(
        filter(
            None, (scenario.to_query(), urlencode({name: str(v) for name, v in settings.items()}))
        )
    )
    documents = (getattr(scenario, name) or "" for name in DOCUMENTS)
    if len(query) > MAX_LINK_CHARACTERS or any(len(text) > MAX_CONFIG_BYTES for text in documents):
        return None
    return urlunsplit(urlsplit(base)._replace(query=query, fragment="")) if base else f"?{query}"


def link_caption(words: str, link: str, elsewhere: str) -> str:
    """Caption of a link, with what to do for others where it opens on this computer alone."""
    return (
        f"{words}; {elsewhere}"
        if urlsplit(link).hostname in {"localhost", "127.0.0.1", "::1"}
        else words
    )


def _take(link: Mapping[str, str], opened: bool) -> None:
    documents = {}
    damaged = []
    for name in DOCUMENTS:
        if packed := link.get(name):
            try:
                documents[name] = unpack(name, packed)
                _packings()[documents[name]] = packed
            except AdvisorError as error:
                damaged.append(str(error))
    texts = {
        name: text
        for name, text in link.items()
        if name not in DOCUMENTS and not name.startswith("embed")
    }
    notes = damaged + take(texts, documents, "link")
    notes += [
        f"The link asks for {name} = {_short(text)}, which is not possible here; it was ignored."
        for name, text in read_settings(texts).items()
    ]
    pins, refused_pins = read_pins(st.session_state["pins"])
    st.session_state["pins"] = "!".join(pins)
    notes += [
        f"The link pins {_short(pin)}, which is no setup here or one too many; it was left out."
        for pin in refused_pins
    ]
    if opened and texts and "acceptance" not in texts:
        now = st.session_state
        now["acceptance"] = nearest_acceptance(known_as(now["model_id"]), now["drafter_id"])
    note(*notes)


def _means(text: str | None, name: str, value: Any) -> bool:
    """Whether a parameter of the address, or its absence, stands for a value."""
    if text is None:
        if name in SETTINGS:
            return bool(value == SETTINGS[name].default)
        return bool(value == ("" if name in DOCUMENTS else default(name)))
    return same(text, value)


def _packed(document: str, owner: str) -> str:
    """The packed document of what `owner` names, as it came in the link where it did; empty when
    there is none."""
    text = own(document).get(owner, "")
    if not text or len(text) > MAX_CONFIG_BYTES:
        return ""
    packed = (
        _packings().setdefault(text, pack(text)) if text not in _packings() else _packings()[text]
    )
    return packed if len(packed) <= MAX_LINK_CHARACTERS else ""


def _packings() -> dict[str, str]:
    return st.session_state.setdefault(_PACKED_AS, {})


DEFAULT_K = 3
"""K that a bare accepted length is taken to be of. [-]"""


def understood(given: str) -> str:
    """An accepted length as the scenario takes it: a bare `2.4` is one at DEFAULT_K."""
    text = given.strip()
    try:
        bare = float(text)
    except ValueError:
        return text
    return f"{bare:g}@{DEFAULT_K}" if bare > 1.0 else text


_ALWAYS = ("n_gpus", "context_tokens")
"""Of the fields typed as text, those that stand in the bar."""
TYPED: Mapping[str, str] = {
    name: f"{name}_typed" for name in (*_ALWAYS, "input_tokens", "output_tokens")
}
"""The key of each field's text; the number itself lies in the session under the field's name."""
_REFUSED: Kept[tuple[str, Any, str]] = Kept("_tokens_refused", lambda: ("", None, ""))
"""What was typed in vain: the field, its number that stayed, and why."""


def draw_token_fields(
    row: FieldRow, label: str, width: int | str, follow: Callable[[], None] | None = None
) -> int | None:
    """Draw the field with its number and return it, None where none is set. `follow`: what another
    entails."""
    now = st.session_state
    field = row.name
    now[TYPED[field]] = _text(field)
    key = TYPED[field] if field in _ALWAYS else folded_key(TYPED[field])
    widget_options: dict[str, Any] = {"width": width} | (
        {"placeholder": row.unset} if row.is_optional else {}
    )
    st.text_input(
        label,
        key=key,
        on_change=take_typed,
        args=(TYPED[field], key, functools.partial(_take_tokens, field, follow)),
        persist_state="session",
        help=None if field in _ALWAYS else f"Type {TOKENS_FORMS}. From {row.limits}.",
        **widget_options,
    )
    return None if now[field] is None else int(now[field])


def token_remark() -> str:
    """Reason that the number last typed was not taken. Empty once another is set."""
    field, stayed, reason = _REFUSED.result
    if not reason or stayed != st.session_state[field]:
        return ""
    number = "none" if stayed is None else f"{stayed:,}"
    return f"{FIELDS[field].screen_label}: {reason}; {number} stays."


def _text(field: str) -> str:
    number = st.session_state[field]
    return "" if number is None else str(number)


def _take_tokens(field: str, follow: Callable[[], None] | None) -> None:
    """The number that was typed, or the reason why there is none; its text is the number's
    again."""
    _read_tokens(field)
    st.session_state[TYPED[field]] = _text(field)
    if follow is not None and not _REFUSED.result[0]:
        follow()


def _read_tokens(field: str) -> None:
    now = st.session_state
    row = FIELDS[field]
    _REFUSED.forget()
    typed = str(now[TYPED[field]] or "").strip()
    if row.is_optional and not typed:
        now[field] = None
        return
    unit = "GPUs" if field == "n_gpus" else "tokens"
    try:
        if unit == "GPUs" and not typed.isdecimal():
            raise ValueError(f"{typed[:20]!r} is no number of GPUs")
        count = token_count(typed)
        low, high = row.range or (1, count)
        if not low <= count <= high:
            raise ValueError(f"{count:,} {unit} lie outside {row.limits}")
    except ValueError as error:
        _REFUSED.put((field, now[field], str(error)))
        return
    now[field] = count
