"""For all tests."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.golden.sentences import Golden

os.environ.pop(
    "COLUMNS", None
)  # xdist tells its workers of a terminal of 80; prose would wrap there and nowhere else

TESTS = Path(__file__).resolve().parent
LONGEST_FIRST = (
    "e2e/test_journeys.py",
    "e2e/test_files.py",
    "hostile/test_corpus.py",
    "profiling/test_results.py",
    "pages/test_app.py",
    "pages/test_uploads.py",
    "pages/test_profile.py",
    "measured/test_points.py",
    "show/test_report_document.py",
    "hostile/test_faults.py",
)
"""Files that take long, whole, on one worker: begun last, they would leave the others idle."""
TOGETHER = (
    (
        "studies/test_own_runs.py",
        "studies/test_unseen.py",
        "studies/test_fits_overheads.py",
        "measured/test_points.py",
    ),
)
"""Files that share what is made once a worker (tests/published.py)."""

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
"""An example takes as long as a busy machine lets it: a test judges what comes out, never the
time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first; all else stays in its order (`--no-loadscope-reorder`: xdist would go
    by their number of tests, and the longest files have few)."""
    rank = {TESTS / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


class _InGroups(LoadFileScheduling):
    """A worker for each file, and one for all files of TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((group[0] for group in TOGETHER if file.removeprefix("tests/") in group), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _InGroups | None:
    """In place of `--dist loadfile`."""
    return _InGroups(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def _components_are_looked_for_once() -> Iterator[None]:
    """Each AppTest reads the metadata of every installed package for components of Streamlit, 0.2
    processor seconds; what is installed does not change while tests run. A run that has collected
    no page imports nothing here."""
    if "streamlit" not in sys.modules:
        yield
        return
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as kept:
        kept.setattr(
            manifest_scanner,
            "scan_component_manifests",
            functools.cache(manifest_scanner.scan_component_manifests),
        )
        yield


@pytest.fixture
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No store of kernel tables: what is asked for here must work without."""
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Holds the test's sentences against those that were reviewed (tests/golden/sentences.py)."""
    return Golden(request.path.parent, f"{request.path.name}::{request.node.name}")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """One call of the command line (tests/command_line.py), which is imported where it is called
    alone."""
    from tests import command_line

    return functools.partial(command_line.run, capsys)
