"""Files that others expect of a project: container, workflow, citation, how to contribute."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in DOCKERFILE.replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def of_docker(name: str) -> list[str]:
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def test_the_container_serves_the_app_on_its_port_without_root() -> None:
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "CMD"}
    assert {instruction for instruction, _ in INSTRUCTIONS} == known
    (user,) = of_docker("USER")
    (port,) = of_docker("EXPOSE")
    (command,) = of_docker("CMD")
    words = yaml.safe_load(command)
    assert user != "root"
    assert words[words.index("--server.port") + 1] == port
    assert (ROOT / words[words.index("run") + 1]).is_file()
    assert [name for name, _ in INSTRUCTIONS].index("USER") < len(INSTRUCTIONS) - 2
    for copied in of_docker("COPY"):
        *sources, _ = [word for word in shlex.split(copied) if not word.startswith("--")]
        assert all((ROOT / source).exists() for source in sources)


@pytest.mark.thorough
def test_the_container_builds() -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], check=False).returncode:
        pytest.skip("no docker runs here")
    subprocess.run(["docker", "build", "--quiet", str(ROOT)], check=True, timeout=1800)


def test_the_workflow_runs_what_a_developer_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["test"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == ["make test"]
    (python,) = [step["with"]["python-version"] for step in steps if "with" in step]
    stated = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert stated == [python], "only versions that a run shows are stated"


def test_the_citation_has_what_a_reader_of_it_needs() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_how_to_contribute_names_targets_and_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, flags=re.M))
    assert targets
    assert all(re.search(rf"^{target}:", MAKEFILE, flags=re.M) for target in targets)
    assert all((ROOT / link).exists() for link in re.findall(r"\]\(([^)]+)\)", text))
