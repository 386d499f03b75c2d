"""What a scenario's answer rests on: assumptions, sources, how often it was right, claims of the
sources, the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.explore.changes import design_is_searched
from advisor.answers.outcome import outcome_of
from advisor.answers.track_record import TrackRecord, track_record
from advisor.catalog.hardware import hardware_called, model_name
from advisor.measured.measurements import dataset_folders, read_meta
from advisor.measured.refit_result import Errors
from advisor.measured.seeds import STATES, TOLERANCE, read_claims, read_findings, seeds_table
from advisor.measured.store import is_being_written
from advisor.measured.store_build import StoreStatus
from advisor.measured.validation import judged_errors
from advisor.physics.architecture import parameter_counts
from advisor.physics.hardware import Hardware
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.predict.setup import Setup
from advisor.prediction import Constant
from advisor.show.explain.round import citations, cited, derive
from advisor.show.phrases.answer import BOOK
from advisor.show.phrases.book import FORMS
from advisor.show.report.basis import LIMITS
from advisor.show.table import Column, Table, matrix
from advisor.show.track_record import trust_sheet
from advisor.show.words.answer import accepted_lengths
from advisor.show.words.basis import TIER_NAMES
from advisor.show.words.explain import NAMED
from advisor.text import with_prefix
from advisor.ui.answers import errors_for, store_status
from advisor.ui.session import attempt
from advisor.ui.sheet import draw_sheet
from advisor.ui.state import plain
from advisor.ui.widgets import (
    LABEL,
    accepted_from,
    ask,
    constants_table,
    show_table,
    show_warnings,
    tried,
)


def _of_hardware(hardware: Hardware) -> dict[str, Constant]:
    """Each constant of an accelerator by name."""
    constants: dict[str, Constant | None] = {
        "Memory": hardware.memory_bytes,
        "Memory bandwidth": hardware.bandwidth_bytes_per_s,
        "Link": hardware.link_bytes_per_s,
        "GPUs of a node": hardware.gpus_per_node,
        "Network between nodes": hardware.network_bytes_per_s,
        "Last-level cache": hardware.last_level_cache_bytes,
    }
    constants |= {f"Peak, {dtype}": peak for dtype, peak in hardware.peak_flops_per_s.items()}
    for dtype, kernels in hardware.kernels.items():
        constants[f"GEMM launch, {dtype}"] = kernels.gemm_t0_s
        constants[f"GEMM bandwidth, {dtype}"] = kernels.fit_bandwidth_bytes_per_s
        constants[f"Streaming bandwidth, {dtype}"] = kernels.stream_bandwidth_bytes_per_s
        constants[f"Large GEMM, {dtype}"] = kernels.gemm_flops_per_s
    return {name: constant for name, constant in constants.items() if constant is not None}


def _show_sourced(constants: Mapping[str, Constant]) -> None:
    """Constants with the numbers of their sources, and under them the sources, whose text wraps."""
    sources = list(dict.fromkeys(constant.source for constant in constants.values()))
    number: Column[tuple[str, Constant]] = Column(
        "Source no.", lambda row: sources.index(row[1].source) + 1
    )
    show_table(
        Table(
            (*(column for column in NAMED if column.label != "Source"), number),
            list(constants.items()),
        )
    )
    st.caption("\n".join(f"{number}. {plain(text)}" for number, text in enumerate(sources, 1)))


def _model_text(setup: Setup) -> str:
    """Size and memory of the model, as computed from its configuration."""
    counts = parameter_counts(setup.architecture)
    memory = setup.memory
    weights = with_prefix(memory.weights_bytes, "B")
    drafter = with_prefix(memory.drafter_bytes, "B")
    kv = with_prefix(memory.kv_bytes_per_sequence, "B")
    usable = with_prefix(memory.usable_bytes, "B")
    return (
        f"{counts.total / 1e9:,.4g} billion parameters, {counts.active_nonembedding / 1e9:,.4g} "
        f"billion active without embedding. Per GPU: weights {weights}, drafter {drafter}, KV "
        f"cache {kv} a sequence; of {usable} usable, {memory.largest_batch:,} sequences fit."
    )


def draw_assumptions(advice: Advice) -> None:
    """Assumptions of the model."""
    st.markdown("\n".join(f"- {line}" for line in LIMITS))
    show_warnings(advice)
    st.caption("Symbols and units: docs/model.md.")


def draw_sources(advice: Advice) -> None:
    """Works, constants and tables that this scenario's answer rests on."""
    facts = outcome_of(advice, follows_own=True).facts
    st.markdown(plain(BOOK.say("tier_because", facts)))
    show_warnings(advice)

    st.subheader("Cited by this scenario", anchor=False)
    st.caption(
        "Works behind the formulas and constants that this answer used, the design sentence "
        "included."
    )
    st.markdown(
        "\n".join(
            f"1. {plain(item.citation.text)} "
            f"[{item.citation.url.split('/')[2]}]({item.citation.url}) *For: "
            f"{', '.join(item.used_for)}.*"
            for item in cited(advice.setup, designs=design_is_searched(advice.setup))
        )
    )

    st.subheader("Source of each part", anchor=False)
    st.markdown("\n".join(f"- {plain(source)}" for source in advice.setup.sources))

    st.subheader("Constants at the target batch", anchor=False)
    st.caption(
        f"Every constant of the speedup at batch {advice.scenario.batch_size:,}, K = "
        f"{advice.curve_k}."
    )
    constants_table(derive(advice.setup, advice.scenario.batch_size, advice.curve_k))
    point = (advice.scenario.batch_size, advice.curve_k)
    st.button(
        LABEL,
        key="how_sources",
        type="tertiary",
        icon=":material/function:",
        on_click=ask,
        args=point,
    )

    st.subheader("Constants of the accelerator", anchor=False)
    _show_sourced(_of_hardware(advice.setup.hardware))
    for note in advice.setup.hardware.notes:
        st.caption(plain(note))

    st.subheader("Accepted length by K", anchor=False)
    st.caption(plain(accepted_from(advice)))
    show_table(accepted_lengths(advice.setup.acceptance, 1))

    if advice.setup.routing is not None:
        st.subheader("Routing", anchor=False)
        st.caption(plain(advice.setup.routing_because))
        names = ("Load spread (CV)", "Affinity (phi)", "Stickiness (rho)")
        pairs = zip(names, advice.setup.routing.parameters, strict=True)
        _show_sourced(
            {
                f"{name}, {constant.low:.3g}-{constant.high:.3g}": constant
                for name, constant in pairs
            }
        )

    st.subheader("Model", anchor=False)
    st.markdown(plain(_model_text(advice.setup)))


