"""Trust: how often this has been right and what it misses; folded, what its sources claim, what an
answer rests on, what the model assumes."""

from __future__ import annotations

import streamlit as st

from advisor.ui.trust.panels import (
    claims_text,
    draw_assumptions,
    draw_claims,
    draw_groups,
    draw_record,
    draw_sources,
    draw_store_panel,
)
from advisor.ui.widgets import advice_or_stop, open_if_asked, scenario_or_stop

scenario = scenario_or_stop()
draw_record(scenario)
FOLDED = {
    "claims": (claims_text(), draw_claims),
    "groups": ("By engine, accelerator and basis; worst cases", draw_groups),
    "data": ("Data shipped", draw_store_panel),
    "sources": (
        "Constants, works and routing of this answer",
        lambda: draw_sources(advice_or_stop(scenario)),
    ),
    "assumed": ("Assumptions and limits", lambda: draw_assumptions(advice_or_stop(scenario))),
}
parts = {
    name: st.expander(label, key=f"trust_{name}", on_change="rerun")
    for name, (label, _) in FOLDED.items()
}
for name, part in parts.items():
    if part.open:
        with part:
            FOLDED[name][1]()
if parts["sources"].open:
    open_if_asked(advice_or_stop(scenario))
