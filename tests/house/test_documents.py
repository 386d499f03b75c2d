"""Documents are true, reachable, short and in plain English."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.golden import coverage_page, model_figure, readme_example, report_fields
from tests.golden.terminal import ROOT, in_a_folder
from tests.house.documents import DOCS, by_hand, faults, sentences

README = ROOT / "README.md"
CHANGELOG = ROOT / "CHANGELOG.md"
WRITTEN = {
    *("cli.md", "validation.md", "sources.md", "questions.md", "runtime-k-validation.md"),
    *("evidence.md", "coverage.md", "performance.md", "test-results.md"),
}
"""Pages that the program writes whole."""
TABLES = {"formats.md", "scenarios.md"}
"""Pages whose tables are written from the code."""
PAGES = sorted(DOCS.rglob("*.md"))
PROSE = [page for page in PAGES if page.name not in WRITTEN]
TASKS = re.findall(
    r"\]\(([\w-]+\.md)\)", (DOCS / "index.md").read_text().split("## Do")[1].split("## ")[0]
)
NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
AVOIDED = (
    *("said", "told", "of yours", "alike", "anew", "mended", "made-up", "modelled", "set-up"),
    *("so many", "says nothing of"),
)
"""Words of docs/english.md that no document has; `own` and `one` are words of a sentence too."""
BUDGET = 150_000
"""Bytes of documents that people write."""
LONGEST_MEAN = 18.0
LONG = 40
MOST_LONG = 0.02


CODE = ("advisor", "studies", "tests", "tools", "profiles/engines", "profiles/diagnosis")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [*PAGES, README, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_what_a_page_names_exists(page: Path) -> None:
    assert list(faults(text_of(page), page.parent)) == []


FALSE_IN_0_3 = (
    "| Peak speedups of Mixtral | 12 peaks | in part | Serve, tab Why; Data, tab Your benchmark |",
    "| A static K slows requests down | worst | in part | Lab, Simulation |",
    "| The best K differs by model | K | reproduced | Serve, speedup over batch; Lab, simulation |",
    "| The sparser the MoE, the wider | plateau | reproduced | Design, tab Best designs |",
    "| Shared experts help at low batch | speedup | in part | Design, tab Sharing and width |",
    "| Ten parameters fitted | no figure | not testable | Data, tab Your benchmark |",
    "On screen: Lab, tab Sweep (below). `n_gpus` is what the placement needs where it is left out.",
    "The tab Sweep of Data starts from the scenario in the bar.",
    "(on the page: the tab Cost and context of Serve) says whether drafting pays there",
    "All of them are read by `acceptance` and on the page Measurements.",
    "1: the page Profile this machine also works when the app is reached from other machines.",
    "`advisor/explain/` shows each number with its formula",
    "`advisor/validation/` holds predictions against published rows",
    "`advisor/runtime/` makes a schedule of K by batch",
    "`advisor/design/` asks which model to train instead",
    "    advisor rank --gpus 8xH200",
    "    advisor design --gpus 1xB200 --map --accelerators h100-sxm",
    "`python -m advisor.studies.blind`",
)
"""Statements of the documents of version 0.3 and before, of pages, tabs, folders, commands and
modules that were gone."""
TRUE = (
    "| The sparser the MoE | plateau | reproduced | Serve, tab Why; Measure |",
    "In the app: Serve, Explore, Compare models.",
    "The page Trust lists them; the tab Sweep of Serve starts from the bar.",
    "`advisor/predict/curve.py`, `laws.gemm`, `advisor.physics.bands.unseen`, `make run`",
    "    advisor design --gpus 1xB200 --batch 64",
    "[scores](trust.md#where-it-is-weaker)",
)


@pytest.mark.parametrize("statement", FALSE_IN_0_3)
def test_what_version_0_3_said_falsely_is_found(statement: str) -> None:
    assert list(faults(statement)) != []


@pytest.mark.parametrize("statement", TRUE)
def test_a_true_statement_has_no_fault(statement: str) -> None:
    assert list(faults(statement)) == []


@pytest.mark.parametrize("broken", ["[x](no-such.md)", "[x](trust.md#nothing)", "`laws.no_law`"])
def test_a_broken_link_or_name_is_found(broken: str) -> None:
    assert list(faults(broken)) != []


def test_what_code_says_of_documents_is_true() -> None:
    history = text_of(DOCS / "decisions" / "history.md")
    files = [
        file for room in CODE for end in ("py", "yaml") for file in (ROOT / room).rglob(f"*.{end}")
    ]
    wrong = []
    for file in [*files, ROOT / "Makefile"]:
        code = text_of(file)
        for name in re.findall(r"(?<![\w/])docs/(?:decisions/)?[\w-]+\.(?:md|csv)", code):
            if not (ROOT / name).exists() and file.name != "test_documents.py":
                wrong.append(f"{file.relative_to(ROOT)}: {name}")
        for number in re.findall(r"history\.md \((\d{4})\)|decision (\d{4})\b", code):
            if "".join(number) not in history:
                wrong.append(f"{file.relative_to(ROOT)}: decision {''.join(number)}")
    assert wrong == []


def linked(page: Path) -> set[Path]:
    targets = re.findall(r"\]\((?!https?:)([\w./-]+\.md)", text_of(page))
    return {(page.parent / target).resolve() for target in targets}


def test_every_page_is_two_clicks_from_the_index() -> None:
    one_click = linked(DOCS / "index.md")
    two_clicks = {target for page in one_click for target in linked(page)}
    reached = {DOCS / "index.md", *one_click, *two_clicks}
    assert [name for name, page in zip(NAMES, PAGES, strict=True) if page not in reached] == []


def test_documents_by_hand_are_short() -> None:
    sizes = {}
    for page in PROSE:
        text = by_hand(text_of(page))
        if page.name in TABLES:
            text = re.sub(r"^\|.*\n", "", text.split("## Fields, reader by reader")[0], flags=re.M)
        sizes[page.name] = len(text.encode())
    assert sum(sizes.values()) <= BUDGET, sizes
    assert len(CHANGELOG.read_bytes()) <= 25_000
    assert len(text_of(CHANGELOG).split("## 0.3.0")[1].split("## 0.2.0")[0].splitlines()) <= 80
    assert len(text_of(README).split()) <= 650


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_one_page_with_a_real_command(name: str) -> None:
    page = text_of(DOCS / name)
    assert len(page.splitlines()) <= 150 or name == "questions.md"
    assert readme_example.examples(page) or name in ("questions.md", "profiling.md")


@pytest.mark.parametrize(
    "page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda page: page.name
)
def test_a_decision_is_a_short_page_in_the_index(page: Path) -> None:
    history = DOCS / "decisions" / "history.md"
    assert page == history or len(text_of(page).splitlines()) <= 60
    assert page == history or f"]({page.name})" in text_of(history)


def test_sentences_are_short() -> None:
    lengths = [count for page in [*PROSE, README] for count in sentences(text_of(page))]
    assert len(lengths) > 500
    assert np.mean(lengths) <= LONGEST_MEAN
    assert np.mean(np.array(lengths) > LONG) <= MOST_LONG


def test_long_sentences_are_counted() -> None:
    assert sentences("# A title\n\nThis has four words.\n\n    code that is none\n") == [4]
    assert max(sentences("word " * 41 + ".")) > LONG


@pytest.mark.parametrize(
    "file",
    [file for file in readme_example.PAGES if readme_example.examples(text_of(file))],
    ids=str,
)
def test_examples_are_what_the_commands_print(file: Path) -> None:
    with in_a_folder(readme_example.COLUMNS):
        assert readme_example.rewritten(file) == text_of(file), (
            "run: python -m tests.golden.readme_example"
        )


def test_a_stale_example_is_written_again() -> None:
    page = "# A\n\n    $ advisor x\n    old\n    ...\n\nMore.\n"
    assert readme_example.with_outputs(page, lambda _: "new\nmore\n") == page.replace("old", "new")
    whole = page.replace("    ...\n", "")
    assert readme_example.with_outputs(whole, lambda _: "1\n2\n") == whole.replace(
        "old", "1\n    2"
    )


def test_figures_of_the_readme_are_generated_elsewhere() -> None:
    generated = text_of(DOCS / "first-answer.md") + text_of(DOCS / "validation.md")
    figures = re.findall(r"[\d.]+ ?(?:%|×|ms)", by_hand(text_of(README)))
    assert figures
    assert [figure for figure in figures if figure not in generated] == []


def test_cascade_has_the_same_figures_on_both_pages() -> None:
    report = text_of(DOCS / "runtime-k-validation.md")
    claims = text_of(DOCS / "sources.md")
    worst = re.findall(
        r"^\| worst slowdown, static K = \d \| \d+% \| ([\d.]+)% \|", report, flags=re.M
    )
    row = next(line for line in claims.splitlines() if line.startswith("| A static K slows"))
    assert len(worst) == 3
    assert [float(share) for share in worst] == [
        float(share) for share in re.findall(r"([\d.]+) %", row.split("|")[3])[:3]
    ]


def test_pages_written_from_code_are_today_s() -> None:
    page = text_of(coverage_page.FILE)
    accelerators = re.search(r"^\| model \| (.*) \|$", page, flags=re.M)[1].split(" | ")
    for model_id in ("qwen3-30b-a3b", "deepseek-v3", "command-a"):
        assert coverage_page.row(model_id, accelerators) in page, (
            "python -m tests.golden.coverage_page"
        )
    assert model_figure.svg() == text_of(model_figure.FILE), "python -m tests.golden.model_figure"
    fields = text_of(report_fields.FILE)
    assert report_fields.with_fields(fields) == fields, "python -m tests.golden.report_fields"


def test_documents_have_no_word_to_avoid() -> None:
    pages = [page for page in [*PROSE, README, CHANGELOG] if page.name != "english.md"]
    found = [
        f"{page.name}: {word}"
        for page in pages
        for word in AVOIDED
        if re.search(rf"\b{word}\b", by_hand(text_of(page)))
    ]
    assert found == []
