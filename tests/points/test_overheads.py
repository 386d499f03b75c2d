"""Launch and host overheads per engine class: the fit, its protocol, and where the shipped constants go."""

from __future__ import annotations

import dataclasses
import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from advisor import bands
from advisor.calibration import kernel_costs
from advisor.calibration.overhead_records import OVERHEAD_NAMES, class_costs, load_overheads
from advisor.calibration.small_launches import small_launch
from advisor.catalog.engines import engine_ids
from advisor.catalog.models import load_model
from advisor.hardware import load_hardware
from advisor.points.observation import NAMES, Observations
from advisor.points.overheads import ANY_CLASS, PRIOR_LOG_SD, PRIOR_S, fit_overheads, log_speedup
from advisor.points.points import Point, points_of
from advisor.points.published import ROWS, published_rows
from advisor.points.question import engine_class
from advisor.validation.held_out import costs_left_out, predictions_left_out, widths_by_tier


def invented(
    source: str, truth: tuple[float, float, float], engine: str = "vllm", rows: int = 12
) -> list[SimpleNamespace]:
    """Rows of one source whose speedups follow from known overheads exactly (an arithmetic check, no measurement)."""
    launch, draft_host, round_host = (NAMES.index(name) for name in ("launch", "draft_host", "round_host"))
    points = []
    for i in range(rows):
        passes, layers = float(i % 6 + 1), 24.0 * (1 + i % 3)
        plain, whole = np.zeros((2, 1, len(NAMES) + 1))
        plain[0, launch], plain[0, -1] = layers, 2e-3 * (1 + i % 4)
        whole[0, launch], whole[0, -1] = layers + passes, 3e-3 * (1 + i % 4)
        whole[0, draft_host], whole[0, round_host] = passes, 1.0
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
            source=source, engine_class=engine, log_sd=0.002, overheads_s=(1.0, 1.0, 1.0), observations=observed
        )
        measured = np.exp(log_speedup([point], np.log([truth])))  # type: ignore[list-item]
        point.observations = dataclasses.replace(observed, measured=measured)
        points.append(point)
    return points


@pytest.fixture(scope="module")
def points() -> list[Point]:
    found, _ = points_of(published_rows(), other_models=True)
    return found


def test_the_fit_recovers_overheads_that_made_the_rows() -> None:
    truth = (20e-6, 0.8e-3, 0.25e-3)
    rows = [*invented("one", truth), *invented("two", truth)]
    found = fit_overheads(rows, 0.0).by_class["vllm"]  # type: ignore[arg-type]
    assert found.values_s == pytest.approx(truth, rel=0.1)
    assert np.all(np.sqrt(np.diag(found.log_covariance)) < 0.5 * PRIOR_LOG_SD)


def test_a_class_seen_in_one_source_keeps_the_priors_width() -> None:
    found = fit_overheads(invented("one", (20e-6, 0.8e-3, 0.25e-3)), 0.0).by_class["vllm"]  # type: ignore[arg-type]
    assert np.allclose(found.log_covariance, np.eye(3) * PRIOR_LOG_SD**2)
    assert found.n_sources == 1


def test_an_unseen_class_gets_the_prior_when_classes_are_fitted_alone_and_the_mean_when_they_share() -> None:
    rows = [*invented("one", (10e-6, 2e-3, 2e-3)), *invented("two", (10e-6, 2e-3, 2e-3))]
    alone, shared = (fit_overheads(rows, share).of("new").values_s for share in (0.0, 1.0))  # type: ignore[arg-type]
    assert alone == pytest.approx(PRIOR_S)
    assert shared[1] > 2 * PRIOR_S[1]
    measured = small_launch("sglang", "launch_per_layer_s")
    assert measured is not None
    launch, *others = fit_overheads(rows, 0.0).of("sglang").values_s  # type: ignore[arg-type]
    assert (launch, others) == (pytest.approx(measured.value_s), pytest.approx(PRIOR_S[1:]))


