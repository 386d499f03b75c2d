"""Time per output token without speculation, predicted for the kernel package's silicon points.

`python -m advisor.studies.validation.plain` prints how right it is, in seconds: what to run after any change of a step.
Its constants are those that are shipped; `python -m advisor.studies.validation.step_times` judges with those chosen on
these points left out by model, and prints the bars.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from advisor import store
from advisor.calibration import ActivationScales
from advisor.curve import curve_for
from advisor.prediction import AdvisorError
from advisor.prefill import prefill_per_token_s
from advisor.scenario import build_scenario
from advisor.setup import Setup, load_setup, with_scales
from advisor.step_cost import launched_layers, norm_symbols
from advisor.studies.validation.plain_tables import overview
from advisor.studies.validation.quarantine import read_quarantine
from advisor.studies.validation.silicon import (
    POINTS,
    SCENARIO_FORMATS,
    SETTINGS,
    chosen_formats,
    expressible,
    near_duplicates,
    placement_of,
)

LAUNCHES = ("n_layers", "normed_layers", "launch_per_layer_s", "query_key_norm_s")
"""What the prediction charges for small launches."""
PREDICTED = ("gpus", "served_batch", "predicted_s", "step_s", "predicted_end_to_end_s", "tier", *LAUNCHES)


def plain_decode(frame: pd.DataFrame, scales: ActivationScales = "static") -> pd.DataFrame:
    """Measured and predicted time per output token, for the points that a scenario can express.

    Predicted: the plain step at the mean context plus the prefill that shares the GPU, at the batch that fits there
    where more was asked for. End to end, (TTFT + (OSL - 1) TPOT) / OSL: by Little's law the step and the whole prefill
    of the sequences in flight, whatever the engine does first; those that wait for memory count as in flight.

    Columns: POINTS, end_to_end_s, PREDICTED, near_duplicate, and `rule`, by which a point stands in the quarantine
    (else empty). `frame` is `store.plain_decode_points`; `scales` are those of quantised products.
    """
    points = expressible(frame)
    keys = [name for name in (*SETTINGS, *SCENARIO_FORMATS) if name != "batch_size"]
    judged = [rows for _, group in points.groupby(keys, sort=False) if (rows := _predicted(group, scales)) is not None]
    rows = (
        pd.concat(judged).sort_index().reset_index(drop=True) if judged else points.assign(**dict.fromkeys(PREDICTED))
    )
    rule = rows["point_id"].map(read_quarantine().set_index("point_id")["rule"]).fillna("")
    tokens = rows["output_tokens"]
    end_to_end_s = (rows["ttft_s"] + (tokens - 1) * rows["measured_s"]) / tokens
    return rows[[*POINTS, *PREDICTED]].assign(
        end_to_end_s=end_to_end_s, near_duplicate=near_duplicates(rows), rule=rule
    )


def _predicted(group: pd.DataFrame, scales: ActivationScales) -> pd.DataFrame | None:
    """Points that differ in batch alone, with their prediction. None where no scenario or no sequence fits."""
    try:
        setup = plain_setup(group.iloc[0].to_dict())
        setup = setup if scales == "static" else with_scales(setup, scales)
    except AdvisorError:
        return None
    fits = setup.memory.largest_batch
    if fits == 0:
        return None
    served = group["batch_size"].clip(upper=fits)
    batches, where = np.unique(served.to_numpy(float), return_inverse=True)
    curve, norm = curve_for(setup, batches, [0]), norm_symbols(setup.architecture, setup.costs)
    launch = launched_layers(setup.architecture, setup.costs), norm["L_q"], setup.costs.launch_per_layer_s, norm["c_q"]
    whole_s = curve.plain_step_s + prefill_per_token_s(setup, batches)
    return group.assign(
        gpus=setup.placement.gpus,
        served_batch=served,
        predicted_s=curve.tpot_s[where, 0],
        step_s=curve.plain_step_s[where],
        predicted_end_to_end_s=whole_s[where] * group["batch_size"] / served,
        tier=curve.tier[where, 0].astype(str),
        **dict(zip(LAUNCHES, launch, strict=True)),
    )


def plain_setup(point: Mapping[str, Any]) -> Setup:
    """Setup of a point of `expressible`, at its mean context. Raises AdvisorError where no scenario expresses it."""
    placement = placement_of(point)
    lengths = {name: int(point[name]) for name in ("input_tokens", "output_tokens")}
    return load_setup(
        build_scenario(
            hardware_id=point["hardware_id"],
            n_gpus=placement.gpus,
            tensor_parallel=placement.tensor_parallel,
            expert_parallel=placement.expert_parallel,
            engine=point["engine"],
            model_id=point["model_id"],
            drafter_id="ngram",
            acceptance="1.5@1",
            k_max=1,
            context_tokens=lengths["input_tokens"] + lengths["output_tokens"] // 2,
            **lengths,
            **chosen_formats(point),
        )
    )


def judged_plain_decode() -> pd.DataFrame:
    """Plain decode (`plain_decode`) judged with the store here. Raises AdvisorError without one."""
    with store.open_store(store.default_store_path()) as opened:
        return plain_decode(store.plain_decode_points(opened))


def main() -> None:
    """Print the figures of plain decode."""
    sys.stdout.write(overview(judged_plain_decode()) + "\n")


if __name__ == "__main__":
    main()
