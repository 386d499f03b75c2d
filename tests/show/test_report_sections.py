"""Sections of a report that are there only when asked for: in every format, and in JSON by its
schema."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from advisor.answers.advice import Advice, advise
from advisor.answers.expert_ranks import LayoutOptions, RanksAnswer, ranks_answer
from advisor.answers.explore.cells import context_map
from advisor.answers.explore.entrants import ModelFilter, RankQuestion, one_load
from advisor.answers.explore.leaderboard import leaderboard
from advisor.answers.explore.questions import fastest_within, view_of, where_drafting_pays
from advisor.physics.expert_loads import traffic_of_preset, traffic_of_trace
from advisor.physics.expert_ranks import drawn_choices, skewed_loads
from advisor.predict.load import load_setup
from advisor.show.charts.measured import rank_chart
from advisor.show.report.blocks import TableBlock
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, render
from advisor.show.report.layout import sections
from advisor.show.report.sections import ranks_blocks
from advisor.show.table import capital
from advisor.show.words.expert_ranks import document, layout_table, verdict, warning_notes
from advisor.text import json_values, printable
from tests.answers.made_up_sweep import MAKER, frame_of, grid, parquet, row, sweep
from tests.command_line import QWEN as OPTIONS
from tests.command_line import Run
from tests.show.report_fixtures import DATE, QWEN, report_on
from tests.show.test_report_document import SCHEMA, documented

WIDE = QWEN.model_copy(update={"expert_parallel": 8, "n_gpus": 8, "batch_size": 32, "k_max": 3})
PLACING = LayoutOptions(redundant=(0, 8))
RNG = np.random.default_rng
POWER = Path(__file__).parents[1] / "fixtures/power/nvidia_smi_constructed.csv"


def test_every_report_says_what_a_token_costs_and_rests_on() -> None:
    text = render(report_on(), "md").decode()
    part = text.split("## Cost and energy")[1].split("\n## ")[0]
    assert "USD per million output tokens" in part
    assert "one-year reserved price" in part
    assert "not measured: TDP" in part
    section = document_of(report_on())["spend"]
    assert section["recommended"]["usd_per_million_tokens"] is not None
    assert section["recommended"]["n_draft"] == report_on().advice.recommendation.n_draft
    assert sum(section["plain"]["share_of_time"].values()) == pytest.approx(1.0, abs=1e-5)


def test_the_json_names_every_model_that_is_not_ranked_and_why_as_the_page_does() -> None:
    found = json.loads(render(report_load(), "json"))["other_models"]
    assert [one["model"] for one in found["models"]] == ["qwen3-30b-a3b"]
    assert [one["model"] for one in found["missed"]] == ["deepseek-v3"]
    why = found["missed"][0]
    assert f"{why['reason']}: DeepSeek-V3 ({why['detail']})" in render(report_load(), "md").decode()


def test_the_command_ranks_models_of_a_least_size_and_takes_a_price_and_a_power_log(
    tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "r.json"
    asked = ("report", *OPTIONS, "--output", file, "--no-checks", "--min-total-params", "2e11")
    status, _, error = run(*asked)
    assert status == 2
    assert "needs --models" in error
    status, _, _ = run(*asked, "--tp", 8, "--models")
    assert status == 0
    found = json.loads(file.read_text("utf-8"))["other_models"]
    assert "at least 200 B parameters" in found["verdict"]
    assert found["models"]
    assert all(one["total_params"] >= 2e11 for one in found["models"])
    asked = ("report", *OPTIONS, "--output", file, "--usd-per-hour", "2", "--power-log", POWER)
    status, _, error = run(*asked)
    assert status == 2
    assert "2 GPUs worked in it (0, 1) and the scenario's instance has 1" in error
    status, _, _ = run(*asked, "--tp", 2)
    assert status == 0
    spend = json.loads(file.read_text("utf-8"))["spend"]
    assert spend["price_usd_per_gpu_hour"] == 2.0
    assert spend["recommended"]["power_w_per_gpu"]["tier"] == "measured"
    assert spend["plain"]["power_w_per_gpu"]["tier"] == "roofline"


def test_cost_and_energy_of_a_batch_that_does_not_fit_are_left_out(run: Run) -> None:
    large = QWEN.model_copy(update={"batch_size": 4096, "context_tokens": 32768})
    report = build_report(advise(large), DATE)
    assert report.spend is None
    part = render(report, "md").decode().split("## Cost and energy")[1].split("\n## ")[0]
    assert "unknown: batch 4,096 does not fit" in part
    assert (
        ".."
        not in render(report, "md").decode().split("## Engine configuration")[1].split("\n## ")[0]
    )
    assert document_of(report)["spend"] is None
    for form in (("-v",), ("--json",)):
        _, out, _ = run("advise", *OPTIONS, "--batch", 4096, "--context", 32768, *form)
        assert "USD per million" not in out
        assert ('"spend": null' if "--json" in form else "Cost and energy unknown") in out


@lru_cache(maxsize=1)
def advice() -> Advice:
    return advise(WIDE)


@lru_cache(maxsize=1)
def found() -> RanksAnswer:
    return ranks_answer(advice().setup, traffic_of_preset(advice().setup.router, RNG(0)), PLACING)


@lru_cache(maxsize=1)
def report() -> Report:
    return build_report(advice(), DATE, ranks=found())


def part_of(some: Report) -> str:
    """The section in Markdown."""
    return render(some, "md").decode().split("## Experts on ranks")[1].split("\n## ")[0]


def test_the_verdict_is_first_and_every_table_says_what_it_is_counted_on() -> None:
    blocks = ranks_blocks(report(), found())
    assert blocks[0].text == verdict(found())  # type: ignore[union-attr]
    tables = [block for block in blocks if isinstance(block, TableBlock)]
    assert len(tables) == 4
    assert all(table.caption.endswith("Origin of the counts: preset.") for table in tables)


def test_two_narrow_tables_lose_no_column_of_the_wide_one() -> None:
    whole = layout_table(found())
    columns = whole.header
    rows = whole.cells
    pair = [
        one
        for one in ranks_blocks(report(), found())
        if isinstance(one, TableBlock) and one.rows[0][0] == rows[0][0]
    ]
    pair = [one for one in pair if len(one.rows) == len(rows)][:2]
    shown = {
        name: [row[at] for row in one.rows] for one in pair for at, name in enumerate(one.columns)
    }
    wanted = {capital(name): [row[at] for row in rows] for at, name in enumerate(columns)}
    assert shown == wanted


def test_json_carries_the_answer_and_keeps_its_schema() -> None:
    value = json.loads(render(report(), "json"))
    told = value["expert_ranks"]
    assert (told["origin"], told["ranks"], told["drafts"]) == ("preset", 8, [0, 1, 2, 3])
    assert [one["layout"] for one in told["layouts"]] == [
        "assumed",
        "in order",
        "balanced",
        "balanced, 8 copies",
    ]
    counted = document(found())
    assert told["layouts"] == json_values(counted)["layouts"]
    own = next(one for one in told["layouts"] if one["layout"] == "assumed")
    assert own["n_draft"] == value["answer"]["n_draft"]
    assert own["speedup"][own["n_draft"]] == value["answer"]["speedup"]


def test_a_trace_is_named_as_the_origin_and_its_routing_as_this_section_s_own() -> None:
    sequences = list(
        drawn_choices(skewed_loads(128, 8, 0.5, 3, RNG(0)), 8, 20, 32, RNG(1), 0.1, 0.2)
    )
    traffic = traffic_of_trace(sequences, 128, 4)
    assert traffic.routing is not None
    setup = load_setup(WIDE.model_copy(update={"routing": traffic.routing}))
    answer = ranks_answer(setup, traffic, PLACING)
    counted = build_report(advice(), DATE, ranks=answer)
    part = part_of(counted).replace("\\", "")
    assert "Origin of the counts: trace. Choices of experts are counted on a routing trace." in part
    assert f"takes the trace's routing, {traffic.routing}, and not the auto of the rest" in part
    assert "is drawn from 10 sequences, each several times" in part.split("Note before use:")[1]
    assert "takes the trace's routing" not in part_of(report())
    values = document_of(counted)["expert_ranks"]
    assert (values["origin"], values["routing"]) == ("trace", traffic.routing)


def test_warnings_that_the_answer_carries_are_not_told_twice() -> None:
    assert "imbalance_assumed" in {note.kind for note in warning_notes(found())}
    assert (
        sum(
            "assumed formula; it has not" in text
            for text in render(report(), "md").decode().splitlines()
        )
        == 1
    )
    quiet = dataclasses.replace(report(), advice=dataclasses.replace(report().advice, notes=()))
    told = [
        block
        for section in sections(quiet)
        if section.title == "Experts on ranks"
        for block in section.blocks
    ]
    assert any("assumed formula" in printable(str(block)) for block in told)


def test_the_picture_has_a_line_for_every_layout_and_points_where_there_is_one_length() -> None:
    many = ranks_answer(
        advice().setup,
        traffic_of_preset(advice().setup.router, RNG(0)),
        LayoutOptions(redundant=(0, 8, 16, 24, 32, 40)),
    )
    lines = rank_chart(many).figure.data
    assert [line.name for line in lines] == [arm.name for arm in many.arms]
    assert {line.line.dash for line in lines if "copies" in line.name} == {"dot"}
    setup = load_setup(WIDE.model_copy(update={"drafter_id": "none"}))
    alone = rank_chart(ranks_answer(setup, traffic_of_preset(setup.router, RNG(0)), PLACING)).figure
    assert {trace.mode for trace in alone.data} == {"markers"}


def test_nothing_travels_in_the_section_where_attention_shares_the_ranks() -> None:
    setup = load_setup(WIDE.model_copy(update={"tensor_parallel": 8}))
    answer = ranks_answer(setup, traffic_of_preset(setup.router, RNG(0)), PLACING)
    part = part_of(build_report(advise(setup.scenario), DATE, ranks=answer))
    assert "no tokens are exchanged" in part
    assert "| Exchange |" not in part


@lru_cache(maxsize=1)
def report_sweep() -> Report:
    return build_report(advise(QWEN), DATE, swept=view_of(sweep(), 5.0, {"model_id": "big"}))


def test_json_carries_the_figures_with_bands_and_keeps_its_schema() -> None:
    section = json.loads(render(report_sweep(), "json"))["sweep"]
    pays = where_drafting_pays(grid())
    fastest = fastest_within(grid(), 5.0)
    assert [
        (one["model_id"], one["hardware_id"], one["pays_up_to"]) for one in section["pays"]
    ] == [
        (model, hardware, None if model == "big" and hardware == "h100-sxm" else 8)
        for model, hardware in zip(pays["model_id"], pays["hardware_id"], strict=True)
    ]
    assert [one["n_draft"] for one in section["fastest"]] == list(fastest["n_draft"])
    assert all(
        one["tpot_low_ms"] < one["tpot_ms"] < one["tpot_high_ms"] for one in section["fastest"]
    )
    assert [(cell["y"], cell["x"], cell["fits"]) for cell in section["map"]["cells"]] == [
        ("h100-sxm", "1", False),
        ("h100-sxm", "8", False),
        ("b200-sxm", "1", True),
        ("b200-sxm", "8", True),
    ]


def test_a_sweep_has_no_map_of_one_axis_and_says() -> None:
    one = frame_of(
        *(row("m", "h100-sxm", batch, k, fits=False) for batch in (1, 8) for k in (0, 1))
    )
    made = build_report(advise(QWEN), DATE, swept=view_of(sweep(one), None, {}))
    section = document_of(made)["sweep"]
    assert (section["map"], section["fastest"][0]["hardware_id"], section["one_k"]) == (
        None,
        None,
        [],
    )
    for form in ("md", "pdf", "json"):
        assert render(made, form)
    nothing = build_report(
        advise(QWEN), DATE, swept=view_of(sweep(grid().assign(fits=False)), None, {})
    )
    assert "Nothing in this sweep fits in memory." in render(nothing, "md").decode()
    wide = frame_of(
        *(
            row("m", hardware, batch, 1)
            for batch in range(1, 13)
            for hardware in ("h100-sxm", "b200-sxm")
        )
    )
    text = render(
        build_report(advise(QWEN), DATE, swept=view_of(sweep(wide), None, {})), "md"
    ).decode()
    assert "It is wider than a page; the JSON report has every cell." in text


def test_the_command_reads_a_folder_or_files(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "out"
    file = tmp_path / "r.json"
    folder.mkdir()
    (folder / "part-000000.parquet").write_bytes(parquet(grid(), MAKER))
    for given in (folder, folder / "part-000000.parquet"):
        arguments = ("report", *OPTIONS, "--output", file, "--no-checks", "--sweep", given)
        assert run(*arguments)[0] == 0
        assert json.loads(file.read_text("utf-8"))["sweep"]["constants"] == MAKER["constants"]
    (folder / "part-000000.parquet").write_bytes(b"no parquet")
    status, _, err = run(*arguments)
    assert status == 2
    assert "part-000000.parquet is no readable Parquet file" in err


@lru_cache(maxsize=1)
def report_load() -> Report:
    wanted = ModelFilter(("qwen3-30b-a3b", "deepseek-v3"))
    board = leaderboard(RankQuestion(QWEN, one_load(16), "cost", wanted=wanted))
    return build_report(advise(QWEN), DATE, over_context=context_map(QWEN), board=board)


SECTIONS = {
    "expert_ranks": (
        "Experts on ranks",
        report,
        ("| Layout | Experts read |", "| Exchange | K |", "Origin of the counts"),
    ),
    "sweep": (
        "A sweep of scenarios",
        report_sweep,
        ("constants 0123456789ab", "| b200-sxm | 1.10x, K 1 |"),
    ),
    "over_context": ("Over context", report_load, ("Attention's share",)),
    "other_models": (
        "Other models at this load",
        report_load,
        ("| Rank | Likely rank |", "Qwen3-30B-A3B stands"),
    ),
}
"""Title, report and some words of each section by its key in JSON."""


@pytest.mark.parametrize("key", SECTIONS)
def test_a_section_is_there_only_when_asked_for_in_every_format_and_the_same_each_time(
    key: str,
) -> None:
    title, made, words = SECTIONS[key]
    value = json.loads(render(made(), "json"))
    jsonschema.validate(value, SCHEMA)
    assert value[key] is not None
    part = render(made(), "md").decode().split(f"## {title}\n")[1].split("\n## ")[0]
    assert [text for text in words if text not in part] == []
    assert render(made(), "pdf").startswith(b"%PDF")
    answers = {name: getattr(made(), name) for name in ("ranks", "swept", "over_context", "board")}
    again = build_report(advise(made().scenario), DATE, **answers)
    for form in ("md", "json"):
        assert render(again, form) == render(made(), form)  # type: ignore[arg-type]
    assert document_of(report_on())[key] is None
    assert SECTIONS[key][0] not in render(report_on(), "md").decode()


RECORDS = {
    "expert_ranks": {"RanksSection": "", "RankLayout": "layouts", "RankExchange": "exchange"},
    "sweep": {
        "SweepSection": "",
        "SweptSetting": "varied",
        "SweepPays": "pays",
        "SweepFastest": "fastest",
    }
    | {"SweepOneK": "one_k", "SweepCells": "map", "SweepCell": "map cells"},
    "over_context": {"OverContext": "", "ContextCell": "cells"},
    "other_models": {"ModelsSection": "", "RankedModel": "models", "MissedModel": "missed"},
}
"""Records that docs/report-schema.md lists, by section, and where they lie in it."""


@pytest.mark.parametrize("key", SECTIONS)
def test_every_field_of_a_section_is_documented(key: str) -> None:
    whole = json.loads(render(SECTIONS[key][1](), "json"))[key]
    for name, place in RECORDS[key].items():
        found = whole
        for part in place.split():
            found = found[part]
        assert documented(name) == set(found[0] if isinstance(found, list) else found), name
