"""Evidence: what was published near this answer, how stated chances came true, what the sources say, what to know."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from advisor.answers.advice import Advice, chance_text
from advisor.answers.own_gap import at_batch
from advisor.answers.summary import accepted_text, correction_text, errors_text, tier_words
from advisor.measured.seeds import read_claims
from advisor.measured.validation import chance_kept_text, chances_kept, read_judged
from advisor.prediction import AdvisorError
from advisor.show.charts.measured import chances_chart
from advisor.show.explain.nearby import nearest_speedups
from advisor.show.table import Column, Table
from advisor.show.words.explain import PUBLISHED
from advisor.ui.answers import errors_for, published_for
from advisor.ui.bar.more import said_of
from advisor.ui.state import plain
from advisor.ui.widgets import show_chart, show_claims, show_table

_NEAR = 8
"""Published rows that are shown. [-]"""


def draw_evidence(advice: Advice) -> None:
    """The whole tab."""
    left, right = st.columns([6, 5], gap="large")
    with left:
        _published(advice)
    with right:
        _odds(advice)
    st.subheader("Basis and caveats", anchor=False)
    st.markdown("\n".join(f"- {plain(text)}" for text in remarks(advice)))
    with st.expander("What the sources claim, and what we answer"):
        show_claims(tuple(one for one in read_claims() if one.where.startswith("Serve")))


def _published(advice: Advice) -> None:
    """The nearest published speedups, and the model's own at the same batch and K."""
    st.subheader("Published near this scenario", anchor=False)
    found = published_for(advice.scenario)
    if found is None or found.empty:
        st.caption("None on this accelerator and model; the page Trust has them all.")
        return
    near = nearest_speedups(found, advice.scenario.batch_size, advice.curve_k, _NEAR)
    model: Column[dict[str, Any]] = Column("model", lambda row: modelled(advice, row["batch_size"], row["n_draft"]))
    batch, k, measured, *rest = PUBLISHED
    show_table(Table((batch, k, measured, model, *rest), near.to_dict("records")))
    st.caption("On this number of GPUs alone. Counts under Basis and caveats take in every number of GPUs.")


def modelled(advice: Advice, batch: float, n_draft: float) -> str:
    """Speedup of the model at a batch, of one K or of the best. Empty beyond the curve."""
    curve = advice.curve
    if not curve.batches[0] <= batch <= curve.batches[-1] or n_draft > curve.drafts[-1]:
        return ""
    speedup = curve.speedup.max(axis=1) if pd.isna(n_draft) else curve.speedup[:, curve.column(int(n_draft))]
    return f"{at_batch(curve, speedup, batch):.2f}×"


def _odds(advice: Advice) -> None:
    """Stated chances of a gain against what happened."""
    try:
        _, judged = read_judged()
    except AdvisorError as error:
        st.caption(plain(str(error)))
        return
    show_chart(chances_chart(chances_kept(judged)), "odds", advice.scenario)
    rows = f"{len(judged):,} published speedups, each by a fit that had not seen its laboratory. Numbers: runs; bars: "
    rows += "80% interval; on the dotted line: well calibrated."
    chance = advice.recommendation.p_gain
    after = chance_text(advice.recommendation.chance_of_gain)
    counted = (
        "" if after == chance_text(chance) else f" Published runs of this setup: {chance_text(chance)} to {after}."
    )
    st.caption(plain(f"{rows} {chance_kept_text(chance, judged)}{counted}"))


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
