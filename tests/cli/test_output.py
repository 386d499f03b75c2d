"""How far a long command is: on a terminal, on standard error, and nowhere else.

Each command, option, environment variable and configured setting is documented, and no other.

A model given as a file: it is what its configuration says, whatever it is called and whichever way
it comes in.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.cells import sweep_rows
from advisor.catalog.hf.layers import EXPERT_COUNT_KEYS
from advisor.catalog.models import model_ids, model_profile, short_name
from advisor.cli import HELP, output, root
from advisor.cli.asked import scenario_from
from advisor.cli.output import progress
from advisor.physics.architecture import WeightDtype
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.show.words.compare import comparison_table
from tests.command_line import QWEN, Run
from tests.golden.cli_reference import FILE, commands, pages, reference


class Terminal(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "glance_s", "expected"),
    [(True, 0.0, "\r\x1b[Ksimulating Cascade: 50%\r\x1b[K"), (True, 60.0, ""), (False, 0.0, "")],
)
def test_progress_is_shown_on_a_terminal_once_it_takes_long_and_goes_at_the_end(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, glance_s: float, expected: str
) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output, "_GLANCE_S", glance_s)
    show = progress("simulating")
    show("Cascade", 0.5)
    show(1)
    assert terminal.getvalue() == expected


ROOT = Path(__file__).resolve().parents[2]


SETTINGS = (ROOT / "docs/install.md").read_text(encoding="utf-8")


MAKE = {"BUDGET_S", "PYTHON", "PORT"}


def documented() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)`", SETTINGS, flags=re.M))


def test_the_command_line_s_page_is_what_the_commands_say_and_each_option_says_what_it_is_for() -> (
    None
):
    silent = [
        f"{name} {'/'.join(option.opts)}"
        for name, command in commands()
        for option in command.params
        if option.param_type_name == "option" and not getattr(option, "help", None)
    ]
    assert not silent
    assert all(command.help for _, command in commands())
    written = (FILE.read_text(encoding="utf-8"), HELP.read_text(encoding="utf-8"))
    assert written == (reference(), pages()), "run: python -m tests.golden.cli_reference"


@pytest.mark.parametrize("width", ["60", "120"])
def test_the_help_that_was_written_is_the_command_s_own(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for name, command in commands():
        if name == "profile":  # the profiler prints its own (test_report)
            continue
        words = name.split()
        parent = click.Context(root, info_name="advisor", **root.context_settings)
        whole = click.Context(command, info_name=name, parent=parent)
        assert run(*words, "--help")[1] == f"{whole.get_help()}\n"


def test_every_environment_variable_is_documented_and_no_other() -> None:
    files = [*(ROOT / "advisor").rglob("*.py"), ROOT / "app.py", ROOT / "tests/e2e/app_server.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    read = set(re.findall(r"\bMOE_ADVISOR_[A-Z_]+\b", code))
    read |= set(re.findall(r'environ\.get\("(?!PYTHONPATH)(\w+)"', code))
    assert len(read) >= 4
    assert read == {name for name in documented() if name.isupper()} - MAKE


def test_every_variable_of_the_makefile_is_documented() -> None:
    given = re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert set(given) - {"VENV", "BIN"} == MAKE <= documented()


def test_every_setting_of_the_app_is_documented_with_its_value() -> None:
    found = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
    wanted = {
        f"{section}.{name}": value if isinstance(value, str) else json.dumps(value)
        for section in ("server", "browser", "client")
        for name, value in found[section].items()
    }
    for name, value in wanted.items():
        assert f"| `{name}` | {value} |" in SETTINGS, name
    assert {name for name in documented() if "." in name} == set(wanted)


@pytest.mark.parametrize(
    "typed",
    [
        ("advise", *QWEN, "--batch", "1\N{FULLWIDTH DIGIT SIX}"),
        ("advise", *QWEN, "--batch", "1_6"),
        ("simulate", *QWEN, "--load", "nan"),
        ("design", *QWEN, "--top", "\N{ARABIC-INDIC DIGIT FOUR}"),
        ("explore", "--users", "1\N{FULLWIDTH DIGIT SIX}"),
    ],
)
def test_an_option_takes_a_number_in_ascii_digits_alone(run: Run, typed: tuple[str, ...]):
    status, printed, said = run(*typed)
    assert (status, printed) == (2, "")
    assert re.search(f"'{typed[-1]}' is not a (whole )?number", said)


WAYS_IN = ("file", "cache", "python", "unnamed", "link")
PLACE = {"hardware_id": "h200-sxm", "drafter_id": "ngram"}


def grown(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with one more expert, or with dense blocks that are 128 wider."""
    counts = {key: config[key] + 1 for key in EXPERT_COUNT_KEYS if isinstance(config.get(key), int)}
    nested = {
        key: grown(config[key])
        for key in ("ffn_config", "text_config")
        if isinstance(config.get(key), dict)
    }
    wider = {} if counts or nested else {"intermediate_size": config["intermediate_size"] + 128}
    return {**config, **counts, **nested, **wider}


