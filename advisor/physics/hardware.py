"""Accelerators: peaks, memory, links, and measured kernel constants, each with its origin."""

import datetime as dt
from functools import lru_cache
from typing import Literal

from pydantic import Field

from advisor.prediction import Confidence, Constant, Frozen
from advisor.profiles import PROFILES, load_profile, profile_ids

ComputeDtype = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"]
_LISTING = (
    "run `python -m advisor hardware` for all ids, or give the figures of a data sheet: --hardware "
    "FILE, or Your own accelerator under More (docs/scenarios.md)"
)
_ASSUMED_ON = dt.date(2026, 11, 21)


class KernelConstants(Frozen):
    """Small-batch GEMM behaviour in one data type. time = gemm_t0_s + bytes / bandwidth, capped by
    gemm_flops_per_s."""

    gemm_t0_s: Constant | None = None
    fit_bandwidth_bytes_per_s: Constant | None = None
    """Slope of the fit that gave gemm_t0_s; the two belong together."""
    stream_bandwidth_bytes_per_s: Constant | None = None
    """Bytes over whole time of large weights, launch included; for use where no fit exists."""
    gemm_flops_per_s: Constant | None = None


USUAL_NODE = 8
"""GPUs of a node where a profile does not say: those of an HGX or OAM board. [-]"""
WORKSTATION_CHIPS = ("sm_86", "sm_89", "sm_120", "sm_121", "gfx1151", "Battlemage")
"""Generations whose parts are no data centre's."""


class Hardware(Frozen):
    """One accelerator (one GPU of a node). SI units throughout; dense peaks, no structured
    sparsity."""

    id: str
    name: str
    vendor: str
    generation: str
    release_year: int | None
    confidence: Confidence
    memory_bytes: Constant
    bandwidth_bytes_per_s: Constant
    peak_flops_per_s: dict[ComputeDtype, Constant]
    last_level_cache_bytes: Constant | None = None
    link_bytes_per_s: Constant | None = None
    """Unidirectional, per accelerator, all links together."""
    link_type: str = ""
    gpus_per_node: Constant | None = None
    """GPUs that these links join: of a board or of a rack. [-]"""
    network_bytes_per_s: Constant | None = None
    """Unidirectional, the share of one accelerator in the network between nodes, nominal."""
    price_usd_per_hour: Constant | None = None
    board_power_w: Constant | None = None
    """Power that the board is built for (TDP), the accelerator's memory included."""
    kernels: dict[ComputeDtype, KernelConstants] = Field(default_factory=dict)
    kernel_table_device: str | None = None
    """Folder name of this device in the measured kernel tables, where there is one."""
    is_immature: bool = False
    """Whether those who run engines on it call them immature; the notes say who."""
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.id)  # the tables have none, and an id names one profile in a process

    @property
    def is_own(self) -> bool:
        """Whether the user gave it. Nothing of it goes in a shared cache."""
        return self.memory_bytes.kind == "user"


def hardware_ids() -> list[str]:
    """Ids of all accelerators with a profile, sorted."""
    return profile_ids("hardware")


@lru_cache(maxsize=128)
def load_hardware(hardware_id: str) -> Hardware:
    """The accelerator of a profile. Raises AdvisorError for an unknown id (with close ones) or a
    damaged file."""
    return load_profile("hardware", hardware_id, Hardware, "accelerators", _LISTING)


@lru_cache(maxsize=1)
def measured_hardware() -> tuple[Hardware, ...]:
    """Accelerators that have a measured kernel table, by id. Other profiles are not parsed: each
    takes milliseconds."""
    files = sorted((PROFILES / "hardware").glob("*.yaml"))
    candidates = [
        load_hardware(file.stem) for file in files if b"kernel_table_device:" in file.read_bytes()
    ]
    return tuple(hardware for hardware in candidates if hardware.kernel_table_device is not None)


def of_data_centre(hardware: Hardware) -> bool:
    """Whether an accelerator is a data centre's, by its generation: names of one chip vary."""
    return not set(hardware.generation.split()) & set(WORKSTATION_CHIPS)


