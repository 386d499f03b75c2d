"""The claims of the sources, answered now: each stays in its state unless a decision note says why."""

from __future__ import annotations

import pytest

from advisor.measured.seeds import JudgedClaim, Ours, read_claims, read_findings
from studies import seeds
from studies.seeds import DOCUMENT, decision_notes, found_now, page, quantities, unexplained


@pytest.fixture(scope="module")
def now() -> dict[str, JudgedClaim]:
    return found_now()


def test_no_claim_left_its_state_without_a_decision_note_that_says_why(now: dict[str, JudgedClaim]) -> None:
    stored = read_findings()
    assert list(stored) == [claim.id for claim in read_claims()], "run `make seeds WRITE=1`"
    assert unexplained(read_claims(), stored, now, decision_notes()) == []


def test_a_claim_that_leaves_its_state_is_named_until_a_note_says_so() -> None:
    stored = read_findings()
    moved = stored["cohere-dense"].model_copy(
        update={"state": "disagrees", "figures": {"largest ratio of neighbouring batches": Ours(value=1.2)}}
    )
    left = unexplained(read_claims(), stored, {**stored, "cohere-dense": moved}, "")
    assert left == [
        "`cohere-dense`: reproduced -> disagrees",
        "`cohere-dense`: largest ratio of neighbouring batches: no longer at most 1",
    ]
    note = "Because of the new form:\n`cohere-dense`: reproduced -> disagrees,\n" + left[1]
    assert unexplained(read_claims(), stored, {**stored, "cohere-dense": moved}, note) == []


def test_every_quantity_answers_a_claim_and_the_sources_own_settings_are_asked(now: dict[str, JudgedClaim]) -> None:
    asked = {figure.ours for claim in read_claims() for figure in claim.all_figures()}
    unused = {name for name in quantities() if name not in asked}
    assert not {name for name in unused if not name.endswith(" eagle")}, "compute nothing that no claim asks for"
    assert now["cohere-four-tokens"].figures["distinct experts of four tokens"].value == pytest.approx(20.11, abs=0.01)


def test_the_page_is_the_one_of_what_was_found() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == page(read_claims(), read_findings()), "run `make documents`"


def test_an_unexplained_change_is_printed_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], now: dict[str, JudgedClaim]
) -> None:
    changed = {**now, "cohere-dense": now["cohere-dense"].model_copy(update={"state": "disagrees"})}
    monkeypatch.setattr(seeds, "found_now", lambda: changed)
    monkeypatch.setattr(seeds, "write_findings", lambda _: pytest.fail("kept"))
    monkeypatch.setattr("sys.argv", ["seeds", "--write"])
    assert seeds.main() == 1
    assert "`cohere-dense`: reproduced -> disagrees" in capsys.readouterr().out
