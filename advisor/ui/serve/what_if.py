"""Pinned scenarios beside the one on screen: what differs, what comes of it, and their curves in one chart.

Try next: the changes that help most, each with its effect and the button that makes it the scenario.

What if: single changes that help, and scenarios pinned side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from advisor.answers.advice import Advice
from advisor.answers.explore.changes import GOALS, Effect, Goal, NextSteps, best_effects
from advisor.answers.explore.compare import comparison_rows, finding, short_names
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.charts.speedup import compared_chart
from advisor.show.words.next_steps import change_text, gain_text, none_text, outcome_text
from advisor.text import MERITS, screen_style, tier_text, typeset
from advisor.ui.answers import advice_for, next_steps_for
from advisor.ui.bar.fields import pinned, unpin
from advisor.ui.own_data import NAMES
from advisor.ui.state import add_own_model, show
from advisor.ui.widgets import plain, show_chart


def draw_compare_panel(shown: Advice) -> None:
    """Comparison of the answer on screen with the pinned scenarios, or nothing without pins."""
    if not pinned():
        return
    st.subheader("Pinned scenarios", anchor=False)
    advices = _answers(shown)
    if len(advices) < 2:
        st.caption("This scenario is pinned. Change something in the bar to compare.")
        return
    names = short_names([advice.scenario for advice in advices])
    st.markdown(plain(finding(advices, names)))
    rows = comparison_rows(advices)
    labels = pd.Index([row.label for row in rows], name="Setting or answer")
    table = pd.DataFrame([row.values for row in rows], columns=list(names), index=labels)
    st.dataframe(table, height="content")
    show_chart(compared_chart(advices, names), "comparison", shown.scenario)
    for name, advice in zip(names, advices, strict=True):
        _row(name, advice, shown)


def _answers(shown: Advice) -> list[Advice]:
    """The pinned scenarios' answers, the one on screen last where it is not pinned; says which has none."""
    found: list[Advice] = []
    for scenario in pinned():
        try:
            found.append(advice_for(scenario))
        except AdvisorError as error:
            st.error(plain(f"A pinned scenario has no answer: {error}"))
    return found if shown.scenario in pinned() else [*found, shown]


def _row(name: str, advice: Advice, shown: Advice) -> None:
    scenario = advice.scenario
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{name}{' (on screen)' if scenario == shown.scenario else ''}", width="stretch")
        if scenario != shown.scenario:
            st.button(
                "Go to it",
                key=f"go_{scenario.hash}",
                on_click=show,
                args=(scenario, "pin"),
                help=f"Make {plain(name)} the scenario on screen.",
            )
        if scenario in pinned():
            st.button("Unpin", key=f"unpin_{scenario.hash}", on_click=unpin, args=(scenario,))


SHOWN = 3
_SHORT_NAMES: Mapping[Goal, str] = {goal: MERITS[goal].short or MERITS[goal].name for goal in GOALS}
"""Of the control, whose three labels then stand on one line of a telephone, and of the table."""
_COLUMNS: Any = {"Outcome": st.column_config.TextColumn(width=100, help="Whether it helps beyond noise.")}


def draw_goal() -> Goal:
    """Control that says what changes are ranked by, drawn before they are evaluated."""
    st.subheader("Single changes that help", anchor=False)
    return cast(
        Goal,
        st.segmented_control(
            "Rank single changes by", GOALS, format_func=_SHORT_NAMES.__getitem__, required=True, key="next_goal"
        ),
    )


def draw_try_next(place: DeltaGenerator, advice: Advice, steps: NextSteps, goal: Goal) -> None:
    """The changes that help most, side by side, and all that were tried behind them."""
    with place:
        best = best_effects(steps, goal, SHOWN)
        if not best:
            st.info(none_text(steps, goal))
        with st.grid(SHOWN, min_column_width=200):
            for number, effect in enumerate(best):
                with st.container(border=True, height="stretch"):
                    _card(advice, effect, goal, number)
        with st.expander(f"All {len(steps.effects) + len(steps.refused)} changes tried"):
            _all(steps, goal)


def _card(advice: Advice, effect: Effect, goal: Goal, number: int) -> None:
    change = effect.change
    st.markdown(f"**{plain(_sentence_case(change.what))}**")
    st.markdown(f"{MERITS[goal].name} {plain(change_text(effect, goal))}")
    if gain := gain_text(effect, goal):
        st.caption(plain(f"{gain}, {tier_text(effect.tier, effect.extrapolated)}"))
    others = [f"{MERITS[other].words} {plain(change_text(effect, other))}" for other in GOALS if other != goal]
    st.caption(_sentence_case("; ".join(others)) + ".")
    for note in change.notes:
        st.caption(plain(note))
    st.button(
        "Make it the scenario",
        key=f"next_apply_{number}",
        icon=":material/input:",
        on_click=_apply,
        args=(advice.scenario, change.scenario),
    )


def _all(steps: NextSteps, goal: Goal) -> None:
    ordered = sorted(steps.effects, key=lambda effect: -effect.gain[goal].value)
    rows = [
        {
            "Change": typeset(effect.change.what),
            "Gain": screen_style(gain_text(effect, goal)),
            "Outcome": outcome_text(effect, goal),
            **{_SHORT_NAMES[shown]: screen_style(typeset(change_text(effect, shown))) for shown in GOALS},
            "Tier": str(effect.tier),
        }
        for effect in ordered
    ]
    if rows:
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=_COLUMNS)
    for what, why in steps.refused:
        st.caption(plain(f"{what}: {why.rstrip('.')}."))
    st.caption(
        "Both sides run at their own best K and share the simulated cases, but for kernels measured separately. Of "
        "each kind of change only the best is listed above, and only beyond noise."
    )


def _apply(today: Scenario, wanted: Scenario) -> None:
    """Callback: every field that the change moves is set in the bar; the browser's Back undoes it."""
    for field, value in dict(wanted).items():
        if field in NAMES and field not in ("model_id", "refit") and value != getattr(today, field):
            st.session_state[field] = value
    if wanted.model_config_json != today.model_config_json and wanted.model_config_json is not None:
        st.session_state["model_id"] = add_own_model(wanted.model_config_json, f"{wanted.model_id}.json")


def _sentence_case(text: str) -> str:
    """The first letter large, the others as they are: GPU stays GPU."""
    return text[0].upper() + text[1:]


def draw_what_if(advice: Advice) -> None:
    """The whole tab."""
    goal = draw_goal()
    place = st.container()
    draw_compare_panel(advice)
    steps = next_steps_for(advice.scenario)
    draw_try_next(place, advice, steps, goal)
    if steps.standing is not None:
        st.markdown(f"**Another design:** {plain(steps.standing.text)}")
