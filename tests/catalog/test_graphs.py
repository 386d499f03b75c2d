"""Captured CUDA graphs: sizes by release, what a scenario may state of them, and which steps they hold."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.catalog.engines import engines, load_engine
from advisor.catalog.graphs import Graphs, GraphServer, captured_sizes, stated_sizes
from advisor.prediction import AdvisorError

SERVER = GraphServer("Hopper sm_90")
BLACKWELL = GraphServer("Blackwell sm_100", 180 * 2**30)


def sizes(version: str, q: int, server: GraphServer = SERVER, engine: str = "vllm") -> list[int]:
    rule = load_engine(engine).graph_rule(version)
    assert rule is not None
    return captured_sizes(rule, server, q).tolist()


@pytest.mark.parametrize(("q", "largest"), [(1, 512), (2, 512), (4, 512), (6, 498), (8, 512)])
def test_the_largest_size_of_vllm_is_the_last_multiple_of_a_round_within_512(q: int, largest: int) -> None:
    """As `vllm/config/vllm.py` of 0.24.0 has it; `make test-engines` runs that code itself."""
    found = sizes("0.24.0", q)
    assert found[-1] == largest
    assert all(size % q == 0 for size in found)


def test_releases_differ_in_what_they_capture() -> None:
    few = GraphServer("Hopper sm_90", admitted=32)
    assert sizes("0.12.0", 4, few)[-1] == 64, "twice the requests, whatever each verifies"
    assert sizes("0.24.0", 4, few)[-1] == 256, "twice their tokens"
    assert sizes("0.27.1", 4, BLACKWELL)[-1] == 512
    assert sizes("0.28.0", 4, BLACKWELL)[-1] == 1024
    assert sizes("0.28.0", 5)[:4] == [5, 10, 20, 25]
    assert {size // 5 for size in sizes("0.33.0", 5)} >= {1, 2, 4, 8, 16, 24}, "numbers of requests on the grid"


def test_sglang_captures_by_requests_and_memory() -> None:
    small, large = GraphServer(memory_bytes=24 * 2**30), GraphServer(memory_bytes=79 * 2**30)
    assert sizes("0.5.23", 4, small, "sglang")[-1] == 4 * 48
    assert sizes("0.5.16", 4, small, "sglang")[-1] == 4 * 24
    assert sizes("0.5.23", 4, large, "sglang")[-1] == sizes("0.5.23", 2, large, "sglang")[-1] * 2 == 4 * 256
    assert sizes("0.5.23", 1, large, "sglang")[:6] == [1, 2, 4, 8, 12, 16]
    assert [size // 4 for size in sizes("0.5.23", 4, large, "sglang")][7:12] == [8, 10, 12, 14, 16]


def test_releases_that_were_not_read_have_no_rule() -> None:
    vllm = load_engine("vllm")
    assert vllm.graph_rule("0.10.2") is None
    assert vllm.graph_rule("0.34.0") is None
    assert load_engine("sglang").graph_rule("0.5.20") is None


@pytest.mark.parametrize("engine", [one for one in engines() if one.graphs], ids=lambda one: one.id)
def test_rules_stand_in_order_and_do_not_overlap(engine) -> None:  # type: ignore[no-untyped-def]
    def number(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    edges = [number(edge) for rule in engine.graphs for edge in (rule.since, rule.before)]
    assert edges == sorted(edges)


@pytest.mark.parametrize("text", ["", "many", "0", "1,,x", "70000", "1, 0", "-5", "5.5", "max_num_seqs=0"])
def test_what_says_no_sizes_is_refused_with_what_to_give(text: str) -> None:
    with pytest.raises(AdvisorError, match="graph_sizes"):
        stated_sizes(text)


def graphs(version: str = "0.24.0", engine: str = "vllm", **server: object) -> Graphs:
    rule = load_engine(engine).graph_rule(version)
    assert rule is not None
    return Graphs(version, rule, GraphServer("Hopper sm_90", **server))  # type: ignore[arg-type]


def test_steps_are_padded_up_or_held_by_no_graph() -> None:
    """K = 2: 4 sequences are 12 tokens, run as 18; K = 5: 83 sequences are the last, 84 run without a graph."""
    ran = graphs().ran(np.array([[4.0], [83.0], [84.0]]), np.array([3.0, 6.0]))
    assert ran.padding[0, 0] == pytest.approx(1.5)
    assert ran.padding[0, 1] == 1.0, "24 tokens are a size"
    assert ran.eager[:, 1].tolist() == [False, False, True]
    assert ran.padding[2, 1] == 1.0, "nothing is padded without a graph"
    assert not ran.eager[:, 0].any()


def test_a_fullest_rank_decides_where_sequences_do_not_divide() -> None:
    ran = graphs().ran(np.array([4.25]), np.array([1.0]))
    assert ran.padding[0] == pytest.approx(8 / 4.25)


def test_an_engine_that_does_not_pad_runs_a_batch_between_sizes_without_a_graph() -> None:
    ran = graphs("1.2.1", "trtllm").ran(np.array([31.0, 32.0, 33.0, 128.0, 129.0]), np.array([4.0]))
    assert ran.eager.tolist() == [False, False, True, False, True]
    assert (ran.padding == 1.0).all()


def test_a_server_without_graphs_holds_nothing() -> None:
    found = graphs(sizes=())
    assert found.largest(4) == 0
    assert found.ran(np.array([1.0, 64.0]), np.array([4.0])).eager.all()
