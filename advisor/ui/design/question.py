"""The question of the Design space page: its controls, bound to the address, and the cached answer to it."""

from __future__ import annotations

import hashlib
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.design import OBJECTIVES, DesignAnswer, Objective, design_answer, design_space, parse_batches
from advisor.prediction import AdvisorError, Frozen
from advisor.quality import DEFAULT_EPS
from advisor.scenario import Scenario
from advisor.text import MERITS
from advisor.ui.design import start
from advisor.ui.shared import widgets
from advisor.ui.shared.remembered import remembered
from advisor.ui.shared.settings import LARGEST_LIMIT, SMALLEST_LIMIT

OBJECTIVE_NAMES: dict[str, Objective] = {MERITS[name].long or MERITS[name].name: name for name in OBJECTIVES}
CANDIDATES = 12
_BILLION, _TRILLION = 1e9, 1e12
_LIMITS = {
    "design_tokens": ("Training tokens (trillions)", "The same for every design."),
    "design_total_params": ("Largest total size (B)", "Billions of parameters."),
    "design_target_total": ("Target total size (B)", "Billions of parameters, met within 5%. Empty: no target."),
    "design_target_active": ("Target active size (B)", "Without embeddings, met within 5%. Empty: no target."),
    "design_tpot": ("Time per output token (ms)", "Upper limit at every batch. Leave empty to use the bar's limit."),
    "design_memory": ("Memory per GPU (GB)", "Empty: 90% of the accelerator's."),
    "design_price": ("Price of a GPU (USD/hour)", "For the cost objective. Empty: the accelerator profile's."),
}

_ASKED = ("design_tokens", "design_total_params", "design_tpot", "design_memory", "design_price")
"""Under Quality and limits; the targets are asked for where one starts from nothing."""


class DesignQuestion(Frozen):
    """Question that the controls ask, with limits of None where not set."""

    objective: Objective = "tpot"
    batches: str = ""
    """As typed; empty: the scenario's batch."""
    quality_eps: float = DEFAULT_EPS
    training_tokens: float | None = None
    max_total_params: float | None = None
    target_total_params: float | None = None
    target_active_params: float | None = None
    max_tpot_ms: float | None = None
    """None: the scenario's."""
    max_memory_bytes: float | None = None
    price_usd_per_hour: float | None = None

    def limits(self) -> dict[str, Any]:
        """Everything but the batches, as `design_space` takes it."""
        return self.model_dump(exclude={"batches"})

    def tag(self, scenario: Scenario) -> str:
        """Short name of this question about this scenario."""
        return hashlib.sha256((scenario.hash + self.model_dump_json()).encode()).hexdigest()[:12]


def draw(scenario: Scenario) -> DesignQuestion:
    """The controls, and the question they ask."""
    now = st.session_state
    with st.container(key="design_ask", horizontal=True, vertical_alignment="bottom", gap="small"):
        objective = st.segmented_control(
            "Best by",
            list(OBJECTIVE_NAMES.values()),
            key="design_objective",
            format_func=_short,
            required=True,
            help="The gain by drafting is a ratio to the design's own plain decoding: a slow design may have the "
            "largest. The others are absolute.",
        )
        batches = st.text_input(
            "Target batches",
            key="design_batches",
            placeholder=str(scenario.batch_size),
            width=190,
            help="`64`, a list `1,16,64`, a range `1-512`, or a histogram `1:0.2,64:0.8` with the share of tokens "
            "generated at each batch. Empty: the batch in the bar. Several accelerators: tab Several targets below.",
        )
        with st.popover("Quality and limits", icon=":material/tune:"):
            eps = st.number_input(
                "Quality loss (%)",
                0.0,
                50.0,
                step=0.5,
                key="design_quality",
                help="Share of the size of a dense model of equal quality that a design may give up.",
            )
            tokens, total, tpot, memory, price = map(_limit, _ASKED)
        target_total, target_active = start.draw(scenario, _limit)
    if objective == "sd_speedup":
        st.caption(
            "The gain by drafting is no speed: a design that decodes slowly without drafts may gain most and still be "
            "slower than yours. Time per token is beside it."
        )
    return DesignQuestion(
        objective=objective or now["design_objective"],
        batches=batches.strip(),
        quality_eps=eps / 100,
        training_tokens=None if tokens is None else tokens * _TRILLION,
        max_total_params=None if total is None else total * _BILLION,
        target_total_params=target_total,
        target_active_params=target_active,
        max_tpot_ms=tpot,
        max_memory_bytes=None if memory is None else memory * _BILLION,
        price_usd_per_hour=price,
    )


def _short(objective: Objective) -> str:
    return "Gain by drafting" if objective == "sd_speedup" else MERITS[objective].short or MERITS[objective].name


def answer_or_stop(scenario: Scenario, question: DesignQuestion, head: DeltaGenerator) -> DesignAnswer:
    """The answer to the page's question, or the end of the page.

    Where there is none, `head` says why, and the controls are left in place.
    """
    with head:
        try:
            return answer_for(scenario, question)
        except AdvisorError as error:
            widgets.stop_with(str(error))


@remembered(
    st.cache_resource, shared=12, own=4, spinner="Costing tens of thousands of designs ...", keys=(DesignQuestion,)
)
def answer_for(scenario: Scenario, question: DesignQuestion) -> DesignAnswer:
    """The search, remembered. Raises AdvisorError as the search does."""
    batches = parse_batches(question.batches) if question.batches else None
    return design_answer(design_space(scenario, batches=batches, **question.limits()), CANDIDATES)


def _limit(key: str) -> float | None:
    label, help_text = _LIMITS[key]
    return st.number_input(
        label,
        min_value=SMALLEST_LIMIT,
        max_value=LARGEST_LIMIT,
        value=None,
        key=key,
        placeholder="not set",
        help=help_text,
    )