def test_a_sources_own_speedups_never_reach_its_prediction(points: list[Point]) -> None:
    source = "SpecForge issue 339"
    mine = [i for i, point in enumerate(points) if point.source == source]

    def double(point: Point) -> Point:
        observed = point.observations
        return dataclasses.replace(point, observations=dataclasses.replace(observed, measured=2 * observed.measured))

    doubled = [double(point) if point.source == source else point for point in points]
    before, after = predictions_left_out(points), predictions_left_out(doubled)
    assert before[mine] == pytest.approx(after[mine], rel=1e-12)
    others = np.setdiff1d(np.arange(len(points)), mine)
    assert np.any(np.abs(after[others] / before[others] - 1) > 1e-3)


def test_the_shipped_records_are_what_the_shipped_rows_give(points: list[Point]) -> None:
    shipped = load_overheads()
    assert shipped is not None
    assert shipped.data_sha256 == hashlib.sha256(ROWS.read_bytes()).hexdigest(), "run `make calibrate`"
    fitted = fit_overheads(points, 0.0)
    assert {record.engine_class for record in shipped.records} == set(fitted.by_class) | set(engine_ids())
    for record in shipped.records:
        values = [record.value(name) for name in OVERHEAD_NAMES]
        assert values == pytest.approx(fitted.of(record.engine_class).values_s, rel=2e-3), "run `make calibrate`"
    width, record = widths_by_tier(points)["fitted"], shipped.residuals[0]
    assert (record.tier, record.share, record.log_sd) == ("fitted", pytest.approx(width.share), width.log_sd)


def test_the_roofline_tier_is_calibrated_wider_than_the_fitted_one() -> None:
    shipped = load_overheads()
    assert shipped is not None
    fitted, roofline = (shipped.residual_log_sd(tier) for tier in ("fitted", "roofline"))
    assert fitted is not None
    assert roofline is not None
    assert roofline > fitted
    assert all(record.n_rows >= 0 for record in shipped.residuals)


@pytest.mark.parametrize(("engine", "record"), [("vllm", "vllm"), ("trtllm", "trtllm"), ("sglang", ANY_CLASS)])
def test_a_scenarios_engine_is_the_one_of_today(engine: str, record: str) -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), engine, load_model("qwen3-30b-a3b").dtypes)
    shipped = class_costs(record)
    assert costs.host_per_round_s == shipped["host_per_round_s"]
    assert costs.overhead_log_covariance == shipped["overhead_log_covariance"]


def test_draws_of_the_overheads_follow_their_covariance() -> None:
    costs = kernel_costs(load_hardware("h200-sxm"), "vllm", load_model("qwen3-30b-a3b").dtypes)
    covariance = ((0.04, 0.0, 0.0), (0.0, 0.25, -0.2), (0.0, -0.2, 0.25))
    draws = bands.make_draws(dataclasses.replace(costs, overhead_log_covariance=covariance), n_draws=20000)
    logs = np.log([draws.factor[name] for name in ("launch", "draft_host", "round_host")])
    assert np.cov(logs) == pytest.approx(np.array(covariance), abs=0.01)


@pytest.mark.parametrize(
    ("cells", "engine", "expected"),
    [
        ({"date": "2025-07-17"}, "sglang", "sglang-synchronous"),
        ({"date": "2026-06"}, "sglang", "sglang"),
        ({"date": "2026", "draft_structure": "tree;verify=8"}, "sglang", "sglang-synchronous"),
        ({"date": "2025-04"}, "vllm", "vllm-synchronous"),
        ({"date": "2026-03-13"}, "vllm", "vllm"),
        ({"date": ""}, "vllm", "vllm"),
        ({"engine_version": "0.9.2", "date": "2026-06-01"}, "vllm", "vllm-synchronous"),
        ({"engine_version": "v0.14.0rc1", "date": "2025-12-30"}, "vllm", "vllm"),
        ({"engine_version": "nightly", "date": "2025-12-30"}, "vllm", "vllm-synchronous"),
        ({"engine_version": "0.5.12.post1"}, "sglang", "sglang-synchronous"),
        ({"engine_version": "0.5.13"}, "sglang", "sglang"),
        ({"date": "2025"}, "trtllm", "trtllm"),
        ({"date": "2025"}, "other", "other"),
    ],
)
def test_the_engine_class_follows_from_version_else_date_and_draft_structure(
    cells: dict[str, str], engine: str, expected: str
) -> None:
    assert engine_class(cells, engine) == expected


def test_only_fitted_sources_are_left_out() -> None:
    assert costs_left_out({"a publication nobody fitted on"}) == {}
