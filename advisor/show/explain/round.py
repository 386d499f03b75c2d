"""The derivation of a speedup, step by step with the numbers of `curve_for`, and the works that it
rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np
from pydantic import Field

from advisor.physics import laws
from advisor.physics.step import n_layers
from advisor.predict.curve import held_sweep, swept_factors
from advisor.predict.prefill import ATTENTION_SHARE, Prompt, prompt_cost
from advisor.predict.setup import Setup, graphs_of_steps
from advisor.prediction import AdvisorError, Frozen
from advisor.profiles import PROFILES, read_made
from advisor.show.explain.formulas import ConstantUse, overhead_constant
from advisor.show.explain.steps import Builder, Group, Head, Pass, Quantity, Step, Values, add_pass


@dataclass(frozen=True)
class Derivation:
    """All steps behind one point of a curve: the answer first, then its parts in the order of
    computation."""

    batch_size: float
    n_draft: int
    steps: tuple[Step, ...]

    def step(self, id: str) -> Step:
        """The step of that id. Raises AdvisorError when there is none."""
        for step in self.steps:
            if step.id == id:
                return step
        raise AdvisorError(f"no step {id!r}; there are {', '.join(step.id for step in self.steps)}")

    def of(self, group: Group) -> tuple[Step, ...]:
        """The steps of one group."""
        return tuple(step for step in self.steps if step.group == group)

    @property
    def constants(self) -> tuple[ConstantUse, ...]:
        """Every constant used, each once."""
        return tuple(dict.fromkeys(use for step in self.steps for use in step.constants))


def derive(setup: Setup, batch_size: float, n_draft: int) -> Derivation:
    """Steps of the speedup of one batch and K. Raises AdvisorError for a batch below 1 or a K out
    of 0..k_max."""
    longest = setup.scenario.k_max if setup.drafter.kind != "none" else 0
    if not 0 <= n_draft <= longest:
        raise AdvisorError(f"K = {n_draft} is not considered; choose one from 0 to {longest}")
    if batch_size < 1:
        raise AdvisorError(f"batch {batch_size:g} is no batch; give 1 or more sequences")
    b = Builder()
    b.group = "Plain step"
    b.prefix = "plain"
    run = _pass(setup, batch_size, 1.0)
    plain = add_pass(b, run, "T_plain", "Plain decode step")
    plain_whole = _launched(b, run, plain, None)
    b.group = "Verification"
    b.prefix = "verify"
    verification = _pass(setup, batch_size, n_draft + 1.0)
    verify = add_pass(
        b, verification, "T_verify", f"Verification of {n_draft + 1} tokens per sequence"
    )
    extra = (
        {**_drafting(b, setup, batch_size, n_draft), **_verified(b, verification, plain, verify)}
        if n_draft
        else {}
    )
    b.group = "Verification"
    b.prefix = "verify"
    verify = _launched(b, verification, verify, extra.get("T_verified"))
    plain_whole, verify = _swept(b, setup, (batch_size, n_draft), plain_whole, verify, extra)
    b.group = "Answer"
    b.prefix = ""
    _answer(b, setup, batch_size, n_draft, plain_whole, verify, extra)
    # The answer first, its parts behind it; within a group as computed.
    answer = sorted(
        (step for step in b.steps if step.id in _READ_FIRST),
        key=lambda step: _READ_FIRST.index(step.id),
    )
    parts = (step for step in b.steps if step.id not in _READ_FIRST)
    return Derivation(batch_size, n_draft, (*answer, *parts))


def _pass(setup: Setup, batch: float, q: float) -> Pass:
    """Pass of the target, with the rows of the captured graph that it runs in."""
    ran = graphs_of_steps(setup, batch, q)
    return Pass(
        setup,
        setup.architecture,
        batch,
        q,
        None,
        padding=1.0 if ran is None else float(ran.padding),
    )


def _launched(b: Builder, run: Pass, total: Quantity, waiting: Quantity | None) -> Quantity:
    """A step with what it waits for launches. The step itself where a captured graph holds it, or
    none is known."""
    ran = graphs_of_steps(run.setup, run.batch, run.q)
    if ran is None or not ran.eager:
        return total
    host = next(step.result.value for step in b.steps if step.id == f"{b.prefix}.host")
    note = "The step without the host's part, and what verified tokens add."
    device = total.value - host + (waiting.value if waiting is not None else 0.0)
    device_s = b.given(
        Head("device", "What the device computes", "T_device", "s"), device, note=note
    )
    use = overhead_constant(
        run.setup, "e", "launching a layer without a graph", "eager_per_layer_s"
    )
    head = Head("eager", "Launches without a graph", "T_eager", "s")
    wait = b.add(
        head, laws.eager_wait, {"L": n_layers(run.architecture), "T_device": device_s}, (use,)
    )
    head = Head("launched", "The step with its launches", f"{_SYMBOL[b.prefix]}_eager", "s")
    return b.add_sum(head, {_SYMBOL[b.prefix]: total, "T_eager": wait})


def _swept(
    b: Builder,
    setup: Setup,
    at: tuple[float, int],
    plain: Quantity,
    verify: Quantity,
    extra: dict[str, Quantity],
) -> tuple[Quantity, Quantity]:
    """Plain step and verification as the user's own plain sweep has them; as they are where none is
    used."""
    if (held := held_sweep(setup)) is None or not held.steady:
        return plain, verify
    plain_factors, verify_factors = swept_factors(setup, np.array(at[:1]), np.array([at[1] + 1.0]))
    plain_factor = float(np.ravel(plain_factors)[0])
    verify_factor = float(np.ravel(verify_factors)[0])

    def scaled(prefix: str, title: str, symbol: str, value: Quantity, factor: float) -> Quantity:
        b.group = "Plain step" if prefix == "plain" else "Verification"
        b.prefix = prefix
        note = f"{factor:.3g} times the model's: {held.text}"
        return b.given(Head(symbol.lower(), title, symbol, "s"), value.value * factor, note=note)

    if "T_verified" in extra:
        title = "Verified tokens, by your plain sweep"
        extra["T_verified"] = scaled(
            "verify", title, "T_verified_own", extra["T_verified"], verify_factor
        )
    return (
        scaled("plain", "Plain step, by your plain sweep", "T_plain_own", plain, plain_factor),
        scaled(
            "verify", "Verification, by your plain sweep", "T_verify_own", verify, verify_factor
        ),
    )


_SYMBOL = {"plain": "T_plain", "verify": "T_verify"}
_READ_FIRST = (
    "speedup",
    "accepted_length",
    "round",
    "verify_ratio",
    "tpot",
    "ttft",
    "tokens_per_s_per_gpu",
    "prefill",
)


def _drafting(b: Builder, setup: Setup, batch: float, k: int) -> Mapping[str, Quantity]:
    """Time of drafting, its launches and host time, and of accepting or rejecting."""
    b.group = "Drafting"
    b.prefix = "draft"
    parts: dict[str, Quantity] = {}
    if setup.draft_architecture is not None:
        parallel = setup.drafter.kind == "parallel"
        passes = float(setup.drafter.passes(k))
        touched = next((step.result.value for step in b.steps if step.id == "plain.experts"), None)
        run = Pass(
            setup,
            setup.draft_architecture,
            batch,
            float(k) if parallel else 1.0,
            touched or 0.0,
            drafting=True,
        )
        pass_s = add_pass(b, run, "T_pass", f"Kernels of one drafting pass, {setup.drafter.name}")
        if setup.draft_costs.between_graphs_s:
            use = overhead_constant(
                setup, "e", "launching a layer without a graph", "eager_per_layer_s"
            )
            use = replace(use, value=setup.draft_costs.eager_per_layer_s)
            device: Values = {"L": n_layers(setup.draft_architecture), "T_device": pass_s}
            wait = b.add(
                Head("eager", "Launches of a pass", "T_eager", "s"), laws.eager_wait, device, (use,)
            )
            head = Head("launched", "A drafting pass with its launches", "T_pass_eager", "s")
            pass_s = b.add_sum(head, {"T_pass": pass_s, "T_eager": wait})
        launch = overhead_constant(setup, "c_l", "launch overhead of a layer", "launch_per_layer_s")
        values: Values = {"n": passes, "T_pass": pass_s, "L": n_layers(setup.draft_architecture)}
        head = Head("kernels", "Drafting with its launches", "T_draft", "s")
        parts["T_draft"] = b.add(head, laws.drafting, values, (launch,))
        host = overhead_constant(
            setup, "c_d", "host time of a drafting pass", "host_per_draft_pass_s"
        )
        head = Head("host", "Drafting, host", "T_draft_host", "s")
        parts["T_draft_host"] = b.add(head, laws.draft_host, {"n": passes}, (host,))
    accept = overhead_constant(setup, "c_r", "host time of a round", "host_per_round_s")
    head = Head("round_host", "Accept or reject, host", "T_accept", "s")
    parts["T_accept"] = b.given(head, accept.value, (accept,))
    return parts


def _verified(b: Builder, run: Pass, plain: Quantity, verify: Quantity) -> Mapping[str, Quantity]:
    """What verifying many tokens adds beyond the kernels."""
    setup = run.setup
    if not setup.costs.verified_per_token:
        return {}
    use = overhead_constant(
        setup, "phi", "how soon verified tokens are as dear as plain ones", "verified_per_token"
    )
    use = replace(use, value=float(setup.costs.verified_rate(run.group_batch * run.q)))
    head = Head("verified", "Verified tokens", "T_verified", "s")
    fixed = [step.result.value for step in b.steps if step.id in ("plain.host", "plain.launch")]
    times: Values = {"T_plain": plain, "T_verify": verify, "T_fix": Quantity(sum(fixed), "s")}
    values: Values = {**times, "b": run.group_batch, "q": run.q}
    return {"T_verified": b.add(head, laws.verified, values, (use,))}


def _answer(
    b: Builder,
    setup: Setup,
    batch: float,
    k: int,
    plain: Quantity,
    verify: Quantity,
    extra: Mapping[str, Quantity],
) -> None:
    round_ = b.add_sum(
        Head("round", f"One round with K = {k}", "T_round", "s"), {"T_verify": verify, **extra}
    )
    length = _accepted(b, setup, k)
    prefill, waiting = _prefill(b, setup, batch)
    steps: Values = {"T_verify": verify, "T_plain": plain}
    b.add(Head("verify_ratio", "Verification in plain steps", "R"), laws.verification_ratio, steps)
    times: Values = {"AL": length, "T_round": round_, "pf": prefill}
    b.add(Head("speedup", "Speedup", "speedup"), laws.speedup, {**times, "T_plain": plain})
    names = {"pf": "pf_others"} if prefill.value else None
    head = Head("tpot", "Time per output token", "TPOT", "s")
    tpot = b.add(head, laws.tpot, {**times, "pf": waiting}, names=names)
    if prefill.value:
        head = Head(
            "token_s", "Time per output token, the own prompt's prefill included", "T_token", "s"
        )
        tpot = b.add(head, laws.tpot, times)
    _first_token(b, setup, batch)
    head = Head("tokens_per_s_per_gpu", "Tokens per second and GPU", "X", "1/s")
    names = {"TPOT": "T_token"} if prefill.value else None
    b.add(
        head,
        laws.tokens_per_s_per_gpu,
        {"B": batch, "TPOT": tpot, "n_GPU": setup.placement.gpus},
        names=names,
    )


def _accepted(b: Builder, setup: Setup, k: int) -> Quantity:
    acceptance = setup.acceptance
    length = float(acceptance.accepted_length[k])
    origin = "borrowed" if acceptance.borrowed else "given"
    tier = "extrapolated" if acceptance.extrapolated[k] else origin
    band = f"likely range {acceptance.low[k]:.2f} to {acceptance.high[k]:.2f}; " if k else ""
    use = ConstantUse("AL", "accepted length", length, "1", tier, acceptance.source)
    head = Head("accepted_length", "Tokens emitted per round", "AL")
    return b.given(head, length, (use,), f"{band}bonus token included.")


def _prefill(b: Builder, setup: Setup, batch: float) -> tuple[Quantity, Quantity]:
    """Prefill charged to one output token, of every sequence and of the others alone. 0 where no
    lengths are given."""
    prompt = prompt_cost(setup, np.array([batch]))
    if prompt is None:
        return Quantity(0.0, "s"), Quantity(0.0, "s")
    prompt_time = _prompt(b, prompt)
    length = Quantity(prompt.output_tokens)
    sequences = float(prompt.sequences[0])
    values: Values = {"T_prompt": prompt_time, "OSL": length}
    head = Head("prefill", "Prefill charged to one output token", "pf", "s")
    charged = b.add(head, laws.prefill, {**values, "S": sequences})
    head = Head("waiting", "Prefill of the others between two tokens of a user", "pf_others", "s")
    return charged, b.add(head, laws.prefill, {**values, "S": max(sequences - 1.0, 0.0)})


def _first_token(b: Builder, setup: Setup, batch: float) -> None:
    """Time to first token beside plain decoding, where lengths are given."""
    prompt = prompt_cost(setup, np.array([batch]))
    if prompt is None:
        return
    symbols = {
        name: Quantity(float(np.ravel(value)[0]), "s")
        for name, value in prompt.first_symbols.items()
    }
    symbols |= {name: Quantity(symbols[name].value) for name in ("n", "w")}
    note = (
        "Beside plain decoding: T_first is a whole step with a chunk of the prompt, the running "
        "sequences' attention, launches and host time included; nothing is taken off for them."
    )
    head = Head("ttft", "Time to first token, without queueing", "TTFT", "s")
    b.add(head, laws.prompt, symbols, note=note, names={"T_with": "T_first"})


def _prompt(b: Builder, prompt: Prompt) -> Quantity:
    """Time that one prompt takes from the running sequences."""
    peak = prompt.attention_peak
    rate = prompt.small_bandwidth
    uses = (
        ConstantUse(
            "F_peak", "peak arithmetic in 16 bits", peak.value, "FLOP/s", peak.kind, peak.source
        ),
        ConstantUse(
            "eta",
            "share of it that attention reaches",
            ATTENTION_SHARE,
            "1",
            "assumed",
            "docs/model.md",
        ),
    )
    head = Head("prompt_attention", "Attention of a prompt's tokens on each other", "T_attn", "s")
    flops = Quantity(prompt.attention_flops, "FLOP")
    attention = b.add(head, laws.prompt_attention, {"F": flops}, uses)
    use = ConstantUse(
        "BW", "rate of reading and writing", rate.value, "B/s", rate.kind, rate.source
    )
    sizes: Values = {"P": prompt.input_tokens, "L": prompt.n_layers, "d": prompt.width}
    small = b.add(
        Head("prompt_small", "Small kernels of a prompt", "T_small", "s"),
        laws.prompt_small,
        sizes,
        (use,),
    )
    steps = {
        name: Quantity(float(np.ravel(prompt.symbols[name])[0]), "s")
        for name in ("T_with", "T_without")
    }
    head = Head("prompt", "One prompt", "T_prompt", "s")
    note = (
        f"With {prompt.input_tokens / prompt.n_chunks:,.0f} tokens of the prompt in a step, all "
        "kernels but attention."
    )
    counts: Values = {"n": prompt.n_chunks, "w": float(np.ravel(prompt.waits)[0])}
    return b.add(
        head, laws.prompt, {**counts, **steps, "T_attn": attention, "T_small": small}, note=note
    )


FILE = PROFILES / "citations.yaml"
FORMULAS = {
    "speedup": "speedup from accepted length and step times",
    "distinct experts": "distinct experts of a step, target efficiency",
    "roofline": "roofline chart",
    "equal quality": "designs of equal quality",
}
"""Formulas that works are cited for, in words."""


class Citation(Frozen):
    """One work. `match` is text by which a source line names it; `formulas` are keys of
    FORMULAS."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str = Field(min_length=3)
    authors: str = Field(min_length=3)
    venue: str = Field(min_length=3)
    year: int = Field(ge=1900, le=2100)
    url: str = Field(pattern=r"^https://")
    match: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Authors, title, venue and year on one line."""
        return f"{self.authors}: {self.title}. {self.venue}, {self.year}."


@dataclass(frozen=True)
class Cited:
    """A work and what this answer took from it."""

    citation: Citation
    used_for: tuple[str, ...]


@lru_cache(maxsize=1)
def citations() -> tuple[Citation, ...]:
    """All known works. Raises AdvisorError when profiles/citations.yaml is damaged."""
    return read_made(
        FILE,
        lambda works: tuple(map(Citation.model_validate, works)),
        "restore it from the repository",
    )


def cited(setup: Setup, designs: bool = False) -> tuple[Cited, ...]:
    """The works behind one scenario's answer, in the order of the list. `designs`: a design search
    is part of it."""
    formulas = ["speedup"] if setup.drafter.kind != "none" else []
    formulas += ["distinct experts"] if setup.architecture.moe is not None else []
    formulas += ["roofline"] + (["equal quality"] if designs else [])
    works = []
    texts = _source_texts(setup)
    for work in citations():
        used = [FORMULAS[name] for name in formulas if name in work.formulas]
        used += [
            use
            for use, lines in texts.items()
            if any(mark in line for mark in work.match for line in lines)
        ]
        if used:
            works.append(Cited(work, tuple(used)))
    return tuple(works)


def _source_texts(setup: Setup) -> Mapping[str, tuple[str, ...]]:
    """Source lines by the part of the scenario they stand for."""
    preset = setup.routing
    hardware = setup.hardware
    constants = [
        hardware.memory_bytes,
        hardware.bandwidth_bytes_per_s,
        *hardware.peak_flops_per_s.values(),
    ]
    return {
        "kernel times": tuple(chain.from_iterable(setup.costs.sources.values())),
        "model": setup.architecture.sources,
        "accepted length": (setup.acceptance.source,),
        "drafter": setup.drafter.sources,
        "routing": ()
        if preset is None
        else (*(item.source for item in preset.parameters), setup.routing_because),
        "accelerator": tuple(constant.source for constant in constants),
    }
