"""What cannot be answered ends with status 2, nothing on standard output, and one sentence that
says what to give."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from advisor.catalog.models import model_profile
from advisor.predict.scenario import write_loads
from tests.cli.test_explore import trace_file
from tests.command_line import QWEN, Run

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SHORT = {
    "QWEN": shlex.join(QWEN),
    "ONE": "gpt-oss-20b --gpus 1xH200",
    "RANK": "explore --models all --gpus 8xH200",
    "RANKS": f"expert-ranks {shlex.join(QWEN)} --k-max 2 --ep",
    "NGRAM": "--hardware h200-sxm --model qwen3-30b-a3b --drafter ngram --accepted-length 2.4@3",
}
"""Words that stand for several."""
FILES = {
    "hello": b"hello",
    "empty": b"",
    "pickle": b"\x80\x04\x95",
    "gzip": gzip.compress(b"hello", mtime=0),
    "rows.csv": b"speedup,batch_size,k\n1.5,4,3\n",
    "ab.csv": b"a,b\n1,2\n",
    "odd.csv": b"sessions,gamma,p50 TPOT (ms)\n1,0,5\n",
    "numpy": b"\x93NUMPY",
    "engine.yaml": b"engine: vllm",
    "twice.yaml": b"batch_size: [1, 1]",
    "none.yaml": b"model_id: [none.json]\nacceptance: 2.4@3\nbatch_size: 16\n",
    "zip.csv": b"PK\x03\x04",
    "quote.csv": b'"unclosed\n1,2',
    "latin.csv": "ü;ö\n".encode("latin-1"),
    "bytes.json": b"\xff\xfe\x00",
    "brace.json": b"{",
    "braces.json": b"{}",
    "broken/config.json": b'{"a":\n',
    "small/config.json": b'{"model_type": "mixtral"}',
    "mine.json": json.dumps(model_profile("olmoe-1b-7b").config).encode(),
    "qwen3-4b.json": json.dumps(model_profile("olmoe-1b-7b").config).encode(),
    "loads.txt": write_loads(np.ones((2, 128))).encode(),
    "loads.csv": b"layer,expert,tokens\n"
    + "\n".join(f"0,{expert},1" for expert in range(128)).encode(),
}
REFUSALS = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
"""A command, and what its one sentence says."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("refused") / "here"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    trace_file(folder)
    return folder


def spelt(command: str) -> list[str]:
    """The words of a command, its short words spelt out."""
    words = shlex.split(command.replace("FIXTURES", str(FIXTURES)))
    return [
        part for word in words for part in (shlex.split(SHORT[word]) if word in SHORT else [word])
    ]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_it_ends_with_one_sentence(
    refusal: str, kept: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command, _, said = refusal.partition(" | ")
    shutil.copytree(kept, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MOE_ADVISOR_STORE", str(tmp_path / "none.duckdb"))
    before = set((tmp_path / "here").rglob("*"))
    status, out, err = run(*spelt(command))
    sentences = [line for line in err.splitlines() if not line.startswith(("assumed: ", "  "))]
    assert (status, out, len(sentences)) == (2, "", 1), err
    assert sentences[0].startswith("error: ")
    assert said in err
    assert set((tmp_path / "here").rglob("*")) == before
