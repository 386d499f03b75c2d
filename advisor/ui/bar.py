"""The scenario's widgets in a bar on top of every page, drawn by the entry script; the address
follows what they say.

On a telephone the bar is folded to one line; the browser unfolds it without a rerun.

Under More and Share it keeps examples, fields, the user's own model and accelerator, links and
files. The answer on screen always fits what this panel says: a configuration that cannot be used,
and an emptied box, put the last shipped model back in place of the one they replace.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import streamlit as st

from advisor.catalog.engines import engines
from advisor.catalog.hardware import (
    MAX_HARDWARE_BYTES,
    drafter_name,
    figure_range,
    hardware_called,
    hardware_from_own,
    hardware_label,
    measured_chips,
    model_label,
    model_name,
)
from advisor.catalog.hf.fields import MAX_FILE_BYTES
from advisor.catalog.models import model_ids, resolve_model_name
from advisor.physics.acceptance import acceptance_curve, every_curve
from advisor.physics.hardware import USUAL_NODE, Hardware, gpus_of_node, load_hardware
from advisor.predict.field_rows import FieldRow, FieldSection
from advisor.predict.load import load_setup
from advisor.predict.scenario import (
    MAX_SCENARIO_BYTES,
    Scenario,
    example_ids,
    load_example,
    read_scenario,
    scenario_json,
    usual_tensor_parallel,
)
from advisor.predict.scenario_fields import FIELDS, POOL_FIELDS, RELEASE_FIELDS, SETTINGS
from advisor.prediction import AdvisorError
from advisor.ui import PAGES
from advisor.ui.own_data import NAMES, choices, default, own, own_points
from advisor.ui.session import Kept, attempt, folded_key, take_typed
from advisor.ui.state import (
    CONFIG_FROM,
    TYPED,
    add_own_hardware,
    add_own_model,
    choose_model,
    draw_token_fields,
    follow_drafter,
    follow_model,
    forget,
    keep_scenario,
    link_caption,
    link_to,
    own_hardware,
    plain,
    scenario_or_problem,
    show,
    token_remark,
    understood,
    uploaded_text,
    write,
)
from advisor.ui.widgets import download, show_problem

IN_THE_BAR = frozenset(
    ("model_id", "hardware_id", "n_gpus", "engine", "context_tokens", "drafter_id")
)
_LONGEST = 20
"""Characters of a name that the bar shows; a longer one of the user's own is told by its help."""
_SHOWN: Mapping[str, Callable[[str], str]] = {
    "model_id": model_label,
    "hardware_id": hardware_label,
    "drafter_id": drafter_name,
    "task": lambda task: task.replace("_", " "),
}


def draw_more(values: dict[str, Any]) -> None:
    """The button and the widgets under it, whose values are put into `values`."""
    with st.popover("More", type="tertiary", width="content", key="more"):
        with st.expander("Start from an example", icon=":material/lightbulb:"):
            for name in example_ids():
                example = load_example(name)
                show_args = example.scenario, "example"
                st.button(
                    example.title,
                    key=f"example_{name}",
                    on_click=show,
                    args=show_args,
                    width="stretch",
                )
                st.caption(plain(example.description))
        with st.expander(FIELDS["model_config_json"].label):
            draw_own_config()
        with st.expander(FIELDS["hardware_json"].label):
            draw_own_hardware()
        for section in FieldSection:
            _section(section, values)


def _section(section: FieldSection, values: dict[str, Any]) -> None:
    rows = [
        row
        for row in SETTINGS
        if row.widget is not None and row.screen_section == section and row.name not in IN_THE_BAR
    ]
    if not rows:
        return
    st.markdown(f"**{section}**")
    for _, line in groupby(sorted(rows, key=_line), key=_line):
        beside = list(line)
        for row, place in zip(beside, st.columns(len(beside)), strict=True):
            with place:
                if row.name in TYPED:
                    values[row.name] = widget(row)
                    continue
                follow = _follow_parallel if row.name.endswith("_parallel") else None
                follow = _understand if row.name == "acceptance" else follow
                key = folded_key(row.name)
                values[row.name] = widget(
                    row, on_change=functools.partial(take_typed, row.name, key, follow), key=key
                )


