"""The study behind docs/decisions/0016: its rows and its fit come back, and what they are said to
show they show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.catalog.kernel_costs import NETWORK_FRACTION, NETWORK_T0_S
from studies.evidence import FILE as EVIDENCE
from studies.node_exchange import (
    Published,
    beyond,
    charged_s,
    fitted,
    form_rows,
    forms_s,
    judged_rows,
    left_out_rows,
    prompt_form_rows,
    prompt_forms_s,
    published,
)

FOUND = published()
TABLE = [row for row in FOUND if row.fitted_on]
TODAY = [row for row in beyond(FOUND) if row.group.startswith("today's")]


def error(row: Published, network: bool = True) -> float:
    return charged_s(row, network=network) / row.time_s - 1.0


def test_the_page_has_the_study_s_rows() -> None:
    text = EVIDENCE.read_text("utf-8")
    for rows in (
        judged_rows(FOUND),
        form_rows(FOUND),
        left_out_rows(TABLE),
        prompt_form_rows(FOUND),
    ):
        lines = [f"| {' | '.join(row)} |" for row in rows]
        assert len(lines) >= 3
        assert [line for line in lines if line not in text] == [], "run: python -m studies.evidence"


def test_the_shipped_constants_are_the_fit_s() -> None:
    fit = fitted(TABLE)
    assert fit.t0_s == pytest.approx(NETWORK_T0_S, abs=0.5e-6)
    assert fit.share_of_card == pytest.approx(NETWORK_FRACTION, abs=0.005)
    errors = [charged_s(row, fit) / row.time_s - 1.0 for row in beyond(TABLE)]
    assert len(errors) == 78
    assert max(map(abs, errors)) < 0.07


def test_planted_constants_come_back() -> None:
    known = fitted(TABLE)
    planted = replace(known, t0_s=30e-6, share_of_card=0.5, node=replace(known.node, t0_s=20e-6))
    made = [replace(row, time_s=charged_s(row, planted)) for row in TABLE]
    again = fitted(made)
    assert (again.t0_s, again.share_of_card) == pytest.approx((30e-6, 0.5), rel=1e-6)
    assert (again.node.t0_s, again.node.bandwidth_bytes_per_s) == pytest.approx(
        (20e-6, known.node.bandwidth_bytes_per_s), rel=1e-6
    )


def test_what_other_publishers_measured_over_connectx_7_is_met_as_the_pages_say() -> None:
    assert {row.library for row in TODAY} == {"DeepEP", "pplx-garden", "UCCL-EP", "NCCL EP"}
    now = np.array([error(row) for row in TODAY])
    assert len(now) == 16
    assert (now.min(), now.max()) == pytest.approx((-0.16, 0.12), abs=0.005)
    before = np.array([error(row, network=False) for row in TODAY])
    assert (before.min(), before.max(), before.mean()) == pytest.approx(
        (-0.83, -0.30, -0.65), abs=0.006
    )


def test_efa_takes_as_much_longer_as_the_warning_says() -> None:
    longer = [row.time_s / charged_s(row) for row in beyond(FOUND) if row.group == "AWS EFA"]
    assert (round(min(longer), 1), round(max(longer), 1)) == (1.4, 2.9)


def test_the_first_form_is_the_law_and_inside_one_node_none_adds_anything() -> None:
    row = TODAY[0]
    assert forms_s(row)["side by side"] == charged_s(row)
    inside = [each for each in FOUND if each.ranks == each.ranks_per_node]
    assert len(inside) > 10
    assert all(charged_s(each) == charged_s(each, network=False) for each in inside)


CHUNKS = [
    row
    for row in beyond(FOUND)
    if row.is_normal and row.accelerator == "h200-sxm" and 1024 <= row.tokens <= 8192
]


@pytest.mark.parametrize(
    ("ranks", "once", "each"), [(16, -0.10, 1.50), (32, -0.05, 1.09), (64, -0.14, 0.30)]
)
def test_chunks_of_prompts_on_h200_are_met_as_the_pages_say(
    ranks: int, once: float, each: float
) -> None:
    found = [(prompt_forms_s(row), row.time_s) for row in CHUNKS if row.ranks == ranks]
    assert len(found) == 4
    for form, error_of_all in (("once to each node", once), ("a message for each expert", each)):
        assert np.mean([times[form] / time_s - 1.0 for times, time_s in found]) == pytest.approx(
            error_of_all, abs=0.005
        )


def test_a_prompt_on_one_node_is_priced_alike_by_every_form() -> None:
    inside = [row for row in FOUND if row.is_normal and row.ranks == row.ranks_per_node]
    assert len(inside) == 11
    assert all(len(set(prompt_forms_s(row).values())) == 1 for row in inside)
