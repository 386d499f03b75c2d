"""Drawings of a report: the numbers of the curve and of the components."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

from advisor.answers.advice import ComponentTime
from advisor.answers.best_k import KRange, interpolate_batches
from advisor.answers.by_length import by_batch
from advisor.measured.published import PublishedRun
from advisor.physics.components import BY_KEY
from advisor.predict.curve import Curve
from advisor.show.report.blocks import FigureKey
from advisor.show.report.paper import draw_components, draw_speedup, drawing, drawn_components
from tests.pages.ui_fixtures import PLAIN_S, ROUND_S, hand_curve
from tests.show.report_fixtures import report_on

LARGE = 10**6


def third(curve: Curve) -> np.ndarray:
    """The place of K = 2 at every batch."""
    return np.full(curve.batches.size, 2)


def speedup(largest_batch: int = LARGE, extrapolated_from: int | None = None) -> mpl.axes.Axes:
    curve = (
        hand_curve()
        if extrapolated_from is None
        else hand_curve(extrapolated_from=extrapolated_from)
    )
    return draw_speedup(curve, third(curve), 64, largest_batch).axes[0]


def drawn(axes: mpl.axes.Axes, label: str) -> mpl.artist.Artist:
    handles, labels = axes.get_legend_handles_labels()
    assert labels.count(label) == 1, labels
    return handles[labels.index(label)]


def span(axes: mpl.axes.Axes, label: str) -> tuple[float, float]:
    """First and last batch of a shaded strip."""
    strip = drawn(axes, label)
    return strip.get_x(), strip.get_x() + strip.get_width()


def test_speedup_is_drawn_over_a_log_batch_axis_with_its_values_and_its_band() -> None:
    axes = speedup()
    curve = hand_curve()
    line = drawn(axes, "K = 2")
    assert axes.get_xlim() == (curve.batches[0], curve.batches[-1])
    np.testing.assert_array_equal(line.get_xdata(), curve.batches)
    np.testing.assert_array_equal(line.get_ydata(), curve.speedup[:, 2])
    assert (
        drawn(draw_speedup(curve, third(curve), 64, 128).axes[0], "K = 2").get_xdata().max() == 128
    ), "none beyond the memory"
    edges = drawn(axes, "80% range").get_paths()[0].vertices
    for x, low, high in zip(curve.batches, curve.low[:, 2], curve.high[:, 2], strict=True):
        assert {low, high} <= set(edges[edges[:, 0] == x, 1])
    assert drawn(axes, "batch 64").get_xdata()[0] == 64
    tripled = replace(curve, batches=3 * curve.batches)
    assert draw_speedup(tripled, third(tripled), 64, LARGE).axes[0].get_xlim() == (
        3,
        3 * curve.batches[-1],
    )


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_band_and_the_line_of_one_fill_the_height_and_a_slowdown_is_shaded_to_the_bottom(
    scale: float,
) -> None:
    curve = hand_curve(scale=scale)
    axes = draw_speedup(curve, third(curve), 64, LARGE).axes[0]
    (bottom, top), drawn_s = axes.get_ylim(), [*curve.low[:, 2], *curve.high[:, 2], 1.0]
    assert all(
        0.0 < margin < 0.1 * (top - bottom)
        for margin in (min(drawn_s) - bottom, top - max(drawn_s))
    )
    strip = drawn(axes, "slowdown")
    assert (strip.get_y(), strip.get_y() + strip.get_height()) == pytest.approx((bottom, 1.0))


RUNS = [
    PublishedRun(4, 1, 0.3, "mtp", 8, "a", np.nan),
    PublishedRun(32, np.nan, 9.0, "mtp", 8, "b", np.nan),
]


def test_published_runs_of_any_draft_length_are_drawn_where_they_were_measured() -> None:
    axes = draw_speedup(hand_curve(), third(hand_curve()), 64, LARGE, RUNS).axes[0]
    assert drawn(axes, "published").get_xydata().tolist() == [[4, 0.3], [32, 9.0]]
    low, high = axes.get_ylim()
    assert low < 0.3 < 9.0 < high
    assert "published" not in speedup().get_legend_handles_labels()[1]


def test_batches_outside_the_data_and_beyond_memory_are_shaded_and_no_others() -> None:
    curve = hand_curve()
    first = curve.batches[curve.extrapolated[:, 2]].min()
    last = curve.batches[-1]
    assert span(speedup(), "outside the data") == (first, last)
    assert span(speedup(largest_batch=4), "does not fit") == (4, last)
    assert span(speedup(largest_batch=0), "does not fit") == (1, last)
    _, labels = speedup(
        largest_batch=int(last), extrapolated_from=LARGE
    ).get_legend_handles_labels()
    assert not {"outside the data", "does not fit"} & set(labels)


@pytest.mark.parametrize(("scale", "pays_to"), [(10.0, None), (1.0, "before the end"), (0.1, 0)])
def test_a_configuration_peaks_and_stops_paying_where_its_curve_does(
    scale: float, pays_to: int | str | None
) -> None:
    curve = hand_curve(scale=scale)
    setup = SimpleNamespace(memory=SimpleNamespace(largest_batch=4096))
    places = by_batch(SimpleNamespace(setup=setup, curve_k=2), curve, (KRange(1, 4096, 2, 1.0),))
    assert (places.peak, places.peak_batch) == (curve.speedup[:, 2].max(), 16)
    if pays_to == "before the end":
        ends = [places.pays_to, places.pays_to + 1]
        last, beyond = interpolate_batches(curve.batches, curve.speedup, ends)[:, 2]
        assert last > 1.0 >= beyond
    else:
        assert places.pays_to == pays_to


@pytest.mark.parametrize(
    ("key", "title"), [("speedup", "Speedup over"), ("components", "Milliseconds")]
)
def test_a_drawing_is_the_chart_of_its_key(
    key: FigureKey, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    assert title in drawing(report_on(), key)


TIMES = tuple(
    ComponentTime(name, BY_KEY[name].label, PLAIN_S.get(name, 0.0) * 1e3, seconds * 1e3)
    for name, seconds in ROUND_S.items()
)


def test_components_keep_the_whole_time_and_those_too_small_to_see_are_summed() -> None:
    parts = drawn_components(TIMES)
    assert sum(part.plain_ms for part in parts) == pytest.approx(sum(PLAIN_S.values()) * 1e3)
    assert sum(part.round_ms for part in parts) == pytest.approx(sum(ROUND_S.values()) * 1e3)
    assert (parts[0].label, parts[-1].label) == ("Routed experts", "Rest")
    assert "Router" not in [part.label for part in parts]
    assert parts[-1].plain_ms == pytest.approx(PLAIN_S["router"] * 1e3)
    shares = [
        ComponentTime("a", "A", 1.0, 1.0),
        *(ComponentTime(x, x, x, 0.0) for x in (0.0049, 0.0052)),
    ]
    assert [part.label for part in drawn_components(shares)] == ["A", 0.0052, "Rest"]
    axes = draw_components(TIMES, 3).axes[0]
    assert [bar.get_width() for bar in drawn(axes, "round, K = 3")] == [
        part.round_ms for part in parts[::-1]
    ]
    assert [bar.get_width() for bar in drawn(axes, "baseline step")] == [
        part.plain_ms for part in parts[::-1]
    ]
