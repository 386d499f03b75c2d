"""Observations that a refit works on, the one way from a row to them, and the laboratory that
measured a row.

Every source belongs to one laboratory, by title or address; what those first collected from now on
may inform follows from their names alone.
"""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.measurements import dataset_folders, read_dataset
from advisor.measured.observations import (
    NAMES,
    PARTED_FROM,
    Laboratory,
    _LaboratoryFile,
    joined,
    laboratory_of_row,
    log_predicted,
    log_slopes,
    part_of,
    place_of,
)
from advisor.measured.points import refit_points
from advisor.measured.validation import validate
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from studies.fits.overheads import Prior, solve
from studies.published import laboratory_of, point_of, seen_by
from tests.measured.refit_synthetic import ROW, synthetic_points
from tests.measured.test_validation import ROW as PUBLISHED_ROW

X = np.linspace(0.0, 1.0, 11)
WEAK = Prior(np.zeros(2), 1e-3 * np.eye(2))


def line_errors(y):
    return lambda unknown: (unknown[0] + unknown[1] * X - y) / 0.1


def test_a_straight_line_and_its_covariance_come_back():
    found = solve(line_errors(1.0 + 2.0 * X), [np.zeros(2)], robust=False)
    assert found.success
    assert found.x == pytest.approx([1.0, 2.0])
    design = np.stack([np.ones(11), X], axis=1) / 0.1
    assert found.covariance == pytest.approx(np.linalg.inv(design.T @ design), rel=1e-5)


def test_one_wild_value_moves_the_robust_answer_less():
    y = 1.0 + 2.0 * X
    y[5] += 5.0
    plain = solve(line_errors(y), [np.zeros(2)], prior=WEAK, robust=False).x
    robust = solve(line_errors(y), [np.zeros(2)], prior=WEAK, robust=True).x
    assert abs(robust[0] - 1.0) < 0.1 * abs(plain[0] - 1.0)


def test_without_data_the_prior_is_the_answer():
    prior = Prior(np.array([0.3, -0.2]), np.diag([1 / 0.5, 1 / 0.1]))
    found = solve(lambda x: x[:0], [np.zeros(2)], prior=prior)
    assert found.x == pytest.approx(prior.centre)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx([0.5, 0.1])


def test_exact_slopes_lead_where_finite_differences_do():
    y = 1.0 + 2.0 * X + 0.1 * np.sin(9 * X)
    slopes = np.stack([np.ones(11), X], axis=1) / 0.1
    ends = [
        solve(line_errors(y), [np.zeros(2)], prior=WEAK, slopes=s) for s in (None, lambda _: slopes)
    ]
    assert ends[0].x == pytest.approx(ends[1].x, rel=1e-6)
    assert ends[0].covariance == pytest.approx(ends[1].covariance, rel=1e-5)


def test_the_best_of_several_starts_within_bounds_is_taken():
    def wavy(x):
        return np.array([np.cos(3 * x[0]), 0.3 * (x[0] - 3.0)])

    starts = [np.array([0.2]), np.array([2.5])]
    found = solve(wavy, starts, bounds=(0.0, 4.0), robust=False)
    assert found.x[0] == pytest.approx(5 * np.pi / 6, abs=0.1)
    assert found.cost < solve(wavy, starts[:1], bounds=(0.0, 4.0), robust=False).cost
    assert solve(
        lambda x: x - 3.0, [np.zeros(1)], bounds=(-1.0, 1.0), robust=False
    ).x == pytest.approx([1.0])


def test_slopes_of_every_quantity_are_its_derivatives():
    frame = synthetic_points((1, 32), (3,), accepted_length_same_run=0)
    frame["metric"] = "output_tok_per_s"
    frame["tpot_s"] = 5e-3
    frame["verify_time_s"] = 4e-3
    frame["draft_time_s"] = 1e-3
    observed = joined(point.observations for point in refit_points(frame)[0])
    assert set(observed.quantity) == {"speedup", "tpot_s", "verify_time_s", "draft_time_s"}
    theta = 0.2 * np.cos(np.arange(len(NAMES)))
    step = 1e-6 * np.eye(len(NAMES))
    differences = [
        (log_predicted(observed, theta + d) - log_predicted(observed, theta - d)) / 2e-6
        for d in step
    ]
    assert log_slopes(observed, theta) == pytest.approx(np.transpose(differences), abs=1e-8)
    each = np.tile(theta, (len(observed.line), 1))
    assert log_predicted(observed, each) == pytest.approx(log_predicted(observed, theta), rel=1e-12)


def test_a_published_row_and_the_same_row_of_a_user_are_the_same_observation():
    row = {
        **ROW,
        "batch_size": 8,
        "draft_tokens_k": 3,
        "accepted_length": 2.4,
        "speedup": 1.5,
        "date": "2026-06",
    }
    row |= {"metric": "output_tok_per_s"}
    published = point_of({name: str(value) for name, value in row.items()})
    frame = pd.DataFrame([row], index=pd.Index([7], name="line")).reindex(
        columns=list(COLUMNS["points"])
    )
    (own,), _ = refit_points(frame)
    assert (own.line, own.engine_class, own.tier) == (7, published.engine_class, published.tier)
    for name in ("quantity", "measured"):
        assert (
            getattr(own.observations, name).tolist()
            == getattr(published.observations, name).tolist()
        )
    for name in ("upper", "lower", "shift", "length_share"):
        ours = getattr(own.observations, name)
        theirs = getattr(published.observations, name)
        assert ours == pytest.approx(theirs, rel=1e-12)


