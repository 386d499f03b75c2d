"""One report, five formats: what stands in it, that it reads back, and that the same input gives
the same bytes."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import hashlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pypdf
import pytest

from advisor.answers.advice import advise
from advisor.answers.engines.config import EngineExport
from advisor.answers.explore.changes import best_effects, next_steps
from advisor.answers.outcome import outcome_of
from advisor.predict.scenario import SCHEMA_VERSION, Scenario, ScenarioFile, read_scenario
from advisor.prediction import AdvisorError
from advisor.show.phrases.notes import note_texts
from advisor.show.report.basis import LIMITS
from advisor.show.report.blocks import Code, FigureBlock, TableBlock
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, file_name, render
from advisor.show.report.layout import sections
from advisor.show.words.compare import what_text
from advisor.show.words.design import standing_text
from tests.show.report_fixtures import DATE, MIXED, QWEN, own_model, report_on

ROOT = Path(__file__).resolve().parents[2]
TITLES = [
    "Question",
    "Answer",
    "Speedup by batch size",
    "Where the time goes",
    "Try next",
    "Which design to train",
    "K by batch size",
    "Engine configuration",
    "Validation",
    "Check it yourself",
    "Assumptions",
    "Limits",
    "Cost and energy",
    "Constants of the accelerator",
    "Derivation",
    "Works cited",
    "Sources",
    "This report",
]


def pdf(report: Report) -> pypdf.PdfReader:
    return pypdf.PdfReader(io.BytesIO(render(report, "pdf")))


def pdf_text(report: Report) -> str:
    return "\n".join(sheet.extract_text() for sheet in pdf(report).pages)


def test_the_sections_stand_in_this_order_in_every_readable_format() -> None:
    report = report_on()
    assert [section.title for section in sections(report)] == TITLES
    assert re.findall(r"^## (.+)$", render(report, "md").decode(), flags=re.M) == TITLES
    text = pdf_text(report)
    places = [re.search(rf"^{re.escape(title)}\s*$", text, flags=re.M) for title in TITLES]
    assert all(places), [title for title, place in zip(TITLES, places, strict=True) if not place]
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


def test_the_report_carries_the_numbers_of_the_advice() -> None:
    advice = advise(QWEN)
    report = document_of(report_on())
    answer = report["answer"]
    components = report["components"]
    assert answer["n_draft"] == advice.recommendation.n_draft
    assert answer["speedup"] == pytest.approx(advice.recommendation.speedup.value, rel=1e-4)
    assert len(report["curve"]) == advice.curve.speedup.size
    here = next(
        p for p in report["curve"] if (p["batch_size"], p["n_draft"]) == (16, answer["n_draft"])
    )
    assert here["speedup"] == answer["speedup"]
    in_round = sum(part["round_ms"] for part in components)
    assert sum(here["components_ms"].values()) == pytest.approx(in_round, rel=1e-3)
    plain = advice.curve.plain_step_s[advice.batch_index] * 1e3
    assert sum(part["plain_ms"] for part in components) == pytest.approx(plain, rel=1e-3)
    assert set(advice.setup.sources) == set(report["sources"])
    assert [item["n_draft"] for item in report["schedule"]] == [
        item.n_draft for item in advice.k_by_batch
    ]


def test_the_report_says_how_the_design_stands_what_to_try_and_how_the_speedup_was_made() -> None:
    report = document_of(report_on())
    steps = next_steps(advise(QWEN))
    assert report["design"]["text"] == standing_text(steps.standing)
    assert report["design"]["choices"][0]["gain"] == pytest.approx(
        steps.standing.best.speedup_gain.value, rel=1e-4
    )
    best = best_effects(steps, "tokens_per_s_per_gpu")
    assert [item["what"] for item in report["next_steps"]][: len(best)] == [
        what_text(effect.change) for effect in best
    ]
    speedup = next(step["text"] for step in report["derivation"] if step["title"] == "Speedup")
    assert speedup.startswith("speedup = AL × T_plain / T_round = ")
    assert speedup.endswith(f"= {report['answer']['speedup']:.4g}")
    assert any("EAGLE-3" in work["text"] for work in report["cited"])
    assert any("equal quality" in work["used_for"] for work in report["cited"])


@pytest.mark.parametrize("form", ["md", "pdf"])
def test_every_table_cell_and_sentence_is_in_every_readable_format(form: str) -> None:
    report = report_on()
    text = {
        "md": lambda: (
            re.sub(r"\\(.)", r"\1", render(report, "md").decode())
            .replace("&gt;", ">")
            .replace("&lt;", "<")
        ),
        "pdf": lambda: pdf_text(report),
    }[form]()
    shown = re.sub(r"\s+", "", text)
    cells = [
        cell
        for s in sections(report)
        for b in s.blocks
        if isinstance(b, TableBlock)
        for row in b.rows
        for cell in row
    ]
    cells += [*report.warnings, *LIMITS, *report.assumptions, *report.sources]
    cells = (
        [re.sub(r"(?<=\d)x\b", "×", cell) for cell in cells] if form == "pdf" else cells
    )  # paper has one sign
    missing = [cell for cell in cells if re.sub(r"\s+", "", cell) not in shown]
    assert not missing


def test_another_process_gives_the_same_bytes() -> None:
    script = (
        "import hashlib; from tests.show.report_fixtures import MIXED, QWEN, report_on;from "
        "advisor.show.report.formats import render;reports = [report_on(scenario) for scenario in "
        "(QWEN, MIXED)];print([hashlib.sha256(render(one, 'pdf')).hexdigest() for one in reports])"
    )
    elsewhere = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}
    there = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env=elsewhere,
    )
    here = [hashlib.sha256(render(report_on(one), "pdf")).hexdigest() for one in (QWEN, MIXED)]
    assert there.stdout.strip() == str(here)


def test_another_date_changes_every_dated_format() -> None:
    other = dataclasses.replace(report_on(), date=dt.date(2027, 1, 2))
    for form in ("md", "pdf", "json"):
        assert render(other, form) != render(report_on(), form)


def test_json_reads_back_as_the_same_report_and_scenario() -> None:
    assert json.loads(render(report_on(), "json")) == document_of(report_on())
    assert read_scenario(render(report_on(), "json")) == ScenarioFile(QWEN, DATE, QWEN.hash)


SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text(encoding="utf-8"))
FIELDS = (ROOT / "docs/report-schema.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "scenario", [QWEN, own_model("own"), QWEN.model_copy(update={"acceptance": "0.05"})], ids=str
)
def test_json_matches_its_published_schema(scenario: Scenario) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    value = document_of(report_on(scenario))
    jsonschema.validate(value, SCHEMA)
    assert [name for name in SCHEMA["properties"] if name not in value] == []
    for wrong in ({"speedup": "fast"}, {"unknown": 1.0}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value | {"answer": value["answer"] | wrong}, SCHEMA)


def test_the_published_schema_has_the_scenario_of_the_code() -> None:
    code = Scenario.model_json_schema(mode="serialization")
    assert SCHEMA["$defs"] | code.pop("$defs", {}) | {"Scenario": code} == SCHEMA["$defs"]
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def documented(name: str) -> set[str]:
    """Fields that the page lists of a record."""
    part = FIELDS.split(f"### {name}\n")[1].split("\n### ")[0]
    return {
        field
        for row in re.findall(r"^\| ([^|]+) \|", part, flags=re.M)
        for field in re.findall(r"`(\w+)`", row)
    }


RECORDS = {name: one["properties"] for name, one in SCHEMA["$defs"].items() if "properties" in one}


@pytest.mark.parametrize(
    "name",
    ["Report", *sorted(RECORDS.keys() - {"Scenario", "Setting", "CheckCommand", "Prediction"})],
)
def test_every_field_is_documented_but_of_records_that_say_themselves_what_they_are(
    name: str,
) -> None:
    assert documented(name) == set((RECORDS | {"Report": SCHEMA["properties"]})[name])


def test_csv_has_a_row_for_each_point_and_every_documented_column() -> None:
    report = report_on()
    rows = list(csv.DictReader(io.StringIO(render(report, "csv").decode())))
    assert len(rows) == len(document_of(report)["curve"])
    assert {row["scenario_hash"] for row in rows} == {QWEN.hash}
    point = next(
        p for p in document_of(report)["curve"] if (p["batch_size"], p["n_draft"]) == (64, 2)
    )
    row = next(r for r in rows if (r["batch_size"], r["n_draft"]) == ("64", "2"))
    assert float(row["speedup"]) == point["speedup"]
    assert float(row["routed_ms"]) == point["components_ms"]["routed"]
    fields = set(RECORDS["CurvePoint"]) - {"components_ms", "ttft_ms"}
    assert set(rows[0]) == {
        "scenario_hash",
        *fields,
        *(f"{name}_ms" for name in point["components_ms"]),
    }


def test_csv_has_the_time_to_first_token_where_lengths_are_given() -> None:
    asked = QWEN.model_copy(update={"input_tokens": 1000, "output_tokens": 200})
    rows = list(csv.DictReader(io.StringIO(render(report_on(asked), "csv").decode())))
    assert min(float(row["ttft_ms"]) for row in rows) > 5.0


def test_the_pdf_is_tagged_has_a_language_a_title_alternative_texts_and_its_date() -> None:
    reader = pdf(report_on())
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "en"
    assert "pdfuaid:part" in root["/Metadata"].get_object().get_data().decode()
    assert reader.metadata.title.replace("\N{NON-BREAKING HYPHEN}", "-") == report_on().verdict
    assert reader.metadata.creation_date.date() == DATE
    assert 4 <= len(reader.pages) <= 7
    alternatives = alt_texts(root["/StructTreeRoot"])
    figures = [b.alt for s in sections(report_on()) for b in s.blocks if isinstance(b, FigureBlock)]
    assert alternatives == figures


def alt_texts(node: object) -> list[str]:
    """Alternative texts of the structure tree below a node, in reading order."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        return [text for item in node for text in alt_texts(item)]
    if not isinstance(node, dict):
        return []
    own = [str(node["/Alt"])] if "/Alt" in node else []
    return own + (alt_texts(node["/K"]) if "/K" in node else [])


