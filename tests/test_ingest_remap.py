"""A CSV under headers of its own, read by a mapping that the user gives."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from advisor.cli import main
from advisor.ingest import read_upload
from advisor.prediction import AdvisorError

OWN = b"# from our tool\nusers;drafted;gain;gap, mean\n1;3;1,9;5\n8;3;1,7;9\n"
MAPPING = {"users": "batch_size", "drafted": "draft_tokens_k", "gain": "speedup", "gap, mean": "itl_ms"}


def test_own_headers_are_read_by_a_mapping_with_units_and_the_file_s_own_hash() -> None:
    with pytest.raises(AdvisorError, match="not recognised"):
        read_upload("own.csv", OWN)
    read = read_upload("own.csv", OWN, columns=MAPPING)
    assert read.frame["batch_size"].tolist() == [1, 8]
    assert read.frame["draft_tokens_k"].tolist() == [3, 3]
    assert read.frame["speedup"].tolist() == [1.9, 1.7]
    assert read.frame["itl_s"].tolist() == pytest.approx([0.005, 0.009])
    assert read.frame.index.tolist() == [3, 4]
    assert read.sha256 == hashlib.sha256(OWN).hexdigest()


@pytest.mark.parametrize(
    ("data", "mapping", "message"),
    [
        (OWN, {"people": "batch_size"}, "is not in the header"),
        (b"a,a,b\n1,2,3\n", {"a": "batch_size"}, "twice"),
        (OWN, {"users": "itl"}, "give times a unit"),
        (OWN, {"users": "=1+1"}, "no column that is understood"),
        (b'{"a": 1}', {"a": "batch_size"}, "in a CSV only"),
        (OWN, {"users": "batch_size", "drafted": "batch_size", "gain": "speedup", "gap, mean": "k"}, "both give"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(data: bytes, mapping: dict[str, str], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        read_upload("own.csv", data, columns=mapping)


def test_the_command_takes_a_mapping(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_bytes(OWN)
    maps = [part for theirs, ours in MAPPING.items() for part in ("--map", f"{theirs}={ours}")]
    with pytest.raises(SystemExit) as stopped:
        main(["ingest", str(file), *maps])
    assert stopped.value.code == 0
    assert "2 rows usable, 0 refused" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["ingest", str(file), "--map", "users"])
    assert stopped.value.code == 2
    assert "--map 'users' is not theirs=ours" in capsys.readouterr().err