_WORST_ROWS = 8
_GROUPS = 9
_UNSTATED = "not stated"
_BY: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "predicted_tier": ("Basis of timings", TIER_NAMES.__getitem__),
    "engine": ("Engine", lambda name: name or _UNSTATED),
    "hardware_id": ("Accelerator", hardware_called),
}
"""Columns of judged runs that group them: title, and the name of a group."""


@st.cache_resource(show_spinner="Reading the published measurements ...", max_entries=1)
def _record() -> TrackRecord:
    return track_record()


def draw_record(scenario: Scenario) -> None:
    """Draw the first screen: predicted and measured."""
    near, problem = attempt(errors_for, scenario)
    if (record := tried(_record)) is not None:
        draw_sheet(trust_sheet(record, near or {}), "trust")
    if problem:
        st.caption(plain(problem))


def draw_groups() -> None:
    """Errors by group, and the runs furthest off."""
    if (record := tried(_record)) is None:
        return
    judged = record.judged
    groups = [
        _error_cells(f"{title}: {name_of(str(name))}", judged_errors(rows))
        for column, (title, name_of) in _BY.items()
        for name, rows in _largest(judged, column)
    ]
    show_table(matrix(_ERRORS, [_error_cells("All", record.left_out), *groups]))
    st.caption("Shares are means over laboratories, not runs. docs/validation.md has every figure.")
    worst = judged.nlargest(_WORST_ROWS, "absolute_percentage_error")
    show_table(Table(_WORST, worst.to_dict("records")))


def _largest(judged: pd.DataFrame, column: str) -> list[tuple[Any, pd.DataFrame]]:
    """The largest groups of one column."""
    groups = judged.groupby(judged[column].fillna(""))
    return sorted(groups, key=lambda pair: -len(pair[1]))[:_GROUPS]


def _error_cells(group: str, errors: Errors) -> tuple[str, ...]:
    shares = (errors.median_ape, errors.coverage, errors.mean_band_width)
    return (group, f"{errors.n:,}", f"{errors.n_sources}", *map(FORMS["share"], shares))


