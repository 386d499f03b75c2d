"""`pip install .`: what the wheel holds, that it runs away from the checkout, and which packages it
asks for."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import advisor.cli
from advisor.measured.store import data_folder
from advisor.profiles import data_root
from advisor.profiling.device import TORCH_MISSING
from tests.golden.mcp import call

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network."""
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
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the unpacked wheel."""
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
    assert "--gpus" in run_there(unpacked, tmp_path, "-m", "advisor", "advise", "--help")
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
        if one.name != PROJECT["name"]
    }
    pins = pinned("requirements.txt")
    assert len(pins) >= 14
    assert set(pins) == set(wanted)
    for name, version in pins.items():
        assert version in wanted[name].specifier, f"{wanted[name]} forbids the pinned {version}"
    first, last = re.findall(r"2\.(\d+)", TORCH_MISSING)
    assert str(wanted["torch"].specifier) == f"<2.{int(last) + 1},>=2.{first}"
    assert f"torch (2.{first} to 2.{last})" in (ROOT / "docs/profiling.md").read_text(
        encoding="utf-8"
    )


CORE = ("click", "numpy", "pydantic", "pyyaml")
GPT_OSS = ("gpt-oss-20b", "--gpus", "1xH200")
OF_THE_CORE: dict[str, tuple[str, ...]] = {
    "advise": GPT_OSS,
    "schedule": GPT_OSS,
    "curve": GPT_OSS,
    "explain": GPT_OSS,
    "export": (*GPT_OSS, "--output", "out", "--draft-model", "org/head"),
    "design": ("--gpus", "1xB200", "--batch", "64", "--target-total", "40B"),
    "explore": (*GPT_OSS, "--vary", "drafter"),
    "report": (*GPT_OSS, "--output", "answer.html"),
    "models": (),
    "hardware": (),
    "presets": (),
    "examples": (),
}
"""Commands that need nothing but the core, with arguments."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to the packages of the core, theirs included, and to nothing else."""
    folder = tmp_path_factory.mktemp("core")
    waiting = list(CORE)
    linked: set[str] = set()
    while waiting:
        distribution = importlib.metadata.distribution(waiting.pop())
        name = canonicalize_name(distribution.metadata["Name"])
        if name in linked:
            continue
        linked.add(name)
        for file in distribution.files or []:
            top = Path(file.parts[0])
            source = Path(str(distribution.locate_file(top)))
            if ".." not in file.parts and source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)
        needs = map(Requirement, distribution.requires or [])
        waiting += [one.name for one in needs if one.marker is None or one.marker.evaluate()]
    return folder


@pytest.mark.parametrize("command", OF_THE_CORE)
def test_an_answer_needs_four_packages(
    unpacked: Path, core: Path, tmp_path: Path, command: str
) -> None:
    assert {canonicalize_name(Requirement(one).name) for one in PROJECT["dependencies"]} == set(
        CORE
    )
    printed = run_with(unpacked, core, tmp_path, command, *OF_THE_CORE[command])
    assert printed.returncode == 0, printed.stderr
    assert len(printed.stdout) > 200


@pytest.mark.thorough
def test_an_answer_without_an_installation(
    wheel: Path, unpacked: Path, core: Path, tmp_path: Path
) -> None:
    """`uvx --from WHEEL advisor advise`: from an empty cache, the packages from the index."""
    if (uvx := shutil.which("uvx")) is None:
        pytest.skip("no uv here")
    done = subprocess.run(
        [uvx, "--python", sys.executable, "--from", str(wheel), "advisor", "advise", *GPT_OSS],
        cwd=tmp_path,
        env=os.environ | {"UV_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own = run_with(unpacked, core, tmp_path, "advise", *GPT_OSS)
    headline = own.stdout.splitlines()[:3]  # the rest makes room for the command's longer name
    assert headline
    assert done.stdout.splitlines()[:3] == headline


def test_an_agents_tools_need_four_packages(unpacked: Path, core: Path, tmp_path: Path) -> None:
    called = call(1, "advise", model=GPT_OSS[0], gpus=GPT_OSS[2])
    printed = run_with(unpacked, core, tmp_path, "mcp", typed=json.dumps(called))
    assert (printed.returncode, printed.stderr) == (0, "")
    assert not json.loads(printed.stdout)["result"]["isError"]


@pytest.mark.parametrize(("package", "extra"), advisor.cli._EXTRAS.items())
def test_the_extra_that_brings_a_package_is_the_projects(package: str, extra: str) -> None:
    name = "prometheus-client" if package == "prometheus_client" else package
    brought = PROJECT["optional-dependencies"][extra]
    assert name in {canonicalize_name(Requirement(one).name) for one in brought}


def test_a_missing_extra_is_named_in_one_sentence(
    unpacked: Path, core: Path, tmp_path: Path
) -> None:
    (tmp_path / "runs.csv").write_text("batch_size,tpot_s\n1,0.01\n", encoding="utf-8")
    printed = run_with(unpacked, core, tmp_path, "ingest", "runs.csv")
    assert (printed.returncode, printed.stdout) == (2, "")
    assert printed.stderr == (
        "error: this needs pandas, which is not installed; `pip install 'moe-sd-advisor[data]'`\n"
    )


def run_with(
    unpacked: Path, core: Path, folder: Path, *words: str, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """`advisor WORDS` by an interpreter that sees the wheel and the core alone. typed : on its
    standard input."""
    environment = {"PYTHONPATH": f"{unpacked}{os.pathsep}{core}", "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-S", "-P", "-m", "advisor", *words],
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
