"""The answer of the page Serve: verdict, key figures, how sure it is, and the table of every K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.bands import BEST_K_OF_EACH, SIMULATED
from advisor.catalog import hardware_name
from advisor.hardware import Hardware
from advisor.next_steps import own_runs_text
from advisor.summary import (
    Fit,
    Outcome,
    accepted_text,
    borrowed_from,
    errors_text,
    headline,
    likely_text,
    place_text,
    refitted_times_text,
    tier_words,
)
from advisor.ui.bar import accepted as bar_accepted
from advisor.ui.shared import answers, how_made, refit_use, state, widgets
from advisor.ui.shared.session import Slot

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


def say(advice: Advice, outcomes: Sequence[Outcome], n_draft: int, fit: Fit | None) -> None:
    """Verdict, figures and how sure, for the picked K."""
    what, where = place_text(advice)
    widgets.place(f"**{state.escaped(what)}** {state.escaped(where)}")
    if fit is None:
        st.title(headline(advice, n_draft, outcomes), anchor=False)
        st.markdown(likely_text(advice, n_draft, outcomes))
    else:
        _does_not_fit(fit, advice.setup.hardware)
    _figures(advice, outcomes, n_draft, "numbers" if fit is None else "numbers_off")
    st.caption(f"**How sure.** {state.escaped(' '.join(filter(None, _how_sure(advice))))}")


def _how_sure(advice: Advice) -> tuple[str, ...]:
    """What the times rest on, how often that was right, whose accepted length; of a refit where one is in use.

    An accepted length that is borrowed, the weakest of them, comes first.
    """
    rests_on = tier_words(advice.setup, advice.recommendation.speedup.tier)
    accepted = f"{accepted_text(advice)} {_as_in_the_bar(advice)}".rstrip()
    if advice.setup.adjustment is None:
        said = [f"Times are {rests_on}.", errors_text(answers.errors_for(advice.scenario))]
        own_runs = [own_runs_text(advice)]
    else:
        refitted = f"Times are {rests_on}, {refitted_times_text(advice.setup.adjustment)}."
        said, own_runs = [refitted, refit_use.left_out_text()], []
    return (accepted, *said, *own_runs) if borrowed_from(advice) else (*said, accepted, *own_runs)


def _as_in_the_bar(advice: Advice) -> str:
    """That the bar shows the same curve at another K, where it does; empty for a length typed at one K."""
    at, curve = st.session_state.get(bar_accepted.AT), advice.curve
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
            on_click=state.show,
            args=(fit.scenario, "button"),
        )


def _figures(advice: Advice, outcomes: Sequence[Outcome], n_draft: int, key: str) -> None:
    shown, plain = outcomes[n_draft], outcomes[0]
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
        how_made.button(advice.scenario.batch_size, n_draft, how_made.ANSWER, "figures")


def table(advice: Advice, outcomes: Sequence[Outcome]) -> None:
    """Table of every K at this batch, where the row that is picked drives the page.

    What decides stands first, so on a telephone.
    """
    frame = pd.DataFrame(
        {
            "K": [one.n_draft for one in outcomes],
            "Speedup": [one.speedup for one in outcomes],
            "Likely": [f"{one.low:.1f}–{one.high:.1f}×" if one.n_draft else "" for one in outcomes],
            "Chance best": [100 * one.p_best for one in outcomes],
            "Behind": [100 * one.regret for one in outcomes],
            "ms/token": [one.tpot_s * 1e3 for one in outcomes],
            "Tokens/s/GPU": [round(one.tokens_per_s_per_gpu) for one in outcomes],
        }
    )
    if advice.scenario.max_tpot_ms is not None:
        frame["Limit"] = ["kept" if one.meets_limit else "missed" for one in outcomes]
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
