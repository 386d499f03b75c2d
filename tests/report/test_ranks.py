"""Experts on ranks in a report: in every format when they were counted, with their origin, and null otherwise."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.expert_ranks import Placing, RanksAnswer, ranks_answer, splits
from advisor.physics.expert_loads import traffic_of_loads, traffic_of_preset, traffic_of_trace
from advisor.physics.expert_ranks import drawn_choices, skewed_loads
from advisor.predict.load import load_setup
from advisor.show.charts.measured import rank_chart, rank_lines
from advisor.show.report.blocks import FigureBlock, Table
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, render
from advisor.show.report.layout import sections
from advisor.show.report.sections import ranks_blocks
from advisor.show.words.expert_ranks import document, layout_table, split_table, verdict, warnings
from advisor.text import json_values, printable
from tests.report_fixtures import DATE, QWEN, report_on

ROOT = Path(__file__).parents[2]
WIDE = QWEN.model_copy(update={"expert_parallel": 8, "n_gpus": 8, "batch_size": 32, "k_max": 3})
PLACING = Placing(redundant=(0, 8), heat=(0.1,))
RNG = np.random.default_rng


@lru_cache(maxsize=1)
def advice() -> Advice:
    return advise(WIDE)


@lru_cache(maxsize=1)
def found() -> RanksAnswer:
    return ranks_answer(advice().setup, traffic_of_preset(advice().setup.router, RNG(0)), PLACING)


@lru_cache(maxsize=1)
def report() -> Report:
    return build_report(advice(), DATE, ranks=found())


def with_answer(answer: RanksAnswer) -> Report:
    return build_report(advice(), DATE, ranks=answer)


def part_of(some: Report) -> str:
    """The section in Markdown."""
    return render(some, "md").decode().split("## Experts on ranks")[1].split("\n## ")[0]


def test_the_section_stands_in_every_format() -> None:
    part = part_of(report())
    assert verdict(found()).split(":")[0] in part
    for heading in (
        "| Layout | Experts read |",
        "| K | Experts touched |",
        "| Exchange | K |",
        "| Attention | Sequences",
    ):
        assert heading in part
    assert "Loads of ranks: assumed" in part
    html = render(report(), "html").decode()
    assert 'id="figure-ranks"' in html
    assert "Rows of the fullest rank" in html
    assert render(report(), "pdf").startswith(b"%PDF")


def test_the_verdict_is_first_and_every_table_says_what_it_is_counted_on() -> None:
    blocks = ranks_blocks(report(), found())
    assert blocks[0].text == verdict(found())  # type: ignore[union-attr]
    tables = [block for block in blocks if isinstance(block, Table)]
    assert len(tables) == 7
    assert all(table.caption.endswith("Origin of the counts: preset.") for table in tables)
    assert [block.key for block in blocks if isinstance(block, FigureBlock)] == ["ranks"]


@pytest.mark.parametrize("table", ["layouts", "groups"])
def test_two_narrow_tables_lose_no_column_of_the_wide_one(table: str) -> None:
    columns, rows = layout_table(found()) if table == "layouts" else split_table(splits(found())[0])
    pair = [one for one in ranks_blocks(report(), found()) if isinstance(one, Table) and one.rows[0][0] == rows[0][0]]
    pair = [one for one in pair if len(one.rows) == len(rows)][:2]
    shown = {name: [row[at] for row in one.rows] for one in pair for at, name in enumerate(one.columns)}
    wanted = {f"{name[0].upper()}{name[1:]}": [row[at] for row in rows] for at, name in enumerate(columns)}
    assert shown == wanted


def test_json_carries_the_answer_and_keeps_its_schema() -> None:
    value = json.loads(render(report(), "json"))
    jsonschema.validate(value, json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8")))
    told = value["expert_ranks"]
    assert (told["origin"], told["ranks"], told["drafts"]) == ("preset", 8, [0, 1, 2, 3])
    assert [one["layout"] for one in told["layouts"]] == ["assumed", "in order", "balanced", "balanced, 8 copies"]
    counted = document(found(), splits(found())[0])
    assert told["layouts"] == json_values(counted)["layouts"]
    assert len(told["hotter"]) == 3
    assert len(told["attention_splits"]) == 4
    own = next(one for one in told["layouts"] if one["layout"] == "assumed")
    assert own["n_draft"] == value["answer"]["n_draft"]
    assert own["speedup"][own["n_draft"]] == value["answer"]["speedup"]


def test_a_report_that_was_not_asked_for_it_has_none() -> None:
    assert document_of(report_on()).expert_ranks is None
    assert "Experts on ranks" not in render(report_on(), "md").decode()


def test_the_same_answer_gives_the_same_bytes_and_counts_that_differ_by_rounding_the_same_drawing() -> None:
    nearly = [dataclasses.replace(arm, pairs_ratio=arm.pairs_ratio * (1.0 + 1e-12)) for arm in found().arms]
    again = with_answer(dataclasses.replace(found(), arms=tuple(nearly)))
    for form in ("md", "html", "pdf"):
        assert render(again, form) == render(report(), form)  # type: ignore[arg-type]


def test_a_trace_is_named_as_the_origin_and_its_routing_as_this_section_s_own() -> None:
    sequences = list(drawn_choices(skewed_loads(128, 8, 0.5, 3, RNG(0)), 8, 20, 32, RNG(1), 0.1, 0.2))
    traffic = traffic_of_trace(sequences, 128, 4)
    assert traffic.routing is not None
    setup = load_setup(WIDE.model_copy(update={"routing": traffic.routing}))
    answer = ranks_answer(setup, traffic, PLACING)
    part = part_of(with_answer(answer)).replace("\\", "")
    assert "Origin of the counts: trace. Choices of experts are counted on a routing trace." in part
    assert f"takes the trace's routing, {traffic.routing}, and not the auto of the rest" in part
    assert "is drawn from 10 sequences, each several times" in part.split("Note before use:")[1]
    assert "takes the trace's routing" not in part_of(report())
    values = document_of(with_answer(answer)).expert_ranks
    assert values is not None
    assert (values.origin, values.routing) == ("trace", traffic.routing)


def test_loads_are_named_as_the_origin() -> None:
    answer = ranks_answer(advice().setup, traffic_of_loads(np.ones((2, 128)), advice().setup.router), PLACING)
    assert "Origin of the counts: loads. Choices of experts are drawn from given loads by layer." in part_of(
        with_answer(answer)
    )


def test_warnings_that_the_answer_carries_are_not_told_twice() -> None:
    assert any("assumed formula" in text for text in warnings(found()))
    assert sum("assumed formula; it has not" in text for text in render(report(), "md").decode().splitlines()) == 1
    quiet = dataclasses.replace(report(), warnings=())
    told = [block for section in sections(quiet) if section.title == "Experts on ranks" for block in section.blocks]
    assert any("assumed formula" in printable(str(block)) for block in told)


def test_the_picture_has_a_line_for_every_layout_and_points_where_there_is_one_length() -> None:
    many = ranks_answer(
        advice().setup,
        traffic_of_preset(advice().setup.router, RNG(0)),
        Placing(redundant=(0, 8, 16, 24, 32, 40), heat=(0.1,)),
    )
    assert [line.name for line in rank_lines(many)] == [arm.name for arm in many.arms]
    assert len(rank_chart(many).figure.data) == 8
    assert {line.dash for line in rank_lines(many) if "copies" in line.name} == {"dot"}
    setup = load_setup(WIDE.model_copy(update={"drafter_id": "none"}))
    alone = rank_chart(ranks_answer(setup, traffic_of_preset(setup.router, RNG(0)), PLACING)).figure
    assert {trace.mode for trace in alone.data} == {"markers"}


def test_nothing_travels_in_the_section_where_attention_shares_the_ranks() -> None:
    setup = load_setup(WIDE.model_copy(update={"tensor_parallel": 8}))
    answer = ranks_answer(setup, traffic_of_preset(setup.router, RNG(0)), PLACING)
    part = part_of(build_report(advise(setup.scenario), DATE, ranks=answer))
    assert "no tokens are exchanged" in part
    assert "| Exchange |" not in part