def test_launch_lines_are_broken_for_readers_without_changing_a_word() -> None:
    report = report_on()
    shown = [
        b
        for s in sections(report)
        for b in s.blocks
        if isinstance(b, Code) and "launch" in b.caption
    ]
    for engine, block in zip(report.engines, shown, strict=True):
        assert shlex.split(block.text.replace("\\\n", "")) == shlex.split(engine.launch_line)


@pytest.mark.parametrize("drafter", ["dspark", "p-eagle", "suffix", "ngram", "mtp", "none"])
def test_an_engine_that_cannot_run_the_drafter_says_why(drafter: str) -> None:
    model = "deepseek-v3" if drafter == "mtp" else "qwen3-30b-a3b"
    given = {"drafter_id": drafter, "model_id": model} | (
        {"acceptance": "0"} if drafter == "none" else {}
    )
    fitting = {"tensor_parallel": 8, "n_gpus": 8} if drafter == "mtp" else {}
    report = report_on(QWEN.model_copy(update=given | fitting))
    for engine in report.engines:
        assert bool(engine.problem) != bool(engine.launch_line)
    problems = {engine.engine for engine in report.engines if engine.problem}
    expected = {"p-eagle": {"sglang"}, "suffix": {"sglang"}}
    expected["none"] = {"vllm", "sglang"}
    assert problems == expected.get(drafter, set())