def test_the_same_row_seen_by_another_setup_keeps_its_place_and_what_it_measured():
    (point,), _ = refit_points(synthetic_points((4,), (3,)))
    other = next(p for p in refit_points(synthetic_points((4,), (3,), hardware_id="b200-sxm"))[0])
    seen = seen_by(point, other.setup)
    assert seen.observations.upper == pytest.approx(other.observations.upper)
    assert (seen.line, seen.measured, seen.tier) == (point.line, point.measured, point.tier)


SOURCES = sorted(
    {
        (row.get("source_title", row.get("source", "")), row.get("source_url", ""))
        for folder in dataset_folders(MEASUREMENTS)
        for row in read_dataset(folder)[1].to_dict("records")
        if "source_title" in row or "source" in row
    }
)
TITLES = sorted({title for title, _ in SOURCES})
NEW_PAGE = "https://github.com/seonjinn/another-repository/blob/main/results.md"
LOOK_ALIKES = (
    "https://evil-github.com/seonjinn/RL",
    "https://githubb.com/seonjinn/RL",
    "https://github.com.evil.com/seonjinn/RL",
    "https://github.com@evil.com/seonjinn/RL",
    "https://github.com/seonjinn2/RL",
    "https://github.com/other/seonjinn",
    "https://example.com/?u=github.com/seonjinn",
)


def test_every_source_of_every_dataset_has_a_laboratory_and_its_address_names_no_other() -> None:
    assert len(TITLES) > 80
    for title, address in SOURCES:
        assert laboratory_of(title)
        assert laboratory_of_row({"source_url": address}) in ("", laboratory_of(title)), address


def test_every_address_that_is_known_is_told_by_it_alone() -> None:
    untold = {
        address
        for _, address in SOURCES
        if address and not laboratory_of_row({"source_url": address})
    }
    assert untold == set()


def test_one_wiki_and_one_company_are_one_laboratory() -> None:
    assert len({laboratory_of(title) for title in TITLES if title.startswith("rtx6kpro wiki")}) == 1
    assert len({laboratory_of(title) for title in TITLES if title.startswith("vLLM blog")}) == 1
    assert laboratory_of("ROCm/ATOM recipe for DeepSeek-R1") == laboratory_of(
        "ROCm blog: MTP for DeepSeek V3 with SGLang on MI300X, tables 1-2"
    )


def test_validate_leaves_a_known_laboratory_out_for_its_new_publication_and_for_no_look_alike() -> (
    None
):
    row = PUBLISHED_ROW | {
        "hardware_id": "gb200",
        "gpu_count": "1",
        "tensor_parallel": "1",
        "engine": "vLLM",
    }
    row |= {
        "model_id": "qwen3-30b-a3b",
        "drafter": "eagle3",
        "batch_size": "64",
        "source_title": "a new page",
    }
    known = row | {
        "source_title": next(title for title in TITLES if laboratory_of(title) == "seonjinn")
    }
    frame = pd.DataFrame(
        [row | {"source_url": url} for url in (NEW_PAGE, "", *LOOK_ALIKES)] + [known]
    )
    found = validate(frame)
    new, nobodys, *others, listed = found.rows["predicted_speedup"]
    assert new == listed
    assert abs(new / nobodys - 1.0) > 1e-3  # what the laboratory's own rows moved
    assert set(others) == {nobodys}
    assert found.by_laboratory["seonjinn"].n == 2


def test_an_unlisted_title_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        AdvisorError, match=r"'A new blog'; add its title to profiles/validation/laboratories\.yaml"
    ):
        laboratory_of("A new blog")


@pytest.mark.parametrize(
    ("name", "part"),
    # sha256sum of the name, divided by three with bc: remainders 0, 1, 2.
    [("laboratory a", "judge"), ("laboratory c", "choose"), ("laboratory b", "fit")],
)
def test_what_a_new_laboratory_may_inform_follows_from_its_name(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert part_of(name) == part
    for day, expected in ((PARTED_FROM, part), (PARTED_FROM - datetime.timedelta(1), "seen")):
        listed = Laboratory(name=name, titles=("a title",), first_collected=day)
        monkeypatch.setattr(
            "advisor.measured.observations.laboratories", lambda listed=listed: {name: listed}
        )
        assert part_of(name) == expected


def test_every_laboratory_collected_so_far_is_seen() -> None:
    assert {part_of(laboratory_of(title)) for title in TITLES} == {"seen"}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"titles": ("b", "a")}, "but not these: a"),
        ({"titles": ("b",), "addresses": ("x.org/y",)}, r"but not these: x\.org/y"),
        ({"titles": ("b",), "addresses": ("https://X.org",)}, r"but not these: https://X\.org"),
    ],
)
def test_what_names_two_laboratories_or_no_address_is_refused(
    second: dict[str, object], says: str
) -> None:
    first = {"name": "one", "titles": ("a",), "addresses": ("x.org/y",)}
    with pytest.raises(ValueError, match=says):
        _LaboratoryFile.model_validate({"laboratories": (first, {"name": "two", **second})})


def test_a_place_is_host_and_path_in_lower_case() -> None:
    assert place_of(" HTTPS://www.GitHub.com//A/b/?q=1 ") == "github.com/a/b"
