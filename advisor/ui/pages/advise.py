"""Advise: the verdict, the numbers behind it, speedup against batch size, why, what to try next, K by batch."""

import functools

import pandas as pd
import streamlit as st

from advisor.advice import Advice
from advisor.charts import speedup_chart
from advisor.runtime import k_by_batch_table, schedule_rule
from advisor.text import MERITS
from advisor.ui import PAGES, answers, compare_panel, how_made, try_next, widgets


def figures(advice: Advice) -> None:
    answer, batch = advice.recommendation, advice.scenario.batch_size
    ratio, tpot, rate = (MERITS[name] for name in ("speedup", "tpot", "tokens_per_s_per_gpu"))
    shown = (
        (
            ratio.name, ratio.text(answer.speedup.value), f"{answer.speedup.low:.2f} to {answer.speedup.high:.2f}",
            f"{advice.band_level:.0%} band. {answer.speedup.because}.", how_made.ANSWER,
        ),
        (tpot.name, tpot.text(answer.tpot_s), answer.per_user, None, how_made.PLAIN),
        (rate.name, rate.text(answer.tokens_per_s_per_gpu), f"batch {batch}", None, how_made.ANSWER),
        (
            f"Chance K = {answer.k_draft} is best", f"{answer.p_best:.0%}", f"expected loss {answer.regret:.1%}",
            "Share of the band's draws in which this K is fastest. Expected loss: how much of the speedup this K "
            "gives away on average, against each draw's own fastest K.", how_made.BAND,
        ),
    )  # fmt: skip
    with st.grid(4, min_column_width=165):
        for number, (label, value, note, help_text, section) in enumerate(shown):
            with st.container(gap="xsmall"):
                st.metric(label, value, note, delta_color="off", delta_arrow="off", help=help_text)
                how_made.button(batch, answer.k_draft, section, f"figure_{number}")


def speedup(advice: Advice) -> None:
    others = [int(k) for k in advice.curve.drafts if k not in (0, advice.curve_k)]
    place = st.container()
    compare = st.pills("Compare with K =", others, selection_mode="multi", key="compare_k")
    chart = speedup_chart(
        advice.curve,
        advice.curve_k,
        advice.scenario.batch_size,
        band_level=advice.band_level,
        sweet_spot_batch=advice.sweet_spot_batch,
        compare=compare,
        measured=answers.published_for(advice.scenario),
        drafter_id=advice.scenario.drafter_id,
        largest_batch=advice.setup.memory.largest_batch,
    )
    with place:
        widgets.show_chart(
            chart, "speedup", advice.scenario, select_key="speedup_points", on_select=how_made.asked_by_chart
        )
        st.caption("Click a point to see how it was made.")


def by_batch(advice: Advice) -> None:
    st.subheader("K by batch size", anchor=False)
    limit_ms = advice.scenario.max_tpot_ms
    columns, rows = k_by_batch_table(advice.k_by_batch, limit_ms is not None)
    table = pd.DataFrame(rows, columns=list(columns))
    table["K"] = [item.k_draft for item in advice.k_by_batch]
    table["Mean speedup"] = [item.speedup for item in advice.k_by_batch]
    table["Largest expected loss"] = [item.regret * 100 for item in advice.k_by_batch]
    st.caption(schedule_rule(limit_ms))
    st.dataframe(
        table,
        hide_index=True,
        column_config={
            "Mean speedup": st.column_config.NumberColumn(format="%.2fx"),
            "Largest expected loss": st.column_config.NumberColumn(format="%.1f%%"),
        },
        key="k_by_batch", selection_mode="single-row",
        on_select=functools.partial(how_made.asked_by_table, "k_by_batch", advice.k_by_batch),
    )  # fmt: skip
    st.caption("Select a row to see how its K was made.")


scenario = widgets.scenario_or_stop()
advice = widgets.advice_or_stop(scenario)
st.title(widgets.verdict(advice), anchor=False)
standing = st.container()
st.caption(f"{widgets.acceptance_note(advice)} {advice.recommendation.equals}".rstrip())
widgets.show_memory_problem(advice)
figures(advice)
speedup(advice)
compare_panel.draw(advice)
st.markdown(f"**Why:** {advice.recommendation.bound_because} Plain decoding is {advice.recommendation.bound}-bound.")
st.page_link(str(PAGES / "why.py"), label="Where the time goes", icon=":material/troubleshoot:")
goal = try_next.draw_goal()
steps_place = st.container()
widgets.show_warnings(advice)
by_batch(advice)
# Last, so that the chart never waits for it.
steps = answers.next_steps_for(scenario)
if steps.standing is not None:
    standing.markdown(f"**{widgets.plain(steps.standing.text)}**")
try_next.draw(steps_place, advice, steps, goal)
how_made.open_if_asked(advice)
