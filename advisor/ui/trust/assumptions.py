"""What the model assumes, and what its words mean."""

from __future__ import annotations

import streamlit as st

from advisor.advice import Advice
from advisor.report import LIMITS
from advisor.ui.shared import widgets
from advisor.ui.trust import provenance


def draw(advice: Advice) -> None:
    """The whole tab."""
    st.subheader("Assumptions and limits", anchor=False)
    st.markdown("\n".join(f"- {line}" for line in LIMITS))
    widgets.show_warnings(advice)
    st.subheader("Words and symbols", anchor=False)
    st.dataframe(provenance.nomenclature_table(), hide_index=True)
