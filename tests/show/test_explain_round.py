"""Citations: the list is complete and well-formed, and a scenario cites what it used and nothing
else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.show.explain.round import FORMULAS, citations, cited

ROOT = Path(__file__).resolve().parents[2]


def used(scenario: Scenario, **more: bool) -> dict[str, tuple[str, ...]]:
    return {item.citation.id: item.used_for for item in cited(load_setup(scenario), **more)}


def test_ids_are_unique_and_formulas_are_known() -> None:
    ids = [work.id for work in citations()]
    assert len(ids) == len(set(ids))
    assert all(set(work.formulas) <= set(FORMULAS) for work in citations())
    assert all(work.match or work.formulas for work in citations()), "a work that nothing can cite"


def test_every_paper_that_a_profile_or_module_names_is_listed() -> None:
    files = [
        *(ROOT / "profiles").rglob("*.yaml"),
        *(ROOT / "profiles").rglob("*.json"),
        *(ROOT / "advisor").rglob("*.py"),
    ]
    named = {
        number
        for file in files
        if file.name != "citations.yaml"
        for number in re.findall(r"arXiv:(\d{4}\.\d{5})", file.read_text(encoding="utf-8"))
    }
    listed = {mark for work in citations() for mark in work.match}
    assert named
    assert named <= listed, f"add to profiles/citations.yaml: {sorted(named - listed)}"


def test_an_arxiv_link_carries_the_number_it_is_matched_by() -> None:
    for work in citations():
        numbers = [mark for mark in work.match if re.fullmatch(r"\d{4}\.\d{5}", mark)]
        assert all(number in work.url for number in numbers), work.id


def test_a_scenario_cites_its_formulas_drafter_routing_and_kernels() -> None:
    found = used(Scenario(acceptance="2.4@3"))
    assert "speedup" in found["leviathan2023"][0]
    assert "drafter" in found["eagle3-2025"]
    assert "routing" in found["liang2026"]
    assert "kernel times" in found["aiconfigurator"]
    assert "tian2025" not in found
    assert (
        "designs of equal quality" in used(Scenario(acceptance="2.4@3"), designs=True)["tian2025"]
    )


def test_a_measured_acceptance_curve_is_cited() -> None:
    found = used(Scenario(acceptance="gpt-oss-20b-eagle3-mt-bench", model_id="gpt-oss-20b"))
    assert "accepted length" in found["p-eagle-blog"]


@pytest.mark.parametrize(
    ("scenario", "absent"),
    [
        (
            Scenario(acceptance="2.4@3", model_id="command-a", n_gpus=4, tensor_parallel=4),
            "moesd2025",
        ),
        (Scenario(acceptance="2.4@3", routing="uniform"), "liang2026"),
        (Scenario(acceptance="2.4@3", drafter_id="ngram"), "eagle3-2025"),
        (Scenario(acceptance="0", drafter_id="none"), "leviathan2023"),
    ],
)
def test_what_is_not_used_is_not_cited(scenario: Scenario, absent: str) -> None:
    assert absent not in used(scenario)
