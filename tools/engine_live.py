"""`make test-engine-live`: a real vLLM on this machine's processor. Exit status 1 where something
does not hold.

1. Two made-up designs are measured at three K with `advisor profile --engine`: every cell runs the
   tokens it was asked for and touches the experts of the law, and `ingest` reads the rows.
2. A table of K by batch, written by our export, is loaded by a live `vllm serve` with a made-up
   EAGLE-3 head: its /metrics and its log say that K by batch is obeyed in every step and that K = 0
   drafts nothing.

Times are printed and judged nowhere: the machine may be busy, and cells that it disturbed are left
out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.answers.best_k import KRange
from advisor.answers.by_batch import schedule_for
from advisor.answers.engines.export import export_scenario
from advisor.measured.ingest.read import read_upload
from advisor.predict.scenario import build_scenario
from advisor.profiling.engine.plan import Plan, head_config
from advisor.profiling.engine.runner import end, run
from tools.engine_data_set import Design, design

ROOT = Path(__file__).resolve().parents[1]
VERSION = "0.32.0"
TABLE = (KRange(1, 3, 2, 1.8), KRange(4, 7, 1, 1.5), KRange(8, 16, 0, 1.0))
"""K = 2, 1 and 0 by batch: one point of each range is served."""
SERVED = (2, 5, 12)
"""Requests at once, a batch of each range."""
TRACED = "0.6/0.5/0.7,0.05/0.03/0.1,0.1/0.05/0.2"
"""A routing with skew and correlation, as `advisor trace` prints one."""
STEP = re.compile(
    r"Iteration\(\d+\): (\d+) context requests, \d+ context tokens, (\d+) generation requests, "
    r"(\d+) generation tokens"
)
TOKENS = 48
READY_S = 600.0
ANSWER_S = 300.0


def small(n_active: int, shared: int) -> dict[str, Any]:
    """The data set's Qwen3-MoE, smaller. It has 6 layers, since an EAGLE-3 head reads three of
    them."""
    sizes = {
        "num_hidden_layers": 6,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "vocab_size": 4096,
    }
    return design(Design(n_active, 256, 256 * shared, n_experts=32)) | sizes


def measured(python: str, folder: Path) -> list[str]:
    """Problems of measuring two designs at three K. [] for none."""
    problems = []
    for n_active, shared, routing in ((2, 0, "uniform"), (4, 1, TRACED)):
        name = f"k{n_active}-shared{shared}"
        plan = Plan(
            model=small(n_active, shared),
            name=name,
            batches=(1, 4),
            drafts=(0, 1, 3),
            repeats=1,
            steps=6,
            routing=routing,
            engine_args={"enforce_eager": True},
        )
        outcome = run(plan, folder / name, python=python, budget_s=READY_S)
        print(f"{name}: {outcome.status} {outcome.counts} in {outcome.elapsed_s:.0f} s")
        problems += [
            f"{name}: {why}" for why in outcome.reasons if not why.endswith("measures them")
        ]
        if set(outcome.counts) - {"ok", "noisy"}:
            problems.append(f"{name}: rows by status {outcome.counts}, ok or noisy were expected")
        # A noisy cell ran what it was asked for; its time is left out, whichever cells the machine
        # disturbed.
        read = read_upload("data.csv", (folder / name / "data.csv").read_bytes()).result
        for row in read.frame.itertuples():
            print(
                f"  B {row.batch_size:g} K {row.draft_tokens_k:g}: {1e3 * row.step_time_s:.1f} ms"
            )
        for row in read.rejects.itertuples():
            print(f"  {row.value}: {row.reason}")
        if len(read.frame) != outcome.counts.get("ok", 0) or set(read.rejects["value"]) - {"noisy"}:
            problems.append(
                f"{name}: ingest reads {len(read.frame)} rows of {outcome.counts}, all that are "
                "ok and no other"
            )
    return problems


def launch_arguments(model: Path, head: Path) -> list[str]:
    """Arguments of `vllm serve` as our export writes them for TABLE."""
    document = json.dumps(small(4, 0))
    scenario = build_scenario(
        model_id="live",
        model_config_json=document,
        hardware_id="h200-sxm",
        drafter_id="eagle3",
        acceptance="2.0@3",
        engine_version=VERSION,
    )
    setup = schedule_for(scenario).setup
    made = export_scenario(setup, TABLE, "vllm", draft_model=str(head), served_model=str(model))
    print(made.launch_line)
    words = shlex.split(made.launch_line.replace("\\\n", " "))
    return words[words.index("serve") + 1 :]


def write_model(folder: Path) -> tuple[Path, Path]:
    """(model, head): their config.json, and a tokenizer of made-up words, which a server asks
    for."""
    config = small(4, 0)
    model = folder / "model"
    head = folder / "eagle3-head"
    words = {f"w{index}": index for index in range(config["vocab_size"])}
    tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    tokenizer["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    files = {
        model / "config.json": config,
        model / "tokenizer.json": tokenizer,
        model / "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 2048,
        },
        head / "config.json": head_config(Plan(model=config, name="live")),
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return model, head


@contextlib.contextmanager
def server(python: str, folder: Path) -> Iterator[str]:
    """Address of a live `vllm serve`, ended with all its processes. Its log is folder/serve.log."""
    model, head = write_model(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    extra = [
        "--load-format",
        "dummy",
        "--enforce-eager",
        "--max-num-seqs",
        "16",
        "--max-model-len",
        "512",
    ]
    extra += ["--host", "127.0.0.1", "--port", str(port), "--enable-logging-iteration-details"]
    command = [
        python,
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        *launch_arguments(model, head),
        *extra,
    ]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    } | dict(os.environ)
    with (folder / "serve.log").open("wb") as log:
        child = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            began = time.monotonic()
            while not _healthy(port):
                if child.poll() is not None or time.monotonic() - began > READY_S:
                    tail = (folder / "serve.log").read_text(errors="replace").splitlines()[-15:]
                    raise SystemExit("error: vllm serve is not ready:\n" + "\n".join(tail))
                time.sleep(1.0)
            print(f"vllm serve is ready after {time.monotonic() - began:.0f} s")
            yield f"http://127.0.0.1:{port}"
        finally:
            end(child)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def counters(address: str) -> Counter[str]:
    """Rounds with drafts and drafted tokens so far, from /metrics. [-]"""
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: Counter[str] = Counter()
    for name, value in re.findall(
        r"^vllm:spec_decode_num_(drafts|draft_tokens)_total\{[^}]*\} ([0-9.e+]+)", text, re.M
    ):
        found[name] += int(float(value))
    return found


def load(address: str, model: str, requests: int) -> None:
    """That many sequences at once, TOKENS each, to their end."""
    prompts = [[number + 1] * 8 for number in range(requests)]
    body = {
        "model": model,
        "prompt": prompts,
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 1,
    }
    asked = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
        answer.read()


def table_k(sequences: int) -> int:
    """K that TABLE has for a batch."""
    return next(one.n_draft for one in TABLE if one.batch_start <= sequences <= one.batch_end)


def served(python: str, folder: Path) -> list[str]:
    """Problems of serving our table: K of every step in the log, the same by /metrics, and rows by
    our reader."""
    with server(python, folder) as address:
        for requests in SERVED:
            before = counters(address)
            load(address, str(folder / "model"), requests)
            spent = counters(address) - before
            print(
                f"{requests} requests: {spent['draft_tokens']} drafted tokens in "
                f"{spent['drafts']} rounds with drafts"
            )
        spent = counters(address)
    log = (folder / "serve.log").read_bytes()
    problems = []
    drafted = Counter[str]()
    last = (0, 0)
    for prompts, sequences, tokens in (
        map(int, found) for found in STEP.findall(log.decode(errors="replace"))
    ):
        drafted += Counter(
            draft_tokens=tokens - sequences, drafts=sequences if tokens > sequences else 0
        )
        # Drafts are made one step ahead, for the batch of then: where the batch stayed, K is the
        # table's, always.
        if sequences and last == (0, sequences) and tokens != sequences * (1 + table_k(sequences)):
            problems.append(
                f"a step of {sequences} sequences carried {tokens} tokens, the table says "
                f"{table_k(sequences)}"
            )
        last = (prompts, sequences)
    if drafted != spent:
        problems.append(f"/metrics has {dict(spent)}, the steps of the log {dict(drafted)}")
    frame = read_upload("serve.log", log).result.frame
    for row in frame.itertuples():
        print(
            f"  log: B {row.batch_size:g} K {row.draft_tokens_k:g}: {1e3 * row.step_time_s:.1f} "
            f"ms; {row.notes}"
        )
    read = set(zip(frame["batch_size"], frame["draft_tokens_k"], strict=True))
    if wrong := {(batch, k) for batch, k in read if k != table_k(int(batch))}:
        problems.append(f"our reader has rows (B, K) {sorted(wrong)}, which are not the table's")
    if missing := {(one, table_k(one)) for one in SERVED} - read:
        problems.append(f"our reader has no steady steps of (B, K) {sorted(missing)}")
    return problems


def main() -> int:
    """Both parts. The engine's Python is given, or the one that `make test-engine-live`
    installed."""
    parse = argparse.ArgumentParser(prog="python -m tools.engine_live")
    parse.add_argument("--engine-python", default=str(ROOT / ".engine-venv" / "bin" / "python"))
    python = parse.parse_args().engine_python
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        problems = measured(python, Path(scratch)) + served(python, Path(scratch))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{time.strftime('%Y-%m-%d')}, vllm-cpu {VERSION}: {'failed' if problems else 'passed'}")
    print(f"in {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
