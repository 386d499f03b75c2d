"""The commands that measure what was predicted: vLLM's own benchmarks at the scenario's batch, context, K and AL.

Options read in vLLM 0.33: vllm/benchmarks/forward (main.py, shapes.py, speculator.py), vllm/benchmarks/serve.py and
vllm/config/speculative.py (synthetic rejection sampling).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.engines.export import default_draft_model, default_served_model, method_for
from advisor.engines.vllm import vllm_speculative_config
from advisor.runtime import KRange, concave
from advisor.setup import Setup

NOT_TIMED = ("suffix",)
"""Methods that `vllm bench forward` cannot start with: it needs Model Runner V2, which has neither these nor EAGLE
heads that draft in parallel."""
PER_RANK = "_per_rank"
"""Ending of a case's name whose requests are one data-parallel rank's; the reader of the result goes by it."""
OUTPUT_TOKENS = 256
"""Output of each benchmark request, ours to choose: long enough to average over, short beside most contexts."""
REQUESTS_PER_SLOT = 4


@dataclass(frozen=True)
class CheckCommand:
    """One shell command and what its result is held against."""

    purpose: str
    command: str


def check_commands(
    setup: Setup, n_draft: int, *, served_model: str | None = None, draft_model: str | None = None
) -> tuple[CheckCommand, ...]:
    """Commands for the scenario's batch and context at one K >= 1. Only vLLM has them. Results upload into the page
    Data.

    Acceptance is synthetic: the scenario's accepted length is imposed, so the run tests the cost model alone.

    Raises AdvisorError as `export.export_scenario` does, for vLLM.
    """
    method = method_for(setup, "vllm")
    model = served_model or default_served_model(setup)
    draft = draft_model or default_draft_model(setup)
    config = _synthetic_config(setup, method, n_draft, draft)
    scenario, parallel = setup.scenario, _placement_words(setup)
    context = scenario.context_tokens
    batch = -(-scenario.batch_size // setup.placement.attention_groups)  # both benchmark and limit count one rank
    ending = PER_RANK if setup.placement.attention_groups > 1 else ""
    forward = [*_forward_words(setup), "--model", model, *parallel, "--load-format", "auto", "--routing", "real"]
    forward += ["--kv-len-jitter", "0"]
    verify = [*forward, "--speculative-config", config, "--exclude-drafter"]
    verify += ["--case", f"verify{ending}={batch}*{n_draft + 1}@{context + n_draft + 1}:{n_draft}"]
    timed = method not in NOT_TIMED and not (setup.drafter.parallel_drafting and method != "dflash")
    step = _command(f"Verification step at K = {n_draft}, target model alone", verify, "verify_step.json")
    server = ["vllm", "serve", model, *parallel, "--max-num-seqs", str(batch)]
    load = ["vllm", "bench", "serve", "--model", model, "--dataset-name", "random"]
    load += ["--random-input-len", str(max(1, context - OUTPUT_TOKENS // 2)), "--random-output-len", str(OUTPUT_TOKENS)]
    load += ["--ignore-eos", "--max-concurrency", str(scenario.batch_size)]
    load += ["--num-prompts", str(REQUESTS_PER_SLOT * scenario.batch_size)]
    load += ["--save-result", "--result-filename"]
    return (
        _command(
            "Plain decode step", [*forward, "--case", f"plain{ending}={batch}*1@{context + 1}"], "plain_step.json"
        ),
        *([step] if timed else []),
        CheckCommand("Server without speculation", shlex.join(server)),
        CheckCommand("Load on it", shlex.join([*load, "without_speculation.json"])),
        CheckCommand(
            f"Server with K = {n_draft} and the scenario's accepted length imposed",
            shlex.join([*server, "--speculative-config", config]),
        ),
        CheckCommand("The same load on it", shlex.join([*load, "with_speculation.json"])),
    )


def _command(purpose: str, words: Sequence[str], output: str) -> CheckCommand:
    return CheckCommand(purpose, shlex.join([*words, "--output-json", output]))


def _synthetic_config(setup: Setup, method: str, n_draft: int, draft_model: str | None) -> str:
    whole = (KRange(1, setup.scenario.batch_size, n_draft, 1.0),)
    config = vllm_speculative_config(whole, method, draft_model, parallel_drafting=setup.drafter.parallel_drafting)
    assert config is not None  # n_draft >= 1
    rates = np.diff(concave(setup.acceptance.accepted_length))[:n_draft]
    config["rejection_sample_method"] = "synthetic"
    config["synthetic_acceptance_rates"] = [round(float(rate), 4) for rate in rates]
    return json.dumps(config, separators=(",", ":"))


def _forward_words(setup: Setup) -> list[str]:
    gpus = setup.placement.gpus
    if gpus == 1:
        return ["vllm", "bench", "forward"]
    return ["torchrun", f"--nproc-per-node={gpus}", "-m", "vllm.entrypoints.cli.main", "bench", "forward"]


def _placement_words(setup: Setup) -> list[str]:
    placement = setup.placement
    words = ["--tensor-parallel-size", str(placement.tensor_parallel)]
    if placement.attention_groups > 1:
        words += ["--data-parallel-size", str(placement.attention_groups)]
    if placement.expert_parallel > 1:
        words.append("--enable-expert-parallel")
    if setup.cache.dtype == "fp8":
        words += ["--kv-cache-dtype", "fp8"]
    return words