def given(
    config: Mapping[str, Any], name: str, way: str, folder: Path, weight_dtype: str | None
) -> Scenario:
    """The scenario of a configuration that comes in under a name."""
    asked = {**PLACE, "weight_dtype": weight_dtype}
    text = json.dumps(config)
    if way in ("file", "cache"):
        path = folder / (
            f"models--org--{name}/snapshots/0123456789abcdef" if way == "cache" else name
        )
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(text)
        return scenario_from({**asked, "model_id": str(path), "accepted_length": "2.4@3"})
    named = {} if way == "unnamed" else {"model_id": name}
    made = build_scenario(**asked, **named, acceptance="2.4@3", model_config_json=text)
    return Scenario.from_query(made.to_query()) if way == "link" else made


def answer(scenario: Scenario) -> tuple[object, ...]:
    """What a reader sees of a model: weights, cache, times, speedups, routing, whose acceptance."""
    setup = load_setup(scenario)
    curve = curve_for(setup, [16], [0, 3])
    times = (curve.plain_step_s.tolist(), curve.speedup.tolist(), str(curve.tier))
    return (
        setup.memory,
        setup.cache,
        *times,
        setup.routing and setup.routing.id,
        setup.acceptance.borrowed,
    )


@pytest.mark.parametrize(("place", "model_id"), enumerate(model_ids()))
def test_a_model_is_what_its_config_says_and_not_what_it_is_called(
    place: int, model_id: str, tmp_path: Path
) -> None:
    """The same file answers alike under any name, and one more expert under the same name does
    not."""
    profile = model_profile(model_id)
    called = (model_id, short_name(model_profile(model_id).hf_repo))[place % 2]
    config = dict(profile.config)
    released = [each.weight_format for each in profile.published_formats]
    named = [
        (name, WAYS_IN[(place + step) % len(WAYS_IN)]) for step, name in enumerate((called, "mine"))
    ]
    for weight_dtype in (None, released[-1] if released else get_args(WeightDtype)[place % 8]):
        shipped = answer(
            build_scenario(
                **PLACE, model_id=model_id, weight_dtype=weight_dtype, acceptance="2.4@3"
            )
        )
        same = [answer(given(config, name, way, tmp_path, weight_dtype)) for name, way in named]
        other = [
            answer(given(grown(config), name, way, tmp_path, weight_dtype)) for name, way in named
        ]
        assert same[0] == same[1], (weight_dtype, named)
        # A profile that states its weights' format beside the configuration says more than a copy
        # of that does.
        assert same[0] == shipped or profile.weight_dtypes is not None, weight_dtype
        assert other[0] == other[1], (weight_dtype, named)
        assert other[0][0] != shipped[0], weight_dtype
        assert other[0][2:4] != shipped[2:4], weight_dtype


def test_a_sweep_and_a_comparison_go_by_the_config_too(tmp_path: Path) -> None:
    config = dict(model_profile("qwen3-30b-a3b").config) | {"num_experts": 512}
    made = [given(config, name, "file", tmp_path, "fp8") for name in ("mine", "Qwen3-30B-A3B")]
    made.append(given(config, "", "unnamed", tmp_path, "fp8"))
    swept = [
        sweep_rows([one.model_dump(exclude={"batch_size"})], [16]).drop(columns="model_id")
        for one in made
    ]
    assert set(swept[0].reason) == {""}
    assert swept[0].equals(swept[1])
    assert swept[0].equals(swept[2])
    rows = {
        label: values
        for label, *values in comparison_table([advise(one) for one in made], "abc").cells
    }
    answers = list(rows)[list(rows).index("Draft length K") :]
    assert {len(set(rows[label])) for label in answers} == {1}
    assert rows["Draft length K"][0] == "3"
