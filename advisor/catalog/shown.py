"""Models, accelerators and drafters as readers know them: names instead of ids, in the order of their makers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from advisor.architecture import Architecture
from advisor.catalog.models import load_model
from advisor.catalog.own_hardware import hardware_from_own
from advisor.catalog.shipped import model_ids, model_profile
from advisor.drafter import Drafter, load_drafter
from advisor.hardware import Hardware, hardware_ids, load_hardware
from advisor.prediction import AdvisorError

_MAKERS: Mapping[str, str] = {
    "openai": "OpenAI",
    "deepseek-ai": "DeepSeek",
    "Qwen": "Qwen",
    "meta-llama": "Meta",
    "mistralai": "Mistral",
    "moonshotai": "Moonshot",
    "zai-org": "Zhipu",
    "MiniMaxAI": "MiniMax",
    "nvidia": "NVIDIA",
    "google": "Google",
    "microsoft": "Microsoft",
    "CohereLabs": "Cohere",
    "baidu": "Baidu",
    "tencent": "Tencent",
    "xai-org": "xAI",
    "ai21labs": "AI21",
    "allenai": "Ai2",
    "databricks": "Databricks",
    "ibm-granite": "IBM",
    "inclusionAI": "Ant",
    "meituan-longcat": "Meituan",
    "stepfun-ai": "StepFun",
    "XiaomiMiMo": "Xiaomi",
}
"""Organisation of a Hugging Face repository: the maker's usual name."""
_VENDORS = ("NVIDIA", "AMD", "Google", "Intel")


@lru_cache(maxsize=1)
def models_by_maker() -> tuple[str, ...]:
    """Ids of all shipped models, maker by maker, the smaller model of a maker first."""

    def place(model_id: str) -> tuple[str, float, str]:
        return maker_of(model_id), model_profile(model_id).published.total_params_b or 0.0, model_id

    return tuple(sorted(model_ids(), key=place))


def maker_of(model_id: str) -> str:
    """Maker of a shipped model."""
    organisation = model_profile(model_id).hf_repo.partition("/")[0]
    return _MAKERS.get(organisation, organisation)


@lru_cache(maxsize=256)
def model_label(model_id: str) -> str:
    """A model's name with its experts, `Qwen3-30B-A3B · 8 of 128`. An id that is none of ours stays as it is."""
    if model_id not in model_ids():
        return model_id
    return f"{model_name(model_id)} · {shape_label(load_model(model_id))}"


def model_name(model_id: str) -> str:
    """A model's name. An id that is none of ours stays as it is."""
    return model_profile(model_id).name.removesuffix(" (dense)") if model_id in model_ids() else model_id


def shape_label(architecture: Architecture) -> str:
    """Active of routed experts, `8 of 128`, or `dense`."""
    moe = architecture.moe
    return "dense" if moe is None else f"{moe.n_active} of {moe.n_experts}"


@lru_cache(maxsize=1)
def hardware_by_vendor() -> tuple[str, ...]:
    """Ids of all shipped accelerators, vendor by vendor, newest first."""

    def place(hardware_id: str) -> tuple[int, int, str]:
        found = load_hardware(hardware_id)
        vendor = _VENDORS.index(found.vendor) if found.vendor in _VENDORS else len(_VENDORS)
        return vendor, -(found.release_year or 0), found.name

    return tuple(sorted(hardware_ids(), key=place))


@lru_cache(maxsize=256)
def hardware_label(hardware_id: str) -> str:
    """An accelerator's name with its memory, `H200 SXM · 141 GiB`. An id that is none of ours stays as it is."""
    if hardware_id not in hardware_ids():
        return hardware_id
    found = load_hardware(hardware_id)
    return f"{hardware_name(found)} · {found.memory_bytes.value / 2**30:,.0f} GiB"


def hardware_name(hardware: Hardware) -> str:
    """An accelerator's name without vendor, memory and remarks: `H200 SXM`."""
    if hardware.is_own:
        return hardware.name
    words = hardware.name.partition(" (")[0].removeprefix(f"{hardware.vendor} ").split()
    return " ".join(word for word in words if not word.endswith("GB"))


def hardware_called(hardware_id: str, document: str | None = None) -> str:
    """The short name of an accelerator by its id, or of the one that `document` gives. The id where it cannot be."""
    try:
        return hardware_name(hardware_from_own(document, hardware_id) if document else load_hardware(hardware_id))
    except AdvisorError:
        return hardware_id


_DRAFTERS: Mapping[str, str] = {
    "mtp": "Own MTP module",
    "eagle3": "EAGLE-3",
    "eagle": "EAGLE-2",
    "p-eagle": "P-EAGLE",
    "dflash": "DFlash",
    "dspark": "DSpark",
    "ngram": "N-gram look-up",
    "suffix": "Suffix decoding",
    "none": "None",
    "draft_model": "Small draft model",
    "qwen2-0.5b": "Qwen2-0.5B",
}


def drafter_name(drafter: Drafter | str) -> str:
    """A drafter's short name."""
    if isinstance(drafter, str):
        return _DRAFTERS[drafter] if drafter in _DRAFTERS else load_drafter(drafter).name
    return _DRAFTERS.get(drafter.id, drafter.name)


def own_drafter(model_id: str) -> str | None:
    """Id `mtp` where a shipped model has a draft module of its own, else None."""
    return "mtp" if model_id in model_ids() and load_model(model_id).mtp_modules else None
