"""What a file leaves open, and nothing else: columns that could not be matched, fields that nobody said, names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from advisor.catalog.engines import engine_called, engine_ids
from advisor.catalog.hardware import (
    boards_named,
    drafter_name,
    hardware_by_vendor,
    hardware_called,
    hardware_label,
    hardware_meant,
    model_label,
    model_name,
    models_by_maker,
)
from advisor.catalog.models import model_meant
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.remap import likely_targets, target_label
from advisor.measured.ingest.result import ANSWERS, COMMA, TIMES, MissingField
from advisor.measured.ingest.rows import Measured
from advisor.measured.ingest.side_by_side import METRICS, metrics_in_unit
from advisor.measured.own_points import rows_of
from advisor.physics.draft import drafter_ids
from advisor.predict.scenario import Scenario, usual_drafter
from advisor.text import counted, listed
from advisor.ui.answers import advice_for
from advisor.ui.measure.session import (
    FILES,
    FROM_BAR,
    NOTES,
    OF_THE_MODEL,
    UploadFile,
    complain,
    fill_in,
    filled_in,
    guess_of,
    header_in,
    lacks,
    likely_columns,
    one_a_file,
    other_model,
    problem,
    read_with,
    scenario_of,
    shown,
    unknown_names,
    upload,
)
from advisor.ui.session import attempt
from advisor.ui.state import own_hardware, own_models, plain, show_other
from advisor.ui.widgets import show_problem

_YES_NO = {1: "yes, in these very runs", 0: "no, elsewhere"}
_FEW = 2
_STATED_NAMES = ("hardware_id", "model_id", "weight_dtype", "drafter")
"""Names that a file states and a user may know better, as they are offered."""


def read_as(read: Measured) -> list[tuple[str, str]]:
    """Pairs (meaning, column of the file), then the values taken from the bar."""
    known = COLUMNS[read.kind]
    columns: dict[str, str] = {}
    for headers in (source.headers for source in read.sources):
        for ours, (theirs, _) in headers.items():
            if ours in read.frame and read.frame[ours].notna().any():
                columns.setdefault(ours, theirs)
    found = list(read.frame["metric"].dropna().unique()) if "metric" in read.frame else []
    metric = METRICS[str(found[0])].title if len(found) == 1 and str(found[0]) in METRICS else ""
    metric = metric[:1].lower() + metric[1:]  # empty where there are no two values side by side, or several kinds
    titles = {"baseline_value": f"Plain: {metric}", "sd_value": f"With drafts: {metric}"} if metric else {}
    said = [(titles.get(name, known[name].title), column) for name, column in columns.items() if name in known]
    return [*said, *_told(FROM_BAR.result, "bar"), *_told(filled_in(), "filled in")]


def _told(values: Mapping[str, Any], by: str) -> list[tuple[str, str]]:
    return [(_title(name), f"{_named(name, value)} ({by})") for name, value in values.items()]


def asked_text(read: Measured) -> str:
    """Words for the title on fields still asked for."""
    needed = _needed(read)
    if not needed or unknown_names(read) or any(item.name not in _NAMED or item.prefill is None for item in needed):
        few = needed and len(needed) <= _MOST_NAMED and not unknown_names(read)
        titles = [_ASKED_FOR.get(item.name, COLUMNS[read.kind][item.name].in_text) for item in needed]
        return f"say {listed(titles)}" if few else "some values are missing"
    return f"confirm {', '.join(_NAMED[item.name].format(item.prefill) for item in needed)}"


_MOST_NAMED, _ASKED_FOR = 2, {"metric": "what is counted"}
_NAMED = {"draft_tokens_k": "K = {}", "metric": "what is counted", "drafter": "the drafter"}
_FROM_NAME = {
    "draft_tokens_k": ("sd_value", "Draft length K in {}"),
    "metric": ("baseline_value", "What {} counts"),
    "drafter": ("sd_value", "Drafter of {}"),
}
"""Fields guessed from a column's name: the column of ours, and the label."""


