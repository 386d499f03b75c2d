"""What a user typed stays text in every format; a measured run in a report."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import jsonschema
import pypdf
import pytest

from advisor.answers.advice import advise
from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.show.report.blocks import Code
from advisor.show.report.build import Report, build_report
from advisor.show.report.formats import document_of, escape, markdown_code, render
from advisor.show.report.paper import showable
from advisor.show.words.diagnosis import view_of
from advisor.text import MAX_NAME, printable
from tests.command_line import QWEN as QWEN_OPTIONS
from tests.command_line import Run
from tests.show.report_fixtures import DATE, PAYLOADS, QWEN, own_model, report_on
from tests.show.test_report_document import SCHEMA


def attacked(payload: str) -> Report:
    return report_on(own_model(payload))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_pdf_shows_the_payload_as_text(payload: str) -> None:
    reader = pypdf.PdfReader(io.BytesIO(render(attacked(payload), "pdf")))
    text = re.sub(r"\s+", "", "".join(sheet.extract_text() for sheet in reader.pages))
    assert re.sub(r"\s+", "", showable(printable(payload, MAX_NAME))) in text
    assert "root:x:0" not in text
    assert all("/Annots" not in sheet for sheet in reader.pages), (
        "no link is made from a user's text"
    )


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markdown_outside_code_holds_no_live_markup_of_the_payload(payload: str) -> None:
    lines = []
    fenced = False
    fence = ""
    for line in render(attacked(payload), "md").decode().splitlines():
        if line.startswith("```") and (not fenced or line.strip() == fence):
            fenced = not fenced
            fence = line.strip()
        elif not fenced:
            lines.append(line)
    assert not fenced, "a fence was left open"
    text = "\n".join(lines)
    assert not re.search(r"<(?!!)", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    assert not re.search(r"(?<!\\)[`$]", text)
    rows = [line for line in lines if line.startswith("| Model |")]
    assert len(rows) == 1
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 3


@pytest.mark.parametrize("payload", PAYLOADS)
def test_csv_and_json_stay_well_formed_and_no_control_or_direction_character_is_readable(
    payload: str,
) -> None:
    report = attacked(payload)
    rows = list(csv.reader(io.StringIO(render(report, "csv").decode())))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if re.match(r"[=+@\t]|-\D", cell)]
    assert json.loads(render(report, "json"))["scenario"]["model_id"] == payload
    for form in ("md", "csv"):
        text = render(attacked(payload), form).decode()
        assert not set(text) & (set(map(chr, range(32))) - {"\n"} | {"\u202e", "\x7f"})


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("# h", r"\# h"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("1.5x", "1.5x"),
        ("a|b", r"a\|b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("[x](y)", r"\[x\](y)"),
        (":material/home:", r"\:material/home:"),
        ("a\nb", "a b"),
    ],
)
def test_markdown_escapes(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_characters_without_a_font_are_named_and_long_text_is_cut() -> None:
    assert showable("模 a é λ") == "U+6A21 a é λ"
    assert printable("Qwen3 30B – λ") == "Qwen3 30B – λ"
    assert printable("a" * 1000, 20) == "a" * 16 + " ..."
    assert printable("a\x1b[31m\u202eb\nc") == "a[31mb c"


def test_code_cannot_close_its_fence() -> None:
    lines = markdown_code(Code("a\n```\n<script>", "caption"))
    fence = lines[-1]
    assert re.fullmatch("`{4,}", fence)
    assert lines.count(fence) == 2


def test_names_on_launch_lines_stay_on_their_line() -> None:
    report = build_report(advise(QWEN), DATE, served_model="a\n; rm -rf ~", draft_model="b\n$(id)")
    for engine in report.engines:
        words = shlex.split(engine.launch_line)
        assert "\n" not in engine.launch_line
        assert "a ; rm -rf ~" in words
        assert "b $(id)" in engine.launch_line
        assert "$(id)" not in words


FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "diagnosis"


def test_a_report_on_a_measured_run_has_its_verdict_evidence_and_remedy() -> None:
    name = "mismeasured.jsonl"
    found = view_of(diagnose([UserFile(name, (FIXTURES / name).read_bytes())]))
    report = build_report(advise(QWEN), DATE, diagnosis=found)
    text = render(report, "md").decode()
    assert "## A measured run, diagnosed" in text
    assert "Measure again before tuning" in text
    assert "philschmid/mt-bench" in text
    section = document_of(report)["diagnosis"]
    jsonschema.validate(document_of(report), SCHEMA)
    assert section["verdict"] == "mismeasured"
    assert {one["kind"] for one in section["findings"]} == {"measurement"}


def test_the_command_takes_measured_files_and_the_scenario_fills_what_they_leave_out(
    run: Run, tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    options = (*QWEN_OPTIONS, "--no-checks", "--output", output)
    status, _, _ = run("report", *options, "--diagnose", FIXTURES / "misconfigured.txt")
    assert status == 0
    document = json.loads(output.read_text(encoding="utf-8"))
    assert [one["title"][:23] for one in document["diagnosis"]["findings"]] == [
        "SGLang admits 48 reques"
    ]
    assert document["diagnosis"]["command"].endswith("--max-running-requests 128")
