"""The user's own routing trace: upload, fitted parameters, predicted against counted experts, use it.

The user's own acceptance by draft position: vLLM's metrics or a list, accepted length by K, use it.

Experts on the scenario's expert-parallel ranks: the slowest one counted, layouts, hotter experts, what travels.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.expert_ranks import RanksAnswer, splits
from advisor.catalog.routing_presets import load_routing_preset
from advisor.measured.ingest.acceptance import MAX_METRICS_BYTES, AcceptanceRates
from advisor.measured.ingest.logs import ActivationLog
from advisor.measured.ingest.traces import MAX_TRACE_BYTES
from advisor.measured.ingest.upload import MIB
from advisor.physics.routing_trace import CountFit, TraceFit, implied_overlaps
from advisor.physics.touched_experts import RoutingPreset
from advisor.predict.scenario import MAX_LOADS_BYTES, Scenario
from advisor.show.charts.measured import acceptance_chart, layer_chart, overlap_chart, rank_chart, union_chart
from advisor.show.words.expert_ranks import (
    exchange_table,
    exchange_text,
    heat_table,
    layout_table,
    notes,
    split_table,
    trace_warnings,
    verdict,
)
from advisor.text import counted, typeset
from advisor.ui.data.own_traces import (
    RATES_GIVEN,
    acceptance,
    acceptance_problem,
    basis,
    copies_key,
    count,
    forget_trace,
    loads_problem,
    problem,
    take_acceptance,
    take_loads,
    take_trace,
    trace_problem,
    use,
    use_acceptance,
    use_trace,
)
from advisor.ui.data.own_traces import answer as ranks_answer
from advisor.ui.data.own_traces import counts as own_counts
from advisor.ui.data.own_traces import trace as own_trace
from advisor.ui.widgets import plain, show_chart, show_table, upload_limit

COHERE = "cohere-128-8"
_STATISTICS = ("Load spread (CV)", "Affinity (phi)", "Stickiness (rho)")


def draw_trace_panel(advice: Advice) -> None:
    """The whole panel. A dense model has no experts to trace."""
    moe = advice.setup.architecture.moe
    if moe is None:
        st.info(f"{advice.setup.architecture.name} is dense: it has no experts to trace.")
        return
    st.file_uploader(
        f"Expert ids of {advice.setup.architecture.name} (.npy, .npz, CSV, JSON lines), or a log of activated experts",
        key="trace_file",
        on_change=take_trace,
        args=(advice.setup,),
        accept_multiple_files=True,
        max_upload_size=upload_limit(MAX_TRACE_BYTES),
    )
    st.caption(
        "Arrays [tokens, layers, k] of one request each (several files are one trace), [sequences, tokens, k] of one "
        "layer, or [sequences, tokens, layers, k]; CSV columns sequence, token, layer, experts; one reply per line "
        "with routed_experts; or MoE-CAP's log with expert_activation of each pass. It stays in this session."
    )
    if trace_problem():
        st.error(plain(trace_problem()), icon=":material/error:")
    trace = own_trace()
    counts = own_counts()
    if trace is not None and trace[0].n_experts == moe.n_experts:
        _found(*trace, advice)
    elif counts is not None and (counts[1].n_experts, counts[1].n_active) == (moe.n_experts, moe.n_active):
        _counted(*counts, advice)
    draw_ranks_panel(advice)


def _found(trace: TraceFit, layout: str, advice: Advice) -> None:
    fit, scenario = trace.fit, advice.scenario
    st.markdown(
        f"{counted(trace.n_sequences, 'sequence')}, {trace.n_tokens:,} tokens, "
        f"{counted(len(trace.layers), 'layer')}, {trace.n_active} of {trace.n_experts} experts; read as "
        f"{plain(layout)}. The fit predicts the experts counted within {trace.largest_error:.1%}."
    )
    for warning in trace.warnings:
        st.warning(plain(warning))
    intervals = (fit.load_cv_interval, fit.affinity_interval, fit.stickiness_interval)
    values = (fit.load_cv, fit.affinity, fit.stickiness)
    _statistics([(name, value, *ends, "yes") for name, value, ends in zip(_STATISTICS, values, intervals, strict=True)])
    show_chart(union_chart(trace.unions), "unions", scenario)
    presets = [load_routing_preset(COHERE)]
    if advice.setup.routing is not None and advice.setup.routing.kind != "own_trace":
        presets.append(advice.setup.routing)
    others = {preset.name: _implied(preset, trace) for preset in presets}
    show_chart(overlap_chart(trace, others), "overlaps", scenario)
    if len(trace.layers) > 1:
        show_chart(layer_chart(trace), "layers", scenario)
    _buttons()


def _counted(log: ActivationLog, found: CountFit, advice: Advice) -> None:
    """What counts of activated experts tell, and what they leave to the preset."""
    st.markdown(
        f"{found.n_passes:,} passes, {found.n_active} of {found.n_experts} experts. The fit predicts the experts "
        f"counted within {found.largest_error:.1%}."
    )
    for warning in found.warnings:
        st.warning(plain(f"{warning[0].upper()}{warning[1:]}."))
    _statistics(
        [
            (name, item.value, item.low, item.high, "yes" if item.identified else "no: the preset's")
            for name, item in zip(_STATISTICS, found.parameters, strict=True)
        ]
    )
    show_chart(union_chart(found.cells), "unions", advice.scenario)
    if log.left_out:
        with st.expander(f"Passes not used ({sum(count for _, count in log.left_out):,})"):
            st.dataframe(pd.DataFrame(log.left_out, columns=["Reason", "Passes"]), hide_index=True)
    _buttons()


def _statistics(rows: list[tuple[str, float, float, float, str]]) -> None:
    st.dataframe(
        pd.DataFrame(rows, columns=["Statistic", "Value", "Low (80%)", "High (80%)", "Learnt"]),
        hide_index=True,
        column_config={n: st.column_config.NumberColumn(format="%.3f") for n in ("Value", "Low (80%)", "High (80%)")},
    )


def _buttons() -> None:
    use, forget = st.columns(2)
    use.button("Use it in the scenario", key="use_trace", icon=":material/input:", on_click=use_trace)
    forget.button("Forget the trace", key="forget_trace", on_click=forget_trace)


def _implied(preset: RoutingPreset, trace: TraceFit) -> list[float]:
    """A preset's overlaps at its own N and k where it has them, else at the trace's."""
    experts, active = preset.n_experts or trace.n_experts, preset.n_active or trace.n_active
    values = (preset.load_cv.value, preset.affinity.value, preset.stickiness.value)
    return implied_overlaps(*values, experts, active)


def draw_acceptance_panel(scenario: Scenario) -> None:
    """The whole panel."""
    later, earlier = st.columns(2)
    later.file_uploader(
        "Metrics of vLLM or SGLang (GET /metrics), or AIPerf's JSON",
        key="metrics_file",
        on_change=take_acceptance,
        max_upload_size=MAX_METRICS_BYTES // MIB,
    )
    earlier.file_uploader(
        "An earlier scrape (optional)",
        key="metrics_before",
        on_change=take_acceptance,
        max_upload_size=MAX_METRICS_BYTES // MIB,
        help="Only what was counted between the two is used.",
    )
    text, kind = st.columns(2)
    text.text_input(
        "or acceptance rates by draft position",
        key="rates_text",
        on_change=take_acceptance,
        placeholder="0.72, 0.51, 0.35",
        help="Used when no file is given.",
    )
    kind.selectbox(
        "Each rate is",
        ["a share of all rounds (vLLM's log and results)", RATES_GIVEN],
        key="rates_kind",
        on_change=take_acceptance,
    )
    if acceptance_problem():
        st.error(plain(acceptance_problem()), icon=":material/error:")
    found = acceptance()
    if found is not None:
        _found_acceptance(found, scenario)


def _found_acceptance(found: AcceptanceRates, scenario: Scenario) -> None:
    kind = "Probability of each token, given those before it" if found.length is None else "Value used by the scenario"
    st.markdown(f"{plain(found.source)}. {kind}: `{found.text}`")
    for warning in found.warnings:
        st.warning(plain(warning))
    lengths = found.accepted_lengths(max(scenario.k_max, len(found.conditional)))
    show_chart(acceptance_chart(lengths), "accepted_lengths", scenario)
    st.caption(
        "Measured up to the last position; beyond it the last probability is held, and the band widens by how far the "
        "shipped measured curves depart from such an extrapolation."
    )
    st.button("Use in the scenario", key="use_acceptance", icon=":material/input:", on_click=use_acceptance)


def draw_ranks_panel(advice: Advice) -> None:
    """The panel: a button, then the answer. Says what is missing where the scenario has no expert-parallel ranks."""
    st.subheader("Experts on ranks", anchor=False)
    ranks, setup = advice.setup.placement.expert_parallel, advice.setup
    if ranks < 2:
        st.caption("With EP above 1 in the bar, the slowest rank can be counted here instead of assumed.")
        return
    st.file_uploader(
        "Or loads by layer, where you have no trace (CSV, .npy)",
        key="loads_file",
        on_change=take_loads,
        args=(setup,),
        max_upload_size=upload_limit(MAX_LOADS_BYTES),
        help="CSV with columns layer, expert, tokens; or a .npy array [layers, experts]. It stays in this "
        "session until it is used; then links carry it.",
    )
    if loads_problem():
        st.error(plain(loads_problem()), icon=":material/error:")
    copies, button = st.columns([1, 2], vertical_alignment="bottom")
    copies.number_input(
        "Copies of hot experts",
        min_value=0,
        max_value=64 * ranks,
        value=ranks,
        step=ranks,
        key=copies_key(ranks),
        help=f"Redundant experts, as EPLB places them. {ranks} ranks share experts and copies evenly.",
    )
    button.button("Count the ranks", key="count_ranks", icon=":material/grid_view:", on_click=count, args=(setup,))
    if problem():
        st.error(plain(problem()), icon=":material/error:")
    answer = ranks_answer(setup)
    if answer is None:
        st.caption(basis(setup))
        return
    _answer(answer, advice)


def _answer(answer: RanksAnswer, advice: Advice) -> None:
    if answer.traffic.kind == "preset":
        st.info("Not counted on a file of yours: loads have the routing preset's spread.", icon=":material/info:")
    st.markdown(plain(typeset(verdict(answer))))
    for text in trace_warnings(answer):
        st.warning(plain(f"{text[0].upper()}{text[1:]}."))
    show_table(layout_table(answer))
    _use(answer)
    show_chart(rank_chart(answer), "ranks", advice.scenario)
    with st.expander("Hotter experts, exchange, attention groups"):
        st.caption("Each layer's hottest expert hotter than it was planned for, at the recommended K.")
        show_table(heat_table(answer))
        st.caption(plain(exchange_text(answer)))
        if answer.moved:
            show_table(exchange_table(answer))
        st.caption("The same ranks with attention in other groups, experts in order.")
        found, refused = splits(answer)
        show_table(split_table(found))
        for text in refused:
            st.caption(plain(f"Not possible: {text}"))
    for text in notes(answer):
        st.caption(plain(text))


def _use(answer: RanksAnswer) -> None:
    """The choice of a layout to predict with, on all pages. Experts in order on a preset's loads are the assumption."""
    arms = [
        arm for arm in answer.arms if arm.found is not None and (arm.is_balanced or answer.traffic.kind != "preset")
    ]
    layout, button = st.columns([1, 2], vertical_alignment="bottom")
    names = [arm.name for arm in arms]
    chosen = layout.selectbox("Layout to predict with", names, index=_offered(answer, names), key="rank_layout")
    arm = arms[names.index(chosen)]
    button.button(
        "Use it in every answer",
        key="use_ranks",
        icon=":material/check:",
        on_click=use,
        args=(arm, answer),
        help="The slowest rank is then counted and no longer assumed: on Serve, in the report and in what is exported.",
    )


def _offered(answer: RanksAnswer, names: list[str]) -> int:
    return names.index(answer.best.name) if answer.best.name in names else 0
