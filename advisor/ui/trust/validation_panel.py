"""How often this has been right: published speedups that no fit has seen, with plots, by accelerator and by worst."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.catalog import hardware_called, model_name
from advisor.charts import coverage_chart, error_chart, predicted_chart
from advisor.points import Errors
from advisor.scenario import Scenario
from advisor.ui.shared import answers, widgets
from advisor.validation import judged_errors, read_judged

_WORST = 8
_TIERS = {"roofline": "data sheet only", "fitted": "modelled from measured kernels", "interpolated": "between kernels"}


@st.cache_resource(show_spinner="Reading the published measurements ...", max_entries=1)
def _judged() -> pd.DataFrame:
    return read_judged()[1]


def draw(scenario: Scenario) -> None:
    """The whole tab."""
    judged = _judged()
    whole = judged_errors(judged)
    st.markdown(
        f"**{whole.n} published speedups from {whole.n_sources} sources, each predicted by a fit that did not see its "
        f"source:** median error {whole.median_ape or 0:.1%}, {whole.coverage or 0:.0%} inside the 80% band, "
        f"{whole.sign_accuracy or 0:.0%} on the right side of 1×."
    )
    st.caption(f"For your scenario: {_here(scenario)}")
    left, right = st.columns([3, 2])
    with left:
        widgets.show_chart(predicted_chart(judged), "predicted", scenario)
    groups = _by_group(judged)
    with right:
        widgets.show_chart(coverage_chart(groups), "coverage", scenario)
        widgets.show_chart(error_chart(groups), "errors", scenario)
    st.subheader("Worst cases", anchor=False)
    st.dataframe(_worst(judged), hide_index=True)
    st.caption(
        "The published rows lie under measurements/published_speedups; docs/validation.md has every figure with its "
        "bar, plain decoding and whole steps included, and what it misses."
    )


def _here(scenario: Scenario) -> str:
    found = answers.errors_for(scenario)
    parts = [f"{name}: {_in_words(errors)}" for name, errors in found.items()]
    return widgets.plain("; ".join(parts) or "no published speedup can be read here") + "."


def _in_words(errors: Errors) -> str:
    return f"{errors.n} rows, median error {errors.median_ape or 0:.0%}, {errors.coverage or 0:.0%} in the band"


def _by_group(judged: pd.DataFrame) -> pd.DataFrame:
    """All rows, then by what the times rest on, then by accelerator."""
    groups = {"All": judged}
    groups |= {_TIERS.get(str(tier), str(tier)): rows for tier, rows in judged.groupby("predicted_tier")}
    by_place = sorted(judged.groupby("hardware_id"), key=lambda pair: -len(pair[1]))
    groups |= {hardware_called(str(place)): rows for place, rows in by_place[:5]}
    rows = [(name, errors) for name, errors in ((name, judged_errors(rows)) for name, rows in groups.items())]
    return pd.DataFrame(
        {
            "group": [name for name, _ in rows],
            "n": [errors.n for _, errors in rows],
            "median_error": [errors.median_ape for _, errors in rows],
            "coverage": [errors.coverage for _, errors in rows],
        }
    )


def _worst(judged: pd.DataFrame) -> pd.DataFrame:
    rows = judged.nlargest(_WORST, "absolute_percentage_error")
    return pd.DataFrame(
        {
            "Model": rows["model_id"].map(model_name),
            "Accelerator": rows["hardware_id"].map(hardware_called),
            "Drafter": rows["drafter"],
            "K": rows["draft_tokens_k"],
            "Batch": rows["batch_size"],
            "Measured": rows["measured"].map("{:.2f}×".format),
            "Predicted": rows["predicted_speedup"].map("{:.2f}×".format),
            "Range": [
                f"{low:.2f}–{high:.2f}×"
                for low, high in zip(rows["predicted_low"], rows["predicted_high"], strict=True)
            ],
            "Error": rows["absolute_percentage_error"].map("{:.0%}".format),
            "Source": rows["source_title"],
        }
    )