def texts(engine: EngineExport) -> str:
    return " ".join(note_texts(engine.notes, "bare"))


def test_a_launch_line_of_a_model_of_the_users_own_says_what_goes_in_for_its_name() -> None:
    own = build_report(advise(own_model("mine")), DATE)
    assert all("your model for mine" in texts(e) for e in own.engines if e.launch_line)
    assert not any("your model for" in texts(e) for e in report_on().engines)
    named = build_report(advise(own_model("mine")), DATE, served_model="/models/mine-v2")
    assert not any("your model for" in texts(e) for e in named.engines)


def test_a_placeholder_on_a_launch_line_is_named_and_a_given_name_replaces_it() -> None:
    assert all("DRAFT-MODEL" in texts(e) for e in report_on().engines)
    named = build_report(advise(QWEN), DATE, draft_model="me/eagle", served_model="/models/q 3")
    for engine in named.engines:
        assert "DRAFT-MODEL" not in engine.launch_line + texts(engine)
        assert "me/eagle" in engine.launch_line
        assert "/models/q 3" in shlex.split(engine.launch_line)


def test_a_given_draft_model_is_used_where_a_profile_knows_another() -> None:
    scenario = QWEN.model_copy(update={"drafter_id": "draft_model"})
    assert "Qwen/Qwen2-0.5B" in report_on(scenario).engines[0].launch_line
    named = build_report(advise(scenario), DATE, draft_model="me/small")
    assert all("me/small" in engine.launch_line for engine in named.engines)


