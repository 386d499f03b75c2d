"""Models, accelerators and drafters as readers know them, and an accelerator made of a few figures
of a data sheet."""

import datetime as dt
import functools
import hashlib
import re
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.physics.architecture import Architecture
from advisor.physics.draft import Drafter, load_drafter
from advisor.physics.hardware import ComputeDtype, Hardware, hardware_ids, load_hardware
from advisor.prediction import AdvisorError, Constant, Frozen, explain
from advisor.profiles import PROFILES
from advisor.text import RepeatedKeyError, name_key, read_json

MAX_HARDWARE_BYTES = 20_000
"""Largest document of an accelerator. [B]"""
SAME_CHIP_TOLERANCE = 0.05
"""Bandwidth and peaks of the same chip differ by less: data sheets round differently, a variant
differs by more. [-]"""
PeakDtype = Literal["bf16", "fp8", "nvfp4", "mxfp4", "int8", "int4"]
Peak = Annotated[float, Field(ge=1e10, le=1e19, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=200)]
_NAME = re.compile(r"\w[\w .,+()/-]{0,59}")


class OwnHardware(Frozen):
    """Figures that a user gives of one GPU of a node, in SI units, dense peaks
    (docs/scenarios.md)."""

    name: Annotated[str, StringConstraints(strip_whitespace=True)]
    memory_bytes: float = Field(ge=1e9, le=1e14, allow_inf_nan=False)
    bandwidth_bytes_per_s: float = Field(ge=1e9, le=1e15, allow_inf_nan=False)
    peak_flops_per_s: dict[PeakDtype, Peak]
    link_bytes_per_s: float | None = Field(default=None, ge=1e7, le=1e14, allow_inf_nan=False)
    """Unidirectional, per accelerator, all links together."""
    gpus_per_node: int | None = Field(default=None, ge=1, le=4096)
    """GPUs that these links join."""
    network_bytes_per_s: float | None = Field(default=None, ge=1e7, le=1e14, allow_inf_nan=False)
    """Unidirectional, share of one accelerator in the network between nodes."""
    price_usd_per_hour: float | None = Field(default=None, ge=1e-2, le=1e4, allow_inf_nan=False)
    board_power_w: float | None = Field(default=None, ge=1.0, le=1e5, allow_inf_nan=False)
    """What one board is built for (TDP)."""
    vendor: Literal["NVIDIA", "AMD", "other"] = "other"
    """Whose measured parts stand in for the share of the peaks that kernels reach."""
    same_chip_as: str | None = None
    """Id of a profile whose measured kernels apply: the same chip with other memory or links."""
    source: Text = "given by the user"
    date: dt.date
    """Day the figures were read."""

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        if _NAME.fullmatch(value) is None:
            raise ValueError(
                "a name has 1 to 60 letters, digits, spaces and . , + ( ) / - and begins with a "
                "letter"
            )
        return value

    @field_validator("source")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("the source must be one line of printable text")
        return value

    @model_validator(mode="after")
    def _has_a_common_peak(self) -> "OwnHardware":
        if "bf16" not in self.peak_flops_per_s:
            raise ValueError(
                "peak_flops_per_s has no bf16; give it, since every format without a peak "
                "multiplies in it"
            )
        return self


def read_own_hardware(text: str) -> OwnHardware:
    """The document of an accelerator. Raises AdvisorError naming each wrong field, its range and
    unit."""
    if len(text.encode()) > MAX_HARDWARE_BYTES:
        raise AdvisorError(
            f"an accelerator's file has at most {MAX_HARDWARE_BYTES:,} bytes; this is something "
            "else"
        )
    try:
        values = read_json(text)
    except RepeatedKeyError as error:
        raise AdvisorError(f"the accelerator's file: {error}; remove one of them") from error
    except ValueError as error:
        raise AdvisorError(
            "the accelerator's file is not JSON; docs/scenarios.md has an example"
        ) from error
    if not isinstance(values, dict):
        raise AdvisorError(
            "the accelerator's file must hold one JSON object; docs/scenarios.md has an example"
        )
    if "model_type" in values or "architectures" in values:
        raise AdvisorError(
            "this is a model's config.json, not an accelerator; give it as the model"
        )
    if "scenario" in values:
        raise AdvisorError(
            "this is a whole scenario, not an accelerator; open it as a scenario file"
        )
    try:
        document = OwnHardware.model_validate(values)
    except ValidationError as error:
        reason = explain(error).replace("a setting of a scenario", "a field of an accelerator")
        raise AdvisorError(
            f"the accelerator's file: {reason}. Figures are in B, B/s and FLOP/s."
        ) from error
    _check_same_chip(document)
    return document


