"""Choices by the names that people know them by."""

from __future__ import annotations

import pytest

from advisor.catalog.hardware import hardware_named
from advisor.physics.hardware import load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError


@pytest.mark.parametrize(
    ("field", "spelled", "priced"),
    [
        ("engine", "llama.cpp", "other"),
        ("weight_dtype", "Q4_K_M", "int4"),
        ("draft_dtype", "q8_0", "int8"),
    ],
)
def test_engines_and_formats_of_gguf_files_are_priced_as_their_like(
    field: str, spelled: str, priced: str
) -> None:
    values = {"acceptance": "2.4@3"}
    assert Scenario(**values, **{field: spelled}) == Scenario(**values, **{field: priced})


def test_a_format_that_is_priced_as_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(AdvisorError, match=r"weight_dtype='q2_k': expected .*'int4'"):
        Scenario(acceptance="2.4@3", weight_dtype="q2_k")


def test_an_unknown_accelerator_leads_to_the_form_for_a_data_sheet() -> None:
    with pytest.raises(AdvisorError, match=r"--hardware FILE, or Your own accelerator under More"):
        load_hardware("rx9070")


@pytest.mark.parametrize("name", ["Intel Arc Pro B70", "Ryzen AI Max+ 395", "Strix Halo"])
def test_a_part_whose_engines_are_immature_is_marked(name: str) -> None:
    scenario = Scenario(
        acceptance="2.4@3", hardware_id=hardware_named(name), weight_dtype="int4", batch_size=1
    )
    setup = load_setup(scenario)
    assert [note.kind for note in setup.notes].count("engines_immature") == 1
    assert any("immature" in note for note in setup.hardware.notes)
