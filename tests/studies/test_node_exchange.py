"""The study behind docs/decisions/0016: its rows come back, and what they are said to show they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.studies.node_exchange import FORMS, form_rows, inside, priced, published, rows_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOUND = published()
BEYOND = [row for row in FOUND if row.ranks > row.ranks_per_node]
TODAY = [row for row in BEYOND if row.each_expert and "EFA" not in row.network and row.library != "pplx-kernels"]
"""Kernels in use that send a message for each expert, over InfiniBand or ConnectX-7."""


def test_the_pages_have_the_study_s_rows() -> None:
    page, decision = (
        (DOCS / name).read_text("utf-8") for name in ("expert-parallel.md", "decisions/0016-between-nodes.md")
    )
    lines = [f"| {' | '.join(row)} |" for row in rows_of(FOUND)]
    assert len(lines) == len(BEYOND) > 30
    assert [line for line in lines if line not in page] == [], "run: python -m advisor.studies.node_exchange"
    forms = [f"| {' | '.join(row)} |" for row in form_rows(FOUND)]
    assert [line for line in forms if line not in decision] == [], "run: python -m advisor.studies.node_exchange"


def test_the_law_is_the_first_form_and_what_is_charged() -> None:
    for row in BEYOND:
        now, without = priced(row)
        assert next(iter(FORMS.values())) == (pytest.approx(0.92), True)
        assert now - without == pytest.approx(row.wait_s(), rel=1e-9)


def test_over_connectx_7_what_is_charged_lies_within_30_percent_where_it_was_up_to_83_too_low() -> None:
    errors = [(now / row.time_s - 1.0, without / row.time_s - 1.0) for row in TODAY for now, without in (priced(row),)]
    assert len(errors) == 16
    assert all(abs(now) < 0.30 for now, _ in errors)
    assert all(-0.84 < without < -0.29 for _, without in errors)


def test_on_rows_that_took_no_part_the_law_errs_by_less_than_11_percent() -> None:
    judged = [row for row in TODAY if not row.before]
    assert {row.library for row in judged} == {"NCCL EP"}
    for row in judged:
        own = inside(row, FOUND)
        assert own is not None
        assert own + row.wait_s() == pytest.approx(row.time_s, rel=0.11)


def test_efa_takes_as_much_longer_as_the_warning_says() -> None:
    longer = [row.time_s / priced(row)[0] for row in BEYOND if "EFA" in row.network]
    assert (round(min(longer), 1), round(max(longer), 1)) == (1.3, 2.7)


def test_inside_one_node_the_study_adds_nothing() -> None:
    assert [row.wait_s() for row in FOUND if row not in BEYOND] == [0.0] * (len(FOUND) - len(BEYOND))
