"""Sections of docs/validation.md on step times: bars, plain decode, ratios, the peer, verified tokens, rates."""

from __future__ import annotations

import pandas as pd

from advisor.studies.small_launches import left_out, without
from advisor.studies.validation.bars import bars_of_step_times, step_time_bars
from advisor.studies.validation.decode_no_sd import RATES, decode_rates, decode_rates_section
from advisor.studies.validation.peer import peer_section
from advisor.studies.validation.plain_tables import believed, decode_section
from advisor.studies.validation.ratios import ratios_section
from advisor.studies.validation.verify_cost import CURVES, verify_cost_section, verify_costs

NO_STORE = "## Plain decode: time per output token\n\nNo store here, so not judged; run `make store` first."


def step_time_sections(shipped: pd.DataFrame | None) -> list[str]:
    """The sections in the order of the document. `shipped`: `plain_decode` of the store, None without one."""
    costs, rates = verify_costs(pd.read_csv(CURVES)), decode_rates(pd.read_csv(RATES))
    measured = [verify_cost_section(costs), decode_rates_section(rates)]
    if shipped is None:
        return [NO_STORE, *measured]
    rows = left_out(shipped)
    return [
        bars_of_step_times(step_time_bars(shipped, costs)),
        decode_section(rows, shipped, without(shipped)),
        ratios_section(believed(rows)),
        peer_section(believed(rows)),
        *measured,
    ]
