"""Every source belongs to one laboratory, and which laboratories are set apart follows from their names alone."""

from __future__ import annotations

import hashlib

import pytest

from advisor.measured.measurements import dataset_folders, read_dataset
from advisor.measured.observations import _File, laboratory_of, set_apart
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS

TITLES = sorted(
    {
        title
        for folder in dataset_folders(MEASUREMENTS)
        for frame in [read_dataset(folder)[1]]
        for title in frame.get("source_title", frame.get("source", []))
    }
)


def test_there_are_sources_to_place() -> None:
    assert len(TITLES) > 80


@pytest.mark.parametrize("title", TITLES)
def test_every_source_of_every_dataset_has_a_laboratory(title: str) -> None:
    assert laboratory_of(title)


def test_one_wiki_and_one_company_are_one_laboratory() -> None:
    assert len({laboratory_of(title) for title in TITLES if title.startswith("rtx6kpro wiki")}) == 1
    assert len({laboratory_of(title) for title in TITLES if title.startswith("vLLM blog")}) == 1
    assert laboratory_of("ROCm/ATOM recipe for DeepSeek-R1") == laboratory_of(
        "ROCm blog: MTP for DeepSeek V3 with SGLang on MI300X, tables 1-2"
    )


def test_an_unlisted_title_is_refused_with_what_to_do() -> None:
    with pytest.raises(AdvisorError, match=r"'A new blog'; add its title to profiles/validation/laboratories\.yaml"):
        laboratory_of("A new blog")


def test_a_laboratory_is_set_apart_by_the_hash_of_its_name() -> None:
    for title in TITLES:
        name = laboratory_of(title)
        assert set_apart(name) == (int(hashlib.sha256(name.encode("utf-8")).hexdigest(), 16) % 5 == 0)
    laboratories = {laboratory_of(title) for title in TITLES}
    assert 0.1 < sum(map(set_apart, laboratories)) / len(laboratories) < 0.3


def test_a_title_of_two_laboratories_is_refused() -> None:
    twice = {"laboratories": ({"name": "one", "titles": ("a",)}, {"name": "two", "titles": ("b", "a")})}
    with pytest.raises(ValueError, match="these do not: a"):
        _File.model_validate(twice)
