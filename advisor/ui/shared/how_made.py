"""How was this made: a dialog with inputs, formulas, numbers, sources and the measured points near one prediction.

A control or a click on a chart asks (`ask`, `asked_by_chart`), in a callback; the page opens the dialog at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.bands import BAND_LEVEL, SIMULATED
from advisor.charts import MEASURED_POINT
from advisor.explain import Derivation, Quantity, Step, band_parts, derive, step_latex, value_text
from advisor.report import scenario_settings
from advisor.runtime import KRange
from advisor.setup import Setup
from advisor.ui.shared import answers, widgets
from advisor.ui.shared.session import Slot, nothing

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
    measured: str = ""
    """The measured point that was clicked, in words."""


_BATCH, _K, _SECTION = "how_batch_size", "how_k_draft", "how_section"
"""Keys of the dialog's own widgets."""
_ASKED: Slot[AskedPoint | None] = Slot("_how_made", nothing)


def ask(batch_size: float, n_draft: int, section: str = ANSWER) -> None:
    """Callback: open the dialog on this point at the end of the run."""
    _ASKED.put(AskedPoint(batch_size, n_draft, section))


def asked_by_chart(key: str, n_draft: int = 0) -> None:
    """Callback of a chart whose points carry (batch, K): open the dialog on the point that was clicked.

    A measured point opens on what was measured nearby, its source among it. n_draft : K of one that does not state its.
    """
    chosen = (dict(st.session_state.get(key) or {}).get("selection") or {}).get("points", [])
    for point in chosen:
        data = point.get("customdata") or []
        if len(data) >= 2:
            k = int(data[1]) if str(data[1]).isdigit() else n_draft
            if data[-1] == MEASURED_POINT:
                said = f"Measured {float(point['y']):.2f}× at batch {data[0]}, K {data[1]}: {data[3]}, {data[4]}."
                _ASKED.put(AskedPoint(float(data[0]), k, NEAR, said))
            else:
                ask(float(data[0]), k)
            return


def asked_by_table(key: str, ranges: Sequence[KRange]) -> None:
    """Callback of the table of K by batch: open the dialog on the range that was selected.

    It opens at the range's geometric middle.
    """
    rows = (dict(st.session_state.get(key) or {}).get("selection") or {}).get("rows", [])
    if rows:
        chosen = ranges[rows[0]]
        ask(round((chosen.batch_start * chosen.batch_end) ** 0.5), chosen.n_draft)


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
    nearby: Callable[[float, int], answers.Nearby]


def open_if_asked(advice: Advice) -> None:
    """Dialog, if a control or chart asked for it in this run, at the end of a page."""
    question = pop_question()
    if question is not None:
        rows = tuple((item.label, item.value) for item in scenario_settings(advice))
        look = functools.partial(answers.nearby_for, advice)
        open_on(Subject(advice.setup, tuple(int(batch) for batch in advice.curve.batches), rows, look), question)


def open_on(subject: Subject, question: AskedPoint) -> None:
    """The dialog on the point asked about, whatever it showed when it was last open."""
    drafts = list(range(subject.setup.scenario.k_max + 1 if subject.setup.drafter.kind != "none" else 1))
    now = st.session_state
    now[_BATCH], now[_K], now[_SECTION] = int(question.batch_size), min(question.n_draft, drafts[-1]), question.section
    _dialog(subject, sorted({*subject.batches, int(question.batch_size)}), drafts, question.measured)


@st.dialog(LABEL, width="large")
def _dialog(subject: Subject, batches: Sequence[int], drafts: Sequence[int], measured: str) -> None:
    setup = subject.setup
    left, right = st.columns(2)
    batch = left.selectbox("Batch", batches, key=_BATCH)
    k = right.selectbox("K", drafts, key=_K)
    made = derive(setup, float(batch), int(k))
    if measured:
        st.markdown(widgets.plain(measured))
    st.markdown(_headline(made))
    section = st.segmented_control("Show", SECTIONS, required=True, key=_SECTION)
    if section == BAND:
        _band(setup, made)
    elif section == NEAR:
        _near(subject, made)
    elif section == INPUTS:
        st.dataframe(pd.DataFrame(subject.settings, columns=["Setting", "Value"]), hide_index=True)
        st.caption(widgets.plain(f"Accepted length: {setup.acceptance.source.removeprefix('accepted length ')}."))
        st.caption(widgets.plain(f"{setup.cache.sentence}. {setup.routing_because}"))
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
        st.markdown(f"**{widgets.plain(step.title)}**")
        st.latex(step_latex(step))
        notes = [step.note.rstrip(".") + "."] if step.note else []
        sources = dict.fromkeys(f"{use.tier}: {use.source}" for use in step.constants)
        if lines := [widgets.plain(text) for text in (*notes, *sources)]:
            st.caption("  \n".join(lines))
    st.caption("Formulas: docs/model.md. Four digits are shown; the result is computed with all of them.")


def _band(setup: Setup, made: Derivation) -> None:
    parts = band_parts(setup, made.batch_size, made.n_draft)
    st.markdown(f"The {BAND_LEVEL:.0%} band that each kind of uncertainty would give alone:")
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
        st.info("No measured tables here, so no measured points: the page Data says how to build it.")
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