def hardware_from_own(text: str, hardware_id: str) -> Hardware:
    """The document as a Hardware: every constant of kind `user`. Raises AdvisorError as
    `read_own_hardware` does."""
    document = read_own_hardware(text)
    chip = load_hardware(document.same_chip_as) if document.same_chip_as is not None else None

    def optional(value: float | None, unit: str) -> Constant | None:
        return None if value is None else _constant(document, value, unit)

    peaks: dict[ComputeDtype, Constant] = {
        dtype: _constant(document, peak, "OP/s" if dtype.startswith("int") else "FLOP/s")
        for dtype, peak in document.peak_flops_per_s.items()
    }
    notes: tuple[str, ...] = ()
    if chip is not None:
        notes = (f"Kernel times are those measured on {chip.name}, given as the same chip.",)
    return Hardware(
        id=hardware_id,
        name=document.name,
        vendor=document.vendor if chip is None else chip.vendor,
        generation="" if chip is None else chip.generation,
        release_year=None if chip is None else chip.release_year,
        confidence="low",
        memory_bytes=_constant(document, document.memory_bytes, "B"),
        bandwidth_bytes_per_s=_constant(document, document.bandwidth_bytes_per_s, "B/s"),
        peak_flops_per_s=peaks,
        link_bytes_per_s=optional(document.link_bytes_per_s, "B/s"),
        gpus_per_node=optional(document.gpus_per_node, "1"),
        network_bytes_per_s=optional(document.network_bytes_per_s, "B/s"),
        price_usd_per_hour=optional(document.price_usd_per_hour, "USD/h"),
        board_power_w=optional(document.board_power_w, "W"),
        kernels={} if chip is None else chip.kernels,
        kernel_table_device=None if chip is None else chip.kernel_table_device,
        notes=notes,
    )


def own_digest(text: str | None) -> str:
    """Twelve hex digits of the figures in an accelerator's document, whatever it is called. Empty
    without one."""
    if text is None:
        return ""
    figures = read_own_hardware(text).model_dump_json(
        exclude={"name", "source", "date"}, exclude_none=True
    )
    return hashlib.sha256(figures.encode()).hexdigest()[:12]


@functools.cache
def figure_range(field: str) -> tuple[float, float]:
    """Least and largest value of a figure of OwnHardware, in its own unit. `peak_flops_per_s` is
    one peak."""
    schema = OwnHardware.model_json_schema()["properties"][field]
    limits = schema.get("additionalProperties") or next(iter(schema.get("anyOf", ())), schema)
    return float(limits["minimum"]), float(limits["maximum"])


def hardware_slug(name: str) -> str:
    """An id for an accelerator of that name which no profile has: `own-` and the name in plain
    letters."""
    slug = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._")[:40] or "accelerator"
    return slug if slug.startswith("own-") else f"own-{slug}"


def measured_chips() -> list[str]:
    """Ids of the profiles whose own kernels were measured: what `same_chip_as` may name."""
    return [name for name in hardware_ids() if load_hardware(name).kernel_table_device is not None]


