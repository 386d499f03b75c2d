"""The one drop zone: whatever is given goes by its content to the panel that reads it.

Then what the file leaves open, and nothing else: columns that could not be matched, fields that
nobody said, names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.file_kinds import Kind, kind_of
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
    models_by_name,
    shape_label,
)
from advisor.catalog.models import model_meant, own_model
from advisor.measured.ingest.columns import COLUMNS, template_csv
from advisor.measured.ingest.remap import likely_targets, target_label
from advisor.measured.ingest.result import ANSWERS, COMMA, TIMES, MissingField
from advisor.measured.ingest.rows import Measured
from advisor.measured.ingest.side_by_side import METRICS, metrics_in_unit, two_values
from advisor.measured.ingest.traces import read_power_log
from advisor.measured.ingest.upload import MAX_BYTES, named_apart
from advisor.measured.observations import QUANTITIES
from advisor.measured.own_points import rows_of
from advisor.measured.refit import lacking
from advisor.physics.architecture import parameter_counts
from advisor.physics.draft import drafter_ids
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, usual_drafter
from advisor.predict.scenario_fields import MAX_BATCH, MAX_DRAFT
from advisor.prediction import AdvisorError
from advisor.text import counted, listed
from advisor.ui.answers import advice_for
from advisor.ui.measure import diagnosis, session, traces
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
from advisor.ui.measure.traces import PASTED
from advisor.ui.own_data import START, stop_length
from advisor.ui.serve.ranks import LOADS_FILE, take_loads
from advisor.ui.session import Kept, attempt
from advisor.ui.state import (
    add_own_model,
    choose_model,
    own_hardware,
    own_models,
    plain,
    show_other,
)
from advisor.ui.widgets import download, show_problem, upload_limit

LABEL = "Drop anything: benchmark, server log, launch line"
MAX_PASTED = 1_000_000  # characters; longer logs are given as files
_HELP = (
    "Files of one sweep together, plain runs among them. Also a routing trace, loads of experts, "
    "/metrics or a list of acceptance rates, a power log. Everything stays in this session."
)
KINDS: Kept[tuple[tuple[str, Kind], ...]] = Kept("_dropped_kinds", tuple)
"""Name and kind of each file given."""
_SAID: Kept[tuple[str, ...]] = Kept("_dropped_said", tuple)
"""What was done with a file that has no panel, and why one could not be read."""
_UNSAID: Kept[tuple[str, str]] = Kept("_dropped_unsaid", lambda: ("", ""))
"""Accelerator that stays the bar's where a server's is not said, and the sentence on it, until
another is chosen."""
_PASTED: Kept[int] = Kept("_drops_pasted", int)
"""A new key closes the box after its text was read."""
_CLEARED: Kept[int] = Kept("_drops_cleared", int)


def uploader_key() -> str:
    """Key of the zone, a new one after everything was forgotten. So no file stands there that is
    not read."""
    return f"drop_{_CLEARED.result}"


def draw_drop_zone(scenario: Scenario) -> None:
    """The zone, a box for text, and what could not be read."""
    st.file_uploader(
        LABEL,
        key=uploader_key(),
        on_change=_take_files,
        args=(scenario,),
        accept_multiple_files=True,
        max_upload_size=upload_limit(MAX_BYTES),
        help=_HELP,
    )
    with st.container(horizontal=True, gap="small", key="drop_more"):
        pop = st.popover(
            "Paste text", width="content", type="tertiary", key=f"drop_paste_{_PASTED.result}"
        )
        with pop, st.form("drop_form", border=False):  # whose text Ctrl+Enter reads
            label = "Launch line, log, console block, CSV, JSON or rates"
            st.text_area(label, key="drop_text", max_chars=MAX_PASTED, placeholder=_LAUNCH_LINE)
            st.form_submit_button(
                "Read the text", key="read_drop_text", on_click=_take_text, args=(scenario,)
            )
        pop = st.popover(
            "Two numbers", width="content", type="tertiary", key=f"drop_values_{_PASTED.result}"
        )
        with pop, st.form("values_form", border=False):
            _draw_value_fields(scenario)
            st.form_submit_button(
                "Compare", key="read_values", on_click=_take_values, args=(scenario,)
            )
        if KINDS.result or session.FILES.result:
            st.button("Forget", key="forget", type="tertiary", on_click=forget, help=_FORGET)
        if not KINDS.result or (session.FILES.result and session.upload() is None):
            download(
                "Template (CSV)",
                template_csv(),
                "measurements-template.csv",
                "bench_template",
                quiet=True,
            )
    session_values = (traces.TRACE, traces.RATES, traces.POWER)
    if session.problem("file") and any(file.half_read for file in session.FILES.result):
        st.info(
            "Some columns are guessed by their names: confirm them below.", icon=":material/help:"
        )
    else:
        show_problem(session.problem("file"))
    for session_value in session_values:
        show_problem(session_value.problem)
    unsaid, open_ = _UNSAID.result
    notices = [
        *_SAID.result,
        *session.NOTES.result,
        *([open_] if unsaid == scenario.hardware_id else []),
    ]
    bar_names = []
    if "model_id" in FROM_BAR.result:
        bar_names.append(model_name(FROM_BAR.result["model_id"]))
    if "hardware_id" in FROM_BAR.result:
        gpus = FROM_BAR.result.get("gpu_count", 1)
        gpu_count = f"{gpus} × " if gpus > 1 else ""
        bar_names.append(f"{gpu_count}{hardware_called(FROM_BAR.result['hardware_id'])}")
    if bar_names:
        is_start = (scenario.model_id, scenario.hardware_id) == (
            START["model_id"],
            START["hardware_id"],
        )
        origin = ": set or paste yours" if is_start else ", from the bar"
        notices.append(f"Read as {' on '.join(bar_names)}{origin}.")
    if notices:
        st.caption(plain(" ".join(f"{notice.rstrip('.')}." for notice in notices)))


_LAUNCH_LINE = "vllm serve MODEL ... or python -m sglang.launch_server ..."
_FORGET = "Drops the files, your points on Serve, and a refit on them from every page that uses it."


_VALUES = {"without": "Without speculation", "with": "With speculation"}
_SETTINGS = {"batch_size": ("Batch", MAX_BATCH), "draft_tokens_k": ("Draft length K", MAX_DRAFT)}


def _draw_value_fields(scenario: Scenario) -> None:
    """A value without and one with speculation, what both count, batch and K."""
    with st.grid(2, min_column_width=150):
        for name, title in _VALUES.items():
            st.number_input(title, min_value=0.0, value=None, key=f"value_{name}")
    st.selectbox("Both are", METRICS, key="value_metric", format_func=_LABELS["metric"])
    with st.grid(2, min_column_width=150):
        for name, (title, most) in _SETTINGS.items():
            batch = scenario.batch_size if name == "batch_size" else None
            st.number_input(title, 1, most, value=batch, key=f"value_{name}")


def _take_values(scenario: Scenario) -> None:
    now = st.session_state
    _PASTED.put(_PASTED.result + 1)  # closes it: what is wrong stands below
    without = now.get("value_without")
    with_drafts = now.get("value_with")
    if not without or not with_drafts:
        complain("file", "Give both numbers, each above 0: without and with speculation.")
        return
    settings = {name: now.get(f"value_{name}") for name in _SETTINGS}
    data = two_values(without, with_drafts, now["value_metric"], settings)
    _take_beside(_TYPED, data, scenario)


_TYPED = "two numbers"


def _take_text(scenario: Scenario) -> None:
    text = str(st.session_state.get("drop_text") or "")
    if text.strip():
        _PASTED.put(_PASTED.result + 1)
        _take_beside(PASTED, text.encode("utf-8", errors="replace"), scenario)
        st.session_state["drop_text"] = ""  # the next text is not put behind it


def _take_beside(name: str, data: bytes, scenario: Scenario) -> None:
    """Take what was typed or pasted. A diagnosis is of both: numbers that stand, for a launch line
    that comes now, or the line for numbers."""
    kind = kind_of(name, data)
    before = dict(KINDS.result)
    others = {*_OF_RUNS} - {kind}
    beside = [
        file for file in diagnosis.given() if kind in _OF_RUNS and before.get(file.name) in others
    ]
    *_, apart = named_apart([*(file.name for file in beside), name])
    take({apart: data}, scenario, beside)


def _set_bar(stated: Mapping[str, str], scenario: Scenario) -> tuple[Scenario, list[str]]:
    """Make the server that a launch line names that of the bar. It, and a sentence that
    says so or why not."""
    server_scenario, problem = (
        attempt(session.scenario_launched, stated, scenario) if stated else (None, "")
    )
    if server_scenario is None or server_scenario == scenario:
        if not problem:
            return scenario, []
        return scenario, [f"The bar is not set to your server: {problem}"]
    show_other(server_scenario)
    of_server = (*session.FROM_SCENARIO, "weight_dtype", "kv_dtype", "engine_version")
    settings = [_briefly(name, stated[name]) for name in of_server if stated.get(name)]
    if "hardware_id" not in stated:
        as_it_was = (
            f"Accelerator not said: {hardware_label(server_scenario.hardware_id)} as it was."
        )
        _UNSAID.put((server_scenario.hardware_id, as_it_was))
    return server_scenario, [f"The bar is set to your server: {', '.join(settings)}."]


def _take_files(scenario: Scenario) -> None:
    uploaded_files = st.session_state.get(uploader_key()) or []
    _UNSAID.forget()
    if uploaded_files:
        names = named_apart(file.name for file in uploaded_files)
        contents = [file.getvalue() for file in uploaded_files]
        take(dict(zip(names, contents, strict=True)), scenario)
    else:
        forget()


_OF_RUNS: tuple[Kind, ...] = ("benchmark", "server")


def take(given: Mapping[str, bytes], scenario: Scenario, beside: Sequence[UserFile] = ()) -> None:
    """Send each file to its reader, those of one kind together. `beside` are runs that stand and
    are diagnosed too."""
    kinds = {name: kind_of(name, data) for name, data in given.items()}
    of_runs = [data for name, data in given.items() if kinds[name] in _OF_RUNS]
    scenario, as_launched = _set_bar(diagnosis.launched(of_runs), scenario)
    by_kind: dict[Kind, dict[str, bytes]] = {}
    for name, kind in kinds.items():
        by_kind.setdefault(kind, {})[name] = given[name]
    for session_value in (_SAID, NOTES):
        session_value.forget()
    session.complain("file", "")
    before = dict(KINDS.result)
    KINDS.put((*((file.name, before[file.name]) for file in beside), *kinds.items()))
    if benchmark := by_kind.get("benchmark"):
        session.take(benchmark, scenario)
    runs = [UserFile(name, data) for name, data in given.items() if kinds[name] in _OF_RUNS]
    read = {file.name for file in session.FILES.result}
    if runs and (not benchmark or read & benchmark.keys()):  # else what was read before stays
        diagnosis.give([*beside, *runs])
    if trace := by_kind.get("trace"):
        traces.take_trace(load_setup(scenario), list(trace.items()))
    if rates := by_kind.get("acceptance"):
        traces.take_acceptance(list(rates.items()))
    if watts := by_kind.get("power"):
        traces.POWER.take(read_power_log, *list(watts.items())[-1])
    notices = [
        *as_launched,
        *(_config(name, data) for name, data in by_kind.get("config", {}).items()),
    ]
    for name, data in by_kind.get("loads", {}).items():
        problem = attempt(take_loads, load_setup(scenario), name, data)[1]
        notices.append(
            problem or f"{name}: loads of experts. Serve > Why counts the ranks on them."
        )
    _SAID.put(tuple(notices))


def is_served() -> bool:
    """Whether something tells of a server: its launch line or its log."""
    return any(kind == "server" for _, kind in KINDS.result)


def _config(name: str, data: bytes) -> str:
    """Make the model of a config.json that of the bar. What became of it, in a sentence."""
    try:
        model = add_own_model(data.decode("utf-8-sig"), name)
    except (AdvisorError, UnicodeDecodeError) as error:
        return f"{name} cannot be used as a model: {error}"
    choose_model(model)
    architecture = own_model(own_models()[model], model)
    counts = parameter_counts(architecture)
    shape = (
        f"{sum(mixer.count for mixer in architecture.mixers)} layers, "
        f"{shape_label(architecture)}, {counts.total / 1e9:,.4g} B parameters"
    )
    return f"{name} is the model in the bar now: {model} ({shape}). Serve and Design answer for it."


def forget() -> None:
    """Drop everything that was given, what was learnt from it, and every prediction with a refit on
    it."""
    _CLEARED.put(_CLEARED.result + 1)
    session.forget()
    diagnosis.forget()
    traces.forget_all()
    LOADS_FILE.forget()
    stop_length()
    for session_value in (KINDS, _SAID, _UNSAID):
        session_value.forget()
    st.session_state["drop_text"] = ""


_YES_NO = {1: "yes, in these very runs", 0: "no, elsewhere"}
_FEW = 2
_STATED_NAMES = ("hardware_id", "model_id", "weight_dtype", "drafter")
"""Names that a file states and a user may know better, as they are offered."""


def read_as(read: Measured) -> list[tuple[str, str]]:
    """Pairs (meaning, column of the file)."""
    known = COLUMNS[read.kind]
    columns: dict[str, str] = {}
    chosen_headers = {
        ours: theirs for file in FILES.result for theirs, ours in file.columns.items()
    }
    for headers in (source.headers for source in read.sources):
        for ours, (theirs, _) in headers.items():
            if ours in read.frame and read.frame[ours].notna().any():
                columns.setdefault(ours, chosen_headers.get(theirs, theirs))
    metrics = list(read.frame["metric"].dropna().unique()) if "metric" in read.frame else []
    metric = (
        METRICS[str(metrics[0])].title if len(metrics) == 1 and str(metrics[0]) in METRICS else ""
    )
    metric = (
        metric[:1].lower() + metric[1:]
    )  # empty where there are no two values side by side, or several kinds
    titles = (
        {"baseline_value": f"Plain: {metric}", "sd_value": f"With drafts: {metric}"}
        if metric
        else {}
    )
    column_names = [name for name in columns if name in known and not (titles and name == "metric")]
    return [(titles.get(name, known[name].title), columns[name]) for name in column_names]


def told_apart() -> list[str]:
    """Values of the bar and those filled in, a line each:
    `From the bar: B200 SXM, gpt-oss-20b, vLLM`."""
    origins = (("From the bar", FROM_BAR.result), ("Filled in", filled_in()))
    return [
        f"{by}: {', '.join(_briefly(*entry) for entry in values.items())}."
        for by, values in origins
        if values
    ]


_BRIEF = {
    "gpu_count": "GPUs",
    "tensor_parallel": "TP",
    "expert_parallel": "EP",
    "weight_dtype": "weights",
}


def _briefly(name: str, value: Any) -> str:
    if name == "accepted_length_same_run":
        runs = "these" if int(value) else "other"
        return f"accepted lengths of {runs} runs"
    text = _named(name, value).replace(", ms", " (ms)")
    return text if name in _LABELS else f"{_BRIEF.get(name) or _title(name)} {text}"


def uncompared(read: Measured) -> set[tuple[str, ...]]:
    """Columns without which nothing is compared. A plain run of a rate alone is what a speedup was
    measured against."""
    absent = set(lacking(read.frame))
    return absent - {QUANTITIES} if read.frame["speedup"].notna().any() else absent


def asked_text(read: Measured) -> str:
    """Words for the title on fields still asked for."""
    needed = _needed(read)
    if not needed and not unknown_names(read) and uncompared(read) == {QUANTITIES}:
        return "add the run without drafts (K = 0), or a time per token"
    if (
        not needed
        or unknown_names(read)
        or any(item.name not in _NAMED or item.prefill is None for item in needed)
    ):
        few = needed and len(needed) <= _MOST_NAMED and not unknown_names(read)
        titles = [
            _ASKED_FOR.get(item.name, COLUMNS[read.kind][item.name].in_text) for item in needed
        ]
        return f"say {listed(titles)}" if few else "some values are missing"
    return f"confirm {', '.join(_NAMED[item.name].format(item.prefill) for item in needed)}"


_MOST_NAMED = 3
_ASKED_FOR = {"metric": "what is counted"}
_NAMED = {
    "batch_size": "batch {}",
    "draft_tokens_k": "K = {}",
    "metric": "what is counted",
    "drafter": "the drafter",
}
_FROM_NAME = {
    "draft_tokens_k": ("sd_value", "Draft length K in {}"),
    "metric": ("baseline_value", "What {} counts"),
    "drafter": ("sd_value", "Drafter of {}"),
}
"""Fields guessed from a column's name: the column of ours, and the label."""


