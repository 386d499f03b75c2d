"""Where the suite's time goes: read from what pytest writes, and what the mutation pass is told to
run exists."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from tests.house.durations import DOCUMENT, END, START, by_folder, lines_of, times_of, written
from tools.mutation.plan import Target, missing

ROOT = Path(__file__).resolve().parents[2]
XML = """<testsuites><testsuite><testcase classname="tests.physics.test_touched_experts" name="a" time="1.5"/>
<testcase classname="tests.physics.test_step" name="b[x]" time="2.5"/>
<testcase classname="tests.predict.test_curve" name="c" time="1.0"/></testsuite></testsuites>"""  # noqa: E501


def test_time_is_added_up_by_folder_and_the_slowest_tests_come_first(tmp_path: Path) -> None:
    file = tmp_path / "suite.xml"
    file.write_text(XML)
    times = times_of(file)
    assert by_folder(times) == [("physics", 2, 4.0), ("predict", 1, 1.0)]
    lines = lines_of(times)
    assert lines[2] == "| physics | 2 | 4 | 80% |"
    assert lines[-3:] == [
        "| physics/test_step.py: b[x] | 2.5 |",
        "| physics/test_touched_experts.py: a | 1.5 |",
        "| predict/test_curve.py: c | 1.0 |",
    ]
    page = written(f"before\n{START}\nstale\n{END}\nafter\n", lines, dt.date(2026, 11, 22))
    assert page.startswith(f"before\n{START}\n\nMeasured on 2026-11-22.\n\n| folder")
    assert "stale" not in page
    assert page.endswith(f"{END}\nafter\n")


def test_the_page_about_tests_has_its_places_for_tables() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert (
        page.index(START)
        < page.index(END)
        < page.index("<!-- mutation scores")
        < page.index("<!-- end of mutation")
    )


def test_what_the_mutation_pass_breaks_and_runs_exists() -> None:
    assert missing() == []
    planted = Target("advisor.answers.explore.standing", ("tests/answers/test_standing.py",))
    assert [text.rpartition("/")[2] for text in missing((planted,))] == [
        "standing.py",
        "test_standing.py",
    ]
    scores = DOCUMENT.read_text(encoding="utf-8").partition("## The mutation pass")[2]
    scored = re.findall(r"^\| ([a-z_]+[/.][\w/.]+?)(?:\.py)? \|", scores, flags=re.M)
    assert len(scored) > 20
    assert [
        name for name in scored if not (ROOT / "advisor" / f"{name.replace('.', '/')}.py").exists()
    ] == []
