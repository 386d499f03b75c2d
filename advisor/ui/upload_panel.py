"""The user's own benchmark: upload, what is missing, refused rows, refit before and after, keep or forget."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from advisor import ingest
from advisor.drafter import drafter_ids
from advisor.hardware import hardware_ids
from advisor.ingest.kept import kept_csv
from advisor.ingest.limits import MAX_BYTES, MIB
from advisor.ingest.result import IngestResult
from advisor.model_profiles import model_ids
from advisor.refit import RefitResult
from advisor.refit_curves import before_after, curve_groups
from advisor.refit_points import RefitPoint
from advisor.scenario import Scenario
from advisor.ui import charts_refit, state, uploads, widgets

_FROM_SCENARIO = {
    "hardware_id": "hardware_id", "model_id": "model_id", "engine": "engine", "batch_size": "batch_size",
    "gpu_count": "n_gpus", "tensor_parallel": "tensor_parallel", "expert_parallel": "expert_parallel",
    "drafter": "drafter_id",
}  # fmt: skip
_SHOWN_ROWS = 200


def draw(scenario: Scenario) -> None:
    """The whole panel."""
    st.file_uploader(
        "Benchmark result (vLLM, SGLang, guidellm, AIPerf, InferenceX, or the template)",
        key="bench_file", on_change=uploads.take_file, max_upload_size=MAX_BYTES // MIB,
    )  # fmt: skip
    st.download_button(
        "Template (CSV)", ingest.template_csv(), file_name="measurements-template.csv", mime="text/csv",
        type="tertiary", icon=":material/download:", on_click="ignore",
    )  # fmt: skip
    st.caption("It is read in memory and stays in this session until you save it to this advisor's store.")
    if uploads.problem():
        st.error(widgets.plain(uploads.problem()), icon=":material/error:")
    read = uploads.result()
    if read is not None:
        _what_was_read(read)
        _refused(read)
        _missing_form(read, scenario)
        _refit_button(read, scenario)
    found = uploads.refitted()
    if found is not None:
        _refit(found[0], found[1], scenario)
    if read is not None:
        _keep(read)
    _kept()


def _what_was_read(read: IngestResult) -> None:
    st.subheader("What was read", anchor=False)
    with st.grid(3, min_column_width=150):
        st.metric("Format", read.format_name)
        st.metric("Rows usable", f"{read.rows_kept:,}")
        st.metric("Rows refused", f"{read.rows_refused:,}")
    notes = [*read.derived, *read.warnings]
    if notes:
        st.markdown("\n".join(f"- {widgets.plain(note)}" for note in notes))
    shown = read.frame.dropna(axis="columns", how="all").head(_SHOWN_ROWS)
    with st.expander(f"Columns as understood ({len(shown.columns)})"):
        st.dataframe(shown)


def _refused(read: IngestResult) -> None:
    if not len(read.rejects):
        return
    with st.expander(f"Refused rows ({read.rows_refused:,})"):
        st.dataframe(read.rejects.head(_SHOWN_ROWS), hide_index=True)
        st.download_button(
            "Refused rows (CSV)", ingest.rejects_csv(read), file_name="refused-rows.csv", mime="text/csv",
            key="rejects_csv", type="tertiary", icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def _missing_form(read: IngestResult, scenario: Scenario) -> None:
    """Ask for what the file lacks, prefilled from the file, else from the scenario in the sidebar."""
    unknown = uploads.unknown_names(read)
    if not read.missing and not unknown:
        return
    with st.form("missing_fields"):
        st.markdown("**What the file does not say**")
        override = {
            name: _field(f"{name}: {', '.join(names[:3])} is not known; read it as", name, None, f"known_{name}")
            for name, names in unknown.items()
        }
        values = {}
        for item in read.missing:
            guess = item.prefill if item.prefill is not None else _of_scenario(item.name, scenario)
            label = f"{item.meaning}{'' if item.required else ' (may stay empty)'}; {item.rows:,} rows lack it"
            values[item.name] = _field(label, item.name, guess, f"missing_{item.name}")
        if st.form_submit_button("Fill in"):
            uploads.fill_in(values, override)
            st.rerun()


def _of_scenario(name: str, scenario: Scenario) -> Any:
    return getattr(scenario, _FROM_SCENARIO[name]) if name in _FROM_SCENARIO else None


def _field(label: str, name: str, guess: Any, key: str) -> Any:
    options = {
        "hardware_id": hardware_ids(),
        "model_id": [*state.own_models(), *model_ids()],
        "drafter": drafter_ids(),
    }.get(name)
    if options is None:
        return st.text_input(widgets.plain(label), "" if guess is None else str(guess), key=key)
    index = options.index(guess) if guess in options else None
    return st.selectbox(widgets.plain(label), options, index=index, key=key)


def _refit_button(read: IngestResult, scenario: Scenario) -> None:
    if read.kind != "points":
        st.info("Kernel times are kept and shown; a refit needs served runs with speedup, step or token times.")
        return
    lacking = int((read.frame["accepted_length"].isna() & (read.frame["draft_tokens_k"] != 0)).sum())
    acceptance = None
    if lacking:
        acceptance = st.text_input(
            f"Accepted length for the {lacking:,} rows that give none", scenario.acceptance, key="refit_acceptance",
            help="2.4@3, or 0.7,0.5,0.4, or the id of a measured curve; it counts as borrowed.",
        )  # fmt: skip
    st.button("Refit on these points", key="refit", type="primary", on_click=uploads.refit_upload, args=(acceptance,))


def _refit(points: list[RefitPoint], result: RefitResult, scenario: Scenario) -> None:
    st.subheader("What your data changed", anchor=False)
    st.markdown(widgets.plain(result.sentence))
    groups = curve_groups(result)
    if groups:
        chosen = st.selectbox(
            "Curve", range(len(groups)), key="refit_curve",
            format_func=lambda i: f"{groups[i][0]}, {groups[i][1]}, K = {groups[i][2]}, {groups[i][3]}",
        )  # fmt: skip
        chart = charts_refit.before_after_chart(before_after(points, result, groups[chosen]))
        widgets.show_chart(chart, "before_after", scenario)
    widgets.show_chart(charts_refit.residual_chart(result), "residuals", scenario)
    st.dataframe(_parameters(result), hide_index=True)
    for names, what in ((result.at_bound, "ended at their bound"), (result.unidentified, "are not told by these data")):
        if names:
            meanings = [item.meaning for item in result.parameters if item.name in names]
            st.caption(f"{', '.join(meanings)}: {what}.")
    if result.outliers or result.refused:
        with st.expander(f"Rows not used ({len(result.outliers) + len(result.refused)})"):
            st.dataframe(uploads.refused_rows((*result.outliers, *result.refused)), hide_index=True)
    st.button("Undo the refit", key="undo_refit", on_click=uploads.forget_refit, icon=":material/undo:")


def _parameters(result: RefitResult) -> pd.DataFrame:
    rows = [
        (
            item.meaning.capitalize(),
            f"{item.before * 1e6:,.1f} us" if item.unit == "s" else f"{item.before:.2f} x",
            f"{item.after * 1e6:,.1f} us" if item.unit == "s" else f"{item.after:.2f} x",
            f"{item.factor - 1.0:+.0%}",
            f"{item.log_stderr:.0%}",
            "at its bound" if item.at_bound else "yes" if item.identified else "no",
        )
        for item in result.parameters
    ]
    return pd.DataFrame(rows, columns=["Constant", "Before", "After", "Change", "Standard error", "Learnt"])


def _keep(read: IngestResult) -> None:
    st.subheader("Keep or forget", anchor=False)
    called, person = st.columns(2)
    name = called.text_input("Name in this advisor's store", read.file_name, key="keep_name")
    given_by = person.text_input("Given by (optional, shown to all)", key="keep_given_by")
    save, csv, forget = st.columns(3)
    save.button("Save to this advisor's store", key="keep", on_click=uploads.save, args=(name, given_by))
    csv.download_button("Download as CSV", kept_csv(read.frame.reset_index()), "measurements.csv", "text/csv",
                        key="upload_csv", on_click="ignore")  # fmt: skip
    forget.button("Forget this upload", key="forget", on_click=uploads.forget)


def _kept() -> None:
    """Data sets that somebody chose to keep: all who use this advisor see them."""
    kept = uploads.kept()
    if kept is None or not len(kept):
        return
    with st.expander(f"Kept in this advisor's store ({len(kept)})"):
        st.dataframe(kept, hide_index=True)
        chosen = st.selectbox("Data set", list(kept["dataset_id"]), key="kept_dataset")
        use, csv, drop = st.columns(3)
        use.button("Refit on it", key="use_kept", on_click=uploads.use_kept, args=(chosen,))
        csv.download_button("Download it as CSV", lambda: uploads.kept_data(chosen), f"{chosen}.csv", "text/csv",
                            key="kept_csv", on_click="ignore")  # fmt: skip
        drop.button("Delete it", key="forget_kept", on_click=uploads.forget_kept, args=(chosen,))
