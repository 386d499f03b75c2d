"""How often this has been right: published speedups that no fit has seen, with plots, by accelerator and by worst."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from advisor.catalog import hardware_called, model_name
from advisor.charts import TIER_NAMES, coverage_chart, error_chart, predicted_chart
from advisor.points import Errors
from advisor.scenario import FIELDS, Scenario
from advisor.text import counted
from advisor.ui.shared import answers, widgets
from advisor.validation import judged_errors, read_judged

_WORST, _GROUPS, _ENGINES = 8, 6, 4
_UNSTATED, _OTHERS = "not stated", "other engines"
_BY = {"predicted_tier": "What times rest on", "engine": "Engine", "hardware_id": "Accelerator"}
_ALIKE = "Every laboratory counts alike, so a share is a mean over laboratories, not over rows."


@st.cache_resource(show_spinner="Reading the published measurements ...", max_entries=1)
def _judged() -> pd.DataFrame:
    rows = read_judged()[1]
    engines = rows["engine"].replace("", None).fillna(_UNSTATED)
    large = engines.value_counts().index[:_ENGINES]
    return rows.assign(engine=engines.where(engines.isin(large), _OTHERS))


def draw(scenario: Scenario) -> None:
    """The whole tab."""
    judged = _judged()
    whole = judged_errors(judged)
    st.markdown(
        f"**{whole.n} published speedups of {whole.n_sources} laboratories, each predicted by a fit that did not see "
        f"its laboratory:** median error {whole.median_ape or 0:.1%}, {whole.coverage or 0:.0%} inside the 80% band, "
        f"{whole.sign_accuracy or 0:.0%} of all rows on the right side of 1×, of those measured "
        f"below it {whole.sign_accuracy_below_one or 0:.0%}."
    )
    st.caption(f"{_ALIKE} For your scenario: {_here(scenario)}")
    by = st.segmented_control(
        "Apart by", tuple(_BY), format_func=_BY.__getitem__, default="predicted_tier", required=True, key="trust_by"
    )
    groups = _by_group(judged, by)
    left, right = st.columns(2)
    with left:
        widgets.show_chart(coverage_chart(groups), "coverage", scenario)
    with right:
        widgets.show_chart(error_chart(groups), "errors", scenario)
    widgets.show_chart(predicted_chart(judged, by), "predicted", scenario)
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
    whose = f"{counted(errors.n, 'row')} of {counted(errors.n_sources or 0, 'laboratory', 'laboratories')}"
    return f"{whose}, median error {errors.median_ape or 0:.0%}, {errors.coverage or 0:.0%} in the band"


def _by_group(judged: pd.DataFrame, by: str) -> pd.DataFrame:
    """Errors of all rows, then of each group of one column, the largest first."""
    largest = sorted(judged.groupby(by), key=lambda pair: -len(pair[1]))[:_GROUPS]
    named = hardware_called if by == "hardware_id" else lambda name: TIER_NAMES.get(name, name)
    groups = {"All": judged} | {named(str(name)): rows for name, rows in largest}
    rows = [(name, judged_errors(rows)) for name, rows in groups.items()]
    return pd.DataFrame(
        {
            "group": [name for name, _ in rows],
            "n": [errors.n for _, errors in rows],
            "laboratories": [errors.n_sources for _, errors in rows],
            "median_error": [errors.median_ape for _, errors in rows],
            "coverage": [errors.coverage for _, errors in rows],
            "width": [errors.mean_band_width for _, errors in rows],
        }
    )


def _worst(judged: pd.DataFrame) -> pd.DataFrame:
    rows = judged.nlargest(_WORST, "absolute_percentage_error")
    named = {"model_id": model_name, "hardware_id": hardware_called}
    return pd.DataFrame(
        {
            **{FIELDS[name].label: rows[name].map(shown) for name, shown in named.items()},
            "Engine": rows["engine"],
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
