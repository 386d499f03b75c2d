"""`advisor sweep`: a file in, a folder of Parquet out, one sentence for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.command_line import run


def test_a_sweep_writes_its_parts_and_says_how_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "grid.yaml", tmp_path / "out"
    file.write_text("acceptance: 2.4@3\nhardware_id: [h100-sxm, h200-sxm]\nbatch_size: [1, 8]\nk_max: 2\n")
    status, text, _ = run(capsys, "sweep", file, "--output", out, "--dry-run")
    assert (status, text) == (0, "4 scenarios: 2 combinations at 2 batches\n")
    assert not out.exists()
    status, text, _ = run(capsys, "sweep", file, "--output", out)
    assert status == 0
    assert text.startswith("4 scenarios: 1 part in ")
    assert len(pd.read_parquet(out / "part-000000.parquet")) == 12
    status, text, _ = run(capsys, "sweep", file, "--output", out, "--json")
    assert (json.loads(text)["found"], json.loads(text)["scenarios"]) == (1, 4)


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("engine: vllm", (), "grid.yaml: batch_size: expected whole numbers"),
        ("batch_size: 1", ("--workers", "2", "--ray", "x:1"), "give --workers or --ray, not both"),
        ("batch_size: 1", ("--workers", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "grid.yaml").write_text(content)
    status, _, err = run(capsys, "sweep", tmp_path / "grid.yaml", "--output", tmp_path / "out", *arguments)
    assert status == 2
    assert words in err
