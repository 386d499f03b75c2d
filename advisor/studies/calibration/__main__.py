"""`python -m advisor.calibration`: refit every measured kernel table and rewrite profiles/calibration."""

from __future__ import annotations

import sys

from advisor.prediction import AdvisorError
from advisor.store import open_store
from advisor.studies.calibration.build import calibrate, measured_devices, tables_of
from advisor.studies.calibration.gates import gate_results


def main() -> int:
    """Refit from the default store, print one line per accelerator and the gates; 2 when the store cannot be read."""
    try:
        with open_store() as store:
            records = calibrate(tables_of(store), measured_devices(), progress=lambda text: print(text, flush=True))
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
