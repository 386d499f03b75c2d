"""A disk that is really full: a file system of four megabytes, where the system lets a user mount one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from advisor.measured.kept_uploads import list_uploads, read_upload, save_upload

ROOT = Path(__file__).resolve().parents[2]
SIZE_BYTES = 4 * 2**20
SHA = "ab" * 32
MOUNTED = """
set -e
mount -t tmpfs -o size={size} tmpfs {folder}
cp -a {before}/. {folder}
"$@" || true
cp -a {folder}/. {after}
"""
"""Runs a command with `folder` on a file system of its own, in a name space of its own, and copies out what is left."""
SAVE = """
import sys
import pandas as pd
from advisor.prediction import AdvisorError
from advisor.measured.kept_uploads import list_uploads, read_upload, save_upload

path = sys.argv[1]
big = pd.DataFrame({"notes": [f"{i} " * 40 for i in range(60_000)]})
for name, rows in (("big", big), ("big again", big), ("small", big[:10])):
    try:
        print(name, "saved", save_upload(rows, name=name, sha256="cd" * 32, path=path))
    except AdvisorError as error:
        print(name, "refused:", error)
    listed = list_uploads(path)["dataset_id"]
    print(len(listed), "listed", sum(len(read_upload(one, path)) for one in listed))
"""


def on_a_small_disk(tmp_path: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """A command on a small disk that holds what lies in tmp_path/before; what it leaves is in the folder returned."""
    folders = {name: tmp_path / name for name in ("folder", "before", "after")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    script = MOUNTED.format(size=SIZE_BYTES, **folders)
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    done = subprocess.run(isolated, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done, folders["after"]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where small disks are made; skips where the system lets no user mount one."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare on this system: the full disk of test_faults, made by hand, has to do")
    (tmp_path / "trial").mkdir()
    done, _ = on_a_small_disk(tmp_path / "trial", "true")
    if done.returncode:
        pytest.skip(f"no user may mount a file system here ({done.stderr.strip()[:80]}): test_faults' has to do")
    return tmp_path


def test_a_save_on_a_full_disk_loses_nothing_and_says_to_free_space(disk: Path) -> None:
    (disk / "before").mkdir()
    small = pd.DataFrame({"speedup": [1.5] * 300})
    for number in range(3):
        save_upload(small, name=f"n{number}", sha256=f"{number:064x}"[::-1], path=disk / "before/uploads.duckdb")
    done, after = on_a_small_disk(disk, sys.executable, "-c", SAVE, str(disk / "folder/uploads.duckdb"))
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    for line in lines[0:4:2]:
        assert "refused:" in line
        assert "free some space and try again; nothing was changed" in line
    assert lines[1] == lines[3] == "3 listed 900"
    assert lines[4].startswith("small saved"), "the disk has room for a small one"
    assert lines[5] == "4 listed 910"
    listed = list_uploads(after / "uploads.duckdb")
    assert sum(len(read_upload(str(one), after / "uploads.duckdb")) for one in listed["dataset_id"]) == 910


def test_a_store_that_the_disk_cannot_hold_is_one_sentence_and_leaves_no_litter(disk: Path) -> None:
    """Also where it is the kernel package's tables that no longer fit: they are not what is at fault."""
    code = "import os, sys; os.environ['MOE_ADVISOR_STORE'] = sys.argv.pop(); from advisor.cli import main; main()"
    build = (sys.executable, "-c", code, "store", "build", str(disk / "folder/advisor.duckdb"))
    done, after = on_a_small_disk(disk, *build)
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert "free some space and try again; nothing was changed" in last
    assert {path.name for path in after.iterdir()} <= {"advisor.duckdb.lock"}
