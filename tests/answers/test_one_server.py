"""The server that is priced is the one that the printed command starts, over models, engines and
releases."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from advisor.answers import by_batch
from advisor.answers.advice import Advice, advise
from advisor.answers.best_k import KRange, k_running_at
from advisor.answers.by_batch import ServeChoice, schedule_for
from advisor.answers.engines.config import EngineExport, per_rank
from advisor.answers.engines.export import export_scenario
from advisor.answers.engines.graphs import largest_needed, with_largest
from advisor.catalog.engines import load_engine
from advisor.catalog.hardware import hardware_ids
from advisor.catalog.models import model_ids
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, nearest_acceptance, usual_drafter
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.words.answer import draft_to_name, name_to_serve

RELEASES = {
    engine: tuple(rule.since for rule in load_engine(engine).graphs)
    for engine in ("vllm", "sglang")
}
QWEN = Scenario(
    model_id="qwen3-235b-a22b",
    hardware_id="h200-sxm",
    n_gpus=8,
    tensor_parallel=8,
    acceptance="2.9@3",
    engine_version="0.24.0",
    batch_size=300,
    k_max=5,
)


def drawn(seed: int, n: int) -> Iterator[tuple[Advice, EngineExport]]:
    """Answers with a release, and what is exported for them; those that cannot be are redrawn."""
    rng = np.random.default_rng(seed)
    left = n
    while left:
        scenario = _scenario(rng)
        try:
            advice = advise(scenario)
            export = _export(advice)
        except AdvisorError:
            continue
        left -= 1
        yield advice, export


def _scenario(rng: np.random.Generator) -> Scenario:
    model_id = str(rng.choice(model_ids()))
    drafter_id = usual_drafter(model_id)
    engine = str(rng.choice(list(RELEASES)))
    gpus = int(rng.choice((1, 2, 4, 8, 8, 16)))
    k = int(rng.integers(1, 6))
    length = 1.0 + k * rng.uniform(0.3, 0.95)
    is_measured = rng.random() < 0.3
    return Scenario(
        model_id=model_id,
        hardware_id=str(rng.choice(hardware_ids())),
        n_gpus=gpus,
        tensor_parallel=min(gpus, 8) if rng.random() < 0.8 else 1,
        drafter_id=drafter_id,
        engine=engine,
        engine_version=str(rng.choice(RELEASES[engine])),
        acceptance=nearest_acceptance(model_id, drafter_id) if is_measured else f"{length:.2f}@{k}",
        batch_size=int(np.exp(rng.uniform(0, np.log(1000)))),
        context_tokens=int(np.exp(rng.uniform(np.log(256), np.log(8192)))),
        k_max=max(k, int(rng.choice([4, 8]))),
        max_tpot_ms=float(rng.choice([15, 40])) if rng.random() < 0.2 else None,
    )


def _export(advice: Advice) -> EngineExport:
    engine = advice.scenario.engine
    return export_scenario(
        advice.setup,
        advice.to_serve,
        engine,
        served_model=name_to_serve(advice),
        draft_model=draft_to_name(advice, engine, None),
        capture=advice.decided.capture,
    )


def captured(line: str) -> str | None:
    """Largest graph that a launch line asks for. None where it leaves them to the release."""
    words = shlex.split(line)
    if "--cuda-graph-max-bs-decode" in words:
        return words[words.index("--cuda-graph-max-bs-decode") + 1]
    if "--compilation-config" in words:
        config = json.loads(words[words.index("--compilation-config") + 1])
        return str(config["max_cudagraph_capture_size"])
    return None


def table(export: EngineExport, last: int) -> list[int]:
    """K that the printed configuration runs at batches 1 to `last` of one attention group."""
    words = shlex.split(export.launch_line)
    config = export.config or {}
    if rows := config.get("num_speculative_tokens_per_batch_size"):
        return [k for first, end, k in rows for _ in range(first, end + 1)]
    if export.file_name:
        starts = sorted((int(first), slot["candidate_steps"][0]) for first, slot in config.items())
        ends = [*(first for first, _ in starts[1:]), last + 1]
        return [k for (first, k), end in zip(starts, ends, strict=True) for _ in range(first, end)]
    if "num_speculative_tokens" in config:
        return [config["num_speculative_tokens"]] * last
    for option, extra in (
        ("--speculative-num-draft-tokens", 1),
        ("--speculative-dspark-block-size", 0),
    ):
        if option in words:
            return [int(words[words.index(option) + 1]) - extra] * last
    return [0] * last


def sizes(setup: Setup) -> dict[int, list[int]]:
    """Captured sizes by the tokens that a request verifies. [tokens]"""
    assert setup.graphs is not None
    return {q: setup.graphs.sizes(q).tolist() for q in range(1, setup.longest_step + 1)}


def differences(advice: Advice, export: EngineExport) -> list[str]:
    """Where the server that the command starts has another answer than the one given."""
    scenario = advice.scenario
    groups = advice.setup.placement.attention_groups
    wrong = []
    largest = captured(export.launch_line)
    if largest is None:
        again = by_batch._decided(load_setup(scenario), None, ServeChoice())
    else:
        again = schedule_for(scenario.model_copy(update={"graph_sizes": largest}))
    if again.to_serve != advice.to_serve:
        wrong.append(f"K by batch {again.to_serve}, not {advice.to_serve}")
    if sizes(again.setup) != sizes(advice.setup):
        wrong.append(f"captured sizes {sizes(again.setup)}, not {sizes(advice.setup)}")
    if not np.array_equal(again.curve.speedup, advice.curve.speedup):
        wrong.append("speedups")
    ranges = per_rank(advice.to_serve, groups)
    last = ranges[-1].batch_end
    printed = table(export, last)
    if printed != k_running_at(ranges, np.arange(1, last + 1)).tolist():
        wrong.append(f"the command runs {printed}")
    return [f"{text} ({scenario.to_query()}): {export.launch_line}" for text in wrong]


def check(seed: int, n: int) -> Counter[str]:
    """Differences of drawn answers, which there are none of; what kinds of command they had."""
    counts: Counter[str] = Counter()
    for advice, export in drawn(seed, n):
        assert differences(advice, export) == []
        capture = advice.decided.capture
        counts["captures"] += capture is not None
        counts["cycles"] += capture is not None and not capture.settled
        counts["table"] += len({part.k_running for part in advice.to_serve}) > 1
        counts["one K for want of a table"] += advice.decided.fixed_k is not None
        counts[advice.scenario.engine] += 1
    return counts


def test_the_printed_command_starts_the_server_that_is_priced() -> None:
    counts = sum((check(seed, 10) for seed in range(4)), Counter())
    assert min(counts["captures"], counts["vllm"], counts["sglang"]) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 110))
def test_the_printed_command_starts_the_server_that_is_priced_over_a_thousand(seed: int) -> None:
    assert check(seed, 100)["table"] > 0


def test_with_larger_graphs_fewer_drafts_are_right_at_large_batches() -> None:
    """By the graphs that vLLM 0.24 captures itself K = 5 stood at 257 to 424: all K were launched
    kernel by kernel there."""
    by_itself = by_batch._decided(load_setup(QWEN), None, ServeChoice())
    settled = schedule_for(QWEN)
    assert int(k_running_at(by_itself.to_serve, 400)) > 2
    assert int(k_running_at(settled.to_serve, 300)) == 2
    assert int(k_running_at(settled.to_serve, 400)) == 2
    capture = settled.capture
    assert capture is not None
    assert capture.settled
    assert capture.gain > 0.02
    assert capture.by_itself < 512 < capture.largest


@pytest.mark.parametrize(("accepted", "drafts"), [("2.6@3", True), ("1.3@3", False)])
def test_a_server_that_drafts_nothing_for_want_of_graphs_is_given_them(
    accepted: str, drafts: bool
) -> None:
    """With its own graphs that server runs K = 0 at every batch, whatever is accepted."""
    asked = QWEN.model_copy(update={"acceptance": accepted, "drafter_id": "eagle3"})
    by_itself = by_batch._decided(load_setup(asked), None, ServeChoice())
    settled = schedule_for(asked)
    assert not by_itself.drafts
    assert settled.drafts == drafts
    assert (settled.capture is not None) == drafts
    assert (int(k_running_at(settled.to_serve, 300)) > 0) == drafts


def test_graphs_that_gain_little_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.answers.engines.graphs.MIN_GAIN", 0.5)
    settled = schedule_for(QWEN)
    assert settled.capture is None
    assert settled.setup.graphs == load_setup(QWEN).graphs
    assert captured(_export(advise(QWEN)).launch_line) is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "other"])
@pytest.mark.parametrize("mode", ["full", "pieces", "none"])
def test_every_graph_mode_that_is_stated_is_answered(engine: str, mode: str) -> None:
    """Without graphs no size holds a round, so none is looked for."""
    asked = QWEN.model_copy(
        update={"engine": engine, "engine_version": None, "graph_mode": mode, "batch_size": 16}
    )
    settled = schedule_for(asked)
    assert settled.drafts
    assert settled.capture is None


def test_a_cycle_ends_at_the_fastest_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([1568, 800, 1568])
    monkeypatch.setattr(by_batch, "largest_needed", lambda *_: next(sizes))
    settled = schedule_for(QWEN)
    assert settled.capture is not None
    assert not settled.capture.settled
    assert settled.capture.largest == 1568
    assert settled.setup.graphs is not None
    assert settled.setup.graphs.server.largest == 1568


def test_the_largest_size_holds_every_round_and_is_the_first_that_does() -> None:
    """K = 5 up to batch 83 is what vLLM 0.24 captures by itself; one sequence more is not."""
    graphs = load_setup(QWEN).graphs
    assert graphs is not None
    assert largest_needed(graphs, (KRange(1, 83, 5, 1.5),), 1) is None
    ranges = (KRange(1, 84, 5, 1.5), KRange(85, 300, 1, 1.2))
    largest = largest_needed(graphs, ranges, 1)
    assert largest is not None
    for size, holds in ((largest, True), (largest - 16, False)):
        server = with_largest(graphs, size)
        assert (min(server.largest(6), server.largest(2)) >= 600) == holds
    assert largest_needed(graphs, ranges, 1, limit=80) is None, "no more requests are admitted"
    assert largest_needed(graphs, (KRange(1, 900, 0, 1.0),), 1) is None, "nothing is drafted"


@pytest.mark.parametrize(
    ("engine", "stated", "option"),
    [
        ("vllm", "none", "--enforce-eager"),
        ("vllm", "8,16", '{"cudagraph_capture_sizes":[8,16]}'),
        ("vllm", "256", '{"max_cudagraph_capture_size":256}'),
        ("vllm", "max_num_seqs=64", "--max-num-seqs"),
        ("sglang", "none", "--disable-cuda-graph"),
        ("sglang", "8,16", "--cuda-graph-bs-decode"),
        ("sglang", "256", "--cuda-graph-max-bs-decode"),
    ],
)
def test_graphs_that_are_stated_stand_in_the_command(engine: str, stated: str, option: str) -> None:
    version = {"vllm": "0.33.0", "sglang": "0.5.23"}[engine]
    update = {"engine": engine, "engine_version": version, "graph_sizes": stated}
    line = _export(advise(QWEN.model_copy(update=update))).launch_line
    assert option in shlex.split(line)


def test_the_curve_of_another_context_is_of_the_same_server() -> None:
    settled = schedule_for(QWEN, contexts=(1024,))
    assert settled.others is not None
    setup, curve = settled.others[1024]
    assert setup.graphs == settled.setup.graphs
    assert np.array_equal(curve.speedup, curve_for(setup, curve.batches).speedup)
