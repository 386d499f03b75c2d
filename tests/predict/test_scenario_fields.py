"""The table of scenario fields: one row in one file puts an option everywhere, and no other list
repeats the names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from advisor.predict.field_rows import FieldRow, FieldSection, rows_of
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, RANK_FIELDS, SETTINGS
from tests.golden import scenario_table

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = """
    warm_hours: Annotated[
        int,
        Field(ge=1, le=99),
        FieldRow(
            "Warm hours", FieldSection.LOAD, unit="h", short="warm {} h", widget=Widget(2, help="Made up."),
            flag="--warm", help="Hours kept warm.", is_younger=True,
        ),
    ] = 7
    share: Annotated[
        float | None,
        Field(ge=0.5, le=1.0),
        FieldRow("Share", FieldSection.ADVANCED, unset="whole", widget=Widget(6), flag="--share", help="Share.",
                 told=Told("Limit", ", share {}", ""), is_younger=True),
    ] = None
    cooling: Annotated[
        Literal["air", "liquid"],
        FieldRow("Cooling", FieldSection.HARDWARE, widget=Widget(3), flag="--cooling", help="What cools it.",
                 is_younger=True),
    ] = "air"
    site: Annotated[
        str | None,
        FieldRow("Site", FieldSection.ADVANCED, widget=Widget(7), flag="--site", help="Site.", is_younger=True),
    ] = None
"""  # noqa: E501
"""One field of each kind: a number, one that may be unset and shares a line in reports, a choice,
and a text."""
DRY_RUN = """
import json, sys
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest
from advisor.cli import root
from advisor.answers.advice import advise
from advisor.show.words.compare import comparison_table, setting_lines, short_names
from advisor.predict.scenario import Scenario, read_scenario, scenario_json
from tests.golden.cli_reference import reference
from tests.golden.scenario_table import table

plain = Scenario(acceptance="2.4@3")
other = Scenario(acceptance="2.4@3", warm_hours=9, share=0.75, cooling="liquid", site="north")
asked = ["--warm", "9", "--share", "0.75", "--cooling", "liquid", "--site", "north"]
run = CliRunner().invoke(root, ["advise", "--example", "qwen", *asked, "--json"], standalone_mode=False)
refused = CliRunner().invoke(root, ["advise", "--example", "qwen", "--warm", "100"])
test = AppTest.from_file("app.py", default_timeout=60)
for name, value in {"acceptance": "2.4@3", "share": "0.75", "cooling": "liquid", "site": "north"}.items():
    test.query_params[name] = value
