"""The parts that the time of a step or of a speculative round is made of: one row each, read by all
who list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

Bound = Literal["device", "links", "host"]
"""What a component waits for. device: memory or arithmetic of the accelerator, whichever takes
longer; links: traffic between accelerators; host: the processor that launches and schedules, while
the device stands still."""
Draw = Literal["kernel", "host", "apart", "joint"]
"""How the error of a component is drawn. kernel: alone, and anew where kernels were measured apart;
host: alone; apart: alone, by a generator of its own; joint: together with all else that was fitted
on the same speedups."""


@dataclass(frozen=True)
class Component:
    """One part of the time of a step or round."""

    key: str
    """Its name in `StepTime.components` and `Curve.round_components`."""
    label: str
    """For readers."""
    loads: str
    """What a step that mostly waits for it loads or computes, after `Loading`."""
    priced_by: tuple[str, ...]
    """Fields of KernelCosts: the kernel records that may price it, by model and placement, or its
    one constant. Its tier is that of the records in use (`tiers.component_tier_ranks`); a constant
    has none."""
    factor: str
    """The refit's multiplier that scales it, a key of FACTORS; empty: none."""
    meaning: str
    bound: Bound = "device"
    draw: Draw = "kernel"
    parts: tuple[str, ...] = ()
    """What the sources and warnings of KernelCosts call its kernels, one for each record of
    `priced_by`."""
    drafter: bool = False
    """Priced by the drafter's costs, not by the target's."""


