"""An accelerator of the user's own: a few figures of a data sheet, checked, as a Hardware whose constants say so."""

from __future__ import annotations

import datetime as dt
import functools
import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from advisor.hardware import Hardware, hardware_ids, load_hardware
from advisor.prediction import AdvisorError, Constant, Frozen, explain
from advisor.text import RepeatedKeyError, read_json

MAX_HARDWARE_BYTES = 20_000
"""Largest document of an accelerator. [B]"""
SAME_CHIP_TOLERANCE = 0.05
"""Bandwidth and peaks of the same chip differ by less: data sheets round differently, a variant differs by more. [-]"""

PeakDtype = Literal["bf16", "fp8", "nvfp4", "mxfp4", "int8", "int4"]
Peak = Annotated[float, Field(ge=1e10, le=1e19, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=200)]
_NAME = re.compile(r"\w[\w .,+()/-]{0,59}")


class OwnHardware(Frozen):
    """Figures that a user gives of one accelerator (one GPU of a node).

    SI units, dense peaks. docs/scenarios.md lists it.
    """

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
            raise ValueError("a name has 1 to 60 letters, digits, spaces and . , + ( ) / - and begins with a letter")
        return value

    @field_validator("source")
    @classmethod
    def _printable(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("the source must be one line of printable text")
        return value

    @model_validator(mode="after")
    def _has_a_common_peak(self) -> OwnHardware:
        if "bf16" not in self.peak_flops_per_s:
            raise ValueError(
                "peak_flops_per_s has no bf16; give it, since every format without a peak multiplies in it"
            )
        return self


def read_own_hardware(text: str) -> OwnHardware:
    """The document of an accelerator. Raises AdvisorError naming each wrong field, its range and unit."""
    if len(text.encode()) > MAX_HARDWARE_BYTES:
        raise AdvisorError(f"an accelerator's file has at most {MAX_HARDWARE_BYTES:,} bytes; this is something else")
    try:
        values = read_json(text)
    except RepeatedKeyError as error:
        raise AdvisorError(f"the accelerator's file: {error}; remove one of them") from error
    except ValueError as error:
        raise AdvisorError("the accelerator's file is not JSON; docs/scenarios.md has an example") from error
    if not isinstance(values, dict):
        raise AdvisorError("the accelerator's file must hold one JSON object; docs/scenarios.md has an example")
    if "model_type" in values or "architectures" in values:
        raise AdvisorError("this is a model's config.json, not an accelerator; give it as the model")
    if "scenario" in values:
        raise AdvisorError("this is a whole scenario, not an accelerator; open it as a scenario file")
    try:
        given = OwnHardware.model_validate(values)
    except ValidationError as error:
        reason = explain(error).replace("a setting of a scenario", "a field of an accelerator")
        raise AdvisorError(f"the accelerator's file: {reason}. Figures are in B, B/s and FLOP/s.") from error
    _check_same_chip(given)
    return given


def hardware_from_own(text: str, hardware_id: str) -> Hardware:
    """The document as a Hardware: every constant of kind `user`. Raises AdvisorError as `read_own_hardware` does."""
    given = read_own_hardware(text)
    chip = load_hardware(given.same_chip_as) if given.same_chip_as is not None else None
    link, price, board = given.link_bytes_per_s, given.price_usd_per_hour, given.board_power_w
    node, network = given.gpus_per_node, given.network_bytes_per_s
    return Hardware(
        id=hardware_id,
        name=given.name,
        vendor=given.vendor if chip is None else chip.vendor,
        generation="" if chip is None else chip.generation,
        release_year=None if chip is None else chip.release_year,
        confidence="low",
        memory_bytes=_constant(given, given.memory_bytes, "B"),
        bandwidth_bytes_per_s=_constant(given, given.bandwidth_bytes_per_s, "B/s"),
        peak_flops_per_s={
            dtype: _constant(given, peak, "OP/s" if dtype.startswith("int") else "FLOP/s")
            for dtype, peak in given.peak_flops_per_s.items()
        },
        link_bytes_per_s=None if link is None else _constant(given, link, "B/s"),
        gpus_per_node=None if node is None else _constant(given, node, "1"),
        network_bytes_per_s=None if network is None else _constant(given, network, "B/s"),
        price_usd_per_hour=None if price is None else _constant(given, price, "USD/h"),
        board_power_w=None if board is None else _constant(given, board, "W"),
        kernels={} if chip is None else chip.kernels,
        kernel_table_device=None if chip is None else chip.kernel_table_device,
        notes=() if chip is None else (f"Kernel times are those measured on {chip.name}, given as the same chip.",),
    )


@functools.cache
def figure_range(field: str) -> tuple[float, float]:
    """Least and largest value of a figure of OwnHardware, in its own unit. `peak_flops_per_s` is one peak."""
    schema = OwnHardware.model_json_schema()["properties"][field]
    limits = schema.get("additionalProperties") or next(iter(schema.get("anyOf", ())), schema)
    return float(limits["minimum"]), float(limits["maximum"])


def hardware_slug(name: str) -> str:
    """An id for an accelerator of that name which no profile has: `own-` and the name in plain letters."""
    slug = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-._")[:40] or "accelerator"
    return slug if slug.startswith("own-") else f"own-{slug}"


def measured_chips() -> list[str]:
    """Ids of the profiles whose own kernels were measured: what `same_chip_as` may name."""
    return [name for name in hardware_ids() if load_hardware(name).kernel_table_device is not None]


def _check_same_chip(given: OwnHardware) -> None:
    """Measured kernels belong to a bandwidth and to peaks. Another bandwidth is another part."""
    if given.same_chip_as is None:
        return
    if given.same_chip_as not in (measured := measured_chips()):
        raise AdvisorError(
            f"same chip as {given.same_chip_as[:60]!r}: that one has no measured kernels; choose one of "
            f"{', '.join(measured)}, or leave it out"
        )
    chip = load_hardware(given.same_chip_as)
    pairs = [("memory bandwidth", given.bandwidth_bytes_per_s, chip.bandwidth_bytes_per_s.value, 1e12, "TB/s")]
    for dtype, peak in given.peak_flops_per_s.items():
        if dtype in chip.peak_flops_per_s:
            pairs.append((f"{dtype} peak", peak, chip.peak_flops_per_s[dtype].value, 1e12, "TFLOP/s"))
    for what, own, known, scale, unit in pairs:
        if abs(own / known - 1) > SAME_CHIP_TOLERANCE:
            raise AdvisorError(
                f"{given.name} is not the chip of {chip.id}: its {what} is {own / scale:,.4g} {unit}, that of "
                f"{chip.id} {known / scale:,.4g} {unit}. Name no same chip; the answer then rests on a roofline"
            )


def _constant(given: OwnHardware, value: float, unit: str) -> Constant:
    return Constant(value=value, unit=unit, kind="user", source=given.source, date=given.date, confidence="low")
