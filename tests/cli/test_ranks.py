"""`ranks` as a user calls it: without a trace, with one, with loads, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from advisor.physics.expert_ranks import drawn_choices, skewed_loads
from tests.command_line import run

RANKS = (
    "ranks",
    "--hardware",
    "h200-sxm",
    "--ep",
    "8",
    "--model",
    "qwen3-30b-a3b",
    "--batch",
    "16",
    "--k-max",
    "2",
    "--drafter",
    "eagle3",
    "--accepted-length",
    "2.4@3",
    "--hotter",
    "10",
)


def trace_file(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = drawn_choices(skewed_loads(128, 8, 0.5, 3, rng), 8, 20, 32, rng, 0.1, 0.2)
    np.save(folder / "trace.npy", ids.astype(np.uint8))
    return folder / "trace.npy"


def test_without_a_trace_the_ranks_are_drawn_and_called_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *RANKS)
    assert status == 0
    assert out.startswith("Qwen3-30B-A3B on 8 expert-parallel ranks")
    assert "note: Loads of ranks: assumed" in out
    assert "warning: Expert-parallel imbalance follows an assumed formula" in out
    headings = (
        "Layouts, each at its recommended K:",
        "Experts in order, by K:",
        "What hotter experts cost",
        "The same ranks with attention in other groups",
    )
    assert all(heading in out for heading in headings)


def test_a_trace_takes_the_place_of_the_assumption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *RANKS, "--trace", trace_file(tmp_path), "--json")
    assert status == 0
    told = json.loads(out)
    assert told["origin"] == "trace"
    assert told["scenario"]["routing"] == told["routing"] != "auto"
    assert [one["layout"] for one in told["layouts"]] == ["assumed", "in order", "balanced", "balanced, 8 copies"]
    assert not any("assumed formula" in text for text in told["warnings"])
    assert len(told["attention_splits"]) == 4


def test_loads_and_copies_are_taken_as_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loads.csv"
    rows = [f"{layer},{expert},{9 if expert < 16 else 1}" for layer in range(2) for expert in range(128)]
    file.write_text("\n".join(["layer,expert,tokens", *rows]))
    status, out, _ = run(capsys, *RANKS, "--expert-loads", file, "--copies", "0,16", "--json")
    assert status == 0
    told = json.loads(out)
    assert [one["redundant"] for one in told["layouts"]] == [0, 0, 0, 16]
    in_order, balanced = (told["layouts"][place]["fullest_rows_over_mean"][-1] for place in (1, 2))
    assert in_order > 3.0 > 2.0 > balanced  # 144 of 256 parts on one of eight ranks


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--ep", "1"), "give --ep"),
        (("--copies", "3"), "choose 0, 8 or 16 copies"),
        (("--copies", "x"), "--copies 'x'"),
        (("--hotter", "a"), "expected percentages"),
        (("--hotter", "0"), "above 0"),
        (("--trace", "no.npy"), "no.npy"),
        (("--expert-loads", "no.csv"), "no.csv"),
        (("--model", "command-a", "--ep", "1"), "dense"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run(capsys, *RANKS, *options)
    assert status == 2
    assert error.startswith("error: ")
    assert says in error
    assert error.count("\n") == 1


def test_a_trace_and_loads_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = tmp_path / "x.csv"
    loads.write_text("layer,expert,tokens\n" + "\n".join(f"0,{expert},1" for expert in range(128)))
    status, _, error = run(capsys, *RANKS, "--trace", trace_file(tmp_path), "--expert-loads", loads)
    assert (status, "not both" in error) == (2, True)


def test_a_trace_s_loads_are_written_and_taken_by_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "loads.txt"
    status, told, _ = run(capsys, "trace", trace_file(tmp_path), "--experts", 128, "--output", out)
    assert (status, f"--expert-loads {out}" in told) == (0, True)
    assumed, counted = (
        json.loads(run(capsys, "advise", *RANKS[1:-2], *more, "--json")[1])
        for more in ((), ("--expert-loads", out, "--redundant-experts", "8"))
    )
    assert counted["scenario"]["redundant_experts"] == 8
    assert any("assumed formula" in text for text in assumed["warnings"])
    assert not any("assumed formula" in text for text in counted["warnings"])
    assert any("counted on your loads" in text for text in counted["warnings"])


def test_a_log_without_ids_has_no_loads_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.json"
    log.write_text(json.dumps([{"batch_size": 2, "forward_mode": "decode", "expert_activation": 9.0}] * 3))
    status, _, error = run(capsys, "trace", log, "--experts", 128, "--active", 8, "--output", tmp_path / "x")
    assert status == 2
    assert error.count("\n") == 1