FACTORS = {
    "launch": "launch time per layer",
    "host": "host time per step",
    "draft_host": "host time per draft pass",
    "round_host": "host time per speculative round",
    "routed": "time of the routed experts",
    "attention": "time of attention",
    "dense": "time of projections and dense layers",
    "communication": "time of communication",
    "drafter": "kernel time of the drafter",
    "reread": "second readings of the KV cache",
    "verified": "time per verified token",
}
"""What each multiplier of a refit scales. All GEMMs of the target share one: few rows of a user
tell them apart."""
_Projection = partial(Component, parts=("projections",), factor="dense")
"""A GEMM of the target: priced by its kernels of projections, scaled by their factor."""
# The order of the rows is that of the random draws (`bands.make_draws`): exchange two, and every
# band moves a little.
COMPONENTS = (
    _Projection(
        key="attention_projection",
        label="Attention weights",
        loads="attention weights",
        priced_by=("attention_projection",),
        meaning="Products with the query, key, value and output matrices of all attention layers; "
        "none where whole "
        "attention layers were measured: there they are part of the attention itself.",
    ),
    Component(
        key="attention",
        label="Attention (KV cache)",
        loads="the KV cache",
        priced_by=("attention", "mla", "state"),
        parts=("attention", "latent attention", "recurrent state"),
        factor="attention",
        meaning="Reading the cache of every sequence once per pass, and the products of queries "
        "with it; where whole "
        "attention layers were measured, also their projections, cache write and launches.",
    ),
    _Projection(
        key="router",
        label="Router",
        loads="the router",
        priced_by=("lm_head",),
        meaning="Scoring all experts for each token.",
    ),
    Component(
        key="routed",
        label="Routed experts",
        loads="expert weights",
        priced_by=("routed",),
        parts=("experts",),
        factor="routed",
        meaning=(
            "Loading every distinct expert that some token of the pass chose, and the tokens' "
            "products with it."
        ),
    ),
    _Projection(
        key="shared",
        label="Shared experts",
        loads="shared-expert weights",
        priced_by=("shared",),
        meaning="Products with the experts that every token uses.",
    ),
    _Projection(
        key="dense",
        label="Dense FFN",
        loads="dense weights",
        priced_by=("dense",),
        meaning="Products with the feed-forward layers that have no experts.",
    ),
    _Projection(
        key="lm_head",
        label="LM head",
        loads="the LM head",
        priced_by=("lm_head",),
        meaning="Scoring the whole vocabulary for each token of the pass.",
    ),
    Component(
        key="communication",
        label="GPU to GPU",
        loads="communication",
        priced_by=("all_reduce", "all_to_all"),
        parts=("all-reduce", "expert exchange"),
        bound="links",
        factor="communication",
        meaning=(
            "All-reduces of tensor parallelism, and the exchange of tokens between ranks with "
            "experts."
        ),
    ),
    Component(
        key="launch",
        label="Kernel launches",
        loads="kernel launches",
        priced_by=("launch_per_layer_s",),
        bound="host",
        draw="joint",
        factor="launch",
        meaning=(
            "Launching the kernels of every layer of the target; half where its attention was "
            "measured whole."
        ),
    ),
    Component(
        key="host",
        label="Host",
        loads="host time",
        priced_by=("host_per_step_s",),
        bound="host",
        draw="host",
        factor="host",
        meaning="The engine's own work between two steps.",
    ),
    Component(
        key="draft",
        label="Drafting",
        loads="the drafter",
        priced_by=("dense",),
        drafter=True,
        factor="drafter",
        meaning="The drafter's kernels over all its passes of a round, and their launches.",
    ),
    Component(
        key="draft_host",
        label="Drafting, host",
        loads="host time of drafting",
        priced_by=("host_per_draft_pass_s",),
        bound="host",
        draw="joint",
        factor="draft_host",
        meaning="The engine's own work between two drafting passes.",
    ),
    Component(
        key="round_host",
        label="Accept or reject, host",
        loads="host time of a round",
        priced_by=("host_per_round_s",),
        bound="host",
        draw="joint",
        factor="round_host",
        meaning="Accepting or rejecting the draft, and preparing the next round.",
    ),
    Component(
        key="reread",
        label="KV cache, read again",
        loads="the KV cache again",
        priced_by=("reread_share",),
        draw="joint",
        factor="reread",
        meaning="Reading the cache again for further tokens of a sequence, where kernels do not "
        "read it once for "
        "all of them.",
    ),
    Component(
        key="verified",
        label="Verified tokens",
        loads="verified tokens",
        priced_by=("verified_per_token",),
        draw="joint",
        factor="verified",
        meaning="A correction, fitted on speedups, for what verifying many tokens adds beyond the "
        "kernels above: "
        "sampling, rejection, copies, padding or kernels off their tables. Which it is, nobody "
        "has measured.",
    ),
    Component(
        key="eager",
        label="Launches without a graph",
        loads="launches without a graph",
        priced_by=("eager_per_layer_s",),
        bound="host",
        draw="apart",
        factor="launch",
        meaning="Where a step has more tokens than any captured CUDA graph, its kernels are "
        "launched one by one: what "
        "that takes beyond the kernels themselves.",
    ),
    Component(
        key="between_graphs",
        label="Launches between graphs",
        loads="launches between graphs",
        priced_by=("between_graphs_s",),
        bound="host",
        draw="apart",
        factor="",
        meaning="Where no full CUDA graph holds a verification of several tokens, the host "
        "launches the attention of "
        "every layer between the pieces of a graph.",
    ),
    Component(
        key="verify_tokens",
        label="Tokens of a verification",
        loads="verified tokens",
        priced_by=("verify_per_doubling",),
        draw="apart",
        factor="",
        meaning="What verification takes beyond its kernels as the tokens of a step double: it "
        "runs other kernels than a baseline step.",
    ),
)
KERNELS = tuple(component for component in COMPONENTS if component.draw == "kernel")
"""Those that kernels or links take, priced by records; the others are overheads with one constant
each."""
OVERHEADS = tuple(component for component in COMPONENTS if component.draw != "kernel")
JOINT = tuple(component for component in OVERHEADS if component.draw == "joint")
"""Those whose constants were fitted together, in the order of
`KernelCosts.overhead_log_covariance`."""
DEVICE_RECORDS = tuple(
    dict.fromkeys(
        name for component in KERNELS if component.bound == "device" for name in component.priced_by
    )
)
"""Fields of KernelCosts with kernels that read the device's memory."""
LINK_RECORDS = tuple(
    name for component in KERNELS if component.bound == "links" for name in component.priced_by
)
"""Fields of KernelCosts with traffic between devices, by number of ranks."""
BY_KEY = {component.key: component for component in COMPONENTS}


GROUPS: Mapping[str, tuple[str, ...]] = {
    "Expert weights": ("routed",),
    "Attention and KV cache": ("attention_projection", "attention", "reread"),
    "Router, shared, dense, LM head": ("router", "shared", "dense", "lm_head"),
    "GPU to GPU": ("communication",),
    "Host and launches": ("host", "launch", "eager", "between_graphs", "round_host"),
    "Drafting": ("draft", "draft_host"),
    "Verified tokens (fitted)": ("verified", "verify_tokens"),
}
"""Parts of a round as they are stacked, and the components that each adds up."""
