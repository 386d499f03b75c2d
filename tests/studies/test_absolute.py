"""Both times of a published row against their predictions."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from advisor.measured.observations import laboratory_of, set_apart
from advisor.measured.points import measured_times, point_of
from studies.blind import predicted_times, ratios, table
from tests.points.test_published import ROW

SOURCED = ROW | {"source_title": "SpecForge issue 339"}


def test_predicted_times_are_those_behind_the_predicted_speedup() -> None:
    point = point_of(SOURCED)
    plain, speculative = predicted_times(point)
    (one,) = ratios([point]).to_dict("records")
    assert one["plain"] == pytest.approx(math.log(plain / measured_times(SOURCED)[0]))
    assert one["speedup"] == pytest.approx(math.log(plain / speculative / 1.5))


def test_rows_without_times_and_laboratories_set_apart_are_left_out() -> None:
    bare = SOURCED | {"baseline_value": "", "sd_value": "", "metric": "ratio_only"}
    apart = SOURCED | {"source_title": "2 x RTX 3090 MTP clean A/B v3"}
    assert set_apart(laboratory_of(apart["source_title"]))
    assert ratios([point_of(bare), point_of(apart)]).empty


def test_a_slope_is_printed_from_three_batches_on() -> None:
    frame = pd.DataFrame(
        [("one", "h200-sxm", 2.0**i, 0.1 * i, 0.0, 0.1 * i) for i in range(3)],
        columns=["laboratory", "hardware_id", "batch_size", "plain", "speculative", "speedup"],
    )
    assert "+0.100" in table(frame)
    assert "+0.100" not in table(frame.head(2))
