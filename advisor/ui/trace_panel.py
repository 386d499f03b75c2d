"""The user's own routing trace: upload, fitted parameters, predicted against counted experts, use it."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.ingest.trace_file import MAX_TRACE_BYTES
from advisor.routing_presets import RoutingPreset, load_routing_preset
from advisor.routing_trace import TraceFit, implied_overlaps
from advisor.ui import charts_refit, uploads, widgets

COHERE = "cohere-128-8"


def draw(advice: Advice) -> None:
    """The whole panel. A dense model has no experts to trace."""
    moe = advice.setup.architecture.moe
    if moe is None:
        st.info(f"{advice.setup.architecture.name} is dense: it has no experts to trace.")
        return
    st.file_uploader(
        f"Expert ids of {advice.setup.architecture.name} (.npy, .npz, CSV, JSON lines)",
        key="trace_file", on_change=uploads.take_trace, args=(advice.scenario, moe.n_experts),
        max_upload_size=MAX_TRACE_BYTES // (1024 * 1024),
    )  # fmt: skip
    st.caption(
        "Arrays [sequences, tokens, k] or [sequences, tokens, layers, k]; CSV columns sequence, token, layer, experts; "
        "or one reply per line with routed_experts. It stays in this session."
    )
    if uploads.trace_problem():
        st.error(widgets.plain(uploads.trace_problem()), icon=":material/error:")
    trace = uploads.trace()
    if trace is not None and trace.n_experts == moe.n_experts:
        _found(trace, advice)


def _found(trace: TraceFit, advice: Advice) -> None:
    fit, scenario = trace.fit, advice.scenario
    st.markdown(
        f"{trace.n_sequences} sequences, {trace.n_tokens:,} tokens, {len(trace.layers)} layers, {trace.n_active} of "
        f"{trace.n_experts} experts. The fit predicts the experts counted within {trace.largest_error:.1%}."
    )
    for warning in trace.warnings:
        st.warning(widgets.plain(warning))
    rows = [
        ("Load spread (CV)", fit.load_cv, *fit.load_cv_interval),
        ("Affinity (phi)", fit.affinity, *fit.affinity_interval),
        ("Stickiness (rho)", fit.stickiness, *fit.stickiness_interval),
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["Statistic", "Value", "Low (80 %)", "High (80 %)"]),
        hide_index=True,
        column_config={n: st.column_config.NumberColumn(format="%.3f") for n in ("Value", "Low (80 %)", "High (80 %)")},
    )
    widgets.show_chart(charts_refit.union_chart(trace), "unions", scenario)
    presets = [load_routing_preset(COHERE)]
    if advice.setup.routing is not None and advice.setup.routing.kind != "own_trace":
        presets.append(advice.setup.routing)
    others = {preset.name: _implied(preset, trace) for preset in presets}
    widgets.show_chart(charts_refit.overlap_chart(trace, others), "overlaps", scenario)
    if len(trace.layers) > 1:
        widgets.show_chart(charts_refit.layer_chart(trace), "layers", scenario)
    use, forget = st.columns(2)
    use.button("Use it in the scenario", key="use_trace", type="primary", on_click=uploads.use_trace)
    forget.button("Forget the trace", key="forget_trace", on_click=uploads.forget_trace)


def _implied(preset: RoutingPreset, trace: TraceFit) -> list[float]:
    """A preset's overlaps at its own N and k where it has them, else at the trace's."""
    experts, active = preset.n_experts or trace.n_experts, preset.n_active or trace.n_active
    values = (preset.load_cv.value, preset.affinity.value, preset.stickiness.value)
    return implied_overlaps(*values, experts, active)