def _line(row: FieldRow) -> int:
    return 0 if row.widget is None else row.widget.line


def widget(
    row: FieldRow,
    on_change: Any = None,
    label: str = "",
    width: int | str = "stretch",
    key: str | None = None,
) -> Any:
    """Draw the widget that a field's type asks for, and return what is set in it. Keyed by its name
    or `key`."""
    widget_options: dict[str, Any] = {
        "key": key or row.name,
        "on_change": on_change,
        "width": width,
        "persist_state": "session",
    }
    help_text = row.widget.help if row.widget is not None else ""
    label = label or row.screen_label
    if row.name in TYPED:
        return draw_token_fields(row, label, width, on_change)
    if row.range is not None:
        low, high = map(row.kind, row.range)
        # Outside its range the browser turns a field red and says no more.
        help_text = f"{help_text} From {row.limits}.".strip()
        widget_options |= {
            "min_value": low,
            "max_value": high,
            "help": None if row.name in IN_THE_BAR else help_text,
        }
        widget_options |= {
            "value": None,
            "placeholder": row.unset if width == "stretch" else "none",
        }
        if not row.is_optional:
            widget_options = {
                name: value
                for name, value in widget_options.items()
                if name not in ("value", "placeholder")
            }
            widget_options["step"] = 1
        return st.number_input(label, **widget_options)
    if (
        row.name in _SHOWN
        and len(name := str(st.session_state[row.name])) > _LONGEST
        and name.startswith("own-")
    ):
        help_text = f"{help_text} {plain(name)}".strip()
    widget_options["help"] = help_text or None
    if row.name == "acceptance":
        return _acceptance(**widget_options)
    options = choices(row.name)
    chosen = st.session_state[row.name]
    if not options:
        return st.text_input(label, **widget_options) or None
    if row.name in _SHOWN:
        widget_options["format_func"] = _SHOWN[row.name]
    if row.name == "model_id":
        widget_options["accept_new_options"] = True
    if row.name == "hardware_id":
        widget_options["filter_mode"] = (
            "contains"  # keeps the list's order, where a fuzzy match puts the shortest name first
        )
    widget_options |= {"index": None, "placeholder": row.unset} if row.is_optional else {}
    return st.selectbox(
        label,
        [*options, *([chosen] if row.free_text and chosen not in options else [])],
        **widget_options,
    )


def _acceptance(**widget_options: Any) -> Any:
    """A measured curve, or chances of acceptance of the user's own."""
    curves = [curve.id for curve in every_curve()]
    acceptance = st.session_state["acceptance"]
    typed_values = [acceptance] if acceptance and acceptance not in curves else []
    return st.selectbox(
        "Accepted length: a measured curve, 2.4@3, or chances 0.7,0.5,0.4",
        [*typed_values, *curves],
        accept_new_options=True,
        format_func=_curve_label,
        **widget_options,
    )


def _curve_label(curve_id: str) -> str:
    """A measured curve by what was measured; anything else as it was typed."""
    curve = acceptance_curve(curve_id)
    if curve is None:
        return curve_id
    return (
        f"{curve.checkpoint or model_label(curve.model_id)}, {drafter_name(curve.drafter_id)}, "
        f"{curve.dataset}"
    )


def _understand() -> None:
    st.session_state["acceptance"] = understood(str(st.session_state["acceptance"] or ""))


_SHIPPED: Kept[str] = Kept("_shipped_model", lambda: str(default("model_id")))


