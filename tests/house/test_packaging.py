"""`pip install .`: what the wheel holds, that it runs away from the checkout, and which packages it
asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from advisor.measured.store import data_folder
from advisor.profiles import data_root
from advisor.profiling.device import TORCH_MISSING

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel, built without network."""
    pytest.importorskip("hatchling", reason="the build backend is in requirements-dev.txt")
    built = tmp_path_factory.mktemp("built")
    options = [
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--quiet",
        "--wheel-dir",
        str(built),
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(ROOT), *options], check=True, timeout=60
    )
    (wheel,) = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def run_there(unpacked: Path, folder: Path, *arguments: str) -> str:
    """What `python ARGUMENTS` prints in `folder` with the unpacked wheel as its only advisor."""
    environment = os.environ | {
        "PYTHONPATH": str(unpacked),
        "PYTHONSAFEPATH": "1",
        "HOME": str(folder),
    }
    environment["MOE_ADVISOR_STORE"] = str(folder / "none.duckdb")
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["profiles", "measurements"])
def test_the_wheel_holds_all_data(unpacked: Path, name: str) -> None:
    assert files_below(unpacked / "advisor/_data" / name) == files_below(ROOT / name)


def test_the_wheel_holds_the_app_its_settings_the_templates_and_the_command(unpacked: Path) -> None:
    packed = files_below(unpacked)
    here = {"app.py", "serve.py", ".streamlit/config.toml"}
    assert {f"advisor/_data/{name}" for name in here} <= packed
    templates = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "advisor").rglob("templates/*")
    }
    assert templates, "the report's"
    assert templates <= packed
    assert "advisor/py.typed" in packed
    (entry,) = [name for name in packed if name.endswith("entry_points.txt")]
    assert "advisor = advisor.cli:main" in (unpacked / entry).read_text(encoding="utf-8")


def test_the_wheel_holds_no_tests_and_nothing_that_writes_the_checkout(unpacked: Path) -> None:
    assert not [
        name
        for name in files_below(unpacked)
        if name.startswith(("tests/", "docs/", "studies/", "tools/"))
    ]


def test_the_command_runs_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    assert "advise" in run_there(unpacked, tmp_path, "-m", "advisor", "--help")
    listed = run_there(unpacked, tmp_path, "-m", "advisor", "hardware").splitlines()
    assert len(listed) > len(files_below(ROOT / "profiles/hardware"))


PAGE_LINKS = """
import sys
from streamlit.testing.v1 import AppTest
from advisor.profiles import data_root
test = AppTest.from_file(str(data_root() / "app.py"), default_timeout=60)
test.query_params["acceptance"] = "2.4@3"
test.run()
assert not test.exception, test.exception[0].message
print(data_root(), [one.proto.component_name for one in test.get('bidi_component')])
"""


def test_the_app_draws_its_first_page_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    """The page links to another one."""
    printed = run_there(unpacked, tmp_path, "-c", PAGE_LINKS)
    assert printed.startswith(str(unpacked / "advisor/_data"))
    assert "live_answer" in printed, "the scripts of the live answer are part of the package"


def test_a_checkout_keeps_its_data_and_its_store_in_its_own_folder() -> None:
    assert data_root() == ROOT
    assert data_folder() == ROOT / ".data"


def test_an_installed_advisor_writes_to_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("platformdirs")
    package = tmp_path / "advisor"
    (package / "_data").mkdir(parents=True)
    assert data_root(package) == package / "_data"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    written = data_folder(package)
    assert written.name == "moe-sd-advisor"
    assert tmp_path / "own" == written.parent or sys.platform != "linux"
    assert not written.is_relative_to(package)


def pinned(file: str) -> dict[str, str]:
    """Version of each package that a requirements file pins, by its canonical name, until the first
    empty line."""
    main = (ROOT / file).read_text(encoding="utf-8").split("\n\n")[0]
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", main, flags=re.M)
    }


def test_every_main_package_is_a_dependency_and_its_pin_satisfies_it() -> None:
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    wanted = {
        canonicalize_name(one.name): one
        for one in map(Requirement, [*PROJECT["dependencies"], *extras])
    }
    pins = pinned("requirements.txt")
    assert len(pins) >= 14
    for name, version in pins.items():
        assert name in wanted, (
            f"{name} is pinned in requirements.txt and no dependency in pyproject.toml"
        )
        assert version in wanted[name].specifier, f"{wanted[name]} forbids the pinned {version}"
    needed = {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]}
    assert needed == set(pins) - {"torch"}, "each dependency is pinned among the main packages"
    first, last = re.findall(r"2\.(\d+)", TORCH_MISSING)
    assert str(wanted["torch"].specifier) == f"<2.{int(last) + 1},>=2.{first}"
    assert f"torch (2.{first} to 2.{last})" in (ROOT / "docs/profiling.md").read_text(
        encoding="utf-8"
    )
