"""`make test-engine-live`: a real vLLM on this machine's processor. Exit status 1 where something does not hold.

1. Two made-up designs are measured at three K with `advisor profile --engine`: every cell runs the tokens it was asked
   for and touches the experts of the law, and `ingest` reads the rows.
2. A table of K by batch, written by our export, is loaded by a live `vllm serve` with a made-up EAGLE-3 head: its
   /metrics and its log say that K by batch is obeyed and that K = 0 drafts nothing.

Times are printed and judged nowhere: the machine may be busy.
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
import threading
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

ROOT = Path(__file__).resolve().parents[1]
VERSION = "0.32.0"
TABLE = (KRange(1, 3, 2, 1.8), KRange(4, 7, 1, 1.5), KRange(8, 16, 0, 1.0))
"""K = 2, 1 and 0 by batch: one point of each range is served."""
SERVED = {2: 2, 5: 1, 12: 0}
"""K that each number of requests has to run at."""
TOKENS = 48
READY_S, ANSWER_S = 600.0, 300.0
OTHER_STEPS = 0.2
"""Share of steps and rounds at another K that arrivals and departures may leave: there the batch itself differs. [-]"""


def design(n_active: int, shared: int) -> dict[str, Any]:
    """A small Qwen3-MoE: 6 layers, since an EAGLE-3 head reads three of them."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": 6,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 4096,
        "num_experts": 32,
        "num_experts_per_tok": n_active,
        "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 256 * shared,
        "intermediate_size": 512,
        "decoder_sparse_step": 1,
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
    }


def measured(python: str, folder: Path) -> list[str]:
    """Problems of measuring two designs at three K. [] for none."""
    problems = []
    for n_active, shared in ((2, 0), (4, 1)):
        name = f"k{n_active}-shared{shared}"
        plan = Plan(
            model=design(n_active, shared),
            name=name,
            batches=(1, 4),
            drafts=(0, 1, 3),
            repeats=1,
            steps=6,
            engine_args={"enforce_eager": True},
        )
        outcome = run(plan, folder / name, python=python, budget_s=READY_S)
        print(f"{name}: {outcome.status} {outcome.counts} in {outcome.elapsed_s:.0f} s")
        problems += [f"{name}: {why}" for why in outcome.reasons if not why.endswith("measures them")]
        if set(outcome.counts) - {"ok", "noisy"}:
            problems.append(f"{name}: rows by status {outcome.counts}, ok or noisy were expected")
        rows = read_upload("data.csv", (folder / name / "data.csv").read_bytes().replace(b",noisy,", b",ok,"))
        for row in rows.result.frame.itertuples():
            print(f"  B {row.batch_size:g} K {row.draft_tokens_k:g}: {1e3 * row.step_time_s:.1f} ms")
        if len(rows.result.frame) != len(plan.cells):
            problems.append(f"{name}: ingest reads {len(rows.result.frame)} of {len(plan.cells)} rows")
    return problems


def launch_arguments(model: Path, head: Path) -> list[str]:
    """Arguments of `vllm serve` as our export writes them for TABLE."""
    document = json.dumps(design(4, 0))
    scenario = build_scenario(
        model_id="live",
        model_config_json=document,
        hardware_id="h200-sxm",
        drafter_id="eagle3",
        acceptance="2.0@3",
        engine_version="0.32.0",
    )
    setup = schedule_for(scenario).setup
    made = export_scenario(setup, TABLE, "vllm", draft_model=str(head), served_model=str(model))
    print(made.launch_line)
    words = shlex.split(made.launch_line.replace("\\\n", " "))
    return words[words.index("serve") + 1 :]


def write_model(folder: Path) -> tuple[Path, Path]:
    """(model, head): their config.json, and a tokenizer of made-up words, which a server asks for."""
    config = design(4, 0)
    model, head = folder / "model", folder / "eagle3-head"
    words = {f"w{index}": index for index in range(config["vocab_size"])}
    tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    tokenizer["model"] = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    files = {
        model / "config.json": config,
        model / "tokenizer.json": tokenizer,
        model / "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 2048},
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
    extra = ["--load-format", "dummy", "--enforce-eager", "--max-num-seqs", "16", "--max-model-len", "512"]
    extra += ["--host", "127.0.0.1", "--port", str(port), "--enable-logging-iteration-details"]
    command = [python, "-m", "vllm.entrypoints.cli.main", "serve", *launch_arguments(model, head), *extra]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | dict(os.environ)
    with (folder / "serve.log").open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
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
    """That many requests at once, TOKENS each, to their end."""

    def one(number: int) -> None:
        body = {"model": model, "prompt": [number + 1] * 8, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 1}
        asked = urllib.request.Request(
            f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:
            answer.read()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(requests)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def served(python: str, folder: Path) -> list[str]:
    """Problems of serving our table: K by batch from /metrics, and from the log by our reader."""
    problems = []
    with server(python, folder) as address:
        for requests, k in SERVED.items():
            before = counters(address)
            load(address, str(folder / "model"), requests)
            spent = counters(address) - before
            drafts, tokens = spent["drafts"], spent["draft_tokens"]
            mean = tokens / drafts if drafts else 0.0
            print(
                f"{requests} requests: {tokens} drafted tokens in {drafts} rounds with drafts, K {mean:.2f}, table {k}"
            )
            most = OTHER_STEPS * requests * TOKENS
            if k and abs(mean - k) > OTHER_STEPS:
                problems.append(
                    f"{requests} requests drafted {mean:.2f} tokens a round by /metrics, the table says {k}"
                )
            if not k and drafts > most:
                problems.append(f"{requests} requests drafted in {drafts} rounds by /metrics, the table says K = 0")
    log = (folder / "serve.log").read_bytes()
    frame = read_upload("serve.log", log).result.frame
    for row in frame.itertuples():
        print(f"  log: B {row.batch_size:g} K {row.draft_tokens_k:g}: {1e3 * row.step_time_s:.1f} ms; {row.notes}")
    for requests, k in SERVED.items():
        found = set(frame.loc[frame["batch_size"] == requests, "draft_tokens_k"])
        if k not in found:
            problems.append(f"the log has no steady steps of {requests} sequences at K = {k}, only at {sorted(found)}")
    return problems


def main() -> int:
    """Both parts. The engine's Python is given, or the one that `make test-engine-live` installed."""
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