def draw_own_config() -> None:
    """The uploader, the text box and what is wrong with what they hold."""
    chosen = str(st.session_state["model_id"])
    if chosen in model_ids():
        _SHIPPED.put(chosen)
    # No `type` here: the browser would refuse other files by a red icon, without a word.
    st.file_uploader(
        "Hugging Face config.json",
        key="config_file",
        on_change=_take_file,
        max_upload_size=MAX_FILE_BYTES // 1_000_000,
    )
    st.text_area("or paste it", key="config_text", on_change=_take_text, height=100)
    if problem := CONFIG_FROM.problem:
        show_problem(problem)
        st.caption(f"The answer is for {plain(model_name(chosen))}.")
    st.caption(
        f"Text of at most {MAX_FILE_BYTES / 1e6:.0f} MB. It stays in this session and in links "
        "you copy."
    )


def _take_file() -> None:
    uploaded_file = st.session_state.config_file
    if uploaded_file is None:
        _take_back("file")
    else:
        _use(
            "file",
            lambda: uploaded_text(uploaded_file, MAX_FILE_BYTES, "a config.json"),
            uploaded_file.name,
        )


def _take_text() -> None:
    text = st.session_state.config_text
    if text.strip():
        _use("text", lambda: text, "")
    else:
        _take_back("text")


def _use(origin: str, read: Callable[[], str], file_name: str) -> None:
    """A configuration that can be used is the bar's model; for another the last shipped model comes
    back."""
    CONFIG_FROM.put(origin)
    try:
        choose_model(add_own_model(read(), file_name))
    except AdvisorError as error:
        CONFIG_FROM.refuse(error)
        _back_to_shipped()


def _take_back(origin: str) -> None:
    """Nothing is given there any more; what came from elsewhere stays."""
    if CONFIG_FROM.result == origin:
        CONFIG_FROM.forget()
        _back_to_shipped()


def _back_to_shipped() -> None:
    if st.session_state.model_id not in model_ids():
        choose_model(_SHIPPED.result)


_GIVEN: Kept[str] = Kept("_hardware_given", str)
"""Name of the accelerator given last."""
_GIGA = 1e9
_TERA = 1e12
_FIGURES = {
    "hw_memory": ("Memory (GB)", "memory_bytes", _GIGA, "Memory of one GPU, in decimal gigabytes."),
    "hw_bandwidth": (
        "Memory bandwidth (TB/s)",
        "bandwidth_bytes_per_s",
        _TERA,
        "Nominal, of one GPU.",
    ),
    "hw_link": (
        "Link (GB/s)",
        "link_bytes_per_s",
        _GIGA,
        "All links of one GPU, one way; needed for several GPUs.",
    ),
    "hw_node": (
        "GPUs of a node",
        "gpus_per_node",
        1.0,
        "GPUs that these links join; 8 where it is not set.",
    ),
    "hw_network": (
        "Network (GB/s)",
        "network_bytes_per_s",
        _GIGA,
        "Between nodes, share of one GPU, one way.",
    ),
}
_PEAKS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4"}
_VENDORS = ("NVIDIA", "AMD", "other")
_UNNAMED = "My accelerator"


def draw_own_hardware() -> None:
    """The form, the uploader, and what is wrong with what they hold."""
    hardware = chosen_hardware()
    if hardware is not None:
        st.button(
            f"Fill in from {hardware.id}",
            key="hw_fill",
            type="tertiary",
            on_click=_fill,
            args=(hardware,),
        )
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
            help=(
                "Its measured kernels then apply. Bandwidth and peaks must agree; memory and link "
                "may differ."
            ),
        )
        st.text_input(
            "Source of the figures", key="hw_source", max_chars=200, placeholder="given by the user"
        )
        st.form_submit_button(
            "Use this accelerator", key="hw_use", on_click=_take_form, width="stretch"
        )
    # No `type` here: the browser would refuse other files by a red icon, without a word.
    st.file_uploader(
        "or its JSON file", key="hw_file", on_change=_take_hardware_file, max_upload_size=1
    )
    show_problem(_GIVEN.problem)
    name = str(st.session_state["hardware_id"])
    if (document := own_hardware().get(name)) is not None:
        download("This accelerator as JSON", document, f"{name}.json", "hw_download", quiet=True)
    st.caption("It stays in this session and in links and files you share.")