def draw_open_fields(read: Measured, scenario: Scenario) -> None:
    """Ask for what is needed and nobody said. What stands in the fields is what a refit uses,
    filled in or not."""
    unknown = unknown_names(read)
    needed = _needed(read)
    if not needed and not unknown:
        return
    other = other_model(read, scenario)
    with st.container(border=True, key="missing_fields"):
        st.subheader("What the file does not say", anchor=False)
        if other and any(item.name in OF_THE_MODEL for item in needed):
            model_names = model_name(other), model_name(scenario.model_id)
            st.caption(
                plain(
                    "The file is of {}, the bar of {}: confirm GPUs and drafter.".format(
                        *model_names
                    )
                )
            )
        with st.grid(3, min_column_width=250):
            for name, names in unknown.items():
                label = (
                    f"{header_in(read, name) or _title(name)} says {', '.join(names[:3])}: which "
                    f"{_IN_TEXT[name]}?"
                )
                _field(label, name, None, f"known_{name}", first=boards_named(names[0]))
            for item in needed:
                guess = guess_of(item, other, scenario)
                if guess is None and item.name == "drafter" and other:
                    guess = usual_drafter(other)
                _missing_field(item, guess, read)
        st.button(
            "Confirm and compare",
            key="fill_in",
            type="primary",
            on_click=_fill_in,
            args=(scenario,),
        )
        show_problem(problem("fields"))


