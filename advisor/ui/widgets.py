"""Pieces that several pages draw: the answer or its problem, a chart with its data, notes.

How was this made: a dialog with inputs, formulas, numbers, sources and the measured points near one prediction.

A control asks (`ask`), in a callback; the page opens the dialog at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.design.space import DesignSpace
from advisor.catalog.hardware import model_name
from advisor.measured.ingest.upload import MIB
from advisor.physics.bands import SIMULATED
from advisor.predict.band_parts import band_parts
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.charts.figure import Chart
from advisor.show.explain.round import Derivation, derive
from advisor.show.explain.steps import Quantity, Step, step_latex, value_text
from advisor.show.report.build import scenario_settings
from advisor.show.table import Table
from advisor.text import frame_csv
from advisor.ui.answers import Nearby, advice_for, nearby_for
from advisor.ui.own_data import ranks_banner, refit_banner, sweep_banner
from advisor.ui.server import themed
from advisor.ui.session import Slot, nothing
from advisor.ui.state import config_problem, escaped, link_notes, scenario_or_problem


def scenario_or_stop() -> Scenario:
    """The scenario of this run, or the reason that there is none and the end of the page."""
    for note in link_notes():
        st.warning(note, icon=":material/link_off:")
    scenario, problem = scenario_or_problem()
    if config_problem() and scenario is not None:
        st.warning(
            f"Your config.json is not usable; this answers for {plain(model_name(scenario.model_id))}. More says why.",
            icon=":material/error:",
        )
    if scenario is None:
        stop_with(problem or "Choose a model, an accelerator and a drafter above.")
    refit_banner(scenario)
    ranks_banner(scenario)
    sweep_banner(scenario)
    return scenario


def advice_or_stop(scenario: Scenario) -> Advice:
    """The answer to a scenario, or one message on why there is none and the end of the page."""
    try:
        return advice_for(scenario)
    except AdvisorError as error:
        stop_with(str(error))


def stop_with(problem: str) -> NoReturn:
    """One clear message, then nothing more on this page."""
    st.title("No answer for this scenario", anchor=False)
    st.error(plain(problem), icon=":material/error:")
    st.caption("Change it in the bar above.")
    st.stop()


def place(text: str) -> None:
    """Words over the title for what the page answers for.

    The folded bar of a telephone says it already, so not there.
    """
    with st.container(key="place"):
        st.markdown(text)


def show_chart(chart: Chart, key: str, scenario: Scenario, *, select_key: str = "") -> None:
    """A chart with its alt text, and its numbers as CSV. Its points can be clicked where `select_key` is given."""
    st.plotly_chart(
        themed(chart.figure),
        key=select_key or key,
        alt=chart.alt,
        config={"displaylogo": False, "displayModeBar": False},
        on_select="rerun" if select_key else "ignore",
        selection_mode="points",
    )
    if chart.left_out:
        st.caption(chart.left_out)
    st.download_button(
        "Data as CSV",
        csv_bytes(chart.data, scenario.hash),
        file_name=f"{key}-{scenario.hash}.csv",
        mime="text/csv",
        key=f"{key}_csv",
        type="tertiary",
        icon=":material/download:",
        on_click="ignore",
    )


def show_table(table: Table[Any]) -> None:
    """A table as it reads, words and numbers as text."""
    st.dataframe(table.frame.map(plain), hide_index=True)


def csv_bytes(data: pd.DataFrame, scenario_hash: str) -> bytes:
    """CSV with the scenario's hash in its first column.

    Text that a spreadsheet would run as a formula is quoted.
    """
    return frame_csv(data, scenario_hash).encode()


def show_warnings(advice: Advice) -> None:
    """All warnings of an answer in one box."""
    if advice.warnings:
        st.warning("\n".join(f"- {plain(warning)}" for warning in advice.warnings))


def accepted_from(answer: Advice | DesignSpace) -> str:
    """Accepted length that an answer rests on, in one sentence without markup."""
    acceptance = answer.setup.acceptance
    source = acceptance.source.removeprefix("accepted length ")
    return f"Accepted length: {source}{' (of another model, drafter or run)' if acceptance.borrowed else ''}."


def acceptance_note(answer: Advice | DesignSpace) -> str:
    """Accepted length that an answer rests on, for a Markdown element."""
    return plain(accepted_from(answer))


def upload_limit(most_bytes: int) -> int:
    """An uploader's limit: what its reader takes, but no more than the server lets in. [MiB]"""
    return min(most_bytes // MIB, int(st.get_option("server.maxUploadSize")))


plain = escaped
LABEL = "How was this made"
ANSWER, PLAIN, VERIFY, DRAFT, BAND, NEAR, INPUTS, CONSTANTS = SECTIONS = (
    "Answer",
    "Plain step",
    "Verification",
    "Drafting",
    "Band",
    "Measured nearby",
    "Inputs",
    "Constants",
)


@dataclass(frozen=True)
class AskedPoint:
    """Point that is asked about, and the section that opens first."""

    batch_size: float
    n_draft: int
    section: str = ANSWER


_BATCH, _K, _SECTION = "how_batch_size", "how_k_draft", "how_section"
"""Keys of the dialog's own widgets."""
_ASKED: Slot[AskedPoint | None] = Slot("_how_made", nothing)


def ask(batch_size: float, n_draft: int, section: str = ANSWER) -> None:
    """Callback: open the dialog on this point at the end of the run."""
    _ASKED.put(AskedPoint(batch_size, n_draft, section))


def pop_question() -> AskedPoint | None:
    """Question asked in this run, for pages whose subject is not the scenario's own model."""
    return _ASKED.take()


def button(batch_size: float, n_draft: int, section: str, key: str, label: str = LABEL) -> None:
    """The control beside a number."""
    st.button(
        label,
        key=f"how_{key}",
        type="tertiary",
        icon=":material/function:",
        on_click=ask,
        args=(batch_size, n_draft, section),
    )


@dataclass(frozen=True)
class Subject:
    """Subject of a question: a scenario, or a design that is not one yet."""

    setup: Setup
    batches: tuple[int, ...]
    settings: tuple[tuple[str, str], ...]
    nearby: Callable[[float, int], Nearby]


def open_if_asked(advice: Advice) -> None:
    """Dialog, if a control or chart asked for it in this run, at the end of a page."""
    question = pop_question()
    if question is not None:
        rows = tuple((item.label, item.value) for item in scenario_settings(advice))
        look = functools.partial(nearby_for, advice)
        open_on(Subject(advice.setup, tuple(int(batch) for batch in advice.curve.batches), rows, look), question)


def open_on(subject: Subject, question: AskedPoint) -> None:
    """The dialog on the point asked about, whatever it showed when it was last open."""
    drafts = list(range(subject.setup.scenario.k_max + 1 if subject.setup.drafter.kind != "none" else 1))
    now = st.session_state
    now[_BATCH], now[_K], now[_SECTION] = int(question.batch_size), min(question.n_draft, drafts[-1]), question.section
    _dialog(subject, sorted({*subject.batches, int(question.batch_size)}), drafts)


@st.dialog(LABEL, width="large")
def _dialog(subject: Subject, batches: Sequence[int], drafts: Sequence[int]) -> None:
    setup = subject.setup
    left, right = st.columns(2)
    batch = left.selectbox("Batch", batches, key=_BATCH)
    k = right.selectbox("K", drafts, key=_K)
    made = derive(setup, float(batch), int(k))
    st.markdown(_headline(made))
    section = st.segmented_control("Show", SECTIONS, required=True, key=_SECTION)
    if section == BAND:
        _band(setup, made)
    elif section == NEAR:
        _near(subject, made)
    elif section == INPUTS:
        st.dataframe(pd.DataFrame(subject.settings, columns=["Setting", "Value"]), hide_index=True)
        st.caption(plain(f"Accepted length: {setup.acceptance.source.removeprefix('accepted length ')}."))
        st.caption(plain(f"{setup.cache.sentence}. {setup.routing_because}"))
    elif section == CONSTANTS:
        constants_table(made)
    else:
        # A sum before its parts: what a reader came for.
        found = [step for step in made.steps if step.group == section]
        _steps(sorted(found, key=lambda step: not step.id.endswith(".total")))


def _headline(made: Derivation) -> str:
    shown = ("speedup", "tpot", "tokens_per_s_per_gpu")
    speedup, tpot, rate = (made.step(name).result for name in shown)
    per_gpu = f"{value_text(rate).removesuffix('/s')} tokens/s per GPU"
    return f"**Predicted speedup {speedup.value:.2f}×**, {value_text(tpot)} per output token, {per_gpu}."


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
    st.caption("Formulas: docs/model.md. Four digits are shown; the result is computed with all of them.")


def _band(setup: Setup, made: Derivation) -> None:
    parts = band_parts(setup, made.batch_size, made.n_draft)
    st.markdown("The likely range that each kind of uncertainty would give alone:")
    rows = [(part.what, part.low, part.high, part.share * 100) for part in parts]
    number = st.column_config.NumberColumn
    st.dataframe(
        pd.DataFrame(rows, columns=["Uncertain", "Low", "High", "Share of the variance"]),
        hide_index=True,
        column_config={
            "Low": number(format="%.2fx"),
            "High": number(format="%.2fx"),
            "Share of the variance": number(format="%.0f%%"),
        },
    )
    st.caption(f"{SIMULATED}, the same with and without drafts: what both share cancels in the ratio.")


def _near(subject: Subject, made: Derivation) -> None:
    kernels, speedups = subject.nearby(made.batch_size, made.n_draft)
    if kernels is None:
        st.info("No measured tables here, so no measured points: Trust says how to build it.")
        return
    st.markdown("Published speedups of this accelerator, model and number of GPUs:")
    if speedups is None or speedups.empty:
        st.info("None is known.")
    else:
        k = speedups["n_draft"].map(lambda drafts: "not stated" if pd.isna(drafts) else f"{drafts:.0f}")
        st.dataframe(speedups.assign(n_draft=k).rename(columns=_SPEEDUP_TITLES), hide_index=True)
    st.markdown("Kernel measurements nearest in shape and load, against the model at that very shape:")
    if kernels.empty:
        st.info("No kernel of this scenario was measured here: its costs are a datasheet roofline.")
    else:
        st.dataframe(_kernel_table(kernels), hide_index=True)
        wanted = kernels[["part", "step", "wanted"]].drop_duplicates()
        st.caption("  \n".join(f"{row.part}, {row.step} step needs {row.wanted}." for row in wanted.itertuples()))


_SPEEDUP_TITLES = {
    "batch_size": "Batch",
    "n_draft": "K",
    "speedup": "Measured speedup",
    "drafter": "Drafter",
    "tensor_parallel": "TP",
    "source": "Source",
}


def _kernel_table(kernels: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Part": kernels["part"],
            "Step": kernels["step"],
            "Measured at": kernels["measured_at"],
            "Measured": [value_text(Quantity(seconds, "s")) for seconds in kernels["measured_s"]],
            "Model": [value_text(Quantity(seconds, "s")) for seconds in kernels["model_s"]],
            "Model / measured": kernels["ratio"].round(2),
            "Fit": kernels["record"],
        }
    )


def constants_table(made: Derivation) -> None:
    """Every constant of a derivation with tier, standard error and source."""
    rows = [
        {
            "Constant": f"{use.name} ({use.symbol})",
            "Value": value_text(Quantity(use.value, use.unit)),
            "Standard error": "" if use.stderr is None else value_text(Quantity(use.stderr, use.unit)),
            "Tier": use.tier,
            "Source": use.source,
        }
        for use in made.constants
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
