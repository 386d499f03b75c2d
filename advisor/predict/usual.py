"""What a scenario takes where it is left open: drafter, acceptance, placement; one rule for page and terminal."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.hardware import drafter_name, model_name, own_drafter
from advisor.catalog.models import (
    load_model,
    model_ids,
    other_checkpoint,
    own_model,
    resolve_model_name,
    stored_format,
    unknown_model,
)
from advisor.physics.acceptance import acceptance_curve, acceptance_curves
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError
from advisor.text import listed, printable

START_ACCEPTANCE = "gpt-oss-20b-eagle3-mt-bench"
"""The curve to start from; a nearer one takes its place."""


def usual_drafter(model_id: str) -> str:
    """The model's own draft module where it has one, else the drafter that most models have a head for."""
    return own_drafter(model_id) or str(FIELDS["drafter_id"].default)


def nearest_acceptance(model_id: str, drafter_id: str, current: str = START_ACCEPTANCE) -> str:
    """The measured curve nearest to a shipped model and drafter.

    It is `current` when that is the user's own numbers or as near.

    Near: measured with this model and drafter, else with this drafter, else any.
    """
    curves = {curve.id: curve for curve in acceptance_curves()}
    if current not in curves:
        return current

    def nearness(curve_id: str) -> tuple[bool, bool]:
        same_drafter = curves[curve_id].drafter_id == drafter_id
        return same_drafter and curves[curve_id].model_id == model_id, same_drafter

    best = max(curves, key=nearness)
    return best if nearness(best) > nearness(current) else current


def acceptance_origin(acceptance: str, model_id: str, drafter_id: str) -> str:
    """Model and drafter of a measured acceptance curve, borrowed where they are others. Empty for numbers."""
    curve = acceptance_curve(acceptance)
    if curve is None:
        return ""
    how = "measured" if (curve.model_id, curve.drafter_id) == (model_id, drafter_id) else "borrowed: measured"
    whose = curve.checkpoint or model_name(curve.model_id)
    drafter = drafter_name(curve.drafter_id).replace("Own", "its own")
    return f"{how} with {whose} and {drafter} on {curve.dataset}"


def usual_tensor_parallel(n_gpus: int, node: int) -> int:
    """Ranks of one instance over all GPUs, as most deployments have it, but within a node of `node` GPUs. [-]"""
    return n_gpus if n_gpus <= node else math.gcd(n_gpus, node)


def carried_text(extrapolated: NDArray[np.bool_], drafts: NDArray[np.int64]) -> str:
    """Sentence on those of some K whose accepted length is neither measured nor given. Empty where none is."""
    found = [int(k) for k in drafts if k and extrapolated[k]]
    if not found:
        return ""
    runs = np.split(found, 1 + np.flatnonzero(np.diff(found) > 1))
    named = [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if run.size > 2 else map(str, run))]
    return f"At K = {listed(named)} it is extrapolated, with a wider band."


def drafted(values: dict[str, Any], assumed: list[str]) -> dict[str, Any]:
    """Drafter and acceptance of a new scenario, from what is known of its model. Says in `assumed` what it takes."""
    config, name = values.get("model_config_json"), values["model_id"]
    model_id = name if config is None else own_model(config, name).id
    drafter_id = values.get("drafter_id") or usual_drafter(model_id)
    if "drafter_id" not in values:
        assumed.append(f"{drafter_name(drafter_id)} (--drafter)")
    acceptance = values.get("acceptance")
    if acceptance is None and drafter_id == "none":
        acceptance = "0"
    elif acceptance is None:
        acceptance = nearest_acceptance(model_id, drafter_id)
        assumed.append(f"accepted length {acceptance_origin(acceptance, model_id, drafter_id)} (--accepted-length)")
    return {"drafter_id": drafter_id, "acceptance": acceptance}


def named_model(text: str) -> dict[str, Any]:
    """Fields of a model's id or name: id, checkpoint, a release's format. Raises AdvisorError for an unknown one."""
    if text in model_ids():
        return {"model_id": text, "model_config_json": None, "checkpoint": None}
    named = resolve_model_name(text)
    if named is None:
        raise AdvisorError(unknown_model(text))
    fields = {"model_id": named.model_id, "model_config_json": None, "checkpoint": other_checkpoint(text)}
    if named.weight_format not in (None, stored_format(load_model(named.model_id))):
        fields["weight_dtype"] = named.weight_format
    return fields


def split_gpus(text: str) -> tuple[int, str]:
    """GPUs and the accelerator's name of `8xH200`. Raises AdvisorError for anything else."""
    found = re.fullmatch(r"([0-9]{1,6})\s*[x×*]\s*(\S.*)", text.strip(), re.IGNORECASE)
    if found is None:
        raise AdvisorError(f"{printable(text, 40)!r} does not say how many GPUs of which kind; write it as 8xH200")
    return int(found[1]), found[2]
