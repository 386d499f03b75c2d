"""The named setups that every law of predictions is tried on: 120 of them, and all models, engines
and accelerators together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from advisor.catalog.engines import load_engine
from advisor.catalog.models import load_model, model_ids
from advisor.physics.hardware import hardware_ids, load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError

ENGINES = ("vllm", "sglang", "trtllm")
LONGEST_DRAFT = 7
COUNT = 120
BATCH = 32
"""Sequences that a setup has to hold at its context. [-]"""
_GPUS = (1, 2, 4, 8)
_SERVED_ON = (
    "h100-sxm",
    "b200-sxm",
    "h200-sxm",
    "rtx-pro-6000-blackwell",
    "mi300x",
    "a100-80gb-sxm",
    "gb300",
    "mi355x",
    "gb10-dgx-spark",
    "l40s",
    "h20",
)
"""Accelerators of the named setups, whose number shares no factor with that of the engines or
contexts, so that all combine."""
_CONTEXTS = (1024, 8192)
_FORMATS = ("", "fp8")


def named_setups() -> dict[str, Setup]:
    """COUNT setups by name: models in turn, each on the fewest GPUs that hold BATCH sequences."""
    setups: dict[str, Setup] = {}
    for place, (stored, model_id) in enumerate(product(_FORMATS * 2, model_ids())):
        hardware_id = _SERVED_ON[place % len(_SERVED_ON)]
        engine = ENGINES[place % len(ENGINES)]
        context = _CONTEXTS[place % len(_CONTEXTS)]
        reviewed = load_engine(engine).reviewed
        release = reviewed.version if reviewed is not None and place % 2 else ""
        setup = fitting_setup(model_id, hardware_id, engine, context, stored, release)
        if setup is not None:
            graphs = "in its graphs" if release else "graphs unknown"
            format_name = stored or "as published"
            name = f"{model_id} {format_name} {hardware_id} {engine} {context} {graphs}"
            setups[name] = setup
        if len(setups) == COUNT:
            break
    return setups


def every_setup() -> Iterator[tuple[str, Setup]]:
    """Each model on each accelerator under each engine that holds it, with its name."""
    for model_id, hardware_id, engine in product(model_ids(), hardware_ids(), ENGINES):
        setup = fitting_setup(model_id, hardware_id, engine, _CONTEXTS[0])
        if setup is not None:
            yield f"{model_id} {hardware_id} {engine}", setup


def fitting_setup(
    model_id: str,
    hardware_id: str,
    engine: str,
    context_tokens: int,
    weight_dtype: str = "",
    release: str = "",
) -> Setup | None:
    """A model on the fewest GPUs that hold BATCH sequences. None where eight do not, or where it
    cannot be split so.

    weight_dtype : stored format; empty: as the checkpoint is published. release : of the engine,
    which says what it captures; empty: not known. context_tokens : cached tokens of each sequence.
    [-]
    """
    drafter = "mtp" if load_model(model_id).mtp_modules else "ngram"
    asked = {
        "model_id": model_id,
        "hardware_id": hardware_id,
        "engine": engine,
        "drafter_id": drafter,
        "context_tokens": context_tokens,
        "acceptance": "2.4@3",
        "k_max": LONGEST_DRAFT,
    }
    stated = {"weight_dtype": weight_dtype, "engine_version": release}
    asked |= {name: text for name, text in stated.items() if text}
    several = load_hardware(hardware_id).link_bytes_per_s is not None
    for gpus in _GPUS if several else _GPUS[:1]:
        try:
            setup = load_setup(build_scenario(**asked, n_gpus=gpus, tensor_parallel=gpus))
        except AdvisorError:  # heads or experts do not divide, or no kernel serves
            continue
        if setup.memory.largest_batch >= BATCH:
            return setup
    return None


def with_changes(setup: Setup, **changes: object) -> Setup:
    """The setup of the same scenario with other values of its fields."""
    return load_setup(Scenario.model_validate({**dict(setup.scenario), **changes}))
