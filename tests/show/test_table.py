"""One table for every medium."""

from operator import itemgetter

import pytest

from advisor.prediction import Prediction, Tier
from advisor.show.report.blocks import table_block
from advisor.show.table import GAP, Column, Table, capital, matrix

COLUMNS: tuple[Column[dict], ...] = (
    Column("model", itemgetter("name"), key="name", words=True),
    Column(None, itemgetter("gpus"), key="gpus"),
    Column(
        "ms/token",
        itemgetter("tpot_s"),
        lambda value: f"{value.value * 1e3:.1f}",
        key="tpot_s",
        paper=False,
        band=True,
    ),
    Column("note", itemgetter("note")),
)
SPEED = Prediction(value=0.00512345678, low=0.004, high=0.0061, tier=Tier.FITTED, because="a fit")
TABLE = Table(COLUMNS, [{"name": "a", "gpus": 8, "tpot_s": SPEED, "note": None}])


def test_readers_see_labels_and_texts_and_files_keys_and_values_with_their_band_empty() -> None:
    assert TABLE.header == ("model", "ms/token", "note")
    assert TABLE.cells == [("a", "5.1", "")]
    assert TABLE.align == "lrr"
    assert TABLE.records() == [
        {"name": "a", "gpus": 8, "tpot_s": 0.00512346, "tpot_s_low": 0.004, "tpot_s_high": 0.0061}
    ]
    assert TABLE.csv() == "name,gpus,tpot_s,tpot_s_low,tpot_s_high\na,8,0.00512346,0.004,0.0061\n"
    unknown = Column[dict]("J/token", itemgetter("joules"), key="joules", band=True)
    assert Table((unknown,), [{"joules": None}]).csv() == "joules,joules_low,joules_high\n,,\n"


def test_paper_has_the_columns_that_fit_it_with_capitals() -> None:
    block = table_block(TABLE.on_paper(), "A caption.")
    assert (block.columns, block.rows, block.align, block.caption) == (
        ("Model", "Note"),
        (("a", ""),),
        "lr",
        "A caption.",
    )
    assert TABLE.only("note").header == ("note",)


@pytest.mark.parametrize(
    ("label", "heading"),
    [
        ("mean loss", "Mean loss"),
        ("ms/token", "ms/token"),
        ("h100-sxm:8", "h100-sxm:8"),
        ("80% band", "80% band"),
        ("", ""),
    ],
)
def test_a_heading_has_a_capital_unless_it_is_a_unit_or_a_name(label: str, heading: str) -> None:
    assert capital(label) == heading


def test_columns_that_are_data_stand_right_of_their_words() -> None:
    assert matrix(("batch", "1", "8"), [("a", 1, None)]).align == "lrr"
    assert matrix(("batch", "1", "8"), [("a", 1, None)]).cells == [("a", "1", "")]


WIDE = Table(
    (
        Column[tuple]("rank", itemgetter(0)),
        Column[tuple]("model", itemgetter(1), words=True),
        Column[tuple]("80% range", itemgetter(2)),
        Column[tuple]("tier", itemgetter(3), words=True, paper=False),
        Column[tuple]("USD per million tokens", itemgetter(4)),
    ),
    [
        (
            256,
            "a model whose name is rather long",
            "7.92 (6.94-8.07)",
            "fitted",
            "1,234.5 (1,100.1-1,300.2)",
        )
    ],
)


@pytest.mark.parametrize("width", range(30, 130))
def test_a_narrow_table_loses_whole_columns_and_never_a_digit_or_its_names(width: int) -> None:
    shown, left_out = WIDE.within(width)
    widths = shown.widths(width)
    assert {"rank", "model"} <= set(shown.header)
    assert [*shown.header, *left_out] == sorted(WIDE.header, key=lambda label: label in left_out)
    assert not left_out or "tier" in left_out
    digits = [
        (cell, room)
        for cell, letter, room in zip(shown.cells[0], shown.align, widths, strict=True)
        if letter == "r"
    ]
    assert all(len(cell) <= room for cell, room in digits)
    assert sum(widths) + GAP * (len(widths) - 1) <= width


def test_a_wide_terminal_gives_a_table_the_room_that_a_pipe_does() -> None:
    assert WIDE.within(200) == (WIDE, [])
    assert WIDE.widths(200) == WIDE.widths()
