"""Processes that save uploads, killed (kill -9) at drawn moments: what was lost, what still works."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from advisor.measured.kept_uploads import list_uploads, read_upload, save_upload
from advisor.prediction import AdvisorError
from tests.measured.test_kept_uploads import SHA, kill_while_saving, sweep

KILLS = 160
SEED = 160
LONGEST_WAIT_S = 0.4
"""Two to three saves of 2,000 rows take as long. [s]"""
ROWS_A_SAVE = 2000


def killed_once(folder: Path, wait_s: float) -> tuple[int, int, str]:
    """(saves kept, rows lost, what went wrong) after one kill; a save that follows must work."""
    path = folder / "uploads.duckdb"
    kept = save_upload(sweep(), name="kept", sha256=SHA, path=path)
    kill_while_saving(path, after_saves=1, wait_s=wait_s)
    try:
        listed = list_uploads(path)
        lost = sum(int(row.n_rows) - len(read_upload(str(row.dataset_id), path)) for row in listed.itertuples())
        lost += len(sweep()) - len(read_upload(kept, path)) + (0 if len(listed) >= 2 else ROWS_A_SAVE)
        new = save_upload(sweep(), name="next", sha256="ef" * 32, path=path)
        lost += len(sweep()) - len(read_upload(new, path))
    except AdvisorError as error:
        return 0, ROWS_A_SAVE, str(error)
    return len(listed), lost, ""


def main(kills: int = KILLS) -> None:
    """Print kills, rows lost, files that did not work afterwards, and how far apart the kills fell."""
    rng, started_s = np.random.default_rng(SEED), time.perf_counter()
    kept, lost, wrong = [], 0, []
    for wait_s in rng.uniform(0.0, LONGEST_WAIT_S, kills):
        with tempfile.TemporaryDirectory() as folder:
            saves, rows, problem = killed_once(Path(folder), float(wait_s))
        kept.append(saves)
        lost += rows
        wrong += [problem] if problem else []
    print(f"{'kills':>6}{'rows lost':>11}{'broken files':>14}{'saves kept, least':>19}{'most':>6}{'s':>8}")
    print(f"{kills:>6}{lost:>11}{len(wrong):>14}{min(kept):>19}{max(kept):>6}{time.perf_counter() - started_s:>8.0f}")
    for problem in wrong:
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