def _figure(label: str, key: str, field: str, scale: float, text: str) -> None:
    lowest, highest = figure_range(field)
    low = lowest / scale
    high = highest / scale
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


def chosen_hardware() -> Hardware | None:
    """Accelerator of the bar. None for one of a link that cannot be: the answer says what is wrong
    with it."""
    name = str(st.session_state["hardware_id"])
    text = own_hardware().get(name)
    return (
        attempt(load_hardware, name)[0]
        if text is None
        else attempt(hardware_from_own, text, name)[0]
    )


def _fill(hardware: Hardware) -> None:
    now = st.session_state
    now.hw_name = hardware.name[:60]
    figures = {
        key: (getattr(hardware, field), scale) for key, (_, field, scale, _) in _FIGURES.items()
    }
    figures |= {f"hw_{dtype}": (hardware.peak_flops_per_s.get(dtype), _TERA) for dtype in _PEAKS}  # type: ignore[call-overload]
    for key, (figure, scale) in figures.items():
        now[key] = None if figure is None else figure.value / scale
    now.hw_vendor = hardware.vendor if hardware.vendor in _VENDORS else "other"
    now.hw_chip = (
        hardware.id if hardware.kernel_table_device is not None and not hardware.is_own else None
    )


def _take_form() -> None:
    now = st.session_state
    document: dict[str, Any] = {"name": now.hw_name.strip() or _UNNAMED}
    document |= {
        field: now[key] * scale
        for key, (_, field, scale, _) in _FIGURES.items()
        if now[key] is not None
    }
    document["peak_flops_per_s"] = {
        dtype: now[f"hw_{dtype}"] * _TERA for dtype in _PEAKS if now[f"hw_{dtype}"] is not None
    }
    document |= {"vendor": now.hw_vendor} if now.hw_vendor else {}
    document |= {"same_chip_as": now.hw_chip} if now.hw_chip else {}
    document |= {"source": now.hw_source.strip()} if now.hw_source.strip() else {}
    document["date"] = dt.date.today().isoformat()
    needed = {
        "Memory": "memory_bytes" not in document,
        "Memory bandwidth": "bandwidth_bytes_per_s" not in document,
        "Peak bf16": "bf16" not in document["peak_flops_per_s"],
        "Link (or one GPU in the bar)": "link_bytes_per_s" not in document and now["n_gpus"] > 1,
    }
    if lacking := [label for label, absent in needed.items() if absent]:
        _GIVEN.refuse(f"Still needed: {', '.join(lacking)}.")
    else:
        _use_hardware(lambda: json.dumps(document, indent=2))


def _take_hardware_file() -> None:
    uploaded_file = st.session_state.hw_file
    if uploaded_file is None:
        _GIVEN.forget()
    else:
        _use_hardware(
            lambda: uploaded_text(uploaded_file, MAX_HARDWARE_BYTES, "the accelerator's JSON")
        )


def _use_hardware(read: Callable[[], str]) -> None:
    if _GIVEN.take(lambda: add_own_hardware(read())):
        st.session_state["hardware_id"] = _GIVEN.result


_OPENED: Kept[int] = Kept("_scenario_files_opened", int)
_ELSEWHERE = (
    "opens on this computer alone. For others: the scenario file below, or a host that runs the app"
)
_WRAPPED = 2000
"""Characters beyond which a link stays on one line: it would push all else out of sight."""