_ERRORS = ("Group", "Runs", "Laboratories", "Median error", "In the 80% range", "Width")
_WORST: tuple[Column[dict[str, Any]], ...] = (
    Column(FIELDS["model_id"].label, lambda row: model_name(row["model_id"]), words=True),
    Column(
        FIELDS["hardware_id"].label, lambda row: hardware_called(row["hardware_id"]), words=True
    ),
    Column("Engine", itemgetter("engine"), words=True),
    Column("Drafter", itemgetter("drafter"), words=True),
    Column("K", itemgetter("draft_tokens_k"), "{:.0f}".format),
    Column("Batch", itemgetter("batch_size"), "{:,.0f}".format),
    Column("Measured", itemgetter("measured"), "{:.2f}×".format),
    Column("Predicted", itemgetter("predicted_speedup"), "{:.2f}×".format),
    Column("80% range", lambda row: f"{row['predicted_low']:.2f}-{row['predicted_high']:.2f}×"),
    Column("Error", itemgetter("absolute_percentage_error"), "{:.0%}".format),
    Column("Source", itemgetter("source_title"), words=True),
)


def claims_text() -> str:
    """Label of the part on claims of the sources."""
    return f"{len(read_claims())} claims of the works behind this tool, reproduced or not"


def draw_claims() -> None:
    """Each claim of the sources beside our answer, on the source's own set-up."""
    states = read_findings()
    counts = Counter(states[claim.id].state for claim in read_claims())
    st.markdown(", ".join(f"{counts[state]} {state}" for state in STATES) + ".")
    titles = {citation.id: citation.title for citation in citations()}
    claims = seeds_table(read_claims(), states).drop(columns="where")
    rows = (
        claims.assign(source=[titles.get(source, source) for source in claims["source"]])
        .to_numpy()
        .tolist()
    )
    heads = ("Source", "Claim", "Published", "Ours", "80% range", "State")
    show_table(matrix(heads, rows, "l" * len(heads)), widest=250, lines=3)
    st.caption(
        f"A figure holds within {TOLERANCE:.0%} of what is published, a direction exactly; "
        "(differs) marks what does not. docs/sources.md says what is assumed."
    )


def draw_store_panel() -> None:
    """Coverage of the store, or without one the command that builds it."""
    now = store_status()
    is_building = is_being_written(now.path)
    if is_building:
        st.info(
            "The measured tables are being built, which takes about a minute. Then reload this "
            "page."
        )
    elif now.problem:
        st.warning(
            "There are no measured tables on this machine, so no measured points are shown. "
            "Predictions use the constants that ship with the advisor. To build them, run:"
        )
        st.code("python -m advisor store build", language=None)
        st.text(now.problem)
    if now.problem:
        return
    _size(now, is_building)
    _kernels(now)
    sets = [(folder.name, f"{read_meta(folder).row_count:,}") for folder in dataset_folders()]
    show_table(matrix(("Data set", "Rows"), sets))
    st.caption("`advisor store status` lists what was left out and the sweeps of this machine.")


def _size(now: StoreStatus, is_building: bool) -> None:
    built = f"{now.built_utc:%Y-%m-%d}" if now.built_utc else "at an unknown date"
    source = f"aiconfigurator-core {now.kernel_package_version or 'not installed'}"
    rows = sum((now.rows_by_table or {}).values())
    st.caption(
        f"{rows:,} rows, {now.size_bytes / 1e6:.0f} MB, built {built}; measured kernel tables: "
        f"{source}."
    )
    for reason in () if is_building else now.stale_because:
        st.warning(f"Out of date: {plain(reason)}. Run `python -m advisor store build`.")


def _kernels(now: StoreStatus) -> None:
    st.subheader("Measured kernels", anchor=False)
    if now.coverage is None or now.coverage.empty:
        st.info(
            "The measured kernel tables are not installed here; predictions use the fits that "
            "ship with the advisor."
        )
        return
    rows = now.coverage[list(_KERNELS)].itertuples(index=False)
    cells = [
        (*row[:5], *("" if pd.isna(count) else f"{count:,.0f}" for count in row[5:]))
        for row in rows
    ]
    show_table(matrix(tuple(_KERNELS.values()), cells, "lllllrrrr"))


_KERNELS = {
    "hardware_id": "Accelerator",
    "engine": "Engine",
    "version": "Version",
    "op": "Operation",
    "dtype": "Format",
    "n_shapes": "Shapes",
    "n_rows": "Rows",
    "min_tokens": "Fewest tokens",
    "max_tokens": "Most tokens",
}