def _check_same_chip(document: OwnHardware) -> None:
    """Measured kernels belong to a bandwidth and to peaks. Another bandwidth is another part."""
    if document.same_chip_as is None:
        return
    if document.same_chip_as not in (measured := measured_chips()):
        raise AdvisorError(
            f"same chip as {document.same_chip_as[:60]!r}: that one has no measured kernels; "
            f"choose one of {', '.join(measured)}, or leave it out"
        )
    chip = load_hardware(document.same_chip_as)
    pairs = [
        (
            "memory bandwidth",
            document.bandwidth_bytes_per_s,
            chip.bandwidth_bytes_per_s.value,
            1e12,
            "TB/s",
        )
    ]
    for dtype, peak in document.peak_flops_per_s.items():
        if dtype in chip.peak_flops_per_s:
            pairs.append(
                (f"{dtype} peak", peak, chip.peak_flops_per_s[dtype].value, 1e12, "TFLOP/s")
            )
    for figure, user_value, chip_value, scale, unit in pairs:
        if abs(user_value / chip_value - 1) > SAME_CHIP_TOLERANCE:
            raise AdvisorError(
                f"{document.name} is not the chip of {chip.id}: its {figure} is "
                f"{user_value / scale:,.4g} {unit}, that of {chip.id} {chip_value / scale:,.4g} "
                f"{unit}. Name no same chip; the answer then rests on a roofline"
            )


def _constant(document: OwnHardware, value: float, unit: str) -> Constant:
    return Constant(
        value=value,
        unit=unit,
        kind="user",
        source=document.source,
        date=document.date,
        confidence="low",
    )


_VENDORS = ("NVIDIA", "AMD", "Google", "Intel")


@lru_cache(maxsize=1)
def models_by_name() -> tuple[str, ...]:
    """Ids of all shipped models by name, as a list on screen is looked through."""
    return tuple(sorted(model_ids(), key=lambda model_id: model_name(model_id).lower()))


@lru_cache(maxsize=256)
def model_label(model_id: str) -> str:
    """A model's name with its experts, `Qwen3-30B-A3B · top-8 of 128`. An id that is none of ours
    stays as it is."""
    if model_id not in model_ids():
        return model_id
    return f"{model_name(model_id)} · {shape_label(load_model(model_id))}"


def model_name(model_id: str) -> str:
    """A model's name. An id that is none of ours stays as it is."""
    return (
        model_profile(model_id).name.removesuffix(" (dense)")
        if model_id in model_ids()
        else model_id
    )


def shape_label(architecture: Architecture) -> str:
    """Active of routed experts, `top-8 of 128`, or `dense`."""
    moe = architecture.moe
    return "dense" if moe is None else f"top-{moe.n_active} of {moe.n_experts}"


@lru_cache(maxsize=1)
def hardware_by_vendor() -> tuple[str, ...]:
    """Ids of all shipped accelerators, by vendor, newest first, H200 before GH200, SXM before
    PCIe."""

    def chip(hardware_id: str) -> str:
        first = hardware_id.partition("-")[0]
        return first if any(map(str.isdigit, first)) else hardware_id

    newest: dict[str, int] = {}
    for name in hardware_ids():
        newest[chip(name)] = max(newest.get(chip(name), 0), load_hardware(name).release_year or 0)

    def place(hardware_id: str) -> tuple[int, int, int, str, bool, str]:
        hardware = load_hardware(hardware_id)
        of = chip(hardware_id)
        vendor = _VENDORS.index(hardware.vendor) if hardware.vendor in _VENDORS else len(_VENDORS)
        return vendor, -newest[of], len(of), of, "sxm" not in hardware_id, hardware.name

    return tuple(sorted(hardware_ids(), key=place))


_COMMONEST = ("h100-sxm", "a100-80gb-sxm")
"""Boards that their chip's bare name means: those in servers of eight, as clouds rent them. Own
choice."""


_NOISE = re.compile(
    r"nvidia|amd|intel|google|instinct|geforce|tensor|core|gpu|accelerator|graphics|generation|edition|workstation|server|"
    r"hbm\de?|hgx|dgx|oam|"
)
"""Words in an accelerator's name that tell none apart."""


def _words_of(text: str) -> list[str]:
    """Words that tell an accelerator: `H100 SXM5 80 GB` is h100, sxm, 80gb."""
    key = name_key(re.sub(r"(\d)\s*gi?b?\b", r"\1gb", text.lower()))
    return [
        re.sub(r"^sxm\d$", "sxm", word) for word in key.split("_") if not _NOISE.fullmatch(word)
    ]


def _name_line(hardware_id: str) -> str:
    """Name of an accelerator by the line of its file, since forty whole profiles take longer than
    an answer."""
    text = (PROFILES / "hardware" / f"{hardware_id}.yaml").read_text(encoding="utf-8")
    name_match = re.search(r'^name: "(.+)"$', text, re.MULTILINE)
    return name_match[1] if name_match else load_hardware(hardware_id).name