def gpus_of_node(hardware: Hardware) -> int:
    """GPUs that fast links join: the profile's, else those of the usual board. [-]"""
    return USUAL_NODE if hardware.gpus_per_node is None else int(hardware.gpus_per_node.value)


def compute_dtype(hardware: Hardware, dtype: ComputeDtype) -> ComputeDtype:
    """The format in which `hardware` multiplies weights stored as `dtype`.

    `dtype` itself where the accelerator publishes a peak for it; fp8_block multiplies as fp8.
    Everything else is weight-only quantisation: weights are read in their own format, widened, and
    multiplied in bf16. That holds for fp8 on an A100, fp4 on an H100, int4 anywhere, and for a
    native rate below bf16 (int8 on a B300), which no engine would choose.
    """
    native: ComputeDtype = "fp8" if dtype == "fp8_block" else dtype
    peaks = hardware.peak_flops_per_s
    if native in peaks and ("bf16" not in peaks or peaks[native].value >= peaks["bf16"].value):
        return dtype
    return "bf16"


def peak_flops(hardware: Hardware, dtype: ComputeDtype) -> Constant:
    """Dense peak for weights stored as `dtype`, under the rule of `compute_dtype`. [FLOP/s]"""
    computed = compute_dtype(hardware, dtype)
    return hardware.peak_flops_per_s["fp8" if computed == "fp8_block" else computed]


def effective_bandwidth(hardware: Hardware, dtype: ComputeDtype) -> Constant:
    """Rate at which a small-batch GEMM streams weights stored as `dtype`. [B/s]

    The measured slope that belongs to `gemm_t0`, else the measured streaming rate, else the rate
    measured with the nearest format or with bf16 weights (kind "assumed"), else a fraction of the
    peak (kind "assumed").
    """
    for candidate in dict.fromkeys((*_nearest_formats(hardware, dtype), "bf16")):
        kernels = hardware.kernels.get(candidate, KernelConstants())
        slope = kernels.fit_bandwidth_bytes_per_s if kernels.gemm_t0_s is not None else None
        measured = slope or kernels.stream_bandwidth_bytes_per_s
        if measured is not None:
            return _taken_from(measured, candidate, dtype)
    fraction, reason, confidence = _bandwidth_fraction(hardware)
    return _assumed(hardware.bandwidth_bytes_per_s, fraction, reason, confidence)


def effective_flops(hardware: Hardware, dtype: ComputeDtype) -> Constant:
    """Rate of a large GEMM with weights stored as `dtype`. [FLOP/s]

    The measured median over large shapes (of the nearest format: kind "assumed"), else a fraction
    of the peak of the format it computes in (kind "assumed").
    """
    if (measured := _measured(hardware, dtype, "gemm_flops_per_s")) is not None:
        return measured
    fraction, reason, confidence = _gemm_fraction(hardware, compute_dtype(hardware, dtype))
    return _assumed(peak_flops(hardware, dtype), fraction, reason, confidence)


def gemm_t0(hardware: Hardware, dtype: ComputeDtype) -> Constant:
    """Launch intercept of a small-batch GEMM with weights stored as `dtype`. [s]

    Measured where a reliable fit exists for the format or its nearest one (then kind "assumed"),
    else an assumed constant. Weight-only formats take bf16's: nothing quantises their activations.
    """
    if (measured := _measured(hardware, dtype, "gemm_t0_s")) is not None:
        return measured
    return Constant(
        value=4.5e-6 if compute_dtype(hardware, dtype) == "bf16" else 7.5e-6,
        unit="s",
        kind="assumed",
        source=(
            "typical of the accelerators with measured GEMM tables "
            "(ai-dynamo/aiconfigurator@095f58a)"
        ),
        date=_ASSUMED_ON,
        confidence="medium" if hardware.vendor == "NVIDIA" else "low",
        note="3.7-6.4 us in bf16 and 6.8-8.5 us in fp8 and nvfp4 on data-centre NVIDIA parts",
    )