def test_a_drafter_that_does_not_pay_is_reported_with_the_best_k_it_was_held_against() -> None:
    report = report_on(QWEN.model_copy(update={"acceptance": "0.05"}))
    assert report.advice.recommendation.n_draft == 0
    assert report.advice.curve_k > 0
    text = render(report, "md").decode()
    assert report.say("headline") in text
    assert outcome_of(report.advice).k == 0
    assert "DRAFT-MODEL" not in text
    assert len(pdf(report).pages) <= 6


def test_the_sentences_on_the_only_k_there_is_stand_one_space_apart() -> None:
    text = render(
        report_on(QWEN.model_copy(update={"k_max": 1, "acceptance": "1.8@1"})), "md"
    ).decode()
    assert "  " not in text.split("## Answer")[1].split("|")[0]


def test_known_errors_are_printed_or_their_absence_is_said() -> None:
    text = render(report_on(), "md").decode()
    assert "| this model, other accelerators | 4 | 20% | 40% | 75% | 50% |" in text
    assert "off by 20% at the median" in text
    assert "Not looked up" in render(report_on(checked=False), "md").decode()
    nothing = build_report(advise(QWEN), DATE, validation={})
    assert "No published measurement" in render(nothing, "md").decode()


def test_a_link_too_large_to_share_is_left_out_and_said() -> None:
    import secrets

    scenario = own_model("big")
    padded = json.dumps(
        json.loads(scenario.model_config_json or "") | {"note": secrets.token_hex(20_000)}
    )
    report = report_on(scenario.model_copy(update={"model_config_json": padded}))
    assert report.share_query == ""
    assert "too long to print" in render(report, "md").decode()
    assert read_scenario(render(report, "json")).scenario == report.scenario


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(AdvisorError, match="no report format"):
        render(report_on(), "docx")  # type: ignore[arg-type]


def test_a_file_s_name_says_model_accelerator_and_date_and_nothing_of_a_user_s_own() -> None:
    day = dt.date(2026, 7, 5)
    shipped = report_on().scenario
    assert re.fullmatch(
        r"advice-2026-07-05-[0-9a-f]{12}\.pdf", file_name(own_model("../../etc/passwd"), "pdf", day)
    )
    assert file_name(shipped, "pdf", day) == (
        f"advice-{shipped.model_id}-{shipped.hardware_id}-2026-07-05-{shipped.hash}.pdf"
    )
