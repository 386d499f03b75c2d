"""The user's own routing trace: upload, fitted parameters, predicted against counted experts, use it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.charts import layer_chart, overlap_chart, union_chart
from advisor.ingest import MAX_TRACE_BYTES, ActivationLog
from advisor.routing import CountFit, RoutingPreset, TraceFit, implied_overlaps, load_routing_preset
from advisor.text import counted
from advisor.ui.data import own_traces, ranks_panel
from advisor.ui.shared import widgets

COHERE = "cohere-128-8"
_STATISTICS = ("Load spread (CV)", "Affinity (phi)", "Stickiness (rho)")


def draw(advice: Advice) -> None:
    """The whole panel. A dense model has no experts to trace."""
    moe = advice.setup.architecture.moe
    if moe is None:
        st.info(f"{advice.setup.architecture.name} is dense: it has no experts to trace.")
        return
    st.file_uploader(
        f"Expert ids of {advice.setup.architecture.name} (.npy, .npz, CSV, JSON lines), or a log of activated experts",
        key="trace_file",
        on_change=own_traces.take_trace,
        args=(advice.setup,),
        accept_multiple_files=True,
        max_upload_size=widgets.upload_limit(MAX_TRACE_BYTES),
    )
    st.caption(
        "Arrays [tokens, layers, k] of one request each (several files are one trace), [sequences, tokens, k] of one "
        "layer, or [sequences, tokens, layers, k]; CSV columns sequence, token, layer, experts; one reply per line "
        "with routed_experts; or MoE-CAP's log with expert_activation of each pass. It stays in this session."
    )
    if own_traces.trace_problem():
        st.error(widgets.plain(own_traces.trace_problem()), icon=":material/error:")
    trace = own_traces.trace()
    counts = own_traces.counts()
    if trace is not None and trace[0].n_experts == moe.n_experts:
        _found(*trace, advice)
    elif counts is not None and (counts[1].n_experts, counts[1].n_active) == (moe.n_experts, moe.n_active):
        _counted(*counts, advice)
    ranks_panel.draw(advice)


def _found(trace: TraceFit, layout: str, advice: Advice) -> None:
    fit, scenario = trace.fit, advice.scenario
    st.markdown(
        f"{counted(trace.n_sequences, 'sequence')}, {trace.n_tokens:,} tokens, "
        f"{counted(len(trace.layers), 'layer')}, {trace.n_active} of {trace.n_experts} experts; read as "
        f"{widgets.plain(layout)}. The fit predicts the experts counted within {trace.largest_error:.1%}."
    )
    for warning in trace.warnings:
        st.warning(widgets.plain(warning))
    intervals = (fit.load_cv_interval, fit.affinity_interval, fit.stickiness_interval)
    values = (fit.load_cv, fit.affinity, fit.stickiness)
    _statistics([(name, value, *ends, "yes") for name, value, ends in zip(_STATISTICS, values, intervals, strict=True)])
    widgets.show_chart(union_chart(trace.unions), "unions", scenario)
    presets = [load_routing_preset(COHERE)]
    if advice.setup.routing is not None and advice.setup.routing.kind != "own_trace":
        presets.append(advice.setup.routing)
    others = {preset.name: _implied(preset, trace) for preset in presets}
    widgets.show_chart(overlap_chart(trace, others), "overlaps", scenario)
    if len(trace.layers) > 1:
        widgets.show_chart(layer_chart(trace), "layers", scenario)
    _buttons()


def _counted(log: ActivationLog, found: CountFit, advice: Advice) -> None:
    """What counts of activated experts tell, and what they leave to the preset."""
    st.markdown(
        f"{found.n_passes:,} passes, {found.n_active} of {found.n_experts} experts. The fit predicts the experts "
        f"counted within {found.largest_error:.1%}."
    )
    for warning in found.warnings:
        st.warning(widgets.plain(f"{warning[0].upper()}{warning[1:]}."))
    _statistics(
        [
            (name, item.value, item.low, item.high, "yes" if item.identified else "no: the preset's")
            for name, item in zip(_STATISTICS, found.parameters, strict=True)
        ]
    )
    widgets.show_chart(union_chart(found.cells), "unions", advice.scenario)
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
    use.button("Use it in the scenario", key="use_trace", icon=":material/input:", on_click=own_traces.use_trace)
    forget.button("Forget the trace", key="forget_trace", on_click=own_traces.forget_trace)


def _implied(preset: RoutingPreset, trace: TraceFit) -> list[float]:
    """A preset's overlaps at its own N and k where it has them, else at the trace's."""
    experts, active = preset.n_experts or trace.n_experts, preset.n_active or trace.n_active
    values = (preset.load_cv.value, preset.affinity.value, preset.stickiness.value)
    return implied_overlaps(*values, experts, active)