def draw_open_fields(read: Measured, scenario: Scenario) -> None:
    """Ask for what is needed and nobody said. What stands in the fields is what a refit uses, filled in or not."""
    unknown, needed = unknown_names(read), _needed(read)
    if not needed and not unknown:
        return
    other = other_model(read, scenario)
    with st.container(border=True, key="missing_fields"):
        st.subheader("What the file does not say", anchor=False)
        if other and any(item.name in OF_THE_MODEL for item in needed):
            named = model_name(other), model_name(scenario.model_id)
            st.caption(plain("The file is of {}, the bar of {}: confirm GPUs and drafter.".format(*named)))
        with st.grid(3, min_column_width=250):
            for name, names in unknown.items():
                label = f"{header_in(read, name) or _title(name)} says {', '.join(names[:3])}: which {_IN_TEXT[name]}?"
                _field(label, name, None, f"known_{name}", first=boards_named(names[0]))
            for item in needed:
                guess = guess_of(item, other, scenario)
                if guess is None and item.name == "drafter" and other:
                    guess = usual_drafter(other)
                _missing_field(item, guess, read)
        st.button("Confirm and compare", key="fill_in", type="primary", on_click=_fill_in, args=(scenario,))
        show_problem(problem("fields"))


_IN_TEXT = {"hardware_id": "accelerator", "model_id": "model"}


def _needed(read: Measured) -> list[MissingField]:
    """Fields to ask for: where the tensor-parallel size is open, it says where the model lies before any other does."""
    needed = {item.name: item for item in read.missing if item.needed}
    tensor = [item for item in read.missing if item.name == "tensor_parallel"]
    if tensor and {"gpu_count", "data_parallel"} & needed.keys():
        needed = {name: item for name, item in needed.items() if name not in ("gpu_count", "data_parallel")}
        needed["tensor_parallel"] = tensor[0]
    return list(needed.values())


def _fill_in(scenario: Scenario) -> None:
    """Complete the upload with what stands in the fields, and say it. A file of other settings turns the bar."""
    (values, override), before = shown(), upload()
    if before is None or not fill_in(values, override, "fields") or (read := upload()) is None:
        return
    open_ = [f"{_title(name)} {names[0]}" for name, names in unknown_names(read).items()]
    if lacks(read):
        asked = {item.name for item in _needed(before)}
        open_ += [_title(item.name) for item in _needed(read) if item.name in asked]
    if open_:
        complain("fields", f"Still open: {', '.join(open_)}.")
    filled = values | {name: read.frame[name].dropna().iloc[0] for name in override}
    said = [f"{_title(name)}: {_named(name, value)}" for name, value in filled.items()]
    another = not lacks(read) and not (attempt(advice_for, scenario)[0] and len(rows_of(read.frame, scenario)))
    theirs = scenario_of(read.frame, scenario) if another else None
    if theirs is not None:
        show_other(theirs)
        said.append(f"the bar is set to {model_name(theirs.model_id)} on {hardware_called(theirs.hardware_id)}")
    NOTES.put([f"Filled in: {'; '.join(said)}"] if said else [])


def draw_more_fields(read: Measured, scenario: Scenario) -> None:
    """Fields that may stay empty, and names as they were read: for whoever knows better."""
    for item in read.missing:
        if not item.needed:
            _missing_field(item, item.prefill, read)
    for name in _STATED_NAMES:
        if name in read.frame and (names := sorted(read.frame[name].dropna().unique())):
            _field(f"{_title(name)}: {', '.join(names[:4])}; read all rows as", name, None, f"stated_{name}")
    st.button("Fill in", key="fill_in_more", on_click=_fill_in, args=(scenario,))


def _missing_field(item: MissingField, guess: Any, read: Measured) -> None:
    """One field, by its meaning or by the column that suggests it; of a few rows that lack it, which."""
    empty = read.frame.index[read.frame[item.name].isna()]
    lines = f" (line {', '.join(map(str, empty))})" if item.rows == len(empty) <= _FEW < len(read.frame) else ""
    some = f", missing in {counted(item.rows, 'row')}{lines}" if item.rows < read.rows_kept else ""
    label = f"{_title(item.name)}{some}"
    meaning = item.meaning
    column, words = _FROM_NAME.get(item.name, ("", ""))
    if item.needed and (item.prefill is not None or item.name == "metric") and (header := header_in(read, column)):
        cells = next((one.cells for file in FILES.result for one in file.headers if one.theirs == header), ())
        label = words.format(header) + (f" ({', '.join(cells)})" if cells else "")
    if files := one_a_file(item.name):
        label += "; one for all files, or one for each"
        meaning += f". One for each file: separated by commas, in this order: {', '.join(files)}"
    _field(label, item.name, guess, f"missing_{item.name}", meaning)


def _title(name: str) -> str:
    column = COLUMNS["points"].get(name) or COLUMNS["kernels"][name]
    return "What is counted" if name == "metric" else column.title


