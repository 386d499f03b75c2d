"""Every source belongs to one laboratory, by title or address; which are set apart follows from their names alone."""

from __future__ import annotations

import hashlib

import pandas as pd
import pytest

from advisor.measured.laboratories import _File, laboratory_of, laboratory_of_row, place_of, set_apart
from advisor.measured.measurements import dataset_folders, read_dataset
from advisor.measured.validation import validate
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS
from tests.measured.test_validation import ROW

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
    untold = {address for _, address in SOURCES if address and not laboratory_of_row({"source_url": address})}
    assert untold == set()


def test_one_wiki_and_one_company_are_one_laboratory() -> None:
    assert len({laboratory_of(title) for title in TITLES if title.startswith("rtx6kpro wiki")}) == 1
    assert len({laboratory_of(title) for title in TITLES if title.startswith("vLLM blog")}) == 1
    assert laboratory_of("ROCm/ATOM recipe for DeepSeek-R1") == laboratory_of(
        "ROCm blog: MTP for DeepSeek V3 with SGLang on MI300X, tables 1-2"
    )


def test_validate_leaves_a_known_laboratory_out_for_its_new_publication_and_for_no_look_alike() -> None:
    row = ROW | {"hardware_id": "gb200", "gpu_count": "1", "tensor_parallel": "1", "engine": "vLLM"}
    row |= {"model_id": "qwen3-30b-a3b", "drafter": "eagle3", "batch_size": "64", "source_title": "a new page"}
    known = row | {"source_title": next(title for title in TITLES if laboratory_of(title) == "seonjinn")}
    frame = pd.DataFrame([row | {"source_url": url} for url in (NEW_PAGE, "", *LOOK_ALIKES)] + [known])
    found = validate(frame)
    new, nobodys, *others, listed = found.rows["predicted_speedup"]
    assert new == listed
    assert abs(new / nobodys - 1.0) > 1e-3  # what the laboratory's own rows moved
    assert set(others) == {nobodys}
    assert found.by_laboratory["seonjinn"].n == 2


def test_an_unlisted_title_is_refused_with_what_to_do() -> None:
    with pytest.raises(AdvisorError, match=r"'A new blog'; add its title to profiles/validation/laboratories\.yaml"):
        laboratory_of("A new blog")


def test_a_laboratory_is_set_apart_by_the_hash_of_its_name() -> None:
    laboratories = {laboratory_of(title) for title in TITLES}
    for name in laboratories:
        assert set_apart(name) == (int(hashlib.sha256(name.encode("utf-8")).hexdigest(), 16) % 5 == 0)
    assert 0.1 < sum(map(set_apart, laboratories)) / len(laboratories) < 0.3


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"titles": ("b", "a")}, "these do not: a"),
        ({"titles": ("b",), "addresses": ("x.org/y",)}, r"these do not: x\.org/y"),
        ({"titles": ("b",), "addresses": ("https://X.org",)}, r"these are not: https://X\.org"),
    ],
)
def test_what_names_two_laboratories_or_no_address_is_refused(second: dict[str, object], says: str) -> None:
    first = {"name": "one", "titles": ("a",), "addresses": ("x.org/y",)}
    with pytest.raises(ValueError, match=says):
        _File.model_validate({"laboratories": (first, {"name": "two", **second})})


def test_a_place_is_host_and_path_in_lower_case() -> None:
    assert place_of(" HTTPS://www.GitHub.com//A/b/?q=1 ") == "github.com/a/b"
