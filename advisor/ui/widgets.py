"""Pieces that several pages draw: the answer or its problem, charts, tables, and how a number was
made.

For the last a control asks (`ask`), in a callback; the page opens the dialog at its end.
"""

from __future__ import annotations

import math
import mimetypes
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice, band_parts
from advisor.answers.design.space import DesignSpace
from advisor.catalog.hardware import model_name
from advisor.measured.ingest.upload import MIB
from advisor.measured.points import for_users
from advisor.physics.bands import BAND_LEVEL, SIMULATED
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.figure import Chart
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import Step, step_latex, value_text
from advisor.show.live_file import browser_text
from advisor.show.phrases.notes import note_texts
from advisor.show.table import Table, capital, matrix
from advisor.show.words.compare import setting_lines
from advisor.show.words.explain import BAND_PARTS, CONSTANTS, KERNELS, PUBLISHED
from advisor.text import frame_csv, screen_style, typeset
from advisor.ui.answers import advice_for, nearby_for
from advisor.ui.own_data import length_banner, ranks_banner, refit_banner, sweep_banner
from advisor.ui.server import themed
from advisor.ui.session import Kept, attempt
from advisor.ui.state import CONFIG_FROM, link_notes, plain, scenario_or_problem

T = TypeVar("T")


def scenario_or_stop() -> Scenario:
    """The scenario of this run, or the reason that there is none and the end of the page."""
    for note in link_notes():
        st.warning(note, icon=":material/link_off:")
    scenario, problem = scenario_or_problem()
    if CONFIG_FROM.problem and scenario is not None:
        st.warning(
            (
                "Your config.json is not usable; this answers for "
                f"{plain(model_name(scenario.model_id))}. More says why."
            ),
            icon=":material/error:",
        )
    if scenario is None:
        stop_with(problem or "Choose a model, an accelerator and a drafter above.")
    refit_banner(scenario)
    ranks_banner(scenario)
    sweep_banner(scenario)
    length_banner(scenario)
    return scenario


def advice_or_stop(scenario: Scenario) -> Advice:
    """The answer to a scenario, or one message on why there is none and the end of the page."""
    try:
        return advice_for(scenario)
    except AdvisorError as error:
        stop_with(str(error))


def show_problem(problem: str) -> None:
    """Say in a box that something went wrong. Nothing for an empty text."""
    if problem:
        st.error(plain(for_users(problem)), icon=":material/error:")


def tried(action: Callable[..., T], *arguments: Any) -> T | None:
    """Result of a call, or its error in a box and None."""
    result, problem = attempt(action, *arguments)
    show_problem(problem)
    return result


def stop_with(problem: str) -> NoReturn:
    """One clear message, then nothing more on this page."""
    st.title("No answer for this scenario", anchor=False)
    show_problem(problem)
    st.caption("Change it in the bar above.")
    st.stop()


def show_plot(chart: Chart, key: str) -> None:
    """A chart with its alt text alone."""
    st.plotly_chart(
        themed(chart.figure),
        key=key,
        alt=screen_style(chart.alt),
        config={"displaylogo": False, "displayModeBar": False},
    )


def show_chart(chart: Chart, key: str, scenario: Scenario) -> None:
    """A chart with its alt text, and its numbers as CSV."""
    show_plot(chart, key)
    if chart.left_out:
        st.caption(chart.left_out)
    data = frame_csv(chart.data, scenario.hash)
    download("Data as CSV", data, f"{key}-{scenario.hash}.csv", f"{key}_csv", quiet=True)


def download(
    label: str,
    data: Any,
    name: str,
    key: str,
    *,
    quiet: bool = False,
    icon: str = "download",
    **look: Any,
) -> None:
    """A button that hands out a file, or what `data` makes when asked, without a rerun. quiet :
    looks like a link."""
    look |= {"type": "tertiary"} if quiet else {}
    icon = f":material/{icon}:"
    mime = mimetypes.guess_type(name)[0]
    st.download_button(label, data, name, mime, key=key, icon=icon, on_click="ignore", **look)


_ROW_PX = 35
_ROWS = 14
_MAX_SHOWN = 2000
"""Height of a row; rows that are seen at once, and that a page has at most: files have all."""
_WIDEST = 420
"""Widest column of words. [px]"""


