"""Checks against the measured kernel tables themselves; skipped where the package is not installed.

Where a model's very expert shape was measured, the prediction is the measurement, carried on by the
form.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.fit_records import MeasuredTable, ShapeRows, load_measured, load_records
from advisor.catalog.kernel_choice import BORROWED_LOG_SD
from advisor.measured.store import default_store_path, open_store
from advisor.physics.hardware import load_hardware
from advisor.physics.kernel_costs import MeasuredLayer
from advisor.physics.step import MoeShape, Placement, expert_shape, routed_time
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup, touched_in_pass
from advisor.prediction import AdvisorError, Tier
from studies.calibration import measured_shapes, tables_of
from studies.fits.records import recorded_devices, write_measured

pd = pytest.importorskip("pandas")
SPEC = importlib.util.find_spec("aiconfigurator_core")
DATA = Path(SPEC.origin).parent / "systems" / "data" if SPEC and SPEC.origin else None
needs_package = pytest.mark.skipif(
    DATA is None or not DATA.is_dir(), reason="aiconfigurator-core is not installed"
)


@pytest.fixture(scope="module")
def qwen_layer():
    """H200, vLLM 0.24.0, bf16: N = 128, k = 8, h = 2048, I = 768 on one GPU. [s]"""
    path = DATA / "h200_sxm" / "moe" / "vllm" / "0.24.0" / "moe_perf.parquet"
    wanted = {
        "hidden_size": 2048,
        "inter_size": 768,
        "topk": 8,
        "num_experts": 128,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    filters = [(name, "==", value) for name, value in wanted.items()] + [
        ("moe_dtype", "==", "bfloat16")
    ]
    frame = pd.read_parquet(path, filters=filters)
    return frame.assign(latency_s=frame["latency"] * 1e-3)


@needs_package
def test_plain_over_verify_time_of_the_measured_layer_dips_at_small_batch(qwen_layer):
    balanced = qwen_layer[qwen_layer["distribution"] == "balanced"].set_index("num_tokens")[
        "latency_s"
    ]
    ratio = {
        b: balanced[b] / balanced[4 * b]
        for b in balanced.index
        if 4 * b in balanced.index and b <= 512
    }
    assert min(ratio, key=ratio.get) == 4
    assert ratio[4] == pytest.approx(0.31, abs=0.01)
    assert all(ratio[b] >= 0.93 for b in (16, 32, 64))
    assert ratio[512] == pytest.approx(0.76, abs=0.01)


@needs_package
def test_fitted_layer_follows_the_measured_one_including_its_dip(qwen_layer):
    from advisor.catalog.kernel_costs import kernel_costs
    from advisor.measured.kernel_fits import touched_under_power_law
    from advisor.physics.architecture import WeightDtypes
    from advisor.physics.hardware import load_hardware
    from advisor.physics.step import MoeShape, Placement, routed_time

    cost = kernel_costs(load_hardware("h200-sxm"), "vllm", WeightDtypes()).routed
    shape = MoeShape(1, 128, 8, 768, 2048, 3, 0)
    errors = []
    for load in ("balanced", "power_law_1.2"):
        measured = qwen_layer[qwen_layer["distribution"] == load].set_index("num_tokens")[
            "latency_s"
        ]
        for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            touched = touched_under_power_law(tokens, 128, 8, load).touched
            predicted = float(routed_time(cost, Placement(), shape, tokens, touched, "bf16"))
            errors.append(abs(predicted / measured[tokens] - 1))
    assert np.median(errors) < 0.06
    assert max(errors) < 0.2


@needs_package
def test_skewed_rows_are_explained_by_the_experts_they_touch(qwen_layer):
    """Between balanced points, latency is linear in touched experts; the skewed rows must lie on
    that line."""
    from advisor.measured.kernel_fits import touched_under_power_law

    balanced = qwen_layer[
        (qwen_layer["distribution"] == "balanced") & (qwen_layer["num_tokens"] <= 16)
    ]
    balanced = balanced.sort_values("num_tokens")
    known = [touched_under_power_law(t, 128, 8, "balanced").touched for t in balanced["num_tokens"]]
    errors = []
    for load in ("power_law_1.01", "power_law_1.2"):
        rows = qwen_layer[
            (qwen_layer["distribution"] == load) & qwen_layer["num_tokens"].between(2, 16)
        ]
        for tokens, latency in zip(rows["num_tokens"], rows["latency_s"], strict=True):
            touched = touched_under_power_law(int(tokens), 128, 8, load).touched
            errors.append(np.interp(touched, known, balanced["latency_s"]) / latency - 1)
    assert abs(np.median(errors)) < 0.08
    assert np.max(np.abs(errors)) < 0.25


LAYER = MeasuredLayer(
    (2048.0, 768.0, 8.0, 128.0, 3.0, 1.0), ((1.0, 1.2), (4.0, 0.9), (16.0, 1.1)), 0.02
)


def setup_of(
    model_id: str, hardware_id: str = "h200-sxm", engine: str = "vllm", tp: int = 1, ep: int = 1
) -> Setup:
    return load_setup(
        Scenario(
            hardware_id=hardware_id,
            engine=engine,
            model_id=model_id,
            n_gpus=max(tp, ep),
            tensor_parallel=tp,
            expert_parallel=ep,
            acceptance="2.4@3",
        )
    )


def layer_times(setup: Setup, tokens: np.ndarray) -> np.ndarray:
    shape = MoeShape.of(setup.architecture)
    assert shape is not None
    touched = touched_in_pass(setup, tokens, 1.0)
    return routed_time(
        setup.costs.routed,
        setup.placement,
        shape,
        tokens,
        touched,
        setup.architecture.dtypes.routed,
    )


def test_factor_passes_through_the_rows_and_is_interpolated_in_logarithms():
    assert LAYER.factor([1, 4, 16]) == pytest.approx([1.2, 0.9, 1.1])
    assert LAYER.factor(2) == pytest.approx(np.sqrt(1.2 * 0.9))
    assert LAYER.factor([0.5, 64]) == pytest.approx([1.2, 1.1])


def test_tier_is_measured_at_the_rows_interpolated_between_and_fitted_outside():
    ranks = LAYER.tier_rank([1, 2, 4, 16, 17])
    names = [list(Tier)[rank] for rank in ranks]
    assert names == [Tier.MEASURED, Tier.INTERPOLATED, Tier.MEASURED, Tier.MEASURED, Tier.FITTED]


@pytest.mark.parametrize(
    ("model_id", "tp", "ep"),
    [("qwen3-30b-a3b", 1, 1), ("qwen3-235b-a22b", 4, 1), ("deepseek-v3", 8, 1)],
)
def test_well_known_models_take_their_own_rows(model_id, tp, ep):
    setup = setup_of(model_id, engine="sglang", tp=tp, ep=ep)
    shape = MoeShape.of(setup.architecture)
    assert shape is not None
    assert setup.costs.routed.measured.shape == expert_shape(shape, Placement(tp, ep))
    assert any("very expert shape measured" in source for source in setup.sources)


def test_expert_parallel_ranks_keep_the_form():
    assert setup_of("deepseek-v3", engine="sglang", tp=8, ep=8).costs.routed.measured is None


def test_an_unmeasured_shape_keeps_the_form():
    setup = setup_of("qwen3-30b-a3b")
    moe = setup.architecture.moe
    other = setup.architecture.model_copy(update={"moe": moe.model_copy(update={"n_active": 7})})
    changed = dataclasses.replace(setup, architecture=other)
    tokens = np.array([1.0, 16.0, 256.0])
    form = dataclasses.replace(changed.costs.routed, measured=None)
    costs = dataclasses.replace(changed.costs, routed=form)
    priced = dataclasses.replace(changed, costs=costs)
    assert layer_times(changed, tokens) == pytest.approx(layer_times(priced, tokens))


def test_step_tier_counts_the_measured_layer_component_by_component():
    from advisor.predict.tiers import component_tier_ranks

    setup = setup_of("qwen3-30b-a3b")
    ranks = component_tier_ranks(setup, np.array([16.0, 20.0, 1e6]))
    assert [list(Tier)[rank] for rank in ranks["routed"]] == [
        Tier.MEASURED,
        Tier.INTERPOLATED,
        Tier.FITTED,
    ]
    assert curve_for(setup, [16], [3]).tier[0, 0] is Tier.FITTED  # projections and attention are


def test_rows_of_another_engine_serve_at_the_tier_and_width_of_a_stand_in():
    own = setup_of("qwen3-30b-a3b")
    other = setup_of("qwen3-30b-a3b", engine="other")
    layer = other.costs.routed.measured
    assert layer.stands_in
    assert set(layer.tier_rank(np.array([1.0, 16.0, 20.0]))) == {Tier.FITTED.rank}
    assert layer.log_sd >= BORROWED_LOG_SD
    assert not own.costs.routed.measured.stands_in


MODELS = (
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "deepseek-v3",
    "mixtral-8x7b",
    "gpt-oss-120b",
    "deepseek-v4-flash",
)


@pytest.mark.parametrize("hardware_id", ["h200-sxm", "h100-sxm", "b200-sxm", "a100-80gb-sxm"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_no_bump_between_measured_token_counts_and_no_jump_where_they_end(hardware_id, engine):
    judged = 0
    for model_id in MODELS:
        for tp, ep in ((1, 1), (2, 1), (8, 1)):
            try:
                setup = setup_of(model_id, hardware_id, engine, tp, ep)
            except AdvisorError:  # the experts do not divide
                continue
            layer = setup.costs.routed.measured
            if layer is None:
                continue
            judged += 1
            _check_between(setup, layer)
            last = layer.knots[-1][0]
            ends = layer_times(setup, np.array([last, last * 1.01]))
            assert ends[1] / ends[0] == pytest.approx(1.0, abs=0.05)
    assert judged >= 5


def _check_between(setup: Setup, layer: MeasuredLayer) -> None:
    known = np.array([tokens for tokens, _ in layer.knots if tokens <= 4096])
    grid = np.unique(np.concatenate([known, np.round(np.geomspace(1, known[-1], 160))]))
    times = layer_times(setup, grid)
    at_rows = times[np.searchsorted(grid, known)]
    place = np.clip(np.searchsorted(known, grid, side="right") - 1, 0, len(known) - 2)
    low = np.minimum(at_rows[place], at_rows[place + 1])
    high = np.maximum(at_rows[place], at_rows[place + 1])
    assert np.all(times <= 1.05 * high)
    assert np.all(times >= 0.95 * low)


def test_rows_far_from_the_form_are_reported_and_not_used():
    setup = setup_of(
        "llama4-scout", engine="trtllm"
    )  # timed at 8 times the fitted time at 16 tokens
    assert setup.costs.routed.measured is None
    assert "shape_untuned" in {note.kind for note in setup.notes}


@pytest.mark.parametrize("device", recorded_devices())
def test_shipped_shapes_belong_to_shipped_fits_and_carry_well(device):
    fits = {record.id: record for record in load_records(device)}
    tables = load_measured(device)
    assert tables
    for table in tables:
        fit = fits[table.fit_id]
        assert fit.op == "moe"
        assert list(table.tokens) == sorted(table.tokens)
        for rows in table.shapes:
            assert len(rows.factor) == len(table.tokens)
            assert all(factor is None or factor > 0.0 for factor in rows.factor)
    medians = [(table.between_median, fits[table.fit_id].loso_median) for table in tables]
    pairs = [
        (carried, form) for carried, form in medians if carried is not None and form is not None
    ]
    assert np.median([carried for carried, _ in pairs]) < np.median([form for _, form in pairs])


def test_shipped_shapes_are_what_the_shipped_tables_give():
    path = default_store_path()
    if not path.is_file():
        pytest.skip("no store; run `make store`")
    hardware = load_hardware("arc-pro-b60")  # the smallest of the measured devices
    with open_store(path) as opened:
        made = measured_shapes(tables_of(opened), hardware, load_records("b60"))
    shipped = {table.fit_id: table for table in load_measured("b60")}
    assert {table.fit_id for table in made} == shipped.keys()
    for table in made:
        kept = {rows.shape: rows.factor for rows in shipped[table.fit_id].shapes}
        assert {rows.shape for rows in table.shapes} == kept.keys()
        for rows in table.shapes:
            fresh, old = (
                np.array(factor, float) for factor in (rows.factor, kept[rows.shape])
            )  # None: no row
            assert fresh == pytest.approx(old, rel=1e-3, nan_ok=True), "run `make calibrate`"


def test_tables_survive_a_round_trip(tmp_path):
    rows = ShapeRows(shape=(2048, 768, 8, 128, 3, 1), factor=(1.2345, None, 0.9))
    table = MeasuredTable(
        fit_id="moe/x", tokens=(1, 2, 4), loads=("balanced",), n_rows=2, shapes=(rows,), log_sd=0.05
    )
    write_measured("x", [table], tmp_path)
    (back,) = load_measured("x", tmp_path)
    assert back.shapes[0].factor == (1.234, None, 0.9), "four digits"
    assert back.tokens == table.tokens