_IN_TEXT = {"hardware_id": "accelerator", "model_id": "model"}


def _needed(read: Measured) -> list[MissingField]:
    """Fields to ask for: where the tensor-parallel size is open, it says where the model lies
    before any other does."""
    needed = {item.name: item for item in read.missing if item.needed}
    tensor = [item for item in read.missing if item.name == "tensor_parallel"]
    if tensor and {"gpu_count", "data_parallel"} & needed.keys():
        needed = {
            name: item
            for name, item in needed.items()
            if name not in ("gpu_count", "data_parallel")
        }
        needed["tensor_parallel"] = tensor[0]
    return list(needed.values())


def _fill_in(scenario: Scenario) -> None:
    """Complete the upload with what stands in the fields, and say it. A file of other settings
    turns the bar."""
    values, override = shown()
    before = upload()
    if before is None or not fill_in(values, override, "fields") or (read := upload()) is None:
        return
    open_ = [f"{_title(name)} {names[0]}" for name, names in unknown_names(read).items()]
    if lacks(read):
        needed_names = {item.name for item in _needed(before)}
        open_ += [_title(item.name) for item in _needed(read) if item.name in needed_names]
    if open_:
        complain("fields", f"Still open: {', '.join(open_)}.")
    another = not lacks(read) and not (
        attempt(advice_for, scenario)[0] and len(rows_of(read.frame, scenario))
    )
    NOTES.forget()
    if another and (theirs := scenario_of(read.frame, scenario)) is not None:
        show_other(theirs)
        NOTES.put(
            [
                f"The bar is set to {model_name(theirs.model_id)} on "
                f"{hardware_called(theirs.hardware_id)}"
            ]
        )


