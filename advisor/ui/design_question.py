"""The question of the Design space page: its controls, bound to the address, and the cached answer to it."""

from __future__ import annotations

import hashlib

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.design import OBJECTIVES, DesignAnswer, Objective, design_answer, design_space, parse_batches
from advisor.prediction import AdvisorError, Frozen
from advisor.quality import DEFAULT_EPS
from advisor.scenario import Scenario
from advisor.text import MERITS
from advisor.ui import state, widgets
from advisor.ui.remembered import remembered

OBJECTIVE_NAMES: dict[str, Objective] = {MERITS[name].long or MERITS[name].name: name for name in OBJECTIVES}
CANDIDATES = 12
_BILLION, _TRILLION = 1e9, 1e12
_LIMITS = {
    "design_tokens": ("Training tokens (trillions)", "The same for every design."),
    "design_total_params": ("Largest total size (B)", "Billions of parameters."),
    "design_tpot": ("Time per output token (ms)", "At most this, at every batch. Empty: the sidebar's."),
    "design_memory": ("Memory per GPU (GB)", "Empty: 90% of the accelerator's."),
    "design_price": ("Price of a GPU (USD/hour)", "For the cost objective. Empty: the accelerator profile's."),
}


class DesignQuestion(Frozen):
    """What the controls ask. Limits of None are not set."""

    objective: Objective = "tpot"
    batches: str = ""
    """As typed; empty: the scenario's batch."""
    quality_eps: float = DEFAULT_EPS
    training_tokens: float | None = None
    max_total_params: float | None = None
    max_tpot_ms: float | None = None
    """None: the scenario's."""
    max_memory_bytes: float | None = None
    price_usd_per_hour: float | None = None

    def tag(self, scenario: Scenario) -> str:
        """Short name of this question about this scenario."""
        return hashlib.sha256((scenario.hash + self.model_dump_json()).encode()).hexdigest()[:12]


def draw(scenario: Scenario) -> DesignQuestion:
    """The controls, and the question they ask."""
    first, second, third = st.columns([2, 2, 1])
    with first:
        name = st.selectbox(
            "Objective", list(OBJECTIVE_NAMES), key="design_objective", bind="query-params",
            help="Speedup is a ratio to the design's own plain decoding. The other three are absolute.",
        )  # fmt: skip
    with second:
        batches = st.text_input(
            "Target batches", key="design_batches", bind="query-params", placeholder=str(scenario.batch_size),
            help="`64`, a list `1,16,64`, a range `1-512`, or a histogram `1:0.2,64:0.8` with the share of tokens "
            "generated at each batch. Empty: the batch in the sidebar.",
        )  # fmt: skip
    with third:
        eps = st.number_input(
            "Quality loss (%)", 0.0, 50.0, DEFAULT_EPS * 100, 0.5, key="design_quality", bind="query-params",
            help="Share of the baseline's dense-equivalent size that a design may give up.",
        )  # fmt: skip
    given = any(st.session_state.get(key) is not None or key in st.query_params for key in _LIMITS)
    with (
        st.expander("Training tokens and limits", expanded=given, icon=":material/tune:"),
        st.grid(5, min_column_width=165),
    ):
        tokens, total, tpot, memory, price = (_limit(key, *words) for key, words in _LIMITS.items())
    _say_what_a_link_missed()
    return DesignQuestion(
        objective=OBJECTIVE_NAMES[name],
        batches=batches.strip(),
        quality_eps=eps / 100,
        training_tokens=None if tokens is None else tokens * _TRILLION,
        max_total_params=None if total is None else total * _BILLION,
        max_tpot_ms=tpot,
        max_memory_bytes=None if memory is None else memory * _BILLION,
        price_usd_per_hour=price,
    )


def answer_or_stop(scenario: Scenario, question: DesignQuestion, head: DeltaGenerator) -> DesignAnswer:
    """The answer; when there is none, says why in `head`, with the controls left in place, and ends the page."""
    try:
        return answer_for(scenario, question)
    except AdvisorError as error:
        with head:
            widgets.stop_with(str(error))


@remembered(
    st.cache_resource, shared=12, own=4, spinner="Costing tens of thousands of designs ...", keys=(DesignQuestion,)
)
def answer_for(scenario: Scenario, question: DesignQuestion) -> DesignAnswer:
    """The search, remembered. Raises AdvisorError as the search does."""
    asked = question.model_dump() | {"batches": parse_batches(question.batches) if question.batches else None}
    return design_answer(design_space(scenario, **asked), CANDIDATES)


def _limit(key: str, label: str, help_text: str) -> float | None:
    return st.number_input(
        label, min_value=0.001, max_value=1e9, value=None, key=key, bind="query-params", placeholder="not set",
        help=help_text,
    )  # fmt: skip


def _say_what_a_link_missed() -> None:
    for note in state.page_link_notes("design_"):
        st.warning(widgets.plain(note), icon=":material/link_off:")
