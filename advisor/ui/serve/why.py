"""Why: what a step with drafting costs, where the time goes, how many experts are loaded, the formula with numbers.

The speedup formula with this scenario's numbers in it, as LaTeX.

Throughput: tokens/s of a GPU against tokens/s of a user, plain and drafting.

Load: what a token costs in money and energy, and speculation over context.
"""

from __future__ import annotations

import math

import streamlit as st

from advisor.answers.advice import Advice
from advisor.measured.ingest.logs import read_power_log
from advisor.measured.ingest.upload import MAX_BYTES
from advisor.physics import laws
from advisor.predict.spend import MeasuredPower, price_of, spend_at
from advisor.prediction import AdvisorError
from advisor.show.charts.maps import context_chart
from advisor.show.charts.speedup import frontier_chart
from advisor.show.charts.why import components_chart, roofline_chart, round_cost_chart, touched_experts_chart
from advisor.show.explain.formulas import formula_of, written
from advisor.show.explain.nearby import positions, roof_of
from advisor.show.explain.steps import END_ALIGNED
from advisor.show.words.load import acceptance_texts, does_not_fit, power_text, spend_text, turn_texts, verdict
from advisor.ui.answers import RoundFigures, context_map_for, expert_series, round_figures
from advisor.ui.serve.answer import picked_k
from advisor.ui.serve.board import price as board_price
from advisor.ui.widgets import ANSWER, button, plain, show_chart, upload_limit


def experts(advice: Advice, n_draft: int) -> None:
    """Chart of the distinct experts that a verification step touches, by batch."""
    series = expert_series(advice, n_draft)
    if series is None:
        st.info("A dense model has no routed experts: each step loads all weights once, whatever K is.")
        return
    chart = touched_experts_chart(
        series.tokens,
        series.routed,
        series.low,
        series.high,
        series.uniform,
        n_experts=series.n_experts,
        n_active=series.n_active,
        tokens_per_sequence=n_draft + 1,
        batch_size=advice.scenario.batch_size,
        band_level=advice.band_level,
    )
    show_chart(chart, "experts", advice.scenario)
    st.caption(plain(advice.setup.routing_because))


def roof(advice: Advice, n_draft: int) -> None:
    """Roofline with the parts of a plain step and of verification."""
    setup, curve = advice.setup, advice.curve
    column = int(curve.drafts.searchsorted(n_draft))
    chart = roofline_chart(
        positions(setup, curve, advice.batch_index, column),
        roof_of(setup),
        n_draft=n_draft,
        batch_size=advice.scenario.batch_size,
        name=setup.hardware.name,
    )
    show_chart(chart, "roofline", advice.scenario)
    st.caption(
        "Open circles: a step without drafts; diamonds: verification. Roofs are the data sheet's; a point far below "
        "them waits for fixed costs. Operations of routed experts include the rows that pad a tile."
    )


def draw_why(advice: Advice) -> None:
    """The whole tab, for the recommended K or the best one above 0."""
    scenario, n_draft = advice.scenario, advice.curve_k
    figures = round_figures(advice, n_draft)
    st.subheader(advice.recommendation.bound_because, anchor=False)
    if advice.recommendation.n_draft == 0 and n_draft:
        st.info(f"No drafting is recommended; this shows K = {n_draft}, the best draft length above 0.")
    st.markdown(
        f"One step with K = {n_draft} costs {figures.round_s / figures.plain_step_s:.2f} steps without drafts "
        f"(verification alone {figures.verify_ratio:.2f}) and emits {figures.accepted_length:.2f} tokens."
    )
    st.latex(speedup_formula(figures))
    button(figures.batch_size, n_draft, ANSWER, "formula")
    parts = {"n_draft": n_draft, "batch_size": figures.batch_size}
    cost, time = st.columns(2)
    with cost:
        chart = round_cost_chart(
            figures.plain_components, figures.round_components, accepted_length=figures.accepted_length, **parts
        )
        show_chart(chart, "round_cost", scenario)
    with time:
        chart = components_chart(figures.plain_components, figures.round_components, **parts)
        show_chart(chart, "components", scenario)
    left, right = st.columns(2)
    with left:
        experts(advice, n_draft)
    with right:
        roof(advice, n_draft)


_MOST_DIGITS = 7


