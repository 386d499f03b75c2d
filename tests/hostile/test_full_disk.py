"""A disk that is really full: a file system of four megabytes, where the system lets a user mount
one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.sentences import Golden

ROOT = Path(__file__).resolve().parents[2]
SIZE_BYTES = 4 * 2**20
MOUNTED = """
set -e
mount -t tmpfs -o size={size} tmpfs {folder}
cp -a {before}/. {folder}
"$@" || true
cp -a {folder}/. {after}
"""
"""Runs a command with `folder` on a file system of its own, in a name space of its own, and copies
out what is left."""


def on_a_small_disk(tmp_path: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A command on a small disk that holds what lies in tmp_path/before; what it leaves is in the
    folder returned."""
    folders = {name: tmp_path / name for name in ("folder", "before", "after")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    script = MOUNTED.format(size=SIZE_BYTES, **folders)
    isolated = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        *command,
    ]
    done = subprocess.run(
        isolated, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    return done, folders["after"]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where small disks are made; skips where the system lets no user mount one."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare on this system")
    (tmp_path / "trial").mkdir()
    done, _ = on_a_small_disk(tmp_path / "trial", "true")
    if done.returncode:
        pytest.skip(f"no user may mount a file system here ({done.stderr.strip()[:80]})")
    return tmp_path


def test_a_store_that_the_disk_cannot_hold_is_one_sentence_and_leaves_no_litter(
    disk: Path, golden: Golden
) -> None:
    """Also where it is the kernel package's tables that no longer fit: they are not what is at
    fault."""
    code = (
        "import os, sys; os.environ['MOE_ADVISOR_STORE'] = sys.argv.pop(); from advisor.cli "
        "import main; main()"
    )
    build = (sys.executable, "-c", code, "store", "build", str(disk / "folder/advisor.duckdb"))
    done, after = on_a_small_disk(disk, *build)
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    golden(advice=last.strip().rpartition("); ")[2])
    assert {path.name for path in after.iterdir()} <= {"advisor.duckdb.lock"}