@lru_cache(maxsize=1)
def _spelled() -> dict[str, tuple[set[str], set[str]]]:
    """Words of each accelerator's id and name, and the beginnings of its id without separators."""
    ids = {name: name_key(name).split("_") for name in hardware_ids()}
    return {
        name: (
            {*words, *_words_of(_name_line(name).partition(" (")[0])},
            {"".join(words[: length + 1]) for length in range(len(words))},
        )
        for name, words in ids.items()
    }


def boards_named(text: str) -> tuple[str, ...]:
    """Ids of all accelerators that a name may mean, in any usual spelling: three for H100. `-sxm`
    may be left out.

    Memory that drivers add to a name ("H100 80GB HBM3") counts only where some accelerator is
    called so.
    """
    words = _words_of(text)
    for wanted in (words, [word for word in words if not re.fullmatch(r"\d+gb", word)]):
        spelling = "".join(wanted)
        if not any(map(str.isalpha, spelling)) and len(spelling) < 4:
            continue
        known = _spelled().items()
        if fits := [
            name for name, (has, starts) in known if set(wanted) <= has or spelling in starts
        ]:
            return tuple(fits)
    return ()


def hardware_meant(text: str) -> str | None:
    """Id of the one accelerator that a cell or a typed name means (`NVIDIA H200` is `h200-sxm`), or
    None.

    Of several, the one whose only further word is `sxm` is taken: tools print data-centre parts
    without it.
    """
    if text in hardware_ids():
        return text
    fits = boards_named(text)
    allowed_words = {*_words_of(text), "sxm"}
    exact = [name for name in fits if {*name_key(name).split("_")} <= allowed_words]
    matches = exact if len(exact) == 1 else fits
    return matches[0] if len(matches) == 1 else None


def hardware_named(text: str) -> str:
    """Id of an accelerator called so (H200), of several boards the commonest, or the text as it is.

    Raises AdvisorError for several of which none is the commonest.
    """
    if (meant := hardware_meant(text)) is not None:
        return meant
    boards = boards_named(text)
    usual = [name for name in boards if name in _COMMONEST] or boards
    if len(usual) > 1:
        raise AdvisorError(
            f"{text[:40]} may be {', '.join(boards)}; say which, e.g. {boards[-1]} or "
            f"8x{boards[-1]}"
        )
    return usual[0] if usual else text


@lru_cache(maxsize=256)
def hardware_label(hardware_id: str) -> str:
    """An accelerator's name with its memory, `H200 SXM · 141 GiB`. An id that is none of ours stays
    as it is."""
    if hardware_id not in hardware_ids():
        return hardware_id
    hardware = load_hardware(hardware_id)
    return f"{hardware_name(hardware)} · {hardware.memory_bytes.value / 2**30:,.0f} GiB"


def hardware_name(hardware: Hardware) -> str:
    """An accelerator's name without vendor, memory and remarks: `H200 SXM`."""
    if hardware.is_own:
        return hardware.name
    words = hardware.name.partition(" (")[0].removeprefix(f"{hardware.vendor} ").split()
    return " ".join(word for word in words if not word.endswith("GB"))


def hardware_called(hardware_id: str, document: str | None = None) -> str:
    """The short name of an accelerator by its id, or of the one that `document` gives. The id where
    it cannot be."""
    try:
        return hardware_name(
            hardware_from_own(document, hardware_id) if document else load_hardware(hardware_id)
        )
    except AdvisorError:
        return hardware_id


def drafter_name(drafter: Drafter | str) -> str:
    """A drafter's short name."""
    profile = load_drafter(drafter) if isinstance(drafter, str) else drafter
    return profile.short_name or profile.name


def own_drafter(model_id: str) -> str | None:
    """Id of the drafter that ships with a shipped model or that its recipe names. None without
    one."""
    if model_id not in model_ids():
        return None
    if (drafter := model_profile(model_id).drafter) is not None:
        return drafter.id
    return "mtp" if load_model(model_id).mtp_modules else None