_SAME_UNITS: dict[ComputeDtype, ComputeDtype] = {
    "fp8_block": "fp8",
    "fp8": "fp8_block",
    "mxfp4": "nvfp4",
}
"""Formats that run on the same matrix units and read about as many bytes, so that one stands in for
the other."""


def _nearest_formats(hardware: Hardware, dtype: ComputeDtype) -> tuple[ComputeDtype, ...]:
    """Formats whose measured constants serve `dtype`, best first."""
    if compute_dtype(hardware, dtype) != dtype:
        return (dtype, "bf16")
    return (dtype, _SAME_UNITS[dtype]) if dtype in _SAME_UNITS else (dtype,)


def _measured(hardware: Hardware, dtype: ComputeDtype, name: str) -> Constant | None:
    """A kernel constant of the format or of the nearest one that has it."""
    for candidate in _nearest_formats(hardware, dtype):
        measured = getattr(hardware.kernels.get(candidate, KernelConstants()), name)
        if measured is not None:
            return _taken_from(measured, candidate, dtype)
    return None


def _taken_from(measured: Constant, measured_as: ComputeDtype, dtype: ComputeDtype) -> Constant:
    """`measured`, relabelled as an assumption where it was measured with another weight format."""
    if measured_as == dtype:
        return measured
    note = f"measured with {measured_as} weights, used for {dtype}"
    confidence = "low" if measured.confidence == "low" else "medium"
    return measured.model_copy(update={"kind": "assumed", "confidence": confidence, "note": note})


def _bandwidth_fraction(hardware: Hardware) -> tuple[float, str, Confidence]:
    """Assumed share of the nominal bandwidth that weight streaming reaches, why, and how sure.
    [-]"""
    if hardware.vendor == "NVIDIA":
        return (
            0.84,
            "typical bf16 streaming fraction of the measured NVIDIA parts (0.76-0.89)",
            "medium",
        )
    return (
        0.80,
        f"planning value of public simulators; no measured fraction is known for {hardware.vendor}",
        "low",
    )


def _gemm_fraction(hardware: Hardware, computed: ComputeDtype) -> tuple[float, str, Confidence]:
    """Assumed share of the peak of `computed` that a large GEMM reaches, why, and how sure. [-]"""
    if hardware.vendor == "NVIDIA":
        if computed == "bf16":
            return (
                0.78,
                "typical bf16 GEMM fraction of the measured NVIDIA parts (0.69-0.89)",
                "medium",
            )
        if computed in ("nvfp4", "mxfp4"):
            return (
                0.49,
                "median nvfp4 GEMM fraction of five measured NVIDIA parts (0.31-0.66)",
                "low",
            )
        return 0.61, "median fp8 GEMM fraction of nine measured NVIDIA parts (0.49-0.78)", "low"
    if hardware.vendor == "AMD" and computed != "bf16":
        return 0.53, "mean fp8 GEMM fraction of MI300X (0.49) and MI325X (0.58)", "low"
    if hardware.vendor == "AMD":
        return 0.60, "bf16 GEMM fraction of CDNA3 and CDNA4 parts (0.54-0.65)", "low"
    return (
        0.60,
        (
            f"no measured GEMM fraction is known for {hardware.vendor}; that of AMD CDNA3 and "
            "CDNA4 is used"
        ),
        "low",
    )


def _assumed(peak: Constant, fraction: float, reason: str, confidence: Confidence) -> Constant:
    """`fraction` of a published peak, labelled as the assumption it is."""
    worst = max((confidence, peak.confidence), key=("high", "medium", "low").index)
    return peak.model_copy(
        update={
            "value": fraction * peak.value,
            "kind": "assumed",
            "source": f"{fraction:.2f} of the published peak: {reason}. Peak: {peak.source}",
            "date": _ASSUMED_ON,
            "confidence": worst,
            "note": "",
        }
    )
