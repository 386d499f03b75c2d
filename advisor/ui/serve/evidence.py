"""Evidence: what was published near this answer, how stated chances came true, what the sources say, what to know."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice
from advisor.answers.summary import accepted_text, correction_text, errors_text, tier_words
from advisor.measured.seeds import read_claims, read_findings, seeds_table
from advisor.measured.validation import chance_kept_text, chances_kept, read_judged
from advisor.prediction import AdvisorError
from advisor.show.charts.explore import odds_chart
from advisor.show.explain.nearby import nearest_speedups
from advisor.ui.answers import errors_for, published_for
from advisor.ui.bar.more import said_of
from advisor.ui.widgets import plain, show_chart

_NEAR = 8
"""Published rows that are shown. [-]"""


def draw_evidence(advice: Advice) -> None:
    """The whole tab."""
    left, right = st.columns([6, 5], gap="large")
    with left:
        _published(advice)
    with right:
        _odds(advice)
    st.markdown("**What to know of this answer**")
    st.markdown("\n".join(f"- {plain(text)}" for text in remarks(advice)))
    with st.expander("What the sources claim, and what we answer"):
        claims = tuple(one for one in read_claims() if one.where.startswith("Serve"))
        table = seeds_table(claims, read_findings())
        st.dataframe(table.drop(columns=["band", "where"]), hide_index=True)


def _published(advice: Advice) -> None:
    """The nearest published speedups, and the model's own at the same batch and K."""
    st.markdown("**Published near this scenario**")
    found = published_for(advice.scenario)
    if found is None or found.empty:
        st.caption("None on this accelerator and model; the page Trust has them all.")
        return
    near = nearest_speedups(found, advice.scenario.batch_size, advice.curve_k, _NEAR)
    ours = [modelled(advice, row.batch_size, row.n_draft) for row in near.itertuples()]
    table = pd.DataFrame(
        {
            "Batch": near["batch_size"].astype(int),
            "K": near["n_draft"].map(lambda k: "best" if pd.isna(k) else f"{k:.0f}"),
            "Measured": near["speedup"].map("{:.2f}×".format),
            "Model": ours,
            "Drafter": near["drafter"],
            "Source": near["source"],
        }
    )
    st.dataframe(table, hide_index=True)


def modelled(advice: Advice, batch: float, n_draft: float) -> str:
    """Speedup of the model at a batch, of one K or of the best. Empty beyond the curve."""
    curve = advice.curve
    if not curve.batches[0] <= batch <= curve.batches[-1] or n_draft > curve.drafts[-1]:
        return ""
    table = np.log(curve.speedup.max(axis=1) if pd.isna(n_draft) else curve.speedup[:, curve.column(int(n_draft))])
    return f"{np.exp(np.interp(np.log(batch), np.log(curve.batches), table)):.2f}×"


def _odds(advice: Advice) -> None:
    """Stated chances of a gain against what happened."""
    st.markdown("**When we state a chance of a gain, how often did it gain?**")
    try:
        _, judged = read_judged()
    except AdvisorError as error:
        st.caption(plain(str(error)))
        return
    show_chart(odds_chart(chances_kept(judged)), "odds", advice.scenario)
    rows = f"{len(judged):,} published speedups, each by a fit that had not seen its laboratory; bars: likely range."
    st.caption(plain(f"{rows} {chance_kept_text(advice.recommendation.p_gain, judged)}"))


def remarks(advice: Advice) -> tuple[str, ...]:
    """Basis and warnings of an answer, without markup."""
    answer, setup = advice.recommendation, advice.setup
    said = [
        said_of(advice.scenario),
        f"Times are {tier_words(setup, answer.speedup.tier)}. {errors_text(errors_for(advice.scenario))}",
        accepted_text(advice) if setup.drafter.kind != "none" else "",
        correction_text(advice),
        f"{answer.bound_because} Decoding without drafts is {answer.bound}-bound.",
        *advice.schedule_texts,
        *advice.warnings,
        setup.routing_because if setup.architecture.moe is not None else "",
        f"{setup.cache.sentence}.",
    ]
    if answer.ttft_s is not None:
        said.append(f"Time to the first token of a prompt that does not queue: {answer.ttft_s * 1e3:,.0f} ms.")
    return tuple(text.strip() for text in said if text.strip())