def speedup_formula(figures: RoundFigures) -> str:
    """Formula of the speedup (`laws.speedup`) with its figures, times in ms.

    The numbers carry as many digits as it takes for a reader who computes with them to get the result shown.
    """
    result = f"{figures.speedup:.2f}"
    times_s = {"T_plain": figures.plain_step_s, "T_round": figures.round_s, "pf": figures.prefill_per_token_s}
    exact = {"AL": figures.accepted_length} | {symbol: time_s * 1e3 for symbol, time_s in times_s.items()}
    for digits in range(3, _MOST_DIGITS + 1):
        shown = {symbol: _digits(value, digits) for symbol, value in exact.items()}
        if f"{laws.speedup(**{symbol: float(text) for symbol, text in shown.items()}):.2f}" == result:
            break
    numbers = {symbol: text if symbol == "AL" else rf"{text}\,\text{{ms}}" for symbol, text in shown.items()}
    formula = formula_of(laws.speedup, exact)
    first = rf"\rule{{0pt}}{{2em}} \text{{speedup}} &= {written(formula, 'latex')}"  # the rule keeps it from being cut
    return rf"\begin{{aligned}} {first} \\[8pt] &= {written(formula, 'latex', numbers)} = {result} {END_ALIGNED}"


def _digits(value: float, digits: int) -> str:
    """A number with this many significant digits, trailing zeros kept, never in powers of ten."""
    before_point = math.floor(math.log10(value)) + 1 if value > 0 else 1
    return f"{value:.{max(digits - before_point, 0)}f}"


def draw_throughput(advice: Advice) -> None:
    """Chart of throughput against time per token, with what a limit makes too slow in shade."""
    scenario, curve = advice.scenario, advice.curve
    chart = frontier_chart(
        curve,
        picked_k(advice) or advice.curve_k,
        scenario.batch_size,
        largest_batch=advice.setup.memory.largest_batch,
        max_tpot_ms=scenario.max_tpot_ms,
    )
    show_chart(chart, "frontier", scenario)
    if scenario.max_tpot_ms is None:
        st.caption("Set a limit in the bar to shade the batches that are too slow for a user.")


def draw_load_panel(advice: Advice) -> None:
    """The whole tab."""
    _cost(advice)
    _context(advice)


def _cost(advice: Advice) -> None:
    """Money and energy of a token."""
    st.subheader("Cost and energy", anchor=False)
    left, right = st.columns(2)
    with left:
        usd = board_price()
    file = right.file_uploader(
        "Power log of your run",
        type=["csv", "txt", "log"],
        key="load_power",
        max_upload_size=upload_limit(MAX_BYTES),
        help=_POWER_HELP,
    )
    if reason := does_not_fit(advice.setup):
        st.markdown(plain(reason))
        return
    curve, setup, best = advice.curve, advice.setup, advice.recommendation.n_draft
    try:
        price = price_of(setup.hardware, usd)
        measured = None if file is None else _measured(file.name, file.getvalue(), best, setup.placement.gpus)
    except AdvisorError as error:
        st.error(plain(str(error)))
        return
    spend = spend_at(setup, curve, advice.batch_index, curve.column(best), price, measured)
    st.markdown(plain(spend_text(spend, setup.hardware)))
    st.caption(plain(power_text(spend)))


_POWER_HELP = (
    "Power log of a run at the recommended K: nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv, or dcgmi "
    "dmon -e 155."
)


def _measured(name: str, data: bytes, n_draft: int, gpus: int) -> MeasuredPower:
    """The power of an uploaded log."""
    log = read_power_log(name, data)
    log.check(gpus)
    return MeasuredPower(log.mean_w, log.text, n_draft)


def _context(advice: Advice) -> None:
    """The map over batch and context, and where speculation turns."""
    st.subheader("Does drafting still pay at long context", anchor=False)
    scenario = advice.scenario
    found = context_map_for(scenario)
    st.markdown(f"**{plain(verdict(found, scenario.context_tokens, scenario.batch_size))}**")
    st.markdown(plain(" ".join(turn_texts(found))))
    show_chart(context_chart(found, scenario.context_tokens, scenario.batch_size), "context_map", scenario)
    for text in acceptance_texts(found):
        st.caption(plain(text))