def draw_more_fields(read: Measured, scenario: Scenario) -> None:
    """Fields that may stay empty, and names as they were read: for whoever knows better."""
    for item in read.missing:
        if not item.needed:
            _missing_field(item, item.prefill, read)
    for name in _STATED_NAMES:
        if name in read.frame and (names := sorted(read.frame[name].dropna().unique())):
            _field(
                f"{_title(name)}: {', '.join(names[:4])}; read all rows as",
                name,
                None,
                f"stated_{name}",
            )
    st.button("Fill in", key="fill_in_more", on_click=_fill_in, args=(scenario,))


def _missing_field(item: MissingField, guess: Any, read: Measured) -> None:
    """One field, by its meaning or by the column that suggests it; of a few rows that lack it,
    which."""
    empty = read.frame.index[read.frame[item.name].isna()]
    line_numbers = ", ".join(map(str, dict.fromkeys(map(read.own_line, empty))))
    lines = f" (line {line_numbers})" if item.rows == len(empty) <= _FEW < len(read.frame) else ""
    some = f", missing in {counted(item.rows, 'row')}{lines}" if item.rows < read.rows_kept else ""
    label = f"{_title(item.name)}{some}"
    meaning = item.meaning
    column, words = _FROM_NAME.get(item.name, ("", ""))
    if (
        item.needed
        and (item.prefill is not None or item.name == "metric")
        and (header := header_in(read, column))
    ):
        cells = next(
            (
                file_header.cells
                for file in FILES.result
                for file_header in file.headers
                if header in (file_header.theirs, file_header.stands)
            ),
            (),
        )
        label = words.format(header) + (f" ({', '.join(cells)})" if cells else "")
    if files := one_a_file(item.name):
        label += "; one for all files, or one for each"
        meaning += f". One for each file: separated by commas, in this order: {', '.join(files)}"
    _field(label, item.name, guess, f"missing_{item.name}", meaning)


