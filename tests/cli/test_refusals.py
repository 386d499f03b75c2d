"""What cannot be answered ends with status 2, nothing on standard output, and one sentence that says what to give."""

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
    "loads.csv": b"layer,expert,tokens\n" + "\n".join(f"0,{expert},1" for expert in range(128)).encode(),
}
REFUSALS = """
nonsense | nonsense
advise QWEN --gpu 8xH200 | no option --gpu; did you mean --gpus?
advise QWEN --batch | Option '--batch' requires an argument; e.g. `advisor advise
design --gpus 1xH200 --target-total 40 | 40 parameters are no size of a model; did you mean 40B?
advis | 'advis' is not one of the 24 commands; did you mean advise?
export | missing the model (MODEL), the GPUs (--gpus or --hardware) and output (--output); e.g. `advisor export deep
report --gpus 8xH200 | missing the model (MODEL) and output (--output); e.g.
report --example qwen | missing output (--output); e.g.
ingest | missing FILE...; e.g. `advisor ingest my_runs.csv --gpus 8xH200 --model
diagnose | missing FILE...; e.g. `advisor diagnose plain.json mtp.json --gpus
ingest rows.csv --drafter eagl3 | 'eagl3' is not one of the 11 drafters; did you mean eagle3
fit rows.csv --engine vlm | 'vlm' is not one of the 3 engines; did you mean vllm
advise ONE --concurrency 4 | is called --batch
validate engine.yaml --context 8k | --context is called --set context_tokens=8192 here
ingest rows.csv --gpus 8xH200 --gpus 1xH200 | --gpus is given more than once; give one
advise ONE --batch 1 --batch 2 | explore gpt-oss-20b --gpus 1xH200 --vary batch=1,2`
report ONE --brief -o a.md | --brief is one page as PDF
advise | missing the model (MODEL) and the GPUs (--gpus or --hardware); e.g. `advisor advise deepseek-ai/
advise | --example or --scenario
curve --gpus 8xH200 | missing the model (MODEL); e.g.
curve gpt-oss-20b | missing the GPUs (--gpus or --hardware); e.g.
curve gpt-oss-20b --gpus 8xRTX | RTX may be rtx-3090, rtx-4090
curve gpt-oss-20b --gpus 8xH200 --hardware b200-sxm | --gpus names h200-sxm already
curve gpt-oss-20b --model x --gpus 8xH200 | leave --model out
curve gpt-oss-20b --gpus 8xNone | 'None' is not one of the
curve gpt-oss-20b --gpus 0xH200 | --gpus 0: expected
curve deepsek-v3 --gpus 8xH200 | did you mean deepseek-v3
design --gpus 1xB200 --experts 64 --active 8 | missing the model to start from (MODEL, --target-total 40B or --shape
design 40b --gpus 1xB200 | 40b is a size, not a model; give it as --target-total 40b
curve QWEN --batches 1,x | --batches
curve QWEN --k 99 | K must lie
explain QWEN --k 99 | K = 99 is not considered; choose one from 0 to 8
advise QWEN --acceptance 0.5 | one of
advise QWEN --batch zero | zero
advise QWEN --batch 16.5 | '16.5' is not a whole number, e.g. 16
advise QWEN --batch 1.55M% | is not a whole number
advise gpt-oss-20b --gpus 1xH200 --accepted-length 5.6 | is not X@K
predict rows.csv --set nothing=1 | no column of a measured point has that name
advise QWEN --tp 3 --gpus 8 | does not divide
advise gpt-oss-20b --gpus 3xH100 --accepted-length 2.4@3 | neither divides 8 KV heads nor is a multiple of them
advise QWEN --engine tgi | tgi
advise QWEN --context long | 'long' is no number of tokens; type it as 4096, 128k (128,000), 128K (131,072)
advise no-such-model --gpus 1xH200 | no-such-model
advise missing/config.json --gpus 1xH200 | missing/config.json
advise broken/config.json --gpus 1xH200 | config.json: line 2
advise small/config.json --gpus 1xH200 | config.json of small: 
advise --example none | examples
advise --example qwen --scenario x.json | not both
advise --example qwen --hardware none | accelerators
advise --scenario none.json | none.json
advise gpt-oss-20b --hardware none.json | none.json
predict missing.csv | missing.csv
predict empty | empty
predict ab.csv | lacks
predict zip.csv | error: 
predict quote.csv | error: 
predict latin.csv | error: 
validate missing.csv | missing.csv
validate numpy | error: 
validate latin.csv | error: 
ingest hello | not recognised
ingest empty | empty
ingest absent.csv | absent.csv
fit absent.csv | absent.csv
fit FIXTURES/terminal/two.csv --gpus 8xH200 --model deepseek-v3 --engine vllm --drafter mtp | `advisor validate
fit rows.csv | `advisor fit rows.csv --gpus NxGPU --model MODEL --engine ENGINE --drafter DRAFTER`
predict rows.csv | `advisor predict rows.csv --gpus NxGPU --model MODEL --drafter DRAFTER`
predict rows.csv --gpus NxGPU | write it as 8xH200
fit pickle | pickle
fit gzip | not recognised
fit rows.csv --set speedup=2 | cannot be filled in
fit rows.csv --set hardware_id | not column=value
fit rows.csv --accepted-length 2.4@3 --acceptance 0.7,0.5 | not several
fit rows.csv --acceptance 2.4@3 | not a list of probabilities
trace ab.csv --experts 8 | sequence and token
trace numpy --experts 8 | damaged
trace hello | give --model ID or --experts N
trace hello --model command-a | dense
trace absent.csv --experts 8 | absent.csv
diagnose missing.json | cannot read missing.json
diagnose FIXTURES/diagnosis/README.md | not recognised
diagnose FIXTURES/diagnosis/honest.csv --set batch_size | is not column=value
diagnose FIXTURES/diagnosis/honest.csv --set tpot_s=1 | cannot be filled in
report --format pdf -o x.pdf | --hardware
report QWEN -o x.docx | .docx, which is no report format
report QWEN -o x | no ending
report QWEN --format pdf | --output
report QWEN --format docx -o x | docx
report QWEN --format md -o no/such/folder/x.md | no/such/folder
report QWEN --format md -o x.md --date yesterday | yesterday
report QWEN --ranks -o x.md | give --ep, e.g. --ep 8
report QWEN --min-total-params 1e11 -o x.md | --min-total-params needs --models
expert-ranks QWEN --ep 8 --trace trace.npy --expert-loads loads.txt | not both
expert-ranks QWEN --ep 8 --copies 3 | choose 0, 8 or 16 copies
report --scenario bytes.json -o x.md | bytes.json
report --scenario brace.json -o x.md | brace.json
report --scenario braces.json -o x.md | braces.json
schedule NGRAM --histogram 16 | batch:weight
schedule NGRAM --contexts x | contexts
export NGRAM | --output
export NGRAM --engine trtllm --output out | trtllm
export QWEN --output out | needs --draft-model
export NGRAM --output out --static-k 9 | static K=9
export NGRAM --output out --max-running-requests 0 | --max-running-requests
simulate NGRAM --trace missing.csv | missing.csv
simulate NGRAM --process trace | 'list', 'switching'
simulate NGRAM --requests 0 | requests
simulate NGRAM --seed -1 | seed
simulate NGRAM --process switching --good-share 2 | good_share
RANKS 1 | give --ep
RANKS 8 --copies 3 | choose 0, 8 or 16 copies
RANKS 8 --copies x | --copies 'x'
RANKS 8 --trace no.npy | no.npy
RANKS 8 --expert-loads no.csv | no.csv
RANKS 8 --trace trace.npy --expert-loads loads.csv | not both
expert-ranks command-a --gpus 1xH200 --ep 1 | dense
explore ONE | two to four models, each with --gpus; e.g. `advisor explore
explore ONE --users 4 | --users needs --models
explore ONE --workers 2 | --workers needs --vary or --plan
explore ONE --vary batch=1 --models all | give one of --vary
explore ONE --vary batch=1,1 | duplicate value
explore ONE --vary batch=0 | 0 is out of range
explore ONE --vary batch=many | --vary batch 'many' is not a comma-separated list of whole numbers, e.g. 1,2,4
advise ONE --batch 0 | --batch 0: expected at least 1
explore ONE --vary context=1,x | 'x' is no number of tokens
explore ONE --vary context=0 | contexts must lie in
explore ONE --vary bat=1 | did you mean batch? Else there are hardware, gpus, tp
explore ONE --vary model=a,b | rank models with --models, or name two to four
explore ONE --vary engine | engine: the list is empty
explore ONE --vary k-max=1 --vary k_max=2 | given twice
explore ONE --vary tp=3,5 | no combination is possible
explore ONE --vary drafter=eagle3,ngram | needs --accepted-length
explore ONE --vary hardware=h200-sxm | --gpus names the accelerators that --vary hardware varies
explore ONE --plan engine.yaml | --plan states every field; leave MODEL out
explore --plan engine.yaml --batch 4 | --plan states every field; leave --batch out
explore --plan engine.yaml -o out | engine.yaml: batch_size: expected whole numbers
explore --plan twice.yaml -o out | batch_size: duplicate value
explore --plan none.yaml -o out | none.json
explore --plan engine.yaml -o out --workers 0 | 0 is not in the range
explore mixtral mixtral mixtral mixtral mixtral | at most 4 stand side by side
explore mixtral none.json | none.json
explore gpt-oss-20b gpt-oss-120b | say on which GPUs
explore --models all | the GPUs are missing; give --gpus
RANK --batch 4 | --batch is of one model
RANK gpt-oss-20b | MODEL is of one model
RANK --users 0 | 0 users cannot be served
explore --models all --gpus 0 --hardware h200-sxm | --gpus 0: expected
advise ONE --gpus=1xB200 | or compare them: `advisor explore gpt-oss-20b --vary gpus=1xH200,1xB200`
explore ONE --engine vllm --engine sglang | `advisor explore gpt-oss-20b --gpus 1xH200 --vary engine=vllm,sglang`
advise ONE --plain-sweep odd.csv | --map sessions=batch_size --map gamma=draft_tokens_k --map 'p50 TPOT (ms)=
RANK --engine nope | engine
RANK --users 4 --histogram 1:1 | not both
RANK --histogram a:b | batch histogram
explore --gpus 8xH200 --models no-such-* | no shipped model
RANK --min-total-params 1e15 | no model takes part
RANK --accepted-length 2.4@3 | --accepted-length needs --drafter
RANK --drafter eagle3 | --drafter eagle3 needs --accepted-length
RANK --quality elo | need --scores FILE
RANK --usd-per-hour -1 | GPU-hour
RANK --config nowhere.json | nowhere.json
RANK --scores nowhere.csv | nowhere.csv
RANK --config mine.json --config mine.json | the name mine is given twice
RANK --config qwen3-4b.json | the name qwen3-4b is a shipped model's
rank --hardware h200-sxm --users 4 | now `advisor explore --models all`
sweep grid.yaml --output out | now `advisor explore --plan`
compare a b --gpus 1xH200 | now `advisor explore`
context a --contexts=1,2 | now `advisor explore --vary context=... --vary batch=...`
ranks a --ep 8 | now `advisor expert-ranks`
"""
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
    return [part for word in words for part in (shlex.split(SHORT[word]) if word in SHORT else [word])]


@pytest.mark.parametrize("refusal", REFUSALS.strip().splitlines())
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
