"""derive(): from a scenario, a batch and K to the speedup, step by step. The numbers are those of `curve_for`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.architecture import parameter_counts
from advisor.curve import PREFILL_EFFICIENCY
from advisor.explain.constants import ConstantUse, overhead_constant
from advisor.explain.pass_steps import Pass, add_pass
from advisor.explain.step import Builder, Group, Quantity, Step, Values
from advisor.hardware import peak_flops
from advisor.prediction import AdvisorError
from advisor.setup import Setup


@dataclass(frozen=True)
class Derivation:
    """All steps behind one point of a curve: the answer first, then its parts in the order of computation."""

    batch_size: float
    k_draft: int
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


def derive(setup: Setup, batch_size: float, k_draft: int) -> Derivation:
    """Steps of the speedup of one batch and K. Raises AdvisorError for a batch below 1 or a K out of 0..k_max."""
    longest = setup.scenario.k_max if setup.drafter.kind != "none" else 0
    if not 0 <= k_draft <= longest:
        raise AdvisorError(f"K = {k_draft} is not considered; choose one from 0 to {longest}")
    if batch_size < 1:
        raise AdvisorError(f"batch {batch_size:g} is no batch; give 1 or more sequences")
    b = Builder()
    b.group, b.prefix = "Plain step", "plain"
    plain = add_pass(b, Pass(setup, setup.architecture, batch_size, 1.0, None), "T_plain", "Plain decode step")
    b.group, b.prefix = "Verification", "verify"
    whole = Pass(setup, setup.architecture, batch_size, k_draft + 1.0, None)
    verify = add_pass(b, whole, "T_verify", f"Verification of {k_draft + 1} tokens per sequence")
    extra = _drafting(b, setup, batch_size, k_draft) if k_draft else {}
    b.group, b.prefix = "Answer", ""
    _answer(b, setup, batch_size, k_draft, plain, verify, extra)
    return Derivation(batch_size, k_draft, tuple(sorted(b.steps, key=_reading_order)))


_READ_FIRST = ("speedup", "accepted_length", "round", "verify_ratio", "tpot", "tokens_per_s_per_gpu", "prefill")


def _reading_order(step: Step) -> int:
    """The answer first, its parts behind it; within a group as computed."""
    return _READ_FIRST.index(step.id) if step.id in _READ_FIRST else len(_READ_FIRST)


def _drafting(b: Builder, setup: Setup, batch: float, k: int) -> Mapping[str, Quantity]:
    """Time of drafting, its launches and host time, and of accepting or rejecting."""
    b.group, b.prefix = "Drafting", "draft"
    found: dict[str, Quantity] = {}
    if setup.draft_architecture is not None:
        parallel = setup.drafter.kind == "parallel"
        passes = 1.0 if parallel else float(k)
        touched = next((step.result.value for step in b.steps if step.id == "plain.experts"), None)
        run = Pass(setup, setup.draft_architecture, batch, float(k) if parallel else 1.0, touched or 0.0, drafting=True)
        one = add_pass(b, run, "T_pass", f"Kernels of one drafting pass, {setup.drafter.name}")
        launch = overhead_constant(setup, "c_l", "launch overhead of a layer", "launch_per_layer_s")
        layers = sum(mixer.count for mixer in setup.draft_architecture.mixers)
        found["T_draft"] = b.add(
            "kernels", "Drafting with its launches", "T_draft", "s", "n * (T_pass + c_l * L)",
            {"n": passes, "T_pass": one, "L": layers}, (launch,),
        )  # fmt: skip
        host = overhead_constant(setup, "c_d", "host time of a drafting pass", "host_per_draft_pass_s")
        found["T_draft_host"] = b.add("host", "Drafting, host", "T_draft_host", "s", "n * c_d", {"n": passes}, (host,))
    accept = overhead_constant(setup, "c_r", "host time of a round", "host_per_round_s")
    value = Quantity(accept.value, "s")
    found["T_accept"] = b.given("round_host", "Accept or reject, host", "T_accept", value, (accept,))
    return found


def _answer(
    b: Builder, setup: Setup, batch: float, k: int, plain: Quantity, verify: Quantity, extra: Mapping[str, Quantity]
) -> None:
    round_ = b.add(
        "round",
        f"One round with K = {k}",
        "T_round",
        "s",
        " + ".join(["T_verify", *extra]),
        {"T_verify": verify, **extra},
    )
    given = setup.acceptance
    length = Quantity(float(given.accepted_length[k]))
    band = f"80% band {given.low[k]:.2f} to {given.high[k]:.2f}; " if k else ""
    use = ConstantUse(
        "AL", "accepted length", length.value, "1", "extrapolated" if given.extrapolated[k] else "given", given.source
    )
    b.given("accepted_length", "Tokens emitted per round", "AL", length, (use,), f"{band}bonus token included.")
    prefill = _prefill(b, setup, batch)
    b.add("verify_ratio", "Verification in plain steps", "R", "1", "T_verify / T_plain",
                  {"T_verify": verify, "T_plain": plain})  # fmt: skip
    times: Values = {"AL": length, "T_plain": plain, "T_round": round_}
    if prefill is None:
        b.add("speedup", "Speedup", "speedup", "1", "AL * T_plain / T_round", times)
        tpot = b.add("tpot", "Time per output token", "TPOT", "s", "T_round / AL", {"AL": length, "T_round": round_})
    else:
        charged = {**times, "pf": prefill}
        b.add("speedup", "Speedup", "speedup", "1", "AL * (T_plain + pf) / (T_round + AL * pf)", charged)
        values = {"AL": length, "T_round": round_, "pf": prefill}
        tpot = b.add("tpot", "Time per output token", "TPOT", "s", "T_round / AL + pf", values)
    gpus = setup.placement.gpus
    rate = "B / TPOT" if gpus == 1 else "B / (TPOT * n_GPU)"
    values = {"B": Quantity(batch), "TPOT": tpot} | ({} if gpus == 1 else {"n_GPU": Quantity(gpus)})
    b.add("tokens_per_s_per_gpu", "Tokens per second and GPU", "X", "1/s", rate, values)


def _prefill(b: Builder, setup: Setup, batch: float) -> Quantity | None:
    """Prefill charged to one output token, where lengths are given."""
    scenario = setup.scenario
    if scenario.input_tokens is None or scenario.output_tokens is None:
        return None
    dtypes = setup.architecture.dtypes
    computed = dtypes.routed if setup.architecture.moe is not None else dtypes.dense
    peak = peak_flops(setup.hardware, "bf16" if computed == "fp32" else computed)
    uses = (
        ConstantUse("F_peak", "peak arithmetic", peak.value, "FLOP/s", peak.kind, peak.source),
        ConstantUse("eta", "share of it that prefill reaches", PREFILL_EFFICIENCY, "1", "assumed", "docs/model.md"),
    )
    values: Values = {
        "B": batch, "ISL": float(scenario.input_tokens), "OSL": float(scenario.output_tokens),
        "N_act": parameter_counts(setup.architecture).active_nonembedding, "n_GPU": setup.placement.gpus,
    }  # fmt: skip
    return b.add(
        "prefill", "Prefill charged to one output token", "pf", "s",
        "B * ISL / OSL * 2 * N_act / (eta * F_peak * n_GPU)", values, uses,
    )  # fmt: skip