def draw_share_panel() -> None:
    """One page of PDF, the link and the file of the scenario on screen, and the uploader that opens
    one."""
    from advisor.ui.share.files import (
        draw_one_page,
    )  # with all that writes reports, which no first screen needs

    scenario, _ = scenario_or_problem()
    # The browser opens it by itself: a rerun under way would close what the script does not know to
    # be open yet.
    page = (
        (st.context.url or "").partition("?")[0].rpartition("/")[2]
    )  # on another page it is closed
    with st.popover(
        "Share", type="tertiary", width="content", key=f"share_open_{_OPENED.result}_{page}"
    ):
        is_answered = scenario is not None and not attempt(load_setup, scenario)[1]
        if scenario is not None:
            if is_answered:
                draw_one_page(scenario)
            link = link_to(scenario, st.context.url)
            if link is None:
                st.warning(
                    "Too large for a link: your own files make it so. Send the scenario file "
                    "instead."
                )
            else:
                with st.container(key="share_link_bar", gap="xxsmall"):
                    st.caption(link_caption("Link to this page", link, _ELSEWHERE))
                    st.code(link, language=None, wrap_lines=len(link) <= _WRAPPED)
            name = f"scenario-{scenario.hash}.json"
            content = scenario_json(scenario)
            download("Scenario file", content, name, "scenario_download", width="stretch")
            if is_answered and own_points(scenario) is not None:
                st.caption("The link does not hold your measured rows.")
            st.page_link(
                str(PAGES["share"]),
                label="Full report and engine files",
                icon=":material/description:",
            )
        # A new key after each file, so that no file stands there whose scenario is no longer on
        # screen.
        st.file_uploader(
            "Open a scenario file or JSON report",
            key=_share_key(),
            on_change=_open,
            max_upload_size=MAX_SCENARIO_BYTES // 1_000_000,
        )
        show_problem(_OPENED.problem)


def _share_key() -> str:
    return f"scenario_file_{_OPENED.result}"


def _open() -> None:
    uploaded_file = st.session_state[_share_key()]
    if uploaded_file is None:
        _OPENED.put(_OPENED.result)
        return
    scenario_file, problem = attempt(read_scenario, uploaded_file.getvalue())
    if scenario_file is None:
        _OPENED.refuse(problem)
        return
    _OPENED.put(_OPENED.result + 1)
    show(scenario_file.scenario, "file", *filter(None, [scenario_file.note]))


def said_of(scenario: Scenario) -> str:
    """The example that a scenario is, and the source of its accepted length. Empty once anything is
    changed."""
    example = next(
        (
            candidate
            for candidate in map(load_example, example_ids())
            if candidate.scenario == scenario
        ),
        None,
    )
    if example is None:
        return ""
    return (
        f"{example.description} Accepted length: {example.acceptance_origin}, "
        f"{example.acceptance_note}."
    )


FOLD = "bar_fold"
OPEN = "bar_open"
FIELDS_KEY = "bar_fields"
_WIDTHS = {
    "model_id": 236,
    "hardware_id": 160,
    "n_gpus": 84,
    "drafter_id": 150,
    "context_tokens": 96,
}
_ENGINES = {spec.id: spec.name for spec in engines()}
assert {row.name for row in SETTINGS} >= IN_THE_BAR == {*_WIDTHS, "engine"}


def draw_bar() -> None:
    """Draw all widgets and keep the scenario they describe, for `state.scenario_or_problem`."""
    values: dict[str, Any] = {}
    with st.container(key="bar", gap=None):
        with st.container(
            key=FIELDS_KEY, horizontal=True, vertical_alignment="bottom", gap="small"
        ):
            _field("model_id", values, on_change=_take_model)
            _field("hardware_id", values)
            _field("n_gpus", values, on_change=_follow_gpus)
            _engine(values)
            _field("drafter_id", values, on_change=follow_drafter)
            _field("context_tokens", values)
            with st.container(
                key="bar_end",
                horizontal=True,
                gap="small",
                width="content",
                vertical_alignment="bottom",
            ):
                draw_more(values)
                share = st.container(width="content")
        values |= {name: st.session_state.get(name) for name in NAMES if name not in values}
        keep_scenario(values)
        write(values)
        with share:
            draw_share_panel()
        _fold(values)
    for message in filter(None, (token_remark(), _MODEL.problem)):
        st.markdown(f":red[:material/error: {plain(message)}]")
    _MODEL.put(str(values["model_id"]))
    if (values["input_tokens"] is None) != (values["output_tokens"] is None):
        lacking = FIELDS["output_tokens" if values["output_tokens"] is None else "input_tokens"]
        st.caption(f"The prompt is not charged yet: {lacking.label} is not set.")


