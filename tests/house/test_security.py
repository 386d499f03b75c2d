"""Threats of docs/security.md that no other test file covers, and the list itself."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import advisor.cli.app
from advisor.catalog.models import model_profile
from advisor.predict.load import _remembered, load_setup
from advisor.predict.scenario import Scenario
from tests.catalog.test_hardware import POD
from tests.pages.app_page import go_to

ROOT = Path(__file__).resolve().parents[2]


def test_no_page_renders_html_from_text() -> None:
    for path in [ROOT / "app.py", ROOT / "serve.py", *(ROOT / "advisor" / "ui").rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert "unsafe_allow_html" not in text, path.name
        assert "st.html(" not in text or path.name == "server.py", (
            path.name
        )  # a constant of the app's own


REFIT = "on=h200-sxm/vllm/vllm;n=5;data=0123456789ab;routed=1.1/0.05;corr=0/0/0/0/0/0/0/0/0/0"


@pytest.mark.parametrize(
    "private",
    [
        {"model_config_json": json.dumps(dict(model_profile("mixtral-8x7b").config))},
        {"hardware_id": "own-pod-of-2027", "hardware_json": json.dumps(POD)},
        {"refit": REFIT},
    ],
    ids=["model", "accelerator", "refit"],
)
def test_what_is_a_users_own_is_not_kept_in_the_shared_caches(private: dict[str, str]) -> None:
    own = Scenario(acceptance="2.4@3", **private)
    before = _remembered.cache_info().currsize
    assert load_setup(own) is not load_setup(own)
    assert _remembered.cache_info().currsize == before
    assert own.is_private


def test_one_file_alone_asks_another_machine() -> None:
    asks = re.compile(
        r"^\s*(?:import|from) (?:urllib\.request|http\.client|socket|requests|httpx)", re.M
    )
    modules = (ROOT / "advisor").rglob("*.py")
    asking = [path for path in modules if asks.search(path.read_text(encoding="utf-8"))]
    # The app asks its own machine whether a port is taken.
    own_machine = ROOT / "advisor" / "cli" / "app.py"
    assert sorted(asking) == [own_machine, ROOT / "advisor" / "measured" / "server.py"]
    assert advisor.cli.app.HOST == "127.0.0.1"


def test_the_app_is_served_to_this_machine_alone_and_hides_errors() -> None:
    config = (ROOT / ".streamlit/config.toml").read_text(encoding="utf-8")
    assert 'address = "127.0.0.1"' in config
    assert 'showErrorDetails = "type"' in config
    assert "gatherUsageStats = false" in config


def test_every_uploader_has_a_limit_that_the_server_holds() -> None:
    limit = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))["server"][
        "maxUploadSize"
    ]
    for path in (ROOT / "advisor" / "ui").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count(".file_uploader(") == text.count("max_upload_size="), path.name
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    test.session_state["process"] = "trace"  # the one way of simulating that takes a file
    for name, settings in (("measure", {}), ("serve", {"serve_tab": "Simulate"})):
        for key, value in settings.items():
            test.session_state[key] = value
        go_to(test, name).run()
        assert not test.exception
        sizes = {item.label: item.proto.max_upload_size_mb for item in test.file_uploader}
        assert len(sizes) >= 3
        assert all(0 < size <= limit for size in sizes.values()), sizes


def test_ids_that_a_user_gave_are_escaped_where_they_meet_markdown() -> None:
    """Markdown with a scenario's or file's own words goes through `widgets.plain`."""
    name = r"\{[\w.]*\b(?:model_id|hardware_id|file_name|format_name)\b"
    bare = re.compile(rf"st\.(?:markdown|caption|info|warning|error|toggle)\(\s*f\"[^\"]*{name}")
    assert bare.search('st.info(f"runs of {scenario.model_id}")')
    for path in (ROOT / "advisor" / "ui").rglob("*.py"):
        assert not bare.findall(path.read_text(encoding="utf-8")), path.name


def test_every_test_file_that_the_threat_list_names_exists() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    tests_folder = ROOT / "tests"
    files = {
        path.relative_to(tests_folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in tests_folder.rglob("test_*.py")
    }
    rows = [
        line
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| threat")
    ]
    assert len(rows) >= 15
    for row in rows:
        tests = row.rstrip("| ").rsplit("|", 1)[1]
        named = re.findall(r"\btest_[a-z0-9_]+", tests)
        assert named, row
        for name, cases in re.findall(
            r"((?:[a-z0-9_]+/)?test_[a-z0-9_]+)(?:: ([a-z_, ]*))?", tests
        ):
            assert name in files, f"{name} is no test file"
            for case in re.findall(r"\b[a-z]+_[a-z_]+\b", cases or ""):
                if not case.startswith("test_"):
                    assert case in files[name], f"{name} has no {case}"