test.run()
test.number_input(key="warm_hours").set_value(9).run()
subject = [advise(plain), advise(other)]
json.dump({
    "exceptions": [item.value for item in test.exception],
    "options": json.loads(run.output)["scenario"],
    "refused": str(refused.exception),
    "reference": reference(),
    "labels": [test.number_input(key="warm_hours").label, test.selectbox(key="cooling").label],
    "help": test.number_input(key="warm_hours").help,
    "limits": [test.number_input(key="warm_hours").min, test.number_input(key="warm_hours").max],
    "screen": test.session_state["_scenario"] == other,
    "address": {name: str(value) for name, value in test.query_params.items()},
    "comparison": {row[0]: row[1:] for row in comparison_table(subject, "ab").cells[:4]},
    "names": short_names([plain, plain.model_copy(update={"warm_hours": 9})]),
    "report": setting_lines(subject[1].setup),
    "report_unset": setting_lines(subject[0].setup),
    "link": Scenario.from_query(other.to_query()) == other,
    "file": read_scenario(scenario_json(other).encode()).scenario == other,
    "hash": plain.hash,
    "docs": table(),
}, sys.stdout)
"""  # noqa: E501


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each place says after the made-up fields were added to scenario/fields.py of a copy, and
    to nothing else."""
    home = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "advisor", home / "advisor")
    for name in ("app.py", ".streamlit"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, home / name)
    for name in ("profiles", "measurements", "tests", "docs"):
        (home / name).symlink_to(ROOT / name)
    table = home / "advisor/predict/scenario_fields.py"
    before, after = table.read_text(encoding="utf-8").split("\n\n\nFIELDS = ")
    table.write_text(f"{before}{MADE_UP}\n\nFIELDS = {after}", encoding="utf-8")
    environment = os.environ | {
        "MOE_ADVISOR_STORE": str(home / "none.duckdb"),
        "PYTHONPATH": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-c", DRY_RUN],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_field_of_one_row_is_an_option_of_every_command(dry_run: dict[str, Any]) -> None:
    given = dry_run["options"]
    assert (given["warm_hours"], given["share"], given["cooling"], given["site"]) == (
        9,
        0.75,
        "liquid",
        "north",
    )
    assert "--warm 100" in dry_run["refused"]
    for option in (
        "`--warm INTEGER` | Hours kept warm. [default: 7]",
        "`--share FLOAT`",
        r"`--cooling [air\|liquid]`",
    ):
        assert (
            dry_run["reference"].count(option)
            == dry_run["reference"].count("`--max-tpot-ms FLOAT`")
            == 1
        )


def test_it_has_a_widget_that_makes_the_scenario_and_the_address(dry_run: dict[str, Any]) -> None:
    assert not dry_run["exceptions"]
    assert dry_run["labels"] == ["Warm hours", "Cooling"]
    assert dry_run["help"] == "Made up. From 1 to 99."
    assert dry_run["limits"] == [1, 99]
    assert dry_run["screen"]
    assert {"warm_hours", "share", "cooling", "site"} <= dry_run["address"].keys()


def test_it_stands_in_the_comparison_and_in_short_names(dry_run: dict[str, Any]) -> None:
    assert dry_run["comparison"] == {
        "Cooling": ["air", "liquid"],
        "Warm hours": ["7", "9"],
        "Share": ["whole", "0.75"],
        "Site": ["not set", "north"],
    }
    assert dry_run["names"] == ["warm 7 h", "warm 9 h"]


def test_it_stands_in_a_report_s_settings(dry_run: dict[str, Any]) -> None:
    assert (dry_run["report"]["Warm hours"], dry_run["report"]["Cooling"]) == ("9", "liquid")
    assert (dry_run["report"]["Limit"], dry_run["report_unset"]["Limit"]) == (
        "none, share 0.75",
        "none",
    )


def test_links_and_files_carry_it_and_earlier_hashes_hold(dry_run: dict[str, Any]) -> None:
    assert dry_run["link"]
    assert dry_run["file"]
    assert dry_run["hash"] == Scenario(acceptance="2.4@3").hash


def test_it_is_documented(dry_run: dict[str, Any]) -> None:
    assert (
        "| `warm_hours` | Warm hours | Hours kept warm. | 1 to 99 h | `7` | `--warm` |"
        in dry_run["docs"]
    )


def test_the_documented_settings_are_those_of_the_table() -> None:
    text = scenario_table.FILE.read_text(encoding="utf-8")
    assert scenario_table.table() in text, "run: python -m tests.golden.scenario_table"


def test_a_scenario_has_the_fields_of_the_table_and_no_other() -> None:
    assert Scenario.model_fields.keys() == FIELDS.keys()
    assert {row.name for row in SETTINGS} | DOCUMENTS.keys() == FIELDS.keys()
    assert set(DOCUMENTS.values()) <= FIELDS.keys()


def test_what_can_be_given_can_be_given_on_screen_and_as_an_option() -> None:
    assert [row.name for row in SETTINGS if not row.flags] == ["checkpoint"], (
        "it is the name under which the model was given"
    )
    assert [row.name for row in SETTINGS if row.widget is None] == [
        "checkpoint",
        *RANK_FIELDS,
        "refit",
        "plain_sweep",
    ]
    flags = [flag.name for row in SETTINGS for flag in row.flags]
    assert len(set(flags)) == len(flags)


def test_no_two_widgets_of_a_heading_go_by_one_label() -> None:
    shown = [(row.screen_section, row.screen_label) for row in SETTINGS if row.widget is not None]
    assert len(set(shown)) == len(shown)


def test_a_field_without_a_row_or_a_number_without_limits_is_refused() -> None:
    class NoRow(BaseModel):
        plain: int = 1

    class NoLimits(BaseModel):
        endless: Annotated[int, Field(ge=1), FieldRow("Endless", FieldSection.LOAD)] = 1

    with pytest.raises(TypeError, match="plain has no FieldRow"):
        rows_of(NoRow)
    with pytest.raises(TypeError, match="endless has no limits"):
        rows_of(NoLimits)
