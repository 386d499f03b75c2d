"""The answer of the page Serve: verdict, key figures, how sure it is, and the table of every K.

Remarks: what else is to be known of this answer, and the accepted length and routing it rests on.

The chart of the page Serve: speedup by batch with its band, published points and the user's own.

What to paste: launch lines of the engines for the picked K, and what would flip the answer.

Check it: the commands that measure the prediction on the user's own machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.engines.config import EngineExport, one_option_a_line, one_slot_a_line
from advisor.answers.engines.export import check_commands
from advisor.answers.explore.own_runs import OwnGap, own_gap, own_gap_text, own_runs_text
from advisor.answers.summary import (
    ENOUGH_ROWS,
    Fit,
    accepted_text,
    borrowed_from,
    correction_text,
    errors_text,
    flip_texts,
    headline,
    likely_text,
    one_k_text,
    place_text,
    refitted_times_text,
    tier_words,
)
from advisor.catalog.engines import export_engines
from advisor.catalog.hardware import drafter_name, hardware_name
from advisor.measured.validation import chance_kept_text, read_judged
from advisor.physics.bands import BEST_K_OF_EACH, SIMULATED
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import Hardware
from advisor.show.charts.speedup import speedup_chart
from advisor.text import counted
from advisor.ui.answers import errors_for, flips_for, published_for, refit_text_for
from advisor.ui.bar.fields import AT
from advisor.ui.bar.more import said_of
from advisor.ui.own_data import left_out_text, own_points
from advisor.ui.serve.while_serving import (
    OWN_MODEL,
    PLACEHOLDER,
    RECOMMENDED,
    attempt,
    export_for,
    needs_draft_name,
    on_engine,
    own_model_text,
    pasted_text,
    served_model,
)
from advisor.ui.session import Slot
from advisor.ui.state import escaped, show
from advisor.ui.widgets import ANSWER, accepted_from, asked_by_chart, button, place, plain, show_chart

_NUMBER = st.column_config.NumberColumn
_COLUMNS: dict[str, Any] = {
    "K": _NUMBER(width=34, help="Tokens drafted a step; 0 is plain decoding."),
    "Speedup": _NUMBER(format="%.2f×", width=68),
    "Likely": st.column_config.TextColumn(width=78, help=f"Eight in ten of {SIMULATED} lie in here."),
    "Tokens/s/GPU": _NUMBER(format="localized", width=90),
    "Chance best": st.column_config.ProgressColumn(
        format="%.0f%%", min_value=0, max_value=100, width=88, help=f"Share of {SIMULATED} in which this K is fastest."
    ),
    "Behind": _NUMBER(
        format="%.1f%%", width=56, help=f"Speedup given up on average against {BEST_K_OF_EACH}: the least is taken."
    ),
}


@dataclass(frozen=True)
class _Table:
    """The table as it stands on the page: whose answer it shows, and the rows it has."""

    scenario: str = ""
    rows: int = 0
    first_picked: int = 0
    """The row that is picked until the user picks another."""
    number: int = 0

    @property
    def key(self) -> str:
        return f"k_table_{self.number}"


_TABLE: Slot[_Table] = Slot("_k_table", _Table)


def _table_of(advice: Advice) -> _Table:
    """The table of an answer; a new one where another row is to be picked than the one on the page has.

    Otherwise it stays, with other numbers in it: a new one is put up in some ten steps, each drawn.
    """
    shown, recommended = _TABLE.get(), list(advice.curve.drafts).index(advice.recommendation.n_draft)
    if shown.scenario == advice.scenario.hash:
        return shown
    stays = (shown.rows, shown.first_picked) == (len(advice.curve.drafts), recommended)
    stays = stays and _picked_rows(shown) in ([], [recommended])
    number = shown.number + (not stays)
    _TABLE.put(_Table(advice.scenario.hash, len(advice.curve.drafts), recommended, number))
    return _TABLE.get()


def _picked_rows(table: _Table) -> list[int]:
    return list((dict(st.session_state.get(table.key) or {}).get("selection") or {}).get("rows", []))


def picked_k(advice: Advice) -> int:
    """The K of the row picked in the table, else the recommended one."""
    chosen = _picked_rows(_table_of(advice))
    drafts = advice.curve.drafts
    return int(drafts[chosen[0]]) if chosen and chosen[0] < len(drafts) else advice.recommendation.n_draft


def say(advice: Advice, n_draft: int, fit: Fit | None) -> None:
    """Verdict, figures and how sure, for the picked K."""
    what, where = place_text(advice)
    place(f"**{escaped(what)}** {escaped(where)}")
    if fit is None:
        st.title(headline(advice, n_draft), anchor=False)
        st.markdown(likely_text(advice, n_draft))
    else:
        _does_not_fit(fit, advice.setup.hardware)
    _figures(advice, n_draft, "numbers" if fit is None else "numbers_off")
    st.caption(f"**How sure.** {escaped(' '.join(filter(None, _how_sure(advice))))}")


def _how_sure(advice: Advice) -> tuple[str, ...]:
    """What the times rest on, how often that was right, whose accepted length; of a refit where one is in use.

    An accepted length that is borrowed, the weakest of them, comes first.
    """
    rests_on = tier_words(advice.setup, advice.recommendation.speedup.tier)
    accepted = f"{accepted_text(advice)} {_as_in_the_bar(advice)}".rstrip()
    if advice.setup.adjustment is None:
        chance = chance_kept_text(advice.recommendation.p_gain, read_judged()[1])
        said = [f"Times are {rests_on}.", correction_text(advice), errors_text(errors_for(advice.scenario)), chance]
        own_runs = [own_runs_text(advice)]
    else:
        refitted = f"Times are {rests_on}, {refitted_times_text(advice.setup.adjustment)}."
        said, own_runs = [refitted, left_out_text()], []
    return (accepted, *said, *own_runs) if borrowed_from(advice) else (*said, accepted, *own_runs)


def _as_in_the_bar(advice: Advice) -> str:
    """That the bar shows the same curve at another K, where it does; empty for a length typed at one K."""
    at, curve = st.session_state.get(AT), advice.curve
    if "@" in advice.scenario.acceptance or at in (None, advice.curve_k) or at not in curve.drafts:
        return ""
    return f"The bar shows the same curve at K = {at}: {float(curve.accepted_length[curve.column(int(at))]):.2f}."


def _does_not_fit(fit: Fit, hardware: Hardware) -> None:
    st.title(fit.title, anchor=False)
    st.markdown(fit.because)
    if fit.scenario is not None:
        st.button(
            f"Use {fit.scenario.n_gpus} × {hardware_name(hardware)}",
            key="use_more_gpus",
            icon=":material/add:",
            type="primary",
            on_click=show,
            args=(fit.scenario, "button"),
        )


def _figures(advice: Advice, n_draft: int, key: str) -> None:
    shown, plain = advice.drafts[n_draft], advice.drafts[0]
    with st.container(key=key, horizontal=True, gap="medium", vertical_alignment="center"):
        st.metric(
            "ms per token and user",
            f"{shown.tpot_s * 1e3:.3g}",
            f"{plain.tpot_s * 1e3:.3g} without drafts",
            delta_color="off",
            delta_arrow="off",
            width="content",
        )
        st.metric(
            "Tokens/s per GPU",
            f"{shown.tokens_per_s_per_gpu:,.0f}",
            f"{plain.tokens_per_s_per_gpu:,.0f} without drafts",
            delta_color="off",
            delta_arrow="off",
            width="content",
        )
        button(advice.scenario.batch_size, n_draft, ANSWER, "figures")


def table(advice: Advice) -> None:
    """Table of every K at this batch, where the row that is picked drives the page.

    What decides stands first, so on a telephone.
    """
    rows = advice.drafts
    frame = pd.DataFrame(
        {
            "K": [row.n_draft for row in rows],
            "Speedup": [row.speedup for row in rows],
            "Likely": [f"{row.speedup_low:.1f}–{row.speedup_high:.1f}×" if row.n_draft else "" for row in rows],
            "Chance best": [100 * row.p_best for row in rows],
            "Behind": [100 * row.expected_loss for row in rows],
            "ms/token": [row.tpot_s * 1e3 for row in rows],
            "Tokens/s/GPU": [round(row.tokens_per_s_per_gpu) for row in rows],
        }
    )
    if advice.scenario.max_tpot_ms is not None:
        frame["Limit"] = ["kept" if row.meets_limit else "missed" for row in rows]
    form = "%.2f" if frame["ms/token"].max() < 100 else "%.1f"
    columns = _COLUMNS | {"ms/token": _NUMBER(format=form, width=70, help="Of one user.")}
    shown = _table_of(advice)
    st.dataframe(
        frame,
        hide_index=True,
        column_config=columns,
        row_height=30,
        key=shown.key,
        on_select="rerun",
        height=min(30 * len(frame) + 38, 400),
        selection_mode="single-row-required",
        selection_default={"selection": {"rows": [shown.first_picked]}},
        alt="Every K at this batch: speedup, likely range, ms per token, tokens/s, chance best, behind best.",
    )


def draw_remarks(advice: Advice) -> None:
    """The whole tab: text alone, so that it costs nothing below the first screen."""
    answer, setup = advice.recommendation, advice.setup
    notes = [
        said_of(advice.scenario),
        f"{answer.bound_because} Decoding without drafts is {answer.bound}-bound.",
        *advice.warnings,
        accepted_from(advice),
        setup.routing_because if setup.architecture.moe is not None else "",
        f"{setup.cache.sentence}.",
    ]
    if answer.ttft_s is not None:
        notes.append(f"Time to the first token of a prompt that does not queue: {answer.ttft_s * 1e3:,.0f} ms.")
    st.markdown("\n".join(f"- {plain(note)}" for note in notes if note))


def draw_curve_panel(advice: Advice, n_draft: int) -> None:
    """The curve of the picked K, or of the best K above 0 where none is recommended."""
    shown = n_draft or advice.curve_k
    scenario, published = advice.scenario, published_for(advice.scenario)
    own_rows = own_points(scenario)
    if changed := refit_text_for(scenario):
        st.markdown(f":material/tune: {plain(changed)}")
    if own_rows is not None and (gap := own_gap(advice, own_rows)) is not None:
        _explain(gap)
    note = st.empty()
    place = st.container()
    others = [int(k) for k in advice.curve.drafts if k not in (0, shown)]
    compare = st.pills("Compare with K", others, selection_mode="multi", key="compare_k") if others else []
    chart = speedup_chart(
        advice.curve,
        shown,
        scenario.batch_size,
        band_level=advice.band_level,
        compare=compare,
        measured=published,
        drafter_id=scenario.drafter_id,
        own=own_rows,
        largest_batch=advice.setup.memory.largest_batch,
    )
    note.caption(_legend(published, advice, own_rows) + _elsewhere(advice) + "Click a point to see how it was made.")
    asked = functools.partial(asked_by_chart, n_draft=shown)
    with place:
        show_chart(chart, "speedup", scenario, select_key="speedup_points", on_select=asked)


def _explain(gap: OwnGap) -> None:
    """What would explain that all own points lie on one side of the curve, with buttons that try it."""
    st.markdown(f":material/rule: {plain(own_gap_text(gap))}")
    length, k = gap.length_to_try, gap.n_draft
    with st.container(horizontal=True, gap="small"):
        if length is not None:
            whose = "your file's" if gap.stated_length is not None else "the inferred"
            st.button(
                f"Use {whose} {length:.2f} at K = {k}",
                key="use_gap_length",
                icon=":material/input:",
                on_click=_put,
                args=("acceptance", f"{length:.2f}@{k}"),
                help="Puts it at Accepted in the bar; Back undoes it.",
            )
        if gap.own_context is not None:
            st.button(
                f"Use their context {gap.own_context:,}",
                key="use_gap_context",
                icon=":material/input:",
                on_click=_put,
                args=("context_tokens", gap.own_context),
                help="Puts it at Context in the bar; Back undoes it.",
            )


def _put(field: str, value: object) -> None:
    """Callback: one field of the bar set, which the address then says."""
    st.session_state[field] = value


def _legend(published: pd.DataFrame | None, advice: Advice, own_rows: pd.DataFrame | None) -> str:
    """What the marks are, in their colours."""
    parts, drafter_id = [], advice.scenario.drafter_id
    here = f"published on {counted(advice.setup.placement.gpus, 'GPU')}"
    if published is not None and len(published):
        same = int((published["drafter"] == drafter_id).sum())
        parts += [f"◆ {same} {here}"] if same else []
        others = sorted(set(published["drafter"]) - {drafter_id})
        whose = drafter_name(others[0]) if len(others) == 1 and others[0] in drafter_ids() else "other drafters"
        parts += [f"◇ {len(published) - same} {'' if same else here + ' '}with {whose}"] if others else []
    if own_rows is not None and len(own_rows):
        parts.append(f"● {len(own_rows)} of yours")
    return " · ".join([*parts, ""])


def _elsewhere(advice: Advice) -> str:
    """That points of this model on other accelerators are judged in Report, where its own here are few."""
    errors = errors_for(advice.scenario)
    here, others = errors.get("this accelerator and model"), errors.get("this model, other accelerators")
    if others is None or (here is not None and here.n >= ENOUGH_ROWS):
        return ""
    return f"{others.n} published of this model on other accelerators are in Report. "


def draw_commands(advice: Advice, n_draft: int, fit: Fit | None) -> None:
    """Launch line of each engine, with a button that copies it, where the scenario fits.

    The recommended K is pasted as report and export have it (`Advice.to_serve`); another K runs throughout.
    """
    if fit is not None:
        st.info(f"No command: it would not start. {fit.remedy}")
        return
    engines = export_engines()
    recommended = n_draft == advice.recommendation.n_draft
    choice = RECOMMENDED if recommended else f"K = {n_draft} throughout"
    served = served_model(advice) or OWN_MODEL
    for tab, engine in zip(st.tabs([engine.name for engine in engines]), engines, strict=True):
        with tab:
            made = export_for(advice, engine.id, choice, served, PLACEHOLDER)
            if isinstance(made, str):
                st.info(plain(made))
                continue
            _paste(made)
            own = on_engine(advice, engine.id)
            said = [pasted_text(own, own.recommendation.n_draft if recommended else n_draft, made)]
            if own_model := own_model_text(served):
                said.append(own_model)
            if PLACEHOLDER in made.launch_line:
                said.append(f"Put your {drafter_name(advice.setup.drafter)} checkpoint for {PLACEHOLDER}.")
            st.caption(" ".join(said))


def _paste(made: EngineExport) -> None:
    """The launch line, and the file that it loads where it loads one."""
    st.code(one_option_a_line(made.launch_line), language=None, wrap_lines=True)
    if made.file_name:
        st.caption(f"Save as {escaped(made.file_name)}:")
        st.code(one_slot_a_line(made.config_json), language=None, wrap_lines=True)


def flips(advice: Advice) -> None:
    """The thresholds at which another K is recommended, computed last."""
    st.markdown("**What would flip it**")
    today = float(advice.curve.accepted_length[advice.curve.column(advice.curve_k)])
    lines = [*flip_texts(flips_for(advice.scenario), advice.curve_k, today), one_k_text(advice)]
    st.markdown("\n".join(f"- {escaped(line)}" for line in lines))


def draw_check_it(advice: Advice) -> None:
    """The whole tab."""
    if advice.setup.drafter.kind == "none":
        st.info("Nothing is drafted in this scenario; choose a drafter in the bar above.")
        return
    st.markdown("These commands measure the prediction with vLLM; upload their results on the page Data.")
    served, draft = served_model(advice), str(st.session_state.get("draft_model") or "")
    if not draft and needs_draft_name(advice):
        draft = PLACEHOLDER
    made = attempt(check_commands, advice.setup, advice.curve_k, served_model=served, draft_model=draft)
    for item in made or ():
        st.caption(plain(item.purpose))
        st.code(item.command, language=None, wrap_lines=True)