def show_table(
    table: Table[Any],
    key: str | None = None,
    *,
    pick: bool = False,
    widest: int = _WIDEST,
    lines: int = 1,
) -> int | None:
    """Draw a table as it reads.

    Its numbers sort by value. Returns the place of the row that is picked, None without one.

    pick : whether rows can be picked.
    widest, lines : widest column of words [px], and lines of a row, in which they wrap.
    """
    visible = replace(table, rows=table.rows[:_MAX_SHOWN])
    cells = [[screen_style(typeset(cell)) for cell in row] for row in visible.cells]
    texts = pd.DataFrame(cells, columns=[capital(label) for label in visible.header])
    frame = texts.copy()
    look = {}
    for head, align in zip(texts, table.align, strict=True):
        if align == "r":
            frame[head] = texts[head] = texts[head].str.replace(_RANGE, "\N{EN DASH}", regex=True)
        if align == "r" and (numbers := _numbers(texts[head])) is not None:
            frame[head] = numbers
            look[head] = dict(zip(numbers, texts[head], strict=True)).get
    # A column is as wide as its longest name: by itself it is measured by the rows in sight, and
    # cuts the others.
    widths = {
        head: st.column_config.Column(width=min(widest, 32 + 7 * int(texts[head].str.len().max())))
        for head, align in zip(texts, table.align, strict=True)
        if align == "l" and len(texts)
    }
    event: Any = st.dataframe(
        frame.style.format(look, na_rep="") if look else frame,
        hide_index=True,
        column_config=widths,
        placeholder="",
        key=key,
        row_height=_ROW_PX * lines,
        height="content" if len(frame) * lines <= _ROWS else _ROW_PX * (_ROWS + 1),
        on_select="rerun" if pick else "ignore",
        selection_mode="single-row",
    )
    if len(frame) < len(table.rows):
        st.caption(f"The first {_MAX_SHOWN:,} of {len(table.rows):,} rows; the files have all.")
    picked = [at for at in event["selection"]["rows"] if at < len(frame)] if pick else []
    return picked[0] if picked else None


_RANGE = r"(?<=\d)-(?=\d)"
_NUMBER = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?)([^\d()]*?)(?: \([^()]*\))?")
"""A number, its unit, and its band."""


def _numbers(texts: Iterable[str]) -> list[float | None] | None:
    """Numbers that texts of one unit begin with, None where one is empty. None where they are
    anything else.

    Equal numbers that read otherwise, for another band, are moved by the last digit: a text is
    found by its number.
    """
    numbers: list[float | None] = []
    units = set()
    known = dict[float, str]()
    for text in texts:
        match = _NUMBER.fullmatch(text)
        if text and match is None:
            return None
        number = None if match is None else float(match[1].replace(",", ""))
        while number is not None and known.setdefault(number, text) != text:
            number = math.nextafter(number, math.inf)
        numbers.append(number)
        units |= set() if match is None else {match[2]}
    return numbers if len(units) == 1 else None


def show_warnings(advice: Advice) -> None:
    """All warnings of an answer in one box."""
    if advice.notes:
        st.warning("\n".join(f"- {plain(text)}" for text in note_texts(advice.notes)))


def accepted_from(answer: Advice | DesignSpace) -> str:
    """Accepted length that an answer rests on, in one sentence without markup."""
    acceptance = answer.setup.acceptance
    source = acceptance.source.removeprefix("accepted length ")
    borrowed = " (of another model, drafter or run)" if acceptance.borrowed else ""
    return f"Accepted length: {source}{borrowed}."