def _title(name: str) -> str:
    column = COLUMNS["points"].get(name) or COLUMNS["kernels"][name]
    return "What is counted" if name == "metric" else column.title


def _engine_name(text: str) -> str:
    engine = engine_called(text)
    return text if engine is None else engine.name


_LABELS: dict[str, Callable[[str], str]] = {
    "hardware_id": lambda text: hardware_label(hardware_meant(text) or text),
    "model_id": lambda text: model_label(model_meant(text) or text),
    "engine": _engine_name,
    "drafter": drafter_name,
    "metric": lambda name: METRICS[name].title,
}
"""Names of what is chosen; typed ones are read as a file's cells are."""


def _named(name: str, value: Any) -> str:
    """A value as it is shown."""
    if name == "accepted_length_same_run":
        return _YES_NO[int(value)]
    if name in _LABELS:
        return _LABELS[name](str(value))
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _field(
    label: str, name: str, guess: Any, key: str, meaning: str = "", first: Sequence[str] = ()
) -> Any:
    """A text box, or a list of names that finds by any usual spelling; `first` are the likeliest of
    them."""
    read = upload()
    choices: dict[str, list[Any]] = {
        "hardware_id": [*first, *own_hardware(), *hardware_by_vendor()],
        "model_id": [*own_models(), *models_by_name()],
        "engine": engine_ids(),
        "drafter": list(drafter_ids()),
        "accepted_length_same_run": list(_YES_NO),
        "metric": metrics_in_unit(header_in(read, "baseline_value") if read else ""),
    }
    options = list(dict.fromkeys(choices.get(name, ())))
    help_text = plain(meaning) or None
    if not options:
        return st.text_input(
            plain(label), "" if guess is None else str(guess), key=key, help=help_text
        )
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
_SAID_OF = {"": "Not said", "decimal": "Decimals", "thousands": "Thousands"}
MAX_FIELDS = 40
"""Columns asked for, those first that nothing is read from."""


