"""The user's own accelerator in the bar: a few figures of its data sheet, or a file of them."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import streamlit as st

from advisor.catalog import MAX_HARDWARE_BYTES, figure_range, hardware_from_own, measured_chips
from advisor.hardware import Hardware, load_hardware
from advisor.prediction import AdvisorError
from advisor.ui.shared import state, widgets
from advisor.ui.shared.session import Slot

_PROBLEM: Slot[str] = Slot("_hardware_problem", str)
_GIGA, _TERA = 1e9, 1e12
_FIGURES = {
    "hw_memory": ("Memory (GB)", "memory_bytes", _GIGA, "Memory of one GPU, in decimal gigabytes."),
    "hw_bandwidth": ("Memory bandwidth (TB/s)", "bandwidth_bytes_per_s", _TERA, "Nominal, of one GPU."),
    "hw_link": ("Link (GB/s)", "link_bytes_per_s", _GIGA, "All links of one GPU, one way; needed for several GPUs."),
    "hw_node": ("GPUs of a node", "gpus_per_node", 1.0, "GPUs that these links join; 8 where it is not set."),
    "hw_network": ("Network (GB/s)", "network_bytes_per_s", _GIGA, "Between nodes, share of one GPU, one way."),
}
_PEAKS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4"}
_VENDORS = ("NVIDIA", "AMD", "other")
_UNNAMED = "My accelerator"


def draw() -> None:
    """The form, the uploader, and what is wrong with what they hold."""
    here = _hardware()
    if here is not None:
        st.button(f"Fill in from {here.id}", key="hw_fill", type="tertiary", on_click=_fill, args=(here,))
    with st.form("own_hardware", border=False):
        st.text_input("Name", key="hw_name", max_chars=60, placeholder=_UNNAMED)
        for key, (label, field, scale, text) in _FIGURES.items():
            _figure(label, key, field, scale, text)
        for dtype, label in _PEAKS.items():
            text = "Dense, without structured sparsity."
            _figure(f"Peak {label} (TFLOP/s)", f"hw_{dtype}", "peak_flops_per_s", _TERA, text)
        st.selectbox(
            "Vendor",
            _VENDORS,
            index=None,
            key="hw_vendor",
            placeholder="not set",
            help="Vendor whose measured accelerators show which share of the peak kernels reach.",
        )
        st.selectbox(
            "Same chip as",
            measured_chips(),
            index=None,
            key="hw_chip",
            placeholder="none: roofline",
            help="Its measured kernels then apply. Bandwidth and peaks must agree; memory and link may differ.",
        )
        st.text_input("Source of the figures", key="hw_source", max_chars=200, placeholder="given by the user")
        st.form_submit_button("Use this accelerator", key="hw_use", on_click=_take_form, width="stretch")
    # No `type` here: the browser would refuse other files by a red icon, without a word.
    st.file_uploader("or its JSON file", key="hw_file", on_change=_take_file, max_upload_size=1)
    if problem := _PROBLEM.get():
        st.error(widgets.plain(problem))
    name = str(st.session_state["hardware_id"])
    if (document := state.own_hardware().get(name)) is not None:
        st.download_button(
            "This accelerator as JSON",
            document,
            f"{name}.json",
            "application/json",
            key="hw_download",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
        )
    st.caption("It stays in this session and in links and files you share.")


def _figure(label: str, key: str, field: str, scale: float, text: str) -> None:
    low, high = (end / scale for end in figure_range(field))
    st.number_input(
        label,
        low,
        high,
        value=None,
        step=1.0,
        format="%g",
        key=key,
        placeholder="not set",
        help=f"{text} From {low:g} to {high:,.0f}.",
    )


def _hardware() -> Hardware | None:
    """The accelerator chosen above; None for one given by a link that cannot be."""
    name = str(st.session_state["hardware_id"])
    try:
        text = state.own_hardware().get(name)
        return load_hardware(name) if text is None else hardware_from_own(text, name)
    except AdvisorError:
        return None


def _fill(here: Hardware) -> None:
    now, link = st.session_state, here.link_bytes_per_s
    now.hw_name = here.name[:60]
    now.hw_memory = here.memory_bytes.value / _GIGA
    now.hw_bandwidth = here.bandwidth_bytes_per_s.value / _TERA
    now.hw_link = None if link is None else link.value / _GIGA
    node, network = here.gpus_per_node, here.network_bytes_per_s
    now.hw_node = None if node is None else node.value
    now.hw_network = None if network is None else network.value / _GIGA
    for dtype in _PEAKS:
        peak = here.peak_flops_per_s.get(dtype)  # type: ignore[call-overload]
        now[f"hw_{dtype}"] = None if peak is None else peak.value / _TERA
    now.hw_vendor = here.vendor if here.vendor in _VENDORS else "other"
    now.hw_chip = here.id if here.kernel_table_device is not None and not here.is_own else None


def _take_form() -> None:
    now = st.session_state
    document: dict[str, Any] = {"name": now.hw_name.strip() or _UNNAMED}
    document |= {field: now[key] * scale for key, (_, field, scale, _) in _FIGURES.items() if now[key] is not None}
    document["peak_flops_per_s"] = {
        dtype: now[f"hw_{dtype}"] * _TERA for dtype in _PEAKS if now[f"hw_{dtype}"] is not None
    }
    document |= {"vendor": now.hw_vendor} if now.hw_vendor else {}
    document |= {"same_chip_as": now.hw_chip} if now.hw_chip else {}
    document |= {"source": now.hw_source.strip()} if now.hw_source.strip() else {}
    document["date"] = dt.date.today().isoformat()
    lacking = [label for label, absent in _needed(document).items() if absent]
    if lacking:
        _PROBLEM.put(f"Still needed: {', '.join(lacking)}.")
    else:
        _use(json.dumps(document, indent=2))


def _needed(document: dict[str, Any]) -> dict[str, bool]:
    return {
        "Memory": "memory_bytes" not in document,
        "Memory bandwidth": "bandwidth_bytes_per_s" not in document,
        "Peak bf16": "bf16" not in document["peak_flops_per_s"],
        "Link (or one GPU in the bar)": "link_bytes_per_s" not in document and st.session_state["n_gpus"] > 1,
    }


def _take_file() -> None:
    given = st.session_state.hw_file
    if given is None:
        _PROBLEM.drop()
    elif given.size > MAX_HARDWARE_BYTES:
        _PROBLEM.put(f"The file has {given.size:,} bytes; it may have {MAX_HARDWARE_BYTES:,}.")
    else:
        try:
            text = given.getvalue().decode("utf-8-sig")
        except UnicodeDecodeError:
            _PROBLEM.put("The file is not text; give the accelerator's JSON.")
        else:
            _use(text)


def _use(text: str) -> None:
    try:
        st.session_state["hardware_id"] = state.add_own_hardware(text)
    except AdvisorError as error:
        _PROBLEM.put(str(error))
    else:
        _PROBLEM.drop()
