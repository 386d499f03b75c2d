"""`python -m advisor.studies.calibration`: refit the measured kernel tables and rewrite profiles/calibration.

Without arguments all of them; `--device b200-sxm --op moe` those of one accelerator and operation, and keeps the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from advisor.prediction import AdvisorError
from advisor.store import open_store
from advisor.studies.calibration.build import OPERATIONS, calibrate, measured_devices, tables_of
from advisor.studies.calibration.gates import gate_results


def main(arguments: Sequence[str] | None = None) -> int:
    """Refit from the default store, print one line per accelerator and the gates. 2 when the store cannot be read."""
    devices = {one.id: one for one in measured_devices()}
    parser = argparse.ArgumentParser(prog="python -m advisor.studies.calibration", description=__doc__.split("\n")[0])
    parser.add_argument("--device", action="append", choices=sorted(devices), help="only this accelerator")
    parser.add_argument("--op", action="append", choices=sorted(OPERATIONS), help="only this operation")
    asked = parser.parse_args(arguments)
    chosen = [devices[one] for one in asked.device or devices]
    ops = frozenset(asked.op or OPERATIONS)
    try:
        with open_store() as store:
            records = calibrate(tables_of(store), chosen, ops=ops, progress=lambda text: print(text, flush=True))
    except AdvisorError as error:
        print(error, file=sys.stderr)
        return 2
    if not records:
        print("the store holds no kernel tables: install aiconfigurator-core and rebuild it", file=sys.stderr)
        return 2
    for result in gate_results(records):
        gate = result.gate
        state = "passed" if result.passed else "missed"
        print(
            f"{gate.name} <= {gate.limit:.0%}: {result.n_passed} of {result.n_tables} tables "
            f"(gate {gate.share:.0%}): {state}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
