"""Routing traces that would be believed: copies, another model's, one rank's, absurd sizes."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from advisor.measured.ingest.traces import LayerCounts, read_trace, read_traces
from advisor.physics.routing_trace import fit_sequences
from advisor.prediction import AdvisorError
from tests.command_line import run
from tests.golden.sentences import lines_with
from tests.measured.test_ingest_traces import npy, synthetic
from tests.work import calls_of

IDS = synthetic(sequences=6, tokens=32, layers=3, n=16, k=4)
MODEL = LayerCounts(routed=3, every=4, n_active=4)


def test_a_sequence_counts_once_however_often_and_in_whatever_type_it_is_sent(golden):
    files = [("a.npy", npy(IDS)), ("b.npy", npy(IDS[2:4].astype(np.uint8))), ("c.npy", npy(IDS[0]))]
    read = read_traces(files, MODEL)
    assert len(read.sequences) == 6
    golden(sequences_equal=lines_with(read.layout, "3 sequences"))
    assert (
        fit_sequences(read.sequences, 16).fit
        == fit_sequences(read_trace(*files[0], MODEL).sequences, 16).fit
    )


@pytest.mark.parametrize(
    ("ids", "model", "words"),
    [
        (IDS, LayerCounts(3, 4, 8), "4 experts per token where the model has 8"),
        (IDS[:, :, 0], LayerCounts(48, 48, 4), "no axis of the model's 48 layers"),
        (IDS[0], LayerCounts(48, 48, 4), "no axis of the model's 48 layers"),
        (IDS, LayerCounts(2, 2, 4), "has 3 layers, the model 2"),
    ],
)
def test_what_cannot_be_the_named_models_is_refused(ids, model, words):
    with pytest.raises(AdvisorError, match=re.escape(words)):
        read_trace("trace.npy", npy(ids), model)


def test_layers_and_experts_of_a_model_that_is_not_shipped_can_be_given(capsys, tmp_path, golden):
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.npy")
        files[-1].write_bytes(npy(IDS[number]))
    code, out, _ = run(capsys, "trace", *files, "--experts", 16, "--layers", 3, "--active", 4)
    assert code == 0
    golden(sequences_tokens=out.splitlines()[0])
    code, _, err = run(capsys, "trace", *files, "--experts", 16, "--active", 2)
    assert (code, "4 experts per token where the model has 2" in err) == (2, True)
    code, _, err = run(capsys, "trace", *files, "--model", "qwen3-30b-a3b", "--layers", 3)
    assert (code, "need --experts" in err) == (2, True)


def test_absurd_numbers_of_experts_are_refused_and_cost_no_more_than_others(capsys, tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(IDS))

    def refused(experts: int) -> None:
        code, _, err = run(capsys, "trace", tmp_path / "a.npy", "--experts", experts)
        assert (code, "--experts" in err) == (2, True)

    refused(0)  # what is loaded once is loaded
    few = calls_of(lambda: refused(0))
    for experts in (-1, 1, 10**6, 10**12):
        assert calls_of(partial(refused, experts)) < 1.5 * few
