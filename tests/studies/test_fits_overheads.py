"""Launch and host overheads per engine class: the fit, its protocol, and where the shipped
constants go."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from advisor.catalog.fit_records import (
    ANY_CLASS,
    OVERHEAD_NAMES,
    class_costs,
    load_held_out,
    load_overheads,
)
from advisor.catalog.kernel_choice import small_launch
from advisor.catalog.kernel_costs import kernel_costs
from advisor.catalog.models import load_model
from advisor.measured.observations import NAMES, Observations
from advisor.measured.points import Point
from advisor.physics.bands import make_draws
from advisor.physics.hardware import load_hardware
from studies.fits.held_out import (
    COMMON_SHARE,
    held_out_predictions,
)
from studies.fits.overheads import (
    COMMON,
    PRIOR,
    PRIOR_LOG_SD,
    fit_overheads,
    log_speedup,
    prior_of,
    prior_overheads,
    whitening,
)
from studies.overheads import classes_today, rows_hash
from tests import published

SOURCE = 0.15


def invented(
    source: str, truth: tuple[float, ...], engine: str = "vllm", rows: int = 12
) -> list[SimpleNamespace]:
    """Rows of one source whose speedups follow from known overheads exactly (an arithmetic check,
    no measurement)."""
    launch = NAMES.index("launch")
    draft_host = NAMES.index("draft_host")
    round_host = NAMES.index("round_host")
    reread = NAMES.index("reread")
    verified = NAMES.index("verified")
    points = []
    for i in range(rows):
        passes = float(i % 6 + 1)
        layers = 24.0 * (1 + i % 3)
        plain, whole = np.zeros((2, 1, len(NAMES) + 1))
        plain[0, launch] = layers
        plain[0, -1] = 2e-3 * (1 + i % 4)
        whole[0, launch] = layers + passes
        whole[0, -1] = 3e-3 * (1 + i % 4)
        whole[0, draft_host] = passes
        whole[0, round_host] = 1.0
        whole[0, verified] = 4.0 * (i % 5)
        whole[0, reread] = 2e-3 * (i % 7) if truth[3] else 0.0
        observed = Observations(
            line=np.array([i]),
            quantity=("speedup",),
            measured=np.ones(1),
            upper=plain,
            lower=whole,
            shift=np.log([2.5]),
            length_share=np.zeros(1),
        )
        point = SimpleNamespace(
            source=source,
            laboratory=source,
            engine_class=engine,
            log_sd=0.002,
            overheads=(1.0,) * len(OVERHEAD_NAMES),
            observations=observed,
            batch_size=1.0,
            informs=True,
        )
        known = np.log(np.where(np.array(truth) > 0, truth, 1.0))
        measured = np.exp(log_speedup([point], known[None]))  # type: ignore[list-item]
        point.observations = dataclasses.replace(observed, measured=measured)
        points.append(point)
    return points


TRUTH = (20e-6, 0.5e-3, 0.25e-3, 0.0, 0.8e-3)


@pytest.fixture(scope="module")
def points() -> list[Point]:
    return list(published.fitted())


def test_the_fit_recovers_overheads_that_made_the_rows() -> None:
    rows = [*invented("one", TRUTH), *invented("two", TRUTH)]
    found = fit_overheads(rows, 0.0).by_class["vllm"]  # type: ignore[arg-type]
    assert found.values == pytest.approx(TRUTH, rel=0.1)
    spread = np.sqrt(np.diag(found.log_covariance))
    assert np.all(spread[np.array(TRUTH) > 0] < 0.5 * PRIOR_LOG_SD)


def test_second_readings_of_the_cache_are_fitted_where_kernels_have_them() -> None:
    truth = (10e-6, 0.3e-3, 0.4e-3, 0.9, 1e-3)
    rows = [point for name in ("one", "two") for point in invented(name, truth, "vllm-workstation")]
    found = fit_overheads(rows, 0.0)  # type: ignore[arg-type]
    assert found.by_class["vllm-workstation"].values[3] == pytest.approx(0.9, rel=0.15)
    assert found.of("vllm").values[3] == 0.0


def test_a_class_seen_in_one_laboratory_keeps_the_priors_width() -> None:
    found = fit_overheads(invented("one", TRUTH), 0.0).by_class["vllm"]  # type: ignore[arg-type]
    own = np.diag(found.log_covariance)[COMMON == 0.0]
    assert np.sqrt(own) == pytest.approx(
        np.sqrt(np.diag(prior_overheads("vllm").log_covariance))[COMMON == 0.0]
    )
    assert found.n_sources == 1


def test_what_a_verified_token_takes_is_one_constant_for_all_classes() -> None:
    rows = [*invented("one", TRUTH), *invented("two", TRUTH), *invented("three", TRUTH, "sglang")]
    found = fit_overheads(rows, 0.0)  # type: ignore[arg-type]
    values = {found.of(name).values[4] for name in ("vllm", "sglang", "trtllm", ANY_CLASS)}
    assert max(values) == pytest.approx(min(values))


def test_a_row_whose_plain_step_is_not_ours_informs_no_constant() -> None:
    wrong = [
        SimpleNamespace(**vars(point) | {"informs": False})
        for point in invented("two", (9e-5, 4e-3, 4e-3, 0, 1))
    ]
    rows = [*invented("one", TRUTH), *invented("three", TRUTH)]
    alone, beside = (fit_overheads(each, 0.0).by_class["vllm"] for each in (rows, [*rows, *wrong]))  # type: ignore[arg-type]
    assert beside.values == alone.values
    assert (beside.n_rows, beside.n_sources) == (24, 2)


def test_an_unseen_class_gets_the_prior_when_classes_are_fitted_alone() -> None:
    truth = (10e-6, 2e-3, 2e-3, 0.0, 1e-3)
    rows = [*invented("one", truth, "other engine"), *invented("two", truth, "other engine")]
    alone, shared = (fit_overheads(rows, share).of("new").values for share in (0.0, 1.0))  # type: ignore[arg-type]
    assert alone[:4] == pytest.approx(PRIOR[:4])
    assert shared[1] > 1.5 * PRIOR[1]
    measured = small_launch("sglang", "launch_per_layer_s")
    launch, *others = fit_overheads(rows, 0.0).of("sglang").values  # type: ignore[arg-type]
    assert (launch, others[:3]) == (pytest.approx(measured.value_s), pytest.approx(PRIOR[1:4]))


def test_engines_that_overlap_have_host_times_about_a_mean_of_their_own() -> None:
    slow = (TRUTH[0], 2e-3, 2e-3, *TRUTH[3:])
    rows = [*invented("one", slow, "sglang"), *invented("two", slow, "sglang-synchronous")]
    found = fit_overheads(rows, 1.0, ("vllm", "vllm-rocm", "vllm-workstation"))  # type: ignore[arg-type]
    assert found.of("vllm").values[1:3] == pytest.approx(PRIOR[1:3]), (
        "rows of others say nothing of them"
    )
    assert found.of("vllm").values[0] != pytest.approx(prior_of("vllm")[0], rel=1e-3), (
        "launches are common"
    )
    assert found.of("vllm").n_sources == 0
    assert found.of("vllm-workstation").values[1] > 1.5 * PRIOR[1]
    seen = fit_overheads([*rows, *invented("three", TRUTH)], 1.0, ("vllm-rocm",))  # type: ignore[arg-type]
    assert seen.of("vllm-rocm").values[1:3] == pytest.approx(seen.of("vllm").values[1:3])


def test_an_offset_of_a_whole_laboratory_moves_constants_less_than_a_trend_within_it() -> None:
    """Doubling every speedup of a laboratory says little; doubling half of them says much."""
    rows = invented("one", TRUTH, rows=24)
    steep = [
        SimpleNamespace(
            **{
                **vars(point),
                "observations": dataclasses.replace(point.observations, measured=measured),
            }
        )
        for i, point in enumerate(rows)
        for measured in [point.observations.measured * (1.3 if i % 2 else 1.0)]
    ]
    root = whitening(rows)  # type: ignore[arg-type]
    covariance = np.linalg.inv(root.T @ root)
    assert covariance[0, 1] == pytest.approx(SOURCE**2, rel=1e-3)
    shift = np.full(len(rows), np.log(1.3))
    trend = np.log([point.observations.measured[0] for point in steep]) - np.log(
        [point.observations.measured[0] for point in rows]
    )
    assert np.sum((root @ shift) ** 2) < 0.01 * np.sum((root @ trend) ** 2)


def test_a_sources_own_speedups_never_reach_its_prediction(points: list[Point]) -> None:
    source = "SpecForge issue 339"
    own = {point.engine_class for point in points if point.source == source}
    near = sorted({point.source for point in points if point.engine_class in own} - {source})[:2]
    points = [point for point in points if point.source in (source, *near)]
    mine = [i for i, point in enumerate(points) if point.source == source]

    def double(point: Point) -> Point:
        observed = point.observations
        return dataclasses.replace(
            point, observations=dataclasses.replace(observed, measured=2 * observed.measured)
        )

    doubled = [double(point) if point.source == source else point for point in points]
    before = held_out_predictions(points)
    after = held_out_predictions(doubled)
    assert before[mine] == pytest.approx(after[mine], rel=1e-12)
    others = np.setdiff1d(np.arange(len(points)), mine)
    assert np.any(np.abs(after[others] / before[others] - 1) > 1e-3)


def test_the_shipped_records_are_what_the_shipped_rows_give(points: list[Point]) -> None:
    shipped = load_overheads()
    assert shipped.data_sha256 == rows_hash(), "run `make calibrate`"
    fitted = fit_overheads(points, COMMON_SHARE, classes_today())
    assert {record.engine_class for record in shipped.records} == set(fitted.by_class) | set(
        classes_today()
    )
    for record in shipped.records:
        values = [record.value(name) for name in OVERHEAD_NAMES]
        assert values == pytest.approx(fitted.of(record.engine_class).values, rel=2e-3), (
            "run `make calibrate`"
        )


def test_left_out_constants_are_those_of_a_fit_without_the_laboratory(points: list[Point]) -> None:
    left_out = load_held_out()
    name = "SpecForge issue 339"
    rest = [point for point in points if point.source != name]
    fitted = fit_overheads(rest, COMMON_SHARE, {point.engine_class for point in points})
    assert name in left_out
    seen = {point.engine_class for point in points} - {"other"}
    assert all(
        seen <= {record.engine_class for record in each.records} for each in left_out.values()
    )
    for record in left_out[name].records:
        values = [record.value(each) for each in OVERHEAD_NAMES]
        assert values == pytest.approx(fitted.of(record.engine_class).values, rel=2e-3), (
            "run `make calibrate`"
        )
    assert class_costs("sglang-synchronous", name) != class_costs("sglang-synchronous")
    assert class_costs("vllm", "a laboratory that nobody fitted on") == class_costs("vllm")


@pytest.mark.parametrize(
    ("engine", "record"), [("vllm", "vllm"), ("trtllm", "trtllm"), ("sglang", "sglang")]
)
def test_a_scenarios_engine_is_the_one_of_today(engine: str, record: str) -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), engine, load_model("qwen3-30b-a3b").dtypes)
    shipped = class_costs(record)
    assert costs.host_per_round_s == shipped["host_per_round_s"]
    assert costs.overhead_log_covariance == shipped["overhead_log_covariance"]


def test_draws_of_the_overheads_follow_their_covariance() -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), "vllm", load_model("qwen3-30b-a3b").dtypes)
    covariance = np.diag([0.04, 0.25, 0.25, 0.01, 0.09])
    covariance[1, 2] = covariance[2, 1] = -0.2
    changed = dataclasses.replace(costs, overhead_log_covariance=tuple(map(tuple, covariance)))
    draws = make_draws(changed, n_draws=20000)
    logs = np.log(
        [
            draws.factor[name]
            for name in ("launch", "draft_host", "round_host", "reread", "verified")
        ]
    )
    assert np.cov(logs) == pytest.approx(covariance, abs=0.01)