_LABELS: dict[str, Callable[[str], str]] = {
    "hardware_id": lambda text: hardware_label(hardware_meant(text) or text),
    "model_id": lambda text: model_label(model_meant(text) or text),
    "engine": lambda text: engine.name if (engine := engine_called(text)) else text,
    "drafter": drafter_name,
    "metric": lambda name: METRICS[name].title,
}
"""Names of what is chosen; typed ones are read as a file's cells are."""


def _named(name: str, value: Any) -> str:
    """A value as it is shown."""
    if name == "accepted_length_same_run":
        return _YES_NO[int(value)]
    return _LABELS[name](str(value)) if name in _LABELS else str(value)


def _field(label: str, name: str, guess: Any, key: str, meaning: str = "", first: Sequence[str] = ()) -> Any:
    """A text box, or a list of names that finds by any usual spelling; `first` are the likeliest of them."""
    read = upload()
    choices: dict[str, list[Any]] = {
        "hardware_id": [*first, *own_hardware(), *hardware_by_vendor()],
        "model_id": [*own_models(), *models_by_maker()],
        "engine": engine_ids(),
        "drafter": list(drafter_ids()),
        "accepted_length_same_run": list(_YES_NO),
        "metric": metrics_in_unit(header_in(read, "baseline_value") if read else ""),
    }
    options = list(dict.fromkeys(choices.get(name, ())))
    help_text = plain(meaning) or None
    if not options:
        return st.text_input(plain(label), "" if guess is None else str(guess), key=key, help=help_text)
    return st.selectbox(
        plain(label),
        options,
        index=options.index(guess) if guess in options else None,
        key=key,
        help=help_text,
        format_func=functools.partial(_named, name),
        placeholder="Choose or type a name" if name in _IN_TEXT else "Not stated",
        accept_new_options=name in _IN_TEXT or name == "engine",
    )


_ASKED = {COMMA: "What a comma in numbers marks", TIMES: "Unit of times that name none"}
_SAID = {"": "Not said", "decimal": "Decimals", "thousands": "Thousands"}
MAX_FIELDS = 40
"""Columns asked for, those first that nothing is read from."""


def draw_mapping_panel(scenario: Scenario) -> None:
    """A form for each file that can be mapped, open where it could not be read or columns look swapped."""
    given, read = FILES.result, upload()
    swapped = read is not None and bool(read.swapped)
    doubtful = swapped or bool(likely_columns())
    for number, file in enumerate(given):
        if file.headers:
            _form(number, file, scenario, len(given) > 1, doubtful and not file.chosen)


def _form(number: int, file: UploadFile, scenario: Scenario, several: bool, doubtful: bool) -> None:
    """The form of one file; `several`: its name is said."""
    said = f" ({counted(file.unused, 'column')} not used)" if file.unused and file.rows is not None else ""
    label = f"Which column is which{f' in {plain(file.name)}' if several else ''}{said}"
    of = f"{number}_" if several else ""
    with (
        st.expander(label, expanded=file.rows is None or doubtful or bool(file.asked)),
        st.form(f"column_mapping_{number}", border=False),
    ):
        st.caption("Each column with its first values. Likely meanings first; type to search. Times need a unit.")
        chosen: dict[str, str] = {}
        for asked in file.asked:
            st.warning(plain(f"{asked.text[0].upper()}{asked.text[1:]}"), icon=":material/help:")
            chosen[asked.key] = st.selectbox(
                _ASKED[asked.key],
                ["", *ANSWERS[asked.key]],
                key=f"map_{of}{'comma' if asked.key == COMMA else asked.key}",
                format_func=lambda meaning: _SAID.get(meaning, meaning),
            )
        shown = sorted(file.headers, key=lambda item: item.native == item.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in shown:
                options = likely_targets(item, file.kind)
                chosen[item.theirs] = st.selectbox(
                    plain(f"{item.theirs}: {', '.join(item.cells)}"),
                    options,
                    index=options.index(item.ours),
                    key=f"map_{of}{item.theirs}",
                    format_func=functools.partial(target_label, kind=file.kind),
                )
        look: Literal["primary", "secondary"] = "primary" if file.rows is None or doubtful else "secondary"
        if st.form_submit_button("Read with these columns", key=f"read_columns_{number}", type=look):
            read_with(number, {item.theirs: item.ours for item in file.headers} | chosen, scenario)
            st.rerun()
        show_problem(problem(f"columns {number}"))
        if len(file.headers) > MAX_FIELDS:
            st.caption(f"{len(file.headers) - MAX_FIELDS} more columns have no field: leave some out of the file.")