def draw_mapping_panel(scenario: Scenario) -> None:
    """A form for each file that can be mapped, open where it could not be read or columns look
    swapped."""
    files = FILES.result
    read = upload()
    swapped = read is not None and bool(read.swapped)
    doubtful = swapped or bool(likely_columns())
    for number, file in enumerate(files):
        if file.headers:
            _form(number, file, scenario, len(files) > 1, doubtful and not file.chosen)


def _form(number: int, file: UploadFile, scenario: Scenario, several: bool, doubtful: bool) -> None:
    """The form of one file; `several`: its name is said."""
    unused_note = (
        f" ({counted(file.unused, 'column')} to confirm)"
        if file.unused and file.rows is not None
        else ""
    )
    place = f" in {plain(file.name)}" if several else ""
    label = f"Which column is which{place}{unused_note}"
    of = f"{number}_" if several else ""
    with (
        st.expander(label, expanded=file.rows is None or doubtful or bool(file.asked)),
        st.form(f"column_mapping_{number}", border=False),
    ):
        st.caption(
            "Each column with its first values. Likely meanings first; type to search. Times need "
            "a unit."
        )
        chosen: dict[str, str] = {}
        for question in file.asked:
            st.warning(
                plain(f"{question.text[0].upper()}{question.text[1:]}"), icon=":material/help:"
            )
            key = "comma" if question.key == COMMA else question.key
            chosen[question.key] = st.selectbox(
                _ASKED[question.key],
                ["", *ANSWERS[question.key]],
                key=f"map_{of}{key}",
                format_func=lambda meaning: _SAID_OF.get(meaning, meaning),
            )
        headers = sorted(file.headers, key=lambda header: header.native == header.ours)[:MAX_FIELDS]
        with st.grid(3, min_column_width=200):
            for item in headers:
                options = likely_targets(item, file.kind)
                chosen[item.theirs] = st.selectbox(
                    plain(f"{item.stands or item.theirs}: {', '.join(item.cells)}"),
                    options,
                    index=options.index(item.ours),
                    key=f"map_{of}{item.theirs}",
                    format_func=functools.partial(target_label, kind=file.kind),
                )
        look: Literal["primary", "secondary"] = (
            "primary" if file.rows is None or doubtful else "secondary"
        )
        if st.form_submit_button(
            "Read with these columns", key=f"read_columns_{number}", type=look
        ):
            read_with(number, {item.theirs: item.ours for item in file.headers} | chosen, scenario)
            st.rerun()
        show_problem(problem(f"columns {number}"))
        if len(file.headers) > MAX_FIELDS:
            st.caption(
                f"{len(file.headers) - MAX_FIELDS} more columns have no field: leave some out of "
                "the file."
            )