def _engine(values: dict[str, Any]) -> None:
    """Engines as chips: numbers, command, checks and track record are always those of the one that
    is lit."""
    chosen = str(st.session_state["engine"])
    values["engine"] = st.segmented_control(
        "Engine",
        [*_ENGINES, *([] if chosen in _ENGINES else [chosen])],
        key="engine",
        format_func=lambda name: _ENGINES.get(name, name),
        required=True,
        on_change=_follow_engine,
        persist_state="session",
        width="content",
    )


def _fold(values: dict[str, Any]) -> None:
    """What a narrow screen shows instead of the fields, with the switch that unfolds them."""
    with st.container(
        key=FOLD, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        document = own("hardware_json").get(str(values["hardware_id"]))
        gpus = f"{values['n_gpus']} × {hardware_called(str(values['hardware_id']), document)}"
        engine = _ENGINES.get(str(values["engine"]), str(values["engine"]))
        st.markdown(
            f"**{plain(model_name(str(values['model_id'])))}** · {plain(gpus)} · {engine}",
            width="stretch",
        )
        st.toggle("Change", key=OPEN, on_change="ignore", persist_state="session")


def _field(name: str, values: dict[str, Any], on_change: Any = None) -> None:
    label = "Context" if name == "context_tokens" else ""
    values[name] = widget(FIELDS[name], on_change=on_change, label=label, width=_WIDTHS[name])


_MODEL: Kept[str] = Kept("_bar_model", lambda: str(default("model_id")))
"""The model that the bar showed last, and why none could be what was typed."""


def _take_model() -> None:
    """A model that is chosen, or typed as its checkpoint is called; the last one stays where a name
    means none."""
    now = st.session_state
    typed = str(now["model_id"])
    if typed not in choices("model_id"):
        resolved_model = resolve_model_name(typed)
        matching_ids = [
            model_id
            for model_id in choices("model_id")
            if typed.lower() in model_label(model_id).lower()
        ]
        if resolved_model is not None and resolved_model.weight_format is not None:
            now["weight_dtype"] = resolved_model.weight_format
        elif resolved_model is None and not matching_ids:
            _MODEL.refuse(
                f"{typed} is no known model; give its config.json under More, or drop it on Measure"
            )
        now["model_id"] = (
            resolved_model.model_id if resolved_model else next(iter(matching_ids), _MODEL.result)
        )
    follow_model()


def _follow_engine() -> None:
    """Another engine: what is said of a release of the former says nothing of it."""
    forget((*RELEASE_FIELDS, *POOL_FIELDS))


def _follow_gpus() -> None:
    """Other GPUs: tensor parallelism over all within a node, as most deployments do. Experts on as
    many as go."""
    forget(POOL_FIELDS)
    gpus = int(st.session_state.n_gpus)
    st.session_state.expert_parallel = math.gcd(gpus, int(st.session_state.expert_parallel))
    chosen = chosen_hardware()
    st.session_state.tensor_parallel = usual_tensor_parallel(
        gpus, gpus_of_node(chosen) if chosen else USUAL_NODE
    )


def _follow_parallel() -> None:
    """A placement that needs other GPUs than there are gets exactly the GPUs it needs."""
    now = st.session_state
    needed = max(now.tensor_parallel, now.expert_parallel)
    if now.n_gpus % needed:
        now.n_gpus = needed
