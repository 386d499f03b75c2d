"""The question of the Design space page: its controls, bound to the address, and the cached answer to it.

Starting from nothing: a typed shape, or a target size, becomes the model that the search starts from.

The curves of the page Design: baseline, recommended and picked design against batch, as speedup and as time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.answers.design.answer import DesignAnswer, design_answer
from advisor.answers.design.candidates import Candidate, design_curves
from advisor.answers.design.grid import OBJECTIVES, Objective
from advisor.answers.design.search import design_space
from advisor.answers.design.start import SHAPE_EXAMPLE, Start, start_from_shape, start_from_size
from advisor.physics.quality import DEFAULT_EPS
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError, Frozen
from advisor.show.charts.design import design_curves_chart
from advisor.show.words.design import parse_batches
from advisor.text import MERITS
from advisor.ui.answers import remembered
from advisor.ui.session import LARGEST_LIMIT, SMALLEST_LIMIT, Slot
from advisor.ui.state import add_own_model
from advisor.ui.widgets import plain, show_chart, stop_with

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


def draw_question(scenario: Scenario) -> DesignQuestion:
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
        target_total, target_active = draw_start(scenario, _limit)
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
            stop_with(str(error))


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


_NOTE: Slot[tuple[str, str]] = Slot("_design_start_note", lambda: ("", ""))
"""A model's name, and where its shape comes from."""
_PROBLEM: Slot[tuple[str, str]] = Slot("_design_start_problem", lambda: ("", ""))
"""What was asked for, shape or size, and why it could not be."""
_SHAPE = "design_shape"
_BILLION_PARAMS = 1e9


def draw_start(scenario: Scenario, target: Callable[[str], float | None]) -> tuple[float | None, float | None]:
    """The controls, and the target sizes that every design is to meet (total, active). [parameters]

    target : draws the number field of a target size by its key. [1e9 parameters]
    """
    with st.popover("Start from nothing", icon=":material/edit_square:"):
        st.text_input(
            "Shape",
            key=_SHAPE,
            placeholder=SHAPE_EXAMPLE,
            help="Layers, hidden size, experts, experts per token, shared experts, expert width.",
        )
        st.button("Start from this shape", key="design_from_shape", on_click=_from_shape, args=(scenario,))
        _show_problem("shape")
        total, active = (
            None if size is None else size * _BILLION_PARAMS
            for size in (target("design_target_total"), target("design_target_active"))
        )
        st.caption("Every design then meets the target within 5%.")
        st.button(
            "Start from this size",
            key="design_from_size",
            disabled=total is None and active is None,
            on_click=_from_size,
            args=(scenario, total, active),
        )
        _show_problem("size")
    return total, active


def show_note(scenario: Scenario) -> None:
    """Source of the model's shape, as long as it is the one that was typed or sized."""
    name, note = _NOTE.get()
    if name == scenario.model_id:
        st.info(plain(note), icon=":material/edit_square:")


def _show_problem(asked: str) -> None:
    """Why the last start could not be, where this is what was asked for."""
    of, problem = _PROBLEM.get()
    if of == asked:
        st.error(plain(problem), icon=":material/error:")


def _from_shape(scenario: Scenario) -> None:
    text = str(st.session_state.get(_SHAPE) or "")
    _take("shape", lambda: start_from_shape(scenario, text))


def _from_size(scenario: Scenario, total: float | None, active: float | None) -> None:
    _take("size", lambda: start_from_size(scenario, total, active))


def _take(asked: str, found: Callable[[], Start]) -> None:
    """The start becomes the user's own model, as an uploaded configuration would; a refusal is kept in words."""
    _PROBLEM.drop()
    try:
        start = found()
        name = add_own_model(str(start.scenario.model_config_json), f"{start.scenario.model_id}.json")
    except AdvisorError as error:
        _PROBLEM.put((asked, str(error)))
        return
    st.session_state["model_id"] = name
    _NOTE.put((name, start.note))


def draw_curves(answer: DesignAnswer, item: Candidate | None) -> None:
    """Both charts side by side, where a design keeps every limit or one was picked."""
    space, best = answer.space, answer.recommended
    if best is None and item is None:
        return
    picked = item is not None and (best is None or item.index != best.index)
    curves = answer.curves
    if picked and item is not None:
        curves = (*curves, design_curves(space, {"picked": item.index})[-1])
    batches, scenario = [float(batch) for batch in space.question.batches], space.setup.scenario
    left, right = st.columns(2)
    with left:
        show_chart(design_curves_chart(curves, batches), "design_curves", scenario)
    with right:
        show_chart(design_curves_chart(curves, batches, "tpot"), "design_times", scenario)