def upload_limit(most_bytes: int) -> int:
    """An uploader's limit: what its reader takes, but no more than the server lets in. [MiB]"""
    return min(most_bytes // MIB, int(st.get_option("server.maxUploadSize")))


LABEL = "How computed"
SECTIONS = (
    "Answer",
    "Plain step",
    "Verification",
    "Drafting",
    "Band",
    "Measured nearby",
    "Inputs",
    "Constants",
)
_BATCH = "how_batch_size"
_K = "how_k_draft"
_SECTION = "how_section"
"""Keys of the dialog's own widgets."""
_ASKED: Kept[tuple[float, int, str] | None] = Kept("_how_made")


def ask(batch_size: float, n_draft: int) -> None:
    """Callback: open the dialog on this point at the end of the run."""
    _ASKED.put((batch_size, n_draft, SECTIONS[0]))


def open_if_asked(advice: Advice) -> None:
    """Open the dialog at the end of a page, if a control asked for it in this run."""
    question = _ASKED.pop()
    if question is None:
        return
    drafts = list(range(advice.scenario.k_max + 1 if advice.setup.drafter.kind != "none" else 1))
    now = st.session_state
    batch = int(question[0])
    now[_BATCH] = batch
    now[_K] = min(question[1], drafts[-1])
    now[_SECTION] = question[2]
    _dialog(advice, sorted({*map(int, advice.curve.batches), batch}), drafts)


@st.dialog(LABEL, width="large")
def _dialog(advice: Advice, batches: Sequence[int], drafts: Sequence[int]) -> None:
    setup = advice.setup
    left, right = st.columns(2)
    batch = left.selectbox("Batch", batches, key=_BATCH)
    k = right.selectbox("K", drafts, key=_K)
    derivation = derive(setup, float(batch), int(k))
    speedup = derivation.step("speedup").result
    tpot = derivation.step("tpot").result
    rate = derivation.step("tokens_per_s_per_gpu").result
    per_gpu = f"{value_text(rate).removesuffix('/s')} tokens/s per GPU"
    tier = advice.curve.tier_at(float(batch), int(k))
    st.markdown(
        f"**Predicted speedup {speedup.value:.2f}×** ({tier}), {value_text(tpot)} per output "
        f"token, {per_gpu}."
    )
    section = st.segmented_control("Show", SECTIONS, required=True, key=_SECTION)
    if section == "Band":
        st.markdown(f"The {BAND_LEVEL:.0%} band that each kind of uncertainty would give alone:")
        show_table(Table(BAND_PARTS, band_parts(setup, derivation.batch_size, derivation.n_draft)))
        st.caption(
            f"{SIMULATED}, the same with and without drafts: what both share cancels in the ratio."
        )
    elif section == "Measured nearby":
        _near(advice, derivation)
    elif section == "Inputs":
        show_table(matrix(("Setting", "Value"), list(setting_lines(advice.setup).items()), "ll"))
        st.caption(plain(accepted_from(advice)))
        st.caption(plain(f"{setup.cache.sentence}. {setup.routing_because}"))
    elif section == "Constants":
        constants_table(derivation)
    else:
        # A sum before its parts: what a reader came for.
        steps = [step for step in derivation.steps if step.group == section]
        _steps(sorted(steps, key=lambda step: not step.id.endswith(".total")))


def _steps(steps: Sequence[Step]) -> None:
    if not steps:
        st.info("Nothing is drafted with device time here.")
    for step in steps:
        st.markdown(f"**{plain(step.title)}**")
        st.latex(step_latex(step))
        notes = [step.note.rstrip(".") + "."] if step.note else []
        sources = dict.fromkeys(f"{use.tier}: {use.source}" for use in step.constants)
        if lines := [plain(text) for text in (*notes, *sources)]:
            st.caption("  \n".join(lines))
    st.caption(
        "Formulas: docs/model.md. Four digits are shown; the result is computed with all of them."
    )


def _near(advice: Advice, derivation: Derivation) -> None:
    kernels, speedups = nearby_for(advice, derivation.batch_size, derivation.n_draft)
    if kernels is None:
        st.info("No measured tables here, so no measured points: Trust says how to build it.")
        return
    if speedups is not None and len(speedups):
        st.markdown("Published speedups of this accelerator, model and number of GPUs:")
        show_table(Table(PUBLISHED, speedups.to_dict("records")))
    if kernels.empty:
        st.info("No kernel of this scenario was measured here: its costs are a datasheet roofline.")
        return
    st.markdown(
        "Kernel measurements nearest in shape and load, against the model at that very shape:"
    )
    show_table(Table(KERNELS, kernels.to_dict("records")))
    wanted = kernels[["part", "step", "wanted"]].drop_duplicates()
    st.caption(
        "  \n".join(
            f"{row.part}, {row.step} step needs {row.wanted}." for row in wanted.itertuples()
        )
    )


def constants_table(made: Derivation) -> None:
    """Every constant of a derivation with tier, standard error and source."""
    show_table(Table(CONSTANTS, list(dict.fromkeys(made.constants))))


def component(name: str, *scripts: str, style: str = "live.css") -> Any:
    """A component of the page of these scripts, joined: a component is one script. Its style is
    that of all components (tokens.css), then its own."""
    js = [browser_text(f"{script}.js") for script in scripts]
    css = browser_text("tokens.css") + browser_text(style)
    return st.components.v2.component(name, css=css, js="\n".join(js))
