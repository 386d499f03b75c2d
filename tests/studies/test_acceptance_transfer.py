"""Bias and spread between kinds of text: the shipped numbers are what the shipped lengths give."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from advisor.catalog.task_transfer import TRANSFERS
from studies.acceptance_transfer import (
    COLUMNS,
    contexts,
    differences,
    estimate,
    held_out_lengths,
    held_out_table,
    measured_lengths,
    table,
    transfers,
)
from studies.fits.records import rounded


@pytest.fixture(scope="module")
def lengths() -> pd.DataFrame:
    return measured_lengths()


def test_the_shipped_file_is_what_the_shipped_lengths_give(lengths: pd.DataFrame) -> None:
    content = {
        "transfers": [one.model_dump(mode="json") for one in transfers(lengths)],
        "contexts": contexts(),
    }
    shipped = json.loads(TRANSFERS.read_text(encoding="utf-8"))
    assert shipped == rounded(content), "run `python -m studies.acceptance_transfer --write`"


def test_only_laboratories_that_were_seen_or_fit_take_part(
    lengths: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_a_part = lengths["laboratory"].iloc[0]
    monkeypatch.setattr(
        "studies.acceptance_transfer.part_of",
        lambda name: "choose" if name == of_a_part else "seen",
    )
    assert set(measured_lengths()["laboratory"]) == set(lengths["laboratory"]) - {of_a_part}


def invented(**factors: float) -> pd.DataFrame:
    """Heads of laboratories a, b, ... whose odds on chat are `factor` times those on coding, at two
    draft lengths."""
    rows = [
        (
            name[0],
            "title",
            name,
            "eagle",
            task,
            cell,
            math.log(accepted * (factor if task == "chat" else 1.0)),
        )
        for name, factor in factors.items()
        for task in ("coding", "chat")
        for cell, accepted in (("3", 1.5), ("7", 2.0))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_a_head_counts_once_however_many_draft_lengths_it_was_measured_at() -> None:
    found = differences(invented(a1=0.5), "coding", "chat")
    assert [one.value for one in found] == pytest.approx([math.log(0.5)])


def test_a_laboratory_counts_once_however_many_heads_it_measured() -> None:
    bias, variance, free = estimate(
        differences(invented(a1=0.5, a2=0.5, a3=0.5, b1=1.0), "coding", "chat")
    )
    assert bias == pytest.approx(math.log(0.5) / 2)
    assert free == 1
    assert variance == pytest.approx(np.var([math.log(0.5), 0.0], ddof=1) * 1.5)


def test_lengths_at_different_draft_lengths_are_not_compared() -> None:
    frame = invented(a1=0.5)
    frame["cell"] = frame["cell"] + frame["task"]
    assert differences(frame, "coding", "chat") == []


def test_a_laboratory_left_out_is_predicted_from_the_others() -> None:
    judged = held_out_lengths(invented(a1=0.5, b1=0.5, c1=0.5))
    assert judged["bias"].abs().max() == pytest.approx(0.0, abs=1e-12)
    assert judged["unchanged"].to_numpy() == pytest.approx(math.log(0.5))
    assert "all" in held_out_table(judged)


def test_the_bias_helps_on_laboratories_left_out_and_the_band_holds_most_of_them(
    lengths: pd.DataFrame,
) -> None:
    judged = held_out_lengths(lengths)
    mean = (
        judged.groupby("laboratory")[["unchanged", "bias"]]
        .agg(lambda each: (each**2).mean())
        .mean()
    )
    assert mean["bias"] < mean["unchanged"]
    assert 0.6 < judged.groupby("laboratory")["inside"].mean().mean() < 0.95
    assert len(table(transfers(lengths)).splitlines()) > 10
