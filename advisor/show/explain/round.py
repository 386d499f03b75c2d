"""The derivation of a speedup, step by step with the numbers of `curve_for`, and the works that it
rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
from pydantic import Field

from advisor.physics import laws
from advisor.physics.hardware import effective_bandwidth, peak_flops
from advisor.physics.laws.kernels import Law
from advisor.physics.laws.recording import Call, recording
from advisor.predict.curve import Curve, curve_for, held_sweep, swept_factors
from advisor.predict.prefill import ATTENTION_SHARE, computed_tokens
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array, Frozen
from advisor.profiles import PROFILES, read_made
from advisor.show.explain.formulas import ConstantUse, overhead_constant
from advisor.show.explain.steps import (
    Builder,
    Group,
    Pass,
    Quantity,
    Step,
    add_pass,
    number_in,
    overheads,
)
from advisor.show.explain.titles import Title, title_of
from advisor.show.phrases.notes import note_text


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
    with recording() as calls:
        curve = curve_for(setup, [batch_size], [n_draft], central_only=True)
    point = _Point(setup, batch_size, n_draft, curve, calls)
    b = Builder()
    b.group = "Plain step"
    b.prefix = "plain"
    plain = add_pass(b, point.run("plain"), Title("total", "Plain decode step", "T_plain"))
    waits = [call for call in calls if call.law is laws.eager_wait and not call.part]
    plain = _launched(b, setup, plain, waits[:1], curve.plain_components)
    b.group = "Verification"
    b.prefix = "verify"
    title = f"Verification of {n_draft + 1} tokens per sequence"
    verify = add_pass(b, point.run("verify"), Title("total", title, "T_verify"))
    extra = _drafting(b, point) if n_draft else {}
    b.group = "Verification"
    b.prefix = "verify"
    verify = _launched(b, setup, verify, waits[1:], curve.round_components)
    _, verify = _swept(b, setup, (batch_size, n_draft), plain, verify, extra)
    b.group = "Answer"
    b.prefix = ""
    _answer(b, point, verify, extra)
    # The answer first, its parts behind it; within a group as computed.
    answer = sorted(
        (step for step in b.steps if step.id in _READ_FIRST),
        key=lambda step: _READ_FIRST.index(step.id),
    )
    parts = (step for step in b.steps if step.id not in _READ_FIRST)
    return Derivation(batch_size, n_draft, (*answer, *parts))


@dataclass(frozen=True)
class _Point:
    """One point of a curve with the laws that ran for it."""

    setup: Setup
    batch: float
    n_draft: int
    curve: Curve
    calls: Sequence[Call]

    def run(self, name: str) -> Pass:
        """The pass that ran under a name: of the target, or a drafting one."""
        curve = self.curve
        drafting = name == "draft"
        components = curve.plain_components if name == "plain" else curve.round_components
        uncharged = {"eager", *(part for part in components if not components[part].any())}
        if drafting:
            uncharged = {"eager", "launch", "between_graphs"}
        touched = curve.touched_verify if name == "verify" else curve.touched_plain
        calls = [call for call in self.calls if call.part[:1] == (name,)]
        architecture = self.setup.draft_architecture if drafting else None
        return Pass(
            self.setup,
            architecture or self.setup.architecture,
            calls,
            uncharged,
            number_in(touched),
            drafting,
        )

    def of(self, law: Law) -> list[Call]:
        """The runs of a law outside of all passes."""
        return [call for call in self.calls if call.law is law and not call.part]

    def add(
        self,
        b: Builder,
        call: Call,
        names: Mapping[str, str] | None = None,
        constants: tuple[ConstantUse, ...] = (),
        title: Title | None = None,
    ) -> Quantity:
        """Keep a run of a law under its own title, or another."""
        title = title or title_of("round", call.law)
        uses = constants or overheads(self.setup, call)
        return b.add(title, call.law, call.values, uses, names)


def _launched(
    b: Builder,
    setup: Setup,
    total: Quantity,
    waits: Sequence[Call],
    components: Mapping[str, Array],
) -> Quantity:
    """A step with what it waits for launches. The step itself where a captured graph holds it, or
    none is known."""
    if not waits or not number_in(components["eager"]):
        return total
    note = "The step without the host's part, and what verified tokens add."
    device = Title("device", "What the device computes", "T_device", "s", note)
    b.given(device, number_in(waits[0].values["T_device"]))
    title = title_of("eager", laws.eager_wait)
    wait = b.add(title, laws.eager_wait, waits[0].values, overheads(setup, waits[0]))
    title = Title("launched", "The step with its launches", f"{_SYMBOL[b.prefix]}_eager")
    return b.add_sum(title, {_SYMBOL[b.prefix]: total, "T_eager": wait})


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

    def scaled(prefix: str, title: str, symbol: str, value: Quantity, factors: Array) -> Quantity:
        b.group = "Plain step" if prefix == "plain" else "Verification"
        b.prefix = prefix
        factor = number_in(factors)
        note = f"{factor:.3g} times the model's: {note_text(held.note_at())}"
        return b.given(Title(symbol.lower(), title, symbol, "s", note), value.value * factor)

    for symbol in _VERIFIED:
        if symbol in extra:
            title = "Verified tokens, by your plain sweep"
            swept_symbol = f"{symbol}_own"
            extra[symbol] = scaled("verify", title, swept_symbol, extra[symbol], verify_factors)
    return (
        scaled("plain", "Plain step, by your plain sweep", "T_plain_own", plain, plain_factors),
        scaled(
            "verify", "Verification, by your plain sweep", "T_verify_own", verify, verify_factors
        ),
    )


_SYMBOL = {"plain": "T_plain", "verify": "T_verify"}
_VERIFIED: Mapping[str, Law] = {"T_verified": laws.verified, "T_tokens": laws.verify_tokens}
"""What verifying adds beyond the kernels, by symbol."""
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


def _drafting(b: Builder, point: _Point) -> dict[str, Quantity]:
    """Time of drafting, its launches and host time, of accepting or rejecting, and what verifying
    many tokens adds beyond the kernels."""
    setup = point.setup
    b.group = "Drafting"
    b.prefix = "draft"
    parts: dict[str, Quantity] = {}
    if setup.draft_architecture is not None:
        run = point.run("draft")
        title = f"Kernels of one drafting pass, {setup.drafter.name}"
        kernels = add_pass(b, run, Title("total", title, "T_pass"))
        for call in run.calls:
            if call.law is laws.eager_wait:
                title = "Launches of a pass"
                wait = point.add(b, call, title=Title("eager", title, "T_eager"))
                whole = Title("launched", "A drafting pass with its launches", "T_pass_eager")
                b.add_sum(whole, {"T_pass": kernels, "T_eager": wait})
        parts["T_draft"] = point.add(b, point.of(laws.drafting)[0])
        parts["T_draft_host"] = point.add(b, point.of(laws.draft_host)[0])
    accept = overhead_constant(setup, "c_r", "host time of a round", "host_per_round_s")
    title_of_host = Title("round_host", "Accept or reject, host", "T_accept")
    parts["T_accept"] = b.given(title_of_host, accept.value, (accept,))
    for symbol, law in _VERIFIED.items():
        for call in point.of(law):
            parts[symbol] = point.add(b, call)
    return parts


def _answer(b: Builder, point: _Point, verify: Quantity, extra: Mapping[str, Quantity]) -> None:
    title = Title("round", f"One round with K = {point.n_draft}", "T_round")
    b.add_sum(title, {"T_verify": verify, **extra})
    _accepted(b, point)
    charged = bool(number_in(point.curve.prefill_s))
    if charged:
        _prefill(b, point)
    point.add(b, point.of(laws.verification_ratio)[0])
    point.add(b, point.of(laws.speedup)[0])
    all_prompts, others = point.of(laws.tpot)
    point.add(b, others, {"pf": "pf_others"} if charged else None)
    if charged:
        whole = "Time per output token, the own prompt's prefill included"
        point.add(b, all_prompts, title=Title("token_s", whole, "T_token"))
        note = (
            "Beside plain decoding: T_first is a whole step with a chunk of the prompt, the "
            "running sequences' attention, launches and host time included; nothing is taken off "
            "for them."
        )
        first = Title("ttft", "Time to first token, without queueing", "TTFT", "s", note)
        point.add(b, point.of(laws.prompt)[-1], {"T_with": "T_first"}, title=first)
    names = {"TPOT": "T_token"} if charged else None
    point.add(b, point.of(laws.tokens_per_s_per_gpu)[0], names)


def _accepted(b: Builder, point: _Point) -> None:
    acceptance = point.setup.acceptance
    k = point.n_draft
    length = float(acceptance.accepted_length[k])
    origin = "borrowed" if acceptance.borrowed else "given"
    tier = "extrapolated" if acceptance.extrapolated[k] else origin
    band = f"80% range {acceptance.low[k]:.2f} to {acceptance.high[k]:.2f}; " if k else ""
    use = ConstantUse("AL", "accepted length", length, "1", tier, acceptance.source)
    note = f"{band}bonus token included."
    b.given(Title("accepted_length", "Tokens emitted per round", "AL", "1", note), length, (use,))


def _prefill(b: Builder, point: _Point) -> None:
    """One prompt, and what it charges to an output token of every sequence and of the others
    alone."""
    hardware = point.setup.hardware
    peak = peak_flops(hardware, "bf16")
    rate = effective_bandwidth(hardware, "bf16")
    use = "peak arithmetic in 16 bits"
    share = "share of it that attention reaches"
    uses = (
        ConstantUse("F_peak", use, peak.value, "FLOP/s", peak.kind, peak.source),
        ConstantUse("eta", share, ATTENTION_SHARE, "1", "assumed", "docs/model.md"),
    )
    point.add(b, point.of(laws.prompt_attention)[0], constants=uses)
    use = "rate of reading and writing"
    small = ConstantUse("BW", use, rate.value, "B/s", rate.kind, rate.source)
    point.add(b, point.of(laws.prompt_small)[0], constants=(small,))
    call = point.of(laws.prompt)[0]
    chunk = computed_tokens(point.setup.scenario) / number_in(call.values["n"])
    note = f"With {chunk:,.0f} tokens of the prompt in a step, all kernels but attention."
    point.add(b, call, title=title_of("round", call.law)._replace(note=note))
    charged, others = point.of(laws.prefill)[:2]
    point.add(b, charged)
    title = "Prefill of the others between two tokens of a user"
    point.add(b, others, title=Title("waiting", title, "pf_others"))


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
