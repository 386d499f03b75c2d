"""The one drop zone: whatever is given goes by its content to the panel that reads it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.given import Kind, is_prose, kind_of
from advisor.measured.ingest.columns import template_csv
from advisor.measured.ingest.traces import read_power_log
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.measured.readers.prose import complaint_of
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.ui.lab.ranks import LOADS_FILE, take_loads
from advisor.ui.measure import diagnosis, session, traces
from advisor.ui.measure.traces import PASTED
from advisor.ui.own_data import stop_length
from advisor.ui.session import Kept, attempt
from advisor.ui.state import add_own_model, choose_model, plain
from advisor.ui.widgets import download, show_problem, upload_limit

LABEL = "Drop anything: benchmark CSV or JSON, server log, launch line, config.json"
MAX_PASTED = 1_000_000  # characters; longer logs are given as files
_HELP = (
    "Files of one sweep together, plain runs among them. Also a routing trace, loads of experts, /metrics or a list of "
    "acceptance rates, a power log. Everything stays in this session."
)
KINDS: Kept[tuple[tuple[str, Kind], ...]] = Kept("_dropped_kinds", tuple)
"""Name and kind of each file given."""
_SAID: Kept[tuple[str, ...]] = Kept("_dropped_said", tuple)
"""What was done with a file that has no panel, and why one could not be read."""
_PASTED: Kept[int] = Kept("_drops_pasted", int)
"""A new key closes the box after its text was read."""
_CLEARED: Kept[int] = Kept("_drops_cleared", int)


_PASTE = (
    "No run was found in the text. Paste the launch line (vllm serve ..., python -m sglang.launch_server ...), both "
    "numbers in words (TPOT 18 ms without, 24 ms with MTP at concurrency 64), a benchmark's output or a table."
)


def uploader_key() -> str:
    """Key of the zone, a new one after everything was forgotten. So no file stands there that is not read."""
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
        pop = st.popover("Paste text", width="content", type="tertiary", key=f"drop_paste_{_PASTED.result}")
        with pop, st.form("drop_form", border=False):  # whose text Ctrl+Enter reads
            st.text_area("Launch line, log, console block, CSV, JSON or rates", key="drop_text", max_chars=MAX_PASTED)
            st.form_submit_button("Read the text", key="read_drop_text", on_click=_take_text, args=(scenario,))
        if KINDS.result or session.FILES.result or diagnosis.COMPLAINT.result is not None:
            st.button("Forget", key="forget", type="tertiary", on_click=forget, help=_FORGET)
        else:
            download("Template (CSV)", template_csv(), "measurements-template.csv", "bench_template", quiet=True)
    kept = (traces.TRACE, traces.RATES, traces.POWER)
    if session.problem("file") and any(file.half_read for file in session.FILES.result):
        st.info("Some columns are guessed by their names: confirm them below.", icon=":material/help:")
    else:
        show_problem(session.problem("file"))
    for one in kept:
        show_problem(one.problem)
    for said in (*_SAID.result, *session.NOTES.result):
        st.info(plain(said))


_FORGET = "Drops the files, your points on Serve, and a refit on them from every page that uses it."


_TAKEN = (
    ("Benchmark, CSV or JSON, with its K = 0 runs", "Verdict, parts of the gap, refit"),
    ("Launch line, server log, console output", "Cause, and the remedy in numbers"),
    ("config.json", "The model in the bar"),
    ("/metrics, acceptance rates", "Accepted length by K"),
    ("Routing trace, loads of experts", "Experts touched, ranks"),
    ("nvidia-smi or dcgmi log", "Power at work"),
)


def draw_what_goes_in() -> None:
    """Kinds of files and their answers."""
    st.markdown("\n".join(["| Drop | Get |", "|---|---|", *(f"| {kind} | {answer} |" for kind, answer in _TAKEN)]))


def _take_text(scenario: Scenario) -> None:
    text = str(st.session_state.get("drop_text") or "")
    if text.strip() and is_prose(text):
        diagnosis.forget()
        KINDS.put(tuple(one for one in KINDS.result if one[1] != "server"))
        session.complain("file", "" if (told := complaint_of(text)) is not None else _PASTE)
        diagnosis.COMPLAINT.put(told)
        _PASTED.put(_PASTED.result + (told is not None))
    elif text.strip():
        _PASTED.put(_PASTED.result + 1)
        take({PASTED: text.encode("utf-8", errors="replace")}, scenario)


def _take_files(scenario: Scenario) -> None:
    given = st.session_state.get(uploader_key()) or []
    if given:
        names = [item.name for item in given]
        numbered = {f"{name} ({i})" if name in names[:i] else name: given[i] for i, name in enumerate(names)}
        take({name: item.getvalue() for name, item in numbered.items()}, scenario)
    else:
        forget()


def take(given: Mapping[str, bytes], scenario: Scenario) -> None:
    """Send each file to its reader, those of one kind together."""
    kinds = {name: kind_of(name, data) for name, data in given.items()}
    by_kind: dict[Kind, dict[str, bytes]] = {}
    for name, kind in kinds.items():
        by_kind.setdefault(kind, {})[name] = given[name]
    _SAID.forget()
    session.complain("file", "")
    KINDS.put(tuple(kinds.items()))
    if benchmark := by_kind.get("benchmark"):
        session.take(benchmark, scenario)
    runs = [UserFile(name, data) for name, data in given.items() if kinds[name] in ("benchmark", "server")]
    if runs:
        diagnosis.give(runs)
    if trace := by_kind.get("trace"):
        traces.take_trace(load_setup(scenario), list(trace.items()))
    if rates := by_kind.get("acceptance"):
        traces.take_acceptance(list(rates.items()))
    if watts := by_kind.get("power"):
        traces.POWER.take(read_power_log, *list(watts.items())[-1])
    said = [_config(name, data) for name, data in by_kind.get("config", {}).items()]
    said += [_loads(name, data, scenario) for name, data in by_kind.get("loads", {}).items()]
    _SAID.put(tuple(said))


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
    return f"{name} is the model in the bar now: {model}. Serve and Design answer for it."


def _loads(name: str, data: bytes, scenario: Scenario) -> str:
    _, problem = attempt(take_loads, load_setup(scenario), name, data)
    return problem or f"{name}: loads of experts. Lab counts the ranks on them."


def forget() -> None:
    """Drop everything that was given, what was learnt from it, and every prediction with a refit on it."""
    _CLEARED.put(_CLEARED.result + 1)
    session.forget()
    diagnosis.forget()
    traces.forget_all()
    LOADS_FILE.forget()
    stop_length()
    for kept in (KINDS, _SAID):
        kept.forget()
