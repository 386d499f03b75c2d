"""The claims of the sources: what holds, the state of each, and that none leaves it without a note
that says why."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from advisor.measured.seeds import (
    COLUMNS,
    Claim,
    Figure,
    JudgedClaim,
    Ours,
    read_claims,
    read_findings,
    seeds_table,
)
from advisor.prediction import AdvisorError
from advisor.show.explain.round import citations
from studies import seeds
from studies.seeds import (
    DOCUMENT,
    decision_notes,
    described,
    found_now,
    judge,
    lost,
    page,
    quantities,
    unexplained,
    write_findings,
)


@pytest.fixture(scope="module")
def now() -> dict[str, JudgedClaim]:
    return found_now()


def test_no_claim_left_its_state_without_a_decision_note_that_says_why(
    now: dict[str, JudgedClaim],
) -> None:
    stored = read_findings()
    assert list(stored) == [claim.id for claim in read_claims()], "run `make seeds WRITE=1`"
    assert unexplained(read_claims(), stored, now, decision_notes()) == []


def test_a_claim_that_leaves_its_state_is_named_until_a_note_says_so() -> None:
    stored = read_findings()
    moved = stored["cohere-dense"].model_copy(
        update={
            "state": "disagrees",
            "figures": {"largest ratio of neighbouring batches": Ours(value=1.2)},
        }
    )
    left = unexplained(read_claims(), stored, {**stored, "cohere-dense": moved}, "")
    assert left == [
        "`cohere-dense`: reproduced -> disagrees",
        "`cohere-dense`: largest ratio of neighbouring batches: no longer at most 1",
    ]
    note = "Because of the new form:\n`cohere-dense`: reproduced -> disagrees,\n" + left[1]
    assert unexplained(read_claims(), stored, {**stored, "cohere-dense": moved}, note) == []


def test_every_quantity_answers_a_claim_and_the_sources_own_settings_are_asked(
    now: dict[str, JudgedClaim],
) -> None:
    asked = {figure.ours for claim in read_claims() for figure in claim.all_figures()}
    unused = {name for name in quantities() if name not in asked}
    assert not {name for name in unused if not name.endswith(" eagle")}, (
        "compute nothing that no claim asks for"
    )
    assert now["cohere-four-tokens"].figures[
        "distinct experts of four tokens"
    ].value == pytest.approx(20.11, abs=0.01)


def test_the_page_is_the_one_of_what_was_found() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == page(read_claims(), read_findings()), (
        "run `make documents`"
    )


def test_an_unexplained_change_is_printed_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], now: dict[str, JudgedClaim]
) -> None:
    changed = {**now, "cohere-dense": now["cohere-dense"].model_copy(update={"state": "disagrees"})}
    monkeypatch.setattr(seeds, "found_now", lambda: changed)
    monkeypatch.setattr(seeds, "write_findings", lambda _: pytest.fail("kept"))
    monkeypatch.setattr("sys.argv", ["seeds", "--write"])
    assert seeds.main() == 1
    assert "`cohere-dense`: reproduced -> disagrees" in capsys.readouterr().out


VALUE = Figure(what="speedup", ours="a", value=2.0)
FALLS = Figure(what="rise", ours="b", at_most=1.0)
CLAIM = Claim(id="one", source="moesd2025", claim="It falls", where="Serve", figures=(VALUE, FALLS))


def of(a: float, b: float) -> JudgedClaim:
    return judge(CLAIM, {"a": Ours(value=a), "b": Ours(value=b)})


def test_a_value_holds_within_a_tenth_and_a_direction_has_no_tolerance() -> None:
    assert VALUE.holds(2.2)
    assert VALUE.holds(2.0 / 1.1)
    assert not VALUE.holds(2.21)
    assert not VALUE.holds(1.8)
    assert FALLS.accepted == (-math.inf, 1.0)
    assert not FALLS.holds(1.0001)
    assert Figure(what="x", ours="a", between=(2, 3)).accepted == pytest.approx((2 / 1.1, 3.3))


def test_a_claim_is_reproduced_in_part_or_disagrees_by_how_many_figures_hold() -> None:
    assert [of(*pair).state for pair in ((2.0, 0.9), (2.0, 1.1), (1.0, 0.9), (1.0, 1.1))] == [
        "reproduced",
        "in part",
        "in part",
        "disagrees",
    ]
    untested = Claim(
        id="two", source="moesd2025", claim="x", where="Serve", not_testable="no figure"
    )
    assert judge(untested, {}).state == "not testable"


def test_a_figure_that_nobody_computes_is_named() -> None:
    with pytest.raises(AdvisorError, match=r"one: nothing computes b; add it to studies/seeds\.py"):
        judge(CLAIM, {"a": Ours(value=2.0)})


def test_a_claim_leaves_its_state_also_where_another_figure_takes_the_place_of_one() -> None:
    assert lost(CLAIM, of(2.0, 0.9), of(2.1, 0.8)) == []
    assert lost(CLAIM, of(2.0, 1.1), of(1.0, 0.9)) == ["speedup: no longer 2"]
    assert lost(CLAIM, of(1.0, 1.1), of(2.0, 1.1)) == ["disagrees -> in part"]


def test_a_figure_says_one_thing_and_a_claim_has_figures_or_a_reason() -> None:
    with pytest.raises(ValidationError, match="give one of value, between, at_least, at_most"):
        Figure(what="speedup", ours="a", value=2.0, at_least=1.0)
    with pytest.raises(ValidationError, match="give figures, cells, or the reason"):
        Claim(id="three", source="moesd2025", claim="x", where="Serve")


def test_every_claim_cites_a_listed_work_and_all_sixty_cells_of_the_tables_stand_once() -> None:
    claims = read_claims()
    assert {claim.source for claim in claims} == {"cohere-2026", "moesd2025", "cascade2025"}
    assert {claim.source for claim in claims} <= {citation.id for citation in citations()}
    cells = [figure.ours for claim in claims if claim.cells for figure in claim.all_figures()]
    assert len(cells) == len(set(cells)) == 60


def test_what_was_found_is_read_as_it_was_written_and_a_damaged_file_names_the_remedy(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seeds.json"
    found = {"one": of(2.0, 1.1)}
    write_findings(found, path)
    assert read_findings(path) == found
    path.write_text('{"one": 3}', encoding="utf-8")
    with pytest.raises(AdvisorError, match=r"cannot be read .* run `make seeds WRITE=1`"):
        read_findings(path)


def test_the_table_has_a_row_a_claim_and_marks_what_does_not_hold() -> None:
    table = seeds_table(
        [CLAIM],
        {"one": judge(CLAIM, {"a": Ours(value=2.1, low=1.5, high=3.0), "b": Ours(value=1.1)})},
    )
    assert list(table.columns) == list(COLUMNS)
    row = table.iloc[0]
    assert row["published"] == "speedup: 2; rise: at most 1"
    assert (row["ours"], row["band"], row["state"]) == (
        "2.1; 1.1 (differs)",
        "1.5 to 3; -",
        "in part",
    )
    assert (
        described(CLAIM, of(2.0, 1.1))
        .splitlines()[2]
        .endswith("published at most 1, ours 1.1  <- does not hold")
    )
    with pytest.raises(
        AdvisorError, match=r"seeds\.json lacks one as it is now; run `make seeds WRITE=1`"
    ):
        seeds_table([CLAIM], {})
    stored = seeds_table(read_claims(), read_findings())
    assert len(stored) == len(read_claims())
    assert (stored["where"] != "").all()
