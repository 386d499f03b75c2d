"""The readings that compete with what a file says: which one is named, and that a right file hears
none."""

from __future__ import annotations

import re

import numpy as np
import pytest

from advisor.measured.multipliers import multiplier_prior
from advisor.measured.observations import joined
from advisor.measured.points import Reread, as_read, refit_points
from advisor.measured.readings import LEAST_GAIN, MAX_LEFT_OUT, _readings, rivals
from tests.golden.sentences import lines_with
from tests.measured.refit_synthetic import synthetic_points

BATCHES = (1, 4, 16, 64, 128)
TRUTH = {"round_host": 2.0, "host": 1.5, "routed": 1.1}


def frame(batches=BATCHES, **changes):
    return synthetic_points(
        batches, (0, 1, 3), truth=TRUTH, noise=0.02, quantity="tpot_s", **changes
    )


def heard(rows):
    points, _ = refit_points(rows)
    return rivals(points, multiplier_prior(points))


def test_a_right_file_has_no_rival():
    assert heard(frame()) == ()


@pytest.mark.parametrize(
    ("column", "change", "question"),
    [
        ("batch_size", lambda f: 4.0 * f["batch_size"], "copies|decode together"),
        ("batch_size", lambda f: f["batch_size"] / 4.0, "Did 4 times as many decode together"),
        ("accepted_length", lambda f: f["accepted_length"] - 0.99, "leave out the token"),
        (
            "tpot_s",
            lambda f: f["tpot_s"].where(
                f["draft_tokens_k"] == 0, f["tpot_s"] * f["accepted_length"]
            ),
            "round",
        ),
        (
            "tpot_s",
            lambda f: f["tpot_s"].where(f["draft_tokens_k"] > 0, f["tpot_s"] * 1.5),
            "1.5 times slower",
        ),
        ("tpot_s", lambda f: f["tpot_s"] + 0.004, "of something else"),
    ],
)
def test_a_misread_file_is_asked_about_its_own_misreading(column, change, question):
    rows = frame()
    (found,) = heard(rows.assign(**{column: change(rows)}))
    assert re.search(question, found.text)
    assert found.gain >= LEAST_GAIN
    assert found.error <= MAX_LEFT_OUT * found.given_error


def test_rows_read_as_they_are_give_the_points_themselves():
    points, _ = refit_points(frame())
    (same,) = as_read(points, [Reread(batches=np.array([point.batch_size for point in points]))])
    for name, column in vars(joined(point.observations for point in points)).items():
        if column.dtype.kind == "f":
            assert getattr(same, name) == pytest.approx(column, rel=1e-12), name
    (longer,) = as_read(
        points, [Reread(drafts=np.array([p.n_draft + 1 if p.n_draft else 0 for p in points]))]
    )
    stated = frame()
    stated["draft_tokens_k"] = stated["draft_tokens_k"].where(
        stated["draft_tokens_k"] == 0, stated["draft_tokens_k"] + 1
    )
    expected = joined(point.observations for point in refit_points(stated)[0])
    assert longer.upper == pytest.approx(expected.upper, rel=1e-9)
    assert longer.shift == pytest.approx(expected.shift, rel=1e-9)


def asked(batches, shape):
    rows = synthetic_points(batches, (0, 1, 3), truth=TRUTH, quantity="tpot_s")
    rows["output_tok_per_s"] = [shape(batch) for batch in rows["batch_size"]]
    return {one.question for one in _readings(refit_points(rows)[0])}


def test_a_batch_is_asked_about_only_where_the_rows_leave_it_possible_and_the_reason_is_said(
    golden,
):
    assert not [
        text
        for text in asked((1, 8, 64), lambda batch: 92 * batch**0.7)
        if re.search("copies|no more", text)
    ]
    capped = asked((4, 16, 64), lambda batch: 92 * min(batch, 16))
    assert [
        n for n in (2, 4, 8) if f"Is batch_size the sum over {n} copies of the server?" in capped
    ] == [2, 4]
    assert [
        n for n in (4, 16) if f"Did the server run no more than {n} sequences at once?" in capped
    ] == [16]
    (found,) = heard(frame().assign(batch_size=frame()["batch_size"] / 4.0))
    golden(asked_because=lines_with(found.text, "Asked because"))


def test_a_batch_that_copies_share_leaves_each_its_part():
    """64 sequences over 4 copies are 16 in each, whose rounds are the shorter ones."""
    batches = np.repeat((4.0, 16.0, 64.0), 3)
    shared = {
        int(copies[1]): reading.reread.batches
        for reading in _readings(refit_points(frame(batches=(4, 16, 64)))[0])
        if (copies := re.search(r"(\d) copies", reading.question))
    }
    assert shared.keys() == {2, 4}
    for copies, each in shared.items():
        assert sorted(each) == sorted(batches / copies)


def test_an_engine_that_stops_drafting_at_a_large_batch_is_asked_about(golden):
    rows = synthetic_points(
        (1, 2, 4, 8, 16, 32, 64, 128), (0, 2, 5), truth=TRUTH, noise=0.02, quantity="tpot_s"
    )
    plain = rows["tpot_s"].where(rows["draft_tokens_k"] == 0).ffill()
    off = rows["batch_size"] >= 16
    (found,) = heard(rows.assign(tpot_s=rows["tpot_s"].mask(off, plain)))
    golden(did_engine=found.question)
