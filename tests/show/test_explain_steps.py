"""How a number was made: every step is its formula's value, and together they are what curve_for
gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from advisor.answers.advice import advise, band_parts
from advisor.catalog.adjustment import parse_adjustment
from advisor.physics import laws
from advisor.physics import step as model_step
from advisor.physics.laws.recording import recorded, recording, unrecorded, within
from advisor.physics.touched_experts import local_experts, touched_experts
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup, with_costs
from advisor.predict.scenario import Scenario, write_loads
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array
from advisor.show.explain.formulas import ConstantUse, formula_of, written
from advisor.show.explain.round import derive
from advisor.show.explain.steps import Quantity, step_latex, step_text, value_text
from advisor.show.explain.titles import titles, units_of

REFIT = (
    "on=h200-sxm/vllm/vllm;n=13;data=3219dd51bbca;launch=1.1/0.3;host=0.9/0.3;draft_host=1.2/0.3;round_host=0.8/0.3;"
    "routed=1.05/0.03;attention=0.9/0.1;dense=1.02/0.05;drafter=1.1/0.1;corr=0.1/0.1/0/0/-0.1/0/0/0/0/0;scatter=0.05"
)
of = functools.partial(Scenario, acceptance="2.4@3")
v3 = functools.partial(of, model_id="deepseek-v3")
SCENARIOS = {
    "moe": of(),
    "uniform routing": of(routing="uniform"),
    "dense over four GPUs": of(model_id="command-a", n_gpus=4, tensor_parallel=4),
    "latent attention, MTP": Scenario(
        acceptance="deepseek-r1-mtp-internal",
        model_id="deepseek-v3",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    "expert parallel": v3(drafter_id="mtp", n_gpus=8, expert_parallel=8, batch_size=64),
    "both parallel": v3(n_gpus=8, tensor_parallel=2, expert_parallel=8, batch_size=64),
    "counted ranks": of(
        n_gpus=8,
        tensor_parallel=2,
        expert_parallel=8,
        batch_size=64,
        expert_loads=write_loads(np.repeat(np.r_[np.full(16, 9.0), np.ones(112)][None], 4, axis=0)),
        redundant_experts=8,
    ),
    "counted ranks on several nodes": v3(
        n_gpus=16, expert_parallel=16, batch_size=64, redundant_experts=0
    ),
    "several nodes, 8 bits out": v3(drafter_id="mtp", n_gpus=32, expert_parallel=32, batch_size=64),
    "several nodes, 16 bits out": of(
        n_gpus=16, tensor_parallel=2, expert_parallel=16, batch_size=64
    ),
    "windows": of(model_id="gpt-oss-20b", context_tokens=9000),
    "sparse attention": of(model_id="deepseek-v4-pro", n_gpus=8, tensor_parallel=8),
    "hyper-connections": of(
        model_id="deepseek-v4-flash",
        hardware_id="mi355x",
        drafter_id="mtp",
        n_gpus=8,
        tensor_parallel=8,
    ),
    "linear attention": of(model_id="qwen3.5-397b-a17b", n_gpus=8, tensor_parallel=8),
    "parallel drafter": of(model_id="gpt-oss-20b", drafter_id="p-eagle"),
    "n-gram": of(drafter_id="ngram"),
    "draft model": of(drafter_id="qwen2-0.5b"),
    "prefill": of(input_tokens=1000, output_tokens=200),
    "prefill on counted ranks of several nodes": v3(
        n_gpus=16,
        expert_parallel=16,
        batch_size=64,
        redundant_experts=0,
        input_tokens=1000,
        output_tokens=200,
    ),
    "refitted": of(refit=REFIT),
    "roofline": of(hardware_id="mi300x"),
    "cache read again": of(hardware_id="rtx-pro-6000-blackwell"),
    "fp8 shared experts": of(
        model_id="command-a-plus", weight_dtype="fp8", n_gpus=4, tensor_parallel=4
    ),
}
PARTS = (
    "host",
    "launch",
    "attention_projection",
    "attention",
    "dense",
    "communication",
    "lm_head",
    "router",
    "routed",
)
PARTS += ("shared", "reread")


@pytest.fixture(params=SCENARIOS, ids=str)
def setup(request: pytest.FixtureRequest) -> Setup:
    return load_setup(SCENARIOS[request.param])


@pytest.mark.parametrize(("batch", "k"), [(1, 1), (16, 3), (200, 8), (16, 0)])
def test_every_step_is_what_the_curve_has(setup: Setup, batch: int, k: int) -> None:
    batch = max(batch, setup.placement.attention_groups)
    curve = curve_for(setup, [batch], [k])
    made = derive(setup, batch, k)
    steps = {step.id: step.result.value for step in made.steps}
    for part in PARTS:
        for arm, found in (
            ("plain", curve.plain_components[part][0] if part in curve.plain_components else 0.0),
            (
                "verify",
                curve.round_components[part][0, 0] if part in curve.round_components else 0.0,
            ),
        ):
            assert steps.get(f"{arm}.{part}", 0.0) == pytest.approx(found, rel=1e-9, abs=1e-15), (
                f"{arm}.{part}"
            )
    assert steps["plain.total"] == pytest.approx(curve.plain_step_s[0])
    assert steps["verify.total"] == pytest.approx(curve.verify_step_s[0, 0])
    assert steps.get("draft.kernels", 0.0) == pytest.approx(curve.round_components["draft"][0, 0])
    assert steps.get("draft.host", 0.0) == pytest.approx(curve.round_components["draft_host"][0, 0])
    assert steps.get("draft.round_host", 0.0) == pytest.approx(
        curve.round_components["round_host"][0, 0]
    )
    verified = curve.round_components.get("verified", np.zeros((1, 1)))
    assert steps.get("draft.verified", 0.0) == pytest.approx(verified[0, 0])
    assert steps["round"] == pytest.approx(curve.round_s[0, 0])
    assert steps["accepted_length"] == pytest.approx(curve.accepted_length[0])
    assert steps["verify_ratio"] == pytest.approx(curve.verify_ratio[0, 0])
    assert steps["speedup"] == pytest.approx(curve.speedup[0, 0])
    assert steps["tpot"] == pytest.approx(curve.tpot_s[0, 0])
    assert steps["tokens_per_s_per_gpu"] == pytest.approx(curve.tokens_per_s_per_gpu[0, 0])
    if setup.architecture.moe is not None:
        assert steps["plain.experts"] == pytest.approx(curve.touched_plain[0])
        assert steps["verify.experts"] == pytest.approx(curve.touched_verify[0, 0])


def arithmetic(text: str, values: Mapping[str, float]) -> float:
    """What a reader gets who takes an expression at its word: textbook forms, no call of a law."""
    known = {
        "min": min,
        "max": max,
        "log": math.log,
        "log2": math.log2,
        "p_norm": lambda a, b, p: (a**p + b**p) ** (1 / p),
        "one_minus_power": lambda x, n: 1 - x**n,
        "U": touched_experts,
        "U_slowest": local_experts,
    }
    return float(eval(text, {"__builtins__": {}}, known | dict(values)))


def shown_number(quantity: Quantity) -> float:
    """The number that a reader sees, back in SI units."""
    number, _, unit = value_text(quantity).partition(" ")
    scale = {
        "p": 1e-12,
        "n": 1e-9,
        "µ": 1e-6,
        "m": 1e-3,
        "k": 1e3,
        "M": 1e6,
        "G": 1e9,
        "T": 1e12,
        "P": 1e15,
    }
    prefix = unit[: len(unit) - len(quantity.unit)] if quantity.unit not in ("1", "1/s") else ""
    return float(number.removesuffix("/s").replace(",", "")) * scale.get(prefix, 1.0)


def test_a_round_on_one_gpu_has_the_host_s_share_there() -> None:
    setup = load_setup(SCENARIOS["n-gram"])
    setup = replace(setup, costs=replace(setup.costs, host_one_gpu_share=0.2))
    round_s = curve_for(setup, [16], [3]).round_s[0, 0]
    assert derive(setup, 16, 3).step("round").result.value == pytest.approx(round_s)


@pytest.mark.parametrize(("read", "rel"), [(attrgetter("value"), 1e-9), (shown_number, 3e-3)])
def test_the_expression_is_worth_what_the_law_computes_and_to_a_reader_of_its_numbers(
    setup: Setup, read: Callable[[Quantity], float], rel: float
) -> None:
    for step in derive(setup, max(16, setup.placement.attention_groups), 3).steps:
        if step.expression:
            again = arithmetic(
                step.expression, {name: read(value) for name, value in step.values.items()}
            )
            assert again == pytest.approx(step.result.value, rel=rel), step_text(step)


def sampled(M: float, t_s: float) -> float:
    """Time of sampling the tokens of a step.

    T_sampled = M × t_s

    M: tokens in the step. [-]
    t_s: sampling one. [s]
    Limits: 0 for no tokens.
    Source: made for this test.
    """
    return M * t_s


def test_a_law_that_is_added_to_the_model_is_explained_from_its_docstring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampling = recorded(sampled)
    usual = model_step.weights_time

    def with_sampling(*given: Any, **named: Any) -> dict[str, Array]:
        parts = usual(*given, **named)
        with within("dense"):
            parts["dense"] = parts["dense"] + np.asarray(sampling(given[4], 1e-6))
        return parts

    monkeypatch.setattr(model_step, "weights_time", with_sampling)
    setup = load_setup(SCENARIOS["n-gram"])
    made = derive(setup, 16, 3)
    new = made.step("verify.dense")
    assert new.title == sampled.__doc__.partition(".")[0]
    assert (new.expression, new.values) == (
        "M * t_s",
        {"M": Quantity(64.0), "t_s": Quantity(1e-6, "s")},
    )
    assert new.result == Quantity(pytest.approx(64e-6), "s")
    curve = curve_for(setup, [16], [3])
    assert made.step("verify.total").result.value == pytest.approx(curve.verify_step_s[0, 0])
    assert made.step("speedup").result.value == pytest.approx(curve.speedup[0, 0])


def test_every_law_of_a_prediction_is_recorded_once_and_only_while_a_recording_runs() -> None:
    setup = load_setup(SCENARIOS["moe"])
    with recording() as calls:
        curve = curve_for(setup, [16], [3], central_only=True)
        with unrecorded():
            curve_for(setup, [16], [3], central_only=True)
    curve_for(setup, [16], [3], central_only=True)
    of_speedup = [call for call in calls if call.law is laws.speedup]
    assert [float(np.ravel(call.result)[0]) for call in of_speedup] == [curve.speedup[0, 0]]
    plain = [call.law for call in calls if call.part == ("plain",)]
    assert len(plain) == len(set(plain)), "one law runs twice for one step"
    products = [call.part for call in calls if call.law is laws.gemm]
    assert len(products) == len(set(products))


def test_the_units_of_a_law_are_those_of_its_docstring() -> None:
    assert units_of(sampled) == {"M": "1", "t_s": "s"}
    units = units_of(laws.routed_layers)
    assert {name for name, unit in units.items() if unit == "s"} == {"t0", "tau", "tau_N"}
    assert {name for name, unit in units.items() if unit == "B"} == {"W", "A"}
    assert [units[name] for name in ("F", "N", "ep", "BW", "F_peak")] == [
        *("FLOP", "1", "1", "B/s", "FLOP/s")
    ]


@pytest.mark.parametrize("name", [name for part in titles().values() for name in part])
def test_a_title_belongs_to_a_law_that_there_is(name: str) -> None:
    assert hasattr(laws, name) or name in (touched_experts.__name__, local_experts.__name__)


def test_each_step_reads_in_text_and_in_balanced_latex(setup: Setup) -> None:
    for step in derive(setup, max(16, setup.placement.attention_groups), 3).steps:
        assert step_text(step).startswith(f"{step.symbol} = ")
        latex = step_latex(step)
        assert latex.count("{") == latex.count("}")
        assert latex.count(r"\left") == latex.count(r"\right")


def test_each_constant_has_a_source_and_fitted_ones_their_standard_error(setup: Setup) -> None:
    constants = derive(setup, max(16, setup.placement.attention_groups), 3).constants
    assert all(use.source and use.tier for use in constants)
    kernels = [use for use in constants if use.source.startswith("fit ")]
    if setup.hardware.kernel_table_device:
        assert kernels
        assert any(use.stderr is not None and 0 < use.stderr < abs(use.value) for use in kernels)
    else:
        assert not kernels


def test_a_formula_is_written_with_the_brackets_it_needs() -> None:
    assert written("a * (b + c) / (d * e)", "plain") == "a × (b + c) / (d × e)"
    assert written("a - (b - c)", "plain") == "a - (b - c)"
    assert written("(1 - k / N) ** (B * q)", "plain") == "(1 - k / N)^(B × q)"
    assert written("T_plain / T_round", "latex") == r"\frac{T_{\text{plain}}}{T_{\text{round}}}"
    assert written("a * b", "plain", {"a": "2 ms"}) == "2 ms × b"


def _two_lines(a: float) -> None:
    a = a + 1


def _root(a: float) -> float:
    return float(np.sqrt(a))


@pytest.mark.parametrize("law", [_two_lines, _root])
def test_a_function_that_is_no_single_expression_of_laws_is_refused(
    law: Callable[[float], float],
) -> None:
    with pytest.raises(AdvisorError, match=law.__name__):
        formula_of(law)


def test_the_parts_of_a_range_on_a_machine_nobody_has_seen_end_with_the_whole_one() -> None:
    setup = load_setup(SCENARIOS["moe"])
    curve = curve_for(setup, [16], [3])
    parts = band_parts(setup, 16, 3)
    assert (parts[-1].low, parts[-1].high) == (curve.low[0, 0], curve.high[0, 0])
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    assert all(part.low > parts[-1].low and part.high < parts[-1].high for part in parts[:-1])


def test_the_parts_of_a_band_after_own_rows_lie_within_it_and_add_up() -> None:
    setup = with_costs(load_setup(SCENARIOS["moe"]), scatter_log_sd=0.1)
    curve = curve_for(setup, [16], [3])
    parts = band_parts(setup, 16, 3)
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    width = np.log(curve.high[0, 0] / curve.low[0, 0])
    alone = [np.log(part.high / part.low) for part in parts]
    assert max(alone) < width < sum(alone)
    assert [part.share for part in parts] == pytest.approx(
        np.square(alone) / np.square(alone).sum(), abs=0.03
    )


@pytest.mark.parametrize(("batch", "k"), [(16, 9), (16, -1), (0, 3)])
def test_a_point_that_is_not_there_is_refused(batch: int, k: int) -> None:
    with pytest.raises(AdvisorError, match=r"K = |batch"):
        derive(load_setup(SCENARIOS["moe"]), batch, k)


def test_constants_of_a_refit_name_the_refit_and_the_fit_they_came_from() -> None:
    setup = load_setup(SCENARIOS["refitted"])
    refitted = setup.adjustment.label
    made = derive(setup, 16, 3)
    by_symbol = {(use.symbol, use.name): use for use in made.constants}
    weights = by_symbol["BW", "experts: rate of reading weights"]
    assert weights.source.startswith("fit moe/h200-sxm/vllm/")
    assert refitted in weights.source
    assert weights.stderr == pytest.approx(0.03 * weights.value)
    host = next(use for use in made.constants if use.symbol == "c_d")
    assert host.source.startswith(refitted)


def test_an_engine_without_rows_of_its_own_says_that_its_overheads_are_the_prior() -> None:
    made = derive(load_setup(Scenario(acceptance="2.4@3", engine="other")), 16, 3)
    host = next(use for use in made.constants if use.symbol == "c_d")
    assert (host.tier, host.source.startswith("weak prior")) == ("assumed", True)


def test_the_hosts_time_is_the_prior_s_until_a_refit_speaks_of_it() -> None:
    def host(refit: str | None) -> ConstantUse:
        scenario = SCENARIOS["refitted"].model_copy(update={"refit": refit})
        return derive(load_setup(scenario), 16, 3).step("plain.host").constants[0]

    shipped = host(None)
    silent = host(REFIT.replace("host=0.9/0.3;", "", 1))
    spoken = host(REFIT)
    assert (
        (shipped.tier, shipped.source)
        == (silent.tier, silent.source)
        == ("assumed", "docs/model.md")
    )
    assert spoken.value == pytest.approx(0.9 * shipped.value)
    assert spoken.source.startswith(parse_adjustment(REFIT).label)
    assert spoken.stderr == pytest.approx(0.3 * spoken.value)


def test_the_time_to_first_token_is_the_answer_s_and_says_that_it_leaves_queueing_out() -> None:
    answer = advise(SCENARIOS["prefill"]).recommendation
    step = derive(
        load_setup(SCENARIOS["prefill"]), SCENARIOS["prefill"].batch_size, answer.n_draft
    ).step("ttft")
    assert step.result.value == pytest.approx(answer.ttft_s)
    assert "without queueing" in step.title
    assert step.values["T_without"].value == 0.0


def test_without_lengths_there_is_no_time_to_first_token() -> None:
    plain = Scenario(acceptance="2.4@3")
    with pytest.raises(AdvisorError, match="no step 'ttft'"):
        derive(load_setup(plain), 16, 3).step("ttft")
