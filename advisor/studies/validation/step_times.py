"""Sections of docs/validation.md on step times: bars, plain decode, ratios, the peer, verified tokens, rates.

`python -m advisor.studies.validation.step_times` prints them in half a minute, and writes the ratios that comparisons
read, as `make validation` does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from advisor import store
from advisor.calibration import ActivationScales
from advisor.prediction import AdvisorError
from advisor.ratios import write_ratios
from advisor.studies.small_launches import held_out_rows, without
from advisor.studies.validation.bars import bars_of_step_times, step_time_bars
from advisor.studies.validation.decode_no_sd import RATES, decode_rates, decode_rates_section
from advisor.studies.validation.peer import peer_section
from advisor.studies.validation.plain import plain_decode
from advisor.studies.validation.plain_tables import believed, decode_section
from advisor.studies.validation.ratios import SOURCE, ratio_records, ratios_section
from advisor.studies.validation.verify_cost import CURVES, verify_cost_section, verify_costs

NVFP4_SCALES: dict[ActivationScales, str] = {"static": "half (shipped)", "dynamic": "none", "fused": "all"}
"""How much of TensorRT-LLM's nvfp4 time beyond vLLM's at the same product is taken off; no table settles it."""
NO_STORE = "## Plain decode: time per output token\n\nNo store here, so not judged; run `make store` first."


def judged_decode() -> dict[ActivationScales, pd.DataFrame] | None:
    """Plain decode of the store here with each way of scaling the products of nvfp4. None without a store."""
    try:
        with store.open_store(store.default_store_path()) as opened:
            points = store.plain_decode_points(opened)
    except AdvisorError:
        return None
    return {scales: plain_decode(points, scales) for scales in NVFP4_SCALES}


def step_time_sections(decode: Mapping[ActivationScales, pd.DataFrame] | None) -> list[str]:
    """The sections in the order of the document. `decode`: `judged_decode`."""
    costs, rates = verify_costs(pd.read_csv(CURVES)), decode_rates(pd.read_csv(RATES))
    measured = [verify_cost_section(costs), decode_rates_section(rates)]
    if decode is None:
        return [NO_STORE, *measured]
    shipped = decode["static"]
    rows = held_out_rows(shipped)
    by_scales = {NVFP4_SCALES[scales]: believed(held_out_rows(each)) for scales, each in decode.items()}
    return [
        bars_of_step_times(step_time_bars(shipped, costs)),
        decode_section(rows, shipped, without(shipped)),
        ratios_section(believed(rows), by_scales),
        peer_section(believed(rows)),
        *measured,
    ]


def write_judged_ratios(decode: Mapping[ActivationScales, pd.DataFrame]) -> Path:
    """Write what comparisons read, from points judged with constants fitted without their models."""
    return write_ratios(ratio_records(believed(held_out_rows(decode["static"]))), SOURCE)


def main() -> None:
    """Print the sections and write the ratios."""
    decode = judged_decode()
    sys.stdout.write("\n\n".join(step_time_sections(decode)) + "\n")
    if decode is not None:
        sys.stdout.write(f"\n{write_judged_ratios(decode)} written\n")


if __name__ == "__main__":
    main()
