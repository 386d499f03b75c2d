"""The hostile corpus through every command and every uploader: an answer or one sentence, soon, and
nothing else."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from advisor.cli import main
from advisor.measured.ingest.traces import read_power_log
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.ui.bar import _open, _share_key, _take_file, _take_hardware_file
from advisor.ui.measure.drop import take
from advisor.ui.measure.traces import POWER, take_acceptance, take_trace
from advisor.ui.serve.sweep import _take as sweep_panel_take
from tests.command_line import QWEN
from tests.hostile.corpus import corpus

LONGEST_SENTENCE = 1500
SCENARIO = Scenario(acceptance="2.4@3")
DESIGN = ("--drafter", "eagle3", "--accepted-length", "2.4@3")
COMMANDS: dict[str, tuple[str, ...]] = {
    "ingest": ("ingest",),
    "fit": ("fit", "--accepted-length", "2.4@3"),
    "predict": ("predict",),
    "validate": ("validate",),
    "acceptance": ("acceptance",),
    "trace by experts": ("trace", "--experts", "8"),
    "trace by model": ("trace", "--model", "qwen3-30b-a3b"),
    "model": ("advise", "--hardware", "h200-sxm", *DESIGN, "--model"),
    "accelerator": ("advise", "--model", "qwen3-30b-a3b", *DESIGN, "--hardware"),
    "scenario": ("advise", "--scenario"),
    "refit": ("advise", *QWEN, "--refit"),
    "compare": ("explore", "mixtral"),
    "sweep": ("explore", "--dry-run", "--output", "never", "--plan"),
    "simulate": ("simulate", *QWEN, "--iterations", "20", "--requests", "4", "--trace"),
}
SHARING = {
    "ingest": (0, 2),
    "fit": (1, 2),
    "predict": (0, 2),
    "validate": (1, 2),
    "trace by experts": (0, 2),
    "trace by model": (1, 2),
}
"""Commands that read a file by the same reader share the corpus: each takes every second file."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    made = {}
    for name, data in corpus().items():
        made[name] = folder / name
        made[name].write_bytes(data)
    return made


def called(arguments: tuple[str, ...]) -> tuple[int, str, str]:
    out = io.StringIO()
    err = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return code, out.getvalue(), err.getvalue()


def test_the_corpus_is_large_and_the_same_every_time(files: dict[str, Path]) -> None:
    assert len(files) >= 150
    again = corpus()
    assert all(path.read_bytes() == again[name] for name, path in files.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_file_through_a_command_gives_an_answer_or_one_sentence(
    files: dict[str, Path], command: str
) -> None:
    wrong = []
    start, step = SHARING.get(command, (0, 1))
    for name, path in list(files.items())[start::step]:
        try:
            code, _, err = called((*COMMANDS[command], str(path)))
        # Whatever comes out but SystemExit is the fault this test looks for.
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        last = err.splitlines()[-1] if err else ""
        if (
            code not in (0, 2)
            or (code == 2 and not last.startswith("error: "))
            or len(last) > LONGEST_SENTENCE
        ):
            wrong.append(f"{name}: exit {code}: {err[:300]}")
    assert not wrong, "\n".join(wrong)


class Session(dict[str, Any]):
    """A session's state outside of a page."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


class UserFile(io.BytesIO):
    """A file as an uploader hands it over."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.read_bytes())
        self.name, self.size = path.name, path.stat().st_size


def _dropped(given: UserFile) -> None:
    """Through the dispatcher, as the zone of Measure takes it."""
    st.session_state.setdefault("model_id", "qwen3-30b-a3b")
    st.session_state.setdefault("drafter_id", "eagle3")
    st.session_state.setdefault("acceptance", "2.4@3")
    take({given.name: given.getvalue()}, SCENARIO)


def _model(given: UserFile) -> None:
    bar = {"model_id": "qwen3-30b-a3b", "drafter_id": "eagle3", "acceptance": "2.4@3"}
    st.session_state.update({"config_file": given} | bar)
    _take_file()


def _accelerator(given: UserFile) -> None:
    st.session_state["hw_file"] = given
    st.session_state["hardware_id"] = "h200-sxm"
    _take_hardware_file()


def _scenario(given: UserFile) -> None:
    st.session_state[_share_key()] = given
    _open()


def _sweep(given: UserFile) -> None:
    st.session_state["sweep_files"] = [given]
    sweep_panel_take()


UPLOADERS: dict[str, Callable[[UserFile], None]] = {
    "dropped": _dropped,
    "acceptance": lambda given: take_acceptance([(given.name, given.getvalue())]),
    "routing trace": lambda given: take_trace(
        load_setup(SCENARIO), [(given.name, given.getvalue())]
    ),
    "power": lambda given: POWER.take(read_power_log, given.name, given.getvalue()),
    "config.json": _model,
    "accelerator": _accelerator,
    "scenario": _scenario,
    "sweep": _sweep,
}


@pytest.mark.parametrize("uploader", UPLOADERS)
def test_every_file_through_an_uploader_leaves_the_page_alive(
    files: dict[str, Path], uploader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    for name, path in files.items():
        monkeypatch.setattr(st, "session_state", Session())
        try:
            UPLOADERS[uploader](UserFile(path))
        # A callback's exception is what a visitor would see as a broken page.
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        told = [text for key, text in st.session_state.items() if key.endswith("problem")]
        wrong += [
            f"{name}: {len(text)} characters: {text[:200]}"
            for text in told
            if len(str(text)) > 3000
        ]
    assert not wrong, "\n".join(wrong)
